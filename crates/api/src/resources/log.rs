//! The activity log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::lifecycle::audit_trail::{self, Filter};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::Portion;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// An entry of the activity log.
#[derive(Serialize, JsonSchema)]
struct EntryDocument {
    number: u64,
    time: Time,
    actor: String,
    what: String,
    details: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only entries of this time or later.
    from: Option<Time>,
    /// Only entries of this time or earlier.
    to: Option<Time>,
    /// Only entries of this node, or about it.
    node: Option<String>,
    /// Only entries whose kind has this text.
    kind: Option<String>,
    /// Only entries with this text in any field.
    text: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

/// Number of entries that are looked at for one page. A page of rare entries may have fewer items
/// than were asked for, and its cursor goes on from there.
const LOOKED_AT_MAX: usize = 50_000;

pub(super) fn add(routes: &mut Routes) {
    let summary = "Lists the activity log, newest first";
    routes.add(Operation::read("log.list", "/v1/log", Area::Log, summary), list);
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<EntryDocument>> {
    call.caller.check(Area::Log, Right::Read, Subject::Service)?;
    let ListQuery { from, to, node, kind, text, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let filter = Filter {
        from: from.map(|time| time.0),
        to: to.map(|time| time.0),
        node: node.clone(),
        kind: kind.clone(),
        text: text.clone(),
    };
    let first = portion.first_number()?;
    let looked_at = (portion.read_max(), LOOKED_AT_MAX);
    let found = audit_trail::list(call.desk.store(), &filter, first, looked_at)?;
    let key = |one: &catalog::LoggedEvent| one.number.to_string().into_bytes();
    let page = portion.page_until(found.events, key, found.next);
    let describe = |one: catalog::LoggedEvent| EntryDocument {
        number: one.number,
        time: Time(one.event.time),
        actor: one.event.actor,
        what: one.event.what,
        details: one.event.details,
    };
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
}
