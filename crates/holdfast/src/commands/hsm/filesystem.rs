//! `holdfast hsm add`, `remove` and `list`: the choice of the managed file systems.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::hsm::{AskError, FilesystemSettings, FilesystemState, PathText, Reply, Request, Settings};
use client::VirtualFilespaces;
use model::escaped;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::output;
use crate::path::{self, JsonPath};
use crate::quantity;
use crate::table::{self, Align};
use crate::values;

/// Types of file systems on which stubs have been tested.
const TYPES: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// Number of attempts to reach a worker that is just starting, and the pause after each.
const WORKER_TRIES: u32 = 50;
const WORKER_PAUSE: Duration = Duration::from_millis(100);

/// Manage a file system, or change how it is managed
///
/// If 'holdfast hsm run' is running, the settings are in effect when the command ends.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm add /data
  holdfast hsm add /data --high 85 --low 75 --unused-days 90")]
pub(super) struct AddArgs {
    /// The mount point of the file system
    #[arg(value_name = "FS")]
    mount_point: PathBuf,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(clap::Args, Debug)]
struct SettingsArgs {
    /// Migrate when more than this share of the file system is in use; 100 for never [default: 90]
    #[arg(long, value_name = "PERCENT")]
    high: Option<u8>,
    /// Migrate until at most this share of the file system is in use [default: 80]
    #[arg(long, value_name = "PERCENT")]
    low: Option<u8>,
    /// Keep this share of the file system premigrated, so that it can be freed at once [default:
    /// 10]
    #[arg(long, value_name = "PERCENT")]
    premigrated: Option<u8>,
    /// Leave smaller files alone [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    min_size: Option<u64>,
    /// Migrate files automatically only if they were not used for this number of days [default: 30]
    #[arg(long, value_name = "DAYS")]
    unused_days: Option<u32>,
    /// Migrate only files whose current state is backed up [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    backup_first: Option<bool>,
    /// Recall files that are larger than this part by part as they are read, and not as a whole
    /// when they are opened; programs that look for holes may regard such a file as empty [default:
    /// none]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    whole: Option<u64>,
    /// Maximum number of recalls of one user that wait [default: 10000]
    #[arg(long, value_name = "N")]
    user_recalls: Option<u32>,
    /// Maximum number of recalls of one program that wait [default: 10000]
    #[arg(long, value_name = "N")]
    program_recalls: Option<u32>,
    /// Recall only by 'holdfast hsm recall', so that reading a stub fails [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    requests_only: Option<bool>,
    /// Time that a program waits for a server that gives no sign of life, as in 90s; then its read
    /// fails (EIO) [default: 60s]
    #[arg(long, value_name = "LENGTH", value_parser = values::seconds(1..=u32::MAX))]
    wait: Option<u32>,
    /// Show the files only while 'holdfast hsm run' is running, so that no stub reads as zeros
    /// without it [default: yes]
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    hidden: Option<bool>,
}

impl SettingsArgs {
    fn apply(&self, to: &mut FilesystemSettings) {
        fn set<T: Copy>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        set(&mut to.high_percent, self.high);
        set(&mut to.low_percent, self.low);
        set(&mut to.premigrated_percent, self.premigrated);
        set(&mut to.file_bytes_min, self.min_size);
        set(&mut to.unused_days_min, self.unused_days);
        set(&mut to.backup_first, self.backup_first);
        set(&mut to.whole_bytes_max, self.whole);
        set(&mut to.user_recalls_max, self.user_recalls);
        set(&mut to.program_recalls_max, self.program_recalls);
        set(&mut to.requests_only, self.requests_only);
        set(&mut to.hidden, self.hidden);
        set(&mut to.wait_secs, self.wait);
    }
}

fn wrong(error: &::hsm::SettingsError) -> CommandError {
    CommandError::chain(error)
}

