//! Filling one stub with a part of its content.
//!
//! What is written is looked for by its holes when a worker dies: a block that is there counts as
//! written. So blocks are written whole or not at all: chunks do not end where blocks do, and the
//! pieces of a block are kept until it is complete.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use client::{Client, ErrorKind, Filling, Progress, Purpose};
use format::stub::Stub;
use rustix::io::Errno;
use sys::space::SpaceFile;

/// Why content did not come.
#[derive(Debug)]
pub(crate) struct FillError {
    /// What whoever waits for it is told.
    pub(crate) errno: Errno,
    pub(crate) reason: String,
}

/// What became of the copy.
enum Outcome {
    /// The server has not said anything of it.
    Unknown,
    Complete,
    Lost(String),
}

/// No file system of those that are managed has larger blocks.
const UNIT_BYTES: u64 = 64 << 10;

/// Pieces of one unit of the file, in no order.
type Pieces = Vec<(u64, Vec<u8>)>;

struct OneFile<'a> {
    file: &'a SpaceFile,
    index: u16,
    /// Where nothing has been written since the content was taken away.
    holes: Vec<Range<u64>>,
    /// What is to be filled.
    range: Range<u64>,
    /// By the offsets of their units.
    kept: Mutex<HashMap<u64, Pieces>>,
    /// Held from when the file's time is looked at until it is set again: contents come on several
    /// threads, and one would take the other's moment of writing for the file's time.
    writing: Mutex<()>,
    progress: &'a Progress,
    failure: Mutex<Option<Errno>>,
    outcome: Mutex<Outcome>,
}

impl OneFile<'_> {
    fn conclude(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    }

    /// Writes the whole units of `content`, and keeps the rest until what belongs to it has come.
    fn write_units(&self, content: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + content.len() as u64;
        let is_end = |at: u64| at == self.range.end;
        let first = offset.next_multiple_of(UNIT_BYTES).min(end);
        let last = if is_end(end) { end } else { (end - end % UNIT_BYTES).max(first) };
        let part = |from: u64, to: u64| &content[within(offset, from)..within(offset, to)];
        if first > offset {
            self.keep(part(offset, first), offset)?;
        }
        if last > first {
            self.write_holes(part(first, last), first)?;
        }
        if end > last {
            self.keep(part(last, end), last)?;
        }
        Ok(())
    }

    /// Keeps a piece of one unit; writes the unit if that completes it.
    fn keep(&self, piece: &[u8], offset: u64) -> io::Result<()> {
        let unit = offset - offset % UNIT_BYTES;
        let unit_bytes = (unit + UNIT_BYTES).min(self.range.end) - unit;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces = kept.entry(unit).or_default();
        pieces.push((offset, piece.to_vec()));
        let bytes: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
        if (bytes as u64) < unit_bytes {
            return Ok(());
        }
        let mut pieces = kept.remove(&unit).expect("just added to");
        drop(kept);
        pieces.sort_unstable();
        let pieces: Vec<Vec<u8>> = pieces.into_iter().map(|(_, piece)| piece).collect();
        let whole = pieces.concat();
        self.write_holes(&whole, unit)
    }

    /// Writes the units that were holes in part: what has not come of them is zeros.
    fn write_kept(&self) -> io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for pieces in kept.drain().map(|(_, pieces)| pieces) {
            for (offset, piece) in pieces {
                self.write_holes(&piece, offset)?;
            }
        }
        Ok(())
    }

    fn write_holes(&self, content: &[u8], offset: u64) -> io::Result<()> {
        self.holes.iter().try_for_each(|hole| self.write_into(hole, content, offset))
    }

    fn note(&self, error: &io::Error) {
        let errno = Errno::from_io_error(error);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = errno;
    }

    /// Writes what of `content` belongs into `hole`.
    fn write_into(&self, hole: &Range<u64>, content: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + content.len() as u64;
        let (from, to) = (hole.start.max(offset), hole.end.min(end));
        if from >= to {
            return Ok(());
        }
        let _held = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // The file may have been cut meanwhile: it must not grow again.
        let before = self.file.stat()?.stat;
        let to = to.min(before.size);
        if from >= to {
            return Ok(());
        }
        let written = self.file.write_at(&content[within(offset, from)..within(offset, to)], from);
        self.file.set_times(None, before.mtime)?;
        if written.is_err() {
            // A write that fails half way leaves blocks of zeros in a hole. Blocks are whole here,
            // but for the last one of the file.
            let is_end = to == before.size;
            let end = if is_end { to.next_multiple_of(UNIT_BYTES) } else { to };
            self.file.punch_part(&(from..end))?;
        }
        written
    }
}

