//! Alerts, their notices, and what is known about many rows at once.

use catalog::{
    AlertChanges, AlertFilter, AlertRow, Catalog, Certificate, Day, Delivery, EventOutcome,
    FinishedBackup, FinishedTransfer, NodeChange, NodeDetails, NodeSight, NoticeRow, PackState,
    PackUsage, RestoreRow, TransferFigures, UsageDay, UsageSubject, Write,
};
use model::{DomainId, NodeId, PackNumber, PersonId, PoolId, ServerTime};
use policy::schedule::event::{EventState, Phase};

use super::schedules::{event, report};
use super::{Engine, people};
use crate::samples::{NOW, add_node, alert, archived, at, notice, pack, refusal, session};

const STANDARD: DomainId = DomainId(1);

fn opened(catalog: &dyn Catalog, objects: &[&str]) -> Vec<AlertRow> {
    let opened = objects.iter().map(|object| alert(object)).collect();
    let changes = AlertChanges { opened, ..AlertChanges::none(NOW) };
    catalog.change_alerts(&changes).expect("are opened");
    catalog.pending_alerts().expect("are listed")
}

fn objects(alerts: &[AlertRow]) -> Vec<&str> {
    alerts.iter().map(|alert| alert.object.as_str()).collect()
}

pub(crate) fn an_alert_is_there_from_its_opening_to_the_notice_of_its_end(engine: &dyn Engine) {
    let catalog = engine.open();
    let pending = opened(&*catalog, &["a", "b", "c"]);
    assert_eq!(objects(&pending), ["a", "b", "c"]);
    let expected = AlertRow { number: pending[0].number, ..alert("a") };
    assert_eq!(pending[0], expected);
    let numbers: Vec<u64> = pending.iter().map(|alert| alert.number).collect();
    let changes = AlertChanges {
        reworded: vec![(numbers[0], "anew".to_owned())],
        ended: vec![numbers[0], numbers[1]],
        told: vec![numbers[0]],
        marks: vec![("alerts told".to_owned(), 5)],
        notices: vec![notice(1), notice(2)],
        ..AlertChanges::none(at(5))
    };
    catalog.change_alerts(&changes).expect("are changed");
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.mark("alerts told").expect("is set"), Some(5));
    // Nobody has heard of the second one, so nobody has to hear of its end.
    assert_eq!(objects(&catalog.pending_alerts().expect("are listed")), ["a", "c"]);
    let first = catalog.alert(numbers[0]).expect("is found");
    assert_eq!((first.text.as_str(), first.ended, first.told), ("anew", Some(at(5)), Some(at(5))));
    let changes = AlertChanges { ends_told: vec![numbers[0]], ..AlertChanges::none(at(6)) };
    catalog.change_alerts(&changes).expect("are changed");
    assert_eq!(objects(&catalog.pending_alerts().expect("are listed")), ["c"]);
    let listed = |is_open| {
        let filter = AlertFilter { is_open, ..AlertFilter::default() };
        catalog.alerts(&filter, None, 9).expect("are listed")
    };
    assert_eq!(objects(&listed(None)), ["c", "b", "a"]);
    assert_eq!(objects(&listed(Some(true))), ["c"]);
    assert_eq!(objects(&listed(Some(false))), ["b", "a"]);
    let one = catalog.alerts(&AlertFilter::default(), Some(numbers[1]), 1).expect("one");
    assert_eq!(objects(&one), ["b"]);
    assert_eq!(refusal(catalog.alert(77_777)), "not found");
    assert_eq!(catalog.forget_alerts(at(6), at(2)).expect("are forgotten").len(), 1);
    assert_eq!(objects(&listed(None)), ["c"]);
}

