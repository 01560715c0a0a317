//! Nodes: registered, changed and removed by an administrator.

use catalog::{CatalogError, EventRow, Node, NodeChange, TokenRow, Write};
use model::{BACKUP_FILESPACE_MIN, NodeName, ServerTime};
use store::{Store, StoreError, domains, schedules};
use wire::proto;

use crate::edge::Edge;
use crate::enrol::token_hash;
use crate::messages;
use crate::messages::nodes::NodeSummary;
use crate::sessions::filespaces;

/// Maximum number of filespaces in the description of a node.
const FILESPACES_SHOWN_MAX: usize = 1000;
/// Default lifetime of a token.
const TOKEN_SECS: i64 = 24 * 3600;
/// Maximum lifetime of a token, in seconds: 30 days.
const TOKEN_SECS_MAX: i64 = 30 * 24 * 3600;

fn parse(name: &str) -> Result<NodeName, StoreError> {
    NodeName::new(name).map_err(|error| StoreError::usage(error.to_string()))
}

pub(super) fn find(store: &Store, name: &str) -> Result<Node, StoreError> {
    store.catalog.node(&parse(name)?).map_err(|error| match error {
        CatalogError::NotFound { .. } => StoreError::not_found(format!(
            "there is no node {name}; 'holdfast admin node list' shows all nodes"
        )),
        error => StoreError::from(error),
    })
}

/// Finds one node, or all nodes.
pub(super) fn select(store: &Store, name: Option<&str>) -> Result<Vec<Node>, StoreError> {
    match name {
        Some(name) => Ok(vec![find(store, name)?]),
        None => Ok(store.catalog.nodes()?),
    }
}

fn describe(store: &Store, node: Node) -> Result<NodeSummary, StoreError> {
    let is_enrolled = store.catalog.is_enrolled(node.id)?;
    let filespaces = filespaces(store, &node, BACKUP_FILESPACE_MIN, FILESPACES_SHOWN_MAX)?;
    let labels = store.catalog.labels(Some(node.id))?.into_iter().map(|(_, label)| label);
    let labels = labels.collect();
    Ok(NodeSummary { node, is_enrolled, labels, filespaces })
}

/// Lists the node `name`, or without a name at most `limit` nodes, sorted by name, starting at
/// `from`.
pub(super) fn list(
    store: &Store,
    name: Option<&str>,
    from: &str,
    limit: usize,
) -> Result<Vec<NodeSummary>, StoreError> {
    let nodes = match name {
        Some(name) => vec![find(store, name)?],
        None => store.catalog.nodes_from(from, limit)?,
    };
    nodes.into_iter().map(|node| describe(store, node)).collect()
}

/// Registers a node and makes a token for it.
pub(super) fn add(
    edge: &Edge,
    request: &proto::AddNodeRequest,
    actor: &str,
) -> Result<proto::AddNodeReply, StoreError> {
    let store = &edge.store;
    let now = sys::clock::now();
    let name = parse(&request.name)?;
    let domain = messages::domains::name(&request.domain);
    let lifetime = match request.token_lifetime_secs {
        0 => TOKEN_SECS,
        secs @ 1..=TOKEN_SECS_MAX => secs,
        _ => return Err(StoreError::usage("a token must live from 1 second to 30 days")),
    };
    let mut what = "node added";
    let node = match store.catalog.add_node(&name, domain, now) {
        Err(CatalogError::Exists { .. }) if request.again => {
            what = "node token issued";
            find(store, &request.name)?
        }
        Err(CatalogError::Exists { .. }) => {
            return Err(StoreError::conflict(format!(
                "node {name} exists already; give it a new token with --again"
            )));
        }
        other => other?,
    };
    let secret = sys::entropy::bytes();
    let expires = ServerTime(now.0 + lifetime * 1_000_000);
    let row = TokenRow { hash: token_hash(&secret), node: node.id, expires };
    store.catalog.add_token(&row)?;
    let token = wire::Token { secret, ca_fingerprint: edge.authority.fingerprint() };
    tracing::info!(node = %node.name, "a token was made");
    note(store, actor, what, format!("{name} in domain {}", node.domain_name))?;
    Ok(proto::AddNodeReply {
        node: Some(messages::nodes::node(describe(store, node)?)),
        token: token.to_string(),
        expires: expires.0,
    })
}

