//! Roots of file systems, and the kernel's list of mounts.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use super::*;

#[track_caller]
fn check(path: &Path, expected_object: &Path) {
    let mut root = expected_object.parent().unwrap_or(Path::new("/"));
    if fs::symlink_metadata(expected_object).is_ok_and(|metadata| metadata.is_dir()) {
        root = expected_object;
    }
    let device = fs::metadata(root).unwrap().dev();
    while let Some(parent) = root.parent() {
        if fs::metadata(parent).unwrap().dev() != device {
            break;
        }
        root = parent;
    }
    let rest = Path::new("/").join(expected_object.strip_prefix(root).unwrap());
    let found = filespace_root(path.as_os_str().as_bytes()).unwrap();
    let found = (as_path(&found.0), as_path(&found.1));
    assert_eq!(found, (root.to_path_buf(), rest), "{}", path.display());
}

fn as_path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

#[test]
fn mount_points_are_found() {
    let split = |path: &[u8]| filespace_root(path).unwrap();
    let parts = |root: &[u8], rest: &[u8]| (root.to_vec(), rest.to_vec());
    assert_eq!(split(b"/"), parts(b"/", b"/"));
    assert_eq!(split(b"/proc"), parts(b"/proc", b"/"));
    assert_eq!(split(b"//proc/./"), parts(b"/proc", b"/"));
    assert_eq!(split(b"/proc/cpuinfo"), parts(b"/proc", b"/cpuinfo"));
    assert_eq!(split(b"/proc/../../proc/sys/kernel"), parts(b"/proc", b"/sys/kernel"));
}

#[test]
fn links_on_the_way_are_followed_and_the_last_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("real/inner")).unwrap();
    fs::write(base.join("real/file"), b"").unwrap();
    symlink("real", base.join("relative")).unwrap();
    symlink(base.join("relative"), base.join("absolute")).unwrap();
    for (path, object) in [
        ("real", "real"),
        ("real/file", "real/file"),
        ("relative", "relative"),
        ("relative/", "real"),
        ("relative/.", "real"),
        ("absolute/file", "real/file"),
        ("absolute/inner/..//inner", "real/inner"),
        ("absolute/../real", "real"),
    ] {
        check(&base.join(path), &base.join(object));
    }
    symlink("/proc", base.join("elsewhere")).unwrap();
    check(&base.join("elsewhere/sys"), Path::new("/proc/sys"));
}

#[test]
fn links_to_objects_that_are_gone_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    fs::create_dir(base.join("real")).unwrap();
    fs::write(base.join("real/file"), b"").unwrap();
    symlink("real", base.join("link")).unwrap();
    symlink("real/gone/deep", base.join("broken")).unwrap();
    symlink("none/../real", base.join("impossible")).unwrap();
    for (path, object) in [
        ("link", "link"),
        ("link/", "real"),
        ("link/file", "real/file"),
        ("link/gone", "real/gone"),
        ("link/gone/one", "real/gone/one"),
        ("link/file/one", "real/file/one"),
        ("broken", "broken"),
        ("broken/./one", "real/gone/deep/one"),
        ("gone/one", "gone/one"),
    ] {
        let found = resolved(base.join(path).as_os_str().as_bytes()).unwrap();
        assert_eq!(as_path(&found), base.join(object), "{path}");
    }
    let path = base.join("impossible/one");
    let error = resolved(path.as_os_str().as_bytes()).expect_err("leads nowhere");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(resolved(b"//").unwrap(), b"/");
}

