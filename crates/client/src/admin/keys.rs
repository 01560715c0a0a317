//! Enrolment keys.

use std::time::Duration;

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use super::optional::{self, unreadable};
use crate::ClientError;
use crate::link::portions::{self, Section};

/// A key that enrols many machines.
#[derive(Clone, Debug)]
pub struct EnrolmentKey {
    pub name: String,
    pub nodes_max: u32,
    /// Number of nodes that it has enrolled.
    pub nodes: u32,
    pub made: ServerTime,
    pub made_by: String,
    pub expires: ServerTime,
    /// Time at which an administrator has ended the key.
    pub revoked: Option<ServerTime>,
    pub domain: String,
    pub option_set: Option<String>,
    pub labels: Vec<String>,
    /// Pattern that the names of its nodes match.
    pub names: Option<String>,
    /// True if it can enrol a node now.
    pub is_valid: bool,
}

impl From<proto::EnrolmentKey> for EnrolmentKey {
    fn from(message: proto::EnrolmentKey) -> Self {
        Self {
            name: message.name,
            nodes_max: message.nodes_max,
            nodes: message.nodes,
            made: ServerTime(message.made),
            made_by: message.made_by,
            expires: ServerTime(message.expires),
            revoked: message.revoked.map(ServerTime),
            domain: message.domain,
            option_set: optional::text(message.option_set),
            labels: message.labels,
            names: optional::text(message.names),
            is_valid: message.is_valid,
        }
    }
}

/// An enrolment key to make.
#[derive(Clone, Debug, Default)]
pub struct NewEnrolmentKey {
    pub name: String,
    pub nodes_max: u32,
    /// Time until the key expires; `None` for the server's default.
    pub lifetime: Option<Duration>,
    /// Policy domain of its nodes; `None` for the standard domain.
    pub domain: Option<String>,
    pub option_set: Option<String>,
    pub labels: Vec<String>,
    /// Pattern that the names of its nodes match; `None` for any name.
    pub names: Option<String>,
}

impl Admin {
    /// Makes a key. Returns it with its text, which the server does not keep.
    pub fn add_enrolment_key(
        &mut self,
        key: NewEnrolmentKey,
    ) -> Result<(EnrolmentKey, String), ClientError> {
        let lifetime_secs = key.lifetime.map_or(0, |lifetime| lifetime.as_secs());
        let request = proto::AddEnrolmentKeyRequest {
            name: key.name,
            nodes_max: key.nodes_max,
            lifetime_secs: i64::try_from(lifetime_secs).unwrap_or(i64::MAX),
            domain: key.domain.unwrap_or_default(),
            option_set: key.option_set.unwrap_or_default(),
            labels: key.labels,
            names: key.names.unwrap_or_default(),
        };
        let reply = self.call(async |server| server.add_enrolment_key(request).await)?;
        let key = reply.key.ok_or_else(|| unreadable("the enrolment key"))?;
        Ok((key.into(), reply.token))
    }

    /// Lists one key, or all keys.
    pub fn enrolment_keys(&mut self, name: Option<&str>) -> Result<Vec<EnrolmentKey>, ClientError> {
        let keys = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::EnrolmentKeysRequest { name, portion: Some(portion) };
            let reply = self.call(async |server| server.enrolment_keys(request).await)?;
            Ok(Section { items: reply.keys, next: reply.next })
        })?;
        Ok(keys.into_iter().map(EnrolmentKey::from).collect())
    }

    /// Ends a key. The nodes that it has enrolled stay.
    pub fn revoke_enrolment_key(&mut self, name: &str) -> Result<EnrolmentKey, ClientError> {
        let request = proto::EnrolmentKeysRequest { name: name.to_owned(), portion: None };
        Ok(self.call(async |server| server.revoke_enrolment_key(request).await)?.into())
    }
}
