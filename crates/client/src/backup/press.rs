//! Compression of quanta. A quantum is compressed by the thread that filled it, by another thread
//! while a processor is free, or by the GPU. The user sets the means, or they follow the
//! bottleneck.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use chunk::{Compression, Compressor, RawQuantum};
use crossbeam_channel::{Receiver, SendError, Sender, TrySendError};
use model::ChunkDigest;
use sys::lock::{Mutex, MutexGuard};

use super::answers::Answers;
use super::gpu::GpuStage;
use super::outbox_message::OutboxMessage;
use super::tuner::{Means, Tuner};
use crate::error::{ClientError, ErrorKind};
use crate::link::backup::{Check, SentQuantum};
use crate::stages::{CompressorKind, PressWork, timed};
use crate::tuning::CompressionChoice;

/// Number and digests of a full quantum.
pub(super) struct QuantumHeader {
    pub(super) number: u64,
    pub(super) digests: Vec<ChunkDigest>,
    pub(super) kind: QuantumKind,
    pub(super) full_at: Instant,
}

/// Kind of the chunks of a quantum. Chunks of different kinds never share a quantum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QuantumKind {
    Compressed,
    /// Chunks that the rules exclude from compression.
    Stored,
    /// Encrypted chunks, which cannot be compressed.
    Encrypted,
}

/// Full quantum for a compressing thread, or for the GPU.
pub(super) struct FullQuantum {
    header: QuantumHeader,
    raw: RawQuantum,
}

impl FullQuantum {
    #[cfg(test)]
    pub(super) fn new(header: QuantumHeader, raw: RawQuantum) -> Self {
        Self { header, raw }
    }

    pub(super) fn raw(&self) -> &RawQuantum {
        &self.raw
    }
}

/// Number of quanta after which an automatic choice looks for a GPU: a smaller backup is done
/// before the GPU is ready.
const QUANTA_BEFORE_GPU: usize = 1024;
/// Pause between two looks for the server's first report.
const REPORT_LOOK: Duration = Duration::from_micros(500);
/// Compression of quanta for which the GPU has no time, at about the GPU's strength.
const BESIDE_GPU: Compression = Compression::Level(1);

/// State that all compressing threads of a session share.
pub(super) struct Press<'a> {
    /// Number of threads that read and fill quanta at the moment.
    filling: AtomicUsize,
    processors: usize,
    /// Emptied quanta, which are used again: new memory is expensive.
    rooms: Mutex<VecDeque<RawQuantum>>,
    strength: Strength<'a>,
    gpu: Option<GpuStage<'a>>,
    /// Number of quanta that were handed on.
    handed_on: AtomicUsize,
}

enum Strength<'a> {
    Fixed(Compression),
    Gpu,
    Auto(Box<AutoStrength<'a>>),
}

struct AutoStrength<'a> {
    tuner: Mutex<Tuner>,
    answers: &'a Answers,
}

impl AutoStrength<'_> {
    fn tuner(&self) -> MutexGuard<'_, Tuner> {
        self.tuner.lock()
    }

    /// Waits for the server's first report, for a short time at most.
    fn await_report(&self) {
        while self.tuner().awaits_report(self.answers.arrived()) {
            sys::clock::sleep(REPORT_LOOK);
        }
    }
}

impl<'a> Press<'a> {
    pub(super) fn new(choice: CompressionChoice, processors: usize, answers: &'a Answers) -> Self {
        let strength = match choice {
            CompressionChoice::Fixed(compression) => Strength::Fixed(compression),
            CompressionChoice::Gpu => Strength::Gpu,
            CompressionChoice::Auto => {
                let tuner = Mutex::new(Tuner::start(answers.arrived()));
                Strength::Auto(Box::new(AutoStrength { tuner, answers }))
            }
        };
        Self {
            filling: AtomicUsize::new(0),
            processors,
            rooms: Mutex::default(),
            strength,
            gpu: None,
            handed_on: AtomicUsize::new(0),
        }
    }

