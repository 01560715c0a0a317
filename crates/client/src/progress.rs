//! Progress of a command: counters that its threads increment and any thread may read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use model::ServerTime;

use crate::attempts::Attempts;
use crate::interruptions::{Absence, Absences, Interruptions};
use crate::pauses::Pauses;

/// Phase of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    Starting,
    Running,
    Finishing,
}

/// Function that hears of each object: the action on it, and its path on the node.
type Narrator = Box<dyn Fn(&str, &[u8]) + Send + Sync>;

/// Narrator of a command, if somebody wants to hear of each object.
#[derive(Default)]
struct Narration(OnceLock<Narrator>);

impl std::fmt::Debug for Narration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.0.get().is_some() { "told" } else { "silent" };
        write!(f, "Narration({state})")
    }
}

/// Progress, shared by a running command and its display. Counters only grow.
#[derive(Debug)]
pub struct Progress {
    phase: AtomicU8,
    stop: AtomicBool,
    /// Number of objects that were examined (backup), or made, skipped or checked (restore,
    /// verify).
    pub objects: AtomicU64,
    /// Expected number of objects, from the last backup or from the selection; 0 if it is not
    /// known.
    pub objects_expected: AtomicU64,
    /// Number of bytes of file data that have arrived at the server or did not have to be sent
    /// (backup), or that were written or checked (restore, verify).
    pub bytes: AtomicU64,
    /// Expected number of bytes, if they predict the end better than the objects; otherwise 0.
    pub bytes_expected: AtomicU64,
    /// Number of bytes that have arrived at the server, or that were received.
    pub bytes_transferred: AtomicU64,
    /// Number of objects that were backed up or restored.
    pub done: AtomicU64,
    pub failed: AtomicU64,
    /// True once the command has opened a session that stores objects at the server.
    stores: AtomicBool,
    /// Number of objects with new versions or new attributes that the server has committed.
    pub committed: AtomicU64,
    /// Number of bytes that were sent for the transactions that the server has committed.
    pub bytes_committed: AtomicU64,
    narration: Narration,
    /// Number of steps after which an interruption begins anew: transactions that the server has
    /// committed, windows of a restore, versions of a list.
    landmarks: AtomicU64,
    absences: Absences,
    pauses: Pauses,
    pub(crate) attempts: Attempts,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            phase: AtomicU8::new(Phase::Starting as u8),
            stop: AtomicBool::new(false),
            objects: AtomicU64::new(0),
            objects_expected: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_expected: AtomicU64::new(0),
            bytes_transferred: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stores: AtomicBool::new(false),
            committed: AtomicU64::new(0),
            bytes_committed: AtomicU64::new(0),
            narration: Narration::default(),
            landmarks: AtomicU64::new(0),
            absences: Absences::default(),
            pauses: Pauses::default(),
            attempts: Attempts::default(),
        }
    }
}

impl Progress {
    /// Asks the command to stop soon. Everything that it has committed is kept.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Notes that the command stores objects at the server.
    pub(crate) fn note_storing(&self) {
        self.stores.store(true, Relaxed);
    }

    /// Returns the numbers of objects and bytes that the server has committed so far; `None` for a
    /// command that stores nothing.
    pub fn committed_so_far(&self) -> Option<(u64, u64)> {
        let committed = (self.committed.load(Relaxed), self.bytes_committed.load(Relaxed));
        self.stores.load(Relaxed).then_some(committed)
    }

    /// Returns the number of the archive that the command fills, with true if the archive has all
    /// its objects.
    pub fn archive(&self) -> Option<(u64, bool)> {
        let number = self.attempts.archive()?;
        Some((number, self.attempts.filled_archive().is_some()))
    }

    /// Makes `narrator` hear of each object from now on. The first narrator stays.
    pub fn narrate(&self, narrator: impl Fn(&str, &[u8]) + Send + Sync + 'static) {
        drop(self.narration.0.set(Box::new(narrator)));
    }

    /// Tells the narrator, if there is one, of the action `verb` on the object at `path`.
    pub(crate) fn tell(&self, verb: &str, path: impl FnOnce() -> Vec<u8>) {
        if let Some(narrator) = self.narration.0.get() {
            narrator(verb, &path());
        }
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Running,
            _ => Phase::Finishing,
        }
    }

    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    /// Returns the numbers of objects and bytes so far. Rates are computed from them.
    pub fn so_far(&self) -> (u64, u64) {
        (self.objects.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Notes that the command got on: what it has done so far, an interruption does not undo.
    pub fn get_on(&self) {
        self.landmarks.fetch_add(1, Relaxed);
    }

    /// Returns a number that changes when the command gets on.
    pub fn landmark(&self) -> u64 {
        self.landmarks.load(Relaxed)
    }

    /// Begins an absence of the server, for which the command waits at most for the time `left`.
    pub fn begin_absence(&self, left: Duration) {
        self.attempts.start();
        self.absences.begin(left);
    }

    /// Ends an absence of the server.
    pub fn end_absence(&self) {
        self.absences.end();
    }

    /// Returns the absence of the server, if it is away.
    pub fn absence(&self) -> Option<Absence> {
        self.absences.present()
    }

    /// Returns the interruptions that have ended, and the pauses.
    pub fn interruptions(&self) -> Interruptions {
        let (pauses, paused) = self.pauses.sum();
        Interruptions { pauses, paused, ..self.absences.ended() }
    }

    /// Pauses the command at its next safe place. What was sent is committed before.
    pub fn pause(&self) {
        self.pauses.begin();
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.pauses.end();
    }

    pub fn is_paused(&self) -> bool {
        self.pauses.is_paused()
    }

    /// Returns the begin of the present pause, by the clock of this machine.
    pub fn paused_since(&self) -> Option<ServerTime> {
        self.pauses.since()
    }

    /// Waits until the command is not paused, or is stopped.
    pub fn hold(&self) {
        self.pauses.hold(|| self.is_stopped());
    }
}
