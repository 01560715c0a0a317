//! The client of a restore: messages of the store to it, and its answers.

use std::time::{Duration, Instant};

use model::PlaceCode as _;
use store::StoreError;
use store::selection::{Answer, Message, Recipient, WindowEnd};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};
use wire::proto;

use super::stream::{Replies, SESSION_MAX, SILENCE_MAX, silent, too_long};
use crate::activities::Seat;
use crate::messages::selection;
use crate::metered::QUESTIONS_WAITING;
use crate::{refusal, unknown};

/// Interval between two looks whether the node may go on.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// Answers of the client. A message that is not an answer ends them.
pub(super) type Answers = mpsc::Receiver<Result<proto::Wanted, Status>>;

/// The client at the other end of the stream.
pub(super) struct Client<'a> {
    answers: Answers,
    replies: &'a Replies<proto::RestoreReply>,
    /// Status for a message that was not an answer, for a message that could not be sent, for a
    /// restore that takes too long, or for a node that is not admitted any more.
    refusal: Option<Status>,
    seat: Seat,
    /// Time at which the restore ends whatever is left.
    ends: Instant,
    /// Fails once the node is locked, removed or revoked, also by another server of the same
    /// catalogue.
    is_admitted: &'a dyn Fn() -> Result<(), Status>,
    /// Time of the next look whether the node is admitted.
    next_look: Instant,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        answers: Answers,
        replies: &'a Replies<proto::RestoreReply>,
        seat: Seat,
        is_admitted: &'a dyn Fn() -> Result<(), Status>,
    ) -> Self {
        let now = sys::clock::monotonic();
        let (ends, next_look) = (now + SESSION_MAX, now + LOOK_PAUSE);
        Self { answers, replies, refusal: None, seat, ends, is_admitted, next_look }
    }

    /// Fails if the restore takes too long, or if the node is not admitted any more. A catalogue
    /// that does not answer ends no restore.
    fn check(&mut self) -> Result<(), Status> {
        let now = sys::clock::monotonic();
        if now >= self.ends {
            return Err(too_long());
        }
        if now < self.next_look {
            return Ok(());
        }
        let admitted = (self.is_admitted)();
        // A look at a catalogue that is away takes long. The data goes on for as long after it.
        let looked = sys::clock::monotonic();
        self.next_look = looked + LOOK_PAUSE.max(looked.saturating_duration_since(now));
        let is_refusal = |code| matches!(code, Code::PermissionDenied | Code::Unauthenticated);
        match admitted {
            Err(status) if is_refusal(status.code()) => Err(status),
            _ => Ok(()),
        }
    }

    /// Returns the result of a restore that the store has ended with `served`.
    pub(super) fn end<T>(self, served: Result<T, StoreError>) -> Result<T, Status> {
        match self.refusal {
            Some(refusal) => Err(refusal),
            None => served.map_err(refusal::status),
        }
    }
}

impl Recipient for Client<'_> {
    fn send(&mut self, message: Message) -> bool {
        sys::fault::point("restore");
        if let Err(refusal) = self.check() {
            self.refusal = Some(refusal);
            return false;
        }
        match &message {
            Message::Entries(directories) => {
                let objects = directories.iter().map(|one| one.deactivated.len()).sum();
                self.seat.count(0, objects);
            }
            Message::Quantum { record, .. } => self.seat.count(record.len(), 0),
            _ => {}
        }
        let reply = proto::RestoreReply { message: Some(encode(message)) };
        match self.replies.blocking_send(Ok(reply)) {
            Ok(()) => true,
            Err(error) => {
                self.refusal = Some(refusal::status(error));
                false
            }
        }
    }

    fn answer(&mut self) -> Option<Answer> {
        let answer = tokio::time::timeout(SILENCE_MAX, self.answers.recv());
        let late = |_| Some(Err(refusal::status(silent("gave no answer"))));
        match Handle::current().block_on(answer).unwrap_or_else(late)? {
            Ok(proto::Wanted { window, bits }) => Some(Answer { window, bits: bits.into() }),
            Err(refusal) => {
                self.refusal = Some(refusal);
                None
            }
        }
    }

    fn is_listening(&self) -> bool {
        !self.replies.is_closed()
    }
}

