//! Outbox: sends quanta and page changes to the server in a safe order.
//!
//! Invariants:
//! 1. A page change is sent after every quantum that it refers to.
//! 2. A transaction holds whole changes only. It is committed after a number of bytes or objects,
//!    or after some time.
//! 3. At most [`UNANSWERED_MAX`] transactions have no answer. That bounds the state that client and
//!    server keep for transactions.
//! 4. What is on its way to the server is bounded by the rate of the line (`transit`). So a stop
//!    and a pause wait for little, on a slow line too.
//! 5. After a stop nothing more is sent but the changes of objects whose data was sent, and their
//!    commit. A session that has dropped a quantum is never closed.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::answers::Answers;
use super::figures::Figures;
use super::outbox_message::{Change, OutboxMessage};
use super::sendable;
use super::tally::Tally;
use super::transit::Payload;
use crate::error::{ClientError, ErrorKind};
use crate::link::backup::{
    ClientMessage, Envelope, PageChange, Rejection, SentQuantum, SessionSender,
};
use crate::stages::{IdleTime, StageTime, timed};
use crate::tuning::Tuning;

/// Number of changes after which a transaction is committed.
const TRANSACTION_CHANGES: usize = 4096;
/// Size of the changes of a transaction, in bytes, at which it is committed. The server keeps the
/// changes of several transactions in memory, and refuses a transaction that is much larger.
const TRANSACTION_CHANGE_BYTES: usize = 8 << 20;
/// Age at which a transaction is committed.
const TRANSACTION_TIME: Duration = Duration::from_secs(2);
/// Size of a transaction at which it is committed before the first bytes have arrived, and the
/// least size on any line: each commit costs the server a sync.
const FIRST_TRANSACTION_BYTES: u64 = 8 << 20;
const TRANSACTION_BYTES_MIN: u64 = 1 << 20;
/// Maximum number of transactions without an answer. The server keeps the quanta of more
/// transactions than that.
const UNANSWERED_MAX: u64 = 8;
/// Size of a message of changes, in bytes, at which it is sent.
const BATCH_BYTES: usize = 256 << 10;

/// Sending side of a session.
pub(super) struct Outbox<'a> {
    sender: SessionSender,
    answers: &'a Answers,
    tally: &'a Tally,
    sent_quanta: HashSet<u64>,
    /// Changes that wait for quanta, by the number of the change.
    waiting: HashMap<u64, WaitingChange>,
    /// Numbers of the changes that wait for each quantum.
    awaited: HashMap<u64, Vec<u64>>,
    next_change: u64,
    batch: Vec<PageChange>,
    batch_bytes: usize,
    transaction: Transaction,
    tuning: Tuning,
    next_transaction: u64,
    /// True once the user has stopped the backup and messages were dropped.
    has_dropped: bool,
}

struct WaitingChange {
    change: Change,
    /// Number of quanta of the change that have not been sent.
    missing: usize,
}

struct Transaction {
    /// Bytes of the records of quanta.
    bytes: u64,
    /// Bytes of all messages.
    sent_bytes: u64,
    figures: Figures,
    changes: usize,
    change_bytes: usize,
    quanta: usize,
    began: Instant,
}

impl Transaction {
    fn new() -> Self {
        let began = sys::clock::monotonic();
        Self {
            bytes: 0,
            sent_bytes: 0,
            figures: Figures::default(),
            changes: 0,
            change_bytes: 0,
            quanta: 0,
            began,
        }
    }

    fn is_due(&self, tuning: &Tuning) -> bool {
        self.bytes >= tuning.transaction_bytes()
            || self.figures.objects >= tuning.transaction_objects()
            || self.changes >= TRANSACTION_CHANGES
            || self.change_bytes >= TRANSACTION_CHANGE_BYTES
            || (!self.is_empty() && self.began.elapsed() >= TRANSACTION_TIME)
    }

    fn is_empty(&self) -> bool {
        self.changes == 0 && self.quanta == 0
    }
}

impl<'a> Outbox<'a> {
    pub(super) fn new(
        sender: SessionSender,
        answers: &'a Answers,
        tally: &'a Tally,
        tuning: Tuning,
    ) -> Self {
        Self {
            sender,
            answers,
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
            has_dropped: false,
        }
    }

