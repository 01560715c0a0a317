//! Measurements of each set over each link with each choice, in their order. See the drawing in
//! `compression.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpu::{Gpu, Settings};

use super::corpus::Corpus;
use super::sets::Kind;
use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Runner};
use crate::relay::{Link, Relay};
use crate::site::{Sample, Site};
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};
use crate::workplace::{self, Workplace};

/// A means of compression and its name on the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub(super) name: &'static str,
    /// The value of `--compression`.
    pub(super) value: &'static str,
    /// True if the client has one processor only.
    pub(super) is_confined: bool,
}

const fn choice(name: &'static str, value: &'static str) -> Choice {
    Choice { name, value, is_confined: false }
}

pub(super) const CHOICES: [Choice; 7] = [
    choice("none", "none"),
    Choice { is_confined: true, ..choice("one thread", "threads") },
    choice("threads", "threads"),
    choice("fast", "1"),
    choice("strong", "6"),
    choice("gpu", "gpu"),
    choice("auto", "auto"),
];

/// Index of no compression in [`CHOICES`].
pub(super) const NONE: usize = 0;
/// Index of compression with one processor in [`CHOICES`].
pub(super) const ONE_THREAD: usize = 1;
/// Index of the usual strength on all threads in [`CHOICES`].
pub(super) const THREADS: usize = 2;
/// Index of the GPU in [`CHOICES`].
pub(super) const GPU: usize = 5;
/// Index of the automatic choice in [`CHOICES`]. It is compared with all other choices.
pub(super) const AUTO: usize = 6;

/// Minimum size of a set in whose backup the automatic choice uses a GPU, in bytes. It looks for
/// one after 2 GB, and to open it takes a second or two.
pub(super) const AUTO_GPU_BYTES_MIN: u64 = 4_000_000_000;

/// A link between the node and the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Road {
    pub(super) name: &'static str,
    /// Rate of the link in bits per second; `None` for loopback, without a relay.
    bits_per_sec: Option<u64>,
}

pub(super) const ROADS: [Road; 3] = [
    Road { name: "loopback", bits_per_sec: None },
    Road { name: "1 Gbit/s", bits_per_sec: Some(1_000_000_000) },
    Road { name: "10 Mbit/s", bits_per_sec: Some(10_000_000) },
];

impl Road {
    /// Returns the size of the part of a set that this road carries uncompressed within `seconds`.
    /// The set has `set_bytes` bytes.
    fn bytes(self, set_bytes: u64, seconds: u64) -> u64 {
        let carried = |bits: u64| (bits / 8).saturating_mul(seconds);
        self.bits_per_sec.map_or(set_bytes, |bits| carried(bits).min(set_bytes))
    }
}

pub(super) struct Order {
    pub(super) set_bytes: u64,
    /// Maximum time in which a link carries an uncompressed set, in seconds.
    pub(super) seconds: u64,
    pub(super) rounds: usize,
    pub(super) kinds: Vec<Kind>,
    pub(super) roads: Vec<Road>,
    pub(super) corpus: Vec<PathBuf>,
    pub(super) work: PathBuf,
    /// File of nvCOMP, if the user has named one.
    pub(super) nvcomp: Option<PathBuf>,
}

/// Results of one set over one road.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) road: Road,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Backups with each choice. A choice that is not possible has none.
    pub(super) samples: [Vec<Sample>; CHOICES.len()],
    /// Restores of what these backups have stored, in the same order.
    pub(super) restores: [Vec<Sample>; CHOICES.len()],
}

impl Row {
    /// Returns the spread of a figure of backups; `None` if the choice is not possible.
    pub(super) fn spread(&self, choice: usize, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        spread_of(&self.samples[choice], figure)
    }

    /// Returns the spread of a figure of restores; `None` if the choice is not possible.
    pub(super) fn restored(
        &self,
        choice: usize,
        figure: impl Fn(&Sample) -> f64,
    ) -> Option<Spread> {
        spread_of(&self.restores[choice], figure)
    }

    /// Returns the rate of a restore, in bytes of the set per second.
    pub(super) fn restore_rate(&self, choice: usize) -> Option<Spread> {
        self.restored(choice, |sample| float(self.bytes) / sample.wall.as_secs_f64())
    }

    /// Returns the rate of a backup, in uncompressed bytes per second.
    pub(super) fn rate(&self, choice: usize) -> Option<Spread> {
        self.spread(choice, |sample| float(self.bytes) / sample.wall.as_secs_f64())
    }

