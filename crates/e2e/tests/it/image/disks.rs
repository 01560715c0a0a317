//! Images of mounted disks, and of disks with partitions.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use e2e::harness::{Image, Node};
use e2e::manifest::assert_same;

use super::{
    BTRFS, DISK_BYTES, EXT4, Kind, Loop, MIB, Mount, XFS, are_same, disk, image, noise, plant,
    restore, run_tool,
};
use crate::scene::{Scene, manifest, names, root_or_skip};
use crate::snapshots::StopGuard;

/// Makes a loop device of `bytes`, full of noise.
fn noisy(scene: &Scene, name: &str, bytes: u64) -> (PathBuf, Loop) {
    let file = scene.scratch.join(name);
    fs::write(&file, noise(9, usize::try_from(bytes).unwrap())).unwrap();
    let device = Loop::of(&file).expect("another loop device");
    (file, device)
}

/// Makes an image of a file system that is mounted, and whose last files only the memory has.
fn a_mounted_file_system_comes_back(kind: &Kind) {
    let scene = Scene::new();
    let Some((file, device)) = disk(&scene, "disk", kind) else { return };
    let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "defaults");
    plant(&mount.0);
    let there = manifest(&mount.0);
    // The mount point names the device. The kernel may write while the device is read.
    let live = image(&scene, &["backup"], &mount.0).expect(&[0, 8]);
    let live = live.says("may change while it is read");
    let live = live.json();
    assert_eq!(live["image"], device.0.to_str().unwrap());
    drop(mount);
    let name = device.0.clone();
    drop(device);
    fs::remove_file(&file).unwrap();
    let (_, target) = noisy(&scene, "target", DISK_BYTES);
    restore(&scene, &name, &target.0, &["--confirm"]).expect(&[0]);
    let restored = Mount::at(&target.0, scene.scratch.folder("restored"), "defaults");
    assert_same(&there, &manifest(&restored.0));
    drop(restored);
    let checked = Command::new(kind.check[0]).args(&kind.check[1..]).arg(&target.0).output();
    let checked = checked.unwrap();
    // A mixture of several moments may have faults.
    let is_fuzzy = live["state"] == "fuzzy";
    assert!(is_fuzzy || checked.status.success(), "{live} {checked:?}");
}

#[test]
fn a_mounted_ext4_file_system_comes_back() {
    a_mounted_file_system_comes_back(&EXT4);
}

#[test]
fn a_mounted_xfs_file_system_comes_back() {
    a_mounted_file_system_comes_back(&XFS);
}

/// The kernel does not know a mounted btrfs file system by the number of its device. An image of it
/// was without what only the memory had, and was called unchanged.
#[test]
fn a_mounted_btrfs_file_system_comes_back() {
    a_mounted_file_system_comes_back(&BTRFS);
}

#[test]
fn disks_of_the_same_and_of_a_larger_size_become_what_the_image_is() {
    let scene = Scene::new();
    let Some((file, device)) = disk(&scene, "disk", &XFS) else { return };
    let there = super::fill(&scene, &device.0);
    let name = device.0.to_str().unwrap();
    let check = |target: &Path, code: i32| {
        let against = ["verify", "--against", target.to_str().unwrap()];
        image(&scene, &against, &device.0).expect(&[code]).json()
    };
    super::back_up(&scene, &device.0);
    for (size, bytes) in [("same", DISK_BYTES), ("larger", DISK_BYTES + 7 * MIB)] {
        let (target_file, target) = noisy(&scene, size, bytes);
        check(&target.0, 4);
        restore(&scene, &device.0, &target.0, &["--confirm"]).expect(&[0]);
        assert_eq!(check(&target.0, 0)["different_bytes"], 0);
        assert_eq!(target_file.metadata().unwrap().len(), bytes);
        assert!(run_tool(XFS.check, &target.0), "{size}");
        let restored = Mount::at(&target.0, scene.scratch.folder("restored"), "defaults");
        assert_same(&there, &manifest(&restored.0));
        drop(restored);
        // The rest of a larger disk is left alone.
        let tail = 7 << 20;
        if bytes > DISK_BYTES {
            let mut found = vec![0; tail];
            let target = File::open(&target_file).unwrap();
            target.read_exact_at(&mut found, DISK_BYTES).unwrap();
            let expected = noise(9, usize::try_from(bytes).unwrap());
            assert!(found == expected[expected.len() - tail..]);
        }
    }
    // An image of all blocks restores all blocks, those that nobody uses too.
    let words = ["image", "backup", name, "--all-blocks"];
    scene.node.run(&words).expect(&[0]);
    let (target_file, target) = noisy(&scene, "exact", DISK_BYTES);
    restore(&scene, &device.0, &target.0, &["--confirm"]).expect(&[0]);
    drop(target);
    assert!(are_same(&file, &target_file));
}

