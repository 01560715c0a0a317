//! One process: its output line by line, and its end within a time limit.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use super::COMMAND_MAX;
use crate::clock;

/// Maximum time for which the pipes of an ended process may stay open.
const PIPE_MAX: Duration = Duration::from_secs(10);

/// Starts `program` in a clean environment, as the user `uid` if it is given.
pub fn start(program: &Path, arguments: &[OsString], home: &Path, uid: Option<u32>) -> Process {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env_remove("HOLDFAST_HOME").env_remove("HOLDFAST_BIN");
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_stores(name)) {
        command.env_remove(name);
    }
    command
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("HOME", home)
        // A service manager gives such a folder to a service.
        .env("RUNTIME_DIRECTORY", home.with_extension("run"))
        .env("RUST_BACKTRACE", "1");
    command.current_dir("/");
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    let shown =
        std::iter::once(OsStr::new("holdfast")).chain(arguments.iter().map(OsString::as_ref));
    let shown: Vec<_> = shown.map(OsStr::to_string_lossy).collect();
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("a child not waited for has its pid");
    let stdout = lines(child.stdout.take().expect("stdout is a pipe"));
    let stderr = lines(child.stderr.take().expect("stderr is a pipe"));
    let command = shown.join(" ");
    let (stdout_taken, stderr_taken) = (String::new(), String::new());
    Process { child, pidfd, command, stdout, stderr, stdout_taken, stderr_taken }
}

/// Returns true for a variable of the environment that may give or name keys of object stores.
fn is_of_stores(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"AWS_")
}

/// A started process. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pidfd: OwnedFd,
    command: String,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    stdout_taken: String,
    stderr_taken: String,
}

impl Process {
    /// Returns the next line of standard output; `None` at its end.
    pub fn next_line(&mut self, within: Duration) -> Option<String> {
        match self.stdout.recv_timeout(within) {
            Ok(line) => {
                self.stdout_taken.push_str(&line);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.signal(Signal::KILL);
                let (stdout, stderr) = self.output();
                panic!(
                    "no line within {within:?} from {}\n{}",
                    self.command,
                    both(&stdout, &stderr)
                );
            }
        }
    }

    /// Waits until a line of standard error contains `text`. A process that ends before, or that
    /// says nothing more for [`COMMAND_MAX`], fails the test.
    #[track_caller]
    pub fn wait_to_say(&mut self, text: &str) {
        loop {
            let Ok(line) = self.stderr.recv_timeout(COMMAND_MAX) else {
                self.signal(Signal::KILL);
                let (stdout, stderr) = self.output();
                panic!("{} does not say {text:?}\n{}", self.command, both(&stdout, &stderr));
            };
            self.stderr_taken.push_str(&line);
            if line.contains(text) {
                return;
            }
        }
    }

