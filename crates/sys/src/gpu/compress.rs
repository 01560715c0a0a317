//! Lane that compresses batches.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, LaunchConfig, PushKernelArg as _, result};

use super::memory::{DeviceMemory, PinnedMemory, Table, Use};
use super::nvcomp::{Batch, SUCCESS};
use super::{ALIGNMENT, Device, aligned, failed};

/// Alignment of a piece in the input. Source: `nvcompZstdRequiredCompressionAlignment`.
const PIECE_ALIGNMENT: usize = 4;
/// Number of threads of the GPU that collect one piece.
const COLLECTORS: u32 = 128;

/// Stream and memory for one batch of data that the GPU compresses in pieces. Each piece becomes a
/// zstd frame of its own.
#[derive(Debug)]
pub struct CompressLane {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    in_use: Use,
    piece_bytes: usize,
    pieces_max: usize,
    slot_bytes: usize,
    input: PinnedMemory,
    output: PinnedMemory,
    input_there: DeviceMemory,
    /// A slot for each piece, with room for its frame.
    slots: DeviceMemory,
    output_there: DeviceMemory,
    temp: DeviceMemory,
    temp_bytes: usize,
    inputs: Table,
    input_bytes: Table,
    outputs: Table,
    output_bytes: Table,
    statuses: Table,
    /// Number of bytes of each piece to collect, and its place in the output.
    collected: Table,
    places: Table,
    /// Lengths of the frames of the last batch; `None` for a piece that could not be compressed.
    frames: Vec<Option<usize>>,
}

impl CompressLane {
    /// Makes a lane for batches of `bytes` bytes in pieces of at most `piece_bytes` bytes, of which
    /// there are at most `pieces`.
    pub fn new(
        device: &Arc<Device>,
        bytes: usize,
        piece_bytes: usize,
        pieces: usize,
    ) -> io::Result<Self> {
        device.bind()?;
        let (context, in_use) = (&device.context, Use::default());
        let stream = context.new_stream().map_err(failed("the GPU gives no stream"))?;
        let slot_bytes = aligned(device.nvcomp.compressed_bytes_max(piece_bytes)?) + ALIGNMENT;
        let shape = (pieces, piece_bytes, bytes);
        let temp_bytes = device.nvcomp.compress_temp_bytes(shape, stream.cu_stream())?;
        let table = || Table::new(context, &in_use, pieces);
        let mut lane = Self {
            piece_bytes,
            pieces_max: pieces,
            slot_bytes,
            // The GPU's memory comes first, because it is scarce and quickly given.
            input_there: DeviceMemory::new(context, &in_use, bytes + ALIGNMENT)?,
            slots: DeviceMemory::new(context, &in_use, pieces * slot_bytes)?,
            output_there: DeviceMemory::new(context, &in_use, bytes + ALIGNMENT)?,
            temp: DeviceMemory::new(context, &in_use, temp_bytes)?,
            input: PinnedMemory::new(context, &in_use, bytes)?,
            output: PinnedMemory::new(context, &in_use, bytes)?,
            temp_bytes,
            inputs: table()?,
            input_bytes: table()?,
            outputs: table()?,
            output_bytes: table()?,
            statuses: table()?,
            collected: table()?,
            places: table()?,
            frames: Vec::new(),
            in_use,
            stream,
            device: Arc::clone(device),
        };
        let slots = (0..pieces).map(|piece| lane.slots.at(piece * slot_bytes));
        lane.in_use.begin();
        lane.outputs.send(&lane.stream, slots)?;
        lane.in_use.end(&lane.stream)?;
        Ok(lane)
    }

    /// Returns the memory into which the caller writes a batch.
    pub fn input(&mut self) -> &mut [u8] {
        self.in_use.check();
        &mut self.input
    }

