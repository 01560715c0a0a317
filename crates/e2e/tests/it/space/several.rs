//! Several managed file systems of one node.

use super::*;

#[test]
fn a_file_system_is_unmounted_while_another_is_recalled() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let other = space.another(KINDS[0]);
    let content = noise(1, MIB);
    let stub = space.stub("file", &content);
    let path = other.path().join("file");
    fs::write(&path, &content).unwrap();
    space.migrate(&path);
    assert!(fs::read(&path).unwrap() == content);
    // A recalled file stays open until its record is written.
    space.wait_for("the unmounting", || other.unmount());
    assert!(!fs::exists(&path).unwrap());
    assert!(fs::read(&stub).unwrap() == content);
    space.kill_all();
}

#[test]
fn a_file_system_that_is_not_mounted_stops_no_other() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(1, MIB);
    let stub = space.stub("file", &content);
    let other = space.add_another(KINDS[0]);
    assert!(other.unmount());
    space.kill_all();
    space.start(&[]);
    assert!(fs::read(&stub).unwrap() == content);
    // A file in the folder of the mount point is not managed.
    let plain = other.path().join("plain");
    fs::write(&plain, noise(2, MIB)).unwrap();
    let rows = space.hsm(&["migrate"], &plain).expect(&[4]).json_lines();
    assert!(rows[0]["error"].as_str().unwrap().contains("not managed"), "{rows:?}");
    // Alone, it is an error that names the reason.
    let first = space.fs();
    space.hsm(&["recall"], &first).expect(&[0]);
    space.kill_all();
    let node = space.node();
    node.run(&["hsm", "remove", first.to_str().unwrap()]).expect(&[0]);
    node.run(&["hsm", "run"]).expect(&[12]).says("is not mounted");
}
