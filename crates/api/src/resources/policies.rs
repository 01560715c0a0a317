//! Policies of domains: the set in force, its draft, the review of the draft, and its activation.

use std::str::FromStr;
use std::sync::Arc;

use policy::{
    ArchiveCopyGroup, BackupCopyGroup, Limit, ManagementClass, Mode, PolicyDomain, PolicySet,
    RetentionStart, Serialization,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::domains::{
    self, ArchiveGroupEdit, BackupGroupEdit, ClassEdit, GroupRemoval, PolicyEdit, ReviewReport,
    Simulation,
};
use store::lifecycle::expire::Outcome;
use store::nodes::note;

use super::domains::{DomainPath, find};
use super::orders::Activation;
use crate::approval;
use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::desk::Desk;
use crate::fields::{Empty, Time};
use crate::operation::Operation;
use crate::patch::Patch;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Time of a simulation in seconds, by default and at most.
const SIMULATION_SECS: u64 = 20;
const SIMULATION_SECS_MAX: u64 = 60;
/// Maximum number of nodes in the result of a simulation.
const NODES_SHOWN_MAX: usize = 1_000;

/// The policy of a domain.
#[derive(Serialize, JsonSchema)]
struct PolicyDocument {
    domain: String,
    /// The set of management classes in force.
    active: PolicySetDocument,
    /// The next set, if somebody works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    draft: Option<PolicySetDocument>,
}

/// Management classes, and the days of grace for objects whose class has no copy group.
#[derive(Serialize, JsonSchema)]
struct PolicySetDocument {
    /// Classes of the set, sorted by name.
    classes: Vec<ClassDocument>,
    /// Name of the class of objects that no statement binds.
    default_class: String,
    /// Days that versions are kept if their class has no backup copy group.
    backup_grace_days: u16,
    /// Days that archive copies are kept if their class has no archive copy group.
    archive_grace_days: u16,
}

/// A class.
#[derive(Serialize, JsonSchema)]
struct ClassDocument {
    name: String,
    /// Rules on backup versions; without them, objects of the class are not backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<BackupGroupDocument>,
    /// Rules on archive copies; without them, objects of the class are not archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<ArchiveGroupDocument>,
    /// Time until which nobody can shorten the retention of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    locked_until: Option<Time>,
}

/// Rules of a backup copy group.
#[derive(Serialize, JsonSchema)]
struct BackupGroupDocument {
    /// Versions kept while the object exists, including the active version.
    versions_existing_max: Limit,
    /// Versions kept after the object is gone.
    versions_deleted_max: Limit,
    /// Days that an inactive version is kept after it became inactive.
    extra_days: Limit,
    /// Days that the last version of an object is kept after the object is gone.
    only_days: Limit,
    mode: Mode,
    /// Minimum number of days between two versions of an object.
    frequency_days: u16,
    serialization: Serialization,
}

/// Rules of an archive copy group.
#[derive(Serialize, JsonSchema)]
struct ArchiveGroupDocument {
    /// Days that an archive copy is kept after the start of its retention.
    keep_days: Limit,
    starts: RetentionStart,
    /// Minimum number of days that an archive copy is kept, however early its event is.
    minimum_days: u16,
}

/// Differences between the draft and the set in force.
#[derive(Serialize, JsonSchema)]
struct ReviewDocument {
    domain: String,
    differences: Vec<DifferenceDocument>,
    /// True if the activation waits until another person approves it.
    needs_approval: bool,
    /// The reason why the draft cannot be activated.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// A difference.
#[derive(Serialize, JsonSchema)]
struct DifferenceDocument {
    /// The difference, for people.
    text: String,
    /// True if some objects may be kept for less time.
    shortens: bool,
}

/// Versions that would expire if the draft were in force now.
#[derive(Serialize, JsonSchema)]
struct SimulationDocument {
    domain: String,
    /// Number of nodes of the domain, and of those that were looked at in the time.
    nodes: usize,
    nodes_counted: usize,
    /// False if the time did not suffice for all nodes.
    is_complete: bool,
    /// Number of inactive versions and archive copies that were looked at.
    examined: u64,
    expired: u64,
    expired_bytes: u64,
    /// Number of those that the set in force drops, too.
    due_anyway: u64,
    by_class: Vec<ExpiryDocument>,
    /// The nodes that would lose most, at most 1000.
    by_node: Vec<ExpiryDocument>,
}

/// Versions of a class or of a node that would expire.
#[derive(Serialize, JsonSchema)]
struct ExpiryDocument {
    name: String,
    expired: u64,
    expired_bytes: u64,
}

/// A step of work on the draft. One of the fields must be given; the days of grace are one step.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EditBody {
    /// Makes a class, or changes it.
    put_class: Patch<ClassBody>,
    /// Name of a class that is removed.
    remove_class: Patch<String>,
    /// Name of the new default class.
    default_class: Patch<String>,
    /// Days that versions are kept if their class has no backup copy group.
    backup_grace_days: Patch<u16>,
    /// Days that archive copies are kept if their class has no archive copy group.
    archive_grace_days: Patch<u16>,
    remove_groups: Patch<GroupsBody>,
    /// The days of grace as older programs give them.
    #[schemars(skip)]
    grace: Patch<GraceBody>,
}

/// A class. A rule that is absent stays as it is, or has its default in a new class.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClassBody {
    name: String,
    #[serde(default)]
    backup: Patch<BackupBody>,
    #[serde(default)]
    archive: Patch<ArchiveBody>,
    /// Time until which nobody can shorten the retention of the class.
    #[serde(default)]
    locked_until: Patch<Time>,
}