fn within(offset: u64, at: u64) -> usize {
    usize::try_from(at - offset).expect("within what came")
}

impl Filling for OneFile<'_> {
    fn wants(&self, index: u16) -> bool {
        index == self.index
    }

    fn write(&self, _: u16, content: &[u8], offset: u64) -> Result<(), String> {
        if let Err(error) = self.write_units(content, offset) {
            self.note(&error);
            return Err(error.to_string());
        }
        self.progress.bytes.fetch_add(content.len() as u64, Relaxed);
        Ok(())
    }

    fn complete(&self, _: u16) {
        self.conclude(match self.write_kept() {
            Ok(()) => Outcome::Complete,
            Err(error) => {
                self.note(&error);
                Outcome::Lost(error.to_string())
            }
        });
    }

    fn lose(&self, _: u16, reason: &str) {
        self.conclude(Outcome::Lost(reason.to_owned()));
    }
}

/// Fetches `range` of the content of `file`, whose record is `stub`, and writes it where there is
/// still a hole. The file's times stay. `progress` counts the bytes, and stops it.
pub(crate) fn fill(
    client: &Client,
    mount_point: &[u8],
    (file, stub): (&SpaceFile, &Stub),
    (range, purpose): (&Range<u64>, Purpose),
    progress: &Arc<Progress>,
) -> Result<(), FillError> {
    let failed = |error: io::Error| FillError {
        errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        reason: error.to_string(),
    };
    let before = file.stat().map_err(failed)?.stat;
    let range = range.start..range.end.min(before.size);
    if range.is_empty() {
        return Ok(());
    }
    let filling = OneFile {
        file,
        index: stub.copy.index,
        holes: file.holes(range.clone()).map_err(failed)?,
        range: range.clone(),
        kept: Mutex::default(),
        writing: Mutex::default(),
        progress,
        failure: Mutex::new(None),
        outcome: Mutex::new(Outcome::Unknown),
    };
    let copies = (stub.copy.batch, Some(stub.copy.index));
    let part = (range, purpose);
    let fetch = || Ok(client.recall(mount_point, copies, part, (progress, &filling)));
    let fetched = file.keeping_capabilities(fetch).map_err(failed)?;
    let failure = *filling.failure.lock().unwrap_or_else(PoisonError::into_inner);
    fetched.map_err(|error| {
        let errno = if error.kind == ErrorKind::Retry { Errno::AGAIN } else { Errno::IO };
        FillError { errno, reason: error.message }
    })?;
    match filling.outcome.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Outcome::Complete => Ok(()),
        Outcome::Lost(reason) => {
            let full = failure.filter(|errno| matches!(*errno, Errno::NOSPC | Errno::DQUOT));
            Err(FillError { errno: full.unwrap_or(Errno::IO), reason })
        }
        Outcome::Unknown => {
            let reason = "the server does not have it".to_owned();
            Err(FillError { errno: Errno::IO, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use model::Timestamp;
    use sys::Dir;

    use super::*;

    #[test]
    fn contents_that_come_on_several_threads_leave_the_file_its_time() {
        const BYTES: u64 = 512 * UNIT_BYTES;
        static CONTENT: [u8; 64 << 10] = [1; 64 << 10];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::File::create(&path).unwrap().set_len(BYTES).unwrap();
        let dir = Dir::open(folder.path().as_os_str().as_bytes()).unwrap();
        let file = SpaceFile::open(&dir, b"file").unwrap();
        let time = Timestamp { secs: 1_000_000_000, nanos: 7 };
        file.set_times(None, time).unwrap();
        let filling = OneFile {
            file: &file,
            index: 0,
            holes: file.holes(0..BYTES).unwrap(),
            range: 0..BYTES,
            kept: Mutex::default(),
            writing: Mutex::default(),
            progress: &Progress::default(),
            failure: Mutex::new(None),
            outcome: Mutex::new(Outcome::Unknown),
        };
        std::thread::scope(|scope| {
            for first in 0..4 {
                let filling = &filling;
                scope.spawn(move || {
                    for unit in (first..BYTES / UNIT_BYTES).step_by(4) {
                        filling.write(0, &CONTENT, unit * UNIT_BYTES).unwrap();
                    }
                });
            }
        });
        assert_eq!(file.stat().unwrap().stat.mtime, time);
        assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 1));
    }
}
