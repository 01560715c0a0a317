//! The spread of starts: many nodes with one schedule do not all begin at the same moment.

use model::ServerTime;

use super::timing::{Occurrence, Timing};

/// Spread of a schedule whose definition names none, in percent of the window: TSM's default.
pub const SPREAD_PERCENT_DEFAULT: u8 = 25;

/// Returns the moment in the window at which `node` starts. It depends on its arguments alone, so
/// that the node finds it without the server, and the same again after a restart.
pub fn start_of(timing: &Timing, occurrence: Occurrence, node: &str) -> ServerTime {
    let (opens, closes) = (occurrence.opens.0, occurrence.closes.0);
    let width = (closes - opens) / 100 * i64::from(timing.spread_percent.min(100));
    if width <= 0 {
        return occurrence.opens;
    }
    let hash = fnv(node.as_bytes(), &occurrence.planned.0.to_le_bytes());
    let offset = i64::try_from(hash % width.unsigned_abs()).unwrap_or(0);
    ServerTime((opens + offset).min(closes - 1))
}

/// The hash FNV-1a of 64 bits of two texts, with a last step that spreads its high bits.
fn fnv(first: &[u8], second: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in first.iter().chain([&0]).chain(second) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 32)
}
