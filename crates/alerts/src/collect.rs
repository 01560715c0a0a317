//! The facts of a running server, for the rules.

use std::collections::BTreeMap;
use std::path::Path;

use catalog::{
    Amount, Day, DrillRow, LoggedRun, PackState, SessionRow, TaskEnd, UsageDay, UsageSubject,
};
use model::{DomainId, NodeId, ServerTime};
use store::folder::config::CA_CERTIFICATE;
use store::lifecycle::{catalog_copy, clock, victims};
use store::pools::{self, PoolSummary};
use store::{Store, StoreError, quotas};
use x509_parser::pem::Pem;

use crate::deletions::{self, Counts};
use crate::facts::{CopyFacts, DeletionFacts, Facts, NodeFacts, PoolFacts, TaskFacts};
use crate::rules::{self, DAY_MICROS};

/// Time in microseconds over which outcomes of events are read.
const OUTCOMES_MICROS: i64 = 3 * DAY_MICROS;
/// Number of days over which the growth of a pool is measured.
const GROWTH_DAYS: i64 = 14;
/// Number of finished backups that are read at once, and of those before them.
const SESSIONS_MAX: usize = 1_000;
const BEFORE_MAX: usize = 10;
/// Number of the last backups of a node among which those of a filespace are looked for.
const NODE_SESSIONS: usize = 200;

/// Facts that a look remembers for the next one.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Number and time of the newest copy of the catalogue.
    copy: Option<(u64, ServerTime)>,
}

/// Reads the facts. `sessions` are finished backups that no look has examined.
pub(crate) fn collect(
    store: &Store,
    memory: &mut Memory,
    sessions: &[(u64, SessionRow)],
) -> Result<Facts, StoreError> {
    let (catalog, now) = (&store.catalog, sys::clock::now());
    let summaries = pools::list(store, None)?;
    let today = now.0.div_euclid(DAY_MICROS);
    let usage = catalog.pack_usage()?;
    let damaged = usage.iter().filter(|usage| usage.state == PackState::Damaged);
    let damaged_packs: u64 = damaged.map(|usage| usage.packs).sum();
    let nodes = nodes(store, now, damaged_packs > 0)?;
    let volumes = catalog.volumes()?.into_iter().filter(|volume| volume.errors > 0);
    Ok(Facts {
        now,
        schedules: catalog.schedules()?.into_iter().map(|schedule| schedule.name).collect(),
        outcomes: catalog.event_outcomes(ServerTime(now.0 - OUTCOMES_MICROS))?,
        pools: summaries
            .iter()
            .map(|pool| pool_facts(store, pool, today))
            .collect::<Result<_, _>>()?,
        refuses_data: store.pools.refuses_data(),
        hold: store.hold()?,
        domains: quotas::domains_near(
            &**catalog,
            catalog.domains()?.iter(),
            nodes.iter().map(|node| node.domain),
        )?,
        volumes: volumes.map(|volume| (volume.name, volume.errors)).collect(),
        tasks: tasks(catalog.last_task_runs()?),
        distrusts_clock: !clock::is_trusted(store)?,
        copy: copy(store, memory, &nodes),
        damaged_packs,
        certificates: certificates(store),
        deletions: deletions(store, sessions)?,
        nodes,
    })
}

/// Reads the facts about nodes. Without damaged packs, what audits have noted of lost versions is
/// over.
fn nodes(store: &Store, now: ServerTime, is_damaged: bool) -> Result<Vec<NodeFacts>, StoreError> {
    let catalog = &store.catalog;
    let all = catalog.nodes()?;
    let lost = if is_damaged { victims::noted(store, &all)? } else { BTreeMap::new() };
    let backups: BTreeMap<NodeId, ServerTime> = catalog.last_backups()?.into_iter().collect();
    let ends: BTreeMap<NodeId, ServerTime> = catalog.certificate_ends()?.into_iter().collect();
    let mut drills: BTreeMap<(NodeId, bool), DrillRow> = BTreeMap::new();
    for drill in catalog.drills(None)? {
        drills.insert((drill.node, drill.is_good), drill);
    }
    let mut old = old_filespaces(store, now)?;
    let facts = |node: catalog::Node| NodeFacts {
        id: node.id,
        name: node.name.to_string(),
        domain: node.domain,
        registered: node.registered,
        is_locked: node.locks.any(),
        last_backup: backups.get(&node.id).copied(),
        old_filespaces: old.remove(&node.id).unwrap_or_default(),
        certificate_end: ends.get(&node.id).copied(),
        good_drill: drills.get(&(node.id, true)).map(|drill| drill.at),
        failed_drill: drills.get(&(node.id, false)).map(|drill| (drill.at, drill.reason.clone())),
        lost_versions: lost.get(&node.id).copied().unwrap_or_default(),
    };
    Ok(all.into_iter().map(facts).collect())
}

/// Returns the mount points whose last good backups are so old that they may be worth an alert.
/// Images are made when somebody wants one.
fn old_filespaces(
    store: &Store,
    now: ServerTime,
) -> Result<BTreeMap<NodeId, Vec<(String, ServerTime)>>, StoreError> {
    let mut old: BTreeMap<NodeId, Vec<(String, ServerTime)>> = BTreeMap::new();
    let days = store.config.alerts.filespace_days;
    let Some(oldest) = rules::oldest(now, days, DAY_MICROS) else { return Ok(old) };
    for filespace in store.catalog.filespaces_backed_up_before(oldest)? {
        let Some(last) = filespace.last_backup else { continue };
        if filespace.name.starts_with(b"/") {
            let name = model::escaped(&filespace.name);
            old.entry(filespace.node).or_default().push((name, last));
        }
    }
    Ok(old)
}

