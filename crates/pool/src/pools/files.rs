//! Small files that pools keep beside their packs: the lists of blocks that copies of the catalogue
//! are made of. They can be found without a catalogue.

use std::io;
use std::sync::Arc;

use model::PoolId;

use super::Pools;
use crate::error::AppendError;
use crate::storage::PackStorage;

impl Pools {
    /// Writes a file durably, as a whole or not at all.
    pub fn put_file(&self, pool: PoolId, name: &str, bytes: &[u8]) -> Result<(), AppendError> {
        let storage = self.storage_there(pool)?;
        let files = storage.files();
        files
            .write(name, bytes)
            .map_err(|source| AppendError::File { folder: files.place(), source })
    }

    /// Returns the names of a pool's files, in alphabetical order.
    pub fn files(&self, pool: PoolId) -> io::Result<Vec<String>> {
        self.files_of(pool)?.files().names()
    }

    pub fn read_file(&self, pool: PoolId, name: &str) -> io::Result<Vec<u8>> {
        self.files_of(pool)?.files().read(name)
    }

    /// Removes a file, if it exists.
    pub fn remove_file(&self, pool: PoolId, name: &str) -> io::Result<()> {
        self.files_of(pool)?.files().remove(name)
    }

    fn files_of(&self, pool: PoolId) -> io::Result<Arc<dyn PackStorage>> {
        self.storage_there(pool)
            .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
    }
}
