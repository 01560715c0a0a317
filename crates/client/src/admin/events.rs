//! Events of the audit trail: deletions and changes by administrators, nodes and the server.

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    pub number: u64,
    pub time: ServerTime,
    pub actor: String,
    pub action: String,
    pub details: String,
}

impl From<proto::Event> for Event {
    fn from(message: proto::Event) -> Self {
        let proto::Event { number, time, actor, what: action, details } = message;
        Self { number, time: ServerTime(time), actor, action, details }
    }
}

impl Admin {
    /// Lists at most `limit` events, newest first.
    pub fn events(&mut self, limit: u32) -> Result<Vec<Event>, ClientError> {
        let events = portions::first(limit as usize, |portion| {
            let request = proto::EventsRequest { portion: Some(portion) };
            let reply = self.call(async |server| server.events(request).await)?;
            Ok(Section { items: reply.events, next: reply.next })
        })?;
        Ok(events.into_iter().map(Event::from).collect())
    }
}
