//! Tests of a disk with real files.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use disk::{Disk, Fault, Loss};

fn with_disk(test: impl FnOnce(&mut Disk, &Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("disk");
    let mut disk = Disk::new(&root);
    test(&mut disk, &root);
}

/// Writes a file durably by another name.
fn store(root: &Path, name: &str, bytes: &[u8]) {
    let (new, path) = (root.join("new"), root.join(name));
    let mut file = File::create(&new).expect("is made");
    file.write_all(bytes).expect("is written");
    file.sync_all().expect("is synced");
    fs::rename(&new, &path).expect("is renamed");
    File::open(root).and_then(|folder| folder.sync_all()).expect("is synced");
}

#[test]
fn every_kind_of_change_is_recorded() {
    with_disk(|disk, root| {
        fs::create_dir_all(root.join("a/b")).expect("are made");
        store(&root.join("a/b"), "x", b"12345");
        let file = File::options().append(true).open(root.join("a/b/x")).expect("is opened");
        (&file).write_all(b"67").expect("is written");
        let parts = [std::io::IoSlice::new(b""), std::io::IoSlice::new(b"8")];
        assert_eq!((&file).write_vectored(&parts).expect("is written"), 1);
        let file = File::options().write(true).open(root.join("a/b/x")).expect("is opened");
        file.write_all_at(b"0", 2).expect("is written");
        file.set_len(6).expect("is cut");
        fs::hard_link(root.join("a/b/x"), root.join("y")).expect("is linked");
        fs::write(root.join("z"), b"z").expect("is written");
        fs::write(root.join("z"), b"").expect("is emptied");
        fs::create_dir_all(root.join("gone/below")).expect("are made");
        fs::write(root.join("gone/below/file"), b"1").expect("is written");
        disk.check_complete();
        fs::remove_dir_all(root.join("gone")).expect("is removed");
        fs::rename(root.join("a/b"), root.join("c")).expect("is moved");
        disk.check_complete();
        disk.cut(disk.position(), Loss::Nothing);
        assert_eq!(fs::read(root.join("y")).expect("is read"), b"120456");
        assert!(root.join("c/x").metadata().is_ok() && root.join("gone").metadata().is_err());
    });
}

#[test]
fn a_power_cut_takes_what_no_sync_has_made_durable() {
    with_disk(|disk, root| {
        store(root, "durable", b"1");
        let inode = fs::metadata(root.join("durable")).expect("is there").ino();
        fs::write(root.join("open"), b"2").expect("is written");
        fs::write(root.join("durable"), b"3").expect("is written");
        let history = disk.history();
        assert!(history.syncs().iter().all(|position| *position <= history.position()));
        for _ in 0..2 {
            disk.leave(&history, history.position(), Loss::Everything);
            assert_eq!(fs::read(root.join("durable")).expect("is read"), b"1");
            assert_eq!(fs::metadata(root.join("durable")).expect("is there").ino(), inode);
            assert!(root.join("open").metadata().is_err());
            store(root, "later", b"4");
        }
        disk.cut(disk.position(), Loss::Everything);
        assert_eq!(fs::read(root.join("later")).expect("is read"), b"4");
        disk.check_complete();
    });
}

#[test]
fn files_are_put_back_and_all_others_stay() {
    with_disk(|disk, root| {
        let paths = ["a/x", "a/log", "a/new"].map(|name| root.join(name));
        fs::create_dir(root.join("a")).expect("is made");
        let before = disk.position();
        fs::write(&paths[0], b"old").expect("is written");
        fs::write(&paths[1], b"1").expect("is written");
        let then = disk.position();
        fs::write(&paths[0], b"newer").expect("is written");
        fs::remove_file(&paths[1]).expect("is removed");
        fs::write(&paths[2], b"2").expect("is written");
        fs::write(root.join("other"), b"3").expect("is written");
        assert!(!disk.put_back(before, &paths), "the first file was absent");
        assert_eq!(fs::read(&paths[0]).expect("is read"), b"newer");
        disk.plan(Fault::Change { number: 0 });
        assert!(disk.put_back(then, &paths));
        assert!(!disk.relieve(), "no operation of the program has failed");
        assert_eq!(fs::read(&paths[0]).expect("is read"), b"old");
        assert_eq!(fs::read(&paths[1]).expect("is read"), b"1");
        assert!(paths[2].metadata().is_err());
        assert_eq!(fs::read(root.join("other")).expect("is read"), b"3");
        assert_eq!(disk.position(), 0);
        disk.cut(0, Loss::Everything);
        assert_eq!(fs::read(&paths[0]).expect("is read"), b"old");
        disk.check_complete();
        // Somebody puts another file in the place of the first one.
        let then = disk.position();
        store(&root.join("a"), "x", b"another");
        assert!(!disk.put_back(then, &paths), "the first file was another one");
    });
}

#[test]
fn each_operation_can_fail() {
    with_disk(|disk, root| {
        let before = disk.operations();
        store(root, "a", b"1");
        let count = disk.operations().changes - before.changes;
        assert_eq!(count, 5, "creation, write, sync, rename, sync of the folder");
        for number in 0..count {
            disk.plan(Fault::Change { number });
            let attempt = std::panic::catch_unwind(|| store(root, "b", b"2"));
            assert!(attempt.is_err() && disk.relieve(), "operation {number}");
        }
        disk.plan(Fault::Change { number: count });
        store(root, "b", b"2");
        assert!(!disk.relieve());
        disk.plan(Fault::Read { number: 1 });
        let mut file = File::open(root.join("b")).expect("the first operation does not fail");
        let error = file.read(&mut [0]).expect_err("the second fails");
        assert_eq!(error.raw_os_error(), Some(libc_eio()));
        assert!(disk.relieve());
    });
}

/// Number of the I/O error.
fn libc_eio() -> i32 {
    5
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    with_disk(|disk, root| {
        store(root, "a", b"12");
        disk.plan(Fault::Full { number: 0 });
        let file = File::options().write(true).open(root.join("a")).expect("is opened");
        let error = file.write_all_at(b"345", 1).expect_err("there is no room");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read(root.join("a")).expect("is read"), b"13", "a part was written");
        assert!(File::create(root.join("b")).is_err());
        assert!(fs::create_dir(root.join("c")).is_err());
        file.write_all_at(b"0", 0).expect("the file does not grow");
        fs::rename(root.join("a"), root.join("d")).expect("takes no space");
        fs::remove_file(root.join("d")).expect("takes no space");
        assert!(disk.relieve());
        store(root, "a", b"12");
        disk.check_complete();
    });
}

#[test]
fn other_files_are_not_touched() {
    let outside = tempfile::tempdir().expect("a folder");
    with_disk(|disk, _| {
        disk.plan(Fault::Change { number: 0 });
        store(outside.path(), "a", b"1");
        assert!(!disk.relieve());
        assert_eq!(disk.position(), 0);
    });
}
