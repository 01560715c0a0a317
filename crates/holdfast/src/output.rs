//! The only way to standard output and standard error.
//!
//! 1. Standard output carries only results. A reader that closes the pipe (`holdfast list | head`)
//!    ends the output only: the command keeps its exit code. [`Output::finish`] returns any other
//!    fault of standard output.
//! 2. Nothing that a terminal obeys leaves this file: text passes `model::printable`, line by line,
//!    whoever has sent it and however it came here. A string from elsewhere (from a server, a tree,
//!    a file or a device) that becomes a part of a text with several lines passes it earlier too,
//!    because its own line ends must not look like lines of the text. `xtask tidy` refuses every
//!    other way out of the process.
//! 3. A document keeps its values. What a terminal obeys is written as JSON writes it.
//! 4. If the results are JSON, each line on standard error is a document: an error, or a note.
//! 5. The content of a file or an archive goes to a file or another program as it is, and to a
//!    terminal as text.
//!
//! The progress bar is drawn here with sequences of its own, and its text is made of numbers.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::{is_unprintable, plain_json, printable};
use serde::Serialize;

use crate::error::{CommandError, NOT_DONE};

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
    sink: Sink,
    state: State,
}

/// Place of the results.
enum Sink {
    Stdout(BufWriter<Stdout>),
    /// Memory, for a command that another command runs.
    Memory(Vec<u8>),
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
        let sink = Sink::Stdout(BufWriter::new(io::stdout()));
        Self { format, quiet, sink, state: State::Open }
    }

    /// Makes an output that keeps its text for [`Self::into_text`].
    pub(crate) fn in_memory(quiet: bool) -> Self {
        Self { format: Format::Text, quiet, sink: Sink::Memory(Vec::new()), state: State::Open }
    }

    /// Returns the text of an output in memory.
    pub(crate) fn into_text(self) -> String {
        match self.sink {
            Sink::Memory(text) => String::from_utf8_lossy(&text).into_owned(),
            Sink::Stdout(_) => String::new(),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Returns true while somebody reads the output.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Writes the lines of `text`, with a newline at the end.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(printable_lines(text).as_bytes());
        if !text.ends_with('\n') {
            self.bytes(b"\n");
        }
    }

    /// Writes the lines of `text`. Tabs stay as they are: for programs they end values.
    pub(crate) fn tabbed(&mut self, text: &str) {
        let cells: Vec<_> = text.split('\t').map(printable_lines).collect();
        self.bytes(cells.join("\t").as_bytes());
        if !text.ends_with('\n') {
            self.bytes(b"\n");
        }
    }

    /// Writes `line`, which has no line end of its own.
    pub(crate) fn line(&mut self, line: &str) {
        self.bytes(printable(line).as_bytes());
        self.bytes(b"\n");
    }

    /// Writes one document on one line.
    pub(crate) fn json(&mut self, document: &impl Serialize) {
        let line = serde_json::to_string(document)
            .expect("all keys are strings, and nothing else can fail");
        self.bytes(plain_json(line).as_bytes());
        self.bytes(b"\n");
    }

    /// Writes one document on several lines.
    pub(crate) fn pretty_json(&mut self, document: &impl Serialize) {
        let text = serde_json::to_string_pretty(document)
            .expect("all keys are strings, and nothing else can fail");
        self.bytes(plain_lines_of_json(&text).as_bytes());
        self.bytes(b"\n");
    }

    /// Writes a script that was made by the program itself.
    pub(crate) fn script(&mut self, script: &[u8]) {
        self.bytes(script);
    }

    /// Writes a part of the content of a file or an archive.
    pub(crate) fn content(&mut self, bytes: &[u8]) {
        let is_terminal =
            matches!(&self.sink, Sink::Stdout(stdout) if stdout.get_ref().is_terminal());
        if is_terminal {
            self.bytes(printable_lines(&String::from_utf8_lossy(bytes)).as_bytes());
        } else {
            self.bytes(bytes);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let written = match &mut self.sink {
            Sink::Stdout(stdout) if matches!(self.state, State::Open) => stdout.write_all(bytes),
            Sink::Stdout(_) => Ok(()),
            Sink::Memory(text) => text.write_all(bytes),
        };
        self.heed(written);
    }

    /// Writes `text` without a line end, at once.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.bytes(printable(text).as_bytes());
        self.flush();
    }

    /// Writes the buffered results.
    pub(crate) fn flush(&mut self) {
        let flushed = match &mut self.sink {
            Sink::Stdout(stdout) if matches!(self.state, State::Open) => stdout.flush(),
            Sink::Stdout(_) | Sink::Memory(_) => Ok(()),
        };
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
        if let Sink::Stdout(stdout) = self.sink {
            drop(stdout.into_parts());
        }
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

/// True if each note on standard error is a document.
static NOTES_ARE_DOCUMENTS: AtomicBool = AtomicBool::new(false);

/// Sets the form of the notes on standard error, of all threads.
pub(crate) fn say_as(format: Format) {
    NOTES_ARE_DOCUMENTS.store(format == Format::Json, Ordering::Relaxed);
}

/// Document of a note, on standard error.
#[derive(Serialize)]
struct NoteDocument<'a> {
    note: &'a str,
}

/// Writes the note `line` to standard error: as a line, or as one document.
pub(crate) fn say(line: &str) {
    match NOTES_ARE_DOCUMENTS.load(Ordering::Relaxed) {
        true => write_document(&NoteDocument { note: line }),
        false => write_error_line(line),
    }
}

/// Writes one document on one line to standard error.
fn write_document(document: &impl Serialize) {
    let line = serde_json::to_string(document).expect("texts and numbers are JSON");
    write_error_line(&plain_json(line));
}

fn write_error_line(line: &str) {
    // One write, because the lines of several processes may come together. A lost standard error
    // cannot be reported anywhere.
    drop(io::stderr().write_all(format!("{}\n", printable(line)).as_bytes()));
}

/// Writes the lines of `text` to standard error.
pub(crate) fn say_lines(text: &str) {
    text.lines().for_each(say);
}

/// Standard error for messages of the program while it runs. Each call of [`Write::write`] has one
/// message.
pub(crate) struct LogLines;

impl Write for LogLines {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        say(String::from_utf8_lossy(message).trim_end_matches('\n'));
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error for messages of the program while it runs, as JSON. Each call of [`Write::write`]
/// has one document.
pub(crate) struct JsonLogLines;

impl Write for JsonLogLines {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let document = String::from_utf8_lossy(message).trim_end_matches('\n').to_owned();
        write_error_line(&plain_json(document));
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns standard error as the output of a command that the user has configured.
pub(crate) fn of_command() -> Stdio {
    io::stderr().into()
}

/// Makes a progress bar on a terminal. Its messages must be made of numbers.
pub(crate) fn progress_bar() -> ProgressBar {
    let style =
        ProgressStyle::with_template("{spinner} {wide_msg}").expect("the template is well formed");
    let bar = ProgressBar::no_length().with_style(style);
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar
}

/// Returns the style of a progress bar with several lines.
pub(crate) fn lines_style() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").expect("the template is well formed")
}

/// Returns `text` with each of its lines printable.
fn printable_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| character != '\n' && is_unprintable(character)) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    Cow::Owned(lines.join("\n"))
}

