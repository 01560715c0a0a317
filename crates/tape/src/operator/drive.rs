//! The thread of one drive.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use format::volume::{Label, Part};

use super::stock::{Loaded, MountError, ready};
use super::{Deliver, Event, Known, Lent, LoanError, Outcome, Shared, State};
use crate::generation::{MEDIUM_LTO7, MEDIUM_LTO8, MEDIUM_LTO9, Medium as Generation};
use crate::geometry::Geometry;
use crate::medium::MediumError;
use crate::order::Stop;
use crate::schedule::{Absence, DriveId, ObjectId, RequestId, VolumeId};
use crate::scsi::Segment;
use crate::volume::{VolumeError, VolumeReader};

/// A read that went wrong is tried so often on one drive.
const TRIES: u32 = 2;
/// A drive that recommends orders is asked again after so many reads.
const READS_PER_ORDER: u32 = 64;

/// What a drive is to do.
pub(super) enum Task {
    Mount(Known),
    /// With where it goes, and whether zeros do for what cannot be read.
    Read {
        object: ObjectId,
        part: Part,
        how: (Deliver, bool),
    },
    /// What was to be read is not wanted any more.
    Skip,
    Dismount,
    Lend {
        known: Known,
        told: Sender<Result<Lent, LoanError>>,
    },
    /// Whoever wanted to borrow it does not any more.
    Decline,
    TakeBack {
        loaded: Loaded,
        label: Option<Box<Label>>,
        failure: Option<String>,
    },
    Stop,
}

/// Invariant: `volume` is set while a volume is in the drive, and nobody else has it.
pub(super) struct Operated {
    shared: Arc<Shared>,
    id: DriveId,
    address: u16,
    volume: Option<(Known, Loaded, Option<Label>)>,
    /// The volume that a borrower has.
    lent: Option<Known>,
    reads: u32,
}

impl Operated {
    pub(super) fn new(shared: Arc<Shared>, id: DriveId, address: u16) -> Self {
        Self { shared, id, address, volume: None, lent: None, reads: 0 }
    }

    /// Carries out tasks until the operator is dropped. A volume that is lent is waited for.
    pub(super) fn run(mut self, tasks: &Receiver<Task>) {
        let mut is_stopping = false;
        while !(is_stopping && self.lent.is_none()) {
            let Ok(task) = tasks.recv() else { break };
            match task {
                Task::Stop => is_stopping = true,
                task => self.carry_out(task),
            }
        }
        if let Some((_, loaded, _)) = self.volume.take() {
            self.shared.stock().leave(loaded);
        }
    }

    fn carry_out(&mut self, task: Task) {
        match task {
            Task::Mount(known) => self.mount(known),
            Task::Read { object, part, how } => self.read(object, &part, &how),
            Task::Skip => self.report(|state, now, id| state.schedule.read_failed(now, id)),
            Task::Dismount => self.dismount(),
            Task::Lend { known, told } => self.lend(known, &told),
            Task::Decline => {
                let head = self.volume.is_some().then_some(0);
                self.report(|state, now, id| state.schedule.given_back(now, id, head));
            }
            Task::TakeBack { loaded, label, failure } => {
                self.take_back(loaded, label.map(|label| *label), failure);
            }
            Task::Stop => {}
        }
    }

    /// Tells the schedule what has happened, and has it decide.
    fn report(&self, tell: impl FnOnce(&mut State, std::time::Duration, DriveId)) {
        let now = self.shared.now();
        let mut state = self.shared.state();
        let volume = self.volume.as_ref().map(|(known, ..)| known).or(self.lent.as_ref());
        let bench = state.drives.get_mut(&self.id).expect("this drive");
        (bench.is_busy, bench.is_writing) = (false, false);
        bench.volume = volume.map(|known| (known.id, known.name.clone()));
        tell(&mut state, now, self.id);
        self.shared.pump(state);
    }

