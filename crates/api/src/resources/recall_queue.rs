//! The recall queue: readers that wait for volumes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::nodes::note;
use store::volumes::QueueEntry;

use super::libraries::{check_change, check_read};
use crate::call::{Answer, Call};
use crate::cursor::ListQuery;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::Area;
use crate::routes::Routes;

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
struct WaitPath {
    /// Number of the reader.
    wait: u64,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Storage;
    let summary = "Lists the readers that wait for volumes, in the order in which they came";
    routes.add(Operation::read("recall-queue.list", "/v1/recall-queue", area, summary), list);
    let summary = "Takes a reader out of the recall queue; its work fails";
    let path = "/v1/recall-queue/{wait}";
    routes.add(Operation::delete("recall-queue.cancel", path, area, summary), cancel);
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<QueueDocument>> {
    check_read(call)?;
    let portion = call.query.portion()?;
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

fn cancel(call: &mut Call<WaitPath, Empty, Empty>) -> Answer<Empty> {
    check_change(call)?;
    let store = call.desk.store();
    let number = call.path.wait;
    let is_waiting = store.volumes.queue(None)?.iter().any(|entry| entry.number == number);
    if !is_waiting {
        return Err(Problem::not_found("reader in the recall queue", &number.to_string()));
    }
    store.volumes.queue(Some(number))?;
    note(store, &call.caller.name, "recall cancelled", number.to_string())?;
    Ok(Empty {})
}
