//! The operator carries out the actions of a [`Schedule`] with real drives. Each drive has a
//! thread.
//!
//! ```text
//!   ask, borrow --> schedule --actions--> thread of each drive --> reads, mounts, dismounts
//!                      ^                          |
//!                      +--------- reports --------+--> outcomes, loans
//! ```
//!
//! 1. The schedule is asked for actions after each report, and at the times that it has named.
//! 2. The lock of the schedule is never held while anything moves. The lock of the library is held
//!    while the changer moves, but not while a drive loads, winds or reads.
//! 3. Every request and every loan gets an answer, even if drives fail or volumes cannot be read.
//! 4. Times of mounts, locates and reads are reported to the schedule, which learns from them.

mod drive;
mod request;
mod state;
mod stock;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use format::volume::Part;
use sys::fault::ProcessEnd;

use self::drive::DriveThread;
use self::state::{Bench, SharedState};
use crate::library::{Library, LibraryError};
use crate::line::Outage;
use crate::order::Stop;
use crate::schedule::{
    Absence, Demand, DriveId, Forecast, LoanId, Preview, Refusal, Schedule, VolumeId, Waiter,
    WaiterId,
};

pub use request::{
    DriveStatus, Event, Listener, LoanError, Outcome, ReadError, ReadRequest, SinkOpener, VolumeRef,
};
pub use state::{Loan, Watch};
pub use stock::Stock;

/// Operator of one library. When it is dropped, the volumes stay in their drives.
pub struct Operator {
    shared: Arc<SharedState>,
    threads: Vec<JoinHandle<()>>,
}

impl Operator {
    /// Starts an operator for `stock`, whose drives are used according to `schedule`.
    pub fn start(schedule: Schedule, stock: Stock, listener: Listener) -> io::Result<Self> {
        let drives = stock.drives();
        let shared = Arc::new(SharedState::new(schedule, stock, listener));
        let mut operator = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for (id, address) in (0..).map(DriveId).zip(drives) {
            operator.employ(id, address)?;
        }
        let timer = std::thread::Builder::new().name("tape-clock".to_owned());
        let watch = move || {
            let _guard = ProcessEnd;
            shared.watch();
        };
        operator.threads.push(timer.spawn(watch)?);
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
            is_away: false,
            errors: 0,
        };
        {
            let mut state = self.shared.state();
            state.drives.insert(id, bench);
            state.schedule.drive_free(id);
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(format!("tape-drive-{address}"));
        let work = move || {
            // The waiters of the drive's objects would wait for ever.
            let _guard = ProcessEnd;
            DriveThread::new(shared, id, address).run(&orders);
        };
        self.threads.push(thread.spawn(work)?);
        Ok(())
    }

    /// Takes over those of the volumes `known` that are in drives already, because an earlier
    /// process has left them there. They are used where they are, after their labels were checked.
    pub fn take_over(&self, known: &[VolumeRef]) -> Result<(), LibraryError> {
        let in_drives = self.shared.stock().in_drives()?;
        let mut state = self.shared.state();
        for (address, name) in in_drives {
            let is_free = |(_, bench): &(&DriveId, &Bench)| {
                bench.address == address && bench.problem.is_none() && !bench.is_busy
            };
            let drive = state.drives.iter().find(is_free).map(|(id, _)| *id);
            let volume = known.iter().find(|volume| volume.name == name);
            let (Some(drive), Some(volume)) = (drive, volume) else { continue };
            if state.schedule.absence_of(volume.id).is_none() {
                state.take_over(self.shared.now(), drive, volume.clone());
            }
        }
        self.shared.pump(state);
        Ok(())
    }

