//! Names and directory paths: bytes, never text.
//!
//! 1. A name is not empty, is neither `.` nor `..`, and has no `/` and no NUL. The root object of a
//!    filespace alone is named `/`, and it lies alone in the directory above the root:
//!    [`DirPath::can_hold`]. Everything that takes names together with a directory from a peer
//!    checks this on arrival, because a path that is made of `/a/` and `/` names nothing.
//! 2. A directory path is absolute, and its parts are names. So no path leads out of the directory
//!    below which it is made.

use smallvec::SmallVec;

/// Maximum length, in bytes, of a name that is stored without an allocation. In a source tree,
/// seven of eight names are within this limit.
const INLINE_BYTES: usize = 24;

/// The last part of an object's path: any bytes but `/` and NUL, 1 to 255 of them. The root of a
/// filespace alone is named `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(SmallVec<[u8; INLINE_BYTES]>);

/// Reason why bytes cannot be a name or a directory path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The bytes cannot be a name in any file system.
    #[error("a name must be 1 to 255 bytes without '/' and NUL, and must not be '.' or '..'")]
    Name,
    /// The directory path does not start and end with `/`, or has an impossible part.
    #[error("a directory path must start and end with '/' and consist of names")]
    DirPath,
    /// The directory cannot hold an object of this name.
    #[error("the root of a filespace alone must be named '/', and lie alone above the root")]
    Root,
    /// The directory path is well formed, but no server stores it.
    #[error(
        "a directory path must have at most {} bytes and {} levels",
        DirPath::BYTES_MAX,
        DirPath::LEVELS_MAX
    )]
    Limits,
}

impl Name {
    /// Maximum length of a name, in bytes, as in the file systems of Linux.
    pub const BYTES_MAX: usize = 255;

