//! Events of the audit trail: deletions and changes by administrators, nodes and the server.

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use crate::link::portions::{self, Section};
use crate::{ClientError, ErrorKind};

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

/// Conditions on events of the audit trail. All of them must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogFilter {
    pub from: Option<ServerTime>,
    pub to: Option<ServerTime>,
    /// Node that made the event, or that the event is about.
    pub node: Option<String>,
    /// Part of the kind of the event.
    pub kind: Option<String>,
    /// Part of any field, in upper or lower case.
    pub text: Option<String>,
}

impl LogFilter {
    /// Returns true if every event meets the conditions.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn message(&self) -> proto::EventFilter {
        let time = |time: Option<ServerTime>| time.map_or(0, |time| time.0);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        proto::EventFilter {
            from: time(self.from),
            to: time(self.to),
            node: text(&self.node),
            kind: text(&self.kind),
            text: text(&self.text),
        }
    }
}

impl Admin {
    /// Lists at most `limit` events that meet the conditions of `filter`, newest first.
    pub fn events(&mut self, filter: &LogFilter, limit: u32) -> Result<Vec<Event>, ClientError> {
        let events = portions::first(limit as usize, |portion| {
            let filter = Some(filter).filter(|filter| !filter.is_empty());
            let request = proto::EventsRequest {
                portion: Some(portion),
                filter: filter.map(LogFilter::message),
            };
            let reply = self.call(async |server| server.events(request).await)?;
            if filter.is_some() && !reply.is_filtered {
                let message = "the server is too old to filter its audit trail; restart it with \
                               this version, or list everything";
                return Err(ClientError::new(ErrorKind::Usage, message));
            }
            Ok(Section { items: reply.events, next: reply.next })
        })?;
        Ok(events.into_iter().map(Event::from).collect())
    }
}
