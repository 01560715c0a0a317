//! Files that are out of sight, because their file system is not mounted, or because another mount
//! covers their directory; and directories that are in sight twice.

use super::*;

/// An empty file system over a directory, until this value is dropped.
struct Cover(PathBuf);

impl Cover {
    fn over(folder: &Path) -> Self {
        assert!(succeeds(Command::new("mount").args(["-t", "tmpfs", "cover"]).arg(folder)));
        Self(folder.to_owned())
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        let _unmounted = succeeds(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

#[test]
fn copies_of_files_that_are_out_of_sight_stay() {
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &[]) else { continue };
        let content = noise(1, MIB);
        let stub = space.stub("folder/file", &content);
        let other = space.another(kind);
        let stub_of_other = other.path().join("file");
        fs::write(&stub_of_other, &content).unwrap();
        space.migrate(&stub_of_other);
        space.scene.server.travel("2h");
        // The first command may fail, because its connection ended with the restart of the server.
        drop(space.hsm(&["reconcile", "--dry-run"], &space.fs()));
        let check_kept = |folder: &Path| {
            let done = space.hsm(&["reconcile"], folder).expect(&[0]).json();
            let counts = (&done["kept"], &done["released"]);
            assert_eq!(counts, (&1.into(), &0.into()), "{}: {done}", kind[0]);
        };
        let cover = Cover::over(stub.parent().unwrap());
        check_kept(&space.fs());
        drop(cover);
        space.wait_for("the unmounting", || other.unmount());
        space.hsm(&["reconcile"], other.path()).expect(&[12]).says("not mounted");
        space.wait_for_state(other.path(), "not mounted");
        assert!(other.mount_again());
        space.wait_for_state(other.path(), "managed");
        check_kept(other.path());
        assert!(fs::read(&stub).unwrap() == content, "{}", kind[0]);
        assert!(fs::read(&stub_of_other).unwrap() == content, "{}", kind[0]);
    }
}

#[test]
fn a_file_system_with_covered_stubs_stays_managed() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(1, MIB);
    let stub = space.stub("folder/file", &content);
    let (fs_path, cover) = (space.fs(), Cover::over(stub.parent().unwrap()));
    let remove = || space.node().run(&["hsm", "remove", fs_path.to_str().unwrap()]);
    remove().expect(&[12]).says("is mounted inside");
    drop(cover);
    remove().expect(&[12]).says("would read as zeros");
    assert!(fs::read(&stub).unwrap() == content);
}

#[test]
fn hiding_is_not_switched_off_under_another_file_system() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let (stub, content) = (space.stub("file", &noise(1, MIB)), noise(1, MIB));
    let folder = space.fs().join("folder");
    fs::create_dir(&folder).unwrap();
    let (fs_path, cover) = (space.fs(), Cover::over(&folder));
    fs::write(folder.join("above"), b"of the other").unwrap();
    let add = ["hsm", "add", fs_path.to_str().unwrap(), "--hidden", "no", "--json"];
    let told = space.node().run(&add).expect(&[12]).json_lines().remove(0);
    assert_eq!(told["state"], "failed", "{told}");
    let problem = told["problem"].as_str().unwrap();
    assert!(problem.contains("is mounted inside it"), "{told}");
    assert_eq!(fs::read(folder.join("above")).unwrap(), b"of the other");
    assert!(fs::read(&stub).unwrap() == content);
    drop(cover);
    let told = space.node().run(&add).expect(&[0]).json();
    assert_eq!(told["state"], "managed", "{told}");
    assert!(fs::read(&stub).unwrap() == content);
}

#[test]
fn no_stub_is_made_in_another_file_system() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(1, MIB);
    let stub = space.stub("folder/file", &content);
    let folder = stub.parent().unwrap();
    fs::remove_file(&stub).unwrap();
    let cover = Cover::over(folder);
    let rows = space.hsm(&["undelete"], &stub).expect(&[4]).json_lines();
    let error = rows[0]["error"].as_str().unwrap();
    assert!(error.contains("another file system is mounted there"), "{rows:?}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "a stub would read as zeros there");
    drop(cover);
    space.hsm(&["undelete"], &stub).expect(&[0]);
    assert!(fs::read(&stub).unwrap() == content);
}

#[test]
fn most_copies_are_released_only_if_it_is_confirmed() {
    const FILES: u64 = 20;
    let Some(mut space) = Space::new(KINDS[0], &["--min-size", "1"]) else { return };
    let folder = space.fs().join("many");
    for number in 0..FILES {
        space.write(&format!("many/{number}"), &noise(number, 10_000));
    }
    space.migrate(&folder);
    let kept = space.stub("kept", &noise(99, MIB));
    space.scene.server.travel("2h");
    // The first command may fail, because its connection ended with the restart of the server.
    drop(space.hsm(&["reconcile", "--dry-run"], &space.fs()));
    fs::remove_dir_all(&folder).unwrap();
    let check = |option: Option<&str>, code: i32, expected: [u64; 3]| {
        let words: Vec<&str> = ["reconcile"].into_iter().chain(option).collect();
        let done = space.hsm(&words, &space.fs()).expect(&[code]).json();
        let counts = ["kept", "released", "doubtful"].map(|key| done[key].as_u64().unwrap());
        assert_eq!(counts, expected, "{option:?}");
    };
    check(Some("--dry-run"), 0, [1, FILES, 0]);
    check(None, 8, [1, 0, FILES]);
    let fs_path = space.fs();
    let text = space.node().run(&["hsm", "reconcile", fs_path.to_str().unwrap()]).expect(&[8]);
    text.says("20 of 21 copies").says("reconcile --confirm'");
    check(Some("--confirm"), 0, [1, FILES, 0]);
    check(None, 0, [1, 0, 0]);
    assert!(fs::read(kept).unwrap() == noise(99, MIB));
}

#[test]
fn a_directory_that_is_mounted_at_a_second_place_is_refused() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    space.write("folder/file", b"content");
    let (fs_path, folder) = (space.fs(), space.fs().join("folder"));
    let second = space.scene.scratch.folder("second");
    for (source, part) in [(&folder, "only a directory of"), (&fs_path, "is managed already")] {
        let bind = succeeds(Command::new("mount").arg("--bind").args([source, &second]));
        assert!(bind, "{part}");
        let refused = space.node().run(&["hsm", "add", second.to_str().unwrap()]);
        assert!(succeeds(Command::new("umount").arg(&second)), "{part}");
        refused.expect(&[12]).says(part);
    }
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"content");
}
