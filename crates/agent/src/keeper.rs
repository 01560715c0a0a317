//! The keeper of a task: a process that starts the task, waits for it, and writes down how it
//! ended. It outlives the agent.
//!
//! A command finds the name of the node, the schedule and the planned time in microseconds in the
//! variables `HOLDFAST_NODE`, `HOLDFAST_SCHEDULE` and `HOLDFAST_PLANNED`.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use policy::schedule::event::FAILED_CODE;
use sys::durable;
use sys::process::Signal;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::Instant;

use crate::command_line::SHELL;
use crate::record::{
    BEGUN_FILE, CANCELLED_FILE, LOCK_FILE, LOG_FILE, OUTCOME_FILE, Outcome, PAUSED_FILE,
    PROGRESS_FILE, REPORT_FILE, end_of_file,
};

/// Variable with the name of the file into which a command writes its report.
const REPORT_VARIABLE: &str = "HOLDFAST_REPORT_FILE";
/// Variable with the name of the file into which a command writes its progress.
const PROGRESS_VARIABLE: &str = "HOLDFAST_PROGRESS_FILE";
/// Variable with the name of a file: if it exists when a command begins, the command begins with a
/// pause.
const PAUSE_VARIABLE: &str = "HOLDFAST_PAUSE_FILE";
/// Number of attempts to lock an attempt, and the pause between two.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// Size of a log above which only its end is kept, and the size of that end, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;
const LOG_BYTES_KEPT: u64 = 1 << 20;
/// Interval between two looks at the size of the log.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// Time that a task has to end after it was asked to.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// Time for which the keeper tries to record how the task ended: on a full disk, and otherwise.
const ROOM_PATIENCE: Duration = Duration::from_secs(24 * 3600);
const RECORD_PATIENCE: Duration = Duration::from_secs(10);
/// Shortest and longest pause between two attempts to record it.
const RECORD_PAUSE_MIN: Duration = Duration::from_millis(100);
const RECORD_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Size of the end of a log in which its last line is looked for, in bytes.
const LAST_LINE_BYTES: u64 = 16 << 10;
/// Begin of the line with an error of this program.
const ERROR_PREFIX: &str = "holdfast: ";
/// Maximum length of a reason, in bytes.
const REASON_BYTES_MAX: usize = 1000;

/// Reason why a task was not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("cannot keep the task in {folder}")]
    Folder { folder: String, source: io::Error },
}

/// A task to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Time after which the task is ended. Pauses do not count.
    pub duration_max: Option<Duration>,
}

/// Runs `task` as the attempt in `folder`, unless the attempt has begun before. Returns after the
/// task has ended.
pub fn keep(folder: &Path, task: &Task) -> Result<(), KeeperError> {
    let failed = |source| KeeperError::Folder { folder: folder.display().to_string(), source };
    // Without the lock, another keeper of this attempt lives.
    let Some(_lock) = lock(folder).map_err(failed)? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    // The agent sends signals as soon as the attempt has begun.
    let mut signals = {
        let _entered = runtime.enter();
        Signals::catch().map_err(failed)?
    };
    if !begin(folder).map_err(failed)? {
        return Ok(());
    }
    let watched = runtime.block_on(watch(folder, task, &mut signals));
    let outcome = watched.unwrap_or_else(|error| Outcome {
        ended: 0,
        code: Some(FAILED_CODE),
        reason: format!("cannot start {}: {error}", task.program.display()),
    });
    let outcome = Outcome { ended: sys::clock::now().0, ..outcome };
    runtime
        .block_on(write_down(folder, &outcome, &mut signals.terminate))
        .map_err(failed)
}

/// Records how the task ended. While the disk is full, the keeper waits until it is told to end:
/// nobody can find out later how the task ended. The wait holds up nothing, because nothing else
/// can begin on a full disk.
async fn write_down(
    folder: &Path,
    outcome: &Outcome,
    terminate: &mut unix::Signal,
) -> io::Result<()> {
    let text = serde_json::to_vec(outcome).map_err(io::Error::other)?;
    let began = Instant::now();
    let mut pause = RECORD_PAUSE_MIN;
    loop {
        match durable::write(&folder.join(OUTCOME_FILE), &text, 0o600) {
            Err(error) if began.elapsed() < patience(&error) => {
                // How the task ended is worth more than what it wrote.
                drop(OpenOptions::new().write(true).truncate(true).open(folder.join(LOG_FILE)));
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    // The machine goes down, or an administrator has cancelled the event.
                    _ = terminate.recv() => return Err(error),
                }
                pause = (pause * 2).min(RECORD_PAUSE_MAX);
            }
            written => return written,
        }
    }
}

