//! Writing live chunks again: they are read, compared with their digests, collected into new quanta
//! and appended to new packs.
//!
//! ```text
//!   take --> open draft --full--> batch of drafts --full--> compressed in all threads at once,
//!    |                              ^                         or by a GPU
//!    |                              |                         |
//!    +--quantum that stays whole----+                         v
//!       (recompression only)                       appended in the order of the batch
//! ```
//!
//! 1. A chunk is compared with the digest in its old pack before it gets into a draft.
//! 2. A batch has a bounded number of quanta, so that the memory is bounded too.
//! 3. A recompression leaves those quanta as they are, chunk by chunk, of which everything is alive
//!    and which are at least half full. Such a quantum keeps its old record unless the new one is
//!    smaller. The chunks of other quanta are collected anew, so they have no old record.
//! 4. Each new record is read back before it is appended. If it does not give back its quantum, the
//!    old record is kept, or the data is stored uncompressed.

use std::collections::{BTreeSet, HashMap, HashSet};

use chunk::{Compression, Decompressor, RawQuantum, Recompression};
use format::pack::{QuantumEntry, Table};
use model::{ChunkDigest, NodeId, PackNumber, Place, QUANTUM_BYTES_MAX};
use pool::Filler;

use super::press::{Press, open_gpu};
use crate::error::StoreError;
use crate::lifecycle::named_chunks::NamedChunks;
use crate::store::{DOMAIN, Store};

/// Minimum number of bytes in a quantum that a recompression leaves as it is. Smaller quanta are
/// joined, because a larger quantum is compressed better.
const WHOLE_BYTES_MIN: usize = QUANTUM_BYTES_MAX / 2;

/// A quantum that was read, and its place.
struct SourceQuantum {
    pack: PackNumber,
    /// Index of its first chunk in the pack.
    first: u32,
    raw: RawQuantum,
    record: Vec<u8>,
    /// True if a recompression leaves the quantum as it is.
    stays_whole: bool,
}

/// Chunks that become one quantum.
#[derive(Default)]
struct Draft {
    raw: RawQuantum,
    /// Old places of the chunks, with their digests.
    origins: Vec<(Place, ChunkDigest)>,
    /// Old record, if the quantum has the same chunks as an old one.
    old_record: Option<Vec<u8>>,
}

/// Live part of an old quantum.
struct Share {
    taken_bytes: u64,
    all_bytes: u64,
    record_bytes: u64,
}

/// Sizes of records that were written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RecordSizes {
    /// Size of the old records. Of a record with dead chunks, only the share of the live chunks
    /// counts.
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
    /// Bytes that a GPU has compressed, before compression.
    pub(super) gpu_bytes: u64,
}

/// Writer that writes chunks again, in the order in which it takes them.
pub(super) struct Rewrite<'a> {
    store: &'a Store,
    named: &'a NamedChunks,
    decompressor: Decompressor,
    press: Press,
    is_recompression: bool,
    /// The quantum that was read last.
    source: Option<SourceQuantum>,
    /// The quantum that is filled now.
    open: Draft,
    /// Filler of the chunks in `open`, by which the data of nodes stays apart.
    filler: Filler,
    /// Quanta that are about to be compressed and appended.
    batch: Vec<(Filler, Draft)>,
    /// Drafts that were appended. Their memory is used again.
    spare: Vec<Draft>,
    /// Old places of the chunks in `open` and `batch`, for fast lookups.
    pending: HashSet<Place>,
    /// New places by old places.
    pub(super) moved: HashMap<Place, Place>,
    /// Packs with a chunk that could not be read.
    pub(super) lost: BTreeSet<PackNumber>,
    pub(super) bytes: u64,
    /// Live parts of the quanta that were taken apart, by the place of their first chunk.
    shares: HashMap<Place, Share>,
    sizes: RecordSizes,
    /// Nodes of the packs that have data of one node only.
    nodes: HashMap<PackNumber, NodeId>,
    /// Number of packs that had failed before the first append.
    failures: usize,
}

fn no_context(_: std::io::Error) -> StoreError {
    StoreError::away("cannot create a zstd context")
}

/// Returns the smaller record of `raw`. Without a new record, and without an old one, the data is
/// stored as it is.
fn choose(old: Option<Vec<u8>>, new: Option<Vec<u8>>, raw: &RawQuantum) -> Vec<u8> {
    let Some(new) = new else {
        tracing::error!("a new record does not give back its quantum: is the memory damaged?");
        return old.unwrap_or_else(|| chunk::record::of(raw, None));
    };
    old.filter(|old| old.len() <= new.len()).unwrap_or(new)
}

