//! Tests of copies of the catalogue: when one is due, which numbers they have, and doubt.

use super::*;
use crate::pools::{self, PoolChange, PoolSettings};
use crate::samples::{TestServer, mount, unmount};

#[test]
fn a_copy_is_due_when_the_newest_is_old() {
    let hours = |hours: i64| ServerTime(hours * HOUR_MICROS);
    assert!(is_due(None, hours(0), 24));
    assert!(!is_due(None, hours(0), 0));
    assert!(!is_due(Some(hours(1)), hours(24), 24));
    assert!(is_due(Some(hours(1)), hours(25), 24));
    assert!(is_due(Some(hours(1)), hours(0), 24), "the date of the copy is in the future");
}

/// Makes the pool unavailable while `work` runs, as a disk that is not mounted.
fn without(server: &TestServer, place: usize, work: impl FnOnce()) {
    let folder = server.store.pools.specs()[place].folder.clone();
    unmount(&folder);
    pools::refresh(&server.store);
    work();
    mount(&folder);
    pools::refresh(&server.store);
}

#[test]
fn a_copy_in_a_pool_that_is_away_is_followed_by_a_newer_copy() {
    let server = TestServer::new();
    server.add_pool("NEXT", false);
    let next = PoolSettings { next: Some(Some("NEXT".to_owned())), ..PoolSettings::default() };
    let name = "PRIMARY".to_owned();
    pools::change(&server.store, &PoolChange { name, settings: next, is_replaced: false })
        .expect("is changed");
    let numbers = || numbers(&server.store.pools).into_iter().map(|(number, _)| number);
    renew(&server.store).expect("no copy is kept");
    assert_eq!(numbers().count(), 0);
    run(&server.store, Order::default(), &mut |_| true).expect("is copied");
    without(&server, 0, || {
        assert_eq!(numbers().count(), 0, "the copy lies in the pool that is away");
        renew(&server.store).expect("is copied");
        assert_eq!(numbers().collect::<Vec<_>>(), [2], "no number is used again");
    });
    assert_eq!(numbers().collect::<Vec<_>>(), [1, 2]);
}

/// The catalogue of a filespace that had lost its objects was doubtful for ever.
#[test]
fn after_a_confirmed_copy_the_next_copy_is_not_doubtful() {
    let server = TestServer::new();
    server.back_up("/a/", &[("x", &[1])]);
    let catalog = &server.store.catalog;
    let filespaces = catalog.filespaces(server.node.id).expect("are listed");
    let home = filespaces.iter().find(|one| one.id == server.filespace).expect("is there");
    let wrong = catalog::Amount { objects: 1000, bytes: 7 };
    catalog.count_filespace(home, wrong).expect("is set");
    let doubt = |accepts_shrinking| {
        let done = run(&server.store, Order { accepts_shrinking }, &mut |_| true);
        done.expect("is copied").doubt
    };
    assert!(doubt(false).expect("999 objects are gone").contains("1 of the 1000 objects"));
    assert!(doubt(false).is_some(), "nobody has confirmed it");
    assert_eq!(doubt(true), None);
    assert_eq!(doubt(false), None);
    amounts::check(&server.store);
}

#[test]
fn names_tell_numbers() {
    assert_eq!(number(&name(7)), Some(7));
    assert_eq!(number("0000000007.copy.tmp"), None);
    assert_eq!(number(&name(NUMBER_MAX)), Some(NUMBER_MAX));
    assert_eq!(number(&name(NUMBER_MAX + 1)), None);
    assert_eq!(number(&name(u64::MAX)), None);
}
