//! The outbox: what goes to the server, in which order, and what the server says to it.
//!
//! Invariants:
//! 1. A page change goes out behind every quantum that it refers to.
//! 2. A transaction holds whole changes only; it closes by bytes, objects or time.
//! 3. No more than [`UNANSWERED_MAX`] transactions are without an answer, which bounds what both
//!    ends keep for them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use model::{ChunkDigest, GrantMac, Place, PlaceCode as _};
use tokio::sync::mpsc;
use tonic::Streaming;
use wire::proto;

use super::data::Chunks;
use super::tally::Tally;
use crate::link::Link;
use crate::{ClientError, ErrorKind, Tuning};

/// Changes after which a transaction closes.
const TRANSACTION_CHANGES: usize = 4096;
/// Time after which a transaction closes.
const TRANSACTION_TIME: Duration = Duration::from_secs(2);
/// Transactions without an answer at most. The server keeps quanta for longer than that.
const UNANSWERED_MAX: u64 = 8;
/// Changes travel together up to so many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// What the stages above hand over.
pub(super) enum Outgoing {
    Quantum { number: u64, record: Vec<u8>, check: Check, digests: Vec<ChunkDigest> },
    Change(Change),
}

/// What the client knows of a quantum's chunks, so that the server notices if it took in others.
pub(super) enum Check {
    Digests([u8; 16]),
    /// Of the data: there are no digests without deduplication.
    Raw(u64),
}

/// A page change and the quanta that must be sent before it.
pub(super) struct Change {
    pub(super) message: proto::PageChange,
    pub(super) quanta: BTreeSet<u64>,
    pub(super) objects: u64,
}

/// What the server's answers tell; shared with the thread that reads them.
#[derive(Default)]
pub(super) struct Answered {
    state: Mutex<State>,
    /// Whether there is a failure: asked once for each directory.
    has_failed: AtomicBool,
    /// Bytes of quanta's records that have come to the server as far as it has told.
    arrived: AtomicU64,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Digests of quanta whose grants have not come.
    sent: HashMap<u64, Vec<ChunkDigest>>,
    unanswered: u64,
    closed: bool,
    rejected: Vec<proto::Rejected>,
    failure: Option<ClientError>,
}

impl Answered {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session with `error`, unless it has failed before.
    pub(super) fn fail(&self, error: ClientError) {
        self.state().failure.get_or_insert(error);
        self.has_failed.store(true, Relaxed);
        self.changed.notify_all();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Bytes of quanta's records that have come to the server as far as it has told.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Relaxed)
    }

    /// Why the session failed, if it did.
    pub(super) fn take_failure(&self) -> Option<ClientError> {
        self.state().failure.take()
    }

