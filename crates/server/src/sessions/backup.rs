//! A backup session: one stream, whose messages are handled in their order.
//!
//! ```text
//!   client                         receive                      commit
//!   Open        ------------->  open the intake
//!   Quantum     ------------->  take in (several at once)
//!   Changes     ------------->  collect
//!   Commit n    ------------->  hand over  ------------->  store::intake
//!               <----------------------------------------  Committed n
//! ```
//!
//! Receiving continues while a transaction commits.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use catalog::Node;
use prost::Message as _;
use store::StoreError;
use store::intake::{self, Intake, Origin, PageChange, StoredQuantum};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinError;
use tonic::{Status, Streaming};
use wire::{REPORT_BYTES_MAX, proto};

use super::arrivals::Arrivals;
use super::stream::{SESSION_MAX, SILENCE_MAX, opening, within};
use super::transaction::{StoreTask, Transaction};
use crate::activities::{ActivityKind, Seat};
use crate::budget::NodeBudget;
use crate::edge::Edge;
use crate::gate::{OPEN, admitted};
use crate::messages::changes;
use crate::{refusal, unknown};

/// Maximum number of quanta of one session that are taken in at once.
const STORING_MAX: usize = 4;
/// Maximum number of transactions of one session that wait to be committed. While that many wait,
/// no message is read from the client.
const WAITING_MAX: usize = 4;

type Replies = mpsc::Sender<Result<proto::FromServer, Status>>;

enum Work {
    Commit { number: u64, transaction: Transaction },
    Close(proto::CloseBackup),
}

/// The node of a session, and the certificate that it came with.
pub(super) struct User {
    pub(super) node: Node,
    pub(super) serial: Vec<u8>,
}

/// Serves the stream until it ends. The client gets the reason for an early end.
pub(super) async fn serve(
    edge: Arc<Edge>,
    user: User,
    mut stream: Streaming<proto::ToServer>,
    replies: Replies,
) {
    let sender = replies.clone();
    let receiving = tokio::spawn(async move { receive(&edge, user, &mut stream, &sender).await });
    if let Err(status) = super::stream::ended(receiving.await) {
        // The send fails only if the client has disconnected.
        drop(replies.send_timeout(Err(status), SILENCE_MAX).await);
    }
}

async fn receive(
    edge: &Arc<Edge>,
    User { node, serial }: User,
    stream: &mut Streaming<proto::ToServer>,
    replies: &Replies,
) -> Result<(), Status> {
    let open = match opening(next(stream)).await? {
        Some(proto::to_server::Message::Open(open)) => open,
        Some(_) => return Err(malformed("a backup must begin with open")),
        None => return Ok(()),
    };
    let (budget, id) = (edge.budgets.of(node.id), node.id);
    let span = tracing::info_span!(target: model::TRACE, "backup", node = %node.name);
    let store = Arc::clone(&edge.store);
    let filespace = open.filespace.clone();
    let opening = move || Intake::open(&store, node, &open.filespace);
    let intake = stored(tokio::task::spawn_blocking(opening).await)?;
    let seat = Arc::new(edge.activities.begin(id, ActivityKind::Backup, &filespace));
    let opened = proto::Opened { session: intake.id().0 };
    send(replies, proto::from_server::Message::Opened(opened)).await?;
    let (work, waiting) = mpsc::channel(WAITING_MAX);
    let arrivals = open.tells_arrivals.then(|| Arrivals::new(replies.clone()));
    let origin = intake.origin();
    let takes_parts = open.takes_parts;
    let committer =
        Committer { intake, budget: Arc::clone(&budget), takes_parts, seat: Arc::clone(&seat) };
    let mut committer = tokio::task::spawn_blocking({
        let (replies, store) = (replies.clone(), Arc::clone(&edge.store));
        let is_admitted = move || admitted(&store, &serial, OPEN).map(drop);
        move || span.in_scope(|| commit_all(committer, &is_admitted, waiting, &replies))
    });
    // If a commit fails, the session ends at once: the client may be waiting for the answer.
    let transaction = Transaction::default();
    let storing = Arc::new(Semaphore::new(STORING_MAX));
    let collector = Collector { edge, origin, work, arrivals, budget, storing, transaction, seat };
    let received = tokio::select! {
        received = within(SESSION_MAX, collector.run(stream)) => received,
        committed = &mut committer => return super::stream::ended(committed),
    };
    super::stream::ended(committer.await).and(received)
}

/// Returns the result of a thread that works with the store.
fn stored<T>(joined: Result<Result<T, StoreError>, JoinError>) -> Result<T, Status> {
    super::stream::ended(joined.map(|result| result.map_err(refusal::status)))
}

fn malformed(what: &str) -> Status {
    refusal::status(StoreError::malformed(what))
}

async fn next(
    stream: &mut Streaming<proto::ToServer>,
) -> Result<Option<proto::to_server::Message>, Status> {
    match stream.message().await? {
        Some(proto::ToServer { message: Some(message) }) => Ok(Some(message)),
        Some(proto::ToServer { message: None }) => Err(unknown::message()),
        None => Ok(None),
    }
}

