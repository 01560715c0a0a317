//! Errors of disks: the one place where they are counted, and from where they are reported.
//!
//! An error is noted where it occurs, with the file and the operation. What follows from it is
//! decided elsewhere: a reader may find the data in another pool, and the error leaves a trace all
//! the same.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::lock::{Mutex, MutexGuard};

/// Kind of a file of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FileKind {
    Pack,
    CatalogCopy,
    Catalog,
    Index,
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pack => "pack",
            Self::CatalogCopy => "catalogue copy",
            Self::Catalog => "catalogue",
            Self::Index => "chunk index",
        })
    }
}

/// An error of a disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskError<'a> {
    pub kind: FileKind,
    /// Folder to which the file belongs: of a pool, or of the server.
    pub folder: &'a Path,
    pub file: &'a Path,
    /// The operation as a verb, as in "read".
    pub operation: &'static str,
    pub error: &'a io::Error,
}

/// The errors so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    pub count: u64,
    /// Numbers of errors by kind and folder.
    pub counts: BTreeMap<(FileKind, PathBuf), u64>,
    /// Description of the last error, for people.
    pub last: String,
}

static SUMMARY: Mutex<Summary> =
    Mutex::new(Summary { count: 0, counts: BTreeMap::new(), last: String::new() });
static REPORT: OnceLock<fn(&DiskError<'_>)> = OnceLock::new();

fn summary_mut() -> MutexGuard<'static, Summary> {
    SUMMARY.lock()
}

/// Passes each error from now on to `report`. A second call changes nothing.
pub fn report(report: fn(&DiskError<'_>)) {
    REPORT.get_or_init(|| report);
}

/// Counts and reports an error. An error that the state of the files explains is not an error of a
/// disk, and is left out: a file is missing or is there already, or there is no space.
pub fn note(noted: &DiskError<'_>) {
    if !is_of_disk(noted.error) {
        return;
    }
    let DiskError { kind, folder, file, operation, error } = *noted;
    let mut summary = summary_mut();
    summary.count += 1;
    *summary.counts.entry((kind, folder.to_owned())).or_default() += 1;
    summary.last = format!("cannot {operation} {} ({kind}): {error}", file.display());
    drop(summary);
    if let Some(report) = REPORT.get() {
        report(noted);
    }
}

/// Returns the errors so far.
pub fn summary() -> Summary {
    summary_mut().clone()
}

/// Number of errors of all kinds at files of `folder`.
pub fn count_in(folder: &Path) -> u64 {
    let summary = summary_mut();
    let of_folder = summary.counts.iter().filter(|((_, place), _)| place == folder);
    of_folder.map(|(_, count)| count).sum()
}

fn is_of_disk(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_kind_and_folder_and_a_full_disk_is_none() {
        let folder = Path::new("/pool of this test");
        let file = folder.join("0000000001.pack");
        let note = |kind, error: io::Error| {
            note(&DiskError { kind, folder, file: &file, operation: "read", error: &error });
        };
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::StorageFull] {
            note(FileKind::Pack, kind.into());
        }
        assert_eq!(count_in(folder), 0);
        note(FileKind::Pack, io::Error::other("a bad sector"));
        note(FileKind::Pack, io::ErrorKind::IsADirectory.into());
        note(FileKind::CatalogCopy, io::Error::other("a bad sector"));
        assert_eq!((count_in(folder), count_in(Path::new("/other"))), (3, 0));
        let summary = summary();
        assert_eq!(summary.counts[&(FileKind::Pack, folder.to_owned())], 2);
        let last = "cannot read /pool of this test/0000000001.pack (catalogue copy): a bad sector";
        assert_eq!((summary.count, summary.last.as_str()), (3, last));
    }
}
