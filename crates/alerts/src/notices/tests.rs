//! Tests of notices: when they are due, and their words.

use model::DomainId;

use super::*;
use crate::book::row;
use crate::rules::Finding;

const NOW: ServerTime = ServerTime(1_700_000_000_000_000);

fn minutes_ago(minutes: i64) -> ServerTime {
    ServerTime(NOW.0 - minutes * MINUTE_MICROS)
}

fn alert(kind: Kind, object: &str) -> AlertRow {
    let (domain, text) = (Some(DomainId(1)), format!("the text of {object}"));
    let object = object.to_owned();
    let finding = Finding { kind, object, domain, node: None, text, amount: None };
    row(&finding, minutes_ago(60))
}

/// Quiet hours that contain NOW, which is 22:13.
fn quiet() -> AlertSettings {
    let hours = "22:00-06:00".to_owned().try_into().expect("hours");
    AlertSettings { quiet: Some(hours), ..AlertSettings::default() }
}

/// Returns the objects whose beginning and end are told.
fn told(
    pending: &[AlertRow],
    settings: &AlertSettings,
    last: Option<ServerTime>,
) -> Option<(Vec<String>, Vec<String>)> {
    let objects = |alerts: Vec<&AlertRow>| alerts.iter().map(|one| one.object.clone()).collect();
    let news = due(pending, settings, NOW, last)?;
    Some((objects(news.opened), objects(news.ended)))
}

fn one(object: &str) -> Vec<String> {
    vec![object.to_owned()]
}

#[test]
fn a_notice_waits_for_more_alerts_after_the_first() {
    let settings = AlertSettings::default();
    let with = |minutes| [AlertRow { opened: minutes_ago(minutes), ..alert(Kind::NoBackup, "a") }];
    assert_eq!(told(&with(4), &settings, None), None);
    assert_eq!(told(&with(5), &settings, None), Some((one("a"), vec![])));
    let both = [with(0)[0].clone(), AlertRow { object: "b".to_owned(), ..with(5)[0].clone() }];
    let objects = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(told(&both, &settings, None), Some((objects, vec![])));
}

#[test]
fn notices_keep_their_distance() {
    let settings = AlertSettings::default();
    let pending = [alert(Kind::NoBackup, "a")];
    assert_eq!(told(&pending, &settings, Some(minutes_ago(14))), None);
    assert_eq!(told(&pending, &settings, Some(minutes_ago(15))), Some((one("a"), vec![])));
    let urgent = [alert(Kind::DamagedData, "packs")];
    assert_eq!(told(&urgent, &settings, Some(minutes_ago(14))), None);
}

#[test]
fn quiet_hours_hold_up_what_is_not_urgent() {
    let over = AlertRow {
        told: Some(minutes_ago(90)),
        ended: Some(minutes_ago(60)),
        ..alert(Kind::NoBackup, "b")
    };
    let mut pending = vec![alert(Kind::NoBackup, "a"), over];
    assert_eq!(told(&pending, &quiet(), None), None);
    assert_eq!(told(&pending, &AlertSettings::default(), None), Some((one("a"), one("b"))));
    let damaged = AlertRow { opened: NOW, ..alert(Kind::DamagedData, "packs") };
    pending.push(damaged);
    assert_eq!(told(&pending, &quiet(), None), Some((one("packs"), vec![])));
}

#[test]
fn nobody_is_told_twice_or_of_what_somebody_knows() {
    let settings = AlertSettings::default();
    let told_already = AlertRow { told: Some(minutes_ago(9)), ..alert(Kind::NoBackup, "a") };
    let known = AlertRow { acknowledged: Some(minutes_ago(9)), ..alert(Kind::NoBackup, "b") };
    let short = AlertRow { ended: Some(minutes_ago(9)), ..alert(Kind::NoBackup, "c") };
    let all = [told_already, known, short];
    assert_eq!(told(&all, &settings, None), None);
}

#[test]
fn a_thousand_alerts_are_one_notice_of_bounded_length() {
    let pending: Vec<AlertRow> = (0..1_000)
        .map(|number| alert(Kind::NoBackup, &format!("node-{number}")))
        .collect();
    let news = due(&pending, &AlertSettings::default(), NOW, None).expect("is due");
    let notice = news.notice("backup");
    assert_eq!(notice.subject, "[Holdfast backup] 1,000 nodes have no good backup");
    assert!(notice.text.contains("- the text of node-19\nand 980 more\n"), "{}", notice.text);
    assert!(notice.text.lines().count() < 40);
    let document: serde_json::Value = serde_json::from_str(&notice.document).expect("is JSON");
    assert_eq!(document["opened"], 1_000);
    assert_eq!(document["alerts"].as_array().map(Vec::len), Some(SENT_MAX));
}

