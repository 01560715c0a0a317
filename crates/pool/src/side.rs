//! Small files that pools keep beside their packs: the lists of blocks that copies of the catalogue
//! are made of. They are found without a catalogue.

use std::io;
use std::path::{Path, PathBuf};

use model::PoolId;

use crate::{AppendError, Pools};

const FOLDER: &str = "catalogue";

impl Pools {
    /// The pools that are there, primary ones first.
    pub fn present(&self) -> Vec<PoolId> {
        let state = self.state();
        let mut present: Vec<_> = state.members.values().filter(|member| member.is_there).collect();
        present.sort_by_key(|member| (!member.is_primary(), member.spec.id));
        present.into_iter().map(|member| member.spec.id).collect()
    }

    /// Writes a file, durably, and as a whole or not at all.
    pub fn put_file(&self, pool: PoolId, name: &str, bytes: &[u8]) -> Result<(), AppendError> {
        let folder = self.folder_of(pool)?;
        if let Some(bucket) = self.bucket_of(pool) {
            let put = bucket.0.write_beside(&in_bucket(name), bytes);
            return put.map_err(|source| AppendError::File { folder, source });
        }
        let failed = |source| AppendError::File { folder: folder.clone(), source };
        let side = folder.join(FOLDER);
        match sys::durable::create_dir(&side, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        sys::durable::write(&side.join(name), bytes, 0o600).map_err(failed)
    }

    /// The names of a pool's files, in order.
    pub fn files(&self, pool: PoolId) -> io::Result<Vec<String>> {
        match self.bucket_of(pool) {
            Some(bucket) => {
                let mut names = bucket.0.list_beside(FOLDER)?;
                names.sort_unstable();
                Ok(names)
            }
            None => files_in(&self.side_of(pool)?),
        }
    }

    pub fn read_file(&self, pool: PoolId, name: &str) -> io::Result<Vec<u8>> {
        match self.bucket_of(pool) {
            Some(bucket) => bucket
                .0
                .read_beside(&in_bucket(name))?
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
            None => std::fs::read(self.side_of(pool)?.join(name)),
        }
    }

    /// Removes a file, if it is there.
    pub fn remove_file(&self, pool: PoolId, name: &str) -> io::Result<()> {
        if let Some(bucket) = self.bucket_of(pool) {
            return bucket.0.remove_beside(&in_bucket(name));
        }
        match std::fs::remove_file(self.side_of(pool)?.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn side_of(&self, pool: PoolId) -> io::Result<PathBuf> {
        self.folder_of(pool)
            .map(|folder| folder.join(FOLDER))
            .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
    }
}

pub(crate) fn in_bucket(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn files_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}
