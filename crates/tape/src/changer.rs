//! A medium changer (SMC-3): its elements, and the moves of media between them.

use std::sync::Arc;
use std::time::Duration;

use crate::device::{CommandError, Device, Identity};
use crate::line::Line;
use crate::scsi::{
    Cdb, Condition, DeviceKind, Element, ElementAddresses, ElementKind, ElementRange,
    ReadinessFault, Refusal, Run, elements, elements_answer_bytes,
};
use crate::transport::ScsiTransport;

/// Number of elements in one request. The answer stays below 128 KiB, which every bus adapter
/// accepts.
const ELEMENTS_AT_ONCE: u16 = 512;

/// Maximum number of checks whether a starting library is ready: it may inspect its slots for half
/// an hour.
const READY_LOOKS_MAX: u32 = 1800;
const READY_WAIT: Duration = Duration::from_secs(1);

/// Reason why the changer did not move a medium, or did not report its elements.
#[derive(Debug, thiserror::Error)]
pub enum ChangerError {
    /// The source element is empty: the caller takes the inventory again.
    #[error("element {from} is empty")]
    Empty { from: u16 },
    /// The target element is full: the caller takes the inventory again and chooses another
    /// element.
    #[error("element {to} is full")]
    Full { to: u16 },
    /// The drive has not released the medium: the caller unloads the drive first.
    #[error("element {from} has not released its medium")]
    Held { from: u16 },
    /// The changer has a fault: a person has to check the library.
    #[error("the changer failed")]
    Failed(#[source] CommandError),
    #[error("the changer did not carry out a command")]
    Device(#[from] CommandError),
}

/// A changer.
pub struct Changer {
    device: Device,
    identity: Identity,
    addresses: ElementAddresses,
    /// True until the changer has refused to name its drives.
    names_drives: bool,
}

impl Changer {
    /// Opens the changer at the other end of `transport`; waits while the changer is starting.
    pub fn open(transport: Box<dyn ScsiTransport>) -> Result<Self, CommandError> {
        const ADDRESSES_PAGE: u8 = 0x1d;
        let mut device = Device::open(transport)?;
        let identity = device.identity()?;
        if identity.inquiry.kind != DeviceKind::Changer {
            let why = "the device is not a medium changer";
            return Err(CommandError::Answer(format::DamageError { what: "inquiry", why }));
        }
        wait_until_ready(&mut device)?;
        let mut sensed = [0; 64];
        device.query(&Cdb::mode_sense(ADDRESSES_PAGE, 64), &mut sensed)?;
        let addresses = ElementAddresses::parse(&sensed)?;
        Ok(Self { device, identity, addresses, names_drives: true })
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn addresses(&self) -> ElementAddresses {
        self.addresses
    }

    /// Makes the changer inspect every element. This takes minutes in a large library.
    pub fn look_again(&mut self) -> Result<(), ChangerError> {
        Ok(self.device.order(&Cdb::initialize_element_status())?)
    }

    /// Returns all slots, import/export elements and drives, as the changer reports them.
    pub fn elements(&mut self) -> Result<Vec<Element>, ChangerError> {
        let runs = [
            (ElementKind::Slot, self.addresses.slots),
            (ElementKind::ImportExport, self.addresses.import_export),
            (ElementKind::Drive, self.addresses.drives),
        ];
        let mut found = Vec::new();
        for (kind, run) in runs {
            found.extend(self.elements_of(kind, run)?);
        }
        Ok(found)
    }

    fn elements_of(&mut self, kind: ElementKind, run: Run) -> Result<Vec<Element>, ChangerError> {
        let mut found = Vec::new();
        let mut left = run.count;
        let mut first = run.first;
        while left > 0 {
            let count = left.min(ELEMENTS_AT_ONCE);
            found.extend(self.some_elements(ElementRange { kind, first, count })?);
            left -= count;
            first = first.saturating_add(count);
        }
        Ok(found)
    }

    fn some_elements(&mut self, range: ElementRange) -> Result<Vec<Element>, CommandError> {
        assert!(
            (1..=ELEMENTS_AT_ONCE).contains(&range.count),
            "the answer stays below the limit of bus adapters"
        );
        let bytes = elements_answer_bytes(range.count) as usize;
        let mut answer = vec![0; bytes];
        let named = self.names_drives && range.kind == ElementKind::Drive;
        let cdb =
            |named| Cdb::read_element_status(range.kind.code(), range.first, range.count, named);
        match self.device.query(&cdb(named), &mut answer) {
            Err(error) if named && error.is_refused() => {
                self.names_drives = false;
                self.device.query(&cdb(false), &mut answer)?;
            }
            other => other?,
        }
        Ok(elements(&answer, range)?)
    }

    /// Moves the medium in element `from` to element `to`.
    ///
    /// If the line to the changer is cut, the move is ordered again after that. The changer may
    /// have carried out the first order.
    pub fn move_medium(&mut self, from: u16, to: u16) -> Result<(), ChangerError> {
        debug_assert_ne!(from, to, "a move has two different elements");
        let cdb = Cdb::move_medium(self.addresses.changers.first, from, to);
        let cuts = self.device.cuts();
        let Err(error) = self.device.order(&cdb) else { return Ok(()) };
        if self.device.cuts() > cuts && self.has_moved(from, to)? {
            return Ok(());
        }
        Err(match error.condition() {
            Some(Condition::Refused(Refusal::SourceEmpty)) => ChangerError::Empty { from },
            Some(Condition::Refused(Refusal::DestinationFull)) => ChangerError::Full { to },
            Some(Condition::Refused(Refusal::RemovalPrevented)) => ChangerError::Held { from },
            Some(Condition::HardwareError | Condition::NotReady(_)) => ChangerError::Failed(error),
            _ => ChangerError::Device(error),
        })
    }

    /// Returns true if element `from` is empty and element `to` is full.
    fn has_moved(&mut self, from: u16, to: u16) -> Result<bool, ChangerError> {
        let elements = self.elements()?;
        let is_full = |address| {
            let found = elements.iter().find(|element| element.address == address);
            found.is_some_and(|element| element.is_full)
        };
        Ok(!is_full(from) && is_full(to))
    }

    /// Returns the line to the changer, if a line is made again after it was cut.
    pub fn line(&self) -> Option<Arc<Line>> {
        self.device.line()
    }

    /// Sends the changer to an element in advance. Does nothing if the changer refuses the command.
    pub fn position(&mut self, to: u16) -> Result<(), ChangerError> {
        let cdb = Cdb::position_to_element(self.addresses.changers.first, to);
        match self.device.order(&cdb) {
            Err(error) if !error.is_refused() => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn wait(&mut self, duration: Duration) {
        self.device.wait(duration);
    }
}

fn wait_until_ready(device: &mut Device) -> Result<(), CommandError> {
    for _ in 1..READY_LOOKS_MAX {
        match device.order(&Cdb::test_unit_ready()) {
            Err(error)
                if error.condition() == Some(Condition::NotReady(ReadinessFault::Becoming)) =>
            {
                device.wait(READY_WAIT);
            }
            other => return other,
        }
    }
    device.order(&Cdb::test_unit_ready())
}
