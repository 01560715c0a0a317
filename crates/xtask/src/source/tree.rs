//! The files of the tree: those that git tracks, and those that git neither tracks nor ignores.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::syntax::Syntax;

/// A text file of the tree.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Path from the root of the tree, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The files of a tree, and the syntax of the Rust files.
pub(crate) struct Tree<'t> {
    pub(crate) files: &'t [SourceFile],
    /// Syntax of the Rust files, by path.
    pub(crate) syntax: BTreeMap<&'t str, Syntax>,
}

impl<'t> Tree<'t> {
    /// Parses the crates' files; a file that does not parse has no syntax.
    pub(crate) fn parse(files: &'t [SourceFile]) -> Self {
        let sources = files
            .iter()
            .filter(|file| file.path.starts_with("crates/") && file.path.ends_with(".rs"));
        let syntax = sources
            .filter_map(|file| Some((file.path.as_str(), Syntax::parse(&file.text)?)))
            .collect();
        Self { files, syntax }
    }

    /// Returns the folders of the crates, `crates/NAME`.
    pub(crate) fn crates(&self) -> BTreeSet<&'t str> {
        let manifests = self.files.iter().filter_map(|file| {
            let folder = file.path.strip_suffix("/Cargo.toml")?;
            (folder.starts_with("crates/") && folder.matches('/').count() == 1).then_some(folder)
        });
        manifests.collect()
    }
}

/// Reads every text file of the tree that contains `folder`. Files that are not UTF-8 (golden
/// files, pictures) and files deleted from the work tree are left out.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<SourceFile>> {
    let root = root(folder)?;
    let listed = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"], &root)?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    // Git lists a path with a merge conflict more than once.
    paths.sort_unstable();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        if let Some(text) = read_text(&root.join(path))? {
            files.push(SourceFile { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

/// Returns the root of the tree that contains `folder`.
pub(crate) fn root(folder: &Path) -> io::Result<PathBuf> {
    let root = git(&["rev-parse", "--show-toplevel"], folder)?;
    Ok(PathBuf::from(root.trim_end_matches('\n')))
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) => match error.kind() {
            // A deleted file, or a link to a folder.
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => Ok(None),
            _ => Err(io::Error::other(format!("cannot read {}: {error}", path.display()))),
        },
    }
}

fn git(arguments: &[&str], folder: &Path) -> io::Result<String> {
    let command = format!("git {}", arguments.join(" "));
    let output = Command::new("git")
        .current_dir(folder)
        .args(arguments)
        .output()
        .map_err(|error| io::Error::other(format!("cannot run '{command}': {error}")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("'{command}' failed: {}", message.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
