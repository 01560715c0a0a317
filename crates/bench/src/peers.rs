//! `bench peers`: Holdfast and other backup programs on one tree.
//!
//! ```text
//!   round:  each entrant in turn, beginning with another one in each round
//!   turn:   empty repository -> read the tree -> first backup -> nothing changed -> restore
//!                                              -> compare
//!           Holdfast: nothing changed is (bare walk, backup) several times;
//!                     after the restore: (files made from memory, restore again)
//!           creation: the files of the tree are made from memory, nothing else
//!   after:  the measurements of --cold and of --mutate
//! ```
//!
//! 1. Data of earlier work is written to the disk before a measurement begins. A measurement that
//!    writes much begins after a pause (see [`crate::machine::settle`]).
//! 2. Peers write to a local folder. Holdfast backs up to a server over TLS, and the resources of
//!    client and server count.
//! 3. A peer that fails has no figures; the other programs are measured.
//! 4. Work of the bench that takes much memory is done in processes of its own (`creation`,
//!    `compare`), because the kernel counts the peak memory of the bench in the peaks of the
//!    programs that it starts.

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
use crate::trouble::{Context as _, Trouble};

/// Time Holdfast and the installed peers on a tree, in turns
///
/// Peers are looked for in PATH, and in ~/.cache/holdfast-peers/bin or the folder that
/// HOLDFAST_PEERS names. In a tmpfs, the files of each program are removed after its turn. On a
/// disk, all files stay until the end. Writes peers.md and peers.svg.
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
    /// Also measure with dropped caches; needs root, and slows down all other programs
    #[arg(long)]
    cold: bool,
    /// Also measure Holdfast after changes to a copy of the tree
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
        let entrant::MissingPeer { name, install } = missing;
        output::warning(&format!(
            "{name} is not installed, and is not measured. To install it, run: {install}"
        ));
    }
    let text = report::text(&results, &page::own_command_line());
    page::write(out, "peers.md", &text)?;
    page::write(out, "peers.svg", &drawing::draw(&results)?)?;
    if args.page.json {
        return output::result(&document::document(&results).to_string());
    }
    output::result(&text)
}
