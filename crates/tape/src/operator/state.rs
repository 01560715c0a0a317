//! The state that an operator shares with the threads of its drives, and loans of drives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use format::volume::{Label, Part, VolumeName};
use sys::lock::{Condvar, Mutex, MutexGuard};

use super::request::{
    Event, Listener, LoanError, Outcome, ReadError, ReadRequest, SinkOpener, VolumeRef,
};
use super::stock::{OpenVolume, Stock};
use crate::library::Lines;
use crate::line::Outage;
use crate::medium::Medium;
use crate::order::Stop;
use crate::schedule::{
    Absence, Action, DriveId, Fault, LoanId, ObjectId, Schedule, Source, VolumeId, Waiter, WaiterId,
};

/// Maximum sleep of the clock thread, which asks the schedule for actions when they are due.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// A task of a drive's thread.
pub(super) enum Task {
    Mount(VolumeRef),
    /// Makes ready a volume that was found in the drive.
    Identify(VolumeRef),
    Read {
        object: ObjectId,
        part: Part,
        deliver: SinkOpener,
        salvages: bool,
    },
    /// Nothing is read, because the wanted object has no waiter any more.
    Skip,
    Dismount,
    Lend {
        volume: VolumeRef,
        borrower: Borrower,
    },
    /// Nothing is lent, because the borrower has gone.
    Decline,
    TakeBack {
        opened: OpenVolume,
        label: Option<Box<Label>>,
        failure: Option<String>,
    },
    Stop,
}

/// Channel to a borrower. It carries one message: the loan, or its refusal.
pub(super) type Borrower = Sender<Result<Loan, LoanError>>;

/// An object that is wanted.
pub(super) struct WantedObject {
    parts: BTreeMap<VolumeId, Part>,
    deliver: SinkOpener,
    salvages: bool,
    /// Reason why the last copy could not be read.
    pub(super) failure: Option<String>,
}

/// A listener for the outcome of an object. It gets one message.
struct OutcomeListener {
    object: ObjectId,
    answer: Sender<Outcome>,
}

/// The operator's state of one drive.
pub(super) struct Bench {
    /// Element address of the drive.
    pub(super) address: u16,
    pub(super) tasks: Sender<Task>,
    pub(super) volume: Option<(VolumeId, VolumeName)>,
    pub(super) is_busy: bool,
    pub(super) is_writing: bool,
    /// Reason why the drive is not used, if it has failed.
    pub(super) problem: Option<String>,
    /// True if the drive failed only because its line was away.
    pub(super) is_away: bool,
    /// Number of errors at the drive since the library was opened.
    pub(super) errors: u64,
}

/// The schedule, and everybody who waits for its decisions.
pub(super) struct State {
    pub(super) schedule: Schedule,
    pub(super) objects: BTreeMap<ObjectId, WantedObject>,
    waiters: BTreeMap<WaiterId, OutcomeListener>,
    loans: BTreeMap<LoanId, Borrower>,
    pub(super) volumes: BTreeMap<VolumeId, VolumeRef>,
    /// Volumes that count as missing because the changer did not bring them.
    pub(super) not_brought: BTreeSet<VolumeId>,
    pub(super) drives: BTreeMap<DriveId, Bench>,
    /// Number of drives that work.
    pub(super) working: usize,
    pub(super) is_closing: bool,
}

/// State that an operator shares with its threads.
pub(super) struct SharedState {
    state: Mutex<State>,
    stock: Mutex<Stock>,
    wake: Condvar,
    started: Instant,
    listener: Listener,
    last_number: AtomicU64,
    is_closed: AtomicBool,
    counts_blocks: bool,
    lines: Lines,
}

impl SharedState {
    pub(super) fn new(schedule: Schedule, stock: Stock, listener: Listener) -> Self {
        let counts_blocks = matches!(stock, Stock::Library(_));
        let lines = stock.lines();
        Self {
            state: Mutex::new(State::new(schedule, stock.drives().len())),
            stock: Mutex::new(stock),
            wake: Condvar::new(),
            started: sys::clock::monotonic(),
            listener,
            last_number: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            counts_blocks,
            lines,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock()
    }

    /// Returns the stock unless the changer is busy.
    pub(super) fn idle_stock(&self) -> Option<MutexGuard<'_, Stock>> {
        self.stock.try_lock()
    }

