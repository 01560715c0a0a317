//! Space management on real file systems: every access to a stub gets its content or an error, and
//! never zeros.

#[cfg(test)]
mod beside;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod copied;
#[cfg(test)]
mod covered;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod hidden;
#[cfg(test)]
mod input;
#[cfg(test)]
mod kills;
#[cfg(test)]
pub(crate) mod leases;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod many;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod random;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod several;
#[cfg(test)]
mod supervisor;
#[cfg(test)]
mod tape;
#[cfg(test)]
mod traffic;
#[cfg(test)]
mod tsm;
#[cfg(test)]
mod unasked;
#[cfg(test)]
mod upkeep;
#[cfg(test)]
mod users;
mod waiting;

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Image, Node, Outcome, Process, succeeds};
use e2e::nasty::Random;
use rustix::process::Signal;
use serde_json::Value;

use self::processes::{kill, kill_at_once};
use crate::scene::{Scene, root_or_skip};

const IMAGE_BYTES: u64 = 700 << 20;
const KINDS: [&[&str]; 3] =
    [&["mkfs.ext4", "-q"], &["mkfs.xfs", "-q", "-f"], &["mkfs.btrfs", "-q", "-f"]];
const MIB: usize = 1 << 20;

/// A managed file system. The fields are dropped in their order: the keeper before its file system.
struct Space {
    keeper: Option<Process>,
    image: Image,
    scene: Scene,
}

impl Space {
    /// Makes a managed file system; `None` if this machine cannot.
    fn new(mkfs: &[&str], options: &[&str]) -> Option<Self> {
        Self::with_keeper(mkfs, options, &[])
    }

    fn with_keeper(mkfs: &[&str], options: &[&str], of_keeper: &[&str]) -> Option<Self> {
        if !root_or_skip("space management") {
            return None;
        }
        let scene = Scene::new();
        let (file, folder) = (scene.scratch.join("image"), scene.scratch.join("data"));
        let Some(image) = Image::mount(&file, IMAGE_BYTES, mkfs, &folder) else {
            e2e::skip::say(&format!("{} or a loop mount does not work on this machine", mkfs[0]));
            return None;
        };
        let mut space = Self { keeper: None, image, scene };
        let fs = space.fs();
        let add = [&["hsm", "add", fs.to_str().unwrap()], options].concat();
        space.node().run(&add).expect(&[0]);
        space.start(of_keeper);
        Some(space)
    }

    fn fs(&self) -> PathBuf {
        self.image.path().to_owned()
    }

    fn node(&self) -> &Node {
        &self.scene.node
    }

    fn start(&mut self, options: &[&str]) {
        self.keeper = Some(self.node().spawn(&[&["hsm", "run"], options].concat()));
        self.wait_for("the worker", || self.try_status().code() == 0);
    }

    fn try_status(&self) -> Outcome {
        self.node().run(&["hsm", "status", "--json"])
    }

