//! Contents of stored files, in order, for a reader that has no program of Holdfast's.
//!
//! Each chunk is compared with its digest before it is passed on. The quantum that was opened last
//! is kept, because the chunks of a file, and of the files beside it, follow each other.

use std::io::{self, Read};

use chunk::{Decompressor, RawQuantum};
use model::{ChunkDigest, Extent, Object, Payload, Place, PlaceCode as _};

use crate::error::StoreError;
use crate::store::{DOMAIN, Store, Use};

/// Reader of contents. The packs that it may read stay as long as it lives.
pub struct ContentReader<'a> {
    store: &'a Store,
    _packs: Use,
    decompressor: Decompressor,
    opened: Option<OpenedQuantum>,
}

/// A quantum with its place.
struct OpenedQuantum {
    /// Place of its first chunk.
    first: Place,
    raw: RawQuantum,
}

impl OpenedQuantum {
    fn chunk(&self, place: Place) -> Option<&[u8]> {
        if self.first.pack() != place.pack() {
            return None;
        }
        let number = place.index().checked_sub(self.first.index())?;
        self.raw.chunks().nth(number as usize)
    }
}

impl<'a> ContentReader<'a> {
    pub fn new(store: &'a Store) -> Result<Self, StoreError> {
        let decompressor = Decompressor::new()
            .map_err(|error| StoreError::away(format!("cannot decompress: {error}")))?;
        Ok(Self { store, _packs: store.use_packs(false), decompressor, opened: None })
    }

    /// Fails if the content of `object` cannot be written here: the node has encrypted it, or it is
    /// only on volumes.
    pub fn check(&self, object: &Object) -> Result<(), StoreError> {
        let Payload::Extents(extents) = &object.payload else { return Ok(()) };
        if extents.iter().any(|extent| matches!(extent, Extent::Sealed { .. })) {
            return Err(encrypted());
        }
        let packs = extents.iter().filter_map(Extent::chunks).map(|range| range.first.pack());
        for pack in packs {
            if self.store.pools.is_only_shelved(pack) {
                return Err(StoreError::conflict(
                    "the data of this file is on volumes; restore it at a node, which waits for \
                     the drives",
                ));
            }
        }
        Ok(())
    }

    /// Returns the content of `object`, from its first byte to its last.
    pub fn content<'r>(&'r mut self, object: &'r Object) -> Content<'r, 'a> {
        let extents = match &object.payload {
            Payload::Extents(extents) => extents.as_slice(),
            Payload::Nothing | Payload::Target(_) => &[],
        };
        Content { reader: self, extents, chunks_done: 0, zeros_left: 0, piece: Vec::new(), done: 0 }
    }

    /// Returns the chunk at `place`, which is compared with its digest.
    fn chunk(&mut self, place: Place) -> Result<&[u8], StoreError> {
        if self.opened.as_ref().is_none_or(|opened| opened.chunk(place).is_none()) {
            self.opened = Some(self.open(place)?);
        }
        let lost = || damaged(place, "it is not in its quantum");
        let opened = self.opened.as_ref().expect("it was opened above");
        let chunk = opened.chunk(place).ok_or_else(lost)?;
        let (_, digest) = self
            .store
            .pools
            .chunk(place)
            .map_err(|error| unreadable(self.store, place, &error))?;
        let found: ChunkDigest = self.store.pools.digest_of(DOMAIN, chunk);
        if found != digest {
            return Err(damaged(place, "its digest differs"));
        }
        Ok(chunk)
    }

    fn open(&mut self, place: Place) -> Result<OpenedQuantum, StoreError> {
        let pools = &self.store.pools;
        let unread = |error: pool::ReadError| unreadable(self.store, place, &error);
        let table = pools.table(place.pack()).map_err(unread)?;
        let number = table.quantum_of(place.index());
        let entry = number.map(|number| table.quanta()[number]);
        let entry = entry.ok_or_else(|| damaged(place, "no quantum has it"))?;
        let record = pools.read(place.pack(), &entry).map_err(unread)?;
        let raw = self.decompressor.decode(&record);
        let raw = raw.map_err(|error| damaged(place, &error.to_string()))?;
        Ok(OpenedQuantum { first: Place::new(place.pack(), entry.first_index), raw })
    }
}

