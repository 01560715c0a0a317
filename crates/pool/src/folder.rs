//! Packs as files: `0000/0000000001.pack`, a thousand to a folder.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use model::PackNumber;

const PACKS_PER_FOLDER: u64 = 1000;

/// Where `pack` lies.
pub(crate) fn path(folder: &Path, pack: PackNumber) -> PathBuf {
    folder
        .join(format!("{:07}", pack.0 / PACKS_PER_FOLDER))
        .join(format!("{:010}.pack", pack.0))
}

/// All packs in the folder, in order. Files with other names are left alone.
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

/// Of the pack whose file is called so.
pub(crate) fn number(file_name: &str) -> Option<PackNumber> {
    stem_number(std::ffi::OsStr::new(file_name.strip_suffix(".pack")?))
}

/// The same without its extension.
pub(crate) fn stem_number(stem: &std::ffi::OsStr) -> Option<PackNumber> {
    let number = stem.to_str()?.parse().ok()?;
    (1..1 << 39).contains(&number).then_some(PackNumber(number))
}

/// Makes the folder that `pack` goes to, durably.
pub(crate) fn make_for(folder: &Path, pack: PackNumber) -> io::Result<PathBuf> {
    let path = path(folder, pack);
    let parent = path.parent().expect("a pack lies in a folder");
    match std::fs::DirBuilder::new().mode(0o700).create(parent) {
        Ok(()) => sync(folder)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(path)
}

/// Makes the names in `folder` durable.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
