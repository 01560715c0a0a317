//! A library: drives, slots and a changer. Callers name volumes, and the library finds the
//! elements.
//!
//! ```text
//! mount --> MountedVolume (the drive, lent) --> dismount   the volume is put away
//!                                          \--> retire     the drive has failed: the volume is put
//!                                                          away, the drive is not used any more
//! ```
//!
//! A mounted volume owns its drive. So several threads can read and write volumes at the same time,
//! while the changer serves other drives.
//!
//! Invariants:
//! 1. A drive is free, lent, or out of service. A free drive may hold a volume that nobody uses.
//! 2. [`Library::mount`] returns a volume only if it has a label of this program with the name on
//!    its barcode.
//! 3. Only the changer knows which medium is in which element. Each operation asks the changer
//!    again before it moves a medium.

mod labelling;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::volume::{Label, VolumeName};

use crate::changer::{Changer, ChangerError};
use crate::device::CommandError;
use crate::drive::Drive;
use crate::line::Line;
use crate::medium::MediumError;
use crate::scsi::{Element, ElementKind, TapeAlert};
use crate::transport::ScsiTransport;
use crate::volume::{self, VolumeError};

pub use labelling::Labelling;

/// Prefix of the barcodes of cleaning cartridges, the same for all vendors.
const CLEANING_PREFIX: &str = "CLN";

/// Reason why an operation of a library failed.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// A person has to check the volume in.
    #[error("volume {0} is not in the library")]
    NotFound(VolumeName),
    /// The volume is in use: the caller waits until it is dismounted.
    #[error("volume {0} is in use")]
    InUse(VolumeName),
    /// No drive is free: the caller waits for one.
    #[error("no drive is free")]
    NoDrive,
    /// The caller corrects the address.
    #[error("there is no drive {0} in the library")]
    UnknownDrive(u16),
    /// The drive is lent, or it has failed: the caller waits, or a person repairs the drive.
    #[error("drive {0} is in use or out of service")]
    DriveNotFree(u16),
    /// No element is free: a person has to take a cartridge out.
    #[error("no {} is free", room(*.0))]
    NoRoom(ElementKind),
    /// There is no cleaning cartridge: a person has to check one in.
    #[error("the library has no cleaning cartridge")]
    NoCleaner,
    /// The volume is damaged, or its label does not have the name on its barcode.
    #[error("volume {name} cannot be used")]
    Volume { name: VolumeName, source: VolumeError },
    /// The drive has been taken out of service.
    #[error("drive {address} failed")]
    Drive { address: u16, source: MediumError },
    #[error(transparent)]
    Changer(#[from] ChangerError),
}

/// Reason why a library could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Changer(#[from] ChangerError),
    /// The drive has a fault: the caller leaves it out until it is repaired.
    #[error("the device at index {index} of the drives does not answer as a tape drive")]
    Drive {
        /// Index of the drive, from 0.
        index: usize,
        source: CommandError,
    },
}

fn room(kind: ElementKind) -> &'static str {
    match kind {
        ElementKind::ImportExport => "import/export element",
        _ => "slot",
    }
}

/// The state of a drive in its library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveState {
    Free,
    /// The drive is lent, with a volume in it.
    Lent(VolumeName),
    /// The drive has failed, for this reason; a person has to repair it.
    OutOfService(String),
}

/// A drive of the library, as lists show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedDrive {
    pub address: u16,
    pub product: String,
    pub serial: String,
    pub state: DriveState,
    pub wants_cleaning: bool,
}

/// A volume of the library, as lists show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVolume {
    pub name: VolumeName,
    pub kind: ElementKind,
    pub address: u16,
    pub is_cleaning: bool,
    /// True if the volume has had a medium error since the library was opened.
    pub is_damaged: bool,
}

/// The lines to the devices of a library. Devices of this machine have none.
#[derive(Clone, Default)]
pub struct Lines {
    pub changer: Option<Arc<Line>>,
    /// Lines to drives, by their element addresses.
    pub drives: BTreeMap<u16, Arc<Line>>,
}

/// The place of a drive in the library.
struct Bay {
    address: u16,
    product: String,
    serial: String,
    /// The drive itself; `None` while it is lent.
    drive: Option<Drive>,
    state: DriveState,
    wants_cleaning: bool,
}

