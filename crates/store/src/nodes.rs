//! Nodes: registered, changed and removed by an administrator.
//!
//! Callers end the connections of a node that is locked, revoked or removed, after the change.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{
    CatalogError, ContactRow, DrillRow, EventRow, Filespace, Locker, Node, NodeAlteration,
    NodeChange, NodeDetails, NodeRegistration, OptionSet, PollRow, TokenRow, Write,
};
use model::{
    BACKUP_FILESPACE_MIN, DirPath, DomainId, FilespaceId, NodeId, NodeName, PersonId, ServerTime,
    is_backup_filespace, is_space_filespace,
};
use policy::PolicyDomain;

use crate::changes::Changes;
use crate::counts::counted;
use crate::error::StoreError;
use crate::store::Store;
use crate::{domains, option_sets, schedules};

/// Maximum number of filespaces in the description of a node.
const FILESPACES_SHOWN_MAX: usize = 1000;
/// Maximum number of backups whose ends are told.
const BACKUP_ENDS_MAX: usize = 20_000;
/// Default lifetime of a token.
const TOKEN_SECS: i64 = 24 * 3600;
/// Maximum lifetime of a token, in seconds: 30 days.
const TOKEN_SECS_MAX: i64 = 30 * 24 * 3600;

/// A node as administrators see it.
#[derive(Clone, Debug)]
pub struct NodeSummary {
    pub node: Node,
    pub is_enrolled: bool,
    pub labels: Vec<String>,
    /// Version of the option set; 0 without one.
    pub option_set_version: u64,
    pub filespaces: Vec<FilespaceSummary>,
    pub drills: Vec<DrillRow>,
    /// True while the node's agent is connected.
    pub has_agent: bool,
    /// Last call of the node's agent, if it polls and calls in time.
    pub agent_poll: Option<PollRow>,
    pub last_contact: Option<ContactRow>,
}

/// A filespace with its size.
#[derive(Clone, Debug)]
pub struct FilespaceSummary {
    pub filespace: Filespace,
    pub active_objects: u64,
}

/// A node that an administrator registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNode {
    pub name: String,
    pub domain: String,
    /// Lifetime of its token; `None` for a day.
    pub token_secs: Option<i64>,
    /// True to make a new token for a node that exists. The node's old certificates stay valid
    /// until it uses the token.
    pub again: bool,
    /// Details of a new node.
    pub details: NodeDetails,
    /// Key of a program whose use is counted.
    pub api_key: Option<String>,
    /// Secret of its token; `None` for one by chance.
    pub secret: Option<[u8; 16]>,
}

/// A registered node, with the secret of its token. The catalogue keeps only the secret's hash.
pub struct AddedNode {
    pub summary: NodeSummary,
    pub secret: [u8; 16],
    pub expires: ServerTime,
}

/// Changes of a node; a field that is `None` or empty leaves its value as it is. An empty name of
/// an option set or a group takes the node out of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeOrder {
    pub locked: Option<bool>,
    /// Lock of the node's owner.
    pub locked_by_owner: Option<bool>,
    pub new_name: Option<String>,
    pub domain: Option<String>,
    pub option_set: Option<String>,
    pub deletes_backups: Option<bool>,
    pub deletes_archives: Option<bool>,
    pub collocation_group: Option<String>,
    pub added_labels: Vec<String>,
    pub removed_labels: Vec<String>,
    pub details: Option<NodeDetails>,
}

/// Returns the hash of a token's secret, which the catalogue keeps in place of the secret.
pub fn token_hash(secret: &[u8]) -> [u8; 32] {
    *blake3::hash(secret).as_bytes()
}

fn parse(name: &str) -> Result<NodeName, StoreError> {
    NodeName::new(name).map_err(|error| StoreError::usage(error.to_string()))
}

/// Finds a node by its name.
pub fn find(store: &Store, name: &str) -> Result<Node, StoreError> {
    store.catalog.node(&parse(name)?).map_err(|error| match error {
        CatalogError::NotFound { .. } => unknown(name),
        error => StoreError::from(error),
    })
}

/// The error for a node that does not exist.
pub fn unknown(name: &str) -> StoreError {
    StoreError::not_found(format!(
        "there is no node {name}; 'holdfast admin node list' shows all nodes"
    ))
}

