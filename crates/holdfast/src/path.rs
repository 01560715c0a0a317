//! Paths, which are bytes, on the command line and in JSON.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use model::is_unprintable;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

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

/// Returns the path that a document has as [`JsonPath`]; `None` if the value is no path.
pub(crate) fn from_json(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        value => BASE64.decode(value["bytes"].as_str()?.as_bytes()).ok(),
    }
}

/// Beginning of a name in Base64.
const BASE64_MARK: &str = "base64:";

/// Returns a name in a form that people can give back, and that the REST API takes as a parameter.
///
/// The form is `base64:` and the bytes in Base64 for a name that is not UTF-8, that a terminal
/// would not show as it is, or that has this beginning itself. Any other name is its own form.
pub(crate) fn name_text(name: &[u8]) -> String {
    let is_plain = |text: &&str| !text.contains(is_unprintable) && !text.starts_with(BASE64_MARK);
    match std::str::from_utf8(name).ok().filter(is_plain) {
        Some(text) => text.to_owned(),
        None => format!("{BASE64_MARK}{}", BASE64.encode(name)),
    }
}

/// Returns the name that a person has given, as it is or in the form of [`name_text`]; `None` if
/// the text after `base64:` is not Base64.
pub(crate) fn from_name_text(text: &OsStr) -> Option<Vec<u8>> {
    match text.as_bytes().strip_prefix(BASE64_MARK.as_bytes()) {
        None => Some(text.as_bytes().to_vec()),
        Some(base64) => BASE64.decode(base64).ok(),
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

/// Returns the name of the filespace that a command names.
pub(crate) fn filespace(named: Option<&Path>) -> Result<Option<Vec<u8>>, CommandError> {
    let Some(named) = named else { return Ok(None) };
    Ok(of_node(&[bytes(named)])?.pop())
}

/// Returns the absolute forms of `paths`, which may have wildcards. Then a slash at the end stays:
/// it says that only directories are meant.
pub(crate) fn patterns(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, CommandError> {
    let given: Vec<Vec<u8>> = paths.iter().map(|path| bytes(path)).collect();
    let resolved = of_node(&given)?;
    let with_slash = |(given, mut path): (&Vec<u8>, Vec<u8>)| {
        if given.ends_with(b"/") && client::has_wildcards(&path) {
            path.push(b'/');
        }
        path
    };
    Ok(given.iter().zip(resolved).map(with_slash).collect())
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
    fn a_path_in_a_document_is_read() {
        for path in [&b"/plain"[..], b"/\xff\xfe", b""] {
            let document = serde_json::to_value(JsonPath(path)).expect("a path");
            assert_eq!(from_json(&document).as_deref(), Some(path));
        }
        for wrong in [serde_json::json!({ "bytes": "*" }), serde_json::json!({}), Value::Null] {
            assert_eq!(from_json(&wrong), None);
        }
    }

    #[test]
    fn a_name_is_shown_as_it_can_be_given_back() {
        for (name, text) in [
            (&b"/srv/a b"[..], "/srv/a b"),
            (b"/\xc3\xa9\\", "/\u{e9}\\"),
            (b"/mnt/caf\xe9", "base64:L21udC9jYWbp"),
            (b"/a\nb", "base64:L2EKYg=="),
            (b"base64:x", "base64:YmFzZTY0Ong="),
        ] {
            assert_eq!(name_text(name), text);
            assert_eq!(from_name_text(OsStr::new(text)).as_deref(), Some(name));
        }
        let raw = OsStr::from_bytes(b"/mnt/caf\xe9");
        assert_eq!(from_name_text(raw).as_deref(), Some(raw.as_bytes()));
        assert_eq!(from_name_text(OsStr::new("base64:*")), None);
    }

    #[test]
    fn a_slash_at_the_end_of_a_pattern_stays() {
        for (path, expected) in
            [("/a/*/", "/a/*/"), ("/a/*", "/a/*"), ("/a/b/", "/a/b"), ("/*/../b/", "/b")]
        {
            let found = patterns(&[PathBuf::from(path)]).expect("is absolute");
            assert_eq!(found, [expected.as_bytes()], "{path}");
        }
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
