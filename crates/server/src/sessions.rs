//! Requests of enrolled nodes. The gate has found the node of each request by its certificate. No
//! message of a node can name another node's data, except for a list or a restore that the other
//! node's own rules allow (`store::readers`).

mod arrivals;
mod backup;
mod digests;
mod filespace_names;
mod network;
mod pages;
mod readers;
mod recall;
mod restore;
pub(crate) mod stream;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{ContactRow, Node};
use model::{BACKUP_FILESPACE_MIN, Object, ServerTime, archive_number};
use store::lifecycle::{archive, baselines};
use store::readers::Reading;
use store::selection::{self, DirectoryVersions, VersionBatch, VersionCondition, drill};
use store::{DOMAIN, Store, StoreError, nodes, schedules};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};
use wire::proto;
use wire::proto::node_server::Node as NodeService;
use wire::version::{self, Role, Speaker};

use self::filespace_names::{filespace, find_filespace};
use self::stream::{REPLIES_WAITING, Replies, ReplyStream, replying};
use crate::activities::ActivityKind;
use crate::connection::Peer;
use crate::edge::Edge;
use crate::gate::{Caller, OPEN, admitted};
use crate::messages::changes::directory;
use crate::messages::portions::{Portion, Section, number_key};
use crate::{attendance, messages, refusal, unknown, usage};

/// Maximum length of the name of a node's machine, in bytes.
const HOST_BYTES_MAX: usize = 255;
/// Maximum number of pages in a message of a list.
const LIST_PAGES: usize = 16;
/// Number of bytes of pages after which a message of a list ends.
const LIST_BYTES: usize = 1 << 20;
/// Days in which a node can still use the certificate that it has renewed. A node that is
/// interrupted before it stores the new certificate renews the old one again.
const RENEWAL_GRACE_DAYS: i64 = 7;

pub(crate) struct NodeSessions {
    pub(crate) edge: Arc<Edge>,
}

fn malformed(what: &str) -> Status {
    refusal::status(StoreError::malformed(what))
}

impl NodeSessions {
    /// Answers a request of a node on a thread that may block.
    async fn answer<Q: Send + Sync + 'static, A: Send + 'static>(
        &self,
        request: Request<Q>,
        answer: impl FnOnce(&Arc<Store>, &Node, Q) -> Result<A, StoreError> + Send + 'static,
    ) -> Result<Response<A>, Status> {
        self.answer_if(request, |_, _| Ok(()), answer).await
    }

    /// Answers like [`Self::answer`], for a request that needs a right, which `permit` checks.
    async fn answer_if<Q: Send + Sync + 'static, A: Send + 'static>(
        &self,
        request: Request<Q>,
        permit: impl FnOnce(&Node, &Q) -> Result<(), Status> + Send + 'static,
        answer: impl FnOnce(&Arc<Store>, &Node, Q) -> Result<A, StoreError> + Send + 'static,
    ) -> Result<Response<A>, Status> {
        let edge = Arc::clone(&self.edge);
        let answering = move || {
            let caller = Caller::of(&request);
            permit(&caller.node, request.get_ref())?;
            sys::fault::point("answer");
            answer(&edge.store, &caller.node, request.into_inner()).map_err(refusal::status)
        };
        let answered = tokio::task::spawn_blocking(answering).await;
        answered.map_err(|_| refusal::panicked())?.map(Response::new)
    }

    /// Answers a request of a node with many messages.
    fn stream<Q: Send + Sync + 'static, A: prost::Message + 'static>(
        &self,
        request: Request<Q>,
        answer: impl FnOnce(&Arc<Store>, &Node, Q, &Replies<A>) -> Result<(), StoreError>
        + Send
        + 'static,
    ) -> Response<ReplyStream<A>> {
        let store = Arc::clone(&self.edge.store);
        let caller = Caller::of(&request);
        let right = Some(Arc::clone(&caller.right));
        Response::new(replying(right, move |replies| {
            answer(&store, &caller.node, request.into_inner(), replies).map_err(refusal::status)
        }))
    }
}