/// Changes a node. Locking it ends its sessions at once.
pub(super) fn set(
    edge: &Edge,
    request: &proto::SetNodeRequest,
    actor: &str,
) -> Result<NodeSummary, StoreError> {
    let store = &*edge.store;
    let before = find(store, &request.name)?;
    if let Some(locked) = request.locked {
        store.catalog.lock_node(before.id, locked)?;
        if locked {
            edge.identities.cut(before.id);
        }
    }
    let new_name = request.new_name.as_deref().map(parse).transpose()?;
    if let Some(new_name) = &new_name {
        store.catalog.rename_node(before.id, new_name)?;
    }
    // The audit trail has the changes so far even if the rest is refused.
    let name = new_name.unwrap_or_else(|| before.name.clone());
    let changed = change_of(store, &before, request)
        .and_then(|change| Ok(store.catalog.change_node(before.id, &change)?));
    let after = store.catalog.node(&name)?;
    for (what, details) in differences(&before, &after) {
        note(store, actor, what, details)?;
    }
    changed?;
    let proto::SetNodeRequest { added_labels, removed_labels, .. } = request;
    if !added_labels.is_empty() || !removed_labels.is_empty() || request.domain.is_some() {
        schedules::label_nodes(store, before.id, added_labels, removed_labels)?;
    }
    tracing::info!(node = %after.name, locked = after.locked, "node changed");
    describe(store, after)
}

/// Adds an event about a node to the audit trail.
fn note(store: &Store, actor: &str, what: &str, details: String) -> Result<(), StoreError> {
    let (actor, what) = (actor.to_owned(), what.to_owned());
    let event = EventRow { time: sys::clock::now(), actor, what, details };
    Ok(store.catalog.commit(vec![Write::AddEvent(event)])?)
}

/// Returns the kind and the details of an event for each difference between two states of a node.
fn differences(before: &Node, after: &Node) -> Vec<(&'static str, String)> {
    let name = &after.name;
    let mut all = Vec::new();
    if before.name != *name {
        all.push(("node renamed", format!("{} is now called {name}", before.name)));
    }
    if before.locked != after.locked {
        let what = if after.locked { "node locked" } else { "node unlocked" };
        all.push((what, name.to_string()));
    }
    let word = |allowed| if allowed { "yes" } else { "no" };
    let of_right = |right, allowed| format!("{name}: {right} {}", word(allowed));
    if before.deletes_backups != after.deletes_backups {
        all.push(("node rights changed", of_right("BACKDELETE", after.deletes_backups)));
    }
    if before.deletes_archives != after.deletes_archives {
        all.push(("node rights changed", of_right("ARCHDELETE", after.deletes_archives)));
    }
    let mut compare = |what, before: Option<&str>, after: Option<&str>| {
        if before != after {
            let [before, after] = [before, after].map(|value| value.unwrap_or("none"));
            all.push((what, format!("{name}: from {before} to {after}")));
        }
    };
    compare("node domain changed", Some(&before.domain_name), Some(&after.domain_name));
    let (old, new) = (before.option_set.as_deref(), after.option_set.as_deref());
    compare("node option set changed", old, new);
    let (old, new) = (before.collocation_group.as_deref(), after.collocation_group.as_deref());
    compare("node collocation group changed", old, new);
    all
}

/// The changes of a node except its name and its lock.
fn change_of(
    store: &Store,
    node: &Node,
    request: &proto::SetNodeRequest,
) -> Result<NodeChange, StoreError> {
    let domain = match &request.domain {
        Some(name) => {
            let domain = domains::find(store, messages::domains::name(name))?;
            if domain.id != node.domain {
                domains::check_unlocked(store, node, "moving")?;
            }
            Some(domain.id)
        }
        None => None,
    };
    let filled = |name: String| Some(name).filter(|name| !name.is_empty());
    let option_set = request.option_set.clone().map(filled);
    let collocation_group = request.collocation_group.clone().map(filled);
    let proto::SetNodeRequest { deletes_backups, deletes_archives, .. } = *request;
    Ok(NodeChange { domain, option_set, deletes_backups, deletes_archives, collocation_group })
}

