//! Expiration: dropping inactive versions that policy does not keep any more.
//!
//! ```text
//!   endings of the days for which an age limit was reached since the last run
//!     --> directories --> versions and pages of each --> policy::expiry --> drop
//! ```
//!
//! A version becomes due in one of two ways:
//!
//! 1. The version reaches an age limit. The day on which it ended, plus the limit, is then a day
//!    since the last run.
//! 2. Its object changes, for example by a newer version, a deletion or another class. The
//!    directory is then marked as if a version had ended on that day.
//!
//! So a run reads only the endings of a few days, not all versions. After a change of policy it
//! reads every directory with inactive versions once.
//!
//! Images are judged by their heads. A part goes with the last image that needs it ([`images`]),
//! not at a limit of its own. So a run reads all inactive versions of images, which have few
//! objects. The heads are in the first directory of their filespace, and are dropped before or
//! together with their parts.
//!
//! Crash rule: the moment up to which a filespace is done is written after its last drop. The run
//! after an interrupted run examines the same directories again.

mod archives;
mod by_class;
mod outcome;
mod pace;

pub use self::by_class::{ByClass, ClassCount};
pub use self::outcome::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::StoreError;
use catalog::actor::SERVER;
use catalog::{
    Day, Ending, EventRow, ExpiryState, Filespace, Node, PageKey, PageSpan, VersionKey, VersionRow,
    Write,
};
use format::page;
use model::{ClassId, DirPath, Kind, Name, Object, ServerTime, archive_number, image_name};
use policy::{PolicySet, expiry};

use self::pace::Pace;
use crate::counts::counted;
use crate::lifecycle::archive;
use crate::lifecycle::clock::{self, Refusal};
use crate::lifecycle::images::{self, Heads};
use crate::lifecycle::tasks::{self, OpenRun, Task};
use crate::pages::decode_page;
use crate::store::Store;

/// Maximum number of directories examined before the drops are written.
const DIRECTORIES_BATCH: usize = 256;
/// Number of dropped versions after which the drops are written.
const VERSIONS_BATCH: usize = 4096;
/// Number of pages of a directory that are read at once.
const PAGES_BATCH: usize = 64;

/// An order for an expiration.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Rules of a simulation, which replace the rules of each node's domain.
    pub draft: Option<&'a PolicySet>,
    /// True to only count the versions, and to drop nothing.
    pub is_dry: bool,
    /// Maximum number of versions examined in a second.
    pub rate: Option<u32>,
    /// True to examine every version, not only the directories in which a version may be due.
    pub all: bool,
    /// Time at which a version must be due to be dropped.
    pub now: ServerTime,
}

impl Order<'_> {
    /// Returns the order to drop all versions that are due now.
    pub fn due() -> Self {
        Self { draft: None, is_dry: false, rate: None, all: false, now: sys::clock::now() }
    }
}

/// Function that the run calls with its progress. It returns false to cancel the run.
pub type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// A filespace with its node, and the active policy of the node's domain.
struct FilespacePolicy {
    node: Node,
    filespace: Filespace,
    active: PolicySet,
}

/// Expires versions and archive copies of `nodes`.
pub fn run(
    store: &Store,
    nodes: &[Node],
    order: Order<'_>,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    run_by_class(store, nodes, order, listener).map(|(outcome, _)| outcome)
}

/// Expires versions and archive copies of `nodes`. Returns what was dropped by class, too.
pub fn run_by_class(
    store: &Store,
    nodes: &[Node],
    order: Order<'_>,
    listener: Listener<'_>,
) -> Result<(Outcome, ByClass), StoreError> {
    let _only = order_of(store, &order)?;
    let domains = store.catalog.domains()?;
    let mut targets = Vec::new();
    for node in nodes {
        let domain = domains.iter().find(|domain| domain.id == node.domain);
        let missing = || StoreError::damaged("a node's policy domain is missing");
        let domain = domain.ok_or_else(missing)?;
        let filespaces = store.catalog.filespaces(node.id)?;
        let of_backups = |filespace: &Filespace| archive_number(&filespace.name).is_none();
        for filespace in filespaces.into_iter().filter(of_backups) {
            let (node, active) = (node.clone(), domain.active.clone());
            targets.push(FilespacePolicy { node, filespace, active });
        }
    }
    let filespaces = u32::try_from(targets.len()).unwrap_or(u32::MAX);
    let outcome = Outcome { filespaces, ..Outcome::default() };
    let mut round = Round {
        store,
        order,
        outcome,
        listener,
        pace: Pace::new(order.rate),
        of_nodes: BTreeSet::new(),
        heads: DroppedHeads::default(),
        by_class: ByClass::new(),
    };
    for target in &targets {
        round.filespace(target)?;
    }
    for node in nodes {
        let domain = domains.iter().find(|domain| domain.id == node.domain);
        if let Some(domain) = domain {
            round.archives(node, &domain.active)?;
        }
    }
    if !order.is_dry {
        archive::purge(store, order.now)?;
    }
    Ok((round.outcome, round.by_class))
}