/// Partitions of a loop device whose nodes in `/dev` may have to be made.
struct Partitions {
    disk: PathBuf,
    nodes: Vec<PathBuf>,
    /// Nodes that this test has made.
    made: Vec<PathBuf>,
}

impl Partitions {
    /// Looks at the table on `device`. `None`, with a message, if the kernel finds no partitions.
    fn of(device: &Path, count: usize) -> Option<Self> {
        let name = device.file_name().unwrap().to_str().unwrap();
        // Some kernels know no tables; then partx tells them.
        drop(Command::new("partx").arg("-a").arg(device).output());
        let mut found = Self { disk: device.to_owned(), nodes: Vec::new(), made: Vec::new() };
        for number in 1..=count {
            let node = PathBuf::from(format!("/dev/{name}p{number}"));
            let numbers = fs::read_to_string(format!("/sys/class/block/{name}p{number}/dev"));
            let Some((major, minor)) =
                numbers.as_deref().ok().and_then(|both| both.trim().split_once(':'))
            else {
                e2e::skip::say("the kernel finds no partitions on loop devices");
                return None;
            };
            if !node.try_exists().unwrap() {
                let words = [node.to_str().unwrap(), "b", major, minor];
                let made = Command::new("mknod").args(words).output().unwrap();
                if !made.status.success() {
                    e2e::skip::say("no nodes of partitions can be made here");
                    return None;
                }
                found.made.push(node.clone());
            }
            found.nodes.push(node);
        }
        Some(found)
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        drop(Command::new("partx").arg("-d").arg(&self.disk).output());
        self.made.iter().for_each(|node| drop(fs::remove_file(node)));
    }
}

/// First byte of the second partition.
const SECOND: u64 = 200 * MIB;
const TABLE_BYTES: usize = 1 << 20;

/// Writes a master boot record with two partitions, after code that boots.
fn write_mbr(disk: &Path) -> bool {
    let file = File::options().write(true).open(disk).unwrap();
    // Source: the layout of a master boot record: status, start, type, end, first sector, sectors.
    let entry = |kind: u8, start: u64, end: u64| {
        let sectors = |bytes: u64| u32::try_from(bytes / 512).unwrap().to_le_bytes();
        [&[0, 0, 0, 0, kind, 0, 0, 0][..], &sectors(start), &sectors(end - start)].concat()
    };
    let first = entry(0x83, MIB, SECOND);
    let second = entry(0x82, SECOND, DISK_BYTES - MIB);
    let head = [&noise(5, 446)[..], &first, &second, &[0; 32], &[0x55, 0xaa]].concat();
    file.write_all_at(&head, 0).unwrap();
    // A boot loader follows the table.
    file.write_all_at(&noise(6, 300_000), 512).unwrap();
    true
}

fn write_gpt(disk: &Path) -> bool {
    let first = format!("1:{}:{}", MIB / 512, SECOND / 512 - 1);
    let second = format!("2:{}:{}", SECOND / 512, (DISK_BYTES - MIB) / 512 - 1);
    let words = ["sgdisk", "-a", "1", "-n", &first, "-t", "1:8300", "-n", &second, "-t", "2:8200"];
    let made = run_tool(&words, disk);
    if !made {
        e2e::skip::say("no sgdisk");
    }
    made
}

