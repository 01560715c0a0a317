//! Objects as a restore makes them, on a real file system.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use model::{Timestamp, Xattr};
use rustix::fs::IFlags;

use super::*;
use crate::{Refusal, process};

const HOLDS: &[u8] = b"file";

fn open(path: &Path) -> Arc<Dir> {
    Arc::new(Dir::open(path.as_os_str().as_bytes()).unwrap())
}

fn create_drafted(dir: &Arc<Dir>, name: &[u8]) -> io::Result<NewFile> {
    let draft = b".holdfast-test".to_vec();
    let fd = create_exclusive(dir, &draft)?;
    Ok(NewFile::new(fd, dir, name.to_vec(), Some(draft)))
}

fn create_with_mode(dir: &Arc<Dir>, name: &[u8]) -> io::Result<NewFile> {
    NewFile::create_with_mode(dir, name, stat(Kind::File).mode)
}

/// A way to make a file. The second way is the fallback of the others without `O_TMPFILE`.
type Create = fn(&Arc<Dir>, &[u8]) -> io::Result<NewFile>;
const CREATES: [Create; 3] = [NewFile::create, create_drafted, create_with_mode];

fn stat(kind: Kind) -> Stat {
    let (uid, gid) = process::effective_ids();
    Stat {
        kind,
        mode: 0o640,
        uid,
        gid,
        size: 0,
        mtime: Timestamp { secs: -1_000_000, nanos: 123_456_789 },
        ctime: Timestamp::default(),
        inode: 0,
        linked: false,
        device: 0,
    }
}

fn xattr(name: &[u8], value: &[u8]) -> Xattr {
    Xattr { name: name.to_vec(), value: value.to_vec() }
}

/// A POSIX ACL as the kernel encodes it, with one named user.
fn acl() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entry = |tag: u16, rights: u16, id: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 6, NOBODY),
        entry(0x02, 4, 12_345),
        entry(0x04, 4, NOBODY),
        entry(0x10, 4, NOBODY),
        entry(0x20, 0, NOBODY),
    ]
    .concat()
}

/// Prints the parts that the kernel refused; only rights or the file system may be the reason.
#[track_caller]
fn accepted(applied: ApplyOutcome) -> Vec<Part> {
    for Refusal { part, error } in &applied.refused {
        println!("skipped: {part:?}: {error}");
        let kinds = [ErrorKind::PermissionDenied, ErrorKind::Unsupported];
        assert!(kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::ENOTTY));
        assert!(*part != Part::Mode && *part != Part::Times, "{part:?} needs no privilege");
    }
    if process::is_root() {
        assert!(applied.refused.iter().all(|refusal| refusal.part != Part::Owner));
    }
    applied.refused.into_iter().map(|refusal| refusal.part).collect()
}

