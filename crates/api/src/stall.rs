//! Connections on which nothing moves: they end after a while, so that clients that send nothing,
//! or take nothing, do not hold them for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection that fails once no byte has moved in either direction for some time.
pub(crate) struct Watch<S> {
    stream: S,
    patience: Duration,
    end: Pin<Box<Sleep>>,
}

impl<S> Watch<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, end: Box::pin(sleep(patience)) }
    }

    /// Passes on the result of an operation. One that waits fails at the end of the patience.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.end.as_mut().reset(Instant::now() + self.patience);
            return result;
        }
        ready!(self.end.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing moved for too long")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watch<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watch(context, result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watch<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        match result {
            // A flush with nothing to do is no movement.
            Poll::Ready(_) => result,
            Poll::Pending => self.watch(context, result),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    fn run(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(work);
    }

    #[test]
    fn a_client_that_sends_nothing_is_cut_off() {
        run(async {
            let (_client, server) = duplex(64);
            let mut server = Watch::new(server, SHORT);
            let error = server.read_u8().await.expect_err("nothing comes");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_off() {
        run(async {
            let (_client, server) = duplex(64);
            let mut server = Watch::new(server, SHORT);
            let error = server.write_all(&[0; 1_000]).await.expect_err("nobody reads");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn bytes_that_move_keep_a_connection() {
        run(async {
            let (mut client, server) = duplex(64);
            let mut server = Watch::new(server, Duration::from_secs(600));
            client.write_u8(7).await.expect("there is room");
            assert_eq!(server.read_u8().await.expect("has come"), 7);
            server.write_u8(8).await.expect("there is room");
            assert_eq!(client.read_u8().await.expect("has come"), 8);
            drop(client);
            let error = server.read_u8().await.expect_err("the client is gone");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        });
    }
}
