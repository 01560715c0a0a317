//! Object locks: an object store keeps the data of locked classes, even from somebody who has the
//! server's keys.
//!
//! A pack is held for as long as policy promises to keep any of its data. A backup or archive holds
//! its packs before the catalogue names them: a commit whose packs cannot be held fails. Once a
//! day, and on an administrator's request, a run holds all packs anew, because the retention of
//! active versions grows from day to day.
//!
//! If anything is locked, the newest copy of the catalogue is held too. Without a catalogue nobody
//! can tell what the packs contain.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::StoreError;
use catalog::ArchiveRow;
use model::{FilespaceId, NodeId, Object, PackNumber, ServerTime, archive_number};
use policy::{PolicySet, RetentionStart, lock};
use pool::Hold;

use crate::counts::counted;
use crate::lifecycle::catalog_copy;
use crate::lifecycle::images::Heads;
use crate::lifecycle::records::{self, Record, VisitEvent};
use crate::lifecycle::tasks::{self, OpenRun, Task};
use crate::places::places;
use crate::pools::outcome::{Listener, Outcome};
use crate::store::Store;

/// Number of days by which packs of active versions are held longer than they must be. A later run
/// holds the packs anew when these days have passed.
const AHEAD_DAYS: i64 = 30;
/// Number of days for which a copy of the catalogue is held.
const COPY_DAYS: i64 = 30;
/// Number of packs that are held at once before the result is checked.
const BATCH: usize = 64;
const DAY_MICROS: i64 = 86_400_000_000;

type Holds = BTreeMap<PackNumber, Hold>;

/// Returns the hold until `least`. If the hold grows from day to day, it lasts some days longer,
/// but not beyond `locked`, the day on which the lock of the class ends.
fn hold(least: Option<ServerTime>, grows: bool, locked: Option<ServerTime>) -> Option<Hold> {
    let least = least?;
    let ahead = ServerTime(least.0.saturating_add(AHEAD_DAYS * DAY_MICROS));
    let most = if grows { ahead.min(locked.unwrap_or(least)).max(least) } else { least };
    assert!(least <= most, "a hold is at least what policy promises");
    Some(Hold { least, most })
}

/// Times at which the retention of an archive's objects may begin.
#[derive(Clone, Copy, Debug)]
struct ArchiveTimes {
    created: ServerTime,
    /// Time of the archive's event, after it has happened.
    event: Option<ServerTime>,
}

