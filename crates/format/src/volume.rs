//! A volume: the blocks on a tape, or in a file that stands for a tape.
//!
//! ```text
//! label | objects, a filemark after each group | index | objects ... | index
//!       ^ filemark                     filemark ^     ^ filemark
//!
//! every block   offset  bytes  field
//!                    0      8  magic "HFBLK001"
//!                    8      1  kind: 1 label, 2 object, 3 index
//!                    9      1  flags: 1 for the last block of the object or index, others zero
//!                   10      2  bytes of the object's name. The name comes before the content in
//!                              the payload of the first block that a volume has of the object;
//!                              zero in other blocks, and if the object has no name
//!                   12      4  payload bytes
//!                   16     16  identity of the volume
//!                   32      8  position on the volume
//!                   40     16  identity of the object; zero in label and index
//!                   56      8  sequence of the block in its object or index, from 0
//!                   64      8  offset in the object of the payload's first byte
//!                   72      4  sequence of the object on the volume, from 1; in an index, the
//!                              sequence of the last object before it; zero in the label
//!                   76      4  reserved: zero
//!                   80      8  xxh3-64 of the payload
//!                   88      8  xxh3-64 of bytes 0..88
//!                   96         payload
//! ```
//!
//! All integers are little-endian. A block shorter than 512 bytes is padded with zeros. Bytes that
//! a medium returns after the payload are ignored, because some drives do not report the length of
//! a short block.

use std::collections::BTreeMap;
use std::fmt;

use model::{Name, ServerTime};
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::RESERVED;
use crate::{DamageError, Reader, Writer};

/// Bytes before a block's payload.
pub const HEADER_BYTES: usize = 96;
/// Minimum length of a block, in bytes. Some drives refuse very short blocks.
pub const PADDED_BYTES_MIN: usize = 512;
/// Minimum block size that a volume can have, in bytes.
pub const BLOCK_BYTES_MIN: u32 = 4 << 10;
/// Default block size of a volume, in bytes. All LTO drives support it.
pub const BLOCK_BYTES_DEFAULT: u32 = 512 << 10;
/// Maximum length of a block, in bytes: READ(6) and WRITE(6) have 24 bits for it.
pub const BLOCK_BYTES_MAX: u32 = (16 << 20) - 1;
/// Largest position, sequence, offset or length on a volume. Readers add two of these numbers, and
/// the sum must be a number too.
const NUMBER_MAX: u64 = 1 << 62;
const OUT_OF_RANGE: &str = "a number is out of range";
/// Identity of the object in the header of a block that belongs to no object.
const NO_OBJECT: ObjectId = ObjectId([0; 16]);
const MAGIC: [u8; 8] = *b"HFBLK001";
const FLAG_LAST: u8 = 1;
const PART_FLAG_LAST: u8 = 1;
const PART_FLAG_NAMED: u8 = 2;
const LABEL_VERSION: u8 = 1;
const INDEX_VERSION: u8 = 1;
const NAME_BYTES_MAX: usize = 32;

/// The name of a volume, which is its barcode: 1 to 32 letters, digits, `.`, `-` or `_`, the first
/// of them a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeName(String);

/// Reason why a string cannot name a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a volume name has 1 to 32 letters, digits, '.', '-' or '_' and starts with a letter or digit"
)]
pub struct VolumeNameError;

impl VolumeName {
    /// Parses `name`.
    pub fn new(name: &str) -> Result<Self, VolumeNameError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let starts_well = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if starts_well && name.len() <= NAME_BYTES_MAX && name.bytes().all(allowed) {
            Ok(Self(name.to_owned()))
        } else {
            Err(VolumeNameError)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of a volume. Each labelling gives the volume a new identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub [u8; 16]);

/// Identity of an object on volumes, as the object's owner chose it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub [u8; 16]);

/// Content of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    Label,
    Object,
    Index,
}

