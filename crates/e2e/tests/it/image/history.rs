//! Images one after the other, and beside each other: what they share, and what each of them keeps.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use e2e::harness::Node;
use serde_json::Value;

use super::{WAIT, are_same, back_up, image, noise, restore, wait_for_bytes};
use crate::damage::files_below;
use crate::scene::Scene;

/// Length of a part of an image of a small disk.
const PART: usize = 64 << 20;

fn write(scene: &Scene, name: &str, content: &[u8]) -> PathBuf {
    let path = scene.scratch.join(name);
    fs::write(&path, content).unwrap();
    path
}

/// Returns the images of `disk`, the newest first.
fn listed(scene: &Scene, disk: &Path) -> Vec<Value> {
    image(scene, &["list"], disk).expect(&[0]).json_lines()
}

fn taken(image: &Value) -> &str {
    image["taken"].as_str().unwrap()
}

#[test]
fn an_image_has_any_size() {
    let scene = Scene::new();
    for bytes in [0, 1, 511, 513, 4095, 131_072, 131_073, 1_000_001] {
        let content = noise(4, bytes);
        let disk = write(&scene, "disk", &content);
        let report = back_up(&scene, &disk);
        assert_eq!(report["bytes"], bytes);
        let out = scene.scratch.join(&format!("out-{bytes}"));
        restore(&scene, &disk, &out, &[]).expect(&[0]);
        assert!(fs::read(&out).unwrap() == content, "{bytes}");
        let verify = ["verify", "--against", out.to_str().unwrap()];
        assert_eq!(image(&scene, &verify, &disk).expect(&[0]).json()["different_bytes"], 0);
    }
    assert_eq!(listed(&scene, &scene.scratch.join("disk")).len(), 8);
}

