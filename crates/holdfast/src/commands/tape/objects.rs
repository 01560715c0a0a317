//! The objects of volumes as they are listed, chosen and extracted, without any catalogue.
//!
//! An object that goes on on another volume is the last one on its own; one elsewhere that does not
//! end was given up by its writer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::tape::medium::{Medium, MediumError};
use ::tape::volume::{Listing, VolumeError, VolumeReader};
use client::Progress;
use format::volume::{ObjectId, Part};
use sys::{Dir, NewFile};

use super::trouble::{self, Failure};

/// What a signal makes of an object that is under way.
pub(super) const STOPPED: &str = "stopped before it was done";

/// What of an object is on a volume.
pub(super) struct Piece {
    pub(super) part: Part,
    /// Its name, or for one that has none its identity.
    pub(super) name: Vec<u8>,
    pub(super) is_named: bool,
}

impl Piece {
    pub(super) fn object(&self) -> String {
        hex(self.part.object)
    }

    /// What there is of the object here.
    pub(super) fn state(&self) -> &'static str {
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

/// All that a volume holds, in the order of position.
pub(super) fn pieces(listing: &Listing) -> Vec<Piece> {
    let piece = |part: &Part| {
        let name = listing.names.get(&part.object_sequence);
        let unnamed = || format!("object-{}", hex(part.object)).into_bytes();
        Piece {
            part: *part,
            name: name.map_or_else(unnamed, |name| name.as_bytes().to_vec()),
            is_named: name.is_some(),
        }
    };
    listing.parts.iter().map(piece).collect()
}

/// Which objects are asked for.
#[derive(Default)]
pub(super) struct Wanted {
    /// None is all.
    pub(super) names: BTreeSet<Vec<u8>>,
    /// By their number on the volume, whatever their names.
    pub(super) numbers: BTreeSet<u32>,
}

impl Wanted {
    fn takes(&self, piece: &Piece) -> bool {
        if !self.numbers.is_empty() {
            return self.numbers.contains(&piece.part.object_sequence);
        }
        self.names.is_empty() || self.names.contains(&piece.name)
    }

    /// The pieces to read: of several objects of one name the newest that ends on this volume, or
    /// the last one on it, if it may end on one that follows.
    pub(super) fn choose<'a>(&self, pieces: &'a [Piece], others_follow: bool) -> Vec<&'a Piece> {
        let taken = pieces.iter().filter(|piece| self.takes(piece));
        if !self.numbers.is_empty() {
            return taken.collect();
        }
        let last = pieces.last().map(|piece| piece.part.position);
        let mut newest: BTreeMap<&[u8], &Piece> = BTreeMap::new();
        for piece in taken {
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

/// Whether nothing more can be had from the volume after this.
pub(super) fn ends_the_volume(error: &VolumeError) -> bool {
    matches!(
        error,
        VolumeError::Medium(
            MediumError::Failed(_) | MediumError::PositionLost | MediumError::NoMedium
        )
    )
}

/// A file of which a part has been read.
struct Growing {
    file: NewFile,
    name: Vec<u8>,
    offset: u64,
    sequence: u64,
}

/// A file that was extracted.
pub(super) struct Extracted {
    pub(super) name: Vec<u8>,
    pub(super) bytes: u64,
}

/// Objects on their way into a folder, over all volumes that are read.
pub(super) struct Extraction<'a> {
    folder: Arc<Dir>,
    progress: &'a Progress,
    growing: BTreeMap<ObjectId, Growing>,
    pub(super) done: Vec<Extracted>,
    pub(super) failures: Vec<Failure>,
}

impl<'a> Extraction<'a> {
    pub(super) fn new(folder: Arc<Dir>, progress: &'a Progress) -> Self {
        let growing = BTreeMap::new();
        Self { folder, progress, growing, done: Vec::new(), failures: Vec::new() }
    }

    /// Reads a piece; fails only when nothing more can be read from the volume.
    pub(super) fn take(
        &mut self,
        reader: &mut VolumeReader<&mut dyn Medium>,
        piece: &Piece,
    ) -> Result<(), VolumeError> {
        let part = &piece.part;
        let mut growing = match self.file_for(piece) {
            Ok(growing) => growing,
            Err(why) => {
                self.fail(Failure::new(&piece.name, why));
                return Ok(());
            }
        };
        let mut sink =
            Sink { file: Some(&growing.file), offset: growing.offset, progress: self.progress };
        if let Err(error) = reader.read(part, &mut sink) {
            self.fail(failure(piece, &error, self.progress));
            return if ends_the_volume(&error) { Err(error) } else { Ok(()) };
        }
        growing.offset += part.bytes;
        growing.sequence += part.block_count;
        if part.is_last {
            self.publish(growing);
        } else {
            self.growing.insert(part.object, growing);
        }
        Ok(())
    }

    fn fail(&mut self, failure: Failure) {
        self.progress.failed.fetch_add(1, Relaxed);
        self.failures.push(failure);
    }

    /// A new file, or the one that the piece goes on in.
    fn file_for(&mut self, piece: &Piece) -> Result<Growing, String> {
        let part = &piece.part;
        if part.first_sequence > 0 {
            let growing = self.growing.remove(&part.object);
            let fits = |growing: &Growing| {
                (growing.offset, growing.sequence) == (part.offset, part.first_sequence)
            };
            return growing.filter(fits).ok_or_else(|| {
                "it began on another volume: name that one in front of this one".to_owned()
            });
        }
        match self.folder.stat(&piece.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
            Ok(_) => {
                let why = "a file of this name is there already, and is left as it is";
                return Err(why.to_owned());
            }
        }
        let file = NewFile::create(&self.folder, &piece.name);
        let file = file.map_err(|error| format!("cannot make the file: {error}"))?;
        Ok(Growing { file, name: piece.name.clone(), offset: 0, sequence: 0 })
    }

    fn publish(&mut self, growing: Growing) {
        let Growing { file, name, offset, .. } = growing;
        match file.publish(false) {
            Ok(_) => {
                self.progress.objects.fetch_add(1, Relaxed);
                self.done.push(Extracted { name, bytes: offset });
            }
            Err(error) => self.fail(Failure::new(&name, format!("cannot name the file: {error}"))),
        }
    }

    /// What has not ended by now does not.
    pub(super) fn finish(&mut self) {
        for growing in std::mem::take(&mut self.growing).into_values() {
            let why = "it does not end on this volume: name the one that it goes on on behind it; \
                       if there is none, its writer was interrupted";
            self.fail(Failure::new(&growing.name, why));
        }
    }
}

/// Why a piece was not read.
pub(super) fn failure(piece: &Piece, error: &VolumeError, progress: &Progress) -> Failure {
    if progress.is_stopped() && matches!(error, VolumeError::Handover(_)) {
        return Failure::new(&piece.name, STOPPED);
    }
    Failure { what: piece.name.clone(), why: trouble::of_volume(error) }
}

/// Takes the bytes of an object, to a file or to nowhere.
pub(super) struct Sink<'a> {
    pub(super) file: Option<&'a NewFile>,
    pub(super) offset: u64,
    pub(super) progress: &'a Progress,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.progress.is_stopped() {
            return Err(io::Error::other(STOPPED));
        }
        if let Some(file) = self.file {
            file.write_at(bytes, self.offset)?;
        }
        self.offset += bytes.len() as u64;
        self.progress.bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces as `NAME` of whole objects, `NAME-` of those that do not end; returns the chosen
    /// ones by their numbers.
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
        let chosen = Wanted::default().choose(&pieces, others_follow);
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