    /// Brings the volume and makes it ready; what is wrong with it or with the drive is reported.
    fn fetch(&self, known: &Known) -> Result<(Loaded, Option<Label>), MountError> {
        let mut loaded = self.shared.stock().bring(&known.name, self.address)?;
        let Some(expected) = known.label else {
            let loading = loaded.drive().map_or(Ok(()), crate::drive::Drive::load);
            return match loading {
                Ok(()) => Ok((loaded, None)),
                Err(error) => Err(self.give_up(loaded, error.into())),
            };
        };
        match ready(&mut loaded, &known.name, Some(expected)) {
            Ok(label) => Ok((loaded, Some(label))),
            Err(error) => Err(self.give_up(loaded, error)),
        }
    }

    /// A volume that could not be used goes home; the right one of drive and volume is blamed.
    fn give_up(&self, mut loaded: Loaded, error: VolumeError) -> MountError {
        if let VolumeError::Medium(error @ MediumError::Failed(_)) = &error
            && !loaded.is_file()
        {
            let reason = model::chain(error);
            self.retire(loaded, &reason);
            return MountError::Drive(reason);
        }
        let unloaded = loaded.drive().map_or(Ok(()), crate::drive::Drive::unload);
        let away = match unloaded {
            Ok(()) => self.shared.stock().put_back(loaded),
            Err(failed) => self.shared.stock().retire(loaded, &model::chain(&failed)),
        };
        // The volume is the news; a robot that cannot put it away says so at the next mount.
        drop(away);
        MountError::Volume(error)
    }

    fn retire(&self, loaded: Loaded, reason: &str) {
        // What is wrong with the drive is the news; that the volume stays in it follows.
        drop(self.shared.stock().retire(loaded, reason));
    }

    fn mount(&mut self, known: Known) {
        match self.fetch(&known) {
            Ok((mut loaded, label)) => {
                let volume = known.id;
                let geometry = geometry(&mut loaded, known.block_bytes);
                self.volume = Some((known, loaded, label));
                self.recommend(volume);
                self.report(|state, now, id| {
                    if let Some(geometry) = geometry {
                        state.schedule.set_geometry(volume, geometry);
                    }
                    state.schedule.mounted(now, id);
                });
            }
            Err(error) => self.report_mount(known.id, error),
        }
    }

    /// Tells why a mount has come to nothing.
    fn report_mount(&self, volume: VolumeId, error: MountError) {
        let is_robot = matches!(error, MountError::Robot(_));
        let (absence, event) = match error {
            MountError::Drive(reason) => return self.fail(&reason),
            MountError::Volume(error) => {
                let reason = model::chain(&error);
                (Absence::Damaged, Event::Missing { volume, reason })
            }
            MountError::Robot(reason) => {
                (Absence::Missing, Event::RobotFailed { drive: self.address, reason })
            }
            MountError::Missing(reason) => (Absence::Missing, Event::Missing { volume, reason }),
        };
        self.shared.tell(event);
        self.report(|state, now, id| {
            state.schedule.drive_free(id);
            state.lose(now, volume, absence);
            if is_robot {
                state.not_brought.insert(volume);
            }
        });
    }

    /// The drive has failed, and the volume is out of it as far as that could be had.
    fn fail(&self, reason: &str) {
        let (drive, told) = (self.address, reason.to_owned());
        self.shared.tell(Event::DriveFailed { drive, reason: told });
        self.report(|state, now, id| {
            let bench = state.drives.get_mut(&id).expect("this drive");
            if bench.problem.replace(reason.to_owned()).is_none() {
                state.working -= 1;
            }
            state.schedule.drive_failed(now, id);
            if state.working == 0 {
                state.give_up(reason);
            }
        });
    }

    fn read(&mut self, object: ObjectId, part: &Part, (deliver, salvages): &(Deliver, bool)) {
        let mut result = self.try_read(part, deliver);
        if *salvages && result.is_err() {
            result = self.salvage(part, deliver);
        }
        let Some((known, loaded, _)) = &self.volume else { return };
        let (volume, is_file) = (known.id, loaded.is_file());
        self.reads += 1;
        match result {
            Ok(()) => {
                if self.reads.is_multiple_of(READS_PER_ORDER) {
                    self.recommend(volume);
                }
                self.report(|state, now, id| state.schedule.finished(now, id));
            }
            Err(VolumeError::Medium(error @ MediumError::Failed(_))) if !is_file => {
                let reason = model::chain(&error);
                if let Some((_, loaded, _)) = self.volume.take() {
                    self.retire(loaded, &reason);
                }
                self.fail(&reason);
            }
            Err(error) => {
                let reason = model::chain(&error);
                let is_ours = matches!(error, VolumeError::Handover(_));
                if !is_ours {
                    self.shared.tell(Event::Damaged { volume, reason: reason.clone() });
                }
                self.report(|state, now, id| {
                    if let Some(object) = state.objects.get_mut(&object) {
                        object.failure = Some(reason);
                    }
                    state.schedule.read_failed(now, id);
                });
            }
        }
    }

