//! Schedules as administrators make them.

use catalog::{CatalogError, Follower, ScheduleRow, VolumeRow};
use model::DomainId;
use policy::schedule::{Action, Definition, Every, Place, Starts, Word, Work};

use super::announcement::announce;
use super::differences::differences;
use super::followers::Followers;
use super::owner::{OwnedBy, decode, encode, owner};
use crate::counts::counted;
use crate::domains::note_by;
use crate::error::StoreError;
use crate::names::check_name;
use crate::pools;
use crate::store::Store;

/// Maximum number of schedules that belong to one domain.
const OF_DOMAIN_MAX: usize = 100;
/// Maximum number of planned times in a day of a schedule that belongs to a domain.
const OF_DOMAIN_TIMES_MAX: usize = 96;
/// Minimum interval between the planned times of such a schedule, in minutes.
const OF_DOMAIN_MINUTES_MIN: u32 = 15;
/// Maximum length of the window of such a schedule, in minutes: a day.
const OF_DOMAIN_WINDOW_MINUTES_MAX: u32 = 1_440;
/// Maximum number of blackouts of such a schedule.
const OF_DOMAIN_BLACKOUTS_MAX: usize = 20;

/// A schedule with its followers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub row: ScheduleRow,
    pub definition: Definition,
    pub followers: Vec<Follower>,
    /// Domain that the schedule belongs to; `None` for a schedule of the service.
    pub owner: Option<DomainId>,
}

/// A schedule that a change is about: its name, and who has to own it. Since the look at its owner,
/// it may have been removed, and its name be that of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduleRef<'a> {
    name: &'a str,
    owned_by: OwnedBy,
}

impl<'a> From<&'a str> for ScheduleRef<'a> {
    fn from(name: &'a str) -> Self {
        Self { name, owned_by: OwnedBy::Anyone }
    }
}

impl<'a> From<(&'a str, OwnedBy)> for ScheduleRef<'a> {
    fn from((name, owned_by): (&'a str, OwnedBy)) -> Self {
        Self { name, owned_by }
    }
}

impl<'a> From<&'a Schedule> for ScheduleRef<'a> {
    fn from(schedule: &'a Schedule) -> Self {
        Self { name: &schedule.row.name, owned_by: OwnedBy::of(schedule.owner) }
    }
}

