//! Lines of commands: typed at a terminal, with editing and the arrow keys for earlier lines, or
//! read from standard input.
//!
//! Earlier lines are kept until the program ends, and not in a file: some have passwords.

use std::io::{BufRead as _, IsTerminal as _};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::output;

/// Source of commands.
pub(crate) enum TypedLines {
    Terminal(Box<DefaultEditor>),
    Input,
}

impl TypedLines {
    /// Opens the terminal if standard input and standard output are one.
    pub(crate) fn open() -> Self {
        let is_terminal = std::io::stdin().is_terminal() && output::stdout_is_terminal();
        let editor = is_terminal.then(DefaultEditor::new).and_then(Result::ok);
        editor.map_or(Self::Input, |editor| Self::Terminal(Box::new(editor)))
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Returns the next line, after `prompt` at a terminal. `None` at the end.
    pub(crate) fn next(&mut self, prompt: &str) -> Option<String> {
        let Self::Terminal(editor) = self else { return read() };
        loop {
            match editor.readline(prompt) {
                Ok(line) => return Some(line),
                // Control-C takes back the line, as in a shell.
                Err(ReadlineError::Interrupted) => {}
                Err(_) => return None,
            }
        }
    }

    /// Keeps a line for the arrow keys.
    pub(crate) fn keep(&mut self, line: &str) {
        if let Self::Terminal(editor) = self {
            // A line that the editor does not keep can be typed again.
            drop(editor.add_history_entry(line));
        }
    }
}

fn read() -> Option<String> {
    let mut line = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut line);
    let is_line = matches!(read, Ok(bytes) if bytes > 0);
    is_line.then(|| String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned())
}
