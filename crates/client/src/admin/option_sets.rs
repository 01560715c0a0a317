//! Option sets: include and exclude statements that the server gives to nodes.

use wire::proto;

use super::connection::Admin;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// An option set.
#[derive(Clone, Debug, Default)]
pub struct OptionSet {
    pub name: String,
    /// Statements, one on each line.
    pub text: Vec<u8>,
}

impl From<OptionSet> for proto::OptionSet {
    fn from(set: OptionSet) -> Self {
        Self { name: set.name, text: set.text.into() }
    }
}

impl Admin {
    /// Lists one option set, or all option sets.
    pub fn option_sets(&mut self, name: Option<&str>) -> Result<Vec<OptionSet>, ClientError> {
        let sets = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::OptionSetsRequest { name, portion: Some(portion) };
            let reply = self.call(async |server| server.option_sets(request).await)?;
            Ok(Section { items: reply.sets, next: reply.next })
        })?;
        let set = |set: proto::OptionSet| OptionSet { name: set.name, text: set.text.to_vec() };
        Ok(sets.into_iter().map(set).collect())
    }

    /// Makes or replaces an option set.
    pub fn put_option_set(&mut self, set: OptionSet) -> Result<(), ClientError> {
        let request = proto::OptionSet::from(set);
        self.call(async |server| server.put_option_set(request).await).map(drop)
    }

    pub fn remove_option_set(&mut self, name: &str) -> Result<(), ClientError> {
        let request = proto::OptionSet { name: name.to_owned(), ..Default::default() };
        self.call(async |server| server.remove_option_set(request).await).map(drop)
    }
}
