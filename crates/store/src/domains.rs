//! Policy as administrators work on it: domains, drafts, review, simulation, activation.

mod simulation;

pub use simulation::{Simulation, simulate_by_node};

use catalog::actor::ADMINISTRATOR;
use catalog::{Amount, DomainDetails, EventRow, Node};
use model::ServerTime;
use policy::{
    ArchiveCopyGroup, BackupCopyGroup, Limit, ManagementClass, Mode, PolicyDomain, PolicySet,
    RetentionStart, Serialization, review,
};

use crate::changes::Changes;
use crate::counts::counted;
use crate::enrolment_keys::check_unnamed;
use crate::error::StoreError;
use crate::lifecycle::expire::{self, Listener, Order, Outcome};
use crate::names::check_name;
use crate::quotas;
use crate::schedules;
use crate::store::Store;

/// Minimum number of inactive versions for the guard: an activation that would drop more than half
/// of them must be confirmed.
const GUARDED_VERSIONS_MIN: u64 = 100;

/// A policy domain with the number of its nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainSummary {
    pub domain: PolicyDomain,
    pub node_count: usize,
    pub stored: Amount,
    /// Details with the limits of the domain.
    pub details: DomainDetails,
}

/// A change of the limits of a domain. A limit that is `None` stays as it is; `Some(None)` removes
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitChange {
    pub nodes: Option<Option<u64>>,
    pub objects: Option<Option<u64>>,
    pub bytes: Option<Option<u64>>,
    /// Share of a limit from which there are warnings, in per cent.
    pub warning_percent: Option<u8>,
}

/// A change of the draft of a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyEdit {
    /// Creates the class, or changes it.
    PutClass(ClassEdit),
    RemoveClass {
        name: String,
    },
    DefaultClass {
        name: String,
    },
    GraceDays {
        backup: Option<u16>,
        archive: Option<u16>,
    },
    /// Removes copy groups from a class.
    RemoveGroups(GroupRemoval),
    /// Discards the draft.
    Discard,
}

/// A new class, or a change of a class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassEdit {
    pub name: String,
    pub backup: Option<BackupGroupEdit>,
    pub archive: Option<ArchiveGroupEdit>,
    /// End of the lock; `None` leaves the lock as it is.
    pub locked_until: Option<ServerTime>,
}

/// A change of a backup copy group; `None` leaves a rule as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackupGroupEdit {
    pub versions_existing_max: Option<Limit>,
    pub versions_deleted_max: Option<Limit>,
    pub extra_days: Option<Limit>,
    pub only_days: Option<Limit>,
    pub mode: Option<Mode>,
    pub frequency_days: Option<u16>,
    pub serialization: Option<Serialization>,
}

impl BackupGroupEdit {
    fn apply(self, group: BackupCopyGroup) -> BackupCopyGroup {
        BackupCopyGroup {
            versions_existing_max: self
                .versions_existing_max
                .unwrap_or(group.versions_existing_max),
            versions_deleted_max: self.versions_deleted_max.unwrap_or(group.versions_deleted_max),
            extra_days: self.extra_days.unwrap_or(group.extra_days),
            only_days: self.only_days.unwrap_or(group.only_days),
            mode: self.mode.unwrap_or(group.mode),
            frequency_days: self.frequency_days.unwrap_or(group.frequency_days),
            serialization: self.serialization.unwrap_or(group.serialization),
        }
    }
}

/// A change of an archive copy group; `None` leaves a rule as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchiveGroupEdit {
    pub keep_days: Option<Limit>,
    pub starts: Option<RetentionStart>,
    pub minimum_days: Option<u16>,
}

impl ArchiveGroupEdit {
    fn apply(self, group: ArchiveCopyGroup) -> ArchiveCopyGroup {
        ArchiveCopyGroup {
            keep_days: self.keep_days.unwrap_or(group.keep_days),
            starts: self.starts.unwrap_or(group.starts),
            minimum_days: self.minimum_days.unwrap_or(group.minimum_days),
        }
    }
}

/// The copy groups that a class loses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupRemoval {
    pub class: String,
    pub backup: bool,
    pub archive: bool,
}

