//! Pools: made, changed and removed.

use std::sync::Arc;

use catalog::Collocation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::changes::Changes;
use store::pools::{self, NewPool, PoolChange, PoolSettings, PoolSummary};

use super::orders::PoolRemoval;
use crate::approval::{self, Order as _};
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

/// A pool.
#[derive(Serialize, JsonSchema)]
struct PoolDocument {
    name: String,
    url: String,
    is_copy: bool,
    is_available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    packs: u64,
    bytes: u64,
    /// Setting of the capacity in bytes; absent if what the place has is the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
    /// Number of bytes that fit now; absent if nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_max: Option<u64>,
    /// Sealed packs that a copy pool lacks, and their size.
    missing_packs: u64,
    missing_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    library: Option<String>,
    volumes: u32,
    disk_errors: u64,
    high_percent: u8,
    low_percent: u8,
    /// Days for which packs stay before they move to the next pool.
    delay_days: u16,
    collocation: CollocationName,
    /// Share of dead data, in per cent, from which a volume is emptied.
    reclaim_percent: u8,
    /// Days after which an emptied volume is used again.
    reuse_delay_days: u16,
}

/// Which packs share volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum CollocationName {
    No,
    Group,
    Node,
}

/// A new pool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewPoolBody {
    name: String,
    /// Place of the pool, as in file:///srv/pool, s3:... or library:NAME.
    url: String,
    /// True for a pool that keeps copies.
    #[serde(default)]
    is_copy: bool,
    #[serde(default)]
    settings: SettingsBody,
}

/// Settings of a pool. One that is absent stays as it is; null, as an empty name, removes a next
/// pool, and null, as 0, a capacity.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SettingsBody {
    next: Patch<String>,
    /// Capacity in bytes.
    capacity_bytes: Patch<u64>,
    high_percent: Patch<u8>,
    low_percent: Patch<u8>,
    delay_days: Patch<u16>,
    collocation: Patch<CollocationName>,
    reclaim_percent: Patch<u8>,
    reuse_delay_days: Patch<u16>,
}

/// A change of a pool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PoolChangeBody {
    #[serde(default)]
    settings: SettingsBody,
    /// True if the pool's disk is lost and an empty folder takes its place.
    #[serde(default)]
    is_replaced: bool,
}

#[derive(Deserialize, JsonSchema)]
struct PoolPath {
    /// Name of the pool.
    pool: String,
}

/// Fields that change while the server works.
const VOLATILE: &[&str] = &[
    "is_available",
    "packs",
    "bytes",
    "bytes_max",
    "missing_packs",
    "missing_bytes",
    "volumes",
    "disk_errors",
];

pub(super) fn add(routes: &mut Routes) {
    let (all, one, area) = ("/v1/pools", "/v1/pools/{pool}", Area::Storage);
    let summary = "Lists the pools";
    routes.add(Operation::read("pools.list", all, area, summary), list);
    let summary = "Makes a pool";
    let operation = Operation::post("pools.add", all, area, summary)
        .example(
            "copies",
            json!({
                "name": "COPIES",
                "url": "file:///srv/copies",
                "is_copy": true,
                "settings": { "reclaim_percent": 40 },
            }),
        )
        .example("tape", json!({ "name": "TAPE", "url": "tape:TL" }));
    routes.make(operation, make);
    let summary = "Describes a pool";
    let operation = Operation::read("pools.get", one, area, summary);
    routes.add(operation.volatile(VOLATILE), get);
    let summary = "Removes a pool; needs the approval of a second person where that is switched on";
    let operation = Operation::delete("pools.remove", one, area, summary);
    routes.change(operation.volatile(VOLATILE), current, remove);
    let summary = "Changes a pool";
    let operation = Operation::patch("pools.change", one, area, summary)
        .example("reclaim", json!({ "settings": { "reclaim_percent": 60 } }));
    routes.change(operation.volatile(VOLATILE), current, change);
}

fn describe(summary: PoolSummary) -> PoolDocument {
    let PoolSummary { row, next, usage, missing_packs, missing_bytes, .. } = summary;
    PoolDocument {
        name: row.name,
        url: row.url,
        is_copy: row.is_copy,
        is_available: usage.is_there,
        next,
        packs: usage.packs,
        bytes: usage.bytes,
        capacity_bytes: row.capacity_bytes,
        bytes_max: Some(usage.bytes_max).filter(|bytes| *bytes > 0),
        missing_packs,
        missing_bytes,
        library: summary.library,
        volumes: summary.volumes,
        disk_errors: summary.disk_errors,
        high_percent: row.high_percent,
        low_percent: row.low_percent,
        delay_days: row.delay_days,
        collocation: match row.collocation {
            Collocation::No => CollocationName::No,
            Collocation::Group => CollocationName::Group,
            Collocation::Node => CollocationName::Node,
        },
        reclaim_percent: row.reclaim_percent,
        reuse_delay_days: row.reuse_delay_days,
    }
}

