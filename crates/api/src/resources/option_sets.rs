//! Option sets, which the server gives to nodes, in versions that may go to a part of them first.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::OptionSetVersion;
use policy::settings::{SetOption, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::Store;
use store::option_sets::{self, ChangeReport, Mode, OptionSetChange, OptionSetUse};

use super::found_node::nodes_seen;
use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::ListQuery;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::patch::Patch;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// An option set with the nodes that have it.
#[derive(Serialize, JsonSchema)]
struct OptionSetDocument {
    name: String,
    current: SetVersionDocument,
    /// A newer version that a part of the nodes has.
    #[serde(skip_serializing_if = "Option::is_none")]
    staged: Option<SetVersionDocument>,
    /// Share of the nodes that get the staged version, as in 5%.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<String>,
    /// Nodes that have the current version, as far as the caller may see them.
    nodes: Vec<String>,
    /// Nodes that have the staged version.
    first_nodes: Vec<String>,
}

/// A version of an option set. It never changes.
#[derive(Serialize, JsonSchema)]
struct SetVersionDocument {
    version: u64,
    options: Vec<OptionDocument>,
    /// Statements about what is backed up and how.
    statements: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<Time>,
    /// Author of the version, for those who run the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    comment: String,
    /// Time since which it was in force for all nodes; absent if it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<Time>,
}

/// An option of an option set.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OptionDocument {
    name: String,
    value: String,
    /// True if the value comes before the node's own.
    #[serde(default)]
    force: bool,
}

/// A new option set.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewOptionSetBody {
    /// 1 to 64 letters, digits, '.', '-' or '_'.
    name: String,
    #[serde(default)]
    options: Vec<OptionDocument>,
    /// Statements about what is backed up and how, one a line.
    #[serde(default)]
    statements: Vec<String>,
    #[serde(default)]
    comment: String,
}

/// A change of an option set, which makes a version. A field that is absent leaves what is there.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OptionSetBody {
    /// Options that are added or replaced.
    #[serde(default)]
    set: Vec<OptionDocument>,
    /// Names of options that are removed.
    #[serde(default)]
    unset: Vec<String>,
    /// Statements that replace those before; null removes all.
    #[serde(default)]
    statements: Patch<Vec<String>>,
    /// Version whose content replaces everything.
    revert_to: Option<u64>,
    #[serde(default)]
    comment: String,
    /// Share of the nodes that get the version first, as in 5%; all by default.
    share: Option<String>,
    /// True to only say what the change would do.
    #[serde(default)]
    dry_run: bool,
}

/// Decision about a version that a part of the nodes has.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StageBody {
    decision: StageDecision,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum StageDecision {
    /// All nodes get the version.
    Promote,
    /// The nodes that have the version get the one before again.
    Withdraw,
}

