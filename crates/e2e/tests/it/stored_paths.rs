//! Naming what is stored: versions of other times, wildcards, lists of paths, plans of restores,
//! searches, differences and counts.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use e2e::clock;
use e2e::harness::{Tmpfs, path_bytes};
use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest};

/// Makes and backs up a tree with letters of two people.
fn letters() -> Scene {
    let scene = Scene::new();
    for (name, content) in [
        ("ann/letters/one.txt", "1"),
        ("ann/letters/two.txt", "22"),
        ("ann/letters/three.pdf", "333"),
        ("bob/letters/one.txt", "4444"),
        ("bob/notes/st*r", "55555"),
        ("bob/notes/star", "6"),
    ] {
        let path = scene.tree.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("is made");
        fs::write(path, content).expect("is written");
    }
    scene.backup();
    scene
}

fn pattern(scene: &Scene, rest: &str) -> String {
    format!("{}/{rest}", scene.tree.display())
}

/// Returns the paths in the tree that a list with these arguments has.
fn listed(scene: &Scene, rest: &str, options: &[&str]) -> Vec<String> {
    let rows = scene.node.list(Path::new(&pattern(scene, rest)), options);
    let within = |path: Vec<u8>| {
        let top = scene.tree.as_os_str().as_bytes();
        let path = path.strip_prefix(top).expect("a path in the tree");
        String::from_utf8(path.to_vec()).expect("plain text")
    };
    rows.iter().map(|row| within(path_bytes(&row["path"]))).collect()
}

/// The message was that the server has no version at all.
#[test]
fn a_path_that_is_gone_names_the_option_that_brings_it_back() {
    let scene = letters();
    let before = clock::divide();
    let path = scene.tree.join("ann/letters/one.txt");
    fs::remove_file(&path).unwrap();
    scene.backup();
    let path = path.to_str().unwrap();
    let out = scene.scratch.join("out");
    let out = out.to_str().unwrap();
    for command in [&["restore", path, "--to", out][..], &["list", path]] {
        let refused = scene.node.run(command).expect(&[12]);
        refused.says("no active version").says("--inactive").says("--at TIME");
    }
    let wild = pattern(&scene, "ann/letters/o*");
    for command in [&["restore", &wild, "--to", out][..], &["list", &wild]] {
        let refused = scene.node.run(command).expect(&[12]);
        refused.says("no active version matches").says("--inactive").says("--at TIME");
    }
    let at = scene.node.run(&["list", path, "--at", "2001-01-01"]).expect(&[12]);
    at.says("not stored at this time, but at others");
    let never = scene.node.run(&["list", "/nowhere/at/all"]).expect(&[12]);
    never.says("no version of /nowhere/at/all");
    assert_eq!(listed(&scene, "ann/letters/one.txt", &["--at", &before]).len(), 1);
    assert_eq!(listed(&scene, "ann/letters/one.txt", &["--inactive"]).len(), 1);
}

/// After a removal, nothing was found by a path through a link. A verification found nothing before
/// it, either.
#[test]
fn a_path_through_a_link_finds_what_is_gone() {
    let scene = letters();
    let tree = scene.tree.to_str().unwrap();
    scene
        .node
        .run(&["archive", tree, "--json"])
        .expect(&[0])
        .counts(&[("failed", 0)]);
    let link = scene.scratch.join("link");
    symlink(&scene.tree, &link).unwrap();
    let through = |rest: &str| format!("{}/{rest}", link.display());
    let one = through("ann/letters/one.txt");
    let verify = || scene.node.run(&["verify", &one, "--json"]).expect(&[0]);
    // One version is of the backup, and one of the archive.
    verify().counts(&[("versions", 2)]);
    let letters = scene.tree.join("ann/letters");
    let remove = || fs::remove_dir_all(&letters).unwrap();
    remove();
    verify().counts(&[("versions", 2)]);
    let patterns = [through("*/letters/o*"), through(".../one.txt"), through("ann/letters/o*")];
    for path in patterns.iter().chain([&one]) {
        scene
            .node
            .run(&["list", path])
            .expect(&[0])
            .says("/source/tree/ann/letters/one.txt");
        for command in ["restore", "retrieve"] {
            let back = scene.node.run(&[command, path, "--json"]).expect(&[0]);
            back.counts(&[("restored", 1), ("failed", 0)]);
            assert_eq!(fs::read(letters.join("one.txt")).unwrap(), b"1", "{command} {path}");
            assert!(!letters.join("two.txt").is_file());
            remove();
        }
    }
    // The link itself is an object of its own, which was not backed up.
    let itself = link.to_str().unwrap();
    scene.node.run(&["list", itself]).expect(&[12]).says("no version of");
}

