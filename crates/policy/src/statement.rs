//! Include and exclude statements as they are written, one on each line.
//!
//! ```text
//!   exclude              PATTERN          files of backups
//!   exclude.backup       PATTERN          the same      (also exclude.file, exclude.file.backup)
//!   exclude.archive      PATTERN          files of archives
//!   exclude.dir          PATTERN          directories with all that is below them
//!   exclude.content      PATTERN          content of directories; what is stored of it stays
//!   exclude.fs           PATTERN          whole file systems, by mount point
//!   exclude.fstype       TYPE...          whole file systems, by type
//!   exclude.tag          NAME             objects in directories that hold a file of this name
//!   exclude.attribute.symlink PATTERN     symbolic links
//!   include              PATTERN [CLASS]  files, bound to a class (also .file, .backup, .archive)
//!   include.compression  PATTERN          files to compress (also .dedup, .encrypt, .spacemgmt)
//!   exclude.compression  PATTERN          files not to compress (with the same other suffixes)
//! ```
//!
//! Words are separated by blanks; a word with blanks stands in double or single quotes. A line that
//! begins with `*` or `#` is a comment. Keywords may be in upper or lower case.

use std::fmt;

use crate::{Pattern, PatternError};

/// Name of the tag file that has an effect only if it begins with [`CACHE_TAG_SIGNATURE`].
pub const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// First bytes of a valid `CACHEDIR.TAG`. Source: Bryan Ford, "Cache Directory Tagging
/// Specification".
pub const CACHE_TAG_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Maximum number of bytes in one list of statements.
pub const LIST_BYTES_MAX: usize = 4 << 20;

/// Source of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The `--exclude` number `index` of the command, counted from 0.
    CommandLine { index: usize },
    /// A line, counted from 1, of a file on the node.
    File { path: String, line: usize },
    /// A line of an option set that the server sends.
    OptionSet { name: String, line: usize },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine { index } => write!(f, "--exclude number {}", index + 1),
            Self::File { path, line } => write!(f, "{path} line {line}"),
            Self::OptionSet { name, line } => write!(f, "option set {name} line {line}"),
        }
    }
}

/// Operation on objects that a statement is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Backup,
    Archive,
}

/// Treatment of a file's data that statements allow or forbid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    Compression,
    Deduplication,
    Encryption,
    /// Migration of the data off the node.
    SpaceManagement,
}

/// Meaning of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// `--exclude`: everything that matches, directories with everything in them.
    ExcludeAny(Pattern),
    /// Files that match; if `symlinks_only` is true, only the symbolic links among them.
    Exclude {
        pattern: Pattern,
        operation: Operation,
        symlinks_only: bool,
    },
    /// Files that match, which get `class`. If `operation` is `None`, the rule is for backups and
    /// archives.
    Include {
        pattern: Pattern,
        operation: Option<Operation>,
        class: Option<String>,
    },
    ExcludeDir(Pattern),
    /// Content of directories that match. The directories themselves are included, and versions of
    /// what is in them stay as they are.
    ExcludeContent(Pattern),
    ExcludeFs(Pattern),
    ExcludeFsType(Vec<String>),
    ExcludeTagged(Vec<u8>),
    Treat {
        pattern: Pattern,
        treatment: Treatment,
        is_on: bool,
    },
}

