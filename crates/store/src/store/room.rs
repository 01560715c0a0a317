//! Room on the disk of the server's folder, whose reserve backups may not use up.

use pool::Purpose;

use super::Store;
use crate::error::StoreError;

impl Store {
    /// Fails if the disk of the server's folder has no room for a commit of a backup. Commits may
    /// use the first half of the reserve, so that data that has arrived is not refused in the end.
    /// A catalogue in a database has a disk of its own.
    pub(crate) fn check_commit_room(&self) -> Result<(), StoreError> {
        if self.config.keeps_catalog_in_folder() && self.folder_room() == 0 {
            return Err(StoreError::no_space(format!(
                "the disk of the server's folder {} is full, so that the catalogue takes nothing \
                 more; make room there, or expire versions and reclaim their space",
                self.folder.display()
            )));
        }
        Ok(())
    }

    /// Returns the number of bytes that work on the server's folder may write, without the half of
    /// the reserve that is left to deletion. A disk that does not say how much is free has room.
    pub(crate) fn folder_room(&self) -> u64 {
        let room = self.config.reserve().room(&self.folder, Purpose::Upkeep);
        room.unwrap_or(u64::MAX)
    }
}
