//! Lane that decompresses and digests batches.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr, LaunchConfig, PushKernelArg as _, result};

use super::memory::{DeviceMemory, PinnedMemory, Table, Use};
use super::nvcomp::{Batch, SUCCESS};
use super::{ALIGNMENT, Device, failed};

/// Length of a leaf of BLAKE3's tree, in bytes. Source: BLAKE3 specification, section 2.1.
const LEAF_BYTES: usize = 1024;
/// Number of threads of the GPU in a block.
const BLOCK: u32 = 128;
/// Number of threads that join the leaves of one chunk.
const JOINERS: u32 = 32;
const DIGEST_BYTES: usize = 32;

/// A zstd frame, or data that is not compressed: where it lies in the input, and where its data
/// goes in the output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub input: Range<usize>,
    pub output: Range<usize>,
}

/// Key of digests, as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Key([u32; 8]);

// SAFETY: the kernels' `struct Key` has the same fields.
unsafe impl DeviceRepr for Key {}

impl Key {
    fn new(bytes: &[u8; DIGEST_BYTES]) -> Self {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
        Self(words)
    }
}

/// Greatest batch of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub input_bytes: usize,
    pub output_bytes: usize,
    pub frames: usize,
    pub frame_bytes: usize,
    pub chunks: usize,
}

/// Stream and memory for one batch of frames that the GPU decompresses, and whose chunks it
/// digests.
#[derive(Debug)]
pub struct OpenLane {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    in_use: Use,
    shape: Shape,
    input: PinnedMemory,
    input_there: DeviceMemory,
    output_there: DeviceMemory,
    temp: DeviceMemory,
    temp_bytes: usize,
    inputs: Table,
    input_bytes: Table,
    outputs: Table,
    rooms: Table,
    output_bytes: Table,
    statuses: Table,
    offsets: Table,
    /// Lengths of the chunks, and the first leaf of each chunk.
    lengths: Table,
    first_leaves: Table,
    /// Values of BLAKE3's tree.
    values: DeviceMemory,
    digests: Table,
}

impl OpenLane {
    pub fn new(device: &Arc<Device>, shape: Shape) -> io::Result<Self> {
        device.bind()?;
        let (context, in_use) = (&device.context, Use::default());
        let stream = context.new_stream().map_err(failed("the GPU gives no stream"))?;
        let most = (shape.frames, shape.frame_bytes, shape.output_bytes);
        let temp_bytes = device.nvcomp.decompress_temp_bytes(most, stream.cu_stream())?;
        let leaves = shape.output_bytes / LEAF_BYTES + shape.chunks;
        let of_frames = || Table::new(context, &in_use, shape.frames);
        let of_chunks = || Table::new(context, &in_use, shape.chunks + 1);
        Ok(Self {
            // The GPU's memory comes first, because it is scarce and quickly given.
            input_there: DeviceMemory::new(context, &in_use, shape.input_bytes + ALIGNMENT)?,
            output_there: DeviceMemory::new(context, &in_use, shape.output_bytes + ALIGNMENT)?,
            temp: DeviceMemory::new(context, &in_use, temp_bytes)?,
            input: PinnedMemory::new(context, &in_use, shape.input_bytes)?,
            temp_bytes,
            inputs: of_frames()?,
            input_bytes: of_frames()?,
            outputs: of_frames()?,
            rooms: of_frames()?,
            output_bytes: of_frames()?,
            statuses: of_frames()?,
            offsets: of_chunks()?,
            lengths: of_chunks()?,
            first_leaves: of_chunks()?,
            values: DeviceMemory::new(context, &in_use, leaves * DIGEST_BYTES)?,
            digests: Table::new(context, &in_use, shape.chunks * DIGEST_BYTES / 8)?,
            shape,
            in_use,
            stream,
            device: Arc::clone(device),
        })
    }

    /// Returns the memory into which the caller writes the frames of a batch.
    pub fn input(&mut self) -> &mut [u8] {
        self.in_use.check();
        &mut self.input
    }

