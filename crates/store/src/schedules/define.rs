//! Schedules as administrators make them.

use catalog::{Association, Follower, ScheduleRow, VolumeRow};
use policy::schedule::{Action, Definition, LIBRARY, Place, Word, Work};

use super::announcement::announce;
use super::differences::differences;
use super::followers::Followers;
use crate::domains::note_by;
use crate::error::StoreError;
use crate::names::check_name;
use crate::pools;
use crate::store::Store;

/// A schedule with its followers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub row: ScheduleRow,
    pub definition: Definition,
    pub followers: Vec<Follower>,
}

/// Returns the definition of a schedule in the catalogue.
pub(super) fn definition(row: &ScheduleRow) -> Result<Definition, StoreError> {
    serde_json::from_str(&row.body).map_err(|error| {
        StoreError::damaged(format!(
            "the definition of schedule {} cannot be read: {error}; define it again",
            row.name
        ))
    })
}

/// Lists the schedule `name`, or all schedules.
pub fn list(store: &Store, name: Option<&str>) -> Result<Vec<Schedule>, StoreError> {
    let mut rows = store.catalog.schedules()?;
    if let Some(name) = name {
        rows.retain(|row| row.name.eq_ignore_ascii_case(name));
        if rows.is_empty() {
            return Err(unknown(name));
        }
    }
    let followers = Followers::read(&*store.catalog)?;
    let describe = |row: ScheduleRow| {
        let (definition, followers) = (definition(&row)?, followers.named(&row.name));
        Ok(Schedule { row, definition, followers })
    };
    rows.into_iter().map(describe).collect()
}

