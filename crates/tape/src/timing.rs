//! Times of work with a volume, in seconds: mounting, positioning, reading, dismounting.
//!
//! 1. Positioning follows the formula that CERN publishes for its tape archive CTA: a sum of fixed
//!    times (for another wrap, another band, ...) and a time in proportion to the distance along
//!    the tape.
//! 2. [`CALIBRATED`], and the times of [`Timing::calibrated`] that nobody publishes, were fitted to
//!    a table of recalls that IBM has published. They reproduce that table, but this does not show
//!    that they predict other recalls.
//! 3. Measured times of the drives correct the model: see [`crate::calibration`].

use std::time::Duration;

use crate::generation::{DriveModel, LTO8};
use crate::geometry::{Point, float};

/// Distance in bytes below which a move takes no time: a data set of LTO-8, which the drive reads
/// as a whole.
pub const DATA_SET_BYTES: u64 = 5_000_000;

/// The time of a positioning, in seconds, as a sum of these terms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LocateCost {
    pub start: f64,
    pub wrap_change: f64,
    pub band_change: f64,
    /// Seconds added if source and target lie in different halves of the tape; negative, because
    /// the other terms are for moves within one half.
    pub half_change: f64,
    pub direction_change: f64,
    /// Seconds added if the target lies before the source on the same wrap.
    pub step_back: f64,
    pub per_lpos: f64,
}

/// Cost published by CERN for CTA, measured with LTO-7 media of type M in LTO-8 drives.
pub const PUBLISHED: LocateCost = LocateCost {
    start: 4.29,
    wrap_change: 6.69,
    band_change: 3.2,
    half_change: -6.04,
    direction_change: 5.22,
    step_back: 11.32,
    per_lpos: 0.000_619_2,
};

/// [`PUBLISHED`] with a shorter step back, calibrated to IBM's table of recalls.
pub const CALIBRATED: LocateCost = LocateCost { step_back: 7.7, ..PUBLISHED };

/// Approximate rate of a disk, in bytes a second.
const FILE_BYTES_PER_SEC: f64 = 1e9;

impl LocateCost {
    const NOTHING: Self = Self {
        start: 0.0,
        wrap_change: 0.0,
        band_change: 0.0,
        half_change: 0.0,
        direction_change: 0.0,
        step_back: 0.0,
        per_lpos: 0.0,
    };

    /// Returns the seconds from `source` to `target`.
    pub fn secs(&self, source: &Point, target: &Point) -> f64 {
        if source.address.abs_diff(target.address) < DATA_SET_BYTES {
            return 0.0;
        }
        let is_other_wrap = source.wrap != target.wrap;
        let terms = [
            (self.wrap_change, is_other_wrap),
            (self.band_change, source.band != target.band),
            (self.half_change, source.is_far != target.is_far),
            (self.direction_change, source.is_forward() != target.is_forward()),
            (self.step_back, !is_other_wrap && target.address < source.address),
        ];
        let fixed: f64 =
            terms.iter().map(|(secs, applies)| if *applies { *secs } else { 0.0 }).sum();
        debug_assert!(source.lpos >= 0.0 && target.lpos >= 0.0, "positions begin at 0");
        // The formula is a fit: for some short moves across the middle its result is negative.
        (self.start + fixed + self.per_lpos * (source.lpos - target.lpos).abs()).max(0.0)
    }

    fn scaled(&self, factor: f64) -> Self {
        assert!(factor.is_finite() && factor > 0.0, "a factor is above 0");
        Self {
            start: self.start * factor,
            wrap_change: self.wrap_change * factor,
            band_change: self.band_change * factor,
            half_change: self.half_change * factor,
            direction_change: self.direction_change * factor,
            step_back: self.step_back * factor,
            per_lpos: self.per_lpos * factor,
        }
    }
}

/// The way of a drive to the beginning of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The drive is at the beginning already, or within the same data set.
    Here,
    /// The drive continues to read, and the bytes before the beginning are dropped.
    Through,
    Locate,
}