#[test]
fn relative_paths_are_refused() {
    for error in [filespace_root(b"src/lib.rs").err(), resolved(b"src/lib.rs").err()] {
        let error = error.expect("nothing says where it starts");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

/// Lines of `/proc/self/mountinfo`, as the kernel escapes names: a newline, a backslash, a space, a
/// tab, and bytes that are no UTF-8, which it leaves as they are.
const MOUNTINFO: &[u8] = b"\
    21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
    40 21 8:2 / /new\\012line rw - xfs /dev/sdb1 rw\n\
    41 21 8:3 /sub\\040vol /back\\134slash rw master:3 - btrfs /dev/my\\011disk rw\n\
    42 21 8:4 / /raw\xff\xfe rw - ext4 /dev/sd\xff rw\n\
    43 42 8:5 / /raw\xff\xfe rw - tmpfs none rw\n\
    44 41 8:6 / /back\\134slash/\\134012 rw - tmpfs none rw\n";

#[track_caller]
fn check_mounted(path: &[u8], expected: Option<(&[u8], &str, &[u8])>) {
    let expected = expected.map(|(root, kind, source)| MountedFilesystem {
        root: root.to_vec(),
        kind: kind.to_owned(),
        source: source.to_vec(),
    });
    assert_eq!(mounted_in(MOUNTINFO, path), expected, "{}", path.escape_ascii());
}

#[test]
fn mount_points_may_have_any_bytes() {
    check_mounted(b"/new\nline", Some((b"/", "xfs", b"/dev/sdb1")));
    check_mounted(b"/back\\slash", Some((b"/sub vol", "btrfs", b"/dev/my\tdisk")));
    check_mounted(b"/new\\012line", None);
    // Two mounts have this path; the upper mount is visible.
    check_mounted(b"/raw\xff\xfe", Some((b"/", "tmpfs", b"none")));
    check_mounted(b"/raw", None);
}

#[test]
fn mounts_at_one_path_are_known_by_their_ids() {
    let stack = |path: &[u8]| stack_in(MOUNTINFO, path);
    let expected = MountStack { top: Some(43), covered: vec![42] };
    assert_eq!(stack(b"/raw\xff\xfe"), expected);
    assert_eq!(stack(b"/"), MountStack { top: Some(21), covered: Vec::new() });
    assert_eq!(stack(b"/raw"), MountStack::default());
}

#[test]
fn a_watch_reports_mounts_and_unmounts() {
    if !crate::process::is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let watch = MountWatch::new().unwrap();
    let mount = |words: &[&str]| {
        let path = folder.path().to_str().unwrap();
        let status = std::process::Command::new(words[0]).args(&words[1..]).arg(path).status();
        status.is_ok_and(|status| status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "none"]) {
        return;
    }
    assert!(watch.wait(Duration::from_secs(5)).unwrap());
    assert!(mount(&["umount"]));
    assert!(watch.wait(Duration::from_secs(5)).unwrap());
}

/// On machines with systemd, where all mounts are shared, a mount over a clone appeared below the
/// mount that was cloned too, and files that were hidden on a kernel before 6.5 could not be shown
/// any more.
#[test]
fn a_mount_over_a_clone_appears_nowhere_else() {
    if !crate::process::is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (whole, shown) = (folder.path().join("whole"), folder.path().join("shown"));
    let run = |words: &[&str], path: &Path| {
        let status = std::process::Command::new(words[0]).args(&words[1..]).arg(path).status();
        status.is_ok_and(|status| status.success())
    };
    fs::create_dir(&whole).unwrap();
    fs::create_dir(&shown).unwrap();
    if !run(&["mount", "-t", "tmpfs", "none"], &whole) {
        return;
    }
    assert!(run(&["mount", "--make-shared"], &whole));
    fs::create_dir(whole.join("files")).unwrap();
    let files = Dir::open(whole.join("files").as_os_str().as_bytes()).unwrap();
    DetachedMount::of(&files)
        .unwrap()
        .replace(shown.as_os_str().as_bytes())
        .unwrap();
    let is_covered = run(&["mount", "-t", "tmpfs", "none"], &shown);
    let below = mounted_below(whole.as_os_str().as_bytes());
    drop(files);
    for path in [&shown, &shown, &whole] {
        run(&["umount"], path);
    }
    assert!(is_covered);
    assert_eq!(below.unwrap(), None);
}

#[test]
fn mounts_below_a_path_are_found_by_their_names() {
    let below = |path: &[u8]| point_below(MOUNTINFO, path);
    // The name ends with a backslash and digits, which are no escape in the name itself.
    assert_eq!(below(b"/back\\slash"), Some(b"/back\\slash/\\012".to_vec()));
    assert_eq!(below(b"/new\nline"), None);
    assert_eq!(below(b"/raw"), None);
}

#[test]
fn impossible_paths_are_refused_as_the_kernel_does() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    fs::write(base.join("file"), b"").unwrap();
    symlink("loop", base.join("loop")).unwrap();
    for path in ["absent", "absent/x", "file/", "file/x", "file/..", "loop/", "loop/x"] {
        let expected = fs::metadata(base.join(path)).unwrap_err().kind();
        let found = filespace_root(base.join(path).as_os_str().as_bytes()).unwrap_err().kind();
        assert_eq!(found, expected, "{path}");
    }
    assert_eq!(filespace_root(b"").unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn paths_may_be_longer_than_the_kernel_takes() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let (root, rest) = filespace_root(base.as_os_str().as_bytes()).unwrap();
    let mut dir = Dir::open(base.as_os_str().as_bytes()).unwrap();
    let (mut path, mut rest) = (base.as_os_str().as_bytes().to_vec(), rest);
    if rest == b"/" {
        rest.clear();
    }
    for _ in 0..30 {
        let name = [b'\xf0'; 255];
        dir = dir.make_dir(&name).unwrap();
        path.extend_from_slice(&[b"/", &name[..]].concat());
        rest.extend_from_slice(&[b"/", &name[..]].concat());
    }
    assert!(rest.len() > 7000);
    assert_eq!(filespace_root(&path).unwrap(), (root, rest));
}

#[test]
fn a_mount_is_found_by_its_id() {
    let table = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw,upperdir=/none\n\
        212 21 8:1 /vol/a\\040b /var/lib rw - ext4 /dev/sda1 rw\n\
        213 21 0:41 / /merged rw shared:7 - overlay o rw,lowerdir=/l,upperdir=/up\\040per\n";
    let found = mount_with_id(table, b"212").expect("it is there");
    assert_eq!((&found.root[..], &found.point[..]), (&b"/vol/a b"[..], &b"/var/lib"[..]));
    let upper = |id: &[u8]| mount_with_id(table, id).expect("it is there").upper;
    assert_eq!(upper(b"213"), Some(b"/up per".to_vec()));
    assert_eq!((upper(b"21"), upper(b"212")), (None, None), "no overlays");
    assert_eq!(mount_with_id(table, b"2"), None);
}

#[test]
fn points_below_a_directory_are_below_it() {
    for (path, point, expected) in [
        (&b"/"[..], &b"/"[..], false),
        (b"/", b"/proc", true),
        (b"/data", b"/data", false),
        (b"/data", b"/data/sub", true),
        (b"/data", b"/database", false),
    ] {
        assert_eq!(is_below(path, point), expected, "{path:?} {point:?}");
    }
}
