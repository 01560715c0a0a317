//! Keeps the surroundings of the process at its edge: only the binary and the crates beside it read
//! the environment or the working directory, print, or end the process. `sys` may print and end the
//! process, because a thread that finds a broken lock does that.

use super::finding::{Finding, Rule};
use crate::source::{Rooms, SourceFile, Tree, UsedPath};

/// Crates that may reach out of the process. All others take values and return values.
const ALLOWED: [&str; 6] = ["bench", "e2e", "fuzz", "holdfast", "sim", "xtask"];
/// Crate that may print and end the process, and nothing else.
const ENDING: &str = "crates/sys";
/// First parts of paths that lead to the crate's own modules.
const OWN: [&str; 3] = ["crate", "self", "super"];
/// Modules whose functions print or end the process.
const ENDS: [&str; 2] = ["process", "io"];
/// Functions that reach out of the process, each with the module that has it.
const REACHING: [(&str, &[&str]); 5] = [
    (
        "env",
        &[
            "args",
            "args_os",
            "current_dir",
            "current_exe",
            "home_dir",
            "remove_var",
            "set_current_dir",
            "set_var",
            "temp_dir",
            "var",
            "var_os",
            "vars",
            "vars_os",
        ],
    ),
    ("process", &["abort", "exit", "getcwd"]),
    ("io", &["stderr", "stdin", "stdout"]),
    ("path", &["absolute"]),
    ("fs", &["canonicalize"]),
];
const PRINTING: [&str; 4] = ["eprint", "eprintln", "print", "println"];

pub(crate) fn check(tree: &Tree<'_>) -> Vec<Finding> {
    let is_below = |folder: &&str| ALLOWED.iter().all(|name| *folder != format!("crates/{name}"));
    let folders = tree.crates().into_iter().filter(is_below);
    let of_crate = |folder: &str| {
        let files = Rooms::of_crate(folder, tree).files;
        files
            .into_iter()
            .flat_map(|file| of_one_file(file, folder == ENDING, tree))
            .collect::<Vec<_>>()
    };
    folders.flat_map(of_crate).collect()
}

fn of_one_file(file: &SourceFile, may_end: bool, tree: &Tree<'_>) -> Vec<Finding> {
    let scopes = tree
        .syntax
        .get(file.path.as_str())
        .into_iter()
        .flat_map(|syntax| &syntax.scopes);
    let paths = scopes.flat_map(|scope| {
        scope.paths.iter().chain(scope.imports.iter().map(|import| &import.path))
    });
    let reaching = paths.filter(|path| reaches_out(path, may_end));
    reaching
        .map(|path| {
            let name = path.segments.join("::");
            let message = format!(
                "'{name}' reads or writes outside the process, pass in or return the value"
            );
            Finding::new(&file.path, path.line, Rule::Edge, message)
        })
        .collect()
}

fn reaches_out(path: &UsedPath, may_end: bool) -> bool {
    match path.segments.as_slice() {
        // The crate has modules of its own with these names.
        [first, ..] if OWN.contains(&first.as_str()) => false,
        [.., last] if path.is_macro => !may_end && PRINTING.contains(&last.as_str()),
        [.., module, _] if may_end && ENDS.contains(&module.as_str()) => false,
        [.., module, last] => REACHING
            .iter()
            .any(|(known, names)| module == known && names.contains(&last.as_str())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks `text` as the root of the crate `name`; `expected` has the lines of the findings.
    #[track_caller]
    fn check_root(name: &str, text: &str, expected: &[usize]) {
        let file = |path: &str, text: &str| SourceFile {
            path: format!("crates/{name}/{path}"),
            text: text.to_owned(),
        };
        let files = [file("Cargo.toml", ""), file("src/lib.rs", text)];
        let found: Vec<_> = check(&Tree::parse(&files)).iter().map(|found| found.line).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn libraries_do_not_reach_out_of_the_process() {
        check_root("pool", "fn f() {\n    std::env::var(\"A\");\n    println!();\n}", &[2, 3]);
        check_root("pool", "use std::process::{Command, exit};\nfn f() { io::stdout() }", &[2, 1]);
        check_root("pool", "fn f() { m!(std::env::current_dir()) }", &[1]);
    }

    #[test]
    fn what_is_handed_in_and_what_is_compiled_in_is_no_reach() {
        check_root("pool", "fn f(env: &Env) { env.var(\"A\"); env!(\"B\"); self.exit() }", &[]);
        check_root("pool", "#[cfg(test)]\nmod t { fn f() { println!(); } }", &[]);
    }

    #[test]
    fn the_seam_to_the_system_ends_the_process_and_reads_nothing() {
        check_root(
            "sys",
            "fn f() {\n    std::process::exit(0);\n    std::env::current_dir();\n}",
            &[3],
        );
    }

    #[test]
    fn the_crates_at_the_edge_may() {
        for name in ALLOWED {
            check_root(name, "fn f() { println!(); std::process::exit(0) }", &[]);
        }
    }
}