    /// Reads what can be read.
    fn salvage(&mut self, part: &Part, deliver: &Deliver) -> Result<(), VolumeError> {
        let Some((_, loaded, Some(label))) = &mut self.volume else {
            return Err(MediumError::NoMedium.into());
        };
        let mut sink = deliver(part).map_err(VolumeError::Handover)?;
        let mut reader = VolumeReader::resume(loaded.medium(), label.clone());
        let lost = reader.salvage(part, &mut *sink)?;
        debug_assert!(lost <= part.bytes, "no more than there was");
        sink.flush().map_err(VolumeError::Handover)
    }

    fn try_read(&mut self, part: &Part, deliver: &Deliver) -> Result<(), VolumeError> {
        let mut tries = 1;
        loop {
            let Some((known, loaded, Some(label))) = &mut self.volume else {
                return Err(MediumError::NoMedium.into());
            };
            let mut sink = deliver(part).map_err(VolumeError::Handover)?;
            let mut reader = VolumeReader::resume(loaded.medium(), label.clone());
            let error = match reader.read(part, &mut *sink) {
                Ok(()) => return sink.flush().map_err(VolumeError::Handover),
                Err(error) => error,
            };
            let is_final = matches!(
                error,
                VolumeError::Handover(_) | VolumeError::Medium(MediumError::Failed(_))
            );
            if is_final || tries == TRIES {
                return Err(error);
            }
            tries += 1;
            if matches!(error, VolumeError::Medium(MediumError::PositionLost)) {
                *label = ready(loaded, &known.name, known.label)?;
            } else {
                loaded.medium().distrust();
            }
        }
    }

    fn dismount(&mut self) {
        let Some((_, mut loaded, _)) = self.volume.take() else {
            return self.report(|state, _, id| state.schedule.dismounted(id));
        };
        if let Some(drive) = loaded.drive() {
            for alert in drive.alerts().unwrap_or_default() {
                self.shared.tell(Event::Alert { drive: self.address, alert });
            }
            if let Err(error) = drive.unload() {
                let reason = model::chain(&error);
                self.retire(loaded, &reason);
                return self.fail(&reason);
            }
        }
        let away = self.shared.stock().put_back(loaded);
        if let Err(error) = away {
            return self.fail(&model::chain(&error));
        }
        self.report(|state, _, id| state.schedule.dismounted(id));
    }

    fn lend(&mut self, known: Known, told: &Sender<Result<Lent, LoanError>>) {
        let (loaded, label) = match self.volume.take() {
            Some((_, loaded, label)) => (loaded, label),
            None => match self.fetch(&known) {
                Ok(fetched) => fetched,
                Err(MountError::Drive(reason)) => {
                    // Another drive may do: the loan waits again.
                    return self.lend_again(known, told, &reason);
                }
                Err(error) => {
                    let name = known.name.clone();
                    let error = match error {
                        MountError::Robot(reason) => LoanError::Robot { name, reason },
                        MountError::Volume(error) => {
                            LoanError::Volume { name, reason: model::chain(&error) }
                        }
                        MountError::Missing(reason) | MountError::Drive(reason) => {
                            LoanError::Volume { name, reason }
                        }
                    };
                    self.report(|state, now, id| state.schedule.given_back(now, id, None));
                    // Who does not listen any more does not mind.
                    drop(told.send(Err(error)));
                    return;
                }
            },
        };
        let lent = Lent {
            shared: Arc::clone(&self.shared),
            drive: self.id,
            loaded: Some(loaded),
            label,
            failure: None,
        };
        {
            let mut state = self.shared.state();
            let bench = state.drives.get_mut(&self.id).expect("this drive");
            bench.volume = Some((known.id, known.name.clone()));
        }
        self.lent = Some(known);
        // Who does not take it gives it back at once.
        drop(told.send(Ok(lent)));
    }

