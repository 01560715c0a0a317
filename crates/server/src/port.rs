//! The port to which nodes connect: its threads, and the three servers behind it. One serves the
//! connections with a certificate. The second serves such connections of nodes that have many. The
//! third serves those without a certificate, which can only enrol. The last two take little memory
//! for each connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::Router;
use wire::proto::enrolment_server::EnrolmentServer;
use wire::proto::node_server::NodeServer;
use wire::{CONNECTION_WINDOW_BYTES, FRAME_BYTES, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES};

use crate::edge::Edge;
use crate::enrol::{ENROL_BYTES_MAX, EnrolmentApi};
use crate::gate::Gate;
use crate::sessions::NodeSessions;
use crate::stop::stopped;
use crate::tls::{self, Arrivals};
use crate::unknown::VersionNotice;

/// Maximum number of threads that may block for nodes: a session holds one or two for as long as it
/// lasts. Administrators and the server's own tasks have other threads, so that they work even if
/// nodes have all of these.
const BLOCKING_THREADS_MAX: usize = 4096;
/// Interval between two probes of a connection that is silent. An agent that has nothing to do is
/// not woken more often.
const KEEPALIVE: Duration = Duration::from_secs(40);
/// Time limit for the answer to a probe.
const KEEPALIVE_PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of streams on one connection: a node's recalls that wait for volumes, and all its
/// other calls.
const STREAMS_MAX: u32 = 320;

/// Maximum number of unacknowledged bytes on a further connection of a node that has many, and on
/// each of its streams. A call that waits for memory leaves half of the connection's window to
/// others.
const FURTHER_CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
const FURTHER_STREAM_WINDOW_BYTES: u32 = FURTHER_CONNECTION_WINDOW_BYTES / 2;

/// Maximum number of streams on a connection without a certificate.
const GUEST_STREAMS_MAX: u32 = 4;
/// Maximum number of unacknowledged bytes on a connection without a certificate, and on each of its
/// streams: the smallest window that a connection of HTTP/2 can have.
const GUEST_WINDOW_BYTES: u32 = 65_535;
/// Time limit for one enrolment, from the head of its request to the answer.
const ENROL_LIMIT: Duration = Duration::from_secs(60);

/// Time that calls under way have to end before the catalogue is closed.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// The threads that serve nodes. Dropping them does not wait for calls that are under way.
pub(crate) struct NodeThreads(Option<Runtime>);

impl NodeThreads {
    pub(crate) fn start() -> io::Result<Self> {
        Self::with(BLOCKING_THREADS_MAX)
    }

    fn with(blocking_threads_max: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .max_blocking_threads(blocking_threads_max)
            .thread_name("nodes")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    fn handle(&self) -> &Handle {
        self.0.as_ref().expect("the threads are there until they are dropped").handle()
    }

    /// Listens on `address`.
    pub(crate) async fn listen(&self, address: &str) -> io::Result<TcpListener> {
        let listening = self.handle().spawn(TcpListener::bind(address.to_owned()));
        listening.await.map_err(io::Error::other)?
    }

    /// Serves the connections of `listener` until `stop` becomes true and they have ended.
    pub(crate) fn serve(
        &self,
        listener: TcpListener,
        edge: &Arc<Edge>,
        acceptor: TlsAcceptor,
        stop: &watch::Receiver<bool>,
    ) -> JoinHandle<Result<(), tonic::transport::Error>> {
        let edge = Arc::clone(edge);
        let stop = stop.clone();
        self.handle().spawn(async move {
            let Arrivals { nodes, further, guests } =
                tls::accept(listener, acceptor, Arc::clone(&edge));
            let stopping = || {
                let mut stop = stop.clone();
                async move { stopped(&mut stop).await }
            };
            let windows = (STREAM_WINDOW_BYTES, CONNECTION_WINDOW_BYTES);
            let nodes = node_server(&edge, windows)
                .serve_with_incoming_shutdown(ReceiverStream::new(nodes), stopping());
            let windows = (FURTHER_STREAM_WINDOW_BYTES, FURTHER_CONNECTION_WINDOW_BYTES);
            let further = node_server(&edge, windows)
                .serve_with_incoming_shutdown(ReceiverStream::new(further), stopping());
            let guests = guest_server(&edge)
                .serve_with_incoming_shutdown(ReceiverStream::new(guests), stopping());
            tokio::try_join!(nodes, further, guests).map(|_| ())
        })
    }

    /// Drops all that the threads serve, and waits for those that work with the store.
    pub(crate) async fn end(mut self) {
        let Some(runtime) = self.0.take() else { return };
        let end = move || runtime.shutdown_timeout(END_PATIENCE);
        // A panic while values are dropped has been logged.
        drop(tokio::task::spawn_blocking(end).await);
    }
}

impl Drop for NodeThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The server of connections with a certificate, with windows of this size for a stream and for a
/// connection.
fn node_server(edge: &Arc<Edge>, (of_stream, of_connection): (u32, u32)) -> Router {
    Server::builder()
        .initial_stream_window_size(of_stream)
        .initial_connection_window_size(of_connection)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_PATIENCE))
        .add_service(enrolment(edge))
        .add_service(nodes(edge))
}

/// The server of connections without a certificate. Its gate tells the client of a node's call that
/// it has no certificate.
fn guest_server(edge: &Arc<Edge>) -> Router {
    Server::builder()
        .initial_stream_window_size(GUEST_WINDOW_BYTES)
        .initial_connection_window_size(GUEST_WINDOW_BYTES)
        .max_concurrent_streams(GUEST_STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_PATIENCE))
        .timeout(ENROL_LIMIT)
        .add_service(enrolment(edge))
        .add_service(nodes(edge))
}

fn enrolment(edge: &Arc<Edge>) -> EnrolmentServer<EnrolmentApi> {
    EnrolmentServer::new(EnrolmentApi { edge: Arc::clone(edge) })
        .max_decoding_message_size(ENROL_BYTES_MAX)
}

fn nodes(edge: &Arc<Edge>) -> Gate<VersionNotice<NodeServer<NodeSessions>>> {
    let node = NodeServer::new(NodeSessions { edge: Arc::clone(edge) })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Gate { edge: Arc::clone(edge), inner: VersionNotice(node) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Nodes may have all their threads. Other threads are still free.
    #[test]
    fn threads_of_nodes_are_not_those_of_administrators() {
        let own = Builder::new_current_thread().build().expect("a runtime");
        let threads = NodeThreads::with(1).expect("threads");
        let (release, held) = mpsc::channel::<()>();
        own.block_on(async {
            threads.handle().spawn_blocking(move || held.recv().is_err());
            let waiting = threads.handle().spawn_blocking(|| ());
            tokio::task::spawn_blocking(|| ()).await.expect("a thread is free");
            assert!(!waiting.is_finished(), "the thread of nodes should be taken");
            drop(release);
            waiting.await.expect("the thread is given back");
        });
    }
}
