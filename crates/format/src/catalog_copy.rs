//! A copy of the catalogue: the ordered list of the catalogue's blocks, which lie in packs.
//!
//! ```text
//! offset  bytes  field
//!      0      8  magic "HFCATC01"
//!      8      8  number of the copy
//!     16      8  time at which it was taken, in microseconds
//!     24      8  bytes of the catalogue
//!     32     32  BLAKE3 of the catalogue
//!     64     32  numbers of nodes, of filespaces, of pages, of versions, 8 bytes each
//!     96      4  flags: 1 the copy is doubtful; the other bits are zero
//!    100      4  reserved: zero
//!    104         count of runs, then per run: place of its first block (signed difference from the
//!                place after the run before, zigzag), count of blocks; LEB128
//!                xxh3-64 of all bytes before it: the last 8 bytes
//! ```

use model::{Place, PlaceCode as _, ServerTime};

use crate::{DamageError, Reader, Writer};

const MAGIC: [u8; 8] = *b"HFCATC01";
const CHECKSUM_BYTES: usize = 8;

/// Bytes of a block; the last block may be shorter. The size is a multiple of every database's page
/// size, so that an unchanged part of the file gives the same block.
pub const BLOCK_BYTES: u64 = 16 << 10;

/// Maximum number of blocks of a catalogue, 16 TiB in all.
const BLOCKS_MAX: u64 = 1 << 30;

/// Numbers of rows in a catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    pub nodes: u64,
    pub filespaces: u64,
    pub pages: u64,
    /// Number of inactive versions.
    pub versions: u64,
}

/// A copy of the catalogue.
///
/// Invariant: there is one place for each block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogCopy {
    /// Number of the copy, from 1.
    pub number: u64,
    pub taken: ServerTime,
    /// Bytes of the catalogue's file.
    pub bytes: u64,
    /// BLAKE3 of the catalogue's file.
    pub digest: [u8; 32],
    pub census: Census,
    /// True if the catalogue was damaged when it was copied, or had lost many of its rows since the
    /// copy before. Such a copy replaces no other one.
    pub is_doubtful: bool,
    /// Place of each block.
    pub places: BlockPlaces,
}

/// Places of blocks, in order. Consecutive places are one run in memory too, so that a short list
/// takes little memory, whatever it says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockPlaces {
    /// Code of the first place of each run, and number of its places.
    runs: Vec<(u64, u64)>,
    /// Number of places of all runs.
    count: u64,
}

impl BlockPlaces {
    /// Number of the places.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        let codes = self.runs.iter().flat_map(|(first, count)| *first..*first + *count);
        codes.map(|code| Place::from_code(code).expect("a run has nothing but places"))
    }

    /// Adds `count` consecutive places. Returns `None` if one of them is impossible.
    fn push(&mut self, first: u64, count: u64) -> Option<()> {
        let Some(distance) = count.checked_sub(1) else { return Some(()) };
        // The codes below the code of a place are codes of places, too.
        Place::from_code(first.checked_add(distance)?)?;
        match self.runs.last_mut() {
            Some((start, length)) if *start + *length == first => *length += count,
            _ => self.runs.push((first, count)),
        }
        self.count += count;
        Some(())
    }
}

impl FromIterator<Place> for BlockPlaces {
    fn from_iter<I: IntoIterator<Item = Place>>(places: I) -> Self {
        let mut all = Self::default();
        for place in places {
            all.push(place.code(), 1).expect("it is the code of a place");
        }
        all
    }
}

