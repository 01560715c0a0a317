//! Deletions of stored versions: they need a right, and can be undone for some days.

use std::fs;
use std::path::Path;

use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest};

fn states(scene: &Scene, path: &Path) -> String {
    let words = ["list", path.to_str().unwrap(), "--inactive", "--json"];
    let outcome = scene.node.run(&words).expect(&[0, 12]);
    let rows = if outcome.code() == 0 { outcome.json_lines() } else { Vec::new() };
    rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
}

fn three_versions(scene: &Scene) -> std::path::PathBuf {
    let file = scene.tree.join("file");
    for content in ["1", "22", "333"] {
        fs::write(&file, content).unwrap();
        scene.backup();
    }
    file
}

#[test]
fn backups_are_deleted_only_with_the_right_to() {
    let scene = Scene::new();
    let file = three_versions(&scene);
    let path = file.to_str().unwrap();
    let refused = scene.node.run(&["delete", path, "--json"]).expect(&[12]);
    refused.says("'holdfast admin node set anna --backdelete yes'");
    assert_eq!(states(&scene, &file), "AII");
    scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let dry = scene.node.run(&["delete", path, "--dry-run", "--json"]).expect(&[0]);
    assert_eq!((dry.json()["versions"].as_u64(), &dry.json()["deletion"]), (Some(3), &().into()));
    assert_eq!(states(&scene, &file), "AII");
    scene
        .node
        .run(&["delete", path, "--inactive", "--json"])
        .expect(&[0])
        .counts(&[("versions", 2)]);
    assert_eq!(states(&scene, &file), "A");
    scene
        .node
        .run(&["delete", path, "--json"])
        .expect(&[0])
        .counts(&[("versions", 1)]);
    assert_eq!(states(&scene, &file), "");
    // The file still exists, so the next backup stores it again.
    scene.backup().counts(&[("backed_up", 1)]);
    assert_eq!(states(&scene, &file), "A");
    let events = scene.server.admin(&["log"]);
    assert_eq!(events[0]["what"], "versions deleted");
    assert_eq!(events[0]["actor"], "node anna");
    scene.node.run(&["delete", "/none", "--json"]).expect(&[12]).says("/none");
}

#[test]
fn a_deletion_can_be_undone_for_some_days() {
    let mut scene = Scene::new();
    let file = three_versions(&scene);
    let path = file.to_str().unwrap();
    scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let deletion = scene.node.run(&["delete", path, "--json"]).expect(&[0]).json();
    let number = deletion["deletion"].to_string();
    assert_eq!(states(&scene, &file), "");
    let listed = scene.node.run(&["undelete", "--json"]).expect(&[0]).json_lines();
    assert_eq!((listed.len(), listed[0]["versions"].as_u64()), (1, Some(3)));
    scene.node.run(&["undelete", &number, "--json"]).expect(&[0]);
    assert_eq!(states(&scene, &file), "III");
    let out = scene.scratch.folder("out");
    scene.node.restore(&file, &out, &["--inactive"]).expect(&[0]);
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "333");
    scene.node.run(&["undelete", &number, "--json"]).expect(&[12]).says("undelete");

    scene.node.run(&["delete", path, "--json"]).expect(&[0]);
    scene.server.travel("6d");
    scene.server.admin(&["expire"]);
    assert_eq!(scene.node.run(&["undelete", "--json"]).expect(&[0]).json_lines().len(), 1);
    scene.server.travel("8d");
    scene.server.admin(&["expire"]);
    assert_eq!(scene.node.run(&["undelete", "--json"]).expect(&[0]).json_lines().len(), 0);
}

#[test]
fn archived_objects_come_back_where_they_were() {
    let scene = Scene::with_files(130, 500);
    let tree = scene.tree.to_str().unwrap();
    let words = ["archive", tree, "--json"];
    let number = scene.node.run(&words).expect(&[0]).json()["archive"].to_string();
    let folder = scene.tree.join("folder-01");
    let words = ["delete", folder.to_str().unwrap(), "--archive", &number, "--json"];
    let deletion = scene.node.run(&words).expect(&[0]).counts(&[("versions", 51)]).json();
    let rows = scene.node.list(&scene.tree, &["--recursive", "--archive", &number]);
    assert_eq!(rows.iter().filter(|row| row["kind"] == "file").count(), 80);
    scene
        .node
        .run(&["undelete", &deletion["deletion"].to_string(), "--json"])
        .expect(&[0]);
    let out = scene.scratch.folder("out");
    let words = ["retrieve", tree, "--to", out.to_str().unwrap(), "--json"];
    scene.node.run(&words).expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&out.join("tree")));
    scene.server.admin(&["node", "set", "anna", "--archdelete", "no"]);
    let words = ["delete", tree, "--archive", &number, "--json"];
    scene.node.run(&words).expect(&[12]).says("--archdelete yes");
}

#[test]
fn what_a_locked_class_holds_cannot_be_deleted() {
    let scene = Scene::new();
    let file = three_versions(&scene);
    scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    scene
        .server
        .admin(&["policy", "class", "STANDARD", "--lock-until", "2099-01-01"]);
    scene.server.admin(&["policy", "activate"]);
    let words = ["delete", file.to_str().unwrap(), "--json"];
    scene.node.run(&words).expect(&[12]).says("locked until 2099-01-01");
    assert_eq!(states(&scene, &file), "AII");
}
