//! Reading of a file's content, with a check that the file did not change meanwhile.

use std::io;
use std::time::Duration;

use chunk::ContentHasher;
use model::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Stat};
use policy::{BackupCopyGroup, Serialization};
use sys::{Dir, ObjectStatus, Segment, SourceFile};

use super::assembler::Assembler;
use super::chunks::ChunkRef;
use super::clock_step::{ClockStep, NO_CHANGE_TIME, clock_step};
use crate::error::ClientError;
use crate::options::Stream;
use crate::stages::timed;

/// Maximum number of times that a file is read again because it changed (CHANGINGRETRIES).
const CHANGING_RETRIES: u32 = 4;
/// Maximum number of bytes that are read at once.
const READ_BYTES: usize = 4 * CHUNK_BYTES_MAX;

/// Content of a file, from offset 0 to its size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Content {
    pub(super) parts: Vec<Part>,
    pub(super) data_bytes: u64,
}

impl Content {
    /// Adds the content that follows. Two holes that touch each other become one.
    pub(super) fn append(&mut self, next: Self) {
        let mut parts = next.parts;
        if let (Some(Part::Hole { bytes }), Some(Part::Hole { bytes: further })) =
            (self.parts.last_mut(), parts.first())
        {
            *bytes += further;
            parts.remove(0);
        }
        self.parts.append(&mut parts);
        self.data_bytes += next.data_bytes;
    }

    /// Returns the digest of the content, computed as the server does.
    pub(super) fn digest(&self) -> [u8; 16] {
        let mut hasher = ContentHasher::new();
        for part in &self.parts {
            match part {
                Part::Chunk(chunk) | Part::Sealed { chunk, .. } => hasher.chunk(&chunk.digest),
                Part::Hole { bytes } => hasher.hole(*bytes),
            }
        }
        hasher.finish()
    }
}

/// Part of a content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Chunk(ChunkRef),
    Hole {
        bytes: u64,
    },
    /// Encrypted chunk, and the number of bytes in the file that it holds.
    Sealed {
        chunk: ChunkRef,
        bytes: u32,
    },
}

/// Demand on the content of a file that changes while it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fidelity {
    /// The content must be one state of the file.
    Exact,
    /// The content may be a mixture of several states.
    Fuzzy,
}

/// Rule for the attempts to read a changing file, by the SERIALIZATION of its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Patience {
    pub(super) retries: u32,
    /// Demand on the content of the last attempt.
    last: Fidelity,
}

impl Patience {
    /// Returns the patience of a copy group, or the default if there is none.
    pub(super) fn of(group: Option<&BackupCopyGroup>) -> Self {
        let (retries, last) = match group.map(|group| group.serialization).unwrap_or_default() {
            Serialization::Static => (0, Fidelity::Exact),
            Serialization::ShrStatic => (CHANGING_RETRIES, Fidelity::Exact),
            Serialization::ShrDynamic => (CHANGING_RETRIES, Fidelity::Fuzzy),
            Serialization::Dynamic => (0, Fidelity::Fuzzy),
        };
        Self { retries, last }
    }

    /// Returns the demand on the next attempt after `tries` attempts.
    pub(super) fn fidelity(self, tries: u32) -> Fidelity {
        if tries < self.retries { Fidelity::Exact } else { self.last }
    }
}

/// Reason why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFailure {
    /// The caller reads the file again, up to a maximum number of attempts.
    #[error("the file changed while it was read")]
    Changed,
    /// The caller counts the file as failed.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

/// Receiver of a file's chunks: the quanta of a backup, or a comparison that keeps nothing.
pub(super) trait Sink {
    fn chunk(&mut self, chunk: &[u8]);
    fn hole(&mut self, bytes: u64);