/// Returns a document on several lines without anything else that a terminal obeys.
fn plain_lines_of_json(document: &str) -> String {
    // A line end in a string is escaped already, so each line end here is between values.
    let lines: Vec<_> = document.lines().map(|line| plain_json(line.to_owned())).collect();
    lines.join("\n")
}

/// Document of an error, on standard error.
#[derive(Serialize)]
struct ErrorDocument<'a> {
    error: &'a str,
    hint: Option<&'a str>,
    exit_code: u8,
}

/// Writes the error that ends the command to standard error: as a line, with the next thing to do
/// on a second line, or as one document.
pub(crate) fn say_error(error: &CommandError, format: Format) {
    if format == Format::Json {
        let hint = error.hint.as_deref();
        let document = ErrorDocument { error: &error.message, hint, exit_code: NOT_DONE };
        return write_document(&document);
    }
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

/// Returns true if a person sees standard output at once.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_nothing_else_is_obeyed() {
        for (text, expected) in [
            ("a\nb\n", "a\nb\n"),
            ("a\u{1b}[2J\nb\r\n", "a\\x1b[2J\nb\\x0d\n"),
            ("\u{202e}a\u{9b}\tb", "\\xe2\\x80\\xaea\\xc2\\x9b\\x09b"),
            ("\\x1b stays", "\\x1b stays"),
        ] {
            assert_eq!(printable_lines(text), expected);
        }
    }

    #[test]
    fn a_document_keeps_its_values() {
        let value = "a\u{1b}\n\u{7f}\u{9b}\u{202e}\u{e9}\u{1f600}\\";
        let line = serde_json::to_string(value).expect("a text");
        let plain = plain_json(line);
        assert!(!plain.contains(is_unprintable), "{plain:?}");
        assert_eq!(serde_json::from_str::<String>(&plain).expect("a text"), value);
    }

    #[test]
    fn a_document_on_several_lines_keeps_its_values() {
        let values = ["a\u{1b}\n", "\u{7f}\u{9b}\u{202e}"];
        let document = serde_json::to_string_pretty(&values).expect("texts");
        let plain = plain_lines_of_json(&document);
        assert_eq!(plain.lines().count(), 2 + values.len());
        let found = plain.chars().find(|&c| c != '\n' && is_unprintable(c));
        assert_eq!(found, None, "{plain:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&plain).expect("texts"), values);
    }
}
