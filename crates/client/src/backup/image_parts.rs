//! Parts of an image that the readers are at. They take a part in pieces, so that they read near
//! each other and end together; who reads the last piece of a part has the content of the whole.

use std::collections::BTreeMap;
use std::ops::Range;

use super::image_read::Errors;
use super::read::Content;

/// Length of a piece. A multiple of the lengths of chunks.
const PIECE_BYTES: u64 = 8 << 20;
const _: () = assert!(PIECE_BYTES.is_multiple_of(model::CHUNK_BYTES_MAX as u64));

/// Content of a part or of a piece of it, as a reader found it.
pub(super) struct ReadPart {
    pub(super) content: Content,
    pub(super) errors: Errors,
}

/// Parts that the readers are at.
#[derive(Default)]
pub(super) struct OpenParts {
    /// Part that was begun last, and its range that no reader has taken.
    rest: Option<(u64, Range<u64>)>,
    /// Parts of which pieces are missing.
    parts: BTreeMap<u64, OpenPart>,
}

/// Part of which pieces are missing.
pub(super) struct OpenPart {
    /// Digest of the part in the last image.
    pub(super) stored: Option<[u8; 16]>,
    /// Pieces that were read, by their offsets.
    pieces: BTreeMap<u64, ReadPart>,
    missing_bytes: u64,
}

impl OpenPart {
    /// Returns what was found in the part, of which all pieces were read.
    pub(super) fn joined(self) -> ReadPart {
        let mut whole = ReadPart { content: Content::default(), errors: Errors::default() };
        for piece in self.pieces.into_values() {
            whole.content.append(piece.content);
            whole.errors.extend(piece.errors);
        }
        whole
    }
}

impl OpenParts {
    /// Takes the next piece of the part that was begun last; `None` if all were taken.
    pub(super) fn take(&mut self) -> Option<(u64, Range<u64>)> {
        let (number, rest) = self.rest.take()?;
        let end = rest.end.min(rest.start + PIECE_BYTES);
        self.rest = (end < rest.end).then_some((number, end..rest.end));
        Some((number, rest.start..end))
    }

    pub(super) fn begin(&mut self, number: u64, range: Range<u64>, stored: Option<[u8; 16]>) {
        let missing_bytes = range.end - range.start;
        self.parts
            .insert(number, OpenPart { stored, pieces: BTreeMap::new(), missing_bytes });
        self.rest = Some((number, range));
    }

    /// Adds a piece that was read. Returns the part if it was the last one missing.
    pub(super) fn add(
        &mut self,
        number: u64,
        piece: &Range<u64>,
        read: ReadPart,
    ) -> Option<OpenPart> {
        let part = self.parts.get_mut(&number).expect("a part with a missing piece is open");
        part.missing_bytes -= piece.end - piece.start;
        part.pieces.insert(piece.start, read);
        if part.missing_bytes > 0 {
            return None;
        }
        self.parts.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use model::{ChunkDigest, SessionPlace};

    use super::super::chunks::ChunkRef;
    use super::super::read::Part;
    use super::*;
    use crate::link::backup::ChunkSource;

    /// Pieces are given out in the order of the disk, and come back in any order.
    #[test]
    fn a_part_that_is_read_in_pieces_has_the_content_of_one_that_is_read_at_once() {
        let source = ChunkSource::Sent(SessionPlace::Sent { quantum: 3, index: 0 });
        let chunk = Part::Chunk(ChunkRef { digest: ChunkDigest([1; 32]), source });
        let hole = |bytes| Part::Hole { bytes };
        let read = |parts: &[Part]| {
            let content = Content { parts: parts.to_vec(), data_bytes: 1 };
            ReadPart { content, errors: Errors::default() }
        };
        let mut open = OpenParts::default();
        open.begin(4, 100..100 + 2 * PIECE_BYTES + 10, None);
        let pieces: Vec<_> = std::iter::from_fn(|| open.take()).collect();
        let ranges: Vec<_> = pieces.iter().map(|(_, range)| range.end - range.start).collect();
        assert_eq!(ranges, [PIECE_BYTES, PIECE_BYTES, 10]);
        assert!(open.add(4, &pieces[2].1, read(&[chunk])).is_none());
        assert!(open.add(4, &pieces[0].1, read(&[chunk, hole(5)])).is_none());
        let part = open.add(4, &pieces[1].1, read(&[hole(7), chunk])).expect("it is whole");
        let content = part.joined().content;
        let parts = vec![chunk, hole(12), chunk, chunk];
        assert_eq!(content, Content { parts, data_bytes: 3 });
    }
}
