//! The guard against a wrong clock: a clock that jumps is not time that has passed.
//!
//! Expiration goes by the server's clock, and a dropped version does not come back. So the
//! catalogue keeps a record of time, and a reading of the clock must agree with it:
//!
//! ```text
//!   same start of the machine    the clock must go on as the kernel's uptime does
//!   another start, other server  the clock may have gone on by days, and never back
//!   neither                      the clocks of others decide, and otherwise a person
//! ```
//!
//! 1. Within one start of the machine the uptime decides. It goes on while the server is stopped
//!    and while the machine sleeps, so that a server that was off for weeks needs nobody. The
//!    uptime is compared with the first trusted reading of that start: many small jumps add up.
//! 2. Other clocks excuse a jump ahead of the uptime by a few days only, as after a machine was
//!    paused. For a longer jump a person decides, because the other clocks often follow the same
//!    time server.
//! 3. After another start, nobody knows how long the machine was off. A few days, as over a long
//!    weekend, are believed: they drop little. For longer, another clock must agree.
//! 4. A clock that went back drops nothing by itself. But a record that is ahead of the time would
//!    believe every later jump. So the run is refused, until another clock agrees.
//! 5. A refused reading does not change the record.

use model::ServerTime;

const HOUR_MICROS: i64 = 3_600_000_000;
/// Number of microseconds by which two clocks may always differ. Expiration counts whole days.
const TOLERANCE_MICROS: i64 = HOUR_MICROS;
/// Ratio of the uptime to the difference that it excuses. The kernel slews a clock by half as much.
const UPTIME_PER_DRIFT: i64 = 1000;
/// Maximum number of microseconds by which the clock may go ahead with little evidence.
const LEAP_MICROS_MAX: i64 = 72 * HOUR_MICROS;
/// Maximum difference of another clock that agrees, in microseconds. Nodes are in all time zones,
/// and some of them have their clocks wrong by that much.
const WITNESS_MICROS_MAX: i64 = 24 * HOUR_MICROS;

/// Knowledge of the server about earlier time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The latest trusted time.
    pub seen: ServerTime,
    /// The start of the machine during which the time was read; `None` if it is unknown.
    pub start: Option<Start>,
}

/// A start of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Number that differs for each start of each machine.
    pub tag: u64,
    /// The moment of the start, by the first trusted reading after it.
    pub moment: ServerTime,
}

/// A reading of the server's clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Time by the clock that may be wrong.
    pub clock: ServerTime,
    /// Time since the start of the machine, in microseconds.
    pub uptime_micros: i64,
    /// Number of this start of the machine; `None` if the kernel reports none.
    pub start_tag: Option<u64>,
}

/// Decision about a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The clock agrees with the record. There may have been no record yet.
    Agrees,
    /// The clock does not agree with the record, but with the clocks of others.
    Vouched(Discrepancy),
    /// Nothing may be dropped by this clock.
    Refused(Discrepancy),
}

/// Difference between the clock and the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Discrepancy {
    pub clock: ServerTime,
    /// The time by the record. After another start of the machine, the latest trusted time.
    pub expected: ServerTime,
    /// True if the uptime shows that the clock was changed.
    pub is_proven: bool,
    /// The time by the clocks of others, if there are any.
    pub witness: Option<ServerTime>,
}

impl Discrepancy {
    /// Returns the number of microseconds by which the clock is ahead of the record.
    pub fn ahead_micros(&self) -> i64 {
        self.clock.0.saturating_sub(self.expected.0)
    }

    fn is_vouched(&self) -> bool {
        let agrees = |witness: ServerTime| {
            witness.0.saturating_sub(self.clock.0).unsigned_abs()
                <= WITNESS_MICROS_MAX.unsigned_abs()
        };
        let is_leap = self.is_proven && self.ahead_micros() > LEAP_MICROS_MAX;
        !is_leap && self.witness.is_some_and(agrees)
    }
}

/// Decides whether versions may expire by the clock of `reading`. `witnesses` are the times by the
/// clocks of others at the moment of the reading.
pub fn judge(record: Option<&Record>, reading: &Reading, witnesses: &[ServerTime]) -> Verdict {
    let Some(record) = record else { return Verdict::Agrees };
    let (expected, is_proven, allowed) = match same_start(record, reading) {
        Some(start) => {
            let expected = start.moment.0.saturating_add(reading.uptime_micros);
            let drift = TOLERANCE_MICROS + reading.uptime_micros / UPTIME_PER_DRIFT;
            (ServerTime(expected), true, drift)
        }
        None => (record.seen, false, LEAP_MICROS_MAX),
    };
    let discrepancy =
        Discrepancy { clock: reading.clock, expected, is_proven, witness: median(witnesses) };
    let ahead = discrepancy.ahead_micros();
    let back = if is_proven { allowed } else { TOLERANCE_MICROS };
    if (-back..=allowed).contains(&ahead) {
        Verdict::Agrees
    } else if discrepancy.is_vouched() {
        Verdict::Vouched(discrepancy)
    } else {
        Verdict::Refused(discrepancy)
    }
}

/// Returns the record after a reading that agrees with `record`.
pub fn advanced(record: Option<&Record>, reading: &Reading) -> Record {
    let Some(record) = record else { return renewed(reading) };
    let start = same_start(record, reading).or(renewed(reading).start);
    Record { seen: record.seen.max(reading.clock), start }
}

/// Returns the record after a reading that is trusted whatever an earlier record says.
pub fn renewed(reading: &Reading) -> Record {
    let moment = ServerTime(reading.clock.0.saturating_sub(reading.uptime_micros));
    Record { seen: reading.clock, start: reading.start_tag.map(|tag| Start { tag, moment }) }
}

/// Returns the start in `record` if the machine has not started again since.
fn same_start(record: &Record, reading: &Reading) -> Option<Start> {
    record.start.filter(|start| reading.start_tag == Some(start.tag))
}

/// Returns the time by most of the clocks. With an even number of clocks, the earlier time counts,
/// because it drops less.
fn median(witnesses: &[ServerTime]) -> Option<ServerTime> {
    let mut times = witnesses.to_vec();
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    Some(times[last / 2])
}

#[cfg(test)]
mod tests;
