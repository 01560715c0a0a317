//! Pipeline of a backup of directories: the threads that walk, examine, compress and send.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Scope as Threads;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use model::{DirPath, Kind, mount_point};
use policy::Verdict;
use sys::lock::Mutex;
use sys::process::processors;

use super::aim::{Aim, AimedDirectories};
use super::answers::Answers;
use super::crew::{Crew, NextStep};
use super::examine::Examiner;
use super::expiry::{Expiries, Expiry};
use super::gpu::GpuStage;
use super::inventory::Inventory;
use super::journal::{Prospect, ProvenJournal};
use super::open_target::{OpenTarget, Start};
use super::outbox::Outbox;
use super::outbox_message::OutboxMessage;
use super::press::{FullQuantum, Press, Presser};
use super::scope::Scope;
use super::segment::Segment;
use super::session::{OUTGOING_WAITING, Run, Session, in_session};
use super::tally::Tally;
use super::threads::joined;
use super::walk::{Outlets, Queue, Task, Walk};
use crate::error::ClientError;
use crate::link::Link;
use crate::link::pages::OldPage;
use crate::path::{absolute, split};
use crate::source::Source;

/// Maximum number of segments that wait to be examined.
const SEGMENTS_WAITING: usize = 64;
/// Maximum number of pages that were requested and have not arrived.
const PAGES_WAITING: usize = 256;
/// Maximum number of full quanta that wait for a compressing thread.
const QUANTA_WAITING: usize = 2;
/// Time that a quantum that is not full waits for more data.
const QUANTUM_WAIT: Duration = Duration::from_millis(50);

/// Segment, and the server's page for it.
struct Work {
    segment: Segment,
    old: OldPage,
}

/// Backs up the targets of `scope`. `prospect` is the journal of the filespace, if there is one.
pub(super) fn back_up(
    run: Run<'_>,
    scope: &Scope<'_>,
    prospect: Option<Prospect>,
) -> Result<(), ClientError> {
    in_session(run, scope, |session, outbox| session.back_up(outbox, prospect))
}

/// Sets the expected number of objects for the progress display: the number that the server has.
fn expect_objects(link: &Link, scope: &Scope<'_>, tally: &Tally) -> Result<(), ClientError> {
    let directories = scope.targets.iter().filter_map(|target| {
        let (parent, name) = split(target)?;
        Some(parent.child(&name))
    });
    let objects = link.count_objects(scope.filespace, directories)?;
    tally.progress.objects_expected.fetch_add(objects, Relaxed);
    Ok(())
}

