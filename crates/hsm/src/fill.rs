//! Filling a part of one stub with its content.
//!
//! After a worker has died, the holes of a stub show the next worker which content is missing: a
//! block that takes space counts as written. So every block is written as a whole or not at all.
//! Chunks do not end where blocks end; the pieces of a block wait in memory until the block is
//! complete.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use client::{
    Client, ClientError, ErrorKind, FileFiller, OwnWait, Progress, Purpose, RecallRequest,
};
use format::stub::Stub;
use rustix::io::Errno;
use sys::lock::Mutex;
use sys::space::SpaceFile;

use crate::questions::Refusal;

/// A part of a stub that is to be filled, with the purpose of the recall.
pub(crate) struct Part<'a> {
    pub(crate) mount_point: &'a [u8],
    pub(crate) file: &'a SpaceFile,
    /// The record of the file.
    pub(crate) stub: &'a Stub,
    pub(crate) range: Range<u64>,
    pub(crate) purpose: Purpose,
}

/// Source of the content of stubs: the server, or a test.
pub(crate) trait ContentSource: Send + Sync {
    /// Writes the part's content into the holes of the file and keeps the times of the file.
    /// `progress` counts the bytes, and stops the transfer.
    fn fill(&self, part: &Part<'_>, progress: &Arc<Progress>) -> Result<(), FillError>;

    /// Asks for a sign of life, and does not wait for it.
    fn probe(&self);

    /// Time of the last sign of life.
    fn last_sign(&self) -> Instant;

    /// The waits for volumes at the server, as far as it answers soon.
    fn waits(&self) -> Vec<OwnWait>;

    /// Gives up the present connection, because no sign of life has come for too long.
    fn distrust(&self);
}

/// Reason why content does not arrive. The recall reacts differently to each variant.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FillError {
    /// The server cannot be reached, or does not serve this node now: connect and try again.
    #[error("{0}")]
    Unreachable(String),
    /// The file system is full: make room and try again.
    #[error("{0}")]
    NoRoom(#[source] io::Error),
    /// The server has no undamaged copy of the content: the recall fails.
    #[error("{0}")]
    Lost(String),
    /// The file cannot be read or written: the recall fails.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The file may have zeros where the copy has content: the recall fails.
    #[error(
        "its size was changed while nobody could be asked, so its content may be zeros by now; if \
         it is not, 'touch -ca FILE' lets it be recalled"
    )]
    Doubtful,
    /// The file system is not managed any more: the recall fails.
    #[error("its file system is not managed any more")]
    Unmanaged,
}

impl FillError {
    /// The refusal of a program that waits for the content.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Unreachable(_) => Refusal::NotNow,
            Self::NoRoom(error) => {
                Refusal::Error(Errno::from_io_error(error).unwrap_or(Errno::NOSPC))
            }
            Self::Lost(_) | Self::System(_) | Self::Doubtful | Self::Unmanaged => {
                Refusal::Error(Errno::IO)
            }
        }
    }

    fn of_client(error: ClientError) -> Self {
        match error.kind {
            // A server refuses a certificate that was replaced since the connection was opened, and
            // a node that is locked. It may have the content in each case.
            ErrorKind::Retry | ErrorKind::Busy | ErrorKind::Refused | ErrorKind::NoSpace => {
                Self::Unreachable(error.message)
            }
            ErrorKind::NotFound
            | ErrorKind::Damaged
            | ErrorKind::Usage
            | ErrorKind::Bug
            | ErrorKind::Interrupted => Self::Lost(error.message),
        }
    }

    fn of_file(error: io::Error) -> Self {
        if is_for_want_of_room(&error) { Self::NoRoom(error) } else { Self::System(error) }
    }
}

/// True if the error shows only that there was no room.
pub(crate) fn is_for_want_of_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The server's result for the copy.
enum Verdict {
    Unknown,
    Complete,
    Lost(String),
}

/// Unit in which content is written. It is a multiple of the block size of every file system that
/// is managed.
const UNIT_BYTES: u64 = 64 << 10;

/// Maximum size of a small file in bytes. Several such files lie in one quantum.
const SMALL_BYTES_MAX: u64 = 256 << 10;

/// Pieces of one unit with their offsets in the file, in the order of their arrival.
type Pieces = Vec<(u64, Vec<u8>)>;