    #[track_caller]
    fn wait_for(&self, what: &str, ready: impl Fn() -> bool) {
        for _ in 0..1200 {
            if ready() {
                return;
            }
            pause(Duration::from_millis(100));
        }
        panic!("the wait was too long for: {what}");
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.fs().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    #[track_caller]
    fn migrate(&self, path: &Path) {
        let rows = self.hsm(&["migrate"], path).expect(&[0]).json_lines();
        assert!(rows.iter().all(|row| row["state"] == "m"), "{rows:?}");
    }

    fn hsm(&self, words: &[&str], path: &Path) -> Outcome {
        let words = [&["hsm"], words, &[path.to_str().unwrap(), "--json"]].concat();
        self.node().run(&words)
    }

    #[track_caller]
    fn state(&self, path: &Path) -> String {
        let rows = self.hsm(&["ls"], path).expect(&[0]).json_lines();
        rows[0]["state"].as_str().unwrap().to_owned()
    }

    /// Makes a file with this content and migrates it.
    fn stub(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.write(name, content);
        self.migrate(&path);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 < 64 << 10, "the stub takes space");
        path
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    Random::new(seed, b"space").bytes(bytes)
}

/// Runs a shell script with `$1` and `$2`; returns true on success.
fn shell(script: &str, one: &Path, two: &Path) -> bool {
    succeeds(Command::new("sh").args(["-ec", script, "sh"]).arg(one).arg(two))
}

/// Way to read the file at the first path. The second path is free for a copy. Returns the content;
/// `None` if this machine does not have the way.
type Reader = fn(&Path, &Path) -> Option<Vec<u8>>;

fn by_shell(script: &str, file: &Path, copy: &Path) -> Option<Vec<u8>> {
    drop(fs::remove_file(copy));
    shell(script, file, copy).then(|| fs::read(copy).unwrap())
}

/// Ways to read a file as a whole.
const WAYS: [(&str, Reader); 12] = [
    ("read", |file, _| Some(fs::read(file).unwrap())),
    ("pread backwards", |file, _| {
        let file = File::open(file).unwrap();
        let size = usize::try_from(file.metadata().unwrap().len()).unwrap();
        let mut content = vec![0; size];
        for start in (0..size).step_by(70_001).rev() {
            let end = (start + 70_001).min(size);
            file.read_exact_at(&mut content[start..end], start as u64).unwrap();
        }
        Some(content)
    }),
    ("mmap", |file, copy| by_shell(MMAP, file, copy)),
    ("cat", |file, copy| by_shell("cat \"$1\" > \"$2\"", file, copy)),
    ("dd", |file, copy| by_shell("dd if=\"$1\" of=\"$2\" bs=10007 status=none", file, copy)),
    ("dd direct", |file, copy| {
        by_shell("dd if=\"$1\" of=\"$2\" bs=1M iflag=direct status=none", file, copy)
    }),
    ("cp", |file, copy| by_shell("cp \"$1\" \"$2\"", file, copy)),
    ("cp without reflink", |file, copy| by_shell("cp --reflink=never \"$1\" \"$2\"", file, copy)),
    ("cp sparse", |file, copy| {
        by_shell("cp --reflink=never --sparse=always \"$1\" \"$2\"", file, copy)
    }),
    ("reflink", |file, copy| by_shell("cp --reflink=always \"$1\" \"$2\"", file, copy)),
    ("tar", |file, copy| by_shell("tar cPf - \"$1\" | tar xPOf - > \"$2\"", file, copy)),
    ("tar sparse", |file, copy| by_shell("tar cSPf - \"$1\" | tar xPOf - > \"$2\"", file, copy)),
];

/// Returns true if a way may be missing: ext4 shares no extents, and a machine may have no Python.
fn can_fail(way: &str, mkfs: &str) -> bool {
    let has_python = || succeeds(Command::new("python3").args(["-c", ""]));
    (way == "reflink" && mkfs == "mkfs.ext4") || (way == "mmap" && !has_python())
}

const MMAP: &str = "python3 -c 'import mmap,sys; f=open(sys.argv[1],\"rb\"); \
                    m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ); \
                    open(sys.argv[2],\"wb\").write(m[:])' \"$1\" \"$2\"";

#[test]
fn every_way_to_read_a_stub_gives_its_content() {
    for mkfs in KINDS {
        let Some(space) = Space::new(mkfs, &[]) else { continue };
        let content = noise(1, 3 * MIB + 12_345);
        for (number, (way, read)) in WAYS.iter().enumerate() {
            let file = space.stub(&format!("file-{number}"), &content);
            let copy = space.fs().join("copy");
            match read(&file, &copy) {
                Some(got) => assert!(got == content, "{} {way}: the content differs", mkfs[0]),
                None => assert!(can_fail(way, mkfs[0]), "{}: {way} failed", mkfs[0]),
            }
        }
    }
}

#[test]
fn a_large_stub_is_recalled_where_it_is_read() {
    for mkfs in KINDS {
        let Some(space) = Space::new(mkfs, &["--whole", "1M"]) else { continue };
        let content = noise(2, 40 * MIB);
        let path = space.stub("large", &content);
        let file = File::open(&path).unwrap();
        let mut part = vec![0; 10_000];
        file.read_exact_at(&mut part, 20 * MIB as u64 + 77).unwrap();
        assert!(part == content[20 * MIB + 77..20 * MIB + 10_077]);
        let taken = fs::metadata(&path).unwrap().blocks() * 512;
        assert!(taken < 4 << 20, "{} recalled {taken} bytes", mkfs[0]);
        assert_eq!(space.state(&path), "m");
        // A program that looks for holes gets the whole content.
        let copy = space.fs().join("copy");
        assert!(shell("cp --reflink=never --sparse=always \"$1\" \"$2\"", &path, &copy));
        assert!(fs::read(&copy).unwrap() == content, "{}", mkfs[0]);
        drop(file);
    }
}

#[test]
fn what_needs_no_content_recalls_nothing() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let path = space.stub("file", &noise(3, MIB));
    let before = fs::metadata(&path).unwrap();
    assert_eq!(before.len(), MIB as u64);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let renamed = space.fs().join("renamed");
    fs::rename(&path, &renamed).unwrap();
    let linked = space.fs().join("linked");
    fs::hard_link(&renamed, &linked).unwrap();
    assert_eq!(space.state(&linked), "m");
    assert_eq!(fs::metadata(&linked).unwrap().modified().unwrap(), before.modified().unwrap());
    fs::remove_file(&renamed).unwrap();
    assert!(fs::read(&linked).unwrap() == noise(3, MIB));
}

