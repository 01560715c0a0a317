//! Restore of images, and reading of some ranges of an image.

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use lru::LruCache;
use sys::lock::Mutex;

use super::destination::Destination;
use super::receive::receive;
use super::recent::RecentQuanta;
use super::tally::Tally;
use crate::Client;
use crate::error::{ClientError, ErrorKind};
use crate::image::{Image, part_of};
use crate::link::Link;
use crate::link::versions::{Entry, Piece};
use crate::progress::{Phase, Progress};

/// Number of parts whose pieces an [`ImageReader`] remembers.
const PARTS_REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");
/// Number of bytes that a reader fetches at least when it reads one range after the other.
const AHEAD_BYTES: u64 = 4 << 20;

/// Device or file that an image is restored to. Several threads write to it.
pub trait ImageTarget: Sync {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the bytes in `range` zeros.
    fn clear(&self, range: Range<u64>) -> io::Result<()>;
}

/// Range of an image that cannot be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostRange {
    pub offset: u64,
    pub bytes: u64,
    pub reason: String,
}

/// Report of a restore or a verification of an image.
#[derive(Clone, Debug, Default)]
pub struct ImageRestoreReport {
    pub node: String,
    /// Bytes of data that were checked and, in a restore, written.
    pub data_bytes: u64,
    pub bytes_transferred: u64,
    pub elapsed: Duration,
    /// Ranges that are lost or damaged at the server, in order.
    pub lost: Vec<LostRange>,
}

impl ImageRestoreReport {
    /// Returns 0 if the image is whole, 4 if ranges of it are lost.
    pub fn exit_code(&self) -> u8 {
        if self.lost.is_empty() { 0 } else { 4 }
    }
}

/// Reads and checks `image`, and writes it to `target` if there is one.
pub(crate) fn restore(
    link: &Link,
    image: &Image,
    target: Option<&dyn ImageTarget>,
    progress: &Arc<Progress>,
) -> Result<ImageRestoreReport, ClientError> {
    let started = sys::clock::monotonic();
    let tally = Tally::new(Arc::clone(progress));
    progress.bytes_expected.fetch_add(image.facts.data_bytes, Relaxed);
    progress.enter(Phase::Running);
    let mut parts = Parts {
        image,
        target,
        progress,
        seen: BTreeSet::new(),
        lost: Mutex::default(),
        failure: Mutex::default(),
    };
    let received = receive(link, &image.parts(), None, &mut parts, &tally);
    let Parts { seen, lost, failure, .. } = parts;
    if let Some(error) = failure.into_inner() {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull => ErrorKind::NoSpace,
            _ => ErrorKind::Usage,
        };
        return Err(ClientError::new(kind, format!("cannot write the target: {error}")));
    }
    let mut lost = lost.into_inner();
    let unreadable = received?.unreadable;
    let reason = unreadable.map_or("the server has this part no longer".to_owned(), |e| e.message);
    let missing = (0..image.facts.layout.parts()).filter(|number| !seen.contains(number));
    lost.extend(missing.map(|number| lost_part(image, number, &reason)));
    lost.sort_by_key(|range| range.offset);
    Ok(ImageRestoreReport {
        node: link.hello().node.clone(),
        data_bytes: progress.bytes.load(Relaxed),
        bytes_transferred: progress.bytes_transferred.load(Relaxed),
        elapsed: started.elapsed(),
        lost,
    })
}

fn lost_part(image: &Image, number: u64, reason: &str) -> LostRange {
    let range = image.facts.layout.range(number);
    let (offset, bytes, reason) = (range.start, range.end - range.start, reason.to_owned());
    LostRange { offset, bytes, reason }
}

/// Destination of a whole image.
struct Parts<'a> {
    image: &'a Image,
    /// Target; `None` only checks.
    target: Option<&'a dyn ImageTarget>,
    progress: &'a Progress,
    seen: BTreeSet<u64>,
    lost: Mutex<Vec<LostRange>>,
    /// First error of the target.
    failure: Mutex<Option<io::Error>>,
}

impl Parts<'_> {
    /// Ends the restore, because the target cannot be written.
    fn fail(&self, error: io::Error) {
        self.failure.lock().get_or_insert(error);
        self.progress.stop();
    }

    /// Clears what lies between the `pieces` of the part in `range`.
    fn clear_gaps(&self, range: &Range<u64>, pieces: &[Piece]) {
        let Some(target) = self.target else { return };
        for gap in gaps(pieces, range.end - range.start) {
            if let Err(error) = target.clear(range.start + gap.start..range.start + gap.end) {
                return self.fail(error);
            }
        }
    }
}

/// Returns the ranges of a file of `bytes` bytes that none of `pieces` fills.
fn gaps(pieces: &[Piece], bytes: u64) -> Vec<Range<u64>> {
    let mut filled = 0;
    let mut gaps = Vec::new();
    let ends = pieces.iter().map(|piece| (piece.offset, piece.offset + u64::from(piece.bytes)));
    for (start, end) in ends.chain([(bytes, bytes)]) {
        if start > filled {
            gaps.push(filled..start);
        }
        filled = end;
    }
    gaps
}

