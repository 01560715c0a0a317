//! Expiration: dropping the inactive versions that policy no longer keeps.
//!
//! ```text
//!   endings of the days that an age limit has passed over since the last run
//!     --> directories --> versions and pages of each --> policy::expiry --> drop
//! ```
//!
//! A version can become due in two ways. It reaches an age: then the day on which it ended lies
//! that age before a day since the last run. Or something about its object has changed, such as a
//! newer version, a deletion, another class: then its directory was marked as if something had
//! ended on that day. So a run reads what ended on few days, and not what is kept. After a change
//! of policy every directory with inactive versions is looked at once.
//!
//! Crash rule: what is dropped stays dropped, and how far the filespace is, is written behind the
//! last drop. A run that was cut off looks again at what it has looked at already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use catalog::{
    ArchiveChange, ArchiveRow, Day, EventRow, ExpiryState, Filespace, Node, PageKey, PageSpan,
    VersionKey, VersionRow, Write,
};
use format::page;
use model::{ClassId, DirPath, Kind, Name, ServerTime, archive_number};
use policy::{PolicySet, expiry};
use tonic::Status;

use crate::archive;
use crate::backup::decode_page;
use crate::core::Core;
use crate::refusal;
use crate::tasks::{self, Task};

/// Directories looked at before what they came to is written.
const DIRECTORIES_BATCH: usize = 256;
/// And versions dropped.
const VERSIONS_BATCH: usize = 4096;
/// Pages of a directory read at once.
const PAGES_BATCH: usize = 64;
/// An automatic run does not follow a clock that is so far ahead of the last one: it may be wrong,
/// and what has been dropped does not come back when it is set right.
const LEAP_DAYS_MAX: i64 = 30;

/// What a run is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    /// The rules to go by instead of those of each node's domain, for a simulation.
    pub(crate) draft: Option<&'a PolicySet>,
    /// Drop nothing, only count.
    pub(crate) is_dry: bool,
    /// Versions looked at in a second at most.
    pub(crate) rate: Option<u32>,
    /// Look at every version, not only where something may be due.
    pub(crate) all: bool,
    /// The moment by which versions are judged.
    pub(crate) now: ServerTime,
}

impl Order<'_> {
    /// To drop what is due now.
    pub(crate) fn due() -> Self {
        Self { draft: None, is_dry: false, rate: None, all: false, now: sys::clock::now() }
    }
}

/// What has come of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) directories: u64,
    pub(crate) examined: u64,
    pub(crate) expired: u64,
    pub(crate) expired_bytes: u64,
    pub(crate) nodes: u32,
    /// Of a simulation: what the active set drops too.
    pub(crate) due_anyway: u64,
    pub(crate) filespaces_done: u32,
    pub(crate) filespaces: u32,
}

/// Whoever ordered a run hears how it goes; `false` ends it.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// A filespace with its node and the rules that hold for it.
struct Ground {
    node: Node,
    filespace: Filespace,
    active: PolicySet,
}

/// Looks at the filespaces of `nodes`, and returns what came of it.
pub(crate) fn run(
    core: &Core,
    nodes: &[Node],
    order: Order<'_>,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let _only = order_of(core, &order)?;
    let failed = |error| refusal::catalog(&error);
    let domains = core.catalog.domains().map_err(failed)?;
    let mut grounds = Vec::new();
    for node in nodes {
        let domain = domains.iter().find(|domain| domain.id == node.domain);
        let domain = domain.ok_or_else(|| Status::data_loss("a node's policy domain is gone"))?;
        let filespaces = core.catalog.filespaces(node.id).map_err(failed)?;
        let of_backups = |filespace: &Filespace| archive_number(&filespace.name).is_none();
        for filespace in filespaces.into_iter().filter(of_backups) {
            let (node, active) = (node.clone(), domain.active.clone());
            grounds.push(Ground { node, filespace, active });
        }
    }
    let filespaces = u32::try_from(grounds.len()).unwrap_or(u32::MAX);
    let outcome = Outcome { filespaces, ..Outcome::default() };
    let mut round = Round {
        core,
        order,
        outcome,
        listener,
        pace: Pace::new(order.rate),
        of_nodes: BTreeSet::new(),
    };
    for ground in &grounds {
        round.filespace(ground)?;
    }
    for node in nodes {
        let domain = domains.iter().find(|domain| domain.id == node.domain);
        if let Some(domain) = domain {
            round.archives(node, &domain.active)?;
        }
    }
    if !order.is_dry {
        archive::purge(core, order.now)?;
    }
    Ok(round.outcome)
}

