//! `holdfast image extract`: copies files out of an image.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use image::{ExtractReport, Extraction, PartName};
use model::{ServerTime, escaped, printable};
use serde::Serialize;
use sys::Dir;

use super::opened;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::path::JsonPath;
use crate::report::FAILURES_SHOWN;
use crate::waiter::LinkArgs;
use crate::{moment, path, quantity};

/// Copy files out of an image, without restoring it
///
/// Owners, modes, times, extended attributes, ACLs, links and holes come back. Only the needed
/// parts of the image are read. Needs root, a Linux kernel that knows the file system, and
/// /dev/fuse.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image extract /dev/sda /etc/fstab --partition 2 --to /tmp
  holdfast image extract /dev/vg0/home /ann/letters --at '2026-10-24' --to /home/ann")]
pub(crate) struct Args {
    /// Name of the image, as 'holdfast image list' shows it
    #[arg(value_name = "IMAGE")]
    name: OsString,
    /// Paths of directories or files, from the root of the file system in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Folder for the copies. It is made if it does not exist; what exists in it is kept
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Look into the newest image that is not newer than this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<ServerTime>,
    /// Number of the partition, or logical volume as VG/LV, if the image has several
    #[arg(long, value_name = "PART")]
    partition: Option<PartName>,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let target = open_target(&args.to)?;
    let opened = opened::open(context, &args.link, &args.name, args.at, args.partition.as_ref())?;
    let progress = context.progress()?;
    let received = opened.transfer();
    let line = move || format!("copying: {} received", quantity::bytes_with_unit(received()));
    let meter = context.meter_of(line);
    let reason = |error: &io::Error| opened.reason(error);
    let is_stopped = || progress.is_stopped();
    let mut extraction = Extraction::new(target, &reason, &is_stopped);
    for path in &args.paths {
        extraction.copy(opened.root(), path);
    }
    let report = extraction.finish();
    drop(meter);
    if progress.is_stopped() {
        return Err(CommandError::new("interrupted; what was copied is kept"));
    }
    show(&report, opened.bytes_transferred(), context);
    Ok(if report.failures.is_empty() { DONE } else { FAILED })
}

fn open_target(folder: &Path) -> Result<Dir, CommandError> {
    std::fs::create_dir_all(folder)
        .and_then(|()| Dir::open(&path::bytes(folder)))
        .map_err(|error| {
            CommandError::new(format!("cannot write to {}: {error}", folder.display()))
        })
}

/// `image extract --json`.
#[derive(Serialize)]
struct ExtractDocument<'a> {
    command: &'static str,
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    bytes_transferred: u64,
    failures: Vec<FailureDocument<'a>>,
}

#[derive(Serialize)]
struct FailureDocument<'a> {
    path: JsonPath<'a>,
    error: &'a str,
}

fn show(report: &ExtractReport, bytes_transferred: u64, context: &mut Context) {
    let ExtractReport { files, directories, others, bytes, failures } = report;
    if context.output.is_json() {
        let failures = failures.iter();
        context.output.json(&ExtractDocument {
            command: "image extract",
            files: *files,
            directories: *directories,
            others: *others,
            bytes: *bytes,
            bytes_transferred,
            failures: failures
                .map(|(path, error)| FailureDocument { path: JsonPath(path), error })
                .collect(),
        });
        return;
    }
    context.output.text(&format!(
        "Copied {} with {}, {} and {}; {} were transferred.\n",
        quantity::counted(*files, "file"),
        quantity::bytes_with_unit(*bytes),
        quantity::counted(*directories, "directory"),
        quantity::counted(*others, "other object"),
        quantity::bytes_with_unit(bytes_transferred),
    ));
    for (path, error) in failures.iter().take(FAILURES_SHOWN) {
        context.output.note(&format!("{}: {}", escaped(path), printable(error)));
    }
    if let Some(hidden) = failures.len().checked_sub(FAILURES_SHOWN).filter(|hidden| *hidden > 0) {
        context.output.note(&format!("and {hidden} more failures; --json names all"));
    }
}
