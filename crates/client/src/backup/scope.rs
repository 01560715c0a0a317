//! Scopes: the targets of a backup, grouped by filespace.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sys::Dir;

use super::tally::Tally;
use crate::error::{ClientError, ErrorKind};
use crate::report::Failure;
use crate::virtual_filespaces::VirtualFilespaces;

/// Filespace, and the targets in it.
pub(super) struct Scope<'a> {
    pub(super) filespace: &'a [u8],
    /// Path at which the root directory of the filespace is read.
    pub(super) root: &'a [u8],
    /// True if each file is read from a reflink that is made when the file is opened.
    pub(super) reflinks: bool,
    /// Paths of the targets from the filespace's root.
    pub(super) targets: &'a [Vec<u8>],
}

impl Scope<'_> {
    /// Returns true if all of the filespace is backed up.
    pub(super) fn is_whole(&self) -> bool {
        self.targets.iter().any(|target| target == b"/")
    }
}

/// Groups paths by the filespace that holds them. Each missing path is a failure. The command fails
/// if no path is left. Paths below others are looked at once, unless they are `without_content`.
pub(super) fn by_filespace(
    paths: &[Vec<u8>],
    virtual_filespaces: &VirtualFilespaces,
    without_content: bool,
    managed: &[Vec<u8>],
    tally: &Tally,
) -> Result<BTreeMap<Vec<u8>, Vec<Vec<u8>>>, ClientError> {
    let mut scopes: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for path in paths {
        match locate(path, virtual_filespaces, managed) {
            Ok((filespace, target)) => scopes.entry(filespace).or_default().push(target),
            Err(error) => {
                tally.fail(Failure { path: path.clone(), error: error.to_string() });
            }
        }
    }
    if scopes.is_empty() {
        // A pattern that matches nothing has failed before, and is no path.
        let first = tally.first_failure();
        let (path, error) =
            first.map_or_else(Default::default, |first| (model::escaped(&first.path), first.error));
        let message = format!("cannot back up {path}: {error}");
        return Err(ClientError::new(ErrorKind::NotFound, message));
    }
    for targets in scopes.values_mut() {
        if without_content {
            targets.sort();
            targets.dedup();
        } else {
            remove_covered(targets);
        }
    }
    Ok(scopes)
}

/// Splits a path into filespace and target. Fails for a pseudo file system, such as that of
/// processes, and for one of the `managed` file systems if a virtual filespace is in it.
pub(crate) fn locate(
    path: &[u8],
    virtual_filespaces: &VirtualFilespaces,
    managed: &[Vec<u8>],
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (filespace, target) = virtual_filespaces.locate(path)?;
    if Dir::open(&filespace)?.is_pseudo()? {
        return Err(io::Error::other("a pseudo file system is not backed up"));
    }
    match virtual_filespaces.conflict(&filespace, managed) {
        None => Ok((filespace, target)),
        Some(reason) => Err(io::Error::other(reason)),
    }
}

/// Removes targets at or below other targets, because they are backed up with those.
fn remove_covered(targets: &mut Vec<Vec<u8>>) {
    let all: BTreeSet<Vec<u8>> = targets.drain(..).collect();
    let is_covered = |target: &&Vec<u8>| {
        let slashes = target.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        let mut uppers = slashes.map(|(at, _)| &target[..at]);
        target[..] != b"/"[..]
            && (all.contains(&b"/"[..]) || uppers.any(|upper| all.contains(upper)))
    };
    targets.extend(all.iter().filter(|target| !is_covered(target)).cloned());
    assert!(all.is_empty() || !targets.is_empty(), "a target is covered by one that stays");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::progress::Progress;
    use crate::virtual_filespaces::tests::virtual_filespaces;

    #[test]
    fn targets_below_others_are_looked_at_once() {
        for (targets, expected) in [
            (&["/a", "/a"][..], &["/a"][..]),
            (&["/a/b", "/a", "/c"], &["/a", "/c"]),
            (&["/x", "/"], &["/"]),
            (&["/a/b", "/a.b", "/a", "/a.b/c"], &["/a", "/a.b"]),
        ] {
            let mut targets = targets.iter().map(|path| path.as_bytes().to_vec()).collect();
            remove_covered(&mut targets);
            assert_eq!(targets, expected.iter().map(|t| t.as_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn targets_without_content_cover_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let above = folder.path().as_os_str().as_encoded_bytes().to_vec();
        let below = [&above[..], b"/file"].concat();
        std::fs::write(folder.path().join("file"), "").expect("written");
        let tally = Tally::new(Arc::new(Progress::default()));
        for (without_content, expected) in [(true, 2), (false, 1)] {
            let paths = [below.clone(), above.clone(), below.clone()];
            let scopes =
                by_filespace(&paths, &VirtualFilespaces::default(), without_content, &[], &tally)
                    .expect("they exist");
            assert_eq!(scopes.values().map(Vec::len).sum::<usize>(), expected);
        }
    }

    #[test]
    fn a_virtual_filespace_has_targets_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("a path");
        std::fs::create_dir(top.join("own")).expect("made");
        std::fs::write(top.join("own/file"), "").expect("written");
        let path = |name: &str| top.join(name).to_str().expect("a text").to_owned();
        let list = virtual_filespaces(&[&path("own")]);
        let tally = Tally::new(Arc::new(Progress::default()));
        let paths = [path("own/file").into_bytes(), path("").into_bytes()];
        let scopes = by_filespace(&paths, &list, false, &[], &tally).expect("they exist");
        assert_eq!(scopes.len(), 2);
        assert_eq!(scopes[path("own").as_bytes()], [b"/file".to_vec()]);
    }

    #[test]
    fn a_missing_path_fails_alone_unless_it_is_the_only_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let there = folder.path().as_os_str().as_encoded_bytes().to_vec();
        let missing = [&there[..], b"/none"].concat();
        let tally = Tally::new(Arc::new(Progress::default()));
        let scopes = by_filespace(
            &[there, missing.clone()],
            &VirtualFilespaces::default(),
            false,
            &[],
            &tally,
        )
        .expect("one path exists");
        assert_eq!(scopes.len(), 1);
        assert_eq!(tally.report().failed, 1);
        let tally = Tally::new(Arc::new(Progress::default()));
        let error = by_filespace(&[missing], &VirtualFilespaces::default(), false, &[], &tally)
            .expect_err("no path exists");
        assert_eq!(error.kind, ErrorKind::NotFound);
    }

    #[test]
    fn what_the_kernel_makes_up_is_refused() {
        let error = locate(b"/proc/self", &VirtualFilespaces::default(), &[])
            .expect_err("a pseudo file system");
        assert!(error.to_string().contains("pseudo"));
    }
}
