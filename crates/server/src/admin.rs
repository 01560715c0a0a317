//! Administration, over the socket in the server's folder: whoever may open it may do everything.

use std::sync::Arc;
use std::time::Duration;

use catalog::{CatalogError, EventRow, Node, NodeChange, OptionSet, TaskRun, TokenRow};
use model::{NodeName, ServerTime};
use tonic::{Request, Response, Status};
use wire::proto;
use wire::proto::admin_server::Admin;

use crate::audit;
use crate::catalog_copy;
use crate::core::Core;
use crate::domains;
use crate::enrol::token_hash;
use crate::expire::{self, Order, Outcome};
use crate::node::{ReplyStream, describe_filespaces, streaming};
use crate::object_lock;
use crate::pools;
use crate::reclaim;
use crate::recovery;
use crate::refusal;
use crate::victims::Victim;

/// Whoever waits for a run hears of it so often.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Damages named in one answer at most.
const DAMAGES_MAX: usize = 10_000;

/// A token is good for so many seconds unless the administrator says otherwise.
const TOKEN_SECS: i64 = 24 * 3600;
/// And for no longer than this: 30 days.
const TOKEN_SECS_MAX: i64 = 30 * 24 * 3600;

pub(crate) struct AdminApi {
    pub(crate) core: Arc<Core>,
}

impl AdminApi {
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Core) -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let core = Arc::clone(&self.core);
        let done = tokio::task::spawn_blocking(move || work(&core)).await;
        done.map_err(|_| refusal::panicked())?.map(Response::new)
    }

    /// For what has to happen once, however many servers there are.
    fn house(&self) -> Result<Arc<Core>, Status> {
        self.core.check_keeps_house()?;
        Ok(Arc::clone(&self.core))
    }

    /// As [`Self::blocking`], at the server that keeps house.
    async fn housekeeping<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Core) -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        self.core.check_keeps_house()?;
        self.blocking(work).await
    }
}

#[tonic::async_trait]
impl Admin for AdminApi {
    async fn add_node(
        &self,
        request: Request<proto::AddNodeRequest>,
    ) -> Result<Response<proto::AddNodeReply>, Status> {
        let request = request.into_inner();
        self.blocking(move |core| add_node(core, &request)).await
    }

