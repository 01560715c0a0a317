//! Whether a change time tells later changes apart.
//!
//! File systems stamp with a clock that goes in steps. What is read in the step in which it changed
//! may change once more in the same step and keep its change time; it would never be looked at
//! again. So a backup lets the step pass before it reads, and where that would take too long it
//! stores no change time, so that the object is looked at next time.

use std::time::Duration;

use model::{ServerTime, Stat, Timestamp};

/// Twice the longest step of a kernel's clock: 10 ms at 100 Hz.
const STEP_MICROS: i64 = 20_000;
/// The same for file systems that count seconds.
const SECOND_STEP_MICROS: i64 = 2_000_000;

/// Whether a change from now on shows in the change time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settled {
    Yes,
    /// Once so much time has passed.
    In(Duration),
    /// Later than is worth waiting for.
    Later,
}

/// Tells it for an object with this `stat` at the time `now`.
pub(super) fn settled(stat: &Stat, now: ServerTime) -> Settled {
    let Timestamp { secs, nanos } = stat.ctime;
    let changed = secs.saturating_mul(1_000_000).saturating_add(i64::from(nanos / 1000));
    let age = now.0.saturating_sub(changed);
    let step = if nanos == 0 { SECOND_STEP_MICROS } else { STEP_MICROS };
    // A time far ahead is another machine's, or wrong: waiting for it settles nothing.
    if age >= step || age < -SECOND_STEP_MICROS {
        return Settled::Yes;
    }
    match u64::try_from(step - age) {
        Ok(left) if left <= STEP_MICROS.unsigned_abs() => Settled::In(Duration::from_micros(left)),
        _ => Settled::Later,
    }
}

/// Stored in place of a change time that does not tell changes apart: equal to no object's.
pub(crate) const NO_CHANGE_TIME: Timestamp = Timestamp { secs: 0, nanos: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::digest::tests::stat;

    /// An object that changed at `nanos` of a second, seen `micros` after that second began.
    fn seen(nanos: u32, micros: i64) -> Settled {
        let mut stat = stat();
        stat.ctime = Timestamp { secs: 100, nanos };
        settled(&stat, ServerTime(100_000_000 + micros))
    }

    #[test]
    fn a_step_has_to_pass() {
        assert_eq!(seen(1_000_000, 500_000), Settled::Yes);
        assert_eq!(seen(1_000_000, 21_000), Settled::Yes);
        assert_eq!(seen(1_000_000, 6_000), Settled::In(Duration::from_millis(15)));
        // The clock of the file system is a little ahead.
        assert_eq!(seen(9_000_000, 8_000), Settled::Later);
        assert_eq!(seen(1_000, -10_000_000), Settled::Yes);
    }

    #[test]
    fn whole_seconds_are_a_long_step() {
        assert_eq!(seen(0, 900_000), Settled::Later);
        assert_eq!(seen(0, 1_990_000), Settled::In(Duration::from_millis(10)));
        assert_eq!(seen(0, 2_000_000), Settled::Yes);
    }
}
