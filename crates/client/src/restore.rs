//! Restore and verification.
//!
//! The server sends windows of entries in path order; the client makes directories, links and empty
//! files as they come, looks what is there already, and answers which files it lacks. Then their
//! quanta come in media order; threads decompress them, check every chunk, and write it wherever
//! the window needs it. A file appears under its name only when it is whole.
//!
//! Invariants:
//! 1. No symbolic link is followed below the target's top.
//! 2. A chunk is written only after its digest has been checked.
//! 3. A directory gets its attributes after everything in it has been made.

mod kept;
mod links;
mod make;
mod recall;
mod selection;
mod tree;
mod verify;
mod window;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chunk::{Decompressor, DomainKey, RawQuantum, Unsealer};
use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;

use crate::link::Link;
use crate::progress::{Phase, Progress};
use crate::report::{Failure, RestoreReport};
use crate::{ArchiveSummary, ClientError, ErrorKind, FilespaceSummary, Origin, RestoreOptions};
pub(crate) use kept::Kept;
use kept::KeptQuantum;
pub use recall::{Filling, Staging};
pub(crate) use recall::{recall, stage};
pub(crate) use selection::{Place, normalise, places};
pub(crate) use verify::verify;
pub(crate) use window::decode;
use window::{Checker, Window, WindowBuilder};

/// Quanta that wait for a thread at most.
const QUANTA_WAITING: usize = 8;
/// Answers that wait for the network at most.
const ANSWERS_WAITING: usize = 4;
/// Directories of a window that are worth having open: more save hardly a quantum that comes twice.
const WINDOW_DIRECTORIES_MAX: u32 = 2048;
/// Windows whose directories are open: one gets its data, two have told what there is.
const WINDOWS_AT_ONCE: u64 = 3;
/// Open files besides.
const OPEN_FILES_ELSE: u64 = 128;
/// Whether it is to stop is looked at so often while nothing comes: a tape may be far away.
const LOOK: Duration = Duration::from_millis(500);

/// What becomes of entries and of their data.
pub(crate) trait Destination: Sync {
    /// A file being filled.
    type File: Send + Sync;

    /// Takes an object of `directory`; tells the file to fill if its data is wanted.
    fn take(&mut self, entry: window::Entry) -> Option<Self::File>;

    /// Writes a checked chunk; whether that succeeded. Several threads may write to one file.
    fn write(&self, file: &Self::File, chunk: &[u8], offset: u64) -> Result<(), String>;

    /// All chunks of the file have been written.
    fn complete(&self, file: &Self::File);

    /// The file cannot be had. Called once at most, and not after `complete`.
    fn lose(&self, file: &Self::File, reason: &str);

    /// All entries of a window have been taken: time to answer.
    fn end_of_entries(&mut self) {}

    /// Whether what comes may be wanted again soon; then where it is kept.
    fn kept(&self) -> Option<&Kept> {
        None
    }

    /// What of each file was asked for.
    fn range(&self) -> Range<u64> {
        0..u64::MAX
    }
}

/// Counting, from all threads.
pub(crate) struct Tally {
    pub(crate) progress: Arc<Progress>,
    report: Mutex<RestoreReport>,
}