    /// Sends the messages of the readers until all readers have ended. The last transaction stays
    /// open. After a failure of the session, or a stop by the user, the messages are dropped, so
    /// that no reader waits.
    pub(super) fn run(&mut self, incoming: &Receiver<OutboxMessage>) {
        // Time without a message since the last message.
        let mut idle = Duration::ZERO;
        loop {
            self.hold();
            // The clock is read only if there is no message yet.
            let received = incoming
                .try_recv()
                .or_else(|_| timed(&mut idle, || incoming.recv_timeout(TRANSACTION_TIME)));
            match received {
                Ok(outgoing) => {
                    self.note_idle(std::mem::take(&mut idle), outgoing.full_for());
                    self.await_turn();
                    match self.tally.progress.is_stopped() {
                        true => self.attempt(|outbox| outbox.take_after_stop(outgoing)),
                        false => self.attempt(|outbox| outbox.take(outgoing)),
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.attempt(Self::commit_if_due),
                Err(RecvTimeoutError::Disconnected) => return self.note_idle(idle, None),
            }
        }
    }

    /// Waits while the backup is paused, and while too much is on its way to the server.
    fn await_turn(&mut self) {
        loop {
            self.hold();
            let mut time = Duration::ZERO;
            let progress = &self.tally.progress;
            let has_turn = timed(&mut time, || self.answers.await_room(progress));
            self.tally.note_sending(time);
            if has_turn {
                return;
            }
        }
    }

    /// Commits what was sent, and waits, while the backup is paused.
    fn hold(&mut self) {
        if self.tally.progress.is_paused() {
            self.attempt(|outbox| match outbox.transaction.is_empty() {
                true => Ok(()),
                false => outbox.commit(),
            });
            self.tally.progress.hold();
        }
    }

    /// Counts a wait of `idle` for a message whose quantum has been full for `full`.
    fn note_idle(&self, idle: Duration, full: Option<Duration>) {
        if idle.is_zero() {
            return;
        }
        let IdleTime { read, compress } = IdleTime::divide(idle, full);
        self.tally.note_stages(|stages| {
            stages.read.waited_for += read;
            stages.compress.waited_for += compress;
        });
    }

    /// Commits the open transaction and waits until the server has answered all transactions.
    pub(super) fn finish(&mut self) {
        self.attempt(Self::settle);
    }

    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Result<(), ClientError>) {
        if self.answers.has_failed() {
            return;
        }
        if let Err(error) = step(self) {
            self.answers.fail(error);
        }
    }

    fn take(&mut self, outgoing: OutboxMessage) -> Result<(), ClientError> {
        match outgoing {
            OutboxMessage::Quantum(quantum) => self.send_quantum(quantum)?,
            OutboxMessage::Change(change) => self.take_change(change)?,
        }
        self.commit_if_due()
    }

    /// Takes a message after the user has stopped the backup. A quantum is dropped.
    fn take_after_stop(&mut self, outgoing: OutboxMessage) -> Result<(), ClientError> {
        match outgoing {
            OutboxMessage::Quantum(_) => {
                self.has_dropped = true;
                Ok(())
            }
            OutboxMessage::Change(change) => self.pass_on_sent(change),
        }
    }

    fn send_quantum(&mut self, quantum: SentQuantum) -> Result<(), ClientError> {
        let SentQuantum { number, record, check, digests, is_encrypted, work } = quantum;
        self.tally.note_press_work(&work, record.len() as u64);
        self.answers.expect_grants(number, digests);
        self.transaction.bytes += record.len() as u64;
        let payload = Payload { data_bytes: work.bytes, record_bytes: record.len() as u64 };
        self.transaction.quanta += 1;
        self.transaction.figures.bytes_after_dedup += work.bytes;
        let quantum = ClientMessage::Quantum { number, record, check, is_encrypted };
        self.send_envelope(Envelope::new(quantum), payload)?;
        assert!(self.sent_quanta.insert(number), "each quantum is sent once");
        self.release(number)
    }

    /// Sends a change, or keeps it until its quanta have been sent.
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
        let missing = unsent.len();
        assert!(missing > 0, "a change that waits for nothing would never be sent");
        self.waiting.insert(number, WaitingChange { change, missing });
        Ok(())
    }

