//! `bench mount`: a backup that programs read through `holdfast mount`, beside a restore of it.
//!
//! ```text
//!   a tree and one large file -> backup
//!   each round:  restore
//!                mount -> find | mount -> tar | mount -> read the large file
//! ```
//!
//! Each program has a new mount, so that the kernel and the mount know nothing. What `tar` reads is
//! thrown away by another program: `tar` itself reads nothing if its output is `/dev/null`.

mod text;
mod trial;

use std::path::PathBuf;

use crate::arguments::{PageArgs, WorkArgs, number, size};
use crate::output;
use crate::page;
use crate::process::{self, Runner};
use crate::trouble::Trouble;
use crate::walk;
use crate::workplace::{self, Workplace};

/// Time programs that read a backup through holdfast mount
///
/// Runs find and tar on the tree, reads one large file, and restores the tree. Needs root.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree that is backed up; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Size of the large file
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    bytes: u64,
    /// Number of rounds
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    if !sys::process::is_root() {
        return Err(Trouble::new("bench mount must be run as root, because it mounts"));
    }
    let tree = workplace::resolve(&args.tree)?;
    let tally = walk::walk(&tree)?;
    let workplace = Workplace::below(&args.work.folder(), &tree)?;
    let restored = workplace::tree_bytes(&tally).saturating_mul(args.rounds as u64 + 1);
    workplace
        .check_bytes(restored.saturating_add(args.bytes * 2), "the server and the restores")?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    let scene = trial::Scene::new(&tree, args.bytes, &workplace, &runner)?;
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        output::progress(&format!("round {number} of {}", args.rounds));
        rounds.push(scene.round(number)?);
    }
    let results = text::Results { large_bytes: args.bytes, rounds };
    let text = results.page();
    page::write(&args.page.out, "mount.md", &text)?;
    let document = || results.document().to_string();
    output::result(&if args.page.json { document() } else { text })
}
