//! Memory of the GPU, and memory of this machine that the GPU reads and writes by itself.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys as cuda};

use super::failed;
use crate::clock;

/// Whether the GPU may use the memory of a lane. Memory that is dropped meanwhile is leaked: the
/// GPU could write into what another part of the program has got since, and to free it might have
/// no end.
#[derive(Clone, Debug, Default)]
pub(super) struct Use(Arc<AtomicU8>);

const IDLE: u8 = 0;
const BUSY: u8 = 1;
/// The GPU has not ended its work in time. Nobody waits for it any more.
const GIVEN_UP: u8 = 2;

impl Use {
    /// Begins work of the GPU. A lane that has failed cannot be used again.
    pub(super) fn begin(&self) {
        let before = self.0.swap(BUSY, Relaxed);
        assert_eq!(before, IDLE, "a lane that has failed is not used again");
    }

    fn is_going_on(&self) -> bool {
        self.0.load(Relaxed) != IDLE
    }

    /// Fails if the lane has failed before.
    pub(super) fn check(&self) {
        assert!(!self.is_going_on(), "a lane that has failed is not used again");
    }

    /// Waits until the stream has done its work. After an error the GPU may still use the memory.
    pub(super) fn end(&self, stream: &CudaStream) -> io::Result<()> {
        let outcome = wait(stream);
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        match &outcome {
            Ok(()) => self.0.store(IDLE, Relaxed),
            Err(error) if is_late(error) => self.0.store(GIVEN_UP, Relaxed),
            Err(_) => {}
        }
        outcome
    }

    /// Waits for work that a method has left behind when it failed, unless it was given up.
    pub(super) fn settle(&self, stream: &CudaStream) {
        if self.0.load(Relaxed) == BUSY {
            let _is_idle = self.end(stream).is_ok();
        }
    }
}

/// A part of the GPU's memory.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    in_use: Use,
    context: Arc<CudaContext>,
    pointer: cuda::CUdeviceptr,
    bytes: usize,
}

impl DeviceMemory {
    pub(super) fn new(context: &Arc<CudaContext>, in_use: &Use, bytes: usize) -> io::Result<Self> {
        context.bind_to_thread().map_err(failed("the GPU does not answer"))?;
        // SAFETY: the memory is not read before something was copied or written there.
        let pointer = unsafe { result::malloc_sync(bytes.max(1)) }
            .map_err(failed("the GPU's memory is too small"))?;
        Ok(Self { in_use: in_use.clone(), context: Arc::clone(context), pointer, bytes })
    }

    /// Returns the address of the byte `at`, which lies in this memory or at its end.
    pub(super) fn at(&self, at: usize) -> cuda::CUdeviceptr {
        assert!(at <= self.bytes, "an address lies in its memory");
        self.pointer + at as u64
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.in_use.is_going_on() {
            return;
        }
        // After a failure of the GPU its memory is gone, and so is the reason to free it.
        let is_there = self.context.bind_to_thread().is_ok();
        // SAFETY: the GPU does not use the memory, and nothing else knows its address.
        let _freed = is_there && unsafe { result::memory_free(self.pointer) }.is_ok();
    }
}

/// Memory of this machine that stays where it is, so that the GPU can copy from and to it.
#[derive(Debug)]
pub(super) struct PinnedMemory {
    in_use: Use,
    context: Arc<CudaContext>,
    pointer: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for PinnedMemory {}

impl PinnedMemory {
    pub(super) fn new(context: &Arc<CudaContext>, in_use: &Use, bytes: usize) -> io::Result<Self> {
        context.bind_to_thread().map_err(failed("the GPU does not answer"))?;
        // SAFETY: the memory is filled with zeros below, before anything reads it.
        let pointer = unsafe { result::malloc_host(bytes.max(1), 0) }
            .map_err(failed("cannot pin memory for the GPU"))?;
        let pointer = NonNull::new(pointer.cast::<u8>())
            .ok_or_else(|| io::Error::other("cannot pin memory for the GPU"))?;
        // SAFETY: the driver has given `bytes` bytes.
        unsafe { pointer.write_bytes(0, bytes) };
        Ok(Self { in_use: in_use.clone(), context: Arc::clone(context), pointer, bytes })
    }
}

impl Deref for PinnedMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialized. Between Use::begin() and Use::end() a lane looks only
        // at memory to which the GPU does not write.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.bytes) }
    }
}

