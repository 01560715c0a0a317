//! Restore of images, and reading of some ranges of an image.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sys::lock::Mutex;

use super::destination::Destination;
use super::ranges::{AHEAD_BYTES, RangeReader, to_usize};
use super::receive::receive;
use super::tally::Tally;
use crate::browse::ObjectPlace;
use crate::error::{ClientError, ErrorKind};
use crate::image::{Image, directory_of, name_of, part_of};
use crate::interruptions::Interruptions;
use crate::link::Link;
use crate::link::stage::Purpose;
use crate::link::versions::{Entry, Piece};
use crate::progress::{Phase, Progress};

/// Device or file that an image is restored to. Several threads write to it.
pub trait ImageTarget: Sync {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the bytes in `range` zeros.
    fn clear(&self, range: Range<u64>) -> io::Result<()>;

    /// Takes note that the bytes in `range` are lost.
    fn lose(&self, _range: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    /// Says what an error of the target means.
    fn failure(&self, error: &io::Error) -> String {
        format!("cannot write the target: {error}")
    }
}

/// Range of an image that cannot be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostRange {
    pub offset: u64,
    pub bytes: u64,
    pub reason: String,
}

impl LostRange {
    fn goes_on_with(&self, next: &Self) -> bool {
        self.offset + self.bytes == next.offset && self.reason == next.reason
    }
}

/// Report of a restore or a verification of an image.
#[derive(Clone, Debug, Default)]
pub struct ImageRestoreReport {
    pub node: String,
    /// Bytes of data that were checked and, in a restore, written.
    pub data_bytes: u64,
    pub bytes_transferred: u64,
    /// Time in which the restore waited for the server's messages, as in the report of a restore.
    pub data_transfer: Duration,
    pub elapsed: Duration,
    pub interruptions: Interruptions,
    /// Ranges that are lost or damaged at the server, in order.
    pub lost: Vec<LostRange>,
}

impl ImageRestoreReport {
    /// Returns 0 if the image is whole, 4 if ranges of it are lost.
    pub fn exit_code(&self) -> u8 {
        if self.lost.is_empty() { 0 } else { 4 }
    }
}

/// Record of a restore of an image: the parts that are done. A restore that has lost its connection
/// goes on with the other parts.
#[derive(Debug, Default)]
pub struct ImageRestoration {
    done: Mutex<BTreeSet<u64>>,
    /// Bytes of data of these parts.
    data_bytes: AtomicU64,
    lost: Mutex<Vec<LostRange>>,
    /// Time in which all attempts waited for messages of the server.
    data_transfer: Mutex<Duration>,
}

impl ImageRestoration {
    fn complete(&self, part: &PartFile) {
        self.done.lock().insert(part.number);
        self.data_bytes.fetch_add(part.data_bytes.load(Relaxed), Relaxed);
    }

    /// Returns the ranges that are lost. A part that was not done may have lost a range twice.
    fn lost(&self) -> Vec<LostRange> {
        let mut lost = self.lost.lock().clone();
        lost.sort_by_key(|range| (range.offset, range.bytes));
        lost.dedup();
        joined(lost)
    }
}

