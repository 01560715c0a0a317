//! `bench tuning`: the effect of each setting of `client.toml`.
//!
//! ```text
//!   each round:  each setting:  new server, new node with the setting
//!                               first backup --> everything read again --> nothing changed
//! ```
//!
//! Every figure is compared with the same figure of the defaults in the same round.

mod contest;
mod settings;
mod text;

use std::time::Duration;

use std::path::PathBuf;

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::output;
use crate::page;
use crate::relay::Link;
use crate::trouble::Trouble;

/// Back up with the defaults and with one setting of client.toml after the other
///
/// Each setting has a new server, a first backup, a backup that reads everything again, and backups
/// that find nothing changed. With --rtt-ms or --mbit, node and server are connected by a slow
/// link.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Round trip of the link in milliseconds; 0 for none
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = 0, value_parser = number(0..=ROUND_TRIP_MS_MAX))]
    rtt_ms: usize,
    /// Rate of the link in each direction, in Mbit/s; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0..=MBIT_MAX))]
    mbit: usize,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

const ROUNDS_MAX: usize = 100;
const ROUND_TRIP_MS_MAX: usize = 10_000;
const MBIT_MAX: usize = 100_000;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let link = link(args);
    let work = args.work.folder();
    let results = contest::measure(&args.tree, &work, link, args.rounds)?;
    let text = text::page(&results);
    page::write(
        &args.page.out,
        if link.is_some() { "tuning-link.md" } else { "tuning.md" },
        &text,
    )?;
    let document = || text::document(&results).to_string();
    output::result(&if args.page.json { document() } else { text })
}

/// Returns the link; `None` for loopback, if there is neither a delay nor a rate.
fn link(args: &Args) -> Option<Link> {
    let Args { rtt_ms, mbit, .. } = *args;
    if rtt_ms == 0 && mbit == 0 {
        return None;
    }
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Some(Link {
        round_trip: Duration::from_millis(wide(rtt_ms)),
        bits_per_sec: (mbit > 0).then(|| wide(mbit) * 1_000_000),
    })
}
