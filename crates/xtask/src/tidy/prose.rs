//! Checks of the English: comments must have a subject, and one word has only one spelling.

use super::finding::{Finding, Rule};
use crate::source::{Comment, Opening, Split, comments, line_comments};

/// The spelling of the command's name. All other text has the spelling `enrol`.
const COMMAND: &str = "enroll";
/// Endings that both spellings share.
const SHARED_ENDINGS: [&str; 3] = ["ed", "er", "ing"];
/// Texts before the word that mark it as the command's name.
const BEFORE_COMMAND: [&str; 6] = ["`", "\"", "'", "holdfast ", "mod ", "$0 "];

/// Starts of the comments in files of other languages than Rust, by the end of the path.
const MARKERS: [(&str, &str); 3] = [(".proto", "//"), (".sql", "--"), (".sh", "#")];

/// Checks the comments of a Rust file.
pub(crate) fn headless(path: &str, split: &Split) -> Vec<Finding> {
    without_subject(path, comments(split))
}

/// Checks the comments of a file in another language: Protocol Buffers, SQL or a shell.
pub(crate) fn headless_lines(path: &str, text: &str) -> Vec<Finding> {
    let by_path = MARKERS.iter().find(|(end, _)| path.ends_with(end)).map(|(_, marker)| *marker);
    match by_path.or_else(|| is_shell(text).then_some("#")) {
        Some(marker) => without_subject(path, line_comments(text, marker)),
        None => Vec::new(),
    }
}

/// Returns true for a script whose first line names a shell.
fn is_shell(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.starts_with("#!") && first.split([' ', '/']).any(|word| ["bash", "sh"].contains(&word))
}

fn without_subject(path: &str, comments: Vec<Comment>) -> Vec<Finding> {
    let found = comments.into_iter().filter_map(|comment| {
        let Opening::Headless(words) = comment.opening else { return None };
        let message = format!("a comment opens with '{words}' and has no subject, name the thing");
        Some(Finding::new(path, comment.line, Rule::Headless, message))
    });
    found.collect()
}

pub(crate) fn spelling(path: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    let misspelt = lines.filter(|(_, line)| is_misspelt(line));
    misspelt
        .map(|(index, _)| {
            let message = format!("'{COMMAND}' is a command's name only, write 'enrol'");
            Finding::new(path, index + 1, Rule::Spelling, message)
        })
        .collect()
}

fn is_misspelt(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.match_indices(COMMAND).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + COMMAND.len()..]);
        let is_shared = SHARED_ENDINGS.iter().any(|ending| after.starts_with(ending));
        let goes_on = after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_command = !goes_on
            && (BEFORE_COMMAND.iter().any(|start| before.ends_with(start))
                || is_of_the_command_line(before, after));
        !is_shared && !is_command
    })
}

/// Returns true for the variant and the module that stand for the command, as in
/// `Enroll(enroll::Args)`.
fn is_of_the_command_line(before: &str, after: &str) -> bool {
    after.starts_with("::") || (after.starts_with('(') && is_type_like(before))
}

fn is_type_like(before: &str) -> bool {
    before.ends_with("Command::") || before.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_their_subject() {
        let found = headless("a.rs", &Split::new("/// What it has.\nfn f() {}\n/// Its size.\n"));
        assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn comments_of_other_languages_name_their_subject() {
        let lines = |path: &str, text: &str| -> Vec<_> {
            headless_lines(path, text).iter().map(|found| found.line).collect()
        };
        assert_eq!(lines("a.proto", "// A node.\nmessage Node {\n  // What it has.\n}\n"), [3]);
        assert_eq!(lines("a.sql", "-- What was done.\nSELECT 1;\n-- Rows.\n"), [1]);
        assert_eq!(lines("a.sh", "# Whoever asks.\n"), [1]);
        assert_eq!(lines("a/script", "#!/usr/bin/env bash\n# What it does.\ntrue\n"), [2]);
        assert!(lines("a.md", "# What this is\n").is_empty());
        assert!(lines("a.toml", "# What this is\n").is_empty());
    }

    /// Checks `line`, in which `@` stands for the word.
    #[track_caller]
    fn check_line(line: &str, refused: bool) {
        let line = line.replace('@', COMMAND);
        assert_eq!(!spelling("a.md", &line).is_empty(), refused, "{line}");
    }

    #[test]
    fn one_spelling_is_used_but_for_the_command() {
        check_line("it can @ once", true);
        check_line("fn @(server: &Server)", true);
        check_line("Node::@(&server)", true);
        check_line("an @ment", true);
        check_line("run 'holdfast @ HOST'", false);
        check_line("the command `@`", false);
        check_line("    Command::@(args) => @::run(args),", false);
        check_line("it is @ed, and @ing", false);
        check_line("enrol, enrolment", false);
    }
}
