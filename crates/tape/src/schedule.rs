//! The schedule decides which volume goes into which drive, and which read is next. It is one state
//! machine for all waiters of one library.
//!
//! The schedule does no I/O and has no clock. The caller reports each event, with the time since a
//! fixed start, and then carries out the actions that [`Schedule::actions`] returns. A server uses
//! a schedule with real drives, and a simulation with a virtual clock. All drives of one schedule
//! are of the same model; a library with several models has a schedule for each model.
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
//! 1. **One queue for each volume.** Opens, lists and restores wait in it together, in the order
//!    that [`crate::order`] finds cheapest. A request that arrives while the volume is on its way
//!    or being read is planned in at the next file border.
//! 2. **An object is read once**, for any number of waiters. A request is removed with its last
//!    waiter.
//! 3. **No request waits for ever because of later requests.** While a volume is in a drive and its
//!    oldest request is older than `age_max`, the batch is closed: later requests are planned only
//!    after all requests that waited at that moment have been read. A volume does not keep its
//!    drive for ever either. While another volume has such an old request and no drive is about to
//!    be free, a volume gives up its drive at a file border: after `turn_min` if none of its own
//!    requests is so old, otherwise after `turn_max`.
//! 4. **A free drive takes** the volume whose oldest request is the oldest of all requests older
//!    than `age_max`; a volume that has given up its drive comes after the others. If there is no
//!    such volume, the drive takes the volume that serves most waiters a second, including the time
//!    of the mount. This keeps the mean wait short, and `age_max` limits the longest wait.
//! 5. **The number of drives is limited**: for all work together, and for each kind of work. A
//!    volume counts as the most urgent kind that waits for it.
//! 6. **A volume stays mounted** for `retain` after its queue has become empty. If another volume
//!    needs a drive, the volume that has been idle longest is dismounted first.
//! 7. **The head stays a moment.** If opens are arriving, the head waits before it leaves its
//!    place: until no open has arrived for `quiet`, but at most for `hold_max`, and at most for
//!    half of the time that the way to the next read and back would take. So a hundred processes
//!    that begin together are read in one pass.
//! 8. **A request whose drive fails** goes back into the queue of its volume, and the volume goes
//!    to another drive. If two drives have failed during the same request, or the request cannot be
//!    read, it turns to another copy. If there is no other copy, its waiters are told of the
//!    failure.
//! 9. **Budgets limit storms of opens**: the number of waiting opens is limited for each owner and
//!    for each program; with `optimised_only` no opens are allowed. A refusal gives the reason.
//!    Lists and restores are not limited.
//!
//! 10. **A writer borrows a drive.** A loan comes after the readers, unless it has waited for
//!     `turn_min`. The drive is wanted back at once if a request waits for the volume that is being
//!     written, and after `turn_min` if a request waits for another volume.
//!
//! Deliberately absent: the changer's own queue, and the choice between tape and a copy on disk.

mod dispatch;
mod forecast;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use crate::queue::{
    Demand, DriveId, KINDS, Kind, ObjectId, OwnerId, ProgramId, RequestId, Source, VolumeId,
    Waiter, WaiterId,
};

use crate::calibration::{Calibration, Step};
use crate::geometry::Geometry;
use crate::order::Stop;
use crate::queue::Queue;
use crate::timing::{Correction, Reach, Timing};

/// Number of drives that fail during the same request before the request is regarded as the cause.
const BREAKDOWNS_MAX: u32 = 2;

/// Limits that the owner of a library sets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Assumed times of the drives, used until measured times correct them.
    pub timing: Timing,
    /// Maximum number of drives that hold volumes at the same time.
    pub drives_max: usize,
    /// Maximum numbers of drives that work at the same time for opens, for lists, and for restores.
    pub kind_drives_max: [usize; KINDS],
    pub age_max: Duration,
    pub turn_min: Duration,
    pub turn_max: Duration,
    pub retain: Duration,
    pub quiet: Duration,
    pub hold_max: Duration,
    /// Maximum number of waiting opens of one owner.
    pub owner_opens_max: usize,
    /// Maximum number of waiting opens of one program.
    pub program_opens_max: usize,
    /// True if all opens are refused.
    pub optimised_only: bool,
}

