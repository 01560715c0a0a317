//! Pressing quanta: compressed where they were filled, or on another thread while a processor is
//! free; as hard as the user says, or as the bottleneck says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chunk::{Compression, Compressor, RawQuantum};
use crossbeam_channel::{Receiver, Sender};
use model::ChunkDigest;

use super::outbox::{Check, Outgoing};
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
pub(super) struct Press {
    /// Threads that read and fill quanta right now.
    filling: AtomicUsize,
    processors: usize,
    /// Rooms that quanta were pressed from: taken again, because new memory is dear.
    rooms: Mutex<VecDeque<RawQuantum>>,
    strength: Strength,
}

enum Strength {
    Fixed(Compression),
    Tuned(Box<Mutex<Tuner>>),
}

impl Press {
    pub(super) fn new(choice: CompressionChoice, processors: usize) -> Self {
        let strength = match choice {
            CompressionChoice::Fixed(compression) => Strength::Fixed(compression),
            CompressionChoice::Auto => Strength::Tuned(Box::new(Mutex::new(Tuner::start()))),
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
            Strength::Tuned(tuner) => {
                tuner.lock().unwrap_or_else(PoisonError::into_inner).compression()
            }
        }
    }

    /// A quantum of so many bytes was handed on after waiting since `began` for room to do so.
    fn note_handed_on(&self, bytes: usize, began: Instant) {
        if let Strength::Tuned(tuner) = &self.strength {
            let mut tuner = tuner.lock().unwrap_or_else(PoisonError::into_inner);
            tuner.note(bytes, began.elapsed());
        }
    }
}

/// See [`Press::filling`].
pub(super) struct Filling<'a>(&'a Press);

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.0.filling.fetch_sub(1, Relaxed);
    }
}

/// One thread's part in pressing.
pub(super) struct Presser<'a> {
    press: &'a Press,
    compressor: Compressor,
    outgoing: Sender<Outgoing>,
}

impl<'a> Presser<'a> {
    pub(super) fn new(press: &'a Press, outgoing: Sender<Outgoing>) -> Result<Self, ClientError> {
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
        let bytes = raw.data().len();
        raw.clear();
        let began = sys::clock::monotonic();
        // The outbox ends first only when the session has failed; that is told elsewhere.
        drop(self.outgoing.send(Outgoing::Quantum { number, record, check, digests }));
        self.press.note_handed_on(bytes, began);
    }

    /// Presses what other threads filled until they have ended.
    pub(super) fn run(mut self, filled: &Receiver<FullQuantum>) {
        for FullQuantum { filled, mut raw } in filled {
            self.press_here(filled, &mut raw);
            self.press.give_back(raw);
        }
    }
}