    /// Adds the GPU, if the choice allows one. `library` is the file of nvCOMP.
    pub(super) fn with_gpu(self, library: Option<&'a OsStr>) -> Self {
        let gpu = match self.strength {
            Strength::Fixed(_) => None,
            Strength::Gpu => GpuStage::new(library, true),
            Strength::Auto(_) => GpuStage::new(library, false),
        };
        Self { gpu, ..self }
    }

    /// Returns the GPU's stage, which the caller starts, if there is one.
    pub(super) fn gpu(&self) -> Option<&GpuStage<'a>> {
        self.gpu.as_ref()
    }

    /// Returns what to do with a full quantum that can be compressed.
    fn route(&self) -> Route {
        let Some(gpu) = self.gpu.as_ref().filter(|gpu| gpu.may_work()) else {
            return Route::Threads;
        };
        let is_ready = gpu.estimate().is_some();
        match &self.strength {
            Strength::Fixed(_) => Route::Threads,
            // While the GPU is opened, threads work too.
            Strength::Gpu => {
                if is_ready {
                    Route::Gpu
                } else {
                    Route::GpuIfFree
                }
            }
            Strength::Auto(auto) => {
                let is_chosen = auto.tuner().means() == Means::Gpu;
                let is_sought = !is_ready && self.handed_on.load(Relaxed) >= QUANTA_BEFORE_GPU;
                if is_chosen || is_sought { Route::GpuIfFree } else { Route::Threads }
            }
        }
    }

    /// Counts the caller as a thread that fills quanta, until the result is dropped.
    pub(super) fn filling(&self) -> FillGuard<'_> {
        self.filling.fetch_add(1, Relaxed);
        FillGuard(self)
    }

    fn has_free_processor(&self) -> bool {
        self.filling.load(Relaxed) < self.processors
    }

    fn rooms(&self) -> MutexGuard<'_, VecDeque<RawQuantum>> {
        self.rooms.lock()
    }

    fn take_room(&self) -> RawQuantum {
        let room = self.rooms().pop_front();
        room.unwrap_or_else(RawQuantum::with_room)
    }

    fn give_back(&self, mut room: RawQuantum) {
        room.clear();
        self.rooms().push_back(room);
    }

    /// Returns the compression of a quantum that goes to the queue `outgoing`.
    fn compression(&self, outgoing: &Sender<OutboxMessage>) -> Compression {
        match &self.strength {
            Strength::Fixed(compression) => *compression,
            Strength::Gpu => Compression::Standard,
            Strength::Auto(auto) => {
                auto.await_report();
                let room = outgoing.capacity().unwrap_or(usize::MAX);
                let arrived = auto.answers.arrived();
                match auto.tuner().means_behind(outgoing.len(), room, arrived) {
                    Means::Threads(compression) => compression,
                    Means::Gpu => BESIDE_GPU,
                }
            }
        }
    }

    /// Notes that a quantum of `bytes` was handed to the outbox as a record of `handed` bytes. To
    /// make the record took `time`.
    fn note_handed_on(&self, bytes: usize, handed: usize, time: Duration) {
        self.handed_on.fetch_add(1, Relaxed);
        if let Strength::Auto(auto) = &self.strength {
            let mut tuner = auto.tuner();
            tuner.set_gpu(self.gpu.as_ref().and_then(GpuStage::estimate));
            tuner.note(bytes as u64, handed as u64, time, auto.answers.arrived());
        }
    }
}

/// Where a full quantum goes.
enum Route {
    Threads,
    Gpu,
    /// To the GPU, unless more quanta wait for it than it takes at once.
    GpuIfFree,
}

/// Guard that counts its thread among the threads that fill quanta; see [`Press::filling`].
pub(super) struct FillGuard<'a>(&'a Press<'a>);

impl Drop for FillGuard<'_> {
    fn drop(&mut self) {
        self.0.filling.fetch_sub(1, Relaxed);
    }
}

/// Compressor of one thread.
pub(super) struct Presser<'a> {
    press: &'a Press<'a>,
    compressor: Compressor,
    outgoing: Sender<OutboxMessage>,
    /// Queue to the GPU.
    gpu: Option<Sender<FullQuantum>>,
}