    /// Decompresses `frames`, and copies `stored`, which is not compressed. Returns true for each
    /// frame that is sound and as long as its output.
    pub fn open(&mut self, frames: &[Frame], stored: &[Frame]) -> io::Result<Vec<bool>> {
        self.check(frames, stored);
        let all = || frames.iter().chain(stored);
        let Some(end) = all().map(|frame| frame.input.end).max() else { return Ok(Vec::new()) };
        self.device.bind()?;
        self.in_use.begin();
        let stream = self.stream.cu_stream();
        let (from, to) = (self.input_there.at(0), self.output_there.at(0));
        // SAFETY: both sides have `end` bytes, and the lane waits before it uses them again.
        unsafe { result::memcpy_htod_async(from, &self.input[..end], stream) }
            .map_err(failed("cannot copy to the GPU"))?;
        for Frame { input, output } in stored {
            let (from, to) = (from + input.start as u64, to + output.start as u64);
            // SAFETY: check() has made sure that both ranges lie in their memory.
            unsafe { result::memcpy_dtod_async(to, from, input.len(), stream) }
                .map_err(failed("cannot copy on the GPU"))?;
        }
        if !frames.is_empty() {
            self.begin(frames)?;
        }
        self.in_use.end(&self.stream)?;
        let statuses = self.statuses.bytes();
        let is_sound = |(number, frame): (usize, &Frame)| {
            let status = &statuses[number * 4..number * 4 + 4];
            let is_done = i32::from_le_bytes(status.try_into().expect("four bytes")) == SUCCESS;
            is_done && self.output_bytes.number(number) == frame.output.len() as u64
        };
        Ok(frames.iter().enumerate().map(is_sound).collect())
    }

    fn check(&self, frames: &[Frame], stored: &[Frame]) {
        assert!(frames.len() <= self.shape.frames, "a batch has at most the frames of its lane");
        for Frame { input, output } in frames.iter().chain(stored) {
            assert!(
                input.start < input.end && input.end <= self.shape.input_bytes,
                "frames lie in the input"
            );
            assert!(
                output.start < output.end && output.end <= self.shape.output_bytes,
                "data lies in the output"
            );
        }
        assert!(
            frames.iter().all(|frame| frame.output.len() <= self.shape.frame_bytes),
            "frames have the lane's length"
        );
        assert!(
            stored.iter().all(|frame| frame.input.len() == frame.output.len()),
            "stored data is as long as it was"
        );
    }

    fn begin(&mut self, frames: &[Frame]) -> io::Result<()> {
        let (from, to) = (self.input_there.at(0), self.output_there.at(0));
        let entry = |number: usize| number as u64;
        self.inputs
            .send(&self.stream, frames.iter().map(|f| from + entry(f.input.start)))?;
        self.input_bytes
            .send(&self.stream, frames.iter().map(|f| entry(f.input.len())))?;
        self.outputs
            .send(&self.stream, frames.iter().map(|f| to + entry(f.output.start)))?;
        self.rooms.send(&self.stream, frames.iter().map(|f| entry(f.output.len())))?;
        let batch = Batch {
            count: frames.len(),
            inputs: self.inputs.address(),
            input_bytes: self.input_bytes.address(),
            outputs: self.outputs.address(),
            output_bytes: self.output_bytes.address(),
            statuses: self.statuses.address(),
            temp: self.temp.at(0),
            temp_bytes: self.temp_bytes,
        };
        let rooms = self.rooms.address();
        // SAFETY: all tables have room for the shape's frames, and check() has made sure that each
        // frame lies in the input and its data in the output.
        unsafe { self.device.nvcomp.decompress(batch, rooms, self.stream.cu_stream()) }?;
        self.output_bytes.fetch(&self.stream, frames.len() * 8)?;
        self.statuses.fetch(&self.stream, frames.len() * 4)
    }

