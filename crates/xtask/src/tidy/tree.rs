//! Reading the tree: what git tracks, and what it neither tracks nor ignores.

use std::io;
use std::path::Path;
use std::process::Command;

/// A text file of the tree.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Relative to the root of the tree, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads every text file of the tree that the current folder lies in. Files that are not UTF-8
/// (golden files, pictures) and files deleted from the work tree are left out.
pub(crate) fn read() -> io::Result<Vec<SourceFile>> {
    let root = git(&["rev-parse", "--show-toplevel"], Path::new("."))?;
    let root = Path::new(root.trim_end_matches('\n'));
    let listed = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"], root)?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    // A path in conflict is listed once for each side.
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

fn read_text(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) => match error.kind() {
            // A deleted file, or a link to a folder.
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => Ok(None),
            _ => Err(io::Error::other(format!("reading {}: {error}", path.display()))),
        },
    }
}

fn git(arguments: &[&str], folder: &Path) -> io::Result<String> {
    let command = format!("git {}", arguments.join(" "));
    let output = Command::new("git")
        .current_dir(folder)
        .args(arguments)
        .output()
        .map_err(|error| io::Error::other(format!("{command}: {error}")))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{command}: {}", told.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
