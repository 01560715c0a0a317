//! The service: REST over HTTPS, people and their roles, keys of programs, metrics.
//!
//! ```text
//!   listener (TLS, limits) --+
//!                            +--> routes --> authentication --> roles --> resources --> store
//!   administration socket ---+       |                                        |
//!                                 openapi                                   server
//! ```
//!
//! | module | work |
//! |---|---|
//! | `listener`, `stall`, `unread` | connections, TLS, limits on clients |
//! | `routes`, `call` | from a request of HTTP to a typed call, and back |
//! | `operation`, `examples`, `openapi` | the list of operations, and its document |
//! | `authentication`, `challenge`, `keys` | who calls |
//! | `download`, `standing` | streams, and whether their callers may still have them |
//! | `login_guesses` | guesses of passwords, from wherever they come |
//! | `passwords`, `second_factor`, `oidc` | by which a person signs in |
//! | `roles`, `caller` | what a caller may do |
//! | `approval` | what waits for a second person |
//! | `answers`, `tags`, `rates` | repeated requests, changes that meet, limits |
//! | `patch`, `parameters` | members of changes; what is wrong with a parameter |
//! | `resources` | the operations, one module a noun |
//! | `remote`, `scope` | the administrator's service for machines elsewhere |
//! | `metrics`, `health` | what other programs watch |
//!
//! 1. Each operation is in the list of operations, with its area and right. A route cannot be made
//!    without them.
//! 2. An operation on an object asks [`caller::Caller::may`] about the object before it reads more
//!    than the object's owner. A caller who may not see an object gets the answer for an object
//!    that does not exist.
//! 3. Each change is in the activity log with the name of its caller.
//! 4. Secrets are kept only as hashes, or sealed with a key of the server.
//!
//! With the feature `page`, requests for anything else get the page of the crate `web`.
//!
//! Deliberately absent: work. Everything that an operation does is a function of `store` or
//! `server`, which the command line reaches too.

mod answers;
mod approval;
mod authentication;
mod call;
mod caller;
mod challenge;
mod cursor;
mod desk;
mod download;
mod examples;
mod fields;
mod health;
mod keys;
mod listener;
mod login_guesses;
mod metrics;
mod oidc;
mod openapi;
mod operation;
mod parameters;
mod passwords;
mod patch;
mod problem;
mod rates;
mod remote;
mod resources;
mod roles;
mod routes;
mod scope;
mod seal;
mod second_factor;
mod shape;
mod stall;
mod standing;
mod tags;
mod unread;

pub use listener::{ListenError, start};
pub use oidc::OidcError;
pub use openapi::document;
pub use roles::{names as role_names, table as role_table};
