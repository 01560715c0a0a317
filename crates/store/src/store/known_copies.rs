//! The copies of the catalogue that the catalogue itself knows, and a newer copy that it lacks.
//!
//! The number of a copy is recorded in the catalogue before a pool gets the copy's list. So if a
//! pool has a higher number, somebody has put an older catalogue in place, for example with a
//! snapshot of the machine's disk. Such a catalogue does not name the packs that came later.
//!
//! 1. From the moment at which a server notices this, it keeps everything, as after a recovery.
//! 2. It makes no copy of the older catalogue: that copy would be the newest one, and a recovery
//!    would use it. A mark in the catalogue says so while the pool with the newer copy is away.
//! 3. Both end when an administrator releases the server. The next copy then gets a higher number
//!    than the newer copy has, so that the hold does not begin again.
//! 4. While the pool with the newer copy is away, nobody notices, and the older catalogue makes
//!    copies. When the pool is back, the two have different copies of one number, and the server is
//!    held too. A release accepts all numbers up to the highest one.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use catalog::actor::SERVER;
use catalog::{Catalog, CatalogError, EventRow, Write};
use model::PackNumber;

use super::Store;
use crate::error::StoreError;
use crate::folder::error::OpenError;
use crate::folder::hold::{self, HOLD_FILE, Hold};
use crate::lifecycle::catalog_copy;

/// Mark in the catalogue with the highest number that a copy has had.
const LAST_NUMBER: &str = "catalogue copies";
/// Mark in the catalogue with the number of a copy that is newer than the catalogue; 0 if no copy
/// is newer.
const NEWER_COPY: &str = "newer catalogue copy";
/// Mark in the catalogue with the number of which two pools have different copies; 0 if there is
/// none.
const PARTED_COPY: &str = "parted catalogue copy";
/// Mark in the catalogue with the highest number up to which copies are not compared: the pools had
/// equal copies, or an administrator has accepted that they differ.
const ACCEPTED_COPY: &str = "accepted catalogue copy";
/// Kind of the event that records that the catalogue is older than a copy.
pub(crate) const OLDER: &str = "catalogue is older";
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
    set_mark(LAST_NUMBER, number)
}

/// Returns why the server is held, if a copy was noticed that knows what the catalogue lacks.
pub(crate) fn noticed(catalog: &dyn Catalog) -> Result<Option<Hold>, CatalogError> {
    if let Some(copy) = marked(catalog, NEWER_COPY)? {
        return Ok(Some(Hold::Older { copy }));
    }
    Ok(marked(catalog, PARTED_COPY)?.map(|copy| Hold::Parted { copy }))
}

/// Returns the number of a copy that a mark has.
fn marked(catalog: &dyn Catalog, name: &str) -> Result<Option<u64>, CatalogError> {
    let copy = catalog.mark(name)?.and_then(|copy| u64::try_from(copy).ok());
    Ok(copy.filter(|copy| *copy > 0))
}

/// Forgets which copy was noticed. Up to the number `last`, pools may have different copies.
pub(crate) fn forget_noticed(last: u64) -> [Write; 3] {
    [set_mark(NEWER_COPY, 0), set_mark(PARTED_COPY, 0), set_mark(ACCEPTED_COPY, last)]
}

fn set_mark(name: &'static str, number: u64) -> Write {
    Write::SetMark { name, value: i64::try_from(number.min(NUMBER_MAX)).unwrap_or(i64::MAX) }
}

/// Returns the write that records why the server is held; `None` after a recovery, which the
/// folder records.
fn mark_of(hold: Hold) -> Option<Write> {
    match hold {
        Hold::Recovered => None,
        Hold::Older { copy } => Some(set_mark(NEWER_COPY, copy)),
        Hold::Parted { copy } => Some(set_mark(PARTED_COPY, copy)),
    }
}

/// Returns the words of the audit trail for the beginning of a hold.
fn details(hold: Hold) -> String {
    match hold {
        Hold::Recovered => "the server is held".to_owned(),
        Hold::Older { copy } => {
            format!("older than its copy {copy} in the pools; the server is held")
        }
        Hold::Parted { copy } => {
            format!("two pools have different copies {copy}; the server is held")
        }
    }
}

fn warn(hold: Hold) {
    tracing::error!(reason = %hold, "the server is held: nothing is removed");
}

