//! Output of the bench. Only this module writes to standard output and standard error.

#![expect(clippy::print_stderr, reason = "progress and errors are for people")]

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use crate::trouble::{Context as _, Trouble};

/// Writes the result to standard output.
pub(crate) fn result(text: &str) -> Result<(), Trouble> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.trim_end().as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush());
    match written {
        // The reader has closed its end: it does not want the remaining text.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.while_doing(|| "write the result".to_owned()),
    }
}

/// Writes the present step of the measurement, if standard error is a terminal.
pub(crate) fn step(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("bench: {text}");
    }
}

/// Writes the progress of work that takes minutes, even if standard error is no terminal.
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

/// Returns the number with its noun: "1 node", "2 nodes".
pub(crate) fn counted<N>(number: N, noun: &str) -> String
where
    N: Copy + fmt::Display + From<u8> + PartialEq,
{
    let ending = if number == N::from(1_u8) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        let nodes: [String; 3] = [0, 1, 2].map(|number: usize| counted(number, "node"));
        assert_eq!(nodes, ["0 nodes", "1 node", "2 nodes"]);
    }
}
