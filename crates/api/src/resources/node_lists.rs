//! Lists of nodes: which nodes a caller may see, filtered and sorted.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Node, NodeDetails, Person};
use model::{NodeId, PersonId, ServerTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Number of nodes that are read from the catalogue at once.
const BATCH: usize = 1_000;

/// A node in a list.
#[derive(Serialize, JsonSchema)]
pub(super) struct NodeItem {
    name: String,
    domain: String,
    /// Login of the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    hostname: String,
    description: String,
    platform: String,
    application: String,
    cost_centre: String,
    labels: Vec<String>,
    locked: bool,
    /// Start of the last backup of any filespace that examined everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_backup: Option<Time>,
    is_connected: bool,
}

/// Order of a list of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Sort {
    #[default]
    Name,
    Domain,
    Owner,
    Hostname,
    Application,
    CostCentre,
    Registered,
    /// Nodes without a backup first, then the oldest.
    LastBackup,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only nodes of this domain.
    domain: Option<String>,
    /// Only nodes of this owner, by login.
    owner: Option<String>,
    /// Only nodes with this host name.
    hostname: Option<String>,
    /// Only nodes with this label.
    label: Option<String>,
    /// Only nodes of this platform.
    platform: Option<String>,
    /// Only nodes of this application.
    application: Option<String>,
    /// Only nodes with this text in name, host name or description.
    search: Option<String>,
    /// Order of the list.
    sort: Option<Sort>,
    /// True for the opposite order.
    descending: Option<bool>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

/// Conditions of a list of nodes.
#[derive(Clone, Copy, Default)]
pub(super) struct NodeFilter<'a> {
    pub(super) domain: Option<&'a str>,
    /// Login of the owner.
    pub(super) owner: Option<&'a str>,
    pub(super) hostname: Option<&'a str>,
    pub(super) label: Option<&'a str>,
    pub(super) platform: Option<&'a str>,
    pub(super) application: Option<&'a str>,
    pub(super) search: Option<&'a str>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Lists nodes";
    routes.add(Operation::read("nodes.list", "/v1/nodes", Area::Nodes, summary), list);
}

/// Facts about nodes that lists need.
pub(super) struct Register {
    details: BTreeMap<NodeId, NodeDetails>,
    people: BTreeMap<PersonId, String>,
    labels: BTreeMap<NodeId, Vec<String>>,
    last_backups: BTreeMap<NodeId, ServerTime>,
    connected: BTreeSet<NodeId>,
}

impl Register {
    /// Reads the facts about all nodes.
    pub(super) fn read(desk: &Desk) -> Answer<Self> {
        let catalog = &desk.store().catalog;
        let login = |person: Person| (person.id, person.login);
        Ok(Self {
            details: catalog.all_node_details()?.into_iter().collect(),
            people: catalog.people()?.into_iter().map(login).collect(),
            labels: by_node(catalog.labels(None)?),
            last_backups: catalog.last_backups()?.into_iter().collect(),
            connected: connected(desk),
        })
    }

    /// Reads the facts about one node.
    pub(super) fn of_node(desk: &Desk, node: NodeId) -> Answer<Self> {
        let catalog = &desk.store().catalog;
        let details = catalog.node_details(node)?;
        let owner = details.owner.map(|owner| catalog.person_numbered(owner)).transpose()?;
        let filespaces = catalog.filespaces(node)?;
        let last_backup = filespaces.iter().filter_map(|one| one.last_backup).max();
        Ok(Self {
            details: BTreeMap::from([(node, details)]),
            people: owner.into_iter().map(|person| (person.id, person.login)).collect(),
            labels: by_node(catalog.labels(Some(node))?),
            last_backups: last_backup.into_iter().map(|time| (node, time)).collect(),
            connected: connected(desk),
        })
    }

    pub(super) fn details(&self, node: NodeId) -> NodeDetails {
        self.details.get(&node).cloned().unwrap_or_default()
    }

    /// Returns the start of the last backup of any filespace that examined everything.
    pub(super) fn last_backup(&self, node: NodeId) -> Option<ServerTime> {
        self.last_backups.get(&node).copied()
    }

    fn owner(&self, details: &NodeDetails) -> Option<&String> {
        self.people.get(&details.owner?)
    }

