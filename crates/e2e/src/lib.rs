//! The ground of the end-to-end tests: a tree with everything that is hard to back up, a manifest
//! that notices when one attribute of it differs, and a harness that runs the real `holdfast`.
//!
//! Read [`nasty::plant`] for the content of the tree, [`manifest::Manifest`] for the meaning of
//! "restored identically", [`harness::Server`] and [`harness::Node`] for running the program in a
//! test. The tests themselves are in `tests/it`, one module a theme.
//!
//! This crate calls nothing of Holdfast but its command line: a test that shared code with what it
//! tests could be wrong together with it.

pub mod clock;
pub mod folder;
pub mod harness;
pub mod manifest;
pub mod nasty;
pub mod scratch;
pub mod session_tree;
pub mod skip;
pub mod transcript;