    /// Sends the changes that waited only for the quantum `sent`.
    fn release(&mut self, sent: u64) -> Result<(), ClientError> {
        for number in self.awaited.remove(&sent).unwrap_or_default() {
            let waiting = self.waiting.get_mut(&number).expect("the change waits for this quantum");
            assert!(waiting.missing > 0, "a change that lacks nothing does not wait");
            waiting.missing -= 1;
            if waiting.missing == 0
                && let Some(WaitingChange { change, .. }) = self.waiting.remove(&number)
            {
                self.pass_on(change)?;
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, change: Change) -> Result<(), ClientError> {
        debug_assert!(
            change.quanta.iter().all(|quantum| self.sent_quanta.contains(quantum)),
            "a change is sent after its quanta (invariant 1)"
        );
        self.push(change.page)?;
        // The push may have closed the transaction before.
        self.transaction.figures += change.figures;
        Ok(())
    }

    /// Sends the objects of a change whose data was sent.
    fn pass_on_sent(&mut self, change: Change) -> Result<(), ClientError> {
        let is_sent = |quantum: u64| self.sent_quanta.contains(&quantum);
        if change.quanta.iter().copied().all(is_sent) {
            return self.pass_on(change);
        }
        self.has_dropped = true;
        let sent = sendable::with_sent_data(change, is_sent);
        if sent.page.is_without_effect() { Ok(()) } else { self.pass_on(sent) }
    }

    /// Sends a change that refers to no quantum, unless the user has stopped the backup.
    pub(super) fn send_change(&mut self, change: PageChange) -> Result<(), ClientError> {
        self.await_turn();
        if self.tally.progress.is_stopped() {
            self.has_dropped = true;
            return Ok(());
        }
        self.push(change)?;
        self.commit_if_due()
    }

    /// Adds a change to the next message of changes. All quanta that it refers to have been sent.
    fn push(&mut self, change: PageChange) -> Result<(), ClientError> {
        let bytes = change.bytes();
        if self.transaction.change_bytes >= TRANSACTION_CHANGE_BYTES {
            self.commit()?;
        }
        if self.batch_bytes + bytes > BATCH_BYTES {
            // A change that fills a message alone does not fit into a message with another change.
            self.send_batch()?;
        }
        self.batch_bytes += bytes;
        self.transaction.changes += 1;
        self.transaction.change_bytes += bytes;
        self.batch.push(change);
        if self.batch_bytes >= BATCH_BYTES { self.send_batch() } else { Ok(()) }
    }

    fn send_batch(&mut self) -> Result<(), ClientError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch_bytes = 0;
        let changes = std::mem::take(&mut self.batch);
        self.send(ClientMessage::Changes(changes))
    }

    fn send(&mut self, message: ClientMessage) -> Result<(), ClientError> {
        self.send_envelope(Envelope::new(message), Payload::default())
    }

    /// Sends a message that holds `payload`. Its bytes count when they have arrived.
    fn send_envelope(&mut self, envelope: Envelope, payload: Payload) -> Result<(), ClientError> {
        let bytes = envelope.bytes;
        self.answers.note_sent(bytes, payload);
        let mut time = Duration::ZERO;
        timed(&mut time, || self.sender.send(envelope))?;
        self.tally.note_sending(time);
        self.transaction.sent_bytes += bytes;
        Ok(())
    }

    fn commit_if_due(&mut self) -> Result<(), ClientError> {
        let is_due = self.transaction.is_due(&self.tuning) || self.is_long_on_its_way();
        if is_due { self.commit() } else { Ok(()) }
    }

    /// Returns true if the open transaction takes longer than [`TRANSACTION_TIME`] to arrive. What
    /// waits to be sent is committed no earlier than it arrives, so its age here says little.
    fn is_long_on_its_way(&self) -> bool {
        let sent = self.transaction.sent_bytes;
        let arriving =
            || self.answers.bytes_in(TRANSACTION_TIME).unwrap_or(FIRST_TRANSACTION_BYTES);
        sent >= TRANSACTION_BYTES_MIN && sent >= arriving()
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.send_batch()?;
        let Transaction { figures, sent_bytes: bytes, .. } =
            std::mem::replace(&mut self.transaction, Transaction::new());
        let number = self.next_transaction;
        self.next_transaction += 1;
        let commit = Envelope::new(ClientMessage::Commit { number });
        self.answers.expect_answer(figures, bytes, commit.bytes);
        self.send_envelope(commit, Payload::default())?;
        self.wait(|answers| answers.wait_for_answers(UNANSWERED_MAX - 1))
    }

    /// Waits for the server, and counts the time for the stage that commits.
    fn wait<T>(&self, until: impl FnOnce(&Answers) -> T) -> T {
        let mut time = Duration::ZERO;
        let outcome = timed(&mut time, || until(self.answers));
        self.tally.note_stages(|stages| stages.commit += StageTime::alone(time));
        outcome
    }

    fn settle(&mut self) -> Result<(), ClientError> {
        if self.has_dropped {
            // Some quanta of these changes were dropped.
            let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
            waiting.sort_unstable_by_key(|(number, _)| *number);
            for (_, WaitingChange { change, .. }) in waiting {
                self.pass_on_sent(change)?;
            }
        }
        if !self.waiting.is_empty() {
            return Err(ClientError::new(
                ErrorKind::Bug,
                "a page change waits for a quantum that was not sent",
            ));
        }
        if !self.transaction.is_empty() {
            self.commit()?;
        }
        self.wait(|answers| answers.wait_for_answers(0))
    }

    /// Returns the objects that the server has rejected since the last call.
    pub(super) fn take_rejections(&self) -> Vec<Rejection> {
        self.answers.take_rejections()
    }

    /// Commits the open transaction and ends the session. Fails if the user has stopped the backup
    /// before all was sent.
    pub(super) fn close(mut self, complete: bool, report_json: String) -> Result<(), ClientError> {
        self.settle()?;
        if self.has_dropped {
            return Err(ClientError::interrupted());
        }
        assert!(self.batch.is_empty(), "a session does not end before its last change");
        self.send(ClientMessage::Close { complete, report_json })?;
        self.wait(Answers::wait_for_close)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::collections::BTreeSet;
    use std::sync::Arc;

    use model::DirPath;

    use super::*;
    use crate::link::backup::tests::recorded;
    use crate::link::backup::{Check, PageKey};
    use crate::progress::Progress;
    use crate::stages::{CompressorKind, PressWork, Stages};

    /// Time that compressed each of these quanta.
    const PRESSING_TIME: Duration = Duration::from_millis(2);

    fn quantum(number: u64) -> OutboxMessage {
        let (record, check) = (vec![0; 100], Check::Data(0));
        let (digests, is_encrypted) = (Vec::new(), false);
        let compressor = Some(CompressorKind::Threads);
        let full_at = sys::clock::monotonic();
        let work = PressWork { compressor, full_at, bytes: 300, time: PRESSING_TIME };
        let quantum = SentQuantum { number, record, check, digests, is_encrypted, work };
        OutboxMessage::Quantum(quantum)
    }

    fn change(quanta: &[u64]) -> OutboxMessage {
        let key = PageKey { first: Vec::new(), digest: None };
        let page = PageChange::new(DirPath::root(), Vec::new(), vec![key]);
        OutboxMessage::Change(Change {
            page,
            quanta: BTreeSet::from_iter(quanta.iter().copied()),
            figures: Figures::of_objects(1),
        })
    }

    /// Gives `messages` to an outbox, commits, and compares the messages that it sent with
    /// `expected`.
    #[track_caller]
    fn check(tuning: Tuning, messages: Vec<OutboxMessage>, expected: &[&str]) {
        let answers = Answers::default();
        let tally = Tally::new(Arc::new(Progress::default()));
        let (sender, mut take) = recorded(100);
        let mut outbox = Outbox::new(sender, &answers, &tally, tuning);
        for message in messages {
            outbox.take(message).expect("sent");
        }
        outbox.commit().expect("committed");
        assert_eq!(take(), expected);
        answers.note_answer();
    }

    #[test]
    fn a_change_goes_out_after_its_quanta() {
        let tuning = Tuning::default();
        check(tuning, vec![quantum(0), change(&[0])], &["q0", "c1", "t0"]);
        check(tuning, vec![change(&[0]), quantum(0)], &["q0", "c1", "t0"]);
        let messages = vec![change(&[0, 1]), change(&[]), quantum(1), quantum(0)];
        check(tuning, messages, &["q1", "q0", "c2", "t0"]);
        // The second change still lacks a quantum, so it is in no transaction.
        let messages = vec![change(&[1]), change(&[1, 2]), quantum(1)];
        check(tuning, messages, &["q1", "c1", "t0"]);
    }

    #[test]
    fn a_transaction_closes_by_bytes_and_by_objects() {
        let by_objects = Tuning { transaction_objects: Some(2), ..Tuning::default() };
        let messages = (0..3).map(|_| change(&[])).collect();
        check(by_objects, messages, &["c2", "t0", "c1", "t1"]);
        let by_bytes = Tuning { transaction_bytes: Some(150), ..Tuning::default() };
        check(by_bytes, (0..3).map(quantum).collect(), &["q0", "q1", "t0", "q2", "t1"]);
    }

    #[test]
    fn a_transaction_closes_by_the_bytes_of_its_changes() {
        let large = |quanta: &[u64], bytes| {
            let OutboxMessage::Change(mut change) = change(quanta) else { panic!("a change") };
            change.page.backed_up = vec![0; bytes].into();
            OutboxMessage::Change(change)
        };
        let half = TRANSACTION_CHANGE_BYTES / 2;
        let messages = vec![large(&[], half), large(&[], half), change(&[])];
        check(Tuning::default(), messages, &["c1", "c1", "t0", "c1", "t1"]);
        // Changes that wait for one quantum become ready at once, in transactions of their own.
        let full = || large(&[0], TRANSACTION_CHANGE_BYTES);
        let messages = vec![full(), full(), quantum(0)];
        check(Tuning::default(), messages, &["q0", "c1", "t0", "c1", "t1", "t2"]);
    }

    #[test]
    fn a_change_without_its_quantum_is_a_bug_and_not_lost() {
        let answers = Answers::default();
        let tally = Tally::new(Arc::new(Progress::default()));
        let (sender, mut take) = recorded(100);
        let mut outbox = Outbox::new(sender, &answers, &tally, Tuning::default());
        outbox.take(change(&[7])).expect("kept");
        outbox.finish();
        let concluded = answers.conclude(Ok(()));
        assert_eq!(concluded.map_err(|error| error.kind), Err(ErrorKind::Bug));
        assert!(take().is_empty());
    }

    #[test]
    fn after_a_failure_the_queue_is_only_emptied() {
        let answers = Answers::default();
        answers.fail(ClientError::lost());
        let tally = Tally::new(Arc::new(Progress::default()));
        let (sender, mut take) = recorded(100);
        let mut outbox = Outbox::new(sender, &answers, &tally, Tuning::default());
        let (queue, incoming) = crossbeam_channel::bounded(4);
        for message in [quantum(0), change(&[0])] {
            queue.send(message).expect("room");
        }
        drop(queue);
        outbox.run(&incoming);
        assert!(take().is_empty());
    }

    /// A stop was followed by everything that waited for the line, for up to a minute.
    #[test]
    fn after_a_stop_only_what_was_sent_is_committed() {
        let answers = Answers::new(true);
        answers.note_sent(64 << 20, Payload::default());
        let tally = Tally::new(Arc::new(Progress::default()));
        let (sender, mut take) = recorded(100);
        let mut outbox = Outbox::new(sender, &answers, &tally, Tuning::default());
        for message in [quantum(0), change(&[0]), change(&[0, 1])] {
            outbox.take(message).expect("sent");
        }
        tally.progress.stop();
        let (queue, incoming) = crossbeam_channel::bounded(4);
        for message in [quantum(1), change(&[1])] {
            queue.send(message).expect("room");
        }
        drop(queue);
        outbox.run(&incoming);
        outbox.commit().expect("committed");
        answers.note_answer();
        outbox.finish();
        assert_eq!(take(), ["q0", "c1", "t0"]);
        answers.check().expect("a stop is no fault of the session");
        let closed = outbox.close(true, String::new()).map_err(|error| error.kind);
        assert_eq!(closed, Err(ErrorKind::Interrupted));
        assert!(take().is_empty(), "a session that has dropped messages is not complete");
    }

    #[test]
    fn the_outbox_waits_for_readers_until_a_quantum_is_full_and_then_for_compressors() {
        let answers = Answers::default();
        let tally = Tally::new(Arc::new(Progress::default()));
        let (sender, _take) = recorded(100);
        let mut outbox = Outbox::new(sender, &answers, &tally, Tuning::default());
        let (queue, incoming) = crossbeam_channel::bounded(1);
        drop(queue);
        outbox.run(&incoming);
        let Stages { read, compress, .. } = tally.report().stages;
        assert!(read.waited_for > Duration::ZERO, "no message came");
        assert_eq!(compress.waited_for, Duration::ZERO);
        let [idle, full] = [5, 2].map(Duration::from_secs);
        outbox.note_idle(idle, Some(full));
        let waits = tally.report().stages;
        assert_eq!(waits.read.waited_for, read.waited_for + Duration::from_secs(3));
        assert_eq!(waits.compress.waited_for, full);
        assert!(quantum(0).full_for().is_some() && change(&[]).full_for().is_none());
    }

    #[test]
    fn a_wait_for_answers_counts_for_the_commit() {
        let answers = Answers::default();
        let tally = Tally::new(Arc::new(Progress::default()));
        let (sender, _take) = recorded(100);
        let mut outbox = Outbox::new(sender, &answers, &tally, Tuning::default());
        outbox.take(quantum(0)).expect("sent");
        assert_eq!(tally.report().stages.commit, StageTime::default());
        outbox.commit().expect("this many may have no answer");
        answers.note_answer();
        outbox.finish();
        let commit = tally.report().stages.commit;
        assert!(commit.busy > Duration::ZERO, "{commit:?}");
        assert_eq!(commit.busy, commit.waited_for);
    }

    #[test]
    fn the_report_says_what_compressed_the_quanta_that_were_sent() {
        let answers = Answers::default();
        let tally = Tally::new(Arc::new(Progress::default()));
        let (sender, _take) = recorded(100);
        let mut outbox = Outbox::new(sender, &answers, &tally, Tuning::default());
        for number in 0..2 {
            outbox.take(quantum(number)).expect("sent");
        }
        let report = tally.report();
        let [work] = &report.compressors[..] else { panic!("one: {:?}", report.compressors) };
        assert_eq!((work.quanta, work.bytes_before, work.bytes_after), (2, 600, 200));
        assert_eq!([work.time, report.stages.compress.busy], [2 * PRESSING_TIME; 2]);
    }

    proptest! {
        #[test]
        fn no_change_overtakes_its_quanta(
            needs in prop::collection::vec(prop::collection::btree_set(0_u64..6, 0..4), 1..10),
            order in Just((0..16_usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let answers = Answers::default();
            let tally = Tally::new(Arc::new(Progress::default()));
            let tuning = Tuning { transaction_objects: Some(2), ..Tuning::default() };
            let (sender, mut take) = recorded(100);
            let mut outbox = Outbox::new(sender, &answers, &tally, tuning);
            for at in order {
                let message = match at.checked_sub(6) {
                    None => quantum(at as u64),
                    Some(at) => match needs.get(at) {
                        Some(needs) => change(&needs.iter().copied().collect::<Vec<_>>()),
                        None => continue,
                    },
                };
                outbox.take(message).expect("sent");
            }
            outbox.commit().expect("committed");
            let (mut quanta, mut changes, mut commits) = (BTreeSet::new(), 0, 0);
            for sent in take() {
                let number: u64 = sent[1..].parse().expect("a number");
                match &sent[..1] {
                    "q" => prop_assert!(quanta.insert(number), "a quantum is sent once"),
                    "c" => changes += number,
                    _ => {
                        prop_assert_eq!(number, commits);
                        commits += 1;
                    }
                }
                let ready = needs.iter().filter(|needs| needs.is_subset(&quanta)).count();
                prop_assert!(changes <= ready as u64, "a change was sent too early");
            }
            prop_assert_eq!((quanta.len(), changes), (6, needs.len() as u64));
        }
    }
}
