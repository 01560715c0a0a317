//! `holdfast hsm migrate`, `premigrate`, `recall`, `relieve`, `reconcile` and `cancel`: what the
//! worker is asked to do.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use ::hsm::{FileOutcome, PathText, Reply, Request};
use client::Phase;
use model::escaped;
use serde::Serialize;

use super::{ask, plan};
use crate::commands::{Context, DONE};
use crate::error::{CommandError, FAILED};
use crate::output;
use crate::path::{self, JsonPath};
use crate::quantity;

/// Bytes of a list of files at most.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// Files and directories, on the command line or in a list
#[derive(clap::Args, Debug)]
struct PathArgs {
    /// Files, and directories with all that is in them
    #[arg(value_name = "PATH", required_unless_present = "filelist")]
    paths: Vec<PathBuf>,
    /// Take the paths in this file, one a line; - reads standard input
    #[arg(long, value_name = "FILE")]
    filelist: Option<PathBuf>,
    /// The paths of the list end with NUL instead of a newline
    #[arg(long, requires = "filelist")]
    null: bool,
}

impl PathArgs {
    fn paths(&self) -> Result<Vec<PathText>, CommandError> {
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

/// A line as TSM's lists have it: in quotes where the path has blanks.
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

/// What files come to, and what has become of them as a whole.
struct Teller<'a> {
    context: &'a mut Context,
    detail: bool,
    by_state: [u64; 3],
    failed: u64,
    bytes: u64,
    shown: usize,
}

/// One file: `hsm migrate --json` and others, one a line.
#[derive(Serialize)]
struct FileDocument<'a> {
    path: JsonPath<'a>,
    state: Option<&'a str>,
    bytes: u64,
    error: Option<&'a str>,
}

impl<'a> Teller<'a> {
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

    fn end(self, verb: &str) -> u8 {
        let [migrated, premigrated, resident] = self.by_state;
        if !self.context.output.is_json() {
            let hidden = self.shown.saturating_sub(self.context.failures_max());
            if hidden > 0 {
                output::say(&format!("and {hidden} more; --verbose names all"));
            }
            let text = format!(
                "Files migrated:     {:>12}\nFiles premigrated:  {:>12}\nFiles resident:     \
                 {:>12}\nFiles failed:       {:>12}\nBytes {verb:<12}  {:>12}\n",
                quantity::count(migrated),
                quantity::count(premigrated),
                quantity::count(resident),
                quantity::count(self.failed),
                quantity::bytes_with_unit(self.bytes),
            );
            self.context.output.text(&text);
        }
        if self.failed > 0 { FAILED } else { DONE }
    }
}

fn run_files(
    context: &mut Context,
    request: &Request,
    detail: bool,
    verb: &str,
) -> Result<u8, CommandError> {
    let folder = super::socket_folder(context)?;
    let progress = context.progress()?;
    let meter = context.meter(&progress);
    let mut teller = Teller::new(context, detail);
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
            teller.take(&outcome)
        }
        _ => true,
    };
    let asked = ::hsm::ask_while(&folder, request, (&mut visit, &|| !progress.is_stopped()));
    drop(meter);
    let asked = match asked {
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
            teller.end(verb);
            return Err(CommandError {
                message: "interrupted; what is done stays".to_owned(),
                hint: Some("the same command goes on with the rest".to_owned()),
            });
        }
        asked => asked.map_err(|error| super::not_running(&error))?,
    };
    asked.map_err(CommandError::new)?;
    Ok(teller.end(verb))
}

/// Copy files to the server and free the space that they take; or only copy them (premigrate)
///
/// Files that are in use, too small, or have changed meanwhile stay and are named.
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
    let request = Request::Migrate { paths: args.paths.paths()?, only_copies };
    let verb = if only_copies { "copied:" } else { "freed:" };
    run_files(context, &request, args.detail, verb)
}

/// Bring the content of files back; they stay at the server too
///
/// Anybody may recall his own files. Files come volume by volume, in the order in which they lie
/// there. A recall that was interrupted goes on where it was when it is run again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm recall /data/2024/run-17
  holdfast hsm recall --filelist wanted --preview
  holdfast hsm recall --filelist wanted")]
