//! `bench fleet`: many nodes of one server, which all back up at the same moment.
//!
//! ```text
//!   one server; N nodes, each with a home and a small tree
//!   first backups, a few or many at a time
//!   round:  change a few files of every tree -> all N incrementals at once
//!   after:  verify, restore and compare a sample of the nodes
//! ```
//!
//! 1. Every client is a process of its own. A thread of the bench waits for it.
//! 2. A node that fails is counted and named, and the other nodes continue. After any failure the
//!    bench fails, but writes its page first.
//! 3. If many first backups run at once, one node backs up alone before them. It shows whether the
//!    memory is enough for all clients. Its failure ends the bench without a page, and the figures
//!    are without it.

mod muster;
mod text;
mod tree;

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::output;
use crate::page;
use crate::trouble::Trouble;
use muster::Order;
use tree::Shape;

/// Enrol many nodes at one server and start all their incrementals at once
///
/// The nodes have small trees, with a few changes in each round. At the end, some of the nodes are
/// verified, restored and compared.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = NODES_DEFAULT, value_parser = number(1..=NODES_MAX))]
    nodes: usize,
    /// Number of nodes among them whose backups send slowly
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0..=NODES_MAX))]
    trickle: usize,
    /// Number of files of each node
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = FILES_DEFAULT, value_parser = number(tree::FILES_MIN..=FILES_MAX))]
    files: usize,
    /// Make files without content, so that the pages of the nodes have no data
    #[arg(long)]
    empty: bool,
    /// Number of first backups that run at the same time
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = FIRST_DEFAULT, value_parser = number(1..=NODES_MAX))]
    first_at_once: usize,
    /// Number of rounds, in which all nodes start at once
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
const FIRST_DEFAULT: usize = 4;
const ROUNDS_DEFAULT: usize = 2;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let order = Order {
        nodes: args.nodes,
        trickle: args.trickle.min(args.nodes),
        shape: Shape { files: args.files, is_empty: args.empty },
        first_at_once: args.first_at_once.min(args.nodes),
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
        count => {
            let failures = output::counted(count, "failure");
            Err(Trouble::new(format!("{failures} in the fleet: see fleet.md")))
        }
    }
}
