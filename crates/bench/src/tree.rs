//! `bench tree`: backup and restore of a real tree, next to the bare walk of it.
//!
//! ```text
//!   round:  new server and node -> first backup -> server again
//!                               -> (bare walk, incremental) x INCREMENTALS -> server again
//!                               -> restore to a new folder
//! ```
//!
//! Deliberately absent: dropping the page cache, which takes root and disturbs all others. What is
//! measured is warm, but for what the first backup of the first round reads for the first time.

mod figures;
mod rounds;
mod table;

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::trouble::Trouble;

pub(crate) const USAGE: &str = "\
bench tree DIR [--rounds N] [--json]
  Times backup and restore of the tree DIR, with a server of its own over TLS, next to the bare
  walk of the same tree. DIR is only read. Each round puts the tree into TMPDIR twice.

  --rounds N  Measure so many times, each with a new server [default: 3]
  --json      Write one JSON document with every sample
";

pub(crate) const GRAMMAR: Grammar = Grammar { flags: &["--json"], options: &["--rounds"] };

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [tree] = line.paths(["tree to measure, as in: bench tree /usr/share"])?;
    let rounds = line.number("--rounds", ROUNDS_DEFAULT, 1..=ROUNDS_MAX)?;
    let results = rounds::measure(&tree, rounds)?;
    if line.flag("--json") {
        return output::result(&figures::document(&results).to_string());
    }
    output::result(&table::text(&results))
}
