//! Images and restores that end in the middle: nothing of them stays, and the next one is whole.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::harness::Tmpfs;
use rustix::process::Signal;

use super::{
    EXT4, Loop, MIB, WAIT, are_same, back_up, backed_up, disk, image, noise, restore, run_tool,
    wait_for_bytes,
};
use crate::damage::{find_stored, flip};
use crate::scene::{Scene, names};

/// Waits until `is_so`.
fn wait_until(reason: &str, is_so: impl Fn() -> bool) {
    for _ in 0..36_000 {
        if is_so() {
            return;
        }
        e2e::clock::pause(Duration::from_millis(5));
    }
    panic!("{reason} does not happen");
}

fn images(scene: &Scene) -> usize {
    scene.node.run(&["image", "list", "--json"]).expect(&[0]).json_lines().len()
}

/// Reads from a slow disk waited until all bytes were allowed, whatever the signal.
#[test]
fn an_interrupt_ends_an_image_that_is_made_slowly() {
    let scene = Scene::new();
    let disk = scene.scratch.join("disk");
    fs::write(&disk, noise(1, 8 << 20)).unwrap();
    let state = scene.scratch.join("state");
    let note = |word: &str| format!("echo {word} >> {}", state.display());
    let (freeze, thaw) = (note("on"), note("off"));
    let path = disk.to_str().unwrap();
    let words = ["image", "backup", path, "--rate", "1K", "--freeze", &freeze, "--thaw", &thaw];
    let process = scene.node.spawn(&words);
    wait_until("freezing", || state.try_exists().unwrap());
    // The disk is read as soon as it is frozen, and the first reads use up the rate of an hour.
    e2e::clock::pause(Duration::from_millis(500));
    process.signal(Signal::INT);
    process
        .wait_within(WAIT)
        .expect(&[12])
        .says("interrupted; there is no new image");
    assert_eq!(fs::read_to_string(&state).unwrap(), "on\noff\n");
    assert_eq!(images(&scene), 0);
    let expected = [&b"disk"[..], b"server", b"server.run", b"source", b"state"];
    assert_eq!(names(scene.scratch.path()), expected);
}

#[test]
fn what_was_frozen_thaws_after_any_failure() {
    let mut scene = Scene::new();
    let disk = scene.scratch.join("disk");
    fs::write(&disk, noise(1, 32 << 20)).unwrap();
    let state = scene.scratch.join("state");
    let note = |word: &str| format!("echo {word} >> {}", state.display());
    let (freeze, thaw) = (note("on"), note("off"));
    let path = disk.to_str().unwrap();
    let words = ["image", "backup", path, "--rate", "8M", "--freeze", &freeze, "--thaw", &thaw];
    let process = scene.node.spawn(&words);
    wait_for_bytes(&scene, 8 << 20);
    scene.server.kill9();
    process.wait_within(WAIT).expect(&[12]);
    assert_eq!(fs::read_to_string(&state).unwrap(), "on\noff\n");
    scene.server.restart();
    // A command that thaws and fails is named, but the image is there.
    let words = ["backup", "--snapshot", "off", "--freeze", "true", "--thaw", "exit 7"];
    let report = image(&scene, &words, &disk).expect(&[8]).says("exit 7").json();
    assert!(report["warnings"].to_string().contains("run it by hand"), "{report}");
    assert_eq!(images(&scene), 1);
    // No command runs for a source that is not there.
    let words = ["backup", "--freeze", &freeze, "--thaw", &thaw];
    image(&scene, &words, Path::new("/nowhere")).expect(&[12]);
    assert_eq!(fs::read_to_string(&state).unwrap(), "on\noff\n");
}

