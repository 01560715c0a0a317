//! Facts about the service: its servers, the platforms and applications of its nodes, its document.

use std::collections::{BTreeMap, BTreeSet};

use catalog::PoolRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::desk::Desk;
use crate::fields::{Empty, Time};
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Platforms on which the program runs.
const PLATFORMS: [&str; 1] = ["Linux"];

/// The servers of the service.
#[derive(Serialize, JsonSchema)]
struct ServersDocument {
    items: Vec<ServerDocument>,
    /// Nodes and pools of all servers together, for those who run the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    together: Option<ServiceUse>,
}

/// The use of all servers of the service.
#[derive(Serialize, JsonSchema)]
struct ServiceUse {
    /// Number of registered nodes.
    nodes: usize,
    pools: Vec<PoolUse>,
}

/// How full a pool is.
#[derive(Serialize, JsonSchema)]
struct PoolUse {
    name: String,
    /// Size of all packs.
    bytes: u64,
    /// Number of bytes that fit now; absent if nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_max: Option<u64>,
}

/// A server.
#[derive(Serialize, JsonSchema)]
struct ServerDocument {
    address: String,
    version: String,
    started: Time,
    /// Seconds since its last sign of life.
    silent_secs: u64,
    keeps_house: bool,
    is_this: bool,
    /// Number of backups under way, for those who run the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    backups: Option<u64>,
    /// Number of nodes that are connected, for those who run the service. Each server knows its
    /// own only, so it is absent for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    connected: Option<usize>,
    /// Why the servers are held, and what ends the hold, for those who run the service: they remove
    /// nothing that their catalogue does not name.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
}

/// Words that nodes use, for forms.
#[derive(Serialize, JsonSchema)]
struct WordsDocument {
    items: Vec<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Service;
    let summary = "Lists the servers of the service with their use";
    routes.add(Operation::read("servers.list", "/v1/servers", area, summary), servers);
    let summary = "Lists the platforms on which nodes work";
    routes.add(Operation::read("platforms.list", "/v1/platforms", area, summary), platforms);
    let summary = "Lists the applications that nodes name";
    let path = "/v1/applications";
    routes.add(Operation::read("applications.list", path, area, summary), applications);
    let summary = "Returns the document of all operations, in the form of OpenAPI 3.1";
    let path = "/v1/openapi.json";
    routes.add(Operation::read("openapi.get", path, Area::Open, summary), document);
}

fn servers(call: &mut Call<Empty, Empty, Empty>) -> Answer<ServersDocument> {
    call.caller.check(Area::Service, Right::Read, Subject::Shared)?;
    let is_staff = call.caller.is_staff();
    let hold = if is_staff { call.desk.store().hold()? } else { None };
    let describe = |server: store::fleet::ServerSummary| ServerDocument {
        address: server.address,
        version: server.version,
        started: Time(server.started),
        silent_secs: server.silent.as_secs(),
        keeps_house: server.keeps_house,
        is_this: server.is_this,
        backups: is_staff.then_some(server.backups),
        connected: (is_staff && server.is_this).then(|| call.desk.office.connected().len()),
        hold: hold.map(|hold| hold.to_string()),
    };
    let servers = call.desk.store().servers();
    let together = if is_staff { Some(service_use(&call.desk)?) } else { None };
    Ok(ServersDocument { items: servers.into_iter().map(describe).collect(), together })
}

fn service_use(desk: &Desk) -> Answer<ServiceUse> {
    let store = desk.store();
    let describe = |row: PoolRow| {
        let usage = store.pools.usage(row.id);
        let bytes_max = Some(usage.bytes_max).filter(|bytes| *bytes > 0);
        PoolUse { name: row.name, bytes: usage.bytes, bytes_max }
    };
    let pools = store.catalog.pools()?.into_iter().map(describe).collect();
    Ok(ServiceUse { nodes: store.catalog.nodes()?.len(), pools })
}

fn platforms(_: &mut Call<Empty, Empty, Empty>) -> Answer<WordsDocument> {
    Ok(WordsDocument { items: PLATFORMS.map(str::to_owned).to_vec() })
}

fn applications(call: &mut Call<Empty, Empty, Empty>) -> Answer<WordsDocument> {
    let catalog = &call.desk.store().catalog;
    let nodes = catalog.nodes()?.into_iter();
    let nodes: BTreeMap<_, _> = nodes.map(|node| (node.id, node)).collect();
    let mut words = BTreeSet::new();
    for (id, details) in catalog.all_node_details()? {
        let Some(node) = nodes.get(&id) else { continue };
        let subject = Subject::of_node(node, Some(&details));
        if call.caller.may(Area::Nodes, Right::Read, subject) && !details.application.is_empty() {
            words.insert(details.application);
        }
    }
    Ok(WordsDocument { items: words.into_iter().collect() })
}

fn document(call: &mut Call<Empty, Empty, Empty>) -> Answer<Value> {
    Ok(call.desk.document.clone())
}
