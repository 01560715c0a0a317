//! Review of the draft of a policy set: its differences from the active set, and the conditions on
//! which it may become the active set.

use std::fmt;

use model::{ClassId, ServerTime};

use crate::{ArchiveCopyGroup, BackupCopyGroup, Limit, ManagementClass, PolicySet};

/// Lines of a class with a meaning of their own: its name, and the time from which days count.
const NAME: &str = "NAME";
const RETENTION_START: &str = "RETINIT";

/// One difference between the active set and the draft.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Name of the class; `None` for a rule of the whole set.
    pub class: Option<String>,
    /// TSM's name of the rule that differs.
    pub what: &'static str,
    /// Old value as text; empty if there was none.
    pub from: String,
    pub to: String,
    /// True if versions or archive copies may be dropped earlier than before.
    pub keeps_less: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let class = self.class.as_deref().unwrap_or("(set)");
        write!(f, "{class} {}: {} -> {}", self.what, none(&self.from), none(&self.to))
    }
}

impl Difference {
    /// Returns true if the draft keeps some objects for less time than the active set, or may do
    /// so: a rule is shorter, days begin at another time, or a class or its name is gone.
    pub fn shortens(&self) -> bool {
        let is_promise = matches!(self.what, NAME | RETENTION_START);
        self.keeps_less || is_promise && !self.from.is_empty()
    }
}

/// Reason why a draft cannot become the active set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DraftFault {
    #[error("the draft has no class; add one with 'policy class NAME'")]
    NoClass,
    #[error("the draft's default class is gone; choose one with 'policy default NAME'")]
    NoDefault,
    #[error("class {class} is locked until {until}: {what} may not become shorter")]
    Shortens { class: String, what: &'static str, until: String },
    #[error("class {class} is locked until {until}: the class may not be removed")]
    Removes { class: String, until: String },
    #[error("class {class} is locked until {until}: the lock may not be shortened")]
    Unlocks { class: String, until: String },
}

/// Lists the differences of `draft` from `active`.
pub fn differences(active: &PolicySet, draft: &PolicySet) -> Vec<Difference> {
    let mut found = Vec::new();
    let default = |set: &PolicySet| set.class(set.default_class).map(|class| class.name.clone());
    let whole = [
        (
            "DEFAULT",
            default(active).unwrap_or_default(),
            default(draft).unwrap_or_default(),
            default_keeps_less(active, draft),
        ),
        (
            "BACKRETENTION",
            active.backup_grace_days.to_string(),
            draft.backup_grace_days.to_string(),
            draft.backup_grace_days < active.backup_grace_days,
        ),
        (
            "ARCHRETENTION",
            active.archive_grace_days.to_string(),
            draft.archive_grace_days.to_string(),
            draft.archive_grace_days < active.archive_grace_days,
        ),
    ];
    for (what, from, to, keeps_less) in whole {
        if from != to {
            found.push(Difference { class: None, what, from, to, keeps_less });
        }
    }
    for class in &active.classes {
        compare(Some(class), draft.class(class.id), &mut found);
    }
    for class in &draft.classes {
        if active.class(class.id).is_none() {
            compare(None, Some(class), &mut found);
        }
    }
    found
}

/// Lists the rules that keep less for a node that moves from a domain with the set `from` to a
/// domain with the set `to`.
///
/// The classes of each domain have numbers of their own, so the default class of the new domain
/// decides about all versions at first. Objects get the rules of the class of the same name with
/// the next backup.
pub fn losses(from: &PolicySet, to: &PolicySet) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    for class in &from.classes {
        let before = rules_as_class(from, class.id, &class.name);
        let later = to.named(&class.name).map(|class| class.id);
        for id in [Some(class.id), later].into_iter().flatten() {
            let mut differences = Vec::new();
            let after = rules_as_class(to, id, &class.name);
            compare(Some(&before), Some(&after), &mut differences);
            differences.retain(|one| one.shortens() && !found.contains(one));
            found.append(&mut differences);
        }
    }
    found
}

/// Returns the rules by which the set treats objects that are bound to the class `id`.
fn rules_as_class(set: &PolicySet, id: ClassId, name: &str) -> ManagementClass {
    let (backup, archive) = (Some(set.backup_rules(id)), Some(set.archive_rules(id)));
    ManagementClass { backup, archive, ..ManagementClass::new(id, name) }
}

