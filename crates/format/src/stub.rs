//! The record of a space-managed file, in an extended attribute of the file.
//!
//! ```text
//! offset  bytes  field
//!      0      4  magic "HFS2"
//!      4      1  state: 0 premigrated, 1 migrated
//!      5      1  flag 1 if content was recalled since the file was migrated; flag 2 if some of
//!                that content may not be on the disk yet; other bits zero
//!      6      2  index of the copy in its batch
//!      8      8  batch
//!     16      8  size of the file, bytes
//!     24      8  mtime, seconds since 1970, signed
//!     32      4  mtime, nanoseconds
//!     36     16  digest of the content, as server and client compute it
//!     52      7  bearer: the file that the record describes; zeros if it is unknown
//!     59      -  of a migrated file: one bit for each grain, lowest first, set if it is resident
//!      -      8  with flag 2: the start of the machine for which the bits of the grains hold
//!      -      -  with flag 2: the bits of the grains that hold after any other start
//!      -      8  xxh3-64 of the bytes before
//! ```
//!
//! Version 1 (magic "HFS1") is the same without the bearer.
//!
//! All numbers are little endian. The size of a file's grains is the smallest power of two, but at
//! least 1 MiB, with which the file has at most [`GRAINS_MAX`] grains.

use std::ops::Range;

use model::{BatchId, CopyId, Timestamp};

use crate::bytes::RESERVED;
use crate::{DamageError, Reader};

/// Name of the attribute. Only root sees the attribute, and programs of root copy it together with
/// the file. With so short a name, the record of a file of up to 8 grains fits into an ext4 inode
/// of 256 bytes and takes no block.
pub const STUB_ATTRIBUTE: &str = "trusted.hf";

/// Name of the folder, in the root directory of a file system, that hides the file system's files.
/// Only root may enter it.
pub const HIDDEN_FOLDER: &[u8] = b".holdfast-hidden";
/// Name of the directory in [`HIDDEN_FOLDER`] that holds the hidden files. While a keeper is
/// running, this directory is shown in the place of the root directory.
pub const HIDDEN_FILES: &[u8] = b"files";

const MAGIC: [u8; 4] = *b"HFS2";
const MAGIC_1: [u8; 4] = *b"HFS1";
const BEARER_BYTES: usize = 7;
const FIXED_BYTES: usize = 52 + BEARER_BYTES;
const CHECK_BYTES: usize = 8;
const GRAIN_BYTES_MIN: u64 = 1 << 20;
/// Maximum number of grains of a file.
pub const GRAINS_MAX: u64 = 4096;
/// Maximum length of a record, in bytes.
pub const STUB_BYTES_MAX: usize = FIXED_BYTES + 2 * (GRAINS_MAX / 8) as usize + 8 + CHECK_BYTES;
const RECALLED: u8 = 1;
const UNSYNCED: u8 = 2;

/// The file that a record describes, as a digest of the identities of its file system and of its
/// inode. A copy of the record in another file names the wrong bearer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bearer([u8; BEARER_BYTES]);

impl Bearer {
    /// Returns the bearer with this identity of its file system and this handle, which names the
    /// inode and its generation.
    pub fn of(filesystem: &[u8; 16], handle: &[u8]) -> Self {
        let digest = xxhash_rust::xxh3::xxh3_64(&[&filesystem[..], handle].concat());
        let mut bytes = [0; BEARER_BYTES];
        bytes.copy_from_slice(&digest.to_le_bytes()[..BEARER_BYTES]);
        // Zeros stand for an unknown bearer.
        if bytes == [0; BEARER_BYTES] {
            bytes[0] = 1;
        }
        Self(bytes)
    }

    fn parse(bytes: [u8; BEARER_BYTES]) -> Option<Self> {
        (bytes != [0; BEARER_BYTES]).then_some(Self(bytes))
    }
}

/// State of a space-managed file: the machines that have its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// The content is on this machine and at the server.
    Premigrated,
    /// The content is at the server; the grains that were recalled are on this machine too.
    Migrated(Grains),
}

/// The record of a space-managed file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stub {
    pub state: State,
    /// True after a recall, and once a program may have changed the file. The file's times then
    /// prove nothing.
    pub was_recalled: bool,
    pub copy: CopyId,
    /// Size of the file when it was copied.
    pub size: u64,
    pub mtime: Timestamp,
    pub content: [u8; 16],
    /// The file that the record describes; `None` if the record does not say it, as records of
    /// version 1.
    pub bearer: Option<Bearer>,
    /// Grains that are certainly on the disk, if other resident grains of a migrated file may not
    /// be on the disk yet.
    pub unsynced: Option<SyncState>,
}

