//! A simulated library with a virtual clock. It carries out the actions of a [`Schedule`] in the
//! time that its [`Hardware`] takes, and notes when each waiter was served.
//!
//! The hardware is a [`Model`], whose timing may differ from the timing that the schedule assumes,
//! or emulated devices, which get the same commands as real devices. Everything is deterministic.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::geometry::Geometry;
use crate::order::Stop;
use crate::schedule::{Action, Demand, DriveId, Refusal, Schedule, VolumeId, WaiterId};
use crate::timing::{Timing, duration};

/// A waiter that got its object. Times are since the start of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedWaiter {
    pub waiter: WaiterId,
    pub asked: Duration,
    /// The forecast at the time of the request, if the waiter was told a forecast.
    pub told: Option<Duration>,
    pub served: Duration,
}

/// An event at some time.
#[derive(Debug)]
enum Event {
    Asked(Demand),
    /// A drive has ended its task, if it still has that task.
    Ended(DriveId),
    Broke(DriveId),
}

/// The task of a drive.
#[derive(Clone, Copy, Debug)]
enum Task {
    Mount,
    /// A read, with the time at which the drive reaches its stop.
    Read {
        arrives: Duration,
    },
    Dismount,
}

/// Seconds of one read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReadTime {
    /// Seconds to get to the stop.
    pub positioning_secs: f64,
    /// Seconds to read the stop.
    pub reading_secs: f64,
}

/// The devices of a simulated library. Each method carries out a step and returns its seconds.
pub trait Hardware {
    fn mount(&mut self, drive: DriveId, volume: VolumeId) -> f64;

    /// Goes to `stop` and reads it; returns the seconds of both parts.
    fn read(&mut self, drive: DriveId, stop: Stop) -> ReadTime;

    fn dismount(&mut self, drive: DriveId) -> f64;
}

/// Modelled drives, whose steps take the times of a [`Timing`].
#[derive(Debug)]
pub struct Model {
    timing: Timing,
    geometry: Geometry,
    /// Address of each drive's head, and the bytes that it has read of its volume.
    heads: BTreeMap<DriveId, (u64, u64)>,
}

impl Model {
    pub fn new(timing: Timing, geometry: Geometry) -> Self {
        Self { timing, geometry, heads: BTreeMap::new() }
    }
}

impl Hardware for Model {
    fn mount(&mut self, drive: DriveId, _: VolumeId) -> f64 {
        self.heads.insert(drive, (0, 0));
        self.timing.mount_secs()
    }

    fn read(&mut self, drive: DriveId, stop: Stop) -> ReadTime {
        let (head, bytes_read) = self.heads.entry(drive).or_default();
        let from = self.geometry.point(*head);
        let reach = self.timing.reach(&from, &self.geometry.point(stop.at)).1;
        (*head, *bytes_read) = (stop.end(), *bytes_read + stop.bytes);
        let reading_secs = self.timing.read_secs(stop.bytes);
        ReadTime { positioning_secs: reach, reading_secs }
    }

    fn dismount(&mut self, drive: DriveId) -> f64 {
        let (head, bytes_read) = self.heads.remove(&drive).unwrap_or_default();
        let along = self.geometry.along(&self.geometry.point(head));
        self.timing.dismount_secs(along, self.geometry.part(bytes_read))
    }
}

/// A schedule, with the simulated library that carries out its actions.
#[derive(Debug)]
pub struct Simulation<H: Hardware = Model> {
    pub schedule: Schedule,
    hardware: H,
    now: Duration,
    /// Events by time, then by number.
    events: BTreeMap<(Duration, u64), Event>,
    events_made: u64,
    /// Task of each drive, with the number of the event that ends the task.
    tasks: BTreeMap<DriveId, (Task, u64)>,
    /// Waiters, each with the time of its request and the forecast that it was told.
    waiting: BTreeMap<WaiterId, (Duration, Option<Duration>)>,
    /// Divisor: a waiter whose number is a multiple of it is told a forecast; 0 if no waiter is
    /// told a forecast.
    pub told_every: u64,
    pub served: Vec<ServedWaiter>,
    pub failed: Vec<WaiterId>,
    pub refused: Vec<(WaiterId, Refusal)>,
    pub mounts: u64,
}