    fn lend_again(&self, known: Known, told: &Sender<Result<Lent, LoanError>>, reason: &str) {
        let loan = crate::schedule::LoanId(self.shared.number());
        let now = self.shared.now();
        {
            let mut state = self.shared.state();
            state.loans.insert(loan, told.clone());
            state.schedule.borrow(now, loan, known.id);
        }
        self.fail(reason);
    }

    fn take_back(&mut self, loaded: Loaded, label: Option<Label>, failure: Option<String>) {
        let Some(mut known) = self.lent.take() else { return };
        if let Some(label) = &label {
            (known.label, known.block_bytes) = (Some(label.volume), label.block_bytes);
        }
        if let Some(reason) = failure.filter(|_| !loaded.is_file()) {
            self.retire(loaded, &reason);
            return self.fail(&reason);
        }
        let mut loaded = loaded;
        let position = loaded.medium().position().unwrap_or(0);
        let head = self.shared.address(known.block_bytes, position);
        // A volume that was labelled just now is mounted anew when it is wanted.
        if known.label.is_none() {
            self.volume = Some((known, loaded, label));
            self.unmount_quietly();
            return self.report(|state, now, id| state.schedule.given_back(now, id, None));
        }
        self.volume = Some((known, loaded, label));
        self.report(|state, now, id| state.schedule.given_back(now, id, Some(head)));
    }

    fn unmount_quietly(&mut self) {
        let Some((_, mut loaded, _)) = self.volume.take() else { return };
        let unloaded = loaded.drive().map_or(Ok(()), crate::drive::Drive::unload);
        let away = match unloaded {
            Ok(()) => self.shared.stock().put_back(loaded),
            Err(error) => self.shared.stock().retire(loaded, &model::chain(&error)),
        };
        // A drive that fails here fails at its next mount as well.
        drop(away);
    }

    /// Asks a drive that can for the order in which it would read what waits.
    fn recommend(&mut self, volume: VolumeId) {
        let Some((known, loaded, _)) = &mut self.volume else { return };
        let block_bytes = u64::from(known.block_bytes.max(1));
        let Some(drive) = loaded.drive() else { return };
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
        // A drive that cannot say leaves the order to the schedule.
        let Ok(Some(order)) = drive.recommend(&segments) else { return };
        let request = |number: u32| waiting.get(number as usize).map(|(request, _)| *request);
        let order = order.into_iter().filter_map(request).collect();
        self.shared.state().schedule.recommend(volume, order);
    }
}

impl State {
    /// No drive is left for those who wait.
    pub(super) fn give_up(&mut self, reason: &str) {
        for (loan, told) in std::mem::take(&mut self.loans) {
            self.schedule.withdraw(loan);
            // Who does not listen any more does not mind.
            drop(told.send(Err(LoanError::Drives(reason.to_owned()))));
        }
        for (waiter, (object, told)) in std::mem::take(&mut self.waiters) {
            self.schedule.cancel(waiter);
            let result = Err(LoanError::Drives(reason.to_owned()).to_string());
            drop(told.send(Outcome { object, result }));
        }
        self.objects.clear();
    }
}

/// How the volume's addresses lie, as the drive reports it.
fn geometry(loaded: &mut Loaded, block_bytes: u32) -> Option<Geometry> {
    let ends = loaded.drive()?.wrap_ends().ok()?;
    let blocks: Vec<u64> = ends.iter().map(|end| end.block).collect();
    let generation = generation(ends.len(), blocks.last().copied()?, block_bytes);
    Geometry::reported(generation, &blocks, block_bytes).ok()
}

/// The smallest generation that has as many wraps and bytes.
fn generation(wraps: usize, last_block: u64, block_bytes: u32) -> Generation {
    let bytes = last_block.saturating_mul(block_bytes.into());
    let holds = |generation: &Generation| {
        generation.wraps as usize >= wraps && generation.capacity_bytes >= bytes
    };
    let all = [MEDIUM_LTO7, MEDIUM_LTO8, MEDIUM_LTO9];
    all.into_iter().find(holds).unwrap_or(MEDIUM_LTO9)
}
