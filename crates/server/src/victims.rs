//! Which versions are lost with the chunks that they need.

use std::collections::BTreeMap;

use catalog::{Filespace, Node};
use model::{FilespaceId, NodeId, Place};
use tonic::Status;

use crate::core::Core;
use crate::records::{self, Owner, Record, Seen};
use crate::refusal;
use crate::restore::places;

/// Versions named at most.
const NAMED_MAX: usize = 1000;

/// A version that cannot be restored as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Victim {
    pub node: String,
    /// On the node, from `/`.
    pub path: Vec<u8>,
    pub is_active: bool,
}

/// The versions that cannot be restored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Victims {
    /// The first of them.
    pub named: Vec<Victim>,
    /// All of them.
    pub count: u64,
}

/// Reads the catalogue for versions that need a chunk of which `is_lost` says so. `goes_on` is
/// asked now and then.
pub(crate) fn find(
    core: &Core,
    is_lost: &dyn Fn(Place) -> bool,
    goes_on: &mut dyn FnMut() -> Result<(), Status>,
) -> Result<Victims, Status> {
    let failed = |error| refusal::catalog(&error);
    let mut nodes: BTreeMap<NodeId, Node> = BTreeMap::new();
    let mut filespaces: BTreeMap<FilespaceId, Filespace> = BTreeMap::new();
    for node in core.catalog.nodes().map_err(failed)? {
        for filespace in core.catalog.filespaces(node.id).map_err(failed)? {
            filespaces.insert(filespace.id, filespace);
        }
        nodes.insert(node.id, node);
    }
    let mut victims = Victims::default();
    records::visit(core, &mut |seen| {
        let Seen::Record(Owner { node, filespace }, record) = seen else { return goes_on() };
        for object in record.objects()? {
            if !places(&object).any(is_lost) {
                continue;
            }
            victims.count += 1;
            if victims.named.len() == NAMED_MAX {
                continue;
            }
            let known = filespaces.get(&filespace);
            let mount_point = known.map_or(&b"/"[..], |known| model::mount_point(&known.name));
            let path = record.directory().join(&object.name);
            let path = if mount_point == b"/" { path } else { [mount_point, &path].concat() };
            victims.named.push(Victim {
                node: nodes.get(&node).map(|node| node.name.to_string()).unwrap_or_default(),
                path,
                is_active: matches!(record, Record::Page(_)),
            });
        }
        Ok(())
    })?;
    Ok(victims)
}
