//! Domains: customers with their nodes, people and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{Amount, DomainDetails};
use model::DomainId;
use policy::PolicyDomain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{domains, quotas};

use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::ListQuery;
use crate::desk::Desk;
use crate::fields::{Empty, Page};
use crate::operation::Operation;
use crate::patch::Patch;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Maximum length of a tag and of a description, in bytes.
const TAG_BYTES_MAX: usize = 32;
const DESCRIPTION_BYTES_MAX: usize = 1_000;
/// Fields of a domain that change by themselves.
const VOLATILE: &[&str] = &["nodes", "stored", "servers"];
/// Number that no domain has.
pub(super) const NOTHING: DomainId = DomainId(u32::MAX);

/// A domain.
#[derive(Serialize, JsonSchema)]
struct DomainDocument {
    name: String,
    /// Short name of the customer.
    tag: String,
    description: String,
    nodes: usize,
    stored: StoredDocument,
    limits: Limits,
    /// Addresses of the servers that the nodes of the domain use.
    servers: Vec<String>,
    /// Scope of deduplication: chunks that are long enough are stored once for the nodes of all
    /// domains, and no node can tell.
    deduplication: &'static str,
    has_draft: bool,
}

/// Limits of a domain; a limit that is null does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
struct Limits {
    /// Maximum number of nodes.
    nodes: Option<u64>,
    /// Maximum number of stored versions of objects. A backup or archive that would store more is
    /// refused.
    objects: Option<u64>,
    /// Maximum size of the stored versions, in bytes as on the nodes.
    bytes: Option<u64>,
    /// Share of a limit from which the domain is at risk, in per cent.
    warning_percent: u8,
}

/// Limits that a domain gets. One that is absent stays as it is, and null removes it.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct LimitsBody {
    /// Maximum number of nodes.
    nodes: Patch<u64>,
    /// Maximum number of stored versions of objects.
    objects: Patch<u64>,
    /// Maximum size of the stored versions, in bytes as on the nodes.
    bytes: Patch<u64>,
    /// Share of a limit from which the domain is at risk, in per cent; 80 by default.
    warning_percent: Patch<u8>,
}

impl LimitsBody {
    /// The change that removes all limits.
    const NONE: Self = Self {
        nodes: Patch::Null,
        objects: Patch::Null,
        bytes: Patch::Null,
        warning_percent: Patch::Null,
    };
}

/// Amount of what the nodes of a domain have stored: all versions of objects, archive copies, and
/// deleted versions as long as they can be brought back.
#[derive(Serialize, JsonSchema)]
struct StoredDocument {
    objects: u64,
    /// Size in bytes as on the nodes, before deduplication and compression.
    bytes: u64,
}

/// A new domain.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewDomainBody {
    /// 1 to 64 letters, digits, '.', '-' or '_'.
    name: String,
    #[serde(default)]
    tag: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    limits: Patch<LimitsBody>,
}

/// A change of a domain. A field that is absent leaves its value as it is, and null removes it.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct DomainChangeBody {
    tag: Patch<String>,
    description: Patch<String>,
    /// Each limit is changed by itself; null removes all.
    limits: Patch<LimitsBody>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DomainPath {
    /// Name of the domain.
    pub(super) domain: String,
}

pub(super) fn add(routes: &mut Routes) {
    let (all, one) = ("/v1/domains", "/v1/domains/{domain}");
    let summary = "Lists the domains";
    routes.add(Operation::read("domains.list", all, Area::Domains, summary), list);
    let summary = "Makes a domain";
    let operation = Operation::post("domains.add", all, Area::Domains, summary);
    let body = json!({
        "name": "LAB",
        "tag": "lab",
        "description": "The laboratory",
        "limits": {
            "nodes": 100,
            "objects": null,
            "bytes": 10_000_000_000_000_u64,
            "warning_percent": 80,
        },
    });
    routes.make(operation.example("customer", body), make);
    let summary = "Describes a domain";
    let operation = Operation::read("domains.get", one, Area::Domains, summary);
    routes.add(operation.volatile(VOLATILE), get);
    let summary = "Changes a domain";
    let operation = Operation::patch("domains.change", one, Area::Domains, summary)
        .example("description", json!({ "description": "The laboratory, both houses" }));
    routes.change(operation.volatile(VOLATILE), current, change);
    let summary = "Removes a domain without nodes";
    let operation = Operation::delete("domains.remove", one, Area::Domains, summary);
    routes.change(operation.volatile(VOLATILE), current, remove);
}

