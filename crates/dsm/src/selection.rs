//! Include and exclude statements of TSM, translated into those of `policy`.
//!
//! 1. The order stays: both read the list from the bottom, after the statements on file systems and
//!    directories.
//! 2. A plain `exclude` is about backups and space management, so it becomes two statements. They
//!    stand side by side, so that their order among all statements stays.
//! 3. A statement that could not be carried out and that changes which files are kept is a
//!    [`Fault`]. A statement that changes nothing here is needless, with its reason.

mod listing;

use policy::statement::{Operation, Rule, Treatment};
use policy::{Pattern, PatternError};

use crate::options::{Entry, Fate, Fault, Place};
use crate::words::words;

pub use listing::{ListedStatement, listed_of_server, listing};

/// A statement, as it stands in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    pub place: Place,
    /// Verb with its suffix, in lower case and in full, as in `exclude.dir`.
    pub keyword: &'static str,
    /// Pattern, as it was written, without quotes.
    pub pattern: Vec<u8>,
    /// Management class of an include statement.
    pub class: Option<String>,
    /// Statements of Holdfast with the same effect.
    pub rules: Vec<Rule>,
    pub fate: Fate,
    /// Remark for the person who reads the check.
    pub remark: Option<&'static str>,
}

/// The translation of a list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Translation {
    pub statements: Vec<Statement>,
    pub faults: Vec<Fault>,
}

impl Translation {
    /// Lets statements on file systems leave out directories that VIRTUALMOUNTPOINT names, even
    /// while the settings of the node do not make them filespaces of their own. Versions of what is
    /// in such a directory stay, as those of a file system do.
    pub fn leave_out_points(&mut self, points: &[Vec<u8>]) {
        for statement in &mut self.statements {
            let Some(Rule::ExcludeFs(pattern)) = statement.rules.first().cloned() else { continue };
            let named = points.iter().filter(|point| pattern.matches(point));
            let named = named.filter_map(|point| Pattern::of_path(point).ok());
            let rules: Vec<Rule> = named.map(Rule::ExcludeContent).collect();
            if !rules.is_empty() {
                statement.remark = Some(
                    "the content of a directory of VIRTUALMOUNTPOINT is left out, and its versions \
                     stay",
                );
                statement.rules.extend(rules);
            }
        }
    }

    /// Returns the list of statements in Holdfast's form, one on each line.
    pub fn list(&self) -> Vec<u8> {
        let rules = self.statements.iter().flat_map(|statement| &statement.rules);
        rules.flat_map(|rule| [rule.written(), b"\n".to_vec()].concat()).collect()
    }

    /// Returns the list for files that a command names: without statements on directories, which
    /// have no effect on such files.
    pub fn list_of_named(&self) -> Vec<u8> {
        let rules = self.statements.iter().flat_map(|statement| &statement.rules);
        let rules = rules.filter(|rule| is_about_named(rule));
        rules.flat_map(|rule| [rule.written(), b"\n".to_vec()].concat()).collect()
    }

    /// Returns the place of the statement that has become the line `line` of the list, counted from
    /// 1.
    pub fn place_of(&self, line: usize) -> Option<&Place> {
        self.place(line, |_| true)
    }

    /// Does the same as [`Self::place_of`] for a line of [`Self::list_of_named`].
    pub fn place_of_named(&self, line: usize) -> Option<&Place> {
        self.place(line, is_about_named)
    }

    fn place(&self, line: usize, is_listed: fn(&Rule) -> bool) -> Option<&Place> {
        let lines = self.statements.iter().flat_map(|statement| {
            let rules = statement.rules.iter().filter(move |rule| is_listed(rule));
            rules.map(|_| &statement.place)
        });
        lines.into_iter().nth(line.checked_sub(1)?)
    }
}

/// Returns true for a rule that has an effect on files that a command names.
fn is_about_named(rule: &Rule) -> bool {
    !matches!(rule, Rule::ExcludeDir(_) | Rule::ExcludeContent(_))
}

/// Translates statements in their order.
pub fn translate<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Translation {
    let mut translation = Translation::default();
    for entry in entries {
        match statement(entry) {
            Ok(statement) => translation.statements.push(statement),
            Err(reason) => translation.faults.push(Fault { place: entry.place.clone(), reason }),
        }
    }
    let (statements, faults) = translation.parts();
    heed_links(statements, faults);
    translation
}

