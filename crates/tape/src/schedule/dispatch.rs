//! Choice of the next tasks of the drives.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Action, DriveId, KINDS, Kind, LoanRequest, RequestId, Schedule, State, VolumeId};
use crate::geometry::Point;
use crate::order::{Course, Stop};
use crate::queue::Lane;
use crate::timing::{Reach, duration};

/// Maximum number of planned requests for which a plan is made anew after every new request. A
/// longer plan is made anew only after it has grown by a sixteenth, so that planning takes a
/// bounded share of the time.
const REPLANNED_MAX: usize = 256;

/// A volume that waits for a drive, with the values that rule 4 compares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct MountCandidate {
    pub(super) volume: VolumeId,
    kind: usize,
    oldest: Duration,
    is_old: bool,
    has_yielded: bool,
    waiters_per_sec: f64,
}

/// The drive that a volume can have next.
enum Vacancy {
    Now(DriveId),
    /// A drive is being emptied.
    Soon,
    None,
}

impl Schedule {
    /// Returns the actions that are due at `now`. The caller calls this after each report, and at
    /// the time of [`Self::wake_at`].
    pub fn actions(&mut self, now: Duration) -> Vec<Action> {
        self.wake_at = None;
        let drives: Vec<DriveId> = self.drives.keys().copied().collect();
        for drive in drives {
            self.step(now, drive);
        }
        self.fill(now);
        std::mem::take(&mut self.actions)
    }

    /// Decides the next task of a drive with a volume at a file border.
    fn step(&mut self, now: Duration, drive: DriveId) {
        let State::Idle { volume, since } = self.drives[&drive].state else { return };
        if self.queue.lane(volume).is_none() {
            let until = since.saturating_add(self.config.retain);
            if now >= until || self.absent.contains_key(&volume) {
                self.dismount(now, drive);
            } else {
                self.wake(until);
            }
        } else if self.must_yield(now, drive, volume) {
            self.queue.lane_mut(volume).expect("the volume has a queue").has_yielded = true;
            self.dismount(now, drive);
        } else {
            self.read_next(now, drive);
        }
    }

    fn wake(&mut self, at: Duration) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Returns true if a drive has to give up its volume, because other volumes or loans have
    /// waited too long (rule 3).
    fn must_yield(&self, now: Duration, drive: DriveId, volume: VolumeId) -> bool {
        let turn =
            if self.is_old(now, volume) { self.config.turn_max } else { self.config.turn_min };
        if now.saturating_sub(self.drives[&drive].mounted) < turn {
            return false;
        }
        let own = self.queue.lane(volume).map(Lane::kind);
        let working = self.working();
        // Another volume gains nothing from the drive if its kind of work already has as many
        // drives as it may have.
        let may_come = |kind: Kind| {
            own == Some(kind) || working[kind.index()] < self.config.kind_drives_max[kind.index()]
        };
        let others = self.queue.lanes().filter(|(other, lane)| {
            may_come(lane.kind()) && self.is_mountable(*other) && self.is_old(now, *other)
        });
        let borrowers = self
            .loans
            .iter()
            .filter(|loan| self.is_mountable(loan.volume) && self.has_waited(now, loan));
        let is_coming = |drive: &&super::Drive| match drive.state {
            State::Dismounting { .. } => true,
            State::Idle { volume, .. } => self.queue.lane(volume).is_none(),
            _ => false,
        };
        let coming = self.drives.values().filter(is_coming).count() + self.vacant();
        others.count() + borrowers.count() > coming
    }

    /// Returns true if the oldest request for `volume` is older than `age_max`.
    fn is_old(&self, now: Duration, volume: VolumeId) -> bool {
        let oldest = self.queue.oldest(volume);
        oldest.is_some_and(|oldest| now.saturating_sub(oldest) > self.config.age_max)
    }

    fn is_mountable(&self, volume: VolumeId) -> bool {
        let is_in = |drive: &super::Drive| drive.volume() == Some(volume);
        !self.absent.contains_key(&volume) && !self.drives.values().any(is_in)
    }

    fn dismount(&mut self, now: Duration, id: DriveId) {
        let volume = self.drives[&id].volume().expect("only a drive with a volume is emptied");
        debug_assert!(
            matches!(self.drives[&id].state, State::Idle { .. }),
            "a drive is emptied at a file border"
        );
        let secs = self.dismount_secs(id);
        let drive = self.drive(id);
        drive.estimate_secs = secs;
        drive.state = State::Dismounting { volume, since: now };
        self.actions.push(Action::Dismount { drive: id, volume });
    }

