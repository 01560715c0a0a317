//! Administration over the socket in the server's folder.

use std::path::Path;

use tokio::runtime::Runtime;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use wire::proto;
use wire::proto::admin_client::AdminClient;

pub use wire::proto::edit_policy_request::Edit;
pub use wire::proto::serve_library_request::Work as LibraryWork;
pub use wire::proto::set_volume_request::Change as VolumeChange;
pub use wire::proto::tend_pool_request::Work;
pub use wire::proto::tend_volumes_request::Work as VolumeWork;
use wire::proto::{ActivatePolicyRequest, DomainRequest, EditPolicyRequest};
pub use wire::proto::{
    AddNodeReply, ArchiveCopyGroup, AuditReply, AuditRequest, BackupCopyGroup, CatalogCopy,
    CopyCatalogReply, Domain, Event, ExpireReply, ExpireRequest, GraceDays, LabelVolumesReply,
    LabelVolumesRequest, Library, LibraryDrive, LibraryElement, ManagementClass, NodeInfo,
    OptionSet, PolicyDifference, PolicyReview, PolicySet, PoolInfo, PutLibraryRequest,
    PutPoolRequest, ReclaimReply, ReclaimRequest, RemoveGroup, Server, SetNodeRequest,
    SetVolumeRequest, TapeWait, TaskEnd, TaskRun, TendPoolReply, TendPoolRequest,
    TendVolumesRequest, VolumeInfo, VolumesRequest,
};

use crate::{ClientError, ErrorKind};

/// A connection to a server's administration socket.
pub struct Admin {
    runtime: Runtime,
    client: AdminClient<Channel>,
}

