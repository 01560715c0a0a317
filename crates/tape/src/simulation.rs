//! A library on a virtual clock: it carries out what a [`Schedule`] wants, in the time that a
//! [`Timing`] says, and notes when everybody was served.
//!
//! The timing of the library need not be the one that the schedule plans with: drives are never
//! quite as their model. Everything is deterministic.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::geometry::Geometry;
use crate::order::Stop;
use crate::schedule::{Action, Ask, DriveId, Refusal, Schedule, WaiterId};
use crate::timing::{Timing, duration};

/// A waiter that got what it wanted. Times are since the start of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    pub waiter: WaiterId,
    pub asked: Duration,
    /// The forecast when it asked, if it was told one.
    pub told: Option<Duration>,
    pub served: Duration,
}

/// What happens at some time.
#[derive(Debug)]
enum Event {
    Asked(Ask),
    /// A drive has ended what it was at, if it still is at it.
    Ended(DriveId),
    Broke(DriveId),
}

/// What a drive is at.
#[derive(Clone, Copy, Debug)]
enum Task {
    Mount,
    Read(Stop),
    Dismount,
}

/// A drive of the library.
#[derive(Clone, Copy, Debug, Default)]
struct Mechanism {
    head: u64,
    bytes_read: u64,
    /// With the number of the event that ends it.
    task: Option<(Task, u64)>,
}

/// A schedule at work.
#[derive(Debug)]
pub struct Simulation {
    pub schedule: Schedule,
    timing: Timing,
    geometry: Geometry,
    now: Duration,
    /// By time, then by the order in which they were made.
    events: BTreeMap<(Duration, u64), Event>,
    events_made: u64,
    drives: BTreeMap<DriveId, Mechanism>,
    /// Whoever waits, since when, and what it was told.
    waiting: BTreeMap<WaiterId, (Duration, Option<Duration>)>,
    /// Waiters whose number is a multiple of it are told when they will be served; 0 for nobody.
    pub told_every: u64,
    pub served: Vec<Served>,
    pub failed: Vec<WaiterId>,
    pub refused: Vec<(WaiterId, Refusal)>,
    pub mounts: u64,
}

