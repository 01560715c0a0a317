//! The copies of the catalogue that the catalogue itself knows.
//!
//! The number of a copy is recorded in the catalogue before a pool gets the copy's list. So if a
//! pool has a higher number, somebody has put an older catalogue in place, for example with a
//! snapshot of the machine's disk. Such a catalogue does not name the packs that came later.

use catalog::{Catalog, CatalogError, Write};
use pool::Pools;

/// Mark in the catalogue with the highest number that a copy has had.
const LAST_NUMBER: &str = "catalogue copies";
/// Ending of the names of lists.
pub(crate) const EXTENSION: &str = ".copy";
/// Maximum number of a copy. A file with a higher number is no list.
pub(crate) const NUMBER_MAX: u64 = 1_000_000_000_000_000_000;
const _: () = assert!(NUMBER_MAX < i64::MAX.unsigned_abs(), "a mark can have each number");

/// Returns the number of the copy whose list has this name; `None` if it is another file.
pub(crate) fn number(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(EXTENSION)?.parse().ok()?;
    (number <= NUMBER_MAX).then_some(number)
}

/// Returns the highest number that a copy has had, if a copy was made with this catalogue.
pub(crate) fn last_number(catalog: &dyn Catalog) -> Result<Option<u64>, CatalogError> {
    Ok(catalog.mark(LAST_NUMBER)?.and_then(|last| u64::try_from(last).ok()))
}

pub(crate) fn set_last_number(number: u64) -> Write {
    Write::SetMark { name: LAST_NUMBER, value: i64::try_from(number).unwrap_or(i64::MAX) }
}

/// Returns the number of the newest copy in the pools, if the catalogue is older than that copy.
pub(super) fn newer_copy(
    catalog: &dyn Catalog,
    pools: &Pools,
) -> Result<Option<u64>, CatalogError> {
    // The pools are listed first: another server may be making a copy.
    let listed = pools.present().into_iter().filter_map(|pool| pools.files(pool).ok());
    let newest = listed.flatten().filter_map(|name| number(&name)).max();
    let known = last_number(catalog)?.unwrap_or(0);
    Ok(newest.filter(|newest| *newest > known))
}
