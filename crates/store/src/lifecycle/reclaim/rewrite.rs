//! Writing live chunks again: they are read, compared with their digests, collected into new quanta
//! and appended to new packs.

use std::collections::{BTreeSet, HashMap, HashSet};

use chunk::{Compression, Compressor, Decompressor, RawQuantum};
use model::{ChunkDigest, NodeId, PackNumber, Place};
use pool::Filler;

use super::NamedChunks;
use crate::error::StoreError;
use crate::store::{DOMAIN, Store};

/// A quantum that was read, and its place.
struct SourceQuantum {
    pack: PackNumber,
    /// Index of its first chunk in the pack.
    first: u32,
    raw: RawQuantum,
}

/// Writer that writes chunks again, in the order in which it takes them.
pub(super) struct Rewrite<'a> {
    store: &'a Store,
    named: &'a NamedChunks,
    decompressor: Decompressor,
    compressor: Compressor,
    /// The quantum that was read last.
    source: Option<SourceQuantum>,
    /// The quantum that is filled now.
    open: RawQuantum,
    /// Old places of the chunks in `open`, with their digests.
    origins: Vec<(Place, ChunkDigest)>,
    /// Old places of the chunks in `open`, for fast lookups.
    pending: HashSet<Place>,
    /// New places by old places.
    pub(super) moved: HashMap<Place, Place>,
    /// Packs with a chunk that could not be read.
    pub(super) lost: BTreeSet<PackNumber>,
    pub(super) bytes: u64,
    /// Nodes of the packs that have data of one node only.
    nodes: HashMap<PackNumber, NodeId>,
    /// Filler of the chunks in `open`, by which the data of nodes stays apart.
    filler: Filler,
    /// Number of packs that had failed before the first append.
    failures: usize,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(store: &'a Store, named: &'a NamedChunks) -> Result<Self, StoreError> {
        let none = |_| StoreError::away("cannot create a zstd context");
        let rows = store.catalog.packs()?;
        Ok(Self {
            store,
            named,
            decompressor: Decompressor::new().map_err(none)?,
            compressor: Compressor::new(Compression::Standard).map_err(none)?,
            source: None,
            open: RawQuantum::default(),
            origins: Vec::new(),
            pending: HashSet::new(),
            moved: HashMap::new(),
            lost: BTreeSet::new(),
            bytes: 0,
            nodes: rows.iter().filter_map(|row| Some((row.number, row.node?))).collect(),
            filler: Filler::any(DOMAIN),
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
        let Some((chunk, digest)) = self.read(place) else {
            tracing::error!(pack = %place.pack(), "a pack cannot be read: it is not reclaimed");
            self.lost.insert(place.pack());
            return Ok(());
        };
        let filler = Filler { domain: DOMAIN, node: self.nodes.get(&place.pack()).copied() };
        if filler != self.filler {
            self.write()?;
            self.filler = filler;
        }
        if !self.open.fits(chunk.len()) {
            self.write()?;
        }
        self.open.push(&chunk);
        self.origins.push((place, digest));
        self.pending.insert(place);
        self.bytes += chunk.len() as u64;
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

    /// Appends the open quantum to a pack.
    fn write(&mut self) -> Result<(), StoreError> {
        assert_eq!(self.origins.len(), self.open.lengths().len(), "each chunk has an old place");
        if self.origins.is_empty() {
            return Ok(());
        }
        let record = self.compressor.encode(&self.open);
        let digests: Vec<ChunkDigest> = self.origins.iter().map(|(_, digest)| *digest).collect();
        let first = self.store.pools.append_for_upkeep(
            self.filler,
            &record,
            self.open.lengths(),
            &digests,
        )?;
        let mut entries = Vec::with_capacity(digests.len());
        for (offset, (origin, digest)) in (0..).zip(self.origins.drain(..)) {
            let place = Place::new(first.pack(), first.index() + offset);
            self.moved.insert(origin, place);
            entries.push((digest, place));
        }
        self.store.note(&entries);
        self.pending.clear();
        self.open.clear();
        Ok(())
    }

    /// Writes the last quantum, and makes all quanta durable before a page names them.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        self.write()?;
        assert!(self.origins.is_empty() && self.pending.is_empty(), "no quantum is open");
        self.store.commit(Vec::new())?;
        if self.store.pools.failures() == self.failures {
            return Ok(());
        }
        Err(StoreError::away("a pack could not be written; the next run tries again"))
    }
}