impl<'a> Presser<'a> {
    pub(super) fn new(
        press: &'a Press<'a>,
        outgoing: Sender<OutboxMessage>,
    ) -> Result<Self, ClientError> {
        let compressor = Compressor::new(press.compression(&outgoing)).map_err(|error| {
            ClientError::new(ErrorKind::Usage, format!("zstd refuses this compression: {error}"))
        })?;
        Ok(Self { press, compressor, outgoing, gpu: None })
    }

    /// Gives quanta to the GPU too, by the queue `gpu`.
    pub(super) fn with_gpu(self, gpu: Option<Sender<FullQuantum>>) -> Self {
        Self { gpu, ..self }
    }

    /// Returns a compressor for another thread.
    pub(super) fn another(&self) -> Self {
        let compressor = Compressor::new(self.press.compression(&self.outgoing));
        Self {
            press: self.press,
            compressor: compressor.expect("zstd has taken this compression before"),
            outgoing: self.outgoing.clone(),
            gpu: self.gpu.clone(),
        }
    }

    /// Compresses and sends `raw`, and leaves it empty. The GPU compresses it, if it was chosen. If
    /// a processor is free and `others` has room, another thread does. Otherwise this thread does,
    /// while the data is in its caches.
    pub(super) fn press(
        &mut self,
        others: Option<&Sender<FullQuantum>>,
        header: QuantumHeader,
        raw: &mut RawQuantum,
    ) {
        let Some(header) = self.press_by_gpu(header, raw) else { return };
        let Some(others) = others.filter(|_| self.press.has_free_processor()) else {
            return self.press_here(header, raw);
        };
        if let Some(header) = self.pass_on(others, false, header, raw) {
            self.press_here(header, raw);
        }
    }

    /// Passes `raw` to the GPU and leaves it empty, if the GPU is to compress it. Otherwise returns
    /// the header.
    fn press_by_gpu(&self, header: QuantumHeader, raw: &mut RawQuantum) -> Option<QuantumHeader> {
        let queue = self.gpu.as_ref().filter(|_| header.kind == QuantumKind::Compressed);
        match (queue, self.press.route()) {
            (None, _) | (_, Route::Threads) => Some(header),
            (Some(queue), Route::Gpu) => self.pass_on(queue, true, header, raw),
            (Some(queue), Route::GpuIfFree) => self.pass_on(queue, false, header, raw),
        }
    }

    /// Passes `raw` on and leaves it empty. Returns the header if the queue has no room, or has
    /// ended; if the caller `waits`, the queue gets room.
    fn pass_on(
        &self,
        queue: &Sender<FullQuantum>,
        waits: bool,
        header: QuantumHeader,
        raw: &mut RawQuantum,
    ) -> Option<QuantumHeader> {
        let room = self.press.take_room();
        let full = FullQuantum { header, raw: std::mem::replace(raw, room) };
        let refused = if waits {
            queue.send(full).err().map(SendError::into_inner)
        } else {
            queue.try_send(full).err().map(TrySendError::into_inner)
        };
        let FullQuantum { header, raw: full } = refused?;
        self.press.give_back(std::mem::replace(raw, full));
        Some(header)
    }

    /// Compresses and sends a quantum that another thread has filled.
    pub(super) fn press_full(&mut self, FullQuantum { header, mut raw }: FullQuantum) {
        self.press_here(header, &mut raw);
        self.press.give_back(raw);
    }

    /// Sends a quantum that another thread has filled, as the record that a compressor has made of
    /// it in some time.
    pub(super) fn send_full(
        &self,
        FullQuantum { header, mut raw }: FullQuantum,
        record: Vec<u8>,
        (compressor, time): (CompressorKind, Duration),
    ) {
        self.send(header, &mut raw, record, (Some(compressor), time));
        self.press.give_back(raw);
    }

