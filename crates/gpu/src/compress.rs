//! Compression of batches.

use std::io;
use std::ops::Range;

use chunk::{BatchCompressor, Decompressor, Estimate, RawQuantum, record};
use sys::gpu::CompressLane;

use crate::{Gpu, QUANTUM_ALIGNMENT};

/// Where a quantum lies in a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
struct QuantumPlace {
    data: Range<usize>,
    /// Numbers of its pieces.
    pieces: Range<usize>,
}

/// Decides where quanta of these lengths lie, and how they are cut into pieces of `piece_bytes`.
fn placed(
    lengths: impl Iterator<Item = usize>,
    piece_bytes: usize,
) -> (Vec<QuantumPlace>, Vec<Range<usize>>) {
    assert!(piece_bytes.is_multiple_of(QUANTUM_ALIGNMENT), "pieces are aligned");
    let (mut quanta, mut pieces) = (Vec::new(), Vec::new());
    let mut start = 0;
    for length in lengths {
        let first = pieces.len();
        let end = start + length;
        pieces.extend((start..end).step_by(piece_bytes).map(|at| at..end.min(at + piece_bytes)));
        quanta.push(QuantumPlace { data: start..end, pieces: first..pieces.len() });
        start = end.next_multiple_of(QUANTUM_ALIGNMENT);
    }
    (quanta, pieces)
}

impl BatchCompressor for Gpu {
    fn estimate(&self) -> Estimate {
        // An H200 with the default settings compresses 2.5 GB/s, and then the thread of each lane
        // reads back 0.71 GB/s, if it has a processor. The ratio is level 1's. See
        // docs/performance/gpu.md.
        let readers = sys::process::processors().min(self.settings.lanes);
        let reading = 0.71e9 * f64::from(u32::try_from(readers).unwrap_or(u32::MAX));
        Estimate { bytes_per_sec: 1.0 / (1.0 / 2.5e9 + 1.0 / reading), ratio: 0.31 }
    }

    fn quanta_max(&self) -> usize {
        self.settings.quanta
    }

    fn compress(
        &self,
        batch: &[&RawQuantum],
        done: &mut dyn FnMut(usize, Vec<u8>),
    ) -> io::Result<()> {
        assert!(batch.len() <= self.quanta_max(), "a batch has at most quanta_max() quanta");
        self.with(
            &self.compressing,
            || self.compress_lane(),
            |lane| self.compress_in(lane, batch, done),
        )
    }
}

impl Gpu {
    fn compress_in(
        &self,
        lane: &mut CompressLane,
        batch: &[&RawQuantum],
        done: &mut dyn FnMut(usize, Vec<u8>),
    ) -> io::Result<()> {
        let lengths = batch.iter().map(|quantum| quantum.data().len());
        let (quanta, pieces) = placed(lengths, self.settings.piece_bytes);
        for (quantum, place) in batch.iter().zip(&quanta) {
            lane.input()[place.data.clone()].copy_from_slice(quantum.data());
        }
        let frames = lane.compress(&pieces)?;
        // Compressed length of each quantum; `None` if a piece of it could not be compressed.
        let compressed: Vec<Option<usize>> = quanta
            .iter()
            .map(|place| frames[place.pieces.clone()].iter().copied().sum())
            .collect();
        let mut is_wanted = vec![false; pieces.len()];
        for (place, bytes) in quanta.iter().zip(&compressed) {
            if bytes.is_some_and(|bytes| record::is_worth(place.data.len(), bytes)) {
                is_wanted[place.pieces.clone()].fill(true);
            }
        }
        let payloads = lane.collect(|piece| is_wanted[piece])?;
        let mut start = 0;
        let mut records = Vec::with_capacity(batch.len());
        for (number, (quantum, bytes)) in batch.iter().zip(compressed).enumerate() {
            let Some(bytes) = bytes else { continue };
            if !record::is_worth(quantum.data().len(), bytes) {
                records.push((number, record::of(quantum, None)));
                continue;
            }
            let payload = &payloads[start..start + bytes];
            records.push((number, record::of(quantum, Some(payload))));
            start += bytes;
        }
        assert_eq!(start, payloads.len(), "each frame belongs to a quantum");
        if first_wrong(batch, &records)?.is_some() {
            let name = self.device_name();
            return Err(io::Error::other(format!("{name} made a frame that has other data")));
        }
        records.into_iter().for_each(|(number, record)| done(number, record));
        Ok(())
    }
}

/// Reads all records back. Returns the number of the first quantum whose record has other data.
///
/// A GPU that computes wrongly is found before its records go anywhere. A server would refuse such
/// a record and end the session, and data from a pipe cannot be read a second time.
fn first_wrong(batch: &[&RawQuantum], records: &[(usize, Vec<u8>)]) -> io::Result<Option<usize>> {
    let mut decompressor = Decompressor::new()?;
    let mut opened = RawQuantum::default();
    let mut is_wrong = |number: usize, record: &[u8]| {
        decompressor.decode_into(record, &mut opened).is_err() || opened != *batch[number]
    };
    let wrong = records.iter().find(|(number, record)| is_wrong(*number, record));
    Ok(wrong.map(|(number, _)| *number))
}

#[cfg(test)]
mod tests {
    use chunk::{Compression, Compressor};

    use super::*;

    fn quantum(content: &[u8]) -> RawQuantum {
        let mut raw = RawQuantum::default();
        raw.push(content);
        raw
    }

    /// Regression: a wrong frame after the first batch went to the server, which refused it, and
    /// the backup ended.
    #[test]
    fn a_wrong_record_is_found_in_any_place() {
        let quanta: Vec<RawQuantum> = (b'a'..b'e').map(|byte| quantum(&[byte; 5000])).collect();
        let batch: Vec<&RawQuantum> = quanta.iter().collect();
        let mut compressor = Compressor::new(Compression::Standard).expect("a context");
        let mut records: Vec<(usize, Vec<u8>)> =
            quanta.iter().map(|quantum| compressor.encode(quantum)).enumerate().collect();
        assert_eq!(first_wrong(&batch, &records).expect("room"), None);
        assert_eq!(first_wrong(&batch, &[]).expect("room"), None, "nothing was compressed");
        for number in 0..records.len() {
            let other = compressor.encode(&quantum(&[b'x'; 5000]));
            let sound = std::mem::replace(&mut records[number].1, other);
            assert_eq!(first_wrong(&batch, &records).expect("room"), Some(number));
            records[number].1 = sound[..sound.len() - 1].to_vec();
            assert_eq!(first_wrong(&batch, &records).expect("room"), Some(number), "cut");
            records[number].1 = sound;
        }
    }

    #[test]
    fn quanta_are_cut_into_pieces_that_begin_aligned() {
        let (quanta, pieces) = placed([1, 32, 33].into_iter(), 16);
        let data: Vec<_> = quanta.iter().map(|quantum| quantum.data.clone()).collect();
        assert_eq!(data, [0..1, 16..48, 48..81]);
        assert_eq!(pieces, [0..1, 16..32, 32..48, 48..64, 64..80, 80..81]);
        let of: Vec<_> = quanta.iter().map(|quantum| quantum.pieces.clone()).collect();
        assert_eq!(of, [0..1, 1..3, 3..6]);
    }
}
