//! Windows: the chunks that the files of a window need, and the files that still lack chunks.
//!
//! 1. Places, offsets and lengths come from the server. They are compared and looked up, and a sum
//!    that they do not have is never computed.
//! 2. A window needs at most [`PIECES_MAX`] pieces, and gets at most a few messages more than it
//!    needs pieces.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

use chunk::{RawQuantum, UnsealError};

use super::destination::Destination;
use crate::error::{ClientError, ErrorKind};
use crate::link::bounds::Size;
use crate::link::versions::Piece;

/// File of a window that needs data.
struct WindowFile<F> {
    file: F,
    /// Number of pieces that have not arrived; 0 after the file was completed or lost.
    missing: AtomicU32,
}

/// Checker of the chunks of a quantum, before they are written.
pub(super) trait Checker {
    /// Returns true if the chunk at `index` has the digest that the server has sent for it.
    fn is_right(&self, index: usize, chunk: &[u8]) -> bool;

    /// Decrypts a sealed chunk of `bytes` bytes.
    fn unseal(&mut self, sealed: &[u8], bytes: u32) -> Result<Vec<u8>, UnsealError>;
}

/// Need of a file for a piece.
struct Need {
    piece: Piece,
    /// Index of the file in the window.
    file: u32,
    /// True after the piece has arrived. A quantum may come twice.
    has_arrived: AtomicBool,
}

/// Chunks that follow each other in a quantum and in a file.
struct Run<'a> {
    file: u32,
    /// Offset in the file.
    offset: u64,
    /// Number of chunks in the run.
    pieces: u32,
    /// Offset in the quantum.
    begin: usize,
    bytes: &'a [u8],
}

impl Run<'_> {
    /// Returns true if the chunk at `begin` in the quantum, and at `offset` of `file`, follows this
    /// run.
    fn goes_on(&self, file: u32, offset: u64, begin: usize) -> bool {
        let bytes = self.bytes.len();
        let end = self.offset.checked_add(bytes as u64);
        (self.file, end, self.begin + bytes) == (file, Some(offset), begin)
    }
}

/// Window of a restore.
///
/// Invariant: `needs` is sorted by place. A piece is put at most once for each need. A file is
/// completed or lost, and only once.
pub(super) struct Window<F> {
    needs: Vec<Need>,
    files: Vec<WindowFile<F>>,
    size: Size,
    /// Number of messages with data that may still arrive.
    messages_left: AtomicU64,
}

/// Maximum number of pieces of a small window.
const SMALL_PIECES_MAX: usize = 4;
/// Maximum number of pieces of a window. One message has the lengths of fewer chunks, if all chunks
/// but the last of a file have the minimum length.
const PIECES_MAX: usize = 12 << 20;
/// Number of messages with data that a window without needs may get. A quantum or a report of
/// damage has at least one piece that the window needs, and may come twice.
const MESSAGES_MIN: u64 = 16;

impl<F> Window<F> {
    /// Returns true if the window needs few pieces.
    pub(super) fn is_small(&self) -> bool {
        self.needs.len() <= SMALL_PIECES_MAX
    }

    /// Returns the size of the window's entries.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Counts a message with data. Fails if the server sends more of them than the window needs.
    pub(super) fn count_message(&self) -> Result<(), ClientError> {
        let take = |left: u64| left.checked_sub(1);
        let counted = self.messages_left.fetch_update(Relaxed, Relaxed, take);
        counted.map(drop).map_err(|_| {
            ClientError::new(ErrorKind::Bug, "the server sent data that was not asked for")
        })
    }

    /// Returns the needs of the `count` chunks from `place` on.
    fn needs_from(&self, place: u64, count: u32) -> &[Need] {
        let from = self.needs.partition_point(|need| need.piece.place < place);
        let is_before_end = |need: &Need| need.piece.place - place < u64::from(count);
        let to = from + self.needs[from..].partition_point(is_before_end);
        &self.needs[from..to]
    }

