//! Registered nodes and their tokens.

use std::time::Duration;

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use super::optional::{self, NameChange, unreadable};
use super::schedules::next_call;
use crate::link::portions::{self, Section};
use crate::{ClientError, FilespaceSummary, LastDrills};

/// A registered node.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Node {
    pub name: String,
    pub domain: String,
    /// True while the server refuses the node's sessions.
    pub is_locked: bool,
    pub is_enrolled: bool,
    pub registered: ServerTime,
    pub option_set: Option<String>,
    /// Version of the option set; 0 without one.
    pub option_set_version: u64,
    pub collocation_group: Option<String>,
    /// True if the node may delete its backups.
    pub deletes_backups: bool,
    /// True if the node may delete its archives.
    pub deletes_archives: bool,
    pub labels: Vec<String>,
    pub filespaces: Vec<FilespaceSummary>,
    /// Last restore drills; `None` from an older server.
    pub drills: Option<LastDrills>,
    /// True while the node's agent is connected; `None` from an older server.
    pub has_agent: Option<bool>,
    /// Time at which the node's agent was connected last, if it polls and calls in time.
    pub agent_polled: Option<ServerTime>,
    /// Time of that agent's next call at the latest; `None` from an older server.
    pub agent_next_poll: Option<ServerTime>,
    /// Last contact of a program of the node with a server; `None` if there was none.
    pub last_contact: Option<NodeContact>,
}

/// The last time at which a program of a node has greeted a server, and from where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeContact {
    pub at: ServerTime,
    pub address: String,
    /// Name of the machine, as the program has given it; empty if it has given none.
    pub host: String,
}

impl From<proto::NodeInfo> for Node {
    fn from(message: proto::NodeInfo) -> Self {
        let filespace = |filespace: proto::Filespace| FilespaceSummary {
            name: filespace.name.to_vec(),
            active_objects: filespace.active_objects,
            last_backup: optional::time(filespace.last_backup),
            id: (filespace.id != 0).then_some(filespace.id),
        };
        let minutes = Some(message.agent_poll_minutes).filter(|minutes| *minutes > 0);
        let next_poll = |last| minutes.map(|minutes| next_call(ServerTime(last), minutes));
        Self {
            name: message.name,
            domain: message.domain,
            is_locked: message.locked,
            is_enrolled: message.enrolled,
            registered: ServerTime(message.registered),
            option_set: optional::text(message.option_set),
            option_set_version: message.option_set_version,
            collocation_group: optional::text(message.collocation_group),
            deletes_backups: message.deletes_backups,
            deletes_archives: message.deletes_archives,
            labels: message.labels,
            filespaces: message.filespaces.into_iter().map(filespace).collect(),
            drills: message.drills.map(LastDrills::from),
            has_agent: message.has_agent,
            agent_polled: message.agent_polled.map(ServerTime),
            agent_next_poll: message.agent_polled.and_then(next_poll),
            last_contact: message.last_contact.map(|proto::NodeContact { at, address, host }| {
                NodeContact { at: ServerTime(at), address, host }
            }),
        }
    }
}

/// A node to register.
#[derive(Clone, Debug, Default)]
pub struct NodeRegistration {
    pub name: String,
    /// Policy domain; `None` for the standard domain.
    pub domain: Option<String>,
    /// Time until the token expires; `None` for the server's default.
    pub token_lifetime: Option<Duration>,
    /// True to issue a new token to a node that is registered already.
    pub again: bool,
    /// Password that stands for the token; empty for none.
    pub password: String,
}

/// A token that enrols a node once.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    pub node: String,
    pub token: String,
    pub expires: ServerTime,
}

/// A node whose certificates have ended.
#[derive(Clone, Debug)]
pub struct Revocation {
    pub node: Node,
    /// Number of certificates that could still be used.
    pub certificates: u64,
}

/// Changes of a node; `None` leaves a property as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeChange {
    pub is_locked: Option<bool>,
    pub new_name: Option<String>,
    pub domain: Option<String>,
    pub option_set: Option<NameChange>,
    pub collocation_group: Option<NameChange>,
    pub deletes_backups: Option<bool>,
    pub deletes_archives: Option<bool>,
    pub added_labels: Vec<String>,
    pub removed_labels: Vec<String>,
}

impl Admin {
    /// Registers a node, or issues another token to a registered node.
    pub fn add_node(&mut self, node: NodeRegistration) -> Result<IssuedToken, ClientError> {
        let lifetime_secs = node.token_lifetime.map_or(0, |lifetime| lifetime.as_secs());
        let request = proto::AddNodeRequest {
            name: node.name,
            domain: node.domain.unwrap_or_default(),
            token_lifetime_secs: i64::try_from(lifetime_secs).unwrap_or(i64::MAX),
            again: node.again,
            password: node.password,
        };
        let reply = self.call(async |server| server.add_node(request).await)?;
        let node = reply.node.ok_or_else(|| unreadable("the node"))?;
        Ok(IssuedToken { node: node.name, token: reply.token, expires: ServerTime(reply.expires) })
    }

    /// Lists one node, or all nodes.
    pub fn nodes(&mut self, name: Option<&str>) -> Result<Vec<Node>, ClientError> {
        let nodes = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::ListNodesRequest { name, portion: Some(portion) };
            let reply = self.call(async |server| server.list_nodes(request).await)?;
            Ok(Section { items: reply.nodes, next: reply.next })
        })?;
        Ok(nodes.into_iter().map(Node::from).collect())
    }

    pub fn set_node(&mut self, name: &str, change: NodeChange) -> Result<Node, ClientError> {
        let request = proto::SetNodeRequest {
            name: name.to_owned(),
            locked: change.is_locked,
            new_name: change.new_name,
            domain: change.domain,
            option_set: change.option_set.map(String::from),
            collocation_group: change.collocation_group.map(String::from),
            deletes_backups: change.deletes_backups,
            deletes_archives: change.deletes_archives,
            added_labels: change.added_labels,
            removed_labels: change.removed_labels,
        };
        Ok(self.call(async |server| server.set_node(request).await)?.into())
    }

    /// Ends the certificates and the unused token of a node.
    pub fn revoke_node(&mut self, name: &str) -> Result<Revocation, ClientError> {
        let request = proto::RevokeNodeRequest { name: name.to_owned() };
        let reply = self.call(async |server| server.revoke_node(request).await)?;
        let node = reply.node.ok_or_else(|| unreadable("the node"))?;
        Ok(Revocation { node: node.into(), certificates: reply.certificates })
    }

    /// Removes a node. A node that has backups is removed only if `with_data` is set.
    pub fn remove_node(&mut self, name: &str, with_data: bool) -> Result<Node, ClientError> {
        let request = proto::RemoveNodeRequest { name: name.to_owned(), with_data };
        Ok(self.call(async |server| server.remove_node(request).await)?.into())
    }
}
