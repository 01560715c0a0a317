//! Directories in the commands of TSM: named, in lists, archived, and without their files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use e2e::manifest::assert_same;

use super::Site;
use crate::scene::manifest;

/// TSM takes a directory of a list without what is in it.
#[test]
fn a_directory_of_a_list_stands_for_itself() {
    let site = Site::new(0);
    let folder = site.scene.tree.join("folder");
    fs::create_dir(&folder).unwrap();
    for name in ["listed", "other"] {
        fs::write(folder.join(name), name).unwrap();
    }
    let list = site.scene.scratch.join("list");
    let option = format!("-filelist={}", list.display());
    let all = format!("{}/*", folder.display());
    for command in ["i", "sel"] {
        fs::write(&list, format!("{}\n", folder.display())).unwrap();
        site.dsmc(&[command, &option]).expect(&[0]);
        site.dsmc(&["q", "ba", folder.to_str().unwrap()]).expect(&[0]).says("folder");
        site.dsmc(&["q", "ba", &all, "-filesonly"]).expect(&[8]);
    }
    fs::write(&list, format!("{0}\n{0}/listed\n", folder.display())).unwrap();
    site.dsmc(&["archive", &option]).expect(&[0]);
    let archived = site.dsmc(&["q", "ar", &all, "-filesonly"]).expect(&[0]);
    assert!(archived.stdout.contains("/listed"), "{archived}");
    assert!(!archived.stdout.contains("/other"), "{archived}");
    site.dsmc(&["i", &option]).expect(&[0]);
    let stored = site.dsmc(&["q", "ba", &all, "-filesonly"]).expect(&[0]);
    assert!(stored.stdout.contains("/listed") && !stored.stdout.contains("/other"), "{stored}");
}

/// Scripts with several streams back up each directory alone, and the others with -subdir=yes.
#[test]
fn a_directory_without_files_of_its_own_is_done_at_once() {
    let site = Site::new(0);
    let folder = site.scene.tree.join("only folders");
    fs::create_dir_all(folder.join("below")).unwrap();
    fs::write(folder.join("below/file"), b"content").unwrap();
    let operand = format!("{}/", folder.display());
    let done = site.dsmc(&["i", &operand, "-su=no"]).expect(&[0]);
    let done = done.says("Total number of objects inspected:            0");
    assert!(done.stdout.contains("Successful incremental backup"), "{done}");
    site.dsmc(&["q", "ba", &format!("{operand}*"), "-su=yes"]).expect(&[8]);
    site.dsmc(&["i", &format!("{operand}*.c")]).expect(&[8]).says("ANS1092W");
}

/// A tree with a file and a directory in each of two directories, and its names below `top`.
fn tree_of_two(site: &Site) -> PathBuf {
    let top = site.scene.tree.join("apart");
    for folder in ["a/b", "empty"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    for file in ["f", "a/g"] {
        fs::write(top.join(file), file).unwrap();
    }
    fs::set_permissions(top.join("a"), fs::Permissions::from_mode(0o750)).unwrap();
    top
}

/// Returns the paths below a folder, sorted. Those of directories end with a slash.
fn names_below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let is_directory = path.is_dir();
            names.push(if is_directory { format!("{name}/") } else { name });
            folders.extend(is_directory.then_some(path));
        }
    }
    names.sort();
    names
}

#[test]
fn directories_and_files_come_back_apart() {
    let site = Site::new(0);
    let top = tree_of_two(&site);
    site.dsmc(&["i", site.tree(), "-su=yes"]).expect(&[0]);
    let operand = format!("{}/", top.display());
    let restore = |name: &str, words: &[&str]| {
        let to = site.scene.scratch.folder(name);
        let destination = format!("{}/", to.display());
        let source: &[&str] = if words.iter().any(|word| word.starts_with("-filelist")) {
            &[&destination]
        } else {
            &[&operand, &destination]
        };
        site.dsmc(&[&["restore"], source, words].concat()).expect(&[0]);
        (names_below(&to), to)
    };
    let (names, to) = restore("directories", &["-su=yes", "-dirsonly"]);
    assert_eq!(names, ["apart/", "apart/a/", "apart/a/b/", "apart/empty/"]);
    assert_eq!(fs::metadata(to.join("apart/a")).unwrap().permissions().mode() & 0o7777, 0o750);
    let (names, _) = restore("direct", &["-su=no", "-dirsonly"]);
    assert_eq!(names, ["apart/", "apart/a/", "apart/empty/"]);
    let (names, _) = restore("files", &["-su=yes", "-filesonly"]);
    assert_eq!(names, ["apart/", "apart/a/", "apart/a/g", "apart/f"]);
    let list = site.scene.scratch.join("list");
    fs::write(&list, format!("{operand}a\n{operand}f\n")).unwrap();
    let option = format!("-filelist={}", list.display());
    assert_eq!(restore("listed", &[&option, "-dirsonly"]).0, ["a/"]);
    assert_eq!(restore("listed-files", &[&option, "-filesonly"]).0, ["f"]);
    site.dsmc(&["restore", &format!("{operand}f"), "-su=no", "-dirsonly"])
        .expect(&[12])
        .says("ANS1302E");
}