/// Locks out other runs that drop versions, until the guard is dropped. Returns `None` for a run
/// that only counts, because any number of such runs may be active.
fn order_of<'a>(store: &'a Store, order: &Order<'_>) -> Result<Option<DropGuard<'a>>, StoreError> {
    if order.is_dry {
        return Ok(None);
    }
    keep_out(store).map(Some)
}

/// Keeps out expirations until the guard is dropped. Fails with `Busy` while one is running.
pub(crate) fn keep_out(store: &Store) -> Result<DropGuard<'_>, StoreError> {
    if store.expiring.swap(true, Ordering::AcqRel) {
        return Err(StoreError::busy("another expiration is running; try again later"));
    }
    Ok(DropGuard { flag: &store.expiring })
}

/// Guard of the only run that drops versions.
pub(crate) struct DropGuard<'a> {
    flag: &'a AtomicBool,
}

impl Drop for DropGuard<'_> {
    fn drop(&mut self) {
        let was_set = self.flag.swap(false, Ordering::Release);
        debug_assert!(was_set, "the flag was set until now");
    }
}

struct Round<'a> {
    store: &'a Store,
    order: Order<'a>,
    outcome: Outcome,
    listener: Listener<'a>,
    pace: Pace,
    of_nodes: BTreeSet<model::NodeId>,
    /// Heads of images that the run drops from the present filespace.
    heads: DroppedHeads,
    by_class: ByClass,
}

/// Heads of images that are dropped, by the times at which they were inserted.
#[derive(Default)]
struct DroppedHeads {
    /// Heads that the run drops, or counts.
    by_run: BTreeSet<ServerTime>,
    /// Heads that the active policy drops, in a simulation.
    by_active: BTreeSet<ServerTime>,
}

/// Versions of one directory that a run drops, or counts.
#[derive(Default)]
struct Drops {
    /// Versions with their sizes in bytes.
    versions: Vec<(VersionKey, u64)>,
    bytes: u64,
    due_anyway: u64,
    heads: DroppedHeads,
    by_class: ByClass,
}