/// Function that changes the file, and its expected content in the same way.
type Editor = fn(&Path, &mut Vec<u8>);

fn writable(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

const CHANGES: [(&str, Editor); 8] = [
    ("cut by path at a page and lengthen by path", |path, content| {
        assert!(shell("truncate -s 1503232 \"$1\"; truncate -s 2900000 \"$1\"", path, path));
        content.truncate(1_503_232);
        content.resize(2_900_000, 0);
    }),
    ("write in the middle", |path, content| {
        writable(path).write_all_at(b"HELLO", 2_000_001).unwrap();
        content[2_000_001..2_000_006].copy_from_slice(b"HELLO");
    }),
    ("append", |path, content| {
        File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
        content.extend_from_slice(b"more");
    }),
    ("cut", |path, content| {
        writable(path).set_len(1_500_001).unwrap();
        content.truncate(1_500_001);
    }),
    ("cut and lengthen", |path, content| {
        let file = writable(path);
        file.set_len(1_500_001).unwrap();
        file.set_len(2_500_001).unwrap();
        content.truncate(1_500_001);
        content.resize(2_500_001, 0);
    }),
    ("empty and write", |path, content| {
        fs::write(path, b"anew").unwrap();
        *content = b"anew".to_vec();
    }),
    ("punch", |path, content| {
        let script = "fallocate --punch-hole --offset 1000000 --length 700000 \"$1\"";
        assert!(shell(script, path, path));
        content[1_000_000..1_700_000].fill(0);
    }),
    ("cut by path and lengthen by writing", |path, content| {
        assert!(shell("truncate -s 1100000 \"$1\"", path, path));
        writable(path).write_all_at(b"far", 2_900_000).unwrap();
        content.truncate(1_100_000);
        content.resize(2_900_000, 0);
        content.extend_from_slice(b"far");
    }),
];

#[test]
fn what_is_changed_in_a_stub_stays_and_the_rest_is_as_it_was() {
    for mkfs in KINDS {
        // Files are recalled by ranges, and as a whole.
        for whole in ["0", "256M"] {
            let Some(space) = Space::new(mkfs, &["--whole", whole, "--min-size", "1"]) else {
                continue;
            };
            for (number, (name, change)) in CHANGES.iter().enumerate() {
                let mut content = noise(4, 3 * MIB + 5);
                let path = space.stub(&format!("file-{number}"), &content);
                change(&path, &mut content);
                let got = fs::read(&path).unwrap();
                assert!(got == content, "{} --whole {whole}: {name}", mkfs[0]);
                // The content is read again after the recall has been recorded.
                space.hsm(&["recall"], &path).expect(&[0]);
                assert!(fs::read(&path).unwrap() == content, "{name}");
                space.migrate(&path);
                assert!(fs::read(&path).unwrap() == content, "{}: {name}, again", mkfs[0]);
            }
        }
    }
}

#[test]
fn a_program_that_was_migrated_runs() {
    let Some(space) = Space::new(KINDS[0], &["--whole", "0"]) else { return };
    let program = space.fs().join("program");
    fs::copy("/bin/ls", &program).unwrap();
    space.migrate(&program);
    assert!(succeeds(Command::new(&program).arg("/")));
}

#[test]
fn a_loop_device_over_a_stub_reads_its_content() {
    let Some(space) = Space::new(KINDS[1], &["--whole", "0"]) else { return };
    let content = noise(5, 2 * MIB);
    let path = space.stub("image", &content);
    let copy = space.scene.scratch.join("copy");
    let script = "l=$(losetup -f --show -r \"$1\"); dd if=$l of=\"$2\" bs=64k status=none; \
                  losetup -d $l";
    assert!(shell(script, &path, &copy));
    assert!(fs::read(copy).unwrap() == content);
}

#[test]
fn a_stub_in_a_snapshot_is_an_error_and_stays_as_it_is() {
    let Some(space) = Space::new(KINDS[2], &["--hidden", "no"]) else { return };
    let content = noise(6, 2 * MIB);
    let path = space.stub("file", &content);
    for (script, name) in [("snapshot -r", "fixed"), ("snapshot", "changing")] {
        let snapshot = space.fs().join(name);
        assert!(shell(&format!("btrfs subvolume {script} \"$1\" \"$2\""), &space.fs(), &snapshot));
        let stub = snapshot.join("file");
        assert_eq!(fs::read(&stub).unwrap_err().raw_os_error(), Some(libc::EIO), "{name}");
        assert!(fs::metadata(&stub).unwrap().blocks() * 512 < 64 << 10, "{name}");
    }
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn what_is_here_again_is_read_without_a_question() {
    for kind in KINDS {
        let Some(space) = Space::new(kind, &[]) else { continue };
        let content = noise(9, MIB);
        let path = space.stub("file", &content);
        for _ in 0..2 {
            assert!(fs::read(&path).unwrap() == content);
            let worker = space.worker_pid().unwrap();
            kill(worker, Signal::STOP);
            let reading = path.clone();
            let (got, has_come) = std::sync::mpsc::channel();
            let reader = std::thread::spawn(move || got.send(fs::read(reading)));
            let read = has_come.recv_timeout(Duration::from_secs(30));
            kill(worker, Signal::CONT);
            reader.join().unwrap().unwrap();
            assert!(
                read.expect("the read should not wait for the worker").unwrap() == content,
                "{}",
                kind[0]
            );
            // The next round finds a stub again.
            space.migrate(&path);
        }
    }
}

#[test]
fn two_migrations_at_once_take_each_file_once() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    for number in 0..300 {
        space.write(&format!("file-{number}"), &noise(number, 100_000));
    }
    let fs_path = space.fs();
    let start = |words: &[&str]| {
        pause(Duration::from_millis(20));
        space
            .node()
            .spawn(&[&["hsm"], words, &[fs_path.to_str().unwrap(), "--json"]].concat())
    };
    let migrate = ["migrate"];
    let running: Vec<Process> =
        [&migrate[..], &migrate, &["recall", "--resident"], &migrate].map(start).into();
    for running in running {
        // A command reports the files that another command is working on.
        running.wait().expect(&[0, 4]);
    }
    for number in 0..300 {
        let content = fs::read(space.fs().join(format!("file-{number}"))).unwrap();
        assert!(content == noise(number, 100_000), "{number}");
    }
}

#[test]
fn very_many_readers_at_once_are_all_served() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(24, 200_000);
    let paths: Vec<PathBuf> =
        (0..20).map(|number| space.stub(&format!("file-{number}"), &content)).collect();
    std::thread::scope(|threads| {
        for number in 0..1200 {
            let (path, content) = (&paths[number % paths.len()], &content);
            threads.spawn(move || {
                for _ in 0..3 {
                    assert!(fs::read(path).unwrap() == *content);
                }
            });
        }
    });
}

