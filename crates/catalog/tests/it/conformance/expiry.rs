//! The endings that expiration reads, and the versions that it drops.

use std::ops::RangeInclusive;

use catalog::{
    Catalog, Day, Ending, EventRow, ExpiryState, NodeChange, VersionKey, VersionRow, Write,
};
use model::{DirPath, DomainId, FilespaceId, ServerTime};

use super::Engine;
use crate::samples::{NOW, add_filespace, add_version, at, dir, directories, version};

const DAY_SECS: i64 = 86_400;
const ALL: RangeInclusive<Day> = Day(i64::MIN)..=Day(i64::MAX);

/// The day that is `days` after the day of [`NOW`].
fn day(days: i64) -> Day {
    Day(Day::of(NOW).0 + days)
}

fn ending((days, directory): (i64, &DirPath)) -> Ending {
    Ending { day: day(days), directory: directory.clone() }
}

fn ended(directory: &DirPath, name: &[u8], days: i64) -> VersionRow {
    version(directory, name, days * DAY_SECS - 1, days * DAY_SECS)
}

fn commit(catalog: &dyn Catalog, writes: Vec<Write>) {
    catalog.commit(writes).expect("the batch is performed");
}

fn add(catalog: &dyn Catalog, filespace: FilespaceId, version: VersionRow) {
    commit(catalog, vec![add_version(filespace, version)]);
}

fn endings(catalog: &dyn Catalog, filespace: FilespaceId) -> Vec<Ending> {
    catalog.endings(filespace, ALL, None, usize::MAX).expect("are read")
}

pub(crate) fn endings_are_by_day_and_directory(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, other) = add_filespace(&*catalog, "b");
    let (a, b) = (dir("/a/"), dir("/b/"));
    for (path, name, days) in
        [(&b, b"x", 3), (&a, b"x", 3), (&a, b"y", 3), (&a, b"x", 1), (&b, b"z", -4)]
    {
        add(&*catalog, filespace, ended(path, name, days));
    }
    add(&*catalog, other, ended(&a, b"x", 2));
    let catalog = engine.reopen(catalog);
    let expected = [(-4, &b), (1, &a), (3, &a), (3, &b)].map(ending);
    assert_eq!(endings(&*catalog, filespace), expected);
    let of_days =
        |from, to| catalog.endings(filespace, day(from)..=day(to), None, 9).expect("are read");
    assert_eq!(of_days(1, 1), expected[1..2]);
    assert_eq!(of_days(-4, 1), expected[..2]);
    assert_eq!(of_days(4, 9), []);
    let unmark = Write::UnmarkDirectory { filespace, directory: a, day: day(3) };
    commit(&*catalog, vec![unmark.clone()]);
    commit(&*catalog, vec![unmark]);
    assert_eq!(endings(&*catalog, filespace).len(), 3);
}

pub(crate) fn every_limit_gives_the_same_endings(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    for path in directories() {
        for days in [0, 1, 2] {
            add(&*catalog, filespace, ended(&path, b"x", days));
        }
    }
    let all = endings(&*catalog, filespace);
    assert!(all.is_sorted_by(|a, b| a < b));
    for limit in [1, 2, 7, 1000] {
        let mut found: Vec<Ending> = Vec::new();
        loop {
            let more = catalog.endings(filespace, ALL, found.last(), limit).expect("are read");
            assert!(more.len() <= limit);
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        assert_eq!(found, all);
    }
}

pub(crate) fn a_directory_is_marked_only_where_it_has_versions(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    add(&*catalog, filespace, ended(&dir("/a/"), b"x", 1));
    let mark = |path: &str| Write::MarkDirectory { filespace, directory: dir(path), day: day(5) };
    commit(&*catalog, vec![mark("/a/"), mark("/"), mark("/a/b/"), mark("/a/")]);
    let path = dir("/a/");
    let expected = [(1, &path), (5, &path)].map(ending);
    assert_eq!(endings(&*catalog, filespace), expected);
}

pub(crate) fn dropped_versions_are_gone_and_others_stay(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let path = dir("/a/");
    let mut rows = vec![ended(&path, b"a", 3), ended(&path, b"a", 2), ended(&path, b"b", 2)];
    rows.iter().for_each(|row| add(&*catalog, filespace, row.clone()));
    let beside = ended(&dir("/a/b/"), b"a", 2);
    add(&*catalog, filespace, beside.clone());
    let gone = rows.remove(1);
    let VersionRow { name, inserted, deactivated, .. } = gone;
    let versions = vec![VersionKey { name, inserted, deactivated }];
    let drop = Write::DropVersions { filespace, directory: path.clone(), versions };
    commit(&*catalog, vec![drop.clone()]);
    commit(&*catalog, vec![drop]);
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.versions(filespace, &path).expect("are read"), rows);
    assert_eq!(catalog.versions(filespace, &dir("/a/b/")).expect("are read"), [beside]);
}

fn done(catalog: &dyn Catalog, filespace: FilespaceId) -> Option<ServerTime> {
    catalog.expiry(filespace).expect("is read").done_to
}

pub(crate) fn how_far_expiration_is_is_remembered(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    assert_eq!(done(&*catalog, filespace), None);
    let state = ExpiryState { done_to: Some(at(7)) };
    commit(&*catalog, vec![Write::SetExpiry { filespace, state }]);
    let catalog = engine.reopen(catalog);
    assert_eq!(done(&*catalog, filespace), Some(at(7)));
}

pub(crate) fn what_changes_the_rules_has_everything_looked_at(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, filespace) = add_filespace(&*catalog, "a");
    let long = catalog.add_domain("LONG", NOW).expect("is made");
    let set = || {
        let state = ExpiryState { done_to: Some(NOW) };
        commit(&*catalog, vec![Write::SetExpiry { filespace, state }]);
    };
    let event =
        EventRow { time: NOW, actor: String::new(), what: String::new(), details: String::new() };
    set();
    catalog.activate(long.id, &long.active, &event).expect("is activated");
    assert_eq!(done(&*catalog, filespace), Some(NOW));
    catalog.activate(DomainId(1), &long.active, &event).expect("is activated");
    assert_eq!(done(&*catalog, filespace), None);
    set();
    let change = NodeChange { domain: Some(long.id), ..NodeChange::default() };
    catalog.change_node(node.id, &change).expect("is changed");
    assert_eq!(done(&*catalog, filespace), None);
}