    /// Adds a waiter for an object. One outcome is sent to `answer`.
    pub fn ask(&self, request: ReadRequest, answer: Sender<Outcome>) -> Result<WaiterId, Refusal> {
        assert!(!request.copies.is_empty(), "a wanted object has a copy");
        let id = WaiterId(self.shared.number());
        let ReadRequest { object, kind, owner, program, .. } = request;
        let mut state = self.shared.state();
        let source = |(volume, part): &(VolumeRef, Part)| self.shared.source(volume, part);
        let sources = request.copies.iter().map(source).collect();
        let waiter = Waiter { id, owner, program, kind };
        let now = self.shared.now();
        let is_wanted = state.schedule.has_request(object);
        state.schedule.request(now, Demand { waiter, object, sources })?;
        if !is_wanted {
            // An entry may be left from a request that was cancelled while it was being read.
            state.objects.remove(&object);
        }
        state.add_waiter(id, request, answer);
        self.shared.pump(state);
        Ok(id)
    }

    /// Cancels a waiter: its answer is never sent. Returns true if it was still waiting.
    pub fn cancel(&self, waiter: WaiterId) -> bool {
        let mut state = self.shared.state();
        let has_waited = state.remove_waiter(waiter);
        self.shared.pump(state);
        has_waited
    }

    /// Returns the forecast of a waiter; its time counts from now.
    pub fn forecast(&self, waiter: WaiterId) -> Option<Forecast> {
        let now = self.shared.now();
        let forecast = self.shared.state().schedule.forecast(now, waiter)?;
        Some(Forecast { served_at: forecast.served_at.saturating_sub(now), ..forecast })
    }

    /// Returns the order in which these parts of a volume would be read, and the time that this
    /// takes.
    pub fn preview(&self, volume: &VolumeRef, parts: &[Part]) -> Preview {
        let stops: Vec<Stop> =
            parts.iter().map(|part| self.shared.source(volume, part).stop).collect();
        self.shared.state().schedule.preview(volume.id, &stops)
    }

    /// Waits for a drive, and borrows it with the volume in it for writing.
    pub fn borrow(&self, volume: &VolumeRef) -> Result<Loan, LoanError> {
        let id = LoanId(self.shared.number());
        let (borrower, answer) = channel();
        let mut state = self.shared.state();
        if state.is_closing {
            return Err(LoanError::Closing);
        }
        if state.working == 0 {
            return Err(LoanError::Drives(state.reason_of_failure()));
        }
        if let Some(absence) = state.schedule.absence_of(volume.id) {
            return Err(LoanError::Absent { name: volume.name.clone(), absence });
        }
        state.volumes.insert(volume.id, volume.clone());
        state.add_loan(self.shared.now(), id, volume.id, borrower);
        self.shared.pump(state);
        answer.recv().unwrap_or(Err(LoanError::Closing))
    }

    /// Changes limits of the schedule while the operator works; see [`Schedule::reconfigure`].
    pub fn configure(&self, drives_max: usize, retain: Duration, optimised_only: bool) {
        let mut state = self.shared.state();
        state.schedule.reconfigure(drives_max, retain, optimised_only);
        self.shared.pump(state);
    }

    /// Reports that the volume is not available any more. Requests for it turn to other copies, or
    /// fail.
    pub fn volume_absent(&self, volume: VolumeId, absence: Absence) {
        let mut state = self.shared.state();
        state.not_brought.remove(&volume);
        state.lose(self.shared.now(), volume, absence);
        self.shared.pump(state);
    }

