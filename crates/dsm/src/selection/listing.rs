//! The list of `query inclexcl`: all statements in the order in which they are looked at.

use policy::Pattern;
use policy::statement::{Operation, Rule, Treatment};

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

/// Returns the statements of the node and those of the server, which stand below them, in the order
/// in which they are looked at: first those on file systems, then those on directories, then the
/// others, each from the bottom.
pub fn listing(translation: &Translation, of_server: &[ListedStatement]) -> Vec<ListedStatement> {
    let own = translation.statements.iter().map(listed);
    let mut all: Vec<ListedStatement> = own.chain(of_server.iter().cloned()).rev().collect();
    all.sort_by_key(rank);
    all
}

/// Returns the place of the statements of this kind among the others.
fn rank(statement: &ListedStatement) -> u8 {
    match (statement.mode, statement.function) {
        ("Excl", "Filespace" | "FSType") => 0,
        ("Excl", "Directory" | "Content" | "Tag") => 1,
        _ => 2,
    }
}

fn listed(statement: &Statement) -> ListedStatement {
    let (verb, suffix) = statement.keyword.split_once('.').unwrap_or((statement.keyword, ""));
    ListedStatement {
        mode: mode(verb != "exclude"),
        function: function(suffix),
        pattern: model::escaped(&statement.pattern),
        source: match &statement.place {
            crate::options::Place::File { path, .. } => path.clone(),
            crate::options::Place::CommandLine => "command line".to_owned(),
        },
        class: statement.class.clone(),
    }
}

fn mode(includes: bool) -> &'static str {
    if includes { "Incl" } else { "Excl" }
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

/// Returns the lines of the statements that the option set `set` of the server gives the node. The
/// two that a plain exclude of TSM becomes are one line, as such a statement of the node is.
pub fn listed_of_server<'r>(
    set: &str,
    rules: impl IntoIterator<Item = &'r Rule>,
) -> Vec<ListedStatement> {
    let mut lines = Vec::new();
    let mut rules = rules.into_iter().peekable();
    while let Some(rule) = rules.next() {
        let mut line = listed_rule(set, rule);
        if rules.next_if(|next| are_of_plain_exclude(rule, next)).is_some() {
            line.function = "All";
        }
        lines.push(line);
    }
    lines
}

/// Returns true if a plain exclude of TSM becomes these two rules.
fn are_of_plain_exclude(first: &Rule, second: &Rule) -> bool {
    match (first, second) {
        (
            Rule::Exclude { pattern, operation: Operation::Backup, symlinks_only: false },
            Rule::Treat { pattern: same, treatment: Treatment::SpaceManagement, is_on: false },
        ) => pattern == same,
        _ => false,
    }
}

fn listed_rule(set: &str, rule: &Rule) -> ListedStatement {
    let text = |pattern: &Pattern| model::escaped(pattern.as_bytes());
    let (includes, function, pattern) = match rule {
        Rule::ExcludeAny(pattern) => (false, "All", text(pattern)),
        Rule::Exclude { pattern, symlinks_only: true, .. } => (false, "Attribute", text(pattern)),
        Rule::Exclude { pattern, operation, .. } => (false, about(*operation), text(pattern)),
        Rule::Include { pattern, operation, .. } => {
            (true, operation.map_or("All", about), text(pattern))
        }
        Rule::ExcludeDir(pattern) => (false, "Directory", text(pattern)),
        Rule::ExcludeContent(pattern) => (false, "Content", text(pattern)),
        Rule::ExcludeFs(pattern) => (false, "Filespace", text(pattern)),
        Rule::ExcludeFsType(types) => (false, "FSType", model::escaped(types.join(" ").as_bytes())),
        Rule::ExcludeTagged(name) => (false, "Tag", model::escaped(name)),
        Rule::Treat { pattern, treatment, is_on } => (*is_on, treated(*treatment), text(pattern)),
    };
    let class = match rule {
        Rule::Include { class, .. } => class.clone(),
        _ => None,
    };
    let source = format!("Server ({})", model::printable(set));
    ListedStatement { mode: mode(includes), function, pattern, source, class }
}

fn about(operation: Operation) -> &'static str {
    match operation {
        Operation::Backup => "Backup",
        Operation::Archive => "Archive",
    }
}

fn treated(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Compression => "Compress",
        Treatment::Deduplication => "Dedup",
        Treatment::Encryption => "Encrypt",
        Treatment::SpaceManagement => "HSM",
    }
}
