//! Archives of a node.

use schemars::JsonSchema;
use serde::Serialize;
use store::lifecycle::archive::{self, ArchiveSummary};

use super::found_node::find_node;
use super::nodes::NodePath;
use crate::call::{Answer, Call};
use crate::cursor::ListQuery;
use crate::fields::{Bytes, Empty, Page, Time};
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// An archive: the objects of one archive command, kept by time.
#[derive(Serialize, JsonSchema)]
struct ArchiveDocument {
    number: u64,
    description: String,
    made: Time,
    /// Paths of the file systems from which its objects come.
    filespaces: Vec<Bytes>,
    objects: u64,
    /// Size of its files.
    bytes: u64,
    /// True if everything that the command named is in it.
    is_complete: bool,
    /// True if it is kept whatever the rules say.
    is_held: bool,
    /// Time of the event from which some classes count their days.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Time>,
    /// Earliest time at which an object of it expires; absent until expiration has computed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Lists the archives of a node, newest first";
    let path = "/v1/nodes/{node}/archives";
    routes.add(Operation::read("archives.list", path, Area::Inventory, summary), list);
}

fn list(call: &mut Call<NodePath, ListQuery, Empty>) -> Answer<Page<ArchiveDocument>> {
    let portion = call.query.portion()?;
    let rights = (Area::Inventory, Right::Read);
    let node = find_node(&call.desk, &call.caller, &call.path.node, rights)?.node;
    let (from, limit) = (portion.first_number()?, portion.read_max());
    let archives = archive::list(call.desk.store(), &node, from, limit)?;
    let page = portion.page(archives, |one| one.row.number.to_string().into_bytes());
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
}

fn describe(ArchiveSummary { row, filespaces }: ArchiveSummary) -> ArchiveDocument {
    let place = |name: Vec<u8>| Bytes(model::mount_point(&name).to_vec());
    ArchiveDocument {
        number: row.number,
        description: row.description,
        made: Time(row.created),
        filespaces: filespaces.into_iter().map(place).collect(),
        objects: row.objects,
        bytes: row.bytes,
        is_complete: row.complete,
        is_held: row.held,
        event: row.event.map(Time),
        due: row.due.map(Time),
    }
}
