//! A command line of `holdfast` in a process of its own: its documents, its messages, its end.
//!
//! The first SIGINT or SIGTERM lets the process end in an orderly way. A signal of the terminal
//! reaches it anyway; a SIGTERM for this process alone is passed on.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Sender, channel};

use serde_json::Value;

use crate::error::{CommandError, NOT_DONE};
use crate::interrupt::Signals;

/// Maximum number of bytes in a line of the process.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Width of the verb in a line about an object.
const VERB_COLUMNS: usize = 11;

/// Event of a process that runs.
pub(super) enum Event {
    Document(Value),
    /// An object that is sent, expired or restored.
    Object {
        verb: String,
        path: String,
    },
    /// Any other line.
    Note {
        line: String,
        /// True for a line of the standard output.
        is_result: bool,
    },
}

/// Result of a process.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) code: u8,
    /// The error that ended it, and the next thing to do.
    pub(super) error: Option<(String, Option<String>)>,
}

impl Outcome {
    /// Returns the error as that of the command.
    pub(super) fn checked(self) -> Result<u8, CommandError> {
        match self.error {
            None if self.code == NOT_DONE && is_interrupted() => {
                Err(CommandError::new("the command was interrupted"))
            }
            None if self.code == NOT_DONE => {
                Err(CommandError::new("the command has ended without a reason"))
            }
            None => Ok(self.code),
            Some((message, None)) => Err(CommandError::new(message)),
            Some((message, Some(hint))) => Err(CommandError::new(message).with_hint(hint)),
        }
    }
}

/// A command line, and its surroundings.
pub(super) struct Child<'a> {
    pub(super) home: &'a Path,
    pub(super) words: &'a [OsString],
    /// Standard input.
    pub(super) input: Vec<u8>,
    /// True if each object is told.
    pub(super) tells_objects: bool,
}

/// Process that runs; 0 if there is none.
static RUNNING: AtomicU32 = AtomicU32::new(0);
static SIGNALS: OnceLock<()> = OnceLock::new();
/// True after a signal that ends the work.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns true if a signal has ended the process that ran: no other one begins.
pub(super) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Relaxed)
}

/// Runs a command line, and calls `visit` for each event.
pub(super) fn run(child: Child<'_>, visit: &mut dyn FnMut(Event)) -> Result<Outcome, CommandError> {
    let failed = |error: std::io::Error| CommandError::new(format!("cannot run holdfast: {error}"));
    catch_signals()?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    // Options after the words could stand behind a double dash, where they are none.
    command.arg0("holdfast").arg("--home").arg(child.home);
    if child.tells_objects {
        command.arg("--verbose");
    }
    command
        .args(child.words)
        .env("HOLDFAST_LOG", "warn")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = command.spawn().map_err(failed)?;
    RUNNING.store(process.id(), Relaxed);
    let (sender, events) = channel();
    let stdin = process.stdin.take();
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let mut outcome = Outcome::default();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A process that does not read its list tells why itself.
                drop(stdin.write_all(&child.input));
            }
        });
        let errors = sender.clone();
        scope.spawn(move || lines(stdout, &sender, true));
        scope.spawn(move || lines(stderr, &errors, false));
        for (line, is_result) in events {
            match event(&line, is_result, child.tells_objects) {
                ProcessLine::Event(event) => visit(event),
                ProcessLine::Error(message, hint) => outcome.error = Some((message, hint)),
            }
        }
    });
    let status = process.wait().map_err(failed)?;
    RUNNING.store(0, Relaxed);
    outcome.code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_DONE);
    Ok(outcome)
}

/// A line of the process.
enum ProcessLine {
    Event(Event),
    Error(String, Option<String>),
}

fn event(line: &str, is_result: bool, tells_objects: bool) -> ProcessLine {
    let document = line
        .starts_with('{')
        .then(|| serde_json::from_str::<Value>(line).ok())
        .flatten();
    match document {
        Some(document) if is_result => return ProcessLine::Event(Event::Document(document)),
        Some(document) => {
            if let Some(error) = document["error"].as_str() {
                let hint = document["hint"].as_str().map(str::to_owned);
                return ProcessLine::Error(error.to_owned(), hint);
            }
            if let Some(note) = document["note"].as_str() {
                return note_or_object(note, false, tells_objects);
            }
        }
        None => {}
    }
    note_or_object(line, is_result, tells_objects)
}

fn note_or_object(line: &str, is_result: bool, tells_objects: bool) -> ProcessLine {
    if tells_objects
        && let Some((verb, path)) = line.split_at_checked(VERB_COLUMNS)
        && path.starts_with('/')
    {
        let (verb, path) = (verb.trim_end().to_owned(), path.to_owned());
        return ProcessLine::Event(Event::Object { verb, path });
    }
    ProcessLine::Event(Event::Note { line: line.to_owned(), is_result })
}

fn lines(from: Option<impl Read>, to: &Sender<(String, bool)>, is_result: bool) {
    let Some(from) = from else { return };
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(bytes) if bytes > 0) {
            return;
        }
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        if !text.is_empty() && to.send((text, is_result)).is_err() {
            return;
        }
    }
}

/// Catches signals from the first call on. Without a process that runs, a signal ends this one.
fn catch_signals() -> Result<(), CommandError> {
    if SIGNALS.get().is_some() {
        return Ok(());
    }
    let failed = |error| CommandError::new(format!("cannot wait for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed)?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::catch()?
    };
    let watch = move || {
        runtime.block_on(async move {
            loop {
                let is_terminal = signals.next_is_interrupt().await;
                IS_INTERRUPTED.store(true, Relaxed);
                match RUNNING.load(Relaxed) {
                    0 => std::process::exit(i32::from(NOT_DONE)),
                    // The terminal has sent its signal to the process, too.
                    _ if is_terminal => {}
                    process => drop(sys::process::terminate(process)),
                }
            }
        });
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    // No thread joins the signal thread, which has nothing to finish.
    drop(thread.spawn(watch).map_err(failed)?);
    SIGNALS.get_or_init(|| ());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_documents_objects_errors_or_notes() {
        let shown = |line, is_result| match event(line, is_result, true) {
            ProcessLine::Error(message, hint) => format!("error {message} {hint:?}"),
            ProcessLine::Event(Event::Document(document)) => format!("document {document}"),
            ProcessLine::Event(Event::Object { verb, path }) => format!("object {verb} {path}"),
            ProcessLine::Event(Event::Note { line, .. }) => format!("note {line}"),
        };
        assert_eq!(shown("{\"a\":1}", true), "document {\"a\":1}");
        assert_eq!(shown("{\"error\":\"x\",\"hint\":null}", false), "error x None");
        assert_eq!(shown("back up    /home/ann/a b", false), "object back up /home/ann/a b");
        assert_eq!(shown("expire     /home/ann", false), "object expire /home/ann");
        assert_eq!(shown("the server is away", false), "note the server is away");
        assert_eq!(shown("{broken", false), "note {broken");
        // With --json, notes are documents.
        assert_eq!(shown("{\"note\":\"it is \\\"back\\\"\"}", false), "note it is \"back\"");
        assert_eq!(shown("{\"note\":\"back up    /a\"}", false), "object back up /a");
    }
}
