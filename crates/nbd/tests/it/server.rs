//! Servers of others. A server ends with its test, even if the test fails.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nbd::{Endpoint, Export, Uri};
use tempfile::TempDir;

/// Maximum time until a server listens.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// Returns true if a test is left out because the `program` of a package is missing; prints that.
#[expect(clippy::print_stdout, reason = "it is what a test says")]
pub(crate) fn is_missing(program: &str, package: &str) -> bool {
    let started = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let is_missing = started.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_missing {
        println!("skipped: {program} is not installed (Debian package {package})");
    }
    is_missing
}

/// A running nbdkit.
pub(crate) struct Nbdkit {
    child: Child,
    folder: TempDir,
}

impl Nbdkit {
    /// Starts a server on a private socket; `None` if nbdkit is not installed.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        if is_missing("nbdkit", "nbdkit") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let mut command = Command::new("nbdkit");
        command.arg("--unix").arg(socket).args(arguments);
        Some(Self::spawn(command, folder))
    }

    /// Starts a server on a port of this machine.
    pub(crate) fn start_on_port(port: u16, arguments: &[&str]) -> Option<Self> {
        if is_missing("nbdkit", "nbdkit") {
            return None;
        }
        let mut command = Command::new("nbdkit");
        command
            .args(["--ipaddr", "127.0.0.1", "--port", &port.to_string()])
            .args(arguments);
        Some(Self::spawn(command, tempfile::tempdir().expect("a folder")))
    }

    fn spawn(mut command: Command, folder: TempDir) -> Self {
        let listening = folder.path().join("pid");
        command
            .args(["--foreground", "--exit-with-parent", "--pidfile"])
            .arg(&listening);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { child: command.spawn().expect("it is installed"), folder };
        let end = sys::clock::monotonic() + START_MAX;
        while !std::fs::metadata(&listening).is_ok_and(|status| status.len() > 0) {
            let ended = server.child.try_wait().expect("a child");
            assert!(ended.is_none(), "the server has ended: {command:?}");
            assert!(sys::clock::monotonic() < end, "the server does not listen");
            sys::clock::sleep(LOOK);
        }
        server
    }

    /// Returns the address of an export on the private socket.
    pub(crate) fn uri(&self, export: &str) -> Uri {
        let endpoint = Endpoint::Unix(self.folder.path().join("socket"));
        Uri { endpoint, export: export.as_bytes().to_vec() }
    }

    /// Opens the default export, with the context of allocation.
    #[track_caller]
    pub(crate) fn open(&self) -> Export {
        let opened = Export::connect(&self.uri(""), &[nbd::ALLOCATION_CONTEXT]);
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Kills the server, as a crash does.
    pub(crate) fn end(&mut self) {
        // Both calls fail only for a process that has been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns `path` as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is UTF-8")
}

/// Returns bytes that differ at each place.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
