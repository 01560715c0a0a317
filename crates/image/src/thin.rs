//! Differences between two snapshots of a thin volume, as `thin_delta` says.
//!
//! A block that the pool has not allocated is zeros in both snapshots. A block that `thin_delta`
//! calls the same is the same block of the pool in both. All others may have changed, also those of
//! which `thin_delta` says nothing although a snapshot has them.

use std::ops::Range;

use sys::thin_pool::{ThinDelta, ThinSnapshots};

use crate::used::{complement, touches};

/// Length of the sectors in which `thin_delta` counts, in bytes.
const SECTOR_BYTES: u64 = 512;

/// Ranges of a snapshot, in order and apart from each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Ranges for which the pool has blocks. The rest is zeros.
    pub used: Vec<Range<u64>>,
    /// Ranges that may differ from the older snapshot.
    pub changed: Vec<Range<u64>>,
}

impl Changes {
    /// Asks what has changed since the snapshot that has stayed. The snapshots have `bytes` bytes.
    /// The error says why nobody knows it.
    pub(crate) fn find(snapshots: &ThinSnapshots, bytes: u64) -> Result<Self, String> {
        let delta = snapshots.compare().map_err(|error| error.to_string())?;
        let unclear = "the output of thin_delta is not understood";
        Self::of(&delta, bytes).ok_or_else(|| unclear.to_owned())
    }

    /// Parses the documents of `thin_delta` about snapshots of `bytes` bytes. Returns `None` unless
    /// they are complete and agree.
    pub fn of(delta: &ThinDelta, bytes: u64) -> Option<Self> {
        let (before, after) = delta.numbers;
        let tags = tags(str::from_utf8(&delta.documents).ok()?)?;
        let mut tags = tags.into_iter();
        let old = Document::parse(&mut tags, (before, before))?;
        let new = Document::parse(&mut tags, (after, after))?;
        let both = Document::parse(&mut tags, (before, after))?;
        let is_whole = tags.next().is_none();
        let lengths = [old.block_bytes, new.block_bytes];
        let holes = [&old.same, &new.same].map(|mapped| complement(mapped, u64::MAX));
        let is_mapped = |same| holes.iter().all(|holes| !touches(holes, same));
        let agrees = lengths == [both.block_bytes; 2] && both.same.iter().all(is_mapped);
        if !is_whole || !agrees {
            return None;
        }
        let unmapped = complement(&[old.same, new.same.clone()].concat(), bytes);
        let changed = complement(&[both.same, unmapped].concat(), bytes);
        let used = complement(&complement(&new.same, bytes), bytes);
        Some(Self { used, changed })
    }

    /// Returns true if nothing in `range` differs from the older snapshot.
    pub fn is_unchanged(&self, range: &Range<u64>) -> bool {
        !touches(&self.changed, range)
    }
}

/// One document of `thin_delta`.
struct Document {
    block_bytes: u64,
    /// Ranges that are the same blocks of the pool in both volumes, in bytes.
    same: Vec<Range<u64>>,
}

impl Document {
    /// Parses the tags of a document about the volumes of these numbers; `None` if it is not whole.
    fn parse<'a>(tags: &mut impl Iterator<Item = &'a str>, numbers: (u64, u64)) -> Option<Self> {
        let head = tags.next().filter(|tag| name(tag) == "superblock")?;
        let sectors = number(head, "data_block_size").filter(|sectors| *sectors > 0)?;
        let block_bytes = sectors.checked_mul(SECTOR_BYTES)?;
        let diff = tags.next().filter(|tag| name(tag) == "diff")?;
        if (number(diff, "left")?, number(diff, "right")?) != numbers {
            return None;
        }
        let mut same = Vec::new();
        loop {
            let tag = tags.next()?;
            match (name(tag), range(tag, block_bytes)) {
                ("same", Some(range)) => same.push(range),
                ("different" | "left_only" | "right_only", Some(_)) => {}
                ("/diff", None) => break,
                _ => return None,
            }
        }
        tags.next().filter(|tag| name(tag) == "/superblock")?;
        Some(Self { block_bytes, same })
    }
}

/// Returns the tags of a text in XML without their brackets; `None` if it has anything else.
fn tags(text: &str) -> Option<Vec<&str>> {
    let is_blank = |text: &str| text.trim().is_empty();
    let mut pieces = text.split('<');
    pieces.next().filter(|before| is_blank(before))?;
    pieces
        .map(|piece| piece.split_once('>').filter(|(_, after)| is_blank(after)))
        .map(|piece| piece.map(|(tag, _)| tag))
        .collect()
}

fn name(tag: &str) -> &str {
    tag.split_ascii_whitespace().next().unwrap_or_default()
}

/// Returns the number that an attribute of a tag has.
fn number(tag: &str, attribute: &str) -> Option<u64> {
    let (_, value) = tag.split_once(&format!(" {attribute}=\""))?;
    value.split_once('"')?.0.parse().ok()
}

