//! Carries out with real drives what a [`Schedule`] decides: one thread a drive.
//!
//! ```text
//!   ask, borrow --> schedule --actions--> thread of each drive --> reads, mounts, dismounts
//!                      ^                          |
//!                      +----- what has happened --+--> whoever waits
//! ```
//!
//! 1. The schedule is asked after everything that was reported, and when it wants to be.
//! 2. The schedule's lock is never held while anything moves; the robot's is held while it moves,
//!    and not while a drive loads, winds or reads.
//! 3. Whoever has asked or borrowed is told, whatever happens: drives that fail and volumes that
//!    cannot be read end in an answer.

mod drive;
mod stock;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use format::volume::{Label, Part, VolumeId as LabelId, VolumeName};

use crate::library::Library;
use crate::medium::Medium;
use crate::order::Stop;
use crate::schedule::{
    Absence, Action, Ask, DriveId, Forecast, Kind, LoanId, ObjectId, OwnerId, Preview, ProgramId,
    Refusal, Schedule, Source, VolumeId, Waiter, WaiterId,
};
use crate::scsi::TapeAlert;
use drive::Task;
use stock::Loaded;

pub use stock::Stock;

/// A volume as its owner knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// The owner's number for it.
    pub id: VolumeId,
    pub name: VolumeName,
    /// What its label says; `None` for one that is about to be labelled.
    pub label: Option<LabelId>,
    pub block_bytes: u32,
}

/// Where what is read goes; called with the part that comes.
pub type Deliver = Arc<dyn Fn(&Part) -> io::Result<Box<dyn Write + Send>> + Send + Sync>;

/// Something that is to be read.
pub struct Wanted {
    pub object: ObjectId,
    /// Where it can be read: each copy on a volume of its own.
    pub copies: Vec<(Known, Part)>,
    pub deliver: Deliver,
    /// Whether zeros do for what cannot be read.
    pub salvages: bool,
    pub kind: Kind,
    pub owner: OwnerId,
    pub program: ProgramId,
}

/// What became of something that somebody asked for; `Err` says why it cannot be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub object: ObjectId,
    pub result: Result<(), String>,
}

/// What the owner of the volumes should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The volume is not where it should be.
    Missing { volume: VolumeId, reason: String },
    /// Something on the volume cannot be read, or it is not what it should be.
    Damaged { volume: VolumeId, reason: String },
    /// The robot did not get a volume to this drive; the volume counts as missing until somebody
    /// says that it is present.
    RobotFailed { drive: u16, reason: String },
    /// The drive with this element address is not used any more.
    DriveFailed { drive: u16, reason: String },
    /// The drive has raised an alert.
    Alert { drive: u16, alert: TapeAlert },
}

/// Hears events; called by the threads of drives.
pub type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// What a drive is at, for show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownDrive {
    pub address: u16,
    pub volume: Option<VolumeName>,
    pub is_idle: bool,
    pub is_writing: bool,
    pub problem: Option<String>,
}

/// Why nobody gets a drive to write a volume.
#[derive(Debug, thiserror::Error)]
pub enum LoanError {
    /// It cannot be mounted. Take another one.
    #[error("volume {name} cannot be used: {reason}")]
    Volume { name: VolumeName, reason: String },
    /// It cannot be had now, for a reason that is known already.
    #[error("volume {name} is {absence}")]
    Absent { name: VolumeName, absence: Absence },
    /// The robot did not bring it. Try again later.
    #[error("the robot did not bring volume {name}: {reason}")]
    Robot { name: VolumeName, reason: String },
    /// Look after the drives.
    #[error("no drive works: {0}")]
    Drives(String),
    #[error("the library is being closed")]
    Closing,
}

struct Object {
    parts: BTreeMap<VolumeId, Part>,
    deliver: Deliver,
    salvages: bool,
    /// Why the last copy could not be read.
    failure: Option<String>,
}