    /// Returns the ratio of the bytes of the set to the bytes that were sent.
    pub(super) fn ratio(&self, choice: usize) -> Option<Spread> {
        self.spread(choice, |sample| float(self.bytes) / float(sample.bytes_transferred.max(1)))
    }

    /// Returns the ratio of two rates: with the automatic choice, and with the best fixed choice.
    pub(super) fn auto_to_best(&self) -> Option<f64> {
        let fixed = (0..CHOICES.len()).filter(|choice| *choice != AUTO);
        let rates = fixed.filter_map(|choice| Some(self.rate(choice)?.median));
        let best = rates.fold(f64::MIN_POSITIVE, f64::max);
        Some(self.rate(AUTO)?.median / best)
    }
}

fn spread_of(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
    (!samples.is_empty()).then(|| Spread::of(samples.iter().map(figure)))
}

/// The GPU of this machine: its name, or the reason why there is none.
pub(super) type FoundGpu = Result<String, String>;

pub(super) struct Results {
    pub(super) gpu: FoundGpu,
    pub(super) rows: Vec<Row>,
    pub(super) rounds: usize,
    pub(super) seconds: u64,
    pub(super) cores: usize,
    pub(super) corpus: Vec<PathBuf>,
    pub(super) in_memory: bool,
    pub(super) load_before: String,
    pub(super) load_after: String,
}

impl Results {
    /// Returns the row in which the automatic choice is slowest compared with the best fixed
    /// choice, and the ratio of the two rates.
    pub(super) fn worst(&self) -> Option<(&Row, f64)> {
        let rows = self.rows.iter().filter_map(|row| Some((row, row.auto_to_best()?)));
        rows.min_by(|(_, left), (_, right)| left.total_cmp(right))
    }
}

pub(super) fn measure(order: &Order) -> Result<Results, Trouble> {
    let load_before = machine::load();
    let workplace = Workplace::below(&order.work, Path::new("/nonexistent"))?;
    // The pool needs at most as much room as the set, and so does what is restored.
    workplace.check_bytes(order.set_bytes.saturating_mul(3), "a set, its backup and a restore")?;
    let gpu = find_gpu(order.nvcomp.as_deref());
    if let Some(text) = gpu.as_ref().ok().and_then(|_| small_sets(order)) {
        output::warning(&text);
    }
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    output::step("listing the corpus");
    let corpus = Corpus::list(&order.corpus)?.scattered();
    let mut is_possible = [true; CHOICES.len()];
    is_possible[AUTO] = knows(&runner, CHOICES[AUTO])?;
    is_possible[GPU] = gpu.is_ok();
    let mut rows: Vec<Row> = Vec::new();
    for &kind in &order.kinds {
        let set = workplace.path().join("set");
        let mut made = None;
        for &road in &order.roads {
            let bytes = road.bytes(order.set_bytes, order.seconds);
            let files = match made {
                Some((made_bytes, files)) if made_bytes == bytes => files,
                _ => remake(&set, kind, bytes, &corpus)?,
            };
            made = Some((bytes, files));
            let (samples, restores) = Default::default();
            let mut row = Row { kind, road, files, bytes, samples, restores };
            let ground = Ground { workplace: &workplace, runner: &runner, order, is_possible };
            for round in 0..order.rounds {
                ground.measure_row(&mut row, round)?;
            }
            rows.push(row);
        }
    }
    Ok(Results {
        gpu,
        rows,
        rounds: order.rounds,
        seconds: order.seconds,
        cores: Machine::read().cores,
        corpus: order.corpus.clone(),
        in_memory: workplace.is_memory()?,
        load_before,
        load_after: machine::load(),
    })
}

fn remake(set: &Path, kind: Kind, bytes: u64, corpus: &Corpus) -> Result<u64, Trouble> {
    let size = output::counted(bytes, "byte");
    output::step(&format!("making set {} of {size}", kind.name));
    if set.is_dir() {
        remove(set)?;
    }
    kind.make(set, bytes, &mut corpus.stream())
}

