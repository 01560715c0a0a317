//! Compressing the quanta of a batch in several threads, or by a GPU.
//!
//! A GPU has one strength, about that of level 1. So it does the work of this level, and of no
//! other one. What it leaves undone is left to the threads.

use std::io;

use chunk::{
    BatchCompressor, Compression, Compressor, Decompressor, RawQuantum, Remainder, compress_by,
};
use gpu::Settings;
use sys::lock::Mutex;

use crate::folder::Config;
use crate::lifecycle::accelerator;

/// Maximum number of threads.
const THREADS_MAX: usize = 64;
/// Memory of a thread: some 40 MiB of zstd at level 19, and its quanta and records.
const THREAD_BYTES: u64 = 48 << 20;
/// Share of the available memory that all threads together take at most: one part of so many.
const MEMORY_PARTS: u64 = 4;
/// Number of quanta in a batch for each thread, so that a thread with quanta that are compressed
/// fast takes another one meanwhile.
const QUANTA_PER_THREAD: usize = 2;
/// The compression that a GPU can do.
const OF_GPU: Compression = Compression::Level(1);
/// Division of the work of a GPU: one large batch, because a GPU takes as long for a small one.
const ON_GPU: Settings = Settings { piece_bytes: 256 << 10, quanta: 64, lanes: 1 };

/// Workers that compress with one effort, one for each thread.
pub(super) struct Press {
    compression: Compression,
    workers: Vec<Worker>,
    threads_max: usize,
    /// A GPU, which reads back what it has compressed; `None` once it has failed.
    gpu: Option<Box<dyn BatchCompressor>>,
    /// Bytes that the GPU has compressed, before compression.
    pub(super) gpu_bytes: u64,
}

/// A compressor that reads back what it has compressed.
struct Worker {
    compressor: Compressor,
    decompressor: Decompressor,
    /// The quantum of the last record, as it is read back.
    scratch: RawQuantum,
}

impl Worker {
    fn new(compression: Compression) -> io::Result<Self> {
        let (compressor, decompressor) = (Compressor::new(compression)?, Decompressor::new()?);
        Ok(Self { compressor, decompressor, scratch: RawQuantum::default() })
    }

    fn encode(&mut self, quantum: &RawQuantum) -> Option<Vec<u8>> {
        let record = self.compressor.encode(quantum);
        self.holds(&record, quantum).then_some(record)
    }

    /// Returns true if the record gives back exactly `quantum`.
    fn holds(&mut self, record: &[u8], quantum: &RawQuantum) -> bool {
        let is_read = self.decompressor.decode_into(record, &mut self.scratch);
        is_read.is_ok() && self.scratch == *quantum
    }
}

/// Opens the GPU, if the configuration allows one and a GPU can do `compression`.
pub(super) fn open_gpu(
    config: &Config,
    compression: Compression,
) -> Option<Box<dyn BatchCompressor>> {
    if compression != OF_GPU {
        return None;
    }
    let gpu = accelerator::open(config, ON_GPU, "compresses data anew")?;
    Some(Box::new(gpu))
}

/// Returns the number of threads on a machine with so much available memory, if it is known.
fn threads_max(processors: usize, available_bytes: Option<u64>) -> usize {
    let room = available_bytes.map_or(u64::MAX, |bytes| bytes / MEMORY_PARTS / THREAD_BYTES);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    processors.min(THREADS_MAX).min(room).max(1)
}

impl Press {
    /// Makes a press with a thread for each processor, as far as there is memory, and with `gpu`.
    /// Fails if there is no memory for zstd.
    pub(super) fn new(
        compression: Compression,
        gpu: Option<Box<dyn BatchCompressor>>,
    ) -> io::Result<Self> {
        let (processors, available) = (sys::process::processors(), sys::process::available_bytes());
        let threads_max = threads_max(processors, available);
        let workers = vec![Worker::new(compression)?];
        Ok(Self { compression, workers, threads_max, gpu, gpu_bytes: 0 })
    }

    /// Returns the number of quanta in a full batch. A batch of more quanta only takes more memory.
    pub(super) fn batch_quanta(&self) -> usize {
        let of_gpu = self.gpu.as_deref().map_or(0, BatchCompressor::quanta_max);
        of_gpu.max(self.threads_max * QUANTA_PER_THREAD)
    }

    /// Returns the records of `quanta`, in the same order. The old data is removed afterwards, so
    /// each record is read back: a quantum has none if its record does not give it back.
    pub(super) fn encode(&mut self, quanta: &[&RawQuantum]) -> io::Result<Vec<Option<Vec<u8>>>> {
        let mut records: Vec<Option<Vec<u8>>> = vec![None; quanta.len()];
        self.encode_by_gpu(quanta, &mut records);
        let undone = records.iter().filter(|record| record.is_none()).count();
        let threads = self.threads_max.min(undone);
        while self.workers.len() < threads {
            self.workers.push(Worker::new(self.compression)?);
        }
        let undone = quanta.iter().zip(&mut records).filter(|(_, record)| record.is_none());
        let queue = Mutex::new(undone);
        let work = |worker: &mut Worker| {
            loop {
                let next = queue.lock().next();
                let Some((quantum, record)) = next else { return };
                *record = worker.encode(quantum);
            }
        };
        std::thread::scope(|scope| {
            for worker in self.workers.iter_mut().take(threads) {
                scope.spawn(move || work(worker));
            }
        });
        Ok(records)
    }

