//! Bodies of requests that are answered before they have come whole.
//!
//! A client that still sends its body when the answer ends can take the end of the exchange for an
//! error, and lose the answer: a stream error over HTTP/2, a broken pipe over HTTP/1.1. So the rest
//! of a body is read before the answer goes out, and nothing of it is kept.
//!
//! ```text
//!   body -> operation, which may stop reading -> rest, within bounds -> answer
//! ```

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody as _};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Maximum length of a rest that is read, and the time in which it must come. A client that sends
/// more, or more slowly, gets its answer then. Whoever sends much by mistake should learn it, and
/// reading away costs no more than the bytes on the network, which the client sends anyway.
const REST_BYTES_MAX: usize = 64 << 20;
const REST_TIME: Duration = Duration::from_secs(20);

/// Answers a request once the rest of its body has come.
pub(crate) async fn read_rest(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let (lent, mut returned) = lend(body.into_data_stream());
    let response = next.run(Request::from_parts(parts, Body::from_stream(lent))).await;
    if let Ok(rest) = returned.try_recv() {
        // A rest that does not come in time stays where it is.
        drop(timeout(REST_TIME, discard(rest)).await);
    }
    response
}

/// Reads a rest, or the beginning of one that is too long.
async fn discard(mut rest: BodyDataStream) {
    let mut bytes = 0;
    while let Some(Ok(part)) = rest.next().await {
        bytes += part.len();
        if bytes > REST_BYTES_MAX {
            return;
        }
    }
}

/// Lends a body. The receiver gets what is left of it if its reader drops it before its end.
fn lend<S>(body: S) -> (Lent<S>, oneshot::Receiver<S>) {
    let (sender, receiver) = oneshot::channel();
    (Lent { loan: Some((body, sender)) }, receiver)
}

/// A body that goes back when its reader drops it before its end.
struct Lent<S> {
    /// The body, and the way back; `None` after the end of the body.
    loan: Option<(S, oneshot::Sender<S>)>,
}

impl<S, E> Stream for Lent<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    type Item = Result<Bytes, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some((body, _)) = &mut self.loan else { return Poll::Ready(None) };
        let item = ready!(Pin::new(body).poll_next(context));
        if !matches!(item, Some(Ok(_))) {
            self.loan = None;
        }
        Poll::Ready(item)
    }
}

impl<S> Drop for Lent<S> {
    fn drop(&mut self) {
        if let Some((body, back)) = self.loan.take() {
            // Nobody waits for it after the connection has ended.
            drop(back.send(body));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt as _, stream};

    use super::*;

    type Part = Result<Bytes, Infallible>;

    /// Lends a body of three parts whose first `read` parts are read. Returns the number of parts
    /// that come back.
    fn check(read: usize, expected: Option<usize>) {
        let parts: [Part; 3] = ["a", "b", "c"].map(|part| Ok(Bytes::from(part)));
        let (mut lent, mut returned) = lend(stream::iter(parts));
        for _ in 0..read {
            lent.next().now_or_never().expect("is there");
        }
        assert!(returned.try_recv().is_err(), "the reader still has it");
        drop(lent);
        let rest = returned.try_recv().ok();
        let rest = rest.map(|rest| rest.count().now_or_never().expect("is there"));
        assert_eq!(rest, expected, "{read} parts read");
    }

    #[test]
    fn what_a_reader_leaves_comes_back() {
        check(0, Some(3));
        check(2, Some(1));
        check(3, Some(0));
        check(4, None);
    }
}