    /// Waits for at most `within`; returns true if the process has ended.
    pub fn ends_within(&self, within: Duration) -> bool {
        let end = clock::now() + within;
        loop {
            let left = end.saturating_duration_since(clock::now());
            let timeout = Timespec::try_from(left).expect("the wait is short enough");
            let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => panic!("cannot wait for {}: {errno}", self.command),
            }
        }
    }

    /// Id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => panic!("cannot signal {}: {errno}", self.command),
        }
    }

    /// Waits until the process has a handler for the signal, which would end it otherwise. A
    /// process that has ended needs none.
    #[track_caller]
    pub fn await_handler(&self, signal: Signal) {
        let bit = 1_u64 << (signal.as_raw() - 1);
        let deadline = clock::now() + COMMAND_MAX;
        while !self.ends_within(Duration::from_millis(1)) && self.caught_signals() & bit == 0 {
            assert!(clock::now() < deadline, "{} does not catch {signal:?}", self.command);
        }
    }

    /// Returns the set of signals for which the process has handlers, one bit each.
    fn caught_signals(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
    }

    /// Suspends the process, like a machine that hangs, or resumes it. A suspended process has no
    /// thread that still runs when this returns.
    #[track_caller]
    pub fn freeze(&self, is_frozen: bool) {
        self.signal(if is_frozen { Signal::STOP } else { Signal::CONT });
        let deadline = clock::now() + COMMAND_MAX;
        // One thread takes the signal and stops the others. Until it gets a processor, they go on.
        while is_frozen && self.has_running_threads() {
            assert!(clock::now() < deadline, "cannot stop {}", self.command);
            clock::pause(Duration::from_millis(1));
        }
    }

    /// Returns true if any thread of the process is neither stopped nor dead.
    fn has_running_threads(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id()));
        let threads = threads.into_iter().flatten().map(|thread| thread.expect("a thread").path());
        // The name of the program, in parentheses, may hold anything; the state follows it.
        let stat = |path: PathBuf| std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        threads.map(stat).any(|stat| {
            let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
            state.is_some_and(|state| !"TtZX".contains(state))
        })
    }

    /// Lets the process run until it ends by itself. A thread waits for its end.
    pub fn detach(self) {
        std::thread::spawn(move || {
            let mut running = self;
            drop(running.child.wait());
        });
    }

    /// Kills the process, and returns its output so far.
    pub fn kill9(self) -> Outcome {
        self.signal(Signal::KILL);
        self.wait()
    }

    /// Waits for the end; a process that takes longer than [`COMMAND_MAX`] fails the test.
    pub fn wait(self) -> Outcome {
        self.wait_within(COMMAND_MAX)
    }

    /// Waits for the end; a process that takes longer than `limit` fails the test.
    pub fn wait_within(mut self, limit: Duration) -> Outcome {
        let in_time = self.ends_within(limit);
        let mut stacks = String::new();
        if !in_time {
            stacks = super::stacks::of_children();
            self.signal(Signal::KILL);
        }
        let status = self
            .child
            .wait()
            .unwrap_or_else(|error| panic!("cannot wait for a child: {error}"));
        let (stdout, stderr) = self.output();
        let outcome = Outcome { command: self.command.clone(), status, stdout, stderr };
        assert!(in_time, "killed after {limit:?}: {outcome}{stacks}");
        assert!(!outcome.stderr.contains("panicked at"), "the program panicked: {outcome}");
        outcome
    }

    /// Returns standard output and standard error of a process that has ended.
    fn output(&mut self) -> (String, String) {
        let mut stdout = std::mem::take(&mut self.stdout_taken);
        drain(&self.stdout, &mut stdout);
        let mut stderr = std::mem::take(&mut self.stderr_taken);
        drain(&self.stderr, &mut stderr);
        (stdout, stderr)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only for a process that has been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Output and status of a process that has ended.
#[derive(Debug)]
pub struct Outcome {
    pub command: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Returns the exit code; a process that a signal ended has none and fails the test.
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("the process ended without an exit code: {self}"))
    }

    pub fn was_killed(&self) -> bool {
        self.status.signal().is_some()
    }

    /// Fails the test unless the exit code is one of `codes`.
    #[track_caller]
    pub fn expect(self, codes: &[i32]) -> Self {
        assert!(codes.contains(&self.code()), "the exit code should be one of {codes:?}: {self}");
        self
    }

    /// Fails the test unless the output contains `text`.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let found = self.stderr.contains(text) || self.stdout.contains(text);
        assert!(found, "the output should name {text:?}: {self}");
        self
    }

    /// Returns the only JSON document on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("standard output is not a JSON document ({error}): {self}")
        })
    }

    /// Returns the JSON documents on standard output, one on each line.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}: {self}"))
        };
        self.stdout.lines().filter(|line| !line.trim().is_empty()).map(parse).collect()
    }

    /// Returns the count `key` of the report.
    #[track_caller]
    pub fn count(&self, key: &str) -> u64 {
        let value = &self.json()[key];
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{key} is {value}, should be a count: {self}"))
    }

    /// Fails the test unless the report has each of `counts`.
    #[track_caller]
    pub fn counts(self, counts: &[(&str, u64)]) -> Self {
        for (key, expected) in counts {
            let is = self.count(key);
            assert!(is == *expected, "{key} is {is}, should be {expected}: {self}");
        }
        self
    }

    /// Returns path and reason of each failure in the report.
    #[track_caller]
    pub fn failures(&self) -> Vec<(Vec<u8>, String)> {
        let json = self.json();
        let failures = json["failures"].as_array();
        let failures = failures.unwrap_or_else(|| panic!("the report has no failures: {self}"));
        failures
            .iter()
            .map(|failure| {
                let error = failure["error"].as_str();
                let error = error.unwrap_or_else(|| panic!("a failure has no reason: {self}"));
                (path_bytes(&failure["path"]), error.to_owned())
            })
            .collect()
    }

    /// Returns the lines of standard error that are not empty.
    pub fn messages(&self) -> Vec<&str> {
        self.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})\n{}", self.command, self.status, both(&self.stdout, &self.stderr))
    }
}

/// Returns the bytes of a path in JSON: a string, or `{"bytes": BASE64}` where it is not UTF-8.
#[track_caller]
pub fn path_bytes(path: &Value) -> Vec<u8> {
    if let Some(text) = path.as_str() {
        return text.as_bytes().to_vec();
    }
    let bytes = path["bytes"].as_str().unwrap_or_else(|| panic!("{path} is not a path"));
    let decoded = data_encoding::BASE64.decode(bytes.as_bytes());
    decoded.unwrap_or_else(|error| panic!("{path} is not a path: {error}"))
}

/// Returns the lines of `pipe` as they arrive, with their newlines.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(bytes) if bytes > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    receiver
}

fn drain(lines: &Receiver<String>, text: &mut String) {
    while let Ok(line) = lines.recv_timeout(PIPE_MAX) {
        text.push_str(&line);
    }
}

fn both(stdout: &str, stderr: &str) -> String {
    format!("--- standard output\n{}\n--- standard error\n{}", end(stdout), end(stderr))
}

/// Returns the end of a long text.
fn end(text: &str) -> &str {
    const BYTES_MAX: usize = 8000;
    let begin = text.len().saturating_sub(BYTES_MAX);
    &text[text.ceil_char_boundary(begin)..]
}