    /// Hands the chunks of `quantum`, whose first chunk is at `first_place`, to the files that need
    /// them. `checker` checks each chunk before, and decrypts sealed chunks. Chunks that follow
    /// each other both in the quantum and in a file are written together.
    pub(super) fn put<D: Destination<File = F>>(
        &self,
        destination: &D,
        first_place: u64,
        quantum: &RawQuantum,
        checker: &mut impl Checker,
    ) {
        let count = u32::try_from(quantum.lengths().len()).unwrap_or(u32::MAX);
        // Needs of this chunk and of the chunks after it.
        let mut rest = self.needs_from(first_place, count);
        let mut run: Option<Run<'_>> = None;
        let mut end = 0;
        for (index, chunk) in quantum.chunks().enumerate() {
            let begin = end;
            end += chunk.len();
            // A quantum whose chunks lie beyond the last place is refused when it arrives.
            let Some(place) = first_place.checked_add(index as u64) else { break };
            let is_of_chunk = |need: &&Need| need.piece.place == place;
            let (needs, others) = rest.split_at(rest.iter().take_while(is_of_chunk).count());
            rest = others;
            if needs.is_empty() {
                continue;
            }
            if !checker.is_right(index, chunk) {
                self.lose(destination, place, 1, "the content differs from its digest");
                continue;
            }
            for need in needs {
                let Need { piece, file, has_arrived } = need;
                if has_arrived.swap(true, Relaxed) {
                    continue;
                }
                if piece.is_sealed {
                    match checker.unseal(chunk, piece.bytes) {
                        Ok(opened) => self.put_pieces(destination, *file, 1, |file| {
                            destination.write(file, &opened, piece.offset)
                        }),
                        Err(error) => self.lose_piece(destination, need, &error.to_string()),
                    }
                    continue;
                }
                if chunk.len() != piece.bytes as usize {
                    self.lose_piece(destination, need, "a chunk has another length than stated");
                    continue;
                }
                if let Some(run) = &mut run
                    && run.goes_on(*file, piece.offset, begin)
                {
                    run.bytes = &quantum.data()[run.begin..end];
                    run.pieces += 1;
                    continue;
                }
                let offset = piece.offset;
                let next = Run { file: *file, offset, pieces: 1, begin, bytes: chunk };
                if let Some(run) = run.replace(next) {
                    self.put_run(destination, &run);
                }
            }
        }
        if let Some(run) = run {
            self.put_run(destination, &run);
        }
    }

    fn put_run<D: Destination<File = F>>(&self, destination: &D, run: &Run<'_>) {
        self.put_pieces(destination, run.file, run.pieces, |file| {
            destination.write(file, run.bytes, run.offset)
        });
    }

    /// Calls `write` to write `pieces` pieces of a file.
    fn put_pieces<D: Destination<File = F>>(
        &self,
        destination: &D,
        file: u32,
        pieces: u32,
        write: impl FnOnce(&F) -> io::Result<()>,
    ) {
        let needy = &self.files[file as usize];
        assert!(pieces > 0, "a write has at least one piece");
        if needy.missing.load(Relaxed) == 0 {
            return;
        }
        if let Err(error) = write(&needy.file) {
            return self.lose_file(destination, file, &error.to_string());
        }
        self.count_down(destination, file, pieces);
    }

    /// Counts pieces that have been written, or without which the file goes on.
    fn count_down<D: Destination<File = F>>(&self, destination: &D, file: u32, pieces: u32) {
        let needy = &self.files[file as usize];
        // The count follows the write, so the thread that counts down to zero knows that all pieces
        // are written. A file that was lost meanwhile has no count that could go down.
        let counted = needy
            .missing
            .fetch_update(AcqRel, Relaxed, |missing| missing.checked_sub(pieces));
        if counted == Ok(pieces) {
            destination.complete(&needy.file);
        }
    }

