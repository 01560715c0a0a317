//! Images of disks: what comes back is what was there, and nothing is overwritten by mistake.

mod disks;
mod guards;
mod history;
mod interruptions;
mod lives;
mod volumes;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::harness::{Outcome, is_root};
use e2e::manifest::assert_same;
use e2e::nasty::{self, Random};
use rustix::process::Signal;
use serde_json::Value;

use crate::damage::{files_below, find_stored, flip};
use crate::fleet::eventually;
use crate::scene::{Scene, manifest};

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 320 * MIB;
const WAIT: Duration = Duration::from_secs(180);

/// File system that images are made of.
struct Kind {
    mkfs: &'static [&'static str],
    /// Command that finds faults and changes nothing.
    check: &'static [&'static str],
}

const EXT4: Kind = Kind { mkfs: &["mkfs.ext4", "-q", "-F"], check: &["e2fsck", "-fn"] };
const XFS: Kind = Kind { mkfs: &["mkfs.xfs", "-q"], check: &["xfs_repair", "-n"] };
const BTRFS: Kind = Kind { mkfs: &["mkfs.btrfs", "-q"], check: &["btrfs", "check", "--readonly"] };

/// Loop device, until it is dropped.
struct Loop(PathBuf);

impl Loop {
    fn of(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Self(path.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").arg("-d").arg(&self.0).status());
    }
}

/// Mount, until it is dropped.
struct Mount(PathBuf);

impl Mount {
    fn at(device: &Path, folder: PathBuf, options: &str) -> Self {
        let status = Command::new("mount").args(["-o", options]).arg(device).arg(&folder).status();
        assert!(status.unwrap().success(), "{} is not mounted", device.display());
        Self(folder)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Another process may hold the file system for a moment.
        let is_unmounted = || {
            Command::new("umount")
                .arg(&self.0)
                .status()
                .is_ok_and(|status| status.success())
        };
        for _ in 0..1500 {
            if is_unmounted() {
                return;
            }
            e2e::clock::pause(Duration::from_millis(20));
        }
    }
}

fn run_tool(words: &[&str], path: &Path) -> bool {
    let status = Command::new(words[0]).args(&words[1..]).arg(path).output();
    status.is_ok_and(|output| output.status.success())
}

/// Makes a disk with a file system; `None`, with a message, if this machine cannot do that.
fn disk(scene: &Scene, name: &str, kind: &Kind) -> Option<(PathBuf, Loop)> {
    if !is_root() {
        e2e::skip::say("no root: there are no loop devices");
        return None;
    }
    let file = scene.scratch.join(name);
    File::create(&file).unwrap().set_len(DISK_BYTES).unwrap();
    let made = run_tool(kind.mkfs, &file).then(|| Loop::of(&file)).flatten();
    if made.is_none() {
        e2e::skip::say(&format!("{} or a loop device does not work here", kind.mkfs[0]));
    }
    made.map(|device| (file, device))
}

fn image(scene: &Scene, words: &[&str], path: &Path) -> Outcome {
    let words = [&["image"], words, &["--json"]].concat();
    let mut arguments: Vec<&std::ffi::OsStr> = words.iter().map(std::ffi::OsStr::new).collect();
    arguments.push(path.as_os_str());
    scene.node.run(&arguments)
}

/// Writes a disk of `bytes` bytes, and backs it up.
fn backed_up(scene: &Scene, bytes: usize) -> PathBuf {
    let disk = scene.scratch.join("disk");
    fs::write(&disk, noise(1, bytes)).unwrap();
    back_up(scene, &disk);
    disk
}

fn back_up(scene: &Scene, path: &Path) -> Value {
    image(scene, &["backup"], path).expect(&[0]).json()
}

fn restore(scene: &Scene, name: &Path, target: &Path, options: &[&str]) -> Outcome {
    let words = ["image", "restore", name.to_str().unwrap(), target.to_str().unwrap()];
    scene.node.run(&[&words[..], options].concat())
}

/// Returns true if two files have the same content.
fn are_same(a: &Path, b: &Path) -> bool {
    run_tool(&["cmp", "-s", a.to_str().unwrap()], b)
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    Random::new(seed, b"image").bytes(bytes)
}

/// Mounts `device`, fills it with files of every kind, and deletes some. Returns what is there.
fn fill(scene: &Scene, device: &Path) -> e2e::manifest::Manifest {
    let mount = Mount::at(device, scene.scratch.folder("mounted"), "defaults");
    plant(&mount.0);
    manifest(&mount.0)
}

/// Fills a mounted file system with files of every kind, and deletes some.
fn plant(folder: &Path) {
    let tree = folder.join("tree");
    fs::create_dir(&tree).unwrap();
    nasty::plant(&tree, 3).unwrap();
    fs::write(folder.join("noise"), noise(1, 20 << 20)).unwrap();
    fs::write(folder.join("gone"), noise(2, 60 << 20)).unwrap();
    assert!(Command::new("sync").arg("-f").arg(folder).status().unwrap().success());
    fs::remove_file(folder.join("gone")).unwrap();
}

fn a_file_system_comes_back(kind: &Kind) {
    let scene = Scene::new();
    let Some((file, device)) = disk(&scene, "disk", kind) else { return };
    let there = fill(&scene, &device.0);
    let report = back_up(&scene, &device.0);
    assert_eq!((&report["state"], &report["bytes"]), (&"unchanged".into(), &DISK_BYTES.into()));
    let copy = scene.scratch.join("copy");
    restore(&scene, &device.0, &copy, &[]).expect(&[0]);
    assert!(run_tool(kind.check, &copy), "the restored file system has faults");
    image(&scene, &["verify", "--against", file.to_str().unwrap()], &device.0).expect(&[0]);
    // btrfs refuses a copy beside its original.
    drop(device);
    fs::remove_file(&file).unwrap();
    let copy = Loop::of(&copy).unwrap();
    let restored = Mount::at(&copy.0, scene.scratch.folder("restored"), "ro");
    assert_same(&there, &manifest(&restored.0));
}

#[test]
fn an_ext4_disk_comes_back() {
    a_file_system_comes_back(&EXT4);
}

#[test]
fn an_xfs_disk_comes_back() {
    a_file_system_comes_back(&XFS);
}

#[test]
fn a_btrfs_disk_comes_back() {
    a_file_system_comes_back(&BTRFS);
}

#[test]
fn blocks_that_nobody_uses_are_not_read() {
    for kind in [&EXT4, &XFS] {
        let scene = Scene::new();
        let Some((_, device)) = disk(&scene, "disk", kind) else { return };
        fill(&scene, &device.0);
        let idle = back_up(&scene, &device.0)["data_bytes"].as_u64().unwrap();
        let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "defaults");
        // A mounted file system may change, but nobody writes to this one.
        let live = image(&scene, &["backup"], &device.0).expect(&[0, 8]).json();
        drop(mount);
        let all = image(&scene, &["backup", "--all-blocks"], &device.0).expect(&[0]).json();
        let all = all["data_bytes"].as_u64().unwrap();
        assert!(idle < 60 * MIB && all > idle + 50 * MIB, "{}: {idle} {all}", kind.mkfs[0]);
        assert!(live["data_bytes"].as_u64().unwrap() < 60 * MIB, "{live}");
    }
}

