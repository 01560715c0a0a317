//! Lookup of pools by name, and the lock that allows only one run over packs at a time.

use catalog::PoolRow;
use sys::lock::MutexGuard;

use crate::error::StoreError;
use crate::store::Store;

pub(super) fn find(store: &Store, name: &str) -> Result<PoolRow, StoreError> {
    let rows = store.catalog.pools()?;
    let found = rows.into_iter().find(|row| row.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        StoreError::not_found(format!(
            "there is no pool {name}; 'holdfast admin pool list' shows all"
        ))
    })
}

/// Text of the error of a run that another run keeps out.
pub(super) const OTHER_RUN: &str =
    "packs are being copied, moved or repaired, or pools are changed; try again later";

/// Locks out other runs over packs until the guard is dropped. Fails while another run is active.
pub(super) fn only(store: &Store) -> Result<MutexGuard<'_, ()>, StoreError> {
    store.try_tend().ok_or_else(|| StoreError::busy(OTHER_RUN))
}