/// Rules of a backup copy group. Limits are numbers or NOLIMIT, as text.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BackupBody {
    #[serde(alias = "versions_existing")]
    versions_existing_max: Patch<String>,
    #[serde(alias = "versions_deleted")]
    versions_deleted_max: Patch<String>,
    extra_days: Patch<String>,
    only_days: Patch<String>,
    /// modified or absolute.
    mode: Patch<String>,
    frequency_days: Patch<u16>,
    /// static, shrstatic, shrdynamic or dynamic.
    serialization: Patch<String>,
}

/// Rules of an archive copy group.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ArchiveBody {
    /// Number of days, or NOLIMIT.
    keep_days: Patch<String>,
    /// creation or event.
    starts: Patch<String>,
    minimum_days: Patch<u16>,
}

/// Days of grace.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GraceBody {
    backup_days: Patch<u16>,
    archive_days: Patch<u16>,
}

/// Copy groups that a class loses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GroupsBody {
    class: String,
    #[serde(default)]
    backup: bool,
    #[serde(default)]
    archive: bool,
}

/// An activation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ActivationBody {
    /// True to activate a draft that drops more than half of the inactive versions.
    #[serde(default)]
    confirm: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SimulationQuery {
    /// Time for the simulation in seconds: 1 to 60; 20 by default.
    seconds: Option<u64>,
}

pub(super) fn add(routes: &mut Routes) {
    let path = "/v1/domains/{domain}/policy";
    let summary = "Shows the policy of a domain, and its draft";
    routes.add(Operation::read("policies.get", path, Area::Policies, summary), get);
    let path = "/v1/domains/{domain}/policy/draft";
    let summary = "Changes the draft; the first change makes it, as a copy of the set in force";
    let class = json!({ "name": "LONG", "backup": { "extra_days": "365" } });
    let operation = Operation::patch("policies.edit", path, Area::Policies, summary)
        .example("class", json!({ "put_class": class }))
        .example("default", json!({ "default_class": "LONG" }));
    routes.change(operation, current, edit);
    let summary = "Discards the draft";
    let operation = Operation::delete("policies.discard", path, Area::Policies, summary);
    routes.change(operation, current, discard);
    let path = "/v1/domains/{domain}/policy/review";
    let summary = "Shows how the draft differs from the set in force";
    routes.add(Operation::read("policies.review", path, Area::Policies, summary), review);
    let path = "/v1/domains/{domain}/policy/simulation";
    let summary = "Counts what would expire if the draft were in force now, in a bounded time";
    routes.add(Operation::read("policies.simulate", path, Area::Policies, summary), simulate);
    let path = "/v1/domains/{domain}/policy/activation";
    let summary = "Puts the draft into force; one that shortens may wait for a second person";
    let operation = Operation::post("policies.activate", path, Area::Policies, summary);
    let operation = operation.example("confirmed", json!({ "confirm": true }));
    routes.change(operation.slow(), current, activate);
}

