//! Session: the connection to the server for one filespace, and the state that its threads share.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chunk::SealKey;
use crossbeam_channel::{Sender, bounded};
use model::is_space_filespace;
use sys::process::processors;

use super::answers::Answers;
use super::assembler::Assembler;
use super::chunks::Chunks;
use super::context::Context;
use super::crew::Crew;
use super::digest::Digester;
use super::examine::Examiner;
use super::gpu::GpuStage;
use super::names::Notes;
use super::open_target::{OpenTarget, Step};
use super::outbox::Outbox;
use super::outbox_message::OutboxMessage;
use super::press::{FullQuantum, Press, Presser};
use super::scope::Scope;
use super::segment::Segment;
use super::tally::Tally;
use super::threads::joined;
use crate::cache::Cache;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::backup::{Rejection, Remnant, SessionReceiver, SessionSender};
use crate::node::home::Home;
use crate::options::{BackupOptions, STREAM_FILESPACE};
use crate::path::absolute;
use crate::progress::Progress;
use crate::report::Failure;
use crate::rules::Rules;
use crate::tuning::{CompressionChoice, Tuning};

/// Maximum number of messages that wait for the outbox.
pub(super) const OUTGOING_WAITING: usize = 4;
/// Maximum number of walking threads. No disk that was measured serves more requests at once.
const WALKERS_MAX: usize = 64;
/// Maximum number of reading threads, if the user sets no number. Each thread has memory for two
/// quanta.
const READERS_MAX: usize = 16;
/// Maximum number of attempts to open a filespace that another session uses. The server takes a
/// moment to notice that a client was killed.
const BUSY_TRIES: u32 = 20;
/// The same after the connection was lost. The server may notice that only by its keep-alive.
const BUSY_TRIES_AFTER_LOSS: u32 = 240;
/// Pause between two attempts.
const BUSY_WAIT: Duration = Duration::from_millis(250);

/// State that all filespaces of a run share.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) link: &'a Link,
    pub(super) home: &'a Home,
    pub(super) options: &'a BackupOptions,
    pub(super) rules: &'a Rules,
    /// Key for the files that the rules encrypt.
    pub(super) seal_key: Option<&'a SealKey>,
    pub(super) tally: &'a Tally,
}

/// Crews of the walking and of the reading threads.
struct Crews {
    walkers: Crew,
    readers: Crew,
}

impl Crews {
    fn new(tuning: &Tuning) -> Self {
        let crew = |most: usize| match tuning.resource_utilization.map(usize::from) {
            None => Crew::new(processors(), most),
            Some(threads) => Crew::new(threads, threads),
        };
        Self { walkers: crew(WALKERS_MAX), readers: crew(READERS_MAX) }
    }
}

/// Open session of one filespace.
pub(super) struct Session<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) walkers: &'a Crew,
    pub(super) tuning: Tuning,
    pub(super) options: &'a BackupOptions,
    pub(super) scope: &'a Scope<'a>,
    pub(super) answers: &'a Answers,
    nvcomp: Option<&'a Path>,
}