/// Times of one drive model in one library, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing {
    pub locate: LocateCost,
    /// Time of the changer from a slot to the drive, or back.
    pub changer: f64,
    /// Time from the cartridge's arrival to readiness.
    pub load: f64,
    /// Time of reading the label and finding the beginning of data.
    pub label: f64,
    /// Time of beginning the recall at the server.
    pub session: f64,
    /// Time of each file without its transfer: to find, create and record it.
    pub request: f64,
    pub bytes_per_sec: f64,
    /// Time of the unload, without the rewind.
    pub unload: f64,
    /// Time of the rewind of a whole tape.
    pub rewind_full: f64,
    /// Times of the rewind within an unload, after little, some and much of the tape was moved;
    /// `None` if the time does not depend on that.
    pub retension: Option<[f64; 3]>,
    /// Size of the widest gap that may be read through, in bytes; 0 if no gap may be. A gap is read
    /// through if that takes less time than a locate.
    pub skip_bytes_max: u64,
}

impl Timing {
    /// Returns the times of `drive` for a host that takes `host_bytes_per_sec`. Times that nobody
    /// publishes are calibrated.
    ///
    /// `request` and the sum of `label` and `session` are calibrated to IBM's table of recalls,
    /// which shows only the sum of `label`, `session`, the mount and an average locate (99 s). The
    /// time of the changer is the time that makers of libraries call typical. A whole rewind is
    /// assumed to take twice as long as the average rewind.
    pub fn calibrated(drive: &DriveModel, host_bytes_per_sec: u64) -> Self {
        Self {
            locate: CALIBRATED,
            changer: 10.0,
            load: f64::from(drive.load_secs),
            label: 10.0,
            session: 8.0,
            request: 0.0184,
            bytes_per_sec: float(drive.streaming_bytes_per_sec(host_bytes_per_sec).max(1)),
            unload: f64::from(drive.unload_secs),
            rewind_full: 2.0 * f64::from(drive.rewind_average_secs),
            retension: drive.retension_secs.map(|secs| secs.map(f64::from)),
            skip_bytes_max: u64::MAX,
        }
    }

    /// Returns the times of files that stand for tapes, which need no winding and no mounts.
    pub fn files() -> Self {
        let locate = LocateCost::NOTHING;
        Self {
            locate,
            changer: 0.0,
            load: 0.0,
            label: 0.0,
            session: 0.0,
            request: 0.0,
            bytes_per_sec: FILE_BYTES_PER_SEC,
            unload: 0.0,
            rewind_full: 0.0,
            retension: None,
            skip_bytes_max: 0,
        }
    }

    /// Returns the times of the LTO-8 drive and the link of 10 Gbit/s with which IBM's table of
    /// recalls was measured.
    pub fn lto8() -> Self {
        Self::calibrated(&LTO8, 1_250_000_000)
    }

    /// Returns the seconds from the decision to mount until the volume is at its load point and its
    /// label has been read.
    pub fn mount_secs(&self) -> f64 {
        self.changer + self.load + self.label + self.session
    }

    /// Returns the seconds until the drive is empty, if it stands at the position `along` the tape
    /// (0 to 1), and a share `moved` of the volume was read.
    ///
    /// If the time of the rewind depends on the amount of tape that was moved, the limits between
    /// little, some and much are assumed at one and two thirds.
    pub fn dismount_secs(&self, along: f64, moved: f64) -> f64 {
        debug_assert!((0.0..=1.0).contains(&along) && moved >= 0.0, "both are shares of the tape");
        let rewind = match self.retension {
            None => self.rewind_full * along,
            Some([little, _, _]) if moved < 1.0 / 3.0 => little,
            Some([_, some, _]) if moved < 2.0 / 3.0 => some,
            Some([_, _, much]) => much,
        };
        rewind + self.unload + self.changer
    }

