//! Archives: made, found, retrieved, held, and expired by their class.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::scene::{Scene, manifest, plant_files};

#[track_caller]
fn archive(scene: &Scene, options: &[&str]) -> u64 {
    let tree = scene.tree.to_str().expect("is text");
    let outcome = scene.node.run(&[&["archive", tree, "--json"], options].concat()).expect(&[0]);
    let outcome = outcome.counts(&[("failed", 0)]);
    outcome.json()["archive"].as_u64().expect("a number")
}

fn archives(scene: &Scene) -> Vec<Value> {
    scene.node.run(&["archives", "--json"]).expect(&[0]).json_lines()
}

/// Retrieves the tree below the new folder `name`.
#[track_caller]
fn retrieve(scene: &Scene, name: &str, options: &[&str]) -> std::path::PathBuf {
    let out = scene.scratch.folder(name);
    let fixed = [
        "retrieve",
        scene.tree.to_str().expect("is text"),
        "--to",
        out.to_str().expect("is text"),
        "--json",
    ];
    scene
        .node
        .run(&[&fixed, options].concat())
        .expect(&[0])
        .counts(&[("failed", 0)]);
    out.join("tree")
}

fn set_policy(scene: &Scene, arguments: &[&str]) {
    scene.server.admin(&[&["policy"], arguments].concat());
    scene.server.admin(&["policy", "activate"]);
}

#[test]
fn an_archive_stays_as_it_was_whatever_becomes_of_the_files() {
    let scene = Scene::with_files(120, 700);
    let first = archive(&scene, &["--description", "first of two"]);
    let as_first = manifest(&scene.tree);
    plant_files(&scene.tree, 60, 900, 5);
    fs::remove_file(scene.file(100)).unwrap();
    let second = archive(&scene, &["--description", "second of two"]);
    let as_second = manifest(&scene.tree);
    fs::remove_dir_all(&scene.tree).unwrap();

    let listed = archives(&scene);
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["archive"], second);
    assert_eq!(listed[1]["description"], "first of two");
    assert_eq!(listed[1]["complete"], true);
    assert_eq!(listed[1]["bytes"], 120 * 700);
    // The folders above the tree are in it, too.
    let objects = listed[1]["objects"].as_u64().expect("a number");
    let most = as_first.len() + scene.tree.ancestors().count() as u64;
    assert!((as_first.len()..most).contains(&objects), "{objects} of {most}");
    let text = scene.node.run(&["archives"]).expect(&[0]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    let heads = ["Archive", "Created", "Objects", "Size", "State", "Filespaces", "Description"];
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), heads, "{text}");
    assert!(lines.len() == 3 && lines[2].contains(&format!(" {objects} ")), "{text}");
    assert_eq!(manifest(&retrieve(&scene, "a", &["--description", "first*"])), as_first);
    assert_eq!(manifest(&retrieve(&scene, "b", &["--archive", &first.to_string()])), as_first);
    // Without options, the newest archive that has the path is retrieved.
    assert_eq!(manifest(&retrieve(&scene, "c", &[])), as_second);
    let only_first = scene.file(100);
    let out = scene.scratch.folder("d");
    let words = [
        "retrieve",
        only_first.to_str().expect("is text"),
        "--to",
        out.to_str().expect("is text"),
        "--json",
    ];
    scene.node.run(&words).expect(&[0]).counts(&[("restored", 1)]);
    scene.node.verify().expect(&[0]);
    // `list` shows backups, and no archives.
    scene.node.run(&["list", scene.tree.to_str().expect("is text")]).expect(&[12]);
    let number = first.to_string();
    let rows = scene.node.list(&scene.tree, &["--recursive", "--archive", &number]);
    assert!(rows.len() > 120, "{}", rows.len());
    scene.node.run(&["retrieve", "/none", "--json"]).expect(&[12]).says("archives");
    let none = ["retrieve", "/none", "--description", "third", "--json"];
    scene.node.run(&none).expect(&[12]).says("third");
}

