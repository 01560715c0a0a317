//! The checks of the tree, and their ratchet.
//!
//! Each check is a pure function that turns the text of files into findings. Only the module
//! `source` reads the tree. Findings can be allowed for a file or a crate in
//! `crates/xtask/ratchet.toml`, up to a number that may only shrink.
//!
//! Deliberately absent: the length of functions and everything else that clippy measures, and the
//! meaning of code. The checks read text and syntax, so they do not see what a macro declares.

mod circles;
mod edge;
mod finding;
mod layers;
mod links;
mod locks;
mod manifest;
mod modules;
mod names;
mod output;
mod proofs;
mod prose;
mod ratchet;
mod text;
mod words;

use std::io;
use std::path::Path;

use crate::source::{self, SourceFile, Split, Tree};
pub(crate) use finding::Finding;
use ratchet::Ratchet;

/// Checks the tree that contains the current folder.
pub(crate) fn findings_of_the_tree() -> io::Result<Vec<Finding>> {
    Ok(findings(&source::read(Path::new("."))?))
}

/// Lowers the numbers of the ratchet to what the tree needs.
pub(crate) fn lower_the_ratchet() -> io::Result<()> {
    let files = source::read(Path::new("."))?;
    let text = ratchet_text(&files);
    let ratchet = Ratchet::parse(text).map_err(|broken| io::Error::other(broken.to_string()))?;
    let place = source::root(Path::new("."))?.join(ratchet::PATH);
    std::fs::write(place, ratchet.lowered(text, &all_findings(&files)))
}

/// Checks `files`, and applies the ratchet, which is one of the files. Returns the findings that
/// are left, sorted by file and line.
fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let found = all_findings(files);
    let mut left = match Ratchet::parse(ratchet_text(files)) {
        Ok(ratchet) => ratchet.apply(found),
        Err(broken) => [found, vec![broken]].concat(),
    };
    left.sort();
    left
}

fn ratchet_text(files: &[SourceFile]) -> &str {
    let file = files.iter().find(|file| file.path == ratchet::PATH);
    file.map_or("", |file| &file.text)
}

/// Returns all findings, including those that the ratchet allows.
fn all_findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut found: Vec<Finding> = files.iter().flat_map(of_one_file).collect();
    found.extend(modules::check(files));
    found.extend(links::check(files));
    found.extend(proofs::check(files));
    let tree = Tree::parse(files);
    found.extend(circles::check(&tree));
    found.extend(edge::check(&tree));
    found.extend(output::check(&tree));
    found
}

fn of_one_file(file: &SourceFile) -> Vec<Finding> {
    let (path, text) = (file.path.as_str(), file.text.as_str());
    let mut found = text::machine_paths(path, text);
    found.extend(prose::spelling(path, text));
    if path.ends_with(".rs") {
        let split = Split::new(text);
        found.extend(text::header(path, text));
        found.extend(text::file_lines(path, text));
        found.extend(text::columns(path, text));
        found.extend(text::blanks(path, text));
        found.extend(names::file_name(path));
        found.extend(names::type_names(path, &split.code));
        found.extend(words::check(path, &split));
        found.extend(prose::headless(path, &split));
        found.extend(locks::check(path, &split));
    } else {
        found.extend(words::known_faults(path, text));
        found.extend(prose::headless_lines(path, text));
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
