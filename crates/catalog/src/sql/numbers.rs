//! Numbers of archives, deletions and baselines, which nodes see and give.
//!
//! The next number of a table would tell a node how many objects the others have made since its
//! last one. So a number is made of the time:
//!
//! ```text
//!   milliseconds since 1970 * 1000 + 0 to 999, by chance
//! ```
//!
//! 1. A number depends on the node's own objects, on the time and on chance, and on nothing else.
//! 2. The numbers of a node rise: if the time does not, the number follows the node's last one.
//! 3. No two objects of a table have the same number. That of a removed object comes again only by
//!    chance, and only if the clock shows the same millisecond again. Those that were counted
//!    before there was this rule stay as they are, and are less than all others.
//! 4. Until the year 2255 a number is below 2^53, so programs that keep numbers as floating point
//!    keep it exactly.

use model::{NodeId, ServerTime};

use super::{Sql, params};
use crate::CatalogError;

/// Count of the numbers that a millisecond has.
const SPAN: u64 = 1000;

/// Draws a number for a new row of `node` in a table. `insert` inserts the row with a number and
/// returns the count of inserted rows: 0 if another row has the number.
pub(super) fn draw(
    sql: &dyn Sql,
    (table, node): (&str, NodeId),
    now: ServerTime,
    insert: impl Fn(u64) -> Result<usize, CatalogError>,
) -> Result<u64, CatalogError> {
    let select = format!("SELECT max(number) FROM {table} WHERE node = ?");
    let last: Option<u64> = sql.one(&select, params![node.0], |row| row.get(0))?;
    let mut last = last.unwrap_or(0);
    loop {
        let number = drawn(last, now, chance());
        if insert(number)? > 0 {
            return Ok(number);
        }
        // Another row has the number: the next one is after it, so this comes to an end.
        last = number;
    }
}

fn chance() -> u64 {
    u64::from(u32::from_le_bytes(sys::entropy::bytes())) % SPAN
}

/// Returns the number of an object that is made at `now`. `last` is the last number of its node, 0
/// for none.
fn drawn(last: u64, now: ServerTime, chance: u64) -> u64 {
    assert!(chance < SPAN, "the numbers of a millisecond have an end");
    let begin = now.0.max(0).unsigned_abs() / SPAN * SPAN;
    begin.max(last.saturating_add(1)).saturating_add(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: ServerTime = ServerTime(1_796_000_017_123_456);

    #[test]
    fn a_number_is_of_its_millisecond() {
        assert_eq!(drawn(0, NOW, 0), 1_796_000_017_123_000);
        assert_eq!(drawn(17, NOW, 999), 1_796_000_017_123_999);
    }

    #[test]
    fn the_numbers_of_a_node_rise_whatever_the_clock_says() {
        let last = 1_796_000_017_123_700;
        for now in [NOW, ServerTime(0), ServerTime(-5), ServerTime(NOW.0 - 1_000_000)] {
            assert_eq!(drawn(last, now, 0), last + 1);
            assert_eq!(drawn(last, now, 999), last + 1000);
        }
        assert_eq!(drawn(0, ServerTime(-5), 0), 1, "0 is the number of no object");
    }
}