#[test]
fn a_killed_client_leaves_no_device() {
    let scene = Scene::new();
    let Some((_, device)) = disk(&scene, "disk", &EXT4) else { return };
    super::fill(&scene, &device.0);
    let path = device.0.to_str().unwrap();
    let process = scene.node.spawn(&["image", "backup", path, "--rate", "8M"]);
    wait_for_bytes(&scene, 8 << 20);
    process.kill9();
    assert_eq!(images(&scene), 0);
    let loops = Command::new("losetup")
        .args(["--list", "--raw", "-n", "-O", "BACK-FILE"])
        .output();
    let loops = String::from_utf8_lossy(&loops.unwrap().stdout).into_owned();
    assert!(!loops.lines().any(|file| file == path), "{loops}");
    // The next image goes on, and nothing of the first one is missing.
    let report = back_up(&scene, &device.0);
    let sent = report["bytes_after_dedup"].as_u64().unwrap();
    assert!(sent < report["data_bytes"].as_u64().unwrap() - MIB, "{report}");
    image(&scene, &["verify", "--against", path], &device.0).expect(&[0]);
}

/// Returns true if the folder has a file that a restore has not finished.
fn has_unfinished(folder: &Path) -> bool {
    names(folder).iter().any(|name| name.starts_with(b"copy.holdfast-"))
}

#[test]
fn an_interrupted_restore_leaves_no_file_under_the_name() {
    let scene = Scene::new();
    let disk = backed_up(&scene, 128 << 20);
    let folder = scene.scratch.folder("out");
    let copy = folder.join("copy");
    let words = ["image", "restore", disk.to_str().unwrap(), copy.to_str().unwrap()];
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let process = scene.node.spawn(&words);
        // The process may end first on a quick machine.
        wait_until("restoring", || has_unfinished(&folder) || process.ends_within(Duration::ZERO));
        process.signal(signal);
        let outcome = process.wait_within(WAIT);
        let is_whole = copy.try_exists().unwrap();
        assert!(!is_whole || are_same(&disk, &copy), "a restored file is whole: {outcome}");
        if is_whole {
            fs::remove_file(&copy).unwrap();
        }
        if signal != Signal::KILL {
            assert!(is_whole || outcome.code() == 12, "{outcome}");
            assert!(!has_unfinished(&folder), "{outcome}");
        }
    }
    // The file that a killed restore has left hinders nobody, and goes.
    restore(&scene, &disk, &copy, &[]).expect(&[0]);
    assert!(!has_unfinished(&folder));
    assert!(are_same(&disk, &copy));
}

#[test]
fn a_server_that_ends_during_a_restore_is_reported() {
    let mut scene = Scene::new();
    let disk = backed_up(&scene, 128 << 20);
    let folder = scene.scratch.folder("out");
    let copy = folder.join("copy");
    let words = ["image", "restore", disk.to_str().unwrap(), copy.to_str().unwrap()];
    let process = scene.node.spawn(&words);
    wait_until("restoring", || has_unfinished(&folder) || process.ends_within(Duration::ZERO));
    scene.server.kill9();
    let outcome = process.wait_within(WAIT);
    assert!(outcome.code() == 12 || are_same(&disk, &copy), "{outcome}");
    assert!(!has_unfinished(&folder), "{outcome}");
    assert_eq!(copy.try_exists().unwrap(), outcome.code() == 0, "{outcome}");
    scene.server.restart();
    restore(&scene, &disk, &copy, &["--confirm"]).expect(&[0]);
    assert!(are_same(&disk, &copy));
}

/// Mounts a file system of 8 MiB, where the machine can do that.
fn small_tmpfs(scene: &Scene) -> Option<Tmpfs> {
    let mount = Tmpfs::mount(&scene.scratch.join("mount"), "size=8m");
    if mount.is_none() {
        e2e::skip::say("this machine cannot mount a tmpfs");
    }
    mount
}

