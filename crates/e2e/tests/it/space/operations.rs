//! Every way in which a program can use a file: each gets the content, or an error.

use rustix::fs::{FallocateFlags, copy_file_range, fallocate};

use super::*;

const PROGRAM: &str = include_str!("operations.py");
/// Exit code of the Python program if this machine or file system does not support the way.
const LACKING: i32 = 77;
const SIZE: usize = 3 * MIB + 12_345;
/// Values of `--whole`: files are recalled by ranges, or as a whole.
const WHOLES: [&str; 2] = ["0", "256M"];

const READS: [&str; 16] = [
    "preadv2",
    "preadv2 without waiting",
    "direct",
    "aio",
    "uring",
    "mmap private",
    "mmap populate",
    "mmap protected later",
    "sendfile",
    "splice",
    "copy_file_range",
    "clone range",
    "fadvise",
    "readahead",
    "path and reopen",
    "handle",
];

fn on_each(test: impl Fn(&Space, &str)) {
    for kind in KINDS {
        for whole in WHOLES {
            let Some(space) = Space::new(kind, &["--whole", whole, "--min-size", "1"]) else {
                continue;
            };
            test(&space, &format!("{} --whole {whole}", kind[0]));
        }
    }
}

fn has_python() -> bool {
    let has = succeeds(Command::new("python3").args(["-c", ""]));
    if !has {
        e2e::skip::say("python3 is not installed");
    }
    has
}

/// Runs the Python program for one way and returns its output; `None` if this kernel or file system
/// does not support the way.
fn python(way: &str, file: &Path, other: &Path, about: &str) -> Option<String> {
    let mut command = Command::new("python3");
    let output = command.args(["-c", PROGRAM, way]).arg(file).arg(other).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    if output.status.code() == Some(LACKING) {
        e2e::skip::say(&format!("{about}: {}", said.trim()));
        let may_lack = ["aio", "uring"].contains(&way) || about.starts_with("mkfs.ext4");
        assert!(may_lack, "{about}: {said}");
        return None;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{about}: {way}: {said}{errors}");
    Some(said)
}

impl Space {
    /// Makes `count` stubs, which are migrated together.
    fn stubs(&self, content: &[u8], count: usize) -> Vec<PathBuf> {
        let paths: Vec<PathBuf> = (0..count)
            .map(|number| self.write(&format!("many/{number}"), content))
            .collect();
        self.migrate(&self.fs().join("many"));
        assert!(paths.iter().all(|path| is_empty(path)), "stubs take space");
        paths
    }
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).unwrap().blocks() * 512 < 64 << 10
}

#[test]
fn every_call_that_reads_a_stub_gets_its_content() {
    if !has_python() {
        return;
    }
    on_each(|space, about| {
        let content = noise(100, SIZE);
        let copy = space.fs().join("copy");
        for (path, way) in space.stubs(&content, READS.len()).iter().zip(READS) {
            if python(way, path, &copy, about).is_some() {
                assert!(fs::read(&copy).unwrap() == content, "{about}: {way}");
            }
            assert!(fs::read(path).unwrap() == content, "{about}: {way}, afterwards");
        }
    });
}

#[test]
fn a_stub_is_deduplicated_by_its_content() {
    if !has_python() {
        return;
    }
    on_each(|space, about| {
        let content = noise(101, SIZE);
        let stubs = space.stubs(&content, 3);
        let (same, other) = (space.write("same", &content), space.write("other", &vec![0; SIZE]));
        let said = |one: &Path, two: &Path| {
            python("dedupe", one, two, about).map(|said| said.trim().to_owned())
        };
        // The kernel deduplicates up to 16 MiB in one call.
        let all = Some((SIZE & !4095).to_string());
        for (one, two, expected) in [
            (&stubs[0], &same, &all),
            (&same, &stubs[1], &all),
            (&stubs[2], &other, &Some("differs".to_owned())),
        ] {
            let got = said(one, two);
            assert!(got.is_none() || got == *expected, "{about}: {got:?} for {expected:?}");
        }
        assert!(stubs.iter().all(|stub| fs::read(stub).unwrap() == content), "{about}");
        assert!(fs::read(&same).unwrap() == content, "{about}");
    });
}

/// Function that changes the file at the first path, and its expected content in the same way. Some
/// functions use the file at the second path. Returns true if this file system supports the change.
type Change = fn(&Path, &Path, &mut Vec<u8>, &str) -> bool;

fn allocates(path: &Path, mode: FallocateFlags, offset: u64, bytes: u64) -> bool {
    let done = fallocate(writable(path), mode, offset, bytes);
    let lacks = done == Err(rustix::io::Errno::OPNOTSUPP);
    assert!(lacks || done.is_ok(), "{mode:?}: {done:?}");
    !lacks
}

