//! A managed file system that is mounted without a keeper shows no files.

use super::*;

/// Names in the root directory of hidden files, besides the names of the file system itself.
const SHOWN: [&str; 2] = [".holdfast-hidden", "FILES-ARE-HIDDEN"];

impl Space {
    fn names(&self) -> Vec<String> {
        let all = crate::scene::names(&self.fs()).into_iter();
        let mut names: Vec<String> = all.map(|name| String::from_utf8(name).unwrap()).collect();
        names.retain(|name| name != "lost+found");
        names.sort();
        names
    }

    /// Kills all processes, and mounts the file system again without a keeper.
    fn mount_plainly(&mut self) {
        self.kill_all();
        self.remount();
    }

    /// Mounts the file system again. Waits before that, because a killed process may take a moment
    /// to close its files.
    fn remount(&self) {
        self.wait_for("the end of the last process", || self.image.unmount());
        assert!(self.image.mount_again());
    }
}

#[test]
fn mounted_by_others_there_are_no_stubs() {
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &[]) else { continue };
        let (top, deep) = (noise(1, MIB + 3), noise(2, 2 * MIB));
        let top_path = space.stub("top", &top);
        let deep_path = space.stub("2024/deep", &deep);
        fs::set_permissions(space.fs(), fs::Permissions::from_mode(0o751)).unwrap();
        space.node().backup(&space.fs(), &[]).expect(&[0]);
        space.mount_plainly();
        assert_eq!(space.names(), SHOWN);
        for path in [&top_path, &deep_path] {
            assert_eq!(fs::read(path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        }
        let folder = fs::metadata(space.fs().join(SHOWN[0])).unwrap();
        assert_eq!((folder.uid(), folder.permissions().mode() & 0o7777), (0, 0o700));
        // A backup must not regard the other files as deleted.
        let refused = space.node().backup(&space.fs(), &[]).expect(&[4]);
        assert!(refused.failures()[0].1.contains("hidden"), "{refused:?}");
        // Files that were made meanwhile are kept, unless their names exist already.
        fs::create_dir(space.fs().join("2024")).unwrap();
        fs::write(space.fs().join("2024/late"), "late").unwrap();
        fs::write(space.fs().join("new"), "new").unwrap();
        space.start(&[]);
        assert_eq!(space.names(), ["2024", "new", "top"]);
        assert!(fs::read(&top_path).unwrap() == top && fs::read(&deep_path).unwrap() == deep);
        assert_eq!(fs::read(space.fs().join("new")).unwrap(), b"new");
        assert!(!space.fs().join("2024/late").try_exists().unwrap());
        assert_eq!(fs::metadata(space.fs()).unwrap().permissions().mode() & 0o7777, 0o751);
        space.node().backup(&space.fs(), &[]).expect(&[0]).counts(&[("expired", 0)]);
        space.migrate(&deep_path);
        space.mount_plainly();
        assert_eq!(space.names(), [SHOWN[0], "2024", SHOWN[1]]);
        // There are two directories of that name: the hidden directory, and a directory that was
        // made meanwhile. The second directory is found again under another name.
        fs::rename(space.fs().join("2024"), space.fs().join("late")).unwrap();
        space.start(&[]);
        assert_eq!(fs::read(space.fs().join("late/late")).unwrap(), b"late");
        assert!(fs::read(&deep_path).unwrap() == deep);
    }
}

