//! `holdfast expire`: the active versions of named objects end, and nothing else changes.

use std::fs;
use std::path::Path;

use crate::scene::Scene;

/// Returns the states of the versions at and below a path, in the order of the list.
fn states(scene: &Scene, path: &Path) -> String {
    let words = ["list", path.to_str().unwrap(), "--inactive", "--recursive", "--json"];
    let rows = scene.node.run(&words).expect(&[0]).json_lines();
    rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_named_file_expires_and_nothing_beside_it() {
    let scene = Scene::new();
    let (file, other, gone) =
        (scene.tree.join("file"), scene.tree.join("other"), scene.tree.join("gone"));
    for path in [&file, &other, &gone] {
        fs::write(path, "1").unwrap();
    }
    scene.backup();
    fs::write(&other, "22").unwrap();
    fs::remove_file(&gone).unwrap();
    let path = file.to_str().unwrap();
    let dry = scene.node.run(&["expire", path, "--dry-run", "--json"]).expect(&[0]).json();
    assert_eq!(dry["estimate"]["expired"], 1);
    assert_eq!(states(&scene, &file), "A");
    let done = scene.node.run(&["expire", path, "--json"]).expect(&[0]);
    let done = done.counts(&[("expired", 1), ("backed_up", 0), ("failed", 0)]);
    assert_eq!(done.json()["command"], "expire");
    let all = [&file, &other, &gone].map(|path| states(&scene, path));
    assert_eq!(all, ["I", "A", "A"], "the others are as the last backup found them");
    // The file is still there, so the next backup stores it again, beside what has changed: the
    // other file and the directory.
    scene.backup().counts(&[("backed_up", 3), ("expired", 1)]);
    let all = [&file, &other, &gone].map(|path| states(&scene, path));
    assert_eq!(all, ["AI", "AI", "I"]);
}

#[test]
fn an_expired_directory_takes_what_is_in_it() {
    let scene = Scene::with_files(130, 500);
    scene.backup();
    let folder = scene.tree.join("folder-01");
    let path = folder.to_str().unwrap();
    let inside = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    // A name that is given twice counts once.
    let words = ["expire", path, inside.to_str().unwrap(), path, "--json"];
    scene.node.run(&words).expect(&[0]).counts(&[("expired", 51)]);
    assert_eq!(states(&scene, &folder), "I".repeat(51));
    let out = scene.scratch.folder("out");
    scene.node.restore(&folder, &out, &["--inactive"]).expect(&[0]);
    let name = inside.file_name().unwrap();
    let restored = fs::read(out.join("folder-01").join(name)).unwrap();
    assert_eq!(restored, fs::read(&inside).unwrap());
}

#[test]
fn names_without_active_versions_are_told() {
    let scene = Scene::new();
    for name in ["a.log", "b.log", "c.txt"] {
        fs::write(scene.tree.join(name), name).unwrap();
    }
    scene.backup();
    let tree = scene.tree.display();
    let list = scene.scratch.join("list");
    fs::write(&list, format!("{tree}/c.txt\n{tree}/*.log\n")).unwrap();
    let option = list.to_str().unwrap();
    // A wildcard of a list stands for itself.
    let listed = scene.node.run(&["expire", "--filelist", option]).expect(&[4]);
    listed.says("no active version").says("*.log");
    assert_eq!(states(&scene, &scene.tree.join("c.txt")), "I");
    let pattern = format!("{tree}/*.log");
    scene
        .node
        .run(&["expire", &pattern, "--json"])
        .expect(&[0])
        .counts(&[("expired", 2)]);
    let again = scene.node.run(&["expire", &pattern]).expect(&[12]).says("no active version");
    assert!(!again.stderr.contains("--inactive"), "{again}");
    scene.node.run(&["expire"]).expect(&[12]);
    let nowhere = scene.tree.join("nowhere").display().to_string();
    scene.node.run(&["expire", &nowhere]).expect(&[12]).says("no active version");
    let local = fs::read(scene.tree.join("a.log")).unwrap();
    assert_eq!(local, b"a.log", "nothing on this machine changes");
}

/// A name may have versions in two filespaces, if its directory has become one of its own.
#[test]
fn the_innermost_filespace_that_has_a_name_is_meant() {
    let scene = Scene::new();
    let own = scene.tree.join("own");
    fs::create_dir(&own).unwrap();
    let letter = own.join("letter");
    fs::write(&letter, "1").unwrap();
    scene.backup();
    let rows = scene.node.run(&["list", "--json"]).expect(&[0]).json_lines();
    let around = rows[0]["filespace"].as_str().unwrap().to_owned();
    crate::virtual_filespaces::make_virtual(&scene.node, &own);
    scene.node.backup(&own, &[]).expect(&[0]);
    let states = |filespace: &str| -> String {
        let words = ["list", letter.to_str().unwrap(), "--inactive", "--filespace", filespace];
        let rows = scene.node.run(&[&words[..], &["--json"]].concat()).expect(&[0]).json_lines();
        rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
    };
    let inner = own.to_str().unwrap();
    let name = letter.to_str().unwrap();
    let whole = scene.node.run(&["expire", inner]).expect(&[12]);
    whole.says("this is a whole filespace");
    scene
        .node
        .run(&["expire", name, inner])
        .expect(&[4])
        .says("this is a whole filespace");
    assert_eq!((states(inner), states(&around)), ("I".to_owned(), "A".to_owned()));
    let words = ["expire", inner, "--filespace", &around, "--json"];
    scene.node.run(&words).expect(&[0]).counts(&[("expired", 2)]);
    assert_eq!((states(inner), states(&around)), ("I".to_owned(), "I".to_owned()));
}
