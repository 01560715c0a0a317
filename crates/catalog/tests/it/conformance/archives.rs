//! Archives, and deletions that can be undone.

use catalog::{ArchiveChange, Catalog, EventRow, Node, Write};
use model::{DomainId, Name, ServerTime, archive_filespace};

use super::Engine;
use crate::samples::{
    NOW, add_filespace, add_node, add_version, at, dir, key, page, put, refusal, version,
};

fn set(catalog: &dyn Catalog, number: u64, change: ArchiveChange) {
    catalog
        .commit(vec![Write::SetArchive { number, change }])
        .expect("the batch is performed");
}

pub(crate) fn archives_are_newest_first_and_can_be_changed(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, other) = (add_node(&*catalog, "a"), add_node(&*catalog, "b"));
    let first = catalog.add_archive(node.id, "first", NOW).expect("is made");
    let second = catalog.add_archive(node.id, "second \u{f6}", at(1)).expect("is made");
    assert_ne!(first.number, second.number);
    assert_eq!((first.held, first.complete, first.objects), (false, false, 0));
    let change = ArchiveChange {
        event: Some(at(5)),
        held: Some(true),
        complete: Some(true),
        due: Some(Some(at(9))),
        objects_added: 7,
        bytes_added: 70,
    };
    set(&*catalog, first.number, change);
    let less = ArchiveChange { objects_added: -2, bytes_added: -100, ..ArchiveChange::default() };
    set(&*catalog, first.number, less);
    let catalog = engine.reopen(catalog);
    let archives = catalog.archives(node.id).expect("are listed");
    assert_eq!(archives[0], second);
    let first = &archives[1];
    assert_eq!((first.event, first.held, first.complete), (Some(at(5)), true, true));
    assert_eq!((first.due, first.objects, first.bytes), (Some(at(9)), 5, 0));
    let released = ArchiveChange { held: Some(false), due: Some(None), ..ArchiveChange::default() };
    set(&*catalog, first.number, released);
    let archives = catalog.archives(node.id).expect("are listed");
    assert_eq!((archives[1].held, archives[1].due), (false, None));
    assert_eq!(catalog.archives(other.id).expect("none"), []);
    let unknown = Write::SetArchive { number: 99, change: ArchiveChange::default() };
    assert_eq!(refusal(catalog.commit(vec![unknown])), "not found");
}

pub(crate) fn archives_and_deletions_are_listed_from_a_number(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, other) = (add_node(&*catalog, "a"), add_node(&*catalog, "b"));
    let nodes = [&node, &other, &node, &node];
    let archives: Vec<u64> = (0..)
        .zip(nodes)
        .map(|(second, node)| catalog.add_archive(node.id, "", at(second)).expect("is made").number)
        .collect();
    let deletions: Vec<u64> = (0..)
        .zip(nodes)
        .map(|(second, node)| catalog.add_deletion(node.id, "", at(second)).expect("is made"))
        .collect();
    // `from` is an index in both lists of numbers, and so are the results.
    let listed = |from: Option<usize>, limit| -> Vec<usize> {
        let index =
            |all: &[u64], number: u64| all.iter().position(|one| *one == number).expect("is made");
        let first = |all: &[u64]| from.map(|from| all[from]);
        let rows = catalog.archives_from(node.id, first(&archives), limit).expect("are listed");
        let of_archives: Vec<usize> = rows.iter().map(|row| index(&archives, row.number)).collect();
        let rows = catalog.deletions_from(node.id, first(&deletions), limit).expect("are listed");
        assert!(
            rows.iter()
                .map(|row| index(&deletions, row.number))
                .eq(of_archives.iter().copied())
        );
        of_archives
    };
    assert_eq!(listed(None, 2), [3, 2]);
    assert_eq!(listed(Some(2), 1), [2]);
    // Archives of another node and removed archives are not listed.
    assert_eq!(listed(Some(1), 9), [0]);
    catalog.remove_archive(node.id, archives[2]).expect("is removed");
    catalog
        .commit(vec![Write::EmptyTrash { deletion: deletions[2] }])
        .expect("the batch is performed");
    assert_eq!(listed(Some(2), 9), [0]);
    let newest = catalog.archives_from(node.id, Some(u64::MAX), 1).expect("are listed");
    assert_eq!(newest[0].number, archives[3]);
}

/// Numbers of nodes that make archives, deletions and baselines at the same time rise for each of
/// the nodes, and those of one node do not depend on the others.
pub(crate) fn numbers_of_a_node_rise_and_tell_nothing_of_others(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, other) = (add_node(&*catalog, "a"), add_node(&*catalog, "b"));
    let add = |node: &Node| {
        catalog.add_baseline(node.id, NOW, b"{}").expect("is kept");
        let kept = catalog.baselines(node.id, None, 999).expect("are listed");
        let archive = catalog.add_archive(node.id, "", NOW).expect("is made").number;
        let deletion = catalog.add_deletion(node.id, "", NOW).expect("is made");
        [archive, deletion, kept.last().expect("one at least").number]
    };
    let mut last = [0_u64; 3];
    for _ in 0..5 {
        for _ in 0..3 {
            add(&other);
        }
        let numbers = add(&node);
        for (number, last) in numbers.into_iter().zip(last) {
            assert!(number > last.max(NOW.0.unsigned_abs() - 1), "{number} after {last}");
            // A number is at most 1,000 after the one before it, and seldom some more if another
            // node has it.
            assert!(number <= last.max(NOW.0.unsigned_abs() - 1) + 5_000, "{number} after {last}");
        }
        last = numbers;
    }
    let made = catalog.add_archive(node.id, "", at(60)).expect("is made").number;
    assert!((at(60).0..at(60).0 + 1_000).contains(&i64::try_from(made).expect("small")), "{made}");
}

