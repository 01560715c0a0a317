//! Tests of changes, as text: a page before, a change, the page after.

use std::sync::Arc;

use model::{ClassId, Stat, Timestamp};

use super::*;

const NOW: ServerTime = ServerTime(1000);

fn object(name: &str, size: u64, inserted: i64) -> Object {
    let stat = Stat {
        kind: if name.ends_with("dir") { Kind::Directory } else { Kind::File },
        mode: 0o644,
        uid: 0,
        gid: 0,
        size,
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        inode: 1,
        linked: false,
        device: 0,
    };
    let is_hole = stat.kind == Kind::File && size > 0;
    let hole = || Payload::Extents(vec![model::Extent::Hole { bytes: size }]);
    Object {
        name: Name::new(name.as_bytes()).expect("a name"),
        stat,
        attributes: Arc::default(),
        class: ClassId(1),
        inserted: ServerTime(inserted),
        payload: if is_hole { hole() } else { Payload::Nothing },
    }
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// `before`, `backed_up`, `updated`, `expired` and `firsts` are names; `after` is each page in
/// order, `name@inserted`, then `|`, then the names of new inactive versions and removed pages.
#[track_caller]
fn check(before: &str, [backed_up, updated, expired, firsts]: [&str; 4], after: &str) {
    let objects = |text| names(text).map(|name| object(name, 5, 7)).collect::<Vec<_>>();
    let pages = std::iter::once("")
        .chain(names(firsts))
        .map(|first| PageStart { first: first.into(), digest: None });
    let change = Change {
        backed_up: objects(backed_up),
        updated: objects(updated),
        expired: names(expired).map(|name| Name::new(name.as_bytes()).expect("a name")).collect(),
        pages: pages.collect(),
    };
    let key = PageKey::first_of(DirPath::root());
    let text = match apply(&key, objects(before), change, NOW) {
        Ok(effect) => describe(&effect),
        Err(error) => format!("{error:?}"),
    };
    assert_eq!(text, after);
}

fn describe(effect: &Effect) -> String {
    let text = |name: &[u8]| String::from_utf8(name.to_vec()).expect("plain");
    let page = |page: &PageRow| {
        let objects = page::decode::<model::Place>(&page.body).expect("just encoded");
        assert_eq!(objects.len(), page.object_count as usize);
        let shown = objects.iter().map(|o| format!("{}@{}", text(o.name.as_bytes()), o.inserted.0));
        format!("[{}]", shown.collect::<Vec<_>>().join(" "))
    };
    let mut parts: Vec<String> = effect.pages.iter().map(page).collect();
    parts.push("|".to_owned());
    parts.extend(effect.versions.iter().map(|version| text(version.name.as_bytes())));
    parts.extend(effect.removed.iter().map(|key| format!("-{}", text(&key.first))));
    parts.join(" ")
}

#[test]
fn a_new_state_makes_the_old_one_inactive() {
    check("", ["a b", "", "", ""], "[a@1000 b@1000] |");
    check("a b c", ["b", "", "", ""], "[a@7 b@1000 c@7] | b");
    check("b d", ["e c a", "", "d", ""], "[a@1000 b@7 c@1000 e@1000] | d");
    check("b", ["a", "", "", "b"], "[a@1000] [b@7] |");
}

#[test]
fn an_update_that_no_restore_shows_is_put_in_place() {
    check("a b", ["", "b", "", ""], "[a@7 b@7] |");
}

#[test]
fn an_update_of_the_mode_keeps_the_state_before() {
    let mut update = object("a", 5, 0);
    update.stat.mode = 0o600;
    let change =
        Change { updated: vec![update], pages: vec![PageStart::default()], ..Change::default() };
    let key = PageKey::first_of(DirPath::root());
    let effect = apply(&key, vec![object("a", 5, 7)], change, NOW).expect("fits");
    assert_eq!(describe(&effect), "[a@1000] | a");
}

#[test]
fn an_object_that_is_gone_becomes_inactive_once() {
    check("a b", ["", "", "a x", ""], "[b@7] | a");
}

#[test]
fn pages_divide_where_the_client_says() {
    check("a b c d", ["", "", "", "c"], "[a@7 b@7] [c@7 d@7] |");
    check("a b", ["", "", "b", "b"], "[a@7] | b -b");
}

#[test]
fn changes_for_another_page_are_unfit() {
    check("a", ["", "b", "", ""], "Update");
    check("a", ["", "", "", "c b"], "Pages");
    let key = PageKey { directory: DirPath::root(), first: b"m".to_vec() };
    let change = Change {
        backed_up: vec![object("a", 0, 0)],
        pages: vec![PageStart { first: b"m".to_vec(), digest: None }],
        ..Change::default()
    };
    assert_eq!(apply(&key, Vec::new(), change, NOW), Err(ChangeError::Pages));
}

#[test]
fn an_update_of_another_size_is_unfit() {
    let change = Change {
        updated: vec![object("a", 6, 0)],
        pages: vec![PageStart::default()],
        ..Change::default()
    };
    let key = PageKey::first_of(DirPath::root());
    assert_eq!(apply(&key, vec![object("a", 5, 0)], change, NOW), Err(ChangeError::Update));
}
