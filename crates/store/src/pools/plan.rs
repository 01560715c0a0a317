//! Choice of the packs that leave a pool for the next pool. The code is pure.

use model::PackNumber;

/// A pack in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PoolPack {
    pub(super) pack: PackNumber,
    pub(super) bytes: u64,
    /// Days since the pack came into the pool.
    pub(super) days: u64,
}

/// Use of a pool, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Occupancy {
    pub(super) used: u64,
    /// Capacity of the pool; 0 for a pool without a limit.
    pub(super) max: u64,
}

/// Marks that decide when packs leave a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marks {
    /// Share of the capacity above which packs leave.
    pub(super) high_percent: u8,
    /// Share of the capacity at which packs stop leaving the pool.
    pub(super) low_percent: u8,
    /// Minimum number of days that a pack stays, unless the pool would stay above its high mark.
    pub(super) delay_days: u16,
}

impl Marks {
    /// Returns true if the pool is above its high mark.
    pub(super) fn is_passed(self, occupancy: Occupancy) -> bool {
        occupancy.max > 0 && occupancy.used > share(occupancy.max, self.high_percent)
    }
}

fn share(max: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(max) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Returns the packs that are to leave the pool, in this order, each with its size in bytes. Packs
/// that have stayed for the delay leave first, and older packs before newer packs.
pub(super) fn leaving(
    candidates: &[PoolPack],
    occupancy: Occupancy,
    marks: Marks,
) -> Vec<(PackNumber, u64)> {
    if !marks.is_passed(occupancy) {
        return Vec::new();
    }
    let Occupancy { used, max } = occupancy;
    let (high, low) = (share(max, marks.high_percent), share(max, marks.low_percent));
    let is_old = |candidate: &PoolPack| candidate.days >= u64::from(marks.delay_days);
    let mut order: Vec<&PoolPack> = candidates.iter().collect();
    order.sort_by_key(|candidate| (!is_old(candidate), candidate.pack));
    let mut left = used;
    let mut leaving = Vec::new();
    for candidate in order {
        let aim = if is_old(candidate) { low } else { high };
        if left <= aim {
            break;
        }
        left = left.saturating_sub(candidate.bytes);
        leaving.push((candidate.pack, candidate.bytes));
    }
    debug_assert!(leaving.len() <= candidates.len(), "each pack leaves once");
    leaving
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns ten packs of ten bytes each. The first pack is the oldest, with nine days.
    fn pool_packs() -> Vec<PoolPack> {
        let candidate =
            |number| PoolPack { pack: PackNumber(number), bytes: 10, days: 10 - number };
        (1..=10).map(candidate).collect()
    }

    #[track_caller]
    fn check(max: u64, high_percent: u8, low_percent: u8, delay_days: u16, expected: u64) {
        let marks = Marks { high_percent, low_percent, delay_days };
        let packs: Vec<u64> = leaving(&pool_packs(), Occupancy { used: 100, max }, marks)
            .iter()
            .map(|(pack, _)| pack.0)
            .collect();
        assert_eq!(packs, (1..=expected).collect::<Vec<_>>());
    }

    #[test]
    fn packs_leave_above_the_high_mark_until_the_low_one() {
        check(200, 90, 70, 0, 0);
        check(100, 100, 70, 0, 0);
        check(100, 90, 70, 0, 3);
        check(100, 90, 75, 0, 3);
        check(100, 0, 0, 0, 10);
    }

    #[test]
    fn the_delay_holds_as_long_as_the_pool_does_not_run_over() {
        check(100, 90, 0, 7, 3);
        check(100, 90, 0, 100, 1);
        check(100, 50, 0, 8, 5);
    }
}