impl Rule {
    /// The rule as a line that [`parse_list`] reads. The rule of `--exclude` is an exception: its
    /// line cannot be read.
    pub fn written(&self) -> Vec<u8> {
        let line = |words: &[&[u8]]| words.join(&b' ');
        let of = |verb: &str, operation: Option<Operation>| match operation {
            None => verb.to_owned(),
            Some(Operation::Backup) => format!("{verb}.backup"),
            Some(Operation::Archive) => format!("{verb}.archive"),
        };
        match self {
            Self::ExcludeAny(pattern) => line(&[b"--exclude", &quoted(pattern.as_bytes())]),
            Self::Exclude { pattern, symlinks_only: true, .. } => {
                line(&[b"exclude.attribute.symlink", &quoted(pattern.as_bytes())])
            }
            Self::Exclude { pattern, operation, .. } => {
                let operation = Some(*operation).filter(|of| *of == Operation::Archive);
                line(&[of("exclude", operation).as_bytes(), &quoted(pattern.as_bytes())])
            }
            Self::Include { pattern, operation, class } => {
                let verb = of("include", *operation);
                let pattern = quoted(pattern.as_bytes());
                match class {
                    None => line(&[verb.as_bytes(), &pattern]),
                    Some(class) => line(&[verb.as_bytes(), &pattern, class.as_bytes()]),
                }
            }
            Self::ExcludeDir(pattern) => line(&[b"exclude.dir", &quoted(pattern.as_bytes())]),
            Self::ExcludeContent(pattern) => {
                line(&[b"exclude.content", &quoted(pattern.as_bytes())])
            }
            Self::ExcludeFs(pattern) => line(&[b"exclude.fs", &quoted(pattern.as_bytes())]),
            Self::ExcludeFsType(types) => {
                let types = types.iter().map(|of_type| quoted(of_type.as_bytes()));
                let words: Vec<_> = [b"exclude.fstype".to_vec()].into_iter().chain(types).collect();
                words.join(&b' ')
            }
            Self::ExcludeTagged(name) => line(&[b"exclude.tag", &quoted(name)]),
            Self::Treat { pattern, treatment, is_on } => {
                let verb = if *is_on { "include" } else { "exclude" };
                let what = match treatment {
                    Treatment::Compression => "compression",
                    Treatment::Deduplication => "dedup",
                    Treatment::Encryption => "encrypt",
                    Treatment::SpaceManagement => "spacemgmt",
                };
                line(&[format!("{verb}.{what}").as_bytes(), &quoted(pattern.as_bytes())])
            }
        }
    }
}

/// The word, in quotes if it needs them.
fn quoted(word: &[u8]) -> Vec<u8> {
    let is_plain = !word.is_empty()
        && !word.iter().any(u8::is_ascii_whitespace)
        && !word.starts_with(b"\"")
        && !word.starts_with(b"'");
    match (is_plain, word.contains(&b'"')) {
        (true, _) => word.to_vec(),
        (false, false) => [b"\"", word, b"\""].concat(),
        (false, true) => [b"'", word, b"'"].concat(),
    }
}

/// A rule and its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    pub source: Source,
    pub rule: Rule,
}

/// Reason why a line is not a statement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{source_shown}: {reason}")]
pub struct StatementError {
    /// Source of the line, as text.
    source_shown: String,
    reason: Reason,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum Reason {
    #[error(
        "'{0}' is not a statement; statements are exclude, exclude.dir, exclude.fs, include ..."
    )]
    Unknown(String),
    #[error("{0} is for an operation that this version does not have yet")]
    Missing(String),
    #[error("'{pattern}': {error}")]
    Pattern { pattern: String, error: PatternError },
    #[error("{0} takes {1}")]
    Words(String, &'static str),
    #[error("a quote is not closed")]
    Quote,
    #[error("'{0}' is not the name of a class")]
    Class(String),
    #[error("the list is longer than {LIST_BYTES_MAX} bytes")]
    TooLong,
}

/// Parses a list of statements, one on each line. `source` returns the source of the line with a
/// number.
pub fn parse_list(
    text: &[u8],
    source: impl Fn(usize) -> Source,
) -> Result<Vec<Statement>, StatementError> {
    let failed = |line, reason| StatementError { source_shown: source(line).to_string(), reason };
    if text.len() > LIST_BYTES_MAX {
        return Err(failed(1, Reason::TooLong));
    }
    let mut statements = Vec::new();
    for (line, text) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let rule = parse_line(text).map_err(|reason| failed(line, reason))?;
        statements.extend(rule.map(|rule| Statement { source: source(line), rule }));
    }
    Ok(statements)
}

