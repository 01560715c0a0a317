//! Bodies of the calls of nodes. A message passes after it has got its room in the [`Inbox`].
//!
//! ```text
//!   body -> prefix of a message: its length -> room in the inbox -> bytes of the message -> call
//!                                   |  none
//!                                   |- waits, for a minute at most
//!                                   `- another call of the connection waits already: UNAVAILABLE
//! ```
//!
//! 1. The bytes of one message pass at a time. The next message begins only when the call asks for
//!    it, so a call that takes one message after the other has worked off the one before.
//! 2. A stream keeps the buffer of its longest message until it ends. So it keeps the room of that
//!    message, too, and a call that keeps no message needs no more room for shorter ones.
//! 3. No message waits for ever. A message that waits leaves its bytes in the windows of HTTP/2,
//!    where they may hold up the bytes of a message of the same connection that has its room. So
//!    only one call of a connection waits. It fills the window of its stream, which is at most half
//!    of the connection's: the other half stays for calls that have their room. A backup among
//!    them may fill that half while it waits for commits, so the wait has an end besides.
//! 4. A client takes the refusal for a server that is away. It connects again after a pause, and
//!    goes on from what was committed.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::try_unfold;
use http_body::{Body as _, Frame};
use http_body_util::StreamBody;
use model::{NodeId, NodeName};
use store::StoreError;
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use wire::{CONNECTION_WINDOW_BYTES, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES};

use crate::inbox::{BACKUP_BYTES_MAX, CallRooms, Inbox, NODE_BYTES_MAX, Room, SHORT_BYTES};
use crate::refusal;

const _: () = assert!(STREAM_WINDOW_BYTES <= CONNECTION_WINDOW_BYTES / 2, "rule 3");

/// Number of bytes before each message: a flag for compression and the length.
const PREFIX_BYTES: usize = 5;
/// Maximum length of a message of most calls, in bytes.
const QUESTION_BYTES_MAX: usize = 2 << 20;
/// Maximum length of a message of a restore: a selection, or a bit for each object of a window.
const RESTORE_BYTES_MAX: usize = 256 << 10;
/// Memory of a decoded message for each of its bytes: an empty text takes two bytes on the wire and
/// 32 in a list.
const EXPANSION: usize = 16;
/// Memory of a list of copies for each of its bytes: it becomes a list of numbers and a plan.
const EXPANSION_OF_COPIES: usize = 7;
const _: () = assert!(MESSAGE_BYTES_MAX * (EXPANSION_OF_COPIES + 1) <= NODE_BYTES_MAX, "all fit");
/// Maximum number of questions of a stream that wait to be answered.
pub(crate) const QUESTIONS_WAITING: usize = 8;
/// Maximum number of questions that are read and not worked off: those that wait, one on its way to
/// them, and one that is being answered.
const QUESTIONS_AHEAD: usize = QUESTIONS_WAITING + 2;

/// Limits on the messages of a method.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// Maximum length of a message, in bytes.
    bytes_max: usize,
    /// Memory that counts for each of these bytes.
    expansion: usize,
    /// Maximum number of messages that are not worked off when the call asks for the next one;
    /// `None` if all are kept until the call ends.
    kept: Option<usize>,
    /// True for a backup, which leaves room to other calls of its node.
    is_backup: bool,
}

impl Terms {
    /// Returns the limits for the method with this path.
    fn of(path: &str) -> Self {
        let method = path.rsplit('/').next().unwrap_or_default();
        let question = Self {
            bytes_max: QUESTION_BYTES_MAX,
            expansion: EXPANSION,
            kept: None,
            is_backup: false,
        };
        match method {
            // Changes that stay in memory take it from the budget of the node's backups.
            "Backup" => {
                Self { bytes_max: MESSAGE_BYTES_MAX, expansion: 1, kept: Some(0), is_backup: true }
            }
            "Stage" => {
                Self { bytes_max: MESSAGE_BYTES_MAX, expansion: EXPANSION_OF_COPIES, ..question }
            }
            "Pages" => Self { kept: Some(QUESTIONS_AHEAD), ..question },
            "Restore" => {
                Self { bytes_max: RESTORE_BYTES_MAX, kept: Some(QUESTIONS_AHEAD), ..question }
            }
            // The longest message of an agent has a report and a log.
            "Attend" | "MeasureToServer" => Self { kept: Some(0), ..question },
            _ => question,
        }
    }

