//! The threads that recall: each takes a file from the queue and fills it, part by part.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use client::{Progress, Purpose, PurposeKind};
use format::stub::{State, Stub};
use sys::fanotify::Answer;
use sys::space::SpaceFile;

use super::Recaller;
use super::queue::{AT_ONCE, Completion, ListEntry, Need, Recall, RecallError, Waiter};
use crate::fill::{FillError, Part};
use crate::mount::FileId;
use crate::questions::Refusal;

/// Maximum size of a part in bytes, unless a grain is larger. Between two parts, waiters that need
/// less of the file are served before those that need more.
const PART_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of attempts to reach the server for one part.
const TRIES_MAX: u32 = 4;
/// Pause before each attempt from the third on. The second attempt comes at once: the connection
/// may have failed while the server is well.
const TRY_PAUSE: Duration = Duration::from_secs(2);
/// Time after which a failed attempt counts as one of a server that does not answer. Programs wait
/// for such a server as long as the settings say.
const HANGS: Duration = Duration::from_secs(5);
/// Time after which a thread without work ends, if there are more threads than [`AT_ONCE`].
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The next part of a file to fill.
struct NextPart {
    file: Arc<SpaceFile>,
    range: Range<u64>,
    progress: Arc<Progress>,
}

impl Recaller {
    /// Number of threads to start; each has to call [`Self::serve`] or [`Self::forget_thread`].
    pub(crate) fn claim_threads(&self) -> usize {
        let mut queue = self.queue.lock();
        let lacking = queue.lacking_threads();
        queue.threads += lacking;
        lacking
    }

    /// Takes back the claim on a thread that could not be started.
    pub(crate) fn forget_thread(&self) {
        self.queue.lock().threads -= 1;
    }

    /// Recalls files until fewer threads are needed, which may never happen.
    pub(crate) fn serve(&self) {
        while let Some(id) = self.next_file() {
            self.serve_file(id);
            if self.records.are_many() {
                self.catch_up();
            }
        }
    }

    pub(super) fn next_file(&self) -> Option<FileId> {
        let mut idle_since = sys::clock::monotonic();
        let mut queue = self.queue.lock();
        loop {
            if let Some(id) = queue.take() {
                return Some(id);
            }
            if idle_since.elapsed() >= IDLE_MAX {
                if queue.threads > AT_ONCE {
                    queue.threads -= 1;
                    return None;
                }
                idle_since = sys::clock::monotonic();
            }
            queue = self.has_work.wait_timeout(queue, IDLE_MAX);
        }
    }

    pub(super) fn serve_file(&self, id: FileId) {
        let began = sys::clock::monotonic();
        let mut bytes = 0;
        while let Some(next) = self.next_part(id) {
            match self.fill_part(id, &next) {
                Ok(()) => bytes += next.range.end.saturating_sub(next.range.start),
                Err(_) if next.progress.is_stopped() => self.restart_progress(id),
                Err(error) => return self.fail(id, &error),
            }
        }
        self.queue.lock().note_speed(bytes, began.elapsed().as_secs_f64());
    }

    /// Answers the waiters that have their content, and returns the part to fill for the others;
    /// `None` once no waiter is left.
    fn next_part(&self, id: FileId) -> Option<NextPart> {
        let file = Arc::clone(&self.queue.lock().get(id)?.file);
        let mount = self.mount_of(id.device_id);
        let current = file
            .stat()
            .and_then(|found| self.records.current(id, &file, &found, mount.as_deref()));
        let stub = match current {
            Ok(stub) => stub,
            Err(error) => {
                self.fail(id, &FillError::System(error));
                return None;
            }
        };
        let missing = |need: &Need| match &stub {
            Some(Stub { state: State::Migrated(grains), .. }) => need.missing(grains),
            _ => None,
        };
        let mut queue = self.queue.lock();
        let recall = queue.get_mut(id)?;
        if recall.is_cancelled {
            let recall = queue.remove(id)?;
            drop(queue);
            self.refuse(recall, Refusal::NotNow, &RecallError::Cancelled);
            return None;
        }
        let (served, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut recall.waiters)
            .into_iter()
            .partition(|waiter| missing(&waiter.need()).is_none());
        recall.waiters = waiting;
        let bytes = recall.done_bytes();
        let progress = Arc::clone(&recall.progress);
        // A waiter that needs little comes before a waiter that needs the whole file.
        let smallest = recall.waiters.iter().map(Waiter::need).min_by_key(Need::bytes);
        if smallest.is_none() {
            queue.remove(id);
        }
        // The waiters are answered under the lock, because a program that continues may cause a
        // question about the same file at once.
        served.into_iter().for_each(|waiter| self.serve_waiter(waiter, bytes));
        drop(queue);
        let part = missing(&smallest?).expect("a waiter that has its content was served");
        let ahead = self.records.ahead(id, &part);
        let part = missing(&Need::only(part.start..part.end + ahead)).unwrap_or(part);
        let grain = stub.as_ref().map_or(1, |stub| format::stub::grain_bytes(stub.size));
        let end = part.end.min(part.start + PART_BYTES_MAX.max(grain));
        assert!(part.start < end, "an empty part would be filled again and again");
        Some(NextPart { file, range: part.start..end, progress })
    }

