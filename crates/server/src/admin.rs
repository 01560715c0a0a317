//! The calls of administrators. They come over the socket in the server's folder, where everybody
//! who may open the socket may do everything, or from the service above, which checks its callers.

mod backups;
pub(crate) mod keys;
mod lists;
mod nodes;
mod progress;
mod schedules;
mod tasks;
mod transfers;
mod work;

use std::sync::Arc;

use store::lifecycle::expire::{self, Confirmation, Order};
use store::lifecycle::{audit, audit_trail, catalog_copy, object_lock, reclaim, recovery};
use store::option_sets::{self, Mode, OptionSetChange};
use store::{StoreError, domains, pools};
use tonic::{Request, Response, Status};
use wire::proto::{self, admin_server::Admin};

use self::progress::report;
use crate::actor::{
    ReviewMark, actor, changer, find_node, found_nodes, numbering, option_set_sight, review_mark,
    schedule_sight, sight,
};
use crate::edge::Edge;
use crate::messages::pools::PoolRequest;
use crate::messages::portions::{Portion, Section, number_key, volume_key};
use crate::messages::servers::Health;
use crate::messages::{self, outcomes};
use crate::refusal;
use crate::sessions::stream::{ReplyStream, streaming};
use crate::usage;

/// The service for administrators.
pub(crate) struct AdminApi {
    pub(crate) edge: Arc<Edge>,
}

#[tonic::async_trait]
impl Admin for AdminApi {
    async fn add_node(
        &self,
        request: Request<proto::AddNodeRequest>,
    ) -> Result<Response<proto::AddNodeReply>, Status> {
        let (actor, numbering) = (actor(&request), numbering(&request));
        let request = request.into_inner();
        let edge = Arc::clone(&self.edge);
        self.blocking(move |_| nodes::add(&edge, &request, (&actor, &numbering))).await
    }

    async fn list_nodes(
        &self,
        request: Request<proto::ListNodesRequest>,
    ) -> Result<Response<proto::ListNodesReply>, Status> {
        let (sight, numbering) = (sight(&request), numbering(&request));
        let request = request.into_inner();
        self.blocking(move |store| nodes::portion(store, request, (sight.as_ref(), &numbering)))
            .await
    }

    async fn set_node(
        &self,
        request: Request<proto::SetNodeRequest>,
    ) -> Result<Response<proto::NodeInfo>, Status> {
        let (actor, numbering) = (actor(&request), numbering(&request));
        let found = found_nodes(&request);
        let request = request.into_inner();
        let edge = Arc::clone(&self.edge);
        self.changing(move |_| nodes::set(&edge, request, found.as_ref(), (&actor, &numbering)))
            .await
    }

    async fn remove_node(
        &self,
        request: Request<proto::RemoveNodeRequest>,
    ) -> Result<Response<proto::NodeInfo>, Status> {
        let (actor, numbering) = (actor(&request), numbering(&request));
        let found = found_nodes(&request);
        let request = request.into_inner();
        let edge = Arc::clone(&self.edge);
        self.blocking(move |_| nodes::remove(&edge, &request, found.as_ref(), (&actor, &numbering)))
            .await
    }

    async fn revoke_node(
        &self,
        request: Request<proto::RevokeNodeRequest>,
    ) -> Result<Response<proto::RevokeNodeReply>, Status> {
        let (actor, numbering) = (actor(&request), numbering(&request));
        let found = found_nodes(&request);
        let request = request.into_inner();
        let edge = Arc::clone(&self.edge);
        self.blocking(move |_| nodes::revoke(&edge, &request, found.as_ref(), (&actor, &numbering)))
            .await
    }

    async fn add_enrolment_key(
        &self,
        request: Request<proto::AddEnrolmentKeyRequest>,
    ) -> Result<Response<proto::AddEnrolmentKeyReply>, Status> {
        let actor = actor(&request);
        let request = request.into_inner();
        let edge = Arc::clone(&self.edge);
        self.blocking(move |_| keys::add(&edge, request, &actor)).await
    }

