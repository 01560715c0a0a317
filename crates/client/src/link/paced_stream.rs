//! Stream that keeps to the limits of the process.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::pace::{Direction, Pace};

/// Maximum number of bytes that are written at once, so that a limit is not exceeded by much.
const PIECE_BYTES: usize = 16 << 10;

/// Stream of a connection, below TLS.
pub(super) struct PacedStream<S> {
    stream: S,
    pace: Option<Arc<Pace>>,
    /// Waits for the turn to send, and to receive.
    sending: Option<Pin<Box<Sleep>>>,
    receiving: Option<Pin<Box<Sleep>>>,
}

impl<S> PacedStream<S> {
    pub(super) fn new(stream: S, pace: Option<Arc<Pace>>) -> Self {
        Self { stream, pace, sending: None, receiving: None }
    }
}

/// Waits until bytes may pass in `direction`.
fn poll_turn(
    pace: Option<&Pace>,
    direction: Direction,
    sleep: &mut Option<Pin<Box<Sleep>>>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let Some(pace) = pace else { return Poll::Ready(()) };
    loop {
        if let Some(waiting) = sleep {
            ready!(waiting.as_mut().poll(context));
            *sleep = None;
        }
        let wait = pace.wait(direction);
        if wait.is_zero() {
            return Poll::Ready(());
        }
        *sleep = Some(Box::pin(tokio::time::sleep(wait)));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let pace = this.pace.as_deref();
        ready!(poll_turn(pace, Direction::Receive, &mut this.receiving, context));
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if let Some(pace) = pace {
            pace.charge(Direction::Receive, buffer.filled().len() - before);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(pace) = this.pace.as_deref() else {
            return Pin::new(&mut this.stream).poll_write(context, bytes);
        };
        ready!(poll_turn(Some(pace), Direction::Send, &mut this.sending, context));
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, piece))?;
        pace.charge(Direction::Send, written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.pace.is_none() {
            return Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices);
        }
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(context, first.map_or(&[][..], |slice| slice))
    }

    fn is_write_vectored(&self) -> bool {
        self.pace.is_none() && self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
