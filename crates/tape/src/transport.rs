//! How a SCSI command travels: the one seam between this crate and devices.
//!
//! What a device says about how much it has moved, the residual, is a hint at best: there are
//! targets that invert it. Lengths come from sense bytes and from what the data say of themselves.

mod address;

use std::io;
use std::time::Duration;

pub use address::{Address, AddressError, lock};

/// The data of a command and where they go.
#[derive(Debug)]
pub enum Transfer<'a> {
    None,
    /// From the device. What the device does not fill keeps its bytes.
    In(&'a mut [u8]),
    /// To the device.
    Out(&'a [u8]),
}

/// What came of a command that the device has answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// SAM-5 status byte.
    pub status: u8,
    /// Empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
    /// Bytes that were not moved, as the device or its bus claims. Not to be trusted.
    pub residual: u64,
}

impl Completion {
    /// The answer to a command that went well and moved all that was asked for.
    pub fn good() -> Self {
        Self { status: status::GOOD, sense: Vec::new(), residual: 0 }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The device may still be at it, and where its medium stands is unknown.
    #[error("no answer in time")]
    Timeout,
    /// The way to the device is broken: nothing more will be answered.
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

    /// The most bytes that one command can move; `None` when the device alone decides.
    fn transfer_bytes_max(&self) -> Option<u32> {
        None
    }

    /// Lets time pass for the device.
    fn wait(&mut self, duration: Duration) {
        sys::clock::sleep(duration);
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
}