async fn send(replies: &Replies, message: proto::from_server::Message) -> Result<(), Status> {
    let reply = proto::FromServer { message: Some(message) };
    replies
        .send(Ok(reply))
        .await
        .map_err(|_| Status::cancelled("the client has disconnected"))
}

/// The receiving half of a session.
struct Collector<'a> {
    edge: &'a Arc<Edge>,
    origin: Origin,
    work: mpsc::Sender<Work>,
    arrivals: Option<Arrivals>,
    budget: Arc<NodeBudget>,
    /// Limit on the quanta of the session that are taken in at once.
    storing: Arc<Semaphore>,
    /// The transaction that the client has not closed yet.
    transaction: Transaction,
    seat: Arc<Seat>,
}

impl Collector<'_> {
    /// Reads the stream to its end, and passes on each transaction when it is closed.
    async fn run(mut self, stream: &mut Streaming<proto::ToServer>) -> Result<(), Status> {
        let stopped = |_| Status::aborted("the session has ended");
        while let Some(message) = self.next(stream).await? {
            sys::fault::point("message");
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.add(&message);
            }
            match message {
                proto::to_server::Message::Quantum(quantum) => self.take_quantum(quantum).await?,
                proto::to_server::Message::Changes(changes) => self.take_changes(changes).await?,
                proto::to_server::Message::Commit(proto::Commit { number }) => {
                    let transaction = std::mem::take(&mut self.transaction);
                    let work = Work::Commit { number, transaction };
                    self.work.send(work).await.map_err(stopped)?;
                }
                proto::to_server::Message::Close(close) => {
                    check_report(&close.report_json)?;
                    self.work.send(Work::Close(close)).await.map_err(stopped)?;
                    return end(stream).await;
                }
                proto::to_server::Message::Open(_) => return Err(malformed("a second open")),
            }
        }
        Ok(())
    }

    /// Returns the next message. Meanwhile reports the arrivals that are due.
    async fn next(
        &mut self,
        stream: &mut Streaming<proto::ToServer>,
    ) -> Result<Option<proto::to_server::Message>, Status> {
        let Some(arrivals) = &mut self.arrivals else { return next(stream).await };
        loop {
            tokio::select! {
                biased;
                message = next(stream) => return message,
                () = arrivals.due() => arrivals.report(),
            }
        }
    }

    /// Adds changes to the transaction. A message that waits for memory waits as bytes, which may
    /// take much less.
    async fn take_changes(&mut self, message: proto::Changes) -> Result<(), Status> {
        let memory = self.transaction.count(&message).map_err(refusal::status)?;
        if let Some(held) = self.budget.try_hold(memory) {
            self.transaction.keep(held);
            self.transaction.add_changes(message);
            return Ok(());
        }
        let bytes = Bytes::from(message.encode_to_vec());
        drop(message);
        self.hold(memory).await?;
        let message =
            proto::Changes::decode(bytes).map_err(|error| malformed(&error.to_string()))?;
        self.transaction.add_changes(message);
        Ok(())
    }

    async fn take_quantum(&mut self, quantum: proto::Quantum) -> Result<(), Status> {
        self.seat.count(quantum.record.len(), 0);
        let memory = self.transaction.add_chunks(&quantum.record).map_err(refusal::status)?;
        self.hold(memory).await?;
        let stored = (quantum.number, self.store(quantum).await?);
        self.transaction.quanta.push(stored);
        Ok(())
    }

    /// Takes memory from the budget of the node for the open transaction.
    async fn hold(&mut self, bytes: usize) -> Result<(), Status> {
        let held = self.budget.hold(bytes).await.map_err(refusal::status)?;
        self.transaction.keep(held);
        Ok(())
    }

    /// Begins to store a quantum, after waiting for its turn in this session and in the server.
    async fn store(&self, quantum: proto::Quantum) -> Result<StoreTask, Status> {
        let permit = Arc::clone(&self.storing).acquire_owned().await;
        let permit = permit.map_err(|_| refusal::panicked())?;
        let among_all = Arc::clone(&self.edge.storing).acquire_owned().await;
        let among_all = among_all.map_err(|_| refusal::panicked())?;
        let (store, origin) = (Arc::clone(&self.edge.store), self.origin);
        Ok(tokio::task::spawn_blocking(move || {
            let stored = intake::take_in(&store, origin, changes::quantum(&quantum));
            drop((permit, among_all));
            stored
        }))
    }
}

/// Fails if the report of a backup is so long that the catalogue must not keep it.
fn check_report(report: &str) -> Result<(), Status> {
    if report.len() <= REPORT_BYTES_MAX {
        return Ok(());
    }
    let bytes = report.len();
    Err(malformed(&format!("a report has {bytes} bytes, but may have at most {REPORT_BYTES_MAX}")))
}

/// Waits until the stream of a closed session ends. The client may send nothing more.
async fn end(stream: &mut Streaming<proto::ToServer>) -> Result<(), Status> {
    match next(stream).await? {
        Some(_) => Err(malformed("a message after the end of its session")),
        None => Ok(()),
    }
}

