//! Writing of a volume: objects are appended at its end.
//!
//! ```text
//! open --> begin --> write* --> end --> begin ...   each step may find the volume full
//!            \_________\_________\____________________/
//!                      v
//!                    close   writes filemark, index, filemark; returns the durable parts
//! ```
//!
//! A step that fails with `PositionLost` has been cut off. [`VolumeWriter::resume`] then goes back
//! to the last filemark of the session: what follows it is written again, in its place.

use std::collections::BTreeMap;
use std::io::Read;
use std::mem;

use format::DamageError;
use format::volume::{
    BlockHeader, BlockKind, HEADER_BYTES, Index, Label, ObjectId, Part, VolumeId,
};

use model::Name;

use super::error::VolumeError;
use super::label::read_label;
use super::reader::{Tail, VolumeReader};
use crate::medium::{Medium, MediumError, WriteOutcome};

/// Number of bytes between two filemarks. A crash can lose that many bytes; each filemark costs the
/// time in which the drive empties its buffer.
const GROUP_BYTES_DEFAULT: u64 = 4 << 30;

/// Largest number of the last object of a volume to which objects are appended. It leaves as many
/// numbers for the session.
const OBJECTS_MAX: u32 = 1 << 31;

/// Options for writing a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterOptions {
    /// Number of bytes after which a filemark is written at the next end of an object.
    pub group_bytes: u64,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { group_bytes: GROUP_BYTES_DEFAULT }
    }
}

/// State of the volume after a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    Going,
    /// The volume is full: the caller closes it. [`SessionSummary::continues`] gives the offset
    /// from which the object continues on another volume; the caller writes all bytes after that
    /// offset again.
    Full,
}

/// The point at which an object continues on another volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Continuation {
    pub object: ObjectId,
    /// Offset of the first byte that is on no volume yet.
    pub offset: u64,
    /// Sequence of the next block.
    pub sequence: u64,
}

impl Continuation {
    /// Returns the start of an object.
    pub fn start(object: ObjectId) -> Self {
        Self { object, offset: 0, sequence: 0 }
    }
}

/// The result of a session of a writer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct SessionSummary {
    /// Durable parts that no `sync` has returned before. An object without a returned part has to
    /// be written again.
    pub parts: Vec<Part>,
    pub continues: Option<Continuation>,
    /// True if the index was written. A volume without an index is listed by reading all of it.
    pub is_indexed: bool,
}

/// The point up to which everything of a session is durable.
#[derive(Clone, Copy, Debug)]
struct DurableEnd {
    position: u64,
    object_sequence: u32,
    /// Number of parts in the next index.
    part_count: usize,
}

/// A volume that is being written.
///
/// Invariant: the medium is after the last block written; `block` is empty, or holds room for the
/// header and a part of the payload of the next block.
pub struct VolumeWriter<M: Medium> {
    medium: M,
    label: Label,
    options: WriterOptions,
    session: u32,
    previous_index: Option<u64>,
    object_sequence: u32,
    /// Parts before the last filemark that were not returned to the caller yet.
    durable: Vec<Part>,
    /// Parts after the last filemark.
    pending: Vec<Part>,
    /// All durable parts of the session.
    indexed: Vec<Part>,
    /// Names of the objects of the session, by their sequence on the volume.
    names: BTreeMap<u32, Name>,
    open: Option<Part>,
    block: Vec<u8>,
    /// Length of the name in `block`, in bytes.
    name_bytes: u16,
    group_bytes: u64,
    is_full: bool,
    /// True if the medium may have ended before blocks that it had already accepted.
    is_short: bool,
    durable_end: DurableEnd,
    /// The point at which the object that the medium had no room for continues, once its beginning
    /// is durable.
    continues: Option<Continuation>,
}

