//! Adding, changing and removing libraries for an administrator, and work at libraries.

use std::path::Path;
use std::sync::Arc;

use catalog::LibraryRow;
use catalog::actor::ADMINISTRATOR;
use format::volume::VolumeName;
use tape::address::Address;
use tape::library::{Library, LibraryError};

use super::holdings::{Volumes, library_of};
use super::listing::LibrarySummary;
use super::site;
use super::site::{Site, is_same};
use crate::error::StoreError;
use crate::names;

/// Default time for which an idle volume stays mounted.
const RETAIN_SECS: u32 = 300;
const RETAIN_SECS_MAX: u32 = 86_400;
const DRIVES_MAX: u32 = 256;
/// Minimum capacity of a volume in a folder: a few blocks.
const CAPACITY_BYTES_MIN: u64 = 1 << 20;

/// Description of a new library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewLibrary {
    pub name: String,
    pub devices: Devices,
    /// Capacity of each volume in a folder.
    pub capacity_bytes: Option<u64>,
    pub settings: LibrarySettings,
}

/// The devices of a library, or the folder in their place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Devices {
    Changer { address: String, drives: Vec<String> },
    Folder { path: String },
}

/// Settings of a library; `None` leaves a setting as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LibrarySettings {
    /// Maximum number of volumes that are mounted at once; 0 for the default of the library.
    pub drives_max: Option<u32>,
    /// Time for which an idle volume stays mounted.
    pub retain_secs: Option<u32>,
    /// True if a migrated file may be recalled only with a list of files.
    pub optimised_only: Option<bool>,
    /// Maximum number of drives that write at once.
    pub writers_max: Option<u32>,
}

/// Work at a library that an administrator orders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LibraryWork {
    /// Moves the volumes in the import/export elements to slots.
    CheckIn,
    /// Moves the volume from an import/export element to a slot.
    CheckInVolume(VolumeName),
    /// Moves the volume to an import/export element, so that a person can take it out.
    CheckOut(VolumeName),
    /// Cleans the drive with this element address.
    Clean(u16),
    /// Uses the drive with this element address again.
    RestoreDrive(u16),
    /// Makes the changer inspect every element.
    LookAgain,
}

/// Direction in which a volume passes the door of a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passage {
    In,
    Out,
}

fn of_library(error: &LibraryError) -> StoreError {
    let text = model::chain(error);
    match error {
        LibraryError::UnknownDrive(_) => StoreError::not_found(text),
        _ => StoreError::conflict(text),
    }
}

impl Volumes {
    pub(crate) fn open_site(self: &Arc<Self>, row: LibraryRow) -> Arc<Site> {
        let listener = self.listener(&row.name);
        let volumes: Vec<_> = self.rows().values().cloned().collect();
        Arc::new(Site::open(row, &volumes, listener))
    }

    /// Tries again to use libraries and drives that could not be used.
    pub fn look_after_sites(self: &Arc<Self>) {
        for site in self.sites() {
            match &site.operator {
                Ok(operator) if operator.has_drives() || operator.waits_for_drives() => {
                    operator.try_again();
                }
                // The devices may be reachable again.
                _ => self.replace_site(site),
            }
        }
    }

    /// Closes a library that cannot be used, and opens it again.
    fn replace_site(self: &Arc<Self>, before: Arc<Site>) {
        let (row, since) = (before.row(), before.fault_since);
        self.sites_mut().retain(|site| !Arc::ptr_eq(site, &before));
        // The lock of the old site would keep even this process away from the library.
        drop(before);
        let volumes: Vec<_> = self.rows().values().cloned().collect();
        let mut site = Site::open(row.clone(), &volumes, self.listener(&row.name));
        site.fault_since = site.fault_since.map(|now| since.unwrap_or(now));
        self.sites_mut().push(Arc::new(site));
    }

