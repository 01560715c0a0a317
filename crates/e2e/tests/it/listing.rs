//! The answers of `list` about stored versions.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use e2e::clock;
use e2e::harness::path_bytes;
use serde_json::Value;

use crate::scene::{Scene, manifest};

/// Returns true if the state of a row is A, for an active version, and false if it is I.
#[track_caller]
fn is_active(row: &Value) -> bool {
    match row["state"].as_str() {
        Some("A") => true,
        Some("I") => false,
        _ => panic!("{row} should have the state A or I"),
    }
}

#[test]
fn recursive_list_names_each_object_once() {
    let scene = Scene::with_files(60, 500);
    fs::write(scene.tree.join("folder-00/new\nline"), b"").unwrap();
    fs::write(scene.tree.join(std::ffi::OsStr::from_bytes(b"bytes-\xff\xfe")), b"").unwrap();
    scene.backup();
    let rows = scene.node.list(&scene.tree, &["--recursive"]);
    let listed: Vec<_> = rows.iter().map(|row| path_bytes(&row["path"])).collect();
    let top = scene.tree.as_os_str().as_bytes();
    let source = manifest(&scene.tree);
    let expected: BTreeSet<_> = source.objects.keys().map(|path| join(top, path)).collect();
    let mut missing = expected.clone();
    for path in &listed {
        assert!(expected.contains(path), "{} is not in the tree", path.escape_ascii());
        assert!(missing.remove(path), "{} is listed twice", path.escape_ascii());
    }
    // A recursive list may begin with the folder itself or not.
    missing.remove(top);
    assert!(missing.is_empty(), "{missing:?} are not listed");
    assert!(rows.iter().all(is_active));
}

fn join(top: &[u8], path: &[u8]) -> Vec<u8> {
    if path.is_empty() { top.to_vec() } else { [top, b"/", path].concat() }
}

#[test]
fn row_tells_the_size() {
    let scene = Scene::with_files(3, 1234);
    scene.backup();
    let rows = scene.node.list(&scene.file(1), &[]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["size"], 1234);
}

#[test]
fn inactive_versions_are_listed_on_demand() {
    let scene = Scene::with_files(10, 500);
    scene.backup();
    fs::write(scene.file(1), b"second").unwrap();
    fs::remove_file(scene.file(2)).unwrap();
    scene.backup();
    let states = |index: usize, options: &[&str]| {
        // For a path without an active version, `list` may give an error or an empty list.
        let path = scene.file(index);
        let arguments = [&["list", path.to_str().unwrap(), "--json"], options].concat();
        let mut states: Vec<_> =
            scene.node.run(&arguments).json_lines().iter().map(is_active).collect();
        states.sort_unstable();
        states
    };
    assert_eq!(states(1, &[]), [true]);
    assert_eq!(states(1, &["--inactive"]), [false, true]);
    assert_eq!(states(2, &[]), [] as [bool; 0]);
    assert_eq!(states(2, &["--inactive"]), [false]);
    assert_eq!(states(3, &["--inactive"]), [true]);
}

#[test]
fn list_at_a_time_shows_what_was_there() {
    let scene = Scene::with_files(10, 500);
    scene.backup();
    let time = clock::divide();
    fs::remove_file(scene.file(2)).unwrap();
    fs::write(scene.tree.join("folder-00/later"), b"later").unwrap();
    scene.backup();
    let rows = scene.node.list(&scene.tree, &["--recursive", "--at", &time]);
    let listed: Vec<_> = rows.iter().map(|row| path_bytes(&row["path"])).collect();
    assert!(listed.iter().any(|path| path.ends_with(b"/file-0002")), "{rows:?}");
    assert!(!listed.iter().any(|path| path.ends_with(b"/later")), "{rows:?}");
}

#[test]
fn text_list_has_a_line_for_each_object() {
    let scene = Scene::new();
    fs::write(scene.tree.join("plain"), b"12345").unwrap();
    fs::write(scene.tree.join("new\nline"), b"").unwrap();
    fs::write(scene.tree.join(std::ffi::OsStr::from_bytes(b"b\xff")), b"").unwrap();
    scene.backup();
    let tree = scene.tree.to_str().unwrap();
    let outcome = scene.node.run(&["list", tree, "--recursive"]).expect(&[0]);
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert!(lines.iter().any(|line| line.ends_with("/plain")), "{outcome}");
    assert!(lines.iter().any(|line| line.ends_with("/b\\xff")), "{outcome}");
    assert!(!lines.contains(&"line"), "a name should not make a line of its own: {outcome}");
}