#[test]
fn archived_directories_come_back_as_they_were() {
    let site = Site::new(0);
    let top = tree_of_two(&site);
    let operand = format!("{}/", top.display());
    site.dsmc(&["archive", &operand, "-su=yes", "-desc=first"]).expect(&[0]);
    let before = manifest(&top);
    fs::remove_dir_all(&top).unwrap();
    site.dsmc(&["retrieve", &operand, "-su=yes"]).expect(&[0]);
    assert_same(&before, &manifest(&top));
    let renamed = site.scene.scratch.join("renamed");
    site.dsmc(&["retrieve", &format!("{operand}f"), renamed.to_str().unwrap()])
        .expect(&[0]);
    assert_eq!(fs::read(&renamed).unwrap(), b"f");

    // Of two archives, each object comes from the newest that has it.
    fs::write(top.join("a/g"), b"newer").unwrap();
    site.dsmc(&["archive", &format!("{operand}a/g"), "-desc=second"]).expect(&[0]);
    let retrieve = |name: &str, words: &[&str]| {
        let to = site.scene.scratch.folder(name);
        let destination = format!("{}/", to.display());
        let line = [&["retrieve", &operand, &destination], words].concat();
        site.dsmc(&line).expect(&[0]);
        (names_below(&to), to)
    };
    let (names, to) = retrieve("all", &["-su=yes"]);
    assert_eq!(names, ["apart/", "apart/a/", "apart/a/b/", "apart/a/g", "apart/empty/", "apart/f"]);
    assert_eq!(fs::read(to.join("apart/a/g")).unwrap(), b"newer");
    assert_eq!(fs::metadata(to.join("apart/a")).unwrap().permissions().mode() & 0o7777, 0o750);
    let (names, _) = retrieve("directories", &["-su=yes", "-dirsonly"]);
    assert_eq!(names, ["apart/", "apart/a/", "apart/a/b/", "apart/empty/"]);
    let (names, _) = retrieve("files", &["-su=yes", "-filesonly"]);
    assert_eq!(names, ["apart/", "apart/a/", "apart/a/g", "apart/f"]);
}

/// Without -subdir=yes, only files expire. The end of a directory's version ends all in it.
#[test]
fn an_expiration_without_a_descent_takes_files_only() {
    let site = Site::new(0);
    let top = tree_of_two(&site);
    let shown = top.display();
    let active = |operand: &str| {
        let rows = site.dsmc(&["q", "ba", operand, "-su=yes", "-filesonly", "-json"]);
        rows.expect(&[0, 8]).json_lines().len()
    };
    let all = format!("{shown}/*");
    let list = site.scene.scratch.join("list");
    fs::write(&list, format!("{shown}/a\n{shown}/f\n")).unwrap();
    let option = format!("-filelist={}", list.display());
    for operand in [all.as_str(), option.as_str()] {
        site.dsmc(&["i", &format!("{shown}/"), "-su=yes"]).expect(&[0]);
        assert_eq!(active(&all), 2);
        site.dsmc(&["expire", operand, "-noprompt"]).expect(&[0]);
        assert_eq!((active(&format!("{shown}/f")), active(&format!("{shown}/a/*"))), (0, 1));
    }
    let directory = format!("{shown}/a");
    site.dsmc(&["expire", &directory, "-noprompt"])
        .expect(&[12])
        .says("is a directory");
    site.dsmc(&["expire", &directory, "-su=yes", "-noprompt"]).expect(&[0]);
    assert_eq!(active(&format!("{shown}/a/*")), 0);
}

/// An expiration of one file has ended the versions of all that was gone beside it, as on a disk
/// that is not mounted.
#[test]
fn an_expiration_of_a_file_leaves_the_others_alone() {
    let site = Site::new(50);
    let file = site.scene.file(0);
    let folder = file.parent().unwrap();
    let all = format!("{}/*", folder.display());
    site.dsmc(&["i", &all, "-su=yes"]).expect(&[0]);
    let active = || site.dsmc(&["q", "ba", &all, "-json"]).expect(&[0]).json_lines().len();
    for index in 10..50 {
        fs::remove_file(site.scene.file(index)).unwrap();
    }
    fs::write(site.scene.file(1), "changed").unwrap();
    let ended = site.dsmc(&["expire", file.to_str().unwrap(), "-noprompt"]).expect(&[0]);
    let ended = ended.says("Total number of objects expired:              1");
    ended.says("Total number of objects backed up:            0");
    assert_eq!(active(), 49);
    // Named objects may be many: nobody asks about them again.
    site.dsmc(&["i", &all, "-su=yes"]).expect(&[8]);
    site.dsmc(&["expire", &all, "-noprompt"]).expect(&[0]);
    site.dsmc(&["q", "ba", &all]).expect(&[8]);
}

/// Files that were named beside a file system that cannot be backed up were not sent at all.
#[test]
fn a_file_system_that_fails_keeps_nothing_else_from_being_sent() {
    let site = Site::new(2);
    let (tree, file) = (site.tree(), site.scene.file(0));
    let file = file.to_str().unwrap();
    let refused = "Sending of object '/proc' failed: a pseudo file system is not backed up";
    for (words, number) in [
        (&["selective", "/proc", file][..], "ANS1804E"),
        (&["incremental", "/proc", &format!("{tree}/"), "-subdir=yes"], "ANS1802E"),
    ] {
        let outcome = site.dsmc(words).expect(&[4]).says(refused).says(number);
        assert!(outcome.stdout.contains("Total number of objects failed:               1"));
        site.dsmc(&["query", "backup", file]).expect(&[0]);
    }
    let options = fs::read_to_string(&site.options).unwrap();
    let other = site.scene.file(1);
    site.dsmc(&["query", "backup", other.to_str().unwrap()]).expect(&[0]);
    fs::write(&site.options, format!("{options}DOMAIN /proc {tree} /nowhere\n")).unwrap();
    fs::write(site.scene.tree.join("new"), b"new").unwrap();
    site.dsmc(&["incremental", "-subdir=yes"]).expect(&[4]).says(refused);
    site.dsmc(&["query", "backup", &format!("{tree}/new")]).expect(&[0]);
    // If nothing can be sent, the command is not done.
    site.dsmc(&["selective", "/proc"]).expect(&[12]).says("a pseudo file system");
}
