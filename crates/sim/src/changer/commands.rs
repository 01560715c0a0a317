//! The commands to the changer: they report its elements and move cartridges between them.

use tape::scsi::{ElementKind, opcode};

use super::{IMPORT_EXPORT_AT, SLOTS_AT};
use crate::attention::{report_first, report_not_ready};
use crate::cartridge::Cartridge;
use crate::clockwork::Motion;
use crate::reply::{Answer, Check, Reply, field};
use crate::world::World;

/// Address of the changer's own element, the medium transport element of SMC-3.
const CHANGER: u16 = 1;
/// Address of the first drive.
const DRIVES_AT: u16 = 500;

/// An element as READ ELEMENT STATUS reports it.
struct Element<'a> {
    address: u16,
    cartridge: Option<&'a Cartridge>,
    source: Option<u16>,
    is_accessible: bool,
    serial: Option<&'a str>,
}

impl Element<'_> {
    fn encode(&self, identified: bool) -> Vec<u8> {
        let full = u8::from(self.cartridge.is_some());
        let access = u8::from(self.is_accessible) << 3;
        let mut bytes = self.address.to_be_bytes().to_vec();
        bytes.extend([full | access, 0, 0, 0, 0, 0, 0]);
        bytes.push(u8::from(self.source.is_some()) << 7);
        bytes.extend(self.source.unwrap_or(0).to_be_bytes());
        let barcode = self.cartridge.map_or("", |cartridge| &cartridge.barcode);
        bytes.extend(format!("{barcode:32}").bytes());
        bytes.extend([0; 4]);
        let serial = self.serial.filter(|_| identified).unwrap_or("");
        let length = u8::try_from(serial.len()).expect("serial numbers are short");
        bytes.extend([2, 0, 0, length]);
        // All descriptors of a page have the same length, so the serial number is padded.
        bytes.extend(format!("{serial:16}").bytes());
        bytes
    }
}

impl World {
    pub(crate) fn execute_changer(&mut self, cdb: &[u8]) -> Answer {
        report_first(&mut self.changer.conditions, cdb[0])?;
        if ![opcode::INQUIRY, opcode::MAINTENANCE_IN].contains(&cdb[0]) {
            report_not_ready(&mut self.changer.starting)?;
        }
        match cdb[0] {
            opcode::TEST_UNIT_READY | opcode::INITIALIZE_ELEMENT_STATUS => Ok(Reply::good()),
            opcode::INQUIRY => Self::inquiry(cdb),
            opcode::MODE_SENSE_6 => self.addresses(cdb),
            opcode::READ_ELEMENT_STATUS => self.element_status(cdb),
            opcode::MOVE_MEDIUM => self.move_medium(cdb),
            opcode::POSITION_TO_ELEMENT => Ok(Reply::good()),
            opcode::PREVENT_ALLOW_MEDIUM_REMOVAL => {
                self.changer.is_held = cdb[4] & 1 != 0;
                Ok(Reply::good())
            }
            _ => Err(Check::UNKNOWN_COMMAND),
        }
    }

    fn inquiry(cdb: &[u8]) -> Answer {
        match (cdb[1] & 1, cdb[2]) {
            (0, _) => {
                let mut bytes = vec![0x08, 0x80, 6, 2, 31, 0, 0, 2];
                bytes.extend(b"HOLDFASTSIM LIBRARY     0001");
                Ok(Reply::with(bytes))
            }
            (_, 0x80) => Ok(Reply::with(b"\x08\x80\0\x08SIMLIB01".to_vec())),
            _ => Err(Check::WRONG_FIELD),
        }
    }

