//! Schedules on a real catalogue: who follows them, which events open, and what the server does.

use std::collections::BTreeSet;

use catalog::postgres::Attendant;
use catalog::{
    Control, EventFilter, EventKey, EventReport, Follower, Node, NodeChange, ScheduleRow,
    ScheduledEvent, Write,
};
use model::{NodeName, ServerTime};
use policy::schedule::event::{EventState, Phase, Report};
use policy::schedule::{Action, Definition, Occurrence};

use super::*;
use crate::error::StoreError;
use crate::lifecycle::audit_trail;
use crate::nodes::{NodeOrder, NodeSummary};
use crate::samples::{TestServer, refused};
use crate::store::Store;

mod of_domains;
mod of_obstacles;
mod of_the_server;

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

/// Gives a label to a node.
fn label(store: &Store, node: &Node, label: &str) -> Result<NodeSummary, StoreError> {
    let order = NodeOrder { added_labels: vec![label.to_owned()], ..NodeOrder::default() };
    let node = crate::nodes::find(store, node.name.as_str())?;
    crate::nodes::change(store, &node, &order, "anna")
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

/// Returns a report of this moment about an event: an attempt and its phase, and nothing else.
fn event_report(event: &ScheduledEvent, attempt: u32, phase: Phase) -> EventReport {
    let (key, opens, closes) = (event.key.clone(), event.opens, event.closes);
    EventReport {
        occurrence: Occurrence { planned: key.planned, opens, closes },
        key,
        report: Report { attempt, phase },
        at: sys::clock::now(),
        began: None,
        paused: None,
        reason: String::new(),
        session: String::new(),
        log: Vec::new(),
    }
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
    // Programs that send requests have no commands of administrators.
    let taken = "exists already; change it, or choose another name";
    refused(add(store, "bynode", &hourly("incremental"), "anna"), taken);
    refused(add(store, "two words", &hourly("incremental"), "anna"), "cannot be the name");
    associate(store, "bynode", &[Follower::Node(a.id)], "anna").expect("is associated");
    associate(store, "bylabel", &[Follower::Label("web".to_owned())], "anna")
        .expect("is associated");
    associate(store, "bydomain", &[Follower::Domain(a.domain)], "anna").expect("is associated");
    assert_eq!(plan_names(store, &a), ["ByDomain", "ByNode"]);
    assert_eq!(plan_names(store, &b), ["ByDomain"]);
    let before = generation(store).expect("is read");
    label(store, &b, "web").expect("is labelled");
    assert_eq!(plan_names(store, &b), ["ByDomain", "ByLabel"]);
    assert!(generation(store).expect("is read") > before);
    refused(label(store, &b, "two words"), "name of a label");
    let ended =
        dissociate(store, "ByDomain", &[Follower::Domain(a.domain)], "anna").expect("is ended");
    assert_eq!(ended.followers, []);
    refused(
        dissociate(store, "ByDomain", &[Follower::Domain(a.domain)], "anna"),
        "schedule ByDomain is not associated with domain STANDARD",
    );
    let both = [Follower::Node(a.id), Follower::Node(b.id)];
    refused(dissociate(store, "ByNode", &both, "anna"), "is not associated");
    assert_eq!(plan_names(store, &a), ["ByNode"], "the one that follows goes on");
    remove(store, "BYNODE", "anna").expect("is removed");
    refused(list(store, Some("ByNode")), "there is no schedule ByNode");
    assert_eq!(plan_names(store, &a), [""; 0]);
}

#[test]
fn only_nodes_of_its_domain_follow_a_schedule_of_a_domain() {
    let server = TestServer::new();
    let store = &*server.store;
    let lab = crate::domains::add(store, "LAB", "anna").expect("is made").domain.id;
    let other = add_node(store, "law-1");
    let move_to = |name: &str, domain: &str| {
        let order = NodeOrder { domain: Some(domain.to_owned()), ..NodeOrder::default() };
        let node = crate::nodes::find(store, name).expect("is known");
        crate::nodes::change(store, &node, &order, "anna").expect("is moved");
        store.catalog.node(&NodeName::new(name).expect("a name")).expect("is known")
    };
    add_node(store, "lab-1");
    let own = move_to("lab-1", "LAB");
    let work = hourly("incremental");
    let made = add_of_domain(store, lab, "mine", &work, "bert").expect("is added");
    assert_eq!((made.owner, made.definition), (Some(lab), work.clone()));
    for foreign in [Follower::Node(other.id), Follower::Domain(other.domain)] {
        refused(associate(store, "mine", &[foreign], "bert"), "only nodes of that domain");
    }
    let label_web = Follower::Label("web".to_owned());
    associate(store, "mine", &[label_web, Follower::Node(own.id)], "bert").expect("may follow");
    label(store, &other, "web").expect("is labelled");
    assert_eq!(plan_names(store, &own), ["mine"]);
    assert_eq!(plan_names(store, &other), [""; 0]);
    let plan = plan_of(store, &own).expect("is read").schedules.remove(0);
    assert!(!plan.body.contains("domain"), "nodes do not get the domain: {}", plan.body);
    let changed = change(store, "mine", &Definition { retries: 7, ..work }, "bert");
    assert_eq!(changed.expect("is changed").owner, Some(lab));
    // A node that leaves the domain follows no longer.
    let moved = move_to("lab-1", "STANDARD");
    assert_eq!(plan_names(store, &moved), [""; 0]);
    refused(crate::domains::remove(store, "LAB", "anna"), "has 1 schedule");
    let of_server = add_of_domain(store, lab, "tidy", &hourly("expire"), "bert");
    refused(of_server, "is work of nodes");
    for number in 1..100 {
        let name = format!("mine-{number}");
        add_of_domain(store, lab, &name, &hourly("incremental"), "bert").expect("is added");
    }
    let more = add_of_domain(store, lab, "more", &hourly("incremental"), "bert");
    refused(more, "which is the maximum");
}

#[test]
fn windows_open_and_close_and_are_missed_by_nodes_that_never_came() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    add(store, "hourly", &hourly("incremental"), "anna").expect("is added");
    associate(store, "hourly", &[Follower::Node(node.id)], "anna").expect("is associated");
    let mut timetable = Timetable::default();
    tick(store, &mut timetable, next_hour(-1)).expect("looks");
    assert_eq!(events(store), []);
    tick(store, &mut timetable, next_hour(0)).expect("looks");
    let opened = events(store);
    assert_eq!(opened.len(), 1);
    assert_eq!((opened[0].state, opened[0].opens), (EventState::Pending, next_hour(0)));
    tick(store, &mut timetable, next_hour(10)).expect("looks");
    assert_eq!(events(store)[0].state, EventState::Missed);
    let reason = "no agent of the node was connected while the window was open";
    assert_eq!(events(store)[0].reason, reason);
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

/// The reasons of missed events were empty.
#[test]
fn a_missed_event_tells_what_the_server_knows() {
    let server = TestServer::new();
    let store = &*server.store;
    let [absent, locked, idle, busy] =
        ["absent", "locked", "idle", "busy"].map(|name| add_node(store, name));
    let order = NodeOrder { locked: Some(true), ..NodeOrder::default() };
    crate::nodes::change(store, &locked, &order, "anna").expect("is locked");
    for node in [&locked, &idle, &busy] {
        let agent = Attendant { node: node.id, number: 1, place: b"place", address: "127.0.0.1" };
        assert_eq!(attend(store, &agent).expect("is recorded"), None);
    }
    let connected = connected_agents(store).expect("are listed");
    assert_eq!(connected, BTreeSet::from([locked.id, idle.id, busy.id]));
    run_now(store, std::slice::from_ref(&busy), &hourly("incremental"), "anna")
        .expect("is started");
    let event = events(store).remove(0);
    let began = EventReport {
        // The node gives its last sign later than now, so that it does not count as silent.
        at: next_hour(0),
        ..event_report(&event, 1, Phase::Began)
    };
    store.catalog.report_event(&began).expect("is recorded");
    add(store, "hourly", &hourly("incremental"), "anna").expect("is added");
    associate(store, "hourly", &[Follower::Domain(absent.domain)], "anna").expect("is associated");
    let mut timetable = Timetable::default();
    for minute in [-1, 0, 10] {
        tick(store, &mut timetable, next_hour(minute)).expect("looks");
    }
    let missed = EventFilter { states: vec![EventState::Missed], ..EventFilter::default() };
    let missed = node_events(store, &missed, None, 1000).expect("are listed");
    let reason = |node: &Node| {
        let event = missed.iter().find(|event| event.key.node == Some(node.id));
        event.expect("is missed").reason.clone()
    };
    let nobody = "no agent of the node was connected while the window was open";
    assert_eq!(reason(&absent), nobody);
    assert_eq!(reason(&locked), "the node is locked");
    assert_eq!(reason(&idle), "the agent is connected, but it did not begin the event");
    let work = format!(
        "the agent is connected, but it did not begin the event; an event of schedule {} was \
         under way",
        event.key.schedule
    );
    assert_eq!(reason(&busy), work);
    assert!(end_attendance(store, idle.id, 1).expect("is recorded"));
    assert!(!connected_agents(store).expect("are listed").contains(&idle.id));
}

/// The agent was said not to have begun an event for which nobody asked any more.
#[test]
fn a_missed_event_of_a_schedule_that_was_taken_back_says_so() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    for name in ["removed", "suspended", "changed", "left", "kept"] {
        add(store, name, &hourly("incremental"), "anna").expect("is added");
        associate(store, name, &[Follower::Node(node.id)], "anna").expect("is associated");
    }
    let mut timetable = Timetable::default();
    for minute in [-1, 0] {
        tick(store, &mut timetable, next_hour(minute)).expect("looks");
    }
    remove(store, "removed", "anna").expect("is removed");
    let suspended = Definition { is_suspended: true, ..hourly("incremental") };
    change(store, "suspended", &suspended, "anna").expect("is changed");
    let changed = list(store, Some("changed")).expect("is listed").remove(0).row;
    let later = ScheduleRow { since: next_hour(1), ..changed.clone() };
    store.catalog.change_schedule(&changed, &later).expect("is changed");
    dissociate(store, "left", &[Follower::Node(node.id)], "anna").expect("is ended");
    tick(store, &mut timetable, next_hour(10)).expect("looks");
    let missed = events(store);
    let reason = |schedule: &str| {
        let event = missed.iter().find(|event| event.key.schedule == schedule);
        let event = event.expect("was opened");
        assert_eq!(event.state, EventState::Missed);
        event.reason.as_str()
    };
    assert_eq!(reason("removed"), "the schedule was removed before the event began");
    assert_eq!(reason("suspended"), "the schedule was suspended before the event began");
    assert!(reason("changed").starts_with("the schedule was changed or resumed"));
    assert_eq!(reason("left"), "the node ceased to follow the schedule before the event began");
    assert_eq!(reason("kept"), "no agent of the node was connected while the window was open");
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
    let suspended = Definition { is_suspended: true, ..hourly("incremental") };
    let suspended = change(store, "hourly", &suspended, "bert").expect("is changed");
    assert_eq!(suspended.row.since, added.row.since);
    let resumed = change(store, "hourly", &hourly("incremental"), "bert").expect("is changed");
    assert!(resumed.row.since > added.row.since, "nothing is made up for");
    let added = resumed;
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
    let is_drawn = |name: &str| {
        let drawn = name.strip_prefix('@').expect("the name of an action");
        drawn.len() == 8 && policy::is_name(drawn)
    };
    assert!(is_drawn(&name), "{name}");
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

    let target = EventTarget { schedule: name.clone(), node: Some(nodes[1].id) };
    assert_eq!(control(store, &target, Control::Cancel, "anna").expect("is cancelled"), 1);
    let controls = plan_of(store, &nodes[1]).expect("is read").controls;
    assert_eq!(controls.iter().map(|one| one.control).collect::<Vec<_>>(), [Control::Cancel]);
    assert_eq!(plan_of(store, &nodes[0]).expect("is read").controls, []);
    let again = run_now(store, &nodes[..1], &hourly("verify"), "anna").expect("is started");
    assert!(is_drawn(&again) && again != name, "no name counts: {again}");
    refused(run_now(store, &nodes, &hourly("expire"), "anna"), "nodes do not carry out");
}

