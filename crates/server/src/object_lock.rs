//! Locks in object stores: what a locked class of policy holds stays there, whoever's keys somebody
//! has.
//!
//! A pack is held for as long as policy promises of anything in it. What a backup or an archive
//! stores is held before the catalogue names it, so that there is no way around: what cannot be
//! held is not stored. Once a day, and when somebody asks for it, all packs are looked at: what is
//! active has its days still before it, and is held anew.
//!
//! Where anything is locked the newest copy of the catalogue is held too: without it nobody knows
//! what the packs are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::ArchiveRow;
use model::{FilespaceId, NodeId, Object, PackNumber, ServerTime, archive_number};
use policy::{PolicySet, RetentionStart, lock};
use pool::Hold;
use tonic::Status;

use crate::catalog_copy;
use crate::core::Core;
use crate::pools::{self, Outcome};
use crate::records::{self, Record, Seen};
use crate::refusal;
use crate::restore::places;
use crate::tasks::{self, Task};

/// What is active is held for so much longer than it must: it is held anew when that is used up.
const AHEAD_DAYS: i64 = 30;
/// A copy of the catalogue is held for so long.
const COPY_DAYS: i64 = 30;
/// Packs that stores are told of before it is seen how that goes.
const BATCH: usize = 64;
const DAY_MICROS: i64 = 86_400_000_000;

type Holds = BTreeMap<PackNumber, Hold>;

fn failed(error: catalog::CatalogError) -> Status {
    refusal::catalog(&error)
}

/// Held until `least`, and where that grows from day to day for a while longer, but never beyond
/// the day on which the class is not locked any more.
fn hold(least: Option<ServerTime>, grows: bool, locked: Option<ServerTime>) -> Option<Hold> {
    let least = least?;
    let ahead = ServerTime(least.0.saturating_add(AHEAD_DAYS * DAY_MICROS));
    let most = if grows { ahead.min(locked.unwrap_or(least)).max(least) } else { least };
    Some(Hold { least, most })
}

/// For how long what an object of `record` has must stay.
fn hold_of(
    set: &PolicySet,
    object: &Object,
    deactivated: Option<ServerTime>,
    archive: Option<(ServerTime, Option<ServerTime>)>,
    now: ServerTime,
) -> Option<Hold> {
    let locked = set.class(object.class)?.locked_until;
    match archive {
        Some(made) => {
            let starts = set.archive_rules(object.class).starts;
            let waits = starts == RetentionStart::Event && made.1.is_none();
            hold(lock::archive_lock(set, object.class, made, now), waits, locked)
        }
        None => {
            let least = lock::version_lock(set, object.class, deactivated, now);
            hold(least, deactivated.is_none(), locked)
        }
    }
}

fn add(holds: &mut Holds, object: &Object, hold: Hold) {
    let packs: BTreeSet<PackNumber> = places(object).map(|place| place.pack()).collect();
    for pack in packs {
        let held = holds.entry(pack).or_insert(hold);
        *held = held.and(hold);
    }
}

/// What a session stores for classes that are locked.
pub(crate) struct Session {
    set: PolicySet,
    /// Of an archive: when it was begun.
    archive: Option<ServerTime>,
}

impl Session {
    /// `None` where nothing is to be locked.
    pub(crate) fn new(core: &Core, set: &PolicySet, archive: Option<ServerTime>) -> Option<Self> {
        let now = sys::clock::now();
        let any = set.classes.iter().any(|class| class.is_locked(now));
        (any && core.pools.has_locks()).then(|| Self { set: set.clone(), archive })
    }

    /// Adds for how long the packs of `objects`, which are stored now, must stay.
    pub(crate) fn add<'a>(&self, objects: impl IntoIterator<Item = &'a Object>, holds: &mut Holds) {
        let now = sys::clock::now();
        for object in objects {
            let made = self.archive.map(|created| (created, None));
            if let Some(hold) = hold_of(&self.set, object, None, made, now) {
                add(holds, object, hold);
            }
        }
    }
}

/// Holds the packs that a transaction is about to name for a locked class. All that it has appended
/// is with the store then.
pub(crate) fn apply(core: &Core, holds: &Holds) -> Result<(), Status> {
    if holds.is_empty() {
        return Ok(());
    }
    core.pools.sync().map_err(|error| refusal::append(&error))?;
    let all: Vec<(PackNumber, Hold)> = holds.iter().map(|(pack, hold)| (*pack, *hold)).collect();
    // A store that does not answer is not asked for each.
    all.chunks(BATCH).try_for_each(|some| match core.pools.hold_all(some).first() {
        None => Ok(()),
        Some((pack, error)) => {
            let message =
                format!("pack {pack} cannot be locked, which its policy asks for: {error}");
            Err(Status::unavailable(message))
        }
    })
}

