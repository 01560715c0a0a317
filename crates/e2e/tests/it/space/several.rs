//! Several managed file systems of one node.

use super::*;

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
