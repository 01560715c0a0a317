//! The library as a whole, and its logical units.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sys::lock::{Mutex, MutexGuard};
use tape::transport::{Completion, ScsiTransport, Transfer, TransportError};

use crate::cartridge::Cartridge;
use crate::changer::Changer;
use crate::clockwork::{Clockwork, Motion};
use crate::drive::DriveUnit;
use crate::layout::Layout;
use crate::reply::{Answer, Reply};
use crate::world::World;

/// A fault of the library. Some faults last, others happen once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// A block of a cartridge cannot be read any more.
    BadBlock { barcode: String, block: u64 },
    /// Every later command that needs the drive's mechanism fails.
    DriveDies { drive: usize },
    /// The next move of a cartridge fails.
    ChangerJams,
    /// The changer inspects its slots. It refuses `looks` commands before it is ready.
    ChangerStarts { looks: u32 },
    /// The drive loads slowly. It refuses `looks` commands before it is ready.
    SlowLoad { drive: usize, looks: u32 },
    /// The drive loses its settings and its position, and reports that.
    Reset { drive: usize },
    /// The next LOCATE goes too far by this number of blocks, and the drive does not notice.
    LocateOff { drive: usize, by: u64 },
    /// The next command is not answered in time.
    Silence { drive: usize },
    /// The connection to the drive is permanently lost.
    Unplugged { drive: usize },
    /// The drive asks to be cleaned.
    Dirty { drive: usize },
}

/// A library. Clones refer to the same library.
#[derive(Clone)]
pub struct Library {
    world: Arc<Mutex<World>>,
}

impl Library {
    /// Makes a library with empty drives and with `cartridges` in the first slots.
    pub fn new(layout: Layout, cartridges: Vec<Cartridge>, clockwork: Box<dyn Clockwork>) -> Self {
        let world = World {
            clockwork,
            clock: Duration::ZERO,
            commands: 0,
            changer: Changer::new(&layout, cartridges),
            drives: layout.drives.into_iter().map(DriveUnit::new).collect(),
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    pub fn changer(&self) -> Unit {
        Unit { world: Arc::clone(&self.world), drive: None }
    }

    pub fn drive(&self, index: usize) -> Unit {
        Unit { world: Arc::clone(&self.world), drive: Some(index) }
    }

    /// Returns the time that all commands and motions have taken together.
    pub fn clock(&self) -> Duration {
        self.world().clock
    }

    /// Returns the number of commands to all devices together.
    pub fn commands(&self) -> u64 {
        self.world().commands
    }

    /// Puts a cartridge into a free import/export element, as a person does. Returns false if no
    /// element was free, or if the host has locked the elements.
    pub fn import(&self, cartridge: Cartridge) -> bool {
        self.world().changer.import(cartridge)
    }

    /// Takes all cartridges out of the import/export elements.
    pub fn export(&self) -> Vec<Cartridge> {
        self.world().changer.export()
    }

    /// Changes the cartridge with this barcode, wherever it is: for example its write protection or
    /// its capacity.
    pub fn alter(&self, barcode: &str, change: impl FnOnce(&mut Cartridge)) {
        change(self.world().cartridge_mut(barcode).expect("the library has the cartridge"));
    }

    /// Puts a cartridge into a drive by hand, without the changer.
    pub fn insert(&self, drive: usize, cartridge: Cartridge) {
        self.world().drives[drive].insert(cartridge, None);
    }

    /// Causes a fault.
    pub fn trouble(&self, trouble: Trouble) {
        let mut world = self.world();
        match trouble {
            Trouble::BadBlock { barcode, block } => {
                let cartridge =
                    world.cartridge_mut(&barcode).expect("the library has the cartridge");
                cartridge.bad_blocks.insert(block);
            }
            Trouble::ChangerJams => world.changer.is_jammed = true,
            Trouble::ChangerStarts { looks } => world.changer.starting = looks,
            Trouble::SlowLoad { drive, looks } => world.drives[drive].loading = looks,
            Trouble::DriveDies { drive } => world.drives[drive].is_dead = true,
            Trouble::Reset { drive } => world.drives[drive].reset(),
            Trouble::LocateOff { drive, by } => world.drives[drive].locate_off = by,
            Trouble::Silence { drive } => world.drives[drive].is_silent = true,
            Trouble::Unplugged { drive } => world.drives[drive].is_unplugged = true,
            Trouble::Dirty { drive } => world.drives[drive].alert(20),
        }
    }
}

/// A logical unit of the library: the changer or a drive.
#[derive(Clone)]
pub struct Unit {
    world: Arc<Mutex<World>>,
    /// Index of the drive; `None` for the changer.
    drive: Option<usize>,
}

impl Unit {
    fn answer(&self, cdb: &[u8], parameters: &[u8]) -> Result<Answer, TransportError> {
        let mut world = self.world.lock();
        world.commands += 1;
        world.spend(Motion::Command);
        let Some(index) = self.drive else {
            return Ok(world.execute_changer(cdb));
        };
        let world = &mut *world;
        let drive = &mut world.drives[index];
        if drive.is_unplugged {
            return Err(TransportError::Lost(io::ErrorKind::ConnectionReset.into()));
        }
        if std::mem::take(&mut drive.is_silent) {
            return Err(TransportError::Timeout);
        }
        let answer = drive.execute(cdb, parameters);
        for motion in drive.take_motions() {
            world.clock += world.clockwork.cost(motion);
        }
        Ok(answer)
    }
}

impl ScsiTransport for Unit {
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        _timeout: Duration,
    ) -> Result<Completion, TransportError> {
        let parameters = if let Transfer::Out(bytes) = &transfer { bytes } else { &[][..] };
        let reply = match self.answer(cdb, parameters)? {
            Ok(reply) => reply,
            Err(check) => Reply { bytes: Vec::new(), check: Some(check) },
        };
        Ok(reply.deliver(transfer))
    }

    fn wait(&mut self, duration: Duration) {
        self.world.lock().clock += duration;
    }
}
