//! The server as the service above it sees it: the store, and what only the network edge knows.

use std::sync::Arc;

use catalog::Node;
use model::{NodeId, ServerTime};
use store::nodes::{self, NewNode, NodeOrder, NodeSummary};
use store::{Store, StoreError, schedules};
use tokio::sync::watch;
use tonic::service::Routes;
use wire::TokenKind;
use wire::proto::admin_server::AdminServer;

use crate::activities::Activity;
use crate::admin::AdminApi;
use crate::admin::keys::{self, EnrolmentKey, FoundKey, NewEnrolmentKey};
use crate::authority::{AuthorityError, Identity};
use crate::edge::Edge;
use crate::identities::ConnectedNode;

/// Access to a running server.
#[derive(Clone)]
pub struct Office {
    edge: Arc<Edge>,
}

/// A registered node, with the text of its token.
pub struct Registration {
    pub summary: NodeSummary,
    pub token: String,
    /// End of the token.
    pub expires: ServerTime,
}

impl Office {
    pub(crate) fn new(edge: Arc<Edge>) -> Self {
        Self { edge }
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.edge.store
    }

    /// Returns the signal to stop the server.
    pub fn stop(&self) -> watch::Receiver<bool> {
        self.edge.stop.clone()
    }

    /// Returns the certificate of the server's authority, in PEM.
    pub fn ca_pem(&self) -> &str {
        self.edge.authority.ca_pem()
    }

    /// Makes a key and a certificate for a listener that clients know by `names`, which are names
    /// of hosts and addresses.
    pub fn identity(&self, names: &[String]) -> Result<Identity, AuthorityError> {
        self.edge.authority.identity_of(names, sys::clock::system())
    }

    /// Returns the calls of the administrator's service. Their server checks who makes them, and
    /// puts an [`Actor`](crate::Actor) into the extensions of each request.
    pub fn operations(&self) -> axum::Router {
        let service = AdminServer::new(AdminApi { edge: Arc::clone(&self.edge) });
        // The service beside these calls answers for paths that nobody has.
        Routes::new(service).into_axum_router().reset_fallback()
    }

    /// Registers a node and makes a token for it.
    pub fn add_node(&self, new: &NewNode, actor: &str) -> Result<Registration, StoreError> {
        let added = nodes::add(&self.edge.store, new, actor)?;
        let token = self.edge.authority.token(TokenKind::Node, added.secret);
        Ok(Registration { summary: added.summary, token, expires: added.expires })
    }

    /// Changes a node that was `found`. Locking it ends its sessions at once. Agents learn of
    /// changed schedules.
    pub fn change_node(
        &self,
        found: &Node,
        order: &NodeOrder,
        actor: &str,
    ) -> Result<NodeSummary, StoreError> {
        let changed = self.edge.change_node(found, order, actor)?;
        self.announce()?;
        Ok(changed)
    }

    /// Removes a node that was `found`, and ends its sessions. A node with data is removed only
    /// `with_data`.
    pub fn remove_node(
        &self,
        found: &Node,
        with_data: bool,
        actor: &str,
    ) -> Result<NodeSummary, StoreError> {
        self.edge.remove_node(found, with_data, actor)
    }

    /// Ends all certificates of a node, its unused token and its sessions. Returns the number of
    /// certificates.
    pub fn revoke_node(&self, node: &Node, actor: &str) -> Result<u64, StoreError> {
        self.edge.revoke_node(node, actor)
    }

    /// Makes an enrolment key, and returns it with its text.
    pub fn add_enrolment_key(
        &self,
        new: NewEnrolmentKey,
        actor: &str,
    ) -> Result<(EnrolmentKey, String), StoreError> {
        keys::make(&self.edge, new, actor)
    }

    /// Returns all enrolment keys, by name.
    pub fn enrolment_keys(&self) -> Result<Vec<EnrolmentKey>, StoreError> {
        keys::all(&self.edge.store)
    }

    /// Ends an enrolment key, unless its name is that of another one by now. The nodes that it has
    /// enrolled stay.
    pub fn revoke_enrolment_key(
        &self,
        name: &str,
        found: FoundKey,
        actor: &str,
    ) -> Result<EnrolmentKey, StoreError> {
        keys::end(&self.edge.store, name, Some(found), actor)
    }

    /// Lets agents learn of changed schedules at once.
    pub fn announce(&self) -> Result<(), StoreError> {
        self.edge.attendances.announce(schedules::generation(&self.edge.store)?);
        Ok(())
    }

    /// Returns the nodes that are connected to this server, by number.
    pub fn connected(&self) -> Vec<ConnectedNode> {
        self.edge.identities.connected()
    }

    /// Returns the work of nodes that is under way at this server, in the order in which it began.
    pub fn activities(&self) -> Vec<Activity> {
        self.edge.activities.list()
    }

    /// Ends all connections of a node. Its programs connect again by themselves.
    pub fn cut(&self, node: NodeId) {
        self.edge.identities.cut(node);
    }
}
