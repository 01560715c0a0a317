//! Libraries: changers with drives, and folders of files that stand for tapes.

use model::ServerTime;
use wire::proto;
use wire::proto::serve_library_request::Work;

use super::connection::Admin;
use super::optional;
use super::words::words;
use crate::ClientError;
use crate::link::portions::{self, Section};

words!(
    /// State of a drive.
    DriveState(proto::library_drive::State) {
        Empty = "empty",
        Mounting = "mounting",
        Idle = "idle",
        Reading = "reading",
        Writing = "writing",
        Failed = "failed",
        Away = "away",
    }
);

words!(
    /// Kind of an element of a changer.
    ElementKind(proto::library_element::Kind) {
        Slot = "slot",
        Drive = "drive",
        ImportExport = "import/export",
        Robot = "robot",
    }
);

/// A library.
#[derive(Clone, Debug)]
pub struct Library {
    pub name: String,
    pub place: LibraryPlace,
    /// Addresses of the drives, as the administrator gave them.
    pub drive_addresses: Vec<String>,
    /// Maximum number of volumes that are mounted at the same time; `None` for one in each drive.
    pub mounts_max: Option<u32>,
    /// Time that a volume stays mounted after its last use, in seconds.
    pub retain_secs: u32,
    /// True if a program that opens a migrated file gets an error. Only lists of files and restores
    /// are then recalled.
    pub optimised_only: bool,
    /// Maximum number of drives that write at the same time; `None` for all drives but one.
    pub writers_max: Option<u32>,
    /// Reason why the library cannot be used.
    pub problem: Option<String>,
    /// Time since which the library or its changer does not answer.
    pub away_since: Option<ServerTime>,
    pub drives: Vec<LibraryDrive>,
    /// Elements of the changer. Only an inventory has them.
    pub elements: Vec<Element>,
}

/// The place of a library.
#[derive(Clone, Debug)]
pub enum LibraryPlace {
    Changer {
        address: String,
    },
    Folder {
        path: String,
        /// Size of each volume; `None` if only the disk limits it.
        capacity_bytes: Option<u64>,
    },
}

/// A drive of a library.
#[derive(Clone, Debug)]
pub struct LibraryDrive {
    /// Element address, or the number of a drive of a folder.
    pub address: u32,
    pub product: String,
    pub serial: String,
    /// Volume in the drive.
    pub volume: Option<String>,
    pub state: DriveState,
    /// Reason of the failure or the absence.
    pub problem: Option<String>,
    /// Time since which the connection to the drive is away.
    pub away_since: Option<ServerTime>,
    pub wants_cleaning: bool,
}

/// An element of a changer.
#[derive(Clone, Debug)]
pub struct Element {
    pub kind: ElementKind,
    pub address: u32,
    pub is_full: bool,
    pub barcode: Option<String>,
}

impl From<proto::Library> for Library {
    fn from(message: proto::Library) -> Self {
        let place = match optional::text(message.changer) {
            Some(address) => LibraryPlace::Changer { address },
            None => LibraryPlace::Folder {
                path: message.folder,
                capacity_bytes: message.capacity_bytes,
            },
        };
        Self {
            name: message.name,
            place,
            drive_addresses: message.drive_addresses,
            mounts_max: (message.drives_max > 0).then_some(message.drives_max),
            retain_secs: message.retain_secs,
            optimised_only: message.optimised_only,
            writers_max: (message.writers_max > 0).then_some(message.writers_max),
            problem: optional::text(message.problem),
            away_since: message.away_since.map(ServerTime),
            drives: message.drives.into_iter().map(LibraryDrive::from).collect(),
            elements: message.elements.into_iter().map(Element::from).collect(),
        }
    }
}

impl From<proto::LibraryDrive> for LibraryDrive {
    fn from(message: proto::LibraryDrive) -> Self {
        let state = message.state().into();
        Self {
            address: message.address,
            product: message.product,
            serial: message.serial,
            volume: optional::text(message.volume),
            state,
            problem: optional::text(message.problem),
            away_since: message.away_since.map(ServerTime),
            wants_cleaning: message.wants_cleaning,
        }
    }
}

