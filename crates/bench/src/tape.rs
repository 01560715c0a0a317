//! `bench tape`: recalls from tape, on a virtual clock.
//!
//! The schedule is the one that serves real drives; the drives are a model. Six questions, each
//! with a module of its own:
//!
//! ```text
//!   recalls   the ten cells of a table that IBM has published, lists and opened files
//!   driven    some of them through SCSI, with an emulated library
//!   orders    seconds to get to a file, by the order in which scattered files are read
//!   drives    eight volumes in one drive, and in several
//!   day       a day of opened files and lists, against serving them as they come
//!   planning  what the planning itself costs
//! ```
//!
//! All but the last give the same figures on every machine.

mod day;
mod driven;
mod drives;
mod orders;
mod planning;
mod recalls;
mod text;

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::random::Random;
use crate::spread::float;
use crate::trouble::Trouble;
use tape::schedule::{Ask, Kind, ObjectId, OwnerId, ProgramId, Source, VolumeId, Waiter, WaiterId};

pub(crate) const USAGE: &str = "\
bench tape [--seeds N] [--json] [--out DIR]
  Simulates recalls from LTO-8 volumes: IBM's published table, orders of scattered files, several
  drives, a day of opened files and lists. Needs neither drives nor a server.

  --seeds N  So many random arrangements of each thing [default: 20]
  --json     Write one JSON document
  --out DIR  Where tape.md goes [default: docs/performance]
";

pub(crate) const GRAMMAR: Grammar = Grammar { flags: &["--json"], options: &["--seeds", "--out"] };

const SEEDS_DEFAULT: usize = 20;
const SEEDS_MAX: usize = 1000;

/// All that is answered.
struct Results {
    seeds: u64,
    recalls: Vec<recalls::Row>,
    driven: Vec<driven::Row>,
    orders: Vec<orders::Row>,
    drives: Vec<drives::Row>,
    day: day::Day,
    planning: Vec<planning::Row>,
}

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [] = line.paths([])?;
    let seeds = line.number("--seeds", SEEDS_DEFAULT, 1..=SEEDS_MAX)? as u64;
    let out = line.path("--out").unwrap_or_else(|| page::FOLDER.into());
    let results = measure(seeds);
    let text = text::page(&results);
    page::write(&out, "tape.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if line.flag("--json") { document() } else { text })
}

fn measure(seeds: u64) -> Results {
    output::step("IBM's table");
    let recalls = recalls::rows(seeds);
    output::step("through SCSI");
    let driven = driven::rows();
    output::step("orders");
    let orders = orders::rows(seeds);
    output::step("drives");
    let drives = drives::rows();
    output::step("a day");
    let day = day::day();
    output::step("planning");
    Results { seeds, recalls, driven, orders, drives, day, planning: planning::rows() }
}

/// Returns the numbers of `seed`, which are not those of the next seed moved by one.
fn random(seed: u64) -> Random {
    Random::new(Random::new(seed).next())
}

/// Returns a number from 0 to 1.
fn fraction(random: &mut Random) -> f64 {
    float(random.below(1 << 32)) / float(1 << 32)
}

/// Returns what waiter `id` asks for: an object of its own, of `bytes` from `at` on.
fn ask(id: u64, kind: Kind, source: Source) -> Ask {
    // A program of its own: budgets are not what is measured.
    let waiter = Waiter { id: WaiterId(id), owner: OwnerId(id), program: ProgramId(id), kind };
    Ask { waiter, object: ObjectId(id), sources: vec![source] }
}

fn source(volume: u64, at: u64, bytes: u64) -> Source {
    Source { volume: VolumeId(volume), stop: tape::order::Stop { at, bytes } }
}
