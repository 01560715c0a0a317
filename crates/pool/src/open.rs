//! A pack that takes quanta.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use format::pack::{HEADER_BYTES, Header, Table};
use model::{ChunkDigest, DomainId, PackNumber, Place, PoolId};

use crate::bucket::{Bucketed, Finishing, Upload};
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
    /// Where its store is sent what it gets.
    upload: Option<Upload>,
}

/// A pack that is being sealed.
pub(crate) enum Sealing {
    Folder(OpenPack),
    Bucket { pool: PoolId, found: Found, finishing: io::Result<Finishing> },
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
        (folder, bucket): (&Path, Option<&Bucketed>),
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
        let file = Arc::new(file);
        let to = |bucket: &Bucketed| Upload::new(Arc::clone(&bucket.0), pack, Arc::clone(&file));
        let mut open = Self {
            pool,
            upload: bucket.map(to),
            file,
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
        let place = Place::new(table.pack, table.push(record.len(), lengths, digests));
        if let Some(upload) = &mut self.upload {
            upload.advance(self.table.end())?;
        }
        Ok(place)
    }

    /// Whether it is durable only once it is sealed.
    pub(crate) fn is_sent(&self) -> bool {
        self.upload.is_some()
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

    /// Begins to write the footer and to make everything durable. Several are sent at once.
    pub(crate) fn begin_seal(mut self) -> Sealing {
        let Some(upload) = self.upload.take() else { return Sealing::Folder(self) };
        let (pool, table) = (self.pool, self.table);
        let footer = table.encode_footer();
        let bytes = table.end() + footer.len() as u64;
        let finishing = self
            .file
            .write_all_at(&footer, table.end())
            .and_then(|()| self.file.set_len(bytes))
            .and_then(|()| upload.finish(bytes, &table));
        Sealing::Bucket { pool, found: Found { table, bytes }, finishing }
    }
}

impl Sealing {
    /// Waits until everything is durable.
    pub(crate) fn finish(self) -> Result<(PoolId, Found), (PackNumber, io::Error)> {
        match self {
            Self::Folder(open) => {
                let (pool, pack) = (open.pool, open.number());
                let sealed = seal(&open.file, open.table);
                sealed.map(|found| (pool, found)).map_err(|error| (pack, error))
            }
            Self::Bucket { pool, found, finishing } => {
                let pack = found.table.pack;
                let sent = finishing.and_then(Finishing::wait);
                sent.map(|()| (pool, found)).map_err(|error| (pack, error))
            }
        }
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
