//! Tests of the rules, each with its edges.

use store::Hold;
use store::quotas::LimitUse;

use super::*;
use crate::facts::TaskFacts;

const NOW: ServerTime = ServerTime(1_700_000_000_000_000);

fn hours_ago(hours: i64) -> ServerTime {
    ServerTime(NOW.0 - hours * HOUR_MICROS)
}

fn node(name: &str) -> NodeFacts {
    NodeFacts {
        id: NodeId(7),
        name: name.to_owned(),
        domain: DomainId(3),
        registered: hours_ago(1_000),
        is_locked: false,
        last_backup: Some(hours_ago(1)),
        old_filespaces: Vec::new(),
        certificate_end: None,
        good_drill: None,
        failed_drill: None,
        lost_versions: 0,
    }
}

fn facts() -> Facts {
    Facts {
        now: NOW,
        nodes: Vec::new(),
        schedules: ["NIGHTLY".to_owned()].into(),
        outcomes: Vec::new(),
        pools: Vec::new(),
        refuses_data: false,
        hold: None,
        domains: Vec::new(),
        volumes: Vec::new(),
        tasks: Vec::new(),
        distrusts_clock: false,
        copy: CopyFacts::Unknown,
        damaged_packs: 0,
        certificates: Vec::new(),
        deletions: Vec::new(),
    }
}

fn pool() -> PoolFacts {
    PoolFacts {
        name: "PRIMARY".to_owned(),
        is_there: true,
        bytes: 50,
        bytes_max: 100,
        disk_errors: 0,
        days: Vec::new(),
    }
}

/// Returns the kinds and texts of the findings.
fn found(facts: &Facts) -> Vec<(Kind, String)> {
    let assessment = assess(facts, &AlertSettings::default());
    assessment
        .findings
        .into_iter()
        .map(|finding| (finding.kind, finding.text))
        .collect()
}