/// Opens a session for the filespace of `scope`, and calls `work` with it and its outbox.
pub(super) fn in_session<T>(
    run: Run<'_>,
    scope: &Scope<'_>,
    work: impl FnOnce(&Session<'_>, Outbox<'_>) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let Run { link, home, options, rules, seal_key, tally } = run;
    let cache = link.cache.get(|| open_cache(link, home));
    let tuning = options.tuning.or(home.config.tuning);
    let deduplicates = tuning.deduplicates() || !link.takes_quanta_without_digests();
    let chunks = Chunks::new(link, &cache, deduplicates, seal_key);
    let digester = digester(run);
    let crews = Crews::new(&tuning);
    let is_selective = options.targets.is_selective();
    let (notes, comparison) = (Notes::default(), OnceLock::new());
    let context = Context {
        readers: &crews.readers,
        link,
        filespace: scope.filespace,
        chunks: &chunks,
        digester: &digester,
        tally,
        rules,
        sends_all: options.full || is_selective,
        continues_from: tally.progress.attempts.continues_from(),
        // The frequency of a class applies only to a backup of the whole filespace.
        keeps_frequency: scope.is_whole() && !options.full && !is_selective,
        is_dry: options.dry_run,
        notes: &notes,
        comparison: &comparison,
    };
    let answers = Answers::new(link.reports_arrivals());
    let session = Session {
        context: &context,
        walkers: &crews.walkers,
        tuning,
        options,
        scope,
        answers: &answers,
        nvcomp: home.config.nvcomp.as_deref(),
    };
    let (sender, receiver) = if options.dry_run {
        (SessionSender::closed(), None)
    } else {
        let (sender, receiver) = open(link, scope.filespace, &tally.progress)?;
        tally.progress.note_storing();
        (sender, Some(receiver))
    };
    std::thread::scope(|threads| {
        let reading =
            receiver.map(|receiver| threads.spawn(|| answers.read(receiver, &chunks, tally)));
        let outcome = work(&session, Outbox::new(sender, &answers, tally, tuning));
        // The server's reason for the end of the session may come after its consequences.
        reading.map(joined);
        tally.note_transfer(answers.transfer_time());
        answers.conclude(outcome)
    })
    .map_err(|error| match error.kind {
        // The end of a stream is a consequence of the interruption.
        ErrorKind::Retry if tally.progress.is_stopped() => ClientError::interrupted(),
        ErrorKind::Retry => link.refusal(home).unwrap_or(error),
        _ => error,
    })
}

fn open_cache(link: &Link, home: &Home) -> Cache {
    let mut name = blake3::Hasher::new();
    name.update(link.domain_key.as_bytes()).update(link.hello().node.as_bytes());
    let name = format!("dedup-{}.cache", &name.finalize().to_hex()[..16]);
    let folder = home.config.dedup_cache_folder.as_ref().unwrap_or(&home.folder);
    Cache::open(&folder.join(name), home.config.dedup_cache_megabytes)
}

/// Returns the maker of the directory digests of a run.
pub(super) fn digester(run: Run<'_>) -> Digester {
    Digester::new(&run.link.digest_key, &canonical(run.rules, run.options))
}

/// Returns the canonical form of everything that decides which objects of a directory are examined
/// and how they are bound.
fn canonical(rules: &Rules, options: &BackupOptions) -> Vec<u8> {
    let mut canonical = rules.canonical();
    canonical.push(u8::from(options.cross_filesystems));
    canonical
}

/// Opens the session. Waits while another session has the filespace. The filespaces of streams and
/// of migration are shared, so the wait for them has no limit. The wait for other filespaces only
/// gives the server enough time to notice that a client was killed.
fn open<'a>(
    link: &'a Link,
    filespace: &[u8],
    progress: &Progress,
) -> Result<(SessionSender, SessionReceiver<'a>), ClientError> {
    let is_shared = filespace == STREAM_FILESPACE || is_space_filespace(filespace);
    let tries_max = match progress.attempts.continues_from() {
        None => BUSY_TRIES,
        Some(_) => BUSY_TRIES_AFTER_LOSS,
    };
    let mut tries = 1;
    loop {
        match link.open_backup(filespace) {
            Err(error) if error.kind == ErrorKind::Busy && (is_shared || tries < tries_max) => {
                sys::clock::sleep(BUSY_WAIT);
            }
            other => return other,
        }
        if progress.is_stopped() {
            return Err(ClientError::interrupted());
        }
        tries += 1;
    }
}

