//! A pack: a header, quantum records, and, once sealed, a footer.
//!
//! ```text
//! header      offset  bytes  field
//!                  0      8  magic "HFPACK01"
//!                  8      8  pack number
//!                 16      4  domain
//!                 20      4  reserved: zero
//!                 24      8  xxh3-64 of bytes 0..24
//!             then the quantum records, one after the other
//! footer      format version (1), then varints: pack number, domain, quantum count, chunk count;
//!             per quantum: record bytes, chunk count; per chunk: its length;
//!             then the 32-byte digest of each chunk
//! trailer     footer offset (8), footer bytes (4), reserved: zero (4), xxh3-64 of the footer (8),
//!             magic "HFPACKND" (8): the last 32 bytes of a sealed pack
//! ```
//!
//! All integers are little-endian. A pack has no footer if its server died. It is then recovered by
//! reading its records from the front; see [`crate::quantum`].

use model::{CHUNK_INDEX_MAX, ChunkDigest, DomainId, PackNumber};

use crate::{DamageError, Reader, Writer};

/// Bytes of a pack's header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a sealed pack's trailer.
pub const TRAILER_BYTES: usize = 32;
const HEADER_MAGIC: [u8; 8] = *b"HFPACK01";
const TRAILER_MAGIC: [u8; 8] = *b"HFPACKND";
const FOOTER_VERSION: u8 = 1;
/// Maximum length of a footer, in bytes, for a pack with 2^24 chunks. No larger footer is read.
pub const FOOTER_BYTES_MAX: u32 = 36 * (CHUNK_INDEX_MAX + 1);

/// Header of a pack: its first [`HEADER_BYTES`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub pack: PackNumber,
    pub domain: DomainId,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&HEADER_MAGIC);
        bytes[8..16].copy_from_slice(&self.pack.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.domain.0.to_le_bytes());
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Self::decode(&bytes), Ok(*self));
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DamageError> {
        let mut reader = Reader::new(bytes, "pack");
        if reader.array()? != HEADER_MAGIC {
            return Err(DamageError::pack("no magic number"));
        }
        let header = Self { pack: PackNumber(reader.u64()?), domain: DomainId(reader.u32()?) };
        let reserved = reader.zeros::<4>();
        if reader.u64()? != xxhash_rust::xxh3::xxh3_64(&bytes[..24]) {
            return Err(DamageError::pack("the header's checksum differs"));
        }
        reserved?;
        Ok(header)
    }
}

/// One quantum of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuantumEntry {
    /// Offset of the record from the start of the pack.
    pub offset: u64,
    pub record_bytes: u32,
    /// Index of the quantum's first chunk in the pack.
    pub first_index: u32,
    pub chunk_count: u32,
}

/// The table of a pack: its footer, or the same data collected while the pack is open.
///
/// Invariants: the quanta are sorted by offset and by first index, without gaps; there is one
/// length and one digest for each chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    pub pack: PackNumber,
    pub domain: DomainId,
    quanta: Vec<QuantumEntry>,
    lengths: Vec<u32>,
    digests: Vec<ChunkDigest>,
}

impl Table {
    /// Returns the table of an empty pack.
    pub fn new(pack: PackNumber, domain: DomainId) -> Self {
        Self { pack, domain, quanta: Vec::new(), lengths: Vec::new(), digests: Vec::new() }
    }

    /// Adds the quantum that was appended to the pack last. Returns the index of its first chunk.
    pub fn push(&mut self, record_bytes: usize, lengths: &[u32], digests: &[ChunkDigest]) -> u32 {
        assert_eq!(lengths.len(), digests.len(), "each chunk has a digest");
        assert!(!lengths.is_empty(), "no quantum is empty");
        let first_index = self.chunk_count();
        let chunk_count = u32::try_from(lengths.len()).expect("bounded by the quantum");
        assert!(first_index + chunk_count <= CHUNK_INDEX_MAX + 1, "seal a pack before it is full");
        self.quanta.push(QuantumEntry {
            offset: self.end(),
            record_bytes: u32::try_from(record_bytes).expect("bounded by the quantum"),
            first_index,
            chunk_count,
        });
        self.lengths.extend_from_slice(lengths);
        self.digests.extend_from_slice(digests);
        first_index
    }

