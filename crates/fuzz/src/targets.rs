//! The list of all targets.

mod names;
mod packs;
mod pages;
mod quanta;

use crate::Target;

/// All targets, in the order of the crates. Each has a test of its name.
pub const TARGETS: &[Target] = &[
    names::NAME,
    names::TEXT,
    pages::PAGE,
    pages::CATALOG_COPY,
    packs::PACK_HEADER,
    packs::PACK_FOOTER,
    quanta::QUANTUM,
    quanta::SEAL,
];
