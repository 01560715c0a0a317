//! Enrolment keys, which name what their nodes get.

use catalog::EnrolmentKeyRow;

use crate::error::StoreError;
use crate::store::Store;

/// Fails if a valid key gives its nodes `what`, which is to be removed: the key would enrol no node
/// any more. `gives` returns true for such a key.
pub(crate) fn check_unnamed(
    store: &Store,
    what: &str,
    gives: impl Fn(&EnrolmentKeyRow) -> bool,
) -> Result<(), StoreError> {
    let now = sys::clock::now();
    let keys = store.catalog.enrolment_keys()?;
    match keys.iter().find(|key| key.is_valid(now) && gives(key)) {
        None => Ok(()),
        Some(key) => Err(StoreError::conflict(format!(
            "{what} stays: enrolment key {0} gives it to its nodes; first end the key with \
             'holdfast admin enrolment-key revoke {0}'",
            key.name
        ))),
    }
}
