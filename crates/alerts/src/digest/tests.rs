//! Tests of the digest of the day.

use std::collections::BTreeSet;

use catalog::EventOutcome;
use model::{DomainId, NodeId};

use super::*;
use crate::book::row;
use crate::facts::NodeFacts;
use crate::kind::Kind;
use crate::rules::Finding;

/// 2023-11-14, 22:13 in UTC.
const NOW: ServerTime = ServerTime(1_700_000_000_000_000);

fn hours_ago(hours: i64) -> ServerTime {
    ServerTime(NOW.0 - hours * 3_600_000_000)
}

fn with_digest(at: &str, zone: &str) -> AlertSettings {
    AlertSettings {
        digest_at: Some(at.parse().expect("a time")),
        zone: zone.to_owned().try_into().expect("a zone"),
        ..AlertSettings::default()
    }
}

#[test]
fn a_digest_is_due_once_a_day() {
    let settings = with_digest("07:30", "UTC");
    assert!(is_due(&settings, NOW, hours_ago(15)));
    assert!(!is_due(&settings, NOW, hours_ago(14)));
    let later = with_digest("22:14", "UTC");
    assert!(is_due(&later, NOW, hours_ago(24)));
    assert!(!is_due(&later, NOW, hours_ago(23)));
    assert!(!is_due(&AlertSettings::default(), NOW, ServerTime(0)));
}

#[test]
fn the_time_of_the_digest_is_that_of_the_zone() {
    // It is 23:13 in Berlin.
    let settings = with_digest("23:00", "Europe/Berlin");
    assert!(is_due(&settings, NOW, hours_ago(1)));
    assert!(!is_due(&settings, NOW, ServerTime(NOW.0 - 600_000_000)));
}

#[test]
fn an_hour_that_a_zone_leaves_out_has_a_digest() {
    // Clocks in Berlin went from 02:00 to 03:00 on 2024-03-31.
    let settings = with_digest("02:30", "Europe/Berlin");
    let now = ServerTime(1_711_850_400_000_000);
    assert!(is_due(&settings, now, ServerTime(now.0 - 12 * 3_600_000_000)));
    assert!(!is_due(&settings, now, ServerTime(now.0 - 60_000_000)));
}

fn node(name: &str, hours: Option<i64>, is_locked: bool) -> NodeFacts {
    NodeFacts {
        id: NodeId(1),
        name: name.to_owned(),
        domain: DomainId(1),
        registered: hours_ago(99),
        is_locked,
        last_backup: hours.map(hours_ago),
        old_filespaces: Vec::new(),
        certificate_end: None,
        good_drill: None,
        failed_drill: None,
        lost_versions: 0,
    }
}

fn facts() -> Facts {
    let outcome = |hours, state| EventOutcome {
        schedule: "NIGHTLY".to_owned(),
        planned: hours_ago(hours),
        node: Some(NodeId(1)),
        state,
        reason: String::new(),
    };
    Facts {
        now: NOW,
        nodes: vec![node("a", Some(1), false), node("b", None, true)],
        schedules: BTreeSet::new(),
        outcomes: vec![
            outcome(30, EventState::Missed),
            outcome(9, EventState::Completed),
            outcome(8, EventState::Failed),
        ],
        domains: Vec::new(),
        pools: vec![PoolFacts {
            name: "PRIMARY".to_owned(),
            is_there: true,
            bytes: 512 << 30,
            bytes_max: 1 << 40,
            disk_errors: 0,
            days: Vec::new(),
        }],
        refuses_data: false,
        hold: None,
        volumes: Vec::new(),
        tasks: Vec::new(),
        distrusts_clock: false,
        copy: CopyFacts::Taken(hours_ago(3)),
        damaged_packs: 0,
        certificates: Vec::new(),
        deletions: Vec::new(),
    }
}

fn alert(object: &str, is_known: bool) -> AlertRow {
    let (kind, text) = (Kind::NoBackup, format!("node {object} has no backup"));
    let object = object.to_owned();
    let finding = Finding { kind, object, domain: None, node: None, text, amount: None };
    AlertRow { acknowledged: is_known.then_some(NOW), ..row(&finding, NOW) }
}

#[test]
fn a_digest_says_in_plain_words_how_it_stands() {
    let facts = facts();
    let (b, c, d) = (alert("b", false), alert("c", true), alert("d", false));
    let digest = Digest { facts: &facts, open: &[&b, &c], over: &[&d], has_server: true };
    let notice = digest.notice(&AlertSettings::default(), "backup");
    let subject = "[Holdfast backup] 2 alerts are open; 1 of 2 nodes has a good backup";
    assert_eq!(notice.subject, subject);
    let expected = "\
1 of 2 nodes has a good backup of the last 26 hours. Locked: 1.
Events of the last day: 1 completed, 1 failed, 0 missed.
Pool PRIMARY is full by 50 %: 512.0 GB of 1.0 TB.
The newest copy of the catalogue is of 2023-11-14 19:13.

Open:

A node has no good backup:
- node b has no backup

Acknowledged, and still open: 1.

Over since the last digest:

A node has no good backup:
- node d has no backup

";
    assert_eq!(notice.text, expected);
    let document: serde_json::Value = serde_json::from_str(&notice.document).expect("is JSON");
    assert_eq!(
        (&document["nodes_with_good_backup"], &document["alerts_open"]),
        (&1.into(), &2.into())
    );
}

#[test]
fn the_people_of_a_domain_hear_nothing_of_the_server() {
    let facts = facts();
    let digest = Digest { facts: &facts, open: &[], over: &[], has_server: false };
    let notice = digest.notice(&AlertSettings::default(), "backup");
    let expected = "\
1 of 2 nodes has a good backup of the last 26 hours. Locked: 1.
Events of the last day: 1 completed, 1 failed, 0 missed.

No alert is open.

";
    assert_eq!(notice.text, expected);
    assert!(notice.subject.ends_with("nothing is wrong; 1 of 2 nodes has a good backup"));
}
