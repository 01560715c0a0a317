//! Kept baselines.

use catalog::{BASELINES_MAX, Catalog};
use model::NodeId;

use super::Engine;
use crate::samples::{add_node, at};

/// Returns the documents of the node's baselines from the number `from`, as text.
fn documents(catalog: &dyn Catalog, node: NodeId, from: Option<u64>, limit: usize) -> Vec<String> {
    let rows = catalog.baselines(node, from, limit).expect("are listed");
    assert!(rows.is_sorted_by(|a, b| a.number < b.number));
    let texts = rows.into_iter().map(|row| String::from_utf8(row.document).expect("text"));
    texts.collect()
}

pub(crate) fn baselines_are_oldest_first_and_of_one_node(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name).id);
    for (node, text, made) in [(a, "1", 5), (b, "2", 6), (a, "3", 7), (a, "4", 6)] {
        catalog.add_baseline(node, at(made), text.as_bytes()).expect("is kept");
    }
    let catalog = engine.reopen(catalog);
    assert_eq!(documents(&*catalog, a, None, 9), ["1", "3", "4"]);
    assert_eq!(documents(&*catalog, a, None, 2), ["1", "3"]);
    assert_eq!(documents(&*catalog, b, None, 9), ["2"]);
    let rows = catalog.baselines(a, None, 9).expect("are listed");
    assert!(rows.iter().map(|row| row.made).eq([5, 7, 6].map(at)));
    let second = rows[1].number;
    assert_eq!(documents(&*catalog, a, Some(second), 9), ["3", "4"]);
    assert_eq!(documents(&*catalog, a, Some(second - 1), 1), ["3"], "of another node");
    assert_eq!(documents(&*catalog, a, Some(u64::MAX), 9), [""; 0]);
}

pub(crate) fn the_oldest_baseline_makes_room_for_the_newest(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name).id);
    catalog.add_baseline(b, at(0), b"of b").expect("is kept");
    for number in 1..=BASELINES_MAX + 2 {
        let kept = documents(&*catalog, a, None, usize::MAX).len();
        assert_eq!(kept, (number - 1).min(BASELINES_MAX));
        let text = number.to_string();
        catalog.add_baseline(a, at(0), text.as_bytes()).expect("is kept");
    }
    let expected = (3..=BASELINES_MAX + 2).map(|number| number.to_string());
    assert!(documents(&*catalog, a, None, usize::MAX).into_iter().eq(expected));
    assert_eq!(documents(&*catalog, b, None, 9), ["of b"]);
}

pub(crate) fn documents_are_kept_as_sent(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let long = [0x5a, 0, 0xff].repeat(350_000);
    for document in [&b""[..], b"\0\xff\x28\xb5\x2f\xfd", b"'; DROP TABLE node; --", &long] {
        catalog.add_baseline(node, at(1), document).expect("is kept");
        let rows = catalog.baselines(node, None, 9).expect("are listed");
        assert!(rows.last().is_some_and(|row| row.document == document));
    }
}
