//! The stored files as a file system: it shows what was backed up, now and at any time, to those
//! who may see it, and survives faults of the server.

use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::harness::{Process, is_root};
use e2e::manifest::{Manifest, assert_same};
use e2e::nasty;
use rustix::fs::{SeekFrom, seek};
use rustix::process::Signal;

use crate::damage::{find_stored, flip};
use crate::scene::{Scene, file_name, manifest};

const READY: Duration = Duration::from_secs(120);
const USER: u32 = 4321;

/// A mount, until it is dropped.
struct MountPoint {
    process: Option<Process>,
    at: PathBuf,
}

/// Returns true if this machine can mount; otherwise says that the test is left out.
fn can_mount() -> bool {
    let is_here = is_root() && fs::File::open("/dev/fuse").is_ok();
    if !is_here {
        e2e::skip::say("no root or no /dev/fuse: nothing can be mounted");
    }
    is_here
}

impl MountPoint {
    fn new(scene: &Scene, options: &[&str]) -> Self {
        let at = scene.scratch.folder("mounted");
        let arguments = [&["mount", at.to_str().unwrap()], options].concat();
        let process = Some(scene.node.spawn(&arguments));
        let mounted = Self { process, at };
        assert!(wait_until(|| mounted.is_there()), "nothing is mounted");
        mounted
    }

    fn is_there(&self) -> bool {
        is_mounted(&self.at)
    }

    /// Returns the path at which the mount shows `path`, in the directory `view`.
    fn shows(&self, view: &str, path: &Path) -> PathBuf {
        self.at.join(view).join(path.strip_prefix("/").unwrap())
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(Signal::TERM);
            process.wait_within(READY);
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == path.to_str() && line.contains("holdfast"))
}

fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    for _ in 0..2400 {
        if is_so() {
            return true;
        }
        e2e::clock::pause(Duration::from_millis(50));
    }
    false
}

/// Takes the manifest of a tree without the flags of inodes, which FUSE does not show.
fn without_flags(mut manifest: Manifest) -> Manifest {
    manifest.objects.values_mut().for_each(|object| object.flags = 0);
    manifest
}

#[test]
fn a_tree_of_every_kind_is_shown_as_it_was() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    nasty::plant(&scene.tree, 7).unwrap();
    scene.node.backup(&scene.tree, &[]).expect(&[0, 4]);
    let source = without_flags(manifest(&scene.tree));
    let mounted = MountPoint::new(&scene, &[]);
    let shown = mounted.shows("latest", &scene.tree);
    assert_same(&source, &without_flags(manifest(&shown)));
    let rsync = Command::new("rsync")
        // Paths of the deep folders are longer than rsync can use.
        .args(["-aHAXn", "--checksum", "--itemize-changes", "--exclude=/deep"])
        .args([shown.join(""), scene.tree.join("")])
        .output();
    match rsync {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.is_empty(), "{said} {output:?}");
        }
        Err(_) => e2e::skip::say("no rsync: its comparison is left out"),
    }
}

/// Returns the ranges of a file that have data, without those that are holes.
fn data_ranges(file: &fs::File) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    while let Ok(start) = seek(file, SeekFrom::Data(ranges.last().map_or(0, |range| range.end))) {
        ranges.push(start..seek(file, SeekFrom::Hole(start)).unwrap());
    }
    ranges
}

#[test]
fn holes_are_found_without_reading_them() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let data = vec![7; 64 << 10];
    let file = scene.tree.join("disk.img");
    let disk = fs::File::create(&file).unwrap();
    for mib in [1, 2, 5] {
        disk.write_all_at(&data, mib << 20).unwrap();
    }
    // To read so many zeros would take hours.
    disk.set_len(1 << 42).unwrap();
    disk.write_all_at(&data, 1 << 41).unwrap();
    let full = scene.tree.join("full");
    fs::write(&full, &data).unwrap();
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    let shown = fs::File::open(mounted.shows("latest", &file)).unwrap();
    assert_eq!(data_ranges(&shown).len(), 4);
    assert_eq!(data_ranges(&shown), data_ranges(&disk));
    assert_eq!(seek(&shown, SeekFrom::Hole(3 << 20)), Ok(3 << 20));
    assert!(seek(&shown, SeekFrom::Hole(1 << 42)).is_err(), "nothing is beyond the end");
    let shown = fs::File::open(mounted.shows("latest", &full)).unwrap();
    assert_eq!(data_ranges(&shown), std::slice::from_ref(&(0..64_u64 << 10)));
}

