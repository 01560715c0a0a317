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

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::relay::Link;
use crate::trouble::Trouble;

pub(crate) const USAGE: &str = "\
bench link DIR [--rtt-ms N] [--mbit N] [--rounds N] [--json] [--out DIR] [--work DIR]
  Times backups of the tree DIR over loopback and over a link with delay and a limited rate, in
  turns. DIR is only read. Each round puts the tree into the work folder twice.

  --rtt-ms N  Round trip of the link in milliseconds [default: 15]
  --mbit N    What the link carries in each direction, in Mbit/s [default: 1000]
  --rounds N  Measure so many times, each with new servers [default: 3]
  --json      Write one JSON document with every sample
  --out DIR   Where link.md goes [default: docs/performance]
  --work DIR  Where the servers and nodes go [default: TMPDIR]
";

pub(crate) const GRAMMAR: Grammar =
    Grammar { flags: &["--json"], options: &["--rtt-ms", "--mbit", "--rounds", "--out", "--work"] };

const ROUND_TRIP_MS_DEFAULT: usize = 15;
const ROUND_TRIP_MS_MAX: usize = 10_000;
const MBIT_DEFAULT: usize = 1000;
const MBIT_MAX: usize = 100_000;
const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [tree] = line.paths(["tree to measure, as in: bench link /usr/share"])?;
    let link = parse_link(line)?;
    let rounds = line.number("--rounds", ROUNDS_DEFAULT, 1..=ROUNDS_MAX)?;
    let work = line.path("--work").unwrap_or_else(std::env::temp_dir);
    let out = line.path("--out").unwrap_or_else(|| page::FOLDER.into());
    let results = contest::measure(&tree, &work, link, rounds)?;
    let text = text::page(&results);
    page::write(&out, "link.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if line.flag("--json") { document() } else { text })
}

fn parse_link(line: &Line) -> Result<Link, Trouble> {
    let milliseconds = line.number("--rtt-ms", ROUND_TRIP_MS_DEFAULT, 0..=ROUND_TRIP_MS_MAX)?;
    let mbit = line.number("--mbit", MBIT_DEFAULT, 1..=MBIT_MAX)?;
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Ok(Link {
        round_trip: Duration::from_millis(wide(milliseconds)),
        bits_per_sec: Some(wide(mbit) * 1_000_000),
    })
}