#[test]
fn a_file_appears_whole_with_its_holes() {
    for create in CREATES {
        let folder = tempfile::tempdir().unwrap();
        let file = create(&open(folder.path()), HOLDS).unwrap();
        file.write_at(b"end", 1 << 20).unwrap();
        file.write_at(b"start", 0).unwrap();
        file.set_len(4 << 20).unwrap();
        accepted(file.publish(false).unwrap());
        let bytes = fs::read(folder.path().join("file")).unwrap();
        assert_eq!(bytes.len(), 4 << 20);
        assert!(bytes.starts_with(b"start\0"));
        assert_eq!(&bytes[1 << 20..][..4], b"end\0");
        assert!(fs::metadata(folder.path().join("file")).unwrap().blocks() * 512 < 1 << 20);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_dropped_file_leaves_nothing() {
    for create in CREATES {
        let folder = tempfile::tempdir().unwrap();
        let file = create(&open(folder.path()), HOLDS).unwrap();
        file.write_at(b"part", 0).unwrap();
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_existing_name_is_replaced_only_on_demand() {
    for create in CREATES {
        for is_link in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (path, outside) = (folder.path().join("file"), folder.path().join("outside"));
            fs::write(&outside, b"outside").unwrap();
            if is_link {
                symlink(&outside, &path).unwrap();
            } else {
                fs::write(&path, b"outside").unwrap();
            }
            let new = || {
                let file = create(&open(folder.path()), HOLDS).unwrap();
                file.write_at(b"new", 0).unwrap();
                file
            };
            assert_eq!(new().publish(false).unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"outside");
            accepted(new().publish(true).unwrap());
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
            assert_eq!(fs::read(&outside).unwrap(), b"outside", "no link is followed");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }
}

#[test]
fn a_directory_is_not_replaced_by_a_file() {
    for create in CREATES {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(folder.path());
        dir.make_dir(HOLDS).unwrap();
        let refused = create(&dir, HOLDS).unwrap().publish(true).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::IsADirectory);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        dir.remove(HOLDS, true).unwrap();
        accepted(create(&dir, HOLDS).unwrap().publish(true).unwrap());
        dir.remove(HOLDS, false).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_file_comes_back_with_all_it_had() {
    let flags = IFlags::NODUMP | IFlags::NOATIME | IFlags::IMMUTABLE;
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let attributes = Attributes {
        xattrs: vec![
            xattr(b"security.capability", &capability),
            xattr(b"system.posix_acl_access", &acl()),
            xattr(b"trusted.holdfast", b"\0binary\xff"),
            xattr(b"user.empty", b""),
            xattr(b"user.long", &[7; 2000]),
        ],
        flags: flags.bits(),
    };
    let mut wanted = stat(Kind::File);
    wanted.mode = 0o6640;
    if process::is_root() {
        (wanted.uid, wanted.gid) = (12_345, 54_321);
    }
    for create in CREATES {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(folder.path());
        let mut file = create(&dir, HOLDS).unwrap();
        file.write_at(b"content", 0).unwrap();
        let mut refused = accepted(file.apply(&wanted, &attributes, true));
        refused.extend(accepted(file.publish(false).unwrap()));

        let source = dir.open_file(HOLDS).unwrap();
        let (found, read) = (source.stat().unwrap().stat, source.attributes().unwrap());
        if read.flags & IFlags::IMMUTABLE.bits() != 0 {
            let writes = fs::OpenOptions::new().write(true).open(folder.path().join("file"));
            assert_eq!(writes.unwrap_err().kind(), ErrorKind::PermissionDenied);
            let handle = File::open(folder.path().join("file")).unwrap();
            apply::set_flags(&Inode::of_open(handle.as_fd()), 0, FLAGS_SEALING, None).unwrap();
        }
        assert_eq!((found.mode, found.uid, found.gid), (wanted.mode, wanted.uid, wanted.gid));
        assert_eq!((found.mtime, found.size), (wanted.mtime, 7));
        let mut expected = attributes.clone();
        expected
            .xattrs
            .retain(|xattr| !refused.contains(&Part::Xattr(xattr.name.clone())));
        assert_eq!(read.xattrs, expected.xattrs);
        assert!(expected.xattrs.len() >= 2 || !process::is_root());
        if !refused.contains(&Part::Flags) {
            assert_eq!(read.flags, expected.flags);
        }
        let by_name = dir.attributes(HOLDS, Kind::File).unwrap();
        assert_eq!(by_name.xattrs, read.xattrs);
    }
}

#[test]
fn an_inherited_acl_does_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    let default = Attributes { xattrs: vec![xattr(b"system.posix_acl_default", &acl())], flags: 0 };
    let mut dir_stat = stat(Kind::Directory);
    dir_stat.mode = 0o750;
    if !accepted(dir.apply(&dir_stat, &default, true)).is_empty() {
        return;
    }
    assert_eq!(dir.own_attributes().unwrap().xattrs, default.xattrs);
    for create in CREATES {
        let mut file = create(&dir, HOLDS).unwrap();
        accepted(file.apply(&stat(Kind::File), &Attributes::default(), true));
        accepted(file.publish(false).unwrap());
        assert_eq!(dir.attributes(HOLDS, Kind::File).unwrap().xattrs, []);
        assert_eq!(dir.stat(HOLDS).unwrap().unwrap().stat.mode, 0o640);
        dir.remove(HOLDS, false).unwrap();
    }
    accepted(dir.apply(&dir_stat, &Attributes::default(), true));
    let found = dir.stat_self().unwrap().stat;
    assert_eq!(dir.own_attributes().unwrap().xattrs, []);
    assert_eq!((found.mode, found.mtime), (0o750, dir_stat.mtime));
}

/// The state of new files is read from the first new file only, so all new files must have the same
/// state.
#[test]
fn what_a_directory_gives_its_files_does_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let made = open(folder.path());
    let given = Attributes { xattrs: vec![], flags: IFlags::NODUMP.bits() };
    let mut of_dir = stat(Kind::Directory);
    of_dir.mode = 0o2750;
    of_dir.gid += u32::from(process::is_root());
    let refused = accepted(made.apply(&of_dir, &given, process::is_root()));
    let dir = open(folder.path());
    let meant = [
        stat(Kind::File),
        Stat { gid: of_dir.gid, ..stat(Kind::File) },
        Stat { uid: stat(Kind::File).uid + u32::from(process::is_root()), ..of_dir },
        stat(Kind::File),
    ];
    for (number, meant) in meant.into_iter().enumerate() {
        let meant = Stat { kind: Kind::File, ..meant };
        for attributes in [Attributes::default(), given.clone()] {
            let name = format!("{number}-{}", attributes.flags).into_bytes();
            let mut file = NewFile::create(&dir, &name).unwrap();
            file.write_at(b"content", 0).unwrap();
            accepted(file.apply(&meant, &attributes, process::is_root()));
            accepted(file.publish(false).unwrap());
            let found = dir.stat(&name).unwrap().unwrap().stat;
            assert_eq!((found.uid, found.gid), (meant.uid, meant.gid));
            assert_eq!((found.mode, found.mtime), (meant.mode, meant.mtime));
            if refused.is_empty() {
                assert_eq!(dir.attributes(&name, Kind::File).unwrap(), attributes);
            }
        }
    }
}

/// A file may be made with its mode, but the umask or a default ACL may change that, for each mode
/// in another way.
#[test]
fn files_have_the_modes_that_they_had() {
    const MODES: [u16; 8] = [0o666, 0o644, 0o777, 0o600, 0o640, 0o444, 0, 0o4755];
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    let default = Attributes { xattrs: vec![xattr(b"system.posix_acl_default", &acl())], flags: 0 };
    for (name, given) in [(&b"plain"[..], Attributes::default()), (b"with an ACL", default)] {
        let of_dir = Stat { mode: 0o750, ..stat(Kind::Directory) };
        accepted(dir.make_dir(name).unwrap().apply(&of_dir, &given, true));
        for (first, owner) in MODES.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
            // Each handle of the directory learns from its first file.
            let handle = Arc::new(dir.open_dir(name).unwrap());
            for (made, mode) in MODES.into_iter().flat_map(|mode| [(first, mode), (mode, mode)]) {
                let mut file = NewFile::create_with_mode(&handle, HOLDS, made).unwrap();
                file.write_at(b"content", 0).unwrap();
                let wanted = Stat { mode, ..stat(Kind::File) };
                accepted(file.apply(&wanted, &Attributes::default(), owner));
                accepted(file.publish(true).unwrap());
                let found = handle.stat(HOLDS).unwrap().unwrap().stat;
                assert_eq!(found.mode, mode, "made with {made:o} after {first:o}, {owner}");
            }
        }
    }
}

#[test]
fn a_file_that_its_owner_may_not_write_takes_user_attributes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    let attributes = Attributes { xattrs: vec![xattr(b"user.note", b"value")], flags: 0 };
    let wanted = Stat { mode: 0o440, ..stat(Kind::File) };
    for create in CREATES {
        let mut file = create(&dir, HOLDS).unwrap();
        let refused = accepted(file.apply(&wanted, &attributes, false));
        accepted(file.publish(false).unwrap());
        assert_eq!(dir.stat(HOLDS).unwrap().unwrap().stat.mode, wanted.mode);
        if refused.is_empty() {
            let found = dir.attributes(HOLDS, Kind::File).unwrap();
            assert_eq!(found.xattrs, attributes.xattrs);
        }
        dir.remove(HOLDS, false).unwrap();
    }
}

#[test]
fn setuid_is_not_lent_to_another_owner() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    let mut wanted = stat(Kind::File);
    wanted.mode = 0o4755;
    for (uid, mode) in [(wanted.uid, 0o4755), (wanted.uid + 1, 0o755)] {
        wanted.uid = uid;
        let mut file = NewFile::create(&dir, HOLDS).unwrap();
        let applied = file.apply(&wanted, &Attributes::default(), false);
        accepted(file.publish(true).unwrap());
        assert_eq!(dir.stat(HOLDS).unwrap().unwrap().stat.mode, mode);
        let parts: Vec<_> = applied.refused.into_iter().map(|refusal| refusal.part).collect();
        let expected = if mode == wanted.mode { vec![] } else { vec![Part::Mode] };
        assert_eq!(parts, expected);
    }
}