#[test]
fn only_a_snapshot_of_lvm_can_be_kept() {
    let scene = Scene::new();
    let file = scene.scratch.join("disk");
    fs::write(&file, noise(1, 300_000)).unwrap();
    for how in ["off", "reflink"] {
        let words = ["backup", "--keep-snapshot", "--snapshot", how];
        image(&scene, &words, &file).expect(&[12]).says("needs a snapshot of LVM");
    }
    let made = image(&scene, &["backup", "--keep-snapshot"], &file).expect(&[0]);
    let made = made.says("leaves no snapshot").json();
    assert_eq!(made["bytes_before_dedup"], 300_000, "a file is read as always");
}

#[test]
fn of_swap_space_only_the_head_is_kept() {
    let scene = Scene::new();
    let kind = Kind { mkfs: &["mkswap", "-q"], check: &[] };
    let Some((file, device)) = disk(&scene, "swap", &kind) else { return };
    let content = File::options().write(true).open(&file).unwrap();
    content.write_all_at(&noise(1, 1 << 20), 10 * MIB).unwrap();
    let report = back_up(&scene, &device.0);
    assert!(report["data_bytes"].as_u64().unwrap() <= 128 << 10, "{report}");
    assert_eq!(report["holds"], "swap space");
}

#[test]
fn the_next_image_sends_what_has_changed_and_the_older_one_stays() {
    let scene = Scene::new();
    // A name of any bytes, and a size that is no multiple of a sector.
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"disk \xff\n.img");
    let disk = scene.scratch.path().join(name);
    let mut content = noise(1, (70 << 20) + 333);
    content[30 << 20..50 << 20].fill(0);
    fs::write(&disk, &content).unwrap();
    let first = back_up(&scene, &disk);
    assert_eq!((first["parts"].as_u64(), first["changed_parts"].as_u64()), (Some(2), Some(2)));
    let between = image(&scene, &["list"], &disk).expect(&[0]).json()["taken"].clone();
    let between = between.as_str().unwrap().to_owned();
    let mut changed = content.clone();
    changed[5_000_000..5_000_100].fill(7);
    fs::write(&disk, &changed).unwrap();
    let second = back_up(&scene, &disk);
    assert_eq!(second["changed_parts"], 1);
    assert!(second["bytes_after_dedup"].as_u64().unwrap() <= 256 << 10, "{second}");
    assert_eq!(back_up(&scene, &disk)["changed_parts"], 0);
    // The disk shrinks, and grows again.
    fs::write(&disk, &changed[..1000]).unwrap();
    assert_eq!(back_up(&scene, &disk)["parts"], 1);
    let out = scene.scratch.join("out");
    let back = |options: &[&str]| {
        let words = ["image", "restore"].map(std::ffi::OsStr::new);
        let paths = [disk.as_os_str(), out.as_os_str(), std::ffi::OsStr::new("--confirm")];
        let options = options.iter().map(std::ffi::OsStr::new);
        let arguments: Vec<_> = words.into_iter().chain(paths).chain(options).collect();
        scene.node.run(&arguments).expect(&[0]);
        fs::read(&out).unwrap()
    };
    assert!(back(&[]) == changed[..1000]);
    // The older image is larger than the file.
    fs::remove_file(&out).unwrap();
    assert!(back(&["--at", &between]) == content);
    let listed = image(&scene, &["list"], &disk).expect(&[0]).json_lines();
    assert_eq!(listed.len(), 4);
    // The policy decides how long the older images stay.
    scene.keep_only_active();
    scene.server.admin(&["expire"]);
    scene.server.admin(&["reclaim"]);
    let listed = image(&scene, &["list"], &disk).expect(&[0]).json_lines();
    assert_eq!(listed.len(), 1);
    assert!(back(&[]) == changed[..1000]);
    // Images are no files of the node.
    scene.node.verify().expect(&[0]);
}

