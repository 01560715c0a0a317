//! `holdfast hsm migrate`, `premigrate`, `recall`, `relieve`, `reconcile`, `undelete` and `cancel`:
//! requests to the worker.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use ::hsm::{AskError, FileOutcome, PathText, Reply, Request};
use client::Phase;
use model::escaped;
use serde::Serialize;

use super::ask::{ask, socket_folder};
use super::plan;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, WARNED};
use crate::output;
use crate::path::{self, JsonPath};
use crate::quantity;

/// Maximum size of a list of files, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// Files and directories, on the command line or in a list
#[derive(clap::Args, Debug)]
pub(super) struct PathArgs {
    /// Files, and directories with everything in them
    #[arg(value_name = "PATH", required_unless_present = "filelist")]
    paths: Vec<PathBuf>,
    /// Take the paths listed in a file too, one per line; - reads standard input
    #[arg(long, value_name = "FILE")]
    filelist: Option<PathBuf>,
    /// The paths in the file list end with NUL instead of a newline
    #[arg(long, short = '0', requires = "filelist")]
    null: bool,
}

impl PathArgs {
    pub(super) fn paths(&self) -> Result<Vec<PathText>, CommandError> {
        let mut paths: Vec<PathText> = self
            .paths
            .iter()
            .map(|path| path::absolute(path).map(PathText))
            .collect::<Result<_, CommandError>>()?;
        let Some(list) = &self.filelist else { return Ok(paths) };
        let end = if self.null { 0 } else { b'\n' };
        let bytes = read_list(list)?;
        let lines = bytes.split(|&byte| byte == end).filter(|line| !line.is_empty());
        for line in lines {
            use std::os::unix::ffi::OsStrExt as _;
            let line = PathBuf::from(std::ffi::OsStr::from_bytes(unquoted(line)));
            paths.push(PathText(path::absolute(&line)?));
        }
        Ok(paths)
    }
}

/// Returns the path in a line. TSM's lists put paths with blanks in quotes.
fn unquoted(line: &[u8]) -> &[u8] {
    match line {
        [b'"', within @ .., b'"'] | [b'\'', within @ .., b'\''] => within,
        line => line,
    }
}

fn read_list(list: &PathBuf) -> Result<Vec<u8>, CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(format!("cannot read {}: {error}", list.display()))
    };
    let mut bytes = Vec::new();
    if list.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .take(LIST_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    } else {
        let file = std::fs::File::open(list).map_err(failed)?;
        file.take(LIST_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    }
    Ok(bytes)
}

/// Totals at the end of the work on files.
#[derive(Clone, Copy)]
enum Totals {
    /// Files by their states, and a number of bytes with its meaning.
    Files { verb: &'static str },
    /// Files that are stubs again, and files that came back with their content.
    Stubs,
}

/// Shows the outcome of each file, and counts the outcomes.
struct OutcomeReport<'a> {
    context: &'a mut Context,
    detail: bool,
    by_state: [u64; 3],
    failed: u64,
    bytes: u64,
    shown: usize,
}

/// One file of `hsm migrate --json` and similar commands, one document per line.
#[derive(Serialize)]
struct FileDocument<'a> {
    path: JsonPath<'a>,
    state: Option<&'a str>,
    bytes: u64,
    error: Option<&'a str>,
}

impl<'a> OutcomeReport<'a> {
    fn new(context: &'a mut Context, detail: bool) -> Self {
        Self { context, detail, by_state: [0; 3], failed: 0, bytes: 0, shown: 0 }
    }

    fn take(&mut self, outcome: &FileOutcome) -> bool {
        let FileOutcome { path, state, bytes, error } = outcome;
        self.bytes += bytes;
        match state.as_deref() {
            Some("m") => self.by_state[0] += 1,
            Some("p") => self.by_state[1] += 1,
            Some(_) => self.by_state[2] += 1,
            None => self.failed += 1,
        }
        if self.context.output.is_json() {
            let (state, error) = (state.as_deref(), error.as_deref());
            let path = JsonPath(&path.0);
            self.context.output.json(&FileDocument { path, state, bytes: *bytes, error });
            self.context.output.flush();
        } else if let Some(error) = error {
            if self.shown < self.context.failures_max() {
                output::say(&format!("{}: {error}", escaped(&path.0)));
            }
            self.shown += 1;
        } else if self.detail {
            let state = state.as_deref().unwrap_or_default();
            self.context.output.text(&format!("{state} {}\n", escaped(&path.0)));
        }
        self.context.output.is_open()
    }

