//! The GPU of this machine, which compresses full quanta in batches.
//!
//! ```text
//!   readers --full quanta--> queue --batches--> GPU --records--> outbox
//! ```
//!
//! When the first quantum comes, the GPU is opened, while threads go on compressing. It serves all
//! sessions of the process. Quanta that it cannot compress are compressed by threads; once it
//! has failed, it gets no more.

use std::ffi::OsStr;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Scope as Threads;
use std::time::Duration;

use chunk::{BatchCompressor, Compression, Estimate, RawQuantum, Remainder, compress_by};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use gpu::{Gpu, Settings};
use sys::lock::Mutex;
use sys::process::processors;

use super::press::{FullQuantum, Presser};
use crate::stages::{CompressorKind, timed};

/// Time for which a batch that is not full waits for more quanta. A GPU takes as long for a batch
/// of any size.
const BATCH_WAIT: Duration = Duration::from_millis(10);

/// The GPU, once it was looked for. Opening it again would take a second.
static OPENED: OnceLock<Option<Gpu>> = OnceLock::new();

/// The GPU as a stage of a session.
pub(super) struct GpuStage<'a> {
    /// File of nvCOMP, if the user has named one.
    library: Option<&'a OsStr>,
    /// True if the user wants the GPU in any case.
    is_wanted: bool,
    /// Held by the thread that collects a batch, so that batches become full.
    collecting: Mutex<()>,
    /// True once a failure was reported.
    has_failed: AtomicBool,
}

impl<'a> GpuStage<'a> {
    /// Makes the stage; `None` if nobody wants the GPU and this machine has no driver for one.
    pub(super) fn new(library: Option<&'a OsStr>, is_wanted: bool) -> Option<Self> {
        let may_exist = is_wanted || has_driver();
        may_exist.then(|| Self {
            library,
            is_wanted,
            collecting: Mutex::default(),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Returns true until it is known that there is no GPU that works.
    pub(super) fn may_work(&self) -> bool {
        match OPENED.get() {
            Some(gpu) => gpu.as_ref().is_some_and(|gpu| !gpu.is_lost()),
            None => true,
        }
    }

    /// Returns the GPU's estimate, once there is a GPU that works.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        let gpu = OPENED.get()?.as_ref().filter(|gpu| !gpu.is_lost())?;
        Some(gpu.estimate())
    }

    /// Number of quanta that may wait for the GPU.
    pub(super) fn queue_quanta() -> usize {
        Settings::default().quanta
    }

    fn gpu(&self) -> Option<&'static Gpu> {
        OPENED
            .get_or_init(|| match Gpu::open(self.library, Settings::default()) {
                Ok(gpu) => {
                    tracing::info!(gpu = gpu.device_name(), "a GPU compresses");
                    Some(gpu)
                }
                Err(error) => {
                    let error = error.to_string();
                    if self.is_wanted {
                        tracing::warn!(error, "no GPU compresses; threads do");
                    } else {
                        tracing::info!(error, "no GPU compresses; threads do");
                    }
                    None
                }
            })
            .as_ref()
    }

    /// Starts the first thread of the stage. It ends with the queue.
    pub(super) fn start<'scope>(
        &'scope self,
        threads: &'scope Threads<'scope, '_>,
        queue: Receiver<FullQuantum>,
        presser: Presser<'scope>,
    ) {
        threads.spawn(move || {
            let Ok(first) = queue.recv() else { return };
            let Some(gpu) = self.gpu() else {
                return self.press_by_threads(first, &queue, presser);
            };
            for _ in 1..Settings::default().lanes {
                let (queue, presser) = (queue.clone(), presser.another());
                threads.spawn(move || self.run(gpu, None, &queue, presser));
            }
            self.run(gpu, Some(first), &queue, presser);
        });
    }

    /// Compresses what had come before it was known that there is no GPU.
    fn press_by_threads(
        &self,
        first: FullQuantum,
        queue: &Receiver<FullQuantum>,
        mut presser: Presser<'_>,
    ) {
        presser.press_full(first);
        queue.iter().for_each(|quantum| presser.press_full(quantum));
    }

    /// Says once that the GPU has failed.
    fn note_failure(&self, error: &io::Error) {
        if self.has_failed.fetch_or(true, Relaxed) {
            return;
        }
        let error = error.to_string();
        if self.is_wanted {
            tracing::warn!(error, "the GPU has failed; threads compress");
        } else {
            tracing::info!(error, "the GPU has failed; threads compress");
        }
    }

    /// Compresses batches until the queue has ended. `first` belongs to the first batch.
    fn run(
        &self,
        gpu: &dyn BatchCompressor,
        mut first: Option<FullQuantum>,
        queue: &Receiver<FullQuantum>,
        mut presser: Presser<'_>,
    ) {
        loop {
            let batch = {
                let _collecting = self.collecting.lock();
                collect(first.take(), queue, gpu.quanta_max())
            };
            if batch.is_empty() {
                return;
            }
            if let Some(error) = press_batch(gpu, batch, &mut presser) {
                self.note_failure(&error);
            }
        }
    }
}