#[test]
fn a_list_understands_wildcards() {
    let scene = letters();
    let check = |rest: &str, options: &[&str], expected: &[&str]| {
        assert_eq!(listed(&scene, rest, options), expected, "{rest} {options:?}");
    };
    check("ann/letters/*.txt", &[], &["/ann/letters/one.txt", "/ann/letters/two.txt"]);
    check("*/letters/one.txt", &[], &["/ann/letters/one.txt", "/bob/letters/one.txt"]);
    check("[a-b]??/letters/t*", &[], &["/ann/letters/three.pdf", "/ann/letters/two.txt"]);
    check(".../one.*", &[], &["/ann/letters/one.txt", "/bob/letters/one.txt"]);
    // A pattern names objects. Their content comes with --recursive.
    check("*/notes", &[], &["/bob/notes"]);
    check("*/notes", &["--recursive"], &["/bob/notes", "/bob/notes/st*r", "/bob/notes/star"]);
    // A slash at the end of a pattern stands for directories only.
    check("ann/letters*/", &[], &["/ann/letters"]);
    check("*/*/", &[], &["/ann/letters", "/bob/letters", "/bob/notes"]);
    check(".../letters/", &[], &["/ann/letters", "/bob/letters"]);
    check("*/notes/", &[], &["/bob/notes"]);
    // Without the slash, the message was wrong.
    let letters = pattern(&scene, "ann/letters/*/");
    let no_directory = scene.node.run(&["list", &letters]).expect(&[12]);
    no_directory.says(&format!("nothing stored matches {letters};"));
    // A stored name with a wildcard is that name.
    check("bob/notes/st*r", &[], &["/bob/notes/st*r"]);
    check("bob/notes/st\\*r", &[], &["/bob/notes/st*r"]);
    let none = scene.node.run(&["list", &pattern(&scene, "*/none")]).expect(&[12]);
    none.says("nothing stored matches");
    let wrong = scene.node.run(&["list", &pattern(&scene, "[a")]).expect(&[12]);
    wrong.says("a class must be written");
}

#[test]
fn a_restore_understands_wildcards_and_lists_of_paths() {
    let scene = letters();
    let out = scene.scratch.folder("out");
    let texts = pattern(&scene, "ann/letters/*.txt");
    scene
        .node
        .restore(Path::new(&texts), &out, &[])
        .expect(&[0])
        .counts(&[("restored", 2)]);
    assert_eq!(fs::read(out.join("two.txt")).unwrap(), b"22");

    let out = scene.scratch.folder("directories");
    let folders = pattern(&scene, "bob/*/");
    let restored = scene.node.restore(Path::new(&folders), &out, &[]).expect(&[0]);
    restored.counts(&[("restored", 5)]);
    let files = pattern(&scene, "bob/notes/*/");
    scene
        .node
        .restore(Path::new(&files), &out, &[])
        .expect(&[12])
        .says(&format!("nothing stored matches {files};"));

    let list = scene.scratch.join("list");
    let out = scene.scratch.folder("listed");
    let names = ["ann/letters/three.pdf", "bob/notes/st*r"];
    let names: Vec<_> = names.iter().map(|name| pattern(&scene, name)).collect();
    let restore = |options: &[&str]| {
        let fixed = ["restore", "--to", out.to_str().unwrap(), "--json"];
        scene.node.run(&[&fixed[..], options].concat())
    };
    fs::write(&list, names.join("\n")).unwrap();
    let list = list.to_str().unwrap();
    restore(&["--filelist", list]).expect(&[0]).counts(&[("restored", 2)]);
    fs::write(list, names.join("\0")).unwrap();
    restore(&["--filelist", list, "--null"]).expect(&[0]).counts(&[("skipped", 2)]);
    restore(&["--filelist", list, "-0"]).expect(&[0]).counts(&[("skipped", 2)]);
    restore(&["--null"]).expect(&[12]).says("--filelist");
    // A pattern in a list is the name of a file that does not exist.
    fs::write(list, [&names[0], &texts].map(String::as_str).join("\n")).unwrap();
    let exact = restore(&["--filelist", list]).expect(&[4]);
    exact.counts(&[("restored", 0), ("failed", 1)]);
}