    /// Adds a library.
    pub fn add_library(self: &Arc<Self>, new: NewLibrary) -> Result<LibrarySummary, StoreError> {
        names::check_name(&new.name, "a library")?;
        if self.site(&new.name).is_ok() {
            let message = format!("library {} already exists; choose another name", new.name);
            return Err(StoreError::conflict(message));
        }
        let settings = new.settings;
        let row = change(new_row(new)?, settings)?;
        if let Some(folder) = &row.folder {
            let made = std::fs::create_dir_all(folder).and_then(|()| site::mark(folder));
            made.map_err(|error| StoreError::usage(format!("{folder}: {error}")))?;
        }
        let site = self.open_site(row.clone());
        if let Err(fault) = &site.operator {
            return Err(StoreError::conflict(fault.to_string()));
        }
        self.catalog.put_library(&row)?;
        self.sites_mut().push(Arc::clone(&site));
        self.commit(vec![self.event(ADMINISTRATOR, "library added", site.name.clone())])?;
        Ok(self.describe_library(&site, false))
    }

    /// Changes the settings of a library.
    pub fn change_library(
        &self,
        name: &str,
        settings: LibrarySettings,
    ) -> Result<LibrarySummary, StoreError> {
        let site = self.site(name)?;
        let row = change(site.row(), settings)?;
        self.catalog.put_library(&row)?;
        site.configure(row);
        self.commit(vec![self.event(ADMINISTRATOR, "library changed", site.name.clone())])?;
        Ok(self.describe_library(&site, false))
    }

    /// Removes a library from the catalogue. Fails if a pool or a volume belongs to the library.
    pub fn remove_library(&self, name: &str) -> Result<LibrarySummary, StoreError> {
        let site = self.site(name)?;
        let refuse = |message: String| Err(StoreError::conflict(message));
        let pools = self.catalog.pools()?;
        let is_in = |url: &str| library_of(url).is_some_and(|library| is_same(library, name));
        if let Some(pool) = pools.iter().find(|pool| is_in(&pool.url)) {
            return refuse(format!(
                "pool {} is in library {name}; remove the pool first",
                pool.name
            ));
        }
        if let Some(row) = self.rows().values().find(|row| is_same(&row.library, name)) {
            return refuse(format!(
                "volume {} belongs to library {name}; remove it first with 'holdfast admin volume \
                 remove'",
                row.name
            ));
        }
        let info = self.describe_library(&site, false);
        self.catalog.remove_library(name)?;
        self.sites_mut().retain(|other| !Arc::ptr_eq(other, &site));
        self.commit(vec![self.event(ADMINISTRATOR, "library removed", info.row.name.clone())])?;
        Ok(info)
    }

    /// Does the work at the library `name`.
    pub fn serve_library(
        &self,
        name: &str,
        work: &LibraryWork,
    ) -> Result<LibrarySummary, StoreError> {
        let site = self.site(name)?;
        let operator = site.operator()?;
        if let LibraryWork::RestoreDrive(address) = *work {
            if !operator.restore_drive(address) {
                let has_it = |library: &mut Library| {
                    library.drives().iter().any(|drive| drive.address == address)
                };
                if operator.with_library(has_it) == Some(false) {
                    return Err(of_library(&LibraryError::UnknownDrive(address)));
                }
                let message = format!("drive {address} is not out of service");
                return Err(StoreError::conflict(message));
            }
            return Ok(self.describe_library(&site, true));
        }
        let done = operator.with_library(|library| carry_out(library, work));
        done.unwrap_or_else(|| {
            let message = format!("library {name} is a folder and has no changer");
            Err(StoreError::conflict(message))
        })?;
        Ok(self.describe_library(&site, true))
    }

    /// Moves a volume out of a library, or back into it. A library in a folder needs no move.
    pub(crate) fn move_volume(
        &self,
        site: &Site,
        name: &VolumeName,
        passage: Passage,
    ) -> Result<(), StoreError> {
        let operator = site.operator()?;
        let moved = operator.with_library(|library| match passage {
            Passage::Out => library.check_out(name).map(drop),
            Passage::In => library.check_in_volume(name).map(drop),
        });
        moved.unwrap_or(Ok(())).map_err(|error| of_library(&error))
    }

    pub(crate) fn event_of(&self, what: &str, details: String) -> Result<(), StoreError> {
        self.commit(vec![self.event(ADMINISTRATOR, what, details)])
    }
}

