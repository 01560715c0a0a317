//! A relay between a client and its server that counts bytes in both directions: everything that
//! TCP carries, TLS included.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::trouble::{Trouble, While as _};

const BUFFER_BYTES: usize = 64 << 10;

/// Bytes from the client's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Traffic {
    pub(crate) fn total(self) -> u64 {
        self.sent + self.received
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { sent: self.sent - earlier.sent, received: self.received - earlier.received }
    }
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

/// Relays until it is dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    counters: Arc<Counters>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens on a port of its own and relays to `server`, which need not be there yet.
    pub(crate) fn to(server: &str) -> Result<Self, Trouble> {
        let what = || "relay connections".to_owned();
        let server: SocketAddr = server.parse().while_doing(what)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .while_doing(what)?;
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .while_doing(what)?;
        let address = listener.local_addr().while_doing(what)?;
        let counters = Arc::<Counters>::default();
        let (stop, stopped) = oneshot::channel();
        let counting = Arc::clone(&counters);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, server, counting) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { address, counters, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns where clients find it, as `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns all that has been relayed so far.
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.counters.sent.load(Relaxed),
            received: self.counters.received.load(Relaxed),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Fails only when the thread has ended.
        let _ = self.stop.take().map(|stop| stop.send(()));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, counters: Arc<Counters>) {
    // A listener that fails has no more clients; they will say so.
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(relay(client, server, Arc::clone(&counters)));
    }
}

/// Relays one connection. What goes wrong ends it, which both sides notice.
async fn relay(client: TcpStream, server: SocketAddr, counters: Arc<Counters>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        copy(from_client, to_server, &counters.sent),
        copy(from_server, to_client, &counters.received),
    );
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counter: &AtomicU64) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..bytes]).await.is_err() {
            break;
        }
        counter.fetch_add(bytes as u64, Relaxed);
    }
    // Fails only when the other side has gone.
    drop(to.shutdown().await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn both_directions_are_counted() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay::to(&server.local_addr().unwrap().to_string()).unwrap();
        let mut client = std::net::TcpStream::connect(relay.address()).unwrap();
        client.write_all(b"a question").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (mut connection, _) = server.accept().unwrap();
        let mut question = String::new();
        connection.read_to_string(&mut question).unwrap();
        connection.write_all(b"answer").unwrap();
        drop(connection);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!((&*question, &*answer), ("a question", "answer"));
        let traffic = relay.traffic();
        assert_eq!(traffic, Traffic { sent: 10, received: 6 });
        assert_eq!(traffic.since(Traffic { sent: 4, received: 0 }).total(), 12);
    }
}
