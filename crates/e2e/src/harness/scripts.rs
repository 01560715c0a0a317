//! Scripts of Node, with their packages of npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::binary;
use crate::skip;

/// A folder of scripts that is ready.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    /// The program that plays them.
    pub(super) node: PathBuf,
    pub(super) folder: PathBuf,
}

impl Scripts {
    /// Prepares the scripts in the folder `name` of this crate; `None` if this machine lacks Node.
    pub(super) fn prepare(name: &str) -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let mut programs = std::env::split_paths(&paths).map(|folder| folder.join("node"));
        let Some(node) = programs.find(|path| path.is_file()) else {
            skip::say("Node is missing; '.ci/packages test' installs it");
            return None;
        };
        let folder = binary().with_file_name(name);
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name), &folder);
        install(&folder);
        Some(Self { node, folder })
    }
}

/// Copies the scripts beside the program, because a test writes nothing in the source tree.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap_or_else(|error| panic!("cannot make {to:?}: {error}"));
    let entries =
        fs::read_dir(from).unwrap_or_else(|error| panic!("cannot read {from:?}: {error}"));
    for entry in entries.map(|entry| entry.expect("the folder is readable")) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == "node_modules" {
            continue;
        }
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target)
                .unwrap_or_else(|error| panic!("cannot copy {path:?}: {error}"));
        }
    }
}

/// Installs the packages of the lock file, unless they are there from an earlier run.
fn install(folder: &Path) {
    let (lock, note) = (folder.join("package-lock.json"), folder.join("installed"));
    let wanted = fs::read(&lock).expect("the lock file was copied");
    if fs::read(&note).is_ok_and(|installed| installed == wanted) {
        return;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(folder);
    let output = npm.output().unwrap_or_else(|error| panic!("cannot run npm: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "npm ci in {folder:?}: {error}");
    fs::write(&note, wanted).expect("the folder is ours");
}