pub(super) struct RecallArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Let go of what the server has of them: they are resident then
    #[arg(long)]
    resident: bool,
    /// Tell which volumes are needed, in which order, and how long it will take; recall nothing
    #[arg(long, conflicts_with = "resident")]
    preview: bool,
    /// Name each file
    #[arg(long)]
    detail: bool,
}

pub(super) fn recall(args: &RecallArgs, context: &mut Context) -> Result<u8, CommandError> {
    let RecallArgs { resident, preview, .. } = *args;
    let request = Request::Recall { paths: args.paths.paths()?, resident, preview };
    if preview {
        return plan::preview(&request, args.detail, context);
    }
    run_files(context, &request, args.detail, "recalled:")
}

/// Migrate by policy now, as when the file system is too full
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm relieve /data")]
pub(super) struct RelieveArgs {
    /// Its mount point
    #[arg(value_name = "FS")]
    mount_point: PathBuf,
    /// Name each file
    #[arg(long)]
    detail: bool,
}

pub(super) fn relieve(args: &RelieveArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mount_point = PathText(path::absolute(&args.mount_point)?);
    run_files(context, &Request::Relieve { mount_point }, args.detail, "freed:")
}

/// Compare the stubs of a file system with what the server has of it
///
/// Copies that no file names any more are let go of: they are kept as their class keeps what is
/// gone. Stubs whose copy is lost are named.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm reconcile /data --dry-run")]
pub(super) struct ReconcileArgs {
    /// Its mount point
    #[arg(value_name = "FS")]
    mount_point: PathBuf,
    /// Tell what would be let go of
    #[arg(long)]
    dry_run: bool,
}

/// `hsm reconcile --json`.
#[derive(Serialize)]
struct ReconciledDocument<'a> {
    kept: u64,
    released: u64,
    lost: Vec<JsonPath<'a>>,
}

pub(super) fn reconcile(args: &ReconcileArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mount_point = PathText(path::absolute(&args.mount_point)?);
    let request = Request::Reconcile { mount_point, dry_run: args.dry_run };
    let mut told = None;
    ask(context, &request, &mut |reply| {
        told = Some(reply);
        true
    })?;
    let mut code = DONE;
    if let Some(Reply::Reconciled { kept, released, lost }) = &told {
        if !lost.is_empty() {
            code = FAILED;
        }
        if context.output.is_json() {
            let lost = lost.iter().map(|path| JsonPath(&path.0)).collect();
            context
                .output
                .json(&ReconciledDocument { kept: *kept, released: *released, lost });
        } else {
            lost.iter().for_each(|path| {
                output::say(&format!("{}: the server has lost it", escaped(&path.0)));
            });
            let text = format!(
                "Copies kept:        {:>12}\nCopies let go of:   {:>12}\nStubs without copy: \
                 {:>12}\n",
                quantity::count(*kept),
                quantity::count(*released),
                quantity::count(lost.len() as u64),
            );
            context.output.text(&text);
        }
    }
    Ok(code)
}

/// Make stubs again that were deleted, while the server still has what they stand for
///
/// They come back where their files were when they were migrated, unless something else is there
/// by now; missing directories are made.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm undelete /data")]
pub(super) struct UndeleteArgs {
    /// Its mount point
    #[arg(value_name = "FS")]
    mount_point: PathBuf,
    /// Name each file
    #[arg(long)]
    detail: bool,
}

pub(super) fn undelete(args: &UndeleteArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mount_point = PathText(path::absolute(&args.mount_point)?);
    run_files(context, &Request::Undelete { mount_point }, args.detail, "freed:")
}

/// Has stubs made of the files below the paths that a restore has left out.
pub(crate) fn make_stubs(
    paths: &[Vec<u8>],
    bytes_min: u64,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let paths = paths.iter().cloned().map(PathText).collect();
    run_files(context, &Request::MakeStubs { paths, bytes_min }, false, "left:")
}

/// Give up a recall; whoever waits for it gets an error
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm status
  holdfast hsm cancel 17")]
pub(super) struct CancelArgs {
    /// As 'holdfast hsm status' shows it
    #[arg(value_name = "NUMBER")]
    number: u64,
}

pub(super) fn cancel(args: &CancelArgs, context: &Context) -> Result<u8, CommandError> {
    ask(context, &Request::Cancel { number: args.number }, &mut |_| true)?;
    context.output.note(&format!("Request {} is given up.", args.number));
    Ok(DONE)
}
