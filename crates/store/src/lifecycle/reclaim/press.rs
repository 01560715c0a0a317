//! Compressing the quanta of a batch in several threads.

use std::io;

use chunk::{Compression, Compressor, RawQuantum};
use sys::lock::Mutex;

/// Maximum number of threads. At zstd's level 19 each thread takes some 40 MiB.
const THREADS_MAX: usize = 64;
/// Number of quanta in a batch for each thread, so that a thread with quanta that are compressed
/// fast takes another one meanwhile.
const QUANTA_PER_THREAD: usize = 2;

/// Compressors of one effort, one for each thread.
pub(super) struct Press {
    compression: Compression,
    compressors: Vec<Compressor>,
    threads_max: usize,
}

impl Press {
    /// Makes a press with a thread for each processor. Fails if there is no memory for zstd.
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        let threads_max = sys::process::processors().clamp(1, THREADS_MAX);
        Ok(Self { compression, compressors: vec![Compressor::new(compression)?], threads_max })
    }

    /// Returns the number of quanta in a full batch. A batch of more quanta only takes more memory.
    pub(super) fn batch_quanta(&self) -> usize {
        self.threads_max * QUANTA_PER_THREAD
    }

    /// Returns the records of `quanta`, in the same order.
    pub(super) fn encode(&mut self, quanta: &[&RawQuantum]) -> io::Result<Vec<Vec<u8>>> {
        let threads = self.threads_max.min(quanta.len());
        while self.compressors.len() < threads {
            self.compressors.push(Compressor::new(self.compression)?);
        }
        let mut records = vec![Vec::new(); quanta.len()];
        let queue = Mutex::new(quanta.iter().zip(&mut records));
        let work = |compressor: &mut Compressor| {
            loop {
                let next = queue.lock().next();
                let Some((quantum, record)) = next else { return };
                *record = compressor.encode(quantum);
            }
        };
        std::thread::scope(|scope| {
            for compressor in self.compressors.iter_mut().take(threads) {
                scope.spawn(move || work(compressor));
            }
        });
        assert!(records.iter().all(|record| !record.is_empty()), "each quantum has a record");
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use chunk::Decompressor;

    use super::*;

    #[test]
    fn records_come_in_the_order_of_the_quanta() {
        let quantum = |number: u8| {
            let mut quantum = RawQuantum::default();
            quantum.push(&vec![number; 1 + usize::from(number) * 100]);
            quantum
        };
        let quanta: Vec<RawQuantum> = (0..100).map(quantum).collect();
        let mut press = Press::new(Compression::Level(1)).expect("a context");
        assert!(press.batch_quanta() >= QUANTA_PER_THREAD);
        let records = press.encode(&quanta.iter().collect::<Vec<_>>()).expect("contexts");
        let mut decompressor = Decompressor::new().expect("a context");
        for (record, quantum) in records.iter().zip(&quanta) {
            assert_eq!(decompressor.decode(record).as_ref(), Ok(quantum));
        }
        assert!(press.encode(&[]).expect("contexts").is_empty());
    }
}
