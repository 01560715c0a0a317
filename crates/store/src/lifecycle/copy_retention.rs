//! Choice of the copies of the catalogue that are kept: pure.
//!
//! Many copies in a row, as reclamations make them, must not push out the copy of the last week: a
//! fault of the catalogue may be noticed late. So copies are kept by number and by age.

use std::collections::BTreeSet;

use model::ServerTime;

const HOUR_MICROS: i64 = 3_600_000_000;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;
const WEEK_MICROS: i64 = 7 * DAY_MICROS;

/// Number of doubtful copies that are kept beside the others.
const DOUBTFUL_KEPT: usize = 2;

/// A copy of the catalogue as the choice sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DatedCopy {
    pub number: u64,
    pub taken: ServerTime,
    pub is_doubtful: bool,
}

/// Numbers of copies to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retention {
    /// Number of the newest copies.
    pub newest: usize,
    /// Number of hours, of days, and of weeks of which the last copy is kept.
    pub hours: usize,
    pub days: usize,
    pub weeks: usize,
}

/// Returns the numbers of the copies to keep. `copies` are in the order in which they were made,
/// which no clock changes. A doubtful copy takes no other one's place.
pub(crate) fn kept(copies: &[DatedCopy], retention: Retention) -> BTreeSet<u64> {
    let (doubtful, sound): (Vec<&DatedCopy>, Vec<&DatedCopy>) =
        copies.iter().rev().partition(|copy| copy.is_doubtful);
    let mut kept: BTreeSet<u64> =
        sound.iter().take(retention.newest.max(1)).map(|copy| copy.number).collect();
    let spans = [
        (HOUR_MICROS, retention.hours),
        (DAY_MICROS, retention.days),
        (WEEK_MICROS, retention.weeks),
    ];
    for (span, count) in spans {
        kept.extend(last_of_each(&sound, span, count));
    }
    kept.extend(doubtful.iter().take(DOUBTFUL_KEPT).map(|copy| copy.number));
    kept
}

/// Returns the last copy of each of the newest `count` spans that have one. `copies` begin with the
/// newest.
fn last_of_each(copies: &[&DatedCopy], span: i64, count: usize) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    let is_last = |copy: &&&DatedCopy| seen.insert(copy.taken.0.div_euclid(span));
    copies.iter().filter(is_last).take(count).map(|copy| copy.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETENTION: Retention = Retention { newest: 2, hours: 0, days: 3, weeks: 2 };

    fn copy(number: u64, hours: i64) -> DatedCopy {
        DatedCopy { number, taken: ServerTime(hours * HOUR_MICROS), is_doubtful: false }
    }

    #[track_caller]
    fn check(copies: &[DatedCopy], expected: &[u64]) {
        let kept: Vec<u64> = kept(copies, RETENTION).into_iter().collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn many_copies_in_a_row_keep_those_of_the_days_before() {
        let days = [copy(1, 1), copy(2, 25), copy(3, 49)];
        let row: Vec<DatedCopy> = (4..20).map(|number| copy(number, 50)).collect();
        check(&[&days[..], &row].concat(), &[1, 2, 18, 19]);
    }

    #[test]
    fn the_last_copy_of_each_hour_stays() {
        let taken = |number: u64| ServerTime(number as i64 * HOUR_MICROS / 2);
        let copies = (1..=8).map(|number| DatedCopy { taken: taken(number), ..copy(number, 0) });
        let hourly = Retention { newest: 1, hours: 3, days: 0, weeks: 0 };
        let kept = kept(&copies.collect::<Vec<_>>(), hourly);
        assert_eq!(kept, BTreeSet::from([5, 7, 8]));
    }

    #[test]
    fn the_last_copy_of_a_week_stays() {
        // The epoch was a Thursday, so weeks begin with one.
        let days: Vec<DatedCopy> = (0..=20).map(|day| copy(day + 1, day as i64 * 24)).collect();
        check(&days, &[14, 19, 20, 21]);
    }

    #[test]
    fn a_doubtful_copy_replaces_no_other() {
        let doubtful = |number| DatedCopy { is_doubtful: true, ..copy(number, 100) };
        let copies = [copy(1, 1), copy(2, 2), doubtful(3), doubtful(4), doubtful(5), doubtful(6)];
        check(&copies, &[1, 2, 5, 6]);
    }

    #[test]
    fn a_date_in_the_future_pushes_nothing_out() {
        check(&[copy(1, 1), copy(2, 999_999), copy(3, 2), copy(4, 3)], &[2, 3, 4]);
        check(&[copy(1, 1)], &[1]);
        check(&[], &[]);
    }
}
