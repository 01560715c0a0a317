//! Links from one document of the tree to another.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::finding::{Finding, Rule};
use crate::source::SourceFile;

/// Checks that each relative link of a document leads to a file or folder of the tree, and each
/// anchor to a heading.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    documents.flat_map(|file| of_one_document(file, files)).collect()
}

fn of_one_document(file: &SourceFile, files: &[SourceFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in prose(&file.text) {
        for target in targets(line).filter(|target| !leads(file, target, files)) {
            let message = format!("the link '{target}' leads nowhere, correct it");
            found.push(Finding::new(&file.path, index + 1, Rule::Links, message));
        }
    }
    found
}

/// The numbered lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of the relative links in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn leads(from: &SourceFile, target: &str, files: &[SourceFile]) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    if path.is_empty() {
        return has_heading(&from.text, anchor);
    }
    let folder = Path::new(&from.path).parent().unwrap_or(Path::new(""));
    let Some(path) = plain(&folder.join(path)) else { return false };
    match files.iter().find(|file| Path::new(&file.path) == path) {
        Some(file) => anchor.is_empty() || has_heading(&file.text, anchor),
        // Pictures and folders are not among the files that are read.
        None => anchor.is_empty() && exists(&path, files),
    }
}

fn exists(path: &Path, files: &[SourceFile]) -> bool {
    files.iter().any(|file| Path::new(&file.path).starts_with(path))
        || path.extension().is_some_and(|end| end == "png")
}

/// `path` without `.` and `..`; `None` for a path outside the tree.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => plain.pop().then_some(())?,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// True if a heading of the document has this anchor, as GitHub makes them.
fn has_heading(text: &str, anchor: &str) -> bool {
    let lines = prose(text).map(|(_, line)| line).filter(|line| line.starts_with('#'));
    let headings = lines.map(|line| line.trim_start_matches('#').trim());
    let anchors: BTreeSet<String> = headings.map(slug).collect();
    anchor.is_empty() || anchors.contains(anchor)
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_link(link: &str, leads: bool) {
        let file =
            |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("docs/a.md", &format!("# Own: `heading`\n\nSee [it]({link}).\n")),
            file("docs/guide/b.md", "# B\n\n## When something fails\n"),
            file("crates/pool/src/lib.rs", "//! Pools.\n"),
        ];
        assert_eq!(check(&files).is_empty(), leads, "{link}");
    }

    #[test]
    fn links_lead_to_files_folders_and_headings() {
        check_link("guide/b.md", true);
        check_link("guide/b.md#when-something-fails", true);
        check_link("#own-heading", true);
        check_link("../crates/pool/src/lib.rs", true);
        check_link("guide/", true);
        check_link("https://example.org/x", true);
        check_link("guide/c.md", false);
        check_link("guide/b.md#elsewhere", false);
        check_link("#elsewhere", false);
        check_link("../../etc/passwd", false);
    }

    #[test]
    fn links_in_code_are_text() {
        let text = "```text\n[it](nowhere.md)\n```\n".to_owned();
        assert_eq!(check(&[SourceFile { path: "a.md".to_owned(), text }]), []);
    }
}
