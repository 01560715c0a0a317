//! Streams of replies from threads that may block.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::task::JoinError;
use tokio_stream::Stream;
use tonic::Status;

use crate::gate::CallRight;
use crate::outbox::{Answers, Unread};
use crate::refusal;

/// Maximum number of messages of a stream that wait to be sent.
pub(crate) const REPLIES_WAITING: usize = 8;
/// Maximum time for which a thread waits for a client: to take a reply, or to give an answer. A
/// restore may wait that long for a slow disk, and a list for its reader.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(3600);
/// Maximum time of a backup and of a restore, in days. Reclamation waits for them: a node that
/// holds one open without end would fill the pools. A client goes on by another one.
const SESSION_DAYS_MAX: u64 = 14;
pub(super) const SESSION_MAX: Duration = Duration::from_secs(SESSION_DAYS_MAX * 86_400);
/// Maximum time from the head of a call to its first message, if a thread or a session waits for
/// it.
const OPENING_MAX: Duration = Duration::from_secs(60);

pub(crate) type ReplyStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A reply that waits to be sent, with its memory.
pub(super) struct QueuedReply<T> {
    reply: Result<T, Status>,
    unread: Option<Unread>,
}

impl<T: prost::Message> QueuedReply<T> {
    /// Counts `reply` among the answers of its call.
    pub(super) fn counted(answers: &Arc<Answers>, reply: T) -> Result<Self, StoreError> {
        let unread = answers.add(reply.encoded_len()).ok_or_else(|| {
            StoreError::away(
                "the answers that this node has not taken take as much memory as they may; run \
                 fewer programs at once",
            )
        })?;
        Ok(Self { reply: Ok(reply), unread: Some(unread) })
    }
}

impl<T> QueuedReply<T> {
    /// The end of a call that fails.
    pub(super) fn end(status: Status) -> Self {
        Self { reply: Err(status), unread: None }
    }
}

/// Replies of a thread that may block.
pub(crate) struct Replies<T> {
    queue: mpsc::Sender<QueuedReply<T>>,
    /// The answers of the call; `None` for a call of an administrator.
    answers: Option<Arc<Answers>>,
}

impl<T: prost::Message> Replies<T> {
    /// Sends a reply. Waits while too many replies wait, and until the node may have another one.
    /// Fails if the client takes none of them for a long time.
    pub(crate) fn blocking_send(&self, reply: Result<T, Status>) -> Result<(), StoreError> {
        let queued = match (reply, &self.answers) {
            (Ok(reply), Some(answers)) => QueuedReply::counted(answers, reply)?,
            (reply, _) => QueuedReply { reply, unread: None },
        };
        let gone = || StoreError::cancelled("the client has disconnected");
        match self.queue.try_send(queued) {
            Ok(()) => {}
            Err(TrySendError::Closed(_)) => return Err(gone()),
            Err(TrySendError::Full(queued)) => {
                let sending = self.queue.send_timeout(queued, SILENCE_MAX);
                Handle::current().block_on(sending).map_err(|error| match error {
                    SendTimeoutError::Closed(_) => gone(),
                    SendTimeoutError::Timeout(_) => silent("took no message"),
                })?;
            }
        }
        self.wait_for_room()
    }

    /// Waits until the node has room for another answer of this call.
    fn wait_for_room(&self) -> Result<(), StoreError> {
        let Some(answers) = self.answers.as_ref().filter(|answers| !answers.may_go_on()) else {
            return Ok(());
        };
        let waiting = async { tokio::time::timeout(SILENCE_MAX, answers.go_on()).await };
        Handle::current().block_on(waiting).map_err(|_| silent("took no message"))
    }
}

impl<T> Replies<T> {
    /// Fails if the client is gone.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        match self.is_closed() {
            true => Err(StoreError::cancelled("the client has disconnected")),
            false => Ok(()),
        }
    }

    /// Returns true if the client is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

/// Returns the error for a client that has been silent for too long.
pub(super) fn silent(fault: &str) -> StoreError {
    let minutes = SILENCE_MAX.as_secs() / 60;
    StoreError::cancelled(format!(
        "the client {fault} for {minutes} minutes; run the same command again"
    ))
}

