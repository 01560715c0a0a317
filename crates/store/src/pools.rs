//! Pools: an administrator makes and changes them; the server copies, drains and repairs their
//! packs.
//!
//! ```text
//!   new packs -> first pool --(high mark, delay)--> next pool -> ...    primary: each pack in one
//!                    \_____________ copied ______________/
//!                                     v
//!                               copy pools                              second copies of all
//! ```
//!
//! A pack keeps its number in every pool, and a place names a pack, not a pool. So pages and
//! versions are not changed when packs move. Only one run of [`tend`], [`copy`], [`drain`] or
//! [`repair`] is active at a time.
//!
//! Crash rule: a pack is written under another name, made durable, and only then renamed. So no
//! pool has an incomplete pack.

pub mod buckets;
pub(crate) mod changes;
pub(crate) mod first;
pub(crate) mod list_file;
mod lookup;
mod lost;
pub(crate) mod outcome;
pub(crate) mod place;
mod plan;
mod renewal;
pub(crate) mod tend;

pub use changes::{
    NewPool, PoolChange, PoolSettings, PoolSummary, add, change, filler, follow, list, reload,
    remove, report_missing,
};
pub use first::FIRST;
pub use list_file::pool_folders;
pub use outcome::{Listener, Outcome};
pub use renewal::drain_anew;
pub(crate) use tend::ends;
pub use tend::{VolumeWork, copy, drain, refresh, repair, tend, tend_volumes};