impl BlockKind {
    fn code(self) -> u8 {
        match self {
            Self::Label => 1,
            Self::Object => 2,
            Self::Index => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Label, Self::Object, Self::Index]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// Parses the name of an object. It may be any name that a file can have.
fn object_name(bytes: &[u8]) -> Option<Name> {
    Name::new(bytes).ok().filter(|name| *name != Name::root())
}

/// Header of a block, before the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    pub kind: BlockKind,
    pub is_last: bool,
    pub volume: VolumeId,
    pub position: u64,
    pub object: ObjectId,
    pub sequence: u64,
    pub offset: u64,
    pub object_sequence: u32,
    /// Number of bytes of the payload that are the object's name; the object's bytes follow.
    pub name_bytes: u16,
}

impl BlockHeader {
    /// Writes the header into the first [`HEADER_BYTES`] bytes of `block`, whose other bytes are
    /// the payload, and pads the block to [`PADDED_BYTES_MIN`].
    pub fn seal(&self, block: &mut Vec<u8>) {
        let (head, payload) = block.split_at_mut(HEADER_BYTES);
        assert!(usize::from(self.name_bytes) <= payload.len(), "the name lies in the payload");
        assert!(self.is_of_its_kind(), "a label or an index names no object");
        let numbers = [self.position, self.sequence, self.offset];
        assert!(numbers.iter().all(|number| *number <= NUMBER_MAX), "a reader refuses others");
        let payload_bytes = u32::try_from(payload.len()).expect("bounded by BLOCK_BYTES_MAX");
        head[..8].copy_from_slice(&MAGIC);
        head[8] = self.kind.code();
        head[9] = if self.is_last { FLAG_LAST } else { 0 };
        head[10..12].copy_from_slice(&self.name_bytes.to_le_bytes());
        head[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
        head[16..32].copy_from_slice(&self.volume.0);
        head[32..40].copy_from_slice(&self.position.to_le_bytes());
        head[40..56].copy_from_slice(&self.object.0);
        head[56..64].copy_from_slice(&self.sequence.to_le_bytes());
        head[64..72].copy_from_slice(&self.offset.to_le_bytes());
        head[72..76].copy_from_slice(&self.object_sequence.to_le_bytes());
        head[76..80].fill(0);
        head[80..88].copy_from_slice(&xxh3_64(payload).to_le_bytes());
        let checksum = xxh3_64(&head[..88]);
        head[88..].copy_from_slice(&checksum.to_le_bytes());
        debug_assert_eq!(Self::open(block).map(|(header, _)| header), Ok(*self));
        block.resize(block.len().max(PADDED_BYTES_MIN), 0);
    }

    /// Parses a block. Returns its header and its payload. Bytes after the payload are ignored.
    pub fn open(block: &[u8]) -> Result<(Self, &[u8]), DamageError> {
        let mut reader = Reader::new(block, "volume block");
        if reader.array()? != MAGIC {
            return Err(reader.damaged("no magic number"));
        }
        let kind = BlockKind::from_code(reader.u8()?);
        let flags = reader.u8()?;
        let name_bytes = u16::from_le_bytes(reader.array()?);
        let payload_bytes = reader.u32()? as usize;
        let volume = VolumeId(reader.array()?);
        let position = reader.u64()?;
        let object = ObjectId(reader.array()?);
        let sequence = reader.u64()?;
        let offset = reader.u64()?;
        let object_sequence = reader.u32()?;
        let reserved = reader.zeros::<4>();
        let payload_checksum = reader.u64()?;
        if reader.u64()? != xxh3_64(&block[..88]) {
            return Err(reader.damaged("the header's checksum differs"));
        }
        let payload = reader.raw(payload_bytes)?;
        if xxh3_64(payload) != payload_checksum {
            return Err(reader.damaged("the checksum differs"));
        }
        reserved?;
        if flags & !FLAG_LAST != 0 {
            return Err(reader.damaged(RESERVED));
        }
        let kind = kind.ok_or(reader.damaged("unknown kind"))?;
        let numbers = [position, sequence, offset];
        if numbers.iter().any(|number| *number > NUMBER_MAX) {
            return Err(reader.damaged(OUT_OF_RANGE));
        }
        if usize::from(name_bytes) > payload.len() {
            return Err(reader.damaged("the name is longer than the payload"));
        }
        let is_last = flags & FLAG_LAST != 0;
        let header = Self {
            kind,
            is_last,
            volume,
            position,
            object,
            sequence,
            offset,
            object_sequence,
            name_bytes,
        };
        if header.is_of_its_kind() {
            Ok((header, payload))
        } else {
            Err(reader.damaged("a label or an index has the fields of an object"))
        }
    }

    /// Returns false if a label or an index names an object.
    fn is_of_its_kind(&self) -> bool {
        self.kind == BlockKind::Object || (self.object == NO_OBJECT && self.name_bytes == 0)
    }

    /// Splits the payload of this header's block into the object's name and the object's content.
    pub fn split<'a>(&self, payload: &'a [u8]) -> (Option<Name>, &'a [u8]) {
        let (name, content) = payload.split_at(usize::from(self.name_bytes));
        // Bytes that cannot be a name count as no name. The object still has its number.
        (object_name(name), content)
    }
}

/// Content of the first block of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    pub volume: VolumeId,
    pub name: VolumeName,
    /// Pool that the volume belongs to.
    pub pool: String,
    pub labelled: ServerTime,
    /// Number of the volume among the volumes of its pool, in the order in which they were
    /// labelled.
    pub sequence: u64,
    /// Size of the largest block on the volume: [`BLOCK_BYTES_MIN`] to [`BLOCK_BYTES_MAX`].
    pub block_bytes: u32,
}

