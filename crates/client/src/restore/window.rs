//! A window of entries: which chunk goes to which file, and what each file still lacks.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::AcqRel, Ordering::Relaxed};

use chunk::RawQuantum;
use format::{Reader, page};
use model::{DirPath, Extent, Object, Payload, PlaceCode as _, ServerTime};
use wire::proto;

use super::Destination;
use crate::{ClientError, ErrorKind, has_data};

/// An object as the server sent it.
pub(crate) struct Entry {
    pub(crate) directory: DirPath,
    pub(crate) object: Object,
    pub(crate) deactivated: Option<ServerTime>,
    /// The length of each chunk; 0 where the server cannot tell.
    pub(crate) chunk_lengths: Vec<u32>,
}

/// A chunk of a file: its place's code, where in the file it belongs, its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) place: u64,
    pub(crate) offset: u64,
    /// What it adds to the file.
    pub(crate) bytes: u32,
    /// Whether what was sent is encrypted.
    pub(crate) is_sealed: bool,
}

impl Piece {
    /// Whether it holds some of the bytes in `range`.
    fn is_within(&self, range: &Range<u64>) -> bool {
        self.offset < range.end && self.offset + u64::from(self.bytes) > range.start
    }
}

/// Where a file's data lies; `None` where that cannot be told because a pack is lost.
pub(crate) type Pieces = Option<Vec<Piece>>;

impl Entry {
    /// The pieces of the object's data, in order.
    pub(crate) fn extents(&self) -> Pieces {
        let Payload::Extents(extents) = &self.object.payload else { return Some(Vec::new()) };
        let mut lengths = self.chunk_lengths.iter();
        let mut pieces = Vec::with_capacity(self.chunk_lengths.len());
        let mut offset = 0_u64;
        for extent in extents {
            match extent {
                Extent::Hole { bytes } => offset = offset.checked_add(*bytes)?,
                Extent::Chunks(range) => {
                    for number in 0..u64::from(range.count) {
                        let length = *lengths.next().filter(|&&length| length > 0)?;
                        let place = range.first.code() + number;
                        pieces.push(Piece { place, offset, bytes: length, is_sealed: false });
                        offset = offset.checked_add(u64::from(length))?;
                    }
                }
                Extent::Sealed { place, bytes } => {
                    lengths.next().filter(|&&length| length > 0)?;
                    let (place, bytes) = (place.code(), *bytes);
                    pieces.push(Piece { place, offset, bytes, is_sealed: true });
                    offset = offset.checked_add(u64::from(bytes))?;
                }
            }
        }
        (offset == self.object.stat.size).then_some(pieces)
    }

    /// Those of the pieces that hold some of the bytes in `range`.
    pub(crate) fn pieces_within(&self, range: &Range<u64>) -> Pieces {
        let mut pieces = self.extents()?;
        pieces.retain(|piece| piece.is_within(range));
        Some(pieces)
    }
}

/// Takes a message apart.
pub(crate) fn decode(message: &proto::DirectoryVersions) -> Result<Vec<Entry>, ClientError> {
    let damaged = |what: &dyn std::fmt::Display| {
        ClientError::new(ErrorKind::Damaged, format!("the server sent a damaged page: {what}"))
    };
    let directory = DirPath::new(&message.directory).map_err(|error| damaged(&error))?;
    let objects: Vec<Object> = page::decode(&message.page).map_err(|error| damaged(&error))?;
    let mut lengths = Reader::new(&message.chunk_lengths, "chunk lengths");
    let mut entries = Vec::with_capacity(objects.len());
    for (at, object) in objects.into_iter().enumerate() {
        let chunk_count = match &object.payload {
            Payload::Extents(extents) if has_data(object.stat.kind, object.stat.size) => {
                extents.iter().map(chunks).sum()
            }
            _ => 0,
        };
        let known = if lengths.rest().is_empty() { 0 } else { chunk_count };
        let chunk_lengths = (0..known)
            .map(|_| lengths.number::<u32>())
            .collect::<Result<_, _>>()
            .map_err(|error| damaged(&error))?;
        let deactivated = message.deactivated.get(at).copied().filter(|time| *time != 0);
        let directory = directory.clone();
        let deactivated = deactivated.map(ServerTime);
        entries.push(Entry { directory, object, deactivated, chunk_lengths });
    }
    Ok(entries)
}

fn chunks(extent: &Extent) -> u32 {
    extent.chunks().map_or(0, |range| range.count)
}

/// A file of the window that is wanted.
struct Wanted<F> {
    file: F,
    /// Pieces that have not come.
    missing: AtomicU32,
    is_lost: AtomicBool,
}

/// Looks at the chunks of a quantum before they are written.
pub(crate) trait Checker {
    /// Whether the chunk at `index` is what the server says it is.
    fn is_right(&self, index: usize, chunk: &[u8]) -> bool;

    /// The `bytes` that the sealed chunk stands for.
    fn unseal(&mut self, sealed: &[u8], bytes: u32) -> Result<Vec<u8>, String>;
}

