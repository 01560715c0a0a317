//! Schedules, their followers, labels and events.

use catalog::{
    Catalog, CatalogError, Control, EventFilter, EventKey, EventProgress, EventReport, Follower,
    NodeChange, NodeDetails, NodeSight, ScheduleRow, ScheduledEvent,
};
use model::{DomainId, NodeId, PersonId};
use policy::schedule::Occurrence;
use policy::schedule::event::{EventState, Phase, Report};

use super::{Engine, people};
use crate::samples::{add_node, at};

fn schedule(name: &str) -> ScheduleRow {
    ScheduleRow {
        name: name.to_owned(),
        body: format!("{{\"of\":\"{name}\"}}"),
        since: at(1),
        changed: at(2),
        changed_by: "anna".to_owned(),
    }
}

fn add_schedule(catalog: &dyn Catalog, name: &str) {
    catalog.add_schedule(&schedule(name)).expect("is added");
}

/// An event with a window of ten seconds.
pub(crate) fn event(schedule: &str, planned: i64, node: Option<NodeId>) -> (EventKey, Occurrence) {
    let key = EventKey { schedule: schedule.to_owned(), planned: at(planned), node };
    (key, Occurrence { planned: at(planned), opens: at(planned), closes: at(planned + 10) })
}

/// Reports on the event of "nightly" at second 100.
pub(crate) fn report(catalog: &dyn Catalog, node: NodeId, attempt: u32, phase: Phase, time: i64) {
    let (key, occurrence) = event("nightly", 100, Some(node));
    let report = EventReport {
        key,
        occurrence,
        report: Report { attempt, phase },
        at: at(time),
        began: None,
        paused: None,
        reason: format!("reason {time}"),
        session: format!("session {time}"),
        log: vec![0, 0xff, b'a'],
    };
    catalog.report_event(&report).expect("is recorded");
}

/// Returns the event of "nightly" at second 100.
fn nightly(catalog: &dyn Catalog, node: NodeId) -> ScheduledEvent {
    let (key, _) = event("nightly", 100, Some(node));
    let (event, _) = catalog.scheduled_event(&key).expect("is read").expect("exists");
    assert_eq!(event.key, key);
    event
}

/// Returns the seconds at which the events are planned, and their states.
fn states(catalog: &dyn Catalog, filter: &EventFilter) -> Vec<(i64, EventState)> {
    let events = catalog.scheduled_events(filter, None, 100).expect("are listed");
    events
        .into_iter()
        .map(|event| (event.key.planned.secs() - at(0).secs(), event.state))
        .collect()
}

/// Each report of an event used up a number, so the numbers jumped.
pub(crate) fn events_are_numbered_one_after_the_other(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let first = event("nightly", 100, Some(node));
    catalog.open_events(std::slice::from_ref(&first)).expect("is opened");
    catalog.open_events(&[first]).expect("is opened before");
    report(&*catalog, node, 1, Phase::Began, 101);
    report(&*catalog, node, 1, Phase::Working, 102);
    report(&*catalog, node, 1, Phase::Ended(0), 103);
    catalog.open_events(&[event("nightly", 200, Some(node))]).expect("is opened");
    let events = catalog.scheduled_events(&EventFilter::default(), None, 9).expect("are listed");
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [nightly(&*catalog, node).number + 1, nightly(&*catalog, node).number]);
}

pub(crate) fn pauses_and_begins_are_those_that_the_node_tells(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let report = |phase, began: Option<i64>, paused: Option<i64>, time| {
        let (key, occurrence) = event("nightly", 100, Some(node));
        let report = EventReport {
            key,
            occurrence,
            report: Report { attempt: 1, phase },
            at: at(time),
            began: began.map(at),
            paused: paused.map(at),
            reason: String::new(),
            session: String::new(),
            log: Vec::new(),
        };
        catalog.report_event(&report).expect("is recorded");
        let event = nightly(&*catalog, node);
        (event.started, event.paused)
    };
    assert_eq!(report(Phase::Working, None, None, 102), (None, None), "an older agent");
    assert_eq!(report(Phase::Working, Some(101), Some(103), 104), (None, Some(at(103))));
    assert_eq!(report(Phase::Working, Some(101), None, 105), (None, None), "the pause is over");
    assert_eq!(report(Phase::Working, Some(101), Some(106), 107), (None, Some(at(106))));
    assert_eq!(report(Phase::Ended(0), Some(101), None, 108), (Some(at(101)), None));
    assert_eq!(report(Phase::Working, Some(101), Some(109), 109), (Some(at(101)), None), "late");
}

