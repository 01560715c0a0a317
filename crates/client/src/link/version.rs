//! Agreement with the server on a protocol.

use tonic::Status;
use wire::proto;
use wire::version::{self, Agreement, PROTOCOL, Role, Speaker};

use crate::{ClientError, ErrorKind};

/// Version of this program.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Returns the greeting of this client.
pub(super) fn greeting() -> proto::HelloRequest {
    let (clock, host) = (Some(sys::clock::system().0), sys::net::host_name());
    proto::HelloRequest { clock, host, ..Speaker::own(Role::Client, PROGRAM).request() }
}

/// Agrees on a protocol with the server that sent `reply`.
pub(super) fn settle(reply: &proto::HelloReply) -> Result<Agreement, ClientError> {
    let own = Speaker::own(Role::Client, PROGRAM);
    version::settle(&own, &Speaker::server(reply))
        .map_err(|error| ClientError::new(ErrorKind::Usage, error.to_string()))
}

/// Returns the error for a part of the server's answer that this client does not know. `server` is
/// the version of the server's program.
pub(super) fn unknown_from(server: &str, part: &str) -> ClientError {
    let message = format!(
        "server {server} sent {part} that client {PROGRAM} does not know; upgrade the client"
    );
    ClientError::new(ErrorKind::Usage, message)
}

/// Returns the message for a call or a message that the server does not know.
pub(crate) fn unknown(status: &Status) -> String {
    match status.message() {
        // A server of protocol 2 or newer names itself.
        "" => format!(
            "a server of protocol 1 does not know a call of client {PROGRAM}, which speaks \
             protocol {PROTOCOL}; upgrade the server"
        ),
        text => format!("{text} (client {PROGRAM}, protocol {PROTOCOL})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_a_server_does_not_know_names_both_versions() {
        let of_first_protocol = unknown(&Status::unimplemented(""));
        assert!(of_first_protocol.contains("a server of protocol 1"), "{of_first_protocol}");
        let of_server = "server 0.7.0 does not know a call of this client; upgrade the server";
        let of_later_protocol = unknown(&Status::unimplemented(of_server));
        assert!(of_later_protocol.starts_with(of_server), "{of_later_protocol}");
        for text in [of_first_protocol, of_later_protocol] {
            assert!(text.contains(&format!("client {PROGRAM}")), "{text}");
            assert!(text.contains("upgrade the server"), "{text}");
        }
    }
}