    /// Returns true if nobody wants the rest of the file any more.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns room for a chunk of `bytes` bytes, which saves a copy. The caller writes the chunk
    /// there and then calls [`Self::written`]. Returns `None` if the caller must use
    /// [`Self::chunk`] instead.
    fn room(&mut self, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    /// Adds the chunk that was written into the last room.
    fn written(&mut self, _bytes: usize) {}
}

/// Sink that adds the chunks of a file to quanta and collects references to them.
pub(super) struct ChunkCollector<'a, 'b> {
    pub(super) assembler: &'a mut Assembler<'b>,
    pub(super) content: Content,
}

impl Sink for ChunkCollector<'_, '_> {
    fn chunk(&mut self, chunk: &[u8]) {
        let part = match self.assembler.seal(chunk) {
            Some(sealed) => {
                let bytes = u32::try_from(chunk.len()).expect("at most 1 MiB");
                Part::Sealed { chunk: self.assembler.add(&sealed), bytes }
            }
            None => Part::Chunk(self.assembler.add(chunk)),
        };
        self.content.parts.push(part);
        self.content.data_bytes += chunk.len() as u64;
    }

    fn hole(&mut self, bytes: u64) {
        self.content.parts.push(Part::Hole { bytes });
    }

    fn has_ended(&self) -> bool {
        self.assembler.is_stopped()
    }

    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        (!self.assembler.encrypts()).then(|| self.assembler.room(bytes))
    }

    fn written(&mut self, bytes: usize) {
        self.content.parts.push(Part::Chunk(self.assembler.take_written(bytes)));
        self.content.data_bytes += bytes as u64;
    }
}

/// Reader of files, with one buffer for all files.
pub(super) struct FileReader {
    buffer: Vec<u8>,
    /// True if files are read from a reflink, which nobody changes.
    pub(super) reflinks: bool,
    /// Time of opening and reading, without the time of the sinks.
    pub(super) time: Duration,
}

impl FileReader {
    pub(super) fn new() -> Self {
        Self { buffer: Vec::new(), reflinks: false, time: Duration::ZERO }
    }

    /// Reads the file `name` of `directory` into `sink`, and returns its stat.
    ///
    /// Fails with `Changed` if the file changed during the read. The content in `sink` is then not
    /// a state of the file. With [`Fidelity::Fuzzy`] such a read succeeds: the stat has the size of
    /// the data that was read, and no change time, so that the next backup examines the file again.
    /// `seen` is the stat of the walk. It saves a system call. A file that has changed since the
    /// walk counts as changed.
    pub(super) fn read(
        &mut self,
        directory: &Dir,
        name: &[u8],
        seen: Option<&ObjectStatus>,
        fidelity: Fidelity,
        sink: &mut impl Sink,
    ) -> Result<(SourceFile, ObjectStatus), ReadFailure> {
        let (file, mut before) = timed(&mut self.time, || match seen {
            Some(seen) => Ok((directory.open_seen_file(name)?, *seen)),
            None => {
                let file = directory.open_file(name)?;
                let before = file.stat()?;
                Ok::<_, io::Error>((file, before))
            }
        })?;
        if let ClockStep::PassesIn(wait) = clock_step(&before.stat, sys::clock::now()) {
            sys::clock::sleep(wait);
            before = file.stat()?;
        }
        let is_settled = clock_step(&before.stat, sys::clock::now()) == ClockStep::Passed;
        // If no reflink can be made, the file itself is read.
        let reflink = self.reflinks.then(|| file.reflinked(directory).ok()).flatten();
        let frozen_at = reflink.as_ref().map(|_| file.stat()).transpose()?;
        let source = reflink.as_ref().unwrap_or(&file);
        let size = before.stat.size;
        let is_sparse = before.allocated_bytes < size;
        if size > READ_BYTES as u64 {
            source.advise_sequential();
        }
        let segments = if is_sparse && size > 0 {
            source.segments(size)?
        } else {
            vec![Segment::Data { offset: 0, bytes: size }]
        };
        let mut read = 0;
        for segment in segments {
            let (wanted, got) = match segment {
                Segment::Hole { bytes, .. } => {
                    sink.hole(bytes);
                    (bytes, bytes)
                }
                Segment::Data { offset, bytes } => {
                    (bytes, self.read_data(source, offset, bytes, sink)?)
                }
            };
            read += got;
            if got < wanted {
                break;
            }
        }
        assert!(read <= size, "no more is read than the segments hold");
        let mut after = match frozen_at {
            Some(found) => found,
            None => file.stat()?,
        };
        if read < size || has_changed(&before.stat, &after.stat) {
            if fidelity == Fidelity::Exact {
                return Err(ReadFailure::Changed);
            }
            after.stat.size = read;
            after.stat.ctime = NO_CHANGE_TIME;
        }
        if !is_settled {
            after.stat.ctime = NO_CHANGE_TIME;
        }
        Ok((file, after))
    }

