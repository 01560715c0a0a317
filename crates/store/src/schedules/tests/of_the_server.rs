//! Work that the server does itself: by schedules, and because somebody asks for it.

use catalog::{Control, EventKey};
use model::ServerTime;
use policy::schedule::event::{EventState, Phase};
use policy::schedule::{Action, Work};

use super::{event_report, events, hourly, next_hour};
use crate::samples::{TestServer, refused};
use crate::schedules::errand::Errand;
use crate::schedules::*;

#[test]
fn a_task_that_a_person_asks_for_is_done_at_once_and_once() {
    let server = TestServer::new();
    let store = &server.store;
    let action = |work| Action { work, objects: Vec::new(), options: Vec::new() };
    refused(start_task(store, &action(Work::Incremental), "anna"), "work of nodes");
    let event = start_task(store, &action(Work::Expire), "anna").expect("is started");
    assert_eq!((event.state, event.key.node), (EventState::Pending, None));
    refused(start_task(store, &action(Work::Expire), "bert"), "is under way, or waits");
    run_due(store, Line::Planned, false).expect("nothing is due");
    assert_eq!(events(store)[0].state, EventState::Pending);
    run_due(store, Line::Asked, false).expect("is done");
    let done = events(store).remove(0);
    assert_eq!((done.state, done.code), (EventState::Completed, Some(0)));
    let numbers: serde_json::Value = serde_json::from_str(&done.report).expect("is JSON");
    assert_eq!(numbers["expired"], 0);
    let again = start_task(store, &action(Work::Expire), "bert").expect("the first has ended");
    let target = EventTarget { schedule: again.key.schedule, node: None };
    control(store, &target, Control::Cancel, "anna").expect("is cancelled");
    run_due(store, Line::Asked, false).expect("does nothing");
    let ended = events(store).remove(0);
    assert_eq!((ended.number, ended.state), (again.number, EventState::Failed));
    assert_eq!(ended.reason, "an administrator has cancelled the event");
}

/// Nobody saw how far a task of the server had come.
#[test]
fn a_task_tells_those_who_look_how_far_it_has_come() {
    let server = TestServer::new();
    let store = &server.store;
    let action = Action { work: Work::Scrub, objects: Vec::new(), options: Vec::new() };
    let event = start_task(store, &action, "anna").expect("is started");
    let told = |phase| event_report(&event, 1, phase);
    report(store, &told(Phase::Began)).expect("is recorded");
    let look = || Errand::new(store, (&event.key, 1), None).goes_on(&|| serde_json::json!(7));
    assert!(look());
    assert_eq!(events(store)[0].progress, "", "nobody looks");
    watch(store, &events(store), sys::clock::now()).expect("is noted");
    assert!(look());
    assert_eq!(events(store)[0].progress, "7");
}

/// The cancellation of work under way at the server was acknowledged, and nothing happened.
#[test]
fn work_of_the_server_under_way_ends_when_it_is_cancelled() {
    let server = TestServer::new();
    let store = &*server.store;
    add(store, "scrub", &hourly("scrub"), "anna").expect("is added");
    let mut timetable = Timetable::default();
    tick(store, &mut timetable, next_hour(-1)).expect("looks");
    tick(store, &mut timetable, next_hour(0)).expect("looks");
    let key = events(store).remove(0).key;
    let mut errand = Errand::new(store, (&key, 1), None);
    assert!(errand.goes_on(&|| serde_json::Value::Null));
    let target = EventTarget { schedule: "scrub".to_owned(), node: None };
    refused(control(store, &target, Control::Pause, "anna"), "cannot pause");
    control(store, &target, Control::Cancel, "anna").expect("is cancelled");
    assert!(!Errand::new(store, (&key, 1), None).goes_on(&|| serde_json::Value::Null));
}

#[test]
fn work_of_the_server_ends_after_its_maximum_duration() {
    let server = TestServer::new();
    let store = &*server.store;
    let (schedule, planned) = ("scrub".to_owned(), ServerTime(1));
    let key = EventKey { schedule, planned, node: None };
    let goes_on = |most| Errand::new(store, (&key, 1), most).goes_on(&|| serde_json::Value::Null);
    assert!(goes_on(None) && goes_on(Some(std::time::Duration::from_secs(60))));
    assert!(!goes_on(Some(std::time::Duration::ZERO)));
}
