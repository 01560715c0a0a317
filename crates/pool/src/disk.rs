//! Errors at the files of pools, noted with the file and the operation.

use std::io;
use std::path::Path;

use model::PackNumber;
use sys::disk_error::{self, DiskError, FileKind};

use crate::error::{AppendError, ReadError};
use crate::storage::PackStorage;

/// Notes an error at the file of `pack`, if the storage keeps packs in local files.
pub(crate) fn note_pack(
    storage: &dyn PackStorage,
    pack: PackNumber,
    operation: &'static str,
    error: &io::Error,
) {
    if let Some(file) = storage.file_of(pack) {
        let (kind, folder) = (FileKind::Pack, storage.files().place());
        disk_error::note(&DiskError { kind, folder: &folder, file: &file, operation, error });
    }
}

/// Notes an error of a read, if the disk caused it.
pub(crate) fn note_read(storage: &dyn PackStorage, error: &ReadError) {
    if let ReadError::Disk { pack, source } = error {
        note_pack(storage, *pack, "read", source);
    }
}

/// Notes an error of a write, if the disk caused it.
pub(crate) fn note_write(storage: &dyn PackStorage, error: &AppendError) {
    if let AppendError::Failed { pack, source } = error {
        note_pack(storage, *pack, "write", source);
    }
}

/// Notes an error at the file `name` beside the packs, if it is a local file.
pub(crate) fn note_side_file(
    storage: &dyn PackStorage,
    name: &str,
    operation: &'static str,
    error: &io::Error,
) {
    let files = storage.files();
    if let Some(file) = files.file_of(name) {
        let (kind, folder) = (FileKind::CatalogCopy, files.place());
        disk_error::note(&DiskError { kind, folder: &folder, file: &file, operation, error });
    }
}

/// Notes an error at the folder of a pool.
pub(crate) fn note_folder(folder: &Path, error: &io::Error) {
    let kind = FileKind::Pack;
    disk_error::note(&DiskError { kind, folder, file: folder, operation: "open", error });
}