impl CatalogCopy {
    pub fn encode(&self) -> Vec<u8> {
        assert_eq!(self.places.count, self.bytes.div_ceil(BLOCK_BYTES), "each block has a place");
        let runs = &self.places.runs;
        let mut writer = Writer::new();
        writer.raw(&MAGIC);
        writer.raw(&self.number.to_le_bytes());
        writer.raw(&self.taken.0.to_le_bytes());
        writer.raw(&self.bytes.to_le_bytes());
        writer.raw(&self.digest);
        let Census { nodes, filespaces, pages, versions } = self.census;
        for number in [nodes, filespaces, pages, versions] {
            writer.raw(&number.to_le_bytes());
        }
        writer.raw(&u32::from(self.is_doubtful).to_le_bytes());
        writer.raw(&[0; 4]);
        writer.varint(runs.len() as u64);
        let mut expected = 0_u64;
        for (first, count) in runs {
            writer.signed(first.cast_signed().wrapping_sub(expected.cast_signed()));
            writer.varint(*count);
            expected = first + count;
        }
        let mut bytes = writer.finish();
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        debug_assert_eq!(Self::decode(&bytes).as_ref(), Ok(self));
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DamageError> {
        let damaged = |why| DamageError { what: "copy of the catalogue", why };
        let content = bytes.len().checked_sub(CHECKSUM_BYTES).map(|end| bytes.split_at(end));
        let (content, checksum) = content.ok_or(damaged("it is too short"))?;
        if xxhash_rust::xxh3::xxh3_64(content).to_le_bytes() != *checksum {
            return Err(damaged("its checksum differs"));
        }
        let mut reader = Reader::new(content, "copy of the catalogue");
        if reader.array()? != MAGIC {
            return Err(damaged("no magic number"));
        }
        let number = reader.u64()?;
        let taken = ServerTime(reader.u64()?.cast_signed());
        let bytes = reader.u64()?;
        let digest = reader.array()?;
        let census = Census {
            nodes: reader.u64()?,
            filespaces: reader.u64()?,
            pages: reader.u64()?,
            versions: reader.u64()?,
        };
        let is_doubtful = match reader.u32()? {
            0 => false,
            1 => true,
            _ => return Err(damaged("reserved flags are not zero")),
        };
        reader.zeros::<4>()?;
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        if blocks > BLOCKS_MAX {
            return Err(damaged("it is larger than any catalogue"));
        }
        let mut places = BlockPlaces::default();
        let mut expected = 0_u64;
        for _ in 0..reader.count()? {
            let first = expected.wrapping_add_signed(reader.signed()?);
            let count = reader.varint()?;
            if count > blocks - places.count {
                return Err(damaged("it lists more blocks than the catalogue has"));
            }
            places.push(first, count).ok_or(damaged("a place is impossible"))?;
            expected = first.saturating_add(count);
        }
        reader.end()?;
        if places.count == blocks {
            Ok(Self { number, taken, bytes, digest, census, is_doubtful, places })
        } else {
            Err(damaged("it lists fewer blocks than the catalogue has"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PackNumber;

    fn copy(blocks: u64) -> CatalogCopy {
        let index = |block: u64| u32::try_from(block % 7).expect("small");
        let place = |block: u64| Place::new(PackNumber(9 - block / 7 % 5), index(block));
        CatalogCopy {
            number: 3,
            taken: ServerTime(1_760_000_000_000_001),
            bytes: (blocks * BLOCK_BYTES).saturating_sub(5),
            digest: [7; 32],
            census: Census { nodes: 1, filespaces: 2, pages: 3, versions: 4 },
            is_doubtful: blocks == 6,
            places: (0..blocks).map(place).collect(),
        }
    }

    #[test]
    fn copies_survive() {
        for blocks in [0, 1, 6, 7, 8, 1000] {
            assert_eq!(CatalogCopy::decode(&copy(blocks).encode()), Ok(copy(blocks)));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = copy(20).encode();
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(CatalogCopy::decode(&damaged).is_err(), "bit {at}");
        }
        for end in 0..bytes.len() {
            assert!(CatalogCopy::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    /// A list of a hundred bytes took the memory of all the blocks that it claims.
    #[test]
    fn a_short_list_of_many_blocks_takes_little_memory() {
        let places = BlockPlaces { runs: vec![(7, BLOCKS_MAX)], count: BLOCKS_MAX };
        let all = CatalogCopy { bytes: BLOCKS_MAX * BLOCK_BYTES, places, ..copy(0) };
        let list = all.encode();
        assert!(list.len() < 150, "{} bytes", list.len());
        assert_eq!(CatalogCopy::decode(&list), Ok(all));
    }

    #[test]
    fn places_come_in_their_order() {
        let codes = [5, 6, 7, 2, 3, 9, 9];
        let places = || codes.iter().map(|code| Place::from_code(*code).expect("a place"));
        let listed: BlockPlaces = places().collect();
        assert!(listed.iter().eq(places()));
        assert_eq!((listed.count(), listed.runs.len()), (7, 4));
        assert_eq!(BlockPlaces::default().push(u64::MAX, 1), None);
        assert_eq!(BlockPlaces::default().push((1 << 63) - 1, 2), None);
    }

    #[test]
    fn a_list_that_does_not_fit_its_bytes_is_refused() {
        let resealed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = copy(20).encode();
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            change(&mut bytes);
            let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
            bytes.extend_from_slice(&checksum.to_le_bytes());
            CatalogCopy::decode(&bytes)
        };
        assert!(resealed(&|_| {}).is_ok());
        for bytes in [0_u64, BLOCK_BYTES, 21 * BLOCK_BYTES, u64::MAX] {
            let refused = resealed(&|all| all[24..32].copy_from_slice(&bytes.to_le_bytes()));
            assert!(refused.is_err(), "{bytes}");
        }
        assert!(resealed(&|all| all.push(0)).is_err());
    }
}