/// Reads and checks the parts of `image` that are not done, and writes them to `target` if there is
/// one.
pub(crate) fn restore(
    link: &Link,
    image: &Image,
    target: Option<&dyn ImageTarget>,
    restoration: &ImageRestoration,
    progress: &Arc<Progress>,
) -> Result<ImageRestoreReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    let tally = Tally::new(Arc::clone(progress));
    progress.bytes_expected.store(image.facts.data_bytes, Relaxed);
    progress.enter(Phase::Running);
    let done = restoration.done.lock().clone();
    let mut parts = Parts {
        image,
        target,
        restoration,
        progress,
        seen: BTreeSet::new(),
        done,
        failure: Mutex::default(),
    };
    // Without a target the image is only checked.
    let purpose = target.is_none().then(Purpose::reading);
    let received = receive(link, &image.parts(), purpose, &mut parts, &tally);
    *restoration.data_transfer.lock() += tally.into_report().data_transfer;
    if let Ok(receipt) = &received {
        parts.lose_missing(receipt.unreadable.as_ref());
    }
    let Parts { failure, .. } = parts;
    if let Some(error) = failure.into_inner() {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull => ErrorKind::NoSpace,
            _ => ErrorKind::Usage,
        };
        let message = target.map_or_else(|| error.to_string(), |target| target.failure(&error));
        return Err(ClientError::new(kind, message));
    }
    received?;
    Ok(ImageRestoreReport {
        node: link.hello().node.clone(),
        data_bytes: restoration.data_bytes.load(Relaxed),
        bytes_transferred: progress.bytes_transferred.load(Relaxed),
        data_transfer: *restoration.data_transfer.lock(),
        elapsed: progress.attempts.elapsed(),
        interruptions: progress.interruptions(),
        lost: restoration.lost(),
    })
}

/// Sorts ranges, and joins those that touch each other and have the same reason.
fn joined(mut lost: Vec<LostRange>) -> Vec<LostRange> {
    lost.sort_by_key(|range| range.offset);
    let mut joined: Vec<LostRange> = Vec::new();
    for range in lost {
        match joined.last_mut() {
            Some(last) if last.goes_on_with(&range) => last.bytes += range.bytes,
            _ => joined.push(range),
        }
    }
    joined
}

/// Destination of a whole image.
struct Parts<'a> {
    image: &'a Image,
    /// Target; `None` only checks.
    target: Option<&'a dyn ImageTarget>,
    restoration: &'a ImageRestoration,
    progress: &'a Progress,
    seen: BTreeSet<u64>,
    /// Parts that were done before this attempt.
    done: BTreeSet<u64>,
    /// First error of the target.
    failure: Mutex<Option<io::Error>>,
}

impl Parts<'_> {
    /// Ends the restore, because the target cannot be written.
    fn fail(&self, error: io::Error) {
        self.failure.lock().get_or_insert(error);
        self.progress.stop();
    }

    /// Loses the parts that the server has not sent.
    fn lose_missing(&self, unreadable: Option<&ClientError>) {
        let reason = unreadable.map_or("the server has this part no longer", |e| &e.message);
        let missing = (0..self.image.facts.layout.parts()).filter(|part| !self.seen.contains(part));
        missing.for_each(|number| self.lose(&PartFile::new(number), reason));
    }

    /// Notes that `range` of the image is lost.
    fn lose_bytes(&self, range: Range<u64>, reason: &str) {
        if let Some(Err(error)) = self.target.map(|target| target.lose(range.clone())) {
            return self.fail(error);
        }
        let (offset, bytes) = (range.start, range.end - range.start);
        let next = LostRange { offset, bytes, reason: reason.to_owned() };
        let mut lost = self.restoration.lost.lock();
        match lost.last_mut() {
            Some(last) if last.goes_on_with(&next) => last.bytes += bytes,
            _ => lost.push(next),
        }
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
    let ends = pieces.iter().map(|piece| (piece.offset, piece.end()));
    for (start, end) in ends.chain([(bytes, bytes)]) {
        if start > filled {
            gaps.push(filled..start);
        }
        filled = end;
    }
    gaps
}

/// Part that gets its data.
struct PartFile {
    number: u64,
    /// Bytes of data so far.
    data_bytes: AtomicU64,
}

impl PartFile {
    fn new(number: u64) -> Self {
        Self { number, data_bytes: AtomicU64::new(0) }
    }
}

