//! Reading of many small files at once, for programs that read one after the other.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use model::{DirPath, Name, Object, ServerTime};
use sys::lock::Mutex;

use super::destination::Destination;
use super::receive::receive;
use super::recent::RecentQuanta;
use super::tally::Tally;
use crate::browse::selection_below;
use crate::error::ClientError;
use crate::link::Link;
use crate::link::stage::Purpose;
use crate::link::versions::{Entry, Piece, Selection, has_data};
use crate::progress::Progress;

/// Maximum number of directories of a window. Small windows bound the data that is wanted at once.
const DIRECTORIES_MAX: u32 = 32;
/// Number of quanta of earlier windows that are remembered. A window shares its last quanta with
/// the next window.
const QUANTA_REMEMBERED: usize = 8;

/// A version of a file: its place, and the time at which the server got it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SmallFile {
    pub directory: Arc<DirPath>,
    pub name: Name,
    pub inserted: ServerTime,
}

/// Receiver of the contents of small files.
pub trait SmallFileSink: Sync {
    /// Returns whether the content of `object`, a file in `directory`, is wanted; `Break` to end
    /// the reading. The directories come in the order of their paths. May wait for room.
    fn wants(&self, directory: &Arc<DirPath>, object: &Object) -> ControlFlow<(), bool>;

    /// Takes a content that was wanted; `None` if it is lost or damaged.
    fn put(&self, file: &SmallFile, content: Option<Vec<u8>>);
}

/// Files that are offered to a sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The files directly in a directory.
    Directory,
    /// The files in a directory and below it.
    Subtree,
}

/// Reads the contents of the files in `directory`, as far as `reach` says, that `sink` wants: as
/// they were at the time `at`, or are now.
pub(crate) fn small_files(
    link: &Link,
    filespace: &[u8],
    (directory, reach): (&DirPath, Reach),
    at: Option<ServerTime>,
    sink: &dyn SmallFileSink,
) -> Result<(), ClientError> {
    let (selection, recent) = match reach {
        // Most directories have one window, so a memory would seldom be used. In a larger directory
        // a quantum that two windows share comes twice.
        Reach::Directory => (Selection::of_directory(filespace, directory.clone()), None),
        Reach::Subtree => {
            let recent = RecentQuanta::of(QUANTA_REMEMBERED);
            (selection_below(filespace, directory), Some(recent))
        }
    };
    let selection = Selection { at, ..selection };
    let progress = Arc::new(Progress::default());
    let tally = Tally::new(Arc::clone(&progress));
    let mut files = SmallFiles { sink, progress, link, recent };
    match receive(link, &selection, Some(Purpose::reading()), &mut files, &tally) {
        Err(_) if files.progress.is_stopped() => Ok(()),
        received => received.map(drop),
    }
}

struct SmallFiles<'a> {
    sink: &'a dyn SmallFileSink,
    progress: Arc<Progress>,
    link: &'a Link,
    /// Quanta of earlier windows, if they are remembered: files of two windows share some.
    recent: Option<RecentQuanta>,
}

impl SmallFiles<'_> {
    /// Returns the file that an entry stands for, without its content.
    fn file(entry: Entry) -> IncomingFile {
        let Object { name, inserted, stat, .. } = entry.object;
        let bytes = usize::try_from(stat.size).expect("a sink wants small files");
        let file = SmallFile { directory: entry.directory, name, inserted };
        IncomingFile { file, content: IncomingContent::new(bytes) }
    }

    /// Fills a file, if its quanta have come lately. Returns true if it is complete.
    fn fill(&self, file: &IncomingFile, pieces: &[Piece]) -> bool {
        let Link { domain_key, seal_keys, .. } = self.link;
        let contents = |recent: &RecentQuanta| recent.contents(pieces, domain_key, seal_keys);
        let Some(contents) = self.recent.as_ref().and_then(contents) else { return false };
        for (piece, chunk) in pieces.iter().zip(contents) {
            file.content.add(chunk, piece.offset);
        }
        self.complete(file);
        true
    }
}

/// File whose content is coming.
struct IncomingFile {
    file: SmallFile,
    content: IncomingContent,
}