impl<M: Medium> VolumeWriter<M> {
    /// Opens the volume with the identity `expected`, and goes to its end.
    ///
    /// If the last writer died, the volume is read from the front first. Whole objects that this
    /// writer had not synced go into the next index.
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
        if object_sequence > OBJECTS_MAX {
            let why = "no more objects can be numbered on it";
            let source = DamageError { what: "volume", why };
            return Err(VolumeError::Damaged { position: 0, source });
        }
        let (mut medium, label) = reader.into_parts();
        medium.locate_end()?;
        let position = medium.position()?;
        let durable_end = DurableEnd { position, object_sequence, part_count: unindexed.len() };
        Ok(Self {
            medium,
            label,
            options,
            session: session.saturating_add(1),
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
            durable_end,
            continues: None,
        })
    }

    /// Makes the volume writable again after [`MediumError::PositionLost`]: checks that it is still
    /// in the drive, and goes back to its last durable end. All objects since then have to be
    /// written again, and replace what had arrived of them.
    ///
    /// Fails with `PositionLost` if the step itself was cut off: the caller calls it again.
    pub fn resume(&mut self) -> Result<(), VolumeError> {
        self.medium.make_ready()?;
        let found = read_label(&mut self.medium)?;
        if found != self.label {
            return Err(VolumeError::Another { found: found.name });
        }
        let DurableEnd { position, object_sequence, part_count } = self.durable_end;
        self.medium.locate(position)?;
        let here = self.medium.position()?;
        if here != position {
            return Err(MediumError::WrongPlace { wanted: position, found: here }.into());
        }
        self.abandon();
        self.pending.clear();
        self.indexed.truncate(part_count);
        self.object_sequence = object_sequence;
        self.group_bytes = 0;
        (self.is_full, self.is_short) = (false, false);
        Ok(())
    }

    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Begins an object, or the rest of an object that began on another volume.
    pub fn begin(&mut self, from: Continuation) -> Result<(), VolumeError> {
        assert!(self.open.is_none(), "one object is open at a time");
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

    /// Begins an object with a name, by which it is found without a catalogue.
    pub fn begin_named(&mut self, from: Continuation, name: &Name) -> Result<(), VolumeError> {
        self.begin(from)?;
        self.name_bytes = u16::try_from(name.as_bytes().len()).expect("names are short");
        self.block.extend_from_slice(name.as_bytes());
        debug_assert!(self.block.len() <= self.label.block_bytes as usize, "a name fits");
        self.names.insert(self.object_sequence, name.clone());
        Ok(())
    }

    fn clear_block(&mut self) {
        self.name_bytes = 0;
        self.block.clear();
        self.block.resize(HEADER_BYTES, 0);
    }

    /// Writes the next bytes of the object.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<Progress, VolumeError> {
        assert!(self.open.is_some(), "an object was begun");
        let block_bytes = self.label.block_bytes as usize;
        while !bytes.is_empty() && !self.is_full {
            // A full block is kept until more bytes arrive, because the last block of an object is
            // marked as such.
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

    /// Writes all bytes of `source`, until the volume is full.
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

    /// Ends the object. `Full` may also mean that the object is whole and nothing more fits.
    pub fn end(&mut self) -> Result<Progress, VolumeError> {
        if self.is_full || !self.put(true)? {
            return Ok(Progress::Full);
        }
        let mut part = self.open.take().expect("an object was begun");
        debug_assert!(part.block_count > 0, "each object has a block");
        part.is_last = true;
        self.pending.push(part);
        if self.group_bytes >= self.options.group_bytes && !self.is_full {
            match self.mark() {
                // The parts are not durable, and `close` does not return them either.
                Ok(()) | Err(VolumeError::Medium(MediumError::EndOfMedium)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.progress())
    }

    /// Abandons the object: its bytes on the volume are ignored.
    pub fn abandon(&mut self) {
        self.open = None;
        self.block.clear();
    }

    fn progress(&self) -> Progress {
        if self.is_full { Progress::Full } else { Progress::Going }
    }

    /// Writes the block that is being filled; returns true if it is on the medium.
    fn put(&mut self, is_last: bool) -> Result<bool, VolumeError> {
        let part = self.open.as_mut().expect("an object was begun");
        let header = BlockHeader {
            kind: BlockKind::Object,
            is_last,
            volume: self.label.volume,
            position: self.medium.position()?,
            object: part.object,
            sequence: part.first_sequence + part.block_count,
            offset: part.end(),
            object_sequence: part.object_sequence,
            name_bytes: self.name_bytes,
        };
        assert!(
            self.block.len() <= self.label.block_bytes as usize,
            "the block fits into the buffer of a reader"
        );
        let content_bytes = self.block.len() - HEADER_BYTES - usize::from(self.name_bytes);
        header.seal(&mut self.block);
        match self.medium.write(&self.block) {
            Ok(WriteOutcome::Whole) => {}
            Ok(WriteOutcome::NearEnd) => self.is_full = true,
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

    /// Makes all whole objects durable, and returns the parts that were not returned before.
    ///
    /// `EndOfMedium` means that the medium has no room for a filemark: these objects have to be
    /// written again on another volume.
    pub fn sync(&mut self) -> Result<Vec<Part>, VolumeError> {
        assert!(self.open.is_none(), "no object is open");
        if !self.pending.is_empty() {
            self.mark()?;
        }
        Ok(mem::take(&mut self.durable))
    }

    fn mark(&mut self) -> Result<(), VolumeError> {
        match self.medium.mark() {
            Ok(WriteOutcome::Whole) => {}
            Ok(WriteOutcome::NearEnd) => self.is_full = true,
            Err(error) => {
                self.is_full = true;
                return Err(error.into());
            }
        }
        debug_assert!(self.pending.iter().all(|part| part.block_count > 0), "parts hold blocks");
        self.group_bytes = 0;
        self.indexed.extend(&self.pending);
        self.durable.append(&mut self.pending);
        self.durable_end = DurableEnd {
            position: self.medium.position()?,
            object_sequence: self.object_sequence,
            part_count: self.indexed.len(),
        };
        Ok(())
    }

    /// Ends the session like [`Self::finish`], and returns the medium too.
    pub fn close(mut self) -> Result<(SessionSummary, M), VolumeError> {
        let summary = self.finish()?;
        Ok((summary, self.medium))
    }

    /// Ends the session: makes everything durable and writes the index.
    ///
    /// An object that is still open continues on another volume. If a volume ends without a
    /// warning, it may have no room for a filemark or an index, and ends without them.
    ///
    /// If it fails with [`MediumError::PositionLost`], the session goes on after [`Self::resume`].
    /// [`Self::sync`] then returns the parts that are durable already. After any other result the
    /// session has ended.
    pub fn finish(&mut self) -> Result<SessionSummary, VolumeError> {
        let open = self.open.take();
        self.pending.extend(open.filter(|part| part.block_count > 0));
        let is_marked = match self.finish_group() {
            Ok(()) => !self.is_short,
            Err(VolumeError::Medium(MediumError::EndOfMedium)) => false,
            Err(error) => return Err(error),
        };
        if let Some(part) = open {
            self.continues = Some(Continuation {
                object: part.object,
                offset: part.offset + if is_marked { part.bytes } else { 0 },
                sequence: part.first_sequence + if is_marked { part.block_count } else { 0 },
            });
        }
        let is_indexed = is_marked && self.write_index()?;
        let (parts, continues) = (mem::take(&mut self.durable), self.continues.take());
        Ok(SessionSummary { parts, continues, is_indexed })
    }

    fn finish_group(&mut self) -> Result<(), VolumeError> {
        if self.pending.is_empty() || self.is_short { Ok(()) } else { self.mark() }
    }

    /// Returns the names of the indexed parts. Abandoned objects, and objects that found no room,
    /// are left out.
    fn names_of_indexed(&self) -> BTreeMap<u32, Name> {
        let named = |part: &Part| {
            let name = self.names.get(&part.object_sequence)?;
            Some((part.object_sequence, name.clone()))
        };
        self.indexed.iter().filter_map(named).collect()
    }

    /// Writes the index; returns false if it has no room. A session that wrote nothing needs no
    /// index.
    fn write_index(&mut self) -> Result<bool, VolumeError> {
        if self.indexed.is_empty() {
            return Ok(true);
        }
        let by_position = |part: &Part| part.position;
        debug_assert!(
            self.indexed.is_sorted_by_key(by_position),
            "parts are in the order of position"
        );
        let index = Index {
            session: self.session,
            previous: self.previous_index,
            names: self.names_of_indexed(),
            // The index is written again if its writing is cut off.
            parts: self.indexed.clone(),
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
        assert!(piece_bytes > 0 && !bytes.is_empty(), "an index takes at least one block");
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
