//! What an operator gets volumes from: a library with a robot, or a folder of files.

use format::volume::{Label, VolumeId, VolumeName};

use crate::drive::Drive;
use crate::file_volume::{FileMedium, FileVolumes};
use crate::library::{Library, LibraryError, Mounted};
use crate::medium::{Medium, MediumError};
use crate::volume::{self, VolumeError};

/// Where volumes are.
pub enum Stock {
    Library(Box<Library>),
    /// With as many drives as files may be open at once.
    Folder {
        volumes: FileVolumes,
        drives: u32,
    },
}

/// A volume that is ready to be read and written.
pub(super) enum Loaded {
    Tape(Box<Mounted>),
    File(FileMedium),
}

impl Loaded {
    pub(super) fn medium(&mut self) -> &mut dyn Medium {
        match self {
            Self::Tape(mounted) => &mut mounted.drive,
            Self::File(medium) => medium,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// The drive, where there is one.
    pub(super) fn drive(&mut self) -> Option<&mut Drive> {
        match self {
            Self::Tape(mounted) => Some(&mut mounted.drive),
            Self::File(_) => None,
        }
    }
}

/// Why a volume was not mounted.
#[derive(Debug)]
pub(super) enum MountError {
    /// It is the volume.
    Volume(VolumeError),
    /// It is not there.
    Missing(String),
    /// It is the drive, which is not to be used any more.
    Drive(String),
    /// It is the robot: another try may help.
    Robot(String),
}

impl Stock {
    /// The drives there are.
    pub(super) fn drives(&self) -> Vec<u16> {
        match self {
            Self::Library(library) => library.drives().iter().map(|drive| drive.address).collect(),
            Self::Folder { drives, .. } => {
                (0..*drives).filter_map(|drive| u16::try_from(drive).ok()).collect()
            }
        }
    }

    /// Has the robot bring the volume to the drive; it is not loaded yet.
    pub(super) fn bring(&mut self, name: &VolumeName, drive: u16) -> Result<Loaded, MountError> {
        match self {
            Self::Library(library) => {
                let brought = library.bring_to(name, drive);
                brought.map(|mounted| Loaded::Tape(Box::new(mounted))).map_err(MountError::from)
            }
            Self::Folder { volumes, .. } => {
                volumes.medium(name).map(Loaded::File).map_err(|error| match error {
                    VolumeError::Medium(MediumError::NoMedium) => {
                        MountError::Missing(format!("volume {name} is not in its folder"))
                    }
                    error => MountError::Volume(error),
                })
            }
        }
    }

    /// Puts an unloaded volume away.
    pub(super) fn put_back(&mut self, loaded: Loaded) -> Result<(), LibraryError> {
        let Self::Library(library) = self else { return Ok(()) };
        let Loaded::Tape(mounted) = loaded else { return Ok(()) };
        library.put_back(*mounted)
    }

    /// Takes the drive out of service; the volume goes home if the drive lets go of it.
    pub(super) fn retire(&mut self, loaded: Loaded, reason: &str) -> Result<(), LibraryError> {
        let Self::Library(library) = self else { return Ok(()) };
        let Loaded::Tape(mounted) = loaded else { return Ok(()) };
        library.retire(*mounted, reason)
    }

    /// Leaves the volume in its drive, for whoever comes next.
    pub(super) fn leave(&mut self, loaded: Loaded) {
        if let (Self::Library(library), Loaded::Tape(mounted)) = (self, loaded) {
            library.leave(*mounted);
        }
    }
}

impl From<LibraryError> for MountError {
    fn from(error: LibraryError) -> Self {
        match error {
            LibraryError::Volume { source, .. } => Self::Volume(source),
            LibraryError::NotFound(_) | LibraryError::InUse(_) => Self::Missing(error.to_string()),
            LibraryError::Drive { source, .. } => Self::Drive(source.to_string()),
            other => Self::Robot(model::chain(&other)),
        }
    }
}

/// Makes the volume ready and reads its label, which must be `expected`'s if that is given.
pub(super) fn ready(
    loaded: &mut Loaded,
    name: &VolumeName,
    expected: Option<VolumeId>,
) -> Result<Label, VolumeError> {
    if let Some(drive) = loaded.drive() {
        drive.load()?;
    }
    let label = volume::read_label(loaded.medium())?;
    let is_it = label.name == *name && expected.is_none_or(|expected| expected == label.volume);
    if is_it { Ok(label) } else { Err(VolumeError::Another { found: label.name }) }
}
