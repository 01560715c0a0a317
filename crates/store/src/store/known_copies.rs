//! The copies of the catalogue that the catalogue itself knows.
//!
//! The number of a copy is recorded in the catalogue before a pool gets the copy's list. So if a
//! pool has a higher number, somebody has put an older catalogue in place, for example with a
//! snapshot of the machine's disk. Such a catalogue does not name the packs that came later.

use std::collections::BTreeSet;

use catalog::{Catalog, CatalogError, Write};
use model::PackNumber;

use super::Store;
use crate::lifecycle::catalog_copy;

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

impl Store {
    /// Returns the number of the newest copy in the pools, if the catalogue is older than that copy.
    pub(super) fn newer_copy(&self) -> Result<Option<u64>, CatalogError> {
        // The pools are listed first: another server may be making a copy.
        let newest = catalog_copy::numbers(&self.pools).last().map(|(number, _)| *number);
        match newest {
            Some(newest) if self.lacks_copy(newest)? => Ok(Some(newest)),
            _ => Ok(None),
        }
    }

    /// Returns true if the catalogue is older than copy `newest`, which has the highest number.
    fn lacks_copy(&self, newest: u64) -> Result<bool, CatalogError> {
        if let Some(known) = last_number(&*self.catalog)? {
            return Ok(newest > known);
        }
        // The catalogue is older than its first copy, or a version of the program made the copies
        // that recorded no numbers. That version recorded the packs of its copies.
        let Some(copy) = catalog_copy::all(self).pop() else { return Ok(false) };
        let rows = self.catalog.packs()?;
        let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
        Ok(copy.places.iter().any(|place| !known.contains(&place.pack())))
    }
}
