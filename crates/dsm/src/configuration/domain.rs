//! The file systems of a backup without paths (DOMAIN).

use crate::options::{Entry, Options, Place};
use crate::words::words;

/// File systems of a backup without paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Domain {
    /// True for all local file systems.
    pub all_local: bool,
    pub paths: Vec<Vec<u8>>,
    /// File systems that are left out.
    pub left_out: Vec<Vec<u8>>,
}

/// Reason why a list of file systems is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct DomainError {
    pub place: Place,
    pub reason: String,
}

/// Returns the file systems that the options name; `None` if no option does. Those of the command
/// line take the place of the others, or leave some of them out.
pub fn domain(options: &Options) -> Result<Option<Domain>, DomainError> {
    let is_domain = |entry: &&Entry| entry.definition.spelling.eq_ignore_ascii_case("DOMAIN");
    let is_given = |entry: &&Entry| entry.place == Place::CommandLine;
    let entries = options.entries().iter().filter(is_domain);
    let (given, of_files): (Vec<&Entry>, Vec<&Entry>) = entries.partition(is_given);
    let of_files = of_last_file(of_files);
    let given = joined(&given)?;
    let mut domain = match given {
        Some(domain) if domain.all_local || !domain.paths.is_empty() => return Ok(Some(domain)),
        Some(minus) => {
            let mut domain = joined(&of_files)?.unwrap_or_default();
            domain.left_out.extend(minus.left_out);
            domain
        }
        None => match joined(&of_files)? {
            Some(domain) => domain,
            None => return Ok(None),
        },
    };
    // A list that only leaves out begins with all local file systems.
    domain.all_local |= domain.paths.is_empty();
    domain.paths.retain(|path| !domain.left_out.contains(path));
    Ok(Some(domain))
}

/// Keeps the entries of the file that comes last: `dsm.opt` before `dsm.sys`.
fn of_last_file(entries: Vec<&Entry>) -> Vec<&Entry> {
    fn path(entry: &Entry) -> Option<&String> {
        match &entry.place {
            Place::File { path, .. } => Some(path),
            Place::CommandLine => None,
        }
    }
    let wanted = entries.last().and_then(|entry| path(entry));
    entries.iter().filter(|entry| path(entry) == wanted).copied().collect()
}

fn joined(entries: &[&Entry]) -> Result<Option<Domain>, DomainError> {
    let mut domain = Domain::default();
    for entry in entries {
        let failed = |reason: String| DomainError { place: entry.place.clone(), reason };
        for word in words(&entry.value).map_err(|error| failed(error.to_string()))? {
            add(&mut domain, &word).map_err(failed)?;
        }
    }
    Ok((!entries.is_empty()).then_some(domain))
}

fn add(domain: &mut Domain, word: &[u8]) -> Result<(), String> {
    let lower = String::from_utf8_lossy(word).to_ascii_lowercase();
    let bare = lower.trim_start_matches('-');
    if bare == "all-local" && bare == lower {
        domain.all_local = true;
        return Ok(());
    }
    if bare.starts_with("all-") {
        let instead = "name the mount points of these file systems themselves";
        return Err(format!("'{lower}' is not taken; {instead}"));
    }
    let (list, path) = match word.strip_prefix(b"-") {
        Some(path) => (&mut domain.left_out, path),
        None => (&mut domain.paths, word),
    };
    let path = braceless(path);
    if !path.starts_with(b"/") {
        let shown = model::escaped(word);
        return Err(format!("'{shown}' is not ALL-LOCAL, and no path from the root"));
    }
    list.push(without_end(path));
    Ok(())
}