impl<'a> Rewrite<'a> {
    /// Makes a writer that compresses with the standard effort, or as `recompression` says.
    pub(super) fn new(
        store: &'a Store,
        named: &'a NamedChunks,
        recompression: Option<Recompression>,
    ) -> Result<Self, StoreError> {
        let rows = store.catalog.packs()?;
        let compression = recompression.map_or(Compression::Standard, Recompression::compression);
        Ok(Self {
            store,
            named,
            decompressor: Decompressor::new().map_err(no_context)?,
            press: Press::new(compression, open_gpu(&store.config, compression))
                .map_err(no_context)?,
            is_recompression: recompression.is_some(),
            source: None,
            open: Draft::default(),
            filler: Filler::any(DOMAIN),
            batch: Vec::new(),
            spare: Vec::new(),
            pending: HashSet::new(),
            moved: HashMap::new(),
            lost: BTreeSet::new(),
            bytes: 0,
            shares: HashMap::new(),
            sizes: RecordSizes::default(),
            nodes: rows.iter().filter_map(|row| Some((row.number, row.node?))).collect(),
            failures: store.pools.failures(),
        })
    }

    /// Takes the chunk at `place`, if something names the chunk and it was not taken before.
    /// Returns true if a batch was written: a moment to report progress.
    pub(super) fn take(&mut self, place: Place) -> Result<bool, StoreError> {
        let is_known = self.moved.contains_key(&place) || self.pending.contains(&place);
        let is_named = self.named.get(&place.pack()).is_some_and(|bits| bits.has(place.index()));
        if is_known || !is_named || self.lost.contains(&place.pack()) {
            return Ok(false);
        }
        let filler = Filler { domain: DOMAIN, node: self.nodes.get(&place.pack()).copied() };
        let appended = self.batch.len();
        if self.load(place).is_none() {
            self.lose(place.pack());
        } else if let Some(draft) = self.whole(place) {
            self.put(filler, draft)?;
        } else if let Some((chunk, digest)) = self.read(place) {
            if filler != self.filler {
                self.close()?;
                self.filler = filler;
            }
            if !self.open.raw.fits(chunk.len()) {
                self.close()?;
            }
            self.open.raw.push(&chunk);
            self.open.origins.push((place, digest));
            self.pending.insert(place);
            self.bytes += chunk.len() as u64;
        } else {
            self.lose(place.pack());
        }
        Ok(self.batch.len() < appended)
    }

    /// Notes a pack that cannot be read, or that does not match its digests.
    fn lose(&mut self, pack: PackNumber) {
        tracing::error!(%pack, "a pack cannot be read: it is not reclaimed");
        self.lost.insert(pack);
    }

    /// Reads the quantum of the chunk at `place`, unless it was the last one that was read.
    fn load(&mut self, place: Place) -> Option<()> {
        let table = self.store.pools.table(place.pack()).ok()?;
        let quantum = table.quanta()[table.quantum_of(place.index())?];
        let (pack, first) = (place.pack(), quantum.first_index);
        let is_it = |source: &SourceQuantum| source.pack == pack && source.first == first;
        if self.source.as_ref().is_some_and(is_it) {
            return Some(());
        }
        let record = self.store.pools.read(pack, &quantum).ok()?;
        let raw = self.decompressor.decode(&record).ok()?;
        let stays_whole = self.is_recompression
            && raw.data().len() >= WHOLE_BYTES_MIN
            && self.is_alive(pack, &quantum);
        self.source = Some(SourceQuantum { pack, first, raw, record, stays_whole });
        Some(())
    }

    /// Returns true if something names each chunk of the quantum.
    fn is_alive(&self, pack: PackNumber, quantum: &QuantumEntry) -> bool {
        let mut indices = quantum.first_index..quantum.first_index + quantum.chunk_count;
        self.named.get(&pack).is_some_and(|named| indices.all(|index| named.has(index)))
    }

    /// Returns the digest in the table, if `chunk` matches it.
    fn checked(&self, table: &Table, index: u32, chunk: &[u8]) -> Option<ChunkDigest> {
        let (_, digest) = table.chunk(index)?;
        (self.store.pools.digest_of(DOMAIN, chunk) == digest).then_some(digest)
    }