/// A copy of an image read all its zeros, and took the room of the whole disk.
#[test]
fn holes_of_an_image_are_found() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let disk = scene.scratch.join("disk");
    let file = fs::File::create(&disk).unwrap();
    file.set_len(200 << 20).unwrap();
    // The second range lies in another part of the image than the first.
    for mib in [1, 150] {
        let data = nasty::Random::new(mib, b"holes").bytes(1 << 20);
        file.write_all_at(&data, mib << 20).unwrap();
    }
    scene.node.run(&["image", "backup", disk.to_str().unwrap()]).expect(&[0]);
    let mounted = MountPoint::new(&scene, &[]);
    let only = |folder: PathBuf| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let image = only(only(mounted.at.join("images")));
    let shown = fs::File::open(&image).unwrap();
    assert_eq!(data_ranges(&shown), [1_u64 << 20..2 << 20, 150 << 20..151 << 20]);
    assert_eq!(seek(&shown, SeekFrom::Hole(0)), Ok(0));
    assert!(fs::read(&image).unwrap() == fs::read(&disk).unwrap());
}

#[test]
fn any_time_and_all_versions_are_there() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let file = scene.tree.join("letter.txt");
    for content in ["one", "second", "third draft"] {
        fs::write(&file, content).unwrap();
        scene.backup();
    }
    let mut versions = scene.node.list(&file, &["--inactive"]);
    versions.reverse();
    let times = versions.iter().map(|version| version["backup_time"].as_str().unwrap());
    let times: Vec<String> = times.map(str::to_owned).collect();
    fs::remove_file(&file).unwrap();
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    let read = |view: &str| fs::read_to_string(mounted.shows(view, &file));
    for (time, content) in times.iter().zip(["one", "second", "third draft"]) {
        assert_eq!(read(&format!("at/{time}")).unwrap(), content);
    }
    assert!(read("latest").is_err() && read("at/2001-01-01").is_err());
    assert!(read("at/nonsense").is_err());
    let versions = mounted.shows("versions", &file);
    let mut contents: Vec<String> = fs::read_dir(&versions)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    contents.sort();
    assert_eq!(contents, ["one", "second", "third draft"]);
    // Nothing can be changed.
    assert!(fs::write(mounted.shows("latest", &scene.tree).join("new"), b"x").is_err());
}

/// Returns the contents of the files in a directory.
fn contents(directory: &Path) -> Vec<String> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.is_file())
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn a_name_that_was_a_file_and_a_directory_shows_both() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let (opened, closed) = (scene.tree.join("opened"), scene.tree.join("closed"));
    let fill = |directory: &Path| {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("inner"), "in the directory").unwrap();
    };
    fs::write(&opened, "the file").unwrap();
    fill(&closed);
    scene.backup();
    fs::remove_file(&opened).unwrap();
    fill(&opened);
    fs::remove_dir_all(&closed).unwrap();
    fs::write(&closed, "the file").unwrap();
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    for path in [opened, closed] {
        let shown = mounted.shows("versions", &path);
        assert_eq!(contents(&shown), ["the file"]);
        assert_eq!(contents(&shown.join("inner")), ["in the directory"]);
        assert_eq!(fs::read_dir(&shown).unwrap().count(), 2);
    }
}

/// Only the last backup was listed, by the time at which it began: there it was not to be seen.
#[test]
fn each_backup_is_listed_by_a_time_that_shows_it() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let file = scene.tree.join("noise");
    let contents = [1, 2].map(|seed| nasty::Random::new(seed, b"times").bytes(1 << 20));
    for content in &contents {
        fs::write(&file, content).unwrap();
        // The backup begins and ends in different seconds.
        scene.node.backup(&scene.tree, &["--limit-rate-send", "500K"]).expect(&[0]);
    }
    let mounted = MountPoint::new(&scene, &[]);
    let times = fs::read_dir(mounted.at.join("at")).unwrap();
    let mut times: Vec<PathBuf> = times.map(|entry| entry.unwrap().path()).collect();
    times.sort();
    let shown = times.iter().map(|time| fs::read(mounted.shows(time.to_str().unwrap(), &file)));
    assert!(shown.map(Result::unwrap).eq(contents), "{times:?}");
}

