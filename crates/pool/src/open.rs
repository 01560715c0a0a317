//! An open pack, to which quanta are appended. It is a file in a local folder, even if the sealed
//! pack will lie elsewhere.
//!
//! The file holds a header and exactly the records of the table, up to the table's end. Bytes after
//! that end are never read.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use format::pack::{HEADER_BYTES, Header, Table};
use model::{ChunkDigest, DomainId, PackNumber, Place, PoolId};

use crate::layout;
use crate::pack::{PACK_BYTES, PACK_CHUNKS, SealedPack};
use crate::reserve::Margin;

/// Number of bytes of which space is claimed from the file system at a time. So a full disk is
/// noticed before the server accepts a quantum that it could not store.
const CLAIM_BYTES: u64 = 4 << 20;

/// Number of bytes that are written again at a time.
const AGAIN_BYTES: usize = 1 << 20;

/// A quantum to append: its record, with the lengths and digests of its chunks.
#[derive(Clone, Copy)]
pub(crate) struct NewQuantum<'a> {
    pub(crate) record: &'a [u8],
    pub(crate) lengths: &'a [u32],
    pub(crate) digests: &'a [ChunkDigest],
}

/// Moves a pack from its open file to its storage.
pub(crate) trait Sealer: Send {
    /// Takes note that the file has complete records up to `end`.
    fn advance(&mut self, end: u64) -> io::Result<()>;

    /// True if the pack is durable only once it is sealed, so that each sync has to seal it.
    fn ends_with_sync(&self) -> bool;

    /// Begins to seal the pack, without waiting. The seals of several packs may begin before the
    /// first of them is finished.
    fn begin(&mut self, table: &Arc<Table>) -> io::Result<()>;

    /// Waits until the whole pack is durable in its storage.
    fn finish(self: Box<Self>, table: &Arc<Table>) -> io::Result<()>;
}

/// The identity of a new pack.
#[derive(Clone, Copy)]
pub(crate) struct NewPackId {
    pub(crate) pool: PoolId,
    pub(crate) pack: PackNumber,
    pub(crate) domain: DomainId,
}

/// An open pack. See the module.
pub(crate) struct OpenPack {
    pool: PoolId,
    file: Arc<File>,
    table: Arc<Table>,
    claimed_bytes: u64,
    synced_bytes: u64,
    synced_chunks: u32,
    sealer: Box<dyn Sealer>,
}

