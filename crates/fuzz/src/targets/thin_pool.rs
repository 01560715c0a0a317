//! Differences between snapshots of thin volumes, as `thin_delta` prints them.

use std::fmt::Write as _;
use std::ops::Range;

use image::thin::Changes;
use sys::thin_pool::ThinDelta;

use crate::seeds::texts;
use crate::{PLAIN_BYTES_MAX, Target};

const SECTOR_BYTES: u64 = 512;
/// Size of the volumes: 100 blocks of 64 KiB and a half.
const VOLUME_BYTES: u64 = (100 * 64 + 32) << 10;
/// Numbers of the snapshots: of an older one and a newer one, and of one alone.
const NUMBERS: [(u64, u64); 2] = [(2, 5), (5, 5)];

pub(super) const THIN_DELTA: Target = Target {
    name: "thin_delta",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds,
    check: check_documents,
};

/// Returns what two versions of `thin_delta` print: about two snapshots, about one, and about two
/// without a block.
fn seeds() -> Vec<Vec<u8>> {
    let old = "<same begin=\"0\" length=\"20\"/><same begin=\"40\" length=\"10\"/>";
    let new = "<same begin=\"0\" length=\"30\"/><same begin=\"90\" length=\"11\"/>";
    let both = "<same begin=\"0\" length=\"5\"/><different begin=\"5\" length=\"1\"/>\n\
                <same begin=\"6\" length=\"14\"/><right_only begin=\"20\" length=\"10\"/>\n\
                <left_only begin=\"40\" length=\"10\"/><right_only begin=\"90\" length=\"11\"/>";
    let two = [document((2, 2), 128, old), document((5, 5), 128, new), document((2, 5), 128, both)];
    let one = [(); 3].map(|()| document((5, 5), 128, new));
    let none = [document((2, 2), 1, ""), document((5, 5), 1, ""), document((2, 5), 1, "")];
    let plain = "<superblock uuid=\"\" time=\"1\" transaction=\"3\" data_block_size=\"2048\" \
                 nr_data_blocks=\"200\" metadata_snap=\"41\">\n  <diff left=\"5\" right=\"5\">\n\
                 <same begin=\"1\" length=\"6\"/>\n  </diff>\n</superblock>\n";
    texts(&[&two.concat(), &one.concat(), &none.concat(), &plain.repeat(3)])
}

/// Returns a document about the volumes of these numbers, with blocks of so many sectors.
fn document(numbers: (u64, u64), sectors: u64, ranges: &str) -> String {
    let (left, right) = numbers;
    format!(
        "<superblock uuid=\"\" time=\"2\" transaction=\"5\" data_block_size=\"{sectors}\">\n\
         <diff left=\"{left}\" right=\"{right}\">\n{ranges}\n</diff>\n</superblock>\n"
    )
}

fn check_documents(input: &[u8]) {
    for numbers in NUMBERS {
        let Some(changes) = parsed(numbers, input) else { continue };
        check_order(&changes.used);
        check_order(&changes.changed);
        check_unchanged(&changes);
        check_incomplete(numbers, input);
        assert_eq!(parsed(numbers, written(numbers, &changes).as_bytes()), Some(changes));
    }
}

fn parsed(numbers: (u64, u64), documents: &[u8]) -> Option<Changes> {
    Changes::of(&ThinDelta { numbers, documents: documents.to_vec() }, VOLUME_BYTES)
}

/// Checks that ranges lie in the volume, in order, and apart from each other.
fn check_order(ranges: &[Range<u64>]) {
    assert!(ranges.iter().all(|range| !range.is_empty() && range.end <= VOLUME_BYTES));
    assert!(ranges.is_sorted_by(|one, next| one.end < next.start), "{ranges:?}");
}

/// Checks that what has changed is not called unchanged, and everything else is.
fn check_unchanged(changes: &Changes) {
    for range in &changes.changed {
        assert!(!changes.is_unchanged(&(range.start..range.start + 1)), "{range:?}");
        assert!(!changes.is_unchanged(&(range.end - 1..range.end)), "{range:?}");
    }
    for range in without(&[0..VOLUME_BYTES], &changes.changed) {
        assert!(changes.is_unchanged(&range), "{range:?}");
    }
}

/// Checks that nothing is believed that was cut or that ends with something else.
fn check_incomplete(numbers: (u64, u64), input: &[u8]) {
    let end = input
        .iter()
        .rposition(|byte| *byte == b'>')
        .expect("a document ends with a tag");
    for cut in [end, end / 2, end / 3, 0] {
        assert_eq!(parsed(numbers, &input[..cut]), None, "cut after {cut} bytes");
    }
    assert_eq!(parsed(numbers, &[input, b"x"].concat()), None);
}

/// Returns documents that say the same, with blocks of a sector.
fn written(numbers: (u64, u64), changes: &Changes) -> String {
    let (old, new) = numbers;
    let same = without(&changes.used, &changes.changed);
    // Changed blocks that are not in the newer snapshot were in the older one.
    let of_old = [&changes.used[..], &changes.changed].concat();
    [((old, old), &of_old), ((new, new), &changes.used), ((old, new), &same)]
        .map(|(numbers, ranges)| document(numbers, 1, &tags(ranges)))
        .concat()
}

fn tags(ranges: &[Range<u64>]) -> String {
    let mut text = String::new();
    for range in ranges {
        let (begin, end) = (range.start / SECTOR_BYTES, range.end / SECTOR_BYTES);
        writeln!(text, "<same begin=\"{begin}\" length=\"{}\"/>", end - begin)
            .expect("a text takes everything");
    }
    text
}

/// Returns what of `ranges` is not in `others`. Both are in order.
fn without(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    for range in ranges {
        let mut at = range.start;
        let within = |other: &&Range<u64>| other.start < range.end && other.end > range.start;
        for other in others.iter().filter(within) {
            if at < other.start {
                rest.push(at..other.start);
            }
            at = other.end;
        }
        if at < range.end {
            rest.push(at..range.end);
        }
    }
    rest
}