/// Two names that become one name of a directory showed the images of one of them.
#[test]
fn all_images_are_there() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let disk = scene.scratch.join("disk");
    let contents = [1, 2, 3].map(|seed| nasty::Random::new(seed, b"images").bytes(300_000));
    for (name, content) in ["/a/b", "a_b", "a_b"].into_iter().zip(&contents) {
        fs::write(&disk, content).unwrap();
        let words = ["image", "backup", disk.to_str().unwrap(), "--name", name];
        scene.node.run(&words).expect(&[0]);
    }
    let mounted = MountPoint::new(&scene, &[]);
    let shown = |name: &str| -> Vec<Vec<u8>> {
        let images = fs::read_dir(mounted.at.join("images").join(name)).unwrap();
        let mut paths: Vec<PathBuf> = images.map(|image| image.unwrap().path()).collect();
        paths.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
        paths.iter().map(|path| fs::read(path).unwrap()).collect()
    };
    assert!(shown("a_b") == contents[..1] && shown("a_b.2") == contents[1..]);
}

/// A look at the end of this day kept showing what it showed first, whatever was backed up later.
#[test]
fn a_time_that_is_still_to_come_shows_new_backups() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let file = scene.tree.join("letter.txt");
    fs::write(&file, "one").unwrap();
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    let shown = mounted.shows("at/2199-12-31", &file);
    assert_eq!(fs::read_to_string(&shown).unwrap(), "one");
    fs::write(&file, "second").unwrap();
    scene.backup();
    assert!(wait_until(|| fs::read_to_string(&shown).unwrap() == "second"));
}

#[test]
fn many_read_at_once() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with_files(40, 30_000);
    let large = nasty::Random::new(1, b"large").bytes(24 << 20);
    fs::write(scene.tree.join("large"), &large).unwrap();
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    let shown = mounted.shows("latest", &scene.tree);
    std::thread::scope(|threads| {
        for number in 0..6_u32 {
            let (shown, large, tree) = (&shown, &large, &scene.tree);
            threads.spawn(move || {
                let file = fs::File::open(shown.join("large")).unwrap();
                let mut random = nasty::Random::new(u64::from(number), b"places");
                let mut buffer = vec![0; 100_000];
                for _ in 0..40 {
                    let at = random.below(23 << 20) as usize;
                    file.read_exact_at(&mut buffer, at as u64).unwrap();
                    assert!(buffer == large[at..at + buffer.len()]);
                }
                for number in 0..40 {
                    let name = file_name(number);
                    let [ours, theirs] =
                        [tree, shown].map(|dir| fs::read(dir.join(&name)).unwrap());
                    assert!(ours == theirs, "{name:?}");
                }
            });
        }
    });
}

#[test]
fn a_walk_finds_contents_in_the_kernel() {
    const FILES: u32 = 5;
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let names: Vec<String> = (0..60).map(|number| format!("folder-{number:03}")).collect();
    let content = |name: &str, number: u32| format!("{name} {number} ").repeat(2000);
    for name in &names {
        let folder = scene.tree.join(name);
        fs::create_dir(&folder).unwrap();
        for number in 0..FILES {
            fs::write(folder.join(number.to_string()), content(name, number)).unwrap();
        }
    }
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    let shown = mounted.shows("latest", &scene.tree);
    let process = mounted.process.as_ref().unwrap();
    // A machine that is busy may be late with some contents, but not with all.
    let has_stood_still = names.iter().enumerate().any(|(at, name)| {
        let folder = shown.join(name);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), FILES as usize);
        let tries_frozen = at >= 20 && at % 5 == 0;
        if !tries_frozen {
            for number in 0..FILES {
                let found = fs::read_to_string(folder.join(number.to_string())).unwrap();
                assert!(found == content(name, number), "{name} {number}");
            }
            return false;
        }
        process.freeze(true);
        let files = (0..FILES).map(|number| folder.join(number.to_string()));
        let mut reader = Command::new("cat").args(files).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = reader.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut found = String::new();
            output.read_to_string(&mut found).map(|_| found)
        });
        let came = (0..250).any(|_| {
            e2e::clock::pause(Duration::from_millis(20));
            reading.is_finished()
        });
        process.freeze(false);
        let expected: String = (0..FILES).map(|number| content(name, number)).collect();
        assert!(reading.join().unwrap().unwrap() == expected, "{name}");
        assert!(reader.wait().unwrap().success());
        came
    });
    assert!(has_stood_still, "the kernel asks for each file");
}

