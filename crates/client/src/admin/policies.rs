//! Policy domains, their sets of management classes, and drafts of these sets.

use model::ServerTime;
use policy::{ArchiveCopyGroup, BackupCopyGroup, Limit, Mode, RetentionStart, Serialization};
use wire::proto;
use wire::proto::edit_policy_request::Edit;

use super::connection::Admin;
use super::expiration::Expiration;
use super::optional::{self, unreadable};
use crate::ClientError;
use crate::link::hello::Class;
use crate::link::portions::{self, Section};

/// A policy domain.
#[derive(Clone, Debug)]
pub struct Domain {
    pub name: String,
    /// Number of nodes in the domain.
    pub nodes: u64,
    pub active: PolicySet,
    pub draft: Option<PolicySet>,
    /// Amount of what the nodes have stored: versions of objects, and their bytes.
    pub objects: u64,
    pub bytes: u64,
    /// Limits; one that is `None` does not exist.
    pub nodes_max: Option<u64>,
    pub objects_max: Option<u64>,
    pub bytes_max: Option<u64>,
}

/// A change of the limits of a domain. A limit that is `None` stays as it is; `Some(None)` removes
/// it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitChange {
    pub nodes: Option<Option<u64>>,
    pub objects: Option<Option<u64>>,
    pub bytes: Option<Option<u64>>,
    /// Share of a limit from which there are warnings, in per cent.
    pub warning_percent: Option<u8>,
}

/// The management classes of a domain.
#[derive(Clone, Debug)]
pub struct PolicySet {
    /// Management classes, sorted by name.
    pub classes: Vec<ManagementClass>,
    pub default_class: String,
    /// Days that backups of a class without a backup copy group are kept.
    pub backup_grace_days: u32,
    /// Days that archives of a class without an archive copy group are kept.
    pub archive_grace_days: u32,
}

/// A management class.
#[derive(Clone, Debug)]
pub struct ManagementClass {
    pub name: String,
    pub backup: Option<BackupCopyGroup>,
    pub archive: Option<ArchiveCopyGroup>,
    /// Time until which nobody can shorten or remove the class.
    pub locked_until: Option<ServerTime>,
}

impl TryFrom<proto::Domain> for Domain {
    type Error = ClientError;

    fn try_from(message: proto::Domain) -> Result<Self, ClientError> {
        let active = message.active.ok_or_else(|| unreadable("the active policy set"))?;
        Ok(Self {
            name: message.name,
            nodes: message.nodes.into(),
            active: active.try_into()?,
            draft: message.draft.map(PolicySet::try_from).transpose()?,
            objects: message.objects,
            bytes: message.bytes,
            nodes_max: message.nodes_max,
            objects_max: message.objects_max,
            bytes_max: message.bytes_max,
        })
    }
}

impl TryFrom<proto::PolicySet> for PolicySet {
    type Error = ClientError;

    fn try_from(message: proto::PolicySet) -> Result<Self, ClientError> {
        let classes = message.classes.iter().map(ManagementClass::try_from);
        Ok(Self {
            classes: classes.collect::<Result<_, _>>()?,
            default_class: message.default_class,
            backup_grace_days: message.backup_grace_days,
            archive_grace_days: message.archive_grace_days,
        })
    }
}

impl TryFrom<&proto::ManagementClass> for ManagementClass {
    type Error = ClientError;

    fn try_from(message: &proto::ManagementClass) -> Result<Self, ClientError> {
        let (_, class) = Class::parse(message)
            .ok_or_else(|| unreadable(&format!("the management class {}", message.name)))?;
        let Class { name, backup, archive } = class;
        Ok(Self { name, backup, archive, locked_until: optional::time(message.locked_until) })
    }
}

/// Changes of a management class; `None` leaves a rule as it is. A class that does not exist is
/// made.
#[derive(Clone, Debug, Default)]
pub struct ClassChange {
    pub name: String,
    pub backup: BackupGroupChange,
    pub archive: ArchiveGroupChange,
    pub locked_until: Option<ServerTime>,
}

