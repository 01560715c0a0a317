//! The measurement: its parts in their order, each within its time.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Client, NetworkPlan, Progress};
use sys::lock::Mutex;

use crate::disk::counters::Device;
use crate::facts::Facts;
use crate::history::History;
use crate::host::{Host, StrainWatch};
use crate::pipeline;
use crate::plan::{Plan, STREAMS};
use crate::prediction::Prediction;
use crate::processor::Stopwatch;
use crate::report::{DOCUMENT_VERSION, Network, Place, Report};
use crate::sample::Sample;
use crate::tree::{Draw, Survey};
use crate::walks::{self, Warmth, Way};
use crate::{creation, disk, memory, processor, sample, tree};

/// Progress of a measurement, shared with its display.
pub struct Watch {
    state: Mutex<State>,
    at_most: Duration,
    /// Its stop ends the measurement, which leaves nothing behind.
    progress: Arc<Progress>,
}

struct State {
    part: String,
    began: Instant,
    /// Time that the part may take, and that the parts before it might have taken.
    allotted: Duration,
    before: Duration,
}

impl Watch {
    /// Makes the progress of a measurement by `plan`, which a stop of `progress` ends soon.
    pub fn new(plan: &Plan, progress: Arc<Progress>) -> Self {
        let state = State {
            part: "starting".to_owned(),
            began: sys::clock::monotonic(),
            allotted: Duration::ZERO,
            before: Duration::ZERO,
        };
        Self { state: Mutex::new(state), at_most: plan.at_most(), progress }
    }

    fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }

    /// Returns the name of the part that is measured, and the time left at most.
    pub fn now(&self) -> (String, Duration) {
        let state = self.state.lock();
        let spent = state.before + state.began.elapsed().min(state.allotted);
        (state.part.clone(), self.at_most.saturating_sub(spent))
    }

    fn begin(&self, part: &str, allotted: Duration) {
        let mut state = self.state.lock();
        let over = state.allotted;
        state.before += over;
        state.allotted = allotted;
        state.began = sys::clock::monotonic();
        part.clone_into(&mut state.part);
    }
}

/// Reason why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("stopped; nothing is left behind")]
    Stopped,
    #[error("cannot read {path}: {error}; name a directory that this user may read")]
    Path { path: String, error: io::Error },
    #[error("cannot drop the caches of this machine: {0}; run as root, or without --cold")]
    Caches(io::Error),
}

/// Places and server that are measured.
pub struct Subject<'a> {
    pub paths: &'a [PathBuf],
    /// The connection of this node; `None` if the host is no node, or the server is away.
    pub client: Option<&'a Client>,
    /// Sentence that says why there is no connection.
    pub no_client: Option<String>,
    pub history: &'a History,
}

/// Measures. A part that fails leaves a remark.
pub fn run(subject: &Subject<'_>, plan: &Plan, watch: &Watch) -> Result<Report, RunError> {
    subject.paths.iter().try_for_each(|path| check(path))?;
    let began = sys::clock::monotonic();
    let made_micros = sys::clock::system().0;
    let strain = StrainWatch::start();
    let host = Host::describe();
    let mut measurement = Measurement { plan, watch, remarks: Vec::new() };
    let mut surveyed = Vec::new();
    for path in subject.paths {
        // Before the tree is counted: no backup will see these files.
        creation::remove_stale(path);
        surveyed.push(measurement.tree(path)?);
    }
    let sample = measurement.sample_content(&surveyed);
    let stopwatch = Stopwatch { each: plan.rate(), is_stopped: &|| watch.is_stopped() };
    watch.begin("processors", plan.rate() * processor::RATES);
    let processor = processor::measure(&sample, &stopwatch);
    watch.begin("memory", plan.rate() * memory::RATES);
    let memory = memory::measure(&stopwatch);
    let network = measurement.network(subject)?;
    let places = surveyed.into_iter().map(|place| measurement.place(place)).collect();
    if watch.is_stopped() {
        return Err(RunError::Stopped);
    }
    let strain = strain.end();
    measurement.remarks.extend(strain.remarks());
    let mut report = Report {
        document_version: DOCUMENT_VERSION,
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        made_micros,
        elapsed_secs: began.elapsed().as_secs_f64(),
        depth: plan.depth,
        cold: plan.cold,
        host,
        strain,
        processor,
        memory,
        network,
        places,
        remarks: measurement.remarks,
    };
    predict(&mut report, subject.history);
    Ok(report)
}