/// Returns the definition of a schedule in the catalogue.
pub fn definition(row: &ScheduleRow) -> Result<Definition, StoreError> {
    decode(&row.body).map_err(|error| {
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
    described(store, rows)?.into_iter().collect()
}

/// Lists all schedules but those whose definitions cannot be read. One of them would hide the
/// schedules of all domains.
pub fn readable(store: &Store) -> Result<Vec<Schedule>, StoreError> {
    let all = described(store, store.catalog.schedules()?)?;
    Ok(all.into_iter().filter_map(Result::ok).collect())
}

/// Adds their definitions and followers to schedules.
fn described(
    store: &Store,
    rows: Vec<ScheduleRow>,
) -> Result<Vec<Result<Schedule, StoreError>>, StoreError> {
    let followers = Followers::read(&*store.catalog, &rows)?;
    let describe = |row: ScheduleRow| {
        let (definition, followers) = (definition(&row)?, followers.named(&row.name));
        let owner = owner(&row);
        Ok(Schedule { row, definition, followers, owner })
    };
    Ok(rows.into_iter().map(describe).collect())
}

/// Finds a schedule.
pub(super) fn find(store: &Store, name: &str) -> Result<Schedule, StoreError> {
    list(store, Some(name))?.pop().ok_or_else(|| unknown(name))
}

/// Finds a schedule that is to change. One of another owner is unknown.
fn find_named(store: &Store, named: ScheduleRef<'_>) -> Result<Schedule, StoreError> {
    let schedule = find(store, named.name)?;
    if named.owned_by.admits(schedule.owner) { Ok(schedule) } else { Err(unknown(named.name)) }
}

/// The error for a schedule that does not exist.
pub fn unknown(name: &str) -> StoreError {
    StoreError::not_found(format!(
        "there is no schedule {name}; 'holdfast admin schedule list' shows all schedules"
    ))
}

/// The error for a change of a schedule that failed in the catalogue. One that is no longer as it
/// was found may have another owner now.
fn since_found(name: &str, error: CatalogError) -> StoreError {
    match error {
        CatalogError::NotFound { what: "the schedule" } => StoreError::conflict(format!(
            "schedule {name} was changed or removed meanwhile; look at it, and try again"
        )),
        error => error.into(),
    }
}

/// Defines a new schedule.
pub fn add(
    store: &Store,
    name: &str,
    definition: &Definition,
    author: &str,
) -> Result<Schedule, StoreError> {
    put_new(store, name, (definition, None), author)
}

/// Defines a new schedule that belongs to a domain.
pub fn add_of_domain(
    store: &Store,
    domain: DomainId,
    name: &str,
    definition: &Definition,
    author: &str,
) -> Result<Schedule, StoreError> {
    if definition.place() == Place::Server {
        return Err(StoreError::usage("a schedule of a domain is work of nodes"));
    }
    check_cost(definition)?;
    let rows = store.catalog.schedules()?;
    if rows.iter().filter(|row| owner(row) == Some(domain)).count() >= OF_DOMAIN_MAX {
        return Err(StoreError::conflict(format!(
            "the domain has {}, which is the maximum; remove one first",
            counted(OF_DOMAIN_MAX as u64, "schedule")
        )));
    }
    put_new(store, name, (definition, Some(domain)), author)
}

/// Fails if the schedule is too much for one of a domain: all domains wait for one timetable.
fn check_cost(definition: &Definition) -> Result<(), StoreError> {
    let timing = &definition.timing;
    let is_often = match &timing.starts {
        Starts::Calendar(calendar) => calendar.times.count() > OF_DOMAIN_TIMES_MAX,
        Starts::Interval(interval) => {
            matches!(interval.every, Every::Minutes(count) if count < OF_DOMAIN_MINUTES_MIN)
        }
        Starts::Once(_) => false,
    };
    let refuse = |what: String| Err(StoreError::usage(format!("a schedule of a domain {what}")));
    if is_often {
        return refuse(format!(
            "starts at most {OF_DOMAIN_TIMES_MAX} times a day, or every {OF_DOMAIN_MINUTES_MIN} \
             minutes"
        ));
    }
    if timing.window_minutes > OF_DOMAIN_WINDOW_MINUTES_MAX {
        return refuse(format!("has a window of at most {OF_DOMAIN_WINDOW_MINUTES_MAX} minutes"));
    }
    if timing.blackouts.len() > OF_DOMAIN_BLACKOUTS_MAX {
        return refuse(format!("has at most {OF_DOMAIN_BLACKOUTS_MAX} blackouts"));
    }
    Ok(())
}

fn put_new(
    store: &Store,
    name: &str,
    (definition, owner): (&Definition, Option<DomainId>),
    author: &str,
) -> Result<Schedule, StoreError> {
    check_name(name, "a schedule")?;
    check_objects(store, definition)?;
    let now = sys::clock::now();
    let row = ScheduleRow {
        name: name.to_owned(),
        body: encode(definition, owner)?,
        since: now,
        changed: now,
        changed_by: author.to_owned(),
    };
    store.catalog.add_schedule(&row).map_err(|error| match error {
        CatalogError::Exists { .. } => StoreError::conflict(format!(
            "schedule {name} exists already; change it, or choose another name"
        )),
        error => error.into(),
    })?;
    announce(store)?;
    note_by(store, author, now, ("schedule defined", name))?;
    find(store, name)
}

/// Changes a schedule. Occurrences count from now on if the planned times change, or if the
/// schedule was suspended: the time of the suspension is not made up for.
pub fn change<'a>(
    store: &Store,
    named: impl Into<ScheduleRef<'a>>,
    definition: &Definition,
    author: &str,
) -> Result<Schedule, StoreError> {
    let old = find_named(store, named.into())?;
    if old.definition.place() != definition.place() {
        return Err(StoreError::conflict(format!(
            "schedule {} cannot move between nodes and the server; define another schedule",
            old.row.name
        )));
    }
    if old.owner.is_some() {
        check_cost(definition)?;
    }
    check_objects(store, definition)?;
    let now = sys::clock::now();
    let has_same_times = old.definition.timing.starts == definition.timing.starts
        && old.definition.zone == definition.zone;
    let is_resumed = old.definition.is_suspended && !definition.is_suspended;
    let row = ScheduleRow {
        body: encode(definition, old.owner)?,
        since: if has_same_times && !is_resumed { old.row.since } else { now },
        changed: now,
        changed_by: author.to_owned(),
        ..old.row.clone()
    };
    let changed = store.catalog.change_schedule(&old.row, &row);
    changed.map_err(|error| since_found(&row.name, error))?;
    announce(store)?;
    let changes = differences(&old.definition, definition);
    if !changes.is_empty() {
        let details = format!("{}: {changes}", row.name);
        note_by(store, author, now, ("schedule changed", details.as_str()))?;
    }
    find_named(store, (&old).into())
}

/// Removes a schedule. Work that is under way goes on.
pub fn remove<'a>(
    store: &Store,
    named: impl Into<ScheduleRef<'a>>,
    author: &str,
) -> Result<Schedule, StoreError> {
    let schedule = find_named(store, named.into())?;
    let removed = store.catalog.remove_schedule(&schedule.row);
    removed.map_err(|error| since_found(&schedule.row.name, error))?;
    announce(store)?;
    note_by(store, author, sys::clock::now(), ("schedule removed", schedule.row.name.as_str()))?;
    Ok(schedule)
}

