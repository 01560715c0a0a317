//! Stream of a connection, above TLS: it tells in plain words that the server has gone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Message about a connection that ended without the server's last message, as it does if the
/// process of the server was killed.
const ENDED: &str = "the server ended the connection without a word; it may have stopped";

/// Stream of a connection. The library for TLS would send people to its manual.
pub(crate) struct PlainStream<S> {
    stream: S,
}

impl<S> PlainStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream }
    }
}

/// Returns an error of the library for TLS for people.
pub(crate) fn in_plain_words(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::UnexpectedEof => io::Error::new(kind, ENDED),
        _ => error,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PlainStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.get_mut().stream).poll_read(context, buffer);
        read.map_err(in_plain_words)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PlainStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_without_a_word_is_told_in_other_words() {
        let eof = io::Error::new(io::ErrorKind::UnexpectedEof, "no close_notify: https://manual");
        let plain = in_plain_words(eof);
        assert_eq!((plain.kind(), &*plain.to_string()), (io::ErrorKind::UnexpectedEof, ENDED));
        let reset = in_plain_words(io::Error::new(io::ErrorKind::ConnectionReset, "reset"));
        assert_eq!(reset.to_string(), "reset");
    }
}
