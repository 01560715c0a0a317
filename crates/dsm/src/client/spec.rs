//! Names of objects on a command line: a file, a directory with a slash at its end, or a pattern in
//! the last part.

use policy::Pattern;

use crate::configuration::braced;

/// Objects that an operand names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Directory of the objects, without a slash at its end; empty for the root.
    pub directory: Vec<u8>,
    pub last: Last,
    /// Filespace of the objects, if braces mark it.
    pub filespace: Option<Vec<u8>>,
}

/// Last part of an operand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Last {
    /// Everything in the directory: the operand ends with a slash, or with `/*`.
    Everything,
    /// Objects with names that match.
    Matching(Pattern),
    /// The object with this name.
    Named(Vec<u8>),
}

impl Spec {
    /// Parses an operand. A relative one is in the directory `working`.
    pub fn parse(operand: &[u8], working: &[u8]) -> Result<Self, String> {
        let (filespace, path) = absolute(operand, working)?;
        let parts = parts_of(&path);
        let ends_in_directory = path.ends_with(b"/") || path.ends_with(b"/.");
        let (directories, last) = match parts.split_last() {
            Some((last, directories)) if !ends_in_directory => (directories, Some(*last)),
            _ => (parts.as_slice(), None),
        };
        if let Some(wild) = directories.iter().find(|part| has_wildcards(part)) {
            return Err(format!(
                "'{}': wildcards stand in the last part of a name only",
                model::escaped(wild)
            ));
        }
        let directory = joined(directories);
        let last = match last {
            None | Some(b"*") => Last::Everything,
            Some(b"..") => return Err("a name does not end with '..'".to_owned()),
            Some(name) if has_wildcards(name) => {
                let pattern = Pattern::parse(&with_literal_brackets(name))
                    .map_err(|error| format!("'{}': {error}", model::escaped(name)))?;
                Last::Matching(pattern)
            }
            Some(name) => Last::Named(name.to_vec()),
        };
        Ok(Self { directory, last, filespace })
    }

    /// Parses a line of a list of files, in which each character stands for itself. A directory
    /// stands for itself, too, whether a slash ends the line or not.
    pub fn parse_listed(line: &[u8], working: &[u8]) -> Result<Self, String> {
        let (filespace, path) = absolute(line, working)?;
        let path = joined(&parts_of(&path));
        let Some(end) = path.iter().rposition(|&byte| byte == b'/') else {
            return Err("a list does not name the root directory; remove the line".to_owned());
        };
        let (directory, name) = (path[..end].to_vec(), path[end + 1..].to_vec());
        Ok(Self { directory, last: Last::Named(name), filespace })
    }

    /// Path of a named object, and of the directory otherwise.
    pub fn path(&self) -> Vec<u8> {
        match &self.last {
            Last::Named(name) => [&self.directory[..], b"/", name].concat(),
            _ if self.directory.is_empty() => b"/".to_vec(),
            _ => self.directory.clone(),
        }
    }

    /// Directory of the objects; `/` for the root.
    pub fn folder(&self) -> Vec<u8> {
        if self.directory.is_empty() { b"/".to_vec() } else { self.directory.clone() }
    }

    /// Returns true if the operand names the object at `path`. `descends` is true if directories
    /// below the directory count, too. A directory that is named stands for its content then.
    pub fn names(&self, path: &[u8], descends: bool) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let Some(within) = within(path, &self.directory) else { return false };
        if within.is_empty() {
            return false;
        }
        let is_direct = !within.contains(&b'/');
        if !is_direct && !descends {
            return false;
        }
        let name = within.rsplit(|&byte| byte == b'/').next().unwrap_or(within);
        match &self.last {
            Last::Everything => true,
            Last::Matching(pattern) => pattern.matches(&[b"/", name].concat()),
            Last::Named(wanted) => {
                let top = within.split(|&byte| byte == b'/').next().unwrap_or(within);
                name == wanted || (descends && top == wanted)
            }
        }
    }
}

/// Returns the filespace that braces mark, and the absolute path of an operand.
fn absolute(operand: &[u8], working: &[u8]) -> Result<(Option<Vec<u8>>, Vec<u8>), String> {
    let (filespace, path) = match braced(operand) {
        Some((filespace, path)) => (Some(filespace), path),
        None => (None, operand.to_vec()),
    };
    if path.is_empty() {
        return Err("an empty name stands for nothing; name a file or a directory".to_owned());
    }
    let path = match path.starts_with(b"/") {
        true => path,
        false => [working, b"/", &path].concat(),
    };
    Ok((filespace.filter(|name| name.starts_with(b"/")), path))
}

/// Returns the parts of a path that mean something.
fn parts_of(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .collect()
}