    /// Returns the absence of the line to the changer; `None` while it is whole.
    pub(super) fn outage(&self) -> Option<Outage> {
        self.lines.changer.as_ref()?.outage()
    }

    /// Returns the absence of the line to the drive with this element address.
    pub(super) fn outage_of(&self, drive: u16) -> Option<Outage> {
        self.lines.drives.get(&drive)?.outage()
    }

    /// Returns the time since the operator was started.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns a number that was never returned before.
    pub(super) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the address of a position: the number of bytes before it.
    pub(super) fn address(&self, block_bytes: u32, position: u64) -> u64 {
        if self.counts_blocks { position.saturating_mul(block_bytes.into()) } else { position }
    }

    pub(super) fn source(&self, volume: &VolumeRef, part: &Part) -> Source {
        let at = self.address(volume.block_bytes, part.position);
        Source { volume: volume.id, stop: Stop { at, bytes: part.bytes } }
    }

    /// Makes the threads carry out the schedule's decisions.
    pub(super) fn pump(&self, mut state: MutexGuard<'_, State>) {
        let now = self.now();
        for action in state.schedule.actions(now) {
            state.carry_out(action);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Waits until another thread changes the state, for at most `pause`.
    pub(super) fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        pause: Duration,
    ) -> MutexGuard<'a, State> {
        self.wake.wait_timeout(state, pause)
    }

    /// Asks the schedule for actions when they are due, until the operator is closed.
    pub(super) fn watch(&self) {
        let mut state = self.state();
        while !self.is_closed.load(Ordering::Acquire) {
            let now = self.now();
            let wake_at = state.schedule.wake_at();
            if wake_at.is_some_and(|at| at <= now) {
                self.pump(state);
                state = self.state();
                continue;
            }
            let pause = wake_at.map_or(PAUSE_MAX, |at| at - now);
            state = self.wait(state, pause);
        }
    }

    /// Tells all threads to end: the threads of the drives, and the clock thread.
    pub(super) fn close(&self) {
        {
            let mut state = self.state();
            state.is_closing = true;
            for bench in state.drives.values() {
                // A thread that has ended needs no task.
                drop(bench.tasks.send(Task::Stop));
            }
            state.loans.clear();
            state.waiters.clear();
        }
        self.is_closed.store(true, Ordering::Release);
        self.lines
            .drives
            .values()
            .chain(&self.lines.changer)
            .for_each(|line| line.close());
        self.wake.notify_all();
    }

    pub(super) fn tell(&self, event: Event) {
        (self.listener)(event);
    }
}

impl State {
    fn new(schedule: Schedule, drive_count: usize) -> Self {
        Self {
            schedule,
            objects: BTreeMap::new(),
            waiters: BTreeMap::new(),
            loans: BTreeMap::new(),
            volumes: BTreeMap::new(),
            not_brought: BTreeSet::new(),
            drives: BTreeMap::new(),
            working: drive_count,
            is_closing: false,
        }
    }

    /// Adds a waiter for an object that the schedule has accepted.
    pub(super) fn add_waiter(
        &mut self,
        id: WaiterId,
        request: ReadRequest,
        answer: Sender<Outcome>,
    ) {
        let ReadRequest { object, copies, deliver, salvages, .. } = request;
        debug_assert!(self.schedule.has_request(object), "the schedule has the request");
        let parts = copies.iter().map(|(volume, part)| (volume.id, *part)).collect();
        self.objects.entry(object).or_insert(WantedObject {
            parts,
            deliver,
            salvages,
            failure: None,
        });
        for (volume, _) in copies {
            self.volumes.insert(volume.id, volume);
        }
        let before = self.waiters.insert(id, OutcomeListener { object, answer });
        assert!(before.is_none(), "a waiter's number is new");
        if self.working == 0 {
            let reason = self.reason_of_failure();
            self.give_up(&reason);
        }
    }