pub(crate) fn alerts_are_selected_by_who_sees_them(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name).id);
    let [lab, law] = ["LAB", "LAW"].map(|name| catalog.add_domain(name, at(1)).expect("is added"));
    let anna = people::add(&*catalog, "anna").id;
    let owned = NodeDetails { owner: Some(anna), ..NodeDetails::default() };
    catalog.put_node_details(b, &owned).expect("are kept");
    let about = |object: &str, domain, node| AlertRow { domain, node, ..alert(object) };
    let opened = vec![
        about("service", None, None),
        about("a", Some(STANDARD), Some(a)),
        about("b", Some(STANDARD), Some(b)),
        about("law", Some(law.id), None),
        about("removed", Some(law.id), Some(NodeId(999))),
    ];
    let changes = AlertChanges { opened, ..AlertChanges::none(NOW) };
    catalog.change_alerts(&changes).expect("are opened");
    // The node takes its alert into its new domain.
    let change = NodeChange { domain: Some(lab.id), ..NodeChange::default() };
    catalog.change_node(a, &change).expect("moves");
    let check = |domains: &[DomainId], owner: Option<PersonId>, expected: &[&str]| {
        let seen = Some(NodeSight { domains: domains.iter().copied().collect(), owner });
        let filter = AlertFilter { seen, ..AlertFilter::default() };
        let found = catalog.alerts(&filter, None, 9).expect("are listed");
        assert_eq!(objects(&found), expected, "{domains:?} {owner:?}");
        // The limit counts only what the caller sees.
        let last = catalog.alerts(&filter, found.last().map(|row| row.number), 1);
        assert_eq!(last.expect("is listed").len(), expected.len().min(1));
    };
    check(&[], None, &[]);
    check(&[DomainId(999)], Some(PersonId(999)), &[]);
    check(&[lab.id], None, &["a"]);
    check(&[law.id], None, &["removed", "law"]);
    check(&[], Some(anna), &["b"]);
    check(&[STANDARD, lab.id, law.id], Some(anna), &["removed", "law", "b", "a"]);
    assert_eq!(catalog.alerts(&AlertFilter::default(), None, 9).expect("all").len(), 5);
}

pub(crate) fn a_domain_has_no_alert_and_no_size_of_one_before_it(engine: &dyn Engine) {
    let catalog = engine.open();
    let lab = catalog.add_domain("LAB", at(1)).expect("is added").id;
    let about = |object: &str, node| AlertRow { domain: Some(lab), node, ..alert(object) };
    let opened = vec![about("domain", None), about("removed", Some(NodeId(999)))];
    let changes = AlertChanges { opened, ..AlertChanges::none(NOW) };
    catalog.change_alerts(&changes).expect("are opened");
    let size = |domain| UsageDay {
        subject: UsageSubject::Domain(domain),
        day: Day(7),
        bytes: 5,
        bytes_max: 0,
    };
    catalog.put_usage_days(&[size(lab), size(STANDARD)]).expect("are kept");
    let days = |domain| {
        let subject = UsageSubject::Domain(domain);
        catalog.usage_days(subject, (Day(0), Day(9))).expect("are listed").len()
    };
    let seen = |domain| {
        let seen = Some(NodeSight { domains: [domain].into(), owner: None });
        let filter = AlertFilter { seen, ..AlertFilter::default() };
        catalog.alerts(&filter, None, 9).expect("are listed").len()
    };
    assert_eq!((seen(lab), days(lab)), (2, 1));
    catalog.remove_domain(lab).expect("is removed");
    let law = catalog.add_domain("LAW", at(2)).expect("is added").id;
    assert_eq!(law, lab, "the number is given again");
    assert_eq!((seen(law), days(law)), (0, 0));
    assert_eq!(days(STANDARD), 1);
    let all = catalog.alerts(&AlertFilter::default(), None, 9).expect("are listed");
    assert_eq!(all.len(), 2, "those who run the service still see them");
}

pub(crate) fn an_alert_is_acknowledged_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let number = opened(&*catalog, &["a"])[0].number;
    let acknowledge =
        |by: &str| catalog.acknowledge_alert(number, by, "is known", at(3)).expect("is asked");
    assert!(acknowledge("anna"));
    assert!(!acknowledge("bert"));
    let row = catalog.alert(number).expect("is found");
    assert_eq!((row.acknowledged, row.acknowledged_by.as_str()), (Some(at(3)), "anna"));
    assert_eq!(row.note, "is known");
    let changes = AlertChanges { ended: vec![number], ..AlertChanges::none(at(4)) };
    catalog.change_alerts(&changes).expect("is ended");
    assert!(!acknowledge("carl"));
}