fn carry_out(library: &mut Library, work: &LibraryWork) -> Result<(), StoreError> {
    let done = match work {
        LibraryWork::CheckIn => library.check_in().map(drop),
        LibraryWork::CheckInVolume(name) => match library.check_in_volume(name) {
            Ok(false) => {
                let message = format!("volume {name} is not in an import/export element");
                return Err(StoreError::conflict(message));
            }
            moved => moved.map(drop),
        },
        LibraryWork::CheckOut(name) => library.check_out(name).map(drop),
        LibraryWork::Clean(drive) => library.clean(*drive),
        LibraryWork::LookAgain => library.look_again(),
        // The operator restores drives, not the changer.
        LibraryWork::RestoreDrive(_) => Ok(()),
    };
    done.map_err(|error| of_library(&error))
}

fn new_row(new: NewLibrary) -> Result<LibraryRow, StoreError> {
    let NewLibrary { name, devices, capacity_bytes, .. } = new;
    let (changer, drives, folder) = match devices {
        Devices::Changer { address, drives } => {
            for text in drives.iter().chain([&address]) {
                text.parse::<Address>()
                    .map_err(|error| StoreError::usage(format!("{text}: {error}")))?;
            }
            (Some(address), drives, None)
        }
        Devices::Folder { path } if !Path::new(&path).is_absolute() => {
            return Err(StoreError::usage(format!("{path} is relative; give the whole path")));
        }
        Devices::Folder { path } => (None, Vec::new(), Some(path)),
    };
    if capacity_bytes.is_some_and(|bytes| bytes < CAPACITY_BYTES_MIN) {
        return Err(StoreError::usage("the capacity of a volume must be at least 1 MiB"));
    }
    Ok(LibraryRow {
        name,
        changer,
        drives,
        folder,
        capacity_bytes,
        drives_max: 0,
        retain_secs: RETAIN_SECS,
        optimised_only: false,
        writers_max: 0,
    })
}

fn change(mut row: LibraryRow, settings: LibrarySettings) -> Result<LibraryRow, StoreError> {
    if let Some(drives) = settings.drives_max {
        if drives > DRIVES_MAX {
            let message = format!("the number of mounts must be at most {DRIVES_MAX}");
            return Err(StoreError::usage(message));
        }
        row.drives_max = drives;
    }
    if let Some(secs) = settings.retain_secs {
        if secs > RETAIN_SECS_MAX {
            return Err(StoreError::usage(
                "an idle volume must not stay mounted for more than a day",
            ));
        }
        row.retain_secs = secs;
    }
    if let Some(writers) = settings.writers_max {
        if writers > DRIVES_MAX {
            let message = format!("the number of writers must be at most {DRIVES_MAX}");
            return Err(StoreError::usage(message));
        }
        row.writers_max = writers;
    }
    if let Some(optimised_only) = settings.optimised_only {
        row.optimised_only = optimised_only;
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(devices: Devices, capacity_bytes: Option<u64>) -> NewLibrary {
        let settings = LibrarySettings::default();
        NewLibrary { name: "VAULT".to_owned(), devices, capacity_bytes, settings }
    }

    #[test]
    fn a_library_has_usable_devices() {
        let folder = |path: &str| Devices::Folder { path: path.to_owned() };
        assert!(new_row(new(folder("/srv/vault"), None)).is_ok());
        assert!(new_row(new(folder("vault"), None)).is_err(), "a relative path is refused");
        assert!(new_row(new(folder("/srv/vault"), Some(1))).is_err(), "a block needs more room");
    }

    #[test]
    fn settings_stay_within_bounds() {
        let row = new_row(new(Devices::Folder { path: "/srv/vault".to_owned() }, None));
        let row = row.expect("is usable");
        let check = |settings: LibrarySettings, is_usable: bool| {
            assert_eq!(change(row.clone(), settings).is_ok(), is_usable, "{settings:?}");
        };
        let none = LibrarySettings::default();
        assert_eq!(change(row.clone(), none).expect("nothing changes"), row);
        check(LibrarySettings { drives_max: Some(DRIVES_MAX), ..none }, true);
        check(LibrarySettings { drives_max: Some(DRIVES_MAX + 1), ..none }, false);
        check(LibrarySettings { writers_max: Some(DRIVES_MAX), ..none }, true);
        check(LibrarySettings { writers_max: Some(DRIVES_MAX + 1), ..none }, false);
        check(LibrarySettings { retain_secs: Some(RETAIN_SECS_MAX), ..none }, true);
        check(LibrarySettings { retain_secs: Some(RETAIN_SECS_MAX + 1), ..none }, false);
    }
}
