//! The page in a real browser: Chromium, driven by a script of Node in `browser/`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use super::{binary, start};
use crate::scratch::Scratch;
use crate::skip;

/// Debian's browser.
const CHROMIUM: &str = "/usr/bin/chromium";
/// Time limit of a script. A browser that shares two cores with other tests is slow.
const SCRIPT_MAX: Duration = Duration::from_secs(300);

/// A browser with its scripts.
#[derive(Clone, Debug)]
pub struct Browser {
    node: PathBuf,
    scripts: PathBuf,
}

impl Browser {
    /// Prepares the scripts, once for all tests; `None` if this machine has no browser.
    pub fn new() -> Option<Self> {
        static BROWSER: OnceLock<Option<Browser>> = OnceLock::new();
        BROWSER.get_or_init(prepare).clone()
    }

    /// Plays a script from `browser/plays` with these facts. The test fails if the script does.
    /// Returns what the script says.
    #[track_caller]
    pub fn play(&self, name: &str, facts: &Value) -> Value {
        let scratch = Scratch::new();
        let (home, given) = (scratch.folder("home"), scratch.join("facts.json"));
        fs::write(&given, facts.to_string()).expect("the folder is ours");
        let script = self.scripts.join("play.mjs");
        let arguments: Vec<OsString> = vec![script.into(), name.into(), given.into()];
        let played = start(&self.node, &arguments, &home, None).wait_within(SCRIPT_MAX);
        let last = played.expect(&[0]).stdout;
        let last = last.lines().last().unwrap_or("null");
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{name}: {error}: {last}"))
    }
}

fn prepare() -> Option<Browser> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let node = std::env::split_paths(&paths).map(|folder| folder.join("node"));
    let node = node.into_iter().find(|path| path.is_file());
    let (Some(node), true) = (node, Path::new(CHROMIUM).is_file()) else {
        skip::say("Node or Chromium is missing; '.ci/packages test' installs them");
        return None;
    };
    let scripts = binary().with_file_name("browser");
    copy(&sources, &scripts);
    install(&scripts);
    Some(Browser { node, scripts })
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