pub(crate) fn schedules_are_by_name_and_their_followers_end_with_them(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    for name in ["weekly", "Nightly"] {
        add_schedule(&*catalog, name);
    }
    let again = catalog.add_schedule(&schedule("NIGHTLY"));
    assert!(matches!(again, Err(CatalogError::Exists { .. })));
    let changed = ScheduleRow { body: "{}".to_owned(), since: at(9), ..schedule("Nightly") };
    let before = schedule("Nightly");
    catalog.change_schedule(&before, &changed).expect("is changed");
    let unknown = catalog.change_schedule(&schedule("monthly"), &schedule("monthly"));
    assert!(matches!(unknown, Err(CatalogError::NotFound { .. })));
    let followers =
        [Follower::Node(node), Follower::Label("web".to_owned()), Follower::Domain(DomainId(1))];
    catalog.associate(&changed, &followers, at(3)).expect("are associated");
    catalog
        .associate(&schedule("weekly"), &followers, at(3))
        .expect("are associated");
    catalog
        .associate(&changed, &followers, at(4))
        .expect("once more changes nothing");
    for unknown in [Follower::Node(NodeId(99)), Follower::Domain(DomainId(99))] {
        // The other one does not follow either.
        let followers = [Follower::Label("mail".to_owned()), unknown];
        let refused = catalog.associate(&changed, &followers, at(3));
        assert!(matches!(refused, Err(CatalogError::NotFound { .. })));
    }
    // A schedule that is another one now is as unknown as one that does not exist.
    for gone in [&before, &schedule("monthly")] {
        let refused = [
            catalog.change_schedule(gone, &schedule("monthly")),
            catalog.associate(gone, &followers[..1], at(3)),
            catalog.dissociate(gone, &followers[..1]).map(drop),
            catalog.remove_schedule(gone),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(CatalogError::NotFound { .. })), "{refused:?}");
        }
    }

    let catalog = engine.reopen(catalog);
    let listed = catalog.schedules().expect("are listed");
    assert_eq!(listed, [changed.clone(), schedule("weekly")]);
    let of = |name: &str| {
        let all = catalog.associations().expect("are listed");
        let of_name = all.into_iter().filter(|association| association.schedule == name);
        of_name.map(|association| association.follower).collect::<Vec<_>>()
    };
    assert_eq!(of("Nightly"), followers);
    assert_eq!(catalog.dissociate(&changed, &followers[1..2]).expect("is ended"), 1);
    assert_eq!(catalog.dissociate(&changed, &followers[1..2]).expect("is ended"), 0);
    assert_eq!(of("Nightly"), [followers[0].clone(), followers[2].clone()]);
    catalog.remove_schedule(&changed).expect("is removed");
    assert!(of("Nightly").is_empty());
    assert!(matches!(catalog.remove_schedule(&changed), Err(CatalogError::NotFound { .. })));
    catalog.remove_node(node).expect("is removed");
    assert_eq!(of("weekly"), followers[1..]);
}

pub(crate) fn labels_are_given_and_taken(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name).id);
    let texts = |labels: &[&str]| labels.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    catalog
        .change_labels(a, &texts(&["web", "prod", "web"]), &[], at(1))
        .expect("are given");
    catalog
        .change_labels(b, &texts(&["web"]), &texts(&["none"]), at(2))
        .expect("are given");
    catalog
        .change_labels(a, &texts(&["test", "web"]), &texts(&["prod"]), at(3))
        .expect("are changed");
    let catalog = engine.reopen(catalog);
    let label = |node, text: &str| (node, text.to_owned());
    let expected = [label(a, "test"), label(a, "web"), label(b, "web")];
    assert_eq!(catalog.labels(None).expect("are listed"), expected);
    assert_eq!(catalog.labels(Some(a)).expect("are listed"), expected[..2]);
    let times = catalog.label_times().expect("are listed");
    let times: Vec<_> = times.into_iter().map(|(_, _, since)| since).collect();
    assert_eq!(times, [at(3), at(1), at(2)], "a label that is given again keeps its time");
    let unknown = catalog.change_labels(NodeId(99), &[], &[], at(4));
    assert!(matches!(unknown, Err(CatalogError::NotFound { .. })));
    catalog.remove_node(a).expect("is removed");
    assert_eq!(catalog.labels(None).expect("are listed"), expected[2..]);
}

