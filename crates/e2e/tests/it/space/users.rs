//! Users of a node: files that they deleted, small files, files with several names.

use std::os::unix::process::CommandExt as _;

use super::*;

const USER: u32 = 4321;

impl Space {
    /// Lets every user reach the file system, and a copy of the program. Returns the program.
    fn open_to_users(&self) -> PathBuf {
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.scene.scratch.path(), open.clone()).unwrap();
        fs::set_permissions(self.fs(), open.clone()).unwrap();
        let public = self.node().home().with_extension("run");
        fs::set_permissions(public.parent().unwrap(), open).unwrap();
        let program = self.scene.scratch.join("holdfast");
        fs::copy(e2e::harness::binary(), &program).unwrap();
        program
    }

    /// Runs a command as another user; returns its documents.
    fn as_user(&self, program: &Path, words: &[&str], path: &Path) -> Vec<Value> {
        let home = self.node().home().with_extension("run");
        let output = Command::new(program)
            .args(words)
            .args(["--json", "--home"])
            .args([&home, path])
            .uid(USER)
            .gid(USER)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn a_deleted_file_comes_back_by_its_path() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let content = |seed| noise(seed, MIB);
    let one = space.stub("folder/one", &content(1));
    let two = space.stub("folder/two", &content(2));
    let other = space.stub("other", &content(3));
    let folder = space.fs().join("folder");
    [&one, &two, &other].into_iter().for_each(|path| fs::remove_file(path).unwrap());
    let rows = space.hsm(&["undelete"], &one).expect(&[0]).json_lines();
    assert_eq!((rows.len(), &rows[0]["state"]), (1, &"m".into()), "{rows:?}");
    assert!(fs::read(&one).unwrap() == content(1));
    assert!(!two.try_exists().unwrap() && !other.try_exists().unwrap());
    // The other command knows the path too, and a folder stands for everything in it.
    let made = space.node().run(&["undelete", two.to_str().unwrap()]).expect(&[0]);
    made.says("Stubs made:                    1");
    assert!(fs::read(&two).unwrap() == content(2));
    fs::remove_dir_all(&folder).unwrap();
    let rows = space.hsm(&["undelete"], &folder).expect(&[0]).json_lines();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(fs::read(&two).unwrap() == content(2));
    // Whatever cannot come back is said.
    let refused = |path: &Path| {
        let rows = space.hsm(&["undelete"], path).expect(&[4]).json_lines();
        rows[0]["error"].as_str().unwrap().to_owned()
    };
    assert!(refused(&space.fs().join("never")).contains("no copy"));
    assert!(refused(&one).contains("was not deleted"));
    fs::write(&other, b"another file").unwrap();
    assert!(refused(&other).contains("another file has this path"));
    let moved = space.fs().join("moved");
    space.migrate(&two);
    fs::rename(&two, &moved).unwrap();
    assert!(refused(&two).contains(&format!("it is at {}", moved.display())));
    space
        .node()
        .run(&["undelete", "/proc/version"])
        .expect(&[12])
        .says("no managed");
}

#[test]
fn a_file_whose_copy_was_released_comes_back_with_its_content() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(1, MIB);
    let stub = space.stub("folder/file", &content);
    fs::remove_file(&stub).unwrap();
    space.scene.server.travel("2h");
    let fs_path = space.fs();
    // The first command may fail, because its connection ended with the restart of the server.
    let reconnect = |space: &Space| drop(space.hsm(&["reconcile", "--dry-run"], &fs_path));
    reconnect(&space);
    let done = space.hsm(&["reconcile"], &fs_path).expect(&[0]).json();
    assert_eq!(done["released"], 1, "{done}");
    let rows = space.hsm(&["undelete"], &stub).expect(&[0]).json_lines();
    assert_eq!((rows.len(), &rows[0]["state"]), (1, &"p".into()), "{rows:?}");
    space.scene.server.kill9();
    assert!(fs::read(&stub).unwrap() == content, "it needs no copy");
    space.scene.server.restart();
    reconnect(&space);
    space.migrate(&stub);
    let done = space.hsm(&["reconcile"], &fs_path).expect(&[0]).json();
    assert_eq!((&done["kept"], done["expiring"].as_array()), (&1.into(), Some(&Vec::new())));
    assert!(fs::read(&stub).unwrap() == content);
}

#[test]
fn users_get_their_own_files_back() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let program = space.open_to_users();
    let own = space.stub("home/own", &noise(4, MIB));
    let foreign = space.stub("home/foreign", &noise(5, MIB));
    let elsewhere = space.stub("elsewhere", &noise(6, MIB));
    for path in [&own, &elsewhere, &space.fs().join("home")] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
    // The owner at the time of the migration counts.
    for path in [&own, &elsewhere] {
        space.hsm(&["recall"], path).expect(&[0]);
        writable(path).write_all_at(b"X", 0).unwrap();
        space.migrate(path);
    }
    [&own, &foreign, &elsewhere]
        .into_iter()
        .for_each(|path| fs::remove_file(path).unwrap());
    let rows = space.as_user(&program, &["hsm", "undelete"], &own);
    assert_eq!(rows[0]["state"], "m", "{rows:?}");
    assert_eq!(fs::metadata(&own).unwrap().uid(), USER);
    assert_eq!(fs::read(&own).unwrap()[..], [&b"X"[..], &noise(4, MIB)[1..]].concat()[..]);
    let refused = |path: &Path| {
        let rows = space.as_user(&program, &["hsm", "undelete"], path);
        rows[0]["error"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(&foreign), "you have no file there");
    assert_eq!(refused(Path::new("/proc/version")), "you have no file there");
    assert!(refused(&elsewhere).contains("its folder"), "the folder belongs to root");
    assert!(!foreign.try_exists().unwrap() && !elsewhere.try_exists().unwrap());
}