/// The audit trail had only the number of nodes, so that no node showed what was run there.
#[test]
fn the_start_of_an_action_is_in_the_audit_trail_of_its_nodes() {
    let server = TestServer::new();
    let store = &*server.store;
    let nodes: Vec<Node> = (1..=12).map(|number| add_node(store, &format!("n{number}"))).collect();
    let details = |node: &str| {
        let node = Some(node.to_owned());
        let filter = audit_trail::Filter { node, ..audit_trail::Filter::default() };
        let found = audit_trail::list(store, &filter, None, (9, 1000)).expect("is listed");
        found.events.into_iter().map(|one| one.event.details).collect::<Vec<_>>()
    };
    let action = |objects: &[&str], options: &[&str]| {
        let definition = hourly("incremental");
        let objects = objects.iter().map(|object| object.as_bytes().to_vec().into()).collect();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Definition { action: Action { objects, options, ..definition.action }, ..definition }
    };
    let name = run_now(store, &nodes[1..2], &action(&[], &[]), "anna").expect("is started");
    assert_eq!(details("n2"), [format!("{name}: incremental at 1 node (n2)")]);
    assert_eq!(details("n1"), [""; 0]);
    let all = action(&["/etc", "/a b\n"], &["--exclude=*.o"]);
    let name = run_now(store, &nodes, &all, "anna").expect("is started");
    let named = "n1, n2, n3, n4, n5, n6, n7, n8, n9, n10 and 2 more";
    let words = "/etc /a b\\x0a --exclude=*.o";
    let expected = format!("{name}: incremental at 12 nodes ({named}): {words}");
    assert_eq!(details("n10"), [expected]);
    let path = format!("/{}", "x".repeat(300));
    let long = action(&[path.as_str()], &[]);
    run_now(store, &nodes[..1], &long, "anna").expect("is started");
    assert!(details("n1")[0].ends_with(&format!("(n1): /{}...", "x".repeat(199))));
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
        reason: "2 files failed".to_owned(),
        session: "{}".to_owned(),
        log: b"the end".to_vec(),
        ..event_report(&event, 1, Phase::Ended(4))
    };
    report(store, &ended).expect("is recorded");
    let (event, log) = find_event(store, event.number).expect("is found");
    assert_eq!((event.state, event.code), (EventState::Completed, Some(4)));
    assert_eq!((event.reason.as_str(), log.as_slice()), ("2 files failed", &b"the end"[..]));
    refused(find_event(store, event.number + 1), "there is no such event");
    let target = EventTarget { schedule: event.key.schedule, node: None };
    refused(control(store, &target, Control::Pause, "anna"), "no event that is pending");
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
    refused(
        associate(store, "expiry", &[Follower::Label("x".to_owned())], "anna"),
        "work of the server",
    );
    assert!(run_due(store, Line::Planned, true).expect("nothing is due"));
    assert_eq!(events(store), []);
    sys::clock::sleep(std::time::Duration::from_millis(300));
    run_due(store, Line::Planned, false).expect("is done");
    let done = events(store);
    assert_eq!((done.len(), done[0].state, done[0].code), (1, EventState::Completed, Some(0)));
    assert_eq!(done[0].reason, "0 versions expired");
    run_due(store, Line::Planned, false).expect("nothing is due");
    assert_eq!(events(store), done);

    // The server dies while it works; the work may be done again.
    let began = event_report(&done[0], 2, Phase::Began);
    report(store, &began).expect("is recorded");
    run_due(store, Line::Planned, false).expect("another thread works");
    assert_eq!(events(store)[0].state, EventState::Restarted);
    run_due(store, Line::Planned, true).expect("is noticed");
    assert_eq!(events(store)[0].state, EventState::Uncertain, "no attempt is left");
}