/// Returns true if the caller may see the domain as a whole.
fn sees_whole(caller: &Caller, domain: DomainId) -> bool {
    caller.belongs_to(domain) || caller.may(Area::Domains, Right::Read, Subject::Domain(domain))
}

/// Returns the domains in which the caller owns a node.
fn of_own_nodes(desk: &Desk, caller: &Caller) -> Answer<BTreeSet<DomainId>> {
    let Some(person) = caller.person else { return Ok(BTreeSet::new()) };
    Ok(desk.store().catalog.domains_of_owner(person)?.into_iter().collect())
}

/// Returns the domains that the caller may see: as a whole, or as the owner of a node in them.
fn seen(desk: &Desk, caller: &Caller) -> Answer<Vec<PolicyDomain>> {
    let mut domains = desk.store().catalog.domains()?;
    if !domains.iter().all(|domain| sees_whole(caller, domain.id)) {
        let own = of_own_nodes(desk, caller)?;
        domains.retain(|domain| sees_whole(caller, domain.id) || own.contains(&domain.id));
    }
    Ok(domains)
}

/// Returns the numbers of the domains that the caller may see.
pub(crate) fn numbers_seen(desk: &Desk, caller: &Caller) -> Answer<BTreeSet<DomainId>> {
    Ok(seen(desk, caller)?.into_iter().map(|domain| domain.id).collect())
}

/// Finds a domain that the caller may see.
pub(crate) fn find(desk: &Desk, caller: &Caller, name: &str) -> Answer<PolicyDomain> {
    let all = desk.store().catalog.domains()?;
    let found = all.into_iter().find(|domain| domain.name.eq_ignore_ascii_case(name));
    // A domain that does not exist takes the same questions as one of others.
    let number = found.as_ref().map_or(NOTHING, |domain| domain.id);
    let is_seen = sees_whole(caller, number) || of_own_nodes(desk, caller)?.contains(&number);
    found.filter(|_| is_seen).ok_or_else(|| Problem::not_found("domain", name))
}

/// Numbers of domains that are read at once.
struct Numbers {
    nodes: BTreeMap<DomainId, usize>,
    stored: BTreeMap<DomainId, Amount>,
}

impl Numbers {
    fn read(desk: &Desk) -> Answer<Self> {
        let catalog = &desk.store().catalog;
        let mut nodes = BTreeMap::new();
        for node in catalog.nodes()? {
            *nodes.entry(node.domain).or_default() += 1;
        }
        Ok(Self { nodes, stored: catalog.amounts()?.into_iter().collect() })
    }
}

fn describe(desk: &Desk, domain: PolicyDomain) -> Answer<DomainDocument> {
    describe_with(desk, &Numbers::read(desk)?, domain)
}

fn describe_with(desk: &Desk, numbers: &Numbers, domain: PolicyDomain) -> Answer<DomainDocument> {
    let store = desk.store();
    let details = store.catalog.domain_details(domain.id)?;
    let stored = numbers.stored.get(&domain.id).copied().unwrap_or_default();
    let percent = quotas::warning_percent(&details);
    Ok(DomainDocument {
        tag: details.tag,
        description: details.description,
        nodes: numbers.nodes.get(&domain.id).copied().unwrap_or(0),
        stored: StoredDocument { objects: stored.objects, bytes: stored.bytes },
        limits: Limits {
            nodes: details.nodes_max,
            objects: details.objects_max,
            bytes: details.bytes_max,
            warning_percent: percent,
        },
        servers: desk.addresses(),
        deduplication: "server",
        has_draft: domain.draft.is_some(),
        name: domain.name,
    })
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<DomainDocument>> {
    let portion = call.query.portion()?;
    let mut domains = seen(&call.desk, &call.caller)?;
    domains.sort_by_key(|domain| domain.name.to_ascii_lowercase());
    let page = portion.page_of(domains, |domain| domain.name.to_ascii_lowercase().into_bytes());
    let numbers = Numbers::read(&call.desk)?;
    let describe = |domain| describe_with(&call.desk, &numbers, domain);
    let items = page.items.into_iter().map(describe);
    Ok(Page { items: items.collect::<Result<_, _>>()?, next: page.next })
}

fn get(call: &mut Call<DomainPath, Empty, Empty>) -> Answer<DomainDocument> {
    describe(&call.desk, find(&call.desk, &call.caller, &call.path.domain)?)
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &DomainPath) -> Answer<Vec<u8>> {
    let domain = find(desk, caller, &path.domain)?;
    Ok(crate::routes::document(&describe(desk, domain)?))
}

fn check_texts(tag: Option<&str>, description: Option<&str>) -> Answer<()> {
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    if tag.is_some_and(|tag| tag.len() > TAG_BYTES_MAX || !is_plain(tag)) {
        return Err(Problem::invalid(format!("a tag has at most {TAG_BYTES_MAX} bytes")));
    }
    if description.is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX || !is_plain(text)) {
        let text = format!("a description has at most {DESCRIPTION_BYTES_MAX} bytes");
        return Err(Problem::invalid(text));
    }
    Ok(())
}

