//! The only door to standard output and standard error.

#![expect(clippy::print_stderr, reason = "progress and faults are for people")]

use std::io::{self, IsTerminal as _, Write as _};

use crate::trouble::{Trouble, While as _};

/// Writes what was asked for.
pub(crate) fn result(text: &str) -> Result<(), Trouble> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.trim_end().as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush());
    match written {
        // A reader that goes away has seen what it wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.while_doing(|| "write the result".to_owned()),
    }
}

/// Says what is being measured, where somebody watches.
pub(crate) fn step(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("bench: {text}");
    }
}

/// Says how far something is that takes minutes, also into a log.
pub(crate) fn progress(text: &str) {
    eprintln!("bench: {text}");
}

/// Says what everybody should know who reads the figures.
pub(crate) fn warning(text: &str) {
    eprintln!("bench: warning: {text}");
}

pub(crate) fn trouble(trouble: &Trouble) {
    eprintln!("bench: {trouble}");
}
