//! A window of entries: which chunk goes to which file, and what each file still lacks.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::AcqRel, Ordering::Relaxed};

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

/// Looks at a chunk before it is written.
pub(crate) trait Checker {
    /// Whether it is what the server says it is.
    fn is_right(&self, chunk: &[u8]) -> bool;

    /// The `bytes` that the sealed chunk stands for.
    fn unseal(&mut self, sealed: &[u8], bytes: u32) -> Result<Vec<u8>, String>;
}

/// A file of the window needs a piece.
struct Need {
    piece: Piece,
    file: u32,
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

    /// Hands the chunk at `place` to the files that need it, once `checker` has found it right;
    /// opened where it is sealed.
    pub(crate) fn put<D: Destination<File = F>>(
        &self,
        destination: &D,
        place: u64,
        chunk: &[u8],
        checker: &mut impl Checker,
    ) {
        let needs = self.needs_at(place);
        if needs.is_empty() {
            return;
        }
        if !checker.is_right(chunk) {
            return self.lose(destination, place, 1, "its content differs from its digest");
        }
        for Need { piece, file } in needs {
            let wanted = &self.files[*file as usize];
            if wanted.is_lost.load(Relaxed) {
                continue;
            }
            let write = |chunk: &[u8]| destination.write(&wanted.file, chunk, piece.offset);
            let written = match piece.is_sealed {
                false => write(chunk),
                true => checker.unseal(chunk, piece.bytes).and_then(|chunk| write(&chunk)),
            };
            if let Err(reason) = written {
                self.lose_file(destination, *file, &reason);
            // Counted after it is written: whoever counts to zero knows that all is written.
            } else if wanted.missing.fetch_sub(1, AcqRel) == 1 && !wanted.is_lost.load(Relaxed) {
                destination.complete(&wanted.file);
            }
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
