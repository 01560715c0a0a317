//! Roles, and what each may do: the table by which every operation is allowed or refused.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A role of a person. A role can be held everywhere, or in one domain.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// May do everything.
    System,
    /// Decides what is backed up and how long it is kept.
    Policy,
    /// Looks after pools, volumes and libraries.
    Storage,
    /// Looks after the daily work: sessions, events, tasks.
    Operator,
    /// Reads everything except the content of files, and changes nothing.
    Auditor,
    /// Administers the nodes and people of a domain.
    Tenant,
    /// Owns nodes. Each person has this role for the nodes that name the person as their owner.
    Owner,
}

/// A part of the service whose operations have the same rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Area {
    /// Questions that anybody may ask who can connect.
    Open,
    /// The caller's own account, password and keys.
    Account,
    /// Servers, platforms and other facts about the service.
    Service,
    Domains,
    People,
    /// Registered nodes and their settings.
    Nodes,
    /// Tokens and certificates of nodes.
    Enrolment,
    Policies,
    Schedules,
    /// Work at nodes: events, runs for now, sessions.
    Work,
    /// Pools, volumes and libraries.
    Storage,
    /// The server's own tasks.
    Tasks,
    Log,
    Reports,
    /// Alerts, and who knows of them.
    Alerts,
    /// Names and attributes of stored files.
    Inventory,
    /// Contents of stored files.
    Contents,
    Approvals,
}

/// Kind of an access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Right {
    Read,
    Write,
}

/// The roles that may read and write in an area.
struct Rule {
    area: Area,
    title: &'static str,
    readers: &'static [Role],
    writers: &'static [Role],
}

impl Area {
    /// Returns the name of the area in the table for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Open => "Open to everybody who can connect",
            Self::Account => "The caller's own account and keys",
            _ => rule_of(self).title,
        }
    }
}

impl Right {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "change",
        }
    }
}

use Role::{Auditor, Operator, Owner, Policy, Storage, System, Tenant};

impl Role {
    pub(crate) const ALL: [Self; 7] = [System, Policy, Storage, Operator, Auditor, Tenant, Owner];

    /// The name of the role, as requests and the catalogue have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System => "system",
            Policy => "policy",
            Storage => "storage",
            Operator => "operator",
            Auditor => "auditor",
            Tenant => "tenant",
            Owner => "owner",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

const EVERYBODY: &[Role] = &Role::ALL;
const STAFF: &[Role] = &[System, Policy, Storage, Operator, Auditor];

/// The table of rules. It has each area except [`Area::Open`] and [`Area::Account`], in which
/// everybody may do everything.
const RULES: [Rule; 16] = [
    rule(Area::Service, "Servers and facts about the service", EVERYBODY, &[System]),
    rule(Area::Domains, "Domains", EVERYBODY, &[System]),
    rule(
        Area::People,
        "People, roles, keys of others",
        &[System, Auditor, Tenant],
        &[System, Tenant],
    ),
    rule(Area::Nodes, "Nodes", EVERYBODY, &[System, Operator, Tenant, Owner]),
    rule(
        Area::Enrolment,
        "Tokens and certificates of nodes",
        &[System, Tenant],
        &[System, Tenant, Owner],
    ),
    rule(Area::Policies, "Policies and option sets", EVERYBODY, &[System, Policy, Tenant]),
    rule(Area::Schedules, "Schedules", EVERYBODY, &[System, Policy, Tenant]),
    rule(
        Area::Work,
        "Work at nodes: events, runs, sessions",
        EVERYBODY,
        &[System, Operator, Tenant, Owner],
    ),
    rule(Area::Storage, "Pools, volumes, libraries", STAFF, &[System, Storage]),
    rule(Area::Tasks, "Tasks of the server", STAFF, &[System, Storage, Operator]),
    rule(Area::Log, "Activity log", STAFF, &[]),
    rule(Area::Reports, "Reports and occupancy", EVERYBODY, &[System]),
    rule(Area::Alerts, "Alerts", EVERYBODY, &[System, Storage, Operator, Tenant]),
    rule(
        Area::Inventory,
        "Names and attributes of stored files",
        &[System, Auditor, Tenant, Owner],
        &[],
    ),
    rule(
        Area::Contents,
        "Contents of stored files",
        &[System, Tenant, Owner],
        &[System, Tenant, Owner],
    ),
    rule(Area::Approvals, "Requests for approval", EVERYBODY, &[System, Tenant]),
];

const fn rule(
    area: Area,
    title: &'static str,
    readers: &'static [Role],
    writers: &'static [Role],
) -> Rule {
    Rule { area, title, readers, writers }
}

fn rule_of(area: Area) -> &'static Rule {
    RULES.iter().find(|rule| rule.area == area).expect("the table has every area")
}

/// Returns true if `role` may do what needs `right` in `area`, with objects that the role covers.
pub(crate) fn permits(role: Role, area: Area, right: Right) -> bool {
    if matches!(area, Area::Open | Area::Account) {
        return true;
    }
    let rule = rule_of(area);
    match right {
        Right::Read => rule.readers.contains(&role),
        Right::Write => rule.writers.contains(&role),
    }
}

/// Returns the names of all roles.
pub fn names() -> impl Iterator<Item = &'static str> {
    Role::ALL.into_iter().map(Role::name)
}

/// Returns the table for people, in Markdown.
pub fn table() -> String {
    let mut table = String::from("|");
    for title in ["area"].into_iter().chain(Role::ALL.map(Role::name)) {
        write!(table, " {title} |").expect("text accepts everything");
    }
    table.push_str("\n|");
    table.push_str(&"---|".repeat(Role::ALL.len() + 1));
    for rule in &RULES {
        write!(table, "\n| {} |", rule.title).expect("text accepts everything");
        for role in Role::ALL {
            let word =
                match [Right::Read, Right::Write].map(|right| permits(role, rule.area, right)) {
                    [true, true] => "read, change",
                    [true, false] => "read",
                    [false, true] => "change",
                    [false, false] => "-",
                };
            write!(table, " {word} |").expect("text accepts everything");
        }
    }
    table.push('\n');
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for role in Role::ALL {
            assert_eq!(Role::of_name(role.name()), Some(role));
            let json = serde_json::to_string(&role).expect("is text");
            assert_eq!(json, format!("{:?}", role.name()));
        }
        assert_eq!(Role::of_name("root"), None);
    }

    #[test]
    fn system_does_everything_and_an_auditor_changes_nothing() {
        for rule in &RULES {
            assert!(permits(System, rule.area, Right::Read), "{:?}", rule.area);
            assert!(!permits(Auditor, rule.area, Right::Write), "{:?}", rule.area);
        }
        assert!(!permits(Auditor, Area::Contents, Right::Read));
        assert!(!permits(Operator, Area::Contents, Right::Read));
    }

    #[test]
    fn who_may_write_may_read() {
        for rule in &RULES {
            let blind = rule.writers.iter().filter(|role| !rule.readers.contains(role));
            // The owner of a node gets its token and looks at no other.
            let expected: &[&Role] = if rule.area == Area::Enrolment { &[&Owner] } else { &[] };
            assert_eq!(blind.collect::<Vec<_>>(), expected, "{:?}", rule.area);
        }
    }
}
