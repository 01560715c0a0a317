//! `holdfast dsm`: the option files and commands of Tivoli Storage Manager (TSM), as they are.
//!
//! ```text
//!   dsmc i /home -su=yes --> faces --> session (files, node, header, logs)
//!                                        |-> queries: answered here, by `client`
//!                                        '-> sending, restoring, space: command lines of
//!                                            holdfast, each in a process of its own (child)
//! ```
//!
//! A command line runs in a process of its own, so that a typed session, a macro and a command with
//! several parts each begin anew, and so that a person can repeat each part by hand.

mod access;
mod check;
mod child;
mod clock;
mod deleting;
mod errors;
mod expiring;
mod faces;
mod files;
mod folders;
mod following;
mod images;
mod import;
mod joining;
mod link;
mod links;
mod listed;
mod local_files;
mod logs;
mod previewing;
mod prompt;
mod queries;
mod questions;
mod restoring;
mod retrieving;
mod scheduled;
mod scheduler;
mod sending;
mod session;
mod space;
mod stored;

use std::ffi::OsString;

use crate::context::Context;
use crate::error::CommandError;

pub(crate) use faces::{Face, by_name};

/// Use the option files and commands of Tivoli Storage Manager (TSM)
///
/// The option files dsm.sys and dsm.opt, the lists of statements, and the commands dsmc, dsmcad,
/// dsmmigrate, dsmrecall, dsmls and others work as they are.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast dsm check
  holdfast dsm import
  holdfast dsm link /usr/local/bin
  dsmc incremental")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: DsmCommand,
}

#[derive(clap::Subcommand, Debug)]
enum DsmCommand {
    Check(check::Args),
    Import(import::Args),
    Link(link::Args),
    Run(RunArgs),
}

/// Run a command of TSM, as by its own name
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast dsm run dsmc query filespace
  holdfast dsm run dsmls /data")]
struct RunArgs {
    /// Name of the command: dsmc, dsmcad, dsmmigrate, dsmrecall, dsmls ...
    name: String,
    /// Words of the command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    match args.command {
        DsmCommand::Check(args) => check::run(&args, context),
        DsmCommand::Import(args) => import::run(&args, context),
        DsmCommand::Link(args) => link::run(&args, context),
        DsmCommand::Run(args) => match by_name(&args.name) {
            Some(face) => faces::run(face, args.words, context),
            None if args.name == "dsmadmc" => {
                Err(CommandError::new("'dsmadmc' is no command of a client")
                    .with_hint("run 'holdfast dsmadmc', or by a link: 'holdfast dsm link'"))
            }
            None => Err(CommandError::new(format!("'{}' is no command of TSM", args.name))
                .with_hint("'holdfast dsm link --list' names all of them")),
        },
    }
}

/// Runs the command that the program was called by.
pub(crate) fn run_face(face: Face, words: Vec<OsString>) -> Result<u8, CommandError> {
    faces::run_alone(face, words.into_iter().skip(1).collect())
}
