//! Several paths: lists of what is backed up, what restores transfer, and where they put objects of
//! one name.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::harness::Tmpfs;

use crate::scene::Scene;

/// Writes `paths` into the file list `name`, and returns its path.
fn file_list(scene: &Scene, name: &str, paths: &[PathBuf]) -> String {
    let lines: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let list = scene.scratch.join(name);
    fs::write(&list, lines.join("\n")).unwrap();
    list.to_str().unwrap().to_owned()
}

#[test]
fn the_paths_of_a_list_are_backed_up_whether_changed_or_not() {
    let scene = Scene::with_files(3, 500);
    scene.backup();
    fs::remove_file(scene.file(2)).unwrap();
    let back_up = |name: &str, files: [usize; 2]| {
        let list = file_list(&scene, name, &files.map(|index| scene.file(index)));
        scene.node.run(&["backup", "--filelist", &list, "--json"])
    };
    let sent = back_up("list", [0, 1]).expect(&[0]);
    sent.counts(&[("inspected", 2), ("backed_up", 2), ("failed", 0), ("expired", 0)]);
    // The other file of the folder has no new version, and the one that is gone stays active.
    let versions = |index| scene.node.list(&scene.file(index), &["--inactive"]).len();
    assert_eq!([versions(0), versions(1), versions(2)], [2, 2, 1]);
    let partly = back_up("gone", [0, 2]).expect(&[4]);
    partly.counts(&[("backed_up", 1), ("failed", 1), ("expired", 0)]);
    assert_eq!([versions(0), versions(1), versions(2)], [3, 2, 1]);
}

/// The quantum with the data of a file was transferred again for each file.
#[test]
fn many_small_files_are_transferred_as_their_folder_is() {
    let scene = Scene::with_files(300, 4_000);
    scene.backup();
    let transferred = |name: &str, path: &Path| {
        let restored = scene.node.restore(path, &scene.scratch.folder(name), &[]).expect(&[0]);
        restored.count("bytes_transferred")
    };
    let listed = |name: &str, files: &[PathBuf]| {
        let list = file_list(&scene, "list", files);
        let out = scene.scratch.folder(name);
        let words = ["restore", "--filelist", &list, "--json", "--to", out.to_str().unwrap()];
        let restored = scene.node.run(&words).expect(&[0]);
        let restored = restored.counts(&[("restored", files.len() as u64), ("failed", 0)]);
        for file in files {
            let back = out.join(file.file_name().unwrap());
            assert_eq!(fs::read(back).unwrap(), fs::read(file).unwrap());
        }
        restored.count("bytes_transferred")
    };
    let whole = transferred("whole", &scene.tree);
    assert!(whole > 1_000_000, "{whole}");
    let pattern = transferred("pattern", &scene.tree.join("folder-0*/file-*"));
    assert!(pattern < whole * 2, "{pattern} instead of {whole}");
    let all: Vec<PathBuf> = (0..300).map(|index| scene.file(index)).collect();
    let together = listed("together", &all);
    assert!(together < whole * 2, "{together} instead of {whole}");
    // Two files of one quantum need it once.
    let [one, two] = [1, 2].map(|count| listed(&format!("first-{count}"), &all[..count]));
    assert!(two < one * 3 / 2, "{two}, but one file alone {one}");
    // Few files of each folder are received one by one.
    let few: Vec<PathBuf> = all.iter().step_by(25).cloned().collect();
    let one_by_one = listed("one-by-one", &few);
    assert!(one_by_one < whole * 2, "{one_by_one} instead of {whole}");
}

#[test]
fn paths_of_one_directory_are_restored_with_their_links_and_content() {
    let scene = Scene::with_files(40, 100);
    fs::hard_link(scene.file(0), scene.tree.join("folder-00/linked")).unwrap();
    fs::create_dir_all(scene.tree.join("folder-00/below/deep")).unwrap();
    fs::write(scene.tree.join("folder-00/below/deep/letter"), "dear").unwrap();
    scene.backup();
    fs::write(scene.file(7), "newer").unwrap();
    fs::remove_file(scene.file(8)).unwrap();
    scene.backup();

    let names = ["linked", "below", "none", "file-0000", "file-0007", "file-0008"];
    let paths = names.map(|name| scene.tree.join("folder-00").join(name));
    let list = file_list(&scene, "list", &paths);
    let restore = |name: &str, options: &[&str]| {
        let out = scene.scratch.folder(name);
        let fixed = ["restore", "--filelist", &list, "--json", "--to", out.to_str().unwrap()];
        (scene.node.run(&[&fixed[..], options].concat()), out)
    };
    let (report, out) = restore("active", &[]);
    // Three files, one further name of a file, and two directories.
    let report = report.expect(&[4]).counts(&[("restored", 6), ("failed", 2)]).json();
    let failed = |at: usize| report["failures"][at]["path"].as_str().unwrap().to_owned();
    assert_eq!([failed(0), failed(1)].map(PathBuf::from), [paths[2].clone(), paths[5].clone()]);
    let inode = |name: &str| fs::metadata(out.join(name)).unwrap().ino();
    assert_eq!(inode("linked"), inode("file-0000"));
    assert_eq!(fs::read(out.join("file-0007")).unwrap(), b"newer");
    assert_eq!(fs::read(out.join("below/deep/letter")).unwrap(), b"dear");
    let (again, _) = restore("active", &[]);
    again.expect(&[4]).counts(&[("restored", 0), ("skipped", 6), ("failed", 2)]);

    let (inactive, out) = restore("inactive", &["--inactive"]);
    inactive.expect(&[4]).counts(&[("restored", 7), ("failed", 1)]);
    assert_eq!(fs::read(out.join("file-0007")).unwrap(), b"newer");
    assert_eq!(fs::metadata(out.join("file-0008")).unwrap().len(), 100);
}

