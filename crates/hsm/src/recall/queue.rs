//! The order in which files are recalled, and the waiters of each file.
//!
//! Files that a program has opened are recalled before files that are only on lists. A file waits
//! at the server for its volume while none of its content arrives. Other files are recalled
//! meanwhile. The server reads the requested files of a volume in the best order, so files have to
//! be requested early.
//!
//! Invariant: every file of `recalls` is in `opened`, in `listed` or in `transfers`, and in one of
//! them only.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use client::{OwnWait, Progress};
use crossbeam_channel::Sender;
use format::stub::Grains;
use model::ServerTime;
use sys::fanotify::Access;
use sys::space::SpaceFile;

use crate::mount::FileId;
use crate::requester::Requester;

/// Number of files whose content is transferred at the same time.
pub(crate) const AT_ONCE: usize = 16;
/// Maximum number of transfers, whether they wait at the server or their content arrives.
const TRANSFERS_MAX: usize = 256;
/// Number of transfers up to which a file that is only on lists may begin another transfer.
const LISTED_MAX: usize = 192;
/// Time without a byte after which a transfer counts as waiting at the server.
const STALL: Duration = Duration::from_millis(500);
/// Size of the page that the kernel reads before it adds to the end of a file.
const PAGE_BYTES: u64 = 4096;

/// Reason why a requested file was not recalled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RecallError {
    #[error("it was cancelled")]
    Cancelled,
    #[error("{0}")]
    Failed(String),
}

/// Result of one file of a list.
#[derive(Debug)]
pub(crate) struct Completion {
    /// Index of the file in the list.
    pub(crate) index: usize,
    /// Bytes that were recalled for the file.
    pub(crate) result: Result<u64, RecallError>,
}

/// One file of a list that a request recalls.
pub(crate) struct ListEntry {
    pub(crate) index: usize,
    /// Channel of the list, which gets one completion for each entry.
    pub(crate) list: Sender<Completion>,
}

/// A program or a request that waits for content of a file.
pub(super) enum Waiter {
    /// A program that the kernel has stopped.
    Question {
        number: RawFd,
        requester: Requester,
        access: Access,
        need: Need,
        /// Time of the question.
        asked: Instant,
    },
    Request(ListEntry),
}

/// The content that a waiter needs. The kernel's question about a program that appends has the
/// position of its descriptor, which may be anywhere. So the last page of the file, to which
/// appending adds, always belongs to the need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Need {
    pub(super) range: Range<u64>,
    tail: Range<u64>,
}

impl Need {
    pub(super) fn whole_file() -> Self {
        Self::only(0..u64::MAX)
    }

    /// The bytes of `range` alone.
    pub(super) fn only(range: Range<u64>) -> Self {
        Self { range, tail: 0..0 }
    }

    /// The bytes of `range` in a file of `size` bytes, and the file's last page.
    pub(super) fn with_last_page(range: Range<u64>, size: u64) -> Self {
        let tail = if size.is_multiple_of(PAGE_BYTES) { 0..0 } else { size - 1..size };
        Self { range, tail }
    }

    /// The first part of the need that `grains` lack.
    pub(super) fn missing(&self, grains: &Grains) -> Option<Range<u64>> {
        let first = |range| grains.missing(range).first().cloned();
        first(&self.range).or_else(|| first(&self.tail))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl Waiter {
    pub(super) fn need(&self) -> Need {
        match self {
            Self::Question { need, .. } => need.clone(),
            Self::Request(_) => Need::whole_file(),
        }
    }

    fn is_question(&self) -> bool {
        matches!(self, Self::Question { .. })
    }

    fn is_on(&self, list: &Sender<Completion>) -> bool {
        matches!(self, Self::Request(entry) if entry.list.same_channel(list))
    }
}

/// The recall of a file, with its waiters.
pub(super) struct Recall {
    /// Number by which users cancel the recall; given by [`Queue::enqueue`].
    pub(super) number: u64,
    /// The first requester of the file.
    pub(super) requester: Requester,
    pub(super) since: ServerTime,
    pub(super) path: Vec<u8>,
    pub(super) file: Arc<SpaceFile>,
    pub(super) size: u64,
    pub(super) waiters: Vec<Waiter>,
    pub(super) is_cancelled: bool,
    /// Counter of the received bytes, which also stops the transfer.
    pub(super) progress: Arc<Progress>,
}

impl Recall {
    pub(super) fn new(
        file: Arc<SpaceFile>,
        size: u64,
        requester: Requester,
        waiter: Waiter,
    ) -> Self {
        Self {
            number: 0,
            requester,
            since: sys::clock::now(),
            path: path_of(&file),
            file,
            size,
            waiters: vec![waiter],
            is_cancelled: false,
            progress: Arc::default(),
        }
    }

    pub(super) fn done_bytes(&self) -> u64 {
        self.progress.bytes.load(Relaxed)
    }
}

/// The path of an open file; empty if the kernel does not know it.
fn path_of(file: &SpaceFile) -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt as _;
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    std::fs::read_link(link).map_or_else(|_| Vec::new(), |path| path.into_os_string().into_vec())
}

/// The recall of a file by a thread: the bytes when they changed last, and the time of that change.
struct Transfer {
    bytes: u64,
    since: Instant,
}

impl Transfer {
    fn is_stalled(&mut self, bytes: u64, now: Instant) -> bool {
        if bytes != self.bytes {
            *self = Self { bytes, since: now };
        }
        now.duration_since(self.since) > STALL
    }
}

/// A program that waits for content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WaitingProgram {
    pub(super) id: FileId,
    /// Number of its question.
    pub(super) number: RawFd,
    pub(super) requester: Requester,
    /// Time of its question.
    pub(super) asked: Instant,
}

