//! The choice of what a power cut leaves on a disk.

use std::ops::Range;

use super::log::{Entry, Log, Position, Write};
use crate::nasty::Random;

/// Size of the unit that a disk writes as a whole.
pub const SECTOR_BYTES: u64 = 4096;

/// Fate of the writes that no flush follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The medium has all of them.
    Nothing,
    /// The medium has none of them.
    Everything,
    /// The medium has all but one.
    One,
    /// The medium has those before some moment. The write at that moment is torn.
    Tail,
    /// The medium has each or not, by chance.
    Scattered,
    /// The medium has each sector of each or not, by chance.
    Torn,
}

impl Loss {
    pub const ALL: [Self; 6] =
        [Self::Nothing, Self::Everything, Self::One, Self::Tail, Self::Scattered, Self::Torn];
}

/// A power cut, and what it leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    pub position: Position,
    /// The moment before which each write is on the medium.
    pub settled: Position,
    /// Parts of later writes that are on the medium too, in the order of the writes.
    pieces: Vec<Piece>,
    /// Number of writes between `settled` and `position`.
    pub unflushed: usize,
}

/// Part of a write, by the index of the write in its log.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece {
    entry: usize,
    range: Range<usize>,
}

impl Cut {
    /// Chooses what a power cut at `position` leaves.
    pub fn choose(log: &Log, position: Position, loss: Loss, random: &mut Random) -> Self {
        assert!(position <= log.end(), "a cut is within its log");
        let settled = log.settled_before(position);
        let unflushed: Vec<usize> = (settled.0..position.0).collect();
        let mut one_of = || match u32::try_from(unflushed.len()) {
            Ok(count @ 1..) => settled.0 + random.below(count) as usize,
            _ => settled.0,
        };
        let chosen = match loss {
            Loss::One | Loss::Tail => one_of(),
            _ => settled.0,
        };
        let mut pieces = Vec::new();
        for &entry in &unflushed {
            let Entry::Write(write) = &log.entries()[entry] else {
                unreachable!("no flush lies between the last flush and the cut");
            };
            let fate = match loss {
                Loss::Nothing => Fate::Kept,
                Loss::Everything => Fate::Lost,
                Loss::One => Fate::kept_if(entry != chosen),
                Loss::Tail if entry == chosen => Fate::Torn,
                Loss::Tail => Fate::kept_if(entry < chosen),
                Loss::Scattered => Fate::kept_if(random.below(2) == 0),
                Loss::Torn => Fate::Torn,
            };
            let kept = sectors(write).filter(|_| match fate {
                Fate::Kept => true,
                Fate::Lost => false,
                Fate::Torn => random.below(2) == 0,
            });
            pieces.extend(kept.map(|range| Piece { entry, range }));
        }
        Self { position, settled, pieces, unflushed: unflushed.len() }
    }

    /// Returns the parts of writes after [`Self::settled`] that are on the medium: their positions
    /// on the disk, and their bytes.
    pub fn kept<'a>(&'a self, log: &'a Log) -> impl Iterator<Item = Fragment<'a>> {
        self.pieces.iter().filter_map(|piece| match &log.entries()[piece.entry] {
            Entry::Write(write) => Some(Fragment {
                offset: write.offset + piece.range.start as u64,
                data: &write.data[piece.range.clone()],
            }),
            Entry::Flush => None,
        })
    }
}

/// Bytes at a position of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    pub offset: u64,
    pub data: &'a [u8],
}

/// Fate of one write.
#[derive(Clone, Copy)]
enum Fate {
    Kept,
    Lost,
    /// Each sector is kept or lost by chance.
    Torn,
}

impl Fate {
    fn kept_if(is_kept: bool) -> Self {
        if is_kept { Self::Kept } else { Self::Lost }
    }
}