    /// Returns the way from `source` to `target`, and its seconds.
    pub fn reach(&self, source: &Point, target: &Point) -> (Reach, f64) {
        let locate = self.locate.secs(source, target);
        match self.through_secs(source, target) {
            _ if source.address.abs_diff(target.address) < DATA_SET_BYTES => (Reach::Here, 0.0),
            Some(through) if through <= locate => (Reach::Through, through),
            _ => (Reach::Locate, locate),
        }
    }

    /// Returns the seconds to continue to read until `target`; `None` if it lies before `source` or
    /// too far after it.
    fn through_secs(&self, source: &Point, target: &Point) -> Option<f64> {
        let gap = target.address.checked_sub(source.address)?;
        (gap <= self.skip_bytes_max).then(|| self.transfer_secs(gap))
    }

    /// Returns true if two files without a wanted file between them are read in one pass in every
    /// order: reading through the gap takes less time than the start of a locate.
    pub fn joins(&self, source: &Point, target: &Point) -> bool {
        let (reach, secs) = self.reach(source, target);
        reach != Reach::Locate && secs <= self.locate.start
    }

    /// Returns the seconds to transfer `bytes`.
    pub fn transfer_secs(&self, bytes: u64) -> f64 {
        debug_assert!(self.bytes_per_sec > 0.0, "data moves");
        float(bytes) / self.bytes_per_sec
    }

    /// Returns the seconds to read a file of `bytes`, if the drive stands at its beginning.
    pub fn read_secs(&self, bytes: u64) -> f64 {
        self.request + self.transfer_secs(bytes)
    }

    /// Returns these times with the factors of `correction`.
    ///
    /// The unload has the factor of the mount, and the rewind has the factor of the locate, because
    /// the same parts move.
    pub fn corrected(&self, correction: &Correction) -> Self {
        let Correction { mounting, positioning, reading } = *correction;
        assert!(mounting > 0.0 && positioning > 0.0 && reading > 0.0, "a factor is above 0");
        Self {
            locate: self.locate.scaled(positioning),
            changer: self.changer * mounting,
            load: self.load * mounting,
            label: self.label * mounting,
            session: self.session * mounting,
            request: self.request * reading,
            bytes_per_sec: self.bytes_per_sec / reading,
            unload: self.unload * mounting,
            rewind_full: self.rewind_full * positioning,
            retension: self.retension.map(|rewinds| rewinds.map(|secs| secs * positioning)),
            skip_bytes_max: self.skip_bytes_max,
        }
    }
}

/// Factors between assumed times and measured times of drives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Correction {
    pub mounting: f64,
    pub positioning: f64,
    pub reading: f64,
}

impl Correction {
    pub const NONE: Self = Self { mounting: 1.0, positioning: 1.0, reading: 1.0 };
}