fn pool_facts(store: &Store, pool: &PoolSummary, today: i64) -> Result<PoolFacts, StoreError> {
    let span = (Day(today - GROWTH_DAYS), Day(today - 1));
    let days = store.catalog.usage_days(UsageSubject::Pool(pool.row.id), span)?;
    Ok(PoolFacts {
        name: pool.row.name.clone(),
        is_there: pool.usage.is_there,
        bytes: pool.usage.bytes,
        bytes_max: pool.usage.bytes_max,
        disk_errors: pool.disk_errors,
        days: days.into_iter().map(|day| (day.day.0, day.bytes)).collect(),
    })
}

/// Returns the last run of each task that has ended and was not cancelled. `runs` come the last
/// begun first.
fn tasks(runs: Vec<LoggedRun>) -> Vec<TaskFacts> {
    let mut last: BTreeMap<String, TaskFacts> = BTreeMap::new();
    for LoggedRun { run, .. } in runs {
        let Some(end) = run.ended.filter(|end| end.code != TaskEnd::CANCELLED) else { continue };
        last.entry(run.task.clone()).or_insert(TaskFacts {
            task: run.task,
            ended: end.at,
            has_failed: end.code >= TaskEnd::FAILED,
            reason: end.reason,
        });
    }
    last.into_values().collect()
}

fn copy(store: &Store, memory: &mut Memory, nodes: &[NodeFacts]) -> CopyFacts {
    let newest = catalog_copy::numbers(&store.pools).last().map(|(number, _)| *number);
    let known = memory.copy.filter(|(number, _)| Some(*number) == newest);
    let read = newest.and_then(|number| {
        let copy = catalog_copy::load(&store.pools, number).ok()?;
        Some((number, copy.taken))
    });
    memory.copy = known.or(read);
    let first = nodes.iter().map(|node| node.registered).min();
    match (memory.copy, newest, first) {
        (Some((_, taken)), _, _) => CopyFacts::Taken(taken),
        (None, None, Some(since)) if store.config.catalog_copy_hours > 0 => {
            CopyFacts::None { since }
        }
        _ => CopyFacts::Unknown,
    }
}

/// Returns the certificates of the server that can be read. One that cannot be read keeps the
/// server from starting, so it needs no alert.
fn certificates(store: &Store) -> Vec<(&'static str, ServerTime)> {
    let authority = end_of(&store.folder.join(CA_CERTIFICATE));
    let api = store.config.api_certificate.as_deref().and_then(end_of);
    let named = [("the server's authority", authority), ("the API", api)];
    named.into_iter().filter_map(|(what, end)| Some((what, end?))).collect()
}

/// Returns the end of the first certificate in a file.
fn end_of(path: &Path) -> Option<ServerTime> {
    let bytes = std::fs::read(path).ok()?;
    let pem = Pem::iter_from_buffer(&bytes).next()?.ok()?;
    let end = pem.parse_x509().ok()?.validity().not_after.timestamp();
    Some(ServerTime(end.saturating_mul(1_000_000)))
}

/// Returns the backups that found far more deleted than the backups of the filespace before.
fn deletions(
    store: &Store,
    sessions: &[(u64, SessionRow)],
) -> Result<Vec<DeletionFacts>, StoreError> {
    let mut found = Vec::new();
    let settings = &store.config.alerts;
    for (_, session) in sessions {
        let Some(counts) = Counts::parse(&session.report) else { continue };
        if settings.deleted_objects == 0 || counts.expired < settings.deleted_objects {
            continue;
        }
        let before = before(store, session)?;
        let Some(usual) = deletions::usual(settings, counts.expired, &before) else { continue };
        let filespaces = store.catalog.filespaces(session.node)?;
        let filespace = filespaces.iter().find(|one| one.id == session.filespace);
        let name = filespace.map(|one| model::escaped(&one.name)).unwrap_or_default();
        found.push(DeletionFacts {
            node: session.node,
            filespace: name,
            ended: session.ended,
            deleted: counts.expired,
            usual,
        });
    }
    Ok(found)
}

/// Returns the numbers of the backups of a filespace before `session`.
fn before(store: &Store, session: &SessionRow) -> Result<Vec<Counts>, StoreError> {
    let all = store.catalog.sessions(session.node, NODE_SESSIONS)?;
    let is_before =
        |other: &&SessionRow| other.filespace == session.filespace && other.ended < session.ended;
    let before = all.iter().filter(is_before).take(BEFORE_MAX);
    Ok(before.filter_map(|other| Counts::parse(&other.report)).collect())
}

/// Returns the finished backups after the number `last`, which no look has examined.
pub(crate) fn new_sessions(store: &Store, last: u64) -> Result<Vec<(u64, SessionRow)>, StoreError> {
    Ok(store.catalog.sessions_after(last, SESSIONS_MAX)?)
}

/// Returns the space that pools take today, and the sizes of what domains have stored.
pub(crate) fn usage_of_today(store: &Store, now: ServerTime) -> Result<Vec<UsageDay>, StoreError> {
    let day = Day::of(now);
    let pools = pools::list(store, None)?;
    let there = pools.iter().filter(|pool| pool.usage.is_there);
    let of = |pool: &PoolSummary| UsageDay {
        subject: UsageSubject::Pool(pool.row.id),
        day,
        bytes: pool.usage.bytes,
        bytes_max: pool.usage.bytes_max,
    };
    // Domains can share their packs, so a pack tells nothing about one of them.
    let of_domain = |(domain, amount): (DomainId, Amount)| UsageDay {
        subject: UsageSubject::Domain(domain),
        day,
        bytes: amount.bytes,
        bytes_max: 0,
    };
    let domains = store.catalog.amounts()?.into_iter().map(of_domain);
    Ok(there.map(of).chain(domains).collect())
}
