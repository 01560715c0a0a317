//! The state of a library: the changer, its drives, and the clock.

use std::time::Duration;

use crate::cartridge::Cartridge;
use crate::changer::Changer;
use crate::clockwork::{Clockwork, Motion};
use crate::drive::DriveUnit;

/// The whole state of a library. One lock protects all of it, because the changer moves cartridges
/// into the drives.
pub(crate) struct World {
    pub(crate) clockwork: Box<dyn Clockwork>,
    pub(crate) clock: Duration,
    /// Number of commands to all devices together.
    pub(crate) commands: u64,
    pub(crate) changer: Changer,
    pub(crate) drives: Vec<DriveUnit>,
}

impl World {
    pub(crate) fn spend(&mut self, motion: Motion) {
        self.clock += self.clockwork.cost(motion);
    }

    pub(crate) fn cartridge_mut(&mut self, barcode: &str) -> Option<&mut Cartridge> {
        let in_drives = self.drives.iter_mut().filter_map(|drive| drive.cartridge.as_mut());
        let in_cells = self.changer.cells.iter_mut().filter_map(|cell| cell.cartridge.as_mut());
        in_drives.chain(in_cells).find(|cartridge| cartridge.barcode == barcode)
    }
}