    /// Fails if a message may not have `bytes` bytes.
    fn check(self, bytes: usize) -> Result<(), Status> {
        if bytes <= self.bytes_max {
            return Ok(());
        }
        Err(Status::out_of_range(format!(
            "a message is too large: it has {bytes} bytes, and may have at most {}",
            self.bytes_max
        )))
    }

    /// Returns the memory of a message of `bytes` bytes besides the buffer in which it arrives.
    fn memory(self, bytes: usize) -> usize {
        if self.kept == Some(0) { 0 } else { bytes * self.expansion }
    }

    fn own_max(self) -> usize {
        if self.is_backup { BACKUP_BYTES_MAX } else { NODE_BYTES_MAX }
    }
}

/// Place where the messages of one call find room.
pub(crate) struct Meter {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) node: (NodeId, NodeName),
    pub(crate) rooms: Arc<CallRooms>,
    /// Right to wait: one for each connection.
    pub(crate) waiting: Arc<Semaphore>,
}

impl Meter {
    /// Finds room for `bytes` bytes of a call with these `terms`.
    async fn take(&self, bytes: usize, terms: Terms) -> Result<Room, Status> {
        let own_max = terms.own_max();
        let room = match self.inbox.try_take(self.node.0, bytes, own_max) {
            None => self.wait(bytes, own_max).await,
            room => room,
        };
        room.ok_or_else(|| self.refusal(own_max))
    }

    /// Waits for room, unless another call of the connection does.
    async fn wait(&self, bytes: usize, own_max: usize) -> Option<Room> {
        let _place = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        self.inbox.take(self.node.0, bytes, own_max).await
    }

    fn refusal(&self, own_max: usize) -> Status {
        refusal::status(StoreError::away(format!(
            "the messages of node {} take as much memory as they may, which is {} MiB, or those of \
             all nodes do; if this lasts, run fewer programs at once",
            self.node.1,
            own_max >> 20
        )))
    }
}

/// Returns `body`, which passes on no message before it has its room.
pub(crate) fn metered(body: Body, path: &str, meter: Meter) -> Body {
    let terms = Terms::of(path);
    let buffer = meter.inbox.charge(meter.node.0, 0);
    let arrived = Bytes::new();
    let metered = MeteredBody { body, terms, meter, arrived, charged: None, left: 0, buffer };
    let pieces = try_unfold(metered, |mut metered| async move {
        let piece = metered.next().await?;
        Ok::<_, Status>(piece.map(|piece| (Frame::data(piece), metered)))
    });
    Body::new(StreamBody::new(pieces))
}

/// A body whose messages find room before they pass.
struct MeteredBody {
    body: Body,
    terms: Terms,
    meter: Meter,
    /// Bytes that were read and have not passed.
    arrived: Bytes,
    /// Room of such bytes behind the end of a message.
    charged: Option<Room>,
    /// Number of bytes of the message that have not passed.
    left: usize,
    /// Room of the buffer, which is as large as the longest message.
    buffer: Room,
}