/// Returns a node that was `found` as it is now. One that was removed, renamed or moved to another
/// domain since is unknown: its name may be that of another node.
fn find_again(store: &Store, found: &Node) -> Result<Node, StoreError> {
    let node = find(store, found.name.as_str())?;
    let is_same = node.id == found.id && node.domain == found.domain;
    if is_same { Ok(node) } else { Err(unknown(found.name.as_str())) }
}

/// Finds one node, or all nodes.
pub fn select(store: &Store, name: Option<&str>) -> Result<Vec<Node>, StoreError> {
    match name {
        Some(name) => Ok(vec![find(store, name)?]),
        None => Ok(store.catalog.nodes()?),
    }
}

/// Lists at most `limit` of a node's filespaces, sorted by name, starting at `from`.
pub fn filespaces(
    store: &Store,
    node: &Node,
    from: &[u8],
    limit: usize,
) -> Result<Vec<FilespaceSummary>, StoreError> {
    let describe = |filespace: Filespace| {
        let everything = DirPath::above_root();
        let active_objects = store.catalog.count_objects(filespace.id, &everything)?;
        Ok(FilespaceSummary { filespace, active_objects })
    };
    let filespaces = store.catalog.filespaces_from(node.id, from, limit)?;
    filespaces.into_iter().map(describe).collect()
}

/// Returns the ends of the newest complete backups of a node, by filespace and newest first.
pub fn backup_ends(
    store: &Store,
    node: &Node,
) -> Result<BTreeMap<FilespaceId, Vec<ServerTime>>, StoreError> {
    let mut by_filespace: BTreeMap<FilespaceId, Vec<ServerTime>> = BTreeMap::new();
    for (filespace, ended) in store.catalog.backup_ends(node.id, BACKUP_ENDS_MAX)? {
        by_filespace.entry(filespace).or_default().push(ended);
    }
    Ok(by_filespace)
}

/// Describes a node.
pub fn describe(store: &Store, node: Node) -> Result<NodeSummary, StoreError> {
    let agents = schedules::connected_agents(store)?;
    describe_with(store, node, &store.catalog.option_sets()?, &agents)
}

fn describe_with(
    store: &Store,
    node: Node,
    option_sets: &[OptionSet],
    agents: &BTreeSet<NodeId>,
) -> Result<NodeSummary, StoreError> {
    let is_enrolled = store.catalog.is_enrolled(node.id)?;
    let filespaces = filespaces(store, &node, BACKUP_FILESPACE_MIN, FILESPACES_SHOWN_MAX)?;
    let labels = store.catalog.labels(Some(node.id))?.into_iter().map(|(_, label)| label);
    let labels = labels.collect();
    let drills = store.catalog.drills(Some(node.id))?;
    let option_set_version = option_sets::number_of(option_sets, &node);
    let agent_poll = schedules::last_poll(store, node.id)?;
    // An agent that came after `agents` were read may have this poll, and is connected, too.
    let has_agent = agents.contains(&node.id) || store.presence.attends(node.id);
    let last_contact = store.contacts.last(&*store.catalog, node.id)?;
    Ok(NodeSummary {
        node,
        is_enrolled,
        labels,
        option_set_version,
        filespaces,
        drills,
        has_agent,
        agent_poll,
        last_contact,
    })
}

/// Lists the node `name`, or without a name at most `limit` nodes, sorted by name, starting at
/// `from`.
pub fn list(
    store: &Store,
    name: Option<&str>,
    from: &str,
    limit: usize,
) -> Result<Vec<NodeSummary>, StoreError> {
    let nodes = match name {
        Some(name) => vec![find(store, name)?],
        None => store.catalog.nodes_from(from, limit)?,
    };
    describe_all(store, nodes)
}

/// Lists at most `limit` of the nodes in `wanted`, sorted by name, starting at `from`.
pub fn list_of(
    store: &Store,
    wanted: &BTreeSet<NodeId>,
    from: &str,
    limit: usize,
) -> Result<Vec<NodeSummary>, StoreError> {
    let mut nodes = store.catalog.nodes_from(from, usize::MAX)?;
    nodes.retain(|node| wanted.contains(&node.id));
    nodes.truncate(limit);
    describe_all(store, nodes)
}

