//! What an enrolled node may ask. Every method first finds out which node asks; nothing that a node
//! sends can name another node's data.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Filespace, Node, PageKey, PageRow};
use chunk::ContentHasher;
use model::{DirPath, Extent, Object, Payload, is_backup_filespace};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::proto;
use wire::proto::node_server::Node as NodeService;

use crate::archive;
use crate::backup::{self, decode_page};
use crate::core::{Core, DOMAIN};
use crate::domains::message_of_class;
use crate::refusal::{self, malformed};
use crate::restore;
use crate::select::{Selection, messages};
use crate::volumes::{self, Who};

/// Messages of a stream that wait to be sent at most.
const REPLIES_WAITING: usize = 8;
/// Bytes of digest rows in one message.
const ROWS_BYTES: usize = 256 << 10;

pub(crate) struct NodeApi {
    pub(crate) core: Arc<Core>,
}

pub(crate) type Replies<T> = mpsc::Sender<Result<T, Status>>;
pub(crate) type ReplyStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|_| refusal::panicked())?
}

/// Runs `work` on a thread that may block; what it sends is the stream.
pub(crate) fn streaming<T: Send + 'static>(
    work: impl FnOnce(&Replies<T>) -> Result<(), Status> + Send + 'static,
) -> ReplyStream<T> {
    let (replies, receiver) = mpsc::channel(REPLIES_WAITING);
    tokio::task::spawn_blocking(move || {
        if let Err(status) = work(&replies) {
            // A client that is gone does not want to know.
            drop(replies.blocking_send(Err(status)));
        }
    });
    Box::pin(ReceiverStream::new(receiver))
}

fn gone<T>(_: T) -> Status {
    Status::cancelled("the client is gone")
}

fn filespace(core: &Core, node: &Node, name: &[u8]) -> Result<Filespace, Status> {
    find_filespace(core, node, name)?.ok_or_else(|| {
        let name = model::escaped(name);
        Status::not_found(format!("node {} has no filespace {name}", node.name))
    })
}

fn find_filespace(core: &Core, node: &Node, name: &[u8]) -> Result<Option<Filespace>, Status> {
    let all = core.catalog.filespaces(node.id).map_err(|error| refusal::catalog(&error))?;
    Ok(all.into_iter().find(|filespace| filespace.name == name))
}

fn directory(bytes: &[u8]) -> Result<DirPath, Status> {
    DirPath::new(bytes).map_err(|error| malformed(&error.to_string()))
}

impl NodeApi {
    /// Answers the node that asks, on a thread that may block.
    async fn asked<Q: Send + Sync + 'static, A: Send + 'static>(
        &self,
        request: Request<Q>,
        answer: impl FnOnce(&Arc<Core>, &Node, Q) -> Result<A, Status> + Send + 'static,
    ) -> Result<Response<A>, Status> {
        let core = Arc::clone(&self.core);
        blocking(move || {
            let node = core.authenticate(&request)?;
            answer(&core, &node, request.into_inner())
        })
        .await
        .map(Response::new)
    }
}

#[tonic::async_trait]
impl NodeService for NodeApi {
    async fn hello(
        &self,
        request: Request<proto::HelloRequest>,
    ) -> Result<Response<proto::HelloReply>, Status> {
        let core = Arc::clone(&self.core);
        blocking(move || {
            let node = core.authenticate(&request)?;
            let client = &request.get_ref().client_version;
            tracing::debug!(node = %node.name, client, "greeted");
            hello(&core, &node)
        })
        .await
        .map(Response::new)
    }

    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::Certificate>, Status> {
        let core = Arc::clone(&self.core);
        blocking(move || {
            let node = core.authenticate(&request)?;
            renew(&core, &node, &request.into_inner().signing_request)
        })
        .await
        .map(Response::new)
    }

