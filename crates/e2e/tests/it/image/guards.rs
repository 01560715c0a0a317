//! Targets that no image is written to, and the messages about them.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::{
    BTRFS, DISK_BYTES, EXT4, Kind, Loop, MIB, Mount, XFS, are_same, back_up, backed_up, disk,
    image, noise, restore,
};
use crate::scene::Scene;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn a_target_is_a_device_or_a_file() {
    let scene = Scene::new();
    let disk = backed_up(&scene, 100_000);
    let folder = scene.scratch.folder("folder");
    for target in [&folder, Path::new("/proc"), Path::new("/dev/null")] {
        let refused = restore(&scene, &disk, target, &["--confirm"]).expect(&[12]);
        let refused = refused.says(&format!("{} is neither", target.display()));
        assert!(!refused.to_string().contains("mount point"), "{refused}");
    }
    let nowhere = folder.join("none/disk");
    restore(&scene, &disk, &nowhere, &[])
        .expect(&[12])
        .says(nowhere.to_str().unwrap());
    assert!(!folder.join("none").try_exists().unwrap());
}

/// A disk has the secrets of its machine.
#[test]
fn only_the_owner_reads_a_restored_file() {
    let scene = Scene::new();
    let disk = backed_up(&scene, 100_000);
    let new = scene.scratch.join("new");
    restore(&scene, &disk, &new, &[]).expect(&[0]);
    assert_eq!(mode(&new), 0o600);
    // A file that is replaced keeps its name, its place and its mode.
    let (file, link) = (scene.scratch.folder("far").join("file"), scene.scratch.join("link"));
    fs::write(&file, [7; 100_000]).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, &link).unwrap();
    let refused = restore(&scene, &disk, &link, &[]).expect(&[12]);
    refused.says("has 100000 bytes").says("--confirm");
    restore(&scene, &disk, &link, &["--confirm"]).expect(&[0]);
    assert!(link.is_symlink() && are_same(&disk, &file));
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn an_unconfirmed_target_is_described() {
    let scene = Scene::new();
    let source = scene.scratch.join("source-disk");
    fs::write(&source, noise(1, 100_000)).unwrap();
    back_up(&scene, &source);
    const LABEL: &[&str] = &["mkfs.ext4", "-q", "-F", "-L", "my data"];
    for (name, mkfs, says) in [
        ("labelled", LABEL, "holds the ext4 file system 'my data'"),
        ("xfs", XFS.mkfs, "holds the xfs file system"),
        ("swap", &["mkswap", "-q"], "holds swap space"),
        ("blank", &["true"], "in which blkid recognises nothing"),
    ] {
        let Some((file, device)) = disk(&scene, name, &Kind { mkfs, check: &[] }) else { return };
        let before = fs::read(&file).unwrap();
        let refused = restore(&scene, &source, &device.0, &[]).expect(&[12]);
        refused.says(says).says(&format!("{DISK_BYTES} bytes")).says("--confirm");
        // The disk file itself is no better.
        restore(&scene, &source, &file, &[]).expect(&[12]).says(says);
        assert!(fs::read(&file).unwrap() == before, "nothing was written");
    }
}

#[test]
fn a_disk_in_use_is_no_target() {
    let scene = Scene::new();
    let source = scene.scratch.join("source-disk");
    fs::write(&source, noise(1, 100_000)).unwrap();
    back_up(&scene, &source);
    for (name, kind) in [("ext4", &EXT4), ("btrfs", &BTRFS)] {
        let Some((_, device)) = disk(&scene, name, kind) else { return };
        let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "defaults");
        fs::write(mount.0.join("file"), b"content").unwrap();
        let refused = restore(&scene, &source, &device.0, &["--confirm"]).expect(&[12]);
        refused.says("is in use").says("mounted");
        assert_eq!(fs::read(mount.0.join("file")).unwrap(), b"content");
    }
}

