//! Victims: versions that cannot be restored because some of their chunks are lost.

use std::collections::BTreeMap;

use crate::error::StoreError;
use catalog::{Filespace, Node, PackState};
use model::{FilespaceId, NodeId, PackNumber, Place};

use crate::lifecycle::records::{self, Owner, Record, VisitEvent};
use crate::places::places;
use crate::store::Store;

/// Prefix of the marks with the number of versions of a node that need lost data. The number of the
/// node and the time of its registration follow: another node may get the number.
const LOST: &str = "versions lost of node ";
/// Maximum number of victims that are listed by name.
const NAMED_MAX: usize = 1000;

/// A version that cannot be restored completely.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Victim {
    pub node: String,
    /// Full path on the node.
    pub path: Vec<u8>,
    pub is_active: bool,
}

/// All versions that cannot be restored completely.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Victims {
    /// The victims that are listed by name, at most `NAMED_MAX`.
    pub named: Vec<Victim>,
    /// Number of all victims.
    pub count: u64,
    /// Number of the victims of each node.
    pub by_node: BTreeMap<NodeId, u64>,
}

impl Victims {
    fn add(&mut self, node: NodeId, victim: Victim) {
        self.count += 1;
        *self.by_node.entry(node).or_default() += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(victim);
        }
    }
}

/// Searches the whole catalogue for versions that name a lost chunk. A page or version that cannot
/// be decoded counts as one victim, with the path of its directory. Calls `goes_on` at intervals,
/// and fails with its error.
pub fn find(
    store: &Store,
    is_lost: &dyn Fn(Place) -> bool,
    goes_on: &mut dyn FnMut() -> Result<(), StoreError>,
) -> Result<Victims, StoreError> {
    let mut nodes: BTreeMap<NodeId, Node> = BTreeMap::new();
    let mut filespaces: BTreeMap<FilespaceId, Filespace> = BTreeMap::new();
    for node in store.catalog.nodes()? {
        for filespace in store.catalog.filespaces(node.id)? {
            filespaces.insert(filespace.id, filespace);
        }
        nodes.insert(node.id, node);
    }
    let path_of = |filespace: &FilespaceId, path: &[u8]| {
        let known = filespaces.get(filespace);
        match known.map_or(&b"/"[..], |known| model::mount_point(&known.name)) {
            b"/" => path.to_vec(),
            mount_point => [mount_point, path].concat(),
        }
    };
    let victim = |node: &NodeId, path: Vec<u8>, record: &Record| Victim {
        node: nodes.get(node).map(|node| node.name.to_string()).unwrap_or_default(),
        path,
        is_active: matches!(record, Record::Page(_)),
    };
    let mut victims = Victims::default();
    records::visit(store, &mut |seen| {
        let VisitEvent::Record(Owner { node, filespace }, record) = seen else { return goes_on() };
        let objects = match record.objects() {
            Ok(objects) => objects,
            // Nobody knows what was in the record, so all of it is lost.
            Err(StoreError::Damaged(_)) => {
                let path = path_of(&filespace, record.directory().as_bytes());
                victims.add(node, victim(&node, path, &record));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for object in objects.iter().filter(|object| places(object).any(is_lost)) {
            let path = path_of(&filespace, &record.directory().join(&object.name));
            victims.add(node, victim(&node, path, &record));
        }
        Ok(())
    })?;
    assert!(victims.named.len() as u64 <= victims.count, "each named victim is counted");
    Ok(victims)
}

fn mark_of(node: &Node) -> String {
    format!("{LOST}{} {}", node.id.0, node.registered.0)
}

/// Notes how many versions of each node are victims. `damaged` has the packs whose lost data was
/// looked for. With `is_whole`, it was looked for in all data, so if these are all damaged packs,
/// the other nodes have no victims. Otherwise what was noted of them stays: others may be in pools
/// that are away.
pub(crate) fn note(
    store: &Store,
    victims: &Victims,
    damaged: &dyn Fn(PackNumber) -> bool,
    is_whole: bool,
) -> Result<(), StoreError> {
    let is_all = is_whole && are_all_damaged(store, damaged)?;
    change(store, victims, |noted, found| match found {
        None if is_all => 0,
        found => found.unwrap_or(noted),
    })
}

/// Notes victims of the packs in `damaged`, of which an audit has not known. If there are other
/// damaged packs, the victims come on top of those that are noted: until the next audit, a version
/// with lost data in several packs counts more than once, and so does a record that cannot be
/// decoded.
pub(crate) fn note_more(
    store: &Store,
    victims: &Victims,
    damaged: &dyn Fn(PackNumber) -> bool,
) -> Result<(), StoreError> {
    if are_all_damaged(store, damaged)? {
        return note(store, victims, damaged, true);
    }
    change(store, victims, |noted, found| noted.saturating_add(found.unwrap_or(0)))
}

/// Returns true if each damaged pack is one of `damaged`.
fn are_all_damaged(
    store: &Store,
    damaged: &dyn Fn(PackNumber) -> bool,
) -> Result<bool, StoreError> {
    let rows = store.catalog.packs()?;
    let mut marked = rows.iter().filter(|row| row.state == PackState::Damaged);
    Ok(marked.all(|row| damaged(row.number)))
}

/// Notes for each node what `number` makes of its noted number of victims and of the found one, if
/// any were found.
fn change(
    store: &Store,
    victims: &Victims,
    number: impl Fn(i64, Option<i64>) -> i64,
) -> Result<(), StoreError> {
    let known = store.catalog.marks_of(LOST)?;
    let mut found: BTreeMap<String, Option<i64>> =
        known.keys().map(|mark| (mark.clone(), None)).collect();
    for node in store.catalog.nodes()? {
        if let Some(versions) = victims.by_node.get(&node.id) {
            found.insert(mark_of(&node), Some(i64::try_from(*versions).unwrap_or(i64::MAX)));
        }
    }
    let marks = found.into_iter().map(|(mark, found)| {
        let noted = known.get(&mark).copied().unwrap_or(0);
        (mark, number(noted, found))
    });
    let marks: BTreeMap<_, _> =
        marks.filter(|(mark, versions)| known.get(mark) != Some(versions)).collect();
    if marks.is_empty() {
        return Ok(());
    }
    Ok(store.catalog.set_marks(&marks)?)
}

/// Returns those of the nodes that have victims, with the number of their victims, as it was
/// noted last.
pub fn noted(store: &Store, nodes: &[Node]) -> Result<BTreeMap<NodeId, u64>, StoreError> {
    let marks = store.catalog.marks_of(LOST)?;
    let versions = |node: &Node| {
        let noted = u64::try_from(*marks.get(&mark_of(node))?).ok()?;
        (noted > 0).then_some((node.id, noted))
    };
    Ok(nodes.iter().filter_map(versions).collect())
}