impl Session<'_> {
    fn back_up(
        &self,
        mut outbox: Outbox<'_>,
        prospect: Option<Prospect>,
    ) -> Result<(), ClientError> {
        // The tally is that of all filespaces of the command.
        let before = self.tally().report();
        // The report of the first filespace tells the server of it, and no other one.
        self.tally().note_authentication(self.context.link.authentication);
        let mut journal = match prospect {
            Some(prospect) => Some(prospect.prove(self)?),
            None => None,
        };
        let sent = self.send_all(&mut outbox, journal.as_mut());
        let ending = match (&sent, journal) {
            (_, None) => None,
            (Ok(true), Some(journal)) => journal.end(self)?,
            (_, Some(journal)) => {
                journal.give_up(self);
                None
            }
        };
        let is_complete = sent?;
        if self.options.dry_run {
            return Ok(());
        }
        let virtual_filespaces = &self.context.rules.virtual_filespaces;
        let source = Source::of_filespace(mount_point(self.scope.filespace), virtual_filespaces);
        outbox.close(is_complete, self.tally().report().summary_since(&before, Some(&source)))?;
        if let Some(ending) = ending {
            ending.settle(self.tally());
        }
        Ok(())
    }

    /// Does everything up to the end of the session. Returns true if the backup is complete.
    fn send_all(
        &self,
        outbox: &mut Outbox<'_>,
        journal: Option<&mut ProvenJournal>,
    ) -> Result<bool, ClientError> {
        let expiries = self.examine_all(outbox, journal)?;
        self.send_expiries(outbox, expiries)
    }

    /// Walks and examines, as far as the journal requires it. Returns the expirations.
    fn examine_all(
        &self,
        outbox: &mut Outbox<'_>,
        journal: Option<&mut ProvenJournal>,
    ) -> Result<Expiries<'_>, ClientError> {
        let Scope { filespace, targets, .. } = *self.scope;
        let (link, tally) = (self.context.link, self.tally());
        let virtual_filespaces = &self.context.rules.virtual_filespaces;
        let kept_before = tally.kept.load(Relaxed);
        let of = |pages, is_by_journal| Expiries {
            link,
            filespace,
            targets,
            tally,
            virtual_filespaces,
            kept_before,
            pages,
            is_by_journal,
        };
        let keeps_notes = journal.is_some();
        if let Some(journal) = journal
            && let Some(aim) = journal.aim(self)
        {
            let pages = self.run_threads(outbox, keeps_notes, Some(aim))?;
            if !self.context.notes.has_missing_names() {
                return Ok(of(pages, true));
            }
            // The walk compares with the pages that the server has by now.
            outbox.finish();
            self.check()?;
            journal.walk_instead(self);
        }
        if self.options.without_content {
            let targets = self.scope.targets.len() as u64;
            tally.progress.objects_expected.fetch_add(targets, Relaxed);
        } else {
            expect_objects(link, self.scope, tally)?;
        }
        Ok(of(self.run_threads(outbox, keeps_notes, None)?, false))
    }

    /// Sends the expirations and waits for the answers. Returns true if the backup is complete.
    fn send_expiries(
        &self,
        outbox: &mut Outbox<'_>,
        expiries: Expiries<'_>,
    ) -> Result<bool, ClientError> {
        let is_withheld = self
            .check()
            .and_then(|()| Ok(!self.options.confirm_expire && expiries.are_refused()?))
            // After a failure, the changes so far are committed.
            .inspect_err(|_| outbox.finish())?;
        if self.options.dry_run {
            return expiries.plan().map(|()| false);
        }
        // The server releases the content of an expired directory at once. Objects elsewhere with
        // the same content must be committed before that.
        if expiries.has_directory() {
            self.settle(outbox)?;
        }
        // Otherwise expirations share a transaction with the last changes, because the server waits
        // for its disk in each transaction.
        if !is_withheld {
            expiries.send(outbox)?;
        }
        self.settle(outbox)?;
        // A backup with failed objects is complete, because it has examined everything.
        let is_partial = self.options.is_partial || self.options.targets.is_selective();
        Ok(!is_withheld && !is_partial)
    }

    /// Runs the threads that walk, examine, compress and send. Looks only at the directories of
    /// `aim`, if there is one. Returns the expirations, which are not sent yet.
    fn run_threads(
        &self,
        outbox: &mut Outbox<'_>,
        keeps_notes: bool,
        aim: Option<Aim>,
    ) -> Result<Vec<Expiry>, ClientError> {
        let queue = Queue::default();
        let tops = self.tops();
        let inventory = match &aim {
            Some(aim) => self.inventory_of(aim)?,
            None => self.inventory(&tops)?,
        };
        let walk = Walk {
            filespace: self.scope.filespace,
            queue: &queue,
            crew: self.walkers,
            rules: self.context.rules,
            digester: self.context.digester,
            inventory: &inventory,
            tally: self.tally(),
            answers: self.answers,
            ignores_digests: self.context.sends_all,
            expires: !self.options.targets.is_selective(),
            crosses_filesystems: self.options.cross_filesystems,
            notes: Some(self.context.notes).filter(|_| keeps_notes),
        };
        let (work_sender, work) = bounded(SEGMENTS_WAITING);
        let (changed_sender, changed) = bounded(SEGMENTS_WAITING);
        let (unknown_sender, unknown) = bounded(SEGMENTS_WAITING);
        let (full_sender, full) = bounded(QUANTA_WAITING);
        let (outgoing_sender, outgoing) = bounded(OUTGOING_WAITING);
        let outlets = Outlets { unknown: unknown_sender, changed: changed_sender };
        let press =
            Press::new(self.compression(), processors(), self.answers).with_gpu(self.nvcomp());
        let (gpu_sender, gpu_queue) = bounded(GpuStage::queue_quanta());
        let gpu_sender = press.gpu().map(|_| gpu_sender);
        let reading = ReadStage {
            session: self,
            crew: self.context.readers,
            press: &press,
            answers: self.answers,
            expiries: Mutex::default(),
        };
        std::thread::scope(|threads| {
            if let Some(gpu) = press.gpu() {
                gpu.start(threads, gpu_queue, Presser::new(&press, outgoing_sender.clone())?);
            }
            let outgoing_too = outgoing_sender.clone();
            let inlets =
                Inlets { work, full: full_sender, outgoing: outgoing_too, gpu: gpu_sender };
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
            threads.spawn(move || self.fetch_pages(&changed, &again));
            let examined_chains = self.examine_chains(&tops, &work_sender);
            drop(work_sender);
            queue.push(&mut tasks(tops, aim));
            (0..self.walkers.least()).for_each(|_| start_walking(threads, &walk, outlets.clone()));
            drop(outlets);
            joined(sending);
            examined_chains
        })?;
        Ok(reading.expiries.into_inner())
    }

    /// Opens the targets that are not excluded. A missing target is a failure.
    fn tops(&self) -> Vec<OpenTarget> {
        let open = |target: &Vec<u8>| match OpenTarget::open(self.scope.root, target) {
            Ok(mut top) => {
                if self.options.without_content {
                    top.start = None;
                }
                Some(top).filter(|top| self.is_included(target, top))
            }
            Err(error) => {
                self.fail(target, error.to_string());
                None
            }
        };
        self.scope.targets.iter().filter_map(open).collect()
    }

    /// Returns true if the rules include the target itself. An excluded directory above the target
    /// does not matter, because the user has named the target.
    fn is_included(&self, target: &[u8], top: &OpenTarget) -> bool {
        let Some(step) = top.chain.last() else { return true };
        let path = absolute(self.scope.filespace, target);
        let rules = self.context.rules;
        let kind = step.found.stat.kind;
        let excluded = match rules.ruling(|| path.clone(), kind).verdict {
            Verdict::Excluded { rule_index } => Some(rule_index),
            Verdict::Included { .. } if kind == Kind::Directory => {
                rules.leaves_content(|| path.clone())
            }
            Verdict::Included { .. } => None,
        };
        if let Some(rule_index) = excluded {
            let is_listed = self.options.lists_excluded;
            self.tally().exclude(rules.exclusion(&path, rule_index), is_listed);
        }
        excluded.is_none()
    }

    fn inventory(&self, tops: &[OpenTarget]) -> Result<Inventory, ClientError> {
        let mut directories = tops.iter().filter_map(|top| Some(&top.start.as_ref()?.path));
        let (link, filespace) = (self.context.link, self.scope.filespace);
        match (directories.next(), directories.next()) {
            (None, _) => Ok(Inventory::default()),
            (Some(only), None) => Inventory::fetch(link, filespace, only),
            (Some(_), Some(_)) => Inventory::fetch(link, filespace, &DirPath::root()),
        }
    }

    fn inventory_of(&self, aim: &Aim) -> Result<Inventory, ClientError> {
        let AimedDirectories { single, subtrees } = aim.directories();
        Inventory::fetch_some(self.context.link, self.scope.filespace, &single, &subtrees)
    }

    /// Sends the targets themselves, and the directories above them, to be examined as single
    /// objects. Other objects in these directories are not examined.
    fn examine_chains(&self, tops: &[OpenTarget], work: &Sender<Work>) -> Result<(), ClientError> {
        let (link, filespace) = (self.context.link, self.scope.filespace);
        let mut seen = BTreeSet::new();
        for step in tops.iter().flat_map(|top| &top.chain) {
            if !seen.insert((&step.path, &step.name)) {
                continue;
            }
            let known = link.page_holding(filespace, &step.path, step.name.as_bytes())?;
            if step.is_target {
                self.tally().inspect(1, step.found.stat.size);
            }
            let found = step.stored(self.options.archive.is_some());
            let entries = vec![(step.name.clone(), found)];
            let (dir, path) = (Arc::clone(&step.dir), step.path.clone());
            let segment = Segment::partial(dir, path, known.first, entries);
            let segment = Segment { counts: step.is_target, ..segment };
            // Sending fails only after the session has failed. The reason is then already noted.
            drop(work.send(Work { segment, old: known.page }));
        }
        Ok(())
    }

    /// Requests the pages of changed segments, many at a time. Passes on each segment with its
    /// page.
    fn fetch_pages(&self, changed: &Receiver<Segment>, work: &Sender<Work>) {
        let fetched =
            self.context
                .link
                .pages(self.scope.filespace)
                .and_then(|(requests, mut replies)| {
                    let (requested_sender, requested) = bounded::<Segment>(PAGES_WAITING);
                    std::thread::scope(|threads| {
                        let requesting = threads.spawn(move || {
                            for segment in changed {
                                requests.request(&segment.path, &segment.first)?;
                                if requested_sender.send(segment).is_err() {
                                    break;
                                }
                            }
                            Ok(())
                        });
                        for segment in requested {
                            let old = replies.next()?;
                            if work.send(Work { segment, old }).is_err() {
                                break;
                            }
                        }
                        joined(requesting)
                    })
                });
        if let Err(error) = fetched {
            self.answers.fail(error);
            changed.iter().for_each(drop);
        }
    }
}

