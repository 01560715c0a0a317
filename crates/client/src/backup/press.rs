//! Compression of quanta. A quantum is compressed by the thread that filled it, or by another
//! thread while a processor is free. The user sets the strength, or the strength follows the
//! bottleneck.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use chunk::{Compression, Compressor, RawQuantum};
use crossbeam_channel::{Receiver, Sender};
use model::ChunkDigest;
use sys::lock::{Mutex, MutexGuard};

use super::answers::Answers;
use super::outbox_message::OutboxMessage;
use super::tuner::Tuner;
use crate::error::{ClientError, ErrorKind};
use crate::link::backup::{Check, SentQuantum};
use crate::tuning::CompressionChoice;

/// Number and digests of a full quantum.
pub(super) struct QuantumHeader {
    pub(super) number: u64,
    pub(super) digests: Vec<ChunkDigest>,
    pub(super) kind: QuantumKind,
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

/// Full quantum for a compressing thread.
pub(super) struct FullQuantum {
    header: QuantumHeader,
    raw: RawQuantum,
}

/// State that all compressing threads of a session share.
pub(super) struct Press<'a> {
    /// Number of threads that read and fill quanta at the moment.
    filling: AtomicUsize,
    processors: usize,
    /// Emptied quanta, which are used again: new memory is expensive.
    rooms: Mutex<VecDeque<RawQuantum>>,
    strength: Strength<'a>,
}

enum Strength<'a> {
    Fixed(Compression),
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
}

impl<'a> Press<'a> {
    pub(super) fn new(choice: CompressionChoice, processors: usize, answers: &'a Answers) -> Self {
        let strength = match choice {
            CompressionChoice::Fixed(compression) => Strength::Fixed(compression),
            CompressionChoice::Auto => {
                let tuner = Mutex::new(Tuner::start(answers.arrived()));
                Strength::Auto(Box::new(AutoStrength { tuner, answers }))
            }
        };
        let rooms = Mutex::default();
        Self { filling: AtomicUsize::new(0), processors, rooms, strength }
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

    fn compression(&self) -> Compression {
        match &self.strength {
            Strength::Fixed(compression) => *compression,
            Strength::Auto(auto) => auto.tuner().compression(),
        }
    }

    /// Notes that a quantum of `bytes` was handed to the outbox as a record of `handed` bytes.
    fn note_handed_on(&self, bytes: usize, handed: usize) {
        if let Strength::Auto(auto) = &self.strength {
            auto.tuner().note(bytes as u64, handed as u64, auto.answers.arrived());
        }
    }
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
}

impl<'a> Presser<'a> {
    pub(super) fn new(
        press: &'a Press<'a>,
        outgoing: Sender<OutboxMessage>,
    ) -> Result<Self, ClientError> {
        let compressor = Compressor::new(press.compression()).map_err(|error| {
            ClientError::new(ErrorKind::Usage, format!("zstd refuses this compression: {error}"))
        })?;
        Ok(Self { press, compressor, outgoing })
    }

    /// Compresses and sends `raw`, and leaves it empty. If a processor is free and `others` has
    /// room, another thread compresses the quantum. Otherwise this thread does, while the data is
    /// in its caches.
    pub(super) fn press(
        &mut self,
        others: Option<&Sender<FullQuantum>>,
        header: QuantumHeader,
        raw: &mut RawQuantum,
    ) {
        let Some(others) = others.filter(|_| self.press.has_free_processor()) else {
            return self.press_here(header, raw);
        };
        let room = self.press.take_room();
        match others.try_send(FullQuantum { header, raw: std::mem::replace(raw, room) }) {
            Ok(()) => {}
            Err(error) => {
                let FullQuantum { header, raw: full } = error.into_inner();
                self.press.give_back(std::mem::replace(raw, full));
                self.press_here(header, raw);
            }
        }
    }

    fn press_here(&mut self, header: QuantumHeader, raw: &mut RawQuantum) {
        let QuantumHeader { number, digests, kind } = header;
        let compression = match kind {
            QuantumKind::Compressed => self.press.compression(),
            QuantumKind::Stored | QuantumKind::Encrypted => Compression::Stored,
        };
        // If zstd refuses the strength, the compressor keeps the old one.
        drop(self.compressor.set(compression));
        let record = self.compressor.encode(raw);
        assert!(
            digests.is_empty() || digests.len() == raw.lengths().len(),
            "each chunk has a digest, in the order of the chunks"
        );
        let check = match digests.as_slice() {
            [] => Check::Data(wire::raw_check(raw.data())),
            digests => Check::Digests(wire::quantum_check(digests)),
        };
        let (bytes, handed) = (raw.data().len(), record.len());
        raw.clear();
        let is_encrypted = kind == QuantumKind::Encrypted;
        let quantum = SentQuantum { number, record, check, digests, is_encrypted };
        // Sending fails only after the session has failed. The reason is then already noted.
        drop(self.outgoing.send(OutboxMessage::Quantum(quantum)));
        self.press.note_handed_on(bytes, handed);
    }

    /// Compresses the quanta that other threads fill, until these threads have ended.
    pub(super) fn run(mut self, full: &Receiver<FullQuantum>) {
        for FullQuantum { header, mut raw } in full {
            self.press_here(header, &mut raw);
            self.press.give_back(raw);
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    fn header(number: u64, digests: usize, kind: QuantumKind) -> QuantumHeader {
        QuantumHeader { number, digests: vec![ChunkDigest([1; 32]); digests], kind }
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
        assert!(!pressed.is_encrypted);
        for kind in [QuantumKind::Stored, QuantumKind::Encrypted] {
            presser.press(None, header(2, 1, kind), &mut quantum(&content));
            let stored = sent(&outgoing);
            assert!(matches!(stored.check, Check::Digests(_)));
            assert!(stored.record.len() > 5000, "stored as it is");
            assert_eq!(stored.is_encrypted, kind == QuantumKind::Encrypted);
        }
    }
}
