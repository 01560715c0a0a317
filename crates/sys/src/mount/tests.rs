//! Where file systems begin.

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
    std::ffi::OsStr::from_bytes(bytes).into()
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
fn relative_paths_start_at_the_working_directory() {
    let here = std::env::current_dir().unwrap();
    check(Path::new("."), &here);
    check(Path::new(".."), here.parent().unwrap());
    check(Path::new("src/lib.rs"), &here.join("src/lib.rs"));
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