/// Fills in the predictions.
fn predict(report: &mut Report, history: &History) {
    let predictions = report.places.iter().map(|place| {
        let facts = Facts::new(report, place);
        pipeline::predict(&facts, &|work| history.fitted(work))
    });
    let predictions: Vec<_> = predictions.collect();
    let remarks = predictions.iter().zip(&report.places).filter_map(|(predictions, place)| {
        remark_on_memory(predictions, place, report.host.memory_available_bytes)
    });
    let remarks: Vec<String> = remarks.collect();
    report.remarks.extend(remarks);
    for (place, predictions) in report.places.iter_mut().zip(predictions) {
        place.predictions = predictions;
    }
}

/// Returns a sentence if a backup of `place` may need more memory than there is.
fn remark_on_memory(
    predictions: &[Prediction],
    place: &Place,
    available_bytes: u64,
) -> Option<String> {
    let needs = predictions.iter().map(|one| one.node_memory_bytes.most).fold(0.0, f64::max);
    (needs > crate::to_f64(available_bytes)).then(|| {
        format!(
            "A backup of {} may need {:.0} MiB of memory, but only {} MiB are available.",
            place.path,
            needs / 1_048_576.0,
            available_bytes >> 20
        )
    })
}

fn check(path: &Path) -> Result<(), RunError> {
    let listed = crate::open(path).and_then(|opened| opened.list(&mut sys::Listing::default()));
    listed.map_err(|error| RunError::Path { path: shown(path), error })
}

fn shown(path: &Path) -> String {
    model::escaped(path.as_os_str().as_bytes())
}

/// A place after its tree was read.
struct SurveyedPlace {
    path: PathBuf,
    tree: Survey,
    walks: Vec<walks::Walk>,
    sample: Sample,
    content: Vec<u8>,
}

struct Measurement<'a> {
    plan: &'a Plan,
    watch: &'a Watch,
    remarks: Vec<String>,
}

