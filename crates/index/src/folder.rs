//! The index's folder: the names of its files and how they are replaced.
//!
//! A file is written under a name that ends in `.tmp`, synced and renamed, and then the folder is
//! synced. So a file with its final name is always whole. Files of other names are not touched.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::IndexError;
use crate::manifest::RunNumber;

const RUN_NAME_START: &str = "run-";
const UNFINISHED_EXTENSION: &str = "tmp";

pub(crate) fn manifest_path(folder: &Path) -> PathBuf {
    folder.join("manifest")
}

pub(crate) fn run_path(folder: &Path, run: RunNumber) -> PathBuf {
    folder.join(format!("{RUN_NAME_START}{:016x}", run.0))
}

/// Creates or replaces the file `path` with the bytes that `write` puts into it, durably. Returns
/// the file and the result of `write`.
pub(crate) fn write_durably<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, IndexError>,
) -> Result<(File, T), IndexError> {
    let unfinished = path.with_extension(UNFINISHED_EXTENSION);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&unfinished)
        .map_err(IndexError::at(&unfinished))?;
    let written = write(&mut file).and_then(|written| {
        file.sync_all().map_err(IndexError::at(&unfinished))?;
        fs::rename(&unfinished, path).map_err(IndexError::at(path))?;
        Ok(written)
    });
    let written = written.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    let folder = path.parent().expect("the index's files are in its folder");
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .map_err(IndexError::at(folder))?;
    Ok((file, written))
}

/// Removes the index's files from `folder`, except for those in `kept`.
pub(crate) fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), IndexError> {
    for entry in fs::read_dir(folder).map_err(IndexError::at(folder))? {
        let path = entry.map_err(IndexError::at(folder))?.path();
        if is_ours(folder, &path) && !kept.contains(&path) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes the file `path`, which may be missing.
pub(crate) fn remove(path: &Path) -> Result<(), IndexError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(IndexError::at(path)(error)),
        _ => Ok(()),
    }
}

fn is_ours(folder: &Path, path: &Path) -> bool {
    let manifest = manifest_path(folder);
    let is_run = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(RUN_NAME_START));
    is_run || path == manifest || path == manifest.with_extension(UNFINISHED_EXTENSION)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_failed_write_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = manifest_path(folder.path());
        let write = |bytes: &'static [u8]| {
            move |file: &mut File| file.write_all(bytes).map_err(IndexError::at(Path::new("here")))
        };
        write_durably(&path, write(b"first")).expect("written");
        let failed = write_durably::<()>(&path, |file| {
            write(b"second")(file)?;
            Err(IndexError::at(&path)(io::Error::other("the disk is full")))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).expect("still there"), b"first");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn only_the_index_s_files_are_removed() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let run = run_path(folder.path(), RunNumber(7));
        let foreign = folder.path().join("notes");
        for path in [&run, &run.with_extension("tmp"), &foreign, &manifest_path(folder.path())] {
            fs::write(path, b"x").expect("written");
        }
        remove_others(folder.path(), &BTreeSet::from([run.clone()])).expect("removed");
        let left: BTreeSet<_> = fs::read_dir(folder.path())
            .expect("readable")
            .map(|entry| entry.expect("readable").path())
            .collect();
        assert_eq!(left, BTreeSet::from([run, foreign]));
    }
}
