//! `bench peers`: Holdfast and other backup programs on one tree.
//!
//! ```text
//!   round:  each entrant in turn, another one first each time
//!   turn:   empty repository -> read the tree -> first backup -> nothing changed -> restore
//!                                              -> compare
//!           Holdfast: nothing changed is (bare walk, backup) several times
//!           and behind its restore (files made from memory, restore again)
//!           creation: the files of the tree made from memory, nothing else
//!   after:  with --cold and with --mutate, what they say
//! ```
//!
//! 1. All data is written before each measurement begins; what writes much begins after a pause
//!    (see [`crate::machine::settle`]).
//! 2. Peers write to a local folder; Holdfast goes over TLS to a server, and what both ends use
//!    counts.
//! 3. A peer that fails costs its row, not the run.
//! 4. What takes much memory is done in processes of its own (`creation`, `compare`): the kernel
//!    counts the peak of the bench in those of the programs that it starts.

mod cold;
mod contest;
mod document;
mod drawing;
mod entrant;
mod mutation;
mod recipe;
mod report;
mod turn;

use std::path::PathBuf;

use contest::Order;

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::output;
use crate::page;
use crate::trouble::{Trouble, While as _};

/// Time Holdfast and the installed peers on a tree, in turns
///
/// Peers are looked for in PATH and in ~/.cache/holdfast-peers/bin, or in the folder that
/// HOLDFAST_PEERS names. Where the work folder is a tmpfs, the files of each program go after its
/// turn. On a disk they all stay to the end. Writes peers.md and peers.svg.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Number of rounds
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    /// Peers to measure: restic, rustic, borg, borg-zstd, bupstash, rsync, tar-zstd [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Measure with dropped caches as well; takes root, and disturbs all other programs
    #[arg(long)]
    cold: bool,
    /// Measure Holdfast after changes to a copy of the tree as well
    #[arg(long)]
    mutate: bool,
}

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let order = Order {
        tree: args.tree.clone(),
        rounds: args.rounds,
        only: args.only.clone(),
        work: args.work.folder(),
        is_cold: args.cold,
        mutates: args.mutate,
    };
    if order.is_cold {
        cold::check_allowed()?;
    }
    let out = &args.page.out;
    std::fs::create_dir_all(out).while_doing(|| format!("make {}", out.display()))?;
    let results = contest::hold(&order)?;
    for missing in &results.missing {
        let entrant::Missing { name, install } = missing;
        output::warning(&format!("{name} is not installed: {install}"));
    }
    let text = report::text(&results, &page::own_command_line());
    page::write(out, "peers.md", &text)?;
    page::write(out, "peers.svg", &drawing::draw(&results)?)?;
    if args.page.json {
        return output::result(&document::document(&results).to_string());
    }
    output::result(&text)
}
