//! Operations on a file system as a whole.

use e2e::harness::Server;

use super::*;

impl Space {
    fn states_below(&self, folder: &Path) -> Vec<String> {
        let rows = self.hsm(&["ls"], folder).expect(&[0]).json_lines();
        rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn stubs_whose_copies_are_lost_are_named() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &[]) else { continue };
        let kept = space.stub("kept", &noise(400, MIB));
        let server = space.scene.server.dir().to_owned();
        let saved = space.scene.scratch.join("saved");
        space.scene.server.terminate().expect(&[0]);
        assert!(shell("cp -a \"$1\" \"$2\"", &server, &saved));
        space.scene.server.restart();
        let lost = space.write("lost\nname", &noise(401, MIB));
        // The first command may fail, because its connection ended with the restart of the server.
        drop(space.hsm(&["migrate"], &lost));
        space.migrate(&lost);
        space.scene.server.terminate().expect(&[0]);
        fs::remove_dir_all(&server).unwrap();
        fs::rename(&saved, &server).unwrap();
        Server::command(&["adopt".as_ref(), server.as_os_str()]).expect(&[0]);
        space.scene.server.restart();
        // The first command may fail again, for the same reason.
        drop(space.hsm(&["reconcile"], &space.fs()));
        let done = space.hsm(&["reconcile"], &space.fs()).expect(&[4]).json();
        let named: Vec<&str> = done["lost"]
            .as_array()
            .unwrap()
            .iter()
            .map(|path| path.as_str().unwrap())
            .collect();
        assert_eq!(named, [lost.to_str().unwrap()], "{}: {done}", kind[0]);
        let fs_path = space.fs();
        let text = space.node().run(&["hsm", "reconcile", fs_path.to_str().unwrap()]).expect(&[4]);
        drop(text.says("lost\\x0aname: the server has lost the copy"));
        assert_eq!(fs::read(&lost).unwrap_err().raw_os_error(), Some(libc::EIO), "{}", kind[0]);
        assert!(
            fs::metadata(&lost).unwrap().blocks() * 512 < 64 << 10,
            "nothing should be written"
        );
        assert!(fs::read(&kept).unwrap() == noise(400, MIB), "{}", kind[0]);
        fs::remove_file(&lost).unwrap();
        space.hsm(&["reconcile"], &space.fs()).expect(&[0]);
    }
}

#[test]
fn as_much_is_premigrated_as_is_set() {
    for kind in KINDS {
        let always = ["--high", "100", "--low", "100", "--unused-days", "0", "--premigrated"];
        let Some(space) = Space::new(kind, &[&always[..], &["0"]].concat()) else { continue };
        for number in 0..12 {
            space.write(&format!("many/{number}"), &noise(410 + number, 10 * MIB));
        }
        let (fs_path, folder) = (space.fs(), space.fs().join("many"));
        space.hsm(&["relieve"], &fs_path).expect(&[0]);
        assert!(space.states_below(&folder).iter().all(|state| state == "r"), "{}", kind[0]);
        let add = ["hsm", "add", fs_path.to_str().unwrap()];
        space.node().run(&[&add[..], &always, &["5"]].concat()).expect(&[0]);
        let mut space = space;
        space.kill_all();
        space.start(&[]);
        let rows = space.hsm(&["relieve"], &fs_path).expect(&[0]).json_lines();
        let states = space.states_below(&folder);
        let premigrated = states.iter().filter(|state| *state == "p").count();
        assert!(states.iter().all(|state| state != "m"), "{}: {states:?}", kind[0]);
        let bytes = (premigrated * 10 * MIB) as u64;
        let told: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
        assert_eq!(told, bytes, "{}: {rows:?}", kind[0]);
        let wanted = IMAGE_BYTES / 100 * 4..IMAGE_BYTES / 100 * 5 + (10 * MIB) as u64;
        assert!(wanted.contains(&bytes), "{}: {states:?}", kind[0]);
        // Enough is premigrated, so nothing is done.
        let rows = space.hsm(&["relieve"], &fs_path).expect(&[0]).json_lines();
        assert_eq!(rows.len(), 0, "{}: {rows:?}", kind[0]);
        for number in 0..12 {
            let content = fs::read(folder.join(number.to_string())).unwrap();
            assert!(content == noise(410 + number, 10 * MIB), "{}: {number}", kind[0]);
        }
    }
}

#[test]
fn what_a_statement_excludes_stays() {
    let always = ["--high", "50", "--low", "0", "--unused-days", "0", "--premigrated", "0"];
    let Some(space) = Space::new(KINDS[0], &always) else { return };
    let fs_path = space.fs();
    let shown = fs_path.display();
    let list = format!("exclude.spacemgmt {shown}/vm/.../*\ninclude.spacemgmt {shown}/vm/old/*\n");
    fs::write(space.node().home().join("inclexcl"), list).unwrap();
    for name in ["vm/disk.img", "vm/old/disk.img", "data"] {
        space.write(name, &noise(430, MIB));
    }
    let rows = space.hsm(&["migrate"], &fs_path.join("vm")).expect(&[4]).json_lines();
    let of = |name: &str| rows.iter().find(|row| row["path"].as_str().unwrap().ends_with(name));
    let error = of("vm/disk.img").unwrap()["error"].as_str().unwrap();
    assert!(
        error.contains("excluded from space management") && error.contains("line 1"),
        "{error}"
    );
    assert_eq!(of("vm/old/disk.img").unwrap()["state"], "m");
    let rows = space.hsm(&["relieve"], &fs_path).expect(&[0]).json_lines();
    assert!(rows.iter().all(|row| row["path"].as_str().unwrap().ends_with("data")), "{rows:?}");
    assert_eq!(space.state(&fs_path.join("vm/disk.img")), "r");
    assert_eq!(space.state(&fs_path.join("data")), "m");
}

#[test]
fn a_file_system_that_is_too_full_is_relieved_by_itself() {
    let options = ["--high", "50", "--low", "40", "--premigrated", "0", "--unused-days", "0"];
    let Some(space) = Space::new(KINDS[0], &options) else { return };
    for number in 0..40 {
        space.write(&format!("file-{number}"), &noise(40 + number, 10 * MIB));
    }
    let used = || {
        let told = rustix::fs::statvfs(space.fs()).unwrap();
        100 - told.f_bavail * 100 / told.f_blocks
    };
    assert!(used() > 50);
    space.wait_for("room", || used() <= 41);
    for number in 0..40 {
        let content = fs::read(space.fs().join(format!("file-{number}"))).unwrap();
        assert!(content == noise(40 + number, 10 * MIB), "{number}");
    }
}

#[test]
fn a_recall_onto_a_full_disk_fails_and_loses_nothing() {
    let options = ["--high", "100", "--low", "100", "--premigrated", "0"];
    let Some(space) = Space::new(KINDS[0], &options) else { return };
    let content = noise(50, 60 * MIB);
    let path = space.stub("file", &content);
    let filler = space.fs().join("filler");
    let to_filler = format!("of={}", filler.display());
    assert!(!succeeds(Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(to_filler)));
    let error = fs::read(&path).expect_err("the disk is full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
    fs::remove_file(filler).unwrap();
    assert!(fs::read(&path).unwrap() == content);
}