pub(crate) fn events_are_opened_reported_and_closed(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let events = [event("nightly", 100, Some(node)), event("expire", 90, None)];
    catalog.open_events(&events).expect("are opened");
    let opened = nightly(&*catalog, node);
    assert_eq!((opened.state, opened.attempt), (EventState::Pending, 0));
    assert_eq!((opened.opens, opened.closes), (at(100), at(110)));
    assert_eq!(opened.node_name.expect("is known").as_str(), "a");

    report(&*catalog, node, 1, Phase::Began, 105);
    catalog.open_events(&events).expect("are open already");
    let over = |by| EventFilter { closes_by: Some(by), ..EventFilter::default() };
    let listed = |by| catalog.scheduled_events(&over(by), None, 9).expect("are listed");
    assert_eq!((listed(at(99)).len(), listed(at(100)).len(), listed(at(110)).len()), (0, 1, 2));
    let reasons: Vec<(u64, String)> = listed(at(110))
        .iter()
        .map(|event| (event.number, "nobody came".to_owned()))
        .collect();
    catalog.explain_events(EventState::Pending, &reasons).expect("are explained");
    assert_eq!(listed(at(100))[0].reason, "nobody came");
    assert_ne!(nightly(&*catalog, node).reason, "nobody came", "the node has begun it");
    assert_eq!(catalog.close_events(at(109)).expect("are closed"), 1);
    assert_eq!(catalog.close_events(at(110)).expect("are closed"), 0);
    let begun = nightly(&*catalog, node);
    assert_eq!((begun.state, begun.started), (EventState::Started, Some(at(105))));
    report(&*catalog, node, 1, Phase::Ended(12), 120);
    let failed = nightly(&*catalog, node);
    assert_eq!(
        (failed.state, failed.code, failed.ended),
        (EventState::Failed, Some(12), Some(at(120)))
    );
    assert_eq!((&*failed.reason, &*failed.report), ("reason 120", "session 120"));
    let further = [(failed.number, "no room".to_owned())];
    catalog.explain_events(EventState::Failed, &further).expect("is explained");
    assert_eq!(nightly(&*catalog, node).reason, "no room");
    report(&*catalog, node, 2, Phase::Began, 130);
    let again = nightly(&*catalog, node);
    assert_eq!((again.state, again.attempt, again.code), (EventState::Restarted, 2, None));
    assert_eq!((again.started, again.ended), (Some(at(105)), None));
    report(&*catalog, node, 2, Phase::Ended(4), 140);

    let catalog = engine.reopen(catalog);
    let (key, _) = event("nightly", 100, Some(node));
    let (done, log) = catalog.scheduled_event(&key).expect("is read").expect("exists");
    assert_eq!((done.state, done.code, done.attempt), (EventState::Completed, Some(4), 2));
    assert_eq!(log, [0, 0xff, b'a']);
    let (key, _) = event("expire", 90, None);
    let (missed, _) = catalog.scheduled_event(&key).expect("is read").expect("exists");
    assert_eq!((missed.state, missed.node_name), (EventState::Missed, None));
    catalog.control_event(&key, Control::Cancel).expect("is recorded");
    let (missed, _) = catalog.scheduled_event(&key).expect("is read").expect("exists");
    assert_eq!(missed.control, Some(Control::Cancel));
    let (key, _) = event("nightly", 101, Some(node));
    let unknown = catalog.control_event(&key, Control::Pause);
    assert!(matches!(unknown, Err(CatalogError::NotFound { .. })));
    assert_eq!(catalog.scheduled_event(&key).expect("is read"), None);
}

