//! Compressing the quanta of a batch in several threads.

use std::io;

use chunk::{Compression, Compressor, Decompressor, RawQuantum};
use sys::lock::Mutex;

/// Maximum number of threads.
const THREADS_MAX: usize = 64;
/// Memory of a thread: some 40 MiB of zstd at level 19, and its quanta and records.
const THREAD_BYTES: u64 = 48 << 20;
/// Share of the available memory that all threads together take at most: one part of so many.
const MEMORY_PARTS: u64 = 4;
/// Number of quanta in a batch for each thread, so that a thread with quanta that are compressed
/// fast takes another one meanwhile.
const QUANTA_PER_THREAD: usize = 2;

/// Workers that compress with one effort, one for each thread.
pub(super) struct Press {
    compression: Compression,
    workers: Vec<Worker>,
    threads_max: usize,
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

/// Returns the number of threads on a machine with so much available memory, if it is known.
fn threads_max(processors: usize, available_bytes: Option<u64>) -> usize {
    let room = available_bytes.map_or(u64::MAX, |bytes| bytes / MEMORY_PARTS / THREAD_BYTES);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    processors.min(THREADS_MAX).min(room).max(1)
}

impl Press {
    /// Makes a press with a thread for each processor, as far as there is memory. Fails if there is
    /// no memory for zstd.
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        let (processors, available) = (sys::process::processors(), sys::process::available_bytes());
        let threads_max = threads_max(processors, available);
        Ok(Self { compression, workers: vec![Worker::new(compression)?], threads_max })
    }

    /// Returns the number of quanta in a full batch. A batch of more quanta only takes more memory.
    pub(super) fn batch_quanta(&self) -> usize {
        self.threads_max * QUANTA_PER_THREAD
    }

    /// Returns the records of `quanta`, in the same order. The old data is removed afterwards, so
    /// each record is read back: a quantum has none if its record does not give it back.
    pub(super) fn encode(&mut self, quanta: &[&RawQuantum]) -> io::Result<Vec<Option<Vec<u8>>>> {
        let threads = self.threads_max.min(quanta.len());
        while self.workers.len() < threads {
            self.workers.push(Worker::new(self.compression)?);
        }
        let mut records = vec![None; quanta.len()];
        let queue = Mutex::new(quanta.iter().zip(&mut records));
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut press = Press::new(Compression::Level(1)).expect("a context");
        assert!(press.batch_quanta() >= QUANTA_PER_THREAD);
        let records = press.encode(&quanta.iter().collect::<Vec<_>>()).expect("contexts");
        let mut decompressor = Decompressor::new().expect("a context");
        for (record, quantum) in records.iter().zip(&quanta) {
            let record = record.as_ref().expect("is given back");
            assert_eq!(decompressor.decode(record).as_ref(), Ok(quantum));
        }
        assert!(press.encode(&[]).expect("contexts").is_empty());
    }
}