#[test]
fn a_full_target_is_named_and_nothing_stays() {
    let scene = Scene::new();
    let Some(mount) = small_tmpfs(&scene) else { return };
    let disk = backed_up(&scene, 20 << 20);
    let target = mount.path().join("copy");
    let full = restore(&scene, &disk, &target, &["--json"]).expect(&[12]);
    let full = full.says("cannot write").says(target.to_str().unwrap()).says("No space left");
    assert!(names(mount.path()).is_empty(), "{full}");
    // A file that was there stays as it was.
    let important = || {
        let mut start = [0; 9];
        File::open(&target).unwrap().read_exact_at(&mut start, 0).unwrap();
        &start == b"important"
    };
    fs::write(&target, b"important").unwrap();
    File::options().write(true).open(&target).unwrap().set_len(20 << 20).unwrap();
    restore(&scene, &disk, &target, &["--confirm"])
        .expect(&[12])
        .says("No space left");
    assert!(important(), "it was not changed");
    assert_eq!(names(mount.path()), [b"copy"]);
    mount.remount("size=64m");
    restore(&scene, &disk, &target, &["--confirm"]).expect(&[0]);
    assert!(are_same(&disk, &target));
}

#[test]
fn a_device_is_called_of_no_use_after_an_interrupt() {
    let scene = Scene::new();
    let Some((file, device)) = disk(&scene, "disk", &EXT4) else { return };
    fs::write(&file, noise(1, 200 << 20)).unwrap();
    let source = scene.scratch.join("source-disk");
    fs::write(&source, noise(2, 200 << 20)).unwrap();
    back_up(&scene, &source);
    let path = device.0.to_str().unwrap();
    let words = ["image", "restore", source.to_str().unwrap(), path, "--confirm"];
    let process = scene.node.spawn(&words);
    let head = || {
        let mut head = [0; 4096];
        let read = File::open(&device.0).and_then(|device| device.read_exact_at(&mut head, 0));
        read.map(|()| head.to_vec()).unwrap()
    };
    let before = noise(1, 4096);
    wait_until("restoring", || head() != before || process.ends_within(Duration::ZERO));
    process.signal(Signal::INT);
    let outcome = process.wait_within(WAIT);
    if outcome.code() == 0 {
        return assert!(run_tool(&["cmp", "-s", source.to_str().unwrap()], &device.0));
    }
    outcome
        .expect(&[12])
        .says("interrupted")
        .says(&format!("{path} is overwritten in part"));
}

#[test]
fn a_device_without_room_is_named() {
    let scene = Scene::new();
    let Some(mount) = small_tmpfs(&scene) else { return };
    let disk = backed_up(&scene, 20 << 20);
    let file = mount.path().join("thin");
    File::create(&file).unwrap().set_len(32 << 20).unwrap();
    let Some(device) = Loop::of(&file) else { return };
    let path = device.0.to_str().unwrap();
    restore(&scene, &disk, &device.0, &["--confirm"]).expect(&[12]).says(path);
}

#[test]
fn an_audit_names_the_image_that_damage_costs() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::new();
    let disk = scene.scratch.join("disk");
    let content = noise(1, 80 << 20);
    fs::write(&disk, &content).unwrap();
    back_up(&scene, &disk);
    scene.server.terminate().expect(&[0]);
    let (pack, offset) = find_stored(scene.server.dir(), &content[20 << 20..21 << 20]);
    flip(&pack, offset, 16);
    scene.server.restart();
    let audit = scene.server.try_admin(&["audit", "--data"]).expect(&[4]).says("image:");
    assert!(audit.json()["versions_lost"].as_u64().unwrap() >= 1, "{audit}");
    scene.node.verify().expect(&[4]).says("image:");
    // The text names the bytes.
    let words = ["image", "verify", disk.to_str().unwrap()];
    let text = scene.node.run(&words).expect(&[4]);
    let text = text.says("Lost or damaged at the server").stdout;
    assert!(text.contains("  bytes 2"), "{text}");
    // The disk is as it was, so its next image is whole.
    let next = back_up(&scene, &disk);
    assert!(next["changed_parts"].as_u64().unwrap() >= 1, "{next}");
    image(&scene, &["verify"], &disk).expect(&[0]);
    assert_eq!(back_up(&scene, &disk)["changed_parts"], 0);
}
