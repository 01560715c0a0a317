//! `holdfast retrieve`: brings archived objects back.

use std::path::PathBuf;

use client::{ArchiveFilter, Origin, RestoreOptions, RestorePart, VersionChoice};

use super::archives;
use super::restore::{self, DirectoriesArg, ReplaceArg};
use crate::context::Context;
use crate::error::CommandError;
use crate::path;
use crate::waiter::{LinkArgs, ReadingArgs};

/// Bring archived paths back
///
/// The paths come from the newest archive that has them; --archive and --description limit the
/// choice.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast retrieve /srv/project-17 --description 'project 17*' --to /tmp
  holdfast retrieve /srv/project-17 --archive 3")]
pub(crate) struct Args {
    /// Directories or files, by the names that they had when they were archived
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    archives: archives::ArchiveArgs,
    /// Put the objects into this folder instead of their old places; if two paths end with the same
    /// name, all are kept below the deepest directory that holds them
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Condition under which an existing object that differs is replaced [default: replace in
    /// client.toml, otherwise no]
    #[arg(long, value_name = "WHEN", value_enum)]
    replace: Option<ReplaceArg>,
    /// Retrieve directories with their attributes, and no files
    #[arg(long, value_name = "WHICH", value_enum)]
    directories: Option<DirectoriesArg>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let args = Args { link: args.reading.link(&args.link), ..args };
    let filter: ArchiveFilter = args.archives.into();
    let options = RestoreOptions {
        paths: path::on_node(&args.paths)?,
        to: args.to.as_deref().map(path::absolute).transpose()?,
        which: VersionChoice::default(),
        replace: restore::replace_rule(args.replace, &args.link, context)?,
        origin: Origin::Archives(filter),
        part: args.directories.map_or(RestorePart::Whole, Into::into),
    };
    let report = restore::restore(&options, &args.link, context)?;
    restore::show(&report, context);
    Ok(report.exit_code())
}