/// Objects that a line restored were skipped by the next one that names them, too.
#[test]
fn overlapping_paths_of_a_list_count_once() {
    let scene = letters();
    let names = ["ann/letters/one.txt", "ann", "ann/letters/three.pdf", "ann", "ann/none"];
    let list = scene.scratch.join("list");
    fs::write(&list, names.map(|name| pattern(&scene, name)).join("\n")).unwrap();
    fs::remove_dir_all(scene.tree.join("ann")).unwrap();
    let restore = |options: &[&str]| {
        let fixed = ["restore", "--json", "--filelist", list.to_str().unwrap()];
        scene.node.run(&[&fixed[..], options].concat()).expect(&[4]).json()
    };
    // Two directories and three files. The path that is not stored is a failure all the same.
    let plan = restore(&["--dry-run"]);
    assert_eq!((&plan["restore"]["objects"], &plan["failed"]), (&5.into(), &1.into()), "{plan}");
    let report = restore(&[]);
    assert_eq!((&report["restored"], &report["skipped"]), (&5.into(), &0.into()), "{report}");
    let again = restore(&[]);
    assert_eq!((&again["restored"], &again["skipped"]), (&0.into(), &5.into()), "{again}");
}

/// The command ended at the missing path with nothing but an error, though it had restored others.
#[test]
fn a_missing_path_among_others_is_a_failure_of_its_own() {
    let scene = letters();
    let names = ["ann/letters/one.txt", "ann/none", "bob/notes/star"];
    let names: Vec<_> = names.iter().map(|name| pattern(&scene, name)).collect();
    let out = scene.scratch.folder("out");
    let list = scene.scratch.join("list");
    fs::write(&list, names.join("\n")).unwrap();
    let (out_text, list) = (out.to_str().unwrap(), list.to_str().unwrap());
    let restore = |options: &[&str]| {
        let fixed = ["restore", "--to", out_text, "--json", "--filelist", list];
        scene.node.run(&[&fixed[..], options].concat()).expect(&[4]).json()
    };
    let check = |document: &serde_json::Value| {
        assert_eq!(document["failed"], 1);
        let failure = &document["failures"][0];
        assert_eq!(failure["path"], names[1]);
        let error = failure["error"].as_str().expect("a text");
        assert!(error.contains("no version of"), "{error}");
        assert!(!error.contains("ann/none"), "it stands beside the path: {error}");
    };
    let plan = restore(&["--dry-run"]);
    assert_eq!(plan["restore"]["objects"], 2);
    check(&plan);
    let report = restore(&[]);
    assert_eq!((&report["restored"], &report["exit_code"]), (&2.into(), &4.into()));
    check(&report);
    assert_eq!(fs::read(out.join("star")).unwrap(), b"6");

    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let verify = [&["verify", "--json"][..], &names].concat();
    let report = scene.node.run(&verify).expect(&[4]).json();
    assert_eq!(report["versions"], 2);
    check(&report);
    // Alone it ends the command.
    scene.node.run(&["verify", names[1]]).expect(&[12]).says("no version of");
}

/// The restore ended at the first pattern that nothing matches.
#[test]
fn a_pattern_without_a_match_is_a_failure_beside_the_others() {
    let scene = letters();
    let patterns = ["*/none", "ann/letters/*.txt", "bob/none*"];
    let patterns = patterns.map(|name| pattern(&scene, name));
    let out = scene.scratch.folder("out");
    let restore = |patterns: &[String], options: &[&str]| {
        let fixed = ["restore", "--to", out.to_str().unwrap(), "--json"];
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        scene.node.run(&[&fixed[..], options, &patterns].concat())
    };
    let check = |document: &serde_json::Value| {
        assert_eq!((&document["failed"], &document["exit_code"]), (&2.into(), &4.into()));
        for (failure, pattern) in [(0, &patterns[0]), (1, &patterns[2])] {
            let failure = &document["failures"][failure];
            assert_eq!(failure["path"], **pattern);
            let error = failure["error"].as_str().expect("a text");
            assert!(error.contains("nothing stored matches"), "{error}");
        }
    };
    let plan = restore(&patterns, &["--dry-run"]).expect(&[4]).json();
    assert_eq!(plan["restore"]["objects"], 2);
    check(&plan);
    let report = restore(&patterns, &[]).expect(&[4]).json();
    assert_eq!(report["restored"], 2);
    check(&report);
    assert_eq!(fs::read(out.join("two.txt")).unwrap(), b"22");
    // Where no pattern has a match, nothing is done.
    let none = [patterns[0].clone(), patterns[2].clone()];
    restore(&none, &[]).expect(&[12]).says(&none[0]).says(&none[1]);
}

