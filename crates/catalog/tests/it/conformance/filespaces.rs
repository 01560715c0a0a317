//! Filespaces, and the classes that their objects are bound to.

use catalog::{Filespace, Node, Write};
use model::{BACKUP_FILESPACE_MIN, DirPath, archive_filespace};

use super::Engine;
use crate::contents::{self, FilespaceContents};
use crate::samples::{NO_NODE, NOW, add_node, at, fill, refusal, version};

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

pub(crate) fn removal_takes_all_of_the_filespace_and_nothing_else(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, other) = (fill(&*catalog, "a", 1), fill(&*catalog, "b", 2));
    let spaces = catalog.filespaces(node.id).expect("two");
    let [gone, kept] = [&spaces[0], &spaces[1]];
    let [first, second] =
        [1, 2].map(|_| catalog.add_deletion(node.id, "x", NOW).expect("is added"));
    let trashed = |deletion, space: &Filespace| {
        let version = version(&DirPath::root(), b"old", 1, 1);
        Write::Trash { filespace: space.id, version, deletion }
    };
    catalog
        .commit(vec![trashed(first, gone), trashed(second, gone)])
        .expect("are discarded");
    catalog.commit(vec![trashed(second, kept)]).expect("is discarded");
    let rest = contents::of_filespace(&*catalog, kept.id).expect("is read");
    let others = contents::of_node(&*catalog, other.id).expect("is read");
    catalog.remove_filespace(gone.id).expect("is removed");

    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.filespaces(node.id).expect("one"), std::slice::from_ref(kept));
    assert_eq!(contents::of_filespace(&*catalog, kept.id).expect("is read"), rest);
    assert_eq!(contents::of_node(&*catalog, other.id).expect("is read"), others);
    let left = contents::of_filespace(&*catalog, gone.id).expect("is read");
    assert_eq!(left, FilespaceContents::default());
    let sessions = catalog.sessions(node.id, 99).expect("are listed");
    assert!(!sessions.is_empty() && sessions.iter().all(|one| one.filespace == kept.id));
    let deletions = catalog.deletions(Some(node.id)).expect("are listed");
    let deletions: Vec<(u64, u64)> =
        deletions.iter().map(|one| (one.number, one.versions)).collect();
    assert_eq!(deletions, [(second, 1)]);
    assert_eq!(refusal(catalog.remove_filespace(gone.id)), "not found");
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
