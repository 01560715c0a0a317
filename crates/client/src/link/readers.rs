//! Rules by which this node lets others read what it has stored.

use model::ServerTime;
use wire::proto;

use super::Link;
use crate::error::ClientError;

/// A rule: another node may read what this node has stored at and below a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadRule {
    /// Name of the node that may read.
    pub reader: String,
    /// Absolute path on this node.
    pub path: Vec<u8>,
    /// True for archives, false for backups.
    pub is_archive: bool,
    pub since: ServerTime,
}

impl ReadRule {
    fn parse(rule: proto::ReadRule) -> Self {
        Self {
            reader: rule.reader,
            path: rule.path.to_vec(),
            is_archive: rule.archives,
            since: ServerTime(rule.since),
        }
    }

    fn message(&self) -> proto::ReadRule {
        proto::ReadRule {
            reader: self.reader.clone(),
            path: self.path.clone().into(),
            archives: self.is_archive,
            since: 0,
        }
    }
}

impl Link {
    pub(crate) fn read_rules(&self) -> Result<Vec<ReadRule>, ClientError> {
        let request = proto::ReadRulesRequest {};
        let reply = self.runtime.block_on(self.client().read_rules(request))?.into_inner();
        Ok(reply.rules.into_iter().map(ReadRule::parse).collect())
    }

    pub(crate) fn allow_reading(&self, rule: &ReadRule) -> Result<ReadRule, ClientError> {
        let request = rule.message();
        let rule = self.runtime.block_on(self.client().allow_reading(request))?.into_inner();
        Ok(ReadRule::parse(rule))
    }

    pub(crate) fn forbid_reading(&self, rule: &ReadRule) -> Result<ReadRule, ClientError> {
        let request = rule.message();
        let rule = self.runtime.block_on(self.client().forbid_reading(request))?.into_inner();
        Ok(ReadRule::parse(rule))
    }
}