#[test]
fn a_dry_run_of_a_restore_changes_nothing() {
    let scene = letters();
    let restore = |options: &[&str]| {
        let fixed = ["restore", scene.tree.to_str().unwrap(), "--dry-run", "--json"];
        scene.node.run(&[&fixed[..], options].concat())
    };
    let amount = |objects: u64, bytes: u64| serde_json::json!({"objects": objects, "bytes": bytes});
    let whole = restore(&[]).expect(&[0]).json();
    assert_eq!(whole["exists"]["objects"], manifest(&scene.tree).len());
    assert_eq!(whole["restore"], amount(0, 0));

    fs::remove_dir_all(scene.tree.join("ann")).unwrap();
    fs::write(scene.tree.join("bob/letters/one.txt"), "changed").unwrap();
    let before = manifest(&scene.tree);
    let plan = restore(&[]).expect(&[4]).json();
    assert_eq!((&plan["restore"], &plan["keep"]), (&amount(5, 6), &amount(1, 4)), "{plan}");
    let plan = restore(&["--replace", "all"]).expect(&[0]).json();
    assert_eq!((&plan["restore"], &plan["replace"]), (&amount(5, 6), &amount(1, 4)), "{plan}");
    assert!(plan["planned"].as_array().unwrap().iter().any(|one| one["action"] == "replace"));
    assert_same(&before, &manifest(&scene.tree));

    let nowhere = scene.scratch.join("nowhere");
    let plan = restore(&["--to", nowhere.to_str().unwrap()]).expect(&[0]).json();
    assert_eq!(plan["restore"]["objects"], 12, "{plan}");
    assert!(!nowhere.try_exists().unwrap(), "a dry run makes no folder");
    let text = ["restore", scene.tree.to_str().unwrap(), "--dry-run"];
    scene.node.run(&text).expect(&[4]).says("nothing was restored").says("Would be");
}

/// The plan promised objects that the restore refused.
#[test]
fn a_plan_names_what_stands_in_the_way() {
    let scene = letters();
    let out = scene.scratch.folder("out");
    let run = |options: &[&str]| {
        let outcome = scene.node.restore(&scene.tree, &out, options).expect(&[4]);
        outcome.json()
    };
    fs::create_dir_all(out.join("tree/ann")).unwrap();
    fs::write(out.join("tree/ann/letters"), "no folder").unwrap();
    fs::create_dir_all(out.join("tree/bob/notes/star/full")).unwrap();
    // The folder of the letters, and three letters.
    let (plan, report) = (run(&["--dry-run"]), run(&[]));
    assert_eq!((&plan["failed"], &report["failed"]), (&4.into(), &4.into()), "{plan} {report}");
    assert_eq!(plan["restore"]["objects"], report["restored"], "{plan} {report}");
    assert_eq!(plan["keep"]["objects"], report["kept"], "{plan} {report}");
    let paths = |document: &serde_json::Value| {
        let failures = document["failures"].as_array().expect("a list");
        let mut paths: Vec<_> = failures.iter().map(|one| path_bytes(&one["path"])).collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(&plan), paths(&report));
    // The folder replaces the file. A folder with something in it is not replaced.
    let replaced = ["--replace", "all"];
    let plan = run(&[&replaced[..], &["--dry-run"]].concat());
    let report = run(&replaced);
    assert_eq!((&plan["failed"], &report["failed"]), (&1.into(), &1.into()), "{plan} {report}");
    assert_eq!(paths(&plan), paths(&report));
    assert_eq!(fs::read(out.join("tree/ann/letters/two.txt")).unwrap(), b"22");
}