    fn serve_waiter(&self, waiter: Waiter, bytes: u64) {
        match waiter {
            Waiter::Question { number, .. } => self.answer(number, Answer::Go),
            Waiter::Request(ListEntry { index, list }) => {
                // The reader of the list may have disconnected.
                drop(list.send(Completion { index, result: Ok(bytes) }));
            }
        }
    }

    fn fill_part(&self, id: FileId, next: &NextPart) -> Result<(), FillError> {
        let found = next.file.stat()?;
        let mount = self.mount_of(found.device_id).ok_or(FillError::Unmanaged)?;
        let current = self.records.current(id, &next.file, &found, Some(&mount))?;
        let Some(stub) = current else { return Ok(()) };
        let stub = self.records.begin_filling(id, &next.file, stub)?;
        let part = Part {
            mount_point: mount.mount_point(),
            file: &next.file,
            stub: &stub,
            range: next.range.clone(),
            purpose: self.purpose(id),
        };
        let mut tries = 1;
        let mut has_made_room = false;
        loop {
            let began = sys::clock::monotonic();
            match self.source.fill(&part, &next.progress) {
                Ok(()) => break,
                Err(error) if next.progress.is_stopped() => return Err(error),
                Err(FillError::NoRoom(_)) if !has_made_room && (self.make_room)(self, &mount) => {
                    has_made_room = true;
                }
                Err(FillError::Unreachable(reason))
                    if began.elapsed() > HANGS && self.queue.lock().has_program(id) =>
                {
                    tracing::warn!(
                        reason,
                        "the server does not answer; the recall goes on waiting"
                    );
                }
                Err(FillError::Unreachable(reason)) if tries < TRIES_MAX => {
                    tracing::warn!(reason, "the server does not answer; the recall is tried again");
                    if tries > 1 {
                        sys::clock::sleep(TRY_PAUSE);
                    }
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.records.note_part(id, &next.file, stub, &next.range)?)
    }

    /// Returns the purpose of a recall, from a program that waits for the file or otherwise from
    /// the request.
    fn purpose(&self, id: FileId) -> Purpose {
        let queue = self.queue.lock();
        let Some(recall) = queue.get(id) else { return Purpose::default() };
        let stopped = recall.waiters.iter().find_map(|waiter| match waiter {
            Waiter::Question { requester, .. } => Some(requester),
            Waiter::Request(_) => None,
        });
        let purpose = match stopped {
            Some(requester) => requester.purpose(PurposeKind::Open),
            None => recall.requester.purpose(PurposeKind::List),
        };
        Purpose { reference: recall.number, ..purpose }
    }

    /// Lets a stopped recall continue if it has a waiter again.
    fn restart_progress(&self, id: FileId) {
        if let Some(recall) = self.queue.lock().get_mut(id) {
            recall.progress = Arc::default();
        }
    }

    fn fail(&self, id: FileId, error: &FillError) {
        let Some(recall) = self.queue.lock().remove(id) else { return };
        tracing::error!(path = model::escaped(&recall.path), %error, "a recall failed");
        self.refuse(recall, error.refusal(), &RecallError::Failed(error.to_string()));
    }

    /// Tells all waiters of a recall that it has ended without the content.
    pub(super) fn refuse(&self, recall: Recall, refusal: Refusal, error: &RecallError) {
        for waiter in recall.waiters {
            match waiter {
                Waiter::Question { number, access, .. } => {
                    self.answer(number, Answer::Fail(refusal.errno(&access)));
                }
                Waiter::Request(ListEntry { index, list }) => {
                    drop(list.send(Completion { index, result: Err(error.clone()) }));
                }
            }
        }
    }
}
