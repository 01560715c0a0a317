//! Tests that the pages about threats and faults name as proofs.

use std::collections::BTreeSet;

use super::finding::{Finding, Rule};
use crate::source::SourceFile;

/// Pages whose code words in the last column of a table are names of tests.
const PAGES: [&str; 2] = ["docs/design/threats.md", "docs/design/faults.md"];

/// Folder of the modules that the pages name before a test.
const REAL_PROGRAM: &str = "crates/e2e/tests/it";

/// Folder of functions that a list makes tests of each engine.
const LISTED: &str = "crates/catalog/tests/it/conformance";

/// Checks that each test exists that a page names.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let pages = files.iter().filter(|file| PAGES.contains(&file.path.as_str()));
    let mut pages = pages.peekable();
    if pages.peek().is_none() {
        return Vec::new();
    }
    let tests: BTreeSet<String> = files.iter().flat_map(tests_of).collect();
    pages.flat_map(|page| of_one_page(page, &tests)).collect()
}

fn of_one_page(page: &SourceFile, tests: &BTreeSet<String>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for name in proofs(line).filter(|name| !tests.contains(*name)) {
            let message = format!("there is no test '{name}', correct the name");
            found.push(Finding::new(&page.path, index + 1, Rule::Proofs, message));
        }
    }
    found
}

/// Returns the code words in the last column of a row.
fn proofs(line: &str) -> impl Iterator<Item = &str> {
    let row = line.strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    let column = row.and_then(|row| row.rsplit('|').next()).unwrap_or_default();
    column.split('`').skip(1).step_by(2)
}

/// Returns the names of the tests of a file as a page may name them: with their module if they run
/// the real program, and otherwise alone.
fn tests_of(file: &SourceFile) -> Vec<String> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let module = file.path.strip_prefix(REAL_PROGRAM);
    let module = module.and_then(|path| path.strip_prefix('/')?.strip_suffix(".rs"));
    let is_list_of_tests = file.path.starts_with(LISTED);
    let mut tests = Vec::new();
    let mut is_marked = false;
    for line in file.text.lines().map(str::trim_start) {
        is_marked |= line == "#[test]";
        let function = line.strip_prefix("pub(crate) ").unwrap_or(line).strip_prefix("fn ");
        let Some((name, _)) = function.and_then(|after| after.split_once('(')) else { continue };
        if is_marked || is_list_of_tests {
            tests.push(match module {
                Some(module) => format!("{module}::{name}"),
                None => name.to_owned(),
            });
        }
        is_marked = false;
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_row(row: &str, count: usize) {
        let file =
            |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file(PAGES[0], &format!("# Threats\n\n{row}\n")),
            file("crates/e2e/tests/it/kills.rs", "#[test]\nfn a_kill_costs_nothing() {}\n"),
            file(
                "crates/pool/src/lib.rs",
                "    #[test]\n    fn a_pool_is_kept() {\n    fn help() {\n",
            ),
            file("crates/catalog/tests/it/conformance/a.rs", "pub(crate) fn a_row_is_kept() {\n"),
        ];
        assert_eq!(check(&files).len(), count, "{row}");
    }

    #[test]
    fn a_test_that_is_named_exists() {
        check_row("| a kill | nothing | `kills::a_kill_costs_nothing`, `a_pool_is_kept` |", 0);
        check_row("| a kill | nothing | `kills::a_kill_costs_something` |", 1);
        check_row("| a kill | nothing | `a_kill_costs_nothing`, `no_pool_is_kept` |", 2);
        check_row("| a kill | nothing | `a_row_is_kept`, `help` |", 1);
    }

    #[test]
    fn other_columns_may_hold_any_code() {
        check_row("| `kill -9` | nothing | |", 0);
        check_row("See `kill`.", 0);
    }
}
