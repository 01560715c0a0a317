//! Appending objects to a volume.
//!
//! ```text
//! open --> begin --> write* --> end --> begin ...   Full at any time
//!            \_________\_________\____________________/
//!                      v
//!                    close   filemark, index, filemark; says what is durable and what goes on
//! ```

use std::collections::BTreeMap;
use std::io::Read;
use std::mem;

use format::volume::{
    BlockHeader, BlockKind, HEADER_BYTES, Index, Label, ObjectId, Part, VolumeId,
};

use model::Name;

use super::reader::{Tail, VolumeReader};
use super::{MediumError, VolumeError};
use crate::medium::{Medium, Written};

/// Of how much can be lost in a crash, and how many filemarks there are: each costs a drive the
/// time to empty its buffer.
const GROUP_BYTES_DEFAULT: u64 = 4 << 30;

/// How a volume is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterOptions {
    /// A filemark comes behind the object with which so many bytes have been written.
    pub group_bytes: u64,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { group_bytes: GROUP_BYTES_DEFAULT }
    }
}

/// Whether more can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    Going,
    /// Close the volume. [`Closed::continues`] says from where the object goes on elsewhere, which
    /// may be before what was handed over last.
    Full,
}

/// Where an object goes on, on another volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Continuation {
    pub object: ObjectId,
    /// The first byte that is not on any volume yet.
    pub offset: u64,
    /// Of the next block.
    pub sequence: u64,
}

impl Continuation {
    /// An object from its start.
    pub fn start(object: ObjectId) -> Self {
        Self { object, offset: 0, sequence: 0 }
    }
}

/// What a closed volume holds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Closed {
    /// Those that no `sync` has returned before. Objects that are missing have to be written again.
    pub parts: Vec<Part>,
    pub continues: Option<Continuation>,
    /// Whether the index was written. Without it the volume is listed by reading all of it.
    pub is_indexed: bool,
}

/// A volume that is being written.
///
/// Invariant: the medium stands behind the last block written; `block` is empty, or holds room for
/// the header and a part of the payload of the next block.
pub struct VolumeWriter<M: Medium> {
    medium: M,
    label: Label,
    options: WriterOptions,
    session: u32,
    previous_index: Option<u64>,
    object_sequence: u32,
    /// Parts in front of the last filemark that nobody was told of.
    durable: Vec<Part>,
    /// Parts behind it.
    pending: Vec<Part>,
    /// All durable parts of the session.
    indexed: Vec<Part>,
    /// Names of the objects of the session, by their sequence on the volume.
    names: BTreeMap<u32, Name>,
    open: Option<Part>,
    block: Vec<u8>,
    /// Of the name in `block`.
    name_bytes: u16,
    group_bytes: u64,
    is_full: bool,
    /// The medium has ended in front of blocks that it had taken, or may have.
    is_short: bool,
}

impl<M: Medium> VolumeWriter<M> {
    /// Goes to the end of the volume, which must be `expected`.
    ///
    /// A volume whose last writer died is read from the front first; what it had not synced and is
    /// whole goes into the next index.
    pub fn open(
        mut medium: M,
        expected: VolumeId,
        options: WriterOptions,
    ) -> Result<Self, VolumeError> {
        if medium.is_write_protected()? {
            return Err(MediumError::WriteProtected.into());
        }
        let mut reader = VolumeReader::open(medium, Some(expected))?;
        let tail = reader.tail()?;
        let Tail { session, last_index, object_sequence, unindexed, names } = tail;
        let (mut medium, label) = reader.into_parts();
        medium.locate_end()?;
        Ok(Self {
            medium,
            label,
            options,
            session: session + 1,
            previous_index: last_index,
            object_sequence,
            durable: Vec::new(),
            pending: Vec::new(),
            indexed: unindexed,
            names,
            open: None,
            block: Vec::new(),
            name_bytes: 0,
            group_bytes: 0,
            is_full: false,
            is_short: false,
        })
    }

    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Begins an object, or what is left of it.
    pub fn begin(&mut self, from: Continuation) -> Result<(), VolumeError> {
        assert!(self.open.is_none(), "one object at a time");
        assert!(!self.is_full, "a full volume is closed");
        self.object_sequence += 1;
        self.open = Some(Part {
            object: from.object,
            object_sequence: self.object_sequence,
            position: self.medium.position()?,
            block_count: 0,
            first_sequence: from.sequence,
            offset: from.offset,
            bytes: 0,
            is_last: false,
        });
        self.clear_block();
        Ok(())
    }

