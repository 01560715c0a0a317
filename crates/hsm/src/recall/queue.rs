//! Who waits for which file, and in which order files are taken.
//!
//! Files that somebody has opened go before those that are only on lists. A file of which nothing
//! comes waits at the server, for a volume; others are taken beside it, because the server reads a
//! volume in the best order of what it was asked for, and knows of nothing else.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use client::Progress;
use crossbeam_channel::Sender;
use format::stub::Grains;
use model::ServerTime;
use sys::space::SpaceFile;

use super::{Behind, FileId, PAGE_BYTES, Recalled, Who};

/// Files that are recalled at once while their content comes.
pub(crate) const AT_ONCE: usize = 16;
/// Files that wait at the server at most, and those that come.
const TAKEN_MAX: usize = 256;
/// As many of them may be on lists only.
const LISTED_MAX: usize = 192;
/// A file of which nothing has come for so long waits at the server.
const STALL: Duration = Duration::from_millis(500);

pub(super) enum Waiter {
    Question {
        number: RawFd,
        who: Who,
        wants: Wants,
    },
    /// By its number among the files of the request.
    Request {
        index: usize,
        done: Sender<(usize, Recalled)>,
    },
}

/// What somebody waits for. Who appends is asked about as if he wrote where his descriptor stands,
/// which may be anywhere: so the last page of a file, which appending adds to, always comes too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wants {
    pub(super) range: Range<u64>,
    pub(super) tail: Range<u64>,
}

impl Wants {
    pub(super) fn all() -> Self {
        Self { range: 0..u64::MAX, tail: 0..0 }
    }

    /// These bytes of a file of `size`.
    pub(super) fn part(range: Range<u64>, size: u64) -> Self {
        let tail = if size.is_multiple_of(PAGE_BYTES) { 0..0 } else { size - 1..size };
        Self { range, tail }
    }

    /// What of it has to come next.
    pub(super) fn missing(&self, grains: &Grains) -> Option<Range<u64>> {
        let first = |range| grains.missing(range).first().cloned();
        first(&self.range).or_else(|| first(&self.tail))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl Waiter {
    pub(super) fn wants(&self) -> Wants {
        match self {
            Self::Question { wants, .. } => wants.clone(),
            Self::Request { .. } => Wants::all(),
        }
    }

    fn is_of(&self, list: &Sender<(usize, Recalled)>) -> bool {
        matches!(self, Self::Request { done, .. } if done.same_channel(list))
    }
}

/// A file that somebody waits for.
pub(super) struct Wanted {
    pub(super) number: u64,
    pub(super) who: Who,
    pub(super) since: ServerTime,
    pub(super) path: Vec<u8>,
    pub(super) file: Arc<SpaceFile>,
    pub(super) waiters: Vec<Waiter>,
    pub(super) is_cancelled: bool,
    pub(super) size: u64,
    /// What has come, and whether the rest is to come.
    pub(super) progress: Arc<Progress>,
}

impl Wanted {
    pub(super) fn done_bytes(&self) -> u64 {
        self.progress.bytes.load(Relaxed)
    }
}

/// A file that a thread has taken: what had come of it, and since when no more has.
struct Taken {
    bytes: u64,
    since: Instant,
}

impl Taken {
    fn is_stalled(&mut self, bytes: u64, now: Instant) -> bool {
        if bytes != self.bytes {
            *self = Self { bytes, since: now };
        }
        now.duration_since(self.since) > STALL
    }
}

/// How far a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Before it are so many others.
    Waiting {
        place: usize,
    },
    /// The server was asked, and nothing has come lately.
    AtServer,
    Coming,
}

impl Stage {
    /// How many are before it.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Waiting { place } => place,
            Self::AtServer | Self::Coming => 0,
        }
    }
}

/// Invariant: a file of `wanted` is in `opened`, in `listed` or in `taken`, and in one only.
#[derive(Default)]
pub(super) struct Book {
    pub(super) wanted: HashMap<FileId, Wanted>,
    opened: VecDeque<FileId>,
    listed: VecDeque<FileId>,
    taken: HashMap<FileId, Taken>,
    pub(super) behind: HashMap<FileId, Behind>,
    pub(super) last_number: u64,
    /// Threads that take files.
    pub(super) threads: usize,
    /// How long files took lately, and bytes: for estimates.
    pub(super) file_secs: f64,
    pub(super) bytes_per_sec: f64,
}

