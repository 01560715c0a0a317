//! Nodes: registered machines and their settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{ContactRow, DrillRow, Node, NodeDetails};
use model::{DomainId, PersonId};
use policy::PolicyDomain;
use policy::schedule::ONCE_PREFIX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::nodes::{self, NewNode, NodeOrder};
use store::{Store, schedules};

use super::domains;
use super::found_node::{FoundNode, find_node};
use super::node_lists::{NodeItem, Register};
use super::node_settings::{SendSettings, sending};
use super::option_sets::check_seen;
use super::orders::{NodeMove, NodeRemoval};
use crate::approval;
use crate::call::{Answer, Call};
use crate::caller::{Caller, Limit, Subject};
use crate::desk::Desk;
use crate::fields::{Bytes, Empty, Time};
use crate::operation::Operation;
use crate::patch::Patch;
use crate::problem::{Kind, Problem};
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Maximum length of a text about a node, in bytes.
const TEXT_BYTES_MAX: usize = 1_000;
/// Fields of a node that change by themselves.
const VOLATILE: &[&str] = &[
    "last_backup",
    "is_connected",
    "is_activated",
    "addresses",
    "filespaces",
    "last_good_drill",
    "last_failed_drill",
    "last_contact",
    "last_address",
    "last_host",
    "schedules",
    "servers",
];
/// Maximum number of labels in a change.
const LABELS_MAX: usize = 64;

/// A node.
#[derive(Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the document")]
struct NodeDocument {
    #[serde(flatten)]
    item: NodeItem,
    mail: String,
    locked_by_service: bool,
    locked_by_owner: bool,
    registered: Time,
    /// True once a machine has become the node.
    is_activated: bool,
    /// Name of the policy set's domain, whose rules the node follows.
    policy: String,
    /// Names of the schedules that the node follows.
    schedules: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    option_set: Option<String>,
    option_set_version: u64,
    deletes_backups: bool,
    deletes_archives: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    collocation_group: Option<String>,
    filespaces: Vec<FilespaceItem>,
    /// Last drill that showed that the node can be restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_good_drill: Option<DrillDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failed_drill: Option<DrillDocument>,
    /// Addresses from which the node is connected.
    addresses: Vec<String>,
    /// Time at which a program of the node has greeted a server last, also if the node is not
    /// connected now; absent if none has since the server keeps these times.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_contact: Option<Time>,
    /// Address from which it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_address: Option<String>,
    /// Name of its machine, as the program has given it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_host: Option<String>,
    /// Addresses of the servers that the node uses.
    servers: Vec<String>,
    /// Strength of compression, as the settings of the node have it.
    compression: String,
    /// Whether data that the server has is not sent again: yes or no, as the settings have it.
    deduplication: String,
    /// True if the option set of the node names files that the node encrypts. Its own statements
    /// may name more.
    encryption: bool,
}

/// A filespace of a node.
#[derive(Serialize, JsonSchema)]
struct FilespaceItem {
    name: Bytes,
    active_objects: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_backup: Option<Time>,
}

/// A restore drill.
#[derive(Serialize, JsonSchema)]
struct DrillDocument {
    at: Time,
    objects: u64,
    bytes: u64,
    damaged: u64,
    reason: String,
}

/// A node that is registered.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewNodeBody {
    /// 1 to 64 letters, digits, '.', '-' or '_', beginning with a letter or digit.
    name: String,
    domain: Option<String>,
    /// Login of the owner; the caller by default.
    owner: Option<String>,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    mail: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    platform: String,
    #[serde(default)]
    application: String,
    #[serde(default)]
    cost_centre: String,
    /// Lifetime of the token: 1 second to 30 days; a day by default.
    token_secs: Option<i64>,
}

/// A new node, with its token.
#[derive(Serialize, JsonSchema)]
struct RegisteredDocument {
    node: NodeDocument,
    /// Token by which a machine becomes the node, once.
    token: String,
    token_expires: Time,
}