/// Looks for a GPU that the program can use.
fn find_gpu(nvcomp: Option<&Path>) -> FoundGpu {
    match Gpu::open(nvcomp.map(Path::as_os_str), Settings::default()) {
        Ok(gpu) => Ok(gpu.device_name().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the warning that the automatic choice does not use a GPU over some roads, because their
/// sets are too small.
fn small_sets(order: &Order) -> Option<String> {
    let is_small = |road: &&Road| road.bytes(order.set_bytes, order.seconds) < AUTO_GPU_BYTES_MIN;
    let small: Vec<&str> = order.roads.iter().filter(is_small).map(|road| road.name).collect();
    (!small.is_empty()).then(|| {
        format!(
            "the automatic choice looks for a GPU after 2 GB, and does not use it over {}: it does \
             in sets of 4 GB, by --set-bytes 4G, and over 1 Gbit/s by --seconds-max 35 too; 10 \
             Mbit/s carries too little",
            small.join(", ")
        )
    })
}

/// Everything that the measurements of a row need.
struct Ground<'a> {
    workplace: &'a Workplace,
    runner: &'a Runner,
    order: &'a Order,
    is_possible: [bool; CHOICES.len()],
}

impl Ground<'_> {
    fn measure_row(&self, row: &mut Row, round: usize) -> Result<(), Trouble> {
        for turn in 0..CHOICES.len() {
            let index = (turn + round) % CHOICES.len();
            if !self.is_possible[index] {
                continue;
            }
            let choice = CHOICES[index];
            let (kind, road) = (row.kind.name, row.road.name);
            output::step(&format!("set {kind} over {road}, {}", choice.name));
            let folder = self.workplace.folder("site")?;
            let site = Site::new(self.runner, folder.clone());
            let [backup, restore] = self.measure(&site, row.road, choice)?;
            row.samples[index].push(backup);
            row.restores[index].push(restore);
            remove(&folder)?;
        }
        Ok(())
    }

    /// Backs up the set at a new server, and restores it.
    fn measure(&self, site: &Site<'_>, road: Road, choice: Choice) -> Result<[Sample; 2], Trouble> {
        let (server, address) = site.started()?;
        let link = |bits| Link { round_trip: Duration::ZERO, bits_per_sec: Some(bits) };
        let relay = road.bits_per_sec.map(|bits| Relay::start(&address, link(bits))).transpose()?;
        site.enrol(&relay.as_ref().map_or(address, Relay::address))?;
        if let Some(nvcomp) = &self.order.nvcomp {
            set_nvcomp(&site.home(), nvcomp)?;
        }
        let confined = self.runner.confined();
        let node =
            if choice.is_confined { site.run_by(&confined) } else { site.run_by(self.runner) };
        let set = self.workplace.path().join("set");
        let restored = site.folder().join("restored");
        let backup: [&OsStr; 4] =
            ["backup".as_ref(), set.as_os_str(), "--compression".as_ref(), choice.value.as_ref()];
        let restore: [&OsStr; 4] =
            ["restore".as_ref(), set.as_os_str(), "--to".as_ref(), restored.as_os_str()];
        let samples = [node.measured(&server, &backup)?, node.measured(&server, &restore)?];
        server.stop()?;
        for (sample, what) in samples.iter().zip(["backed up", "restored"]) {
            if sample.failed > 0 {
                let failed = output::counted(sample.failed, "object");
                return Err(Trouble::new(format!("{failed} of a set could not be {what}")));
            }
        }
        Ok(samples)
    }
}

/// Names the file of nvCOMP in the configuration of the node in `home`.
fn set_nvcomp(home: &Path, nvcomp: &Path) -> Result<(), Trouble> {
    let file = home.join("client.toml");
    let what = || format!("change {}", file.display());
    let config = std::fs::read_to_string(&file).while_doing(what)?;
    let line = format!("nvcomp = {:?}\n", nvcomp.to_string_lossy());
    std::fs::write(&file, line + &config).while_doing(what)
}

/// Returns true if the program accepts `choice`. The command runs for a node that is not enrolled,
/// so that it backs up nothing.
fn knows(runner: &Runner, choice: Choice) -> Result<bool, Trouble> {
    let words = ["backup", "/dev/null", "--compression", choice.value, "--home", "/nonexistent"];
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    match runner.run(&words) {
        Ok(_) => Ok(true),
        Err(refusal) => {
            process::check_interrupted()?;
            Ok(!refusal.to_string().contains("'--compression"))
        }
    }
}

fn remove(folder: &Path) -> Result<(), Trouble> {
    workplace::remove(folder).while_doing(|| format!("remove {}", folder.display()))
}

#[cfg(test)]
pub(super) mod tests;
