//! Policy domains, their classes and edits.

use std::str::FromStr;

use model::ServerTime;
use policy::review::Difference;
use policy::{ArchiveCopyGroup, BackupCopyGroup, InvalidWord, Limit, ManagementClass, PolicySet};
use store::StoreError;
use store::domains::{
    ArchiveGroupEdit, BackupGroupEdit, ClassEdit, DomainSummary, GroupRemoval, LimitChange,
    PolicyEdit, ReviewReport,
};
use wire::proto;
use wire::proto::edit_policy_request::Edit;

/// The name of the domain that a request names. An empty name stands for the standard domain.
pub(crate) fn name(name: &str) -> &str {
    if name.is_empty() { policy::STANDARD } else { name }
}

pub(crate) fn domain(info: DomainSummary) -> proto::Domain {
    let DomainSummary { domain, node_count, stored, details } = info;
    proto::Domain {
        active: Some(set(&domain.active)),
        draft: domain.draft.as_ref().map(set),
        name: domain.name,
        nodes: u32::try_from(node_count).unwrap_or(u32::MAX),
        objects: stored.objects,
        bytes: stored.bytes,
        nodes_max: details.nodes_max,
        objects_max: details.objects_max,
        bytes_max: details.bytes_max,
    }
}

pub(crate) fn limits(request: &proto::SetDomainRequest) -> Result<LimitChange, StoreError> {
    let limit = |limit: Option<proto::DomainLimit>| limit.map(|limit| limit.max);
    let percent = u8::try_from(request.warning_percent);
    let percent = percent.map_err(|_| StoreError::malformed("a percentage above 255"))?;
    Ok(LimitChange {
        nodes: limit(request.nodes),
        objects: limit(request.objects),
        bytes: limit(request.bytes),
        warning_percent: Some(percent).filter(|percent| *percent > 0),
    })
}

fn set(set: &PolicySet) -> proto::PolicySet {
    let default = set.class(set.default_class);
    proto::PolicySet {
        classes: set.classes.iter().map(class).collect(),
        default_class: default.map(|class| class.name.clone()).unwrap_or_default(),
        backup_grace_days: u32::from(set.backup_grace_days),
        archive_grace_days: u32::from(set.archive_grace_days),
    }
}