/// Removes a node. A node with backups or archives is removed only together with its data.
pub(super) fn remove(
    edge: &Edge,
    request: &proto::RemoveNodeRequest,
    actor: &str,
) -> Result<NodeSummary, StoreError> {
    let store = &*edge.store;
    let info = describe(store, find(store, &request.name)?)?;
    let node = &info.node;
    let archives = store.catalog.archives(node.id)?;
    let has_data = !info.filespaces.is_empty() || !archives.is_empty();
    if has_data && !request.with_data {
        return Err(StoreError::conflict(format!(
            "node {} has {} with backups and {}; --confirm removes them too",
            node.name,
            count(info.filespaces.len() as u64, "filespace"),
            count(archives.len() as u64, "archive")
        )));
    }
    if let Some(held) = archives.iter().find(|archive| archive.held) {
        return Err(StoreError::conflict(format!(
            "archive {} of node {} is held; the node can release it",
            held.number, node.name
        )));
    }
    if has_data {
        domains::check_unlocked(store, node, "removing")?;
    }
    store.catalog.remove_node(node.id)?;
    edge.identities.cut(node.id);
    tracing::info!(node = %node.name, "node removed");
    let objects: u64 = info.filespaces.iter().map(|filespace| filespace.active_objects).sum();
    let details = format!("{} with {}", node.name, count(objects, "active object"));
    note(store, actor, "node removed", details)?;
    Ok(info)
}

/// Ends all certificates of a node, its unused token and its sessions.
pub(super) fn revoke(
    edge: &Edge,
    request: &proto::RevokeNodeRequest,
    actor: &str,
) -> Result<proto::RevokeNodeReply, StoreError> {
    let store = &*edge.store;
    let node = find(store, &request.name)?;
    let revoked = store.catalog.revoke_certificates(node.id, sys::clock::system())? as u64;
    edge.identities.cut(node.id);
    tracing::info!(node = %node.name, certificates = revoked, "certificates revoked");
    let details = format!("{}: {}", node.name, count(revoked, "certificate"));
    note(store, actor, "node revoked", details)?;
    let node = messages::nodes::node(describe(store, node)?);
    Ok(proto::RevokeNodeReply { node: Some(node), certificates: revoked })
}

fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_an_event() {
        let node = |name: &str| Node {
            id: model::NodeId(1),
            name: NodeName::new(name).expect("a name"),
            domain: model::DomainId(1),
            domain_name: "STANDARD".to_owned(),
            locked: false,
            registered: ServerTime(0),
            option_set: None,
            deletes_backups: false,
            deletes_archives: true,
            collocation_group: None,
        };
        assert_eq!(differences(&node("web-1"), &node("web-1")), []);
        let after = Node {
            locked: true,
            domain_name: "LONG".to_owned(),
            option_set: Some("LINUX".to_owned()),
            deletes_backups: true,
            deletes_archives: false,
            ..node("web-2")
        };
        let events = differences(&node("web-1"), &after);
        let shown: Vec<String> =
            events.iter().map(|(what, details)| format!("{what} | {details}")).collect();
        assert_eq!(
            shown,
            [
                "node renamed | web-1 is now called web-2",
                "node locked | web-2",
                "node rights changed | web-2: BACKDELETE yes",
                "node rights changed | web-2: ARCHDELETE no",
                "node domain changed | web-2: from STANDARD to LONG",
                "node option set changed | web-2: from none to LINUX",
            ]
        );
    }

    #[test]
    fn one_has_no_plural() {
        assert_eq!(count(0, "archive"), "0 archives");
        assert_eq!(count(1, "archive"), "1 archive");
        assert_eq!(count(2, "filespace"), "2 filespaces");
    }
}
