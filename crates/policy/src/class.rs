//! Management classes, the sets that hold them, and the classes of a new server.
//!
//! A policy domain has an active set of management classes, and at most one draft of its next set.
//! Each object is bound to a class. The class's backup copy group says how long the object's
//! versions are kept. The class's archive copy group says how long its archive copies are kept.

use std::fmt;
use std::str::FromStr;

use model::{ClassId, DomainId, ServerTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the domain and of the class that every new server has.
pub const STANDARD: &str = "STANDARD";

/// Maximum number of versions, or of days. In JSON it is text: a number, or `NOLIMIT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
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

    /// Returns the limit, of the two, that keeps objects longer.
    #[must_use]
    pub fn longer(self, other: Self) -> Self {
        if self.is_shorter_than(other) { other } else { self }
    }

    /// Returns true if this limit is lower than `other`.
    pub fn is_shorter_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Unlimited, _) => false,
            (Self::AtMost(_), Self::Unlimited) => true,
            (Self::AtMost(this), Self::AtMost(other)) => this < other,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("NOLIMIT"),
            Self::AtMost(number) => number.fmt(f),
        }
    }
}

/// Refusal of a word that is not a value of a rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it must be {choices}")]
pub struct InvalidWord {
    choices: String,
}

impl FromStr for Limit {
    type Err = InvalidWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.eq_ignore_ascii_case("nolimit") {
            return Ok(Self::Unlimited);
        }
        match text.parse() {
            Ok(number @ 0..=Self::DAYS_MAX) => Ok(Self::AtMost(number)),
            _ => Err(InvalidWord {
                choices: format!("a number from 0 to {}, or NOLIMIT", Self::DAYS_MAX),
            }),
        }
    }
}

impl TryFrom<String> for Limit {
    type Error = InvalidWord;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        limit.to_string()
    }
}

/// Rule on sending objects that have not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each backup sends only the objects that have changed.
    #[default]
    Modified,
    /// Each backup sends every object.
    Absolute,
}

/// Treatment of a file that changes while it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Serialization {
    /// The file fails at once.
    Static,
    /// The file is read again, and fails if it still changes.
    #[default]
    ShrStatic,
    /// The file is read again. If it still changes, it is backed up in the state in which it was
    /// read.
    ShrDynamic,
    /// The file is backed up in the state in which it was read.
    Dynamic,
}

/// Implements `Display` and `FromStr` for an enum, with one word for each variant.
macro_rules! words {
    ($choice:ident, $($variant:ident = $word:literal),+) => {
        impl fmt::Display for $choice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }

        impl FromStr for $choice {
            type Err = InvalidWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text.to_ascii_lowercase().as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(InvalidWord {
                        choices: format!("one of {}", [$($word),+].join(", ")),
                    }),
                }
            }
        }
    };
}

words!(Mode, Modified = "modified", Absolute = "absolute");
words!(
    Serialization,
    Static = "static",
    ShrStatic = "shrstatic",
    ShrDynamic = "shrdynamic",
    Dynamic = "dynamic"
);
words!(RetentionStart, Creation = "creation", Event = "event");

/// Rules on keeping the backup versions of an object. There are limits on number and on age: a
/// version is dropped at the first limit that it reaches. The active version is never dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupCopyGroup {
    /// VEREXISTS: versions kept while the object exists, including the active version.
    pub versions_existing_max: Limit,
    /// VERDELETED: versions kept after the object is gone.
    pub versions_deleted_max: Limit,
    /// RETEXTRA: days that an inactive version is kept after it became inactive.
    pub extra_days: Limit,
    /// RETONLY: days that the last version of an object is kept after the object is gone.
    pub only_days: Limit,
    #[serde(default)]
    pub mode: Mode,
    /// FREQUENCY: minimum number of days between two versions of an object.
    #[serde(default)]
    pub frequency_days: u16,
    #[serde(default)]
    pub serialization: Serialization,
}

impl BackupCopyGroup {
    /// Returns rules that keep any number of versions for `days` days. They are for objects whose
    /// class has no backup copy group.
    pub fn grace(days: u16) -> Self {
        let days = Limit::AtMost(days);
        Self { extra_days: days, only_days: days, ..Self::default() }
    }

