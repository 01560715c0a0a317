//! Versions of the protocol, and the agreement of two programs that greet each other.
//!
//! 1. Each side names the newest protocol that it speaks, the oldest that it understands, and its
//!    capabilities. Both sides settle on the lower of the two newest protocols.
//! 2. A peer that names no protocol speaks protocol 1, which had no greeting of this kind. It has
//!    the capabilities that came with protocol 1.
//! 3. A release understands the protocol of the release before, so a server serves clients that are
//!    one version older or newer.

use std::fmt;

use crate::proto::{Capability, HelloReply, HelloRequest};

/// Newest protocol that this program speaks.
pub const PROTOCOL: u32 = 2;

/// Oldest protocol that this program understands.
pub const PROTOCOL_OLDEST: u32 = 1;

/// Protocol of a peer that names no protocol.
const PROTOCOL_UNNAMED: u32 = 1;

/// Capabilities of this program.
const CAPABILITIES: [Capability; 3] =
    [Capability::Arrivals, Capability::RawCheck, Capability::ReadRules];

/// Capabilities of a peer that names no protocol.
const CAPABILITIES_UNNAMED: [Capability; 2] = [Capability::Arrivals, Capability::RawCheck];

/// Role of a program in a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Client,
    Server,
}

/// One side of a greeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Speaker {
    pub role: Role,
    /// Version of the program, for people.
    pub program: String,
    /// Newest protocol that the program speaks.
    pub protocol: u32,
    /// Oldest protocol that the program understands.
    pub oldest: u32,
    pub capabilities: Vec<Capability>,
}

/// Protocol and capabilities on which two programs have agreed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// Protocol that both sides speak.
    pub protocol: u32,
    /// Capabilities that both sides have.
    capabilities: Vec<Capability>,
}

/// Two programs without a common protocol.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{newer} understands protocol {oldest} and newer, but {older}; upgrade the {}",
    .older.role
)]
pub struct Incompatibility {
    /// Speaker that has to be upgraded.
    pub older: Box<Speaker>,
    newer: String,
    oldest: u32,
}

impl Speaker {
    /// Describes this program in `role`.
    pub fn own(role: Role, program: &str) -> Self {
        Self {
            role,
            program: program.to_owned(),
            protocol: PROTOCOL,
            oldest: PROTOCOL_OLDEST,
            capabilities: CAPABILITIES.to_vec(),
        }
    }

    /// Reads the greeting of a client.
    pub fn client(request: &HelloRequest) -> Self {
        Self {
            role: Role::Client,
            program: request.client_version.clone(),
            protocol: request.protocol,
            oldest: request.oldest_protocol,
            capabilities: request.capabilities().collect(),
        }
        .or_unnamed()
    }

    /// Reads the answer of a server.
    pub fn server(reply: &HelloReply) -> Self {
        Self {
            role: Role::Server,
            program: reply.server_version.clone(),
            protocol: reply.protocol,
            oldest: reply.oldest_protocol,
            capabilities: reply.capabilities().collect(),
        }
        .or_unnamed()
    }

    /// Completes a peer that names no protocol.
    fn or_unnamed(mut self) -> Self {
        if self.protocol == 0 {
            self.protocol = PROTOCOL_UNNAMED;
            self.oldest = PROTOCOL_UNNAMED;
            self.capabilities = CAPABILITIES_UNNAMED.to_vec();
        }
        // An unknown capability of a newer peer does not count, and a capability counts once.
        self.capabilities.retain(|capability| *capability != Capability::Unspecified);
        self.capabilities.sort_unstable();
        self.capabilities.dedup();
        self
    }

    /// Returns the request by which this speaker greets as a client.
    pub fn request(&self) -> HelloRequest {
        assert_eq!(self.role, Role::Client, "only a client greets first");
        HelloRequest {
            client_version: self.program.clone(),
            protocol: self.protocol,
            oldest_protocol: self.oldest,
            capabilities: self.capability_numbers(),
            clock: None,
            host: String::new(),
        }
    }

    /// Returns the capabilities as they stand in a message.
    pub fn capability_numbers(&self) -> Vec<i32> {
        self.capabilities.iter().map(|capability| i32::from(*capability)).collect()
    }
}

