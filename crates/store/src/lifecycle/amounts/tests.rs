//! Tests of amounts: what the catalogue has counted is what is there.

use std::collections::BTreeMap;

use catalog::{DomainDetails, Write};
use model::DomainId;

use super::*;
use crate::intake::Intake;
use crate::samples::{TestServer, directory, page_change, refused, sent_file, stored};

/// Fails unless the amount of each domain is what its filespaces hold.
#[track_caller]
pub(crate) fn check(store: &Store) {
    let mut counted: BTreeMap<DomainId, Amount> = BTreeMap::new();
    for node in store.catalog.nodes().expect("are listed") {
        for filespace in store.catalog.filespaces(node.id).expect("are listed") {
            let sum = counted.entry(node.domain).or_default();
            *sum = sum.plus(count(store, &filespace).expect("can be read"));
        }
    }
    let known: BTreeMap<_, _> = store.catalog.amounts().expect("are known").into_iter().collect();
    assert_eq!(known, counted, "the amounts are not what is there");
}

/// Backs up a file of three chunks.
fn back_up(server: &TestServer, name: &str) -> Result<(), StoreError> {
    let mut intake = Intake::open(&server.store, server.node.clone(), b"/home")?;
    let chunks = [1, 2, 3];
    let quantum = stored(&server.store, &chunks);
    let done = intake.commit(vec![(1, quantum)], &|_| {
        let file = sent_file(crate::samples::name(name), 1, &chunks);
        Ok(vec![crate::intake::PageChange { backed_up: vec![file], ..page_change("/") }])
    });
    done.map(drop)
}

fn limit(server: &TestServer, objects_max: u64) {
    let details = DomainDetails { objects_max: Some(objects_max), ..DomainDetails::default() };
    let domain = server.node.domain;
    server.store.catalog.put_domain_details(domain, &details).expect("are kept");
    server.store.quotas.forget();
}

#[test]
fn a_backup_above_the_limit_stores_nothing() {
    let server = TestServer::new();
    limit(&server, 2);
    back_up(&server, "a").expect("is the first");
    back_up(&server, "a").expect("is the second, with its old version");
    refused(back_up(&server, "b"), "domain STANDARD may store 2 objects and stores 2 objects");
    check(&server.store);
    let filespaces = server.store.catalog.filespaces(server.node.id).expect("are listed");
    let home = filespaces.iter().find(|one| one.name == b"/home").expect("is there");
    let span = catalog::PageSpan::Directory(directory("/"));
    let page = server.store.catalog.pages(home.id, &span, None, 9);
    assert_eq!(page.expect("is read")[0].object_count, 1);
    limit(&server, 3);
    back_up(&server, "b").expect("the limit is higher");
    check(&server.store);
}

#[test]
fn an_old_filespace_is_counted_once_nobody_writes_it() {
    let server = TestServer::new();
    back_up(&server, "a").expect("is kept");
    back_up(&server, "a").expect("is kept");
    let catalog = &server.store.catalog;
    let filespaces = catalog.filespaces(server.node.id).expect("are listed");
    let home = filespaces.iter().find(|one| one.name == b"/home").expect("is there").clone();
    let right = catalog.amount(server.node.domain).expect("is known");
    catalog
        .count_filespace(&home, Amount { objects: 77, bytes: 7 })
        .expect("is set");
    assert_ne!(catalog.amount(server.node.domain).expect("is known"), right);
    catalog
        .count_filespace(&home, count(&server.store, &home).expect("is counted"))
        .expect("set");
    assert_eq!(catalog.amount(server.node.domain).expect("is known"), right);
    assert!(count_some(&server.store).expect("looks"), "every new filespace is counted");
    let gone = Write::Grow { filespace: home.id, growth: Growth { objects: -99, bytes: -1 } };
    catalog.commit(vec![gone]).expect("is performed");
    assert_eq!(catalog.amount(server.node.domain).expect("is known").objects, 0);
}
