//! Baselines that nodes keep at the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::lifecycle::baselines;

use super::found_node::find_node;
use super::nodes::NodePath;
use crate::call::{Answer, Call};
use crate::cursor::ListQuery;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// A kept baseline of a node.
#[derive(Serialize, JsonSchema)]
struct BaselineItem {
    number: u64,
    made: Time,
}

/// A kept baseline of a node, with what was measured.
#[derive(Serialize, JsonSchema)]
struct BaselineDocument {
    number: u64,
    made: Time,
    /// The document as the node made it: what was measured, in its own form.
    document: Value,
}

#[derive(Deserialize, JsonSchema)]
struct BaselinePath {
    /// Name of the node.
    node: String,
    /// Number of the baseline.
    baseline: u64,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Work;
    let summary = "Lists the baselines that the server keeps of a node, oldest first";
    let path = "/v1/nodes/{node}/baselines";
    routes.add(Operation::read("baselines.list", path, area, summary), list);
    let summary = "Shows a kept baseline of a node";
    let path = "/v1/nodes/{node}/baselines/{baseline}";
    routes.add(Operation::read("baselines.get", path, area, summary), get);
}

fn list(call: &mut Call<NodePath, ListQuery, Empty>) -> Answer<Page<BaselineItem>> {
    let portion = call.query.portion()?;
    let rights = (Area::Work, Right::Read);
    let node = find_node(&call.desk, &call.caller, &call.path.node, rights)?.node;
    let (from, limit) = (portion.first_number()?, portion.read_max());
    let rows = baselines::list(call.desk.store(), &node, from, limit)?;
    let items = rows.into_iter();
    let items = items.map(|row| BaselineItem { number: row.number, made: Time(row.made) });
    Ok(portion.page(items.collect(), |one: &BaselineItem| one.number.to_string().into_bytes()))
}

fn get(call: &mut Call<BaselinePath, Empty, Empty>) -> Answer<BaselineDocument> {
    let BaselinePath { node, baseline: number } = &call.path;
    let node = find_node(&call.desk, &call.caller, node, (Area::Work, Right::Read))?.node;
    let (number, absent) = (*number, || Problem::not_found("baseline", &number.to_string()));
    if i64::try_from(number).is_err() {
        return Err(absent());
    }
    let rows = baselines::list(call.desk.store(), &node, Some(number), 1)?;
    let row = rows.into_iter().find(|row| row.number == number).ok_or_else(absent)?;
    let damaged = || Problem::new(Kind::Damaged, "the baseline cannot be read");
    let document = wire::decode_baseline(&row.document).ok_or_else(damaged)?;
    let document = serde_json::from_slice(&document).map_err(|_| damaged())?;
    Ok(BaselineDocument { number, made: Time(row.made), document })
}
