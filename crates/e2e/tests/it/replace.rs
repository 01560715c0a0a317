//! Restores over existing objects.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest, names};

/// A restored tree in which one file is newer and one file is older than its backup.
struct ChangedTree {
    scene: Scene,
    out: PathBuf,
}

impl ChangedTree {
    fn new() -> Self {
        let scene = Scene::with_files(20, 2000);
        scene.backup();
        let restored = scene.restore("out", &[]);
        let changed = Self { out: restored.parent().unwrap().to_path_buf(), scene };
        let backed_up = fs::metadata(changed.scene.file(0)).unwrap().modified().unwrap();
        changed.write("file-0001", b"newer", backed_up + Duration::from_secs(1000));
        changed.write("file-0002", b"older", backed_up - Duration::from_secs(1000));
        changed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.out.join("tree/folder-00").join(name)
    }

    fn write(&self, name: &str, content: &[u8], time: SystemTime) {
        fs::write(self.path(name), content).unwrap();
        fs::File::options()
            .write(true)
            .open(self.path(name))
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    /// Restores over the changed tree. Skipped objects may make the exit code 4, but they are not
    /// failures.
    #[track_caller]
    fn restore(&self, replace: &str) {
        let options = ["--replace", replace];
        let outcome = self.scene.node.restore(&self.scene.tree, &self.out, &options);
        outcome.expect(&[0, 4]).counts(&[("failed", 0)]);
    }

    #[track_caller]
    fn check(&self, name: &str, content: Option<&[u8]>) {
        let original = fs::read(self.scene.tree.join("folder-00").join(name)).unwrap();
        let is = fs::read(self.path(name)).unwrap();
        assert!(is == content.unwrap_or(&original), "{name} has the wrong content");
    }
}

#[test]
fn replace_no_leaves_what_is_there() {
    let changed = ChangedTree::new();
    changed.restore("no");
    changed.check("file-0001", Some(b"newer"));
    changed.check("file-0002", Some(b"older"));
}

#[test]
fn replace_if_newer_leaves_what_is_newer() {
    let changed = ChangedTree::new();
    changed.restore("if-newer");
    changed.check("file-0001", Some(b"newer"));
    changed.check("file-0002", None);
}

#[test]
fn replace_all_makes_it_as_it_was() {
    let changed = ChangedTree::new();
    changed.restore("all");
    assert_same(&manifest(&changed.scene.tree), &manifest(&changed.out.join("tree")));
}

#[test]
fn missing_objects_come_back_whatever_replace_says() {
    for replace in ["no", "if-newer", "all"] {
        let changed = ChangedTree::new();
        fs::remove_file(changed.path("file-0003")).unwrap();
        changed.restore(replace);
        changed.check("file-0003", None);
    }
}

#[test]
fn symlink_planted_for_a_folder_is_not_followed() {
    for options in [&[][..], &["--replace", "no"], &["--replace", "all"]] {
        let scene = Scene::with_files(60, 500);
        scene.backup();
        let (out, elsewhere) = (scene.scratch.folder("out"), scene.scratch.folder("elsewhere"));
        fs::create_dir(out.join("tree")).unwrap();
        symlink(&elsewhere, out.join("tree/folder-00")).unwrap();
        let outcome = scene.node.restore(&scene.tree, &out, options);
        assert!(names(&elsewhere).is_empty(), "restored through the symlink: {outcome}");
        if options != ["--replace", "all"] {
            assert_ne!(outcome.code(), 0, "not all objects can be restored: {outcome}");
            assert!(fs::symlink_metadata(out.join("tree/folder-00")).unwrap().is_symlink());
        }
        assert!(
            out.join("tree/folder-01/file-0050").is_file(),
            "the other files should be restored: {outcome}"
        );
    }
}

#[test]
fn symlink_planted_for_the_top_is_not_followed() {
    let scene = Scene::with_files(10, 500);
    scene.backup();
    let (out, elsewhere) = (scene.scratch.folder("out"), scene.scratch.folder("elsewhere"));
    symlink(&elsewhere, out.join("tree")).unwrap();
    let outcome = scene.node.restore(&scene.tree, &out, &[]);
    assert!(names(&elsewhere).is_empty(), "restored through the symlink: {outcome}");
    assert_ne!(outcome.code(), 0, "no object can be restored: {outcome}");
}

/// A file alone was restored through the link, and its folder was not.
#[test]
fn symlink_planted_above_a_file_is_not_followed() {
    let scene = Scene::with_files(60, 500);
    scene.backup();
    let (elsewhere, folder) = (scene.scratch.folder("elsewhere"), scene.tree.join("folder-00"));
    fs::remove_dir_all(&folder).unwrap();
    symlink(&elsewhere, &folder).unwrap();
    let restore = |files: &[usize], options: &[&str]| {
        let paths: Vec<_> = files.iter().map(|index| scene.file(*index)).collect();
        let paths = paths.iter().map(|path| path.to_str().unwrap());
        let words: Vec<&str> = ["restore", "--json"].into_iter().chain(paths).collect();
        let outcome = scene.node.run(&[&words[..], options].concat());
        assert!(names(&elsewhere).is_empty(), "restored through the symlink: {outcome}");
        outcome
    };
    for options in [&[][..], &["--replace", "all"]] {
        let outcome = restore(&[3], options).expect(&[4]);
        outcome.counts(&[("restored", 0), ("failed", 1)]).says("folder-00 is no folder");
    }
    fs::remove_file(scene.file(50)).unwrap();
    let outcome = restore(&[0, 1, 2, 3, 4, 50], &[]).expect(&[4]);
    outcome.counts(&[("restored", 1), ("failed", 5)]);
    let words = ["restore", scene.tree.to_str().unwrap(), "--replace", "all", "--json"];
    scene.node.run(&words).expect(&[0]);
    assert!(names(&elsewhere).is_empty());
    assert_eq!(fs::read(scene.file(3)).unwrap().len(), 500, "the folder replaces the link");
}

#[test]
fn symlink_planted_for_a_file_is_not_followed() {
    for options in [&[][..], &["--replace", "if-newer"], &["--replace", "all"]] {
        let scene = Scene::with_files(10, 500);
        scene.backup();
        let (out, elsewhere) = (scene.scratch.folder("out"), scene.scratch.folder("elsewhere"));
        let victim = elsewhere.join("victim");
        fs::write(&victim, b"untouched").unwrap();
        let before = manifest(&elsewhere);
        fs::create_dir_all(out.join("tree/folder-00")).unwrap();
        symlink(&victim, out.join("tree/folder-00/file-0003")).unwrap();
        symlink(elsewhere.join("absent"), out.join("tree/folder-00/file-0004")).unwrap();
        scene.node.restore(&scene.tree, &out, options).expect(&[0, 4]);
        assert_same(&before, &manifest(&elsewhere));
    }
}
