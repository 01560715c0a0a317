//! Labelling and changing volumes for an administrator.

use std::collections::BTreeSet;
use std::time::Duration;

use catalog::{VolumeAccess, VolumeRow, VolumeState};
use format::volume::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, VolumeName};
use model::PackNumber;
use tape::schedule::{Absence, VolumeId};
use tape::scsi::ElementKind;
use tape::volume::Overwrite;

use super::choose::BLOCK_BYTES;
use super::holdings::Volumes;
use super::libraries::Passage;
use super::listing::{VolumeSummary, access_word};
use super::site::{Site, absence, is_same, known};
use crate::error::StoreError;

/// Maximum time to wait for a volume in use. Writers can pause every few gigabytes, at a filemark.
const IN_USE_MAX: Duration = Duration::from_secs(300);

/// An order to label volumes of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelOrder {
    pub library: String,
    pub choice: LabelChoice,
    /// True if volumes with a label of this program are labelled again, if the server does not know
    /// them.
    pub overwrites: bool,
    /// Size of the largest block; `None` for the default.
    pub block_bytes: Option<u32>,
}

/// Choice of the volumes that are labelled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelChoice {
    /// All blank volumes that the library has and the server does not know.
    Blank,
    /// The named volumes. In a folder they are created.
    Named(Vec<String>),
}

/// Result of labelling one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelReport {
    pub volume: String,
    pub result: Result<(), StoreError>,
}

/// A change of the use or of the place of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeChange {
    /// Changes the access of a volume that stays where it is. The access must not be `Offsite`.
    Access(VolumeAccess),
    /// Takes the volume out of its library.
    Offsite { location: String },
    /// Takes the volume back into its library.
    Onsite,
    /// Removes a volume without needed packs from the catalogue.
    Remove,
}