#[test]
fn work_waits_for_the_upkeep_that_it_cannot_run_beside() {
    let server = TestServer::new();
    let store = &server.store;
    let mut definition = hourly("copy-pools");
    definition.timing.starts = policy::schedule::Starts::Once(sys::clock::now().0 + 100_000);
    add(store, "copies", &definition, "anna").expect("is added");
    sys::clock::sleep(std::time::Duration::from_millis(150));
    let upkeep = store.try_tend().expect("nobody else works");
    std::thread::scope(|scope| {
        let work = scope.spawn(|| run_due(store, Line::Planned, false).expect("is done"));
        sys::clock::sleep(std::time::Duration::from_millis(300));
        assert_eq!(events(store)[0].state, EventState::Started);
        drop(upkeep);
        work.join().expect("no panic");
    });
    let done = &events(store)[0];
    assert_eq!((done.state, done.code), (EventState::Completed, Some(0)), "{}", done.reason);
}

/// A clock that was 50 days ahead for seconds left thousands of missed events, removed the history,
/// and no event was opened for 50 days after that.
#[test]
fn a_clock_that_was_ahead_neither_opens_nor_forgets_events_nor_holds_them_up() {
    let server = TestServer::new();
    let store = &server.store;
    let node = add_node(store, "web-1");
    add(store, "hourly", &hourly("incremental"), "anna").expect("is added");
    associate(store, "hourly", &[Follower::Node(node.id)], "anna").expect("is associated");
    let mut timetable = Timetable::default();
    let ahead = next_hour(50 * 24 * 60);
    tick(store, &mut timetable, next_hour(-1)).expect("looks");
    tick(store, &mut timetable, next_hour(0)).expect("looks");
    assert_eq!(events(store).len(), 1);

    // The record of time says that the clock went back: no trusted clock reads this time.
    let seen = |value| vec![Write::SetMark { name: "clock seen", value }];
    let no_start = Write::SetMark { name: "clock start", value: 0 };
    let distrust = [seen(ahead.0), vec![no_start]].concat();
    store.catalog.commit(distrust).expect("is written");
    tick(store, &mut timetable, next_hour(3 * 60)).expect("waits");
    tick(store, &mut Timetable::default(), next_hour(200 * 24 * 60)).expect("waits");
    assert!(!run_due(store, Line::Planned, true).expect("waits"));
    assert_eq!(events(store).len(), 1);
    store.catalog.commit(seen(sys::clock::now().0)).expect("is written");

    // An earlier version has opened events of the future.
    tick(store, &mut timetable, ahead).expect("opens");
    assert!(events(store).iter().any(|event| event.key.planned == ahead));
    tick(store, &mut timetable, next_hour(60)).expect("takes the mark back");
    assert!(events(store).iter().all(|event| event.key.planned <= next_hour(120)));
    tick(store, &mut timetable, next_hour(180)).expect("looks");
    assert_eq!(events(store)[0].key.planned, next_hour(180));
    assert_eq!(events(store)[0].state, EventState::Pending);
}

