//! The elements of a changer that hold cartridges: slots and import/export elements.

mod commands;

use tape::scsi::ElementKind;

use crate::cartridge::Cartridge;
use crate::layout::Layout;
use crate::reply::Check;

/// Address of the first import/export element.
pub(crate) const IMPORT_EXPORT_AT: u16 = 700;
/// Address of the first slot.
pub(crate) const SLOTS_AT: u16 = 1000;

/// A slot or an import/export element.
pub(crate) struct Cell {
    pub(crate) kind: ElementKind,
    pub(crate) address: u16,
    pub(crate) cartridge: Option<Cartridge>,
    /// Address of the element that the cartridge came from.
    pub(crate) source: Option<u16>,
}

/// The changer's own state.
pub(crate) struct Changer {
    pub(crate) cells: Vec<Cell>,
    pub(crate) is_jammed: bool,
    /// Number of further commands that the changer answers with "becoming ready".
    pub(crate) starting: u32,
    /// True while the import/export elements are locked.
    pub(crate) is_held: bool,
    /// Conditions to report, oldest first.
    pub(crate) conditions: Vec<Check>,
}

impl Changer {
    pub(crate) fn new(layout: &Layout, cartridges: Vec<Cartridge>) -> Self {
        assert!(
            cartridges.len() <= usize::from(layout.slot_count),
            "each cartridge must have a slot"
        );
        let mut cartridges = cartridges.into_iter();
        let slots = (0..layout.slot_count)
            .map(|index| (ElementKind::Slot, SLOTS_AT + index, cartridges.next()));
        let portals = (0..layout.import_export_count)
            .map(|index| (ElementKind::ImportExport, IMPORT_EXPORT_AT + index, None));
        let cells = slots
            .chain(portals)
            .map(|(kind, address, cartridge)| Cell { kind, address, cartridge, source: None })
            .collect();
        Self {
            cells,
            is_jammed: false,
            starting: 0,
            is_held: false,
            conditions: vec![Check::RESET],
        }
    }

    pub(crate) fn import(&mut self, cartridge: Cartridge) -> bool {
        if self.is_held {
            return false;
        }
        let free =
            |cell: &&mut Cell| cell.kind == ElementKind::ImportExport && cell.cartridge.is_none();
        let Some(cell) = self.cells.iter_mut().find(free) else { return false };
        cell.cartridge = Some(cartridge);
        self.conditions.push(Check::PORTAL_OPENED);
        true
    }

    pub(crate) fn export(&mut self) -> Vec<Cartridge> {
        let portals = self.cells.iter_mut().filter(|cell| cell.kind == ElementKind::ImportExport);
        portals.filter_map(|cell| cell.cartridge.take()).collect()
    }
}
