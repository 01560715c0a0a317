//! Announcement of changes to the servers of the catalogue.

use catalog::Write;

use crate::error::StoreError;
use crate::store::Store;

/// Name of the mark that grows with each change of schedules, followers, wishes or option sets.
const CHANGE_MARK: &str = "schedules";

/// Makes the change known to all servers.
pub(crate) fn announce(store: &Store) -> Result<(), StoreError> {
    let value = store.catalog.mark(CHANGE_MARK)?.unwrap_or(0).wrapping_add(1);
    Ok(store.catalog.commit(vec![Write::SetMark { name: CHANGE_MARK, value }])?)
}

/// Returns a number that grows with each change of schedules, followers, wishes or option
/// sets. Servers of one
/// catalogue look at it to learn of changes.
pub fn generation(store: &Store) -> Result<i64, StoreError> {
    Ok(store.catalog.mark(CHANGE_MARK)?.unwrap_or(0))
}
