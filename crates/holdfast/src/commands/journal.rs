//! `holdfast journal`: the watcher, by which a backup looks only where something has changed.

use ::journal::{FilesystemState, Watcher, WatcherState};
use model::{ServerTime, escaped, printable};
use sd_notify::NotifyState;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::JsonPath;
use crate::table::{self, Align};
use crate::{moment, output, quantity};

/// Watch file systems, so that a backup looks only where something has changed
///
/// While 'holdfast journal run' is running, a backup of a whole filespace on ext4, XFS or btrfs
/// looks only at directories that have changed since the last backup. The first backup, and each
/// backup without a complete record of the changes, walks everything.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast journal run &
  holdfast backup /data
  holdfast journal status")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: JournalCommand,
}

#[derive(clap::Subcommand, Debug)]
enum JournalCommand {
    Run(RunArgs),
    Status(StatusArgs),
}

/// Watch the file systems that are backed up, until the process is ended
///
/// A file system is watched from its first backup on. The record of the changes is in memory: after
/// a new start, the next backup of each filespace walks everything. Needs root.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast journal run &")]
struct RunArgs {}

/// Show the watched file systems, and since when their changes are known
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast journal status
  holdfast journal status --json")]
struct StatusArgs {}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    match args.command {
        JournalCommand::Run(RunArgs {}) => watch(context),
        JournalCommand::Status(StatusArgs {}) => status(context),
    }
}

fn watch(context: &Context) -> Result<u8, CommandError> {
    if !sys::process::is_root() {
        let message = "only root may watch file systems; run 'holdfast journal run' as root";
        return Err(CommandError::new(message));
    }
    sys::process::use_small_pages();
    let watcher = Watcher::listen(&context.home()?).map_err(|error| CommandError::chain(&error))?;
    // Without a service manager there is nobody to tell.
    let _nobody = sd_notify::notify(&[NotifyState::Ready]);
    output::say("the journal answers backups");
    watcher.run();
    Ok(DONE)
}

/// `journal status --json`.
#[derive(Serialize)]
struct StatusDocument<'a> {
    pid: u32,
    started: String,
    filesystems: Vec<FilesystemDocument<'a>>,
}

#[derive(Serialize)]
struct FilesystemDocument<'a> {
    path: JsonPath<'a>,
    watched_since: String,
    /// Number of directories that have changed since the oldest backup from which one goes on.
    directories: u64,
    reports: u64,
    overflows: u64,
    backups_under_way: u64,
    last_loss: Option<LossDocument<'a>>,
    filespaces: Vec<FilespaceDocument<'a>>,
    last_difference: Option<DifferenceDocument<'a>>,
}

#[derive(Serialize)]
struct LossDocument<'a> {
    at: String,
    reason: &'a str,
}

#[derive(Serialize)]
struct FilespaceDocument<'a> {
    filespace: JsonPath<'a>,
    looked_at_each_time: u64,
    walked_secs_ago: u64,
}

#[derive(Serialize)]
struct DifferenceDocument<'a> {
    at: String,
    objects: u64,
    first: JsonPath<'a>,
}

fn status(context: &mut Context) -> Result<u8, CommandError> {
    let state = ::journal::status(&context.home()?).map_err(|error| CommandError::chain(&error))?;
    if context.output.is_json() {
        context.output.json(&document(&state));
    } else {
        context.output.text(&text(&state));
    }
    Ok(DONE)
}

fn at(micros: i64) -> String {
    moment::rfc3339(ServerTime(micros))
}

fn document(state: &WatcherState) -> StatusDocument<'_> {
    StatusDocument {
        pid: state.pid,
        started: at(state.started_micros),
        filesystems: state.filesystems.iter().map(filesystem).collect(),
    }
}