/// Why a pack stays.
pub(crate) fn told(until: ServerTime) -> String {
    let days = (until.0 - sys::clock::system().0).max(0) / DAY_MICROS + 1;
    format!("the object store keeps it for {days} more days")
}

/// Looks at all that is locked, and holds what is not held long enough.
pub(crate) fn run(core: &Arc<Core>, listener: pools::Listener<'_>) -> Result<Outcome, Status> {
    if !core.pools.has_locks() {
        return Err(Status::failed_precondition(
            "no pool locks its objects: its URL has lock=governance or lock=compliance",
        ));
    }
    let holds = holds(core, listener)?;
    let mut outcome = tell(core, &holds, listener)?;
    if !holds.is_empty() {
        hold_copy(core, &mut outcome)?;
    }
    let (packs, stay) = (outcome.packs_done, outcome.failures.len());
    if packs > 0 {
        core.record("packs locked", format!("{packs} packs; {stay} could not be locked"))?;
    }
    Ok(outcome)
}

/// The same, where there is anything to lock.
pub(crate) fn run_due(core: &Arc<Core>) -> Result<Outcome, Status> {
    if !core.pools.has_locks() || !has_locked_classes(core, sys::clock::now())? {
        return Ok(Outcome::default());
    }
    let work = || run(core, &mut |_| !core.stopping.load(Ordering::Relaxed));
    let trouble = |outcome: &Outcome| {
        let failed = outcome.failures.len();
        (failed > 0).then(|| format!("{failed} packs could not be locked"))
    };
    tasks::run(&*core.catalog, (Task::LockPacks, sys::clock::now()), work, trouble)
}

fn has_locked_classes(core: &Core, now: ServerTime) -> Result<bool, Status> {
    let domains = core.catalog.domains().map_err(failed)?;
    let mut classes = domains.iter().flat_map(|domain| &domain.active.classes);
    Ok(classes.any(|class| class.is_locked(now)))
}

/// For how long each pack must stay.
fn holds(core: &Core, listener: pools::Listener<'_>) -> Result<Holds, Status> {
    let now = sys::clock::now();
    let mut holds = Holds::new();
    if !has_locked_classes(core, now)? {
        return Ok(holds);
    }
    let sets = sets(core)?;
    let archives = archives(core)?;
    records::visit(core, &mut |seen| {
        let Seen::Record(owner, record) = seen else {
            let cancelled = || Status::cancelled("it was cancelled; the next run goes on");
            return listener(&Outcome::default()).then_some(()).ok_or_else(cancelled);
        };
        let Some(set) = sets.get(&owner.node) else { return Ok(()) };
        let deactivated = match &record {
            Record::Page(_) => None,
            Record::Version(row) | Record::Trash(_, row) => Some(row.deactivated),
        };
        let archive = archives.get(&owner.filespace).copied();
        for object in record.objects()? {
            if let Some(hold) = hold_of(set, &object, deactivated, archive, now) {
                add(&mut holds, &object, hold);
            }
        }
        Ok(())
    })?;
    Ok(holds)
}

/// The active policy of each node.
fn sets(core: &Core) -> Result<HashMap<NodeId, PolicySet>, Status> {
    let domains = core.catalog.domains().map_err(failed)?;
    let nodes = core.catalog.nodes().map_err(failed)?;
    let of = |node: &catalog::Node| {
        let domain = domains.iter().find(|domain| domain.id == node.domain)?;
        Some((node.id, domain.active.clone()))
    };
    Ok(nodes.iter().filter_map(of).collect())
}

/// When each archive was made, and its event, by its filespaces.
fn archives(core: &Core) -> Result<HashMap<FilespaceId, (ServerTime, Option<ServerTime>)>, Status> {
    let mut made = HashMap::new();
    for node in core.catalog.nodes().map_err(failed)? {
        let rows = core.catalog.archives(node.id).map_err(failed)?;
        let rows: HashMap<u64, ArchiveRow> =
            rows.into_iter().map(|row| (row.number, row)).collect();
        for filespace in core.catalog.filespaces(node.id).map_err(failed)? {
            let row = archive_number(&filespace.name).and_then(|number| rows.get(&number));
            if let Some(row) = row {
                made.insert(filespace.id, (row.created, row.event));
            }
        }
    }
    Ok(made)
}

