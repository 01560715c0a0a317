//! `holdfast archive`: keeps the present state of files for a set time, apart from backups.

use std::path::PathBuf;

use client::{ArchiveOptions, BackupOptions, Targets};

use super::backup;
use crate::context::Context;
use crate::error::CommandError;
use crate::filelist::FilelistArgs;
use crate::waiter::LinkArgs;
use crate::{around, moment, path, report};

const COMMAND: &str = "holdfast archive";

/// Archive paths: keep them as they are now, for the time that their management class sets
///
/// An archive is kept by time alone, even when the files change or are deleted.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast archive /srv/project-17 --description 'project 17, final' --class TEN-YEARS
  holdfast archive /data/run-2041 --delete")]
pub(crate) struct Args {
    /// Directories or files
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A text by which the archive can be found [default: 'Archive Date: ' and the present time]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The management class of all objects [default: the class that the rules choose for each
    /// object]
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Delete the files on this machine once the archive is complete and has been read back
    #[arg(long)]
    delete: bool,
    /// Leave out the files and directories that match; may be given several times
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<std::ffi::OsString>,
    /// Use the include and exclude statements in this file instead of the node's own
    #[arg(long, value_name = "FILE")]
    inclexcl: Option<PathBuf>,
    #[command(flatten)]
    filelist: FilelistArgs,
    /// Descend into other file systems too
    #[arg(long)]
    cross_filesystems: bool,
    #[command(flatten)]
    naming: backup::NamingArgs,
    #[command(flatten)]
    around: backup::AroundArgs,
    #[command(flatten)]
    tuning: backup::TuningArgs,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let paths = match args.filelist.paths()? {
        Some(paths) => path::from_root(paths)?,
        None if args.paths.is_empty() => {
            let message = "name the paths to archive, as in 'holdfast archive /srv/project'";
            return Err(CommandError::usage(message, COMMAND));
        }
        None => path::from_root(args.paths.iter().map(|path| path::bytes(path)).collect())?,
    };
    let today = moment::shown(sys::clock::now());
    let description = args.description.unwrap_or_else(|| format!("Archive Date: {today}"));
    let standing = context.standing(&args.link)?;
    let options = BackupOptions {
        snapshot: None,
        targets: Targets::Selective(paths),
        excludes: backup::excludes(&args.exclude)?,
        inclexcl: args.inclexcl,
        full: false,
        dry_run: false,
        cross_filesystems: args.cross_filesystems,
        all_local: false,
        confirm_expire: false,
        no_journal: true,
        is_partial: false,
        without_content: args.naming.without_content,
        // Nobody has named what a wildcard matches.
        lists_excluded: args.naming.list_excluded || args.naming.expand_wildcards,
        expands_wildcards: args.naming.expand_wildcards && !args.paths.is_empty(),
        managed: backup::managed(&standing, context)?,
        local_servers: Vec::new(),
        tuning: backup::tuning(&args.tuning),
        archive: Some(ArchiveOptions { description, class: args.class, delete: args.delete }),
    };
    let commands = args.around.commands(&standing);
    let progress = context.progress()?;
    let report = around::run(
        &commands,
        || progress.is_stopped(),
        || {
            context.watch(&args.link, |client, progress| {
                let done = client.backup(&options, progress);
                done.map_err(|error| report::interruption(error, progress))
            })
        },
    )?;
    backup::show(&report, &[], context);
    super::status::keep_last("archive", &report, context);
    Ok(report.exit_code())
}