/// The filling of one part of one file; the client calls it from several threads.
struct PartFilling<'a> {
    file: &'a SpaceFile,
    index: u16,
    /// The parts of `range` in which nothing was written since the file lost its content.
    holes: Vec<Range<u64>>,
    range: Range<u64>,
    /// Pieces of incomplete units, by the offset of the unit.
    incomplete: Mutex<HashMap<u64, Pieces>>,
    /// Lock held from reading the time of the file until that time is set again. If another thread
    /// wrote meanwhile, the moment of that write would become the time of the file.
    writing: Mutex<()>,
    progress: &'a Progress,
    /// The first error of writing.
    failure: Mutex<Option<io::Error>>,
    verdict: Mutex<Verdict>,
}

impl<'a> PartFilling<'a> {
    fn new(part: &Part<'a>, range: Range<u64>, progress: &'a Progress) -> io::Result<Self> {
        let holes = part.file.holes(range.clone())?;
        debug_assert!(holes.is_sorted_by(|a, b| a.end <= b.start), "holes come in order");
        Ok(Self {
            file: part.file,
            index: part.stub.copy.index,
            holes,
            range,
            incomplete: Mutex::default(),
            writing: Mutex::default(),
            progress,
            failure: Mutex::default(),
            verdict: Mutex::new(Verdict::Unknown),
        })
    }

    fn conclude(&self, verdict: Verdict) {
        *self.verdict.lock() = verdict;
    }

    /// Stores an error of writing, and returns its text for the client.
    fn note(&self, error: io::Error) -> String {
        let text = error.to_string();
        self.failure.lock().get_or_insert(error);
        text
    }

    /// Writes the whole units of `content`, and keeps the pieces at its ends.
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

    /// Keeps a piece of one unit, and writes the unit if the piece completes it.
    fn keep(&self, piece: &[u8], offset: u64) -> io::Result<()> {
        let unit = offset - offset % UNIT_BYTES;
        let unit_bytes = (unit + UNIT_BYTES).min(self.range.end) - unit;
        let mut incomplete = self.incomplete.lock();
        let pieces = incomplete.entry(unit).or_default();
        pieces.push((offset, piece.to_vec()));
        let bytes: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
        if (bytes as u64) < unit_bytes {
            return Ok(());
        }
        let mut pieces = incomplete.remove(&unit).expect("a piece was just added");
        drop(incomplete);
        pieces.sort_unstable();
        let whole: Vec<u8> = pieces.into_iter().flat_map(|(_, piece)| piece).collect();
        self.write_holes(&whole, unit)
    }

    /// Writes the pieces of units that did not become complete. The rest of such a unit is a hole
    /// of the copy itself and reads as zeros.
    fn write_incomplete(&self) -> io::Result<()> {
        let mut incomplete = self.incomplete.lock();
        for (offset, piece) in incomplete.drain().flat_map(|(_, pieces)| pieces) {
            self.write_holes(&piece, offset)?;
        }
        Ok(())
    }

    fn write_holes(&self, content: &[u8], offset: u64) -> io::Result<()> {
        self.holes.iter().try_for_each(|hole| self.write_into(hole, content, offset))
    }

    /// Writes the part of `content` that belongs in `hole`.
    fn write_into(&self, hole: &Range<u64>, content: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + content.len() as u64;
        let (from, to) = (hole.start.max(offset), hole.end.min(end));
        if from >= to {
            return Ok(());
        }
        let _held = self.writing.lock();
        // A program may have truncated the file meanwhile: the write must not extend it.
        let before = self.file.stat()?.stat;
        let to = to.min(before.size);
        if from >= to {
            return Ok(());
        }
        let written = self.file.write_at(&content[within(offset, from)..within(offset, to)], from);
        self.file.set_times(None, before.mtime)?;
        if written.is_err() {
            // A write that fails half-way leaves blocks of zeros in a hole, so the whole range
            // becomes a hole again. Its blocks are whole, except the last block of the file.
            let is_end = to == before.size;
            let end = if is_end { to.next_multiple_of(UNIT_BYTES) } else { to };
            self.file.punch_part(&(from..end))?;
        }
        written
    }

    /// The result of the filling, after the client has returned.
    fn finish(self) -> Result<(), FillError> {
        match self.verdict.into_inner() {
            Verdict::Complete => Ok(()),
            Verdict::Lost(reason) => Err(match self.failure.into_inner().map(FillError::of_file) {
                Some(no_room @ FillError::NoRoom(_)) => no_room,
                _ => FillError::Lost(reason),
            }),
            Verdict::Unknown => {
                Err(FillError::Lost("the server has no copy of the file".to_owned()))
            }
        }
    }
}

fn within(offset: u64, at: u64) -> usize {
    usize::try_from(at - offset).expect("the position is within the content")
}

