//! The node's record of events: a folder for each event, with a folder for each attempt.
//!
//! ```text
//!   events/PLANNED-SCHEDULE/event.json        the claim: the event is this node's to do
//!                          /confirmed         the last state that the server has confirmed
//!                          /attempt-1/lock    locked while the keeper of the task lives
//!                                    /begun   the task has begun; made once
//!                                    /log     what the task has written
//!                                    /paused  the task pauses; made and removed by the keeper
//!                                    /report.json
//!                                    /cancelled   an administrator has cancelled the attempt
//!                                    /outcome.json
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use client::{EventName, EventReport};
use model::ServerTime;
use policy::schedule::Occurrence;
use policy::schedule::agenda::{Course, LastEvent, Start};
use policy::schedule::event::{FAILED_CODE, Phase};
use serde::{Deserialize, Serialize};
use sys::durable;

use crate::slot::Slot;

const EVENTS_FOLDER: &str = "events";
const CLAIM_FILE: &str = "event.json";
const CONFIRMED_FILE: &str = "confirmed";
pub(crate) const LOCK_FILE: &str = "lock";
pub(crate) const BEGUN_FILE: &str = "begun";
pub(crate) const LOG_FILE: &str = "log";
pub(crate) const REPORT_FILE: &str = "report.json";
/// Progress of the task, which it replaces while it runs.
pub(crate) const PROGRESS_FILE: &str = "progress.json";
/// File that exists while the task pauses.
pub(crate) const PAUSED_FILE: &str = "paused";
pub(crate) const CANCELLED_FILE: &str = "cancelled";
pub(crate) const OUTCOME_FILE: &str = "outcome.json";
/// Size of the end of a log that is reported, in bytes.
const LOG_BYTES: u64 = 16 << 10;
/// Maximum size of the progress of a task that is passed on, in bytes.
const PROGRESS_BYTES_MAX: u64 = 4 << 10;
/// Maximum size of a session's report that is reported, in bytes.
const REPORT_BYTES_MAX: u64 = 64 << 10;

/// Number of records of a schedule that are kept.
const RECORDS_MAX: usize = 100;

/// Content of `event.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) schedule: String,
    /// Times in microseconds since 1970.
    pub(crate) planned: i64,
    pub(crate) opens: i64,
    pub(crate) closes: i64,
    /// Definition of the schedule at that time, as JSON.
    pub(crate) definition: String,
}

/// Content of `outcome.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Time of the end, in microseconds since 1970.
    pub(crate) ended: i64,
    /// Exit code; `None` if the attempt was cut off.
    pub(crate) code: Option<u8>,
    /// Reason for people; empty if it needs none.
    pub(crate) reason: String,
}

/// State of the last attempt of an event, by what lies on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AttemptState {
    /// The keeper has not begun, and no keeper lives.
    Claimed,
    /// The keeper lives.
    Running,
    Ended(Outcome),
    /// The task has begun, and its keeper died.
    CutOff,
}

/// The record of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) folder: PathBuf,
    pub(crate) claim: Claim,
    /// Number of the last attempt, from 1.
    pub(crate) attempt: u32,
}

/// An event as the node shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventSummary {
    pub schedule: String,
    pub planned: ServerTime,
    pub attempt: u32,
    pub begun: Option<ServerTime>,
    pub ended: Option<ServerTime>,
    pub code: Option<u8>,
    pub is_running: bool,
    pub reason: String,
    /// File with all that the task has written.
    pub log: PathBuf,
}

/// Lists the events that the agent of the node in the folder `home` has begun, oldest first.
pub fn events(home: &Path) -> io::Result<Vec<EventSummary>> {
    let records = load_all(&home.join(crate::FOLDER))?;
    Ok(records.iter().map(Record::summary).collect())
}

impl Claim {
    /// Returns what the name of the event's folder tells of a claim that is damaged. The window is
    /// empty, so that the event does not begin again.
    fn by_name(folder: &Path) -> Option<Self> {
        let (planned, schedule) = folder.file_name()?.to_str()?.split_once('-')?;
        let planned = planned.parse().ok()?;
        let (schedule, definition) = (schedule.to_owned(), String::new());
        Some(Self { schedule, planned, opens: planned, closes: planned, definition })
    }
}

