//! A pack that takes quanta.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use format::pack::{HEADER_BYTES, Header, Table};
use model::{ChunkDigest, DomainId, PackNumber, Place, PoolId};

use crate::{Found, PACK_BYTES, PACK_CHUNKS, folder};

/// Space is claimed from the file system in steps of so many bytes, so that a full disk shows
/// before bytes are taken that could then not be kept.
const CLAIM_BYTES: u64 = 4 << 20;

/// Invariant: the file holds a header and exactly the records that the table tells, up to `end`.
pub(crate) struct OpenPack {
    pool: PoolId,
    file: Arc<File>,
    table: Arc<Table>,
    claimed_bytes: u64,
    synced_bytes: u64,
    synced_chunks: u32,
}

/// What it takes to sync a pack without holding the pool's state.
pub(crate) struct SyncHandle {
    file: Arc<File>,
    synced: Synced,
}

/// A pack is durable up to `bytes`.
#[derive(Clone, Copy)]
pub(crate) struct Synced {
    pub(crate) pool: PoolId,
    pub(crate) pack: PackNumber,
    pub(crate) domain: DomainId,
    pub(crate) bytes: u64,
    chunks: u32,
}

impl OpenPack {
    pub(crate) fn create(
        folder: &Path,
        pool: PoolId,
        pack: PackNumber,
        domain: DomainId,
    ) -> io::Result<Self> {
        let path = folder::make_for(folder, pack)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let mut open = Self {
            pool,
            file: Arc::new(file),
            table: Arc::new(Table::new(pack, domain)),
            claimed_bytes: 0,
            synced_bytes: 0,
            synced_chunks: 0,
        };
        let begun = open
            .claim(HEADER_BYTES as u64)
            .and_then(|()| open.file.write_all_at(&Header { pack, domain }.encode(), 0))
            .and_then(|()| folder::sync(path.parent().expect("a pack lies in a folder")));
        if let Err(error) = begun {
            // An empty file is no loss; the next start removes what stays.
            drop(std::fs::remove_file(&path));
            return Err(error);
        }
        Ok(open)
    }

    pub(crate) fn number(&self) -> PackNumber {
        self.table.pack
    }

    pub(crate) fn pool(&self) -> PoolId {
        self.pool
    }

    /// Header and records.
    pub(crate) fn bytes(&self) -> u64 {
        self.table.end()
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table)
    }

    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.table.end() >= PACK_BYTES || self.table.chunk_count() >= PACK_CHUNKS
    }

    pub(crate) fn append(
        &mut self,
        record: &[u8],
        lengths: &[u32],
        digests: &[ChunkDigest],
    ) -> io::Result<Place> {
        let end = self.table.end();
        self.claim(end + record.len() as u64)?;
        // A record cut short is written over by the next: the table has not heard of it.
        self.file.write_all_at(record, end)?;
        let table = Arc::make_mut(&mut self.table);
        Ok(Place::new(table.pack, table.push(record.len(), lengths, digests)))
    }

    /// Has the file system set aside space up to `end`.
    fn claim(&mut self, end: u64) -> io::Result<()> {
        while self.claimed_bytes < end {
            let step = CLAIM_BYTES.max(end - self.claimed_bytes);
            let claimed = sys::durable::claim(&self.file, self.claimed_bytes, step);
            let small_step = end - self.claimed_bytes;
            match claimed {
                Ok(()) => self.claimed_bytes += step,
                Err(error) if error.kind() == io::ErrorKind::StorageFull && small_step < step => {
                    sys::durable::claim(&self.file, self.claimed_bytes, small_step)?;
                    self.claimed_bytes = end;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn is_unsynced(&self) -> bool {
        self.synced_bytes < self.table.end()
    }

    pub(crate) fn sync_handle(&self) -> SyncHandle {
        let Table { pack, domain, .. } = *self.table;
        let (bytes, chunks) = (self.table.end(), self.table.chunk_count());
        let synced = Synced { pool: self.pool, pack, domain, bytes, chunks };
        SyncHandle { file: Arc::clone(&self.file), synced }
    }

    pub(crate) fn note_synced(&mut self, synced: &Synced) {
        self.synced_bytes = self.synced_bytes.max(synced.bytes);
        self.synced_chunks = self.synced_chunks.max(synced.chunks);
    }

    /// Those that survive a power cut for certain.
    pub(crate) fn durable_chunks(&self) -> u32 {
        self.synced_chunks
    }

    /// Writes the footer and makes everything durable.
    pub(crate) fn seal(self) -> Result<(PoolId, Found), (PackNumber, io::Error)> {
        let (pool, pack) = (self.pool, self.number());
        let sealed = seal(&self.file, self.table);
        sealed.map(|found| (pool, found)).map_err(|error| (pack, error))
    }
}

/// Writes the footer of `table` into `file`, cuts off what lies behind, and makes it durable.
///
/// Data before footer: a footer that survives a crash must not speak of records that did not.
pub(crate) fn seal(file: &File, table: Arc<Table>) -> io::Result<Found> {
    file.sync_data()?;
    let footer = table.encode_footer();
    file.write_all_at(&footer, table.end())?;
    let bytes = table.end() + footer.len() as u64;
    file.set_len(bytes)?;
    file.sync_all()?;
    Ok(Found { table, bytes })
}

impl SyncHandle {
    pub(crate) fn pack(&self) -> (PoolId, PackNumber) {
        (self.synced.pool, self.synced.pack)
    }

    pub(crate) fn sync(self) -> Result<Synced, (PackNumber, io::Error)> {
        self.file.sync_data().map_err(|error| (self.synced.pack, error))?;
        Ok(self.synced)
    }
}
