//! Filespaces, and the classes that their objects are bound to.

use catalog::Node;
use model::{BACKUP_FILESPACE_MIN, archive_filespace};

use super::Engine;
use crate::samples::{NO_NODE, NOW, add_node, at, refusal};

pub(crate) fn a_filespace_is_made_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    assert_eq!(catalog.filespaces(node.id).expect("none"), []);
    let made = catalog.open_filespace(node.id, b"/home", NOW).expect("is made");
    assert_eq!((made.node, &made.name[..], made.last_backup), (node.id, &b"/home"[..], None));
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.open_filespace(node.id, b"/home", at(9)).expect("is there"), made);
    assert_eq!(catalog.filespaces(node.id).expect("one"), [made]);
    assert_eq!(refusal(catalog.open_filespace(NO_NODE, b"/home", NOW)), "not found");
}

pub(crate) fn filespaces_are_listed_in_byte_order(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    let mut names: [&[u8]; 8] =
        [b"/srv", b"/", b"/a/b", b"/a-b", b"/a", b"/\xff\xfe", b"/\x01", b"/B \xc3\xa9"];
    for name in names {
        let made = catalog.open_filespace(node.id, name, NOW).expect("is made");
        assert_eq!(made.name, name);
    }
    names.sort_unstable();
    let listed = catalog.filespaces(node.id).expect("are listed");
    assert_eq!(listed.iter().map(|space| &space.name[..]).collect::<Vec<_>>(), names);
}

pub(crate) fn filespaces_are_listed_from_a_name(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, other) = (add_node(&*catalog, "a"), add_node(&*catalog, "b"));
    for name in [&b"/a"[..], b"/\xff", b"\x001\0/", b"/"] {
        catalog.open_filespace(node.id, name, NOW).expect("is made");
    }
    catalog.open_filespace(other.id, b"/b", NOW).expect("is made");
    let from = |from: &[u8], limit| -> Vec<Vec<u8>> {
        let listed = catalog.filespaces_from(node.id, from, limit).expect("are listed");
        listed.into_iter().map(|space| space.name).collect()
    };
    assert_eq!(from(b"", 2), [&b"\x001\0/"[..], b"/"]);
    assert_eq!(from(BACKUP_FILESPACE_MIN, 9), [&b"/"[..], b"/a", b"/\xff"]);
    assert_eq!(from(b"/a", 1), [b"/a"]);
    assert_eq!(from(b"/b", 9), [b"/\xff"]);
}

pub(crate) fn filespaces_are_found_by_their_archive(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, other) = (add_node(&*catalog, "a"), add_node(&*catalog, "b"));
    let open = |node: &Node, number, mount_point: &[u8]| {
        let name = archive_filespace(number, mount_point);
        catalog.open_filespace(node.id, &name, NOW).expect("is made")
    };
    let (home, root) = (open(&node, 1, b"/home"), open(&node, 1, b"/"));
    let ten = open(&node, 10, b"/");
    open(&other, 1, b"/");
    catalog.open_filespace(node.id, b"/", NOW).expect("is made");
    let found = catalog.archive_filespaces(node.id, &[10, 2, 1]).expect("are listed");
    assert_eq!(found, [vec![ten], vec![], vec![root, home]]);
}

pub(crate) fn equal_names_of_two_nodes_are_two_filespaces(engine: &dyn Engine) {
    let catalog = engine.open();
    let nodes = [add_node(&*catalog, "a"), add_node(&*catalog, "b")];
    let spaces = [0, 1].map(|i| catalog.open_filespace(nodes[i].id, b"/", NOW).expect("is made"));
    assert_ne!(spaces[0].id, spaces[1].id);
    for (node, space) in nodes.into_iter().zip(spaces) {
        assert_eq!(catalog.filespaces(node.id).expect("one"), [space]);
    }
}
