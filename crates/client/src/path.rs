//! Paths on the node, filespaces, and paths within filespaces.

use model::{DirPath, Name, mount_point};

use crate::error::{ClientError, ErrorKind};

/// Place of an object or a directory in a filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) filespace: Vec<u8>,
    /// Directory that holds the object.
    pub(crate) directory: DirPath,
    /// Name of the object; `None` for the filespace's root.
    pub(crate) name: Option<Name>,
}

impl Place {
    /// Returns the place of the root of a filespace.
    pub(crate) fn of_filespace(name: &[u8]) -> Self {
        Self { filespace: name.to_vec(), directory: DirPath::above_root(), name: None }
    }

    /// Returns the path that this place has if it is a directory.
    pub(crate) fn below(&self) -> DirPath {
        self.name.as_ref().map_or_else(DirPath::root, |name| self.directory.child(name))
    }
}

/// Returns the path that `path` in `filespace` has on the node.
pub(crate) fn absolute(filespace: &[u8], path: &[u8]) -> Vec<u8> {
    match (mount_point(filespace), path) {
        (b"/", path) => path.to_vec(),
        (filespace, b"/") => filespace.to_vec(),
        (filespace, path) => [filespace, path].concat(),
    }
}

/// Returns the path that the directory `directory` of `filespace` has on the node, without a slash
/// at its end.
pub(crate) fn absolute_dir(filespace: &[u8], directory: &DirPath) -> Vec<u8> {
    let path = directory.as_bytes();
    let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path);
    absolute(filespace, path)
}

/// Returns the directories above the absolute `path`, the root first.
pub(crate) fn directories_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes
        .map(move |(at, _)| &path[..at.max(1)])
        .filter(move |above| above.len() < path.len())
}

/// Splits the path of an object, from its filespace's root, into its directory and its name. The
/// root lies in [`DirPath::above_root`].
pub(crate) fn split(path: &[u8]) -> Option<(DirPath, Name)> {
    let with_slash = if path == b"/" { path.to_vec() } else { [path, b"/"].concat() };
    DirPath::new(&with_slash).ok()?.parent()
}

/// Returns the components of `path`, in order.
pub(crate) fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty())
}

/// Returns the absolute `path` without `.`, `..` and double slashes. Symbolic links are not
/// followed, because their targets may be gone.
pub(crate) fn normalise(path: &[u8]) -> Result<Vec<u8>, ClientError> {
    if !path.starts_with(b"/") {
        let message = format!("{} is not an absolute path", model::escaped(path));
        return Err(ClientError::new(ErrorKind::Usage, message));
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in components(path) {
        match part {
            b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let plain = [b"/", parts.join(&b'/').as_slice()].concat();
    assert!(
        plain.len() <= path.len(),
        "a plain path is not longer than the path that it is made of"
    );
    Ok(plain)
}

/// Returns the places where `path` may be stored. First come the places of the path as it is
/// written. If symbolic links above its last component lead elsewhere, the places of the resolved
/// path follow, because a backup follows such links.
pub(crate) fn places<'a>(
    filespaces: impl Iterator<Item = &'a [u8]> + Clone,
    path: &[u8],
) -> Vec<Place> {
    let candidates = |path: &Vec<u8>| candidates(filespaces.clone(), path);
    paths(path).iter().flat_map(candidates).collect()
}

/// Returns the absolute `path` as it is written, and resolved, if symbolic links above its last
/// component lead elsewhere. The object itself may be gone.
pub(crate) fn paths(path: &[u8]) -> Vec<Vec<u8>> {
    with_resolved(path, path)
}

/// Does the same for the path of a directory, to which a symbolic link may lead.
pub(crate) fn directory_paths(path: &[u8]) -> Vec<Vec<u8>> {
    // With the slash, the last component is followed, too.
    with_resolved(path, &[path, b"/"].concat())
}

fn with_resolved(path: &[u8], name: &[u8]) -> Vec<Vec<u8>> {
    let resolved = sys::mount::resolved(name).ok().filter(|resolved| resolved != path);
    std::iter::once(path.to_vec()).chain(resolved).collect()
}

/// Returns the place of the absolute `path` in the innermost filespace that may hold it.
pub(crate) fn innermost<'a>(
    filespaces: impl Iterator<Item = &'a [u8]>,
    path: &[u8],
) -> Option<Place> {
    candidates(filespaces, path).into_iter().next()
}

/// Returns the place of the absolute `path` in each filespace that may hold it, innermost first.
pub(crate) fn candidates<'a>(
    filespaces: impl Iterator<Item = &'a [u8]>,
    path: &[u8],
) -> Vec<Place> {
    let mut places: Vec<Place> = filespaces.filter_map(|name| place(name, path)).collect();
    places.sort_by_key(|place| std::cmp::Reverse(mount_point(&place.filespace).len()));
    places
}

/// Returns those of `filespaces` in which a command looks: all, or the one that is `named`.
pub(crate) fn only_named(
    mut filespaces: Vec<Vec<u8>>,
    named: Option<&[u8]>,
) -> Result<Vec<Vec<u8>>, ClientError> {
    let Some(named) = named else { return Ok(filespaces) };
    let named = normalise(named)?;
    filespaces.retain(|name| mount_point(name) == named);
    if filespaces.is_empty() {
        let shown = model::escaped(&named);
        let message = format!(
            "the server has no filespace {shown}; 'holdfast list' without a path shows the \
             filespaces"
        );
        return Err(ClientError::new(ErrorKind::NotFound, message));
    }
    Ok(filespaces)
}

