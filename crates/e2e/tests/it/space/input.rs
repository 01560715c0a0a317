//! Commands that name what is absent, or what cannot be managed.

use super::*;

#[test]
fn a_list_goes_on_after_a_path_that_is_absent() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let (one, other) = (space.write("run/a", b"1"), space.write("run/b", b"2"));
    let absent = space.fs().join("run/absent");
    let list = space.scene.scratch.join("list");
    let names = [&one, &absent, &other].map(|path| format!("{}\n", path.display()));
    fs::write(&list, names.concat()).unwrap();
    let listed = space.hsm(&["ls", "--filelist"], &list).expect(&[4]);
    assert!(listed.stderr.contains("run/absent: No such file"), "{listed}");
    let states: Vec<_> = listed.json_lines().iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["r", "r"], "{listed}");
    space.hsm(&["ls"], &absent).expect(&[12]);
    let sizes = space.hsm(&["du", "--filelist"], &list).expect(&[4]).json_lines();
    assert_eq!(sizes.iter().map(|row| row["bytes"].clone()).collect::<Vec<_>>(), [1, 1]);
    space.hsm(&["du"], &absent).expect(&[12]);
}

#[test]
fn bad_input_is_refused() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    space.node().run(&["hsm", "add", "/proc"]).expect(&[12]).says("proc");
    let folder = space.fs().join("folder");
    fs::create_dir(&folder).unwrap();
    space
        .node()
        .run(&["hsm", "add", folder.to_str().unwrap()])
        .expect(&[12])
        .says("give its mount point");
    let fs_path = space.fs();
    let high = ["hsm", "add", fs_path.to_str().unwrap(), "--high", "50", "--low", "60"];
    let refused = space.node().run(&high).expect(&[12]).says("above");
    assert_eq!(refused.stdout, "", "settings that are not stored should not be shown");
    space.stub("file", &noise(90, MIB));
    let remove = ["hsm", "remove", fs_path.to_str().unwrap()];
    space.node().run(&remove).expect(&[12]).says("would read as zeros");
    space.hsm(&["recall"], &fs_path).expect(&[0]);
    space.wait_for("the record", || space.node().run(&remove).code() == 0);
    space.node().run(&remove).expect(&[12]).says("not managed");
    space.node().run(&["hsm", "cancel", "99"]).expect(&[12]).says("no request 99");
    let rows = space.hsm(&["migrate"], Path::new("/etc/hostname")).expect(&[4]).json_lines();
    assert!(rows[0]["error"].as_str().unwrap().contains("not managed"), "{rows:?}");
}