pub(crate) fn progress_is_told_of_the_attempt_that_works(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let (key, occurrence) = event("nightly", 100, Some(node));
    let (server, _) = event("expire", 90, None);
    catalog
        .open_events(&[(key.clone(), occurrence), event("expire", 90, None)])
        .expect("are opened");
    let tell = |attempt, document: &str| {
        let document = document.to_owned();
        let progress = EventProgress { key: key.clone(), attempt, document };
        catalog.put_progress(&[progress]).expect("is recorded");
        nightly(&*catalog, node).progress
    };
    let watched = |now| catalog.watched_events(at(now)).expect("are listed");
    catalog.watch_events(&[key.clone(), server], at(200)).expect("are watched");
    assert_eq!(watched(150), [], "nobody works yet");
    assert_eq!(tell(1, "early"), "");
    report(&*catalog, node, 1, Phase::Began, 105);
    assert_eq!(watched(150), std::slice::from_ref(&key));
    assert_eq!(nightly(&*catalog, node).watched, at(200));
    assert_eq!(watched(200), [], "nobody looks any more");
    assert_eq!((tell(1, "1%"), tell(2, "99%")), ("1%".to_owned(), "1%".to_owned()));
    report(&*catalog, node, 1, Phase::Working, 110);
    assert_eq!(nightly(&*catalog, node).progress, "1%");
    report(&*catalog, node, 1, Phase::Ended(12), 120);
    assert_eq!((nightly(&*catalog, node).progress, watched(150)), (String::new(), Vec::new()));
    assert_eq!(tell(1, "late"), "");
    report(&*catalog, node, 2, Phase::Began, 130);
    assert_eq!(tell(2, "2%"), "2%");
}

pub(crate) fn a_report_after_the_end_corrects_the_event(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    catalog.open_events(&[event("nightly", 100, Some(node))]).expect("is opened");
    catalog.close_events(at(200)).expect("is closed");
    report(&*catalog, node, 1, Phase::Began, 105);
    assert_eq!(nightly(&*catalog, node).state, EventState::Started);
    report(&*catalog, node, 1, Phase::Working, 200);
    report(&*catalog, node, 1, Phase::Working, 205);
    assert_eq!(catalog.sever_silent_events(at(205), at(208)).expect("is heard"), 0);
    assert_eq!(catalog.sever_silent_events(at(206), at(208)).expect("is silent"), 1);
    assert_eq!(nightly(&*catalog, node).state, EventState::Severed);
    report(&*catalog, node, 1, Phase::Working, 209);
    assert_eq!(nightly(&*catalog, node).state, EventState::InProgress);
    catalog.sever_events(node, at(210)).expect("is severed");
    assert_eq!(nightly(&*catalog, node).state, EventState::Severed);
    assert_eq!(catalog.give_events_up(at(210)).expect("waits"), 0);
    assert_eq!(catalog.give_events_up(at(211)).expect("is given up"), 1);
    assert_eq!(nightly(&*catalog, node).state, EventState::Uncertain);
    report(&*catalog, node, 1, Phase::Ended(0), 107);
    let done = nightly(&*catalog, node);
    assert_eq!((done.state, done.ended), (EventState::Completed, Some(at(107))));
    report(&*catalog, node, 1, Phase::Began, 105);
    catalog.sever_events(node, at(220)).expect("nothing is severed");
    assert_eq!(nightly(&*catalog, node), done, "a report that was overtaken changes nothing");
}

