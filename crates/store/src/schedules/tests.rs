//! Schedules on a real catalogue: who follows them, which events open, and what the server does.

use catalog::{Control, EventFilter, EventReport, Follower, Node, ScheduledEvent};
use model::{NodeName, ServerTime};
use policy::schedule::event::{EventState, Phase, Report};
use policy::schedule::{Definition, Occurrence};

use super::*;
use crate::samples::{TestServer, refused};
use crate::store::Store;

const MINUTE: i64 = 60_000_000;

/// Returns a definition with windows of ten minutes, one each hour from 1 January 2026 on.
fn hourly(work: &str) -> Definition {
    let text = format!(
        r#"{{"action":{{"work":"{work}"}},
            "timing":{{"starts":
                {{"interval":{{"first":"2026-01-01T00:00","every":{{"minutes":60}}}}}},
                "window_minutes":10,"spread_percent":0}},
            "zone":"UTC","priority":5,"retries":1,"retry_pause_minutes":1}}"#
    );
    serde_json::from_str(&text).expect("is a definition")
}

fn add_node(store: &Store, name: &str) -> Node {
    let name = NodeName::new(name).expect("a name");
    store.catalog.add_node(&name, "STANDARD", sys::clock::now()).expect("is added")
}

fn plan_names(store: &Store, node: &Node) -> Vec<String> {
    let plan = plan_of(store, node).expect("is read");
    plan.schedules.into_iter().map(|schedule| schedule.name).collect()
}

fn events(store: &Store) -> Vec<ScheduledEvent> {
    node_events(store, &EventFilter::default(), None, 1000).expect("are listed")
}

/// Returns the next full hour and the given number of minutes.
fn next_hour(minutes: i64) -> ServerTime {
    let hour = sys::clock::now().0 / (60 * MINUTE) + 1;
    ServerTime((hour * 60 + minutes) * MINUTE)
}

#[test]
fn a_node_follows_by_its_name_its_label_and_its_domain() {
    let server = TestServer::new();
    let store = &*server.store;
    let [a, b] = ["web-1", "db-1"].map(|name| add_node(store, name));
    for name in ["ByNode", "ByLabel", "ByDomain"] {
        add(store, name, &hourly("incremental"), "anna").expect("is added");
    }
    refused(add(store, "bynode", &hourly("incremental"), "anna"), "exists already");
    refused(add(store, "two words", &hourly("incremental"), "anna"), "cannot be the name");
    associate(store, "bynode", &[Follower::Node(a.id)]).expect("is associated");
    associate(store, "bylabel", &[Follower::Label("web".to_owned())]).expect("is associated");
    associate(store, "bydomain", &[Follower::Domain(a.domain)]).expect("is associated");
    assert_eq!(plan_names(store, &a), ["ByDomain", "ByNode"]);
    assert_eq!(plan_names(store, &b), ["ByDomain"]);
    let before = generation(store).expect("is read");
    label_nodes(store, b.id, &["web".to_owned()], &[]).expect("is labelled");
    assert_eq!(plan_names(store, &b), ["ByDomain", "ByLabel"]);
    assert!(generation(store).expect("is read") > before);
    refused(label_nodes(store, b.id, &["two words".to_owned()], &[]), "name of a label");
    let ended = dissociate(store, "ByDomain", &[Follower::Domain(a.domain)]).expect("is ended");
    assert_eq!(ended.followers, []);
    refused(dissociate(store, "ByDomain", &[Follower::Domain(a.domain)]), "is not associated");
    assert_eq!(plan_names(store, &a), ["ByNode"]);
    remove(store, "BYNODE").expect("is removed");
    refused(list(store, Some("ByNode")), "there is no schedule ByNode");
    assert_eq!(plan_names(store, &a), [""; 0]);
}

#[test]
fn windows_open_and_close_and_are_missed_by_nodes_that_never_came() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    add(store, "hourly", &hourly("incremental"), "anna").expect("is added");
    associate(store, "hourly", &[Follower::Node(node.id)]).expect("is associated");
    let mut timetable = Timetable::default();
    tick(store, &mut timetable, next_hour(-1)).expect("looks");
    assert_eq!(events(store), []);
    tick(store, &mut timetable, next_hour(0)).expect("looks");
    let opened = events(store);
    assert_eq!(opened.len(), 1);
    assert_eq!((opened[0].state, opened[0].opens), (EventState::Pending, next_hour(0)));
    tick(store, &mut timetable, next_hour(10)).expect("looks");
    assert_eq!(events(store)[0].state, EventState::Missed);
    // The server is away for some hours. No window is forgotten.
    tick(store, &mut timetable, next_hour(5 * 60 + 1)).expect("looks");
    let states: Vec<EventState> = events(store).iter().map(|event| event.state).collect();
    assert_eq!(states[0], EventState::Pending);
    assert_eq!(states[1..], [EventState::Missed; 5]);

    let suspended = Definition { is_suspended: true, ..hourly("incremental") };
    change(store, "hourly", &suspended, "bert").expect("is changed");
    tick(store, &mut timetable, next_hour(6 * 60 + 1)).expect("looks");
    assert_eq!(events(store).len(), 6);
}