/// Returns the part of `path` below `directory`, without a slash before it.
pub(super) fn within<'p>(path: &'p [u8], directory: &[u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(directory)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

/// Returns true for a pattern. Brackets stand for themselves in operands, as in TSM; they are
/// classes of characters in include and exclude statements only.
fn has_wildcards(part: &[u8]) -> bool {
    part.iter().any(|byte| b"*?".contains(byte))
}

/// Returns the text of a pattern in which brackets stand for themselves.
fn with_literal_brackets(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    let mut is_escaped = false;
    for &byte in name {
        if byte == b'[' && !is_escaped {
            text.push(b'\\');
        }
        is_escaped = byte == b'\\' && !is_escaped;
        text.push(byte);
    }
    text
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in parts {
        if *part == b".." {
            kept.pop();
        } else {
            kept.push(part);
        }
    }
    kept.iter().flat_map(|part| [b"/", *part].concat()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(operand: &str) -> Spec {
        Spec::parse(operand.as_bytes(), b"/here").expect("an operand")
    }

    #[track_caller]
    fn check(operand: &str, directory: &str, path: &str) {
        let spec = spec(operand);
        assert_eq!(model::escaped(&spec.directory), directory, "{operand}");
        assert_eq!(model::escaped(&spec.path()), path, "{operand}");
    }

    #[test]
    fn an_operand_has_a_directory_and_a_last_part() {
        check("/home/ann/a", "/home/ann", "/home/ann/a");
        check("/home/ann/", "/home/ann", "/home/ann");
        check("/home/ann/*", "/home/ann", "/home/ann");
        check("/home/ann/*.c", "/home/ann", "/home/ann");
        check("{/home}/ann/a", "/home/ann", "/home/ann/a");
        check("a", "/here", "/here/a");
        check("./x/../a", "/here", "/here/a");
        check(".", "/here", "/here");
        check("/", "", "/");
        check("/*", "", "/");
        check("/etc", "", "/etc");
        check("//a//b/", "/a/b", "/a/b");
        check("/a [1]/b[2]", "/a [1]", "/a [1]/b[2]");
        for wrong in ["", "/a/*/b", "/a/.."] {
            assert!(Spec::parse(wrong.as_bytes(), b"/").is_err(), "{wrong}");
        }
    }

    #[test]
    fn braces_name_the_filespace_of_the_objects() {
        let filespace = |operand: &str| spec(operand).filespace;
        assert_eq!(filespace("{/}home/ann/*"), Some(b"/".to_vec()));
        assert_eq!(filespace("{/home}/ann"), Some(b"/home".to_vec()));
        assert_eq!(filespace("/home/ann"), None);
        assert_eq!(filespace("{x}/ann"), None);
        check("{/home}/", "/home", "/home");
    }

    #[test]
    fn a_line_of_a_list_stands_for_itself() {
        for (line, path, filespace) in [
            ("/a/b", "/a/b", None),
            ("/a/*", "/a/*", None),
            ("/a/x?[1]", "/a/x?[1]", None),
            ("/a/*/b", "/a/*/b", None),
            ("/a/b/", "/a/b", None),
            ("./x/../y", "/here/y", None),
            ("{/a}/b*", "/a/b*", Some("/a")),
            ("{/}a/b", "/a/b", Some("/")),
        ] {
            let spec = Spec::parse_listed(line.as_bytes(), b"/here").expect("a line");
            assert_eq!(model::escaped(&spec.path()), path, "{line}");
            assert_eq!(spec.filespace.as_deref(), filespace.map(str::as_bytes), "{line}");
            assert!(matches!(spec.last, Last::Named(_)), "{line}");
        }
        for wrong in ["", "/", "/a/.."] {
            assert!(Spec::parse_listed(wrong.as_bytes(), b"/").is_err(), "{wrong}");
        }
    }

    #[track_caller]
    fn check_names(operand: &str, path: &str, alone: bool, descending: bool) {
        let spec = spec(operand);
        let found = [false, true].map(|descends| spec.names(path.as_bytes(), descends));
        assert_eq!(found, [alone, descending], "{operand} {path}");
    }

    #[test]
    fn subdir_decides_about_what_is_below() {
        check_names("/a/b", "/a/b", true, true);
        check_names("/a/b", "/a/b/c", false, true);
        check_names("/a/b", "/a/x/b", false, true);
        check_names("/a/b", "/a/c", false, false);
        check_names("/a/b", "/a/bc", false, false);
        check_names("/a/", "/a/b", true, true);
        check_names("/a/", "/a/b/c", false, true);
        check_names("/a/", "/a", false, false);
        check_names("/a/", "/ab", false, false);
        check_names("/a/*", "/a/b", true, true);
        check_names("/a/*", "/a/.b", true, true);
        check_names("/a/*.c", "/a/x.c", true, true);
        check_names("/a/*.c", "/a/b/x.c", false, true);
        check_names("/a/*.c", "/a/x.o", false, false);
        check_names("/a/?", "/a/b/", true, true);
        check_names("/a/x[1].*", "/a/x[1].c", true, true);
        check_names("/a/x[1].*", "/a/x1.c", false, false);
        check_names(r"/a/x\[1].*", "/a/x[1].c", true, true);
        check_names("/", "/etc", true, true);
        check_names("/", "/etc/passwd", false, true);
        check_names("/etc", "/etc/passwd", false, true);
    }

    proptest! {
        #[test]
        fn any_operand_is_parsed_or_told(
            operand in proptest::collection::vec(any::<u8>(), 0..60),
            path in "(/[ab]{1,2}){1,4}",
        ) {
            if let Ok(spec) = Spec::parse(&operand, b"/here") {
                let alone = spec.names(path.as_bytes(), false);
                // An object that is named without a descent is named with it.
                prop_assert!(!alone || spec.names(path.as_bytes(), true));
                prop_assert!(spec.path().starts_with(b"/"));
            }
        }
    }
}
