//! An NVIDIA GPU as a compressor and an opener of batches of quanta.
//!
//! ```text
//!   quanta  --> lane: pinned memory --> pieces --nvCOMP--> frames --> records
//!   records --> lane: pinned memory --> frames --nvCOMP--> data --BLAKE3--> digests
//! ```
//!
//! A GPU compresses a piece of data slowly, but thousands of pieces at once. A quantum is therefore
//! cut into pieces of [`Settings::piece_bytes`], each of which becomes a zstd frame; the payload of
//! the record is the frames one after the other, which every decoder of zstd reads as one. An
//! opener sends compressed data to the GPU and gets digests back, so that little crosses the bus.
//!
//! Invariant: what the GPU makes is an ordinary record, and was read back by the ordinary decoder.
//! What the GPU cannot do is left to the caller's threads, see [`chunk::compress_by`]. The work of
//! a GPU, its opening and the memory of lanes have a limit of time. Loading the driver has none,
//! nor has its end with the process.

mod compress;
mod lanes;
mod open;
mod patience;

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::QUANTUM_BYTES_MAX;
use sys::gpu::{CompressLane, Device, OpenLane, Shape};
use sys::lock::Mutex;

use lanes::{Lanes, Loan};
use patience::within;

/// Alignment of quanta in a lane's memory.
const QUANTUM_ALIGNMENT: usize = 16;
/// Mean number of chunks of a record for which a lane has room. Records of more and smaller chunks
/// are left to threads.
const CHUNKS_EACH: usize = 4096;
/// Maximum number of frames of a record for which a lane has room: pieces of 64 KiB.
const FRAMES_EACH: usize = 32;

/// Division of the work. With the defaults source code shrinks as much as with zstd's level 1, and
/// a backup pins little memory; see `docs/performance/gpu.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Length of a piece, in bytes: a multiple of 16. Longer pieces shrink more, shorter pieces
    /// keep more of the GPU busy.
    pub piece_bytes: usize,
    /// Maximum number of quanta in a batch. A lane pins twice their memory.
    pub quanta: usize,
    /// Maximum number of batches at the same time. Lanes are made when they are needed.
    pub lanes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { piece_bytes: 256 << 10, quanta: 16, lanes: 4 }
    }
}

/// A GPU that is ready for use. Several threads may use it at the same time.
#[derive(Debug)]
pub struct Gpu {
    device: Arc<Device>,
    settings: Settings,
    compressing: Lanes<CompressLane>,
    opening: Lanes<OpenLane>,
    /// Last time at which the GPU had no memory for a lane.
    shortage: Mutex<Option<Instant>>,
}

/// Time in which a driver opens a GPU. It takes one or two seconds, and longer for the first time
/// after the start of the machine.
const OPENING: Duration = Duration::from_secs(60);
/// Time in which a driver gives the memory of a lane. It takes a tenth of a second.
const ALLOCATION: Duration = Duration::from_secs(20);
/// Time for which a GPU without free memory is not asked again.
const SHORTAGE: Duration = Duration::from_secs(60);

/// Reason for which the GPU is not used any more by this process. A driver does not recover in the
/// same process, and even to open the GPU again might have no end.
static LOST_BECAUSE: OnceLock<String> = OnceLock::new();

fn check_not_lost() -> io::Result<()> {
    match LOST_BECAUSE.get() {
        None => Ok(()),
        Some(reason) => Err(io::Error::other(format!("the GPU has failed before: {reason}"))),
    }
}

impl Gpu {
    /// Opens the first GPU, with nvCOMP from the file or by the name `library`; `None` stands for
    /// the name that its packages use.
    ///
    /// The error says in one line what is missing.
    pub fn open(library: Option<&OsStr>, settings: Settings) -> io::Result<Self> {
        check_not_lost()?;
        let library = library.unwrap_or_else(|| OsStr::new(sys::gpu::LIBRARY)).to_owned();
        let opened = within(OPENING, "opened it", move || Device::open(&library));
        let device = opened.inspect_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                LOST_BECAUSE.get_or_init(|| error.to_string());
            }
        })?;
        Ok(Self {
            device,
            settings,
            compressing: Lanes::new(settings.lanes),
            opening: Lanes::new(settings.lanes),
            shortage: Mutex::default(),
        })
    }

    /// Returns the GPU's name, such as `NVIDIA H100 80GB HBM3`.
    pub fn device_name(&self) -> &str {
        self.device.name()
    }

    /// Returns the number of free bytes of the GPU's memory.
    pub fn free_bytes(&self) -> io::Result<usize> {
        self.device.free_bytes()
    }

    /// Returns true once the GPU has failed for good.
    pub fn is_lost(&self) -> bool {
        LOST_BECAUSE.get().is_some()
    }

    /// Notes that the GPU has failed for good. Callers do so if its results are wrong.
    pub fn lose(&self, reason: &str) {
        LOST_BECAUSE.get_or_init(|| reason.to_owned());
    }

    fn check(&self) -> io::Result<()> {
        check_not_lost()?;
        let shortage = *self.shortage.lock();
        if shortage.is_some_and(|since| sys::clock::monotonic() - since < SHORTAGE) {
            let text = "the GPU had no free memory a moment ago";
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        }
        Ok(())
    }

    /// Notes a failure, by which the GPU may be lost.
    fn note(&self, error: &io::Error) {
        match error.kind() {
            // Memory that is short now may be there again later.
            io::ErrorKind::OutOfMemory => *self.shortage.lock() = Some(sys::clock::monotonic()),
            _ => self.lose(&error.to_string()),
        }
    }

    /// Does `work` with a lane. A lane that has failed is not used again.
    fn with<L, T>(
        &self,
        lanes: &Lanes<L>,
        make: impl Fn() -> io::Result<L>,
        work: impl FnOnce(&mut L) -> io::Result<T>,
    ) -> io::Result<T> {
        self.check()?;
        let mut lane = lanes.take(make).inspect_err(|error| self.note(error))?;
        let on_loan = Loan(lanes);
        let outcome = work(&mut lane).inspect_err(|error| self.note(error));
        if outcome.is_ok() {
            on_loan.end(lane);
        }
        outcome
    }

    fn compress_lane(&self) -> io::Result<CompressLane> {
        let Settings { piece_bytes, quanta, .. } = self.settings;
        let pieces = quanta * QUANTUM_BYTES_MAX.div_ceil(piece_bytes);
        let device = Arc::clone(&self.device);
        within(ALLOCATION, "given memory", move || {
            CompressLane::new(&device, quanta * QUANTUM_BYTES_MAX, piece_bytes, pieces)
        })
    }

    fn open_lane(&self) -> io::Result<OpenLane> {
        let records = self.settings.quanta;
        let shape = Shape {
            input_bytes: records * QUANTUM_BYTES_MAX,
            output_bytes: records * QUANTUM_BYTES_MAX,
            frames: records * FRAMES_EACH,
            frame_bytes: QUANTUM_BYTES_MAX,
            chunks: records * CHUNKS_EACH,
        };
        let device = Arc::clone(&self.device);
        within(ALLOCATION, "given memory", move || OpenLane::new(&device, shape))
    }
}
