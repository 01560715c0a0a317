//! Reading of ranges of stored files, for programs that ask for any range at any time.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lru::LruCache;
use model::ServerTime;
use sys::lock::Mutex;

use super::destination::Destination;
use super::receive::receive;
use super::recent::RecentQuanta;
use super::tally::Tally;
use crate::browse::ObjectPlace;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::stage::Purpose;
use crate::link::versions::{Entry, Piece, Selection};
use crate::progress::Progress;

/// Maximum number of versions whose pieces a reader remembers.
const VERSIONS_REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");
/// Maximum number of pieces of all these versions together, of 24 bytes each. A single version may
/// have more.
const PIECES_REMEMBERED: usize = 1 << 18;
/// Number of bytes that are fetched at least in the middle of a stream of reads.
pub const AHEAD_BYTES: u64 = 8 << 20;
/// Number of chunks, of at most 1 MiB each, that a reader remembers.
const CHUNKS_REMEMBERED: NonZeroUsize = NonZeroUsize::new(8).expect("not zero");
/// Number of locks that keep threads from fetching the same data at once.
const LOCKS: usize = 64;

/// Version of an object: its place, and a time at which it was active.
type VersionKey = (ObjectPlace, ServerTime);

/// Pieces of the versions that were read lately. A large file has thousands of them, and so has
/// each part of an image.
struct RecentPieces {
    versions: LruCache<VersionKey, Arc<Vec<Piece>>>,
    /// Number of pieces of all versions.
    count: usize,
}

impl RecentPieces {
    fn new() -> Self {
        Self { versions: LruCache::new(VERSIONS_REMEMBERED), count: 0 }
    }

    fn get(&mut self, key: &VersionKey) -> Option<Arc<Vec<Piece>>> {
        self.versions.get(key).cloned()
    }

    fn put(&mut self, key: VersionKey, pieces: Arc<Vec<Piece>>) {
        self.count += pieces.len();
        if let Some((_, old)) = self.versions.push(key, pieces) {
            self.count -= old.len();
        }
        // The version that is being read stays, however large it is.
        while self.count > PIECES_REMEMBERED && self.versions.len() > 1 {
            let Some((_, old)) = self.versions.pop_lru() else { break };
            self.count -= old.len();
        }
    }
}

/// Reader of ranges of stored files. It remembers what it has received lately. Each chunk is
/// checked when it comes and when it is used again.
pub struct RangeReader {
    link: Arc<Link>,
    quanta: RecentQuanta,
    /// Chunks by their places, which were checked.
    chunks: Mutex<LruCache<u64, Arc<Vec<u8>>>>,
    pieces: Mutex<RecentPieces>,
    /// Locks of the threads that fetch data, by a hash of the file. The kernel reads ahead with
    /// several threads, of which the first fetches what all of them need.
    fetching: [Mutex<()>; LOCKS],
    hasher: RandomState,
    progress: Arc<Progress>,
}