#[tonic::async_trait]
impl NodeService for NodeSessions {
    async fn hello(
        &self,
        request: Request<proto::HelloRequest>,
    ) -> Result<Response<proto::HelloReply>, Status> {
        let peer = request.extensions().get::<Peer>();
        let address = peer.expect("each connection has a peer").address.to_string();
        self.answer(request, |store, node, request| {
            let own = Speaker::own(Role::Server, env!("CARGO_PKG_VERSION"));
            let client = Speaker::client(&request);
            tracing::debug!(node = %node.name, %client, "greeted");
            version::settle(&own, &client)
                .map_err(|error| StoreError::Conflict(error.to_string()))?;
            if let Some(clock) = request.clock {
                store.hear_clock(node.id, ServerTime(clock));
            }
            let (at, host) = (sys::clock::now(), host_name(&request.host));
            store.contacts.note(ContactRow { node: node.id, at, address, host });
            hello(store, node, own)
        })
        .await
    }

    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::Certificate>, Status> {
        let edge = Arc::clone(&self.edge);
        self.answer(request, move |_, node, request| renew(&edge, node, &request.signing_request))
            .await
    }

    async fn filespaces(
        &self,
        request: Request<proto::FilespacesRequest>,
    ) -> Result<Response<proto::FilespacesReply>, Status> {
        self.answer(request, |store, node, request| {
            let portion = Portion::parse(request.portion);
            let least = if request.archives { b"" } else { BACKUP_FILESPACE_MIN };
            let from = portion.first().max(least);
            let reading = Reading::of(store, node, &request.node)?;
            let filespaces = nodes::filespaces(store, &reading.owner, from, portion.read_max())?;
            let mut ends = match request.backups {
                true => nodes::backup_ends(store, &reading.owner)?,
                false => BTreeMap::new(),
            };
            let message = |summary: nodes::FilespaceSummary| {
                let ends = ends.remove(&summary.filespace.id).unwrap_or_default();
                let backups = ends.into_iter().map(|end| end.0).collect();
                proto::Filespace { backups, ..messages::nodes::filespace(summary) }
            };
            let filespaces = filespaces.into_iter().map(message).collect();
            let Section { mut items, next } =
                portion.cut(filespaces, |filespace: &proto::Filespace| filespace.name.clone());
            items.retain(|filespace| reading.sees(&filespace.name));
            if !reading.is_own() {
                // The number of all objects says something about those that are not seen.
                items.iter_mut().for_each(|filespace| filespace.active_objects = 0);
            }
            Ok(proto::FilespacesReply { filespaces: items, next })
        })
        .await
    }

    type DigestsStream = ReplyStream<proto::Rows>;

    async fn digests(
        &self,
        request: Request<proto::DigestsRequest>,
    ) -> Result<Response<Self::DigestsStream>, Status> {
        Ok(self.stream(request, |store, node, request, replies| {
            digests::send_all(store, node, &request, replies)
        }))
    }

    type DigestsOfStream = ReplyStream<proto::Rows>;

    async fn digests_of(
        &self,
        request: Request<proto::DigestsOfRequest>,
    ) -> Result<Response<Self::DigestsOfStream>, Status> {
        Ok(self.stream(request, |store, node, request, replies| {
            digests::send_some(store, node, &request, replies)
        }))
    }

    async fn fingerprint(
        &self,
        request: Request<proto::FingerprintRequest>,
    ) -> Result<Response<proto::FingerprintReply>, Status> {
        self.answer(request, |store, node, request| digests::fingerprint(store, node, &request))
            .await
    }

    type PagesStream = ReplyStream<proto::PagesReply>;

    async fn pages(
        &self,
        request: Request<Streaming<proto::PagesRequest>>,
    ) -> Result<Response<Self::PagesStream>, Status> {
        let store = Arc::clone(&self.edge.store);
        let caller = Caller::of(&request);
        let right = Some(Arc::clone(&caller.right));
        let (replies, receiver) = mpsc::channel(REPLIES_WAITING);
        tokio::spawn(pages::serve(store, caller, request.into_inner(), replies));
        Ok(Response::new(stream::counted_body(right, receiver)))
    }