impl Tally {
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        Self { progress, report: Mutex::default() }
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut RestoreReport)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn restored(&self, bytes: u64) {
        self.progress.objects.fetch_add(1, Relaxed);
        self.progress.done.fetch_add(1, Relaxed);
        self.progress.bytes.fetch_add(bytes, Relaxed);
        self.note(|report| {
            report.restored += 1;
            report.bytes_restored += bytes;
        });
    }

    pub(crate) fn skipped(&self, is_kept: bool) {
        self.progress.objects.fetch_add(1, Relaxed);
        self.note(|report| {
            report.skipped += 1;
            report.kept += u64::from(is_kept);
        });
    }

    pub(crate) fn fail(&self, path: Vec<u8>, error: impl Into<String>) {
        self.progress.objects.fetch_add(1, Relaxed);
        self.progress.failed.fetch_add(1, Relaxed);
        let failure = Failure { path, error: error.into() };
        self.note(|report| {
            // An object that failed in two ways failed once.
            if report.failures.iter().any(|known| known.path == failure.path) {
                return;
            }
            report.failed += 1;
            if report.failures.len() < crate::report::FAILURES_LISTED {
                report.failures.push(failure);
            }
        });
    }

    pub(crate) fn into_report(self) -> RestoreReport {
        self.report.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Restores what `options` say.
pub(crate) fn run(
    link: &Link,
    options: &RestoreOptions,
    progress: &Arc<Progress>,
) -> Result<RestoreReport, ClientError> {
    let started = sys::clock::monotonic();
    let tally = Tally::new(Arc::clone(progress));
    progress.enter(Phase::Running);
    let origins: Vec<Vec<FilespaceSummary>> = match &options.origin {
        Origin::Backups => vec![link.filespaces(false)?],
        Origin::Archives(filter) => {
            let archives = crate::archive::matching(link, filter)?;
            archives.iter().map(ArchiveSummary::filespaces).collect()
        }
    };
    if options.to.is_some() {
        refuse_namesakes(&options.paths)?;
    }
    for path in &options.paths {
        let path = normalise(path)?;
        let mut found = false;
        for filespaces in &origins {
            found = found || restore_path(link, options, filespaces, &path, &tally)?;
        }
        if !found {
            return Err(nothing_stored(&path, &options.origin));
        }
    }
    progress.enter(Phase::Finishing);
    let bytes_transferred = progress.bytes_transferred.load(Relaxed);
    let mut report = tally.into_report();
    report.node = link.hello().node.clone();
    report.bytes_transferred = bytes_transferred;
    report.elapsed = started.elapsed();
    Ok(report)
}

/// Two paths that end alike would be mixed below one target.
fn refuse_namesakes(paths: &[Vec<u8>]) -> Result<(), ClientError> {
    let mut names = std::collections::HashMap::new();
    for path in paths {
        let plain = normalise(path)?;
        let name = plain.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        match names.insert(name.clone(), plain.clone()) {
            Some(before) if before != plain => {
                let [before, path, name] =
                    [before, plain, name].map(|bytes| model::escaped(&bytes));
                let message = format!(
                    "{before} and {path} would both become {name} in the target; restore them \
                     one at a time, to different targets"
                );
                return Err(ClientError::new(ErrorKind::Usage, message));
            }
            _ => {}
        }
    }
    Ok(())
}

fn nothing_stored(path: &[u8], origin: &Origin) -> ClientError {
    let shown = model::escaped(path);
    let message = match origin {
        Origin::Backups => format!("nothing of {shown} is stored; 'holdfast list' shows what is"),
        Origin::Archives(_) => {
            format!("nothing of {shown} is in these archives; 'holdfast archives' shows all")
        }
    };
    ClientError::new(ErrorKind::NotFound, message)
}

/// Restores one path from the filespace that has it, the innermost mount point first; whether any
/// has.
fn restore_path(
    link: &Link,
    options: &RestoreOptions,
    filespaces: &[FilespaceSummary],
    path: &[u8],
    tally: &Tally,
) -> Result<bool, ClientError> {
    for place in places(filespaces, path) {
        let mut message = place.selection(true);
        message.at = options.which.at.map_or(0, |time| time.0);
        message.inactive = options.which.inactive;
        let directories = std::iter::once(place.below());
        let objects = link.count_objects(&place.filespace, directories)?;
        tally.progress.objects_expected.fetch_add(objects, Relaxed);
        let mut maker = make::Maker::new(&place, options, tally)?;
        let found = stream(link, message, &mut maker, tally)?;
        maker.finish();
        if found > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A quantum and what of it is needed.
struct Work<F> {
    window: Arc<Window<F>>,
    quantum: proto::RestoredQuantum,
}

/// Receives everything selected into `destination`; tells how many entries there were.
pub(crate) fn stream<D: Destination>(
    link: &Link,
    selection: proto::Selection,
    destination: &mut D,
    tally: &Tally,
) -> Result<u64, ClientError> {
    stream_for(link, (selection, None), destination, tally)
}

/// The same for somebody in particular, where data has to be waited for.
pub(crate) fn stream_for<D: Destination>(
    link: &Link,
    (selection, purpose): (proto::Selection, Option<proto::Purpose>),
    destination: &mut D,
    tally: &Tally,
) -> Result<u64, ClientError> {
    let (answers, receiver) = mpsc::channel(ANSWERS_WAITING);
    let start = proto::restore_request::Message::Start(selection);
    let directories_max = directories_max(sys::process::raise_open_files());
    let request = proto::RestoreRequest { message: Some(start), purpose, directories_max };
    send(&answers, request)?;
    let mut client = link.client();
    let messages = link
        .runtime
        .block_on(client.restore(ReceiverStream::new(receiver)))?
        .into_inner();
    let mut stream = Incoming { link, messages, answers, tally, entries: 0 };
    while stream.window(destination)? {}
    Ok(stream.entries)
}

/// Directories that a window may have where so many files can be open, so that those of all windows
/// under way can be.
fn directories_max(open_files: u64) -> u32 {
    let share = open_files.saturating_sub(OPEN_FILES_ELSE) / (WINDOWS_AT_ONCE + 1);
    u32::try_from(share).unwrap_or(u32::MAX).clamp(1, WINDOW_DIRECTORIES_MAX)
}

fn send(
    answers: &mpsc::Sender<proto::RestoreRequest>,
    request: proto::RestoreRequest,
) -> Result<(), ClientError> {
    let lost = |_| ClientError::new(ErrorKind::Retry, "the connection to the server was lost");
    answers.blocking_send(request).map_err(lost)
}

struct Incoming<'a> {
    link: &'a Link,
    messages: Streaming<proto::RestoreReply>,
    answers: mpsc::Sender<proto::RestoreRequest>,
    tally: &'a Tally,
    entries: u64,
}

/// What comes next.
enum Next<F> {
    Work(Work<F>),
    /// All data of the current window has come; `last` says whether of all.
    Done {
        last: bool,
    },
    More,
}

impl Incoming<'_> {
    fn message(&mut self) -> Result<proto::restore_reply::Message, ClientError> {
        let ended = || ClientError::new(ErrorKind::Retry, "the server ended the restore early");
        let coming = loop {
            if self.tally.progress.is_stopped() {
                return Err(ClientError::interrupted());
            }
            let messages = &mut self.messages;
            let coming = async { tokio::time::timeout(LOOK, messages.message()).await };
            if let Ok(coming) = self.link.runtime.block_on(coming) {
                break coming;
            }
        };
        let reply = coming?.ok_or_else(ended)?;
        reply
            .message
            .ok_or_else(|| ClientError::new(ErrorKind::Bug, "an empty message"))
    }

    /// Handles everything up to the end of the data of the next window; whether more follow.
    ///
    /// Entries of the windows behind it come in between; they are taken at once.
    fn window<D: Destination>(&mut self, destination: &mut D) -> Result<bool, ClientError> {
        let mut ready: std::collections::VecDeque<Arc<Window<D::File>>> = Default::default();
        let mut builder = WindowBuilder::new();
        let threads = sys::process::processors();
        loop {
            // Entries are taken by this thread alone, data by all: first everything until data
            // comes.
            let next = self.entries(destination, &mut builder, &mut ready)?;
            let first = match next {
                Next::Work(work) => work,
                Next::Done { last } => {
                    ready.pop_front();
                    if last {
                        return Ok(false);
                    }
                    continue;
                }
                Next::More => continue,
            };
            let last = self.data(destination, threads, first, &mut builder, &mut ready)?;
            if last {
                return Ok(false);
            }
        }
    }

    /// Takes messages until one brings data.
    fn entries<D: Destination>(
        &mut self,
        destination: &mut D,
        builder: &mut WindowBuilder<D::File>,
        ready: &mut std::collections::VecDeque<Arc<Window<D::File>>>,
    ) -> Result<Next<D::File>, ClientError> {
        match self.message()? {
            proto::restore_reply::Message::Entries(entries) => {
                self.take_entries(entries, destination, builder)?;
                Ok(Next::More)
            }
            proto::restore_reply::Message::EntriesEnd(end) => {
                self.answer(end.window, destination, builder, ready)?;
                Ok(Next::More)
            }
            proto::restore_reply::Message::Quantum(quantum) => {
                let window = ready.front().ok_or_else(out_of_turn)?;
                Ok(Next::Work(Work { window: Arc::clone(window), quantum }))
            }
            proto::restore_reply::Message::Damaged(damaged) => {
                let window = ready.front().ok_or_else(out_of_turn)?;
                window.lose(destination, damaged.first_place, damaged.chunk_count, &damaged.reason);
                Ok(Next::More)
            }
            proto::restore_reply::Message::DataEnd(end) => Ok(Next::Done { last: end.last }),
        }
    }

    fn take_entries<D: Destination>(
        &mut self,
        entries: proto::VersionsReply,
        destination: &mut D,
        builder: &mut WindowBuilder<D::File>,
    ) -> Result<(), ClientError> {
        for directory in entries.directories {
            for entry in decode(&directory)? {
                self.entries += 1;
                let extents = entry.pieces_within(&destination.range());
                let file = destination.take(entry);
                builder.add(file, &extents);
            }
        }
        Ok(())
    }

    fn answer<D: Destination>(
        &self,
        number: u64,
        destination: &mut D,
        builder: &mut WindowBuilder<D::File>,
        ready: &mut std::collections::VecDeque<Arc<Window<D::File>>>,
    ) -> Result<(), ClientError> {
        destination.end_of_entries();
        let (window, bits) = std::mem::replace(builder, WindowBuilder::new()).finish();
        ready.push_back(Arc::new(window));
        let wanted = proto::Wanted { window: number, bits: bits.into() };
        let message = Some(proto::restore_request::Message::Wanted(wanted));
        send(&self.answers, proto::RestoreRequest { message, ..Default::default() })
    }

    /// As [`Self::data`], on this thread alone: for so little, starting others takes longer.
    fn little_data<D: Destination>(
        &mut self,
        destination: &mut D,
        first: Work<D::File>,
        builder: &mut WindowBuilder<D::File>,
        ready: &mut std::collections::VecDeque<Arc<Window<D::File>>>,
    ) -> Result<bool, ClientError> {
        let window = Arc::clone(&first.window);
        let mut opener = Opener::new(self.link).map_err(|error| {
            ClientError::new(ErrorKind::Bug, format!("no room to decompress: {error}"))
        })?;
        let mut next = Some(first);
        let last = loop {
            if let Some(work) = next.take() {
                let bytes = work.quantum.record.len() as u64;
                self.tally.progress.bytes_transferred.fetch_add(bytes, Relaxed);
                if let Err(reason) = opener.open(&work, destination) {
                    lose(&window, destination, &work.quantum, &reason);
                }
            }
            match self.message()? {
                proto::restore_reply::Message::Quantum(quantum) => {
                    next = Some(Work { window: Arc::clone(&window), quantum });
                }
                proto::restore_reply::Message::Damaged(damaged) => {
                    let proto::DamagedQuantum { first_place, chunk_count, reason } = damaged;
                    window.lose(destination, first_place, chunk_count, &reason);
                }
                proto::restore_reply::Message::Entries(entries) => {
                    self.take_entries(entries, destination, builder)?;
                }
                proto::restore_reply::Message::EntriesEnd(end) => {
                    self.answer(end.window, destination, builder, ready)?;
                }
                proto::restore_reply::Message::DataEnd(end) => break end.last,
            }
        };
        window.lose_rest(destination);
        ready.pop_front();
        Ok(last)
    }

    /// Handles the data of one window by `threads` threads; whether it was the last window.
    ///
    /// Entries that come in between wait until the data is done: their destination is busy.
    fn data<D: Destination>(
        &mut self,
        destination: &mut D,
        threads: usize,
        first: Work<D::File>,
        builder: &mut WindowBuilder<D::File>,
        ready: &mut std::collections::VecDeque<Arc<Window<D::File>>>,
    ) -> Result<bool, ClientError> {
        if first.window.is_small() {
            return self.little_data(destination, first, builder, ready);
        }
        let mut early = Vec::new();
        let link = self.link;
        let window = Arc::clone(&first.window);
        let shared: &D = destination;
        let last = std::thread::scope(|scope| {
            let (sender, receiver): (Sender<Work<D::File>>, Receiver<_>) = bounded(QUANTA_WAITING);
            for _ in 0..threads {
                let receiver = receiver.clone();
                scope.spawn(move || open_all(&receiver, link, shared));
            }
            drop(receiver);
            let mut next = Some(first);
            loop {
                if let Some(work) = next.take() {
                    let bytes = work.quantum.record.len() as u64;
                    self.tally.progress.bytes_transferred.fetch_add(bytes, Relaxed);
                    if sender.send(work).is_err() {
                        return Err(ClientError::new(ErrorKind::Bug, "no thread takes data"));
                    }
                }
                match self.message()? {
                    proto::restore_reply::Message::Quantum(quantum) => {
                        next = Some(Work { window: Arc::clone(&window), quantum });
                    }
                    proto::restore_reply::Message::Damaged(damaged) => {
                        let proto::DamagedQuantum { first_place, chunk_count, reason } = damaged;
                        window.lose(shared, first_place, chunk_count, &reason);
                    }
                    proto::restore_reply::Message::DataEnd(end) => return Ok(end.last),
                    message => early.push(message),
                }
            }
        })?;
        window.lose_rest(destination);
        ready.pop_front();
        for message in early {
            match message {
                proto::restore_reply::Message::Entries(entries) => {
                    self.take_entries(entries, destination, builder)?;
                }
                proto::restore_reply::Message::EntriesEnd(end) => {
                    self.answer(end.window, destination, builder, ready)?;
                }
                _ => return Err(out_of_turn()),
            }
        }
        Ok(last)
    }
}

fn out_of_turn() -> ClientError {
    ClientError::new(ErrorKind::Bug, "the server sent data out of turn")
}

/// What a thread opens quanta with. Reused, because contexts are dear to make.
struct Opener<'a> {
    decompressor: Decompressor,
    unsealer: Unsealer<'a>,
    key: &'a DomainKey,
    /// Room for a quantum: new memory is dear.
    raw: RawQuantum,
}

