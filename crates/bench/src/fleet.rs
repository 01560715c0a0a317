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

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::output;
use crate::page;
use crate::trouble::Trouble;
use muster::Order;

/// Enrol many nodes at one server and start all their incrementals at once
///
/// The nodes have small trees, with a few changes in each round. In the end some of the nodes are
/// verified, restored and compared.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = NODES_DEFAULT, value_parser = number(1..=NODES_MAX))]
    nodes: usize,
    /// Number of files of each node
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = FILES_DEFAULT, value_parser = number(tree::FILES_MIN..=FILES_MAX))]
    files: usize,
    /// Number of times that all of them start at once
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

const NODES_DEFAULT: usize = 200;
const NODES_MAX: usize = 2000;
const FILES_DEFAULT: usize = 500;
const FILES_MAX: usize = 1_000_000;
const ROUNDS_DEFAULT: usize = 2;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let order = Order {
        nodes: args.nodes,
        files: args.files,
        rounds: args.rounds,
        work: args.work.folder(),
    };
    let results = muster::measure(order)?;
    let text = text::page(&results);
    page::write(&args.page.out, "fleet.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if args.page.json { document() } else { text })?;
    match results.failures().len() {
        0 => Ok(()),
        count => Err(Trouble::new(format!("{count} failures in a fleet that must have none"))),
    }
}
