//! Messages of the program while it runs, on standard error.

use tracing_subscriber::EnvFilter;

use crate::error::CommandError;
use crate::output;

/// Environment variable with a filter that replaces the filter of the level, as in
/// `HOLDFAST_LOG=server=debug`.
const VARIABLE: &str = "HOLDFAST_LOG";
/// Filter that shows details of the program's own crates.
const VERBOSE: &str = "info,holdfast=debug,client=debug,server=debug,catalog=debug,pool=debug";

/// Amount of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Quiet,
    /// Warnings only, because a command has a report.
    Command,
    /// Warnings and the steps of the work, because a server has no report.
    Server,
    Verbose,
}

pub(crate) fn start(level: Level) -> Result<(), CommandError> {
    let directives = match std::env::var(VARIABLE) {
        Ok(directives) if !directives.is_empty() => directives,
        _ => default_directives(level).to_owned(),
    };
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        CommandError::new(format!("{VARIABLE}={directives} is not a filter: {error}"))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| output::LogLines)
        // A lost standard error cannot be reported anywhere, and must not end the program.
        .log_internal_errors(false)
        // Colours are sequences, which no message may hold.
        .with_ansi(false)
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