/// Returns the time for which a file that could not be written because of `error` is tried again.
fn patience(error: &io::Error) -> Duration {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ROOM_PATIENCE,
        _ => RECORD_PATIENCE,
    }
}

/// Locks the attempt. The agent may have the lock for a moment, while it looks at the attempt.
fn lock(folder: &Path) -> io::Result<Option<durable::Lock>> {
    for _ in 0..LOCK_TRIES {
        if let Some(lock) = durable::Lock::try_exclusive(&folder.join(LOCK_FILE))? {
            return Ok(Some(lock));
        }
        sys::clock::sleep(LOCK_PAUSE);
    }
    Ok(None)
}

/// Makes the file that exists once for each attempt, durably. Returns false if it exists.
/// The file names the process of the keeper.
fn begin(folder: &Path) -> io::Result<bool> {
    let path = folder.join(BEGUN_FILE);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
        Ok(mut file) => {
            let pid = std::process::id();
            writeln!(file, "{pid} {}", sys::process::began(pid).unwrap_or(0))?;
            file.sync_all()?;
            durable::sync_dir(folder).map(|()| true)
        }
    }
}

/// Signals of the agent.
struct Signals {
    terminate: unix::Signal,
    pause: unix::Signal,
    resume: unix::Signal,
}

impl Signals {
    /// Catches the signals. The caller must be inside a tokio runtime.
    fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            pause: signal(SignalKind::user_defined1())?,
            resume: signal(SignalKind::user_defined2())?,
        })
    }
}

/// Starts the task and waits for its end. Signals are passed on: SIGTERM as the interruption of a
/// user, SIGUSR1 as a pause, and SIGUSR2 as the end of the pause.
///
/// A task that has just begun ignores the signal of a pause. It finds the file of the pause, which
/// exists before the signal comes and is gone before the signal that ends the pause.
async fn watch(folder: &Path, task: &Task, signals: &mut Signals) -> io::Result<Outcome> {
    let Signals { terminate, pause, resume } = signals;
    let mut child = start(folder, task)?;
    // This program holds its connections while it pauses. Other programs are stopped.
    let (pause_signal, resume_signal) = match task.program == SHELL {
        true => (Signal::STOP, Signal::CONT),
        false => (Signal::USR1, Signal::USR2),
    };
    let mut budget = Budget::new(task.duration_max);
    let mut end: Option<Ending> = None;
    let status = loop {
        let kill_at = end.as_ref().map(|end| end.kill_at);
        let patience = kill_at.unwrap_or_else(Instant::now);
        tokio::select! {
            status = child.wait() => break status?,
            _ = terminate.recv() => interrupt(&child, &mut end, Cause::Signal),
            () = budget.is_spent(), if end.is_none() => {
                interrupt(&child, &mut end, Cause::Duration);
            }
            () = tokio::time::sleep_until(patience), if kill_at.is_some() => {
                pass(&child, Signal::KILL);
                let cause = end.map_or(Cause::Signal, |end| end.cause);
                end = Some(Ending::by(cause));
            }
            () = tokio::time::sleep(LOG_PAUSE) => shorten(&folder.join(LOG_FILE)),
            _ = pause.recv() => {
                note_pause(folder, true);
                pass(&child, pause_signal);
                budget.pause();
            }
            _ = resume.recv() => {
                note_pause(folder, false);
                pass(&child, resume_signal);
                budget.resume();
            }
        }
    };
    Ok(outcome(folder, status, end.map(|end| end.cause), task))
}

fn start(folder: &Path, task: &Task) -> io::Result<Child> {
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(folder.join(LOG_FILE))?;
    let mut command = Command::new(&task.program);
    if task.program != SHELL {
        command.env(PAUSE_VARIABLE, folder.join(PAUSED_FILE));
        // Otherwise a pause that comes before the program's own code runs would end the task.
        sys::process::ignore_user_signals_in(command.as_std_mut());
        // Without its keeper, nobody could pause or cancel the task, and another attempt would work
        // beside it. A shell command is not repeated, and goes on.
        sys::process::signal_with_thread(command.as_std_mut(), Signal::INT);
    }
    command
        .args(&task.arguments)
        .env(REPORT_VARIABLE, folder.join(REPORT_FILE))
        .env(PROGRESS_VARIABLE, folder.join(PROGRESS_FILE))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// Reason why the keeper ends a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Signal,
    /// The task has worked for its maximum duration.
    Duration,
}