struct State {
    schedule: Schedule,
    objects: BTreeMap<ObjectId, Object>,
    waiters: BTreeMap<WaiterId, (ObjectId, Sender<Outcome>)>,
    loans: BTreeMap<LoanId, Sender<Result<Lent, LoanError>>>,
    volumes: BTreeMap<VolumeId, Known>,
    /// Those that count as missing because the robot did not bring them.
    not_brought: BTreeSet<VolumeId>,
    drives: BTreeMap<DriveId, Bench>,
    /// Drives that work.
    working: usize,
    is_closing: bool,
}

/// A drive as the schedule's side sees it.
struct Bench {
    address: u16,
    tasks: Sender<Task>,
    volume: Option<(VolumeId, VolumeName)>,
    is_busy: bool,
    is_writing: bool,
    problem: Option<String>,
}

struct Shared {
    state: Mutex<State>,
    stock: Mutex<Stock>,
    wake: Condvar,
    started: Instant,
    listener: Listener,
    last_number: AtomicU64,
    is_closed: AtomicBool,
    counts_blocks: bool,
}

/// See the module. Dropping it leaves the volumes in their drives.
pub struct Operator {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Operator {
    /// Takes over `stock`, whose drives are used as `schedule` says.
    pub fn start(schedule: Schedule, stock: Stock, listener: Listener) -> io::Result<Self> {
        let drives = stock.drives();
        let counts_blocks = matches!(stock, Stock::Library(_));
        let state = State {
            schedule,
            objects: BTreeMap::new(),
            waiters: BTreeMap::new(),
            loans: BTreeMap::new(),
            volumes: BTreeMap::new(),
            not_brought: BTreeSet::new(),
            drives: BTreeMap::new(),
            working: drives.len(),
            is_closing: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            stock: Mutex::new(stock),
            wake: Condvar::new(),
            started: sys::clock::monotonic(),
            listener,
            last_number: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            counts_blocks,
        });
        let mut operator = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for (id, address) in (0..).map(DriveId).zip(drives) {
            operator.employ(id, address)?;
        }
        let timer = std::thread::Builder::new().name("tape-clock".to_owned());
        operator.threads.push(timer.spawn(move || shared.watch())?);
        Ok(operator)
    }

