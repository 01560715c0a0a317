//! Opening of batches: decompression and digests.

use std::io;
use std::ops::Range;

use chunk::{BatchOpener, DomainKey, OpenRecord};
use format::quantum::{Codec, Record};
use model::{ChunkDigest, QUANTUM_BYTES_MAX};
use sys::gpu::{Frame, OpenLane};

use crate::{CHUNKS_EACH, FRAMES_EACH, Gpu, QUANTUM_ALIGNMENT};

/// A record of a batch that the GPU can open.
struct RecordPlace {
    /// Number in the batch.
    number: usize,
    lengths: Vec<u32>,
    /// Numbers of its frames.
    frames: Range<usize>,
    /// Numbers of its chunks.
    chunks: Range<usize>,
}

/// Work of a lane for a batch.
#[derive(Default)]
struct Plan {
    records: Vec<RecordPlace>,
    frames: Vec<Frame>,
    stored: Vec<Frame>,
    chunks: Vec<Range<usize>>,
    input_end: usize,
    output_end: usize,
}

/// Returns the lengths of the zstd frames of `payload` before and after decompression. Returns
/// `None` if it does not consist of whole frames of known lengths, together `bytes` bytes.
fn frames_of(payload: &[u8], bytes: usize) -> Option<Vec<(usize, usize)>> {
    let mut frames = Vec::new();
    let (mut rest, mut left) = (payload, bytes);
    while !rest.is_empty() {
        let compressed = zstd::zstd_safe::find_frame_compressed_size(rest).ok()?;
        let content = zstd::zstd_safe::get_frame_content_size(rest).ok()??;
        let content =
            usize::try_from(content).ok().filter(|content| (1..=left).contains(content))?;
        frames.push((compressed, content));
        left -= content;
        rest = rest.get(compressed..)?;
    }
    (left == 0).then_some(frames)
}

impl Plan {
    /// Adds a record, and copies its payload to `input`, unless the lane has no room for it.
    fn add(&mut self, number: usize, record: Record<'_>, input: &mut [u8], records_max: usize) {
        let bytes = record.raw_bytes();
        let frames = match record.codec {
            Codec::Zstd => frames_of(record.payload, bytes),
            Codec::Stored => (record.payload.len() == bytes).then(Vec::new),
        };
        let Some(frames) = frames else { return };
        let input_end = self.input_end + record.payload.len();
        let has_room = self.frames.len() + frames.len() <= records_max * FRAMES_EACH
            && self.chunks.len() + record.lengths.len() <= records_max * CHUNKS_EACH
            && self.output_end + bytes <= records_max * QUANTUM_BYTES_MAX;
        let Some(room) = input.get_mut(self.input_end..input_end).filter(|_| has_room) else {
            return;
        };
        room.copy_from_slice(record.payload);
        let (first_frame, first_chunk) = (self.frames.len(), self.chunks.len());
        let (mut from, mut to) = (self.input_end, self.output_end);
        for (compressed, content) in frames {
            self.frames
                .push(Frame { input: from..from + compressed, output: to..to + content });
            (from, to) = (from + compressed, to + content);
        }
        if record.codec == Codec::Stored {
            self.stored.push(Frame { input: from..input_end, output: to..to + bytes });
        }
        let mut start = self.output_end;
        for &length in &record.lengths {
            let end = start + length as usize;
            self.chunks.push(start..end);
            start = end;
        }
        self.records.push(RecordPlace {
            number,
            lengths: record.lengths,
            frames: first_frame..self.frames.len(),
            chunks: first_chunk..self.chunks.len(),
        });
        self.input_end = input_end.next_multiple_of(QUANTUM_ALIGNMENT);
        self.output_end = (self.output_end + bytes).next_multiple_of(QUANTUM_ALIGNMENT);
    }
}

impl BatchOpener for Gpu {
    fn quanta_max(&self) -> usize {
        self.settings.quanta
    }

    fn open(
        &self,
        key: &DomainKey,
        batch: &[&[u8]],
        done: &mut dyn FnMut(usize, OpenRecord),
    ) -> io::Result<()> {
        assert!(batch.len() <= self.settings.quanta, "a batch has at most quanta_max() records");
        self.with(&self.opening, || self.open_lane(), |lane| self.open_in(lane, key, batch, done))
    }
}

impl Gpu {
    fn open_in(
        &self,
        lane: &mut OpenLane,
        key: &DomainKey,
        batch: &[&[u8]],
        done: &mut dyn FnMut(usize, OpenRecord),
    ) -> io::Result<()> {
        let mut plan = Plan::default();
        for (number, record) in batch.iter().enumerate() {
            // A damaged record is left to threads, which find out what is wrong with it.
            if let Ok(record) = Record::decode(record) {
                plan.add(number, record, lane.input(), self.settings.quanta);
            }
        }
        let is_sound = lane.open(&plan.frames, &plan.stored)?;
        let digests = lane.digest(&plan.chunks, key.as_bytes())?;
        for RecordPlace { number, lengths, frames, chunks } in plan.records {
            if is_sound[frames].iter().all(|is_sound| *is_sound) {
                let digests = digests[chunks].iter().copied().map(ChunkDigest).collect();
                done(number, OpenRecord { lengths, digests });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use chunk::{Compression, Compressor, RawQuantum};

    use super::*;

    #[test]
    fn frames_are_found_one_after_the_other() {
        let compress = |data: &[u8]| zstd::bulk::compress(data, 1).expect("room");
        let (one, two) = (compress(&[b'a'; 1000]), compress(&[b'b'; 300]));
        let both = [one.clone(), two.clone()].concat();
        let expected = vec![(one.len(), 1000), (two.len(), 300)];
        assert_eq!(frames_of(&both, 1300), Some(expected));
        assert_eq!(frames_of(&both, 1299), None, "more data than the record has");
        assert_eq!(frames_of(&both, 1301), None, "less data than the record has");
        assert_eq!(frames_of(&both[..both.len() - 1], 1300), None, "cut");
        assert_eq!(frames_of(b"no frame", 8), None);
        let with_empty = [compress(&[]), one].concat();
        assert_eq!(frames_of(&with_empty, 1000), None, "a frame without data is for threads");
    }

    #[test]
    fn a_plan_places_records_without_overlap() {
        let mut compressor = Compressor::new(Compression::Standard).expect("a context");
        let mut records = Vec::new();
        for byte in [b'a', b'b'] {
            let mut raw = RawQuantum::default();
            raw.push(&[byte; 5000]);
            raw.push(b"end");
            records.push(compressor.encode(&raw));
        }
        let mut noise = RawQuantum::default();
        noise.push(b"not worth compressing");
        records.push(compressor.encode(&noise));
        let mut plan = Plan::default();
        let mut input = vec![0; 1 << 16];
        for (number, record) in records.iter().enumerate() {
            plan.add(number, Record::decode(record).expect("sound"), &mut input, 4);
        }
        assert_eq!((plan.records.len(), plan.frames.len(), plan.stored.len()), (3, 2, 1));
        assert_eq!(plan.chunks[..4], [0..5000, 5000..5003, 5008..10008, 10008..10011]);
        assert_eq!(plan.stored[0].output, 10016..10037);
        assert_eq!(&input[plan.stored[0].input.clone()], b"not worth compressing");
    }
}
