//! The thread of one drive.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use format::volume::{Label, Part, VolumeName};

use super::request::{Event, LoanError, SinkOpener, VolumeRef};
use super::state::{Borrower, Loan, SharedState, State, Task};
use super::stock::{MountError, OpenVolume, ready};
use crate::generation::{MEDIUM_LTO7, MEDIUM_LTO8, MEDIUM_LTO9, Medium as Generation};
use crate::geometry::Geometry;
use crate::medium::MediumError;
use crate::order::Stop;
use crate::schedule::{Absence, DriveId, LoanId, ObjectId, RequestId, VolumeId};
use crate::scsi::Segment;
use crate::volume::{VolumeError, VolumeReader};

/// Maximum number of attempts to read a part in one drive.
const TRIES: u32 = 2;
/// Maximum number of attempts to read a part, if the position is lost during the last attempt: the
/// drive was reset, or the line to it was cut.
const CUT_TRIES: u32 = 5;
/// Number of reads after which a drive that recommends orders is asked for a new order.
const READS_PER_ORDER: u32 = 64;

/// The volume in a drive.
struct MountedRef {
    volume: VolumeRef,
    opened: OpenVolume,
    /// Label of the volume; `None` if the volume is about to be labelled.
    label: Option<Label>,
}

/// The way in which a volume came into its drive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Brought,
    /// An earlier process has left the volume there, or the line to the drive was away.
    Found,
}

/// The thread of one drive.
///
/// Invariant: `mounted` is set while a volume is in the drive and the drive is not lent.
pub(super) struct DriveThread {
    shared: Arc<SharedState>,
    id: DriveId,
    /// Element address of the drive.
    address: u16,
    mounted: Option<MountedRef>,
    /// Volume that a borrower has at present.
    lent: Option<VolumeRef>,
    reads: u32,
}

impl DriveThread {
    pub(super) fn new(shared: Arc<SharedState>, id: DriveId, address: u16) -> Self {
        Self { shared, id, address, mounted: None, lent: None, reads: 0 }
    }

    /// Carries out tasks until the operator is dropped and no borrower has the drive.
    pub(super) fn run(mut self, tasks: &Receiver<Task>) {
        let mut is_stopping = false;
        while !(is_stopping && self.lent.is_none()) {
            let Ok(task) = tasks.recv() else { break };
            match task {
                Task::Stop => is_stopping = true,
                task => self.carry_out(task),
            }
        }
        if let Some(mounted) = self.mounted.take() {
            self.shared.stock().leave(mounted.opened);
        }
    }

    fn carry_out(&mut self, task: Task) {
        match task {
            Task::Mount(volume) => self.mount(volume, Arrival::Brought),
            Task::Identify(volume) => self.mount(volume, Arrival::Found),
            Task::Read { object, part, deliver, salvages } => {
                sys::fault::point("drive");
                let result = self.try_read(&part, &deliver);
                let result = match result {
                    Err(_) if salvages => self.salvage(&part, &deliver),
                    result => result,
                };
                self.report_read(object, result);
            }
            Task::Skip => self.report(|state, now, id| state.schedule.read_failed(now, id)),
            Task::Dismount => self.dismount(),
            Task::Lend { volume, borrower } => self.lend(volume, &borrower),
            Task::Decline => {
                let head = self.mounted.is_some().then_some(0);
                self.report(|state, now, id| state.schedule.given_back(now, id, head));
            }
            Task::TakeBack { opened, label, failure } => {
                self.take_back(opened, label.map(|label| *label), failure);
            }
            Task::Stop => {}
        }
    }

