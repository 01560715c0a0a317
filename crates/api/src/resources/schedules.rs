//! Schedules and the nodes that follow them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{Follower, Node};
use model::{DomainId, NodeId};
use policy::schedule::Definition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::schedules::{self, OwnedBy, Schedule};

use super::domains;
use super::found_node::{find_node, nodes_seen};
use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Fields of a schedule that change by themselves.
const VOLATILE: &[&str] = &["next_runs"];
/// Fields of definitions that are not kept where they have their defaults, each with a field that
/// is always beside it.
const DEFAULTS: [(&str, &str); 9] = [
    ("blackouts", "starts"),
    ("description", "zone"),
    ("duration_max_minutes", "zone"),
    ("last_day", "starts"),
    ("months", "times"),
    ("objects", "work"),
    ("options", "work"),
    ("weekdays", "times"),
    ("weeks", "times"),
];
/// Field with days of the month, beside which days of the week mean nothing.
const DAYS: &str = "month_days";
/// Number of next runs in the description of a schedule.
const RUNS_SHOWN: usize = 20;

/// A schedule.
#[derive(Serialize, JsonSchema)]
struct ScheduleDocument {
    name: String,
    /// Domain whose administrators define the schedule; absent for a schedule of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    /// Work, times, and number of attempts.
    definition: Definition,
    followers: Vec<FollowerDocument>,
    changed: Time,
    /// Author of the last change, for those who run the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_by: Option<String>,
    /// Times at which the next windows open.
    next_runs: Vec<Time>,
}

/// Nodes that follow a schedule: one node, those with a label, or those of a domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum FollowerDocument {
    Node(String),
    Label(String),
    Domain(String),
}

/// A new schedule.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewScheduleBody {
    name: String,
    /// Domain that the schedule belongs to: only its nodes follow. Absent for a schedule of the
    /// service.
    domain: Option<String>,
    #[schemars(with = "Definition")]
    definition: Value,
    #[serde(default)]
    followers: Vec<FollowerDocument>,
}

/// A new definition of a schedule.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DefinitionBody {
    #[schemars(with = "Definition")]
    definition: Value,
}

/// Followers that a schedule gains or loses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowersBody {
    #[serde(default)]
    add: Vec<FollowerDocument>,
    #[serde(default)]
    remove: Vec<FollowerDocument>,
}

#[derive(Deserialize, JsonSchema)]
struct SchedulePath {
    /// Name of the schedule.
    schedule: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only schedules that belong to this domain.
    domain: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let (all, one) = ("/v1/schedules", "/v1/schedules/{schedule}");
    let area = Area::Schedules;
    let summary = "Lists schedules";
    routes.add(Operation::read("schedules.list", all, area, summary), list);
    let summary = "Makes a schedule";
    let operation = Operation::post("schedules.add", all, area, summary);
    let body = json!({
        "name": "nightly",
        "definition": example(),
        "followers": [{ "domain": "LAB" }],
    });
    let own = json!({ "name": "lab-noon", "domain": "LAB", "definition": example() });
    routes.make(operation.example("nightly", body).example("domain", own), make);
    let summary = "Describes a schedule with its next runs";
    let operation = Operation::read("schedules.get", one, area, summary);
    routes.add(operation.volatile(VOLATILE), get);
    let summary = "Replaces the definition of a schedule";
    let operation = Operation::put("schedules.change", one, area, summary)
        .example("same", json!({ "definition": example() }));
    routes.change(operation.volatile(VOLATILE), current, change);
    let summary = "Removes a schedule; work that is under way goes on";
    let operation = Operation::delete("schedules.remove", one, area, summary);
    routes.change(operation.volatile(VOLATILE), current, remove);
    let summary = "Changes which nodes follow a schedule";
    let path = "/v1/schedules/{schedule}/followers";
    let body = json!({ "add": [{ "label": "web" }], "remove": [{ "domain": "LAB" }] });
    let operation =
        Operation::patch("schedules.follow", path, area, summary).example("label", body);
    routes.change(operation.volatile(VOLATILE), current, follow);
}