fn parse_line(line: &[u8]) -> Result<Option<Rule>, Reason> {
    let words = words(line)?;
    let Some((keyword, rest)) = words.split_first() else { return Ok(None) };
    if keyword.starts_with(b"*") || keyword.starts_with(b"#") {
        return Ok(None);
    }
    let keyword = model::escaped(keyword).to_ascii_lowercase();
    let (verb, suffix) = keyword.split_once('.').unwrap_or((&keyword, ""));
    let rule = match verb {
        "exclude" => parse_exclude(&keyword, suffix, rest),
        "include" => parse_include(&keyword, suffix, rest),
        _ => Err(Reason::Unknown(keyword.clone())),
    };
    rule.map(Some)
}

fn parse_exclude(keyword: &str, suffix: &str, words: &[Vec<u8>]) -> Result<Rule, Reason> {
    let exclude = |operation, symlinks_only| {
        Ok(Rule::Exclude { pattern: only_pattern(keyword, words)?, operation, symlinks_only })
    };
    match suffix {
        "" | "backup" | "file" | "file.backup" => exclude(Operation::Backup, false),
        "archive" => exclude(Operation::Archive, false),
        "attribute.symlink" => exclude(Operation::Backup, true),
        "dir" => Ok(Rule::ExcludeDir(only_pattern(keyword, words)?)),
        "content" => Ok(Rule::ExcludeContent(only_pattern(keyword, words)?)),
        "fs" => Ok(Rule::ExcludeFs(parsed(only_word(keyword, words)?, Pattern::of_mount_points)?)),
        "fstype" if !words.is_empty() => {
            let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
            Ok(Rule::ExcludeFsType(words.iter().map(text).collect()))
        }
        "fstype" => Err(Reason::Words(keyword.to_owned(), "types of file systems")),
        "tag" => match words {
            [name] if !name.is_empty() && !name.contains(&b'/') => {
                Ok(Rule::ExcludeTagged(name.clone()))
            }
            _ => Err(Reason::Words(keyword.to_owned(), "the name of a file")),
        },
        suffix => treat(keyword, suffix, words, false),
    }
}

fn parse_include(keyword: &str, suffix: &str, words: &[Vec<u8>]) -> Result<Rule, Reason> {
    let operation = match suffix {
        "" | "file" => None,
        "backup" | "file.backup" => Some(Operation::Backup),
        "archive" => Some(Operation::Archive),
        suffix => return treat(keyword, suffix, words, true),
    };
    let (text, class) = match words {
        [text] => (text, None),
        [text, class] => (text, Some(model::escaped(class))),
        _ => return Err(Reason::Words(keyword.to_owned(), "a pattern and an optional class")),
    };
    if let Some(class) = class.as_ref().filter(|class| !crate::is_name(class)) {
        return Err(Reason::Class(class.clone()));
    }
    Ok(Rule::Include { pattern: pattern(text)?, operation, class })
}

fn treat(keyword: &str, suffix: &str, words: &[Vec<u8>], is_on: bool) -> Result<Rule, Reason> {
    let treatment = match suffix {
        "compression" => Treatment::Compression,
        "dedup" => Treatment::Deduplication,
        "encrypt" => Treatment::Encryption,
        "spacemgmt" => Treatment::SpaceManagement,
        "image" | "fs" => {
            return Err(Reason::Missing(keyword.to_owned()));
        }
        _ => return Err(Reason::Unknown(keyword.to_owned())),
    };
    Ok(Rule::Treat { pattern: only_pattern(keyword, words)?, treatment, is_on })
}

fn only_pattern(keyword: &str, words: &[Vec<u8>]) -> Result<Pattern, Reason> {
    pattern(only_word(keyword, words)?)
}

fn only_word<'w>(keyword: &str, words: &'w [Vec<u8>]) -> Result<&'w [u8], Reason> {
    match words {
        [text] => Ok(text),
        _ => Err(Reason::Words(keyword.to_owned(), "one pattern")),
    }
}

fn pattern(text: &[u8]) -> Result<Pattern, Reason> {
    parsed(text, Pattern::parse)
}

fn parsed(
    text: &[u8],
    parse: fn(&[u8]) -> Result<Pattern, PatternError>,
) -> Result<Pattern, Reason> {
    parse(text).map_err(|error| Reason::Pattern { pattern: model::escaped(text), error })
}

