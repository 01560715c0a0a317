//! One filespace's backup: the threads, and what comes before and after them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope as Threads, ScopedJoinHandle};

use bytes::Bytes;
use chunk::SealKey;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use model::{DirPath, Kind, Name, is_space_filespace};
use policy::Verdict;
use sys::Dir;
use sys::process::processors;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;

use super::crew::{Crew, Next};
use super::data::{Assembler, Chunks};
use super::digest::Digester;
use super::examine::{Context, Examiner, Expiry};
use super::inventory::Inventory;
use super::outbox::{Answered, Outbox, Outgoing};
use super::pages::OldPage;
use super::press::{FullQuantum, Press, Presser};
use super::tally::Tally;
use super::walk::{Outlets, Queue, Segment, Task, Walk};
use super::{Target, Targets, absolute, pages, split};
use crate::cache::Cache;
use crate::home::Home;
use crate::link::Link;
use crate::progress::Progress;
use crate::report::Failure;
use crate::rules::Rules;
use crate::{BackupOptions, ClientError, CompressionChoice, ErrorKind, STREAM_FILESPACE, Tuning};

/// Segments that wait to be examined at most.
const SEGMENTS_WAITING: usize = 64;
/// Pages asked for and not answered at most.
const PAGES_WAITING: usize = 256;
/// Full quanta that wait for a compressing thread at most.
const QUANTA_WAITING: usize = 2;
/// Messages that wait for the outbox at most.
const OUTGOING_WAITING: usize = 4;
/// Messages that wait for the network at most.
const SENDING: usize = 4;
/// A quantum that is not full waits for more data so long.
const QUANTUM_WAIT: std::time::Duration = std::time::Duration::from_millis(50);
/// Walking threads at most: more answers at once no disk that was tried gave.
const WALKERS_MAX: usize = 64;
/// Reading threads at most, unless the user says: each has memory for two quanta.
const READERS_MAX: usize = 16;
/// Another backup of the filespace is waited for so long: the end of one that was killed takes a
/// moment to be noticed.
const BUSY_TRIES: u32 = 20;
const BUSY_WAIT: std::time::Duration = std::time::Duration::from_millis(250);

/// A filespace and what of it is to be backed up.
pub(super) struct Scope<'a> {
    pub(super) filespace: &'a [u8],
    /// Where its root directory is read.
    pub(super) root: &'a [u8],
    /// Each file is read as it was when it was opened.
    pub(super) reflinks: bool,
    pub(super) targets: &'a [Target],
}

/// A segment with the server's page of it.
struct Work {
    segment: Segment,
    old: OldPage,
}

/// How many threads walk and how many read: as the user says, or as is found out.
fn crews(tuning: &Tuning) -> (Crew, Crew) {
    match tuning.resource_utilization.map(usize::from) {
        None => (Crew::new(processors(), WALKERS_MAX), Crew::new(processors(), READERS_MAX)),
        Some(threads) => (Crew::new(threads, threads), Crew::new(threads, threads)),
    }
}

/// What all filespaces of a run have in common.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) link: &'a Link,
    pub(super) home: &'a Home,
    pub(super) options: &'a BackupOptions,
    pub(super) rules: &'a Rules,
    /// Encrypts the files that the rules say.
    pub(super) seal_key: Option<&'a SealKey>,
    pub(super) tally: &'a Tally,
}

/// Backs up what `scope` says.
pub(super) fn back_up(site: Site<'_>, scope: Scope<'_>) -> Result<(), ClientError> {
    expect_objects(site.link, &scope, site.tally)?;
    in_session(site, &scope, &mut |session, outbox, answered| session.perform(outbox, answered))
}

pub(super) type Perform<'a> =
    &'a mut dyn FnMut(&Session<'_>, Outbox<'_>, &Answered) -> Result<(), ClientError>;