    async fn filespaces(
        &self,
        request: Request<proto::FilespacesRequest>,
    ) -> Result<Response<proto::FilespacesReply>, Status> {
        let core = Arc::clone(&self.core);
        blocking(move || {
            let node = core.authenticate(&request)?;
            let archives = request.get_ref().archives;
            Ok(proto::FilespacesReply { filespaces: describe_filespaces(&core, &node, archives)? })
        })
        .await
        .map(Response::new)
    }

    type DigestsStream = ReplyStream<proto::Rows>;

    async fn digests(
        &self,
        request: Request<proto::DigestsRequest>,
    ) -> Result<Response<Self::DigestsStream>, Status> {
        let core = Arc::clone(&self.core);
        let stream = streaming(move |replies| {
            let node = core.authenticate(&request)?;
            send_digests(&core, &node, &request.into_inner(), replies)
        });
        Ok(Response::new(stream))
    }

    type PagesStream = ReplyStream<proto::PagesReply>;

    async fn pages(
        &self,
        request: Request<Streaming<proto::PagesRequest>>,
    ) -> Result<Response<Self::PagesStream>, Status> {
        let core = Arc::clone(&self.core);
        let node = core.authenticate(&request)?;
        let questions = forward(request.into_inner());
        let stream = streaming(move |replies| answer_pages(&core, &node, questions, replies));
        Ok(Response::new(stream))
    }

    async fn count_subtrees(
        &self,
        request: Request<proto::CountSubtreesRequest>,
    ) -> Result<Response<proto::CountSubtreesReply>, Status> {
        let core = Arc::clone(&self.core);
        blocking(move || {
            let node = core.authenticate(&request)?;
            let request = request.into_inner();
            let Some(filespace) = find_filespace(&core, &node, &request.filespace)? else {
                let objects = vec![0; request.directories.len()];
                return Ok(proto::CountSubtreesReply { objects });
            };
            let count = |path: &Bytes| {
                let directory = directory(path)?;
                core.catalog
                    .count_objects(filespace.id, &directory)
                    .map_err(|error| refusal::catalog(&error))
            };
            let objects = request.directories.iter().map(count).collect::<Result<_, _>>()?;
            Ok(proto::CountSubtreesReply { objects })
        })
        .await
        .map(Response::new)
    }

    type BackupStream = ReplyStream<proto::FromServer>;

