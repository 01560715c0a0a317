//! Inactive versions.

use catalog::{Catalog, PageSpan, VersionRow};
use model::{DirPath, FilespaceId};

use super::Engine;
use crate::samples::{add_filespace, add_version, at, dir, directories, name, version};

fn add(catalog: &dyn Catalog, filespace: FilespaceId, versions: &[VersionRow]) {
    let writes = versions.iter().map(|version| add_version(filespace, version.clone()));
    catalog.commit(writes.collect()).expect("the batch is performed");
}

pub(crate) fn versions_are_by_name_and_newest_first(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let path = dir("/a/");
    let expected = [
        version(&path, b"\x01", 1, 2),
        version(&path, b"a", 9, 10),
        version(&path, b"a", 3, 9),
        version(&path, b"a", 2, 9),
        version(&path, b"a", -5, -4),
        version(&path, b"a-", 1, 2),
        version(&path, b"aa", 1, 2),
        version(&path, b"b", 1, 300),
        version(&path, b"b", 1, 4),
        version(&path, b"\xff", 1, 2),
        version(&path, &[b'\xff'; 255], 1, 2),
    ];
    for start in [5, 0, 7] {
        add(&*catalog, filespace, &expected[start..(start + 5).min(expected.len())]);
    }
    add(&*catalog, filespace, &[version(&dir("/a/b/"), b"a", 1, 2)]);
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.versions(filespace, &path).expect("are read"), expected);
    assert_eq!(catalog.versions(filespace, &dir("/")).expect("none"), []);
}

pub(crate) fn an_equal_version_is_stored_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let first = version(&dir("/"), b"a", 1, 2);
    let second = VersionRow { body: b"second".to_vec(), ..first.clone() };
    add(&*catalog, filespace, &[first, second.clone()]);
    assert_eq!(catalog.versions(filespace, &dir("/")).expect("one"), [second]);
}

/// Adds several versions in each sample directory except the first of every three, and returns the
/// directories with versions in ascending order.
fn plant(catalog: &dyn Catalog, filespace: FilespaceId) -> Vec<DirPath> {
    let mut paths = directories();
    paths.sort_unstable();
    let mut index = 0;
    paths.retain(|_| {
        index += 1;
        index % 3 != 1
    });
    for path in paths.iter().rev() {
        add(catalog, filespace, &[1, 2, 3].map(|day| version(path, b"a", day, day + 1)));
    }
    paths
}

pub(crate) fn directories_with_versions_are_listed_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, empty) = add_filespace(&*catalog, "b");
    let paths = plant(&*catalog, filespace);
    let all = PageSpan::Subtree(DirPath::above_root());
    for limit in 1..=paths.len() + 1 {
        let mut read: Vec<DirPath> = Vec::new();
        loop {
            let part = catalog.version_directories(filespace, &all, read.last(), limit);
            let part = part.expect("are read");
            assert!(part.len() <= limit);
            read.extend(part.iter().cloned());
            if part.len() < limit {
                break;
            }
        }
        assert_eq!(read, paths, "limit {limit}");
    }
    assert_eq!(catalog.version_directories(filespace, &all, None, 0).expect("none"), []);
    assert_eq!(catalog.version_directories(empty, &all, None, 9).expect("none"), []);
}

pub(crate) fn every_span_behind_every_directory_is_a_part_of_all(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let paths = plant(&*catalog, filespace);
    let afters = directories().into_iter().map(Some).chain([None, Some(dir("/a/none/"))]);
    for after in afters {
        let behind = |path: &&DirPath| after.as_ref().is_none_or(|after| *path > after);
        for low in directories() {
            let part = |span: &PageSpan, inside: &dyn Fn(&DirPath) -> bool| {
                let expected = paths.iter().filter(behind).filter(|path| inside(path));
                let read = catalog.version_directories(filespace, span, after.as_ref(), 99);
                assert_eq!(
                    read.expect("are read").iter().collect::<Vec<_>>(),
                    expected.collect::<Vec<_>>(),
                    "{span:?} after {after:?}"
                );
            };
            part(&PageSpan::Directory(low.clone()), &|path| *path == low);
            part(&PageSpan::Subtree(low.clone()), &|path| low.contains(path));
        }
    }
}

pub(crate) fn versions_are_not_active_objects(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let row = version(&dir("/a/"), b"a", 1, 2);
    assert_eq!((&row.name, row.deactivated), (&name(b"a"), at(2)));
    add(&*catalog, filespace, &[row]);
    let all = DirPath::above_root();
    assert_eq!(catalog.count_objects(filespace, &all).expect("none"), 0);
    let span = PageSpan::Subtree(all);
    assert_eq!(catalog.pages(filespace, &span, None, 9).expect("none"), []);
}
