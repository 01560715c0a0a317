//! A backup session: one stream, in order.
//!
//! ```text
//!   client                         receive                      commit
//!   Open        ------------->  claim the filespace
//!   Quantum     ------------->  store (several at once)
//!   Changes     ------------->  collect
//!   Commit n    ------------->  hand over  ------------->  resolve, apply, sync, commit
//!               <----------------------------------------  Committed n
//! ```
//!
//! Receiving goes on while a transaction commits; transactions commit one after the other, so a
//! change always meets the page that the one before it left.
//!
//! Crash rule: a transaction is in the catalogue as a whole or not at all. Below a directory that
//! is gone, pages go in batches before the directory itself does; a crash between leaves a
//! directory that the next backup finds gone again.

mod arrivals;
mod prepare;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use catalog::change::Changed;
use catalog::{Day, Filespace, Node, PageRow, SessionRow, Write};
use format::page;
use model::{ClassId, DirPath, FilespaceId, Object, PlaceCode as _, ServerTime};
use pool::Filler;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};
use wire::proto;

use self::arrivals::Arrivals;
use self::prepare::Prepared;
use crate::archive;
use crate::core::{Core, Uncommitted, Use};
use crate::fleet::Having;
use crate::object_lock;
use crate::pools;
use crate::refusal::{self, malformed};
use crate::resolve::{Quanta, Resolved, Resolver};
use crate::store::{Stored, store};

/// Quanta of one session that are being stored at once at most.
const STORING_MAX: usize = 4;
/// Transactions of one session that wait to be committed at most; then the client is not read from.
const WAITING_MAX: usize = 4;
/// A change may refer to quanta of so many transactions before its own.
const TRANSACTIONS_KEPT: usize = 64;
/// And as long as they have no more chunks than this, 12 MiB of memory: large files have few chunks
/// for their many transactions, and a client without grants can name them in no other way.
const CHUNKS_KEPT: usize = 1 << 18;
/// Changes in one transaction at most.
const CHANGES_MAX: usize = 100_000;

pub(crate) type Replies = mpsc::Sender<Result<proto::FromServer, Status>>;
type Storing = JoinHandle<Result<Stored, Status>>;

/// What the client closed with a commit.
struct Transaction {
    number: u64,
    quanta: Vec<(u64, Storing)>,
    changes: Vec<proto::PageChange>,
}

enum Work {
    Commit(Transaction),
    Close(proto::CloseBackup),
}

/// Serves the stream until it ends; tells the client why if that is not by its wish.
pub(crate) async fn serve(
    core: Arc<Core>,
    node: Node,
    mut stream: Streaming<proto::ToServer>,
    replies: Replies,
) {
    if let Err(status) = receive(&core, node, &mut stream, &replies).await {
        // A client that is gone does not want to know.
        drop(replies.send(Err(status)).await);
    }
}

async fn receive(
    core: &Arc<Core>,
    node: Node,
    stream: &mut Streaming<proto::ToServer>,
    replies: &Replies,
) -> Result<(), Status> {
    let open = match next(stream).await? {
        Some(proto::to_server::Message::Open(open)) => open,
        Some(_) => return Err(malformed("a backup begins with open")),
        None => return Ok(()),
    };
    let (session, filler, opened) = open_session(core, node, &open).await?;
    send(replies, proto::from_server::Message::Opened(opened)).await?;
    let (work, waiting) = mpsc::channel(WAITING_MAX);
    let arrivals = open.tells_arrivals.then(|| Arrivals::new(replies.clone()));
    let mut committer = tokio::task::spawn_blocking({
        let replies = replies.clone();
        move || session.run(waiting, &replies)
    });
    // A committer that fails ends the session at once: the client may be waiting for its answer.
    let received = tokio::select! {
        received = collect(core, filler, stream, (work, arrivals)) => received,
        committed = &mut committer => return committed.map_err(|_| refusal::panicked())?,
    };
    committer.await.map_err(|_| refusal::panicked())?.and(received)
}

async fn next(
    stream: &mut Streaming<proto::ToServer>,
) -> Result<Option<proto::to_server::Message>, Status> {
    match stream.message().await? {
        Some(proto::ToServer { message: Some(message) }) => Ok(Some(message)),
        Some(proto::ToServer { message: None }) => Err(malformed("an empty message")),
        None => Ok(None),
    }
}

async fn send(replies: &Replies, message: proto::from_server::Message) -> Result<(), Status> {
    let reply = proto::FromServer { message: Some(message) };
    replies
        .send(Ok(reply))
        .await
        .map_err(|_| Status::cancelled("the client is gone"))
}

