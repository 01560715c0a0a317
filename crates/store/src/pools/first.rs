//! The first pool of a server, which `server.toml` names.

use catalog::{Collocation, PoolRow};
use model::PoolId;

use crate::folder::config::Config;

/// Number of the pool that `server.toml` names.
pub const FIRST: PoolId = PoolId(1);

const FIRST_NAME: &str = "PRIMARY";

const HIGH_PERCENT: u8 = 90;

const LOW_PERCENT: u8 = 70;

const RECLAIM_PERCENT: u8 = 60;

/// Returns the row of the first pool in a new catalogue. Each call chooses a new mark.
pub(crate) fn first_row(config: &Config) -> PoolRow {
    PoolRow {
        id: FIRST,
        name: FIRST_NAME.to_owned(),
        url: config.pool.clone(),
        is_copy: false,
        mark: sys::entropy::bytes(),
        next: None,
        capacity_bytes: None,
        high_percent: HIGH_PERCENT,
        low_percent: LOW_PERCENT,
        delay_days: 0,
        collocation: Collocation::No,
        reclaim_percent: RECLAIM_PERCENT,
        reuse_delay_days: 0,
    }
}
