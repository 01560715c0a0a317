//! `bench tape`: recalls from tape, on a virtual clock.
//!
//! The schedule is the code that serves real drives. The drives are a model. There are six
//! measurements, each in a module of its own:
//!
//! ```text
//!   recalls    a table of ten times that IBM has published, for lists and for opened files
//!   emulation  some of these times through SCSI, with an emulated library
//!   orders     positioning time for each file, by the order in which scattered files are read
//!   drives     eight volumes in one drive, and in several drives
//!   day        a day of opened files and lists, compared with simpler ways to serve them
//!   planning   the processor time of planning
//! ```
//!
//! All measurements except the last give the same figures on every machine.

mod day;
mod demand;
mod drives;
mod emulation;
mod orders;
mod planning;
mod recalls;
mod results;
mod text;

use crate::arguments::{PageArgs, number};
use crate::output;
use crate::page;
use crate::trouble::Trouble;

/// Simulate recalls from LTO-8 volumes, without drives or a server
///
/// Compares the times with a table that IBM has published. Measures orders of scattered files,
/// several drives, a day of opened files and lists, and the cost of planning.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of random arrangements in each measurement
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = SEEDS_DEFAULT, value_parser = number(1..=SEEDS_MAX))]
    seeds: usize,
    #[command(flatten)]
    page: PageArgs,
}

const SEEDS_DEFAULT: usize = 20;
const SEEDS_MAX: usize = 1000;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let results = results::measure(args.seeds as u64);
    let text = text::page(&results);
    page::write(&args.page.out, "tape.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if args.page.json { document() } else { text })
}