/// Stage of a recall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Waiting {
        /// Place in the queue, from 1.
        place: usize,
    },
    /// The server was asked, and no byte has arrived recently.
    AtServer,
    Coming,
}

impl Stage {
    /// Place in the queue; 0 for a file that is no longer in the queue.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Waiting { place } => place,
            Self::AtServer | Self::Coming => 0,
        }
    }
}

/// A recall as it is shown to users.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RecallStatus {
    pub(crate) number: u64,
    pub(crate) requester: Requester,
    pub(crate) since: ServerTime,
    pub(crate) path: Vec<u8>,
    pub(crate) stage: Stage,
    pub(crate) waiters: usize,
    pub(crate) bytes: u64,
    pub(crate) done_bytes: u64,
    /// Time until the content has arrived; `None` without an estimate.
    pub(crate) estimate: Option<Duration>,
    /// Volume for which the recall waits at the server.
    pub(crate) volume: Option<String>,
    /// Place in the server's queue for that volume, from 1.
    pub(crate) volume_place: Option<u32>,
}

impl RecallStatus {
    /// Adds the server's knowledge of the wait, if the recall waits there.
    pub(super) fn add(&mut self, waits: &[OwnWait]) {
        if self.stage != Stage::AtServer {
            return;
        }
        let Some(wait) = waits.iter().find(|wait| wait.reference == self.number) else { return };
        self.volume.clone_from(&wait.volume);
        self.volume_place = wait.volume.as_ref().map(|_| wait.ahead.saturating_add(1));
        self.estimate = wait.estimate;
    }
}

/// Numbers of waiting programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Load {
    pub(super) of_user: u32,
    pub(super) of_program: u32,
}

/// Result of cancelling a recall.
pub(super) enum Cancellation {
    /// No thread works on the recall: the caller refuses its waiters.
    Removed(Recall),
    /// The thread of the recall stops, and refuses its waiters.
    Stopping,
}

/// The queue of recalls. See the module for the order.
#[derive(Default)]
pub(super) struct Queue {
    recalls: HashMap<FileId, Recall>,
    opened: VecDeque<FileId>,
    listed: VecDeque<FileId>,
    transfers: HashMap<FileId, Transfer>,
    last_number: u64,
    /// Number of threads that recall.
    pub(super) threads: usize,
    /// Average time of the last files, and average speed, for estimates; 0 before the first file.
    file_secs: f64,
    bytes_per_sec: f64,
}

impl Queue {
    /// Puts a file at the end of the queue. The file must not be in the queue yet; see
    /// [`Self::join`].
    pub(super) fn enqueue(&mut self, id: FileId, recall: Recall) {
        assert!(!recall.waiters.is_empty(), "somebody waits for a file that is recalled");
        let is_opened = recall.waiters.iter().any(Waiter::is_question);
        self.last_number += 1;
        let recall = Recall { number: self.last_number, ..recall };
        assert!(self.recalls.insert(id, recall).is_none(), "a file is recalled once");
        if is_opened { &mut self.opened } else { &mut self.listed }.push_back(id);
    }

    /// Adds a waiter to a file of the queue; returns the waiter if the file is not in the queue.
    pub(super) fn join(&mut self, id: FileId, waiter: Waiter) -> Result<(), Waiter> {
        let is_question = waiter.is_question();
        let Some(recall) = self.recalls.get_mut(&id) else { return Err(waiter) };
        recall.waiters.push(waiter);
        if is_question && let Some(at) = self.listed.iter().position(|listed| *listed == id) {
            self.listed.remove(at);
            self.opened.push_back(id);
        }
        Ok(())
    }

