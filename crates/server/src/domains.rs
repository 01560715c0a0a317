//! Policy as administrators work on it: domains, drafts, review, simulation, activation.

use catalog::{CatalogError, EventRow, Node};
use model::ServerTime;
use policy::{
    ArchiveCopyGroup, BackupCopyGroup, Limit, ManagementClass, PolicyDomain, PolicySet, review,
};
use tonic::Status;
use wire::proto;
use wire::proto::edit_policy_request::Edit;

use crate::core::Core;
use crate::expire::{self, Listener, Order, Outcome};
use crate::refusal;

/// An activation that would drop more than half of all inactive versions must be confirmed, but
/// not where there are fewer than this.
const GUARDED_VERSIONS_MIN: u64 = 100;

fn failed(error: CatalogError) -> Status {
    refusal::catalog(&error)
}

pub(crate) fn find(core: &Core, name: &str) -> Result<PolicyDomain, Status> {
    let name = if name.is_empty() { policy::STANDARD } else { name };
    let all = core.catalog.domains().map_err(failed)?;
    let known = all.into_iter().find(|domain| domain.name.eq_ignore_ascii_case(name));
    known.ok_or_else(|| {
        Status::not_found(format!(
            "there is no policy domain {name}; 'holdfast admin domain list' shows all"
        ))
    })
}

fn nodes_of(core: &Core, domain: &PolicyDomain) -> Result<Vec<Node>, Status> {
    let mut nodes = core.catalog.nodes().map_err(failed)?;
    nodes.retain(|node| node.domain == domain.id);
    Ok(nodes)
}

pub(crate) fn list(core: &Core, name: &str) -> Result<proto::DomainsReply, Status> {
    let domains = if name.is_empty() {
        core.catalog.domains().map_err(failed)?
    } else {
        vec![find(core, name)?]
    };
    let domains = domains.iter().map(|domain| describe(core, domain)).collect::<Result<_, _>>()?;
    Ok(proto::DomainsReply { domains })
}

fn describe(core: &Core, domain: &PolicyDomain) -> Result<proto::Domain, Status> {
    let nodes = nodes_of(core, domain)?.len();
    Ok(proto::Domain {
        name: domain.name.clone(),
        nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
        active: Some(message_of_set(&domain.active)),
        draft: domain.draft.as_ref().map(message_of_set),
    })
}

fn message_of_set(set: &PolicySet) -> proto::PolicySet {
    let default = set.class(set.default_class);
    proto::PolicySet {
        classes: set.classes.iter().map(message_of_class).collect(),
        default_class: default.map(|class| class.name.clone()).unwrap_or_default(),
        backup_grace_days: u32::from(set.backup_grace_days),
        archive_grace_days: u32::from(set.archive_grace_days),
    }
}

pub(crate) fn message_of_class(class: &ManagementClass) -> proto::ManagementClass {
    let backup = |group: BackupCopyGroup| proto::BackupCopyGroup {
        versions_existing: Some(group.versions_existing_max.to_string()),
        versions_deleted: Some(group.versions_deleted_max.to_string()),
        extra_days: Some(group.extra_days.to_string()),
        only_days: Some(group.only_days.to_string()),
        mode: Some(group.mode.to_string()),
        frequency_days: Some(u32::from(group.frequency_days)),
        serialization: Some(group.serialization.to_string()),
    };
    let archive = |group: ArchiveCopyGroup| proto::ArchiveCopyGroup {
        keep_days: Some(group.keep_days.to_string()),
        starts: Some(group.starts.to_string()),
        minimum_days: Some(u32::from(group.minimum_days)),
    };
    proto::ManagementClass {
        number: u32::from(class.id.0),
        name: class.name.clone(),
        backup: class.backup.map(backup),
        archive: class.archive.map(archive),
        locked_until: class.locked_until.map_or(0, |until| until.0),
    }
}