fn check_limits(limits: &LimitsBody) -> Answer<()> {
    let percent = limits.warning_percent.change().flatten();
    if percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
        return Err(Problem::invalid("warnings begin at 1 to 100 per cent of a limit"));
    }
    let all = [limits.nodes, limits.objects, limits.bytes].map(|one| one.change().flatten());
    if all.into_iter().flatten().any(|number| i64::try_from(number).is_err()) {
        return Err(Problem::invalid("a limit is at most 2^63 - 1"));
    }
    Ok(())
}

fn apply_limits(details: &mut DomainDetails, limits: &LimitsBody) -> Answer<()> {
    check_limits(limits)?;
    let LimitsBody { nodes, objects, bytes, warning_percent } = *limits;
    details.nodes_max = nodes.change().unwrap_or(details.nodes_max);
    details.objects_max = objects.change().unwrap_or(details.objects_max);
    details.bytes_max = bytes.change().unwrap_or(details.bytes_max);
    // 0 stands for the default.
    details.warning_percent = warning_percent.emptied().unwrap_or(details.warning_percent);
    Ok(())
}

fn apply(details: &mut DomainDetails, body: &DomainChangeBody) -> Answer<()> {
    let (tag, description) = (body.tag.clone().emptied(), body.description.clone().emptied());
    check_texts(tag.as_deref(), description.as_deref())?;
    if let Some(tag) = tag {
        details.tag = tag;
    }
    if let Some(description) = description {
        details.description = description;
    }
    match &body.limits {
        Patch::Absent => Ok(()),
        Patch::Null => apply_limits(details, &LimitsBody::NONE),
        Patch::Value(limits) => apply_limits(details, limits),
    }
}

fn make(call: &mut Call<Empty, Empty, NewDomainBody>) -> Answer<DomainDocument> {
    call.caller.check(Area::Domains, Right::Write, Subject::Service)?;
    let NewDomainBody { name, tag, description, limits } = &call.body;
    let body = DomainChangeBody {
        tag: Patch::Value(tag.clone()),
        description: Patch::Value(description.clone()),
        limits: *limits,
    };
    let mut details = DomainDetails::default();
    apply(&mut details, &body)?;
    let store = call.desk.store();
    let added = domains::add(store, name, &call.caller.name)?.domain;
    store.catalog.put_domain_details(added.id, &details)?;
    describe(&call.desk, added)
}

fn change(call: &mut Call<DomainPath, Empty, DomainChangeBody>) -> Answer<DomainDocument> {
    let domain = find(&call.desk, &call.caller, &call.path.domain)?;
    call.caller.check(Area::Domains, Right::Write, Subject::Service)?;
    let store = call.desk.store();
    let before = store.catalog.domain_details(domain.id)?;
    let mut details = before.clone();
    apply(&mut details, &call.body)?;
    domains::keep_details(store, &domain, (&before, &details), &call.caller.name)?;
    describe(&call.desk, domain)
}

fn remove(call: &mut Call<DomainPath, Empty, Empty>) -> Answer<Empty> {
    let domain = find(&call.desk, &call.caller, &call.path.domain)?;
    call.caller.check(Area::Domains, Right::Write, Subject::Service)?;
    domains::remove(call.desk.store(), &domain.name, &call.caller.name)?;
    Ok(Empty {})
}