impl Store {
    /// Returns the reason why the servers of the catalogue are held; `None` if they are not. A
    /// server is held after a recovery, or if a copy knows what its catalogue lacks, until an
    /// administrator has released it.
    pub fn hold(&self) -> Result<Option<Hold>, CatalogError> {
        // The mark is asked first: a report of this server that began before the hold clears the
        // flag once more.
        if let Some(hold) = noticed(&*self.catalog)? {
            return Ok(Some(hold));
        }
        Ok(self.recovered.load(Ordering::Relaxed).then_some(Hold::Recovered))
    }

    /// Fails while the server is held.
    pub(crate) fn check_released(&self) -> Result<(), StoreError> {
        self.hold()?.map_or(Ok(()), |hold| Err(StoreError::conflict(hold.to_string())))
    }

    /// Begins the hold if pools that are there at the start have a copy that knows what the
    /// catalogue lacks.
    pub(super) fn hold_if_older(&self) -> Result<(), OpenError> {
        let was_noticed = noticed(&*self.catalog)?.is_some();
        let newest = catalog_copy::numbers(&self.pools).last().map(|(number, _)| *number);
        let hold = self.notice_newer_copy(newest)?;
        if let Some(hold) = hold.filter(|_| was_noticed) {
            warn(hold);
        }
        self.notice_parted_copies()
    }

    /// Begins the hold if `newest`, the highest number of a copy in the pools, shows that the
    /// catalogue is older than that copy. Returns why the server is held, even if it was noticed
    /// before.
    ///
    /// The caller lists the pools before this call, because another server may be making a copy.
    pub(crate) fn notice_newer_copy(&self, newest: Option<u64>) -> Result<Option<Hold>, OpenError> {
        let known = noticed(&*self.catalog)?;
        let newer = match newest {
            Some(newest) if self.lacks_copy(newest)? => Some(newest),
            _ => None,
        };
        let hold = match (known, newer) {
            (Some(Hold::Older { copy }), newer) => {
                Hold::Older { copy: newer.map_or(copy, |newer| newer.max(copy)) }
            }
            (_, Some(copy)) => Hold::Older { copy },
            (Some(hold), None) => hold,
            (None, None) => return Ok(None),
        };
        self.keep_everything(hold, known)?;
        Ok(Some(hold))
    }

    /// Begins the hold if two pools have different copies with one number. If all pools are there
    /// and have equal copies, these copies are not compared again: an older catalogue that is put
    /// in place later has an older mark, too.
    pub(crate) fn notice_parted_copies(&self) -> Result<(), OpenError> {
        if noticed(&*self.catalog)?.is_some() {
            return Ok(());
        }
        let accepted = || marked(&*self.catalog, ACCEPTED_COPY).map(|copy| copy.unwrap_or(0));
        let found = catalog_copy::compare(&self.pools, accepted()?);
        // The comparison may take long, and the servers may have been released meanwhile.
        let accepted = accepted()?;
        if let Some(copy) = found.parted.filter(|copy| *copy > accepted) {
            return self.keep_everything(Hold::Parted { copy }, None);
        }
        if let Some(last) = found.equal.filter(|last| *last > accepted) {
            self.catalog.commit(vec![set_mark(ACCEPTED_COPY, last)])?;
        }
        Ok(())
    }

    /// Begins the hold, unless the server is held already, and records why, unless that is `known`.
    fn keep_everything(&self, hold: Hold, known: Option<Hold>) -> Result<(), OpenError> {
        let begins = !self.is_held()?;
        self.recovered.store(true, Ordering::Relaxed);
        let mut writes = Vec::new();
        if known != Some(hold) {
            writes.extend(mark_of(hold));
        }
        if begins {
            warn(hold);
            let (actor, what) = (SERVER.to_owned(), OLDER.to_owned());
            let event = EventRow { time: sys::clock::now(), actor, what, details: details(hold) };
            writes.push(Write::AddEvent(event));
        }
        // The mark comes first: with it the next start begins a hold that a crash prevented.
        if !writes.is_empty() {
            self.catalog.commit(writes)?;
        }
        if begins {
            self.begin_hold()?;
        }
        Ok(())
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

    fn is_held(&self) -> Result<bool, CatalogError> {
        match &self.fleet {
            None => Ok(hold::is_held(&self.folder)),
            Some(fleet) => Ok(fleet.postgres.roll()?.is_held),
        }
    }

    fn begin_hold(&self) -> Result<(), OpenError> {
        let path = self.folder.join(HOLD_FILE);
        match &self.fleet {
            None => hold::hold(&self.folder).map_err(|source| OpenError::File { path, source }),
            Some(fleet) => Ok(fleet.postgres.hold(true)?),
        }
    }
}
