//! The guard against mass expiry: a folder that is suddenly empty is more likely unmounted than
//! emptied.

use std::fs;

use crate::scene::{Scene, manifest};

#[test]
fn emptied_tree_expires_nothing_until_it_is_confirmed() {
    let scene = Scene::with_files(300, 200);
    scene.backup();
    let objects = manifest(&scene.tree).len();
    let kept = scene.node.list(&scene.tree, &["--recursive"]).len();
    for name in fs::read_dir(&scene.tree).unwrap() {
        fs::remove_dir_all(name.unwrap().path()).unwrap();
    }
    let refused = scene.node.backup(&scene.tree, &[]).expect(&[8]).counts(&[("expired", 0)]);
    // The rest of the file system was not looked at.
    let gone = format!("{} of {objects} objects in {} are", objects - 1, scene.tree.display());
    let refused = refused.says(&gone);
    let message = refused.stderr.to_lowercase();
    assert!(
        message.contains("expire"),
        "the warning should name the expiry that it refuses: {refused}"
    );
    assert!(
        message.contains("--confirm") && !message.contains("--confirm-"),
        "the warning should name the option that confirms: {refused}"
    );
    assert_eq!(
        scene.node.list(&scene.tree, &["--recursive"]).len(),
        kept,
        "no version should be gone"
    );

    let confirmed = scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    confirmed.counts(&[("expired", objects - 1), ("failed", 0)]);
    let restored = scene.restore("out", &["--inactive"]);
    assert!(restored.join("folder-05/file-0299").is_file(), "inactive versions should stay");
}

#[test]
fn few_deletions_need_no_confirmation() {
    let scene = Scene::with_files(300, 200);
    scene.backup();
    (0..20).for_each(|index| fs::remove_file(scene.file(index)).unwrap());
    scene.backup().counts(&[("expired", 20)]);
}