    fn end(self, totals: Totals) -> u8 {
        let [migrated, premigrated, resident] = self.by_state;
        if !self.context.output.is_json() {
            let hidden = self.shown.saturating_sub(self.context.failures_max());
            if hidden > 0 {
                output::say(&format!("and {hidden} more; --verbose names all"));
            }
            let text = match totals {
                Totals::Stubs => {
                    let recalled = match premigrated {
                        0 => String::new(),
                        _ => format!("Files recalled:     {:>12}\n", quantity::count(premigrated)),
                    };
                    format!(
                        "Stubs made:         {:>12}\n{recalled}Files failed:       {:>12}\n\
                         Bytes at the server: {:>11}\n",
                        quantity::count(migrated),
                        quantity::count(self.failed),
                        quantity::bytes_with_unit(self.bytes),
                    )
                }
                Totals::Files { verb } => format!(
                    "Files migrated:     {:>12}\nFiles premigrated:  {:>12}\nFiles resident:     \
                 {:>12}\nFiles failed:       {:>12}\nBytes {verb:<12}  {:>12}\n",
                    quantity::count(migrated),
                    quantity::count(premigrated),
                    quantity::count(resident),
                    quantity::count(self.failed),
                    quantity::bytes_with_unit(self.bytes),
                ),
            };
            self.context.output.text(&text);
        }
        if self.failed > 0 { FAILED } else { DONE }
    }
}

fn run_files(
    context: &mut Context,
    request: &Request,
    detail: bool,
    totals: Totals,
) -> Result<u8, CommandError> {
    let folder = socket_folder(context)?;
    let progress = context.progress()?;
    let meter = context.meter(&progress);
    let mut report = OutcomeReport::new(context, detail);
    let mut visit = |reply| match reply {
        Reply::Expect { files, bytes } => {
            progress.objects_expected.store(files, Relaxed);
            progress.bytes_expected.store(bytes, Relaxed);
            progress.enter(Phase::Running);
            true
        }
        Reply::File(outcome) => {
            progress.objects.fetch_add(1, Relaxed);
            progress.bytes.fetch_add(outcome.bytes, Relaxed);
            progress.failed.fetch_add(u64::from(outcome.error.is_some()), Relaxed);
            report.take(&outcome)
        }
        _ => true,
    };
    let asked = ::hsm::ask_while(&folder, request, &mut visit, &|| !progress.is_stopped());
    drop(meter);
    match asked {
        Ok(()) => Ok(report.end(totals)),
        Err(error @ AskError::Interrupted) => {
            report.end(totals);
            let hint = "run the same command again to continue with the other files";
            Err(CommandError::new(error.to_string()).with_hint(hint))
        }
        Err(error) => Err(CommandError::chain(&error)),
    }
}

/// Copy files to the server and free the space that they take; or only copy them (premigrate)
///
/// Files that are in use, or have changed meanwhile, stay resident and are listed. In folders, so
/// are files that are smaller than '--min-size' of 'hsm add'; a file that is named itself, or in a
/// list, migrates whatever its size.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm migrate /data/2024
  find /data -size +1G -print0 | holdfast hsm premigrate --filelist - --null")]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Name each file
    #[arg(long)]
    detail: bool,
}

pub(super) fn migrate(
    args: &MigrateArgs,
    only_copies: bool,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let request = Request::Migrate { paths: args.paths.paths()?, only_copies, any_size: true };
    let verb = if only_copies { "copied:" } else { "freed:" };
    run_files(context, &request, args.detail, Totals::Files { verb })
}

/// Bring the content of files back; the server keeps its copies too
///
/// Every user may recall files of their own. The recall reads one volume after the other, each in
/// the order of the data on it. A recall that was interrupted continues where it ended when it is
/// run again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm recall /data/2024/run-17
  holdfast hsm recall --filelist wanted --dry-run
  holdfast hsm recall --filelist wanted")]
pub(super) struct RecallArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Make the files resident: the next 'hsm reconcile' releases their copies
    #[arg(long)]
    resident: bool,
    /// Show which volumes are needed, in which order, and how long the recall will take; recall
    /// nothing
    #[arg(long, conflicts_with = "resident")]
    dry_run: bool,
    /// Name each file
    #[arg(long)]
    detail: bool,
}

pub(super) fn recall(args: &RecallArgs, context: &mut Context) -> Result<u8, CommandError> {
    let RecallArgs { resident, dry_run: preview, .. } = *args;
    let request = Request::Recall { paths: args.paths.paths()?, resident, preview };
    if preview {
        return plan::preview(&request, args.detail, context);
    }
    run_files(context, &request, args.detail, Totals::Files { verb: "recalled:" })
}

/// Migrate files by policy now, as when the file system is too full
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm relieve /data")]
pub(super) struct RelieveArgs {
    /// The mount point of the file system
    #[arg(value_name = "FS")]
    mount_point: PathBuf,
    /// Name each file
    #[arg(long)]
    detail: bool,
}

pub(super) fn relieve(args: &RelieveArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mount_point = PathText(path::absolute(&args.mount_point)?);
    run_files(
        context,
        &Request::Relieve { mount_point },
        args.detail,
        Totals::Files { verb: "freed:" },
    )
}

