//! Figures of one place and its host, as the model of the pipeline needs them. They come from a
//! report.

use crate::processor::Rate;
use crate::report::{Place, Report};
use crate::sample::{Estimate, Reading};
use crate::tree::Share;
use crate::walks::{Walk, Warmth, Way};

/// Rate of a network that was not measured, in bytes per second, and its round trip.
const NETWORK_UNKNOWN: f64 = f64::INFINITY;

/// Rates of one thread, in bytes per second, where the constants of the pipeline were measured.
const DIGEST_REFERENCE: f64 = 4.5e9;
const DECOMPRESS_REFERENCE: f64 = 1.9e9;

/// Share of the time that threads may leave unused without waiting for a disk.
const GAPS: f64 = 0.25;

/// Time of one unit of work, in seconds: for an object, a file or a byte.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Cost {
    /// Waiting for the disk.
    pub(crate) wait: f64,
    /// Working of all processors together: processor time by the number of processors.
    pub(crate) work: f64,
}

impl Cost {
    /// Returns the cost of each of `units`, which took `elapsed` with `processor` seconds of
    /// processor time on `processors`.
    pub(crate) fn of(units: f64, elapsed: f64, processor: f64, processors: f64) -> Self {
        if units <= 0.0 {
            return Self::default();
        }
        let work = (processor / processors).min(elapsed);
        let wait = elapsed - work;
        // Threads that are never short of work still leave gaps, which are no waiting for a disk.
        let wait = if wait < GAPS * elapsed { 0.0 } else { wait };
        Self { wait: wait / units, work: work / units }
    }
}

/// The amount of work of a backup.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Amount {
    /// Objects that are looked at.
    pub(crate) objects: f64,
    pub(crate) directories: f64,
    /// Files that are read.
    pub(crate) small: Files,
    pub(crate) large: Files,
    /// Bytes that are read beside files and hold zeros.
    pub(crate) empty_bytes: f64,
    /// Share of the bytes of files that the server does not have, if it is known.
    pub(crate) new_share: Option<f64>,
}

/// A number of files and the sum of their sizes, measured or predicted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Files {
    pub(crate) count: f64,
    pub(crate) bytes: f64,
}

impl Files {
    pub(crate) fn new(share: Share, scale: f64) -> Self {
        Self {
            count: crate::to_f64(share.files) * scale,
            bytes: crate::to_f64(share.bytes) * scale,
        }
    }
}

impl Amount {
    pub(crate) fn bytes(&self) -> f64 {
        self.small.bytes + self.large.bytes
    }

    pub(crate) fn files(&self) -> f64 {
        self.small.count + self.large.count
    }
}

/// Figures of a place and its host.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Facts {
    pub(crate) processors: f64,
    /// Speed of the processors, relative to those of the constants.
    pub(crate) speed: f64,
    pub(crate) memory_available: f64,
    pub(crate) objects: f64,
    pub(crate) directories: f64,
    pub(crate) small: Files,
    pub(crate) large: Files,
    pub(crate) day: Files,
    pub(crate) file_system_bytes: f64,
    /// Bytes that an image reads beside the used ones.
    pub(crate) file_system_own_bytes: f64,
    /// Walking, for each object: as the first backup finds the caches, and later ones.
    pub(crate) walk_first: Cost,
    pub(crate) walk_again: Cost,
    pub(crate) read_small: Cost,
    pub(crate) read_large: Cost,
    pub(crate) create: Cost,
    pub(crate) ratio_small: Estimate,
    pub(crate) ratio_large: Estimate,
    pub(crate) copies: Estimate,
    /// Rates of all processors together, in bytes per second.
    pub(crate) cut: f64,
    pub(crate) digest: f64,
    pub(crate) compress: f64,
    pub(crate) decompress: f64,
    pub(crate) encrypt: f64,
    pub(crate) to_server: f64,
    pub(crate) from_server: f64,
    pub(crate) round_trip: f64,
    pub(crate) server_is_here: bool,
    pub(crate) read_stream: f64,
    pub(crate) write_stream: f64,
    /// Most random reads per second, and the queue depth that gives them.
    pub(crate) iops: Option<(f64, u32)>,
}