#[test]
fn a_restart_of_the_server_is_waited_for() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::with_files(3, 300_000);
    scene.node.wait_by_default();
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    let files: Vec<PathBuf> = (0..3).map(|number| scene.file(number)).collect();
    let shown = |number: usize| mounted.shows("latest", &files[number]);
    assert!(fs::read(shown(0)).unwrap() == fs::read(&files[0]).unwrap());
    scene.server.kill9();
    let waiting = {
        let path = shown(1);
        std::thread::spawn(move || fs::read(path).unwrap())
    };
    e2e::clock::pause(Duration::from_secs(2));
    assert!(!waiting.is_finished(), "a reader waits while the server is away");
    scene.server.restart();
    assert!(waiting.join().unwrap() == fs::read(&files[1]).unwrap());
}

#[test]
fn a_key_that_comes_later_decrypts_new_files_and_images() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let list = format!("include.encrypt {}/.../*\n", scene.tree.display());
    fs::write(scene.node.home().join("inclexcl"), list).unwrap();
    let mounted = MountPoint::new(&scene, &[]);
    scene.node.run(&["key", "create"]).expect(&[0]);
    let secret = scene.tree.join("secret");
    let content = nasty::Random::new(5, b"keys").bytes(300_000);
    fs::write(&secret, &content).unwrap();
    scene.backup();
    let shown = mounted.shows("latest", &secret);
    assert!(wait_until(|| fs::symlink_metadata(&shown).is_ok()), "it is not shown");
    assert!(fs::read(&shown).unwrap() == content);
    scene.node.run(&["key", "create"]).expect(&[0]);
    scene.node.run(&["image", "backup", secret.to_str().unwrap()]).expect(&[0]);
    let only = |folder: PathBuf| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let image = only(only(mounted.at.join("images")));
    assert!(fs::read(image).unwrap() == content);
}

#[test]
fn a_server_that_stays_away_is_an_error() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::with_files(2, 300_000);
    scene.backup();
    let mounted = MountPoint::new(&scene, &["--wait", "1s"]);
    let shown = mounted.shows("latest", &scene.file(0));
    let mut file = fs::File::open(&shown).unwrap();
    scene.server.kill9();
    let error = file.read(&mut [0; 100]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
}

/// A thread got a buffer of 16 MiB that had been used before, and cleared all of it.
#[test]
fn a_mount_that_nobody_uses_takes_little_memory() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with_files(2, 1000);
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    assert_eq!(fs::read_dir(&mounted.at).unwrap().count(), 4);
    let kib = own_kib(&mounted);
    assert!(kib < 17 << 10, "{kib} KiB");
}

