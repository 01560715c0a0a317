//! A fleet of 1,000 nodes over a month, with a server that fails, connections that break, machines
//! that stop and agents that are killed. Each event must end in one state, which is the right one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use model::ServerTime;
use policy::schedule::agenda::{Course, Duty, LastEvent, Retries, Start, look};
use policy::schedule::event::{EventState, FAILED_CODE, Phase, Progress, Report};
use policy::schedule::{Occurrence, Timing, start_of};

const NODES: u32 = 1000;
const MINUTE: i64 = 60_000_000;
const DAY: i64 = 1440;
/// Length of the simulation, in minutes. Nothing fails during the last days, so that all reports
/// arrive.
const END: i64 = 33 * DAY;
const CALM: i64 = 30 * DAY;
/// 26 March 2026, 00:00 UTC, in minutes since 1970: a few days before the change to summer time.
const BEGIN: i64 = 20_538 * DAY;

/// The generator SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true once in `count` calls, on average.
    fn once_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

fn moment(minute: i64) -> ServerTime {
    ServerTime((BEGIN + minute) * MINUTE)
}

fn timing(text: &str) -> Timing {
    serde_json::from_str(text).expect("is a timing")
}

/// A nightly backup, an hourly one that may be repeated, a command that may not, and a weekly one
/// that is made up for.
fn duties() -> BTreeMap<String, Duty> {
    let duty = |text: &str| Duty {
        timing: timing(text),
        zone: TimeZone::get("Europe/Berlin").expect("is known"),
        since: moment(0),
        priority: 5,
        retries: Retries { count: 2, pause_minutes: 10 },
        runs_late: false,
        is_repeatable: true,
    };
    let nightly = duty(
        r#"{"starts":{"calendar":{"times":"02:30"}},"window_minutes":180,"spread_percent":25,
            "blackouts":["sun 02:00-04:00"]}"#,
    );
    let hourly = duty(
        r#"{"starts":{"interval":{"first":"2026-03-26T06:00","every":{"minutes":60}}},
            "window_minutes":90,"spread_percent":0}"#,
    );
    let command = Duty {
        is_repeatable: false,
        ..duty(
            r#"{"starts":{"calendar":{"times":"12:00","weekdays":"mon-fri"}},"window_minutes":45,
                "spread_percent":50}"#,
        )
    };
    let weekly = Duty {
        runs_late: true,
        ..duty(
            r#"{"starts":{"calendar":{"times":"20:00","weekdays":"fri"}},"window_minutes":60,
                "spread_percent":10}"#,
        )
    };
    [("nightly", nightly), ("hourly", hourly), ("command", command), ("weekly", weekly)]
        .into_iter()
        .map(|(name, duty)| (name.to_owned(), duty))
        .collect()
}

type Key = (String, ServerTime);

/// True course of an attempt.
#[derive(Clone, Copy, Debug)]
struct Truth {
    attempt: u32,
    begun: i64,
    /// The return code; `None` for an attempt that was interrupted, or that is still running.
    code: Option<u8>,
}

struct Task {
    start: Start,
    ends: i64,
    code: u8,
}

/// A node: what survives a crash, and what does not.
struct Node {
    name: String,
    last_events: BTreeMap<String, LastEvent>,
    /// Reports that the server has not confirmed.
    outbox: Vec<(Key, Report)>,
    task: Option<Task>,
    next_look: i64,
    is_up: bool,
    is_connected: bool,
    truth: BTreeMap<Key, Vec<Truth>>,
    /// Tells for each minute whether the node was up and had nothing to do.
    idle: Vec<bool>,
}

/// The server's records of one node.
#[derive(Default)]
struct Ledger {
    rows: BTreeMap<Key, (Occurrence, Progress)>,
    /// Events whose windows are open.
    open: BTreeSet<Key>,
    seen: i64,
}

impl Node {
    fn report(&mut self, start: &Start, phase: Phase) {
        let key = (start.schedule.clone(), start.planned);
        self.outbox.push((key, Report { attempt: start.attempt, phase }));
    }

    fn record(&mut self, start: &Start, course: Course) {
        let Start { planned, closes, attempt, .. } = *start;
        let last = LastEvent { planned, closes, attempt, course };
        self.last_events.insert(start.schedule.clone(), last);
    }

    /// The machine stops: the task is cut off. At the next start the agent finds an attempt without
    /// an end.
    fn stop(&mut self) {
        self.is_up = false;
        self.is_connected = false;
    }

    fn boot(&mut self, minute: i64) {
        self.is_up = true;
        self.next_look = minute;
        if let Some(task) = self.task.take() {
            self.record(&task.start, Course::Interrupted { at: moment(minute) });
            self.report(&task.start, Phase::Interrupted);
        }
    }

