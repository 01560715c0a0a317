//! The options of all commands.

use std::path::PathBuf;

/// Options of all commands, before or after the command's name.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Global options")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Global {
    /// The folder with this node's configuration and keys [default: $HOLDFAST_HOME; if it is not
    /// set, /etc/holdfast for root and ~/.config/holdfast for other users]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Write JSON to standard output: one document, or for a list one document per line; and an
    /// error, and each note, as one document to standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Write results, failures and warnings only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Write details to standard error, with a line for each object that is sent or restored
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// Form of the messages on standard error while the program runs: json is one document a line,
    /// with time, level, target and fields
    #[arg(long, global = true, value_name = "FORM", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Send traces of the work to this collector, by OpenTelemetry's protocol over HTTP
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) traces: Option<String>,
    /// Show progress even where standard error is not a terminal
    #[arg(long, global = true)]
    pub(crate) progress: bool,
    /// Priority for processors and disks. With low (nice 10, ionice best-effort 7) other programs
    /// come first; the programs that the command starts have it, too
    #[arg(long, global = true, value_name = "LEVEL", value_enum)]
    pub(crate) priority: Option<Priority>,
}

/// Form of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Priority of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Priority {
    Low,
    Normal,
}