    type AttendStream = ReplyStream<proto::ServerOrder>;

    async fn attend(
        &self,
        request: Request<Streaming<proto::AgentMessage>>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        let edge = Arc::clone(&self.edge);
        let caller = Caller::of(&request);
        let peer = request.extensions().get::<Peer>();
        let address = peer.expect("each connection has a peer").address;
        let right = Some(Arc::clone(&caller.right));
        let mut messages = request.into_inner();
        let agent = attendance::admit(&edge, &caller.node, address, &mut messages).await?;
        let (orders, receiver) = mpsc::channel(REPLIES_WAITING);
        tokio::spawn(attendance::serve(edge, caller, agent, messages, orders));
        Ok(Response::new(stream::body(right, receiver)))
    }

    async fn own_schedules(
        &self,
        request: Request<proto::OwnSchedulesRequest>,
    ) -> Result<Response<proto::OwnSchedulesReply>, Status> {
        self.answer(request, |store, node, _| {
            schedules::plan_of(store, node).map(messages::schedules::own_schedules)
        })
        .await
    }

    async fn count_subtrees(
        &self,
        request: Request<proto::CountSubtreesRequest>,
    ) -> Result<Response<proto::CountSubtreesReply>, Status> {
        self.answer(request, |store, node, request| {
            let Some(filespace) = find_filespace(store, node, &request.filespace)? else {
                let objects = vec![0; request.directories.len()];
                return Ok(proto::CountSubtreesReply { objects });
            };
            let count =
                |path: &Bytes| Ok(store.catalog.count_objects(filespace.id, &directory(path)?)?);
            let objects =
                request.directories.iter().map(count).collect::<Result<_, StoreError>>()?;
            Ok(proto::CountSubtreesReply { objects })
        })
        .await
    }

    type BackupStream = ReplyStream<proto::FromServer>;

    async fn backup(
        &self,
        request: Request<Streaming<proto::ToServer>>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        let edge = Arc::clone(&self.edge);
        let caller = Caller::of(&request);
        let right = Some(Arc::clone(&caller.right));
        let backup = edge.limits.backup(&caller.node)?;
        let (replies, receiver) = mpsc::channel(REPLIES_WAITING);
        tokio::spawn(async move {
            let user = backup::User { node: caller.node, serial: caller.serial };
            backup::serve(edge, user, request.into_inner(), replies).await;
            // The rights last until the session has ended, even if the client has left before.
            drop((backup, caller.right));
        });
        Ok(Response::new(stream::body(right, receiver)))
    }

    async fn open_archive(
        &self,
        request: Request<proto::OpenArchiveRequest>,
    ) -> Result<Response<proto::Archive>, Status> {
        self.answer(request, |store, node, request| {
            archive::add(store, node, &request.description).map(messages::archives::archive)
        })
        .await
    }

    async fn read_rules(
        &self,
        request: Request<proto::ReadRulesRequest>,
    ) -> Result<Response<proto::ReadRulesReply>, Status> {
        self.answer(request, |store, node, _| readers::rules(store, node)).await
    }

    async fn allow_reading(
        &self,
        request: Request<proto::ReadRule>,
    ) -> Result<Response<proto::ReadRule>, Status> {
        self.answer(request, |store, node, rule| readers::allow(store, node, rule))
            .await
    }

    async fn forbid_reading(
        &self,
        request: Request<proto::ReadRule>,
    ) -> Result<Response<proto::ReadRule>, Status> {
        self.answer(request, |store, node, rule| readers::forbid(store, node, rule))
            .await
    }

    async fn archives(
        &self,
        request: Request<proto::ArchivesRequest>,
    ) -> Result<Response<proto::ArchivesReply>, Status> {
        self.answer(request, |store, node, request| readers::archives(store, node, &request))
            .await
    }

    async fn set_archive(
        &self,
        request: Request<proto::SetArchiveRequest>,
    ) -> Result<Response<proto::Archive>, Status> {
        self.answer(request, |store, node, request| {
            let order = messages::archives::order(&request);
            archive::set(store, node, order).map(messages::archives::archive)
        })
        .await
    }