    fn elements(&self, kind: ElementKind) -> Vec<Element<'_>> {
        let cells = self.changer.cells.iter().filter(|cell| cell.kind == kind);
        match kind {
            ElementKind::Changer => vec![Element {
                address: CHANGER,
                cartridge: None,
                source: None,
                is_accessible: true,
                serial: None,
            }],
            ElementKind::Drive => (DRIVES_AT..)
                .zip(&self.drives)
                .map(|(address, drive)| Element {
                    address,
                    cartridge: drive.cartridge.as_ref(),
                    source: drive.source,
                    is_accessible: !drive.is_loaded(),
                    serial: Some(&drive.model.serial),
                })
                .collect(),
            _ => cells
                .map(|cell| Element {
                    address: cell.address,
                    cartridge: cell.cartridge.as_ref(),
                    source: cell.source,
                    is_accessible: true,
                    serial: None,
                })
                .collect(),
        }
    }

    fn element_status(&self, cdb: &[u8]) -> Answer {
        let kinds = [
            ElementKind::Changer,
            ElementKind::Slot,
            ElementKind::ImportExport,
            ElementKind::Drive,
        ];
        let code = cdb[1] & 0x0f;
        let Some(kind) = kinds.into_iter().find(|kind| kind.code() == code) else {
            return Err(Check::WRONG_FIELD);
        };
        let first = field(cdb, 2, 2);
        let count = usize::try_from(field(cdb, 4, 2)).expect("the field has 16 bits");
        let all = self.elements(kind);
        let reported: Vec<_> =
            all.iter().filter(|d| u64::from(d.address) >= first).take(count).collect();
        let encoded: Vec<_> = reported.iter().map(|d| d.encode(cdb[6] & 1 != 0)).collect();
        let short =
            |length: usize| u16::try_from(length).expect("there are few elements").to_be_bytes();
        let body = encoded.concat();
        let long =
            |length: usize| u32::try_from(length).expect("there are few elements").to_be_bytes();
        let lowest = reported.first().map_or(0, |d| d.address);
        let mut bytes = lowest.to_be_bytes().to_vec();
        bytes.extend(short(encoded.len()));
        bytes.extend(long(body.len() + 8));
        bytes.extend([code, 0x80]);
        bytes.extend(short(encoded.first().map_or(0, Vec::len)));
        bytes.extend(long(body.len()));
        bytes.extend(body);
        Ok(Reply::with(bytes))
    }

    fn addresses(&self, cdb: &[u8]) -> Answer {
        if cdb[2] & 0x3f != 0x1d {
            return Err(Check::WRONG_FIELD);
        }
        let count =
            |kind| u16::try_from(self.elements(kind).len()).expect("there are few elements");
        let mut bytes = vec![23, 0, 0, 0, 0x1d, 18];
        for (first, kind) in [
            (CHANGER, ElementKind::Changer),
            (SLOTS_AT, ElementKind::Slot),
            (IMPORT_EXPORT_AT, ElementKind::ImportExport),
            (DRIVES_AT, ElementKind::Drive),
        ] {
            bytes.extend(first.to_be_bytes());
            bytes.extend(count(kind).to_be_bytes());
        }
        bytes.extend([0, 0]);
        Ok(Reply::with(bytes))
    }

    fn drive_index(&self, address: u16) -> Option<usize> {
        let index = usize::from(address.checked_sub(DRIVES_AT)?);
        (index < self.drives.len()).then_some(index)
    }

    fn cell_index(&self, address: u16) -> Option<usize> {
        self.changer.cells.iter().position(|cell| cell.address == address)
    }

    fn move_medium(&mut self, cdb: &[u8]) -> Answer {
        let address = |at| u16::try_from(field(cdb, at, 2)).expect("the field has 16 bits");
        let (from, to) = (address(4), address(6));
        self.check_destination(to)?;
        self.check_source(from)?;
        if std::mem::take(&mut self.changer.is_jammed) {
            return Err(Check::JAMMED);
        }
        self.spend(Motion::Move { from, to });
        let (cartridge, source) = self.take(from);
        self.put(to, cartridge, source);
        Ok(Reply::good())
    }

    fn check_destination(&self, to: u16) -> Result<(), Check> {
        let occupant = match (self.drive_index(to), self.cell_index(to)) {
            (Some(drive), _) => &self.drives[drive].cartridge,
            (_, Some(cell)) => &self.changer.cells[cell].cartridge,
            _ => return Err(Check::WRONG_ELEMENT),
        };
        if occupant.is_some() { Err(Check::DESTINATION_FULL) } else { Ok(()) }
    }

    fn check_source(&self, from: u16) -> Result<(), Check> {
        let occupant = match (self.drive_index(from), self.cell_index(from)) {
            (Some(drive), _) if self.drives[drive].is_loaded() => {
                return Err(Check::REMOVAL_PREVENTED);
            }
            (Some(drive), _) => &self.drives[drive].cartridge,
            (_, Some(cell)) => &self.changer.cells[cell].cartridge,
            _ => return Err(Check::WRONG_ELEMENT),
        };
        if occupant.is_none() { Err(Check::SOURCE_EMPTY) } else { Ok(()) }
    }

    fn take(&mut self, from: u16) -> (Cartridge, u16) {
        let taken = match self.drive_index(from) {
            Some(drive) => self.drives[drive].remove(),
            None => {
                let cell = self.cell_index(from).expect("the move was checked");
                self.changer.cells[cell].cartridge.take()
            }
        };
        (taken.expect("the move was checked"), from)
    }

    fn put(&mut self, to: u16, cartridge: Cartridge, source: u16) {
        if let Some(drive) = self.drive_index(to) {
            self.drives[drive].insert(cartridge, Some(source));
            for motion in self.drives[drive].take_motions() {
                self.spend(motion);
            }
        } else {
            let cell = self.cell_index(to).expect("the move was checked");
            self.changer.cells[cell].cartridge = Some(cartridge);
            self.changer.cells[cell].source = Some(source);
        }
    }
}