pub(crate) fn events_are_selected_by_who_sees_them(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b, c] = ["a", "b", "c"].map(|name| add_node(&*catalog, name));
    let [lab, law] = ["LAB", "LAW"].map(|name| catalog.add_domain(name, at(1)).expect("is added"));
    for (node, domain) in [(&b, lab.id), (&c, law.id)] {
        let change = NodeChange { domain: Some(domain), ..NodeChange::default() };
        catalog.change_node(node.id, &change).expect("moves");
    }
    let anna = people::add(&*catalog, "anna").id;
    let owned = NodeDetails { owner: Some(anna), ..NodeDetails::default() };
    catalog.put_node_details(c.id, &owned).expect("are kept");
    let events = [
        event("nightly", 100, Some(a.id)),
        event("nightly", 200, Some(b.id)),
        event("nightly", 300, Some(c.id)),
        event("expire_all", 400, None),
    ];
    catalog.open_events(&events).expect("are opened");
    let check = |domains: &[DomainId], owner: Option<PersonId>, expected: &[i64]| {
        let seen = Some(NodeSight { domains: domains.iter().copied().collect(), owner });
        let filter = EventFilter { seen, ..EventFilter::default() };
        let found: Vec<_> =
            states(&*catalog, &filter).into_iter().map(|(second, _)| second).collect();
        assert_eq!(found, expected, "{domains:?} {owner:?}");
    };
    check(&[], None, &[]);
    check(&[DomainId(999)], Some(PersonId(999)), &[]);
    check(&[lab.id], None, &[200]);
    check(&[], Some(anna), &[300]);
    check(&[lab.id], Some(anna), &[300, 200]);
    check(&[a.domain, lab.id, law.id], Some(anna), &[300, 200, 100]);
    let of_nodes = EventFilter { is_of_nodes: true, ..EventFilter::default() };
    assert_eq!(states(&*catalog, &of_nodes).len(), 3);
    assert_eq!(states(&*catalog, &EventFilter::default()).len(), 4);
}

pub(crate) fn a_domain_has_no_schedule_of_one_before_it(engine: &dyn Engine) {
    let catalog = engine.open();
    let lab = catalog.add_domain("LAB", at(1)).expect("is added").id;
    let label = Follower::Label("web".to_owned());
    let add_of = |name: &str, domain: u32| {
        let body = format!("{{\"domain\":{domain},\"definition\":{{}}}}");
        let row = ScheduleRow { body, ..schedule(name) };
        catalog.add_schedule(&row).expect("is added");
        catalog.associate(&row, std::slice::from_ref(&label), at(3)).expect("follows");
    };
    let names = || {
        let rows = catalog.schedules().expect("are listed").into_iter();
        let rows = rows.map(|row| row.name).collect::<Vec<_>>();
        let followed = catalog.associations().expect("are listed").into_iter();
        assert_eq!(followed.map(|one| one.schedule).collect::<Vec<_>>(), rows);
        rows
    };
    add_of("Mine", lab.0);
    // The number of this domain begins with that of the other.
    add_of("other", lab.0 * 10);
    catalog.remove_domain(lab).expect("is removed");
    assert_eq!(names(), ["other"]);
    // A server that knows nothing of domains of schedules has left one behind.
    add_of("late", lab.0);
    let next = catalog.add_domain("LAW", at(2)).expect("is added").id;
    assert_eq!((next, names()), (lab, vec!["other".to_owned()]));
}

pub(crate) fn events_are_selected_by_nodes_schedules_and_text(engine: &dyn Engine) {
    const NONE: [i64; 0] = [];
    let catalog = engine.open();
    let [a, b] = ["web-1", "db_1"].map(|name| add_node(&*catalog, name));
    let (domain, a, b) = (a.domain, a.id, b.id);
    catalog.change_labels(a, &["web".to_owned()], &[], at(1)).expect("is labelled");
    let events = [
        event("nightly", 100, Some(a)),
        event("images", 200, Some(b)),
        event("expire_all", 300, None),
    ];
    catalog.open_events(&events).expect("are opened");
    report(&*catalog, a, 1, Phase::Ended(12), 105);
    let seconds = |filter: &EventFilter| {
        let found = states(&*catalog, filter).into_iter();
        found.map(|(second, _)| second).collect::<Vec<_>>()
    };
    let all = EventFilter::default();
    let label = |label: &str| EventFilter { label: Some(label.to_owned()), ..all.clone() };
    assert_eq!(seconds(&label("web")), [100]);
    assert_eq!(seconds(&label("we")), NONE);
    let of_domain = |domain| EventFilter { domain: Some(domain), ..all.clone() };
    assert_eq!(seconds(&of_domain(domain)), [200, 100]);
    assert_eq!(seconds(&of_domain(DomainId(999))), NONE);
    let schedules = |names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        EventFilter { schedules: Some(names), ..all.clone() }
    };
    assert_eq!(seconds(&schedules(&["images", "expire_all", "gone"])), [300, 200]);
    assert_eq!(seconds(&schedules(&[])), NONE);
    let text = |text: &str| EventFilter { text: Some(text.to_owned()), ..all.clone() };
    for (wanted, found) in [
        ("NIGHT", &[100][..]),
        ("reason 105", &[100]),
        ("WEB-", &[100]),
        ("_", &[300, 200]),
        ("b_1", &[200]),
        ("%", &[]),
        ("!", &[]),
        ("", &[300, 200, 100]),
    ] {
        assert_eq!(seconds(&text(wanted)), found, "{wanted}");
    }
    let both = EventFilter { label: Some("web".to_owned()), ..text("images") };
    assert_eq!(seconds(&both), NONE);
}

