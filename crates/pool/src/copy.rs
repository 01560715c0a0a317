//! Writing a sealed pack to a pool: as a second copy, on its way to the next pool, or in the place
//! of a damaged one. Each quantum is checked, and taken from whichever pool has it whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use format::pack::{Header, Table};
use model::{PackNumber, PoolId};

use crate::{AppendError, Pools, ReadError, folder};

/// Why a pack could not be put into a pool, which then has what it had.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// Some of it is whole nowhere.
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] AppendError),
}

impl Pools {
    /// Puts the sealed `pack` into `pool`, durably, in the place of what of it was there; returns
    /// its bytes.
    pub fn put(&self, pack: PackNumber, pool: PoolId) -> Result<u64, PutError> {
        let folder = self.folder_with_room(pack, pool)?;
        let failed = |error| Self::append_error(pack, &folder, error);
        let path = folder::make_for(&folder, pack).map_err(failed)?;
        let new = path.with_extension("new");
        let table = self.assemble(pack, &new, &folder).inspect_err(|_| {
            // What stays is written over by the next try.
            drop(std::fs::remove_file(&new));
        })?;
        let bytes = table.end() + table.encode_footer().len() as u64;
        if let Some(bucket) = self.bucket_of(pool) {
            bucket.0.send(&Arc::new(table), &new).map_err(failed)?;
            self.arrived(pack, pool, bytes);
            return Ok(bytes);
        }
        std::fs::rename(&new, &path).map_err(failed)?;
        folder::sync(path.parent().expect("a pack lies in a folder")).map_err(failed)?;
        self.arrived(pack, pool, bytes);
        Ok(bytes)
    }

    /// Writes all of the pack to the file `path`.
    fn assemble(&self, pack: PackNumber, path: &Path, folder: &Path) -> Result<Table, PutError> {
        let failed = |error| Self::append_error(pack, folder, error);
        let table = self.whole_table(pack)?;
        let mut file = create(path).map_err(failed)?;
        let header = Header { pack, domain: table.domain };
        file.write_all(&header.encode()).map_err(failed)?;
        for quantum in table.quanta() {
            file.write_all(&self.read(pack, quantum)?).map_err(failed)?;
        }
        let footer = table.encode_footer();
        file.write_all(&footer).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(table)
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}
