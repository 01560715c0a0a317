//! Which volume goes into which drive, and what is read next: one state machine for all who wait
//! for the volumes of one library.
//!
//! It does no I/O and has no clock. The caller reports what has happened, with the time since any
//! fixed start, and then carries out what [`Schedule::actions`] returns. A server drives it with
//! real drives, a simulation with a virtual clock. Drives of one schedule are of one model; a
//! library with several models has a schedule each.
//!
//! ```text
//!            drive_free            Mount                mounted
//!   (new) ------------> Empty -----------> Mounting ----------> Idle <---------+
//!                         ^                                     |  | Read       | finished,
//!                         |  dismounted              Dismount   |  +--> Reading +  read_failed
//!                         +------------- Dismounting <----------+
//!
//!   any --- drive_failed ---> Broken --- dismounted, drive_free ---> Empty
//! ```
//!
//! 1. **One queue a volume.** Opens, lists and restores wait in it together, in the order that
//!    [`crate::order`] finds cheapest. What joins while the volume is on its way or being read is
//!    planned in at the next file border.
//! 2. **An object is read once**, however many wait for it. A request goes with its last waiter.
//! 3. **Nobody waits for ever behind newcomers.** While a volume is in a drive and its oldest
//!    request is older than `age_max`, the batch is closed: what comes later is not planned before
//!    all that waited at that moment has been read. Nor does a volume keep its drive for ever:
//!    while one with such an old request waits and no drive is about to be free, a volume gives up
//!    its own at a file border when it has had it for `turn_min` and none of its requests is as
//!    old, or for `turn_max`.
//! 4. **A free drive takes** the volume whose oldest request is the oldest of those beyond
//!    `age_max`, but one that has given up its drive only after the others; if there is none, the
//!    one that serves most waiters a second, the mount included. So the mean wait is short, and age
//!    limits what that may cost anyone.
//! 5. **Drives are capped**: in all, and for each kind of work. A volume counts as the most urgent
//!    kind that waits for it.
//! 6. **A volume stays mounted** for `retain` after its queue has run empty. The one that has been
//!    idle longest goes first when another volume needs its drive.
//! 7. **The head stays a moment.** Before it leaves where it stands while opens are coming in, it
//!    waits until none has come for `quiet`, but no longer than `hold_max` and than half of what
//!    going and coming back would take. A hundred processes that begin together are so read in one
//!    pass.
//! 8. **What a drive was reading when it broke** goes back into its volume's queue, and the volume
//!    to another drive. A request over which two drives have broken, or that cannot be read, turns
//!    to another copy, or its waiters are told.
//! 9. **Budgets hold back storms**: an owner and a program may have so many opens waiting; with
//!    `optimised_only` there are none at all. What is refused says why, and lists go on.
//!
//! 10. **Who writes borrows a drive.** A loan comes behind those who read, unless it has waited for
//!     `turn_min`. The drive is wanted back at once when somebody waits for the volume that is
//!     being written, and after `turn_min` when somebody waits for any.
//!
//! Deliberately absent: the changer's own queue, and the choice between tape and a copy on disk.

mod dispatch;
mod forecast;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use crate::queue::{
    Ask, DriveId, KINDS, Kind, ObjectId, OwnerId, ProgramId, RequestId, Source, VolumeId, Waiter,
    WaiterId,
};

use crate::geometry::Geometry;
use crate::order::Stop;
use crate::queue::Queue;
use crate::timing::{Correction, Observation, Reach, Timing, correction};
pub use forecast::{Forecast, Preview};

/// Observations that a correction is made from.
const OBSERVATIONS_MAX: usize = 4096;
/// Drives that may break over one request before it is the request that is at fault.
const BREAKDOWNS_MAX: u32 = 2;

/// What a library's owner decides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// What the drives take.
    pub timing: Timing,
    /// Drives that hold volumes at the same time.
    pub drives_max: usize,
    /// Drives that work at the same time for opens, for lists, and for restores.
    pub kind_drives_max: [usize; KINDS],
    pub age_max: Duration,
    pub turn_min: Duration,
    pub turn_max: Duration,
    pub retain: Duration,
    pub quiet: Duration,
    pub hold_max: Duration,
    /// Opens of one owner that may wait.
    pub owner_opens_max: usize,
    /// Opens of one program that may wait.
    pub program_opens_max: usize,
    /// Opens are refused.
    pub optimised_only: bool,
}

