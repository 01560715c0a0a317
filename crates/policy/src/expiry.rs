//! Decisions on the versions of an object that are no longer kept.
//!
//! Two limits hold at once, one on number and one on age, and a version is dropped at the first
//! limit that it reaches. The age of an inactive version counts from the moment it became inactive,
//! by the server's clock, in whole days of 24 hours. The active version is never dropped.

use model::ServerTime;

use crate::{ArchiveCopyGroup, BackupCopyGroup, Limit, RetentionStart};

const DAY_MICROS: i64 = 86_400_000_000;

/// Returns the indices of the inactive versions of an object that `rules` drop at `now`.
///
/// `deactivated` holds the times at which the versions became inactive, newest first. `exists` is
/// true if the object also has an active version. RETONLY applies to the newest version of an
/// object that is gone, RETEXTRA to all other versions. When the newest version is dropped, RETONLY
/// applies to the next older version.
pub fn dropped(
    rules: &BackupCopyGroup,
    exists: bool,
    deactivated: &[ServerTime],
    now: ServerTime,
) -> Vec<usize> {
    debug_assert!(deactivated.is_sorted_by(|newer, older| newer >= older), "newest first");
    let versions_max =
        if exists { rules.versions_existing_max } else { rules.versions_deleted_max };
    let mut kept = u64::from(exists);
    let mut dropped = Vec::new();
    for (rank, deactivated) in deactivated.iter().enumerate() {
        let days = if kept == 0 { rules.only_days } else { rules.extra_days };
        let has_room = match versions_max {
            Limit::Unlimited => true,
            Limit::AtMost(versions) => kept < u64::from(versions),
        };
        if has_room && stands(days, *deactivated, now) {
            kept += 1;
        } else {
            dropped.push(rank);
        }
    }
    dropped
}

/// Returns true if an object that is kept for `days` from the time `from` is still kept at `now`.
pub fn stands(days: Limit, from: ServerTime, now: ServerTime) -> bool {
    end(days, from).is_none_or(|end| now < end)
}

/// The end of `days` that begin at `from`; `None` if they never end.
pub(crate) fn end(days: Limit, from: ServerTime) -> Option<ServerTime> {
    match days {
        Limit::Unlimited => None,
        Limit::AtMost(days) => Some(after(from, days)),
    }
}

fn after(from: ServerTime, days: u16) -> ServerTime {
    ServerTime(from.0.saturating_add(i64::from(days) * DAY_MICROS))
}

/// Returns the time from which an archive copy made at `created` is no longer kept. Returns `None`
/// if the copy is kept for ever, or if it waits for an event that has not happened yet.
pub fn archive_end(
    rules: &ArchiveCopyGroup,
    created: ServerTime,
    event: Option<ServerTime>,
) -> Option<ServerTime> {
    let Limit::AtMost(keep_days) = rules.keep_days else { return None };
    match rules.starts {
        RetentionStart::Creation => Some(after(created, keep_days)),
        RetentionStart::Event => {
            Some(after(event?, keep_days).max(after(created, rules.minimum_days)))
        }
    }
}

