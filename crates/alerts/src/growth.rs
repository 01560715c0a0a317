//! When a pool will be full, if it grows as it did.

/// Minimum number of days that tell how a pool grows.
const DAYS_MIN: i64 = 3;

/// Returns the number of days after which `bytes_max` is reached, if the pool grows as it did from
/// the first of `days` (their numbers, with bytes) to today. `None` if that is unknown, or never.
pub(crate) fn days_left(
    days: &[(i64, u64)],
    (today, bytes): (i64, u64),
    bytes_max: u64,
) -> Option<u64> {
    let (first, before) = *days.first()?;
    let span = today - first;
    if span < DAYS_MIN || bytes_max == 0 {
        return None;
    }
    let grown = bytes.checked_sub(before).filter(|grown| *grown > 0)?;
    let room = bytes_max.saturating_sub(bytes);
    let left = u128::from(room) * u128::try_from(span).ok()? / u128::from(grown);
    u64::try_from(left).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_goes_on_as_it_was() {
        let days = [(100, 500), (105, 900)];
        assert_eq!(days_left(&days, (110, 1_000), 2_000), Some(20));
        assert_eq!(days_left(&days, (110, 1_000), 1_000), Some(0));
        assert_eq!(days_left(&days, (110, 1_000), 900), Some(0));
    }

    #[test]
    fn a_pool_that_does_not_grow_is_never_full() {
        assert_eq!(days_left(&[(100, 500)], (110, 500), 2_000), None);
        assert_eq!(days_left(&[(100, 500)], (110, 400), 2_000), None);
    }

    #[test]
    fn too_little_is_known_of_a_new_pool() {
        assert_eq!(days_left(&[], (110, 500), 2_000), None);
        assert_eq!(days_left(&[(108, 1)], (110, 500), 2_000), None);
        assert_eq!(days_left(&[(100, 1)], (110, 500), 0), None);
        assert_eq!(days_left(&[(100, 1)], (103, u64::MAX), u64::MAX), Some(0));
    }
}
