//! The time until which an object store must lock the data of a locked class.
//!
//! Until the end of its lock, a class may be changed only to keep objects for longer. So each
//! version must be kept for at least the days of the class's rules; for an active version they
//! count from now. After the end of the lock, a version need not be kept. Limits on the number of
//! versions are left out: a version that is dropped by number stays locked until its day.

use model::{ClassId, ServerTime};

use crate::expiry::{archive_end, end};
use crate::{ManagementClass, PolicySet, RetentionStart};

/// Returns the time until which a version that is bound to `class` must be kept at least, or `None`
/// if no lock holds at `now`. `deactivated` is `None` for the active version.
pub fn version_lock(
    set: &PolicySet,
    class: ClassId,
    deactivated: Option<ServerTime>,
    now: ServerTime,
) -> Option<ServerTime> {
    let locked = locked(set, class, now)?;
    let rules = set.backup_rules(class);
    let days = if rules.extra_days.is_shorter_than(rules.only_days) {
        rules.extra_days
    } else {
        rules.only_days
    };
    within(locked, end(days, deactivated.unwrap_or(now)), now)
}

/// Returns the time until which an archive copy made at `created` must be kept at least, or `None`
/// if no lock holds at `now`. `event` is the time of the copy's event, if the event has happened.
pub fn archive_lock(
    set: &PolicySet,
    class: ClassId,
    (created, event): (ServerTime, Option<ServerTime>),
    now: ServerTime,
) -> Option<ServerTime> {
    let locked = locked(set, class, now)?;
    let rules = set.archive_rules(class);
    // An event that has not happened yet could happen now.
    let event = event.or((rules.starts == RetentionStart::Event).then_some(now));
    within(locked, archive_end(&rules, created, event), now)
}

fn locked(set: &PolicySet, class: ClassId, now: ServerTime) -> Option<ServerTime> {
    let class: &ManagementClass = set.class(class)?;
    class.locked_until.filter(|until| *until > now)
}

/// Returns the earlier of two times: `locked`, the end of the class's lock, and `ends`, where
/// `None` stands for never. Returns `None` if the earlier time is not after `now`.
fn within(locked: ServerTime, ends: Option<ServerTime>, now: ServerTime) -> Option<ServerTime> {
    Some(ends.map_or(locked, |ends| ends.min(locked))).filter(|until| *until > now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArchiveCopyGroup, BackupCopyGroup, Limit};

    const DAY: i64 = 86_400_000_000;
    const CLASS: ClassId = ClassId(1);

    fn day(days: i64) -> ServerTime {
        ServerTime(days * DAY)
    }

    fn set(extra: Limit, only: Limit, locked: Option<i64>) -> PolicySet {
        let mut set = PolicySet::standard(CLASS);
        let group = BackupCopyGroup { extra_days: extra, only_days: only, ..Default::default() };
        set.classes[0].backup = Some(group);
        set.classes[0].locked_until = locked.map(day);
        set
    }

    fn version(set: &PolicySet, deactivated: Option<i64>) -> Option<i64> {
        let until = version_lock(set, CLASS, deactivated.map(day), day(100));
        until.map(|until| until.0 / DAY)
    }

    #[test]
    fn a_version_stays_for_the_shorter_of_its_days() {
        let of = |extra, only| set(Limit::AtMost(extra), Limit::AtMost(only), Some(1000));
        assert_eq!(version(&of(30, 60), None), Some(130));
        assert_eq!(version(&of(60, 30), Some(95)), Some(125));
        assert_eq!(version(&of(30, 60), Some(70)), None, "its days are over");
        assert_eq!(version(&of(3000, 3000), None), Some(1000), "and no longer than the lock");
        let unlimited = set(Limit::Unlimited, Limit::Unlimited, Some(1000));
        assert_eq!(version(&unlimited, Some(10)), Some(1000));
    }

    #[test]
    fn what_is_not_locked_may_go() {
        let of = |locked| set(Limit::AtMost(30), Limit::AtMost(30), locked);
        assert_eq!(version(&of(None), None), None);
        assert_eq!(version(&of(Some(100)), None), None, "the lock is over");
        assert_eq!(version_lock(&of(Some(1000)), ClassId(2), None, day(100)), None);
    }

    #[test]
    fn an_archive_copy_stays_to_its_end() {
        let mut set = set(Limit::AtMost(1), Limit::AtMost(1), Some(1000));
        let mut until = |keep_days, starts, event: Option<i64>| {
            let group = ArchiveCopyGroup { keep_days, starts, minimum_days: 50 };
            set.classes[0].archive = Some(group);
            let until = archive_lock(&set, CLASS, (day(90), event.map(day)), day(100));
            until.map(|until| until.0 / DAY)
        };
        let (creation, event) = (RetentionStart::Creation, RetentionStart::Event);
        assert_eq!(until(Limit::AtMost(365), creation, None), Some(455));
        assert_eq!(until(Limit::AtMost(5), creation, None), None);
        assert_eq!(until(Limit::Unlimited, creation, None), Some(1000));
        assert_eq!(until(Limit::AtMost(10), event, None), Some(140), "RETMIN");
        assert_eq!(until(Limit::AtMost(200), event, None), Some(300), "as if the event were now");
        assert_eq!(until(Limit::AtMost(100), event, Some(95)), Some(195));
    }
}