impl Volumes {
    /// Labels volumes, and calls `report` for each. `report` returns false to end the work.
    pub fn label_all(
        &self,
        order: &LabelOrder,
        report: &mut dyn FnMut(LabelReport) -> bool,
    ) -> Result<(), StoreError> {
        let site = self.site(&order.library)?;
        let block_bytes = order.block_bytes.unwrap_or(BLOCK_BYTES);
        if !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            let message =
                format!("a block must have from {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX} bytes");
            return Err(StoreError::usage(message));
        }
        let overwrite = if order.overwrites { Overwrite::Ours } else { Overwrite::Nothing };
        let names = match &order.choice {
            LabelChoice::Named(names) => names.clone(),
            LabelChoice::Blank => self.unknown_volumes(&site)?,
        };
        for volume in names {
            let result = self.label_one(&site, &volume, block_bytes, overwrite);
            // An order for blank volumes skips all other volumes without reporting them.
            if result.is_err() && order.choice == LabelChoice::Blank {
                continue;
            }
            if !report(LabelReport { volume, result }) {
                return Err(StoreError::cancelled("the labelling was cancelled"));
            }
        }
        Ok(())
    }

    fn label_one(
        &self,
        site: &Site,
        text: &str,
        block_bytes: u32,
        overwrite: Overwrite,
    ) -> Result<(), StoreError> {
        let name = VolumeName::new(text);
        let name = name.map_err(|error| StoreError::usage(format!("{text}: {error}")))?;
        let known = self.find_row(Some(&site.name), text);
        if let Some(row) = known.as_ref().filter(|row| row.name != text) {
            let message = format!("{text}: the volume is called {}", row.name);
            return Err(StoreError::usage(message));
        }
        if known.is_some_and(|row| row.state != VolumeState::Scratch) {
            let message =
                format!("volume {text} is in use, see 'holdfast admin volume list {text}'");
            return Err(StoreError::conflict(message));
        }
        self.label(site, &name, ("", block_bytes), overwrite).map(drop)
    }

    /// Returns the names of all volumes that the library has and the server does not know.
    fn unknown_volumes(&self, site: &Site) -> Result<Vec<String>, StoreError> {
        let operator = site.operator()?;
        let listed = operator.with_library(|library| {
            let refreshed = library.refresh();
            refreshed.map(|()| library.volumes())
        });
        let listed = listed.ok_or_else(|| {
            StoreError::usage("give the names of the volumes to create in the folder")
        })?;
        let listed = listed.map_err(|error| StoreError::away(model::chain(&error)))?;
        let is_in_slot = |kind| matches!(kind, ElementKind::Slot | ElementKind::Drive);
        let unknown = listed
            .into_iter()
            .filter(|volume| !volume.is_cleaning && is_in_slot(volume.kind))
            .map(|volume| volume.name.to_string())
            .filter(|name| self.find_row(Some(&site.name), name).is_none());
        Ok(unknown.collect())
    }

    fn find_rows(&self, library: Option<&str>, name: &str) -> Vec<VolumeRow> {
        let matches = |row: &&VolumeRow| {
            is_same(&row.name, name) && library.is_none_or(|library| is_same(&row.library, library))
        };
        self.rows().values().filter(matches).cloned().collect()
    }

    pub(crate) fn find_row(&self, library: Option<&str>, name: &str) -> Option<VolumeRow> {
        self.find_rows(library, name).into_iter().next()
    }

    /// Finds the volume. Fails if several libraries have a volume of this name and `library` is
    /// `None`.
    pub fn find(&self, library: Option<&str>, name: &str) -> Result<VolumeRow, StoreError> {
        match &self.find_rows(library, name)[..] {
            [row] => Ok(row.clone()),
            [] => Err(StoreError::not_found(format!(
                "there is no volume {name}; 'holdfast admin volume list' shows all"
            ))),
            _ => Err(StoreError::usage(format!(
                "several libraries have a volume {name}; choose one with --library"
            ))),
        }
    }

    /// Returns the packs of which a part is on the volume `name`.
    pub fn packs_on(&self, name: &str) -> Result<BTreeSet<PackNumber>, StoreError> {
        let row = self.find(None, name)?;
        let parts = self.catalog.volume_parts(row.id)?;
        Ok(parts.into_iter().map(|part| part.pack).collect())
    }

    /// Changes the use or the place of a volume.
    pub fn set(
        &self,
        library: Option<&str>,
        name: &str,
        change: &VolumeChange,
    ) -> Result<VolumeSummary, StoreError> {
        let row = self.find(library, name)?;
        let site = self.site(&row.library)?;
        let row = match change {
            VolumeChange::Access(access) => self.set_access(&row, *access)?,
            VolumeChange::Offsite { location } => self.take_offsite(&site, row, location)?,
            VolumeChange::Onsite => self.take_onsite(&site, row)?,
            VolumeChange::Remove => return self.remove(&site, &row),
        };
        self.announce(&site, &row);
        let details = format!("{}: {}", row.name, access_word(row.access));
        self.event_of("volume changed", details)?;
        self.describe_volume(&row)
    }

    /// Tells the library's operator whether the volume can be read.
    fn announce(&self, site: &Site, row: &VolumeRow) {
        self.forget_failures();
        if let Ok(operator) = &site.operator {
            match absence(row.access) {
                Some(absence) => operator.volume_absent(VolumeId(row.id), absence),
                None => operator.volume_present(VolumeId(row.id)),
            }
        }
    }

    fn set_access(&self, row: &VolumeRow, access: VolumeAccess) -> Result<VolumeRow, StoreError> {
        assert_ne!(access, VolumeAccess::Offsite, "a volume goes offsite with a move");
        self.change(row.id, Vec::new(), |row| {
            row.access = access;
            if access == VolumeAccess::ReadWrite {
                row.errors = 0;
            }
            if absence(access).is_none() {
                row.location.clear();
            }
        })
    }

    /// Takes the volume out of its library, and notes its location.
    fn take_offsite(
        &self,
        site: &Site,
        row: VolumeRow,
        location: &str,
    ) -> Result<VolumeRow, StoreError> {
        if row.access == VolumeAccess::Offsite {
            return Err(StoreError::conflict(format!("volume {} is already offsite", row.name)));
        }
        let operator = site.operator()?;
        let known = known(&row)?;
        let moved = if operator.set_aside(&known, Absence::Offsite, IN_USE_MAX) {
            self.move_volume(site, &known.name, Passage::Out)
        } else {
            Err(StoreError::busy(format!("volume {} is in use; try again later", row.name)))
        };
        if let Err(error) = moved {
            self.announce(site, &row);
            return Err(error);
        }
        self.change(row.id, Vec::new(), |row| {
            row.access = VolumeAccess::Offsite;
            location.clone_into(&mut row.location);
        })
    }

    fn take_onsite(&self, site: &Site, row: VolumeRow) -> Result<VolumeRow, StoreError> {
        if row.access != VolumeAccess::Offsite {
            let message =
                format!("volume {} is {}, not offsite", row.name, access_word(row.access));
            return Err(StoreError::conflict(message));
        }
        let name = VolumeName::new(&row.name).map_err(|e| StoreError::away(e.to_string()))?;
        if site.is_folder() {
            let operator = site.operator()?;
            let is_there = operator.with_stock(|stock| match stock {
                tape::operator::Stock::Folder { volumes, .. } => volumes.medium(&name).is_ok(),
                tape::operator::Stock::Library(_) => true,
            });
            if !is_there {
                let message =
                    format!("volume {name} is not in its folder; put the file back first");
                return Err(StoreError::conflict(message));
            }
        } else {
            self.move_volume(site, &name, Passage::In)?;
        }
        self.change(row.id, Vec::new(), |row| {
            // Nothing is added to a volume with data that is kept offsite.
            let is_used = matches!(row.state, VolumeState::Filling | VolumeState::Full);
            row.access = if is_used { VolumeAccess::ReadOnly } else { VolumeAccess::ReadWrite };
            row.location.clear();
        })
    }

    /// Removes a volume without needed packs from the catalogue. In a folder, its file is removed
    /// too.
    fn remove(&self, site: &Site, row: &VolumeRow) -> Result<VolumeSummary, StoreError> {
        let info = self.describe_volume(row)?;
        if info.live_bytes > 0 {
            return Err(StoreError::conflict(format!(
                "volume {} holds packs that are needed; 'holdfast admin volume move {}' moves them \
                 to other volumes",
                row.name, row.name
            )));
        }
        self.catalog.remove_volume(row.id)?;
        self.rows().remove(&row.id);
        if let Ok(operator) = &site.operator {
            operator.forget(VolumeId(row.id));
        }
        if site.is_folder()
            && let (Ok(operator), Ok(name)) = (&site.operator, VolumeName::new(&row.name))
        {
            operator.with_stock(|stock| {
                if let tape::operator::Stock::Folder { volumes, .. } = stock
                    && let Err(error) = volumes.remove(&name)
                {
                    tracing::warn!(%name, %error, "the file of a removed volume cannot be deleted");
                }
            });
        }
        self.event_of("volume removed", row.name.clone())?;
        Ok(info)
    }
}