/// Commits the transactions of a session, one after the other. `is_admitted` fails once the node
/// is locked, removed or revoked, also by another server of the same catalogue.
fn commit_all(
    mut committer: Committer,
    is_admitted: &dyn Fn() -> Result<(), Status>,
    mut waiting: mpsc::Receiver<Work>,
    replies: &Replies,
) -> Result<(), Status> {
    while let Some(work) = waiting.blocking_recv() {
        is_admitted()?;
        for message in committer.perform(work).map_err(refusal::status)? {
            let reply = proto::FromServer { message: Some(message) };
            // A client that takes no answer must not hold the session open.
            let sending = replies.send_timeout(Ok(reply), SILENCE_MAX);
            if Handle::current().block_on(sending).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The committing half of a session.
struct Committer {
    intake: Intake,
    budget: Arc<NodeBudget>,
    /// True if the client takes the answer to a transaction in several messages.
    takes_parts: bool,
    seat: Arc<Seat>,
}

impl Committer {
    /// Commits or closes. Returns the messages of the answer.
    fn perform(&mut self, work: Work) -> Result<Vec<proto::from_server::Message>, StoreError> {
        use proto::from_server::Message;
        match work {
            Work::Commit { number, transaction } => {
                let committed = self.commit(number, transaction)?;
                let parts = changes::parts(committed, self.takes_parts)?;
                Ok(parts.into_iter().map(Message::Committed).collect())
            }
            Work::Close(close) => {
                self.intake.close(close.complete, &close.report_json)?;
                Ok(vec![Message::Closed(proto::Closed {})])
            }
        }
    }

    /// Commits a transaction. Its changes and the memory that it holds are given back at the end.
    fn commit(
        &mut self,
        number: u64,
        mut transaction: Transaction,
    ) -> Result<proto::Committed, StoreError> {
        let quanta = transaction.quanta.len();
        let _span = tracing::info_span!(target: model::TRACE, "transaction", quanta).entered();
        let quanta = wait_for(std::mem::take(&mut transaction.quanta))?;
        let changes = &transaction.changes;
        let expanding = self.budget.expand();
        // A transaction that meets others is parsed again.
        let objects = Cell::new(0);
        let committed = self.intake.commit(quanta, &|budget| {
            let changes = changes.iter().map(|change| changes::parse(change, budget));
            let changes: Vec<PageChange> = changes.collect::<Result<_, _>>()?;
            objects.set(changes.iter().map(|one| one.backed_up.len() + one.updated.len()).sum());
            Ok(changes)
        })?;
        drop(expanding);
        self.seat.count(0, objects.get());
        Ok(changes::committed(number, committed))
    }
}

/// Waits until the quanta are stored.
fn wait_for(quanta: Vec<(u64, StoreTask)>) -> Result<Vec<(u64, StoredQuantum)>, StoreError> {
    let runtime = Handle::current();
    let wait = |(number, storing): (u64, StoreTask)| match runtime.block_on(storing) {
        Ok(stored) => Ok((number, stored?)),
        // The panic continues in this thread, so that the session ends with a panic.
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    };
    quanta.into_iter().map(wait).collect()
}

#[cfg(test)]
mod tests {
    use model::{NodeName, ServerTime};
    use store::Store;
    use store::folder::Database;
    use store::ownership::Ownership;

    use super::*;
    use crate::activities::Activities;
    use crate::budget::NodeBudgets;

    /// A lock cuts the connection. What has arrived by then is not committed either.
    #[test]
    fn a_backup_of_a_node_that_is_locked_meanwhile_commits_nothing_more() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("server");
        let new = store::NewServer { listen: "127.0.0.1:0", pool: None, catalog: None, api: None };
        let config = crate::init(&folder, new).expect("a server");
        let database = Database::open(&config, &folder).expect("opens");
        let name = NodeName::new("anna").expect("a name");
        let catalog = database.catalog();
        let node = catalog.add_node(&name, policy::STANDARD, ServerTime(1)).expect("is added");
        let ownership = Ownership::take(&folder).expect("nobody has it");
        let store = Store::open(&folder, &config, &database, None, ownership).expect("opens");

        let id = node.id;
        let intake = Intake::open(&Arc::new(store), node, b"/").expect("nobody else has it");
        let seat = Activities::default().begin(id, ActivityKind::Backup, b"/");
        let (budget, seat) = (NodeBudgets::default().of(id), Arc::new(seat));
        let committer = Committer { intake, budget, takes_parts: false, seat };
        let (work, waiting) = mpsc::channel(1);
        let close = proto::CloseBackup { complete: true, report_json: "{}".to_owned() };
        assert!(work.try_send(Work::Close(close)).is_ok(), "there is room");
        drop(work);
        let (replies, mut answers) = mpsc::channel(1);
        let locked = || Err::<(), Status>(Status::permission_denied("node anna is locked"));
        let end = commit_all(committer, &locked, waiting, &replies).expect_err("it is locked");
        assert!(end.message().contains("is locked"), "{end}");
        assert!(answers.try_recv().is_err(), "nothing is confirmed");
        assert!(catalog.sessions(id, 1).expect("are read").is_empty(), "nothing is recorded");
    }
}
