//! Agents that poll: they hear of an order or a change at their next call.

use client::admin::{Node, PollingAgent};
use model::ServerTime;

use crate::moment;

/// Returns when an agent that polls has called last, and when it calls next at the latest.
pub(super) fn call_words(
    PollingAgent { node, last, next }: &PollingAgent,
    now: ServerTime,
) -> String {
    let next_words = moment::shown_after(*next, *last);
    let next_words = match *next < now {
        true => format!("late since {next_words}"),
        false => format!("next by {next_words}"),
    };
    format!("{node} (last call {}, {next_words})", moment::shown(*last))
}

/// Returns the agent of a node that polls. One that is connected now hears of everything at once.
pub(super) fn agent_of(node: &Node) -> Option<PollingAgent> {
    let (last, next) = (node.agent_polled?, node.agent_next_poll?);
    let is_connected = node.has_agent == Some(true);
    (!is_connected).then(|| PollingAgent { node: node.name.clone(), last, next })
}
