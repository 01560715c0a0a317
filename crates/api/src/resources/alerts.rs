//! Alerts: what needs a person, who knows of it, and a test of the ways of its notices.

use std::collections::BTreeMap;

use alerts::Attempt;
use catalog::{AlertFilter, AlertRow, CatalogError, Node, NodeDetails};
use model::{DomainId, NodeId, PersonId};
use policy::PolicyDomain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::{NumberKind, Numbering};
use store::nodes::note;

use super::found_node::limit_of_sight;
use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Maximum length of a note in bytes.
const NOTE_BYTES_MAX: usize = 500;

/// An alert.
#[derive(Serialize, JsonSchema)]
struct AlertDocument {
    number: u64,
    /// The rule: damaged-data, pool-away, pool-full, server-held, mass-deletion, domain-full,
    /// no-backup, old-filespace, event-failed, event-missed, drill-failed, drill-old,
    /// node-certificate, server-certificate, pool-fills, disk-errors, tape-errors, copy-old or
    /// task-failed.
    kind: String,
    /// Node, domain, pool or task that the alert is about.
    object: String,
    /// Domain that the alert is about, or that of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    is_urgent: bool,
    text: String,
    opened: Time,
    /// End of the alert; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Time>,
    /// Time of the notice about it to those who run the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged_by: Option<String>,
    /// Words of the person who has acknowledged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// State of the alerts of a list.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum State {
    Open,
    Over,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only open alerts, or only those that are over.
    state: Option<State>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct AlertPath {
    /// Number of the alert.
    alert: u64,
}

/// The words with which a person takes notice of an alert.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AcknowledgementBody {
    #[serde(default)]
    note: String,
}

/// A way of notices.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Channel {
    Mail,
    Webhook,
}

/// The ways that a test tries.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestBody {
    /// Only this way; all ways without it.
    channel: Option<Channel>,
}

/// Outcome of a test.
#[derive(Serialize, JsonSchema)]
struct TestDocument {
    items: Vec<AttemptDocument>,
}

/// An attempt to reach a recipient.
#[derive(Serialize, JsonSchema)]
struct AttemptDocument {
    channel: String,
    /// Address of the mail, or name of the webhook.
    address: String,
    /// True if the recipient's server has taken the notice.
    is_sent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Alerts;
    let summary = "Lists alerts, the last opened first";
    let operation = Operation::read("alerts.list", "/v1/alerts", area, summary);
    routes.add(operation.value("state", "open"), list);
    let summary = "Records that the caller knows of an open alert; nobody is told of it again";
    let path = "/v1/alerts/{alert}/acknowledgement";
    let operation = Operation::post("alerts.acknowledge", path, area, summary);
    let body = json!({ "note": "the disk is on its way" });
    routes.add(operation.example("note", body), acknowledge);
    let summary = "Sends a test to the recipients of notices, and tells what came of it";
    let operation = Operation::post("alerts.test", "/v1/alerts/test", Area::Tasks, summary);
    let operation = operation.example("webhook", json!({ "channel": "webhook" }));
    let answer = json!({
        "items": [{ "channel": "webhook", "address": "chat", "is_sent": true }],
    });
    routes.add(operation.answer(answer), test);
}

/// Names and owners of what alerts are about.
pub(super) struct Names {
    nodes: BTreeMap<NodeId, (String, DomainId, Option<PersonId>)>,
    domains: BTreeMap<DomainId, String>,
}

impl Names {
    fn read(desk: &Desk) -> Answer<Self> {
        let catalog = &desk.store().catalog;
        let details = catalog.all_node_details()?.into_iter().collect();
        Ok(Self::new(&catalog.nodes()?, &details, &catalog.domains()?))
    }

    pub(super) fn new(
        nodes: &[Node],
        details: &BTreeMap<NodeId, NodeDetails>,
        domains: &[PolicyDomain],
    ) -> Self {
        let owner = |id: NodeId| details.get(&id).and_then(|details| details.owner);
        let nodes = nodes.iter();
        let nodes =
            nodes.map(|node| (node.id, (node.name.to_string(), node.domain, owner(node.id))));
        let domains = domains.iter().map(|domain| (domain.id, domain.name.clone()));
        Self { nodes: nodes.collect(), domains: domains.collect() }
    }

    /// Returns the subject of an alert. A node that has moved to another domain takes its alerts
    /// with it.
    pub(super) fn subject(&self, row: &AlertRow) -> Subject {
        let node = row.node.and_then(|node| self.nodes.get(&node));
        match (node, row.domain) {
            (Some((_, domain, owner)), _) => Subject::Node { domain: *domain, owner: *owner },
            (None, Some(domain)) => Subject::Domain(domain),
            (None, None) => Subject::Service,
        }
    }

