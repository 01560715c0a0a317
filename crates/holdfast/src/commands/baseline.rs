//! `holdfast baseline`: measures this host and predicts its backups.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baseline::{Comparison, Depth, History, Outcome, OutcomeKind, Plan, Report, Subject, Watch};
use client::{
    BackupReport, Client, ImageReport, Interruptions, Origin, RestoreOptions, RestorePart,
    RestoreReport,
};
use model::ServerTime;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::{moment, path, quantity, report};

/// Measure this host and its way to the server, and predict what backups will take
///
/// Measures processors, memory, network, disks and the trees themselves, each alone, for at most 15
/// minutes. It changes no file, and leaves nothing behind. Disks are measured with fio, if it is
/// installed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast baseline /home --quick
  holdfast baseline /home /data --html baseline.html
  holdfast baseline /data --cold
  holdfast baseline --compare")]
pub(crate) struct Args {
    /// The directories to measure, each within its file system [default: the filespaces of this
    /// node's backups; without any, /]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Measure for at most a minute
    #[arg(long)]
    quick: bool,
    /// Drop the caches of the machine before trees are read. Needs root; slows the machine down
    /// until its caches are full again
    #[arg(long)]
    cold: bool,
    /// Measure nothing; compare the reports of this node that the server keeps, oldest first
    #[arg(long, conflicts_with_all = ["quick", "cold", "html", "paths"])]
    compare: bool,
    /// Write the report as one HTML file with plots, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    if args.compare {
        return show_trend(context);
    }
    args.html.as_deref().map_or(Ok(()), check_page)?;
    sys::process::raise_open_files();
    let home = context.home()?;
    let (client, no_client) = match context.client() {
        Ok(client) => (Some(client), None),
        Err(error) => (None, Some(format!("The server was not asked: {}.", error.message))),
    };
    let paths = paths(args, client.as_ref())?;
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let plan = Plan::new(depth, args.cold, paths.len());
    let history = History::load(&home).map_err(|error| unreadable(&home, &error))?;
    let subject = Subject { paths: &paths, client: client.as_ref(), no_client, history: &history };
    let watch = Arc::new(Watch::new(&plan, context.progress()?));
    let shown = Arc::clone(&watch);
    let meter = context.meter_of(move || line(&shown));
    let measured = baseline::run(&subject, &plan, &watch);
    drop(meter);
    let report = measured.map_err(|error| CommandError::new(error.to_string()))?;
    keep(&home, &report, context);
    if let Some(client) = &client {
        keep_at_server(client, &report, context);
    }
    show(&report, context);
    if let Some(file) = &args.html {
        write_page(file, &report, &history)?;
    }
    Ok(DONE)
}

/// Returns the directories to measure, as absolute paths.
fn paths(args: &Args, client: Option<&Client>) -> Result<Vec<PathBuf>, CommandError> {
    use std::os::unix::ffi::OsStringExt as _;
    let to_path = |bytes: Vec<u8>| PathBuf::from(std::ffi::OsString::from_vec(bytes));
    if !args.paths.is_empty() {
        let paths = args.paths.iter().map(|path| path::bytes(path)).collect();
        let mut measured: Vec<PathBuf> = Vec::new();
        for path in path::from_root(paths)?.iter().map(|path| tidied(path)) {
            if !measured.contains(&path) {
                measured.push(path);
            }
        }
        return Ok(measured);
    }
    let filespaces = client.map_or_else(|| Ok(Vec::new()), Client::filespaces)?;
    let mounted = filespaces.into_iter().map(|filespace| to_path(filespace.name));
    // Streams have a filespace too, which is no directory.
    let mounted: Vec<_> = mounted.filter(|path| path.is_dir()).collect();
    Ok(if mounted.is_empty() { vec![PathBuf::from("/")] } else { mounted })
}

/// Returns `path` without superfluous slashes and single dots, so that a directory has one name in
/// reports and comparisons. A `..` stays: it may follow a symbolic link.
fn tidied(path: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(path)).components().collect()
}

