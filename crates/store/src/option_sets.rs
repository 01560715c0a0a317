//! Option sets: what the server gives to nodes, in versions.
//!
//! ```text
//!   change --> new version --> in force for all nodes
//!                   |
//!                   `-- for a share of the nodes --> promoted --> in force
//!                                             `----> withdrawn (the number is not given again)
//! ```
//!
//! A version never changes. Going back to an old version makes a new one with its content.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{CatalogError, EnrolmentKeyRow, EventRow, Node, OptionSet, OptionSetVersion};
use model::{NodeId, ServerTime};
use policy::settings::{SET_OPTIONS_MAX, SetOption, Share, chosen_first};

use crate::enrolment_keys::check_unnamed;
use crate::error::StoreError;
use crate::schedules;
use crate::store::Store;

/// A change of an option set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionSetChange {
    /// Options that are added or replaced.
    pub set: Vec<SetOption>,
    /// Names of options that are removed.
    pub unset: Vec<String>,
    /// Statements that replace those before; `None` leaves them.
    pub text: Option<Vec<u8>>,
    /// Version whose content replaces everything.
    pub revert_to: Option<u64>,
    pub comment: String,
    /// Share of the nodes that get the version first; `None` for all.
    pub share: Option<Share>,
}

/// Kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The option set must be new.
    Define,
    /// The option set must exist.
    Update,
    /// The option set is made if it does not exist.
    Put,
}

/// Result of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeReport {
    pub name: String,
    /// The version before the change; `None` for a new option set.
    pub before: Option<OptionSetVersion>,
    pub after: OptionSetVersion,
    /// True if the versions differ.
    pub is_change: bool,
    /// Names of the nodes that get the version first; `None` if all get it.
    pub first: Option<Vec<String>>,
    /// Number of nodes that have the option set.
    pub nodes: usize,
}

/// An option set and the nodes that have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSetUse {
    pub set: OptionSet,
    /// Names of the nodes that have the version in force.
    pub nodes: Vec<String>,
    /// Names of the nodes that have the staged version.
    pub first: Vec<String>,
}

/// Lists one option set, or all option sets.
pub fn list(store: &Store, name: Option<&str>) -> Result<Vec<OptionSetUse>, StoreError> {
    let sets = match name {
        Some(name) => vec![find(store, name)?],
        None => store.catalog.option_sets()?,
    };
    let nodes = store.catalog.nodes()?;
    let uses = sets.into_iter().map(|set| {
        let is_first =
            |node: &&Node| set.stage.as_ref().is_some_and(|stage| stage.nodes.contains(&node.id));
        let name = |node: &Node| node.name.to_string();
        let (first, others): (Vec<&Node>, Vec<&Node>) =
            users(&nodes, &set.name).partition(is_first);
        let first = first.into_iter().map(name).collect();
        OptionSetUse { nodes: others.into_iter().map(name).collect(), first, set }
    });
    Ok(uses.collect())
}

/// All versions of an option set, newest first.
pub fn versions(store: &Store, name: &str) -> Result<Vec<OptionSetVersion>, StoreError> {
    let set = find(store, name)?;
    let mut versions = store.catalog.option_set_versions(&set.name)?;
    // A server of an older version changes the statements without making a version.
    match versions.iter_mut().find(|version| version.number == set.current.number) {
        Some(version) => *version = set.current,
        None => versions.push(set.current),
    }
    versions.sort_by_key(|version| std::cmp::Reverse(version.number));
    Ok(versions)
}

/// Returns the options that a return to the version `number` would bring back: those that the
/// version in force does not have. None for a version that does not exist.
pub fn options_brought_back(
    store: &Store,
    name: &str,
    number: u64,
) -> Result<Vec<SetOption>, StoreError> {
    let current = find(store, name)?.current.options;
    let old = versions(store, name)?.into_iter().find(|version| version.number == number);
    let mut options = old.map(|version| version.options).unwrap_or_default();
    options.retain(|option| !current.contains(option));
    Ok(options)
}