impl Config {
    /// Returns the default limits for a library with `drives_max` drives. If there are several,
    /// lists and restores leave one drive to opens.
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

/// Reason why a volume is not available.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Absence {
    #[error("offsite")]
    Offsite,
    #[error("missing")]
    Missing,
    #[error("damaged")]
    Damaged,
}

/// Reason why a request is not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No opens are allowed: the user recalls the files by list instead.
    #[error("files are recalled by list only")]
    OptimisedOnly,
    /// The user tries again later, or recalls the files by list.
    #[error("the user has too many files waiting")]
    OwnerBudget,
    /// The user tries again later, or recalls the files by list.
    #[error("the program has too many files waiting")]
    ProgramBudget,
    /// No volume with a copy is available: a person has to bring such a volume back.
    #[error("volume {} is {absence}", .volume.0)]
    Unavailable { volume: VolumeId, absence: Absence },
}

/// Reason why waiters do not get their object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("no copy can be read")]
    Unreadable,
    #[error("volume {} is {absence}", .volume.0)]
    Unavailable { volume: VolumeId, absence: Absence },
}

/// Number of a loan. The caller never uses the same number twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LoanId(pub u64);

/// A loan that waits for its drive.
#[derive(Clone, Copy, Debug)]
struct LoanRequest {
    id: LoanId,
    volume: VolumeId,
    asked: Duration,
}

/// A task for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Put `volume` into `drive`, then report `mounted`.
    Mount { drive: DriveId, volume: VolumeId },
    /// Go to `stop` in the way `reach` and read it, then report `finished` or `read_failed`.
    Read { drive: DriveId, request: RequestId, object: ObjectId, stop: Stop, reach: Reach },
    /// Take `volume` out of `drive`, then report `dismounted`.
    Dismount { drive: DriveId, volume: VolumeId },
    /// Tell the waiters that the object has been read.
    Serve { request: RequestId, object: ObjectId, waiters: Vec<Waiter> },
    /// Lend `drive` to the borrower, with `volume` in it if `is_mounted`; report `given_back` when
    /// the borrower returns the drive.
    Lend { drive: DriveId, loan: LoanId, volume: VolumeId, is_mounted: bool },
    /// Tell the waiters that the object cannot be read.
    Fail { object: ObjectId, waiters: Vec<Waiter>, fault: Fault },
}

/// The expected service of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// Number of requests for the same volume that are read before this request.
    pub ahead: usize,
    /// Expected time of service, since the caller's start.
    pub served_at: Duration,
}

/// Expected order and time of reads that nobody has requested yet.
#[derive(Clone, PartialEq, Debug)]
pub struct Preview {
    /// Indices of the stops, in the order in which they would be read.
    pub order: Vec<usize>,
    /// True if the volume is in a drive.
    pub is_mounted: bool,
    /// Expected seconds of all reads, and of the mount if the volume is in no drive.
    pub secs: f64,
    /// Number of drives that may work at the same time.
    pub drives: usize,
}

