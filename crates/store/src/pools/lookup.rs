//! Lookup of pools by name, and the lock that admits one run over packs at a time.

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

/// Keeps other runs over packs away until the guard is dropped. Fails while one goes on.
pub(super) fn only(store: &Store) -> Result<MutexGuard<'_, ()>, StoreError> {
    store.try_tend().ok_or_else(|| {
        StoreError::busy(
            "packs are being copied, moved or repaired, or pools changed; try again in a while",
        )
    })
}