pub(crate) fn a_notice_waits_until_it_was_sent(engine: &dyn Engine) {
    let catalog = engine.open();
    let changes = AlertChanges { notices: vec![notice(1), notice(2)], ..AlertChanges::none(at(2)) };
    catalog.change_alerts(&changes).expect("are made");
    let due = |now| catalog.due_notices(now, 9).expect("are listed");
    let [first, second] = &due(at(2))[..] else { panic!("two are due") };
    assert_eq!(*first, NoticeRow { number: first.number, ..notice(1) });
    assert_eq!(due(at(1)), std::slice::from_ref(first));
    let failed = Delivery::Failed { error: "away".to_owned(), due: at(60) };
    catalog.note_delivery(first.number, &failed, at(3)).expect("is noted");
    catalog.note_delivery(second.number, &Delivery::Sent, at(3)).expect("is noted");
    catalog.note_delivery(77_777, &Delivery::Sent, at(3)).expect("is passed over");
    assert_eq!(due(at(59)), []);
    let catalog = engine.reopen(catalog);
    let due = catalog.due_notices(at(60), 9).expect("are listed");
    assert_eq!((due[0].attempts, due[0].error.as_str()), (1, "away"));
    assert_eq!(catalog.waiting_notices().expect("one"), (1, Some(at(1))));
    let all = catalog.notices(None, 9).expect("are listed");
    assert_eq!(all[0].sent, Some(at(3)));
    assert_eq!(catalog.notices(Some(first.number), 9).expect("one").len(), 1);
    let lost = catalog.forget_alerts(at(0), at(9)).expect("are forgotten");
    assert_eq!(lost.iter().map(|notice| notice.number).collect::<Vec<_>>(), [first.number]);
    assert_eq!(catalog.waiting_notices().expect("none"), (0, None));
}

/// Regression: mails that waited for a mail server kept the notices of webhooks from being listed.
pub(crate) fn no_way_keeps_the_notices_of_another_back(engine: &dyn Engine) {
    let catalog = engine.open();
    let by = |channel: &str, address: &str| NoticeRow {
        channel: channel.to_owned(),
        address: address.to_owned(),
        ..notice(1)
    };
    let mut notices: Vec<NoticeRow> =
        (0..4).map(|number| by("mail", &format!("{number}@example.org"))).collect();
    notices.push(by("report", "4@example.org"));
    notices.extend((0..3).map(|_| by("webhook", "chat")));
    notices.push(by("webhook", "pager"));
    let changes = AlertChanges { notices, ..AlertChanges::none(at(1)) };
    catalog.change_alerts(&changes).expect("are made");
    let due = catalog.due_notices(at(1), 2).expect("are listed");
    let addresses: Vec<&str> = due.iter().map(|notice| notice.address.as_str()).collect();
    assert_eq!(addresses, ["0@example.org", "1@example.org", "chat", "chat", "pager"]);
}

pub(crate) fn changes_of_alerts_happen_together(engine: &dyn Engine) {
    let catalog = engine.open();
    let refused = AlertChanges {
        opened: vec![alert("a")],
        reworded: vec![(u64::MAX, String::new())],
        ..AlertChanges::none(NOW)
    };
    assert!(catalog.change_alerts(&refused).is_err());
    assert_eq!(catalog.pending_alerts().expect("none"), []);
}