/// A volume in a drive. The caller gives volume and drive back with [`Library::dismount`] or
/// [`Library::retire`]; if this value is dropped, the drive stays lent for ever.
#[must_use]
pub struct MountedVolume {
    pub drive: Drive,
    pub name: VolumeName,
    address: u16,
    /// The element that the volume came from.
    home: Option<u16>,
    bay: usize,
}

impl MountedVolume {
    /// Returns the element address of the drive.
    pub fn address(&self) -> u16 {
        self.address
    }
}

/// A library.
pub struct Library {
    changer: Changer,
    bays: Vec<Bay>,
    elements: Vec<Element>,
    damaged: BTreeSet<VolumeName>,
    alerts: BTreeMap<u16, Vec<TapeAlert>>,
}

impl Library {
    /// Opens a library with its changer and its drives. The drives may be in any order if the
    /// changer reports their serial numbers; otherwise they must be in the order of their elements.
    pub fn open(
        changer: Box<dyn ScsiTransport>,
        drives: Vec<Box<dyn ScsiTransport>>,
    ) -> Result<Self, OpenError> {
        let mut changer = Changer::open(changer).map_err(ChangerError::Device)?;
        let elements = changer.elements()?;
        let mut opened = Vec::new();
        for (index, transport) in drives.into_iter().enumerate() {
            let drive = Drive::open(transport);
            opened.push(drive.map_err(|source| OpenError::Drive { index, source })?);
        }
        let bays = bays(&elements, opened);
        let (damaged, alerts) = (BTreeSet::new(), BTreeMap::new());
        Ok(Self { changer, bays, elements, damaged, alerts })
    }

    /// Asks the changer again for the content of all elements.
    pub fn refresh(&mut self) -> Result<(), LibraryError> {
        self.elements = self.changer.elements()?;
        Ok(())
    }

    /// Makes the changer inspect every element. This takes minutes.
    pub fn look_again(&mut self) -> Result<(), LibraryError> {
        self.changer.look_again()?;
        self.refresh()
    }

    /// Returns all elements, as of the last refresh, mount or dismount.
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// Returns the lines to the changer and to the drives that are not lent.
    pub fn lines(&self) -> Lines {
        let of_bay = |bay: &Bay| Some((bay.address, bay.drive.as_ref()?.line()?));
        Lines {
            changer: self.changer.line(),
            drives: self.bays.iter().filter_map(of_bay).collect(),
        }
    }

    pub fn drives(&self) -> Vec<ListedDrive> {
        let listed = |bay: &Bay| ListedDrive {
            address: bay.address,
            product: bay.product.clone(),
            serial: bay.serial.clone(),
            state: bay.state.clone(),
            wants_cleaning: bay.wants_cleaning,
        };
        self.bays.iter().map(listed).collect()
    }

    /// Returns all volumes with a readable barcode, including cleaning cartridges.
    pub fn volumes(&self) -> Vec<ListedVolume> {
        let listed = |element: &Element| {
            let name = VolumeName::new(element.barcode.as_deref()?).ok()?;
            Some(ListedVolume {
                is_cleaning: name.as_str().starts_with(CLEANING_PREFIX),
                is_damaged: self.damaged.contains(&name),
                kind: element.kind,
                address: element.address,
                name,
            })
        };
        self.elements.iter().filter_map(listed).collect()
    }

    /// Returns the alerts that drives have raised since the last call, by the element address of
    /// the drive.
    pub fn take_alerts(&mut self) -> BTreeMap<u16, Vec<TapeAlert>> {
        std::mem::take(&mut self.alerts)
    }

    fn find(&self, name: &VolumeName) -> Result<&Element, LibraryError> {
        let is_it = |element: &&Element| element.barcode.as_deref() == Some(name.as_str());
        self.elements
            .iter()
            .find(is_it)
            .ok_or_else(|| LibraryError::NotFound(name.clone()))
    }

