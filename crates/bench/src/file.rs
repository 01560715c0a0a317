//! `bench file`: one large file of mixed content, against the limits of its stages.
//!
//! ```text
//!   size (a quarter, then the whole), round:
//!     stages, each alone:  read | cut, digest | compress | check
//!     pause -> store alone -> pause -> first backup
//!     pause -> make alone  -> pause -> restore -> compare
//! ```
//!
//! Measurements that write, and measurements that are compared with them, begin after a pause: see
//! [`machine::settle`].
//!
//! The *sum* is the time of the stages one after the other. A stage uses all cores if it can.
//!
//! The *limit* is the time of stages that overlap perfectly. The limit of a first backup is the
//! larger of two times: the processor time of the stages divided by the number of cores, and the
//! time in which the disk writes the stored data. The limit of a restore is computed in the same
//! way, from checking and from writing the file. Neither limit includes TLS, the catalogue or the
//! start of a process.

pub(crate) mod again;
mod figures;
pub(crate) mod mix;
pub(crate) mod stages;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use figures::{Results, Round, Series};
use stages::Stages;

use crate::arguments::{number, size};
use crate::effort::Effort;
use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Runner};
use crate::site::Site;
use crate::trouble::{Context as _, Trouble};
use crate::workplace::{self, Workplace};

/// Time backup and restore of one large file, and compare them with the limits of their stages
///
/// The file has text, noise, zeros and holes. Shows whether memory grows with the file.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Size of the file; a quarter of it is measured first
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = size)]
    bytes: u64,
    /// Number of measurements of each size
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    /// Folder whose files provide the text
    #[arg(long, value_name = "DIR", default_value = "/usr/include")]
    text: PathBuf,
    /// Folder to work in, with room for three times the size [default: TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write one JSON document with every sample
    #[arg(long)]
    json: bool,
}

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

/// Ratio of the larger of the two sizes to the smaller size.
const SMALLER: u64 = 4;

/// Maximum number of copies of the file at the same time: the file, its stored form, and a restored
/// or compressed copy.
const COPIES: u64 = 3;

/// Everything that the measurement of one size needs.
struct Bench<'a> {
    workplace: &'a Workplace,
    runner: Runner,
    outputs: PathBuf,
    text: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let bytes = args.bytes;
    let rounds = args.rounds;
    let text = workplace::resolve(&args.text)?;
    let program = process::find_program()?;
    let work = args.work.clone().unwrap_or_else(std::env::temp_dir);
    let workplace = Workplace::below(&work, &text)?;
    workplace.check_bytes(bytes.saturating_mul(COPIES), "the file and its copies")?;
    let outputs = workplace.folder("outputs")?;
    let runner = Runner::new(program, outputs.clone());
    let bench = Bench { workplace: &workplace, runner, outputs, text };
    let mut sizes = Vec::new();
    for bytes in [bytes / SMALLER, bytes] {
        sizes.push(bench.size(bytes, rounds)?);
    }
    let results = Results { machine: Machine::read(), sizes };
    if args.json {
        return output::result(&results.document().to_string());
    }
    output::result(&results.text())
}

impl Bench<'_> {
    fn size(&self, bytes: u64, rounds: usize) -> Result<Series, Trouble> {
        let source = self.workplace.folder(&format!("file-{bytes}"))?;
        let file = source.join("mixed");
        output::step(&format!("a file of {} MiB", bytes >> 20));
        let size = bytes.to_string();
        self.part(&[
            "mix".as_ref(),
            file.as_os_str(),
            "--bytes".as_ref(),
            size.as_ref(),
            "--text".as_ref(),
            self.text.as_os_str(),
        ])?;
        let mut series = Series { bytes, rounds: Vec::new() };
        for number in 1..=rounds {
            output::step(&format!("round {number} of {rounds}"));
            let folder = self.workplace.folder(&format!("round-{bytes}-{number}"))?;
            series.rounds.push(self.round(&source, &file, &folder)?);
            // Deleting a few large files does not slow down later work.
            remove(&folder)?;
        }
        remove(&source)?;
        Ok(series)
    }

    fn round(&self, source: &Path, file: &Path, folder: &Path) -> Result<Round, Trouble> {
        let target = folder.join("stages");
        let answer = self.part(&["stages".as_ref(), file.as_os_str(), target.as_os_str()])?;
        let stages = Stages::parse(&answer)?;
        output::step("writing the stored data, alone");
        let compressed = target.join(stages::COMPRESSED);
        let store = self.again(&compressed, &target, &["--sync".as_ref()])?;
        remove(&target)?;
        let site = Site::new(&self.runner, folder.to_owned());
        let server = site.enrolled()?;
        output::step("first backup");
        machine::settle();
        let first = site.measured(&server, &["backup".as_ref(), source.as_os_str()])?;
        server.stop()?;
        let stored = site.stored()?;
        output::step("writing the file, alone");
        let alone = folder.join("alone");
        std::fs::create_dir(&alone).while_doing(|| format!("make {}", alone.display()))?;
        let make = self.again(file, &alone, &[])?;
        remove(&alone)?;
        output::step("restore");
        let server = site.serve()?;
        machine::settle();
        let target = folder.join("restored");
        let restore: [&OsStr; 4] =
            ["restore".as_ref(), source.as_os_str(), "--to".as_ref(), target.as_os_str()];
        let restore = site.measured(&server, &restore)?;
        server.stop()?;
        let restored = target.join(source.file_name().unwrap_or_default());
        let answer = self.part(&["compare".as_ref(), source.as_os_str(), restored.as_os_str()])?;
        let differences = answer["differences"].as_u64().unwrap_or(u64::MAX);
        let pool_bytes = stored.pool_bytes;
        Ok(Round { stages, store, make, first, pool_bytes, restore, differences })
    }

    /// Writes the content of `file` to a new file in `folder`, and returns the time that this took.
    fn again(&self, file: &Path, folder: &Path, more: &[&OsStr]) -> Result<Effort, Trouble> {
        machine::settle();
        let target = folder.join("again");
        let words: [&OsStr; 3] = ["again".as_ref(), file.as_os_str(), target.as_os_str()];
        Effort::parse(&self.part(&[&words, more].concat())?)
    }

    fn part(&self, arguments: &[&OsStr]) -> Result<serde_json::Value, Trouble> {
        process::run_part(arguments, &self.outputs)
    }
}

fn remove(folder: &Path) -> Result<(), Trouble> {
    workplace::remove(folder).while_doing(|| format!("remove {}", folder.display()))
}