/// Review of the draft of a domain. A domain without a draft has no differences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReviewReport {
    pub domain: String,
    pub differences: Vec<review::Difference>,
    /// The reason why the draft cannot be activated.
    pub problem: Option<review::DraftFault>,
    /// Digest of the draft and of the active set, by which an activation names what was reviewed.
    /// It is empty without a draft.
    pub mark: String,
}

impl ReviewReport {
    /// Returns true if the draft keeps some objects for less time than the active set.
    pub fn shortens(&self) -> bool {
        self.differences.iter().any(review::Difference::shortens)
    }
}

/// Finds a domain by its name, in upper or lower case.
pub fn find(store: &Store, name: &str) -> Result<PolicyDomain, StoreError> {
    let all = store.catalog.domains()?;
    let found = all.into_iter().find(|domain| domain.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| unknown(name))
}

/// Returns the error for a domain that does not exist.
pub fn unknown(name: &str) -> StoreError {
    StoreError::not_found(format!(
        "there is no policy domain {name}; 'holdfast admin domain list' shows all"
    ))
}

fn nodes_of(store: &Store, domain: &PolicyDomain) -> Result<Vec<Node>, StoreError> {
    let mut nodes = store.catalog.nodes()?;
    nodes.retain(|node| node.domain == domain.id);
    Ok(nodes)
}

/// Lists the domain `name`, or all domains.
pub fn list(store: &Store, name: Option<&str>) -> Result<Vec<DomainSummary>, StoreError> {
    let domains = match name {
        Some(name) => vec![find(store, name)?],
        None => store.catalog.domains()?,
    };
    domains.into_iter().map(|domain| describe(store, domain)).collect()
}

fn describe(store: &Store, domain: PolicyDomain) -> Result<DomainSummary, StoreError> {
    let node_count = nodes_of(store, &domain)?.len();
    let stored = store.catalog.amount(domain.id)?;
    let details = store.catalog.domain_details(domain.id)?;
    Ok(DomainSummary { domain, node_count, stored, details })
}

/// Creates a domain.
pub fn add(store: &Store, name: &str, actor: &str) -> Result<DomainSummary, StoreError> {
    check_name(name, "a domain")?;
    let now = sys::clock::now();
    let domain = store.catalog.add_domain(name, now)?;
    note_by(store, actor, now, ("domain added", name))?;
    describe(store, domain)
}

/// Removes a domain without nodes.
pub fn remove(store: &Store, name: &str, actor: &str) -> Result<DomainSummary, StoreError> {
    let info = describe(store, find(store, name)?)?;
    let domain = &info.domain;
    if domain.name == policy::STANDARD {
        return Err(StoreError::conflict(
            "the domain STANDARD cannot be removed, because new nodes belong to it",
        ));
    }
    if info.node_count > 0 {
        let nodes = counted(info.node_count as u64, "node");
        return Err(StoreError::conflict(format!(
            "domain {} has {nodes}; first give each node another domain with 'holdfast admin node \
             set NAME --domain DOMAIN'",
            domain.name
        )));
    }
    let rows = store.catalog.schedules()?;
    let own = rows.iter().filter(|row| schedules::owner(row) == Some(domain.id)).count();
    if own > 0 {
        return Err(StoreError::conflict(format!(
            "domain {} has {} of its own; remove each of them first",
            domain.name,
            counted(own as u64, "schedule")
        )));
    }
    check_unnamed(store, &format!("domain {}", domain.name), |key| key.domain == domain.name)?;
    assert_eq!(info.node_count, 0, "a domain with nodes stays");
    store.catalog.remove_domain(domain.id)?;
    note_by(store, actor, sys::clock::now(), ("domain removed", domain.name.as_str()))?;
    Ok(info)
}

/// Changes the limits of a domain. They hold from now on; what is stored already stays.
pub fn set_limits(
    store: &Store,
    name: &str,
    change: LimitChange,
    actor: &str,
) -> Result<DomainSummary, StoreError> {
    let LimitChange { nodes, objects, bytes, warning_percent } = change;
    if warning_percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
        return Err(StoreError::usage("warnings begin at 1 to 100 per cent of a limit"));
    }
    let limits = [nodes, objects, bytes];
    if limits.into_iter().flatten().flatten().any(|max| i64::try_from(max).is_err()) {
        return Err(StoreError::usage("a limit is at most 2^63 - 1"));
    }
    let domain = find(store, name)?;
    let before = store.catalog.domain_details(domain.id)?;
    let mut details = before.clone();
    details.nodes_max = nodes.unwrap_or(details.nodes_max);
    details.objects_max = objects.unwrap_or(details.objects_max);
    details.bytes_max = bytes.unwrap_or(details.bytes_max);
    details.warning_percent = warning_percent.unwrap_or(details.warning_percent);
    keep_details(store, &domain, (&before, &details), actor)?;
    describe(store, domain)
}

