//! Storage pools, and the copy of the catalogue that they keep.

use super::Engine;
use crate::samples::{add_node, pool};
use catalog::{CatalogError, Collocation, Nodes as _, PoolRow, sqlite::Sqlite};

pub(crate) fn a_pool_is_as_it_was_put(engine: &dyn Engine) {
    let catalog = engine.open();
    let first = PoolRow { id: catalog.add_pool(&pool("B")).expect("made"), ..pool("B") };
    let copies = PoolRow {
        is_copy: true,
        mark: [9; 16],
        collocation: Collocation::Node,
        reclaim_percent: 100,
        reuse_delay_days: 9999,
        ..pool("A")
    };
    let copies = PoolRow { id: catalog.add_pool(&copies).expect("made"), ..copies };
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.pools().expect("are listed"), [first.clone(), copies.clone()]);
    let changed = PoolRow {
        mark: [8; 16],
        next: Some(copies.id),
        capacity_bytes: Some(1 << 50),
        high_percent: 80,
        low_percent: 5,
        delay_days: 30,
        collocation: Collocation::Group,
        reclaim_percent: 0,
        reuse_delay_days: 7,
        ..first
    };
    catalog.change_pool(&changed).expect("changed");
    assert_eq!(catalog.pools().expect("are listed"), [changed, copies]);
}

pub(crate) fn pools_are_told_apart(engine: &dyn Engine) {
    let catalog = engine.open();
    let first = catalog.add_pool(&pool("A")).expect("made");
    let again = catalog.add_pool(&pool("a"));
    assert!(matches!(again, Err(CatalogError::Exists { .. })), "{again:?}");
    catalog.remove_pool(first).expect("removed");
    let unknown = catalog.remove_pool(first);
    assert!(matches!(unknown, Err(CatalogError::NotFound { .. })), "{unknown:?}");
    let unknown = catalog.change_pool(&PoolRow { id: first, ..pool("A") });
    assert!(matches!(unknown, Err(CatalogError::NotFound { .. })), "{unknown:?}");
    let catalog = engine.reopen(catalog);
    assert_ne!(catalog.add_pool(&pool("A")).expect("made"), first, "a number is given once");
}

pub(crate) fn a_copy_is_of_one_moment(engine: &dyn Engine) {
    let catalog = engine.open();
    add_node(&*catalog, "before");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("copy");
    catalog.copy_to(&path).expect("copied");
    add_node(&*catalog, "after");
    let copy = Sqlite::open(&path).expect("a catalogue");
    let names: Vec<String> = copy
        .nodes()
        .expect("are listed")
        .iter()
        .map(|node| node.name.to_string())
        .collect();
    assert_eq!(names, ["before"]);
}