/// Returns the error for a chunk that cannot be read. What is only away is no damage. A pack that
/// has lost data is noted, so that the server tells people of it.
fn unreadable(store: &Store, place: Place, error: &pool::ReadError) -> StoreError {
    let why = error.without_numbers();
    if error.is_loss() {
        store.pools.note_lost(place.pack());
        return damaged(place, &why);
    }
    let (pack, index, why) = (place.pack(), place.index(), why.as_str());
    tracing::error!(%pack, index, why, "a chunk cannot be read for a download");
    StoreError::away(format!("the data of the file cannot be read: {why}"))
}

/// Notes the place for the administrator, and returns an error without it for the reader: packs are
/// numbered over all domains.
fn damaged(place: Place, why: &str) -> StoreError {
    let (pack, index) = (place.pack(), place.index());
    tracing::error!(%pack, index, why, "a chunk cannot be read for a download");
    StoreError::damaged(format!("the data of the file cannot be read: {why}"))
}

/// The content of a file, as bytes to read. An error of reading it has the text of the store's
/// error.
pub struct Content<'r, 'a> {
    reader: &'r mut ContentReader<'a>,
    /// Extents that are not done.
    extents: &'r [Extent],
    /// Number of chunks of the first extent that are done.
    chunks_done: u32,
    /// Rest of a hole that is being read.
    zeros_left: u64,
    /// The chunk that is being read.
    piece: Vec<u8>,
    /// Length of the part of `piece` that was read.
    done: usize,
}

impl Content<'_, '_> {
    /// Makes `zeros_left` or `piece` not empty. Returns false at the end of the content.
    fn advance(&mut self) -> Result<bool, StoreError> {
        let Some(extent) = self.extents.first() else { return Ok(false) };
        match extent {
            Extent::Hole { bytes } => {
                self.zeros_left = *bytes;
                self.extents = &self.extents[1..];
            }
            Extent::Chunks(range) if self.chunks_done < range.count => {
                let place = Place::from_code(range.first.code() + u64::from(self.chunks_done));
                let impossible =
                    || StoreError::damaged("the catalogue names a place that cannot exist");
                let chunk = self.reader.chunk(place.ok_or_else(impossible)?)?;
                self.piece.clear();
                self.piece.extend_from_slice(chunk);
                (self.done, self.chunks_done) = (0, self.chunks_done + 1);
            }
            Extent::Chunks(_) => (self.extents, self.chunks_done) = (&self.extents[1..], 0),
            Extent::Sealed { .. } => return Err(encrypted()),
        }
        Ok(true)
    }
}

impl Read for Content<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.zeros_left == 0 && self.done == self.piece.len() {
            if !self.advance().map_err(io::Error::other)? {
                return Ok(0);
            }
        }
        if self.zeros_left > 0 {
            let bytes = usize::try_from(self.zeros_left).unwrap_or(usize::MAX).min(buffer.len());
            buffer[..bytes].fill(0);
            self.zeros_left -= bytes as u64;
            return Ok(bytes);
        }
        let rest = &self.piece[self.done..];
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.done += bytes;
        Ok(bytes)
    }
}

fn encrypted() -> StoreError {
    StoreError::conflict(
        "the node has encrypted this file, and only a machine with its key can read it; restore it \
         there",
    )
}

#[cfg(test)]
mod tests {
    use model::{ClassId, Name};

    use super::*;
    use crate::samples::{TestServer, file};

    #[test]
    fn a_hole_is_zeros() {
        let server = TestServer::new();
        let name = Name::new(b"a").expect("a name");
        let object = file(name, ClassId(1), 100_000, vec![Extent::Hole { bytes: 100_000 }]);
        let mut reader = ContentReader::new(&server.store).expect("is made");
        let mut content = Vec::new();
        reader.content(&object).read_to_end(&mut content).expect("is read");
        assert_eq!(content, vec![0; 100_000]);
    }
}