#[test]
fn a_change_whose_time_was_put_back_is_migrated() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let path = space.write("file", &noise(25, MIB));
    space.hsm(&["premigrate"], &path).expect(&[0]);
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let mut content = noise(25, MIB);
    content[5000..5007].copy_from_slice(b"changed");
    writable(&path).write_all_at(b"changed", 5000).unwrap();
    writable(&path).set_modified(before).unwrap();
    space.migrate(&path);
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn a_mount_made_later_is_kept_too() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(22, MIB);
    space.stub("file", &content);
    let other = space.scene.scratch.folder("other");
    assert!(succeeds(Command::new("mount").arg("--bind").arg(space.fs()).arg(&other)));
    let got = fs::read(other.join("file"));
    // A recalled file stays open in the mount until its record is written.
    space.wait_for("the unmounting", || succeeds(Command::new("umount").arg(&other)));
    assert!(got.unwrap() == content);
}

#[test]
fn files_in_use_stay_and_are_named() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let path = space.write("open", &noise(6, MIB));
    space.write("small", b"too small");
    space.write("fine", &noise(7, MIB));
    let mut open = File::open(&path).unwrap();
    let outcome = space.hsm(&["migrate"], &space.fs()).expect(&[4]);
    let rows = outcome.json_lines();
    let error = |name: &str| {
        let row = rows.iter().find(|row| row["path"].as_str().unwrap().ends_with(name));
        row.unwrap()["error"].as_str().unwrap_or_default().to_owned()
    };
    assert!(error("open").contains("open"), "{outcome}");
    assert!(error("small").contains("smaller"), "{outcome}");
    assert_eq!(error("fine"), "");
    let mut content = Vec::new();
    open.seek(SeekFrom::Start(0)).unwrap();
    open.read_to_end(&mut content).unwrap();
    assert!(content == noise(6, MIB));
}