impl Record {
    /// Records that this node begins `start`, durably.
    pub(crate) fn claim(
        agent_folder: &Path,
        start: &Start,
        occurrence: Occurrence,
        definition: &str,
    ) -> io::Result<Self> {
        let name = format!("{}-{}", start.planned.0, start.schedule);
        let folder = agent_folder.join(EVENTS_FOLDER).join(name);
        durable::create_dir_all(&folder, 0o700)?;
        let claim = Claim {
            schedule: start.schedule.clone(),
            planned: start.planned.0,
            opens: occurrence.opens.0,
            closes: occurrence.closes.0,
            definition: definition.to_owned(),
        };
        let record = Self { folder, claim, attempt: start.attempt };
        let text = serde_json::to_vec(&record.claim).map_err(io::Error::other)?;
        durable::write(&record.folder.join(CLAIM_FILE), &text, 0o600)?;
        durable::create_dir_all(&record.attempt_folder(), 0o700)?;
        Ok(record)
    }

    /// Records that this node begins a further attempt of the event, durably.
    pub(crate) fn begin_again(&self, attempt: u32) -> io::Result<Self> {
        assert!(attempt > self.attempt, "attempts are numbered in their order");
        let record = Self { attempt, ..self.clone() };
        durable::create_dir_all(&record.attempt_folder(), 0o700)?;
        Ok(record)
    }