/// Opens a session for the filespace of `scope`, and has `perform` use it.
pub(super) fn in_session(
    site: Site<'_>,
    scope: &Scope<'_>,
    perform: Perform<'_>,
) -> Result<(), ClientError> {
    let Site { link, home, options, rules, seal_key, tally } = site;
    let cache = open_cache(link, home);
    let deduplicates = options.tuning.or(home.config.tuning).deduplication.unwrap_or(true);
    let chunks = Chunks::new(link, &cache, deduplicates, seal_key);
    let digester = Digester::new(&link.digest_key, &canonical(rules, options));
    let tuning = options.tuning.or(home.config.tuning);
    let (walkers, readers) = crews(&tuning);
    let is_selective = matches!(options.targets, Targets::Selective(_));
    let is_whole = scope.targets.iter().any(|target| target == b"/");
    let context = Context {
        readers: &readers,
        link,
        filespace: scope.filespace,
        chunks: &chunks,
        digester: &digester,
        tally,
        rules,
        sends_all: options.full || is_selective,
        // Only a look at the whole is bound to the frequency that policy gives.
        keeps_frequency: is_whole && !options.full && !is_selective,
        is_dry: options.dry_run,
    };
    let session = Session { context: &context, walkers: &walkers, tuning, options, scope };
    let answered = Answered::default();
    let (sender, stream) = if options.dry_run {
        (mpsc::channel(SENDING).0, None)
    } else {
        let is_tuned = tuning.compression == Some(CompressionChoice::Auto);
        let (sender, stream) = open(link, scope, &tally.progress, is_tuned)?;
        (sender, Some(stream))
    };
    std::thread::scope(|threads| {
        let reading =
            stream.map(|stream| threads.spawn(|| answered.read(link, stream, &chunks, tally)));
        let outcome = perform(&session, Outbox::new(sender, &answered, tally, tuning), &answered);
        // The server's reason for ending the session says more than what followed from it; it may
        // come later.
        reading.map(joined);
        answered.take_failure().map_or(outcome, Err)
    })
}

fn open_cache(link: &Link, home: &Home) -> Cache {
    let mut name = blake3::Hasher::new();
    name.update(link.domain_key.as_bytes()).update(link.hello().node.as_bytes());
    let name = format!("dedup-{}.cache", &name.finalize().to_hex()[..16]);
    let folder = home.config.dedup_cache_folder.as_ref().unwrap_or(&home.folder);
    Cache::open(&folder.join(name), home.config.dedup_cache_megabytes)
}

/// The canonical form of all that decides what of a directory is looked at and how it is bound.
fn canonical(rules: &Rules, options: &BackupOptions) -> Vec<u8> {
    let mut canonical = rules.canonical();
    canonical.push(u8::from(options.cross_filesystems));
    canonical
}

/// For the progress display: there are about as many objects as there were.
fn expect_objects(link: &Link, scope: &Scope<'_>, tally: &Tally) -> Result<(), ClientError> {
    let directories = scope.targets.iter().filter_map(|target| {
        let (parent, name) = split(target)?;
        Some(parent.child(&name))
    });
    let objects = link.count_objects(scope.filespace, directories)?;
    tally.progress.objects_expected.fetch_add(objects, Relaxed);
    Ok(())
}

type Opened = (mpsc::Sender<proto::ToServer>, Streaming<proto::FromServer>);