    /// The limits with their names in TSM.
    pub fn limits(&self) -> [(&'static str, Limit); 4] {
        [
            ("VEREXISTS", self.versions_existing_max),
            ("VERDELETED", self.versions_deleted_max),
            ("RETEXTRA", self.extra_days),
            ("RETONLY", self.only_days),
        ]
    }
}

impl Default for BackupCopyGroup {
    /// Returns rules that limit the age of versions, but not their number.
    ///
    /// TSM's own defaults (2 versions, 1 when deleted) lose the state of three days ago as soon as
    /// a file changes twice a day; without a limit on the number every state of the last 30 days
    /// can be restored exactly, which is what `restore --at` promises. The last version of a
    /// deleted object stays 60 days, because users notice a deletion later than a change; both
    /// numbers of days are TSM's defaults.
    fn default() -> Self {
        Self {
            versions_existing_max: Limit::Unlimited,
            versions_deleted_max: Limit::Unlimited,
            extra_days: Limit::AtMost(30),
            only_days: Limit::AtMost(60),
            mode: Mode::default(),
            frequency_days: 0,
            serialization: Serialization::default(),
        }
    }
}

/// Start of the days for which an archive copy is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RetentionStart {
    /// The time at which the copy is made.
    #[default]
    Creation,
    /// The time at which a user reports an event, such as the end of a project.
    Event,
}

/// Rules on keeping archive copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveCopyGroup {
    /// RETVER: days that an archive copy is kept after the start of its retention.
    pub keep_days: Limit,
    /// RETINIT: start of the retention.
    #[serde(default)]
    pub starts: RetentionStart,
    /// RETMIN: minimum number of days that an archive copy is kept, however early its event is.
    #[serde(default = "ArchiveCopyGroup::minimum_days_default")]
    pub minimum_days: u16,
}

impl ArchiveCopyGroup {
    fn minimum_days_default() -> u16 {
        365
    }
}

impl Default for ArchiveCopyGroup {
    /// Returns rules that keep a copy for a year after it was made, as TSM's defaults do.
    fn default() -> Self {
        Self {
            keep_days: Limit::AtMost(365),
            starts: RetentionStart::default(),
            minimum_days: Self::minimum_days_default(),
        }
    }
}

/// A named set of retention rules that objects are bound to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagementClass {
    #[serde(with = "class_number")]
    pub id: ClassId,
    pub name: String,
    /// Backup copy group; without this group, objects of the class are not backed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupCopyGroup>,
    /// Archive copy group; without this group, objects of the class are not archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveCopyGroup>,
    /// End of the lock. Until then the class may be changed only to keep objects for longer.
    /// Microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time_number")]
    pub locked_until: Option<ServerTime>,
}

impl ManagementClass {
    /// Returns a class with the default copy groups and without a lock.
    pub fn new(id: ClassId, name: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            backup: Some(BackupCopyGroup::default()),
            archive: Some(ArchiveCopyGroup::default()),
            locked_until: None,
        }
    }

    /// Returns true if the versions and copies of the class may not be dropped before their time.
    pub fn is_locked(&self, now: ServerTime) -> bool {
        self.locked_until.is_some_and(|until| until > now)
    }
}

mod class_number {
    use model::ClassId;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(id: &ClassId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(id.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ClassId, D::Error> {
        u16::deserialize(from).map(ClassId)
    }
}

mod time_number {
    use model::ServerTime;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<ServerTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<ServerTime>, D::Error> {
        Ok(Option::deserialize(from)?.map(ServerTime))
    }
}

/// The classes of a domain, and the rules for objects whose class has no copy group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySet {
    /// Classes of the set, sorted by name.
    pub classes: Vec<ManagementClass>,
    /// The class of objects that no statement binds. Invariant: one of `classes`.
    #[serde(with = "class_number")]
    pub default_class: ClassId,
    /// BACKRETENTION: days that versions are kept if their class has no backup copy group.
    pub backup_grace_days: u16,
    /// ARCHRETENTION: days that archive copies are kept if their class has no archive copy group.
    pub archive_grace_days: u16,
}

impl PolicySet {
    /// Returns the policy set of a new server. It has one class, so that the first backup needs no
    /// configuration. The days of grace are TSM's defaults.
    pub fn standard(class: ClassId) -> Self {
        Self {
            classes: vec![ManagementClass::new(class, STANDARD)],
            default_class: class,
            backup_grace_days: 30,
            archive_grace_days: 365,
        }
    }

    /// The class `id`, if the set has it.
    pub fn class(&self, id: ClassId) -> Option<&ManagementClass> {
        self.classes.iter().find(|class| class.id == id)
    }

    /// The class called `name`, whether in upper or lower case.
    pub fn named(&self, name: &str) -> Option<&ManagementClass> {
        self.classes.iter().find(|class| class.name.eq_ignore_ascii_case(name))
    }

    fn class_or_default(&self, id: ClassId) -> Option<&ManagementClass> {
        self.class(id).or_else(|| self.class(self.default_class))
    }

    /// Returns the rules for versions that are bound to the class `id`. If the set does not have
    /// the class, the default class takes its place. If the class has no backup copy group, the
    /// versions are kept for the days of grace.
    pub fn backup_rules(&self, id: ClassId) -> BackupCopyGroup {
        let class = self.class_or_default(id);
        let group = class.and_then(|class| class.backup);
        group.unwrap_or_else(|| BackupCopyGroup::grace(self.backup_grace_days))
    }