/// One run at a time drops; any number may count.
fn order_of<'a>(core: &'a Core, order: &Order<'_>) -> Result<Option<Only<'a>>, Status> {
    if order.is_dry {
        return Ok(None);
    }
    if core.expiring.swap(true, Ordering::AcqRel) {
        return Err(Status::aborted("another expiration is running"));
    }
    Ok(Some(Only { flag: &core.expiring }))
}

/// Held by the run that drops.
struct Only<'a> {
    flag: &'a AtomicBool,
}

impl Drop for Only<'_> {
    fn drop(&mut self) {
        self.flag.store(false, Ordering::Release);
    }
}

struct Round<'a> {
    core: &'a Core,
    order: Order<'a>,
    outcome: Outcome,
    listener: Listener<'a>,
    pace: Pace,
    of_nodes: BTreeSet<model::NodeId>,
}

impl Round<'_> {
    fn filespace(&mut self, ground: &Ground) -> Result<(), Status> {
        let failed = |error| refusal::catalog(&error);
        let before = self.outcome;
        let state = self.core.catalog.expiry(ground.filespace.id).map_err(failed)?;
        match state.done_to.filter(|_| !self.order.all && self.order.draft.is_none()) {
            Some(done_to) => self.where_due(ground, done_to)?,
            None => self.everywhere(ground)?,
        }
        if !self.order.is_dry {
            let done_to = Some(self.order.now);
            let mut writes = vec![Write::SetExpiry {
                filespace: ground.filespace.id,
                state: ExpiryState { done_to },
            }];
            if self.outcome.expired > before.expired {
                writes.push(Write::AddEvent(self.event(ground, &before)));
            }
            self.core.catalog.commit(writes).map_err(failed)?;
        }
        self.outcome.filespaces_done += 1;
        self.tell()
    }

    fn event(&self, ground: &Ground, before: &Outcome) -> EventRow {
        let expired = self.outcome.expired - before.expired;
        let bytes = self.outcome.expired_bytes - before.expired_bytes;
        let filespace = model::escaped(&ground.filespace.name);
        let node = &ground.node.name;
        EventRow {
            time: self.order.now,
            actor: "server".to_owned(),
            what: "versions expired".to_owned(),
            details: format!(
                "{expired} versions of {bytes} bytes of node {node}, filespace {filespace}"
            ),
        }
    }

    fn tell(&mut self) -> Result<(), Status> {
        let goes_on = (self.listener)(&self.outcome);
        if goes_on { Ok(()) } else { Err(Status::cancelled("the expiration was cancelled")) }
    }

    /// Every directory with inactive versions.
    fn everywhere(&mut self, ground: &Ground) -> Result<(), Status> {
        let span = PageSpan::Subtree(DirPath::above_root());
        let filespace = ground.filespace.id;
        let mut after: Option<DirPath> = None;
        loop {
            let found = self
                .core
                .catalog
                .version_directories(filespace, &span, after.as_ref(), DIRECTORIES_BATCH)
                .map_err(|error| refusal::catalog(&error))?;
            let Some(last) = found.last().cloned() else { return Ok(()) };
            self.directories(ground, found.into_iter().map(|path| (path, Vec::new())).collect())?;
            after = Some(last);
        }
    }

    /// The directories in which something has ended so long ago that a limit may be reached since
    /// `done_to`.
    fn where_due(&mut self, ground: &Ground, done_to: ServerTime) -> Result<(), Status> {
        let ages = ages(&ground.active);
        for days in windows(&ages, Day::of(done_to), Day::of(self.order.now)) {
            let mut after = None;
            loop {
                let found = self
                    .core
                    .catalog
                    .endings(ground.filespace.id, days, after.as_ref(), DIRECTORIES_BATCH)
                    .map_err(|error| refusal::catalog(&error))?;
                let Some(last) = found.last().cloned() else { break };
                let mut batch: BTreeMap<DirPath, Vec<Day>> = BTreeMap::new();
                for (day, path) in found {
                    batch.entry(path).or_default().push(day);
                }
                self.directories(ground, batch)?;
                after = Some(last);
            }
        }
        Ok(())
    }

    /// Looks at some directories, each with the days for which it was found.
    fn directories(
        &mut self,
        ground: &Ground,
        batch: BTreeMap<DirPath, Vec<Day>>,
    ) -> Result<(), Status> {
        let mut writes = Vec::new();
        let mut versions = 0;
        for (path, days) in batch {
            versions += self.directory(ground, &path, &days, &mut writes)?;
            if versions >= VERSIONS_BATCH {
                self.write(&mut writes)?;
                versions = 0;
            }
        }
        self.write(&mut writes)
    }

    fn write(&mut self, writes: &mut Vec<Write>) -> Result<(), Status> {
        let writes = std::mem::take(writes);
        if !self.order.is_dry && !writes.is_empty() {
            self.core.catalog.commit(writes).map_err(|error| refusal::catalog(&error))?;
        }
        self.tell()
    }

    /// The archives of a node of which something may be due.
    fn archives(&mut self, node: &Node, active: &PolicySet) -> Result<(), Status> {
        let failed = |error| refusal::catalog(&error);
        let now = self.order.now;
        let filespaces = self.core.catalog.filespaces(node.id).map_err(failed)?;
        for row in self.core.catalog.archives(node.id).map_err(failed)? {
            let waits = row.due.is_some_and(|due| due > now) && self.order.draft.is_none();
            if row.held || (waits && !self.order.all) {
                continue;
            }
            let mut change =
                ArchiveChange { due: Some(Some(ServerTime::MAX)), ..ArchiveChange::default() };
            let own = |known: &&Filespace| archive_number(&known.name) == Some(row.number);
            for filespace in filespaces.iter().filter(own) {
                self.archived(node, active, &row, filespace.id, &mut change)?;
            }
            if self.order.is_dry {
                continue;
            }
            let number = row.number;
            let mut writes = vec![Write::SetArchive { number, change }];
            if change.objects_added < 0 {
                let (count, name) = (-change.objects_added, &node.name);
                writes.push(Write::AddEvent(EventRow {
                    time: now,
                    actor: "server".to_owned(),
                    what: "archive copies expired".to_owned(),
                    details: format!("{count} objects of archive {number} of node {name}"),
                }));
            }
            self.core.catalog.commit(writes).map_err(failed)?;
            // What was deleted from it may still come back.
            let is_empty = row.complete && row.objects.cast_signed() + change.objects_added <= 0;
            if is_empty && self.core.catalog.deletions(Some(node.id)).map_err(failed)?.is_empty() {
                self.core.catalog.remove_archive(node.id, number).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// One filespace of an archive: what is due goes, and `change` hears of it.
    fn archived(
        &mut self,
        node: &Node,
        active: &PolicySet,
        row: &ArchiveRow,
        filespace: model::FilespaceId,
        change: &mut ArchiveChange,
    ) -> Result<(), Status> {
        let span = PageSpan::Subtree(DirPath::above_root());
        let now = self.order.now;
        let end = |set: &PolicySet, class| {
            expiry::archive_end(&set.archive_rules(class), row.created, row.event)
        };
        let mut after: Option<PageKey> = None;
        loop {
            let pages = self
                .core
                .catalog
                .pages(filespace, &span, after.as_ref(), PAGES_BATCH)
                .map_err(|error| refusal::catalog(&error))?;
            let Some(last) = pages.last().map(|page| page.key.clone()) else { return Ok(()) };
            let mut writes = Vec::new();
            for page in pages {
                let mut objects = decode_page(&page)?;
                let before = objects.len();
                self.pace.wait(before);
                self.outcome.examined += before as u64;
                objects.retain(|object| {
                    let ends = end(self.order.draft.unwrap_or(active), object.class);
                    if ends.is_none_or(|ends| ends > now) {
                        change.due = change.due.map(|due| due.min(ends.or(due)));
                        return true;
                    }
                    let bytes = if object.stat.kind == Kind::File { object.stat.size } else { 0 };
                    self.outcome.expired += 1;
                    self.outcome.expired_bytes += bytes;
                    change.objects_added -= 1;
                    change.bytes_added -= bytes.cast_signed();
                    let anyway = end(active, object.class).is_some_and(|ends| ends <= now);
                    self.outcome.due_anyway += u64::from(anyway && self.order.draft.is_some());
                    false
                });
                if objects.len() < before {
                    if self.of_nodes.insert(node.id) {
                        self.outcome.nodes += 1;
                    }
                    writes.push(archive::rewritten(filespace, page.key, &objects));
                }
            }
            self.write(&mut writes)?;
            after = Some(last);
        }
    }

    /// Adds what becomes of the directory to `writes`; returns how many versions it drops.
    fn directory(
        &mut self,
        ground: &Ground,
        path: &DirPath,
        days: &[Day],
        writes: &mut Vec<Write>,
    ) -> Result<usize, Status> {
        let filespace = ground.filespace.id;
        let failed = |error| refusal::catalog(&error);
        let rows = self.core.catalog.versions(filespace, path).map_err(failed)?;
        self.pace.wait(rows.len());
        let active = self.active_classes(ground, path, &rows)?;
        let mut dropped: Vec<VersionKey> = Vec::new();
        for of_object in rows.chunk_by(|a, b| a.name == b.name) {
            let active = active.get(&of_object[0].name).copied();
            let due =
                due(self.order.draft.unwrap_or(&ground.active), of_object, active, self.order.now)?;
            if self.order.draft.is_some() {
                let anyway = self::due(&ground.active, of_object, active, self.order.now)?;
                let both = due.iter().filter(|rank| anyway.contains(rank)).count();
                self.outcome.due_anyway += both as u64;
            }
            for rank in due {
                let row = &of_object[rank];
                let stat = object_of(row)?.stat;
                self.outcome.expired_bytes += if stat.kind == Kind::File { stat.size } else { 0 };
                let VersionRow { name, inserted, deactivated, .. } = row.clone();
                dropped.push(VersionKey { name, inserted, deactivated });
            }
        }
        self.outcome.directories += 1;
        self.outcome.examined += rows.len() as u64;
        self.outcome.expired += dropped.len() as u64;
        let count = dropped.len();
        if count > 0 && self.of_nodes.insert(ground.node.id) {
            self.outcome.nodes += 1;
        }
        let goes = |row: &&VersionRow| {
            !dropped
                .iter()
                .any(|gone| gone.name == row.name && gone.deactivated == row.deactivated)
        };
        let left: BTreeSet<Day> =
            rows.iter().filter(goes).map(|row| Day::of(row.deactivated)).collect();
        let all_days = rows.iter().map(|row| Day::of(row.deactivated)).chain(days.iter().copied());
        let done: BTreeSet<Day> = all_days.filter(|day| !left.contains(day)).collect();
        if count > 0 {
            let directory = path.clone();
            writes.push(Write::DropVersions { filespace, directory, versions: dropped });
        }
        let unmark = |day| Write::UnmarkDirectory { filespace, directory: path.clone(), day };
        writes.extend(done.into_iter().map(unmark));
        Ok(count)
    }

    /// The classes of those objects of `rows` that are active.
    fn active_classes(
        &self,
        ground: &Ground,
        path: &DirPath,
        rows: &[VersionRow],
    ) -> Result<BTreeMap<Name, ClassId>, Status> {
        let mut wanted: BTreeSet<Name> = rows.iter().map(|row| row.name.clone()).collect();
        let mut found = BTreeMap::new();
        let span = PageSpan::Directory(path.clone());
        let mut after: Option<PageKey> = None;
        while !wanted.is_empty() {
            let pages = self
                .core
                .catalog
                .pages(ground.filespace.id, &span, after.as_ref(), PAGES_BATCH)
                .map_err(|error| refusal::catalog(&error))?;
            let Some(last) = pages.last().map(|page| page.key.clone()) else { break };
            for (at, row) in pages.iter().enumerate() {
                // What the next page begins with bounds the names of this one.
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

/// The ranks of the versions of one object, newest first, that `set` drops at `now`. All versions
/// follow the class of the active one, or of the last.
fn due(
    set: &PolicySet,
    rows: &[VersionRow],
    active: Option<ClassId>,
    now: ServerTime,
) -> Result<Vec<usize>, Status> {
    let class = match active {
        Some(class) => class,
        None => object_of(&rows[0])?.class,
    };
    let ended: Vec<ServerTime> = rows.iter().map(|row| row.deactivated).collect();
    let by = |class| expiry::dropped(&set.backup_rules(class), active.is_some(), &ended, now);
    let mut due = by(class);
    if due.is_empty() || !set.classes.iter().any(|class| class.is_locked(now)) {
        return Ok(due);
    }
    // What a locked class holds stays as long as that class says, whatever the object is bound to
    // since.
    let mut stays = BTreeSet::new();
    for rank in &due {
        let own = object_of(&rows[*rank])?.class;
        let is_locked = set.class(own).is_some_and(|class| class.is_locked(now));
        if own != class && is_locked && !by(own).contains(rank) {
            stays.insert(*rank);
        }
    }
    due.retain(|rank| !stays.contains(rank));
    Ok(due)
}

fn object_of(row: &VersionRow) -> Result<model::Object, Status> {
    let damaged = || {
        let path = model::escaped(&row.directory.join(&row.name));
        Status::data_loss(format!("the catalogue's version of {path} is damaged"))
    };
    let objects = page::decode(&row.body).map_err(|_| damaged())?;
    objects.into_iter().next().ok_or_else(damaged)
}

/// The days after the end of a version on which a rule of the set may drop it: 0 for the limits on
/// number.
fn ages(set: &PolicySet) -> BTreeSet<u16> {
    let classes = set.classes.iter().map(|class| set.backup_rules(class.id));
    let grace = policy::BackupCopyGroup::grace(set.backup_grace_days);
    let rules = classes.chain([grace]);
    rules
        .flat_map(|rules| expiry::ages(&rules).collect::<Vec<_>>())
        .chain([0])
        .collect()
}

/// The days of endings to look at, from and to, none twice, the latest first.
fn windows(ages: &BTreeSet<u16>, done_to: Day, now: Day) -> Vec<(Day, Day)> {
    let mut windows: Vec<(Day, Day)> = Vec::new();
    for age in ages {
        let window = (Day(done_to.0 - i64::from(*age)), Day(now.0 - i64::from(*age)));
        match windows.last_mut() {
            Some(last) if window.1.0 + 1 >= last.0.0 => last.0 = window.0.min(last.0),
            _ => windows.push(window),
        }
    }
    windows
}

/// Keeps to a number of versions a second.
struct Pace {
    started: Instant,
    rate: Option<u32>,
    versions: u64,
}

impl Pace {
    fn new(rate: Option<u32>) -> Self {
        Self { started: sys::clock::monotonic(), rate, versions: 0 }
    }

    fn wait(&mut self, versions: usize) {
        self.versions += versions as u64;
        let Some(rate) = self.rate.filter(|rate| *rate > 0) else { return };
        let due = Duration::from_micros(self.versions.saturating_mul(1_000_000) / u64::from(rate));
        let early = due.saturating_sub(self.started.elapsed());
        if !early.is_zero() {
            sys::clock::sleep(early);
        }
    }
}

/// Runs expiration where the last is so many hours ago, as the server does by itself.
pub(crate) fn run_due(core: &Core, every_hours: u32) -> Result<Option<Outcome>, Status> {
    let failed = |error| refusal::catalog(&error);
    let now = sys::clock::now();
    let every_micros = i64::from(every_hours) * 3_600_000_000;
    let mut due = Vec::new();
    let mut due_since = now;
    for node in core.catalog.nodes().map_err(failed)? {
        let mut is_due = false;
        for filespace in core.catalog.filespaces(node.id).map_err(failed)? {
            if archive_number(&filespace.name).is_some() {
                continue;
            }
            let state = core.catalog.expiry(filespace.id).map_err(failed)?;
            let Some(done_to) = state.done_to else {
                is_due = true;
                continue;
            };
            let since = now.0 - done_to.0;
            if since > LEAP_DAYS_MAX * 86_400_000_000 {
                return Err(Status::failed_precondition(format!(
                    "the clock is more than {LEAP_DAYS_MAX} days ahead of the last expiration; if \
                     it is right, run 'holdfast admin expire'"
                )));
            }
            if since >= every_micros {
                is_due = true;
                due_since = due_since.min(ServerTime(done_to.0 + every_micros));
            }
        }
        let archives = core.catalog.archives(node.id).map_err(failed)?;
        is_due |= archives.iter().any(|row| !row.held && row.due.is_none_or(|due| due <= now));
        if is_due {
            due.push(node);
        }
    }
    if due.is_empty() {
        return Ok(None);
    }
    let stopping = &core.stopping;
    let work = || run(core, &due, Order::due(), &mut |_| !stopping.load(Ordering::Relaxed));
    tasks::run(&*core.catalog, (Task::Expire, due_since), work, |_| None).map(Some)
}

#[cfg(test)]
mod tests;
