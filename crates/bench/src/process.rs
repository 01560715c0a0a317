//! The program that is measured: commands that run to their end, and a server.
//!
//! Outputs go to files, so that the bench does not have to read from a pipe during a measurement.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use wait4::Wait4 as _;

use crate::machine::ResidentMemory;
use crate::trouble::{Context as _, Trouble};

/// Interval at which a wait looks for a signal to the bench, and at the memory of the process.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// True once a signal has asked the bench to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Lets SIGINT and SIGTERM end the bench in an orderly way: running commands are killed, and the
/// files of the bench are removed.
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

/// Fails if a signal has asked the bench to end.
pub(crate) fn check_interrupted() -> Result<(), Trouble> {
    let interrupted = INTERRUPTED.load(Ordering::Relaxed);
    if interrupted { Err(Trouble::new("interrupted")) } else { Ok(()) }
}

/// Returns the program to measure.
pub(crate) fn find_program() -> Result<PathBuf, Trouble> {
    if let Some(path) = std::env::var_os("HOLDFAST_BIN") {
        let path = PathBuf::from(path);
        let found = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let message =
            || format!("HOLDFAST_BIN must name a file, but {} is not a file", path.display());
        return found.is_file().then_some(found).ok_or_else(|| Trouble::new(message()));
    }
    let bench = std::env::current_exe().while_doing(|| "find this program".to_owned())?;
    let profile = bench.parent().unwrap_or(Path::new("/"));
    let path = profile.with_file_name("release").join("holdfast");
    let message = || {
        let path = path.display();
        format!(
            "{path} does not exist: run 'cargo build --release -p holdfast', \
             or name the program in HOLDFAST_BIN"
        )
    };
    path.is_file().then_some(path.clone()).ok_or_else(|| Trouble::new(message()))
}

/// Resources that a command of Holdfast used, and its output.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) memory_bytes: u64,
    pub(crate) resident: ResidentMemory,
    pub(crate) exit_code: i32,
    pub(crate) report: Value,
}

/// Runner of the commands of one program. Their outputs go to files in one folder.
#[derive(Debug)]
pub(crate) struct Runner {
    program: PathBuf,
    outputs: PathBuf,
    /// Processor to which the commands are confined; `None` for all processors.
    processor: Option<usize>,
}

impl Runner {
    pub(crate) fn new(program: PathBuf, outputs: PathBuf) -> Self {
        Self { program, outputs, processor: None }
    }

    /// Returns a runner whose commands have one processor only.
    pub(crate) fn confined(&self) -> Self {
        let (program, outputs) = (self.program.clone(), self.outputs.clone());
        Self { program, outputs, processor: Some(0) }
    }

    /// Runs a command with `--json` to its end. Exit codes for remarks or for a part that failed
    /// are no error.
    pub(crate) fn run(&self, arguments: &[&OsStr]) -> Result<Outcome, Trouble> {
        check_interrupted()?;
        let name = describe(arguments);
        let stdout = self.outputs.join("stdout");
        let stderr = self.outputs.join("stderr");
        let mut command = self.command(arguments);
        command.stdout(create(&stdout)?).stderr(create(&stderr)?);
        let Usage { wall, cpu, memory_bytes, resident, status } = run_to_end(&mut command)?;
        let Some(exit_code @ (0 | 4 | 8)) = status.code() else {
            return Err(failed(&name, status, &stderr));
        };
        let text = std::fs::read_to_string(&stdout)
            .while_doing(|| format!("read the output of {name}"))?;
        let report = match text.trim() {
            "" => Value::Null,
            text => {
                serde_json::from_str(text).while_doing(|| format!("parse the output of {name}"))?
            }
        };
        Ok(Outcome { wall, cpu, memory_bytes, resident, exit_code, report })
    }

    /// Runs the server of `folder` until the value is dropped or stopped.
    pub(crate) fn serve(&self, folder: &Path) -> Result<Server, Trouble> {
        let stderr = self.outputs.join("server");
        let arguments = ["server".as_ref(), "run".as_ref(), folder.as_os_str()];
        let mut server = self.start(&arguments, "server")?;
        let stdout = server.child.as_mut().and_then(|child| child.stdout.take());
        let mut line = String::new();
        let ready = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
        if !matches!(ready, Some(Ok(bytes)) if bytes > 0) {
            let status = server.stop()?;
            return Err(failed("server run", status, &stderr));
        }
        Ok(server)
    }

    /// Starts a command that runs until the value is dropped or stopped. Its messages go to the
    /// file `name` of the outputs.
    pub(crate) fn start(&self, arguments: &[&OsStr], name: &str) -> Result<Server, Trouble> {
        check_interrupted()?;
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(create(&self.outputs.join(name))?);
        let child = command.spawn().while_doing(|| format!("start {}", self.program.display()))?;
        Ok(Server { child: Some(child) })
    }