    /// Returns a table with those quanta that lie wholly within the first `end` chunks.
    #[must_use]
    pub fn until(&self, end: u32) -> Self {
        let mut table = Self::new(self.pack, self.domain);
        let whole = |quantum: &&QuantumEntry| quantum.first_index + quantum.chunk_count <= end;
        table.quanta = self.quanta.iter().take_while(whole).copied().collect();
        let chunks = table.quanta.last().map_or(0, |last| last.first_index + last.chunk_count);
        table.lengths = self.lengths[..chunks as usize].to_vec();
        table.digests = self.digests[..chunks as usize].to_vec();
        table.assert_invariants();
        table
    }

    fn assert_invariants(&self) {
        assert_eq!(self.lengths.len(), self.digests.len(), "each chunk has a digest");
        let held = self.quanta.last().map_or(0, |last| last.first_index + last.chunk_count);
        assert_eq!(held as usize, self.digests.len(), "the quanta hold all chunks");
    }

    /// Returns the offset of the next record, which is the length of the header and all records, in
    /// bytes.
    pub fn end(&self) -> u64 {
        self.quanta
            .last()
            .map_or(HEADER_BYTES as u64, |q| q.offset + u64::from(q.record_bytes))
    }

    pub fn chunk_count(&self) -> u32 {
        u32::try_from(self.digests.len()).expect("bounded by CHUNK_INDEX_MAX")
    }

    pub fn quanta(&self) -> &[QuantumEntry] {
        &self.quanta
    }

    /// Returns the digests of all chunks, by index.
    pub fn digests(&self) -> &[ChunkDigest] {
        &self.digests
    }

    /// Returns the length and digest of the chunk at `index`, if the pack has one.
    pub fn chunk(&self, index: u32) -> Option<(u32, ChunkDigest)> {
        let index = index as usize;
        Some((*self.lengths.get(index)?, *self.digests.get(index)?))
    }

    /// Returns the position, in [`Table::quanta`], of the quantum that holds the chunk at `index`.
    pub fn quantum_of(&self, index: u32) -> Option<usize> {
        let after = self.quanta.partition_point(|quantum| quantum.first_index <= index);
        (index < self.chunk_count()).then(|| after - 1)
    }

    /// Encodes footer and trailer: the bytes that sealing appends at [`Table::end`].
    pub fn encode_footer(&self) -> Vec<u8> {
        self.assert_invariants();
        let mut writer = Writer::new();
        writer.u8(FOOTER_VERSION);
        writer.varint(self.pack.0);
        writer.varint(u64::from(self.domain.0));
        writer.varint(self.quanta.len() as u64);
        writer.varint(self.digests.len() as u64);
        for quantum in &self.quanta {
            writer.varint(u64::from(quantum.record_bytes));
            writer.varint(u64::from(quantum.chunk_count));
        }
        self.lengths.iter().for_each(|&length| writer.varint(u64::from(length)));
        self.digests.iter().for_each(|digest| writer.raw(&digest.0));
        let mut bytes = writer.finish();
        let footer_bytes = u32::try_from(bytes.len()).expect("bounded by CHUNK_INDEX_MAX");
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend_from_slice(&self.end().to_le_bytes());
        bytes.extend_from_slice(&footer_bytes.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&TRAILER_MAGIC);
        debug_assert_eq!(Self::decode_footer(&bytes[..footer_bytes as usize]).as_ref(), Ok(self));
        bytes
    }

    /// Parses a footer without its trailer.
    fn decode_footer(bytes: &[u8]) -> Result<Self, DamageError> {
        let mut reader = Reader::new(bytes, "pack footer");
        if reader.u8()? != FOOTER_VERSION {
            return Err(reader.damaged("unknown version"));
        }
        let mut table = Self::new(PackNumber(reader.varint()?), DomainId(reader.number::<u32>()?));
        let quantum_count = reader.count()?;
        let chunk_count = reader.count()?;
        let mut first_index = 0_u32;
        for _ in 0..quantum_count {
            let record_bytes = reader.number::<u32>()?;
            let count = reader.number::<u32>()?;
            table.quanta.push(QuantumEntry {
                offset: table.end(),
                record_bytes,
                first_index,
                chunk_count: count,
            });
            first_index = first_index
                .checked_add(count)
                .filter(|&end| end as usize <= chunk_count && count > 0)
                .ok_or_else(|| reader.damaged("its quanta hold more chunks than the pack"))?;
        }
        if first_index as usize != chunk_count || first_index > CHUNK_INDEX_MAX + 1 {
            return Err(reader.damaged("its quanta hold fewer chunks than the pack"));
        }
        table.lengths =
            (0..chunk_count).map(|_| reader.number::<u32>()).collect::<Result<_, _>>()?;
        table.digests = (0..chunk_count)
            .map(|_| reader.array().map(ChunkDigest))
            .collect::<Result<_, _>>()?;
        reader.end()?;
        table.assert_invariants();
        Ok(table)
    }
}