/// Returns the parts of a write that lie in different sectors of the disk.
fn sectors(write: &Write) -> impl Iterator<Item = Range<usize>> {
    let end = write.data.len();
    let mut begin = 0;
    std::iter::from_fn(move || {
        if begin == end {
            return None;
        }
        let within = (write.offset + begin as u64) % SECTOR_BYTES;
        let left = usize::try_from(SECTOR_BYTES - within).expect("a sector fits into memory");
        let range = begin..end.min(begin + left);
        begin = range.end;
        Some(range)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SECTORS: usize = 6;

    /// Makes a log from letters, one for each write, and `|` for flushes. Each write fills the
    /// sector with its position in the text, so that no two writes overlap.
    fn log_of(text: &str) -> Log {
        let mut log = Log::default();
        for (at, letter) in text.bytes().enumerate() {
            let offset = at as u64 * SECTOR_BYTES;
            let data = vec![letter; usize::try_from(SECTOR_BYTES).unwrap()];
            log.push(if letter == b'|' {
                Entry::Flush
            } else {
                Entry::Write(Write { offset, data })
            });
        }
        log
    }

    /// Returns the letters that a cut leaves, in the order of the sectors.
    fn left(log: &Log, cut: &Cut) -> String {
        let mut medium = vec![0; SECTORS * usize::try_from(SECTOR_BYTES).unwrap()];
        let mut put = |offset: u64, data: &[u8]| {
            let begin = usize::try_from(offset).unwrap();
            medium[begin..begin + data.len()].copy_from_slice(data);
        };
        for entry in &log.entries()[..cut.settled.0] {
            if let Entry::Write(write) = entry {
                put(write.offset, &write.data);
            }
        }
        for fragment in cut.kept(log) {
            put(fragment.offset, fragment.data);
        }
        let sectors = medium.chunks(usize::try_from(SECTOR_BYTES).unwrap());
        sectors
            .map(|sector| char::from(sector[0]))
            .filter(|letter| *letter != '\0')
            .collect()
    }

    /// Compares all that cuts of one kind leave with the expected states, which a space separates.
    #[track_caller]
    fn check(text: &str, position: usize, loss: Loss, expected: &str) {
        let log = log_of(text);
        let mut random = Random::new(1, b"cut");
        let found: BTreeSet<String> = (0..200)
            .map(|_| left(&log, &Cut::choose(&log, Position(position), loss, &mut random)))
            .collect();
        let expected: BTreeSet<String> = expected.split(' ').map(str::to_owned).collect();
        assert_eq!(found, expected, "{text} cut at {position}, loss of {loss:?}");
    }

    #[test]
    fn a_cut_keeps_what_was_flushed_and_loses_what_comes_later() {
        check("a|bcd", 4, Loss::Nothing, "abc");
        check("a|bcd", 4, Loss::Everything, "a");
        check("a|bc|", 4, Loss::Everything, "a");
        check("a|bc|", 5, Loss::Everything, "abc");
        check("ab", 0, Loss::Nothing, "");
    }

    #[test]
    fn each_unflushed_write_is_kept_or_lost_whatever_becomes_of_the_others() {
        check("a|bcd", 5, Loss::Scattered, "a ab ac ad abc abd acd abcd");
        check("a|bcd", 5, Loss::One, "abc abd acd");
        check("a|bcd", 5, Loss::Tail, "a ab abc abcd");
        check("a|", 2, Loss::One, "a");
    }

    #[test]
    fn a_write_is_torn_where_a_sector_ends() {
        let ranges = |offset, bytes| {
            sectors(&Write { offset, data: vec![0; bytes] })
                .map(|range| (range.start, range.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranges(0, 4096), [(0, 4096)]);
        assert_eq!(ranges(4096 + 512, 8192), [(0, 3584), (3584, 7680), (7680, 8192)]);
        assert_eq!(ranges(1024, 1024), [(0, 1024)]);
        assert_eq!(ranges(1024, 0), []);
    }

    #[test]
    fn a_torn_write_leaves_any_of_its_sectors() {
        let mut log = Log::default();
        log.push(Entry::Write(Write { offset: 0, data: vec![1; 3 * 4096] }));
        let mut random = Random::new(2, b"cut");
        let states: BTreeSet<Vec<u64>> = (0..200)
            .map(|_| Cut::choose(&log, log.end(), Loss::Torn, &mut random))
            .map(|cut| cut.kept(&log).map(|fragment| fragment.offset / 4096).collect())
            .collect();
        assert_eq!(states.len(), 8, "{states:?}");
    }
}