#[test]
fn states_follow_what_is_done() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let path = space.write("file", &noise(8, MIB));
    assert_eq!(space.state(&path), "r");
    space.hsm(&["premigrate"], &path).expect(&[0]);
    assert_eq!(space.state(&path), "p");
    space.migrate(&path);
    assert_eq!(space.state(&path), "m");
    space.hsm(&["recall"], &path).expect(&[0]);
    space.wait_for("the record", || space.state(&path) == "p");
    fs::write(&path, noise(9, MIB)).unwrap();
    assert_eq!(space.state(&path), "r");
    space.migrate(&path);
    space.hsm(&["recall", "--resident"], &path).expect(&[0]);
    assert_eq!(space.state(&path), "r");
    assert!(fs::read(&path).unwrap() == noise(9, MIB));
    let missing = space.fs().join("none");
    let rows = space.hsm(&["recall"], &missing).expect(&[4]).json_lines();
    assert!(rows.iter().any(|row| row["error"].is_string()), "{rows:?}");
}

#[test]
fn a_backup_of_a_migrated_file_recalls_nothing() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let tree = space.fs().join("tree");
    let backed_up = space.write("tree/before", &noise(30, 2 * MIB));
    let not_yet = space.write("tree/after", &noise(31, 2 * MIB));
    fs::create_dir_all(&tree).unwrap();
    space.migrate(&not_yet);
    space.node().backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    space.migrate(&backed_up);
    // Only the ctimes of the files have changed.
    let again = space.node().backup(&tree, &[]).expect(&[0]);
    again.counts(&[("failed", 0), ("backed_up", 0)]);
    fs::set_permissions(&backed_up, fs::Permissions::from_mode(0o640)).unwrap();
    space.node().backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_eq!((space.state(&backed_up), space.state(&not_yet)), ("m".into(), "m".into()));
    let out = space.scene.scratch.folder("out");
    space.node().restore(&tree, &out, &[]).expect(&[0]);
    assert!(fs::read(out.join("tree/before")).unwrap() == noise(30, 2 * MIB));
    assert!(fs::read(out.join("tree/after")).unwrap() == noise(31, 2 * MIB));
}

#[test]
fn only_what_is_backed_up_migrates_where_policy_says_so() {
    let Some(space) = Space::new(KINDS[0], &["--backup-first", "yes"]) else { return };
    let old = space.write("old", &noise(32, MIB));
    space.node().backup(&space.fs(), &[]).expect(&[0]);
    let new = space.write("new", &noise(33, MIB));
    let rows = space.hsm(&["migrate"], &space.fs()).expect(&[4]).json_lines();
    let row = |name: &str| rows.iter().find(|row| row["path"].as_str().unwrap().ends_with(name));
    assert_eq!(row("old").unwrap()["state"], "m");
    assert!(row("new").unwrap()["error"].as_str().unwrap().contains("not backed up"));
    assert!(fs::read(&old).unwrap() == noise(32, MIB));
    assert!(fs::read(&new).unwrap() == noise(33, MIB));
}

#[test]
fn a_storm_is_refused_and_requests_go_on() {
    let Some(space) = Space::new(KINDS[0], &["--requests-only", "yes"]) else { return };
    let path = space.stub("file", &noise(51, MIB));
    let error = fs::read(&path).expect_err("only requests may recall");
    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
    space.hsm(&["recall"], &path).expect(&[0]);
    assert!(fs::read(&path).unwrap() == noise(51, MIB));
}

