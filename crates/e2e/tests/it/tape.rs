//! The `tape` commands, on files that stand for tapes and on a virtual library.

mod library;
pub(crate) mod tgt;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Outcome, Process, binary, path_bytes, start};
use e2e::nasty::Random;
use e2e::scratch::Scratch;

use crate::scene::names;

const MIB: usize = 1 << 20;

/// A node's folder, and a folder of volumes.
struct Tapes {
    scratch: Scratch,
}

impl Tapes {
    fn new() -> Self {
        Self { scratch: Scratch::new() }
    }

    /// Makes a library `files` whose volumes hold `mebibytes` each, and labels two volumes.
    fn with_files(mebibytes: usize) -> Self {
        let tapes = Self::new();
        let folder = tapes.folder();
        let capacity = format!("{mebibytes}M");
        let folder = folder.to_str().unwrap();
        tapes
            .run(&["add", "files", "--folder", folder, "--capacity", &capacity])
            .expect(&[0]);
        tapes.run(&["label", "files", "T001", "T002"]).expect(&[0]);
        tapes
    }

    fn folder(&self) -> PathBuf {
        self.scratch.join("volumes")
    }

    fn volume(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.volume"))
    }

    #[track_caller]
    fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Outcome {
        self.spawn(arguments).wait()
    }

    fn spawn<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Process {
        let home = self.scratch.join("home");
        let fixed = ["tape".into(), "--home".into(), home.into_os_string()];
        let all: Vec<OsString> =
            fixed.into_iter().chain(arguments.iter().map(OsString::from)).collect();
        start(&binary(), &all, self.scratch.path(), None)
    }

    /// Runs `tape write LIBRARY VOLUMES FILE... --json` with all files of a folder.
    fn write(&self, library: &str, volumes: &str, source: &Path) -> Outcome {
        let mut arguments: Vec<OsString> =
            ["write", library, volumes, "--json", "--"].map(OsString::from).into();
        arguments.extend(files(source).map(OsString::from));
        self.run(&arguments)
    }

    /// Runs `tape read LIBRARY VOLUMES --json --to FOLDER`.
    fn read(&self, library: &str, volumes: &str, to: &Path) -> Outcome {
        self.run(&["read", library, volumes, "--json", "--to", to.to_str().unwrap()])
    }
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    names(folder).into_iter().map(|name| folder.join(OsString::from_vec(name)))
}

/// Fails the test unless both folders have the same files.
#[track_caller]
fn expect_same(found: &Path, expected: &Path) {
    assert_eq!(names(found), names(expected));
    for path in files(expected) {
        let name = path.file_name().unwrap();
        let same = fs::read(found.join(name)).unwrap() == fs::read(&path).unwrap();
        assert!(same, "{name:?} differs");
    }
}

fn plant(folder: &Path, name: &[u8], bytes: usize) {
    let content = Random::new(bytes as u64, name).bytes(bytes);
    fs::write(folder.join(OsStr::from_bytes(name)), content).unwrap();
}

/// Makes files with unusual names, and with sizes close to the sizes of blocks.
fn plant_nasty(folder: &Path) {
    plant(folder, b"letters.tar", 3 * MIB);
    plant(folder, b"empty", 0);
    plant(folder, b"-r", 1);
    plant(folder, b"a\nb\t\\x", 512 << 10);
    plant(folder, b"\xff\xfe\x01", (512 << 10) - 96 - 3);
    plant(folder, &[b'n'; 255], (512 << 10) - 96 - 255 + 1);
    plant(folder, " \u{e9} ".as_bytes(), 2 * MIB + 7);
}

#[test]
fn files_come_back_from_a_folder_bit_for_bit() {
    let tapes = Tapes::with_files(64);
    let source = tapes.scratch.folder("source");
    plant_nasty(&source);
    let written = tapes.write("files", "T001", &source).expect(&[0]).counts(&[("written", 7)]);
    assert_eq!(written.json()["volumes"][0]["objects"], 7);
    let listed = tapes
        .run(&["read", "files", "T001", "--list", "--json"])
        .expect(&[0])
        .json_lines();
    let mut found: Vec<_> = listed.iter().map(|piece| path_bytes(&piece["name"])).collect();
    found.sort();
    assert_eq!(found, names(&source));
    assert!(listed.iter().all(|piece| piece["state"] == "whole"));
    let positions: Vec<_> = listed.iter().map(|piece| piece["position"].as_u64()).collect();
    assert!(positions.is_sorted());

    // The path of the folder can stand for the library, and some of the names can be selected.
    let folder = tapes.folder();
    let out = tapes.scratch.folder("out");
    tapes
        .read(folder.to_str().unwrap(), "T001", &out)
        .expect(&[0])
        .counts(&[("read", 7)]);
    expect_same(&out, &source);
    let one = tapes.scratch.folder("one");
    let arguments = ["read", "files", "T001", "empty", "nothing", "--to", one.to_str().unwrap()];
    tapes
        .run(&arguments)
        .expect(&[4])
        .says("nothing: there is no object with this name");
    assert_eq!(names(&one), [b"empty"]);
    tapes
        .run(&["verify", "files", "T001,T002"])
        .expect(&[0])
        .says("7 objects or parts");
}

