//! The only way to standard output and standard error.
//!
//! Standard output carries only results. A reader that closes the pipe (`holdfast list | head`)
//! ends the output only: the command keeps its exit code. [`Output::finish`] returns any other
//! fault of standard output.

use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};

use serde::Serialize;

use crate::error::CommandError;

/// Form of the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    /// One document, or one document per line.
    Json,
}

/// Standard output, buffered, and notes on standard error.
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) quiet: bool,
    stdout: BufWriter<Stdout>,
    state: State,
}

/// State of standard output.
enum State {
    Open,
    /// The reader has closed the pipe.
    Closed,
    Failed(io::Error),
}

impl Output {
    pub(crate) fn new(format: Format, quiet: bool) -> Self {
        Self { format, quiet, stdout: BufWriter::new(io::stdout()), state: State::Open }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Returns true while somebody reads the output.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Writes `text`, with a newline at its end.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        if !text.ends_with('\n') {
            self.bytes(b"\n");
        }
    }

    /// Writes one document on one line.
    pub(crate) fn json(&mut self, document: &impl Serialize) {
        let line = serde_json::to_string(document)
            .expect("all keys are strings, and nothing else can fail");
        self.text(&line);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let written = if self.is_open() { self.stdout.write_all(bytes) } else { Ok(()) };
        self.heed(written);
    }

    /// Writes the buffered results.
    pub(crate) fn flush(&mut self) {
        let flushed = if self.is_open() { self.stdout.flush() } else { Ok(()) };
        self.heed(flushed);
    }

    /// Writes `line` to standard error, unless the command is quiet.
    pub(crate) fn note(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), CommandError> {
        self.flush();
        // After a failure the rest of the buffer cannot be written. Dropping the writer would try
        // again.
        drop(self.stdout.into_parts());
        match self.state {
            State::Open | State::Closed => Ok(()),
            State::Failed(error) => {
                Err(CommandError::new(format!("cannot write to standard output: {error}")))
            }
        }
    }

    /// Keeps the first fault of standard output.
    fn heed(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.state = State::Closed,
            Err(error) => self.state = State::Failed(error),
        }
    }
}

/// Writes `line` to standard error.
pub(crate) fn say(line: &str) {
    // A lost standard error cannot be reported anywhere.
    drop(writeln!(io::stderr().lock(), "{line}"));
}

pub(crate) fn say_error(error: &CommandError) {
    say(&format!("holdfast: {}", error.message));
    if let Some(hint) = &error.hint {
        say(hint);
    }
}

/// Writes clap's help text, in colours where the terminal has them.
pub(crate) fn help(help: &clap::Error) {
    // A reader that closes the pipe has read enough of the help.
    drop(help.print());
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}
