//! Option sets: statements and options that the server gives to nodes, in versions.

use model::{NodeId, ServerTime};
use policy::settings::{SetOption, Share};

use crate::{CatalogError, EventRow};

/// An option set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSet {
    pub name: String,
    /// The version that all nodes have, except those of the stage.
    pub current: OptionSetVersion,
    /// A newer version that some nodes have.
    pub stage: Option<OptionSetStage>,
}

/// A version of an option set. It never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSetVersion {
    /// Number from 1.
    pub number: u64,
    /// Statements, as `policy::statement::parse_list` reads them.
    pub text: Vec<u8>,
    pub options: Vec<SetOption>,
    /// Time at which it was made; 0 if it is older than the record of versions.
    pub changed: ServerTime,
    /// Administrator who made it.
    pub author: String,
    pub comment: String,
    /// Time since which it was in force for all nodes; `None` if it never was.
    pub in_force: Option<ServerTime>,
}

impl Default for OptionSetVersion {
    /// A version without content that nobody has made.
    fn default() -> Self {
        Self {
            number: 0,
            text: Vec::new(),
            options: Vec::new(),
            changed: ServerTime(0),
            author: String::new(),
            comment: String::new(),
            in_force: None,
        }
    }
}

/// The nodes that have a newer version first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSetStage {
    pub version: OptionSetVersion,
    pub share: Share,
    pub nodes: Vec<NodeId>,
}

/// The option sets.
pub trait OptionSets {
    /// All option sets, by name.
    fn option_sets(&self) -> Result<Vec<OptionSet>, CatalogError>;

    /// All versions of an option set, newest first.
    fn option_set_versions(&self, name: &str) -> Result<Vec<OptionSetVersion>, CatalogError>;

    /// Adds `version`, and makes the option set with version 1. It is in force from then on, or
    /// with `stage` at the nodes of the stage. Fails with `Exists` if the number is not the next
    /// one, or if another version is staged. Records `event`.
    fn add_option_set_version(
        &self,
        name: &str,
        version: &OptionSetVersion,
        stage: Option<(Share, &[NodeId])>,
        event: &EventRow,
    ) -> Result<(), CatalogError>;

    /// Ends the stage of an option set. Its version is in force for all nodes from the time
    /// `promoted` on, or without a time for none. Fails with `NotFound` if `number` is not staged.
    fn end_option_set_stage(
        &self,
        name: &str,
        number: u64,
        promoted: Option<ServerTime>,
        event: &EventRow,
    ) -> Result<(), CatalogError>;

    /// Removes an option set with its versions, also from the nodes that have it. Fails with
    /// `NotFound`.
    fn remove_option_set(&self, name: &str, event: &EventRow) -> Result<(), CatalogError>;
}