#[test]
fn a_change_of_the_planned_times_counts_from_then_on() {
    let server = TestServer::new();
    let store = &*server.store;
    let added = add(store, "hourly", &hourly("incremental"), "anna").expect("is added");
    let described = Definition { description: "x".to_owned(), ..hourly("incremental") };
    let described = change(store, "hourly", &described, "bert").expect("is changed");
    assert_eq!(described.row.since, added.row.since);
    assert_eq!(described.row.changed_by, "bert");
    let moved = Definition { zone: "Asia/Tokyo".to_owned(), ..hourly("incremental") };
    let moved = change(store, "hourly", &moved, "bert").expect("is changed");
    assert!(moved.row.since > added.row.since);
    refused(change(store, "hourly", &hourly("expire"), "bert"), "cannot move between");
    let wrong = Definition { priority: 11, ..hourly("incremental") };
    refused(change(store, "hourly", &wrong, "bert"), "the order is a number");
}

#[test]
fn an_action_for_now_is_a_schedule_of_its_own() {
    let server = TestServer::new();
    let store = &*server.store;
    let nodes = ["web-1", "db-1"].map(|name| add_node(store, name));
    let name = run_now(store, &nodes, &hourly("incremental"), "anna").expect("is started");
    assert_eq!(name, "@1");
    let plan = plan_of(store, &nodes[0]).expect("is read");
    let definition: Definition =
        serde_json::from_str(&plan.schedules[0].body).expect("is a definition");
    let zone = definition.time_zone().expect("is known");
    let now = sys::clock::now();
    let since = ServerTime(plan.schedules[0].since.0 - 1);
    let due = definition.timing.latest(&zone, since, now).expect("is due");
    assert!(due.is_open(now));
    assert_eq!(events(store).len(), 2);
    assert!(events(store).iter().all(|event| event.key.planned == due.planned));

    let target = EventTarget { schedule: "@1".to_owned(), node: Some(nodes[1].id) };
    assert_eq!(control(store, &target, Control::Cancel).expect("is cancelled"), 1);
    let controls = plan_of(store, &nodes[1]).expect("is read").controls;
    assert_eq!(controls.iter().map(|one| one.control).collect::<Vec<_>>(), [Control::Cancel]);
    assert_eq!(plan_of(store, &nodes[0]).expect("is read").controls, []);
    let again = run_now(store, &nodes[..1], &hourly("verify"), "anna").expect("is started");
    assert_eq!(again, "@2");
    refused(run_now(store, &nodes, &hourly("expire"), "anna"), "nodes do not carry out");
}

#[test]
fn an_event_keeps_its_report_and_the_end_of_its_log() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    run_now(store, std::slice::from_ref(&node), &hourly("incremental"), "anna")
        .expect("is started");
    let event = events(store).remove(0);
    let ended = EventReport {
        key: event.key.clone(),
        occurrence: Occurrence {
            planned: event.key.planned,
            opens: event.opens,
            closes: event.closes,
        },
        report: Report { attempt: 1, phase: Phase::Ended(4) },
        at: sys::clock::now(),
        reason: "2 files failed".to_owned(),
        session: "{}".to_owned(),
        log: b"the end".to_vec(),
    };
    report(store, &ended).expect("is recorded");
    let (event, log) = find_event(store, event.number).expect("is found");
    assert_eq!((event.state, event.code), (EventState::Completed, Some(4)));
    assert_eq!((event.reason.as_str(), log.as_slice()), ("2 files failed", &b"the end"[..]));
    refused(find_event(store, event.number + 1), "there is no event");
    let target = EventTarget { schedule: event.key.schedule, node: None };
    refused(control(store, &target, Control::Pause), "no event that is pending");
}

#[test]
fn the_server_does_its_own_work_once_and_notices_what_was_cut_off() {
    let server = TestServer::new();
    let store = &server.store;
    let mut definition = hourly("expire");
    definition.timing.starts = policy::schedule::Starts::Once(sys::clock::now().0);
    // The occurrence must not lie before the definition.
    definition.timing.starts = policy::schedule::Starts::Once(sys::clock::now().0 + 200_000);
    add(store, "expiry", &definition, "anna").expect("is added");
    refused(associate(store, "expiry", &[Follower::Label("x".to_owned())]), "work of the server");
    run_due(store, true).expect("nothing is due");
    assert_eq!(events(store), []);
    sys::clock::sleep(std::time::Duration::from_millis(300));
    run_due(store, false).expect("is done");
    let done = events(store);
    assert_eq!((done.len(), done[0].state, done[0].code), (1, EventState::Completed, Some(0)));
    assert_eq!(done[0].reason, "0 versions expired");
    run_due(store, false).expect("nothing is due");
    assert_eq!(events(store), done);

    // The server dies while it works; the work may be done again.
    let began = EventReport {
        key: done[0].key.clone(),
        occurrence: Occurrence {
            planned: done[0].key.planned,
            opens: done[0].opens,
            closes: done[0].closes,
        },
        report: Report { attempt: 2, phase: Phase::Began },
        at: sys::clock::now(),
        reason: String::new(),
        session: String::new(),
        log: Vec::new(),
    };
    report(store, &began).expect("is recorded");
    run_due(store, false).expect("another thread works");
    assert_eq!(events(store)[0].state, EventState::Restarted);
    run_due(store, true).expect("is noticed");
    assert_eq!(events(store)[0].state, EventState::Uncertain, "no attempt is left");
}