/// The restore was refused, and so was the example of the guide.
#[test]
fn paths_of_one_name_are_kept_apart_in_a_target() {
    let scene = Scene::new();
    let letters = [("ann", "one"), ("ann", "two"), ("bob", "one"), ("carl", "three")];
    for (person, name) in letters {
        let folder = scene.tree.join(person).join("letters");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), format!("{name} of {person}")).unwrap();
    }
    scene.backup();
    let path = |person: &str, name: &str| scene.tree.join(person).join("letters").join(name);
    let content = |path: PathBuf| fs::read_to_string(path).unwrap();
    // Without namesakes everything goes directly into the folder.
    let out = scene.scratch.folder("plain");
    scene
        .node
        .restore(&path("*", "t*"), &out, &[])
        .expect(&[0])
        .counts(&[("restored", 2)]);
    assert_eq!(content(out.join("two")), "two of ann");
    assert_eq!(content(out.join("three")), "three of carl");

    let out = scene.scratch.join("pattern");
    let plan = scene.node.restore(&path("*", "*o*"), &out, &["--dry-run"]).expect(&[0]).json();
    assert_eq!(plan["restore"]["objects"], 3);
    assert!(!out.is_dir(), "a dry run makes no folder");
    scene
        .node
        .restore(&path("*", "*o*"), &out, &[])
        .expect(&[0])
        .counts(&[("restored", 3)]);
    let plan = scene.node.restore(&path("*", "*o*"), &out, &["--dry-run"]).expect(&[0]).json();
    assert_eq!(plan["exists"]["objects"], 3);
    for (person, name) in &letters[..3] {
        let back = out.join(person).join("letters").join(name);
        assert_eq!(content(back), format!("{name} of {person}"));
    }

    let list = [path("ann", "one"), path("bob", "one")];
    let list = file_list(&scene, "list", &list);
    let out = scene.scratch.join("listed");
    let words = ["restore", "--filelist", &list, "--json", "--to", out.to_str().unwrap()];
    scene.node.run(&words).expect(&[0]).counts(&[("restored", 2)]);
    assert_eq!(content(out.join("bob/letters/one")), "one of bob");

    // Directories are kept with their content.
    let both = ["ann", "bob"].map(|person| scene.tree.join(person).join("letters"));
    let both = both.each_ref().map(|path| path.to_str().unwrap());
    let out = scene.scratch.join("both");
    let words = ["restore", both[0], both[1], "--to", out.to_str().unwrap()];
    scene.node.run(&words).expect(&[0]);
    assert_eq!(content(out.join("ann/letters/two")), "two of ann");
    assert_eq!(content(out.join("bob/letters/one")), "one of bob");
}

/// Makes three folders with a name of one file in each, and returns these names.
fn plant_names(scene: &Scene) -> [PathBuf; 3] {
    let names = ["ann/one", "bob/two", "carl/one"].map(|name| scene.tree.join(name));
    for name in &names {
        fs::create_dir(name.parent().unwrap()).unwrap();
    }
    fs::write(&names[0], "of all three").unwrap();
    for name in &names[1..] {
        fs::hard_link(&names[0], name).unwrap();
    }
    names
}

/// Checks that the names at `top` lead to one file if `are_linked` says so, and to the content of
/// [`plant_names`] in any case.
#[track_caller]
fn check_names(top: &Path, are_linked: bool) {
    let names = ["ann/one", "bob/two", "carl/one"].map(|name| top.join(name));
    let inodes = names.each_ref().map(|name| fs::metadata(name).unwrap().ino());
    assert_eq!(inodes.iter().all(|inode| *inode == inodes[0]), are_linked, "{inodes:?}");
    for name in &names {
        assert_eq!(fs::read(name).unwrap(), b"of all three");
    }
}

