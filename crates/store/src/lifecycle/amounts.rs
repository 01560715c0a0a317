//! Counts of filespaces: the first count of those that are older than the amounts of the catalogue,
//! and a new count of those that have lost objects.

use std::collections::BTreeSet;

use catalog::{Amount, Filespace, Growth};
use model::FilespaceId;

use crate::error::StoreError;
use crate::lifecycle::expire;
use crate::lifecycle::records::{self, Owner, Record, VisitEvent};
use crate::store::Store;

/// Maximum number of filespaces that are counted by one run.
const FILESPACES_MAX: usize = 64;
/// Number of deleted versions that are read at once.
const TRASH_BATCH: usize = 1000;

/// Counts some of the filespaces that are not counted yet. Those with a backup under way wait for
/// the next run, and all of them while an expiration runs. Returns true if none is left.
pub fn count_some(store: &Store) -> Result<bool, StoreError> {
    let waiting = store.catalog.uncounted(FILESPACES_MAX)?;
    if waiting.is_empty() {
        return Ok(true);
    }
    let _only = match expire::keep_out(store) {
        Err(StoreError::Busy(_)) => return Ok(false),
        only => only?,
    };
    for filespace in waiting {
        count_if_free(store, &filespace)?;
    }
    store.quotas.forget();
    Ok(false)
}

/// Counts the filespaces `wrong` again, whose amounts are not what is there. Returns false if some
/// of them are in use, and keep their amounts.
pub(crate) fn count_again(
    store: &Store,
    wrong: &BTreeSet<FilespaceId>,
) -> Result<bool, StoreError> {
    if wrong.is_empty() {
        return Ok(true);
    }
    let _only = match expire::keep_out(store) {
        Err(StoreError::Busy(_)) => return Ok(false),
        only => only?,
    };
    let mut is_all = true;
    for node in store.catalog.nodes()? {
        let filespaces = store.catalog.filespaces(node.id)?.into_iter();
        for filespace in filespaces.filter(|one| wrong.contains(&one.id)) {
            is_all &= count_if_free(store, &filespace)?;
        }
    }
    store.quotas.forget();
    Ok(is_all)
}

/// Counts a filespace. Returns false if a backup of the filespace is under way.
fn count_if_free(store: &Store, filespace: &Filespace) -> Result<bool, StoreError> {
    let _claim = match store.claim(filespace.id) {
        Err(StoreError::Busy(_)) => return Ok(false),
        claim => claim?,
    };
    store.catalog.count_filespace(filespace, count(store, filespace)?)?;
    Ok(true)
}

/// Counts the versions of a filespace. Nobody may change it meanwhile.
fn count(store: &Store, filespace: &Filespace) -> Result<Amount, StoreError> {
    let mut amount = Amount::default();
    let owner = Owner { node: filespace.node, filespace: filespace.id };
    records::of_filespace(store, owner, &mut |event| {
        if let VisitEvent::Record(_, record) = event {
            amount = amount.grown(held(&record));
        }
        Ok(())
    })?;
    for deletion in store.catalog.deletions(Some(filespace.node))? {
        let mut skip = 0;
        loop {
            let batch = store.catalog.trash(deletion.number, skip, TRASH_BATCH)?;
            if batch.is_empty() {
                break;
            }
            skip += batch.len();
            for trashed in batch.into_iter().filter(|one| one.filespace == filespace.id) {
                amount = amount.grown(held(&Record::Trash(deletion.number, trashed.version)));
            }
        }
    }
    Ok(amount)
}

/// Returns what a record holds. The objects of a damaged record have no bytes.
fn held(record: &Record) -> Growth {
    let damaged = match record {
        Record::Page(row) => i64::from(row.object_count),
        Record::Version(_) | Record::Trash(..) => 1,
    };
    match record.objects() {
        Ok(objects) => objects.iter().map(Growth::of).fold(Growth::default(), Growth::plus),
        Err(_) => Growth { objects: damaged, bytes: 0 },
    }
}

#[cfg(test)]
pub(crate) use tests::check;

#[cfg(test)]
mod tests;
