//! The program being measured: commands that run to their end, and a server.
//!
//! Outputs go to files, so that nobody has to empty a pipe while the time runs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use wait4::Wait4 as _;

use crate::trouble::{Trouble, While as _};

/// How long a signal that ends the bench may go unseen.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether a signal has asked the bench to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Lets SIGINT and SIGTERM end the bench in order: commands are killed, what it made is removed.
pub(crate) fn catch_signals() -> Result<(), Trouble> {
    let what = || "wait for signals".to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .while_doing(what)?;
    let guard = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).while_doing(what)?;
    let mut terminate = signal(SignalKind::terminate()).while_doing(what)?;
    drop(guard);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        INTERRUPTED.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Fails once a signal has come.
pub(crate) fn check_interrupted() -> Result<(), Trouble> {
    let interrupted = INTERRUPTED.load(Ordering::Relaxed);
    if interrupted { Err(Trouble::new("interrupted")) } else { Ok(()) }
}

/// Returns the program to measure.
pub(crate) fn find_program() -> Result<PathBuf, Trouble> {
    if let Some(path) = std::env::var_os("HOLDFAST_BIN") {
        let path = PathBuf::from(path);
        let found = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let message = || format!("HOLDFAST_BIN names {}, which is no file", path.display());
        return found.is_file().then_some(found).ok_or_else(|| Trouble::new(message()));
    }
    let bench = std::env::current_exe().while_doing(|| "find this program".to_owned())?;
    let profile = bench.parent().unwrap_or(Path::new("/"));
    let path = profile.with_file_name("release").join("holdfast");
    let message = || {
        let path = path.display();
        format!(
            "there is no {path}: run 'cargo build --release -p holdfast', \
             or name the program in HOLDFAST_BIN"
        )
    };
    path.is_file().then_some(path.clone()).ok_or_else(|| Trouble::new(message()))
}

/// What a command used, and what it had to say.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) memory_bytes: u64,
    pub(crate) exit_code: i32,
    pub(crate) report: Value,
}

/// Runs commands of one program, their outputs in one folder.
#[derive(Debug)]
pub(crate) struct Runner {
    program: PathBuf,
    outputs: PathBuf,
}

impl Runner {
    pub(crate) fn new(program: PathBuf, outputs: PathBuf) -> Self {
        Self { program, outputs }
    }

    /// Runs a command with `--json` to its end. Done in part counts as done.
    pub(crate) fn run(&self, arguments: &[&OsStr]) -> Result<Finished, Trouble> {
        check_interrupted()?;
        let name = describe(arguments);
        let stdout = self.outputs.join("stdout");
        let stderr = self.outputs.join("stderr");
        let mut command = self.command(arguments);
        command.stdout(create(&stdout)?).stderr(create(&stderr)?);
        let begin = clock::now();
        let child = command.spawn().while_doing(|| format!("start {}", self.program.display()))?;
        let used = wait(child, &name)?;
        let wall = begin.elapsed();
        let Some(exit_code @ (0 | 4 | 8)) = used.status.code() else {
            return Err(failed(&name, used.status, &stderr));
        };
        let text = std::fs::read_to_string(&stdout)
            .while_doing(|| format!("read the answer of {name}"))?;
        let report = match text.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text).while_doing(|| format!("parse what {name} says"))?,
        };
        let cpu = used.rusage.utime + used.rusage.stime;
        Ok(Finished { wall, cpu, memory_bytes: used.rusage.maxrss, exit_code, report })
    }

    /// Runs the server of `folder` until the value is dropped or stopped.
    pub(crate) fn serve(&self, folder: &Path) -> Result<Server, Trouble> {
        check_interrupted()?;
        let stderr = self.outputs.join("server");
        let arguments = ["server".as_ref(), "run".as_ref(), folder.as_os_str()];
        let mut command = self.command(&arguments);
        command.stdout(Stdio::piped()).stderr(create(&stderr)?);
        let mut child =
            command.spawn().while_doing(|| format!("start {}", self.program.display()))?;
        let stdout = child.stdout.take();
        let server = Server { child: Some(child) };
        let mut line = String::new();
        let ready = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
        if !matches!(ready, Some(Ok(bytes)) if bytes > 0) {
            let status = server.stop()?;
            return Err(failed("server run", status, &stderr));
        }
        Ok(server)
    }

    fn command(&self, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--json").stdin(Stdio::null()).current_dir("/");
        command.env_remove("HOLDFAST_HOME").env("LC_ALL", "C");
        command
    }
}

/// A server that is ready. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    /// `None` once it has ended.
    child: Option<Child>,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Stops it in an orderly way.
    pub(crate) fn stop(mut self) -> Result<ExitStatus, Trouble> {
        let child = self.child.take();
        let mut child = child.ok_or_else(|| Trouble::new("the server has ended"))?;
        // Fails only for a process that has ended, which the wait tells.
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        child.wait().while_doing(|| "wait for the server".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Waits for the end of `child`, which a signal to the bench kills.
fn wait(mut child: Child, name: &str) -> Result<wait4::ResUse, Trouble> {
    let what = || format!("wait for {name}");
    let pidfd = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(error) => {
            drop(child.kill());
            drop(child.wait());
            return Err(error).while_doing(what);
        }
    };
    loop {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        let ended = matches!(poll(&mut fds, Some(&LOOK)), Ok(ready) if ready > 0);
        if ended {
            return child.wait4().while_doing(what);
        }
        if let Err(interrupted) = check_interrupted() {
            drop(child.kill());
            drop(child.wait());
            return Err(interrupted);
        }
    }
}

fn create(path: &Path) -> Result<File, Trouble> {
    File::create(path).while_doing(|| format!("make {}", path.display()))
}

/// Says how a command ended, with the last line that it said.
fn failed(name: &str, status: ExitStatus, stderr: &Path) -> Trouble {
    if let Err(interrupted) = check_interrupted() {
        return interrupted;
    }
    let said = std::fs::read_to_string(stderr).unwrap_or_default();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Trouble::new(format!("holdfast {name} failed ({status}): {last}"))
}

/// Returns the subcommand, for messages.
fn describe(arguments: &[&OsStr]) -> String {
    let words = arguments
        .iter()
        .take_while(|argument| !argument.as_encoded_bytes().contains(&b'/'));
    let words: Vec<OsString> = words.map(OsString::from).collect();
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
