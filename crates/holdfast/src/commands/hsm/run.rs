//! `holdfast hsm run`: the keeper, and the commands of the processes that the keeper starts.

use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::hsm::{
    Channels, FilesystemState, Holder, OpenQuestion, OpenQuestions, Places, Reply, Request,
    Settings, Station, work,
};
use model::escaped;
use serde::Serialize;
use sys::fanotify::{Group, QuestionKinds};
use tokio::signal::unix::{SignalKind, signal};

use super::launch::{ProgramLauncher, become_keeper};
use super::supervisor::Systemd;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::interrupt::Signals;
use crate::output::{self, Output};
use crate::path::JsonPath;

/// Recall files when programs use them, until the managed file systems are unmounted
///
/// The command prints a line once the file systems can be used. Settings that change, and file
/// systems that are added, removed, mounted or unmounted, are taken up while it runs. After SIGHUP
/// it reads the settings at once and shows the file systems.
///
/// After SIGTERM or SIGINT the command stops recalling, and stays while programs use a managed file
/// system: without the command, stubs would read as zeros. After a second signal the command hides
/// the files and ends at once.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm run &
  kill %1; umount /data")]
pub(super) struct Args {
    /// Ask only when a file is opened, as on kernels before 6.14; every file is recalled as a whole
    #[arg(long, hide_short_help = true)]
    opening_only: bool,
    /// Group of questions that an earlier keeper has left
    #[arg(long, hide = true, value_name = "FD")]
    adopt: Option<RawFd>,
    /// Pipe at which the holder of an earlier keeper waits
    #[arg(long, hide = true, value_name = "FD")]
    holder: Option<RawFd>,
    /// Waiting question, with the descriptor of its file
    #[arg(long = "question", hide = true, value_name = "QUESTION@FD")]
    questions: Vec<String>,
}

/// Serve the keeper that has started this process
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  it is started by 'holdfast hsm run'")]
pub(super) struct WorkerArgs {
    #[arg(long)]
    group: RawFd,
    #[arg(long)]
    relay: RawFd,
    #[arg(long)]
    holder: Option<RawFd>,
    #[arg(long)]
    opening_only: bool,
}

/// Hold the questions until the keeper that has started this process has ended
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  it is started by 'holdfast hsm run'")]
pub(super) struct HoldArgs {
    #[arg(long)]
    group: RawFd,
    /// Pipe whose other end is open while the keeper or the worker lives
    #[arg(long)]
    pipe: RawFd,
    #[arg(long)]
    opening_only: bool,
}

fn failed(what: &str) -> impl Fn(io::Error) -> CommandError + '_ {
    move |error| CommandError::new(format!("{what}: {error}"))
}

fn asks(opening_only: bool) -> QuestionKinds {
    if opening_only { QuestionKinds::Opening } else { QuestionKinds::Ranges }
}

/// `hsm run --json`, once the file systems can be used.
#[derive(Serialize)]
struct ReadyDocument<'a> {
    event: &'static str,
    filesystems: Vec<JsonPath<'a>>,
}

/// The line that says that the file systems at these mount points can be used.
pub(super) fn ready_line(watched: &[Vec<u8>]) -> String {
    let names: Vec<String> = watched.iter().map(|mount_point| escaped(mount_point)).collect();
    format!("Ready: files are recalled when programs use them in {}", names.join(", "))
}

fn tell_ready(watched: &[Vec<u8>], output: &mut Output) {
    if output.is_json() {
        let filesystems = watched.iter().map(|mount_point| JsonPath(mount_point)).collect();
        output.json(&ReadyDocument { event: "ready", filesystems });
    } else if !output.quiet {
        output.line(&ready_line(watched));
    }
    // A script waits for the line, and this command goes on.
    output.flush();
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    if !sys::process::is_root() {
        return Err(CommandError::new(
            "only root can recall files when programs use them; run this command as root",
        ));
    }
    sys::process::raise_open_files();
    let told_to_end = Arc::new(AtomicU32::new(0));
    let asks = asks(args.opening_only);
    let manager = Systemd::of_environment();
    let supervisor = manager.as_ref().map(|manager| manager as &dyn ::hsm::Supervisor);
    let output = RefCell::new(&mut context.output);
    let station = Station {
        home: &home,
        launcher: &ProgramLauncher { home: &home },
        supervisor,
        told_to_end: &told_to_end,
        say: &|text| output::say(text),
        ready: &|watched| tell_ready(watched, &mut output.borrow_mut()),
    };
    let counting = count_signals(&told_to_end, &home);
    let Some(group) = args.adopt else {
        counting?;
        let settings = Settings::load(&home).map_err(|error| CommandError::chain(&error))?;
        station.run(&settings, asks).map_err(|error| CommandError::chain(&error))?;
        return Ok(DONE);
    };
    if let Err(error) = counting {
        // The keeper continues all the same: if it ended, programs would read stubs as zeros.
        output::say_error(&error, output::Format::Text);
    }
    let group = sys::process::inherited(group)
        .map_err(failed("cannot take over the group of questions"))?;
    let holder = args.holder.and_then(|number| Holder::inherited(number).ok());
    let questions = OpenQuestions::inherit(&args.questions);
    station.take_over(Group::inherited(group, asks), holder, questions);
    Ok(DONE)
}

