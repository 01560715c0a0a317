//! `holdfast hsm run`: the keeper; and the worker that it starts.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::hsm::{Adopted, Inherited, Keeping, Settings, keep};
use model::escaped;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sys::Dir;
use sys::fanotify::{Asks, Group};

use super::supervisor::Supervisor;
use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::interrupt::Signals;
use crate::output;

/// Stand between readers and stubs, until the managed file systems are unmounted
///
/// Told to end (SIGTERM, SIGINT), it stops recalling and stays while a managed file system is
/// mounted: without it, stubs would read as zeros. Told again it hides the files and ends at once.
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

/// A keeper that has died lets go of its lock in a moment.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

fn failed(what: &str) -> impl Fn(io::Error) -> CommandError + '_ {
    move |error| CommandError::new(format!("{what}: {error}"))
}

pub(super) fn run(args: &Args, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    if !sys::process::is_root() {
        return Err(CommandError::new("only root can stand between readers and files"));
    }
    sys::process::raise_open_files();
    let told_to_end = Arc::new(AtomicU32::new(0));
    if let Some(number) = args.adopt {
        return adopt(args, number, &home, &told_to_end);
    }
    let settings = Settings::load(&home).map_err(|error| CommandError::chain(&error))?;
    if settings.filesystems.is_empty() {
        return Err(CommandError::new("no file system is managed; 'holdfast hsm add' adds one"));
    }
    count_signals(&told_to_end)?;
    let supervisor = Supervisor::of_environment();
    let guard =
        if supervisor.is_there() { Guard::lock_managed(&home) } else { Guard::lock(&home) }?;
    let opened = Group::open(args.asks());
    let opened = opened.map_err(failed("cannot have the kernel ask about files"))?;
    // What was asked of a keeper that is gone is refused; what nobody has read is answered.
    let (group, adopted) = match Supervisor::held().map_err(failed("cannot take over"))? {
        Some(held) => (Group::inherited(held, opened.asks()), Some(Adopted::default())),
        None => (opened, None),
    };
    let roots = watch(&settings, &group, &home)?;
    supervisor.ready(&group);
    guard.take_over().map_err(failed("cannot end what has run before"))?;
    if group.asks() == Asks::Opening {
        output::say(
            "this kernel asks at opening only (before 6.14): every file is recalled as a whole, \
             and truncate(2) by path loses the rest of the last page of a stub",
        );
    }
    stay(group, &home, &told_to_end, (roots, Some(guard)), adopted);
    Ok(DONE)
}

/// Mount points and device ids of the file systems that are watched.
type Roots = Vec<(Vec<u8>, u64)>;

/// Has the kernel ask about all managed file systems. None of them may hold what this program needs
/// to go on: it would wait for itself.
fn watch(settings: &Settings, group: &Group, home: &Path) -> Result<Roots, CommandError> {
    let device = |path: &Path| {
        std::fs::metadata(path)
            .map(|told| told.dev())
            .map_err(failed(&format!("cannot look at {}", path.display())))
    };
    let own = [device(Path::new("/proc/self/exe"))?, device(home)?];
    let mut roots = Vec::new();
    for filesystem in &settings.filesystems {
        let mount_point = &filesystem.mount_point;
        let what = format!("cannot watch {}", escaped(mount_point));
        let root = Dir::open(mount_point).map_err(failed(&what))?;
        let device_id = root.stat_self().map_err(failed(&what))?.device_id;
        if own.contains(&device_id) {
            let message = format!("{what}: this program or its folder {} is on it", home.display());
            return Err(CommandError::new(message));
        }
        group.mark_filesystem(&root).map_err(failed(&what))?;
        drop(root);
        if filesystem.hidden {
            show(mount_point)?;
        } else {
            ::hsm::give_up(mount_point).map_err(failed(&what))?;
        }
        roots.push((mount_point.clone(), device_id));
    }
    Ok(roots)
}

/// Shows the files of a file system, now that the kernel asks about them.
fn show(mount_point: &[u8]) -> Result<(), CommandError> {
    let shown = escaped(mount_point);
    let left = ::hsm::show(mount_point)
        .map_err(failed(&format!("cannot hide the files of {shown} from others")))?;
    for name in left {
        output::say(&format!(
            "{} was made in {shown} while its files were hidden, which have another of that name: \
             it stays hidden",
            escaped(&name)
        ));
    }
    Ok(())
}

/// Has nobody find what is not watched from now on; what is not mounted nobody finds.
fn conceal(home: &Path) {
    let settings = Settings::load(home).unwrap_or_default();
    for filesystem in settings.filesystems.iter().filter(|filesystem| filesystem.hidden) {
        if let Err(error) = ::hsm::conceal(&filesystem.mount_point) {
            let mount_point = escaped(&filesystem.mount_point);
            output::say(&format!("the files of {mount_point} are still to be seen: {error}"));
        }
    }
}