    fn wait_until(&self, ready: impl Fn(&State) -> bool) -> Result<(), ClientError> {
        let mut state = self.state();
        loop {
            if let Some(failure) = &state.failure {
                return Err(ClientError::new(failure.kind, failure.message.clone()));
            }
            if ready(&state) {
                return Ok(());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads answers until the stream ends.
    pub(super) fn read(
        &self,
        link: &Link,
        mut stream: Streaming<proto::FromServer>,
        chunks: &Chunks<'_>,
        tally: &Tally,
    ) {
        loop {
            match link.runtime.block_on(stream.message()) {
                Ok(Some(proto::FromServer { message: Some(message) })) => {
                    self.take_in(message, chunks, tally);
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let early = "the server ended the session";
                    if !self.state().closed {
                        self.fail(ClientError::new(ErrorKind::Retry, early));
                    }
                    return;
                }
                Err(status) => return self.fail(status.into()),
            }
        }
    }

    fn take_in(&self, message: proto::from_server::Message, chunks: &Chunks<'_>, tally: &Tally) {
        match message {
            proto::from_server::Message::Arrived(arrived) => {
                return self.arrived.store(arrived.bytes, Relaxed);
            }
            proto::from_server::Message::Committed(committed) => {
                for grants in &committed.grants {
                    let digests = self.state().sent.remove(&grants.number).unwrap_or_default();
                    chunks.granted(&digests, &decode_grants(&grants.grants));
                }
                tally.expired.fetch_add(committed.expired_objects, Relaxed);
                let mut state = self.state();
                state.unanswered = state.unanswered.saturating_sub(1);
                state.rejected.extend(committed.rejected);
            }
            proto::from_server::Message::Closed(proto::Closed {}) => self.state().closed = true,
            proto::from_server::Message::Opened(_) => {}
        }
        self.changed.notify_all();
    }
}

fn decode_grants(bytes: &[u8]) -> Vec<(Place, GrantMac)> {
    let (grants, _) = bytes.as_chunks::<16>();
    let grant = |bytes: &[u8; 16]| {
        let (place, mac) = bytes.split_first_chunk::<8>()?;
        let mac = mac.first_chunk::<8>()?;
        Some((Place::from_code(u64::from_le_bytes(*place))?, GrantMac(*mac)))
    };
    grants.iter().map_while(grant).collect()
}

/// The sending side.
pub(super) struct Outbox<'a> {
    sender: mpsc::Sender<proto::ToServer>,
    answered: &'a Answered,
    tally: &'a Tally,
    sent_quanta: HashSet<u64>,
    /// Changes that wait for quanta, by numbers of their own, with how many quanta they lack.
    waiting: HashMap<u64, (Change, usize)>,
    /// The changes that wait for each quantum.
    awaited: HashMap<u64, Vec<u64>>,
    next_change: u64,
    batch: Vec<proto::PageChange>,
    batch_bytes: usize,
    transaction: Transaction,
    tuning: Tuning,
    next_transaction: u64,
}

struct Transaction {
    bytes: u64,
    objects: u64,
    changes: usize,
    quanta: usize,
    began: Instant,
}

impl Transaction {
    fn new() -> Self {
        let began = sys::clock::monotonic();
        Self { bytes: 0, objects: 0, changes: 0, quanta: 0, began }
    }

    fn is_due(&self, tuning: &Tuning) -> bool {
        self.bytes >= tuning.transaction_bytes()
            || self.objects >= tuning.transaction_objects()
            || self.changes >= TRANSACTION_CHANGES
            || (!self.is_empty() && self.began.elapsed() >= TRANSACTION_TIME)
    }

    fn is_empty(&self) -> bool {
        self.changes == 0 && self.quanta == 0
    }
}

impl<'a> Outbox<'a> {
    pub(super) fn new(
        sender: mpsc::Sender<proto::ToServer>,
        answered: &'a Answered,
        tally: &'a Tally,
        tuning: Tuning,
    ) -> Self {
        Self {
            sender,
            answered,
            tally,
            sent_quanta: HashSet::new(),
            waiting: HashMap::new(),
            awaited: HashMap::new(),
            next_change: 0,
            batch: Vec::new(),
            batch_bytes: 0,
            transaction: Transaction::new(),
            tuning,
            next_transaction: 0,
        }
    }

    /// What the server has answered.
    pub(super) fn answered(&self) -> &'a Answered {
        self.answered
    }

    /// Sends what comes until the stages above have ended; what was not due stays uncommitted.
    /// After a failure it only empties the queue, so that nobody waits for it.
    pub(super) fn run(&mut self, incoming: &Receiver<Outgoing>) {
        loop {
            match incoming.recv_timeout(TRANSACTION_TIME) {
                Ok(outgoing) => self.attempt(|outbox| outbox.take(outgoing)),
                Err(RecvTimeoutError::Timeout) => self.attempt(Self::commit_if_due),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Commits what is left and waits until everything has been answered.
    pub(super) fn finish(&mut self) {
        self.attempt(Self::settle);
    }

    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Result<(), ClientError>) {
        if self.answered.has_failed() {
            return;
        }
        if let Err(error) = step(self) {
            self.answered.fail(error);
        }
    }

    fn take(&mut self, outgoing: Outgoing) -> Result<(), ClientError> {
        match outgoing {
            Outgoing::Quantum { number, record, check, digests } => {
                self.answered.state().sent.insert(number, digests);
                self.send_quantum(number, record, &check)?;
            }
            Outgoing::Change(change) => self.take_change(change)?,
        }
        self.commit_if_due()
    }

    fn send_quantum(
        &mut self,
        number: u64,
        record: Vec<u8>,
        check: &Check,
    ) -> Result<(), ClientError> {
        self.transaction.bytes += record.len() as u64;
        self.transaction.quanta += 1;
        let (check, raw_check) = match check {
            Check::Digests(check) => (Bytes::copy_from_slice(check), None),
            Check::Raw(check) => (Bytes::new(), Some(*check)),
        };
        let quantum = proto::Quantum { number, record: record.into(), check, raw_check };
        self.send(proto::to_server::Message::Quantum(quantum))?;
        self.sent_quanta.insert(number);
        self.release(number)
    }

    /// Passes a change on, or has it wait for the quanta that have not been sent.
    fn take_change(&mut self, change: Change) -> Result<(), ClientError> {
        let unsent = change.quanta.iter().filter(|quantum| !self.sent_quanta.contains(quantum));
        let unsent: Vec<u64> = unsent.copied().collect();
        if unsent.is_empty() {
            return self.pass_on(change);
        }
        let number = self.next_change;
        self.next_change += 1;
        for quantum in &unsent {
            self.awaited.entry(*quantum).or_default().push(number);
        }
        self.waiting.insert(number, (change, unsent.len()));
        Ok(())
    }

    /// Lets go of the changes that lacked only the quantum `sent`.
    fn release(&mut self, sent: u64) -> Result<(), ClientError> {
        for number in self.awaited.remove(&sent).unwrap_or_default() {
            let Some((_, lacking)) = self.waiting.get_mut(&number) else { continue };
            *lacking -= 1;
            if *lacking == 0
                && let Some((change, _)) = self.waiting.remove(&number)
            {
                self.pass_on(change)?;
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, change: Change) -> Result<(), ClientError> {
        self.transaction.objects += change.objects;
        self.push(change.message)
    }

    /// Sends a change that refers to no quantum.
    pub(super) fn send_change(&mut self, change: proto::PageChange) -> Result<(), ClientError> {
        self.push(change)?;
        self.commit_if_due()
    }

    /// Sends a change with the next batch. Nothing that it refers to may be unsent.
    fn push(&mut self, change: proto::PageChange) -> Result<(), ClientError> {
        self.batch_bytes += change.backed_up.len() + change.updated.len() + change.grants.len();
        self.transaction.changes += 1;
        self.batch.push(change);
        if self.batch_bytes >= BATCH_BYTES { self.send_batch() } else { Ok(()) }
    }

    fn send_batch(&mut self) -> Result<(), ClientError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch_bytes = 0;
        let changes = std::mem::take(&mut self.batch);
        self.send(proto::to_server::Message::Changes(proto::Changes { changes }))
    }

    fn send(&self, message: proto::to_server::Message) -> Result<(), ClientError> {
        use prost::Message as _;
        let message = proto::ToServer { message: Some(message) };
        let bytes = message.encoded_len() as u64;
        let began = sys::clock::monotonic();
        let lost = |_| ClientError::new(ErrorKind::Retry, "the connection to the server was lost");
        self.sender.blocking_send(message).map_err(lost)?;
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.tally.transfer_micros.fetch_add(micros, Relaxed);
        self.tally.bytes_transferred.fetch_add(bytes, Relaxed);
        self.tally.progress.bytes_transferred.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn commit_if_due(&mut self) -> Result<(), ClientError> {
        if self.transaction.is_due(&self.tuning) { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.send_batch()?;
        self.transaction = Transaction::new();
        let number = self.next_transaction;
        self.next_transaction += 1;
        self.answered.state().unanswered += 1;
        self.send(proto::to_server::Message::Commit(proto::Commit { number }))?;
        self.answered.wait_until(|state| state.unanswered < UNANSWERED_MAX)
    }

    fn settle(&mut self) -> Result<(), ClientError> {
        if !self.waiting.is_empty() {
            return Err(ClientError::new(ErrorKind::Bug, "a quantum was not sent"));
        }
        if !self.transaction.is_empty() {
            self.commit()?;
        }
        self.answered.wait_until(|state| state.unanswered == 0)
    }

    /// Objects that the server did not take, since the last call.
    pub(super) fn take_rejected(&self) -> Vec<proto::Rejected> {
        std::mem::take(&mut self.answered.state().rejected)
    }

    /// Ends the session in order, once all is committed.
    pub(super) fn close(mut self, complete: bool, report_json: String) -> Result<(), ClientError> {
        self.settle()?;
        let close = proto::CloseBackup { complete, report_json };
        self.send(proto::to_server::Message::Close(close))?;
        self.answered.wait_until(|state| state.closed)
    }
}
