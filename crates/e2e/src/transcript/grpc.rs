//! Messages of gRPC in the frames of HTTP/2. Nothing here knows the content of a message.

use bytes::{Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use http::HeaderMap;

/// Number of bytes before each message: a flag for compression and the length.
const PREFIX_BYTES: usize = 5;

/// Incoming messages of a stream.
pub(super) struct MessageStream {
    stream: RecvStream,
    buffer: BytesMut,
    is_cut_off: bool,
}

impl MessageStream {
    pub(super) fn new(stream: RecvStream) -> Self {
        Self { stream, buffer: BytesMut::new(), is_cut_off: false }
    }

    /// Returns the next message; `None` at the end, or if the peer has closed the connection.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX_BYTES>() {
                let [_, length @ ..] = *prefix;
                let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
                if rest.len() >= length {
                    let message = self.buffer.split_to(PREFIX_BYTES + length);
                    return Some(message[PREFIX_BYTES..].to_vec());
                }
            }
            let data = self.stream.data().await?;
            self.is_cut_off = data.is_err();
            let data = data.ok()?;
            self.stream.flow_control().release_capacity(data.len()).ok()?;
            self.buffer.extend_from_slice(&data);
        }
    }

    /// Returns whether the peer has reset the stream before its end.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Returns the status that follows the last message.
    pub(super) async fn status(mut self) -> String {
        match self.stream.trailers().await {
            Ok(Some(trailers)) => status(&trailers),
            _ => "14 the stream was cut off".to_owned(),
        }
    }
}

/// Returns the status in `headers`: code, space, text.
pub(super) fn status(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    format!("{} {}", text("grpc-status"), text("grpc-message"))
}

/// Returns the trailers that carry `status`.
pub(super) fn trailers(status: &str) -> HeaderMap {
    let (code, text) = status.split_once(' ').unwrap_or((status, ""));
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.parse().expect("a number"));
    if !text.is_empty() {
        trailers.insert("grpc-message", text.parse().expect("encoded as it was received"));
    }
    trailers
}

/// Sends one message. An error is ignored: if the peer has closed the connection, its answer does
/// not come.
pub(super) fn send(stream: &mut SendStream<Bytes>, message: &[u8]) {
    let length = u32::try_from(message.len()).expect("a message is short");
    let mut bytes = vec![0];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(message);
    drop(stream.send_data(bytes.into(), false));
}

/// Tells the peer that no message follows.
pub(super) fn finish(stream: &mut SendStream<Bytes>) {
    drop(stream.send_data(Bytes::new(), true));
}

/// Returns a request that calls the method `path`.
pub(super) fn request(path: &str) -> http::Request<()> {
    http::Request::post(format!("https://server.holdfast.internal{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("the path is that of a method")
}

/// Returns the head of an answer.
pub(super) fn response() -> http::Response<()> {
    let response = http::Response::builder().header("content-type", "application/grpc");
    response.body(()).expect("the header is well formed")
}