    /// Begins the next read, unless the head stays a moment (rule 7).
    fn read_next(&mut self, now: Duration, id: DriveId) {
        let drive = self.drives[&id];
        let volume = drive.volume().expect("an idle drive has a volume");
        debug_assert!(matches!(drive.state, State::Idle { .. }), "a drive has one task at a time");
        let is_old = self.is_old(now, volume);
        let lane = self.queue.lane_mut(volume).expect("the volume has a queue");
        if lane.settle_batch(is_old) {
            lane.plan.clear();
        }
        self.plan(volume, drive.head);
        let lane = self.queue.lane_mut(volume).expect("the volume has a queue");
        let request = lane.next_planned().expect("a waiting request is planned");
        let stop = self.queue.request(request).source.stop;
        let geometry = self.geometry(volume);
        let (head, start) = (geometry.point(drive.head), geometry.point(stop.at));
        let (reach, secs) = self.timing.reach(&head, &start);
        if reach != Reach::Here {
            let back = self.timing.reach(&geometry.point(stop.end()), &head).1;
            let until = self.held_until(id, volume, (secs + back) / 2.0);
            if until > now {
                return self.wake(until);
            }
        }
        let reading = self.timing.read_secs(stop.bytes);
        let lane = self.queue.lane_mut(volume).expect("the queue still exists");
        lane.plan.pop_front();
        lane.plan_secs = (lane.plan_secs - secs - reading).max(0.0);
        self.queue.take(request);
        let object = self.queue.request(request).object;
        let drive = self.drive(id);
        drive.estimate_secs = secs + reading;
        (drive.reach, drive.arrived) = (reach, None);
        drive.state = State::Reading { volume, request, since: now };
        self.actions.push(Action::Read { drive: id, request, object, stop, reach });
    }

    /// Returns the time until which the head stays in its place: at most `secs_max` seconds after
    /// the moment at which it could have moved.
    fn held_until(&self, drive: DriveId, volume: VolumeId, secs_max: f64) -> Duration {
        let State::Idle { since, .. } = self.drives[&drive].state else { return Duration::ZERO };
        let last_open = self.queue.lane(volume).and_then(|lane| lane.last_open);
        let (Some(last_open), Some(oldest)) = (last_open, self.queue.oldest(volume)) else {
            return Duration::ZERO;
        };
        let longest = self.config.hold_max.min(duration(secs_max));
        let latest = since.max(oldest).saturating_add(longest);
        last_open.saturating_add(self.config.quiet).min(latest)
    }

    /// Makes sure that `volume`, which has waiting requests, has a plan that begins at `head`.
    pub(super) fn plan(&mut self, volume: VolumeId, head: u64) {
        let lane = self.queue.lane_mut(volume).expect("the volume has a queue");
        let planned = if lane.next_planned().is_some() { lane.plan.len() } else { 0 };
        let enough = if planned <= REPLANNED_MAX { 1 } else { planned / 16 };
        let has_grown = lane.closed.is_none() && lane.fresh >= enough;
        if planned == 0 || has_grown {
            self.plan_anew(volume, head);
        }
    }

    fn plan_anew(&mut self, volume: VolumeId, head: u64) {
        let lane = self.queue.lane(volume).expect("the volume has a queue");
        let ids: Vec<RequestId> = lane.batch().collect();
        let stops: Vec<Stop> = ids.iter().map(|id| self.queue.request(*id).source.stop).collect();
        let ranks: BTreeMap<RequestId, usize> = ids.iter().copied().zip(0..).collect();
        // If a request has arrived or left since the recommendation, the order is no permutation,
        // and the plan ignores it.
        let recommended: Vec<usize> =
            lane.recommended.iter().filter_map(|id| ranks.get(id).copied()).collect();
        let geometry = self.geometry(volume);
        let course = Course { timing: &self.timing, geometry: &geometry };
        let plan = course.plan(head, &stops, Some(&recommended));
        let reading = stops.iter().map(|stop| self.timing.read_secs(stop.bytes));
        assert_eq!(plan.order.len(), ids.len(), "each request is read once");
        let secs = plan.positioning_secs + reading.sum::<f64>();
        let lane = self.queue.lane_mut(volume).expect("the queue still exists");
        lane.plan = plan.order.into_iter().map(|index| ids[index]).collect();
        lane.plan_secs = secs;
        lane.fresh = 0;
    }

