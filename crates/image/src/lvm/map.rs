//! Where the bytes of a logical volume lie in the image.

use std::ops::Range;

/// Places of all bytes of a logical volume.
///
/// Invariant: each segment begins where the segment before it ends, and none is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeMap {
    segments: Vec<MappedSegment>,
    bytes: u64,
}

/// Part of a logical volume. Its stripes lie in the areas by turns.
///
/// Invariant: the stripes of a turn are `stripe_bytes` long in each area, and the segment ends with
/// a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MappedSegment {
    /// Offset in the volume.
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) stripe_bytes: u64,
    /// Offsets in the image.
    pub(super) areas: Vec<u64>,
}

impl VolumeMap {
    /// Makes the map of a volume that is not empty.
    pub(super) fn new(segments: Vec<MappedSegment>) -> Self {
        let mut bytes = 0;
        for segment in &segments {
            assert_eq!(segment.start, bytes, "a segment begins where the last one ends");
            let turn = segment.stripe_bytes * segment.areas.len() as u64;
            assert!(segment.bytes > 0 && segment.bytes.is_multiple_of(turn), "whole turns");
            bytes += segment.bytes;
        }
        assert!(bytes > 0, "a volume has a segment");
        Self { segments, bytes }
    }

    /// Returns the size of the volume in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the ranges of the image that are `range` of the volume, in the order of the volume.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        assert!(range.end <= self.bytes, "the range is in the volume");
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let piece = self.piece(at);
            let bytes = (piece.end - piece.start).min(range.end - at);
            at += bytes;
            Some(piece.start..piece.start + bytes)
        })
    }

    /// Returns the range of the image that is the volume from `offset` on, as far as it is one.
    fn piece(&self, offset: u64) -> Range<u64> {
        let after = self.segments.partition_point(|segment| segment.start <= offset);
        let segment = &self.segments[after - 1];
        let (stripe, at) = {
            let offset = offset - segment.start;
            (offset / segment.stripe_bytes, offset % segment.stripe_bytes)
        };
        let count = segment.areas.len() as u64;
        let area = usize::try_from(stripe % count).expect("the number of an area");
        let start = segment.areas[area] + stripe / count * segment.stripe_bytes + at;
        start..start + (segment.stripe_bytes - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a volume of a linear segment at 1000, and of one in stripes of 10 at 500 and 700.
    fn volume() -> VolumeMap {
        VolumeMap::new(vec![
            MappedSegment { start: 0, bytes: 50, stripe_bytes: 50, areas: vec![1000] },
            MappedSegment { start: 50, bytes: 40, stripe_bytes: 10, areas: vec![500, 700] },
        ])
    }

    #[track_caller]
    fn check(range: Range<u64>, expected: &[Range<u64>]) {
        assert_eq!(volume().pieces(range).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn segments_follow_each_other() {
        assert_eq!(volume().bytes(), 90);
        check(0..50, &[1000..1050]);
        check(10..20, &[1010..1020]);
        check(49..51, &[1049..1050, 500..501]);
        check(90..90, &[]);
    }

    #[test]
    fn stripes_take_turns() {
        check(50..90, &[500..510, 700..710, 510..520, 710..720]);
        check(65..75, &[705..710, 510..515]);
    }
}
