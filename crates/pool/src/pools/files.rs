//! Small files that pools keep beside their packs: the lists of blocks that copies of the catalogue
//! are made of. They can be found without a catalogue.

use std::io;
use std::sync::Arc;

use model::PoolId;

use super::Pools;
use crate::disk;
use crate::error::AppendError;
use crate::storage::PackStorage;

impl Pools {
    /// Writes a file durably, as a whole or not at all.
    pub fn put_file(&self, pool: PoolId, name: &str, bytes: &[u8]) -> Result<(), AppendError> {
        let storage = self.storage_there(pool)?;
        let files = storage.files();
        let written = files.write(name, bytes);
        written.map_err(|source| {
            disk::note_side_file(&*storage, name, "write", &source);
            AppendError::File { folder: files.place(), source }
        })
    }

    /// Returns the names of a pool's files, in alphabetical order.
    pub fn files(&self, pool: PoolId) -> io::Result<Vec<String>> {
        let storage = self.files_of(pool)?;
        let names = storage.files().names();
        names.inspect_err(|error| disk::note_side_file(&*storage, "", "list", error))
    }

    pub fn read_file(&self, pool: PoolId, name: &str) -> io::Result<Vec<u8>> {
        let storage = self.files_of(pool)?;
        let read = storage.files().read(name);
        read.inspect_err(|error| disk::note_side_file(&*storage, name, "read", error))
    }

    /// Removes a file, if it exists.
    pub fn remove_file(&self, pool: PoolId, name: &str) -> io::Result<()> {
        let storage = self.files_of(pool)?;
        let removed = storage.files().remove(name);
        removed.inspect_err(|error| disk::note_side_file(&*storage, name, "remove", error))
    }

    fn files_of(&self, pool: PoolId) -> io::Result<Arc<dyn PackStorage>> {
        self.storage_there(pool)
            .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
    }
}