/// Opens the session. While another has the filespace it waits: a little, for the end of one that
/// was cut off; with a stream, or with files to migrate, for its turn, since they share a
/// filespace.
fn open(
    link: &Link,
    scope: &Scope<'_>,
    progress: &Progress,
    tells_arrivals: bool,
) -> Result<Opened, ClientError> {
    let waits = scope.filespace == STREAM_FILESPACE || is_space_filespace(scope.filespace);
    let mut tries = 1;
    loop {
        match try_open(link, scope.filespace, tells_arrivals) {
            Err(error) if error.kind == ErrorKind::Busy && (waits || tries < BUSY_TRIES) => {
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

fn try_open(link: &Link, filespace: &[u8], tells_arrivals: bool) -> Result<Opened, ClientError> {
    let (sender, receiver) = mpsc::channel(SENDING);
    let filespace = Bytes::copy_from_slice(filespace);
    let open = proto::to_server::Message::Open(proto::OpenBackup { filespace, tells_arrivals });
    let lost = |_| ClientError::new(ErrorKind::Retry, "the connection to the server was lost");
    sender.blocking_send(proto::ToServer { message: Some(open) }).map_err(lost)?;
    let mut client = link.client();
    let stream = link.runtime.block_on(async {
        let mut stream = client.backup(ReceiverStream::new(receiver)).await?.into_inner();
        match stream.message().await?.and_then(|reply| reply.message) {
            Some(proto::from_server::Message::Opened(_)) => Ok(stream),
            _ => Err(ClientError::new(ErrorKind::Bug, "the server did not open the session")),
        }
    })?;
    Ok((sender, stream))
}

pub(super) struct Session<'a> {
    pub(super) context: &'a Context<'a>,
    walkers: &'a Crew,
    tuning: Tuning,
    options: &'a BackupOptions,
    pub(super) scope: &'a Scope<'a>,
}

impl Session<'_> {
    pub(super) fn tally(&self) -> &Tally {
        self.context.tally
    }

    fn compression(&self) -> CompressionChoice {
        self.tuning.compression.unwrap_or_default()
    }

    fn is_selective(&self) -> bool {
        matches!(self.options.targets, Targets::Selective(_))
    }

    fn perform(&self, mut outbox: Outbox<'_>, answered: &Answered) -> Result<(), ClientError> {
        let expiries = self.run_threads(&mut outbox, answered)?;
        let is_withheld = self
            .check_session(answered)
            .and_then(|()| self.refuses_to_expire(&expiries))
            // What has been done until now stays done.
            .inspect_err(|_| outbox.finish())?;
        if self.options.dry_run {
            self.plan_expiries(&expiries)?;
            return Ok(());
        }
        // The server lets a directory's content go at once: it may be what has come elsewhere.
        if expiries.iter().any(Expiry::has_directory) {
            self.settle(&mut outbox, answered)?;
        }
        // Else in one transaction with the last changes: each costs the server a wait for its disk.
        if !is_withheld {
            expire(&mut outbox, expiries)?;
        }
        self.settle(&mut outbox, answered)?;
        let report = self.tally().report();
        // Single objects that failed do not undo that everything was looked at.
        let complete = !is_withheld && !self.is_selective();
        outbox.close(complete, summary(&report))
    }

    /// Has the server take all that was sent, what it has refused once more.
    fn settle(&self, outbox: &mut Outbox<'_>, answered: &Answered) -> Result<(), ClientError> {
        outbox.finish();
        self.check_session(answered)?;
        self.send_rejected_again(outbox, answered)
    }

    /// Fails when somebody has stopped the backup or the session has ended.
    pub(super) fn check_session(&self, answered: &Answered) -> Result<(), ClientError> {
        if self.tally().progress.is_stopped() {
            return Err(ClientError::interrupted());
        }
        if answered.has_failed() {
            return Err(ClientError::new(ErrorKind::Retry, "the session has failed"));
        }
        Ok(())
    }

    /// Has `give` hand objects to one examiner, and sends what comes of them.
    pub(super) fn send_with(
        &self,
        outbox: &mut Outbox<'_>,
        trusts_grants: bool,
        give: impl FnOnce(&mut Examiner<'_>),
    ) -> Result<(), ClientError> {
        let (outgoing_sender, outgoing) = bounded(OUTGOING_WAITING);
        let press = Press::new(self.compression(), 0, outbox.answered());
        let presser = Presser::new(&press, outgoing_sender.clone())?;
        let mut examiner = self.examiner(presser, None, outgoing_sender);
        examiner.assembler.trusts_grants = trusts_grants;
        std::thread::scope(|threads| {
            let sending = threads.spawn(|| outbox.run(&outgoing));
            give(&mut examiner);
            examiner.flush();
            drop(examiner);
            joined(sending);
        });
        outbox.finish();
        Ok(())
    }

    /// What the server has refused until now has failed.
    pub(super) fn fail_rejected(&self, outbox: &Outbox<'_>) {
        for object in outbox.take_rejected() {
            let path = [&object.directory[..], &object.name].concat();
            let path = absolute(self.scope.filespace, &path);
            self.tally().backed_up.fetch_sub(1, Relaxed);
            self.tally().fail(Failure { path, error: object.reason });
        }
    }

    /// Walks, examines, compresses and sends; returns the expirations that were held back.
    fn run_threads(
        &self,
        outbox: &mut Outbox<'_>,
        answered: &Answered,
    ) -> Result<Vec<Expiry>, ClientError> {
        let queue = Queue::default();
        let tops = self.tops();
        let inventory = self.inventory(&tops)?;
        let walk = Walk {
            filespace: self.scope.filespace,
            queue: &queue,
            crew: self.walkers,
            rules: self.context.rules,
            digester: self.context.digester,
            inventory: &inventory,
            tally: self.tally(),
            answered,
            ignores_digests: self.context.sends_all,
            expires: !self.is_selective(),
            crosses_filesystems: self.options.cross_filesystems,
        };
        let (work_sender, work) = bounded(SEGMENTS_WAITING);
        let (changed_sender, changed) = bounded(SEGMENTS_WAITING);
        let (unknown_sender, unknown) = bounded(SEGMENTS_WAITING);
        let (full_sender, full) = bounded(QUANTA_WAITING);
        let (outgoing_sender, outgoing) = bounded(OUTGOING_WAITING);
        let outlets = Outlets { unknown: unknown_sender, changed: changed_sender };
        let press = Press::new(self.compression(), processors(), answered);
        let reading = Reading {
            session: self,
            crew: self.context.readers,
            press: &press,
            answered,
            expiries: Mutex::default(),
        };
        std::thread::scope(|threads| {
            let inlets = Inlets { work, full: full_sender, outgoing: outgoing_sender.clone() };
            (0..reading.crew.least()).for_each(|_| reading.start(threads, &inlets));
            drop(inlets);
            for _ in 0..processors() {
                let presser = Presser::new(&press, outgoing_sender.clone())?;
                let full = full.clone();
                threads.spawn(move || presser.run(&full));
            }
            drop((full, outgoing_sender));
            let sending = threads.spawn(|| outbox.run(&outgoing));
            let (to_examine, again) = (work_sender.clone(), work_sender.clone());
            threads.spawn(move || pass_on(&unknown, &to_examine));
            threads.spawn(move || self.fetch_pages(&changed, &again, answered));
            let examined_chain = self.examine_chains(&tops, &work_sender);
            drop(work_sender);
            queue.push(&mut self.tasks(tops));
            (0..self.walkers.least()).for_each(|_| start_walking(threads, &walk, outlets.clone()));
            drop(outlets);
            joined(sending);
            examined_chain
        })?;
        Ok(reading.expiries.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn examiner<'b>(
        &'b self,
        presser: Presser<'b>,
        others: Option<Sender<FullQuantum>>,
        outgoing: Sender<Outgoing>,
    ) -> Examiner<'b> {
        let assembler = Assembler::new(self.context.chunks, self.tally(), presser, others);
        let mut examiner = Examiner::new(self.context, assembler, outgoing);
        examiner.reader.reflinks = self.scope.reflinks;
        examiner
    }

    /// The targets that are there and not left out; what is not there is a failure.
    fn tops(&self) -> Vec<Top> {
        let open = |target: &Target| match Top::open(self.scope.root, target) {
            Ok(top) => Some(top).filter(|top| self.is_included(target, top)),
            Err(error) => {
                let path = absolute(self.scope.filespace, target);
                self.tally().fail(Failure { path, error: error.to_string() });
                None
            }
        };
        self.scope.targets.iter().filter_map(open).collect()
    }

    /// Whether the target itself is to be backed up. That a directory above it is left out does not
    /// matter: it was named.
    fn is_included(&self, target: &Target, top: &Top) -> bool {
        let Some(step) = top.chain.last() else { return true };
        let path = absolute(self.scope.filespace, target);
        let rules = self.context.rules;
        let ruling = rules.ruling(|| path.clone(), step.found.stat.kind);
        if let Verdict::Excluded { rule_index } = ruling.verdict {
            let (source, rule) = rules.shown(rule_index);
            let path = model::escaped(&path);
            self.tally().warn(format!("{path} is left out by '{rule}' ({source})"));
        }
        ruling.verdict.is_included()
    }

    fn inventory(&self, tops: &[Top]) -> Result<Inventory, ClientError> {
        // Several targets in one filespace: what they have in common is fetched.
        let directories: Vec<&DirPath> = tops
            .iter()
            .filter_map(|top| top.dir.as_ref().map(|(_, path, _)| path))
            .collect();
        match directories.as_slice() {
            [] => Ok(Inventory::default()),
            [only] => Inventory::fetch(self.context.link, self.scope.filespace, only),
            _ => Inventory::fetch(self.context.link, self.scope.filespace, &DirPath::root()),
        }
    }

    fn tasks(&self, tops: Vec<Top>) -> Vec<Task> {
        let task = |(parent, path, device_id)| Task { parent, name: None, path, device_id };
        tops.into_iter().filter_map(|top| top.dir.map(task)).collect()
    }

    /// Has the targets themselves, and the directories above them, examined as single objects: they
    /// are backed up with what they hold, but nothing beside them is looked at.
    fn examine_chains(&self, tops: &[Top], work: &Sender<Work>) -> Result<(), ClientError> {
        let mut seen = std::collections::BTreeSet::new();
        for top in tops {
            for link in &top.chain {
                if !seen.insert((link.path.clone(), link.name.clone())) {
                    continue;
                }
                let (first, old) = pages::holding(
                    self.context.link,
                    self.scope.filespace,
                    &link.path,
                    link.name.as_bytes(),
                )?;
                if link.is_target {
                    self.tally().inspect(1, link.found.stat.size);
                }
                let segment = Segment {
                    dir: Arc::clone(&link.dir),
                    path: link.path.clone(),
                    first,
                    entries: vec![(link.name.clone(), link.found)],
                    unreadable: Vec::new(),
                    is_whole: false,
                    counts: link.is_target,
                };
                // The stages below end first only when the session has failed.
                drop(work.send(Work { segment, old }));
            }
        }
        Ok(())
    }

    /// Asks for the pages of changed segments and hands both on; keeps many questions under way.
    fn fetch_pages(&self, changed: &Receiver<Segment>, work: &Sender<Work>, answered: &Answered) {
        let fetched = pages::open(self.context.link, self.scope.filespace).and_then(
            |(questions, mut answers)| {
                let (asked_sender, asked) = bounded::<Segment>(PAGES_WAITING);
                std::thread::scope(|threads| {
                    let asking = threads.spawn(move || {
                        for segment in changed {
                            questions.ask(&segment.path, &segment.first)?;
                            if asked_sender.send(segment).is_err() {
                                break;
                            }
                        }
                        Ok(())
                    });
                    for segment in asked {
                        let old = answers.next()?;
                        if work.send(Work { segment, old }).is_err() {
                            break;
                        }
                    }
                    joined(asking)
                })
            },
        );
        if let Err(error) = fetched {
            answered.fail(error);
            changed.iter().for_each(drop);
        }
    }

    /// Sends once more, with their data, the objects whose grants the server did not honour.
    fn send_rejected_again(
        &self,
        outbox: &mut Outbox<'_>,
        answered: &Answered,
    ) -> Result<(), ClientError> {
        let rejected = outbox.take_rejected();
        if rejected.is_empty() {
            return Ok(());
        }
        self.send_with(outbox, false, |examiner| {
            for object in rejected {
                self.send_again(&object, examiner);
            }
        })?;
        if !answered.has_failed() {
            self.fail_rejected(outbox);
        }
        Ok(())
    }

    fn send_again(&self, object: &proto::Rejected, examiner: &mut Examiner<'_>) {
        let path = [&object.directory[..], &object.name].concat();
        self.tally().backed_up.fetch_sub(1, Relaxed);
        self.tally().retries.fetch_add(1, Relaxed);
        match Top::open(self.scope.root, &path) {
            Ok(Top { chain, .. }) => {
                let Some(link) = chain.into_iter().next_back() else { return };
                let segment = Segment {
                    dir: link.dir,
                    path: link.path,
                    first: object.first.to_vec(),
                    entries: vec![(link.name, link.found)],
                    unreadable: Vec::new(),
                    is_whole: false,
                    counts: true,
                };
                examiner.examine(segment, &[]);
            }
            Err(error) => {
                let path = absolute(self.scope.filespace, &path);
                self.tally().fail(Failure { path, error: error.to_string() });
            }
        }
    }

    /// Objects below each directory that is gone.
    fn count_below(&self, expiries: &[Expiry]) -> Result<u64, ClientError> {
        let directories = expiries
            .iter()
            .flat_map(|expiry| expiry.names.iter().map(move |gone| (expiry, gone)))
            .filter(|(_, (_, kind))| *kind == Kind::Directory)
            .map(|(expiry, (name, _))| expiry.path.child(name));
        self.context.link.count_objects(self.scope.filespace, directories)
    }

    /// Whether so much is gone that it is more likely a mistake; then a warning says so.
    fn refuses_to_expire(&self, expiries: &[Expiry]) -> Result<bool, ClientError> {
        let named: usize = expiries.iter().map(|expiry| expiry.names.len()).sum();
        if named == 0 || self.options.confirm_expire {
            return Ok(false);
        }
        let gone = named as u64 + self.count_below(expiries)?;
        let kept = self.tally().kept.load(Relaxed);
        let refuses = policy::expiry_guard::refuses(gone, kept);
        if refuses {
            self.tally().warn(format!(
                "{gone} of {} objects in {} are gone; they were not expired, because this looks \
                 like an unmounted disk; if it is right, run again with --confirm-expire",
                gone + kept,
                model::escaped(self.scope.filespace),
            ));
        }
        Ok(refuses)
    }

    fn plan_expiries(&self, expiries: &[Expiry]) -> Result<(), ClientError> {
        let named: usize = expiries.iter().map(|expiry| expiry.names.len()).sum();
        let gone = named as u64 + self.count_below(expiries)?;
        self.tally().expired.fetch_add(gone, Relaxed);
        for expiry in expiries {
            for (name, _) in &expiry.names {
                let path = absolute(self.scope.filespace, &expiry.path.join(name));
                self.tally().plan("expire", path);
            }
        }
        Ok(())
    }
}

fn expire(outbox: &mut Outbox<'_>, expiries: Vec<Expiry>) -> Result<(), ClientError> {
    for Expiry { path, first, names, digest } in expiries {
        let names = names.iter().map(|(name, _)| Bytes::copy_from_slice(name.as_bytes()));
        let digest = digest.map_or_else(Bytes::new, |d| Bytes::copy_from_slice(&d.0));
        outbox.send_change(proto::PageChange {
            directory: Bytes::copy_from_slice(path.as_bytes()),
            first: first.clone().into(),
            expired: names.collect(),
            pages: vec![proto::PageKey { first: first.into(), digest }],
            ..proto::PageChange::default()
        })?;
    }
    Ok(())
}

/// What the server keeps of the report.
pub(super) fn summary(report: &crate::BackupReport) -> String {
    format!(
        "{{\"inspected\":{},\"backed_up\":{},\"updated\":{},\"expired\":{},\"failed\":{},\
         \"bytes_inspected\":{},\"bytes_transferred\":{}}}",
        report.inspected,
        report.backed_up,
        report.updated,
        report.expired,
        report.failed,
        report.bytes_inspected,
        report.bytes_transferred
    )
}

/// A target, opened: the chain of objects from the filespace's root to it, and its directory.
struct Top {
    chain: Vec<Step>,
    /// The directory to walk, its path and device; `None` for a target that is no directory.
    dir: Option<(Arc<Dir>, DirPath, u64)>,
}

/// One object of a chain.
struct Step {
    dir: Arc<Dir>,
    path: DirPath,
    name: Name,
    found: sys::Found,
    is_target: bool,
}

impl Top {
    fn open(root: &[u8], target: &[u8]) -> std::io::Result<Self> {
        let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let root = Arc::new(Dir::open(root)?);
        let found = root.stat_self()?;
        let mut chain = vec![Step {
            dir: Arc::clone(&root),
            path: DirPath::above_root(),
            name: Name::root(),
            found,
            is_target: target == b"/",
        }];
        let mut dir = Some((root, DirPath::root(), found.device_id));
        let Some((_, _)) = split(target).filter(|(_, name)| *name != Name::root()) else {
            return Ok(Self { chain, dir });
        };
        let parts = target.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let parts: Vec<&[u8]> = parts.collect();
        for (at, part) in parts.iter().enumerate() {
            let (parent, path, device_id) = dir.take().ok_or_else(gone)?;
            let name = Name::new(part).map_err(|_| gone())?;
            let is_socket = || std::io::Error::other("it is a socket, which is not backed up");
            let found = parent.stat(part)?.ok_or_else(is_socket)?;
            if found.stat.kind == Kind::Directory {
                let child = Arc::new(parent.open_dir(part)?);
                dir = Some((child, path.child(&name), device_id));
            }
            let is_target = at + 1 == parts.len();
            chain.push(Step { dir: parent, path, name, found, is_target });
        }
        Ok(Self { chain, dir })
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    // A thread that panicked is a bug; its panic goes on here.
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Segments without a page at the server need no question.
fn pass_on(unknown: &Receiver<Segment>, work: &Sender<Work>) {
    for segment in unknown {
        if work.send(Work { segment, old: OldPage::default() }).is_err() {
            break;
        }
    }
}

/// Starts a walking thread, which may start more.
fn start_walking<'scope>(
    threads: &'scope Threads<'scope, '_>,
    walk: &'scope Walk<'_>,
    outlets: Outlets,
) {
    threads.spawn(move || {
        walk.run(&outlets, || start_walking(threads, walk, outlets.clone()));
    });
}

/// Where reading threads take from and give to.
#[derive(Clone)]
struct Inlets {
    work: Receiver<Work>,
    full: Sender<FullQuantum>,
    outgoing: Sender<Outgoing>,
}

/// The stage that examines and reads.
struct Reading<'a> {
    session: &'a Session<'a>,
    crew: &'a Crew,
    press: &'a Press<'a>,
    answered: &'a Answered,
    expiries: Mutex<Vec<Expiry>>,
}

impl Reading<'_> {
    /// Starts a reading thread, which may start more.
    fn start<'scope>(&'scope self, threads: &'scope Threads<'scope, '_>, inlets: &Inlets) {
        let inlets = inlets.clone();
        threads.spawn(move || {
            let Inlets { full, outgoing, .. } = inlets.clone();
            let presser = Presser::new(self.press, outgoing.clone());
            match presser.map(|presser| self.session.examiner(presser, Some(full), outgoing)) {
                Ok(examiner) => self.run(examiner, threads, &inlets),
                Err(error) => {
                    self.answered.fail(error);
                    inlets.work.iter().for_each(drop);
                }
            }
        });
    }

    /// Until the stages above have ended or others are enough. Data that waits for more goes when
    /// none has come for a while.
    fn run<'scope>(
        &'scope self,
        mut examiner: Examiner<'_>,
        threads: &'scope Threads<'scope, '_>,
        inlets: &Inlets,
    ) {
        loop {
            match inlets.work.recv_timeout(QUANTUM_WAIT) {
                Ok(Work { segment, old }) => {
                    let _filling = self.press.filling();
                    if self.session.check_session(self.answered).is_ok() {
                        match old.objects() {
                            Ok(old) => examiner.examine(segment, &old),
                            Err(error) => self.answered.fail(error),
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => examiner.flush(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            match self.crew.next() {
                Next::GoOn => {}
                Next::Recruit => self.start(threads, inlets),
                Next::Leave => break,
            }
        }
        examiner.flush();
        let mut expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        expiries.append(&mut examiner.expiries);
    }
}