/// End of a task that the keeper has asked for.
#[derive(Clone, Copy, Debug)]
struct Ending {
    cause: Cause,
    kill_at: Instant,
}

impl Ending {
    fn by(cause: Cause) -> Self {
        Self { cause, kill_at: Instant::now() + END_PATIENCE }
    }
}

/// Asks the task to end, as a user would. A task that pauses goes on, so that it hears.
fn interrupt(child: &Child, end: &mut Option<Ending>, cause: Cause) {
    pass(child, Signal::CONT);
    pass(child, Signal::INT);
    end.get_or_insert_with(|| Ending::by(cause));
}

/// Time that a task may still work.
struct Budget {
    left: Option<Duration>,
    /// Time since which `left` shrinks; `None` while the task pauses.
    since: Option<Instant>,
}

impl Budget {
    fn new(left: Option<Duration>) -> Self {
        Self { left, since: Some(Instant::now()) }
    }

    fn pause(&mut self) {
        let Some(since) = self.since.take() else { return };
        self.left = self.left.map(|left| left.saturating_sub(since.elapsed()));
    }

    fn resume(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Waits until the time is over.
    async fn is_spent(&self) {
        match (self.left, self.since) {
            (Some(left), Some(since)) => tokio::time::sleep_until(since + left).await,
            _ => std::future::pending().await,
        }
    }
}

/// Records that the task pauses, or goes on, for the agent's reports.
fn note_pause(folder: &Path, is_paused: bool) {
    let file = folder.join(PAUSED_FILE);
    let noted = match is_paused {
        true => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .map(drop),
        false => std::fs::remove_file(&file),
    };
    let is_done = |kind| matches!(kind, io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound);
    if let Err(error) = noted
        && !is_done(error.kind())
    {
        tracing::warn!(%error, "a pause cannot be recorded");
    }
}

/// Keeps only the end of a log that has become too long, so that no task fills the disk. The task
/// goes on writing after that end.
fn shorten(log: &Path) {
    let is_long = std::fs::metadata(log).is_ok_and(|found| found.len() > LOG_BYTES_MAX);
    if !is_long {
        return;
    }
    let shortened = end_of_file(log, LOG_BYTES_KEPT).and_then(|end| {
        let mut file = OpenOptions::new().append(true).open(log)?;
        file.set_len(0)?;
        file.write_all(b"[the beginning of this log was too long and is not kept]\n")?;
        file.write_all(&end)
    });
    if let Err(error) = shortened {
        tracing::warn!(%error, "a log that is too long cannot be shortened");
    }
}

fn pass(child: &Child, signal: Signal) {
    // A child that has ended needs no signal.
    drop(child.id().map(|pid| sys::process::signal_group(pid, signal)));
}

fn outcome(folder: &Path, status: ExitStatus, end: Option<Cause>, task: &Task) -> Outcome {
    let code = match (status.code(), status.signal()) {
        (Some(code @ (0 | 4 | 8)), _) => u8::try_from(code).unwrap_or(FAILED_CODE),
        (Some(code), _) => u8::try_from(code).unwrap_or(FAILED_CODE).max(FAILED_CODE),
        (None, _) => FAILED_CODE,
    };
    let is_cancelled = folder.join(CANCELLED_FILE).try_exists().unwrap_or(false);
    let reason = match (end, status.signal()) {
        (Some(_), _) if is_cancelled => "cancelled by an administrator".to_owned(),
        (Some(Cause::Signal), _) => "ended by a signal to the task keeper".to_owned(),
        (Some(Cause::Duration), _) => {
            let length = model::show_length(task.duration_max.unwrap_or_default());
            format!("ended after its maximum duration of {length}")
        }
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) if code == 0 => String::new(),
        (None, None) => failure(&last_words(folder, task), status.code().unwrap_or_default(), code),
    };
    let code = if end.is_some() { code.max(FAILED_CODE) } else { code };
    Outcome { ended: 0, code: Some(code), reason }
}

/// Returns the reason of an end with the code `raw` other than 0, of a task that has said `words`
/// last. The event tells `code`, which may be another one.
fn failure(words: &str, raw: i32, code: u8) -> String {
    match words {
        "" => format!("ended with code {raw}"),
        words if raw == i32::from(code) => words.to_owned(),
        words => format!("ended with code {raw}: {words}"),
    }
}