impl Measurement<'_> {
    /// Surveys a tree, reads its sample, and walks it.
    ///
    /// The survey comes first: it finds the caches as a backup would, and takes the part of a cold
    /// backup's walk. The sample is read next, so that its inodes are in memory but not its data,
    /// as when a backup reads behind its walk.
    fn tree(&mut self, path: &Path) -> Result<SurveyedPlace, RunError> {
        let (plan, watch) = (self.plan, self.watch);
        let is_stopped = || watch.is_stopped();
        if plan.cold {
            walks::drop_caches().map_err(RunError::Caches)?;
        }
        let warmth = if plan.cold { Warmth::Cold } else { Warmth::AsFound };
        watch.begin("counting the tree", plan.survey());
        let threads = sys::process::processors();
        let order =
            tree::Order { warmth, threads, at_most: plan.survey(), is_stopped: &is_stopped };
        let (tree, draw) = tree::survey(path, &order);
        self.remark_on_tree(path, &tree);
        let (sample, content) = self.sample(&draw);
        let walks = self.walks(path)?;
        Ok(SurveyedPlace { path: path.to_owned(), tree, walks, sample, content })
    }

    fn remark_on_tree(&mut self, path: &Path, tree: &Survey) {
        let path = shown(path);
        if !tree.whole {
            let rest = match tree.file_system_objects {
                Some(all) => format!(
                    "its file system counts {all} objects; the predictions take those as one tree \
                     like the part that was counted"
                ),
                None => "the predictions are for the part that was counted".to_owned(),
            };
            self.remarks.push(format!(
                "{path} was counted in part, {} objects in {:.0} s: {rest}.",
                tree.objects, tree.elapsed_secs
            ));
        }
        if tree.failed > 0 {
            let objects = if tree.failed == 1 { "object" } else { "objects" };
            self.remarks
                .push(format!("{} {objects} of {path} could not be read.", tree.failed));
        }
    }

    fn sample(&self, draw: &Draw) -> (Sample, Vec<u8>) {
        let each = self.plan.sample_part();
        let order = sample::Order {
            each,
            is_stopped: &|| self.watch.is_stopped(),
            begins: &|part| self.watch.begin(part, each),
        };
        sample::read(draw, &order)
    }

    /// Walks the tree in both ways, by all numbers of threads.
    fn walks(&self, path: &Path) -> Result<Vec<walks::Walk>, RunError> {
        let at_most = self.plan.walk();
        let mut done = Vec::new();
        let walk = |way, warmth, threads| {
            let name = match way {
                Way::Path => "walking by path",
                Way::Descriptor => "walking by descriptor",
            };
            self.watch.begin(&format!("{name}, {threads} threads"), at_most);
            let is_stopped = || self.watch.is_stopped();
            walks::walk(
                path,
                &walks::Order { way, warmth, threads, at_most, is_stopped: &is_stopped },
            )
        };
        for threads in self.plan.threads() {
            for way in [Way::Path, Way::Descriptor] {
                done.push(walk(way, Warmth::Warm, threads));
            }
        }
        if self.plan.cold {
            for threads in self.plan.threads() {
                walks::drop_caches().map_err(RunError::Caches)?;
                done.push(walk(Way::Descriptor, Warmth::Cold, threads));
            }
        }
        Ok(done)
    }

    /// Returns real data to measure the processors with: content of the sample, or, of an empty
    /// tree, this program.
    fn sample_content(&mut self, places: &[SurveyedPlace]) -> Vec<u8> {
        let content: Vec<u8> =
            places.iter().flat_map(|place| place.content.iter().copied()).collect();
        if content.len() >= model::QUANTUM_BYTES_MAX {
            return content;
        }
        self.remarks.push(
            "The trees hold too little to measure compression with; the program's own file was \
             used."
                .to_owned(),
        );
        let program = std::fs::read("/proc/self/exe").unwrap_or_default();
        [content, program, vec![0]].concat()
    }

    fn network(&mut self, subject: &Subject<'_>) -> Result<Network, RunError> {
        let Some(client) = subject.client else {
            let why =
                subject.no_client.clone().unwrap_or_else(|| "This host is no node.".to_owned());
            self.remarks.push(format!("{why} The network is not in the predictions."));
            return Ok(Network::default());
        };
        let server = client.server().to_owned();
        let server_is_here = is_here(&server);
        let plan = NetworkPlan {
            round_trips: self.plan.round_trips(),
            streams: STREAMS.into(),
            each: self.plan.transfer(),
            plain: true,
        };
        let at_most = self.plan.network();
        self.watch.begin("network", at_most);
        let measured = client.measure_network(&plan, &self.watch.progress);
        if self.watch.is_stopped() {
            return Err(RunError::Stopped);
        }
        let measured = match measured {
            Ok(measured) => Some(measured),
            Err(error) => {
                self.remarks.push(format!("The network was not measured: {error}."));
                None
            }
        };
        if let Some(why) = measured.as_ref().and_then(|measured| measured.plain_refused.as_ref()) {
            self.remarks.push(format!("A plain connection was not measured: {why}."));
        }
        Ok(Network { server: Some(server), server_is_here, measured })
    }

    /// Measures the disk of a place, and the making of files there.
    fn place(&mut self, surveyed: SurveyedPlace) -> Place {
        let SurveyedPlace { path, tree, walks, sample, content: _ } = surveyed;
        let is_stopped = || self.watch.is_stopped();
        let each = self.plan.disk_job();
        let order = disk::Order {
            file_bytes: self.plan.disk_file_bytes(),
            each,
            cold: self.plan.cold,
            is_stopped: &is_stopped,
            begins: &|job| self.watch.begin(&format!("disk: {job}"), each),
        };
        let disk = disk::measure(&path, &order);
        self.watch.begin("making files", self.plan.creation());
        let creation = creation::measure(&path, self.plan.creation(), &is_stopped);
        let name = shown(&path);
        let device = Device::of(&path);
        if disk.is_ok() && device.as_ref().is_some_and(Device::is_cached_file) {
            self.remarks.push(format!(
                "The disk of {name} is a file that is read through the page cache; the figures of \
                 its disk are in part those of the memory, so an image may take longer than \
                 predicted."
            ));
        }
        let disk = disk.map_err(|error| {
            self.remarks.push(format!(
                "The disk of {name} was not measured: {error}. The predictions of image backups \
                 and restores leave it out."
            ));
        });
        let creation = creation.map_err(|error| {
            self.remarks.push(format!(
                "Making files in {name} was not measured: {error}. The prediction of restores \
                 leaves it out."
            ));
        });
        if disk.as_ref().is_ok_and(|disk| !disk.direct) {
            self.remarks.push(format!(
                "The file system of {name} reads only through the page cache; the figures of its \
                 disk are those of the memory."
            ));
        }
        let file_system = crate::file_system(&path).unwrap_or_default();
        let device = device.and_then(|device| device.name());
        Place {
            path: name,
            file_system,
            device,
            tree,
            walks,
            sample,
            disk: disk.ok(),
            creation: creation.ok(),
            predictions: Vec::new(),
        }
    }
}