#[test]
fn an_image_that_gets_another_class_keeps_all_its_parts() {
    let scene = Scene::new();
    let admin = |words: &[&str]| scene.server.admin(words);
    admin(&["policy", "class", "SHORT", "--retextra", "0"]);
    admin(&["policy", "class", "LONG", "--retextra", "90"]);
    admin(&["policy", "activate"]);
    let disk = scene.scratch.join("disk");
    let list = scene.node.home().join("inclexcl");
    let bind = |class: &str| {
        fs::write(&list, format!("include {} {class}\n", disk.display())).unwrap();
    };
    let mut content = noise(1, 150 << 20);
    for (class, changed) in [("SHORT", 0_usize), ("SHORT", 1), ("LONG", 70 << 20)] {
        bind(class);
        content[changed] ^= 1;
        fs::write(&disk, &content).unwrap();
        back_up(&scene, &disk);
    }
    admin(&["expire"]);
    let listed = image(&scene, &["list"], &disk).expect(&[0]).json_lines();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert_eq!(listed[0]["class"], "LONG");
    for listed in &listed {
        let at = listed["taken"].as_str().unwrap();
        image(&scene, &["verify", "--at", at], &disk).expect(&[0]);
    }
}

/// Waits until the server has so many bytes.
fn wait_for_bytes(scene: &Scene, bytes: u64) {
    for _ in 0..3600 {
        let files = files_below(scene.server.dir());
        let there: u64 = files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        if there >= bytes {
            return;
        }
        e2e::clock::pause(Duration::from_millis(50));
    }
    panic!("nothing arrives");
}