    /// Returns the address of a free element. The flag for accessible elements is ignored, because
    /// some changers never set it.
    fn free_element(&self, kind: ElementKind) -> Result<u16, LibraryError> {
        let is_free = |element: &&Element| element.kind == kind && !element.is_full;
        let free = self.elements.iter().find(is_free);
        free.map(|element| element.address).ok_or(LibraryError::NoRoom(kind))
    }

    /// Mounts a volume and reads its label, which must be a label of this program with the name
    /// `name`.
    pub fn mount(&mut self, name: &VolumeName) -> Result<(MountedVolume, Label), LibraryError> {
        let mut mounted = self.mount_any(name)?;
        let error = match volume::read_label(&mut mounted.drive) {
            Ok(label) if label.name == *name => return Ok((mounted, label)),
            Ok(label) => VolumeError::Another { found: label.name },
            Err(error) => error,
        };
        Err(self.give_up(mounted, error))
    }

    /// Mounts a volume with any content.
    pub fn mount_any(&mut self, name: &VolumeName) -> Result<MountedVolume, LibraryError> {
        loop {
            self.refresh()?;
            let (bay, home) = self.bring(name)?;
            let mut drive =
                self.bays[bay].drive.take().expect("a bay that is not lent has its drive");
            let address = self.bays[bay].address;
            self.bays[bay].state = DriveState::Lent(name.clone());
            let loaded = drive.load();
            let mounted = MountedVolume { drive, name: name.clone(), address, home, bay };
            match loaded {
                Ok(()) => return Ok(mounted),
                // Another drive may work. If no drive is left, `bring` fails.
                Err(MediumError::Failed(reason)) => self.retire(mounted, &reason.to_string())?,
                Err(error) => return Err(self.give_up(mounted, error.into())),
            }
        }
    }

    /// Brings the volume to a drive; returns the drive's bay and the element that the volume came
    /// from.
    fn bring(&mut self, name: &VolumeName) -> Result<(usize, Option<u16>), LibraryError> {
        let element = self.find(name)?.clone();
        if element.kind == ElementKind::Drive {
            let bay = self.bays.iter().position(|bay| bay.address == element.address);
            let free = bay.filter(|&bay| self.bays[bay].state == DriveState::Free);
            let bay = free.ok_or_else(|| LibraryError::InUse(name.clone()))?;
            return Ok((bay, element.source));
        }
        let bay = match self.empty_bay() {
            Some(bay) => bay,
            None => self.empty_a_bay()?,
        };
        self.changer.move_medium(element.address, self.bays[bay].address)?;
        self.refresh()?;
        Ok((bay, Some(element.address)))
    }

    /// Brings a volume to the drive with this element address, which must not be lent. The caller
    /// then loads the volume, which does not need the changer.
    pub fn bring_to(
        &mut self,
        name: &VolumeName,
        drive: u16,
    ) -> Result<MountedVolume, LibraryError> {
        self.refresh()?;
        let bay = self.bays.iter().position(|bay| bay.address == drive);
        let bay = bay.filter(|&bay| self.bays[bay].state == DriveState::Free);
        let bay = bay.ok_or(LibraryError::NoDrive)?;
        let element = self.find(name)?.clone();
        let mut home = element.source;
        if element.address != drive {
            if element.kind == ElementKind::Drive {
                self.empty_other(name, element.address)?;
            }
            self.empty(bay)?;
            let from = self.find(name)?.address;
            self.changer.move_medium(from, drive)?;
            self.refresh()?;
            home = Some(from);
        }
        let drive = self.bays[bay].drive.take().expect("a bay that is not lent has its drive");
        let address = self.bays[bay].address;
        self.bays[bay].state = DriveState::Lent(name.clone());
        Ok(MountedVolume { drive, name: name.clone(), address, home, bay })
    }

    /// Puts away the volume in `drive`, because another drive is to get it.
    fn empty_other(&mut self, name: &VolumeName, drive: u16) -> Result<(), LibraryError> {
        let is_free = |bay: &Bay| bay.address == drive && bay.state == DriveState::Free;
        let bay = self.bays.iter().position(is_free);
        let bay = bay.ok_or_else(|| LibraryError::InUse(name.clone()))?;
        self.empty(bay)
    }

