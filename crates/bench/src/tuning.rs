//! `bench tuning`: what each setting of `client.toml` changes.
//!
//! ```text
//!   each round:  each setting:  new server, new node with the setting
//!                               first backup --> everything read again --> nothing changed
//! ```
//!
//! Every figure is shown beside the same figure of the defaults in the same round.

mod contest;
mod settings;
mod text;

use std::time::Duration;

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::relay::Link;
use crate::trouble::Trouble;

pub(crate) const USAGE: &str = "\
bench tuning DIR [--rtt-ms N] [--mbit N] [--rounds N] [--json] [--out DIR] [--work DIR]
  Backs up the tree DIR with the defaults and with one setting after the other, each with a new
  server: a first backup, one that reads everything again, one that finds nothing changed. DIR is
  only read.

  --rtt-ms N  Put a link with this round trip in milliseconds between node and server
  --mbit N    What the link carries in each direction, in Mbit/s
  --rounds N  Measure so many times [default: 1]
  --json      Write one JSON document with every sample
  --out DIR   Where tuning.md, or tuning-link.md, goes [default: docs/performance]
  --work DIR  Where the servers and nodes go [default: TMPDIR]
";

pub(crate) const GRAMMAR: Grammar =
    Grammar { flags: &["--json"], options: &["--rtt-ms", "--mbit", "--rounds", "--out", "--work"] };

const ROUNDS_MAX: usize = 100;
const ROUND_TRIP_MS_MAX: usize = 10_000;
const MBIT_MAX: usize = 100_000;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [tree] = line.paths(["tree to measure, as in: bench tuning /usr/share"])?;
    let link = parse_link(line)?;
    let rounds = line.number("--rounds", 1, 1..=ROUNDS_MAX)?;
    let work = line.path("--work").unwrap_or_else(std::env::temp_dir);
    let out = line.path("--out").unwrap_or_else(|| page::FOLDER.into());
    let results = contest::measure(&tree, &work, link, rounds)?;
    let text = text::page(&results);
    page::write(&out, if link.is_some() { "tuning-link.md" } else { "tuning.md" }, &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if line.flag("--json") { document() } else { text })
}

/// Returns `None` for loopback: neither a delay nor a rate was given.
fn parse_link(line: &Line) -> Result<Option<Link>, Trouble> {
    let milliseconds = line.number("--rtt-ms", 0, 0..=ROUND_TRIP_MS_MAX)?;
    let mbit = line.number("--mbit", 0, 0..=MBIT_MAX)?;
    if milliseconds == 0 && mbit == 0 {
        return Ok(None);
    }
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Ok(Some(Link {
        round_trip: Duration::from_millis(wide(milliseconds)),
        bits_per_sec: (mbit > 0).then(|| wide(mbit) * 1_000_000),
    }))
}
