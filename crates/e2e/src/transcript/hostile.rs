//! A client that does what no client of Holdfast does: it leaves calls open, and sends parts of
//! messages.

use std::io;
use std::path::Path;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use tokio::runtime::Runtime;

use super::replay::{ANSWER_MAX, Call};
use super::{grpc, stage};

/// Proof with which a client connects.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// The certificate in the folder of a node.
    Node(&'a Path),
    /// No certificate. The folder is the server's; the client knows the authority from it.
    None(&'a Path),
}

/// A connection with its open calls.
pub struct HostileClient {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    calls: Vec<Call>,
}

impl HostileClient {
    /// Connects to the server on `port`. Fails if the server closes the connection.
    pub fn connect(credential: Credential<'_>, port: u16) -> io::Result<Self> {
        let config = match credential {
            Credential::Node(home) => stage::client_of(home),
            Credential::None(server) => stage::client_without_certificate(server),
        };
        // The thread answers the server's probes while the test does something else.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let sender = runtime.block_on(async {
            let stream = stage::try_connect(config, port).await?;
            let (sender, mut connection) =
                client::handshake(stream).await.map_err(io::Error::other)?;
            let mut pings = connection.ping_pong().expect("nobody else has it");
            tokio::spawn(connection);
            // The server's settings, its limit of streams among them, have come before its answer.
            pings.ping(h2::Ping::opaque()).await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(sender)
        })?;
        Ok(Self { runtime, sender, calls: Vec::new() })
    }

    /// Returns the maximum number of calls that the server lets this client open at once.
    pub fn calls_max(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Calls the method `path`, sends `bytes` of the request's body, and leaves the body open.
    /// Returns the number of the call.
    pub fn open(&mut self, path: &str, bytes: &[u8]) -> usize {
        self.open_with(path, Bytes::copy_from_slice(bytes))
    }

    /// Calls like [`Self::open`] with bytes that several calls may share.
    pub fn open_with(&mut self, path: &str, bytes: Bytes) -> usize {
        let call = self.runtime.block_on(async {
            let opening = Call::new(&self.sender, path);
            let mut call = tokio::time::timeout(ANSWER_MAX, opening).await.expect("it is opened");
            if !bytes.is_empty() {
                drop(call.questions.send_data(bytes, false));
            }
            call
        });
        self.calls.push(call);
        self.calls.len() - 1
    }

    /// Sends one message on a call, and leaves its body open.
    pub fn send(&mut self, call: usize, message: &[u8]) {
        grpc::send(&mut self.calls[call].questions, message);
    }

    /// Sends bytes of a call's body, and leaves the body open.
    pub fn send_part(&mut self, call: usize, bytes: Bytes) {
        drop(self.calls[call].questions.send_data(bytes, false));
    }

    /// Sends the last message of a call.
    pub fn finish(&mut self, call: usize, message: &[u8]) {
        let questions = &mut self.calls[call].questions;
        grpc::send(questions, message);
        grpc::finish(questions);
    }

    /// Waits for the head of the answer. Returns the status of a call that has ended with it;
    /// `None` if the call goes on.
    pub fn head(&mut self, call: usize) -> Option<String> {
        let call = &mut self.calls[call];
        let head = async { tokio::time::timeout(ANSWER_MAX, call.begin()).await };
        self.runtime.block_on(head).expect("the server answers");
        call.status.as_ref().map(|status| readable(status))
    }

    /// Waits for the first message of the answer, or for the status of a call that has ended
    /// without one.
    pub fn first(&mut self, call: usize) -> Result<Vec<u8>, String> {
        let call = &mut self.calls[call];
        let first = async {
            match call.answer().await {
                Some(message) => Ok(message),
                None => Err(readable(&call.end().await)),
            }
        };
        let first = async { tokio::time::timeout(ANSWER_MAX, first).await };
        self.runtime.block_on(first).expect("the server answers")
    }
}

impl Drop for HostileClient {
    fn drop(&mut self) {
        self.calls.clear();
    }
}

fn readable(status: &str) -> String {
    status.replace("%20", " ")
}
