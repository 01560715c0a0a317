//! The book of alerts: which begin and which end, from what the rules say (pure).

use std::collections::{BTreeMap, BTreeSet};

use catalog::{AlertChanges, AlertRow};
use model::ServerTime;

use crate::kind::{Ending, Kind};
use crate::rules::{Assessment, DAY_MICROS, Finding, is_event_there};

/// Prefix of the marks with the amounts that the alerts about damage tell. The object follows.
pub(crate) const DAMAGE: &str = "alerts damage ";

/// Returns the changes that make the alerts in `pending` those of the assessment. An alert that
/// goes on keeps its beginning. `told` are the marks of the last look with the prefix [`DAMAGE`].
pub(crate) fn reconcile(
    pending: &[AlertRow],
    assessment: &Assessment,
    told: &BTreeMap<String, i64>,
    now: ServerTime,
) -> AlertChanges {
    let mut found: BTreeMap<(&str, &str), &Finding> = BTreeMap::new();
    for finding in &assessment.findings {
        found.insert((finding.kind.name(), &finding.object), finding);
    }
    let mut changes = AlertChanges::none(now);
    let mut known = BTreeSet::new();
    for alert in pending.iter().filter(|alert| alert.ended.is_none()) {
        let key = (alert.kind.as_str(), alert.object.as_str());
        match found.get(&key) {
            Some(finding) if is_worse(alert, finding, told) => {
                changes.ended.push(alert.number);
                // The same goes on, so nobody is told of an end.
                changes.ends_told.push(alert.number);
            }
            Some(finding) => {
                known.insert(key);
                if finding.text != alert.text {
                    changes.reworded.push((alert.number, finding.text.clone()));
                }
            }
            None if is_over(alert, assessment, now) => changes.ended.push(alert.number),
            None => {}
        }
    }
    let new = found.iter().filter(|(key, _)| !known.contains(*key));
    changes.opened = new.map(|(_, finding)| row(finding, now)).collect();
    let amounts = found.values().filter_map(|finding| amount(finding));
    changes.marks = amounts.filter(|(name, amount)| told.get(name) != Some(amount)).collect();
    changes
}

/// Returns the mark with the amount of a finding that can get worse.
fn amount(finding: &Finding) -> Option<(String, i64)> {
    let amount = i64::try_from(finding.amount?).unwrap_or(i64::MAX);
    Some((format!("{DAMAGE}{}", finding.object), amount))
}

/// Returns true if more data is damaged than somebody has acknowledged. It is a new alert, because
/// nobody is told of an acknowledged one.
fn is_worse(alert: &AlertRow, finding: &Finding, told: &BTreeMap<String, i64>) -> bool {
    let grows = |(name, amount): (String, i64)| told.get(&name).is_some_and(|told| amount > *told);
    alert.acknowledged.is_some() && amount(finding).is_some_and(grows)
}

/// Returns true if an alert is over that the rules do not find.
fn is_over(alert: &AlertRow, assessment: &Assessment, now: ServerTime) -> bool {
    match Kind::of_name(&alert.kind).map_or(Ending::Gone, Kind::ending) {
        Ending::Gone => true,
        Ending::Good => {
            assessment.good_events.contains(&alert.object)
                || !is_event_there(assessment, &alert.object)
                || is_followed_by_another(alert, assessment)
        }
        Ending::Days(days) => {
            alert.acknowledged.is_some() || now.0 - alert.opened.0 > days * DAY_MICROS
        }
    }
}

/// Returns true if the event of the alert has a later outcome of another kind.
fn is_followed_by_another(alert: &AlertRow, assessment: &Assessment) -> bool {
    let mut findings = assessment.findings.iter();
    findings.any(|finding| {
        finding.kind.ending() == Ending::Good
            && finding.kind.name() != alert.kind
            && finding.object == alert.object
    })
}