/// Counts the signals that tell this process to end, and lets the worker read the settings again at
/// each signal that asks for it.
fn count_signals(told: &Arc<AtomicU32>, home: &Path) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed("cannot wait for signals"))?;
    let (mut signals, mut hangup) = {
        let _entered = runtime.enter();
        let hangup = signal(SignalKind::hangup()).map_err(failed("cannot catch signals"))?;
        (Signals::catch()?, hangup)
    };
    let (told, home) = (Arc::clone(told), home.to_owned());
    let count = move || {
        runtime.block_on(async move {
            loop {
                tokio::select! {
                    () = signals.next() => drop(told.fetch_add(1, Ordering::Relaxed)),
                    _ = hangup.recv() => read_settings_again(&home),
                }
            }
        });
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    // No thread joins the signal thread, which has nothing to finish.
    thread.spawn(count).map(drop).map_err(failed("cannot wait for signals"))
}

/// Asks the worker to read the settings again, and shows the states of the file systems. A thread
/// does this, so that no signal has to wait.
fn read_settings_again(home: &Path) {
    let home = home.to_owned();
    let ask = move || {
        let mut visit = |reply| {
            if let Reply::Filesystem(state) = reply {
                output::say(&state_line(&state));
            }
            true
        };
        if let Err(error) = ::hsm::ask(&home, &Request::Reread, &mut visit) {
            output::say_error(&CommandError::chain(&error), output::Format::Text);
        }
    };
    let started = std::thread::Builder::new().name("settings".to_owned()).spawn(ask);
    if let Err(error) = started {
        output::say(&format!("cannot read the settings again: {error}"));
    }
}

/// A file system and its state, for people.
fn state_line(state: &FilesystemState) -> String {
    let mount_point = escaped(&state.mount_point.0);
    match &state.problem {
        Some(problem) => format!("{mount_point}: {}: {problem}", state.state),
        None => format!("{mount_point}: {}", state.state),
    }
}

pub(super) fn worker(args: &WorkerArgs, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let settings = Settings::load(&home).map_err(|error| CommandError::chain(&error))?;
    let asks = asks(args.opening_only);
    let inherit = |number| {
        sys::process::inherited(number).map_err(failed("cannot inherit a channel to the keeper"))
    };
    let channels = Channels { group: inherit(args.group)?, relay: inherit(args.relay)?, asks };
    let holder = args.holder.map(Holder::inherited).transpose();
    let holder = holder.map_err(failed("cannot inherit the holder's pipe"))?;
    let become_keeper = |group: &Group, questions: &[OpenQuestion]| {
        become_keeper(&home, group, questions, holder.as_ref())
    };
    let places = Places { home: home.clone(), public: public_folder(&home) };
    let say = Box::new(|text: &str| output::say(text));
    work(&places, &settings, channels, say, &become_keeper)
        .map_err(failed("space management failed"))?;
    Ok(DONE)
}

/// Returns the folder for the socket that every user may use: the folder that a service manager has
/// made for this process, otherwise the public folder if `home` is the system's folder.
fn public_folder(home: &Path) -> Option<PathBuf> {
    let given = std::env::var_os("RUNTIME_DIRECTORY").filter(|folder| !folder.is_empty());
    match given {
        Some(given) => Some(PathBuf::from(given)),
        None if home == Path::new(client::SYSTEM_FOLDER) => Some(::hsm::PUBLIC_FOLDER.into()),
        None => None,
    }
}

pub(super) fn hold(args: &HoldArgs, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let inherit =
        |number| sys::process::inherited(number).map_err(failed("cannot hold the questions"));
    let group = Group::inherited(inherit(args.group)?, asks(args.opening_only));
    let become_keeper = |group: &Group| become_keeper(&home, group, &[], None);
    ::hsm::hold(&group, inherit(args.pipe)?, &become_keeper, &|text| output::say(text));
    Ok(DONE)
}