/// Returns the resident memory of a mount in KiB, without that of files such as the program.
fn own_kib(mounted: &MountPoint) -> u64 {
    let id = mounted.process.as_ref().unwrap().id();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    own.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// A program that read two files of each directory, and the directories in no order, left the
/// others in memory until the end of the mount.
#[test]
fn files_that_nobody_reads_do_not_stay_in_memory() {
    const FILES: usize = 24;
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    let folder = |number| scene.tree.join(format!("folder-{number:02}"));
    let folders: Vec<PathBuf> = (0..20).map(folder).collect();
    // The server has it once. In the memory of a mount each file has a content of its own.
    let content = nasty::Random::new(1, b"content").bytes(240 << 10);
    for folder in &folders {
        fs::create_dir(folder).unwrap();
        for number in 0..FILES {
            fs::write(folder.join(format!("file-{number:02}")), &content).unwrap();
        }
    }
    scene.backup();
    let mounted = MountPoint::new(&scene, &[]);
    // The directories come in the order of their paths when a program walks.
    for folder in folders.iter().rev() {
        let shown = mounted.shows("latest", folder);
        for name in ["file-00", "file-01"] {
            assert!(fs::read(shown.join(name)).unwrap() == content, "{shown:?} {name}");
        }
    }
    let kib = own_kib(&mounted);
    assert!(kib < 96 << 10, "{kib} KiB of {} KiB", folders.len() * FILES * 240);
}

#[test]
fn a_mount_that_is_killed_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with_files(2, 1000);
    scene.backup();
    let mut mounted = MountPoint::new(&scene, &[]);
    let open = fs::File::open(mounted.shows("latest", &scene.file(0))).unwrap();
    mounted.process.take().unwrap().kill9();
    assert!(wait_until(|| !mounted.is_there()), "the mount stays");
    drop(open);
    assert_eq!(fs::read_dir(&mounted.at).unwrap().count(), 0);
    // A signal ends it too, while somebody uses it, and so does umount.
    let mut mounted = MountPoint::new(&scene, &[]);
    let open = fs::File::open(mounted.shows("latest", &scene.file(0))).unwrap();
    let process = mounted.process.take().unwrap();
    process.signal(Signal::TERM);
    process.wait_within(READY).expect(&[0]);
    assert!(wait_until(|| !mounted.is_there()), "the mount stays");
    drop(open);
    let mut mounted = MountPoint::new(&scene, &[]);
    let status = Command::new("umount").arg(&mounted.at).status().unwrap();
    assert!(status.success());
    mounted.process.take().unwrap().wait_within(READY).expect(&[0]);
}

#[test]
fn damage_is_an_error_and_never_wrong_bytes() {
    if !can_mount() || !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(12, 900_000);
    scene.backup();
    let content = fs::read(scene.file(5)).unwrap();
    scene.server.terminate().expect(&[0]);
    let (pack, offset) = find_stored(scene.server.dir(), &content);
    flip(&pack, offset, 16);
    scene.server.restart();
    let mut mounted = MountPoint::new(&scene, &[]);
    let mut failed = Vec::new();
    for number in 0..12 {
        match fs::read(mounted.shows("latest", &scene.file(number))) {
            Ok(read) => assert!(read == fs::read(scene.file(number)).unwrap(), "{number}"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "{error}");
                failed.push(number);
            }
        }
    }
    assert!(failed.contains(&5) && failed.len() <= 3, "{failed:?}");
    let process = mounted.process.take().unwrap();
    process.signal(Signal::TERM);
    let name = scene.file(5).file_name().unwrap().to_str().unwrap().to_owned();
    process.wait_within(READY).expect(&[0]).says(&name);
}

#[test]
fn users_see_what_is_theirs() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new();
    for (name, mode, owner) in [("open", 0o644, 0), ("secret", 0o600, 0), ("own", 0o600, USER)] {
        let path = scene.tree.join(name);
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
    }
    for folder in [scene.scratch.path(), &scene.tree, scene.tree.parent().unwrap()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    scene.backup();
    let reads = |mounted: &MountPoint, name: &str| {
        let path = mounted.shows("latest", &scene.tree.join(name));
        let output = Command::new("cat").arg(path).uid(USER).gid(USER).output().unwrap();
        output.status.success() && output.stdout == name.as_bytes()
    };
    let mounted = MountPoint::new(&scene, &["--allow-other"]);
    assert!(reads(&mounted, "open") && reads(&mounted, "own") && !reads(&mounted, "secret"));
    drop(mounted);
    let mounted = MountPoint::new(&scene, &[]);
    assert!(!reads(&mounted, "open"), "only the user who mounted is let in");
}

#[test]
fn a_place_that_cannot_be_mounted_at_is_refused() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with_files(1, 10);
    scene.backup();
    let full = scene.tree.to_str().unwrap();
    scene
        .node
        .run(&["mount", full])
        .expect(&[12])
        .says("must be an empty directory");
    scene
        .node
        .run(&["mount", "/nowhere/at/all"])
        .expect(&[12])
        .says("/nowhere/at/all");
}
