//! The checks of the tree, and their ratchet.
//!
//! Each check is a pure function from a file's text to findings; reading the tree is at the edge.
//! What a check finds can be allowed per file in `crates/xtask/ratchet.toml`, up to a number that
//! may only shrink.
//!
//! Deliberately absent: the length of functions and all else that clippy measures, and the meaning
//! of code. The checks read text, so a declaration made by a macro is out of their sight.

mod code;
mod finding;
mod layers;
mod manifest;
mod modules;
mod names;
mod ratchet;
mod text;
mod tree;
mod words;

use std::io;

use code::Split;
pub(crate) use finding::Finding;
use ratchet::Ratchet;
use tree::SourceFile;

/// Checks the tree that the current folder lies in.
pub(crate) fn findings_of_the_tree() -> io::Result<Vec<Finding>> {
    Ok(findings(&tree::read()?))
}

/// Checks `files` against each other and the ratchet among them; sorted by file and line.
fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut found: Vec<Finding> = files.iter().flat_map(of_one_file).collect();
    found.extend(modules::check(files));
    let ratchet_text = files.iter().find(|file| file.path == ratchet::PATH);
    let mut left = match Ratchet::parse(ratchet_text.map_or("", |file| &file.text)) {
        Ok(ratchet) => ratchet.apply(found),
        Err(broken) => [found, vec![broken]].concat(),
    };
    left.sort();
    left
}

fn of_one_file(file: &SourceFile) -> Vec<Finding> {
    let (path, text) = (file.path.as_str(), file.text.as_str());
    let mut found = text::machine_paths(path, text);
    if path.ends_with(".rs") {
        let split = Split::new(text);
        found.extend(text::header(path, text));
        found.extend(text::file_lines(path, text));
        found.extend(text::columns(path, text));
        found.extend(text::blanks(path, text));
        found.extend(names::file_name(path));
        found.extend(names::type_names(path, &split.code));
        found.extend(words::check(path, &split));
    } else {
        found.extend(words::known_faults(path, text));
    }
    if [".rs", ".toml", ".proto"].iter().any(|end| path.ends_with(end)) {
        found.extend(text::ascii(path, text));
    }
    if path.starts_with("crates/") && path.ends_with("/Cargo.toml") {
        found.extend(manifest::check(path, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn the_tree_is_tidy() {
        let found = findings_of_the_tree().expect("the tree can be read");
        let report: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(report.is_empty(), "{}", report.join("\n"));
    }

    #[test]
    fn findings_come_by_file_and_line() {
        let files = [
            file("crates/b/src/lib.rs", "//! B.\n\nfn f() {\t}\nstruct BlobJob;\n"),
            file("crates/a/src/lib.rs", "fn f() {}\n"),
        ];
        let found: Vec<_> = findings(&files).into_iter().map(|f| (f.path, f.line)).collect();
        let expected = [
            ("crates/a/src/lib.rs".to_owned(), 1),
            ("crates/b/src/lib.rs".to_owned(), 3),
            ("crates/b/src/lib.rs".to_owned(), 4),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_ratchet_of_the_tree_is_applied() {
        let untidy = file("crates/a/src/lib.rs", "fn f() {}\n");
        let ratchet = file(ratchet::PATH, "[\"crates/a/src/lib.rs\"]\nheader = 1\n");
        assert_eq!(findings(&[untidy, ratchet]), []);
    }

    #[test]
    fn a_broken_ratchet_hides_nothing() {
        let untidy = file("crates/a/src/lib.rs", "fn f() {}\n");
        let ratchet = file(ratchet::PATH, "[\n");
        let found: Vec<_> = findings(&[untidy, ratchet]).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["crates/a/src/lib.rs", ratchet::PATH]);
    }
}