    async fn delete(
        &self,
        request: Request<proto::DeleteRequest>,
    ) -> Result<Response<proto::Deletion>, Status> {
        self.answer_if(request, permit_deletion, |store, node, request| {
            let name = request.selection.as_ref().map(|selection| selection.filespace.clone());
            let filespace = filespace(store, node, &name.unwrap_or_default())?;
            let order = messages::archives::deletion_order(&request, filespace.id)?;
            let result = archive::delete(store, node, &filespace, order)?;
            Ok(messages::archives::deletion_result(result))
        })
        .await
    }

    async fn delete_objects(
        &self,
        request: Request<proto::DeleteObjectsRequest>,
    ) -> Result<Response<proto::DeleteObjectsReply>, Status> {
        let permit = |node: &Node, request: &proto::DeleteObjectsRequest| {
            permit_deletion_in(node, &request.filespace)
        };
        self.answer_if(request, permit, |store, node, request| {
            let filespace = filespace(store, node, &request.filespace)?;
            let order = messages::archives::objects_deletion_order(&request, filespace.id)?;
            let report = archive::delete(store, node, &filespace, order)?;
            Ok(messages::archives::objects_deletion_result(report))
        })
        .await
    }

    async fn delete_images(
        &self,
        request: Request<proto::DeleteImagesRequest>,
    ) -> Result<Response<proto::Deletion>, Status> {
        let permit = |node: &Node, request: &proto::DeleteImagesRequest| {
            permit_deletion_in(node, &request.filespace)
        };
        self.answer_if(request, permit, |store, node, request| {
            let filespace = filespace(store, node, &request.filespace)?;
            let order = messages::archives::image_deletion_order(&request, filespace.id);
            let result = archive::delete(store, node, &filespace, order)?;
            Ok(messages::archives::deletion_result(result))
        })
        .await
    }

    async fn deletions(
        &self,
        request: Request<proto::DeletionsRequest>,
    ) -> Result<Response<proto::DeletionsReply>, Status> {
        self.answer(request, |store, node, request| {
            let portion = Portion::parse(request.portion);
            let deletions =
                archive::deletions(store, node, portion.first_number()?, portion.read_max())?;
            let deletions = deletions.into_iter().map(messages::archives::deletion).collect();
            let Section { items, next } =
                portion.cut(deletions, |deletion: &proto::Deletion| number_key(deletion.number));
            Ok(proto::DeletionsReply { deletions: items, next })
        })
        .await
    }

    async fn undelete(
        &self,
        request: Request<proto::UndeleteRequest>,
    ) -> Result<Response<proto::Deletion>, Status> {
        self.answer(request, |store, node, request| {
            archive::undelete(store, node, request.number).map(messages::archives::deletion)
        })
        .await
    }

    type ListStream = ReplyStream<proto::VersionsReply>;

    async fn list(
        &self,
        request: Request<proto::ListRequest>,
    ) -> Result<Response<Self::ListStream>, Status> {
        Ok(self.stream(request, |store, node, request, replies| {
            let condition = messages::selection::condition(request.condition)?;
            let selection = request.selection.unwrap_or_default();
            let reading = Reading::of(store, node, &selection.node)?;
            send_list(store, &reading, (&selection, &condition), replies)
        }))
    }

    type RestoreStream = ReplyStream<proto::RestoreReply>;

