//! `holdfast hsm run`: the keeper; and the worker that it starts.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::hsm::{Adopted, Inherited, Keeping, Settings, keep};
use model::escaped;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sys::Dir;
use sys::fanotify::{Asks, Group};

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::interrupt::Signals;
use crate::output;

/// Stand between readers and stubs, until the managed file systems are unmounted
///
/// Told to end (SIGTERM, SIGINT), it stops recalling and stays while a managed file system is
/// mounted: without it, stubs would read as zeros. Told again it ends at once.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm run &
  kill %1; umount /data")]
pub(super) struct Args {
    /// Ask at opening only, as on kernels before 6.14: every file is recalled as a whole
    #[arg(long, hide_short_help = true)]
    opening_only: bool,
    /// The group of questions that another keeper has left
    #[arg(long, hide = true, value_name = "FD")]
    adopt: Option<RawFd>,
    /// A question that waits, with the descriptor of its file
    #[arg(long = "question", hide = true, value_name = "QUESTION@FD")]
    questions: Vec<String>,
}

/// What the keeper starts
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
    opening_only: bool,
}

fn failed(what: &str) -> impl Fn(io::Error) -> CommandError + '_ {
    move |error| CommandError::new(format!("{what}: {error}"))
}

pub(super) fn run(args: &Args, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let settings = Settings::load(&home).map_err(|error| CommandError::chain(&error))?;
    if settings.filesystems.is_empty() {
        return Err(CommandError::new("no file system is managed; 'holdfast hsm add' adds one"));
    }
    if !sys::process::is_root() {
        return Err(CommandError::new("only root can stand between readers and files"));
    }
    sys::process::raise_open_files();
    let told_to_end = Arc::new(AtomicU32::new(0));
    count_signals(&told_to_end)?;
    let guard = Guard::lock(&home)?;
    let group = group(args)?;
    let mut roots = Vec::new();
    for filesystem in &settings.filesystems {
        let mount_point = &filesystem.mount_point;
        let what = format!("cannot watch {}", escaped(mount_point));
        let root = Dir::open(mount_point).map_err(failed(&what))?;
        group.mark_filesystem(&root).map_err(failed(&what))?;
        let device_id = root.stat_self().map_err(failed(&what))?.device_id;
        roots.push((mount_point.clone(), device_id));
    }
    guard.take_over().map_err(failed("cannot end what has run before"))?;
    let asks = group.asks();
    if asks == Asks::Opening {
        output::say(
            "this kernel asks at opening only (before 6.14): every file is recalled as a whole, \
             and truncate(2) by path loses the rest of the last page of a stub",
        );
    }
    let mut start = |group, relay| start_worker(&home, asks, group, relay);
    let is_mounted = || roots.iter().any(|(path, device_id)| is_mounted(path, *device_id));
    keep(Keeping {
        adopted: adopted(args)?,
        group,
        start: &mut start,
        told_to_end: &told_to_end,
        is_mounted: &is_mounted,
        guards: &|| guard.unlock(),
        say: &|text| output::say(text),
    })
    .map_err(failed("space management has failed"))?;
    Ok(DONE)
}

/// The file by which a keeper knows that another one works, and which process has only stayed to
/// refuse whoever uses stubs.
struct Guard {
    file: File,
}

