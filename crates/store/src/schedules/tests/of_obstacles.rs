//! Obstacles that keep nodes from beginning events, as the server tells of them.

use super::*;

/// Of an event on a node with a full disk, the server said only that the agent was connected.
#[test]
fn what_keeps_a_node_from_beginning_is_the_reason_until_it_begins() {
    let server = TestServer::new();
    let store = &*server.store;
    let [full, left, begun] = ["full", "left", "begun"].map(|name| add_node(store, name));
    let agent = Attendant { node: full.id, number: 1, place: b"place", address: "127.0.0.1" };
    assert_eq!(attend(store, &agent).expect("is recorded"), None);
    add(store, "hourly", &hourly("incremental"), "anna").expect("is added");
    associate(store, "hourly", &[Follower::Domain(full.domain)], "anna").expect("is associated");
    let mut timetable = Timetable::default();
    for minute in [-1, 0] {
        tick(store, &mut timetable, next_hour(minute)).expect("looks");
    }
    let event = |node: &Node| {
        let of_node = |event: &ScheduledEvent| event.key.node == Some(node.id);
        events(store).into_iter().find(of_node).expect("was opened")
    };
    let told = "the agent cannot record that the event begins: the disk is full";
    let tell = |node: &Node| {
        let key = event(node).key;
        note_obstacle(store, &key, told).expect("is noted");
    };
    for node in [&full, &left, &begun] {
        tell(node);
    }
    assert_eq!((event(&full).state, event(&full).reason.as_str()), (EventState::Pending, told));
    let count = events(store).len();
    let schedule = event(&full).key.schedule;
    let unknown = EventKey { schedule, planned: next_hour(1), node: Some(full.id) };
    note_obstacle(store, &unknown, told).expect("is passed over");
    assert_eq!(events(store).len(), count, "no event is made");
    let report = |phase, minute| {
        let report = event_report(&event(&begun), 1, phase);
        let report = EventReport { at: next_hour(minute), ..report };
        store.catalog.report_event(&report).expect("is recorded");
        tell(&begun);
        let known = event(&begun);
        assert_eq!(known.reason, "", "it has begun");
        known.state
    };
    assert_eq!(report(Phase::Began, 1), EventState::Started);
    assert_eq!(report(Phase::Ended(0), 2), EventState::Completed);
    tick(store, &mut timetable, next_hour(10)).expect("looks");
    assert_eq!((event(&full).state, event(&full).reason.as_str()), (EventState::Missed, told));
    let then = "no agent of the node was connected while the window was open";
    assert_eq!(event(&left).reason, format!("{told}; {then}"));
    assert_eq!(event(&begun).state, EventState::Completed);
}

/// Of a node with a full disk, the server said only how the attempt before had ended.
#[test]
fn what_keeps_a_node_from_a_further_attempt_follows_the_reason_of_the_last_one() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "full");
    add(store, "hourly", &hourly("incremental"), "anna").expect("is added");
    associate(store, "hourly", &[Follower::Node(node.id)], "anna").expect("is associated");
    let mut timetable = Timetable::default();
    for minute in [-1, 0] {
        tick(store, &mut timetable, next_hour(minute)).expect("looks");
    }
    let event = || events(store).remove(0);
    let report = |attempt, phase, reason: &str| {
        let report = event_report(&event(), attempt, phase);
        let report = EventReport { at: next_hour(1), reason: reason.to_owned(), ..report };
        store.catalog.report_event(&report).expect("is recorded");
    };
    let reason_after = |told: &str| {
        note_obstacle(store, &event().key, told).expect("is noted");
        event().reason
    };
    report(1, Phase::Ended(12), "ended with code 3");
    for told in ["the disk is full", "the disk cannot be written", "the disk is full"] {
        let expected = format!("ended with code 3; no further attempt begins: {told}");
        assert_eq!(reason_after(told), expected);
    }
    let told = "no further attempt begins: the disk is full";
    for _ in 0..2 {
        assert_eq!(reason_after(told), format!("ended with code 3; {told}"), "it does not grow");
    }
    let failed = event();
    assert_eq!((failed.state, failed.code, failed.attempt), (EventState::Failed, Some(12), 1));
    report(2, Phase::Began, "");
    assert_eq!(reason_after("full"), "", "it has begun");
    report(2, Phase::Interrupted, "");
    assert_eq!(reason_after("full"), "no further attempt begins: full");
    report(2, Phase::Ended(0), "");
    assert_eq!(reason_after("full"), "", "it is done");
    assert_eq!(event().state, EventState::Completed);
}
