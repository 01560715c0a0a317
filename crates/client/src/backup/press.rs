//! Pressing quanta: compressed where they were filled, or on another thread while a processor is
//! free; as hard as the user says, or as the bottleneck says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chunk::{Compression, Compressor, RawQuantum};
use crossbeam_channel::{Receiver, Sender};
use model::ChunkDigest;

use super::outbox::{Answered, Check, Outgoing};
use super::tuner::Tuner;
use crate::{ClientError, CompressionChoice, ErrorKind};

/// What must be known of a quantum that is full.
pub(super) struct Filled {
    pub(super) number: u64,
    pub(super) digests: Vec<ChunkDigest>,
    /// Whether it is compressed at all.
    pub(super) compresses: bool,
}

/// A quantum on its way to another thread.
pub(super) struct FullQuantum {
    filled: Filled,
    raw: RawQuantum,
}

/// What all pressing threads of a session share.
pub(super) struct Press<'a> {
    /// Threads that read and fill quanta right now.
    filling: AtomicUsize,
    processors: usize,
    /// Rooms that quanta were pressed from: taken again, because new memory is dear.
    rooms: Mutex<VecDeque<RawQuantum>>,
    strength: Strength<'a>,
}

enum Strength<'a> {
    Fixed(Compression),
    Tuned(Box<Tuned<'a>>),
}

struct Tuned<'a> {
    tuner: Mutex<Tuner>,
    answered: &'a Answered,
}

impl Tuned<'_> {
    fn tuner(&self) -> MutexGuard<'_, Tuner> {
        self.tuner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Press<'a> {
    pub(super) fn new(
        choice: CompressionChoice,
        processors: usize,
        answered: &'a Answered,
    ) -> Self {
        let strength = match choice {
            CompressionChoice::Fixed(compression) => Strength::Fixed(compression),
            CompressionChoice::Auto => {
                let tuner = Mutex::new(Tuner::start(answered.arrived()));
                Strength::Tuned(Box::new(Tuned { tuner, answered }))
            }
        };
        let rooms = Mutex::default();
        Self { filling: AtomicUsize::new(0), processors, rooms, strength }
    }

    /// Says that a thread fills quanta until what is returned is dropped.
    pub(super) fn filling(&self) -> Filling<'_> {
        self.filling.fetch_add(1, Relaxed);
        Filling(self)
    }

    fn has_free_processor(&self) -> bool {
        self.filling.load(Relaxed) < self.processors
    }

    fn rooms(&self) -> MutexGuard<'_, VecDeque<RawQuantum>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
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
            Strength::Tuned(tuned) => tuned.tuner().compression(),
        }
    }

    /// A quantum of so many bytes was handed on, as so many.
    fn note_handed_on(&self, bytes: usize, handed: usize) {
        if let Strength::Tuned(tuned) = &self.strength {
            tuned.tuner().note(bytes, handed, tuned.answered.arrived());
        }
    }
}

/// See [`Press::filling`].
pub(super) struct Filling<'a>(&'a Press<'a>);

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.0.filling.fetch_sub(1, Relaxed);
    }
}

/// One thread's part in pressing.
pub(super) struct Presser<'a> {
    press: &'a Press<'a>,
    compressor: Compressor,
    outgoing: Sender<Outgoing>,
}

impl<'a> Presser<'a> {
    pub(super) fn new(
        press: &'a Press<'a>,
        outgoing: Sender<Outgoing>,
    ) -> Result<Self, ClientError> {
        let compressor = Compressor::new(press.compression()).map_err(|error| {
            ClientError::new(ErrorKind::Usage, format!("this compression is not possible: {error}"))
        })?;
        Ok(Self { press, compressor, outgoing })
    }

    /// Presses `raw`, which is empty afterwards: by another thread, where `others` listens and a
    /// processor is free, else here, where the data is still near.
    pub(super) fn press(
        &mut self,
        others: Option<&Sender<FullQuantum>>,
        filled: Filled,
        raw: &mut RawQuantum,
    ) {
        let Some(others) = others.filter(|_| self.press.has_free_processor()) else {
            return self.press_here(filled, raw);
        };
        let room = self.press.take_room();
        match others.try_send(FullQuantum { filled, raw: std::mem::replace(raw, room) }) {
            Ok(()) => {}
            Err(error) => {
                let FullQuantum { filled, raw: full } = error.into_inner();
                self.press.give_back(std::mem::replace(raw, full));
                self.press_here(filled, raw);
            }
        }
    }

    fn press_here(&mut self, filled: Filled, raw: &mut RawQuantum) {
        let Filled { number, digests, compresses } = filled;
        let compression = if compresses { self.press.compression() } else { Compression::Stored };
        // A strength that zstd refuses leaves the one that it had.
        drop(self.compressor.set(compression));
        let record = self.compressor.encode(raw);
        let check = match digests.as_slice() {
            [] => Check::Raw(wire::raw_check(raw.data())),
            digests => Check::Digests(wire::quantum_check(digests)),
        };
        let (bytes, handed) = (raw.data().len(), record.len());
        raw.clear();
        // The outbox ends first only when the session has failed; that is told elsewhere.
        drop(self.outgoing.send(Outgoing::Quantum { number, record, check, digests }));
        self.press.note_handed_on(bytes, handed);
    }

    /// Presses what other threads filled until they have ended.
    pub(super) fn run(mut self, filled: &Receiver<FullQuantum>) {
        for FullQuantum { filled, mut raw } in filled {
            self.press_here(filled, &mut raw);
            self.press.give_back(raw);
        }
    }
}
