//! Messages of the program while it runs, on standard error.

use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

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
    // Spans belong to traces: no message names them.
    let filter = filter.and(filter_fn(|what| what.is_event()));
    let traces = traces.map(Traces::start).transpose()?;
    let messages = tracing_subscriber::fmt::layer()
        // A lost standard error cannot be reported anywhere, and must not end the program.
        .log_internal_errors(false)
        // Colours are sequences, which no message may hold.
        .with_ansi(false);
    let messages = match format {
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
    };
    let spans = traces.as_ref().map(Traces::layer);
    tracing_subscriber::registry().with(messages).with(spans).init();
    Ok(traces)
}

fn default_directives(level: Level) -> &'static str {
    match level {
        Level::Quiet => "error",
        Level::Command => "warn",
        Level::Server => "info",
        Level::Verbose => VERBOSE,
    }
}
