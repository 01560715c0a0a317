//! Files that are lost, and restored as stubs.

use super::*;

#[test]
fn what_is_lost_comes_back_as_stubs() {
    for kind in KINDS {
        let Some(space) = Space::new(kind, &[]) else { continue };
        let tree = space.fs().join("tree");
        let large = space.write("tree/deep/large", &noise(1, 3 * MIB));
        let small = space.write("tree/deep/small", b"a few bytes");
        let other = space.write("tree/other", &noise(2, MIB + 17));
        fs::set_permissions(&large, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(shell("setfattr -n user.note -v kept \"$1\"", &large, &large));
        let before = crate::scene::manifest(&tree);
        space.node().backup(&tree, &[]).expect(&[0]);
        fs::remove_dir_all(&tree).unwrap();
        let tree_name = tree.to_str().unwrap();
        let restore = ["restore", tree_name, "--stubs-from", "1M", "--json"];
        space.node().run(&restore).expect(&[0]);
        assert_eq!(space.state(&large), "m");
        assert_eq!(space.state(&other), "m");
        assert_eq!(space.state(&small), "r");
        assert!(fs::metadata(&large).unwrap().blocks() * 512 < 64 << 10);
        // A second restore changes nothing.
        space.node().run(&restore).expect(&[0]);
        // The content of the stubs is kept when the whole tree is backed up.
        space.node().backup(&tree, &[]).expect(&[0]);
        // Content, attributes and times are as before, also for directories.
        space.hsm(&["recall", "--resident"], &tree).expect(&[0]);
        e2e::manifest::assert_same(&before, &crate::scene::manifest(&tree));
    }
}

#[test]
fn stubs_are_made_only_where_somebody_keeps_them() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let scene = &space.scene;
    fs::write(scene.tree.join("file"), noise(1, MIB)).unwrap();
    scene.backup();
    fs::remove_file(scene.tree.join("file")).unwrap();
    let tree = scene.tree.to_str().unwrap();
    let refused = space.node().run(&["restore", tree, "--stubs-from", "1K"]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("in no managed file system"));
    assert_eq!(fs::read_dir(&scene.tree).unwrap().count(), 0);
}