impl MeteredBody {
    /// Returns bytes of one message; `None` at the end of the body.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if self.left > 0 {
            assert!(self.arrived.is_empty(), "only bytes behind a message are kept");
            let Some(data) = self.read().await? else { return Ok(None) };
            self.arrived = data;
        } else {
            self.charged = None;
            // The call asks for a message, so it has worked off those that it does not keep.
            if let Some(kept) = self.terms.kept {
                self.meter.rooms.leave(kept);
            }
            let Some(length) = self.read_prefix().await? else {
                let rest = std::mem::take(&mut self.arrived);
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            };
            self.admit(length).await?;
            self.left = PREFIX_BYTES + length;
        }
        let piece = self.arrived.split_to(self.arrived.len().min(self.left));
        self.left -= piece.len();
        if !self.arrived.is_empty() {
            let charged = self.meter.inbox.charge(self.meter.node.0, self.arrived.len());
            self.charged = Some(charged);
        }
        Ok(Some(piece))
    }

    /// Finds room for a message of `length` bytes.
    async fn admit(&mut self, length: usize) -> Result<(), Status> {
        self.terms.check(length)?;
        let growth = match length.saturating_sub(self.buffer.bytes()) {
            // A long message is no short one because the buffer grows by little.
            growth if growth > 0 && length > SHORT_BYTES => growth.max(SHORT_BYTES + 1),
            growth => growth,
        };
        let memory = self.terms.memory(length);
        let mut room = self.meter.take(growth + memory, self.terms).await?;
        self.buffer.merge(room.split(growth));
        if memory > 0 {
            self.meter.rooms.keep(room);
        }
        Ok(())
    }

    /// Reads the prefix of a message. Returns the length of the message; `None` if the body ends.
    async fn read_prefix(&mut self) -> Result<Option<usize>, Status> {
        loop {
            if let Some(prefix) = self.arrived.first_chunk::<PREFIX_BYTES>() {
                let [_, length @ ..] = *prefix;
                let length = u32::from_be_bytes(length);
                return Ok(Some(usize::try_from(length).unwrap_or(usize::MAX)));
            }
            let Some(data) = self.read().await? else { return Ok(None) };
            self.arrived = match self.arrived.is_empty() {
                true => data,
                false => [&self.arrived[..], &data].concat().into(),
            };
        }
    }

    /// Reads bytes; `None` at the end of the body. A client sends no trailers.
    async fn read(&mut self) -> Result<Option<Bytes>, Status> {
        let body = &mut self.body;
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        let data = frame.transpose()?.map(Frame::into_data);
        Ok(data.and_then(Result::ok))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_stream::StreamExt as _;
    use tonic::Code;

    use super::*;

    const BACKUP: &str = "/holdfast.v1.Node/Backup";
    const PAGES: &str = "/holdfast.v1.Node/Pages";
    const HELLO: &str = "/holdfast.v1.Node/Hello";
    const ANNA: NodeId = NodeId(1);

    /// A connection of a node.
    struct Line {
        inbox: Arc<Inbox>,
        waiting: Arc<Semaphore>,
    }

    impl Line {
        fn new() -> Self {
            Self { inbox: Arc::default(), waiting: Arc::new(Semaphore::new(1)) }
        }

        /// Makes the body of a call of `path` that comes in `pieces`.
        fn body(&self, path: &str, pieces: Vec<Vec<u8>>) -> Body {
            let frames =
                pieces.into_iter().map(|piece| Ok::<_, Status>(Frame::data(Bytes::from(piece))));
            let body = Body::new(StreamBody::new(tokio_stream::iter(frames)));
            metered(body, path, self.meter())
        }

        fn meter(&self) -> Meter {
            let (inbox, waiting) = (Arc::clone(&self.inbox), Arc::clone(&self.waiting));
            let node = (ANNA, NodeName::new("anna").expect("a name"));
            Meter { inbox, node, rooms: Arc::default(), waiting }
        }

        /// Takes all that a node may have, except for `bytes`.
        fn fill(&self, own_max: usize, bytes: usize) -> Room {
            self.inbox.try_take(ANNA, own_max - bytes, own_max).expect("nothing is taken")
        }
    }

    fn prefix(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).expect("a short message").to_be_bytes();
        [&[0][..], &length].concat()
    }

    fn message(bytes: usize) -> Vec<u8> {
        [prefix(bytes), vec![7; bytes]].concat()
    }

    fn joined(pieces: &[Bytes]) -> Vec<u8> {
        pieces.iter().flatten().copied().collect()
    }

    async fn next(body: &mut Body) -> Option<Result<Bytes, Status>> {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        frame.await.map(|frame| frame.map(|frame| frame.into_data().expect("data")))
    }

    async fn passed(mut body: Body) -> Result<Vec<Bytes>, Status> {
        let mut pieces = Vec::new();
        while let Some(piece) = next(&mut body).await {
            pieces.push(piece?);
        }
        Ok(pieces)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn messages_pass_one_by_one_however_their_bytes_come() {
        run(async {
            let bytes = [message(3), message(0), message(300), message(1)].concat();
            for length in 1..=bytes.len() {
                let pieces = bytes.chunks(length).map(<[u8]>::to_vec).collect();
                let pieces = passed(Line::new().body(PAGES, pieces)).await.expect("they pass");
                assert_eq!(joined(&pieces), bytes);
                let ends: Vec<usize> = pieces
                    .iter()
                    .scan(0, |end, piece| {
                        *end += piece.len();
                        Some(*end)
                    })
                    .collect();
                assert!([8, 13, 318, 324].iter().all(|end| ends.contains(end)), "{ends:?}");
            }
        });
    }

    #[test]
    fn a_body_that_is_cut_off_passes_as_it_is() {
        run(async {
            for length in 0..8 {
                let bytes = message(3)[..length].to_vec();
                let pieces = passed(Line::new().body(HELLO, vec![bytes.clone()])).await;
                assert_eq!(joined(&pieces.expect("they pass")), bytes);
            }
        });
    }

    #[test]
    fn a_message_that_is_too_large_for_its_call_is_not_read() {
        run(async {
            for (path, bytes) in [
                (BACKUP, MESSAGE_BYTES_MAX),
                (PAGES, QUESTION_BYTES_MAX),
                ("/holdfast.v1.Node/Restore", RESTORE_BYTES_MAX),
            ] {
                let line = Line::new();
                let passed_on = passed(line.body(path, vec![prefix(bytes)])).await;
                passed_on.expect("the largest message");
                let refused = passed(line.body(path, vec![prefix(bytes + 1)])).await;
                assert_eq!(refused.expect_err(path).code(), Code::OutOfRange);
            }
        });
    }

    /// 512 calls of a node could hold a message of 32 MiB each. Two that wait could fill the window
    /// of their connection, and so wait for ever.
    #[test]
    fn one_message_of_a_connection_waits_for_room_and_another_is_refused() {
        run(async {
            for path in [BACKUP, HELLO] {
                let line = Line::new();
                let taken = line.fill(NODE_BYTES_MAX, 15);
                let waiting = tokio::spawn(passed(line.body(path, vec![message(16)])));
                tokio::task::yield_now().await;
                assert!(!waiting.is_finished(), "it waits");
                let refused = passed(line.body(HELLO, vec![message(1)])).await;
                let refused = refused.expect_err("there is no room");
                assert_eq!(refused.code(), Code::Unavailable);
                assert!(refused.message().contains("node anna"), "{refused}");
                drop(taken);
                waiting.await.expect("no panic").expect("it passes");
                passed(line.body(HELLO, vec![message(1)])).await.expect("there is room again");
            }
        });
    }

    #[test]
    fn a_backup_needs_room_for_its_longest_message_only() {
        run(async {
            let line = Line::new();
            let _taken = line.fill(BACKUP_BYTES_MAX, 1000);
            let messages = vec![message(500), message(1000), message(999), message(1000)];
            let bytes = messages.concat();
            let pieces = passed(line.body(BACKUP, messages)).await;
            assert_eq!(joined(&pieces.expect("they pass")), bytes);
        });
    }

    /// The buffer of a message of 32 MiB stayed in memory while nothing counted it.
    #[test]
    fn a_stream_keeps_the_room_of_its_longest_message() {
        run(async {
            let line = Line::new();
            let frame = |bytes| Ok::<_, Status>(Frame::data(Bytes::from(message(bytes))));
            let frames = tokio_stream::iter([frame(1000), frame(1)]);
            let body = Body::new(StreamBody::new(frames.chain(tokio_stream::pending())));
            let mut body = metered(body, BACKUP, line.meter());
            for _ in 0..2 {
                next(&mut body).await.expect("a piece").expect("it passes");
            }
            let asking = tokio::time::timeout(Duration::ZERO, next(&mut body));
            assert!(asking.await.is_err(), "nothing comes");
            let rest = NODE_BYTES_MAX - 1000;
            assert!(line.inbox.try_take(ANNA, rest + 1, NODE_BYTES_MAX).is_none());
            assert!(line.inbox.try_take(ANNA, rest, NODE_BYTES_MAX).is_some());
            drop(body);
            drop(line.fill(NODE_BYTES_MAX, 0));
        });
    }

    #[test]
    fn another_call_keeps_the_room_of_its_messages() {
        run(async {
            let line = Line::new();
            let _taken = line.fill(NODE_BYTES_MAX, 1000 * (EXPANSION + 1));
            let mut body = line.body(HELLO, vec![message(1000), message(1)]);
            assert_eq!(next(&mut body).await.expect("a piece").expect("it passes"), message(1000));
            let _place = Arc::clone(&line.waiting).try_acquire_owned().expect("nobody waits");
            let refused = next(&mut body).await.expect("an end").expect_err("nothing is left");
            assert_eq!(refused.code(), Code::Unavailable);
        });
    }
}
