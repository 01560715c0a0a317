//! Copies of the catalogue in the pools.

use schemars::JsonSchema;
use serde::Serialize;
use store::lifecycle::catalog_copy::{self, CopySummary};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::ListQuery;
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

pub(super) fn add(routes: &mut Routes) {
    let summary = "Lists the copies of the catalogue in the pools, newest first";
    let path = "/v1/catalog-copies";
    routes.add(Operation::read("catalog-copies.list", path, Area::Tasks, summary), list);
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<CopyDocument>> {
    call.caller.check(Area::Tasks, Right::Read, Subject::Service)?;
    let portion = call.query.portion()?;
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