fn a_disk_with_partitions_comes_back(table: fn(&Path) -> bool, holds: &str) {
    let scene = Scene::new();
    let nothing = Kind { mkfs: &["true"], check: &[] };
    let Some((file, device)) = disk(&scene, "whole", &nothing) else { return };
    drop(device);
    if !table(&file) {
        return;
    }
    let device = Loop::of(&file).unwrap();
    let Some(partitions) = Partitions::of(&device.0, 2) else { return };
    let [system, swap] = &partitions.nodes[..] else { panic!("two partitions") };
    assert!(run_tool(EXT4.mkfs, system) && run_tool(&["mkswap", "-q"], swap));
    let mount = Mount::at(system, scene.scratch.folder("mounted"), "defaults");
    plant(&mount.0);
    let there = manifest(&mount.0);
    let content = File::options().write(true).open(&file).unwrap();
    content.write_all_at(&noise(7, 20 << 20), SECOND + 10 * MIB).unwrap();
    // A disk may change while one of its partitions is mounted.
    let live = image(&scene, &["backup"], &device.0).expect(&[0, 8]);
    let live = live.says("may change while it is read").json();
    drop(mount);
    let idle = super::back_up(&scene, &device.0);
    for report in [&live, &idle] {
        assert!(report["data_bytes"].as_u64().unwrap() < 60 * MIB, "{report}");
        assert_eq!(report["holds"], holds);
    }
    restore(&scene, &device.0, &device.0, &[])
        .expect(&[12])
        .says(&format!("holds {holds}; partition 1 holds the ext4 file system"))
        .says("partition 2 holds swap space");
    let (target_file, target) = noisy(&scene, "target", DISK_BYTES);
    restore(&scene, &device.0, &target.0, &["--confirm"]).expect(&[0]);
    let [before, after] = [&file, &target_file].map(|file| fs::read(file).unwrap());
    assert!(before[..TABLE_BYTES] == after[..TABLE_BYTES], "table and boot area");
    assert!(before[before.len() - TABLE_BYTES..] == after[after.len() - TABLE_BYTES..]);
    let second = usize::try_from(SECOND).unwrap();
    assert!(before[second..second + 4096] == after[second..second + 4096], "head of the swap");
    let restored = Partitions::of(&target.0, 2).expect("the table is there");
    assert!(run_tool(EXT4.check, &restored.nodes[0]));
    let mount = Mount::at(&restored.nodes[0], scene.scratch.folder("restored"), "ro");
    assert_same(&there, &manifest(&mount.0));
}

#[test]
fn a_disk_with_a_boot_record_comes_back_with_its_partitions() {
    a_disk_with_partitions_comes_back(write_mbr, "a table of partitions (dos)");
}

#[test]
fn a_disk_with_a_gpt_comes_back_with_its_partitions() {
    a_disk_with_partitions_comes_back(write_gpt, "a table of partitions (gpt)");
}

/// The kernel opens no file system whose journal has to be replayed if nothing may be written.
#[test]
fn a_disk_after_a_crash_is_read_whole() {
    for kind in [&EXT4, &XFS] {
        let scene = Scene::new();
        let Some((file, device)) = disk(&scene, "disk", kind) else { return };
        let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "defaults");
        plant(&mount.0);
        let there = manifest(&mount.0);
        assert!(run_tool(&["sync", "-f"], &mount.0));
        // The medium as a power cut would leave it.
        let crashed = scene.scratch.join("crashed");
        assert!(run_tool(&["cp", "--sparse=always", file.to_str().unwrap()], &crashed));
        drop(mount);
        drop(device);
        fs::remove_file(&file).unwrap();
        let device = Loop::of(&crashed).unwrap();
        let report = super::back_up(&scene, &device.0);
        assert_eq!(report["state"], "unchanged");
        let out = scene.scratch.join("out");
        restore(&scene, &device.0, &out, &[]).expect(&[0]);
        assert!(are_same(&crashed, &out), "nothing was replayed, and nothing left out");
        drop(device);
        let restored = Loop::of(&out).unwrap();
        let mount = Mount::at(&restored.0, scene.scratch.folder("restored"), "defaults");
        assert_same(&there, &manifest(&mount.0));
    }
}

/// Writes the same number at the beginning and at the end of `disk`, again and again.
fn count_at_both_ends(disk: &Path, stop: &AtomicBool) {
    let file = File::options().write(true).open(disk).unwrap();
    let end = file.metadata().unwrap().len() - 8;
    for number in 1_u64.. {
        if stop.load(Relaxed) {
            break;
        }
        file.write_all_at(&number.to_le_bytes(), 0).unwrap();
        file.write_all_at(&number.to_le_bytes(), end).unwrap();
    }
}

