//! A server process over a folder, on a port that stays the same through its restarts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::port::free_port;
use super::{Outcome, Process, binary, start, stores};

/// Time limit from a server's start until it is ready.
const READY_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Server {
    dir: PathBuf,
    port: u16,
    /// Time by which the server's clock is ahead of the machine's, as in `40d`.
    ahead: Option<String>,
    /// Additional variables of the server's environment, as in `NAME=VALUE`.
    environment: Vec<String>,
    /// Additional options of `server run`.
    options: Vec<String>,
    running: Option<Process>,
}

impl Server {
    /// Makes a server in `dir`, unless `dir` has a server already, and runs it.
    #[track_caller]
    pub fn start(dir: &Path) -> Self {
        Self::start_at(dir, free_port())
    }

    /// Starts as [`Self::start`] does, on `port`, which must be the port with which `dir` was made.
    #[track_caller]
    pub fn start_at(dir: &Path, port: u16) -> Self {
        Self::try_start_at(dir, port)
            .unwrap_or_else(|outcome| panic!("the server did not start: {outcome}"))
    }

    /// Starts as [`Self::start_at`] does, but returns the output of a server that ends before it is
    /// ready.
    #[track_caller]
    pub fn try_start_at(dir: &Path, port: u16) -> Result<Self, Box<Outcome>> {
        let is_empty = std::fs::read_dir(dir).map_or(true, |mut names| names.next().is_none());
        if is_empty {
            Self::init(dir, port).expect(&[0]);
        }
        let mut server = Self::absent(dir, port);
        server.try_run().map(|()| server)
    }

    /// Makes a server in `dir` with these options of `server init`, and runs it. The variables of
    /// `environment` are set for both, as in `NAME=VALUE`.
    #[track_caller]
    pub fn start_in(environment: &[String], dir: &Path, options: &[&str]) -> Self {
        let port = free_port();
        let arguments = init_arguments(dir, port, options);
        launch(environment, &arguments, Path::new("/nonexistent")).wait().expect(&[0]);
        let mut server = Self::absent(dir, port);
        server.environment = environment.to_vec();
        server.restart();
        server
    }

    /// Makes a server in `dir` with these options of `server init`, and runs it.
    #[track_caller]
    pub fn start_with(dir: &Path, options: &[&str]) -> Self {
        let port = free_port();
        Self::init_with(dir, port, options).expect(&[0]);
        Self::start_at(dir, port)
    }

    /// Sets variables for the server from its next start on, as in `NAME=VALUE`.
    pub fn set_environment(&mut self, environment: &[&str]) {
        self.environment = environment.iter().map(|&variable| variable.to_owned()).collect();
    }

    /// Sets options of `server run` for the server from its next start on.
    pub fn set_options(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
    }

    /// Returns a server that is not running.
    pub fn absent(dir: &Path, port: u16) -> Self {
        let (dir, environment) = (dir.to_path_buf(), Vec::new());
        Self { dir, port, ahead: None, environment, options: Vec::new(), running: None }
    }

    /// Returns the largest memory that the process has had so far, in bytes.
    pub fn peak_memory_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Returns by how many bytes the peak of the memory is above `before`, an earlier peak. The
    /// kernel adds up counts of its processors roughly, so that its peak may shrink a little.
    pub fn peak_growth_bytes(&self, before: u64) -> u64 {
        self.peak_memory_bytes().saturating_sub(before)
    }

    /// Returns the memory that the process has now for itself, in bytes. Pages of files do not
    /// count: the kernel takes them back when it needs them.
    pub fn memory_bytes(&self) -> u64 {
        self.memory("RssAnon:")
    }

