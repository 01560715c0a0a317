//! The store: what the server knows and does without a network.
//!
//! [`Store`] holds catalogue, pools, volumes and chunk index together. The other modules work on
//! it:
//!
//! | module | work |
//! |---|---|
//! | [`intake`] | commits of backups: quanta, changes of pages, transactions |
//! | [`selection`] | choosing versions and reading their data |
//! | [`lifecycle`] | expiration, reclamation, audit, archives, locks, catalogue copies, recovery |
//! | [`pools`] | places of packs; copying, draining, repairing |
//! | [`volumes`] | libraries and volumes; reading packs from them |
//! | `shelving` | writing packs to volumes, emptying and importing volumes |
//! | [`fleet`] | several servers of one catalogue |
//! | [`domains`] | policy domains, drafts, locks |
//! | [`nodes`], [`contacts`] | registered nodes, and when they called last |
//! | [`readers`] | nodes that read what another node has stored, by its rules |
//! | [`option_sets`] | options that the server gives to nodes, in versions |
//! | [`quotas`] | limits of domains on what their nodes store |
//! | [`schedules`] | schedules, their events, the server's own work |
//! | [`folder`] | the server's folder: configuration, keys, the place of the catalogue |
//! | [`ownership`] | the right of one process to use a folder and its pools |
//!
//! This crate deliberately has no TLS, no certificates and no gRPC. It does not check what users
//! may do.

pub mod changes;
pub mod contacts;
mod counts;
mod creation;
pub mod domains;
mod enrolment_keys;
mod error;
pub mod fleet;
pub mod folder;
#[cfg(test)]
mod histories;
pub mod intake;
pub mod lifecycle;
mod names;
pub mod nodes;
pub mod option_sets;
pub mod ownership;
mod pages;
mod places;
pub mod pools;
pub mod quotas;
pub mod readers;
#[cfg(test)]
mod samples;
pub mod schedules;
pub mod selection;
mod shelving;
mod store;
pub mod tallies;
pub mod volumes;

pub use creation::{NewServer, init};
pub use error::StoreError;
pub use folder::hold::Hold;
pub use folder::secrets::Secrets;
pub use names::check_name;
pub use pages::decode_page;
pub use pool::use_variables;
pub use store::{Claim, CommitFailure, CondemnedPacks, DOMAIN, Store, Use};
