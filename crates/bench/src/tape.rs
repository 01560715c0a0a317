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
mod demand;
mod driven;
mod drives;
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
/// IBM's published table, orders of scattered files, several drives, a day of opened files and
/// lists.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of random arrangements of each thing
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