/// A file of the window needs a piece.
struct Need {
    piece: Piece,
    file: u32,
}

/// Chunks that follow each other in a quantum as they do in a file.
struct Run<'a> {
    file: u32,
    /// In the file.
    offset: u64,
    pieces: u32,
    /// In the quantum.
    begin: usize,
    bytes: &'a [u8],
}

impl Run<'_> {
    /// Whether a chunk that lies at `begin` in the quantum, and at `offset` of `file`, is next.
    fn goes_on(&self, file: u32, offset: u64, begin: usize) -> bool {
        let bytes = self.bytes.len();
        (self.file, self.offset + bytes as u64, self.begin + bytes) == (file, offset, begin)
    }
}

/// What the quanta of a window are for.
///
/// Invariant: `needs` is sorted by place; a piece is put or lost at most once a need.
pub(crate) struct Window<F> {
    needs: Vec<Need>,
    files: Vec<Wanted<F>>,
}

/// Pieces up to which a window is small.
const SMALL_PIECES_MAX: usize = 4;

impl<F> Window<F> {
    /// Whether there is little in it.
    pub(crate) fn is_small(&self) -> bool {
        self.needs.len() <= SMALL_PIECES_MAX
    }

    fn needs_at(&self, place: u64) -> &[Need] {
        let from = self.needs.partition_point(|need| need.piece.place < place);
        let to = from + self.needs[from..].partition_point(|need| need.piece.place == place);
        &self.needs[from..to]
    }

