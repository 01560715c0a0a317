//! Directories as a backup reads them, on a real file system.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::Segment;

fn open(path: &Path) -> Dir {
    Dir::open(path.as_os_str().as_bytes()).unwrap()
}

/// Lists `path` and compares everything with the answers of the standard library.
#[track_caller]
fn check(path: &Path, listing: &mut Listing) {
    let dir = open(path);
    dir.list(listing).unwrap();
    let expected: BTreeMap<_, _> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().as_bytes().to_vec(), entry.metadata().unwrap()))
        .collect();
    assert!(listing.failures().is_empty());
    assert_eq!(listing.entries().len(), expected.len());
    for (entry, (name, metadata)) in listing.entries().iter().zip(&expected) {
        assert_eq!(listing.name(entry), &name[..]);
        let stat = entry.found.stat;
        assert_eq!(entry.found.device_id, metadata.dev());
        assert_eq!(entry.found.allocated_bytes, metadata.blocks() * 512);
        assert_eq!((stat.inode, stat.size), (metadata.ino(), metadata.size()));
        assert_eq!((stat.uid, stat.gid), (metadata.uid(), metadata.gid()));
        assert_eq!(u32::from(stat.mode), metadata.mode() & 0o7777);
        assert_eq!(stat.mtime.secs, metadata.mtime());
        assert_eq!(i64::from(stat.mtime.nanos), metadata.mtime_nsec());
        assert_eq!(stat.ctime.secs, metadata.ctime());
        assert_eq!(i64::from(stat.ctime.nanos), metadata.ctime_nsec());
        assert_eq!(stat.linked, metadata.nlink() > 1 && !metadata.is_dir());
        assert_eq!(stat.kind == Kind::Directory, metadata.is_dir());
        assert_eq!(stat.kind == Kind::Symlink, metadata.is_symlink());
        assert_eq!(stat.kind == Kind::File, metadata.is_file());
        assert_eq!(dir.stat(name).unwrap(), Some(entry.found));
    }
}

#[test]
fn links_are_followed_on_the_way_and_not_below() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("real/a/b")).unwrap();
    symlink("real", folder.path().join("way")).unwrap();
    symlink("a", folder.path().join("real/link")).unwrap();
    fs::write(folder.path().join("real/file"), b"").unwrap();
    let way = folder.path().join("way");
    let open = |below: &[&[u8]]| Dir::open_below(way.as_os_str().as_bytes(), below.iter().copied());
    let inode = |dir: io::Result<Dir>| dir.unwrap().stat_self().unwrap().stat.inode;
    assert_eq!(inode(open(&[])), fs::metadata(&way).unwrap().ino());
    let below = fs::metadata(way.join("a/b")).unwrap().ino();
    assert_eq!(inode(open(&[b"a", b"b"])), below);
    let refused: [(&[&[u8]], ErrorKind); 6] = [
        (&[b"link", b"b"], ErrorKind::NotADirectory),
        (&[b"a", b"b", b"link"], ErrorKind::NotFound),
        (&[b"link"], ErrorKind::NotADirectory),
        (&[b"file"], ErrorKind::NotADirectory),
        (&[b"none"], ErrorKind::NotFound),
        (&[b"a", b".."], ErrorKind::InvalidInput),
    ];
    for (names, expected) in refused {
        assert_eq!(open(names).unwrap_err().kind(), expected, "{names:?}");
    }
}

#[test]
fn names_are_bytes_and_come_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    for byte in (1..=255).filter(|&byte| byte != b'/') {
        for name in
            [&[b'x', byte][..], &[byte, b'y', byte], &[b"12345678".as_slice(), &[byte]].concat()]
        {
            fs::write(path(name), name).unwrap();
        }
    }
    fs::write(path(&[0xff; 255]), b"").unwrap();
    fs::create_dir(path(b"dir")).unwrap();
    symlink("nowhere", path(b"link")).unwrap();
    fs::hard_link(path(b"xa"), path(b"second name of xa")).unwrap();
    check(folder.path(), &mut Listing::default());
}

#[test]
fn one_listing_serves_directories_of_all_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let (large, empty) = (folder.path().join("large"), folder.path().join("empty"));
    fs::create_dir(&large).unwrap();
    fs::create_dir(&empty).unwrap();
    for number in 0..3000 {
        File::create(large.join(format!("a name that fills the buffer soon {number}"))).unwrap();
    }
    let mut listing = Listing::default();
    for path in [folder.path(), &large, &empty, folder.path(), &large] {
        check(path, &mut listing);
    }
}

