//! Batches of quanta: what accelerators work on.
//!
//! Quanta are independent, so that hardware with thousands of threads can compress or open many of
//! them at once. A batch may fail in part or as a whole, and the work of a batch may end in any
//! order. [`compress_by`] says what an accelerator has left undone, and [`open_all`] gives it to
//! threads: a failure costs time and nothing else.
//!
//! An accelerator writes ordinary records with ordinary zstd frames. Any machine reads them.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use format::DamageError;
use model::ChunkDigest;

use crate::digest::DomainKey;
use crate::quantum::{Compression, Compressor, Decompressor, RawQuantum};

/// Rate and ratio that a compressor is likely to reach, until they are measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Bytes per second, before compression, of full batches.
    pub bytes_per_sec: f64,
    /// Bytes after compression for one byte before.
    pub ratio: f64,
}

/// Chunks of a record that was opened: their lengths and digests, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenRecord {
    pub lengths: Vec<u32>,
    pub digests: Vec<ChunkDigest>,
}

/// Something that compresses many quanta at once. Several threads may call it at the same time.
pub trait BatchCompressor: Send + Sync {
    fn estimate(&self) -> Estimate;

    /// Returns the greatest number of quanta in a batch.
    fn quanta_max(&self) -> usize;

    /// Compresses the quanta of `batch`, none of which is empty. Calls `done` with the number of a
    /// quantum in the batch and its record, in any order, at most once for each quantum.
    ///
    /// The quanta for which `done` was not called could not be compressed here. An error says why,
    /// and that the next batch is likely to fail too.
    fn compress(
        &self,
        batch: &[&RawQuantum],
        done: &mut dyn FnMut(usize, Vec<u8>),
    ) -> io::Result<()>;
}

/// Something that decompresses and digests many records at once. Several threads may call it at the
/// same time.
pub trait BatchOpener: Send + Sync {
    /// Returns the greatest number of records in a batch.
    fn quanta_max(&self) -> usize;

    /// Opens the records of `batch`. Calls `done` with the number of a record in the batch and its
    /// chunks, whose digests are made with `key`, in any order, at most once for each record.
    ///
    /// The records for which `done` was not called are damaged, or could not be opened here. An
    /// error says why, and that the next batch is likely to fail too.
    fn open(
        &self,
        key: &DomainKey,
        batch: &[&[u8]],
        done: &mut dyn FnMut(usize, OpenRecord),
    ) -> io::Result<()>;
}

/// Quanta of a batch that an accelerator has left undone.
#[derive(Debug)]
pub struct Remainder {
    /// Numbers in the batch, ascending.
    pub numbers: Vec<usize>,
    /// Reason that the accelerator gave, if it gave one.
    pub reason: Option<io::Error>,
}

/// Compresses `batch` by `accelerator`, and returns what it leaves undone, for threads.
pub fn compress_by(
    accelerator: &dyn BatchCompressor,
    batch: &[&RawQuantum],
    done: &mut dyn FnMut(usize, Vec<u8>),
) -> Remainder {
    let mut is_done = vec![false; batch.len()];
    let outcome = accelerator.compress(batch, &mut |number, record| {
        assert!(!std::mem::replace(&mut is_done[number], true), "each quantum is done once");
        done(number, record);
    });
    let numbers = (0..batch.len()).filter(|number| !is_done[*number]).collect();
    Remainder { numbers, reason: outcome.err() }
}

/// Opens `batch` by `accelerator`, and what it leaves undone by `threads`. Calls `done` for each
/// record, with the damage if it is damaged. Returns the reason why the accelerator left something
/// undone, if there is one.
pub fn open_all(
    accelerator: &dyn BatchOpener,
    threads: &Threads,
    key: &DomainKey,
    batch: &[&[u8]],
    done: &mut dyn FnMut(usize, Result<OpenRecord, DamageError>),
) -> io::Result<Option<io::Error>> {
    let mut is_done = vec![false; batch.len()];
    let outcome = accelerator.open(key, batch, &mut |number, opened| {
        assert!(!std::mem::replace(&mut is_done[number], true), "each record is done once");
        done(number, Ok(opened));
    });
    let left: Vec<usize> = (0..batch.len()).filter(|number| !is_done[*number]).collect();
    let records: Vec<&[u8]> = left.iter().map(|number| batch[*number]).collect();
    threads.open_each(key, &records, &mut |number, opened| done(left[number], opened))?;
    Ok(outcome.err())
}