impl DerefMut for PinnedMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `self` is borrowed alone. Between Use::begin() and Use::end() a lane changes only
        // memory that the GPU does not use yet.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.bytes) }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.in_use.is_going_on() {
            return;
        }
        let is_there = self.context.bind_to_thread().is_ok();
        // SAFETY: the GPU does not use the memory, and nothing else knows its address.
        let _freed = is_there && unsafe { result::free_host(self.pointer.as_ptr().cast()) }.is_ok();
    }
}

/// A row of numbers that is copied to or from the GPU as it is.
#[derive(Debug)]
pub(super) struct Table {
    host: PinnedMemory,
    device: DeviceMemory,
}

impl Table {
    /// Makes a table of at most `entries` numbers of 8 bytes.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        in_use: &Use,
        entries: usize,
    ) -> io::Result<Self> {
        let bytes = entries * 8;
        Ok(Self {
            host: PinnedMemory::new(context, in_use, bytes)?,
            device: DeviceMemory::new(context, in_use, bytes)?,
        })
    }

    pub(super) fn address(&self) -> cuda::CUdeviceptr {
        self.device.at(0)
    }

    /// Sets the first entries, and begins to copy them to the GPU.
    pub(super) fn send(
        &mut self,
        stream: &CudaStream,
        entries: impl Iterator<Item = u64>,
    ) -> io::Result<()> {
        let mut bytes = 0;
        for entry in entries {
            self.host[bytes..bytes + 8].copy_from_slice(&entry.to_le_bytes());
            bytes += 8;
        }
        // SAFETY: both sides have `bytes` bytes, and the lane waits before it uses them again.
        unsafe {
            result::memcpy_htod_async(self.device.at(0), &self.host[..bytes], stream.cu_stream())
        }
        .map_err(failed("cannot copy to the GPU"))
    }

    /// Begins to copy the first `bytes` bytes from the GPU.
    pub(super) fn fetch(&mut self, stream: &CudaStream, bytes: usize) -> io::Result<()> {
        let to = &mut self.host[..bytes];
        // SAFETY: as in send().
        unsafe { result::memcpy_dtoh_async(to, self.device.at(0), stream.cu_stream()) }
            .map_err(failed("cannot copy from the GPU"))
    }

    /// Returns the bytes that were fetched, once the stream has done its work.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.host
    }

    /// Returns the number `at`, once the stream has done its work.
    pub(super) fn number(&self, at: usize) -> u64 {
        let bytes = &self.host[at * 8..at * 8 + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }
}

/// Time after which a GPU that does not end its work counts as failed. A batch takes a tenth of a
/// second.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pauses between two looks at the stream: the first, and the longest.
const PAUSE_FIRST: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_micros(500);

/// Waits until the stream has done its work. The thread sleeps meanwhile; a wait of the driver's
/// own would take a processor, or have no end.
fn wait(stream: &CudaStream) -> io::Result<()> {
    let began = clock::monotonic();
    let mut pause = PAUSE_FIRST;
    loop {
        // SAFETY: the stream lives as long as its owner.
        match unsafe { cuda::cuStreamQuery(stream.cu_stream()) }.result() {
            Ok(()) => return Ok(()),
            Err(DriverError(cuda::CUresult::CUDA_ERROR_NOT_READY)) => {}
            Err(error) => return Err(failed("the GPU failed")(error)),
        }
        if began.elapsed() > PATIENCE {
            let text = format!("the GPU has not ended its work within {} s", PATIENCE.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        clock::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
