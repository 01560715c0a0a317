//! Restores that a node carries out by its agent: ordered by a request, watched as events.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use catalog::{EventFilter, ScheduledEvent};
use model::ServerTime;
use policy::schedule::{Action, Definition, Word, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::{NumberKind, Numbering};
use store::schedules;

use super::events::{self, EventDocument};
use super::found_node::{find_node, limit_of_sight};
use super::inventory::find_filespace;
use crate::call::{Answer, Call};
use crate::caller::Caller;
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Bytes, Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Maximum number of paths in an order.
const PATHS_MAX: usize = 1_000;
/// Maximum number of schedules that one statement names: it has a parameter for each.
const SCHEDULES_MAX: usize = 10_000;
/// Time in which a restore must have begun, in minutes: a day.
const WINDOW_MINUTES: u32 = 1_440;

/// An order to restore files at their node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RestoreBody {
    /// Name of the node.
    node: String,
    /// Name of the filespace.
    filespace: Bytes,
    /// Paths of files and directories in the filespace, from its root.
    paths: Vec<Bytes>,
    /// Time at which the versions stood; the present by default.
    at: Option<Time>,
    /// True for objects that no longer exist, too, in their last state.
    #[serde(default)]
    inactive: bool,
    /// Folder on the node into which the files go; their own place by default.
    to: Option<String>,
    /// Condition under which an existing object that differs is replaced.
    replace: Option<Replace>,
}

/// Condition under which a restore replaces an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Replace {
    No,
    /// The stored version was modified later.
    IfNewer,
    All,
}

/// A restore at a node.
#[derive(Serialize, JsonSchema)]
struct RestoreDocument {
    /// The event of the restore: its state, its progress and its report.
    event: EventDocument,
    /// Paths on the node.
    paths: Vec<Bytes>,
    /// Options of the restore, as on the command line.
    options: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only restores at this node.
    node: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let path = "/v1/restores";
    let summary = "Lists the restores of the last week at nodes, the last ordered first";
    routes.add(Operation::read("restores.list", path, Area::Work, summary), list);
    let summary =
        "Restores files at their node, by its agent; the event of it is watched as others";
    let operation = Operation::post("restores.start", path, Area::Contents, summary);
    let body = json!({
        "node": "web-1",
        "filespace": "/",
        "paths": ["/etc"],
        "at": "2026-11-20T18:00:00Z",
        "to": "/srv/restored",
        "replace": "no",
    });
    routes.make(operation.example("elsewhere", body), start);
}

/// Returns the word by which the command line names this path: a path that is stored as it is
/// written is no pattern.
fn word(filespace: &[u8], path: &Bytes) -> Answer<Word> {
    let Bytes(path) = path;
    let whole = match filespace {
        b"/" => path.clone(),
        filespace => [filespace, path].concat(),
    };
    let is_plain = path.first() == Some(&b'/') && !path.contains(&0);
    if !is_plain || path.split(|byte| *byte == b'/').any(|name| name == b"..") {
        let shown = path.escape_ascii();
        return Err(Problem::invalid(format!("'{shown}' is no path from the root of a filespace")));
    }
    Ok(Word(whole))
}

fn options(body: &RestoreBody) -> Answer<Vec<String>> {
    let mut options = Vec::new();
    if let Some(Time(ServerTime(micros))) = body.at {
        let at = jiff::Timestamp::from_microsecond(micros);
        let at = at.map_err(|_| Problem::invalid("no clock reads this time"))?;
        options.push(format!("--at={at}"));
    }
    if body.inactive {
        options.push("--inactive".to_owned());
    }
    if let Some(to) = &body.to {
        if !to.starts_with('/') || to.chars().any(char::is_control) {
            return Err(Problem::invalid("give the absolute path of a folder"));
        }
        options.push(format!("--to={to}"));
    }
    if let Some(replace) = body.replace {
        let word = match replace {
            Replace::No => "no",
            Replace::IfNewer => "if-newer",
            Replace::All => "all",
        };
        options.push(format!("--replace={word}"));
    }
    Ok(options)
}

fn start(call: &mut Call<Empty, Empty, RestoreBody>) -> Answer<RestoreDocument> {
    let (desk, caller, body) = (&call.desk, &call.caller, &call.body);
    if !(1..=PATHS_MAX).contains(&body.paths.len()) {
        return Err(Problem::invalid(format!("name 1 to {PATHS_MAX} paths")));
    }
    let node = find_node(desk, caller, &body.node, (Area::Contents, Right::Write))?.node;
    events::check_unlocked(&node)?;
    let named = (body.node.as_str(), &body.filespace.0[..]);
    let filespace = find_filespace(desk, caller, named, Area::Contents)?;
    let objects = body.paths.iter().map(|path| word(&filespace.name, path));
    let objects = objects.collect::<Result<_, _>>()?;
    let action = Action { work: Work::Restore, objects, options: options(body)? };
    action.check().map_err(Problem::invalid)?;
    let definition = Definition::once(action, sys::clock::now(), WINDOW_MINUTES);
    let store = desk.store();
    let name = schedules::run_now(store, std::slice::from_ref(&node), &definition, &caller.name)?;
    desk.office.announce()?;
    let event = of_schedule(desk, &name)?.pop();
    let missing = || Problem::new(Kind::Damaged, "the event of the restore is missing");
    Ok(describe(&desk.numbering(caller), event.ok_or_else(missing)?, &definition))
}

