//! Downloads: bytes that a thread makes while the caller receives them.

use std::io::{self, Write};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use catalog::Node;
use futures_util::{StreamExt as _, stream};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use crate::call::Answer;
use crate::desk::StreamSeat;
use crate::problem::{Kind, Problem};
use crate::standing::Standing;

/// Time for which a piece waits for a caller that takes nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of pieces that wait for a slow caller.
const PIECES_WAITING: usize = 4;
/// Size in bytes from which a piece is sent.
const PIECE_BYTES: usize = 256 << 10;

/// Work that writes the bytes of a download. After an error the caller sees a problem, or a
/// connection that was cut if it has some of the bytes. So it never takes a part for the whole.
pub(crate) type Source = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// A stream of bytes.
pub(crate) struct Download {
    pub(crate) media: &'static str,
    /// Length in bytes, if it is known.
    pub(crate) bytes: Option<u64>,
    /// Name under which browsers store it; `None` for a stream that they do not store.
    pub(crate) name: Option<String>,
    /// Node whose files the stream has.
    pub(crate) node: Option<Node>,
    pub(crate) source: Source,
}

/// Sender of pieces.
struct Pieces {
    pending: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    standing: Standing,
    /// True for a stream whose pieces are sent at once.
    is_live: bool,
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        self.standing.check()?;
        if self.pending.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.pending));
        let sending = tokio::time::timeout(PATIENCE, self.sender.send(Ok(piece)));
        match Handle::current().block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the caller is gone")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the caller takes nothing")),
        }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_live { self.send() } else { Ok(()) }
    }
}

impl Download {
    /// Returns the answer without its bytes, which nobody makes.
    pub(crate) fn head(self) -> Response<Body> {
        // The length of an empty body would be sent as that of the download.
        let body = Body::from_stream(stream::empty::<io::Result<Bytes>>());
        answer(self.media, self.bytes, self.name, body)
    }

    /// Starts the thread that makes the bytes, and returns the answer that has them. The bytes end
    /// when the caller loses the right to them. Fails if the work fails before it has made any: the
    /// caller then gets the reason, in place of a connection that is cut.
    pub(crate) async fn response(
        self,
        seat: StreamSeat,
        standing: Standing,
    ) -> Answer<Response<Body>> {
        let Self { media, bytes, name, source, .. } = self;
        let (sender, mut receiver) = mpsc::channel(PIECES_WAITING);
        let (result, end) = oneshot::channel();
        let is_live = name.is_none();
        tokio::task::spawn_blocking(move || {
            let _seat = seat;
            let mut pieces = Pieces { pending: Vec::new(), sender, standing, is_live };
            let made = source(&mut pieces).and_then(|()| pieces.send());
            if let Err(error) = &made {
                tracing::debug!(%error, "a download ended early");
            }
            // A caller that is gone waits for no result.
            drop(result.send(made));
        });
        let first = if is_live { None } else { receiver.recv().await };
        if first.is_none() && !is_live {
            ended(end.await)?;
            return Ok(answer(media, bytes, name, Body::empty()));
        }
        // Without the word that all is there, the connection is cut.
        let cut = stream::once(end).filter_map(|end| {
            let is_whole = matches!(end, Ok(Ok(())));
            let error = || Err(io::Error::other("the download ended early"));
            std::future::ready((!is_whole).then(error))
        });
        let pieces = stream::iter(first).chain(ReceiverStream::new(receiver)).chain(cut);
        Ok(answer(media, bytes, name, Body::from_stream(pieces)))
    }
}

/// Returns the problem of work that has ended without any bytes, if it has failed.
fn ended(end: Result<io::Result<()>, oneshot::error::RecvError>) -> Answer<()> {
    match end {
        Ok(made) => made.map_err(problem),
        Err(_) => {
            let text = "the download was ended by a bug, which the server has logged";
            Err(Problem::new(Kind::Bug, text))
        }
    }
}

/// Returns the problem for an error of making the bytes.
fn problem(error: io::Error) -> Problem {
    let text = error.to_string();
    let kind = match error.kind() {
        // The caller has lost the right meanwhile.
        io::ErrorKind::PermissionDenied => Kind::Forbidden,
        _ => Kind::Unavailable,
    };
    let of_store = error.into_inner().and_then(|inner| inner.downcast::<StoreError>().ok());
    of_store.map_or_else(|| Problem::new(kind, text), |error| (*error).into())
}

/// Returns the answer with this body.
fn answer(
    media: &'static str,
    bytes: Option<u64>,
    name: Option<String>,
    body: Body,
) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    if let Some(bytes) = bytes {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    if let Some(name) = name {
        headers.insert(header::CONTENT_DISPOSITION, disposition(&name));
    }
    response
}

/// Characters of a name that RFC 8187 does not let stand as they are, and some more.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// Returns the header that names the file for browsers, in the form of RFC 6266.
fn disposition(name: &str) -> HeaderValue {
    let encoded = utf8_percent_encode(name, ENCODED);
    let value = format!("attachment; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&value).expect("the name is encoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_a_header() {
        let name = disposition("r\u{e9}sum\u{e9} \"1\"\r\n.pdf");
        let text = name.to_str().expect("is visible");
        assert_eq!(text, "attachment; filename*=UTF-8''r%C3%A9sum%C3%A9%20%221%22%0D%0A.pdf");
    }
}
