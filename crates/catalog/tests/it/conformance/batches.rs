//! Batches: whole or not at all, in order, visible, durable.

use catalog::{Catalog, Node, PackState, PageRow, Write};
use model::{FilespaceId, PackNumber};

use super::Engine;
use crate::contents;
use crate::samples::{
    NO_FILESPACE, NOW, add_filespace, add_version, dir, fill, key, pack, page, put, refusal,
    session, unstorable, version,
};

/// One write of each kind.
fn one_of_each(node: &Node, filespace: FilespaceId) -> Vec<Write> {
    let root = dir("/");
    vec![
        put(filespace, page(&key(&root, b"new"), 9)),
        Write::RemovePage { filespace, key: key(&root, b"") },
        add_version(filespace, version(&root, b"new", 1, 2)),
        Write::PutPack(pack(PackNumber(99), node.domain, PackState::Open)),
        Write::AddSession(session(node, filespace, 50, true)),
    ]
}

pub(crate) fn a_batch_with_a_refused_write_leaves_nothing(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = fill(&*catalog, "a", 1);
    let filespace = catalog.filespaces(node.id).expect("are listed")[0].id;
    let before = contents::of_catalog(&*catalog).expect("is read");
    let good = one_of_each(&node, filespace);
    let mut all_refused = one_of_each(&node, NO_FILESPACE);
    all_refused.retain(|write| !matches!(write, Write::PutPack(_)));
    all_refused.push(unstorable(node.domain));
    for refused in all_refused {
        for index in 0..=good.len() {
            let mut writes = good.clone();
            writes.insert(index, refused.clone());
            catalog.commit(writes).expect_err("one write is refused");
            assert_eq!(contents::of_catalog(&*catalog).expect("is read"), before);
        }
    }
    let catalog = engine.reopen(catalog);
    assert_eq!(contents::of_catalog(&*catalog).expect("is read"), before);
    catalog.commit(good).expect("without the refused write the batch is performed");
    assert_ne!(contents::of_catalog(&*catalog).expect("is read"), before);
}

pub(crate) fn writes_of_a_batch_happen_in_order(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, filespace) = add_filespace(&*catalog, "a");
    let (a, b) = (key(&dir("/"), b""), key(&dir("/"), b"b"));
    let undigested = PageRow { digest: None, ..page(&a, 3) };
    let writes = vec![
        put(filespace, page(&a, 1)),
        Write::RemovePage { filespace, key: a.clone() },
        put(filespace, page(&a, 2)),
        put(filespace, undigested.clone()),
        put(filespace, page(&b, 1)),
        Write::RemovePage { filespace, key: b },
        Write::AddSession(session(&node, filespace, 1, true)),
        Write::AddSession(session(&node, filespace, 2, false)),
    ];
    catalog.commit(writes).expect("the batch is performed");
    let holding = contents::of_filespace(&*catalog, filespace).expect("is read");
    assert_eq!((holding.pages, holding.digests.len()), (vec![undigested], 1));
    let newest = catalog.sessions(node.id, 1).expect("one");
    assert_eq!(newest, [session(&node, filespace, 2, false)]);
}

pub(crate) fn an_empty_batch_changes_nothing(engine: &dyn Engine) {
    let catalog = engine.open();
    fill(&*catalog, "a", 1);
    let before = contents::of_catalog(&*catalog).expect("is read");
    catalog.commit(Vec::new()).expect("is performed");
    assert_eq!(contents::of_catalog(&*catalog).expect("is read"), before);
}

pub(crate) fn a_committed_batch_is_visible_at_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let catalog: &dyn Catalog = &*catalog;
    for state in 1..=50 {
        let row = page(&key(&dir("/"), b""), state);
        catalog
            .commit(vec![put(filespace, row.clone())])
            .expect("the batch is performed");
        let seen = |expected: &PageRow| {
            let read = catalog.page(filespace, &expected.key).expect("is read");
            assert_eq!(read.as_ref(), Some(expected));
        };
        seen(&row);
        std::thread::scope(|scope| {
            scope.spawn(|| seen(&row));
        });
    }
}

pub(crate) fn a_reopened_catalogue_holds_everything(engine: &dyn Engine) {
    let catalog = engine.open();
    fill(&*catalog, "a", 1);
    fill(&*catalog, "b", 2);
    let before = contents::of_catalog(&*catalog).expect("is read");
    let catalog = engine.reopen(engine.reopen(catalog));
    assert_eq!(contents::of_catalog(&*catalog).expect("is read"), before);
    for state in [1, 2] {
        catalog.certificate_node(&[state, 1], NOW).expect("is known");
        catalog.token_node(&[state + 100; 32], NOW).expect("is good");
        assert_eq!(refusal(catalog.token_node(&[state; 32], NOW)), "token");
    }
}