/// Content that is coming. It takes no memory before its first chunk: many files are wanted at
/// once.
struct IncomingContent {
    /// Size of the whole content.
    bytes: usize,
    /// The content up to the end of what has come. What is missing between is zero.
    known: Mutex<Vec<u8>>,
}

impl IncomingContent {
    fn new(bytes: usize) -> Self {
        Self { bytes, known: Mutex::default() }
    }

    fn write(&self, chunk: &[u8], offset: u64) {
        let start = usize::try_from(offset).expect("pieces add up to the size of the file");
        let end = start + chunk.len();
        assert!(end <= self.bytes, "pieces add up to the size of the file");
        let mut known = self.known.lock();
        if known.capacity() == 0 {
            known.reserve_exact(self.bytes);
        }
        if start == known.len() {
            known.extend_from_slice(chunk);
            return;
        }
        if known.len() < end {
            known.resize(end, 0);
        }
        known[start..end].copy_from_slice(chunk);
    }

    /// Adds a chunk that nobody else needs. Most small files are one chunk, which is not copied.
    fn add(&self, chunk: Vec<u8>, offset: u64) {
        if offset == 0 && chunk.len() == self.bytes {
            *self.known.lock() = chunk;
        } else {
            self.write(&chunk, offset);
        }
    }

    /// Takes the whole content. It may end with a hole.
    fn take(&self) -> Vec<u8> {
        let mut content = std::mem::take(&mut *self.known.lock());
        content.resize(self.bytes, 0);
        content
    }
}

impl Destination for SmallFiles<'_> {
    type File = IncomingFile;

    fn take(&mut self, entry: Entry) -> Option<IncomingFile> {
        if !has_data(&entry.object.stat) {
            return None;
        }
        let pieces = entry.pieces().filter(|pieces| !pieces.is_empty())?;
        match self.sink.wants(&entry.directory, &entry.object) {
            ControlFlow::Break(()) => {
                self.progress.stop();
                None
            }
            ControlFlow::Continue(false) => None,
            ControlFlow::Continue(true) => {
                let file = Self::file(entry);
                let is_complete = self.fill(&file, &pieces);
                (!is_complete).then_some(file)
            }
        }
    }

    fn recent(&self) -> Option<&RecentQuanta> {
        self.recent.as_ref()
    }

    fn write(&self, file: &IncomingFile, chunk: &[u8], offset: u64) -> io::Result<()> {
        file.content.write(chunk, offset);
        Ok(())
    }

    fn complete(&self, file: &IncomingFile) {
        self.sink.put(&file.file, Some(file.content.take()));
    }

    fn lose(&self, file: &IncomingFile, _: &str) {
        self.sink.put(&file.file, None);
    }

    fn directories_max(&self) -> u32 {
        DIRECTORIES_MAX
    }

    fn takes_one_thread(&self) -> bool {
        true
    }

    // While the sink waits for room, nothing may be missing that was wanted before.
    fn windows_at_once(&self) -> u64 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_in_any_order_and_holes_are_zero() {
        let content = IncomingContent::new(9);
        assert_eq!(content.known.lock().capacity(), 0, "nothing has come");
        content.write(b"ab", 0);
        content.write(b"cd", 2);
        content.write(b"gh", 6);
        content.write(b"ef", 4);
        assert_eq!(content.take(), b"abcdefgh\0");
        let content = IncomingContent::new(4);
        content.write(b"d", 3);
        assert_eq!(content.take(), b"\0\0\0d");
    }

    #[test]
    fn a_chunk_that_is_the_whole_file_is_not_copied() {
        let chunk = b"whole".to_vec();
        let room = chunk.as_ptr();
        let content = IncomingContent::new(5);
        content.add(chunk, 0);
        let taken = content.take();
        assert_eq!((&taken[..], taken.as_ptr()), (&b"whole"[..], room));
        let content = IncomingContent::new(5);
        content.add(b"ab".to_vec(), 0);
        content.add(b"d".to_vec(), 3);
        assert_eq!(content.take(), b"ab\0d\0");
    }
}