impl<'a> Opener<'a> {
    fn new(link: &'a Link) -> std::io::Result<Self> {
        let (decompressor, unsealer) = (Decompressor::new()?, Unsealer::new(&link.seal_keys)?);
        Ok(Self { decompressor, unsealer, key: &link.domain_key, raw: RawQuantum::default() })
    }

    /// Hands the chunks of `work` to where they are needed.
    fn open<D: Destination>(
        &mut self,
        work: &Work<D::File>,
        destination: &D,
    ) -> Result<(), String> {
        let Work { window, quantum } = work;
        let opened = self.decompressor.decode_into(&quantum.record, &mut self.raw);
        opened.map_err(|damage| damage.to_string())?;
        let (digests, _) = quantum.digests.as_chunks::<32>();
        if self.raw.lengths().len() != digests.len() {
            return Err("its digests are not whole".to_owned());
        }
        let mut sent = Sent { key: self.key, digests, unsealer: &mut self.unsealer };
        window.put(destination, (quantum.first_place, &self.raw), &mut sent);
        if let Some(kept) = destination.kept() {
            let (first_place, digests) = (quantum.first_place, quantum.digests.to_vec());
            let raw = std::mem::take(&mut self.raw);
            kept.put(KeptQuantum { first_place, raw, digests });
        }
        Ok(())
    }
}

