//! The places of a volume's bytes along the tape.
//!
//! ```text
//!   load point                              end of tape
//!   |  wrap 0  ---------------------------------->  |   band 0
//!   |  wrap 1  <----------------------------------  |
//!   |  ...                                          |
//!   |  wrap 52 ---------------------------------->  |   band 1 (of LTO-8)
//! ```
//!
//! Data runs along the tape in wraps: forward on even wraps and back on odd wraps, so that bytes a
//! whole wrap apart can lie side by side. An *address* is the number of bytes before a place on the
//! volume. If a drive reports the ends of its wraps, addresses are placed between these ends;
//! otherwise all wraps are assumed to be equally full.

use crate::generation::Medium;

/// A place on the tape.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Number of bytes before the point on the volume.
    pub address: u64,
    pub wrap: u32,
    pub band: u32,
    /// Position along the tape, from 0 at the load point.
    pub lpos: f64,
    /// True if the point lies in the second half of the tape.
    pub is_far: bool,
}

impl Point {
    /// Returns true if data at this point is read from the load point towards the end of the tape.
    pub fn is_forward(&self) -> bool {
        self.wrap.is_multiple_of(2)
    }
}

/// The layout of addresses on one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    medium: Medium,
    /// Addresses of the ends of the wraps. Invariant: one end for each wrap of the medium,
    /// ascending, the first above 0.
    ends: Vec<u64>,
}

/// Reason why the report of a drive gives no geometry. The caller uses [`Geometry::even`] instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the drive reports no wrap")]
    Empty,
    #[error("the drive reports more wraps than the medium has")]
    TooMany,
    #[error("wrap {wrap} does not end after the previous wrap")]
    NotAscending { wrap: usize },
}

impl Geometry {
    /// Returns the geometry of a volume whose wraps are equally full.
    pub fn even(medium: Medium) -> Self {
        let wraps = u64::from(medium.wraps);
        assert!(
            wraps > 0 && wraps.is_multiple_of(u64::from(medium.bands)),
            "the wraps form whole bands"
        );
        let (each, rest) = (medium.capacity_bytes / wraps, medium.capacity_bytes % wraps);
        let ends = (1..=wraps).map(|wrap| each * wrap + rest * wrap / wraps).collect();
        Self { medium, ends }
    }

    /// Returns the geometry that a drive reports. `ends_blocks` are the numbers of blocks, of
    /// `block_bytes` each, before the end of each full wrap.
    ///
    /// Wraps without a report are assumed to be as full as the average of the reported wraps.
    pub fn reported(
        medium: Medium,
        ends_blocks: &[u64],
        block_bytes: u32,
    ) -> Result<Self, ReportError> {
        let last = *ends_blocks.last().ok_or(ReportError::Empty)?;
        let wraps = usize::try_from(medium.wraps).expect("a medium has a few hundred wraps");
        if ends_blocks.len() > wraps {
            return Err(ReportError::TooMany);
        }
        let before = std::iter::once(0).chain(ends_blocks.iter().copied());
        if let Some(wrap) = before.zip(ends_blocks).position(|(before, end)| *end <= before) {
            return Err(ReportError::NotAscending { wrap });
        }
        let mean = (last / ends_blocks.len() as u64).max(1);
        let beyond = (1..).map(|count| last.saturating_add(mean.saturating_mul(count)));
        let blocks = ends_blocks.iter().copied().chain(beyond).take(wraps);
        let ends: Vec<u64> =
            blocks.map(|end| end.saturating_mul(u64::from(block_bytes.max(1)))).collect();
        assert_eq!(ends.len(), wraps, "each wrap has an end");
        debug_assert!(ends.is_sorted(), "wraps follow each other");
        Ok(Self { medium, ends })
    }

    /// Returns the point of `address`. An address after the last wrap counts as the end of that
    /// wrap.
    pub fn point(&self, address: u64) -> Point {
        let index = self.ends.partition_point(|end| *end <= address).min(self.ends.len() - 1);
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        debug_assert!(start < self.ends[index], "a wrap holds something");
        let bytes = self.ends[index] - start;
        let fraction = float((address - start).min(bytes)) / float(bytes);
        let wrap = u32::try_from(index).expect("a medium has a few hundred wraps");
        let along = if wrap.is_multiple_of(2) { fraction } else { 1.0 - fraction };
        Point {
            address,
            wrap,
            band: wrap / (self.medium.wraps / self.medium.bands),
            lpos: along * f64::from(self.medium.lpos_end),
            is_far: along >= 0.5,
        }
    }

    /// Returns the point at which a volume stands after its mount.
    pub fn load_point(&self) -> Point {
        self.point(0)
    }

    /// Returns the position of `point` along the tape, from 0 to 1.
    pub fn along(&self, point: &Point) -> f64 {
        let along = point.lpos / f64::from(self.medium.lpos_end);
        debug_assert!((0.0..=1.0).contains(&along), "the tape has two ends");
        along
    }