    async fn list_nodes(
        &self,
        request: Request<proto::ListNodesRequest>,
    ) -> Result<Response<proto::ListNodesReply>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |core| {
            let nodes = if name.is_empty() {
                core.catalog.nodes().map_err(|error| refusal::catalog(&error))?
            } else {
                vec![find(core, &name)?]
            };
            let nodes = nodes.iter().map(|node| describe(core, node)).collect::<Result<_, _>>()?;
            Ok(proto::ListNodesReply { nodes })
        })
        .await
    }

    async fn set_node(
        &self,
        request: Request<proto::SetNodeRequest>,
    ) -> Result<Response<proto::NodeInfo>, Status> {
        let request = request.into_inner();
        self.blocking(move |core| {
            let failed = |error| refusal::catalog(&error);
            let mut node = find(core, &request.name)?;
            if let Some(locked) = request.locked {
                core.catalog.lock_node(node.id, locked).map_err(failed)?;
            }
            if let Some(new_name) = &request.new_name {
                let new_name = parse(new_name)?;
                core.catalog.rename_node(node.id, &new_name).map_err(failed)?;
                node.name = new_name;
            }
            core.catalog
                .change_node(node.id, &change_of(core, &node, &request)?)
                .map_err(failed)?;
            let node = core.catalog.node(&node.name).map_err(failed)?;
            tracing::info!(node = %node.name, locked = node.locked, "node changed");
            describe(core, &node)
        })
        .await
    }

    async fn remove_node(
        &self,
        request: Request<proto::RemoveNodeRequest>,
    ) -> Result<Response<proto::NodeInfo>, Status> {
        let request = request.into_inner();
        self.blocking(move |core| {
            let node = find(core, &request.name)?;
            let described = describe(core, &node)?;
            let archives =
                core.catalog.archives(node.id).map_err(|error| refusal::catalog(&error))?;
            let has_data = !described.filespaces.is_empty() || !archives.is_empty();
            if has_data && !request.with_data {
                return Err(Status::failed_precondition(format!(
                    "node {} has {} filespaces with backups and {} archives; remove them too with \
                     --with-data",
                    node.name,
                    described.filespaces.len(),
                    archives.len()
                )));
            }
            if let Some(held) = archives.iter().find(|archive| archive.held) {
                return Err(Status::failed_precondition(format!(
                    "archive {} of node {} is held; the node can release it",
                    held.number, node.name
                )));
            }
            if has_data {
                domains::check_unlocked(core, &node, "removing")?;
            }
            core.catalog.remove_node(node.id).map_err(|error| refusal::catalog(&error))?;
            tracing::info!(node = %node.name, "node removed");
            let objects: u64 = described.filespaces.iter().map(|one| one.active_objects).sum();
            let details = format!("{} with {objects} active objects", node.name);
            domains::note(core, sys::clock::now(), "node removed", &details)?;
            Ok(described)
        })
        .await
    }

    async fn domains(
        &self,
        request: Request<proto::DomainsRequest>,
    ) -> Result<Response<proto::DomainsReply>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |core| domains::list(core, &name)).await
    }

    async fn add_domain(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<proto::Domain>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |core| domains::add(core, &name)).await
    }

    async fn remove_domain(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<proto::Domain>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |core| domains::remove(core, &name)).await
    }

    async fn edit_policy(
        &self,
        request: Request<proto::EditPolicyRequest>,
    ) -> Result<Response<proto::PolicyReview>, Status> {
        let request = request.into_inner();
        self.blocking(move |core| domains::edit(core, request)).await
    }

    async fn review_policy(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<proto::PolicyReview>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |core| domains::review(core, &name)).await
    }

    type SimulatePolicyStream = ReplyStream<proto::ExpireReply>;

    async fn simulate_policy(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<Self::SimulatePolicyStream>, Status> {
        let core = Arc::clone(&self.core);
        let name = request.into_inner().name;
        Ok(Response::new(told(reply, move |listener| domains::simulate(&core, &name, listener))))
    }

    async fn activate_policy(
        &self,
        request: Request<proto::ActivatePolicyRequest>,
    ) -> Result<Response<proto::PolicyReview>, Status> {
        let request = request.into_inner();
        self.blocking(move |core| domains::activate(core, &request)).await
    }

    type ExpireStream = ReplyStream<proto::ExpireReply>;

    async fn expire(
        &self,
        request: Request<proto::ExpireRequest>,
    ) -> Result<Response<Self::ExpireStream>, Status> {
        let core = self.house()?;
        let proto::ExpireRequest { node, dry_run, rate, all } = request.into_inner();
        Ok(Response::new(told(reply, move |listener| {
            let nodes = if node.is_empty() {
                core.catalog.nodes().map_err(|error| refusal::catalog(&error))?
            } else {
                vec![find(&core, &node)?]
            };
            let rate = Some(rate).filter(|rate| *rate > 0);
            let order = Order { is_dry: dry_run, rate, all, ..Order::due() };
            expire::run(&core, &nodes, order, listener)
        })))
    }

    type AuditStream = ReplyStream<proto::AuditReply>;

    async fn audit(
        &self,
        request: Request<proto::AuditRequest>,
    ) -> Result<Response<Self::AuditStream>, Status> {
        let core = self.house()?;
        let proto::AuditRequest { data, rate } = request.into_inner();
        let order = audit::Order { data, rate: Some(rate).filter(|rate| *rate > 0) };
        Ok(Response::new(told(audit_reply, move |listener| audit::run(&core, order, listener))))
    }

    type ReclaimStream = ReplyStream<proto::ReclaimReply>;

    async fn reclaim(
        &self,
        request: Request<proto::ReclaimRequest>,
    ) -> Result<Response<Self::ReclaimStream>, Status> {
        let core = self.house()?;
        let proto::ReclaimRequest { dry_run: is_dry, dead_percent, release } = request.into_inner();
        if release {
            recovery::release(&core)?;
        }
        let dead_percent = match dead_percent {
            0 => core.config.reclaim_dead_percent.max(1),
            percent => u8::try_from(percent.min(100)).unwrap_or(100),
        };
        let order = reclaim::Order { is_dry, dead_percent };
        Ok(Response::new(told(reclaim_reply, move |listener| reclaim::run(&core, order, listener))))
    }

    async fn pools(
        &self,
        request: Request<proto::PoolsRequest>,
    ) -> Result<Response<proto::PoolsReply>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |core| pools::list(core, &name)).await
    }

    async fn put_pool(
        &self,
        request: Request<proto::PutPoolRequest>,
    ) -> Result<Response<proto::PoolInfo>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |core| pools::put(core, &request)).await
    }

    async fn remove_pool(
        &self,
        request: Request<proto::PoolsRequest>,
    ) -> Result<Response<proto::PoolInfo>, Status> {
        let name = request.into_inner().name;
        self.housekeeping(move |core| pools::remove(core, &name)).await
    }

    type TendPoolStream = ReplyStream<proto::TendPoolReply>;

    async fn tend_pool(
        &self,
        request: Request<proto::TendPoolRequest>,
    ) -> Result<Response<Self::TendPoolStream>, Status> {
        use proto::tend_pool_request::Work;
        let core = self.house()?;
        let request = request.into_inner();
        Ok(Response::new(told(tend_reply, move |listener| match request.work() {
            Work::Copy => {
                if core.config.catalog_copy_hours > 0 && core.pools.usage(pools::FIRST).is_there {
                    catalog_copy::run(&core, &mut |_| true)?;
                }
                pools::copy(&core, &request.pool, listener)
            }
            Work::Drain => pools::drain(&core, &request.pool, request.all, listener),
            Work::Repair => pools::repair(&core, None, listener),
            Work::Lock => object_lock::run(&core, listener),
        })))
    }

    async fn libraries(
        &self,
        request: Request<proto::LibrariesRequest>,
    ) -> Result<Response<proto::LibrariesReply>, Status> {
        let request = request.into_inner();
        self.blocking(move |core| core.volumes.libraries(&request)).await
    }

    async fn put_library(
        &self,
        request: Request<proto::PutLibraryRequest>,
    ) -> Result<Response<proto::Library>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |core| core.volumes.put_library(&request)).await
    }

    async fn remove_library(
        &self,
        request: Request<proto::LibrariesRequest>,
    ) -> Result<Response<proto::Library>, Status> {
        let name = request.into_inner().name;
        self.housekeeping(move |core| core.volumes.remove_library(&name)).await
    }

    async fn serve_library(
        &self,
        request: Request<proto::ServeLibraryRequest>,
    ) -> Result<Response<proto::Library>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |core| core.volumes.serve_library(request)).await
    }

    async fn volumes(
        &self,
        request: Request<proto::VolumesRequest>,
    ) -> Result<Response<proto::VolumesReply>, Status> {
        let request = request.into_inner();
        self.blocking(move |core| core.volumes.list(&request)).await
    }

    type LabelVolumesStream = ReplyStream<proto::LabelVolumesReply>;

    async fn label_volumes(
        &self,
        request: Request<proto::LabelVolumesRequest>,
    ) -> Result<Response<Self::LabelVolumesStream>, Status> {
        let core = self.house()?;
        let request = request.into_inner();
        Ok(Response::new(streaming(move |replies| {
            core.volumes
                .label_all(&request, &mut |reply| replies.blocking_send(Ok(reply)).is_ok())
        })))
    }

    async fn set_volume(
        &self,
        request: Request<proto::SetVolumeRequest>,
    ) -> Result<Response<proto::VolumeInfo>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |core| core.volumes.set(&request)).await
    }

    type TendVolumesStream = ReplyStream<proto::TendPoolReply>;

    async fn tend_volumes(
        &self,
        request: Request<proto::TendVolumesRequest>,
    ) -> Result<Response<Self::TendVolumesStream>, Status> {
        let core = self.house()?;
        let work = volume_work(&core, &request.into_inner())?;
        Ok(Response::new(told(tend_reply, move |listener| {
            pools::tend_volumes(&core, &work, listener)
        })))
    }

    async fn tape_queue(
        &self,
        request: Request<proto::TapeQueueRequest>,
    ) -> Result<Response<proto::TapeQueueReply>, Status> {
        let cancel = request.into_inner().cancel;
        self.housekeeping(move |core| core.volumes.queue(cancel)).await
    }

    async fn catalog_copies(
        &self,
        _request: Request<proto::CatalogCopiesRequest>,
    ) -> Result<Response<proto::CatalogCopiesReply>, Status> {
        self.blocking(|core| Ok(proto::CatalogCopiesReply { copies: catalog_copy::list(core)? }))
            .await
    }

    type CopyCatalogStream = ReplyStream<proto::CopyCatalogReply>;

    async fn copy_catalog(
        &self,
        _request: Request<proto::CopyCatalogRequest>,
    ) -> Result<Response<Self::CopyCatalogStream>, Status> {
        let core = self.house()?;
        Ok(Response::new(told(copy_reply, move |listener| catalog_copy::run(&core, listener))))
    }

    async fn option_sets(
        &self,
        request: Request<proto::OptionSetsRequest>,
    ) -> Result<Response<proto::OptionSetsReply>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |core| {
            let sets = core.catalog.option_sets().map_err(|error| refusal::catalog(&error))?;
            let wanted = |set: &OptionSet| name.is_empty() || set.name.eq_ignore_ascii_case(&name);
            let sets: Vec<proto::OptionSet> = sets
                .into_iter()
                .filter(wanted)
                .map(|set| proto::OptionSet { name: set.name, text: set.text.into() })
                .collect();
            if sets.is_empty() && !name.is_empty() {
                return Err(Status::not_found(format!(
                    "there is no option set {name}; 'holdfast admin optionset list' shows all"
                )));
            }
            Ok(proto::OptionSetsReply { sets })
        })
        .await
    }

    async fn put_option_set(
        &self,
        request: Request<proto::OptionSet>,
    ) -> Result<Response<proto::OptionSet>, Status> {
        let proto::OptionSet { name, text } = request.into_inner();
        self.blocking(move |core| {
            domains::check_name(&name, "an option set")?;
            let source = |line| policy::Source::OptionSet { name: name.clone(), line };
            policy::statement::parse_list(&text, source)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            let set = OptionSet { name: name.clone(), text: text.to_vec() };
            core.catalog.put_option_set(&set).map_err(|error| refusal::catalog(&error))?;
            domains::note(core, sys::clock::now(), "option set stored", &name)?;
            Ok(proto::OptionSet { name, text })
        })
        .await
    }

    async fn remove_option_set(
        &self,
        request: Request<proto::OptionSet>,
    ) -> Result<Response<proto::OptionSet>, Status> {
        let set = request.into_inner();
        self.blocking(move |core| {
            let failed = |error| refusal::catalog(&error);
            core.catalog.remove_option_set(&set.name).map_err(failed)?;
            domains::note(core, sys::clock::now(), "option set removed", &set.name)?;
            Ok(set)
        })
        .await
    }

    async fn servers(
        &self,
        _request: Request<proto::ServersRequest>,
    ) -> Result<Response<proto::ServersReply>, Status> {
        let core = Arc::clone(&self.core);
        Ok(Response::new(proto::ServersReply { servers: core.servers() }))
    }

    async fn events(
        &self,
        request: Request<proto::EventsRequest>,
    ) -> Result<Response<proto::EventsReply>, Status> {
        let limit = request.into_inner().limit as usize;
        self.blocking(move |core| {
            let events = core.catalog.events(None, limit);
            let event = |(number, event): (i64, EventRow)| {
                let EventRow { time, actor, what, details } = event;
                proto::Event { number, time: time.0, actor, what, details }
            };
            let events = events.map_err(|error| refusal::catalog(&error))?;
            Ok(proto::EventsReply { events: events.into_iter().map(event).collect() })
        })
        .await
    }

    async fn task_runs(
        &self,
        request: Request<proto::TaskRunsRequest>,
    ) -> Result<Response<proto::TaskRunsReply>, Status> {
        let limit = request.into_inner().limit as usize;
        self.blocking(move |core| {
            let run = |run: TaskRun| proto::TaskRun {
                task: run.task,
                due: run.due.0,
                started: run.started.0,
                ended: run.ended.map(|end| {
                    let (at, code) = (end.at.0, end.code.into());
                    proto::TaskEnd { at, code, reason: end.reason }
                }),
            };
            let runs = core.catalog.task_runs(limit);
            let runs = runs.map_err(|error| refusal::catalog(&error))?;
            Ok(proto::TaskRunsReply { runs: runs.into_iter().map(run).collect() })
        })
        .await
    }
}