#[test]
fn links_and_nodes_take_attributes_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    fs::write(folder.path().join("outside"), b"").unwrap();
    let outside = dir.stat(b"outside").unwrap().unwrap();
    dir.make_symlink(b"link", b"outside").unwrap();
    dir.make_node(b"fifo", Kind::Fifo, 0).unwrap();
    let mut nodes = vec![(&b"link"[..], Kind::Symlink, 0), (b"fifo", Kind::Fifo, 0)];
    for (name, kind, device) in [
        (&b"char"[..], Kind::CharDevice, rustix::fs::makedev(1, 3)),
        (b"block", Kind::BlockDevice, rustix::fs::makedev(259, 0x12345)),
    ] {
        match dir.make_node(name, kind, device) {
            Ok(()) => nodes.push((name, kind, device)),
            Err(error) => {
                assert!(!process::is_root() || error.kind() == ErrorKind::PermissionDenied);
                println!("skipped: {kind:?}: {error}");
            }
        }
    }
    for (name, kind, device) in nodes {
        let attributes = Attributes { xattrs: vec![xattr(b"trusted.t", b"value")], flags: 0 };
        let mut wanted = stat(kind);
        wanted.uid += u32::from(process::is_root());
        let refused = accepted(dir.apply_to_name(name, &wanted, &attributes, true).unwrap());
        let found = dir.stat(name).unwrap().unwrap().stat;
        assert_eq!((found.kind, found.device), (kind, device));
        assert_eq!((found.uid, found.mtime), (wanted.uid, wanted.mtime));
        assert_eq!(found.mode, if kind == Kind::Symlink { 0o777 } else { wanted.mode });
        if refused.is_empty() {
            assert_eq!(dir.attributes(name, kind).unwrap(), attributes);
        }
        let other = stat(Kind::File);
        let mistaken = dir.apply_to_name(name, &other, &attributes, true).unwrap_err();
        assert_eq!(mistaken.kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(dir.stat(b"outside").unwrap().unwrap(), outside, "no link is followed");
}

#[test]
fn directories_are_made_or_found_but_never_through_links() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    let made = dir.make_dir(b"dir").unwrap().stat_self().unwrap();
    assert_eq!(made.stat.mode & 0o777, 0o700);
    assert_eq!(dir.make_dir(b"dir").unwrap().stat_self().unwrap(), made);
    dir.make_symlink(b"link", b"dir").unwrap();
    let kind = dir.make_dir(b"link").unwrap_err().kind();
    assert_eq!(kind, ErrorKind::NotADirectory);
    fs::write(folder.path().join("file"), b"").unwrap();
    assert_eq!(dir.make_dir(b"file").unwrap_err().kind(), ErrorKind::NotADirectory);
}

