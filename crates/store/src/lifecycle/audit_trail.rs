//! The audit trail, as administrators read it: events that meet conditions, newest first.

use catalog::{EventRow, LoggedEvent};
use model::ServerTime;

use crate::{Store, StoreError};

/// Number of events that are read from the catalogue at once.
const EVENTS_BATCH: usize = 1000;

/// Conditions on events. All of them must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    pub from: Option<ServerTime>,
    pub to: Option<ServerTime>,
    /// Node that made the event, or that the event is about.
    pub node: Option<String>,
    /// Part of the kind of the event.
    pub kind: Option<String>,
    /// Part of any field, in upper or lower case.
    pub text: Option<String>,
}

impl Filter {
    fn matches(&self, event: &EventRow) -> bool {
        let EventRow { time, actor, what, details } = event;
        let has = |field: &str, text: &str| field.to_lowercase().contains(&text.to_lowercase());
        self.from.is_none_or(|from| from <= *time)
            && self.to.is_none_or(|to| *time <= to)
            && self.node.as_deref().is_none_or(|node| is_about(event, node))
            && self.kind.as_deref().is_none_or(|kind| has(what, kind))
            && self
                .text
                .as_deref()
                .is_none_or(|text| [actor, what, details].iter().any(|field| has(field, text)))
    }
}

/// Returns true if `node` made the event, or is named in its details.
fn is_about(event: &EventRow, node: &str) -> bool {
    let is_of_name = |byte: char| byte.is_ascii_alphanumeric() || ".-_".contains(byte);
    let mut words = event.details.split(|byte| !is_of_name(byte));
    // A name at the end of a sentence has a full stop.
    event.actor.strip_prefix("node ") == Some(node)
        || words.any(|word| word == node || word.trim_end_matches('.') == node)
}

/// A part of the audit trail.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extract {
    pub events: Vec<LoggedEvent>,
    /// Number of the event at which to go on, where looking ended before enough events were found.
    pub next: Option<u64>,
}

/// Returns at most `limit` events that meet the conditions, newest first. The list begins with the
/// event numbered `first`, or with the newest. Looks at about `looked_at_max` events.
pub fn list(
    store: &Store,
    filter: &Filter,
    first: Option<u64>,
    (limit, looked_at_max): (usize, usize),
) -> Result<Extract, StoreError> {
    let (mut events, mut next, mut looked_at) = (Vec::new(), first, 0);
    while events.len() < limit {
        if looked_at >= looked_at_max {
            return Ok(Extract { events, next });
        }
        let batch = store.catalog.events(next, EVENTS_BATCH)?;
        looked_at += batch.len();
        let last = batch.last().map(|event| event.number);
        events.extend(batch.into_iter().filter(|logged| filter.matches(&logged.event)));
        match last {
            Some(number @ 1..) => next = Some(number - 1),
            Some(0) | None => break,
        }
    }
    events.truncate(limit);
    Ok(Extract { events, next: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_must_hold() {
        let event = EventRow {
            time: ServerTime(50),
            actor: "administrator (uid 0)".to_owned(),
            what: "node renamed".to_owned(),
            details: "web-1 is now web-10.".to_owned(),
        };
        let check = |filter: Filter, expected| assert_eq!(filter.matches(&event), expected);
        let none = Filter::default;
        let text = |text: &str| Some(text.to_owned());
        check(none(), true);
        check(Filter { from: Some(ServerTime(50)), to: Some(ServerTime(50)), ..none() }, true);
        check(Filter { from: Some(ServerTime(51)), ..none() }, false);
        check(Filter { to: Some(ServerTime(49)), ..none() }, false);
        for (node, expected) in
            [("web-1", true), ("web-10", true), ("web", false), ("1", false), ("node", false)]
        {
            check(Filter { node: text(node), ..none() }, expected);
        }
        check(Filter { kind: text("RENAME"), ..none() }, true);
        check(Filter { kind: text("uid"), ..none() }, false);
        check(Filter { text: text("UID 0"), ..none() }, true);
        check(Filter { text: text("is now"), kind: text("locked"), ..none() }, false);
        let own = EventRow { actor: "node web-1".to_owned(), details: String::new(), ..event };
        assert!(Filter { node: text("web-1"), ..none() }.matches(&own));
    }
}
