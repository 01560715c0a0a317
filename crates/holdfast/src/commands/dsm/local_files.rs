//! Local files that a command of `dsmc` names.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dsm::client::{Last, Spec};

use crate::error::CommandError;
use crate::path::bytes;

/// Local objects that an operand names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// An object, with everything in it.
    Tree(Vec<u8>),
    /// Exactly these files.
    Files(Vec<Vec<u8>>),
}

/// Finds the objects. `descends` is true if directories below count, too. Those of a file system
/// always do, and those of the directories that `virtual_points` names.
pub(super) fn find(
    spec: &Spec,
    descends: bool,
    virtual_points: &[Vec<u8>],
) -> Result<Target, CommandError> {
    let path = spec.path();
    let is_file_system = || virtual_points.contains(&path) || is_mount_point(&path);
    let is_tree = match &spec.last {
        Last::Named(_) => !is_directory(&path) || descends || is_file_system(),
        Last::Everything => descends || is_file_system(),
        Last::Matching(_) => false,
    };
    if is_tree {
        return Ok(Target::Tree(path));
    }
    let is_content = matches!(spec.last, Last::Named(_));
    let top = if is_content { path } else { spec.folder() };
    let mut files = Vec::new();
    let fits = |path: &[u8]| is_content || spec.names(path, descends);
    // Only a pattern descends here.
    let descends = descends && matches!(spec.last, Last::Matching(_));
    collect(&as_path(&top), descends, &fits, &mut files)?;
    Ok(Target::Files(files))
}

fn as_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the name that an operand means: without blanks at its end, unless a file has them.
pub(super) fn named(operand: &[u8]) -> &[u8] {
    let trimmed = operand.trim_ascii_end();
    let is_whole = trimmed.len() == operand.len() || trimmed.is_empty();
    let is_there = || std::fs::symlink_metadata(as_path(operand)).is_ok();
    if is_whole || is_there() { operand } else { trimmed }
}

/// Returns true if a directory is there, and no link to one.
pub(super) fn is_directory(path: &[u8]) -> bool {
    std::fs::symlink_metadata(as_path(path)).is_ok_and(|found| found.is_dir())
}

pub(super) fn is_mount_point(path: &[u8]) -> bool {
    sys::mount::filespace_root(path).is_ok_and(|(root, within)| root == path && within == b"/")
}

/// Collects the files of a directory that fit, without those of other file systems below it.
fn collect(
    top: &Path,
    descends: bool,
    fits: &dyn Fn(&[u8]) -> bool,
    files: &mut Vec<Vec<u8>>,
) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(format!("cannot read the directory {}: {error}", top.display()))
    };
    let device = std::fs::metadata(top).map_err(failed)?.dev();
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(top).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if found.is_dir() {
            folders.extend((descends && found.dev() == device).then_some(path));
        } else if fits(&bytes(&path)) {
            files.push(bytes(&path));
        }
    }
    files.sort();
    for folder in folders {
        collect(&folder, descends, fits, files)?;
    }
    Ok(())
}

/// Maximum number of bytes in a list of files.
const LIST_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of bytes in a line of a list. A path of the system is shorter.
const LISTED_BYTES_MAX: usize = 64 << 10;

/// The next thing to do about a list in which NUL bytes end the paths.
const NUL_HINT: &str = "a list has each path on a line of its own; one that 'find -print0' has \
                        written becomes such a list by: tr '\\0' '\\n' <OLD >NEW";