    /// Reads the record in `folder`; `None` if its claim was not finished, or if this is no record.
    fn load(folder: &Path) -> io::Result<Option<Self>> {
        let file = folder.join(CLAIM_FILE);
        let read = match std::fs::read(&file) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) if durable::is_lost(&error) => Err(error),
            text => serde_json::from_slice(&text?).map_err(io::Error::other),
        };
        let claim = match read {
            Ok(claim) => claim,
            Err(error) => {
                let file = file.display().to_string();
                tracing::error!(%error, file, "the record of an event is damaged");
                let Some(claim) = Claim::by_name(folder) else { return Ok(None) };
                claim
            }
        };
        let mut record = Self { folder: folder.to_owned(), claim, attempt: 1 };
        loop {
            let next = record.folder.join(format!("attempt-{}", record.attempt + 1));
            match next.try_exists() {
                Ok(true) => record.attempt += 1,
                Err(error) if !durable::is_lost(&error) => return Err(error),
                Ok(false) | Err(_) => return Ok(Some(record)),
            }
        }
    }

    pub(crate) fn name(&self) -> EventName {
        EventName { schedule: self.claim.schedule.clone(), planned: ServerTime(self.claim.planned) }
    }

    pub(crate) fn slot(&self) -> Slot {
        Slot::of(&self.claim.schedule, &self.claim.definition)
    }

    pub(crate) fn attempt_folder(&self) -> PathBuf {
        self.folder.join(format!("attempt-{}", self.attempt))
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.attempt_folder().join(LOG_FILE)
    }

    /// Looks at the last attempt.
    pub(crate) fn state(&self) -> io::Result<AttemptState> {
        let folder = self.attempt_folder();
        if let Some(outcome) = self.outcome()? {
            return Ok(AttemptState::Ended(outcome));
        }
        if !folder.try_exists()? {
            return Ok(AttemptState::Claimed);
        }
        let Some(lock) = durable::Lock::try_exclusive(&folder.join(LOCK_FILE))? else {
            return Ok(AttemptState::Running);
        };
        // The keeper may have ended between the two looks.
        let state = match self.outcome()? {
            Some(outcome) => AttemptState::Ended(outcome),
            None if folder.join(BEGUN_FILE).try_exists()? => AttemptState::CutOff,
            None => AttemptState::Claimed,
        };
        drop(lock);
        Ok(state)
    }

    fn outcome(&self) -> io::Result<Option<Outcome>> {
        let file = self.attempt_folder().join(OUTCOME_FILE);
        let text = match std::fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if durable::is_lost(&error) => Vec::new(),
            text => text?,
        };
        Ok(Some(serde_json::from_slice(&text).unwrap_or_else(|_| {
            let begun = || file_time(&self.attempt_folder().join(BEGUN_FILE));
            let ended = file_time(&file).or_else(begun);
            let ended = ended.map_or(self.claim.planned, |time| time.0);
            let reason = "the record of its end is damaged".to_owned();
            Outcome { ended, code: None, reason }
        })))
    }

    /// Records how the last attempt ended.
    pub(crate) fn end(&self, outcome: &Outcome) -> io::Result<()> {
        let text = serde_json::to_vec(outcome).map_err(io::Error::other)?;
        durable::create_dir_all(&self.attempt_folder(), 0o700)?;
        durable::write(&self.attempt_folder().join(OUTCOME_FILE), &text, 0o600)
    }

    /// Returns the event for the agenda.
    pub(crate) fn last_event(&self) -> io::Result<LastEvent> {
        let course = match self.state()? {
            // The end of an attempt that was cut off is recorded before another attempt begins.
            AttemptState::Running | AttemptState::Claimed | AttemptState::CutOff => Course::Running,
            // A cancelled event is over, whatever became of it.
            AttemptState::Ended(_) if self.is_cancelled() => Course::Succeeded,
            AttemptState::Ended(Outcome { ended, code, .. }) => match code {
                None => Course::Interrupted { at: ServerTime(ended) },
                Some(FAILED_CODE..) => Course::Failed { at: ServerTime(ended) },
                Some(_) => Course::Succeeded,
            },
        };
        Ok(LastEvent { course, ..self.under_way() })
    }

    /// Returns the event for the agenda as if its last attempt were under way.
    pub(crate) fn under_way(&self) -> LastEvent {
        let (planned, closes) = (ServerTime(self.claim.planned), ServerTime(self.claim.closes));
        LastEvent { planned, closes, attempt: self.attempt, course: Course::Running }
    }

    /// Returns the report of the event's state. Times are put forward by `clock_lead_micros`, so
    /// that they are the server's.
    pub(crate) fn report(&self, clock_lead_micros: i64) -> io::Result<EventReport> {
        let begun = file_time(&self.attempt_folder().join(BEGUN_FILE));
        let now = sys::clock::now();
        let lead = |time: ServerTime| ServerTime(time.0.saturating_add(clock_lead_micros));
        let (phase, at, reason) = match self.state()? {
            AttemptState::Claimed => (Phase::Began, begun.unwrap_or(now), String::new()),
            AttemptState::Running => (Phase::Began, begun.unwrap_or(now), String::new()),
            AttemptState::CutOff => (Phase::Interrupted, now, String::new()),
            AttemptState::Ended(Outcome { ended, code, reason }) => {
                let phase = code.map_or(Phase::Interrupted, Phase::Ended);
                (phase, ServerTime(ended), reason)
            }
        };
        let (session, log) = match matches!(phase, Phase::Ended(_) | Phase::Interrupted) {
            true => (self.session(), self.log_end()),
            false => (String::new(), Vec::new()),
        };
        let Claim { planned, opens, closes, .. } = self.claim;
        let (planned, opens, closes) = (ServerTime(planned), ServerTime(opens), ServerTime(closes));
        Ok(EventReport {
            event: self.name(),
            occurrence: Occurrence { planned, opens, closes },
            attempt: self.attempt,
            phase,
            at: lead(at),
            began: file_time(&self.folder.join("attempt-1").join(BEGUN_FILE)).map(lead),
            paused: self.paused().filter(|_| phase == Phase::Began).map(lead),
            reason,
            session,
            log,
        })
    }

    /// Returns the time since which the task pauses, by the node's clock.
    pub(crate) fn paused(&self) -> Option<ServerTime> {
        file_time(&self.attempt_folder().join(PAUSED_FILE))
    }

    /// The report of the session; empty if there is none.
    fn session(&self) -> String {
        short_text(&self.attempt_folder().join(REPORT_FILE), REPORT_BYTES_MAX)
    }

    /// The progress of the last attempt as JSON; empty if the task tells none.
    pub(crate) fn progress(&self) -> String {
        short_text(&self.attempt_folder().join(PROGRESS_FILE), PROGRESS_BYTES_MAX)
    }

    /// The end of the log; empty if there is none.
    pub(crate) fn log_end(&self) -> Vec<u8> {
        end_of_file(&self.log_file(), LOG_BYTES).unwrap_or_default()
    }

    /// Records that an administrator has cancelled the last attempt.
    pub(crate) fn mark_cancelled(&self) -> io::Result<()> {
        durable::write(&self.attempt_folder().join(CANCELLED_FILE), b"", 0o600)
    }

    fn is_cancelled(&self) -> bool {
        self.attempt_folder().join(CANCELLED_FILE).try_exists().unwrap_or(false)
    }

    /// Records that the server has confirmed this report.
    pub(crate) fn confirm(&self, report: &EventReport) -> io::Result<()> {
        let text = confirmation(report.attempt, report.phase);
        durable::write(&self.folder.join(CONFIRMED_FILE), text.as_bytes(), 0o600)
    }

    /// Returns true if the server has confirmed the state that `report` has.
    pub(crate) fn is_confirmed(&self, report: &EventReport) -> bool {
        let known = std::fs::read(self.folder.join(CONFIRMED_FILE)).unwrap_or_default();
        known == confirmation(report.attempt, report.phase).as_bytes()
    }

    fn summary(&self) -> EventSummary {
        let state = self.state();
        let (ended, code, reason) = match &state {
            Ok(AttemptState::Ended(outcome)) => {
                (Some(ServerTime(outcome.ended)), outcome.code, outcome.reason.clone())
            }
            Ok(_) => (None, None, String::new()),
            Err(error) => (None, None, format!("its record cannot be read: {error}")),
        };
        EventSummary {
            schedule: self.claim.schedule.clone(),
            planned: ServerTime(self.claim.planned),
            attempt: self.attempt,
            begun: file_time(&self.attempt_folder().join(BEGUN_FILE)),
            ended,
            code,
            is_running: matches!(state, Ok(AttemptState::Running)),
            reason,
            log: self.log_file(),
        }
    }
}

