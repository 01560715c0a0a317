//! Conditions on events, as people name them.

use std::collections::BTreeSet;

use catalog::{EventFilter, Node};
use model::DomainId;
use policy::schedule::Work;

use super::define::definition;
use super::followers::Followers;
use super::owner::owner;
use crate::error::StoreError;
use crate::store::Store;

/// Maximum length of the text that is looked for, in bytes.
const TEXT_BYTES_MAX: usize = 1000;
/// Maximum number of schedules that do the work that is asked for. A statement has one parameter
/// for each.
const SCHEDULES_MAX: usize = 10_000;

/// Conditions on events. All of them must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventConditions {
    /// Label of the node.
    pub label: Option<String>,
    /// Name of the work that the schedule does now. A schedule that was removed does none.
    pub work: Option<String>,
    /// Part of the name of the schedule, of the name of the node, or of the reason.
    pub text: Option<String>,
}

/// Adds the conditions to a selection of events. The work of a schedule that belongs to a domain is
/// known if `is_seen` is true for the domain.
pub fn narrow(
    store: &Store,
    filter: &mut EventFilter,
    conditions: EventConditions,
    is_seen: &dyn Fn(DomainId) -> bool,
) -> Result<(), StoreError> {
    let EventConditions { label, work, text } = conditions;
    if text.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(StoreError::usage(format!(
            "the text to look for is longer than {TEXT_BYTES_MAX} bytes"
        )));
    }
    filter.schedules = work.map(|work| schedules_of(store, &work, is_seen)).transpose()?;
    filter.label = label;
    filter.text = text;
    Ok(())
}

/// Returns the names of the schedules that do this work, out of those of the service and of the
/// domains that are seen.
fn schedules_of(
    store: &Store,
    name: &str,
    is_seen: &dyn Fn(DomainId) -> bool,
) -> Result<BTreeSet<String>, StoreError> {
    let work = Work::of_name(name).ok_or_else(|| {
        let names = Work::ALL.map(Work::name).join(", ");
        StoreError::usage(format!(
            "'{}' is not the action of a schedule: give one of {names}",
            name.escape_debug()
        ))
    })?;
    let mut rows = store.catalog.schedules()?;
    // A definition that cannot be read does nothing.
    rows.retain(|row| {
        owner(row).is_none_or(is_seen)
            && definition(row).is_ok_and(|known| known.action.work == work)
    });
    if rows.len() > SCHEDULES_MAX {
        return Err(StoreError::usage(format!(
            "more than {SCHEDULES_MAX} schedules have the action {name}: name a schedule"
        )));
    }
    Ok(rows.into_iter().map(|row| row.name).collect())
}

/// Returns true if the schedule `name` meets the conditions of `filter` about schedules alone.
pub(super) fn takes_schedule(filter: &EventFilter, name: &str) -> bool {
    filter.schedule.as_ref().is_none_or(|one| one.eq_ignore_ascii_case(name))
        && filter.schedules.as_ref().is_none_or(|all| all.contains(name))
}

/// Returns true if an event of the schedule `name` at the node, or at the server itself, that has
/// no reason yet meets the other conditions of `filter` about the schedule and the node.
pub(super) fn meets(
    filter: &EventFilter,
    (name, node): (&str, Option<&Node>),
    followers: &Followers,
) -> bool {
    let has =
        |field: &str, text: &str| field.to_ascii_lowercase().contains(&text.to_ascii_lowercase());
    let has_text =
        |text: &str| has(name, text) || node.is_some_and(|node| has(node.name.as_str(), text));
    let has_label = |label: &str| node.is_some_and(|node| followers.has_label(node.id, label));
    let is_in = |domain| node.is_some_and(|node| node.domain == domain);
    filter.node.is_none_or(|wanted| node.is_some_and(|node| node.id == wanted))
        && (node.is_none() || !filter.is_of_server)
        && (node.is_some() || !filter.is_of_nodes)
        && filter.domain.is_none_or(is_in)
        && filter.label.as_deref().is_none_or(has_label)
        && filter.text.as_deref().is_none_or(has_text)
}
