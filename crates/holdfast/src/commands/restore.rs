//! `holdfast restore`: brings backed-up objects back.

use std::path::PathBuf;

use clap::ValueEnum as _;

use client::{
    Client, ClientError, ErrorKind, Failure, Origin, ReplaceRule, RestoreOptions, RestorePart,
    RestorePlan, RestoreReport, VersionChoice,
};
use model::ServerTime;

use super::hsm;
use crate::context::Context;
use crate::error::CommandError;
use crate::filelist::FilelistArgs;
use crate::moment;
use crate::path;
use crate::report::{self, BringBack, RestoreDocument, RestorePlanDocument};
use crate::settings;
use crate::values;
use crate::waiter::{LinkArgs, ReadingArgs};

/// Bring backed-up paths back
///
/// A directory stands for everything in it. A path may have the wildcards of patterns, in quotes:
/// it then stands for all stored paths that match. A restore that is run again continues where it
/// ended: it skips objects that exist and do not differ from the backup.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast restore /home/ann/letters --at 'yesterday 18:00' --to /tmp
  holdfast restore /home/ann/gone --inactive
  holdfast restore '/home/*/letters/2026-1[0-2]*' --dry-run
  holdfast restore /data --stubs-from 1M

Times: 2026-11-20 (the end of that day), '2026-11-20 18:00', RFC 3339, 'yesterday 18:00', now, or a
length of time before now: 30m, 12h, 3d, 2w.

* ? [a-z] stand for characters, ... for any number of directories; \\ takes the next character as it
is.")]
pub(crate) struct Args {
    /// Directories or files, by the names that they had when they were backed up
    #[arg(value_name = "PATH", required_unless_present = "filelist")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filelist: FilelistArgs,
    /// List the objects that would be restored, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Put the objects into this folder instead of their old places; if two paths end with the same
    /// name, all are kept below the deepest directory that holds them
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Restore the state of this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<ServerTime>,
    /// Also restore objects that no longer exist, in their last state
    #[arg(long)]
    inactive: bool,
    /// Restore from this filespace only, in place of the innermost one that has each path
    #[arg(long, value_name = "FS")]
    filespace: Option<PathBuf>,
    /// Condition under which an existing object that differs is replaced [default: replace in
    /// client.toml, otherwise no]
    #[arg(long, value_name = "WHEN", value_enum)]
    replace: Option<ReplaceArg>,
    /// Restore files of at least this size as stubs, whose content is recalled when it is needed;
    /// their file system must be managed, see 'holdfast hsm'
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    #[arg(conflicts_with_all = ["to", "at", "inactive", "filespace", "replace"])]
    #[arg(conflicts_with_all = ["from_node", "directories"])]
    stubs_from: Option<u64>,
    /// Restore directories with their attributes, and no files
    #[arg(long, value_name = "WHICH", value_enum)]
    directories: Option<DirectoriesArg>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    link: LinkArgs,
}

/// Directories that a restore without files brings back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum DirectoriesArg {
    /// The directories that PATH stands for, with all directories in them
    All,
    /// The directories that PATH stands for, and nothing in them
    Named,
}

impl From<DirectoriesArg> for RestorePart {
    fn from(directories: DirectoriesArg) -> Self {
        match directories {
            DirectoriesArg::All => Self::Directories,
            DirectoriesArg::Named => Self::NamedDirectories,
        }
    }
}

/// [`ReplaceRule`] on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum ReplaceArg {
    /// Keep the existing object
    No,
    /// Replace the object if the backup was modified later
    IfNewer,
    /// Always replace the object
    All,
}

impl From<ReplaceArg> for ReplaceRule {
    fn from(replace: ReplaceArg) -> Self {
        match replace {
            ReplaceArg::No => Self::No,
            ReplaceArg::IfNewer => Self::IfNewer,
            ReplaceArg::All => Self::All,
        }
    }
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let args = Args { link: args.reading.link(&args.link), ..args };
    let which = VersionChoice { at: args.at, inactive: args.inactive };
    let filespace = path::filespace(args.filespace.as_deref())?;
    let origin = filespace.map_or(Origin::Backups, Origin::Filespace);
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
        replace: replace_rule(args.replace, &args.link, context)?,
        origin,
        part: match (args.stubs_from, args.directories) {
            (Some(least), _) => RestorePart::WithoutFilesFrom(least),
            (None, directories) => directories.map_or(RestorePart::Whole, Into::into),
        },
    };
    if args.stubs_from.is_some() {
        // The check comes first: on a file system that is not managed the files would be missing.
        hsm::check_managed(&options.paths, context)?;
    }
    if args.dry_run {
        return plan(&options, matches.unmatched, (BringBack::Restore, &args.link), context);
    }
    let report = restore(&options, matches.unmatched, &args.link, context)?;
    show(&report, BringBack::Restore, context);
    if args.link.reading.is_none() && !args.link.limits.is_given() {
        super::baseline::compare_restore(&options, &report, context);
    }
    let Some(bytes_min) = args.stubs_from else { return Ok(report.exit_code()) };
    let made = hsm::make_stubs(&options.paths, bytes_min, context)?;
    Ok(made.max(report.exit_code()))
}