/// Runs `work` on a thread that may block, and tells how it goes, sometimes, and what came of it.
fn told<O: 'static, R: Send + 'static>(
    reply: fn(&O, bool) -> R,
    work: impl FnOnce(&mut dyn FnMut(&O) -> bool) -> Result<O, Status> + Send + 'static,
) -> ReplyStream<R> {
    streaming(move |replies| {
        let mut told = sys::clock::monotonic();
        let outcome = work(&mut |outcome| {
            if told.elapsed() < TELL_EVERY {
                return !replies.is_closed();
            }
            told = sys::clock::monotonic();
            replies.blocking_send(Ok(reply(outcome, false))).is_ok()
        })?;
        replies
            .blocking_send(Ok(reply(&outcome, true)))
            .map_err(|_| Status::cancelled("the client is gone"))
    })
}

fn tend_reply(outcome: &pools::Outcome, is_last: bool) -> proto::TendPoolReply {
    let failures = outcome.failures.iter();
    let failure = |(pack, reason): &(model::PackNumber, String)| proto::PackFailure {
        pack: pack.0,
        reason: reason.clone(),
        volume: String::new(),
    };
    let of_volume = |(volume, reason): &(String, String)| proto::PackFailure {
        pack: 0,
        reason: reason.clone(),
        volume: volume.clone(),
    };
    proto::TendPoolReply {
        packs: outcome.packs,
        bytes: outcome.bytes,
        packs_done: outcome.packs_done,
        bytes_done: outcome.bytes_done,
        failures: outcome.volumes.iter().map(of_volume).chain(failures.map(failure)).collect(),
        is_last,
    }
}

