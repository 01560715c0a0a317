//! Messages of a backup session.

use bytes::Bytes;
use model::{ChunkDigest, DirPath, DirectoryDigest, GrantProof, Name, SessionPlace};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;

use super::Link;
use crate::error::{ClientError, ErrorKind, shortened};
use crate::stages::PressWork;

/// Maximum number of messages that wait for the network.
const MESSAGES_WAITING: usize = 4;

/// Upper bound of the bytes that an item of a change has in a message besides its name: fields,
/// lengths and a digest.
const ITEM_BYTES: usize = 40;

/// Source of a chunk that an object refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkSource {
    Granted(GrantProof),
    /// Place in a quantum of this session.
    Sent(SessionPlace),
}

/// Check value of a quantum. With it the server notices if it receives other chunks than the client
/// sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// Check value over the digests of the chunks.
    Digests([u8; 16]),
    /// Check value over the data. Without deduplication there are no digests.
    Data(u64),
}

/// Quantum that is sent to the server.
pub(crate) struct SentQuantum {
    pub(crate) number: u64,
    pub(crate) record: Vec<u8>,
    pub(crate) check: Check,
    /// Digests of the quantum's chunks; empty without deduplication.
    pub(crate) digests: Vec<ChunkDigest>,
    /// True if the chunks are encrypted.
    pub(crate) is_encrypted: bool,
    pub(crate) work: PressWork,
}

/// Key of a page, and its digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PageKey {
    /// First name of the page; empty for the first page of a directory.
    pub(crate) first: Vec<u8>,
    /// Digest of the page. Without a digest, the next backup examines the page.
    pub(crate) digest: Option<DirectoryDigest>,
}

/// Statement that the object `name` has the content of another object, which the server has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KnownContent {
    pub(crate) name: Name,
    /// Filespace of the other object. Its directory and its name follow.
    pub(crate) filespace: Vec<u8>,
    pub(crate) directory: DirPath,
    pub(crate) of: Name,
}

/// Change of one page. Objects that it does not name stay as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PageChange {
    pub(crate) directory: DirPath,
    /// First name of the page; empty for the first page of a directory.
    pub(crate) first: Vec<u8>,
    /// Encoded page of objects with new versions.
    pub(crate) backed_up: Bytes,
    /// Encoded page of objects with new attributes only.
    pub(crate) updated: Bytes,
    /// Names of objects that are gone.
    pub(crate) expired: Vec<Name>,
    /// Encoded grants that the new versions refer to.
    pub(crate) grants: Vec<u8>,
    /// Pages that replace the changed page, in order. The first of them has the same first name.
    pub(crate) pages: Vec<PageKey>,
    pub(crate) known: Vec<KnownContent>,
}

impl PageChange {
    /// Makes a change that leaves every object as it is.
    pub(crate) fn new(directory: DirPath, first: Vec<u8>, pages: Vec<PageKey>) -> Self {
        assert!(
            pages.first().is_some_and(|page| page.first == first),
            "a page keeps its first name, whatever it is divided into"
        );
        Self {
            directory,
            first,
            backed_up: Bytes::new(),
            updated: Bytes::new(),
            expired: Vec::new(),
            grants: Vec::new(),
            pages,
            known: Vec::new(),
        }
    }

    /// Returns true for a change that leaves every object as it is.
    pub(crate) fn is_without_effect(&self) -> bool {
        self.backed_up.is_empty() && self.updated.is_empty() && self.expired.is_empty()
    }

    /// Returns an upper bound of the number of bytes of the change in a message.
    pub(crate) fn bytes(&self) -> usize {
        let expired: usize = self.expired.iter().map(|name| name.as_bytes().len()).sum();
        let pages: usize = self.pages.iter().map(|page| page.first.len()).sum();
        let of_known = |known: &KnownContent| {
            2 * Name::BYTES_MAX + known.filespace.len() + known.directory.as_bytes().len()
        };
        let known: usize = self.known.iter().map(of_known).sum();
        let large = self.backed_up.len() + self.updated.len() + self.grants.len();
        let items = self.expired.len() + self.pages.len() + self.known.len();
        let directory = self.directory.as_bytes().len() + self.first.len();
        directory + large + expired + pages + known + (1 + items) * ITEM_BYTES
    }

