//! Third-party virtual libraries. Each is started for one test, and ends with the test, even if the
//! test fails.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tape::address::Address;
use tape::transport::ScsiTransport;

/// Maximum time until a server listens.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);

/// A server that is killed when this value is dropped, or when the test dies.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only for a process that has been waited for.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns true if a test of a third-party server is left out; prints the reason.
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
        println!("test left out: {reason}");
    }
    reason.is_some()
}

fn is_installed(program: &str) -> bool {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    folders.iter().any(|folder| Path::new(folder).join(program).is_file())
}

/// Returns a port on which nobody listens. If another process takes the port before the server
/// does, the server does not start, and the test reports that.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("the socket is bound").port()
}

/// Starts a server that stays in the foreground, and waits until it listens on `port`. The kernel
/// kills the server when the thread of the test ends.
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
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("the program is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

pub(crate) fn open(port: u16, target: &str, lun: u16) -> Box<dyn ScsiTransport> {
    let address = format!("iscsi://127.0.0.1:{port}/{target}/{lun}");
    let address: Address = address.parse().expect("an address");
    address.open().unwrap_or_else(|error| panic!("{address}: {error}"))
}
