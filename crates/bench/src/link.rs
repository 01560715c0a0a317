//! `bench link`: the same backups over loopback and over a link with delay and a limit.
//!
//! ```text
//!   round:  for loopback and link, each first in every other round:
//!             new server and node -> first backup -> incremental, unmeasured
//!                                 -> incremental with nothing changed x INCREMENTALS
//! ```
//!
//! The link is emulated by a relay within this process; see its header for what it does. It takes
//! processor time from client and server: where they keep all cores busy, the link looks worse than
//! a real one.

mod contest;
mod text;

use std::time::Duration;

use std::path::PathBuf;

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::output;
use crate::page;
use crate::relay::Link;
use crate::trouble::Trouble;

/// Time backups over loopback and over a link with delay and a limited rate, in turns
///
/// Each round puts the tree into the work folder twice.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Round trip of the link in milliseconds
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUND_TRIP_MS_DEFAULT, value_parser = number(0..=ROUND_TRIP_MS_MAX))]
    rtt_ms: usize,
    /// Rate of the link in each direction, in Mbit/s
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = MBIT_DEFAULT, value_parser = number(1..=MBIT_MAX))]
    mbit: usize,
    /// Number of rounds, each with new servers
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

const ROUND_TRIP_MS_DEFAULT: usize = 15;
const ROUND_TRIP_MS_MAX: usize = 10_000;
const MBIT_DEFAULT: usize = 1000;
const MBIT_MAX: usize = 100_000;
const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let link = link(args);
    let work = args.work.folder();
    let results = contest::measure(&args.tree, &work, link, args.rounds)?;
    let text = text::page(&results);
    page::write(&args.page.out, "link.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if args.page.json { document() } else { text })
}

fn link(args: &Args) -> Link {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Link {
        round_trip: Duration::from_millis(wide(args.rtt_ms)),
        bits_per_sec: Some(wide(args.mbit) * 1_000_000),
    }
}