#[test]
fn an_interrupted_image_is_none_and_goes_on() {
    let mut scene = Scene::new();
    let disk = scene.scratch.join("disk");
    fs::write(&disk, noise(1, 96 << 20)).unwrap();
    let path = disk.to_str().unwrap();
    for (signal, bytes) in [(Signal::KILL, 8 << 20), (Signal::INT, 12 << 20)] {
        // On a busy machine the signal comes late, but not after all was read.
        let process = scene.node.spawn(&["image", "backup", path, "--rate", "2M"]);
        wait_for_bytes(&scene, bytes);
        process.signal(signal);
        let ended = process.wait_within(WAIT);
        let listed = scene.node.run(&["image", "list", "--json"]).expect(&[0]);
        assert_eq!(listed.json_lines().len(), 0, "after {signal:?}: {ended}; {listed}");
    }
    // A server that dies in the middle takes nothing with it.
    let process = scene.node.spawn(&["image", "backup", path, "--rate", "4M"]);
    wait_for_bytes(&scene, 16 << 20);
    // A transaction ends after two seconds.
    e2e::clock::pause(Duration::from_secs(3));
    scene.server.kill9();
    process.wait_within(WAIT).expect(&[12]);
    scene.server.restart();
    let report = back_up(&scene, &disk);
    let sent = report["bytes_after_dedup"].as_u64().unwrap();
    assert!(sent < 96 * MIB, "what was sent is not sent again: {sent}");
    let out = scene.scratch.join("out");
    restore(&scene, &disk, &out, &[]).expect(&[0]);
    assert!(are_same(&disk, &out));
    // A restore that is killed leaves no file under the name.
    let target = scene.scratch.join("killed");
    let process = scene.node.spawn(&["image", "restore", path, target.to_str().unwrap()]);
    process.kill9();
    assert!(!target.try_exists().unwrap());
}

#[test]
fn a_target_is_overwritten_only_if_that_is_meant() {
    let scene = Scene::new();
    let Some((_, device)) = disk(&scene, "disk", &EXT4) else { return };
    let Some((other_file, other)) = disk(&scene, "other", &XFS) else { return };
    back_up(&scene, &device.0);
    let folder = scene.scratch.folder("mounted");
    let mount = Mount::at(&other.0, folder.clone(), "ro");
    let refused = restore(&scene, &device.0, &other.0, &["--confirm"]).expect(&[12]);
    refused.says("is in use");
    drop(mount);
    let before = fs::read(&other_file).unwrap();
    let refused = restore(&scene, &device.0, &other.0, &[]).expect(&[12]);
    refused.says("the xfs file system").says("--confirm");
    let small = scene.scratch.join("small");
    File::create(&small).unwrap().set_len(100 * MIB).unwrap();
    let small = Loop::of(&small).unwrap();
    restore(&scene, &device.0, &small.0, &["--confirm"])
        .expect(&[12])
        .says("has 104857600 bytes");
    restore(&scene, &device.0, &folder, &["--confirm"]).expect(&[12]);
    restore(&scene, Path::new("/dev/none"), &other.0, &["--confirm"])
        .expect(&[12])
        .says("image list");
    assert!(fs::read(&other_file).unwrap() == before, "nothing was written");
    restore(&scene, &device.0, &other.0, &["--confirm"]).expect(&[0]);
    assert!(run_tool(EXT4.check, &other_file));
}

#[test]
fn what_has_no_image_is_refused_and_the_others_are_made() {
    let scene = Scene::new();
    for path in ["/dev/null", "/proc", "/nowhere", scene.tree.to_str().unwrap()] {
        image(&scene, &["backup"], Path::new(path)).expect(&[12]).says(path);
    }
    let disk = scene.scratch.join("disk");
    fs::write(&disk, noise(1, 3 << 20)).unwrap();
    let arguments = ["image", "backup", "/nowhere", disk.to_str().unwrap()];
    scene.node.run(&arguments).expect(&[12]).says("/nowhere");
    let state = scene.scratch.join("state");
    let note = |word: &str| format!("echo {word} >> {}", state.display());
    let freeze = ["backup", "--snapshot", "off", "--freeze", &note("on"), "--thaw", &note("off")];
    let report = image(&scene, &freeze, &disk).expect(&[0]).json();
    assert_eq!(report["state"], "frozen");
    assert_eq!(fs::read_to_string(&state).unwrap(), "on\noff\n");
    // Without --freeze, nothing was held still.
    let only_after = ["backup", "--snapshot", "off", "--thaw", &note("after")];
    let report = image(&scene, &only_after, &disk).expect(&[0]).json();
    assert_ne!(report["state"], "frozen");
    assert_eq!(fs::read_to_string(&state).unwrap(), "on\noff\nafter\n");
    image(&scene, &["backup", "--freeze", "exit 3"], &disk)
        .expect(&[12])
        .says("exit 3");
    assert_eq!(image(&scene, &["list"], &disk).expect(&[0]).json_lines().len(), 3);
}

