//! From a path on the node to what the server is asked for.

use std::os::unix::ffi::OsStrExt as _;

use model::{DirPath, Name, mount_point};
use wire::proto;

use crate::{ClientError, ErrorKind, FilespaceSummary};

/// A path within a filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) filespace: Vec<u8>,
    /// The directory that holds the object.
    pub(crate) directory: DirPath,
    /// `None` for the filespace's root.
    pub(crate) name: Option<Name>,
}

impl Place {
    /// The directory path that this place has if it is a directory.
    pub(crate) fn below(&self) -> DirPath {
        self.name.as_ref().map_or_else(DirPath::root, |name| self.directory.child(name))
    }

    /// Everything at and, when `recursive`, below this place.
    pub(crate) fn selection(&self, recursive: bool) -> proto::Selection {
        let name = match &self.name {
            Some(name) => name.as_bytes().to_vec(),
            // The root object and all that is below it, or the root object alone.
            None if recursive => Vec::new(),
            None => b"/".to_vec(),
        };
        proto::Selection {
            filespace: self.filespace.clone().into(),
            directory: self.directory.as_bytes().to_vec().into(),
            name: name.into(),
            recursive,
            ..proto::Selection::default()
        }
    }
}

/// `path` as it would be absolute, without `.`, `..` and double slashes; symbolic links are not
/// looked at, because what they led to may be gone.
pub(crate) fn normalise(path: &[u8]) -> Result<Vec<u8>, ClientError> {
    let unknown = |error: std::io::Error| {
        ClientError::new(ErrorKind::Usage, format!("the current directory is not known: {error}"))
    };
    let whole = if path.starts_with(b"/") {
        path.to_vec()
    } else {
        let current = std::env::current_dir().map_err(unknown)?;
        [current.as_os_str().as_bytes(), b"/", path].concat()
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in whole.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Ok([b"/", parts.join(&b'/').as_slice()].concat())
}

/// Where `path` may be stored: as it is written, and, if that is another path, with the symbolic
/// links above its last component followed as a backup of it does.
pub(crate) fn places(filespaces: &[FilespaceSummary], path: &[u8]) -> Vec<Place> {
    let mut found = candidates(filespaces, path);
    if let Ok((filespace, within)) = sys::mount::filespace_root(path) {
        let resolved = crate::backup::absolute(&filespace, &within);
        if resolved != path {
            found.extend(candidates(filespaces, &resolved));
        }
    }
    found
}

/// The filespaces that may hold the absolute `path`, innermost first, and where in them it is.
fn candidates(filespaces: &[FilespaceSummary], path: &[u8]) -> Vec<Place> {
    let mut found: Vec<Place> =
        filespaces.iter().filter_map(|filespace| place(&filespace.name, path)).collect();
    found.sort_by_key(|place| std::cmp::Reverse(mount_point(&place.filespace).len()));
    found
}

fn place(filespace: &[u8], path: &[u8]) -> Option<Place> {
    let within = match mount_point(filespace) {
        b"/" => path,
        filespace => match path.strip_prefix(filespace)? {
            b"" => b"/",
            rest if rest.starts_with(b"/") => rest,
            _ => return None,
        },
    };
    let filespace = filespace.to_vec();
    if within == b"/" {
        return Some(Place { filespace, directory: DirPath::above_root(), name: None });
    }
    let (directory, name) = DirPath::new(&[within, b"/"].concat()).ok()?.parent()?;
    Some(Place { filespace, directory, name: Some(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str) -> FilespaceSummary {
        FilespaceSummary { name: name.as_bytes().to_vec(), active_objects: 0, last_backup: None }
    }

    #[track_caller]
    fn check(path: &str, expected: &[(&str, &str, &str)]) {
        let filespaces = [info("/"), info("/home"), info("/home/me")];
        let found = candidates(&filespaces, path.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("plain");
        let shown: Vec<_> = found
            .iter()
            .map(|place| {
                let name = place
                    .name
                    .as_ref()
                    .map_or("", |name| std::str::from_utf8(name.as_bytes()).expect("plain"));
                (text(&place.filespace), text(place.directory.as_bytes()), name.to_owned())
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned()))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_innermost_filespace_comes_first() {
        check("/usr/share", &[("/", "/usr/", "share")]);
        check("/home", &[("/home", "", ""), ("/", "/", "home")]);
        check("/homer", &[("/", "/", "homer")]);
        check("/home/x", &[("/home", "/", "x"), ("/", "/home/", "x")]);
        check("/", &[("/", "", "")]);
    }

    #[test]
    fn paths_are_made_plain() {
        for (path, plain) in [("/a//b/./c/../d/", "/a/b/d"), ("/", "/"), ("/..", "/")] {
            assert_eq!(normalise(path.as_bytes()).expect("absolute"), plain.as_bytes());
        }
    }
}
