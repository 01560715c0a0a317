//! Last contacts of nodes, and the last polls of their agents.

use catalog::{ContactRow, PollRow};
use model::ServerTime;

use super::Engine;
use crate::samples::{DOMAIN, NO_NODE, NOW, node_name};

pub(crate) fn the_last_contact_of_a_node_is_kept_until_it_is_removed(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = catalog.add_node(&node_name("a"), DOMAIN, NOW).expect("is added").id;
    let row = |node, later: i64| ContactRow {
        node,
        at: ServerTime(NOW.0 + later),
        address: format!("192.0.2.{later}"),
        host: "web-1".to_owned(),
    };
    let known = || catalog.contact(node).expect("is looked up");
    assert_eq!(known(), None);
    catalog.put_contacts(&[row(node, 5), row(NO_NODE, 6)]).expect("are kept");
    assert_eq!(known(), Some(row(node, 5)));
    assert_eq!(catalog.contact(NO_NODE).expect("is looked up"), None);
    catalog.put_contacts(&[row(node, 4)]).expect("is older");
    assert_eq!(known(), Some(row(node, 5)));
    catalog.put_contacts(&[row(node, 7)]).expect("is newer");
    assert_eq!(known(), Some(row(node, 7)));
    drop(catalog);
    let catalog = engine.open();
    assert_eq!(catalog.contact(node).expect("is durable"), Some(row(node, 7)));
    catalog.remove_node(node).expect("is removed");
    assert_eq!(catalog.contact(node).expect("has none"), None);
}

pub(crate) fn the_last_poll_of_an_agent_is_kept_until_its_node_is_removed(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = catalog.add_node(&node_name("a"), DOMAIN, NOW).expect("is added").id;
    let row = |node, later: i64, minutes| PollRow { node, at: ServerTime(NOW.0 + later), minutes };
    let known = || catalog.poll(node).expect("is looked up");
    assert_eq!(known(), None);
    catalog.put_polls(&[row(node, 5, 240), row(NO_NODE, 6, 240)]).expect("are kept");
    assert_eq!(known(), Some(row(node, 5, 240)));
    assert_eq!(catalog.poll(NO_NODE).expect("is looked up"), None);
    catalog.put_polls(&[row(node, 4, 10)]).expect("is older");
    assert_eq!(known(), Some(row(node, 5, 240)));
    catalog.put_polls(&[row(node, 7, 0)]).expect("is newer");
    assert_eq!(known(), Some(row(node, 7, 0)));
    drop(catalog);
    let catalog = engine.open();
    assert_eq!(catalog.poll(node).expect("is durable"), Some(row(node, 7, 0)));
    catalog.remove_node(node).expect("is removed");
    assert_eq!(catalog.poll(node).expect("has none"), None);
}