/// A cancelled event counts as failed, so that the node tried it again with the next plan.
#[test]
fn a_cancellation_is_in_the_plan_until_the_window_closes_and_is_final() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    run_now(store, std::slice::from_ref(&node), &hourly("incremental"), "anna")
        .expect("is started");
    let event = events(store).remove(0);
    let ended = |attempt| event_report(&event, attempt, Phase::Ended(12));
    let target = EventTarget { schedule: event.key.schedule.clone(), node: None };
    report(store, &ended(1)).expect("is recorded");
    // The action is tried a second time within its window.
    refused(control(store, &target, Control::Pause, "anna"), "no event that is pending");
    assert_eq!(control(store, &target, Control::Cancel, "anna").expect("is cancelled"), 1);
    let controls = || plan_of(store, &node).expect("is read").controls;
    assert_eq!(controls(), [PlannedControl { key: event.key.clone(), control: Control::Cancel }]);
    report(store, &ended(2)).expect("is recorded");
    assert_eq!(controls().len(), 1);
    refused(control(store, &target, Control::Cancel, "anna"), "no event that is pending");

    let name = run_now(store, std::slice::from_ref(&node), &hourly("verify"), "anna");
    let target = EventTarget { schedule: name.expect("is started"), node: None };
    assert_eq!(control(store, &target, Control::Cancel, "anna").expect("is cancelled"), 1);
    for wish in [Control::Resume, Control::Cancel] {
        refused(control(store, &target, wish, "anna"), "that is not cancelled");
    }
}