/// Returns the events of a schedule that was made for one order.
fn of_schedule(desk: &Desk, schedule: &str) -> Answer<Vec<ScheduledEvent>> {
    let filter = EventFilter { schedule: Some(schedule.to_owned()), ..EventFilter::default() };
    Ok(schedules::node_events(desk.store(), &filter, None, PATHS_MAX)?)
}

fn describe(
    numbering: &Numbering,
    event: ScheduledEvent,
    definition: &Definition,
) -> RestoreDocument {
    let action = &definition.action;
    RestoreDocument {
        event: events::describe(numbering, event, Some(action.work)),
        paths: action.objects.iter().map(|word| Bytes(word.0.clone())).collect(),
        options: action.options.clone(),
    }
}

/// Returns the definitions of all restores that are no secret of a domain of others, by the names
/// of their schedules. Such a schedule may have the name of one that was removed.
fn definitions(desk: &Desk, caller: &Caller) -> Answer<BTreeMap<String, Definition>> {
    let is_seen = |domain| caller.works_in(domain);
    let mut all = schedules::readable(desk.store())?;
    all.retain(|one| one.owner.is_none_or(is_seen));
    let restores = all.into_iter().filter(|one| one.definition.action.work == Work::Restore);
    Ok(restores.map(|one| (one.row.name, one.definition)).collect())
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<RestoreDocument>> {
    let (desk, caller) = (&call.desk, &call.caller);
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let node = call.query.node.as_ref();
    let node = node.map(|name| find_node(desk, caller, name, (Area::Work, Right::Read)));
    let node = node.transpose()?.map(|found| found.node.id);
    let (numbering, definitions) = (desk.numbering(caller), definitions(desk, caller)?);
    let seen = limit_of_sight(desk, caller, Area::Work)?;
    let all = EventFilter { node, seen, ..EventFilter::default() };
    let first = portion.first_number()?.map(|first| numbering.given(NumberKind::Event, first));
    let names: Vec<&String> = definitions.keys().collect();
    let mut found: Vec<ScheduledEvent> = Vec::new();
    for names in names.chunks(SCHEDULES_MAX) {
        let names = names.iter().map(|name| (*name).clone()).collect();
        let filter = EventFilter { schedules: Some(names), ..all.clone() };
        found.extend(schedules::node_events(desk.store(), &filter, first, portion.read_max())?);
    }
    found.sort_by_key(|event| Reverse(event.number));
    found.truncate(portion.read_max());
    let described = |event: ScheduledEvent| {
        let definition = &definitions[&event.key.schedule];
        describe(&numbering, event, definition)
    };
    let restores = found.into_iter().map(described).collect();
    Ok(portion.page(restores, |one: &RestoreDocument| one.event.number.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_at_the_root_of_its_filespace() {
        let of = |space: &[u8], path: &[u8]| word(space, &Bytes(path.to_vec())).map(|word| word.0);
        assert_eq!(of(b"/", b"/etc/passwd"), Ok(b"/etc/passwd".to_vec()));
        assert_eq!(of(b"/home", b"/\xff*"), Ok(b"/home/\xff*".to_vec()));
        for path in [&b"etc"[..], b"", b"/../etc", b"/a/..", b"/\0"] {
            assert!(of(b"/", path).is_err(), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn options_are_those_of_the_command_line() {
        let text = r#"{"node":"a","filespace":"/","paths":["/etc"],"at":"2026-11-16T12:00:00Z",
            "inactive":true,"to":"/tmp/x","replace":"if-newer"}"#;
        let body: RestoreBody = serde_json::from_str(text).expect("an order");
        let options = options(&body).expect("are right");
        let expected =
            ["--at=2026-11-16T12:00:00Z", "--inactive", "--to=/tmp/x", "--replace=if-newer"];
        assert_eq!(options, expected);
        let action = Action { work: Work::Restore, objects: vec![Word(b"/etc".to_vec())], options };
        assert_eq!(action.check(), Ok(()));
        let definition = Definition::once(action, ServerTime(0), WINDOW_MINUTES);
        assert_eq!(definition.check(), Ok(()));
    }
}
