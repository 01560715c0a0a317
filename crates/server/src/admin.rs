//! Administration, over the socket in the server's folder: whoever may open it may do everything.

use std::sync::Arc;

use catalog::{CatalogError, Node, TokenRow};
use model::{NodeName, ServerTime};
use tonic::{Request, Response, Status};
use wire::proto;
use wire::proto::admin_server::Admin;

use crate::core::Core;
use crate::enrol::token_hash;
use crate::node::describe_filespaces;
use crate::refusal;

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
            if !described.filespaces.is_empty() && !request.with_data {
                return Err(Status::failed_precondition(format!(
                    "node {} has {} filespaces with backups; remove them too with --with-data",
                    node.name,
                    described.filespaces.len()
                )));
            }
            core.catalog.remove_node(node.id).map_err(|error| refusal::catalog(&error))?;
            tracing::info!(node = %node.name, "node removed");
            Ok(described)
        })
        .await
    }
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
        filespaces: describe_filespaces(core, node)?,
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