    /// Lets the thread of an empty drive make a volume ready that was found there.
    pub(super) fn take_over(&mut self, now: Duration, drive: DriveId, volume: VolumeRef) {
        self.schedule.found(now, drive, volume.id);
        self.volumes.insert(volume.id, volume.clone());
        self.send(drive, Task::Identify(volume));
    }

    /// Removes a waiter; returns true if it was still waiting.
    pub(super) fn remove_waiter(&mut self, id: WaiterId) -> bool {
        self.waiters.remove(&id);
        let has_waited = self.schedule.cancel(id);
        let Self { objects, schedule, .. } = self;
        objects.retain(|object, _| schedule.has_request(*object));
        has_waited
    }

    /// Adds a borrower that waits for a drive with the volume in it.
    pub(super) fn add_loan(
        &mut self,
        now: Duration,
        id: LoanId,
        volume: VolumeId,
        borrower: Borrower,
    ) {
        assert!(self.volumes.contains_key(&volume), "a volume is known before it is lent");
        let before = self.loans.insert(id, borrower);
        assert!(before.is_none(), "a loan's number is new");
        self.schedule.borrow(now, id, volume);
    }

    /// Reports that a volume is not available: its waiters fail, or get another copy.
    pub(super) fn lose(&mut self, now: Duration, volume: VolumeId, absence: Absence) {
        self.schedule.volume_absent(now, volume, absence);
        let Some(known) = self.volumes.get(&volume) else { return };
        let name = known.name.clone();
        for loan in self.schedule.withdraw_of(volume) {
            if let Some(borrower) = self.loans.remove(&loan) {
                // A borrower that has gone needs no answer.
                drop(borrower.send(Err(LoanError::Absent { name: name.clone(), absence })));
            }
        }
    }

    /// Returns why no drive works, in the words of the first drive.
    pub(super) fn reason_of_failure(&self) -> String {
        let first = self.drives.values().find_map(|bench| bench.problem.as_deref());
        first.unwrap_or("all drives have failed").to_owned()
    }

    /// Fails all waiters and all loans, because no drive works.
    pub(super) fn give_up(&mut self, reason: &str) {
        assert_eq!(self.working, 0, "working drives serve the waiters");
        for (loan, borrower) in std::mem::take(&mut self.loans) {
            self.schedule.withdraw(loan);
            // A borrower that has gone needs no answer.
            drop(borrower.send(Err(LoanError::Drives(reason.to_owned()))));
        }
        for (waiter, OutcomeListener { object, answer }) in std::mem::take(&mut self.waiters) {
            self.schedule.cancel(waiter);
            let result = Err(ReadError::NoDrive(reason.to_owned()));
            // A waiter that has gone needs no answer.
            drop(answer.send(Outcome { object, result }));
        }
        self.objects.clear();
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Mount { drive, volume } => {
                let volume = self.volumes[&volume].clone();
                self.send(drive, Task::Mount(volume));
            }
            Action::Read { drive, object, .. } => self.read(drive, object),
            Action::Dismount { drive, .. } => self.send(drive, Task::Dismount),
            Action::Lend { drive, loan, volume, .. } => {
                let volume = self.volumes[&volume].clone();
                match self.loans.remove(&loan) {
                    Some(borrower) => self.send(drive, Task::Lend { volume, borrower }),
                    None => self.send(drive, Task::Decline),
                }
            }
            Action::Serve { object, waiters, .. } => {
                self.objects.remove(&object);
                self.answer(object, &waiters, &Ok(()));
            }
            Action::Fail { object, waiters, fault } => {
                let gone = self.objects.remove(&object);
                let error = match gone.and_then(|object| object.failure) {
                    Some(reason) => ReadError::Unreadable(reason),
                    None => self.read_error(fault),
                };
                self.answer(object, &waiters, &Err(error));
            }
        }
    }

    /// Converts a fault to an error that has the name of the volume instead of its number.
    fn read_error(&self, fault: Fault) -> ReadError {
        if let Fault::Unavailable { volume, absence } = fault
            && let Some(volume) = self.volumes.get(&volume)
        {
            return ReadError::Absent { name: volume.name.clone(), absence };
        }
        ReadError::Unreadable(fault.to_string())
    }

    fn read(&mut self, drive: DriveId, object: ObjectId) {
        let volume = self.drives[&drive].volume.as_ref().map(|(id, _)| *id);
        let wanted = self.objects.get(&object);
        let task = volume.zip(wanted).and_then(|(volume, wanted)| {
            let part = *wanted.parts.get(&volume)?;
            let (deliver, salvages) = (Arc::clone(&wanted.deliver), wanted.salvages);
            Some(Task::Read { object, part, deliver, salvages })
        });
        self.send(drive, task.unwrap_or(Task::Skip));
    }

    fn send(&mut self, drive: DriveId, task: Task) {
        let bench = self.drives.get_mut(&drive).expect("a drive of this library");
        bench.is_busy = true;
        bench.is_writing = matches!(task, Task::Lend { .. });
        // A thread that does not listen has ended because the library is being closed.
        drop(bench.tasks.send(task));
    }

    /// Counts an error at the drive.
    pub(super) fn count_error(&mut self, drive: DriveId) {
        self.drives.get_mut(&drive).expect("a drive of this library").errors += 1;
    }

    fn answer(&mut self, object: ObjectId, waiters: &[Waiter], result: &Result<(), ReadError>) {
        for waiter in waiters {
            if let Some(waiting) = self.waiters.remove(&waiter.id) {
                debug_assert_eq!(waiting.object, object, "a waiter waits for one object");
                // A waiter that has gone needs no answer.
                drop(waiting.answer.send(Outcome { object, result: result.clone() }));
            }
        }
    }
}