/// Returns the hold on the packs of an object, which belongs to an archive or to a backup.
/// `deactivated` is the end of an inactive version. Returns `None` if nothing must be held.
fn hold_of(
    set: &PolicySet,
    object: &Object,
    deactivated: Option<ServerTime>,
    archive: Option<ArchiveTimes>,
    now: ServerTime,
) -> Option<Hold> {
    let locked = set.class(object.class)?.locked_until;
    match archive {
        Some(ArchiveTimes { created, event }) => {
            let starts = set.archive_rules(object.class).starts;
            let waits = starts == RetentionStart::Event && event.is_none();
            let least = lock::archive_lock(set, object.class, (created, event), now);
            hold(least, waits, locked)
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

/// Rules for the holds of a session's packs.
pub struct HoldRules {
    set: PolicySet,
    /// Beginning of the archive that the session writes, if it writes an archive.
    archive: Option<ServerTime>,
}

impl HoldRules {
    /// Returns the rules of a session; `None` if nothing is locked.
    pub fn new(store: &Store, set: &PolicySet, archive: Option<ServerTime>) -> Option<Self> {
        let now = sys::clock::now();
        let any = set.classes.iter().any(|class| class.is_locked(now));
        (any && store.pools.has_locks()).then(|| Self { set: set.clone(), archive })
    }

    /// Adds the holds of the packs of `objects`, which are stored at the time `now`.
    pub fn add<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Object>,
        now: ServerTime,
        holds: &mut Holds,
    ) {
        for object in objects {
            let archive = self.archive.map(|created| ArchiveTimes { created, event: None });
            if let Some(hold) = hold_of(&self.set, object, None, archive, now) {
                add(holds, object, hold);
            }
        }
    }
}

/// Holds the packs that a transaction is about to name for locked classes. Syncs the pools first:
/// only objects that are in the bucket can be held.
pub fn apply(store: &Store, holds: &Holds) -> Result<(), StoreError> {
    if holds.is_empty() {
        return Ok(());
    }
    store.pools.sync()?;
    let all: Vec<(PackNumber, Hold)> = holds.iter().map(|(pack, hold)| (*pack, *hold)).collect();
    // The packs are held in batches, so that an object store that does not answer is not asked for
    // every pack.
    all.chunks(BATCH).try_for_each(|some| match store.pools.hold_all(some).first() {
        None => Ok(()),
        Some((pack, error)) => {
            let message = format!("pack {pack} cannot be locked as policy requires: {error}");
            Err(StoreError::away(message))
        }
    })
}

/// Returns the reason why a locked pack stays, as a text for people.
pub(crate) fn reason_to_stay(until: ServerTime) -> String {
    let days = (until.0 - sys::clock::system().0).max(0) / DAY_MICROS + 1;
    let plural = if days == 1 { "" } else { "s" };
    format!("the object store keeps the pack for {days} more day{plural}")
}

/// Holds all packs of locked classes that are not held long enough.
pub fn run(store: &Arc<Store>, listener: Listener<'_>) -> Result<Outcome, StoreError> {
    if !store.pools.has_locks() {
        return Err(StoreError::conflict(
            "no pool locks its objects; add lock=governance or lock=compliance to a pool's URL",
        ));
    }
    let holds = holds(store, listener)?;
    let mut outcome = apply_all(store, &holds, listener)?;
    if !holds.is_empty() {
        hold_copy(store, &mut outcome)?;
    }
    let (packs, stay) = (outcome.packs_done, outcome.failures.len());
    if packs > 0 {
        let packs = counted(packs, "pack");
        store.record("packs locked", format!("{packs}; {stay} could not be locked"))?;
    }
    Ok(outcome)
}

/// Holds all packs as a task, if there is anything to lock.
pub fn run_due(store: &Arc<Store>) -> Result<Outcome, StoreError> {
    if !store.pools.has_locks() || !has_locked_classes(store, sys::clock::now())? {
        return Ok(Outcome::default());
    }
    let work = |open: &mut OpenRun<'_>| {
        run(store, &mut |now: &Outcome| {
            open.goes_on(|| now.numbers()) && !store.stopping.load(Ordering::Relaxed)
        })
    };
    let trouble = |outcome: &Outcome| {
        let failed = outcome.failures.len();
        (failed > 0).then(|| format!("{} could not be locked", counted(failed as u64, "pack")))
    };
    let task = (Task::LockPacks, sys::clock::now());
    tasks::run(&*store.catalog, &store.tasks, task, work, trouble)
}

fn has_locked_classes(store: &Store, now: ServerTime) -> Result<bool, StoreError> {
    let domains = store.catalog.domains()?;
    let mut classes = domains.iter().flat_map(|domain| &domain.active.classes);
    Ok(classes.any(|class| class.is_locked(now)))
}

/// Returns the holds of all packs according to the active policies.
fn holds(store: &Store, listener: Listener<'_>) -> Result<Holds, StoreError> {
    let now = sys::clock::now();
    let mut holds = Holds::new();
    if !has_locked_classes(store, now)? {
        return Ok(holds);
    }
    let sets = sets(store)?;
    let (archives, images) = (archives(store)?, images(store)?);
    records::visit(store, &mut |seen| {
        let VisitEvent::Record(owner, record) = seen else {
            let text = "the run was cancelled; the next run does the rest";
            let cancelled = || StoreError::cancelled(text);
            return listener(&Outcome::default()).then_some(()).ok_or_else(cancelled);
        };
        let Some(set) = sets.get(&owner.node) else { return Ok(()) };
        let deactivated = match (&record, images.get(&owner.filespace)) {
            (Record::Page(_), _) => None,
            (Record::Version(part), Some(heads)) => heads.end_of(part),
            (Record::Version(row) | Record::Trash(_, row), _) => Some(row.deactivated),
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

/// Returns the active policy of each node.
fn sets(store: &Store) -> Result<HashMap<NodeId, PolicySet>, StoreError> {
    let domains = store.catalog.domains()?;
    let nodes = store.catalog.nodes()?;
    let of = |node: &catalog::Node| {
        let domain = domains.iter().find(|domain| domain.id == node.domain)?;
        Some((node.id, domain.active.clone()))
    };
    Ok(nodes.iter().filter_map(of).collect())
}

/// Returns the times of all archives, by the archives' filespaces.
fn archives(store: &Store) -> Result<HashMap<FilespaceId, ArchiveTimes>, StoreError> {
    let mut times = HashMap::new();
    for node in store.catalog.nodes()? {
        let rows = store.catalog.archives(node.id)?;
        let rows: HashMap<u64, ArchiveRow> =
            rows.into_iter().map(|row| (row.number, row)).collect();
        for filespace in store.catalog.filespaces(node.id)? {
            let row = archive_number(&filespace.name).and_then(|number| rows.get(&number));
            if let Some(row) = row {
                let of_archive = ArchiveTimes { created: row.created, event: row.event };
                times.insert(filespace.id, of_archive);
            }
        }
    }
    Ok(times)
}

/// Returns the heads of all images, by the images' filespaces. Parts are held as long as the images
/// that need them.
fn images(store: &Store) -> Result<HashMap<FilespaceId, Heads>, StoreError> {
    let mut images = HashMap::new();
    for node in store.catalog.nodes()? {
        for filespace in store.catalog.filespaces(node.id)? {
            images.extend(Heads::read(store, &filespace)?.map(|heads| (filespace.id, heads)));
        }
    }
    Ok(images)
}

/// Applies the holds, several packs at once.
fn apply_all(store: &Store, holds: &Holds, listener: Listener<'_>) -> Result<Outcome, StoreError> {
    let rows = store.catalog.packs()?;
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
        // A pack that was removed meanwhile needs no lock.
        let failures = store.pools.hold_all(some).into_iter();
        let failures: Vec<(PackNumber, String)> = failures
            .filter(|(_, error)| error.kind() != io::ErrorKind::NotFound)
            .map(|(pack, error)| (pack, error.to_string()))
            .collect();
        if let Some((pack, error)) = failures.first()
            && failures.len() == some.len()
        {
            // All packs of the batch have failed, so the fault is not with the packs.
            return Err(StoreError::away(format!("pack {pack} cannot be locked: {error}")));
        }
        let has_failed: BTreeSet<PackNumber> = failures.iter().map(|(pack, _)| *pack).collect();
        let done = some.iter().filter(|(pack, _)| !has_failed.contains(pack));
        assert!(has_failed.len() <= some.len(), "only packs of the batch can fail");
        outcome.packs_done += (some.len() - has_failed.len()) as u64;
        outcome.bytes_done += done.map(|(pack, _)| bytes(pack)).sum::<u64>();
        outcome.failures.extend(failures);
        if !listener(&outcome) {
            return Err(StoreError::cancelled("the run was cancelled; the next run does the rest"));
        }
    }
    outcome.failures.sort_unstable();
    Ok(outcome)
}

/// Holds the newest copy of the catalogue, if there is one, and its packs.
fn hold_copy(store: &Store, outcome: &mut Outcome) -> Result<(), StoreError> {
    let Some(copy) = catalog_copy::all(store).pop() else { return Ok(()) };
    let until = ServerTime(copy.taken.0.saturating_add(COPY_DAYS * DAY_MICROS));
    if until <= sys::clock::system() {
        return Ok(());
    }
    let hold = Hold { least: until, most: until };
    let packs: BTreeSet<PackNumber> = copy.places.iter().map(|place| place.pack()).collect();
    let packs: Vec<(PackNumber, Hold)> = packs.into_iter().map(|pack| (pack, hold)).collect();
    let failures = store.pools.hold_all(&packs).into_iter();
    outcome.failures.extend(failures.map(|(pack, error)| (pack, error.to_string())));
    let name = catalog_copy::name(copy.number);
    store.pools.hold_file(&name, hold).map(drop).map_err(|error| {
        let number = copy.number;
        StoreError::away(format!("copy {number} of the catalogue cannot be locked: {error}"))
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

    /// Returns the minimum and the maximum time of a hold, in days.
    fn held(
        set: &PolicySet,
        deactivated: Option<i64>,
        archive: Option<(i64, Option<i64>)>,
    ) -> Option<(i64, i64)> {
        let name = model::Name::new(b"a").expect("a name");
        let object = samples::file(name, set.default_class, 0, Vec::new());
        let archive = archive
            .map(|(created, event)| ArchiveTimes { created: day(created), event: event.map(day) });
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
        assert_eq!(held(&of(1000), Some(90), None), Some((140, 140)), "an inactive version");
        assert_eq!(held(&of(1000), Some(20), None), None);
        assert_eq!(held(&of(1000), None, Some((80, None))), Some((130, 130)), "an archive copy");
        let waits = set(1000, RetentionStart::Event);
        assert_eq!(held(&waits, None, Some((80, None))), Some((150, 180)));
        assert_eq!(held(&waits, None, Some((80, Some(85)))), Some((135, 135)));
    }
}
