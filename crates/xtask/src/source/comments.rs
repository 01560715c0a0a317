//! The comments of a source file, block by block, and how they begin.

use super::Split;

/// Openings that leave a comment without a subject: a clause takes its place.
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

/// Lines of comments of one kind that follow each other.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Comment {
    /// The first line, from 1.
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
    fn clauses_without_a_head_are_told() {
        check("/// What the thread has come to.\n", &[(1, Opening::Headless("What"))]);
        check("//! Of which that has told.\n", &[(1, Opening::Headless("Of which"))]);
        check("// The one that is kept.\n", &[(1, Opening::Headless("The one"))]);
        check("/// Whatever.\n", &[(1, Opening::Sound)]);
        check("/// Whether it runs.\n", &[(1, Opening::Doubtful)]);
        check("/// Those_ that.\n", &[(1, Opening::Sound)]);
    }
}
