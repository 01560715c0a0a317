//! Replay of recorded sessions: to a server in place of the client, and to a client in place of the
//! server.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::server::{self, SendResponse};
use h2::{RecvStream, SendStream};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::compare::{differences, first_field};
use super::grpc::{self, MessageStream};
use super::numbers::Numbers;
use super::recorder::{listen, run};
use super::{Entry, Event, stage};

/// Time limit for one answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Number of the field that reports arrivals in an answer to a backup. Such answers come at times
/// that may differ.
const ARRIVED: u32 = 4;
/// Status of a call whose questions did not arrive.
const LOST: &str = "14 lost";

/// Sends the client's messages of `entries` to the server on `port`, as the node whose folder is
/// `home`. Returns the differences of the server's answers from the recorded answers.
pub fn replay(home: &Path, port: u16, entries: &[Entry]) -> Vec<String> {
    replay_with(home, port, entries, &mut Numbers::default())
}

/// Does the same for a session of a series, which goes on with the numbers that the server has
/// given in the sessions before.
pub fn replay_with(
    home: &Path,
    port: u16,
    entries: &[Entry],
    numbers: &mut Numbers,
) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let stream = stage::connect(home, port).await;
        let (sender, connection) = client::handshake(stream).await.expect("the server speaks HTTP");
        tokio::spawn(connection);
        let mut calls = HashMap::new();
        let mut found = Vec::new();
        for entry in entries {
            let step = step(&sender, &mut calls, numbers, entry);
            match tokio::time::timeout(ANSWER_MAX, step).await {
                Ok(differences) => found.extend(differences),
                Err(_) => {
                    found.push(format!("no answer in time: {entry:?}"));
                    return found;
                }
            }
        }
        found
    })
}

/// Calls the method `path` of the server on `port` with `questions`, as the node whose folder is
/// `home`. Returns the status of the answer: code, space, text.
pub fn end_of_call(home: &Path, port: u16, path: &str, questions: &[Vec<u8>]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let stream = stage::connect(home, port).await;
        let (sender, connection) = client::handshake(stream).await.expect("the server speaks HTTP");
        tokio::spawn(connection);
        let mut call = Call::new(&sender, path).await;
        for question in questions {
            grpc::send(&mut call.questions, question);
        }
        grpc::finish(&mut call.questions);
        let status = tokio::time::timeout(ANSWER_MAX, call.end()).await;
        status.expect("the call ends in time").replace("%20", " ")
    })
}

/// Sends the client's messages of `entries` to the server on `port`, whatever it answers: one call
/// after the other, each to its end. A call without an end of the questions is abandoned. Returns
/// the path of a call that the server does not end.
pub fn provoke(home: &Path, port: u16, entries: &[Entry]) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let stream = stage::connect(home, port).await;
        let (sender, connection) = client::handshake(stream).await.ok()?;
        tokio::spawn(connection);
        for entry in entries {
            let Event::Call(path) = &entry.event else { continue };
            let events = entries.iter().filter(|other| other.call == entry.call);
            let call = provoke_call(&sender, path, events.map(|entry| &entry.event));
            if tokio::time::timeout(ANSWER_MAX, call).await.is_err() {
                return Some(path.clone());
            }
        }
        None
    })
}

async fn provoke_call<'a>(
    sender: &SendRequest<Bytes>,
    path: &str,
    events: impl Iterator<Item = &'a Event>,
) {
    let Some(mut call) = Call::open(sender, path).await else { return };
    for event in events {
        match event {
            Event::Question(question) => grpc::send(&mut call.questions, question),
            Event::QuestionsEnd => {
                grpc::finish(&mut call.questions);
                call.end().await;
                return;
            }
            _ => {}
        }
    }
}

/// Call of the imitated client.
pub(super) struct Call {
    path: String,
    pub(super) questions: SendStream<Bytes>,
    response: Option<ResponseFuture>,
    answers: Option<MessageStream>,
    /// Status of a call that has no other answer.
    pub(super) status: Option<String>,
}

impl Call {
    pub(super) async fn new(sender: &SendRequest<Bytes>, path: &str) -> Self {
        Self::open(sender, path).await.expect("the connection is open")
    }

