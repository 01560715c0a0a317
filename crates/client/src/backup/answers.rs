//! Answers of the server in a session, and the failure of the session. One thread reads the
//! answers; all stages of the backup see them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use model::ChunkDigest;
use sys::lock::{Condvar, Mutex, MutexGuard};

use super::chunks::Chunks;
use super::figures::Figures;
use super::tally::Tally;
use super::transit::{Payload, Transit};
use crate::error::{ClientError, ErrorKind};
use crate::link::backup::{Commitment, Rejection, Remnant, ServerMessage, SessionReceiver};
use crate::progress::Progress;

/// Maximum number of rejections and remnants in all parts of an answer: as many as one message may
/// have.
const ANSWER_ITEMS_MAX: usize = wire::MESSAGES_MAX;
/// Interval between two looks whether a backup that waits for room was stopped or paused.
const ROOM_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time that a message waits for room, so that a wrong count never ends a session. At the
/// least limit that may be set, two quanta arrive in it.
const ROOM_PATIENCE: Duration = Duration::from_secs(32);

/// The server's answers so far, shared by all threads of a session.
#[derive(Default)]
pub(super) struct Answers {
    state: Mutex<State>,
    /// True once the state has a failure. The flag lies outside the lock, because walkers read it
    /// for each directory.
    has_failed: AtomicBool,
    /// Bytes of the records of quanta that have arrived at the server.
    arrived: AtomicU64,
    transit: Mutex<Transit>,
    /// True if the server counts the messages that have arrived. Then this count bounds what is on
    /// its way.
    is_bounded: AtomicBool,
    changed: Condvar,
}

/// Transaction that was sent, and that the server has not answered.
#[derive(Clone, Copy, Default)]
struct SentTransaction {
    /// Figures of its objects and its data.
    figures: Figures,
    /// Bytes of its messages.
    bytes: u64,
    /// Bytes of all messages of the session up to the end of the transaction.
    sent_up_to: u64,
}

#[derive(Default)]
struct State {
    /// Digests of the chunks of quanta that have no grants yet, by the number of the quantum.
    sent: HashMap<u64, Vec<ChunkDigest>>,
    /// Transactions without an answer, oldest first.
    unanswered: VecDeque<SentTransaction>,
    /// Number of rejections in the parts of the next answer that have come so far.
    rejected: u64,
    /// Number of rejections and remnants in the parts of the next answer that have come so far.
    answer_items: usize,
    is_closed: bool,
    rejections: Vec<Rejection>,
    remnants: Vec<Remnant>,
    failure: Option<ClientError>,
    /// True if the server has given no reason for the end of the session. Then the session ended
    /// because this side ended it, or because the server was stopped.
    is_unexplained: bool,
}

impl State {
    /// Takes an answer, or a part of an answer. Returns the transaction, without the objects that
    /// the server has rejected, once its answer is whole. Fails if the answer has more parts than a
    /// server without fault sends.
    fn take_part(
        &mut self,
        commitment: Commitment,
    ) -> Result<Option<SentTransaction>, ClientError> {
        let Commitment { rejections, remnants, is_continued, .. } = commitment;
        self.answer_items += rejections.len() + remnants.len();
        if self.answer_items > ANSWER_ITEMS_MAX {
            let message = "the server rejects more objects than a transaction has";
            return Err(ClientError::new(ErrorKind::Bug, message));
        }
        self.rejected += rejections.len() as u64;
        self.rejections.extend(rejections);
        self.remnants.extend(remnants);
        if is_continued {
            return Ok(None);
        }
        self.answer_items = 0;
        let rejected = std::mem::take(&mut self.rejected);
        let committed = self.unanswered.pop_front().map(|sent| SentTransaction {
            figures: sent.figures.without_objects(rejected),
            ..sent
        });
        Ok(committed)
    }
}

