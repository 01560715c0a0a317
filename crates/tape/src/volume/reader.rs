//! Reading of a volume: of its list of objects, and of the objects.

use std::collections::BTreeMap;
use std::io::Write;

use format::DamageError;
use format::volume::{BlockHeader, BlockKind, HEADER_BYTES, Index, Label, Part, VolumeId};
use model::Name;

use super::error::VolumeError;
use super::label::read_label;
use crate::medium::{Medium, MediumError, ReadOutcome};

/// The objects of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// Parts in the order of position.
    pub parts: Vec<Part>,
    /// Names of the objects that have a name, by their sequence on the volume.
    pub names: BTreeMap<u32, Name>,
    /// Positions that could not be read; empty for a volume that has an index.
    pub damaged: Vec<u64>,
}

/// State of the end of a volume, for its next writer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tail {
    /// Session of the last index; 0 if there is no index.
    pub(crate) session: u32,
    pub(crate) last_index: Option<u64>,
    pub(crate) object_sequence: u32,
    /// Whole parts after the last index.
    pub(crate) unindexed: Vec<Part>,
    /// Names of the unindexed parts, by their sequence on the volume.
    pub(crate) names: BTreeMap<u32, Name>,
}

/// Maximum number of attempts to read a block, if the position on the medium is lost meanwhile.
const LOST_TRIES: u32 = 4;

/// One item on a medium.
enum Item {
    Block(BlockHeader),
    Filemark,
    EndOfData,
}

/// Returns true if the block belongs to `part`, at `offset` or after it.
fn is_further(header: &BlockHeader, part: &Part, offset: u64) -> bool {
    header.kind == BlockKind::Object
        && header.object == part.object
        && (offset..=part.end()).contains(&header.offset)
}

/// Writes `bytes` zeros.
fn pad(bytes: u64, sink: &mut dyn Write) -> Result<(), VolumeError> {
    let zeros = &mut std::io::Read::take(std::io::repeat(0), bytes);
    std::io::copy(zeros, &mut { sink }).map(drop).map_err(VolumeError::Handover)
}

/// A volume that is being read.
pub struct VolumeReader<M: Medium> {
    medium: M,
    label: Label,
    /// Buffer as long as the largest block of the volume.
    buffer: Vec<u8>,
    /// Length of the payload of the block in the buffer.
    payload_bytes: usize,
}

impl<M: Medium> VolumeReader<M> {
    /// Opens a volume and reads its label, which must have the identity `expected` if that is
    /// given.
    pub fn open(mut medium: M, expected: Option<VolumeId>) -> Result<Self, VolumeError> {
        let label = read_label(&mut medium)?;
        if expected.is_some_and(|expected| expected != label.volume) {
            return Err(VolumeError::Another { found: label.name });
        }
        if label.block_bytes > medium.block_bytes_max() {
            let why = "its blocks are larger than the drive or the connection to it accepts";
            let source = DamageError { what: "volume label", why };
            return Err(VolumeError::Damaged { position: 0, source });
        }
        let buffer = vec![0; label.block_bytes as usize];
        Ok(Self { medium, label, buffer, payload_bytes: 0 })
    }

    /// Opens a volume again whose label has been read since its mount.
    pub fn resume(medium: M, label: Label) -> Self {
        let buffer = vec![0; label.block_bytes as usize];
        Self { medium, label, buffer, payload_bytes: 0 }
    }

    pub fn label(&self) -> &Label {
        &self.label
    }

    pub(crate) fn into_parts(self) -> (M, Label) {
        (self.medium, self.label)
    }

