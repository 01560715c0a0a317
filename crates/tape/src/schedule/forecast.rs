//! Forecasts of service. They are told to waiters, and the schedule uses them to choose between
//! several copies.
//!
//! A forecast assumes that no more requests arrive, that no drive fails, and that the drives take
//! the corrected times. The limits for each kind of work are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::order::{Course, Stop};

use super::{
    Drive, DriveId, Forecast, Preview, RequestId, Schedule, Source, State, VolumeId, WaiterId,
};
use crate::timing::duration;

impl Schedule {
    /// Returns the order and the time of reading `stops` of a volume, if nothing else is read.
    pub fn preview(&self, volume: VolumeId, stops: &[Stop]) -> Preview {
        let geometry = self.geometry(volume);
        let course = Course { timing: &self.timing, geometry: &geometry };
        let holder = self.drives.values().find(|drive| is_holding(drive, volume));
        let plan = course.plan(holder.map_or(0, |drive| drive.head), stops, None);
        assert_eq!(plan.order.len(), stops.len(), "each stop is read once");
        let reading = stops.iter().map(|stop| self.timing.read_secs(stop.bytes));
        let mount = if holder.is_some() { 0.0 } else { self.timing.mount_secs() };
        Preview {
            order: plan.order,
            is_mounted: holder.is_some(),
            secs: mount + plan.positioning_secs + reading.sum::<f64>(),
            drives: self.config.drives_max.min(self.drives.len()).max(1),
        }
    }

    /// Returns the forecast of `waiter`; `None` if it has no request, or no drive works. This takes
    /// as long as the forecasts of all requests.
    pub fn forecast(&mut self, now: Duration, waiter: WaiterId) -> Option<Forecast> {
        let request = self.queue.of_waiter(waiter)?;
        self.forecasts(now).get(&request).copied()
    }

    /// Returns the forecasts of all requests, waiting or being read.
    pub fn forecasts(&mut self, now: Duration) -> BTreeMap<RequestId, Forecast> {
        let mut forecasts = BTreeMap::new();
        let mut free: Vec<Duration> = Vec::new();
        let drives: Vec<DriveId> = self.drives.keys().copied().collect();
        for id in drives {
            let Some(ready) = self.ready_at(now, id) else { continue };
            free.push(self.follow(id, ready, &mut forecasts));
        }
        free.truncate(self.config.drives_max);
        let mount = duration(self.timing.mount_secs());
        for wanted in self.wanted(now) {
            let Some(next) = free.iter_mut().min() else { break };
            let (end, head) = self.pass(wanted.volume, 0, *next + mount, &mut forecasts);
            *next = end + duration(self.out_secs(wanted.volume, head));
        }
        forecasts
    }

    /// Adds the forecasts of the requests that a drive will serve from the volume in it. Returns
    /// the time at which the drive will be empty.
    fn follow(
        &mut self,
        id: DriveId,
        ready: Duration,
        forecasts: &mut BTreeMap<RequestId, Forecast>,
    ) -> Duration {
        let drive = self.drives[&id];
        let head = match drive.state {
            State::Reading { request, .. } => {
                forecasts.insert(request, Forecast { ahead: 0, served_at: ready });
                self.queue.request(request).source.stop.end()
            }
            State::Mounting { .. } => 0,
            _ => drive.head,
        };
        match drive.state {
            State::Empty | State::Dismounting { .. } | State::Broken { .. } => ready,
            State::Mounting { volume, .. }
            | State::Idle { volume, .. }
            | State::Lent { volume, .. }
            | State::Reading { volume, .. } => {
                if self.queue.lane(volume).is_some() {
                    self.plan(volume, head);
                }
                let (end, head) = self.pass(volume, head, ready, forecasts);
                end + duration(self.out_secs(volume, head))
            }
        }
    }