impl Book {
    /// Has the file wait for its turn.
    pub(super) fn enqueue(&mut self, id: FileId, wanted: Wanted) {
        let is_opened = wanted.waiters.iter().any(|one| matches!(one, Waiter::Question { .. }));
        self.wanted.insert(id, wanted);
        if is_opened { &mut self.opened } else { &mut self.listed }.push_back(id);
    }

    /// Adds one who waits for a file of `wanted`.
    pub(super) fn join(&mut self, id: FileId, waiter: Waiter) {
        let is_question = matches!(waiter, Waiter::Question { .. });
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        wanted.waiters.push(waiter);
        if is_question && let Some(at) = self.listed.iter().position(|listed| *listed == id) {
            self.listed.remove(at);
            self.opened.push_back(id);
        }
    }

    /// The file to recall next.
    pub(super) fn take(&mut self) -> Option<FileId> {
        let id = match self.opened.pop_front() {
            Some(id) => id,
            None if self.taken.len() < LISTED_MAX => self.listed.pop_front()?,
            None => return None,
        };
        let bytes = self.wanted.get(&id).map_or(0, Wanted::done_bytes);
        self.taken.insert(id, Taken { bytes, since: sys::clock::monotonic() });
        Some(id)
    }

    pub(super) fn is_taken(&self, id: FileId) -> bool {
        self.taken.contains_key(&id)
    }

    /// Nobody waits for the file any more, wherever it was.
    pub(super) fn remove(&mut self, id: FileId) -> Option<Wanted> {
        let wanted = self.wanted.remove(&id)?;
        if self.taken.remove(&id).is_none() {
            self.opened.retain(|queued| *queued != id);
            self.listed.retain(|queued| *queued != id);
        }
        Some(wanted)
    }

    /// Threads that are lacking: beside those that wait at the server others go on.
    pub(super) fn lack(&mut self) -> usize {
        if self.opened.is_empty() && self.listed.is_empty() {
            return AT_ONCE.saturating_sub(self.threads);
        }
        let now = sys::clock::monotonic();
        let wanted = &self.wanted;
        let is_stalled = |(id, taken): (&FileId, &mut Taken)| {
            taken.is_stalled(wanted.get(id).map_or(0, Wanted::done_bytes), now)
        };
        let stalled = self.taken.iter_mut().map(is_stalled).filter(|is_stalled| *is_stalled);
        (AT_ONCE + stalled.count()).min(TAKEN_MAX).saturating_sub(self.threads)
    }

    /// Lets go of all that only this list waits for.
    pub(super) fn withdraw(&mut self, list: &Sender<(usize, Recalled)>) {
        let mut left = Vec::new();
        for (id, wanted) in &mut self.wanted {
            wanted.waiters.retain(|waiter| !waiter.is_of(list));
            if wanted.waiters.is_empty() {
                left.push(*id);
            }
        }
        for id in left {
            match self.taken.contains_key(&id) {
                // Its thread sees that nobody waits.
                true => self.wanted[&id].progress.stop(),
                false => drop(self.wanted.remove(&id)),
            }
        }
        let wanted = &self.wanted;
        self.listed.retain(|id| wanted.contains_key(id));
        self.opened.retain(|id| wanted.contains_key(id));
    }

    /// How far each file is.
    pub(super) fn stages(&mut self) -> HashMap<FileId, Stage> {
        let now = sys::clock::monotonic();
        let queued = self.opened.iter().chain(&self.listed).zip(1..);
        let mut stages: HashMap<FileId, Stage> =
            queued.map(|(id, place)| (*id, Stage::Waiting { place })).collect();
        for (id, taken) in &mut self.taken {
            let bytes = self.wanted.get(id).map_or(0, Wanted::done_bytes);
            let is_stalled = taken.is_stalled(bytes, now);
            stages.insert(*id, if is_stalled { Stage::AtServer } else { Stage::Coming });
        }
        stages
    }

    /// Until `bytes` of a file with `place` in the queue are here, as far as the last files tell;
    /// how long a file waits at the server, they do not.
    pub(super) fn estimate(&self, stage: Stage, bytes: u64) -> Option<Duration> {
        let place = match stage {
            Stage::AtServer => return None,
            Stage::Waiting { place } => place,
            Stage::Coming => 0,
        };
        if self.file_secs == 0.0 {
            return None;
        }
        let moving = if self.bytes_per_sec > 0.0 { bytes as f64 / self.bytes_per_sec } else { 0.0 };
        let before = place.div_ceil(AT_ONCE) as f64 * self.file_secs;
        Duration::try_from_secs_f64(before + moving).ok()
    }
}