    fn press_here(&mut self, header: QuantumHeader, raw: &mut RawQuantum) {
        let compression = match header.kind {
            QuantumKind::Compressed => self.press.compression(&self.outgoing),
            QuantumKind::Stored | QuantumKind::Encrypted => Compression::Stored,
        };
        let mut time = Duration::ZERO;
        let record = timed(&mut time, || {
            // If zstd refuses the strength, the compressor keeps the old one.
            drop(self.compressor.set(compression));
            self.compressor.encode(raw)
        });
        let compressor = (compression != Compression::Stored).then_some(CompressorKind::Threads);
        self.send(header, raw, record, (compressor, time));
    }

    /// Sends `record`, which was made of `raw` by a compressor in some time, and empties `raw`.
    fn send(
        &self,
        header: QuantumHeader,
        raw: &mut RawQuantum,
        record: Vec<u8>,
        (compressor, time): (Option<CompressorKind>, Duration),
    ) {
        let QuantumHeader { number, digests, kind, full_at } = header;
        assert!(
            digests.is_empty() || digests.len() == raw.lengths().len(),
            "each chunk has a digest, in the order of the chunks"
        );
        let check = match digests.as_slice() {
            [] => Check::Data(wire::raw_check(raw.data())),
            digests => Check::Digests(wire::quantum_check(digests)),
        };
        let (bytes, handed) = (raw.data().len(), record.len());
        let work = PressWork { compressor, full_at, bytes: bytes as u64, time };
        raw.clear();
        let is_encrypted = kind == QuantumKind::Encrypted;
        let quantum = SentQuantum { number, record, check, digests, is_encrypted, work };
        // Sending fails only after the session has failed. The reason is then already noted.
        drop(self.outgoing.send(OutboxMessage::Quantum(quantum)));
        self.press.note_handed_on(bytes, handed, time);
    }

