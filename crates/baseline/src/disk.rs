//! The disk under a path.

pub(crate) mod counters;