/// Tells the stores, several packs at once.
fn tell(core: &Core, holds: &Holds, listener: pools::Listener<'_>) -> Result<Outcome, Status> {
    let rows = core.catalog.packs().map_err(failed)?;
    let bytes: HashMap<PackNumber, u64> =
        rows.into_iter().map(|row| (row.number, row.bytes)).collect();
    let bytes = |pack: &PackNumber| bytes.get(pack).copied().unwrap_or(0);
    let all: Vec<(PackNumber, Hold)> = holds.iter().map(|(pack, hold)| (*pack, *hold)).collect();
    let mut outcome = Outcome {
        packs: all.len() as u64,
        bytes: holds.keys().map(bytes).sum(),
        ..Outcome::default()
    };
    for some in all.chunks(BATCH) {
        // One that has gone meanwhile needs no lock.
        let failures = core.pools.hold_all(some).into_iter();
        let failures: Vec<(PackNumber, String)> = failures
            .filter(|(_, error)| error.kind() != io::ErrorKind::NotFound)
            .map(|(pack, error)| (pack, error.to_string()))
            .collect();
        if let Some((pack, error)) = failures.first()
            && failures.len() == some.len()
        {
            // It is not the packs.
            return Err(Status::unavailable(format!("pack {pack} cannot be locked: {error}")));
        }
        let has_failed: BTreeSet<PackNumber> = failures.iter().map(|(pack, _)| *pack).collect();
        let done = some.iter().filter(|(pack, _)| !has_failed.contains(pack));
        outcome.packs_done += (some.len() - has_failed.len()) as u64;
        outcome.bytes_done += done.map(|(pack, _)| bytes(pack)).sum::<u64>();
        outcome.failures.extend(failures);
        if !listener(&outcome) {
            return Err(Status::cancelled("it was cancelled; the next run goes on"));
        }
    }
    outcome.failures.sort_unstable();
    Ok(outcome)
}

/// Holds the newest copy of the catalogue, where there is one.
fn hold_copy(core: &Core, outcome: &mut Outcome) -> Result<(), Status> {
    let Some(copy) = catalog_copy::all(core).pop() else { return Ok(()) };
    let until = ServerTime(copy.taken.0.saturating_add(COPY_DAYS * DAY_MICROS));
    if until <= sys::clock::system() {
        return Ok(());
    }
    let hold = Hold { least: until, most: until };
    let packs: BTreeSet<PackNumber> = copy.places.iter().map(|place| place.pack()).collect();
    let packs: Vec<(PackNumber, Hold)> = packs.into_iter().map(|pack| (pack, hold)).collect();
    let failures = core.pools.hold_all(&packs).into_iter();
    outcome.failures.extend(failures.map(|(pack, error)| (pack, error.to_string())));
    let name = catalog_copy::name(copy.number);
    core.pools.hold_file(&name, hold).map(drop).map_err(|error| {
        Status::unavailable(format!("copy {} of the catalogue is not locked: {error}", copy.number))
    })
}

#[cfg(test)]
mod tests {
    use policy::{ArchiveCopyGroup, BackupCopyGroup, Limit};

    use super::*;
    use crate::samples;

    fn day(days: i64) -> ServerTime {
        ServerTime(days * DAY_MICROS)
    }

    /// Least and most, in days.
    fn held(
        set: &PolicySet,
        deactivated: Option<i64>,
        archive: Option<(i64, Option<i64>)>,
    ) -> Option<(i64, i64)> {
        let name = model::Name::new(b"a").expect("a name");
        let object = samples::file(name, set.default_class, 0, Vec::new());
        let archive = archive.map(|(created, event)| (day(created), event.map(day)));
        let hold = hold_of(set, &object, deactivated.map(day), archive, day(100))?;
        Some((hold.least.0 / DAY_MICROS, hold.most.0 / DAY_MICROS))
    }

    fn set(locked: i64, starts: RetentionStart) -> PolicySet {
        let days = Limit::AtMost(50);
        let mut set = PolicySet::standard(model::ClassId(1));
        let class = &mut set.classes[0];
        class.locked_until = Some(day(locked));
        let backup =
            BackupCopyGroup { extra_days: days, only_days: days, ..BackupCopyGroup::default() };
        class.backup = Some(backup);
        class.archive = Some(ArchiveCopyGroup { keep_days: days, starts, minimum_days: 10 });
        set
    }

    #[test]
    fn what_has_its_days_before_it_is_held_ahead_and_never_beyond_its_class() {
        let of = |locked| set(locked, RetentionStart::Creation);
        assert_eq!(held(&of(1000), None, None), Some((150, 180)));
        assert_eq!(held(&of(160), None, None), Some((150, 160)));
        assert_eq!(held(&of(1000), Some(90), None), Some((140, 140)), "its end is known");
        assert_eq!(held(&of(1000), Some(20), None), None);
        assert_eq!(held(&of(1000), None, Some((80, None))), Some((130, 130)), "an archive's, too");
        let waits = set(1000, RetentionStart::Event);
        assert_eq!(held(&waits, None, Some((80, None))), Some((150, 180)));
        assert_eq!(held(&waits, None, Some((80, Some(85)))), Some((135, 135)));
    }
}