/// What the server said of the chunks of a quantum that it sent.
struct Sent<'a, 'b> {
    key: &'a DomainKey,
    digests: &'a [[u8; 32]],
    unsealer: &'a mut Unsealer<'b>,
}

impl Checker for Sent<'_, '_> {
    fn is_right(&self, index: usize, chunk: &[u8]) -> bool {
        self.key.digest(chunk).0 == self.digests[index]
    }

    fn unseal(&mut self, sealed: &[u8], bytes: u32) -> Result<Vec<u8>, String> {
        self.unsealer.unseal(sealed, bytes as usize).map_err(|error| error.to_string())
    }
}

/// A thread that opens quanta.
fn open_all<D: Destination>(work: &Receiver<Work<D::File>>, link: &Link, destination: &D) {
    let mut opener = Opener::new(link).map_err(|error| error.to_string());
    for work in work {
        let opened = match &mut opener {
            Ok(opener) => opener.open(&work, destination),
            Err(reason) => Err(reason.clone()),
        };
        if let Err(reason) = opened {
            lose(&work.window, destination, &work.quantum, &reason);
        }
    }
}

fn lose<D: Destination>(
    window: &Window<D::File>,
    destination: &D,
    quantum: &proto::RestoredQuantum,
    reason: &str,
) {
    let count = u32::try_from(quantum.digests.len() / 32).unwrap_or(u32::MAX);
    window.lose(destination, quantum.first_place, count, reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_all_windows_can_be_open_at_once() {
        for limit in [0, 1, 128, 200, 1024, 4096, 8320, 1 << 20, u64::MAX] {
            let directories = directories_max(limit);
            assert!((1..=WINDOW_DIRECTORIES_MAX).contains(&directories), "{limit}");
            let open = u64::from(directories) * WINDOWS_AT_ONCE;
            assert!(open + OPEN_FILES_ELSE <= limit || directories == 1, "{limit}");
        }
        assert_eq!(directories_max(u64::MAX), WINDOW_DIRECTORIES_MAX);
        assert!(directories_max(1024) > 200);
    }
}