/// Returns true if a server's address is one of this host.
fn is_here(server: &str) -> bool {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(addresses) = (host, 0_u16).to_socket_addrs() else { return false };
    // An address that can be bound is one of this host.
    let is_own = |address: SocketAddr| UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok();
    addresses.into_iter().any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_host_is_recognised() {
        assert!(is_here("localhost:1500") && is_here("127.0.0.1:1500"));
        assert!(!is_here("192.0.2.7:1500") && !is_here("[2001:db8::7]:1500"));
    }

    /// Without fio, the image of a slow disk seemed to take no time at the disk, and nothing said
    /// that nobody had looked.
    #[test]
    fn predictions_without_their_disk_are_said() {
        let plan = Plan::new(crate::Depth::Quick, false, 1);
        let watch = Watch::new(&plan, Arc::default());
        let mut measurement = Measurement { plan: &plan, watch: &watch, remarks: Vec::new() };
        let folder = tempfile::tempdir().expect("a folder");
        let surveyed = measurement.tree(folder.path()).expect("the folder is read");
        assert_eq!(measurement.remarks, [""; 0]);
        // Nobody can make a file there.
        let place = measurement.place(SurveyedPlace { path: "/proc".into(), ..surveyed });
        assert!(place.disk.is_none() && place.creation.is_none());
        let remarks = measurement.remarks.join("\n");
        for words in ["image backups and restores leave it out", "of restores leaves it out"] {
            assert!(remarks.contains(words), "{remarks}");
        }
    }

    #[test]
    fn the_time_left_goes_down_with_the_parts() {
        let plan = Plan::new(crate::Depth::Quick, false, 1);
        let watch = Watch::new(&plan, Arc::default());
        let second = Duration::from_secs(1);
        watch.begin("one", 10 * second);
        watch.begin("two", 5 * second);
        let (part, left) = watch.now();
        assert_eq!(part, "two");
        let after = plan.at_most() - 10 * second;
        assert!(left <= after && left > after - second, "{left:?}");
    }
}