pub(super) fn add(args: AddArgs, context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let mount_point = checked(&path::absolute(&args.mount_point)?)?;
    let settings = Settings::load(&home).map_err(|error| wrong(&error))?;
    if !settings.has(&mount_point) {
        check_new(&mount_point, &settings)?;
        check_virtual(&home, &mount_point)?;
    }
    let filesystem = Settings::change(&home, |settings| {
        let at = settings.filesystems.iter().position(|known| known.mount_point == mount_point);
        let mut filesystem = match at {
            Some(at) => settings.filesystems.remove(at),
            None => FilesystemSettings::new(mount_point),
        };
        args.settings.apply(&mut filesystem);
        settings.filesystems.push(filesystem.clone());
        settings.filesystems.sort_by(|a, b| a.mount_point.cmp(&b.mount_point));
        filesystem
    })
    .map_err(|error| wrong(&error))?;
    let states = put_into_effect(&home)?;
    let state = State::of(&filesystem.mount_point, states.as_deref());
    tell(&[(filesystem, state.clone())], context);
    if state.word == State::NOT_RUNNING {
        context.output.note("The settings take effect when 'holdfast hsm run' starts.");
    }
    match state.problem {
        Some(problem) => Err(CommandError::new(format!(
            "the settings are stored, but the file system cannot be used: {problem}"
        ))),
        None => Ok(DONE),
    }
}

/// Lets 'holdfast hsm run' read the settings; returns the states of the file systems afterwards,
/// and `None` if it is not running.
fn put_into_effect(home: &Path) -> Result<Option<Vec<FilesystemState>>, CommandError> {
    states(home, &Request::Reread).map_err(|error| {
        let message = format!(
            "the settings are stored, but 'holdfast hsm run' has not read them: {}",
            CommandError::chain(&error).message
        );
        CommandError::new(message).with_hint("start 'holdfast hsm run' again")
    })
}

/// Asks the worker about the file systems; `None` if it is not running.
fn states(home: &Path, request: &Request) -> Result<Option<Vec<FilesystemState>>, AskError> {
    let mut states = Vec::new();
    let mut visit = |reply| {
        if let Reply::Filesystem(state) = reply {
            states.push(state);
        }
        true
    };
    match ask_if_running(home, request, &mut visit) {
        Ok(()) => Ok(Some(states)),
        Err(AskError::NotRunning) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends a request to the worker. If a keeper runs, and its worker is just starting, waits for the
/// worker.
fn ask_if_running(
    home: &Path,
    request: &Request,
    visit: &mut dyn FnMut(Reply) -> bool,
) -> Result<(), AskError> {
    for _ in 0..WORKER_TRIES {
        match ::hsm::ask(home, request, visit) {
            Err(AskError::NotRunning) if ::hsm::is_running(home) => {
                sys::clock::sleep(WORKER_PAUSE);
            }
            asked => return asked,
        }
    }
    ::hsm::ask(home, request, visit)
}

/// Returns the mount point, after a check that its file system can be managed.
fn checked(path: &[u8]) -> Result<Vec<u8>, CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(format!("cannot look at {}: {error}", escaped(path)))
    };
    let (mount_point, within) = sys::mount::filespace_root(path).map_err(failed)?;
    if within != b"/" {
        let message = format!(
            "{} is not a mount point; give its mount point {}",
            escaped(path),
            escaped(&mount_point)
        );
        return Err(CommandError::new(message));
    }
    let kind = sys::mount::filesystem_type(&mount_point).map_err(failed)?.unwrap_or_default();
    if !TYPES.contains(&kind.as_str()) {
        let message = format!(
            "{} is a file system of type {kind}; space management works on {}",
            escaped(&mount_point),
            TYPES.join(", ")
        );
        return Err(CommandError::new(message));
    }
    if mount_point == b"/" {
        return Err(CommandError::new(
            "the root file system cannot be managed: space management itself runs from it",
        ));
    }
    Ok(mount_point)
}

/// Fails if a new file system is only a directory of one, from which files could be moved unseen,
/// or if it is managed at another mount point.
fn check_new(mount_point: &[u8], settings: &Settings) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(format!("cannot look at {}: {error}", escaped(mount_point)))
    };
    let look = |mount_point: &[u8]| std::fs::metadata(OsStr::from_bytes(mount_point));
    let found = look(mount_point).map_err(failed)?;
    let mounted = sys::mount::mounted(mount_point).map_err(failed)?;
    if mounted.is_some_and(|mounted| !::hsm::is_whole(&mounted, found.ino())) {
        return Err(CommandError::new(format!(
            "{} is only a directory of a file system, which is mounted there too; manage the \
             whole file system",
            escaped(mount_point)
        )));
    }
    for known in &settings.filesystems {
        let is_mounted = sys::mount::mounted(&known.mount_point).map_err(failed)?.is_some();
        if is_mounted && look(&known.mount_point).is_ok_and(|other| other.dev() == found.dev()) {
            return Err(CommandError::new(format!(
                "the file system at {} is managed already, at {}",
                escaped(mount_point),
                escaped(&known.mount_point)
            )));
        }
    }
    Ok(())
}

