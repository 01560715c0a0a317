//! Nodes: registered, changed and removed by an administrator.

use std::sync::Arc;

use catalog::NodeDetails;
use store::nodes::{self, NewNode, NodeOrder, NodeSummary};
use store::readers::Reading;
use store::selection::VersionCondition;
use store::{Store, StoreError};
use wire::{TokenKind, proto};

use crate::actor::{FoundNodes, Sight, find_node};
use crate::edge::Edge;
use crate::messages;
use crate::messages::portions::{Portion, Section};
use crate::numbering::Numbering;
use crate::sessions;
use crate::sessions::stream::Replies;

/// Lists a portion of the nodes that the caller sees.
pub(super) fn portion(
    store: &Store,
    request: proto::ListNodesRequest,
    (sight, numbering): (Option<&Sight>, &Numbering),
) -> Result<proto::ListNodesReply, StoreError> {
    let portion = Portion::parse(request.portion);
    let (from, limit) = (portion.first_name()?, portion.read_max());
    let listed = match (sight, messages::name(&request.name)) {
        (Some(sight), None) => nodes::list_of(store, &sight.nodes, from, limit)?,
        (_, name) => nodes::list(store, name, from, limit)?,
    };
    let node = |one: NodeSummary| messages::nodes::node(numbering, one);
    let nodes = listed.into_iter().map(node).collect();
    let Section { items, next } =
        portion.cut(nodes, |node: &proto::NodeInfo| node.name.clone().into());
    Ok(proto::ListNodesReply { nodes: items, next })
}

/// Sends the versions in a filespace of a node.
pub(super) fn versions(
    store: &Store,
    request: &proto::NodeVersionsRequest,
    found: Option<&FoundNodes>,
    replies: &Replies<proto::VersionsReply>,
) -> Result<(), StoreError> {
    let node = find_node(store, &request.node, found)?;
    let condition = messages::selection::condition(None)?;
    let selection = request.selection.clone().unwrap_or_default();
    let reading = Reading::own(node);
    sessions::send_list(store, &reading, (&selection, &condition), replies)
}

/// Sends the versions in a filespace of a node that have data on a volume.
pub(super) fn volume_versions(
    store: &Store,
    request: &proto::VolumeVersionsRequest,
    replies: &Replies<proto::VersionsReply>,
) -> Result<(), StoreError> {
    let node = nodes::find(store, &request.node)?;
    let packs = store.volumes.packs_on(&request.volume)?;
    let condition =
        VersionCondition { packs: Some(Arc::new(packs)), ..VersionCondition::default() };
    let selection = request.selection.clone().unwrap_or_default();
    sessions::send_list(store, &Reading::own(node), (&selection, &condition), replies)
}

/// Lists a portion of the archives of a node.
pub(super) fn archives(
    store: &Store,
    request: proto::NodeArchivesRequest,
    found: Option<&FoundNodes>,
) -> Result<proto::ArchivesReply, StoreError> {
    let node = find_node(store, &request.node, found)?;
    sessions::archives(store, &node, request.portion)
}

/// Registers a node and makes a token for it.
pub(super) fn add(
    edge: &Edge,
    request: &proto::AddNodeRequest,
    (actor, numbering): (&str, &Numbering),
) -> Result<proto::AddNodeReply, StoreError> {
    let new = NewNode {
        name: request.name.clone(),
        domain: messages::domains::name(&request.domain).to_owned(),
        token_secs: Some(request.token_lifetime_secs).filter(|secs| *secs != 0),
        again: request.again,
        details: NodeDetails::default(),
        api_key: None,
        secret: secret(edge, request)?,
    };
    let added = nodes::add(&edge.store, &new, actor)?;
    Ok(proto::AddNodeReply {
        node: Some(messages::nodes::node(numbering, added.summary)),
        token: edge.authority.token(TokenKind::Node, added.secret),
        expires: added.expires.0,
    })
}

/// Returns the secret of the token that the password of a request stands for.
fn secret(edge: &Edge, request: &proto::AddNodeRequest) -> Result<Option<[u8; 16]>, StoreError> {
    if request.password.is_empty() {
        return Ok(None);
    }
    let ca = edge.authority.fingerprint();
    wire::password_secret(&request.name, &request.password, &ca)
        .map(Some)
        .map_err(|error| StoreError::usage(error.to_string()))
}

/// Changes a node. Locking it ends its sessions at once.
pub(super) fn set(
    edge: &Edge,
    request: proto::SetNodeRequest,
    found: Option<&FoundNodes>,
    (actor, numbering): (&str, &Numbering),
) -> Result<proto::NodeInfo, StoreError> {
    let order = NodeOrder {
        locked: request.locked,
        locked_by_owner: None,
        new_name: request.new_name,
        domain: request.domain.map(|name| messages::domains::name(&name).to_owned()),
        option_set: request.option_set,
        deletes_backups: request.deletes_backups,
        deletes_archives: request.deletes_archives,
        collocation_group: request.collocation_group,
        added_labels: request.added_labels,
        removed_labels: request.removed_labels,
        details: None,
    };
    let node = find_node(&edge.store, &request.name, found)?;
    let changed = edge.change_node(&node, &order, actor)?;
    Ok(messages::nodes::node(numbering, changed))
}

/// Removes a node. With `with_data`, also what it has stored.
pub(super) fn remove(
    edge: &Edge,
    request: &proto::RemoveNodeRequest,
    found: Option<&FoundNodes>,
    (actor, numbering): (&str, &Numbering),
) -> Result<proto::NodeInfo, StoreError> {
    let node = find_node(&edge.store, &request.name, found)?;
    let removed = edge.remove_node(&node, request.with_data, actor)?;
    Ok(messages::nodes::node(numbering, removed))
}

/// Ends all certificates of a node, its unused token and its sessions.
pub(super) fn revoke(
    edge: &Edge,
    request: &proto::RevokeNodeRequest,
    found: Option<&FoundNodes>,
    (actor, numbering): (&str, &Numbering),
) -> Result<proto::RevokeNodeReply, StoreError> {
    let node = find_node(&edge.store, &request.name, found)?;
    let revoked = edge.revoke_node(&node, actor)?;
    let node = messages::nodes::node(numbering, nodes::describe(&edge.store, node)?);
    Ok(proto::RevokeNodeReply { node: Some(node), certificates: revoked })
}
