//! Tests of the preparation of changes: their shares, and their effects on a page.

use super::*;
use crate::samples;

fn resolved(directory: &str, first: &str) -> ResolvedChange {
    let directory = DirPath::new(directory.as_bytes()).expect("a directory");
    let key = PageKey { directory, first: first.into() };
    ResolvedChange { key, change: Change::default(), rejected: Vec::new() }
}

#[test]
fn changes_of_a_directory_share_in_their_order() {
    let mut changes = Vec::new();
    for round in 0..3 {
        let directories = (0..100).map(|number| format!("/{number}/"));
        changes.extend(directories.map(|path| resolved(&path, &format!("{round}"))));
    }
    let shares = shares(changes, 4);
    assert!(shares.len() > 2, "{}", shares.len());
    let mut seen = BTreeSet::new();
    for (at, share) in shares.iter().enumerate() {
        assert!(share.len() >= SHARE_CHANGES || at + 1 == shares.len(), "{at}");
        for of_one in share.chunk_by(|a, b| a.key.directory == b.key.directory) {
            let firsts: Vec<&[u8]> = of_one.iter().map(|one| &one.key.first[..]).collect();
            assert_eq!(firsts, [b"0", b"1", b"2"]);
            let is_new = seen.insert(of_one[0].key.directory.clone());
            assert!(is_new, "no directory is in two shares");
        }
    }
    assert_eq!(seen.len(), 100);
}

#[test]
fn shares_are_as_large_as_the_threads_allow() {
    let check = |count: usize, threads, expected: &[usize]| {
        let changes = (0..count).map(|number| resolved(&format!("/{number}/"), ""));
        let shares = shares(changes.collect(), threads);
        let sizes: Vec<usize> = shares.iter().map(Vec::len).collect();
        assert_eq!(sizes, expected);
    };
    check(0, 2, &[]);
    check(40, 4, &[32, 8]);
    check(200, 2, &[100, 100]);
    check(300, 2, &[128, 128, 44]);
    check(100, 0, &[100]);
}

fn page(names: impl Iterator<Item = u16>) -> Vec<Object> {
    let object = |number: u16| {
        let name = Name::new(format!("n{number:04}").as_bytes()).expect("a name");
        let mut object = samples::file(name, ClassId(1 + number / 2 % 3), 0, Vec::new());
        if number.is_multiple_of(4) {
            object.stat.kind = Kind::Directory;
        }
        object
    };
    names.map(object).collect()
}

/// Returns a page with 500 objects, and a change that updates, replaces and expires many of them.
fn large_change() -> (Vec<Object>, Change) {
    let current = page((0..1000).step_by(2));
    // A client may send the objects in any order, and with names that the page does not have.
    let mut updated = page((0..1000).rev().step_by(3));
    updated.iter_mut().step_by(5).for_each(|object| object.class = ClassId(2));
    let mut backed_up = page((0..1000).step_by(7));
    backed_up
        .iter_mut()
        .step_by(2)
        .for_each(|object| object.stat.kind = Kind::Symlink);
    let expired = page((0..1000).rev().step_by(5)).into_iter().map(|object| object.name);
    (current, Change { backed_up, updated, expired: expired.collect(), pages: Vec::new() })
}

#[test]
fn rebound_objects_are_those_that_a_search_of_the_whole_page_finds() {
    let (current, change) = large_change();
    let moved = |new: &&Object| {
        let old = current.iter().find(|old| old.name == new.name);
        old.is_some_and(|old| old.class != new.class)
    };
    let expected: BTreeSet<Name> =
        change.updated.iter().filter(moved).map(|object| object.name.clone()).collect();
    assert!(!expected.is_empty());
    assert_eq!(rebound(&current, &change.updated), expected);
}

#[test]
fn objects_of_locked_classes_stay_bound_to_them() {
    let (current, change) = large_change();
    let locked = BTreeSet::from([ClassId(1), ClassId(3)]);
    let bind = |mut new: Object| {
        let old = current.iter().find(|old| old.name == new.name);
        if let Some(old) = old.filter(|old| locked.contains(&old.class)) {
            new.class = old.class;
        }
        new
    };
    let expected: Vec<Object> = change.updated.iter().cloned().map(bind).collect();
    let mut updated = change.updated.clone();
    keep_locked(&BTreeSet::new(), &current, &mut updated);
    assert!(updated == change.updated, "without a locked class, the node chooses each class");
    keep_locked(&locked, &current, &mut updated);
    assert!(updated == expected);
    assert!(updated != change.updated);
}

#[test]
fn directories_vanish_that_expire_or_become_something_else() {
    let (current, change) = large_change();
    let parent = DirPath::new(b"/a/").expect("a directory");
    let vanishes = |object: &&Object| {
        let new = change.backed_up.iter().find(|new| new.name == object.name);
        object.stat.kind == Kind::Directory
            && (change.expired.contains(&object.name)
                || new.is_some_and(|new| new.stat.kind != Kind::Directory))
    };
    let expected: Vec<DirPath> = current
        .iter()
        .filter(vanishes)
        .map(|object| parent.child(&object.name))
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(vanishing(&parent, &current, &change), expected);
    assert_eq!(vanishing(&parent, &[], &change), []);
}
