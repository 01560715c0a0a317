//! LVM on the disks in images.

use std::io;
use std::ops::Range;
use std::path::Path;

use image::lvm::{VolumeList, VolumeMap, checksum, find};
use sim::lvm::{Segment, VolumeGroup, head_of_disk};

use crate::Target;

/// Limit for sections, of which each takes a hundred times its text, beside the head of a disk.
const SECTIONS_BYTES_MAX: u64 = 16 << 20;
const DISK_BYTES: u64 = 40 << 20;
const IDS: [&str; 2] = ["DmsXLra15KXml1vZMGofPGncKaYtN7st", "7T6GaFusMEDFxYxDZFLvvWdzk9tMHIYv"];
/// Number of pieces of a volume that are looked at.
const PIECES_MAX: usize = 1000;

/// The input is the beginning of a disk, of which the rest is zeros.
pub(super) const LVM_DISK: Target = Target {
    name: "lvm_disk",
    allocation_bytes_max: SECTIONS_BYTES_MAX,
    seeds: || vec![golden("first"), golden("second")],
    check: check_disk,
};

/// The input is the text of the metadata on a disk.
pub(super) const LVM_TEXT: Target = Target {
    name: "lvm_text",
    allocation_bytes_max: SECTIONS_BYTES_MAX,
    seeds: || vec![group_of_two_disks()],
    check: check_text,
};

fn check_disk(input: &[u8]) {
    check_list(&volumes_of(input));
    let mut repaired = input.to_vec();
    repair(&mut repaired);
    check_list(&volumes_of(&repaired));
}

fn check_text(input: &[u8]) {
    check_list(&volumes_of(&head_of_disk(IDS[0], DISK_BYTES, input, 512)));
}

fn volumes_of(head: &[u8]) -> VolumeList {
    let read = |offset: u64, bytes: usize| -> io::Result<Vec<u8>> {
        assert!(offset + bytes as u64 <= DISK_BYTES, "nothing is read after the end");
        let at = usize::try_from(offset).expect("a small disk");
        let mut content: Vec<u8> =
            head.get(at..).unwrap_or_default().iter().copied().take(bytes).collect();
        content.resize(bytes, 0);
        Ok(content)
    };
    find(&read, &[0..DISK_BYTES]).expect("the disk has no errors")
}

fn check_list(list: &VolumeList) {
    assert!(list.disks.len() <= 1, "{list:?}");
    for volume in &list.volumes {
        if let Ok(map) = &volume.map {
            assert_eq!(map.bytes(), volume.bytes);
            check_pieces(map, 0..map.bytes());
            check_pieces(map, map.bytes() - 1..map.bytes());
        }
    }
}

/// Checks that a range of a volume lies on the disk, and that no byte is left out.
fn check_pieces(map: &VolumeMap, range: Range<u64>) {
    let pieces: Vec<Range<u64>> = map.pieces(range.clone()).take(PIECES_MAX).collect();
    let is_on_disk = |piece: &Range<u64>| !piece.is_empty() && piece.end <= DISK_BYTES;
    assert!(pieces.iter().all(is_on_disk), "{pieces:?}");
    let bytes: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
    assert!(pieces.len() == PIECES_MAX || bytes == range.end - range.start, "{map:?}");
}

/// Makes the checksums of the label, of the first metadata area and of its text fit.
fn repair(head: &mut [u8]) {
    if head.len() >= 1024 {
        let label = checksum(&head[532..1024]).to_le_bytes();
        head[528..532].copy_from_slice(&label);
    }
    if head.len() < 4608 {
        return;
    }
    let number = |at: usize| u64::from_le_bytes(*head[at..].first_chunk().expect("8 bytes"));
    let place = 4096_u64.checked_add(number(4136)).and_then(|at| usize::try_from(at).ok());
    let bytes = usize::try_from(number(4144)).ok();
    let end = place.zip(bytes).and_then(|(place, bytes)| place.checked_add(bytes));
    if let Some(text) = place.zip(end).and_then(|(place, end)| head.get(place..end)) {
        let text = checksum(text).to_le_bytes();
        head[4152..4156].copy_from_slice(&text);
    }
    let area = checksum(&head[4100..4608]).to_le_bytes();
    head[4096..4100].copy_from_slice(&area);
}

/// Returns the beginning of a disk that LVM has written.
fn golden(name: &str) -> Vec<u8> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder");
    let path = crates.join("image/testdata/lvm-2.03.16").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("cannot read {path:?}: {error}"))
}

fn group_of_two_disks() -> Vec<u8> {
    let group = VolumeGroup {
        name: "tank",
        sequence: 3,
        extent_bytes: 1 << 20,
        disks: &[(IDS[0], 20), (IDS[1], 20)],
        volumes: &[
            (
                "home",
                &[
                    Segment { extents: 2, stripes: &[(0, 7)] },
                    Segment { extents: 3, stripes: &[(0, 1)] },
                ],
            ),
            ("stripes", &[Segment { extents: 4, stripes: &[(0, 10), (0, 14)] }]),
            ("wide", &[Segment { extents: 4, stripes: &[(0, 4), (1, 0)] }]),
        ],
    };
    group.text().into_bytes()
}