fn describe_all(store: &Store, nodes: Vec<Node>) -> Result<Vec<NodeSummary>, StoreError> {
    let (option_sets, agents) = (store.catalog.option_sets()?, schedules::connected_agents(store)?);
    let describe = |node| describe_with(store, node, &option_sets, &agents);
    nodes.into_iter().map(describe).collect()
}

/// Registers a node and makes the secret of a token for it.
pub fn add(store: &Store, new: &NewNode, actor: &str) -> Result<AddedNode, StoreError> {
    let now = sys::clock::now();
    let name = parse(&new.name)?;
    let lifetime = token_lifetime(new.token_secs)?;
    let secret = new.secret.unwrap_or_else(sys::entropy::bytes);
    let expires = ServerTime(now.0 + lifetime * 1_000_000);
    let registration = NodeRegistration {
        name: name.clone(),
        domain: new.domain.clone(),
        now,
        details: new.details.clone(),
        token: (token_hash(&secret), expires),
        api_key: new.api_key.clone(),
        event: event(actor, "node added", format!("{name} in domain {}", new.domain)),
    };
    let node = match store.catalog.register_node(&registration) {
        Err(CatalogError::Exists { .. }) => issue_again(store, new, &registration, actor)?,
        other => other?,
    };
    tracing::info!(node = %node.name, "a token was made");
    Ok(AddedNode { summary: describe(store, node)?, secret, expires })
}

/// Returns the lifetime of a token in seconds, if it may have the one that is asked for.
pub fn token_lifetime(asked_secs: Option<i64>) -> Result<i64, StoreError> {
    match asked_secs {
        None => Ok(TOKEN_SECS),
        Some(secs @ 1..=TOKEN_SECS_MAX) => Ok(secs),
        Some(_) => Err(StoreError::usage("a token must live from 1 second to 30 days")),
    }
}

/// Gives a token to a node that is registered already, if `new` asks for it.
fn issue_again(
    store: &Store,
    new: &NewNode,
    registration: &NodeRegistration,
    actor: &str,
) -> Result<Node, StoreError> {
    let NodeRegistration { name, token: (hash, expires), .. } = registration;
    let repeated = || {
        StoreError::conflict(format!(
            "a node with the name {name} has had this password before, and a password enrols once; \
             give another one"
        ))
    };
    let node = match store.catalog.node(name) {
        Ok(node) => node,
        // The secret is known, and the node is not: a node that has another name now had both.
        Err(CatalogError::NotFound { .. }) => return Err(repeated()),
        Err(error) => return Err(error.into()),
    };
    if !new.again {
        return Err(StoreError::conflict(format!(
            "node {name} exists already; give it a new token with --again"
        )));
    }
    let row = TokenRow { hash: *hash, node: node.id, expires: *expires };
    store.catalog.add_token(&row).map_err(|error| match error {
        CatalogError::Exists { .. } => repeated(),
        error => error.into(),
    })?;
    let details = format!("{name} in domain {}", node.domain_name);
    note(store, actor, "node token issued", details)?;
    Ok(node)
}

