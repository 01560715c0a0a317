//! Backups from snapshots: although files change during a backup, the restored state is the state
//! of one moment.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::harness::{Image, succeeds};
use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest, names, plant_files, root_or_skip};

const IMAGE_BYTES: u64 = 400 << 20;

/// Makes a file system in an image below the scene's folder.
pub(crate) fn image(scene: &Scene, mkfs: &[&str]) -> Option<Image> {
    let (file, folder) = (scene.scratch.join("image"), scene.scratch.join("mounted"));
    let image = Image::mount(&file, IMAGE_BYTES, mkfs, &folder);
    if image.is_none() {
        e2e::skip::say(&format!("{} or a loop mount does not work on this machine", mkfs[0]));
    }
    image
}

/// Guard that sets the flag when it is dropped, so that the other threads of a test end even if the
/// test fails.
pub(crate) struct StopGuard<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes the same count to two files as a database would, one after the other, until `stop`.
fn count_in_step(folder: &Path, stop: &AtomicBool) {
    // The files are overwritten in place, so that they are never empty.
    let files = ["first", "second"].map(|name| {
        fs::write(folder.join(name), format!("{:020}", 0)).unwrap();
        let file = File::options().write(true).open(folder.join(name)).unwrap();
        file.sync_all().unwrap();
        file
    });
    let mut count = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        for file in &files {
            file.write_all_at(format!("{count:020}").as_bytes(), 0).unwrap();
            // A snapshot contains synced data, in the order of the syncs.
            file.sync_all().unwrap();
        }
    }
}

/// Appends to the file until `stop`.
fn append(path: &Path, stop: &AtomicBool) {
    let mut file = File::options().append(true).open(path).unwrap();
    while !stop.load(Ordering::Relaxed) {
        file.write_all(&[b'x'; 100]).unwrap();
        e2e::clock::pause(Duration::from_micros(300));
    }
}

fn count(path: PathBuf) -> u64 {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

#[test]
fn a_btrfs_snapshot_is_of_one_moment_and_leaves_nothing() {
    let scene = Scene::new();
    if !root_or_skip("a btrfs snapshot") {
        return;
    }
    let Some(image) = image(&scene, &["mkfs.btrfs", "--quiet"]) else { return };
    let top = image.path();
    let tree = top.join("tree");
    plant_files(&tree, 200, 20_000, 3);
    scene.node.backup(top, &[]).expect(&[0]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ended = StopGuard(&stop);
        threads.spawn(|| count_in_step(top, &stop));
        let begun =
            || fs::read(top.join("second")).is_ok_and(|text| !text.is_empty() && text[19] != b'0');
        while !begun() {
            e2e::clock::pause(Duration::from_millis(1));
        }
        for how in ["btrfs", "auto"] {
            let done = scene.node.backup(top, &["--snapshot", how]).expect(&[0]);
            done.counts(&[("failed", 0), ("retries", 0)]);
            let out = scene.scratch.folder(how);
            scene.node.restore(top, &out, &[]).expect(&[0]);
            let (first, second) = (count(out.join("first")), count(out.join("second")));
            assert!(
                first == second || first == second + 1,
                "the counts are not of one moment: {first} and {second}"
            );
        }
    });
    let left = names(top);
    assert!(!left.iter().any(|name| name.starts_with(b".holdfast")), "{left:?}");
    // Backups with and without a snapshot see the same files: at most the root has changed.
    scene.node.backup(top, &[]).expect(&[0]);
    for options in [&["--snapshot", "btrfs"][..], &[]] {
        let modified = fs::metadata(top).unwrap().modified().unwrap();
        let again = scene.node.backup(top, options).expect(&[0]);
        assert_eq!(fs::metadata(top).unwrap().modified().unwrap(), modified);
        assert!(again.count("backed_up") + again.count("updated") <= 1, "{again}");
    }
    let out = scene.scratch.folder("out");
    scene.node.restore(&tree, &out, &[]).expect(&[0]);
    assert_same(&manifest(&tree), &manifest(&out.join("tree")));
}

#[test]
fn what_a_killed_backup_has_left_the_next_one_removes() {
    let scene = Scene::new();
    if !root_or_skip("a btrfs snapshot") {
        return;
    }
    let Some(image) = image(&scene, &["mkfs.btrfs", "--quiet"]) else { return };
    let top = image.path();
    let tree = top.join("tree");
    plant_files(&tree, 3000, 5000, 3);
    let is_snapshot = |name: &Vec<u8>| name.starts_with(b".holdfast-snapshot-");
    let running = scene.node.spawn_backup(top, &["--snapshot", "btrfs"]);
    while !names(top).iter().any(is_snapshot) {
        assert!(!running.ends_within(Duration::ZERO), "the backup ended before it was killed");
    }
    running.kill9();
    assert!(names(top).iter().any(is_snapshot));
    scene.node.backup(top, &["--snapshot", "btrfs"]).expect(&[0]);
    assert!(!names(top).iter().any(is_snapshot));
    let out = scene.scratch.folder("out");
    scene.node.restore(&tree, &out, &[]).expect(&[0]);
    assert_same(&manifest(&tree), &manifest(&out.join("tree")));
}