    fn message(self) -> proto::PageChange {
        let name = |name: &Name| Bytes::copy_from_slice(name.as_bytes());
        let page = |page: PageKey| proto::PageKey {
            first: page.first.into(),
            digest: page.digest.map_or_else(Bytes::new, |d| Bytes::copy_from_slice(&d.0)),
        };
        let known = |known: KnownContent| proto::KnownContent {
            name: name(&known.name),
            filespace: known.filespace.into(),
            directory: Bytes::copy_from_slice(known.directory.as_bytes()),
            of: name(&known.of),
        };
        proto::PageChange {
            directory: Bytes::copy_from_slice(self.directory.as_bytes()),
            first: self.first.into(),
            backed_up: self.backed_up,
            updated: self.updated,
            expired: self.expired.iter().map(name).collect(),
            grants: self.grants.into(),
            pages: self.pages.into_iter().map(page).collect(),
            known: self.known.into_iter().map(known).collect(),
        }
    }
}

/// Message to the server.
pub(crate) enum ClientMessage {
    Quantum {
        number: u64,
        record: Vec<u8>,
        check: Check,
        is_encrypted: bool,
    },
    Changes(Vec<PageChange>),
    /// End of a transaction.
    Commit {
        number: u64,
    },
    /// End of the session. `complete` is true if the whole filespace was examined.
    Close {
        complete: bool,
        report_json: String,
    },
}

/// Message from the server.
pub(crate) enum ServerMessage {
    /// Bytes that have arrived at the server.
    Arrived {
        /// Bytes of the records of quanta.
        bytes: u64,
        /// Bytes of all messages; 0 from a server that does not count them.
        message_bytes: u64,
    },
    Committed(Commitment),
    Closed,
}

/// Answer to a transaction.
pub(crate) struct Commitment {
    pub(crate) grants: Vec<QuantumGrants>,
    pub(crate) rejections: Vec<Rejection>,
    pub(crate) remnants: Vec<Remnant>,
    /// Number of objects that became inactive.
    pub(crate) expired: u64,
    /// True if another message about the same transaction follows.
    pub(crate) is_continued: bool,
}

/// Grants of the chunks of a quantum, in order.
pub(crate) struct QuantumGrants {
    pub(crate) number: u64,
    pub(crate) grants: Vec<GrantProof>,
}

/// Object that the server has rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rejection {
    /// Path from the filespace's root.
    pub(crate) path: Vec<u8>,
    pub(crate) name: Vec<u8>,
    /// First name of the object's page.
    pub(crate) first: Vec<u8>,
    pub(crate) reason: String,
}

/// Directory that was removed, and below which pages of the catalogue are damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Remnant {
    /// Path from the filespace's root.
    pub(crate) path: Vec<u8>,
    pub(crate) reason: String,
}

/// Sending half of a session.
pub(crate) struct SessionSender(mpsc::Sender<proto::ToServer>);

/// Receiving half of a session.
pub(crate) struct SessionReceiver<'a> {
    link: &'a Link,
    stream: Streaming<proto::FromServer>,
}