impl Simulation {
    /// Returns a library of `drives` drives that take what `timing` says, with volumes of one
    /// `geometry`.
    pub fn new(mut schedule: Schedule, timing: Timing, geometry: Geometry, drives: u32) -> Self {
        let drives = (0..drives).map(DriveId);
        drives.clone().for_each(|drive| schedule.drive_free(drive));
        Self {
            schedule,
            timing,
            geometry,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            events_made: 0,
            drives: drives.map(|drive| (drive, Mechanism::default())).collect(),
            waiting: BTreeMap::new(),
            told_every: 0,
            served: Vec::new(),
            failed: Vec::new(),
            refused: Vec::new(),
            mounts: 0,
        }
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// Lets somebody ask at a time that has not passed.
    pub fn ask(&mut self, at: Duration, ask: Ask) {
        assert!(at >= self.now, "the clock does not go back");
        self.add(at, Event::Asked(ask));
    }

    /// Lets a waiter give up; says whether it waited.
    pub fn cancel(&mut self, waiter: WaiterId) -> bool {
        self.waiting.remove(&waiter).is_some() && self.schedule.cancel(waiter)
    }

    /// Lets a drive fail for good.
    pub fn break_drive(&mut self, at: Duration, drive: DriveId) {
        self.add(at, Event::Broke(drive));
    }

    /// Lets time pass until everybody who asks has an answer.
    pub fn run(&mut self) {
        let is_asked = |event: &Event| matches!(event, Event::Asked(_));
        while !self.waiting.is_empty() || self.events.values().any(is_asked) {
            assert!(self.step(), "somebody waits and nothing will happen");
        }
    }

    /// Lets time pass until the next event; says whether there was one.
    pub fn step(&mut self) -> bool {
        let event = self.events.first_key_value().map(|(key, _)| *key);
        let wake = self.schedule.wake_at().map(|at| at.max(self.now));
        match (event, wake) {
            (Some((at, _)), wake) if wake.is_none_or(|wake| at <= wake) => self.now = at,
            (_, Some(wake)) => self.now = wake,
            (_, None) => return false,
        }
        if let Some(key) = event.filter(|(at, _)| *at == self.now) {
            let event = self.events.remove(&key).expect("it was there just before");
            self.happen(key.1, event);
        }
        for action in self.schedule.actions(self.now) {
            self.carry_out(action);
        }
        true
    }

    fn add(&mut self, at: Duration, event: Event) -> u64 {
        let number = self.events_made;
        self.events_made += 1;
        self.events.insert((at, number), event);
        number
    }

    fn happen(&mut self, number: u64, event: Event) {
        match event {
            Event::Asked(ask) => self.admit(ask),
            Event::Ended(drive) => self.end(drive, number),
            Event::Broke(drive) => {
                self.mechanism(drive).task = None;
                self.schedule.drive_failed(self.now, drive);
            }
        }
    }

    fn admit(&mut self, ask: Ask) {
        let waiter = ask.waiter.id;
        if let Err(refusal) = self.schedule.request(self.now, ask) {
            self.refused.push((waiter, refusal));
            return;
        }
        let is_told = self.told_every > 0 && waiter.0.is_multiple_of(self.told_every);
        let forecast = if is_told { self.schedule.forecast(self.now, waiter) } else { None };
        let told = forecast.map(|forecast| forecast.served_at);
        self.waiting.insert(waiter, (self.now, told));
    }

    fn end(&mut self, id: DriveId, number: u64) {
        let now = self.now;
        let drive = self.mechanism(id);
        let Some((task, _)) = drive.task.filter(|(_, ends)| *ends == number) else { return };
        drive.task = None;
        match task {
            Task::Mount => self.schedule.mounted(now, id),
            Task::Dismount => self.schedule.dismounted(id),
            Task::Read(stop) => {
                drive.head = stop.end();
                drive.bytes_read += stop.bytes;
                self.schedule.finished(now, id);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Mount { drive, .. } => {
                self.mounts += 1;
                (self.mechanism(drive).head, self.mechanism(drive).bytes_read) = (0, 0);
                self.begin(drive, Task::Mount, self.timing.mount_secs());
            }
            Action::Read { drive, stop, .. } => {
                let head = self.geometry.point(self.drives[&drive].head);
                let reach = self.timing.reach(&head, &self.geometry.point(stop.at)).1;
                self.begin(drive, Task::Read(stop), reach + self.timing.read_secs(stop.bytes));
            }
            Action::Dismount { drive, .. } => {
                let Mechanism { head, bytes_read, .. } = self.drives[&drive];
                let along = self.geometry.along(&self.geometry.point(head));
                let secs = self.timing.dismount_secs(along, self.geometry.part(bytes_read));
                self.begin(drive, Task::Dismount, secs);
            }
            Action::Lend { .. } => unreachable!("nobody borrows drives here"),
            Action::Serve { waiters, .. } => waiters.iter().for_each(|waiter| self.note(waiter.id)),
            Action::Fail { waiters, .. } => {
                for waiter in waiters {
                    self.waiting.remove(&waiter.id);
                    self.failed.push(waiter.id);
                }
            }
        }
    }

    fn begin(&mut self, drive: DriveId, task: Task, secs: f64) {
        let number = self.events_made;
        self.mechanism(drive).task = Some((task, number));
        self.add(self.now + duration(secs), Event::Ended(drive));
    }

    fn note(&mut self, waiter: WaiterId) {
        let (asked, told) = self.waiting.remove(&waiter).expect("only who waits is served");
        self.served.push(Served { waiter, asked, told, served: self.now });
    }

    fn mechanism(&mut self, drive: DriveId) -> &mut Mechanism {
        self.drives.get_mut(&drive).expect("a drive of this library")
    }
}
