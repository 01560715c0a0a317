//! The source of an operator's volumes: a library with a changer, or a folder of files.

use format::volume::{Label, VolumeId, VolumeName};

use crate::drive::Drive;
use crate::file_volume::{FileMedium, FileVolumes};
use crate::library::{Library, LibraryError, Lines, MountedVolume};
use crate::medium::{Medium, MediumError};
use crate::scsi::ElementKind;
use crate::volume::{self, VolumeError};

/// The volumes of an operator.
pub enum Stock {
    Library(Box<Library>),
    Folder {
        volumes: FileVolumes,
        /// Maximum number of files that are open at once; each counts as a drive.
        drives: u32,
    },
}

/// A volume that is ready to be read and written.
pub(super) enum OpenVolume {
    Tape(Box<MountedVolume>),
    File(FileMedium),
}

impl OpenVolume {
    pub(super) fn medium(&mut self) -> &mut dyn Medium {
        match self {
            Self::Tape(mounted) => &mut mounted.drive,
            Self::File(medium) => medium,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Returns true if the volume has to be made ready again before it is used.
    pub(super) fn is_disturbed(&self) -> bool {
        match self {
            Self::Tape(mounted) => mounted.drive.is_disturbed(),
            Self::File(_) => false,
        }
    }

    /// Returns the drive; `None` for a file.
    pub(super) fn drive(&mut self) -> Option<&mut Drive> {
        match self {
            Self::Tape(mounted) => Some(&mut mounted.drive),
            Self::File(_) => None,
        }
    }
}

/// Reason why a volume was not mounted.
#[derive(Debug)]
pub(super) enum MountError {
    /// The volume cannot be used.
    Volume(VolumeError),
    /// The volume is not in the library or folder.
    Missing(String),
    /// The drive has failed, and must not be used any more.
    Drive(String),
    /// The changer failed, or the volume is in a drive that cannot be used now: another attempt may
    /// succeed.
    Changer(String),
    /// Nobody waits for the volume any more.
    Unwanted,
}

impl Stock {
    /// Returns the element addresses of the drives.
    pub(super) fn drives(&self) -> Vec<u16> {
        match self {
            Self::Library(library) => library.drives().iter().map(|drive| drive.address).collect(),
            Self::Folder { drives, .. } => {
                (0..*drives).filter_map(|drive| u16::try_from(drive).ok()).collect()
            }
        }
    }

    /// Returns the lines to the changer and to the drives.
    pub(super) fn lines(&self) -> Lines {
        match self {
            Self::Library(library) => library.lines(),
            Self::Folder { .. } => Lines::default(),
        }
    }

    /// Returns the volumes that are in drives, as the changer reports them now, with the element
    /// addresses of the drives.
    pub(super) fn in_drives(&mut self) -> Result<Vec<(u16, VolumeName)>, LibraryError> {
        let Self::Library(library) = self else { return Ok(Vec::new()) };
        library.refresh()?;
        let volumes = library.volumes().into_iter();
        let in_drives = volumes.filter(|volume| volume.kind == ElementKind::Drive);
        Ok(in_drives.map(|volume| (volume.address, volume.name)).collect())
    }

    /// Lets the changer bring the volume to the drive. The caller loads the volume afterwards.
    pub(super) fn bring(
        &mut self,
        name: &VolumeName,
        drive: u16,
    ) -> Result<OpenVolume, MountError> {
        match self {
            Self::Library(library) => {
                let brought = library.bring_to(name, drive);
                brought
                    .map(|mounted| OpenVolume::Tape(Box::new(mounted)))
                    .map_err(MountError::from)
            }
            Self::Folder { volumes, .. } => {
                volumes.medium(name).map(OpenVolume::File).map_err(|error| match error {
                    VolumeError::Medium(MediumError::NoMedium) => {
                        MountError::Missing(format!("volume {name} is not in its folder"))
                    }
                    error => MountError::Volume(error),
                })
            }
        }
    }

    /// Puts an unloaded volume away.
    pub(super) fn put_back(&mut self, opened: OpenVolume) -> Result<(), LibraryError> {
        let Self::Library(library) = self else { return Ok(()) };
        let OpenVolume::Tape(mounted) = opened else { return Ok(()) };
        library.put_back(*mounted)
    }

    /// Takes the drive out of service. The volume is put away if the drive releases it.
    pub(super) fn retire(&mut self, opened: OpenVolume, reason: &str) -> Result<(), LibraryError> {
        let Self::Library(library) = self else { return Ok(()) };
        let OpenVolume::Tape(mounted) = opened else { return Ok(()) };
        library.retire(*mounted, reason)
    }

    /// Leaves the volume in its drive, for the next request for the volume or the drive.
    pub(super) fn leave(&mut self, opened: OpenVolume) {
        if let (Self::Library(library), OpenVolume::Tape(mounted)) = (self, opened) {
            library.leave(*mounted);
        }
    }
}

impl From<LibraryError> for MountError {
    fn from(error: LibraryError) -> Self {
        match error {
            LibraryError::Volume { source, .. } => Self::Volume(source),
            LibraryError::NotFound(_) => Self::Missing(error.to_string()),
            LibraryError::Drive { source, .. } => Self::Drive(source.to_string()),
            other => Self::Changer(model::chain(&other)),
        }
    }
}

/// Number of attempts to make a volume ready, if the line to its drive is cut meanwhile.
const READY_TRIES: u32 = 5;

/// Makes the volume ready. If a label is expected, reads the label, which must have the name `name`
/// and the identity `expected`. Begins again if the line to the drive is cut meanwhile.
pub(super) fn ready(
    opened: &mut OpenVolume,
    name: &VolumeName,
    expected: Option<VolumeId>,
) -> Result<Option<Label>, VolumeError> {
    let mut tries = 1;
    loop {
        match ready_once(opened, name, expected) {
            Err(VolumeError::Medium(MediumError::PositionLost)) if tries < READY_TRIES => {
                tries += 1;
            }
            ready => return ready,
        }
    }
}

fn ready_once(
    opened: &mut OpenVolume,
    name: &VolumeName,
    expected: Option<VolumeId>,
) -> Result<Option<Label>, VolumeError> {
    if let Some(drive) = opened.drive() {
        drive.load()?;
    }
    let Some(expected) = expected else { return Ok(None) };
    let label = volume::read_label(opened.medium())?;
    let is_it = label.name == *name && label.volume == expected;
    if is_it { Ok(Some(label)) } else { Err(VolumeError::Another { found: label.name }) }
}
