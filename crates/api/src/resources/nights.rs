//! Nights: what nodes did hour by hour, by their events and their finished backups.

use std::collections::BTreeMap;

use catalog::{EventFilter, Node, ScheduledEvent, SessionRow};
use model::ServerTime;
use policy::schedule::event::EventState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::NumberKind;

use super::node_lists::{NodeFilter, Register, visible_nodes};
use crate::call::{Answer, Call};
use crate::cursor::Portion;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::Area;
use crate::routes::Routes;

const HOUR_MICROS: i64 = 3_600_000_000;
/// Number of hours that are shown by default, and at most.
const HOURS: i64 = 24;
const HOURS_MAX: i64 = 7 * 24;
/// Maximum number of events and of backups of one node that are looked at.
const LOOKED_AT_MAX: usize = 1_000;

/// A node, hour by hour.
#[derive(Serialize, JsonSchema)]
struct NightDocument {
    node: String,
    domain: String,
    /// Start of the last backup of any filespace that examined everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_backup: Option<Time>,
    /// The hours in which something was, in their order.
    hours: Vec<HourDocument>,
}

/// An hour of a node.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
struct HourDocument {
    /// Begin of the hour.
    hour: Time,
    /// The worst of what was in the hour.
    state: HourState,
    /// Numbers of the events that began in the hour, or whose windows opened in it.
    events: Vec<u64>,
    /// Number of backups of filespaces that began in the hour and have ended.
    backups: u32,
}

/// State of an hour, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum HourState {
    /// Work failed.
    Failed,
    /// A window closed before the node began.
    Missed,
    /// The connection to the node was lost, and nobody knows what became of the work.
    CutOff,
    /// Work ended with warnings, or without some objects.
    Warned,
    /// Work is under way.
    Running,
    /// A window is open, and the node has not begun.
    Pending,
    /// Everything is done.
    Good,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NightsQuery {
    /// First hour; 24 hours before the end by default.
    from: Option<Time>,
    /// End of the last hour; the present by default.
    to: Option<Time>,
    /// Only nodes of this domain.
    domain: Option<String>,
    /// Only nodes with this label.
    label: Option<String>,
    /// Only nodes with this text in name, host name or description.
    search: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Shows what nodes did hour by hour, by default in the last day";
    routes.add(Operation::read("nights.list", "/v1/nights", Area::Work, summary), list);
}

/// Returns the begin of the first hour and the end of the last one.
fn span(from: Option<Time>, to: Option<Time>, now: ServerTime) -> Answer<(ServerTime, ServerTime)> {
    let to = to.map_or(now, |to| to.0);
    let default = ServerTime(to.0.saturating_sub(HOURS * HOUR_MICROS));
    let from = hour_of(from.map_or(default, |from| from.0));
    // The first hour is shown whole.
    let most = (HOURS_MAX + 1) * HOUR_MICROS;
    if from >= to || to.0.saturating_sub(from.0) > most {
        return Err(Problem::invalid(format!("give from 1 to {HOURS_MAX} hours")));
    }
    Ok((from, to))
}

fn hour_of(time: ServerTime) -> ServerTime {
    ServerTime(time.0.saturating_sub(time.0.rem_euclid(HOUR_MICROS)))
}