fn filesystem(state: &FilesystemState) -> FilesystemDocument<'_> {
    let loss = state.last_loss.as_ref();
    let difference = state.last_difference.as_ref();
    FilesystemDocument {
        path: JsonPath(&state.path.0),
        watched_since: at(state.watched_since_micros),
        directories: state.directories,
        reports: state.reports,
        overflows: state.overflows,
        backups_under_way: state.backups_under_way,
        last_loss: loss.map(|loss| LossDocument { at: at(loss.at_micros), reason: &loss.reason }),
        filespaces: state
            .anchors
            .iter()
            .map(|anchor| FilespaceDocument {
                filespace: JsonPath(&anchor.filespace.0),
                looked_at_each_time: anchor.again,
                walked_secs_ago: anchor.walked_secs_ago,
            })
            .collect(),
        last_difference: difference.map(|difference| DifferenceDocument {
            at: at(difference.at_micros),
            objects: difference.objects,
            first: JsonPath(&difference.first.0),
        }),
    }
}

fn text(state: &WatcherState) -> String {
    let head = format!(
        "The watcher is process {}, since {}.\n",
        state.pid,
        moment::shown(ServerTime(state.started_micros))
    );
    if state.filesystems.is_empty() {
        return format!("{head}No file system is watched yet; a backup begins a watch.\n");
    }
    let columns = [
        ("File system", Align::Left),
        ("Watched since", Align::Left),
        ("Changed directories", Align::Right),
        ("Overflows", Align::Right),
        ("Filespaces by journal", Align::Right),
    ];
    let row = |state: &FilesystemState| {
        [
            escaped(&state.path.0),
            moment::shown(ServerTime(state.watched_since_micros)),
            quantity::count(state.directories),
            quantity::count(state.overflows),
            quantity::count(state.anchors.len() as u64),
        ]
    };
    let rows: Vec<_> = state.filesystems.iter().map(row).collect();
    let facts: String = state.filesystems.iter().map(facts).collect();
    format!("{head}\n{}{facts}", table::render(columns, &rows))
}

/// Returns lines about the losses and differences of a file system.
fn facts(state: &FilesystemState) -> String {
    let path = escaped(&state.path.0);
    let loss = state.last_loss.as_ref().map(|loss| {
        let (at, reason) = (moment::shown(ServerTime(loss.at_micros)), printable(&loss.reason));
        format!("\n{path}: the record began anew on {at}, because {reason}.\n")
    });
    let difference = state.last_difference.as_ref().map(|difference| {
        let (at, objects) = (moment::shown(ServerTime(difference.at_micros)), difference.objects);
        let noun = if objects == 1 { "object" } else { "objects" };
        format!(
            "\n{path}: on {at} a walk found {objects} changed {noun} that the journal had missed, \
             first {}. This is a bug of Holdfast; please report it.\n",
            escaped(&difference.first.0)
        )
    });
    loss.unwrap_or_default() + &difference.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ::journal::{AnchorState, DifferenceState, LossState, PathText};

    use super::*;

    fn state() -> WatcherState {
        let path = |path: &[u8]| PathText(path.to_vec());
        let at_micros = 1_700_000_000_000_000;
        WatcherState {
            pid: 7,
            started_micros: at_micros,
            filesystems: vec![FilesystemState {
                path: path(b"/data"),
                watched_since_micros: at_micros,
                directories: 12_345,
                reports: 1_000_000,
                overflows: 1,
                backups_under_way: 0,
                last_loss: Some(LossState {
                    at_micros,
                    reason: "the queue of the kernel was full".to_owned(),
                }),
                anchors: vec![AnchorState {
                    filespace: path(b"/data\xff"),
                    again: 3,
                    walked_secs_ago: 60,
                }],
                last_difference: Some(DifferenceState {
                    at_micros,
                    objects: 1,
                    first: path(b"/data/missed"),
                }),
            }],
        }
    }

    #[test]
    fn the_document_has_every_key() {
        let document = serde_json::to_string_pretty(&document(&state())).expect("a document");
        insta::assert_snapshot!(document);
    }

    #[test]
    fn the_text_names_losses_and_differences() {
        let text = text(&state());
        for part in ["/data", "12,345", "the queue of the kernel was full", "/data/missed"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let nothing = WatcherState { filesystems: Vec::new(), ..state() };
        assert!(super::text(&nothing).contains("No file system is watched yet"));
    }
}