/// Associates a schedule with nodes.
pub fn associate<'a>(
    store: &Store,
    named: impl Into<ScheduleRef<'a>>,
    followers: &[Follower],
    author: &str,
) -> Result<Schedule, StoreError> {
    let schedule = find_named(store, named.into())?;
    let Schedule { row, definition, owner, .. } = &schedule;
    check_followers(store, &row.name, (definition, *owner), followers)?;
    let associated = store.catalog.associate(row, followers, sys::clock::now());
    associated.map_err(|error| since_found(&row.name, error))?;
    announce(store)?;
    let details = format!("{}: {}", schedule.row.name, names(store, followers)?);
    note_by(store, author, sys::clock::now(), ("schedule associated", details.as_str()))?;
    find_named(store, (&schedule).into())
}

/// Fails if one of these cannot follow the schedule.
pub fn check_followers(
    store: &Store,
    name: &str,
    (definition, owner): (&Definition, Option<DomainId>),
    followers: &[Follower],
) -> Result<(), StoreError> {
    if followers.is_empty() {
        return Ok(());
    }
    if definition.place() == Place::Server {
        return Err(StoreError::conflict(format!(
            "schedule {name} is work of the server, which no node follows"
        )));
    }
    let Some(domain) = owner else { return Ok(()) };
    let nodes = store.catalog.nodes()?;
    let belongs = |follower: &Follower| match follower {
        Follower::Node(id) => nodes.iter().any(|node| node.id == *id && node.domain == domain),
        Follower::Domain(id) => *id == domain,
        // Of the nodes with a label, those of the domain follow.
        Follower::Label(_) => true,
    };
    if !followers.iter().all(belongs) {
        return Err(StoreError::conflict(format!(
            "schedule {name} belongs to a domain, and only nodes of that domain follow it"
        )));
    }
    Ok(())
}

/// Fails if one of these does not follow the schedule.
pub fn check_following(
    store: &Store,
    schedule: &Schedule,
    followers: &[Follower],
) -> Result<(), StoreError> {
    let follows = |follower: &&Follower| schedule.followers.contains(follower);
    let Some(other) = followers.iter().find(|follower| !follows(follower)) else {
        return Ok(());
    };
    Err(StoreError::not_found(format!(
        "schedule {} is not associated with {}",
        schedule.row.name,
        names(store, std::slice::from_ref(other))?
    )))
}

/// Ends associations of a schedule. Fails if one of them does not exist, and then ends none.
pub fn dissociate<'a>(
    store: &Store,
    named: impl Into<ScheduleRef<'a>>,
    followers: &[Follower],
    author: &str,
) -> Result<Schedule, StoreError> {
    let schedule = find_named(store, named.into())?;
    check_following(store, &schedule, followers)?;
    let ended = store.catalog.dissociate(&schedule.row, followers);
    ended.map_err(|error| since_found(&schedule.row.name, error))?;
    announce(store)?;
    let details = format!("{}: {}", schedule.row.name, names(store, followers)?);
    note_by(store, author, sys::clock::now(), ("schedule dissociated", details.as_str()))?;
    find_named(store, (&schedule).into())
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
    let library = action.library();
    let find = |word: &Word| store.volumes.find(library, &String::from_utf8_lossy(&word.0));
    action.objects.iter().map(find).collect()
}

/// Finds the pool or the volumes that a reclamation of volumes names. A single name without a
/// library is first looked for among the pools. An empty name of a pool stands for all pools.
pub(super) fn reclaimed(
    store: &Store,
    action: &Action,
) -> Result<(String, Vec<VolumeRow>), StoreError> {
    if let ([word], None) = (&action.objects[..], action.library()) {
        let name = String::from_utf8_lossy(&word.0).into_owned();
        if store.catalog.pools()?.iter().any(|pool| pool.name.eq_ignore_ascii_case(&name)) {
            return Ok((name, Vec::new()));
        }
        if store.volumes.find_row(None, &name).is_none() {
            return Err(StoreError::not_found(format!(
                "there is no pool and no volume {name}; 'holdfast admin pool list' and \
                 'holdfast admin volume list' show all"
            )));
        }
    }
    Ok((String::new(), volumes(store, action)?))
}

/// Fails if the schedule is about a pool or a volume that does not exist, or drains a pool that
/// cannot be drained.
pub(super) fn check_objects(store: &Store, definition: &Definition) -> Result<(), StoreError> {
    let Action { work, objects, .. } = &definition.action;
    let pool = objects.first().map(|word| String::from_utf8_lossy(&word.0));
    match (work, pool) {
        (Work::Drain, Some(pool)) => pools::ends(store, &pool).map(drop),
        (Work::CopyPools, Some(pool)) => pools::list(store, Some(&pool)).map(drop),
        (Work::ReclaimVolumes, _) => reclaimed(store, &definition.action).map(drop),
        (Work::MoveVolumes | Work::AuditVolumes, _) => volumes(store, &definition.action).map(drop),
        _ => Ok(()),
    }
}