impl Answers {
    /// Makes the answers of a session. `reports_arrivals` is true if the server reports what has
    /// arrived.
    pub(super) fn new(reports_arrivals: bool) -> Self {
        Self { is_bounded: AtomicBool::new(reports_arrivals), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends the session with `error`, unless the session has failed before. An error replaces its
    /// own consequence, which another thread may have met first.
    pub(super) fn fail(&self, error: ClientError) {
        let mut state = self.state();
        if state.failure.as_ref().is_none_or(ClientError::is_consequence) {
            state.failure = Some(error);
        }
        drop(state);
        self.has_failed.store(true, Relaxed);
        self.changed.notify_all();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Fails with the reason why the session has failed, if it has.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        if !self.has_failed() {
            return Ok(());
        }
        self.state().failure.clone().map_or(Ok(()), Err)
    }

    /// Returns the bytes of the records of quanta that have arrived at the server.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Relaxed)
    }

    /// Returns the reason why the session has failed, if it has, and otherwise `outcome`, the
    /// result on this side. The server's reason is more precise than its consequences on this side.
    pub(super) fn conclude<T>(&self, outcome: Result<T, ClientError>) -> Result<T, ClientError> {
        let mut state = self.state();
        match state.failure.take() {
            Some(_) if state.is_unexplained && outcome.is_err() => outcome,
            Some(failure) => Err(failure),
            None => outcome,
        }
    }

    /// Notes that the quantum `number` is sent to the server. Its chunks have `digests`.
    pub(super) fn expect_grants(&self, number: u64, digests: Vec<ChunkDigest>) {
        let before = self.state().sent.insert(number, digests);
        assert!(before.is_none(), "a quantum is sent once");
    }

    /// Notes that a message of `bytes`, which holds `payload`, is on its way to the server.
    pub(super) fn note_sent(&self, bytes: u64, payload: Payload) {
        self.transit.lock().send(bytes, payload, sys::clock::monotonic());
    }

    /// Notes that the first `bytes` that were sent have arrived, and counts them.
    fn note_arrival(&self, bytes: u64, tally: &Tally) {
        let arrival = self.transit.lock().arrive(bytes, sys::clock::monotonic());
        tally.note_arrival(&arrival);
    }

    /// Waits until another message may be on its way, the session has failed, or the backup is
    /// stopped. Returns false if the backup is paused before that.
    pub(super) fn await_room(&self, progress: &Progress) -> bool {
        let began = sys::clock::monotonic();
        let mut state = self.state();
        while state.failure.is_none() && !progress.is_stopped() {
            if progress.is_paused() {
                return false;
            }
            if self.has_room() || began.elapsed() >= ROOM_PATIENCE {
                break;
            }
            state = self.changed.wait_timeout(state, ROOM_INTERVAL);
        }
        true
    }

    fn has_room(&self) -> bool {
        !self.is_bounded.load(Relaxed) || self.transit.lock().has_room(sys::clock::monotonic())
    }

    /// Returns the number of bytes that arrive at the server in `span` at the rate of the last
    /// seconds. Returns `None` before anything has arrived.
    pub(super) fn bytes_in(&self, span: Duration) -> Option<u64> {
        self.transit.lock().bytes_in(span, sys::clock::monotonic())
    }

    /// Returns the time in which bytes were on their way to the server.
    pub(super) fn transfer_time(&self) -> Duration {
        self.transit.lock().time(sys::clock::monotonic())
    }

    /// Notes that a transaction with `figures` is sent to the server, in messages of `bytes`, and
    /// that its commit follows, in a message of `commit_bytes`.
    pub(super) fn expect_answer(&self, figures: Figures, bytes: u64, commit_bytes: u64) {
        let sent_up_to = self.transit.lock().sent() + commit_bytes;
        let sent = SentTransaction { figures, bytes, sent_up_to };
        self.state().unanswered.push_back(sent);
    }

    /// Waits until at most `most` transactions have no answer.
    pub(super) fn wait_for_answers(&self, most: u64) -> Result<(), ClientError> {
        self.wait_until(|state| state.unanswered.len() as u64 <= most)
    }

    /// Waits until the server has closed the session.
    pub(super) fn wait_for_close(&self) -> Result<(), ClientError> {
        self.wait_until(|state| state.is_closed)
    }

    fn wait_until(&self, is_ready: impl Fn(&State) -> bool) -> Result<(), ClientError> {
        let mut state = self.state();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if is_ready(&state) {
                return Ok(());
            }
            state = self.changed.wait(state);
        }
    }

    /// Returns the objects that the server has rejected since the last call.
    pub(super) fn take_rejections(&self) -> Vec<Rejection> {
        std::mem::take(&mut self.state().rejections)
    }

    /// Returns the remnants that the server has reported since the last call.
    pub(super) fn take_remnants(&self) -> Vec<Remnant> {
        std::mem::take(&mut self.state().remnants)
    }