/// A wish about an event of last night reached the event of tonight.
#[test]
fn a_wish_about_one_event_leaves_the_next_one_of_its_schedule() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    run_now(store, std::slice::from_ref(&node), &hourly("incremental"), "anna")
        .expect("is started");
    let first = events(store).remove(0);
    let ended = event_report(&first, 1, Phase::Ended(0));
    report(store, &ended).expect("is recorded");
    let planned = ServerTime(first.key.planned.0 + 1);
    let key = EventKey { planned, ..first.key.clone() };
    store
        .catalog
        .open_events(&[(key, Occurrence { planned, ..ended.occurrence })])
        .expect("is opened");
    let next = events(store).into_iter().find(|one| one.number != first.number);
    let next = next.expect("the next event");
    refused(control_one(store, &first, Control::Cancel, "anna"), "has ended");
    let wish = || {
        let all = events(store).into_iter().find(|one| one.number == next.number);
        all.expect("is there").control
    };
    assert_eq!(wish(), None);
    control_one(store, &next, Control::Cancel, "anna").expect("is cancelled");
    assert_eq!(wish(), Some(Control::Cancel));
}

/// A node that got the label of a schedule made up at once for a window before that.
#[test]
fn a_node_follows_from_the_time_at_which_it_gets_the_label_or_the_domain() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    for name in ["ByLabel", "ByDomain"] {
        add(store, name, &hourly("incremental"), "anna").expect("is added");
    }
    associate(store, "ByLabel", &[Follower::Label("web".to_owned())], "anna")
        .expect("is associated");
    let standard = node.domain;
    associate(store, "ByDomain", &[Follower::Domain(standard)], "anna").expect("is associated");
    let since = |name: &str| {
        let node = store.catalog.node(&node.name).expect("is found");
        let schedules = plan_of(store, &node).expect("is read").schedules;
        schedules.into_iter().find(|one| one.name == name).expect("is followed").since
    };
    let before = sys::clock::now();
    assert!(since("ByDomain") < before);
    label(store, &node, "web").expect("is labelled");
    let labelled = since("ByLabel");
    assert!(labelled >= before);
    label(store, &node, "web").expect("has it already");
    assert_eq!(since("ByLabel"), labelled);
    let move_to = |domain, moved| {
        let change =
            NodeChange { domain: Some(domain), moved: Some(moved), ..NodeChange::default() };
        store.catalog.change_node(node.id, &change).expect("is changed");
    };
    let later = ServerTime(before.0 + MINUTE);
    move_to(standard, later);
    assert!(since("ByDomain") < before, "it was in this domain before");
    crate::domains::add(store, "OTHER", "anna").expect("is made");
    let other = crate::domains::find(store, "OTHER").expect("is found").id;
    move_to(other, before);
    move_to(standard, later);
    assert_eq!(since("ByDomain"), later);
}

