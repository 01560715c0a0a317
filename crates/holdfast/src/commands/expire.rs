//! `holdfast expire`: ends the active versions of objects at the server.

use std::path::PathBuf;

use client::{ActiveObjects, ClientError, ErrorKind, Failure, Origin, VersionChoice};
use model::escaped;

use super::backup;
use super::restore::{Matches, PathChoice};
use crate::context::Context;
use crate::error::CommandError;
use crate::filelist::FilelistArgs;
use crate::path;
use crate::report::{self, BackupDocument};
use crate::waiter::LinkArgs;

/// End the active versions of objects at the server, as if they were gone from this machine
///
/// The versions become inactive, and are kept as long as the management class keeps versions of
/// deleted objects. No data is sent, and nothing on this machine is looked at or changed. An object
/// that is still there gets a new version by the next backup, unless a statement excludes it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast expire /home/ann/core.4711
  holdfast expire '/home/*/.cache' --dry-run
  holdfast expire --filelist list")]
pub(crate) struct Args {
    /// Files, or directories with everything in them, by the names that they had when they were
    /// backed up; may have wildcards, in quotes
    #[arg(value_name = "PATH", required_unless_present = "filelist")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filelist: FilelistArgs,
    /// End versions of this filespace, in place of the innermost one that has each PATH
    #[arg(long, value_name = "FS")]
    filespace: Option<PathBuf>,
    /// List the objects whose versions would end, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let filespace = path::filespace(args.filespace.as_deref())?;
    let origin = filespace.clone().map_or(Origin::Backups, Origin::Filespace);
    let choice = PathChoice {
        paths: &args.paths,
        filelist: &args.filelist,
        which: &VersionChoice::default(),
        origin: &origin,
        directories: None,
    };
    let Matches { paths, unmatched } = choice.found(&args.link, context)?;
    let waiter = context.waiter(&args.link)?;
    let objects = waiter.ask(|client| client.active_objects(&paths, filespace.as_deref()))?;
    let absent = absent(unmatched, &objects);
    if objects.is_empty() {
        let lines = absent.iter().map(|one| format!("{}: {}", escaped(&one.path), one.error));
        return Err(CommandError::new(lines.collect::<Vec<_>>().join("; ")));
    }
    let mut report = context.watch(&args.link, |client, progress| {
        client.expire(&objects, args.dry_run, progress).map_err(interruption)
    })?;
    report.failed += absent.len() as u64;
    report.failures.splice(..0, absent);
    let document = BackupDocument::of_expiry(&report);
    backup::show_as(&report, &document, report::expiry_text, context);
    Ok(report.exit_code())
}

/// Returns the names that stand for nothing: patterns without a match, and paths.
fn absent(unmatched: Vec<Failure>, objects: &ActiveObjects) -> Vec<Failure> {
    let error = "no active version matches";
    let patterns = unmatched.into_iter().map(|one| Failure { error: error.to_owned(), ..one });
    patterns.chain(objects.absent.iter().cloned()).collect()
}

/// Adds to the error of an interruption how to go on. Other errors stay as they are.
fn interruption(error: ClientError) -> ClientError {
    if error.kind != ErrorKind::Interrupted {
        return error;
    }
    let message = "interrupted; what has expired stays so; run the command again for the rest";
    ClientError::new(ErrorKind::Interrupted, message)
}