/// Keeps the questions until it is time to end.
fn stay(
    group: Group,
    home: &Path,
    told_to_end: &AtomicU32,
    (roots, guard): (Roots, Option<Guard>),
    adopted: Option<Adopted>,
) {
    let asks = group.asks();
    // Nobody sees zeros before the files are hidden again.
    let held = group.as_fd().try_clone_to_owned();
    let mut start = |group, relay| start_worker(home, asks, group, relay);
    let is_there = |(path, device_id): &(Vec<u8>, u64)| is_mounted(path, *device_id);
    // Where it is not known what is watched, something may be.
    let is_mounted = || roots.is_empty() || roots.iter().any(is_there);
    keep(Keeping {
        adopted,
        group,
        start: &mut start,
        told_to_end,
        is_mounted: &is_mounted,
        guards: &|| guard.iter().for_each(Guard::unlock),
        say: &|text| output::say(text),
    });
    drop(guard);
    // Unless another one stands here by now.
    if let Ok(_alone) = Guard::lock(home) {
        conceal(home);
        Supervisor::of_environment().forget();
    }
    drop(held);
}

/// Takes the place of a keeper that has died. Whatever is wrong, it goes on as far as it can: if it
/// ended, stubs would read as zeros.
fn adopt(
    args: &Args,
    number: RawFd,
    home: &Path,
    told_to_end: &Arc<AtomicU32>,
) -> Result<u8, CommandError> {
    let fd = sys::process::inherited(number).map_err(failed("cannot take over"))?;
    let group = Group::inherited(fd, args.asks());
    if let Err(error) = count_signals(told_to_end) {
        output::say_error(&error);
    }
    let settings = Settings::load(home).unwrap_or_else(|error| {
        output::say_error(&CommandError::chain(&error));
        Settings::default()
    });
    let mut roots = Vec::new();
    for filesystem in &settings.filesystems {
        let mount_point = &filesystem.mount_point;
        // One that cannot be opened is not mounted, as far as can be told.
        if let Ok(found) = Dir::open(mount_point).and_then(|root| root.stat_self()) {
            roots.push((mount_point.clone(), found.device_id));
        }
    }
    let guard = locked_soon(home);
    if let Some(Err(error)) = guard.as_ref().map(Guard::sign) {
        output::say(&format!("cannot say which process keeps the questions: {error}"));
    }
    let adopted = Adopted::parse(questions(args)).unwrap_or_default();
    stay(group, home, told_to_end, (roots, guard), Some(adopted));
    Ok(DONE)
}

/// What another keeper has left; what cannot be read of it is refused later.
fn questions(args: &Args) -> Vec<(String, OwnedFd)> {
    let take = |question: &String| {
        let (word, number) = question.split_once('@')?;
        let file = sys::process::inherited(number.parse().ok()?).ok()?;
        Some((word.to_owned(), file))
    };
    args.questions.iter().filter_map(take).collect()
}

impl Args {
    fn asks(&self) -> Asks {
        if self.opening_only { Asks::Opening } else { Asks::Ranges }
    }
}

/// The file by which a keeper knows that another one works, and which one was the last: that may
/// have stayed to refuse whoever uses stubs.
struct Guard {
    file: File,
}

impl Guard {
    fn lock(home: &Path) -> Result<Self, CommandError> {
        let what = format!("cannot lock {}", Self::path(home).display());
        let mut options = File::options();
        let opened = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(Self::path(home));
        let file = opened.map_err(failed(&what))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file }),
            Err(Errno::WOULDBLOCK) => Err(CommandError::new("space management runs already")),
            Err(error) => Err(failed(&what)(error.into())),
        }
    }

    /// The same, where one holds it who has taken the place of a keeper that died, and of whom the
    /// service manager knows nothing: that one is told to end.
    fn lock_managed(home: &Path) -> Result<Self, CommandError> {
        let refused = match Self::lock(home) {
            Ok(guard) => return Ok(guard),
            Err(refused) => refused,
        };
        let path = Self::path(home);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        match keeper(&text).filter(|(_, line)| line.contains("\0--adopt\0")) {
            Some((pid, _)) => {
                sys::process::terminate(pid).map_err(failed("cannot end what has run before"))?;
                locked_soon(home).ok_or(refused)
            }
            None => Err(refused),
        }
    }

    fn path(home: &Path) -> PathBuf {
        home.join("hsm.lock")
    }

    /// Ends the process that has only stayed, if one has, and stands in its place.
    fn take_over(&self) -> io::Result<()> {
        let mut text = String::new();
        (&self.file).read_to_string(&mut text)?;
        if let Some((pid, _)) = keeper(&text) {
            sys::process::terminate(pid)?;
        }
        self.sign()
    }

    /// Says that this process is the keeper.
    fn sign(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(std::process::id().to_string().as_bytes(), 0)
    }

    /// Lets another one take over.
    fn unlock(&self) {
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// The keeper that `text` names and its command line, if that is another process and runs still.
fn keeper(text: &str) -> Option<(u32, String)> {
    let pid = text.trim().parse::<u32>().ok().filter(|pid| *pid != std::process::id())?;
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    (line.contains("\0hsm\0") && line.contains("\0run\0")).then_some((pid, line))
}

/// Waits for who lets go of the lock in a moment.
fn locked_soon(home: &Path) -> Option<Guard> {
    (0..LOCK_TRIES).find_map(|_| match Guard::lock(home) {
        Ok(guard) => Some(guard),
        Err(_) => {
            sys::clock::sleep(LOCK_PAUSE);
            None
        }
    })
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

/// This very program, also when another one has been put in its place.
fn program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("holdfast");
    command
}

fn start_worker(home: &Path, asks: Asks, group: RawFd, relay: RawFd) -> io::Result<Child> {
    let mut command = program();
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
    let mut command = program();
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