/// The task of a drive. Times are since the caller's start.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Empty,
    Mounting {
        volume: VolumeId,
        since: Duration,
    },
    /// The drive has no task. Its volume is at `Drive::head`.
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
    /// A borrower has the drive.
    Lent {
        volume: VolumeId,
        since: Duration,
    },
    /// The drive has failed, and gets no task until it is reported as free. A volume in it is being
    /// taken out.
    Broken {
        volume: Option<VolumeId>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Drive {
    state: State,
    /// The address at which the volume stands.
    head: u64,
    /// Time at which the drive got its volume.
    mounted: Duration,
    bytes_read: u64,
    /// Estimated seconds of the drive's task.
    estimate_secs: f64,
    /// Way to the present read.
    reach: Reach,
    /// Time of arrival at the present read, if it was reported.
    arrived: Option<Duration>,
}

impl Drive {
    fn is_reading(&self, wanted: RequestId) -> bool {
        matches!(self.state, State::Reading { request, .. } if request == wanted)
    }

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

/// The schedule of one library. See the module.
#[derive(Debug)]
pub struct Schedule {
    config: Config,
    queue: Queue,
    drives: BTreeMap<DriveId, Drive>,
    geometry: Arc<Geometry>,
    /// Geometries of volumes, as far as drives have reported them.
    geometries: BTreeMap<VolumeId, Arc<Geometry>>,
    absent: BTreeMap<VolumeId, Absence>,
    /// Waiting loans, oldest first.
    loans: VecDeque<LoanRequest>,
    /// `config.timing`, corrected by the measured times of the drives.
    timing: Timing,
    calibration: Calibration,
    actions: Vec<Action>,
    wake_at: Option<Duration>,
}

impl Schedule {
    /// Returns a schedule without drives; each drive joins with [`Self::drive_free`]. Volumes have
    /// `geometry` unless [`Self::set_geometry`] gives them their own.
    pub fn new(config: Config, geometry: Geometry) -> Self {
        assert!(config.drives_max > 0, "a library without drives has no schedule");
        assert!(
            config.turn_min <= config.turn_max,
            "the shortest turn is not longer than the longest"
        );
        Self {
            config,
            queue: Queue::default(),
            drives: BTreeMap::new(),
            geometry: Arc::new(geometry),
            geometries: BTreeMap::new(),
            absent: BTreeMap::new(),
            loans: VecDeque::new(),
            timing: config.timing,
            calibration: Calibration::default(),
            actions: Vec::new(),
            wake_at: None,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the limits. Waiting requests stay in their queues.
    pub fn reconfigure(&mut self, drives_max: usize, retain: Duration, optimised_only: bool) {
        assert!(drives_max > 0, "a library keeps at least one drive");
        let Config { kind_drives_max, .. } = Config::new(self.config.timing, drives_max);
        self.config = Config { drives_max, kind_drives_max, retain, optimised_only, ..self.config };
    }

    /// Sets the geometry of `volume`, as its drive has reported it.
    pub fn set_geometry(&mut self, volume: VolumeId, geometry: Geometry) {
        self.geometries.insert(volume, Arc::new(geometry));
    }

    /// Returns the requests that wait for `volume`, oldest first, for a drive that recommends an
    /// order.
    pub fn waiting(&self, volume: VolumeId) -> Vec<(RequestId, Stop)> {
        let stop = |id: RequestId| (id, self.queue.request(id).source.stop);
        self.queue
            .lane(volume)
            .into_iter()
            .flat_map(|lane| lane.batch())
            .map(stop)
            .collect()
    }

    /// Takes the order that a drive recommends for the requests of its volume. The order is one
    /// candidate for the next plan, if that plan has the same requests.
    pub fn recommend(&mut self, volume: VolumeId, order: Vec<RequestId>) {
        if let Some(lane) = self.queue.lane_mut(volume) {
            lane.recommended = order;
            lane.plan.clear();
        }
    }

    /// Adds a waiter, to a new request or to the request of other waiters for the same object.
    ///
    /// If there are several copies, a new request waits for the copy that can be read first.
    pub fn request(&mut self, now: Duration, ask: Demand) -> Result<RequestId, Refusal> {
        assert!(!ask.sources.is_empty(), "a wanted object has a copy");
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

    /// Returns true if a request for the object waits or is being read.
    pub fn has_request(&self, object: ObjectId) -> bool {
        self.queue.of_object(object).is_some()
    }

    /// Returns true if a request waits for the volume.
    pub fn is_wanted(&self, volume: VolumeId) -> bool {
        self.queue.lane(volume).is_some()
    }

    /// Refuses an open if opens are not allowed, or if a budget of its waiter is spent.
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

    /// Returns the first volume of `sources`, none of which is available, and the reason.
    fn absence(&self, sources: &[Source]) -> (VolumeId, Absence) {
        let volume = sources[0].volume;
        (volume, self.absent.get(&volume).copied().unwrap_or(Absence::Missing))
    }

    /// Removes a waiter; returns true if it was still waiting. A read that has begun continues to
    /// its end.
    pub fn cancel(&mut self, waiter: WaiterId) -> bool {
        self.queue.cancel(waiter)
    }

    /// Reports that a drive is empty and ready: the drive is new, its mount has failed, or it has
    /// been repaired. A request that the drive was reading waits again.
    pub fn drive_free(&mut self, drive: DriveId) {
        if let Some(State::Reading { request, .. }) = self.drives.get(&drive).map(|d| d.state) {
            self.queue.put_back(request);
        }
        let fresh = Drive {
            state: State::Empty,
            head: 0,
            mounted: Duration::ZERO,
            bytes_read: 0,
            estimate_secs: 0.0,
            reach: Reach::Here,
            arrived: None,
        };
        self.drives.insert(drive, fresh);
    }

    /// Reports that `volume` was found in a drive that counts as empty. The caller makes it ready,
    /// and then reports [`Self::taken_over`].
    pub fn found(&mut self, now: Duration, id: DriveId, volume: VolumeId) {
        let drive = self.drive(id);
        assert!(drive.state == State::Empty, "a drive holds one volume");
        drive.state = State::Mounting { volume, since: now };
    }

    /// Reports that the volume that was found in a drive is ready at its load point. No mount was
    /// needed, so none is measured.
    pub fn taken_over(&mut self, now: Duration, id: DriveId) {
        self.stand_at_load_point(now, id);
    }

    /// Reports that the volume in a drive is ready at its load point.
    pub fn mounted(&mut self, now: Duration, id: DriveId) {
        let Some(since) = self.stand_at_load_point(now, id) else { return };
        let assumed_secs = self.config.timing.mount_secs();
        self.observe(Step::Mount, assumed_secs, now.saturating_sub(since));
    }

    /// Lets a drive wait for its first task with a volume. Returns the time at which the volume was
    /// asked for.
    fn stand_at_load_point(&mut self, now: Duration, id: DriveId) -> Option<Duration> {
        let drive = self.drive(id);
        let State::Mounting { volume, since } = drive.state else { return None };
        debug_assert!(now >= since, "the clock does not go back");
        (drive.head, drive.bytes_read, drive.mounted) = (0, 0, now);
        drive.state = State::Idle { volume, since: now };
        Some(since)
    }

    /// Reports that a drive has arrived at its stop and begins to read. Without this report, the
    /// read is not measured.
    pub fn arrived(&mut self, now: Duration, id: DriveId) {
        let drive = self.drive(id);
        if let State::Reading { since, .. } = drive.state {
            debug_assert!(now >= since, "the clock does not go back");
            drive.arrived = Some(now);
        }
    }

    /// Reports that the drive has read its whole request.
    pub fn finished(&mut self, now: Duration, id: DriveId) {
        let State::Reading { volume, request, .. } = self.drive(id).state else { return };
        self.measure_read(now, id);
        let stop = self.queue.request(request).source.stop;
        let drive = self.drive(id);
        drive.state = State::Idle { volume, since: now };
        drive.head = stop.end();
        drive.bytes_read = drive.bytes_read.saturating_add(stop.bytes);
        let served = self.queue.remove(request);
        if !served.waiters.is_empty() {
            let (object, waiters) = (served.object, served.waiters);
            self.actions.push(Action::Serve { request, object, waiters });
        }
    }

    /// Reports that the drive cannot read its request from this volume.
    pub fn read_failed(&mut self, now: Duration, drive: DriveId) {
        let drive = self.drive(drive);
        let State::Reading { volume, request, .. } = drive.state else { return };
        drive.state = State::Idle { volume, since: now };
        self.turn_away(now, request, true, Fault::Unreadable);
    }

    /// Reports that a drive has failed, in any state. The caller takes out the volume in it, by
    /// hand if necessary: the schedule asks for that only once.
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

    /// Reports that the volume is out of the drive. A drive that has failed gets no more work.
    pub fn dismounted(&mut self, drive: DriveId) {
        let drive = self.drive(drive);
        drive.state = match drive.state {
            State::Broken { .. } => State::Broken { volume: None },
            _ => State::Empty,
        };
    }

    /// Adds a loan, which waits for a drive to write `volume`.
    pub fn borrow(&mut self, now: Duration, id: LoanId, volume: VolumeId) {
        assert!(self.loans.iter().all(|loan| loan.id != id), "a loan's number is given once");
        self.loans.push_back(LoanRequest { id, volume, asked: now });
    }

    /// Cancels a loan; returns true if it was still waiting.
    pub fn withdraw(&mut self, id: LoanId) -> bool {
        let before = self.loans.len();
        self.loans.retain(|loan| loan.id != id);
        self.loans.len() < before
    }

    /// Cancels all loans of a volume that are still waiting; returns their numbers.
    pub fn withdraw_of(&mut self, volume: VolumeId) -> Vec<LoanId> {
        let (of_volume, others): (VecDeque<LoanRequest>, VecDeque<LoanRequest>) =
            self.loans.drain(..).partition(|loan| loan.volume == volume);
        self.loans = others;
        of_volume.into_iter().map(|loan| loan.id).collect()
    }

    /// Returns the reason why a volume is not available; `None` if it is available.
    pub fn absence_of(&self, volume: VolumeId) -> Option<Absence> {
        self.absent.get(&volume).copied()
    }

    /// Reports that a borrower has given the drive back. If `head` is given, the volume is still in
    /// the drive, at that address; otherwise the drive is empty.
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

    /// Reports that a volume is not available. Its waiters turn to other copies, or fail.
    pub fn volume_absent(&mut self, now: Duration, volume: VolumeId, absence: Absence) {
        self.absent.insert(volume, absence);
        let waiting = self.queue.lane(volume).map(|lane| lane.waiting.clone());
        for request in waiting.unwrap_or_default() {
            self.queue.take(request);
            self.turn_away(now, request, false, Fault::Unavailable { volume, absence });
        }
        debug_assert!(self.queue.lane(volume).is_none(), "nobody waits for an absent volume");
    }

    /// Reports that a volume is available again.
    pub fn volume_present(&mut self, volume: VolumeId) {
        self.absent.remove(&volume);
    }

    /// Puts a request that is in no queue into the queue of another copy, or fails its waiters if
    /// no copy is left.
    fn turn_away(&mut self, now: Duration, request: RequestId, failed: bool, fault: Fault) {
        debug_assert!(
            self.drives.values().all(|drive| !drive.is_reading(request)),
            "a request is not turned away while it is being read"
        );
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

    /// Adds the time of reading `source`, which has joined the queue of its volume, to the estimate
    /// of the volume's plan.
    fn lengthen(&mut self, source: Source) {
        let secs = self.timing.read_secs(source.stop.bytes);
        self.queue.lane_mut(source.volume).expect("the queue has a request").plan_secs += secs;
    }

    /// Measures the read that a drive has just ended, if its arrival was reported.
    fn measure_read(&mut self, now: Duration, id: DriveId) {
        let drive = self.drives[&id];
        let (State::Reading { volume, request, since }, Some(arrived)) =
            (drive.state, drive.arrived)
        else {
            return;
        };
        let stop = self.queue.request(request).source.stop;
        // If the schedule planned no locate, the drive chose its way itself: its time says nothing
        // about locates.
        if drive.reach == Reach::Locate {
            let geometry = self.geometry(volume);
            let (head, start) = (geometry.point(drive.head), geometry.point(stop.at));
            let assumed_secs = self.config.timing.locate.secs(&head, &start);
            self.observe(Step::Locate, assumed_secs, arrived.saturating_sub(since));
        }
        let assumed_secs = self.config.timing.read_secs(stop.bytes);
        self.observe(Step::Read, assumed_secs, now.saturating_sub(arrived));
    }

    /// Takes the measured time of a step. If that changes the timing, waiting requests are planned
    /// anew.
    fn observe(&mut self, step: Step, assumed_secs: f64, real: Duration) {
        if self.calibration.observe(step, assumed_secs, real.as_secs_f64()) {
            self.timing = self.config.timing.corrected(&self.calibration.correction());
            self.queue.drop_plans();
        }
    }

    /// Returns the factors between the assumed times and the measured times.
    pub fn correction(&self) -> Correction {
        self.calibration.correction()
    }

    /// Returns the time at which [`Self::actions`] has a new action even without another report.
    pub fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }

    fn drive(&mut self, drive: DriveId) -> &mut Drive {
        self.drives.get_mut(&drive).expect("a drive joins before it is named")
    }

    fn geometry(&self, volume: VolumeId) -> Arc<Geometry> {
        Arc::clone(self.geometries.get(&volume).unwrap_or(&self.geometry))
    }
}

#[cfg(test)]
mod tests;