/// Replaces the details of a domain, and notes what changes. Limits hold from now on.
pub fn keep_details(
    store: &Store,
    domain: &PolicyDomain,
    (before, after): (&DomainDetails, &DomainDetails),
    actor: &str,
) -> Result<(), StoreError> {
    store.catalog.put_domain_details(domain.id, after)?;
    store.quotas.forget();
    let words = differences(before, after).of(&domain.name);
    note_by(store, actor, sys::clock::now(), ("domain changed", words.as_str()))
}

fn differences(before: &DomainDetails, after: &DomainDetails) -> Changes {
    let limit = |max: Option<u64>| max.map_or_else(|| "no limit".to_owned(), |max| max.to_string());
    let percent = |details: &DomainDetails| format!("{} %", quotas::warning_percent(details));
    let mut changes = Changes::default();
    changes.compare("tag", &before.tag, &after.tag);
    changes.compare("description", &before.description, &after.description);
    changes.compare("nodes", limit(before.nodes_max), limit(after.nodes_max));
    changes.compare("objects", limit(before.objects_max), limit(after.objects_max));
    changes.compare("bytes", limit(before.bytes_max), limit(after.bytes_max));
    changes.compare("warning", percent(before), percent(after));
    changes
}

/// Adds an event to the audit trail, with the administrator as its actor.
pub fn note(store: &Store, time: ServerTime, what: &str, details: &str) -> Result<(), StoreError> {
    note_by(store, ADMINISTRATOR, time, (what, details))
}

/// Adds an event of `actor` to the audit trail: its kind, and its details.
pub fn note_by(
    store: &Store,
    actor: &str,
    time: ServerTime,
    (what, details): (&str, &str),
) -> Result<(), StoreError> {
    let event = event_by(actor, time, what, details);
    Ok(store.catalog.commit(vec![catalog::Write::AddEvent(event)])?)
}

fn event_by(actor: &str, time: ServerTime, what: &str, details: &str) -> EventRow {
    EventRow { time, actor: actor.to_owned(), what: what.to_owned(), details: details.to_owned() }
}

/// Edits the draft of a domain, and returns the review of the draft. A domain without a draft first
/// gets a copy of its active set as the draft.
pub fn edit(store: &Store, domain: &str, edit: PolicyEdit) -> Result<ReviewReport, StoreError> {
    let domain = find(store, domain)?;
    let mut draft = domain.draft.clone().unwrap_or_else(|| domain.active.clone());
    match edit {
        PolicyEdit::PutClass(class) => put_class(store, &domain, &mut draft, &class)?,
        PolicyEdit::RemoveClass { name } => {
            let id = class_of(&draft, &name)?.id;
            draft.classes.retain(|class| class.id != id);
        }
        PolicyEdit::DefaultClass { name } => draft.default_class = class_of(&draft, &name)?.id,
        PolicyEdit::GraceDays { backup, archive } => {
            draft.backup_grace_days = backup.unwrap_or(draft.backup_grace_days);
            draft.archive_grace_days = archive.unwrap_or(draft.archive_grace_days);
        }
        PolicyEdit::RemoveGroups(removal) => {
            let mut class = class_of(&draft, &removal.class)?.clone();
            class.backup = class.backup.filter(|_| !removal.backup);
            class.archive = class.archive.filter(|_| !removal.archive);
            draft.put(class);
        }
        PolicyEdit::Discard => {
            store.catalog.put_draft(domain.id, None, sys::clock::now())?;
            return review(store, &domain.name);
        }
    }
    store.catalog.put_draft(domain.id, Some(&draft), sys::clock::now())?;
    review(store, &domain.name)
}

fn class_of<'a>(set: &'a PolicySet, name: &str) -> Result<&'a ManagementClass, StoreError> {
    set.named(name).ok_or_else(|| {
        let known: Vec<&str> = set.classes.iter().map(|class| class.name.as_str()).collect();
        StoreError::not_found(format!(
            "there is no class {name}; the classes are {}",
            known.join(", ")
        ))
    })
}