    async fn enrolment_keys(
        &self,
        request: Request<proto::EnrolmentKeysRequest>,
    ) -> Result<Response<proto::EnrolmentKeysReply>, Status> {
        let sight = request.extensions().get::<keys::KeySight>().cloned();
        let request = request.into_inner();
        self.blocking(move |store| keys::list(store, request, sight)).await
    }

    async fn revoke_enrolment_key(
        &self,
        request: Request<proto::EnrolmentKeysRequest>,
    ) -> Result<Response<proto::EnrolmentKey>, Status> {
        let (actor, found) = (actor(&request), keys::found(&request));
        let name = request.into_inner().name;
        self.blocking(move |store| keys::revoke(store, &name, (found, &actor))).await
    }

    async fn domains(
        &self,
        request: Request<proto::DomainsRequest>,
    ) -> Result<Response<proto::DomainsReply>, Status> {
        let sight = sight(&request);
        let request = request.into_inner();
        self.blocking(move |store| lists::domains(store, request, sight.as_ref())).await
    }

    async fn add_domain(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<proto::Domain>, Status> {
        let actor = actor(&request);
        let name = request.into_inner().name;
        self.blocking(move |store| {
            domains::add(store, &name, &actor).map(messages::domains::domain)
        })
        .await
    }

    async fn remove_domain(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<proto::Domain>, Status> {
        let actor = actor(&request);
        let name = request.into_inner().name;
        self.blocking(move |store| {
            let name = messages::domains::name(&name);
            domains::remove(store, name, &actor).map(messages::domains::domain)
        })
        .await
    }

    async fn set_domain(
        &self,
        request: Request<proto::SetDomainRequest>,
    ) -> Result<Response<proto::Domain>, Status> {
        let actor = actor(&request);
        let request = request.into_inner();
        self.blocking(move |store| {
            let change = messages::domains::limits(&request)?;
            domains::set_limits(store, &request.name, change, &actor).map(messages::domains::domain)
        })
        .await
    }

    async fn edit_policy(
        &self,
        request: Request<proto::EditPolicyRequest>,
    ) -> Result<Response<proto::PolicyReview>, Status> {
        let request = request.into_inner();
        self.blocking(move |store| {
            let edit = messages::domains::edit(request.edit)?;
            let domain = messages::domains::name(&request.domain);
            domains::edit(store, domain, edit).map(messages::domains::review)
        })
        .await
    }

    async fn review_policy(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<proto::PolicyReview>, Status> {
        let name = request.into_inner().name;
        self.blocking(move |store| {
            let name = messages::domains::name(&name);
            domains::review(store, name).map(messages::domains::review)
        })
        .await
    }

    type SimulatePolicyStream = ReplyStream<proto::ExpireReply>;

    async fn simulate_policy(
        &self,
        request: Request<proto::DomainRequest>,
    ) -> Result<Response<Self::SimulatePolicyStream>, Status> {
        let store = Arc::clone(&self.edge.store);
        let name = request.into_inner().name;
        Ok(Response::new(report(outcomes::expiration, move |listener| {
            domains::simulate(&store, messages::domains::name(&name), listener)
        })))
    }

    async fn activate_policy(
        &self,
        request: Request<proto::ActivatePolicyRequest>,
    ) -> Result<Response<proto::PolicyReview>, Status> {
        let (actor, mark) = (actor(&request), review_mark(&request));
        let proto::ActivatePolicyRequest { domain, confirm } = request.into_inner();
        self.blocking(move |store| {
            let domain = messages::domains::name(&domain);
            let activated = match mark {
                Some(ReviewMark(mark)) => {
                    domains::activate_reviewed(store, domain, &mark, confirm, &actor)
                }
                None => domains::activate(store, domain, confirm, &actor),
            };
            activated.map(messages::domains::review)
        })
        .await
    }

    type ExpireStream = ReplyStream<proto::ExpireReply>;

    async fn expire(
        &self,
        request: Request<proto::ExpireRequest>,
    ) -> Result<Response<Self::ExpireStream>, Status> {
        let store = self.house()?;
        let request = request.into_inner();
        let proto::ExpireRequest { node, dry_run, rate, all, confirm_clock } = request;
        let rate = messages::positive(rate);
        Ok(Response::new(report(outcomes::expiration, move |listener| {
            let nodes = store::nodes::select(&store, messages::name(&node))?;
            let order = Order { is_dry: dry_run, rate, all, ..Order::due() };
            let confirmation = match confirm_clock {
                true => Confirmation::Clock,
                false => Confirmation::None,
            };
            expire::run_by_clock(&store, &nodes, order, confirmation, listener)
        })))
    }

    type AuditStream = ReplyStream<proto::AuditReply>;

    async fn audit(
        &self,
        request: Request<proto::AuditRequest>,
    ) -> Result<Response<Self::AuditStream>, Status> {
        let store = self.house()?;
        let proto::AuditRequest { data, rate } = request.into_inner();
        let order = audit::Order { data, rate: messages::positive(rate) };
        Ok(Response::new(report(outcomes::audit, move |listener| {
            audit::run(&store, order, listener)
        })))
    }

    type ReclaimStream = ReplyStream<proto::ReclaimReply>;

    async fn reclaim(
        &self,
        request: Request<proto::ReclaimRequest>,
    ) -> Result<Response<Self::ReclaimStream>, Status> {
        let store = self.house()?;
        let proto::ReclaimRequest { dry_run: is_dry, dead_percent, release, recompress } =
            request.into_inner();
        let recompress = messages::recompression(recompress, !is_dry).map_err(refusal::status)?;
        if release {
            recovery::release(&store).map_err(refusal::status)?;
        }
        let dead_percent = match dead_percent {
            0 => store.config.reclaim_dead_percent.max(1),
            percent => u8::try_from(percent.min(100)).unwrap_or(100),
        };
        let recompress = recompress.or(store.config.reclaim_recompress);
        let order = reclaim::Order { is_dry, dead_percent, recompress };
        Ok(Response::new(report(outcomes::reclamation, move |listener| {
            reclaim::run(&store, order, listener)
        })))
    }

    async fn pools(
        &self,
        request: Request<proto::PoolsRequest>,
    ) -> Result<Response<proto::PoolsReply>, Status> {
        self.blocking(move |store| lists::pools(store, request.into_inner())).await
    }

    async fn put_pool(
        &self,
        request: Request<proto::PutPoolRequest>,
    ) -> Result<Response<proto::PoolInfo>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |store| {
            let info = match messages::pools::request(request)? {
                PoolRequest::Add(new) => pools::add(store, &new)?,
                PoolRequest::Change(change) => pools::change(store, &change)?,
            };
            Ok(messages::pools::pool(info))
        })
        .await
    }

    async fn remove_pool(
        &self,
        request: Request<proto::PoolsRequest>,
    ) -> Result<Response<proto::PoolInfo>, Status> {
        let name = request.into_inner().name;
        self.housekeeping(move |store| pools::remove(store, &name).map(messages::pools::pool))
            .await
    }

    type TendPoolStream = ReplyStream<proto::TendPoolReply>;

    async fn tend_pool(
        &self,
        request: Request<proto::TendPoolRequest>,
    ) -> Result<Response<Self::TendPoolStream>, Status> {
        use proto::tend_pool_request::Work;
        let store = self.house()?;
        let request = request.into_inner();
        let is_drain = request.work() == Work::Drain;
        let recompress = messages::recompression(request.recompress, is_drain);
        let recompress = recompress.map_err(refusal::status)?;
        Ok(Response::new(report(outcomes::tending, move |listener| match request.work() {
            Work::Copy => {
                if catalog_copy::goes_with_packs(&store)? {
                    catalog_copy::run(&store, catalog_copy::Order::default(), &mut |_| true)?;
                }
                pools::copy(&store, &request.pool, listener)
            }
            Work::Drain => match recompress {
                None => pools::drain(&store, &request.pool, request.all, listener),
                Some(effort) => {
                    pools::drain_anew(&store, &request.pool, request.all, effort, listener)
                }
            },
            Work::Repair => pools::repair(&store, None, listener),
            Work::Lock => object_lock::run(&store, listener),
            Work::Unspecified => Err(StoreError::usage("the request names no work")),
        })))
    }

    async fn libraries(
        &self,
        request: Request<proto::LibrariesRequest>,
    ) -> Result<Response<proto::LibrariesReply>, Status> {
        let request = request.into_inner();
        self.blocking(move |store| {
            let name = messages::name(&request.name);
            let libraries = store.volumes.libraries(name, request.inventory)?;
            let Section { items, next } = Portion::parse(request.portion).of_list(
                libraries,
                |library| library.row.name.clone().into(),
                messages::libraries::library,
            );
            Ok(proto::LibrariesReply { libraries: items, next })
        })
        .await
    }

    async fn put_library(
        &self,
        request: Request<proto::PutLibraryRequest>,
    ) -> Result<Response<proto::Library>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |store| {
            let info = if request.is_new {
                store.volumes.add_library(messages::libraries::new_library(request)?)?
            } else {
                let settings = messages::libraries::settings(&request);
                store.volumes.change_library(&request.name, settings)?
            };
            Ok(messages::libraries::library(info))
        })
        .await
    }

    async fn remove_library(
        &self,
        request: Request<proto::LibrariesRequest>,
    ) -> Result<Response<proto::Library>, Status> {
        let name = request.into_inner().name;
        self.housekeeping(move |store| {
            store.volumes.remove_library(&name).map(messages::libraries::library)
        })
        .await
    }

    async fn serve_library(
        &self,
        request: Request<proto::ServeLibraryRequest>,
    ) -> Result<Response<proto::Library>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |store| {
            let work = messages::libraries::work(request.work)?;
            let info = store.volumes.serve_library(&request.name, &work)?;
            Ok(messages::libraries::library(info))
        })
        .await
    }

    async fn volumes(
        &self,
        request: Request<proto::VolumesRequest>,
    ) -> Result<Response<proto::VolumesReply>, Status> {
        let mut request = request.into_inner();
        self.blocking(move |store| {
            let portion = Portion::parse(request.portion.take());
            let (from, limit) = (portion.first_volume()?, portion.read_max());
            let filter = messages::volumes::filter(request);
            let volumes = store.volumes.list(&filter, &from, limit)?;
            let volumes = volumes.into_iter().map(messages::volumes::volume).collect();
            let Section { items, next } = portion.cut(volumes, volume_key);
            Ok(proto::VolumesReply { volumes: items, next })
        })
        .await
    }

    type LabelVolumesStream = ReplyStream<proto::LabelVolumesReply>;

    async fn label_volumes(
        &self,
        request: Request<proto::LabelVolumesRequest>,
    ) -> Result<Response<Self::LabelVolumesStream>, Status> {
        let store = self.house()?;
        let order = messages::volumes::label_order(request.into_inner());
        Ok(Response::new(streaming(move |replies| {
            store.volumes.label_all(&order, &mut |report| {
                let reply = messages::volumes::label_report(report);
                replies.blocking_send(Ok(reply)).is_ok()
            })
        })))
    }

    async fn set_volume(
        &self,
        request: Request<proto::SetVolumeRequest>,
    ) -> Result<Response<proto::VolumeInfo>, Status> {
        let request = request.into_inner();
        self.housekeeping(move |store| {
            let change = messages::volumes::change(request.change)?;
            let library = messages::name(&request.library);
            let info = store.volumes.set(library, &request.volume, &change)?;
            Ok(messages::volumes::volume(info))
        })
        .await
    }

    type TendVolumesStream = ReplyStream<proto::TendPoolReply>;

    async fn tend_volumes(
        &self,
        request: Request<proto::TendVolumesRequest>,
    ) -> Result<Response<Self::TendVolumesStream>, Status> {
        let store = self.house()?;
        let work =
            messages::volumes::work(&store, request.into_inner()).map_err(refusal::status)?;
        Ok(Response::new(report(outcomes::tending, move |listener| {
            pools::tend_volumes(&store, &work, listener)
        })))
    }

    async fn tape_queue(
        &self,
        request: Request<proto::TapeQueueRequest>,
    ) -> Result<Response<proto::TapeQueueReply>, Status> {
        let proto::TapeQueueRequest { cancel, portion } = request.into_inner();
        self.housekeeping(move |store| {
            let waits = store.volumes.queue(messages::positive(cancel))?;
            let Section { items, next } = Portion::parse(portion).of_list(
                waits,
                |wait| number_key(wait.number),
                messages::queue::wait,
            );
            Ok(proto::TapeQueueReply { waits: items, next })
        })
        .await
    }

    async fn catalog_copies(
        &self,
        request: Request<proto::CatalogCopiesRequest>,
    ) -> Result<Response<proto::CatalogCopiesReply>, Status> {
        let portion = Portion::parse(request.into_inner().portion);
        self.blocking(move |store| {
            // The newest copy comes first.
            let Section { items, next } = portion.of_list(
                catalog_copy::list(store)?,
                |copy| number_key(u64::MAX - copy.number),
                messages::copies::copy,
            );
            Ok(proto::CatalogCopiesReply { copies: items, next })
        })
        .await
    }

    type CopyCatalogStream = ReplyStream<proto::CopyCatalogReply>;

    async fn copy_catalog(
        &self,
        request: Request<proto::CopyCatalogRequest>,
    ) -> Result<Response<Self::CopyCatalogStream>, Status> {
        let store = self.house()?;
        let accepts_shrinking = request.into_inner().accepts_shrinking;
        let order = catalog_copy::Order { accepts_shrinking };
        Ok(Response::new(report(messages::copies::outcome, move |listener| {
            catalog_copy::run(&store, order, listener)
        })))
    }

    async fn option_sets(
        &self,
        request: Request<proto::OptionSetsRequest>,
    ) -> Result<Response<proto::OptionSetsReply>, Status> {
        let sight = option_set_sight(&request);
        let request = request.into_inner();
        self.blocking(move |store| lists::option_sets(store, request, sight)).await
    }

    async fn put_option_set(
        &self,
        request: Request<proto::OptionSet>,
    ) -> Result<Response<proto::OptionSet>, Status> {
        let actor = actor(&request);
        let proto::OptionSet { name, text, .. } = request.into_inner();
        self.changing(move |store| {
            let change = OptionSetChange { text: Some(text.to_vec()), ..Default::default() };
            let put = option_sets::change(store, &name, Mode::Put, change, &actor, false)?;
            Ok(messages::option_sets::of_node(Some((put.name, put.after))))
        })
        .await
    }

    async fn remove_option_set(
        &self,
        request: Request<proto::OptionSet>,
    ) -> Result<Response<proto::OptionSet>, Status> {
        let actor = actor(&request);
        let set = request.into_inner();
        self.changing(move |store| {
            option_sets::remove(store, &set.name, &actor)?;
            Ok(set)
        })
        .await
    }

    async fn option_set_uses(
        &self,
        request: Request<proto::OptionSetsRequest>,
    ) -> Result<Response<proto::OptionSetUsesReply>, Status> {
        let sight = option_set_sight(&request);
        let request = request.into_inner();
        self.blocking(move |store| lists::option_set_uses(store, request, sight)).await
    }

    async fn option_set_versions(
        &self,
        request: Request<proto::OptionSetsRequest>,
    ) -> Result<Response<proto::OptionSetVersionsReply>, Status> {
        let sight = option_set_sight(&request);
        let request = request.into_inner();
        self.blocking(move |store| lists::option_set_versions(store, request, sight))
            .await
    }

    async fn change_option_set(
        &self,
        request: Request<proto::ChangeOptionSetRequest>,
    ) -> Result<Response<proto::ChangeOptionSetReply>, Status> {
        let actor = actor(&request);
        let request = request.into_inner();
        self.changing(move |store| {
            let (name, is_dry) = (request.name.clone(), request.dry_run);
            let mode = if request.is_new { Mode::Define } else { Mode::Update };
            let change = messages::option_sets::change(request)?;
            option_sets::change(store, &name, mode, change, &actor, is_dry)
                .map(messages::option_sets::report)
        })
        .await
    }

    async fn end_option_set_stage(
        &self,
        request: Request<proto::EndOptionSetStageRequest>,
    ) -> Result<Response<proto::ChangeOptionSetReply>, Status> {
        let actor = actor(&request);
        let proto::EndOptionSetStageRequest { name, promote } = request.into_inner();
        self.changing(move |store| {
            option_sets::end_stage(store, &name, promote, &actor).map(messages::option_sets::report)
        })
        .await
    }

    async fn servers(
        &self,
        request: Request<proto::ServersRequest>,
    ) -> Result<Response<proto::ServersReply>, Status> {
        let portion = Portion::parse(request.into_inner().portion);
        self.blocking(move |store| {
            let own = Health::of(store);
            let Section { items, next } = portion.of_list(
                store.servers(),
                |server| format!("{}\0{:020}", server.address, server.started.0).into(),
                |server| messages::servers::server(server, &own),
            );
            Ok(proto::ServersReply { servers: items, next })
        })
        .await
    }

    async fn events(
        &self,
        request: Request<proto::EventsRequest>,
    ) -> Result<Response<proto::EventsReply>, Status> {
        let proto::EventsRequest { portion, filter } = request.into_inner();
        let (portion, filter) = (Portion::parse(portion), messages::log::filter(filter));
        self.blocking(move |store| {
            let (first, limits) = (portion.first_number()?, (portion.read_max(), usize::MAX));
            let found = audit_trail::list(store, &filter, first, limits)?;
            let events = found.events.into_iter().map(messages::log::event).collect();
            let Section { items, next } =
                portion.cut(events, |event: &proto::Event| number_key(event.number));
            Ok(proto::EventsReply { events: items, next, is_filtered: true })
        })
        .await
    }

    async fn schedules(
        &self,
        request: Request<proto::SchedulesRequest>,
    ) -> Result<Response<proto::SchedulesReply>, Status> {
        let sight = schedule_sight(&request);
        let request = request.into_inner();
        self.blocking(move |store| schedules::list(store, request, sight)).await
    }

    async fn put_schedule(
        &self,
        request: Request<proto::PutScheduleRequest>,
    ) -> Result<Response<proto::Schedule>, Status> {
        let changer = changer(&request);
        let request = request.into_inner();
        self.changing(move |store| schedules::put(store, &request, &changer)).await
    }

    async fn remove_schedule(
        &self,
        request: Request<proto::SchedulesRequest>,
    ) -> Result<Response<proto::Schedule>, Status> {
        let changer = changer(&request);
        let name = request.into_inner().name;
        self.changing(move |store| schedules::remove(store, &name, &changer)).await
    }

    async fn follow_schedule(
        &self,
        request: Request<proto::FollowScheduleRequest>,
    ) -> Result<Response<proto::Schedule>, Status> {
        let changer = changer(&request);
        let request = request.into_inner();
        self.changing(move |store| schedules::follow(store, request, &changer)).await
    }

    async fn run_action(
        &self,
        request: Request<proto::RunActionRequest>,
    ) -> Result<Response<proto::RunActionReply>, Status> {
        let (actor, found) = (actor(&request), found_nodes(&request));
        let request = request.into_inner();
        self.changing(move |store| schedules::run(store, request, (found.as_ref(), &actor)))
            .await
    }

    async fn scheduled_events(
        &self,
        request: Request<proto::ScheduledEventsRequest>,
    ) -> Result<Response<proto::ScheduledEventsReply>, Status> {
        let (sight, numbering) = (sight(&request), numbering(&request));
        let request = request.into_inner();
        self.blocking(move |store| schedules::events(store, request, (sight.as_ref(), &numbering)))
            .await
    }

    async fn scheduled_event_log(
        &self,
        request: Request<proto::ScheduledEventLogRequest>,
    ) -> Result<Response<proto::ScheduledEventLogReply>, Status> {
        let numbering = numbering(&request);
        let request = request.into_inner();
        self.blocking(move |store| schedules::event_log(store, &request, &numbering))
            .await
    }

    async fn control_events(
        &self,
        request: Request<proto::ControlEventsRequest>,
    ) -> Result<Response<proto::ControlEventsReply>, Status> {
        let (actor, found) = (actor(&request), found_nodes(&request));
        let request = request.into_inner();
        self.changing(move |store| schedules::control(store, &request, (found.as_ref(), &actor)))
            .await
    }

    type StatsStream = ReplyStream<proto::StatsReply>;

    async fn stats(
        &self,
        request: Request<proto::StatsRequest>,
    ) -> Result<Response<Self::StatsStream>, Status> {
        let (store, found) = (Arc::clone(&self.edge.store), found_nodes(&request));
        let name = request.into_inner().node;
        Ok(Response::new(streaming(move |replies| {
            let nodes = match messages::name(&name) {
                Some(name) => vec![find_node(&store, name, found.as_ref())?],
                None => store.catalog.nodes()?,
            };
            usage::send(&store, &nodes, replies)
        })))
    }

    type NodeVersionsStream = ReplyStream<proto::VersionsReply>;

    async fn node_versions(
        &self,
        request: Request<proto::NodeVersionsRequest>,
    ) -> Result<Response<Self::NodeVersionsStream>, Status> {
        let (store, found) = (Arc::clone(&self.edge.store), found_nodes(&request));
        let request = request.into_inner();
        Ok(Response::new(streaming(move |replies| {
            nodes::versions(&store, &request, found.as_ref(), replies)
        })))
    }

    type VolumeVersionsStream = ReplyStream<proto::VersionsReply>;

    async fn volume_versions(
        &self,
        request: Request<proto::VolumeVersionsRequest>,
    ) -> Result<Response<Self::VolumeVersionsStream>, Status> {
        let (store, request) = (Arc::clone(&self.edge.store), request.into_inner());
        Ok(Response::new(streaming(move |replies| {
            nodes::volume_versions(&store, &request, replies)
        })))
    }

    async fn node_archives(
        &self,
        request: Request<proto::NodeArchivesRequest>,
    ) -> Result<Response<proto::ArchivesReply>, Status> {
        let found = found_nodes(&request);
        let request = request.into_inner();
        self.blocking(move |store| nodes::archives(store, request, found.as_ref()))
            .await
    }

    async fn finished_backups(
        &self,
        request: Request<proto::FinishedBackupsRequest>,
    ) -> Result<Response<proto::FinishedBackupsReply>, Status> {
        self.blocking(move |store| backups::finished(store, request.into_inner())).await
    }

    async fn finished_archives(
        &self,
        request: Request<proto::FinishedTransfersRequest>,
    ) -> Result<Response<proto::FinishedTransfersReply>, Status> {
        self.blocking(move |store| transfers::archives(store, request.into_inner()))
            .await
    }

    async fn finished_restores(
        &self,
        request: Request<proto::FinishedTransfersRequest>,
    ) -> Result<Response<proto::FinishedTransfersReply>, Status> {
        self.blocking(move |store| transfers::restores(store, request.into_inner()))
            .await
    }

    async fn task_runs(
        &self,
        request: Request<proto::TaskRunsRequest>,
    ) -> Result<Response<proto::TaskRunsReply>, Status> {
        let portion = Portion::parse(request.into_inner().portion);
        self.blocking(move |store| tasks::runs(store, &portion)).await
    }
}
