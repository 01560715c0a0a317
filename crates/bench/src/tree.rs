//! `bench tree`: backup and restore of a real tree, compared with the bare walk of the tree.
//!
//! ```text
//!   round:  new server and node -> first backup -> server again
//!                               -> (bare walk, incremental) x INCREMENTALS -> server again
//!                               -> restore to a new folder
//! ```
//!
//! Deliberately absent: dropping the page cache, which needs root and slows down all other
//! programs. Only the first backup of the first round may read objects that are not in the cache.

mod figures;
mod rounds;
mod table;

use std::path::PathBuf;

use crate::arguments::number;
use crate::output;
use crate::trouble::Trouble;

/// Time backup and restore of a tree, and compare them with the bare walk of the tree
///
/// The server is new, and the connection uses TLS. Each round makes two copies of the tree in
/// TMPDIR.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Number of rounds, each with a new server
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    /// Write one JSON document with every sample
    #[arg(long)]
    json: bool,
}

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let results = rounds::measure(&args.tree, args.rounds)?;
    if args.json {
        return output::result(&figures::document(&results).to_string());
    }
    output::result(&table::text(&results))
}