impl Destination for Parts<'_> {
    /// Number of the part.
    type File = u64;

    fn take(&mut self, entry: Entry) -> Option<u64> {
        let number = part_of(&entry.directory, &entry.object.name)?;
        let layout = self.image.facts.layout;
        if number >= layout.parts() || !self.seen.insert(number) {
            return None;
        }
        let range = layout.range(number);
        let is_right = entry.object.stat.size == range.end - range.start;
        let Some(pieces) = entry.pieces().filter(|_| is_right) else {
            self.lose(&number, "the data of this part is lost or damaged at the server");
            return None;
        };
        self.clear_gaps(&range, &pieces);
        (!pieces.is_empty()).then_some(number)
    }

    fn write(&self, number: &u64, chunk: &[u8], offset: u64) -> io::Result<()> {
        if let Some(target) = self.target {
            let start = self.image.facts.layout.range(*number).start;
            target.write_at(chunk, start + offset).inspect_err(|error| {
                let copy = io::Error::new(error.kind(), error.to_string());
                self.fail(copy);
            })?;
        }
        self.progress.bytes.fetch_add(chunk.len() as u64, Relaxed);
        Ok(())
    }

    fn complete(&self, _: &u64) {
        self.progress.done.fetch_add(1, Relaxed);
    }

    fn lose(&self, number: &u64, reason: &str) {
        self.progress.failed.fetch_add(1, Relaxed);
        self.lost.lock().push(lost_part(self.image, *number, reason));
    }
}

/// Reader of any ranges of an image. It remembers what it has received lately.
pub struct ImageReader {
    client: Arc<Client>,
    image: Image,
    quanta: RecentQuanta,
    pieces: Mutex<LruCache<u64, Arc<Vec<Piece>>>>,
    /// End of the last range that was read.
    last_end: Mutex<u64>,
    progress: Arc<Progress>,
}

impl ImageReader {
    pub(crate) fn new(client: Arc<Client>, image: Image) -> Self {
        Self {
            client,
            image,
            quanta: RecentQuanta::default(),
            pieces: Mutex::new(LruCache::new(PARTS_REMEMBERED)),
            last_end: Mutex::new(0),
            progress: Arc::default(),
        }
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the number of bytes that were received.
    pub fn bytes_transferred(&self) -> u64 {
        self.progress.bytes_transferred.load(Relaxed)
    }

    /// Fills `buffer` from `offset` on. Bytes beyond the end of the image are zeros. Fails if
    /// the server cannot be reached, and if it has lost the data.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ClientError> {
        buffer.fill(0);
        let layout = self.image.facts.layout;
        let end = offset.saturating_add(buffer.len() as u64).min(layout.bytes);
        let is_sequential = {
            let mut last_end = self.last_end.lock();
            std::mem::replace(&mut *last_end, end) == offset
        };
        let mut at = offset;
        while at < end {
            let number = at / layout.part_bytes();
            let part = layout.range(number);
            let range = at - part.start..end.min(part.end) - part.start;
            let from = to_usize(at - offset);
            let to = from + to_usize(range.end - range.start);
            self.read_part(number, range, &mut buffer[from..to], is_sequential)?;
            at = end.min(part.end);
        }
        Ok(())
    }

    /// Fills `buffer`, which has zeros, with the bytes of the part `number` in `range`.
    fn read_part(
        &self,
        number: u64,
        range: Range<u64>,
        buffer: &mut [u8],
        is_sequential: bool,
    ) -> Result<(), ClientError> {
        let known = self.pieces.lock().get(&number).cloned();
        if let Some(pieces) = known
            && self.is_filled_from_memory(&pieces, &range, buffer)
        {
            return Ok(());
        }
        let part = self.image.facts.layout.range(number);
        let ahead = if is_sequential { range.start + AHEAD_BYTES } else { range.end };
        let wanted = range.start..ahead.max(range.end).min(part.end - part.start);
        let mut collector = Collector {
            wanted: wanted.clone(),
            pieces: None,
            chunks: Mutex::default(),
            lost: Mutex::default(),
            quanta: &self.quanta,
        };
        let tally = Tally::new(Arc::clone(&self.progress));
        let selection = self.image.part(number, wanted);
        let received = receive(&self.client.link, &selection, None, &mut collector, &tally)?;
        received.unreadable.map_or(Ok(()), Err)?;
        let Collector { pieces, chunks, lost, .. } = collector;
        let lost = lost.into_inner().or_else(|| {
            pieces
                .is_none()
                .then(|| "the server has this part of the image no longer".to_owned())
        });
        if let Some(reason) = lost {
            let message = format!("bytes {} to {} of the image: {reason}", part.start, part.end);
            return Err(ClientError::new(ErrorKind::Damaged, message));
        }
        for (offset, chunk) in chunks.into_inner() {
            copy(&chunk, offset, &range, buffer);
        }
        self.pieces.lock().put(number, Arc::new(pieces.unwrap_or_default()));
        Ok(())
    }

    /// Fills `buffer` if all that it needs came lately.
    fn is_filled_from_memory(
        &self,
        pieces: &[Piece],
        range: &Range<u64>,
        buffer: &mut [u8],
    ) -> bool {
        let link = &self.client.link;
        let (key, seal_keys) = (&link.domain_key, &link.seal_keys);
        let first =
            pieces.partition_point(|piece| piece.offset + u64::from(piece.bytes) <= range.start);
        let needed = pieces[first..].iter().take_while(|piece| piece.offset < range.end);
        for piece in needed {
            match self.quanta.content(piece, key, seal_keys) {
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

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("lengths of buffers fit")
}

/// Destination that keeps the chunks of one part.
struct Collector<'a> {
    wanted: Range<u64>,
    /// All pieces of the part, after it has come.
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
        self.chunks.lock().push((offset, chunk.to_vec()));
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

    fn piece(offset: u64, bytes: u32) -> Piece {
        Piece { place: 0, offset, bytes, is_sealed: false }
    }

    #[test]
    fn gaps_are_what_no_piece_fills() {
        assert_eq!(gaps(&[], 10), Vec::from([0..10]));
        assert_eq!(gaps(&[piece(0, 10)], 10), []);
        assert_eq!(gaps(&[piece(2, 3), piece(5, 1), piece(8, 1)], 10), [0..2, 6..8, 9..10]);
    }

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
}
