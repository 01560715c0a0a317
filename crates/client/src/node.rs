//! The node: its folder, its encryption keys, and its enrolment.

pub(crate) mod agent;
mod enrolment;
pub(crate) mod home;
pub mod keys;
pub(crate) mod standing;

pub use enrolment::{Enrolment, enrol, is_enrolment_key};
pub use home::{Commands, SYSTEM_FOLDER, client_toml};
