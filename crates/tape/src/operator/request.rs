//! Requests to an operator, its answers and its events.

use std::io::{self, Write};
use std::sync::Arc;

use format::volume::{Part, VolumeId as LabelId, VolumeName};

use crate::line::Outage;
use crate::schedule::{Absence, Kind, ObjectId, OwnerId, ProgramId, VolumeId};
use crate::scsi::TapeAlert;

/// Reference to a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRef {
    /// Number of the volume, given by its owner.
    pub id: VolumeId,
    pub name: VolumeName,
    /// Identity in the volume's label; `None` for a volume that is about to be labelled.
    pub label: Option<LabelId>,
    pub block_bytes: u32,
}

/// Callback that opens the sink for a part, just before the part is read.
pub type SinkOpener = Arc<dyn Fn(&Part) -> io::Result<Box<dyn Write + Send>> + Send + Sync>;

/// An object that is to be read.
pub struct ReadRequest {
    pub object: ObjectId,
    /// Copies of the object, each on a volume of its own.
    pub copies: Vec<(VolumeRef, Part)>,
    pub deliver: SinkOpener,
    /// True if zeros may replace bytes that cannot be read.
    pub salvages: bool,
    pub kind: Kind,
    pub owner: OwnerId,
    pub program: ProgramId,
}

/// Reason why an object was not read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// No copy can be read. The text is the error of the last copy.
    #[error("{0}")]
    Unreadable(String),
    /// No volume with a copy is available: a person has to bring such a volume.
    #[error("volume {name} is {absence}")]
    Absent { name: VolumeName, absence: Absence },
    /// All drives have failed: a person has to check them.
    #[error("no drive works: {0}")]
    NoDrive(String),
}

/// Outcome of a read request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub object: ObjectId,
    pub result: Result<(), ReadError>,
}

/// Event for the owner of the volumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The volume is not in its library or folder.
    Missing { volume: VolumeId, reason: String },
    /// A part of the volume cannot be read, or another volume is in its place.
    Damaged { volume: VolumeId, reason: String },
    /// The changer did not bring a volume to this drive. The volume counts as missing until its
    /// owner reports it as present.
    ChangerFailed { drive: u16, reason: String },
    /// The drive with this element address has failed, and is not used any more.
    DriveFailed { drive: u16, reason: String },
    /// The drive has raised an alert.
    Alert { drive: u16, alert: TapeAlert },
}

/// Callback for events. The threads of the drives call it.
pub type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// The state of a drive, as lists show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveStatus {
    /// Element address of the drive.
    pub address: u16,
    pub volume: Option<VolumeName>,
    pub is_idle: bool,
    pub is_writing: bool,
    /// Reason why the drive is not used, if it has failed.
    pub problem: Option<String>,
    /// Number of errors since the library was opened: failures of the drive, and volumes that could
    /// not be read or written in it.
    pub errors: u64,
    /// Absence of the line to the drive. The line is made again by itself.
    pub outage: Option<Outage>,
}

/// Reason why a loan is refused.
#[derive(Debug, thiserror::Error)]
pub enum LoanError {
    /// The volume cannot be mounted: the caller takes another volume.
    #[error("volume {name} cannot be used: {reason}")]
    Volume { name: VolumeName, reason: String },
    /// The volume is not available, for a reason that was reported before.
    #[error("volume {name} is {absence}")]
    Absent { name: VolumeName, absence: Absence },
    /// The changer did not bring the volume: the caller tries again later.
    #[error("the changer did not bring volume {name}: {reason}")]
    Changer { name: VolumeName, reason: String },
    /// All drives have failed: a person has to check them.
    #[error("no drive works: {0}")]
    Drives(String),
    #[error("the library is being closed")]
    Closing,
}