    /// Reads the next item. A block must name its own position; its payload is in the buffer, after
    /// the header.
    fn next(&mut self) -> Result<Item, VolumeError> {
        let position = self.medium.position()?;
        // Otherwise a header that the previous block has left in the buffer could be regarded as
        // the header of this block.
        self.buffer[..HEADER_BYTES].fill(0);
        let bytes = match self.medium.read(&mut self.buffer)? {
            ReadOutcome::Block { bytes } => bytes,
            ReadOutcome::LongBlock { .. } => {
                let source =
                    DamageError { what: "volume block", why: "it is longer than the label says" };
                return Err(VolumeError::Damaged { position, source });
            }
            ReadOutcome::Filemark => return Ok(Item::Filemark),
            ReadOutcome::EndOfData => return Ok(Item::EndOfData),
        };
        let opened = BlockHeader::open(&self.buffer[..bytes]);
        let (header, payload) =
            opened.map_err(|source| VolumeError::Damaged { position, source })?;
        self.payload_bytes = payload.len();
        debug_assert!(HEADER_BYTES + self.payload_bytes <= bytes, "the payload lies in the buffer");
        if header.volume != self.label.volume || header.position != position {
            return Err(self.wrong_place(position));
        }
        Ok(Item::Block(header))
    }

    fn wrong_place(&mut self, wanted: u64) -> VolumeError {
        self.medium.distrust();
        VolumeError::WrongPlace { wanted }
    }

    fn payload(&self) -> &[u8] {
        &self.buffer[HEADER_BYTES..][..self.payload_bytes]
    }

    /// Goes to the beginning of `part`.
    pub fn locate(&mut self, part: &Part) -> Result<(), VolumeError> {
        Ok(self.medium.locate(part.position)?)
    }

    /// Carries out `step` at `position`. If the position is lost meanwhile, because the drive was
    /// reset or the line to it was cut, makes the medium ready, checks its label and tries again.
    fn steadily<T>(
        &mut self,
        position: u64,
        mut step: impl FnMut(&mut Self) -> Result<T, VolumeError>,
    ) -> Result<T, VolumeError> {
        let is_lost =
            |error: &VolumeError| matches!(error, VolumeError::Medium(MediumError::PositionLost));
        let mut result = step(self);
        for _ in 1..LOST_TRIES {
            match &result {
                Err(error) if is_lost(error) => {
                    result = self.return_to(position).and_then(|()| step(self));
                }
                _ => break,
            }
        }
        result
    }

    /// Makes the medium ready again, checks that it is still this volume, and goes to `position`.
    fn return_to(&mut self, position: u64) -> Result<(), VolumeError> {
        self.medium.make_ready()?;
        let found = read_label(&mut self.medium)?;
        if found != self.label {
            return Err(VolumeError::Another { found: found.name });
        }
        Ok(self.medium.locate(position)?)
    }

    /// Writes the bytes of `part` to `sink`.
    ///
    /// Bytes that were written before an error are correct: each block is checked before it is
    /// passed on.
    pub fn read(&mut self, part: &Part, sink: &mut dyn Write) -> Result<(), VolumeError> {
        self.steadily(part.position, |reader| Ok(reader.medium.locate(part.position)?))?;
        let mut offset = part.offset;
        for sequence in
            (part.first_sequence..).take(usize::try_from(part.block_count).unwrap_or(usize::MAX))
        {
            let position = self.medium.position()?;
            let Item::Block(header) = self.steadily(position, Self::next)? else {
                return Err(MediumError::EndOfData { position }.into());
            };
            let belongs = header.kind == BlockKind::Object
                && header.object == part.object
                && (header.sequence, header.offset) == (sequence, offset);
            if !belongs {
                return Err(self.wrong_place(position));
            }
            let (_, content) = header.split(self.payload());
            offset += content.len() as u64;
            sink.write_all(content).map_err(VolumeError::Handover)?;
        }
        if offset == part.end() {
            Ok(())
        } else {
            let source = DamageError { what: "object", why: "it is not as long as the index says" };
            Err(VolumeError::Damaged { position: part.position, source })
        }
    }