    /// Begins an object that has a name, by which it is found without a catalogue.
    pub fn begin_named(&mut self, from: Continuation, name: &Name) -> Result<(), VolumeError> {
        self.begin(from)?;
        self.name_bytes = u16::try_from(name.as_bytes().len()).expect("names are short");
        self.block.extend_from_slice(name.as_bytes());
        self.names.insert(self.object_sequence, name.clone());
        Ok(())
    }

    fn clear_block(&mut self) {
        self.name_bytes = 0;
        self.block.clear();
        self.block.resize(HEADER_BYTES, 0);
    }

    /// Hands over the next bytes of the object.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<Progress, VolumeError> {
        assert!(self.open.is_some(), "an object was begun");
        let block_bytes = self.label.block_bytes as usize;
        while !bytes.is_empty() && !self.is_full {
            // A full block waits for more, because the last one of an object says so.
            if self.block.len() == block_bytes {
                self.put(false)?;
                continue;
            }
            let taken = bytes.len().min(block_bytes - self.block.len());
            self.block.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
        }
        Ok(self.progress())
    }

    /// Hands over all that `source` has.
    pub fn write_all_of(&mut self, source: &mut dyn Read) -> Result<Progress, VolumeError> {
        let mut piece = vec![0; 256 << 10];
        while !self.is_full {
            match source.read(&mut piece) {
                Ok(0) => return Ok(Progress::Going),
                Ok(count) => {
                    if self.write(&piece[..count])? == Progress::Full {
                        break;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(VolumeError::Handover(error)),
            }
        }
        Ok(Progress::Full)
    }

    /// Ends the object. `Full` may also mean that it is whole and nothing more fits.
    pub fn end(&mut self) -> Result<Progress, VolumeError> {
        if self.is_full || !self.put(true)? {
            return Ok(Progress::Full);
        }
        let mut part = self.open.take().expect("an object was begun");
        part.is_last = true;
        self.pending.push(part);
        if self.group_bytes >= self.options.group_bytes && !self.is_full {
            match self.mark() {
                // What is not durable is not returned by `close` either.
                Ok(()) | Err(VolumeError::Medium(MediumError::EndOfMedium)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.progress())
    }

    /// Gives the object up: what of it is on the volume is not looked at again.
    pub fn abandon(&mut self) {
        self.open = None;
        self.block.clear();
    }

    fn progress(&self) -> Progress {
        if self.is_full { Progress::Full } else { Progress::Going }
    }

    /// Writes the block that is being filled; returns whether it is on the medium.
    fn put(&mut self, is_last: bool) -> Result<bool, VolumeError> {
        let part = self.open.as_mut().expect("an object was begun");
        let header = BlockHeader {
            kind: BlockKind::Object,
            is_last,
            volume: self.label.volume,
            position: self.medium.position()?,
            object: part.object,
            sequence: part.first_sequence + part.block_count,
            offset: part.offset + part.bytes,
            object_sequence: part.object_sequence,
            name_bytes: self.name_bytes,
        };
        let content_bytes = self.block.len() - HEADER_BYTES - usize::from(self.name_bytes);
        header.seal(&mut self.block);
        match self.medium.write(&self.block) {
            Ok(Written::Whole) => {}
            Ok(Written::NearEnd) => self.is_full = true,
            Err(MediumError::EndOfMedium) => {
                self.is_full = true;
                let here = self.medium.position();
                self.is_short = !matches!(here, Ok(here) if here == header.position);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        part.block_count += 1;
        part.bytes += content_bytes as u64;
        self.group_bytes += self.block.len() as u64;
        self.clear_block();
        Ok(true)
    }

    /// Makes all whole objects durable, and returns those that were not returned before.
    ///
    /// `EndOfMedium` means that the medium has no room for that: those objects have to be written
    /// again, elsewhere.
    pub fn sync(&mut self) -> Result<Vec<Part>, VolumeError> {
        assert!(self.open.is_none(), "no object is open");
        if !self.pending.is_empty() {
            self.mark()?;
        }
        Ok(mem::take(&mut self.durable))
    }

    fn mark(&mut self) -> Result<(), VolumeError> {
        match self.medium.mark() {
            Ok(Written::Whole) => {}
            Ok(Written::NearEnd) => self.is_full = true,
            Err(error) => {
                self.is_full = true;
                return Err(error.into());
            }
        }
        self.group_bytes = 0;
        self.indexed.extend(&self.pending);
        self.durable.append(&mut self.pending);
        Ok(())
    }

    /// Ends the session: makes everything durable and writes the index.
    ///
    /// An object that is open is continued elsewhere. On a volume that ends without warning there
    /// may be no room for a filemark or an index: then the volume is what it is without them.
    pub fn close(mut self) -> Result<(Closed, M), VolumeError> {
        let open = self.open.take();
        self.pending.extend(open.filter(|part| part.block_count > 0));
        let is_marked = match self.finish_group() {
            Ok(()) => !self.is_short,
            Err(VolumeError::Medium(MediumError::EndOfMedium)) => false,
            Err(error) => return Err(error),
        };
        let continues = open.map(|part| Continuation {
            object: part.object,
            offset: part.offset + if is_marked { part.bytes } else { 0 },
            sequence: part.first_sequence + if is_marked { part.block_count } else { 0 },
        });
        let is_indexed = is_marked && self.write_index()?;
        Ok((Closed { parts: self.durable, continues, is_indexed }, self.medium))
    }

    fn finish_group(&mut self) -> Result<(), VolumeError> {
        if self.pending.is_empty() || self.is_short { Ok(()) } else { self.mark() }
    }

    /// Objects that were given up, or of which no block found room, need no name.
    fn names_of_indexed(&mut self) -> BTreeMap<u32, Name> {
        let named = |part: &Part| self.names.remove_entry(&part.object_sequence);
        self.indexed.iter().filter_map(named).collect()
    }

    /// Returns whether the index found room. A session that wrote nothing needs none.
    fn write_index(&mut self) -> Result<bool, VolumeError> {
        if self.indexed.is_empty() {
            return Ok(true);
        }
        let index = Index {
            session: self.session,
            previous: self.previous_index,
            names: self.names_of_indexed(),
            parts: mem::take(&mut self.indexed),
        };
        match self.put_index(&index.encode()) {
            Ok(()) => Ok(true),
            Err(MediumError::EndOfMedium) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn put_index(&mut self, bytes: &[u8]) -> Result<(), MediumError> {
        const POSITION_BYTES: usize = 8;
        let first = self.medium.position()?;
        let piece_bytes = self.label.block_bytes as usize - HEADER_BYTES - POSITION_BYTES;
        let pieces = bytes.chunks(piece_bytes);
        let piece_count = pieces.len() as u64;
        for (sequence, piece) in (0..).zip(pieces) {
            let mut block = vec![0; HEADER_BYTES];
            block.extend(first.to_le_bytes());
            block.extend(piece);
            let header = BlockHeader {
                kind: BlockKind::Index,
                is_last: sequence + 1 == piece_count,
                volume: self.label.volume,
                position: self.medium.position()?,
                object: ObjectId([0; 16]),
                sequence,
                offset: 0,
                object_sequence: self.object_sequence,
                name_bytes: 0,
            };
            header.seal(&mut block);
            let _near_end = self.medium.write(&block)?;
        }
        self.medium.mark().map(drop)
    }
}