/// Finds the domain of a call, and fails unless the caller has `right` on its policy.
fn domain<Q, B>(call: &Call<DomainPath, Q, B>, right: Right) -> Answer<PolicyDomain> {
    let domain = find(&call.desk, &call.caller, &call.path.domain)?;
    if right == Right::Write {
        call.caller.check(Area::Policies, right, Subject::Domain(domain.id))?;
    }
    Ok(domain)
}

fn get(call: &mut Call<DomainPath, Empty, Empty>) -> Answer<PolicyDocument> {
    Ok(show(domain(call, Right::Read)?))
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &DomainPath) -> Answer<Vec<u8>> {
    let domain = find(desk, caller, &path.domain)?;
    Ok(crate::routes::document(&show(domain)))
}

fn show(domain: PolicyDomain) -> PolicyDocument {
    PolicyDocument {
        active: document_of(&domain.active),
        draft: domain.draft.as_ref().map(document_of),
        domain: domain.name,
    }
}

/// Describes a policy set. It names classes only: their numbers count over all domains, and would
/// tell a tenant how many classes the others have made.
fn document_of(set: &PolicySet) -> PolicySetDocument {
    let default = set.class(set.default_class);
    PolicySetDocument {
        classes: set.classes.iter().map(describe_class).collect(),
        default_class: default.map(|class| class.name.clone()).unwrap_or_default(),
        backup_grace_days: set.backup_grace_days,
        archive_grace_days: set.archive_grace_days,
    }
}

fn describe_class(class: &ManagementClass) -> ClassDocument {
    let of_backup = |group: &BackupCopyGroup| BackupGroupDocument {
        versions_existing_max: group.versions_existing_max,
        versions_deleted_max: group.versions_deleted_max,
        extra_days: group.extra_days,
        only_days: group.only_days,
        mode: group.mode,
        frequency_days: group.frequency_days,
        serialization: group.serialization,
    };
    let of_archive = |group: &ArchiveCopyGroup| ArchiveGroupDocument {
        keep_days: group.keep_days,
        starts: group.starts,
        minimum_days: group.minimum_days,
    };
    ClassDocument {
        name: class.name.clone(),
        backup: class.backup.as_ref().map(of_backup),
        archive: class.archive.as_ref().map(of_archive),
        locked_until: class.locked_until.map(Time),
    }
}

fn describe(desk: &Desk, report: ReviewReport) -> ReviewDocument {
    let needs_approval = desk.store().config.two_person && report.shortens();
    let differences = report.differences.into_iter();
    let differences = differences.map(|difference| DifferenceDocument {
        text: difference.to_string(),
        shortens: difference.shortens(),
    });
    ReviewDocument {
        domain: report.domain,
        differences: differences.collect(),
        needs_approval,
        problem: report.problem.map(|problem| problem.to_string()),
    }
}

/// Parses an optional word of a rule.
fn word<T: FromStr>(text: &Patch<String>, name: &str) -> Answer<Option<T>>
where
    T::Err: std::fmt::Display,
{
    let wrong = |error| Problem::invalid(format!("{name}: {error}"));
    let given = text.as_ref().required(name)?;
    given.map(|text| text.parse().map_err(wrong)).transpose()
}

fn backup(body: &BackupBody) -> Answer<BackupGroupEdit> {
    Ok(BackupGroupEdit {
        versions_existing_max: word(&body.versions_existing_max, "versions_existing_max")?,
        versions_deleted_max: word(&body.versions_deleted_max, "versions_deleted_max")?,
        extra_days: word(&body.extra_days, "extra_days")?,
        only_days: word(&body.only_days, "only_days")?,
        mode: word(&body.mode, "mode")?,
        frequency_days: body.frequency_days.required("frequency_days")?,
        serialization: word(&body.serialization, "serialization")?,
    })
}

fn archive(body: &ArchiveBody) -> Answer<ArchiveGroupEdit> {
    Ok(ArchiveGroupEdit {
        keep_days: word(&body.keep_days, "keep_days")?,
        starts: word(&body.starts, "starts")?,
        minimum_days: body.minimum_days.required("minimum_days")?,
    })
}

