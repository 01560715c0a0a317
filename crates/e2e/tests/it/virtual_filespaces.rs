//! Virtual filespaces: directories that are filespaces of their own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use e2e::clock;
use e2e::harness::{Image, Node, Outcome};
use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest, names, plant_files, root_or_skip};
use crate::{settings, snapshots};

/// Name of a directory that is no text, and has the comma that separates the words of a list.
const NAME: &[u8] = b"own,\xff";

/// Puts the directory, which is written as `escaped`, into the node's file.
pub(crate) fn make_virtual(node: &Node, escaped: &Path) {
    settings::configure(node, &format!("virtual_filespaces = ['{}']", escaped.display()));
}

/// Makes a file system below the scene's folder; `None` if this machine cannot make it.
fn image(scene: &Scene, mkfs: &[&str]) -> Option<Image> {
    if !root_or_skip("a file system of its own") {
        return None;
    }
    snapshots::image(scene, mkfs)
}

#[test]
fn a_directory_that_becomes_a_filespace_leaves_the_one_around_it() {
    let scene = Scene::with_files(5, 200);
    let own = scene.tree.join(OsStr::from_bytes(NAME));
    plant_files(&own, 60, 200, 2);
    scene.backup();
    let objects = manifest(&own).len() - 1;
    make_virtual(&scene.node, &scene.tree.join("own,\\xff"));
    let first = scene.node.backup(&own, &[]).expect(&[0]);
    first.counts(&[("backed_up", objects + 1), ("expired", 0), ("failed", 0)]);

    // Most of what the filespace around it had is elsewhere now: nothing expires unasked.
    let refused = scene.node.backup(&scene.tree, &[]).expect(&[8]).counts(&[("expired", 0)]);
    refused.says("is now a filespace of its own").says("--confirm");
    let confirmed = scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    confirmed.counts(&[("expired", objects), ("failed", 0)]);
    let around = scene.restore("around", &[]);
    assert_eq!(names(&around.join(OsStr::from_bytes(NAME))), [] as [Vec<u8>; 0]);

    // From here on, each backup is about its own part.
    fs::remove_file(own.join("folder-00/file-0000")).unwrap();
    fs::write(own.join("folder-01/file-0055"), "changed").unwrap();
    scene.backup().counts(&[("expired", 0), ("backed_up", 0)]);
    let one = scene.node.backup(&own.join("folder-01/file-0055"), &[]).expect(&[0]);
    let one = one.counts(&[("backed_up", 1), ("expired", 0)]);
    assert!(one.json()["filespaces"][0]["bytes"].is_string(), "{one}");
    scene.node.backup(&own, &[]).expect(&[0]).counts(&[("expired", 1)]);
    let (folder, out) = (own.join("folder-01"), scene.scratch.folder("out"));
    scene.node.restore(&folder, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_same(&manifest(&folder), &manifest(&out.join("folder-01")));
    scene.node.verify().expect(&[0]);

    for folder in ["folder-00", "folder-01"] {
        fs::remove_dir_all(own.join(folder)).unwrap();
    }
    let emptied = scene.node.backup(&own, &[]).expect(&[8]).counts(&[("expired", 0)]);
    emptied.says("looks like an unmounted disk");
}

#[test]
fn a_second_deletion_of_a_filespace_spares_the_one_around_it() {
    let scene = Scene::with_files(2, 100);
    let own = scene.tree.join("own");
    plant_files(&own, 3, 100, 2);
    scene.backup();
    make_virtual(&scene.node, &own);
    scene.node.backup(&own, &[]).expect(&[0]);
    scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let delete = || scene.node.run(&["delete", own.to_str().unwrap(), "--json"]);
    delete().expect(&[0]);
    delete().expect(&[12]).says("no version");
    let out = scene.scratch.folder("out");
    scene.node.restore(&own, &out, &[]).expect(&[0]);
    assert_same(&manifest(&own), &manifest(&out.join("own")));
}

/// A file in a directory that has become a filespace: its older version is in the filespace around
/// that directory.
struct MovedDirectory {
    scene: Scene,
    own: PathBuf,
    letter: PathBuf,
    /// Name of the filespace around the directory.
    around: String,
    /// Time between the two versions.
    between: String,
}

impl MovedDirectory {
    fn new() -> Self {
        let scene = Scene::with_files(9, 100);
        let own = scene.tree.join("own");
        let letter = own.join("letter");
        fs::create_dir(&own).unwrap();
        fs::write(&letter, "older").unwrap();
        fs::write(own.join("same"), "unchanged").unwrap();
        scene.backup();
        let between = clock::divide();
        let rows = scene.node.run(&["list", "--json"]).expect(&[0]).json_lines();
        let around = rows[0]["filespace"].as_str().unwrap().to_owned();
        make_virtual(&scene.node, &own);
        fs::write(&letter, "the newer one").unwrap();
        scene.node.backup(&own, &[]).expect(&[0]);
        scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
        Self { scene, own, letter, around, between }
    }

    /// Runs a command on the file.
    fn run(&self, command: &str, words: &[&str]) -> Outcome {
        let path = self.letter.to_str().unwrap();
        self.scene.node.run(&[&[command, path], words].concat())
    }
}

#[test]
fn a_command_takes_the_versions_of_a_filespace_that_it_names() {
    let moved = MovedDirectory::new();
    let around = ["--filespace", &moved.around];
    let sizes = |words: &[&str]| -> Vec<u64> {
        let listed = moved.run("list", &[&["--inactive", "--json"], words].concat());
        let rows = listed.expect(&[0]).json_lines();
        rows.iter().map(|row| row["size"].as_u64().unwrap()).collect()
    };
    assert_eq!(sizes(&[]), [13]);
    assert_eq!(sizes(&around), [5]);
    let hint = format!("--inactive --filespace {}'", moved.around);
    moved.run("list", &["--inactive"]).expect(&[0]).says(&hint);
    let of_own = ["list", moved.own.to_str().unwrap(), "--inactive"];
    moved.scene.node.run(&of_own).expect(&[0]).says(&hint);
    let chosen = ["--inactive", "--filespace", &moved.around];
    for words in [&chosen[..0], &chosen[..]] {
        let listed = moved.run("list", words);
        assert!(!listed.stderr.contains("--filespace"), "{listed}");
    }
    let out = moved.scene.scratch.folder("out");
    let words = [&["--inactive"], &around[..]].concat();
    moved.scene.node.restore(&moved.letter, &out, &words).expect(&[0]);
    assert_eq!(fs::read(out.join("letter")).unwrap(), b"older");
    moved
        .run("list", &["--filespace", "/no/such"])
        .expect(&[12])
        .says("no filespace /no/such");

    moved.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let planned = moved.run("delete", &["--dry-run"]).expect(&[0]);
    let planned = planned.says(&format!("Filespace: {}\n", moved.own.display()));
    planned.says(&format!("--filespace {}'", moved.around));
    let deleted = moved.run("delete", &[&around[..], &["--json"]].concat()).expect(&[0]);
    assert_eq!(deleted.json()["filespace"], *moved.around, "{deleted}");
    assert!(!deleted.stderr.contains("--filespace"), "{deleted}");
    moved.run("list", &words).expect(&[12]);
    assert_eq!(sizes(&[]), [13]);
    assert_eq!(names(&moved.own), [&b"letter"[..], b"same"]);
}

#[test]
fn the_status_names_a_filespace_that_no_setting_names_any_more() {
    let moved = MovedDirectory::new();
    let status = || moved.scene.node.run(&["status"]).expect(&[0]);
    assert!(!status().stderr.contains("no longer backed up"));
    let path = moved.scene.node.home().join("client.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("virtual_filespaces", "#virtual_filespaces")).unwrap();
    let hint = format!("the filespace {} is no longer backed up", moved.own.display());
    status().says(&hint);
}

#[test]
fn times_are_compared_over_filespaces() {
    let moved = MovedDirectory::new();
    let diff = |path: &Path| {
        let words = ["diff", "--from", &moved.between, path.to_str().unwrap(), "--json"];
        moved.scene.node.run(&words).expect(&[0])
    };
    let compared = diff(&moved.own);
    let rows = compared.json_lines();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["change"], "changed");
    assert_eq!((&rows[0]["size_before"], &rows[0]["size_after"]), (&5.into(), &13.into()));
    assert!(!compared.stderr.contains("diff"), "{compared}");
    let one = diff(&moved.letter).json_lines();
    assert_eq!((one.len(), &one[0]), (1, &rows[0]));
    diff(&moved.scene.tree).says(&format!("'holdfast diff {}'", moved.own.display()));
}

#[test]
fn a_preview_and_a_listing_are_about_the_same_filespace_as_a_backup() {
    let scene = Scene::with_files(2, 100);
    let own = scene.tree.join("own");
    plant_files(&own, 3, 100, 2);
    make_virtual(&scene.node, &own);
    let shown = scene.node.run(&["explain", "--option", "virtual-filespaces", "--json"]);
    assert_eq!(shown.expect(&[0]).json()["value"], own.to_str().unwrap());
    let file = own.join("folder-00/file-0000");
    let belongs = format!("It belongs to the virtual filespace {}.", own.display());
    let explain = |path: &Path| scene.node.run(&["explain", path.to_str().unwrap()]).expect(&[0]);
    explain(&file).says(&belongs);
    explain(&own).says(&belongs);
    assert!(!explain(&scene.tree).stdout.contains("belongs"));
    for (path, objects) in [(&scene.tree, 5), (&own, 5)] {
        let words = ["preview", path.to_str().unwrap(), "--json"];
        let rows = scene.node.run(&words).expect(&[0]).json_lines();
        assert_eq!(rows.len(), objects, "{rows:?}");
        scene
            .node
            .backup(path, &[])
            .expect(&[0])
            .counts(&[("backed_up", objects as u64)]);
    }
    let rows = scene.node.run(&["list", "--json"]).expect(&[0]).json_lines();
    let listed = rows.iter().find(|row| row["filespace"] == own.to_str().unwrap());
    assert_eq!(listed.expect("a filespace")["active_objects"], 5, "{rows:?}");
    // An archive of the directory around it leaves it out, as a backup does.
    let words = ["archive", scene.tree.to_str().unwrap(), "--json"];
    scene.node.run(&words).expect(&[0]).counts(&[("backed_up", 5)]);
}

#[test]
fn a_link_is_no_filespace_and_a_path_that_cannot_be_one_is_refused() {
    let scene = Scene::with_files(2, 100);
    let link = scene.tree.join("link");
    std::os::unix::fs::symlink("folder-00", &link).unwrap();
    make_virtual(&scene.node, &link);
    let done = scene.node.backup(&scene.tree, &[]).expect(&[8]);
    done.says("link is not a directory").counts(&[("backed_up", 5), ("failed", 0)]);
    let path = scene.node.home().join("client.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(link.to_str().unwrap(), "/")).unwrap();
    scene.node.backup(&scene.tree, &[]).expect(&[12]).says("virtual_filespaces");
}

#[test]
fn a_managed_file_system_has_no_virtual_filespace() {
    let scene = Scene::new();
    let Some(image) = image(&scene, &["mkfs.ext4", "-q", "-F"]) else { return };
    let own = image.path().join("own");
    fs::create_dir(&own).unwrap();
    let add = ["hsm", "add", image.path().to_str().unwrap()];
    make_virtual(&scene.node, &own);
    let refused = scene.node.run(&add).expect(&[12]);
    refused.says("cannot be managed: the setting virtual-filespaces names");
    let path = scene.node.home().join("client.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("virtual_filespaces", "#virtual_filespaces")).unwrap();
    scene.node.run(&add).expect(&[0]);
    fs::write(&path, text).unwrap();
    // Only the managed file system is left out; the others are backed up.
    let [around, whole, part] =
        [&*scene.tree, image.path(), &*own].map(|path| path.to_str().unwrap());
    for command in ["backup", "archive", "preview"] {
        for path in [whole, part] {
            let done = scene.node.run(&[command, path]).expect(&[12]);
            done.says("is managed").says("virtual-filespaces");
        }
        let both = scene.node.run(&[command, around, whole]).expect(&[4]);
        both.says(whole).says("is managed");
        scene.node.run(&[command, around]).expect(&[0]);
    }
}

#[test]
fn a_snapshot_for_a_virtual_filespace_is_that_of_its_file_system() {
    let scene = Scene::new();
    let Some(image) = image(&scene, &["mkfs.btrfs", "--quiet"]) else { return };
    let own = image.path().join("a/own");
    plant_files(&own, 20, 500, 4);
    fs::write(image.path().join("around"), "x").unwrap();
    make_virtual(&scene.node, &own);
    let done = scene.node.backup(&own, &["--snapshot", "btrfs"]).expect(&[0]);
    done.counts(&[("backed_up", manifest(&own).len()), ("failed", 0)]);
    let out = scene.scratch.folder("out");
    scene.node.restore(&own.join("folder-00"), &out, &[]).expect(&[0]);
    assert_same(&manifest(&own.join("folder-00")), &manifest(&out.join("folder-00")));
    let left = names(image.path());
    assert!(!left.iter().any(|name| name.starts_with(b".holdfast")), "{left:?}");
}