    /// Does the same as [`Self::volume_absent`], and then waits until no drive holds the volume any
    /// more. Returns false if that takes longer than `wait_max`.
    pub fn set_aside(&self, volume: &VolumeRef, absence: Absence, wait_max: Duration) -> bool {
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
            state = self.shared.wait(state, left);
        }
    }

    /// Lets the changer try again to bring the volumes that it failed to bring to a drive. Uses
    /// drives again whose lines were away and are whole.
    pub fn try_again(&self) {
        let is_back = |bench: &&Bench| {
            bench.is_away
                && bench.problem.is_some()
                && self.shared.outage_of(bench.address).is_none()
        };
        let back: Vec<u16> =
            self.shared.state().drives.values().filter(is_back).map(|b| b.address).collect();
        for drive in back {
            self.restore_drive(drive);
        }
        let mut state = self.shared.state();
        for volume in std::mem::take(&mut state.not_brought) {
            state.schedule.volume_present(volume);
        }
        self.shared.pump(state);
    }

    /// Forgets a volume. Its number is never used again.
    pub fn forget(&self, volume: VolumeId) {
        self.volume_absent(volume, Absence::Missing);
        self.shared.state().volumes.remove(&volume);
    }

    /// Reports that the volume is available again.
    pub fn volume_present(&self, volume: VolumeId) {
        let mut state = self.shared.state();
        state.schedule.volume_present(volume);
        self.shared.pump(state);
    }

    /// Calls `work` with the library while the drives continue to work; returns `None` for a
    /// folder.
    pub fn with_library<T>(&self, work: impl FnOnce(&mut Library) -> T) -> Option<T> {
        match &mut *self.shared.stock() {
            Stock::Library(library) => Some(work(library)),
            Stock::Folder { .. } => None,
        }
    }

    /// Calls `work` with the library unless the changer is busy; returns `None` for a folder too.
    pub fn with_idle_library<T>(&self, work: impl FnOnce(&mut Library) -> T) -> Option<T> {
        match &mut *self.shared.idle_stock()? {
            Stock::Library(library) => Some(work(library)),
            Stock::Folder { .. } => None,
        }
    }

    /// Calls `work` with the library or folder.
    pub fn with_stock<T>(&self, work: impl FnOnce(&mut Stock) -> T) -> T {
        work(&mut self.shared.stock())
    }

    /// Takes a repaired drive into use again, with the volume that is in it; returns true if the
    /// drive had failed.
    pub fn restore_drive(&self, address: u16) -> bool {
        self.with_library(|library| library.restore_to_service(address));
        // Without an answer of the changer, the next mount finds the volume in the drive.
        let in_drives = self.shared.stock().in_drives().unwrap_or_default();
        let found = in_drives.into_iter().find(|(drive, _)| *drive == address);
        let mut state = self.shared.state();
        let is_it = |(_, bench): &(&DriveId, &mut Bench)| {
            bench.address == address && bench.problem.is_some()
        };
        let Some((id, bench)) = state.drives.iter_mut().find(is_it) else { return false };
        let id = *id;
        (bench.problem, bench.is_away) = (None, false);
        state.working += 1;
        state.schedule.drive_free(id);
        let known = found.and_then(|(_, name)| {
            state.volumes.values().find(|volume| volume.name == name).cloned()
        });
        if let Some(volume) = known.filter(|volume| state.schedule.absence_of(volume.id).is_none())
        {
            state.take_over(self.shared.now(), id, volume);
        }
        self.shared.pump(state);
        true
    }

    /// Returns the state of each drive.
    pub fn drives(&self) -> Vec<DriveStatus> {
        let state = self.shared.state();
        let shown = |bench: &Bench| DriveStatus {
            address: bench.address,
            volume: bench.volume.as_ref().map(|(_, name)| name.clone()),
            is_idle: !bench.is_busy,
            is_writing: bench.is_writing,
            problem: bench.problem.clone(),
            errors: bench.errors,
            outage: self.shared.outage_of(bench.address),
        };
        state.drives.values().map(shown).collect()
    }

    /// Returns the absence of the line to the changer; `None` while it is whole. The line is made
    /// again by itself.
    pub fn outage(&self) -> Option<Outage> {
        self.shared.outage()
    }

    /// Returns true if a drive is not used because its line is away. It is used again by itself.
    pub fn waits_for_drives(&self) -> bool {
        self.shared.state().drives.values().any(|bench| bench.is_away)
    }

    /// Returns true if at least one drive works.
    pub fn has_drives(&self) -> bool {
        self.shared.state().working > 0
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.shared.close();
        for thread in self.threads.drain(..) {
            // The panic hook has already reported why a thread died.
            drop(thread.join());
        }
    }
}