#[test]
fn a_notice_names_what_is_new_and_what_is_over() {
    let pending = [
        alert(Kind::NoBackup, "a"),
        alert(Kind::DamagedData, "packs"),
        AlertRow {
            told: Some(minutes_ago(90)),
            ended: Some(minutes_ago(60)),
            ..alert(Kind::CopyOld, "catalogue")
        },
    ];
    let news = due(&pending, &AlertSettings::default(), NOW, None).expect("is due");
    let notice = news.notice("backup");
    assert_eq!(
        notice.subject,
        "[Holdfast backup] damaged data was found, a node has no good backup"
    );
    let expected = "New:\n\nDamaged data was found:\n- the text of packs\n\nA node has no good \
                    backup:\n- the text of a\n\nOver:\n\nThe copy of the catalogue is old:\n- the \
                    text of catalogue\n\nAll alerts: 'holdfast admin alert list', or GET \
                    /v1/alerts.\n";
    assert_eq!(notice.text, expected);
    let over = News { opened: vec![], ended: vec![&pending[2]] };
    let subject = "[Holdfast backup] all clear: 1 alert is over";
    assert_eq!(over.notice("backup").subject, subject);
}

/// Returns the objects of which the people of domain 1 are told.
fn told_in(
    alerts: &[AlertRow],
    settings: &AlertSettings,
    heard: Heard,
) -> Option<(Vec<String>, Vec<String>)> {
    let objects = |alerts: Vec<&AlertRow>| alerts.iter().map(|one| one.object.clone()).collect();
    let is_own = |alert: &AlertRow| alert.domain == Some(DomainId(1));
    let news = due_of(alerts, is_own, settings, NOW, heard)?;
    Some((objects(news.opened), objects(news.ended)))
}

#[test]
fn the_people_of_a_domain_hear_of_it_whenever_others_have_heard() {
    let settings = AlertSettings::default();
    let others = [None, Some(DomainId(9))];
    let mut alerts =
        others.map(|domain| AlertRow { domain, ..alert(Kind::NoBackup, "b") }).to_vec();
    let hours_ago = Heard::up_to(minutes_ago(120));
    assert_eq!(told_in(&alerts, &settings, hours_ago), None);
    // The people who run the service have been told a minute ago.
    alerts.push(AlertRow { told: Some(minutes_ago(1)), ..alert(Kind::NoBackup, "a") });
    assert_eq!(told_in(&alerts, &settings, hours_ago), Some((one("a"), vec![])));
    assert_eq!(told_in(&alerts, &settings, Heard::up_to(minutes_ago(60))), None);
    alerts[2].ended = Some(minutes_ago(20));
    assert_eq!(told_in(&alerts, &settings, hours_ago), None, "they have not heard of it");
    let heard = Heard::up_to(minutes_ago(30));
    assert_eq!(told_in(&alerts, &settings, heard), Some((vec![], one("a"))));
    assert_eq!(told_in(&alerts, &settings, heard.with_notice(&settings, NOW)), None);
    let known = AlertRow { acknowledged: Some(minutes_ago(50)), told: None, ..alerts[2].clone() };
    assert_eq!(told_in(&[known], &settings, heard), None, "nobody was told of its beginning");
}

#[test]
fn the_notices_of_a_domain_keep_their_distance() {
    let settings = AlertSettings::default();
    let new = AlertRow { opened: minutes_ago(9), ..alert(Kind::NoBackup, "a") };
    let told_of = |minutes| {
        let heard = Heard::up_to(minutes_ago(minutes));
        told_in(std::slice::from_ref(&new), &settings, heard)
    };
    assert_eq!(told_of(14), None);
    assert_eq!(told_of(15), Some((one("a"), vec![])));
}

#[test]
fn what_quiet_hours_held_up_follows_for_a_domain() {
    let settings = AlertSettings { pause_minutes: 0, ..AlertSettings::default() };
    let quiet = AlertSettings { pause_minutes: 0, ..quiet() };
    let alerts = [alert(Kind::NoBackup, "a"), alert(Kind::MassDeletion, "b")];
    let heard = Heard::up_to(minutes_ago(120));
    assert_eq!(told_in(&alerts, &quiet, heard), Some((one("b"), vec![])));
    let heard = heard.with_notice(&quiet, minutes_ago(10));
    assert_eq!(told_in(&alerts, &quiet, heard), None);
    assert_eq!(told_in(&alerts, &settings, heard), Some((one("a"), vec![])));
}

#[test]
fn a_clock_that_was_set_back_hides_nothing() {
    let settings = AlertSettings { pause_minutes: 0, group_minutes: 0, ..AlertSettings::default() };
    let alerts = [AlertRow { opened: NOW, ..alert(Kind::NoBackup, "a") }];
    let heard = Heard::up_to(minutes_ago(-60));
    assert_eq!(told_in(&alerts, &settings, heard), None);
    assert_eq!(told_in(&alerts, &settings, heard.set_back(NOW)), Some((one("a"), vec![])));
    assert_eq!(Heard::up_to(NOW).set_back(NOW), Heard::up_to(NOW));
}

#[test]
fn a_subject_is_one_short_line() {
    let long = subject("h", &"x\n".repeat(300));
    assert!(!long.contains('\n'));
    assert_eq!(long.chars().count(), SUBJECT_MAX + 3);
}