/// Returns the rule for existing objects, by the command line and the node's settings.
pub(super) fn replace_rule(
    given: Option<ReplaceArg>,
    link: &LinkArgs,
    context: &Context,
) -> Result<ReplaceRule, CommandError> {
    let standing = context.standing(link)?;
    let own = |own: &str| ReplaceArg::from_str(own, true).ok();
    let chosen = settings::text(&standing, "replace", given, own)?;
    Ok(chosen.unwrap_or(ReplaceArg::No).into())
}

/// The stored paths that the words of a command line stand for.
pub(super) struct Matches {
    /// Paths without those below others.
    pub(super) paths: Vec<Vec<u8>>,
    /// Patterns that nothing matches, beside others that something matches.
    pub(super) unmatched: Vec<Failure>,
}

/// Choice of paths on a command line.
pub(super) struct PathChoice<'a> {
    pub(super) paths: &'a [PathBuf],
    pub(super) filelist: &'a FilelistArgs,
    pub(super) which: &'a VersionChoice,
    pub(super) origin: &'a Origin,
    pub(super) directories: Option<DirectoriesArg>,
}

impl PathChoice<'_> {
    /// Returns the stored paths of the choice. Fails if no path is left.
    pub(super) fn matches(
        &self,
        link: &LinkArgs,
        context: &Context,
    ) -> Result<Matches, CommandError> {
        let found = self.found(link, context)?;
        if found.paths.is_empty() && !found.unmatched.is_empty() {
            let reasons: Vec<String> = found.unmatched.into_iter().map(|one| one.error).collect();
            return Err(ClientError::new(ErrorKind::NotFound, reasons.join("; ")).into());
        }
        Ok(found)
    }

    /// Returns the stored paths of the choice, which may be none.
    pub(super) fn found(
        &self,
        link: &LinkArgs,
        context: &Context,
    ) -> Result<Matches, CommandError> {
        if let Some(listed) = self.filelist.paths()? {
            return Ok(Matches { paths: path::of_node(&listed)?, unmatched: Vec::new() });
        }
        let paths = path::patterns(self.paths)?;
        context.waiter(link)?.ask(|client| self.expanded(&paths, client))
    }

    /// Returns the stored paths that `paths` stand for.
    fn expanded(&self, paths: &[Vec<u8>], client: &Client) -> Result<Matches, ClientError> {
        let is_alone = self.directories == Some(DirectoriesArg::Named);
        let mut found = Matches { paths: Vec::new(), unmatched: Vec::new() };
        for path in paths {
            match client.expand(path, self.which, self.origin) {
                Ok(stored) if is_alone => found.paths.extend(stored),
                Ok(stored) => found.paths.extend(client::topmost(stored)),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    let (path, error) = (path.clone(), error.message);
                    found.unmatched.push(Failure { path, error });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// Restores, with a display of the progress. Patterns that nothing matches count as failed.
pub(super) fn restore(
    options: &RestoreOptions,
    unmatched: Vec<Failure>,
    link: &LinkArgs,
    context: &Context,
) -> Result<RestoreReport, CommandError> {
    let next = "run the same command again: what is restored is skipped";
    let mut report = context.watch(link, |client, progress| {
        let done = client.restore(options, progress);
        done.map_err(|error| report::interrupted_reading(error, progress, next))
    })?;
    report.failed += unmatched.len() as u64;
    report.failures.splice(..0, unmatched);
    Ok(report)
}

/// Shows what a restore would do. Returns the exit code.
pub(super) fn plan(
    options: &RestoreOptions,
    unmatched: Vec<Failure>,
    (what, link): (BringBack, &LinkArgs),
    context: &mut Context,
) -> Result<u8, CommandError> {
    let mut plan =
        context.watch(link, |client, progress| client.plan_restore(options, progress))?;
    plan.failed += unmatched.len() as u64;
    plan.failures.splice(..0, unmatched);
    show_plan(&plan, what, context);
    Ok(plan.exit_code())
}

fn show_plan(plan: &RestorePlan, what: BringBack, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&RestorePlanDocument::new(plan, what));
        return;
    }
    let failures_max = context.failures_max();
    let text = report::restore_plan_text(plan, what, failures_max);
    let troubles = report::troubles(&plan.failures, plan.failed, &plan.warnings, failures_max);
    context.report(&text, &troubles);
}

pub(super) fn show(report: &RestoreReport, what: BringBack, context: &mut Context) {
    context.keep_report(&RestoreDocument::new(report, what));
    if context.output.is_json() {
        context.output.json(&RestoreDocument::new(report, what));
        return;
    }
    let failures_max = context.failures_max();
    let text = report::restore_text(report, what, failures_max);
    let troubles =
        report::troubles(&report.failures, report.failed, &report.warnings, failures_max);
    context.report(&text, &troubles);
}