/// Trailer of a sealed pack, which says where the footer lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trailer {
    pub footer_offset: u64,
    pub footer_bytes: u32,
    checksum: u64,
}

impl Trailer {
    /// Parses the last [`TRAILER_BYTES`] bytes of a pack of `pack_bytes`.
    pub fn decode(bytes: &[u8], pack_bytes: u64) -> Result<Self, DamageError> {
        let mut reader = Reader::new(bytes, "pack trailer");
        let footer_offset = reader.u64()?;
        let footer_bytes = reader.u32()?;
        reader.zeros::<4>()?;
        let checksum = reader.u64()?;
        if reader.array()? != TRAILER_MAGIC {
            return Err(reader.damaged("no magic number"));
        }
        reader.end()?;
        let end = footer_offset.checked_add(u64::from(footer_bytes) + TRAILER_BYTES as u64);
        if end != Some(pack_bytes) || footer_bytes > FOOTER_BYTES_MAX {
            return Err(reader.damaged("its sizes do not add up"));
        }
        Ok(Self { footer_offset, footer_bytes, checksum })
    }

    /// Parses the footer that this trailer describes.
    pub fn open(&self, footer: &[u8]) -> Result<Table, DamageError> {
        if xxhash_rust::xxh3::xxh3_64(footer) != self.checksum {
            return Err(DamageError::pack("the footer's checksum differs"));
        }
        let table = Table::decode_footer(footer)?;
        if table.end() == self.footer_offset {
            Ok(table)
        } else {
            Err(DamageError::pack("the footer does not follow the last quantum"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::RESERVED;

    fn table() -> Table {
        let mut table = Table::new(PackNumber(7), DomainId(3));
        table.push(100, &[10, 20], &[ChunkDigest([1; 32]), ChunkDigest([2; 32])]);
        table.push(50, &[30], &[ChunkDigest([3; 32])]);
        table
    }

    fn reopen(bytes: &[u8], end: u64) -> Result<Table, DamageError> {
        let (footer, trailer) = bytes
            .len()
            .checked_sub(TRAILER_BYTES)
            .map(|at| bytes.split_at(at))
            .ok_or(DamageError::pack("too short"))?;
        Trailer::decode(trailer, end + bytes.len() as u64)?.open(footer)
    }

    #[test]
    fn footers_survive() {
        let table = table();
        assert_eq!(reopen(&table.encode_footer(), table.end()), Ok(table));
    }

    #[test]
    fn headers_survive_and_reserved_bits_are_refused() {
        let header = Header { pack: PackNumber(7), domain: DomainId(3) };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for at in 0..HEADER_BYTES * 8 {
            let mut damaged = bytes;
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(Header::decode(&damaged).is_err(), "bit {at}");
        }
        for at in 20 * 8..24 * 8 {
            let mut later = bytes;
            later[at / 8] |= 1 << (at % 8);
            let checksum = xxhash_rust::xxh3::xxh3_64(&later[..24]);
            later[24..].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Header::decode(&later).map_err(|damaged| damaged.why), Err(RESERVED));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let table = table();
        let bytes = table.encode_footer();
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(reopen(&damaged, table.end()).is_err(), "bit {at}");
        }
        for end in 0..bytes.len() {
            assert!(reopen(&bytes[..end], table.end()).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_part_of_a_table_has_whole_quanta() {
        let table = table();
        for (end, chunks) in [(0, 0), (1, 0), (2, 2), (3, 3), (9, 3)] {
            assert_eq!(table.until(end).chunk_count(), chunks);
        }
        assert_eq!(table.until(3), table);
    }

    #[test]
    fn chunks_are_found_in_their_quantum() {
        let table = table();
        let found = [0, 1, 2, 3].map(|index| table.quantum_of(index));
        assert_eq!(found, [Some(0), Some(0), Some(1), None]);
        assert_eq!(table.chunk(2), Some((30, ChunkDigest([3; 32]))));
        assert_eq!(table.chunk(3), None);
    }
}