async fn open_session(
    core: &Arc<Core>,
    node: Node,
    open: &proto::OpenBackup,
) -> Result<(Session, Filler, proto::Opened), Status> {
    let core = Arc::clone(core);
    let name = open.filespace.clone();
    let opening = move || {
        let now = sys::clock::now();
        let failed = |error| refusal::catalog(&error);
        // What was sent to another server need not come again.
        core.catch_up().map_err(failed)?;
        let archive = archive::opened(&core, &node, &name)?;
        let filespace = core.catalog.open_filespace(node.id, &name, now).map_err(failed)?;
        let claim = core.claim(filespace.id)?;
        let filler = pools::filler(&core, node.id)?;
        let filling = core.use_packs(true);
        let opened = proto::Opened { session: core.next_session().0 };
        let domains = core.catalog.domains().map_err(failed)?;
        let domain = domains.iter().find(|domain| domain.id == node.domain);
        let classes = domain.map_or(&[][..], |domain| &domain.active.classes);
        let locked = classes.iter().filter(|class| class.is_locked(now));
        let made = archive.map(|_| now);
        let holding =
            domain.and_then(|domain| object_lock::Session::new(&core, &domain.active, made));
        let session = Session {
            locked: locked.map(|class| class.id).collect(),
            holding,
            core,
            node,
            filespace,
            archive,
            started: now,
            quanta: Quanta::new(),
            kept: std::collections::VecDeque::new(),
            kept_chunks: 0,
            lacking: BTreeSet::new(),
            _claim: claim,
            filling,
        };
        Ok((session, filler, opened))
    };
    tokio::task::spawn_blocking(opening).await.map_err(|_| refusal::panicked())?
}

/// Reads the stream to its end, handing over each transaction as it is closed.
async fn collect(
    core: &Arc<Core>,
    filler: Filler,
    stream: &mut Streaming<proto::ToServer>,
    (work, mut arrivals): (mpsc::Sender<Work>, Option<Arrivals>),
) -> Result<(), Status> {
    let stopped = |_| Status::aborted("the session has ended");
    let storing = Arc::new(Semaphore::new(STORING_MAX));
    let mut quanta = Vec::new();
    let mut changes = Vec::new();
    while let Some(message) = next(stream).await? {
        match message {
            proto::to_server::Message::Quantum(quantum) => {
                if let Some(arrivals) = &mut arrivals {
                    arrivals.add(quantum.record.len());
                }
                let permit = Arc::clone(&storing).acquire_owned().await;
                let permit = permit.map_err(|_| refusal::panicked())?;
                let among_all = Arc::clone(&core.storing).acquire_owned().await;
                let among_all = among_all.map_err(|_| refusal::panicked())?;
                let core = Arc::clone(core);
                let number = quantum.number;
                let task = tokio::task::spawn_blocking(move || {
                    let stored = store(&core, filler, &quantum);
                    drop((permit, among_all));
                    stored
                });
                quanta.push((number, task));
            }
            proto::to_server::Message::Changes(more) => {
                changes.extend(more.changes);
                if changes.len() > CHANGES_MAX {
                    return Err(malformed("too many changes in one transaction"));
                }
            }
            proto::to_server::Message::Commit(commit) => {
                let transaction = Transaction {
                    number: commit.number,
                    quanta: std::mem::take(&mut quanta),
                    changes: std::mem::take(&mut changes),
                };
                work.send(Work::Commit(transaction)).await.map_err(stopped)?;
            }
            proto::to_server::Message::Close(close) => {
                work.send(Work::Close(close)).await.map_err(stopped)?;
            }
            proto::to_server::Message::Open(_) => return Err(malformed("a second open")),
        }
    }
    Ok(())
}

/// The committing half.
struct Session {
    core: Arc<Core>,
    node: Node,
    filespace: Filespace,
    /// The archive that the filespace is a part of.
    archive: Option<u64>,
    /// Classes that let go of nothing before a day.
    locked: BTreeSet<ClassId>,
    /// Where stores lock what is bound to them.
    holding: Option<object_lock::Session>,
    started: ServerTime,
    quanta: Quanta,
    /// The quantum numbers of the last transactions, oldest first.
    kept: std::collections::VecDeque<Vec<u64>>,
    kept_chunks: usize,
    /// Directories of which an object was refused: none of their pages gets a digest any more
    /// (invariant 3), also with a change that comes behind.
    lacking: BTreeSet<DirPath>,
    _claim: Having,
    filling: Use,
}