fn put_class(
    store: &Store,
    domain: &PolicyDomain,
    draft: &mut PolicySet,
    edit: &ClassEdit,
) -> Result<(), StoreError> {
    if edit.locked_until.is_some_and(|until| until <= sys::clock::now()) {
        return Err(StoreError::usage("the end of a lock must be in the future"));
    }
    let mut class = match draft.named(&edit.name) {
        Some(class) => class.clone(),
        None => {
            check_name(&edit.name, "a class")?;
            let id = store.catalog.class_number(domain.id, &edit.name)?;
            ManagementClass::new(id, &edit.name)
        }
    };
    if let Some(group) = edit.backup {
        class.backup = Some(group.apply(class.backup.unwrap_or_default()));
    }
    if let Some(group) = edit.archive {
        class.archive = Some(group.apply(class.archive.unwrap_or_default()));
    }
    class.locked_until = edit.locked_until.or(class.locked_until);
    draft.put(class);
    debug_assert!(draft.classes.is_sorted_by(|a, b| a.name < b.name), "each name occurs once");
    Ok(())
}

/// Compares the draft with the active set.
pub fn review(store: &Store, name: &str) -> Result<ReviewReport, StoreError> {
    Ok(review_of(&find(store, name)?))
}

fn review_of(domain: &PolicyDomain) -> ReviewReport {
    let name = domain.name.clone();
    let Some(draft) = &domain.draft else {
        let (differences, mark) = (Vec::new(), String::new());
        return ReviewReport { domain: name, differences, problem: None, mark };
    };
    ReviewReport {
        differences: review::differences(&domain.active, draft),
        problem: review::admit(&domain.active, draft, sys::clock::now()).err(),
        mark: mark(&domain.active, draft),
        domain: name,
    }
}

/// Returns the digest of two sets, in hexadecimal.
fn mark(active: &PolicySet, draft: &PolicySet) -> String {
    let text = serde_json::to_vec(&[active, draft]).expect("a policy set has only text as keys");
    blake3::hash(&text).to_hex().to_string()
}

fn draft_of(domain: &PolicyDomain) -> Result<&PolicySet, StoreError> {
    domain.draft.as_ref().ok_or_else(|| {
        StoreError::conflict(format!(
            "domain {} has no draft of its policy; a change of the policy makes one",
            domain.name
        ))
    })
}

/// Counts the versions that would expire if the draft were active now.
pub fn simulate(store: &Store, name: &str, listener: Listener<'_>) -> Result<Outcome, StoreError> {
    let domain = find(store, name)?;
    simulate_draft(store, &domain, draft_of(&domain)?, listener)
}

fn simulate_draft(
    store: &Store,
    domain: &PolicyDomain,
    draft: &PolicySet,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    let order = Order { draft: Some(draft), is_dry: true, all: true, ..Order::due() };
    expire::run(store, &nodes_of(store, domain)?, order, listener)
}

/// A draft that may become the active set.
struct Candidate {
    domain: PolicyDomain,
    draft: PolicySet,
    review: ReviewReport,
}

/// Returns the draft of a domain if it may become the active set now. Without confirmation it may
/// not if most of the inactive versions would expire.
fn admit(store: &Store, domain: PolicyDomain, is_confirmed: bool) -> Result<Candidate, StoreError> {
    let draft = draft_of(&domain)?.clone();
    review::admit(&domain.active, &draft, sys::clock::now()).map_err(|unfit| {
        let name = &domain.name;
        StoreError::conflict(format!("the draft of {name} cannot be activated: {unfit}"))
    })?;
    let review = review_of(&domain);
    if review.differences.is_empty() {
        return Err(StoreError::conflict(format!(
            "the draft of {} is the same as the active set",
            domain.name
        )));
    }
    if !is_confirmed {
        guard(store, &domain, &draft)?;
    }
    assert!(draft.class(draft.default_class).is_some(), "an admitted draft has its default class");
    Ok(Candidate { domain, draft, review })
}

/// Returns the review of a draft that [`activate`] would make the active set. Fails as it does.
pub fn check_activation(
    store: &Store,
    name: &str,
    is_confirmed: bool,
) -> Result<ReviewReport, StoreError> {
    Ok(admit(store, find(store, name)?, is_confirmed)?.review)
}