/// A change of a node. A field that is absent leaves its value as it is. Null, as an empty text,
/// removes a description, and the node's owner, option set or group.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NodeChangeBody {
    name: Patch<String>,
    domain: Patch<String>,
    owner: Patch<String>,
    hostname: Patch<String>,
    mail: Patch<String>,
    description: Patch<String>,
    platform: Patch<String>,
    application: Patch<String>,
    cost_centre: Patch<String>,
    locked_by_service: Patch<bool>,
    locked_by_owner: Patch<bool>,
    option_set: Patch<String>,
    deletes_backups: Patch<bool>,
    deletes_archives: Patch<bool>,
    collocation_group: Patch<String>,
    add_labels: Vec<String>,
    remove_labels: Vec<String>,
}

/// A new token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RekeyBody {
    /// Lifetime of the token: 1 second to 30 days; a day by default.
    token_secs: Option<i64>,
    /// True to end the certificates that the node has at once.
    #[serde(default)]
    revoke: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NodePath {
    /// Name of the node.
    pub(super) node: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoveQuery {
    /// True to remove a node with its backups, archives and migrated files.
    with_data: Option<bool>,
}

pub(super) fn add(routes: &mut Routes) {
    let (all, one) = ("/v1/nodes", "/v1/nodes/{node}");
    let summary = "Registers a node and makes its token";
    let operation = Operation::post("nodes.add", all, Area::Nodes, summary);
    let body = json!({
        "name": "web-1",
        "domain": "LAB",
        "owner": "anna",
        "hostname": "web-1.lab.example",
        "description": "Web server of the laboratory",
        "platform": "Linux",
        "application": "web server",
        "cost_centre": "C-17",
    });
    routes.make(operation.example("web", body), register);
    let summary = "Describes a node";
    let operation = Operation::read("nodes.get", one, Area::Nodes, summary);
    routes.add(operation.volatile(VOLATILE), get);
    let summary = "Changes a node; a move to a domain that keeps less may wait for a second person";
    let operation = Operation::patch("nodes.change", one, Area::Nodes, summary)
        .example("settings", json!({ "option_set": "linux", "add_labels": ["web"] }))
        .example("lock", json!({ "locked_by_service": true }))
        .example("unlock", json!({ "locked_by_service": false }));
    routes.change(operation.volatile(VOLATILE), current, change);
    let summary = "Removes a node; needs the approval of a second person where that is switched on";
    let operation = Operation::delete("nodes.remove", one, Area::Nodes, summary);
    routes.change(operation.volatile(VOLATILE), current, remove);
    let summary = "Makes a new token for a node";
    let path = "/v1/nodes/{node}/rekey";
    let operation = Operation::post("nodes.rekey", path, Area::Enrolment, summary);
    routes.make(operation.example("hour", json!({ "token_secs": 3_600 })), rekey);
}

fn describe(desk: &Desk, node: Node) -> Answer<NodeDocument> {
    let summary = nodes::describe(desk.store(), node)?;
    let node = &summary.node;
    let register = Register::of_node(desk, node.id)?;
    let details = register.details(node.id);
    let (last_contact, last_address, last_host) = match summary.last_contact.clone() {
        Some(ContactRow { at, address, host, .. }) => (Some(Time(at)), Some(address), Some(host)),
        None => (None, None, None),
    };
    let SendSettings { compression, deduplication, encryption } = sending(desk.store(), node)?;
    let drill = |is_good| summary.drills.iter().find(|drill| drill.is_good == is_good);
    let connected = desk.office.connected().into_iter().find(|one| one.node == node.id);
    let addresses = connected.map(|one| one.addresses).unwrap_or_default();
    let addresses: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
    let filespaces = summary.filespaces.iter().map(|one| FilespaceItem {
        name: Bytes(one.filespace.name.clone()),
        active_objects: one.active_objects,
        last_backup: one.filespace.last_backup.map(Time),
    });
    Ok(NodeDocument {
        item: register.item(node),
        mail: details.mail,
        locked_by_service: node.locks.by_service,
        locked_by_owner: node.locks.by_owner,
        registered: Time(node.registered),
        is_activated: summary.is_enrolled,
        policy: node.domain_name.clone(),
        schedules: schedules_of(desk.store(), node)?,
        option_set: node.option_set.clone(),
        option_set_version: summary.option_set_version,
        deletes_backups: node.deletes_backups,
        deletes_archives: node.deletes_archives,
        collocation_group: node.collocation_group.clone(),
        filespaces: filespaces.collect(),
        last_good_drill: drill(true).map(drill_document),
        last_failed_drill: drill(false).map(drill_document),
        addresses: addresses.into_iter().collect(),
        last_contact,
        last_address,
        last_host: last_host.filter(|host| !host.is_empty()),
        servers: desk.addresses(),
        compression,
        deduplication,
        encryption,
    })
}

/// Returns the names of the schedules that the node follows. Single runs are left out.
fn schedules_of(store: &Store, node: &Node) -> Answer<Vec<String>> {
    let plan = schedules::plan_of(store, node)?.schedules.into_iter();
    Ok(plan.map(|one| one.name).filter(|name| !name.starts_with(ONCE_PREFIX)).collect())
}

fn drill_document(row: &DrillRow) -> DrillDocument {
    DrillDocument {
        at: Time(row.at),
        objects: row.objects,
        bytes: row.bytes,
        damaged: row.damaged,
        reason: row.reason.clone(),
    }
}

fn get(call: &mut Call<NodePath, Empty, Empty>) -> Answer<NodeDocument> {
    let rights = (Area::Nodes, Right::Read);
    let found = find_node(&call.desk, &call.caller, &call.path.node, rights)?;
    describe(&call.desk, found.node)
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &NodePath) -> Answer<Vec<u8>> {
    let found = find_node(desk, caller, &path.node, (Area::Nodes, Right::Write))?;
    Ok(crate::routes::document(&describe(desk, found.node)?))
}

fn check_texts(details: &NodeDetails) -> Answer<()> {
    let texts = [
        &details.hostname,
        &details.mail,
        &details.description,
        &details.platform,
        &details.application,
        &details.cost_centre,
    ];
    let is_right =
        |text: &&String| text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control);
    if texts.iter().all(is_right) {
        return Ok(());
    }
    let text = format!("a text has at most {TEXT_BYTES_MAX} bytes, and no control characters");
    Err(Problem::invalid(text))
}

