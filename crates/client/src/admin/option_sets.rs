//! Option sets: statements and options that the server gives to nodes, in versions.

use model::ServerTime;
use policy::settings::SetOption;
use wire::proto;

use super::connection::Admin;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// An option set, and the nodes that have it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionSet {
    pub name: String,
    /// The version in force.
    pub current: OptionSetVersion,
    /// A newer version that some nodes have.
    pub staged: Option<OptionSetVersion>,
    /// Share of the nodes that have the staged version, in hundredths of a per cent.
    pub share: u32,
    /// Names of the nodes that have the version in force.
    pub nodes: Vec<String>,
    /// Names of the nodes that have the staged version.
    pub first_nodes: Vec<String>,
}

/// A version of an option set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionSetVersion {
    pub number: u64,
    /// Statements, one on each line.
    pub text: Vec<u8>,
    pub options: Vec<SetOption>,
    /// Time at which it was made, if the server knows it.
    pub changed: Option<ServerTime>,
    pub author: String,
    pub comment: String,
    /// True if it is or was in force for all nodes.
    pub was_in_force: bool,
}

/// Change of an option set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionSetChange {
    pub name: String,
    /// True if the option set must be new.
    pub is_new: bool,
    pub set: Vec<SetOption>,
    /// Names of options that are removed.
    pub unset: Vec<String>,
    /// Statements that replace those before.
    pub text: Option<Vec<u8>>,
    /// Version whose content the new version has.
    pub revert_to: Option<u64>,
    pub comment: String,
    /// Share of the nodes that get the version first, in hundredths of a per cent; 0 for all.
    pub share: u32,
    pub dry_run: bool,
}

/// Versions before and after a change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionSetReview {
    pub name: String,
    /// `None` for a new option set.
    pub before: Option<OptionSetVersion>,
    pub after: OptionSetVersion,
    pub is_change: bool,
    /// Names of the nodes that get the version first; `None` if all get it.
    pub first_nodes: Option<Vec<String>>,
    /// Number of nodes that have the option set.
    pub nodes: u32,
}

impl From<proto::OptionSetVersion> for OptionSetVersion {
    fn from(message: proto::OptionSetVersion) -> Self {
        let option = |option: proto::SetOption| SetOption {
            name: option.name,
            value: option.value,
            is_forced: option.forced,
        };
        Self {
            number: message.number,
            text: message.text.to_vec(),
            options: message.options.into_iter().map(option).collect(),
            changed: Some(ServerTime(message.changed)).filter(|time| time.0 != 0),
            author: message.author,
            comment: message.comment,
            was_in_force: message.in_force.is_some(),
        }
    }
}

impl From<proto::OptionSetUse> for OptionSet {
    fn from(message: proto::OptionSetUse) -> Self {
        Self {
            name: message.name,
            current: message.current.unwrap_or_default().into(),
            staged: message.staged.map(OptionSetVersion::from),
            share: message.share,
            nodes: message.nodes,
            first_nodes: message.first_nodes,
        }
    }
}

impl From<proto::ChangeOptionSetReply> for OptionSetReview {
    fn from(message: proto::ChangeOptionSetReply) -> Self {
        Self {
            name: message.name,
            before: message.before.map(OptionSetVersion::from),
            after: message.after.unwrap_or_default().into(),
            is_change: message.changed,
            first_nodes: message.is_staged.then_some(message.first_nodes),
            nodes: message.nodes,
        }
    }
}

impl Admin {
    /// Lists one option set, or all option sets.
    pub fn option_sets(&mut self, name: Option<&str>) -> Result<Vec<OptionSet>, ClientError> {
        let sets = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::OptionSetsRequest { name, portion: Some(portion) };
            let reply = self.call(async |server| server.option_set_uses(request).await)?;
            Ok(Section { items: reply.uses, next: reply.next })
        })?;
        Ok(sets.into_iter().map(OptionSet::from).collect())
    }

    /// Lists all versions of an option set, newest first.
    pub fn option_set_versions(
        &mut self,
        name: &str,
    ) -> Result<Vec<OptionSetVersion>, ClientError> {
        let versions = portions::all(|portion| {
            let request =
                proto::OptionSetsRequest { name: name.to_owned(), portion: Some(portion) };
            let reply = self.call(async |server| server.option_set_versions(request).await)?;
            Ok(Section { items: reply.versions, next: reply.next })
        })?;
        Ok(versions.into_iter().map(OptionSetVersion::from).collect())
    }

    /// Makes an option set, or replaces its statements.
    pub fn put_option_set(&mut self, name: &str, text: Vec<u8>) -> Result<u64, ClientError> {
        let request =
            proto::OptionSet { name: name.to_owned(), text: text.into(), ..Default::default() };
        Ok(self.call(async |server| server.put_option_set(request).await)?.version)
    }

    /// Makes or changes an option set.
    pub fn change_option_set(
        &mut self,
        change: OptionSetChange,
    ) -> Result<OptionSetReview, ClientError> {
        let option = |option: SetOption| proto::SetOption {
            name: option.name,
            value: option.value,
            forced: option.is_forced,
        };
        let request = proto::ChangeOptionSetRequest {
            name: change.name,
            is_new: change.is_new,
            set: change.set.into_iter().map(option).collect(),
            unset: change.unset,
            text: change.text.map(Into::into),
            revert_to: change.revert_to.unwrap_or(0),
            comment: change.comment,
            share: change.share,
            dry_run: change.dry_run,
        };
        Ok(self.call(async |server| server.change_option_set(request).await)?.into())
    }

    /// Gives the staged version of an option set to all nodes, or takes it back.
    pub fn end_option_set_stage(
        &mut self,
        name: &str,
        promote: bool,
    ) -> Result<OptionSetReview, ClientError> {
        let request = proto::EndOptionSetStageRequest { name: name.to_owned(), promote };
        Ok(self.call(async |server| server.end_option_set_stage(request).await)?.into())
    }

    pub fn remove_option_set(&mut self, name: &str) -> Result<(), ClientError> {
        let request = proto::OptionSet { name: name.to_owned(), ..Default::default() };
        self.call(async |server| server.remove_option_set(request).await).map(drop)
    }
}