    pub(super) fn item(&self, node: &Node) -> NodeItem {
        let details = self.details(node.id);
        NodeItem {
            name: node.name.to_string(),
            domain: node.domain_name.clone(),
            owner: self.owner(&details).cloned(),
            hostname: details.hostname,
            description: details.description,
            platform: details.platform,
            application: details.application,
            cost_centre: details.cost_centre,
            labels: self.labels.get(&node.id).cloned().unwrap_or_default(),
            locked: node.locks.any(),
            last_backup: self.last_backup(node.id).map(Time),
            is_connected: self.connected.contains(&node.id),
        }
    }

    /// Returns true if the node meets the conditions of a list.
    fn meets(&self, node: &Node, filter: &NodeFilter<'_>) -> bool {
        let unknown = NodeDetails::default();
        let details = self.details.get(&node.id).unwrap_or(&unknown);
        let is = |wanted: Option<&str>, value: &str| {
            wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(value))
        };
        let has_label = |label: &str| {
            self.labels
                .get(&node.id)
                .is_some_and(|labels| labels.iter().any(|one| one == label))
        };
        let has_text = |text: &str| {
            let text = text.to_lowercase();
            [node.name.as_str(), &details.hostname, &details.description]
                .iter()
                .any(|field| field.to_lowercase().contains(&text))
        };
        is(filter.domain, &node.domain_name)
            && is(filter.owner, self.owner(details).map_or("", String::as_str))
            && is(filter.hostname, &details.hostname)
            && is(filter.platform, &details.platform)
            && is(filter.application, &details.application)
            && filter.label.is_none_or(has_label)
            && filter.search.is_none_or(has_text)
    }

    /// Returns the key by which a list is sorted; nodes with one key are sorted by name.
    fn key(&self, node: &Node, sort: Sort) -> Vec<u8> {
        let unknown = NodeDetails::default();
        let details = self.details.get(&node.id).unwrap_or(&unknown);
        let text = |text: &str| text.to_lowercase().into_bytes();
        // Times since 1970 are positive, and so have the order of their bytes.
        let time = |time: ServerTime| time.0.max(0).to_be_bytes().to_vec();
        match sort {
            Sort::Name => Vec::new(),
            Sort::Domain => text(&node.domain_name),
            Sort::Owner => text(self.owner(details).map_or("", String::as_str)),
            Sort::Hostname => text(&details.hostname),
            Sort::Application => text(&details.application),
            Sort::CostCentre => text(&details.cost_centre),
            Sort::Registered => time(node.registered),
            Sort::LastBackup => self.last_backup(node.id).map(time).unwrap_or_default(),
        }
    }
}

fn by_node(all: Vec<(NodeId, String)>) -> BTreeMap<NodeId, Vec<String>> {
    let mut labels: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for (node, label) in all {
        labels.entry(node).or_default().push(label);
    }
    labels
}

fn connected(desk: &Desk) -> BTreeSet<NodeId> {
    desk.office.connected().into_iter().map(|one| one.node).collect()
}