    /// Writes the readable bytes of `part` to `sink`, with zeros in place of lost bytes; returns
    /// the number of lost bytes.
    pub fn salvage(&mut self, part: &Part, sink: &mut dyn Write) -> Result<u64, VolumeError> {
        self.medium.locate(part.position)?;
        let (mut offset, mut lost) = (part.offset, 0);
        let end = part.end();
        for _ in 0..part.block_count {
            let position = self.medium.position()?;
            match self.next() {
                Ok(Item::Block(header)) if is_further(&header, part, offset) => {
                    lost += header.offset - offset;
                    pad(header.offset - offset, sink)?;
                    let (_, content) = header.split(self.payload());
                    sink.write_all(content).map_err(VolumeError::Handover)?;
                    offset = header.offset + content.len() as u64;
                }
                Ok(Item::Block(_) | Item::Filemark) => {}
                Ok(Item::EndOfData) => break,
                Err(
                    VolumeError::Damaged { .. }
                    | VolumeError::WrongPlace { .. }
                    | VolumeError::Medium(MediumError::Damaged { .. }),
                ) => {
                    let is_past = self.medium.position().is_ok_and(|now| now > position);
                    if !is_past && self.medium.locate(position + 1).is_err() {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        lost += end.saturating_sub(offset);
        debug_assert!(lost <= part.bytes, "no more bytes are lost than the part has");
        pad(end.saturating_sub(offset), sink)?;
        Ok(lost)
    }

    /// Lists the volume by its indexes. If an index is missing or damaged, reads the whole volume
    /// instead.
    pub fn list(&mut self) -> Result<Listing, VolumeError> {
        match self.list_by_index() {
            Ok(Some(listing)) => Ok(listing),
            Ok(None) | Err(VolumeError::Damaged { .. } | VolumeError::WrongPlace { .. }) => {
                self.scan()
            }
            Err(VolumeError::Medium(MediumError::Damaged { .. })) => self.scan(),
            Err(error) => Err(error),
        }
    }

    fn list_by_index(&mut self) -> Result<Option<Listing>, VolumeError> {
        let Some(mut first) = self.last_index()? else { return Ok(None) };
        let (mut parts, mut names) = (Vec::new(), BTreeMap::new());
        loop {
            let (index, _) = self.read_index(first)?;
            parts.extend(index.parts.into_iter().rev());
            names.extend(index.names);
            match index.previous {
                // An index that names a later index would make this loop endless.
                Some(previous) if previous < first => first = previous,
                Some(_) => return Ok(None),
                None => break,
            }
        }
        parts.reverse();
        Ok(Some(Listing { parts, names, damaged: Vec::new() }))
    }

    /// Returns the position of the first block of the index at the end of the volume; `None` if no
    /// index is there.
    fn last_index(&mut self) -> Result<Option<u64>, VolumeError> {
        if !self.medium.locate_last_block()? {
            return Ok(None);
        }
        let Item::Block(header) = self.next()? else { return Ok(None) };
        if header.kind != BlockKind::Index || !header.is_last {
            return Ok(None);
        }
        let first = self.payload().first_chunk().copied().map(u64::from_le_bytes);
        Ok(first.filter(|&first| first <= header.position))
    }

    /// Reads the index at `first`; returns it with the sequence of the last object before it.
    fn read_index(&mut self, first: u64) -> Result<(Index, u32), VolumeError> {
        const POSITION_BYTES: usize = 8;
        let damaged = |why| {
            let source = DamageError { what: "volume index", why };
            VolumeError::Damaged { position: first, source }
        };
        self.medium.locate(first)?;
        let mut bytes = Vec::new();
        for sequence in 0.. {
            let Item::Block(header) = self.next()? else { return Err(damaged("it has no end")) };
            if header.kind != BlockKind::Index || header.sequence != sequence {
                return Err(damaged("its blocks are out of order"));
            }
            bytes.extend(self.payload().get(POSITION_BYTES..).unwrap_or(&[]));
            if header.is_last {
                let decoded = Index::decode(&bytes);
                let index =
                    decoded.map_err(|source| VolumeError::Damaged { position: first, source })?;
                return Ok((index, header.object_sequence));
            }
        }
        unreachable!("the sequence has no end")
    }

    /// Finds the end of the volume, for the next writer.
    pub(crate) fn tail(&mut self) -> Result<Tail, VolumeError> {
        let indexed = match self.last_index() {
            Ok(Some(first)) => Some(first),
            Ok(None) | Err(VolumeError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(first) = indexed else { return Ok(self.walk()?.tail) };
        let (index, object_sequence) = self.read_index(first)?;
        Ok(Tail {
            session: index.session,
            last_index: Some(first),
            object_sequence,
            unindexed: Vec::new(),
            names: BTreeMap::new(),
        })
    }

    /// Lists the volume by reading all of it from the front. This takes as long as reading all its
    /// data.
    pub fn scan(&mut self) -> Result<Listing, VolumeError> {
        Ok(self.walk()?.listing)
    }

    fn walk(&mut self) -> Result<Walk, VolumeError> {
        let mut walk = Walk::default();
        self.medium.rewind()?;
        loop {
            let position = self.medium.position()?;
            match self.next() {
                Ok(Item::Block(header)) => {
                    let (name, content) = header.split(self.payload());
                    let content_bytes = content.len() as u64;
                    let is_first_of_index = header.kind == BlockKind::Index && header.sequence == 0;
                    walk.take(&header, content_bytes, name);
                    if is_first_of_index {
                        walk.index_begins(position, self.index_session());
                    }
                }
                Ok(Item::Filemark) => {}
                Ok(Item::EndOfData) => {
                    walk.end_part(false);
                    return Ok(walk);
                }
                Err(VolumeError::Damaged { .. }) => walk.damaged(position),
                Err(VolumeError::Medium(MediumError::Damaged { position })) => {
                    walk.damaged(position);
                    // Only tapes can continue after a block that they cannot read, because their
                    // positions count blocks.
                    self.medium.locate(position + 1)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the session of the index whose first block is in the buffer.
    fn index_session(&self) -> Option<u32> {
        const POSITION_AND_VERSION_BYTES: usize = 9;
        let payload = self.payload().get(POSITION_AND_VERSION_BYTES..)?;
        format::Reader::new(payload, "volume index").number().ok()
    }
}

/// State of a read of a whole volume from the front.
#[derive(Default)]
struct Walk {
    listing: Listing,
    tail: Tail,
    open: Option<Part>,
}

impl Walk {
    fn take(&mut self, header: &BlockHeader, content_bytes: u64, name: Option<Name>) {
        self.tail.object_sequence = self.tail.object_sequence.max(header.object_sequence);
        let goes_on = self.open.is_some_and(|part| {
            (part.object, part.object_sequence) == (header.object, header.object_sequence)
                && part.first_sequence + part.block_count == header.sequence
        });
        if !goes_on {
            self.end_part(false);
        }
        if header.kind != BlockKind::Object {
            return;
        }
        if let Some(name) = name {
            self.tail.names.insert(header.object_sequence, name.clone());
            self.listing.names.insert(header.object_sequence, name);
        }
        debug_assert_eq!(header.kind, BlockKind::Object, "parts are of objects");
        let part = self.open.get_or_insert(Part {
            object: header.object,
            object_sequence: header.object_sequence,
            position: header.position,
            block_count: 0,
            first_sequence: header.sequence,
            offset: header.offset,
            bytes: 0,
            is_last: false,
        });
        part.block_count += 1;
        part.bytes += content_bytes;
        if header.is_last {
            self.end_part(true);
        }
    }

    fn end_part(&mut self, is_last: bool) {
        if let Some(part) = self.open.take() {
            let part = Part { is_last, ..part };
            self.listing.parts.push(part);
            self.tail.unindexed.extend(is_last.then_some(part));
        }
    }

    fn index_begins(&mut self, position: u64, session: Option<u32>) {
        self.tail.last_index = Some(position);
        self.tail.session = session.unwrap_or(self.tail.session.saturating_add(1));
        self.tail.unindexed.clear();
        self.tail.names.clear();
    }

    fn damaged(&mut self, position: u64) {
        self.end_part(false);
        self.listing.damaged.push(position);
    }
}
