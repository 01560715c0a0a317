//! Writing a sealed pack to a pool: as a second copy, on its way to the next pool, or to replace a
//! damaged pack. Each quantum is checked, and read from any pool where it is undamaged.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use format::pack::{HEADER_BYTES, Header, Table};
use model::{PackNumber, PoolId};

use super::Pools;
use crate::disk;
use crate::error::{AppendError, PutError};
use crate::layout;
use crate::pack::pack_bytes;
use crate::reserve::Purpose;
use crate::storage::{Intake, PackStorage};

/// Extension of a file that becomes a pack when it is complete.
const NEW: &str = "new";

impl Pools {
    /// Writes the sealed `pack` to `pool`, durably. It replaces the copy that the pool had. Returns
    /// the size of the pack in bytes.
    pub fn put(&self, pack: PackNumber, pool: PoolId) -> Result<u64, PutError> {
        let storage = self.storage_with_room(pack, pool)?;
        let intake = intake_of(&*storage);
        let folder = intake.folder();
        let failed = |error| {
            disk::note_pack(&*storage, pack, "write", &error);
            AppendError::of_write(pack, folder, error)
        };
        let new = layout::make_for(folder, pack).map_err(failed)?.with_extension(NEW);
        let table = self.assemble(pack, &new, folder).inspect_err(|error| {
            if let PutError::Write(error) = error {
                disk::note_write(&*storage, error);
            }
            // The next try overwrites the file if it stays.
            drop(std::fs::remove_file(&new));
        })?;
        assert_eq!(table.pack, pack, "another pack was assembled");
        let bytes = pack_bytes(&table);
        intake.put(&Arc::new(table), &new).map_err(failed)?;
        self.note_arrival(pack, pool, bytes);
        Ok(bytes)
    }

    /// Writes the whole pack to the file `path`.
    fn assemble(&self, pack: PackNumber, path: &Path, folder: &Path) -> Result<Table, PutError> {
        let failed = |error| AppendError::of_write(pack, folder, error);
        let table = self.whole_table(pack)?;
        let mut file = create(path).map_err(failed)?;
        let header = Header { pack, domain: table.domain };
        file.write_all(&header.encode()).map_err(failed)?;
        let mut end = HEADER_BYTES as u64;
        for quantum in table.quanta() {
            assert_eq!(quantum.offset, end, "quanta lie without gaps");
            file.write_all(&self.read(pack, quantum)?).map_err(failed)?;
            end += u64::from(quantum.record_bytes);
        }
        assert_eq!(end, table.end(), "the footer follows the last quantum");
        let footer = table.encode_footer();
        file.write_all(&footer).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(table)
    }

    /// Returns the storage of `pool`, if it is available, and if it has room for the pack or
    /// already has the pack.
    fn storage_with_room(
        &self,
        pack: PackNumber,
        pool: PoolId,
    ) -> Result<Arc<dyn PackStorage>, AppendError> {
        let storage = self.storage_there(pool)?;
        let folder = intake_of(&*storage).folder();
        let state = self.state();
        let bytes = state.bytes_of(pack).unwrap_or(0);
        let member = state.members.get(&pool);
        let has_pack = member.is_some_and(|member| member.has(pack));
        let is_below_capacity = has_pack || member.is_some_and(|member| member.has_room(bytes));
        let reserve = state.reserve;
        drop(state);
        // A repair replaces a pack, so that it takes no more space in the end.
        let purpose = if has_pack { Purpose::Upkeep } else { Purpose::Data };
        let has_room = reserve.room(folder, purpose).map_or(true, |room| bytes <= room);
        if is_below_capacity && has_room {
            Ok(storage)
        } else {
            Err(AppendError::Full { folder: folder.to_owned() })
        }
    }

    /// Takes note that `pack` is whole in `pool`.
    pub(super) fn note_arrival(&self, pack: PackNumber, pool: PoolId, bytes: u64) {
        let mut state = self.state();
        state.tables.pop(&pack);
        state.set_bytes(pool, pack, bytes);
    }
}

fn intake_of(storage: &dyn PackStorage) -> &dyn Intake {
    storage.intake().expect("packs reach volumes in another way")
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}