impl OpenPack {
    /// Creates the file of the pack in `folder`, with its header. Fails with `AlreadyExists` if the
    /// folder has the pack.
    pub(crate) fn create(
        folder: &Path,
        id: NewPackId,
        margin: Margin,
        sealer: impl FnOnce(&Arc<File>) -> Box<dyn Sealer>,
    ) -> io::Result<Self> {
        let NewPackId { pool, pack, domain } = id;
        let path = layout::make_for(folder, pack)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let file = Arc::new(file);
        let mut open = Self {
            pool,
            sealer: sealer(&file),
            file,
            table: Arc::new(Table::new(pack, domain)),
            claimed_bytes: 0,
            synced_bytes: 0,
            synced_chunks: 0,
        };
        assert_eq!(open.bytes(), HEADER_BYTES as u64, "a new pack is a header");
        let begun = open
            .claim(HEADER_BYTES as u64, margin)
            .and_then(|()| open.file.write_all_at(&Header { pack, domain }.encode(), 0))
            .and_then(|()| layout::sync(layout::subfolder(&path)));
        if let Err(error) = begun {
            // If the removal fails, the next start removes the file: it has no quanta.
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

    /// Size of the header and the records, in bytes.
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

    /// Writes the record at the end. Returns the place of the first of its chunks.
    pub(crate) fn append(&mut self, quantum: NewQuantum<'_>, margin: Margin) -> io::Result<Place> {
        let NewQuantum { record, lengths, digests } = quantum;
        assert!(!self.is_full(), "a full pack takes no more");
        assert_eq!(lengths.len(), digests.len(), "one digest for each chunk");
        let end = self.table.end();
        self.claim(end + record.len() as u64, margin)?;
        // A record that was not written completely is not in the table: the next record overwrites
        // it.
        self.file.write_all_at(record, end)?;
        let table = Arc::make_mut(&mut self.table);
        let place = Place::new(table.pack, table.push(record.len(), lengths, digests));
        let chunk_count = u32::try_from(lengths.len()).expect("a table counts chunks in 32 bits");
        let next_index = place.index() + chunk_count;
        assert_eq!(self.table.chunk_count(), next_index, "indexes follow each other");
        assert_eq!(self.table.end(), end + record.len() as u64, "records lie without gaps");
        self.sealer.advance(self.table.end())?;
        Ok(place)
    }

    /// True if the pack is durable only once it is sealed.
    pub(crate) fn ends_with_sync(&self) -> bool {
        self.sealer.ends_with_sync()
    }

    /// Claims space from the file system up to `end`. Fails with `StorageFull` if `margin` does not
    /// leave that much.
    fn claim(&mut self, end: u64, margin: Margin) -> io::Result<()> {
        while self.claimed_bytes < end {
            let small_step = end - self.claimed_bytes;
            let room = margin.room(&*self.file);
            if room < small_step {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let step = CLAIM_BYTES.max(small_step).min(room);
            let claimed = sys::durable::claim(&self.file, self.claimed_bytes, step);
            match claimed {
                Ok(()) => self.claimed_bytes += step,
                Err(error) if error.kind() == io::ErrorKind::StorageFull && small_step < step => {
                    sys::durable::claim(&self.file, self.claimed_bytes, small_step)?;
                    self.claimed_bytes = end;
                }
                Err(error) => return Err(error),
            }
        }
        assert!(self.claimed_bytes >= end, "the space of a record is claimed before it is written");
        Ok(())
    }

    /// True if the pack has quanta that are not durable. A pack without quanta is not reported: the
    /// next start removes its file, and the catalogue must not know it.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.synced_bytes < self.table.end() && self.table.chunk_count() > 0
    }

    pub(crate) fn sync_handle(&self) -> SyncHandle {
        assert!(!self.ends_with_sync(), "a pack that ends with the sync is sealed, not synced");
        let Table { pack, domain, .. } = *self.table;
        let (bytes, chunks) = (self.table.end(), self.table.chunk_count());
        let point = SyncPoint { pool: self.pool, pack, domain, bytes, chunks };
        SyncHandle { file: Arc::clone(&self.file), point }
    }

    /// Takes note that the pack is durable up to `point`.
    pub(crate) fn note_synced(&mut self, point: &SyncPoint) {
        assert_eq!(point.pack, self.number(), "another pack was synced");
        assert!(point.bytes <= self.table.end(), "more was synced than was appended");
        assert!(point.chunks <= self.table.chunk_count(), "more was synced than was appended");
        self.synced_bytes = self.synced_bytes.max(point.bytes);
        self.synced_chunks = self.synced_chunks.max(point.chunks);
    }

    /// Number of chunks that are certain to survive a power cut.
    pub(crate) fn durable_chunks(&self) -> u32 {
        self.synced_chunks
    }

    /// Begins to seal the pack.
    pub(crate) fn begin_seal(mut self) -> SealingPack {
        assert!(self.synced_bytes <= self.table.end(), "more was synced than was appended");
        let begun = self.sealer.begin(&self.table);
        SealingPack { pool: self.pool, table: self.table, sealer: self.sealer, begun }
    }
}

/// A failure of one pack.
pub(crate) struct PackFailure {
    pub(crate) pack: PackNumber,
    pub(crate) source: io::Error,
}

/// A pack that is being sealed.
pub(crate) struct SealingPack {
    pool: PoolId,
    table: Arc<Table>,
    sealer: Box<dyn Sealer>,
    begun: io::Result<()>,
}

/// A pack that was sealed in `pool`.
pub(crate) struct NewPack {
    pub(crate) pool: PoolId,
    pub(crate) sealed: SealedPack,
}

impl SealingPack {
    /// Waits until the whole pack is durable.
    pub(crate) fn finish(self) -> Result<NewPack, PackFailure> {
        let Self { pool, table, sealer, begun } = self;
        match begun.and_then(|()| sealer.finish(&table)) {
            Ok(()) => Ok(NewPack { pool, sealed: SealedPack::new(table) }),
            Err(source) => Err(PackFailure { pack: table.pack, source }),
        }
    }
}

/// Writes the footer of `table` into `file`, cuts off everything after it, and makes it durable.
///
/// The data is synced before the footer is written: a footer that survives a crash must not name
/// records that did not survive.
pub(crate) fn seal(file: &File, table: &Table) -> io::Result<()> {
    file.sync_data()?;
    write_footer(file, table)?;
    file.sync_all()
}

/// Writes the bytes of `range` in `file` again. A sync that has failed may have left them in memory
/// only: then they can be read, but no later sync makes them durable.
pub(crate) fn write_again(file: &File, range: Range<u64>) -> io::Result<()> {
    let mut bytes = vec![0; AGAIN_BYTES];
    let mut at = range.start;
    while at < range.end {
        let count = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(bytes.len());
        file.read_exact_at(&mut bytes[..count], at)?;
        file.write_all_at(&bytes[..count], at)?;
        at += count as u64;
    }
    assert!(at >= range.end, "the whole range was written");
    Ok(())
}

/// Writes the footer of `table` into `file` and cuts off everything after it.
pub(crate) fn write_footer(file: &File, table: &Table) -> io::Result<()> {
    let footer = table.encode_footer();
    file.write_all_at(&footer, table.end())?;
    file.set_len(table.end() + footer.len() as u64)
}

/// State up to which an open pack is synced. The sync itself does not lock the pools' state.
#[derive(Clone, Copy)]
pub(crate) struct SyncPoint {
    pub(crate) pool: PoolId,
    pub(crate) pack: PackNumber,
    pub(crate) domain: DomainId,
    pub(crate) bytes: u64,
    chunks: u32,
}

/// The file of an open pack, to be synced up to a point.
pub(crate) struct SyncHandle {
    file: Arc<File>,
    point: SyncPoint,
}

impl SyncHandle {
    pub(crate) fn point(&self) -> SyncPoint {
        self.point
    }

    pub(crate) fn sync(self) -> Result<SyncPoint, PackFailure> {
        let pack = self.point.pack;
        self.file.sync_data().map_err(|source| PackFailure { pack, source })?;
        Ok(self.point)
    }
}
