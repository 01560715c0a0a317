//! Reading a file's content, and noticing that it changed meanwhile.

use std::io;

use model::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Stat};
use policy::{BackupCopyGroup, Serialization};
use sys::{Dir, Found, Segment, SourceFile};

use super::data::{Assembler, ChunkRef};
use super::settled::{NO_CHANGE_TIME, Settled, settled};
use crate::Stream;
use crate::progress::Progress;

/// A file that changes while it is read is read again so often at most (CHANGINGRETRIES).
const CHANGING_RETRIES: u32 = 4;
/// Bytes read at once of larger files.
const READ_BYTES: usize = 4 * CHUNK_BYTES_MAX;

/// A file's content, from offset 0 to its size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Content {
    pub(super) parts: Vec<Part>,
    pub(super) data_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Chunk(ChunkRef),
    Hole {
        bytes: u64,
    },
    /// A chunk that was encrypted, and how many bytes it stands for.
    Sealed {
        chunk: ChunkRef,
        bytes: u32,
    },
}

/// What is wanted of a file that changes while it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fidelity {
    /// One state of the file or nothing.
    Exact,
    /// Whatever comes: parts of several states.
    Fuzzy,
}

/// How often a changing file is tried, and what then: the SERIALIZATION of its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Patience {
    pub(super) retries: u32,
    last: Fidelity,
}

impl Patience {
    /// By the rules of a class; as by default where there are none.
    pub(super) fn of(group: Option<&BackupCopyGroup>) -> Self {
        let (retries, last) = match group.map(|group| group.serialization).unwrap_or_default() {
            Serialization::Static => (0, Fidelity::Exact),
            Serialization::ShrStatic => (CHANGING_RETRIES, Fidelity::Exact),
            Serialization::ShrDynamic => (CHANGING_RETRIES, Fidelity::Fuzzy),
            Serialization::Dynamic => (0, Fidelity::Fuzzy),
        };
        Self { retries, last }
    }

    /// What to ask for after so many tries.
    pub(super) fn fidelity(self, tries: u32) -> Fidelity {
        if tries < self.retries { Fidelity::Exact } else { self.last }
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFailure {
    #[error("it changed while it was read")]
    Changed,
    /// The text of `io::Error` says it all: there is no further source.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

/// What takes a file's chunks: the quanta of a backup, or a comparison that keeps nothing.
pub(super) trait Sink {
    fn chunk(&mut self, chunk: &[u8]);
    fn hole(&mut self, bytes: u64);

    /// Where a chunk of `bytes` may be written right away, which saves copying it; then
    /// [`Self::written`] adds it. `None` where it is to be given to [`Self::chunk`].
    fn room(&mut self, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    /// The room that was given last holds a chunk.
    fn written(&mut self, _bytes: usize) {}
}

/// Collects a content while its chunks go into quanta.
pub(super) struct Collect<'a, 'b> {
    pub(super) assembler: &'a mut Assembler<'b>,
    pub(super) content: Content,
}

impl Sink for Collect<'_, '_> {
    fn chunk(&mut self, chunk: &[u8]) {
        let part = match self.assembler.sealed(chunk) {
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

    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        (!self.assembler.encrypts()).then(|| self.assembler.room(bytes))
    }

    fn written(&mut self, bytes: usize) {
        self.content.parts.push(Part::Chunk(self.assembler.written(bytes)));
        self.content.data_bytes += bytes as u64;
    }
}

/// Reads files with one buffer.
pub(super) struct FileReader {
    buffer: Vec<u8>,
    /// Whether files are read from a reflink, which nobody changes.
    pub(super) reflinks: bool,
}

impl FileReader {
    pub(super) fn new() -> Self {
        Self { buffer: Vec::new(), reflinks: false }
    }

    /// Reads the file `name` of `directory` into `sink` as it is now; tells what it is.
    ///
    /// Fails with `Changed` when the file was not the same before and after: then what `sink` got
    /// is no state of the file. Where what is wanted is fuzzy, the stat returned has instead the
    /// size of what was read, and says that the file is to be looked at again. `seen` is what the
    /// walk saw of it; it saves asking, and a file that has changed since then counts as changed
    /// while it was read.
    pub(super) fn read(
        &mut self,
        directory: &Dir,
        name: &[u8],
        seen: Option<&Found>,
        fidelity: Fidelity,
        sink: &mut impl Sink,
    ) -> Result<(SourceFile, Found), ReadFailure> {
        let (file, mut before) = match seen {
            Some(seen) => (directory.open_seen_file(name)?, *seen),
            None => {
                let file = directory.open_file(name)?;
                let before = file.stat()?;
                (file, before)
            }
        };
        if let Settled::In(wait) = settled(&before.stat, sys::clock::now()) {
            sys::clock::sleep(wait);
            before = file.stat()?;
        }
        let is_settled = settled(&before.stat, sys::clock::now()) == Settled::Yes;
        // One that cannot be made is no failure: the file is read as it is.
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

    /// Returns how much of it there was.
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
            // So little is one chunk in any case.
            let got = read_up_to(file, room, start)?;
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
        // Bytes in the buffer that have not been cut yet.
        let mut held = 0;
        while offset < end || held > 0 {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let wanted = left.min(room - held);
            let got = read_up_to(file, &mut self.buffer[held..held + wanted], offset)?;
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

/// Reads `stream` into `sink` to its end, or until the backup is stopped.
pub(super) fn read_stream(
    stream: &mut dyn Stream,
    progress: &Progress,
    sink: &mut impl Sink,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let (mut held, mut is_end) = (0, false);
    while !is_end || held > 0 {
        while !is_end && held < buffer.len() {
            match stream.read(&mut buffer[held..]) {
                Ok(0) => is_end = true,
                Ok(bytes) => held += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            // Behind the reading: what ends the backup may have ended the stream too.
            if progress.is_stopped() {
                return Err(io::Error::other("the backup was stopped"));
            }
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

/// Fills `buffer` as far as the file goes.
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
mod tests {
    use super::*;

    #[derive(Default)]
    struct Whole(Vec<u8>, Vec<u64>);

    impl Sink for Whole {
        fn chunk(&mut self, chunk: &[u8]) {
            self.0.extend_from_slice(chunk);
        }

        fn hole(&mut self, bytes: u64) {
            self.1.push(bytes);
        }
    }

    #[test]
    fn files_of_all_sizes_come_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut reader = FileReader::new();
        let sizes = [0, 1, CHUNK_BYTES_MIN, CHUNK_BYTES_MIN + 1, READ_BYTES, READ_BYTES * 2 + 7];
        for size in sizes {
            let mut content = vec![0; size];
            blake3::Hasher::new().finalize_xof().fill(&mut content);
            std::fs::write(folder.path().join("f"), &content).expect("written");
            let dir = Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("a folder");
            let mut whole = Whole::default();
            reader.read(&dir, b"f", None, Fidelity::Exact, &mut whole).expect("read");
            assert!(whole.0 == content, "{size} bytes");
            assert!(whole.1.is_empty());
        }
    }

    #[test]
    fn a_file_that_is_not_there_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("a folder");
        let read =
            FileReader::new().read(&dir, b"none", None, Fidelity::Exact, &mut Whole::default());
        assert!(matches!(read, Err(ReadFailure::Failed(_))));
    }
}
