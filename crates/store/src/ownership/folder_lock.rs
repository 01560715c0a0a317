//! The lock on a server's folder.

use std::path::{Path, PathBuf};

use sys::durable::{FileIdentity, Lock};

use crate::folder::error::OpenError;

/// Name of the file that is locked. The file is empty, so that nobody has a reason to edit it.
const LOCK_FILE: &str = "server.lock";

/// The lock on a server's folder, until it is dropped.
pub(super) struct FolderLock {
    path: PathBuf,
    lock: Lock,
    pub(super) identity: FileIdentity,
}

impl FolderLock {
    pub(super) fn take(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join(LOCK_FILE);
        let unusable = |source| OpenError::File { path: path.clone(), source };
        let lock = Lock::try_exclusive(&path).map_err(unusable)?;
        let lock = lock.ok_or_else(|| OpenError::folder_in_use(folder))?;
        let identity = lock.identity().map_err(unusable)?;
        Ok(Self { path, lock, identity })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if another file is at the path of the locked file. Then the lock keeps nobody
    /// away.
    pub(super) fn is_replaced(&self) -> bool {
        // A disk that does not answer is no proof of another file.
        self.lock.is_at(&self.path).is_ok_and(|is_there| !is_there)
    }

    #[cfg(test)]
    pub(super) fn release(&self) {
        self.lock.release().expect("it is locked");
    }
}