#[test]
fn waiters_are_shown_counted_and_cancelled() {
    for budget in ["--user-recalls", "--program-recalls"] {
        let Some(mut space) = Space::new(KINDS[0], &[budget, "1"]) else { return };
        let (one, two) = (noise(53, MIB), noise(54, MIB));
        let (path, other) = (space.stub("one", &one), space.stub("two", &two));
        space.scene.server.kill9();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path)
        });
        space.wait_for("a request", || !space.try_status().json_lines().is_empty());
        let file = path.to_str().unwrap();
        let request = space.node().spawn(&["hsm", "recall", "--json", file]);
        let is_both = || space.try_status().json_lines().iter().any(|row| row["waiters"] == 2);
        space.wait_for("both", is_both);
        let refused = fs::read(&other).expect_err("one recall waits already");
        assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN), "{budget}: {refused}");
        let rows = space.try_status().expect(&[0]).json_lines();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0]["path"], file);
        assert_eq!(rows[0]["pid"], std::process::id());
        let number = rows[0]["number"].to_string();
        space.node().run(&["hsm", "cancel", &number]).expect(&[0]);
        let cancelled = reader.join().unwrap().expect_err("the recall was cancelled");
        assert_eq!(cancelled.raw_os_error(), Some(libc::EAGAIN), "{budget}: {cancelled}");
        let row = &request.wait().json_lines()[0];
        assert!(row["error"].as_str().unwrap().contains("cancelled"), "{budget}: {row}");
        space.scene.server.restart();
        assert!(fs::read(&path).unwrap() == one);
        assert!(fs::read(&other).unwrap() == two);
    }
}

#[test]
fn many_readers_of_many_small_stubs_all_get_their_content() {
    let Some(space) = Space::new(KINDS[0], &["--min-size", "1"]) else { return };
    let files = 1000_u64;
    for number in 0..files {
        space.write(&format!("d{}/f{number}", number % 10), &noise(number, 4000));
    }
    space.migrate(&space.fs());
    let top = space.fs();
    let read = |share: u64| {
        let top = top.clone();
        std::thread::spawn(move || {
            for number in (0..files).filter(|number| !(number + share).is_multiple_of(3)) {
                let content = fs::read(top.join(format!("d{}/f{number}", number % 10)));
                assert!(content.unwrap() == noise(number, 4000), "{number}");
            }
        })
    };
    let readers: Vec<_> = (0..3).map(read).collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn another_user_recalls_his_own_files_only() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let (own, other) = (space.stub("own", &noise(60, MIB)), space.stub("other", &noise(61, MIB)));
    std::os::unix::fs::chown(&own, Some(4321), Some(4321)).unwrap();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(space.scene.scratch.path(), open.clone()).unwrap();
    fs::set_permissions(space.fs(), open.clone()).unwrap();
    let program = space.scene.scratch.join("holdfast");
    fs::copy(e2e::harness::binary(), &program).unwrap();
    // No other user may read the node's folder, which contains its keys.
    fs::set_permissions(space.node().home(), fs::Permissions::from_mode(0o700)).unwrap();
    let public = space.node().home().with_extension("run");
    fs::set_permissions(public.parent().unwrap(), open).unwrap();
    use std::os::unix::process::CommandExt as _;
    let output = Command::new(&program)
        .args(["hsm", "recall", "--json", "--home"])
        .arg(&public)
        .args([&own, &other])
        .uid(4321)
        .gid(4321)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| rows.iter().find(|row| row["path"].as_str().unwrap().ends_with(name));
    assert_eq!(of("own").unwrap()["state"], "p", "{text}");
    assert!(
        of("other").unwrap()["error"]
            .as_str()
            .unwrap()
            .contains("you have no file there"),
        "{text}"
    );
    assert_eq!(space.state(&other), "m");
}

#[test]
fn copies_that_no_file_names_are_released() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let kept = space.stub("kept", &noise(70, MIB));
    let gone = space.stub("gone", &noise(71, MIB));
    fs::remove_file(gone).unwrap();
    let fresh = space.hsm(&["reconcile"], &space.fs()).expect(&[0]).json();
    assert_eq!(
        (&fresh["kept"], &fresh["released"]),
        (&2.into(), &0.into()),
        "the copy should be too young"
    );
    space.scene.server.travel("2h");
    // The first command may fail, because its connection ended with the restart of the server.
    drop(space.hsm(&["reconcile"], &space.fs()));
    let dry = space.hsm(&["reconcile", "--dry-run"], &space.fs()).expect(&[0]).json();
    assert_eq!(dry["released"], 1);
    let done = space.hsm(&["reconcile"], &space.fs()).expect(&[0]).json();
    assert_eq!((&done["kept"], &done["released"]), (&1.into(), &1.into()));
    let after = space.hsm(&["reconcile"], &space.fs()).expect(&[0]).json();
    assert_eq!(
        (&after["kept"], &after["released"]),
        (&1.into(), &0.into()),
        "the copy should be released"
    );
    assert!(fs::read(kept).unwrap() == noise(70, MIB));
}