impl RangeReader {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            quanta: RecentQuanta::default(),
            chunks: Mutex::new(LruCache::new(CHUNKS_REMEMBERED)),
            pieces: Mutex::new(RecentPieces::new()),
            fetching: [(); LOCKS].map(|()| Mutex::default()),
            hasher: RandomState::new(),
            progress: Arc::default(),
        }
    }

    /// Returns the number of bytes that were received.
    pub fn bytes_transferred(&self) -> u64 {
        self.progress.bytes_transferred.load(Relaxed)
    }

    /// Fills `buffer` with the bytes in `range` of a file of `size` bytes: of the version of the
    /// object at a place that was active at a time. The server sends at least the next
    /// `bytes_min` bytes from the start of the range on. Fails if the server cannot be reached, and
    /// if it has lost the data.
    pub fn read(
        &self,
        (place, at): (&ObjectPlace, ServerTime),
        size: u64,
        range: Range<u64>,
        buffer: &mut [u8],
        bytes_min: u64,
    ) -> Result<(), ClientError> {
        buffer.fill(0);
        let key = (place.clone(), at);
        if self.is_filled_from_memory(&key, &range, buffer) {
            return Ok(());
        }
        let lock = usize::try_from(self.hasher.hash_one(&key) % LOCKS as u64).expect("below 64");
        let _fetching = self.fetching[lock].lock();
        if self.is_filled_from_memory(&key, &range, buffer) {
            return Ok(());
        }
        let ahead = range.start.saturating_add(bytes_min);
        let wanted = range.start..ahead.max(range.end).min(size);
        self.fetch(key, wanted, range, buffer)?;
        Ok(())
    }

    /// Returns the range of the data that `offset` lies in, or of the next data after it, up to the
    /// next hole. Returns `None` if a hole is all that follows. The version is as in
    /// [`RangeReader::read`].
    pub fn data_from(
        &self,
        (place, at): (&ObjectPlace, ServerTime),
        offset: u64,
    ) -> Result<Option<Range<u64>>, ClientError> {
        let key = (place.clone(), at);
        let known = self.pieces.lock().get(&key);
        let pieces = match known {
            Some(pieces) => pieces,
            None => {
                // The pieces come with any byte of the file. This one is wanted next.
                let byte = offset..offset + 1;
                self.fetch(key, byte.clone(), byte, &mut [0])?
            }
        };
        Ok(data_from(&pieces, offset))
    }

    /// Fetches the bytes in `wanted`, and puts those in `range` into the buffer for `range`.
    /// Returns all pieces of the file.
    fn fetch(
        &self,
        key: VersionKey,
        wanted: Range<u64>,
        range: Range<u64>,
        buffer: &mut [u8],
    ) -> Result<Arc<Vec<Piece>>, ClientError> {
        let mut collector = Collector {
            wanted: wanted.clone(),
            kept: range.clone(),
            pieces: None,
            chunks: Mutex::default(),
            lost: Mutex::default(),
            quanta: &self.quanta,
        };
        let tally = Tally::new(Arc::clone(&self.progress));
        let selection = Selection::of_object(&key.0.place());
        let selection = Selection { at: Some(key.1), range: wanted, ..selection };
        let received =
            receive(&self.link, &selection, Some(Purpose::reading()), &mut collector, &tally)?;
        received.unreadable.map_or(Ok(()), Err)?;
        let Collector { pieces, chunks, lost, .. } = collector;
        if let Some(reason) = lost.into_inner() {
            return Err(ClientError::new(ErrorKind::Damaged, reason));
        }
        let Some(pieces) = pieces.map(Arc::new) else {
            let message = "the server no longer has this version";
            return Err(ClientError::new(ErrorKind::NotFound, message));
        };
        for (offset, chunk) in chunks.into_inner() {
            copy(&chunk, offset, &range, buffer);
        }
        self.pieces.lock().put(key, Arc::clone(&pieces));
        Ok(pieces)
    }

    /// Fills `buffer` if all that it needs came lately.
    fn is_filled_from_memory(
        &self,
        key: &VersionKey,
        range: &Range<u64>,
        buffer: &mut [u8],
    ) -> bool {
        let Some(pieces) = self.pieces.lock().get(key) else { return false };
        let ends_before = |piece: &Piece| piece.end() <= range.start;
        let first = pieces.partition_point(ends_before);
        let needed = pieces[first..].iter().take_while(|piece| piece.offset < range.end);
        for piece in needed {
            match self.chunk(piece) {
                Some(chunk) => copy(&chunk, piece.offset, range, buffer),
                None => {
                    buffer.fill(0);
                    return false;
                }
            }
        }
        true
    }
}

impl RangeReader {
    /// Returns the content of a piece, if it came lately.
    fn chunk(&self, piece: &Piece) -> Option<Arc<Vec<u8>>> {
        if let Some(chunk) = self.chunks.lock().get(&piece.place) {
            return Some(Arc::clone(chunk));
        }
        let link = &self.link;
        let chunk = self.quanta.content(piece, &link.domain_key, &link.seal_keys)?;
        let chunk = Arc::new(chunk);
        self.chunks.lock().put(piece.place, Arc::clone(&chunk));
        Some(chunk)
    }
}

/// Copies the bytes of `chunk`, which lies at `offset`, that are in `range` into the buffer for
/// `range`.
fn copy(chunk: &[u8], offset: u64, range: &Range<u64>, buffer: &mut [u8]) {
    let start = offset.max(range.start);
    let end = (offset + chunk.len() as u64).min(range.end);
    if start < end {
        let from = &chunk[to_usize(start - offset)..to_usize(end - offset)];
        buffer[to_usize(start - range.start)..to_usize(end - range.start)].copy_from_slice(from);
    }
}

/// Returns the data that `offset` lies in, or the next data after it, up to the next gap between
/// `pieces`, which come in the order of their offsets.
fn data_from(pieces: &[Piece], offset: u64) -> Option<Range<u64>> {
    let ends_before = |piece: &Piece| piece.end() <= offset;
    let (first, rest) = pieces[pieces.partition_point(ends_before)..].split_first()?;
    let mut data = first.offset..first.end();
    for piece in rest {
        if piece.offset != data.end {
            break;
        }
        data.end = piece.end();
    }
    Some(data)
}

pub(super) fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("lengths of buffers fit")
}

/// Destination that keeps the chunks of one file.
struct Collector<'a> {
    wanted: Range<u64>,
    /// Range of the bytes that the reader needs. The quanta have what comes ahead.
    kept: Range<u64>,
    /// All pieces of the file, after its entry has come.
    pieces: Option<Vec<Piece>>,
    chunks: Mutex<Vec<(u64, Vec<u8>)>>,
    lost: Mutex<Option<String>>,
    quanta: &'a RecentQuanta,
}

