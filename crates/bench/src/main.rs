//! Measures Holdfast: `bench SUBCOMMAND ...`. Each subcommand has a module of its own.
//!
//! 1. The real program is measured, over TLS. Client and server are processes of their own.
//! 2. Programs that are compared take turns in one run, so that a ratio is the same on a slow and
//!    on a busy machine.
//! 3. Nothing is deleted before the last measurement: after a tree has been deleted, ext4 creates
//!    files several times slower for minutes. Each round has new folders.
//! 4. All files are in one temporary folder. It is removed when the bench ends, even if the bench
//!    fails or is interrupted.

mod agent;
mod api;
mod arguments;
mod browser;
mod compare;
mod compression;
mod creation;
mod effort;
mod expiry;
mod file;
mod fleet;
mod guessing;
mod image;
mod journal;
mod link;
mod machine;
mod mount;
mod output;
mod page;
mod peers;
mod prediction;
mod process;
mod random;
mod relay;
mod scale;
mod servers;
mod sharing;
mod site;
mod space;
mod spread;
mod stores;
mod tape;
mod tree;
mod trouble;
mod tuning;
mod walk;
mod workplace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use trouble::Trouble;

/// Exit code of a bench that failed. `holdfast` has the same exit code for failures.
const NOT_DONE: u8 = 12;

/// Measures Holdfast. `bench DIR ...` is the same as `bench tree DIR ...`.
///
/// The measured program is the release build of holdfast in the same build folder, or the program
/// that HOLDFAST_BIN names. All files are made in a folder in TMPDIR, which is removed at the end.
#[derive(clap::Parser, Debug)]
#[command(name = "bench", args_override_self = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    Agent(agent::Args),
    Api(api::Args),
    Tree(tree::Args),
    Peers(peers::Args),
    File(file::Args),
    Mix(file::mix::Args),
    Again(file::again::Args),
    Stages(file::stages::Args),
    Servers(servers::Args),
    Stores(stores::Args),
    Creation(creation::Args),
    Compare(compare::Args),
    Scale(scale::Args),
    Compression(compression::Args),
    Browser(browser::Args),
    Fleet(fleet::Args),
    Guessing(guessing::Args),
    Image(image::Args),
    Journal(journal::Args),
    Mount(mount::Args),
    Link(link::Args),
    Expiry(expiry::Args),
    Prediction(prediction::Args),
    Sharing(sharing::Args),
    Space(space::Args),
    Tape(tape::Args),
    Tuning(tuning::Args),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(words()) {
        Ok(arguments) => arguments,
        Err(error) => return explain(&error),
    };
    match run(&arguments.subcommand) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            output::trouble(&trouble);
            ExitCode::from(NOT_DONE)
        }
    }
}

/// Returns the words of the command line. If they name no subcommand, `tree` is added.
fn words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let definition = Arguments::command();
    let is_named = |word: &OsString| {
        word == "-h"
            || word == "--help"
            || word == "help"
            || definition.find_subcommand(word).is_some()
    };
    if words.get(1).is_some_and(|first| !is_named(first)) {
        words.insert(1, "tree".into());
    }
    words
}

/// Writes the help, or the error in the command line, and returns the exit code.
fn explain(error: &clap::Error) -> ExitCode {
    // Printing fails only if the reader has closed its end, and then nobody reads the text.
    drop(error.print());
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(NOT_DONE),
    }
}

fn run(subcommand: &Subcommand) -> Result<(), Trouble> {
    process::catch_signals()?;
    sys::process::raise_open_files();
    match subcommand {
        Subcommand::Agent(args) => agent::run(args),
        Subcommand::Api(args) => api::run(args),
        Subcommand::Tree(args) => tree::run(args),
        Subcommand::Peers(args) => peers::run(args),
        Subcommand::File(args) => file::run(args),
        Subcommand::Mix(args) => file::mix::run(args),
        Subcommand::Again(args) => file::again::run(args),
        Subcommand::Stages(args) => file::stages::run(args),
        Subcommand::Servers(args) => servers::run(args),
        Subcommand::Stores(args) => stores::run(args),
        Subcommand::Creation(args) => creation::run(args),
        Subcommand::Compare(args) => compare::run(args),
        Subcommand::Scale(args) => scale::run(args),
        Subcommand::Browser(args) => browser::run(args),
        Subcommand::Compression(args) => compression::run(args),
        Subcommand::Fleet(args) => fleet::run(args),
        Subcommand::Guessing(args) => guessing::run(args),
        Subcommand::Image(args) => image::run(args),
        Subcommand::Journal(args) => journal::run(args),
        Subcommand::Mount(args) => mount::run(args),
        Subcommand::Link(args) => link::run(args),
        Subcommand::Expiry(args) => expiry::run(args),
        Subcommand::Prediction(args) => prediction::run(args),
        Subcommand::Sharing(args) => sharing::run(args),
        Subcommand::Space(args) => space::run(args),
        Subcommand::Tape(args) => tape::run(args),
        Subcommand::Tuning(args) => tuning::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let words = ["bench", "tree", "/usr", "--rounds", "2", "--json", "--rounds", "4"];
        Arguments::try_parse_from(words).expect("parses");
    }
}