#[test]
fn a_disk_file_that_never_rests_is_held_by_a_reflink() {
    let scene = Scene::new();
    if !root_or_skip("an XFS file system") {
        return;
    }
    let (file, folder) = (scene.scratch.join("xfs"), scene.scratch.join("mounted"));
    let mkfs = ["mkfs.xfs", "-q", "-m", "reflink=1"];
    let Some(mounted) = Image::mount(&file, DISK_BYTES, &mkfs, &folder) else {
        return e2e::skip::say("this machine cannot mount an XFS file system");
    };
    let disk = mounted.path().join("disk");
    fs::write(&disk, noise(3, 40 << 20)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ended = StopGuard(&stop);
        threads.spawn(|| count_at_both_ends(&disk, &stop));
        let live = image(&scene, &["backup", "--snapshot", "off"], &disk).expect(&[8]);
        assert_eq!(live.json()["state"], "fuzzy");
        for how in ["reflink", "auto"] {
            let held = image(&scene, &["backup", "--snapshot", how], &disk).expect(&[0]);
            assert_eq!(held.json()["state"], "snapshot");
            assert!(held.messages().is_empty(), "{held}");
            let out = scene.scratch.join(how);
            restore(&scene, &disk, &out, &[]).expect(&[0]);
            let content = fs::read(&out).unwrap();
            let number = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
            let (first, second) = (number(0), number(content.len() - 8));
            assert!(first == second || first == second + 1, "{first} {second}");
        }
    });
    assert_eq!(names(mounted.path()), [b"disk"]);
    image(&scene, &["backup", "--snapshot", "lvm"], &disk)
        .expect(&[12])
        .says("only logical volumes");
}

#[test]
fn a_user_makes_an_image_of_a_file_of_their_own() {
    let scene = Scene::new();
    if !root_or_skip("a client of another user") {
        return;
    }
    let user = Node::enrol_as(&scene.server, "carl", Some(12_345));
    let folder = scene.scratch.folder("open");
    let disk = folder.join("disk");
    fs::write(&disk, noise(3, 3_000_000)).unwrap();
    for path in [scene.scratch.path(), &folder, &disk] {
        std::os::unix::fs::chown(path, Some(12_345), Some(12_345)).unwrap();
    }
    let path = disk.to_str().unwrap();
    user.run(&["image", "backup", path, "--json"]).expect(&[0]);
    let out = folder.join("out");
    user.run(&["image", "restore", path, out.to_str().unwrap()]).expect(&[0]);
    assert!(are_same(&disk, &out));
    std::os::unix::fs::chown(&disk, Some(0), Some(0)).unwrap();
    fs::set_permissions(&disk, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    user.run(&["image", "backup", path]).expect(&[12]).says("Permission denied");
}

/// A boot loader may lie before the first block of a file system, and anything after the last.
#[test]
fn what_lies_around_a_file_system_is_kept() {
    let scene = Scene::new();
    let nothing = Kind { mkfs: &["true"], check: &[] };
    let Some((file, device)) = disk(&scene, "disk", &nothing) else { return };
    drop(device);
    let content = File::options().write(true).open(&file).unwrap();
    content.set_len(200 * MIB).unwrap();
    assert!(run_tool(&["mkfs.ext4", "-q", "-F", "-b", "1024"], &file));
    content.set_len(DISK_BYTES).unwrap();
    let (boot, tail) = (noise(5, 1024), noise(6, 3 << 20));
    content.write_all_at(&boot, 0).unwrap();
    content.write_all_at(&tail, DISK_BYTES - (3 << 20)).unwrap();
    let device = Loop::of(&file).unwrap();
    let there = super::fill(&scene, &device.0);
    let report = super::back_up(&scene, &device.0);
    assert!(report["data_bytes"].as_u64().unwrap() < 60 * MIB, "{report}");
    let out = scene.scratch.join("out");
    restore(&scene, &device.0, &out, &[]).expect(&[0]);
    let restored = fs::read(&out).unwrap();
    assert!(restored[..1024] == boot && restored[restored.len() - (3 << 20)..] == tail);
    assert!(run_tool(EXT4.check, &out));
    drop(device);
    let device = Loop::of(&out).unwrap();
    let mount = Mount::at(&device.0, scene.scratch.folder("restored"), "ro");
    assert_same(&there, &manifest(&mount.0));
}

/// The image of the device that the table of mounts names had a half of the data.
#[test]
fn a_file_system_on_several_devices_is_not_taken_for_one_of_them() {
    let scene = Scene::new();
    let nothing = Kind { mkfs: &["true"], check: &[] };
    let Some((_, first)) = disk(&scene, "first", &nothing) else { return };
    let Some((_, second)) = disk(&scene, "second", &nothing) else { return };
    let [first_path, second_path] = [&first, &second].map(|device| device.0.to_str().unwrap());
    if !run_tool(&["mkfs.btrfs", "-q", "-d", "raid0", first_path], &second.0) {
        return e2e::skip::say("mkfs.btrfs does not work here");
    }
    let options = format!("device={second_path}");
    let mount = Mount::at(&first.0, scene.scratch.folder("mounted"), &options);
    image(&scene, &["backup"], &mount.0)
        .expect(&[12])
        .says("several devices")
        .says(first_path)
        .says(second_path);
}