impl Translation {
    fn parts(&mut self) -> (&mut Vec<Statement>, &mut Vec<Fault>) {
        (&mut self.statements, &mut self.faults)
    }
}

/// Name of the statement that includes symbolic links again.
const INCLUDE_LINKS: &str = "include.attribute.symlink";

/// Refuses statements that include symbolic links again, if a statement before them leaves some
/// out. Without such a statement they have no effect.
fn heed_links(statements: &mut [Statement], faults: &mut Vec<Fault>) {
    let mut leaves_out = false;
    for statement in statements {
        leaves_out |= statement.keyword == "exclude.attribute.symlink";
        if statement.keyword == INCLUDE_LINKS && leaves_out {
            let reason = "include.attribute.symlink takes links back that a statement above it \
                          leaves out; write patterns of exclude.attribute.symlink that leave these \
                          links alone";
            faults.push(Fault { place: statement.place.clone(), reason: reason.to_owned() });
        }
    }
}

fn statement(entry: &Entry) -> Result<Statement, String> {
    let all = words(&entry.value).map_err(|error| error.to_string())?;
    let keyword = keyword(entry.definition.spelling);
    let rest = all.get(1..).unwrap_or_default();
    let Some((pattern, others)) = rest.split_first() else {
        return Err(format!("{keyword} needs a pattern"));
    };
    let fate = entry.definition.fate;
    let mut statement = Statement {
        place: entry.place.clone(),
        keyword,
        pattern: pattern.clone(),
        class: None,
        rules: Vec::new(),
        fate,
        remark: None,
    };
    if let Fate::Needless(_) = fate {
        let is_class = |word: &Vec<u8>| !word.contains(&b'=');
        if keyword == "include.image" && others.iter().any(is_class) {
            statement.remark = Some(
                "an image has the class of a statement 'include DEVICE CLASS' that names its disk",
            );
        }
        return Ok(statement);
    }
    read_rest(&mut statement, others)?;
    if statement.keyword == INCLUDE_LINKS {
        return Ok(statement);
    }
    let text = adapted(keyword, pattern)?;
    let parse = if keyword == "exclude.fs" { Pattern::of_mount_points } else { Pattern::parse };
    let parsed = parse(&text)
        .map_err(|error| format!("'{}': {}", model::escaped(pattern), advice(error)))?;
    statement.rules = rules(keyword, &parsed, statement.class.clone());
    if keyword == "include.encrypt" {
        statement.remark = Some(
            "the node needs a key for these files, which 'holdfast key create' makes; without one \
             nothing is sent",
        );
    }
    if keyword != "exclude.dir" && parsed.directories_only() {
        statement.remark = Some(
            "a pattern that ends with a slash matches no file; exclude.dir is for directories",
        );
    }
    Ok(statement)
}