    /// Begins a call; `None` if the server has closed the connection.
    async fn open(sender: &SendRequest<Bytes>, path: &str) -> Option<Self> {
        let mut sender = sender.clone().ready().await.ok()?;
        let (response, questions) = sender.send_request(grpc::request(path), false).ok()?;
        let (path, response) = (path.to_owned(), Some(response));
        Some(Self { path, questions, response, answers: None, status: None })
    }

    /// Waits for the head of the answers.
    pub(super) async fn begin(&mut self) {
        let Some(response) = self.response.take() else { return };
        match response.await {
            Ok(response) if response.headers().contains_key("grpc-status") => {
                self.status = Some(grpc::status(response.headers()));
            }
            Ok(response) => self.answers = Some(MessageStream::new(response.into_body())),
            Err(error) => self.status = Some(format!("14 {error}")),
        }
    }

    pub(super) async fn answer(&mut self) -> Option<Vec<u8>> {
        self.begin().await;
        loop {
            let answer = self.answers.as_mut()?.next().await?;
            if !is_arrival(&self.path, &answer) {
                return Some(answer);
            }
        }
    }

    pub(super) async fn end(&mut self) -> String {
        while self.answer().await.is_some() {}
        match self.answers.take() {
            Some(answers) => answers.status().await,
            None => self.status.take().unwrap_or_default(),
        }
    }
}

fn is_arrival(path: &str, answer: &[u8]) -> bool {
    path.ends_with("/Backup") && first_field(answer) == ARRIVED
}

async fn step(
    sender: &SendRequest<Bytes>,
    calls: &mut HashMap<u32, Call>,
    numbers: &mut Numbers,
    Entry { call, event }: &Entry,
) -> Vec<String> {
    if let Event::Call(path) = event {
        calls.insert(*call, Call::new(sender, path).await);
        return Vec::new();
    }
    let call = calls.get_mut(call).expect("a call begins with its path");
    match event {
        Event::Question(question) => {
            grpc::send(&mut call.questions, &numbers.question(&call.path, question));
        }
        Event::QuestionsEnd => grpc::finish(&mut call.questions),
        Event::Answer(expected) if !is_arrival(&call.path, expected) => {
            let Some(answer) = call.answer().await else {
                let status = call.end().await;
                return vec![format!("{} ended without an answer: {status}", call.path)];
            };
            let answer = numbers.answer(&call.path, expected, &answer);
            return differences(&call.path, expected, &answer);
        }
        Event::Status(expected) => {
            let status = call.end().await;
            let code = |status: &str| status.split(' ').next().unwrap_or_default().to_owned();
            if code(&status) != code(expected) {
                return vec![format!("{} ended with {status}, not {expected}", call.path)];
            }
        }
        _ => {}
    }
    Vec::new()
}

/// Recorded calls of each method, in order.
type Scripts = HashMap<String, Vec<Vec<Event>>>;

/// Imitation of a server: it answers each call as the recorded call of the same method was
/// answered. A call beyond the recorded calls is answered as the last recorded call.
///
/// The calls of a client's threads may come in another order than in the recording. So a call
/// without a question gets a recorded call without a question.
pub struct Imitation {
    scripts: Mutex<Scripts>,
    /// Time limit for the questions that an answer waits for; the call ends after it.
    patience: Duration,
}

impl Imitation {
    /// Imitates the server of `entries` on `port`, with the certificate authority of the server
    /// whose folder is `server`.
    pub fn start(server: &Path, port: u16, entries: &[Entry]) {
        drop(Self::start_impatient(server, port, entries, ANSWER_MAX));
    }

