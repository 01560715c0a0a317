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
use tokio::signal::unix::{SignalKind, signal};

use crate::command_line::SHELL;
use crate::record::{
    BEGUN_FILE, CANCELLED_FILE, LOCK_FILE, LOG_FILE, OUTCOME_FILE, Outcome, REPORT_FILE,
};

/// Variable with the name of the file into which a command writes its report.
const REPORT_VARIABLE: &str = "HOLDFAST_REPORT_FILE";
/// Number of attempts to lock an attempt, and the pause between two.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a reason, in bytes.
const REASON_BYTES_MAX: usize = 1000;

/// Reason why a task was not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("cannot keep the task in {folder}")]
    Folder { folder: String, source: io::Error },
}

/// Runs `program` with `arguments` as the attempt in `folder`, unless the attempt has begun before.
/// Returns after the task has ended.
pub fn keep(folder: &Path, program: &OsString, arguments: &[OsString]) -> Result<(), KeeperError> {
    let failed = |source| KeeperError::Folder { folder: folder.display().to_string(), source };
    // Without the lock, another keeper of this attempt lives.
    let Some(_lock) = lock(folder).map_err(failed)? else { return Ok(()) };
    if !begin(folder).map_err(failed)? {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime
        .and_then(|runtime| runtime.block_on(watch(folder, program, arguments)))
        .unwrap_or_else(|error| Outcome {
            ended: 0,
            code: Some(FAILED_CODE),
            reason: format!("cannot start {}: {error}", program.display()),
        });
    let outcome = Outcome { ended: sys::clock::now().0, ..outcome };
    let text = serde_json::to_vec(&outcome).map_err(|error| failed(io::Error::other(error)))?;
    durable::write(&folder.join(OUTCOME_FILE), &text, 0o600).map_err(failed)
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

/// Starts the task and waits for its end. Signals are passed on: SIGTERM as the interruption of a
/// user, SIGUSR1 as a pause, and SIGUSR2 as the end of the pause.
async fn watch(folder: &Path, program: &OsString, arguments: &[OsString]) -> io::Result<Outcome> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut pause = signal(SignalKind::user_defined1())?;
    let mut resume = signal(SignalKind::user_defined2())?;
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(folder.join(LOG_FILE))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env(REPORT_VARIABLE, folder.join(REPORT_FILE))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    // This program holds its connections while it pauses. Other programs are stopped.
    let (pause_signal, resume_signal) = match program == SHELL {
        true => (Signal::STOP, Signal::CONT),
        false => (Signal::USR1, Signal::USR2),
    };
    let mut is_terminated = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = terminate.recv() => {
                pass(&child, Signal::CONT);
                pass(&child, Signal::INT);
                is_terminated = true;
            }
            _ = pause.recv() => pass(&child, pause_signal),
            _ = resume.recv() => pass(&child, resume_signal),
        }
    };
    Ok(outcome(folder, status, is_terminated))
}

fn pass(child: &Child, signal: Signal) {
    // A child that has ended needs no signal.
    drop(child.id().map(|pid| sys::process::signal_group(pid, signal)));
}

fn outcome(folder: &Path, status: ExitStatus, is_terminated: bool) -> Outcome {
    let code = match (status.code(), status.signal()) {
        (Some(code @ (0 | 4 | 8)), _) => u8::try_from(code).unwrap_or(FAILED_CODE),
        (Some(code), _) => u8::try_from(code).unwrap_or(FAILED_CODE).max(FAILED_CODE),
        (None, _) => FAILED_CODE,
    };
    let is_cancelled = folder.join(CANCELLED_FILE).try_exists().unwrap_or(false);
    let reason = match (is_terminated, status.signal()) {
        (true, _) if is_cancelled => "cancelled by an administrator".to_owned(),
        (true, _) => "ended by a signal to the task keeper".to_owned(),
        (false, Some(signal)) => format!("ended by signal {signal}"),
        (false, None) if code == 0 => String::new(),
        (false, None) => last_line(folder),
    };
    let code = if is_terminated { code.max(FAILED_CODE) } else { code };
    Outcome { ended: 0, code: Some(code), reason }
}

/// The last line of the log that has text.
fn last_line(folder: &Path) -> String {
    let log = std::fs::read(folder.join(LOG_FILE)).unwrap_or_default();
    let text = String::from_utf8_lossy(&log);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(REASON_BYTES_MAX / 4).collect()
}