/// The line of the log that tells why the task failed: the last error of this program, which may
/// have a hint after it, otherwise the last line that has text.
fn last_words(folder: &Path, task: &Task) -> String {
    let log = end_of_file(&folder.join(LOG_FILE), LAST_LINE_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&log);
    let is_own = task.program != SHELL;
    let error = text.lines().rev().find_map(|line| line.strip_prefix(ERROR_PREFIX));
    let last = || text.lines().rev().find(|line| !line.trim().is_empty());
    let line = error.filter(|_| is_own).or_else(last).unwrap_or_default();
    line.trim().chars().take(REASON_BYTES_MAX / 4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(script: &str, duration_max: Option<Duration>) -> Outcome {
        let arguments = vec!["-c".into(), script.into()];
        outcome_of_task(&Task { program: SHELL.into(), arguments, duration_max })
    }

    fn outcome_of_task(task: &Task) -> Outcome {
        let folder = tempfile::tempdir().expect("a folder");
        keep(folder.path(), task).expect("is kept");
        let text = std::fs::read(folder.path().join(OUTCOME_FILE)).expect("has ended");
        serde_json::from_slice(&text).expect("an outcome")
    }

    /// A task that hung blocked the other schedules of its node for ever.
    #[test]
    fn a_task_ends_after_its_maximum_duration() {
        let most = Some(Duration::from_secs(1));
        let ended = outcome_of("sleep 1000", most);
        assert_eq!(ended.code, Some(FAILED_CODE));
        assert_eq!(ended.reason, "ended after its maximum duration of 1s");
        // A task that ends in an orderly way has failed, too: its work is not done.
        let orderly = outcome_of("trap 'exit 0' INT; while :; do sleep 0.1; done", most);
        assert_eq!(orderly.code, Some(FAILED_CODE));
        let quick = outcome_of("exit 0", most);
        assert_eq!((quick.code, quick.reason.as_str()), (Some(0), ""));
    }

    /// The disk was full when the task ended, and later the event was uncertain.
    #[test]
    fn an_end_that_cannot_be_recorded_at_once_is_recorded_later() {
        let parent = tempfile::tempdir().expect("a folder");
        let [folder, away] = ["attempt", "away"].map(|name| parent.path().join(name));
        std::fs::create_dir(&folder).expect("is made");
        let (here, there) = (folder.display(), away.display());
        let script = format!("mv {here} {there}; (sleep 0.3; mv {there} {here}) & exit 3");
        let arguments = vec!["-c".into(), script.into()];
        let task = Task { program: SHELL.into(), arguments, duration_max: None };
        keep(&folder, &task).expect("is kept");
        let text = std::fs::read(folder.join(OUTCOME_FILE)).expect("has ended");
        let outcome: Outcome = serde_json::from_slice(&text).expect("an outcome");
        assert_eq!((outcome.code, outcome.reason.as_str()), (Some(12), "ended with code 3"));
        assert_eq!(patience(&io::ErrorKind::StorageFull.into()), ROOM_PATIENCE);
        assert_eq!(patience(&io::ErrorKind::NotFound.into()), RECORD_PATIENCE, "no keeper stays");
    }

    /// The event had code 12 and no reason.
    #[test]
    fn the_reason_of_a_silent_failure_is_its_code() {
        let failed = outcome_of("exit 3", None);
        assert_eq!((failed.code, failed.reason.as_str()), (Some(FAILED_CODE), "ended with code 3"));
        let warned = outcome_of("exit 4", None);
        assert_eq!((warned.code, warned.reason.as_str()), (Some(4), "ended with code 4"));
        let said = outcome_of("echo no; exit 3", None);
        assert_eq!(said.reason, "ended with code 3: no", "the event has code 12");
    }

    /// The reason was the hint after the error.
    #[test]
    fn the_reason_of_a_failure_is_the_error_and_not_its_hint() {
        let script =
            "echo a; echo 'holdfast: no such file'; echo \"try 'holdfast --help'\"; exit 12";
        let of_shell = outcome_of(script, None);
        assert_eq!(of_shell.reason, "try 'holdfast --help'", "a script says what it likes");
        let arguments = ["sh", "-c", script].map(Into::into).to_vec();
        let own = Task { program: "/usr/bin/env".into(), arguments, duration_max: None };
        assert_eq!(outcome_of_task(&own).reason, "no such file");
    }

    #[tokio::test]
    async fn pauses_do_not_count() {
        let mut budget = Budget::new(Some(Duration::from_millis(200)));
        budget.pause();
        let is_spent = tokio::time::timeout(Duration::from_millis(500), budget.is_spent()).await;
        assert!(is_spent.is_err(), "the task pauses");
        budget.resume();
        budget.is_spent().await;
        let endless = Budget::new(None);
        let is_spent = tokio::time::timeout(Duration::from_millis(50), endless.is_spent()).await;
        assert!(is_spent.is_err());
    }
}
