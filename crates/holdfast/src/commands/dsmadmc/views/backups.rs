//! Finished backups of nodes, and connected nodes, as the server's REST operations tell them.

use std::collections::BTreeMap;

use client::ErrorKind;
use client::admin::{Admin, FinishedBackup, Node, ScheduledEvent};
use model::{ServerTime, is_space_filespace};
use serde_json::Value as Json;

use super::bounds::{Bounds, ROWS_MAX};
use crate::commands::admin::{ask_pages, look_up};
use crate::error::CommandError;
use crate::path;

/// Number of the last backups that a view of one node has.
const BACKUPS_MAX: u32 = 1_000;
/// Number of the last backups of each node, where the server does not list those of all nodes.
const BACKUPS_EACH: u32 = 50;
/// Maximum number of nodes that are asked for one by one.
pub(super) const ASKED_MAX: usize = 20;
/// Maximum length of a word that a node has sent, in bytes.
const WORD_BYTES_MAX: usize = 64;
/// Time that the server's clock and a node's agent may differ by.
const SLACK_MICROS: i64 = 5_000_000;

/// A finished backup of one filespace of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Backup {
    pub(super) node: String,
    pub(super) filespace: Vec<u8>,
    pub(super) started: ServerTime,
    pub(super) ended: ServerTime,
    /// Report of the session, or null.
    pub(super) report: Json,
}

impl Backup {
    fn parse(node: &str, document: &Json) -> Option<Self> {
        Some(Self {
            node: node.to_owned(),
            filespace: path::from_json(&document["filespace"])?,
            started: time(&document["started"])?,
            ended: time(&document["ended"])?,
            report: document["report"].clone(),
        })
    }

    fn from_list(listed: FinishedBackup) -> Self {
        Self {
            node: listed.node,
            filespace: listed.filespace,
            started: listed.started,
            ended: listed.ended,
            report: serde_json::from_str(&listed.report).unwrap_or(Json::Null),
        }
    }

    /// Returns true for what space management has sent.
    pub(super) fn is_migration(&self) -> bool {
        is_space_filespace(&self.filespace)
    }

    /// Returns a number of the report.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        self.report[key].as_u64()
    }

    /// Returns a word about the source of the backup; `None` for one that the node has not sent, or
    /// that could not stand in a table.
    pub(super) fn word(&self, key: &str) -> Option<&str> {
        let word = self.report["source"][key].as_str()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ._-+~".contains(&byte);
        let fits = (1..=WORD_BYTES_MAX).contains(&word.len());
        Some(word).filter(|word| fits && word.bytes().all(is_plain))
    }

    /// Returns a number of bytes of the source of the backup.
    pub(super) fn bytes(&self, key: &str) -> Option<u64> {
        self.report["source"][key].as_u64()
    }

    fn is_within(&self, event: &ScheduledEvent) -> bool {
        event.node.as_ref() == Some(&self.node) && is_part_of(event, (self.started, self.ended))
    }
}

/// Returns true if work that has begun and ended at these times may be that of the event.
pub(super) fn is_part_of(event: &ScheduledEvent, (began, ended): (ServerTime, ServerTime)) -> bool {
    let Some(started) = event.started else { return false };
    // The end of work that was cut off is unknown: it counts to the end of its window.
    let end = event.ended.or((!event.is_running()).then_some(event.closes));
    began.0 >= started.0.saturating_sub(SLACK_MICROS)
        && end.is_none_or(|end| ended.0 <= end.0.saturating_add(SLACK_MICROS))
}

/// Returns at most `most` of the last backups of a node, newest first. A node that has gone has
/// none.
pub(super) fn of_node(
    admin: &mut Admin,
    node: &str,
    most: u32,
) -> Result<Vec<Backup>, CommandError> {
    let address = format!("/v1/nodes/{node}/backups?limit={most}");
    let Some(page) = look_up(admin, &address)? else { return Ok(Vec::new()) };
    let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(items.iter().filter_map(|item| Backup::parse(node, item)).collect())
}

