//! Checks of the English: comments that have a subject, and one spelling.

use super::finding::{Finding, Rule};
use crate::source::{Opening, Split, comments};

/// The spelling that only a command has; everything else is spelt `enrol`.
const COMMAND: &str = "enroll";
/// Endings that both spellings share.
const SHARED_ENDINGS: [&str; 3] = ["ed", "er", "ing"];
/// Texts around the word that make it the command's name.
const BEFORE_COMMAND: [&str; 6] = ["`", "\"", "'", "holdfast ", "mod ", "$0 "];

pub(crate) fn headless(path: &str, split: &Split) -> Vec<Finding> {
    let found = comments(split).into_iter().filter_map(|comment| {
        let Opening::Headless(words) = comment.opening else { return None };
        let message = format!("a comment opens with '{words}' and has no subject, name its thing");
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

/// True for the variant and the module that stand for the command, as in `Enroll(enroll::Args)`.
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

    /// `@` in `line` stands for the word.
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