    fn employ(&mut self, id: DriveId, address: u16) -> io::Result<()> {
        let (tasks, orders) = channel();
        let bench = Bench {
            address,
            tasks,
            volume: None,
            is_busy: false,
            is_writing: false,
            problem: None,
        };
        {
            let mut state = self.shared.state();
            state.drives.insert(id, bench);
            state.schedule.drive_free(id);
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(format!("tape-drive-{address}"));
        let thread =
            thread.spawn(move || drive::Operated::new(shared, id, address).run(&orders))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Lets somebody wait for an object, who hears of it through `told`, once.
    pub fn ask(&self, wanted: Wanted, told: Sender<Outcome>) -> Result<WaiterId, Refusal> {
        let id = WaiterId(self.shared.number());
        let Wanted { object, copies, deliver, salvages, kind, owner, program } = wanted;
        let mut state = self.shared.state();
        let sources = copies.iter().map(|(known, part)| self.shared.source(known, part)).collect();
        let waiter = Waiter { id, owner, program, kind };
        let now = self.shared.now();
        let is_known = state.schedule.has_request(object);
        state.schedule.request(now, Ask { waiter, object, sources })?;
        let parts = copies.iter().map(|(known, part)| (known.id, *part)).collect();
        if !is_known {
            state.objects.insert(object, Object { parts, deliver, salvages, failure: None });
        }
        for (known, _) in copies {
            state.volumes.insert(known.id, known);
        }
        state.waiters.insert(id, (object, told));
        if state.working == 0 {
            state.give_up("all have failed");
        }
        self.shared.pump(state);
        Ok(id)
    }

    /// Takes back what somebody asked for; says whether he waited. He is not told any more.
    pub fn cancel(&self, waiter: WaiterId) -> bool {
        let mut state = self.shared.state();
        state.waiters.remove(&waiter);
        let waited = state.schedule.cancel(waiter);
        let State { objects, schedule, .. } = &mut *state;
        objects.retain(|object, _| schedule.has_request(*object));
        self.shared.pump(state);
        waited
    }

    /// When the waiter will be served; the time is from now.
    pub fn forecast(&self, waiter: WaiterId) -> Option<Forecast> {
        let now = self.shared.now();
        let forecast = self.shared.state().schedule.forecast(now, waiter)?;
        Some(Forecast { served_at: forecast.served_at.saturating_sub(now), ..forecast })
    }

    /// What reading these parts of a volume would take, and in which order they would be read.
    pub fn preview(&self, known: &Known, parts: &[Part]) -> Preview {
        let stops: Vec<Stop> =
            parts.iter().map(|part| self.shared.source(known, part).stop).collect();
        self.shared.state().schedule.preview(known.id, &stops)
    }

    /// Waits for a drive with the volume in it, for writing.
    pub fn borrow(&self, volume: &Known) -> Result<Lent, LoanError> {
        let id = LoanId(self.shared.number());
        let (told, answer) = channel();
        let mut state = self.shared.state();
        if state.is_closing {
            return Err(LoanError::Closing);
        }
        if state.working == 0 {
            return Err(LoanError::Drives("all have failed".to_owned()));
        }
        if let Some(absence) = state.schedule.absence_of(volume.id) {
            return Err(LoanError::Absent { name: volume.name.clone(), absence });
        }
        state.volumes.insert(volume.id, volume.clone());
        state.loans.insert(id, told);
        state.schedule.borrow(self.shared.now(), id, volume.id);
        self.shared.pump(state);
        answer.recv().unwrap_or(Err(LoanError::Closing))
    }

    /// Goes on with other limits, see [`Schedule::reconfigure`].
    pub fn configure(&self, drives_max: usize, retain: Duration, optimised_only: bool) {
        let mut state = self.shared.state();
        state.schedule.reconfigure(drives_max, retain, optimised_only);
        self.shared.pump(state);
    }

    /// The volume cannot be had any more; who waits for it turns to other copies, or is told.
    pub fn volume_absent(&self, volume: VolumeId, absence: Absence) {
        let mut state = self.shared.state();
        state.not_brought.remove(&volume);
        state.lose(self.shared.now(), volume, absence);
        self.shared.pump(state);
    }

    /// As [`Self::volume_absent`], and waits until no drive holds the volume any more; says whether
    /// that came in time.
    pub fn set_aside(&self, volume: &Known, absence: Absence, wait_max: Duration) -> bool {
        self.volume_absent(volume.id, absence);
        let end = self.shared.now() + wait_max;
        let mut state = self.shared.state();
        loop {
            let is_in =
                |bench: &Bench| bench.volume.as_ref().is_some_and(|(id, _)| *id == volume.id);
            if !state.drives.values().any(is_in) {
                return true;
            }
            let Some(left) = end.checked_sub(self.shared.now()) else { return false };
            let waited = self.shared.wake.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has the robot tried again with volumes that it did not bring.
    pub fn try_again(&self) {
        let mut state = self.shared.state();
        for volume in std::mem::take(&mut state.not_brought) {
            state.schedule.volume_present(volume);
        }
        self.shared.pump(state);
    }

    /// The volume is forgotten: its number does not come again.
    pub fn forget(&self, volume: VolumeId) {
        self.volume_absent(volume, Absence::Missing);
        self.shared.state().volumes.remove(&volume);
    }

    /// The volume can be had again.
    pub fn volume_present(&self, volume: VolumeId) {
        let mut state = self.shared.state();
        state.schedule.volume_present(volume);
        self.shared.pump(state);
    }

    /// Has `work` done with the library; the drives go on with what they are at. `None` for a
    /// folder.
    pub fn with_library<T>(&self, work: impl FnOnce(&mut Library) -> T) -> Option<T> {
        match &mut *self.shared.stock() {
            Stock::Library(library) => Some(work(library)),
            Stock::Folder { .. } => None,
        }
    }

    /// The same with all that there is.
    pub fn with_stock<T>(&self, work: impl FnOnce(&mut Stock) -> T) -> T {
        work(&mut self.shared.stock())
    }

    /// The drive has been looked after, and is used again.
    pub fn restore_drive(&self, address: u16) -> bool {
        self.with_library(|library| library.restore_to_service(address));
        let mut state = self.shared.state();
        let is_it = |(_, bench): &(&DriveId, &mut Bench)| {
            bench.address == address && bench.problem.is_some()
        };
        let Some((id, bench)) = state.drives.iter_mut().find(is_it) else { return false };
        let id = *id;
        bench.problem = None;
        state.working += 1;
        state.schedule.drive_free(id);
        self.shared.pump(state);
        true
    }

    /// What the drives are at.
    pub fn drives(&self) -> Vec<ShownDrive> {
        let state = self.shared.state();
        let shown = |bench: &Bench| ShownDrive {
            address: bench.address,
            volume: bench.volume.as_ref().map(|(_, name)| name.clone()),
            is_idle: !bench.is_busy,
            is_writing: bench.is_writing,
            problem: bench.problem.clone(),
        };
        state.drives.values().map(shown).collect()
    }

    /// Whether the schedule has a drive to use.
    pub fn has_drives(&self) -> bool {
        self.shared.state().working > 0
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.is_closing = true;
            for bench in state.drives.values() {
                // A thread that is gone needs no telling.
                drop(bench.tasks.send(Task::Stop));
            }
            state.loans.clear();
            state.waiters.clear();
        }
        self.shared.is_closed.store(true, Ordering::Release);
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // What it died of has been said.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The address of a position: bytes before it.
    fn address(&self, block_bytes: u32, position: u64) -> u64 {
        if self.counts_blocks { position.saturating_mul(block_bytes.into()) } else { position }
    }

    fn source(&self, known: &Known, part: &Part) -> Source {
        let at = self.address(known.block_bytes, part.position);
        Source { volume: known.id, stop: Stop { at, bytes: part.bytes } }
    }

    /// Has the schedule's decisions carried out.
    fn pump(&self, mut state: MutexGuard<'_, State>) {
        let now = self.now();
        for action in state.schedule.actions(now) {
            state.carry_out(action);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Asks the schedule when it wants to be asked, until the operator is dropped.
    fn watch(&self) {
        let mut state = self.state();
        while !self.is_closed.load(Ordering::Acquire) {
            let now = self.now();
            let wake_at = state.schedule.wake_at();
            if wake_at.is_some_and(|at| at <= now) {
                self.pump(state);
                state = self.state();
                continue;
            }
            let pause = wake_at.map_or(Duration::from_secs(3600), |at| at - now);
            let waited = self.wake.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell(&self, event: Event) {
        (self.listener)(event);
    }
}

impl State {
    /// A volume cannot be had: whoever waits for it to read or to write is told, or served
    /// elsewhere.
    fn lose(&mut self, now: Duration, volume: VolumeId, absence: Absence) {
        self.schedule.volume_absent(now, volume, absence);
        let Some(known) = self.volumes.get(&volume) else { return };
        let name = known.name.clone();
        for loan in self.schedule.withdraw_of(volume) {
            if let Some(told) = self.loans.remove(&loan) {
                // Who does not listen any more does not mind.
                drop(told.send(Err(LoanError::Absent { name: name.clone(), absence })));
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Mount { drive, volume } => {
                let known = self.volumes[&volume].clone();
                self.send(drive, Task::Mount(known));
            }
            Action::Read { drive, object, .. } => self.read(drive, object),
            Action::Dismount { drive, .. } => self.send(drive, Task::Dismount),
            Action::Lend { drive, loan, volume, .. } => {
                let known = self.volumes[&volume].clone();
                match self.loans.remove(&loan) {
                    Some(told) => self.send(drive, Task::Lend { known, told }),
                    None => self.send(drive, Task::Decline),
                }
            }
            Action::Serve { object, waiters, .. } => {
                self.objects.remove(&object);
                self.answer(object, &waiters, &Ok(()));
            }
            Action::Fail { object, waiters, fault } => {
                let gone = self.objects.remove(&object);
                let reason = gone.and_then(|object| object.failure);
                let reason = reason.unwrap_or_else(|| self.explained(&fault.to_string(), fault));
                self.answer(object, &waiters, &Err(reason));
            }
        }
    }

    /// The fault with the volume's name instead of its number.
    fn explained(&self, text: &str, fault: crate::schedule::Fault) -> String {
        let crate::schedule::Fault::Unavailable { volume, absence } = fault else {
            return text.to_owned();
        };
        let known = self.volumes.get(&volume);
        known.map_or_else(|| text.to_owned(), |known| format!("volume {} is {absence}", known.name))
    }

    fn read(&mut self, drive: DriveId, object: ObjectId) {
        let volume = self.drives[&drive].volume.as_ref().map(|(id, _)| *id);
        let wanted = self.objects.get(&object);
        let part = volume.zip(wanted).and_then(|(volume, wanted)| {
            let how = (Arc::clone(&wanted.deliver), wanted.salvages);
            Some((*wanted.parts.get(&volume)?, how))
        });
        match part {
            Some((part, how)) => self.send(drive, Task::Read { object, part, how }),
            // Nobody wants it any more, or not from here.
            None => self.send(drive, Task::Skip),
        }
    }

    fn send(&mut self, drive: DriveId, task: Task) {
        let bench = self.drives.get_mut(&drive).expect("a drive of this library");
        bench.is_busy = true;
        bench.is_writing = matches!(task, Task::Lend { .. });
        // A thread that is gone has ended because the library is being closed.
        drop(bench.tasks.send(task));
    }

    fn answer(&mut self, object: ObjectId, waiters: &[Waiter], result: &Result<(), String>) {
        for waiter in waiters {
            if let Some((_, told)) = self.waiters.remove(&waiter.id) {
                // Who does not listen any more does not mind.
                drop(told.send(Outcome { object, result: result.clone() }));
            }
        }
    }
}

/// A drive with a volume, lent for writing. It goes back when it is dropped, the volume in it.
pub struct Lent {
    shared: Arc<Shared>,
    drive: DriveId,
    loaded: Option<Loaded>,
    /// What the label says; `None` for a volume that is about to be labelled.
    pub label: Option<Label>,
    /// What the drive has failed with.
    failure: Option<String>,
}

impl Lent {
    pub fn medium(&mut self) -> &mut dyn Medium {
        self.loaded.as_mut().expect("it is here until it is dropped").medium()
    }

    /// Tells while the medium is in use whether somebody else needs the drive or the volume.
    pub fn watch(&self) -> Watch {
        Watch { shared: Arc::clone(&self.shared), drive: self.drive }
    }

    /// The volume has another label now.
    pub fn relabelled(&mut self, label: Label) {
        self.label = Some(label);
    }

    /// The drive has failed: it is not used any more.
    pub fn blame_drive(&mut self, reason: &str) {
        self.failure = Some(reason.to_owned());
    }
}

/// See [`Lent::watch`].
pub struct Watch {
    shared: Arc<Shared>,
    drive: DriveId,
}

impl Watch {
    pub fn is_wanted_back(&self) -> bool {
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.is_closing || state.schedule.is_wanted_back(now, self.drive)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(loaded) = self.loaded.take() else { return };
        let state = self.shared.state();
        let task = Task::TakeBack {
            loaded,
            label: self.label.take().map(Box::new),
            failure: self.failure.take(),
        };
        // A thread that is gone has left the library to itself.
        drop(state.drives[&self.drive].tasks.send(task));
    }
}