/// Changes a node that was `found`: all that the order names, or nothing.
pub fn change(
    store: &Store,
    found: &Node,
    order: &NodeOrder,
    actor: &str,
) -> Result<NodeSummary, StoreError> {
    let before = find_again(store, found)?;
    let new_name = order.new_name.as_deref().map(parse).transpose()?;
    let domain = order.domain.as_ref().map(|name| domains::find(store, name)).transpose()?;
    let change = change_of(store, &before, order, domain.as_ref())?;
    let labels =
        schedules::label_change(store, before.id, &order.added_labels, &order.removed_labels)?;
    let mut after = changed(&before, order, new_name.clone(), &change);
    after.domain_name = domain.map_or(after.domain_name, |domain| domain.name);
    let details_before = store.catalog.node_details(before.id)?;
    let mut details = order.details.clone().unwrap_or_else(|| details_before.clone());
    let new_home = change.domain.filter(|domain| *domain != before.domain);
    if let Some(domain) = new_home.filter(|_| details.owner == details_before.owner) {
        keep_owner_in(store, &mut details, domain)?;
    }
    let details = Some(details).filter(|details| *details != details_before);
    let mut events: Vec<EventRow> = differences(&before, &after)
        .into_iter()
        .map(|(what, details)| event(actor, what, details))
        .collect();
    let words = labels.words().map(|words| format!("{}: {words}", after.name));
    events.extend(words.map(|words| event(actor, "node labels changed", words)));
    if let Some(details) = &details {
        let words = detail_differences(store, &details_before, details)?.of(after.name.as_str());
        events.push(event(actor, "node details changed", words));
    }
    let by_service = order.locked.map(|locked| (Locker::Service, locked));
    let by_owner = order.locked_by_owner.map(|locked| (Locker::Owner, locked));
    let alteration = NodeAlteration {
        locks: by_service.into_iter().chain(by_owner).collect(),
        name: new_name,
        change,
        added_labels: labels.added,
        removed_labels: labels.removed,
        details,
        now: sys::clock::now(),
        events,
    };
    store.catalog.alter_node(before.id, &alteration)?;
    let gets_other_plan = !alteration.added_labels.is_empty()
        || !alteration.removed_labels.is_empty()
        || order.domain.is_some()
        || order.option_set.is_some();
    if gets_other_plan {
        schedules::announce(store)?;
    }
    tracing::info!(node = %after.name, locked = after.locks.any(), "node changed");
    describe(store, store.catalog.node(&after.name)?)
}

/// Takes the owner from a node that moves to a domain in which the owner has no role: the
/// administrators of the domain must not see the node through a person of another domain.
fn keep_owner_in(
    store: &Store,
    details: &mut NodeDetails,
    domain: DomainId,
) -> Result<(), StoreError> {
    if let Some(owner) = details.owner {
        let roles = store.catalog.roles(Some(owner))?;
        if !roles.iter().any(|row| row.domain.is_none_or(|own| own == domain)) {
            details.owner = None;
        }
    }
    Ok(())
}

/// Returns the node as it is after a change.
fn changed(
    before: &Node,
    order: &NodeOrder,
    new_name: Option<NodeName>,
    change: &NodeChange,
) -> Node {
    let mut after = before.clone();
    after.name = new_name.unwrap_or(after.name);
    after.locks.by_service = order.locked.unwrap_or(after.locks.by_service);
    after.locks.by_owner = order.locked_by_owner.unwrap_or(after.locks.by_owner);
    after.domain = change.domain.unwrap_or(after.domain);
    after.option_set = change.option_set.clone().unwrap_or(after.option_set);
    after.deletes_backups = change.deletes_backups.unwrap_or(after.deletes_backups);
    after.deletes_archives = change.deletes_archives.unwrap_or(after.deletes_archives);
    after.collocation_group = change.collocation_group.clone().unwrap_or(after.collocation_group);
    after
}

/// Adds an event about a node to the audit trail.
pub fn note(store: &Store, actor: &str, what: &str, details: String) -> Result<(), StoreError> {
    Ok(store.catalog.commit(vec![Write::AddEvent(event(actor, what, details))])?)
}

fn event(actor: &str, what: &str, details: String) -> EventRow {
    let (actor, what) = (actor.to_owned(), what.to_owned());
    EventRow { time: sys::clock::now(), actor, what, details }
}