    async fn restore(
        &self,
        request: Request<Streaming<proto::RestoreRequest>>,
    ) -> Result<Response<Self::RestoreStream>, Status> {
        let edge = Arc::clone(&self.edge);
        let Caller { node, serial, right } = Caller::of(&request);
        let mut requests = request.into_inner();
        let first = stream::opening(requests.message()).await?;
        let first = first.ok_or_else(|| malformed("a restore must have a selection"))?;
        let start = match first.message {
            Some(proto::restore_request::Message::Start(start)) => start,
            Some(_) => return Err(malformed("a restore must begin with a selection")),
            None => return Err(unknown::message()),
        };
        let is_restore = messages::recall::is_restore(first.purpose.as_ref());
        let reader = messages::recall::reader(&node, first.purpose);
        let directories = messages::positive(first.directories_max);
        let answers = restore::forward(requests);
        let of_body = Some(Arc::clone(&right));
        let stream = replying(of_body, move |replies| {
            let _right = right;
            let store = &edge.store;
            let seat = edge.activities.begin(node.id, ActivityKind::Restore, &start.filespace);
            let is_admitted = || admitted(&edge.store, &serial, OPEN).map(drop);
            let mut client = restore::Client::new(answers, replies, seat, &is_admitted);
            let span = tracing::info_span!(target: model::TRACE, "restore", node = %node.name);
            let serve = || {
                let started = sys::clock::now();
                let reading = Reading::of(store, &node, &start.node)?;
                let filespace = filespace(store, &reading.owner, &start.filespace)?;
                let mut selection = messages::selection::parse(&start, filespace.id)?;
                reading.check(&filespace.name, &selection.path())?;
                let drill = messages::positive(start.drill).filter(|_| reading.is_own());
                selection.sample =
                    drill.map(|number| drill::sample(store, node.id, number)).transpose()?;
                let _reading = store.use_packs(false);
                let sent = selection::serve(store, &selection, reader, directories, &mut client)?;
                match drill {
                    Some(number) => {
                        drill::note_delivery(store, node.id, number, (filespace.id, sent));
                    }
                    None if is_restore => {
                        selection::note_restore(store, &filespace, started, &sent);
                    }
                    None => {}
                }
                Ok(())
            };
            let served = span.in_scope(serve);
            client.end(served)
        });
        Ok(Response::new(stream))
    }

    type StageStream = ReplyStream<proto::StageReply>;

    async fn stage(
        &self,
        request: Request<proto::StageRequest>,
    ) -> Result<Response<Self::StageStream>, Status> {
        let activities = self.edge.activities.clone();
        let right = Caller::of(&request).right;
        Ok(self.stream(request, move |store, node, request, replies| {
            let _seat = activities.begin(node.id, ActivityKind::Recall, &request.filespace);
            let filespace = filespace(store, node, &request.filespace)?;
            let order = messages::recall::order(&request)?;
            let reader = messages::recall::reader(node, request.purpose);
            drop(request.copies);
            let _reading = store.use_packs(false);
            let mut client = recall::Client { replies, right, failure: None };
            let staged = selection::stage_copies(store, filespace.id, order, reader, &mut client);
            client.failure.map_or(staged, Err)
        }))
    }

    async fn ping(
        &self,
        _: Request<proto::PingRequest>,
    ) -> Result<Response<proto::PingReply>, Status> {
        Ok(Response::new(proto::PingReply {}))
    }

    async fn waits(
        &self,
        request: Request<proto::WaitsRequest>,
    ) -> Result<Response<proto::WaitsReply>, Status> {
        self.answer(request, |store, node, request| {
            let own = store.volumes.queue_of(&node.name.to_string());
            Ok(messages::queue::own_waits(&Portion::parse(request.portion), own))
        })
        .await
    }

    async fn measure_to_server(
        &self,
        request: Request<Streaming<proto::MeasureToServerRequest>>,
    ) -> Result<Response<proto::MeasureToServerReply>, Status> {
        let caller = Caller::of(&request);
        network::take(&self.edge, &caller, request.into_inner())
            .await
            .map(Response::new)
    }

    type MeasureFromServerStream = ReplyStream<proto::MeasureFromServerReply>;

    async fn measure_from_server(
        &self,
        request: Request<proto::MeasureFromServerRequest>,
    ) -> Result<Response<Self::MeasureFromServerStream>, Status> {
        let caller = Caller::of(&request);
        network::give(&self.edge, caller, request.into_inner()).map(Response::new)
    }

    async fn measure_plain(
        &self,
        request: Request<proto::MeasurePlainRequest>,
    ) -> Result<Response<proto::MeasurePlainReply>, Status> {
        let caller = Caller::of(&request);
        let peer = request.extensions().get::<Peer>();
        let origin = peer.expect("each connection has a peer").origin;
        network::ticket(&self.edge, &caller, origin, request.into_inner()).map(Response::new)
    }

