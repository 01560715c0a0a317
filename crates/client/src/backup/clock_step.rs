//! Steps of the clock of a file system, and change times.
//!
//! File systems stamp changes with a clock that goes in steps. An object that is read in the step
//! in which it changed may change once more in that step and keep its change time. No later backup
//! would notice that second change. So a backup waits until the step has passed before it reads the
//! object. If the step is too long, the backup stores no change time, and the next backup examines
//! the object again.

use std::time::Duration;

use model::{ServerTime, Stat, Timestamp};

/// Twice the longest step of a kernel's clock, in microseconds. That step is 10 ms, at 100 Hz.
const STEP_MICROS: i64 = 20_000;
/// Twice the longest step of a file system that counts seconds, in microseconds.
const SECOND_STEP_MICROS: i64 = 2_000_000;

/// State of the step in which an object changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClockStep {
    /// Every later change gets another change time.
    Passed,
    /// The step passes in this time.
    PassesIn(Duration),
    /// The step passes later than a backup waits.
    Pending,
}

/// Returns the state, at the time `now`, of the step in which an object with this `stat` changed.
pub(super) fn clock_step(stat: &Stat, now: ServerTime) -> ClockStep {
    let age = now.0.saturating_sub(stat.ctime.micros());
    let step = if stat.ctime.nanos == 0 { SECOND_STEP_MICROS } else { STEP_MICROS };
    // A time far in the future is wrong, or comes from another machine. There is no step to wait
    // for.
    if age >= step || age < -SECOND_STEP_MICROS {
        return ClockStep::Passed;
    }
    match u64::try_from(step - age) {
        Ok(left) if left <= STEP_MICROS.unsigned_abs() => {
            assert!(left > 0, "nobody waits for a step that has passed");
            ClockStep::PassesIn(Duration::from_micros(left))
        }
        _ => ClockStep::Pending,
    }
}

/// Time that is stored in place of a change time that would not show a later change. No object has
/// this time.
pub(crate) const NO_CHANGE_TIME: Timestamp = Timestamp { secs: 0, nanos: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::fixtures::stat;

    /// Returns the state of the step for an object that changed at `nanos` of a second, `micros`
    /// after that second began.
    fn seen(nanos: u32, micros: i64) -> ClockStep {
        let mut stat = stat();
        stat.ctime = Timestamp { secs: 100, nanos };
        clock_step(&stat, ServerTime(100_000_000 + micros))
    }

    #[test]
    fn a_step_has_to_pass() {
        assert_eq!(seen(1_000_000, 500_000), ClockStep::Passed);
        assert_eq!(seen(1_000_000, 21_000), ClockStep::Passed);
        assert_eq!(seen(1_000_000, 6_000), ClockStep::PassesIn(Duration::from_millis(15)));
        // The clock of the file system is a little ahead.
        assert_eq!(seen(9_000_000, 8_000), ClockStep::Pending);
        assert_eq!(seen(1_000, -10_000_000), ClockStep::Passed);
    }

    #[test]
    fn whole_seconds_are_a_long_step() {
        assert_eq!(seen(0, 900_000), ClockStep::Pending);
        assert_eq!(seen(0, 1_990_000), ClockStep::PassesIn(Duration::from_millis(10)));
        assert_eq!(seen(0, 2_000_000), ClockStep::Passed);
    }
}
