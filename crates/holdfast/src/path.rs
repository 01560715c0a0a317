//! Paths, which are bytes, on the command line and in JSON.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::error::CommandError;

/// A path in a document: a string, or `{"bytes": "<base64>"}` where it is not UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JsonPath<'a>(pub(crate) &'a [u8]);

impl Serialize for JsonPath<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("bytes", &BASE64.encode(self.0))?;
        map.end()
    }
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Returns the absolute path of a folder of this machine.
pub(crate) fn absolute(folder: &Path) -> Result<Vec<u8>, CommandError> {
    match std::path::absolute(folder) {
        Ok(folder) => Ok(bytes(&folder)),
        Err(error) => {
            Err(CommandError::new(format!("cannot use the folder {}: {error}", folder.display())))
        }
    }
}

/// Returns the absolute forms of `paths`. Their parts stay as they are: `..` after a symbolic link
/// does not lead back to the directory before the link.
pub(crate) fn from_root(paths: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommandError> {
    // An empty path names nothing.
    let is_relative = |path: &Vec<u8>| !path.is_empty() && !path.starts_with(b"/");
    if !paths.iter().any(is_relative) {
        return Ok(paths);
    }
    let working = working_directory()?;
    let from_root = |path: Vec<u8>| {
        if is_relative(&path) { [working.as_slice(), b"/", &path].concat() } else { path }
    };
    Ok(paths.into_iter().map(from_root).collect())
}

fn working_directory() -> Result<Vec<u8>, CommandError> {
    let working = std::env::current_dir();
    let working = working
        .map_err(|error| CommandError::new(format!("there is no working directory: {error}")))?;
    Ok(bytes(&working))
}

/// Returns the absolute forms of `paths`, as the server names them.
pub(crate) fn on_node(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, CommandError> {
    of_node(&paths.iter().map(|path| bytes(path)).collect::<Vec<_>>())
}

/// Returns the absolute forms of `paths`, as the server names them.
pub(crate) fn of_node(paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, CommandError> {
    let is_absolute = |path: &Vec<u8>| path.starts_with(b"/");
    let working = if paths.iter().all(is_absolute) { b"/".to_vec() } else { working_directory()? };
    Ok(paths.iter().map(|path| resolved(&working, path)).collect())
}

/// Returns the absolute form of `path`, relative to the directory `working`, without `.`, `..` and
/// superfluous slashes.
///
/// Does not look at the file system, because an object that was backed up may no longer exist.
fn resolved(working: &[u8], path: &[u8]) -> Vec<u8> {
    let start = if path.starts_with(b"/") { &b""[..] } else { working };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in start.split(|&byte| byte == b'/').chain(path.split(|&byte| byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    [&b"/"[..], &parts.join(&b'/')].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_json(path: &[u8], expected: &str) {
        assert_eq!(serde_json::to_string(&JsonPath(path)).expect("a path"), expected);
    }

    #[test]
    fn a_path_that_is_not_text_is_given_in_base64() {
        check_json(b"/plain \"quoted\"\n", r#""/plain \"quoted\"\n""#);
        check_json(b"/\xc3\xa9", "\"/\u{e9}\"");
        check_json(b"/\xff\xfe", r#"{"bytes":"L//+"}"#);
    }

    #[test]
    fn a_path_is_resolved_without_looking() {
        for (path, expected) in [
            (&b"/usr/share/"[..], &b"/usr/share"[..]),
            (b"/", b"/"),
            (b"//a/./b//", b"/a/b"),
            (b"letters", b"/home/ann/letters"),
            (b".", b"/home/ann"),
            (b"../bob/\xff", b"/home/bob/\xff"),
            (b"../../../..", b"/"),
        ] {
            assert_eq!(resolved(b"/home/ann", path), expected);
        }
    }
}
