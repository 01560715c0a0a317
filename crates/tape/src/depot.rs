//! A library or folder that a command has opened for work by hand. The command mounts a volume,
//! works on it, and puts it back.
//!
//! Only one process at a time opens a library. Otherwise a volume that another process has mounted
//! would look forgotten in its drive.

use std::io;
use std::path::{Path, PathBuf};

use format::volume::{BLOCK_BYTES_MAX, Label, VolumeName};
use sys::durable::Lock;

use crate::address::{self, Address};
use crate::changer::ChangerError;
use crate::device::CommandError;
use crate::drive::Drive;
use crate::file_volume::FileVolumes;
use crate::library::{self, Labelling, Library, LibraryError, ListedVolume, MountedVolume};
use crate::medium::{Medium, MediumError};
use crate::scsi::{ElementKind, TapeAlert};
use crate::site::Site;
use crate::volume::{self, Identification, VolumeError};

/// Reason why a site or a drive could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the folder {0} does not exist")]
    NoFolder(PathBuf),
    /// Another process has opened the volumes: the caller tries again when that process has ended.
    #[error("the volumes in {0} are in use by another process")]
    FolderInUse(PathBuf),
    #[error("cannot use the folder {path}")]
    Folder { path: PathBuf, source: io::Error },
    /// Another process has opened the library: the caller tries again when that process has ended.
    #[error("the library at {0} is in use by another process")]
    LibraryInUse(Address),
    #[error("cannot lock {address}")]
    Lock { address: Address, source: io::Error },
    #[error("cannot use {address}")]
    Device { address: Address, source: io::Error },
    #[error(transparent)]
    Changer(ChangerError),
    /// The drive has a fault: the caller leaves the drive out until it is repaired.
    #[error("drive {address} does not answer as a tape drive")]
    Drive { address: Address, source: CommandError },
}

/// Reason why work in a depot was not done.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    #[error("{0} is a folder: it has no slots and no drives, and its volumes need no mount")]
    NoLibrary(PathBuf),
    /// The volume does not exist: labelling it creates it.
    #[error("volume {name} is not in {folder}")]
    NotInFolder { name: VolumeName, folder: PathBuf },
    #[error("{0} is a cleaning cartridge")]
    Cleaner(VolumeName),
    #[error("volume {name} is not in {place}")]
    Elsewhere { name: VolumeName, place: &'static str },
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// A problem that a person should know of, although the work succeeded.
#[derive(Debug, thiserror::Error)]
pub enum Warning {
    #[error("drive {drive}: {alert}")]
    Alert { drive: u16, alert: TapeAlert },
    /// The volume is still in its drive after the work.
    #[error(transparent)]
    NotPutBack(LibraryError),
}

/// A volume and the element that it is in now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    pub name: VolumeName,
    /// Address of the element; `None` if the changer no longer lists the volume.
    pub element: Option<u16>,
}

/// A volume that was put into a drive, and its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountReport {
    pub drive: u16,
    pub content: Identification,
}

/// The volumes of a depot.
pub enum DepotVolumes {
    Folder { volumes: FileVolumes, path: PathBuf },
    Library { library: Box<Library>, lock: Lock },
}

/// A depot. See the module.
pub struct Depot {
    volumes: DepotVolumes,
    warnings: Vec<Warning>,
}

impl Depot {
    pub fn open(site: &Site) -> Result<Self, OpenError> {
        let volumes = match site {
            Site::Folder { path, capacity_bytes } => open_folder(path, *capacity_bytes)?,
            Site::Devices { changer, drives } => open_library(changer, drives)?,
        };
        Ok(Self { volumes, warnings: Vec::new() })
    }

    pub fn volumes(&mut self) -> &mut DepotVolumes {
        &mut self.volumes
    }

    /// Returns the library. Fails for a folder, which has no slots and drives.
    pub fn library(&mut self) -> Result<&mut Library, DepotError> {
        match &mut self.volumes {
            DepotVolumes::Library { library, .. } => Ok(library),
            DepotVolumes::Folder { path, .. } => Err(DepotError::NoLibrary(path.clone())),
        }
    }