impl Round<'_> {
    fn filespace(&mut self, target: &FilespacePolicy) -> Result<(), StoreError> {
        let before = self.outcome;
        self.heads = DroppedHeads::default();
        let state = self.store.catalog.expiry(target.filespace.id)?;
        let reads_all = self.order.all
            || self.order.draft.is_some()
            || image_name(&target.filespace.name).is_some();
        match state.done_to.filter(|_| !reads_all) {
            Some(done_to) => self.where_due(target, done_to)?,
            None => self.everywhere(target)?,
        }
        if !self.order.is_dry {
            let done_to = Some(self.order.now);
            let mut writes = vec![Write::SetExpiry {
                filespace: target.filespace.id,
                state: ExpiryState { done_to },
            }];
            if self.outcome.expired > before.expired {
                writes.push(Write::AddEvent(self.event(target, &before)));
            }
            self.store.catalog.commit(writes)?;
        }
        self.outcome.filespaces_done += 1;
        let Outcome { filespaces, filespaces_done, .. } = self.outcome;
        assert!(filespaces_done <= filespaces, "each filespace is done once");
        self.tell()
    }

    fn event(&self, target: &FilespacePolicy, before: &Outcome) -> EventRow {
        assert!(before.expired <= self.outcome.expired, "counts only grow");
        let expired = self.outcome.expired - before.expired;
        let bytes = self.outcome.expired_bytes - before.expired_bytes;
        let filespace = model::escaped(&target.filespace.name);
        let node = &target.node.name;
        EventRow {
            time: self.order.now,
            actor: SERVER.to_owned(),
            what: "versions expired".to_owned(),
            details: format!(
                "{} of {} of node {node}, filespace {filespace}",
                counted(expired, "version"),
                counted(bytes, "byte")
            ),
        }
    }

    fn tell(&mut self) -> Result<(), StoreError> {
        let goes_on = (self.listener)(&self.outcome);
        if goes_on { Ok(()) } else { Err(StoreError::cancelled("the expiration was cancelled")) }
    }

    /// Examines every directory with inactive versions.
    fn everywhere(&mut self, target: &FilespacePolicy) -> Result<(), StoreError> {
        let span = PageSpan::Subtree(DirPath::above_root());
        let filespace = target.filespace.id;
        let mut after: Option<DirPath> = None;
        loop {
            let found = self.store.catalog.version_directories(
                filespace,
                &span,
                after.as_ref(),
                DIRECTORIES_BATCH,
            )?;
            let Some(last) = found.last().cloned() else { return Ok(()) };
            self.directories(target, found.into_iter().map(|path| (path, Vec::new())).collect())?;
            after = Some(last);
        }
    }

    /// Examines the directories in which a version ended so long ago that it may have reached an
    /// age limit since `done_to`.
    fn where_due(
        &mut self,
        target: &FilespacePolicy,
        done_to: ServerTime,
    ) -> Result<(), StoreError> {
        let ages = ages(&target.active);
        for (first, last) in windows(&ages, Day::of(done_to), Day::of(self.order.now)) {
            let mut after = None;
            loop {
                let found = self.store.catalog.endings(
                    target.filespace.id,
                    first..=last,
                    after.as_ref(),
                    DIRECTORIES_BATCH,
                )?;
                let Some(last) = found.last().cloned() else { break };
                let mut batch: BTreeMap<DirPath, Vec<Day>> = BTreeMap::new();
                for Ending { day, directory } in found {
                    batch.entry(directory).or_default().push(day);
                }
                self.directories(target, batch)?;
                after = Some(last);
            }
        }
        Ok(())
    }

    /// Examines a batch of directories, each with the days for which it was found.
    fn directories(
        &mut self,
        target: &FilespacePolicy,
        batch: BTreeMap<DirPath, Vec<Day>>,
    ) -> Result<(), StoreError> {
        let mut writes = Vec::new();
        let mut versions = 0;
        for (path, days) in batch {
            versions += match self.directory(target, &path, &days, &mut writes) {
                Err(StoreError::Damaged(reason)) => {
                    self.pass_over(&target.node, &reason);
                    0
                }
                dropped => dropped?,
            };
            if versions >= VERSIONS_BATCH {
                self.write(&mut writes)?;
                versions = 0;
            }
        }
        self.write(&mut writes)
    }

    /// Notes a directory that stays as it is because it cannot be read.
    fn pass_over(&mut self, node: &Node, reason: &str) {
        tracing::error!(node = %node.name, reason, "a directory is not expired");
        self.outcome.damaged += 1;
    }

    fn write(&mut self, writes: &mut Vec<Write>) -> Result<(), StoreError> {
        let writes = std::mem::take(writes);
        if !self.order.is_dry && !writes.is_empty() {
            self.store.catalog.commit(writes)?;
        }
        self.tell()
    }

    /// Expires one directory: adds its writes to `writes`, and returns the number of versions that
    /// it drops.
    fn directory(
        &mut self,
        target: &FilespacePolicy,
        path: &DirPath,
        days: &[Day],
        writes: &mut Vec<Write>,
    ) -> Result<usize, StoreError> {
        let filespace = target.filespace.id;
        let rows = self.store.catalog.versions(filespace, path)?;
        debug_assert!(rows.is_sorted_by_key(|row| &row.name), "versions are sorted by name");
        self.pace.wait(rows.len());
        let Drops { versions: dropped, bytes, due_anyway, heads, by_class } =
            self.drops(target, path, &rows)?;
        for (class, count) in by_class {
            self.by_class.entry(class).or_default().add(count);
        }
        self.heads.by_run.extend(heads.by_run);
        self.heads.by_active.extend(heads.by_active);
        self.outcome.directories += 1;
        self.outcome.examined += rows.len() as u64;
        self.outcome.expired += dropped.len() as u64;
        self.outcome.expired_bytes += bytes;
        self.outcome.due_anyway += due_anyway;
        let count = dropped.len();
        assert!(count <= rows.len(), "each version is dropped once");
        if count > 0 && self.of_nodes.insert(target.node.id) {
            self.outcome.nodes += 1;
        }
        let goes = |row: &&VersionRow| {
            !dropped
                .iter()
                .any(|(gone, _)| gone.name == row.name && gone.deactivated == row.deactivated)
        };
        let left: BTreeSet<Day> =
            rows.iter().filter(goes).map(|row| Day::of(row.deactivated)).collect();
        let all_days = rows.iter().map(|row| Day::of(row.deactivated)).chain(days.iter().copied());
        let done: BTreeSet<Day> = all_days.filter(|day| !left.contains(day)).collect();
        if count > 0 {
            let directory = path.clone();
            writes.push(Write::FreeVersions { filespace, directory, versions: dropped });
        }
        let unmark = |day| Write::UnmarkDirectory { filespace, directory: path.clone(), day };
        writes.extend(done.into_iter().map(unmark));
        Ok(count)
    }

    /// Decides about `rows`, the inactive versions of one directory.
    fn drops(
        &self,
        target: &FilespacePolicy,
        path: &DirPath,
        rows: &[VersionRow],
    ) -> Result<Drops, StoreError> {
        let classes = self.active_classes(target, path, rows)?;
        // The heads are read after the versions.
        let heads = Heads::read(self.store, &target.filespace)?;
        let kept = |dropped| heads.as_ref().map(|heads| heads.without(dropped));
        let (by_run, by_active) = (kept(&self.heads.by_run), kept(&self.heads.by_active));
        let mut drops = Drops::default();
        for of_object in rows.chunk_by(|a, b| a.name == b.name) {
            let name = &of_object[0].name;
            let is_head = heads.is_some() && images::is_head(path, name);
            let due = |set, heads: &Option<Heads>| {
                let object = ObjectVersions { rows: of_object, active: classes.get(name).copied() };
                object.due(set, heads.as_ref().filter(|_| !is_head), self.order.now)
            };
            let dropped = due(self.order.draft.unwrap_or(&target.active), &by_run)?;
            let inserted = |rank: &usize| of_object[*rank].inserted;
            if self.order.draft.is_some() {
                let anyway = due(&target.active, &by_active)?;
                let both = dropped.iter().filter(|rank| anyway.contains(rank)).count();
                drops.due_anyway += both as u64;
                drops.heads.by_active.extend(anyway.iter().filter(|_| is_head).map(inserted));
            }
            drops.heads.by_run.extend(dropped.iter().filter(|_| is_head).map(inserted));
            for rank in dropped {
                let row = &of_object[rank];
                let Object { stat, class, .. } = object_of(row)?;
                let bytes = if stat.kind == Kind::File { stat.size } else { 0 };
                drops.bytes += bytes;
                let count = ClassCount { expired: 1, expired_bytes: bytes };
                drops.by_class.entry(class).or_default().add(count);
                let VersionRow { name, inserted, deactivated, .. } = row.clone();
                drops.versions.push((VersionKey { name, inserted, deactivated }, bytes));
            }
        }
        Ok(drops)
    }

    /// Returns the classes of the active objects that have a version in `rows`.
    fn active_classes(
        &self,
        target: &FilespacePolicy,
        path: &DirPath,
        rows: &[VersionRow],
    ) -> Result<BTreeMap<Name, ClassId>, StoreError> {
        let mut wanted: BTreeSet<Name> = rows.iter().map(|row| row.name.clone()).collect();
        let mut found = BTreeMap::new();
        let span = PageSpan::Directory(path.clone());
        let mut after: Option<PageKey> = None;
        while !wanted.is_empty() {
            let pages = self.store.catalog.pages(
                target.filespace.id,
                &span,
                after.as_ref(),
                PAGES_BATCH,
            )?;
            let Some(last) = pages.last().map(|page| page.key.clone()) else { break };
            for (at, row) in pages.iter().enumerate() {
                // The first name of the next page bounds the names of this page.
                let next = pages.get(at + 1).map(|next| &next.key.first[..]);
                let is_here = |name: &&Name| {
                    name.as_bytes() >= &row.key.first[..]
                        && next.is_none_or(|next| name.as_bytes() < next)
                };
                if !wanted.iter().any(|name| is_here(&name)) {
                    continue;
                }
                for object in decode_page(row)? {
                    if wanted.remove(&object.name) {
                        found.insert(object.name, object.class);
                    }
                }
            }
            after = Some(last);
        }
        Ok(found)
    }
}

