//! Messages about tests that are left out.

use std::io::Write;

/// Prints the reason why a test is left out. The text goes directly to standard error, because
/// Rust's harness hides the output of tests that pass.
pub fn say(reason: &str) {
    let line = format!("skipped: {reason}\n");
    // A closed standard error is no reason to fail.
    drop(std::io::stderr().write_all(line.as_bytes()));
}