impl Config {
    /// Returns what suits most, for a library with so many drives: lists and restores leave one of
    /// several drives to opens.
    pub fn new(timing: Timing, drives_max: usize) -> Self {
        let others_max = drives_max.saturating_sub(1).max(1);
        Self {
            timing,
            drives_max,
            kind_drives_max: [drives_max, others_max, others_max],
            age_max: Duration::from_secs(3600),
            turn_min: Duration::from_secs(600),
            turn_max: Duration::from_secs(1800),
            retain: Duration::from_secs(300),
            quiet: Duration::from_millis(250),
            hold_max: Duration::from_secs(2),
            owner_opens_max: 1000,
            program_opens_max: 1000,
            optimised_only: false,
        }
    }
}

/// Why a volume cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Absence {
    #[error("offsite")]
    Offsite,
    #[error("missing")]
    Missing,
    #[error("damaged")]
    Damaged,
}

/// Why something is not even queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Recall by list.
    #[error("files are recalled by list only")]
    OptimisedOnly,
    /// Try again later, or recall by list.
    #[error("the user has too many files waiting")]
    OwnerBudget,
    /// Try again later, or recall by list.
    #[error("the program has too many files waiting")]
    ProgramBudget,
    /// Ask for the volume to be brought back.
    #[error("volume {} is {absence}", .volume.0)]
    Unavailable { volume: VolumeId, absence: Absence },
}

/// Why waiters get nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("no copy can be read")]
    Unreadable,
    #[error("volume {} is {absence}", .volume.0)]
    Unavailable { volume: VolumeId, absence: Absence },
}

/// Somebody who wants to write a volume. Given by the caller, and never twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LoanId(pub u64);

/// A loan that waits for its drive.
#[derive(Clone, Copy, Debug)]
struct Loan {
    id: LoanId,
    volume: VolumeId,
    asked: Duration,
}

/// What the caller is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Put `volume` into `drive`, then report `mounted`.
    Mount { drive: DriveId, volume: VolumeId },
    /// Get to `stop` by `reach` and read it, then report `finished` or `read_failed`.
    Read { drive: DriveId, request: RequestId, object: ObjectId, stop: Stop, reach: Reach },
    /// Take `volume` out of `drive`, then report `dismounted`.
    Dismount { drive: DriveId, volume: VolumeId },
    /// Tell those who wait that the object is there.
    Serve { request: RequestId, object: ObjectId, waiters: Vec<Waiter> },
    /// Let the borrower have `drive`, with `volume` in it if it `is_mounted`, then report
    /// `given_back`.
    Lend { drive: DriveId, loan: LoanId, volume: VolumeId, is_mounted: bool },
    /// Tell those who wait that it will not come.
    Fail { object: ObjectId, waiters: Vec<Waiter>, fault: Fault },
}