/// Returns the newest backups of all nodes, newest first, up to those that ended before `since`;
/// `None` from an older server, and for somebody who may not see all nodes.
fn of_all(
    admin: &mut Admin,
    since: Option<ServerTime>,
) -> Result<Option<Vec<Backup>>, CommandError> {
    match admin.finished_backups(since, ROWS_MAX) {
        Ok(listed) => Ok(Some(listed.into_iter().map(Backup::from_list).collect())),
        Err(error) if matches!(error.kind, ErrorKind::Usage | ErrorKind::Refused) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the last backups of each node.
fn of_each(admin: &mut Admin) -> Result<Vec<Backup>, CommandError> {
    let mut backups = Vec::new();
    for node in admin.nodes(None)? {
        backups.extend(of_node(admin, &node.name, BACKUPS_EACH)?);
    }
    Ok(backups)
}

/// Returns the last backups of each node, newest first: at most `most` of a node that is asked by
/// itself.
pub(super) fn last(
    admin: &mut Admin,
    nodes: &[Node],
    most: u32,
) -> Result<BTreeMap<String, Vec<Backup>>, CommandError> {
    let mut last: BTreeMap<String, Vec<Backup>> = BTreeMap::new();
    if nodes.len() > ASKED_MAX {
        for backup in of_all(admin, None)?.unwrap_or_default() {
            last.entry(backup.node.clone()).or_default().push(backup);
        }
    }
    for node in nodes {
        // The list may lack a node whose last backup is long ago. A filespace that it lacks of a
        // node that it has is not looked for.
        if !last.contains_key(&node.name) && !node.filespaces.is_empty() {
            last.insert(node.name.clone(), of_node(admin, &node.name, most)?);
        }
    }
    Ok(last)
}

/// Returns the time since which all events are known; `None` if there are no others. A list of
/// `most` events may lack older ones.
pub(super) fn known_since(events: &[ScheduledEvent], most: usize) -> Option<ServerTime> {
    if events.len() < most {
        return None;
    }
    events.iter().map(|event| event.opens).min()
}

/// Returns the last backups of the nodes that none of the `events`, the newest ones, has started.
pub(super) fn by_hand(
    admin: &mut Admin,
    bounds: &Bounds,
    events: &[ScheduledEvent],
) -> Result<Vec<Backup>, CommandError> {
    let mut events_of: BTreeMap<&str, Vec<&ScheduledEvent>> = BTreeMap::new();
    for event in events {
        if let Some(node) = &event.node {
            events_of.entry(node.as_str()).or_default().push(event);
        }
    }
    let (from, to) = bounds.times();
    let known_since = known_since(events, ROWS_MAX as usize);
    let is_asked_for = |backup: &Backup| {
        known_since.is_none_or(|since| backup.started >= since)
            && from.is_none_or(|from| backup.ended >= from)
            && to.is_none_or(|to| backup.ended <= to)
    };
    let mut backups = match bounds.exact_node(admin)? {
        Some(node) => of_node(admin, &node, BACKUPS_MAX)?,
        None if bounds.node.is_some() => Vec::new(),
        None => match of_all(admin, from)? {
            Some(listed) => listed,
            None => of_each(admin)?,
        },
    };
    backups.retain(|backup| {
        let own = events_of.get(backup.node.as_str()).map(Vec::as_slice).unwrap_or_default();
        is_asked_for(backup) && !own.iter().any(|event| backup.is_within(event))
    });
    Ok(backups)
}

/// A node that is connected to the server.
pub(super) struct Connection {
    pub(super) node: String,
    pub(super) addresses: Vec<String>,
    pub(super) activities: Vec<Activity>,
}

/// Work of a connected node that is under way.
pub(super) struct Activity {
    /// Kind of the work: backup, restore or recall.
    pub(super) kind: String,
    pub(super) since: Option<ServerTime>,
    pub(super) bytes: Option<u64>,
}

/// Returns the nodes that are connected to the server.
pub(super) fn connections(admin: &mut Admin) -> Result<Vec<Connection>, CommandError> {
    let items = ask_pages(admin, "/v1/sessions?limit=1000")?;
    Ok(items.iter().map(connection).collect())
}

fn connection(document: &Json) -> Connection {
    let list = |key: &str| document[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let activity = |activity: &Json| Activity {
        kind: text(activity, "kind").unwrap_or_default(),
        since: time(&activity["since"]),
        bytes: activity["bytes"].as_u64(),
    };
    Connection {
        node: text(document, "node").unwrap_or_default(),
        addresses: list("addresses").iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        activities: list("activities").iter().map(activity).collect(),
    }
}

/// Returns a text of a document, unless it is absent or empty.
pub(super) fn text(document: &Json, key: &str) -> Option<String> {
    document[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn time(moment: &Json) -> Option<ServerTime> {
    let moment = moment.as_str()?.parse::<jiff::Timestamp>().ok()?;
    Some(ServerTime(moment.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn backup(started: &str, ended: &str) -> Backup {
        let document = json!({"filespace": "/home", "started": started, "ended": ended,
            "is_complete": true, "report": {"inspected": 3}});
        Backup::parse("anna", &document).expect("a backup")
    }

    /// Makes an event with a window of an hour. Without an end it is under way.
    fn event(started: i64, ended: Option<i64>) -> ScheduledEvent {
        let second = |secs: i64| ServerTime::from_secs(secs);
        let state = if ended.is_some() { "completed" } else { "in-progress" };
        ScheduledEvent {
            number: 7,
            schedule: "nightly".to_owned(),
            planned: second(started),
            node: Some("anna".to_owned()),
            opens: second(started),
            closes: second(started + 3_600),
            state: state.to_owned(),
            attempt: 1,
            started: Some(second(started)),
            ended: ended.map(second),
            code: Some(0),
            reason: String::new(),
            control: None,
            session: String::new(),
            progress: String::new(),
            paused: None,
        }
    }

    #[test]
    fn a_backup_is_that_of_an_event_around_it() {
        let backup = backup("1970-01-01T01:00:00Z", "1970-01-01T01:10:00Z");
        assert_eq!(backup.count("inspected"), Some(3));
        assert!(backup.is_within(&event(3_590, Some(4_210))));
        assert!(backup.is_within(&event(3_590, None)), "the event is under way");
        assert!(!backup.is_within(&event(3_590, Some(3_900))), "it was over before");
        assert!(!backup.is_within(&event(3_700, Some(4_210))), "it began later");
        let severed =
            |started| ScheduledEvent { state: "severed".to_owned(), ..event(started, None) };
        assert!(backup.is_within(&severed(3_590)), "it ended in the window");
        assert!(!backup.is_within(&severed(300)), "the window had ended before");
        let other = ScheduledEvent { node: Some("bert".to_owned()), ..event(3_590, Some(4_210)) };
        assert!(!backup.is_within(&other));
    }

    #[test]
    fn a_full_list_of_events_says_nothing_about_older_backups() {
        let events = [event(7_200, Some(7_300)), event(3_600, Some(3_700))];
        assert_eq!(known_since(&events, 3), None);
        assert_eq!(known_since(&events, 2), Some(ServerTime::from_secs(3_600)));
        assert_eq!(known_since(&[], 2), None);
    }

    #[test]
    fn words_of_nodes_stand_in_tables_or_are_left_out() {
        let of = |report: Json| Backup {
            report,
            ..backup("1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z")
        };
        let known = of(json!({"source": {"platform": "linux x86_64", "free_bytes": 7}}));
        assert_eq!(known.word("platform"), Some("linux x86_64"));
        assert_eq!((known.word("filesystem_type"), known.bytes("free_bytes")), (None, Some(7)));
        for word in ["", "a\nb", "a,b", &"x".repeat(WORD_BYTES_MAX + 1)] {
            assert_eq!(of(json!({"source": {"platform": word}})).word("platform"), None, "{word}");
        }
        assert_eq!(of(Json::Null).bytes("free_bytes"), None);
    }

    #[test]
    fn migrated_files_are_no_backup() {
        let backup = backup("1970-01-01T01:00:00Z", "1970-01-01T01:10:00Z");
        assert!(!backup.is_migration());
        let migrated = Backup { filespace: model::space_filespace(b"/home"), ..backup };
        assert!(migrated.is_migration());
    }

    #[test]
    fn times_and_connections_are_read_from_documents() {
        assert_eq!(time(&json!("1970-01-01T00:00:01Z")), Some(ServerTime(1_000_000)));
        assert_eq!(time(&json!(null)), None);
        let connected = connection(&json!({"node": "anna", "addresses": ["127.0.0.1:1"],
            "activities": [{"kind": "backup", "since": "1970-01-01T00:00:01Z", "bytes": 5}]}));
        assert_eq!((connected.node.as_str(), connected.addresses.len()), ("anna", 1));
        let activity = &connected.activities[0];
        assert_eq!((activity.kind.as_str(), activity.bytes), ("backup", Some(5)));
    }
}