    async fn begin_drill(
        &self,
        request: Request<proto::BeginDrillRequest>,
    ) -> Result<Response<proto::BeginDrillReply>, Status> {
        self.answer(request, |store, node, request| {
            let amount = messages::drills::amount(&request)?;
            let number = drill::begin(store, node, amount, request.seed)?;
            Ok(proto::BeginDrillReply { number })
        })
        .await
    }

    async fn end_drill(
        &self,
        request: Request<proto::EndDrillRequest>,
    ) -> Result<Response<proto::DrillResult>, Status> {
        self.answer(request, |store, node, request| {
            let number = request.number;
            let confirmation = messages::drills::confirmation(request);
            drill::end(store, node, number, &confirmation).map(messages::drills::result)
        })
        .await
    }

    async fn drills(
        &self,
        request: Request<proto::DrillsRequest>,
    ) -> Result<Response<proto::DrillsReply>, Status> {
        self.answer(request, |store, node, _| {
            let last = messages::drills::last(store.catalog.drills(Some(node.id))?);
            Ok(proto::DrillsReply { last: Some(last) })
        })
        .await
    }

    type StatsStream = ReplyStream<proto::StatsReply>;

    async fn stats(
        &self,
        request: Request<proto::StatsRequest>,
    ) -> Result<Response<Self::StatsStream>, Status> {
        Ok(self.stream(request, |store, node, _, replies| {
            usage::send(store, std::slice::from_ref(node), replies)
        }))
    }

    async fn keep_baseline(
        &self,
        request: Request<proto::KeepBaselineRequest>,
    ) -> Result<Response<proto::KeepBaselineReply>, Status> {
        self.answer(request, |store, node, request| {
            baselines::keep(store, node, &messages::baselines::document(request)?)?;
            Ok(proto::KeepBaselineReply {})
        })
        .await
    }

    async fn baselines(
        &self,
        request: Request<proto::BaselinesRequest>,
    ) -> Result<Response<proto::BaselinesReply>, Status> {
        self.answer(request, |store, node, request| {
            let portion =
                Portion::parse(request.portion).at_most(messages::baselines::BASELINES_MAX);
            let kept = baselines::list(store, node, portion.first_number()?, portion.read_max())?;
            let kept = kept.into_iter().map(messages::baselines::baseline).collect();
            let Section { items, next } =
                portion.cut(kept, |baseline: &proto::Baseline| number_key(baseline.number));
            Ok(proto::BaselinesReply { baselines: items, next })
        })
        .await
    }
}

/// Fails if the administrator does not let the node delete what `request` selects.
fn permit_deletion(node: &Node, request: &proto::DeleteRequest) -> Result<(), Status> {
    let Some(selection) = &request.selection else { return permit_deletion_in(node, b"") };
    if !selection.node.is_empty() {
        let message = "a node deletes only what it has stored itself";
        return Err(Status::permission_denied(message));
    }
    permit_deletion_in(node, &selection.filespace)
}

/// Fails if the administrator does not let the node delete from such a filespace.
fn permit_deletion_in(node: &Node, filespace: &[u8]) -> Result<(), Status> {
    let is_archive = archive_number(filespace).is_some();
    let (what, option, may) = if is_archive {
        ("archives", "--archdelete", node.deletes_archives)
    } else {
        ("backups", "--backdelete", node.deletes_backups)
    };
    if may {
        return Ok(());
    }
    Err(Status::permission_denied(format!(
        "node {0} may not delete {what}; the administrator can allow it with 'holdfast admin node \
         set {0} {option} yes'",
        node.name
    )))
}

/// Returns the name of a machine as it can be kept.
fn host_name(text: &str) -> String {
    let mut name: String = text.chars().filter(|one| !one.is_control()).collect();
    name.truncate(name.floor_char_boundary(HOST_BYTES_MAX));
    name
}

