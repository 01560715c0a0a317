//! Packs as files of a folder: `0000000/0000000001.pack`, a thousand in each subfolder.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use model::PackNumber;

const PACKS_PER_FOLDER: u64 = 1000;
/// Exclusive upper limit of the pack numbers that a place can hold.
const PACK_NUMBER_END: u64 = 1 << 39;

/// Returns the path of `pack` below `folder`.
pub(crate) fn path(folder: &Path, pack: PackNumber) -> PathBuf {
    let name = format!("{:010}.pack", pack.0);
    debug_assert_eq!(number(&name), Some(pack), "a listing finds the same number");
    folder.join(format!("{:07}", pack.0 / PACKS_PER_FOLDER)).join(name)
}

/// Lists all packs in the folder, in ascending order. Files with other names are ignored.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<PackNumber>> {
    let mut packs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if is_ours && entry.file_type()?.is_dir() {
            for file in std::fs::read_dir(entry.path())? {
                packs.extend(file?.file_name().to_str().and_then(number));
            }
        }
    }
    packs.sort_unstable();
    Ok(packs)
}

/// Returns the number of the pack with this file name.
pub(crate) fn number(file_name: &str) -> Option<PackNumber> {
    stem_number(OsStr::new(file_name.strip_suffix(".pack")?))
}

/// Returns the number of the pack with this file name, given without its extension.
pub(crate) fn stem_number(stem: &OsStr) -> Option<PackNumber> {
    let number = stem.to_str()?.parse().ok()?;
    (1..PACK_NUMBER_END).contains(&number).then_some(PackNumber(number))
}

/// Creates the subfolder for `pack`, durably, and returns the path of the pack.
pub(crate) fn make_for(folder: &Path, pack: PackNumber) -> io::Result<PathBuf> {
    let path = path(folder, pack);
    match std::fs::DirBuilder::new().mode(0o700).create(subfolder(&path)) {
        Ok(()) => sync(folder)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(path)
}

/// Returns the subfolder in which the pack at `path` lies.
pub(crate) fn subfolder(path: &Path) -> &Path {
    path.parent().expect("a path of a pack has a subfolder")
}

/// Makes the names in `folder` durable.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes a file durably, if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync(subfolder(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packs_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for pack in [PackNumber(2001), PackNumber(1)] {
            std::fs::write(make_for(folder.path(), pack).unwrap(), b"").unwrap();
        }
        for name in ["0000000/0000000002.new", "0000000/x.pack", "0000000/0.pack", "holdfast-pool"]
        {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        assert_eq!(list(folder.path()).unwrap(), [PackNumber(1), PackNumber(2001)]);
        let path = path(folder.path(), PackNumber(2001));
        assert!(path.ends_with("0000002/0000002001.pack"));
        remove(&path).unwrap();
        remove(&path).expect("a pack that is gone is removed already");
        assert_eq!(list(folder.path()).unwrap(), [PackNumber(1)]);
    }

    #[test]
    fn numbers_that_no_place_can_tell_are_no_packs() {
        assert_eq!(number("0000000000.pack"), None);
        assert_eq!(number(&format!("{PACK_NUMBER_END}.pack")), None);
        assert_eq!(
            number(&format!("{}.pack", PACK_NUMBER_END - 1)).map(|pack| pack.0 + 1),
            Some(PACK_NUMBER_END)
        );
        assert_eq!(number("0000000001.table"), None);
    }
}