/// Splits a path whose file system is marked by braces, as in `{/home}/ann`. Returns the file
/// system, and the path without the braces.
pub(crate) fn braced(path: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let inner = path.strip_prefix(b"{")?;
    let end = inner.iter().position(|&byte| byte == b'}')?;
    let (filesystem, rest) = (&inner[..end], &inner[end + 1..]);
    let above = filesystem.strip_suffix(b"/").unwrap_or(filesystem);
    let filesystem = if above.is_empty() { b"/" } else { above };
    let whole = match rest.strip_prefix(b"/").unwrap_or(rest) {
        b"" if rest.is_empty() => filesystem.to_vec(),
        rest => [above, b"/", rest].concat(),
    };
    Some((filesystem.to_vec(), whole))
}

/// Returns a path without the braces that mark its file system.
fn braceless(path: &[u8]) -> Vec<u8> {
    braced(path).map_or_else(|| path.to_vec(), |(_, path)| path)
}

fn without_end(mut path: Vec<u8>) -> Vec<u8> {
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{System, find_exactly, parse};

    fn found(file: &str, line: &str) -> Result<Option<Domain>, DomainError> {
        let (user, faults) = parse("dsm.opt", file.as_bytes());
        assert_eq!(faults, []);
        let given = || Entry {
            place: Place::CommandLine,
            definition: find_exactly("DOMAIN").expect("an option"),
            value: line.as_bytes().to_vec(),
        };
        let line: Vec<Entry> = if line.is_empty() { Vec::new() } else { vec![given()] };
        domain(&Options::new(&System::default(), None, &user, &line))
    }

    #[track_caller]
    fn check(file: &str, line: &str, expected: &str) {
        let shown = match found(file, line) {
            Ok(None) => "none".to_owned(),
            Ok(Some(Domain { all_local, paths, left_out })) => {
                let paths = paths.iter().map(|path| model::escaped(path));
                let left_out = left_out.iter().map(|path| format!("-{}", model::escaped(path)));
                let all = all_local.then(|| "ALL".to_owned());
                all.into_iter().chain(paths).chain(left_out).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{file} / {line}");
    }

    #[test]
    fn file_systems_are_named_or_all() {
        check("", "", "none");
        check("domain all-local", "", "ALL");
        check("DOMAIN ALL-LOCAL -/tmp -/scratch/", "", "ALL -/tmp -/scratch");
        check("domain /home /srv/\ndomain \"/my disk\"", "", "/home /srv /my disk");
        check("domain -/tmp", "", "ALL -/tmp");
        check("domain all-local /nfs/home", "", "ALL /nfs/home");
        check("domain /home", "/srv", "/srv");
        check("domain /home /srv", "-/srv", "/home -/srv");
        check("domain all-local", "-/srv", "ALL -/srv");
        check("", "-/srv", "ALL -/srv");
    }

    #[test]
    fn other_words_are_refused() {
        check(
            "domain all-lofs",
            "",
            "dsm.opt line 1: 'all-lofs' is not taken; name the mount points of these file systems \
             themselves",
        );
        check(
            "domain home",
            "",
            "dsm.opt line 1: 'home' is not ALL-LOCAL, and no path from the root",
        );
        check("domain \"/home", "", "dsm.opt line 1: a quote is not closed");
    }

    #[test]
    fn braces_mark_the_file_system() {
        for (path, expected) in [
            ("{/home}/ann/*", "/home/ann/*"),
            ("{/home}ann", "/home/ann"),
            ("{/}etc", "/etc"),
            ("{/}", "/"),
            ("{/home}", "/home"),
            ("{/home}/", "/home/"),
            ("{/home/}ann", "/home/ann"),
            ("{/}/", "/"),
            ("/home/{x}", "/home/{x}"),
            ("{/home", "{/home"),
        ] {
            assert_eq!(braceless(path.as_bytes()), expected.as_bytes(), "{path}");
        }
        let filesystem = |path: &str| braced(path.as_bytes()).map(|(filesystem, _)| filesystem);
        assert_eq!(filesystem("{/home/}ann"), Some(b"/home".to_vec()));
        assert_eq!(filesystem("{/}etc"), Some(b"/".to_vec()));
        assert_eq!(filesystem("/home/{x}"), None);
    }
}
