//! `holdfast dsmadmc`: TSM's administrative command line, over the administration socket.
//!
//! ```text
//!   words -> dsm::admin::invocation -> session -> dsm::admin::command -> plan
//!                                        |                               |
//!                    prompt, macros, files                views | orders | SELECT
//!                                                            |      |
//!                                        client::admin <-----+      +--> commands::admin
//! ```
//!
//! 1. Nothing is done that `holdfast admin` cannot do: orders are its command lines, or the same
//!    calls.
//! 2. The exit code is the highest return code of the commands.

mod destination;
mod link;
mod orders;
mod refusal;
mod session;
mod views;

use std::ffi::OsString;

use dsm::admin::invocation;

pub(super) use self::link::{LineError, LineOutcome, LineRunner};
use self::session::Session;
use crate::context::Context;
use crate::error::CommandError;
use crate::output;

/// Administer the server with TSM's commands
///
/// The words are those of TSM's dsmadmc.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
#[command(after_help = "\
Example:
  holdfast dsmadmc -id=admin -dataonly=yes -commadelimited 'query node'")]
pub(crate) struct Args {
    /// Options of dsmadmc, and a command
    #[arg(value_name = "WORD", last = true)]
    words: Vec<OsString>,
}

/// Runs the words. `runner` runs command lines of `holdfast`.
pub(super) fn run(
    args: &Args,
    context: &mut Context,
    runner: LineRunner,
) -> Result<u8, CommandError> {
    let words: Vec<String> =
        args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let code = match invocation::parse(&words) {
        Ok(invocation) => Session::run(invocation, context, runner)?,
        Err(message) => {
            let text = message.to_string();
            match words
                .iter()
                .any(|word| matches!(word.as_str(), "-json" | "-JSON" | "--json" | "--JSON"))
            {
                true => output::say(&text),
                false => context.output.line(&text),
            }
            message.code.number()
        }
    };
    Ok(code)
}