#[test]
fn events_of_the_future_are_computed_for_each_follower() {
    let server = TestServer::new();
    let store = &*server.store;
    let [a, b] = ["web-1", "db-1"].map(|name| add_node(store, name));
    for name in ["hourly", "other", "idle"] {
        add(store, name, &hourly("incremental"), "anna").expect("is added");
    }
    add(store, "expiry", &hourly("expire"), "anna").expect("is added");
    let followers = [Follower::Node(a.id), Follower::Node(b.id)];
    associate(store, "hourly", &followers, "anna").expect("is associated");
    associate(store, "other", &followers[..1], "anna").expect("is associated");
    let suspended = Definition { is_suspended: true, ..hourly("incremental") };
    change(store, "other", &suspended, "anna").expect("is changed");
    let list = |filter: &EventFilter, limit| {
        let events = future_events(store, filter, next_hour(0), limit, None).expect("are listed");
        assert!(events.iter().all(|event| event.state == EventState::Future));
        let name = |event: ScheduledEvent| (event.key.schedule, event.key.planned, event.key.node);
        events.into_iter().map(name).collect::<Vec<_>>()
    };
    let event = |name: &str, hours: i64, node| (name.to_owned(), next_hour(hours * 60), node);
    let expected =
        [event("hourly", 1, Some(b.id)), event("hourly", 1, Some(a.id)), event("expiry", 1, None)];
    assert_eq!(list(&EventFilter::default(), 3), expected);
    let of_a = EventFilter { node: Some(a.id), ..EventFilter::default() };
    let of_a = EventFilter { to: Some(next_hour(120)), ..of_a };
    let expected = [event("hourly", 2, Some(a.id)), event("hourly", 1, Some(a.id))];
    assert_eq!(list(&of_a, 9), expected);
    let of_server = EventFilter { is_of_server: true, ..EventFilter::default() };
    assert_eq!(list(&of_server, 1), [event("expiry", 1, None)]);
    let of_nodes = EventFilter { is_of_nodes: true, ..EventFilter::default() };
    assert_eq!(list(&of_nodes, 1), [event("hourly", 1, Some(a.id))]);
    label(store, &a, "web").expect("is labelled");
    let next = |conditions| {
        let mut filter = EventFilter { to: Some(next_hour(60)), ..EventFilter::default() };
        narrow(store, &mut filter, conditions, &|_| true).expect("is right");
        list(&filter, 9)
    };
    let none = EventConditions::default();
    let web = EventConditions { label: Some("web".to_owned()), ..none.clone() };
    assert_eq!(next(web), expected[1..]);
    let expire = EventConditions { work: Some("expire".to_owned()), ..none.clone() };
    assert_eq!(next(expire), [event("expiry", 1, None)]);
    let images = EventConditions { work: Some("image".to_owned()), ..none.clone() };
    assert_eq!(next(images), []);
    let text = EventConditions { text: Some("DB-".to_owned()), ..none };
    assert_eq!(next(text), [event("hourly", 1, Some(b.id))]);
    let other = EventFilter { domain: Some(model::DomainId(999)), ..EventFilter::default() };
    assert_eq!(list(&other, 9), []);
}

