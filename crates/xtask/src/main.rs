//! Checks of the workspace that neither the compiler nor clippy makes, and figures about it:
//!
//! ```text
//! cargo run -p xtask -- tidy              checks the tree
//! cargo run -p xtask -- lower             lowers the ratchet to what the tree needs
//! cargo run -p xtask -- figures [ROOT]    measures the tree at ROOT, crate by crate
//! ```
//!
//! Findings go to standard output, each on a line of its own, as
//! `file:line: what is wrong, what to do`. The exit status is 0 for a tidy tree, 1 for findings and
//! 2 if the tree could not be read.

mod figures;
mod source;
mod tidy;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy | lower | figures [ROOT]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::findings_of_the_tree().and_then(|findings| print(&findings)),
        ["lower"] => tidy::lower_the_ratchet().map(|()| true),
        ["figures"] => measure("."),
        ["figures", root] => measure(root),
        _ => Err(io::Error::other(USAGE)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed, the exit status is the only report.
            writeln!(io::stderr(), "xtask: {error}").ok();
            ExitCode::from(2)
        }
    }
}

/// Prints the figures of the tree at `root`.
fn measure(root: &str) -> io::Result<bool> {
    let files = source::read(Path::new(root))?;
    writeln!(io::stdout(), "{}", figures::table(&source::Tree::parse(&files)))?;
    Ok(true)
}

/// Prints the findings; returns true if there are none.
fn print(findings: &[tidy::Finding]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    Ok(findings.is_empty())
}
