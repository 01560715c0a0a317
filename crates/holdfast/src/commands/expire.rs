//! `holdfast expire`: ends the active versions of objects at the server.

use std::path::PathBuf;

use client::{Client, ClientError, ErrorKind, ExpireOptions, Origin, VersionChoice};

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
    let listed = args.filelist.paths()?.map(path::from_root).transpose()?;
    let patterns = path::patterns(&args.paths)?;
    // After the loss of the server, patterns do not match any more what has ended.
    let mut paths = listed;
    let report = context.watch(&args.link, |client, progress| {
        let paths = match paths.clone() {
            Some(known) => known,
            None => paths.insert(expanded(client, &patterns, filespace.as_deref())?).clone(),
        };
        let options = ExpireOptions { paths, filespace: filespace.clone(), dry_run: args.dry_run };
        client
            .expire(&options, progress)
            .map_err(interruption)
            .map_err(CommandError::from)
    })?;
    let document = BackupDocument::of_expiry(&report);
    context.keep_report(&document);
    if context.output.is_json() {
        context.output.json(&document);
        report.warnings.iter().for_each(|warning| context.output.note(warning));
        return Ok(report.exit_code());
    }
    let failures_max = context.failures_max();
    let text = report::expiry_text(&report, failures_max);
    let (failures, failed) = (&report.failures, report.failed);
    let troubles = report::troubles(failures, failed, &report.warnings, failures_max);
    context.report(&text, &troubles);
    Ok(report.exit_code())
}

/// Adds to the error of an interruption how to go on. Other errors stay as they are.
fn interruption(error: ClientError) -> ClientError {
    if error.kind != ErrorKind::Interrupted {
        return error;
    }
    let message = "interrupted; what has expired stays so; run the command again for the rest";
    ClientError::new(ErrorKind::Interrupted, message)
}

/// Leaves out of the error of a pattern without matches how others take inactive versions, which
/// have ended already.
fn unmatched(error: ClientError, pattern: &[u8]) -> ClientError {
    if error.kind != ErrorKind::NotFound {
        return error;
    }
    let message = format!("no active version matches {}", model::escaped(pattern));
    ClientError::new(ErrorKind::NotFound, message)
}

/// Returns the paths that the patterns stand for.
fn expanded(
    client: &Client,
    patterns: &[Vec<u8>],
    filespace: Option<&[u8]>,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let origin = filespace.map_or(Origin::Backups, |name| Origin::Filespace(name.to_vec()));
    let which = VersionChoice::default();
    let mut paths = Vec::new();
    for pattern in patterns {
        let found = client.expand(pattern, &which, &origin);
        // In a filespace that is named, the filespace may be unknown.
        let unmatched = |error| if filespace.is_none() { unmatched(error, pattern) } else { error };
        paths.extend(found.map_err(unmatched)?);
    }
    Ok(paths)
}