pub(crate) fn facts_about_nodes_are_the_last_of_each(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name));
    let mut numbers = Vec::new();
    for (mount, started, complete) in
        [(&b"/"[..], 3, true), (b"/srv", 7, true), (b"/srv", 9, false)]
    {
        let filespace = catalog.open_filespace(a.id, mount, NOW).expect("a filespace").id;
        let session = session(&a, filespace, started, complete);
        numbers.push(session.clone());
        catalog.commit(vec![Write::AddSession(session)]).expect("is added");
    }
    let began = numbers[1].started;
    assert_eq!(catalog.last_backups().expect("one"), [(a.id, began)]);
    for (serial, node, end) in [(1, &a, 9), (2, &a, 5), (3, &b, 4)] {
        let certificate = Certificate { serial: vec![serial], node: node.id, expires: at(end) };
        catalog.add_certificate(&certificate).expect("is added");
    }
    let ends = [(a.id, at(9)), (b.id, at(4))];
    assert_eq!(catalog.certificate_ends().expect("two"), ends);
    let after = |number| catalog.sessions_after(number, 9).expect("are listed");
    let all = after(0);
    let rows: Vec<_> = all.iter().map(|(_, row)| row.clone()).collect();
    assert_eq!(rows, numbers);
    assert_eq!(after(all[1].0), all[2..]);
    assert_eq!(catalog.sessions_after(0, 1).expect("one"), all[..1]);
    assert_eq!(catalog.last_session().expect("a number"), all[2].0);
    let finished = |from, limit| catalog.finished_backups(from, limit).expect("are listed");
    let descending: Vec<_> = all.iter().rev().map(|(number, _)| *number).collect();
    let numbered = |backups: Vec<FinishedBackup>| -> Vec<u64> {
        backups.into_iter().map(|backup| backup.number).collect()
    };
    assert_eq!(numbered(finished(None, 9)), descending);
    assert_eq!(numbered(finished(Some(all[1].0), 1)), descending[1..2]);
    let newest = finished(None, 1).remove(0);
    assert_eq!((newest.node.as_str(), &newest.filespace[..]), ("a", &b"/srv"[..]));
    assert_eq!((newest.started, newest.ended), (numbers[2].started, numbers[2].ended));
    assert_eq!(newest.report, numbers[2].report);
    let of_domain =
        |domain, from, to| catalog.domain_sessions(domain, (from, to)).expect("are listed").len();
    assert_eq!(of_domain(STANDARD, ServerTime(0), ServerTime::MAX), 3);
    assert_eq!(of_domain(STANDARD, numbers[1].ended, numbers[2].ended), 1);
    assert_eq!(of_domain(DomainId(77), ServerTime(0), ServerTime::MAX), 0);
}

pub(crate) fn outcomes_are_of_events_that_are_over(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let events = [90, 100, 110].map(|planned| event("nightly", planned, Some(node)));
    catalog.open_events(&events).expect("are opened");
    report(&*catalog, node, 1, Phase::Ended(12), 105);
    let outcomes = |from| catalog.event_outcomes(from).expect("are listed");
    let [only] = &outcomes(at(0))[..] else { panic!("one is over") };
    let expected = EventOutcome {
        schedule: "nightly".to_owned(),
        planned: at(100),
        node: Some(node),
        state: EventState::Failed,
        reason: "reason 105".to_owned(),
    };
    assert_eq!(*only, expected);
    assert_eq!(outcomes(at(101)), []);
    let counts = catalog.event_counts(at(95)).expect("are counted");
    assert_eq!(counts, [(EventState::Pending, 1), (EventState::Failed, 1)]);
}

pub(crate) fn packs_are_summed_by_domain_and_state(engine: &dyn Engine) {
    let catalog = engine.open();
    assert_eq!(catalog.pack_usage().expect("none"), []);
    let states = [PackState::Sealed, PackState::Sealed, PackState::Damaged];
    for (number, state) in (1..).zip(states) {
        let row = pack(PackNumber(number), DomainId(4), state);
        catalog.commit(vec![Write::PutPack(row)]).expect("is put");
    }
    let usage = |state, packs, bytes| PackUsage { domain: DomainId(4), state, packs, bytes };
    let expected = [usage(PackState::Sealed, 2, 3_000), usage(PackState::Damaged, 1, 3_000)];
    assert_eq!(catalog.pack_usage().expect("two states"), expected);
}

