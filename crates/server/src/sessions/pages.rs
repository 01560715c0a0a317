//! Pages for a node that compares its directories with them. A stream has many questions; the
//! answers come in their order.
//!
//! No thread waits for a question, or for a client that takes no answer: a thread answers as long
//! as questions have arrived and their answers find room, and is given back then. The answers find
//! room in the queue of the stream and in the memory of their node.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{Filespace, PageKey, PageRow};
use chunk::ContentHasher;
use model::{Extent, Object, Payload};
use store::{Store, StoreError, decode_page};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use wire::proto;

use super::filespace_names::find_filespace;
use super::stream::{QueuedReply, ended};
use crate::gate::Caller;
use crate::messages::changes::directory;
use crate::metered::QUESTIONS_WAITING;
use crate::refusal;

/// Questions. A message that is no question ends the stream.
type Questions = mpsc::Receiver<Result<proto::PagesRequest, Status>>;
type Replies = mpsc::Sender<QueuedReply<proto::PagesReply>>;

/// Answers questions until the client ends the stream. The client gets the reason for an early end.
pub(super) async fn serve(
    store: Arc<Store>,
    caller: Caller,
    requests: Streaming<proto::PagesRequest>,
    replies: Replies,
) {
    let questions = forward(requests);
    let answerer = Answerer { store, caller, last: None, questions };
    if let Err(status) = answerer.run(&replies).await {
        // The send fails only if the client has disconnected.
        drop(replies.send(QueuedReply::end(status)).await);
    }
}

/// Takes questions from the stream, while the previous questions are answered.
fn forward(mut requests: Streaming<proto::PagesRequest>) -> Questions {
    let (sender, receiver) = mpsc::channel(QUESTIONS_WAITING);
    tokio::spawn(async move {
        while let Some(request) = requests.message().await.transpose() {
            let is_last = request.is_err();
            if sender.send(request).await.is_err() || is_last {
                break;
            }
        }
    });
    receiver
}

/// Answers the questions of one stream.
struct Answerer {
    store: Arc<Store>,
    caller: Caller,
    /// Filespace of the previous question.
    last: Option<Filespace>,
    questions: Questions,
}

impl Answerer {
    async fn run(mut self, replies: &Replies) -> Result<(), Status> {
        while let Some(question) = self.questions.recv().await {
            self.caller.right.answers().go_on().await;
            let Ok(room) = replies.clone().reserve_owned().await else { return Ok(()) };
            let question = question?;
            let answering = move || self.answer_all(question, room);
            self = ended(tokio::task::spawn_blocking(answering).await)?;
        }
        Ok(())
    }

    /// Answers `question`, and then the questions that have arrived, while their answers find room.
    fn answer_all(
        mut self,
        mut question: proto::PagesRequest,
        mut room: mpsc::OwnedPermit<QueuedReply<proto::PagesReply>>,
    ) -> Result<Self, Status> {
        let answers = Arc::clone(self.caller.right.answers());
        loop {
            let reply = self.answer(&question).map_err(refusal::status)?;
            sys::fault::point("page");
            let replies =
                room.send(QueuedReply::counted(&answers, reply).map_err(refusal::status)?);
            if !answers.may_go_on() {
                return Ok(self);
            }
            let Ok(more) = replies.try_reserve_owned() else { return Ok(self) };
            let Ok(next) = self.questions.try_recv() else { return Ok(self) };
            (question, room) = (next?, more);
        }
    }

    fn answer(&mut self, question: &proto::PagesRequest) -> Result<proto::PagesReply, StoreError> {
        let (store, node) = (&*self.store, &self.caller.node);
        let same = self.last.take().filter(|filespace| filespace.name == question.filespace[..]);
        let found = match same {
            Some(filespace) => Some(filespace),
            None => find_filespace(store, node, &question.filespace)?,
        };
        // A filespace that was never backed up has no pages.
        let Some(filespace) = found else { return Ok(proto::PagesReply::default()) };
        let row = find_page(store, &filespace, question)?;
        self.last = Some(filespace);
        Ok(match row {
            None => proto::PagesReply::default(),
            Some(row) if question.contents_of.is_empty() => proto::PagesReply {
                page: row.body.into(),
                contents: Bytes::new(),
                first: row.key.first.into(),
            },
            Some(row) => proto::PagesReply {
                page: Bytes::new(),
                contents: contents(store, &decode_page(&row)?, &question.contents_of),
                first: row.key.first.into(),
            },
        })
    }
}

fn find_page(
    store: &Store,
    filespace: &Filespace,
    question: &proto::PagesRequest,
) -> Result<Option<PageRow>, StoreError> {
    let directory = directory(&question.directory)?;
    if question.holding.is_empty() {
        let key = PageKey { directory, first: question.first.to_vec() };
        return Ok(store.catalog.page(filespace.id, &key)?);
    }
    let name = &question.holding;
    Ok(store.catalog.page_holding(filespace.id, &directory, name)?)
}

fn contents(store: &Store, objects: &[Object], names: &[Bytes]) -> Bytes {
    let digest = |name: &Bytes| {
        let found = objects.binary_search_by(|object| object.name.as_bytes().cmp(name));
        found.ok().and_then(|at| content(store, &objects[at])).unwrap_or([0; 16])
    };
    names.iter().flat_map(digest).collect()
}

/// Returns the digest of the content of an object; `None` if there is none, and for a content in a
/// damaged pack. The node then takes its own content for a new one, and stores it again.
fn content(store: &Store, object: &Object) -> Option<[u8; 16]> {
    let Payload::Extents(extents) = &object.payload else { return None };
    let mut hasher = ContentHasher::new();
    for extent in extents {
        if let Extent::Hole { bytes } = extent {
            hasher.hole(*bytes);
        }
        let Some(range) = extent.chunks() else { continue };
        let pack = range.first.pack();
        if store.condemned().damaged.contains(&pack) {
            return None;
        }
        let table = store.pools.table(pack).ok()?;
        for offset in 0..range.count {
            let (_, digest) = table.chunk(range.first.index().checked_add(offset)?)?;
            hasher.chunk(&digest);
        }
    }
    Some(hasher.finish())
}