/// Changes an option set, or with `is_dry` only says how.
pub fn change(
    store: &Store,
    name: &str,
    mode: Mode,
    change: OptionSetChange,
    author: &str,
    is_dry: bool,
) -> Result<ChangeReport, StoreError> {
    crate::check_name(name, "an option set")?;
    let known = find_any(store, name)?;
    let known = match (known, mode) {
        (Some(_), Mode::Define) => {
            return Err(StoreError::conflict(format!(
                "the option set {name} exists already; change it with 'optionset update'"
            )));
        }
        (None, Mode::Update) => return Err(unknown(name)),
        (known, _) => known,
    };
    if let Some(stage) = known.as_ref().and_then(|set| set.stage.as_ref()) {
        return Err(StoreError::conflict(format!(
            "version {} of the option set {name} is with {} of its nodes; first promote or \
             withdraw it",
            stage.version.number, stage.share
        )));
    }
    let name = known.as_ref().map_or(name, |set| &set.name).to_owned();
    let share = change.share;
    let after = next_version(store, &name, known.as_ref(), change, author)?;
    let before = known.map(|set| set.current);
    let is_change = before.as_ref().is_none_or(|before| !has_content_of(before, &after));
    let nodes = store.catalog.nodes()?;
    let nodes: Vec<&Node> = users(&nodes, &name).collect();
    let chosen = share.map(|share| choose(&nodes, &name, after.number, share)).transpose()?;
    let names = |chosen: &Vec<&Node>| chosen.iter().map(|node| node.name.to_string()).collect();
    let first = chosen.as_ref().map(names);
    if is_change && !is_dry {
        let ids: Vec<NodeId> = chosen.iter().flatten().map(|node| node.id).collect();
        let stage = share.map(|share| (share, &ids[..]));
        let what = if before.is_some() { "option set changed" } else { "option set stored" };
        let event = event(author, what, description(&name, &after, share));
        store
            .catalog
            .add_option_set_version(&name, &after, stage, &event)
            .map_err(|error| raced(&name, error))?;
        schedules::announce(store)?;
    }
    Ok(ChangeReport { name, before, after, is_change, first, nodes: nodes.len() })
}

/// Gives the staged version to all nodes, or takes it back from those that have it.
pub fn end_stage(
    store: &Store,
    name: &str,
    is_promoted: bool,
    author: &str,
) -> Result<ChangeReport, StoreError> {
    let set = find(store, name)?;
    let Some(stage) = set.stage else {
        return Err(StoreError::conflict(format!(
            "no version of the option set {} is with a part of its nodes",
            set.name
        )));
    };
    let now = sys::clock::now();
    let number = stage.version.number;
    let what = if is_promoted { "option set promoted" } else { "option set withdrawn" };
    let event = event(author, what, format!("{}: version {number}", set.name));
    store
        .catalog
        .end_option_set_stage(&set.name, number, is_promoted.then_some(now), &event)
        .map_err(|error| raced(&set.name, error))?;
    schedules::announce(store)?;
    let nodes = users(&store.catalog.nodes()?, &set.name).count();
    let (before, after) = match is_promoted {
        true => (set.current, stage.version),
        false => (stage.version, set.current),
    };
    let is_change = !has_content_of(&before, &after);
    Ok(ChangeReport { name: set.name, before: Some(before), after, is_change, first: None, nodes })
}

/// Removes an option set, also from the nodes that use it.
pub fn remove(store: &Store, name: &str, author: &str) -> Result<(), StoreError> {
    let name = find(store, name)?.name;
    let is_given = |key: &EnrolmentKeyRow| {
        key.option_set.as_ref().is_some_and(|set| set.eq_ignore_ascii_case(&name))
    };
    check_unnamed(store, &format!("option set {name}"), is_given)?;
    let event = event(author, "option set removed", name.clone());
    store.catalog.remove_option_set(&name, &event)?;
    schedules::announce(store)
}

/// Returns the name and the version of the option set that `node` has, if it has one.
pub fn of_node(
    store: &Store,
    node: &Node,
) -> Result<Option<(String, OptionSetVersion)>, StoreError> {
    let Some(name) = &node.option_set else { return Ok(None) };
    let set = find_any(store, name)?
        .ok_or_else(|| StoreError::damaged("the node's option set is missing"))?;
    Ok(Some(version_for(set, node.id)))
}

/// Returns the number of the version that `node` has of one of `sets`; 0 without one.
pub fn number_of(sets: &[OptionSet], node: &Node) -> u64 {
    let name = node.option_set.as_deref().unwrap_or_default();
    let Some(set) = sets.iter().find(|set| set.name.eq_ignore_ascii_case(name)) else { return 0 };
    let staged = set.stage.as_ref().filter(|stage| stage.nodes.contains(&node.id));
    staged.map_or(set.current.number, |stage| stage.version.number)
}

fn version_for(set: OptionSet, node: NodeId) -> (String, OptionSetVersion) {
    let staged = set.stage.filter(|stage| stage.nodes.contains(&node));
    (set.name, staged.map_or(set.current, |stage| stage.version))
}

pub(crate) fn find(store: &Store, name: &str) -> Result<OptionSet, StoreError> {
    find_any(store, name)?.ok_or_else(|| unknown(name))
}

fn find_any(store: &Store, name: &str) -> Result<Option<OptionSet>, StoreError> {
    let sets = store.catalog.option_sets()?;
    Ok(sets.into_iter().find(|set| set.name.eq_ignore_ascii_case(name)))
}

/// The error for an option set that does not exist.
pub fn unknown(name: &str) -> StoreError {
    StoreError::not_found(format!(
        "there is no option set {name}; 'holdfast admin optionset list' shows all option sets"
    ))
}