#[test]
fn stubs_that_were_deleted_come_back() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let (one, two) = (space.stub("sub/one", &noise(72, MIB)), space.stub("two", &noise(73, MIB)));
    fs::set_permissions(&two, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&one).unwrap();
    fs::remove_dir_all(space.fs().join("sub")).unwrap();
    fs::remove_file(&two).unwrap();
    fs::write(&two, b"another file").unwrap();
    let rows = space.hsm(&["undelete"], &space.fs()).expect(&[0]).json_lines();
    assert_eq!(rows.len(), 1, "{rows:?}");
    let after = fs::metadata(&one).unwrap();
    assert_eq!((after.len(), after.mode()), (before.len(), before.mode()));
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(space.state(&one), "m");
    assert!(fs::read(&one).unwrap() == noise(72, MIB));
    assert_eq!(fs::read(&two).unwrap(), b"another file");
    space.migrate(&one);
    assert!(fs::read(&one).unwrap() == noise(72, MIB));
    // The text counts stubs, and not migrated files.
    fs::remove_file(&one).unwrap();
    let top = space.fs();
    let words = ["hsm", "undelete", top.to_str().unwrap()];
    let text = space.node().run(&words).expect(&[0]).stdout;
    let counted: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(counted, ["Stubs", "made:", "1"], "{text}");
    assert!(!text.contains("migrated"), "{text}");
}

#[test]
fn policies_of_a_cluster_are_served_by_lists() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let fs_path = space.fs();
    let odd = space.write("a -- b\nc", &noise(74, MIB));
    let small = space.write("small", b"too small");
    let list = space.scene.scratch.join("list");
    let line =
        |path: &Path| format!("17 4711 0 -- {}\n", path.to_str().unwrap().replace('\n', "\\n"));
    fs::write(&list, line(&odd) + &line(&small)).unwrap();
    let run = |command: &str, about: &Path| {
        space.node().run(&["hsm", "policy", command, about.to_str().unwrap(), "--json"])
    };
    run("TEST", &fs_path).expect(&[0]);
    run("TEST", Path::new("/")).expect(&[12]);
    let states = |command: &str| {
        let rows = run(command, &list).expect(&[0]).json_lines();
        rows.iter().map(|row| row["ok"] == true).collect::<Vec<_>>()
    };
    assert_eq!(states("PREMIGRATE"), [true, false]);
    assert_eq!(space.state(&odd), "p");
    assert_eq!(states("MIGRATE"), [true, false]);
    assert_eq!(space.state(&odd), "m");
    fs::write(&list, line(&odd)).unwrap();
    assert_eq!(states("RECALL"), [true]);
    assert!(fs::read(&odd).unwrap() == noise(74, MIB));
    assert_eq!(states("LIST"), [true]);
    assert_eq!(states("PURGE"), [true]);
    let left = space.hsm(&["reconcile"], &fs_path).expect(&[0]).json();
    assert_eq!(left["kept"], 0, "the copy should be released at once: {left}");
    assert!(!fs::exists(&odd).unwrap());
    fs::write(&list, "nonsense\n").unwrap();
    run("MIGRATE", &list).expect(&[12]).says("line 1");
}

#[test]
fn kernels_that_ask_at_opening_only_recall_files_as_a_whole() {
    let Some(space) = Space::with_keeper(KINDS[0], &["--whole", "0"], &["--opening-only"]) else {
        return;
    };
    let content = noise(80, 3 * MIB);
    for (number, (way, read)) in WAYS.iter().enumerate() {
        let file = space.stub(&format!("file-{number}"), &content);
        let copy = space.fs().join("copy");
        match read(&file, &copy) {
            Some(got) => assert!(got == content, "{way}: the content differs"),
            None => assert!(can_fail(way, "mkfs.ext4"), "{way} failed"),
        }
    }
}