impl Link {
    /// Opens a session for `filespace`. The server reports arrivals if it has that capability.
    pub(crate) fn open_backup(
        &self,
        filespace: &[u8],
    ) -> Result<(SessionSender, SessionReceiver<'_>), ClientError> {
        let (sender, receiver) = mpsc::channel(MESSAGES_WAITING);
        let filespace = Bytes::copy_from_slice(filespace);
        let tells_arrivals = self.reports_arrivals();
        let open = proto::OpenBackup { filespace, tells_arrivals, takes_parts: true };
        let message = Some(proto::to_server::Message::Open(open));
        sender
            .blocking_send(proto::ToServer { message })
            .map_err(|_| ClientError::lost())?;
        let mut client = self.client();
        let stream = self.runtime.block_on(async {
            let mut stream = client.backup(ReceiverStream::new(receiver)).await?.into_inner();
            match stream.message().await?.map(|reply| reply.message) {
                Some(Some(proto::from_server::Message::Opened(_))) => Ok(stream),
                Some(None) => Err(self.unknown_message()),
                _ => Err(ClientError::new(ErrorKind::Bug, "the server did not open the session")),
            }
        })?;
        Ok((SessionSender(sender), SessionReceiver { link: self, stream }))
    }
}

/// Encoded message.
pub(crate) struct Envelope {
    message: proto::ToServer,
    /// Bytes of the message on the wire.
    pub(crate) bytes: u64,
}

impl Envelope {
    pub(crate) fn new(message: ClientMessage) -> Self {
        use proto::to_server::Message;
        let message = match message {
            ClientMessage::Quantum { number, record, check, is_encrypted } => {
                let (check, raw_check) = match check {
                    Check::Digests(check) => (Bytes::copy_from_slice(&check), None),
                    Check::Data(check) => (Bytes::new(), Some(check)),
                };
                let (record, encrypted) = (record.into(), is_encrypted);
                Message::Quantum(proto::Quantum { number, record, check, raw_check, encrypted })
            }
            ClientMessage::Changes(changes) => {
                let changes = changes.into_iter().map(PageChange::message).collect();
                Message::Changes(proto::Changes { changes })
            }
            ClientMessage::Commit { number } => Message::Commit(proto::Commit { number }),
            ClientMessage::Close { complete, report_json } => {
                Message::Close(proto::CloseBackup { complete, report_json })
            }
        };
        let message = proto::ToServer { message: Some(message) };
        let bytes = message.encoded_len() as u64;
        Self { message, bytes }
    }
}

impl SessionSender {
    /// Makes a sender whose messages nobody receives, for a dry run.
    pub(crate) fn closed() -> Self {
        Self(mpsc::channel(1).0)
    }

    /// Sends a message. Blocks while too many messages wait for the network.
    pub(crate) fn send(&self, envelope: Envelope) -> Result<(), ClientError> {
        self.0.blocking_send(envelope.message).map_err(|_| ClientError::lost())
    }
}

impl SessionReceiver<'_> {
    /// Returns the next message, or `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<ServerMessage>, ClientError> {
        while let Some(reply) = self.link.runtime.block_on(self.stream.message())? {
            let message = reply.message.ok_or_else(|| self.link.unknown_message())?;
            if let Some(inbound) = parse(message) {
                return Ok(Some(inbound));
            }
        }
        Ok(None)
    }
}

fn parse(message: proto::from_server::Message) -> Option<ServerMessage> {
    use proto::from_server::Message;
    let quantum = |quantum: &proto::QuantumGrants| QuantumGrants {
        number: quantum.number,
        grants: decode_grants(&quantum.grants),
    };
    let rejection = |rejected: proto::Rejected| Rejection {
        path: [&rejected.directory[..], &rejected.name].concat(),
        name: rejected.name.to_vec(),
        first: rejected.first.to_vec(),
        reason: shortened(rejected.reason),
    };
    let remnant = |left: proto::Remnant| Remnant {
        path: left.directory.to_vec(),
        reason: shortened(left.reason),
    };
    match message {
        Message::Arrived(proto::Arrived { bytes, message_bytes }) => {
            Some(ServerMessage::Arrived { bytes, message_bytes })
        }
        Message::Committed(committed) => Some(ServerMessage::Committed(Commitment {
            grants: committed.grants.iter().map(quantum).collect(),
            rejections: committed.rejected.into_iter().map(rejection).collect(),
            remnants: committed.remnants.into_iter().map(remnant).collect(),
            expired: committed.expired_objects,
            is_continued: committed.is_continued,
        })),
        Message::Closed(proto::Closed {}) => Some(ServerMessage::Closed),
        Message::Opened(_) => None,
    }
}