/// Returns the kind and the details of an event for each difference between two states of a node.
fn differences(before: &Node, after: &Node) -> Vec<(&'static str, String)> {
    let name = &after.name;
    let mut all = Vec::new();
    if before.name != *name {
        all.push(("node renamed", format!("{} is now called {name}", before.name)));
    }
    if before.locks != after.locks {
        let what = if after.locks.any() { "node locked" } else { "node unlocked" };
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

fn detail_differences(
    store: &Store,
    before: &NodeDetails,
    after: &NodeDetails,
) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    changes.compare("owner", login(store, before.owner)?, login(store, after.owner)?);
    changes.compare("host name", &before.hostname, &after.hostname);
    changes.compare("mail", &before.mail, &after.mail);
    changes.compare("description", &before.description, &after.description);
    changes.compare("platform", &before.platform, &after.platform);
    changes.compare("application", &before.application, &after.application);
    changes.compare("cost centre", &before.cost_centre, &after.cost_centre);
    Ok(changes)
}

/// Returns the login of an owner; nothing for a node without one.
fn login(store: &Store, owner: Option<PersonId>) -> Result<String, StoreError> {
    let Some(owner) = owner else { return Ok(String::new()) };
    match store.catalog.person_numbered(owner) {
        Ok(person) => Ok(person.login),
        Err(CatalogError::NotFound { .. }) => Ok("somebody who is gone".to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// The changes of a node except its name and its lock.
fn change_of(
    store: &Store,
    node: &Node,
    order: &NodeOrder,
    domain: Option<&PolicyDomain>,
) -> Result<NodeChange, StoreError> {
    if domain.is_some_and(|domain| domain.id != node.domain) {
        domains::check_unlocked(store, node, "moving")?;
    }
    let filled = |name: String| Some(name).filter(|name| !name.is_empty());
    if let Some(name) = order.option_set.clone().and_then(filled) {
        option_sets::find(store, &name)?;
    }
    Ok(NodeChange {
        domain: domain.map(|domain| domain.id),
        moved: Some(sys::clock::now()),
        option_set: order.option_set.clone().map(filled),
        deletes_backups: order.deletes_backups,
        deletes_archives: order.deletes_archives,
        collocation_group: order.collocation_group.clone().map(filled),
    })
}

/// Fails if the node cannot be removed: if it has data that is not to go with it, if one of its
/// archives is held, or if a class holds its data.
pub fn check_removal(store: &Store, node: &Node, with_data: bool) -> Result<(), StoreError> {
    let archives = store.catalog.archives(node.id)?;
    let filespaces = store.catalog.filespaces(node.id)?;
    let number_of = |is_meant: fn(&[u8]) -> bool| {
        filespaces.iter().filter(|filespace| is_meant(&filespace.name)).count() as u64
    };
    let has_data = !filespaces.is_empty() || !archives.is_empty();
    if has_data && !with_data {
        // The files that have migrated have their contents nowhere else.
        let migrated = match number_of(is_space_filespace) {
            0 => String::new(),
            spaces => format!(
                ", and the contents of files that have migrated from {}",
                counted(spaces, "file system")
            ),
        };
        return Err(StoreError::conflict(format!(
            "node {} has {} with backups and {}{migrated}; --confirm removes them too",
            node.name,
            counted(number_of(is_backup_filespace), "filespace"),
            counted(archives.len() as u64, "archive")
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
    Ok(())
}

/// Removes a node that was `found`. A node with backups, archives or migrated files is removed only
/// together with its data.
pub fn remove(
    store: &Store,
    found: &Node,
    with_data: bool,
    actor: &str,
) -> Result<NodeSummary, StoreError> {
    let info = describe(store, find_again(store, found)?)?;
    let node = &info.node;
    check_removal(store, node, with_data)?;
    store.catalog.remove_node(node.id)?;
    tracing::info!(node = %node.name, "node removed");
    let objects: u64 = info.filespaces.iter().map(|filespace| filespace.active_objects).sum();
    let details = format!("{} with {}", node.name, counted(objects, "active object"));
    note(store, actor, "node removed", details)?;
    Ok(info)
}

/// Finds a filespace of a node's backups.
pub fn find_filespace(store: &Store, node: &Node, name: &[u8]) -> Result<Filespace, StoreError> {
    let found = store.catalog.filespaces_from(node.id, name, 1)?.pop();
    found
        .filter(|filespace| filespace.name == name && is_backup_filespace(name))
        .ok_or_else(|| {
            let shown = name.escape_ascii();
            StoreError::not_found(format!("node {} has no filespace {shown}", node.name))
        })
}

/// Fails if no filespace of the node can be removed, because a class holds its data.
pub fn check_filespace_removal(store: &Store, node: &Node) -> Result<(), StoreError> {
    domains::check_unlocked(store, node, "removing a filespace of")
}

/// Removes a filespace of a node's backups, with all its versions. Fails while a backup of it runs.
pub fn remove_filespace(
    store: &Store,
    node: &Node,
    filespace: &Filespace,
    actor: &str,
) -> Result<(), StoreError> {
    check_filespace_removal(store, node)?;
    let _claim = store.claim(filespace.id)?;
    let objects = store.catalog.count_objects(filespace.id, &DirPath::above_root())?;
    store.catalog.remove_filespace(filespace.id)?;
    store.quotas.forget();
    let shown = filespace.name.escape_ascii();
    tracing::info!(node = %node.name, filespace = %shown, "filespace removed");
    let details = format!("{}: {shown} with {}", node.name, counted(objects, "active object"));
    note(store, actor, "filespace removed", details)
}

/// Ends all certificates of a node and its unused token. Returns the number of certificates.
pub fn revoke(store: &Store, node: &Node, actor: &str) -> Result<u64, StoreError> {
    let revoked = store.catalog.revoke_certificates(node.id, sys::clock::system())? as u64;
    tracing::info!(node = %node.name, certificates = revoked, "certificates revoked");
    let details = format!("{}: {}", node.name, counted(revoked, "certificate"));
    note(store, actor, "node revoked", details)?;
    Ok(revoked)
}

#[cfg(test)]
mod tests {
    use catalog::Locks;
    use model::space_filespace;

    use super::*;
    use crate::samples::TestServer;

    /// Regression: only backups and archives counted as data, so a node with space management and
    /// without backups went with the only copies of its files, unasked.
    #[test]
    fn a_node_does_not_go_unasked_with_the_files_that_have_migrated() {
        let server = TestServer::new();
        let (store, time) = (&server.store, ServerTime(1));
        let name = NodeName::new("b").expect("a name");
        let node = store.catalog.add_node(&name, policy::STANDARD, time).expect("is added");
        let space = space_filespace(b"/data");
        store.catalog.open_filespace(node.id, &space, time).expect("is made");
        let refused = remove(store, &node, false, "root").expect_err("it has data").to_string();
        assert!(refused.contains("migrated from 1 file system;"), "{refused}");
        assert!(find(store, "b").is_ok(), "the node is there");
        remove(store, &node, true, "root").expect("is removed");
    }

    #[test]
    fn a_node_is_changed_and_removed_as_it_was_found() {
        let server = TestServer::new();
        let (store, time) = (&server.store, ServerTime(1));
        let name = NodeName::new("b").expect("a name");
        let add = || store.catalog.add_node(&name, policy::STANDARD, time).expect("is added");
        let found = add();
        remove(store, &found, false, "root").expect("is removed");
        let other = add();
        let order = NodeOrder { locked: Some(true), ..NodeOrder::default() };
        for node in [found, Node { domain: DomainId(99), ..other.clone() }] {
            let changed = change(store, &node, &order, "root").map(drop);
            let removed = remove(store, &node, true, "root").map(drop);
            for refused in [changed, removed] {
                assert_eq!(refused, Err(unknown("b")));
            }
        }
        assert_eq!(find(store, "b"), Ok(other));
    }

    /// Regression: such an agent was shown as away, with a call just now.
    #[test]
    fn an_agent_that_comes_while_its_node_is_described_is_connected() {
        let server = TestServer::new();
        let (store, node) = (&server.store, &server.node);
        let before = schedules::connected_agents(store).expect("are listed");
        schedules::attend_without_place(store, node.id, 1);
        schedules::note_poll(store, node.id, 1, 240);
        let shown = || {
            let shown = describe_with(store, node.clone(), &[], &before).expect("is described");
            (shown.has_agent, shown.agent_poll.is_some())
        };
        assert_eq!(shown(), (true, true));
        schedules::end_attendance(store, node.id, 1).expect("is recorded");
        assert_eq!(shown(), (false, true));
    }

    #[test]
    fn each_difference_is_an_event() {
        let node = |name: &str| Node {
            id: NodeId(1),
            name: NodeName::new(name).expect("a name"),
            domain: DomainId(1),
            domain_name: "STANDARD".to_owned(),
            domain_since: ServerTime(0),
            locks: Locks::default(),
            registered: ServerTime(0),
            option_set: None,
            deletes_backups: false,
            deletes_archives: true,
            collocation_group: None,
        };
        assert_eq!(differences(&node("web-1"), &node("web-1")), []);
        let after = Node {
            locks: Locks { by_service: true, by_owner: false },
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
}