#[test]
fn a_directory_can_be_listed_again_and_after_its_removal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dir");
    fs::create_dir(&path).unwrap();
    let (dir, mut listing) = (open(&path), Listing::default());
    for count in 0..3 {
        dir.list(&mut listing).unwrap();
        assert_eq!(listing.entries().len(), count);
        File::create(path.join(format!("file {count}"))).unwrap();
    }
    fs::remove_dir_all(&path).unwrap();
    dir.list(&mut listing).unwrap();
    assert!(listing.entries().is_empty());
}

#[test]
fn sockets_are_no_objects() {
    let folder = tempfile::tempdir().unwrap();
    let _listener = UnixListener::bind(folder.path().join("socket")).unwrap();
    File::create(folder.path().join("file")).unwrap();
    let (dir, mut listing) = (open(folder.path()), Listing::default());
    dir.list(&mut listing).unwrap();
    assert_eq!(listing.sockets(), [b"socket"]);
    let names: Vec<_> = listing.entries().iter().map(|entry| listing.name(entry)).collect();
    assert_eq!(names, [b"file"]);
    assert_eq!(dir.stat(b"socket").unwrap(), None);
}

#[test]
fn what_cannot_be_asked_is_reported_by_name() {
    use std::os::unix::fs::PermissionsExt as _;
    if crate::process::is_root() {
        println!("skipped: the kernel refuses root nothing");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    File::create(folder.path().join("file")).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let mut listing = Listing::default();
    open(folder.path()).list(&mut listing).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(listing.entries().is_empty());
    assert_eq!(listing.failures()[0].name, b"file");
    assert_eq!(listing.failures()[0].error.kind(), ErrorKind::PermissionDenied);
}

#[test]
fn paths_may_be_longer_than_the_kernel_takes() {
    let folder = tempfile::tempdir().unwrap();
    let name = [b'n'; 255];
    let mut path = folder.path().as_os_str().as_bytes().to_vec();
    let mut dir = open(folder.path());
    for _ in 0..30 {
        dir = dir.make_dir(&name).unwrap();
        path.extend_from_slice(b"//");
        path.extend_from_slice(&name);
    }
    dir.make_symlink(b"link", b"target").unwrap();
    assert!(path.len() > 7000);
    let again = Dir::open(&path).unwrap();
    assert_eq!(again.stat_self().unwrap(), dir.stat_self().unwrap());
    assert_eq!(again.read_link(b"link").unwrap(), b"target");
    assert_eq!(again.attributes(b"link", Kind::Symlink).unwrap(), Attributes::default());
    path.extend_from_slice(b"/link");
    assert_eq!(Dir::open(&path).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn long_paths_are_cut_at_slashes_only() {
    assert_eq!(split_piece(&[b'/'; 4000]), None);
    let path = [&[b'a'; 3990][..], b"//////////////////", &[b'b'; 100]].concat();
    let (piece, rest) = split_piece(&path).unwrap();
    assert_eq!((piece.len(), rest), (4000, &[b'b'; 100][..]));
    assert_eq!(split_piece(&[b'a'; 5000]), None, "the kernel refuses the component");
    assert_eq!(split_piece(&[b'/'; 5000]), None, "a path without components is left to the kernel");
}

#[test]
fn links_are_followed_only_in_paths_that_people_give() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    fs::write(folder.path().join("real/file"), b"bytes").unwrap();
    symlink("real", folder.path().join("to dir")).unwrap();
    symlink("real/file", folder.path().join("to file")).unwrap();
    let dir = open(folder.path());
    let real = dir.open_dir(b"real").unwrap();

    let followed = open(&folder.path().join("to dir"));
    assert_eq!(followed.stat_self().unwrap(), real.stat_self().unwrap());
    let kind = dir.open_dir(b"to dir").unwrap_err().kind();
    assert_eq!(kind, ErrorKind::NotADirectory);
    assert_eq!(dir.open_file(b"to file").unwrap_err().raw_os_error(), Some(libc::ELOOP));
    assert!(dir.attributes(b"to file", Kind::File).is_err());
    assert_eq!(dir.stat(b"to file").unwrap().unwrap().stat.kind, Kind::Symlink);
}

#[test]
fn a_name_is_one_component() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("dir")).unwrap();
    fs::write(folder.path().join("dir/file"), b"").unwrap();
    let dir = open(folder.path());
    for name in [&b""[..], b".", b"..", b"/", b"dir/file", b"dir/", b"dir\0"] {
        assert_eq!(dir.stat(name).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(dir.open_dir(name).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(dir.open_file(name).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(dir.make_dir(name).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(dir.remove(name, true).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn only_regular_files_open_and_a_fifo_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    dir.make_node(b"fifo", Kind::Fifo, 0).unwrap();
    dir.make_dir(b"dir").unwrap();
    for name in [&b"fifo"[..], b"dir"] {
        assert_eq!(dir.open_file(name).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(dir.open_file(b"absent").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn reading_leaves_the_access_time_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"some bytes").unwrap();
    // The access time is older than the modification, so an ordinary read would change it, except
    // on a noatime mount.
    let old = UNIX_EPOCH + Duration::from_secs(1_000_000);
    File::open(&path)
        .unwrap()
        .set_times(FileTimes::new().set_accessed(old))
        .unwrap();
    let mut file = open(folder.path()).open_file(b"file").unwrap();
    let mut buffer = [0; 4];
    assert_eq!(file.read(&mut buffer).unwrap(), 4);
    assert_eq!(file.read(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b" byt");
    assert_eq!(file.read_at(&mut buffer, 8).unwrap(), 2);
    assert_eq!(file.read(&mut buffer).unwrap(), 2);
    assert_eq!(file.read(&mut buffer).unwrap(), 0);
    assert_eq!(fs::metadata(&path).unwrap().accessed().unwrap(), old);
}

#[test]
fn links_have_targets_of_any_length() {
    let folder = tempfile::tempdir().unwrap();
    let dir = open(folder.path());
    for (name, bytes) in [(b"a", 1), (b"b", 59), (b"c", 60), (b"d", 512), (b"e", 4095)] {
        let target = vec![b'\xfe'; bytes];
        match dir.make_symlink(name, &target) {
            Ok(()) => assert_eq!(dir.read_link(name).unwrap(), target),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidFilename);
                println!("skipped: no links of {bytes} bytes on this file system");
            }
        }
    }
}

#[test]
fn segments_show_the_holes() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("sparse")).unwrap();
    file.write_all_at(b"data", 0).unwrap();
    file.write_all_at(&[1; 1 << 20], 2 * MIB).unwrap();
    file.set_len(8 * MIB).unwrap();
    let source = open(folder.path()).open_file(b"sparse").unwrap();
    let found = source.stat().unwrap();
    assert_eq!(found.stat.size, 8 * MIB);
    assert!((MIB..2 * MIB).contains(&found.allocated_bytes));

    let segments = source.segments(8 * MIB).unwrap();
    let [Segment::Data { offset: 0, bytes }, hole, data, end] = segments[..] else {
        panic!("expected data, a hole, data and a hole, not {segments:?}");
    };
    assert!(bytes <= 64 << 10, "the first part is one block, page or cluster");
    assert_eq!(hole, Segment::Hole { offset: bytes, bytes: 2 * MIB - bytes });
    assert_eq!(data, Segment::Data { offset: 2 * MIB, bytes: MIB });
    assert_eq!(end, Segment::Hole { offset: 3 * MIB, bytes: 5 * MIB });

    // Sizes other than the file's: the caller's `stat` may be older than the file.
    assert_eq!(source.segments(0).unwrap(), []);
    assert_eq!(source.segments(2).unwrap(), [Segment::Data { offset: 0, bytes: 2 }]);
    let grown = source.segments(9 * MIB).unwrap();
    assert_eq!(grown[3], Segment::Hole { offset: 3 * MIB, bytes: 6 * MIB });
}

#[test]
fn pseudo_file_systems_are_known() {
    assert!(Dir::open(b"/proc").unwrap().is_pseudo().unwrap());
    assert!(Dir::open(b"/proc/self").unwrap().is_pseudo().unwrap());
    let folder = tempfile::tempdir().unwrap();
    assert!(!open(folder.path()).is_pseudo().unwrap());
    match Dir::open(b"/sys/kernel") {
        Ok(sys) => assert!(sys.is_pseudo().unwrap()),
        Err(error) => println!("skipped: no sysfs here: {error}"),
    }
}