/// Fails if the settings name a virtual filespace in the file system. A machine that is not yet
/// enrolled has no such settings.
fn check_virtual(home: &Path, mount_point: &[u8]) -> Result<(), CommandError> {
    let Ok(standing) = client::standing(home, false) else { return Ok(()) };
    let virtual_filespaces = VirtualFilespaces::of(&standing)?;
    match virtual_filespaces.at_or_below(mount_point) {
        None => Ok(()),
        Some(path) => Err(CommandError::new(format!(
            "{} cannot be managed: the setting virtual-filespaces names {}, and space management \
             knows the backups and the copies of files by the name of the whole file system",
            escaped(mount_point),
            escaped(path)
        ))
        .with_hint("take it out of the setting, or manage another file system")),
    }
}

/// Stop managing a file system, which must have no migrated files
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm recall /data
  holdfast hsm remove /data")]
pub(super) struct RemoveArgs {
    /// The mount point of the file system
    #[arg(value_name = "FS")]
    mount_point: PathBuf,
}

pub(super) fn remove(args: &RemoveArgs, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let mount_point = path::absolute(&args.mount_point)?;
    let request = Request::Release { mount_point: PathText(mount_point.clone()) };
    // The worker keeps files from migrating meanwhile.
    match ask_if_running(&home, &request, &mut |_| true) {
        Ok(()) => Ok(DONE),
        Err(AskError::NotRunning) => {
            ::hsm::release(&home, &mount_point).map_err(|error| CommandError::chain(&error))?;
            Ok(DONE)
        }
        Err(error) => Err(CommandError::chain(&error)),
    }
}

/// List the file systems that are managed
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm list
  holdfast hsm list /data")]
pub(super) struct ListArgs {
    /// The mount points of the file systems [default: all managed file systems]
    #[arg(value_name = "FS")]
    mount_points: Vec<PathBuf>,
}

pub(super) fn list(args: &ListArgs, context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let wanted = path::on_node(&args.mount_points)?;
    let settings = Settings::load(&home).map_err(|error| wrong(&error))?;
    // Only root may ask. For others the states are unknown.
    let states = states(&home, &Request::Filesystems).unwrap_or_else(|_| Some(Vec::new()));
    let unknown = |state: &&FilesystemState| !settings.has(&state.mount_point.0);
    let extra = states.iter().flatten().filter(unknown).map(|state| {
        let filesystem = FilesystemSettings::new(state.mount_point.0.clone());
        (filesystem, State::of(&state.mount_point.0, states.as_deref()))
    });
    let of_settings = settings.filesystems.iter().map(|filesystem| {
        (filesystem.clone(), State::of(&filesystem.mount_point, states.as_deref()))
    });
    let all = chosen(of_settings.chain(extra).collect(), &wanted)?;
    if all.is_empty() && !context.output.is_json() {
        context.output.note("No file system is managed; 'holdfast hsm add' adds one.");
    } else {
        tell(&all, context);
    }
    for (filesystem, state) in &all {
        if let Some(problem) = &state.problem {
            output::say(&format!("{}: {problem}", escaped(&filesystem.mount_point)));
        }
    }
    Ok(DONE)
}

/// Returns the file systems with the mount points `wanted`, in their order; all if none is wanted.
fn chosen(
    all: Vec<(FilesystemSettings, State)>,
    wanted: &[Vec<u8>],
) -> Result<Vec<(FilesystemSettings, State)>, CommandError> {
    if wanted.is_empty() {
        return Ok(all);
    }
    let find = |mount_point: &Vec<u8>| {
        let found = all.iter().find(|(filesystem, _)| filesystem.mount_point == *mount_point);
        found.cloned().ok_or_else(|| {
            let message = format!("{} is not a file system that is managed", escaped(mount_point));
            CommandError::new(message).with_hint(
                "'holdfast hsm list' shows all managed file systems, and 'holdfast hsm add' adds \
                 one",
            )
        })
    };
    wanted.iter().map(find).collect()
}

