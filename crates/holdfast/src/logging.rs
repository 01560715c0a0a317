//! What the program says while it runs, on standard error.

use tracing_subscriber::EnvFilter;

use crate::error::CommandError;
use crate::output;

/// The variable with a filter of its own, as in `HOLDFAST_LOG=server=debug`.
const VARIABLE: &str = "HOLDFAST_LOG";
/// The program's own crates in detail, all others as usual.
const VERBOSE: &str = "info,holdfast=debug,client=debug,server=debug,catalog=debug,pool=debug";

/// How much is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Quiet,
    /// Warnings only: a command's report says the rest.
    Command,
    /// A server has no report.
    Server,
    Verbose,
}

pub(crate) fn start(level: Level) -> Result<(), CommandError> {
    let directives = match std::env::var(VARIABLE) {
        Ok(directives) if !directives.is_empty() => directives,
        _ => default_directives(level).to_owned(),
    };
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        CommandError::new(format!("{VARIABLE}={directives} is no filter: {error}"))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Nobody could be told that standard error is gone, and it must not end the program.
        .log_internal_errors(false)
        .with_ansi(output::stderr_is_terminal())
        .with_target(level == Level::Verbose)
        .init();
    Ok(())
}

fn default_directives(level: Level) -> &'static str {
    match level {
        Level::Quiet => "error",
        Level::Command => "warn",
        Level::Server => "info",
        Level::Verbose => VERBOSE,
    }
}