/// A program that uses the device would go on with a file that has no name any more.
#[test]
fn a_file_behind_a_device_in_use_is_no_target() {
    let scene = Scene::new();
    let source = scene.scratch.join("source-disk");
    fs::write(&source, noise(1, 100_000)).unwrap();
    back_up(&scene, &source);
    let Some((file, device)) = disk(&scene, "disk", &EXT4) else { return };
    let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "defaults");
    for options in [&[][..], &["--confirm"]] {
        let refused = restore(&scene, &source, &file, options).expect(&[12]);
        refused.says(file.to_str().unwrap()).says(device.0.to_str().unwrap());
    }
    assert_eq!(file.metadata().unwrap().len(), DISK_BYTES);
    drop(mount);
    restore(&scene, &source, &file, &["--confirm"]).expect(&[0]);
    assert!(are_same(&source, &file));
}

#[test]
fn a_target_that_is_too_small_is_refused_before_it_is_confirmed() {
    let scene = Scene::new();
    let Some((_, device)) = disk(&scene, "disk", &EXT4) else { return };
    back_up(&scene, &device.0);
    let small = scene.scratch.join("small");
    File::create(&small).unwrap().set_len(DISK_BYTES - 512).unwrap();
    let target = Loop::of(&small).unwrap();
    for options in [&[][..], &["--confirm"]] {
        let refused = restore(&scene, &device.0, &target.0, options).expect(&[12]);
        refused.says("335543808 bytes").says("the image has 335544320");
    }
    drop(target);
    // The image of a larger disk was not meant for a smaller file.
    for options in [&[][..], &["--confirm"]] {
        let refused = restore(&scene, &device.0, &small, options).expect(&[12]);
        refused.says("335543808 bytes").says("the image has 335544320");
    }
    assert_eq!(small.metadata().unwrap().len(), DISK_BYTES - 512);
    // An empty one has nothing to lose.
    File::create(&small).unwrap();
    restore(&scene, &device.0, &small, &["--confirm"]).expect(&[0]);
    assert_eq!(small.metadata().unwrap().len(), DISK_BYTES);
}

/// The command that thaws ran as soon as the first of several sources was read, while the others,
/// whose images are called frozen, were still being read.
#[test]
fn several_sources_are_not_frozen_one_by_one() {
    let scene = Scene::new();
    let [one, two] = ["one", "two"].map(|name| scene.scratch.join(name));
    fs::write(&one, noise(1, 100_000)).unwrap();
    fs::write(&two, noise(2, 100_000)).unwrap();
    let state = scene.scratch.join("state");
    let note = format!("echo on >> {}", state.display());
    let (first, second) = (one.to_str().unwrap(), two.to_str().unwrap());
    let words = ["image", "backup", first, second, "--freeze", &note];
    scene.node.run(&words).expect(&[12]).says("--freeze");
    assert!(!state.try_exists().unwrap());
}

#[test]
fn differences_are_listed_with_their_whole_extent() {
    let scene = Scene::new();
    let disk = scene.scratch.join("disk");
    let content = noise(1, 12 << 20);
    fs::write(&disk, &content).unwrap();
    back_up(&scene, &disk);
    let mut other = content;
    other[1 << 20..11 << 20].iter_mut().for_each(|byte| *byte ^= 1);
    other.truncate((12 << 20) - 5000);
    let against = scene.scratch.join("other");
    fs::write(&against, other).unwrap();
    let words = ["verify", "--against", against.to_str().unwrap()];
    let found = image(&scene, &words, &disk).expect(&[4]).json();
    let expected = serde_json::json!([
        { "offset": MIB, "bytes": 10 * MIB },
        { "offset": 12 * MIB - 8192, "bytes": 8192 },
    ]);
    assert_eq!(found["different"], expected, "{found}");
    assert_eq!(found["different_bytes"], 10 * MIB + 8192);
    image(&scene, &["verify", "--against", "/"], &disk)
        .expect(&[12])
        .says("cannot read /: Is a directory");
}
