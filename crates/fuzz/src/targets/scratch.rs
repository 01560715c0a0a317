//! A folder for decoders that read files.

use std::path::Path;

/// Folder in memory, which every Linux has. Other folders do as well, but are slower.
const MEMORY: &str = "/dev/shm";

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::tempdir_in(MEMORY)
        .or_else(|_| tempfile::tempdir())
        .expect("a folder can be made");
}

/// Calls `use_folder` with a folder that only this thread uses. Files of earlier calls may be in
/// it.
pub(super) fn with_folder<T>(use_folder: impl FnOnce(&Path) -> T) -> T {
    FOLDER.with(|folder| use_folder(folder.path()))
}