    /// Reports as lost what needs one of the `count` chunks from `place` on.
    pub(super) fn lose<D: Destination<File = F>>(
        &self,
        destination: &D,
        place: u64,
        count: u32,
        reason: &str,
    ) {
        for need in self.needs_from(place, count) {
            self.lose_need(destination, need, reason);
        }
    }

    /// Loses a piece, unless it has arrived from elsewhere.
    fn lose_need<D: Destination<File = F>>(&self, destination: &D, need: &Need, reason: &str) {
        if !need.has_arrived.swap(true, Relaxed) {
            self.lose_piece(destination, need, reason);
        }
    }

    /// Loses a piece, and the file too if the rest of it is of no use.
    fn lose_piece<D: Destination<File = F>>(&self, destination: &D, need: &Need, reason: &str) {
        let needy = &self.files[need.file as usize];
        if needy.missing.load(Relaxed) == 0 {
            return;
        }
        let Piece { offset, bytes, .. } = need.piece;
        let range = offset..offset.saturating_add(u64::from(bytes));
        match destination.lose_range(&needy.file, range, reason) {
            true => self.count_down(destination, need.file, 1),
            false => self.lose_file(destination, need.file, reason),
        }
    }

    fn lose_file<D: Destination<File = F>>(&self, destination: &D, file: u32, reason: &str) {
        let needy = &self.files[file as usize];
        if needy.missing.swap(0, AcqRel) > 0 {
            destination.lose(&needy.file, reason);
        }
    }

    /// Reports as lost what has not arrived at the end of the window's data.
    pub(super) fn lose_rest<D: Destination<File = F>>(&self, destination: &D) {
        const REASON: &str = "the server did not send all data of the file";
        if self.files.iter().all(|needy| needy.missing.load(Relaxed) == 0) {
            return;
        }
        for need in &self.needs {
            self.lose_need(destination, need, REASON);
        }
        for (number, _) in (0..).zip(&self.files) {
            self.lose_file(destination, number, REASON);
        }
    }
}

/// Window whose entries are arriving.
pub(super) struct WindowBuilder<F> {
    needs: Vec<Need>,
    files: Vec<WindowFile<F>>,
    /// A bit for each entry, lowest bit first. It is set if the entry's data is needed.
    bits: Vec<u8>,
    objects: usize,
    size: Size,
}

impl<F> WindowBuilder<F> {
    pub(super) fn new() -> Self {
        let size = Size::default();
        Self { needs: Vec::new(), files: Vec::new(), bits: Vec::new(), objects: 0, size }
    }

    /// Counts the size of entries that are added.
    pub(super) fn count(&mut self, size: Size) {
        self.size = self.size.plus(size);
    }

    /// Returns true if the window has room for `pieces` more pieces.
    pub(super) fn has_room_for(&self, pieces: usize) -> bool {
        pieces <= PIECES_MAX - self.needs.len()
    }

    /// Adds an entry. `file` receives the entry's data, if the data is needed.
    pub(super) fn add(&mut self, file: Option<F>, pieces: Option<&[Piece]>) {
        let position = self.objects;
        self.objects += 1;
        self.bits.resize(self.objects.div_ceil(8), 0);
        let (Some(file), Some(pieces)) = (file, pieces) else { return };
        self.bits[position / 8] |= 1 << (position % 8);
        let number = u32::try_from(self.files.len()).expect("a window is bounded");
        assert!(self.has_room_for(pieces.len()), "the caller has looked for room");
        self.needs.extend(pieces.iter().map(|&piece| Need {
            piece,
            file: number,
            has_arrived: AtomicBool::new(false),
        }));
        let missing = u32::try_from(pieces.len()).expect("the pieces of a window are bounded");
        let missing = AtomicU32::new(missing);
        self.files.push(WindowFile { file, missing });
    }

