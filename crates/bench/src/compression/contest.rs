//! Measurements of each set over each link with each choice, in their order. See the drawing in
//! `compression.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// A strength of compression and its name on the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub(super) name: &'static str,
    /// The value of `--compression`.
    pub(super) value: &'static str,
}

pub(super) const CHOICES: [Choice; 4] = [
    Choice { name: "none", value: "0" },
    Choice { name: "fast", value: "1" },
    Choice { name: "strong", value: "6" },
    Choice { name: "auto", value: "auto" },
];

/// Index of the automatic choice in [`CHOICES`]. It is compared with all other choices.
pub(super) const AUTO: usize = 3;

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
    pub(super) corpus: Vec<PathBuf>,
    pub(super) work: PathBuf,
}

/// Results of one set over one road.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) road: Road,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Samples of each choice. A choice that the program refuses has no samples.
    pub(super) samples: [Vec<Sample>; CHOICES.len()],
}

impl Row {
    /// Returns the spread of a figure; `None` if the program refuses the choice.
    pub(super) fn spread(&self, choice: usize, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        let samples = &self.samples[choice];
        (!samples.is_empty()).then(|| Spread::of(samples.iter().map(figure)))
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

pub(super) struct Results {
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
    // The pool needs at most as much room as the set.
    workplace.check_bytes(order.set_bytes.saturating_mul(2), "a set and its backup")?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    output::step("listing the corpus");
    let corpus = Corpus::list(&order.corpus)?.scattered();
    let knows_auto = knows(&runner, CHOICES[AUTO])?;
    let mut rows: Vec<Row> = Vec::new();
    for &kind in &order.kinds {
        let set = workplace.path().join("set");
        let mut made = None;
        for road in ROADS {
            let bytes = road.bytes(order.set_bytes, order.seconds);
            let files = match made {
                Some((made_bytes, files)) if made_bytes == bytes => files,
                _ => remake(&set, kind, bytes, &corpus)?,
            };
            made = Some((bytes, files));
            let mut row = Row { kind, road, files, bytes, samples: Default::default() };
            for round in 0..order.rounds {
                measure_row(&mut row, &workplace, &runner, round, knows_auto)?;
            }
            rows.push(row);
        }
    }
    Ok(Results {
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

fn measure_row(
    row: &mut Row,
    workplace: &Workplace,
    runner: &Runner,
    round: usize,
    knows_auto: bool,
) -> Result<(), Trouble> {
    for turn in 0..CHOICES.len() {
        let index = (turn + round) % CHOICES.len();
        if index == AUTO && !knows_auto {
            continue;
        }
        let choice = CHOICES[index];
        output::step(&format!("set {} over {}, {}", row.kind.name, row.road.name, choice.name));
        let folder = workplace.folder("site")?;
        let set = workplace.path().join("set");
        row.samples[index].push(back_up(
            &Site::new(runner, folder.clone()),
            &set,
            row.road,
            choice,
        )?);
        remove(&folder)?;
    }
    Ok(())
}

fn back_up(site: &Site<'_>, set: &Path, road: Road, choice: Choice) -> Result<Sample, Trouble> {
    let (server, address) = site.started()?;
    let link = |bits| Link { round_trip: Duration::ZERO, bits_per_sec: Some(bits) };
    let relay = road.bits_per_sec.map(|bits| Relay::start(&address, link(bits))).transpose()?;
    site.enrol(&relay.as_ref().map_or(address, Relay::address))?;
    let command: [&OsStr; 4] =
        ["backup".as_ref(), set.as_os_str(), "--compression".as_ref(), choice.value.as_ref()];
    let sample = site.measured(&server, &command)?;
    server.stop()?;
    if sample.failed > 0 {
        let failed = output::counted(sample.failed, "object");
        return Err(Trouble::new(format!("{failed} of a set could not be backed up")));
    }
    Ok(sample)
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