/// The plan promised objects in folders that take none.
#[test]
fn a_plan_names_folders_that_cannot_be_written() {
    let scene = letters();
    let (out, sealed) = (scene.scratch.folder("out"), scene.scratch.join("sealed"));
    let mount = |path: &Path| Tmpfs::mount(path, "size=1m,ro");
    let mounts = [mount(&out.join("tree/ann")), mount(&sealed)];
    if mounts.iter().any(Option::is_none) {
        return e2e::skip::say("folders that cannot be written: mount is not allowed");
    }
    let run = |out: &Path, options: &[&str]| scene.node.restore(&scene.tree, out, options);
    let plan = run(&out, &["--dry-run"]).expect(&[4]).json();
    let report = run(&out, &[]).expect(&[4]).json();
    assert_eq!((&plan["failed"], &report["failed"]), (&4.into(), &4.into()), "{plan} {report}");
    assert_eq!(plan["restore"]["objects"], report["restored"], "{plan} {report}");
    for (out, says) in [(sealed.clone(), "cannot write to"), (sealed.join("new"), "cannot make")] {
        let [plan, restore] = [&["--dry-run"][..], &[]].map(|options| run(&out, options));
        assert_ne!(plan.code(), 0, "{plan}");
        assert_eq!(plan.code(), restore.code(), "{plan} {restore}");
        plan.says(says);
        restore.says(says);
    }
}

/// The plan had the size of the file for each of its names.
#[test]
fn a_plan_counts_the_size_of_a_linked_file_once() {
    let scene = letters();
    let first = scene.tree.join("ann/letters/one.txt");
    fs::write(&first, "of all names").unwrap();
    for name in ["ann/letters/more.txt", "bob/notes/more.txt"] {
        fs::hard_link(&first, scene.tree.join(name)).unwrap();
    }
    scene.backup();
    let folders = ["ann", "bob/notes"].map(|name| pattern(&scene, name));
    let [ann, notes] = folders.each_ref().map(String::as_str);
    let out = scene.scratch.folder("out");
    let to = ["--to", out.to_str().unwrap()];
    for paths in [&[ann, notes][..], &[ann, notes, "--at", "now"]] {
        let fixed = [&["restore", "--dry-run", "--json"][..], &to].concat();
        let plan = scene.node.run(&[&fixed[..], paths].concat()).expect(&[0]).json();
        let expected = serde_json::json!({"objects": 10, "bytes": 12 + 2 + 3 + 5 + 1});
        assert_eq!(plan["restore"], expected, "{plan}");
    }
    scene
        .node
        .run(&[&["restore", ann, notes, "--json"][..], &to].concat())
        .expect(&[0]);
    let plan = ["restore", ann, notes, "--dry-run", "--json"];
    let plan = scene.node.run(&[&plan[..], &to].concat()).expect(&[0]).json();
    assert_eq!(plan["exists"], serde_json::json!({"objects": 10, "bytes": 23}), "{plan}");
}

/// Returns the paths that a command names in its documents, relative to the tree.
fn paths(scene: &Scene, arguments: &[&str]) -> Vec<String> {
    let rows = scene.node.run(&[arguments, &["--json"]].concat()).expect(&[0]).json_lines();
    let within = |row: &serde_json::Value| {
        let path = path_bytes(&row["path"]);
        let top = scene.tree.as_os_str().as_bytes();
        let path = path.strip_prefix(top).expect("a path in the tree");
        String::from_utf8(path.to_vec()).expect("plain text")
    };
    rows.iter().map(within).collect()
}

#[test]
fn objects_are_found_by_their_names() {
    let scene = letters();
    let before = clock::divide();
    fs::write(scene.tree.join("bob/letters/one.txt"), "changed").unwrap();
    fs::remove_file(scene.tree.join("ann/letters/one.txt")).unwrap();
    scene.backup();
    let find = |arguments: &[&str]| paths(&scene, &[&["find"], arguments].concat());
    assert_eq!(find(&["letters*/"]), ["/ann/letters", "/bob/letters"]);
    assert_eq!(find(&["one.txt"]), ["/bob/letters/one.txt"]);
    let both = ["/ann/letters/one.txt", "/bob/letters/one.txt"];
    assert_eq!(find(&["one.*", "--at", &before]), both);
    let all = ["/ann/letters/one.txt", "/bob/letters/one.txt", "/bob/letters/one.txt"];
    assert_eq!(find(&["one.txt", "--inactive"]), all);
    assert_eq!(find(&["*.txt", "--limit", "1"]).len(), 1);
    assert_eq!(find(&["lett*"]), ["/ann/letters", "/bob/letters"]);
    assert_eq!(find(&[&pattern(&scene, "ann/.../t*")]).len(), 2);
    assert_eq!(find(&["nothing"]), [""; 0]);
    scene
        .node
        .run(&["find", "*.txt", "--limit", "1"])
        .expect(&[0])
        .says("more than 1 version");
    scene
        .node
        .run(&["find", "nothing"])
        .expect(&[0])
        .says("No stored object matches");
    scene
        .node
        .run(&["find", "one.txt", "--at", "2020-01-01"])
        .expect(&[0])
        .says("--inactive in place of --at finds");
    scene.node.run(&["find", "[a"]).expect(&[12]).says("a class must be written");
}