const CHANGES: [(&str, Change); 14] = [
    ("zero a range", |path, _, content, _| {
        content[1_000_000..1_700_000].fill(0);
        allocates(path, FallocateFlags::ZERO_RANGE, 1_000_000, 700_000)
    }),
    ("collapse", |path, _, content, _| {
        content.drain(MIB..2 * MIB);
        allocates(path, FallocateFlags::COLLAPSE_RANGE, MIB as u64, MIB as u64)
    }),
    ("insert", |path, _, content, _| {
        content.splice(MIB..MIB, vec![0; MIB]);
        allocates(path, FallocateFlags::INSERT_RANGE, MIB as u64, MIB as u64)
    }),
    ("punch to the end", |path, _, content, _| {
        content[2_000_001..].fill(0);
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        allocates(path, mode, 2_000_001, 9 << 20)
    }),
    ("allocate what is there", |path, _, _, _| {
        allocates(path, FallocateFlags::empty(), 0, SIZE as u64)
    }),
    ("allocate beyond the end", |path, _, content, _| {
        content.resize(4 * MIB, 0);
        allocates(path, FallocateFlags::empty(), 0, 4 * MIB as u64)
    }),
    ("allocate and keep the size", |path, _, _, _| {
        allocates(path, FallocateFlags::KEEP_SIZE, 0, 5 * MIB as u64)
    }),
    ("empty by path and lengthen", |path, _, content, _| {
        content.clear();
        content.resize(MIB, 0);
        shell("truncate -s 0 \"$1\"; truncate -s 1M \"$1\"", path, path)
    }),
    ("cut by path", |path, _, content, _| {
        content.truncate(1_234_567);
        shell("truncate -s 1234567 \"$1\"", path, path)
    }),
    ("lengthen by path", |path, _, content, _| {
        content.resize(5_000_001, 0);
        shell("truncate -s 5000001 \"$1\"", path, path)
    }),
    ("write a page past the cache", |path, _, content, _| {
        content[MIB..MIB + 4096].fill(0);
        let dd = "dd if=/dev/zero of=\"$1\" bs=4096 count=1 seek=256 oflag=direct conv=notrunc";
        shell(dd, path, path)
    }),
    ("copy_file_range into", |path, other, content, _| {
        let (mut from, mut to) = (77, MIB as u64 + 1);
        let source = File::open(other).unwrap();
        let copied = copy_file_range(source, Some(&mut from), writable(path), Some(&mut to), MIB);
        let count = copied.unwrap();
        assert!(count > 0);
        let other = fs::read(other).unwrap();
        content[MIB + 1..][..count].copy_from_slice(&other[77..][..count]);
        true
    }),
    ("write by mapping", |path, other, content, about| {
        content[1_000_000..1_000_005].copy_from_slice(b"HELLO");
        python("map", path, other, about).is_some()
    }),
    ("clone into", |path, other, content, about| {
        content[MIB..2 * MIB].copy_from_slice(&fs::read(other).unwrap()[..MIB]);
        python("clone into", path, other, about).is_some()
    }),
];

const MOVES: [&str; 2] = ["collapse", "insert"];

#[test]
fn every_call_that_changes_a_stub_leaves_the_rest_as_it_was() {
    if !has_python() {
        return;
    }
    on_each(|space, about| {
        let before = noise(102, SIZE);
        let other = space.write("other", &noise(103, 2 * MIB));
        for (path, (way, change)) in space.stubs(&before, CHANGES.len()).iter().zip(CHANGES) {
            // The kernel reports these calls like a write, so they do not work with recalls by
            // ranges.
            if MOVES.contains(&way) && about.ends_with("--whole 0") {
                continue;
            }
            let mut content = before.clone();
            if !change(path, &other, &mut content, about) {
                assert!(!about.starts_with("mkfs.xfs"), "{about}: {way} is not supported");
                content.clone_from(&before);
            }
            assert!(fs::read(path).unwrap() == content, "{about}: {way}");
            space.migrate(path);
            assert!(fs::read(path).unwrap() == content, "{about}: {way}, migrated again");
        }
    });
}