/// The definition in examples: an incremental backup each night.
pub(super) fn example() -> Value {
    json!({
        "description": "each night",
        "action": { "work": "incremental" },
        "timing": {
            "starts": { "calendar": { "times": "22:00" } },
            "window_minutes": 240,
            "spread_percent": 25,
        },
        "zone": "Europe/Berlin",
        "priority": 5,
        "retries": 2,
        "retry_pause_minutes": 20,
    })
}

/// Parses the definition of a schedule.
pub(super) fn parse(definition: &Value) -> Answer<Definition> {
    let wrong = |error| Problem::invalid(format!("the definition is wrong: {error}"));
    let parsed: Definition = serde_json::from_value(definition.clone()).map_err(wrong)?;
    if let Some(field) =
        serde_json::to_value(&parsed).ok().and_then(|kept| stray(definition, &kept))
    {
        let text =
            format!("the definition is wrong: '{}' means nothing there", field.escape_debug());
        return Err(Problem::invalid(text));
    }
    parsed.check().map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(parsed)
}

/// Returns a field that was given and is not kept. Programs pass over fields that they do not know,
/// so that newer ones can add some. A person who misspells a field has to learn of it. A field with
/// null is one that was not given.
fn stray(given: &Value, kept: &Value) -> Option<String> {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => given.iter().find_map(|(name, value)| {
            let is_here = |(field, beside): &(&str, &str)| {
                *field == name.as_str() && kept.contains_key(*beside)
            };
            let is_default = value.is_null()
                || DEFAULTS.iter().any(is_here)
                    && !(name.starts_with("week") && kept.contains_key(DAYS));
            match kept.get(name) {
                Some(kept) => stray(value, kept),
                None => (!is_default).then(|| name.clone()),
            }
        }),
        (Value::Array(given), Value::Array(kept)) => {
            given.iter().zip(kept).find_map(|(given, kept)| stray(given, kept))
        }
        _ => None,
    }
}

/// View of a caller on the nodes that follow schedules. It is read as a whole, so that a schedule
/// of others takes the same questions as one that does not exist.
pub(super) struct View<'a> {
    caller: &'a Caller,
    domains: BTreeMap<DomainId, String>,
    nodes: BTreeMap<NodeId, Node>,
    /// Labels of the nodes, each with the domains of its nodes.
    labels: BTreeMap<String, BTreeSet<DomainId>>,
}

impl<'a> View<'a> {
    pub(super) fn read(desk: &Desk, caller: &'a Caller) -> Answer<Self> {
        let mut domains = desk.store().catalog.domains()?;
        domains.retain(|one| caller.may(Area::Domains, Right::Read, Subject::Domain(one.id)));
        let nodes = nodes_seen(desk, caller, (Area::Nodes, Right::Read))?;
        let nodes: BTreeMap<_, _> = nodes.into_iter().map(|node| (node.id, node)).collect();
        let mut labels: BTreeMap<String, BTreeSet<DomainId>> = BTreeMap::new();
        for (id, label) in desk.store().catalog.labels(None)? {
            if let Some(node) = nodes.get(&id) {
                labels.entry(label).or_default().insert(node.domain);
            }
        }
        Ok(Self {
            caller,
            domains: domains.into_iter().map(|domain| (domain.id, domain.name)).collect(),
            labels,
            nodes,
        })
    }

    /// Names a follower of the schedule, if the caller may see it.
    fn name(&self, schedule: &Schedule, follower: &Follower) -> Option<FollowerDocument> {
        match follower {
            // Labels are words of all tenants.
            Follower::Label(_) if !self.caller.is_staff() && !self.administers(schedule) => None,
            Follower::Label(label) => Some(FollowerDocument::Label(label.clone())),
            Follower::Domain(id) => self.domains.get(id).cloned().map(FollowerDocument::Domain),
            Follower::Node(id) => {
                let node = self.nodes.get(id)?;
                // A node that has left the domain follows no longer.
                let is_follower = schedule.owner.is_none_or(|owner| owner == node.domain);
                is_follower.then(|| FollowerDocument::Node(node.name.to_string()))
            }
        }
    }

    /// Returns true if the schedule belongs to a domain whose schedules the caller may see.
    fn administers(&self, schedule: &Schedule) -> bool {
        let reads = |owner| self.caller.may(Area::Schedules, Right::Read, Subject::Domain(owner));
        schedule.owner.is_some_and(reads)
    }