pub(crate) fn add(core: &Core, name: &str) -> Result<proto::Domain, Status> {
    check_name(name, "a domain")?;
    let now = sys::clock::now();
    let domain = core.catalog.add_domain(name, now).map_err(failed)?;
    note(core, now, "domain added", name)?;
    describe(core, &domain)
}

pub(crate) fn check_name(name: &str, whose: &str) -> Result<(), Status> {
    if policy::is_name(name) {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "'{}' cannot be the name of {whose}: give 1 to 64 letters, digits, '.', '-' or '_'",
        name.escape_debug()
    )))
}

pub(crate) fn remove(core: &Core, name: &str) -> Result<proto::Domain, Status> {
    let domain = find(core, name)?;
    let described = describe(core, &domain)?;
    if domain.name == policy::STANDARD {
        return Err(Status::failed_precondition("the domain STANDARD stays: new nodes go there"));
    }
    if described.nodes > 0 {
        return Err(Status::failed_precondition(format!(
            "domain {} has {} nodes; give them another with 'node set NAME --domain D' first",
            domain.name, described.nodes
        )));
    }
    core.catalog.remove_domain(domain.id).map_err(failed)?;
    note(core, sys::clock::now(), "domain removed", &domain.name)?;
    Ok(described)
}

/// Adds an event of an administrator.
pub(crate) fn note(core: &Core, time: ServerTime, what: &str, details: &str) -> Result<(), Status> {
    let event = event(time, what, details);
    core.catalog.commit(vec![catalog::Write::AddEvent(event)]).map_err(failed)
}

fn event(time: ServerTime, what: &str, details: &str) -> EventRow {
    EventRow {
        time,
        actor: "administrator".to_owned(),
        what: what.to_owned(),
        details: details.to_owned(),
    }
}

pub(crate) fn edit(
    core: &Core,
    request: proto::EditPolicyRequest,
) -> Result<proto::PolicyReview, Status> {
    let domain = find(core, &request.domain)?;
    let now = sys::clock::now();
    let edit = request.edit.ok_or_else(|| refusal::malformed("an edit of nothing"))?;
    if let Edit::Discard(_) = edit {
        core.catalog.put_draft(domain.id, None, now).map_err(failed)?;
        return review(core, &domain.name);
    }
    let mut draft = domain.draft.clone().unwrap_or_else(|| domain.active.clone());
    match edit {
        Edit::PutClass(class) => put_class(core, &domain, &mut draft, &class)?,
        Edit::RemoveClass(name) => {
            let id = class_of(&draft, &name)?.id;
            draft.classes.retain(|class| class.id != id);
        }
        Edit::DefaultClass(name) => draft.default_class = class_of(&draft, &name)?.id,
        Edit::Grace(grace) => {
            let days = |given: Option<u32>, now| given.map_or(Ok(now), days);
            draft.backup_grace_days = days(grace.backup, draft.backup_grace_days)?;
            draft.archive_grace_days = days(grace.archive, draft.archive_grace_days)?;
        }
        Edit::RemoveGroup(remove) => {
            let mut class = class_of(&draft, &remove.class)?.clone();
            class.backup = class.backup.filter(|_| !remove.backup);
            class.archive = class.archive.filter(|_| !remove.archive);
            draft.put(class);
        }
        Edit::Discard(_) => {}
    }
    core.catalog.put_draft(domain.id, Some(&draft), now).map_err(failed)?;
    review(core, &domain.name)
}

fn days(given: u32) -> Result<u16, Status> {
    let days = u16::try_from(given).ok().filter(|days| *days <= Limit::DAYS_MAX);
    days.ok_or_else(|| {
        Status::invalid_argument(format!("{given} days: give 0 to {}", Limit::DAYS_MAX))
    })
}

fn class_of<'a>(set: &'a PolicySet, name: &str) -> Result<&'a ManagementClass, Status> {
    set.named(name).ok_or_else(|| {
        let known: Vec<&str> = set.classes.iter().map(|class| class.name.as_str()).collect();
        Status::not_found(format!("there is no class {name}; there are {}", known.join(", ")))
    })
}