/// A damaged chunk cost the whole part that it was in, and a device kept there what it had before.
#[test]
fn damage_at_the_server_costs_only_its_range() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::new();
    let disk = scene.scratch.join("disk");
    let content = noise(1, 200 << 20);
    fs::write(&disk, &content).unwrap();
    back_up(&scene, &disk);
    scene.server.terminate().expect(&[0]);
    let (pack, offset) = find_stored(scene.server.dir(), &content[100 << 20..101 << 20]);
    flip(&pack, offset, 16);
    scene.server.restart();
    let verify = image(&scene, &["verify"], &disk).expect(&[4]).json();
    let lost = verify["lost"].as_array().unwrap();
    let [from, bytes] = ["offset", "bytes"].map(|key| lost[0][key].as_u64().unwrap());
    let end = from + bytes;
    // All chunks of a damaged quantum are lost.
    let is_there = (from..end).contains(&((100 << 20) + (1 << 19))) && bytes <= 4 * MIB;
    assert!(lost.len() == 1 && is_there, "{verify}");
    let out = scene.scratch.join("out");
    let restored = restore(&scene, &disk, &out, &["--json"]).expect(&[4]).json();
    assert_eq!(restored["lost"], verify["lost"]);
    let mut expected = content;
    expected[usize::try_from(from).unwrap()..usize::try_from(end).unwrap()].fill(0);
    assert!(fs::read(&out).unwrap() == expected);
    if is_root() {
        let file = scene.scratch.join("device");
        fs::write(&file, noise(2, 200 << 20)).unwrap();
        let Some(device) = Loop::of(&file) else { return };
        restore(&scene, &disk, &device.0, &["--confirm"]).expect(&[4]);
        drop(device);
        assert!(fs::read(&file).unwrap() == expected);
    }
}

#[test]
fn files_come_out_of_an_image_as_they_were() {
    let scene = Scene::new();
    let Some((_, device)) = disk(&scene, "disk", &EXT4) else { return };
    if File::open("/dev/fuse").is_err() {
        return e2e::skip::say("no /dev/fuse: no image can be looked into");
    }
    let there = fill(&scene, &device.0);
    back_up(&scene, &device.0);
    let name = device.0.to_str().unwrap();
    let listed = scene.node.run(&["image", "files", name, "/", "--recursive", "--json"]);
    let listed = listed.expect(&[0]);
    // All but the root.
    assert_eq!(listed.json_lines().len() as u64 + 1, there.len());
    let out = scene.scratch.folder("out");
    let to = out.to_str().unwrap();
    let one = ["image", "extract", name, "/noise", "--to", to, "--json"];
    let report = scene.node.run(&one).expect(&[0]).json();
    assert!(report["bytes_transferred"].as_u64().unwrap() < 30 * MIB, "{report}");
    assert!(fs::read(out.join("noise")).unwrap() == noise(1, 20 << 20));
    let tree = ["image", "extract", name, "/tree", "--to", to, "--progress"];
    scene.node.run(&tree).expect(&[0]).says("received");
    let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "ro");
    assert_same(&manifest(&mount.0.join("tree")), &manifest(&out.join("tree")));
    drop(mount);
    scene.node.run(&one).expect(&[4]);
    scene.node.run(&["image", "extract", name, "/none", "--to", to]).expect(&[4]);
    scene.node.run(&["image", "files", name, "/", "--partition", "1"]).expect(&[12]);
    // Nothing stays behind. Another test may look into an image at the same time.
    assert!(eventually(|| {
        let loops = Command::new("losetup").arg("-a").output().unwrap().stdout;
        !String::from_utf8_lossy(&loops).contains("(/disk)")
    }));
}

