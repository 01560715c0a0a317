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
        let upper = sorted.len() / 2;
        let lower = (sorted.len() - 1) / 2;
        Self { median: f64::midpoint(sorted[lower], sorted[upper]), least, most }
    }

    pub(crate) fn json(self) -> Value {
        json!({"median": self.median, "min": self.least, "max": self.most})
    }
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
}