    /// Returns the name of the node that an alert is about.
    pub(super) fn node(&self, row: &AlertRow) -> Option<&str> {
        let node = row.node.and_then(|node| self.nodes.get(&node));
        node.map(|(name, ..)| &name[..])
    }

    fn describe(&self, numbering: &Numbering, row: AlertRow) -> AlertDocument {
        let node = row.node.and_then(|node| self.nodes.get(&node));
        let domain = node.map(|(_, domain, _)| *domain).or(row.domain);
        AlertDocument {
            number: numbering.shown(NumberKind::Alert, row.number),
            kind: row.kind,
            object: row.object,
            domain: domain.and_then(|domain| self.domains.get(&domain).cloned()),
            node: node.map(|(name, ..)| name.clone()),
            is_urgent: row.is_urgent,
            text: row.text,
            opened: Time(row.opened),
            ended: row.ended.map(Time),
            told: row.told.map(Time),
            acknowledged: row.acknowledged.map(Time),
            acknowledged_by: Some(row.acknowledged_by).filter(|name| !name.is_empty()),
            note: Some(row.note).filter(|note| !note.is_empty()),
        }
    }
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<AlertDocument>> {
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let filter = AlertFilter {
        is_open: call.query.state.map(|state| state == State::Open),
        seen: limit_of_sight(&call.desk, &call.caller, Area::Alerts)?,
    };
    let numbering = call.desk.numbering(&call.caller);
    let first = portion.first_number()?.map(|first| numbering.given(NumberKind::Alert, first));
    let rows = call.desk.store().catalog.alerts(&filter, first, portion.read_max())?;
    let names = Names::read(&call.desk)?;
    let alerts = rows.into_iter().map(|row| names.describe(&numbering, row)).collect();
    Ok(portion.page(alerts, |one: &AlertDocument| one.number.to_string().into_bytes()))
}

fn acknowledge(call: &mut Call<AlertPath, Empty, AcknowledgementBody>) -> Answer<AlertDocument> {
    let (store, numbering) = (call.desk.store(), call.desk.numbering(&call.caller));
    let number = numbering.given(NumberKind::Alert, call.path.alert);
    let absent = || Problem::not_found("alert", &call.path.alert.to_string());
    let words = &call.body.note;
    if words.len() > NOTE_BYTES_MAX || words.chars().any(char::is_control) {
        let text = format!("a note has at most {NOTE_BYTES_MAX} bytes, on one line");
        return Err(Problem::invalid(text));
    }
    let names = Names::read(&call.desk)?;
    let row = match i64::try_from(number).map(|_| store.catalog.alert(number)) {
        Ok(Ok(row)) => row,
        Err(_) | Ok(Err(CatalogError::NotFound { .. })) => return Err(absent()),
        Ok(Err(error)) => return Err(error.into()),
    };
    let subject = names.subject(&row);
    if !call.caller.may(Area::Alerts, Right::Read, subject) {
        return Err(absent());
    }
    call.caller.check(Area::Alerts, Right::Write, subject)?;
    let (by, now) = (&call.caller.name, sys::clock::now());
    if !store.catalog.acknowledge_alert(number, by, words, now)? {
        return Err(Problem::conflict("the alert is over, or somebody has acknowledged it"));
    }
    note(store, by, "alert acknowledged", format!("{number}: {}", row.text))?;
    Ok(names.describe(&numbering, store.catalog.alert(number)?))
}

fn test(call: &mut Call<Empty, Empty, TestBody>) -> Answer<TestDocument> {
    call.caller.check(Area::Tasks, Right::Write, Subject::Service)?;
    let channel = call.body.channel.map(|channel| match channel {
        Channel::Mail => "mail",
        Channel::Webhook => "webhook",
    });
    let store = call.desk.store();
    let trying = alerts::try_channels(store, channel);
    // Operations run on threads that may block.
    let attempts = tokio::runtime::Handle::current().block_on(trying)?;
    if attempts.is_empty() {
        let text = "nobody gets notices this way; name recipients in [alerts] of server.toml";
        return Err(Problem::conflict(text));
    }
    note(store, &call.caller.name, "notices tested", format!("{} recipients", attempts.len()))?;
    let describe = |attempt: Attempt| AttemptDocument {
        channel: attempt.channel,
        address: attempt.address,
        is_sent: attempt.error.is_none(),
        error: attempt.error,
    };
    Ok(TestDocument { items: attempts.into_iter().map(describe).collect() })
}