pub(crate) fn events_are_selected_and_listed_in_portions(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name).id);
    for second in [100, 200, 300] {
        let events = [event("nightly", second, Some(a)), event("nightly", second, Some(b))];
        catalog.open_events(&events).expect("are opened");
    }
    catalog.close_events(at(210)).expect("are closed");
    let missed = EventState::Missed;
    let pending = EventState::Pending;
    let of_a = EventFilter { node: Some(a), ..EventFilter::default() };
    assert_eq!(states(&*catalog, &of_a), [(300, pending), (200, missed), (100, missed)]);
    let from = EventFilter { from: Some(at(200)), to: Some(at(200)), ..of_a.clone() };
    assert_eq!(states(&*catalog, &from), [(200, missed)]);
    let open = EventFilter { states: vec![pending, EventState::Failed], ..EventFilter::default() };
    assert_eq!(states(&*catalog, &open), [(300, pending), (300, pending)]);
    let other = EventFilter { schedule: Some("NIGHTLY".to_owned()), ..open };
    assert_eq!(states(&*catalog, &other).len(), 2);
    let none = EventFilter { schedule: Some("weekly".to_owned()), ..other };
    assert_eq!(states(&*catalog, &none), []);

    let first = catalog.scheduled_events(&of_a, None, 2).expect("are listed");
    assert_eq!(first.len(), 2);
    let rest = catalog
        .scheduled_events(&of_a, Some(first[1].number - 1), 9)
        .expect("are listed");
    assert_eq!(rest.iter().map(|event| event.key.planned).collect::<Vec<_>>(), [at(100)]);
    report(&*catalog, a, 1, Phase::Began, 300);
    assert_eq!(catalog.withdraw_events(at(300)).expect("none is later"), 0);
    let of_b = EventFilter { node: Some(b), ..EventFilter::default() };
    assert_eq!(catalog.withdraw_events(at(199)).expect("are withdrawn"), 4);
    assert_eq!(states(&*catalog, &of_b), [(100, missed)], "nobody has begun the others");
    assert_eq!(states(&*catalog, &of_a), [(100, EventState::Started)]);
    for second in [200, 300] {
        catalog.open_events(&[event("nightly", second, Some(a))]).expect("are opened");
    }
    catalog.forget_events(at(200), at(0)).expect("are forgotten");
    assert_eq!(states(&*catalog, &of_a).len(), 2);
    catalog.open_events(&[event("expiry", 400, None)]).expect("is opened");
    let of_server = EventFilter { is_of_server: true, ..EventFilter::default() };
    assert_eq!(states(&*catalog, &of_server), [(400, pending)]);
}

pub(crate) fn events_of_a_node_end_with_it(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    catalog.open_events(&[event("nightly", 100, Some(node))]).expect("is opened");
    report(&*catalog, node, 1, Phase::Ended(0), 105);
    let (key, _) = event("nightly", 100, Some(node));
    let log =
        |catalog: &dyn Catalog| catalog.scheduled_event(&key).expect("is read").expect("exists").1;
    catalog.forget_events(at(0), at(100)).expect("nothing is forgotten");
    assert_eq!(log(&*catalog).len(), 3);
    catalog.forget_events(at(0), at(101)).expect("the log is forgotten");
    assert!(log(&*catalog).is_empty());
    catalog.remove_node(node).expect("is removed");
    assert_eq!(states(&*catalog, &EventFilter::default()), []);
    report(&*catalog, node, 2, Phase::Began, 106);
    assert_eq!(states(&*catalog, &EventFilter::default()), [], "a removed node has no events");
}