fn put_class(
    core: &Core,
    domain: &PolicyDomain,
    draft: &mut PolicySet,
    message: &proto::ManagementClass,
) -> Result<(), Status> {
    let mut class = match draft.named(&message.name) {
        Some(class) => class.clone(),
        None => {
            check_name(&message.name, "a class")?;
            let id = core.catalog.class_number(domain.id, &message.name).map_err(failed)?;
            ManagementClass::new(id, &message.name)
        }
    };
    if let Some(group) = &message.backup {
        class.backup = Some(backup_group(class.backup.unwrap_or_default(), group)?);
    }
    if let Some(group) = &message.archive {
        class.archive = Some(archive_group(class.archive.unwrap_or_default(), group)?);
    }
    if message.locked_until != 0 {
        let until = ServerTime(message.locked_until);
        if until <= sys::clock::now() {
            return Err(Status::invalid_argument("a lock ends in the future"));
        }
        class.locked_until = Some(until);
    }
    draft.put(class);
    Ok(())
}

/// A word of the message, or what holds already.
fn word<T: std::str::FromStr<Err = String> + Copy>(
    given: Option<&String>,
    now: T,
    what: &str,
) -> Result<T, Status> {
    let parse = |text: &String| {
        text.parse()
            .map_err(|error| Status::invalid_argument(format!("{what} {text}: {error}")))
    };
    given.map_or(Ok(now), parse)
}

fn backup_group(
    now: BackupCopyGroup,
    given: &proto::BackupCopyGroup,
) -> Result<BackupCopyGroup, Status> {
    let versions = |given: Option<&String>, now: Limit, what: &str| match word(given, now, what)? {
        Limit::AtMost(number) if number > Limit::VERSIONS_MAX => {
            let most = Limit::VERSIONS_MAX;
            let text = format!("{what} {number}: give 0 to {most}, or NOLIMIT");
            Err(Status::invalid_argument(text))
        }
        limit => Ok(limit),
    };
    let existing = given.versions_existing.as_ref();
    let deleted = given.versions_deleted.as_ref();
    Ok(BackupCopyGroup {
        versions_existing_max: versions(existing, now.versions_existing_max, "VEREXISTS")?,
        versions_deleted_max: versions(deleted, now.versions_deleted_max, "VERDELETED")?,
        extra_days: word(given.extra_days.as_ref(), now.extra_days, "RETEXTRA")?,
        only_days: word(given.only_days.as_ref(), now.only_days, "RETONLY")?,
        mode: word(given.mode.as_ref(), now.mode, "MODE")?,
        frequency_days: given.frequency_days.map_or(Ok(now.frequency_days), days)?,
        serialization: word(given.serialization.as_ref(), now.serialization, "SERIALIZATION")?,
    })
}

fn archive_group(
    now: ArchiveCopyGroup,
    given: &proto::ArchiveCopyGroup,
) -> Result<ArchiveCopyGroup, Status> {
    Ok(ArchiveCopyGroup {
        keep_days: word(given.keep_days.as_ref(), now.keep_days, "RETVER")?,
        starts: word(given.starts.as_ref(), now.starts, "RETINIT")?,
        minimum_days: given.minimum_days.map_or(Ok(now.minimum_days), days)?,
    })
}

/// How the draft differs, and whether it could be activated.
pub(crate) fn review(core: &Core, name: &str) -> Result<proto::PolicyReview, Status> {
    let domain = find(core, name)?;
    let Some(draft) = &domain.draft else {
        return Ok(proto::PolicyReview { domain: domain.name, ..Default::default() });
    };
    let problem = review::admit(&domain.active, draft, sys::clock::now()).err();
    let difference = |found: review::Difference| proto::PolicyDifference {
        class: found.class.unwrap_or_default(),
        what: found.what.to_owned(),
        from: found.from,
        to: found.to,
        keeps_less: found.keeps_less,
    };
    let differences = review::differences(&domain.active, draft);
    Ok(proto::PolicyReview {
        domain: domain.name,
        differences: differences.into_iter().map(difference).collect(),
        problem: problem.map(|problem| problem.to_string()).unwrap_or_default(),
    })
}