/// Returns the first tasks of a walk. An aim is at the root, which is then the only target.
fn tasks(tops: Vec<OpenTarget>, aim: Option<Aim>) -> Vec<Task> {
    assert!(aim.is_none() || tops.len() <= 1, "a backup by journal has one target");
    // An aim at everything is no aim.
    let aim = aim.filter(|aim| !aim.is_subtree);
    let task = |Start { dir, path, device_id }| {
        let aim = aim.clone();
        Task { parent: dir, name: None, path, device_id, aim, is_listed: true }
    };
    tops.into_iter().filter_map(|top| top.start.map(task)).collect()
}

/// Passes on the segments that have no page at the server.
fn pass_on(unknown: &Receiver<Segment>, work: &Sender<Work>) {
    for segment in unknown {
        if work.send(Work { segment, old: OldPage::default() }).is_err() {
            break;
        }
    }
}

/// Starts a walking thread, which may start further walking threads.
fn start_walking<'scope>(
    threads: &'scope Threads<'scope, '_>,
    walk: &'scope Walk<'_>,
    outlets: Outlets,
) {
    threads.spawn(move || {
        walk.run(&outlets, || start_walking(threads, walk, outlets.clone()));
    });
}

/// Queues of a reading thread.
#[derive(Clone)]
struct Inlets {
    work: Receiver<Work>,
    full: Sender<FullQuantum>,
    outgoing: Sender<OutboxMessage>,
    gpu: Option<Sender<FullQuantum>>,
}

