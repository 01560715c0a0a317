//! Streams of replies from threads that may block.

use std::pin::Pin;

use store::StoreError;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::refusal;

/// Maximum number of messages of a stream that wait to be sent.
pub(crate) const REPLIES_WAITING: usize = 8;

pub(crate) type Replies<T> = mpsc::Sender<Result<T, Status>>;
pub(crate) type ReplyStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Runs `work` on a thread that may block. Returns a stream of the messages that `work` sends.
pub(crate) fn streaming<T: Send + 'static>(
    work: impl FnOnce(&Replies<T>) -> Result<(), StoreError> + Send + 'static,
) -> ReplyStream<T> {
    replying(move |replies| work(replies).map_err(refusal::status))
}

/// Runs `work` like [`streaming`], where `work` fails with a status. A panic of `work` ends the
/// stream with a status too: a stream that ends without a status counts as whole.
pub(crate) fn replying<T: Send + 'static>(
    work: impl FnOnce(&Replies<T>) -> Result<(), Status> + Send + 'static,
) -> ReplyStream<T> {
    let (replies, receiver) = mpsc::channel(REPLIES_WAITING);
    let sender = replies.clone();
    let working = tokio::task::spawn_blocking(move || work(&sender));
    tokio::spawn(async move {
        if let Err(status) = ended(working.await) {
            // The send fails only if the client has disconnected.
            drop(replies.send(Err(status)).await);
        }
    });
    Box::pin(ReceiverStream::new(receiver))
}

/// Returns the result of a thread or task, whose panic becomes a status.
pub(super) fn ended<T>(joined: Result<Result<T, Status>, JoinError>) -> Result<T, Status> {
    joined.map_err(|_| refusal::panicked())?
}