/// Returns the person that a caller makes the owner of a node.
fn owner(desk: &Desk, caller: &Caller, login: Option<&str>) -> Answer<Option<PersonId>> {
    let Some(login) = login else { return Ok(caller.person) };
    if login.is_empty() {
        return Ok(None);
    }
    let catalog = &desk.store().catalog;
    let own = caller.person.map(|own| catalog.person_numbered(own)).transpose()?;
    if let Some(own) = own.filter(|own| own.login.eq_ignore_ascii_case(login)) {
        return Ok(Some(own.id));
    }
    Ok(Some(super::people::find(desk, caller, login, Right::Read)?.id))
}

/// Finds the domain in which the caller may register a node.
fn domain_for_new(
    desk: &Desk,
    caller: &Caller,
    name: Option<&str>,
    owner: Option<PersonId>,
) -> Answer<PolicyDomain> {
    let own = caller.roles.iter().find_map(|held| held.domain);
    let all = desk.store().catalog.domains()?;
    let found = match (name, own) {
        (Some(name), _) => all.into_iter().find(|one| one.name.eq_ignore_ascii_case(name)),
        (None, Some(own)) => all.into_iter().find(|one| one.id == own),
        (None, None) => all.into_iter().find(|one| one.name == policy::STANDARD),
    };
    let name = name.unwrap_or("of the caller");
    let domain = found.ok_or_else(|| Problem::not_found("domain", name))?;
    let subject = Subject::Domain(domain.id);
    // A customer registers own nodes.
    let is_own = owner.is_some() && owner == caller.person && caller.is_customer_of(domain.id);
    if is_own || caller.may(Area::Nodes, Right::Write, subject) {
        return Ok(domain);
    }
    Err(Problem::not_found("domain", name))
}