    /// Returns the window, and a bit for each entry, which is set if the entry's data is needed.
    pub(super) fn finish(mut self) -> (Window<F>, Vec<u8>) {
        assert_eq!(self.bits.len(), self.objects.div_ceil(8), "a bit for each entry");
        self.needs.sort_unstable_by_key(|need| (need.piece.place, need.file));
        let messages_left = AtomicU64::new(self.needs.len() as u64 * 2 + MESSAGES_MIN);
        let Self { needs, files, size, .. } = self;
        (Window { needs, files, size, messages_left }, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use sys::lock::Mutex;

    use super::*;

    /// Destination that records the writes to files and their ends, by the number of the file.
    #[derive(Default)]
    struct RecordingDestination {
        notes: Mutex<Vec<(usize, String)>>,
        /// True if files go on without what is lost.
        goes_on: bool,
    }

    impl RecordingDestination {
        fn note(&self, file: usize, what: String) {
            self.notes.lock().push((file, what));
        }

        fn of(&self, file: usize) -> Vec<String> {
            let all = self.notes.lock();
            all.iter().filter(|(of, _)| *of == file).map(|(_, what)| what.clone()).collect()
        }
    }

    impl Destination for RecordingDestination {
        type File = usize;

        fn take(&mut self, _: crate::link::versions::Entry) -> Option<usize> {
            None
        }

        fn write(&self, file: &usize, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.note(*file, format!("{offset}:{}", bytes.escape_ascii()));
            if bytes.starts_with(b"full") { Err(io::Error::other("no room")) } else { Ok(()) }
        }

        fn complete(&self, file: &usize) {
            self.note(*file, "whole".to_owned());
        }

        fn lose(&self, file: &usize, reason: &str) {
            self.note(*file, reason.to_owned());
        }

        fn lose_range(&self, file: &usize, range: Range<u64>, reason: &str) -> bool {
            if self.goes_on {
                self.note(*file, format!("{range:?}: {reason}"));
            }
            self.goes_on
        }
    }

    /// Checker that calls a chunk damaged if its text is `damaged`. Chunks in capitals are sealed.
    struct TextChecker;

    impl Checker for TextChecker {
        fn is_right(&self, _: usize, chunk: &[u8]) -> bool {
            chunk != b"damaged"
        }

        fn unseal(&mut self, sealed: &[u8], _: u32) -> Result<Vec<u8>, UnsealError> {
            Ok(sealed.to_ascii_lowercase())
        }
    }

    const FIRST_PLACE: u64 = 100;

    /// Puts a quantum of `chunks` into `files`. Each file is a list of the chunks that it needs:
    /// index in the quantum, and offset in the file.
    fn put(chunks: &[&[u8]], files: &[&[(u64, u64)]]) -> RecordingDestination {
        put_into(RecordingDestination::default(), chunks, files)
    }

    fn put_into(
        written: RecordingDestination,
        chunks: &[&[u8]],
        files: &[&[(u64, u64)]],
    ) -> RecordingDestination {
        let mut quantum = RawQuantum::default();
        chunks.iter().for_each(|chunk| _ = quantum.push(chunk));
        let mut builder = WindowBuilder::new();
        for (number, pieces) in files.iter().enumerate() {
            let piece = |&(index, offset): &(u64, u64)| {
                let chunk = chunks.get(usize::try_from(index).unwrap());
                let is_sealed = chunk.is_some_and(|chunk| chunk.is_ascii() && chunk[0] < b'a');
                let bytes = chunk.map_or(3, |chunk| u32::try_from(chunk.len()).unwrap());
                Piece { place: FIRST_PLACE + index, offset, bytes, is_sealed }
            };
            let pieces: Vec<Piece> = pieces.iter().map(piece).collect();
            builder.add(Some(number), Some(&pieces));
        }
        let (window, _) = builder.finish();
        window.put(&written, FIRST_PLACE, &quantum, &mut TextChecker);
        window.lose_rest(&written);
        written
    }

    #[test]
    fn what_lies_together_is_written_together() {
        let chunks: &[&[u8]] = &[b"abc", b"def", b"ghi", b"jkl"];
        let written = put(chunks, &[&[(0, 0), (1, 3), (2, 6)], &[(3, 9)]]);
        assert_eq!(written.of(0), ["0:abcdefghi", "whole"]);
        assert_eq!(written.of(1), ["9:jkl", "whole"]);
        // A gap in the quantum, a gap in the file, and another order.
        let written = put(chunks, &[&[(0, 0), (2, 3)], &[(1, 0), (3, 9)]]);
        assert_eq!(written.of(0), ["0:abc", "3:ghi", "whole"]);
        assert_eq!(written.of(1), ["0:def", "9:jkl", "whole"]);
        let written = put(chunks, &[&[(0, 3), (1, 0)]]);
        assert_eq!(written.of(0), ["3:abc", "0:def", "whole"]);
    }

    #[test]
    fn a_chunk_goes_wherever_it_is_needed() {
        let chunks: &[&[u8]] = &[b"abc", b"DEF", b"ghi"];
        let written = put(chunks, &[&[(0, 0), (0, 3), (1, 6), (2, 9)], &[(0, 0), (2, 3)]]);
        assert_eq!(written.of(0), ["0:abc", "3:abc", "6:def", "9:ghi", "whole"]);
        assert_eq!(written.of(1), ["0:abc", "3:ghi", "whole"]);
    }

    #[test]
    fn a_quantum_that_comes_twice_changes_nothing() {
        let mut quantum = RawQuantum::default();
        quantum.push(b"abc");
        let piece = Piece { place: FIRST_PLACE, offset: 0, bytes: 3, is_sealed: false };
        let mut builder = WindowBuilder::new();
        builder.add(Some(0), Some(&[piece]));
        let (window, bits) = builder.finish();
        assert_eq!(bits, [1]);
        let written = RecordingDestination::default();
        window.put(&written, FIRST_PLACE, &quantum, &mut TextChecker);
        window.put(&written, FIRST_PLACE, &quantum, &mut TextChecker);
        assert_eq!(written.of(0), ["0:abc", "whole"]);
    }

    #[test]
    fn a_file_that_lacks_something_is_never_whole() {
        let chunks: &[&[u8]] = &[b"abc", b"damaged", b"ghi", b"full"];
        let written = put(chunks, &[&[(0, 0), (1, 3), (2, 10)], &[(3, 0), (0, 4)], &[(2, 0)]]);
        let reason = "the content differs from its digest";
        assert!(written.of(0).contains(&reason.to_owned()));
        assert!(!written.of(0).contains(&"whole".to_owned()));
        assert_eq!(written.of(1).last().unwrap(), "no room");
        assert_eq!(written.of(2), ["0:ghi", "whole"]);
        // The quantum with the last chunk of the file does not arrive.
        let written = put(&chunks[..1], &[&[(0, 0), (7, 3)]]);
        assert_eq!(written.of(0), ["0:abc", "the server did not send all data of the file"]);
    }

    #[test]
    fn a_file_that_goes_on_lacks_only_what_was_lost() {
        let going_on = RecordingDestination { goes_on: true, ..Default::default() };
        let chunks: &[&[u8]] = &[b"abc", b"damaged", b"ghi"];
        let written = put_into(going_on, chunks, &[&[(0, 0), (1, 3), (2, 10), (7, 13)]]);
        assert_eq!(
            written.of(0),
            [
                "3..10: the content differs from its digest",
                "0:abc",
                "10:ghi",
                "13..16: the server did not send all data of the file",
                "whole",
            ]
            .map(str::to_owned)
        );
    }

    #[test]
    fn a_quantum_that_comes_twice_does_not_stand_for_another() {
        let mut quantum = RawQuantum::default();
        quantum.push(b"abc");
        let mut builder = WindowBuilder::new();
        let piece = |place, offset| Piece { place, offset, bytes: 3, is_sealed: false };
        builder.add(Some(0), Some(&[piece(1, 0), piece(9, 3)]));
        let (window, _) = builder.finish();
        let written = RecordingDestination::default();
        window.put(&written, 1, &quantum, &mut TextChecker);
        window.put(&written, 1, &quantum, &mut TextChecker);
        assert_eq!(written.of(0), ["0:abc"]);
        window.put(&written, 9, &quantum, &mut TextChecker);
        assert_eq!(written.of(0), ["0:abc", "3:abc", "whole"]);
    }

    #[test]
    fn a_file_that_is_whole_is_lost_no_more() {
        let mut quantum = RawQuantum::default();
        quantum.push(b"abc");
        let window = window(1, 0);
        let written = RecordingDestination::default();
        window.put(&written, 1, &quantum, &mut TextChecker);
        window.lose(&written, 1, 1, "gone");
        window.lose_rest(&written);
        assert_eq!(written.of(0), ["0:abc", "whole"]);
    }

    /// Makes a window with one file that needs three bytes at `offset`, from the chunk at `place`.
    fn window(place: u64, offset: u64) -> Window<usize> {
        let mut builder = WindowBuilder::new();
        builder.add(Some(0), Some(&[Piece { place, offset, bytes: 3, is_sealed: false }]));
        builder.finish().0
    }

    #[test]
    fn places_and_offsets_at_the_end_of_all_numbers_are_no_fault() {
        let mut quantum = RawQuantum::default();
        [b"abc", b"def"].iter().for_each(|chunk| _ = quantum.push(*chunk));
        let written = RecordingDestination::default();
        window(u64::MAX, u64::MAX - 3).put(&written, u64::MAX, &quantum, &mut TextChecker);
        assert_eq!(written.of(0), [&format!("{}:abc", u64::MAX - 3), "whole"]);
        // The run ends beyond the last offset.
        let mut builder = WindowBuilder::new();
        let piece = |place| Piece { place, offset: u64::MAX - 1, bytes: 3, is_sealed: false };
        builder.add(Some(0), Some(&[piece(1), piece(2)]));
        let written = RecordingDestination::default();
        builder.finish().0.put(&written, 1, &quantum, &mut TextChecker);
        assert_eq!(written.of(0).len(), 3);
    }

    #[test]
    fn damage_of_any_number_of_chunks_is_looked_up_at_once() {
        for (place, first, count, is_lost) in [
            (5, 0, u32::MAX, true),
            (5, 5, 1, true),
            (5, 6, u32::MAX, false),
            (5, 0, 5, false),
            (u64::MAX, u64::MAX, u32::MAX, true),
            (u64::MAX, u64::MAX - 1, u32::MAX, true),
        ] {
            let lost = RecordingDestination::default();
            window(place, 0).lose(&lost, first, count, "gone");
            assert_eq!(!lost.of(0).is_empty(), is_lost, "{place} {first} {count}");
        }
    }

    #[test]
    fn a_chunk_with_another_length_is_not_written() {
        let mut quantum = RawQuantum::default();
        quantum.push(b"abcd");
        let written = RecordingDestination::default();
        window(1, 0).put(&written, 1, &quantum, &mut TextChecker);
        assert_eq!(written.of(0), ["a chunk has another length than stated"]);
    }

    #[test]
    fn data_that_nobody_needs_ends_the_restore() {
        let window = window(1, 0);
        let counted = std::iter::repeat_with(|| window.count_message()).take(1000);
        let taken = counted.take_while(Result::is_ok).count() as u64;
        assert_eq!(taken, 2 + MESSAGES_MIN);
        assert_eq!(window.count_message().expect_err("too many").kind, ErrorKind::Bug);
    }
}