/// The ages at which `rules` may drop a version, in days since the version became inactive.
pub fn ages(rules: &BackupCopyGroup) -> impl Iterator<Item = u16> {
    [rules.extra_days, rules.only_days].into_iter().filter_map(|limit| match limit {
        Limit::AtMost(days) => Some(days),
        Limit::Unlimited => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 100_000 * DAY_MICROS;

    /// Returns rules with the `limits` VEREXISTS, VERDELETED, RETEXTRA and RETONLY.
    fn rules(limits: [Limit; 4]) -> BackupCopyGroup {
        let [versions_existing_max, versions_deleted_max, extra_days, only_days] = limits;
        BackupCopyGroup {
            versions_existing_max,
            versions_deleted_max,
            extra_days,
            only_days,
            ..BackupCopyGroup::default()
        }
    }

    fn times(ages: &[i64]) -> Vec<ServerTime> {
        ages.iter().map(|age| ServerTime(NOW - age * DAY_MICROS)).collect()
    }

    /// Checks which versions are dropped. `limits` are VEREXISTS, VERDELETED, RETEXTRA and RETONLY.
    /// `ages` are the days since each version became inactive, newest first. An `A` before them
    /// stands for an active version.
    #[track_caller]
    fn check(limits: &str, ages: &str, expected: &[usize]) {
        let limits: Vec<Limit> =
            limits.split(' ').map(|limit| limit.parse().expect("a limit")).collect();
        let rules = rules(limits.try_into().expect("four limits"));
        let exists = ages.starts_with('A');
        let ages = ages.trim_start_matches('A').split_whitespace();
        let ages: Vec<i64> = ages.map(|age| age.parse().expect("days")).collect();
        let dropped = dropped(&rules, exists, &times(&ages), ServerTime(NOW));
        assert_eq!(dropped, expected);
    }

    #[test]
    fn an_inactive_version_lives_its_days_to_the_last_moment() {
        check("NOLIMIT NOLIMIT 30 60", "A 0 29", &[]);
        check("NOLIMIT NOLIMIT 30 60", "A 0 30", &[1]);
        check("NOLIMIT NOLIMIT 0 0", "A 0", &[0]);
        check("NOLIMIT NOLIMIT NOLIMIT 0", "A 0 30000", &[]);
    }

    #[test]
    fn the_last_version_of_a_deleted_object_is_kept_longer() {
        check("NOLIMIT NOLIMIT 30 60", "10 20", &[]);
        check("NOLIMIT NOLIMIT 30 60", "59 70", &[1]);
        check("NOLIMIT NOLIMIT 30 60", "60", &[0]);
    }

    #[test]
    fn or_shorter_if_the_rules_say_so() {
        check("NOLIMIT NOLIMIT 60 30", "40 50", &[0, 1]);
        check("NOLIMIT NOLIMIT 60 30", "20 50", &[]);
    }

    #[test]
    fn the_number_counts_the_active_version_while_there_is_one() {
        check("3 1 NOLIMIT NOLIMIT", "A 1 2 3", &[2]);
        check("3 1 NOLIMIT NOLIMIT", "1 2 3", &[1, 2]);
        check("1 0 NOLIMIT NOLIMIT", "A 1", &[0]);
        check("0 0 NOLIMIT NOLIMIT", "A 1", &[0]);
        check("1 0 NOLIMIT NOLIMIT", "1", &[0]);
    }

    #[test]
    fn both_limits_hold() {
        check("3 3 30 60", "A 1 40", &[1]);
        check("2 3 30 60", "A 1 2", &[1]);
        check("9 2 30 60", "40 50 1000", &[1, 2]);
    }

    #[test]
    fn archive_copies_end_by_their_class_and_their_event() {
        let day = |days: i64| ServerTime(days * DAY_MICROS);
        let end = |keep_days, starts, event: Option<i64>| {
            let rules = ArchiveCopyGroup { keep_days, starts, minimum_days: 50 };
            archive_end(&rules, day(100), event.map(day)).map(|end| end.0 / DAY_MICROS)
        };
        let (creation, event) = (RetentionStart::Creation, RetentionStart::Event);
        assert_eq!(end(Limit::AtMost(10), creation, Some(1000)), Some(110));
        assert_eq!(end(Limit::Unlimited, creation, None), None);
        assert_eq!(end(Limit::AtMost(10), event, None), None);
        assert_eq!(end(Limit::AtMost(10), event, Some(101)), Some(150));
        assert_eq!(end(Limit::AtMost(10), event, Some(200)), Some(210));
        assert_eq!(end(Limit::Unlimited, event, Some(200)), None);
    }

    fn limit() -> impl Strategy<Value = Limit> {
        prop_oneof![Just(Limit::Unlimited), (0_u16..12).prop_map(Limit::AtMost)]
    }

    proptest! {
        /// A version that is dropped now is also dropped later. A version that is kept now is also
        /// kept with a longer limit.
        #[test]
        fn less_is_kept_later_and_more_by_longer_rules(
            limits in [limit(), limit(), limit(), limit()],
            mut ages in proptest::collection::vec(0_i64..15, 0..6),
            exists: bool,
            later in 0_i64..15,
        ) {
            ages.sort_unstable();
            let (rules, times) = (rules(limits), times(&ages));
            let drop = |rules: &BackupCopyGroup, days: i64| -> Vec<usize> {
                dropped(rules, exists, &times, ServerTime(NOW + days * DAY_MICROS))
            };
            let now = drop(&rules, 0);
            let then = drop(&rules, later);
            prop_assert!(now.iter().all(|rank| then.contains(rank)));
            let longer = BackupCopyGroup { extra_days: Limit::Unlimited, ..rules };
            prop_assert!(drop(&longer, 0).iter().all(|rank| now.contains(rank)));
        }
    }
}
