//! Amounts of what is stored.

use catalog::{Amount, Growth, VersionKey, Write};

use super::Engine;
use crate::samples::*;

fn grow(filespace: model::FilespaceId, objects: i64, bytes: i64) -> Write {
    Write::Grow { filespace, growth: Growth { objects, bytes } }
}

pub(crate) fn amounts_are_those_of_the_domain(engine: &dyn Engine) {
    let catalog = engine.open();
    let (a, in_a) = add_filespace(&*catalog, "a");
    let (b, in_b) = add_filespace(&*catalog, "b");
    let standard = a.domain;
    let lab = catalog.add_domain("LAB", NOW).expect("is added").id;
    assert_eq!(catalog.amounts().expect("both"), [(standard, Amount::default())]);
    catalog
        .commit(vec![grow(in_a, 3, 300), grow(in_b, 2, i64::MAX)])
        .expect("is performed");
    let most = catalog.amount(standard).expect("is known");
    assert_eq!((most.objects, most.bytes), (5, 300 + (1 << 60)), "a size is bounded");
    catalog.commit(vec![grow(in_b, -9, -i64::MAX)]).expect("is performed");
    let amount = Amount { objects: 3, bytes: 300 };
    assert_eq!(catalog.amount(standard).expect("is known"), amount, "no amount is negative");
    let moved = catalog::NodeChange { domain: Some(lab), ..Default::default() };
    catalog.change_node(a.id, &moved).expect("is moved");
    let both = [(standard, Amount::default()), (lab, amount)];
    assert_eq!(catalog.amounts().expect("both"), both);
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.amount(lab).expect("is known"), amount);
    catalog.remove_node(a.id).expect("is removed");
    catalog.remove_node(b.id).expect("is removed");
    assert_eq!(catalog.amounts().expect("none"), []);
    assert_eq!(catalog.uncounted(9).expect("none"), []);
}

pub(crate) fn what_is_freed_was_there(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, filespace) = add_filespace(&*catalog, "a");
    let directory = directories()[0].clone();
    let old = version(&directory, b"old", 1, 2);
    let key =
        VersionKey { name: old.name.clone(), inserted: old.inserted, deactivated: old.deactivated };
    let free = || Write::FreeVersions {
        filespace,
        directory: directory.clone(),
        versions: vec![(key.clone(), 10)],
    };
    let begin = vec![grow(filespace, 3, 100), add_version(filespace, old.clone()), free(), free()];
    catalog.commit(begin).expect("is performed");
    let amount = |objects, bytes| {
        assert_eq!(catalog.amount(node.domain).expect("is known"), Amount { objects, bytes });
    };
    amount(2, 90);
    let trash = |deletion| Write::Trash { deletion, filespace, version: old.clone() };
    let put_back = catalog.add_deletion(node.id, "one", NOW).expect("is added");
    let purged = catalog.add_deletion(node.id, "two", NOW).expect("is added");
    let writes = vec![trash(put_back), trash(purged), Write::EmptyTrash { deletion: put_back }];
    catalog.commit(writes).expect("is performed");
    amount(2, 90);
    catalog
        .commit(vec![Write::PurgeTrash { deletion: purged }])
        .expect("is performed");
    amount(1, 90);
    assert_eq!(catalog.deletions(None).expect("none"), []);
}
