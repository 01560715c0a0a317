//! Results of restore drills.

use catalog::DrillRow;
use model::NodeId;

use super::Engine;
use crate::samples::{NO_NODE, add_node, at, drill, refusal};

pub(crate) fn the_last_drill_of_each_kind_is_kept(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name).id);
    assert_eq!(catalog.drills(None).expect("none"), []);
    let failed = |node: NodeId, number| DrillRow {
        is_good: false,
        damaged: 1,
        reason: "a file is damaged".to_owned(),
        ..drill(node, number)
    };
    for row in [drill(a, 1), failed(a, 2), drill(b, 3), drill(a, 4)] {
        catalog.put_drill(&row).expect("is kept");
    }
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.drills(Some(a)).expect("two"), [failed(a, 2), drill(a, 4)]);
    assert_eq!(catalog.drills(None).expect("are listed"), [failed(a, 2), drill(a, 4), drill(b, 3)]);
    catalog.put_drill(&failed(a, 5)).expect("is kept");
    assert_eq!(catalog.drills(Some(a)).expect("two"), [failed(a, 5), drill(a, 4)]);
    assert_eq!(refusal(catalog.put_drill(&drill(NO_NODE, 6))), "not found");
    catalog.remove_node(a).expect("is removed");
    assert_eq!(catalog.drills(None).expect("one"), [drill(b, 3)]);
    assert_eq!(catalog.drills(None).expect("one")[0].at, at(3));
}