/// Returns the range of a tag, in bytes.
fn range(tag: &str, block_bytes: u64) -> Option<Range<u64>> {
    let (begin, length) = (number(tag, "begin")?, number(tag, "length")?);
    let start = begin.checked_mul(block_bytes)?;
    Some(start..start.checked_add(length.checked_mul(block_bytes)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 64 << 10;
    /// Size of the volumes: 100 blocks and a half.
    const BYTES: u64 = 100 * BLOCK + BLOCK / 2;

    /// Document as `thin_delta` 0.9 prints it.
    fn document(numbers: (u64, u64), lines: &[&str]) -> String {
        let (left, right) = numbers;
        let head = "<superblock uuid=\"\" time=\"2\" transaction=\"5\" data_block_size=\"128\" \
                    nr_data_blocks=\"3200\" metadata_snap=\"41\">";
        let lines: String = lines.iter().map(|line| format!("    <{line}/>\n")).collect();
        let diff = format!("  <diff left=\"{left}\" right=\"{right}\">\n{lines}  </diff>");
        format!("{head}\n{diff}\n</superblock>\n")
    }

    fn changes(old: &[&str], new: &[&str], both: &[&str]) -> Option<Changes> {
        let documents = [document((2, 2), old), document((5, 5), new), document((2, 5), both)];
        let documents = documents.concat().into_bytes();
        Changes::of(&ThinDelta { numbers: (2, 5), documents }, BYTES)
    }

    fn blocks(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        ranges.iter().map(|range| range.start * BLOCK..range.end * BLOCK).collect()
    }

    const OLD: [&str; 2] = ["same begin=\"0\" length=\"20\"", "same begin=\"40\" length=\"10\""];
    const NEW: [&str; 2] = ["same begin=\"0\" length=\"30\"", "same begin=\"90\" length=\"11\""];
    const BOTH: [&str; 6] = [
        "same begin=\"0\" length=\"5\"",
        "different begin=\"5\" length=\"1\"",
        "same begin=\"6\" length=\"14\"",
        "right_only begin=\"20\" length=\"10\"",
        "left_only begin=\"40\" length=\"10\"",
        "right_only begin=\"90\" length=\"11\"",
    ];

    #[test]
    fn blocks_that_only_one_snapshot_has_and_other_blocks_have_changed() {
        let found = changes(&OLD, &NEW, &BOTH).expect("understood");
        let mut changed = blocks(&[5..6, 20..30, 40..50, 90..101]);
        changed[3].end = BYTES;
        assert_eq!(found.changed, changed);
        assert_eq!(found.used, [0..30 * BLOCK, 90 * BLOCK..BYTES]);
        for (range, is_unchanged) in
            [(0..5, true), (4..6, false), (6..20, true), (50..90, true), (49..60, false)]
        {
            let range = range.start * BLOCK..range.end * BLOCK;
            assert_eq!(found.is_unchanged(&range), is_unchanged, "{range:?}");
        }
    }

    #[test]
    fn what_is_left_out_of_the_comparison_has_changed() {
        let found = changes(&OLD, &NEW, &BOTH[..3]).expect("understood");
        assert_eq!(Some(&found), changes(&OLD, &NEW, &BOTH).as_ref());
        let nothing = changes(&OLD, &NEW, &[]).expect("understood");
        assert!(
            !nothing.is_unchanged(&(0..BLOCK)) && nothing.is_unchanged(&(50 * BLOCK..BLOCK * 90))
        );
    }

    #[test]
    fn empty_volumes_are_equal() {
        let found = changes(&[], &[], &[]).expect("understood");
        assert!(found.used.is_empty() && found.is_unchanged(&(0..BYTES)));
    }

    #[test]
    fn output_that_is_doubtful_is_not_used() {
        let same = |begin: u64| format!("same begin=\"{begin}\" length=\"1\"");
        assert_eq!(changes(&OLD, &NEW, &[&same(60)]), None, "the same, but in no snapshot");
        assert_eq!(changes(&OLD, &NEW, &[&same(25)]), None, "the same, but not in the old one");
        for odd in
            ["range begin=\"1\" length=\"1\"", "same begin=\"1\"", "same length=\"x\"", "same"]
        {
            assert_eq!(changes(&OLD, &NEW, &[odd]), None, "{odd}");
        }
        let far = format!("same begin=\"{}\" length=\"1\"", u64::MAX / BLOCK);
        assert_eq!(changes(&[&far], &NEW, &[]), None, "a block that cannot be");
        let whole = [document((2, 2), &OLD), document((5, 5), &NEW), document((2, 5), &BOTH)];
        let of = |text: &str, numbers| {
            let documents = text.as_bytes().to_vec();
            Changes::of(&ThinDelta { numbers, documents }, BYTES)
        };
        let text = whole.concat();
        assert!(of(&text, (2, 5)).is_some());
        assert_eq!(of(&text, (2, 6)), None, "other volumes");
        assert_eq!(of(&text.replacen("\"128\"", "\"256\"", 1), (2, 5)), None, "other blocks");
        assert_eq!(of(&format!("{text}warning"), (2, 5)), None, "something else");
        assert_eq!(of(&whole[..2].concat(), (2, 5)), None, "a missing document");
        let lines: Vec<&str> = text.lines().collect();
        for count in 0..lines.len() {
            assert_eq!(of(&lines[..count].join("\n"), (2, 5)), None, "cut after line {count}");
        }
    }
}