fn class(body: &ClassBody) -> Answer<ClassEdit> {
    Ok(ClassEdit {
        name: body.name.clone(),
        backup: body.backup.as_ref().required("backup")?.map(backup).transpose()?,
        archive: body.archive.as_ref().required("archive")?.map(archive).transpose()?,
        locked_until: body.locked_until.required("locked_until")?.map(|time| time.0),
    })
}

/// Returns the one edit that the body names.
fn parse(body: &EditBody) -> Answer<PolicyEdit> {
    let mut edits = Vec::new();
    if let Some(body) = body.put_class.as_ref().required("put_class")? {
        edits.push(PolicyEdit::PutClass(class(body)?));
    }
    if let Some(name) = body.remove_class.as_ref().required("remove_class")? {
        edits.push(PolicyEdit::RemoveClass { name: name.clone() });
    }
    if let Some(name) = body.default_class.as_ref().required("default_class")? {
        edits.push(PolicyEdit::DefaultClass { name: name.clone() });
    }
    let backup = body.backup_grace_days.required("backup_grace_days")?;
    let archive = body.archive_grace_days.required("archive_grace_days")?;
    if backup.or(archive).is_some() {
        edits.push(PolicyEdit::GraceDays { backup, archive });
    }
    if let Some(grace) = body.grace.as_ref().required("grace")? {
        let backup = grace.backup_days.required("backup_days")?;
        let archive = grace.archive_days.required("archive_days")?;
        edits.push(PolicyEdit::GraceDays { backup, archive });
    }
    let groups = body.remove_groups.as_ref().required("remove_groups")?;
    if let Some(GroupsBody { class, backup, archive }) = groups {
        let removal = GroupRemoval { class: class.clone(), backup: *backup, archive: *archive };
        edits.push(PolicyEdit::RemoveGroups(removal));
    }
    match edits.len() {
        1 => Ok(edits.remove(0)),
        _ => Err(Problem::invalid("give one step: put_class, remove_class, default_class, ...")),
    }
}

fn edit(call: &mut Call<DomainPath, Empty, EditBody>) -> Answer<ReviewDocument> {
    let (domain, edit) = (domain(call, Right::Write)?, parse(&call.body)?);
    let is_lock = matches!(&edit, PolicyEdit::PutClass(class) if class.locked_until.is_some());
    if is_lock {
        // Nobody can undo a lock, so it is for those who run the service.
        call.caller.check(Area::Policies, Right::Write, Subject::Service)?;
    }
    let store = call.desk.store();
    let report = domains::edit(store, &domain.name, edit)?;
    let words = drafted(&domain.name, &report);
    note(store, &call.caller.name, "policy draft changed", words)?;
    Ok(describe(&call.desk, report))
}

/// Returns how a draft differs from the policy in force, in words.
fn drafted(domain: &str, report: &ReviewReport) -> String {
    let differences: Vec<String> = report.differences.iter().map(ToString::to_string).collect();
    match &differences[..] {
        [] => format!("{domain}: as the policy in force"),
        all => format!("{domain}: {}", all.join("; ")),
    }
}

fn discard(call: &mut Call<DomainPath, Empty, Empty>) -> Answer<ReviewDocument> {
    let domain = domain(call, Right::Write)?;
    let store = call.desk.store();
    let report = domains::edit(store, &domain.name, PolicyEdit::Discard)?;
    note(store, &call.caller.name, "policy draft discarded", domain.name)?;
    Ok(describe(&call.desk, report))
}

fn review(call: &mut Call<DomainPath, Empty, Empty>) -> Answer<ReviewDocument> {
    let domain = domain(call, Right::Read)?;
    Ok(describe(&call.desk, domains::review(call.desk.store(), &domain.name)?))
}

fn simulate(call: &mut Call<DomainPath, SimulationQuery, Empty>) -> Answer<SimulationDocument> {
    let domain = domain(call, Right::Read)?;
    // The names of nodes and their numbers are for those who may see the whole domain.
    call.caller.check(Area::Reports, Right::Read, Subject::Domain(domain.id))?;
    let seconds = match call.query.seconds {
        None => SIMULATION_SECS,
        Some(seconds @ 1..=SIMULATION_SECS_MAX) => seconds,
        Some(_) => {
            return Err(Problem::invalid(format!("give 1 to {SIMULATION_SECS_MAX} seconds")));
        }
    };
    let began = sys::clock::monotonic();
    let mut goes_on = || began.elapsed().as_secs() < seconds && !call.attention.is_lost();
    let simulation = domains::simulate_by_node(call.desk.store(), &domain.name, &mut goes_on)?;
    Ok(describe_simulation(simulation))
}