impl Session<'_> {
    pub(super) fn tally(&self) -> &Tally {
        self.context.tally
    }

    pub(super) fn compression(&self) -> CompressionChoice {
        self.tuning.compression.unwrap_or_default()
    }

    /// Returns the file of nvCOMP, if the user has named one.
    pub(super) fn nvcomp(&self) -> Option<&OsStr> {
        self.nvcomp.map(Path::as_os_str)
    }

    /// Fails if the user has stopped the backup or the session has failed. Waits while the backup
    /// is paused.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        self.tally().progress.hold();
        if self.tally().progress.is_stopped() {
            return Err(ClientError::interrupted());
        }
        self.answers.check()
    }

    /// Calls `give` with an examiner, and sends the objects that `give` has examined.
    pub(super) fn send_with(
        &self,
        outbox: &mut Outbox<'_>,
        trusts_grants: bool,
        give: impl FnOnce(&mut Examiner<'_>),
    ) -> Result<(), ClientError> {
        let (outgoing_sender, outgoing) = bounded(OUTGOING_WAITING);
        let press = Press::new(self.compression(), 0, self.answers).with_gpu(self.nvcomp());
        let (gpu_sender, gpu_queue) = bounded(GpuStage::queue_quanta());
        let gpu_sender = press.gpu().map(|_| gpu_sender);
        let gpu_presser = Presser::new(&press, outgoing_sender.clone())?;
        let presser = Presser::new(&press, outgoing_sender.clone())?.with_gpu(gpu_sender);
        let mut examiner = self.examiner(presser, None, outgoing_sender);
        examiner.assembler.trusts_grants = trusts_grants;
        std::thread::scope(|threads| {
            match press.gpu() {
                Some(gpu) => gpu.start(threads, gpu_queue, gpu_presser),
                None => drop(gpu_presser),
            }
            let sending = threads.spawn(|| outbox.run(&outgoing));
            give(&mut examiner);
            examiner.flush();
            drop(examiner);
            joined(sending);
        });
        outbox.finish();
        Ok(())
    }

    pub(super) fn examiner<'b>(
        &'b self,
        presser: Presser<'b>,
        others: Option<Sender<FullQuantum>>,
        outgoing: Sender<OutboxMessage>,
    ) -> Examiner<'b> {
        let assembler = Assembler::new(self.context.chunks, self.tally(), presser, others);
        let mut examiner = Examiner::new(self.context, assembler, outgoing);
        examiner.reader.reflinks = self.scope.reflinks;
        examiner
    }

    /// Waits until the server has answered all transactions. Sends the objects that the server has
    /// rejected again, with their data in place of grants.
    pub(super) fn settle(&self, outbox: &mut Outbox<'_>) -> Result<(), ClientError> {
        outbox.finish();
        self.check()?;
        for Remnant { path, reason } in self.answers.take_remnants() {
            self.fail(&path, reason);
        }
        let rejections = outbox.take_rejections();
        if rejections.is_empty() {
            return Ok(());
        }
        self.send_with(outbox, false, |examiner| {
            for rejection in rejections {
                self.send_again(rejection, examiner);
            }
        })?;
        self.check()?;
        self.fail_rejected(outbox);
        Ok(())
    }

    fn send_again(&self, rejection: Rejection, examiner: &mut Examiner<'_>) {
        self.tally().backed_up.fetch_sub(1, Relaxed);
        self.tally().retries.fetch_add(1, Relaxed);
        match OpenTarget::open(self.scope.root, &rejection.path) {
            Ok(OpenTarget { mut chain, .. }) => {
                let Some(Step { dir, path, name, found, .. }) = chain.pop() else { return };
                let entries = vec![(name, found)];
                let segment = Segment::partial(Arc::clone(&dir), path, rejection.first, entries);
                examiner.examine(segment, &[]);
            }
            Err(error) => self.fail(&rejection.path, error.to_string()),
        }
    }

    /// Counts the objects that the server has rejected as failures.
    pub(super) fn fail_rejected(&self, outbox: &Outbox<'_>) {
        for Rejection { path, reason, .. } in outbox.take_rejections() {
            self.tally().backed_up.fetch_sub(1, Relaxed);
            self.fail(&path, reason);
        }
    }

    /// Counts a failure of the object at `path` of the filespace.
    pub(super) fn fail(&self, path: &[u8], error: String) {
        let path = absolute(self.scope.filespace, path);
        self.tally().fail(Failure { path, error });
    }
}
