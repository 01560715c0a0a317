//! Times Holdfast on a real tree: `bench DIR [--rounds N] [--json]`.
//!
//! ```text
//!   round:  new server and node -> first backup -> server again
//!                               -> (bare walk, incremental) x INCREMENTALS -> server again
//!                               -> restore to a new folder
//! ```
//!
//! 1. The real program is measured, over TLS, client and server as processes of their own.
//! 2. The bare walk and the nothing-changed incremental take turns in one run, so that their ratio
//!    says the same on a slow machine and on a busy one.
//! 3. Nothing is deleted before the last measurement: ext4 makes files several times slower for
//!    minutes after a tree has been deleted. Each round has new folders.
//! 4. Everything lies in one temporary folder, which goes when the bench ends, also when it fails
//!    or is interrupted.
//!
//! Deliberately absent: dropping the page cache, which takes root and disturbs all others. What is
//! measured is warm, but for what the first backup of the first round reads for the first time.

mod arguments;
mod figures;
mod machine;
mod output;
mod process;
mod rounds;
mod table;
mod trouble;
mod walk;
mod workplace;

use std::process::ExitCode;

use arguments::Arguments;
use trouble::Trouble;

/// Not done, as the exit code of `holdfast` itself says it.
const NOT_DONE: u8 = 12;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            output::trouble(&trouble);
            ExitCode::from(NOT_DONE)
        }
    }
}

fn run() -> Result<(), Trouble> {
    let Arguments::Measure { tree, rounds, json } = arguments::parse(std::env::args_os().skip(1))?
    else {
        return output::result(arguments::USAGE);
    };
    process::catch_signals()?;
    sys::process::raise_open_files();
    let results = rounds::measure(&tree, rounds)?;
    if json {
        return output::result(&figures::document(&results).to_string());
    }
    output::result(&table::text(&results))
}
