//! Comparison of the real times of one library's drives with the assumed times.
//!
//! 1. Mounts, locates and reads are measured separately. Each gives a ratio: real seconds divided
//!    by assumed seconds.
//! 2. The factor of a step is the median of its last ratios, so that up to half of them may be
//!    outliers: because of a drive that retries, a changer that serves other drives, or a host that
//!    stops for a while.
//! 3. A factor is bounded, and it changes only when the median has moved away from it clearly.
//!    Plans made with the old factor are good enough until then.

use std::collections::VecDeque;

use crate::timing::Correction;

/// Maximum number of ratios from which a factor is computed; older ratios are forgotten.
const RATIOS_MAX: usize = 64;
/// Minimum number of ratios for a correction. The median of five ratios withstands two outliers.
const RATIOS_MIN: usize = 5;
/// Minimum assumed seconds of a step that is measured. A shorter step shows more about the clock
/// than about the drive.
const ASSUMED_SECS_MIN: f64 = 0.01;
/// Largest factor; its reciprocal is the smallest factor. A ratio beyond these limits has another
/// cause than the drive.
const FACTOR_MAX: f64 = 4.0;
/// Minimum difference between the median and a factor, as a share of the factor, at which the
/// factor changes.
const CHANGE_MIN: f64 = 0.05;

/// A step of a recall whose time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Mount,
    Locate,
    Read,
}

/// The last ratios of one step, and the factor computed from them.
#[derive(Debug)]
struct Measure {
    /// Ratios, oldest first.
    ratios: VecDeque<f64>,
    factor: f64,
}

/// The measured steps of the drives of one schedule.
#[derive(Debug)]
pub struct Calibration {
    mount: Measure,
    locate: Measure,
    read: Measure,
}

impl Measure {
    const fn new() -> Self {
        Self { ratios: VecDeque::new(), factor: 1.0 }
    }

    /// Adds a ratio; returns true if the factor has changed.
    fn add(&mut self, ratio: f64) -> bool {
        assert!(ratio.is_finite() && ratio >= 0.0, "time does not run backwards");
        if self.ratios.len() == RATIOS_MAX {
            self.ratios.pop_front();
        }
        self.ratios.push_back(ratio);
        debug_assert!(self.ratios.len() <= RATIOS_MAX, "the window is bounded");
        let Some(median) = self.median() else { return false };
        let target = median.clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
        let changes = (target - self.factor).abs() > CHANGE_MIN * self.factor;
        if changes {
            self.factor = target;
        }
        changes
    }

    /// Returns the median of the ratios, the lower of the two middle ratios for an even number;
    /// `None` while there are too few.
    fn median(&self) -> Option<f64> {
        if self.ratios.len() < RATIOS_MIN {
            return None;
        }
        let mut sorted: Vec<f64> = self.ratios.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        Some(sorted[(sorted.len() - 1) / 2])
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self { mount: Measure::new(), locate: Measure::new(), read: Measure::new() }
    }
}

impl Calibration {
    /// Takes the measured time of a step; returns true if [`Self::correction`] has changed.
    ///
    /// `assumed_secs` is the time of the step without any correction.
    pub fn observe(&mut self, step: Step, assumed_secs: f64, real_secs: f64) -> bool {
        debug_assert!(assumed_secs >= 0.0 && real_secs >= 0.0, "a step takes no negative time");
        if assumed_secs < ASSUMED_SECS_MIN {
            return false;
        }
        let measure = match step {
            Step::Mount => &mut self.mount,
            Step::Locate => &mut self.locate,
            Step::Read => &mut self.read,
        };
        measure.add(real_secs / assumed_secs)
    }

    /// Returns the factors that make assumed times fit the measured times.
    pub fn correction(&self) -> Correction {
        Correction {
            mounting: self.mount.factor,
            positioning: self.locate.factor,
            reading: self.read.factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the factor of reads after reads that took these multiples of the assumed time.
    fn reading(ratios: &[f64]) -> f64 {
        let mut calibration = Calibration::default();
        for ratio in ratios {
            calibration.observe(Step::Read, 10.0, ratio * 10.0);
        }
        calibration.correction().reading
    }

    #[track_caller]
    fn check(ratios: &[f64], expected: f64) {
        let found = reading(ratios);
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }

    proptest! {
        #[test]
        fn the_factor_is_found_among_outliers(
            factor in 0.3..3.5_f64,
            outliers in proptest::collection::vec(0.0..1000.0_f64, 0..12),
        ) {
            let mut ratios = vec![factor; outliers.len() + 5];
            for (index, outlier) in outliers.iter().enumerate() {
                ratios.insert(index * 2, *outlier);
            }
            let found = reading(&ratios);
            prop_assert!((found - factor).abs() <= 0.06 * factor, "{} {}", found, factor);
        }

        #[test]
        fn no_factor_leaves_its_bounds(
            ratios in proptest::collection::vec(0.0..1e6_f64, 0..200),
        ) {
            let found = reading(&ratios);
            prop_assert!((0.25..=4.0).contains(&found));
        }
    }

    #[test]
    fn few_observations_correct_nothing() {
        check(&[3.0; 4], 1.0);
        check(&[3.0; 5], 3.0);
    }

    #[test]
    fn small_differences_correct_nothing() {
        check(&[1.04; 30], 1.0);
        check(&[1.06; 30], 1.06);
    }

    #[test]
    fn old_observations_are_forgotten() {
        check(&[[3.0; 40].as_slice(), &[2.0; 64]].concat(), 2.0);
    }

    #[test]
    fn steps_are_measured_apart_and_short_ones_not_at_all() {
        let mut calibration = Calibration::default();
        for _ in 0..5 {
            assert!(!calibration.observe(Step::Locate, 0.001, 9.0));
            calibration.observe(Step::Mount, 40.0, 60.0);
            calibration.observe(Step::Locate, 20.0, 40.0);
        }
        let expected = Correction { mounting: 1.5, positioning: 2.0, reading: 1.0 };
        assert_eq!(calibration.correction(), expected);
    }
}
