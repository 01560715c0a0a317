//! The record of time in the catalogue, and the guard that compares the server's clock with it.
//!
//! `policy::clock_guard` decides. This module reads the clocks, keeps the record in three marks of
//! the catalogue, and reports. The witnesses are the clocks of the nodes that have greeted this
//! server lately, and the clock of the database if it runs on another machine.
//!
//! 1. Only the server that keeps house judges its clock by the record, and writes the record. When
//!    another server takes this over, the record is from another machine, as after a start. The
//!    other servers read only the trusted time, so that they date no change before it.
//! 2. A clock that was put ahead for a test (`sys::clock::put_ahead`) is no jump: the guard judges
//!    the clock of the system.
//!
//! Crash rule: the three marks are written in one batch. A record that is up to [`KEEP_MICROS`]
//! old after a crash only allows less.

use std::fmt;
use std::time::Duration;

use catalog::actor::{ADMINISTRATOR, SERVER};
use catalog::{EventRow, Write};
use model::ServerTime;
use policy::clock_guard::{self, Discrepancy, Reading, Record, Start, Verdict};

use crate::counts::counted;
use crate::error::StoreError;
use crate::store::Store;
use crate::store::trusted_time::SEEN;

/// Mark with the number of the start of the machine, and mark with the moment of that start.
const START_TAG: &str = "clock start";
const START_MOMENT: &str = "clock start moment";
/// Number of microseconds after which the record is written again.
const KEEP_MICROS: i64 = 600_000_000;
const HOUR_MICROS: i64 = 3_600_000_000;

/// The reason why nothing may expire by the server's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    discrepancy: Discrepancy,
}

/// The clocks of this machine, read at one moment.
#[derive(Clone, Copy)]
struct Clocks {
    reading: Reading,
    uptime: Duration,
}

/// Result of the last look of the server at its clock, for reports of changes only.
#[derive(Default, Debug)]
pub struct Watch {
    refused: bool,
}

impl Watch {
    /// Compares the server's clock with the record of time, and keeps the record. Returns true if
    /// versions may expire. Reports a change of this answer in the log and in the audit trail.
    pub fn look(&mut self, store: &Store) -> Result<bool, StoreError> {
        self.look_at(store, &read())
    }

    fn look_at(&mut self, store: &Store, clocks: &Clocks) -> Result<bool, StoreError> {
        let refusal = check_at(store, clocks)?;
        match refusal {
            Some(refusal) if !self.refused => {
                let reason = refusal.to_string();
                tracing::warn!(reason, "nothing expires by the server's clock");
                note(store, SERVER, "expiration refused", reason)?;
            }
            None if self.refused => tracing::info!("the server's clock is trusted again"),
            _ => {}
        }
        self.refused = refusal.is_some();
        Ok(refusal.is_none())
    }
}

/// Returns true if the server's clock agrees with the record of time. Keeps the record.
pub fn is_trusted(store: &Store) -> Result<bool, StoreError> {
    Ok(check(store)?.is_none())
}

/// Compares the server's clock with the record of time, and keeps the record.
pub(super) fn check(store: &Store) -> Result<Option<Refusal>, StoreError> {
    check_at(store, &read())
}

fn check_at(store: &Store, clocks: &Clocks) -> Result<Option<Refusal>, StoreError> {
    let record = record(store)?;
    let reading = &clocks.reading;
    let witnesses = witnesses(store, clocks.uptime)?;
    match clock_guard::judge(record.as_ref(), reading, &witnesses) {
        Verdict::Agrees => keep(store, record.as_ref(), clocks)?,
        Verdict::Vouched(discrepancy) => {
            let refusal = Refusal { discrepancy };
            tracing::warn!(
                jump = refusal.jump(),
                "the clocks of others confirm the server's clock"
            );
            put(store, &clock_guard::renewed(reading), clocks.uptime)?;
            note(store, SERVER, "clock confirmed by other clocks", refusal.jump())?;
        }
        Verdict::Refused(discrepancy) => return Ok(Some(Refusal { discrepancy })),
    }
    Ok(None)
}

/// Returns the time at which a change of stored data that begins now counts as made. A clock that
/// is behind the trusted time is looked at once more, because other clocks may confirm it by now.
pub(crate) fn time_of_change(store: &Store) -> Result<ServerTime, StoreError> {
    if !store.is_clock_behind() {
        return Ok(store.time_of_change());
    }
    if store.keeps_house() {
        check(store)?;
    } else if let Some(record) = record(store)? {
        store.trusted_time.set(record.seen, sys::clock::uptime());
    }
    Ok(store.time_of_change())
}

/// Makes the server's clock the record of time, because an administrator says that it is right.
pub(super) fn confirm(store: &Store) -> Result<(), StoreError> {
    confirm_at(store, &read())
}

fn confirm_at(store: &Store, clocks: &Clocks) -> Result<(), StoreError> {
    let record = record(store)?;
    let witnesses = witnesses(store, clocks.uptime)?;
    let verdict = clock_guard::judge(record.as_ref(), &clocks.reading, &witnesses);
    put(store, &clock_guard::renewed(&clocks.reading), clocks.uptime)?;
    let details = match verdict {
        Verdict::Agrees => "it agreed with the record of time".to_owned(),
        Verdict::Vouched(discrepancy) | Verdict::Refused(discrepancy) => {
            Refusal { discrepancy }.jump()
        }
    };
    note(store, ADMINISTRATOR, "clock confirmed", details)
}