/// Returns seconds as a duration; zero for negative seconds.
pub fn duration(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::{LTO9, MEDIUM_LTO8};
    use crate::geometry::Geometry;

    const GB: u64 = 1_000_000_000;

    #[track_caller]
    fn check_locate(source: u64, target: u64, expected: f64) {
        let geometry = Geometry::even(MEDIUM_LTO8);
        let secs = PUBLISHED.secs(&geometry.point(source), &geometry.point(target));
        assert!((secs - expected).abs() < 0.02, "{secs} s instead of {expected}");
    }

    #[test]
    fn each_term_of_the_formula_counts_where_it_applies() {
        let wrap = MEDIUM_LTO8.wrap_bytes();
        // A tenth of the tape is 16840 positions, 10.43 s.
        check_locate(0, wrap / 10, 4.29 + 10.43);
        check_locate(wrap / 10, 0, 4.29 + 10.43 + 11.32);
        check_locate(0, 2 * wrap + wrap / 10, 4.29 + 6.69 + 10.43);
        check_locate(0, 2 * wrap - wrap / 10, 4.29 + 6.69 + 5.22 + 10.43);
        check_locate(wrap * 4 / 10, wrap * 6 / 10, 4.29 + 20.85 - 6.04);
        check_locate(0, 52 * wrap + wrap / 10, 4.29 + 6.69 + 3.2 + 10.43);
    }

    #[test]
    fn a_move_within_a_data_set_is_free_and_none_takes_less_than_nothing() {
        check_locate(GB, GB + DATA_SET_BYTES - 1, 0.0);
        check_locate(GB, GB, 0.0);
        let middle = MEDIUM_LTO8.wrap_bytes() / 2;
        check_locate(middle - 10 * DATA_SET_BYTES, middle + DATA_SET_BYTES, 0.0);
    }

    #[test]
    fn the_average_locate_from_the_load_point_is_near_what_ibm_publishes() {
        let geometry = Geometry::even(MEDIUM_LTO8);
        let start = geometry.load_point();
        let all = (0..12_000).map(|gb| CALIBRATED.secs(&start, &geometry.point(gb * GB)));
        let mean = all.sum::<f64>() / 12_000.0;
        let published = f64::from(LTO8.locate_average_secs);
        assert!((mean - published).abs() < 7.0, "{mean} s");
    }

    #[test]
    fn small_gaps_are_read_through_and_wide_ones_are_not() {
        let (geometry, timing) = (Geometry::even(MEDIUM_LTO8), Timing::lto8());
        let reach = |gap: u64| timing.reach(&geometry.point(GB), &geometry.point(GB + gap)).0;
        assert_eq!(reach(1_000_000), Reach::Here);
        assert_eq!(reach(GB), Reach::Through);
        assert_eq!(reach(10 * GB), Reach::Locate);
        let back = timing.reach(&geometry.point(2 * GB), &geometry.point(GB)).0;
        assert_eq!(back, Reach::Locate);
        let joins = |gap: u64| timing.joins(&geometry.point(GB), &geometry.point(GB + gap));
        assert!(joins(1_500_000_000) && !joins(1_600_000_000));
        let never = Timing { skip_bytes_max: 0, ..timing };
        assert_eq!(never.reach(&geometry.point(GB), &geometry.point(2 * GB)).0, Reach::Locate);
    }

    #[test]
    fn a_mount_takes_what_was_calibrated() {
        let timing = Timing::lto8();
        assert_eq!(timing.mount_secs().to_bits(), 43.0_f64.to_bits());
        assert_eq!(timing.dismount_secs(0.5, 9.0).to_bits(), (59.0_f64 + 34.0).to_bits());
        let timing = Timing::calibrated(&LTO9, u64::MAX);
        let rewinds = [0.1, 0.5, 2.0].map(|moved| timing.dismount_secs(0.0, moved) - 40.0);
        assert_eq!(rewinds.map(f64::to_bits), [55.0_f64, 110.0, 165.0].map(f64::to_bits));
    }

    #[test]
    fn a_corrected_model_takes_longer_by_each_factor() {
        let (geometry, timing) = (Geometry::even(MEDIUM_LTO8), Timing::lto8());
        let slower = Correction { mounting: 3.0, positioning: 1.5, reading: 2.0 };
        let slower = timing.corrected(&slower);
        let (source, target) = (geometry.point(0), geometry.point(30 * GB));
        let ratio = slower.reach(&source, &target).1 / timing.reach(&source, &target).1;
        assert!((ratio - 1.5).abs() < 1e-9);
        assert!((slower.read_secs(GB) / timing.read_secs(GB) - 2.0).abs() < 1e-9);
        assert!((slower.mount_secs() / timing.mount_secs() - 3.0).abs() < 1e-9);
        assert!((slower.dismount_secs(1.0, 0.0) - (1.5 * 118.0 + 3.0 * 34.0)).abs() < 1e-9);
        assert_eq!(timing.corrected(&Correction::NONE), timing);
    }
}