/// Passes the stream of answers to a thread that may block.
pub(super) fn forward(mut requests: Streaming<proto::RestoreRequest>) -> Answers {
    let (sender, receiver) = mpsc::channel(QUESTIONS_WAITING);
    tokio::spawn(async move {
        while let Some(request) = requests.message().await.transpose() {
            let answer = request.and_then(wanted);
            let is_last = answer.is_err();
            if sender.send(answer).await.is_err() || is_last {
                break;
            }
        }
    });
    receiver
}

fn wanted(request: proto::RestoreRequest) -> Result<proto::Wanted, Status> {
    use proto::restore_request::Message;
    match request.message {
        Some(Message::Wanted(wanted)) => Ok(wanted),
        Some(Message::Start(_)) => {
            Err(refusal::status(StoreError::malformed("a restore must have only one selection")))
        }
        None => Err(unknown::message()),
    }
}

fn encode(message: Message) -> proto::restore_reply::Message {
    use proto::restore_reply::Message as Reply;
    let end = |WindowEnd { window, last }| proto::WindowEnd { window, last };
    match message {
        Message::Entries(directories) => {
            let directories = directories.into_iter().map(selection::directory_versions).collect();
            Reply::Entries(proto::VersionsReply { directories })
        }
        Message::EntriesEnd(of) => Reply::EntriesEnd(end(of)),
        Message::DataEnd(of) => Reply::DataEnd(end(of)),
        Message::Quantum { first_place, record, digests } => {
            Reply::Quantum(proto::RestoredQuantum {
                first_place: first_place.code(),
                record: record.into(),
                digests: digests.into(),
            })
        }
        Message::Damaged { place, reason } => Reply::Damaged(proto::DamagedQuantum {
            first_place: place.code(),
            chunk_count: 1,
            reason,
        }),
    }
}

#[cfg(test)]
mod tests {
    use model::NodeId;
    use tokio_stream::StreamExt as _;

    use super::*;
    use crate::activities::{Activities, ActivityKind};
    use crate::sessions::stream::replying;

    /// No pack was removed while a node held a restore open.
    #[test]
    fn a_restore_that_takes_weeks_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let mut replies = replying(None, |replies| {
                let (_answering, answers) = mpsc::channel(1);
                let seat = Activities::default().begin(NodeId(1), ActivityKind::Restore, b"/");
                let is_admitted = || Ok::<(), Status>(());
                let mut client = Client::new(answers, replies, seat, &is_admitted);
                assert!(client.send(Message::Entries(Vec::new())));
                client.ends = sys::clock::monotonic();
                assert!(!client.send(Message::Entries(Vec::new())));
                client.end(Ok(()))
            });
            replies.next().await.expect("a reply").expect("it is sent");
            let end = replies.next().await.expect("an end").expect_err("it takes too long");
            assert!(end.message().contains("14 days"), "{end}");
        });
    }

    /// A lock by another server of the same catalogue did not end a restore that was open.
    #[test]
    fn a_restore_of_a_node_that_is_locked_meanwhile_ends() {
        let check = |status: fn() -> Status, ends: bool| {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.expect("a runtime").block_on(async {
                let mut replies = replying(None, move |replies| {
                    let (_answering, answers) = mpsc::channel(1);
                    let seat = Activities::default().begin(NodeId(1), ActivityKind::Restore, b"/");
                    let is_admitted = || Err::<(), Status>(status());
                    let mut client = Client::new(answers, replies, seat, &is_admitted);
                    assert!(client.send(Message::Entries(Vec::new())), "it was just admitted");
                    client.next_look = sys::clock::monotonic();
                    assert_eq!(client.send(Message::Entries(Vec::new())), !ends);
                    client.end(Ok(()))
                });
                replies.next().await.expect("a reply").expect("it is sent");
                let next = replies.next().await.expect("a reply or an end");
                assert_eq!(next.map_err(|end| end.code()).err(), ends.then(|| status().code()));
            });
        };
        check(|| Status::permission_denied("node anna is locked"), true);
        check(|| Status::unauthenticated("the certificate was revoked"), true);
        check(|| Status::unavailable("the database does not answer"), false);
    }
}