    /// Hands the chunks of `quantum`, the first of which is at `first_place`, to the files that
    /// need them, once `checker` has found them right; opened where they are sealed. What follows
    /// each other in a file as it does here is written at once.
    pub(crate) fn put<D: Destination<File = F>>(
        &self,
        destination: &D,
        (first_place, quantum): (u64, &RawQuantum),
        checker: &mut impl Checker,
    ) {
        let mut run: Option<Run<'_>> = None;
        let mut end = 0;
        for (index, chunk) in quantum.chunks().enumerate() {
            let begin = end;
            end += chunk.len();
            let place = first_place + index as u64;
            let needs = self.needs_at(place);
            if needs.is_empty() {
                continue;
            }
            if !checker.is_right(index, chunk) {
                self.lose(destination, place, 1, "its content differs from its digest");
                continue;
            }
            for Need { piece, file } in needs {
                if piece.is_sealed {
                    let opened = checker.unseal(chunk, piece.bytes);
                    self.put_pieces(destination, (*file, 1), |file| {
                        destination.write(file, &opened?, piece.offset)
                    });
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
        self.put_pieces(destination, (run.file, run.pieces), |file| {
            destination.write(file, run.bytes, run.offset)
        });
    }

    /// Has `write` write so many pieces of a file.
    fn put_pieces<D: Destination<File = F>>(
        &self,
        destination: &D,
        (file, pieces): (u32, u32),
        write: impl FnOnce(&F) -> Result<(), String>,
    ) {
        let wanted = &self.files[file as usize];
        if wanted.is_lost.load(Relaxed) {
            return;
        }
        if let Err(reason) = write(&wanted.file) {
            return self.lose_file(destination, file, &reason);
        }
        // Counted after they are written: whoever counts to zero knows that all is written.
        let missing = wanted.missing.fetch_sub(pieces, AcqRel);
        if missing == pieces && !wanted.is_lost.load(Relaxed) {
            destination.complete(&wanted.file);
        }
    }

    /// Tells the files that need one of `count` chunks from `place` on that it cannot be had.
    pub(crate) fn lose<D: Destination<File = F>>(
        &self,
        destination: &D,
        place: u64,
        count: u32,
        reason: &str,
    ) {
        for place in (place..).take(count as usize) {
            for need in self.needs_at(place) {
                self.lose_file(destination, need.file, reason);
            }
        }
    }

    fn lose_file<D: Destination<File = F>>(&self, destination: &D, file: u32, reason: &str) {
        let wanted = &self.files[file as usize];
        if !wanted.is_lost.swap(true, Relaxed) {
            destination.lose(&wanted.file, reason);
        }
    }

    /// Tells the files that did not get all their pieces although the window's data has ended.
    pub(crate) fn lose_rest<D: Destination<File = F>>(&self, destination: &D) {
        for (number, wanted) in (0..).zip(&self.files) {
            if wanted.missing.load(Relaxed) > 0 {
                self.lose_file(destination, number, "the server did not send all its data");
            }
        }
    }
}

/// A window while its entries come.
pub(crate) struct WindowBuilder<F> {
    needs: Vec<Need>,
    files: Vec<Wanted<F>>,
    bits: Vec<u8>,
    objects: usize,
}

impl<F> WindowBuilder<F> {
    pub(crate) fn new() -> Self {
        Self { needs: Vec::new(), files: Vec::new(), bits: Vec::new(), objects: 0 }
    }

    /// Adds an entry, with the file that its data goes to if it is wanted.
    pub(crate) fn add(&mut self, file: Option<F>, pieces: &Pieces) {
        let position = self.objects;
        self.objects += 1;
        self.bits.resize(self.objects.div_ceil(8), 0);
        let (Some(file), Some(pieces)) = (file, pieces) else { return };
        self.bits[position / 8] |= 1 << (position % 8);
        let number = u32::try_from(self.files.len()).expect("a window is bounded");
        self.needs.extend(pieces.iter().map(|&piece| Need { piece, file: number }));
        let missing = u32::try_from(pieces.len()).expect("a file has fewer than 2^32 chunks");
        let missing = AtomicU32::new(missing);
        self.files.push(Wanted { file, missing, is_lost: AtomicBool::new(false) });
    }

    /// The window, and a bit for each entry: whether its data is wanted.
    pub(crate) fn finish(mut self) -> (Window<F>, Vec<u8>) {
        self.needs.sort_unstable_by_key(|need| (need.piece.place, need.file));
        (Window { needs: self.needs, files: self.files }, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What becomes of files, by their number: writes, then how it ended.
    #[derive(Default)]
    struct Written(Mutex<Vec<(usize, String)>>);

    impl Written {
        fn note(&self, file: usize, what: String) {
            self.0.lock().unwrap().push((file, what));
        }

        fn of(&self, file: usize) -> Vec<String> {
            let all = self.0.lock().unwrap();
            all.iter().filter(|(of, _)| *of == file).map(|(_, what)| what.clone()).collect()
        }
    }

    impl Destination for Written {
        type File = usize;

        fn take(&mut self, _: Entry) -> Option<usize> {
            None
        }

        fn write(&self, file: &usize, bytes: &[u8], offset: u64) -> Result<(), String> {
            self.note(*file, format!("{offset}:{}", bytes.escape_ascii()));
            if bytes.starts_with(b"full") { Err("no room".to_owned()) } else { Ok(()) }
        }

        fn complete(&self, file: &usize) {
            self.note(*file, "whole".to_owned());
        }

        fn lose(&self, file: &usize, reason: &str) {
            self.note(*file, reason.to_owned());
        }
    }

    /// Finds everything right but what says that it is damaged; sealed is what is in capitals.
    struct Look;

    impl Checker for Look {
        fn is_right(&self, _: usize, chunk: &[u8]) -> bool {
            chunk != b"damaged"
        }

        fn unseal(&mut self, sealed: &[u8], _: u32) -> Result<Vec<u8>, String> {
            Ok(sealed.to_ascii_lowercase())
        }
    }

    const FIRST_PLACE: u64 = 100;

    /// What `files` get, each of chunks by index and offset, out of a quantum of `chunks`.
    fn put(chunks: &[&[u8]], files: &[&[(u64, u64)]]) -> Written {
        let mut quantum = RawQuantum::default();
        chunks.iter().for_each(|chunk| _ = quantum.push(chunk));
        let mut builder = WindowBuilder::new();
        for (number, pieces) in files.iter().enumerate() {
            let piece = |&(index, offset): &(u64, u64)| {
                let chunk = chunks.get(usize::try_from(index).unwrap());
                let is_sealed = chunk.is_some_and(|chunk| chunk.is_ascii() && chunk[0] < b'a');
                Piece { place: FIRST_PLACE + index, offset, bytes: 3, is_sealed }
            };
            builder.add(Some(number), &Some(pieces.iter().map(piece).collect()));
        }
        let (window, _) = builder.finish();
        let written = Written::default();
        window.put(&written, (FIRST_PLACE, &quantum), &mut Look);
        window.lose_rest(&written);
        written
    }

    #[test]
    fn what_lies_together_is_written_together() {
        let chunks: &[&[u8]] = &[b"abc", b"def", b"ghi", b"jkl"];
        let written = put(chunks, &[&[(0, 0), (1, 3), (2, 6)], &[(3, 9)]]);
        assert_eq!(written.of(0), ["0:abcdefghi", "whole"]);
        assert_eq!(written.of(1), ["9:jkl", "whole"]);
        // A gap in the quantum, one in the file, and another order.
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
    fn a_file_that_lacks_something_is_never_whole() {
        let chunks: &[&[u8]] = &[b"abc", b"damaged", b"ghi", b"full"];
        let written = put(chunks, &[&[(0, 0), (1, 3), (2, 10)], &[(3, 0), (0, 4)], &[(2, 0)]]);
        let reason = "its content differs from its digest";
        assert!(written.of(0).contains(&reason.to_owned()));
        assert!(!written.of(0).contains(&"whole".to_owned()));
        assert_eq!(written.of(1).last().unwrap(), "no room");
        assert_eq!(written.of(2), ["0:ghi", "whole"]);
        // The quantum with its last chunk does not come.
        let written = put(&chunks[..1], &[&[(0, 0), (7, 3)]]);
        assert_eq!(written.of(0), ["0:abc", "the server did not send all its data"]);
    }
}
