//! Tests that make pages of the reference from the code, and compare the files with them.

mod configuration;
mod operations;
mod options;
mod settings;
mod tsm;

use std::path::Path;

const FOLDER: &str = "../../docs/reference";
/// Environment variable that makes the tests write the pages instead of comparing them.
const WRITE: &str = "HOLDFAST_WRITE_REFERENCE";

/// Fails if the page is not `expected`, and names the first line that differs.
#[track_caller]
fn compare(page: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER).join(page);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, expected).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the page can be read");
    let mut lines = (1..).zip(written.lines().zip(expected.lines()));
    let first = lines.find(|(_, (written, expected))| written != expected);
    let is_same = written == expected;
    assert!(is_same, "{page} differs from the code at line {first:?}: write it with {WRITE}=1");
}
