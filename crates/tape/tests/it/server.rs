//! Virtual libraries of others, started for a test and ended with it, however it ends.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tape::address::Address;
use tape::transport::ScsiTransport;

/// Time that a server has to begin listening.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);

/// A server that is killed when this is dropped, or when the test dies.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only for a process that has been waited for.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// True if a test of a third-party server is left out; a line gives the reason.
#[expect(clippy::print_stdout, reason = "it is what a test says")]
pub(crate) fn is_missing(programs: &[&str]) -> bool {
    let reason = if !sys::process::is_root() {
        Some("root is needed".to_owned())
    } else if !sys::iscsi::is_available() {
        Some("libiscsi7 is not installed".to_owned())
    } else {
        let absent = programs.iter().find(|program| !is_installed(program));
        absent.map(|program| format!("{program} is not installed"))
    };
    if let Some(reason) = &reason {
        println!("left out: {reason}");
    }
    reason.is_some()
}

fn is_installed(program: &str) -> bool {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    folders.iter().any(|folder| Path::new(folder).join(program).is_file())
}

/// A port that nobody listens at. Somebody may take it before the server does; then the server
/// does not start, and the test says so.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Starts a server that stays in the foreground, and waits until it listens at `port`. The kernel
/// kills it when the thread that tests ends.
pub(crate) fn start(program: &str, arguments: &[&str], port: u16) -> Server {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("setpriv is part of every Debian");
    let mut server = Server(child);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let end = sys::clock::monotonic() + START_MAX;
    while TcpStream::connect_timeout(&address, LOOK).is_err() {
        let ended = server.0.try_wait().expect("a child");
        assert!(ended.is_none(), "the server has ended: {ended:?}");
        assert!(sys::clock::monotonic() < end, "the server does not listen");
        sys::clock::sleep(LOOK);
    }
    server
}

/// Runs a command that must succeed.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

pub(crate) fn open(port: u16, target: &str, lun: u16) -> Box<dyn ScsiTransport> {
    let address = format!("iscsi://127.0.0.1:{port}/{target}/{lun}");
    let address: Address = address.parse().expect("an address");
    address.open().unwrap_or_else(|error| panic!("{address}: {error}"))
}
