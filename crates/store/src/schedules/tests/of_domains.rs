//! Schedules that belong to domains: nobody else hears of them or depends on them.

use catalog::{EventFilter, Follower, ScheduleRow};
use model::DomainId;
use policy::schedule::{Blackout, Definition, Starts};

use super::{add_node, hourly, label};
use crate::samples::{TestServer, refused};
use crate::schedules::followers::Followers;
use crate::schedules::{
    EventConditions, OwnedBy, ScheduleRef, add, add_of_domain, associate, change, dissociate, list,
    narrow, readable, remove,
};

#[test]
fn a_schedule_that_got_the_name_of_another_has_followers_of_its_own_only() {
    let server = TestServer::new();
    let store = &*server.store;
    let node = add_node(store, "law-1");
    label(store, &node, "web").expect("is labelled");
    let lab = crate::domains::add(store, "LAB", "anna").expect("is made").domain.id;
    let work = hourly("incremental");
    let made = add_of_domain(store, lab, "mine", &work, "bert").expect("is added");
    associate(store, "mine", &[Follower::Label("web".to_owned())], "bert").expect("may follow");
    let reaches = |rows: &[ScheduleRow]| {
        let followers = Followers::read(&*store.catalog, rows).expect("are read");
        !followers.of_node(&node).is_empty()
    };
    assert!(!reaches(&[]), "it was made after the schedules were read");
    assert!(!reaches(std::slice::from_ref(&made.row)));
    remove(store, "mine", "bert").expect("is removed");
    add(store, "mine", &work, "anna").expect("is added");
    associate(store, "mine", &[Follower::Label("web".to_owned())], "anna").expect("may follow");
    assert!(!reaches(&[made.row]), "the domain is that of the schedule that was read");
    assert!(reaches(&store.catalog.schedules().expect("are read")));
}

#[test]
fn a_definition_that_cannot_be_read_hides_no_other_schedule() {
    let server = TestServer::new();
    let store = &*server.store;
    let kept = add(store, "kept", &hourly("incremental"), "anna").expect("is added");
    let strange = ScheduleRow { name: "strange".to_owned(), body: "{}".to_owned(), ..kept.row };
    store.catalog.add_schedule(&strange).expect("is added");
    refused(list(store, None), "the definition of schedule strange cannot be read");
    let readable = readable(store).expect("are listed").into_iter();
    assert_eq!(readable.map(|one| one.row.name).collect::<Vec<_>>(), ["kept"]);
}

#[test]
fn the_work_of_a_schedule_of_others_is_no_condition() {
    let server = TestServer::new();
    let store = &*server.store;
    let lab = crate::domains::add(store, "LAB", "anna").expect("is made").domain.id;
    add(store, "all", &hourly("incremental"), "anna").expect("is added");
    add_of_domain(store, lab, "mine", &hourly("incremental"), "bert").expect("is added");
    let check = |is_seen: &dyn Fn(DomainId) -> bool, expected: &[&str]| {
        let work = Some("incremental".to_owned());
        let conditions = EventConditions { work, ..EventConditions::default() };
        let mut filter = EventFilter::default();
        narrow(store, &mut filter, conditions, is_seen).expect("is right");
        let expected = expected.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(filter.schedules, Some(expected));
    };
    check(&|domain| domain == lab, &["all", "mine"]);
    check(&|_| false, &["all"]);
}

#[test]
fn a_schedule_of_a_domain_is_bounded_in_what_it_costs_all() {
    let server = TestServer::new();
    let store = &*server.store;
    let lab = crate::domains::add(store, "LAB", "anna").expect("is made").domain.id;
    add_of_domain(store, lab, "mine", &hourly("incremental"), "bert").expect("is added");
    let altered = |alter: &dyn Fn(&mut Definition)| {
        let mut definition = hourly("incremental");
        alter(&mut definition);
        definition
    };
    let starts = |text: String| -> Starts { serde_json::from_str(&text).expect("are starts") };
    let every = |minutes: u32| {
        starts(format!(
            r#"{{"interval":{{"first":"2026-01-01T00:00","every":{{"minutes":{minutes}}}}}}}"#
        ))
    };
    let daily = |count: u32| {
        let times = (0..count).map(|number| format!("{:02}:{:02}", number / 60, number % 60));
        let times = times.collect::<Vec<_>>().join(",");
        starts(format!(r#"{{"calendar":{{"times":"{times}"}}}}"#))
    };
    let blackout = || -> Blackout { "2026-12-24..2026-12-26".parse().expect("a blackout") };
    let blackouts = |count: usize| (0..count).map(|_| blackout()).collect::<Vec<_>>();
    for (most, more, what) in [
        (
            altered(&|one| one.timing.starts = every(15)),
            altered(&|one| one.timing.starts = every(14)),
            "every 15 minutes",
        ),
        (
            altered(&|one| one.timing.starts = daily(96)),
            altered(&|one| one.timing.starts = daily(97)),
            "at most 96 times a day",
        ),
        (
            altered(&|one| one.timing.window_minutes = 1440),
            altered(&|one| one.timing.window_minutes = 1441),
            "a window of at most 1440 minutes",
        ),
        (
            altered(&|one| one.timing.blackouts = blackouts(20)),
            altered(&|one| one.timing.blackouts = blackouts(21)),
            "at most 20 blackouts",
        ),
    ] {
        refused(add_of_domain(store, lab, "more", &more, "bert"), what);
        refused(change(store, "mine", &more, "bert"), what);
        change(store, "mine", &most, "bert").expect(what);
    }
    let often = altered(&|one| one.timing.starts = every(1));
    add(store, "all", &often, "anna").expect("those who run the service may");
}

#[test]
fn a_change_is_not_for_another_schedule_with_the_same_name() {
    let server = TestServer::new();
    let store = &*server.store;
    let add_domain =
        |name: &str| crate::domains::add(store, name, "anna").expect("is made").domain.id;
    let [lab, law] = ["LAB", "LAW"].map(add_domain);
    let web = [Follower::Label("web".to_owned())];
    let found = add_of_domain(store, lab, "mine", &hourly("incremental"), "bert");
    let found = found.expect("is added");
    associate(store, &found, &web, "bert").expect("may follow");
    let often = Definition { retries: 7, ..hourly("incremental") };
    change(store, &found, &often, "bert").expect("is changed");
    dissociate(store, &found, &web, "bert").expect("is ended");
    remove(store, &found, "bert").expect("is removed");
    add_of_domain(store, law, "mine", &hourly("incremental"), "carl").expect("is added");
    let law = OwnedBy::Domain(law);
    associate(store, ("mine", law), &web, "carl").expect("may follow");
    let others =
        [OwnedBy::Domain(lab), OwnedBy::Service].map(|owner| ScheduleRef::from(("mine", owner)));
    let unknown = "there is no schedule mine";
    for named in others.into_iter().chain([ScheduleRef::from(&found)]) {
        refused(associate(store, named, &web, "bert"), unknown);
        refused(dissociate(store, named, &web, "bert"), unknown);
        refused(change(store, named, &often, "bert"), unknown);
        refused(remove(store, named, "bert"), unknown);
    }
    let left = list(store, Some("mine")).expect("is listed").remove(0);
    assert_eq!(OwnedBy::of(left.owner), law);
    assert_eq!((left.definition, left.followers), (hourly("incremental"), web.to_vec()));
    remove(store, ("mine", law), "carl").expect("is removed");
}
