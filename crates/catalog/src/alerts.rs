//! Alerts, and the notices about them that are on their way to people and programs.

use model::{DomainId, NodeId, ServerTime};

use crate::{CatalogError, NodeSight};

/// A state that somebody should know about, from its beginning to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertRow {
    pub number: u64,
    /// Name of the rule.
    pub kind: String,
    /// Node, pool or task that the alert is about. No two open alerts of a kind have the same.
    pub object: String,
    /// Domain whose people may see the alert; `None` for those who run the service only.
    pub domain: Option<DomainId>,
    /// Node that the alert is about.
    pub node: Option<NodeId>,
    /// True if quiet hours do not hold up its notice.
    pub is_urgent: bool,
    /// One sentence for people.
    pub text: String,
    pub opened: ServerTime,
    /// End of the state; `None` while the alert is open.
    pub ended: Option<ServerTime>,
    /// Time of the notice about the beginning to those who run the service.
    pub told: Option<ServerTime>,
    /// Time of their notice about the end.
    pub end_told: Option<ServerTime>,
    pub acknowledged: Option<ServerTime>,
    pub acknowledged_by: String,
    /// Words of the person who has acknowledged the alert.
    pub note: String,
}

/// A notice: a text on its way to one recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoticeRow {
    pub number: u64,
    /// Name of the way: `mail` or `webhook`.
    pub channel: String,
    /// Address of the recipient, as its way takes it.
    pub address: String,
    pub subject: String,
    pub body: String,
    pub made: ServerTime,
    /// Time of the next attempt.
    pub due: ServerTime,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Reason why the last attempt failed; empty before.
    pub error: String,
    /// Time of the delivery; `None` while the notice waits.
    pub sent: Option<ServerTime>,
}

/// Selection of alerts; a field that is `None` selects all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlertFilter {
    /// Only open alerts, or only ended ones.
    pub is_open: Option<bool>,
    /// Only the alerts about the nodes and the domains of this sight. An alert about a node belongs
    /// to the present domain of the node.
    pub seen: Option<NodeSight>,
}

/// Changes of alerts and notices that happen together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertChanges {
    pub at: ServerTime,
    /// New alerts; their numbers do not count.
    pub opened: Vec<AlertRow>,
    /// New texts of open alerts, by number.
    pub reworded: Vec<(u64, String)>,
    pub ended: Vec<u64>,
    /// Alerts whose beginning the notices tell.
    pub told: Vec<u64>,
    /// Alerts whose end the notices tell.
    pub ends_told: Vec<u64>,
    /// New notices; their numbers do not count.
    pub notices: Vec<NoticeRow>,
    /// Marks to set, by name.
    pub marks: Vec<(String, i64)>,
}

impl AlertChanges {
    /// Returns no changes, at the time `at`.
    pub fn none(at: ServerTime) -> Self {
        Self {
            at,
            opened: Vec::new(),
            reworded: Vec::new(),
            ended: Vec::new(),
            told: Vec::new(),
            ends_told: Vec::new(),
            notices: Vec::new(),
            marks: Vec::new(),
        }
    }
}

/// Result of an attempt to deliver a notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    Sent,
    /// The next attempt is at `due`.
    Failed {
        error: String,
        due: ServerTime,
    },
}

/// The alerts and their notices.
pub trait Alerts {
    /// At most `limit` alerts, the last opened first, from the number `from` on.
    fn alerts(
        &self,
        filter: &AlertFilter,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AlertRow>, CatalogError>;

    /// The alerts that are open, and those whose end has to be told, by number.
    fn pending_alerts(&self) -> Result<Vec<AlertRow>, CatalogError>;

    /// The alert with this number. Fails with `NotFound`.
    fn alert(&self, number: u64) -> Result<AlertRow, CatalogError>;

    /// Performs the changes as a whole or not at all.
    fn change_alerts(&self, changes: &AlertChanges) -> Result<(), CatalogError>;

    /// Records that a person knows of an open alert. Returns false if the alert is over, or if a
    /// person has acknowledged it before.
    fn acknowledge_alert(
        &self,
        number: u64,
        by: &str,
        note: &str,
        at: ServerTime,
    ) -> Result<bool, CatalogError>;

    /// Notices that wait and are due at `now`, the oldest first: at most `limit` by mail, and at
    /// most `limit` for each webhook. So a mail server that is away delays no webhook.
    fn due_notices(&self, now: ServerTime, limit: usize) -> Result<Vec<NoticeRow>, CatalogError>;

    /// At most `limit` notices, the newest first, from the number `from` on.
    fn notices(&self, from: Option<u64>, limit: usize) -> Result<Vec<NoticeRow>, CatalogError>;

    /// Records the result of an attempt. An unknown notice is passed over.
    fn note_delivery(
        &self,
        notice: u64,
        delivery: &Delivery,
        at: ServerTime,
    ) -> Result<(), CatalogError>;

    /// Number of notices that wait, and the time at which the oldest was made.
    fn waiting_notices(&self) -> Result<(u64, Option<ServerTime>), CatalogError>;

    /// Removes alerts that ended before `ended_before`, and notices that were made before
    /// `made_before`. Returns the notices among them that nobody got.
    fn forget_alerts(
        &self,
        ended_before: ServerTime,
        made_before: ServerTime,
    ) -> Result<Vec<NoticeRow>, CatalogError>;
}
