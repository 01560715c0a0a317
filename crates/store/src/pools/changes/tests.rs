//! Tests of adding, changing and removing pools in folders.

use super::*;
use crate::folder::error::OpenError;
use crate::samples::{TestServer, refused};

fn new(server: &TestServer, name: &str, settings: PoolSettings) -> NewPool {
    let url = format!("file://{}", server.beside(name).display());
    NewPool { name: name.to_owned(), url, is_copy: false, settings }
}

fn next(name: &str) -> PoolSettings {
    PoolSettings { next: Some(Some(name.to_owned())), ..PoolSettings::default() }
}

fn set(server: &TestServer, name: &str, settings: PoolSettings) -> Result<(), StoreError> {
    let change = PoolChange { name: name.to_owned(), settings, is_replaced: false };
    super::change(&server.store, &change).map(drop)
}

#[test]
fn settings_that_do_not_fit_are_refused_and_change_nothing() {
    let server = TestServer::new();
    server.add_pool("NEXT", false);
    server.add_pool("COPIES", true);
    set(&server, "PRIMARY", next("NEXT")).expect("is changed");
    let none = PoolSettings::default;
    let cases = [
        ("PRIMARY", PoolSettings { high_percent: Some(101), ..none() }, "0 to 100"),
        ("PRIMARY", PoolSettings { low_percent: Some(101), ..none() }, "0 to 100"),
        (
            "PRIMARY",
            PoolSettings { high_percent: Some(50), low_percent: Some(51), ..none() },
            "the low mark, 51 %, must not be above the high mark, 50 %",
        ),
        ("PRIMARY", PoolSettings { delay_days: Some(10_000), ..none() }, "at most 9999 days"),
        ("PRIMARY", PoolSettings { reuse_delay_days: Some(10_000), ..none() }, "at most 9999"),
        ("PRIMARY", PoolSettings { reclaim_percent: Some(0), ..none() }, "1 to 100"),
        ("PRIMARY", PoolSettings { reclaim_percent: Some(101), ..none() }, "1 to 100"),
        (
            "PRIMARY",
            PoolSettings { collocation: Some(Collocation::Node), ..none() },
            "only a pool on volumes",
        ),
        ("PRIMARY", next("COPIES"), "no pool can drain to it"),
        ("PRIMARY", next("NOWHERE"), "there is no pool NOWHERE"),
        ("PRIMARY", next("PRIMARY"), "would come back to it"),
        ("NEXT", next("PRIMARY"), "NEXT cannot drain to PRIMARY"),
        ("COPIES", next("NEXT"), "a copy pool must have no next pool"),
        ("COPIES", PoolSettings { capacity: Some(Some(9)), ..none() }, "no capacity"),
    ];
    let before = server.store.catalog.pools().expect("are listed");
    for (name, settings, expected) in cases {
        refused(set(&server, name, settings), expected);
        assert_eq!(server.store.catalog.pools().expect("are listed"), before, "{expected}");
    }
}

#[test]
fn settings_that_fit_are_kept_over_a_restart() {
    let mut server = TestServer::new();
    server.add_pool("NEXT", false);
    let settings = PoolSettings {
        capacity: Some(Some(1 << 30)),
        high_percent: Some(100),
        low_percent: Some(0),
        delay_days: Some(DAYS_MAX),
        reclaim_percent: Some(100),
        ..next("next")
    };
    set(&server, "primary", settings).expect("names are known in any case");
    server.reopen();
    let [primary] = &list(&server.store, Some("PRIMARY")).expect("is listed")[..] else {
        panic!("one pool has the name")
    };
    assert_eq!(primary.next.as_deref(), Some("NEXT"));
    assert_eq!(primary.row.capacity_bytes, Some(1 << 30));
    assert_eq!((primary.row.high_percent, primary.row.low_percent), (100, 0));
    assert_eq!(primary.row.delay_days, DAYS_MAX);
    set(&server, "PRIMARY", PoolSettings { next: Some(None), ..PoolSettings::default() })
        .expect("is changed");
    assert_eq!(list(&server.store, Some("PRIMARY")).expect("is listed")[0].next, None);
}

