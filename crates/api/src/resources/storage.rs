//! Volumes, libraries, and the recall queue, as they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::volumes::{
    DriveState, DriveSummary, LibrarySummary, QueueEntry, VolumeFilter, VolumeKey, VolumeSummary,
};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::Portion;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Character between library and volume in a cursor. No name has it.
const SEPARATOR: char = '\u{1}';

/// A volume.
#[derive(Serialize, JsonSchema)]
struct VolumeDocument {
    library: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    state: String,
    access: String,
    location: String,
    written_bytes: u64,
    live_bytes: u64,
    errors: u32,
    changed: Time,
}

/// A library.
#[derive(Serialize, JsonSchema)]
struct LibraryDocument {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    away_since: Option<Time>,
    drives: Vec<DriveDocument>,
}

/// A drive of a library.
#[derive(Serialize, JsonSchema)]
struct DriveDocument {
    address: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    product: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    wants_cleaning: bool,
}

/// A reader that waits for volumes.
#[derive(Serialize, JsonSchema)]
struct QueueDocument {
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    since: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    packs: u32,
    packs_done: u32,
    /// Number of requests for the same volume that are served before.
    ahead: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate_secs: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct VolumesQuery {
    /// Only volumes of this library.
    library: Option<String>,
    /// Only volumes of this pool.
    pool: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Storage;
    let summary = "Lists the volumes";
    routes.add(Operation::read("volumes.list", "/v1/volumes", area, summary), list_volumes);
    let summary = "Lists the libraries with their drives";
    routes.add(Operation::read("libraries.list", "/v1/libraries", area, summary), list_libraries);
    let summary = "Lists the readers that wait for volumes, in the order in which they came";
    routes.add(Operation::read("recall-queue.list", "/v1/recall-queue", area, summary), list_queue);
}

fn check<P, Q, B>(call: &Call<P, Q, B>) -> Answer<()> {
    call.caller.check(Area::Storage, Right::Read, Subject::Service)
}

fn list_volumes(call: &mut Call<Empty, VolumesQuery, Empty>) -> Answer<Page<VolumeDocument>> {
    check(call)?;
    let VolumesQuery { library, pool, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let filter = VolumeFilter { library: library.clone(), pool: pool.clone(), volume: None };
    let (library, name) = portion.first_text()?.split_once(SEPARATOR).unwrap_or_default();
    let from = VolumeKey { library: library.to_owned(), name: name.to_owned() };
    let store = call.desk.store();
    let volumes = store.volumes.list(&filter, &from, portion.read_max())?;
    let key = |one: &VolumeSummary| {
        format!("{}{SEPARATOR}{}", one.row.library, one.row.name).into_bytes()
    };
    let page = portion.page(volumes, key);
    let describe = |VolumeSummary { row, pool, live_bytes }| VolumeDocument {
        library: row.library,
        name: row.name,
        pool,
        state: format!("{:?}", row.state).to_lowercase(),
        access: format!("{:?}", row.access).to_lowercase(),
        location: row.location,
        written_bytes: row.written_bytes,
        live_bytes,
        errors: row.errors,
        changed: Time(row.changed),
    };
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
}

fn drive(summary: DriveSummary) -> DriveDocument {
    let state = match summary.state {
        DriveState::Empty => "empty",
        DriveState::Mounting => "mounting",
        DriveState::Idle => "idle",
        DriveState::Reading => "reading",
        DriveState::Writing => "writing",
        DriveState::Failed => "failed",
        DriveState::Away => "away",
    };
    DriveDocument {
        address: summary.address,
        product: summary.product,
        serial: summary.serial,
        volume: summary.volume,
        state,
        problem: summary.problem,
        wants_cleaning: summary.wants_cleaning,
    }
}

fn list_libraries(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<LibraryDocument>> {
    check(call)?;
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let libraries = call.desk.store().volumes.libraries(None, false)?;
    let describe = |LibrarySummary { row, problem, away_since, drives, .. }| LibraryDocument {
        name: row.name,
        problem,
        away_since: away_since.map(Time),
        drives: drives.into_iter().map(drive).collect(),
    };
    let libraries = libraries.into_iter().map(describe).collect();
    Ok(portion.page_of(libraries, |one: &LibraryDocument| one.name.clone().into_bytes()))
}

fn list_queue(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<QueueDocument>> {
    check(call)?;
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let describe = |entry: QueueEntry| QueueDocument {
        number: entry.number,
        node: entry.reader.node,
        since: Time(entry.since),
        volume: entry.volume,
        packs: entry.packs,
        packs_done: entry.packs_done,
        ahead: entry.ahead,
        estimate_secs: entry.estimate.map(|estimate| estimate.as_secs()),
    };
    let queue = call.desk.store().volumes.queue(None)?;
    let queue = queue.into_iter().map(describe).collect();
    Ok(portion.page_of(queue, |one: &QueueDocument| format!("{:020}", one.number).into_bytes()))
}
