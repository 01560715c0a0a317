//! The library as a whole, and its logical units.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tape::transport::{Completion, ScsiTransport, Transfer, TransportError};

use crate::cartridge::Cartridge;
use crate::changer::Changer;
use crate::clockwork::{Clockwork, Motion};
use crate::drive::{DriveModel, DriveUnit};
use crate::reply::{Answered, Check, Reply};

/// How many elements there are.
#[derive(Clone, Debug)]
pub struct Layout {
    pub slot_count: u16,
    pub import_export_count: u16,
    pub drives: Vec<DriveModel>,
}

/// Something that goes wrong, from now on or once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// A block of a cartridge cannot be read any more.
    BadBlock { barcode: String, block: u64 },
    /// Every command that needs the mechanism fails from now on.
    DriveDies { drive: usize },
    /// The next move fails.
    RobotJams,
    /// The changer looks into its slots; it is ready after so many looks.
    ChangerStarts { looks: u32 },
    /// The drive takes its time to load; it is ready after so many looks.
    SlowLoad { drive: usize, looks: u32 },
    /// The drive loses its settings and position, and says so.
    Reset { drive: usize },
    /// The next LOCATE goes this much too far, and the drive does not notice.
    LocateOff { drive: usize, by: u64 },
    /// The next command is not answered in time.
    Silence { drive: usize },
    /// The way to the drive is broken for good.
    Unplugged { drive: usize },
    /// The drive asks to be cleaned.
    Dirty { drive: usize },
}

/// All there is, behind one lock: the robot reaches into the drives.
pub(crate) struct World {
    clockwork: Box<dyn Clockwork>,
    pub(crate) clock: Duration,
    /// That all devices have got.
    pub(crate) commands: u64,
    pub(crate) changer: Changer,
    pub(crate) drives: Vec<DriveUnit>,
}

impl World {
    pub(crate) fn spend(&mut self, motion: Motion) {
        self.clock += self.clockwork.cost(motion);
    }

    fn cartridge(&mut self, barcode: &str) -> Option<&mut Cartridge> {
        let in_drives = self.drives.iter_mut().filter_map(|drive| drive.cartridge.as_mut());
        let in_cells = self.changer.cells.iter_mut().filter_map(|cell| cell.cartridge.as_mut());
        in_drives.chain(in_cells).find(|cartridge| cartridge.barcode == barcode)
    }
}

/// A library. Clones are the same library.
#[derive(Clone)]
pub struct Library {
    world: Arc<Mutex<World>>,
}

impl Library {
    /// A library with empty drives and `cartridges` in the first slots.
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
        self.world.lock().expect("nobody panics while holding it")
    }

    pub fn changer(&self) -> Unit {
        Unit { world: Arc::clone(&self.world), drive: None }
    }

    pub fn drive(&self, index: usize) -> Unit {
        Unit { world: Arc::clone(&self.world), drive: Some(index) }
    }

    /// Time that everything together has taken.
    pub fn clock(&self) -> Duration {
        self.world().clock
    }

    /// Commands that all devices together have got.
    pub fn commands(&self) -> u64 {
        self.world().commands
    }

    /// Puts a cartridge into a free import/export element, as a person does; returns whether one
    /// was free.
    pub fn import(&self, cartridge: Cartridge) -> bool {
        self.world().changer.import(cartridge)
    }

    /// Takes all cartridges out of the import/export elements.
    pub fn export(&self) -> Vec<Cartridge> {
        self.world().changer.export()
    }

    /// Changes a cartridge, wherever it is: its write protection, its capacity.
    pub fn alter(&self, barcode: &str, change: impl FnOnce(&mut Cartridge)) {
        change(self.world().cartridge(barcode).expect("the library has the cartridge"));
    }

    /// Puts a cartridge into a drive without the robot.
    pub fn insert(&self, drive: usize, cartridge: Cartridge) {
        self.world().drives[drive].insert(cartridge, None);
    }

    /// Lets something go wrong.
    pub fn trouble(&self, trouble: Trouble) {
        let mut world = self.world();
        match trouble {
            Trouble::BadBlock { barcode, block } => {
                let cartridge = world.cartridge(&barcode).expect("the library has the cartridge");
                cartridge.bad_blocks.insert(block);
            }
            Trouble::RobotJams => world.changer.is_jammed = true,
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

/// A logical unit.
#[derive(Clone)]
pub struct Unit {
    world: Arc<Mutex<World>>,
    /// `None`: the changer.
    drive: Option<usize>,
}

impl Unit {
    fn answer(&self, cdb: &[u8], parameters: &[u8]) -> Result<Answered, TransportError> {
        let mut world = self.world.lock().expect("nobody panics while holding it");
        world.commands += 1;
        world.spend(Motion::Command);
        let Some(index) = self.drive else {
            return Ok(Changer::execute(&mut world, cdb));
        };
        let world = &mut *world;
        let drive = &mut world.drives[index];
        if drive.is_unplugged {
            return Err(TransportError::Lost(io::ErrorKind::ConnectionReset.into()));
        }
        if std::mem::take(&mut drive.is_silent) {
            return Err(TransportError::Timeout);
        }
        let answered = drive.execute(cdb, parameters);
        for motion in drive.take_motions() {
            world.clock += world.clockwork.cost(motion);
        }
        Ok(answered)
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
        self.world.lock().expect("nobody panics while holding it").clock += duration;
    }
}

/// Takes the oldest thing that a unit has to tell before it does anything else.
pub(crate) fn tell_first(queue: &mut Vec<Check>, opcode: u8) -> Result<(), Check> {
    use tape::scsi::opcode::{INQUIRY, REQUEST_SENSE};
    if queue.is_empty() || [INQUIRY, REQUEST_SENSE].contains(&opcode) {
        return Ok(());
    }
    Err(queue.remove(0))
}

/// Answers 'not yet' as often as `looks` says.
pub(crate) fn not_yet(looks: &mut u32) -> Result<(), Check> {
    match looks.checked_sub(1) {
        Some(left) => {
            *looks = left;
            Err(Check::BECOMING_READY)
        }
        None => Ok(()),
    }
}