/// State of a file system, as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
struct State {
    word: String,
    problem: Option<String>,
}

impl State {
    const NOT_RUNNING: &'static str = "not running";

    /// The state of the file system at `mount_point`; `states` is `None` if nothing runs.
    fn of(mount_point: &[u8], states: Option<&[FilesystemState]>) -> Self {
        let Some(states) = states else {
            return Self { word: Self::NOT_RUNNING.to_owned(), problem: None };
        };
        match states.iter().find(|state| state.mount_point.0 == mount_point) {
            Some(state) => Self { word: state.state.clone(), problem: state.problem.clone() },
            // The settings have just been changed by somebody else.
            None => Self { word: "unknown".to_owned(), problem: None },
        }
    }
}

/// `hsm list --json` and `hsm add --json`, one document per line.
#[derive(Serialize)]
struct FilesystemDocument<'a> {
    mount_point: JsonPath<'a>,
    state: &'a str,
    problem: Option<&'a str>,
    high_percent: u8,
    low_percent: u8,
    premigrated_percent: u8,
    min_size: u64,
    unused_days: u32,
    backup_first: bool,
    whole: u64,
    user_recalls: u32,
    program_recalls: u32,
    requests_only: bool,
    hidden: bool,
    wait_secs: u32,
}

fn tell(filesystems: &[(FilesystemSettings, State)], context: &mut Context) {
    if context.output.is_json() {
        for (known, state) in filesystems {
            context.output.json(&FilesystemDocument {
                mount_point: JsonPath(&known.mount_point),
                state: &state.word,
                problem: state.problem.as_deref(),
                high_percent: known.high_percent,
                low_percent: known.low_percent,
                premigrated_percent: known.premigrated_percent,
                min_size: known.file_bytes_min,
                unused_days: known.unused_days_min,
                backup_first: known.backup_first,
                whole: known.whole_bytes_max,
                user_recalls: known.user_recalls_max,
                program_recalls: known.program_recalls_max,
                requests_only: known.requests_only,
                hidden: known.hidden,
                wait_secs: known.wait_secs,
            });
        }
        return;
    }
    let columns = [
        ("File system", Align::Left),
        ("State", Align::Left),
        ("High", Align::Right),
        ("Low", Align::Right),
        ("Premigrated", Align::Right),
        ("Min size", Align::Right),
        ("Unused days", Align::Right),
        ("Backup first", Align::Left),
        ("Hidden", Align::Left),
        ("Wait", Align::Right),
    ];
    let row = |(known, state): &(FilesystemSettings, State)| {
        [
            escaped(&known.mount_point),
            state.word.clone(),
            format!("{} %", known.high_percent),
            format!("{} %", known.low_percent),
            format!("{} %", known.premigrated_percent),
            quantity::bytes_with_unit(known.file_bytes_min),
            known.unused_days_min.to_string(),
            if known.backup_first { "yes" } else { "no" }.to_owned(),
            if known.hidden { "yes" } else { "no" }.to_owned(),
            format!("{} s", known.wait_secs),
        ]
    };
    let rows: Vec<_> = filesystems.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_shows_the_file_systems_that_are_named() {
        let managed = |mount_point: &[u8]| {
            (FilesystemSettings::new(mount_point.to_vec()), State::of(mount_point, None))
        };
        let all = vec![managed(b"/data"), managed(b"/home")];
        let shown = |wanted: &[&[u8]]| {
            let wanted: Vec<_> = wanted.iter().map(|path| path.to_vec()).collect();
            let found = chosen(all.clone(), &wanted).map_err(|error| error.message);
            found.map(|found| found.into_iter().map(|(one, _)| one.mount_point).collect::<Vec<_>>())
        };
        assert_eq!(shown(&[]), Ok(vec![b"/data".to_vec(), b"/home".to_vec()]));
        assert_eq!(shown(&[b"/home"]), Ok(vec![b"/home".to_vec()]));
        let absent = "/srv is not a file system that is managed";
        assert_eq!(shown(&[b"/home", b"/srv"]), Err(absent.to_owned()));
    }
}