#[test]
fn two_times_are_compared() {
    let scene = letters();
    let first = clock::divide();
    fs::write(scene.tree.join("bob/letters/one.txt"), "changed").unwrap();
    fs::remove_dir_all(scene.tree.join("ann")).unwrap();
    fs::write(scene.tree.join("bob/notes/new"), "1234567").unwrap();
    scene.backup();
    let second = clock::divide();
    fs::remove_file(scene.tree.join("bob/notes/new")).unwrap();
    scene.backup();

    let tree = scene.tree.to_str().unwrap();
    let diff = |options: &[&str]| {
        let fixed = ["diff", "--from", &first, "--json"];
        scene.node.run(&[&fixed[..], options].concat()).expect(&[0]).json_lines()
    };
    let of_files = |rows: &[serde_json::Value]| -> Vec<String> {
        let files = rows.iter().filter(|row| row["kind"] == "file");
        let shown = files.map(|row| {
            let path = path_bytes(&row["path"]);
            let name = String::from_utf8_lossy(&path).rsplit('/').next().unwrap().to_owned();
            let change = row["change"].as_str().unwrap();
            format!("{change} {name} {} {}", row["size_before"], row["size_after"])
        });
        shown.collect()
    };
    let expected = [
        "removed one.txt 1 null",
        "removed three.pdf 3 null",
        "removed two.txt 2 null",
        "changed one.txt 4 7",
        "added new null 7",
    ];
    assert_eq!(of_files(&diff(&["--to", &second, tree])), expected);
    // The file that came and went is in neither state.
    assert_eq!(of_files(&diff(&[])), expected[..4]);
    // A day stood for its end, so that nothing had changed since.
    for options in [&["--from", "today"][..], &["--from", "today", "--to", "today"]] {
        let fixed = ["diff", tree, "--json"];
        let rows = scene.node.run(&[&fixed[..], options].concat()).expect(&[0]).json_lines();
        let now = ["added one.txt null 7", "added st*r null 5", "added star null 1"];
        assert_eq!(of_files(&rows), now);
    }
    let notes = scene.tree.join("bob/notes");
    assert_eq!(of_files(&diff(&["--to", &second, notes.to_str().unwrap()])), expected[4..]);
    let text = scene.node.run(&["diff", "--from", &first, "--to", &second]).expect(&[0]);
    let text = text.says(" changed (7 B).");
    assert!(text.stdout.lines().any(|line| line.starts_with("+ ") && line.ends_with("/new")));
    let order = scene.node.run(&["diff", "--from", &second, "--to", &first]).expect(&[12]);
    order.says("must be before");
    scene
        .node
        .run(&["diff", "--from", &first, "/nowhere"])
        .expect(&[12])
        .says("no version");
}

#[test]
fn stored_versions_are_counted_by_class() {
    let scene = Scene::new();
    fs::write(scene.tree.join("text"), "the same line\n".repeat(20_000)).unwrap();
    fs::copy(scene.tree.join("text"), scene.tree.join("twin")).unwrap();
    scene.backup();
    fs::remove_file(scene.tree.join("twin")).unwrap();
    scene.backup();
    let count = |rows: &serde_json::Value, key: &str| rows[key].as_u64().unwrap();
    let check = |usage: &serde_json::Value| {
        assert_eq!((&usage["node"], &usage["class"]), (&"anna".into(), &"STANDARD".into()));
        assert_eq!(count(usage, "active_bytes"), 14 * 20_000, "{usage}");
        // The folder above is an older version, too.
        assert_eq!(count(usage, "inactive_bytes"), 14 * 20_000, "{usage}");
        assert!(count(usage, "inactive_versions") >= 1, "{usage}");
        assert!((1..14_000).contains(&count(usage, "stored_bytes")), "{usage}");
        assert_eq!(usage["packs_unread"], 0);
    };
    check(&scene.node.run(&["stats", "--json"]).expect(&[0]).json());
    check(&scene.server.admin(&["stats"]));
    check(&scene.server.admin(&["stats", "--node", "anna"]));
    scene
        .server
        .try_admin(&["stats", "--node", "nobody"])
        .expect(&[12])
        .says("no node nobody");
    scene.node.run(&["stats"]).expect(&[0]).says("Stored");
}