/// Reads a list of files: one on each line, in quotes if it has blanks. A list with a line that
/// names no file is refused as a whole: it may be of another kind.
pub(super) fn filelist(
    path: &[u8],
    quotes_are_literal: bool,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let file = as_path(path);
    let wrong = |reason: &dyn std::fmt::Display| {
        CommandError::new(format!("cannot read the file list {}: {reason}", file.display()))
    };
    let text = list_content(&file).map_err(|error| wrong(&error))?;
    let is_utf16 = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
    if is_utf16 {
        return Err(wrong(&"it is in UTF-16; convert it to UTF-8, as with 'iconv -f UTF-16'"));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let unquoted = |line: &[u8]| match line {
        [b'"', within @ .., b'"'] | [b'\'', within @ .., b'\''] if !quotes_are_literal => {
            within.to_vec()
        }
        line => line.to_vec(),
    };
    let lines = text.split(|&byte| byte == b'\n').map(|line| match line {
        [line @ .., b'\r'] => line,
        line => line,
    });
    let mut paths = Vec::new();
    for (number, line) in (1..).zip(lines).filter(|(_, line): &(usize, &[u8])| !line.is_empty()) {
        if line.contains(&0) {
            return Err(wrong(&format!("line {number} has a NUL byte")).with_hint(NUL_HINT));
        }
        if line.len() > LISTED_BYTES_MAX {
            let length = line.len();
            return Err(wrong(&format!("line {number} has {length} bytes, and is no path")));
        }
        paths.push(unquoted(line));
    }
    if paths.is_empty() {
        let message = format!("the file list {} names no file", file.display());
        return Err(CommandError::new(message));
    }
    Ok(paths)
}

fn list_content(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(file)?.take(LIST_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LIST_BYTES_MAX {
        return Err(std::io::Error::other("it is larger than 1 GiB; divide it"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(folder: &Path, operand: &str, descends: bool, expected: &[&str]) {
        let operand = format!("{}/{operand}", folder.display());
        let spec = Spec::parse(operand.as_bytes(), b"/").expect("an operand");
        let found = match find(&spec, descends, &[]).expect("found") {
            Target::Tree(path) => vec![path, b"TREE".to_vec()],
            Target::Files(files) => files,
        };
        let top = bytes(folder);
        let shown: Vec<_> = found
            .iter()
            .map(|path| {
                let within = path.strip_prefix(&top[..]).unwrap_or(path);
                String::from_utf8_lossy(within).into_owned()
            })
            .collect();
        assert_eq!(shown, expected, "{operand}");
    }

    #[test]
    fn operands_name_trees_or_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        std::fs::create_dir_all(top.join("x/y")).expect("made");
        for name in ["a.c", "b.o", "x/c.c", "x/y/d.c"] {
            std::fs::write(top.join(name), "").expect("written");
        }
        check(top, "a.c", false, &["/a.c", "TREE"]);
        check(top, "x", true, &["/x", "TREE"]);
        check(top, "x", false, &["/x/c.c"]);
        check(top, "x/", false, &["/x/c.c"]);
        check(top, "x/", true, &["/x", "TREE"]);
        check(top, "*", false, &["/a.c", "/b.o"]);
        check(top, "*.c", false, &["/a.c"]);
        check(top, "*.c", true, &["/a.c", "/x/c.c", "/x/y/d.c"]);
        check(top, "absent", false, &["/absent", "TREE"]);
    }

    #[test]
    fn blanks_after_a_name_count_if_a_file_has_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("with blank ");
        std::fs::write(&file, "").expect("written");
        assert_eq!(named(&bytes(&file)), bytes(&file));
        assert_eq!(named(b"/no/such/folder  "), b"/no/such/folder");
        assert_eq!(named(b"  "), b"  ");
    }

    #[test]
    fn a_list_that_names_no_files_is_refused_by_one_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("list");
        let long = [b"/a\n".to_vec(), vec![b'x'; 100_000]].concat();
        for (content, expected) in [
            (&b"/a\n/b\0/etc/passwd\n"[..], "line 2 has a NUL byte"),
            (b"\xff\xfe/\0a\0\n\0", "is in UTF-16"),
            (b"\xfe\xff\0/\0a", "is in UTF-16"),
            (&long, "line 2 has 100000 bytes"),
            (b"\n\r\n\n", "names no file"),
            (b"", "names no file"),
        ] {
            std::fs::write(&list, content).expect("written");
            let error = filelist(&bytes(&list), false).expect_err("is refused").message;
            assert!(error.contains(expected) && error.len() < 300, "{error}");
            assert!(!error.contains(['\n', '\0']), "{error}");
        }
        std::fs::write(&list, b"/a\0/b\0").expect("written");
        let hint = filelist(&bytes(&list), false).expect_err("is refused").hint;
        assert!(hint.is_some_and(|hint| hint.ends_with("tr '\\0' '\\n' <OLD >NEW")));
        std::fs::write(&list, b"\xef\xbb\xbf/a\r\n/\xff").expect("written");
        let read = filelist(&bytes(&list), false).expect("a list");
        assert_eq!(read, [b"/a".to_vec(), b"/\xff".to_vec()]);
        let error = filelist(&bytes(folder.path()), false).expect_err("a folder").message;
        assert!(error.contains("cannot read the file list"), "{error}");
    }

    #[test]
    fn a_list_may_have_quotes() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("list");
        std::fs::write(&list, "/a\r\n\"/b c\"\n\n'/d'\n").expect("written");
        let read = |literal| filelist(&bytes(&list), literal).expect("a list");
        assert_eq!(read(false), [&b"/a"[..], b"/b c", b"/d"]);
        assert_eq!(read(true), [&b"/a"[..], b"\"/b c\"", b"'/d'"]);
    }
}
