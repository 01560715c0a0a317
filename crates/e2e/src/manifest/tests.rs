//! Each test makes one change in a tree. Every mistake that a restore could make must show as a
//! line that names it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use rustix::fs::{Timespec, makedev};

use super::*;
use crate::scratch::Scratch;

/// Makes a small tree, takes its manifest, calls `change` on it and returns the differences.
fn changes(change: impl FnOnce(&Folder, PathBuf)) -> Vec<String> {
    let scratch = Scratch::new();
    let top = scratch.path();
    fs::create_dir(top.join("folder")).unwrap();
    fs::write(top.join("file"), b"content").unwrap();
    fs::write(top.join("folder/one"), b"linked").unwrap();
    fs::hard_link(top.join("folder/one"), top.join("folder/two")).unwrap();
    symlink("file", top.join("symlink")).unwrap();
    let folder = Folder::open(top).unwrap();
    folder.make_special(b"fifo", FileType::Fifo, 0).unwrap();
    let holes = File::create(top.join("holes")).unwrap();
    holes.set_len(8 << 20).unwrap();
    let before = Manifest::take(top).unwrap();
    let times = before.object(b"");
    change(&folder, top.to_path_buf());
    // Adding and removing objects changes the folder's time too. The time is reset, because each
    // test is about one change.
    restore_time(&folder, b".", times.mtime_ns);
    restore_time(&folder, b"folder", before.object(b"folder").mtime_ns);
    diff(&before, &Manifest::take(top).unwrap())
}

fn restore_time(folder: &Folder, name: &[u8], mtime_ns: i128) {
    let tv_sec = i64::try_from(mtime_ns.div_euclid(1_000_000_000)).unwrap();
    let tv_nsec = i64::try_from(mtime_ns.rem_euclid(1_000_000_000)).unwrap();
    folder.set_mtime(name, Timespec { tv_sec, tv_nsec }).unwrap();
}

fn keep_time(top: &Path, name: &str, change: impl FnOnce(PathBuf)) {
    let mtime = fs::metadata(top.join(name)).unwrap().modified().unwrap();
    change(top.join(name));
    let file = File::options().write(true).open(top.join(name)).unwrap();
    file.set_modified(mtime).unwrap();
}

