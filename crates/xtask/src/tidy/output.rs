//! Keeps one way out of the binary: only the room `output` of `holdfast` writes to standard output
//! and standard error, because it makes all text printable for a terminal. The other crates do not
//! print at all: see `edge.rs`.

use super::finding::{Finding, Rule};
use crate::source::{Rooms, Tree, UsedPath};

/// The crate whose commands write for people.
const BINARY: &str = "crates/holdfast";
/// The file that writes.
const ROOM: &str = "crates/holdfast/src/output.rs";
/// Names that lead to standard output or standard error: functions and constructors, each with the
/// module or the type that has it.
const WAYS_OUT: [(&str, &[&str]); 5] = [
    ("io", &["stderr", "stdout", "Stderr", "Stdout"]),
    ("Stdio", &["inherit"]),
    ("ProgressBar", &["new", "new_spinner", "no_length", "with_draw_target"]),
    ("ProgressDrawTarget", &["stderr", "stdout", "term"]),
    ("rustix", &["stdio"]),
];
const PRINTING: [&str; 5] = ["dbg", "eprint", "eprintln", "print", "println"];

pub(crate) fn check(tree: &Tree<'_>) -> Vec<Finding> {
    if !tree.crates().contains(BINARY) {
        return Vec::new();
    }
    let files = Rooms::of_crate(BINARY, tree).files;
    let mut found = Vec::new();
    for file in files.into_iter().filter(|file| file.path != ROOM) {
        let syntax = tree.syntax.get(file.path.as_str());
        let scopes = syntax.into_iter().flat_map(|syntax| &syntax.scopes);
        let paths = scopes.flat_map(|scope| {
            scope.paths.iter().chain(scope.imports.iter().map(|import| &import.path))
        });
        for path in paths.filter(|path| leads_out(path)) {
            let name = path.segments.join("::");
            let message = format!("'{name}' writes past 'output', which makes text printable");
            found.push(Finding::new(&file.path, path.line, Rule::Output, message));
        }
    }
    found
}

fn leads_out(path: &UsedPath) -> bool {
    match path.segments.as_slice() {
        [.., last] if path.is_macro => PRINTING.contains(&last.as_str()),
        [.., module, last] => WAYS_OUT
            .iter()
            .any(|(known, names)| module == known && names.contains(&last.as_str())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceFile;

    /// Checks `text` as the module `name` of the binary; `expected` has the lines of the findings.
    #[track_caller]
    fn check_module(name: &str, text: &str, expected: &[usize]) {
        let file = |path: &str, text: &str| SourceFile {
            path: format!("{BINARY}/{path}"),
            text: text.to_owned(),
        };
        let files = [
            file("Cargo.toml", ""),
            file("src/main.rs", &format!("mod {name};")),
            file(&format!("src/{name}.rs"), text),
        ];
        let found: Vec<_> = check(&Tree::parse(&files)).iter().map(|found| found.line).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn only_one_room_writes() {
        let text = "fn f() {\n    println!();\n    eprint!();\n    std::io::stdout();\n}";
        check_module("list", text, &[2, 3, 4]);
        check_module("output", text, &[]);
    }

    #[test]
    fn no_other_way_leads_out() {
        check_module("list", "use std::io::{self, stderr};\nfn f() { io::stdout() }", &[2, 1]);
        check_module("list", "fn f() { Command::new(s).stdout(Stdio::inherit()) }", &[1]);
        check_module("list", "fn f() { ProgressBar::new(1) }", &[1]);
        check_module("list", "fn f() { write(dbg!(x)) }", &[1]);
    }

    #[test]
    fn the_room_and_pipes_are_used() {
        check_module("list", "fn f() { output::say(\"\"); c.stdout(Stdio::piped()) }", &[]);
        check_module("list", "#[cfg(test)]\nmod t { fn f() { println!(); } }", &[]);
    }
}
