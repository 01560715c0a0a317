//! Storage pools.

use model::PoolId;

use crate::CatalogError;

/// The packs that may share a volume of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collocation {
    /// Packs of all nodes.
    No,
    /// Packs of one group of nodes.
    Group,
    /// Packs of one node.
    Node,
}

/// A storage pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRow {
    pub id: PoolId,
    pub name: String,
    /// Place of the pool, as in `server.toml`.
    pub url: String,
    /// True if the pool holds second copies.
    pub is_copy: bool,
    /// Identity that is written into the pool's folder.
    pub mark: [u8; 16],
    /// The pool to which the packs are drained.
    pub next: Option<PoolId>,
    pub capacity_bytes: Option<u64>,
    /// Occupancy in per cent at which a drain to the next pool begins.
    pub high_percent: u8,
    /// Occupancy in per cent at which the drain ends.
    pub low_percent: u8,
    /// Number of days for which packs stay before they are drained, unless the pool would run full.
    pub delay_days: u16,
    pub collocation: Collocation,
    /// Dead part of a full volume's data, in per cent, at which the volume is reclaimed.
    pub reclaim_percent: u8,
    /// Number of days after which an emptied volume may be written again.
    pub reuse_delay_days: u16,
}

/// The storage pools.
pub trait Pools {
    /// All pools, in the order in which they were made.
    fn pools(&self) -> Result<Vec<PoolRow>, CatalogError>;

    /// Makes a pool and returns its number; the number in `pool` is not used. Fails with `Exists`
    /// for a known name.
    fn add_pool(&self, pool: &PoolRow) -> Result<PoolId, CatalogError>;

    /// Replaces the row with the same number. Fails with `NotFound`.
    fn change_pool(&self, pool: &PoolRow) -> Result<(), CatalogError>;

    /// Removes a pool, and the rows that say where its packs lie on volumes. No pool may have it as
    /// its next pool. The volumes stay as they are. Fails with `NotFound`.
    fn remove_pool(&self, pool: PoolId) -> Result<(), CatalogError>;
}
