//! A service manager that has started the server, as systemd does.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use e2e::harness::Server;
use e2e::scratch::Scratch;

/// Time limit for one notice.
const NOTICE_MAX: Duration = Duration::from_secs(120);

fn notice(notices: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let count = notices.recv(&mut bytes).expect("the server tells its state in time");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn a_service_manager_learns_that_the_server_is_ready_and_that_it_stops() {
    let scratch = Scratch::new();
    let socket = scratch.join("notices");
    let notices = UnixDatagram::bind(&socket).expect("the socket is new");
    notices.set_read_timeout(Some(NOTICE_MAX)).expect("it is no zero");
    let environment = [format!("NOTIFY_SOCKET={}", socket.display())];
    let mut server = Server::start_in(&environment, &scratch.join("server"), &[]);
    let ready = notice(&notices);
    let expected = format!("READY=1\nSTATUS=ready on {}\n", server.address());
    assert_eq!(ready, expected);
    server.terminate().expect(&[0]);
    assert_eq!(notice(&notices), "STOPPING=1\n");
}