/// A drive with a volume, lent for writing. Dropping the loan gives the drive back, with the volume
/// in it.
pub struct Loan {
    shared: Arc<SharedState>,
    drive: DriveId,
    opened: Option<OpenVolume>,
    /// The volume's label; `None` for a volume that is about to be labelled.
    pub label: Option<Label>,
    /// Reason why the drive has failed, if the borrower has reported a failure.
    failure: Option<String>,
}

impl Loan {
    pub(super) fn new(
        shared: Arc<SharedState>,
        drive: DriveId,
        opened: OpenVolume,
        label: Option<Label>,
    ) -> Self {
        Self { shared, drive, opened: Some(opened), label, failure: None }
    }

    pub fn medium(&mut self) -> &mut dyn Medium {
        self.opened
            .as_mut()
            .expect("a loan has its volume until it is dropped")
            .medium()
    }

    /// Returns a watch that can be asked while the medium is in use.
    pub fn watch(&self) -> Watch {
        Watch { shared: Arc::clone(&self.shared), drive: self.drive }
    }

    /// Notes that the volume has another label now.
    pub fn relabelled(&mut self, label: Label) {
        self.label = Some(label);
    }

    /// Counts an error of the volume at the drive that writes it.
    pub fn count_error(&self) {
        self.shared.state().count_error(self.drive);
    }

    /// Notes that the drive has failed: it is not used any more.
    pub fn blame_drive(&mut self, reason: &str) {
        self.failure = Some(reason.to_owned());
    }
}

/// Watch that tells a borrower whether the loan is wanted back.
pub struct Watch {
    shared: Arc<SharedState>,
    drive: DriveId,
}

impl Watch {
    /// Returns true if another request needs the drive or the volume, or the library is being
    /// closed.
    pub fn is_wanted_back(&self) -> bool {
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.is_closing || state.schedule.is_wanted_back(now, self.drive)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(opened) = self.opened.take() else { return };
        let state = self.shared.state();
        let task = Task::TakeBack {
            opened,
            label: self.label.take().map(Box::new),
            failure: self.failure.take(),
        };
        // A thread that has ended needs no drive.
        drop(state.drives[&self.drive].tasks.send(task));
    }
}
