//! Tests of the states that a power cut leaves.

use super::*;

const FILE: NodeId = NodeId(1);

fn entry(folder: NodeId, name: &str) -> Entry {
    Entry { folder, name: name.as_bytes().to_vec() }
}

fn make(name: &str, node: NodeId) -> Change {
    Change::Make { at: entry(ROOT, name), node, is_folder: false }
}

fn write(offset: usize, bytes: &[u8]) -> Change {
    Change::Edit { node: FILE, edit: Edit::Write { offset, bytes: bytes.to_vec() } }
}

fn sync(node: NodeId) -> Change {
    Change::Sync { node, has_failed: false }
}

fn image(changes: &[Change]) -> Image {
    let mut image = Image::default();
    changes.iter().for_each(|change| image.advance(change));
    image
}

/// Returns the names that are left and the content of the file, if it has a name.
fn left(image: &Image, loss: Loss) -> (Vec<String>, Option<Vec<u8>>) {
    let Remains { names, contents } = image.remains(loss);
    let text = |entry: &Entry| String::from_utf8(entry.name.clone()).expect("a text");
    (names.keys().map(text).collect(), contents.get(&FILE).cloned())
}

/// Returns all states that random losses leave.
fn states(changes: &[Change]) -> BTreeSet<(Vec<String>, Option<Vec<u8>>)> {
    let image = image(changes);
    (0..2000).map(|seed| left(&image, Loss::Random(seed))).collect()
}

#[test]
fn content_needs_a_sync_of_the_file_and_a_name_a_sync_of_the_folder() {
    let mut changes = vec![make("a", FILE), write(0, b"12"), sync(FILE)];
    assert_eq!(left(&image(&changes), Loss::Everything), (vec![], None));
    changes.push(sync(ROOT));
    let durable = (vec!["a".to_owned()], Some(b"12".to_vec()));
    assert_eq!(left(&image(&changes), Loss::Everything), durable);
    changes.push(write(1, b"3"));
    assert_eq!(left(&image(&changes), Loss::Everything), durable);
    assert_eq!(left(&image(&changes), Loss::Nothing).1, Some(b"13".to_vec()));
    assert_eq!(states(&changes).len(), 2);
}

#[test]
fn writes_are_dropped_torn_and_made_in_any_order() {
    let mut changes = vec![make("a", FILE), write(0, &[1; 1024]), sync(FILE), sync(ROOT)];
    changes.extend([write(0, &[2; 1024]), write(1024, &[3; 4])]);
    let contents: BTreeSet<_> = states(&changes).into_iter().filter_map(|state| state.1).collect();
    let state =
        |first: u8, second: u8, last: &[u8]| [&[first; 512][..], &[second; 512], last].concat();
    for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        for last in [&[][..], &[3; 4], &[0; 4]] {
            assert!(contents.contains(&state(first, second, last)), "{first} {second} {last:?}");
        }
    }
    assert_eq!(contents.len(), 12);
}

#[test]
fn a_rename_is_one_step() {
    let mut changes = vec![make("old", FILE), sync(FILE), sync(ROOT)];
    let (from, to) = (entry(ROOT, "old"), entry(ROOT, "new"));
    changes.push(Change::Move { from, to, node: FILE });
    let names: BTreeSet<_> = states(&changes).into_iter().map(|state| state.0).collect();
    assert_eq!(names, BTreeSet::from([vec!["new".to_owned()], vec!["old".to_owned()]]));
}

#[test]
fn names_are_kept_and_dropped_one_by_one() {
    let changes = [make("a", FILE), make("b", NodeId(2)), Change::Remove { at: entry(ROOT, "a") }];
    let names: BTreeSet<_> = states(&changes).into_iter().map(|state| state.0.concat()).collect();
    assert_eq!(names, ["", "a", "ab", "b"].map(str::to_owned).into());
}

#[test]
fn nothing_makes_durable_what_a_failed_sync_has_lost() {
    let failed = Change::Sync { node: FILE, has_failed: true };
    let mut changes = vec![make("a", FILE), sync(FILE), sync(ROOT), write(0, b"1"), failed];
    changes.extend([sync(FILE), write(1, b"2"), sync(FILE)]);
    let image = image(&changes);
    assert_eq!(left(&image, Loss::Everything).1, Some(b"\x002".to_vec()));
    assert_eq!(left(&image, Loss::Nothing).1, Some(b"12".to_vec()));
}

#[test]
fn a_folder_without_a_durable_name_takes_its_files_with_it() {
    let folder = NodeId(5);
    let below = Change::Make { at: entry(folder, "a"), node: FILE, is_folder: false };
    let above = Change::Make { at: entry(ROOT, "f"), node: folder, is_folder: true };
    let mut changes = vec![above, below, sync(FILE), sync(folder)];
    assert_eq!(left(&image(&changes), Loss::Everything), (vec![], None));
    changes.push(sync(ROOT));
    assert_eq!(left(&image(&changes), Loss::Everything).0, ["f", "a"]);
}

#[test]
fn remains_are_durable() {
    let changes = [make("a", FILE), write(0, b"1"), write(1, b"2")];
    let remains = image(&changes).remains(Loss::Nothing);
    assert_eq!(Image::of(&remains).remains(Loss::Everything), remains);
}
