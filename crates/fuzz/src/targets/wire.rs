//! Rows, grants, tokens, greetings, plain connections and documents of the protocol.

use model::{DirectoryDigest, GrantProof, PathHash};
use prost::Message as _;
use wire::network::{Count, Direction, Preamble, TICKET_BYTES};
use wire::proto::{HelloReply, HelloRequest};
use wire::version::{Role, Speaker, settle};
use wire::{DigestRow, Grant, Token, TokenKind};

use crate::seeds::texts;
use crate::{PLAIN_BYTES_MAX, Target};

pub(super) const DIGEST_ROWS: Target = Target {
    name: "digest_rows",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || vec![rows()],
    check: check_digest_rows,
};

pub(super) const GRANTS: Target = Target {
    name: "grants",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || vec![grants()],
    check: check_grants,
};

pub(super) const TOKEN: Target = Target {
    name: "token",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || texts(&[&token(TokenKind::Node), &token(TokenKind::Key)]),
    check: check_token,
};

fn token(kind: TokenKind) -> String {
    Token { kind, secret: [7; 16], ca_fingerprint: [8; 32] }.to_string()
}

pub(super) const GREETING: Target = Target {
    name: "greeting",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || vec![Speaker::own(Role::Client, "0.1.0").request().encode_to_vec()],
    check: check_greeting,
};

pub(super) const PLAIN_CONNECTION: Target = Target {
    name: "plain_connection",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: plain_connections,
    check: check_plain_connection,
};

pub(super) const BASELINE: Target = Target {
    name: "baseline",
    // The document, and its compressed bytes.
    allocation_bytes_max: 2 * PLAIN_BYTES_MAX,
    seeds: || {
        let documents = [&b"{}"[..], &b"{\"document_version\": 1}".repeat(9)];
        let encoded = documents.map(|document| wire::encode_baseline(document).expect("is short"));
        encoded.into_iter().chain(texts(&["{}"])).collect()
    },
    check: check_baseline,
};

fn rows() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, first) in [(1, &b""[..]), (2, b"name\xff"), (3, &[b'x'; 255])] {
        let digest = (number != 2).then_some(DirectoryDigest([number; 16]));
        wire::encode_digest_row(
            &mut bytes,
            &DigestRow { hash: PathHash([number; 8]), digest, first },
        );
    }
    bytes
}

fn grants() -> Vec<u8> {
    let mut bytes = Vec::new();
    for byte in 0..3 {
        let (digest, proof) = (model::ChunkDigest([5; 32]), GrantProof([byte; 16]));
        wire::encode_grant(&mut bytes, &Grant { digest, proof });
    }
    bytes
}

fn plain_connections() -> Vec<Vec<u8>> {
    let preamble = |direction| Preamble { direction, ticket: [5; TICKET_BYTES] }.encode().to_vec();
    let count = Count { bytes: 1 << 40, micros: 7 }.encode();
    vec![preamble(Direction::ToServer), preamble(Direction::FromServer), count.to_vec()]
}

fn check_digest_rows(input: &[u8]) {
    let mut encoded = Vec::new();
    let is_whole =
        wire::decode_digest_rows(input, |row| wire::encode_digest_row(&mut encoded, &row));
    assert!(input.starts_with(&encoded), "rows encode to the bytes that they came from");
    assert!(!is_whole || encoded == input);
}

fn check_grants(input: &[u8]) {
    let Some(grants) = wire::decode_grants(input) else { return };
    let mut encoded = Vec::new();
    grants.iter().for_each(|grant| wire::encode_grant(&mut encoded, grant));
    assert_eq!(encoded, input);
}

fn check_token(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(token) = Token::parse(text) else { return };
    assert_eq!(Token::parse(&token.to_string()), Ok(token));
}

fn check_greeting(input: &[u8]) {
    let server = Speaker::own(Role::Server, "0.1.0");
    let client = Speaker::own(Role::Client, "0.1.0");
    if let Ok(request) = HelloRequest::decode(input) {
        check_settlement(&server, &Speaker::client(&request));
    }
    if let Ok(reply) = HelloReply::decode(input) {
        check_settlement(&client, &Speaker::server(&reply));
    }
}

fn check_plain_connection(input: &[u8]) {
    if let Some(preamble) = input.first_chunk().and_then(Preamble::decode) {
        assert!(input.starts_with(&preamble.encode()));
    }
    if let Some(count) = input.first_chunk() {
        assert_eq!(Count::decode(count).encode(), *count);
    }
}

fn check_baseline(input: &[u8]) {
    let Some(document) = wire::decode_baseline(input) else { return };
    assert!(document.len() <= wire::BASELINE_DOCUMENT_BYTES_MAX);
    if let Some(encoded) = wire::encode_baseline(&document) {
        assert_eq!(wire::decode_baseline(&encoded), Some(document));
    }
}

fn check_settlement(own: &Speaker, peer: &Speaker) {
    let agreement = settle(own, peer);
    // A peer that does not understand the protocol that it speaks is no side of this program.
    if peer.oldest <= peer.protocol {
        assert_eq!(agreement, settle(peer, own), "both sides come to the same result");
    }
}