    /// Returns the number of files and connections that the process has open.
    pub fn descriptors(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.id()));
        open.expect("the server is running").count()
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("the server is running");
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = value.and_then(|value| value.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<u64>().ok()).expect("a number of kB") << 10
    }

    /// Returns the number of its process.
    pub fn id(&self) -> u32 {
        self.running.as_ref().expect("the server is running").id()
    }

    /// Suspends the process, like a machine that hangs, or resumes it.
    pub fn freeze(&self, is_frozen: bool) {
        self.running.as_ref().expect("the server is running").freeze(is_frozen);
    }

    /// Waits until the process has ended by itself.
    #[track_caller]
    pub fn ends(&mut self) -> Outcome {
        let running = self.running.take().expect("the server is running");
        assert!(running.ends_within(READY_MAX), "the server should end");
        running.wait()
    }

    /// Runs only `server init`, with the places of catalogue and packs that `stores` gives.
    pub fn init(dir: &Path, port: u16) -> Outcome {
        let options = stores::options();
        Self::init_with(dir, port, &options.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs `server init` with these options.
    pub fn init_with(dir: &Path, port: u16, options: &[&str]) -> Outcome {
        run(&init_arguments(dir, port, options))
    }

    /// Runs a `server` command other than `run`, with `--json`.
    pub fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Outcome {
        let mut all: Vec<OsString> = vec!["server".into()];
        all.extend(arguments.iter().map(OsString::from));
        all.push("--json".into());
        run(&all)
    }

    /// Returns a port for a server that a test makes by hand.
    pub fn free_port() -> u16 {
        free_port()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address at which clients reach the server, as `HOST:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills the server, as a power cut would.
    #[track_caller]
    pub fn kill9(&mut self) -> Outcome {
        self.running.take().expect("the server is running").kill9()
    }

    /// Waits until the server says so.
    #[track_caller]
    pub fn wait_to_say(&mut self, text: &str) {
        self.running.as_mut().expect("the server is running").wait_to_say(text);
    }

    /// Stops the server in an orderly way.
    #[track_caller]
    pub fn terminate(&mut self) -> Outcome {
        let running = self.running.take().expect("the server is running");
        running.signal(Signal::TERM);
        running.wait()
    }

    /// Runs the server again, on the same port. A running server is stopped first.
    #[track_caller]
    pub fn restart(&mut self) {
        if self.running.is_some() {
            self.terminate().expect(&[0]);
        }
        self.try_run()
            .unwrap_or_else(|outcome| panic!("the server did not start again: {outcome}"));
    }

    /// Runs the server again, with its clock ahead of the machine's by `ahead`, as in `40d`.
    #[track_caller]
    pub fn travel(&mut self, ahead: &str) {
        self.ahead = Some(ahead.to_owned());
        self.restart();
    }

    /// Returns true if the process is running.
    pub fn is_up(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| !running.ends_within(Duration::ZERO))
    }

    /// Runs an administrator's command and returns its answer: a document, or a list of them.
    #[track_caller]
    pub fn admin<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Value {
        let outcome = self.try_admin(arguments).expect(&[0]);
        let mut documents = outcome.json_lines();
        match documents.len() {
            1 => documents.remove(0),
            _ => Value::Array(documents),
        }
    }

    /// Runs an administrator's command that may fail.
    pub fn try_admin<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Outcome {
        let mut all: Vec<OsString> =
            vec!["admin".into(), "--server".into(), self.dir.clone().into()];
        all.extend(arguments.iter().map(OsString::from));
        all.push("--json".into());
        run(&all)
    }

    /// Starts an administrator's command.
    pub fn spawn_admin<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Process {
        let mut all: Vec<OsString> =
            vec!["admin".into(), "--server".into(), self.dir.clone().into()];
        all.extend(arguments.iter().map(OsString::from));
        start(&binary(), &all, Path::new("/nonexistent"), None)
    }

    /// Registers a node and returns its token.
    #[track_caller]
    pub fn token(&self, node: &str) -> String {
        let answer = self.admin(&["node", "add", node]);
        let token = answer["token"].as_str();
        token
            .unwrap_or_else(|| panic!("node add answers without a token: {answer}"))
            .to_owned()
    }

    fn launch(&self) -> Process {
        let mut arguments: Vec<OsString> =
            vec!["server".into(), "run".into(), self.dir.clone().into(), "--json".into()];
        let ahead = self.ahead.iter();
        arguments.extend(ahead.flat_map(|ahead| ["--clock-ahead".into(), ahead.into()]));
        arguments.extend(self.options.iter().map(OsString::from));
        launch(&self.environment, &arguments, &self.dir)
    }

    #[track_caller]
    fn try_run(&mut self) -> Result<(), Box<Outcome>> {
        let mut running = self.launch();
        while let Some(line) = running.next_line(READY_MAX) {
            let document: Value = serde_json::from_str(&line)
                .unwrap_or_else(|error| panic!("{line:?} from the server is not JSON: {error}"));
            if let Some(ready) = document["ready"].as_str() {
                assert_eq!(ready, self.address(), "the server should listen at its address");
                self.running = Some(running);
                return Ok(());
            }
        }
        Err(Box::new(running.wait()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The output of the server is checked for a panic, unless the test has failed already.
        if let Some(running) = self.running.take()
            && !std::thread::panicking()
        {
            running.kill9();
        }
    }
}

fn init_arguments(dir: &Path, port: u16, options: &[&str]) -> Vec<OsString> {
    let listen = format!("127.0.0.1:{port}");
    let mut all: Vec<OsString> = vec!["server".into(), "init".into(), dir.into()];
    all.extend(["--listen", &listen].iter().chain(options).map(OsString::from));
    all
}

fn launch(environment: &[String], arguments: &[OsString], home: &Path) -> Process {
    if environment.is_empty() {
        return start(&binary(), arguments, home, None);
    }
    let mut all: Vec<OsString> = environment.iter().map(OsString::from).collect();
    all.push(binary().into());
    all.extend_from_slice(arguments);
    start(Path::new("env"), &all, home, None)
}

fn run(arguments: &[OsString]) -> Outcome {
    start(&binary(), arguments, Path::new("/nonexistent"), None).wait()
}