/// Changes of a backup copy group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BackupGroupChange {
    pub versions_existing: Option<Limit>,
    pub versions_deleted: Option<Limit>,
    pub extra_days: Option<Limit>,
    pub only_days: Option<Limit>,
    pub mode: Option<Mode>,
    pub frequency_days: Option<u32>,
    pub serialization: Option<Serialization>,
}

/// Changes of an archive copy group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArchiveGroupChange {
    pub keep_days: Option<Limit>,
    pub starts: Option<RetentionStart>,
    pub minimum_days: Option<u32>,
}

fn word(choice: Option<impl ToString>) -> Option<String> {
    choice.map(|choice| choice.to_string())
}

impl BackupGroupChange {
    fn message(&self) -> Option<proto::BackupCopyGroup> {
        (*self != Self::default()).then(|| proto::BackupCopyGroup {
            versions_existing: word(self.versions_existing),
            versions_deleted: word(self.versions_deleted),
            extra_days: word(self.extra_days),
            only_days: word(self.only_days),
            mode: word(self.mode),
            frequency_days: self.frequency_days,
            serialization: word(self.serialization),
        })
    }
}

impl ArchiveGroupChange {
    fn message(&self) -> Option<proto::ArchiveCopyGroup> {
        (*self != Self::default()).then(|| proto::ArchiveCopyGroup {
            keep_days: word(self.keep_days),
            starts: word(self.starts),
            minimum_days: self.minimum_days,
        })
    }
}

/// A change of a domain's draft.
#[derive(Clone, Debug)]
pub enum PolicyEdit {
    PutClass(ClassChange),
    RemoveClass {
        class: String,
    },
    /// Removes copy groups of a class.
    RemoveGroups {
        class: String,
        backup: bool,
        archive: bool,
    },
    DefaultClass {
        class: String,
    },
    /// Sets the days that objects of a class without a copy group are kept.
    Grace {
        backup_days: Option<u32>,
        archive_days: Option<u32>,
    },
    /// Discards the draft.
    Discard,
}

impl From<PolicyEdit> for Edit {
    fn from(edit: PolicyEdit) -> Self {
        match edit {
            PolicyEdit::PutClass(change) => Self::PutClass(proto::ManagementClass {
                number: 0,
                backup: change.backup.message(),
                archive: change.archive.message(),
                locked_until: change.locked_until.map_or(0, |until| until.0),
                name: change.name,
            }),
            PolicyEdit::RemoveClass { class } => Self::RemoveClass(class),
            PolicyEdit::RemoveGroups { class, backup, archive } => {
                Self::RemoveGroup(proto::RemoveGroup { class, backup, archive })
            }
            PolicyEdit::DefaultClass { class } => Self::DefaultClass(class),
            PolicyEdit::Grace { backup_days: backup, archive_days: archive } => {
                Self::Grace(proto::GraceDays { backup, archive })
            }
            PolicyEdit::Discard => Self::Discard(true),
        }
    }
}

/// The differences between a domain's draft and its active set.
#[derive(Clone, Debug)]
pub struct PolicyReview {
    pub domain: String,
    pub differences: Vec<PolicyDifference>,
    /// Reason why the draft cannot be activated.
    pub problem: Option<String>,
}

/// A rule that a draft changes.
#[derive(Clone, Debug)]
pub struct PolicyDifference {
    /// Class that has the rule; `None` for a rule of the set itself.
    pub class: Option<String>,
    pub rule: String,
    pub from: Option<String>,
    pub to: Option<String>,
    /// True if the draft keeps less than the active set.
    pub keeps_less: bool,
}

impl From<proto::PolicyReview> for PolicyReview {
    fn from(message: proto::PolicyReview) -> Self {
        let difference = |difference: proto::PolicyDifference| PolicyDifference {
            class: optional::text(difference.class),
            rule: difference.what,
            from: optional::text(difference.from),
            to: optional::text(difference.to),
            keeps_less: difference.keeps_less,
        };
        Self {
            domain: message.domain,
            differences: message.differences.into_iter().map(difference).collect(),
            problem: optional::text(message.problem),
        }
    }
}