impl FileFiller for PartFilling<'_> {
    fn wants(&self, index: u16) -> bool {
        index == self.index
    }

    fn write(&self, _: u16, content: &[u8], offset: u64) -> io::Result<()> {
        self.write_units(content, offset)
            .map_err(|error| io::Error::other(self.note(error)))?;
        self.progress.bytes.fetch_add(content.len() as u64, Relaxed);
        Ok(())
    }

    fn complete(&self, _: u16) {
        self.conclude(match self.write_incomplete() {
            Ok(()) => Verdict::Complete,
            Err(error) => Verdict::Lost(self.note(error)),
        });
    }

    fn lose(&self, _: u16, reason: &str) {
        self.conclude(Verdict::Lost(reason.to_owned()));
    }
}

/// Fetches the part from the server; see [`ContentSource::fill`].
pub(crate) fn fill(
    client: &Client,
    part: &Part<'_>,
    progress: &Arc<Progress>,
) -> Result<(), FillError> {
    let before = part.file.stat().map_err(FillError::of_file)?.stat;
    let range = part.range.start..part.range.end.min(before.size);
    if range.is_empty() {
        return Ok(());
    }
    let filling = PartFilling::new(part, range.clone(), progress).map_err(FillError::of_file)?;
    let model::CopyId { batch, index } = part.stub.copy;
    let is_small = part.stub.size <= SMALL_BYTES_MAX;
    let purpose = part.purpose.clone();
    let request = RecallRequest { batch, index: Some(index), range, is_small, purpose };
    let fetch = || Ok::<_, io::Error>(client.recall(part.mount_point, request, &filling, progress));
    let fetched = part.file.keeping_capabilities(fetch).map_err(FillError::of_file)?;
    fetched.map_err(FillError::of_client)?;
    filling.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    use format::stub::State;
    use model::{BatchId, CopyId, Timestamp};
    use sys::Dir;

    use super::*;

    const TIME: Timestamp = Timestamp { secs: 1_000_000_000, nanos: 7 };

    /// A file that is one hole, and its folder.
    struct SparseFile {
        _folder: tempfile::TempDir,
        path: PathBuf,
        file: SpaceFile,
        stub: Stub,
    }

    impl SparseFile {
        fn new(bytes: u64) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            let dir = Dir::open(folder.path().as_os_str().as_bytes()).unwrap();
            let file = SpaceFile::open(&dir, b"file").unwrap();
            file.set_times(None, TIME).unwrap();
            let stub = Stub {
                state: State::Premigrated,
                was_recalled: false,
                copy: CopyId { batch: BatchId(1), index: 3 },
                size: bytes,
                mtime: TIME,
                content: [0; 16],
                bearer: None,
                unsynced: None,
            };
            Self { _folder: folder, path, file, stub }
        }

        fn filling<'a>(&'a self, range: Range<u64>, progress: &'a Progress) -> PartFilling<'a> {
            let part = Part {
                mount_point: b"/",
                file: &self.file,
                stub: &self.stub,
                range: range.clone(),
                purpose: Purpose::default(),
            };
            PartFilling::new(&part, range, progress).unwrap()
        }

        fn content(&self) -> Vec<u8> {
            std::fs::read(&self.path).unwrap()
        }
    }

    fn noise(bytes: u64) -> Vec<u8> {
        (0..bytes).map(|at| (at * 7 % 251) as u8 + 1).collect()
    }

    #[test]
    fn content_that_comes_on_several_threads_leaves_the_file_its_time() {
        const BYTES: u64 = 512 * UNIT_BYTES;
        static CONTENT: [u8; 64 << 10] = [1; 64 << 10];
        let sparse = SparseFile::new(BYTES);
        let progress = Progress::default();
        let filling = sparse.filling(0..BYTES, &progress);
        std::thread::scope(|scope| {
            for first in 0..4 {
                let filling = &filling;
                scope.spawn(move || {
                    for unit in (first..BYTES / UNIT_BYTES).step_by(4) {
                        filling.write(3, &CONTENT, unit * UNIT_BYTES).unwrap();
                    }
                });
            }
        });
        assert_eq!(sparse.file.stat().unwrap().stat.mtime, TIME);
        assert!(sparse.content().iter().all(|byte| *byte == 1));
        assert_eq!(progress.bytes.load(Relaxed), BYTES);
    }

    #[test]
    fn chunks_that_end_within_units_come_whole_from_several_threads() {
        const CHUNK: u64 = 40_961;
        let bytes = 20 * UNIT_BYTES + 77;
        let (sparse, content) = (SparseFile::new(bytes), noise(bytes));
        let progress = Progress::default();
        let filling = sparse.filling(0..bytes, &progress);
        std::thread::scope(|scope| {
            for first in 0..3 {
                let (filling, content) = (&filling, &content);
                scope.spawn(move || {
                    // The chunks are written in reverse order, because no order is guaranteed.
                    let chunks: Vec<u64> = (first..bytes.div_ceil(CHUNK)).step_by(3).collect();
                    for chunk in chunks.into_iter().rev() {
                        let (from, to) = (chunk * CHUNK, ((chunk + 1) * CHUNK).min(bytes));
                        let piece = &content[within(0, from)..within(0, to)];
                        filling.write(3, piece, from).unwrap();
                    }
                });
            }
        });
        filling.complete(3);
        assert!(filling.finish().is_ok());
        assert!(sparse.content() == content);
    }

    #[test]
    fn an_incomplete_unit_leaves_no_block() {
        let sparse = SparseFile::new(4 * UNIT_BYTES);
        let progress = Progress::default();
        let filling = sparse.filling(0..4 * UNIT_BYTES, &progress);
        filling.write(3, &[1; 1000], 5).unwrap();
        filling.write(3, &[1; 1000], UNIT_BYTES + 5).unwrap();
        assert_eq!(sparse.file.stat().unwrap().allocated_bytes, 0, "a torn block looks filled");
        filling.complete(3);
        assert_eq!(sparse.content()[5..1005], [1; 1000]);
    }

    #[test]
    fn what_was_written_to_a_stub_stays() {
        let sparse = SparseFile::new(4 * UNIT_BYTES);
        sparse.file.write_at(&[9; 64 << 10], UNIT_BYTES).unwrap();
        let progress = Progress::default();
        let filling = sparse.filling(0..4 * UNIT_BYTES, &progress);
        filling.write(3, &[1; 256 << 10], 0).unwrap();
        let content = sparse.content();
        assert_eq!(content[(64 << 10) - 1..(64 << 10) + 1], [1, 9]);
        assert_eq!(content[(128 << 10) - 1..(128 << 10) + 1], [9, 1]);
    }

    #[test]
    fn a_file_that_was_cut_does_not_grow() {
        let sparse = SparseFile::new(4 * UNIT_BYTES);
        let progress = Progress::default();
        let filling = sparse.filling(0..4 * UNIT_BYTES, &progress);
        std::fs::File::options()
            .write(true)
            .open(&sparse.path)
            .unwrap()
            .set_len(UNIT_BYTES)
            .unwrap();
        filling.write(3, &[1; 256 << 10], 0).unwrap();
        assert_eq!(sparse.content().len() as u64, UNIT_BYTES);
    }

    #[test]
    fn a_part_leaves_the_rest_of_the_file_alone() {
        let sparse = SparseFile::new(8 * UNIT_BYTES);
        let progress = Progress::default();
        let filling = sparse.filling(2 * UNIT_BYTES..4 * UNIT_BYTES, &progress);
        assert!(filling.wants(3) && !filling.wants(4));
        filling.write(3, &[1; 512 << 10], 0).unwrap();
        assert_eq!(sparse.file.stat().unwrap().allocated_bytes, 2 * UNIT_BYTES);
    }

    #[test]
    fn a_verdict_decides_what_the_recall_does_next() {
        #[track_caller]
        fn check(conclude: impl FnOnce(&PartFilling<'_>), errno: Errno, text: &str) {
            let sparse = SparseFile::new(UNIT_BYTES);
            let progress = Progress::default();
            let filling = sparse.filling(0..UNIT_BYTES, &progress);
            conclude(&filling);
            let error = filling.finish().unwrap_err();
            assert_eq!(error.refusal(), Refusal::Error(errno));
            assert_eq!(error.to_string(), text);
        }
        check(|_| {}, Errno::IO, "the server has no copy of the file");
        check(|filling| filling.lose(3, "damaged"), Errno::IO, "damaged");
        let full = || io::Error::from_raw_os_error(Errno::DQUOT.raw_os_error());
        let no_room = full().to_string();
        let fails = |filling: &PartFilling<'_>| {
            let text = filling.note(full());
            filling.lose(3, &text);
        };
        check(fails, Errno::DQUOT, &no_room);
    }

    #[test]
    fn a_server_that_is_away_is_asked_again() {
        let check = |kind, refusal| {
            let error = FillError::of_client(ClientError::new(kind, "why"));
            assert_eq!(error.refusal(), refusal, "{kind:?}");
        };
        for kind in [ErrorKind::Retry, ErrorKind::Busy, ErrorKind::Refused, ErrorKind::NoSpace] {
            check(kind, Refusal::NotNow);
        }
        check(ErrorKind::Damaged, Refusal::Error(Errno::IO));
        check(ErrorKind::NotFound, Refusal::Error(Errno::IO));
    }
}
