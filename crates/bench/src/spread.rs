//! The spread of several values of one figure, in three numbers.

use serde_json::{Value, json};

/// The median of several values, with the least and the greatest of them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Returns the spread of `values`; zeros if there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        Self { median: middle(&sorted), least, most }
    }

    pub(crate) fn json(self) -> Value {
        json!({"median": self.median, "min": self.least, "max": self.most})
    }
}

/// The median of many values, and the range of the middle half of them. A few values that something
/// else on the machine has changed do not widen it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct MiddleHalf {
    pub(crate) median: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl MiddleHalf {
    /// Returns the middle half of `values`: from the median of the lower half to that of the upper
    /// half, each with the median of all if it is one of the values. Zeros if there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() {
            return Self::default();
        }
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len().div_ceil(2);
        let (lower, upper) = (&sorted[..half], &sorted[sorted.len() - half..]);
        Self { median: middle(&sorted), lower: middle(lower), upper: middle(upper) }
    }

    pub(crate) fn json(self) -> Value {
        json!({"median": self.median, "lower": self.lower, "upper": self.upper})
    }
}

/// Returns the median of values in ascending order, of which there is at least one.
fn middle(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people needs no 53 bits")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], median: f64, least: f64, most: f64) {
        assert_eq!(Spread::of(values.iter().copied()), Spread { median, least, most });
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        check(&[], 0.0, 0.0, 0.0);
        check(&[2.0], 2.0, 2.0, 2.0);
        check(&[9.0, 1.0, 2.0], 2.0, 1.0, 9.0);
        check(&[4.0, 1.0, 2.0, 9.0], 3.0, 1.0, 9.0);
    }

    #[track_caller]
    fn check_half(values: &[f64], median: f64, lower: f64, upper: f64) {
        let half = MiddleHalf::of(values.iter().copied());
        assert_eq!(half, MiddleHalf { median, lower, upper });
    }

    #[test]
    fn the_middle_half_lies_between_the_medians_of_both_halves() {
        check_half(&[], 0.0, 0.0, 0.0);
        check_half(&[2.0], 2.0, 2.0, 2.0);
        check_half(&[4.0, 1.0, 2.0, 90.0], 3.0, 1.5, 47.0);
        check_half(&[5.0, 1.0, 2.0, -70.0, 3.0, 90.0, 4.0], 3.0, 1.5, 4.5);
    }
}
