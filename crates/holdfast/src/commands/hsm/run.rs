//! `holdfast hsm run`: the keeper; and the worker that it starts.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::hsm::{Adopted, Inherited, Keeping, Settings, keep, refuse_waiting};
use model::escaped;
use sys::Dir;
use sys::fanotify::{Asks, Group};

use super::guard::{Guard, locked_in_place_of};
use super::holder::Holder;
use super::supervisor::Supervisor;
use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::interrupt::Signals;
use crate::output;

/// Stand between readers and stubs, until the managed file systems are unmounted
///
/// Told to end (SIGTERM, SIGINT), it stops recalling and stays while anybody uses a managed file
/// system: without it, stubs would read as zeros. Told again it hides the files and ends at once.
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
    /// What another keeper's holder waits at
    #[arg(long, hide = true, value_name = "FD")]
    holder: Option<RawFd>,
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
    holder: Option<RawFd>,
    #[arg(long)]
    opening_only: bool,
}

pub(super) fn failed(what: &str) -> impl Fn(io::Error) -> CommandError + '_ {
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
    let guard = Guard::lock_instead(&home)?;
    let opened = Group::open(args.asks());
    let opened = opened.map_err(failed("cannot have the kernel ask about files"))?;
    // What was asked of a keeper that is gone is refused; what nobody has read is answered.
    let (group, adopted) = match Supervisor::held().map_err(failed("cannot take over"))? {
        Some((held, asks)) => {
            drop(opened);
            (Group::inherited(held, asks), Some(Adopted::default()))
        }
        None => (opened, None),
    };
    watch(&settings, &group, &home).inspect_err(|_| {
        // What was shown already is hidden again before the kernel asks nobody any more.
        if Guard::last(&home).is_none() {
            conceal(&home);
        }
    })?;
    supervisor.ready(&group);
    guard.take_over(&home).map_err(failed("cannot end what has run before"))?;
    if group.asks() == Asks::Opening {
        output::say(
            "this kernel asks at opening only (before 6.14): every file is recalled as a whole, \
             and truncate(2) by path loses the rest of the last page of a stub",
        );
    }
    let holder = started_holder(&home, &group, &supervisor);
    stay(group, &home, &told_to_end, (Some(guard), holder), adopted);
    Ok(DONE)
}

/// Has the kernel ask about all managed file systems. None of them may hold what this program needs
/// to go on: it would wait for itself.
fn watch(settings: &Settings, group: &Group, home: &Path) -> Result<(), CommandError> {
    let device = |path: &Path| {
        std::fs::metadata(path)
            .map(|told| told.dev())
            .map_err(failed(&format!("cannot look at {}", path.display())))
    };
    let own = [device(Path::new("/proc/self/exe"))?, device(home)?];
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
    }
    Ok(())
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

/// The holder, where no service manager does its work.
fn started_holder(home: &Path, group: &Group, supervisor: &Supervisor) -> Option<Holder> {
    if supervisor.is_there() {
        return None;
    }
    let started = Holder::start(home, group);
    let say = |error| output::say(&format!("only two processes have the questions: {error}"));
    started.map_err(say).ok()
}

