//! Usage: the numbers of versions in a filespace, and the space of their data, by class.
//!
//! The catalogue is read page by page. For each class, one bit is kept for each chunk that its
//! versions name, so that data that occurs several times counts once.

use std::collections::BTreeMap;

use catalog::Filespace;
use format::pack::Table;
use model::{ClassId, Kind, Object};

use super::named_chunks::{Bits, NamedChunks};
use super::records::{self, Owner, Record, VisitEvent};
use crate::places::places;
use crate::{Store, StoreError};

/// Versions of one class, and the space of their data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub active_objects: u64,
    /// Sizes of files, as they are on the node.
    pub active_bytes: u64,
    pub inactive_versions: u64,
    pub inactive_bytes: u64,
    /// Space that the data takes in one pool. Of a quantum, the share of the named chunks counts.
    pub stored_bytes: u64,
    /// Number of packs that cannot be read, and whose data does not count.
    pub packs_unread: u64,
}

impl Usage {
    fn count(&mut self, object: &Object, is_active: bool) {
        let bytes = if object.stat.kind == Kind::File { object.stat.size } else { 0 };
        let (number, sum) = match is_active {
            true => (&mut self.active_objects, &mut self.active_bytes),
            false => (&mut self.inactive_versions, &mut self.inactive_bytes),
        };
        *number += 1;
        *sum = sum.saturating_add(bytes);
    }
}

/// Name for all classes that no policy has any more. No class can have it. Classes are numbered
/// over all domains, so a number would tell how many others have.
pub(crate) const REMOVED: &str = "(removed)";

/// Names of classes.
pub type ClassNames = BTreeMap<ClassId, String>;

/// Returns the names of all classes.
pub fn class_names(store: &Store) -> Result<ClassNames, StoreError> {
    let domains = store.catalog.domains()?;
    let classes = domains.into_iter().flat_map(|domain| domain.active.classes);
    Ok(classes.map(|class| (class.id, class.name)).collect())
}

/// Returns the usage of a filespace by the name of the class; classes without a name count as one,
/// which comes last. Ends with an error when `goes_on` returns false. Damaged records do not count.
pub fn of_filespace(
    store: &Store,
    filespace: &Filespace,
    names: &ClassNames,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<(String, Usage)>, StoreError> {
    let mut by_class: BTreeMap<Option<ClassId>, (Usage, NamedChunks)> = BTreeMap::new();
    let owner = Owner { node: filespace.node, filespace: filespace.id };
    records::of_filespace(store, owner, &mut |event| {
        let VisitEvent::Record(_, record) = event else {
            let cancelled = || StoreError::cancelled("the count was cancelled");
            return if goes_on() { Ok(()) } else { Err(cancelled()) };
        };
        let is_active = matches!(record, Record::Page(_));
        for object in record.objects().unwrap_or_default() {
            let class = Some(object.class).filter(|class| names.contains_key(class));
            let (usage, named) = by_class.entry(class).or_default();
            usage.count(&object, is_active);
            for place in places(&object) {
                named.entry(place.pack()).or_default().set(place.index());
            }
        }
        Ok(())
    })?;
    let removed = by_class.remove(&None).map(|counted| (None, counted));
    let weighed = |(class, (usage, named)): (Option<ClassId>, (Usage, NamedChunks))| {
        let name = class.and_then(|class| names.get(&class)).map_or(REMOVED, String::as_str);
        (name.to_owned(), with_space(store, usage, &named))
    };
    Ok(by_class.into_iter().chain(removed).map(weighed).collect())
}

/// Adds the space of the chunks in `named`.
fn with_space(store: &Store, mut usage: Usage, named: &NamedChunks) -> Usage {
    for (pack, bits) in named {
        match store.pools.table(*pack) {
            Ok(table) => usage.stored_bytes += stored_bytes(&table, bits),
            Err(_) => usage.packs_unread += 1,
        }
    }
    usage
}

/// Returns the share of the records of a pack that belongs to the named chunks.
fn stored_bytes(table: &Table, named: &Bits) -> u64 {
    let of_quantum = |quantum: &format::pack::QuantumEntry| {
        let (mut own, mut all) = (0_u64, 0_u64);
        for index in quantum.first_index..quantum.first_index + quantum.chunk_count {
            let bytes = table.chunk(index).map_or(0, |(bytes, _)| u64::from(bytes));
            all += bytes;
            own += if named.has(index) { bytes } else { 0 };
        }
        assert!(own <= all, "the named chunks are chunks of the quantum");
        (u64::from(quantum.record_bytes) * own).checked_div(all).unwrap_or_default()
    };
    table.quanta().iter().map(of_quantum).sum()
}

#[cfg(test)]
mod tests {
    use model::{ChunkDigest, PackNumber};

    use super::*;
    use crate::DOMAIN;

    #[test]
    fn a_quantum_counts_by_its_named_chunks() {
        let mut table = Table::new(PackNumber(1), DOMAIN);
        table.push(1_000, &[300, 100], &[ChunkDigest([1; 32]), ChunkDigest([2; 32])]);
        table.push(50, &[70], &[ChunkDigest([3; 32])]);
        let named = |indices: &[u32]| {
            let mut bits = Bits::default();
            indices.iter().for_each(|index| bits.set(*index));
            stored_bytes(&table, &bits)
        };
        assert_eq!(named(&[]), 0);
        assert_eq!(named(&[1]), 250);
        assert_eq!(named(&[0, 1, 2]), 1_050);
    }
}
