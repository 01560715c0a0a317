//! Finds source files that no module declares: dead code in `src`, forgotten tests in `tests`.
//!
//! Modules are followed from the roots that cargo knows. Declarations by `#[path]`, by macros and
//! within inline modules are not seen; the workspace has none.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Rule};
use crate::source::{SourceFile, Split, is_root, places};

/// Checks the files below `crates/*/src` and `crates/*/tests`.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let sources: BTreeMap<&str, &str> = files
        .iter()
        .filter(|file| is_module(&file.path))
        .map(|file| (file.path.as_str(), file.text.as_str()))
        .collect();
    let mut pending: Vec<String> = sources
        .keys()
        .filter(|path| is_root(path))
        .map(|path| (*path).to_owned())
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = pending.pop() {
        let Some(text) = sources.get(path.as_str()) else { continue };
        pending.extend(declared(text).iter().flat_map(|name| places(&path, name)));
        reached.insert(path);
    }
    let dead = sources.keys().filter(|path| !reached.contains(**path));
    dead.map(|path| Finding::new(path, 1, Rule::DeadFile, complaint(path)))
        .collect()
}

fn complaint(path: &str) -> &'static str {
    match part(path) {
        Some("tests") => "a forgotten test: declare the file in main.rs",
        _ => "a dead file: declare it as a module or delete it",
    }
}

fn is_module(path: &str) -> bool {
    path.starts_with("crates/")
        && path.ends_with(".rs")
        && matches!(part(path), Some("src" | "tests"))
}

/// Returns the folder within the crate: `src`, `tests` or `benches`.
fn part(path: &str) -> Option<&str> {
    path.split('/').nth(2)
}

/// Returns the names of the modules that `text` declares and that have a file of their own.
fn declared(text: &str) -> Vec<String> {
    let code = Split::new(text).code;
    let names = code.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "mod");
        let name = words.nth(1)?.strip_suffix(';')?;
        Some(name.trim_start_matches("r#").to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` names the dead files among `files`, each within the crate `a`.
    #[track_caller]
    fn check_files(files: &[(&str, &str)], expected: &[&str]) {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: format!("crates/a/{path}"),
            text: (*text).to_owned(),
        };
        let files: Vec<_> = files.iter().map(file).collect();
        let found: Vec<_> = check(&files).into_iter().map(|finding| finding.path).collect();
        let expected: Vec<_> = expected.iter().map(|path| format!("crates/a/{path}")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn declared_modules_are_alive() {
        check_files(
            &[
                ("src/lib.rs", "mod a;\npub(crate) mod b;\n#[cfg(test)]\nmod tests;\n"),
                ("src/a.rs", "mod c;\n"),
                ("src/a/c.rs", ""),
                ("src/b/mod.rs", "pub mod d;\n"),
                ("src/b/d.rs", ""),
                ("src/tests.rs", ""),
            ],
            &[],
        );
    }

    #[test]
    fn undeclared_files_are_dead_with_all_below_them() {
        check_files(
            &[("src/main.rs", "// mod a;\n"), ("src/a.rs", "mod b;\n"), ("src/a/b.rs", "")],
            &["src/a.rs", "src/a/b.rs"],
        );
    }

    #[test]
    fn inline_modules_declare_no_file() {
        check_files(&[("src/lib.rs", "mod tests {\n}\n"), ("src/tests.rs", "")], &["src/tests.rs"]);
    }

    #[test]
    fn forgotten_tests_are_found() {
        let files =
            [("tests/it/main.rs", "mod a;\n"), ("tests/it/a.rs", ""), ("tests/it/b.rs", "")];
        check_files(&files, &["tests/it/b.rs"]);
    }

    #[test]
    fn binaries_and_build_scripts_are_roots() {
        check_files(&[("src/bin/x.rs", ""), ("build.rs", ""), ("benches/y.rs", "")], &[]);
    }
}
