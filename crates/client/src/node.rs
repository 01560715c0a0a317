//! The node: its folder, its encryption keys, and its enrolment.

pub(crate) mod agent;
pub mod authority;
mod enrolment;
pub(crate) mod home;
pub mod keys;
pub(crate) mod standing;

pub use enrolment::{Enrolment, enrol, is_enrolment_key, is_token};
pub use home::{Commands, SYSTEM_FOLDER, client_toml, not_enrolled};