#[test]
fn a_directory_is_added_only_under_a_free_name() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    for (name, is_unfinished) in [(&b"plain"[..], false), (b"begun", true)] {
        assert!(dir.add_dir(name, is_unfinished).unwrap());
        assert_eq!(dir.open_dir(name).unwrap().is_unfinished(), is_unfinished);
        assert!(!dir.add_dir(name, !is_unfinished).unwrap());
        assert_eq!(dir.open_dir(name).unwrap().is_unfinished(), is_unfinished);
    }
    dir.make_symlink(b"link", b"nowhere").unwrap();
    assert!(!dir.add_dir(b"link", true).unwrap());
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    assert!(!dir.add_dir(b"socket", true).unwrap());
    assert_eq!(dir.add_dir(b"plain/below", true).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_directory_is_unfinished_until_it_has_its_attributes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    let made = dir.make_unfinished_dir(b"dir").unwrap();
    assert!(made.is_unfinished());
    made.mark_unfinished();
    fs::set_permissions(folder.path().join("dir"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(made.is_unfinished());
    let stat = dir.stat(b"dir").unwrap().unwrap().stat;
    for (owner, mode) in [(false, 0o755), (true, 0o755), (false, 0o500)] {
        made.mark_unfinished();
        let stat = Stat { mode, ..stat };
        let applied = made.apply(&stat, &Attributes::default(), owner);
        assert!(applied.refused.is_empty(), "{applied:?}");
        assert!(!made.is_unfinished());
        assert_eq!(made.stat_self().unwrap().stat.mode, mode);
        assert_eq!(made.own_attributes().unwrap(), Attributes::default());
    }
}

#[test]
fn hard_links_lead_to_links_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    let other = dir.make_dir(b"other").unwrap();
    dir.make_symlink(b"link", b"other").unwrap();
    dir.link(b"link", &other, b"second").unwrap();
    let found = other.stat(b"second").unwrap().unwrap().stat;
    assert_eq!(found.kind, Kind::Symlink);
    assert_eq!(found.inode, dir.stat(b"link").unwrap().unwrap().stat.inode);
    assert!(found.linked);
    assert_eq!(dir.link(b"link", &other, b"second").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(dir.link(b"link", &other, b"../x").unwrap_err().kind(), ErrorKind::InvalidInput);
}
