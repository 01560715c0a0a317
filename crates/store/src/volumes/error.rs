//! Errors of libraries, volumes and the packs on them, grouped by the reaction of the caller.

use tape::schedule::{Absence, Refusal};

use crate::error::StoreError;

/// Failure to use a library of the server.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LibraryError {
    /// The author of the request corrects the name.
    #[error("there is no library {library}; 'holdfast admin library list' shows all")]
    Unknown { library: String },
    /// The administrator repairs the library. Until then packs come from other libraries.
    #[error("library {library}: {fault}")]
    Unusable { library: String, fault: SiteFault },
}

impl From<LibraryError> for StoreError {
    fn from(error: LibraryError) -> Self {
        let text = error.to_string();
        match error {
            LibraryError::Unknown { .. } => Self::NotFound(text),
            LibraryError::Unusable { .. } => Self::Conflict(text),
        }
    }
}

/// Reason why nothing in a library can be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SiteFault {
    /// The administrator mounts the disk with the folder.
    #[error("{folder} does not exist or is not the library's folder; is its disk mounted?")]
    Unmounted { folder: String },
    /// The administrator ends the other process.
    #[error("another process uses {place}; stop that process first")]
    InUse { place: String },
    /// The administrator makes room, or adds another library.
    #[error("the disk of {folder} is full; make room on it")]
    Full { folder: String },
    /// The administrator corrects the address, or repairs the device or the disk.
    #[error("{place}: {reason}")]
    Broken { place: String, reason: String },
}

impl SiteFault {
    pub(crate) fn broken(place: impl ToString, error: &dyn std::error::Error) -> Self {
        let reason = model::chain(error).trim_end().to_owned();
        Self::Broken { place: place.to_string(), reason }
    }
}

/// Invalid name of a volume in the catalogue. The catalogue is damaged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{volume}: {source}")]
pub(crate) struct InvalidName {
    pub volume: String,
    pub source: format::volume::VolumeNameError,
}

impl From<InvalidName> for StoreError {
    fn from(error: InvalidName) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// A volume that cannot be read now.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("volume {volume} is {absence}{}", place(.location))]
pub struct AbsentVolume {
    pub volume: String,
    pub absence: Absence,
    /// Location of the volume, in the words of the administrator; may be empty.
    pub location: String,
}

impl AbsentVolume {
    fn unplaced(volume: String, absence: Absence) -> Self {
        Self { volume, absence, location: String::new() }
    }
}

fn place(location: &str) -> String {
    if location.is_empty() { String::new() } else { format!(", in {location}") }
}

/// Failure to bring a pack from its volumes to the stage.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError {
    /// The pack comes from another pool, if another pool has it.
    #[error("no volume has the pack")]
    Unshelved,
    /// The administrator brings one of the volumes back. Another copy may be available meanwhile.
    #[error("{}", list(.0))]
    Absent(Vec<AbsentVolume>),
    /// Another copy may be in a library that can be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The library accepts no further request. The reader asks again later, or by a list of files.
    #[error(transparent)]
    Refused(Refusal),
    /// This copy, or its row in the catalogue, cannot be read. Another copy may be undamaged.
    #[error("{0}")]
    Unreadable(String),
    /// The reader asks again: the stage needed the room before the pack was opened, or the library
    /// opens again with other settings.
    #[error("{0}")]
    Retry(&'static str),
    /// The places of the pack could not be read from the catalogue.
    #[error(transparent)]
    Catalog(StoreError),
    /// Nobody waits for the pack any more.
    #[error("the request was cancelled")]
    Cancelled,
}

fn list(volumes: &[AbsentVolume]) -> String {
    volumes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl FetchError {
    /// Converts a refusal of the library, which knows only the number of the volume.
    pub(crate) fn refused(refusal: Refusal, volume: String) -> Self {
        match refusal {
            Refusal::Unavailable { absence, .. } => {
                Self::Absent(vec![AbsentVolume::unplaced(volume, absence)])
            }
            refusal => Self::Refused(refusal),
        }
    }
}

impl From<tape::operator::ReadError> for FetchError {
    fn from(error: tape::operator::ReadError) -> Self {
        use tape::operator::ReadError;
        match error {
            ReadError::Absent { name, absence } => {
                Self::Absent(vec![AbsentVolume::unplaced(name.to_string(), absence)])
            }
            ReadError::Unreadable(_) | ReadError::NoDrive(_) => Self::Unreadable(error.to_string()),
        }
    }
}

impl From<InvalidName> for FetchError {
    fn from(error: InvalidName) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<catalog::CatalogError> for FetchError {
    fn from(error: catalog::CatalogError) -> Self {
        Self::Catalog(error.into())
    }
}

impl From<FetchError> for StoreError {
    fn from(error: FetchError) -> Self {
        let text = error.to_string();
        match error {
            FetchError::Catalog(error) => error,
            FetchError::Unreadable(_) | FetchError::Retry(_) => Self::Away(text),
            FetchError::Unshelved
            | FetchError::Absent(_)
            | FetchError::Library(_)
            | FetchError::Refused(_)
            | FetchError::Cancelled => Self::Conflict(text),
        }
    }
}
