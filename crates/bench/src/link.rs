//! `bench link`: the same backups over loopback and over a link with a delay and a limited rate.
//!
//! ```text
//!   round:  loopback and link; the first way alternates from round to round:
//!             new server and node -> first backup -> incremental, not measured
//!                                 -> incremental with nothing changed x INCREMENTALS
//! ```
//!
//! A relay in the process of the bench emulates the link, see `relay.rs`. The relay takes processor
//! time from client and server. If they keep all cores busy, the emulated link is slower than a
//! real link.

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
/// Each round makes two copies of the tree in the work folder.
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
