//! `holdfast retrieve`: brings back what was archived.

use std::path::PathBuf;

use client::{ArchiveFilter, Origin, RestoreOptions, Which};

use super::restore::{self, ReplaceArg};
use super::{Context, archives};
use crate::error::CommandError;
use crate::path;

/// Bring back paths as they were archived
///
/// From the newest archive that has them, of those that are meant.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast retrieve /srv/project-17 --description 'project 17*' --to /tmp
  holdfast retrieve /srv/project-17 --archive 3")]
pub(crate) struct Args {
    /// Directories or files, as they were named when archived
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    meant: archives::Meant,
    /// Put them into this folder instead of where they were
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Whether to replace what is there and differs
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ReplaceArg::No)]
    replace: ReplaceArg,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let filter: ArchiveFilter = args.meant.into();
    let options = RestoreOptions {
        left_out_from: None,
        paths: path::on_node(&args.paths)?,
        to: args.to.as_deref().map(path::absolute).transpose()?,
        which: Which::default(),
        replace: args.replace.into(),
        origin: Origin::Archives(filter),
    };
    let report = context.carried_on(|client, progress| client.restore(&options, progress))?;
    restore::show(&report, context);
    Ok(report.exit_code())
}
