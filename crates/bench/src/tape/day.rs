//! A day of a library with six drives: files are opened all day, and a few lists are requested.
//!
//! 1. Files are in projects, which are regions of a volume. Some projects and some volumes are used
//!    more than others. Most files are opened in working hours, few at night.
//! 2. The same requests are served in three ways. *One by one*: requests in the order of arrival,
//!    each with a mount unless the volume is in a drive. *By volume*: the volume of the oldest
//!    request is mounted, and all requests for it are served in the order of arrival. *Queue*: the
//!    schedule.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::schedule::{Config, Kind, Schedule, Source, VolumeId};
use tape::simulation::Simulation;
use tape::timing::{Timing, duration};

use super::demand::{ask, fraction, seeded, source};
use super::orders::scattered;
use crate::random::Random;

pub(super) const OPENS: u64 = 10_000;
pub(super) const LISTS: u64 = 12;
pub(super) const LIST_FILES: u64 = 300;
pub(super) const VOLUMES: u64 = 40;
pub(super) const DRIVES: u32 = 6;
/// One request in this number gets a forecast of the time at which it is served. A forecast needs a
/// plan of all requests, so only a part gets one. The part is large enough to show the errors.
const FORECAST_INTERVAL: u64 = 10;
const PROJECTS: u64 = 50;
const PROJECT_BYTES: u64 = 20_000_000_000;
const FILE_BYTES: u64 = 100_000_000;
const SEED: u64 = 1;
/// Relative numbers of the files that are opened in each hour of the day.
const HOURS: [u64; 24] =
    [1, 1, 1, 1, 1, 2, 4, 8, 12, 14, 14, 12, 10, 12, 14, 12, 10, 8, 5, 4, 3, 2, 2, 1];

/// A request for a file. The number of its waiter is the index of the request among all requests.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: Duration,
    kind: Kind,
    source: Source,
}

/// The 50th, 90th and 99th percentiles of times, and the greatest time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) most: f64,
}

/// One way to serve the requests of the day. Waits are in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) opens: Percentiles,
    pub(super) lists: Percentiles,
    pub(super) mounts: u64,
    /// Time at which the last request was served, in seconds after the start of the day.
    pub(super) end_secs: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Day {
    pub(super) ways: [Way; 3],
    /// Differences between the forecast for an opened file and the time at which it was served, in
    /// seconds.
    pub(super) errors: Percentiles,
}

pub(super) fn day() -> Day {
    let wanted = wanted();
    let (queue, errors) = queued(&wanted);
    Day { ways: [one_by_one(&wanted), by_volume(&wanted), queue], errors }
}

impl Percentiles {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
            sorted.get(index).copied().unwrap_or(0.0)
        };
        Self { p50: at(50), p90: at(90), p99: at(99), most: at(100) }
    }
}

impl Way {
    /// Makes the figures of a way. `served` has the time at which each of `wanted` was served.
    fn new(name: &'static str, wanted: &[Request], served: &[Duration], mounts: u64) -> Self {
        let waits = |kind: Kind| {
            let of_kind = wanted.iter().zip(served).filter(move |(wanted, _)| wanted.kind == kind);
            Percentiles::of(of_kind.map(|(wanted, at)| (*at - wanted.at).as_secs_f64()))
        };
        let end = served.iter().max().copied().unwrap_or_default();
        let (opens, lists) = (waits(Kind::Open), waits(Kind::List));
        Self { name, opens, lists, mounts, end_secs: end.as_secs_f64() }
    }
}

/// Returns all requests of the day, in the order of arrival.
fn wanted() -> Vec<Request> {
    let mut random = seeded(SEED);
    let mut wanted: Vec<Request> = (0..OPENS).map(|_| opened(&mut random)).collect();
    for list in 0..LISTS {
        let at = duration(fraction(&mut random) * 86_400.0);
        let volume = random.below(VOLUMES);
        let files = scattered(LIST_FILES, SEED + 1 + list, FILE_BYTES);
        wanted.extend(files.into_iter().map(|stop| Request {
            at,
            kind: Kind::List,
            source: source(volume, stop.at, stop.bytes),
        }));
    }
    wanted.sort_by_key(|wanted| wanted.at);
    wanted
}

fn opened(random: &mut Random) -> Request {
    let mut weight = random.below(HOURS.iter().sum());
    let hour = HOURS.iter().position(|of_hour| {
        let is_in = weight < *of_hour;
        weight = weight.saturating_sub(*of_hour);
        is_in
    });
    let hour = u32::try_from(hour.unwrap_or(0)).unwrap_or(0);
    let at = duration((f64::from(hour) + fraction(random)) * 3600.0);
    // The product of two random numbers makes low numbers frequent. So the first volumes, and the
    // first projects of each volume, are used most.
    let popular = |random: &mut Random, count: u64| {
        let [one, other] = [random.below(count), random.below(count)];
        one * other / count
    };
    let (volume, project) = (popular(random, VOLUMES), popular(random, PROJECTS));
    let within = random.below(PROJECT_BYTES / FILE_BYTES) * FILE_BYTES;
    let begin = seeded(volume * PROJECTS + project)
        .below(MEDIUM_LTO8.capacity_bytes - PROJECT_BYTES - FILE_BYTES);
    Request { at, kind: Kind::Open, source: source(volume, begin + within, FILE_BYTES) }
}