    /// Takes back a drive whose volume has been unloaded, and puts the volume away.
    pub fn put_back(&mut self, mut mounted: MountedVolume) -> Result<(), LibraryError> {
        self.note_alerts(&mut mounted);
        let (address, home) = (mounted.address, mounted.home);
        self.give_back(mounted, DriveState::Free);
        self.put_away(address, home)
    }

    /// Puts away a volume that an earlier process has left in a drive; returns the bay of that
    /// drive.
    fn empty_a_bay(&mut self) -> Result<usize, LibraryError> {
        let is_free = |bay: &Bay| bay.state == DriveState::Free;
        let bay = self.bays.iter().position(is_free).ok_or(LibraryError::NoDrive)?;
        self.empty(bay)?;
        Ok(bay)
    }

    /// Puts away the volume in a free drive, if the drive holds one.
    fn empty(&mut self, bay: usize) -> Result<(), LibraryError> {
        assert_eq!(self.bays[bay].state, DriveState::Free, "only a free drive is emptied");
        let address = self.bays[bay].address;
        let is_loaded = |element: &&Element| element.address == address && element.is_full;
        let Some(loaded) = self.elements.iter().find(is_loaded) else { return Ok(()) };
        let home = loaded.source;
        if let Some(drive) = &mut self.bays[bay].drive
            && let Err(source) = drive.unload()
        {
            self.bays[bay].state = DriveState::OutOfService(source.to_string());
            return Err(LibraryError::Drive { address, source });
        }
        self.put_away(address, home)
    }

    /// Returns the bay of a drive that is free and empty. A drive that wants cleaning is the last
    /// choice.
    fn empty_bay(&self) -> Option<usize> {
        let is_empty = |address| {
            let mut drives = self.elements.iter().filter(|e| e.kind == ElementKind::Drive);
            drives.any(|element| element.address == address && !element.is_full)
        };
        (0..self.bays.len())
            .filter(|&bay| self.bays[bay].state == DriveState::Free)
            .filter(|&bay| is_empty(self.bays[bay].address))
            .min_by_key(|&bay| self.bays[bay].wants_cleaning)
    }

    /// Unloads the volume and puts it away.
    pub fn dismount(&mut self, mut mounted: MountedVolume) -> Result<(), LibraryError> {
        self.note_alerts(&mut mounted);
        let address = mounted.address;
        if let Err(source) = mounted.drive.unload() {
            let reason = source.to_string();
            // Only the error of the drive is reported: it implies that the volume stays in the
            // drive.
            let _stuck = self.retire(mounted, &reason);
            return Err(LibraryError::Drive { address, source });
        }
        let home = mounted.home;
        self.give_back(mounted, DriveState::Free);
        self.put_away(address, home)
    }

    /// Leaves the volume in its drive. The volume is put away when the drive is needed for another
    /// volume.
    pub fn leave(&mut self, mut mounted: MountedVolume) {
        self.note_alerts(&mut mounted);
        self.give_back(mounted, DriveState::Free);
    }

    /// Returns the drive with this element address if it is not lent, so that the caller can ask
    /// the drive for its abilities.
    pub fn free_drive(&mut self, address: u16) -> Option<&mut Drive> {
        let bay = self.bays.iter_mut().find(|bay| bay.address == address)?;
        bay.drive.as_mut()
    }

    /// Takes a failed drive out of service, and puts its volume away if the drive releases the
    /// volume. If only the line to the drive is away, the volume stays in the drive.
    pub fn retire(&mut self, mut mounted: MountedVolume, reason: &str) -> Result<(), LibraryError> {
        let line = mounted.drive.line();
        if line.is_some_and(|line| line.outage().is_some()) {
            self.give_back(mounted, DriveState::OutOfService(reason.to_owned()));
            return Ok(());
        }
        self.note_alerts(&mut mounted);
        let (address, home) = (mounted.address, mounted.home);
        // A drive that has failed may still be able to unload. If it is not, the move of the volume
        // fails and reports that.
        let _unloaded = mounted.drive.unload();
        self.give_back(mounted, DriveState::OutOfService(reason.to_owned()));
        self.put_away(address, home)
    }