fn describe_simulation(simulation: Simulation) -> SimulationDocument {
    let Simulation { domain, nodes, mut by_node, by_class, is_complete } = simulation;
    let nodes_counted = by_node.len();
    let sum =
        |of: fn(&Outcome) -> u64| -> u64 { by_node.iter().map(|(_, outcome)| of(outcome)).sum() };
    let (examined, expired) = (sum(|one| one.examined), sum(|one| one.expired));
    let (expired_bytes, due_anyway) = (sum(|one| one.expired_bytes), sum(|one| one.due_anyway));
    by_node.retain(|(_, outcome)| outcome.expired > 0);
    by_node.sort_by_key(|(_, outcome)| std::cmp::Reverse(outcome.expired));
    by_node.truncate(NODES_SHOWN_MAX);
    let of = |(name, expired, expired_bytes)| ExpiryDocument { name, expired, expired_bytes };
    let by_class = by_class.into_iter().map(|(name, one)| (name, one.expired, one.expired_bytes));
    let by_node = by_node.into_iter().map(|(name, one)| (name, one.expired, one.expired_bytes));
    SimulationDocument {
        domain,
        nodes,
        nodes_counted,
        is_complete,
        examined,
        expired,
        expired_bytes,
        due_anyway,
        by_class: by_class.map(of).collect(),
        by_node: by_node.map(of).collect(),
    }
}

fn activate(call: &mut Call<DomainPath, Empty, ActivationBody>) -> Answer<ReviewDocument> {
    let domain = domain(call, Right::Write)?;
    let store = call.desk.store();
    let actor = &call.caller.name;
    let confirm = call.body.confirm;
    let review = domains::check_activation(store, &domain.name, confirm)?;
    if review.shortens() {
        let order = Activation::new(&domain, &review, confirm);
        approval::guard(&call.desk, &call.caller, &order)?;
    }
    let activated = domains::activate_reviewed(store, &domain.name, &review.mark, confirm, actor)?;
    Ok(describe(&call.desk, activated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_names_classes_and_has_no_numbers_of_them() {
        let document = document_of(&PolicySet::standard(model::ClassId(777)));
        let document = serde_json::to_value(document).expect("has only text as keys");
        assert_eq!(document["default_class"], policy::STANDARD);
        assert_eq!(document["classes"][0]["name"], policy::STANDARD);
        assert!(!document.to_string().contains("777"), "{document}");
    }

    /// Returns the edit of the draft that a body names.
    fn edit_of(body: serde_json::Value) -> Answer<PolicyEdit> {
        parse(&serde_json::from_value(body).expect("a body"))
    }

    #[test]
    fn the_rules_that_a_policy_shows_are_those_that_a_draft_takes() {
        let set = serde_json::to_value(document_of(&PolicySet::standard(model::ClassId(1))));
        let set = set.expect("has only text as keys");
        let class = edit_of(json!({ "put_class": set["classes"][0] })).expect("is taken");
        let PolicyEdit::PutClass(edit) = &class else { panic!("{class:?}") };
        let backup = edit.backup.expect("has a backup group");
        assert_eq!(backup.versions_existing_max, Some(Limit::Unlimited));
        assert_eq!(backup.only_days, Some(Limit::AtMost(60)));
        assert_eq!(edit.archive.and_then(|group| group.keep_days), Some(Limit::AtMost(365)));
        let days = json!({
            "backup_grace_days": set["backup_grace_days"],
            "archive_grace_days": set["archive_grace_days"],
        });
        let both = edit_of(days).expect("is one step");
        let is_both = |edit: &PolicyEdit| {
            matches!(edit, PolicyEdit::GraceDays { backup: Some(30), archive: Some(365) })
        };
        assert!(is_both(&both), "{both:?}");
        let older = json!({ "grace": { "backup_days": 30, "archive_days": 365 } });
        let older = edit_of(older).expect("older programs say it so");
        assert!(is_both(&older), "{older:?}");
    }
}