/// Returns the status of a backup or a restore that takes too long.
pub(super) fn too_long() -> Status {
    refusal::status(StoreError::cancelled(format!(
        "backups and restores end after {SESSION_DAYS_MAX} days; run the same command again"
    )))
}

/// Waits for the end of a session, at most for `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    session: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    tokio::time::timeout(limit, session).await.map_err(|_| too_long())?
}

/// Runs `work` on a thread that may block. Returns a stream of the messages that `work` sends.
pub(crate) fn streaming<T: prost::Message + 'static>(
    work: impl FnOnce(&Replies<T>) -> Result<(), StoreError> + Send + 'static,
) -> ReplyStream<T> {
    replying(None, move |replies| work(replies).map_err(refusal::status))
}

/// Runs `work` like [`streaming`], where `work` fails with a status. A panic of `work` ends the
/// stream with a status too: a stream that ends without a status counts as whole.
///
/// The stream holds `right` for as long as it has replies. `work` must hold it too.
pub(crate) fn replying<T: prost::Message + 'static>(
    right: Option<CallRight>,
    work: impl FnOnce(&Replies<T>) -> Result<(), Status> + Send + 'static,
) -> ReplyStream<T> {
    let (queue, receiver) = mpsc::channel(REPLIES_WAITING);
    let answers = right.as_ref().map(|right| Arc::clone(right.answers()));
    let sender = Replies { queue: queue.clone(), answers };
    let working = tokio::task::spawn_blocking(move || work(&sender));
    tokio::spawn(async move {
        if let Err(status) = ended(working.await) {
            // The send fails only if the client has disconnected.
            drop(queue.send(QueuedReply::end(status)).await);
        }
    });
    counted_body(right, receiver)
}

/// Returns the stream of the counted replies that come from `replies`.
pub(super) fn counted_body<T: Send + 'static>(
    right: Option<CallRight>,
    replies: mpsc::Receiver<QueuedReply<T>>,
) -> ReplyStream<T> {
    Box::pin(CountedBody { replies, sending: None, _right: right })
}

/// Replies that wait for the network, as [`ReplyBody`], which count until they are sent.
struct CountedBody<T> {
    replies: mpsc::Receiver<QueuedReply<T>>,
    /// The reply that the network is sending.
    sending: Option<Unread>,
    _right: Option<CallRight>,
}

impl<T> Stream for CountedBody<T> {
    type Item = Result<T, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, Status>>> {
        // The network asks for a reply once it has sent the one before. Short replies are put
        // together first, so one that is short may stop to count a little early.
        self.sending = None;
        self.replies.poll_recv(context).map(|queued| {
            queued.map(|QueuedReply { reply, unread }| {
                self.sending = unread;
                reply
            })
        })
    }
}

/// Returns the stream of the replies that come from `replies`.
pub(super) fn body<T: Send + 'static>(
    right: Option<CallRight>,
    replies: mpsc::Receiver<Result<T, Status>>,
) -> ReplyStream<T> {
    Box::pin(ReplyBody { replies, _right: right })
}

/// Replies that wait for the network, and the right to the call.
struct ReplyBody<T> {
    replies: mpsc::Receiver<Result<T, Status>>,
    _right: Option<CallRight>,
}

impl<T> Stream for ReplyBody<T> {
    type Item = Result<T, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, Status>>> {
        self.replies.poll_recv(context)
    }
}

/// Waits for the first message of a stream. Fails if it does not come soon.
pub(super) async fn opening<T>(
    message: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let late = "the call has sent no message; run the same command again";
    let message = tokio::time::timeout(OPENING_MAX, message).await;
    message.map_err(|_| refusal::status(StoreError::cancelled(late)))?
}

/// Returns the result of a thread or task, whose panic becomes a status.
pub(super) fn ended<T>(joined: Result<Result<T, Status>, JoinError>) -> Result<T, Status> {
    joined.map_err(|_| refusal::panicked())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_takes_too_long_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let endless = std::future::pending::<Result<(), Status>>();
            let ended = within(Duration::from_millis(1), endless).await;
            let status = ended.expect_err("it takes too long");
            assert!(status.message().contains("14 days"), "{status}");
            let ended = within(SESSION_MAX, async { Ok(7) }).await;
            assert_eq!(ended.expect("it has ended"), 7);
        });
    }
}