/// Inactive versions of one object, newest first.
struct ObjectVersions<'a> {
    rows: &'a [VersionRow],
    /// Class of the active version, if there is one.
    active: Option<ClassId>,
}

impl ObjectVersions<'_> {
    /// Returns the ranks of the versions that are dropped at `now`. `heads` are the heads of the
    /// images that stay, if the object is a part of images; otherwise the policy `set` decides.
    fn due(
        &self,
        set: &PolicySet,
        heads: Option<&Heads>,
        now: ServerTime,
    ) -> Result<Vec<usize>, StoreError> {
        let by_policy = self.due_by_policy(set, now)?;
        let Some(heads) = heads else { return Ok(by_policy) };
        let mut due = Vec::new();
        for (rank, row) in self.rows.iter().enumerate().filter(|(_, row)| !heads.need(row)) {
            if by_policy.contains(&rank) || !self.is_locked(set, row, now)? {
                due.push(rank);
            }
        }
        Ok(due)
    }

    /// Returns the class that all versions follow: the class of the active version, or the class of
    /// the newest inactive version if no version is active.
    fn class(&self) -> Result<ClassId, StoreError> {
        assert!(!self.rows.is_empty(), "an object has a version");
        self.active.map_or_else(|| Ok(object_of(&self.rows[0])?.class), Ok)
    }

    /// Returns the ranks of the versions that `set` drops at `now`.
    fn due_by_policy(&self, set: &PolicySet, now: ServerTime) -> Result<Vec<usize>, StoreError> {
        let class = self.class()?;
        let ended: Vec<ServerTime> = self.rows.iter().map(|row| row.deactivated).collect();
        debug_assert!(ended.is_sorted_by(|a, b| a >= b), "the version that ended last comes first");
        let exists = self.active.is_some();
        let by = |class| expiry::dropped(&set.backup_rules(class), exists, &ended, now);
        let mut due = by(class);
        assert!(due.iter().all(|rank| *rank < ended.len()), "only versions of the object are due");
        if due.is_empty() || !has_locks(set, now) {
            return Ok(due);
        }
        // A version in a locked class stays as long as that class requires, even if the object was
        // bound to another class later.
        let mut stays = BTreeSet::new();
        for rank in &due {
            let own = object_of(&self.rows[*rank])?.class;
            let is_locked = set.class(own).is_some_and(|class| class.is_locked(now));
            if own != class && is_locked && !by(own).contains(rank) {
                stays.insert(*rank);
            }
        }
        due.retain(|rank| !stays.contains(rank));
        Ok(due)
    }

    /// Returns true if the version `row`, or the object by now, is bound to a locked class.
    fn is_locked(
        &self,
        set: &PolicySet,
        row: &VersionRow,
        now: ServerTime,
    ) -> Result<bool, StoreError> {
        if !has_locks(set, now) {
            return Ok(false);
        }
        let is_locked = |class| {
            let class = set.class(class).or_else(|| set.class(set.default_class));
            class.is_some_and(|class| class.is_locked(now))
        };
        Ok(is_locked(self.class()?) || is_locked(object_of(row)?.class))
    }
}