    /// Compresses the `pieces` of the input, which begin at multiples of four. Returns the length
    /// of each frame; `None` for a piece that could not be compressed.
    pub fn compress(&mut self, pieces: &[Range<usize>]) -> io::Result<&[Option<usize>]> {
        self.frames.clear();
        assert!(pieces.len() <= self.pieces_max, "a batch has at most the pieces of its lane");
        let Some(end) = pieces.iter().map(|piece| piece.end).max() else { return Ok(&[]) };
        assert!(end <= self.input.len(), "pieces lie in the input");
        for piece in pieces {
            assert!(
                !piece.is_empty()
                    && piece.len() <= self.piece_bytes
                    && piece.start.is_multiple_of(PIECE_ALIGNMENT),
                "pieces have the lane's length and alignment"
            );
        }
        self.device.bind()?;
        self.in_use.begin();
        self.begin(pieces, end)?;
        self.in_use.end(&self.stream)?;
        let statuses = self.statuses.bytes();
        for piece in 0..pieces.len() {
            let status = &statuses[piece * 4..piece * 4 + 4];
            let is_done = i32::from_le_bytes(status.try_into().expect("four bytes")) == SUCCESS;
            let bytes = usize::try_from(self.output_bytes.number(piece)).unwrap_or(usize::MAX);
            let is_done = is_done && bytes > 0 && bytes <= self.slot_bytes - ALIGNMENT;
            self.frames.push(is_done.then_some(bytes));
        }
        Ok(&self.frames)
    }

    fn begin(&mut self, pieces: &[Range<usize>], end: usize) -> io::Result<()> {
        let base = self.input_there.at(0);
        self.inputs
            .send(&self.stream, pieces.iter().map(|piece| base + piece.start as u64))?;
        self.input_bytes
            .send(&self.stream, pieces.iter().map(|piece| piece.len() as u64))?;
        // SAFETY: both sides have `end` bytes, and the lane waits before it uses them again.
        unsafe { result::memcpy_htod_async(base, &self.input[..end], self.stream.cu_stream()) }
            .map_err(failed("cannot copy to the GPU"))?;
        let batch = Batch {
            count: pieces.len(),
            inputs: self.inputs.address(),
            input_bytes: self.input_bytes.address(),
            outputs: self.outputs.address(),
            output_bytes: self.output_bytes.address(),
            statuses: self.statuses.address(),
            temp: self.temp.at(0),
            temp_bytes: self.temp_bytes,
        };
        // SAFETY: all tables have room for `pieces_max` entries, the pieces lie in the input, and
        // each slot has the room that nvCOMP asks for.
        unsafe { self.device.nvcomp.compress(batch, self.piece_bytes, self.stream.cu_stream()) }?;
        self.output_bytes.fetch(&self.stream, pieces.len() * 8)?;
        self.statuses.fetch(&self.stream, pieces.len() * 4)
    }

    /// Returns the frames of the last batch for whose number `is_wanted` is true, one after the
    /// other. They must be shorter than the input, and none of them may be `None`.
    pub fn collect(&mut self, is_wanted: impl Fn(usize) -> bool) -> io::Result<&[u8]> {
        let mut places = Vec::with_capacity(self.frames.len());
        let mut bytes = Vec::with_capacity(self.frames.len());
        let mut end = 0;
        for (number, frame) in self.frames.iter().enumerate() {
            let length = match frame {
                Some(length) if is_wanted(number) => *length,
                _ => 0,
            };
            places.push(end as u64);
            bytes.push(length as u64);
            end += length;
        }
        assert!(end <= self.output.len(), "wanted frames are shorter than the input");
        if end == 0 {
            return Ok(&[]);
        }
        self.device.bind()?;
        self.in_use.begin();
        self.places.send(&self.stream, places.into_iter())?;
        self.collected.send(&self.stream, bytes.into_iter())?;
        let (slots, slot_bytes) = (self.slots.at(0), self.slot_bytes as u64);
        let (collected, places) = (self.collected.address(), self.places.address());
        let to = self.output_there.at(0);
        let blocks = u32::try_from(self.frames.len()).expect("bounded by the lane");
        let shape = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (COLLECTORS, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.stream.launch_builder(&self.device.collect);
        launch.arg(&slots).arg(&slot_bytes).arg(&collected).arg(&places).arg(&to);
        // SAFETY: the arguments are those of `collect` in kernels.cu; a frame lies in its slot, and
        // the places end at `end`, which lies in the output.
        unsafe { launch.launch(shape) }.map_err(failed("the GPU starts no kernel"))?;
        let output = &mut self.output[..end];
        // SAFETY: both sides have `end` bytes, and the lane waits before it uses them again.
        unsafe { result::memcpy_dtoh_async(output, to, self.stream.cu_stream()) }
            .map_err(failed("cannot copy from the GPU"))?;
        self.in_use.end(&self.stream)?;
        Ok(&self.output[..end])
    }
}

impl Drop for CompressLane {
    fn drop(&mut self) {
        self.in_use.settle(&self.stream);
    }
}