#[test]
fn an_object_goes_on_on_the_next_volume() {
    let tapes = Tapes::with_files(4);
    let source = tapes.scratch.folder("source");
    plant(&source, b"a", 3 * MIB);
    plant(&source, b"b", 3 * MIB);
    plant(&source, b"c", 100);
    let written = tapes.write("files", "T001,T002", &source).expect(&[0]).json();
    assert_eq!(written["objects"][1]["volumes"], serde_json::json!(["T001", "T002"]));
    let out = tapes.scratch.folder("out");
    tapes.read("files", "T001,T002", &out).expect(&[0]);
    expect_same(&out, &source);
    // With one of the two volumes, its whole objects are read, and the incomplete object is
    // reported.
    let first = tapes.scratch.folder("first");
    tapes
        .read("files", "T001", &first)
        .expect(&[4])
        .says("does not end on this volume");
    assert_eq!(names(&first), [b"a"]);
    let second = tapes.scratch.folder("second");
    tapes
        .read("files", "T002", &second)
        .expect(&[4])
        .says("began on another volume");
    assert_eq!(names(&second), [b"c"]);
    // The volumes have no room for another object.
    let more = tapes.scratch.folder("more");
    plant(&more, b"large", 5 * MIB);
    tapes
        .write("files", "T001,T002", &more)
        .expect(&[12])
        .says("only its beginning");
}

#[test]
fn what_was_synced_survives_a_kill() {
    let tapes = Tapes::with_files(1024);
    let source = tapes.scratch.folder("source");
    for number in 0..60 {
        plant(&source, format!("file-{number:02}").as_bytes(), 4 * MIB + number);
    }
    let mut arguments: Vec<OsString> =
        ["write", "files", "T001", "--sync", "1M"].map(OsString::from).into();
    arguments.extend(files(&source).map(OsString::from));
    let running = tapes.spawn(&arguments);
    let end = clock::now() + Duration::from_secs(60);
    let volume = tapes.volume("T001");
    while fs::metadata(&volume).unwrap().len() < 30 * MIB as u64 {
        assert!(clock::now() < end && !running.ends_within(Duration::from_millis(1)));
    }
    tapes
        .run(&["inventory", "files"])
        .expect(&[12])
        .says("in use by another process");
    assert!(running.kill9().was_killed());

    let out = tapes.scratch.folder("out");
    let outcome = tapes.read("files", "T001", &out).expect(&[0, 4]);
    assert!((6..60).contains(&outcome.count("read")), "{outcome}");
    for path in files(&out) {
        let original = source.join(path.file_name().unwrap());
        assert!(fs::read(&path).unwrap() == fs::read(original).unwrap(), "{path:?}");
    }
    // New objects are written after the existing objects. An object that was written twice is read
    // once.
    tapes.write("files", "T001", &source).expect(&[0]).counts(&[("written", 60)]);
    let all = tapes.scratch.folder("all");
    tapes.read("files", "T001", &all).expect(&[0]).counts(&[("read", 60)]);
    expect_same(&all, &source);
}

#[test]
fn volumes_that_are_not_ours_or_protected_are_left_alone() {
    let tapes = Tapes::with_files(16);
    let source = tapes.scratch.folder("source");
    plant(&source, b"a", MIB);
    let mut tar = vec![7; 10_240];
    tar[257..262].copy_from_slice(b"ustar");
    fs::write(tapes.volume("F001"), &tar).unwrap();
    fs::write(tapes.volume("B001"), b"").unwrap();
    let text = b"Dear Bert, this is no volume at all.";
    fs::write(tapes.volume("F002"), text).unwrap();
    for (volume, says) in [
        ("F001", "a tar archive"),
        ("F002", "something unknown"),
        ("B001", "has no label"),
        ("X001", "volume X001 is not in"),
    ] {
        tapes.write("files", volume, &source).expect(&[12]).says(says);
        tapes.run(&["read", "files", volume, "--list"]).expect(&[12]).says(says);
    }
    tapes
        .run(&["label", "files", "F001", "F002", "T001"])
        .expect(&[12])
        .says("--overwrite");
    tapes
        .run(&["label", "files", "F001", "--overwrite"])
        .expect(&[12])
        .says("a tar archive");
    assert_eq!(fs::read(tapes.volume("F001")).unwrap(), tar);
    assert_eq!(fs::read(tapes.volume("F002")).unwrap(), text);
    let rows = tapes.run(&["inventory", "files", "--json"]).expect(&[0]).json_lines();
    let states: Vec<_> = rows.iter().map(|row| row["state"].as_str().unwrap()).collect();
    let expected = [
        "unlabelled",
        "foreign: a tar archive",
        "foreign: something unknown",
        "labelled",
        "labelled",
    ];
    assert_eq!(states, expected);

    // A volume that cannot be used is skipped, and the next volume is used.
    tapes
        .write("files", "F001,T001", &source)
        .expect(&[4])
        .counts(&[("written", 1)]);
    let before = fs::read(tapes.volume("T001")).unwrap();
    fs::set_permissions(tapes.volume("T001"), fs::Permissions::from_mode(0o444)).unwrap();
    tapes.write("files", "T001", &source).expect(&[12]).says("write-protected");
    tapes
        .run(&["label", "files", "T001", "--overwrite=anything"])
        .expect(&[12])
        .says("protected");
    assert_eq!(fs::read(tapes.volume("T001")).unwrap(), before);
    let out = tapes.scratch.folder("out");
    tapes.read("files", "T001", &out).expect(&[0]);
    expect_same(&out, &source);
    // The volume is overwritten only if the option allows it.
    tapes.run(&["label", "files", "F001", "--overwrite=anything"]).expect(&[0]);
    tapes.write("files", "F001", &source).expect(&[0]);
}

