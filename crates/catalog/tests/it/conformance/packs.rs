//! Packs and their numbers.

use catalog::{Catalog, PackRow, PackState, Write};
use model::{DomainId, PackNumber};

use super::Engine;
use crate::samples::{add_node, pack, unstorable};

fn add(catalog: &dyn Catalog, domain: DomainId, number: u64) -> PackRow {
    let row = pack(PackNumber(number), domain, PackState::Open);
    catalog
        .commit(vec![Write::PutPack(row.clone())])
        .expect("the batch is performed");
    row
}

pub(crate) fn packs_are_listed_by_number(engine: &dyn Engine) {
    let catalog = engine.open();
    let domain = add_node(&*catalog, "a").domain;
    assert_eq!(catalog.packs().expect("none"), []);
    let [two, ten, nine] = [2, 10, 9].map(|number| add(&*catalog, domain, number));
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.packs().expect("are listed"), [two, nine, ten]);
}

pub(crate) fn a_pack_is_replaced(engine: &dyn Engine) {
    let catalog = engine.open();
    let domain = add_node(&*catalog, "a").domain;
    let other = add(&*catalog, domain, 2);
    let open = add(&*catalog, domain, 1);
    let bytes = u64::try_from(i64::MAX).expect("positive");
    for state in [PackState::Sealed, PackState::Condemned, PackState::Damaged] {
        let replaced = PackRow { state, bytes, ..open };
        catalog
            .commit(vec![Write::PutPack(replaced.clone())])
            .expect("the batch is performed");
        assert_eq!(catalog.packs().expect("are listed"), [replaced.clone(), other.clone()]);
        // Commits may overtake each other: a pack that was sealed is never open again.
        let old = Write::PutPack(open.clone());
        catalog.commit(vec![old]).expect("the batch is performed");
        assert_eq!(catalog.packs().expect("are listed"), [replaced, other.clone()]);
    }
}

pub(crate) fn a_pack_keeps_its_node(engine: &dyn Engine) {
    let catalog = engine.open();
    let [first, second] = ["a", "b"].map(|name| add_node(&*catalog, name));
    let row = add(&*catalog, first.domain, 1);
    let (first, second) = (Some(first.id), Some(second.id));
    let steps = [(None, None), (first, first), (None, first), (second, second), (None, second)];
    for (node, known) in steps {
        let bytes = row.bytes + 1;
        let writes = vec![Write::PutPack(PackRow { node, bytes, ..row })];
        catalog.commit(writes).expect("the batch is performed");
        let expected = PackRow { node: known, bytes, ..row };
        assert_eq!(catalog.packs().expect("are listed"), [expected]);
    }
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.packs().expect("are listed")[0].node, second);
}

pub(crate) fn a_pack_number_is_never_given_twice(engine: &dyn Engine) {
    let mut catalog = engine.open();
    let domain = add_node(&*catalog, "a").domain;
    assert_eq!(catalog.next_pack().expect("is known"), PackNumber(1));
    // A number that is written after a higher number, or again, does not lower the count.
    for (number, next) in [(1, 2), (2, 3), (9, 10), (4, 10), (9, 10), (10, 11)] {
        add(&*catalog, domain, number);
        assert_eq!(catalog.next_pack().expect("is known"), PackNumber(next));
        catalog = engine.reopen(catalog);
        assert_eq!(catalog.next_pack().expect("is known"), PackNumber(next));
    }
}

pub(crate) fn a_refused_pack_has_had_no_number(engine: &dyn Engine) {
    let catalog = engine.open();
    let domain = add_node(&*catalog, "a").domain;
    let row = add(&*catalog, domain, 1);
    let second = pack(PackNumber(2), domain, PackState::Open);
    let writes = vec![Write::PutPack(second), unstorable(domain)];
    catalog.commit(writes).expect_err("one write is refused");
    assert_eq!(catalog.packs().expect("are listed"), [row]);
    assert_eq!(catalog.next_pack().expect("is known"), PackNumber(2));
}