/// Commands that need no content. They run while the server is down, so that a request for content
/// would fail.
const WITHOUT_CONTENT: [(&str, &str); 11] = [
    ("look", "stat \"$1\"; ls -ls \"$1\"; test -r \"$1\""),
    ("attributes", "setfattr -n user.note -v kept \"$1\"; getfattr -d -m - \"$1\""),
    ("mode", "chmod 640 \"$1\""),
    ("owner", "chown 12:34 \"$1\""),
    ("times", "touch -c -a \"$1\""),
    ("rename", "mv \"$1\" \"$2\"; mv \"$2\" \"$1\""),
    ("exchange", "mv \"$1\" \"$2\"; echo > \"$1\"; mv \"$2\" \"$1\""),
    ("link", "ln \"$1\" \"$2\"; rm \"$1\"; mv \"$2\" \"$1\""),
    ("link by a symbol", "ln -s \"$1\" \"$2\"; readlink -f \"$2\"; stat -L \"$2\"; rm \"$2\""),
    ("list", "find \"$1\" -size +1M -newermt 2000-01-01 -perm -200"),
    ("measure", "du -k --apparent-size \"$1\""),
];

#[test]
fn what_is_about_a_stub_recalls_nothing() {
    for kind in KINDS {
        for whole in WHOLES {
            let Some(mut space) = Space::new(kind, &["--whole", whole]) else { continue };
            let content = noise(104, MIB);
            let stubs = space.stubs(&content, WITHOUT_CONTENT.len() + 2);
            let (about, second) = (format!("{} --whole {whole}", kind[0]), space.fs().join("name"));
            space.scene.server.kill9();
            for (path, (what, script)) in stubs.iter().zip(WITHOUT_CONTENT) {
                assert!(shell(script, path, &second), "{about}: {what}");
                assert!(is_empty(path), "{about}: {what} has recalled the file");
            }
            use std::os::unix::fs::OpenOptionsExt as _;
            let emptied = &stubs[WITHOUT_CONTENT.len()];
            let only_path = File::options().read(true).custom_flags(libc::O_PATH).open(emptied);
            assert_eq!(only_path.unwrap().metadata().unwrap().len(), MIB as u64);
            assert!(is_empty(emptied), "{about}");
            fs::remove_file(&stubs[WITHOUT_CONTENT.len() + 1]).unwrap();
            space.scene.server.restart();
            fs::write(emptied, b"anew").unwrap();
            assert_eq!(fs::read(emptied).unwrap(), b"anew", "{about}");
            for path in &stubs[..WITHOUT_CONTENT.len()] {
                assert_eq!(space.state(path), "m", "{about}: {path:?}");
                assert!(fs::read(path).unwrap() == content, "{about}: {path:?}");
            }
        }
    }
}

#[test]
fn what_a_file_is_opened_for_by_ranges_recalls_nothing_by_itself() {
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &["--whole", "0"]) else { continue };
        let stubs = space.stubs(&noise(105, MIB), 2);
        space.scene.server.kill9();
        let script = "exec 3<>\"$1\"; flock 3; exec 3<&-; dd if=\"$1\" of=/dev/null count=0; \
                      chattr +i \"$1\"; lsattr \"$1\"; chattr -i \"$1\"";
        assert!(shell(script, &stubs[0], &stubs[0]), "{}", kind[0]);
        assert!(is_empty(&stubs[0]), "{}", kind[0]);
        fs::write(&stubs[1], b"anew").unwrap();
        assert_eq!(fs::read(&stubs[1]).unwrap(), b"anew", "{}", kind[0]);
        space.scene.server.restart();
        assert!(fs::read(&stubs[0]).unwrap() == noise(105, MIB), "{}", kind[0]);
    }
}

#[test]
fn programs_and_images_that_were_migrated_are_used() {
    on_each(|space, about| {
        let program = space.fs().join("program");
        fs::copy("/bin/ls", &program).unwrap();
        space.migrate(&program);
        assert!(succeeds(Command::new(&program).arg("/")), "{about}: a program");
        let content = noise(106, SIZE & !4095);
        let copy = space.scene.scratch.join("copy");
        for (number, options) in ["", "--direct-io=on"].iter().enumerate() {
            let path = space.stub(&format!("image-{number}"), &content);
            let script = format!(
                "l=$(losetup -f --show -r {options} \"$1\"); \
                 dd if=$l of=\"$2\" bs=64k status=none; losetup -d $l"
            );
            assert!(shell(&script, &path, &copy), "{about}: a device {options}");
            assert!(fs::read(&copy).unwrap() == content, "{about}: a device {options}");
        }
    });
}

