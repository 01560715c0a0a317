//! The comments of a source file, block by block, and their openings.

use super::Split;

/// Openings of comments that have a clause without a head in place of a subject.
const HEADLESS: [&str; 13] = [
    "Of that which",
    "Of those",
    "Of what",
    "Of which",
    "One that",
    "That which",
    "The one",
    "Those",
    "What",
    "Who",
    "Whoever",
    "Whose",
    "Whosoever",
];
/// Openings that often replace a subject, but may also begin a subordinate clause.
const DOUBTFUL: [&str; 4] = ["How", "When", "Where", "Whether"];

/// A comment: lines with the same marker that follow each other.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Comment {
    /// Number of the first line, counted from 1.
    pub(crate) line: usize,
    pub(crate) opening: Opening,
}

/// Beginning of a comment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    /// A clause without a head, with the words that it begins with.
    Headless(&'static str),
    Doubtful,
    Sound,
}

/// Finds the comments of a source.
pub(crate) fn comments(split: &Split) -> Vec<Comment> {
    let mut comments = Vec::new();
    let mut before = None;
    for (index, (code, line)) in split.code.lines().zip(split.comments.lines()).enumerate() {
        let line = line.trim();
        let marker = marker(line);
        let is_after_code = !code.trim().is_empty();
        if let Some(marker) = marker
            && (is_after_code || before != Some(marker))
        {
            let opening = opening(line[marker.len()..].trim_start());
            comments.push(Comment { line: index + 1, opening });
        }
        // A comment that follows code on its line is a comment of its own.
        before = marker.filter(|_| !is_after_code);
    }
    comments
}

/// Finds the comments of a text in another language than Rust. The comments take whole lines, which
/// begin with `marker`. The first line of a script (`#!`) is not a comment.
pub(crate) fn line_comments(text: &str, marker: &str) -> Vec<Comment> {
    let mut comments = Vec::new();
    let mut follows_comment = false;
    for (index, line) in text.lines().enumerate() {
        let words = line.trim().strip_prefix(marker).filter(|words| !words.starts_with('!'));
        if let Some(words) = words
            && !follows_comment
        {
            let opening = opening(words.trim_start());
            comments.push(Comment { line: index + 1, opening });
        }
        follows_comment = words.is_some();
    }
    comments
}

fn marker(line: &str) -> Option<&'static str> {
    ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker))
}

fn opening(text: &str) -> Opening {
    let opens = |words: &&&str| {
        let rest = text.strip_prefix(**words);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    if let Some(words) = HEADLESS.iter().find(opens) {
        Opening::Headless(words)
    } else if DOUBTFUL.iter().any(|words| opens(&words)) {
        Opening::Doubtful
    } else {
        Opening::Sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, Opening)]) {
        let found: Vec<_> = comments(&Split::new(text))
            .iter()
            .map(|comment| (comment.line, comment.opening))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn lines_of_one_kind_are_one_comment() {
        check(
            "//! A.\n//! What.\n\n/// B.\nfn f() {}\n",
            &[(1, Opening::Sound), (4, Opening::Sound)],
        );
        check(
            "// A.\n/// B.\nf(); // C.\n// D.\n",
            &[1, 2, 3, 4].map(|line| (line, Opening::Sound)),
        );
        check("// A.\nf(); // B.\n", &[(1, Opening::Sound), (2, Opening::Sound)]);
        check("f(\"// What\")\n", &[]);
    }

    #[test]
    fn lines_of_other_languages_are_comments() {
        let lines = |text: &str, marker: &str| -> Vec<_> {
            let found = line_comments(text, marker);
            found.iter().map(|comment| (comment.line, comment.opening)).collect()
        };
        let shell = "#!/bin/sh\n# Builds.\n# What else.\nrun # What.\n\n  # What it has.\n";
        assert_eq!(lines(shell, "#"), [(2, Opening::Sound), (6, Opening::Headless("What"))]);
        let sql = "-- Those rows.\nSELECT 1; -- What.\n";
        assert_eq!(lines(sql, "--"), [(1, Opening::Headless("Those"))]);
    }

    #[test]
    fn clauses_without_a_head_are_told() {
        check("/// What the thread has come to.\n", &[(1, Opening::Headless("What"))]);
        check("//! Of which that has told.\n", &[(1, Opening::Headless("Of which"))]);
        check("// The one that is kept.\n", &[(1, Opening::Headless("The one"))]);
        check("/// Whatever.\n", &[(1, Opening::Sound)]);
        check("/// Whether it runs.\n", &[(1, Opening::Doubtful)]);
        check("/// Those_ that.\n", &[(1, Opening::Sound)]);
    }
}
