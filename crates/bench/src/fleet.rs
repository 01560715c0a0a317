//! `bench fleet`: many nodes at one server, all of them at the same moment.
//!
//! ```text
//!   one server; N nodes, each with a home and a small tree
//!   first backups, a few at a time
//!   round:  change a few files of every tree -> all N incrementals at once
//!   after:  verify, restore and compare a sample of the nodes
//! ```
//!
//! 1. Every client is a process of its own, waited for by a thread of the bench.
//! 2. A node that fails is counted and named; the others go on. Any failure fails the bench, after
//!    the page is written.

mod muster;
mod text;
mod tree;

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::trouble::Trouble;
use muster::Order;

pub(crate) const USAGE: &str = "\
bench fleet [--nodes N] [--files N] [--rounds N] [--json] [--out DIR] [--work DIR]
  Enrols many nodes with small trees at one server, changes a few files in each and starts all
  incrementals at once. Afterwards a sample of the nodes is verified, restored and compared.

  --nodes N   How many nodes [default: 200]
  --files N   How many files each of them has [default: 500]
  --rounds N  How often all of them start at once [default: 2]
  --json      Write one JSON document with every node
  --out DIR   Where fleet.md goes [default: docs/performance]
  --work DIR  Where the server and the nodes go [default: TMPDIR]
";

pub(crate) const GRAMMAR: Grammar =
    Grammar { flags: &["--json"], options: &["--nodes", "--files", "--rounds", "--out", "--work"] };

const NODES_DEFAULT: usize = 200;
const NODES_MAX: usize = 2000;
const FILES_DEFAULT: usize = 500;
const FILES_MAX: usize = 1_000_000;
const ROUNDS_DEFAULT: usize = 2;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    line.paths([])?;
    let order = Order {
        nodes: line.number("--nodes", NODES_DEFAULT, 1..=NODES_MAX)?,
        files: line.number("--files", FILES_DEFAULT, tree::FILES_MIN..=FILES_MAX)?,
        rounds: line.number("--rounds", ROUNDS_DEFAULT, 1..=ROUNDS_MAX)?,
        work: line.path("--work").unwrap_or_else(std::env::temp_dir),
    };
    let out = line.path("--out").unwrap_or_else(|| page::FOLDER.into());
    let results = muster::measure(order)?;
    let text = text::page(&results);
    page::write(&out, "fleet.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if line.flag("--json") { document() } else { text })?;
    match results.failures().len() {
        0 => Ok(()),
        count => Err(Trouble::new(format!("{count} failures in a fleet that must have none"))),
    }
}
