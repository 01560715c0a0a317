//! The server: sessions of nodes, administration, and the composition of catalogue, pools and
//! index.
//!
//! [`init`] makes a server in a folder, [`run`] serves from it. One process serves a folder; what
//! it needs to start again after any end is in there: configuration, keys, catalogue, packs. Nodes
//! come in over TLS with the certificate that the server gave them; administrators over a socket in
//! the folder, guarded by its permissions.

mod admin;
mod archive;
mod audit;
mod authority;
mod backup;
mod buckets;
mod catalog_copy;
mod config;
mod core;
mod database;
mod domains;
mod enrol;
mod expire;
mod fleet;
mod index_share;
mod node;
mod object_lock;
mod pools;
mod reclaim;
mod records;
mod recovery;
mod refusal;
mod resolve;
mod restore;
mod run;
#[cfg(test)]
mod samples;
mod secrets;
mod select;
mod store;
mod tasks;
mod tls;
mod victims;
mod volumes;

pub use authority::AuthorityError;
pub use config::{Config, ConfigError, InitError, init};
pub use database::move_catalog;
pub use pool::use_variables;
pub use recovery::{Rebuilt, RecoveryError, export, join, rebuild, recover};
pub use run::{Ready, RunError, run};
pub use victims::{Victim, Victims};

/// Threads that may block, at most: a session holds one or two for as long as it lasts.
pub const BLOCKING_THREADS_MAX: usize = 4096;

/// The administration socket's name in the server's folder.
pub const ADMIN_SOCKET: &str = "admin.sock";
