//! Recorded sessions: the calls between a client and a server, message by message.
//!
//! ```text
//! magic      8  HFSESS01
//! event, each:
//!   kind     1  1 call, 2 message of the client, 3 end of the client's messages,
//!               4 message of the server, 5 status
//!   call     4  number of the call from 0, little-endian
//!   length   4  bytes that follow, little-endian
//!   bytes       1: path of the method; 2, 4: the message; 3: none; 5: gRPC code, space, text
//! ```
//!
//! Events are in the order in which they passed the recorder. An answer comes after the message
//! that it answers, so a replay in this order never waits for the answer to a message that it has
//! not sent yet.

mod compare;
mod grpc;
mod hostile;
mod numbers;
mod recorder;
mod replay;
mod stage;

pub use hostile::{Credential, HostileClient};
pub use numbers::Numbers;
pub use recorder::Recorder;
pub use replay::{Imitation, end_of_call, provoke, replay, replay_with};

/// First bytes of a file.
const MAGIC: &[u8; 8] = b"HFSESS01";

/// An event of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The client calls the method with this path.
    Call(String),
    Question(Vec<u8>),
    /// The client has no more messages.
    QuestionsEnd,
    Answer(Vec<u8>),
    /// The call has ended, with a gRPC code and a text.
    Status(String),
}

/// An event and the number of its call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub call: u32,
    pub event: Event,
}

/// Encodes a transcript.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for Entry { call, event } in entries {
        let (kind, body): (u8, &[u8]) = match event {
            Event::Call(path) => (1, path.as_bytes()),
            Event::Question(message) => (2, message),
            Event::QuestionsEnd => (3, &[]),
            Event::Answer(message) => (4, message),
            Event::Status(status) => (5, status.as_bytes()),
        };
        let length = u32::try_from(body.len()).expect("a message is short");
        bytes.push(kind);
        bytes.extend_from_slice(&call.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(body);
    }
    bytes
}

/// Decodes a transcript; `None` if it is damaged.
pub fn decode(bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut entries = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let call = u32::from_le_bytes(head[1..5].try_into().ok()?);
        let length = u32::from_le_bytes(head[5..].try_into().ok()?);
        let (body, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        let text = || String::from_utf8(body.to_vec()).ok();
        let event = match head[0] {
            1 => Event::Call(text()?),
            2 => Event::Question(body.to_vec()),
            3 => Event::QuestionsEnd,
            4 => Event::Answer(body.to_vec()),
            5 => Event::Status(text()?),
            _ => return None,
        };
        entries.push(Entry { call, event });
        rest = after;
    }
    rest.is_empty().then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_survives_its_bytes() {
        let events = [
            Event::Call("/a/B".to_owned()),
            Event::Question(vec![1, 2]),
            Event::QuestionsEnd,
            Event::Answer(Vec::new()),
            Event::Status("0 ".to_owned()),
        ];
        let entries: Vec<_> = events.map(|event| Entry { call: 7, event }).into();
        let bytes = encode(&entries);
        assert_eq!(decode(&bytes), Some(entries));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
    }
}