impl Admin {
    /// Lists one policy domain, or all domains.
    pub fn domains(&mut self, name: Option<&str>) -> Result<Vec<Domain>, ClientError> {
        let domains = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::DomainsRequest { name, portion: Some(portion) };
            let reply = self.call(async |server| server.domains(request).await)?;
            Ok(Section { items: reply.domains, next: reply.next })
        })?;
        domains.into_iter().map(Domain::try_from).collect()
    }

    pub fn add_domain(&mut self, name: &str) -> Result<Domain, ClientError> {
        let request = proto::DomainRequest { name: name.to_owned() };
        self.call(async |server| server.add_domain(request).await)?.try_into()
    }

    /// Changes the limits of a domain.
    pub fn set_domain(&mut self, name: &str, change: LimitChange) -> Result<Domain, ClientError> {
        let limit = |limit: Option<Option<u64>>| limit.map(|max| proto::DomainLimit { max });
        let request = proto::SetDomainRequest {
            name: name.to_owned(),
            nodes: limit(change.nodes),
            objects: limit(change.objects),
            bytes: limit(change.bytes),
            warning_percent: change.warning_percent.map_or(0, u32::from),
        };
        self.call(async |server| server.set_domain(request).await)?.try_into()
    }

    pub fn remove_domain(&mut self, name: &str) -> Result<Domain, ClientError> {
        let request = proto::DomainRequest { name: name.to_owned() };
        self.call(async |server| server.remove_domain(request).await)?.try_into()
    }

    /// Changes the draft of the domain. A domain without a draft gets one from its active set.
    pub fn edit_policy(
        &mut self,
        domain: &str,
        edit: PolicyEdit,
    ) -> Result<PolicyReview, ClientError> {
        let request =
            proto::EditPolicyRequest { domain: domain.to_owned(), edit: Some(edit.into()) };
        Ok(self.call(async |server| server.edit_policy(request).await)?.into())
    }

    /// Compares the domain's draft with its active set.
    pub fn review_policy(&mut self, domain: &str) -> Result<PolicyReview, ClientError> {
        let request = proto::DomainRequest { name: domain.to_owned() };
        Ok(self.call(async |server| server.review_policy(request).await)?.into())
    }

    /// Counts the versions that would expire if the domain's draft were active; `visit` sees the
    /// progress.
    pub fn simulate_policy(
        &mut self,
        domain: &str,
        visit: &mut dyn FnMut(&Expiration),
    ) -> Result<Expiration, ClientError> {
        let request = proto::DomainRequest { name: domain.to_owned() };
        let stream = self.call(async |server| server.simulate_policy(request).await)?;
        self.follow(stream, visit)
    }

    /// Makes the draft the active set. A draft that would expire most versions is refused unless
    /// `confirm` is set.
    pub fn activate_policy(
        &mut self,
        domain: &str,
        confirm: bool,
    ) -> Result<PolicyReview, ClientError> {
        let request = proto::ActivatePolicyRequest { domain: domain.to_owned(), confirm };
        Ok(self.call(async |server| server.activate_policy(request).await)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_with_a_word_of_another_version_is_refused_by_name() {
        let class = |mode: &str| proto::ManagementClass {
            number: 1,
            name: "LEGAL".to_owned(),
            backup: Some(proto::BackupCopyGroup {
                versions_existing: Some("NOLIMIT".to_owned()),
                versions_deleted: Some("1".to_owned()),
                extra_days: Some("30".to_owned()),
                only_days: Some("60".to_owned()),
                mode: Some(mode.to_owned()),
                frequency_days: Some(0),
                serialization: Some("shrstatic".to_owned()),
            }),
            archive: None,
            locked_until: 5,
        };
        let known = ManagementClass::try_from(&class("absolute")).expect("known words");
        assert_eq!(known.backup.map(|group| group.mode), Some(Mode::Absolute));
        assert_eq!((known.archive, known.locked_until), (None, Some(ServerTime(5))));
        let error = ManagementClass::try_from(&class("sometimes")).expect_err("an unknown word");
        assert!(error.message.contains("LEGAL"), "{}", error.message);
    }

    #[test]
    fn a_group_without_changes_is_not_sent() {
        assert_eq!(BackupGroupChange::default().message(), None);
        let change = BackupGroupChange { mode: Some(Mode::Modified), ..Default::default() };
        let message = change.message().expect("a change");
        assert_eq!((message.mode.as_deref(), message.extra_days), (Some("modified"), None));
    }
}