    /// Gives free drives to volumes and loans, and frees drives whose volumes have no waiting
    /// requests (rules 4-6, 10).
    fn fill(&mut self, now: Duration) {
        self.lend_mounted(now);
        if !self.drives.values().any(|drive| self.is_spare(&drive.state)) {
            return;
        }
        let is_dismounting =
            |drive: &&super::Drive| matches!(drive.state, State::Dismounting { .. });
        let mut coming = self.drives.values().filter(is_dismounting).count();
        let all = self.loans.iter().copied();
        let (old, young): (Vec<LoanRequest>, Vec<LoanRequest>) =
            all.partition(|loan| self.has_waited(now, loan));
        if let Some(first) = young.first() {
            self.wake(first.asked.saturating_add(self.config.turn_min));
        }
        if self.lend_all(now, &old, &mut coming) && self.mount_wanted(now, &mut coming) {
            self.lend_all(now, &young, &mut coming);
        }
    }

    /// Mounts volumes that wait to be read; returns true if more drives may be free.
    fn mount_wanted(&mut self, now: Duration, coming: &mut usize) -> bool {
        let mut working = self.working();
        for wanted in self.wanted(now) {
            if working[wanted.kind] >= self.config.kind_drives_max[wanted.kind] {
                continue;
            }
            match self.vacancy(now, coming) {
                Vacancy::Now(drive) => self.mount(now, drive, wanted.volume),
                Vacancy::Soon => {}
                Vacancy::None => return false,
            }
            working[wanted.kind] += 1;
        }
        true
    }

    /// Finds an empty drive, or a drive that is being emptied for no other volume. Otherwise begins
    /// to empty a drive whose volume has no waiting requests.
    fn vacancy(&mut self, now: Duration, coming: &mut usize) -> Vacancy {
        if let Some(drive) = self.empty_drive() {
            return Vacancy::Now(drive);
        }
        if *coming > 0 {
            *coming -= 1;
            return Vacancy::Soon;
        }
        match self.longest_idle() {
            Some(drive) => {
                self.dismount(now, drive);
                Vacancy::Soon
            }
            None => Vacancy::None,
        }
    }

    fn has_waited(&self, now: Duration, loan: &LoanRequest) -> bool {
        now.saturating_sub(loan.asked) >= self.config.turn_min
    }

    /// Lends drives whose volumes have a waiting loan and no waiting request.
    fn lend_mounted(&mut self, now: Duration) {
        for loan in Vec::from_iter(self.loans.iter().copied()) {
            let holder = self.drives.iter().find(|(_, drive)| {
                matches!(drive.state, State::Idle { volume, .. } if volume == loan.volume)
            });
            let holder = holder.map(|(id, _)| *id);
            if let Some(drive) = holder.filter(|_| self.queue.lane(loan.volume).is_none()) {
                self.lend(now, drive, loan, true);
            }
        }
    }

    /// Lends drives for volumes that are in no drive; returns true if more drives may be free.
    fn lend_all(&mut self, now: Duration, loans: &[LoanRequest], coming: &mut usize) -> bool {
        for loan in loans {
            let is_left = self.loans.iter().any(|left| left.id == loan.id);
            if !(is_left && self.is_mountable(loan.volume)) {
                continue;
            }
            match self.vacancy(now, coming) {
                Vacancy::Now(drive) => self.lend(now, drive, *loan, false),
                Vacancy::Soon => {}
                Vacancy::None => return false,
            }
        }
        true
    }

    fn lend(&mut self, now: Duration, drive: DriveId, loan: LoanRequest, is_mounted: bool) {
        let LoanRequest { id, volume, .. } = loan;
        self.loans.retain(|other| other.id != id);
        debug_assert!(
            matches!(self.drives[&drive].state, State::Empty | State::Idle { .. }),
            "a drive at work is not lent"
        );
        self.drive(drive).state = State::Lent { volume, since: now };
        self.actions.push(Action::Lend { drive, loan: id, volume, is_mounted });
    }

    /// Returns true if the borrower of `drive` is to give the drive back soon (rule 10).
    pub fn is_wanted_back(&mut self, now: Duration, drive: DriveId) -> bool {
        let State::Lent { volume, since } = self.drives[&drive].state else { return false };
        if self.queue.lane(volume).is_some() {
            return true;
        }
        let has_had_its_turn = now.saturating_sub(since) >= self.config.turn_min;
        let is_idle = |drive: &super::Drive| match drive.state {
            State::Idle { volume, .. } => self.queue.lane(volume).is_none(),
            _ => false,
        };
        has_had_its_turn
            && self.vacant() == 0
            && !self.drives.values().any(is_idle)
            && (self.queue.lanes().any(|(volume, _)| self.is_mountable(volume))
                || self.loans.iter().any(|loan| self.is_mountable(loan.volume)))
    }

    fn is_spare(&self, state: &State) -> bool {
        match state {
            State::Empty => true,
            State::Idle { volume, .. } => self.queue.lane(*volume).is_none(),
            _ => false,
        }
    }

