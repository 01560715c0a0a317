//! The lives of versions and packs: archives and deletion, expiration, reclamation, audit, object
//! locks, copies of the catalogue, and recovery of a server from such copies. The audit trail tells
//! of all that.

mod accelerator;
pub mod amounts;
pub mod archive;
pub mod audit;
pub mod audit_trail;
pub mod baselines;
pub mod catalog_check;
pub mod catalog_copy;
pub mod clock;
mod copy_retention;
pub mod expire;
pub(crate) mod images;
mod named_chunks;
pub mod object_lock;
pub mod reclaim;
pub mod records;
pub mod recovery;
pub mod tasks;
pub mod usage;
pub mod victims;