fn pool_bytes(scene: &Scene) -> u64 {
    let pools = scene.server.try_admin(&["pool", "list"]).expect(&[0]).json_lines();
    pools.iter().map(|pool| pool["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn disks_and_nodes_share_equal_blocks() {
    let scene = Scene::new();
    let mut content = noise(4, 6 << 20);
    let disk = write(&scene, "disk", &content);
    let first = back_up(&scene, &disk);
    assert!(first["bytes_after_dedup"].as_u64().unwrap() >= 6 << 20);
    // Another disk, which is larger and differs in one block.
    content[3_000_000] ^= 1;
    content.resize(8 << 20, 0);
    let clone = write(&scene, "clone", &content);
    let second = back_up(&scene, &clone);
    assert!(second["bytes_after_dedup"].as_u64().unwrap() <= 128 << 10, "{second}");
    // Another node sends its blocks, because it does not learn what others have.
    let other = Node::enrol(&scene.server, "berta");
    let before = pool_bytes(&scene);
    other.run(&["image", "backup", clone.to_str().unwrap()]).expect(&[0]);
    assert!(pool_bytes(&scene) < before + (64 << 10));
    let out = scene.scratch.join("out");
    let words = ["image", "restore", clone.to_str().unwrap(), out.to_str().unwrap()];
    other.run(&words).expect(&[0]);
    assert!(are_same(&clone, &out));
    // A node has its own images only.
    let words = ["image", "restore", disk.to_str().unwrap(), out.to_str().unwrap(), "--confirm"];
    other.run(&words).expect(&[12]).says("no image of");
    other.verify().expect(&[0]);
}

#[test]
fn an_encrypted_image_comes_back_and_is_nowhere_at_the_server() {
    let scene = Scene::new();
    let secret = b"nobody but the node may read this sentence, which is on a disk";
    let mut content = noise(4, 2 << 20);
    content[1 << 20..(1 << 20) + secret.len()].copy_from_slice(secret);
    let disk = write(&scene, "disk", &content);
    let rule = format!("include.encrypt {}\n", disk.display());
    fs::write(scene.node.home().join("inclexcl"), rule).unwrap();
    image(&scene, &["backup"], &disk).expect(&[12]).says("no key");
    scene.node.run(&["key", "create"]).expect(&[0]);
    back_up(&scene, &disk);
    let is_secret = |path: &PathBuf| {
        let stored = fs::read(path).unwrap_or_default();
        stored.windows(secret.len()).any(|bytes| bytes == secret)
    };
    assert!(!files_below(scene.server.dir()).iter().any(is_secret));
    content[5] ^= 1;
    fs::write(&disk, &content).unwrap();
    let second = back_up(&scene, &disk);
    assert!(second["bytes_after_dedup"].as_u64().unwrap() <= 140 << 10, "{second}");
    let out = scene.scratch.join("out");
    let restored = restore(&scene, &disk, &out, &["--json"]).expect(&[0]).json();
    assert!(are_same(&disk, &out));
    let secs = |key: &str| restored[key].as_f64().unwrap();
    let (transfer, elapsed) = (secs("data_transfer_secs"), secs("elapsed_secs"));
    assert!(transfer > 0.0 && transfer <= elapsed, "{transfer} of {elapsed}");
    // Without the key, nothing of it comes back.
    fs::remove_file(scene.node.home().join("encryption.keys")).unwrap();
    let lost = restore(&scene, &disk, &scene.scratch.join("none"), &["--json"]).expect(&[4]);
    let lost = lost.json()["lost"].clone();
    assert_eq!((&lost[0]["offset"], &lost[0]["bytes"]), (&0.into(), &(2 << 20).into()), "{lost}");
}

/// Makes a sparse disk of `parts` parts, each with a block of noise.
fn write_parts(disk: &Path, parts: usize, seed: u64) {
    let file = File::create(disk).unwrap();
    file.set_len((parts * PART) as u64).unwrap();
    for number in 0..parts {
        file.write_all_at(&noise(seed + number as u64, 8192), (number * PART) as u64)
            .unwrap();
    }
}

fn keep(scene: &Scene, exists: &str, deleted: &str) {
    let edit = ["--verexists", exists, "--verdeleted", deleted, "--retextra", "30"];
    let class = ["policy", "class", "STANDARD"];
    scene.server.admin(&[&class[..], &edit, &["--retonly", "30"]].concat());
    scene.server.admin(&["policy", "activate", "--confirm"]);
}

/// A disk that shrinks has deleted its last parts. The policy kept fewer versions of them than
/// images, so an image that was listed could not be restored.
#[test]
fn images_that_the_policy_keeps_are_whole_after_the_disk_has_shrunk() {
    let scene = Scene::new();
    keep(&scene, "3", "1");
    let disk = scene.scratch.join("disk");
    for (parts, seed) in [(4, 10), (4, 20), (2, 30)] {
        write_parts(&disk, parts, seed);
        fs::copy(&disk, scene.scratch.join(&format!("kept-{seed}"))).unwrap();
        back_up(&scene, &disk);
    }
    scene.server.admin(&["expire"]);
    let images = listed(&scene, &disk);
    assert_eq!(images.len(), 3);
    for (image_of, seed) in images.iter().zip([30, 20, 10]) {
        let against = scene.scratch.join(&format!("kept-{seed}"));
        let words = ["--at", taken(image_of), "--against", against.to_str().unwrap()];
        image(&scene, &[&["verify"], &words[..]].concat(), &disk).expect(&[0]);
    }
    // The disk grows again.
    write_parts(&disk, 5, 40);
    assert_eq!(back_up(&scene, &disk)["changed_parts"], 5);
    let against = ["verify", "--against", disk.to_str().unwrap()];
    image(&scene, &against, &disk).expect(&[0]);
    scene.server.admin(&["expire"]);
    assert_eq!(listed(&scene, &disk).len(), 3);
    scene.node.verify().expect(&[0]);
}

#[test]
fn the_policy_decides_how_many_images_stay() {
    let scene = Scene::new();
    let disk = scene.scratch.join("disk");
    for seed in [10, 20, 30] {
        write_parts(&disk, 3, seed);
        back_up(&scene, &disk);
    }
    scene.keep_only_active();
    scene.server.admin(&["expire"]);
    scene.server.admin(&["reclaim"]);
    assert_eq!(listed(&scene, &disk).len(), 1);
    let out = scene.scratch.join("out");
    restore(&scene, &disk, &out, &[]).expect(&[0]);
    assert!(are_same(&disk, &out));
    scene.server.admin(&["audit", "--data"]);
}

/// The state of the source was asked for after the parts of the new image had replaced the old
/// ones. When that failed, the policy took the parts of the old image.
#[test]
fn a_backup_that_fails_at_its_end_costs_no_older_image() {
    let scene = Scene::new();
    scene.keep_only_active();
    let disk = scene.scratch.join("disk");
    write_parts(&disk, 2, 10);
    let kept = scene.scratch.join("kept");
    fs::copy(&disk, &kept).unwrap();
    back_up(&scene, &disk);
    write_parts(&disk, 1, 20);
    let content = File::options().write(true).open(&disk).unwrap();
    content.write_all_at(&noise(21, 24 << 20), 0).unwrap();
    let path = disk.to_str().unwrap();
    let words = ["image", "backup", path, "--rate", "8M", "--snapshot", "off"];
    let process = scene.node.spawn(&words);
    wait_for_bytes(&scene, 8 << 20);
    fs::remove_file(&disk).unwrap();
    process.wait_within(WAIT).expect(&[12]);
    scene.server.admin(&["expire"]);
    assert_eq!(listed(&scene, &disk).len(), 1);
    let against = ["verify", "--against", kept.to_str().unwrap()];
    image(&scene, &against, &disk).expect(&[0]);
}

/// The server lets only one session at a time change a filespace. Otherwise the image that is made
/// last could have parts of both.
#[test]
fn an_image_has_nothing_of_another_that_is_made_at_the_same_time() {
    let scene = Scene::new();
    let disk = scene.scratch.join("disk");
    let old = noise(1, 24 << 20);
    fs::write(&disk, &old).unwrap();
    back_up(&scene, &disk);
    let slow = ["image", "backup", disk.to_str().unwrap(), "--snapshot", "off", "--rate", "8M"];
    // The first backup reads the changed disk; the second one the disk as it was before.
    fs::write(&disk, noise(2, 24 << 20)).unwrap();
    let first = scene.node.spawn(&slow);
    wait_for_bytes(&scene, 40 << 20);
    // The first backup may still read, and would meet the end of a file that is made anew.
    File::options().write(true).open(&disk).unwrap().write_all_at(&old, 0).unwrap();
    let second = scene.node.spawn(&slow);
    first.wait_within(WAIT).expect(&[0, 8]);
    if second.wait_within(WAIT).expect(&[0, 12]).code() == 0 {
        let against = ["verify", "--against", disk.to_str().unwrap()];
        image(&scene, &against, &disk).expect(&[0]);
    }
}

/// Only one of the sources knew what the server had; the others sent all chunks of changed parts.
#[test]
fn all_sources_of_a_command_know_what_the_server_has() {
    let scene = Scene::new();
    let mut contents = [1, 2, 3].map(|seed| noise(seed, 8 << 20));
    let write_all = |contents: &[Vec<u8>; 3]| {
        let numbered = contents.iter().enumerate();
        let disks = numbered.map(|(number, content)| write(&scene, &format!("d{number}"), content));
        disks.map(|disk| disk.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let back_up_all = |disks: &[String]| {
        let words = ["image", "backup", "--json"].map(str::to_owned);
        scene.node.run(&[&words[..], disks].concat()).expect(&[0]).json_lines()
    };
    back_up_all(&write_all(&contents));
    contents.iter_mut().for_each(|content| content[4 << 20] ^= 1);
    for report in back_up_all(&write_all(&contents)) {
        assert_eq!(report["changed_parts"], 1);
        assert!(report["bytes_after_dedup"].as_u64().unwrap() <= 256 << 10, "{report}");
    }
}

#[test]
fn an_image_without_a_path_for_a_name_has_a_class_by_its_name() {
    let scene = Scene::new();
    scene.server.admin(&["policy", "class", "IMAGES", "--retextra", "90"]);
    scene.server.admin(&["policy", "activate"]);
    // An image is made of what is excluded from the backups of files, too.
    let list = "include /vm1 IMAGES\nexclude /vm*\n";
    fs::write(scene.node.home().join("inclexcl"), list).unwrap();
    let disk = write(&scene, "disk", &noise(1, 100_000));
    let words = ["image", "backup", disk.to_str().unwrap(), "--name", "vm1", "--json"];
    scene.node.run(&words).expect(&[0]);
    assert_eq!(listed(&scene, Path::new("vm1"))[0]["class"], "IMAGES");
}

#[test]
fn a_source_that_is_missing_does_not_hinder_the_others() {
    let scene = Scene::new();
    let [one, two] = [1, 2].map(|seed| {
        let name = format!("disk-{seed}");
        write(&scene, &name, &noise(seed, 5 << 20))
    });
    let [first, second] = [&one, &two].map(|disk| disk.to_str().unwrap());
    let both = scene.node.run(&["image", "backup", first, second, "--json"]).expect(&[0]);
    let reports = both.json_lines();
    let images: Vec<&Value> = reports.iter().map(|report| &report["image"]).collect();
    assert_eq!(images, [first, second]);
    let words = ["image", "backup", first, "/dev/none", second, "--json"];
    let outcome = scene.node.run(&words).expect(&[12]).says("no image of /dev/none");
    assert_eq!(outcome.json_lines().len(), 2);
    for disk in [&one, &two] {
        assert_eq!(listed(&scene, disk).len(), 2);
        let out = scene.scratch.join("out");
        restore(&scene, disk, &out, &["--confirm"]).expect(&[0]);
        assert!(are_same(disk, &out));
    }
}

#[test]
fn an_image_has_the_name_that_it_is_given() {
    let scene = Scene::new();
    let disk = write(&scene, "disk", &noise(1, 100_000));
    let path = disk.to_str().unwrap();
    let words = ["image", "backup", path, "--name", "the disk of anna", "--json"];
    assert_eq!(scene.node.run(&words).expect(&[0]).json()["image"], "the disk of anna");
    let out = scene.scratch.join("out");
    restore(&scene, Path::new("the disk of anna"), &out, &[]).expect(&[0]);
    assert!(are_same(&disk, &out));
    restore(&scene, &disk, &out, &["--confirm"])
        .expect(&[12])
        .says("'holdfast image list' shows all");
    let early = ["--at", "2020-01-01", "--confirm"];
    restore(&scene, Path::new("the disk of anna"), &out, &early)
        .expect(&[12])
        .says("so old");
    let words = ["image", "backup", path, path, "--name", "x"];
    scene.node.run(&words).expect(&[12]).says("--name");
    // A path from the working directory names an image too.
    back_up(&scene, &disk);
    let relative = path.strip_prefix('/').unwrap();
    image(&scene, &["verify"], Path::new(relative)).expect(&[0]);
    let early = ["verify", "--at", "2020-01-01"];
    image(&scene, &early, Path::new(relative)).expect(&[12]).says("so old");
}

#[test]
fn the_commands_for_files_know_that_there_are_images() {
    let scene = Scene::with_files(3, 1000);
    scene.backup();
    let disk = write(&scene, "disk", &noise(1, 5 << 20));
    back_up(&scene, &disk);
    let filespaces = scene.node.run(&["list", "--json"]).expect(&[0]).json_lines();
    let names: Vec<&str> =
        filespaces.iter().map(|one| one["filespace"].as_str().unwrap()).collect();
    let of_image = format!("image:{}", disk.display());
    assert!(names.contains(&of_image.as_str()) && names.len() == 2, "{names:?}");
    // A path lists files.
    let rows = scene.node.list(&scene.tree, &["--recursive"]);
    assert!(rows.iter().all(|row| !row.to_string().contains("image:")), "{rows:?}");
    scene.node.verify().expect(&[0]);
    let audit = scene.server.admin(&["audit", "--data"]);
    assert_eq!(audit["versions_lost"], 0);
}