impl Destination for Collector<'_> {
    type File = ();

    fn take(&mut self, entry: Entry) -> Option<()> {
        match entry.pieces() {
            None => {
                self.lose(&(), "the data is lost or damaged at the server");
                None
            }
            Some(pieces) => {
                let is_needed = pieces.iter().any(|piece| piece.is_within(&self.wanted));
                self.pieces = Some(pieces);
                is_needed.then_some(())
            }
        }
    }

    fn write(&self, (): &(), chunk: &[u8], offset: u64) -> io::Result<()> {
        let start = offset.max(self.kept.start);
        let end = offset.saturating_add(chunk.len() as u64).min(self.kept.end);
        if start < end {
            let part = &chunk[to_usize(start - offset)..to_usize(end - offset)];
            self.chunks.lock().push((start, part.to_vec()));
        }
        Ok(())
    }

    fn complete(&self, (): &()) {}

    fn lose(&self, (): &(), reason: &str) {
        self.lost.lock().get_or_insert_with(|| reason.to_owned());
    }

    fn recent(&self) -> Option<&RecentQuanta> {
        Some(self.quanta)
    }

    fn range(&self) -> Range<u64> {
        self.wanted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_fills_what_it_covers() {
        let mut buffer = [0; 4];
        copy(b"abcdef", 8, &(10..14), &mut buffer);
        assert_eq!(&buffer, b"cdef");
        let mut buffer = [0; 4];
        copy(b"ab", 11, &(10..14), &mut buffer);
        copy(b"xx", 20, &(10..14), &mut buffer);
        assert_eq!(&buffer, b"\0ab\0");
    }

    /// A mount kept the pieces of 1024 versions, however many they were.
    #[test]
    fn pieces_of_many_large_files_are_forgotten() {
        let key = |name: &[u8]| {
            let directory = model::DirPath::root();
            let name = directory.name(name).expect("a name");
            (ObjectPlace { filespace: b"/".to_vec(), directory, name }, ServerTime(1))
        };
        let pieces = |count| {
            let piece = Piece { place: 1, offset: 0, bytes: 1, is_sealed: false };
            Arc::new(vec![piece; count])
        };
        let mut recent = RecentPieces::new();
        recent.put(key(b"a"), pieces(PIECES_REMEMBERED / 2));
        recent.put(key(b"b"), pieces(PIECES_REMEMBERED / 2));
        recent.put(key(b"a"), pieces(PIECES_REMEMBERED / 2));
        assert!(recent.get(&key(b"b")).is_some(), "all of them fit");
        recent.put(key(b"c"), pieces(1));
        let is_kept = [b"a", b"b", b"c"].map(|name| recent.get(&key(name)).is_some());
        assert_eq!(is_kept, [false, true, true]);
        recent.put(key(b"d"), pieces(PIECES_REMEMBERED + 1));
        let is_kept = [b"b", b"c", b"d"].map(|name| recent.get(&key(name)).is_some());
        assert_eq!(is_kept, [false, false, true]);
        assert_eq!(recent.count, PIECES_REMEMBERED + 1);
    }

    #[test]
    fn data_ends_at_a_hole() {
        let piece = |offset, bytes| Piece { place: offset, offset, bytes, is_sealed: false };
        let pieces = [piece(10, 5), piece(15, 5), piece(40, 2)];
        for (offset, expected) in [
            (0, Some(10..20)),
            (10, Some(10..20)),
            (14, Some(10..20)),
            (15, Some(15..20)),
            (19, Some(15..20)),
            (20, Some(40..42)),
            (41, Some(40..42)),
            (42, None),
        ] {
            assert_eq!(data_from(&pieces, offset), expected, "from {offset} on");
        }
        assert_eq!(data_from(&[], 0), None);
    }

    #[test]
    fn only_the_range_of_the_reader_is_kept_of_what_comes_ahead() {
        let quanta = RecentQuanta::default();
        let collector = Collector {
            wanted: 10..40,
            kept: 10..14,
            pieces: None,
            chunks: Mutex::default(),
            lost: Mutex::default(),
            quanta: &quanta,
        };
        let chunks: [(&[u8], u64); 4] = [(b"abcd", 8), (b"ef", 12), (b"ghij", 13), (b"klm", 20)];
        for (chunk, offset) in chunks {
            collector.write(&(), chunk, offset).expect("memory takes all");
        }
        let kept = collector.chunks.into_inner();
        assert_eq!(kept, [(10, b"cd".to_vec()), (12, b"ef".to_vec()), (13, b"g".to_vec())]);
    }
}
