//! `holdfast backup`: sends changed objects and deactivates objects that are gone.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use client::{
    BackupOptions, BackupReport, ClientError, Commands, CompressionChoice, ErrorKind, MachinePaths,
    Standing, Stillness, Stream, Targets, Tuning, VirtualFilespaces,
};
use policy::Pattern;
use policy::local::MountStanding;

use crate::context::Context;
use crate::error::CommandError;
use crate::filelist::FilelistArgs;
use crate::report::{self, BackupDocument};
use crate::values::{self, ValueError};
use crate::waiter::LinkArgs;
use crate::{around, path, servers, settings, stream};

const COMMAND: &str = "holdfast backup";

/// Back up paths: send changes since the last backup, and expire objects that are gone
///
/// A directory stands for everything in it that is on its own file system. Without paths, the paths
/// of the node's settings are backed up: all local file systems of real disks, unless client.toml
/// or the server's option set names others. The report with --json then lists the file systems of
/// the machine as file_systems, with the reason why one is not taken.
///
/// The paths of a file list are sent whether changed or not, as with --selective: each gets a new
/// version, and nothing expires.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast backup
  holdfast backup /home --exclude '*.o' --exclude 'cache/'
  find /srv -newer stamp -print0 | holdfast backup --filelist - --null
  holdfast backup --stdin shop.sql --stdin-command 'pg_dump shop'

A pattern without a slash matches at any depth. A pattern that ends with a slash matches
directories only. * ? [a-z] stand for characters, ... for directories; \\ takes the next character
as it is.")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    /// Directories or files [default: paths in client.toml, otherwise all local file systems]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Leave out the files and directories that match; may be given several times
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<OsString>,
    /// Use the include and exclude statements in this file instead of the node's own
    #[arg(long, value_name = "FILE")]
    inclexcl: Option<PathBuf>,
    /// List the objects that would be sent or expired, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Read every file again, changed or not
    #[arg(long)]
    full: bool,
    /// Send the paths whether changed or not, and expire nothing
    #[arg(long)]
    selective: bool,
    #[command(flatten)]
    filelist: FilelistArgs,
    /// Back up standard input as the file /stdin/NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = STREAM_CONFLICTS)]
    stdin: Option<OsString>,
    /// With --stdin: back up the output of this shell command; nothing is kept if it fails
    #[arg(long, value_name = "COMMAND")]
    stdin_command: Option<String>,
    /// Descend into other file systems too
    #[arg(long)]
    cross_filesystems: bool,
    /// Expire objects that are gone even if most of a filespace is gone
    #[arg(long, alias = "confirm-expire")]
    confirm: bool,
    /// Read all files in their state of one moment: off, auto (the best method that is available),
    /// btrfs, lvm, or reflink (each file at a moment of its own)
    #[arg(long, value_name = "HOW")]
    snapshot: Option<Stillness>,
    /// Walk everything, even if the journal knows what has changed
    #[arg(long)]
    no_journal: bool,
    /// Leave the time of the last backup of the filespaces as it is
    #[arg(long, hide = true)]
    partial: bool,
    #[command(flatten)]
    naming: NamingArgs,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    tuning: TuningArgs,
    #[command(flatten)]
    link: LinkArgs,
}

/// Options that make no sense for a stream.
const STREAM_CONFLICTS: [&str; 12] = [
    "paths",
    "filelist",
    "null",
    "exclude",
    "full",
    "selective",
    "dry_run",
    "cross_filesystems",
    "confirm",
    "inclexcl",
    "snapshot",
    "no_journal",
];

/// Commands that take precedence over the commands in client.toml
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Commands before and after")]
pub(super) struct AroundArgs {
    /// Run this shell command first; if it fails, do nothing
    #[arg(long, value_name = "COMMAND")]
    pre_command: Option<String>,
    /// Run this shell command at the end, even after a failure, with the exit code in
    /// HOLDFAST_EXIT_CODE
    #[arg(long, value_name = "COMMAND")]
    post_command: Option<String>,
}

impl AroundArgs {
    /// Returns the commands to run. An empty command on the command line disables the command in
    /// client.toml.
    pub(super) fn commands(self, standing: &Standing) -> Commands {
        let chosen = |name, given| {
            let own = || standing.value(name).map(str::to_owned);
            let command = standing.heed(name, given).or_else(own);
            command.filter(|command: &String| !command.is_empty())
        };
        Commands {
            pre: chosen("pre-command", self.pre_command),
            post: chosen("post-command", self.post_command),
        }
    }
}

