//! The page in a real browser: Chromium, driven by a script of Node in `browser/`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use super::scripts::Scripts;
use super::{Process, start};
use crate::clock;
use crate::scratch::Scratch;
use crate::skip;

/// Debian's browser.
const CHROMIUM: &str = "/usr/bin/chromium";
/// Time limit of a script, which only a fault reaches. A browser beside other tests is slow.
const SCRIPT_MAX: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(50);

/// A browser with its scripts.
#[derive(Clone, Debug)]
pub struct Browser {
    scripts: Scripts,
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
        self.begin(name, facts).end()
    }

    /// Begins to play a script, so that the test goes on beside it.
    pub fn begin(&self, name: &str, facts: &Value) -> Play {
        let scratch = Scratch::new();
        let (home, given) = (scratch.folder("home"), scratch.join("facts.json"));
        fs::write(&given, facts.to_string()).expect("the folder is ours");
        let script = self.scripts.folder.join("play.mjs");
        let arguments: Vec<OsString> = vec![script.into(), name.into(), given.into()];
        let process = start(&self.scripts.node, &arguments, &home, None);
        Play { process, name: name.to_owned(), _scratch: scratch }
    }
}

/// A script that is played.
#[derive(Debug)]
pub struct Play {
    process: Process,
    name: String,
    /// Folder with the facts. It is removed with this value.
    _scratch: Scratch,
}

impl Play {
    /// Waits until the script has made the file `mark`, or has ended; [`Self::end`] says how.
    #[track_caller]
    pub fn wait_for(&self, mark: &Path) {
        let deadline = clock::now() + SCRIPT_MAX;
        while !mark.is_file() && !self.process.ends_within(LOOK) {
            assert!(clock::now() < deadline, "{} does not make {}", self.name, mark.display());
        }
    }

    /// Waits for the end of the script, and returns what the script says.
    #[track_caller]
    pub fn end(self) -> Value {
        let Self { process, name, _scratch } = self;
        let last = process.wait_within(SCRIPT_MAX).expect(&[0]).stdout;
        let last = last.lines().last().unwrap_or("null");
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{name}: {error}: {last}"))
    }
}

fn prepare() -> Option<Browser> {
    if !Path::new(CHROMIUM).is_file() {
        skip::say("Chromium is missing; '.ci/packages test' installs it");
        return None;
    }
    Some(Browser { scripts: Scripts::prepare("browser")? })
}
