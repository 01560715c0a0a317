//! Restores of several paths: what they transfer, and where they put objects of one name.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::scene::Scene;

/// Writes `paths` into the file list `name`, and returns its path.
fn file_list(scene: &Scene, name: &str, paths: &[PathBuf]) -> String {
    let lines: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let list = scene.scratch.join(name);
    fs::write(&list, lines.join("\n")).unwrap();
    list.to_str().unwrap().to_owned()
}

/// The quantum with the data of a file was transferred again for each file.
#[test]
fn many_small_files_are_transferred_as_their_folder_is() {
    let scene = Scene::with_files(300, 4_000);
    scene.backup();
    let transferred = |name: &str, path: &Path| {
        let restored = scene.node.restore(path, &scene.scratch.folder(name), &[]).expect(&[0]);
        restored.count("bytes_transferred")
    };
    let listed = |name: &str, files: &[PathBuf]| {
        let list = file_list(&scene, "list", files);
        let out = scene.scratch.folder(name);
        let words = ["restore", "--filelist", &list, "--json", "--to", out.to_str().unwrap()];
        let restored = scene.node.run(&words).expect(&[0]);
        let restored = restored.counts(&[("restored", files.len() as u64), ("failed", 0)]);
        for file in files {
            let back = out.join(file.file_name().unwrap());
            assert_eq!(fs::read(back).unwrap(), fs::read(file).unwrap());
        }
        restored.count("bytes_transferred")
    };
    let whole = transferred("whole", &scene.tree);
    assert!(whole > 1_000_000, "{whole}");
    let pattern = transferred("pattern", &scene.tree.join("folder-0*/file-*"));
    assert!(pattern < whole * 2, "{pattern} instead of {whole}");
    let all: Vec<PathBuf> = (0..300).map(|index| scene.file(index)).collect();
    let together = listed("together", &all);
    assert!(together < whole * 2, "{together} instead of {whole}");
    // Few files of each folder are received one by one.
    let few: Vec<PathBuf> = all.iter().step_by(25).cloned().collect();
    let one_by_one = listed("one-by-one", &few);
    assert!(one_by_one < whole * 2, "{one_by_one} instead of {whole}");
}

#[test]
fn paths_of_one_directory_are_restored_with_their_links_and_content() {
    let scene = Scene::with_files(40, 100);
    fs::hard_link(scene.file(0), scene.tree.join("folder-00/linked")).unwrap();
    fs::create_dir_all(scene.tree.join("folder-00/below/deep")).unwrap();
    fs::write(scene.tree.join("folder-00/below/deep/letter"), "dear").unwrap();
    scene.backup();
    fs::write(scene.file(7), "newer").unwrap();
    fs::remove_file(scene.file(8)).unwrap();
    scene.backup();

    let names = ["linked", "below", "none", "file-0000", "file-0007", "file-0008"];
    let paths = names.map(|name| scene.tree.join("folder-00").join(name));
    let list = file_list(&scene, "list", &paths);
    let restore = |name: &str, options: &[&str]| {
        let out = scene.scratch.folder(name);
        let fixed = ["restore", "--filelist", &list, "--json", "--to", out.to_str().unwrap()];
        (scene.node.run(&[&fixed[..], options].concat()), out)
    };
    let (report, out) = restore("active", &[]);
    // Three files, one further name of a file, and two directories.
    let report = report.expect(&[4]).counts(&[("restored", 6), ("failed", 2)]).json();
    let failed = |at: usize| report["failures"][at]["path"].as_str().unwrap().to_owned();
    assert_eq!([failed(0), failed(1)].map(PathBuf::from), [paths[2].clone(), paths[5].clone()]);
    let inode = |name: &str| fs::metadata(out.join(name)).unwrap().ino();
    assert_eq!(inode("linked"), inode("file-0000"));
    assert_eq!(fs::read(out.join("file-0007")).unwrap(), b"newer");
    assert_eq!(fs::read(out.join("below/deep/letter")).unwrap(), b"dear");
    let (again, _) = restore("active", &[]);
    again.expect(&[4]).counts(&[("restored", 0), ("skipped", 6), ("failed", 2)]);

    let (inactive, out) = restore("inactive", &["--inactive"]);
    inactive.expect(&[4]).counts(&[("restored", 7), ("failed", 1)]);
    assert_eq!(fs::read(out.join("file-0007")).unwrap(), b"newer");
    assert_eq!(fs::metadata(out.join("file-0008")).unwrap().len(), 100);
}

/// The restore was refused, and so was the example of the guide.
#[test]
fn paths_of_one_name_are_kept_apart_in_a_target() {
    let scene = Scene::new();
    let letters = [("ann", "one"), ("ann", "two"), ("bob", "one"), ("carl", "three")];
    for (person, name) in letters {
        let folder = scene.tree.join(person).join("letters");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), format!("{name} of {person}")).unwrap();
    }
    scene.backup();
    let path = |person: &str, name: &str| scene.tree.join(person).join("letters").join(name);
    let content = |path: PathBuf| fs::read_to_string(path).unwrap();
    // Without namesakes everything goes directly into the folder.
    let out = scene.scratch.folder("plain");
    scene
        .node
        .restore(&path("*", "t*"), &out, &[])
        .expect(&[0])
        .counts(&[("restored", 2)]);
    assert_eq!(content(out.join("two")), "two of ann");
    assert_eq!(content(out.join("three")), "three of carl");

    let out = scene.scratch.join("pattern");
    let plan = scene.node.restore(&path("*", "*o*"), &out, &["--dry-run"]).expect(&[0]).json();
    assert_eq!(plan["restore"]["objects"], 3);
    assert!(!out.is_dir(), "a dry run makes no folder");
    scene
        .node
        .restore(&path("*", "*o*"), &out, &[])
        .expect(&[0])
        .counts(&[("restored", 3)]);
    let plan = scene.node.restore(&path("*", "*o*"), &out, &["--dry-run"]).expect(&[0]).json();
    assert_eq!(plan["exists"]["objects"], 3);
    for (person, name) in &letters[..3] {
        let back = out.join(person).join("letters").join(name);
        assert_eq!(content(back), format!("{name} of {person}"));
    }

    let list = [path("ann", "one"), path("bob", "one")];
    let list = file_list(&scene, "list", &list);
    let out = scene.scratch.join("listed");
    let words = ["restore", "--filelist", &list, "--json", "--to", out.to_str().unwrap()];
    scene.node.run(&words).expect(&[0]).counts(&[("restored", 2)]);
    assert_eq!(content(out.join("bob/letters/one")), "one of bob");

    // Directories are kept with their content.
    let both = ["ann", "bob"].map(|person| scene.tree.join(person).join("letters"));
    let both = both.each_ref().map(|path| path.to_str().unwrap());
    let out = scene.scratch.join("both");
    let words = ["restore", both[0], both[1], "--to", out.to_str().unwrap()];
    scene.node.run(&words).expect(&[0]);
    assert_eq!(content(out.join("ann/letters/two")), "two of ann");
    assert_eq!(content(out.join("bob/letters/one")), "one of bob");
}