/// What a drive is at. Times are since the caller's start.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Empty,
    Mounting {
        volume: VolumeId,
        since: Duration,
    },
    /// The volume is at `Drive::head`, and nothing is being done.
    Idle {
        volume: VolumeId,
        since: Duration,
    },
    Reading {
        volume: VolumeId,
        request: RequestId,
        since: Duration,
    },
    Dismounting {
        volume: VolumeId,
        since: Duration,
    },
    /// A borrower has the drive, and mounts the volume himself.
    Lent {
        volume: VolumeId,
        since: Duration,
    },
    /// Takes nothing until it is free again. A volume that is still in it is on its way out.
    Broken {
        volume: Option<VolumeId>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Drive {
    state: State,
    /// The address at which the volume stands.
    head: u64,
    /// Since when it has had its volume.
    mounted: Duration,
    bytes_read: u64,
    /// Estimated seconds to get to what is being read, and to read it.
    estimate: (f64, f64),
}

impl Drive {
    fn volume(&self) -> Option<VolumeId> {
        match self.state {
            State::Empty => None,
            State::Broken { volume } => volume,
            State::Mounting { volume, .. }
            | State::Idle { volume, .. }
            | State::Reading { volume, .. }
            | State::Lent { volume, .. }
            | State::Dismounting { volume, .. } => Some(volume),
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Schedule {
    config: Config,
    queue: Queue,
    drives: BTreeMap<DriveId, Drive>,
    geometry: Arc<Geometry>,
    /// Volumes whose own geometry is known.
    geometries: BTreeMap<VolumeId, Arc<Geometry>>,
    absent: BTreeMap<VolumeId, Absence>,
    /// Oldest first.
    loans: VecDeque<Loan>,
    observations: VecDeque<Observation>,
    actions: Vec<Action>,
    wake_at: Option<Duration>,
}

impl Schedule {
    /// Returns a schedule without drives: each joins with [`Self::drive_free`]. Volumes have
    /// `geometry` unless [`Self::set_geometry`] gives them their own.
    pub fn new(config: Config, geometry: Geometry) -> Self {
        Self {
            config,
            queue: Queue::default(),
            drives: BTreeMap::new(),
            geometry: Arc::new(geometry),
            geometries: BTreeMap::new(),
            absent: BTreeMap::new(),
            loans: VecDeque::new(),
            observations: VecDeque::new(),
            actions: Vec::new(),
            wake_at: None,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Goes on with other limits. What waits goes on waiting.
    pub fn reconfigure(&mut self, drives_max: usize, retain: Duration, optimised_only: bool) {
        let Config { kind_drives_max, .. } = Config::new(self.config.timing, drives_max);
        self.config = Config { drives_max, kind_drives_max, retain, optimised_only, ..self.config };
    }

    /// Places addresses of `volume` as its drive has reported.
    pub fn set_geometry(&mut self, volume: VolumeId, geometry: Geometry) {
        self.geometries.insert(volume, Arc::new(geometry));
    }

    /// Returns what waits for `volume`, oldest first, for a drive that recommends an order.
    pub fn waiting(&self, volume: VolumeId) -> Vec<(RequestId, Stop)> {
        let stop = |id: RequestId| (id, self.queue.request(id).source.stop);
        self.queue
            .lane(volume)
            .into_iter()
            .flat_map(|lane| lane.batch())
            .map(stop)
            .collect()
    }

    /// Takes the order that a drive recommends for what waits for its volume. It is one candidate
    /// of the next plan, if that is for the same requests.
    pub fn recommend(&mut self, volume: VolumeId, order: Vec<RequestId>) {
        if let Some(lane) = self.queue.lane_mut(volume) {
            lane.recommended = order;
            lane.plan.clear();
        }
    }

    /// Lets a waiter wait, for a request of its own or one that others wait for already.
    ///
    /// Of several copies the one that can be served first is chosen.
    pub fn request(&mut self, now: Duration, ask: Ask) -> Result<RequestId, Refusal> {
        assert!(!ask.sources.is_empty(), "what is asked for is somewhere");
        self.admit(&ask.waiter)?;
        if let Some(id) = self.queue.of_object(ask.object) {
            self.queue.join(id, ask.waiter);
            return Ok(id);
        }
        match self.earliest(now, &ask.sources) {
            Some(source) => {
                let id = self.queue.add(now, ask, source);
                self.lengthen(source);
                Ok(id)
            }
            None => {
                let (volume, absence) = self.absence(&ask.sources);
                Err(Refusal::Unavailable { volume, absence })
            }
        }
    }

    /// Whether something waits for the object, or it is being read.
    pub fn has_request(&self, object: ObjectId) -> bool {
        self.queue.of_object(object).is_some()
    }

    /// Says why `waiter` may not wait, if so.
    fn admit(&self, waiter: &Waiter) -> Result<(), Refusal> {
        if waiter.kind != Kind::Open {
            return Ok(());
        }
        if self.config.optimised_only {
            return Err(Refusal::OptimisedOnly);
        }
        let (of_owner, of_program) = self.queue.opens_of(waiter.owner, waiter.program);
        if of_owner >= self.config.owner_opens_max {
            return Err(Refusal::OwnerBudget);
        }
        if of_program >= self.config.program_opens_max {
            return Err(Refusal::ProgramBudget);
        }
        Ok(())
    }

    /// Why the first of `sources`, of which none is there, is not.
    fn absence(&self, sources: &[Source]) -> (VolumeId, Absence) {
        let volume = sources[0].volume;
        (volume, self.absent.get(&volume).copied().unwrap_or(Absence::Missing))
    }

    /// Takes back what a waiter waits for; says whether it waited. What is being read is read to
    /// its end.
    pub fn cancel(&mut self, waiter: WaiterId) -> bool {
        self.queue.cancel(waiter)
    }

    /// A drive is empty and ready: when it joins, when a mount has come to nothing, and when it has
    /// been repaired. What it was reading, if anything, waits again.
    pub fn drive_free(&mut self, drive: DriveId) {
        if let Some(State::Reading { request, .. }) = self.drives.get(&drive).map(|d| d.state) {
            self.queue.put_back(request);
        }
        let fresh = Drive {
            state: State::Empty,
            head: 0,
            mounted: Duration::ZERO,
            bytes_read: 0,
            estimate: (0.0, 0.0),
        };
        self.drives.insert(drive, fresh);
    }

    /// A volume is ready at its load point.
    pub fn mounted(&mut self, now: Duration, drive: DriveId) {
        let drive = self.drive(drive);
        let State::Mounting { volume, .. } = drive.state else { return };
        (drive.head, drive.bytes_read, drive.mounted) = (0, 0, now);
        drive.state = State::Idle { volume, since: now };
    }

    /// What was being read has been read whole.
    pub fn finished(&mut self, now: Duration, drive: DriveId) {
        let State::Reading { volume, request, since } = self.drive(drive).state else { return };
        let stop = self.queue.request(request).source.stop;
        let drive = self.drive(drive);
        drive.state = State::Idle { volume, since: now };
        drive.head = stop.end();
        drive.bytes_read = drive.bytes_read.saturating_add(stop.bytes);
        let (positioning, reading) = drive.estimate;
        let real = now.saturating_sub(since).as_secs_f64();
        self.observe(Observation { positioning, reading, real });
        let served = self.queue.remove(request);
        if !served.waiters.is_empty() {
            let (object, waiters) = (served.object, served.waiters);
            self.actions.push(Action::Serve { request, object, waiters });
        }
    }

    /// What was being read cannot be read from this volume.
    pub fn read_failed(&mut self, now: Duration, drive: DriveId) {
        let drive = self.drive(drive);
        let State::Reading { volume, request, .. } = drive.state else { return };
        drive.state = State::Idle { volume, since: now };
        self.turn_away(now, request, true, Fault::Unreadable);
    }

    /// A drive has failed, at whatever it was doing. The volume in it, if any, is to be taken out,
    /// by hand if need be: it is not asked for again.
    pub fn drive_failed(&mut self, now: Duration, id: DriveId) {
        let drive = self.drive(id);
        let before = drive.state;
        let volume = drive.volume();
        drive.state = State::Broken { volume };
        if let State::Reading { request, .. } = before {
            if self.queue.count_breakdown(request) < BREAKDOWNS_MAX {
                self.queue.put_back(request);
            } else {
                self.turn_away(now, request, true, Fault::Unreadable);
            }
        }
        let was_broken = matches!(before, State::Broken { .. });
        if let Some(volume) = volume.filter(|_| !was_broken) {
            self.actions.push(Action::Dismount { drive: id, volume });
        }
    }

    /// The volume is out of the drive. A drive that has failed stays out of work.
    pub fn dismounted(&mut self, drive: DriveId) {
        let drive = self.drive(drive);
        drive.state = match drive.state {
            State::Broken { .. } => State::Broken { volume: None },
            _ => State::Empty,
        };
    }

    /// Somebody wants a drive to write `volume`.
    pub fn borrow(&mut self, now: Duration, id: LoanId, volume: VolumeId) {
        self.loans.push_back(Loan { id, volume, asked: now });
    }

    /// Takes back what was asked for with [`Self::borrow`]; says whether it still waited.
    pub fn withdraw(&mut self, id: LoanId) -> bool {
        let before = self.loans.len();
        self.loans.retain(|loan| loan.id != id);
        self.loans.len() < before
    }

    /// Takes back all that was asked for to write a volume.
    pub fn withdraw_of(&mut self, volume: VolumeId) -> Vec<LoanId> {
        let (of_volume, others): (VecDeque<Loan>, VecDeque<Loan>) =
            self.loans.drain(..).partition(|loan| loan.volume == volume);
        self.loans = others;
        of_volume.into_iter().map(|loan| loan.id).collect()
    }

    /// Why a volume cannot be had, if so.
    pub fn absence_of(&self, volume: VolumeId) -> Option<Absence> {
        self.absent.get(&volume).copied()
    }

    /// A borrower has done with `drive`. The volume is in it still and stands at `head`, or the
    /// drive is empty.
    pub fn given_back(&mut self, now: Duration, id: DriveId, head: Option<u64>) {
        let drive = self.drive(id);
        let State::Lent { volume, since } = drive.state else { return };
        match head {
            Some(head) => {
                (drive.head, drive.mounted) = (head, since);
                drive.state = State::Idle { volume, since: now };
            }
            None => drive.state = State::Empty,
        }
    }

    /// A volume cannot be had. Who waits for it turns to other copies or is told.
    pub fn volume_absent(&mut self, now: Duration, volume: VolumeId, absence: Absence) {
        self.absent.insert(volume, absence);
        let waiting = self.queue.lane(volume).map(|lane| lane.waiting.clone());
        for request in waiting.unwrap_or_default() {
            self.queue.take(request);
            self.turn_away(now, request, false, Fault::Unavailable { volume, absence });
        }
    }

    /// A volume can be had again.
    pub fn volume_present(&mut self, volume: VolumeId) {
        self.absent.remove(&volume);
    }

    /// Lets a request that is in no queue wait for another copy, or tells its waiters.
    fn turn_away(&mut self, now: Duration, request: RequestId, failed: bool, fault: Fault) {
        let others = self.queue.request(request).others.clone();
        if self.queue.request(request).waiters.is_empty() {
            self.queue.remove(request);
        } else if let Some(source) = self.earliest(now, &others) {
            self.queue.turn_to(request, source, failed);
            self.lengthen(source);
        } else {
            let gone = self.queue.remove(request);
            self.actions
                .push(Action::Fail { object: gone.object, waiters: gone.waiters, fault });
        }
    }

    /// Adds the reading of `source`, which has joined its volume's queue, to what that takes.
    fn lengthen(&mut self, source: Source) {
        let secs = self.config.timing.read_secs(source.stop.bytes);
        self.queue.lane_mut(source.volume).expect("something waits in it").plan_secs += secs;
    }

    fn observe(&mut self, observation: Observation) {
        if self.observations.len() == OBSERVATIONS_MAX {
            self.observations.pop_front();
        }
        self.observations.push_back(observation);
    }

    /// Corrects the timing by what reads have taken since the last correction, and returns by how
    /// much; by nothing while too little has been seen.
    pub fn recalibrate(&mut self) -> Correction {
        let correction = correction(self.observations.make_contiguous());
        if correction != Correction::NONE {
            self.config.timing = self.config.timing.corrected(&correction);
            self.observations.clear();
        }
        correction
    }

    /// The time at which [`Self::actions`] has something new although nothing has been reported.
    pub fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }

    fn drive(&mut self, drive: DriveId) -> &mut Drive {
        self.drives
            .get_mut(&drive)
            .expect("a drive joins before anything is said of it")
    }

    fn geometry(&self, volume: VolumeId) -> Arc<Geometry> {
        Arc::clone(self.geometries.get(&volume).unwrap_or(&self.geometry))
    }
}

#[cfg(test)]
mod tests;
