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
    pub places: Vec<Place>,
}

impl CatalogCopy {
    pub fn encode(&self) -> Vec<u8> {
        assert_eq!(
            self.places.len() as u64,
            self.bytes.div_ceil(BLOCK_BYTES),
            "each block has a place"
        );
        let runs = runs(&self.places);
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
            writer.varint(count);
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
        let mut places = Vec::new();
        let mut expected = 0_u64;
        for _ in 0..reader.count()? {
            let first = expected.wrapping_add_signed(reader.signed()?);
            let count = reader.varint()?;
            if count > blocks - places.len() as u64 {
                return Err(damaged("it lists more blocks than the catalogue has"));
            }
            for code in first..first.saturating_add(count) {
                places.push(Place::from_code(code).ok_or(damaged("a place is impossible"))?);
            }
            expected = first.saturating_add(count);
        }
        reader.end()?;
        if places.len() as u64 == blocks {
            Ok(Self { number, taken, bytes, digest, census, is_doubtful, places })
        } else {
            Err(damaged("it lists fewer blocks than the catalogue has"))
        }
    }
}

/// Returns the runs of consecutive places: the code of each run's first place, and the number of
/// places.
fn runs(places: &[Place]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == place.code() => *count += 1,
            _ => runs.push((place.code(), 1)),
        }
    }
    runs
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