    /// Returns the BLAKE3 digests with `key` of `chunks` of the output, none of which is empty.
    pub fn digest(
        &mut self,
        chunks: &[Range<usize>],
        key: &[u8; DIGEST_BYTES],
    ) -> io::Result<Vec<[u8; DIGEST_BYTES]>> {
        assert!(chunks.len() <= self.shape.chunks, "a batch has at most the chunks of its lane");
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let mut first_leaves = vec![0];
        let mut leaves = 0;
        for chunk in chunks {
            assert!(
                chunk.start < chunk.end && chunk.end <= self.shape.output_bytes,
                "chunks lie in the output"
            );
            leaves += chunk.len().div_ceil(LEAF_BYTES);
            first_leaves.push(u32::try_from(leaves).expect("bounded by the lane"));
        }
        let most = self.shape.output_bytes / LEAF_BYTES + self.shape.chunks;
        assert!(leaves <= most, "chunks do not overlap, so that there is room for their leaves");
        self.device.bind()?;
        self.in_use.begin();
        self.offsets.send(&self.stream, chunks.iter().map(|chunk| chunk.start as u64))?;
        let lengths = chunks.iter().map(|chunk| u32::try_from(chunk.len()).expect("short"));
        self.lengths.send(&self.stream, pairs(lengths))?;
        self.first_leaves.send(&self.stream, pairs(first_leaves.into_iter()))?;
        self.launch(chunks.len(), leaves, Key::new(key))?;
        self.digests.fetch(&self.stream, chunks.len() * DIGEST_BYTES)?;
        self.in_use.end(&self.stream)?;
        let digests =
            self.digests.bytes()[..chunks.len() * DIGEST_BYTES].chunks_exact(DIGEST_BYTES);
        Ok(digests.map(|digest| digest.try_into().expect("32 bytes")).collect())
    }

    fn launch(&self, chunks: usize, leaves: usize, key: Key) -> io::Result<()> {
        let blocks = |threads: usize| LaunchConfig {
            grid_dim: (u32::try_from(threads.div_ceil(BLOCK as usize)).expect("bounded"), 1, 1),
            block_dim: (BLOCK, 1, 1),
            shared_mem_bytes: 0,
        };
        let data = self.output_there.at(0);
        let (offsets, lengths) = (self.offsets.address(), self.lengths.address());
        let (first_leaves, values) = (self.first_leaves.address(), self.values.at(0));
        let digests = self.digests.address();
        let count = u32::try_from(chunks).expect("bounded by the lane");
        let mut launch = self.stream.launch_builder(&self.device.leaves);
        launch.arg(&data).arg(&offsets).arg(&lengths).arg(&first_leaves);
        launch.arg(&count).arg(&key).arg(&values);
        // SAFETY: the arguments are those of `leaves` in kernels.cu; chunks lie in the output, and
        // there is room for the values of all leaves.
        unsafe { launch.launch(blocks(leaves)) }.map_err(failed("the GPU starts no kernel"))?;
        let mut launch = self.stream.launch_builder(&self.device.parents);
        launch.arg(&values).arg(&first_leaves).arg(&count).arg(&key).arg(&digests);
        // SAFETY: the arguments are those of `parents` in kernels.cu, with room for all digests.
        unsafe { launch.launch(blocks(chunks * JOINERS as usize)) }
            .map_err(failed("the GPU starts no kernel"))?;
        Ok(())
    }
}

impl Drop for OpenLane {
    fn drop(&mut self) {
        self.in_use.settle(&self.stream);
    }
}

/// Packs numbers of 32 bits two by two, as they lie in memory.
fn pairs(mut numbers: impl Iterator<Item = u32>) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let low = numbers.next()?;
        let high = numbers.next().unwrap_or_default();
        Some(u64::from(low) | u64::from(high) << 32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_in_memory_one_after_the_other() {
        let bytes: Vec<u8> = pairs([1, 2, 3].into_iter()).flat_map(u64::to_le_bytes).collect();
        assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    }
}
