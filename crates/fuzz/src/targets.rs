//! The list of all targets.

mod names;

use crate::Target;

/// All targets, in the order of the crates. Each has a test of its name.
pub const TARGETS: &[Target] = &[
    names::NAME,
    names::TEXT,
];
