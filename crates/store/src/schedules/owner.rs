//! The domain that a schedule belongs to, if it belongs to one: those who administer the domain
//! define the schedule, and only nodes of the domain follow it.
//!
//! The catalogue has such a schedule in a document around its definition. Programs that know
//! nothing of domains of schedules find no definition there, and so let nobody follow: the labels
//! of its followers would be those of nodes of all domains to them. Nodes get the definition alone.

use catalog::ScheduleRow;
use model::DomainId;
use policy::schedule::Definition;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// Begin of each document with a domain. No definition begins so.
const START: &str = "{\"domain\":";

/// Owner that a schedule must have to be the one that a change is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OwnedBy {
    #[default]
    Anyone,
    Service,
    Domain(DomainId),
}

impl OwnedBy {
    /// Returns the owner of a schedule that belongs to a domain, or to the service.
    pub fn of(owner: Option<DomainId>) -> Self {
        owner.map_or(Self::Service, Self::Domain)
    }

    /// Returns true if a schedule of this owner is meant.
    pub(super) fn admits(self, owner: Option<DomainId>) -> bool {
        self == Self::Anyone || self == Self::of(owner)
    }
}

/// Document of a schedule that belongs to a domain.
#[derive(Serialize)]
struct OwnedDefinition<'a> {
    domain: u32,
    definition: &'a Definition,
}

/// The domain in a document.
#[derive(Deserialize)]
struct Owner {
    domain: u32,
}

/// The definition in a document.
#[derive(Deserialize)]
struct Content {
    definition: Definition,
}

/// Returns the domain that the schedule belongs to; `None` for a schedule of the service.
pub fn owner(row: &ScheduleRow) -> Option<DomainId> {
    if !row.body.starts_with(START) {
        return None;
    }
    let owner: Owner = serde_json::from_str(&row.body).ok()?;
    Some(DomainId(owner.domain))
}

/// Returns the document of a schedule.
pub(super) fn encode(
    definition: &Definition,
    owner: Option<DomainId>,
) -> Result<String, StoreError> {
    definition.check().map_err(|error| StoreError::usage(error.to_string()))?;
    let encoded = match owner {
        None => serde_json::to_string(definition),
        Some(DomainId(domain)) => serde_json::to_string(&OwnedDefinition { domain, definition }),
    };
    encoded.map_err(|error| StoreError::usage(error.to_string()))
}

/// Returns the definition in the document of a schedule.
pub(super) fn decode(body: &str) -> Result<Definition, serde_json::Error> {
    if body.starts_with(START) {
        // A domain that cannot be read leaves no definition: it would be one for the nodes of all.
        serde_json::from_str::<Owner>(body)?;
        return serde_json::from_str(body).map(|content: Content| content.definition);
    }
    serde_json::from_str(body)
}

/// Returns the definition of the schedule alone, as JSON.
pub fn plain_body(body: String) -> String {
    if !body.starts_with(START) {
        return body;
    }
    // A definition that a newer program has written is none of this server.
    let plain = decode(&body).ok().and_then(|definition| encode(&definition, None).ok());
    plain.unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    fn row(body: String) -> ScheduleRow {
        let (name, changed_by) = ("nightly".to_owned(), "anna".to_owned());
        ScheduleRow { name, body, since: ServerTime(0), changed: ServerTime(0), changed_by }
    }

    #[test]
    fn the_domain_is_around_the_definition_and_nodes_do_not_get_it() {
        let text = r#"{"description":"{\"domain\":7","action":{"work":"incremental"},
            "timing":{"starts":{"calendar":{"times":"22:00"}},
                "window_minutes":10,"spread_percent":0},
            "zone":"UTC","priority":5,"retries":1,"retry_pause_minutes":1}"#;
        let definition: Definition = serde_json::from_str(text).expect("is a definition");
        let [plain, owned] = [None, Some(DomainId(5))]
            .map(|domain| row(encode(&definition, domain).expect("is encoded")));
        assert_eq!((owner(&plain), owner(&owned)), (None, Some(DomainId(5))));
        for one in [&plain, &owned] {
            assert_eq!(decode(&one.body).expect("is read"), definition);
            assert_eq!(plain_body(one.body.clone()), plain.body);
        }
        let unknowing = serde_json::from_str::<Definition>(&owned.body);
        assert!(unknowing.is_err(), "older programs let nobody follow");
        let foreign = owned.body.replace("\"domain\":5", "\"domain\":\"LAB\"");
        assert_ne!(foreign, owned.body);
        assert!(decode(&foreign).is_err(), "a schedule of an unknown domain has no definition");
    }
}