    async fn backup(
        &self,
        request: Request<Streaming<proto::ToServer>>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        let core = Arc::clone(&self.core);
        let node = core.authenticate(&request)?;
        let (replies, receiver) = mpsc::channel(REPLIES_WAITING);
        tokio::spawn(backup::serve(core, node, request.into_inner(), replies));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn open_archive(
        &self,
        request: Request<proto::OpenArchiveRequest>,
    ) -> Result<Response<proto::Archive>, Status> {
        self.asked(request, |core, node, request| archive::open(core, node, &request))
            .await
    }

    async fn archives(
        &self,
        request: Request<proto::ArchivesRequest>,
    ) -> Result<Response<proto::ArchivesReply>, Status> {
        self.asked(request, |core, node, _| archive::list(core, node)).await
    }

    async fn set_archive(
        &self,
        request: Request<proto::SetArchiveRequest>,
    ) -> Result<Response<proto::Archive>, Status> {
        self.asked(request, |core, node, request| archive::set(core, node, &request))
            .await
    }

    async fn delete(
        &self,
        request: Request<proto::DeleteRequest>,
    ) -> Result<Response<proto::Deletion>, Status> {
        self.asked(request, |core, node, request| {
            let name = request.selection.as_ref().map(|selection| selection.filespace.clone());
            let filespace = filespace(core, node, &name.unwrap_or_default())?;
            archive::delete(core, node, &filespace, &request)
        })
        .await
    }

    async fn deletions(
        &self,
        request: Request<proto::DeletionsRequest>,
    ) -> Result<Response<proto::DeletionsReply>, Status> {
        self.asked(request, |core, node, _| archive::deletions(core, node)).await
    }

    async fn undelete(
        &self,
        request: Request<proto::UndeleteRequest>,
    ) -> Result<Response<proto::Deletion>, Status> {
        self.asked(request, |core, node, request| archive::undelete(core, node, request.number))
            .await
    }

    type ListStream = ReplyStream<proto::VersionsReply>;

    async fn list(
        &self,
        request: Request<proto::ListRequest>,
    ) -> Result<Response<Self::ListStream>, Status> {
        let core = Arc::clone(&self.core);
        let stream = streaming(move |replies| {
            let node = core.authenticate(&request)?;
            let selection = request.into_inner().selection.unwrap_or_default();
            send_list(&core, &node, &selection, replies)
        });
        Ok(Response::new(stream))
    }

    type RestoreStream = ReplyStream<proto::RestoreReply>;

    async fn restore(
        &self,
        request: Request<Streaming<proto::RestoreRequest>>,
    ) -> Result<Response<Self::RestoreStream>, Status> {
        let core = Arc::clone(&self.core);
        let node = core.authenticate(&request)?;
        let mut requests = request.into_inner();
        let first = requests.message().await?.unwrap_or_default();
        let Some(proto::restore_request::Message::Start(start)) = first.message else {
            return Err(malformed("a restore begins with a selection"));
        };
        let who = Who::of_node(&node, &first.purpose.unwrap_or_default());
        let directories = first.directories_max;
        let answers = forward_wanted(requests);
        let stream = streaming(move |replies| {
            let filespace = filespace(&core, &node, &start.filespace)?;
            let selection = Selection::parse(&start, filespace.id)?;
            let _reading = core.use_packs(false);
            restore::serve(&core, &selection, (who, directories), (answers, replies))
        });
        Ok(Response::new(stream))
    }

    type StageStream = ReplyStream<proto::StageReply>;

    async fn stage(
        &self,
        request: Request<proto::StageRequest>,
    ) -> Result<Response<Self::StageStream>, Status> {
        let core = Arc::clone(&self.core);
        let node = core.authenticate(&request)?;
        let request = request.into_inner();
        let stream = streaming(move |replies| {
            let filespace = filespace(&core, &node, &request.filespace)?;
            let who = Who::of_node(&node, &request.purpose.clone().unwrap_or_default());
            let _reading = core.use_packs(false);
            volumes::stage_copies(&core, filespace.id, &request, (who, replies))
        });
        Ok(Response::new(stream))
    }
}

fn hello(core: &Core, node: &Node) -> Result<proto::HelloReply, Status> {
    let failed = |error| refusal::catalog(&error);
    let domains = core.catalog.domains().map_err(failed)?;
    let domain = domains.iter().find(|domain| domain.id == node.domain);
    let policy = &domain
        .ok_or_else(|| Status::data_loss("the node's policy domain is gone"))?
        .active;
    Ok(proto::HelloReply {
        node: node.name.to_string(),
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        now: sys::clock::now().0,
        domain_key: core.secrets.domain_key(DOMAIN).as_bytes().to_vec().into(),
        digest_key: core.secrets.digest_key(node.id).to_vec().into(),
        classes: policy.classes.iter().map(message_of_class).collect(),
        default_class: u32::from(policy.default_class.0),
        directory_class: u32::from(policy.directory_class().0),
        option_set: Some(option_set(core, node)?),
        damaged_packs: core.condemned().damaged.iter().map(|pack| pack.0).collect(),
        servers: match core.fleet {
            Some(_) => core.servers().into_iter().map(|server| server.address).collect(),
            None => Vec::new(),
        },
    })
}

/// The statements that the node gets from here; none without a name.
fn option_set(core: &Core, node: &Node) -> Result<proto::OptionSet, Status> {
    let Some(name) = &node.option_set else { return Ok(proto::OptionSet::default()) };
    let sets = core.catalog.option_sets().map_err(|error| refusal::catalog(&error))?;
    let set = sets.into_iter().find(|set| set.name.eq_ignore_ascii_case(name));
    let set = set.ok_or_else(|| Status::data_loss("the node's option set is gone"))?;
    Ok(proto::OptionSet { name: set.name, text: set.text.into() })
}

fn renew(core: &Core, node: &Node, signing_request: &[u8]) -> Result<proto::Certificate, Status> {
    let issued = core
        .authority
        .issue(&node.name, signing_request, sys::clock::system())
        .map_err(|error| malformed(&model::chain(&error)))?;
    let certificate =
        catalog::Certificate { serial: issued.serial, node: node.id, expires: issued.expires };
    core.catalog
        .add_certificate(&certificate)
        .map_err(|error| refusal::catalog(&error))?;
    Ok(proto::Certificate { node: node.name.to_string(), chain_pem: issued.chain_pem })
}

/// A node's filespaces with their sizes; `others` are those of archives and of what was migrated.
pub(crate) fn describe_filespaces(
    core: &Core,
    node: &Node,
    others: bool,
) -> Result<Vec<proto::Filespace>, Status> {
    let failed = |error| refusal::catalog(&error);
    let describe = |filespace: Filespace| {
        let everything = DirPath::above_root();
        let objects = core.catalog.count_objects(filespace.id, &everything).map_err(failed)?;
        Ok(proto::Filespace {
            name: filespace.name.into(),
            active_objects: objects,
            last_backup: filespace.last_backup.map_or(0, |time| time.0),
        })
    };
    core.catalog
        .filespaces(node.id)
        .map_err(failed)?
        .into_iter()
        .filter(|filespace| others || is_backup_filespace(&filespace.name))
        .map(describe)
        .collect()
}

fn send_digests(
    core: &Core,
    node: &Node,
    request: &proto::DigestsRequest,
    replies: &Replies<proto::Rows>,
) -> Result<(), Status> {
    let within = directory(&request.directory)?;
    let Some(filespace) = find_filespace(core, node, &request.filespace)? else { return Ok(()) };
    let mut rows = Vec::with_capacity(ROWS_BYTES + 512);
    let mut sent = Ok(());
    core.catalog
        .digests(filespace.id, &within, &mut |digest| {
            let row =
                wire::DigestRow { hash: digest.hash, digest: digest.digest, first: &digest.first };
            wire::encode_digest_row(&mut rows, &row);
            if rows.len() >= ROWS_BYTES {
                let full = std::mem::replace(&mut rows, Vec::with_capacity(ROWS_BYTES + 512));
                sent = replies.blocking_send(Ok(proto::Rows { rows: full.into() })).map_err(gone);
            }
            sent.is_ok()
        })
        .map_err(|error| refusal::catalog(&error))?;
    sent?;
    replies.blocking_send(Ok(proto::Rows { rows: rows.into() })).map_err(gone)
}

/// Lets a blocking thread read the stream.
fn forward(mut requests: Streaming<proto::PagesRequest>) -> mpsc::Receiver<proto::PagesRequest> {
    let (sender, receiver) = mpsc::channel(REPLIES_WAITING);
    tokio::spawn(async move {
        while let Ok(Some(request)) = requests.message().await {
            if sender.send(request).await.is_err() {
                break;
            }
        }
    });
    receiver
}

fn forward_wanted(mut requests: Streaming<proto::RestoreRequest>) -> restore::Answers {
    let (sender, receiver) = mpsc::channel(REPLIES_WAITING);
    tokio::spawn(async move {
        while let Ok(Some(request)) = requests.message().await {
            let Some(proto::restore_request::Message::Wanted(wanted)) = request.message else {
                break;
            };
            if sender.send(wanted).await.is_err() {
                break;
            }
        }
    });
    receiver
}

fn answer_pages(
    core: &Core,
    node: &Node,
    mut questions: mpsc::Receiver<proto::PagesRequest>,
    replies: &Replies<proto::PagesReply>,
) -> Result<(), Status> {
    let mut known: Option<Filespace> = None;
    while let Some(question) = questions.blocking_recv() {
        let same = known.take().filter(|filespace| filespace.name == question.filespace[..]);
        let found = match same {
            Some(filespace) => Some(filespace),
            None => find_filespace(core, node, &question.filespace)?,
        };
        let Some(filespace) = found else {
            // A filespace that was never backed up has no pages.
            replies.blocking_send(Ok(proto::PagesReply::default())).map_err(gone)?;
            continue;
        };
        let row = find_page(core, &filespace, &question)?;
        let reply = match row {
            None => proto::PagesReply::default(),
            Some(row) if question.contents_of.is_empty() => proto::PagesReply {
                page: row.body.into(),
                contents: Bytes::new(),
                first: row.key.first.into(),
            },
            Some(row) => proto::PagesReply {
                page: Bytes::new(),
                contents: contents(core, &decode_page(&row)?, &question.contents_of),
                first: row.key.first.into(),
            },
        };
        known = Some(filespace);
        replies.blocking_send(Ok(reply)).map_err(gone)?;
    }
    Ok(())
}

fn find_page(
    core: &Core,
    filespace: &Filespace,
    question: &proto::PagesRequest,
) -> Result<Option<PageRow>, Status> {
    let directory = directory(&question.directory)?;
    let failed = |error| refusal::catalog(&error);
    if question.holding.is_empty() {
        let key = PageKey { directory, first: question.first.to_vec() };
        return core.catalog.page(filespace.id, &key).map_err(failed);
    }
    let name = &question.holding;
    core.catalog.page_holding(filespace.id, &directory, name).map_err(failed)
}

fn contents(core: &Core, objects: &[Object], names: &[Bytes]) -> Bytes {
    let digest = |name: &Bytes| {
        let found = objects.binary_search_by(|object| object.name.as_bytes().cmp(name));
        found.ok().and_then(|at| content(core, &objects[at])).unwrap_or([0; 16])
    };
    names.iter().flat_map(digest).collect()
}

fn content(core: &Core, object: &Object) -> Option<[u8; 16]> {
    let Payload::Extents(extents) = &object.payload else { return None };
    let mut hasher = ContentHasher::new();
    for extent in extents {
        if let Extent::Hole { bytes } = extent {
            hasher.hole(*bytes);
        }
        let Some(range) = extent.chunks() else { continue };
        let table = core.pools.table(range.first.pack()).ok()?;
        for offset in 0..range.count {
            let (_, digest) = table.chunk(range.first.index().checked_add(offset)?)?;
            hasher.chunk(&digest);
        }
    }
    Some(hasher.finish())
}

fn send_list(
    core: &Core,
    node: &Node,
    selection: &proto::Selection,
    replies: &Replies<proto::VersionsReply>,
) -> Result<(), Status> {
    let filespace = filespace(core, node, &selection.filespace)?;
    let selection = Selection::parse(selection, filespace.id)?;
    selection.walk(&*core.catalog, |found| {
        let describe = |(directory, versions): (DirPath, Vec<model::Version>)| {
            let deactivated = versions.iter().map(|version| version.deactivated);
            let deactivated = deactivated.map(|time| time.map_or(0, |time| time.0)).collect();
            let objects: Vec<Object> = versions.into_iter().map(|version| version.object).collect();
            proto::DirectoryVersions {
                directory: Bytes::copy_from_slice(directory.as_bytes()),
                page: format::page::encode(&objects).into(),
                deactivated,
                chunk_lengths: Bytes::new(),
            }
        };
        let directories = messages(found).into_iter().map(describe).collect();
        replies.blocking_send(Ok(proto::VersionsReply { directories })).map_err(gone)
    })
}