fn volume_work(
    core: &Core,
    request: &proto::TendVolumesRequest,
) -> Result<pools::VolumeWork, Status> {
    use proto::tend_volumes_request::Work;
    if request.work() == Work::Import {
        let (library, volumes) = (request.library.clone(), request.volumes.clone());
        return Ok(pools::VolumeWork::Import { library, volumes });
    }
    let rows = request.volumes.iter().map(|name| core.volumes.find(&request.library, name));
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(match request.work() {
        Work::Reclaim => pools::VolumeWork::Reclaim {
            pool: request.pool.clone(),
            dead_percent: u8::try_from(request.dead_percent.min(100)).unwrap_or(100),
        },
        Work::Move => pools::VolumeWork::Move(rows),
        Work::Audit | Work::Import => pools::VolumeWork::Audit(rows),
    })
}

fn copy_reply(outcome: &catalog_copy::Outcome, is_last: bool) -> proto::CopyCatalogReply {
    let catalog_copy::Outcome { number, bytes, bytes_done, bytes_new } = *outcome;
    proto::CopyCatalogReply { number, bytes, bytes_done, bytes_new, is_last }
}

fn audit_reply(outcome: &audit::Outcome, is_last: bool) -> proto::AuditReply {
    let damage = |damage: &audit::Damage| {
        let (first_chunk, end_chunk) = damage.chunks.unwrap_or_default();
        let reason = damage.reason.clone();
        let pool = outcome.pools.get(&damage.pool).cloned().unwrap_or_default();
        let repaired = damage.is_repaired;
        proto::Damage { pack: damage.pack.0, first_chunk, end_chunk, reason, pool, repaired }
    };
    let victim = |victim: &Victim| proto::Victim {
        node: victim.node.clone(),
        path: victim.path.clone().into(),
        active: victim.is_active,
    };
    let mut reply = proto::AuditReply {
        packs: outcome.packs,
        packs_done: outcome.packs_done,
        quanta: outcome.quanta,
        bytes: outcome.bytes,
        damaged: outcome.damages.len() as u64,
        victim_count: outcome.victims.count,
        is_last,
        ..proto::AuditReply::default()
    };
    if is_last {
        reply.damages = outcome.damages.iter().take(DAMAGES_MAX).map(damage).collect();
        reply.away.clone_from(&outcome.away);
        reply.on_volumes.clone_from(&outcome.on_volumes);
        reply.victims = outcome.victims.named.iter().map(victim).collect();
    }
    reply
}