#[test]
fn who_is_told_twice_to_end_hides_the_files() {
    let Some(mut space) = Space::new(KINDS[1], &[]) else { return };
    let content = noise(3, MIB);
    let path = space.stub("file", &content);
    let keeper = space.keeper.take().unwrap();
    keeper.signal(Signal::TERM);
    space.wait_for("the guard", || fs::read(&path).is_err());
    assert_eq!(fs::read(&path).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
    let open = File::open(space.fs()).unwrap();
    keeper.signal(Signal::TERM);
    assert!(keeper.ends_within(Duration::from_secs(60)), "the keeper should end");
    assert_eq!(fs::read(&path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(space.names(), SHOWN);
    drop(open);
    space.start(&[]);
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn what_is_given_up_is_as_it_was() {
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &["--hidden", "no"]) else { continue };
        assert!(space.names().is_empty());
        // `lost+found` is not hidden with the other files, so the comparison would miss it.
        drop(fs::remove_dir(space.fs().join("lost+found")));
        let small = space.write("a/small", b"small");
        let large = space.write("large", &noise(4, MIB));
        assert!(shell("setfattr -n user.note -v kept \"$1\"", &space.fs(), &space.fs()));
        fs::set_permissions(space.fs(), fs::Permissions::from_mode(0o1775)).unwrap();
        let before = crate::scene::manifest(&space.fs());
        // A change of `--hidden` takes effect at the next start.
        let fs_path = space.fs();
        let fs_name = fs_path.to_str().unwrap();
        for (word, hides) in [("yes", true), ("no", false), ("yes", true)] {
            space.node().run(&["hsm", "add", fs_name, "--hidden", word]).expect(&[0]);
            space.kill_all();
            space.start(&[]);
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let from_folder = format!("/.holdfast-hidden/files {fs_name} ");
            assert_eq!(mounts.contains(&from_folder), hides, "{word}");
            e2e::manifest::assert_same(&before, &crate::scene::manifest(&fs_path));
        }
        space.migrate(&large);
        space
            .node()
            .run(&["hsm", "remove", fs_name])
            .expect(&[12])
            .says("would read as zeros");
        space.hsm(&["recall", "--resident"], &fs_path).expect(&[0]);
        space.node().run(&["hsm", "remove", fs_name]).expect(&[0]);
        e2e::manifest::assert_same(&before, &crate::scene::manifest(&fs_path));
        space.kill_all();
        space.remount();
        assert_eq!(space.names(), ["a", "large"]);
        e2e::manifest::assert_same(&before, &crate::scene::manifest(&fs_path));
        assert_eq!(fs::read(small).unwrap(), b"small");
    }
}

/// Stubs that fsck had put into `lost+found`, which is not among the shown files, were not counted,
/// and read as zeros once the management had ended.
#[test]
fn a_stub_that_fsck_has_found_keeps_its_file_system_managed() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(6, MIB);
    let path = space.stub("file", &content);
    let fs_path = space.fs();
    let fs_name = fs_path.to_str().unwrap();
    let (hidden, found) = (fs_path.join(SHOWN[0]).join("files"), fs_path.join("lost+found/#12"));
    space.mount_plainly();
    fs::rename(hidden.join("file"), &found).unwrap();
    space.start(&[]);
    let refused = space.node().run(&["hsm", "remove", fs_name]).expect(&[12]);
    drop(refused.says("1 file in lost+found").says("would read as zeros"));
    // This is what the message says.
    space.mount_plainly();
    fs::rename(&found, hidden.join("file")).unwrap();
    space.start(&[]);
    space.hsm(&["recall", "--resident"], &fs_path).expect(&[0]);
    space.node().run(&["hsm", "remove", fs_name]).expect(&[0]);
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn hiding_that_was_cut_off_goes_on_and_what_cannot_be_hidden_is_said() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(5, MIB);
    let path = space.stub("file", &content);
    space.write("other", b"other");
    space.mount_plainly();
    // This is the state after a power cut while files were moved, in either direction.
    let hidden = space.fs().join(SHOWN[0]).join("files");
    fs::rename(hidden.join("other"), space.fs().join("other")).unwrap();
    space.start(&[]);
    assert_eq!(space.names(), ["file", "other"]);
    assert!(fs::read(&path).unwrap() == content);
    space.mount_plainly();
    // This is the state after a power cut before the directory had its name.
    fs::rename(&hidden, space.fs().join(SHOWN[0]).join("new")).unwrap();
    fs::rename(space.fs().join(SHOWN[0]).join("new/file"), &path).unwrap();
    fs::rename(space.fs().join(SHOWN[0]).join("new/other"), space.fs().join("other")).unwrap();
    space.start(&[]);
    assert_eq!(space.names(), ["file", "other"]);
    assert!(fs::read(&path).unwrap() == content);
    space.mount_plainly();
    let below = space.fs().join("below");
    fs::create_dir(&below).unwrap();
    assert!(succeeds(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&below)));
    let refused = space.node().run(&["hsm", "run"]).expect(&[12]);
    drop(refused.says("is mounted inside it"));
    assert_eq!(space.names(), [SHOWN[0], SHOWN[1], "below"]);
    assert!(succeeds(Command::new("umount").arg(&below)));
    space.start(&[]);
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn sockets_in_the_root_directory_are_shown_and_given_back() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let Some(space) = Space::new(KINDS[0], &["--hidden", "no"]) else { return };
    let fs_path = space.fs();
    let fs_name = fs_path.to_str().unwrap();
    let make = |name: &str| {
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, fs_path.join(name), FileType::Socket, mode, 0).unwrap();
    };
    let is_there = |name: &str| fs_path.join(name).symlink_metadata().is_ok();
    make("early");
    space.node().run(&["hsm", "add", fs_name, "--hidden", "yes"]).expect(&[0]);
    assert!(is_there("early"), "programs look for their sockets");
    make("late");
    space.node().run(&["hsm", "remove", fs_name]).expect(&[0]);
    assert!(is_there("early") && is_there("late"));
}