    /// Returns true if the caller may see the schedule. It shows what its nodes do, so it is for
    /// those who may see one of the nodes.
    pub(super) fn shows(&self, schedule: &Schedule) -> bool {
        let reaches = |domain: &DomainId| schedule.owner.is_none_or(|owner| owner == *domain);
        let is_own = |follower: &Follower| match follower {
            Follower::Label(label) => {
                self.labels.get(label).is_some_and(|domains| domains.iter().any(reaches))
            }
            Follower::Domain(id) => {
                self.domains.contains_key(id) || self.nodes.values().any(|one| one.domain == *id)
            }
            Follower::Node(id) => self.nodes.get(id).is_some_and(|one| reaches(&one.domain)),
        };
        self.caller.is_staff()
            || self.administers(schedule)
            || schedule.followers.iter().any(is_own)
    }
}

/// Returns the schedules that the caller may see, with the followers that the caller may see, and
/// with their domain and author if the caller may know them.
pub(crate) fn schedules_seen(desk: &Desk, caller: &Caller) -> Answer<Vec<Schedule>> {
    let view = View::read(desk, caller)?;
    let mut all = schedules::readable(desk.store())?;
    all.retain(|schedule| view.shows(schedule));
    for schedule in &mut all {
        let mut followers = std::mem::take(&mut schedule.followers);
        followers.retain(|follower| view.name(schedule, follower).is_some());
        schedule.followers = followers;
        schedule.owner = schedule.owner.filter(|owner| view.domains.contains_key(owner));
        if !caller.is_staff() {
            schedule.row.changed_by.clear();
        }
    }
    Ok(all)
}

fn describe(view: &View<'_>, schedule: Schedule) -> ScheduleDocument {
    let followers = schedule.followers.iter().filter_map(|one| view.name(&schedule, one)).collect();
    let Schedule { row, definition, owner, .. } = schedule;
    let next_runs = match definition.time_zone() {
        Ok(zone) if !definition.is_suspended => definition
            .timing
            .occurrences(&zone, sys::clock::now())
            .take(RUNS_SHOWN)
            .map(|run| Time(run.opens))
            .collect(),
        _ => Vec::new(),
    };
    ScheduleDocument {
        definition,
        followers,
        name: row.name,
        domain: owner.and_then(|owner| view.domains.get(&owner).cloned()),
        changed: Time(row.changed),
        changed_by: Some(row.changed_by).filter(|_| view.caller.is_staff()),
        next_runs,
    }
}

fn describe_one(desk: &Desk, caller: &Caller, schedule: Schedule) -> Answer<ScheduleDocument> {
    Ok(describe(&View::read(desk, caller)?, schedule))
}

/// Subject of the right to change the schedule.
fn subject(schedule: &Schedule) -> Subject {
    schedule.owner.map_or(Subject::Service, Subject::Domain)
}

/// Finds a schedule that the caller may change. One that the caller may not see is answered as one
/// that does not exist.
fn find(desk: &Desk, caller: &Caller, name: &str) -> Answer<Schedule> {
    let mut all = schedules::readable(desk.store())?.into_iter();
    let found = all.find(|one| one.row.name.eq_ignore_ascii_case(name));
    let may_change = |one: &Schedule| caller.may(Area::Schedules, Right::Write, subject(one));
    match found {
        Some(schedule) if may_change(&schedule) => Ok(schedule),
        found => {
            let view = View::read(desk, caller)?;
            let is_seen = found.is_some_and(|schedule| view.shows(&schedule));
            Err(if is_seen { Problem::forbidden() } else { Problem::not_found("schedule", name) })
        }
    }
}

/// Fails unless the caller may change the schedule, and may let nodes do the work of `definition`
/// by it. Returns the owner that it must still have then, as the checks below do.
pub(crate) fn check_change(
    desk: &Desk,
    caller: &Caller,
    name: &str,
    definition: &Definition,
) -> Answer<OwnedBy> {
    let known = find(desk, caller, name)?;
    check_reach_in(caller, definition, subject(&known))?;
    Ok(OwnedBy::of(known.owner))
}