fn hello(store: &Store, node: &Node, own: Speaker) -> Result<proto::HelloReply, StoreError> {
    let domains = store.catalog.domains()?;
    let domain = domains.iter().find(|domain| domain.id == node.domain);
    let policy = &domain
        .ok_or_else(|| StoreError::damaged("the node's policy domain is missing"))?
        .active;
    Ok(proto::HelloReply {
        node: node.name.to_string(),
        capabilities: own.capability_numbers(),
        server_version: own.program,
        protocol: own.protocol,
        oldest_protocol: own.oldest,
        now: sys::clock::now().0,
        domain_key: store.secrets.domain_key(DOMAIN).as_bytes().to_vec().into(),
        digest_key: store.secrets.digest_key(node.id).to_vec().into(),
        classes: policy.classes.iter().map(messages::domains::class).collect(),
        default_class: u32::from(policy.default_class.0),
        directory_class: u32::from(policy.directory_class().0),
        option_set: Some(messages::option_sets::of_node(store::option_sets::of_node(store, node)?)),
        servers: store.addresses(),
        outages: store.volumes.outages().into_iter().map(messages::libraries::outage).collect(),
    })
}

/// Makes a certificate that supersedes the others of the node.
fn renew(
    edge: &Edge,
    node: &Node,
    signing_request: &[u8],
) -> Result<proto::Certificate, StoreError> {
    let now = sys::clock::system();
    let issued = edge
        .authority
        .issue(&node.name, signing_request, now)
        .map_err(|error| StoreError::malformed(model::chain(&error)))?;
    let certificate =
        catalog::Certificate { serial: issued.serial, node: node.id, expires: issued.expires };
    let others_end = ServerTime::from_secs(now.secs() + RENEWAL_GRACE_DAYS * 86_400);
    edge.store.catalog.renew_certificate(&certificate, others_end)?;
    Ok(proto::Certificate { node: node.name.to_string(), chain_pem: issued.chain_pem })
}

/// Returns a portion of the archives of a node.
pub(crate) fn archives(
    store: &Store,
    node: &Node,
    portion: Option<proto::Portion>,
) -> Result<proto::ArchivesReply, StoreError> {
    let portion = Portion::parse(portion);
    let archives = archive::list(store, node, portion.first_number()?, portion.read_max())?;
    let archives = archives.into_iter().map(messages::archives::archive).collect();
    let Section { items, next } =
        portion.cut(archives, |archive: &proto::Archive| number_key(archive.number));
    Ok(proto::ArchivesReply { archives: items, next })
}

/// Sends the versions in a filespace of the node that is read.
pub(crate) fn send_list(
    store: &Store,
    reading: &Reading,
    (selection, condition): (&proto::Selection, &VersionCondition),
    replies: &Replies<proto::VersionsReply>,
) -> Result<(), StoreError> {
    let filespace = filespace(store, &reading.owner, &selection.filespace)?;
    let selection = messages::selection::parse(selection, filespace.id)?;
    reading.check(&filespace.name, &selection.path())?;
    let unreadable = selection.walk_readable(&*store.catalog, |mut batch| {
        condition.apply(&filespace.name, &mut batch);
        if batch.versions.is_empty() {
            // A walk that finds nothing ends with the client.
            return replies.check_open();
        }
        let describe = |VersionBatch { directory, versions }| {
            let deactivated = versions.iter().map(|version| version.deactivated).collect();
            let objects: Vec<Object> = versions.into_iter().map(|version| version.object).collect();
            messages::selection::directory_versions(DirectoryVersions {
                directory,
                page: format::page::encode(&objects),
                deactivated,
                chunk_lengths: Vec::new(),
            })
        };
        let mut pages = selection::split(batch).into_iter().map(describe).peekable();
        while pages.peek().is_some() {
            let (mut directories, mut bytes) = (Vec::new(), 0);
            while directories.len() < LIST_PAGES
                && let Some(part) = pages.next_if(|_| bytes < LIST_BYTES)
            {
                bytes += part.page.len();
                directories.push(part);
            }
            sys::fault::point("list");
            replies.blocking_send(Ok(proto::VersionsReply { directories }))?;
        }
        Ok(())
    })?;
    unreadable.map_or(Ok(()), |unreadable| Err(unreadable.into()))
}