impl From<proto::LibraryElement> for Element {
    fn from(message: proto::LibraryElement) -> Self {
        Self {
            kind: message.kind().into(),
            address: message.address,
            is_full: message.is_full,
            barcode: optional::text(message.barcode),
        }
    }
}

/// A library to add.
#[derive(Clone, Debug)]
pub struct NewLibrary {
    pub name: String,
    pub place: LibraryPlace,
    /// Addresses of the drives, in the order of their elements.
    pub drive_addresses: Vec<String>,
    pub change: LibraryChange,
}

/// Settings of a library; `None` leaves a setting as it is, or at its default for a new library.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LibraryChange {
    pub mounts_max: Option<u32>,
    pub retain_secs: Option<u32>,
    pub optimised_only: Option<bool>,
    pub writers_max: Option<u32>,
}

impl LibraryChange {
    fn request(self, name: String) -> proto::PutLibraryRequest {
        proto::PutLibraryRequest {
            name,
            drives_max: self.mounts_max,
            retain_secs: self.retain_secs,
            optimised_only: self.optimised_only,
            writers_max: self.writers_max,
            ..proto::PutLibraryRequest::default()
        }
    }
}

/// Work of a library that a person asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LibraryWork {
    /// Moves the volumes in the import/export elements into slots.
    CheckIn,
    /// Moves a volume from an import/export element into a slot.
    CheckInVolume { volume: String },
    /// Moves a volume into an import/export element, where a person takes it.
    CheckOut { volume: String },
    /// Cleans the drive with this element address.
    Clean { drive: u32 },
    /// Uses the drive again after its repair.
    RestoreDrive { drive: u32 },
    /// Makes the changer inspect every element.
    Scan,
}

impl From<LibraryWork> for Work {
    fn from(work: LibraryWork) -> Self {
        match work {
            LibraryWork::CheckIn => Self::CheckIn(true),
            LibraryWork::CheckInVolume { volume } => Self::CheckInVolume(volume),
            LibraryWork::CheckOut { volume } => Self::CheckOut(volume),
            LibraryWork::Clean { drive } => Self::Clean(drive),
            LibraryWork::RestoreDrive { drive } => Self::RestoreDrive(drive),
            LibraryWork::Scan => Self::LookAgain(true),
        }
    }
}

impl Admin {
    /// Lists one library, or all libraries. With `inventory` the changers are asked for their
    /// elements.
    pub fn libraries(
        &mut self,
        name: Option<&str>,
        inventory: bool,
    ) -> Result<Vec<Library>, ClientError> {
        let libraries = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::LibrariesRequest { name, inventory, portion: Some(portion) };
            let reply = self.call(async |server| server.libraries(request).await)?;
            Ok(Section { items: reply.libraries, next: reply.next })
        })?;
        Ok(libraries.into_iter().map(Library::from).collect())
    }

    pub fn add_library(&mut self, library: NewLibrary) -> Result<Library, ClientError> {
        let NewLibrary { name, place, drive_addresses, change } = library;
        let mut request =
            proto::PutLibraryRequest { is_new: true, drive_addresses, ..change.request(name) };
        match place {
            LibraryPlace::Changer { address } => request.changer = address,
            LibraryPlace::Folder { path, capacity_bytes } => {
                request.folder = path;
                request.capacity_bytes = capacity_bytes;
            }
        }
        Ok(self.call(async |server| server.put_library(request).await)?.into())
    }

    pub fn set_library(
        &mut self,
        name: String,
        change: LibraryChange,
    ) -> Result<Library, ClientError> {
        let request = change.request(name);
        Ok(self.call(async |server| server.put_library(request).await)?.into())
    }

    pub fn remove_library(&mut self, name: &str) -> Result<Library, ClientError> {
        let request = proto::LibrariesRequest { name: name.to_owned(), ..Default::default() };
        Ok(self.call(async |server| server.remove_library(request).await)?.into())
    }

    /// Makes a library do `work`. Returns after the work is done.
    pub fn serve_library(&mut self, name: &str, work: LibraryWork) -> Result<Library, ClientError> {
        let request = proto::ServeLibraryRequest { name: name.to_owned(), work: Some(work.into()) };
        Ok(self.call(async |server| server.serve_library(request).await)?.into())
    }
}