    /// Mounts a volume, which must have a label of this program, calls `work` with it, and puts it
    /// back where it was.
    pub fn with_volume<T>(
        &mut self,
        name: &VolumeName,
        work: impl FnOnce(&mut dyn Medium, &Label) -> Result<T, VolumeError>,
    ) -> Result<T, DepotError> {
        match &mut self.volumes {
            DepotVolumes::Folder { volumes, path } => {
                in_folder(volumes, name, work).map_err(|error| missing_in_folder(error, name, path))
            }
            DepotVolumes::Library { library, .. } => {
                let was_in_drive = find(library, name)?.kind == ElementKind::Drive;
                let (mut mounted, label) = library.mount(name)?;
                let result = work(&mut mounted.drive, &label);
                if let Err(error) = put_back(library, mounted, was_in_drive, &result) {
                    self.warnings.push(Warning::NotPutBack(error));
                }
                self.note_alerts();
                Ok(result?)
            }
        }
    }

    /// Labels a volume. In a folder, this creates the volume.
    pub fn label(&mut self, name: &VolumeName, labelling: &Labelling) -> Result<Label, DepotError> {
        match &mut self.volumes {
            DepotVolumes::Folder { volumes, .. } => {
                let label = labelling.label(name, BLOCK_BYTES_MAX);
                volumes.label(&label, labelling.overwrite)?;
                Ok(label)
            }
            DepotVolumes::Library { library, .. } => {
                find(library, name)?;
                let label = library.label(name, labelling);
                self.note_alerts();
                Ok(label?)
            }
        }
    }

    /// Moves the volume called `name` from its import/export element into a slot; `None` moves all
    /// volumes in import/export elements.
    pub fn check_in(&mut self, name: Option<&VolumeName>) -> Result<Vec<Location>, DepotError> {
        let library = self.library()?;
        let names = match name {
            None => library.check_in()?,
            Some(name) if library.check_in_volume(name)? => vec![name.clone()],
            Some(name) => {
                let place = "an import/export element";
                return Err(DepotError::Elsewhere { name: name.clone(), place });
            }
        };
        let locations = names.into_iter().map(|name| locate(library, name)).collect();
        self.note_alerts();
        Ok(locations)
    }

    /// Moves a volume to an import/export element; returns the address of the element.
    pub fn check_out(&mut self, name: &VolumeName) -> Result<u16, DepotError> {
        let element = self.library()?.check_out(name)?;
        self.note_alerts();
        Ok(element)
    }

    /// Puts a volume into a drive and leaves the volume there.
    pub fn mount(&mut self, name: &VolumeName) -> Result<MountReport, DepotError> {
        let library = self.library()?;
        find(library, name)?;
        let mut mounted = library.mount_any(name)?;
        let drive = mounted.address();
        let content = volume::identify(&mut mounted.drive);
        library.leave(mounted);
        self.note_alerts();
        Ok(MountReport { drive, content: content? })
    }

    /// Unloads a volume and moves it from its drive back to its slot, or to any free slot.
    pub fn dismount(&mut self, name: &VolumeName) -> Result<Location, DepotError> {
        let library = self.library()?;
        if listed(library, name)?.kind != ElementKind::Drive {
            return Err(DepotError::Elsewhere { name: name.clone(), place: "a drive" });
        }
        let mounted = library.mount_any(name)?;
        library.dismount(mounted)?;
        library.refresh()?;
        let location = locate(library, name.clone());
        self.note_alerts();
        Ok(location)
    }

    /// Cleans the drive with this element address.
    pub fn clean(&mut self, drive: u16) -> Result<(), DepotError> {
        self.library()?.clean(drive)?;
        self.note_alerts();
        Ok(())
    }

    fn note_alerts(&mut self) {
        let DepotVolumes::Library { library, .. } = &mut self.volumes else { return };
        for (drive, alerts) in library.take_alerts() {
            let warnings = alerts.into_iter().map(|alert| Warning::Alert { drive, alert });
            self.warnings.extend(warnings);
        }
    }