/// Returns true if the default class of the draft keeps less than the one of the active set:
/// objects without a rule of their own are bound to the default class.
fn default_keeps_less(active: &PolicySet, draft: &PolicySet) -> bool {
    let mut found = Vec::new();
    let default = |set: &PolicySet| set.class(set.default_class).cloned();
    compare(default(active).as_ref(), default(draft).as_ref(), &mut found);
    found.iter().any(|difference| difference.keeps_less)
}

/// One line of a class.
#[derive(Clone)]
struct Line {
    name: &'static str,
    value: String,
    /// The value as a limit; `None` for a value that is no limit.
    limit: Option<Limit>,
}

impl Line {
    fn word(name: &'static str, value: String) -> Self {
        Self { name, value, limit: None }
    }

    fn limit(name: &'static str, limit: Limit) -> Self {
        Self { name, value: limit.to_string(), limit: Some(limit) }
    }
}

fn lines(class: Option<&ManagementClass>) -> Vec<Line> {
    let Some(class) = class else { return Vec::new() };
    let mut lines = vec![Line::word(NAME, class.name.clone())];
    if let Some(group) = class.backup {
        lines.extend(group.limits().map(|(name, limit)| Line::limit(name, limit)));
        let BackupCopyGroup { mode, frequency_days, serialization, .. } = group;
        lines.push(Line::word("MODE", mode.to_string().to_uppercase()));
        lines.push(Line::word("FREQUENCY", frequency_days.to_string()));
        lines.push(Line::word("SERIALIZATION", serialization.to_string().to_uppercase()));
    }
    if let Some(group) = class.archive {
        let ArchiveCopyGroup { keep_days, starts, minimum_days } = group;
        lines.push(Line::limit("RETVER", keep_days));
        lines.push(Line::word(RETENTION_START, starts.to_string().to_uppercase()));
        lines.push(Line::limit("RETMIN", Limit::AtMost(minimum_days)));
    }
    lines
}

fn compare(
    from: Option<&ManagementClass>,
    to: Option<&ManagementClass>,
    found: &mut Vec<Difference>,
) {
    let class = to.or(from).map(|class| class.name.clone());
    let (before, after) = (lines(from), lines(to));
    let of = |lines: &[Line], what: &str| lines.iter().find(|line| line.name == what).cloned();
    let mut whats: Vec<&'static str> = before.iter().map(|line| line.name).collect();
    whats.extend(after.iter().map(|line| line.name).filter(|what| of(&before, what).is_none()));
    for what in whats {
        let (old, new) = (of(&before, what), of(&after, what));
        let shorter = |old: &Line, new: &Line| match (old.limit, new.limit) {
            (Some(old), Some(new)) => new.is_shorter_than(old),
            _ => false,
        };
        let keeps_less = match (&old, &new) {
            (Some(old), Some(new)) => shorter(old, new),
            // Versions of a removed group get the rules of the default class, or the days of grace.
            (Some(old), None) => old.limit.is_some(),
            (None, _) => false,
        };
        let text = |line: Option<Line>| line.map(|line| line.value).unwrap_or_default();
        let (from, to) = (text(old), text(new));
        if from != to {
            found.push(Difference { class: class.clone(), what, from, to, keeps_less });
        }
    }
    let lock = |class: Option<&ManagementClass>| {
        class.and_then(|class| class.locked_until).map(day).unwrap_or_default()
    };
    let (from, to) = (lock(from), lock(to));
    if from != to {
        found.push(Difference { class, what: "LOCKED UNTIL", from, to, keeps_less: false });
    }
}

/// Succeeds if `draft` may replace `active` at `now`: the draft has a default class, and every
/// locked class keeps objects for at least as long as it promised.
pub fn admit(active: &PolicySet, draft: &PolicySet, now: ServerTime) -> Result<(), DraftFault> {
    if draft.classes.is_empty() {
        return Err(DraftFault::NoClass);
    }
    if draft.class(draft.default_class).is_none() {
        return Err(DraftFault::NoDefault);
    }
    let locked = active.classes.iter().filter_map(|class| {
        let until = class.locked_until.filter(|until| *until > now)?;
        Some((class, until))
    });
    for (class, until) in locked {
        admit_locked(class, draft.class(class.id), until)?;
    }
    Ok(())
}

