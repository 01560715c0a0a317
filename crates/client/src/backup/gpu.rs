//! The GPU of this machine, which compresses full quanta in batches.
//!
//! ```text
//!   readers --full quanta--> queue --batches--> GPU --records--> outbox
//! ```
//!
//! The GPU is opened by the first quantum that comes, while threads go on compressing. It serves
//! all sessions of the process. Quanta that it cannot compress are compressed by threads; once it
//! has failed, it gets no more.

use std::ffi::OsStr;
use std::sync::OnceLock;
use std::thread::Scope as Threads;
use std::time::Duration;

use chunk::{BatchCompressor as _, Compression, Doer, Estimate, RawQuantum, compress_all};
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
}

impl<'a> GpuStage<'a> {
    /// Makes the stage; `None` if nobody wants the GPU and this machine has no driver for one.
    pub(super) fn new(library: Option<&'a OsStr>, is_wanted: bool) -> Option<Self> {
        let is_likely = is_wanted || sys::gpu::has_driver();
        is_likely.then(|| Self { library, is_wanted, collecting: Mutex::default() })
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

    /// Compresses batches until the queue has ended. `first` belongs to the first batch.
    fn run(
        &self,
        gpu: &Gpu,
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
            press_batch(gpu, batch, &mut presser);
        }
    }
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

fn compressor(by: Doer) -> CompressorKind {
    match by {
        Doer::Accelerator => CompressorKind::Gpu,
        Doer::Threads => CompressorKind::Threads,
    }
}

fn press_batch(gpu: &Gpu, batch: Vec<FullQuantum>, presser: &mut Presser<'_>) {
    let quanta: Vec<&RawQuantum> = batch.iter().map(FullQuantum::raw).collect();
    let mut records = vec![None; batch.len()];
    let threads = chunk::Threads { compression: Compression::Standard, count: processors() };
    let was_lost = gpu.is_lost();
    let mut time = Duration::ZERO;
    let outcome = timed(&mut time, || {
        compress_all(gpu, &threads, &quanta, &mut |number, record, by| {
            records[number] = Some((record, compressor(by)));
        })
    });
    let time = time / u32::try_from(batch.len()).expect("a batch is small");
    match outcome {
        Ok(None) => {}
        Ok(Some(error)) | Err(error) => {
            let error = error.to_string();
            if !was_lost {
                tracing::info!(error, "the GPU has failed; threads compress");
            }
        }
    }
    for (quantum, record) in batch.into_iter().zip(records) {
        match record {
            Some((record, by)) => presser.send_full(quantum, record, (by, time)),
            None => presser.press_full(quantum),
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

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