/// Returns the name of the place at `path`, as reports have it.
fn place_name(path: &[u8]) -> String {
    model::escaped(tidied(path).as_os_str().as_bytes())
}

fn line(watch: &Watch) -> String {
    let (part, left) = watch.now();
    format!("measuring: {part}  at most {} left", quantity::clock(left))
}

/// Keeps the report at the node, for comparisons with its backups.
fn keep(home: &Path, report: &Report, context: &Context) {
    if let Err(error) = History::keep_report(home, report) {
        context.output.note(&format!(
            "the report is not kept in {}, so that nothing will be compared with it: {error}",
            home.display()
        ));
    }
}

/// Keeps the report at the server, for comparisons over time.
fn keep_at_server(client: &Client, report: &Report, context: &Context) {
    let document = serde_json::to_vec(report).expect("all keys are strings");
    if let Err(error) = client.keep_baseline(&document) {
        context
            .output
            .note(&format!("the report is not kept at the server: {}", error.message));
    }
}

/// Shows the reports that the server keeps, side by side.
fn show_trend(context: &mut Context) -> Result<u8, CommandError> {
    let kept = context.client()?.baselines()?;
    let documents = kept.iter().map(|one| (one.made, one.document.as_slice()));
    let trend = baseline::compare(documents);
    for note in &trend.notes {
        let made = moment::shown(ServerTime(note.made_micros));
        context.output.note(&format!("the report of {made} {}", note.reason));
    }
    if context.output.is_json() {
        context.output.json(&trend);
    } else if trend.columns.is_empty() {
        context
            .output
            .note("The server keeps no report of this node; run 'holdfast baseline'.");
    } else {
        context.output.text(&report::trend_text(&trend));
    }
    Ok(DONE)
}

/// Compares a backup of `paths` with the prediction of the node's last baseline, if there is one
/// of these paths, and keeps the comparison. Nothing that fails here makes the backup fail.
pub(super) fn compare(paths: &[Vec<u8>], backup: &BackupReport, context: &Context) {
    let has_journal = backup.journals.iter().any(|one| one.is_used);
    let outcome = Outcome {
        kind: if has_journal { OutcomeKind::Changes } else { OutcomeKind::Backup },
        paths: paths.iter().map(|path| place_name(path)).collect(),
        at_micros: sys::clock::system().0,
        inspected: backup.inspected,
        changed: backup.backed_up + backup.updated,
        bytes: backup.bytes_before_dedup,
        empty_bytes: 0,
        new_bytes: backup.bytes_after_dedup,
        elapsed_secs: worked_secs(backup.elapsed, backup.interruptions),
    };
    tell(&outcome, context);
}

/// Compares a restore with its prediction as [`compare`] does.
pub(super) fn compare_restore(
    options: &RestoreOptions,
    restored: &RestoreReport,
    context: &Context,
) {
    // Objects that exist are not written.
    let was_missing = restored.skipped.saturating_mul(10) <= restored.restored;
    if restored.restored == 0 || !was_missing || !is_predicted(options) {
        return;
    }
    let outcome = Outcome {
        kind: OutcomeKind::Restore,
        paths: options.paths.iter().map(|path| place_name(path)).collect(),
        at_micros: sys::clock::system().0,
        inspected: restored.restored,
        changed: restored.restored,
        bytes: restored.bytes_restored.saturating_sub(restored.hole_bytes),
        empty_bytes: 0,
        new_bytes: 0,
        elapsed_secs: worked_secs(restored.elapsed, restored.interruptions),
    };
    tell(&outcome, context);
}

/// Returns true if a baseline predicts restores of this kind: of everything, and onto the disk
/// that it has measured.
fn is_predicted(options: &RestoreOptions) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Vec<u8>| {
        let path = Path::new(OsStr::from_bytes(path));
        std::fs::metadata(path).ok().map(|status| status.dev())
    };
    let is_there = options.to.as_ref().is_none_or(|to| {
        let target = device(to);
        target.is_some() && options.paths.iter().all(|path| device(path) == target)
    });
    let is_whole = options.part == RestorePart::Whole;
    is_there && is_whole && matches!(options.origin, Origin::Backups)
}