    /// Takes the file to recall next.
    pub(super) fn take(&mut self) -> Option<FileId> {
        let id = match self.opened.pop_front() {
            Some(id) => id,
            None if self.transfers.len() < LISTED_MAX => self.listed.pop_front()?,
            None => return None,
        };
        let bytes = self.recalls[&id].done_bytes();
        let transfer = Transfer { bytes, since: sys::clock::monotonic() };
        assert!(self.transfers.insert(id, transfer).is_none(), "one thread recalls a file");
        Some(id)
    }

    pub(super) fn contains(&self, id: FileId) -> bool {
        self.recalls.contains_key(&id)
    }

    pub(super) fn get(&self, id: FileId) -> Option<&Recall> {
        self.recalls.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: FileId) -> Option<&mut Recall> {
        self.recalls.get_mut(&id)
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = (&Recall, &Waiter)> {
        let with_recall = |recall| move |waiter| (recall, waiter);
        self.recalls
            .values()
            .flat_map(move |recall: &Recall| recall.waiters.iter().map(with_recall(recall)))
    }

    /// The programs that wait, each with its file.
    pub(super) fn waiting_programs(&self) -> Vec<WaitingProgram> {
        let of_recall = |(id, recall): (&FileId, &Recall)| {
            let id = *id;
            let waiting = recall.waiters.iter().filter_map(move |waiter| match waiter {
                Waiter::Question { number, requester, asked, .. } => {
                    let (number, requester, asked) = (*number, requester.clone(), *asked);
                    Some(WaitingProgram { id, number, requester, asked })
                }
                Waiter::Request(_) => None,
            });
            waiting.collect::<Vec<_>>()
        };
        self.recalls.iter().flat_map(of_recall).collect()
    }

    /// Number of bytes that all transfers have received.
    pub(super) fn received_bytes(&self) -> u64 {
        self.transfers
            .keys()
            .filter_map(|id| self.recalls.get(id))
            .map(Recall::done_bytes)
            .sum()
    }

    /// Takes the question of a program out of the queue. A file without other waiters leaves the
    /// queue, or its transfer stops.
    pub(super) fn give_up(&mut self, program: &WaitingProgram) -> Option<Waiter> {
        let id = program.id;
        let recall = self.recalls.get_mut(&id)?;
        let is_meant = |waiter: &Waiter| match waiter {
            // The number may belong to another question by now.
            Waiter::Question { number, requester, .. } => {
                *number == program.number && *requester == program.requester
            }
            Waiter::Request(_) => false,
        };
        let at = recall.waiters.iter().position(is_meant)?;
        let waiter = recall.waiters.swap_remove(at);
        if recall.waiters.is_empty() {
            if self.transfers.contains_key(&id) {
                // The thread of the recall notices that no waiter is left.
                recall.progress.stop();
            } else {
                drop(self.remove(id));
            }
        }
        Some(waiter)
    }

    /// True if a program waits for the file.
    pub(super) fn has_program(&self, id: FileId) -> bool {
        self.recalls
            .get(&id)
            .is_some_and(|recall| recall.waiters.iter().any(Waiter::is_question))
    }

    /// Takes a file out of the queue, at any stage.
    pub(super) fn remove(&mut self, id: FileId) -> Option<Recall> {
        let recall = self.recalls.remove(&id)?;
        if self.transfers.remove(&id).is_none() {
            self.opened.retain(|queued| *queued != id);
            self.listed.retain(|queued| *queued != id);
        }
        Some(recall)
    }

    /// Number of threads to start. Transfers that wait at the server do not keep other files from
    /// being recalled.
    pub(super) fn lacking_threads(&mut self) -> usize {
        if self.opened.is_empty() && self.listed.is_empty() {
            return AT_ONCE.saturating_sub(self.threads);
        }
        let now = sys::clock::monotonic();
        let recalls = &self.recalls;
        let is_stalled = |(id, transfer): (&FileId, &mut Transfer)| {
            transfer.is_stalled(recalls.get(id).map_or(0, Recall::done_bytes), now)
        };
        let stalled = self.transfers.iter_mut().map(is_stalled).filter(|is_stalled| *is_stalled);
        (AT_ONCE + stalled.count()).min(TRANSFERS_MAX).saturating_sub(self.threads)
    }

    /// Removes the entries of a list. Files without other waiters leave the queue.
    pub(super) fn withdraw(&mut self, list: &Sender<Completion>) {
        let mut left = Vec::new();
        for (id, recall) in &mut self.recalls {
            recall.waiters.retain(|waiter| !waiter.is_on(list));
            if recall.waiters.is_empty() {
                left.push(*id);
            }
        }
        for id in left {
            if self.transfers.contains_key(&id) {
                // The thread of the recall notices that no waiter is left.
                self.recalls[&id].progress.stop();
            } else {
                self.recalls.remove(&id);
            }
        }
        let recalls = &self.recalls;
        self.listed.retain(|id| recalls.contains_key(id));
        self.opened.retain(|id| recalls.contains_key(id));
    }

    /// Cancels the recall `number` for `requester`; `None` if there is no such recall, or the
    /// requester may not cancel it.
    pub(super) fn cancel(&mut self, number: u64, requester: &Requester) -> Option<Cancellation> {
        let is_meant = |(_, recall): &(&FileId, &Recall)| {
            recall.number == number && requester.may_act_for(&recall.requester)
        };
        let id = *self.recalls.iter().find(is_meant)?.0;
        if !self.transfers.contains_key(&id) {
            return self.remove(id).map(Cancellation::Removed);
        }
        let recall = self.recalls.get_mut(&id)?;
        recall.is_cancelled = true;
        recall.progress.stop();
        Some(Cancellation::Stopping)
    }

    /// Counts the waiting programs of the user of `requester`, and the waiting programs with the
    /// same name.
    pub(super) fn load_of(&self, requester: &Requester) -> Load {
        let mut load = Load::default();
        for (_, waiter) in self.waiters() {
            if let Waiter::Question { requester: other, .. } = waiter {
                load.of_user += u32::from(other.uid == requester.uid);
                load.of_program += u32::from(other.program == requester.program);
            }
        }
        load
    }

    /// Adds the time of one more file to the averages.
    pub(super) fn note_speed(&mut self, bytes: u64, secs: f64) {
        self.file_secs = 0.9 * self.file_secs + 0.1 * secs;
        // Small files show the waiting time rather than the speed.
        if bytes > 1 << 20 {
            let rate = bytes as f64 / secs.max(1e-6);
            self.bytes_per_sec = 0.8 * self.bytes_per_sec + 0.2 * rate;
        }
    }

    /// All recalls: transfers first, then by place in the queue.
    pub(super) fn statuses(&mut self) -> Vec<RecallStatus> {
        let stages = self.stages();
        let status = |(id, recall): (&FileId, &Recall)| {
            let done_bytes = recall.done_bytes();
            let stage = stages.get(id).copied().unwrap_or(Stage::Coming);
            RecallStatus {
                number: recall.number,
                requester: recall.requester.clone(),
                since: recall.since,
                path: recall.path.clone(),
                stage,
                waiters: recall.waiters.len(),
                bytes: recall.size,
                done_bytes,
                estimate: self.estimate(stage, recall.size.saturating_sub(done_bytes)),
                volume: None,
                volume_place: None,
            }
        };
        // A transfer for which nobody waits any more ends soon.
        let waited_for = self.recalls.iter().filter(|(_, recall)| !recall.waiters.is_empty());
        let mut statuses: Vec<RecallStatus> = waited_for.map(status).collect();
        statuses.sort_by_key(|status| (status.stage.place(), status.number));
        statuses
    }

    fn stages(&mut self) -> HashMap<FileId, Stage> {
        let now = sys::clock::monotonic();
        let queued = self.opened.iter().chain(&self.listed).zip(1..);
        let mut stages: HashMap<FileId, Stage> =
            queued.map(|(id, place)| (*id, Stage::Waiting { place })).collect();
        for (id, transfer) in &mut self.transfers {
            let bytes = self.recalls.get(id).map_or(0, Recall::done_bytes);
            let is_stalled = transfer.is_stalled(bytes, now);
            stages.insert(*id, if is_stalled { Stage::AtServer } else { Stage::Coming });
        }
        debug_assert!(self.recalls.keys().all(|id| stages.contains_key(id)), "see the invariant");
        stages
    }

    /// Estimates the time until `bytes` of a file have arrived, from the averages of the last
    /// files. The time that a file waits at the server is unknown.
    fn estimate(&self, stage: Stage, bytes: u64) -> Option<Duration> {
        if stage == Stage::AtServer || self.file_secs == 0.0 {
            return None;
        }
        let moving = if self.bytes_per_sec > 0.0 { bytes as f64 / self.bytes_per_sec } else { 0.0 };
        let before = stage.place().div_ceil(AT_ONCE) as f64 * self.file_secs;
        Duration::try_from_secs_f64(before + moving).ok()
    }
}

#[cfg(test)]
mod tests;