impl Session {
    fn run(mut self, mut waiting: mpsc::Receiver<Work>, replies: &Replies) -> Result<(), Status> {
        while let Some(work) = waiting.blocking_recv() {
            let message = match work {
                Work::Commit(transaction) => {
                    proto::from_server::Message::Committed(self.commit(transaction)?)
                }
                Work::Close(close) => {
                    self.close(&close)?;
                    proto::from_server::Message::Closed(proto::Closed {})
                }
            };
            let reply = proto::FromServer { message: Some(message) };
            if replies.blocking_send(Ok(reply)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn commit(&mut self, transaction: Transaction) -> Result<proto::Committed, Status> {
        let Transaction { number, quanta, changes } = transaction;
        let numbers = self.take_quanta(quanta)?;
        let Prepared { rejected, mut lacking, expired_objects, .. } = loop {
            match self.try_commit(&changes) {
                Ok(prepared) => break prepared,
                // Another server has condemned packs: what is named is looked at anew.
                Err(Uncommitted::Stale) => {
                    self.core.catch_up().map_err(|e| refusal::catalog(&e))?;
                }
                Err(Uncommitted::Failed(status)) => return Err(status),
            }
        };
        self.lacking.append(&mut lacking);
        let grants = numbers.iter().map(|&number| self.grants(number)).collect();
        self.forget_old_quanta(numbers);
        Ok(proto::Committed { number, grants, rejected, expired_objects })
    }

    fn try_commit(&self, changes: &[proto::PageChange]) -> Result<Prepared, Uncommitted> {
        let now = sys::clock::now();
        // Until the commit no pack is condemned that a page of it names (invariant 9).
        let condemned = self.core.condemned();
        let resolver = Resolver::new(&self.core, &self.node, &self.quanta, &condemned);
        let resolved: Vec<Resolved> = changes
            .iter()
            .map(|change| resolver.resolve(change))
            .collect::<Result<_, _>>()?;
        let mut prepared = self.prepare(resolved, (now, condemned.generation))?;
        if let Some(number) = self.archive {
            let change = std::mem::take(&mut prepared.archived);
            prepared.writes.push(Write::SetArchive { number, change });
        }
        let writes = std::mem::take(&mut prepared.writes);
        object_lock::apply(&self.core, &prepared.holds)?;
        self.core.commit_filled(&self.filling, condemned.generation, writes)?;
        Ok(prepared)
    }

    fn take_quanta(&mut self, quanta: Vec<(u64, Storing)>) -> Result<Vec<u64>, Status> {
        let runtime = tokio::runtime::Handle::current();
        let mut numbers = Vec::with_capacity(quanta.len());
        for (number, storing) in quanta {
            let stored = runtime.block_on(storing).map_err(|_| refusal::panicked())??;
            self.quanta.insert(number, stored);
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn forget_old_quanta(&mut self, numbers: Vec<u64>) {
        let chunks =
            |number: &u64| self.quanta.get(number).map_or(0, |quantum| quantum.places.len());
        self.kept_chunks += numbers.iter().map(chunks).sum::<usize>();
        self.kept.push_back(numbers);
        while self.kept.len() > TRANSACTIONS_KEPT
            && self.kept_chunks > CHUNKS_KEPT
            && let Some(old) = self.kept.pop_front()
        {
            for number in old {
                let forgotten = self.quanta.remove(&number);
                self.kept_chunks -= forgotten.map_or(0, |quantum| quantum.places.len());
            }
        }
    }

    /// What the node may present instead of these chunks from now on.
    fn grants(&self, number: u64) -> proto::QuantumGrants {
        let stored = &self.quanta[&number];
        let mut grants = Vec::with_capacity(stored.places.len() * 16);
        for (digest, place) in stored.digests.iter().zip(&stored.places) {
            grants.extend_from_slice(&place.code().to_le_bytes());
            grants.extend_from_slice(&self.core.secrets.grant(self.node.id, digest, *place).0);
        }
        proto::QuantumGrants { number, grants: Bytes::from(grants) }
    }

    fn close(&self, close: &proto::CloseBackup) -> Result<(), Status> {
        if self.archive.is_some() {
            return self.core.commit(Vec::new());
        }
        let session = SessionRow {
            node: self.node.id,
            filespace: self.filespace.id,
            started: self.started,
            ended: sys::clock::now(),
            complete: close.complete,
            report: close.report_json.clone(),
        };
        self.core.commit(vec![Write::AddSession(session)])
    }
}

/// What a change of a page of `directory` at `now` comes to in the catalogue.
pub(crate) fn writes(
    filespace: FilespaceId,
    directory: &DirPath,
    changed: Changed,
    now: ServerTime,
) -> Vec<Write> {
    let mut writes = Vec::new();
    let versions = changed.versions.into_iter();
    writes.extend(versions.map(|version| Write::AddVersion { filespace, version }));
    let pages = changed.pages.into_iter();
    writes.extend(pages.map(|page| Write::PutPage { filespace, page }));
    let removed = changed.removed.into_iter();
    writes.extend(removed.map(|key| Write::RemovePage { filespace, key }));
    if changed.affects_ended {
        let (directory, day) = (directory.clone(), Day::of(now));
        writes.push(Write::MarkDirectory { filespace, directory, day });
    }
    writes
}

/// Decodes a stored page.
pub(crate) fn decode_page(row: &PageRow) -> Result<Vec<Object>, Status> {
    page::decode(&row.body).map_err(|damage| {
        let directory = model::escaped(row.key.directory.as_bytes());
        Status::data_loss(format!("the catalogue's page of {directory} is damaged: {damage}"))
    })
}
