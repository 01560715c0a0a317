//! Choices for a node: the schedules that it can follow, and the policies of domains to which it
//! can move.

use std::collections::BTreeSet;

use policy::schedule::{ONCE_PREFIX, Place};
use schemars::JsonSchema;
use serde::Serialize;
use store::schedules;

use super::found_node::find_node;
use super::nodes::{NodePath, check_handover};
use super::schedules::View;
use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::ListQuery;
use crate::fields::{Empty, Page};
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// A schedule that a node can follow.
#[derive(Serialize, JsonSchema)]
struct ScheduleChoice {
    name: String,
    description: String,
    /// Kind of the work.
    work: &'static str,
    /// True if the node follows the schedule.
    is_followed: bool,
}

/// A domain to which a node can move.
#[derive(Serialize, JsonSchema)]
struct PolicyChoice {
    domain: String,
    default_class: String,
    classes: Vec<String>,
    /// True for the domain of the node.
    is_own: bool,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Nodes;
    let summary = "Lists the schedules that a node follows or can follow";
    let path = "/v1/nodes/{node}/schedules";
    routes.add(Operation::read("nodes.schedules", path, area, summary), of_schedules);
    let summary = "Lists the domains whose policy a node follows or can follow";
    let path = "/v1/nodes/{node}/policies";
    routes.add(Operation::read("nodes.policies", path, area, summary), of_policies);
}

fn of_schedules(call: &mut Call<NodePath, ListQuery, Empty>) -> Answer<Page<ScheduleChoice>> {
    let portion = call.query.portion()?;
    let rights = (Area::Nodes, Right::Read);
    let node = find_node(&call.desk, &call.caller, &call.path.node, rights)?.node;
    let store = call.desk.store();
    let plan = schedules::plan_of(store, &node)?.schedules;
    let followed: BTreeSet<String> = plan.into_iter().map(|one| one.name).collect();
    let view = View::read(&call.desk, &call.caller)?;
    let mut choices = Vec::new();
    for schedule in schedules::readable(store)? {
        let is_of_others = schedule.owner.is_some_and(|owner| owner != node.domain);
        let is_followed = followed.contains(&schedule.row.name);
        if is_of_others || !(is_followed || view.shows(&schedule)) {
            continue;
        }
        let is_of_nodes = schedule.definition.place() == Place::Node;
        // Schedules that were made for one order are not for others.
        let is_lasting = !schedule.row.name.starts_with(ONCE_PREFIX);
        if is_of_nodes && is_lasting {
            choices.push(ScheduleChoice {
                is_followed,
                description: schedule.definition.description,
                work: schedule.definition.action.work.name(),
                name: schedule.row.name,
            });
        }
    }
    let key = |one: &ScheduleChoice| one.name.to_ascii_lowercase().into_bytes();
    choices.sort_by_cached_key(key);
    Ok(portion.page_of(choices, key))
}

fn of_policies(call: &mut Call<NodePath, ListQuery, Empty>) -> Answer<Page<PolicyChoice>> {
    let portion = call.query.portion()?;
    let rights = (Area::Nodes, Right::Read);
    let node = find_node(&call.desk, &call.caller, &call.path.node, rights)?.node;
    let caller = &call.caller;
    let may_move = |domain| caller.may(Area::Nodes, Right::Write, Subject::Domain(domain));
    let may_leave = may_move(node.domain) && check_handover(caller, node.domain).is_ok();
    let mut choices = Vec::new();
    for domain in call.desk.store().catalog.domains()? {
        let is_own = domain.id == node.domain;
        if !(is_own || may_leave && may_move(domain.id)) {
            continue;
        }
        let default = domain.active.class(domain.active.default_class);
        choices.push(PolicyChoice {
            default_class: default.map(|class| class.name.clone()).unwrap_or_default(),
            classes: domain.active.classes.iter().map(|class| class.name.clone()).collect(),
            is_own,
            domain: domain.name,
        });
    }
    let key = |one: &PolicyChoice| one.domain.to_ascii_lowercase().into_bytes();
    choices.sort_by_cached_key(key);
    Ok(portion.page_of(choices, key))
}