    /// Returns the rules for archive copies that are bound to the class `id`, in the same way as
    /// [`Self::backup_rules`].
    pub fn archive_rules(&self, id: ClassId) -> ArchiveCopyGroup {
        let class = self.class_or_default(id);
        let grace = Limit::AtMost(self.archive_grace_days);
        class
            .and_then(|class| class.archive)
            .unwrap_or(ArchiveCopyGroup { keep_days: grace, ..ArchiveCopyGroup::default() })
    }

    /// Returns the class of directories. It is the class that keeps the last version longest, so
    /// that a directory outlives the objects in it. Of several such classes, it is the last by
    /// name.
    pub fn directory_class(&self) -> ClassId {
        let mut best: Option<(&ManagementClass, Limit)> = None;
        for class in &self.classes {
            let Some(group) = class.backup else { continue };
            if best.is_none_or(|(_, limit)| !group.only_days.is_shorter_than(limit)) {
                best = Some((class, group.only_days));
            }
        }
        best.map_or(self.default_class, |(class, _)| class.id)
    }

    /// Adds `class`, or replaces the class of the same name.
    pub fn put(&mut self, class: ManagementClass) {
        match self.classes.binary_search_by(|known| known.name.cmp(&class.name)) {
            Ok(at) => self.classes[at] = class,
            Err(at) => self.classes.insert(at, class),
        }
    }
}

/// A scope of policy: its nodes may use its classes and no others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyDomain {
    pub id: DomainId,
    pub name: String,
    pub active: PolicySet,
    /// Set that an administrator edits, and that becomes the active set once it is activated.
    pub draft: Option<PolicySet>,
}

/// Returns true if `name` can name a domain, a class or an option set: it must have 1 to 64
/// letters, digits, '.', '-' and '_'.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_server_keeps_by_time_alone() {
        let shown = BackupCopyGroup::default().limits().map(|(_, limit)| limit.to_string());
        assert_eq!(shown, ["NOLIMIT", "NOLIMIT", "30", "60"]);
    }

    #[test]
    fn limits_are_read_as_they_are_written() {
        for text in ["0", "30000", "NOLIMIT"] {
            assert_eq!(text.parse::<Limit>().map(|limit| limit.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("nolimit".parse(), Ok(Limit::Unlimited));
        for text in ["", "-1", "30001", "no"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }

    fn set(classes: &[(&str, &str)]) -> PolicySet {
        let mut set = PolicySet::standard(ClassId(1));
        set.classes.clear();
        for (at, (name, only)) in (1..).zip(classes) {
            let only_days = only.parse().expect("a limit");
            let group = BackupCopyGroup { only_days, ..BackupCopyGroup::default() };
            let class = ManagementClass::new(ClassId(at), name);
            set.put(ManagementClass { backup: Some(group), ..class });
        }
        set
    }

    #[track_caller]
    fn check_directory(classes: &[(&str, &str)], expected: &str) {
        let set = set(classes);
        let class = set.class(set.directory_class()).expect("one of its classes");
        assert_eq!(class.name, expected);
    }

    #[test]
    fn directories_are_kept_longest_and_the_last_name_decides() {
        check_directory(&[("A", "60")], "A");
        check_directory(&[("A", "60"), ("B", "30")], "A");
        check_directory(&[("B", "60"), ("A", "60")], "B");
        check_directory(&[("A", "NOLIMIT"), ("B", "30000")], "A");
    }

    #[test]
    fn a_class_that_is_gone_is_the_default_class_and_then_grace() {
        let mut set = set(&[("A", "60"), ("B", "90")]);
        assert_eq!(set.backup_rules(ClassId(2)).only_days, Limit::AtMost(90));
        assert_eq!(set.backup_rules(ClassId(9)).only_days, Limit::AtMost(60));
        set.classes[0].backup = None;
        assert_eq!(set.backup_rules(ClassId(9)).only_days, Limit::AtMost(30));
        assert_eq!(set.backup_rules(ClassId(9)).versions_deleted_max, Limit::Unlimited);
    }

    #[test]
    fn a_set_survives_its_text() {
        let mut set = set(&[("A", "NOLIMIT"), ("B", "90")]);
        set.classes[1].locked_until = Some(ServerTime(7));
        set.classes[1].archive = None;
        let text = serde_json::to_string(&set).expect("text");
        assert_eq!(serde_json::from_str::<PolicySet>(&text).expect("a set"), set);
        assert!(serde_json::from_str::<PolicySet>(&text.replace("90", "90000")).is_err());
    }
}
