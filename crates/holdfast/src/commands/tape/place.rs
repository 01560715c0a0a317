//! A library that was opened, and volumes in it.
//!
//! One command at a time has a library: what another one has in a drive would look forgotten.

use std::io;
use std::path::{Path, PathBuf};

use ::tape::drive::Drive;
use ::tape::file_volume::FileVolumes;
use ::tape::library::{Library, LibraryError, Mounted};
use ::tape::medium::{Medium, MediumError};
use ::tape::scsi::ElementKind;
use ::tape::transport::{self, Address};
use ::tape::volume::{self, VolumeError};
use format::volume::{Label, VolumeName};
use sys::durable::Lock;

use super::site::Site;
use super::trouble;
use crate::error::CommandError;

/// What holds volumes.
pub(super) enum Place {
    Folder { volumes: FileVolumes, path: PathBuf },
    Library { library: Box<Library>, _lock: Lock },
}

/// A place, and what is to be said about it at the end.
pub(super) struct Opened {
    pub(super) place: Place,
    pub(super) warnings: Vec<String>,
}

impl Opened {
    pub(super) fn open(site: &Site) -> Result<Self, CommandError> {
        let place = match site {
            Site::Folder { path, capacity_bytes } => open_folder(path, *capacity_bytes)?,
            Site::Devices { changer, drives } => {
                let lock = lock(changer)?;
                let library = Box::new(open_library(changer, drives)?);
                Place::Library { library, _lock: lock }
            }
        };
        Ok(Self { place, warnings: Vec::new() })
    }

    /// The library, for what folders do not have.
    pub(super) fn library(&mut self) -> Result<&mut Library, CommandError> {
        match &mut self.place {
            Place::Library { library, .. } => Ok(library),
            Place::Folder { path, .. } => Err(CommandError::new(format!(
                "{} is a folder: it has no slots and no drives, its volumes are used as they are",
                path.display()
            ))),
        }
    }

    /// Has `work` done on a volume, which must have our label; then it goes where it was.
    pub(super) fn with_volume<T>(
        &mut self,
        name: &VolumeName,
        work: impl FnOnce(&mut dyn Medium, &Label) -> Result<T, VolumeError>,
    ) -> Result<T, CommandError> {
        match &mut self.place {
            Place::Folder { volumes, path } => {
                let result = in_folder(volumes, name, work);
                result.map_err(|error| of_file(&error, name, path))
            }
            Place::Library { library, .. } => {
                let was_in_drive = prepare(library, name)?;
                let mounted = library.mount(name);
                let (mut mounted, label) = mounted.map_err(|error| trouble::of_library(&error))?;
                let result = work(&mut mounted.drive, &label);
                if let Err(error) = put_back(library, mounted, was_in_drive, &result) {
                    self.warnings.push(trouble::of_library(&error).message);
                }
                self.note_alerts();
                result.map_err(|error| trouble::of_volume(&error))
            }
        }
    }

    /// Keeps what the drives have raised, to be said at the end.
    pub(super) fn note_alerts(&mut self) {
        let Place::Library { library, .. } = &mut self.place else { return };
        for (address, alerts) in library.take_alerts() {
            let said = alerts.iter().map(|alert| format!("drive {address}: {alert}"));
            self.warnings.extend(said);
        }
    }
}

/// Works on what is in a drive that has no changer, or none that is asked.
pub(super) fn with_drive<T>(
    address: &Address,
    work: impl FnOnce(&mut dyn Medium, &Label) -> Result<T, VolumeError>,
) -> Result<T, CommandError> {
    let transport = address.open().map_err(|error| trouble::of_address(address, &error))?;
    let drive = Drive::open(transport);
    let mut drive = drive.map_err(|error| {
        let told = CommandError::chain(&error);
        CommandError::new(format!("drive {address}: {}", told.message))
    })?;
    drive.load().map_err(|error| trouble::of_medium(&error))?;
    let label = volume::read_label(&mut drive).map_err(|error| trouble::of_volume(&error))?;
    work(&mut drive, &label).map_err(|error| trouble::of_volume(&error))
}

/// Refuses what is no data cartridge; returns whether the volume is in a drive already.
pub(super) fn prepare(library: &Library, name: &VolumeName) -> Result<bool, CommandError> {
    let listed = library.volumes().into_iter().find(|listed| listed.name == *name);
    let listed =
        listed.ok_or_else(|| trouble::of_library(&LibraryError::NotFound(name.clone())))?;
    if listed.is_cleaning {
        return Err(CommandError::new(format!("{name} is a cleaning cartridge")));
    }
    Ok(listed.kind == ElementKind::Drive)
}

fn put_back<T>(
    library: &mut Library,
    mounted: Mounted,
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

pub(super) fn of_file(error: &VolumeError, name: &VolumeName, folder: &Path) -> CommandError {
    if matches!(error, VolumeError::Medium(MediumError::NoMedium)) {
        return CommandError {
            message: format!("volume {name} is not in {}", folder.display()),
            hint: Some("'holdfast tape label' makes it".to_owned()),
        };
    }
    trouble::of_volume(error)
}

fn open_folder(path: &Path, capacity_bytes: Option<u64>) -> Result<Place, CommandError> {
    let shown = path.display();
    let volumes = FileVolumes::open(path, capacity_bytes.unwrap_or(u64::MAX));
    let volumes = volumes.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => CommandError {
            message: format!("the volumes in {shown} are in use by another process"),
            hint: Some("try again when it has ended".to_owned()),
        },
        io::ErrorKind::NotFound => CommandError::new(format!("there is no folder {shown}")),
        _ => CommandError::new(format!("cannot use the folder {shown}: {error}")),
    })?;
    Ok(Place::Folder { volumes, path: path.to_owned() })
}

fn open_library(changer: &Address, drives: &[Address]) -> Result<Library, CommandError> {
    let open =
        |address: &Address| address.open().map_err(|error| trouble::of_address(address, &error));
    let opened = drives.iter().map(open).collect::<Result<_, _>>()?;
    Library::open(open(changer)?, opened).map_err(|error| trouble::of_opening(&error, drives))
}

fn lock(changer: &Address) -> Result<Lock, CommandError> {
    match transport::lock(changer) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(CommandError {
            message: format!("the library at {changer} is in use by another process"),
            hint: Some("try again when it has ended; a server keeps its libraries".to_owned()),
        }),
        Err(error) => Err(CommandError::new(format!("cannot lock {changer}: {error}"))),
    }
}