    /// Puts a drive into service again, after a person has repaired it.
    pub fn restore_to_service(&mut self, address: u16) {
        let bays = self.bays.iter_mut().filter(|bay| bay.address == address);
        for bay in bays.filter(|bay| matches!(bay.state, DriveState::OutOfService(_))) {
            bay.state = DriveState::Free;
        }
    }

    fn give_back(&mut self, mounted: MountedVolume, state: DriveState) {
        let bay = &mut self.bays[mounted.bay];
        assert!(bay.drive.is_none(), "a drive that comes back was lent");
        assert_eq!(bay.address, mounted.address, "a drive keeps its bay");
        bay.wants_cleaning = mounted.drive.wants_cleaning();
        bay.drive = Some(mounted.drive);
        bay.state = state;
    }

    /// Keeps the alerts of a drive. A drive that cannot report alerts counts as a drive without
    /// alerts.
    fn note_alerts(&mut self, mounted: &mut MountedVolume) {
        let alerts = mounted.drive.alerts().unwrap_or_default();
        if !alerts.is_empty() {
            self.alerts.entry(mounted.address).or_default().extend(alerts);
        }
    }

    /// Moves the medium in the drive to the element that it came from, or to any free slot.
    fn put_away(&mut self, drive: u16, home: Option<u16>) -> Result<(), LibraryError> {
        self.refresh()?;
        let is_loaded = |element: &Element| element.address == drive && element.is_full;
        if !self.elements.iter().any(is_loaded) {
            // A person took the cartridge out, or the library was restarted.
            return Ok(());
        }
        let is_free = |home: &u16| {
            self.elements.iter().any(|element| element.address == *home && !element.is_full)
        };
        let to = match home.filter(is_free) {
            Some(home) => home,
            None => self.free_element(ElementKind::Slot)?,
        };
        self.changer.move_medium(drive, to)?;
        self.refresh()
    }

    /// Puts a volume away after an error, and decides whether the drive or the volume is at fault.
    fn give_up(&mut self, mounted: MountedVolume, error: VolumeError) -> LibraryError {
        let (name, address) = (mounted.name.clone(), mounted.address);
        match error {
            VolumeError::Medium(source @ MediumError::Failed(_)) => {
                let reason = source.to_string();
                let _stuck = self.retire(mounted, &reason);
                LibraryError::Drive { address, source }
            }
            source => {
                self.blame(&name, &source);
                // Only the error of the volume is reported. A drive that fails as well reports that
                // at its next mount.
                let _stuck = self.dismount(mounted);
                LibraryError::Volume { name, source }
            }
        }
    }

    /// Marks a volume as damaged if `error` means that.
    pub fn blame(&mut self, name: &VolumeName, error: &VolumeError) {
        let is_damaged = matches!(
            error,
            VolumeError::Damaged { .. } | VolumeError::Medium(MediumError::Damaged { .. })
        );
        if is_damaged {
            self.damaged.insert(name.clone());
        }
    }
}

/// Assigns an element to each drive: the element with the drive's name if the changer reports
/// names, otherwise the next element without a drive.
fn bays(elements: &[Element], drives: Vec<Drive>) -> Vec<Bay> {
    let mut left: Vec<&Element> =
        elements.iter().filter(|element| element.kind == ElementKind::Drive).collect();
    let mut bays = Vec::new();
    let mut unnamed = Vec::new();
    for drive in drives {
        let is_it = |element: &&Element| {
            element.device.as_deref().is_some_and(|name| drive.identity().is_named(name))
        };
        match left.iter().position(is_it) {
            Some(index) => bays.push(bay(left.remove(index).address, drive)),
            None => unnamed.push(drive),
        }
    }
    bays.extend(left.iter().zip(unnamed).map(|(element, drive)| bay(element.address, drive)));
    bays.sort_by_key(|bay| bay.address);
    debug_assert!(bays.is_sorted_by(|a, b| a.address < b.address), "each bay has its own element");
    bays
}

fn bay(address: u16, drive: Drive) -> Bay {
    let identity = drive.identity();
    Bay {
        address,
        product: identity.inquiry.product.clone(),
        serial: identity.serial.clone(),
        wants_cleaning: false,
        drive: Some(drive),
        state: DriveState::Free,
    }
}
