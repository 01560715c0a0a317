//! Requests to an operator, its answers and its events.

use std::io::{self, Write};
use std::sync::Arc;

use format::volume::{Part, VolumeId as LabelId, VolumeName};

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

/// Opens the sink for a part that is about to be read.
pub type Deliver = Arc<dyn Fn(&Part) -> io::Result<Box<dyn Write + Send>> + Send + Sync>;

/// An object that is to be read.
pub struct ReadRequest {
    pub object: ObjectId,
    /// The volumes on which it can be read: each copy on a volume of its own.
    pub copies: Vec<(VolumeRef, Part)>,
    pub deliver: Deliver,
    /// True if zeros may stand for bytes that cannot be read.
    pub salvages: bool,
    pub kind: Kind,
    pub owner: OwnerId,
    pub program: ProgramId,
}

/// Reason why an object was not read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// No copy can be read. The reason is that of the last copy.
    #[error("{0}")]
    Unreadable(String),
    /// Have the volume brought.
    #[error("volume {name} is {absence}")]
    Absent { name: VolumeName, absence: Absence },
    /// Look after the drives.
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
    /// The volume is not in its place.
    Missing { volume: VolumeId, reason: String },
    /// A part of the volume cannot be read, or another volume is in its place.
    Damaged { volume: VolumeId, reason: String },
    /// The robot did not bring a volume to this drive. The volume counts as missing until its owner
    /// reports it as present.
    RobotFailed { drive: u16, reason: String },
    /// The drive with this element address is not used any more.
    DriveFailed { drive: u16, reason: String },
    /// The drive has raised an alert.
    Alert { drive: u16, alert: TapeAlert },
}

/// Callback for events. The threads of the drives call it.
pub type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// The state of a drive, as lists show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveStatus {
    /// Element address.
    pub address: u16,
    pub volume: Option<VolumeName>,
    pub is_idle: bool,
    pub is_writing: bool,
    /// Reason why the drive is not used, if it has failed.
    pub problem: Option<String>,
}

/// Reason why a loan is refused.
#[derive(Debug, thiserror::Error)]
pub enum LoanError {
    /// The volume cannot be mounted. Take another one.
    #[error("volume {name} cannot be used: {reason}")]
    Volume { name: VolumeName, reason: String },
    /// The volume is not available, for a reason that was reported before.
    #[error("volume {name} is {absence}")]
    Absent { name: VolumeName, absence: Absence },
    /// The robot did not bring the volume. Try again later.
    #[error("the robot did not bring volume {name}: {reason}")]
    Robot { name: VolumeName, reason: String },
    /// Look after the drives.
    #[error("no drive works: {0}")]
    Drives(String),
    #[error("the library is being closed")]
    Closing,
}