#[test]
fn conditions_that_cannot_be_met_are_refused() {
    let server = TestServer::new();
    let narrow =
        |conditions| narrow(&server.store, &mut EventFilter::default(), conditions, &|_| true);
    let nap = EventConditions { work: Some("nap".to_owned()), ..EventConditions::default() };
    refused(narrow(nap), "'nap' is not the action of a schedule: give one of incremental");
    let long = EventConditions { text: Some("x".repeat(1001)), ..EventConditions::default() };
    refused(narrow(long), "longer than 1000 bytes");
}

#[test]
fn a_drain_names_a_pool_that_can_be_drained() {
    let server = TestServer::new();
    let mut drain = hourly("drain");
    drain.action.objects = vec![policy::schedule::Word(b"nopool".to_vec())];
    refused(add(&server.store, "drain", &drain, "anna"), "nopool");
    let mut nightly = hourly("incremental");
    nightly.action.options = vec!["--bogus".to_owned()];
    refused(add(&server.store, "nightly", &nightly, "anna"), "the option '--bogus'");
}

#[test]
fn an_event_that_takes_a_day_is_noted_once() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "web-1");
    let name = run_now(store, std::slice::from_ref(&node), &hourly("incremental"), "anna")
        .expect("is started");
    let event = events(store).remove(0);
    let began = event_report(&event, 1, Phase::Began);
    report(store, &began).expect("is recorded");
    let notes = |minutes: i64| {
        let mut timetable = Timetable::default();
        let now = ServerTime(began.at.0 + minutes * MINUTE);
        tick(store, &mut timetable, now).expect("looks");
        let log = store.catalog.events(None, 1000).expect("are listed");
        let notes = log.iter().filter(|one| one.event.what == "event takes long");
        notes.map(|one| one.event.details.clone()).collect::<Vec<_>>()
    };
    assert_eq!((notes(0).len(), notes(24 * 60 - 1).len()), (0, 0));
    assert!(notes(24 * 60 + 1)[0].contains(&format!("of schedule {name} at node web-1")));
    assert_eq!((notes(24 * 60 + 2).len(), notes(48 * 60).len()), (1, 1));
}