impl Destination for Parts<'_> {
    type File = PartFile;

    fn take(&mut self, entry: Entry) -> Option<PartFile> {
        let number = part_of(&entry.directory, &entry.object.name)?;
        let layout = self.image.facts.layout;
        if number >= layout.parts() || !self.seen.insert(number) {
            return None;
        }
        if self.done.contains(&number) {
            return None;
        }
        let part = PartFile::new(number);
        let range = layout.range(number);
        let is_right = entry.object.stat.size == range.end - range.start;
        let Some(pieces) = entry.pieces().filter(|_| is_right) else {
            self.lose(&part, "the data of this part is lost or damaged at the server");
            return None;
        };
        self.clear_gaps(&range, &pieces);
        (!pieces.is_empty()).then_some(part)
    }

    fn write(&self, part: &PartFile, chunk: &[u8], offset: u64) -> io::Result<()> {
        if let Some(target) = self.target {
            let start = self.image.facts.layout.range(part.number).start;
            target.write_at(chunk, start + offset).inspect_err(|error| {
                let copy = io::Error::new(error.kind(), error.to_string());
                self.fail(copy);
            })?;
        }
        part.data_bytes.fetch_add(chunk.len() as u64, Relaxed);
        self.progress.bytes.fetch_add(chunk.len() as u64, Relaxed);
        Ok(())
    }

    fn complete(&self, part: &PartFile) {
        self.progress.done.fetch_add(1, Relaxed);
        self.restoration.complete(part);
    }

    fn lose(&self, part: &PartFile, reason: &str) {
        self.progress.failed.fetch_add(1, Relaxed);
        self.lose_bytes(self.image.facts.layout.range(part.number), reason);
        self.restoration.complete(part);
    }

    /// The rest of a part is of use without a piece of it.
    fn lose_range(&self, part: &PartFile, range: Range<u64>, reason: &str) -> bool {
        let part = self.image.facts.layout.range(part.number);
        let within = |offset: u64| part.start.saturating_add(offset).min(part.end);
        self.lose_bytes(within(range.start)..within(range.end), reason);
        true
    }
}

/// Reader of any ranges of an image. It remembers what it has received lately.
pub struct ImageReader {
    ranges: Arc<RangeReader>,
    image: Image,
    stream: Mutex<ReadStream>,
}

/// Reads that follow each other.
#[derive(Default)]
struct ReadStream {
    end: u64,
    /// Number of bytes that were read.
    bytes: u64,
}

impl ReadStream {
    /// Notes a read of `range`. Returns the number of bytes after it that are fetched with it: as
    /// many as the stream has, so that a few reads in a row, as the kernel makes them when it looks
    /// for a file system or for the end of a journal, cost little.
    fn note(&mut self, range: &Range<u64>) -> u64 {
        // Several threads of the kernel read, so a read may be overtaken.
        if range.start.abs_diff(self.end) > self.bytes.min(AHEAD_BYTES) {
            *self = Self { end: range.start, bytes: 0 };
        }
        let ahead = self.bytes.min(AHEAD_BYTES);
        self.bytes = self.bytes.saturating_add(range.end - range.start);
        self.end = self.end.max(range.end);
        ahead
    }
}

impl ImageReader {
    pub(crate) fn new(link: Arc<Link>, image: Image) -> Self {
        Self::sharing(Arc::new(RangeReader::new(link)), image)
    }

    /// Makes a reader of `image` that shares the memory of what came lately with others.
    pub fn sharing(ranges: Arc<RangeReader>, image: Image) -> Self {
        Self { ranges, image, stream: Mutex::default() }
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the number of bytes that were received, for all readers that share the memory.
    pub fn bytes_transferred(&self) -> u64 {
        self.ranges.bytes_transferred()
    }

    /// Fills `buffer` from `offset` on. Bytes beyond the end of the image are zeros. Fails if the
    /// server cannot be reached, if it has lost the data, and if the disk did not give them: the
    /// zeros in their place were not on the disk.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ClientError> {
        buffer.fill(0);
        let layout = self.image.facts.layout;
        let end = offset.saturating_add(buffer.len() as u64).min(layout.bytes);
        if let Some(lost) = self.image.facts.unreadable_in(&(offset..end)) {
            let message = format!(
                "bytes {} to {} of the disk could not be read when the image was made",
                lost.start,
                lost.end.saturating_sub(1)
            );
            return Err(ClientError::new(ErrorKind::Damaged, message));
        }
        if offset >= end {
            return Ok(());
        }
        let ahead = self.stream.lock().note(&(offset..end));
        let mut at = offset;
        while at < end {
            let number = at / layout.part_bytes();
            let part = layout.range(number);
            let range = at - part.start..end.min(part.end) - part.start;
            let from = to_usize(at - offset);
            let to = from + to_usize(range.end - range.start);
            let place = self.place(number);
            let bytes_min = range.end - range.start + ahead;
            let read = self.ranges.read(
                (&place, self.image.taken),
                part.end - part.start,
                range,
                &mut buffer[from..to],
                bytes_min,
            );
            let (from, to) = (part.start, part.end);
            read.map_err(|error| error.about(&format!("bytes {from} to {to} of the image")))?;
            at = end.min(part.end);
        }
        Ok(())
    }

