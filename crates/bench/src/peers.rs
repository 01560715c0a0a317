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

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::trouble::{Trouble, While as _};

pub(crate) const USAGE: &str = "\
bench peers DIR [--rounds N] [--only NAME,..] [--out DIR] [--work DIR] [--json] [--cold] [--mutate]
  Times Holdfast and the peers that are installed on the tree DIR, in turns, and writes peers.md
  and peers.svg. Peers are looked for in PATH and in ~/.cache/holdfast-peers/bin, or the folder
  that HOLDFAST_PEERS names. DIR is only read. Where the work folder is a tmpfs, each program's
  files go after its turn; on a disk they all stay to the end.

  --rounds N   Measure so many times [default: 3]
  --only A,B   These peers only: restic, rustic, borg, borg-zstd, bupstash, rsync, tar-zstd
  --out DIR    Where to write peers.md and peers.svg [default: docs/performance]
  --work DIR   Where to work, instead of TMPDIR
  --json       Write one JSON document with every sample
  --cold       Measure with caches dropped as well; takes root, and disturbs all others
  --mutate     Measure Holdfast after changes to a copy of the tree as well
";

pub(crate) const GRAMMAR: Grammar = Grammar {
    flags: &["--json", "--cold", "--mutate"],
    options: &["--rounds", "--only", "--out", "--work"],
};

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [tree] = line.paths(["tree to measure"])?;
    let order = Order {
        tree,
        rounds: line.number("--rounds", ROUNDS_DEFAULT, 1..=ROUNDS_MAX)?,
        only: line.names("--only"),
        work: line.path("--work").unwrap_or_else(std::env::temp_dir),
        is_cold: line.flag("--cold"),
        mutates: line.flag("--mutate"),
    };
    if order.is_cold {
        cold::check_allowed()?;
    }
    let out = line.path("--out").unwrap_or_else(|| PathBuf::from(page::FOLDER));
    std::fs::create_dir_all(&out).while_doing(|| format!("make {}", out.display()))?;
    let results = contest::hold(&order)?;
    for missing in &results.missing {
        let entrant::Missing { name, install } = missing;
        output::warning(&format!("{name} is not installed: {install}"));
    }
    let text = report::text(&results, &page::own_command_line());
    page::write(&out, "peers.md", &text)?;
    page::write(&out, "peers.svg", &drawing::draw(&results)?)?;
    if line.flag("--json") {
        return output::result(&document::document(&results).to_string());
    }
    output::result(&text)
}