    fn command(&self, arguments: &[&OsStr]) -> Command {
        let mut command = match self.processor {
            None => Command::new(&self.program),
            Some(processor) => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", &processor.to_string()]).arg(&self.program);
                command
            }
        };
        // The words after two dashes are not options.
        let end = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
        command.args(&arguments[..end]).arg("--json").args(&arguments[end..]);
        command.stdin(Stdio::null()).current_dir("/");
        command.env_remove("HOLDFAST_HOME").env("LC_ALL", "C");
        command
    }
}

/// A server that accepts connections, or another command that runs until it is stopped. Dropping
/// the value kills the process.
#[derive(Debug)]
pub(crate) struct Server {
    /// The process; `None` after the server was stopped.
    child: Option<Child>,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Stops the server in an orderly way.
    pub(crate) fn stop(mut self) -> Result<ExitStatus, Trouble> {
        let child = self.child.take();
        let mut child = child.ok_or_else(|| Trouble::new("the server has ended already"))?;
        // The call fails only for a process that has ended, which the wait below shows.
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

/// Resources that a command used, together with all processes that it has waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Peak memory of the largest of its processes. The kernel counts the peak of the bench as
    /// well, so the bench must stay smaller than the programs that it measures.
    pub(crate) memory_bytes: u64,
    /// Peak of each kind of memory of the command's own process, sampled every 100 ms. The peaks
    /// may be at different times.
    pub(crate) resident: ResidentMemory,
    pub(crate) status: ExitStatus,
}

/// Runs `command` to its end. A signal to the bench kills the command, with the processes that it
/// started.
pub(crate) fn run_to_end(command: &mut Command) -> Result<Usage, Trouble> {
    check_interrupted()?;
    let program = command.get_program().display().to_string();
    let begin = clock::now();
    let child = command.process_group(0).spawn().while_doing(|| format!("start {program}"))?;
    let (used, resident) = wait(child, &program)?;
    Ok(Usage {
        wall: begin.elapsed(),
        cpu: used.rusage.utime + used.rusage.stime,
        memory_bytes: used.rusage.maxrss,
        resident,
        status: used.status,
    })
}

/// Runs this program with `arguments`, in a process of its own, and returns the document that it
/// prints.
pub(crate) fn run_part(arguments: &[&OsStr], outputs: &Path) -> Result<Value, Trouble> {
    let bench = std::env::current_exe().while_doing(|| "find this program".to_owned())?;
    let (stdout, stderr) = (outputs.join("stdout"), outputs.join("stderr"));
    let mut command = Command::new(bench);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(create(&stdout)?).stderr(create(&stderr)?);
    let status = run_to_end(&mut command)?.status;
    let name = describe(arguments);
    if !status.success() {
        check_interrupted()?;
        let last = last_line(&stderr);
        return Err(Trouble::new(format!("bench {name} failed ({status}): {last}")));
    }
    let what = || format!("read the output of bench {name}");
    let text = std::fs::read_to_string(&stdout).while_doing(what)?;
    serde_json::from_str(&text).while_doing(what)
}

/// Waits for the end of `child`, and samples its memory. A signal to the bench kills the process.
fn wait(child: Child, name: &str) -> Result<(wait4::ResUse, ResidentMemory), Trouble> {
    let what = || format!("wait for {name}");
    let pidfd = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(error) => {
            kill_group(child);
            return Err(error).while_doing(what);
        }
    };
    let mut resident = ResidentMemory::default();
    loop {
        resident = resident.max(ResidentMemory::of(child.id()));
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        let ended = matches!(poll(&mut fds, Some(&LOOK)), Ok(ready) if ready > 0);
        if ended {
            return Ok((child.wait4().while_doing(what)?, resident));
        }
        if let Err(interrupted) = check_interrupted() {
            kill_group(child);
            return Err(interrupted);
        }
    }
}

/// Kills the process that [`run_to_end`] has started, and the process group that it leads.
fn kill_group(mut child: Child) {
    // The call fails only if the processes have ended.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    drop(child.wait());
}

pub(crate) fn create(path: &Path) -> Result<File, Trouble> {
    File::create(path).while_doing(|| format!("make {}", path.display()))
}

/// Returns the error for a command that failed, with the last line of its standard error.
fn failed(name: &str, status: ExitStatus, stderr: &Path) -> Trouble {
    if let Err(interrupted) = check_interrupted() {
        return interrupted;
    }
    Trouble::new(format!("holdfast {name} failed ({status}): {}", last_line(stderr)))
}

/// Returns the last line in the file `stderr` that is not empty.
pub(crate) fn last_line(stderr: &Path) -> String {
    let said = std::fs::read(stderr).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    last.unwrap_or("it wrote no message").trim().to_owned()
}

/// Returns the words of a command up to the first path, for messages.
fn describe(arguments: &[&OsStr]) -> String {
    let words = arguments
        .iter()
        .take_while(|argument| !argument.as_encoded_bytes().contains(&b'/'));
    let words: Vec<OsString> = words.map(OsString::from).collect();
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