/// Settings that take precedence over the section [tuning] of client.toml
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Tuning")]
pub(super) struct TuningArgs {
    /// Strength of compression: standard or threads, which are the same, auto (adapted to the
    /// bottleneck of the run), gpu (an NVIDIA GPU), none, or a level of zstd from -7 to 19
    #[arg(long, value_name = "HOW", allow_hyphen_values = true)]
    compression: Option<CompressionChoice>,
    /// Number of directories, and of files, that are read at the same time, 1 to 100 [default:
    /// chosen during the run]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    resourceutilization: Option<u8>,
    /// Ask the server which data it already has, and do not send it again
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    deduplication: Option<bool>,
    /// Maximum size of a transaction, from 1M to 32G; a number without a unit is in KiB. A
    /// transaction ends after 2 seconds anyway, and more than 1G counts as 1G
    #[arg(long, value_name = "SIZE", value_parser = transaction_bytes)]
    txnbytelimit: Option<u64>,
    /// Maximum number of objects in a transaction, 1 to 65536
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    txngroupmax: Option<u32>,
}

/// Meaning of the paths, as the commands of TSM and the agent have it.
#[derive(clap::Args, Debug)]
pub(super) struct NamingArgs {
    /// Take a directory that is named without what is in it
    #[arg(long, hide = true)]
    pub(super) without_content: bool,
    /// List the paths that a statement leaves out in the report, without a warning about each
    #[arg(long, hide = true)]
    pub(super) list_excluded: bool,
    /// Take the objects of this machine that match where a path has wildcards
    #[arg(long, hide = true)]
    pub(super) expand_wildcards: bool,
}

pub(super) fn run(mut args: Args, context: &mut Context) -> Result<u8, CommandError> {
    if args.stdin.is_none() && args.stdin_command.is_some() {
        let message = "--stdin-command needs a name for its output; give --stdin NAME";
        return Err(CommandError::usage(message, COMMAND));
    }
    let stream = args.stdin.take().map(|name| (name, args.stdin_command.take()));
    let around = std::mem::take(&mut args.around);
    let link = std::mem::take(&mut args.link);
    let standing = context.standing(&link)?;
    let managed = managed(&standing, context)?;
    let all_local = stream.is_none() && names_nothing(&args);
    let machine = all_local.then(|| machine_paths(&args, &standing, context)).transpose()?;
    let options = BackupOptions {
        excludes: excludes(&args.exclude)?,
        inclexcl: args.inclexcl.clone(),
        full: args.full,
        dry_run: args.dry_run,
        cross_filesystems: args.cross_filesystems,
        all_local,
        confirm_expire: args.confirm,
        snapshot: args.snapshot,
        no_journal: args.no_journal,
        is_partial: args.partial,
        without_content: args.naming.without_content,
        // Nobody has named what a wildcard matches.
        lists_excluded: args.naming.list_excluded || args.naming.expand_wildcards,
        expands_wildcards: args.naming.expand_wildcards && !args.paths.is_empty(),
        managed,
        local_servers: servers::local(),
        tuning: tuning(&args.tuning),
        archive: None,
        targets: match (&stream, &machine) {
            (Some(_), _) => Targets::Paths(Vec::new()),
            (None, Some(machine)) => machine_targets(&args, machine),
            (None, None) => targets(args)?,
        },
    };
    // A dry run does nothing, so it runs no commands either.
    let commands = if options.dry_run { Commands::default() } else { around.commands(&standing) };
    let progress = context.progress()?;
    let report = around::run(
        &commands,
        || progress.is_stopped(),
        || match stream {
            None => context.watch(&link, |client, progress| {
                let done = client.backup(&options, progress);
                done.map_err(|error| report::interruption(error, progress))
            }),
            Some((name, command)) => {
                let mut source = source(command)?;
                context.watch(&link, |client, progress| {
                    let sent =
                        client.backup_stream(&options, name.as_bytes(), &mut *source, progress);
                    sent.map_err(|error| unrepeatable(error, &mut *source))
                })
            }
        },
    )?;
    let mounts = machine.and_then(|machine| machine.mounts).unwrap_or_default();
    show(&report, &mounts, context);
    if !report.dry_run {
        super::status::keep_last("backup", &report, context);
    }
    if let Targets::Paths(paths) = &options.targets
        && !options.dry_run
        && !link.limits.is_given()
    {
        super::baseline::compare(paths, &report, context);
    }
    Ok(report.exit_code())
}

/// Returns the error of a stream. One that cannot be read again does not wait for the server.
fn unrepeatable(error: ClientError, source: &mut dyn Stream) -> CommandError {
    if error.kind == ErrorKind::Interrupted {
        let message = "interrupted; nothing of the stream is kept, and its last version stays";
        return ClientError::new(ErrorKind::Interrupted, message).into();
    }
    if error.kind != ErrorKind::Retry || source.restart() {
        return error.into();
    }
    CommandError::new(format!(
        "{}; standard input cannot be read again, so nothing of it is kept; run the command again, \
         or give --stdin-command, which goes on when the server is back",
        error.message
    ))
}

/// Opens the stream to back up.
fn source(command: Option<String>) -> Result<Box<dyn Stream>, CommandError> {
    Ok(match command {
        Some(command) => Box::new(stream::Output::of(command)),
        None => Box::new(stream::Input::open()?),
    })
}