#[test]
fn every_name_of_a_file_migrates_and_comes_back() {
    for kind in KINDS {
        let Some(space) = Space::new(kind, &[]) else { continue };
        let content = noise(7, MIB);
        let first = space.write("tree/first", &content);
        let second = space.fs().join("tree/second");
        let third = space.fs().join("third");
        fs::hard_link(&first, &second).unwrap();
        fs::hard_link(&first, &third).unwrap();
        let rows = space.hsm(&["migrate"], &space.fs()).expect(&[0]).json_lines();
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert!(rows.iter().all(|row| row["state"] == "m"), "{}: {rows:?}", kind[0]);
        // The space is freed once.
        let freed: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
        assert!(freed < 2 * MIB as u64, "{}: {rows:?}", kind[0]);
        let kept = space.hsm(&["reconcile", "--dry-run"], &space.fs()).expect(&[0]).json();
        assert_eq!(kept["kept"], 1, "the content should be sent once: {kept}");
        // The server knows the name by which the file was found first.
        let error = |path: &Path| {
            let rows = space.hsm(&["undelete"], path).expect(&[4]).json_lines();
            rows[0]["error"].as_str().unwrap().to_owned()
        };
        let (known, others): (Vec<&PathBuf>, Vec<_>) = [&first, &second, &third]
            .into_iter()
            .partition(|path| error(path).contains("it was not deleted"));
        let (&[known], &[one, other]) = (&known[..], &others[..]) else { panic!("{others:?}") };
        fs::remove_file(known).unwrap();
        // The copy belongs to the names that are left.
        let said = error(known);
        assert!(said.contains("it was not deleted: it is at"), "{said}");
        assert!(fs::read(one).unwrap() == content, "{}", kind[0]);
        assert!(fs::read(other).unwrap() == content, "{}", kind[0]);
        assert_eq!(fs::metadata(one).unwrap().nlink(), 2, "{}", kind[0]);
        // A program that has the file open by one name keeps it by the other.
        let open = File::open(one).unwrap();
        let rows = space.hsm(&["migrate"], &space.fs()).expect(&[4]).json_lines();
        assert!(rows.iter().all(|row| row["error"].is_string()), "{}: {rows:?}", kind[0]);
        drop(open);
    }
}

#[test]
fn a_small_file_migrates_when_it_is_named() {
    for kind in KINDS {
        let Some(space) = Space::new(kind, &["--min-size", "1M"]) else { continue };
        for bytes in [4096, 100] {
            let content = noise(8, bytes);
            let path = space.write("folder/small", &content);
            let folder = space.fs().join("folder");
            let rows = space.hsm(&["migrate"], &folder).expect(&[4]).json_lines();
            assert!(rows[0]["error"].as_str().unwrap().contains("--min-size"), "{rows:?}");
            let rows = space.hsm(&["premigrate"], &path).expect(&[0]).json_lines();
            assert_eq!(rows[0]["state"], "p", "{}: {rows:?}", kind[0]);
            let rows = space.hsm(&["migrate"], &path).expect(&[0]).json_lines();
            assert_eq!(rows[0]["state"], "m", "{}: {rows:?}", kind[0]);
            assert_eq!(space.state(&path), "m");
            assert!(fs::read(&path).unwrap() == content, "{}: {bytes}", kind[0]);
            let list = space.scene.scratch.join("list");
            fs::write(&list, format!("{}\n", path.display())).unwrap();
            let words = ["hsm", "migrate", "--json", "--filelist", list.to_str().unwrap()];
            let rows = space.node().run(&words).expect(&[0]).json_lines();
            assert_eq!(rows[0]["state"], "m", "{}: {rows:?}", kind[0]);
            assert!(fs::read(&path).unwrap() == content, "{}: {bytes}", kind[0]);
            fs::remove_file(&path).unwrap();
        }
        let empty = space.write("empty", b"");
        let rows = space.hsm(&["migrate"], &empty).expect(&[4]).json_lines();
        assert_eq!(rows[0]["error"], "it is empty", "{}", kind[0]);
    }
}

#[test]
fn a_file_system_without_a_fixed_number_of_inodes_has_no_limit() {
    for (kind, is_limited) in [(KINDS[0], true), (KINDS[2], false)] {
        let Some(space) = Space::new(kind, &[]) else { continue };
        let row = space.node().run(&["hsm", "df", "--json"]).expect(&[0]).json();
        assert_eq!(row["free_files"].is_u64(), is_limited, "{}: {row}", kind[0]);
        assert_eq!(row["files"].is_u64(), is_limited, "{}: {row}", kind[0]);
        let text = space.node().run(&["hsm", "df"]).expect(&[0]).stdout;
        assert_eq!(text.contains("no limit"), !is_limited, "{text}");
    }
}

/// It showed the space of the file system below the mount point.
#[test]
fn a_file_system_that_is_not_mounted_has_no_space() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    while succeeds(Command::new("umount").arg("--lazy").arg(space.fs())) {}
    let row = space.node().run(&["hsm", "df", "--json"]).expect(&[4]).json();
    assert_eq!((&row["mounted"], row["bytes"].is_null()), (&false.into(), true), "{row}");
    space.node().run(&["hsm", "df"]).expect(&[4]).says("not mounted");
}
