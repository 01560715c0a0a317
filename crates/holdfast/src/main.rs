//! The program `holdfast`: the command line, its reports, progress and exit codes.
//!
//! ```text
//!   arguments -> commands::<one file a command> -> client | server
//!                          |
//!                        report, table -> output -> standard output
//! ```
//!
//! 1. Only `output` writes to standard output and standard error.
//! 2. Only this crate reads the environment, the working directory and the terminal.
//! 3. Exit codes are TSM's: 0 all done, 4 some objects failed or were skipped, 8 done with
//!    warnings, 12 not done.
//! 4. No command handles messages of the wire protocol: `client` and `server` have plain types.
//!
//! Deliberately absent: the work of a backup or a server.

mod address;
mod arguments;
mod around;
mod authorities;
mod commands;
mod context;
mod error;
mod filelist;
mod flag;
mod folder_owner;
mod home;
mod interrupt;
mod logging;
mod meter;
mod moment;
mod options;
mod output;
mod path;
mod priority;
mod quantity;
#[cfg(test)]
mod reference;
mod report;
mod running;
mod secret;
mod servers;
mod settings;
mod stream;
mod table;
mod traces;
mod typed;
mod values;
mod waiter;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::arguments::{Arguments, Stop};
use crate::error::{CommandError, DONE, NOT_DONE};
use crate::options::LogFormat;
use crate::output::Format;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Name of TSM's administrative command line, under which the program may be called.
const DSMADMC: &str = "dsmadmc";

fn main() -> ExitCode {
    sys::process::use_small_pages();
    // A pause that is ordered before the command has begun would end the process.
    sys::process::ignore_user_signals();
    let mut words: Vec<_> = std::env::args_os().collect();
    if program_name(&words).rsplit('/').next() == Some(DSMADMC) {
        words.insert(1, DSMADMC.into());
    }
    if let Some(face) = commands::dsm::by_name(&program_name(&words)) {
        return ended(commands::dsm::run_face(face, words), Format::Text, LogFormat::Text);
    }
    let (format, mut log_format) = (arguments::format(&words), LogFormat::Text);
    let done = match arguments::parse(words) {
        Ok(arguments) => {
            log_format = arguments.global.log_format;
            commands::run(arguments, Arguments::command)
        }
        Err(Stop::Help(help)) => {
            output::help(&help);
            Ok(DONE)
        }
        Err(Stop::Usage(error)) => Err(error),
    };
    ended(done, format, log_format)
}

/// Returns the name by which the program was called.
fn program_name(words: &[OsString]) -> String {
    words
        .first()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Writes the error of a command, and returns the exit code. Among messages as JSON the error is
/// one of them, so that the reader of a server's log finds there why the server has ended.
fn ended(done: Result<u8, CommandError>, format: Format, log_format: LogFormat) -> ExitCode {
    ExitCode::from(done.unwrap_or_else(|error| {
        let is_message = format == Format::Text && log_format == LogFormat::Json;
        if !(is_message && logging::log_error(&error)) {
            output::say_error(&error, format);
        }
        NOT_DONE
    }))
}
