//! Library of the end-to-end tests: a tree with everything that is hard to back up, a manifest that
//! shows any difference between two trees, and a harness that runs the real `holdfast`.
//!
//! Read [`nasty::plant`] for the content of the tree, [`manifest::Manifest`] for the meaning of
//! "restored identically", [`harness::Server`] and [`harness::Node`] for running the program in a
//! test. The tests themselves are in `tests/it`, one module for each theme.
//!
//! This crate uses nothing of Holdfast but its command line: a test that shared code with the
//! program could have the same fault as the program.

pub mod broken_node;
pub mod clock;
pub mod folder;
pub mod harness;
pub mod manifest;
pub mod mutator;
pub mod nasty;
pub mod power;
pub mod schema;
pub mod scratch;
pub mod session_tree;
pub mod skip;
pub mod transcript;