    /// Returns the draft of the quantum that was read, if it stays whole. If a chunk does not match
    /// its digest, the chunks are taken one by one instead.
    fn whole(&mut self, place: Place) -> Option<Draft> {
        let table = self.store.pools.table(place.pack()).ok()?;
        let source = self.source.as_mut().filter(|source| source.stays_whole)?;
        source.stays_whole = false;
        let source = self.source.as_ref()?;
        let origin = |(index, chunk): (u32, &[u8])| {
            let digest = self.checked(&table, index, chunk)?;
            Some((Place::new(source.pack, index), digest))
        };
        let origins = (source.first..).zip(source.raw.chunks()).map(origin);
        let origins = origins.collect::<Option<Vec<_>>>()?;
        let SourceQuantum { raw, record, .. } = self.source.take()?;
        self.pending.extend(origins.iter().map(|(place, _)| *place));
        self.bytes += raw.data().len() as u64;
        self.sizes.before_bytes += record.len() as u64;
        Some(Draft { raw, origins, old_record: Some(record) })
    }

    /// Returns the chunk at `place` from the quantum that was read. Returns `None` if it does not
    /// match the digest in its pack.
    fn read(&mut self, place: Place) -> Option<(Vec<u8>, ChunkDigest)> {
        let table = self.store.pools.table(place.pack()).ok()?;
        let source = self.source.as_ref()?;
        let chunk = source.raw.chunks().nth((place.index() - source.first) as usize)?;
        let digest = self.checked(&table, place.index(), chunk)?;
        let share = Share {
            taken_bytes: 0,
            all_bytes: source.raw.data().len() as u64,
            record_bytes: source.record.len() as u64,
        };
        let first = Place::new(source.pack, source.first);
        self.shares.entry(first).or_insert(share).taken_bytes += chunk.len() as u64;
        Some((chunk.to_vec(), digest))
    }

    /// Puts the open draft into the batch.
    fn close(&mut self) -> Result<(), StoreError> {
        if self.open.origins.is_empty() {
            return Ok(());
        }
        let empty = self.spare.pop().unwrap_or_default();
        let draft = std::mem::replace(&mut self.open, empty);
        self.put(self.filler, draft)
    }

    /// Puts a draft into the batch, and writes the batch if it is full.
    fn put(&mut self, filler: Filler, draft: Draft) -> Result<(), StoreError> {
        let chunks = draft.raw.lengths().len();
        assert_eq!(draft.origins.len(), chunks, "each chunk has an old place");
        self.batch.push((filler, draft));
        if self.batch.len() < self.press.batch_quanta() {
            return Ok(());
        }
        self.write()
    }

    /// Compresses the quanta of the batch at once, and appends them to packs in order.
    fn write(&mut self) -> Result<(), StoreError> {
        let quanta: Vec<&RawQuantum> = self.batch.iter().map(|(_, draft)| &draft.raw).collect();
        let records = self.press.encode(&quanta).map_err(no_context)?;
        for ((filler, mut draft), new) in std::mem::take(&mut self.batch).into_iter().zip(records) {
            let record = choose(draft.old_record.take(), new, &draft.raw);
            self.append(filler, &draft, &record)?;
            draft.raw.clear();
            draft.origins.clear();
            self.spare.push(draft);
        }
        self.spare.truncate(self.press.batch_quanta());
        Ok(())
    }

    /// Appends a quantum to a pack.
    fn append(&mut self, filler: Filler, draft: &Draft, record: &[u8]) -> Result<(), StoreError> {
        let Draft { raw, origins, .. } = draft;
        let digests: Vec<ChunkDigest> = origins.iter().map(|(_, digest)| *digest).collect();
        let pools = &self.store.pools;
        let first = pools.append_for_upkeep(filler, record, raw.lengths(), &digests)?;
        let mut entries = Vec::with_capacity(digests.len());
        for (offset, (origin, digest)) in (0..).zip(origins) {
            let place = Place::new(first.pack(), first.index() + offset);
            self.moved.insert(*origin, place);
            self.pending.remove(origin);
            entries.push((*digest, place));
        }
        self.store.note(&entries);
        self.sizes.after_bytes += record.len() as u64;
        Ok(())
    }

    /// Writes the last quanta, and makes all quanta durable before a page names them.
    pub(super) fn finish(&mut self) -> Result<RecordSizes, StoreError> {
        self.close()?;
        self.write()?;
        assert!(self.batch.is_empty() && self.pending.is_empty(), "no quantum is open");
        self.store.commit(Vec::new())?;
        if self.store.pools.failures() != self.failures {
            let text = "a pack could not be written; the next run tries again";
            return Err(StoreError::away(text));
        }
        let shares = self.shares.values().map(|share| {
            u128::from(share.record_bytes) * u128::from(share.taken_bytes)
                / u128::from(share.all_bytes.max(1))
        });
        let shares = u64::try_from(shares.sum::<u128>()).unwrap_or(u64::MAX);
        self.sizes.before_bytes += shares;
        self.sizes.gpu_bytes = self.press.gpu_bytes;
        Ok(self.sizes)
    }
}

#[cfg(test)]
mod tests;