fn list(call: &mut Call<Empty, NightsQuery, Empty>) -> Answer<Page<NightDocument>> {
    let NightsQuery { from, to, domain, label, search, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let span = span(*from, *to, sys::clock::now())?;
    let filter = NodeFilter {
        domain: domain.as_deref(),
        label: label.as_deref(),
        search: search.as_deref(),
        ..NodeFilter::default()
    };
    let register = Register::read(&call.desk)?;
    let nodes = visible_nodes(call, Area::Work, (&register, filter), &portion)?;
    let page = portion.page(nodes, |node| node.name.as_str().as_bytes().to_vec());
    let describe = |node: &Node| -> Answer<NightDocument> {
        Ok(NightDocument {
            node: node.name.to_string(),
            domain: node.domain_name.clone(),
            last_backup: register.last_backup(node.id).map(Time),
            hours: hours_of(call, node, span)?,
        })
    };
    let items = page.items.iter().map(describe).collect::<Result<_, _>>()?;
    Ok(Page { items, next: page.next })
}

fn hours_of(
    call: &Call<Empty, NightsQuery, Empty>,
    node: &Node,
    (from, to): (ServerTime, ServerTime),
) -> Answer<Vec<HourDocument>> {
    let catalog = &call.desk.store().catalog;
    let filter = EventFilter {
        node: Some(node.id),
        // A window may open, and an attempt begin, long after the planned time.
        from: Some(ServerTime(from.0.saturating_sub(HOURS * HOUR_MICROS))),
        to: Some(to),
        ..EventFilter::default()
    };
    let events = catalog.scheduled_events(&filter, None, LOOKED_AT_MAX)?;
    let sessions = catalog.sessions_since(node.id, from, LOOKED_AT_MAX)?;
    let numbering = call.desk.numbering(&call.caller);
    let mut hours = hours(&events, &sessions, (from, to));
    for number in hours.iter_mut().flat_map(|hour| &mut hour.events) {
        *number = numbering.shown(NumberKind::Event, *number);
    }
    Ok(hours)
}

/// Sorts events and finished backups into hours.
fn hours(
    events: &[ScheduledEvent],
    sessions: &[SessionRow],
    (from, to): (ServerTime, ServerTime),
) -> Vec<HourDocument> {
    let mut hours: BTreeMap<ServerTime, HourDocument> = BTreeMap::new();
    let mut put = |time: ServerTime, state: HourState, event: Option<u64>| {
        if !(from..to).contains(&time) {
            return;
        }
        let hour = hour_of(time);
        let new = || HourDocument { hour: Time(hour), state, events: Vec::new(), backups: 0 };
        let known = hours.entry(hour).or_insert_with(new);
        known.state = known.state.min(state);
        known.events.extend(event);
        known.backups += u32::from(event.is_none());
    };
    for event in events {
        let state = state_of(event);
        put(event.started.unwrap_or(event.opens), state, Some(event.number));
    }
    for session in sessions {
        put(session.started, state_of_backup(session), None);
    }
    hours.into_values().collect()
}

fn state_of(event: &ScheduledEvent) -> HourState {
    match event.state {
        EventState::Failed => HourState::Failed,
        EventState::Missed => HourState::Missed,
        EventState::Severed | EventState::Uncertain => HourState::CutOff,
        EventState::Started | EventState::InProgress | EventState::Restarted => HourState::Running,
        EventState::Future | EventState::Pending => HourState::Pending,
        EventState::Completed if event.code.is_some_and(|code| code > 0) => HourState::Warned,
        EventState::Completed => HourState::Good,
    }
}

fn state_of_backup(session: &SessionRow) -> HourState {
    let report: serde_json::Value = serde_json::from_str(&session.report).unwrap_or_default();
    let has_failures = report["failed"].as_u64().is_some_and(|failed| failed > 0);
    if has_failures || !session.complete { HourState::Warned } else { HourState::Good }
}

#[cfg(test)]
mod tests {
    use catalog::EventKey;
    use model::{FilespaceId, NodeId};

    use super::*;

    fn at(hour: i64, minute: i64) -> ServerTime {
        ServerTime(1_700_002_800_000_000 + hour * HOUR_MICROS + minute * 60_000_000)
    }

    fn event(number: u64, opens: ServerTime, state: EventState) -> ScheduledEvent {
        ScheduledEvent {
            number,
            key: EventKey { schedule: "s".to_owned(), planned: opens, node: Some(NodeId(1)) },
            node_name: None,
            opens,
            closes: at(99, 0),
            state,
            attempt: 1,
            started: None,
            ended: None,
            code: None,
            reason: String::new(),
            report: String::new(),
            control: None,
            watched: ServerTime(0),
            progress: String::new(),
            paused: None,
        }
    }

    fn backup(started: ServerTime, complete: bool, report: &str) -> SessionRow {
        let (node, filespace) = (NodeId(1), FilespaceId(1));
        let (ended, report) = (started, report.to_owned());
        SessionRow { node, filespace, started, ended, complete, report }
    }

    #[test]
    fn an_hour_shows_the_worst_of_what_was_in_it() {
        let late = ScheduledEvent {
            started: Some(at(2, 5)),
            code: Some(8),
            ..event(2, at(1, 50), EventState::Completed)
        };
        let events = [
            event(1, at(0, 59), EventState::Completed),
            late,
            event(3, at(1, 0), EventState::Missed),
            event(4, at(9, 0), EventState::Failed),
        ];
        let sessions = [
            backup(at(0, 0), true, r#"{"failed":0}"#),
            backup(at(1, 1), true, ""),
            backup(at(3, 0), true, r#"{"failed":2}"#),
            backup(at(4, 0), false, ""),
        ];
        let shown: Vec<_> = hours(&events, &sessions, (at(0, 0), at(5, 0)))
            .into_iter()
            .map(|hour| (hour.hour.0, hour.state, hour.events, hour.backups))
            .collect();
        let expected = [
            (at(0, 0), HourState::Good, vec![1], 1),
            (at(1, 0), HourState::Missed, vec![3], 1),
            (at(2, 0), HourState::Warned, vec![2], 0),
            (at(3, 0), HourState::Warned, vec![], 1),
            (at(4, 0), HourState::Warned, vec![], 1),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_night_has_whole_hours_and_an_end() {
        let now = at(30, 10);
        assert_eq!(span(None, None, now), Ok((at(6, 0), now)));
        let from = |hour, minute| Some(Time(at(hour, minute)));
        assert_eq!(span(from(1, 30), from(3, 0), now), Ok((at(1, 0), at(3, 0))));
        assert!(span(from(3, 0), from(3, 0), now).is_err());
        assert!(span(from(0, 0), from(200, 0), now).is_err());
        assert!(span(Some(Time(ServerTime(i64::MIN))), None, now).is_err());
    }
}