/// Stage that examines and reads.
struct ReadStage<'a> {
    session: &'a Session<'a>,
    crew: &'a Crew,
    press: &'a Press<'a>,
    answers: &'a Answers,
    expiries: Mutex<Vec<Expiry>>,
}

impl ReadStage<'_> {
    /// Starts a reading thread, which may start further reading threads.
    fn start<'scope>(&'scope self, threads: &'scope Threads<'scope, '_>, inlets: &Inlets) {
        let inlets = inlets.clone();
        threads.spawn(move || {
            let Inlets { full, outgoing, gpu, .. } = inlets.clone();
            let presser = Presser::new(self.press, outgoing.clone());
            let presser = presser.map(|presser| presser.with_gpu(gpu));
            match presser.map(|presser| self.session.examiner(presser, Some(full), outgoing)) {
                Ok(examiner) => self.run(examiner, threads, &inlets),
                Err(error) => {
                    self.answers.fail(error);
                    inlets.work.iter().for_each(drop);
                }
            }
        });
    }

    /// Examines segments until the walk has ended or the crew is large enough without this thread.
    /// If no segment arrives for a while, the open quantum is sent.
    fn run<'scope>(
        &'scope self,
        mut examiner: Examiner<'_>,
        threads: &'scope Threads<'scope, '_>,
        inlets: &Inlets,
    ) {
        loop {
            match inlets.work.recv_timeout(QUANTUM_WAIT) {
                Ok(Work { segment, old }) => {
                    self.session.tally().progress.hold();
                    let _filling = self.press.filling();
                    if self.session.check().is_ok() {
                        match old.objects(&segment.path) {
                            Ok(old) => examiner.examine(segment, &old),
                            // Other directories can be backed up.
                            Err(error) => {
                                let path = segment.path.as_bytes();
                                self.session.fail(path, model::chain(&error));
                            }
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => examiner.flush(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            match self.crew.next() {
                NextStep::GoOn => {}
                NextStep::Recruit => self.start(threads, inlets),
                NextStep::Leave => break,
            }
        }
        examiner.flush();
        self.expiries.lock().append(&mut examiner.expiries);
    }
}