impl Simulation {
    /// Returns a simulation of `drives` drives that take the times of `timing`, with volumes of one
    /// `geometry`.
    pub fn new(schedule: Schedule, timing: Timing, geometry: Geometry, drives: u32) -> Self {
        Self::over(schedule, Model::new(timing, geometry), drives)
    }
}

impl<H: Hardware> Simulation<H> {
    /// Returns a simulation of `drives` drives, whose steps `hardware` carries out.
    pub fn over(mut schedule: Schedule, hardware: H, drives: u32) -> Self {
        (0..drives).map(DriveId).for_each(|drive| schedule.drive_free(drive));
        Self {
            schedule,
            hardware,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            events_made: 0,
            tasks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            told_every: 0,
            served: Vec::new(),
            failed: Vec::new(),
            refused: Vec::new(),
            mounts: 0,
        }
    }

    pub fn hardware(&self) -> &H {
        &self.hardware
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// Adds a request at a time that is not in the past.
    pub fn ask(&mut self, at: Duration, ask: Demand) {
        assert!(at >= self.now, "the clock does not go back");
        self.add(at, Event::Asked(ask));
    }

    /// Cancels a waiter; returns true if it was still waiting.
    pub fn cancel(&mut self, waiter: WaiterId) -> bool {
        self.waiting.remove(&waiter).is_some() && self.schedule.cancel(waiter)
    }

    /// Lets a drive fail at the time `at`, permanently.
    pub fn break_drive(&mut self, at: Duration, drive: DriveId) {
        self.add(at, Event::Broke(drive));
    }

    /// Lets time pass until all requests have an answer.
    pub fn run(&mut self) {
        let is_asked = |event: &Event| matches!(event, Event::Asked(_));
        while !self.waiting.is_empty() || self.events.values().any(is_asked) {
            assert!(self.step(), "a waiter waits and no event is left");
        }
    }

    /// Lets time pass until the next event; returns false if there is none.
    pub fn step(&mut self) -> bool {
        let before = self.now;
        let event = self.events.first_key_value().map(|(key, _)| *key);
        let wake = self.schedule.wake_at().map(|at| at.max(self.now));
        match (event, wake) {
            (Some((at, _)), wake) if wake.is_none_or(|wake| at <= wake) => self.now = at,
            (_, Some(wake)) => self.now = wake,
            (_, None) => return false,
        }
        debug_assert!(self.now >= before, "the clock does not go back");
        if let Some(key) = event.filter(|(at, _)| *at == self.now) {
            let event = self.events.remove(&key).expect("the event was found just before");
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
                self.tasks.remove(&drive);
                self.schedule.drive_failed(self.now, drive);
            }
        }
    }

    fn admit(&mut self, ask: Demand) {
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
        let is_it = |(_, ends): &&(Task, u64)| *ends == number;
        let Some((task, _)) = self.tasks.get(&id).filter(is_it).copied() else { return };
        self.tasks.remove(&id);
        match task {
            Task::Mount => self.schedule.mounted(self.now, id),
            Task::Dismount => self.schedule.dismounted(id),
            Task::Read { arrives } => {
                self.schedule.arrived(arrives, id);
                self.schedule.finished(self.now, id);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Mount { drive, volume } => {
                self.mounts += 1;
                let secs = self.hardware.mount(drive, volume);
                self.begin(drive, Task::Mount, secs);
            }
            Action::Read { drive, stop, .. } => {
                let ReadTime { positioning_secs, reading_secs } = self.hardware.read(drive, stop);
                let arrives = self.now + duration(positioning_secs);
                self.begin(drive, Task::Read { arrives }, positioning_secs + reading_secs);
            }
            Action::Dismount { drive, .. } => {
                let secs = self.hardware.dismount(drive);
                self.begin(drive, Task::Dismount, secs);
            }
            Action::Lend { .. } => unreachable!("a simulation has no borrowers"),
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
        assert!(secs >= 0.0, "no step takes negative time");
        assert!(!self.tasks.contains_key(&drive), "a drive has one task at a time");
        let number = self.events_made;
        self.tasks.insert(drive, (task, number));
        self.add(self.now + duration(secs), Event::Ended(drive));
    }

    fn note(&mut self, waiter: WaiterId) {
        let (asked, told) = self.waiting.remove(&waiter).expect("only a waiter is served");
        self.served.push(ServedWaiter { waiter, asked, told, served: self.now });
    }
}