#[track_caller]
fn check(lines: &[String], expected: &[&str]) {
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, begin) in lines.iter().zip(expected) {
        assert!(line.starts_with(begin), "{line:?} should begin with {begin:?}");
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn no_change_gives_no_difference() {
    check(&changes(|_, _| ()), &[]);
}

#[test]
fn missing_and_added_objects_are_found() {
    let lines = changes(|_, top| fs::rename(top.join("file"), top.join("other")).unwrap());
    check(&lines, &["file: missing", "other: not in the source"]);
}

#[test]
fn other_type_is_found() {
    let lines = changes(|folder, top| {
        fs::remove_file(top.join("fifo")).unwrap();
        folder.symlink(b"fifo", b"file").unwrap();
    });
    assert!(lines[0].starts_with("fifo: type is Symlink, should be Fifo"), "{lines:?}");
}

#[test]
fn other_content_of_the_same_size_and_time_is_found() {
    let lines =
        changes(|_, top| keep_time(&top, "file", |path| fs::write(path, b"kontent").unwrap()));
    check(&lines, &["file: content"]);
}

#[test]
fn other_size_is_found() {
    let lines = changes(|_, top| {
        keep_time(&top, "file", |path| fs::write(path, b"longer content").unwrap());
    });
    check(&lines, &["file: size", "file: content"]);
}

#[test]
fn mode_is_found_with_its_special_bits() {
    for mode in [0o600, 0o4644, 0o2644, 0o1644, 0] {
        let lines = changes(|folder, _| folder.set_mode(b"file", mode).unwrap());
        check(&lines, &["file: mode"]);
    }
    let lines = changes(|_, top| {
        fs::set_permissions(top.join("folder"), fs::Permissions::from_mode(0o2755)).unwrap();
    });
    check(&lines, &["folder: mode"]);
}

#[test]
fn owner_and_group_are_found() {
    if is_root() {
        check(&changes(|folder, _| folder.set_owner(b"file", 1, 0).unwrap()), &["file: uid"]);
        check(&changes(|folder, _| folder.set_owner(b"symlink", 0, 1).unwrap()), &["symlink: gid"]);
    }
}

#[test]
fn one_nanosecond_of_mtime_is_found() {
    for name in ["file", "symlink", "fifo"] {
        let lines = changes(|folder, _| {
            let stat = folder.stat(name.as_bytes()).unwrap();
            let tv_nsec = (i64::try_from(stat.st_mtime_nsec).unwrap() + 1) % 1_000_000_000;
            let time = Timespec { tv_sec: stat.st_mtime, tv_nsec };
            folder.set_mtime(name.as_bytes(), time).unwrap();
        });
        check(&lines, &[&format!("{name}: mtime")]);
    }
}

#[test]
fn mtime_of_a_folder_is_found() {
    let scratch = Scratch::new();
    let folder = Folder::open(scratch.path()).unwrap();
    let inner = folder.make(b"inner").unwrap();
    restore_time(&folder, b".", 5);
    let before = Manifest::take(scratch.path()).unwrap();
    inner.create(b"file").unwrap();
    inner.names().unwrap();
    let lines = diff(&before, &Manifest::take(scratch.path()).unwrap());
    check(&lines, &["inner: mtime", "inner/file: not in the source"]);
}

#[test]
fn extended_attributes_are_found() {
    let user = |folder: &Folder, name: &[u8]| folder.set_xattr(name, "user.a", b"b").unwrap();
    check(&changes(|folder, _| user(folder, b"file")), &["file: xattr user.a"]);
    check(&changes(|folder, _| user(folder, b"folder")), &["folder: xattr user.a"]);
    if is_root() {
        let on_link = |folder: &Folder, _| folder.set_xattr(b"symlink", "trusted.a", b"b").unwrap();
        check(&changes(on_link), &["symlink: xattr trusted.a is 'b', should be absent"]);
    }
}

#[test]
fn lost_and_changed_extended_attributes_are_found() {
    let scratch = Scratch::new();
    let folder = Folder::open(scratch.path()).unwrap();
    folder.make(b"inner").unwrap();
    folder.set_xattr(b"inner", "user.a", b"").unwrap();
    let before = Manifest::take(scratch.path()).unwrap();
    folder.set_xattr(b"inner", "user.a", b"\0").unwrap();
    let changed = Manifest::take(scratch.path()).unwrap();
    check(&diff(&before, &changed), &["inner: xattr user.a is '\\x00', should be ''"]);
    folder.remove_xattr(b"inner", "user.a").unwrap();
    let lost = Manifest::take(scratch.path()).unwrap();
    check(&diff(&before, &lost), &["inner: xattr user.a is absent"]);
}

#[test]
fn one_byte_in_a_large_attribute_is_found() {
    let mut value = vec![b'x'; 2000];
    let manifest = |value: &[u8]| {
        let scratch = Scratch::new();
        let folder = Folder::open(scratch.path()).unwrap();
        folder.set_xattr(b".", "user.large", value).unwrap();
        restore_time(&folder, b".", 0);
        Manifest::take(scratch.path()).unwrap()
    };
    let before = manifest(&value);
    value[1000] = b'y';
    check(&diff(&before, &manifest(&value)), &[".: xattr user.large"]);
}

#[test]
fn acl_is_found() {
    // The default ACL `u::rwx,g::r-x,o::r-x` does not change the mode.
    let acl = [
        b"\x02\0\0\0".as_slice(),
        b"\x01\0\x07\0\xff\xff\xff\xff",
        b"\x04\0\x05\0\xff\xff\xff\xff",
        b"\x20\0\x05\0\xff\xff\xff\xff",
    ]
    .concat();
    let lines = changes(|folder, _| {
        folder.set_xattr(b"folder", "system.posix_acl_default", &acl).unwrap();
    });
    check(&lines, &["folder: xattr system.posix_acl_default"]);
}

#[test]
fn inode_flags_are_found() {
    let probe = Scratch::new();
    if Folder::open(probe.path()).unwrap().flags(b".").unwrap().is_none() {
        return;
    }
    for name in ["file", "folder"] {
        let lines = changes(|folder, _| {
            let flags = folder.flags(name.as_bytes()).unwrap().unwrap();
            folder.set_flags(name.as_bytes(), flags | IFlags::NODUMP).unwrap();
        });
        check(&lines, &[&format!("{name}: inode flags is 0x40, should be 0x0")]);
    }
}

#[test]
fn other_symlink_target_is_found() {
    let lines = changes(|folder, top| {
        let mtime_ns = Manifest::take(&top).unwrap().object(b"symlink").mtime_ns;
        fs::remove_file(top.join("symlink")).unwrap();
        folder.symlink(b"symlink", b"fil2").unwrap();
        restore_time(folder, b"symlink", mtime_ns);
    });
    check(&lines, &["symlink: symlink target is 'fil2', should be 'file'"]);
}

#[test]
fn other_device_number_is_found() {
    let scratch = Scratch::new();
    let folder = Folder::open(scratch.path()).unwrap();
    if folder.make_special(b"node", FileType::CharacterDevice, makedev(1, 3)).is_err() {
        return;
    }
    let before = Manifest::take(scratch.path()).unwrap();
    let mtimes = (before.object(b"").mtime_ns, before.object(b"node").mtime_ns);
    fs::remove_file(scratch.join("node")).unwrap();
    folder.make_special(b"node", FileType::CharacterDevice, makedev(1, 5)).unwrap();
    restore_time(&folder, b"node", mtimes.1);
    restore_time(&folder, b".", mtimes.0);
    let lines = diff(&before, &Manifest::take(scratch.path()).unwrap());
    check(&lines, &["node: device is Some(105), should be Some(103)"]);
}

#[test]
fn broken_hard_link_is_found() {
    let lines = changes(|folder, top| {
        let mtime_ns = Manifest::take(&top).unwrap().object(b"folder/two").mtime_ns;
        fs::remove_file(top.join("folder/two")).unwrap();
        fs::write(top.join("folder/two"), b"linked").unwrap();
        restore_time(&folder.child(b"folder").unwrap(), b"two", mtime_ns);
    });
    check(
        &lines,
        &["folder/one: hard-link group is absent", "folder/two: hard-link group is absent"],
    );
}

#[test]
fn filled_hole_is_found() {
    let lines = changes(|_, top| {
        keep_time(&top, "holes", |path| fs::write(path, vec![0; 8 << 20]).unwrap());
    });
    check(&lines, &["holes: takes 8388608 bytes of disk, should take about 0"]);
}

#[test]
fn zeros_made_a_hole_are_no_difference() {
    let scratch = Scratch::new();
    let (dense, sparse) = (scratch.join("dense"), scratch.join("sparse"));
    fs::write(&dense, vec![0; 1 << 20]).unwrap();
    File::create(&sparse).unwrap().set_len(1 << 20).unwrap();
    let (dense, sparse) = (Manifest::take(&dense).unwrap(), Manifest::take(&sparse).unwrap());
    assert_eq!(dense.object(b"").content, sparse.object(b"").content);
}

#[test]
fn data_at_another_offset_is_other_content() {
    let scratch = Scratch::new();
    let digest = |name: &str, offset: u64| {
        let file = File::create(scratch.join(name)).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"data", offset).unwrap();
        Manifest::take(&scratch.join(name)).unwrap().object(b"").content.clone()
    };
    assert_ne!(digest("here", 0), digest("there", 512 << 10));
    assert_eq!(digest("once", 65_534), digest("again", 65_534));
}