impl Label {
    /// Returns the first block of the volume, which is the label.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&[0; HEADER_BYTES]);
        writer.u8(LABEL_VERSION);
        writer.string(self.name.as_str().as_bytes());
        writer.string(self.pool.as_bytes());
        writer.raw(&self.labelled.0.to_le_bytes());
        writer.varint(self.sequence);
        writer.varint(self.block_bytes.into());
        let mut block = writer.finish();
        let header = BlockHeader {
            kind: BlockKind::Label,
            is_last: true,
            volume: self.volume,
            position: 0,
            object: NO_OBJECT,
            sequence: 0,
            offset: 0,
            object_sequence: 0,
            name_bytes: 0,
        };
        header.seal(&mut block);
        assert_eq!(Self::decode(&block).as_ref(), Ok(self));
        block
    }

    pub fn decode(block: &[u8]) -> Result<Self, DamageError> {
        let (header, payload) = BlockHeader::open(block)?;
        let mut reader = Reader::new(payload, "volume label");
        if (header.kind, header.position) != (BlockKind::Label, 0) {
            return Err(reader.damaged("the block is not a label"));
        }
        if reader.u8()? != LABEL_VERSION {
            return Err(reader.damaged("unknown version"));
        }
        let text = |bytes| std::str::from_utf8(bytes);
        let name = text(reader.string()?).ok().and_then(|name| VolumeName::new(name).ok());
        let pool = text(reader.string()?).map(str::to_owned);
        let labelled = ServerTime(reader.u64()?.cast_signed());
        let sequence = reader.varint()?;
        let block_bytes = reader.number()?;
        reader.end()?;
        if sequence > NUMBER_MAX {
            return Err(reader.damaged(OUT_OF_RANGE));
        }
        if !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(reader.damaged("the block size is out of range"));
        }
        let name = name.ok_or(reader.damaged("the volume's name is not valid"))?;
        let pool = pool.map_err(|_| reader.damaged("the pool's name is not UTF-8"))?;
        Ok(Self { volume: header.volume, name, pool, labelled, sequence, block_bytes })
    }
}

/// Content of a volume that Holdfast has not labelled, recognised by the first block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForeignContent {
    Ltfs,
    /// ANSI X3.27, ISO 1001: the labels of most backup systems.
    AnsiLabel,
    /// The labels of X3.27 in EBCDIC.
    IbmLabel,
    Tar,
    Cpio,
    Unknown,
}

impl fmt::Display for ForeignContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ltfs => "an LTFS volume",
            Self::AnsiLabel => "a volume with an ANSI label",
            Self::IbmLabel => "a volume with an IBM standard label",
            Self::Tar => "a tar archive",
            Self::Cpio => "a cpio archive",
            Self::Unknown => "something unknown",
        })
    }
}

