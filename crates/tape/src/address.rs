//! Addresses of devices: of local devices, and of iSCSI targets.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sys::durable::Lock;
use sys::iscsi::Session;
use sys::scsi::{Answer, Exchange, SgDevice};

use crate::line::{Connector, Line, Pauses};
use crate::transport::{Completion, ScsiTransport, Transfer, TransportError};

/// Port that is registered for iSCSI.
const ISCSI_PORT: u16 = 3260;
/// Initiator name with which this program logs in.
const INITIATOR: &str = "iqn.2026-01.holdfast:server";
/// Maximum number of bytes in one transfer over iSCSI: the largest number that was tested with a
/// target.
const ISCSI_TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// The address of a device: `/dev/sg3`, or `iscsi://HOST[:PORT]/TARGET/LUN`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    Local(PathBuf),
    Iscsi {
        /// The host and port of the target.
        portal: String,
        target: String,
        lun: u16,
    },
}

/// Reason why a text is not the address of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the address of a device must have the form /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN")]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with('/') {
            return Ok(Self::Local(PathBuf::from(text)));
        }
        let rest = text.strip_prefix("iscsi://").ok_or(AddressError)?;
        let mut parts = rest.split('/');
        let (Some(host), Some(target), Some(lun), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AddressError);
        };
        if host.is_empty() || target.is_empty() {
            return Err(AddressError);
        }
        // A colon within brackets is part of an IPv6 address.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let portal = if has_port { host.to_owned() } else { format!("{host}:{ISCSI_PORT}") };
        let lun = lun.parse().map_err(|_| AddressError)?;
        Ok(Self::Iscsi { portal, target: target.to_owned(), lun })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Iscsi { portal, target, lun } => write!(f, "iscsi://{portal}/{target}/{lun}"),
        }
    }
}

impl Address {
    /// Opens the device. `Unsupported` means that libiscsi is not installed. The connection to an
    /// iSCSI target is made again by itself after it was cut.
    pub fn open(&self) -> io::Result<Box<dyn ScsiTransport>> {
        self.open_with(Pauses::default())
    }

    /// Opens the device like [`Self::open`], with other times of the line to it.
    pub fn open_with(&self, pauses: Pauses) -> io::Result<Box<dyn ScsiTransport>> {
        Ok(match self {
            Self::Local(path) => Box::new(LocalTransport(SgDevice::open(path)?)),
            Self::Iscsi { portal, target, lun } => {
                let (portal, target, lun) = (portal.clone(), target.clone(), *lun);
                let connect: Connector = Box::new(move || {
                    let session = Session::connect(INITIATOR, &portal, &target, lun)?;
                    Ok(Box::new(IscsiTransport(session)) as Box<dyn ScsiTransport>)
                });
                Box::new(Line::open(connect, pauses)?)
            }
        })
    }
}

/// Folders for lock files of devices. All processes of this program use the first folder that
/// exists.
const LOCK_FOLDERS: [&str; 2] = ["/run/lock", "/tmp"];

/// Locks the library of this changer against other processes until the lock is dropped. Returns
/// `None` if another process holds the lock.
pub fn lock(changer: &Address) -> io::Result<Option<Lock>> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let name: String = changer.to_string().chars().map(plain).collect();
    let folder = LOCK_FOLDERS.iter().map(Path::new).find(|folder| folder.is_dir());
    let folder = folder.ok_or(io::ErrorKind::NotFound)?;
    Lock::try_exclusive(&folder.join(format!("holdfast-tape-{name}.lock")))
}

struct LocalTransport(SgDevice);
struct IscsiTransport(Session);

impl ScsiTransport for LocalTransport {
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        timeout: Duration,
    ) -> Result<Completion, TransportError> {
        completion(self.0.execute(cdb, exchange(transfer), timeout))
    }

    fn transfer_bytes_max(&self) -> Option<u32> {
        self.0.transfer_bytes_max()
    }
}

impl ScsiTransport for IscsiTransport {
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        timeout: Duration,
    ) -> Result<Completion, TransportError> {
        completion(self.0.execute(cdb, exchange(transfer), timeout))
    }

    fn transfer_bytes_max(&self) -> Option<u32> {
        Some(ISCSI_TRANSFER_BYTES_MAX)
    }
}

fn exchange(transfer: Transfer<'_>) -> Exchange<'_> {
    match transfer {
        Transfer::None => Exchange::None,
        Transfer::In(bytes) => Exchange::In(bytes),
        Transfer::Out(bytes) => Exchange::Out(bytes),
    }
}

fn completion(answered: io::Result<Answer>) -> Result<Completion, TransportError> {
    match answered {
        Ok(Answer { status, sense, residual }) => Ok(Completion { status, sense, residual }),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(TransportError::Timeout),
        Err(error) => Err(TransportError::Lost(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let parsed = text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(parsed.ok().as_deref(), expected, "{text}");
    }

    #[test]
    fn addresses_survive() {
        check("/dev/sg3", Some("/dev/sg3"));
        check(
            "iscsi://host/iqn.2026-01.test:vtl/4",
            Some("iscsi://host:3260/iqn.2026-01.test:vtl/4"),
        );
        check("iscsi://h:99/t/0", Some("iscsi://h:99/t/0"));
        check("iscsi://[::1]/t/0", Some("iscsi://[::1]:3260/t/0"));
        check("iscsi://[::1]:99/t/0", Some("iscsi://[::1]:99/t/0"));
        for bad in ["", "sg3", "iscsi://h", "iscsi://h/t", "iscsi:///t/0", "iscsi://h/t/x"] {
            check(bad, None);
        }
    }
}
