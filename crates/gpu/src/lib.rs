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
//! Invariant: what the GPU makes is an ordinary record. What it cannot do is left to the caller's
//! threads, see [`chunk::compress_all`].

mod compress;
mod lanes;
mod open;

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use model::QUANTUM_BYTES_MAX;
use sys::gpu::{CompressLane, Device, OpenLane, Shape};

use lanes::Lanes;

/// Alignment of quanta in a lane's memory.
const QUANTUM_ALIGNMENT: usize = 16;
/// Mean number of chunks of a record for which a lane has room. Records of more and smaller chunks
/// are left to threads.
const CHUNKS_EACH: usize = 4096;
/// Maximum number of frames of a record for which a lane has room: pieces of 64 KiB.
const FRAMES_EACH: usize = 32;

/// How the work is divided. With the defaults source code shrinks
/// as much as with zstd's level 1, and a backup pins little memory; see
/// `docs/performance/compression.md`.
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
    /// True once the GPU has failed. It is then not asked any more: a driver does not recover in
    /// the same process.
    is_lost: AtomicBool,
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // To free memory of a GPU that has not ended its work has no end either.
        if self.is_lost() {
            self.compressing.leak();
            self.opening.leak();
        }
    }
}

impl Gpu {
    /// Opens the first GPU, with nvCOMP from the file or by the name `library`; `None` stands for
    /// the name that its packages use.
    ///
    /// The error says in one line what is missing.
    pub fn open(library: Option<&OsStr>, settings: Settings) -> io::Result<Self> {
        let device = Device::open(library.unwrap_or_else(|| OsStr::new(sys::gpu::LIBRARY)))?;
        Ok(Self {
            device,
            settings,
            compressing: Lanes::new(settings.lanes),
            opening: Lanes::new(settings.lanes),
            is_lost: AtomicBool::new(false),
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
        self.is_lost.load(Relaxed)
    }

    fn check(&self) -> io::Result<()> {
        if self.is_lost() { Err(io::Error::other("the GPU has failed before")) } else { Ok(()) }
    }

    /// Does `work` with a lane. A lane that has failed is not used again.
    fn with<L, T>(
        &self,
        lanes: &Lanes<L>,
        make: impl Fn() -> io::Result<L>,
        work: impl FnOnce(&mut L) -> io::Result<T>,
    ) -> io::Result<T> {
        self.check()?;
        let mut lane = lanes.take(make)?;
        let outcome = work(&mut lane);
        match &outcome {
            Ok(_) => lanes.give_back(lane),
            Err(error) => {
                // Memory that is short now may be there again for the next batch.
                let is_lost = error.kind() != io::ErrorKind::OutOfMemory;
                self.is_lost.fetch_or(is_lost, Relaxed);
                sys::gpu::give_up(lane, error);
                lanes.lose();
            }
        }
        outcome
    }

    fn compress_lane(&self) -> io::Result<CompressLane> {
        let Settings { piece_bytes, quanta, .. } = self.settings;
        let pieces = quanta * QUANTUM_BYTES_MAX.div_ceil(piece_bytes);
        CompressLane::new(&self.device, quanta * QUANTUM_BYTES_MAX, piece_bytes, pieces)
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
        OpenLane::new(&self.device, shape)
    }
}