impl ForeignContent {
    /// Recognises the content by the first block. Returns `None` if the block has Holdfast's magic
    /// number, damaged or not.
    pub fn of(block: &[u8]) -> Option<Self> {
        const TAR_MAGIC_AT: usize = 257;
        let starts = |magic: &[u8]| block.starts_with(magic);
        let at = |offset: usize, magic: &[u8]| {
            block.get(offset..).is_some_and(|rest| rest.starts_with(magic))
        };
        if starts(&MAGIC) {
            return None;
        }
        Some(match () {
            // Implementation identifier in the VOL1 label, by the LTFS format specification.
            () if starts(b"VOL1") && at(24, b"LTFS") => Self::Ltfs,
            () if starts(b"VOL1") => Self::AnsiLabel,
            () if starts(&[0xe5, 0xd6, 0xd3, 0xf1]) => Self::IbmLabel,
            () if at(TAR_MAGIC_AT, b"ustar") => Self::Tar,
            () if starts(b"07070") || starts(&[0xc7, 0x71]) => Self::Cpio,
            () => Self::Unknown,
        })
    }
}

/// An object on a volume, or as much of the object as fitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    pub object: ObjectId,
    /// Number of the object on the volume, from 1.
    pub object_sequence: u32,
    /// Position of the part's first block.
    pub position: u64,
    pub block_count: u64,
    /// Sequence of the part's first block in the object; more than 0 if the object began on another
    /// volume.
    pub first_sequence: u64,
    /// Offset of the part's first byte in the object.
    pub offset: u64,
    pub bytes: u64,
    /// True if the object ends with this part. Otherwise the object continues on another volume, or
    /// was never finished.
    pub is_last: bool,
}

impl Part {
    /// Returns the offset in the object of the first byte after the part.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    fn is_in_range(&self) -> bool {
        let numbers =
            [self.position, self.block_count, self.first_sequence, self.offset, self.bytes];
        numbers.iter().all(|number| *number <= NUMBER_MAX)
    }
}

/// An index of a volume: the parts that were written since the index before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// Number of the session that wrote the index, from 1.
    pub session: u32,
    /// Position at which the previous index begins.
    pub previous: Option<u64>,
    /// The parts, sorted by position.
    pub parts: Vec<Part>,
    /// Names of the objects that have a name, by their sequence on the volume.
    pub names: BTreeMap<u32, Name>,
}