#[test]
fn a_new_pool_has_an_empty_folder_apart_from_all_others() {
    let server = TestServer::new();
    server.add_pool("FIRST", false);
    let full = server.beside("full");
    std::fs::create_dir(&full).expect("is made");
    std::fs::write(full.join("file"), "").expect("is written");
    let url = |path: &Path| format!("file://{}", path.display());
    let cases = [
        (url(&full), "is not empty"),
        (url(&server.beside("FIRST")), "the folder of pool FIRST"),
        (url(&server.beside("FIRST").join("below")), "the folder of pool FIRST"),
        (url(server.path()), "the folder of pool PRIMARY"),
        ("file:relative".to_owned(), "give the whole path"),
        ("ftp://somewhere".to_owned(), "is not a pool that this version can use"),
        ("tape:vault".to_owned(), "there is no library vault; 'holdfast admin library add'"),
    ];
    for (url, expected) in cases {
        let new = NewPool { name: "NEW".to_owned(), url, ..NewPool::default() };
        refused(add(&server.store, &new), expected);
    }
    refused(add(&server.store, &new(&server, "not a name", PoolSettings::default())), "name");
    let twice = NewPool { name: "first".to_owned(), ..new(&server, "OTHER", next("FIRST")) };
    let error = refused(add(&server.store, &twice), "a pool of this name exists already");
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    add(&server.store, &new(&server, "OTHER", next("FIRST"))).expect("the folder is free again");
}

#[test]
fn a_pool_that_is_needed_is_not_removed() {
    let server = TestServer::new();
    server.add_pool("NEXT", false);
    server.add_pool("COPIES", true);
    set(&server, "PRIMARY", next("NEXT")).expect("is changed");
    refused(remove(&server.store, "PRIMARY"), "server.toml names it");
    refused(remove(&server.store, "NEXT"), "pool PRIMARY drains to NEXT");
    server.back_up("/", &[("x", &[1])]);
    crate::pools::drain(&server.store, "PRIMARY", true, &mut |_| true).expect("is drained");
    crate::pools::copy(&server.store, "COPIES", &mut |_| true).expect("is copied");
    refused(remove(&server.store, "NEXT"), "holds packs");
    let removed = remove(&server.store, "COPIES").expect("second copies may go");
    assert_eq!(removed.usage.packs, 1);
    let names = list(&server.store, None).expect("are listed").into_iter();
    assert!(names.map(|pool| pool.row.name).eq(["PRIMARY", "NEXT"]));
    refused(remove(&server.store, "COPIES"), "there is no pool COPIES");
}

#[test]
fn only_a_pool_that_is_lost_is_replaced() {
    let server = TestServer::new();
    server.add_pool("COPIES", true);
    server.back_up("/", &[("x", &[1])]);
    crate::pools::copy(&server.store, "COPIES", &mut |_| true).expect("is copied");
    let name = "COPIES".to_owned();
    let replaced = PoolChange { name, is_replaced: true, ..PoolChange::default() };
    refused(change(&server.store, &replaced), "only a lost pool can be replaced");
    std::fs::remove_dir_all(server.beside("COPIES")).expect("is removed");
    let after = change(&server.store, &replaced).expect("its disk is lost");
    assert_eq!((after.usage.packs, after.missing_packs), (0, 1));
    crate::pools::copy(&server.store, "COPIES", &mut |_| true).expect("is copied again");
    assert_eq!(list(&server.store, Some("COPIES")).expect("is listed")[0].missing_packs, 0);
}

#[test]
fn a_node_has_packs_of_its_own_where_a_pool_keeps_nodes_apart() {
    let server = TestServer::new();
    let of_node =
        |server: &TestServer| filler(&server.store, server.node.id).expect("is read").node;
    assert_eq!(of_node(&server), None);
    let mut row = server.store.catalog.pools().expect("are listed").remove(0);
    row.collocation = Collocation::Node;
    server.store.catalog.change_pool(&row).expect("is changed");
    assert_eq!(of_node(&server), Some(server.node.id));
}

#[test]
fn two_servers_do_not_use_one_pool_at_once() {
    let server = TestServer::new();
    let specs = server.store.pools.specs();
    assert!(server.store.claim_each(&specs).is_empty(), "nobody else uses it");
    assert!(server.store.claim_each(&specs).is_empty(), "its own lock stays");
    let error = crate::ownership::check_unused(&specs).expect_err("the first one runs still");
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    server.store.ownership.die();
    crate::ownership::check_unused(&specs).expect("the first one has ended");
}
