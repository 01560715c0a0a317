//! Check of a catalogue in a file: whether its database is sound and every page can be decoded.
//!
//! The check reads a copy of the catalogue that was made at one moment. So backups go on meanwhile,
//! and a catalogue in a database is checked in the same way.

use std::collections::BTreeSet;
use std::path::Path;

use catalog::sqlite::inspection::{self, BulkRow, MissingObjects};
use format::catalog_copy::Census;
use format::page;
use model::{DirPath, FilespaceId, Object, ServerTime};

use crate::error::StoreError;

/// Maximum number of damaged directories that are listed.
const DIRECTORIES_MAX: usize = 1000;
/// Factor by which a catalogue may shrink between two copies. A catalogue that has lost more may
/// have been replaced by another one, and its copy replaces no other.
const SHRINKING_MAX: u64 = 2;
/// Number of rows below which a catalogue may shrink by any factor.
const FEW: u64 = 100;

/// A directory with a page or a version that cannot be decoded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DamagedDirectory {
    pub filespace: FilespaceId,
    pub directory: DirPath,
}

/// Findings about a catalogue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CatalogCheck {
    /// Faults of the database, in its own words.
    pub faults: Vec<String>,
    /// The first directories with damaged pages or versions.
    pub directories: BTreeSet<DamagedDirectory>,
    /// Number of pages and versions that cannot be decoded.
    pub damaged_rows: u64,
    /// Number of readable versions that were made after the moment to which the check compares.
    pub later_versions: u64,
    pub census: Census,
    /// Filespaces with fewer objects than the catalogue has counted.
    pub missing: Vec<MissingObjects>,
}

impl CatalogCheck {
    /// True if nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.damaged_rows == 0
    }

    fn note(&mut self, filespace: FilespaceId, directory: DirPath) {
        self.damaged_rows += 1;
        if self.directories.len() < DIRECTORIES_MAX {
            self.directories.insert(DamagedDirectory { filespace, directory });
        }
    }

    /// Reason why a copy of this catalogue must not replace the copy with the numbers `before`;
    /// `None` if there is none.
    pub(crate) fn doubt(&self, before: Option<Census>) -> Option<String> {
        if let Some(fault) = self.faults.first() {
            return Some(format!("the catalogue is damaged: {fault}"));
        }
        if self.damaged_rows > 0 {
            let rows = crate::counts::counted(self.damaged_rows, "row");
            return Some(format!("the catalogue is damaged: {rows} cannot be read"));
        }
        let (before, now) = (before?, self.census);
        let shrinks = [
            ("nodes", before.nodes, now.nodes),
            ("filespaces", before.filespaces, now.filespaces),
            ("directory pages", before.pages, now.pages),
        ];
        let is_odd = |(_, before, now): &(&str, u64, u64)| has_shrunk(*before, *now);
        let (what, before, now) = shrinks.into_iter().find(is_odd)?;
        Some(format!("the catalogue has {now} {what}, and had {before} at the copy before"))
    }

    /// Reason to believe that the catalogue has lost objects; `None` if there is none.
    ///
    /// The number of versions says nothing by itself, because an expiration may end most of them.
    /// But the catalogue counts its objects in the same transaction in which it changes them.
    pub(crate) fn loss(&self) -> Option<String> {
        let is_odd = |missing: &&MissingObjects| has_shrunk(missing.counted, missing.present);
        let MissingObjects { filespace, counted, present } = self.missing.iter().find(is_odd)?;
        let FilespaceId(number) = filespace;
        Some(format!("filespace {number} has {present} of the {counted} objects that were counted"))
    }
}

/// Returns true if a number of rows has fallen so far that rows may be lost.
fn has_shrunk(before: u64, now: u64) -> bool {
    before >= FEW && now.saturating_mul(SHRINKING_MAX) < before
}

/// Checks the catalogue in the file `path`, which nobody writes. Counts the versions that were made
/// after `since`.
pub fn check(path: &Path, since: Option<ServerTime>) -> Result<CatalogCheck, StoreError> {
    let mut check = CatalogCheck::default();
    let is_later = |object: &&Object| since.is_some_and(|since| object.inserted > since);
    let inspected = inspection::inspect(path, &mut |row| match row {
        BulkRow::Page { filespace, page } => {
            let objects: Result<Vec<Object>, _> = page::decode(&page.body);
            match objects.ok().filter(|all| all.len() == page.object_count as usize) {
                Some(all) => check.later_versions += all.iter().filter(is_later).count() as u64,
                None => check.note(filespace, page.key.directory),
            }
        }
        BulkRow::Version { filespace, directory, body } => {
            let object: Result<Vec<Object>, _> = page::decode(body);
            match object.ok().filter(|object| object.len() == 1) {
                Some(all) => check.later_versions += all.iter().filter(is_later).count() as u64,
                None => check.note(filespace, directory),
            }
        }
    })?;
    let inspection::Inspection { faults, census, missing } = inspected;
    Ok(CatalogCheck { faults, census, missing, ..check })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(nodes: u64, pages: u64) -> Census {
        Census { nodes, filespaces: nodes, pages, versions: 0 }
    }

    #[track_caller]
    fn check_doubt(before: Census, now: Census, expected: Option<&str>) {
        let check = CatalogCheck { census: now, ..CatalogCheck::default() };
        assert_eq!(check.doubt(Some(before)).as_deref(), expected);
    }

    #[test]
    fn a_catalogue_that_has_lost_most_of_its_rows_is_doubted() {
        check_doubt(census(3, 1000), census(3, 1000), None);
        check_doubt(census(3, 1000), census(1, 500), None);
        let lost = "the catalogue has 499 directory pages, and had 1000 at the copy before";
        check_doubt(census(3, 1000), census(3, 499), Some(lost));
        check_doubt(census(99, 99), census(0, 0), None);
        let lost = "the catalogue has 0 nodes, and had 100 at the copy before";
        check_doubt(census(100, 0), census(0, 0), Some(lost));
        assert_eq!(CatalogCheck::default().doubt(None), None, "the first copy");
    }

    #[test]
    fn a_filespace_that_has_lost_most_of_its_objects_is_doubted() {
        let loss = |counted, present| {
            let missing = vec![MissingObjects { filespace: FilespaceId(7), counted, present }];
            CatalogCheck { missing, ..CatalogCheck::default() }.loss()
        };
        assert_eq!(loss(1000, 500), None);
        assert_eq!(loss(99, 0), None);
        let lost = "filespace 7 has 499 of the 1000 objects that were counted";
        assert_eq!(loss(1000, 499).as_deref(), Some(lost));
    }

    #[test]
    fn a_damaged_catalogue_is_doubted_whatever_its_size() {
        let faults = vec!["malformed".to_owned()];
        let check = CatalogCheck { faults, ..CatalogCheck::default() };
        assert_eq!(check.doubt(None).as_deref(), Some("the catalogue is damaged: malformed"));
        let check = CatalogCheck { damaged_rows: 1, ..CatalogCheck::default() };
        let one = "the catalogue is damaged: 1 row cannot be read";
        assert_eq!(check.doubt(None).as_deref(), Some(one));
    }
}
