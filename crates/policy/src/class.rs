//! Management classes and what a new server begins with.
//!
//! A policy domain holds management classes; an object is bound to one of them, and its backup copy
//! group says how long versions are kept. These types are stored and shown. The rule that picks the
//! versions to expire is deliberately absent.

use std::fmt;

use model::{ClassId, DomainId};

/// The name of the domain and of the class that every new server has.
pub const STANDARD: &str = "STANDARD";

/// How many, or how many days, at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// `NOLIMIT`: this criterion never drops a version.
    Unlimited,
    AtMost(u16),
}

impl Limit {
    /// The largest number of days that can be set.
    pub const DAYS_MAX: u16 = 30_000;
    /// The largest number of versions that can be set.
    pub const VERSIONS_MAX: u16 = 9_999;
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("NOLIMIT"),
            Self::AtMost(number) => number.fmt(f),
        }
    }
}

/// How long the backup versions of an object are kept. The limits on number and on age both hold:
/// whichever is met first drops the version. The active version is never dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackupCopyGroup {
    /// VEREXISTS: versions kept while the object exists, the active one included.
    pub versions_existing_max: Limit,
    /// VERDELETED: versions kept after the object is gone.
    pub versions_deleted_max: Limit,
    /// RETEXTRA: days that an inactive version lives after it became inactive.
    pub extra_days: Limit,
    /// RETONLY: the same for the last version of an object that is gone.
    pub only_days: Limit,
}

impl Default for BackupCopyGroup {
    /// Keeps by time alone.
    ///
    /// TSM's own defaults (2 versions, 1 when deleted) lose the state of three days ago as soon as
    /// a file changes twice a day; without a limit on the number every state of the last 30 days
    /// can be restored exactly, which is what `restore --at` promises. The last version of a
    /// deleted object stays 60 days, because a deletion is noticed later than a change; both
    /// numbers of days are TSM's.
    fn default() -> Self {
        Self {
            versions_existing_max: Limit::Unlimited,
            versions_deleted_max: Limit::Unlimited,
            extra_days: Limit::AtMost(30),
            only_days: Limit::AtMost(60),
        }
    }
}

/// A named set of retention rules that objects are bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagementClass {
    pub id: ClassId,
    pub name: String,
    pub backup: BackupCopyGroup,
}

/// A scope of policy: its nodes may use its classes and no others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyDomain {
    pub id: DomainId,
    pub name: String,
    pub classes: Vec<ManagementClass>,
    /// The class of objects that no statement binds. Invariant: one of `classes`.
    pub default_class: ClassId,
}

impl PolicyDomain {
    /// The domain that a new server begins with: one class, so that nobody has to configure
    /// anything before the first backup.
    pub fn standard(id: DomainId, class: ClassId) -> Self {
        let standard = ManagementClass {
            id: class,
            name: STANDARD.to_owned(),
            backup: BackupCopyGroup::default(),
        };
        Self { id, name: STANDARD.to_owned(), classes: vec![standard], default_class: class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_server_keeps_by_time_alone() {
        let group = BackupCopyGroup::default();
        let shown = [
            group.versions_existing_max,
            group.versions_deleted_max,
            group.extra_days,
            group.only_days,
        ]
        .map(|limit| limit.to_string());
        assert_eq!(shown, ["NOLIMIT", "NOLIMIT", "30", "60"]);
    }

    #[test]
    fn the_standard_domain_knows_its_default_class() {
        let domain = PolicyDomain::standard(DomainId(1), ClassId(7));
        assert_eq!((domain.name.as_str(), domain.default_class), ("STANDARD", ClassId(7)));
        let class = domain.classes.iter().find(|class| class.id == domain.default_class);
        assert_eq!(class.map(|class| class.name.as_str()), Some("STANDARD"));
    }
}
