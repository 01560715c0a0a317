//! The only door to standard output and standard error.

#![expect(clippy::print_stderr, reason = "progress and faults are for people")]

use std::io::{self, IsTerminal as _, Write as _};

use crate::trouble::{Trouble, While as _};

/// Writes the result.
pub(crate) fn result(text: &str) -> Result<(), Trouble> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.trim_end().as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush());
    match written {
        // A reader that goes away has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.while_doing(|| "write the result".to_owned()),
    }
}

/// Writes the step of the measurement to a terminal.
pub(crate) fn step(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("bench: {text}");
    }
}

/// Writes the progress of something that takes minutes, also into a log.
pub(crate) fn progress(text: &str) {
    eprintln!("bench: {text}");
}

/// Writes a warning for the reader of the figures.
pub(crate) fn warning(text: &str) {
    eprintln!("bench: warning: {text}");
}

pub(crate) fn trouble(trouble: &Trouble) {
    eprintln!("bench: {trouble}");
}