impl Index {
    /// Returns the content of the index, which is split into pieces, one for each block. The
    /// payload of each block is the position of the index's first block, then the piece.
    pub fn encode(&self) -> Vec<u8> {
        let is_in_order = self.parts.is_sorted_by(|a, b| a.position < b.position);
        assert!(is_in_order, "parts are sorted by position");
        assert!(self.parts.iter().all(Part::is_in_range), "a reader refuses other numbers");
        let mut writer = Writer::new();
        writer.u8(INDEX_VERSION);
        writer.varint(self.session.into());
        writer.varint(self.previous.map_or(0, |position| position + 1));
        writer.varint(self.parts.len() as u64);
        let mut before = 0;
        for part in &self.parts {
            writer.raw(&part.object.0);
            writer.varint(part.object_sequence.into());
            writer.varint(part.position - before);
            writer.varint(part.block_count);
            writer.varint(part.first_sequence);
            writer.varint(part.offset);
            writer.varint(part.bytes);
            let name = self.names.get(&part.object_sequence);
            let last = if part.is_last { PART_FLAG_LAST } else { 0 };
            writer.u8(last | if name.is_some() { PART_FLAG_NAMED } else { 0 });
            if let Some(name) = name {
                writer.string(name.as_bytes());
            }
            before = part.position;
        }
        let bytes = writer.finish();
        debug_assert_eq!(Self::decode(&bytes).as_ref(), Ok(self));
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DamageError> {
        let mut reader = Reader::new(bytes, "volume index");
        if reader.u8()? != INDEX_VERSION {
            return Err(reader.damaged("unknown version"));
        }
        let session = reader.number()?;
        let previous = reader.varint()?.checked_sub(1);
        if previous.is_some_and(|position| position > NUMBER_MAX) {
            return Err(reader.damaged(OUT_OF_RANGE));
        }
        let count = reader.count()?;
        let (mut parts, mut names) = (Vec::new(), BTreeMap::new());
        let mut before = 0_u64;
        for _ in 0..count {
            let object = ObjectId(reader.array()?);
            let object_sequence = reader.number()?;
            let distance = reader.varint()?;
            let position = before.checked_add(distance);
            let position = position.ok_or(reader.damaged("a position is out of range"))?;
            if distance == 0 && !parts.is_empty() {
                return Err(reader.damaged("two parts are at the same position"));
            }
            before = position;
            let mut part = Part {
                object,
                object_sequence,
                position,
                block_count: reader.varint()?,
                first_sequence: reader.varint()?,
                offset: reader.varint()?,
                bytes: reader.varint()?,
                is_last: false,
            };
            let flags = reader.u8()?;
            if flags & !(PART_FLAG_LAST | PART_FLAG_NAMED) != 0 {
                return Err(reader.damaged(RESERVED));
            }
            part.is_last = flags & PART_FLAG_LAST != 0;
            if !part.is_in_range() {
                return Err(reader.damaged(OUT_OF_RANGE));
            }
            parts.push(part);
            if flags & PART_FLAG_NAMED != 0 {
                let name = object_name(reader.string()?);
                let name = name.ok_or(reader.damaged("an object's name is not valid"))?;
                names.insert(object_sequence, name);
            }
        }
        reader.end()?;
        Ok(Self { session, previous, parts, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BlockHeader {
        BlockHeader {
            kind: BlockKind::Object,
            is_last: true,
            volume: VolumeId([1; 16]),
            position: 99,
            object: ObjectId([2; 16]),
            sequence: 3,
            offset: 1 << 40,
            object_sequence: 4,
            name_bytes: 2,
        }
    }

    fn block() -> Vec<u8> {
        let mut block = vec![7; HEADER_BYTES + 10];
        header().seal(&mut block);
        assert_eq!(block.len(), PADDED_BYTES_MIN);
        block
    }

    #[test]
    fn what_lies_behind_a_block_does_not_matter_and_all_else_does() {
        let mut block = block();
        block.extend([0xff; 30]);
        assert_eq!(BlockHeader::open(&block), Ok((header(), &[7; 10][..])));
        for at in 0..(HEADER_BYTES + 10) * 8 {
            let mut damaged = block.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(BlockHeader::open(&damaged).is_err(), "bit {at}");
        }
        for end in 0..HEADER_BYTES + 10 {
            assert!(BlockHeader::open(&block[..end]).is_err(), "cut at {end}");
        }
    }

    /// Applies `change` to the header of a block, corrects the checksum, and opens the block.
    fn open_changed(header: BlockHeader, change: impl Fn(&mut [u8])) -> Result<(), &'static str> {
        let mut block = vec![7; HEADER_BYTES + 10];
        header.seal(&mut block);
        change(&mut block[..88]);
        let checksum = xxh3_64(&block[..88]);
        block[88..96].copy_from_slice(&checksum.to_le_bytes());
        BlockHeader::open(&block).map(drop).map_err(|damaged| damaged.why)
    }

    #[test]
    fn reserved_bits_are_refused() {
        assert_eq!(open_changed(header(), |_| ()), Ok(()));
        for bit in 1..8 {
            assert_eq!(open_changed(header(), |head| head[9] |= 1 << bit), Err(RESERVED));
        }
        for at in 76 * 8..80 * 8 {
            let set = |head: &mut [u8]| head[at / 8] |= 1 << (at % 8);
            assert_eq!(open_changed(header(), set), Err(RESERVED));
        }
    }

    #[test]
    fn labels_and_indexes_name_no_object() {
        for kind in [BlockKind::Label, BlockKind::Index] {
            let header = BlockHeader { kind, object: NO_OBJECT, name_bytes: 0, ..header() };
            assert_eq!(open_changed(header, |_| ()), Ok(()));
            assert!(open_changed(header, |head| head[10] = 1).is_err());
            assert!(open_changed(header, |head| head[55] = 1).is_err());
        }
    }

    #[track_caller]
    fn check_foreign(at: usize, magic: &[u8], expected: Option<ForeignContent>) {
        let mut block = vec![0; 512];
        block[at..at + magic.len()].copy_from_slice(magic);
        assert_eq!(ForeignContent::of(&block), expected);
    }

    #[test]
    fn other_peoples_volumes_are_recognised() {
        check_foreign(0, b"VOL1A00001L             LTFS", Some(ForeignContent::Ltfs));
        check_foreign(0, b"VOL1A00001", Some(ForeignContent::AnsiLabel));
        check_foreign(0, &[0xe5, 0xd6, 0xd3, 0xf1], Some(ForeignContent::IbmLabel));
        check_foreign(257, b"ustar\0", Some(ForeignContent::Tar));
        check_foreign(0, b"070701", Some(ForeignContent::Cpio));
        check_foreign(0, b"BB02", Some(ForeignContent::Unknown));
        check_foreign(0, &MAGIC, None);
        assert_eq!(ForeignContent::of(b""), Some(ForeignContent::Unknown));
    }

    #[test]
    fn indexes_survive_and_damaged_ones_are_refused() {
        let part = Part {
            object: ObjectId([5; 16]),
            object_sequence: 1,
            position: 2,
            block_count: 10,
            first_sequence: 0,
            offset: 0,
            bytes: 5_000_000,
            is_last: true,
        };
        let later = Part { position: 40, object_sequence: 2, is_last: false, ..part };
        let names = BTreeMap::from([(2, Name::new(b"a\xff").expect("a name"))]);
        let index = Index { session: 2, previous: Some(0), parts: vec![part, later], names };
        let bytes = index.encode();
        assert_eq!(Index::decode(&bytes), Ok(index));
        for end in 0..bytes.len() {
            assert!(Index::decode(&bytes[..end]).is_err());
        }
        // The flags of the named part are followed by the name: one byte of length, two bytes of
        // text, hence 4 bytes before the end.
        for bit in 2..8 {
            let mut later = bytes.clone();
            let flags_at = later.len() - 4;
            later[flags_at] |= 1 << bit;
            assert_eq!(Index::decode(&later).map_err(|damaged| damaged.why), Err(RESERVED));
        }
    }

    /// Returns an index of version 1 with one part for each of `parts`: its distance from the part
    /// before, its offset and its bytes.
    fn index_of(session: u64, parts: &[[u64; 3]]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(INDEX_VERSION);
        writer.varint(session);
        writer.varint(0);
        writer.varint(parts.len() as u64);
        for [distance, offset, bytes] in parts {
            writer.raw(&[2; 16]);
            for number in [1, *distance, 1, 0, *offset, *bytes] {
                writer.varint(number);
            }
            writer.u8(PART_FLAG_LAST);
        }
        writer.finish()
    }

    /// A reader of a volume adds the numbers of a part. Numbers whose sum is no number ended the
    /// process with a panic.
    #[test]
    fn numbers_that_readers_cannot_add_are_refused() {
        let refusal = |bytes: &[u8]| Index::decode(bytes).err().map(|damaged| damaged.why);
        assert_eq!(refusal(&index_of(1, &[[5, NUMBER_MAX, NUMBER_MAX], [1, 0, 1]])), None);
        for parts in [[[5, u64::MAX, 1]], [[5, 0, u64::MAX]], [[NUMBER_MAX + 1, 0, 1]]] {
            assert_eq!(refusal(&index_of(1, &parts)), Some(OUT_OF_RANGE), "{parts:?}");
        }
        assert_eq!(refusal(&index_of(u32::MAX.into(), &[])), None);
        let same = index_of(1, &[[5, 0, 1], [0, 0, 1]]);
        assert_eq!(refusal(&same), Some("two parts are at the same position"));

        let mut block = block();
        block[56..64].fill(0xff);
        let checksum = xxh3_64(&block[..88]);
        block[88..96].copy_from_slice(&checksum.to_le_bytes());
        let opened = BlockHeader::open(&block);
        assert_eq!(opened.err().map(|damaged| damaged.why), Some(OUT_OF_RANGE));
    }

    #[test]
    fn names_are_plain() {
        for good in ["A00001L8", "a", "CLN001L1", "pool-1_7.x"] {
            assert_eq!(VolumeName::new(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", ".", "-a", "a/b", "a b", &"n".repeat(33)] {
            assert_eq!(VolumeName::new(bad), Err(VolumeNameError));
        }
    }
}