/// A mount that lasts until this value is dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(space: &Space, name: &str, options: &[&str]) -> Option<Self> {
        let folder = space.scene.scratch.folder(name);
        let mounts = succeeds(Command::new("mount").args(options).arg(&folder));
        mounts.then_some(Self(folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _unmounted = succeeds(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

/// Checks that the result is the content, or an error.
#[track_caller]
fn assert_right(got: std::io::Result<Vec<u8>>, content: &[u8], about: &str) {
    match got {
        Ok(got) => assert!(got == content, "{about}: the content differs"),
        Err(error) => {
            let clean = [libc::EPERM, libc::EIO, libc::EAGAIN, libc::EBUSY, libc::EROFS];
            assert!(clean.contains(&error.raw_os_error().unwrap()), "{about}: {error}");
        }
    }
}

#[test]
fn a_mount_that_is_only_read_gives_the_content() {
    on_each(|space, about| {
        let content = noise(107, SIZE);
        let stubs = space.stubs(&content, 2);
        let fs_path = space.fs();
        let options = ["--bind", "-o", "ro", fs_path.to_str().unwrap()];
        let mounted = Mount::new(space, "bound", &options).expect("a bind mount");
        let name = mounted.0.join("many/0");
        assert!(fs::write(&name, b"no").is_err(), "{about}: the mount should be read-only");
        assert_right(fs::read(&name), &content, about);
        let copy = space.scene.scratch.join("copy");
        if shell("cp \"$1\" \"$2\"", &mounted.0.join("many/1"), &copy) {
            assert!(fs::read(&copy).unwrap() == content, "{about}: a copy");
        }
        assert!(stubs.iter().all(|stub| fs::read(stub).unwrap() == content), "{about}");
    });
}

#[test]
fn who_looks_through_an_overlay_reads_no_zeros() {
    on_each(|space, about| {
        let content = noise(108, SIZE);
        let stubs = space.stubs(&content, 4);
        let of = |name: &str| space.scene.scratch.folder(name).to_str().unwrap().to_owned();
        let (upper, work) = (of("upper"), of("work"));
        let lower = space.fs();
        let layers = format!("lowerdir={},upperdir={upper},workdir={work}", lower.display());
        let options = ["-t", "overlay", "none", "-o", &layers];
        let Some(mounted) = Mount::new(space, "merged", &options) else {
            e2e::skip::say("this machine cannot mount an overlay");
            return;
        };
        let path = |number: usize| mounted.0.join(format!("many/{number}"));
        assert_right(fs::read(path(0)), &content, about);
        let copy = space.scene.scratch.join("copy");
        if shell("cp \"$1\" \"$2\"", &path(1), &copy) {
            assert!(fs::read(&copy).unwrap() == content, "{about}: a copy");
        }
        // A change copies the file to the upper layer.
        let appended = File::options().append(true).open(path(2));
        let appended = appended.and_then(|mut file| file.write_all(b"more"));
        let more = [&content[..], b"more"].concat();
        assert_right(appended.and_then(|()| fs::read(path(2))), &more, about);
        if fs::set_permissions(path(3), fs::Permissions::from_mode(0o600)).is_ok() {
            assert_right(fs::read(path(3)), &content, about);
        }
        assert!(stubs.iter().all(|stub| fs::read(stub).unwrap() == content), "{about}");
    });
}

#[test]
fn a_stub_that_nobody_may_change_reads_no_zeros() {
    on_each(|space, about| {
        let content = noise(109, SIZE);
        let stubs = space.stubs(&content, 2);
        for path in &stubs {
            assert!(shell("chattr +i \"$1\"", path, path), "{about}");
        }
        let got = fs::read(&stubs[0]);
        let copy = space.fs().join("copy");
        let copied = shell("cp --reflink=never \"$1\" \"$2\"", &stubs[1], &copy);
        for path in &stubs {
            assert!(shell("chattr -i \"$1\"", path, path), "{about}");
        }
        assert_right(got, &content, about);
        assert!(!copied || fs::read(&copy).unwrap() == content, "{about}: a copy");
        assert!(stubs.iter().all(|stub| fs::read(stub).unwrap() == content), "{about}");
    });
}

#[test]
fn a_subvolume_is_refused() {
    for whole in WHOLES {
        let Some(space) = Space::new(KINDS[2], &["--whole", whole]) else { continue };
        let folder = space.fs().join("volume");
        assert!(shell("btrfs subvolume create \"$1\"", &folder, &folder));
        let content = noise(110, SIZE);
        let path = space.write("volume/file", &content);
        let rows = space.hsm(&["migrate"], &path).expect(&[4]).json_lines();
        assert!(rows[0]["error"].as_str().unwrap().contains("not managed"), "{rows:?}");
        // A migration of the whole file system does not touch the subvolume either.
        drop(space.hsm(&["migrate"], &space.fs()));
        assert!(!is_empty(&path), "--whole {whole}");
        assert!(fs::read(&path).unwrap() == content, "--whole {whole}");
    }
}