fn register(call: &mut Call<Empty, Empty, NewNodeBody>) -> Answer<RegisteredDocument> {
    let (desk, caller, body) = (&call.desk, &call.caller, &call.body);
    let owner = owner(desk, caller, body.owner.as_deref())?;
    let domain = domain_for_new(desk, caller, body.domain.as_deref(), owner)?;
    let details = NodeDetails {
        owner,
        hostname: body.hostname.clone(),
        mail: body.mail.clone(),
        description: body.description.clone(),
        platform: body.platform.clone(),
        application: body.application.clone(),
        cost_centre: body.cost_centre.clone(),
    };
    check_texts(&details)?;
    let new = NewNode {
        name: body.name.clone(),
        domain: domain.name,
        token_secs: body.token_secs,
        again: false,
        details,
        api_key: enroller(desk, caller)?,
        secret: None,
    };
    let added = desk.office.add_node(&new, &caller.name).map_err(taken)?;
    Ok(RegisteredDocument {
        node: describe(desk, added.summary.node)?,
        token: added.token,
        token_expires: Time(added.expires),
    })
}

/// Returns the key of a caller that only registers nodes. Fails if it has registered as many as it
/// may.
fn enroller(desk: &Desk, caller: &Caller) -> Answer<Option<String>> {
    let Limit::Enroller { key } = &caller.limit else { return Ok(None) };
    let row = desk.store().catalog.api_key(key)?;
    if row.uses_max.is_some_and(|max| row.uses >= max) {
        let text = "the key has registered as many nodes as it may";
        return Err(Problem::new(Kind::Forbidden, text));
    }
    Ok(Some(key.clone()))
}

/// Says that a name is taken without the advice of the command line. Names of nodes are the same
/// for all domains, so a taken name cannot be kept secret.
fn taken(error: store::StoreError) -> Problem {
    match error {
        store::StoreError::Conflict(text) if text.contains("exists already") => {
            Problem::conflict("the name is taken; choose another one, or make a new token by rekey")
        }
        error => error.into(),
    }
}

/// Fails if the caller may not make these changes: a lock of the service and a move to another
/// domain are the service's.
fn check_change(
    desk: &Desk,
    caller: &Caller,
    found: &FoundNode,
    body: &NodeChangeBody,
) -> Answer<()> {
    let of_domain = Subject::Domain(found.node.domain);
    let is_of_service = !body.locked_by_service.is_absent()
        || !body.option_set.is_absent()
        || !body.deletes_backups.is_absent()
        || !body.deletes_archives.is_absent()
        || !body.collocation_group.is_absent()
        || !body.owner.is_absent();
    if is_of_service {
        caller.check(Area::Nodes, Right::Write, of_domain)?;
    }
    if let Patch::Value(set) = &body.option_set
        && !set.is_empty()
    {
        check_seen(desk, caller, set)?;
    }
    if !body.owner.is_absent() || !body.domain.is_absent() {
        check_handover(caller, found.node.domain)?;
    }
    if let Some(name) = body.domain.as_ref().required("domain")? {
        let domain = domains::find(desk, caller, name)?;
        caller.check(Area::Nodes, Right::Write, of_domain)?;
        caller.check(Area::Nodes, Right::Write, Subject::Domain(domain.id))?;
        let alone = NodeChangeBody { domain: body.domain.clone(), ..NodeChangeBody::default() };
        guard_move(desk, caller, (&found.node, &domain), *body == alone)?;
    }
    Ok(())
}

/// Fails if the caller may not hand over a node of the domain. A new owner, or the people of
/// another domain, get the contents of its files and may make a machine the node.
pub(crate) fn check_handover(caller: &Caller, domain: DomainId) -> Answer<()> {
    caller.check(Area::Contents, Right::Write, Subject::Domain(domain))?;
    caller.check(Area::Enrolment, Right::Write, Subject::Domain(domain))
}

/// Succeeds if the node may move to the domain at once. A move to a domain that keeps less waits
/// for a second person where that is switched on, and must be the only change then: `is_alone`.
pub(crate) fn guard_move(
    desk: &Desk,
    caller: &Caller,
    (node, domain): (&Node, &PolicyDomain),
    is_alone: bool,
) -> Answer<()> {
    if !desk.store().config.two_person {
        return Ok(());
    }
    let Some(order) = NodeMove::new(desk, node, domain)? else { return Ok(()) };
    if !is_alone {
        let text = "the move to this domain waits for a second person; change the rest apart from \
                    the domain";
        return Err(Problem::conflict(text));
    }
    approval::guard(desk, caller, &order)
}