fn admit_locked(
    class: &ManagementClass,
    draft: Option<&ManagementClass>,
    until: ServerTime,
) -> Result<(), DraftFault> {
    let (name, shown) = (class.name.clone(), day(until));
    let Some(draft) = draft else { return Err(DraftFault::Removes { class: name, until: shown }) };
    if draft.locked_until.is_none_or(|new| new < until) {
        return Err(DraftFault::Unlocks { class: name, until: shown });
    }
    let mut found = Vec::new();
    compare(Some(class), Some(draft), &mut found);
    // RETINIT may change in neither direction. If the days began with an event instead of the
    // creation, a user could report the event at once. If the days began with the creation instead
    // of an event, the copy would not wait for the event.
    let is_shorter =
        |difference: &&Difference| difference.keeps_less || difference.what == RETENTION_START;
    match found.iter().find(is_shorter) {
        Some(difference) => {
            Err(DraftFault::Shortens { class: name, what: difference.what, until: shown })
        }
        None => Ok(()),
    }
}

/// Returns the date of `time` in UTC, in the form 2026-11-21.
///
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
pub fn day(time: ServerTime) -> String {
    let days = time.secs().div_euclid(86_400) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RetentionStart;

    fn active() -> PolicySet {
        let mut set = PolicySet::standard(ClassId(1));
        set.put(ManagementClass {
            locked_until: Some(ServerTime::from_secs(86_400 * 10)),
            ..ManagementClass::new(ClassId(2), "LEGAL")
        });
        set
    }

    fn legal(set: &mut PolicySet) -> &mut ManagementClass {
        set.classes.iter_mut().find(|class| class.name == "LEGAL").expect("the class")
    }

    #[track_caller]
    fn check(change: impl Fn(&mut PolicySet), at_secs: i64, expected: &str) {
        let mut draft = active();
        change(&mut draft);
        let said = match admit(&active(), &draft, ServerTime::from_secs(at_secs)) {
            Ok(()) => String::new(),
            Err(fault) => fault.to_string(),
        };
        assert_eq!(said, expected);
    }

    const LATER: i64 = 86_400 * 11;

    #[test]
    fn a_locked_class_may_be_lengthened() {
        check(|_| (), 0, "");
        check(|set| legal(set).backup.as_mut().unwrap().extra_days = Limit::Unlimited, 0, "");
        check(|set| legal(set).locked_until = Some(ServerTime::from_secs(LATER)), 0, "");
    }

    #[test]
    fn a_locked_class_may_not_be_shortened_in_any_way() {
        let said = "class LEGAL is locked until 1970-01-11: RETEXTRA may not become shorter";
        let shorten = |set: &mut PolicySet| {
            legal(set).backup.as_mut().unwrap().extra_days = Limit::AtMost(29);
        };
        check(shorten, 0, said);
        check(shorten, LATER, "");
        check(
            |set| legal(set).backup = None,
            0,
            "class LEGAL is locked until 1970-01-11: VEREXISTS may not become shorter",
        );
        check(
            |set| legal(set).archive.as_mut().unwrap().starts = RetentionStart::Event,
            0,
            "class LEGAL is locked until 1970-01-11: RETINIT may not become shorter",
        );
    }

    #[test]
    fn a_locked_class_stays_and_stays_locked() {
        let remove = |set: &mut PolicySet| set.classes.retain(|class| class.name != "LEGAL");
        check(remove, 0, "class LEGAL is locked until 1970-01-11: the class may not be removed");
        check(remove, LATER, "");
        check(
            |set| legal(set).locked_until = None,
            0,
            "class LEGAL is locked until 1970-01-11: the lock may not be shortened",
        );
    }

    #[test]
    fn a_set_needs_its_default_class() {
        let remove = |set: &mut PolicySet| set.classes.retain(|class| class.name != "STANDARD");
        let said = "the draft's default class is gone; choose one with 'policy default NAME'";
        check(remove, 0, said);
        let said = "the draft has no class; add one with 'policy class NAME'";
        check(|set| set.classes.clear(), 0, said);
    }

    #[test]
    fn differences_name_what_was_and_what_will_be() {
        let mut draft = active();
        draft.backup_grace_days = 7;
        legal(&mut draft).backup.as_mut().unwrap().extra_days = Limit::AtMost(29);
        draft.put(ManagementClass {
            archive: None,
            backup: None,
            ..ManagementClass::new(ClassId(3), "NEW")
        });
        let found = differences(&active(), &draft);
        let lines: Vec<String> = found.iter().map(Difference::to_string).collect();
        assert_eq!(
            lines,
            ["(set) BACKRETENTION: 30 -> 7", "LEGAL RETEXTRA: 30 -> 29", "NEW NAME: - -> NEW"]
        );
        assert_eq!(found.iter().map(|one| one.keeps_less).collect::<Vec<_>>(), [true, true, false]);
    }

    #[track_caller]
    fn shortens(change: impl Fn(&mut PolicySet)) -> bool {
        let mut draft = active();
        change(&mut draft);
        let found = differences(&active(), &draft);
        assert!(!found.is_empty(), "the draft differs");
        found.iter().any(Difference::shortens)
    }

    #[test]
    fn what_shortens_is_told_from_what_does_not() {
        let short = || {
            let mut class = ManagementClass::new(ClassId(3), "SHORT");
            class.backup.as_mut().unwrap().extra_days = Limit::AtMost(1);
            class
        };
        assert!(!shortens(|set| set.put(short())), "nothing is bound to a new class");
        assert!(!shortens(|set| legal(set).backup.as_mut().unwrap().extra_days = Limit::Unlimited));
        assert!(shortens(|set| legal(set).archive = None));
        assert!(shortens(|set| legal(set).name = "LAWFUL".to_owned()));
        assert!(shortens(|set| set.classes.retain(|class| class.name != "LEGAL")));
        assert!(shortens(|set| set.archive_grace_days = 1));
        assert!(shortens(|set| {
            legal(set).archive.as_mut().unwrap().starts = RetentionStart::Event;
        }));
        assert!(!shortens(|set| set.default_class = ClassId(2)), "both classes keep the same");
        assert!(shortens(|set| {
            set.put(short());
            set.default_class = ClassId(3);
        }));
    }

    /// Lists what is lost by a move to another domain, whose set differs by `change`.
    #[track_caller]
    fn check_losses(change: impl Fn(&mut PolicySet), expected: &[&str]) {
        let mut from = PolicySet::standard(ClassId(1));
        let mut legal = ManagementClass::new(ClassId(2), "LEGAL");
        legal.backup.as_mut().unwrap().extra_days = Limit::AtMost(300);
        from.put(legal.clone());
        let mut to = PolicySet::standard(ClassId(11));
        let default = to.classes[0].backup.as_mut().unwrap();
        default.extra_days = Limit::Unlimited;
        to.put(ManagementClass { id: ClassId(12), ..legal });
        change(&mut to);
        let found: Vec<String> = losses(&from, &to).iter().map(Difference::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_move_loses_what_the_default_class_or_the_class_of_the_name_keeps_less() {
        check_losses(|_| (), &[]);
        check_losses(|set| set.classes.retain(|class| class.name != "LEGAL"), &[]);
        check_losses(
            |set| {
                set.classes[0].backup.as_mut().unwrap().extra_days = Limit::AtMost(299);
            },
            &["LEGAL RETEXTRA: 300 -> 299"],
        );
        check_losses(
            |set| {
                set.classes[1].backup.as_mut().unwrap().extra_days = Limit::AtMost(29);
            },
            &["LEGAL RETEXTRA: 300 -> 29", "STANDARD RETEXTRA: 30 -> 29"],
        );
        check_losses(|set| set.classes[1].archive = None, &[]);
        check_losses(
            |set| {
                set.classes[1].archive = None;
                set.archive_grace_days = 7;
            },
            &["LEGAL RETVER: 365 -> 7", "STANDARD RETVER: 365 -> 7"],
        );
        check_losses(
            |set| set.classes[1].archive.as_mut().unwrap().starts = RetentionStart::Event,
            &["LEGAL RETINIT: CREATION -> EVENT", "STANDARD RETINIT: CREATION -> EVENT"],
        );
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (secs, shown) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (-86_400, "1969-12-31")]
        {
            assert_eq!(day(ServerTime::from_secs(secs)), shown);
        }
    }
}