#[test]
fn nothing_is_overwritten_and_older_objects_stay() {
    let tapes = Tapes::with_files(16);
    let (old, new) = (tapes.scratch.folder("old"), tapes.scratch.folder("new"));
    plant(&old, b"a", 1000);
    plant(&new, b"a", 2000);
    tapes.write("files", "T001", &old).expect(&[0]);
    tapes.write("files", "T001", &new).expect(&[0]);
    let out = tapes.scratch.folder("out");
    tapes.read("files", "T001", &out).expect(&[0]).counts(&[("read", 1)]);
    expect_same(&out, &new);
    tapes.read("files", "T001", &out).expect(&[12]).says("exists already");
    expect_same(&out, &new);
    let first = tapes.scratch.folder("first");
    let arguments = ["read", "files", "T001", "--number", "1", "--to", first.to_str().unwrap()];
    tapes.run(&arguments).expect(&[0]);
    expect_same(&first, &old);
    let missing = [tapes.scratch.join("missing"), old.clone(), old.join("a"), new.join("a")];
    let mut arguments: Vec<OsString> = ["write", "files", "T001"].map(OsString::from).into();
    arguments.extend(missing.map(OsString::from));
    let outcome = tapes.run(&arguments).expect(&[4]);
    let outcome = outcome.says("missing: No such file").says("old: it is no regular file");
    outcome.says("another file of the same name");
}

#[test]
fn a_damaged_block_costs_its_object_alone() {
    let tapes = Tapes::with_files(16);
    let source = tapes.scratch.folder("source");
    for name in [b"a", b"b", b"c"] {
        plant(&source, name, MIB);
    }
    tapes.write("files", "T001", &source).expect(&[0]);
    let volume = fs::OpenOptions::new().write(true).open(tapes.volume("T001")).unwrap();
    volume.write_all_at(b"damage", MIB as u64 + MIB as u64 / 2).unwrap();
    let verified = tapes.run(&["verify", "files", "T001", "--json"]).expect(&[4]);
    let verified = verified.counts(&[("objects", 2), ("failed", 1)]).json();
    assert_eq!(verified["failures"][0]["what"], "b");
    let out = tapes.scratch.folder("out");
    tapes.read("files", "T001", &out).expect(&[4]).says("cannot be used");
    fs::remove_file(source.join("b")).unwrap();
    expect_same(&out, &source);
}

#[test]
fn libraries_are_named_and_forgotten() {
    let tapes = Tapes::new();
    tapes.run(&["list"]).expect(&[0]).says("No library has a name");
    let drives = ["--drive", "/dev/sg97", "--drive", "iscsi://localhost/t/1"];
    let fixed = ["add", "vault", "--changer", "/dev/sg98"];
    tapes.run(&[&fixed[..], &drives].concat()).expect(&[0]);
    let folder = tapes.folder();
    tapes.run(&["add", "files", "--folder", folder.to_str().unwrap()]).expect(&[0]);
    let listed = tapes.run(&["list", "--json"]).expect(&[0]).json_lines();
    assert_eq!(listed[0]["folder"], folder.to_str().unwrap());
    assert_eq!(listed[1]["drives"][1], "iscsi://localhost:3260/t/1");
    // A library that cannot be reached does not hide the others.
    tapes.run(&["label", "files", "T001"]).expect(&[0]);
    tapes.run(&["inventory"]).expect(&[4]).says("cannot use /dev/sg97").says("T001");
    tapes.run(&["mount", "files", "T001"]).expect(&[12]).says("is a folder");
    tapes
        .run(&["drives", "nowhere"])
        .expect(&[12])
        .says("there is no library nowhere");
    tapes.run(&["remove", "vault"]).expect(&[0]);
    tapes.run(&["remove", "vault"]).expect(&[12]).says("there is no library vault");
    for bad in [
        &["add", "x"][..],
        &["add", "x", "--changer", "/dev/sg1"],
        &["add", "a/b", "--folder", "/srv"],
        &["add", "x", "--changer", "sg1", "--drive", "/dev/sg2"],
        &["read", "files"],
        &["write", "files", "T001,", "/etc/hostname"],
    ] {
        tapes.run(bad).expect(&[12]);
    }
}