fn has_locks(set: &PolicySet, now: ServerTime) -> bool {
    set.classes.iter().any(|class| class.is_locked(now))
}

fn object_of(row: &VersionRow) -> Result<Object, StoreError> {
    let damaged = || {
        let path = model::escaped(&row.directory.join(&row.name));
        StoreError::damaged(format!("the catalogue's version of {path} is damaged"))
    };
    let objects = page::decode(&row.body).map_err(|_| damaged())?;
    objects.into_iter().next().ok_or_else(damaged)
}

/// Returns the ages, in days after the end of a version, at which a rule of the set may drop the
/// version. Age 0 stands for the limits on the number of versions.
fn ages(set: &PolicySet) -> BTreeSet<u16> {
    let classes = set.classes.iter().map(|class| set.backup_rules(class.id));
    let grace = policy::BackupCopyGroup::grace(set.backup_grace_days);
    let rules = classes.chain([grace]);
    rules
        .flat_map(|rules| expiry::ages(&rules).collect::<Vec<_>>())
        .chain([0])
        .collect()
}

/// Returns the days whose endings a run reads, as ranges from a first to a last day. The ranges do
/// not overlap, and the latest range comes first.
fn windows(ages: &BTreeSet<u16>, done_to: Day, now: Day) -> Vec<(Day, Day)> {
    let mut windows: Vec<(Day, Day)> = Vec::new();
    for age in ages {
        let window = (Day(done_to.0 - i64::from(*age)), Day(now.0 - i64::from(*age)));
        match windows.last_mut() {
            Some(last) if window.1.0 + 1 >= last.0.0 => last.0 = window.0.min(last.0),
            _ => windows.push(window),
        }
    }
    let is_before = |later: &(Day, Day), earlier: &(Day, Day)| earlier.1.0 < later.0.0;
    debug_assert!(windows.is_sorted_by(is_before), "no day is in two ranges");
    windows
}