fn queued(wanted: &[Request]) -> (Way, Percentiles) {
    let geometry = Geometry::even(MEDIUM_LTO8);
    let config = Config::new(Timing::lto8(), DRIVES as usize);
    let schedule = Schedule::new(config, geometry.clone());
    let mut library = Simulation::new(schedule, config.timing, geometry, DRIVES);
    library.told_every = FORECAST_INTERVAL;
    for (id, wanted) in (0..).zip(wanted) {
        library.ask(wanted.at, ask(id, wanted.kind, wanted.source));
    }
    library.run();
    let mut all = library.served.clone();
    all.sort_by_key(|served| served.waiter);
    let served: Vec<Duration> = all.iter().map(|served| served.served).collect();
    let opens = all.iter().zip(wanted).filter(|(_, wanted)| wanted.kind == Kind::Open);
    let errors =
        opens.filter_map(|(served, _)| Some(served.told?.abs_diff(served.served).as_secs_f64()));
    let errors = Percentiles::of(errors);
    (Way::new("queue", wanted, &served, library.mounts), errors)
}

/// A drive of a library without a schedule.
#[derive(Clone, Copy, Debug, Default)]
struct Drive {
    volume: Option<VolumeId>,
    head: u64,
    free: Duration,
    mounts: u64,
}

impl Drive {
    /// Serves `wanted` as soon as the drive is free. Returns the time at which the file is read.
    fn serve(&mut self, wanted: &Request) -> Duration {
        let (timing, geometry) = (Timing::lto8(), Geometry::even(MEDIUM_LTO8));
        let Source { volume, stop } = wanted.source;
        let mut secs = 0.0;
        if self.volume != Some(volume) {
            let along = geometry.along(&geometry.point(self.head));
            secs += self.volume.map_or(0.0, |_| timing.dismount_secs(along, 0.0));
            secs += timing.mount_secs();
            (self.volume, self.head) = (Some(volume), 0);
            self.mounts += 1;
        }
        secs += timing.reach(&geometry.point(self.head), &geometry.point(stop.at)).1;
        secs += timing.read_secs(stop.bytes);
        self.head = stop.end();
        self.free = self.free.max(wanted.at) + duration(secs);
        self.free
    }
}

fn one_by_one(wanted: &[Request]) -> Way {
    let mut drives = [Drive::default(); DRIVES as usize];
    let serve = |wanted: &Request| {
        let holds = |drive: &Drive| drive.volume == Some(wanted.source.volume);
        let order = |drive: &&mut Drive| (!holds(drive), drive.free);
        drives.iter_mut().min_by_key(order).expect("there are drives").serve(wanted)
    };
    let served: Vec<Duration> = wanted.iter().map(serve).collect();
    Way::new("one by one", wanted, &served, drives.iter().map(|drive| drive.mounts).sum())
}

fn by_volume(wanted: &[Request]) -> Way {
    let mut queues: BTreeMap<VolumeId, VecDeque<usize>> = BTreeMap::new();
    for (index, one) in wanted.iter().enumerate() {
        queues.entry(one.source.volume).or_default().push_back(index);
    }
    let mut drives = [Drive::default(); DRIVES as usize];
    let mut served = vec![Duration::ZERO; wanted.len()];
    while !queues.is_empty() {
        let first = (0..drives.len()).min_by_key(|at| drives[*at].free);
        let first = first.expect("there are drives");
        let others: Vec<Option<VolumeId>> = (0..drives.len())
            .filter(|at| *at != first)
            .map(|at| drives[at].volume)
            .collect();
        let now = drives[first].free;
        // The drive keeps its volume while a request waits for it. Otherwise it takes the volume
        // whose first request has waited longest.
        let order = |(volume, queue): &(&VolumeId, &VecDeque<usize>)| {
            let at = wanted[queue[0]].at;
            (at > now, drives[first].volume != Some(**volume) || at > now, at)
        };
        let free = queues.iter().filter(|(volume, _)| !others.contains(&Some(**volume)));
        let Some(volume) = free.min_by_key(order).map(|(volume, _)| *volume) else {
            // All volumes with requests are in other drives, so this drive has no more work.
            drives[first].free = Duration::MAX;
            continue;
        };
        let queue = queues.get_mut(&volume).expect("the volume was found in the map");
        let next = queue.pop_front().expect("no queue is kept empty");
        served[next] = drives[first].serve(&wanted[next]);
        if queue.is_empty() {
            queues.remove(&volume);
        }
    }
    Way::new("by volume", wanted, &served, drives.iter().map(|drive| drive.mounts).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let of = Percentiles::of((1..=1000).rev().map(f64::from));
        assert_eq!([of.p50, of.p90, of.p99, of.most], [501.0, 901.0, 991.0, 1000.0]);
        assert_eq!(Percentiles::of(std::iter::empty()).most.to_bits(), 0);
    }

    #[test]
    fn a_day_is_the_same_each_time_and_has_its_opens_by_day() {
        let (first, second) = (wanted(), wanted());
        assert!(first.iter().zip(&second).all(|(a, b)| a.at == b.at && a.source == b.source));
        let opens = first.iter().filter(|wanted| wanted.kind == Kind::Open);
        let by_day = opens.filter(|wanted| (7..18).contains(&(wanted.at.as_secs() / 3600)));
        assert!(by_day.count() > 8000);
    }

    #[test]
    fn whoever_comes_alone_is_served_alike() {
        let alone = Request {
            at: Duration::from_secs(5),
            kind: Kind::Open,
            source: source(1, 1_000_000_000, FILE_BYTES),
        };
        let served = [one_by_one, by_volume].map(|way| way(&[alone]).opens.most);
        let (queue, _) = queued(&[alone]);
        for waited in served {
            assert!((waited - queue.opens.most).abs() < 1e-3, "{waited}");
        }
    }
}