    /// Adds the forecasts of the requests that wait for `volume`, if their reads begin at `start`.
    /// Returns the time and the address at their end.
    fn pass(
        &self,
        volume: VolumeId,
        head: u64,
        start: Duration,
        forecasts: &mut BTreeMap<RequestId, Forecast>,
    ) -> (Duration, u64) {
        let Some(lane) = self.queue.lane(volume) else { return (start, head) };
        let planned: BTreeSet<RequestId> = lane.plan.iter().copied().collect();
        let late = lane.waiting.iter().filter(|id| !planned.contains(id));
        let order = lane.plan.iter().filter(|id| lane.waiting.contains(id)).chain(late);
        let (geometry, timing) = (self.geometry(volume), &self.timing);
        let (mut at, mut head) = (start, geometry.point(head));
        for (ahead, id) in order.enumerate() {
            let stop = self.queue.request(*id).source.stop;
            let positioning = timing.reach(&head, &geometry.point(stop.at)).1;
            debug_assert!(positioning >= 0.0, "no way takes negative time");
            at += duration(positioning + timing.read_secs(stop.bytes));
            head = geometry.point(stop.end());
            forecasts.insert(*id, Forecast { ahead, served_at: at });
        }
        (at, head.address)
    }

    /// Returns the seconds of dismounting a volume that stands at `head`, as if little of it had
    /// been read since the mount.
    fn out_secs(&self, volume: VolumeId, head: u64) -> f64 {
        let geometry = self.geometry(volume);
        self.timing.dismount_secs(geometry.along(&geometry.point(head)), 0.0)
    }

    /// Returns the time at which a drive will have ended its task; `None` for a drive that has
    /// failed.
    fn ready_at(&self, now: Duration, id: DriveId) -> Option<Duration> {
        let drive = &self.drives[&id];
        let (since, secs) = match drive.state {
            State::Empty | State::Idle { .. } => return Some(now),
            State::Broken { .. } => return None,
            // A borrower gives the drive back earlier if another request waits for its volume.
            State::Lent { since, .. } => (since, self.config.turn_min.as_secs_f64()),
            State::Mounting { since, .. } => (since, self.timing.mount_secs()),
            State::Reading { since, .. } | State::Dismounting { since, .. } => {
                (since, drive.estimate_secs)
            }
        };
        Some(now.max(since + duration(secs)))
    }

    /// Returns the copy that can be read first; `None` if no volume with a copy is available.
    pub(super) fn earliest(&self, now: Duration, sources: &[Source]) -> Option<Source> {
        let there: Vec<&Source> = sources
            .iter()
            .filter(|source| !self.absent.contains_key(&source.volume))
            .collect();
        if let [only] = there.as_slice() {
            return Some(**only);
        }
        let served = |source: &&&Source| self.served_secs(now, source);
        there
            .iter()
            .min_by(|a, b| served(a).total_cmp(&served(b)))
            .map(|source| **source)
    }

    /// Returns the estimated seconds until the read of `source` would begin, after all requests
    /// that wait for its volume.
    fn served_secs(&self, now: Duration, source: &Source) -> f64 {
        let geometry = self.geometry(source.volume);
        let start = geometry.point(source.stop.at);
        let holder = self.drives.iter().find(|(_, drive)| is_holding(drive, source.volume));
        let (ready, head) = match holder {
            Some((id, drive)) => (secs_to(now, self.ready_at(now, *id)), drive.head),
            None => (self.next_drive_secs(now) + self.timing.mount_secs(), 0),
        };
        let queued = self.lane_secs(source.volume);
        ready + queued + self.timing.reach(&geometry.point(head), &start).1
    }

    /// Returns the estimated seconds until a drive is available for another volume.
    fn next_drive_secs(&self, now: Duration) -> f64 {
        let until_empty = |(id, drive): (&DriveId, &Drive)| {
            let ready = secs_to(now, Some(self.ready_at(now, *id)?));
            let volume =
                drive.volume().filter(|_| !matches!(drive.state, State::Dismounting { .. }));
            Some(
                ready
                    + volume.map_or(0.0, |volume| self.lane_secs(volume) + self.dismount_secs(*id)),
            )
        };
        self.drives.iter().filter_map(until_empty).fold(f64::INFINITY, f64::min)
    }

    fn lane_secs(&self, volume: VolumeId) -> f64 {
        self.queue.lane(volume).map_or(0.0, |lane| lane.plan_secs)
    }
}

/// Returns true if `volume` is in the drive or on its way into it, and is not being taken out.
fn is_holding(drive: &Drive, volume: VolumeId) -> bool {
    let leaves = matches!(drive.state, State::Dismounting { .. } | State::Broken { .. });
    drive.volume() == Some(volume) && !leaves
}

fn secs_to(now: Duration, at: Option<Duration>) -> f64 {
    at.map_or(f64::INFINITY, |at| at.saturating_sub(now).as_secs_f64())
}