#[test]
fn a_reflink_holds_a_file_that_never_rests() {
    let scene = Scene::new();
    if !root_or_skip("an XFS file system") {
        return;
    }
    let Some(image) = image(&scene, &["mkfs.xfs", "-q", "-m", "reflink=1"]) else { return };
    let busy = image.path().join("busy");
    fs::write(&busy, vec![b'x'; 60_000_000]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ended = StopGuard(&stop);
        threads.spawn(|| append(&busy, &stop));
        let live = scene.node.backup(image.path(), &[]).expect(&[4]);
        live.counts(&[("failed", 1)]).says("changed while it was read");
        let held = scene.node.backup(image.path(), &["--snapshot", "reflink"]).expect(&[0]);
        held.counts(&[("failed", 0)]);
        scene.node.backup(image.path(), &["--snapshot", "auto"]).expect(&[0]);
    });
    let out = scene.scratch.folder("out");
    scene.node.restore(&busy, &out, &[]).expect(&[0]);
    let content = fs::read(out.join("busy")).unwrap();
    assert!(content.len() > 60_000_000 && content.iter().all(|byte| *byte == b'x'));
    assert_eq!(names(image.path()), [b"busy"], "the reflink should have no name");
}

#[test]
fn an_lvm_snapshot_is_of_one_moment() {
    let scene = Scene::new();
    if !root_or_skip("a logical volume") {
        return;
    }
    let Some(volume) =
        LogicalVolume::make(&scene.scratch.join("disk"), &scene.scratch.folder("mounted"))
    else {
        e2e::skip::say("this machine cannot make a logical volume: no device mapper or no lvm2");
        return;
    };
    plant_files(&volume.folder, 200, 20_000, 3);
    scene.node.backup(&volume.folder, &[]).expect(&[0]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ended = StopGuard(&stop);
        threads.spawn(|| count_in_step(&volume.folder, &stop));
        e2e::clock::pause(Duration::from_millis(50));
        let done = scene.node.backup(&volume.folder, &["--snapshot", "lvm"]).expect(&[0]);
        done.counts(&[("failed", 0), ("retries", 0)]);
    });
    let out = scene.scratch.folder("out");
    scene.node.restore(&volume.folder, &out, &[]).expect(&[0]);
    let (first, second) = (count(out.join("first")), count(out.join("second")));
    assert!(
        first == second || first == second + 1,
        "the counts are not of one moment: {first} and {second}"
    );
    assert!(!succeeds(Command::new("sh").args(["-c", "lvs | grep holdfast-snapshot"])));
}

/// A logical volume on a loop device.
struct LogicalVolume {
    group: String,
    device: String,
    folder: PathBuf,
}

impl LogicalVolume {
    fn make(image: &Path, folder: &Path) -> Option<Self> {
        if !succeeds(Command::new("dmsetup").arg("version")) {
            return None;
        }
        File::create_new(image).and_then(|file| file.set_len(IMAGE_BYTES)).unwrap();
        let device = Command::new("losetup").args(["--find", "--show"]).arg(image).output().ok()?;
        let device = String::from_utf8(device.stdout).ok()?.trim().to_owned();
        let group = format!("holdfast{}", std::process::id());
        let volume = Self { group, device, folder: folder.to_owned() };
        let group = &volume.group;
        let path = format!("/dev/{group}/data");
        let steps = [
            ["vgcreate", group, &volume.device].map(str::to_owned).to_vec(),
            ["lvcreate", "--yes", "-l", "50%VG", "-n", "data", group]
                .map(str::to_owned)
                .to_vec(),
            ["mkfs.ext4", "-q", &path].map(str::to_owned).to_vec(),
            ["mount", &path, &folder.display().to_string()].map(str::to_owned).to_vec(),
        ];
        let made = steps.iter().all(|step| succeeds(Command::new(&step[0]).args(&step[1..])));
        made.then_some(volume)
    }
}

impl Drop for LogicalVolume {
    fn drop(&mut self) {
        // A mount that a failed test still uses stays until the machine stops.
        let _unmounted = succeeds(Command::new("umount").arg(&self.folder));
        let _removed = succeeds(Command::new("vgremove").args(["--yes", &self.group]));
        let _detached = succeeds(Command::new("losetup").args(["--detach", &self.device]));
    }
}

#[test]
fn where_nothing_can_be_held_still_it_says_so() {
    let scene = Scene::with_files(3, 1000);
    let tree = scene.tree.to_str().unwrap();
    let memory = Path::new("/dev/shm").join(format!("holdfast-e2e-{}", std::process::id()));
    fs::create_dir(&memory).unwrap();
    fs::write(memory.join("file"), "here").unwrap();
    for how in ["btrfs", "lvm", "reflink"] {
        let refused = scene.node.backup(&memory, &["--snapshot", how]).expect(&[12]);
        assert!(refused.to_string().contains("/dev/shm cannot be backed up from"), "{refused}");
    }
    scene.node.backup(&memory, &["--snapshot", "auto"]).expect(&[0]);
    let config = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("snapshot = \"btrfs\"\n{own}")).unwrap();
    scene.node.backup(&memory, &[]).expect(&[12]);
    scene.node.backup(&memory, &["--snapshot", "off"]).expect(&[0]);
    fs::remove_dir_all(&memory).unwrap();
    scene
        .node
        .run(&["backup", tree, "--snapshot", "auto", "--cross-filesystems"])
        .expect(&[12])
        .says("one file system");
    scene
        .node
        .run(&["backup", tree, "--snapshot", "zfs"])
        .expect(&[12])
        .says("reflink");
}