/// The nodes that have the option set `name`.
fn users<'a>(nodes: &'a [Node], name: &str) -> impl Iterator<Item = &'a Node> {
    let has =
        |node: &&Node| node.option_set.as_ref().is_some_and(|set| set.eq_ignore_ascii_case(name));
    nodes.iter().filter(has)
}

fn choose<'a>(
    nodes: &[&'a Node],
    name: &str,
    version: u64,
    share: Share,
) -> Result<Vec<&'a Node>, StoreError> {
    if nodes.is_empty() {
        return Err(StoreError::usage(format!(
            "no node has the option set {name}, so no part of its nodes can be first; give it to \
             nodes with 'holdfast admin node set NODE --optionset {name}'"
        )));
    }
    let names: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
    let chosen = chosen_first(names.iter().map(String::as_str), name, version, share);
    Ok(nodes
        .iter()
        .filter(|node| chosen.contains(&&*node.name.to_string()))
        .copied()
        .collect())
}

/// Returns the version that comes of a change.
fn next_version(
    store: &Store,
    name: &str,
    known: Option<&OptionSet>,
    change: OptionSetChange,
    author: &str,
) -> Result<OptionSetVersion, StoreError> {
    let history = store.catalog.option_set_versions(name)?;
    let newest = history.first().map_or(0, |version| version.number);
    let current = known.map(|set| set.current.clone()).unwrap_or_default();
    let number = newest.max(current.number) + 1;
    let mut comment = change.comment;
    let base = match change.revert_to {
        None => current,
        Some(wanted) => {
            let found = history.into_iter().chain([current]).find(|one| one.number == wanted);
            if comment.is_empty() {
                comment = format!("as version {wanted}");
            }
            found.ok_or_else(|| {
                StoreError::not_found(format!(
                    "the option set {name} has no version {wanted}; 'holdfast admin optionset \
                     history {name}' shows all versions"
                ))
            })?
        }
    };
    let options = changed_options(base.options, change.set, &change.unset)?;
    let text = change.text.unwrap_or(base.text);
    let source = |line| policy::Source::OptionSet { name: name.to_owned(), line };
    policy::statement::parse_list(&text, source)
        .map_err(|error| StoreError::usage(error.to_string()))?;
    let author = author.to_owned();
    let changed = sys::clock::now();
    Ok(OptionSetVersion { number, text, options, changed, author, comment, in_force: None })
}

/// Returns `options` with the new ones, without those of `unset`, by name.
fn changed_options(
    options: Vec<SetOption>,
    set: Vec<SetOption>,
    unset: &[String],
) -> Result<Vec<SetOption>, StoreError> {
    let mut by_name: BTreeMap<String, SetOption> =
        options.into_iter().map(|option| (option.name.clone(), option)).collect();
    for name in unset {
        // An option of a newer server is found by the name that it has here.
        let known = policy::settings::find(name).map_or(name.as_str(), |setting| setting.name);
        if by_name.remove(known).is_none() {
            return Err(StoreError::usage(format!("the option set has no option {known}")));
        }
    }
    let mut given = BTreeSet::new();
    for option in set {
        let option = SetOption::parse(&option.name, &option.value, option.is_forced)
            .and_then(|option| option.check_heeded().map(|()| option))
            .map_err(|error| StoreError::usage(error.to_string()))?;
        if !given.insert(option.name.clone()) {
            return Err(StoreError::usage(format!("the option {} is given twice", option.name)));
        }
        by_name.insert(option.name.clone(), option);
    }
    if by_name.len() > SET_OPTIONS_MAX {
        return Err(StoreError::usage(format!(
            "an option set has at most {SET_OPTIONS_MAX} options"
        )));
    }
    Ok(by_name.into_values().collect())
}

fn has_content_of(one: &OptionSetVersion, other: &OptionSetVersion) -> bool {
    one.text == other.text && one.options == other.options
}

fn description(name: &str, version: &OptionSetVersion, share: Option<Share>) -> String {
    let number = version.number;
    let mut text = match share {
        None => format!("{name}: version {number}"),
        Some(share) => format!("{name}: version {number} for {share} of the nodes"),
    };
    if !version.comment.is_empty() {
        text = format!("{text} ({})", version.comment);
    }
    text
}

fn event(author: &str, what: &str, details: String) -> EventRow {
    let time: ServerTime = sys::clock::now();
    EventRow { time, actor: author.to_owned(), what: what.to_owned(), details }
}

/// Says that somebody else has changed the option set at the same time.
fn raced(name: &str, error: CatalogError) -> StoreError {
    match error {
        CatalogError::Exists { .. } | CatalogError::NotFound { .. } => {
            StoreError::conflict(format!(
                "somebody else has just changed the option set {name}; look at it, and try again"
            ))
        }
        error => error.into(),
    }
}

/// Tells the agents that their nodes may have another option set.
pub fn announce(store: &Store) -> Result<(), StoreError> {
    schedules::announce(store)
}