impl Facts {
    pub(crate) fn new(report: &Report, place: &Place) -> Self {
        let (tree, sample, rates) = (&place.tree, &place.sample, &report.processor);
        let processors = f64::from(report.host.processors.max(1));
        let scale = tree.scale();
        let reading = |reading: &Reading, units: u64| {
            Cost::of(crate::to_f64(units), reading.elapsed_secs, reading.processor_secs, processors)
        };
        let survey = Cost::of(
            crate::to_f64(tree.objects),
            tree.elapsed_secs,
            tree.processor_secs,
            processors,
        );
        let (to_server, from_server) =
            report.network.rates().unwrap_or((NETWORK_UNKNOWN, NETWORK_UNKNOWN));
        let ratio = sample.ratio_small.or(sample.ratio_large);
        let ratio = ratio.unwrap_or(Estimate { value: 0.5, error: 0.25 });
        let day = tree.usual_day();
        Self {
            processors,
            speed: speed(&rates.digest, &rates.decompress),
            memory_available: crate::to_f64(report.host.memory_available_bytes),
            objects: crate::to_f64(tree.objects) * scale,
            directories: crate::to_f64(tree.directories) * scale,
            small: Files::new(tree.small, scale),
            large: Files::new(tree.large(), scale),
            day: Files::new(day, scale),
            file_system_bytes: crate::to_f64(tree.file_system_bytes.max(tree.allocated_bytes)),
            file_system_own_bytes: crate::to_f64(tree.file_system_own_bytes),
            walk_first: survey,
            walk_again: again(&place.walks, processors).unwrap_or(survey),
            read_small: small_cost(&sample.small, processors),
            read_large: sample
                .large
                .as_ref()
                .map_or_else(Cost::default, |large| reading(large, large.bytes)),
            create: place.creation.as_ref().map_or_else(Cost::default, |made| {
                let files = crate::to_f64(made.files);
                Cost::of(files, made.elapsed_secs, made.processor_secs, processors)
            }),
            ratio_small: sample.ratio_small.unwrap_or(ratio),
            ratio_large: sample.ratio_large.unwrap_or(ratio),
            copies: sample.copies.unwrap_or_default(),
            cut: rates.cut.all,
            digest: rates.digest.all,
            compress: rates.standard().map_or(f64::INFINITY, |row| row.rate.all),
            decompress: rates.decompress.all,
            encrypt: rates.aes_gcm.all,
            to_server,
            from_server,
            round_trip: report.network.round_trip_secs(),
            server_is_here: report.network.server_is_here,
            read_stream: place.disk.as_ref().map_or(f64::INFINITY, |disk| disk.read.bytes_per_sec),
            write_stream: place
                .disk
                .as_ref()
                .map_or(f64::INFINITY, |disk| disk.write.bytes_per_sec),
            iops: place
                .disk
                .as_ref()
                .and_then(|disk| Some((disk.iops_max(), disk.depth_enough()?))),
        }
    }

    pub(crate) fn bytes(&self) -> f64 {
        self.small.bytes + self.large.bytes
    }

    /// Returns the time for one unit of work, whose constant is `secs` of processor time.
    pub(crate) fn own(&self, secs: f64) -> f64 {
        secs / self.speed / self.processors
    }

    /// Returns the time for one byte at a rate of all processors together.
    pub(crate) fn each_byte(&self, rate: f64) -> f64 {
        if rate > 0.0 { 1.0 / rate } else { 0.0 }
    }
}

/// Returns the speed of the processors relative to those of the constants.
fn speed(digest: &Rate, decompress: &Rate) -> f64 {
    let ratio = digest.one / DIGEST_REFERENCE * decompress.one / DECOMPRESS_REFERENCE;
    if ratio > 0.0 { ratio.sqrt() } else { 1.0 }
}

/// Returns the cost of reading a small file. A backup begins with few threads and finds the number
/// that reads fastest while it runs, so it waits as long as few and many do on average.
fn small_cost(readings: &[Reading], processors: f64) -> Cost {
    let of = |one: &Reading| {
        let files = crate::to_f64(one.files);
        Cost::of(files, one.elapsed_secs, one.processor_secs, processors)
    };
    let costs: Vec<Cost> = readings.iter().filter(|one| one.files > 0).map(of).collect();
    let fastest = costs.iter().min_by(|a, b| (a.wait + a.work).total_cmp(&(b.wait + b.work)));
    let Some(fastest) = fastest else { return Cost::default() };
    let waits: f64 = costs.iter().map(|cost| cost.wait).sum();
    Cost { wait: waits / crate::to_f64(costs.len() as u64), work: fastest.work }
}

/// Returns the cost of an object of the walk that is nearest to that of later backups: warm, by
/// descriptor, with the number of threads that is fastest.
fn again(walks: &[Walk], processors: f64) -> Option<Cost> {
    let rate = |walk: &&Walk| walk.objects_per_sec();
    let of = |warmth: Warmth| {
        let walks = walks.iter().filter(move |walk| {
            walk.way == Way::Descriptor && walk.warmth == warmth && walk.objects > 0
        });
        walks.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    // Where the caches were dropped, the nightly run finds them as cold.
    let walk = of(Warmth::Cold).or_else(|| of(Warmth::Warm)).or_else(|| of(Warmth::AsFound))?;
    let units = crate::to_f64(walk.objects);
    Some(Cost::of(units, walk.elapsed_secs, walk.processor_secs, processors))
}