fn changed_details(
    desk: &Desk,
    caller: &Caller,
    before: &NodeDetails,
    body: &NodeChangeBody,
) -> Answer<NodeDetails> {
    let text =
        |new: &Patch<String>, old: &String| new.clone().emptied().unwrap_or_else(|| old.clone());
    let owner = match body.owner.clone().emptied() {
        Some(login) => owner(desk, caller, Some(&login))?,
        None => before.owner,
    };
    let details = NodeDetails {
        owner,
        hostname: text(&body.hostname, &before.hostname),
        mail: text(&body.mail, &before.mail),
        description: text(&body.description, &before.description),
        platform: text(&body.platform, &before.platform),
        application: text(&body.application, &before.application),
        cost_centre: text(&body.cost_centre, &before.cost_centre),
    };
    check_texts(&details)?;
    Ok(details)
}

fn change(call: &mut Call<NodePath, Empty, NodeChangeBody>) -> Answer<NodeDocument> {
    let (desk, caller, body) = (&call.desk, &call.caller, &call.body);
    let found = find_node(desk, caller, &call.path.node, (Area::Nodes, Right::Write))?;
    check_change(desk, caller, &found, body)?;
    let details = changed_details(desk, caller, &found.details, body)?;
    if body.add_labels.len() > LABELS_MAX || body.remove_labels.len() > LABELS_MAX {
        return Err(Problem::invalid(format!("a change has at most {LABELS_MAX} labels")));
    }
    let order = NodeOrder {
        locked: body.locked_by_service.required("locked_by_service")?,
        locked_by_owner: body.locked_by_owner.required("locked_by_owner")?,
        new_name: body.name.clone().required("name")?,
        domain: body.domain.clone().required("domain")?,
        option_set: body.option_set.clone().emptied(),
        deletes_backups: body.deletes_backups.required("deletes_backups")?,
        deletes_archives: body.deletes_archives.required("deletes_archives")?,
        collocation_group: body.collocation_group.clone().emptied(),
        added_labels: body.add_labels.clone(),
        removed_labels: body.remove_labels.clone(),
        details: Some(details),
    };
    let changed = desk.office.change_node(&found.node, &order, &caller.name)?;
    describe(desk, changed.node)
}

fn remove(call: &mut Call<NodePath, RemoveQuery, Empty>) -> Answer<Empty> {
    let (desk, caller) = (&call.desk, &call.caller);
    let found = find_node(desk, caller, &call.path.node, (Area::Nodes, Right::Write))?;
    let with_data = call.query.with_data.unwrap_or(false);
    // Nobody is asked to approve what would be refused.
    match with_data {
        true => nodes::check_removal(desk.store(), &found.node, true)?,
        false => check_empty(desk, &found.node)?,
    }
    approval::guard(desk, caller, &NodeRemoval::new(&found.node, with_data))?;
    desk.office.remove_node(&found.node, with_data, &caller.name)?;
    Ok(Empty {})
}

/// Fails if the node has stored something.
fn check_empty(desk: &Desk, node: &Node) -> Answer<()> {
    let catalog = &desk.store().catalog;
    if catalog.filespaces(node.id)?.is_empty() && catalog.archives(node.id)?.is_empty() {
        return Ok(());
    }
    let text = "the node has stored data, which goes with it; if you want this, send the request \
                with 'with_data=true'";
    Err(Problem::new(Kind::Unconfirmed, text))
}

fn rekey(call: &mut Call<NodePath, Empty, RekeyBody>) -> Answer<RegisteredDocument> {
    let (desk, caller) = (&call.desk, &call.caller);
    let rights = (Area::Enrolment, Right::Write);
    let found = find_node(desk, caller, &call.path.node, rights)?;
    // A node whose certificates have ended needs the token.
    nodes::token_lifetime(call.body.token_secs)?;
    if call.body.revoke {
        desk.office.revoke_node(&found.node, &caller.name)?;
    }
    let new = NewNode {
        name: found.node.name.to_string(),
        domain: found.node.domain_name,
        token_secs: call.body.token_secs,
        again: true,
        details: found.details,
        api_key: None,
        secret: None,
    };
    let added = desk.office.add_node(&new, &caller.name)?;
    Ok(RegisteredDocument {
        node: describe(desk, added.summary.node)?,
        token: added.token,
        token_expires: Time(added.expires),
    })
}