pub(crate) fn the_space_of_a_day_is_replaced(engine: &dyn Engine) {
    let catalog = engine.open();
    let pool = UsageSubject::Pool(PoolId(1));
    let day = |subject, day, bytes| UsageDay { subject, day: Day(day), bytes, bytes_max: 90 };
    let other = day(UsageSubject::Domain(DomainId(1)), 5, 50);
    let days = [day(pool, 4, 10), day(pool, 5, 20), other];
    catalog.put_usage_days(&days).expect("are kept");
    catalog.put_usage_days(&[day(pool, 5, 30)]).expect("is replaced");
    let catalog = engine.reopen(catalog);
    let of =
        |subject, from, to| catalog.usage_days(subject, (Day(from), Day(to))).expect("are listed");
    assert_eq!(of(pool, 0, 9), [day(pool, 4, 10), day(pool, 5, 30)]);
    assert_eq!(of(pool, 5, 5), [day(pool, 5, 30)]);
    assert_eq!(of(other.subject, 0, 9), [other]);
    catalog.forget_usage_days(Day(5)).expect("are forgotten");
    assert_eq!(of(pool, 0, 9), [day(pool, 5, 30)]);
    assert_eq!(of(UsageSubject::Pool(PoolId(2)), 0, 9), []);
}

pub(crate) fn restores_are_listed_by_their_ends(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let filespace = catalog.open_filespace(node, b"/", NOW).expect("a filespace").id;
    let row = |ended| RestoreRow {
        node,
        filespace,
        started: at(1),
        ended: at(ended),
        objects: 7,
        bytes: 700,
    };
    for ended in [9, 5] {
        catalog.add_restore(&row(ended)).expect("is recorded");
    }
    let catalog = engine.reopen(catalog);
    let of = |from, to| catalog.restores((at(from), at(to))).expect("are listed");
    assert_eq!(of(0, 10), [row(5), row(9)]);
    assert_eq!(of(5, 9), [row(5)]);
    catalog.forget_restores(at(9)).expect("are forgotten");
    assert_eq!(of(0, 10), [row(9)]);
}

pub(crate) fn archives_and_restores_of_all_nodes_are_newest_first(engine: &dyn Engine) {
    let catalog = engine.open();
    let (first, second) = (add_node(&*catalog, "a").id, add_node(&*catalog, "b").id);
    for (node, ended) in [(first, 3), (second, 5), (first, 8)] {
        catalog.add_archived(&archived(node, ended)).expect("is recorded");
    }
    let filespace = catalog.open_filespace(second, b"/", NOW).expect("a filespace").id;
    let (started, ended) = (at(1), at(2));
    let row = RestoreRow { node: second, filespace, started, ended, objects: 4, bytes: 40 };
    catalog.add_restore(&row).expect("is recorded");
    let catalog = engine.reopen(catalog);
    let archives = |from, limit| catalog.finished_archives(from, limit).expect("are listed");
    let shown = |all: &[FinishedTransfer]| -> Vec<(String, ServerTime)> {
        all.iter().map(|one| (one.node.clone(), one.ended)).collect()
    };
    let of = |node: &str, ended| (node.to_owned(), at(ended));
    let all = archives(None, 9);
    assert_eq!(shown(&all), [of("a", 8), of("b", 5), of("a", 3)]);
    assert_eq!(archives(Some(all[1].number), 1), all[1..2]);
    let expected = archived(first, 8);
    assert_eq!((&all[0].filespace, all[0].figures), (&expected.filespace, expected.figures));
    let restores = || catalog.finished_restores(None, 9).expect("are listed");
    let all = restores();
    let [restore] = &all[..] else { panic!("{all:?}") };
    let figures = TransferFigures { examined: 4, objects: 4, failed: 0, bytes: 40 };
    assert_eq!((restore.node.as_str(), restore.figures), ("b", figures));
    assert_eq!(restore.filespace, b"/");
    catalog.remove_filespace(filespace).expect("is removed");
    assert_eq!(restores()[0].filespace, b"");
    catalog.forget_archived(at(5)).expect("are forgotten");
    assert_eq!(shown(&archives(None, 9)), [of("a", 8), of("b", 5)]);
    catalog.remove_node(first).expect("is removed");
    assert_eq!(shown(&archives(None, 9)), [of("b", 5)]);
    catalog.remove_node(second).expect("is removed");
    assert_eq!(restores(), []);
}