impl Guard {
    fn lock(home: &Path) -> Result<Self, CommandError> {
        let path = home.join("hsm.lock");
        let what = format!("cannot lock {}", path.display());
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(failed(&what))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file }),
            Err(Errno::WOULDBLOCK) => Err(CommandError::new("space management runs already")),
            Err(error) => Err(failed(&what)(error.into())),
        }
    }

    /// Ends the process that has only stayed: this one stands in its place by now.
    fn take_over(&self) -> io::Result<()> {
        let mut text = String::new();
        (&self.file).read_to_string(&mut text)?;
        if let Ok(pid) = text.trim().parse::<u32>()
            && std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.contains("\0hsm\0") && line.contains("\0run\0"))
        {
            sys::process::terminate(pid)?;
        }
        self.file.set_len(0)
    }

    /// Lets another one take over.
    fn unlock(&self) {
        let pid = std::process::id().to_string();
        // Without it the other one refuses stubs until this process is told to end again.
        drop(self.file.write_all_at(pid.as_bytes(), 0));
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

fn group(args: &Args) -> Result<Group, CommandError> {
    let asks = if args.opening_only { Asks::Opening } else { Asks::Ranges };
    match args.adopt {
        Some(number) => {
            let fd = sys::process::inherited(number).map_err(failed("cannot take over"))?;
            Ok(Group::inherited(fd, asks))
        }
        None => Group::open(asks).map_err(failed("cannot have the kernel ask about files")),
    }
}

fn adopted(args: &Args) -> Result<Option<Adopted>, CommandError> {
    if args.adopt.is_none() {
        return Ok(None);
    }
    let invalid = || CommandError::new("what another keeper has left cannot be read");
    let mut words: Vec<(String, OwnedFd)> = Vec::new();
    for question in &args.questions {
        let (word, number) = question.split_once('@').ok_or_else(invalid)?;
        let number = number.parse().map_err(|_| invalid())?;
        let file = sys::process::inherited(number).map_err(failed("cannot take over"))?;
        words.push((word.to_owned(), file));
    }
    Adopted::parse(words).map(Some).ok_or_else(invalid)
}

/// Whether what was there at first is there still, under this name.
fn is_mounted(mount_point: &[u8], device_id: u64) -> bool {
    let device = || Dir::open(mount_point)?.stat_self().map(|found| found.device_id);
    device().is_ok_and(|device| device == device_id)
}

fn count_signals(told: &Arc<AtomicU32>) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed("cannot wait for signals"))?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::catch()?
    };
    let told = Arc::clone(told);
    let count = move || {
        runtime.block_on(async move {
            loop {
                signals.next().await;
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    // Nobody waits for this thread: it has nothing to finish.
    thread.spawn(count).map(drop).map_err(failed("cannot wait for signals"))
}

fn program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

fn start_worker(home: &Path, asks: Asks, group: RawFd, relay: RawFd) -> io::Result<Child> {
    let mut command = Command::new(program()?);
    command.args(["hsm", "worker", "--home"]).arg(home);
    command.args(["--group", &group.to_string(), "--relay", &relay.to_string()]);
    if asks == Asks::Opening {
        command.arg("--opening-only");
    }
    for number in [group, relay] {
        sys::process::set_inheritable(number, true)?;
    }
    let child = command.stdin(std::process::Stdio::null()).spawn();
    for number in [group, relay] {
        sys::process::set_inheritable(number, false)?;
    }
    child
}

pub(super) fn work(args: &WorkerArgs, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let settings = Settings::load(&home).map_err(|error| CommandError::chain(&error))?;
    let asks = if args.opening_only { Asks::Opening } else { Asks::Ranges };
    let inherit = |number| sys::process::inherited(number).map_err(failed("cannot take over"));
    let inherited = Inherited { group: inherit(args.group)?, relay: inherit(args.relay)?, asks };
    let become_keeper = |group: RawFd, questions: &[(String, RawFd)]| {
        become_keeper(&home, asks, group, questions).unwrap_or_else(|error| error)
    };
    ::hsm::work(&home, &settings, inherited, &become_keeper)
        .map_err(failed("space management has failed"))?;
    Ok(DONE)
}

/// Runs the keeper in this process; what is returned is why not.
fn become_keeper(
    home: &Path,
    asks: Asks,
    group: RawFd,
    questions: &[(String, RawFd)],
) -> io::Result<io::Error> {
    let mut command = Command::new(program()?);
    command.args(["hsm", "run", "--home"]).arg(home);
    command.args(["--adopt", &group.to_string()]);
    if asks == Asks::Opening {
        command.arg("--opening-only");
    }
    sys::process::set_inheritable(group, true)?;
    for (question, number) in questions {
        sys::process::set_inheritable(*number, true)?;
        command.args(["--question", &format!("{question}@{number}")]);
    }
    Ok(command.exec())
}