/// Each path came back with files of its own.
#[test]
fn names_below_several_paths_share_an_inode() {
    let scene = Scene::new();
    let names = plant_names(&scene);
    scene.backup();
    let folders = names.each_ref().map(|name| name.parent().unwrap().to_str().unwrap());
    let restore = |name: &str, command: &[&str]| {
        let out = scene.scratch.folder(name);
        let to = ["--to", out.to_str().unwrap(), "--json"];
        (scene.node.run(&[command, &to].concat()).expect(&[0]), out)
    };
    let (report, out) = restore("folders", &[&["restore"], &folders[..]].concat());
    report.counts(&[("restored", 6), ("bytes_restored", 12)]);
    check_names(&out, true);
    let wild = scene.tree.join("*/*o*");
    check_names(&restore("wild", &["restore", wild.to_str().unwrap()]).1, true);
    let list = file_list(&scene, "list", &names);
    check_names(&restore("listed", &["restore", "--filelist", &list]).1, true);
    let (again, out) = restore("listed", &["restore", "--filelist", &list]);
    again.counts(&[("restored", 0), ("skipped", 3)]);
    check_names(&out, true);

    scene.node.run(&[&["archive"], &folders[..]].concat()).expect(&[0]);
    check_names(&restore("archived", &[&["retrieve"], &folders[..]].concat()).1, true);

    // At the old places, names are linked to a name that is still there.
    fs::remove_dir_all(folders[1]).unwrap();
    fs::remove_dir_all(folders[2]).unwrap();
    scene.node.run(&[&["restore"], &folders[..]].concat()).expect(&[0]);
    check_names(&scene.tree, true);
}

#[test]
fn another_object_keeps_its_name_among_several_paths() {
    let scene = Scene::new();
    let list = file_list(&scene, "list", &plant_names(&scene));
    scene.backup();
    let out = scene.scratch.folder("out");
    for folder in ["ann", "bob"] {
        fs::create_dir(out.join(folder)).unwrap();
    }
    fs::write(out.join("ann/one"), "mine").unwrap();
    fs::write(out.join("bob/two"), "mine, too").unwrap();
    let words = ["restore", "--filelist", &list, "--to", out.to_str().unwrap(), "--json"];
    let report = scene.node.run(&words).expect(&[4]);
    report.counts(&[("restored", 1), ("kept", 2), ("failed", 0)]);
    assert_eq!(fs::read(out.join("ann/one")).unwrap(), b"mine");
    assert_eq!(fs::read(out.join("bob/two")).unwrap(), b"mine, too");
    assert_eq!(fs::metadata(out.join("carl/one")).unwrap().nlink(), 1);
    scene.node.run(&[&words[..], &["--replace", "all"]].concat()).expect(&[0]);
    check_names(&out, true);
}

#[test]
fn names_in_several_file_systems_are_files_of_their_own() {
    let scene = Scene::new();
    let names = plant_names(&scene);
    scene.backup();
    let out = scene.scratch.folder("out");
    let Some(disk) = Tmpfs::mount(&out.join("bob"), "size=1m") else {
        return e2e::skip::say("names in several file systems: mount is not allowed");
    };
    let list = file_list(&scene, "list", &names);
    let words = ["restore", "--filelist", &list, "--to", out.to_str().unwrap(), "--json"];
    let report = scene.node.run(&words).expect(&[0]);
    report.counts(&[("restored", 3), ("failed", 0)]);
    check_names(&out, false);
    let inode = |name: &str| fs::metadata(out.join(name)).unwrap().ino();
    assert_eq!(inode("ann/one"), inode("carl/one"));
    drop(disk);
}

/// The kernel refuses links between two mounts of one file system, which have the same number. The
/// further names failed.
#[test]
fn names_in_several_mounts_of_a_file_system_are_files_of_their_own() {
    let scene = Scene::new();
    plant_names(&scene);
    scene.backup();
    let out = scene.scratch.folder("out");
    let Some(disk) = Tmpfs::mount(&out, "size=4m") else {
        return e2e::skip::say("names in several mounts: mount is not allowed");
    };
    let top = out.join("tree");
    for folder in [out.join("other"), top.clone(), top.join("bob")] {
        fs::create_dir(folder).unwrap();
    }
    let bound = Command::new("mount")
        .arg("--bind")
        .args([out.join("other"), top.join("bob")])
        .status();
    assert!(bound.unwrap().success());
    scene.node.restore(&scene.tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
    check_names(&top, false);
    let inode = |name: &str| fs::metadata(top.join(name)).unwrap().ino();
    assert_eq!(inode("ann/one"), inode("carl/one"));
    drop(disk);
}
