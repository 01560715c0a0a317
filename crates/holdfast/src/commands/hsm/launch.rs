//! The command lines by which the processes of space management start each other.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ::hsm::{Holder, HolderEnds, Launcher, OpenQuestion, WorkerEnds};
use sys::fanotify::{Group, QuestionKinds};

/// Name of the holder's process. It differs from the name of keeper and worker, so that a kill by
/// that name does not end the holder.
const HOLDER_NAME: &str = "stub-holder";

/// Launcher that starts the program of this process, even if another version was installed in its
/// place.
pub(super) struct ProgramLauncher<'a> {
    pub(super) home: &'a Path,
}

fn program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("holdfast");
    command
}

fn with_asks(command: &mut Command, asks: QuestionKinds) {
    if asks == QuestionKinds::Opening {
        command.arg("--opening-only");
    }
}

/// Starts `command`, which inherits the descriptors with these numbers.
fn spawn_inheriting(command: &mut Command, numbers: &[RawFd]) -> io::Result<Child> {
    for number in numbers {
        sys::process::set_inheritable(*number, true)?;
    }
    let started = command.stdin(Stdio::null()).spawn();
    for number in numbers {
        sys::process::set_inheritable(*number, false)?;
    }
    started
}

impl Launcher for ProgramLauncher<'_> {
    fn start_worker(&self, ends: WorkerEnds<'_>, holder: Option<&Holder>) -> io::Result<Child> {
        let mut numbers = vec![ends.group.as_fd().as_raw_fd(), ends.relay.as_raw_fd()];
        let mut command = program();
        command.args(["hsm", "worker", "--home"]).arg(self.home);
        command.args(["--group", &numbers[0].to_string(), "--relay", &numbers[1].to_string()]);
        with_asks(&mut command, ends.group.asks());
        if let Some(holder) = holder {
            command.args(["--holder", &holder.number().to_string()]);
            numbers.push(holder.number());
        }
        spawn_inheriting(&mut command, &numbers)
    }

    fn start_holder(&self, ends: HolderEnds<'_>) -> io::Result<Child> {
        let numbers = [ends.group.as_fd().as_raw_fd(), ends.pipe.as_raw_fd()];
        let mut command = program();
        command.arg0(HOLDER_NAME).args(["hsm", "hold"]).env("HOLDFAST_HOME", self.home);
        command.args(["--group", &numbers[0].to_string(), "--pipe", &numbers[1].to_string()]);
        with_asks(&mut command, ends.group.asks());
        // A process group of its own keeps signals from the keeper's terminal away from the holder.
        command.process_group(0).current_dir("/");
        spawn_inheriting(&mut command, &numbers)
    }
}

/// Replaces this process by the keeper, which runs the command `hsm run`. Returns only if that
/// fails, with the reason.
pub(super) fn become_keeper(
    home: &Path,
    group: &Group,
    questions: &[OpenQuestion],
    holder: Option<&Holder>,
) -> io::Error {
    let number = group.as_fd().as_raw_fd();
    let mut command = program();
    command.args(["hsm", "run", "--home"]).arg(home);
    command.args(["--adopt", &number.to_string()]);
    with_asks(&mut command, group.asks());
    let mut numbers = vec![number];
    if let Some(holder) = holder {
        command.args(["--holder", &holder.number().to_string()]);
        numbers.push(holder.number());
    }
    for question in questions {
        command.args(["--question", &question.word()]);
        numbers.push(question.file());
    }
    let inheritable = numbers
        .iter()
        .try_for_each(|number| sys::process::set_inheritable(*number, true));
    match inheritable {
        Ok(()) => command.exec(),
        Err(error) => error,
    }
}