pub(crate) fn class(class: &ManagementClass) -> proto::ManagementClass {
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

pub(crate) fn edit(edit: Option<Edit>) -> Result<PolicyEdit, StoreError> {
    Ok(match edit.ok_or_else(|| StoreError::malformed("the request names no edit"))? {
        Edit::PutClass(class) => PolicyEdit::PutClass(class_edit(class)?),
        Edit::RemoveClass(name) => PolicyEdit::RemoveClass { name },
        Edit::DefaultClass(name) => PolicyEdit::DefaultClass { name },
        Edit::Grace(grace) => PolicyEdit::GraceDays {
            backup: grace.backup.map(days).transpose()?,
            archive: grace.archive.map(days).transpose()?,
        },
        Edit::RemoveGroup(proto::RemoveGroup { class, backup, archive }) => {
            PolicyEdit::RemoveGroups(GroupRemoval { class, backup, archive })
        }
        Edit::Discard(_) => PolicyEdit::Discard,
    })
}

fn class_edit(class: proto::ManagementClass) -> Result<ClassEdit, StoreError> {
    Ok(ClassEdit {
        name: class.name,
        backup: class.backup.as_ref().map(backup_edit).transpose()?,
        archive: class.archive.as_ref().map(archive_edit).transpose()?,
        locked_until: super::positive(class.locked_until).map(ServerTime),
    })
}

fn backup_edit(group: &proto::BackupCopyGroup) -> Result<BackupGroupEdit, StoreError> {
    Ok(BackupGroupEdit {
        versions_existing_max: versions(group.versions_existing.as_ref(), "VEREXISTS")?,
        versions_deleted_max: versions(group.versions_deleted.as_ref(), "VERDELETED")?,
        extra_days: word(group.extra_days.as_ref(), "RETEXTRA")?,
        only_days: word(group.only_days.as_ref(), "RETONLY")?,
        mode: word(group.mode.as_ref(), "MODE")?,
        frequency_days: group.frequency_days.map(days).transpose()?,
        serialization: word(group.serialization.as_ref(), "SERIALIZATION")?,
    })
}

fn archive_edit(group: &proto::ArchiveCopyGroup) -> Result<ArchiveGroupEdit, StoreError> {
    Ok(ArchiveGroupEdit {
        keep_days: word(group.keep_days.as_ref(), "RETVER")?,
        starts: word(group.starts.as_ref(), "RETINIT")?,
        minimum_days: group.minimum_days.map(days).transpose()?,
    })
}

/// Parses the word for `rule`, if there is one.
fn word<T: FromStr<Err = InvalidWord>>(
    text: Option<&String>,
    rule: &str,
) -> Result<Option<T>, StoreError> {
    let parse = |text: &String| {
        text.parse()
            .map_err(|error| StoreError::usage(format!("{rule} {text}: {error}")))
    };
    text.map(parse).transpose()
}

fn versions(text: Option<&String>, rule: &str) -> Result<Option<Limit>, StoreError> {
    match word(text, rule)? {
        Some(Limit::AtMost(number)) if number > Limit::VERSIONS_MAX => {
            let most = Limit::VERSIONS_MAX;
            let text = format!("{rule} {number}: give 0 to {most}, or NOLIMIT");
            Err(StoreError::usage(text))
        }
        limit => Ok(limit),
    }
}

fn days(number: u32) -> Result<u16, StoreError> {
    let days = u16::try_from(number).ok().filter(|days| *days <= Limit::DAYS_MAX);
    days.ok_or_else(|| StoreError::usage(format!("{number} days: give 0 to {}", Limit::DAYS_MAX)))
}

pub(crate) fn review(report: ReviewReport) -> proto::PolicyReview {
    let difference = |difference: Difference| proto::PolicyDifference {
        class: difference.class.unwrap_or_default(),
        what: difference.what.to_owned(),
        from: difference.from,
        to: difference.to,
        keeps_less: difference.keeps_less,
    };
    proto::PolicyReview {
        domain: report.domain,
        differences: report.differences.into_iter().map(difference).collect(),
        problem: report.problem.map(|problem| problem.to_string()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_as_a_message_is_an_edit_that_sets_all_its_rules() {
        let groups = (BackupCopyGroup::default(), ArchiveCopyGroup::default());
        let mut standard = ManagementClass::new(model::ClassId(1), "STANDARD");
        standard.backup = Some(groups.0);
        standard.archive = Some(groups.1);
        let edit = class_edit(class(&standard)).expect("is well formed");
        let backup = edit.backup.expect("has a backup group");
        assert_eq!(backup.versions_existing_max, Some(groups.0.versions_existing_max));
        assert_eq!(backup.serialization, Some(groups.0.serialization));
        let archive = edit.archive.expect("has an archive group");
        assert_eq!(archive.keep_days, Some(groups.1.keep_days));
        assert_eq!(edit.locked_until, None);
    }

    #[test]
    fn rules_outside_their_bounds_are_refused() {
        let existing = |text: &str| {
            let versions_existing = Some(text.to_owned());
            let group =
                proto::BackupCopyGroup { versions_existing, ..proto::BackupCopyGroup::default() };
            backup_edit(&group).map(|edit| edit.versions_existing_max)
        };
        assert_eq!(existing("nolimit"), Ok(Some(Limit::Unlimited)));
        assert_eq!(existing("9999"), Ok(Some(Limit::AtMost(9999))));
        let error = existing("10000").expect_err("is too much");
        assert_eq!(error.to_string(), "VEREXISTS 10000: give 0 to 9999, or NOLIMIT");
        assert!(existing("many").is_err());
        assert_eq!(days(30_000), Ok(30_000));
        assert!(days(30_001).is_err());
        assert!(days(65_536 + 1).is_err());
    }
}