/// Returns the words of a line. A quote has an effect only at the beginning of a word.
fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Reason> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii();
    // A quote in a comment has no effect.
    if rest.starts_with(b"*") || rest.starts_with(b"#") {
        return Ok(words);
    }
    while let Some(&first) = rest.first() {
        let (word, behind) = match first {
            quote @ (b'"' | b'\'') => {
                let end = rest[1..].iter().position(|&byte| byte == quote).ok_or(Reason::Quote)?;
                (&rest[1..=end], &rest[end + 2..])
            }
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        words.push(word.to_vec());
        rest = behind.trim_ascii_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Statement>, StatementError> {
        parse_list(text.as_bytes(), |line| Source::File { path: "list".to_owned(), line })
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = parse(text).expect_err("not a statement");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn comments_and_empty_lines_say_nothing() {
        let list = "* it's a comment\n\n  # and \"another\n\texclude /a\n";
        let statements = parse(list).expect("a list");
        assert_eq!(statements.len(), 1);
        assert_eq!(statements[0].source.to_string(), "list line 4");
    }

    #[test]
    fn keywords_have_many_forms_and_any_case() {
        let same = "exclude /a\nEXCLUDE.BACKUP /a\nExclude.File /a\nexclude.file.backup \"/a\"";
        let statements = parse(same).expect("a list");
        assert_eq!(statements.len(), 4);
        assert!(statements.iter().all(|statement| statement.rule == statements[0].rule));
    }

    #[test]
    fn an_include_may_bind_to_a_class() {
        let statements = parse("include '/a b/*' LEGAL\ninclude.archive /c").expect("a list");
        let class = |statement: &Statement| match &statement.rule {
            Rule::Include { pattern, operation, class } => {
                (pattern.to_string(), *operation, class.clone())
            }
            _ => panic!("not an include statement"),
        };
        assert_eq!(class(&statements[0]), ("/a b/*".to_owned(), None, Some("LEGAL".to_owned())));
        assert_eq!(class(&statements[1]), ("/c".to_owned(), Some(Operation::Archive), None));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let list = "exclude /a\nexclude.archive /a\nexclude.dir \"/a b\"\nexclude.fs /m\n\
                    exclude.content /v\n\
                    exclude.fstype nfs tmpfs\nexclude.tag .nobackup\n\
                    exclude.attribute.symlink /l\ninclude /a\ninclude.backup /a B\n\
                    include.archive '/a \"b'\nexclude.compression *.gz\ninclude.dedup /a\n\
                    include.encrypt /s\nexclude.encrypt /s/t";
        let statements = parse(list).expect("a list");
        let written: Vec<Vec<u8>> =
            statements.iter().map(|statement| statement.rule.written()).collect();
        assert_eq!(model::escaped(&written.join(&b'|')), list.replace('\n', "|"));
    }

    #[test]
    fn a_type_of_file_systems_is_written_as_it_was_read() {
        let list = "exclude.fstype 'a b' c\\d";
        let statements = parse(list).expect("a list");
        let written = String::from_utf8(statements[0].rule.written()).expect("text");
        assert_eq!(written, "exclude.fstype \"a b\" c\\d");
        assert_eq!(parse(&written), Ok(statements));
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        check_error("exclude", "list line 1: exclude takes one pattern");
        check_error("exclude a b", "list line 1: exclude takes one pattern");
        check_error("\nexclude \"a", "list line 2: a quote is not closed");
        check_error("exclude.tag \"\"", "list line 1: exclude.tag takes the name of a file");
        check_error(
            "omit /a",
            "list line 1: 'omit' is not a statement; statements are exclude, exclude.dir, \
             exclude.fs, include ...",
        );
        check_error(
            "include.image /a",
            "list line 1: include.image is for an operation that this version does not have yet",
        );
        check_error(
            "exclude a/b",
            "list line 1: 'a/b': a pattern of several components must start with '/', or with \
             '/.../' for any depth",
        );
        check_error("include /a b?", "list line 1: 'b?' is not the name of a class");
        check_error("exclude.tag a/b", "list line 1: exclude.tag takes the name of a file");
    }
}