    /// Returns the range of the data that `offset` lies in, or of the next data after it, up to the
    /// next hole or the end of a part of the image. Returns `None` if a hole is all that follows.
    /// What could not be read from the disk is no hole.
    pub fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, ClientError> {
        let layout = self.image.facts.layout;
        let mut at = offset;
        while at < layout.bytes {
            let number = at / layout.part_bytes();
            let part = layout.range(number);
            let version = (&self.place(number), self.image.taken);
            let data = self.ranges.data_from(version, at - part.start)?;
            let data = data.map(|data| part.start + data.start..part.start + data.end);
            let hole = at..data.as_ref().map_or(part.end, |data| data.start.max(at));
            let lost = self.image.facts.unreadable_in(&hole).filter(|_| !hole.is_empty());
            if let Some(lost) = lost {
                return Ok(Some(lost.start.max(at)..lost.end.min(hole.end)));
            }
            if data.is_some() {
                return Ok(data);
            }
            at = part.end;
        }
        Ok(None)
    }

    /// Returns the place of the part `number`.
    fn place(&self, number: u64) -> ObjectPlace {
        let (directory, name) = (directory_of(number), name_of(number));
        ObjectPlace { filespace: self.image.filespace(), directory, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, bytes: u32) -> Piece {
        Piece { place: 0, offset, bytes, is_sealed: false }
    }

    /// A small file out of an image cost 8 MiB for each two reads in a row.
    #[test]
    fn a_stream_of_reads_fetches_as_much_ahead_as_it_has_read() {
        let mut stream = ReadStream::default();
        let mut note = |range: Range<u64>| stream.note(&range);
        assert_eq!(note(0..4096), 0, "the first read is no stream");
        assert_eq!(note(4096..8192), 4096);
        assert_eq!(note(1 << 30..(1 << 30) + 512), 0);
        assert_eq!(note(5000..5512), 0);
        let step: u64 = 128 << 10;
        let start: u64 = 1 << 20;
        let nth = |index: u64| start + index * step..start + (index + 1) * step;
        let ahead: Vec<u64> = (0..100).map(|index| note(nth(index))).collect();
        assert_eq!(ahead[..3], [0, step, 2 * step]);
        assert_eq!(ahead[99], AHEAD_BYTES);
        assert_eq!(note(nth(101)), AHEAD_BYTES, "the read before it is overtaken");
        assert_eq!(note(nth(100)), AHEAD_BYTES);
    }

    #[test]
    fn gaps_are_what_no_piece_fills() {
        assert_eq!(gaps(&[], 10), Vec::from([0..10]));
        assert_eq!(gaps(&[piece(0, 10)], 10), []);
        assert_eq!(gaps(&[piece(2, 3), piece(5, 1), piece(8, 1)], 10), [0..2, 6..8, 9..10]);
    }

    #[test]
    fn lost_ranges_that_touch_each_other_are_one() {
        let lost = |offset, bytes, reason: &str| {
            let reason = reason.to_owned();
            LostRange { offset, bytes, reason }
        };
        let ranges = [lost(20, 5, "a"), lost(0, 10, "a"), lost(10, 10, "a"), lost(25, 1, "b")];
        assert_eq!(joined(ranges.to_vec()), [lost(0, 25, "a"), lost(25, 1, "b")]);
    }
}