/// Makes the draft the active set, and returns its review. Without confirmation it fails if most of
/// the inactive versions would expire.
pub fn activate(
    store: &Store,
    name: &str,
    is_confirmed: bool,
    actor: &str,
) -> Result<ReviewReport, StoreError> {
    put_into_force(store, admit(store, find(store, name)?, is_confirmed)?, actor)
}

/// Does what [`activate`] does, if the draft and the active set are those of the review with this
/// mark.
pub fn activate_reviewed(
    store: &Store,
    name: &str,
    mark: &str,
    is_confirmed: bool,
    actor: &str,
) -> Result<ReviewReport, StoreError> {
    let admitted = admit(store, find(store, name)?, is_confirmed)?;
    if admitted.review.mark != mark {
        return Err(StoreError::conflict(format!(
            "the policy of {name} or its draft has changed since it was reviewed; review it again"
        )));
    }
    put_into_force(store, admitted, actor)
}

fn put_into_force(
    store: &Store,
    Candidate { domain, draft, review }: Candidate,
    actor: &str,
) -> Result<ReviewReport, StoreError> {
    let differences: Vec<String> = review.differences.iter().map(ToString::to_string).collect();
    let details = format!("{}: {}", domain.name, differences.join("; "));
    let event = event_by(actor, sys::clock::now(), "policy activated", &details);
    store.catalog.activate(domain.id, &draft, &event)?;
    tracing::info!(domain = %domain.name, "policy activated");
    Ok(review)
}

/// Refuses a draft under which most of the inactive versions would expire.
fn guard(store: &Store, domain: &PolicyDomain, draft: &PolicySet) -> Result<(), StoreError> {
    let differences = review::differences(&domain.active, draft);
    if !differences.iter().any(|difference| difference.keeps_less) {
        return Ok(());
    }
    let outcome = simulate_draft(store, domain, draft, &mut |_| true)?;
    assert!(outcome.expired <= outcome.examined, "a version expires once");
    assert!(outcome.due_anyway <= outcome.expired, "only versions that expire are due anyway");
    let more = outcome.expired - outcome.due_anyway;
    if outcome.expired * 2 > outcome.examined
        && more > 0
        && outcome.examined >= GUARDED_VERSIONS_MIN
    {
        return Err(StoreError::Unconfirmed(format!(
            "activating this draft would expire {} of {} ({}, {})",
            outcome.expired,
            counted(outcome.examined, "inactive version"),
            counted(outcome.expired_bytes, "byte"),
            counted(u64::from(outcome.nodes), "node")
        )));
    }
    Ok(())
}

/// Review of a move of a node to another domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveReview {
    /// Name of the new domain.
    pub domain: String,
    /// Rules that keep less there.
    pub losses: Vec<review::Difference>,
    /// Digest of the sets of both domains, by which a move names what was reviewed.
    pub mark: String,
}

/// Compares what the domain of the node keeps with what the domain `to` keeps.
pub fn review_move(store: &Store, node: &Node, to: &str) -> Result<MoveReview, StoreError> {
    let to = find(store, to)?;
    let all = store.catalog.domains()?;
    let from = all.into_iter().find(|domain| domain.id == node.domain);
    let from = from.ok_or_else(|| StoreError::damaged("a node's policy domain is missing"))?;
    Ok(MoveReview {
        losses: review::losses(&from.active, &to.active),
        mark: mark(&from.active, &to.active),
        domain: to.name,
    })
}

/// Fails while a class of the node's domain is locked, because the class may hold versions of the
/// node. The error message begins with `action`.
pub fn check_unlocked(store: &Store, node: &Node, action: &str) -> Result<(), StoreError> {
    let domains = store.catalog.domains()?;
    let now = sys::clock::now();
    let classes = domains
        .iter()
        .filter(|domain| domain.id == node.domain)
        .flat_map(|domain| &domain.active.classes);
    match classes.into_iter().find(|class| class.is_locked(now)) {
        Some(class) => {
            let until = review::day(class.locked_until.unwrap_or(now));
            let (node, class) = (&node.name, &class.name);
            Err(StoreError::conflict(format!(
                "{action} node {node} could drop versions that class {class} holds; the class is \
                 locked until {until}"
            )))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
