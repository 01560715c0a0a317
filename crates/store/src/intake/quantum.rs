//! Intake of a quantum: the server checks it, deduplicates its chunks, and appends it to a pack.

use super::opener::Opener;
use crate::error::StoreError;
use chunk::{Compression, Compressor, RawQuantum, recode};
use format::quantum::Header;
use model::{ChunkDigest, NodeId, Place};
use pool::Filler;

use super::sharing;
use crate::store::{DOMAIN, KeyedChunk, Store};

/// Share of known bytes, in per cent, from which a quantum is compressed again without its known
/// chunks. Below this share it is cheaper to store the known chunks twice.
const RECODE_PERCENT: usize = 25;

/// Checksum with which a node describes the chunks that it meant to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// Checksum of the chunks' digests, see [`wire::quantum_check`].
    Digests(Vec<u8>),
    /// Checksum of the data, see [`wire::raw_check`]. A node that does not deduplicate has no
    /// digests.
    Data(u64),
}

/// A quantum as a node sends it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedQuantum<'a> {
    pub record: &'a [u8],
    pub check: Check,
    /// True if the node has encrypted the chunks.
    pub is_encrypted: bool,
}

/// Origin of the quanta of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    pub node: NodeId,
    /// Filler of the packs that take the quanta.
    pub filler: Filler,
}

/// A quantum of a session that the server has stored.
///
/// Invariant: each of the three lists has one entry for each chunk, in the order of the chunks.
pub struct StoredQuantum {
    pub places: Vec<Place>,
    pub lengths: Vec<u32>,
    pub digests: Vec<ChunkDigest>,
}

/// Decompresses `quantum`, computes the digests of its chunks, and appends to a pack the chunks
/// that neither their node has nor the other nodes share.
pub fn take_in(
    store: &Store,
    origin: Origin,
    quantum: ReceivedQuantum<'_>,
) -> Result<StoredQuantum, StoreError> {
    sys::fault::point("quantum");
    check_payload(quantum.record)?;
    let mut opener = match store.take_opener() {
        Some(opener) => opener,
        None => Opener::new().map_err(|_| no_context())?,
    };
    let opened = opener.decompressor.decode_into(quantum.record, &mut opener.raw);
    let stored = opened
        .map_err(StoreError::malformed)
        .and_then(|()| Packer { store, origin }.append_opened(quantum, &mut opener));
    store.keep_opener(opener);
    stored
}

/// Fails if the payload of the record is longer than its data. Such a payload has parts that open
/// to nothing. They would fill the pool, while the limit of the node's domain counts the data.
fn check_payload(record: &[u8]) -> Result<(), StoreError> {
    let header = Header::decode(record).map_err(StoreError::malformed)?;
    if header.payload_bytes > header.raw_bytes {
        return Err(StoreError::malformed("the payload of a quantum is longer than its data"));
    }
    Ok(())
}

fn no_context() -> StoreError {
    StoreError::away("cannot create a zstd context")
}

/// Writer that appends the quanta of one session to packs.
#[derive(Clone, Copy)]
struct Packer<'a> {
    store: &'a Store,
    origin: Origin,
}

impl Packer<'_> {
    fn append_opened(
        self,
        quantum: ReceivedQuantum<'_>,
        opener: &mut Opener,
    ) -> Result<StoredQuantum, StoreError> {
        let ReceivedQuantum { record, check, is_encrypted } = quantum;
        let Opener { raw, compressor, .. } = opener;
        let digests: Vec<ChunkDigest> =
            raw.chunks().map(|chunk| self.store.pools.digest_of(DOMAIN, chunk)).collect();
        let is_right = match check {
            Check::Data(check) => wire::raw_check(raw.data()) == check,
            Check::Digests(check) => wire::quantum_check(&digests) == check[..],
        };
        if !is_right {
            // The data that arrived is not the data for which the client computed its checksum.
            return Err(StoreError::damaged("a quantum was damaged on its way; try again"));
        }
        let lengths = raw.lengths().to_vec();
        assert_eq!(digests.len(), lengths.len(), "each chunk has a digest and a length");
        let scope = sharing::Scope { store: self.store, node: self.origin.node, is_encrypted };
        let with_length = digests.iter().zip(&lengths);
        let chunks: Vec<KeyedChunk> =
            with_length.map(|(digest, bytes)| scope.keyed(*digest, *bytes)).collect();
        let known = self.store.lookup(&chunks);
        let places = self.append(record, raw, &chunks, &known, compressor)?;
        assert_eq!(places.len(), digests.len(), "each chunk has a place");
        Ok(StoredQuantum { places, lengths, digests })
    }

    /// Appends the chunks that have no place in `known`. Returns the places of all chunks, in
    /// order.
    fn append(
        self,
        record: &[u8],
        raw: &RawQuantum,
        chunks: &[KeyedChunk],
        known: &[Option<Place>],
        compressor: &mut Option<Compressor>,
    ) -> Result<Vec<Place>, StoreError> {
        let lengths = raw.lengths();
        assert_eq!(known.len(), lengths.len(), "each chunk was looked up");
        if known.iter().all(Option::is_some) {
            return Ok(known.iter().copied().flatten().collect());
        }
        let known_bytes: usize = lengths
            .iter()
            .zip(known)
            .filter(|(_, place)| place.is_some())
            .map(|(&length, _)| length as usize)
            .sum();
        if known_bytes * 100 < raw.data().len() * RECODE_PERCENT {
            return self.append_whole(record, lengths, chunks);
        }
        let keep: Vec<bool> = known.iter().map(Option::is_none).collect();
        let kept = recode(raw, &keep);
        let kept_chunks: Vec<KeyedChunk> = chunks
            .iter()
            .zip(&keep)
            .filter(|(_, keep)| **keep)
            .map(|(chunk, _)| *chunk)
            .collect();
        let record = compress(&kept, compressor)?;
        let added = self.append_whole(&record, kept.lengths(), &kept_chunks)?;
        Ok(fill_in(known, &added))
    }

    fn append_whole(
        self,
        record: &[u8],
        lengths: &[u32],
        chunks: &[KeyedChunk],
    ) -> Result<Vec<Place>, StoreError> {
        assert_eq!(lengths.len(), chunks.len(), "each chunk has a length and a digest");
        let digests: Vec<ChunkDigest> = chunks.iter().map(|chunk| chunk.digest).collect();
        let first = self.store.pools.append(self.origin.filler, record, lengths, &digests)?;
        let place = |(offset, _)| Place::new(first.pack(), first.index() + offset);
        let places: Vec<Place> = (0_u32..).zip(chunks).map(place).collect();
        let keys = chunks.iter().map(|chunk| chunk.key);
        let entries: Vec<_> = keys.zip(places.iter().copied()).collect();
        self.store.note(&entries);
        Ok(places)
    }
}

/// Returns the places of all chunks, in order: `known` with its gaps filled from `added`.
fn fill_in(known: &[Option<Place>], added: &[Place]) -> Vec<Place> {
    let gaps = known.iter().filter(|place| place.is_none()).count();
    assert_eq!(gaps, added.len(), "each chunk without a place was appended");
    let mut added = added.iter();
    let place = |known: &Option<Place>| known.or_else(|| added.next().copied());
    known.iter().filter_map(place).collect()
}

fn compress(quantum: &RawQuantum, slot: &mut Option<Compressor>) -> Result<Vec<u8>, StoreError> {
    if slot.is_none() {
        *slot = Some(Compressor::new(Compression::Standard).map_err(|_| no_context())?);
    }
    Ok(slot.as_mut().expect("made just above").encode(quantum))
}