/// Sync state of a file of which some resident grains may not be on the disk yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncState {
    /// Start of the machine for which the record's resident grains hold. After any other start only
    /// the `synced` grains are resident.
    pub boot: u64,
    pub synced: Grains,
}

/// Set of the resident grains of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grains {
    file_bytes: u64,
    bits: Vec<u8>,
}

/// Returns the size of a grain, in bytes, of a file of `file_bytes`.
pub fn grain_bytes(file_bytes: u64) -> u64 {
    let least = file_bytes.div_ceil(GRAINS_MAX).next_power_of_two();
    least.max(GRAIN_BYTES_MIN)
}

impl Grains {
    /// Returns the empty set for a file of `file_bytes`.
    pub fn none(file_bytes: u64) -> Self {
        let count = file_bytes.div_ceil(grain_bytes(file_bytes));
        let bytes = usize::try_from(count.div_ceil(8)).expect("at most GRAINS_MAX bits");
        Self { file_bytes, bits: vec![0; bytes] }
    }

    fn read(reader: &mut Reader<'_>, file_bytes: u64) -> Result<Self, DamageError> {
        let mut grains = Self::none(file_bytes);
        let bits = reader.raw(grains.bits.len())?;
        grains.bits.copy_from_slice(bits);
        let (count, last) = (grains.count(), bits.last().copied().unwrap_or(0));
        // The last byte has bits for grains beyond the end of the file.
        if !count.is_multiple_of(8) && last >> (count % 8) != 0 {
            return Err(reader.damaged(RESERVED));
        }
        Ok(grains)
    }

    fn count(&self) -> u64 {
        self.file_bytes.div_ceil(grain_bytes(self.file_bytes))
    }

    fn is_set(&self, grain: u64) -> bool {
        let at = usize::try_from(grain / 8).expect("at most GRAINS_MAX bits");
        self.bits.get(at).is_some_and(|byte| byte >> (grain % 8) & 1 == 1)
    }

    /// Returns the numbers of the grains that overlap `range`.
    fn grains_of(&self, range: &Range<u64>) -> Range<u64> {
        let grain = grain_bytes(self.file_bytes);
        let end = range.end.min(self.file_bytes);
        if range.start >= end { 0..0 } else { range.start / grain..end.div_ceil(grain) }
    }

    /// Returns the ranges to recall so that all of `range` is resident: whole grains, with
    /// neighbours joined.
    pub fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let grain = grain_bytes(self.file_bytes);
        let mut missing: Vec<Range<u64>> = Vec::new();
        for number in self.grains_of(range).filter(|&number| !self.is_set(number)) {
            let (from, to) = (number * grain, ((number + 1) * grain).min(self.file_bytes));
            match missing.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => missing.push(from..to),
            }
        }
        missing
    }

    /// Adds the grains of `range`, which must consist of whole grains.
    pub fn set(&mut self, range: &Range<u64>) {
        let grain = grain_bytes(self.file_bytes);
        debug_assert!(range.start.is_multiple_of(grain), "a resident range begins with a grain");
        let is_whole = range.end.is_multiple_of(grain) || range.end >= self.file_bytes;
        debug_assert!(is_whole, "a resident range ends with a grain or with the file");
        for number in self.grains_of(range) {
            let at = usize::try_from(number / 8).expect("at most GRAINS_MAX bits");
            self.bits[at] |= 1 << (number % 8);
        }
    }

    /// Returns true if all of the file is resident.
    pub fn is_whole(&self) -> bool {
        (0..self.count()).all(|grain| self.is_set(grain))
    }
}