fn place(filespace: &[u8], path: &[u8]) -> Option<Place> {
    let within = model::within(path, mount_point(filespace))?;
    if within.is_empty() || within == b"/" {
        return Some(Place::of_filespace(filespace));
    }
    let (directory, name) = split(within)?;
    Some(Place { filespace: filespace.to_vec(), directory, name: Some(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &[[&str; 3]]) {
        let filespaces = [&b"/"[..], b"/home", b"/home/me"];
        let places = candidates(filespaces.into_iter(), path.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("plain");
        let shown: Vec<[String; 3]> = places
            .iter()
            .map(|place| {
                let name = place.name.as_ref().map_or(&b""[..], Name::as_bytes);
                [text(&place.filespace), text(place.directory.as_bytes()), text(name)]
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_innermost_filespace_comes_first() {
        check("/usr/share", &[["/", "/usr/", "share"]]);
        check("/home", &[["/home", "", ""], ["/", "/", "home"]]);
        check("/homer", &[["/", "/", "homer"]]);
        check("/home/x", &[["/home", "/", "x"], ["/", "/home/", "x"]]);
        check("/", &[["/", "", ""]]);
    }

    #[test]
    fn links_above_a_path_lead_to_further_places() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("a path");
        std::fs::create_dir(top.join("real")).expect("made");
        std::os::unix::fs::symlink("real", top.join("link")).expect("made");
        let found = |path: &str| -> Vec<Vec<u8>> {
            let path = top.join(path);
            let places = places(std::iter::once(&b"/"[..]), path.as_os_str().as_encoded_bytes());
            let whole = |place: &Place| absolute_dir(&place.filespace, &place.below());
            places.iter().map(whole).collect()
        };
        let all = |paths: &[&str]| -> Vec<Vec<u8>> {
            let bytes = |path: &&str| top.join(path).as_os_str().as_encoded_bytes().to_vec();
            paths.iter().map(bytes).collect()
        };
        assert_eq!(found("real/gone"), all(&["real/gone"]));
        assert_eq!(found("link/gone"), all(&["link/gone", "real/gone"]));
        assert_eq!(found("link/gone/one"), all(&["link/gone/one", "real/gone/one"]));
        // A link is an object of its own.
        assert_eq!(found("link"), all(&["link"]));
        let directory = |path: &str| directory_paths(top.join(path).as_os_str().as_encoded_bytes());
        assert_eq!(directory("link"), all(&["link", "real"]));
        assert_eq!(directory("real"), all(&["real"]));
        assert_eq!(directory_paths(b"/"), [b"/"]);
    }

    #[test]
    fn a_named_filespace_is_the_only_one() {
        let filespaces = || [&b"/"[..], b"/home"].map(<[u8]>::to_vec).to_vec();
        let named = |name: &[u8]| only_named(filespaces(), Some(name));
        assert_eq!(named(b"/home/").expect("it is there"), [b"/home"]);
        assert_eq!(named(b"/hom").expect_err("it is not there").kind, ErrorKind::NotFound);
        assert_eq!(only_named(filespaces(), None).expect("all are there"), filespaces());
    }

    #[test]
    fn paths_are_made_plain() {
        for (path, plain) in [("/a//b/./c/../d/", "/a/b/d"), ("/", "/"), ("/..", "/")] {
            assert_eq!(normalise(path.as_bytes()).expect("absolute"), plain.as_bytes());
        }
        for relative in ["", "a", "./a", "../a"] {
            let error = normalise(relative.as_bytes()).expect_err("not absolute");
            assert_eq!(error.kind, ErrorKind::Usage);
        }
    }

    #[test]
    fn paths_of_a_filespace_are_paths_of_the_node() {
        assert_eq!(absolute(b"/", b"/usr"), b"/usr");
        assert_eq!(absolute(b"/home", b"/"), b"/home");
        assert_eq!(absolute(b"/home", b"/me"), b"/home/me");
    }

    #[test]
    fn directories_are_shown_without_a_slash() {
        for (filespace, directory, expected) in [
            (&b"/"[..], &b"/usr/lib/"[..], &b"/usr/lib"[..]),
            (b"/home", b"/", b"/home"),
            (b"/", b"/", b"/"),
            (b"/home", b"/me/", b"/home/me"),
        ] {
            let directory = DirPath::new(directory).expect("a directory");
            assert_eq!(absolute_dir(filespace, &directory), expected);
        }
    }

    #[test]
    fn a_path_is_split_at_its_last_component() {
        let (directory, name) = split(b"/a/b/c").expect("a path");
        assert_eq!((directory.as_bytes(), name.as_bytes()), (&b"/a/b/"[..], &b"c"[..]));
        let (directory, name) = split(b"/").expect("the root");
        assert_eq!((directory, name), (DirPath::above_root(), Name::root()));
        assert_eq!(split(b"relative"), None);
        assert_eq!(components(b"//a///b/").collect::<Vec<_>>(), [b"a", b"b"]);
    }
}