/// A change of an option set.
#[derive(Serialize, JsonSchema)]
struct ChangeDocument {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<SetVersionDocument>,
    after: SetVersionDocument,
    is_change: bool,
    /// Nodes that get the version first; absent if all get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_nodes: Option<Vec<String>>,
    /// Number of nodes that have the option set.
    nodes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct OptionSetPath {
    /// Name of the option set.
    option_set: String,
}

/// Fields that change when nodes are registered.
const VOLATILE: &[&str] = &["nodes", "first_nodes"];

pub(super) fn add(routes: &mut Routes) {
    let (all, one) = ("/v1/option-sets", "/v1/option-sets/{option_set}");
    let area = Area::Policies;
    let summary = "Lists the option sets with their nodes";
    routes.add(Operation::read("option-sets.list", all, area, summary), list);
    let summary = "Makes an option set";
    let operation = Operation::post("option-sets.add", all, area, summary);
    let body = json!({
        "name": "linux",
        "options": [{ "name": "compression", "value": "9", "force": true }],
        "statements": ["exclude /.../*.tmp"],
        "comment": "for all servers",
    });
    routes.make(operation.example("linux", body), make);
    let summary = "Describes an option set";
    let operation = Operation::read("option-sets.get", one, area, summary);
    routes.add(operation.volatile(VOLATILE), get);
    let summary = "Changes an option set: makes a version, for all nodes or for a part of them";
    let body = json!({
        "set": [{ "name": "compression", "value": "12", "force": true }],
        "comment": "smaller",
        "share": "50%",
    });
    let operation = Operation::patch("option-sets.change", one, area, summary);
    routes.change(operation.example("half", body).volatile(VOLATILE), current, change);
    let summary = "Removes an option set, also from the nodes that have it";
    let operation = Operation::delete("option-sets.remove", one, area, summary);
    routes.change(operation.volatile(VOLATILE), current, remove);
    let path = "/v1/option-sets/{option_set}/versions";
    let summary = "Lists the versions of an option set, newest first";
    routes.add(Operation::read("option-sets.versions", path, area, summary), versions);
    let path = "/v1/option-sets/{option_set}/stage";
    let summary = "Gives a version that a part of the nodes has to all nodes, or takes it back";
    let operation = Operation::post("option-sets.end-stage", path, area, summary);
    let operation = operation.example("promote", json!({ "decision": "promote" }));
    routes.change(operation.volatile(VOLATILE), current, end_stage);
}

fn version(caller: &Caller, version: OptionSetVersion) -> SetVersionDocument {
    let OptionSetVersion { number, text, options, changed, author, comment, in_force } = version;
    let option =
        |one: SetOption| OptionDocument { name: one.name, value: one.value, force: one.is_forced };
    SetVersionDocument {
        version: number,
        options: options.into_iter().map(option).collect(),
        statements: String::from_utf8_lossy(&text).lines().map(str::to_owned).collect(),
        changed: Some(Time(changed)).filter(|time| time.0.0 > 0),
        author: Some(author).filter(|_| caller.is_staff()),
        comment,
        in_force: in_force.map(Time),
    }
}

/// Returns the option sets that the caller may see, with the nodes that the caller may see. An
/// option set is for those who run the service, and for those whose nodes have it. The authors of
/// its versions are empty for callers who do not run the service.
pub(crate) fn option_sets_seen(desk: &Desk, caller: &Caller) -> Answer<Vec<OptionSetUse>> {
    let mut all = option_sets::list(desk.store(), None)?;
    if !caller.is_staff() {
        for OptionSetUse { set, .. } in &mut all {
            set.current.author.clear();
            if let Some(stage) = &mut set.stage {
                stage.version.author.clear();
            }
        }
    }
    if caller.may(Area::Policies, Right::Read, Subject::Service) {
        return Ok(all);
    }
    let nodes = nodes_seen(desk, caller, (Area::Policies, Right::Read))?;
    let seen: BTreeSet<String> = nodes.into_iter().map(|node| node.name.to_string()).collect();
    for OptionSetUse { nodes, first, .. } in &mut all {
        nodes.retain(|name| seen.contains(name));
        first.retain(|name| seen.contains(name));
    }
    all.retain(|uses| !(uses.nodes.is_empty() && uses.first.is_empty()));
    Ok(all)
}

fn describe(caller: &Caller, uses: OptionSetUse) -> OptionSetDocument {
    let OptionSetUse { set, nodes, first } = uses;
    let share = set.stage.as_ref().map(|stage| stage.share.to_string());
    OptionSetDocument {
        name: set.name,
        current: version(caller, set.current),
        staged: set.stage.map(|stage| version(caller, stage.version)),
        share,
        nodes,
        first_nodes: first,
    }
}

/// Finds an option set that the caller may see.
fn find(desk: &Desk, caller: &Caller, name: &str) -> Answer<OptionSetDocument> {
    // An option set that does not exist takes the same questions as one of others.
    let mut all = option_sets_seen(desk, caller)?.into_iter();
    let found = all.find(|uses| uses.set.name.eq_ignore_ascii_case(name));
    let found = found.ok_or_else(|| Problem::not_found("option set", name))?;
    Ok(describe(caller, found))
}

/// Fails if the caller may not see the option set that a node is to have. A node shows its people
/// what its option set says.
pub(crate) fn check_seen(desk: &Desk, caller: &Caller, name: &str) -> Answer<()> {
    find(desk, caller, name).map(drop)
}

/// Finds an option set that the caller may change.
fn find_own<Q, B>(call: &Call<OptionSetPath, Q, B>) -> Answer<String> {
    let found = find(&call.desk, &call.caller, &call.path.option_set)?;
    call.caller.check(Area::Policies, Right::Write, Subject::Service)?;
    Ok(found.name)
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &OptionSetPath) -> Answer<Vec<u8>> {
    Ok(crate::routes::document(&find(desk, caller, &path.option_set)?))
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<OptionSetDocument>> {
    let portion = call.query.portion()?;
    let all = option_sets_seen(&call.desk, &call.caller)?.into_iter();
    let key = |one: &OptionSetDocument| one.name.to_ascii_lowercase().into_bytes();
    let mut sets: Vec<OptionSetDocument> = all.map(|uses| describe(&call.caller, uses)).collect();
    sets.sort_by_cached_key(key);
    Ok(portion.page_of(sets, key))
}

fn get(call: &mut Call<OptionSetPath, Empty, Empty>) -> Answer<OptionSetDocument> {
    find(&call.desk, &call.caller, &call.path.option_set)
}

fn versions(call: &mut Call<OptionSetPath, ListQuery, Empty>) -> Answer<Page<SetVersionDocument>> {
    let portion = call.query.portion()?;
    let found = find(&call.desk, &call.caller, &call.path.option_set)?;
    let all = option_sets::versions(call.desk.store(), &found.name)?;
    let all = all.into_iter().map(|one| version(&call.caller, one)).collect();
    let key = |one: &SetVersionDocument| format!("{:020}", u64::MAX - one.version).into_bytes();
    Ok(portion.page_of(all, key))
}

fn options(documents: &[OptionDocument]) -> Answer<Vec<SetOption>> {
    let mut names = BTreeSet::new();
    let parse = |one: &OptionDocument| {
        let option = SetOption::parse(&one.name, &one.value, one.force);
        option.map_err(|error| Problem::invalid(error.to_string()))
    };
    let options: Vec<SetOption> = documents.iter().map(parse).collect::<Result<_, _>>()?;
    match options.iter().all(|option| names.insert(option.name.clone())) {
        true => Ok(options),
        false => Err(Problem::invalid("an option is given twice")),
    }
}

/// Fails if the caller may not give these options to nodes: a command gets at the contents of their
/// files.
pub(crate) fn check_commands(caller: &Caller, options: &[SetOption]) -> Answer<()> {
    match options.iter().any(SetOption::is_command) {
        true => caller.check(Area::Contents, Right::Write, Subject::Service),
        false => Ok(()),
    }
}

/// Fails if the caller may not give the options of an older version to nodes again.
pub(crate) fn check_return(
    store: &Store,
    caller: &Caller,
    name: &str,
    version: Option<u64>,
) -> Answer<()> {
    let Some(number) = version else { return Ok(()) };
    check_commands(caller, &option_sets::options_brought_back(store, name, number)?)
}

/// Returns the text of statements, one a line.
fn text(statements: &[String]) -> Answer<Vec<u8>> {
    if statements.iter().any(|line| line.contains(['\n', '\r', '\0'])) {
        return Err(Problem::invalid("a statement is one line"));
    }
    Ok(statements
        .iter()
        .map(|line| format!("{line}\n"))
        .collect::<String>()
        .into_bytes())
}

fn report(caller: &Caller, report: ChangeReport) -> ChangeDocument {
    let ChangeReport { name, before, after, is_change, first, nodes } = report;
    ChangeDocument {
        name,
        before: before.map(|one| version(caller, one)),
        after: version(caller, after),
        is_change,
        first_nodes: first,
        nodes,
    }
}

fn make(call: &mut Call<Empty, Empty, NewOptionSetBody>) -> Answer<ChangeDocument> {
    let (caller, body) = (&call.caller, &call.body);
    let change = OptionSetChange {
        set: options(&body.options)?,
        text: Some(text(&body.statements)?),
        comment: body.comment.clone(),
        ..OptionSetChange::default()
    };
    caller.check(Area::Policies, Right::Write, Subject::Service)?;
    check_commands(caller, &change.set)?;
    let store = call.desk.store();
    let made = option_sets::change(store, &body.name, Mode::Define, change, &caller.name, false)?;
    call.desk.office.announce()?;
    Ok(report(caller, made))
}

fn change(call: &mut Call<OptionSetPath, Empty, OptionSetBody>) -> Answer<ChangeDocument> {
    let name = find_own(call)?;
    let (caller, body) = (&call.caller, &call.body);
    let wrong = |error| Problem::invalid(format!("the share is wrong: {error}"));
    let share = body.share.as_ref().map(|share| share.parse::<Share>().map_err(wrong));
    let change = OptionSetChange {
        set: options(&body.set)?,
        unset: body.unset.clone(),
        text: body.statements.clone().emptied().map(|lines| text(&lines)).transpose()?,
        revert_to: body.revert_to,
        comment: body.comment.clone(),
        share: share.transpose()?,
    };
    let store = call.desk.store();
    check_commands(caller, &change.set)?;
    check_return(store, caller, &name, body.revert_to)?;
    let changed =
        option_sets::change(store, &name, Mode::Update, change, &caller.name, body.dry_run)?;
    call.desk.office.announce()?;
    Ok(report(caller, changed))
}

fn remove(call: &mut Call<OptionSetPath, Empty, Empty>) -> Answer<Empty> {
    let name = find_own(call)?;
    option_sets::remove(call.desk.store(), &name, &call.caller.name)?;
    call.desk.office.announce()?;
    Ok(Empty {})
}

fn end_stage(call: &mut Call<OptionSetPath, Empty, StageBody>) -> Answer<ChangeDocument> {
    let name = find_own(call)?;
    let is_promoted = call.body.decision == StageDecision::Promote;
    let store = call.desk.store();
    let ended = option_sets::end_stage(store, &name, is_promoted, &call.caller.name)?;
    call.desk.office.announce()?;
    Ok(report(&call.caller, ended))
}