fn settings(body: &SettingsBody) -> Answer<PoolSettings> {
    let (next, capacity) = (body.next.clone().emptied(), body.capacity_bytes.emptied());
    Ok(PoolSettings {
        next: next.map(|name| Some(name).filter(|name| !name.is_empty())),
        capacity: capacity.map(|bytes| Some(bytes).filter(|bytes| *bytes > 0)),
        high_percent: body.high_percent.required("high_percent")?,
        low_percent: body.low_percent.required("low_percent")?,
        delay_days: body.delay_days.required("delay_days")?,
        collocation: body.collocation.required("collocation")?.map(|name| match name {
            CollocationName::No => Collocation::No,
            CollocationName::Group => Collocation::Group,
            CollocationName::Node => Collocation::Node,
        }),
        reclaim_percent: body.reclaim_percent.required("reclaim_percent")?,
        reuse_delay_days: body.reuse_delay_days.required("reuse_delay_days")?,
    })
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<PoolDocument>> {
    call.caller.check(Area::Storage, Right::Read, Subject::Service)?;
    let portion = call.query.portion()?;
    let pools = pools::list(call.desk.store(), None)?;
    let mut pools: Vec<PoolDocument> = pools.into_iter().map(describe).collect();
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(portion.page_of(pools, |pool| pool.name.clone().into_bytes()))
}

pub(super) fn find(desk: &Desk, name: &str) -> Answer<PoolSummary> {
    let absent = || Problem::not_found("pool", name);
    match pools::list(desk.store(), Some(name)) {
        Ok(mut found) => found.pop().ok_or_else(absent),
        Err(store::StoreError::NotFound(_)) => Err(absent()),
        Err(error) => Err(error.into()),
    }
}

fn get(call: &mut Call<PoolPath, Empty, Empty>) -> Answer<PoolDocument> {
    call.caller.check(Area::Storage, Right::Read, Subject::Service)?;
    Ok(describe(find(&call.desk, &call.path.pool)?))
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &PoolPath) -> Answer<Vec<u8>> {
    caller.check(Area::Storage, Right::Write, Subject::Service)?;
    Ok(crate::routes::document(&describe(find(desk, &path.pool)?)))
}

fn make(call: &mut Call<Empty, Empty, NewPoolBody>) -> Answer<PoolDocument> {
    call.caller.check(Area::Storage, Right::Write, Subject::Service)?;
    let (store, body) = (call.desk.store(), &call.body);
    store.check_keeps_house()?;
    let NewPoolBody { name, url, is_copy, .. } = body;
    let settings = settings(&body.settings)?;
    let new = NewPool { name: name.clone(), url: url.clone(), is_copy: *is_copy, settings };
    let made = pools::add(store, &new)?;
    store::nodes::note(store, &call.caller.name, "pool made by request", name.clone())?;
    Ok(describe(made))
}

fn change(call: &mut Call<PoolPath, Empty, PoolChangeBody>) -> Answer<PoolDocument> {
    call.caller.check(Area::Storage, Right::Write, Subject::Service)?;
    let before = describe(find(&call.desk, &call.path.pool)?);
    let (store, body) = (call.desk.store(), &call.body);
    store.check_keeps_house()?;
    let name = before.name.clone();
    let (is_replaced, settings) = (body.is_replaced, settings(&body.settings)?);
    let after = describe(pools::change(store, &PoolChange { name, is_replaced, settings })?);
    let mut changes = differences(&before, &after);
    if is_replaced {
        changes.add("its disk was replaced");
    }
    let words = changes.of(&before.name);
    store::nodes::note(store, &call.caller.name, "pool changed by request", words)?;
    Ok(after)
}

fn differences(before: &PoolDocument, after: &PoolDocument) -> Changes {
    let next = |pool: &PoolDocument| pool.next.clone().unwrap_or_default();
    let capacity = |pool: &PoolDocument| {
        pool.capacity_bytes
            .map_or_else(|| "no limit".to_owned(), |bytes| bytes.to_string())
    };
    let collocation = |pool: &PoolDocument| match pool.collocation {
        CollocationName::No => "no",
        CollocationName::Group => "group",
        CollocationName::Node => "node",
    };
    let mut changes = Changes::default();
    changes.compare("next pool", next(before), next(after));
    changes.compare("capacity in bytes", capacity(before), capacity(after));
    changes.compare("high mark in %", before.high_percent, after.high_percent);
    changes.compare("low mark in %", before.low_percent, after.low_percent);
    changes.compare("delay in days", before.delay_days, after.delay_days);
    changes.compare("collocation", collocation(before), collocation(after));
    changes.compare("reclamation in %", before.reclaim_percent, after.reclaim_percent);
    changes.compare("reuse delay in days", before.reuse_delay_days, after.reuse_delay_days);
    changes
}

fn remove(call: &mut Call<PoolPath, Empty, Empty>) -> Answer<Empty> {
    call.caller.check(Area::Storage, Right::Write, Subject::Service)?;
    let removal = PoolRemoval::new(&find(&call.desk, &call.path.pool)?);
    approval::guard(&call.desk, &call.caller, &removal)?;
    removal.carry_out(&call.desk, &call.caller.name)?;
    Ok(Empty {})
}
