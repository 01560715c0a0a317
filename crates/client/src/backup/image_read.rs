//! Reading of a part of an image: used runs are read, and chunks of zeros become holes.

use std::io;
use std::ops::Range;
use std::time::Duration;

use sys::huge_memory::HugeMemory;

use super::image_source::ImageSource;
use super::read::Sink;
use crate::image::{ImageLayout, UnreadableRange};

/// Maximum number of bytes that are read at once. A multiple of the length of a chunk.
const READ_BYTES: usize = 1 << 20;
/// Alignment on the device of reads that bypass the page cache.
const ALIGNMENT: u64 = 4096;
/// Two runs with at most this many bytes between them are read at once.
const GAP_BYTES: u64 = 64 << 10;

/// Ranges that could not be read, while they are found.
#[derive(Clone, Default, Debug)]
pub(super) struct Errors(Vec<UnreadableRange>);

impl Errors {
    fn note(&mut self, offset: u64, bytes: u64) {
        self.0.push(UnreadableRange { offset, bytes });
    }

    /// Forgets what was found in `part`, which was read again.
    pub(super) fn forget(&mut self, part: &Range<u64>) {
        self.0.retain(|range| !part.contains(&range.offset));
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the ranges in order. Neighbours are joined, and so is what was found twice.
    pub(super) fn into_ranges(mut self) -> Vec<UnreadableRange> {
        self.0.sort_by_key(|range| range.offset);
        let mut joined: Vec<UnreadableRange> = Vec::new();
        for range in self.0 {
            match joined.last_mut() {
                Some(last) if range.offset <= last.offset + last.bytes => {
                    let end = (range.offset + range.bytes).max(last.offset + last.bytes);
                    last.bytes = end - last.offset;
                }
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// Buffers of several readers. They are in huge pages, so that the kernel does not divide a read
/// into several requests to the device.
pub(super) struct ReadBuffers(HugeMemory);

impl ReadBuffers {
    pub(super) fn new(readers: usize) -> Self {
        Self(HugeMemory::new(readers * READ_BYTES))
    }

    /// Returns the buffer of each reader. It begins at an address that is a multiple of its length.
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.0.bytes().chunks_exact_mut(READ_BYTES)
    }
}

/// Reader of parts, with one buffer for all.
pub(super) struct PartReader<'a> {
    source: &'a dyn ImageSource,
    layout: ImageLayout,
    skips_errors: bool,
    buffer: &'a mut [u8],
    /// Time of reading, without the time of the sinks.
    pub(super) time: Duration,
}

impl<'a> PartReader<'a> {
    pub(super) fn new(
        source: &'a dyn ImageSource,
        layout: ImageLayout,
        skips_errors: bool,
        buffer: &'a mut [u8],
    ) -> Self {
        assert_eq!(buffer.len(), READ_BYTES, "the buffer is one of `ReadBuffers`");
        Self { source, layout, skips_errors, buffer, time: Duration::ZERO }
    }

    /// Reads `range`, which begins at a chunk, into `sink`. After each step, `step` is called with
    /// the number of bytes that were read and of those that are zeros; it returns false to end.
    pub(super) fn read(
        &mut self,
        range: Range<u64>,
        sink: &mut impl Sink,
        step: &mut dyn FnMut(u64, u64) -> bool,
    ) -> io::Result<Errors> {
        let mut errors = Errors::default();
        let mut hole = 0;
        let mut offset = range.start;
        while offset < range.end {
            let end = (offset + READ_BYTES as u64).min(range.end);
            let began = sys::clock::monotonic();
            let filled = self.fill(offset..end, &mut errors);
            self.time += began.elapsed();
            let read = filled?;
            let mut zeros = read;
            let data = &self.buffer[..to_usize(end - offset)];
            for chunk in data.chunks(to_usize(self.layout.chunk_bytes)) {
                if read == 0 || is_zero(chunk) {
                    hole += chunk.len() as u64;
                    continue;
                }
                if hole > 0 {
                    sink.hole(std::mem::take(&mut hole));
                }
                sink.chunk(chunk);
                zeros = zeros.saturating_sub(chunk.len() as u64);
            }
            if !step(read, zeros) {
                return Ok(errors);
            }
            offset = end;
        }
        if hole > 0 {
            sink.hole(hole);
        }
        Ok(errors)
    }

    /// Fills the buffer with the content of `range`, with zeros where nothing is used. Returns the
    /// number of bytes that were read; if it is 0, the buffer was left as it was.
    fn fill(&mut self, range: Range<u64>, errors: &mut Errors) -> io::Result<u64> {
        let runs = runs_within(self.source.used(), &range);
        if runs.is_empty() {
            return Ok(0);
        }
        let mut read = 0;
        let mut filled = range.start;
        for run in runs {
            self.at(&range, filled..run.start).fill(0);
            self.read_run(&range, run.clone(), errors)?;
            read += run.end - run.start;
            filled = run.end;
        }
        self.at(&range, filled..range.end).fill(0);
        Ok(read)
    }

    /// Returns the part of the buffer for `part` of `range`.
    fn at(&mut self, range: &Range<u64>, part: Range<u64>) -> &mut [u8] {
        let from = to_usize(part.start - range.start);
        &mut self.buffer[from..from + to_usize(part.end - part.start)]
    }

    fn read_run(
        &mut self,
        range: &Range<u64>,
        run: Range<u64>,
        errors: &mut Errors,
    ) -> io::Result<()> {
        let (source, skips_errors) = (self.source, self.skips_errors);
        if source.read_at(self.at(range, run.clone()), run.start).is_ok() {
            return Ok(());
        }
        fail_with(source)?;
        // Only some blocks of the run are bad.
        let mut offset = run.start;
        let mut found = false;
        while offset < run.end {
            let end = (offset + ALIGNMENT).min(run.end);
            let block = self.at(range, offset..end);
            if let Err(error) = source.read_at(block, offset) {
                // Short ranges that nobody uses are read only because a long read is quicker.
                let is_used = !runs_within(source.used(), &(offset..end)).is_empty();
                if is_used && !skips_errors {
                    let text = format!("at offset {offset}: {}", model::chain(&error));
                    return Err(io::Error::new(error.kind(), text));
                }
                block.fill(0);
                found = true;
                if is_used {
                    errors.note(offset, end - offset);
                }
            }
            offset = end;
        }
        if found {
            // The source may have failed among the blocks.
            fail_with(source)?;
        }
        // An error that has passed leaves nothing to note: the blocks have been read one by one.
        Ok(())
    }
}

/// Fails if all of the source is lost: its blocks are not bad blocks, which may be skipped.
fn fail_with(source: &dyn ImageSource) -> io::Result<()> {
    source.failure().map_or(Ok(()), |reason| Err(io::Error::other(reason)))
}

/// Returns the parts of `used` in `range`, with whole blocks. Runs that are close to each other are
/// joined.
fn runs_within(used: &[Range<u64>], range: &Range<u64>) -> Vec<Range<u64>> {
    let first = used.partition_point(|run| run.end <= range.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for run in used[first..].iter().take_while(|run| run.start < range.end) {
        let start = run.start.max(range.start) / ALIGNMENT * ALIGNMENT;
        let end = run.end.next_multiple_of(ALIGNMENT).min(range.end);
        match runs.last_mut() {
            Some(last) if start <= last.end + GAP_BYTES => last.end = end.max(last.end),
            _ => runs.push(start..end),
        }
    }
    runs
}

/// Returns true if `bytes` are zeros.
fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("lengths of buffers fit")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::image::{ImageDescription, ImageStillness};

    /// Source in memory, of which some blocks cannot be read.
    struct Memory {
        content: Vec<u8>,
        used: Vec<Range<u64>>,
        bad: Vec<u64>,
        /// True if all of it is lost after the first error.
        is_snapshot: bool,
    }

    impl ImageSource for Memory {
        fn bytes(&self) -> u64 {
            self.content.len() as u64
        }

        fn used(&self) -> &[Range<u64>] {
            &self.used
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            assert!(offset.is_multiple_of(ALIGNMENT), "reads begin at blocks");
            assert_eq!(buffer.as_ptr().align_offset(4096), 0, "memory is aligned");
            let end = offset + buffer.len() as u64;
            if self.bad.iter().any(|bad| (offset..end).contains(bad)) {
                return Err(io::Error::other("a bad block"));
            }
            buffer.copy_from_slice(&self.content[to_usize(offset)..to_usize(end)]);
            Ok(())
        }

        fn failure(&self) -> Option<String> {
            self.is_snapshot.then(|| "the snapshot is lost".to_owned())
        }

        fn describe(&self) -> io::Result<ImageDescription> {
            let (kind, holds, host) = ("memory".to_owned(), None, String::new());
            let stillness = ImageStillness::Unchanged;
            let (leaves_out_unused, snapshot) = (false, None);
            Ok(ImageDescription { stillness, leaves_out_unused, kind, holds, host, snapshot })
        }
    }

    /// Sink that puts everything together again.
    #[derive(Default)]
    struct Together {
        content: Vec<u8>,
        chunks: usize,
    }

    impl Sink for Together {
        fn chunk(&mut self, chunk: &[u8]) {
            assert!(!is_zero(chunk), "zeros are holes");
            self.content.extend(chunk);
            self.chunks += 1;
        }

        fn hole(&mut self, bytes: u64) {
            self.content.resize(self.content.len() + to_usize(bytes), 0);
        }
    }

    fn read(memory: &Memory, skips_errors: bool) -> io::Result<(Together, Vec<UnreadableRange>)> {
        let layout = ImageLayout::of(memory.bytes());
        let mut buffers = ReadBuffers::new(1);
        let buffer = buffers.each().next().expect("a buffer");
        let mut reader = PartReader::new(memory, layout, skips_errors, buffer);
        let mut sink = Together::default();
        let errors = reader.read(0..memory.bytes(), &mut sink, &mut |_, _| true)?;
        assert!(reader.time > Duration::ZERO, "a read takes time");
        Ok((sink, errors.into_ranges()))
    }

    #[test]
    fn only_what_is_used_is_read() {
        let content = vec![7; 3 << 20];
        let used = vec![100..200, (2 << 20) + 5000..(2 << 20) + 6000];
        let memory = Memory { content, used, bad: vec![1 << 20], is_snapshot: false };
        let (sink, errors) = read(&memory, false).expect("the bad block is not used");
        assert!(errors.is_empty());
        assert_eq!(sink.chunks, 2);
        let mut expected = vec![0; 3 << 20];
        expected[..4096].fill(7);
        expected[(2 << 20) + 4096..(2 << 20) + 8192].fill(7);
        assert!(sink.content == expected);
    }

    #[test]
    fn a_bad_block_between_two_used_ones_does_not_matter() {
        let mut content = vec![7; 1 << 20];
        let used = vec![0..4096, 12_288..16_384];
        let bad = vec![8192];
        let memory = Memory { content: content.clone(), used, bad, is_snapshot: false };
        let (sink, errors) = read(&memory, false).expect("all that is used is read");
        assert!(errors.is_empty());
        content[8192..12_288].fill(0);
        content[16_384..].fill(0);
        assert!(sink.content == content);
    }

    #[test]
    fn ranges_that_are_found_twice_count_once() {
        let mut errors = Errors::default();
        for (offset, bytes) in [(8192, 4096), (0, 4096), (8192, 4096), (12_288, 4096)] {
            errors.note(offset, bytes);
        }
        let range = |offset, bytes| UnreadableRange { offset, bytes };
        assert_eq!(errors.into_ranges(), [range(0, 4096), range(8192, 8192)]);
    }

    #[test]
    fn an_error_is_named_with_its_offset_or_skipped() {
        let used = Vec::from([0..1 << 20]);
        let bad = vec![8192, 12_288, 40_960];
        let mut memory = Memory { content: vec![7; 1 << 20], used, bad, is_snapshot: false };
        let error = read(&memory, false).map(|_| ()).expect_err("a bad block");
        assert_eq!(error.to_string(), "at offset 8192: a bad block");
        let (sink, errors) = read(&memory, true).expect("skipped");
        let range = |offset, bytes| UnreadableRange { offset, bytes };
        assert_eq!(errors, [range(8192, 8192), range(40_960, 4096)]);
        let zeros = sink.content.iter().filter(|byte| **byte == 0).count();
        assert_eq!(zeros, 3 * 4096);
        memory.is_snapshot = true;
        let error = read(&memory, true).map(|_| ()).expect_err("nothing can be skipped");
        assert_eq!(error.to_string(), "the snapshot is lost");
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_is_used(
            length in 1_usize..3_000_000,
            cuts in prop::collection::btree_set(0_u64..3_000_000, 0..20),
            stamps in prop::collection::vec((0_usize..3_000_000, any::<u8>()), 0..20),
        ) {
            let mut content = vec![0; length];
            for (at, byte) in stamps {
                if let Some(place) = content.get_mut(at) {
                    *place = byte;
                }
            }
            let cuts: Vec<u64> = cuts.into_iter().filter(|cut| *cut <= length as u64).collect();
            let used: Vec<Range<u64>> =
                cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            let memory = Memory { content, used, bad: Vec::new(), is_snapshot: false };
            let (sink, _) = read(&memory, false).expect("read");
            prop_assert_eq!(sink.content.len(), length);
            for run in &memory.used {
                let run = to_usize(run.start)..to_usize(run.end);
                prop_assert!(sink.content[run.clone()] == memory.content[run]);
            }
        }
    }
}
