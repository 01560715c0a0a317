//! Recorder of sessions. It is between a client and a server, and ends TLS on both sides.

use std::net::TcpListener as Listener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, client, server};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::grpc::{self, MessageStream};
use super::{Entry, Event, stage};

/// Recorder on a port of its own. It listens until the process ends.
pub struct Recorder {
    port: u16,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    /// The number of the next call, and the events.
    entries: Mutex<(u32, Vec<Entry>)>,
    /// Paths of the calls that the client has reset.
    resets: Mutex<Vec<String>>,
}

impl Recorder {
    /// Starts a recorder in front of the server whose folder is `server` and which listens on the
    /// port `to`. The folder of the node is `home`.
    pub fn start(server: &Path, home: &Path, to: u16) -> Self {
        let (listener, port) = listen(0);
        let log = Arc::new(Log::default());
        let route = Route { home: home.to_owned(), to, log: Arc::clone(&log) };
        let acceptor = stage::acceptor(server);
        run(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(route.clone().carry(acceptor.clone(), stream));
            }
        });
        Self { port, log }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the recorded events, and starts a new recording.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.log.lock()).1
    }

    /// Returns the paths of the calls whose messages the client has ended by a reset.
    pub fn resets(&self) -> Vec<String> {
        self.log.resets.lock().expect("no thread panics while it records").clone()
    }
}

/// Returns a listener on `port`, or on a free port if `port` is 0, and the number of the port.
pub(super) fn listen(port: u16) -> (Listener, u16) {
    let listener = Listener::bind(("127.0.0.1", port)).expect("the port is free");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("the listener has a port").port();
    (listener, port)
}

/// Runs `work` on a thread of its own until the process ends.
pub(super) fn run(work: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    std::thread::spawn(move || runtime.block_on(work));
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, (u32, Vec<Entry>)> {
        self.entries.lock().expect("no thread panics while it records")
    }

    fn push_reset(&self, path: &str) {
        let mut resets = self.resets.lock().expect("no thread panics while it records");
        resets.push(path.to_owned());
    }

    fn open(&self, path: &str) -> u32 {
        let mut log = self.lock();
        let call = log.0;
        log.0 += 1;
        log.1.push(Entry { call, event: Event::Call(path.to_owned()) });
        call
    }

    fn push(&self, call: u32, event: Event) {
        self.lock().1.push(Entry { call, event });
    }
}

/// Route from a client to the server.
#[derive(Clone)]
struct Route {
    home: PathBuf,
    to: u16,
    log: Arc<Log>,
}

impl Route {
    /// Forwards one connection until one of the two sides ends it.
    async fn carry(self, acceptor: TlsAcceptor, stream: TcpStream) {
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let Ok(mut below) = server::handshake(stream).await else { return };
        let upstream = stage::connect(&self.home, self.to).await;
        let Ok((above, connection)) = client::handshake(upstream).await else { return };
        tokio::spawn(connection);
        while let Some(Ok((request, respond))) = below.accept().await {
            tokio::spawn(self.clone().call(above.clone(), request, respond));
        }
    }

    /// Forwards and records one call.
    async fn call(
        self,
        above: client::SendRequest<Bytes>,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Option<()> {
        let path = request.uri().path().to_owned();
        let call = self.log.open(&path);
        let mut above = above.ready().await.ok()?;
        let (response, mut up) = above.send_request(grpc::request(&path), false).ok()?;
        let (log, of_questions) = (Arc::clone(&self.log), path.clone());
        tokio::spawn(async move {
            let mut questions = MessageStream::new(request.into_body());
            while let Some(question) = questions.next().await {
                log.push(call, Event::Question(question.clone()));
                grpc::send(&mut up, &question);
            }
            if questions.is_cut_off() {
                log.push_reset(&of_questions);
            }
            log.push(call, Event::QuestionsEnd);
            grpc::finish(&mut up);
        });
        let response = response.await.ok()?;
        if response.headers().contains_key("grpc-status") {
            let status = grpc::status(response.headers());
            let mut answer = grpc::response();
            answer.headers_mut().extend(grpc::trailers(&status));
            self.log.push(call, Event::Status(status));
            respond.send_response(answer, true).ok()?;
            return Some(());
        }
        let mut down = respond.send_response(grpc::response(), false).ok()?;
        let mut answers = MessageStream::new(response.into_body());
        while let Some(answer) = answers.next().await {
            self.log.push(call, Event::Answer(answer.clone()));
            grpc::send(&mut down, &answer);
        }
        let status = answers.status().await;
        self.log.push(call, Event::Status(status.clone()));
        down.send_trailers(grpc::trailers(&status)).ok()
    }
}