    /// Returns the warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}

/// Opens a drive without its changer.
pub fn open_drive(address: &Address) -> Result<Drive, OpenError> {
    let transport = open_device(address)?;
    Drive::open(transport).map_err(|source| OpenError::Drive { address: address.clone(), source })
}

/// Loads the volume in `drive`, which must have a label of this program, and calls `work` with it.
pub fn with_drive<T>(
    mut drive: Drive,
    work: impl FnOnce(&mut dyn Medium, &Label) -> Result<T, VolumeError>,
) -> Result<T, VolumeError> {
    drive.load()?;
    let label = volume::read_label(&mut drive)?;
    work(&mut drive, &label)
}

fn listed(library: &Library, name: &VolumeName) -> Result<ListedVolume, LibraryError> {
    let listed = library.volumes().into_iter().find(|listed| listed.name == *name);
    listed.ok_or_else(|| LibraryError::NotFound(name.clone()))
}

/// Returns the volume called `name`; fails for a cleaning cartridge.
fn find(library: &Library, name: &VolumeName) -> Result<ListedVolume, DepotError> {
    let listed = listed(library, name)?;
    if listed.is_cleaning { Err(DepotError::Cleaner(name.clone())) } else { Ok(listed) }
}

fn locate(library: &Library, name: VolumeName) -> Location {
    let element = listed(library, &name).ok().map(|listed| listed.address);
    Location { name, element }
}

fn put_back<T>(
    library: &mut Library,
    mounted: MountedVolume,
    was_in_drive: bool,
    result: &Result<T, VolumeError>,
) -> Result<(), LibraryError> {
    match result {
        Err(VolumeError::Medium(error @ MediumError::Failed(_))) => {
            library.retire(mounted, &error.to_string())
        }
        _ if was_in_drive => {
            library.leave(mounted);
            Ok(())
        }
        _ => library.dismount(mounted),
    }
}

fn in_folder<T>(
    volumes: &FileVolumes,
    name: &VolumeName,
    work: impl FnOnce(&mut dyn Medium, &Label) -> Result<T, VolumeError>,
) -> Result<T, VolumeError> {
    let mut medium = volumes.medium(name)?;
    let label = volume::read_label(&mut medium)?;
    if label.name != *name {
        return Err(VolumeError::Another { found: label.name });
    }
    work(&mut medium, &label)
}

fn missing_in_folder(error: VolumeError, name: &VolumeName, folder: &Path) -> DepotError {
    match error {
        VolumeError::Medium(MediumError::NoMedium) => {
            DepotError::NotInFolder { name: name.clone(), folder: folder.to_owned() }
        }
        error => DepotError::Volume(error),
    }
}

fn open_folder(path: &Path, capacity_bytes: Option<u64>) -> Result<DepotVolumes, OpenError> {
    let volumes = FileVolumes::open(path, capacity_bytes.unwrap_or(u64::MAX));
    let path = path.to_owned();
    match volumes {
        Ok(volumes) => Ok(DepotVolumes::Folder { volumes, path }),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::WouldBlock => OpenError::FolderInUse(path),
            io::ErrorKind::NotFound => OpenError::NoFolder(path),
            _ => OpenError::Folder { path, source: error },
        }),
    }
}

fn open_library(changer: &Address, drives: &[Address]) -> Result<DepotVolumes, OpenError> {
    let lock = match address::lock(changer) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Err(OpenError::LibraryInUse(changer.clone())),
        Err(source) => return Err(OpenError::Lock { address: changer.clone(), source }),
    };
    let opened: Vec<_> = drives.iter().map(open_device).collect::<Result<_, _>>()?;
    assert_eq!(opened.len(), drives.len(), "the index of a drive that fails names its address");
    let library = Library::open(open_device(changer)?, opened);
    let library = library.map_err(|error| match error {
        library::OpenError::Changer(error) => OpenError::Changer(error),
        library::OpenError::Drive { index, source } => {
            OpenError::Drive { address: drives[index].clone(), source }
        }
    })?;
    Ok(DepotVolumes::Library { library: Box::new(library), lock })
}

fn open_device(address: &Address) -> Result<Box<dyn crate::transport::ScsiTransport>, OpenError> {
    let opened = address.open();
    opened.map_err(|source| OpenError::Device { address: address.clone(), source })
}