impl Agreement {
    /// Returns true if both sides have `capability`.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

/// Finds the protocol and the capabilities that `own` and `peer` have in common.
pub fn settle(own: &Speaker, peer: &Speaker) -> Result<Agreement, Incompatibility> {
    for (older, newer) in [(own, peer), (peer, own)] {
        if older.protocol < newer.oldest {
            let oldest = newer.oldest;
            let newer = format!("{} {}", newer.role, newer.program);
            return Err(Incompatibility { older: Box::new(older.clone()), newer, oldest });
        }
    }
    let common = own.capabilities.iter().filter(|own| peer.capabilities.contains(own));
    let agreement = Agreement {
        protocol: own.protocol.min(peer.protocol),
        capabilities: common.copied().collect(),
    };
    assert!(agreement.protocol >= own.oldest, "the protocol is one that both sides understand");
    Ok(agreement)
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} speaks protocol {}", self.role, self.program, self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaker(role: Role, protocol: u32, oldest: u32) -> Speaker {
        let program = format!("0.{protocol}.0");
        Speaker { role, program, protocol, oldest, capabilities: vec![Capability::Arrivals] }
    }

    /// Checks the agreement between a server that understands protocols 2 and 3 and a client that
    /// understands protocols `oldest` to `protocol`.
    #[track_caller]
    fn check(protocol: u32, oldest: u32, expected: Result<u32, &str>) {
        let (server, client) =
            (speaker(Role::Server, 3, 2), speaker(Role::Client, protocol, oldest));
        let agreement = settle(&server, &client);
        let seen_from_client = settle(&client, &server);
        assert_eq!(agreement, seen_from_client, "both sides come to the same result");
        match expected {
            Ok(protocol) => {
                let agreement = agreement.expect("they understand each other");
                assert_eq!(agreement.protocol, protocol);
                assert!(agreement.has(Capability::Arrivals));
                assert!(!agreement.has(Capability::RawCheck));
            }
            Err(text) => {
                let error = agreement.expect_err("they do not understand each other");
                assert_eq!(error.to_string(), text);
            }
        }
    }

    #[test]
    fn both_sides_settle_on_the_lower_protocol() {
        check(3, 2, Ok(3));
        check(2, 1, Ok(2));
        check(4, 3, Ok(3));
        check(9, 1, Ok(3));
        let old = "server 0.3.0 understands protocol 2 and newer, but client 0.1.0 speaks \
                   protocol 1; upgrade the client";
        check(1, 1, Err(old));
        let new = "client 0.5.0 understands protocol 4 and newer, but server 0.3.0 speaks \
                   protocol 3; upgrade the server";
        check(5, 4, Err(new));
    }

    #[test]
    fn a_client_that_names_no_protocol_speaks_the_first() {
        let request = HelloRequest { client_version: "0.1.0".to_owned(), ..Default::default() };
        let client = Speaker::client(&request);
        assert_eq!((client.protocol, client.oldest), (1, 1));
        let agreement = settle(&Speaker::own(Role::Server, "0.2.0"), &client);
        let agreement = agreement.expect("protocol 1 is understood");
        assert_eq!(agreement.protocol, 1);
        assert!(CAPABILITIES_UNNAMED.iter().all(|capability| agreement.has(*capability)));
    }

    /// Both sides must come to equal agreements. They differed if one side named a capability
    /// twice.
    #[test]
    fn a_capability_counts_once() {
        let server = Speaker::own(Role::Server, "0.2.0");
        let mut request = Speaker::own(Role::Client, "0.2.0").request();
        request.capabilities.extend(request.capabilities.clone());
        let client = Speaker::client(&request);
        assert_eq!(settle(&server, &client), settle(&client, &server));
        assert_eq!(client.capabilities, CAPABILITIES);
    }

    #[test]
    fn a_capability_of_a_newer_peer_does_not_count() {
        let mut request = Speaker::own(Role::Client, "0.2.0").request();
        request.capabilities = vec![0, 2, 77];
        let agreement = settle(&Speaker::own(Role::Server, "0.2.0"), &Speaker::client(&request));
        let agreement = agreement.expect("the protocols are equal");
        assert!(agreement.has(Capability::RawCheck) && !agreement.has(Capability::Arrivals));
        assert!(!agreement.has(Capability::Unspecified));
    }
}