fn draft_of(domain: &PolicyDomain) -> Result<&PolicySet, Status> {
    domain.draft.as_ref().ok_or_else(|| {
        Status::failed_precondition(format!(
            "domain {} has no draft; 'policy class', 'policy default' and others make one",
            domain.name
        ))
    })
}

/// What would expire if the draft were active now.
pub(crate) fn simulate(core: &Core, name: &str, listener: Listener<'_>) -> Result<Outcome, Status> {
    let domain = find(core, name)?;
    simulated(core, &domain, draft_of(&domain)?, listener)
}

fn simulated(
    core: &Core,
    domain: &PolicyDomain,
    draft: &PolicySet,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let order = Order { draft: Some(draft), is_dry: true, all: true, ..Order::due() };
    expire::run(core, &nodes_of(core, domain)?, order, listener)
}

pub(crate) fn activate(
    core: &Core,
    request: &proto::ActivatePolicyRequest,
) -> Result<proto::PolicyReview, Status> {
    let domain = find(core, &request.domain)?;
    let draft = draft_of(&domain)?;
    let now = sys::clock::now();
    review::admit(&domain.active, draft, now).map_err(|unfit| {
        let name = &domain.name;
        Status::failed_precondition(format!("the draft of {name} cannot be activated: {unfit}"))
    })?;
    let reviewed = review(core, &domain.name)?;
    if reviewed.differences.is_empty() {
        return Err(Status::failed_precondition(format!(
            "the draft of {} is the same as the active set",
            domain.name
        )));
    }
    if !request.confirm {
        guard(core, &domain, draft)?;
    }
    let differences: Vec<String> = review::differences(&domain.active, draft)
        .iter()
        .map(ToString::to_string)
        .collect();
    let details = format!("{}: {}", domain.name, differences.join("; "));
    core.catalog
        .activate(domain.id, draft, &event(now, "policy activated", &details))
        .map_err(failed)?;
    tracing::info!(domain = %domain.name, "policy activated");
    Ok(reviewed)
}

/// Refuses a draft under which most of what is kept would go.
fn guard(core: &Core, domain: &PolicyDomain, draft: &PolicySet) -> Result<(), Status> {
    let expects_less = review::differences(&domain.active, draft);
    if !expects_less.iter().any(|difference| difference.keeps_less) {
        return Ok(());
    }
    let outcome = simulated(core, domain, draft, &mut |_| true)?;
    let more = outcome.expired - outcome.due_anyway;
    if outcome.expired * 2 > outcome.examined
        && more > 0
        && outcome.examined >= GUARDED_VERSIONS_MIN
    {
        return Err(Status::failed_precondition(format!(
            "activating this would expire {} of {} inactive versions, {} bytes, of {} nodes; if it \
             is what you want, activate with --confirm",
            outcome.expired, outcome.examined, outcome.expired_bytes, outcome.nodes
        )));
    }
    Ok(())
}

/// Fails while a class of the node's domain is locked: nobody deletes what it may hold.
pub(crate) fn check_unlocked(core: &Core, node: &Node, what: &str) -> Result<(), Status> {
    let domains = core.catalog.domains().map_err(failed)?;
    let now = sys::clock::now();
    let classes = domains
        .iter()
        .filter(|domain| domain.id == node.domain)
        .flat_map(|domain| &domain.active.classes);
    match classes.into_iter().find(|class| class.is_locked(now)) {
        Some(class) => {
            let until = review::day(class.locked_until.unwrap_or(now));
            let (node, class) = (&node.name, &class.name);
            Err(Status::failed_precondition(format!(
                "{what} node {node} could let go of what class {class} holds, which is locked \
                 until {until}"
            )))
        }
        None => Ok(()),
    }
}
