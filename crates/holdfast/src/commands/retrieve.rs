//! `holdfast retrieve`: brings archived objects back.

use std::path::PathBuf;

use client::{Origin, RestoreOptions, RestorePart, VersionChoice};

use super::archives;
use super::restore::{self, DirectoriesArg, PathChoice, ReplaceArg};
use crate::context::Context;
use crate::error::CommandError;
use crate::filelist::FilelistArgs;
use crate::path;
use crate::report::BringBack;
use crate::waiter::{LinkArgs, ReadingArgs};

/// Bring archived paths back
///
/// The paths come from the newest archive that has them; --archive and --description limit the
/// choice. A path may have the wildcards of patterns, in quotes: it then stands for all paths that
/// match in these archives.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast retrieve /srv/project-17 --description 'project 17*' --to /tmp
  holdfast retrieve /srv/project-17 --archive 3
  holdfast retrieve '/srv/project-17/plans/*.pdf' --dry-run

* ? [a-z] stand for characters, ... for any number of directories; \\ takes the next character as it
is.")]
pub(crate) struct Args {
    /// Directories or files, by the names that they had when they were archived
    #[arg(value_name = "PATH", required_unless_present = "filelist")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filelist: FilelistArgs,
    /// List the objects that would be retrieved, and change nothing
    #[arg(long)]
    dry_run: bool,
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
    let (which, origin) = (VersionChoice::default(), Origin::Archives(args.archives.into()));
    let choice = PathChoice {
        paths: &args.paths,
        filelist: &args.filelist,
        which: &which,
        origin: &origin,
        directories: args.directories,
    };
    let matches = choice.matches(&args.link, context)?;
    let options = RestoreOptions {
        paths: matches.paths,
        to: args.to.as_deref().map(path::absolute).transpose()?,
        which,
        replace: restore::replace_rule(args.replace, &args.link, context)?,
        origin,
        part: args.directories.map_or(RestorePart::Whole, Into::into),
    };
    if args.dry_run {
        let what = (BringBack::Retrieve, &args.link);
        return restore::plan(&options, matches.unmatched, what, context);
    }
    let report = restore::restore(&options, matches.unmatched, &args.link, context)?;
    restore::show(&report, BringBack::Retrieve, context);
    Ok(report.exit_code())
}