    /// Returns `bytes` as a share of the volume: from 0 to 1, if no byte is read twice.
    pub fn part(&self, bytes: u64) -> f64 {
        float(bytes) / float(*self.ends.last().expect("a medium has wraps"))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a tape holds fewer bytes than 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generation::{MEDIUM_LTO8, MEDIUM_LTO9};

    const BLOCK_BYTES: u32 = 262_144;

    /// Returns the address of a point, computed from its wrap and its place along the tape.
    fn address(geometry: &Geometry, point: &Point) -> f64 {
        let index = point.wrap as usize;
        let start = if index == 0 { 0 } else { geometry.ends[index - 1] };
        let along = point.lpos / f64::from(geometry.medium.lpos_end);
        let fraction = if point.is_forward() { along } else { 1.0 - along };
        float(start) + fraction * float(geometry.ends[index] - start)
    }

    /// Generates geometries that a drive may report: the wraps have different lengths.
    fn reports() -> impl Strategy<Value = Geometry> {
        let blocks = MEDIUM_LTO8.wrap_bytes() / u64::from(BLOCK_BYTES);
        proptest::collection::vec(blocks / 2..blocks * 2, 1..=208).prop_map(|lengths| {
            let ends = lengths.iter().scan(0, |end, length| {
                *end += length;
                Some(*end)
            });
            let ends: Vec<u64> = ends.collect();
            Geometry::reported(MEDIUM_LTO8, &ends, BLOCK_BYTES).expect("ascending")
        })
    }

    fn geometries() -> impl Strategy<Value = Geometry> {
        let even = |medium| Just(Geometry::even(medium));
        prop_oneof![even(MEDIUM_LTO8), even(MEDIUM_LTO9), reports()]
    }

    proptest! {
        #[test]
        fn an_address_comes_back_from_its_point(
            geometry in geometries(),
            part in 0..1_000_000_u64,
        ) {
            let wanted = *geometry.ends.last().expect("wraps") / 1_000_000 * part;
            let point = geometry.point(wanted);
            prop_assert!((address(&geometry, &point) - float(wanted)).abs() < 100_000.0);
            prop_assert!(point.band < 4);
            let middle = f64::from(geometry.medium.lpos_end) / 2.0;
            prop_assert_eq!(point.is_far, point.lpos >= middle);
        }

        #[test]
        fn along_a_wrap_the_place_moves_one_way(
            geometry in geometries(),
            wrap in 0_usize..208,
            mut millionths in proptest::array::uniform2(0..1_000_000_u64),
        ) {
            let start = if wrap == 0 { 0 } else { geometry.ends[wrap - 1] };
            let step = (geometry.ends[wrap] - start) / 1_000_000;
            millionths.sort_unstable();
            let [first, second] = millionths.map(|part| geometry.point(start + step * part));
            prop_assert_eq!((first.wrap as usize, second.wrap as usize), (wrap, wrap));
            let ahead = second.lpos - first.lpos;
            let onwards = if first.is_forward() { ahead } else { -ahead };
            prop_assert!(onwards >= 0.0, "{} on wrap {}", ahead, wrap);
        }

        #[test]
        fn neighbours_across_the_end_of_a_wrap_lie_side_by_side(
            geometry in geometries(),
            wrap in 0_usize..207,
        ) {
            let end = geometry.ends[wrap];
            let (last, first) = (geometry.point(end - 1), geometry.point(end));
            prop_assert_eq!(first.wrap, last.wrap + 1);
            prop_assert!((first.lpos - last.lpos).abs() < 1.0);
        }
    }

    #[test]
    fn even_wraps_hold_the_capacity() {
        for medium in [MEDIUM_LTO8, MEDIUM_LTO9] {
            let geometry = Geometry::even(medium);
            assert_eq!(geometry.ends.last(), Some(&medium.capacity_bytes));
            assert_eq!(geometry.ends.len(), medium.wraps as usize);
        }
        assert_eq!(Geometry::even(MEDIUM_LTO8).point(0).lpos.to_bits(), 0);
    }

    #[test]
    fn the_band_changes_after_a_quarter_of_the_wraps() {
        let geometry = Geometry::even(MEDIUM_LTO8);
        let bands = |wrap: usize| geometry.point(geometry.ends[wrap]).band;
        assert_eq!([bands(0), bands(50), bands(51), bands(206)], [0, 0, 1, 3]);
    }

    #[test]
    fn what_is_beyond_the_end_is_at_the_end() {
        let geometry = Geometry::even(MEDIUM_LTO8);
        let point = geometry.point(u64::MAX);
        assert_eq!((point.wrap, point.lpos.to_bits()), (207, 0));
    }

    #[test]
    fn wraps_without_a_report_are_as_full_as_the_others() {
        let geometry = Geometry::reported(MEDIUM_LTO8, &[100, 300], 10).expect("a report");
        assert_eq!(geometry.ends[..4], [1000, 3000, 4500, 6000]);
        assert_eq!(geometry.point(2000).lpos.to_bits(), 84_200.0_f64.to_bits());
    }

    #[test]
    fn reports_that_cannot_be_are_refused() {
        let reported = |ends: &[u64]| Geometry::reported(MEDIUM_LTO8, ends, 1).err();
        assert_eq!(reported(&[]), Some(ReportError::Empty));
        assert_eq!(reported(&[0]), Some(ReportError::NotAscending { wrap: 0 }));
        assert_eq!(reported(&[5, 5]), Some(ReportError::NotAscending { wrap: 1 }));
        let many: Vec<u64> = (1..=209).collect();
        assert_eq!(reported(&many), Some(ReportError::TooMany));
    }
}