    /// Compresses the quanta that other threads fill, until these threads have ended.
    pub(super) fn run(mut self, full: &Receiver<FullQuantum>) {
        full.iter().for_each(|quantum| self.press_full(quantum));
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    fn header(number: u64, digests: usize, kind: QuantumKind) -> QuantumHeader {
        let digests = vec![ChunkDigest([1; 32]); digests];
        QuantumHeader { number, digests, kind, full_at: sys::clock::monotonic() }
    }

    fn quantum(content: &[u8]) -> RawQuantum {
        let mut raw = RawQuantum::with_room();
        raw.push(content);
        raw
    }

    fn sent(outgoing: &Receiver<OutboxMessage>) -> SentQuantum {
        match outgoing.try_recv() {
            Ok(OutboxMessage::Quantum(quantum)) => quantum,
            _ => panic!("a quantum was handed on"),
        }
    }

    #[test]
    fn a_quantum_is_pressed_here_unless_another_thread_has_time() {
        let answers = Answers::default();
        let press = Press::new(CompressionChoice::default(), 1, &answers);
        let (sender, outgoing) = bounded(4);
        let mut presser = Presser::new(&press, sender).expect("a compressor");
        let (others, full) = bounded(1);
        let content = [b'x'; 5000];
        // No thread reads, so a processor is free. The other thread gets the quantum.
        let mut raw = quantum(&content);
        presser.press(Some(&others), header(1, 1, QuantumKind::Compressed), &mut raw);
        assert!(raw.is_empty() && outgoing.is_empty());
        assert_eq!(full.len(), 1);
        // The other thread is busy.
        let mut raw = quantum(&content);
        presser.press(Some(&others), header(2, 1, QuantumKind::Compressed), &mut raw);
        assert!(raw.is_empty());
        assert_eq!(sent(&outgoing).number, 2);
        // All processors are busy with reading.
        drop(full.try_recv());
        let filling = press.filling();
        presser.press(Some(&others), header(3, 1, QuantumKind::Compressed), &mut quantum(&content));
        assert_eq!(sent(&outgoing).number, 3);
        drop(filling);
        presser.press(None, header(4, 1, QuantumKind::Compressed), &mut quantum(&content));
        assert_eq!(sent(&outgoing).number, 4);
    }

    /// An automatic choice looks for a GPU once there is much data, a strength never does, and only
    /// what may be compressed goes there.
    #[test]
    fn the_gpu_gets_the_quanta_that_the_choice_allows() {
        let answers = Answers::default();
        let goes_to_gpu = |choice: CompressionChoice, handed_on: usize, kind: QuantumKind| {
            let press = Press {
                gpu: GpuStage::new(None, true),
                handed_on: AtomicUsize::new(handed_on),
                ..Press::new(choice, 1, &answers)
            };
            let (sender, outgoing) = bounded(4);
            let (to_gpu, queue) = bounded(1);
            let presser = Presser::new(&press, sender).expect("a compressor");
            let mut presser = presser.with_gpu(Some(to_gpu));
            presser.press(None, header(1, 1, kind), &mut quantum(&[b'x'; 5000]));
            assert_eq!(queue.len() + outgoing.len(), 1, "a quantum goes one way");
            !queue.is_empty()
        };
        let (auto, gpu) = (CompressionChoice::Auto, CompressionChoice::Gpu);
        assert!(goes_to_gpu(gpu, 0, QuantumKind::Compressed));
        assert!(!goes_to_gpu(auto, QUANTA_BEFORE_GPU - 1, QuantumKind::Compressed));
        assert!(goes_to_gpu(auto, QUANTA_BEFORE_GPU, QuantumKind::Compressed));
        let threads = CompressionChoice::default();
        assert!(!goes_to_gpu(threads, QUANTA_BEFORE_GPU, QuantumKind::Compressed));
        for kind in [QuantumKind::Stored, QuantumKind::Encrypted] {
            assert!(!goes_to_gpu(gpu, 0, kind) && !goes_to_gpu(auto, QUANTA_BEFORE_GPU, kind));
        }
    }

    /// While the GPU is opened, a thread does what finds no room in the queue.
    #[test]
    fn a_quantum_does_not_wait_for_a_gpu_that_is_not_ready() {
        let answers = Answers::default();
        let gpu = GpuStage::new(None, true);
        let press = Press { gpu, ..Press::new(CompressionChoice::Gpu, 1, &answers) };
        let (sender, outgoing) = bounded(4);
        let (to_gpu, queue) = bounded(1);
        let presser = Presser::new(&press, sender).expect("a compressor");
        let mut presser = presser.with_gpu(Some(to_gpu));
        for number in 1..=2 {
            let header = header(number, 1, QuantumKind::Compressed);
            presser.press(None, header, &mut quantum(&[b'x'; 5000]));
        }
        assert_eq!((queue.len(), sent(&outgoing).number), (1, 2));
    }

    #[test]
    fn the_check_and_the_strength_are_those_of_the_data() {
        let answers = Answers::default();
        let press = Press::new(CompressionChoice::default(), 1, &answers);
        let (sender, outgoing) = bounded(4);
        let mut presser = Presser::new(&press, sender).expect("a compressor");
        let content = [b'x'; 5000];
        presser.press(None, header(1, 0, QuantumKind::Compressed), &mut quantum(&content));
        let pressed = sent(&outgoing);
        assert_eq!(pressed.check, Check::Data(wire::raw_check(&content)));
        assert!(pressed.record.len() < 500, "compressed");
        let PressWork { compressor, bytes, time, .. } = pressed.work;
        assert_eq!((compressor, bytes), (Some(CompressorKind::Threads), 5000));
        assert!(time > Duration::ZERO, "compression takes time");
        assert!(!pressed.is_encrypted);
        for kind in [QuantumKind::Stored, QuantumKind::Encrypted] {
            presser.press(None, header(2, 1, kind), &mut quantum(&content));
            let stored = sent(&outgoing);
            assert!(matches!(stored.check, Check::Digests(_)));
            assert!(stored.record.len() > 5000, "stored as it is");
            assert_eq!(stored.work.compressor, None);
            assert_eq!(stored.is_encrypted, kind == QuantumKind::Encrypted);
        }
    }
}
