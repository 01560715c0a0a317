//! What the workspace needs beside cargo: `cargo run -p xtask -- tidy` checks the tree for what
//! neither the compiler nor clippy knows.
//!
//! Findings go to standard output, one a line as `file:line: what is wrong, what to do`. The exit
//! status is 0 for a tidy tree, 1 for findings and 2 when the tree could not be read.

mod tidy;

use std::io::{self, Write};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [word] if word == "tidy" => tidy::findings_of_the_tree(),
        _ => Err(io::Error::other(USAGE)),
    };
    match outcome.and_then(|findings| print(&findings)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // With standard error gone the status is all that can be said.
            writeln!(io::stderr(), "xtask: {error}").ok();
            ExitCode::from(2)
        }
    }
}

/// Prints the findings and says whether there are none.
fn print(findings: &[tidy::Finding]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    Ok(findings.is_empty())
}