    /// Fills in the records of the quanta that the GPU compresses. Once it has failed, it gets no
    /// more.
    fn encode_by_gpu(&mut self, quanta: &[&RawQuantum], records: &mut [Option<Vec<u8>>]) {
        let Some(gpu) = self.gpu.as_deref() else { return };
        let most = gpu.quanta_max();
        for (batch, records) in quanta.chunks(most).zip(records.chunks_mut(most)) {
            let gpu_bytes = &mut self.gpu_bytes;
            let Remainder { reason, .. } = compress_by(gpu, batch, &mut |number, record| {
                *gpu_bytes += batch[number].data().len() as u64;
                records[number] = Some(record);
            });
            if let Some(error) = reason {
                let error = error.to_string();
                tracing::warn!(error, "the GPU has failed; threads compress data anew");
                self.gpu = None;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use chunk::{Estimate, record};

    use super::*;

    /// A GPU that stores so many quanta as they are, and then fails.
    struct MortalGpu(AtomicUsize);

    impl BatchCompressor for MortalGpu {
        fn estimate(&self) -> Estimate {
            Estimate { bytes_per_sec: 1e9, ratio: 1.0 }
        }

        fn quanta_max(&self) -> usize {
            4
        }

        fn compress(
            &self,
            batch: &[&RawQuantum],
            done: &mut dyn FnMut(usize, Vec<u8>),
        ) -> io::Result<()> {
            for (number, quantum) in batch.iter().enumerate() {
                if self.0.load(Relaxed) == 0 {
                    return Err(io::Error::other("it was reset"));
                }
                self.0.fetch_sub(1, Relaxed);
                done(number, record::of(quantum, None));
            }
            Ok(())
        }
    }

    fn quantum(number: u8) -> RawQuantum {
        let mut quantum = RawQuantum::default();
        quantum.push(&vec![number; 1 + usize::from(number) * 100]);
        quantum
    }

    #[test]
    fn threads_fit_into_the_memory() {
        assert_eq!(threads_max(8, None), 8);
        assert_eq!(threads_max(200, Some(1 << 40)), THREADS_MAX);
        assert_eq!(threads_max(64, Some(2 << 30)), 10, "a quarter of it, 48 MiB each");
        assert_eq!(threads_max(64, Some(0)), 1, "somebody does the work");
    }

    #[test]
    fn a_record_must_give_back_its_quantum() {
        let mut worker = Worker::new(Compression::Level(1)).expect("contexts");
        let mut record = worker.encode(&quantum(7)).expect("is given back");
        assert!(worker.holds(&record, &quantum(7)) && !worker.holds(&record, &quantum(8)));
        let last = record.len() - 1;
        record[last] ^= 1;
        assert!(!worker.holds(&record, &quantum(7)));
    }

    #[test]
    fn records_come_in_the_order_of_the_quanta() {
        let quanta: Vec<RawQuantum> = (0..100).map(quantum).collect();
        let mut press = Press::new(Compression::Level(1), None).expect("a context");
        assert!(press.batch_quanta() >= QUANTA_PER_THREAD);
        let records = press.encode(&quanta.iter().collect::<Vec<_>>()).expect("contexts");
        let mut decompressor = Decompressor::new().expect("a context");
        for (record, quantum) in records.iter().zip(&quanta) {
            let record = record.as_ref().expect("is given back");
            assert_eq!(decompressor.decode(record).as_ref(), Ok(quantum));
        }
        assert!(press.encode(&[]).expect("contexts").is_empty());
    }

    #[test]
    fn threads_compress_what_a_gpu_leaves_undone() {
        let quanta: Vec<RawQuantum> = (100..110).map(quantum).collect();
        let quanta: Vec<&RawQuantum> = quanta.iter().collect();
        let gpu = MortalGpu(AtomicUsize::new(6));
        let mut press = Press::new(OF_GPU, Some(Box::new(gpu))).expect("a context");
        assert!(press.batch_quanta() >= 4);
        let mut decompressor = Decompressor::new().expect("a context");
        // The GPU fails in its second batch, and gets nothing afterwards.
        for of_gpu in [6, 0] {
            let records = press.encode(&quanta).expect("contexts");
            let records: Vec<Vec<u8>> = records.into_iter().flatten().collect();
            assert_eq!(records.len(), quanta.len());
            for (number, (record, quantum)) in records.iter().zip(&quanta).enumerate() {
                assert_eq!(decompressor.decode(record).as_ref(), Ok(*quantum));
                let is_stored = record.len() > quantum.data().len();
                assert_eq!(is_stored, number < of_gpu, "{number}");
            }
            let bytes = quanta[..6].iter().map(|quantum| quantum.data().len() as u64).sum::<u64>();
            assert_eq!(press.gpu_bytes, bytes);
        }
    }
}