pub(crate) fn an_archive_goes_with_its_filespaces(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, kept) = add_filespace(&*catalog, "a");
    let gone = catalog.add_archive(node.id, "", NOW).expect("is made").number;
    let stays = catalog.add_archive(node.id, "", NOW).expect("is made").number;
    let mut filespaces = vec![kept];
    for number in [gone, stays] {
        let name = archive_filespace(number, b"/home");
        let filespace = catalog.open_filespace(node.id, &name, NOW).expect("is made").id;
        catalog
            .commit(vec![put(filespace, page(&key(&dir("/"), b""), 3))])
            .expect("the batch is performed");
        filespaces.push(filespace);
    }
    catalog.remove_archive(node.id, gone).expect("is removed");
    assert_eq!(refusal(catalog.remove_archive(node.id, gone)), "not found");
    let catalog = engine.reopen(catalog);
    let left: Vec<_> = catalog
        .filespaces(node.id)
        .expect("are listed")
        .iter()
        .map(|known| known.id)
        .collect();
    assert_eq!(left.len(), 2);
    assert!(!left.contains(&filespaces[1]));
    let count = |filespace| {
        catalog
            .count_objects(filespace, &model::DirPath::above_root())
            .expect("are counted")
    };
    assert_eq!((count(filespaces[1]), count(filespaces[2])), (0, 3));
}

pub(crate) fn deleted_versions_are_in_the_trash_until_it_is_emptied(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, filespace) = add_filespace(&*catalog, "a");
    let (other, _) = add_filespace(&*catalog, "b");
    let first = catalog.add_deletion(node.id, "one", NOW).expect("is made");
    let second = catalog.add_deletion(other.id, "two", at(1)).expect("is made");
    let versions = [
        version(&dir("/a/"), b"x", 1, 2),
        version(&dir("/a/"), b"x", 2, 3),
        version(&dir("/b/"), b"y", 1, 2),
    ];
    let aside = |deletion| {
        let trash = |version: &catalog::VersionRow| Write::Trash {
            deletion,
            filespace,
            version: version.clone(),
        };
        catalog
            .commit(versions.iter().map(trash).collect())
            .expect("the batch is performed");
    };
    aside(first);
    aside(second);
    assert_eq!(catalog.versions(filespace, &dir("/a/")).expect("none"), []);
    let catalog = engine.reopen(catalog);
    let numbers = |node| -> Vec<(u64, u64)> {
        let rows = catalog.deletions(node).expect("are listed");
        rows.iter().map(|row| (row.number, row.versions)).collect()
    };
    assert_eq!(numbers(None), [(second, 3), (first, 3)]);
    assert_eq!(numbers(Some(node.id)), [(first, 3)]);
    let mut found = Vec::new();
    while let [one] = &catalog.trash(first, found.len(), 1).expect("is read")[..] {
        assert_eq!(one.filespace, filespace);
        found.push(one.version.clone());
    }
    found.sort_by_key(|row| (row.directory.clone(), row.inserted));
    assert_eq!(found, versions);
    let of_object = |path, name: &[u8]| {
        let name = Name::new(name).expect("a name");
        catalog.trashed_versions(filespace, &dir(path), &name).expect("is read")
    };
    assert_eq!(of_object("/b/", b"y"), [versions[2].clone(), versions[2].clone()]);
    assert_eq!(of_object("/a/", b"x").len(), 4, "each deletion has its own");
    assert_eq!(of_object("/b/", b"x"), []);
    catalog
        .commit(vec![Write::EmptyTrash { deletion: first }])
        .expect("the batch is performed");
    assert_eq!(numbers(None), [(second, 3)]);
    assert_eq!(catalog.trash(first, 0, 9).expect("none"), []);
    catalog
        .commit(vec![add_version(filespace, versions[0].clone())])
        .expect("it comes back");
}

pub(crate) fn what_changes_the_rules_has_archives_looked_at(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    let number = catalog.add_archive(node.id, "", NOW).expect("is made").number;
    let due = || catalog.archives(node.id).expect("are listed")[0].due;
    let later = ArchiveChange { due: Some(Some(ServerTime::MAX)), ..ArchiveChange::default() };
    set(&*catalog, number, later);
    assert_eq!(due(), Some(ServerTime::MAX));
    let domain = catalog.domains().expect("are listed").remove(0);
    let event =
        EventRow { time: NOW, actor: String::new(), what: String::new(), details: String::new() };
    catalog.activate(DomainId(1), &domain.active, &event).expect("is activated");
    assert_eq!(due(), None);
}
