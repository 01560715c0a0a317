//! The guard against mass expiry: an unmounted disk is not a deletion.
//!
//! A backup deactivates objects that it does not find. When most of the objects of earlier backups
//! are missing at once, a missing mount is the likelier reason. Then the backup deactivates none of
//! them and warns.

/// Minimum number of missing objects for the guard to take effect: small folders are emptied every
/// day.
pub const GUARDED_COUNT_MIN: u64 = 20;

/// Returns true if a backup must refuse to deactivate `deleted` objects while `kept` of the objects
/// that were backed up before still exist. Objects that are new in this run count as neither.
pub fn refuses(deleted: u64, kept: u64) -> bool {
    deleted >= GUARDED_COUNT_MIN && deleted > kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_deletions_are_believed() {
        assert!(!refuses(0, 0));
        assert!(!refuses(GUARDED_COUNT_MIN - 1, 0));
        assert!(refuses(GUARDED_COUNT_MIN, 0));
    }

    #[test]
    fn half_may_go_and_one_more_may_not() {
        assert!(!refuses(500, 500));
        assert!(refuses(501, 500));
        assert!(!refuses(500, 501));
    }

    #[test]
    fn the_minimum_and_the_half_hold_together() {
        assert!(!refuses(GUARDED_COUNT_MIN, GUARDED_COUNT_MIN));
        assert!(refuses(GUARDED_COUNT_MIN, GUARDED_COUNT_MIN - 1));
        assert!(!refuses(GUARDED_COUNT_MIN - 1, GUARDED_COUNT_MIN - 2));
    }

    #[test]
    fn an_emptied_filespace_is_refused_at_any_size() {
        assert!(refuses(u64::MAX, 0));
        assert!(refuses(u64::MAX, u64::MAX - 1));
        assert!(!refuses(u64::MAX, u64::MAX));
    }
}