impl Admin {
    /// Connects to the socket `socket_name` of the server in `folder`, which must be running.
    pub fn connect(folder: &Path, socket_name: &'static str) -> Result<Self, ClientError> {
        let runtime = crate::link::runtime()?;
        let folder = folder.to_owned();
        let refused = |folder: &Path, error: &dyn std::fmt::Display| {
            let message = format!("cannot reach the server in {}: {error}", folder.display());
            ClientError::new(ErrorKind::Retry, message)
        };
        let connect_folder = folder.clone();
        let connector = tower::service_fn(move |_| {
            let folder = connect_folder.clone();
            async move {
                let stream = sys::net::connect_unix(&folder, socket_name)?;
                let stream = tokio::net::UnixStream::from_std(stream)?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        });
        // The socket is asked first: its error says more than the transport's.
        sys::net::connect_unix(&folder, socket_name).map_err(|error| refused(&folder, &error))?;
        let endpoint = Endpoint::from_static("http://admin.holdfast.internal");
        let channel = runtime
            .block_on(endpoint.connect_with_connector(connector))
            .map_err(|error| refused(&folder, &error))?;
        Ok(Self { runtime, client: AdminClient::new(channel) })
    }

    /// Registers a node, or gives one that exists a new token; `lifetime_secs` 0 is the default.
    pub fn add_node(
        &mut self,
        name: &str,
        domain: &str,
        lifetime_secs: i64,
        again: bool,
    ) -> Result<AddNodeReply, ClientError> {
        let request = proto::AddNodeRequest {
            name: name.to_owned(),
            domain: domain.to_owned(),
            token_lifetime_secs: lifetime_secs,
            again,
        };
        let reply = self.runtime.block_on(self.client.add_node(request))?;
        Ok(reply.into_inner())
    }

    /// One node, or all.
    pub fn nodes(&mut self, name: Option<&str>) -> Result<Vec<NodeInfo>, ClientError> {
        let request = proto::ListNodesRequest { name: name.unwrap_or_default().to_owned() };
        let reply = self.runtime.block_on(self.client.list_nodes(request))?;
        Ok(reply.into_inner().nodes)
    }

    /// Changes of the node `request.name` what the request says.
    pub fn set_node(&mut self, request: SetNodeRequest) -> Result<NodeInfo, ClientError> {
        let reply = self.runtime.block_on(self.client.set_node(request))?;
        Ok(reply.into_inner())
    }

    /// Removes a node; with its backups only when `with_data` says so.
    pub fn remove_node(&mut self, name: &str, with_data: bool) -> Result<NodeInfo, ClientError> {
        let request = proto::RemoveNodeRequest { name: name.to_owned(), with_data };
        let reply = self.runtime.block_on(self.client.remove_node(request))?;
        Ok(reply.into_inner())
    }

    /// One policy domain, or all.
    pub fn domains(&mut self, name: Option<&str>) -> Result<Vec<Domain>, ClientError> {
        let request = proto::DomainsRequest { name: name.unwrap_or_default().to_owned() };
        let reply = self.runtime.block_on(self.client.domains(request))?;
        Ok(reply.into_inner().domains)
    }

    pub fn add_domain(&mut self, name: &str) -> Result<Domain, ClientError> {
        let request = DomainRequest { name: name.to_owned() };
        Ok(self.runtime.block_on(self.client.add_domain(request))?.into_inner())
    }

    pub fn remove_domain(&mut self, name: &str) -> Result<Domain, ClientError> {
        let request = DomainRequest { name: name.to_owned() };
        Ok(self.runtime.block_on(self.client.remove_domain(request))?.into_inner())
    }

    /// Changes the draft of the domain's policy; makes one of the active set where there is none.
    pub fn edit_policy(&mut self, domain: &str, edit: Edit) -> Result<PolicyReview, ClientError> {
        let request = EditPolicyRequest { domain: domain.to_owned(), edit: Some(edit) };
        Ok(self.runtime.block_on(self.client.edit_policy(request))?.into_inner())
    }

    /// How the domain's draft differs from what is active.
    pub fn review_policy(&mut self, domain: &str) -> Result<PolicyReview, ClientError> {
        let request = DomainRequest { name: domain.to_owned() };
        Ok(self.runtime.block_on(self.client.review_policy(request))?.into_inner())
    }

    /// What would expire if the domain's draft were active; `visit` hears how it goes.
    pub fn simulate_policy(
        &mut self,
        domain: &str,
        visit: &mut dyn FnMut(&ExpireReply),
    ) -> Result<ExpireReply, ClientError> {
        let request = DomainRequest { name: domain.to_owned() };
        let stream = self.runtime.block_on(self.client.simulate_policy(request))?.into_inner();
        self.hear(stream, visit)
    }

    pub fn activate_policy(
        &mut self,
        domain: &str,
        confirm: bool,
    ) -> Result<PolicyReview, ClientError> {
        let request = ActivatePolicyRequest { domain: domain.to_owned(), confirm };
        Ok(self.runtime.block_on(self.client.activate_policy(request))?.into_inner())
    }

    /// Drops what policy no longer keeps; `visit` hears how it goes. Ends early with this process.
    pub fn expire(
        &mut self,
        request: ExpireRequest,
        visit: &mut dyn FnMut(&ExpireReply),
    ) -> Result<ExpireReply, ClientError> {
        let stream = self.runtime.block_on(self.client.expire(request))?.into_inner();
        self.hear(stream, visit)
    }

    /// Reads the pools and compares; `visit` hears how it goes. Ends early with this process.
    pub fn audit(
        &mut self,
        request: AuditRequest,
        visit: &mut dyn FnMut(&AuditReply),
    ) -> Result<AuditReply, ClientError> {
        let stream = self.runtime.block_on(self.client.audit(request))?.into_inner();
        self.hear(stream, visit)
    }

    /// Frees the space of what nothing names any more; `visit` hears how it goes. Ends early with
    /// this process.
    pub fn reclaim(
        &mut self,
        request: ReclaimRequest,
        visit: &mut dyn FnMut(&ReclaimReply),
    ) -> Result<ReclaimReply, ClientError> {
        let stream = self.runtime.block_on(self.client.reclaim(request))?.into_inner();
        self.hear(stream, visit)
    }

    /// One pool, or all.
    pub fn pools(&mut self, name: Option<&str>) -> Result<Vec<PoolInfo>, ClientError> {
        let request = proto::PoolsRequest { name: name.unwrap_or_default().to_owned() };
        Ok(self.runtime.block_on(self.client.pools(request))?.into_inner().pools)
    }

    /// Makes a pool, or changes of one what the request says.
    pub fn put_pool(&mut self, request: PutPoolRequest) -> Result<PoolInfo, ClientError> {
        Ok(self.runtime.block_on(self.client.put_pool(request))?.into_inner())
    }

    pub fn remove_pool(&mut self, name: &str) -> Result<PoolInfo, ClientError> {
        let request = proto::PoolsRequest { name: name.to_owned() };
        Ok(self.runtime.block_on(self.client.remove_pool(request))?.into_inner())
    }

    /// Copies, moves or repairs packs; `visit` hears how it goes. Ends early with this process.
    pub fn tend_pool(
        &mut self,
        request: TendPoolRequest,
        visit: &mut dyn FnMut(&TendPoolReply),
    ) -> Result<TendPoolReply, ClientError> {
        let stream = self.runtime.block_on(self.client.tend_pool(request))?.into_inner();
        self.hear(stream, visit)
    }

    /// One library, or all; with `inventory` the changers are asked what is where.
    pub fn libraries(
        &mut self,
        name: Option<&str>,
        inventory: bool,
    ) -> Result<Vec<Library>, ClientError> {
        let name = name.unwrap_or_default().to_owned();
        let request = proto::LibrariesRequest { name, inventory };
        Ok(self.runtime.block_on(self.client.libraries(request))?.into_inner().libraries)
    }

    /// Makes a library, or changes of one what the request says.
    pub fn put_library(&mut self, request: PutLibraryRequest) -> Result<Library, ClientError> {
        Ok(self.runtime.block_on(self.client.put_library(request))?.into_inner())
    }

    pub fn remove_library(&mut self, name: &str) -> Result<Library, ClientError> {
        let request = proto::LibrariesRequest { name: name.to_owned(), inventory: false };
        Ok(self.runtime.block_on(self.client.remove_library(request))?.into_inner())
    }

    /// Has a library do what a person asks of it; returns when it is done.
    pub fn serve_library(&mut self, name: &str, work: LibraryWork) -> Result<Library, ClientError> {
        let request = proto::ServeLibraryRequest { name: name.to_owned(), work: Some(work) };
        Ok(self.runtime.block_on(self.client.serve_library(request))?.into_inner())
    }

    /// The volumes that the request selects.
    pub fn volumes(&mut self, request: VolumesRequest) -> Result<Vec<VolumeInfo>, ClientError> {
        Ok(self.runtime.block_on(self.client.volumes(request))?.into_inner().volumes)
    }

    /// Labels volumes; `visit` hears of each what became of it. Ends early with this process.
    pub fn label_volumes(
        &mut self,
        request: LabelVolumesRequest,
        visit: &mut dyn FnMut(&LabelVolumesReply),
    ) -> Result<(), ClientError> {
        let mut stream = self.runtime.block_on(self.client.label_volumes(request))?.into_inner();
        while let Some(reply) = self.runtime.block_on(stream.message())? {
            visit(&reply);
        }
        Ok(())
    }

    /// Changes of one volume what the request says.
    pub fn set_volume(&mut self, request: SetVolumeRequest) -> Result<VolumeInfo, ClientError> {
        Ok(self.runtime.block_on(self.client.set_volume(request))?.into_inner())
    }

    /// Empties or reads volumes; `visit` hears how it goes. Ends early with this process.
    pub fn tend_volumes(
        &mut self,
        request: TendVolumesRequest,
        visit: &mut dyn FnMut(&TendPoolReply),
    ) -> Result<TendPoolReply, ClientError> {
        let stream = self.runtime.block_on(self.client.tend_volumes(request))?.into_inner();
        self.hear(stream, visit)
    }

    /// Who waits for packs on volumes; first sends away who waits under the number `cancel`.
    pub fn tape_queue(&mut self, cancel: Option<u64>) -> Result<Vec<TapeWait>, ClientError> {
        let request = proto::TapeQueueRequest { cancel: cancel.unwrap_or(0) };
        Ok(self.runtime.block_on(self.client.tape_queue(request))?.into_inner().waits)
    }

    /// The copies of the catalogue, the newest first.
    pub fn catalog_copies(&mut self) -> Result<Vec<CatalogCopy>, ClientError> {
        let request = proto::CatalogCopiesRequest {};
        Ok(self.runtime.block_on(self.client.catalog_copies(request))?.into_inner().copies)
    }

    /// Copies the catalogue to the pools; `visit` hears how it goes. Ends early with this process.
    pub fn copy_catalog(
        &mut self,
        visit: &mut dyn FnMut(&CopyCatalogReply),
    ) -> Result<CopyCatalogReply, ClientError> {
        let request = proto::CopyCatalogRequest {};
        let stream = self.runtime.block_on(self.client.copy_catalog(request))?.into_inner();
        self.hear(stream, visit)
    }

    /// Hears the server out.
    fn hear<R: Told>(
        &self,
        mut stream: Streaming<R>,
        visit: &mut dyn FnMut(&R),
    ) -> Result<R, ClientError> {
        while let Some(reply) = self.runtime.block_on(stream.message())? {
            if reply.is_last() {
                return Ok(reply);
            }
            visit(&reply);
        }
        Err(ClientError::new(ErrorKind::Retry, "the server ended before it was done"))
    }

    /// One option set, or all.
    pub fn option_sets(&mut self, name: Option<&str>) -> Result<Vec<OptionSet>, ClientError> {
        let request = proto::OptionSetsRequest { name: name.unwrap_or_default().to_owned() };
        let reply = self.runtime.block_on(self.client.option_sets(request))?;
        Ok(reply.into_inner().sets)
    }

    pub fn put_option_set(&mut self, set: OptionSet) -> Result<(), ClientError> {
        self.runtime.block_on(self.client.put_option_set(set))?;
        Ok(())
    }

    pub fn remove_option_set(&mut self, name: &str) -> Result<(), ClientError> {
        let set = OptionSet { name: name.to_owned(), text: bytes::Bytes::new() };
        self.runtime.block_on(self.client.remove_option_set(set))?;
        Ok(())
    }

    /// What has been done, newest first, at most `limit`.
    pub fn events(&mut self, limit: u32) -> Result<Vec<Event>, ClientError> {
        let request = proto::EventsRequest { limit };
        Ok(self.runtime.block_on(self.client.events(request))?.into_inner().events)
    }

    /// What servers have done by themselves, what began last first.
    pub fn task_runs(&mut self, limit: u32) -> Result<Vec<TaskRun>, ClientError> {
        let request = proto::TaskRunsRequest { limit };
        Ok(self.runtime.block_on(self.client.task_runs(request))?.into_inner().runs)
    }

    /// The servers of the catalogue, as the one that is asked hears of them.
    pub fn servers(&mut self) -> Result<Vec<Server>, ClientError> {
        let request = proto::ServersRequest {};
        Ok(self.runtime.block_on(self.client.servers(request))?.into_inner().servers)
    }
}

/// How something goes that takes a while; the last one is what came of it.
trait Told {
    fn is_last(&self) -> bool;
}

macro_rules! told {
    ($($reply:ty),*) => {
        $(impl Told for $reply {
            fn is_last(&self) -> bool {
                self.is_last
            }
        })*
    };
}

told!(AuditReply, CopyCatalogReply, ExpireReply, ReclaimReply, TendPoolReply);