    /// Reads `bytes` bytes from the offset `start` into `sink`, or up to the end of the file.
    /// Returns the number of bytes that were read.
    fn read_data(
        &mut self,
        file: &SourceFile,
        start: u64,
        bytes: u64,
        sink: &mut impl Sink,
    ) -> io::Result<u64> {
        if let Ok(bytes) = usize::try_from(bytes)
            && (1..=CHUNK_BYTES_MIN).contains(&bytes)
            && let Some(room) = sink.room(bytes)
        {
            // A range of this length is always one chunk.
            let got = timed(&mut self.time, || read_up_to(file, room, start))?;
            if got > 0 {
                sink.written(got);
            }
            return Ok(got as u64);
        }
        let mut offset = start;
        let mut end = start + bytes;
        let room = usize::try_from(bytes).unwrap_or(READ_BYTES).min(READ_BYTES);
        if self.buffer.len() < room {
            self.buffer.resize(room.max(CHUNK_BYTES_MIN), 0);
        }
        // Number of bytes in the buffer that have not been cut yet.
        let mut held = 0;
        while offset < end || held > 0 {
            if sink.has_ended() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let wanted = left.min(room - held);
            assert!(wanted > 0 || offset == end, "a full buffer has a chunk to cut");
            let buffer = &mut self.buffer[held..held + wanted];
            let got = timed(&mut self.time, || read_up_to(file, buffer, offset))?;
            offset += got as u64;
            held += got;
            if got < wanted {
                end = offset;
            }
            let mut cut = 0;
            while let Some(length) = chunk::cut(&self.buffer[cut..held], offset == end) {
                sink.chunk(&self.buffer[cut..cut + length]);
                cut += length;
            }
            self.buffer.copy_within(cut..held, 0);
            held -= cut;
        }
        Ok(end - start)
    }
}

/// Reads `stream` into `sink` up to its end, and adds the time of the reads to `time`. Fails when
/// `check` fails, which is called after each read.
pub(super) fn read_stream(
    stream: &mut dyn Stream,
    check: &dyn Fn() -> Result<(), ClientError>,
    sink: &mut impl Sink,
    time: &mut Duration,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let (mut held, mut is_end) = (0, false);
    while !is_end || held > 0 {
        while !is_end && held < buffer.len() {
            match timed(time, || stream.read(&mut buffer[held..])) {
                Ok(0) => is_end = true,
                Ok(bytes) => held += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            // This check follows the read, because the signal that stops the backup may have ended
            // the stream too.
            check().map_err(io::Error::other)?;
        }
        let mut cut = 0;
        while let Some(length) = chunk::cut(&buffer[cut..held], is_end) {
            sink.chunk(&buffer[cut..cut + length]);
            cut += length;
        }
        buffer.copy_within(cut..held, 0);
        held -= cut;
    }
    Ok(())
}

/// Fills `buffer`, or reads up to the end of the file. Returns the number of bytes.
fn read_up_to(file: &SourceFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn has_changed(before: &Stat, after: &Stat) -> bool {
    (before.kind, before.inode) != (after.kind, after.inode)
        || (before.size, before.mtime, before.ctime) != (after.size, after.mtime, after.ctime)
}

#[cfg(test)]
mod tests;
