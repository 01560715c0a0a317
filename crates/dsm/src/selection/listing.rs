//! The list of `query inclexcl`: all statements in the order in which they are looked at.

use super::{Statement, Translation};

/// A line of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedStatement {
    /// `Excl` or `Incl`.
    pub mode: &'static str,
    /// Kind of the statement in one word, such as `Directory`.
    pub function: &'static str,
    pub pattern: String,
    pub source: String,
    pub class: Option<String>,
}

/// Returns the statements: first those on file systems and directories, then the others from the
/// bottom.
pub fn listing(translation: &Translation) -> Vec<ListedStatement> {
    let is_first =
        |statement: &&Statement| matches!(statement.keyword, "exclude.fs" | "exclude.dir");
    let all = || translation.statements.iter().rev();
    let filesystems = all().filter(|statement| statement.keyword == "exclude.fs");
    let directories = all().filter(|statement| statement.keyword == "exclude.dir");
    let others = all().filter(|statement| !is_first(statement));
    filesystems.chain(directories).chain(others).map(listed).collect()
}

fn listed(statement: &Statement) -> ListedStatement {
    let (verb, suffix) = statement.keyword.split_once('.').unwrap_or((statement.keyword, ""));
    ListedStatement {
        mode: if verb == "exclude" { "Excl" } else { "Incl" },
        function: function(suffix),
        pattern: model::escaped(&statement.pattern),
        source: match &statement.place {
            crate::options::Place::File { path, .. } => path.clone(),
            crate::options::Place::CommandLine => "command line".to_owned(),
        },
        class: statement.class.clone(),
    }
}

fn function(suffix: &str) -> &'static str {
    match suffix {
        "" => "All",
        "fs" => "Filespace",
        "dir" => "Directory",
        "archive" => "Archive",
        "spacemgmt" => "HSM",
        "compression" => "Compress",
        "dedup" => "Dedup",
        "encrypt" => "Encrypt",
        "image" => "Image",
        "attribute.symlink" => "Attribute",
        "backup" | "file" | "file.backup" => "Backup",
        "fs.nas" => "NAS",
        _ => "VM",
    }
}