/// Finds a schedule.
pub(super) fn find(store: &Store, name: &str) -> Result<Schedule, StoreError> {
    list(store, Some(name))?.pop().ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> StoreError {
    StoreError::not_found(format!(
        "there is no schedule {name}; 'holdfast admin schedule list' shows all schedules"
    ))
}

/// Defines a new schedule.
pub fn add(
    store: &Store,
    name: &str,
    definition: &Definition,
    author: &str,
) -> Result<Schedule, StoreError> {
    check_name(name, "a schedule")?;
    check_objects(store, definition)?;
    let now = sys::clock::now();
    let row = ScheduleRow {
        name: name.to_owned(),
        body: encode(definition)?,
        since: now,
        changed: now,
        changed_by: author.to_owned(),
    };
    store.catalog.add_schedule(&row).map_err(|error| match error {
        catalog::CatalogError::Exists { .. } => StoreError::conflict(format!(
            "schedule {name} exists already; change it with 'holdfast admin schedule update'"
        )),
        error => error.into(),
    })?;
    announce(store)?;
    note_by(store, author, now, ("schedule defined", name))?;
    find(store, name)
}

/// Changes a schedule. Occurrences count from now on if the planned times change, or if the
/// schedule was suspended: the time of the suspension is not made up for.
pub fn change(
    store: &Store,
    name: &str,
    definition: &Definition,
    author: &str,
) -> Result<Schedule, StoreError> {
    let old = find(store, name)?;
    if old.definition.place() != definition.place() {
        return Err(StoreError::conflict(format!(
            "schedule {} cannot move between nodes and the server; define another schedule",
            old.row.name
        )));
    }
    check_objects(store, definition)?;
    let now = sys::clock::now();
    let has_same_times = old.definition.timing.starts == definition.timing.starts
        && old.definition.zone == definition.zone;
    let is_resumed = old.definition.is_suspended && !definition.is_suspended;
    let row = ScheduleRow {
        body: encode(definition)?,
        since: if has_same_times && !is_resumed { old.row.since } else { now },
        changed: now,
        changed_by: author.to_owned(),
        ..old.row
    };
    store.catalog.change_schedule(&row)?;
    announce(store)?;
    let changes = differences(&old.definition, definition);
    if !changes.is_empty() {
        let details = format!("{}: {changes}", row.name);
        note_by(store, author, now, ("schedule changed", details.as_str()))?;
    }
    find(store, name)
}

/// Removes a schedule. Work that is under way goes on.
pub fn remove(store: &Store, name: &str, author: &str) -> Result<Schedule, StoreError> {
    let schedule = find(store, name)?;
    store.catalog.remove_schedule(name)?;
    announce(store)?;
    note_by(store, author, sys::clock::now(), ("schedule removed", schedule.row.name.as_str()))?;
    Ok(schedule)
}

/// Associates a schedule with nodes.
pub fn associate(
    store: &Store,
    name: &str,
    followers: &[Follower],
    author: &str,
) -> Result<Schedule, StoreError> {
    let schedule = find(store, name)?;
    if schedule.definition.place() == Place::Server {
        return Err(StoreError::conflict(format!(
            "schedule {} is work of the server, which no node follows",
            schedule.row.name
        )));
    }
    for follower in followers {
        store.catalog.associate(&Association {
            schedule: schedule.row.name.clone(),
            follower: follower.clone(),
            since: sys::clock::now(),
        })?;
    }
    announce(store)?;
    let details = format!("{}: {}", schedule.row.name, names(store, followers)?);
    note_by(store, author, sys::clock::now(), ("schedule associated", details.as_str()))?;
    find(store, name)
}

/// Ends associations of a schedule. Fails if one of them does not exist.
pub fn dissociate(
    store: &Store,
    name: &str,
    followers: &[Follower],
    author: &str,
) -> Result<Schedule, StoreError> {
    let schedule = find(store, name)?;
    for follower in followers {
        if !store.catalog.dissociate(name, follower)? {
            return Err(StoreError::not_found(format!(
                "schedule {} is not associated with them; 'holdfast admin schedule show {0}' shows \
                 with whom it is",
                schedule.row.name
            )));
        }
    }
    announce(store)?;
    let details = format!("{}: {}", schedule.row.name, names(store, followers)?);
    note_by(store, author, sys::clock::now(), ("schedule dissociated", details.as_str()))?;
    find(store, name)
}

/// Returns the names of followers, for the audit trail.
fn names(store: &Store, followers: &[Follower]) -> Result<String, StoreError> {
    let (nodes, domains) = (store.catalog.nodes()?, store.catalog.domains()?);
    let name = |follower: &Follower| match follower {
        Follower::Node(id) => {
            let node = nodes.iter().find(|node| node.id == *id);
            node.map_or_else(String::new, |node| format!("node {}", node.name))
        }
        Follower::Label(label) => format!("label {label}"),
        Follower::Domain(id) => {
            let domain = domains.iter().find(|domain| domain.id == *id);
            domain.map_or_else(String::new, |domain| format!("domain {}", domain.name))
        }
    };
    Ok(followers.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// Finds the volumes that the action names.
pub(super) fn volumes(store: &Store, action: &Action) -> Result<Vec<VolumeRow>, StoreError> {
    let library = action.options.iter().find_map(|option| {
        let (name, value) = option.split_once('=')?;
        (name == LIBRARY).then_some(value)
    });
    let find = |word: &Word| store.volumes.find(library, &String::from_utf8_lossy(&word.0));
    action.objects.iter().map(find).collect()
}

/// Fails if the schedule is about a pool or a volume that does not exist, or drains a pool that
/// cannot be drained.
pub(super) fn check_objects(store: &Store, definition: &Definition) -> Result<(), StoreError> {
    let Action { work, objects, .. } = &definition.action;
    let pool = objects.first().map(|word| String::from_utf8_lossy(&word.0));
    match (work, pool) {
        (Work::Drain, Some(pool)) => pools::ends(store, &pool).map(drop),
        (Work::CopyPools | Work::ReclaimVolumes, Some(pool)) => {
            pools::list(store, Some(&pool)).map(drop)
        }
        (Work::MoveVolumes | Work::AuditVolumes, _) => volumes(store, &definition.action).map(drop),
        _ => Ok(()),
    }
}

pub(super) fn encode(definition: &Definition) -> Result<String, StoreError> {
    definition.check().map_err(|error| StoreError::usage(error.to_string()))?;
    serde_json::to_string(definition).map_err(|error| StoreError::usage(error.to_string()))
}
