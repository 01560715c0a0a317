//! Messages of the program while it runs, on standard error.

use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::error::CommandError;
use crate::options::LogFormat;
use crate::output;
use crate::traces::Traces;

/// Environment variable with a filter that replaces the filter of the level, as in
/// `HOLDFAST_LOG=server=debug`.
const VARIABLE: &str = "HOLDFAST_LOG";
/// Filter that shows details of the program's own crates.
const VERBOSE: &str =
    "info,holdfast=debug,client=debug,server=debug,api=debug,catalog=debug,pool=debug";

/// Filter of a quiet command: errors, and the warning that a GPU that the user has asked for does
/// not compress.
const QUIET: &str = "error,client::backup::gpu=warn";

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

/// Begins to write messages, and to send traces to the collector at `traces`.
pub(crate) fn start(
    level: Level,
    format: LogFormat,
    traces: Option<&str>,
) -> Result<Option<Traces>, CommandError> {
    let directives = match std::env::var(VARIABLE) {
        Ok(directives) if !directives.is_empty() => directives,
        _ => default_directives(level).to_owned(),
    };
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        CommandError::new(format!("{VARIABLE}={directives} is not a filter: {error}"))
    })?;
    let traces = traces.map(Traces::start).transpose()?;
    let registry = tracing_subscriber::registry().with(messages(filter, level, format));
    // A layer that is `None` counts as one that wants all spans, those of libraries, too.
    match traces.as_ref().map(Traces::layer) {
        Some(spans) => registry.with(spans).init(),
        None => registry.init(),
    }
    Ok(traces)
}

/// Returns the layer that writes the messages that `filter` lets through.
fn messages(
    filter: EnvFilter,
    level: Level,
    format: LogFormat,
) -> Box<dyn Layer<Registry> + Send + Sync> {
    // Spans belong to traces: no message names them. Without the hint, the most detailed level
    // would count as wanted, and libraries would make a span for each frame of the network.
    let is_event = filter_fn(|what| what.is_event()).with_max_level_hint(LevelFilter::TRACE);
    let filter = filter.and(is_event);
    let messages = tracing_subscriber::fmt::layer()
        // A lost standard error cannot be reported anywhere, and must not end the program.
        .log_internal_errors(false)
        // Colours are sequences, which no message may hold.
        .with_ansi(false);
    match format {
        LogFormat::Text => messages
            .with_target(level == Level::Verbose)
            .with_writer(|| output::LogLines)
            .with_filter(filter)
            .boxed(),
        LogFormat::Json => messages
            .json()
            .flatten_event(true)
            .with_writer(|| output::JsonLogLines)
            .with_filter(filter)
            .boxed(),
    }
}

/// Logs the error that ends the command. Returns false if the filter hides it.
pub(crate) fn log_error(error: &CommandError) -> bool {
    let is_shown = tracing::event_enabled!(tracing::Level::ERROR);
    if is_shown {
        tracing::error!(hint = error.hint.as_deref(), "{}", error.message);
    }
    is_shown
}

fn default_directives(level: Level) -> &'static str {
    match level {
        Level::Quiet => QUIET,
        Level::Command => "warn",
        Level::Server => "info",
        Level::Verbose => VERBOSE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The detailed spans of libraries were made, and then nobody wanted them.
    #[test]
    fn what_is_not_shown_is_not_made() {
        for (level, most) in [
            (Level::Command, LevelFilter::WARN),
            (Level::Server, LevelFilter::INFO),
            (Level::Verbose, LevelFilter::DEBUG),
        ] {
            let filter = EnvFilter::try_new(default_directives(level)).expect("a filter");
            let messages = messages(filter, level, LogFormat::Text);
            let subscriber = tracing_subscriber::registry().with(messages);
            assert_eq!(tracing::Subscriber::max_level_hint(&subscriber), Some(most));
        }
    }
}