/// zstd on threads of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threads {
    pub compression: Compression,
    /// Number of threads, at least 1.
    pub count: usize,
}

impl Threads {
    /// Number of quanta in a batch for each thread. The threads end together then, even if some
    /// quanta take longer.
    const QUANTA_EACH: usize = 4;

    /// Opens the records as [`BatchOpener::open`] does, and says which are damaged.
    fn open_each(
        &self,
        key: &DomainKey,
        batch: &[&[u8]],
        done: &mut dyn FnMut(usize, Result<OpenRecord, DamageError>),
    ) -> io::Result<()> {
        let make = || Ok((Decompressor::new()?, RawQuantum::default()));
        let work = |(decompressor, raw): &mut (Decompressor, RawQuantum), record: &&[u8]| {
            decompressor.decode_into(record, raw)?;
            let digests = raw.chunks().map(|chunk| key.digest(chunk)).collect();
            Ok(OpenRecord { lengths: raw.lengths().to_vec(), digests })
        };
        share(self.count, batch, make, work, done)
    }
}

impl BatchCompressor for Threads {
    fn estimate(&self) -> Estimate {
        // One thread at the standard strength on an AMD EPYC (Zen 5), by `bench compression`.
        Estimate { bytes_per_sec: 532e6 * as_f64(self.count), ratio: 0.283 }
    }

    fn quanta_max(&self) -> usize {
        self.count * Self::QUANTA_EACH
    }

    fn compress(
        &self,
        batch: &[&RawQuantum],
        done: &mut dyn FnMut(usize, Vec<u8>),
    ) -> io::Result<()> {
        let make = || Compressor::new(self.compression);
        share(self.count, batch, make, |compressor, quantum| compressor.encode(quantum), done)
    }
}

impl BatchOpener for Threads {
    fn quanta_max(&self) -> usize {
        self.count * Self::QUANTA_EACH
    }

    fn open(
        &self,
        key: &DomainKey,
        batch: &[&[u8]],
        done: &mut dyn FnMut(usize, OpenRecord),
    ) -> io::Result<()> {
        self.open_each(key, batch, &mut |number, opened| {
            // A damaged record counts as not done.
            if let Ok(opened) = opened {
                done(number, opened);
            }
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of threads")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

/// Does `work` on each item of `batch`, on up to `threads` threads, each with a state of its own
/// that `make` makes. Calls `done` on one thread at a time.
fn share<I: Sync, S, R: Send>(
    threads: usize,
    batch: &[I],
    make: impl Fn() -> io::Result<S> + Sync,
    work: impl Fn(&mut S, &I) -> R + Sync,
    done: &mut dyn FnMut(usize, R),
) -> io::Result<()> {
    assert!(threads > 0, "somebody does the work");
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work_off = || {
        let mut state = make()?;
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(item) = batch.get(number) else { return Ok(()) };
            let result = work(&mut state, item);
            results.lock().expect("no thread panics with the lock").push((number, result));
        }
    };
    let outcome = match threads.min(batch.len()) {
        0 => return Ok(()),
        1 => work_off(),
        helpers => std::thread::scope(|scope| {
            let helping: Vec<_> = (0..helpers).map(|_| scope.spawn(work_off)).collect();
            helping
                .into_iter()
                .map(|helper| {
                    helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .fold(Ok(()), Result::and)
        }),
    };
    let results = results.into_inner().expect("no thread panics with the lock");
    // A thread that could not begin has left its share to the others, unless all failed.
    if results.len() == batch.len() {
        results.into_iter().for_each(|(number, result)| done(number, result));
        return Ok(());
    }
    outcome
}

#[cfg(test)]
mod tests;