fn read() -> Clocks {
    // The clock is read before the uptime, and `Store::time_of_change` reads the uptime first. So a
    // clock that goes on evenly is never behind the trusted time.
    let clock = sys::clock::system();
    let uptime = sys::clock::uptime();
    let tag = sys::process::boot_tag();
    let reading = Reading {
        clock,
        uptime_micros: i64::try_from(uptime.as_micros()).unwrap_or(i64::MAX),
        start_tag: (tag != 0).then_some(tag),
    };
    Clocks { reading, uptime }
}

/// Returns the times by the clocks of others.
fn witnesses(store: &Store, uptime: Duration) -> Result<Vec<ServerTime>, StoreError> {
    let mut times = store.node_clocks.times(uptime);
    times.extend(store.catalog.database_time()?);
    Ok(times)
}

/// Reads the record. In a catalogue without a record, the last expiration is the last trusted time.
fn record(store: &Store) -> Result<Option<Record>, StoreError> {
    let mark = |name| store.catalog.mark(name);
    let Some(seen) = mark(SEEN)? else {
        let seen = last_expiration(store)?;
        return Ok(seen.map(|seen| Record { seen, start: None }));
    };
    let start = mark(START_TAG)?.zip(mark(START_MOMENT)?);
    let start = start.map(|(tag, moment)| (tag.cast_unsigned(), ServerTime(moment)));
    let start = start.filter(|(tag, _)| *tag != 0).map(|(tag, moment)| Start { tag, moment });
    Ok(Some(Record { seen: ServerTime(seen), start }))
}

fn last_expiration(store: &Store) -> Result<Option<ServerTime>, StoreError> {
    let mut last = None;
    for node in store.catalog.nodes()? {
        for filespace in store.catalog.filespaces(node.id)? {
            last = last.max(store.catalog.expiry(filespace.id)?.done_to);
        }
    }
    Ok(last)
}

/// Advances the record, at most every few minutes.
fn keep(store: &Store, record: Option<&Record>, clocks: &Clocks) -> Result<(), StoreError> {
    let advanced = clock_guard::advanced(record, &clocks.reading);
    assert!(record.is_none_or(|record| record.seen <= advanced.seen), "trusted time goes on");
    let is_current = |record: &Record| {
        record.start == advanced.start && advanced.seen.0 - record.seen.0 < KEEP_MICROS
    };
    if record.is_some_and(is_current) {
        store.trusted_time.set(advanced.seen, clocks.uptime);
        return Ok(());
    }
    put(store, &advanced, clocks.uptime)
}

/// Writes the record, which was made when the machine had been up for `uptime`.
fn put(store: &Store, record: &Record, uptime: Duration) -> Result<(), StoreError> {
    let (tag, moment) = record.start.map_or((0, 0), |start| (start.tag, start.moment.0));
    let mark = |name, value| Write::SetMark { name, value };
    let marks = vec![
        mark(SEEN, record.seen.0),
        mark(START_TAG, tag.cast_signed()),
        mark(START_MOMENT, moment),
    ];
    store.catalog.commit(marks)?;
    store.trusted_time.set(record.seen, uptime);
    Ok(())
}

fn note(store: &Store, actor: &str, what: &str, details: String) -> Result<(), StoreError> {
    let (time, actor, what) = (sys::clock::now(), actor.to_owned(), what.to_owned());
    Ok(store
        .catalog
        .commit(vec![Write::AddEvent(EventRow { time, actor, what, details })])?)
}

impl Refusal {
    /// Returns a sentence about the clock and the record.
    fn jump(&self) -> String {
        let Discrepancy { clock, expected, is_proven, witness } = self.discrepancy;
        let ahead = self.discrepancy.ahead_micros();
        let (clock, expected, length) = (date(clock), date(expected), length(ahead));
        let jump = match (is_proven, ahead > 0) {
            (true, true) => format!(
                "the server's clock was set {length} ahead: it says {clock}, and by the uptime of \
                 the machine it should be {expected}"
            ),
            (true, false) => format!(
                "the server's clock was set back by {length}: it says {clock}, and by the uptime \
                 of the machine it should be {expected}"
            ),
            (false, true) => format!(
                "the server's clock says {clock}, which is {length} after {expected}, the last \
                 time that the server knows"
            ),
            (false, false) => format!(
                "the server's clock says {clock}, which is {length} before {expected}, the last \
                 time that the server knows"
            ),
        };
        let witness = witness.map(|time| format!("; other clocks say {}", date(time)));
        jump + &witness.unwrap_or_default()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = match self.discrepancy.witness {
            None if !self.discrepancy.is_proven => {
                "the server waits for a node whose clock agrees; "
            }
            _ => "",
        };
        write!(
            f,
            "{}; {waits}if the clock is wrong, set it right; if it is right, run 'holdfast admin \
             expire --confirm'",
            self.jump()
        )
    }
}

/// Returns the moment as text, in UTC.
fn date(time: ServerTime) -> String {
    let minutes = time.secs().rem_euclid(86_400) / 60;
    format!("{} {:02}:{:02} UTC", policy::review::day(time), minutes / 60, minutes % 60)
}

/// Returns a length of time as text, without its direction.
fn length(micros: i64) -> String {
    let hours =
        (micros.unsigned_abs() + HOUR_MICROS.unsigned_abs() / 2) / HOUR_MICROS.unsigned_abs();
    if hours < 48 { counted(hours, "hour") } else { counted((hours + 12) / 24, "day") }
}

#[cfg(test)]
mod tests;
