//! The pieces of objects on volumes, and the selection of pieces to read.
//!
//! An object that continues on another volume is the last object on its volume. Any other object
//! without an end was abandoned by its writer.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use format::volume::{ObjectId, Part};

use super::meter::{Meter, STOPPED};
use crate::medium::MediumError;
use crate::volume::{Listing, VolumeError};

/// The part of an object that lies on one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub part: Part,
    /// Name of the object; `object-` and its identity if it has no name.
    pub name: Vec<u8>,
    pub is_named: bool,
}

/// Reason why a piece was not read, or its file was not created.
#[derive(Debug, thiserror::Error)]
pub enum PieceError {
    #[error("{STOPPED}")]
    Stopped,
    /// The user has to name the volumes in the order in which they were written.
    #[error("the object began on another volume: name that volume before this one")]
    BeganElsewhere,
    #[error(
        "the object does not end on this volume: name the volume on which it continues after this \
         one; if no volume continues it, its writer was interrupted"
    )]
    EndsElsewhere,
    #[error("a file of this name exists already, and was not replaced")]
    Exists,
    #[error("cannot create the file")]
    Create(#[source] io::Error),
    #[error("cannot give the file its name")]
    Publish(#[source] io::Error),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The volume failed; its own error is reported separately.
    #[error("the volume of this object cannot be read any more")]
    VolumeLost,
}

/// A piece that was not read.
#[derive(Debug)]
pub struct PieceFailure {
    pub name: Vec<u8>,
    pub error: PieceError,
}

impl PieceFailure {
    pub(super) fn new(piece: &Piece, error: PieceError) -> Self {
        Self { name: piece.name.clone(), error }
    }
}

/// Returns the failure of a piece that could not be read. If nothing more can be read from the
/// volume after `error`, returns that error as well.
pub(super) fn judge(
    piece: &Piece,
    error: VolumeError,
    meter: &dyn Meter,
) -> (PieceFailure, Result<(), VolumeError>) {
    match error {
        VolumeError::Medium(
            MediumError::Failed(_) | MediumError::PositionLost | MediumError::NoMedium,
        ) => (PieceFailure::new(piece, PieceError::VolumeLost), Err(error)),
        VolumeError::Handover(_) if meter.is_stopped() => {
            (PieceFailure::new(piece, PieceError::Stopped), Ok(()))
        }
        error => (PieceFailure::new(piece, error.into()), Ok(())),
    }
}

impl Piece {
    /// Returns the object's identity, in hexadecimal digits.
    pub fn object(&self) -> String {
        hex(self.part.object)
    }

    /// Returns a word for the part of the object that lies on this volume.
    pub fn state(&self) -> &'static str {
        match (self.part.first_sequence, self.part.is_last) {
            (0, true) => "whole",
            (0, false) => "beginning",
            (_, false) => "middle",
            (_, true) => "end",
        }
    }
}

fn hex(object: ObjectId) -> String {
    object.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns all pieces on a volume, in the order of position.
pub fn pieces(listing: &Listing) -> Vec<Piece> {
    let piece = |part: &Part| {
        let name = listing.names.get(&part.object_sequence);
        let unnamed = || format!("object-{}", hex(part.object)).into_bytes();
        Piece {
            part: *part,
            name: name.map_or_else(unnamed, |name| name.as_bytes().to_vec()),
            is_named: name.is_some(),
        }
    };
    let pieces: Vec<Piece> = listing.parts.iter().map(piece).collect();
    assert_eq!(pieces.len(), listing.parts.len(), "each part is a piece");
    pieces
}

/// The objects that a user asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Names of objects; empty for all.
    pub names: BTreeSet<Vec<u8>>,
    /// Numbers of objects on their volume; empty for all.
    pub numbers: BTreeSet<u32>,
}

impl Selection {
    /// Returns true if the piece is to be listed: it has a selected name and a selected number.
    pub fn lists(&self, piece: &Piece) -> bool {
        self.has_name(piece) && self.has_number(piece)
    }

    fn has_name(&self, piece: &Piece) -> bool {
        self.names.is_empty() || self.names.contains(&piece.name)
    }

    fn has_number(&self, piece: &Piece) -> bool {
        self.numbers.is_empty() || self.numbers.contains(&piece.part.object_sequence)
    }

    /// Returns the pieces to read, by position. Of several objects of one name it chooses the
    /// newest that ends on this volume. If `others_follow`, the last object on the volume counts
    /// too, because it may end on a later volume. If numbers are selected, it chooses every object
    /// with one of these numbers.
    pub fn choose<'a>(&self, pieces: &'a [Piece], others_follow: bool) -> Vec<&'a Piece> {
        debug_assert!(
            pieces.is_sorted_by_key(|piece| piece.part.position),
            "pieces are sorted by position"
        );
        if !self.numbers.is_empty() {
            return pieces.iter().filter(|piece| self.has_number(piece)).collect();
        }
        let last = pieces.last().map(|piece| piece.part.position);
        let mut newest: BTreeMap<&[u8], &Piece> = BTreeMap::new();
        for piece in pieces.iter().filter(|piece| self.has_name(piece)) {
            let may_end = others_follow && Some(piece.part.position) == last;
            let known = newest.get(piece.name.as_slice());
            let is_better =
                piece.part.is_last || may_end || known.is_none_or(|known| !known.part.is_last);
            if is_better {
                newest.insert(&piece.name, piece);
            }
        }
        let mut chosen: Vec<_> = newest.into_values().collect();
        chosen.sort_by_key(|piece| piece.part.position);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the numbers of the chosen pieces. `pieces` has a word for each piece: `NAME` for a
    /// whole object, `NAME-` for an object without an end.
    #[track_caller]
    fn check(pieces: &str, others_follow: bool, expected: &[u32]) {
        let piece = |(number, word): (u32, &str)| Piece {
            part: Part {
                object: ObjectId([0; 16]),
                object_sequence: number,
                position: number.into(),
                block_count: 1,
                first_sequence: 0,
                offset: 0,
                bytes: 1,
                is_last: !word.ends_with('-'),
            },
            name: word.trim_end_matches('-').into(),
            is_named: true,
        };
        let pieces: Vec<_> = (1..).zip(pieces.split(' ')).map(piece).collect();
        let chosen = Selection::default().choose(&pieces, others_follow);
        let numbers: Vec<_> = chosen.iter().map(|piece| piece.part.object_sequence).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn the_newest_object_of_a_name_that_may_end_is_chosen() {
        check("a b a", false, &[2, 3]);
        check("a b a-", false, &[1, 2]);
        check("a b a-", true, &[2, 3]);
        check("a a- b", true, &[1, 3]);
        check("a- a", false, &[2]);
        check("b a-", false, &[1, 2]);
    }
}
