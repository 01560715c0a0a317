//! A quantum: up to 2 MiB of consecutive chunks as one independent record with a checksum. The
//! record is the same on the wire and in a pack.
//!
//! ```text
//! offset  bytes  field
//!      0      4  magic "HFQ1"
//!      4      1  codec: 0 stored, 1 zstd: frames one after the other
//!      5      3  reserved: zero
//!      8      4  raw bytes: length of all chunks together, 1..=2^21
//!     12      4  payload bytes
//!     16      4  chunk count, at least 1
//!     20      4  table bytes
//!     24      8  xxh3-64 of bytes 0..24, table and payload
//!     32      -  table: the length of each chunk, a varint of the fewest bytes each
//!      -      -  payload: the chunks in order, as the codec says
//! ```
//!
//! The record holds no digests. They can be computed from the chunks, so a pack that lost its
//! footer still has everything.

use model::QUANTUM_BYTES_MAX;

use crate::{DamageError, Reader, Writer};

const MAGIC: [u8; 4] = *b"HFQ1";

/// Bytes of the fixed part of a record.
pub const HEADER_BYTES: usize = 32;

/// Maximum length of a record, in bytes, for an incompressible quantum of one-byte chunks.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + 2 * QUANTUM_BYTES_MAX;

/// Encoding of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    Stored,
    Zstd,
}

/// The fixed part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub codec: Codec,
    pub raw_bytes: u32,
    pub payload_bytes: u32,
    pub chunk_count: u32,
    table_bytes: u32,
    checksum: u64,
}

impl Header {
    /// Parses the first [`HEADER_BYTES`] bytes of a record; more bytes may follow.
    pub fn decode(bytes: &[u8]) -> Result<Self, DamageError> {
        let mut reader = Reader::new(bytes, "quantum");
        if reader.array()? != MAGIC {
            return Err(DamageError::quantum("no magic number"));
        }
        let [codec, reserved @ ..] = reader.array::<4>()?;
        let codec = match codec {
            0 => Codec::Stored,
            1 => Codec::Zstd,
            _ => return Err(DamageError::quantum("unknown codec")),
        };
        if reserved != [0; 3] {
            return Err(DamageError::quantum("reserved bytes are not zero"));
        }
        let header = Self {
            codec,
            raw_bytes: reader.u32()?,
            payload_bytes: reader.u32()?,
            chunk_count: reader.u32()?,
            table_bytes: reader.u32()?,
            checksum: reader.u64()?,
        };
        let limit = QUANTUM_BYTES_MAX as u64;
        let sane = (1..=limit).contains(&u64::from(header.raw_bytes))
            && (1..=limit).contains(&u64::from(header.payload_bytes))
            && (1..=header.raw_bytes).contains(&header.chunk_count)
            && u64::from(header.table_bytes) <= limit;
        if sane { Ok(header) } else { Err(DamageError::quantum("a size is out of range")) }
    }

    /// Returns the length of the whole record, in bytes.
    pub fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.table_bytes as usize + self.payload_bytes as usize
    }
}

/// A parsed record whose checksum was verified.
#[derive(PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub codec: Codec,
    /// Bytes of each chunk, in order; none is 0.
    pub lengths: Vec<u32>,
    /// The chunks, encoded as `codec` says.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Parses exactly one record.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DamageError> {
        let header = Header::decode(bytes)?;
        if bytes.len() != header.record_bytes() {
            return Err(DamageError::quantum("its length differs from that in its header"));
        }
        let (head, body) = bytes.split_at(HEADER_BYTES);
        if checksum(&head[..24], body) != header.checksum {
            return Err(DamageError::quantum("its checksum differs"));
        }
        let (table, payload) = body.split_at(header.table_bytes as usize);
        let lengths = decode_lengths(table, &header)?;
        Ok(Self { codec: header.codec, lengths, payload })
    }

    /// Returns the length of all chunks together, in bytes.
    pub fn raw_bytes(&self) -> usize {
        self.lengths.iter().map(|&length| length as usize).sum()
    }
}

fn decode_lengths(table: &[u8], header: &Header) -> Result<Vec<u32>, DamageError> {
    let mut reader = Reader::new(table, "quantum");
    if header.chunk_count as usize > table.len() {
        return Err(DamageError::quantum("it has more chunks than its table holds"));
    }
    let lengths = (0..header.chunk_count)
        .map(|_| reader.number::<u32>())
        .collect::<Result<Vec<_>, _>>()?;
    reader.end()?;
    let sum: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    if sum != u64::from(header.raw_bytes) || lengths.contains(&0) {
        return Err(DamageError::quantum("the lengths of its chunks do not add up"));
    }
    // Longer forms would give one quantum many records.
    let fewest: usize = lengths.iter().map(|&length| varint_bytes(length)).sum();
    if fewest != table.len() {
        return Err(DamageError::quantum("the length of a chunk takes more bytes than it needs"));
    }
    Ok(lengths)
}

