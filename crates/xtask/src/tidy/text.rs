//! Checks of a file's raw text: its length, its header, its characters, and paths that exist on one
//! machine only.

use super::finding::{Finding, Rule};

/// Maximum number of lines in a source file, without its test module.
const FILE_LINES_MAX: usize = 800;
/// Maximum number of columns in a line.
const COLUMNS_MAX: usize = 100;
/// Folders at the root of one machine. Paths below them mean nothing on another machine.
const MACHINE_ROOTS: [&str; 2] = ["work", "root"];
/// Parent of the home folders.
const HOMES: &str = "/home/";
/// Names of users that an example may contain.
const EXAMPLE_USERS: [&str; 8] = ["alice", "ann", "bob", "me", "user", "x", "y", "z"];

pub(crate) fn header(path: &str, text: &str) -> Option<Finding> {
    let opens_well = text.starts_with("//! ");
    let message = "the file does not say what it is, open it with a '//!' header";
    (!opens_well).then(|| Finding::new(path, 1, Rule::Header, message))
}

pub(crate) fn file_lines(path: &str, text: &str) -> Option<Finding> {
    let lines = lines_without_tests(text);
    let message = format!(
        "{lines} lines without the tests, at most {FILE_LINES_MAX}: split the file by noun"
    );
    (lines > FILE_LINES_MAX).then(|| Finding {
        amount: lines as u64,
        ..Finding::new(path, FILE_LINES_MAX + 1, Rule::FileLines, message)
    })
}

/// Returns the number of lines before a test module at the end of the file.
fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let opens_tests = |pair: &[&str]| pair == ["#[cfg(test)]", "mod tests {"];
    let start = lines.windows(2).rposition(opens_tests).unwrap_or(lines.len());
    let close = lines[start..].iter().position(|line| *line == "}");
    if close.is_some_and(|at| start + at + 1 == lines.len()) { start } else { lines.len() }
}

pub(crate) fn columns(path: &str, text: &str) -> Vec<Finding> {
    let message = |columns| format!("{columns} columns, at most {COLUMNS_MAX}: break the line");
    each_line(text, |number, line| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX).then(|| Finding::new(path, number, Rule::Columns, message(columns)))
    })
}

pub(crate) fn blanks(path: &str, text: &str) -> Vec<Finding> {
    each_line(text, |number, line| {
        let message = if line.ends_with([' ', '\r']) {
            "a space or carriage return at the end of the line, remove it"
        } else if line.contains('\t') {
            "a tab, write spaces, or '\\t' in a literal"
        } else {
            return None;
        };
        Some(Finding::new(path, number, Rule::Blanks, message))
    })
}

pub(crate) fn ascii(path: &str, text: &str) -> Vec<Finding> {
    each_line(text, |number, line| {
        let character = line.chars().find(|c| !c.is_ascii())?;
        let message = format!("'{character}' is not ASCII, write {}", character.escape_unicode());
        Some(Finding::new(path, number, Rule::Ascii, message))
    })
}

pub(crate) fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    each_line(text, |number, line| {
        let found = machine_path(line)?;
        let message =
            format!("'{found}' is a path of one machine, write a relative path or an example's");
        Some(Finding::new(path, number, Rule::MachinePath, message))
    })
}

fn machine_path(line: &str) -> Option<String> {
    let roots = MACHINE_ROOTS.iter().map(|root| format!("/{root}/"));
    if let Some(root) = roots.into_iter().find(|root| absolute(line, root).next().is_some()) {
        return Some(root);
    }
    absolute(line, HOMES)
        .map(|after| {
            let of_a_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            after.split(|c| !of_a_name(c)).next().unwrap_or("")
        })
        .find(|name| name.contains(char::is_alphanumeric) && !EXAMPLE_USERS.contains(name))
        .map(|name| format!("{HOMES}{name}"))
}

/// Returns the text after each `folder` in `line` that begins a path. A `folder` in the middle of a
/// path does not count.
fn absolute<'t>(line: &'t str, folder: &'t str) -> impl Iterator<Item = &'t str> {
    line.match_indices(folder).filter_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        let goes_on = before.is_some_and(|c| c.is_alphanumeric() || "._-/})*?]$~".contains(c));
        (!goes_on).then_some(&line[at + folder.len()..])
    })
}

/// Calls `check` with each line and its number, counted from 1, and collects the findings.
fn each_line(text: &str, check: impl Fn(usize, &str) -> Option<Finding>) -> Vec<Finding> {
    let lines = text.split('\n').enumerate();
    lines.filter_map(|(index, line)| check(index + 1, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: impl IntoIterator<Item = Finding>) -> Vec<usize> {
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn files_open_with_their_header() {
        assert_eq!(header("a.rs", "//! What it is.\n"), None);
        assert_eq!(lines(header("a.rs", "// What it is.\n")), [1]);
        assert_eq!(lines(header("a.rs", "\n//! What it is.\n")), [1]);
        assert_eq!(lines(header("a.rs", "")), [1]);
    }

    #[test]
    fn files_have_eight_hundred_lines_at_most() {
        assert_eq!(file_lines("a.rs", &"\n".repeat(799)), None);
        assert_eq!(file_lines("a.rs", &"x\n".repeat(800)), None);
        let found = file_lines("a.rs", &"x\n".repeat(801)).expect("too long");
        assert_eq!((found.line, found.amount), (801, 801));
    }

    #[test]
    fn a_test_module_at_the_end_does_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    x\n".repeat(500));
        assert_eq!(file_lines("a.rs", &format!("{}{tests}", "x\n".repeat(800))), None);
        let found = file_lines("a.rs", &format!("{}{tests}x\n", "x\n".repeat(800)));
        assert_eq!(found.map(|finding| finding.amount), Some(800 + 503 + 1));
        let found = file_lines("a.rs", &format!("{}{tests}", "x\n".repeat(801)));
        assert_eq!(found.map(|finding| finding.amount), Some(801));
    }

    #[test]
    fn lines_have_a_hundred_columns_at_most() {
        let text = format!("{}\n{}\n", "x".repeat(100), "x".repeat(101));
        assert_eq!(lines(columns("a.rs", &text)), [2]);
    }

    #[test]
    fn tabs_and_blanks_at_the_end_are_found() {
        assert_eq!(lines(blanks("a.rs", "a\n\tb\nc \n\nd\r\ne")), [2, 3, 5]);
    }

    #[test]
    fn sources_are_ascii() {
        assert_eq!(lines(ascii("a.rs", "a\n\u{e9}\n")), [2]);
    }

    #[track_caller]
    fn check_path(line: &str, expected: Option<&str>) {
        assert_eq!(machine_path(line).as_deref(), expected, "{line}");
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let [work, root] = MACHINE_ROOTS.map(|root| format!("/{root}/"));
        check_path(&format!("cd {work}tree"), Some(&work));
        check_path(&format!("\"{root}x\""), Some(&root));
        check_path(&format!("{HOMES}joe/x"), Some(&format!("{HOMES}joe")));
        check_path(&format!("PATH={HOMES}j.smith"), Some(&format!("{HOMES}j.smith")));
    }

    #[test]
    fn longer_paths_and_examples_are_not() {
        for line in ["/usr/work/x", "home/root/x", "$HOME/work/x", "a/home/joe", "work/root/"] {
            check_path(line, None);
        }
        for line in ["/home/alice/x", "/home/*/x", "/home/.../x", "/home/", "/home/$USER", "/home"]
        {
            check_path(line, None);
        }
    }
}