    fn work(&mut self, duties: &BTreeMap<String, Duty>, minute: i64, random: &mut Random) {
        if let Some(task) = self.task.take_if(|task| task.ends <= minute) {
            let course = match task.code {
                FAILED_CODE.. => Course::Failed { at: moment(minute) },
                _ => Course::Succeeded,
            };
            let key = (task.start.schedule.clone(), task.start.planned);
            let truth = self.truth.get_mut(&key).and_then(|truth| truth.last_mut());
            truth.expect("it began").code = Some(task.code);
            self.record(&task.start, course);
            self.report(&task.start, Phase::Ended(task.code));
            self.next_look = minute;
        }
        if self.task.is_some() || minute < self.next_look {
            return;
        }
        let agenda = look(duties, &self.last_events, &self.name, moment(minute));
        if let Some(start) = agenda.due.into_iter().next() {
            self.begin(start, minute, random);
            self.next_look = minute;
            return;
        }
        let minute_of = |at: ServerTime| at.0.div_euclid(MINUTE) - BEGIN;
        self.next_look = agenda.next_look.map_or(END, |at| minute_of(at).max(minute + 1));
    }

    fn begin(&mut self, start: Start, minute: i64, random: &mut Random) {
        self.record(&start, Course::Running);
        self.report(&start, Phase::Began);
        let key = (start.schedule.clone(), start.planned);
        let truth = Truth { attempt: start.attempt, begun: minute, code: None };
        self.truth.entry(key).or_default().push(truth);
        let code: u8 = if random.once_in(6) { 12 } else { 0 };
        let length = i64::try_from(1 + random.below(40)).expect("is small");
        self.task = Some(Task { start, ends: minute + length, code });
    }
}

impl Ledger {
    /// Opens and closes windows up to `minute`.
    fn tick(&mut self, duties: &BTreeMap<String, Duty>, minute: i64) {
        let (after, now) = (moment(self.seen - 1), moment(minute));
        for (name, duty) in duties {
            for occurrence in duty.timing.openings(&duty.zone, after, now) {
                if occurrence.planned >= duty.since {
                    let key = (name.clone(), occurrence.planned);
                    self.open.insert(key.clone());
                    self.rows.entry(key).or_insert((occurrence, Progress::PENDING));
                }
            }
        }
        let rows = &mut self.rows;
        self.open.retain(|key| {
            let (occurrence, progress) = rows.get_mut(key).expect("an open window has an event");
            let is_open = now < occurrence.closes;
            if !is_open {
                *progress = progress.at_close();
            }
            is_open
        });
        self.seen = minute + 1;
    }

    fn receive(&mut self, duties: &BTreeMap<String, Duty>, key: &Key, report: Report) {
        let row = self.rows.entry(key.clone()).or_insert_with(|| {
            // The server was away when the window opened.
            let duty = &duties[&key.0];
            let before = ServerTime(key.1.0 - 1);
            let mut occurrences = duty.timing.occurrences(&duty.zone, before);
            (occurrences.next().expect("is planned"), Progress::PENDING)
        });
        row.1 = row.1.after(report);
    }

    fn sever(&mut self) {
        for (_, progress) in self.rows.values_mut() {
            *progress = progress.severed();
        }
    }
}

/// Returns the minutes in which the server is up.
fn server_times(random: &mut Random) -> Vec<bool> {
    let mut is_up = true;
    let step = |minute| {
        let changes = if is_up { random.once_in(3000) } else { random.once_in(200) };
        is_up = is_up != changes || minute >= CALM;
        is_up
    };
    (0..END).map(step).collect()
}

fn simulate(number: u32, duties: &BTreeMap<String, Duty>, server: &[bool]) -> (Node, Ledger) {
    let mut random = Random(u64::from(number) * 7919);
    let mut node = Node {
        name: format!("node-{number:04}"),
        last_events: BTreeMap::new(),
        outbox: Vec::new(),
        task: None,
        next_look: 0,
        is_up: true,
        is_connected: false,
        truth: BTreeMap::new(),
        idle: Vec::new(),
    };
    let mut ledger = Ledger::default();
    let mut last_tick = -100;
    for (minute, server_is_up) in (0..).zip(server.iter().copied()) {
        let is_calm = minute >= CALM;
        match node.is_up {
            true if !is_calm && random.once_in(2000) => node.stop(),
            false if is_calm || random.once_in(500) => node.boot(minute),
            _ => {}
        }
        if node.is_up {
            node.work(duties, minute, &mut random);
        }
        node.idle.push(node.is_up && node.task.is_none());
        let was_connected = node.is_connected;
        let breaks = !is_calm && random.once_in(400);
        let connects = is_calm || random.once_in(60);
        node.is_connected =
            node.is_up && server_is_up && if was_connected { !breaks } else { connects };
        if was_connected && !node.is_connected {
            ledger.sever();
        }
        if server_is_up && minute - last_tick >= 15 {
            ledger.tick(duties, minute);
            last_tick = minute;
        }
        if node.is_connected {
            if let Some(task) = &node.task {
                let start = task.start.clone();
                node.report(&start, Phase::Working);
            }
            for (key, report) in &node.outbox {
                ledger.receive(duties, key, *report);
            }
            // Sometimes the confirmation is lost, and the node reports once more.
            if is_calm || !random.once_in(10) {
                node.outbox.clear();
            }
        }
    }
    (node, ledger)
}