    /// Parses `bytes`. [`DirPath::name`] parses the name of an object whose directory is known.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        if is_name(bytes) || bytes == b"/" {
            Ok(Self(SmallVec::from_slice(bytes)))
        } else {
            Err(NameError::Name)
        }
    }

    /// The name of the object that is the root of a filespace.
    pub fn root() -> Self {
        Self(SmallVec::from_slice(b"/"))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn is_name(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len() <= Name::BYTES_MAX
        // The whole name is examined, which takes less time than stopping at the first fault.
        && !bytes.iter().fold(false, |found, &byte| found | (byte == b'/') | (byte == 0))
        && bytes != b"."
        && bytes != b".."
}

fn is_within_limits(path: &[u8]) -> bool {
    // Most paths are so short that their slashes need not be counted.
    path.len() <= DirPath::LEVELS_MAX
        || path.len() <= DirPath::BYTES_MAX
            && path.iter().filter(|&&byte| byte == b'/').count() <= DirPath::LEVELS_MAX + 1
}

/// The path of a directory within its filespace: `/`, `/usr/`, `/usr/share/`. Empty for the
/// directory that holds the filespace's root object.
///
/// In byte order a subtree is one range: all paths that start with its directory path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DirPath(Vec<u8>);

impl DirPath {
    /// Maximum length of a path that a server stores, in bytes. Every list of the catalogue is
    /// sorted by paths, so a path that is much longer slows all nodes.
    pub const BYTES_MAX: usize = 64 << 10;
    /// Maximum number of directories below each other in a path that a server stores.
    pub const LEVELS_MAX: usize = 4096;

    /// Parses `bytes` that a peer has sent. Fails also if the path is beyond the limits.
    pub fn within_limits(bytes: &[u8]) -> Result<Self, NameError> {
        if !is_within_limits(bytes) {
            return Err(NameError::Limits);
        }
        Self::new(bytes)
    }

    /// Returns true if a server stores the objects of this directory.
    pub fn is_within_limits(&self) -> bool {
        is_within_limits(&self.0)
    }

    /// Parses `bytes`.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        let well_formed = match bytes {
            b"" | b"/" => true,
            [b'/', parts @ .., b'/'] => parts.split(|&byte| byte == b'/').all(is_name),
            _ => false,
        };
        if well_formed { Ok(Self(bytes.to_vec())) } else { Err(NameError::DirPath) }
    }

    /// The directory path of the filespace's root directory.
    pub fn root() -> Self {
        Self(b"/".to_vec())
    }

    /// The directory path of the filespace's root object itself: the empty path.
    pub fn above_root() -> Self {
        Self(Vec::new())
    }

    /// Returns true if an object in this directory can have the name `name`.
    pub fn can_hold(&self, name: &Name) -> bool {
        self.0.is_empty() == (name.0[..] == b"/"[..])
    }

    /// Parses the name of an object in this directory.
    pub fn name(&self, bytes: &[u8]) -> Result<Name, NameError> {
        let name = Name::new(bytes)?;
        if self.can_hold(&name) { Ok(name) } else { Err(NameError::Root) }
    }

    /// The directory path of the directory `name` in this directory, which can hold this name.
    pub fn child(&self, name: &Name) -> Self {
        assert!(self.can_hold(name), "only the root lies above the root, and nowhere else");
        let mut bytes = Vec::with_capacity(self.0.len() + name.0.len() + 1);
        bytes.extend_from_slice(&self.0);
        bytes.extend_from_slice(&name.0);
        if name.0[..] != b"/"[..] {
            bytes.push(b'/');
        }
        Self(bytes)
    }

    /// Splits the path into the parent directory and this directory's name; `None` for the empty
    /// path above the root.
    pub fn parent(&self) -> Option<(Self, Name)> {
        match self.0.as_slice() {
            b"" => None,
            b"/" => Some((Self::above_root(), Name::root())),
            path => {
                let end = path.len() - 1;
                let start =
                    path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
                Some((Self(path[..start].to_vec()), Name(SmallVec::from_slice(&path[start..end]))))
            }
        }
    }

    /// The path of the object `name` in this directory, for people and for patterns.
    pub fn join(&self, name: &Name) -> Vec<u8> {
        [self.0.as_slice(), name.0.as_slice()].concat()
    }

    /// Returns true if `other` is this directory or lies below it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The first bytes after this directory's subtree in byte order; `None` if the subtree is the
    /// whole filespace.
    pub fn end_of_subtree(&self) -> Option<Vec<u8>> {
        let (last, rest) = self.0.split_last()?;
        let mut end = rest.to_vec();
        end.push(last + 1);
        Some(end)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the part of `path` from `top` on: empty for `top` itself, and otherwise with a `/` at
/// its beginning. `None` if `path` lies elsewhere. Both are absolute; `top` may end with a slash.
pub fn within<'p>(path: &'p [u8], top: &[u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(top.strip_suffix(b"/").unwrap_or(top))?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

/// Returns true if `path` is `top` or lies below it, as [`within`] decides it.
pub fn is_at_or_below(path: &[u8], top: &[u8]) -> bool {
    within(path, top).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_any_bytes_but_slash_and_nul() {
        for good in [&b"a"[..], b"\xff\xfe", b"new\nline", b"-", b"...", &[b'x'; 255]] {
            assert!(Name::new(good).is_ok());
        }
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert_eq!(Name::new(bad), Err(NameError::Name));
        }
    }

    #[test]
    fn directory_paths_take_apart_and_join() {
        let share = DirPath::new(b"/usr/share/").expect("well formed");
        let (usr, name) = share.parent().expect("below the root");
        assert_eq!((usr.as_bytes(), name.as_bytes()), (&b"/usr/"[..], &b"share"[..]));
        assert_eq!(usr.child(&name), share);
        let (above, root) = DirPath::root().parent().expect("the root is an object");
        assert_eq!(above.child(&root), DirPath::root());
        assert_eq!(above.join(&root), b"/");
        assert_eq!(above.parent(), None);
        for bad in [&b"usr/"[..], b"/usr", b"//", b"/a//b/", b"/../", b"/a\0/"] {
            assert_eq!(DirPath::new(bad), Err(NameError::DirPath));
        }
    }

    #[test]
    fn paths_are_limited_in_length_and_depth() {
        let long = |bytes: usize| [b"/", &b"n".repeat(bytes - 2)[..], b"/"].concat();
        let check = |path: &[u8], is_within| {
            assert_eq!(is_within_limits(path), is_within, "{} bytes", path.len());
        };
        check(b"", true);
        check(&long(DirPath::BYTES_MAX), true);
        check(&long(DirPath::BYTES_MAX + 1), false);
        let deep = |levels| [b"/", &b"n/".repeat(levels)[..]].concat();
        check(&deep(DirPath::LEVELS_MAX), true);
        check(&deep(DirPath::LEVELS_MAX + 1), false);
        assert!(DirPath::within_limits(&deep(7)).expect("short").is_within_limits());
        let too_deep = deep(DirPath::LEVELS_MAX + 1);
        assert_eq!(DirPath::within_limits(&too_deep), Err(NameError::Limits));
        // A path that is in the catalogue already stays readable.
        assert!(!DirPath::new(&too_deep).expect("well formed").is_within_limits());
        assert_eq!(DirPath::within_limits(b"a/"), Err(NameError::DirPath));
    }

    #[test]
    fn a_subtree_is_one_range_of_bytes() {
        let dir = DirPath::new(b"/a/b/").expect("well formed");
        let end = dir.end_of_subtree().expect("not everything");
        for (other, inside) in
            [(&b"/a/b/"[..], true), (b"/a/b/\xff/", true), (b"/a/b-x/", false), (b"/a/b0/", false)]
        {
            let other = DirPath::new(other).expect("well formed");
            assert_eq!(dir.contains(&other), inside);
            let in_range = other.as_bytes() >= dir.as_bytes() && other.as_bytes() < &end[..];
            assert_eq!(in_range, inside);
        }
    }

    #[test]
    fn a_path_is_within_a_directory_as_a_whole() {
        for (path, top, expected) in [
            ("/data/ann", "/data/ann", Some("")),
            ("/data/ann", "/data/ann/", Some("")),
            ("/data/ann/a", "/data/ann", Some("/a")),
            ("/data/ann/a", "/data/ann/", Some("/a")),
            ("/data/anna", "/data/ann", None),
            ("/data/anna", "/data/ann/", None),
            ("/data", "/data/ann", None),
            ("/other/ann", "/data/ann", None),
            ("/data", "/", Some("/data")),
            ("/", "/", Some("/")),
        ] {
            let (path, top) = (path.as_bytes(), top.as_bytes());
            assert_eq!(within(path, top), expected.map(str::as_bytes), "{path:?} {top:?}");
            assert_eq!(is_at_or_below(path, top), expected.is_some(), "{path:?} {top:?}");
        }
    }

    #[test]
    fn the_root_lies_alone_above_the_root() {
        let (above, top) = (DirPath::above_root(), DirPath::root());
        assert_eq!(above.name(b"/"), Ok(Name::root()));
        assert_eq!(above.name(b"a"), Err(NameError::Root));
        assert_eq!(top.name(b"/"), Err(NameError::Root));
        assert_eq!(top.name(b"a").map(|name| top.child(&name)), DirPath::new(b"/a/"));
        assert_eq!(top.name(b".."), Err(NameError::Name));
    }

    #[test]
    #[should_panic(expected = "only the root lies above the root")]
    fn no_directory_has_the_root_as_its_child() {
        let _nowhere = DirPath::root().child(&Name::root());
    }
}
