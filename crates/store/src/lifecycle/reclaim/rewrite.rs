//! Writing live chunks again: they are read, compared with their digests, collected into new quanta
//! and appended to new packs.
//!
//! ```text
//!   take --> open draft --full--> batch of drafts --full--> compressed in all threads at once
//!                                                             |
//!                                                             v
//!                                                  appended in the order of the batch
//! ```
//!
//! 1. A chunk is compared with the digest in its old pack before it gets into a draft.
//! 2. A batch has a bounded number of quanta, so that the memory is bounded too.

use std::collections::{BTreeSet, HashMap, HashSet};

use chunk::{Compression, Decompressor, RawQuantum};
use model::{ChunkDigest, NodeId, PackNumber, Place};
use pool::Filler;

use super::NamedChunks;
use super::press::Press;
use crate::error::StoreError;
use crate::store::{DOMAIN, Store};

/// A quantum that was read, and its place.
struct SourceQuantum {
    pack: PackNumber,
    /// Index of its first chunk in the pack.
    first: u32,
    raw: RawQuantum,
}

/// Chunks that become one quantum.
#[derive(Default)]
struct Draft {
    raw: RawQuantum,
    /// Old places of the chunks, with their digests.
    origins: Vec<(Place, ChunkDigest)>,
}

/// Writer that writes chunks again, in the order in which it takes them.
pub(super) struct Rewrite<'a> {
    store: &'a Store,
    named: &'a NamedChunks,
    decompressor: Decompressor,
    press: Press,
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
    /// Nodes of the packs that have data of one node only.
    nodes: HashMap<PackNumber, NodeId>,
    /// Number of packs that had failed before the first append.
    failures: usize,
}

fn no_context(_: std::io::Error) -> StoreError {
    StoreError::away("cannot create a zstd context")
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(store: &'a Store, named: &'a NamedChunks) -> Result<Self, StoreError> {
        let rows = store.catalog.packs()?;
        Ok(Self {
            store,
            named,
            decompressor: Decompressor::new().map_err(no_context)?,
            press: Press::new(Compression::Standard).map_err(no_context)?,
            source: None,
            open: Draft::default(),
            filler: Filler::any(DOMAIN),
            batch: Vec::new(),
            spare: Vec::new(),
            pending: HashSet::new(),
            moved: HashMap::new(),
            lost: BTreeSet::new(),
            bytes: 0,
            nodes: rows.iter().filter_map(|row| Some((row.number, row.node?))).collect(),
            failures: store.pools.failures(),
        })
    }

    /// Takes the chunk at `place`, if something names the chunk and it was not taken before.
    pub(super) fn take(&mut self, place: Place) -> Result<(), StoreError> {
        let is_known = self.moved.contains_key(&place) || self.pending.contains(&place);
        let is_named = self.named.get(&place.pack()).is_some_and(|bits| bits.has(place.index()));
        if is_known || !is_named || self.lost.contains(&place.pack()) {
            return Ok(());
        }
        let filler = Filler { domain: DOMAIN, node: self.nodes.get(&place.pack()).copied() };
        if let Some((chunk, digest)) = self.read(place) {
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
            tracing::error!(pack = %place.pack(), "a pack cannot be read: it is not reclaimed");
            self.lost.insert(place.pack());
        }
        Ok(())
    }

    /// Reads the chunk at `place`. Returns `None` if the chunk cannot be read or does not match the
    /// digest in its pack.
    fn read(&mut self, place: Place) -> Option<(Vec<u8>, ChunkDigest)> {
        let table = self.store.pools.table(place.pack()).ok()?;
        let (_, digest) = table.chunk(place.index())?;
        let quantum = table.quanta()[table.quantum_of(place.index())?];
        let (pack, first) = (place.pack(), quantum.first_index);
        let is_other = |source: &SourceQuantum| source.pack != pack || source.first != first;
        if self.source.as_ref().is_none_or(is_other) {
            let record = self.store.pools.read(place.pack(), &quantum).ok()?;
            let raw = self.decompressor.decode(&record).ok()?;
            self.source = Some(SourceQuantum { pack, first, raw });
        }
        let source = self.source.as_ref()?;
        let chunk = source.raw.chunks().nth((place.index() - first) as usize)?;
        (self.store.pools.digest_of(DOMAIN, chunk) == digest).then(|| (chunk.to_vec(), digest))
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
        let batch = std::mem::take(&mut self.batch);
        for ((filler, mut draft), record) in batch.into_iter().zip(records) {
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
        Ok(())
    }

    /// Writes the last quanta, and makes all quanta durable before a page names them.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        self.close()?;
        self.write()?;
        assert!(self.batch.is_empty() && self.pending.is_empty(), "no quantum is open");
        self.store.commit(Vec::new())?;
        if self.store.pools.failures() == self.failures {
            return Ok(());
        }
        Err(StoreError::away("a pack could not be written; the next run tries again"))
    }
}