fn reclaim_reply(outcome: &reclaim::Outcome, is_last: bool) -> proto::ReclaimReply {
    let reclaim::Outcome { examined, packs, pack_bytes, dead_bytes, .. } = *outcome;
    proto::ReclaimReply {
        examined,
        packs,
        pack_bytes,
        dead_bytes,
        packs_removed: outcome.packs_removed,
        bytes_removed: outcome.bytes_removed,
        packs_rewritten: outcome.packs_rewritten,
        bytes_rewritten: outcome.bytes_rewritten,
        packs_waiting: outcome.packs_waiting,
        packs_locked: outcome.packs_locked,
        bytes_locked: outcome.bytes_locked,
        is_last,
    }
}

fn reply(outcome: &Outcome, is_last: bool) -> proto::ExpireReply {
    let Outcome { directories, examined, expired, expired_bytes, .. } = *outcome;
    proto::ExpireReply {
        directories,
        examined,
        expired,
        expired_bytes,
        nodes: outcome.nodes,
        due_anyway: outcome.due_anyway,
        filespaces_done: outcome.filespaces_done,
        filespaces: outcome.filespaces,
        is_last,
    }
}

/// What the request says of the node beside its name and lock.
fn change_of(
    core: &Core,
    node: &Node,
    request: &proto::SetNodeRequest,
) -> Result<NodeChange, Status> {
    let domain = match &request.domain {
        Some(name) => {
            let domain = domains::find(core, name)?;
            if domain.id != node.domain {
                domains::check_unlocked(core, node, "moving")?;
            }
            Some(domain.id)
        }
        None => None,
    };
    let option_set = request.option_set.clone().map(|name| Some(name).filter(|n| !n.is_empty()));
    let proto::SetNodeRequest { deletes_backups, deletes_archives, .. } = *request;
    let group = request.collocation_group.clone();
    let collocation_group = group.map(|name| Some(name).filter(|name| !name.is_empty()));
    Ok(NodeChange { domain, option_set, deletes_backups, deletes_archives, collocation_group })
}