impl Stub {
    pub fn encode(&self) -> Vec<u8> {
        let (state, bits) = match &self.state {
            State::Premigrated => (0, &[][..]),
            State::Migrated(grains) => (1, &grains.bits[..]),
        };
        if let State::Migrated(grains) = &self.state {
            assert_eq!(grains.file_bytes, self.size, "the grains must be the grains of the file");
        }
        let unsynced = self.unsynced.as_ref().filter(|_| state == 1);
        let recalled = if self.was_recalled { RECALLED } else { 0 };
        let flags = recalled | if unsynced.is_some() { UNSYNCED } else { 0 };
        let mut record = Vec::with_capacity(STUB_BYTES_MAX);
        record.extend_from_slice(&MAGIC);
        record.extend_from_slice(&[state, flags]);
        record.extend_from_slice(&self.copy.index.to_le_bytes());
        record.extend_from_slice(&self.copy.batch.0.to_le_bytes());
        record.extend_from_slice(&self.size.to_le_bytes());
        record.extend_from_slice(&self.mtime.secs.to_le_bytes());
        record.extend_from_slice(&self.mtime.nanos.to_le_bytes());
        record.extend_from_slice(&self.content);
        record.extend_from_slice(&self.bearer.map_or([0; BEARER_BYTES], |Bearer(bytes)| bytes));
        record.extend_from_slice(bits);
        if let Some(SyncState { boot, synced }) = unsynced {
            record.extend_from_slice(&boot.to_le_bytes());
            record.extend_from_slice(&synced.bits);
        }
        let check = xxhash_rust::xxh3::xxh3_64(&record);
        record.extend_from_slice(&check.to_le_bytes());
        assert!(record.len() <= STUB_BYTES_MAX, "a record fits its attribute");
        debug_assert!(Self::decode(&record).is_ok(), "the record can be decoded");
        record
    }

    pub fn decode(record: &[u8]) -> Result<Self, DamageError> {
        let damaged = |why| DamageError { what: "stub", why };
        let Some((body, check)) = record.split_last_chunk::<CHECK_BYTES>() else {
            return Err(damaged("it is too short"));
        };
        if xxhash_rust::xxh3::xxh3_64(body).to_le_bytes() != *check {
            return Err(damaged("its checksum differs"));
        }
        let mut reader = Reader::new(body, "stub");
        let has_bearer = match reader.array()? {
            MAGIC => true,
            MAGIC_1 => false,
            _ => return Err(damaged("no magic number")),
        };
        let (state, flags) = (reader.u8()?, reader.u8()?);
        let index = u16::from_le_bytes(reader.array()?);
        let batch = BatchId(reader.u64()?);
        let size = reader.u64()?;
        let secs = i64::from_le_bytes(reader.array()?);
        let mtime = Timestamp { secs, nanos: reader.u32()? };
        let content = reader.array()?;
        let bearer = if has_bearer { Bearer::parse(reader.array()?) } else { None };
        if flags & !(RECALLED | UNSYNCED) != 0 {
            return Err(damaged(RESERVED));
        }
        if flags & UNSYNCED != 0 && state == 0 {
            return Err(damaged("a premigrated file is marked as not on the disk yet"));
        }
        let mut unsynced = None;
        let state = match state {
            0 => State::Premigrated,
            1 => {
                let grains = Grains::read(&mut reader, size)?;
                if flags & UNSYNCED != 0 {
                    let boot = reader.u64()?;
                    unsynced = Some(SyncState { boot, synced: Grains::read(&mut reader, size)? });
                }
                State::Migrated(grains)
            }
            _ => return Err(damaged("unknown state")),
        };
        reader.end()?;
        let was_recalled = flags & RECALLED != 0;
        let copy = CopyId { batch, index };
        Ok(Self { state, was_recalled, copy, size, mtime, content, bearer, unsynced })
    }

    /// Returns the record as it holds after the start `boot` of the machine: without grains that
    /// may not have been on the disk when the machine stopped.
    pub fn as_of(self, boot: u64) -> Self {
        match (self.unsynced, self.state) {
            (Some(unsynced), State::Migrated(_)) if unsynced.boot != boot => {
                Self { state: State::Migrated(unsynced.synced), unsynced: None, ..self }
            }
            (unsynced, state) => Self { state, unsynced, ..self },
        }
    }