/// Returns the number of bytes of the shortest varint for `value`.
fn varint_bytes(value: u32) -> usize {
    let bits = u32::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Makes the record of the chunks with these `lengths`, whose encoded form is `payload`.
pub fn encode(codec: Codec, lengths: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut table = Writer::new();
    lengths.iter().for_each(|&length| table.varint(u64::from(length)));
    let table = table.finish();
    let raw_bytes: u32 = lengths.iter().sum();
    assert!(raw_bytes as usize <= QUANTUM_BYTES_MAX, "a quantum holds at most 2 MiB");
    assert!(!lengths.contains(&0) && !lengths.is_empty(), "no chunk is empty");

    let mut record = Vec::with_capacity(HEADER_BYTES + table.len() + payload.len());
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&[u8::from(codec == Codec::Zstd), 0, 0, 0]);
    record.extend_from_slice(&raw_bytes.to_le_bytes());
    for length in [payload.len(), lengths.len(), table.len()] {
        let length = u32::try_from(length).expect("bounded by the quantum");
        record.extend_from_slice(&length.to_le_bytes());
    }
    record.extend_from_slice(&[0; 8]);
    record.extend_from_slice(&table);
    record.extend_from_slice(payload);
    let (head, body) = record.split_at(HEADER_BYTES);
    let checksum = checksum(&head[..24], body);
    record[24..32].copy_from_slice(&checksum.to_le_bytes());
    debug_assert!(Record::decode(&record).is_ok_and(|r| r.lengths == lengths));
    record
}

fn checksum(head: &[u8], body: &[u8]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(head);
    hasher.update(body);
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive() {
        let bytes = encode(Codec::Stored, &[3, 200, 1], &[7; 204]);
        let record = Record::decode(&bytes).expect("just encoded");
        assert_eq!(record.lengths, [3, 200, 1]);
        assert_eq!((record.codec, record.payload), (Codec::Stored, &[7; 204][..]));
        assert_eq!(Header::decode(&bytes).expect("same").record_bytes(), bytes.len());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = encode(Codec::Zstd, &[5, 6], b"not really zstd");
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(Record::decode(&damaged).is_err(), "bit {at}");
        }
        for end in 0..bytes.len() {
            assert!(Record::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_length_that_takes_more_bytes_than_it_needs_is_refused() {
        let lengths_of = |table: &[u8]| {
            let mut record = encode(Codec::Stored, &[3], b"abc");
            record.truncate(HEADER_BYTES);
            record.extend_from_slice(&[table, b"abc"].concat());
            let table_bytes = u32::try_from(table.len()).expect("a short table");
            record[20..24].copy_from_slice(&table_bytes.to_le_bytes());
            let (head, body) = record.split_at(HEADER_BYTES);
            let checksum = checksum(&head[..24], body).to_le_bytes();
            record[24..32].copy_from_slice(&checksum);
            Record::decode(&record)
                .map(|record| record.lengths)
                .map_err(|damaged| damaged.why)
        };
        assert_eq!(lengths_of(&[3]), Ok(vec![3]));
        for table in [&[0x83, 0][..], &[0x83, 0x80, 0]] {
            let refused = Err("the length of a chunk takes more bytes than it needs");
            assert_eq!(lengths_of(table), refused);
        }
        for length in [1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
            let record = encode(Codec::Stored, &[length], b"x");
            let lengths = Record::decode(&record).map(|record| record.lengths);
            assert_eq!(lengths, Ok(vec![length]));
        }
    }

    #[test]
    fn reserved_bits_and_unknown_codecs_are_refused() {
        let changed = |at: usize, bit: u32| {
            let mut record = encode(Codec::Stored, &[3], b"abc");
            record[at] ^= 1 << bit;
            let (head, body) = record.split_at(HEADER_BYTES);
            let checksum = checksum(&head[..24], body).to_le_bytes();
            record[24..32].copy_from_slice(&checksum);
            Record::decode(&record).map(|_| ()).map_err(|damaged| damaged.why)
        };
        for (at, bit) in (5..8).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            assert_eq!(
                changed(at, bit),
                Err("reserved bytes are not zero"),
                "byte {at}, bit {bit}"
            );
        }
        assert_eq!(changed(4, 0), Ok(()), "the other codec");
        for bit in 1..8 {
            assert_eq!(changed(4, bit), Err("unknown codec"), "bit {bit}");
        }
    }
}