/// Compares the image of the disk at `source` with its prediction as [`compare`] does.
pub(super) fn compare_image(source: &Path, made: &ImageReport, context: &Context) {
    let Some(device) = baseline::device_name(source) else { return };
    // A report that cannot be read is told after backups of files.
    let report = context.home().ok().and_then(|home| History::report(&home).ok().flatten());
    let places = report.map(|report| report.places).unwrap_or_default();
    let Some(place) = places.into_iter().find(|one| one.device.as_ref() == Some(&device)) else {
        return;
    };
    let outcome = Outcome {
        kind: OutcomeKind::Image,
        paths: vec![place.path],
        at_micros: sys::clock::system().0,
        inspected: made.parts,
        changed: made.changed_parts,
        bytes: made.backup.bytes_before_dedup,
        empty_bytes: made.read_bytes.saturating_sub(made.backup.bytes_before_dedup),
        new_bytes: made.backup.bytes_after_dedup,
        elapsed_secs: worked_secs(made.backup.elapsed, made.backup.interruptions),
    };
    tell(&outcome, context);
}

/// Returns the time in which a command could work.
fn worked_secs(elapsed: Duration, interruptions: Interruptions) -> f64 {
    elapsed.saturating_sub(interruptions.time()).as_secs_f64()
}

/// Shows and keeps the comparison of a run, if there is a prediction for it.
fn tell(outcome: &Outcome, context: &Context) {
    // A command that has run has a node's home.
    let Ok(home) = context.home() else { return };
    match compared(&home, outcome) {
        Ok(Some(comparison)) => context.output.note(&report::comparison_line(&comparison)),
        Ok(None) => {}
        Err(error) => context
            .output
            .note(&format!("this run is not compared with the node's baseline: {error}")),
    }
}

fn compared(home: &Path, outcome: &Outcome) -> std::io::Result<Option<Comparison>> {
    let Some(report) = History::report(home)? else { return Ok(None) };
    History::load(home)?.compare(home, &report, outcome)
}

fn unreadable(home: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(format!(
        "cannot read the comparisons of earlier runs in {}: {error}; remove the folder \
         'baseline' there to begin anew",
        home.display()
    ))
}

/// Fails if there is no folder for the page, so that this is not known only after the measurement.
fn check_page(file: &Path) -> Result<(), CommandError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = std::fs::metadata(folder.unwrap_or(Path::new(".")));
    match found {
        Err(error) => Err(unwritten(file, &error)),
        Ok(folder) if !folder.is_dir() => Err(unwritten(file, &ErrorKind::NotADirectory.into())),
        Ok(_) if file.is_dir() => Err(unwritten(file, &ErrorKind::IsADirectory.into())),
        Ok(_) => Ok(()),
    }
}

fn unwritten(file: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(format!("cannot write the report to {}: {error}", file.display()))
}

fn write_page(file: &Path, report: &Report, history: &History) -> Result<(), CommandError> {
    let shown = |micros| moment::shown(ServerTime(micros));
    let page = baseline::html(report, history, &shown)
        .map_err(|error| CommandError::new(error.to_string()))?;
    std::fs::write(file, page).map_err(|error| unwritten(file, &error))
}

fn show(report: &Report, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(report);
    } else {
        context.output.text(&report::baseline_text(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that the shell has completed has a slash at its end.
    #[test]
    fn a_directory_has_one_name() {
        for path in ["/home/ann", "/home/ann/", "//home/./ann//", "/home/ann/."] {
            assert_eq!(place_name(path.as_bytes()), "/home/ann", "{path}");
        }
        assert_eq!([place_name(b"/"), place_name(b"/a/../b/")], ["/", "/a/../b"]);
    }
}