/// Confirmation by the administrator who orders an expiration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirmation {
    None,
    /// The server's clock is right, although it has jumped.
    Clock,
}

/// Expires versions by the server's clock, which must agree with the record of time or be
/// confirmed. Otherwise it counts the versions, and fails with their number.
pub fn run_by_clock(
    store: &Store,
    nodes: &[Node],
    order: Order<'_>,
    confirmation: Confirmation,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    if order.is_dry {
        return run(store, nodes, order, listener);
    }
    match confirmation {
        Confirmation::Clock => clock::confirm(store)?,
        Confirmation::None => {
            if let Some(refusal) = clock::check(store)? {
                let counted = run(store, nodes, Order { is_dry: true, ..order }, listener)?;
                return Err(refused(&refusal, &counted));
            }
        }
    }
    run(store, nodes, order, listener)
}

fn refused(refusal: &Refusal, outcome: &Outcome) -> StoreError {
    let nodes = counted(u64::from(outcome.nodes), "node");
    let versions = counted(outcome.expired, "version");
    let bytes = counted(outcome.expired_bytes, "byte");
    StoreError::conflict(format!(
        "nothing expired; by the server's clock, {versions} ({bytes}, {nodes}) would expire, but \
         {refusal}"
    ))
}

/// Runs expiration, as a task of the server, for the nodes whose last run is at least `every_hours`
/// ago. The caller has seen that the clock may be trusted ([`clock::Watch`]).
pub fn run_due(store: &Store, every_hours: u32) -> Result<Option<Outcome>, StoreError> {
    if !store.tasks.may_begin(Task::Expire) {
        return Ok(None);
    }
    let now = sys::clock::now();
    let every_micros = i64::from(every_hours) * 3_600_000_000;
    let mut due = Vec::new();
    let mut due_since = now;
    for node in store.catalog.nodes()? {
        let mut is_due = false;
        for filespace in store.catalog.filespaces(node.id)? {
            if archive_number(&filespace.name).is_some() {
                continue;
            }
            let state = store.catalog.expiry(filespace.id)?;
            let Some(done_to) = state.done_to else {
                is_due = true;
                continue;
            };
            // The clock was set back since a run that is dated in the future.
            let was_set_back = done_to > now;
            if was_set_back || now.0 - done_to.0 >= every_micros {
                is_due = true;
                due_since = due_since.min(ServerTime(done_to.0 + every_micros));
            }
        }
        let archives = store.catalog.archives(node.id)?;
        is_due |= archives.iter().any(|row| archives::is_due(row, now));
        if is_due {
            due.push(node);
        }
    }
    if due.is_empty() {
        return Ok(None);
    }
    let stopping = &store.stopping;
    let work = |open: &mut OpenRun<'_>| {
        run(store, &due, Order::due(), &mut |now: &Outcome| {
            open.goes_on(|| now.numbers()) && !stopping.load(Ordering::Relaxed)
        })
    };
    let task = (Task::Expire, due_since);
    tasks::run(&*store.catalog, &store.tasks, task, work, |_| None).map(Some)
}

#[cfg(test)]
mod tests;