    /// Returns true if all of the content is on this machine.
    pub fn is_resident(&self) -> bool {
        match &self.state {
            State::Premigrated => true,
            State::Migrated(grains) => grains.is_whole(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stub(state: State, size: u64) -> Stub {
        Stub {
            state,
            was_recalled: true,
            copy: CopyId { batch: BatchId(0x0102_0304_0506_0708), index: 300 },
            size,
            mtime: Timestamp { secs: -5, nanos: 999_999_999 },
            content: [7; 16],
            bearer: Some(Bearer::of(&[1; 16], b"handle")),
            unsynced: None,
        }
    }

    #[test]
    fn what_was_not_synced_holds_in_one_start_of_the_machine_only() {
        let mut synced = Grains::none(9 << 20);
        synced.set(&(0..1 << 20));
        let mut grains = synced.clone();
        grains.set(&(4 << 20..6 << 20));
        let unsynced = Some(SyncState { boot: 77, synced: synced.clone() });
        let stub = Stub { unsynced, ..stub(State::Migrated(grains.clone()), 9 << 20) };
        let read = Stub::decode(&stub.encode()).expect("just encoded");
        assert_eq!(read, stub);
        assert_eq!(read.clone().as_of(77), stub);
        let after = read.as_of(78);
        assert_eq!((after.state, after.unsynced), (State::Migrated(synced), None));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut grains = Grains::none(20 << 20);
        grains.set(&(3 << 20..5 << 20));
        let stub = stub(State::Migrated(grains), 20 << 20);
        let record = stub.encode();
        assert_eq!(Stub::decode(&record), Ok(stub));
        for at in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(Stub::decode(&damaged).is_err(), "bit {at}");
        }
        for end in 0..record.len() {
            assert!(Stub::decode(&record[..end]).is_err(), "cut at {end}");
        }
    }

    /// Changes the byte `at` of the record of `stub` by `change`, corrects the checksum and decodes
    /// the record.
    fn decode_changed(stub: &Stub, at: usize, change: u8) -> Result<Stub, &'static str> {
        let mut record = stub.encode();
        record[at] ^= change;
        let (body, check) = record.split_last_chunk_mut::<CHECK_BYTES>().expect("is longer");
        *check = xxhash_rust::xxh3::xxh3_64(body).to_le_bytes();
        Stub::decode(&record).map_err(|damaged| damaged.why)
    }

    #[test]
    fn reserved_bits_are_refused() {
        let migrated = stub(State::Migrated(Grains::none(11 << 20)), 11 << 20);
        assert!(decode_changed(&migrated, 60, 0b100).is_ok(), "the eleventh grain");
        for bit in 3..8 {
            assert_eq!(decode_changed(&migrated, 60, 1 << bit), Err(RESERVED));
        }
        for bit in 2..8 {
            assert_eq!(decode_changed(&migrated, 5, 1 << bit), Err(RESERVED));
        }
        let premigrated = stub(State::Premigrated, 11 << 20);
        assert!(decode_changed(&premigrated, 5, UNSYNCED).is_err());
    }

    #[test]
    fn a_bearer_is_one_file_of_one_file_system() {
        let bearer = Bearer::of(&[1; 16], b"handle");
        assert_eq!(Bearer::of(&[1; 16], b"handle"), bearer);
        assert_ne!(Bearer::of(&[2; 16], b"handle"), bearer);
        assert_ne!(Bearer::of(&[1; 16], b"handlf"), bearer);
        let unknown = Stub { bearer: None, ..stub(State::Premigrated, 5) };
        assert_eq!(Stub::decode(&unknown.encode()), Ok(unknown));
    }

    #[test]
    fn the_record_of_a_small_file_takes_no_block_of_ext4() {
        // An inode of 256 bytes has room for a value of 68 bytes under so short a name.
        let record = stub(State::Migrated(Grains::none(8 << 20)), 8 << 20).encode();
        assert_eq!((record.len(), STUB_ATTRIBUTE.len()), (68, 10));
    }

    #[test]
    fn the_largest_file_has_a_record_that_fits() {
        for size in [0, 1, 1 << 20, (1 << 20) + 1, 4 << 30, (4 << 30) + 1, 8 << 60] {
            let stub = stub(State::Migrated(Grains::none(size)), size);
            let record = stub.encode();
            assert!(record.len() <= STUB_BYTES_MAX, "{size}");
            assert_eq!(Stub::decode(&record), Ok(stub));
        }
    }

    proptest! {
        #[test]
        fn what_is_missing_is_what_was_not_set(
            size in 1_u64..40 << 20,
            sets in prop::collection::vec((0_u64..40, 1_u64..5), 0..8),
            asked in (0_u64..40 << 20, 1_u64..9 << 20),
        ) {
            let mut grains = Grains::none(size);
            for &(from, count) in &sets {
                grains.set(&(from << 20..(from + count) << 20));
            }
            let is_known = |grain: u64| {
                sets.iter().any(|&(from, count)| (from..from + count).contains(&grain))
            };
            let range = asked.0..asked.0 + asked.1;
            let missing = grains.missing(&range);
            let is_missing = |at: u64| missing.iter().any(|part| part.contains(&at));
            for grain in 0..size.div_ceil(1 << 20) {
                let (from, to) = (grain << 20, ((grain + 1) << 20).min(size));
                let overlaps = from < range.end.min(size) && to > range.start;
                let expected = overlaps && !is_known(grain);
                prop_assert_eq!(is_missing(from), expected, "grain {}", grain);
                prop_assert_eq!(is_missing(to - 1), expected);
            }
            let whole = (0..size.div_ceil(1 << 20)).all(is_known);
            prop_assert_eq!(grains.is_whole(), whole);
        }
    }
}