    /// Reads answers until the stream ends.
    pub(super) fn read(
        &self,
        mut receiver: SessionReceiver<'_>,
        chunks: &Chunks<'_>,
        tally: &Tally,
    ) {
        loop {
            match receiver.next() {
                Ok(Some(message)) => self.take_in(message, chunks, tally),
                Ok(None) => {
                    if !self.state().is_closed {
                        self.state().is_unexplained = !self.has_failed();
                        let message = "the server ended the session";
                        self.fail(ClientError::new(ErrorKind::Retry, message));
                    }
                    return;
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    fn take_in(&self, message: ServerMessage, chunks: &Chunks<'_>, tally: &Tally) {
        match message {
            ServerMessage::Arrived { bytes, message_bytes } => {
                self.note_arrival(message_bytes, tally);
                self.arrived.store(bytes, Relaxed);
                if message_bytes == 0 {
                    self.is_bounded.store(false, Relaxed);
                }
                // A thread that has found no room under this lock waits by the time it is free.
                drop(self.state());
            }
            // Each answer may reject objects, so answers to nothing would grow without end.
            ServerMessage::Committed(_) if self.state().unanswered.is_empty() => {
                let message = "the server answered a transaction that was not sent";
                self.fail(ClientError::new(ErrorKind::Bug, message));
            }
            ServerMessage::Committed(commitment) => {
                for quantum in &commitment.grants {
                    let digests = self.state().sent.remove(&quantum.number).unwrap_or_default();
                    chunks.store_grants(&digests, &quantum.grants);
                }
                tally.expired.fetch_add(commitment.expired, Relaxed);
                let mut state = self.state();
                match state.take_part(commitment) {
                    Ok(Some(committed)) => {
                        tally.note_committed(committed.figures);
                        tally.progress.bytes_committed.fetch_add(committed.bytes, Relaxed);
                        tally.progress.get_on();
                        // An older server reports no arrivals of messages. Who waits for the answer
                        // sees the counts with it.
                        self.note_arrival(committed.sent_up_to, tally);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        drop(state);
                        self.fail(error);
                    }
                }
            }
            ServerMessage::Closed => {
                self.note_arrival(u64::MAX, tally);
                self.state().is_closed = true;
            }
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
impl Answers {
    /// Notes that the server has answered one transaction and rejected nothing.
    pub(super) fn note_answer(&self) {
        self.state().unanswered.pop_front();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use chunk::DomainKey;
    use model::GrantProof;

    use super::*;
    use crate::cache::Cache;
    use crate::link::backup::QuantumGrants;

    #[test]
    fn a_commitment_brings_grants_and_rejections() {
        let key = DomainKey::new([1; 32]);
        let cache = Cache::open(Path::new("/nowhere/cache"), 0);
        let chunks = Chunks::with_key(&key, &cache, true, None);
        let tally = Tally::new(Arc::new(Progress::default()));
        let answers = Answers::default();
        let digest = ChunkDigest([1; 32]);
        answers.expect_grants(4, vec![digest]);
        answers.expect_answer(Figures::of_objects(2), 50, 3);
        let grant = GrantProof([3; 16]);
        let rejection = Rejection {
            path: b"/d/n".to_vec(),
            name: b"n".to_vec(),
            first: Vec::new(),
            reason: "no".to_owned(),
        };
        let remnant = Remnant { path: b"/d/gone/".to_vec(), reason: "damaged".to_owned() };
        let part = Commitment {
            grants: Vec::new(),
            rejections: vec![rejection.clone()],
            remnants: vec![remnant.clone()],
            expired: 0,
            is_continued: true,
        };
        answers.take_in(ServerMessage::Committed(part), &chunks, &tally);
        assert_eq!(answers.state().unanswered.len(), 1, "the answer is not whole yet");
        assert_eq!(tally.progress.committed.load(Relaxed), 0);
        let commitment = Commitment {
            grants: vec![QuantumGrants { number: 4, grants: vec![grant] }],
            rejections: Vec::new(),
            remnants: Vec::new(),
            expired: 3,
            is_continued: false,
        };
        answers.take_in(ServerMessage::Committed(commitment), &chunks, &tally);
        answers.wait_for_answers(0).expect("answered");
        assert_eq!(tally.progress.committed.load(Relaxed), 1, "one of two was rejected");
        assert_eq!(tally.progress.bytes_committed.load(Relaxed), 50);
        assert_eq!(chunks.grant_of(&digest), Some(grant));
        assert_eq!(answers.take_rejections(), [rejection]);
        assert_eq!(answers.take_rejections(), []);
        assert_eq!(answers.take_remnants(), [remnant]);
        assert_eq!(answers.take_remnants(), []);
        assert_eq!(tally.expired.load(Relaxed), 3);
        answers.note_sent(99, Payload { data_bytes: 500, record_bytes: 90 });
        answers.note_sent(40, Payload { data_bytes: 300, record_bytes: 30 });
        answers.take_in(ServerMessage::Arrived { bytes: 77, message_bytes: 99 }, &chunks, &tally);
        assert_eq!(answers.arrived(), 77);
        let progress = &tally.progress;
        let counted =
            || [&progress.bytes, &progress.bytes_transferred].map(|count| count.load(Relaxed));
        assert_eq!(counted(), [500, 99], "what is on its way does not count");
        answers.take_in(ServerMessage::Closed, &chunks, &tally);
        answers.wait_for_close().expect("closed");
        assert_eq!(counted(), [800, 139]);
        let report = tally.report();
        assert_eq!((report.bytes_transferred, report.bytes_metadata), (139, 19));
        let (grants, rejections) = (Vec::new(), Vec::new());
        let unasked = Commitment {
            grants,
            rejections,
            expired: 0,
            remnants: Vec::new(),
            is_continued: false,
        };
        answers.take_in(ServerMessage::Committed(unasked), &chunks, &tally);
        assert_eq!(answers.check().map_err(|error| error.kind), Err(ErrorKind::Bug));
    }

    #[test]
    fn a_message_waits_for_room_until_a_stop_or_a_pause() {
        const LARGE: u64 = 64 << 20;
        let progress = Progress::default();
        let older = Answers::default();
        older.note_sent(LARGE, Payload::default());
        assert!(older.await_room(&progress), "an older server does not say what has arrived");
        let answers = Answers::new(true);
        assert!(answers.await_room(&progress), "nothing is on its way");
        answers.note_sent(LARGE, Payload::default());
        progress.pause();
        assert!(!answers.await_room(&progress));
        progress.stop();
        assert!(answers.await_room(&progress), "a stop ends the wait, in a pause too");
        let progress = Progress::default();
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| answers.await_room(&progress));
            answers.fail(ClientError::lost());
            assert!(waiting.join().expect("it ends"));
        });
    }

    #[test]
    fn an_answer_in_parts_has_an_end() {
        let unanswered = VecDeque::from([SentTransaction::default()]);
        let mut state = State { unanswered, ..State::default() };
        let remnant = Remnant { path: Vec::new(), reason: String::new() };
        let part = |is_continued| Commitment {
            grants: Vec::new(),
            rejections: Vec::new(),
            remnants: vec![remnant.clone(); ANSWER_ITEMS_MAX / 2],
            expired: 0,
            is_continued,
        };
        let mut takes = |is_continued| state.take_part(part(is_continued)).is_ok();
        assert!(takes(true) && takes(false));
        assert!(takes(true) && takes(true));
        assert!(!takes(true), "it should have ended");
    }

    #[test]
    fn the_first_failure_is_the_reason() {
        let answers = Answers::default();
        answers.expect_answer(Figures::of_objects(2), 50, 3);
        answers.fail(ClientError::new(ErrorKind::NoSpace, "full"));
        answers.fail(ClientError::lost());
        assert!(answers.has_failed());
        let kind = |error: ClientError| error.kind;
        assert_eq!(answers.wait_for_answers(0).map_err(kind), Err(ErrorKind::NoSpace));
        let lost = || Err::<(), _>(ClientError::lost());
        assert_eq!(answers.conclude(lost()).map_err(kind), Err(ErrorKind::NoSpace));
    }

    #[test]
    fn the_reason_of_the_server_replaces_its_consequence() {
        let answers = Answers::default();
        answers.check().expect("no failure yet");
        answers.fail(ClientError::lost());
        answers.fail(ClientError::new(ErrorKind::Bug, "the server failed"));
        answers.fail(ClientError::lost());
        let kind = |error: ClientError| error.kind;
        assert_eq!(answers.check().map_err(kind), Err(ErrorKind::Bug));
        assert_eq!(answers.conclude(Ok(())).map_err(kind), Err(ErrorKind::Bug));
    }

    #[test]
    fn a_session_that_ends_because_this_side_ended_fails_for_the_reason_of_this_side() {
        let kind = |error: ClientError| error.kind;
        let ended = || {
            let answers = Answers::default();
            answers.state().is_unexplained = true;
            answers.fail(ClientError::new(ErrorKind::Retry, "the server ended the session"));
            answers
        };
        let interrupted = Err::<(), _>(ClientError::interrupted());
        assert_eq!(ended().conclude(interrupted).map_err(kind), Err(ErrorKind::Interrupted));
        assert_eq!(ended().conclude(Ok(())).map_err(kind), Err(ErrorKind::Retry));
    }
}