/// Beside data that does not shrink, a small file cost 2 MiB for each place that the kernel reads.
#[test]
fn a_small_file_costs_little_of_its_image() {
    for kind in [&EXT4, &XFS] {
        let scene = Scene::new();
        let Some((_, device)) = disk(&scene, "disk", kind) else { continue };
        if File::open("/dev/fuse").is_err() {
            return e2e::skip::say("no /dev/fuse: no image can be looked into");
        }
        let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "defaults");
        for number in 0..20 {
            let folder = mount.0.join(format!("folder-{number:02}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("noise"), noise(number, 3 << 20)).unwrap();
            fs::write(folder.join("letter"), format!("letter {number}")).unwrap();
        }
        drop(mount);
        back_up(&scene, &device.0);
        let (name, out) = (device.0.to_str().unwrap(), scene.scratch.folder("out"));
        let to = out.to_str().unwrap();
        let words = ["image", "extract", name, "/folder-10/letter", "--to", to, "--json"];
        let report = scene.node.run(&words).expect(&[0]).json();
        assert_eq!(fs::read_to_string(out.join("letter")).unwrap(), "letter 10");
        let bytes = report["bytes_transferred"].as_u64().unwrap();
        assert!(bytes < 5_000_000, "{}: {report}", kind.mkfs[0]);
    }
}

/// Makes a disk with a table of two partitions: ext4, and noise.
fn partitioned(scene: &Scene) -> Option<PathBuf> {
    let (part, device) = disk(scene, "part", &EXT4)?;
    fill(scene, &device.0);
    drop(device);
    let disk = scene.scratch.join("whole");
    let file = File::create(&disk).unwrap();
    file.set_len(DISK_BYTES + 20 * MIB).unwrap();
    let content = fs::read(&part).unwrap();
    file.write_all_at(&content, MIB).unwrap();
    file.write_all_at(&noise(5, 446), 0).unwrap();
    // Source: the layout of a master boot record: status, start, type, end, first sector, sectors.
    let entry = |start: u64, bytes: u64| {
        let sectors = |bytes: u64| u32::try_from(bytes / 512).unwrap().to_le_bytes();
        [&[0, 0, 0, 0, 0x83, 0, 0, 0][..], &sectors(start), &sectors(bytes)].concat()
    };
    file.write_all_at(&entry(MIB, DISK_BYTES), 446).unwrap();
    file.write_all_at(&entry(MIB + DISK_BYTES, 10 * MIB), 462).unwrap();
    file.write_all_at(&[0x55, 0xaa], 510).unwrap();
    file.write_all_at(&noise(6, 5 << 20), MIB + DISK_BYTES).unwrap();
    Some(disk)
}

#[test]
fn a_whole_disk_comes_back_with_its_table_and_boot_area() {
    let scene = Scene::new();
    let Some(disk) = partitioned(&scene) else { return };
    back_up(&scene, &disk);
    let out = scene.scratch.join("out");
    restore(&scene, &disk, &out, &[]).expect(&[0]);
    assert!(are_same(&disk, &out));
    if File::open("/dev/fuse").is_err() {
        return e2e::skip::say("no /dev/fuse: no image can be looked into");
    }
    let name = disk.to_str().unwrap();
    let refused = scene.node.run(&["image", "files", name]).expect(&[12]);
    refused.says("several partitions").says("--partition");
    let words = ["image", "files", name, "/", "--partition", "1", "--json"];
    let paths = scene.node.run(&words).expect(&[0]).json_lines();
    assert!(paths.iter().any(|file| file["path"] == "/noise"), "{paths:?}");
    let refused = scene.node.run(&["image", "files", name, "/", "--partition", "2"]).expect(&[12]);
    refused.says("nothing that blkid recognises");
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        e2e::skip::say(&format!("no {program}"));
    }
    found
}

#[test]
fn a_qcow2_file_is_imaged_and_its_bitmap_saves_reading() {
    let scene = Scene::new();
    if !has("qemu-img") || !has("qemu-io") || !has("qemu-nbd") {
        return;
    }
    let (raw, disk) = (scene.scratch.join("raw"), scene.scratch.join("disk.qcow2"));
    fs::write(&raw, noise(1, 150 << 20)).unwrap();
    let qemu = |words: &[&str]| {
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        assert!(output.status.success(), "{words:?} {output:?}");
    };
    let (raw_name, name) = (raw.to_str().unwrap(), disk.to_str().unwrap());
    qemu(&["qemu-img", "convert", "-O", "qcow2", raw_name, name]);
    assert_eq!(back_up(&scene, &disk)["bytes"], 150 * MIB);
    qemu(&["qemu-img", "bitmap", "--add", name, "since"]);
    qemu(&["qemu-io", "-c", "write -P 7 100M 64k", name]);
    let second = image(&scene, &["backup", "--bitmap", "since"], &disk).expect(&[0]).json();
    assert_eq!((&second["changed_parts"], &second["state"]), (&1.into(), &"unchanged".into()));
    let same = image(&scene, &["verify", "--against", name], &disk).expect(&[0]).json();
    assert_eq!(same["different_bytes"], 0);
    qemu(&["qemu-img", "convert", "-O", "raw", name, raw_name]);
    let out = scene.scratch.join("out");
    restore(&scene, &disk, &out, &[]).expect(&[0]);
    assert!(are_same(&raw, &out));
    image(&scene, &["backup", "--bitmap", "none"], &disk).expect(&[12]).says("none");
}