    /// Returns the number of drives at work for each kind.
    fn working(&self) -> [usize; KINDS] {
        let mut working = [0; KINDS];
        for drive in self.drives.values() {
            let waiting = drive.volume().and_then(|volume| self.queue.lane(volume));
            let kind = match (drive.state, waiting) {
                (
                    State::Broken { .. }
                    | State::Dismounting { .. }
                    | State::Lent { .. }
                    | State::Empty,
                    _,
                ) => continue,
                (_, Some(lane)) => lane.kind(),
                (State::Reading { request, .. }, None) => self.queue.request(request).kind(),
                (_, None) => continue,
            };
            working[kind.index()] += 1;
        }
        debug_assert!(
            working.iter().sum::<usize>() <= self.drives.len(),
            "a drive works for one kind"
        );
        working
    }

    /// Returns the number of drives that are empty and may be used.
    fn vacant(&self) -> usize {
        let holds = |drive: &&super::Drive| {
            drive.volume().is_some() && !matches!(drive.state, State::Broken { .. })
        };
        let empty = self.drives.values().filter(|drive| drive.state == State::Empty).count();
        let held = self.drives.values().filter(holds).count();
        empty.min(self.config.drives_max.saturating_sub(held))
    }

    /// Returns an empty drive that may take a volume.
    fn empty_drive(&self) -> Option<DriveId> {
        if self.vacant() == 0 {
            return None;
        }
        let empty = self.drives.iter().find(|(_, drive)| drive.state == State::Empty);
        empty.map(|(id, _)| *id)
    }

    fn mount(&mut self, now: Duration, id: DriveId, volume: VolumeId) {
        self.queue.lane_mut(volume).expect("the volume has a queue").has_yielded = false;
        assert!(self.drives[&id].state == State::Empty, "a drive holds one volume");
        debug_assert!(self.is_mountable(volume), "a volume is in one drive");
        self.drive(id).state = State::Mounting { volume, since: now };
        self.actions.push(Action::Mount { drive: id, volume });
    }

    /// Returns the drive whose volume has been without requests for the longest time.
    fn longest_idle(&self) -> Option<DriveId> {
        let idle = self.drives.iter().filter_map(|(id, drive)| match drive.state {
            State::Idle { volume, since } if self.queue.lane(volume).is_none() => {
                Some((since, *id))
            }
            _ => None,
        });
        idle.min().map(|(_, id)| id)
    }

    /// Returns the volumes that wait for a drive, in the order in which they get a drive.
    pub(super) fn wanted(&mut self, now: Duration) -> Vec<MountCandidate> {
        let volumes = self.queue.lanes().map(|(volume, _)| volume);
        let mountable: Vec<_> = volumes.filter(|volume| self.is_mountable(*volume)).collect();
        let mut wanted: Vec<MountCandidate> =
            mountable.into_iter().map(|volume| self.weighed(now, volume)).collect();
        let by_age = |a: &MountCandidate, b: &MountCandidate| {
            a.has_yielded.cmp(&b.has_yielded).then(a.oldest.cmp(&b.oldest))
        };
        wanted.sort_by(|a, b| match (a.is_old, b.is_old) {
            (true, true) => by_age(a, b),
            (false, false) => b.waiters_per_sec.total_cmp(&a.waiters_per_sec).then(by_age(a, b)),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        });
        wanted
    }

    fn weighed(&mut self, now: Duration, volume: VolumeId) -> MountCandidate {
        self.plan(volume, 0);
        let oldest = self.queue.oldest(volume).expect("the volume has a queue");
        let lane = self.queue.lane(volume).expect("the volume has a queue");
        let secs = self.timing.mount_secs() + lane.plan_secs;
        let waiters = u32::try_from(lane.waiters).unwrap_or(u32::MAX);
        MountCandidate {
            volume,
            kind: lane.kind().index(),
            oldest,
            is_old: self.is_old(now, volume),
            has_yielded: lane.has_yielded,
            waiters_per_sec: f64::from(waiters) / secs.max(1.0),
        }
    }

    /// Returns the estimated seconds of dismounting the volume in a drive; 0 if the drive is empty.
    pub(super) fn dismount_secs(&self, id: DriveId) -> f64 {
        let drive = &self.drives[&id];
        let Some(volume) = drive.volume() else { return 0.0 };
        let geometry = self.geometry(volume);
        let point: Point = geometry.point(drive.head);
        let moved = geometry.part(drive.bytes_read);
        self.timing.dismount_secs(geometry.along(&point), moved)
    }
}