/// Parses grants up to the first one that is incomplete.
fn decode_grants(bytes: &[u8]) -> Vec<GrantProof> {
    let (grants, _) = bytes.as_chunks::<16>();
    grants.iter().copied().map(GrantProof).collect()
}

#[cfg(test)]
pub(crate) mod tests {

    use super::*;

    /// Makes a sender with room for `messages`, and a function that lists the sent messages: `q7`
    /// for a quantum, `c2` for two changes, `t0` for a commit, `end` for the close.
    pub(crate) fn recorded(messages: usize) -> (SessionSender, impl FnMut() -> Vec<String>) {
        use proto::to_server::Message;
        let (sender, mut receiver) = mpsc::channel::<proto::ToServer>(messages);
        let take = move || {
            let mut sent = Vec::new();
            while let Ok(message) = receiver.try_recv() {
                sent.push(match message.message.expect("a message") {
                    Message::Quantum(quantum) => format!("q{}", quantum.number),
                    Message::Changes(changes) => format!("c{}", changes.changes.len()),
                    Message::Commit(commit) => format!("t{}", commit.number),
                    Message::Close(_) => "end".to_owned(),
                    Message::Open(_) => "open".to_owned(),
                });
            }
            sent
        };
        (SessionSender(sender), take)
    }

    #[test]
    fn grants_are_read_up_to_the_first_damage() {
        let [one, two] = [1, 2].map(|byte| GrantProof([byte; 16]));
        let bytes = [one.0, two.0].concat();
        assert_eq!(decode_grants(&bytes), [one, two]);
        assert_eq!(decode_grants(&bytes[..31]), [one]);
    }

    #[test]
    fn a_change_goes_out_as_it_was_made() {
        let name = |name: &[u8]| Name::new(name).expect("a name");
        let directory = DirPath::new(b"/d/").expect("a directory");
        let pages = vec![
            PageKey { first: b"a".to_vec(), digest: None },
            PageKey { first: b"m".to_vec(), digest: Some(DirectoryDigest([7; 16])) },
        ];
        let mut change = PageChange::new(directory.clone(), b"a".to_vec(), pages);
        change.expired = vec![name(b"gone")];
        change.known = vec![KnownContent {
            name: name(b"new"),
            filespace: b"/".to_vec(),
            directory,
            of: name(b"old"),
        }];
        let bytes = change.bytes();
        let message = change.message();
        assert!(message.encoded_len() <= bytes, "the size is an upper bound");
        assert_eq!((&message.directory[..], &message.first[..]), (&b"/d/"[..], &b"a"[..]));
        assert_eq!(message.expired, [Bytes::from_static(b"gone")]);
        assert_eq!(message.pages[0].digest, Bytes::new());
        assert_eq!(message.pages[1].digest, [7; 16][..]);
        assert_eq!(
            (&message.known[0].name[..], &message.known[0].of[..]),
            (&b"new"[..], &b"old"[..])
        );
    }

    #[test]
    #[should_panic(expected = "a page keeps its first name")]
    fn a_change_names_the_page_that_it_changes() {
        drop(PageChange::new(DirPath::root(), b"a".to_vec(), Vec::new()));
    }

    #[test]
    fn a_rejection_has_the_path_of_its_object() {
        let rejected = proto::Rejected {
            directory: Bytes::from_static(b"/d/"),
            name: Bytes::from_static(b"n"),
            reason: "no grant".to_owned(),
            ..Default::default()
        };
        let committed = proto::Committed { rejected: vec![rejected], ..Default::default() };
        let message = parse(proto::from_server::Message::Committed(committed));
        let Some(ServerMessage::Committed(commitment)) = message else { panic!("a commitment") };
        assert_eq!(commitment.rejections[0].path, b"/d/n");
    }
}