/// The text of `confirmed`.
fn confirmation(attempt: u32, phase: Phase) -> String {
    format!("{attempt} {phase:?}\n")
}

fn file_time(path: &Path) -> Option<ServerTime> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(ServerTime(i64::try_from(since.as_micros()).ok()?))
}

/// Returns the text of a file; nothing if there is none, or if it is larger than `bytes_max`.
fn short_text(file: &Path, bytes_max: u64) -> String {
    let is_short = std::fs::metadata(file).is_ok_and(|found| found.len() <= bytes_max);
    if is_short { std::fs::read_to_string(file).unwrap_or_default() } else { String::new() }
}

/// Returns the last `bytes` bytes of a file.
pub(crate) fn end_of_file(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

/// Reads all records, oldest first. A claim that was not finished is removed: nothing has begun.
pub(crate) fn load_all(agent_folder: &Path) -> io::Result<Vec<Record>> {
    let folder = agent_folder.join(EVENTS_FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut records = Vec::new();
    for entry in entries {
        records.extend(Record::load(&entry?.path())?);
    }
    records.sort_by_key(|record| (record.claim.planned, record.claim.schedule.clone()));
    Ok(records)
}

/// Returns the last event of each schedule that was planned at `now` or before. Later ones were
/// begun while the node's clock was wrong, and must not hold up the others.
pub(crate) fn last_of_each(records: &[Record], now: ServerTime) -> BTreeMap<&str, &Record> {
    // Records are in the order of their planned times.
    let past = records.iter().filter(|record| record.claim.planned <= now.0);
    past.map(|record| (record.claim.schedule.as_str(), record)).collect()
}

/// Removes records that were confirmed, and that ended before `before` or have many successors. The
/// last record of a schedule in the plan stays.
pub(crate) fn prune(
    records: &[Record],
    is_planned: impl Fn(&str) -> bool,
    before: ServerTime,
) -> io::Result<()> {
    let mut later: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records.iter().rev() {
        let name = record.claim.schedule.as_str();
        let successors = later.entry(name).or_default();
        let (is_last, has_many) = (*successors == 0, *successors >= RECORDS_MAX);
        *successors += 1;
        let Ok(AttemptState::Ended(outcome)) = record.state() else { continue };
        let is_known = record.is_confirmed(&record.report(0)?);
        let is_needed = is_last && is_planned(name);
        if is_known && !is_needed && (has_many || outcome.ended < before.0) {
            std::fs::remove_dir_all(&record.folder)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(folder: &Path, schedule: &str, planned: i64) -> Record {
        let (planned, closes) = (ServerTime(planned), ServerTime(planned + 100));
        let start = Start { schedule: schedule.to_owned(), planned, closes, attempt: 1 };
        let occurrence = Occurrence { planned, opens: planned, closes };
        Record::claim(folder, &start, occurrence, "{}").expect("is recorded")
    }

    fn end(record: &Record, code: Option<u8>) {
        let outcome = Outcome { ended: 7, code, reason: String::new() };
        record.end(&outcome).expect("is recorded");
    }

    #[test]
    fn an_attempt_is_claimed_runs_and_is_cut_off_or_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = begin(folder.path(), "nightly", 1);
        assert_eq!(record.state().expect("is read"), AttemptState::Claimed);
        let attempt = record.attempt_folder();
        let lock = durable::Lock::try_exclusive(&attempt.join(LOCK_FILE)).expect("is locked");
        assert_eq!(record.state().expect("is read"), AttemptState::Running);
        std::fs::write(attempt.join(BEGUN_FILE), b"").expect("is written");
        drop(lock);
        assert_eq!(record.state().expect("is read"), AttemptState::CutOff);
        let course = record.last_event().expect("is read").course;
        assert_eq!(course, Course::Running, "its end is recorded first");
        assert_eq!(record.report(0).expect("is made").phase, Phase::Interrupted);
        end(&record, Some(12));
        assert_eq!(record.report(5).expect("is made").at, ServerTime(12));
        let again = record.begin_again(2).expect("is recorded");
        assert_eq!(load_all(folder.path()).expect("are read"), std::slice::from_ref(&again));
        assert_eq!(again.last_event().expect("is read").course, Course::Running);
    }

    #[test]
    fn a_record_goes_after_it_was_confirmed_and_is_old_but_the_last_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let names =
            |records: &[Record]| records.iter().map(|it| it.claim.planned).collect::<Vec<_>>();
        for planned in 1..=3 {
            let record = begin(folder.path(), "nightly", planned);
            end(&record, Some(0));
            if planned != 2 {
                record.confirm(&record.report(0).expect("is made")).expect("is confirmed");
            }
        }
        let kept = |before: i64, is_planned: bool| {
            let records = load_all(folder.path()).expect("are read");
            prune(&records, |_| is_planned, ServerTime(before)).expect("are removed");
            names(&load_all(folder.path()).expect("are read"))
        };
        assert_eq!(kept(7, true), [1, 2, 3], "they are not old");
        assert_eq!(kept(8, true), [2, 3], "one is not confirmed, one is the last");
        assert_eq!(kept(8, false), [2], "the schedule is gone");
    }

    #[test]
    fn a_damaged_record_counts_as_an_event_whose_end_nobody_knows() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = begin(folder.path(), "nightly", 1);
        std::fs::write(record.folder.join(CLAIM_FILE), b"x").expect("is written");
        std::fs::write(record.attempt_folder().join(OUTCOME_FILE), b"").expect("is written");
        std::fs::write(folder.path().join("events/stray"), b"").expect("is written");
        check_unknown_end(folder.path(), &record);
    }

    /// One bad sector kept the agent from starting.
    #[test]
    fn a_record_that_cannot_be_read_counts_as_a_damaged_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = begin(folder.path(), "nightly", 1);
        let claim = record.folder.join(CLAIM_FILE);
        std::fs::remove_file(&claim).expect("is removed");
        for file in [claim, record.attempt_folder().join(OUTCOME_FILE)] {
            std::fs::create_dir(file).expect("is made");
        }
        check_unknown_end(folder.path(), &record);
    }

    #[track_caller]
    fn check_unknown_end(folder: &Path, record: &Record) {
        let records = load_all(folder).expect("are read");
        let [found] = &records[..] else { panic!("{records:?}") };
        assert_eq!(found.name(), record.name());
        let last = found.last_event().expect("is read");
        assert!(matches!(last.course, Course::Interrupted { .. }), "{last:?}");
        assert_eq!(last.closes, last.planned, "it does not begin again");
    }

    #[test]
    fn a_cancelled_event_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = begin(folder.path(), "nightly", 1);
        end(&record, Some(12));
        assert_eq!(
            record.last_event().expect("is read").course,
            Course::Failed { at: ServerTime(7) }
        );
        record.mark_cancelled().expect("is recorded");
        assert_eq!(record.last_event().expect("is read").course, Course::Succeeded);
    }

    #[test]
    fn events_of_a_wrong_clock_hold_up_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (past, future) = (begin(folder.path(), "a", 1), begin(folder.path(), "a", 900));
        let records = load_all(folder.path()).expect("are read");
        assert_eq!(last_of_each(&records, ServerTime(899))["a"], &past);
        assert_eq!(last_of_each(&records, ServerTime(900))["a"], &future);
    }

    #[test]
    fn a_claim_that_was_not_finished_counts_as_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = begin(folder.path(), "nightly", 1);
        std::fs::remove_file(record.folder.join(CLAIM_FILE)).expect("is removed");
        assert_eq!(load_all(folder.path()).expect("are read"), []);
        assert_eq!(load_all(&folder.path().join("none")).expect("are read"), []);
    }
}
