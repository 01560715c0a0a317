//! Operations of a library other than mounts: labelling, cleaning, and moving media in and out.

use std::time::Duration;

use format::volume::{Label, VolumeName};

use super::labelling::Labelling;
use super::{CLEANING_PREFIX, DriveState, Library, LibraryError};
use crate::changer::ChangerError;
use crate::drive::Drive;
use crate::medium::Medium as _;
use crate::scsi::{Attribute, Element, ElementKind, attribute_id};
use crate::volume;

/// Pause between two attempts to take the cleaning cartridge out of a drive. Cleaning takes two to
/// three minutes.
const CLEANING_WAIT: Duration = Duration::from_secs(5);
const CLEANING_LOOKS_MAX: u32 = 180;

impl Library {
    /// Labels a volume, with its barcode as its name; returns the label.
    pub fn label(
        &mut self,
        name: &VolumeName,
        labelling: &Labelling,
    ) -> Result<Label, LibraryError> {
        let mut mounted = self.mount_any(name)?;
        let label = labelling.label(name, mounted.drive.block_bytes_max());
        match volume::label(&mut mounted.drive, &label, labelling.overwrite) {
            Ok(()) => {
                note_in_cartridge(&mut mounted.drive, name);
                self.dismount(mounted)?;
                Ok(label)
            }
            Err(error) => Err(self.give_up(mounted, error)),
        }
    }

    /// Moves the cartridges in the import/export elements into slots; returns the volumes among
    /// them.
    pub fn check_in(&mut self) -> Result<Vec<VolumeName>, LibraryError> {
        self.refresh()?;
        let is_waiting =
            |element: &&Element| element.kind == ElementKind::ImportExport && element.is_full;
        let waiting: Vec<Element> = self.elements.iter().filter(is_waiting).cloned().collect();
        let mut names = Vec::new();
        for element in waiting {
            self.take_in(element.address)?;
            names.extend(element.barcode.and_then(|barcode| VolumeName::new(&barcode).ok()));
        }
        Ok(names)
    }

    /// Moves one volume from an import/export element into a slot; returns false if the volume is
    /// elsewhere.
    pub fn check_in_volume(&mut self, name: &VolumeName) -> Result<bool, LibraryError> {
        self.refresh()?;
        let element = self.find(name)?;
        let (kind, address) = (element.kind, element.address);
        if kind == ElementKind::ImportExport {
            self.take_in(address)?;
        }
        Ok(kind == ElementKind::ImportExport)
    }

    fn take_in(&mut self, portal: u16) -> Result<(), LibraryError> {
        let slot = self.free_element(ElementKind::Slot)?;
        self.changer.move_medium(portal, slot)?;
        self.refresh()
    }

    /// Moves a volume to an import/export element, where a person can take it; returns the address
    /// of the element.
    pub fn check_out(&mut self, name: &VolumeName) -> Result<u16, LibraryError> {
        self.refresh()?;
        let element = self.find(name)?;
        match element.kind {
            ElementKind::ImportExport => return Ok(element.address),
            ElementKind::Drive => return Err(LibraryError::InUse(name.clone())),
            ElementKind::Slot | ElementKind::Changer => {}
        }
        let from = element.address;
        let portal = self.free_element(ElementKind::ImportExport)?;
        self.changer.move_medium(from, portal)?;
        self.refresh()?;
        Ok(portal)
    }

    /// Cleans a drive that is free.
    pub fn clean(&mut self, drive: u16) -> Result<(), LibraryError> {
        let bay = self.bays.iter().position(|bay| bay.address == drive);
        let bay = bay.ok_or(LibraryError::UnknownDrive(drive))?;
        if self.bays[bay].state != DriveState::Free {
            return Err(LibraryError::DriveNotFree(drive));
        }
        self.refresh()?;
        self.empty(bay)?;
        let is_cleaner = |element: &&Element| {
            let barcode = element.barcode.as_deref();
            element.kind == ElementKind::Slot
                && barcode.is_some_and(|barcode| barcode.starts_with(CLEANING_PREFIX))
        };
        let cleaner = self.elements.iter().find(is_cleaner).ok_or(LibraryError::NoCleaner)?;
        let home = cleaner.address;
        self.changer.move_medium(home, drive)?;
        self.take_cleaner_back(drive, home)?;
        self.bays[bay].wants_cleaning = false;
        if let Some(drive) = &mut self.bays[bay].drive {
            drive.was_cleaned();
        }
        self.refresh()
    }

    /// Moves the cleaning cartridge from the drive back to its slot. Tries repeatedly, because the
    /// drive holds the cartridge until the cleaning has ended.
    fn take_cleaner_back(&mut self, drive: u16, home: u16) -> Result<(), LibraryError> {
        for _ in 1..CLEANING_LOOKS_MAX {
            match self.changer.move_medium(drive, home) {
                Err(ChangerError::Held { .. }) => self.changer.wait(CLEANING_WAIT),
                other => return Ok(other?),
            }
        }
        Ok(self.changer.move_medium(drive, home)?)
    }
}

/// Writes the name of the volume into the memory of its cartridge, if there is one, so that other
/// programs and the panel of the library can show the name.
fn note_in_cartridge(drive: &mut Drive, name: &VolumeName) {
    let texts = [
        Attribute::text(attribute_id::APPLICATION_VENDOR, "HOLDFAST", 8),
        Attribute::text(attribute_id::APPLICATION_NAME, "Holdfast", 32),
        Attribute::text(attribute_id::BARCODE, name.as_str(), 32),
    ];
    // A failure is ignored: this program never reads these attributes, and a drive that fails here
    // fails again when it unloads.
    let _noted = drive.set_attributes(&texts);
}