/// Waits for the socket of a server of network block devices.
fn wait_for_socket(socket: &Path) {
    let is_there = (0..1200).any(|_| {
        e2e::clock::pause(Duration::from_millis(50));
        socket.try_exists().unwrap()
    });
    assert!(is_there, "the server listens");
}

/// `qemu-nbd` lets the second client wait until the first one has gone, which was an error.
#[test]
fn an_export_for_one_client_at_a_time_is_imaged() {
    let scene = Scene::new();
    if !has("qemu-nbd") {
        return;
    }
    let (disk, socket) = (scene.scratch.join("disk"), scene.scratch.join("socket"));
    fs::write(&disk, noise(1, 150 << 20)).unwrap();
    let mut server = Command::new("qemu-nbd")
        .args(["--persistent", "--read-only", "--format", "raw", "--socket"])
        .args([&socket, &disk])
        .spawn()
        .unwrap();
    wait_for_socket(&socket);
    let address = format!("nbd+unix:///?socket={}", socket.display());
    let words = ["image", "backup", &address, "--name", "single", "--json"];
    let outcome = scene.node.run(&words);
    drop(server.kill());
    drop(server.wait());
    outcome.expect(&[0]);
    let out = scene.scratch.join("out");
    restore(&scene, Path::new("single"), &out, &[]).expect(&[0]);
    assert!(are_same(&disk, &out));
}

#[test]
fn errors_of_a_disk_are_named_and_can_be_skipped() {
    let scene = Scene::new();
    if !has("nbdkit") {
        return;
    }
    let content = noise(1, 8 << 20);
    let (disk, socket) = (scene.scratch.join("disk"), scene.scratch.join("socket"));
    fs::write(&disk, &content).unwrap();
    // 8 KiB in the middle of the disk cannot be read.
    let read = format!(
        "if [ $(($4 + $3)) -gt 3145728 ] && [ $4 -lt 3153920 ]; then echo EIO >&2; exit 1; fi; \
         dd if={} skip=$4 count=$3 iflag=skip_bytes,count_bytes status=none",
        disk.display()
    );
    let mut server = Command::new("nbdkit")
        .args(["--foreground", "--exit-with-parent", "--readonly", "-U"])
        .arg(&socket)
        .args(["eval", "get_size=echo 8388608", &format!("pread={read}")])
        .spawn()
        .unwrap();
    wait_for_socket(&socket);
    let address = format!("nbd+unix:///?socket={}", socket.display());
    let words = ["image", "backup", &address, "--name", "bad", "--json"];
    scene.node.run(&words).expect(&[12]).says("at offset 3145728");
    let skipped = scene.node.run(&[&words[..], &["--skip-errors"]].concat()).expect(&[4]).json();
    let unreadable = &skipped["unreadable"];
    let expected = serde_json::json!([{ "offset": 3_145_728, "bytes": 8192 }]);
    assert_eq!(*unreadable, expected);
    drop(server.kill());
    drop(server.wait());
    let out = scene.scratch.join("out");
    restore(&scene, Path::new("bad"), &out, &[])
        .expect(&[0])
        .says("Not readable on the disk, zeros in the image:\n  bytes 3145728 to 3153919");
    let verified = image(&scene, &["verify"], Path::new("bad")).expect(&[0]).json();
    assert_eq!(verified["unreadable"], expected);
    let mut restored = fs::read(&out).unwrap();
    assert_eq!(restored[3_145_728..3_153_920], [0; 8192]);
    restored[3_145_728..3_153_920].copy_from_slice(&content[3_145_728..3_153_920]);
    assert!(restored == content);
    let listed = scene.node.run(&["image", "list", "--json"]).expect(&[0]).json_lines();
    assert_eq!(listed[0]["unreadable"], expected);
}