/// Fails unless the caller may let more nodes follow the schedule `name`.
pub(crate) fn check_spread(desk: &Desk, caller: &Caller, name: &str) -> Answer<OwnedBy> {
    let known = find(desk, caller, name)?;
    check_reach_in(caller, &known.definition, subject(&known))?;
    Ok(OwnedBy::of(known.owner))
}

/// Fails unless the caller may remove the schedule `name`, or what follows it.
pub(crate) fn check_removal(desk: &Desk, caller: &Caller, name: &str) -> Answer<OwnedBy> {
    find(desk, caller, name).map(|known| OwnedBy::of(known.owner))
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<ScheduleDocument>> {
    call.caller.check(Area::Schedules, Right::Read, Subject::Shared)?;
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let view = View::read(&call.desk, &call.caller)?;
    let mut all = schedules::readable(call.desk.store())?;
    all.retain(|schedule| view.shows(schedule));
    if let Some(name) = &call.query.domain {
        let domain = domains::find(&call.desk, &call.caller, name)?.id;
        all.retain(|schedule| schedule.owner == Some(domain));
    }
    all.sort_by_key(|schedule| schedule.row.name.to_ascii_lowercase());
    let key = |schedule: &Schedule| schedule.row.name.to_ascii_lowercase().into_bytes();
    let page = portion.page_of(all, key);
    let items = page.items.into_iter().map(|one| describe(&view, one)).collect();
    Ok(Page { items, next: page.next })
}

fn get(call: &mut Call<SchedulePath, Empty, Empty>) -> Answer<ScheduleDocument> {
    call.caller.check(Area::Schedules, Right::Read, Subject::Shared)?;
    let view = View::read(&call.desk, &call.caller)?;
    let name = &call.path.schedule;
    // All schedules are read, whether there is one of this name or not.
    let mut all = schedules::readable(call.desk.store())?.into_iter();
    let found = all.find(|one| one.row.name.eq_ignore_ascii_case(name));
    let found = found.filter(|schedule| view.shows(schedule));
    let schedule = found.ok_or_else(|| Problem::not_found("schedule", name))?;
    Ok(describe(&view, schedule))
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &SchedulePath) -> Answer<Vec<u8>> {
    let schedule = find(desk, caller, &path.schedule)?;
    Ok(crate::routes::document(&describe_one(desk, caller, schedule)?))
}

/// Returns the followers that a caller names.
pub(super) fn parse_followers(
    desk: &Desk,
    caller: &Caller,
    named: &[FollowerDocument],
) -> Answer<Vec<Follower>> {
    let parse = |follower: &FollowerDocument| match follower {
        FollowerDocument::Node(name) => {
            let found = find_node(desk, caller, name, (Area::Nodes, Right::Read))?;
            Ok(Follower::Node(found.node.id))
        }
        FollowerDocument::Label(label) => {
            store::check_name(label, "a label")?;
            Ok(Follower::Label(label.clone()))
        }
        FollowerDocument::Domain(name) => {
            Ok(Follower::Domain(domains::find(desk, caller, name)?.id))
        }
    };
    named.iter().map(parse).collect()
}

/// Fails if the caller may not let nodes do this work by a schedule of the service: what gets at
/// the contents of their files is for those who may do so.
pub(crate) fn check_reach(caller: &Caller, definition: &Definition) -> Answer<()> {
    check_reach_in(caller, definition, Subject::Service)
}

pub(crate) fn check_reach_in(
    caller: &Caller,
    definition: &Definition,
    subject: Subject,
) -> Answer<()> {
    match super::area_of_run(definition) {
        Area::Contents => caller.check(Area::Contents, Right::Write, subject),
        _ => Ok(()),
    }
}

fn make(call: &mut Call<Empty, Empty, NewScheduleBody>) -> Answer<ScheduleDocument> {
    let (store, author, body) = (call.desk.store(), &call.caller.name, &call.body);
    let domain = match &body.domain {
        Some(name) => Some(domains::find(&call.desk, &call.caller, name)?.id),
        None => None,
    };
    let subject = domain.map_or(Subject::Service, Subject::Domain);
    call.caller.check(Area::Schedules, Right::Write, subject)?;
    let definition = parse(&body.definition)?;
    check_reach_in(&call.caller, &definition, subject)?;
    let followers = parse_followers(&call.desk, &call.caller, &body.followers)?;
    schedules::check_followers(store, &body.name, (&definition, domain), &followers)?;
    let mut schedule = match domain {
        Some(domain) => schedules::add_of_domain(store, domain, &body.name, &definition, author)?,
        None => schedules::add(store, &body.name, &definition, author)?,
    };
    if !followers.is_empty() {
        schedule = schedules::associate(store, &schedule, &followers, author)?;
    }
    call.desk.office.announce()?;
    describe_one(&call.desk, &call.caller, schedule)
}

fn change(call: &mut Call<SchedulePath, Empty, DefinitionBody>) -> Answer<ScheduleDocument> {
    let known = find(&call.desk, &call.caller, &call.path.schedule)?;
    let definition = parse(&call.body.definition)?;
    check_reach_in(&call.caller, &definition, subject(&known))?;
    let (store, author) = (call.desk.store(), &call.caller.name);
    let schedule = schedules::change(store, &known, &definition, author)?;
    call.desk.office.announce()?;
    describe_one(&call.desk, &call.caller, schedule)
}

fn remove(call: &mut Call<SchedulePath, Empty, Empty>) -> Answer<Empty> {
    let known = find(&call.desk, &call.caller, &call.path.schedule)?;
    schedules::remove(call.desk.store(), &known, &call.caller.name)?;
    call.desk.office.announce()?;
    Ok(Empty {})
}

fn follow(call: &mut Call<SchedulePath, Empty, FollowersBody>) -> Answer<ScheduleDocument> {
    let (store, author, name) = (call.desk.store(), &call.caller.name, &call.path.schedule);
    find(&call.desk, &call.caller, name)?;
    let added = parse_followers(&call.desk, &call.caller, &call.body.add)?;
    let removed = parse_followers(&call.desk, &call.caller, &call.body.remove)?;
    // Finding the nodes takes long: the schedule may be another one by now.
    let mut schedule = find(&call.desk, &call.caller, name)?;
    // A follower that the request adds and removes again need not follow before.
    let follows: Vec<Follower> =
        removed.iter().filter(|one| !added.contains(one)).cloned().collect();
    schedules::check_following(store, &schedule, &follows)?;
    if !added.is_empty() {
        check_reach_in(&call.caller, &schedule.definition, subject(&schedule))?;
        schedule = schedules::associate(store, &schedule, &added, author)?;
    }
    if !removed.is_empty() {
        schedule = schedules::dissociate(store, &schedule, &removed, author)?;
    }
    call.desk.office.announce()?;
    describe_one(&call.desk, &call.caller, schedule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_no_definition_has_is_refused() {
        let with = |pointer: &str, name: &str, value: Value| {
            let mut definition = example();
            let object = definition.pointer_mut(pointer).expect("is there");
            object[name] = value;
            parse(&definition).map(drop).map_err(|problem| problem.detail)
        };
        for (pointer, name, value) in [
            ("", "description", json!("")),
            ("", "runs_late", json!(true)),
            ("", "duration_max_minutes", json!(null)),
            ("/action", "options", json!([])),
            ("/action", "objects", json!(["/srv", { "bytes": "L3Nydi/p" }])),
            ("/timing", "last_day", json!("2027-01-31")),
            ("/timing/starts/calendar", "weekdays", json!("mon-fri")),
            ("/timing/starts/calendar", "month_days", json!("1,15")),
            ("/timing/starts/calendar", "month_days", json!(null)),
        ] {
            assert_eq!(with(pointer, name, value), Ok(()), "{name}");
        }
        for (pointer, name) in [
            ("", "retrys"),
            ("", "window_minutes"),
            ("", "last_day"),
            ("/timing", "objects"),
            ("/action", "option"),
            ("/timing", "zone"),
            ("/timing/starts/calendar", "weekday"),
        ] {
            let refused = with(pointer, name, json!("7")).expect_err(name);
            assert!(refused.contains(&format!("'{name}' means nothing there")), "{refused}");
        }
        let both = json!({ "times": "22:00", "month_days": "1", "weekdays": "mon" });
        let refused = with("/timing/starts", "calendar", both).expect_err("is refused");
        assert!(refused.contains("'weekdays'"), "{refused}");
    }
}
