//! The transport of SCSI commands: the only interface between this crate and devices.
//!
//! The residual is the number of bytes that a device claims not to have transferred. It is only a
//! hint, because some targets invert it. Lengths come from sense bytes and from the data itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::line::Line;

/// The data of a command, and its direction.
#[derive(Debug)]
pub enum Transfer<'a> {
    None,
    /// Data from the device. Bytes that the device does not send stay as they are.
    In(&'a mut [u8]),
    /// Data to the device.
    Out(&'a [u8]),
}

/// The answer of a device to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Status byte, as in SAM-5.
    pub status: u8,
    /// Sense bytes; empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
    /// Number of bytes that were not transferred, as the device or its bus claims; not reliable.
    pub residual: u64,
}

impl Completion {
    /// Returns the answer to a command that succeeded and transferred all bytes.
    pub fn good() -> Self {
        Self { status: status::GOOD, sense: Vec::new(), residual: 0 }
    }
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The device may still execute the command, and the position of its medium is unknown.
    #[error("the device did not answer in time")]
    Timeout,
    /// The line to the device was cut, and is being made again: the device may have executed the
    /// command, may have been reset, and may have another medium. The caller sends further
    /// commands, which wait for the line.
    #[error("the connection to the device was cut")]
    Cut(#[source] io::Error),
    /// The connection to the device is broken, or its line is away for too long: commands get no
    /// answer now.
    #[error("the device cannot be reached")]
    Lost(#[source] io::Error),
}

/// Status bytes (SAM-5 5.3).
pub mod status {
    pub const GOOD: u8 = 0x00;
    pub const CHECK_CONDITION: u8 = 0x02;
    pub const BUSY: u8 = 0x08;
    pub const RESERVATION_CONFLICT: u8 = 0x18;
    pub const TASK_SET_FULL: u8 = 0x28;
}

/// One logical unit of one device.
pub trait ScsiTransport: Send {
    /// Executes `cdb` and waits for its answer for at most `timeout`.
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        timeout: Duration,
    ) -> Result<Completion, TransportError>;

    /// Maximum number of bytes that one command can move; `None` if only the device limits it.
    fn transfer_bytes_max(&self) -> Option<u32> {
        None
    }

    /// Waits, to give the device time.
    fn wait(&mut self, duration: Duration) {
        sys::clock::sleep(duration);
    }

    /// Returns the line to the device, if a line is made again after it was cut.
    fn line(&self) -> Option<Arc<Line>> {
        None
    }

    /// Returns true if the line was cut since the last command, so that the next command fails with
    /// [`TransportError::Cut`].
    fn was_cut(&self) -> bool {
        false
    }
}

impl<T: ScsiTransport + ?Sized> ScsiTransport for Box<T> {
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        timeout: Duration,
    ) -> Result<Completion, TransportError> {
        (**self).execute(cdb, transfer, timeout)
    }

    fn transfer_bytes_max(&self) -> Option<u32> {
        (**self).transfer_bytes_max()
    }

    fn wait(&mut self, duration: Duration) {
        (**self).wait(duration);
    }

    fn line(&self) -> Option<Arc<Line>> {
        (**self).line()
    }

    fn was_cut(&self) -> bool {
        (**self).was_cut()
    }
}