/// Returns the keyword of a definition, such as `EXCLude.dir`, in lower case.
fn keyword(spelling: &'static str) -> &'static str {
    KEYWORDS
        .into_iter()
        .find(|keyword| keyword.eq_ignore_ascii_case(spelling))
        .unwrap_or(spelling)
}

const KEYWORDS: [&str; 33] = [
    "exclude",
    "exclude.backup",
    "exclude.file",
    "exclude.file.backup",
    "exclude.archive",
    "exclude.dir",
    "exclude.fs",
    "exclude.attribute.symlink",
    "exclude.spacemgmt",
    "exclude.compression",
    "exclude.dedup",
    "exclude.encrypt",
    "exclude.image",
    "exclude.fs.nas",
    "exclude.vmdisk",
    "exclude.vmlocaldisk",
    "include",
    "include.backup",
    "include.file",
    "include.archive",
    "include.attribute.symlink",
    "include.spacemgmt",
    "include.compression",
    "include.dedup",
    "include.encrypt",
    "include.image",
    "include.fs",
    "include.fs.nas",
    "include.vm",
    "include.vmdisk",
    "include.vmlocaldisk",
    "include.vmsnapshotattempts",
    "include.vmtsmvss",
];

/// Reads the words after the pattern: a class, or options of single statements.
fn read_rest(statement: &mut Statement, others: &[Vec<u8>]) -> Result<(), String> {
    let keyword = statement.keyword;
    for word in others {
        let text = model::escaped(word);
        let takes_class =
            matches!(keyword, "include" | "include.backup" | "include.file" | "include.archive");
        let object = text.split_once('=').filter(|(name, _)| {
            keyword == "exclude.dedup" && name.eq_ignore_ascii_case("ieobjtype")
        });
        match object {
            Some((_, kind)) if kind.eq_ignore_ascii_case("file") => {}
            Some(_) => return Err(format!("{keyword} is about files here; remove '{text}'")),
            None if keyword == "include.spacemgmt" && statement.class.is_none() => {
                statement.class = Some(text);
                statement.remark =
                    Some("a migrated file has the class of its backup, by an include statement");
            }
            None if takes_class && statement.class.is_none() => {
                if !policy::is_name(&text) {
                    return Err(format!("'{text}' is not the name of a management class"));
                }
                statement.class = Some(text);
            }
            None => {
                return Err(format!(
                    "'{text}' after the pattern has no meaning in {keyword}; a pattern with blanks \
                     stands in quotes"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the pattern as Holdfast writes it.
fn adapted(keyword: &str, pattern: &[u8]) -> Result<Vec<u8>, String> {
    if !pattern.starts_with(b"/") {
        return Err(format!(
            "'{}' does not begin with a slash; write '/.../{}' for any directory",
            model::escaped(pattern),
            model::escaped(pattern)
        ));
    }
    let mut text = pattern.to_vec();
    // In TSM a pattern may end with the wildcard of directories: it means everything in them.
    if text.ends_with(b"/...") {
        text.extend_from_slice(b"/*");
    } else if text.ends_with(b"/.../") {
        text.push(b'*');
    }
    if keyword == "exclude.fs" && text.len() > 1 && text.ends_with(b"/") {
        text.pop();
    }
    Ok(text)
}

fn advice(error: PatternError) -> String {
    match error {
        PatternError::Empty => {
            "it names the root directory; write the files or directories in it".to_owned()
        }
        error => error.to_string(),
    }
}

/// Returns the rules of a statement that is carried out.
fn rules(keyword: &str, pattern: &Pattern, class: Option<String>) -> Vec<Rule> {
    let pattern = || pattern.clone();
    let exclude =
        |operation, symlinks_only| Rule::Exclude { pattern: pattern(), operation, symlinks_only };
    let include = |operation| Rule::Include { pattern: pattern(), operation, class };
    let treat = |treatment, is_on| Rule::Treat { pattern: pattern(), treatment, is_on };
    let space = |is_on| treat(Treatment::SpaceManagement, is_on);
    match keyword {
        "exclude" => vec![exclude(Operation::Backup, false), space(false)],
        "exclude.backup" | "exclude.file" | "exclude.file.backup" => {
            vec![exclude(Operation::Backup, false)]
        }
        "exclude.archive" => vec![exclude(Operation::Archive, false)],
        "exclude.attribute.symlink" => vec![exclude(Operation::Backup, true)],
        "exclude.dir" => vec![Rule::ExcludeDir(pattern())],
        "exclude.fs" => vec![Rule::ExcludeFs(pattern())],
        "exclude.spacemgmt" => vec![space(false)],
        "exclude.compression" => vec![treat(Treatment::Compression, false)],
        "exclude.dedup" => vec![treat(Treatment::Deduplication, false)],
        "exclude.encrypt" => vec![treat(Treatment::Encryption, false)],
        "include" => vec![include(None), space(true)],
        "include.file" => vec![include(None)],
        "include.backup" => vec![include(Some(Operation::Backup))],
        "include.archive" => vec![include(Some(Operation::Archive))],
        "include.spacemgmt" => vec![space(true)],
        "include.compression" => vec![treat(Treatment::Compression, true)],
        "include.dedup" => vec![treat(Treatment::Deduplication, true)],
        "include.encrypt" => vec![treat(Treatment::Encryption, true)],
        _ => Vec::new(),
    }
}

/// Parses a list that `INCLEXCL` names into entries.
pub fn parse_list(path: &str, bytes: &[u8]) -> (Vec<Entry>, Vec<Fault>) {
    let (entries, mut faults) = crate::options::parse(path, bytes);
    let is_statement = |entry: &Entry| entry.definition.kind == crate::options::Kind::Statement;
    let (statements, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_statement);
    faults.extend(others.into_iter().map(|entry| Fault {
        reason: format!(
            "{} is an option and no statement; move it to dsm.sys or dsm.opt",
            entry.definition.name()
        ),
        place: entry.place,
    }));
    (statements, faults)
}

#[cfg(test)]
mod tests;
