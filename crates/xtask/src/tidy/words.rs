//! Checks of single words: `unsafe` in its place, and no unfinished code.

use super::finding::{Finding, Rule};
use crate::source::Split;

/// The only crate that may hold `unsafe` code.
const UNSAFE_HOME: &str = "crates/sys/";
/// Functions that replace those of the C library in tests. They cannot be in `sys`: the program
/// would have them too.
const UNSAFE_TESTS: &str = "crates/disk/src/seam.rs";
/// Code that marks a part of the program as unfinished.
const UNFINISHED_CODE: [&str; 2] = ["todo!", "#[ignore"];
/// The mark of known faults in comments.
const UNFINISHED_COMMENT: &str = "FIXME";

pub(crate) fn check(path: &str, split: &Split) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in split.code.lines().enumerate() {
        let may_be_unsafe = path.starts_with(UNSAFE_HOME) || path == UNSAFE_TESTS;
        if !may_be_unsafe && has_word(line, "unsafe") {
            let message = format!("unsafe code outside {UNSAFE_HOME}, put a safe function there");
            found.push(Finding::new(path, index + 1, Rule::Unsafe, message));
        }
        if let Some(mark) = UNFINISHED_CODE.iter().find(|mark| line.contains(**mark)) {
            let message = format!("'{mark}' leaves something unfinished, finish or remove it");
            found.push(Finding::new(path, index + 1, Rule::Unfinished, message));
        }
    }
    found.extend(known_faults(path, &split.comments));
    found
}

/// Checks for the mark of known faults in `text`: the comments of a source file, or a script.
pub(crate) fn known_faults(path: &str, text: &str) -> Vec<Finding> {
    let marked = text.lines().enumerate().filter(|(_, line)| line.contains(UNFINISHED_COMMENT));
    let message = "a known fault, correct it or document the behaviour";
    marked
        .map(|(index, _)| Finding::new(path, index + 1, Rule::Unfinished, message))
        .collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: &[(usize, Rule)]) {
        let found = check(path, &Split::new(text));
        let found: Vec<_> = found.iter().map(|finding| (finding.line, finding.rule)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn unsafe_code_stays_in_its_crate() {
        let text = "a();\nunsafe { b() }\n";
        check_text("crates/pool/src/lib.rs", text, &[(2, Rule::Unsafe)]);
        check_text("crates/sys/src/lib.rs", text, &[]);
        check_text("crates/disk/src/seam.rs", text, &[]);
        check_text("crates/disk/src/lib.rs", text, &[(2, Rule::Unsafe)]);
    }

    #[test]
    fn the_word_alone_is_not_code() {
        check_text("a.rs", "// unsafe\n#![deny(unsafe_code)]\nf(\"unsafe\");\n", &[]);
    }

    #[test]
    fn nothing_is_left_unfinished() {
        check_text("a.rs", "todo!()\n", &[(1, Rule::Unfinished)]);
        check_text("a.rs", "#[ignore = \"slow\"]\n", &[(1, Rule::Unfinished)]);
        check_text("a.rs", &format!("// {UNFINISHED_COMMENT} x\n"), &[(1, Rule::Unfinished)]);
        check_text("a.rs", "// see the todo! macro\nf(\"#[ignore]\");\n", &[]);
    }
}