#[track_caller]
fn check(facts: &Facts, expected: &[(Kind, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
    assert_eq!(found(facts), expected);
}

#[test]
fn a_node_needs_a_good_backup() {
    let with = |last_backup, registered, is_locked| Facts {
        nodes: vec![NodeFacts { last_backup, registered, is_locked, ..node("web-1") }],
        ..facts()
    };
    check(&with(Some(hours_ago(26)), hours_ago(99), false), &[]);
    let text = "the last good backup of node web-1 began on 2023-11-13 19:13";
    check(&with(Some(hours_ago(27)), hours_ago(99), false), &[(Kind::NoBackup, text)]);
    check(&with(None, hours_ago(26), false), &[]);
    let text = "node web-1 has had no good backup since it was registered on 2023-11-13 19:13";
    check(&with(None, hours_ago(27), false), &[(Kind::NoBackup, text)]);
    check(&with(None, hours_ago(27), true), &[]);
}

#[test]
fn a_mount_point_that_is_backed_up_no_longer_is_found_among_others() {
    let with = |last_backup, old: &[(&str, i64)], is_locked| {
        let of = |(name, hours): &(&str, i64)| ((*name).to_owned(), hours_ago(*hours));
        let old_filespaces = old.iter().map(of).collect();
        let node = NodeFacts { last_backup, old_filespaces, is_locked, ..node("web-1") };
        Facts { nodes: vec![node], ..facts() }
    };
    let (now, old) = (Some(hours_ago(1)), 8 * 24 + 1);
    check(&with(now, &[], false), &[]);
    let text = "node web-1 has newer backups, but the last good one of /data began on 2023-11-06 \
                21:13";
    check(&with(now, &[("/data", old)], false), &[(Kind::OldFilespace, text)]);
    let of_home = text.replace("/data", "/home");
    let two = [("/data", old), ("/home", old)];
    let each = [(Kind::OldFilespace, text), (Kind::OldFilespace, of_home.as_str())];
    check(&with(now, &two, false), &each);
    check(&with(now, &[("/data", old)], true), &[]);
    let whole = with(Some(hours_ago(old)), &[("/data", old)], false);
    let kinds: Vec<Kind> = found(&whole).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [Kind::NoBackup], "one finding about one state");
}

#[test]
fn a_finding_names_its_node_and_domain() {
    let facts = Facts { nodes: vec![NodeFacts { last_backup: None, ..node("a") }], ..facts() };
    let findings = assess(&facts, &AlertSettings::default()).findings;
    assert_eq!((findings[0].domain, findings[0].node), (Some(DomainId(3)), Some(NodeId(7))));
    assert_eq!(findings[0].object, "a");
}

#[test]
fn a_drill_is_good_until_a_later_one_fails() {
    let with = |good_drill, failed: Option<i64>| {
        let failed_drill = failed.map(|hours| (hours_ago(hours), "3 files".to_owned()));
        Facts { nodes: vec![NodeFacts { good_drill, failed_drill, ..node("a") }], ..facts() }
    };
    check(&with(None, None), &[]);
    check(&with(Some(hours_ago(1)), Some(2)), &[]);
    let text = "the restore drill of node a on 2023-11-14 20:13 failed: 3 files";
    check(&with(Some(hours_ago(3)), Some(2)), &[(Kind::DrillFailed, text)]);
    let text = "node a was last proven restorable on 2023-10-10 21:13";
    check(&with(Some(hours_ago(35 * 24 + 1)), None), &[(Kind::DrillOld, text)]);
}

#[test]
fn a_certificate_is_to_be_renewed_before_its_end() {
    let with = |hours: i64| Facts {
        nodes: vec![NodeFacts { certificate_end: Some(hours_ago(-hours)), ..node("a") }],
        ..facts()
    };
    check(&with(14 * 24), &[]);
    let text = "the certificate of node a ends on 2023-11-28 21:13, and the node does not renew it";
    check(&with(14 * 24 - 1), &[(Kind::NodeCertificate, text)]);
    let text = "the certificate of node a has ended on 2023-11-14 21:13; give the node a new token";
    check(&with(-1), &[(Kind::NodeCertificate, text)]);
}

fn outcome(hours: i64, state: EventState, node: Option<NodeId>) -> EventOutcome {
    let planned = hours_ago(hours);
    let (schedule, reason) = ("NIGHTLY".to_owned(), "disk\nfull".to_owned());
    EventOutcome { schedule, planned, node, state, reason }
}

#[test]
fn the_last_outcome_of_an_event_counts() {
    use EventState::{Completed, Failed, Missed};
    let with = |outcomes: Vec<EventOutcome>| Facts { nodes: vec![node("a")], outcomes, ..facts() };
    let own = Some(NodeId(7));
    check(&with(vec![outcome(9, Failed, own), outcome(8, Completed, own)]), &[]);
    let text = "the event of NIGHTLY at node a, planned for 2023-11-14 14:13, failed: disk full";
    let facts = with(vec![outcome(9, Completed, own), outcome(8, Failed, own)]);
    check(&facts, &[(Kind::EventFailed, text)]);
    let assessment = assess(&facts, &AlertSettings::default());
    assert_eq!(assessment.good_events, BTreeSet::new());
    assert!(is_event_there(&assessment, "NIGHTLY at a"));
    assert!(!is_event_there(&assessment, "NIGHTLY at b"));
    assert!(!is_event_there(&assessment, "WEEKLY at a"));
    let good = assess(&with(vec![outcome(8, Completed, own)]), &AlertSettings::default());
    assert_eq!(good.good_events, BTreeSet::from(["NIGHTLY at a".to_owned()]));
    let server = "the event of NIGHTLY at the server, planned for 2023-11-14 14:13, was missed: \
                  disk full";
    check(&with(vec![outcome(8, Missed, None)]), &[(Kind::EventMissed, server)]);
    check(&with(vec![outcome(8, Failed, Some(NodeId(99)))]), &[]);
    let off = AlertSettings { events: false, ..AlertSettings::default() };
    assert_eq!(assess(&facts, &off).findings, []);
}

#[test]
fn a_pool_is_there_has_room_and_no_errors() {
    let with = |pool| Facts { pools: vec![pool], ..facts() };
    check(&with(pool()), &[]);
    let text = "pool PRIMARY is not available";
    check(&with(PoolFacts { is_there: false, ..pool() }), &[(Kind::PoolAway, text)]);
    let text = "pool PRIMARY is full by 90 %";
    check(&with(PoolFacts { bytes: 90, ..pool() }), &[(Kind::PoolFull, text)]);
    check(&with(PoolFacts { bytes: 90, bytes_max: 0, ..pool() }), &[]);
    // A large record may be refused by a small pool that is not so full yet. A pool that is full
    // hides no refusal: it may be a copy pool.
    let refuses = |bytes| Facts { refuses_data: true, ..with(PoolFacts { bytes, ..pool() }) };
    let refused = "the server refuses new data, because no pool has room for it";
    check(&refuses(90), &[(Kind::PoolFull, text), (Kind::PoolFull, refused)]);
    check(&refuses(80), &[(Kind::PoolFull, refused)]);
    let today = NOW.0 / DAY_MICROS;
    let text = "pool PRIMARY will be full on 2023-11-24, if it grows as it did";
    let grown = PoolFacts { days: vec![(today - 5, 25)], ..pool() };
    check(&with(grown), &[(Kind::PoolFills, text)]);
    check(&with(PoolFacts { days: vec![(today - 5, 35)], ..pool() }), &[]);
    let text = "the disk of pool PRIMARY has had 1 error since the server began";
    check(&with(PoolFacts { disk_errors: 1, ..pool() }), &[(Kind::DiskErrors, text)]);
}

#[test]
fn a_domain_that_is_near_a_limit_is_one_alert_of_the_domain() {
    let limit = |unit, used, max| LimitUse { unit, used, max };
    let near = vec![limit("node", 1, 1), limit("byte", 90, 100)];
    let full = NearDomain { id: DomainId(3), name: "LAB".to_owned(), near };
    let facts = Facts { domains: vec![full], ..facts() };
    let text = "domain LAB has 1 of 1 node, and 90 of 100 bytes that it may have";
    check(&facts, &[(Kind::DomainFull, text)]);
    let found = assess(&facts, &AlertSettings::default()).findings;
    assert_eq!((found[0].domain, found[0].node), (Some(DomainId(3)), None));
}

#[test]
fn damage_is_told_of_each_node_too() {
    let nodes = [("web-1", 3), ("web-2", 0)];
    let nodes = nodes.map(|(name, lost_versions)| NodeFacts { lost_versions, ..node(name) });
    let facts = Facts { nodes: nodes.to_vec(), damaged_packs: 12, ..facts() };
    let findings = assess(&facts, &AlertSettings::default()).findings;
    let told = |finding: &Finding| {
        assert_eq!(finding.kind, Kind::DamagedData);
        (finding.object.clone(), finding.node, finding.domain, finding.amount)
    };
    let told: Vec<_> = findings.iter().map(told).collect();
    let of_node = ("data of web-1".to_owned(), Some(NodeId(7)), Some(DomainId(3)), Some(3));
    assert_eq!(told, [of_node, ("packs".to_owned(), None, None, Some(12))]);
    let text = "3 stored versions of node web-1 cannot be restored as a whole, because data is \
                damaged; a full backup of the node stores again what it still has";
    assert_eq!(findings[0].text, text);
}

#[test]
fn the_server_has_its_own_state() {
    check(
        &Facts { volumes: vec![("A00001L8".to_owned(), 3)], ..facts() },
        &[(Kind::TapeErrors, "volume A00001L8 has 3 errors")],
    );
    let damaged = "2 packs have damaged data; 'holdfast admin audit' names the objects";
    check(&Facts { damaged_packs: 2, ..facts() }, &[(Kind::DamagedData, damaged)]);
    check(&Facts { copy: CopyFacts::Taken(hours_ago(48)), ..facts() }, &[]);
    check(
        &Facts { copy: CopyFacts::Taken(hours_ago(49)), ..facts() },
        &[(Kind::CopyOld, "the newest copy of the catalogue is of 2023-11-12 21:13")],
    );
    check(
        &Facts { copy: CopyFacts::None { since: hours_ago(49) }, ..facts() },
        &[(Kind::CopyOld, "there is no copy of the catalogue since 2023-11-12 21:13")],
    );
    check(
        &Facts { certificates: vec![("the API", hours_ago(-24))], ..facts() },
        &[(Kind::ServerCertificate, "the certificate of the API ends on 2023-11-15 22:13")],
    );
    let task = |has_failed| TaskFacts {
        task: "expire".to_owned(),
        ended: hours_ago(1),
        has_failed,
        reason: "no space".to_owned(),
    };
    check(&Facts { tasks: vec![task(false)], ..facts() }, &[]);
    check(
        &Facts { tasks: vec![task(true)], ..facts() },
        &[(Kind::TaskFailed, "the task 'expire' failed on 2023-11-14 21:13: no space")],
    );
    // The task of expiration does not even begin.
    let text = "nothing expires, and schedules wait, because the server does not trust its clock; \
                'expiration refused' in 'holdfast admin log' says why";
    check(&Facts { distrusts_clock: true, ..facts() }, &[(Kind::TaskFailed, text)]);
}

#[test]
fn a_server_that_is_held_is_named_with_its_reason() {
    for (hold, reason) in [
        (Hold::Recovered, "this server was recovered"),
        (Hold::Older { copy: 7 }, "the catalogue is older than its copy 7 in the pools"),
    ] {
        let found = found(&Facts { hold: Some(hold), ..facts() });
        let [(Kind::ServerHeld, text)] = &found[..] else { panic!("{found:?}") };
        assert!(text.starts_with(reason) && text.contains("reclaim --release"), "{text}");
    }
}

#[test]
fn a_backup_that_finds_much_deleted_is_named() {
    let deletion = DeletionFacts {
        node: NodeId(7),
        filespace: "/srv".to_owned(),
        ended: hours_ago(1),
        deleted: 5_000,
        usual: 1,
    };
    let facts = Facts { nodes: vec![node("a")], deletions: vec![deletion], ..facts() };
    let text = "the backup of /srv of node a that ended on 2023-11-14 21:13 found 5,000 objects \
                deleted; the backups before found at most 1";
    check(&facts, &[(Kind::MassDeletion, text)]);
}

#[test]
fn a_rule_with_0_is_switched_off() {
    let facts = Facts {
        nodes: vec![NodeFacts {
            last_backup: None,
            certificate_end: Some(NOW),
            good_drill: Some(ServerTime(0)),
            ..node("a")
        }],
        pools: vec![PoolFacts { bytes: 99, days: vec![(NOW.0 / DAY_MICROS - 5, 1)], ..pool() }],
        copy: CopyFacts::Taken(ServerTime(0)),
        certificates: vec![("the API", NOW)],
        ..facts()
    };
    assert_eq!(found(&facts).len(), 6);
    let off = AlertSettings {
        backup_hours: 0,
        filespace_days: 0,
        certificate_days: 0,
        drill_days: 0,
        pool_percent: 0,
        pool_days: 0,
        copy_hours: 0,
        ..AlertSettings::default()
    };
    assert_eq!(assess(&facts, &off).findings, []);
}
