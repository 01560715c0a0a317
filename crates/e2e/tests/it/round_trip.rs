//! Backed-up objects come back as they were; unchanged objects are not sent.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use e2e::clock;
use e2e::folder::Folder;
use e2e::harness::{Node, binary, is_root};
use e2e::manifest::assert_same;
use e2e::nasty;

use crate::scene::{Scene, file_name, keep_folder_time, manifest, names, root_or_skip};

/// Maximum number of bytes that a run sends when nothing has changed.
const IDLE_BYTES_MAX: u64 = 64 << 10;

/// Plants the nasty tree, and prints which parts this machine refused.
fn plant_nasty(scene: &Scene) -> nasty::PlantReport {
    let planted = nasty::plant(&scene.tree, 42).unwrap();
    for refusal in &planted.refused {
        eprintln!("not in the tree: {}: {}", refusal.what, refusal.error);
    }
    planted
}

#[test]
fn nasty_tree_comes_back_identically() {
    if !root_or_skip("the nasty tree") {
        return;
    }
    let scene = Scene::new();
    let planted = plant_nasty(&scene);
    let source = manifest(&scene.tree);
    // A skipped socket may make the exit code 4, but is not a failure.
    let backup = scene.node.backup(&scene.tree, &[]).expect(&[0, 4]).counts(&[("failed", 0)]);
    let inspected = backup.count("inspected");
    let possible = source.len()..=source.len() + planted.sockets;
    assert!(possible.contains(&inspected), "inspected is {inspected}, should be in {possible:?}");
    assert_same(&source, &manifest(&scene.tree));

    let out = scene.scratch.folder("out");
    scene.node.restore(&scene.tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_same(&source, &manifest(&out.join("tree")));
    scene.node.verify().expect(&[0]).counts(&[("failed", 0)]);

    let again = scene.node.restore(&scene.tree, &out, &[]).expect(&[0]);
    again.counts(&[("restored", 0), ("failed", 0), ("bytes_restored", 0)]);
    assert_same(&source, &manifest(&out.join("tree")));
}

/// The fault: the active file was lost when a restore brought back the inactive folder of the same
/// name.
#[test]
fn active_file_wins_over_the_folder_it_replaced() {
    let scene = Scene::new();
    fs::create_dir_all(scene.tree.join("x/deep")).unwrap();
    fs::write(scene.tree.join("x/deep/in"), b"1").unwrap();
    scene.backup();
    fs::remove_dir_all(scene.tree.join("x")).unwrap();
    fs::write(scene.tree.join("x"), b"a file").unwrap();
    scene.backup();
    let back = scene.restore("out", &["--inactive"]);
    assert_same(&manifest(&scene.tree), &manifest(&back));
}

/// The fault: a restore kept the directories of all waiting objects open, whatever the limit was.
#[test]
fn few_open_files_are_enough_for_a_restore() {
    let scene = Scene::new();
    for number in 0..600 {
        let folder = scene.tree.join(format!("{number}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), format!("the content of {number}")).unwrap();
    }
    scene.backup();
    let out = scene.scratch.folder("out");
    let ended = Command::new("prlimit")
        .arg("--nofile=200:200")
        .arg(binary())
        .args(["restore", "--home"])
        .args([scene.node.home(), &scene.tree, "--to".as_ref(), &out])
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_same(&manifest(&scene.tree), &manifest(&out.join("tree")));
}

/// The fault: objects that were backed up by a path through a symbolic link could not be restored
/// by the same path.
#[test]
fn path_through_a_symlink_is_found_again() {
    let scene = Scene::with_files(3, 10);
    let link = scene.scratch.join("source/way");
    std::os::unix::fs::symlink(&scene.tree, &link).unwrap();
    let path = link.join("folder-00");
    scene.node.backup(&path, &[]).expect(&[0]);
    assert!(!scene.node.list(&path, &["--recursive"]).is_empty());
    let out = scene.scratch.folder("out");
    scene.node.restore(&path, &out, &[]).expect(&[0]);
    assert_same(&manifest(&path), &manifest(&out.join("folder-00")));
    let file = path.join("file-0000");
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let plan = scene.node.run(&["restore", path.to_str().unwrap(), "--dry-run", "--json"]);
    assert_eq!(plan.expect(&[0]).json()["restore"]["objects"], 1);
    scene.node.run(&["restore", path.to_str().unwrap()]).expect(&[0]);
    assert_eq!(fs::read(&file).unwrap(), content);
}

/// The fault: modes without the right to write were set before the extended attributes, which were
/// then lost without an error.
#[test]
fn attributes_of_read_only_objects_come_back_to_their_owner() {
    let mut scene = Scene::new();
    let attribute = |path: &Path| {
        rustix::fs::setxattr(path, "user.a", b"b", rustix::fs::XattrFlags::empty()).is_ok()
    };
    let (file, folder) = (scene.tree.join("f"), scene.tree.join("ro"));
    fs::write(&file, b"x").unwrap();
    fs::create_dir(&folder).unwrap();
    if !attribute(&file) || !attribute(&folder) || !root_or_skip("another user") {
        return;
    }
    for (path, mode) in [(&file, 0o444), (&folder, 0o555), (&scene.tree, 0o755)] {
        chown(path, Some(65534), Some(65534)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let out = scene.scratch.folder("out");
    for path in [scene.scratch.path(), scene.tree.parent().unwrap(), &out] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    scene.node = Node::enrol_as(&scene.server, "nobody", Some(65534));
    scene.backup();
    for restored in [3, 0] {
        let counts = [("failed", 0), ("restored", restored)];
        scene.node.restore(&scene.tree, &out, &[]).expect(&[0]).counts(&counts);
        assert_same(&manifest(&scene.tree), &manifest(&out.join("tree")));
    }
}

#[test]
fn directory_that_grows_by_many_pages_comes_back() {
    let scene = Scene::new();
    let name = |index: usize| scene.tree.join(format!("{index:05}"));
    (0..6000)
        .step_by(100)
        .for_each(|index| fs::write(name(index), b"first").unwrap());
    scene.backup().counts(&[("backed_up", 61)]);
    for index in (0..6000).filter(|index| index % 100 != 0) {
        fs::write(name(index), index.to_string()).unwrap();
    }
    fs::remove_file(name(3000)).unwrap();
    scene.backup().counts(&[("backed_up", 5941), ("expired", 1)]);
    scene.backup().counts(&[("backed_up", 0), ("updated", 0), ("expired", 0)]);
    fs::write(name(4321), b"another").unwrap();
    scene.backup().counts(&[("backed_up", 1), ("inspected", 6000)]);
    let back = scene.restore("out", &[]);
    assert_same(&manifest(&scene.tree), &manifest(&back));
}

#[test]
fn second_backup_of_the_nasty_tree_sends_nothing() {
    if !root_or_skip("the nasty tree") {
        return;
    }
    let scene = Scene::new();
    plant_nasty(&scene);
    scene.node.backup(&scene.tree, &[]).expect(&[0, 4]);
    let second = scene.node.backup(&scene.tree, &[]).expect(&[0, 4]).counts(&[
        ("backed_up", 0),
        ("updated", 0),
        ("rebound", 0),
        ("deleted", 0),
        ("expired", 0),
        ("failed", 0),
        ("bytes_processed", 0),
    ]);
    let transferred = second.count("bytes_transferred");
    assert!(transferred < IDLE_BYTES_MAX, "bytes sent without a change: {transferred}: {second}");
}

#[test]
fn first_backup_counts_each_object_once() {
    let scene = Scene::with_files(120, 100);
    let source = manifest(&scene.tree);
    scene.backup().counts(&[
        ("inspected", source.len()),
        ("backed_up", source.len()),
        ("updated", 0),
        ("expired", 0),
        ("bytes_inspected", source.stat_bytes()),
    ]);
}

#[test]
fn attribute_change_is_an_update_without_data() {
    let scene = Scene::with_files(60, 3000);
    scene.backup();
    fs::set_permissions(scene.file(1), fs::Permissions::from_mode(0o4711)).unwrap();
    fs::set_permissions(scene.file(2), fs::Permissions::from_mode(0o600)).unwrap();
    let mut updated = 2;
    if is_root() {
        chown(scene.file(3), Some(1234), Some(4321)).unwrap();
        updated += 1;
    }
    scene
        .backup()
        .counts(&[("updated", updated), ("backed_up", 0), ("bytes_processed", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn changed_xattr_is_a_new_version() {
    let scene = Scene::with_files(10, 3000);
    scene.backup();
    let folder = Folder::open(scene.file(4).parent().unwrap()).unwrap();
    if let Err(error) = folder.set_xattr(b"file-0004", "user.colour", b"green") {
        e2e::skip::say(&format!("no user xattrs here: {error}"));
        return;
    }
    scene.backup().counts(&[("backed_up", 1), ("expired", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn changed_new_and_deleted_files_are_counted_exactly() {
    let scene = Scene::with_files(100, 2000);
    scene.backup();
    for index in [3, 4, 70] {
        fs::write(scene.file(index), format!("changed {index}")).unwrap();
    }
    // A folder's time is an attribute of the folder. The time is kept, so that only files count.
    keep_folder_time(&scene.tree.join("folder-00"), || {
        fs::write(scene.tree.join("folder-00/new-1"), b"new").unwrap();
        fs::write(scene.tree.join("folder-00/new-2"), b"").unwrap();
    });
    keep_folder_time(&scene.tree.join("folder-01"), || {
        fs::remove_file(scene.file(60)).unwrap();
        fs::remove_file(scene.file(61)).unwrap();
    });
    let source = manifest(&scene.tree);
    scene.backup().counts(&[
        ("inspected", source.len()),
        ("backed_up", 5),
        ("expired", 2),
        ("deleted", 0),
        ("rebound", 0),
    ]);
    assert_same(&source, &manifest(&scene.restore("out", &[])));
}

#[test]
fn earlier_state_comes_back_at_its_time() {
    let scene = Scene::with_files(60, 2000);
    scene.backup();
    let earlier = manifest(&scene.tree);
    let time = clock::divide();
    fs::write(scene.file(1), b"another content").unwrap();
    fs::remove_file(scene.file(2)).unwrap();
    fs::set_permissions(scene.file(3), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(scene.tree.join("new-folder")).unwrap();
    fs::write(scene.tree.join("new-folder/file"), b"new").unwrap();
    fs::rename(scene.tree.join("folder-01"), scene.tree.join("renamed")).unwrap();
    scene.backup();
    let later = manifest(&scene.tree);
    assert_same(&earlier, &manifest(&scene.restore("earlier", &["--at", &time])));
    assert_same(&later, &manifest(&scene.restore("later", &[])));
}

#[test]
fn deleted_objects_come_back_with_inactive() {
    let scene = Scene::with_files(20, 2000);
    let content = fs::read(scene.file(7)).unwrap();
    scene.backup();
    fs::remove_file(scene.file(7)).unwrap();
    fs::write(scene.file(8), b"the active one").unwrap();
    scene.backup().counts(&[("expired", 1)]);
    let active = scene.restore("active", &[]);
    assert_same(&manifest(&scene.tree), &manifest(&active));
    let all = scene.restore("all", &["--inactive"]);
    assert_eq!(fs::read(all.join("folder-00/file-0007")).unwrap(), content);
    assert_eq!(fs::read(all.join("folder-00/file-0008")).unwrap(), b"the active one");
}

#[test]
fn one_file_comes_back_alone() {
    let scene = Scene::with_files(20, 2000);
    scene.backup();
    let out = scene.scratch.folder("out");
    scene
        .node
        .restore(&scene.file(5), &out, &[])
        .expect(&[0])
        .counts(&[("restored", 1)]);
    assert_eq!(names(&out), [b"file-0005"]);
    assert_same(&manifest(&scene.file(5)), &manifest(&out.join("file-0005")));
}

#[test]
fn restore_without_a_target_goes_where_it_was() {
    let scene = Scene::with_files(60, 2000);
    let source = manifest(&scene.tree);
    scene.backup();
    fs::remove_dir_all(&scene.tree).unwrap();
    let tree = scene.tree.to_str().unwrap();
    scene
        .node
        .run(&["restore", tree, "--json"])
        .expect(&[0])
        .counts(&[("failed", 0)]);
    assert_same(&source, &manifest(&scene.tree));
}

#[test]
fn hard_links_share_an_inode_after_the_restore() {
    let scene = Scene::with_files(60, 2000);
    fs::hard_link(scene.file(1), scene.tree.join("folder-01/linked")).unwrap();
    scene.backup();
    let restored = scene.restore("out", &[]);
    let one = fs::metadata(restored.join("folder-00/file-0001")).unwrap();
    let two = fs::metadata(restored.join("folder-01/linked")).unwrap();
    assert_eq!((one.dev(), one.ino(), one.nlink()), (two.dev(), two.ino(), 2));
}

#[test]
fn unlinked_hard_link_becomes_a_file_of_its_own() {
    let scene = Scene::with_files(60, 2000);
    fs::hard_link(scene.file(1), scene.file(1).with_file_name("linked")).unwrap();
    scene.backup();
    fs::remove_file(scene.file(1)).unwrap();
    fs::write(scene.file(1), b"alone").unwrap();
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

/// The removal of a name changes the change time of the others. The server keeps the new time for
/// the earlier state too, so the names came back as separate files.
#[test]
fn names_of_an_earlier_time_share_an_inode_after_one_was_removed() {
    let scene = Scene::with_files(60, 2000);
    // The further names refer to data that the server has.
    scene.backup();
    let linked = [("two-names", 1), ("one-of-three", 2), ("two-of-three", 2)];
    for (name, index) in linked {
        fs::hard_link(scene.file(index), scene.tree.join("folder-01").join(name)).unwrap();
    }
    scene.backup();
    let earlier = manifest(&scene.tree);
    let time = clock::divide();
    fs::remove_file(scene.tree.join("folder-01/two-names")).unwrap();
    fs::remove_file(scene.file(2)).unwrap();
    scene.backup();
    let restored = scene.restore("earlier", &["--at", &time]);
    assert_same(&earlier, &manifest(&restored));
    for (name, index) in linked {
        let one = fs::metadata(restored.join(file_name(index))).unwrap();
        let two = fs::metadata(restored.join("folder-01").join(name)).unwrap();
        assert_eq!((one.dev(), one.ino()), (two.dev(), two.ino()), "{name}");
    }
}

/// The folders above a file were made for everybody, with the user of the restore as their owner.
#[test]
fn missing_folders_above_a_file_come_back_as_they_were() {
    let scene = Scene::new();
    let (private, deep) = (scene.tree.join("private"), scene.tree.join("private/deep"));
    fs::create_dir_all(&deep).unwrap();
    let files = ["one", "two"].map(|name| deep.join(name));
    for file in &files {
        fs::write(file, b"content").unwrap();
    }
    let set_mode = |folder: &Path, mode| {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    };
    if is_root() {
        chown(&private, Some(1234), Some(2345)).unwrap();
    }
    set_mode(&private, 0o2710);
    set_mode(&deep, 0o500);
    scene.backup();
    let stored = manifest(&private);
    let time = clock::divide();
    set_mode(&private, 0o755);
    scene.backup();
    set_mode(&deep, 0o700);
    fs::remove_dir_all(&private).unwrap();

    let restore = |options: &[&str]| {
        let paths = files.each_ref().map(|file| file.to_str().unwrap());
        let words = [&["restore", "--json"], &paths[..], options].concat();
        let report = scene.node.run(&words).expect(&[0]);
        report.counts(&[("restored", 2), ("skipped", 0), ("failed", 0)]);
    };
    restore(&["--at", &time]);
    assert_same(&stored, &manifest(&private));

    // A folder that exists stays as it is.
    set_mode(&deep, 0o700);
    fs::remove_dir_all(&private).unwrap();
    fs::create_dir(&private).unwrap();
    set_mode(&private, 0o701);
    scene.node.run(&["restore", files[0].to_str().unwrap(), "--json"]).expect(&[0]);
    let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&private), mode(&deep)), (0o701, 0o500));

    let absent = scene.tree.join("absent/below/file");
    scene.node.run(&["restore", absent.to_str().unwrap()]).expect(&[12]);
    assert!(fs::metadata(scene.tree.join("absent")).is_err(), "nothing is made for it");
}

#[test]
fn file_that_became_a_folder_comes_back_as_one() {
    let scene = Scene::with_files(10, 500);
    scene.backup();
    fs::remove_file(scene.file(1)).unwrap();
    fs::create_dir(scene.file(1)).unwrap();
    fs::write(scene.file(1).join("inside"), b"inside").unwrap();
    scene.backup();
    fs::remove_dir_all(scene.file(1)).unwrap();
    std::os::unix::fs::symlink("file-0002", scene.file(1)).unwrap();
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn dry_run_stores_nothing() {
    let scene = Scene::with_files(20, 2000);
    scene.node.backup(&scene.tree, &["--dry-run"]).expect(&[0]);
    let objects = manifest(&scene.tree).len();
    scene.backup().counts(&[("backed_up", objects)]);
}

#[test]
fn same_content_is_sent_once() {
    let scene = Scene::with_files(8, 400 << 10);
    scene.backup();
    for index in 0..8 {
        fs::copy(scene.file(index), scene.tree.join(format!("copy-{index}"))).unwrap();
    }
    let second = scene.backup().counts(&[("bytes_after_dedup", 0)]);
    let transferred = second.count("bytes_transferred");
    assert!(transferred < IDLE_BYTES_MAX, "bytes sent for copies: {transferred}: {second}");
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn orderly_restart_forgets_nothing() {
    let mut scene = Scene::with_files(60, 2000);
    scene.backup();
    scene.server.restart();
    scene.backup().counts(&[("backed_up", 0), ("expired", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}