/// Returns the next nodes by name with which the caller may do what reads in `area`, and that meet
/// the conditions: as many as the portion reads.
pub(super) fn visible_nodes<P, Q, B>(
    call: &Call<P, Q, B>,
    area: Area,
    (register, filter): (&Register, NodeFilter<'_>),
    portion: &Portion,
) -> Answer<Vec<Node>> {
    let catalog = &call.desk.store().catalog;
    let (mut chosen, mut from) = (Vec::new(), portion.first_text()?.to_owned());
    while chosen.len() < portion.read_max() {
        let batch = catalog.nodes_from(&from, BATCH)?;
        let Some(last) = batch.last() else { break };
        // Names have no control characters, so the next name is not before this text. PostgreSQL
        // refuses a NUL.
        from = format!("{}\u{1}", last.name);
        chosen.extend(batch.into_iter().filter(|node| {
            let subject = Subject::of_node(node, register.details.get(&node.id));
            call.caller.may(area, Right::Read, subject) && register.meets(node, &filter)
        }));
    }
    chosen.truncate(portion.read_max());
    Ok(chosen)
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<NodeItem>> {
    let query = &call.query;
    let portion = Portion::parse(query.limit, query.cursor.as_deref())?;
    let filter = NodeFilter {
        domain: query.domain.as_deref(),
        owner: query.owner.as_deref(),
        hostname: query.hostname.as_deref(),
        label: query.label.as_deref(),
        platform: query.platform.as_deref(),
        application: query.application.as_deref(),
        search: query.search.as_deref(),
    };
    let register = Register::read(&call.desk)?;
    let (sort, descending) = (query.sort.unwrap_or_default(), query.descending.unwrap_or(false));
    let page = if sort == Sort::Name && !descending {
        let nodes = visible_nodes(call, Area::Nodes, (&register, filter), &portion)?;
        portion.page(nodes, |node| node.name.as_str().as_bytes().to_vec())
    } else {
        let everything = Portion::everything();
        let nodes = visible_nodes(call, Area::Nodes, (&register, filter), &everything)?;
        let nodes = nodes.into_iter().map(|node| (register.key(&node, sort), node)).collect();
        let page = sorted(nodes, &portion, descending)?;
        Page { items: page.items.into_iter().map(|(_, node)| node).collect(), next: page.next }
    };
    let items = page.items.iter().map(|node| register.item(node)).collect();
    Ok(Page { items, next: page.next })
}

/// Sorts nodes by their keys and names, and returns the page of a portion.
fn sorted(
    mut nodes: Vec<(Vec<u8>, Node)>,
    portion: &Portion,
    descending: bool,
) -> Answer<Page<(Vec<u8>, Node)>> {
    let place =
        |(key, node): &(Vec<u8>, Node)| (key.clone(), node.name.as_str().as_bytes().to_vec());
    nodes.sort_by_cached_key(place);
    if descending {
        nodes.reverse();
    }
    if !portion.is_first() {
        let from = parse_place(portion.first_bytes())
            .ok_or_else(|| Problem::invalid("the cursor is of another list"))?;
        nodes.retain(|node| if descending { place(node) <= from } else { place(node) >= from });
    }
    nodes.truncate(portion.read_max());
    Ok(portion.page(nodes, |node| encode_place(&place(node))))
}

/// Encodes the place of a node in a sorted list: the length of the key, the key, the name.
fn encode_place((key, name): &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
    let length = u32::try_from(key.len()).expect("keys are short").to_be_bytes();
    [&length[..], key, name].concat()
}

fn parse_place(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (key, name) = rest.split_at_checked(length)?;
    Some((key.to_vec(), name.to_vec()))
}

#[cfg(test)]
mod tests {
    use catalog::Locks;
    use model::{DomainId, NodeName};
    use proptest::prelude::*;

    use super::*;

    fn node(name: &str) -> Node {
        Node {
            id: NodeId(1),
            name: NodeName::new(name).expect("a name"),
            domain: DomainId(1),
            domain_name: "STANDARD".to_owned(),
            domain_since: ServerTime(0),
            locks: Locks::default(),
            registered: ServerTime(0),
            option_set: None,
            deletes_backups: false,
            deletes_archives: true,
            collocation_group: None,
        }
    }

    proptest! {
        #[test]
        fn pages_of_a_sorted_list_make_up_the_list(
            keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3), 0..40),
            limit in 1_u32..7,
            descending: bool,
        ) {
            let all: Vec<(Vec<u8>, Node)> = keys
                .into_iter()
                .enumerate()
                .map(|(number, key)| (key, node(&format!("n{number:03}"))))
                .collect();
            let (mut read, mut cursor) = (Vec::new(), None::<String>);
            loop {
                let portion = Portion::parse(Some(limit), cursor.as_deref()).expect("is right");
                let page = sorted(all.clone(), &portion, descending).expect("is sorted");
                read.extend(page.items.into_iter().map(|(key, node)| (key, node.name.to_string())));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            let mut expected: Vec<(Vec<u8>, String)> =
                all.into_iter().map(|(key, node)| (key, node.name.to_string())).collect();
            expected.sort();
            if descending {
                expected.reverse();
            }
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_are_a_place_or_none(bytes: Vec<u8>) {
            if let Some(place) = parse_place(&bytes) {
                prop_assert_eq!(encode_place(&place), bytes);
            }
        }
    }
}
