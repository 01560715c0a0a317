//! An enrolled node with a home of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Outcome, Process, Server, binary, start};
use crate::scratch::Scratch;

#[derive(Debug)]
pub struct Node {
    pub name: String,
    home: PathBuf,
    program: PathBuf,
    uid: Option<u32>,
    /// Folder that contains the home. It is removed with the node.
    _scratch: Scratch,
}

impl Node {
    /// Registers `name` at `server` and enrols it.
    #[track_caller]
    pub fn enrol(server: &Server, name: &str) -> Self {
        Self::enrol_as(server, name, None)
    }

    /// Enrols a node that is registered already, with its token.
    #[track_caller]
    pub fn enrol_with(server: &Server, name: &str, token: &str) -> Self {
        let scratch = Scratch::new();
        let home = scratch.folder("home");
        let node =
            Self { name: name.to_owned(), home, program: binary(), uid: None, _scratch: scratch };
        node.enrol_at(&server.address(), token);
        node
    }

    /// Enrols as [`Self::enrol`] does, with a client that runs as `uid`.
    #[track_caller]
    pub fn enrol_as(server: &Server, name: &str, uid: Option<u32>) -> Self {
        let scratch = Scratch::new();
        let home = scratch.folder("home");
        let mut program = binary();
        if let Some(uid) = uid {
            // Another user cannot run a program in the home folder of a user.
            let copy = scratch.join("holdfast");
            std::fs::copy(&program, &copy)
                .unwrap_or_else(|error| panic!("cannot copy the program: {error}"));
            program = copy;
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(scratch.path(), open).expect("the folder is ours");
            chown(&home, Some(uid), Some(uid)).expect("only root runs a client as another user");
        }
        let node = Self { name: name.to_owned(), home, program, uid, _scratch: scratch };
        node.enrol_at(&server.address(), &server.token(name));
        node
    }

    /// Enrols the node at the servers with these addresses.
    #[track_caller]
    ///
    /// Its commands do not wait for a server that is away, so that a test of such a server is
    /// short. A test of the wait gives `--wait`, or calls [`Self::wait_by_default`].
    pub fn enrol_at(&self, addresses: &str, token: &str) {
        self.run(&["enroll", addresses, "--token", token]).expect(&[0]);
        self.change_settings(|settings| format!("wait = \"0\"\n{settings}"));
    }

    /// Makes the commands wait for a server as those of every node do.
    pub fn wait_by_default(&self) {
        self.change_settings(|settings| settings.replace("wait = \"0\"\n", ""));
    }

    fn change_settings(&self, change: impl FnOnce(String) -> String) {
        let path = self.home.join("client.toml");
        let settings = std::fs::read_to_string(&path).expect("the node is enrolled");
        std::fs::write(&path, change(settings)).expect("the settings can be written");
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Runs a command, with `--home` added, to its end.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Outcome {
        self.spawn(arguments).wait()
    }

    /// Starts a command, with `--home` added after the subcommand.
    pub fn spawn<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Process {
        let mut all: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        assert!(!all.is_empty(), "a command must have a subcommand");
        all.splice(1..1, ["--home".into(), self.home.clone().into()]);
        start(&self.program, &all, &self.home, self.uid)
    }

    /// Runs `backup PATH --json` with further `options`.
    #[track_caller]
    pub fn backup(&self, path: &Path, options: &[&str]) -> Outcome {
        self.spawn_backup(path, options).wait()
    }

    /// Starts the node's agent. Lines of its log that nobody reads are dropped with it.
    pub fn spawn_agent(&self) -> Process {
        self.spawn(&["agent", "run"])
    }

    pub fn spawn_backup(&self, path: &Path, options: &[&str]) -> Process {
        self.spawn(&with_options(&["backup".as_ref(), path.as_os_str()], options))
    }

    /// Runs `restore PATH --to FOLDER --json` with further `options`.
    #[track_caller]
    pub fn restore(&self, path: &Path, folder: &Path, options: &[&str]) -> Outcome {
        self.spawn_restore(path, folder, options).wait()
    }

    pub fn spawn_restore(&self, path: &Path, folder: &Path, options: &[&str]) -> Process {
        let fixed = ["restore".as_ref(), path.as_os_str(), "--to".as_ref(), folder.as_os_str()];
        self.spawn(&with_options(&fixed, options))
    }

    /// Runs `list PATH --json` with further `options` and returns the rows.
    #[track_caller]
    pub fn list(&self, path: &Path, options: &[&str]) -> Vec<Value> {
        let fixed = ["list".as_ref(), path.as_os_str()];
        self.run(&with_options(&fixed, options)).expect(&[0]).json_lines()
    }

    /// Runs `verify --data --json`.
    #[track_caller]
    pub fn verify(&self) -> Outcome {
        self.run(&["verify", "--data", "--json"])
    }
}

/// Runs `enroll` with the home `home`, which may not exist yet.
pub fn enrol(home: &Path, address: &str, token: &str) -> Outcome {
    start_enrolment(home, address, token, &[]).wait()
}

/// Starts `enroll` with further `options` and the home `home`, which may not exist yet.
pub fn start_enrolment(home: &Path, address: &str, token: &str, options: &[&str]) -> Process {
    let words = [&["enroll", address, "--token", token], options].concat();
    start_with_home(home, &words)
}

/// Starts a command of the node in the folder `home`.
pub fn start_with_home(home: &Path, words: &[&str]) -> Process {
    let words = words.iter().map(OsString::from);
    let arguments: Vec<_> = words.chain(["--home".into(), home.into()]).collect();
    start(&binary(), &arguments, home, None)
}

fn with_options(fixed: &[&OsStr], options: &[&str]) -> Vec<OsString> {
    let options = options.iter().map(OsString::from);
    fixed
        .iter()
        .map(OsString::from)
        .chain(options)
        .chain(["--json".into()])
        .collect()
}