pub(super) fn tuning(args: &TuningArgs) -> Tuning {
    Tuning {
        resource_utilization: args.resourceutilization,
        compression: args.compression,
        deduplication: args.deduplication,
        transaction_bytes: args.txnbytelimit,
        transaction_objects: args.txngroupmax,
        // The connection is open before these options are used, so only the node's folder has this
        // setting.
        socket_buffer_bytes: None,
    }
}

/// Maximum of TXNBYTELIMIT, as TSM has it, so that the setting of a site can stay.
const TRANSACTION_BYTES_MAX: u64 = 32 << 30;

fn transaction_bytes(text: &str) -> Result<u64, ValueError> {
    let bytes = model::parse_bytes(text, 1 << 10)?;
    if (1 << 20..=TRANSACTION_BYTES_MAX).contains(&bytes) {
        Ok(bytes.min(1 << 30))
    } else {
        Err(ValueError::Rule("the size must be from 1M to 32G"))
    }
}

/// Shows a report. `mounts` are the file systems of the machine, if the backup has chosen among
/// them.
pub(super) fn show(report: &BackupReport, mounts: &[MountStanding], context: &mut Context) {
    show_as(report, &BackupDocument::new(report, mounts), report::backup_text, context);
}

/// Shows a report as `document`, or as the text that `text` makes of it with at most so many
/// failures.
pub(super) fn show_as(
    report: &BackupReport,
    document: &BackupDocument<'_>,
    text: fn(&BackupReport, usize) -> String,
    context: &mut Context,
) {
    context.keep_report(document);
    if context.output.is_json() {
        context.output.json(document);
        // The document has the warnings too, but a person at the terminal must not miss them.
        report.warnings.iter().for_each(|warning| context.output.note(warning));
        return;
    }
    let failures_max = context.failures_max();
    let text = text(report, failures_max);
    let troubles =
        report::troubles(&report.failures, report.failed, &report.warnings, failures_max);
    context.report(&text, &troubles);
}

/// Returns the patterns of `--exclude` after checking each.
pub(super) fn excludes(patterns: &[OsString]) -> Result<Vec<Vec<u8>>, CommandError> {
    let check = |pattern: &OsString| {
        let pattern = pattern.as_bytes();
        Pattern::parse(pattern).map(|_| pattern.to_vec()).map_err(|error| {
            let pattern = model::escaped(pattern);
            CommandError::usage(&format!("--exclude '{pattern}': {error}"), COMMAND)
        })
    };
    patterns.iter().map(check).collect()
}

/// Returns the mount points of the file systems that space management works in, if the node has
/// virtual filespaces, which none of them can have.
pub(super) fn managed(
    standing: &Standing,
    context: &Context,
) -> Result<Vec<Vec<u8>>, CommandError> {
    if VirtualFilespaces::of(standing)?.is_empty() {
        return Ok(Vec::new());
    }
    let managed = ::hsm::Settings::load(&context.home()?);
    let managed = managed.map_err(|error| CommandError::chain(&error))?;
    Ok(managed.filesystems.into_iter().map(|known| known.mount_point).collect())
}

/// Returns true if the command line names nothing to back up.
fn names_nothing(args: &Args) -> bool {
    args.paths.is_empty() && !args.filelist.is_given()
}

/// Returns the paths that the node's settings name.
fn machine_paths(
    args: &Args,
    standing: &Standing,
    context: &Context,
) -> Result<MachinePaths, CommandError> {
    let machine = client::machine_paths(standing)?;
    if args.cross_filesystems && machine.mounts.is_some() {
        let message = "without paths, each local file system is backed up itself; give paths with \
                       --cross-filesystems";
        return Err(CommandError::usage(message, COMMAND));
    }
    if !context.global.quiet {
        settings::say_machine(&machine, standing);
    }
    Ok(machine)
}

fn machine_targets(args: &Args, machine: &MachinePaths) -> Targets {
    let paths = machine.paths.clone();
    if args.selective { Targets::Selective(paths) } else { Targets::Paths(paths) }
}

fn targets(args: Args) -> Result<Targets, CommandError> {
    if let Some(paths) = args.filelist.paths()? {
        return Ok(Targets::Selective(path::from_root(paths)?));
    }
    let paths = path::from_root(args.paths.iter().map(|path| path::bytes(path)).collect())?;
    Ok(if args.selective { Targets::Selective(paths) } else { Targets::Paths(paths) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A site that comes from TSM may have 10G in its settings.
    #[test]
    fn a_transaction_has_a_size_that_tsm_takes() {
        for (text, bytes) in [("1M", 1 << 20), ("25600", 25 << 20), ("1G", 1 << 30)] {
            assert_eq!(transaction_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["10G", "32GiB"] {
            assert_eq!(transaction_bytes(text), Ok(1 << 30), "{text}");
        }
        for text in ["1000", "33G", "ten"] {
            assert!(transaction_bytes(text).is_err(), "{text}");
        }
    }
}