/// Returns the state in which an event must have ended.
fn right_state(truth: Option<&Vec<Truth>>) -> EventState {
    match truth.and_then(|attempts| attempts.last()) {
        None => EventState::Missed,
        Some(Truth { code: None, .. }) => EventState::Uncertain,
        Some(Truth { code: Some(FAILED_CODE..), .. }) => EventState::Failed,
        Some(_) => EventState::Completed,
    }
}

/// Returns true if the blackout of the nightly schedule forbids a start in this minute.
fn is_dark(schedule: &str, minute: i64) -> bool {
    let zone = TimeZone::get("Europe/Berlin").expect("is known");
    let at = Timestamp::from_microsecond(moment(minute).0).expect("is in the calendar");
    let wall = zone.to_datetime(at);
    schedule == "nightly" && wall.weekday() == Weekday::Sunday && (2..4).contains(&wall.hour())
}

/// Fails if the node missed the event though it could have begun it: it was up and had nothing to
/// do in a minute after its place in the window, and no later time was planned yet. The node has
/// its schedules on disk, so it needs no server.
fn check_missed(node: &Node, (name, duty): (&str, &Duty), missed: Occurrence, next: ServerTime) {
    let start = start_of(&duty.timing, missed, &node.name);
    let minute_after = |time: ServerTime| time.0.div_euclid(MINUTE) - BEGIN + 1;
    let end = missed.closes.min(next).0.div_euclid(MINUTE) - BEGIN;
    for minute in minute_after(start)..end {
        let was_idle = node.idle[usize::try_from(minute).expect("is in the simulation")];
        assert!(
            !was_idle || is_dark(name, minute),
            "{} missed {name} of {:?} though it was idle in minute {minute}",
            node.name,
            missed.planned
        );
    }
}

/// Checks one node, and counts the states of its events.
fn check(node: &Node, ledger: &Ledger, counts: &mut BTreeMap<EventState, u32>) {
    let duties = duties();
    let last = moment(END - DAY);
    for (name, duty) in &duties {
        let planned: Vec<Occurrence> = duty
            .timing
            .occurrences(&duty.zone, ServerTime(duty.since.0 - 1))
            .take_while(|occurrence| occurrence.planned <= last)
            .collect();
        for (index, occurrence) in planned.iter().enumerate() {
            if occurrence.closes > last {
                continue;
            }
            let key = (name.clone(), occurrence.planned);
            let (_, progress) = ledger.rows.get(&key).expect("each window has an event");
            let truth = node.truth.get(&key);
            assert_eq!(progress.state, right_state(truth), "{} {key:?} {truth:?}", node.name);
            *counts.entry(progress.state).or_default() += 1;
            if progress.state == EventState::Missed {
                let next = planned.get(index + 1).map_or(ServerTime::MAX, |next| next.planned);
                check_missed(node, (name.as_str(), duty), *occurrence, next);
            }
            let attempts = truth.map_or(&[][..], Vec::as_slice);
            let numbers: Vec<u32> = attempts.iter().map(|truth| truth.attempt).collect();
            assert_eq!(numbers, (1..).take(attempts.len()).collect::<Vec<_>>());
            assert!(attempts.len() <= 3, "two further attempts are allowed");
            for (index, attempt) in attempts.iter().enumerate() {
                let is_in_time = occurrence.is_open(moment(attempt.begun));
                assert!(is_in_time || (duty.runs_late && index == 0), "{key:?} {attempt:?}");
                assert!(!is_dark(name, attempt.begun), "in a blackout: {key:?} {attempt:?}");
                let next_is_allowed = duty.is_repeatable || attempt.code.is_some();
                assert!(index + 1 == attempts.len() || next_is_allowed, "{key:?}");
                let succeeded = attempt.code.is_some_and(|code| code < FAILED_CODE);
                assert!(index + 1 == attempts.len() || !succeeded, "{key:?}");
            }
        }
    }
    let known: BTreeSet<&Key> = ledger.rows.keys().collect();
    assert!(node.truth.keys().all(|key| known.contains(key)), "no event is lost");
}

#[test]
fn each_event_of_a_fleet_ends_in_its_right_state() {
    let duties = duties();
    let server = server_times(&mut Random(1));
    let mut counts = BTreeMap::new();
    for number in 0..NODES {
        let (node, ledger) = simulate(number, &duties, &server);
        check(&node, &ledger, &mut counts);
    }
    let ends =
        [EventState::Completed, EventState::Missed, EventState::Failed, EventState::Uncertain];
    for state in ends {
        assert!(counts.get(&state).is_some_and(|count| *count > 500), "{state:?}: {counts:?}");
    }
    assert_eq!(counts.len(), ends.len(), "no event is left in between: {counts:?}");
}