    /// Imitates as [`Self::start`] does. An answer waits for the questions before it no longer than
    /// `patience`; then the call ends as if the server were lost.
    pub fn start_impatient(
        server: &Path,
        port: u16,
        entries: &[Entry],
        patience: Duration,
    ) -> Arc<Self> {
        let (listener, _) = listen(port);
        let acceptor = stage::acceptor(server);
        let imitation = Arc::new(Self { scripts: Mutex::new(scripts(entries)), patience });
        let serving = Arc::clone(&imitation);
        run(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(acceptor.clone(), stream));
            }
        });
        imitation
    }

    /// Answers the next calls as in `entries`.
    pub fn play_instead(&self, entries: &[Entry]) {
        *self.scripts.lock().expect("nobody panics while he looks") = scripts(entries);
    }

    async fn serve(self: Arc<Self>, acceptor: TlsAcceptor, stream: TcpStream) {
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let Ok(mut connection) = server::handshake(stream).await else { return };
        while let Some(Ok((request, respond))) = connection.accept().await {
            tokio::spawn(Arc::clone(&self).play(request, respond));
        }
    }

    fn knows(&self, path: &str) -> bool {
        self.scripts.lock().expect("nobody panics while he looks").contains_key(path)
    }

    /// Returns the script of a call. A client that has been killed may still call when another
    /// session is played.
    fn script(&self, path: &str, has_question: bool) -> Option<Vec<Event>> {
        let mut scripts = self.scripts.lock().expect("nobody panics while he looks");
        let of_method = scripts.get_mut(path)?;
        let asks = |script: &Vec<Event>| matches!(script.first(), Some(Event::Question(_)));
        let fitting = of_method.iter().position(|script| asks(script) == has_question);
        let at = fitting.unwrap_or(0);
        let is_last =
            of_method.iter().filter(|other| asks(other) == asks(&of_method[at])).count() == 1;
        Some(if is_last { of_method[at].clone() } else { of_method.remove(at) })
    }

    /// Answers one call. Each answer waits until the client has sent as many messages of each kind
    /// as in the recording.
    async fn play(
        self: Arc<Self>,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Option<()> {
        let path = request.uri().path().to_owned();
        if !self.knows(&path) {
            let mut answer = grpc::response();
            answer.headers_mut().extend(grpc::trailers("12 "));
            respond.send_response(answer, true).ok()?;
            return Some(());
        }
        let incoming = MessageStream::new(request.into_body());
        let mut questions = Questions { incoming, counts: HashMap::new(), has_ended: false };
        let answers = respond.send_response(grpc::response(), false).ok()?;
        drop(tokio::time::timeout(self.patience, questions.read()).await);
        let script = self.script(&path, !questions.has_ended)?;
        follow(script, questions, answers, self.patience).await
    }
}

fn scripts(entries: &[Entry]) -> Scripts {
    let mut scripts = Scripts::new();
    for entry in entries {
        let Event::Call(path) = &entry.event else { continue };
        let of_call = entries.iter().filter(|other| other.call == entry.call).skip(1);
        let events = of_call.map(|other| other.event.clone()).collect();
        scripts.entry(path.clone()).or_default().push(events);
    }
    scripts
}

/// Counts of the questions that have arrived, by the number of their first field.
struct Questions {
    incoming: MessageStream,
    counts: HashMap<u32, usize>,
    has_ended: bool,
}

impl Questions {
    /// Reads until `count` questions of `kind` have arrived, or until no more arrive.
    async fn await_kind(&mut self, kind: u32, count: usize) {
        while !self.has_ended && self.counts.get(&kind).copied().unwrap_or(0) < count {
            self.read().await;
        }
    }

    async fn read_all(&mut self) {
        while !self.has_ended {
            self.read().await;
        }
    }

    async fn read(&mut self) {
        match self.incoming.next().await {
            Some(question) => *self.counts.entry(first_field(&question)).or_default() += 1,
            None => self.has_ended = true,
        }
    }
}

/// Sends the answers of `script` as the questions arrive. Each wait is at most `patience`.
async fn follow(
    script: Vec<Event>,
    mut questions: Questions,
    mut answers: SendStream<Bytes>,
    patience: Duration,
) -> Option<()> {
    let mut recorded: HashMap<u32, usize> = HashMap::new();
    let mut last = 0;
    for event in script {
        let arrived = match &event {
            Event::Answer(_) => {
                let count = recorded.get(&last).copied().unwrap_or(0);
                tokio::time::timeout(patience, questions.await_kind(last, count)).await
            }
            Event::QuestionsEnd => tokio::time::timeout(patience, questions.read_all()).await,
            _ => Ok(()),
        };
        if arrived.is_err() {
            return answers.send_trailers(grpc::trailers(LOST)).ok();
        }
        match event {
            Event::Question(question) => {
                last = first_field(&question);
                *recorded.entry(last).or_default() += 1;
            }
            Event::Answer(answer) => grpc::send(&mut answers, &answer),
            Event::QuestionsEnd => {}
            Event::Status(status) => answers.send_trailers(grpc::trailers(&status)).ok()?,
            Event::Call(_) => unreachable!("a script begins after the call"),
        }
    }
    Some(())
}
