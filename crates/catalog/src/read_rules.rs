//! Rules by which a node lets another node read a part of what it has stored.

use model::{NodeId, ServerTime};

use crate::CatalogError;

/// A rule: the node `reader` may read what is stored at and below `path`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadRule {
    /// Name of the node that may read.
    pub reader: String,
    /// True for archives, false for backups.
    pub is_archive: bool,
    /// Absolute path on the node that owns the data.
    pub path: Vec<u8>,
    pub since: ServerTime,
}

/// Rules about reading.
pub trait ReadRules {
    /// Lists the rules that a node has made, sorted by reader and path.
    fn read_rules(&self, owner: NodeId) -> Result<Vec<ReadRule>, CatalogError>;

    /// Adds a rule of a node. A rule that exists keeps its time. Fails with `NotFound` for an
    /// unknown node.
    fn put_read_rule(&self, owner: NodeId, rule: &ReadRule) -> Result<(), CatalogError>;

    /// Removes a rule of a node, whatever its time is. Fails with `NotFound` without such a rule.
    fn remove_read_rule(&self, owner: NodeId, rule: &ReadRule) -> Result<(), CatalogError>;
}