    /// Calls `tell` to report to the schedule, and carries out the actions that follow.
    fn report(&self, tell: impl FnOnce(&mut State, Duration, DriveId)) {
        let now = self.shared.now();
        let mut state = self.shared.state();
        debug_assert!(
            self.mounted.is_none() || self.lent.is_none(),
            "either this thread or a borrower has the volume"
        );
        let mounted = self.mounted.as_ref().map(|mounted| &mounted.volume);
        let volume = mounted.or(self.lent.as_ref());
        let bench = state.drives.get_mut(&self.id).expect("the drive of this thread");
        (bench.is_busy, bench.is_writing) = (false, false);
        bench.volume = volume.map(|volume| (volume.id, volume.name.clone()));
        tell(&mut state, now, self.id);
        self.shared.pump(state);
    }

    /// Brings the volume to the drive and makes it ready. The changer may be busy for long before,
    /// so `is_wanted` is asked when its turn has come.
    fn fetch(
        &self,
        known: &VolumeRef,
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<(OpenVolume, Option<Label>), MountError> {
        let mut opened = {
            let mut stock = self.shared.stock();
            if !is_wanted() {
                return Err(MountError::Unwanted);
            }
            stock.bring(&known.name, self.address)?
        };
        match ready(&mut opened, &known.name, known.label) {
            Ok(label) => Ok((opened, label)),
            Err(error) => Err(self.give_up(opened, error)),
        }
    }

    /// Puts away a volume that could not be used, and decides whether the drive or the volume is at
    /// fault.
    fn give_up(&self, mut opened: OpenVolume, error: VolumeError) -> MountError {
        if let VolumeError::Medium(error @ MediumError::Failed(_)) = &error
            && !opened.is_file()
        {
            let reason = model::chain(error);
            self.retire(opened, &reason);
            return MountError::Drive(reason);
        }
        let unopened = opened.drive().map_or(Ok(()), crate::drive::Drive::unload);
        let away = match unopened {
            Ok(()) => self.shared.stock().put_back(opened),
            Err(failed) => self.shared.stock().retire(opened, &model::chain(&failed)),
        };
        // Only the error of the volume is reported. A changer that cannot put the volume away
        // reports that at the next mount.
        drop(away);
        MountError::Volume(error)
    }

    fn retire(&self, opened: OpenVolume, reason: &str) {
        // Only the error of the drive is reported: it implies that the volume stays in the drive.
        drop(self.shared.stock().retire(opened, reason));
    }

    fn mount(&mut self, known: VolumeRef, arrival: Arrival) {
        let is_wanted =
            || arrival == Arrival::Found || self.shared.state().schedule.is_wanted(known.id);
        match self.fetch(&known, is_wanted) {
            Ok((mut opened, label)) => {
                let volume = known.id;
                let geometry = geometry(&mut opened, known.block_bytes);
                self.mounted = Some(MountedRef { volume: known, opened, label });
                self.recommend(volume);
                self.report(|state, now, id| {
                    if let Some(geometry) = geometry {
                        state.schedule.set_geometry(volume, geometry);
                    }
                    match arrival {
                        Arrival::Brought => state.schedule.mounted(now, id),
                        Arrival::Found => state.schedule.taken_over(now, id),
                    }
                });
            }
            Err(error) => self.report_mount(known.id, error),
        }
    }

    /// Reports why a mount has failed.
    fn report_mount(&self, volume: VolumeId, error: MountError) {
        let is_changer = matches!(error, MountError::Changer(_));
        let is_unreadable = matches!(error, MountError::Volume(_));
        let (absence, event) = match error {
            MountError::Drive(reason) => return self.fail(&reason),
            MountError::Volume(error) => {
                let reason = model::chain(&error);
                (Absence::Damaged, Event::Missing { volume, reason })
            }
            MountError::Changer(reason) => {
                (Absence::Missing, Event::ChangerFailed { drive: self.address, reason })
            }
            MountError::Missing(reason) => (Absence::Missing, Event::Missing { volume, reason }),
            MountError::Unwanted => {
                return self.report(|state, _, id| state.schedule.drive_free(id));
            }
        };
        self.shared.tell(event);
        self.report(|state, now, id| {
            if is_unreadable {
                state.count_error(id);
            }
            state.schedule.drive_free(id);
            state.lose(now, volume, absence);
            if is_changer {
                state.not_brought.insert(volume);
            }
        });
    }

    /// Reports that the drive has failed. If the drive released its volume, the volume was put away
    /// before. A drive whose line is away is used again when the line is whole.
    fn fail(&self, reason: &str) {
        let (drive, told) = (self.address, reason.to_owned());
        self.shared.tell(Event::DriveFailed { drive, reason: told });
        let is_away = self.shared.outage_of(self.address).is_some();
        self.report(|state, now, id| {
            let bench = state.drives.get_mut(&id).expect("the drive of this thread");
            bench.errors += u64::from(!is_away);
            bench.is_away = is_away;
            if bench.problem.replace(reason.to_owned()).is_none() {
                state.working -= 1;
            }
            state.schedule.drive_failed(now, id);
            if state.working == 0 {
                state.give_up(reason);
            }
        });
    }

    fn report_read(&mut self, object: ObjectId, result: Result<(), VolumeError>) {
        let Some(mounted) = &self.mounted else { return };
        let (volume, is_file) = (mounted.volume.id, mounted.opened.is_file());
        self.reads += 1;
        match result {
            Ok(()) => {
                let ended = self.shared.now();
                if self.reads.is_multiple_of(READS_PER_ORDER) {
                    self.recommend(volume);
                }
                self.report(|state, _, id| state.schedule.finished(ended, id));
            }
            Err(VolumeError::Medium(error @ MediumError::Failed(_))) if !is_file => {
                let reason = model::chain(&error);
                if let Some(mounted) = self.mounted.take() {
                    self.retire(mounted.opened, &reason);
                }
                self.fail(&reason);
            }
            // The library was restarted meanwhile, without the volume in this drive. The volume is
            // brought again.
            Err(VolumeError::Medium(MediumError::NoMedium)) if !is_file => {
                if let Some(mounted) = self.mounted.take() {
                    self.shared.stock().leave(mounted.opened);
                }
                self.report(|state, _, id| state.schedule.drive_free(id));
            }
            Err(error) => {
                let reason = model::chain(&error);
                let is_of_volume = !matches!(error, VolumeError::Handover(_));
                if is_of_volume {
                    self.shared.tell(Event::Damaged { volume, reason: reason.clone() });
                }
                self.report(|state, now, id| {
                    if is_of_volume {
                        state.count_error(id);
                    }
                    if let Some(object) = state.objects.get_mut(&object) {
                        object.failure = Some(reason);
                    }
                    state.schedule.read_failed(now, id);
                });
            }
        }
    }

    /// Reads a part, with zeros for bytes that cannot be read.
    fn salvage(&mut self, part: &Part, deliver: &SinkOpener) -> Result<(), VolumeError> {
        let Some(MountedRef { opened, label: Some(label), .. }) = &mut self.mounted else {
            return Err(MediumError::NoMedium.into());
        };
        let mut sink = deliver(part).map_err(VolumeError::Handover)?;
        let mut reader = VolumeReader::resume(opened.medium(), label.clone());
        let lost = reader.salvage(part, &mut *sink)?;
        debug_assert!(lost <= part.bytes, "no more bytes are lost than the part has");
        sink.flush().map_err(VolumeError::Handover)
    }

    fn try_read(&mut self, part: &Part, deliver: &SinkOpener) -> Result<(), VolumeError> {
        let mut tries = 1;
        loop {
            let Some(MountedRef { volume, opened, label: Some(label) }) = &mut self.mounted else {
                return Err(MediumError::NoMedium.into());
            };
            let mut sink = deliver(part).map_err(VolumeError::Handover)?;
            let mut reader = VolumeReader::resume(opened.medium(), label.clone());
            let located = reader.locate(part);
            if located.is_ok() {
                let now = self.shared.now();
                self.shared.state().schedule.arrived(now, self.id);
            }
            let error = match located.and_then(|()| reader.read(part, &mut *sink)) {
                Ok(()) => return sink.flush().map_err(VolumeError::Handover),
                Err(error) => error,
            };
            let is_final = matches!(
                error,
                VolumeError::Handover(_) | VolumeError::Medium(MediumError::Failed(_))
            );
            let is_lost = matches!(error, VolumeError::Medium(MediumError::PositionLost));
            if is_final || tries == if is_lost { CUT_TRIES } else { TRIES } {
                return Err(error);
            }
            tries += 1;
            if is_lost {
                let read_again = ready(opened, &volume.name, volume.label)?;
                *label = read_again.ok_or(MediumError::NoMedium)?;
            } else {
                opened.medium().distrust();
            }
        }
    }

    fn dismount(&mut self) {
        let Some(MountedRef { mut opened, .. }) = self.mounted.take() else {
            return self.report(|state, _, id| state.schedule.dismounted(id));
        };
        if let Some(drive) = opened.drive() {
            for alert in drive.alerts().unwrap_or_default() {
                self.shared.tell(Event::Alert { drive: self.address, alert });
            }
            match drive.unload() {
                Ok(()) | Err(MediumError::NoMedium) => {}
                Err(error) => {
                    let reason = model::chain(&error);
                    self.retire(opened, &reason);
                    return self.fail(&reason);
                }
            }
        }
        let away = self.shared.stock().put_back(opened);
        if let Err(error) = away {
            return self.fail(&model::chain(&error));
        }
        self.report(|state, _, id| state.schedule.dismounted(id));
    }

    fn lend(&mut self, volume: VolumeRef, borrower: &Borrower) {
        assert!(self.lent.is_none(), "a drive has one borrower");
        let fetched = match self.mounted.take() {
            Some(MountedRef { mut opened, .. }) if opened.is_disturbed() => {
                match ready(&mut opened, &volume.name, volume.label) {
                    Ok(label) => Ok((opened, label)),
                    // The library was restarted meanwhile, without the volume in this drive.
                    Err(VolumeError::Medium(MediumError::NoMedium)) => {
                        self.shared.stock().leave(opened);
                        self.fetch(&volume, || true)
                    }
                    Err(error) => Err(self.give_up(opened, error)),
                }
            }
            Some(MountedRef { opened, label, .. }) => Ok((opened, label)),
            None => self.fetch(&volume, || true),
        };
        let (opened, label) = match fetched {
            Ok(fetched) => fetched,
            // Another drive may work, so the loan waits again.
            Err(MountError::Drive(reason)) => return self.lend_again(&volume, borrower, &reason),
            Err(error) => {
                let is_unreadable = matches!(error, MountError::Volume(_));
                self.report(|state, now, id| {
                    if is_unreadable {
                        state.count_error(id);
                    }
                    state.schedule.given_back(now, id, None);
                });
                // A borrower that has gone needs no answer.
                drop(borrower.send(Err(loan_error(volume.name, error))));
                return;
            }
        };
        let loan = Loan::new(Arc::clone(&self.shared), self.id, opened, label);
        {
            let mut state = self.shared.state();
            let bench = state.drives.get_mut(&self.id).expect("the drive of this thread");
            bench.volume = Some((volume.id, volume.name.clone()));
        }
        self.lent = Some(volume);
        // A loan that nobody takes is dropped, and so given back.
        drop(borrower.send(Ok(loan)));
    }

    fn lend_again(&self, volume: &VolumeRef, borrower: &Borrower, reason: &str) {
        let loan = LoanId(self.shared.number());
        let now = self.shared.now();
        self.shared.state().add_loan(now, loan, volume.id, borrower.clone());
        self.fail(reason);
    }

    fn take_back(&mut self, mut opened: OpenVolume, label: Option<Label>, failure: Option<String>) {
        assert!(self.mounted.is_none(), "the borrower had the volume");
        let Some(mut volume) = self.lent.take() else { return };
        if let Some(label) = &label {
            (volume.label, volume.block_bytes) = (Some(label.volume), label.block_bytes);
        }
        if let Some(reason) = failure.filter(|_| !opened.is_file()) {
            self.retire(opened, &reason);
            return self.fail(&reason);
        }
        let position = opened.medium().position().unwrap_or(0);
        let head = self.shared.address(volume.block_bytes, position);
        // A volume whose label is unknown is mounted again when it is needed.
        let is_labelled = volume.label.is_some();
        self.mounted = Some(MountedRef { volume, opened, label });
        if !is_labelled {
            self.unmount_quietly();
        }
        let head = is_labelled.then_some(head);
        self.report(|state, now, id| state.schedule.given_back(now, id, head));
    }

    fn unmount_quietly(&mut self) {
        let Some(MountedRef { mut opened, .. }) = self.mounted.take() else { return };
        let unopened = opened.drive().map_or(Ok(()), crate::drive::Drive::unload);
        let away = match unopened {
            Ok(()) => self.shared.stock().put_back(opened),
            Err(error) => self.shared.stock().retire(opened, &model::chain(&error)),
        };
        // A drive that fails here fails at its next mount as well.
        drop(away);
    }

    /// Asks a drive that can recommend orders for an order of the waiting requests.
    fn recommend(&mut self, volume: VolumeId) {
        let Some(MountedRef { volume: known, opened, .. }) = &mut self.mounted else { return };
        let block_bytes = u64::from(known.block_bytes.max(1));
        let Some(drive) = opened.drive() else { return };
        let waiting = self.shared.state().schedule.waiting(volume);
        if waiting.len() < 2 {
            return;
        }
        let segment = |(number, (_, stop)): (u32, &(RequestId, Stop))| Segment {
            number,
            first_block: stop.at / block_bytes,
            last_block: (stop.at + stop.bytes.saturating_sub(1)) / block_bytes,
        };
        let segments: Vec<Segment> = (0..).zip(&waiting).map(segment).collect();
        // If the drive recommends no order, the schedule decides.
        let Ok(Some(order)) = drive.recommend(&segments) else { return };
        let request = |number: u32| waiting.get(number as usize).map(|(request, _)| *request);
        let order = order.into_iter().filter_map(request).collect();
        self.shared.state().schedule.recommend(volume, order);
    }
}

/// Converts the reason why a volume was not mounted to the reason why it is not lent.
fn loan_error(name: VolumeName, error: MountError) -> LoanError {
    match error {
        MountError::Changer(reason) => LoanError::Changer { name, reason },
        MountError::Volume(error) => LoanError::Volume { name, reason: model::chain(&error) },
        MountError::Missing(reason) | MountError::Drive(reason) => {
            LoanError::Volume { name, reason }
        }
        MountError::Unwanted => LoanError::Closing,
    }
}

/// Returns the geometry of the volume, as the drive reports it.
fn geometry(opened: &mut OpenVolume, block_bytes: u32) -> Option<Geometry> {
    let ends = opened.drive()?.wrap_ends().ok()?;
    let blocks: Vec<u64> = ends.iter().map(|end| end.block).collect();
    let generation = generation(ends.len(), blocks.last().copied()?, block_bytes);
    Geometry::reported(generation, &blocks, block_bytes).ok()
}

/// Returns the oldest generation of media with at least this many wraps and bytes.
fn generation(wraps: usize, last_block: u64, block_bytes: u32) -> Generation {
    let bytes = last_block.saturating_mul(block_bytes.into());
    let holds = |generation: &Generation| {
        generation.wraps as usize >= wraps && generation.capacity_bytes >= bytes
    };
    let all = [MEDIUM_LTO7, MEDIUM_LTO8, MEDIUM_LTO9];
    all.into_iter().find(holds).unwrap_or(MEDIUM_LTO9)
}
