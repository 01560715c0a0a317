//! Copies of the catalogue in the pools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::lifecycle::catalog_copy::{self, CopySummary};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::Portion;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// A copy of the catalogue.
#[derive(Serialize, JsonSchema)]
struct CopyDocument {
    number: u64,
    taken: Time,
    /// Size of the catalogue.
    bytes: u64,
    pools: Vec<String>,
    /// True if the catalogue was damaged when it was copied, or had lost most of its rows.
    is_doubtful: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Lists the copies of the catalogue in the pools, newest first";
    let path = "/v1/catalog-copies";
    routes.add(Operation::read("catalog-copies.list", path, Area::Tasks, summary), list);
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<CopyDocument>> {
    call.caller.check(Area::Tasks, Right::Read, Subject::Service)?;
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let describe = |copy: CopySummary| CopyDocument {
        number: copy.number,
        taken: Time(copy.taken),
        bytes: copy.bytes,
        pools: copy.pools,
        is_doubtful: copy.is_doubtful,
    };
    let copies = catalog_copy::list(call.desk.store())?.into_iter().map(describe).collect();
    let key = |one: &CopyDocument| format!("{:020}", u64::MAX - one.number).into_bytes();
    Ok(portion.page_of(copies, key))
}