/// Compare the stubs of a file system with the server's copies
///
/// Copies that no file names any more are released: the server keeps them as long as their class
/// keeps deleted files. If at least 20 copies and more than half of all would be released, none is,
/// because this looks like another file system at the mount point. Stubs whose copy is lost, or was
/// released, are listed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm reconcile /data --dry-run")]
pub(super) struct ReconcileArgs {
    /// The mount point of the file system
    #[arg(value_name = "FS")]
    mount_point: PathBuf,
    /// Count the copies that would be released, and release none
    #[arg(long)]
    dry_run: bool,
    /// Release the copies that no file names even if they are most of the copies
    #[arg(long, alias = "confirm-release", conflicts_with = "dry_run")]
    confirm: bool,
}

/// `hsm reconcile --json`.
#[derive(Serialize)]
struct ReconciledDocument<'a> {
    kept: u64,
    released: u64,
    doubtful: u64,
    lost: Vec<JsonPath<'a>>,
    expiring: Vec<JsonPath<'a>>,
}

pub(super) fn reconcile(args: &ReconcileArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mount_point = PathText(path::absolute(&args.mount_point)?);
    let (dry_run, is_confirmed) = (args.dry_run, args.confirm);
    let request = Request::Reconcile { mount_point, dry_run, is_confirmed };
    let mut told = None;
    ask(context, &request, &mut |reply| {
        told = Some(reply);
        true
    })?;
    let Some(Reply::Reconciled { kept, released, doubtful, lost, expiring }) = &told else {
        return Ok(DONE);
    };
    if context.output.is_json() {
        let (kept, released, doubtful) = (*kept, *released, *doubtful);
        let [lost, expiring] =
            [lost, expiring].map(|paths| paths.iter().map(|path| JsonPath(&path.0)).collect());
        context
            .output
            .json(&ReconciledDocument { kept, released, doubtful, lost, expiring });
    } else {
        lost.iter().for_each(|path| {
            output::say(&format!("{}: the server has lost the copy", escaped(&path.0)));
        });
        expiring.iter().for_each(|path| {
            output::say(&format!(
                "{}: its copy was released and will expire; recall the file",
                escaped(&path.0)
            ));
        });
        let text = format!(
            "Copies kept:        {:>12}\nCopies released:    {:>12}\nStubs without copy: {:>12}\n",
            quantity::count(*kept),
            quantity::count(*released),
            quantity::count(lost.len() as u64),
        );
        context.output.text(&text);
    }
    if *doubtful > 0 {
        output::say(&format!(
            "{} of {} copies are named by no file; none was released, because this looks like \
             another file system at the mount point; if the files were deleted, 'holdfast hsm \
             reconcile --confirm' releases the copies",
            quantity::count(*doubtful),
            quantity::count(doubtful + kept),
        ));
    }
    Ok(match (lost.is_empty() && expiring.is_empty(), *doubtful) {
        (false, _) => FAILED,
        (true, 0) => DONE,
        (true, _) => WARNED,
    })
}

/// Make deleted stubs again, while the server still has their copies
///
/// Each stub is made at the path of the file when it was migrated, unless another object has that
/// path. Missing directories are made. A file whose copy was released already comes back with its
/// content. Every user may undelete files of their own, one by one, in folders in which they may
/// make files.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm undelete /data/2024/run-17
  holdfast hsm undelete /data")]
pub(super) struct UndeleteArgs {
    /// Paths of deleted files, of folders with everything that was in them, or of file systems
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Name each file
    #[arg(long)]
    detail: bool,
}

pub(super) fn undelete(args: &UndeleteArgs, context: &mut Context) -> Result<u8, CommandError> {
    undelete_paths(&args.paths, args.detail, context)
}

/// Asks the worker to make stubs of the deleted files at and below `paths` again.
pub(crate) fn undelete_paths(
    paths: &[PathBuf],
    detail: bool,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let paths = paths.iter().map(|path| path::absolute(path).map(PathText));
    let paths = paths.collect::<Result<_, CommandError>>()?;
    run_files(context, &Request::UndeletePaths { paths }, detail, Totals::Stubs)
}

/// Asks the worker to make stubs of the files below `paths` that a restore has left out.
pub(crate) fn make_stubs(
    paths: &[Vec<u8>],
    bytes_min: u64,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let paths = paths.iter().cloned().map(PathText).collect();
    run_files(context, &Request::MakeStubs { paths, bytes_min }, false, Totals::Stubs)
}

/// Cancel a recall; programs that wait for it get an error
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm status
  holdfast hsm cancel 17")]
pub(super) struct CancelArgs {
    /// The number of the recall, which 'holdfast hsm status' shows
    #[arg(value_name = "NUMBER")]
    number: u64,
}

pub(super) fn cancel(args: &CancelArgs, context: &Context) -> Result<u8, CommandError> {
    ask(context, &Request::Cancel { number: args.number }, &mut |_| true)?;
    context.output.note(&format!("Request {} is cancelled.", args.number));
    Ok(DONE)
}