/// The report had fewer objects than the list, and nothing said why.
#[test]
fn an_archive_says_how_many_objects_it_has() {
    let scene = Scene::with_files(3, 10);
    let tree = scene.tree.to_str().expect("is text");
    let report = scene.node.run(&["archive", tree, "--json"]).expect(&[0]);
    let objects = report.count("archive_objects");
    assert_eq!(archives(&scene)[0]["objects"], objects);
    assert!(objects > report.count("backed_up"), "{report}");
}

#[test]
fn a_retrieve_understands_wildcards_and_lists_of_paths() {
    let scene = Scene::with_files(60, 100);
    fs::write(scene.tree.join("folder-01/st*r"), "wild").unwrap();
    fs::write(scene.tree.join("folder-01/star"), "plain").unwrap();
    let first = archive(&scene, &[]);
    fs::write(scene.file(5), "newer").unwrap();
    fs::remove_file(scene.file(6)).unwrap();
    archive(&scene, &[]);
    let path = |name: &str| scene.tree.join(name).to_str().expect("is text").to_owned();
    let run = |name: &str, words: &[&str]| {
        let out = scene.scratch.folder(name);
        let fixed = ["retrieve", "--json", "--to", out.to_str().expect("is text")];
        (scene.node.run(&[&fixed[..], words].concat()), out)
    };
    let pattern = path("folder-0*/file-000?");
    let (all, out) = run("newest", &[&pattern]);
    all.expect(&[0]).counts(&[("restored", 10), ("failed", 0)]);
    assert_eq!(fs::read(out.join("file-0005")).unwrap(), b"newer");
    // The second archive has no such file, so that it comes from the first.
    assert_eq!(fs::read(out.join("file-0006")).unwrap().len(), 100);
    let number = first.to_string();
    let (one, out) = run("first", &["--archive", &number, &pattern]);
    one.expect(&[0]).counts(&[("restored", 10)]);
    assert_eq!(fs::read(out.join("file-0005")).unwrap().len(), 100);
    let rows = scene.node.list(Path::new(&pattern), &["--archive", &number]);
    assert_eq!(rows.len(), 10);

    // A plan names what would come, from the newest archive that has it, and brings nothing.
    let (plan, out) = run("planned", &["--dry-run", &pattern]);
    let plan = plan.expect(&[0]).json();
    assert_eq!((&plan["command"], &plan["restore"]["objects"]), (&"retrieve".into(), &10.into()));
    assert_eq!(plan["restore"]["bytes"], 5 + 9 * 100, "{plan}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);

    let none = path("none*");
    let (some, _) = run("some", &[&pattern, &none]);
    some.expect(&[4]).counts(&[("restored", 10), ("failed", 1)]);
    let (nothing, _) = run("nothing", &[&none]);
    nothing.expect(&[12]).says("nothing in these archives matches").says("none*");

    let list = scene.scratch.join("list");
    fs::write(&list, [path("folder-01/st*r"), path("none")].join("\n")).unwrap();
    let (listed, out) = run("listed", &["--filelist", list.to_str().expect("is text")]);
    listed.expect(&[4]).counts(&[("restored", 1), ("failed", 1)]);
    assert_eq!(fs::read(out.join("st*r")).unwrap(), b"wild");
    assert!(!out.join("star").is_file());
}

/// The newest archive was taken, although it had the folder only above what was archived.
#[test]
fn an_archive_of_a_folder_comes_before_one_with_a_part_of_it() {
    let scene = Scene::with_files(60, 100);
    let whole = archive(&scene, &[]).to_string();
    let part = scene.tree.join("folder-00");
    let part = ["archive", part.to_str().expect("is text"), "--json"];
    scene.node.run(&part).expect(&[0]);
    assert_eq!(manifest(&retrieve(&scene, "whole", &[])), manifest(&scene.tree));

    // Both have the folder above the tree for its attributes only.
    let above = scene.tree.parent().expect("a folder").to_str().expect("is text");
    let run = |name: &str, options: &[&str]| {
        let out = scene.scratch.folder(name);
        let fixed = ["retrieve", above, "--json", "--to", out.to_str().expect("is text")];
        scene.node.run(&[&fixed[..], options].concat())
    };
    for (name, options) in [("planned", &["--dry-run"][..]), ("newest", &[])] {
        let newest = run(name, options).expect(&[8]);
        newest.says(&format!("--archive brings the part in archive {whole}"));
    }
    let files = |name: &str| {
        let top = scene.scratch.join(name).join("source/tree");
        ["folder-00", "folder-01"].map(|folder| top.join(folder).is_dir())
    };
    assert_eq!(files("newest"), [true, false]);
    run("one", &["--archive", &whole]).expect(&[0]).counts(&[("failed", 0)]);
    assert_eq!(files("one"), [true, true]);
}

/// A line below another one counted its objects again.
#[test]
fn overlapping_lines_of_a_retrieve_count_once() {
    let scene = Scene::with_files(4, 100);
    archive(&scene, &[]);
    let folder = scene.tree.join("folder-00");
    let list = scene.scratch.join("list");
    fs::write(&list, format!("{}\n{}", folder.display(), scene.file(0).display())).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let retrieve = |options: &[&str]| {
        let fixed = ["retrieve", "--json", "--filelist", list.to_str().expect("is text")];
        scene.node.run(&[&fixed[..], options].concat()).expect(&[0])
    };
    assert_eq!(retrieve(&["--dry-run"]).json()["restore"]["objects"], 5);
    retrieve(&[]).counts(&[("restored", 5), ("skipped", 0)]);
    retrieve(&[]).counts(&[("restored", 0), ("skipped", 5)]);
}

#[test]
fn what_is_archived_and_backed_up_is_stored_once() {
    let scene = Scene::with_files(20, 50_000);
    scene.backup();
    let tree = scene.tree.to_str().expect("is text");
    let outcome = scene.node.run(&["archive", tree, "--json"]).expect(&[0]);
    assert!(outcome.count("bytes_transferred") < 100_000, "{outcome}");
    // A backup right after an archive finds nothing to do.
    scene.backup().counts(&[("backed_up", 0)]);
}

#[test]
fn local_files_are_deleted_only_once_the_archive_was_read_back() {
    let scene = Scene::with_files(60, 3000);
    let before = manifest(&scene.tree);
    archive(&scene, &["--delete"]);
    assert!(!scene.file(0).try_exists().unwrap());
    assert!(scene.tree.join("folder-00").is_dir(), "directories should stay");
    assert_eq!(manifest(&retrieve(&scene, "out", &[])).len(), before.len());

    // If one object cannot be archived, no file is deleted.
    plant_files(&scene.tree, 3, 100, 2);
    fs::write(scene.tree.join("none"), "x").unwrap();
    scene.server.admin(&["policy", "class", "NONE", "--no-archive"]);
    scene.server.admin(&["policy", "activate"]);
    let list = format!("include.archive {}/none NONE\n", scene.tree.display());
    fs::write(scene.node.home().join("inclexcl"), list).unwrap();
    let words = ["archive", scene.tree.to_str().expect("is text"), "--delete", "--json"];
    let outcome = scene.node.run(&words).expect(&[8]);
    outcome.counts(&[("failed", 1), ("deleted", 0)]).says("no file was deleted");
    assert!(scene.file(0).try_exists().unwrap());
}

#[test]
fn archives_expire_by_their_class() {
    let mut scene = Scene::new();
    set_policy(&scene, &["class", "STANDARD", "--retver", "10"]);
    set_policy(&scene, &["class", "LONG", "--retver", "100"]);
    for name in ["short", "long"] {
        fs::write(scene.tree.join(name), name).unwrap();
    }
    let list = format!("include.archive {}/long LONG\n", scene.tree.display());
    fs::write(scene.node.home().join("inclexcl"), list).unwrap();
    let number = archive(&scene, &[]).to_string();
    let active = |scene: &Scene, name: &str| {
        let path = scene.tree.join(name);
        let words = ["list", path.to_str().expect("is text"), "--archive", &number, "--json"];
        scene.node.run(&words).code() == 0
    };
    let travel = |scene: &mut Scene, ahead: &str| {
        scene.server.travel(ahead);
        scene.server.admin(&["expire"]);
    };
    travel(&mut scene, "9d");
    assert!(active(&scene, "short") && active(&scene, "long"));
    travel(&mut scene, "11d");
    assert!(!active(&scene, "short") && active(&scene, "long"));
    assert_eq!(archives(&scene)[0]["objects"], 1);
    travel(&mut scene, "101d");
    assert_eq!(archives(&scene), [] as [Value; 0]);
}

#[test]
fn an_event_begins_the_days_and_a_hold_stops_them() {
    let mut scene = Scene::new();
    let edit = ["class", "STANDARD", "--retver", "10", "--retinit", "event", "--retmin", "30"];
    set_policy(&scene, &edit);
    fs::write(scene.tree.join("a"), "a").unwrap();
    let number = archive(&scene, &[]).to_string();
    let left = |scene: &mut Scene, ahead: &str| {
        scene.server.travel(ahead);
        scene.server.admin(&["expire"]);
        archives(scene).len()
    };
    assert_eq!(left(&mut scene, "1000d"), 1, "an archive should stay until its event");
    scene.node.run(&["archives", "event", &number, "--json"]).expect(&[0]);
    scene
        .node
        .run(&["archives", "event", &number, "--json"])
        .expect(&[12])
        .says("already");
    assert_eq!(left(&mut scene, "1009d"), 1);
    scene.node.run(&["archives", "hold", &number, "--json"]).expect(&[0]);
    assert_eq!(left(&mut scene, "1020d"), 1, "a held archive should stay");
    let path = scene.tree.to_str().expect("is text");
    let refused = scene.node.run(&["delete", path, "--archive", &number, "--json"]);
    refused.expect(&[12]).says("held");
    scene
        .server
        .try_admin(&["node", "remove", "anna", "--confirm"])
        .expect(&[12])
        .says("held");
    scene.node.run(&["archives", "release", &number, "--json"]).expect(&[0]);
    assert_eq!(left(&mut scene, "1020d"), 0);
    let misplaced = ["archives", "--wait", "1s", "hold", &number];
    scene.node.run(&misplaced).expect(&[12]).says("--wait");
    scene.node.run(&["archives", "hold", "77", "--json"]).expect(&[12]).says("77");
}

#[test]
fn a_class_for_all_goes_before_the_rules() {
    let scene = Scene::new();
    set_policy(&scene, &["class", "LONG", "--retver", "NOLIMIT"]);
    fs::write(scene.tree.join("a"), "a").unwrap();
    let number = archive(&scene, &["--class", "long"]).to_string();
    let rows = scene.node.list(&scene.tree.join("a"), &["--archive", &number]);
    assert_eq!(rows[0]["mgmt_class"], "LONG");
    let words = ["archive", scene.tree.to_str().expect("is text"), "--class", "NONE", "--json"];
    scene.node.run(&words).expect(&[12]).says("NONE").says("STANDARD, LONG");
    assert!(Path::new(&scene.tree).is_dir());
}

#[test]
fn all_names_of_a_file_are_deleted_once_it_is_archived() {
    let scene = Scene::new();
    fs::write(scene.tree.join("a"), "content").unwrap();
    for name in ["b", "c"] {
        fs::hard_link(scene.tree.join("a"), scene.tree.join(name)).unwrap();
    }
    let tree = scene.tree.to_str().expect("is text");
    scene.node.run(&["archive", tree, "--delete", "--json"]).expect(&[0]);
    assert_eq!(fs::read_dir(&scene.tree).unwrap().count(), 0);
    let back = retrieve(&scene, "back", &[]);
    assert_eq!(fs::read(back.join("c")).unwrap(), b"content");
}

#[test]
fn nothing_is_archived_to_a_class_that_keeps_no_archives() {
    let scene = Scene::with_files(3, 100);
    set_policy(&scene, &["class", "NOARC", "--no-archive"]);
    let tree = scene.tree.to_str().expect("is text");
    let refused = scene.node.run(&["archive", tree, "--class", "NOARC", "--json"]).expect(&[12]);
    refused.says("NOARC has no archive copy group");
    assert!(archives(&scene).is_empty());
}