/// Returns the alert that begins with the finding. The catalogue gives it its number.
pub(crate) fn row(finding: &Finding, now: ServerTime) -> AlertRow {
    AlertRow {
        number: 0,
        kind: finding.kind.name().to_owned(),
        object: finding.object.clone(),
        domain: finding.domain,
        node: finding.node,
        is_urgent: finding.kind.is_urgent(),
        text: finding.text.clone(),
        opened: now,
        ended: None,
        told: None,
        end_told: None,
        acknowledged: None,
        acknowledged_by: String::new(),
        note: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: ServerTime = ServerTime(1_700_000_000_000_000);

    fn finding(kind: Kind, object: &str, text: &str) -> Finding {
        let (object, text) = (object.to_owned(), text.to_owned());
        Finding { kind, object, domain: None, node: None, text, amount: None }
    }

    fn alert(number: u64, kind: Kind, object: &str) -> AlertRow {
        AlertRow { number, ..row(&finding(kind, object, "text"), NOW) }
    }

    fn assessment(findings: &[Finding]) -> Assessment {
        Assessment {
            findings: findings.to_vec(),
            nodes: ["a".to_owned()].into(),
            schedules: ["S".to_owned()].into(),
            ..Assessment::default()
        }
    }

    /// Returns the objects that begin, the numbers that end, and those with new words.
    fn changes(pending: &[AlertRow], assessment: &Assessment) -> (Vec<String>, Vec<u64>, Vec<u64>) {
        let changes = reconcile(pending, assessment, &BTreeMap::new(), NOW);
        let opened = changes.opened.into_iter().map(|alert| alert.object).collect();
        let reworded = changes.reworded.into_iter().map(|(number, _)| number).collect();
        (opened, changes.ended, reworded)
    }

    #[test]
    fn more_damage_than_somebody_has_acknowledged_is_a_new_alert() {
        let damage = |packs: u64| Finding {
            amount: Some(packs),
            ..finding(Kind::DamagedData, "packs", &packs.to_string())
        };
        let with = |packs, acknowledged| AlertRow { acknowledged, ..row(&damage(packs), NOW) };
        let look = |alert: AlertRow, told: &BTreeMap<String, i64>, packs: u64| {
            let found = reconcile(&[alert], &assessment(&[damage(packs)]), told, NOW);
            let counts = [found.opened.len(), found.ended.len(), found.ends_told.len()];
            (counts, found.reworded.len(), found.marks)
        };
        let told = |packs| BTreeMap::from([("alerts damage packs".to_owned(), packs)]);
        let mark = |packs| told(packs).into_iter().collect::<Vec<_>>();
        let known = Some(NOW);
        assert_eq!(look(with(2, known), &told(2), 10), ([1, 1, 1], 0, mark(10)));
        let heard = look(with(2, None), &told(2), 10);
        assert_eq!(heard, ([0, 0, 0], 1, mark(10)), "somebody is told of this one");
        assert_eq!(look(with(10, known), &told(10), 2), ([0, 0, 0], 1, mark(2)));
        assert_eq!(look(with(2, known), &told(2), 2), ([0, 0, 0], 0, Vec::new()));
        let first = look(with(2, known), &BTreeMap::new(), 2);
        assert_eq!(first, ([0, 0, 0], 0, mark(2)), "an older program has told it");
    }

    #[test]
    fn alerts_begin_go_on_and_end() {
        let pending = [
            alert(1, Kind::NoBackup, "a"),
            alert(2, Kind::NoBackup, "b"),
            alert(3, Kind::CopyOld, "a"),
        ];
        let found = [
            finding(Kind::NoBackup, "a", "other text"),
            finding(Kind::NoBackup, "c", "text"),
            finding(Kind::CopyOld, "a", "text"),
        ];
        let expected = (vec!["c".to_owned()], vec![2], vec![1]);
        assert_eq!(changes(&pending, &assessment(&found)), expected);
    }

    #[test]
    fn an_alert_about_an_event_ends_with_a_good_one() {
        let failed = [alert(1, Kind::EventFailed, "S at a")];
        let unknown = assessment(&[]);
        assert_eq!(changes(&failed, &unknown), (vec![], vec![], vec![]));
        let good = Assessment { good_events: ["S at a".to_owned()].into(), ..unknown.clone() };
        assert_eq!(changes(&failed, &good), (vec![], vec![1], vec![]));
        let gone = Assessment { schedules: BTreeSet::new(), ..unknown };
        assert_eq!(changes(&failed, &gone), (vec![], vec![1], vec![]));
        let missed = assessment(&[finding(Kind::EventMissed, "S at a", "text")]);
        assert_eq!(changes(&failed, &missed), (vec!["S at a".to_owned()], vec![1], vec![]));
    }

    #[test]
    fn an_alert_about_a_moment_ends_by_time_or_when_it_is_known() {
        let with = |opened, acknowledged| {
            [AlertRow { opened, acknowledged, ..alert(1, Kind::MassDeletion, "/ of a") }]
        };
        let nothing = assessment(&[]);
        let ended = |pending: [AlertRow; 1]| changes(&pending, &nothing).1;
        assert!(ended(with(NOW, None)).is_empty());
        assert_eq!(ended(with(NOW, Some(NOW))), [1]);
        assert_eq!(ended(with(ServerTime(NOW.0 - 7 * DAY_MICROS - 1), None)), [1]);
    }

    #[test]
    fn an_alert_of_a_kind_that_this_program_does_not_know_ends() {
        let unknown = AlertRow { kind: "rain".to_owned(), ..alert(1, Kind::NoBackup, "a") };
        assert_eq!(changes(&[unknown], &assessment(&[])).1, [1]);
    }

    proptest! {
        /// Looking twice at the same state changes nothing.
        #[test]
        fn a_second_look_finds_nothing_new(
            objects in proptest::collection::vec((0..Kind::ALL.len(), "[ab]"), 0..20),
        ) {
            let findings: Vec<Finding> = objects
                .iter()
                .map(|(kind, object)| finding(Kind::ALL[*kind], object, "text"))
                .collect();
            let assessment = assessment(&findings);
            let told = BTreeMap::new();
            let mut pending = reconcile(&[], &assessment, &told, NOW).opened;
            for (number, alert) in (1..).zip(&mut pending) {
                alert.number = number;
            }
            let again = reconcile(&pending, &assessment, &told, NOW);
            prop_assert_eq!(again, AlertChanges::none(NOW));
        }
    }
}