fn parse(name: &str) -> Result<NodeName, Status> {
    NodeName::new(name).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn find(core: &Core, name: &str) -> Result<Node, Status> {
    core.catalog.node(&parse(name)?).map_err(|error| match error {
        CatalogError::NotFound { .. } => Status::not_found(format!(
            "there is no node {name}; 'holdfast admin node list' shows all"
        )),
        error => refusal::catalog(&error),
    })
}

fn describe(core: &Core, node: &Node) -> Result<proto::NodeInfo, Status> {
    Ok(proto::NodeInfo {
        id: node.id.0,
        name: node.name.to_string(),
        domain: node.domain_name.clone(),
        locked: node.locked,
        enrolled: core.catalog.is_enrolled(node.id).map_err(|error| refusal::catalog(&error))?,
        registered: node.registered.0,
        filespaces: describe_filespaces(core, node, false)?,
        option_set: node.option_set.clone().unwrap_or_default(),
        deletes_backups: node.deletes_backups,
        deletes_archives: node.deletes_archives,
        collocation_group: node.collocation_group.clone().unwrap_or_default(),
    })
}

fn add_node(core: &Core, request: &proto::AddNodeRequest) -> Result<proto::AddNodeReply, Status> {
    let now = sys::clock::now();
    let name = parse(&request.name)?;
    let domain = if request.domain.is_empty() { "STANDARD" } else { &request.domain };
    let lifetime = match request.token_lifetime_secs {
        0 => TOKEN_SECS,
        secs @ 1..=TOKEN_SECS_MAX => secs,
        _ => return Err(Status::invalid_argument("a token lives from 1 second to 30 days")),
    };
    let node = match core.catalog.add_node(&name, domain, now) {
        Err(CatalogError::Exists { .. }) if request.again => find(core, &request.name)?,
        Err(CatalogError::Exists { .. }) => {
            return Err(Status::already_exists(format!(
                "node {name} exists already; give it a new token with --again"
            )));
        }
        other => other.map_err(|error| refusal::catalog(&error))?,
    };
    let secret = sys::entropy::bytes();
    let expires = ServerTime(now.0 + lifetime * 1_000_000);
    let row = TokenRow { hash: token_hash(&secret), node: node.id, expires };
    core.catalog.add_token(&row).map_err(|error| refusal::catalog(&error))?;
    let token = wire::Token { secret, ca_fingerprint: core.authority.fingerprint() };
    tracing::info!(node = %node.name, "token given");
    Ok(proto::AddNodeReply {
        node: Some(describe(core, &node)?),
        token: token.to_string(),
        expires: expires.0,
    })
}
