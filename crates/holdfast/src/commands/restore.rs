//! `holdfast restore`: brings back what was backed up.

use std::path::PathBuf;

use client::{Origin, Replace, RestoreOptions, RestoreReport, Which};
use model::ServerTime;

use super::{Context, hsm};
use crate::error::CommandError;
use crate::moment;
use crate::path;
use crate::quantity;
use crate::report::{self, RestoreDocument};

/// Bring back paths as they were backed up
///
/// A directory stands for all that is in it. Run again, it goes on where it ended: what is there
/// and right is skipped.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast restore /home/ann/letters --at 'yesterday 18:00' --to /tmp
  holdfast restore /home/ann/gone --inactive
  holdfast restore /data --stubs-from 1M

Times: 2026-11-20 (the end of that day), '2026-11-20 18:00', RFC 3339, 'yesterday 18:00', now, or
back from now as in 30m, 12h, 3d, 2w.")]
pub(crate) struct Args {
    /// Directories or files, as they were named when backed up
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Put them into this folder instead of where they were
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// As they were at this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<ServerTime>,
    /// Also what is gone, as it was last
    #[arg(long)]
    inactive: bool,
    /// Whether to replace what is there and differs
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ReplaceArg::No)]
    replace: ReplaceArg,
    /// Files of at least this size come back as stubs, whose content is recalled when it is needed;
    /// their file system must be managed, see 'holdfast hsm'
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[arg(conflicts_with_all = ["to", "at", "inactive", "replace"])]
    stubs_from: Option<u64>,
}

fn size(text: &str) -> Result<u64, String> {
    quantity::parse_bytes(text, 1)
}

/// [`Replace`], as the command line has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum ReplaceArg {
    /// Keep what is there
    No,
    /// Replace it where what was backed up was modified later
    IfNewer,
    /// Replace it
    All,
}

impl From<ReplaceArg> for Replace {
    fn from(replace: ReplaceArg) -> Self {
        match replace {
            ReplaceArg::No => Self::No,
            ReplaceArg::IfNewer => Self::IfNewer,
            ReplaceArg::All => Self::All,
        }
    }
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let options = RestoreOptions {
        paths: path::on_node(&args.paths)?,
        to: args.to.as_deref().map(path::absolute).transpose()?,
        which: Which { at: args.at, inactive: args.inactive },
        replace: args.replace.into(),
        origin: Origin::Backups,
        left_out_from: args.stubs_from,
    };
    if args.stubs_from.is_some() {
        // Before anything is made: without it files would be missing.
        hsm::check_managed(&options.paths, context)?;
    }
    let report = context.carried_on(|client, progress| client.restore(&options, progress))?;
    show(&report, context);
    let Some(bytes_min) = args.stubs_from else { return Ok(report.exit_code()) };
    let made = hsm::make_stubs(&options.paths, bytes_min, context)?;
    Ok(made.max(report.exit_code()))
}

pub(super) fn show(report: &RestoreReport, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&RestoreDocument::new(report));
        return;
    }
    let failures_max = context.failures_max();
    let text = report::restore_text(report, failures_max);
    let troubles =
        report::troubles(&report.failures, report.failed, &report.warnings, failures_max);
    context.report(&text, &troubles);
}