/// Returns true if this machine has a driver for GPUs. A process without one says so once, for a
/// reader of details.
fn has_driver() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| match sys::gpu::find_driver() {
        Ok(()) => true,
        Err(error) => {
            let error = error.to_string();
            tracing::info!(error, "no GPU compresses; threads do");
            false
        }
    })
}

/// Collects up to `most` quanta, beginning with `first`. Waits for the first of them, and a little
/// for more. An empty batch shows that the queue has ended.
fn collect<T>(first: Option<T>, queue: &Receiver<T>, most: usize) -> Vec<T> {
    let Some(first) = first.or_else(|| queue.recv().ok()) else { return Vec::new() };
    let end = sys::clock::monotonic() + BATCH_WAIT;
    let mut batch = vec![first];
    while batch.len() < most {
        match queue.recv_deadline(end) {
            Ok(quantum) => batch.push(quantum),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    batch
}

/// Compresses and sends a batch. Returns the reason if `gpu` has left something undone.
fn press_batch(
    gpu: &dyn BatchCompressor,
    batch: Vec<FullQuantum>,
    presser: &mut Presser<'_>,
) -> Option<io::Error> {
    let quanta: Vec<&RawQuantum> = batch.iter().map(FullQuantum::raw).collect();
    let mut records = vec![None; batch.len()];
    let mut time = Duration::ZERO;
    let Remainder { numbers, reason } = timed(&mut time, || {
        compress_by(gpu, &quanta, &mut |number, record| records[number] = Some(record))
    });
    let shared = share(time, batch.len() - numbers.len());
    let left: Vec<&RawQuantum> = numbers.iter().map(|number| quanta[*number]).collect();
    let (mut by_threads, mut time) = (vec![None; batch.len()], Duration::ZERO);
    let count = processors().min(left.len()).max(1);
    let threads = chunk::Threads { compression: Compression::Standard, count };
    let outcome = timed(&mut time, || {
        threads.compress(&left, &mut |at, record| by_threads[numbers[at]] = Some(record))
    });
    let shared_by_threads = share(time * u32::try_from(count).unwrap_or(1), left.len());
    for ((quantum, record), by_threads) in batch.into_iter().zip(records).zip(by_threads) {
        match (record, by_threads) {
            (Some(record), _) => presser.send_full(quantum, record, (CompressorKind::Gpu, shared)),
            (None, Some(record)) => {
                let work = (CompressorKind::Threads, shared_by_threads);
                presser.send_full(quantum, record, work);
            }
            (None, None) => presser.press_full(quantum),
        }
    }
    reason.or(outcome.err())
}

/// Returns the share of each of `count` quanta in a time.
fn share(time: Duration, count: usize) -> Duration {
    u32::try_from(count)
        .ok()
        .and_then(|count| time.checked_div(count))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use chunk::{Decompressor, Threads as ChunkThreads};
    use crossbeam_channel::bounded;
    use proptest::prelude::*;

    use super::super::answers::Answers;
    use super::super::outbox_message::OutboxMessage;
    use super::super::press::{Press, QuantumHeader, QuantumKind};
    use super::*;
    use crate::tuning::CompressionChoice;

    /// Accelerator that compresses some quanta of a batch, and then fails.
    struct Faulty {
        quanta: usize,
    }

    impl BatchCompressor for Faulty {
        fn estimate(&self) -> Estimate {
            Estimate { bytes_per_sec: 1e9, ratio: 0.5 }
        }

        fn quanta_max(&self) -> usize {
            16
        }

        fn compress(
            &self,
            batch: &[&RawQuantum],
            done: &mut dyn FnMut(usize, Vec<u8>),
        ) -> io::Result<()> {
            let some = &batch[..self.quanta.min(batch.len())];
            let threads = ChunkThreads { compression: Compression::Level(1), count: 1 };
            threads.compress(some, done)?;
            let is_done = some.len() == batch.len();
            if is_done { Ok(()) } else { Err(io::Error::other("it was reset")) }
        }
    }

    /// Maximum number of quanta in a batch of [`FitfulGpu`].
    const BATCH: usize = 4;

    /// Accelerator of batches that do some quanta, a number for each batch, and then fail.
    struct FitfulGpu {
        quanta: Vec<usize>,
        is_backward: bool,
        batches: AtomicUsize,
        /// Number of quanta that it has compressed.
        done: AtomicUsize,
    }

    impl BatchCompressor for FitfulGpu {
        fn estimate(&self) -> Estimate {
            Faulty { quanta: BATCH }.estimate()
        }

        fn quanta_max(&self) -> usize {
            BATCH
        }

        fn compress(
            &self,
            batch: &[&RawQuantum],
            done: &mut dyn FnMut(usize, Vec<u8>),
        ) -> io::Result<()> {
            let quanta = self.quanta[self.batches.fetch_add(1, Relaxed)];
            let mut records = Vec::new();
            let outcome = Faulty { quanta }
                .compress(batch, &mut |number, record| records.push((number, record)));
            if self.is_backward {
                records.reverse();
            }
            self.done.fetch_add(records.len(), Relaxed);
            records.into_iter().for_each(|(number, record)| done(number, record));
            outcome
        }
    }

    fn content(number: u64) -> Vec<u8> {
        vec![b'a' + u8::try_from(number).expect("small"); 5000]
    }

    fn full(number: u64) -> FullQuantum {
        let mut raw = RawQuantum::default();
        raw.push(&content(number));
        let (digests, kind) = (Vec::new(), QuantumKind::Compressed);
        let full_at = sys::clock::monotonic();
        FullQuantum::new(QuantumHeader { number, digests, kind, full_at }, raw)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whichever batches of a session fail, in whichever lane and order, each quantum goes out
        /// once with its data, and the later batches are compressed too.
        #[test]
        fn batches_that_fail_lose_nothing_of_any_batch(
            quanta in prop::collection::vec(0..=BATCH, 3..=6),
            lanes in 1..=3_usize,
            is_backward in any::<bool>(),
        ) {
            let (batches, fails) = (quanta.len(), quanta.iter().any(|quanta| *quanta < BATCH));
            let (batches_begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let gpu = FitfulGpu { quanta, is_backward, batches: batches_begun, done };
            let (fill, queue) = bounded(batches * BATCH);
            let count = (batches * BATCH) as u64;
            (0..count).for_each(|number| fill.send(full(number)).expect("room"));
            drop(fill);
            let answers = Answers::default();
            let press = Press::new(CompressionChoice::Gpu, 1, &answers);
            let (sender, outgoing) = bounded(batches * BATCH);
            let presser = Presser::new(&press, sender).expect("a compressor");
            let stage = GpuStage::new(None, true).expect("it is wanted");
            std::thread::scope(|threads| {
                for _ in 0..lanes {
                    let presser = presser.another();
                    threads.spawn(|| stage.run(&gpu, None, &queue, presser));
                }
            });
            let mut by_gpu = 0;
            let mut numbers = Vec::new();
            for message in outgoing.try_iter() {
                let OutboxMessage::Quantum(sent) = message else { panic!("a quantum went out") };
                let raw = Decompressor::new().expect("room").decode(&sent.record).expect("sound");
                let expected = content(sent.number);
                prop_assert_eq!(raw.data(), &expected[..]);
                by_gpu += usize::from(sent.work.compressor == Some(CompressorKind::Gpu));
                numbers.push(sent.number);
            }
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..count).collect::<Vec<_>>());
            prop_assert_eq!(by_gpu, gpu.done.load(Relaxed));
            prop_assert_eq!(gpu.batches.load(Relaxed), batches);
            prop_assert_eq!(stage.has_failed.load(Relaxed), fails);
        }
    }

    /// Whatever the GPU leaves undone, each quantum goes out once, and as work of who did it.
    #[test]
    fn each_quantum_of_a_batch_goes_out_once() {
        let answers = Answers::default();
        for quanta in [0, 1, 3, 5] {
            let press = Press::new(CompressionChoice::Gpu, 1, &answers);
            let (sender, outgoing) = bounded(8);
            let mut presser = Presser::new(&press, sender).expect("a compressor");
            let reason = press_batch(&Faulty { quanta }, (0..5).map(full).collect(), &mut presser);
            assert_eq!(reason.is_some(), quanta < 5);
            let mut by_gpu = 0;
            for number in 0..5 {
                let Ok(OutboxMessage::Quantum(sent)) = outgoing.try_recv() else {
                    panic!("a quantum went out")
                };
                let raw = Decompressor::new().expect("room").decode(&sent.record).expect("sound");
                assert_eq!((sent.number, raw.data()), (number, &content(number)[..]));
                assert!(sent.work.time > Duration::ZERO);
                by_gpu += usize::from(sent.work.compressor == Some(CompressorKind::Gpu));
            }
            assert_eq!((by_gpu, outgoing.len()), (quanta, 0));
        }
    }

    #[test]
    fn batches_have_what_waits_and_end_with_the_queue() {
        let (sender, queue) = bounded(8);
        for number in 1..=5 {
            sender.send(number).expect("room");
        }
        assert_eq!(collect(Some(0), &queue, 3), [0, 1, 2]);
        assert_eq!(collect(None, &queue, 3), [3, 4, 5]);
        sender.send(6).expect("room");
        assert_eq!(collect(None, &queue, 3), [6], "it waits a little and no longer");
        drop(sender);
        assert!(collect(None, &queue, 3).is_empty());
        assert_eq!(collect(Some(7), &queue, 3), [7]);
    }
}