/// Keeps the questions until it is time to end.
fn stay(
    group: Group,
    home: &Path,
    told_to_end: &AtomicU32,
    (guard, holder): (Option<Guard>, Option<Holder>),
    adopted: Option<Adopted>,
) {
    let asks = group.asks();
    let supervisor = Supervisor::of_environment();
    // Nobody sees zeros before the files are hidden again.
    let held = group.as_fd().try_clone_to_owned().map(|held| Group::inherited(held, asks));
    let holder = RefCell::new(holder);
    let tend = || {
        let is_gone = holder.borrow_mut().as_mut().is_some_and(Holder::is_gone);
        if is_gone && let Ok(held) = &held {
            *holder.borrow_mut() = started_holder(home, held, &supervisor);
        }
    };
    let mut start =
        |group, relay| start_worker(home, asks, [group, relay], holder.borrow().as_ref());
    keep(Keeping {
        adopted,
        group,
        start: &mut start,
        told_to_end,
        tend: &tend,
        guards: &|| guard.iter().for_each(Guard::unlock),
        say: &|text| output::say(text),
    });
    drop(guard);
    // Unless another one stands here by now.
    let alone = Guard::lock(home);
    if alone.is_ok() {
        conceal(home);
        supervisor.forget();
    }
    // The next one that a service manager has started has this very group.
    if let Ok(held) = &held
        && (alone.is_ok() || !supervisor.is_there())
    {
        refuse_waiting(held);
    }
    holder.take().into_iter().for_each(Holder::dismiss);
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
    let adopted = Adopted::parse(questions(args)).unwrap_or_default();
    let supervisor = Supervisor::of_environment();
    let holder = args.holder.and_then(|number| Holder::inherited(number).ok());
    let guard = match locked_in_place_of(home) {
        Ok(guard) => guard,
        Err(line) => {
            output::say("another process keeps the questions; this one ends");
            // Two must not read the same questions. One that was started anew has others.
            if line.contains("\0--adopt\0") || supervisor.is_there() {
                adopted.refuse(&group);
            } else {
                Adopted::refuse_all(&group);
            }
            holder.into_iter().for_each(Holder::dismiss);
            return Ok(DONE);
        }
    };
    if let Some(Err(error)) = guard.as_ref().map(Guard::sign) {
        output::say(&format!("cannot say which process keeps the questions: {error}"));
    }
    let holder = holder.or_else(|| started_holder(home, &group, &supervisor));
    stay(group, home, told_to_end, (guard, holder), Some(adopted));
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
pub(super) fn program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("holdfast");
    command
}

/// Has what `start` starts inherit the descriptors with these numbers.
pub(super) fn inheriting<T>(
    numbers: &[RawFd],
    start: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    for number in numbers {
        sys::process::set_inheritable(*number, true)?;
    }
    let started = start();
    for number in numbers {
        sys::process::set_inheritable(*number, false)?;
    }
    started
}

fn start_worker(
    home: &Path,
    asks: Asks,
    [group, relay]: [RawFd; 2],
    holder: Option<&Holder>,
) -> io::Result<Child> {
    let mut command = program();
    command.args(["hsm", "worker", "--home"]).arg(home);
    command.args(["--group", &group.to_string(), "--relay", &relay.to_string()]);
    if asks == Asks::Opening {
        command.arg("--opening-only");
    }
    let mut numbers = vec![group, relay];
    if let Some(holder) = holder {
        command.args(["--holder", &holder.number().to_string()]);
        numbers.push(holder.number());
    }
    inheriting(&numbers, || command.stdin(std::process::Stdio::null()).spawn())
}

pub(super) fn work(args: &WorkerArgs, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let settings = Settings::load(&home).map_err(|error| CommandError::chain(&error))?;
    let asks = if args.opening_only { Asks::Opening } else { Asks::Ranges };
    let inherit = |number| sys::process::inherited(number).map_err(failed("cannot take over"));
    let inherited = Inherited { group: inherit(args.group)?, relay: inherit(args.relay)?, asks };
    let holder = args.holder.map(Holder::inherited).transpose();
    let holder = holder.map_err(failed("cannot take over"))?;
    let become_keeper = |group: RawFd, questions: &[(String, RawFd)]| {
        become_keeper(&home, asks, group, questions, holder.as_ref()).unwrap_or_else(|error| error)
    };
    ::hsm::work(&home, &settings, inherited, &become_keeper)
        .map_err(failed("space management has failed"))?;
    Ok(DONE)
}

/// Runs the keeper in this process; what is returned is why not.
pub(super) fn become_keeper(
    home: &Path,
    asks: Asks,
    group: RawFd,
    questions: &[(String, RawFd)],
    holder: Option<&Holder>,
) -> io::Result<io::Error> {
    let mut command = program();
    command.args(["hsm", "run", "--home"]).arg(home);
    command.args(["--adopt", &group.to_string()]);
    if asks == Asks::Opening {
        command.arg("--opening-only");
    }
    sys::process::set_inheritable(group, true)?;
    if let Some(holder) = holder {
        sys::process::set_inheritable(holder.number(), true)?;
        command.args(["--holder", &holder.number().to_string()]);
    }
    for (question, number) in questions {
        sys::process::set_inheritable(*number, true)?;
        command.args(["--question", &format!("{question}@{number}")]);
    }
    Ok(command.exec())
}
