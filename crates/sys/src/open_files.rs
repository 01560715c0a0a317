//! Files that may change without a report of the kernel, because something holds them open:
//! programs that write asynchronously or through a mapping, and loop devices.
//!
//! Sources: proc_pid_fd(5), proc_pid_fdinfo(5), proc_pid_maps(5).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::mount::{self, ProcessMount};

/// File that is open for writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WritableFile {
    /// Path at which its process sees the file. The process may see other mounts than this process.
    pub path: Vec<u8>,
    pub device_id: u64,
    pub inode: u64,
    /// Mount through which the process has opened the file, if it is known.
    pub mount: Option<ProcessMount>,
}

/// Calls `visit` with the files of the device `device_id` that processes hold open or mapped for
/// writing, and with the files behind loop devices. A file may come several times. A file without a
/// name is left out. Needs root to see the files of all users.
pub fn visit(device_id: u64, visit: &mut dyn FnMut(WritableFile)) -> io::Result<()> {
    let mut take = |file: WritableFile| {
        if file.device_id == device_id {
            visit(file);
        }
    };
    for process in fs::read_dir("/proc")? {
        let process = process?;
        if process.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            // A process that has ended meanwhile has closed its files, and the kernel has reported
            // that.
            let _ended = open(&process.path(), &mut take);
            let _ended = mapped(&process.path(), &mut take);
        }
    }
    behind_loop_devices(&mut take)
}

/// Visits the files that the process holds open for writing.
fn open(process: &Path, take: &mut dyn FnMut(WritableFile)) -> io::Result<()> {
    for entry in fs::read_dir(process.join("fd"))? {
        let link = entry?.path();
        // The link has the permissions that the process has for the file.
        let is_writable =
            fs::symlink_metadata(&link).is_ok_and(|link| link.permissions().mode() & 0o200 != 0);
        if is_writable && let Some(mut file) = named(&link) {
            file.mount = mount_of(process, link.file_name().unwrap_or_default());
            take(file);
        }
    }
    Ok(())
}

/// Returns the regular file that a link in `/proc` leads to, if it has a name.
fn named(link: &Path) -> Option<WritableFile> {
    let path = fs::read_link(link).ok()?.into_os_string().into_vec();
    // Sockets and pipes have no path.
    if !path.starts_with(b"/") {
        return None;
    }
    let status = fs::metadata(link)
        .ok()
        .filter(|status| status.is_file() && status.nlink() > 0)?;
    Some(WritableFile { path, device_id: status.dev(), inode: status.ino(), mount: None })
}

fn mount_of(process: &Path, descriptor: &OsStr) -> Option<ProcessMount> {
    let told = fs::read(process.join("fdinfo").join(descriptor)).ok()?;
    let id = told
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    mount::mount_with_id(&fs::read(process.join("mountinfo")).ok()?, id.trim_ascii())
}

/// Visits the files that the process has mapped so that its writes go to the file.
fn mapped(process: &Path, take: &mut dyn FnMut(WritableFile)) -> io::Result<()> {
    let maps = fs::read(process.join("maps"))?;
    for line in maps.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b' ');
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        if rights.get(1) != Some(&b'w') || rights.get(3) != Some(&b's') || !line.contains(&b'/') {
            continue;
        }
        let link = process.join("map_files").join(OsStr::from_bytes(&without_zeros(range)));
        if let Some(file) = named(&link) {
            take(file);
        }
    }
    Ok(())
}

/// Returns a range of addresses as the names in `map_files` write it: without leading zeros.
fn without_zeros(range: &[u8]) -> Vec<u8> {
    let short = |address: &[u8]| {
        let digits = address.iter().position(|&byte| byte != b'0').unwrap_or(address.len());
        address[digits..].to_vec()
    };
    let parts: Vec<Vec<u8>> = range.split(|&byte| byte == b'-').map(short).collect();
    parts.join(&b'-')
}

/// Visits the files behind loop devices: the kernel writes to them.
fn behind_loop_devices(take: &mut dyn FnMut(WritableFile)) -> io::Result<()> {
    let devices = match fs::read_dir("/sys/block") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        devices => devices?,
    };
    for device in devices {
        let Ok(mut path) = fs::read(device?.path().join("loop/backing_file")) else { continue };
        path.truncate(path.trim_ascii_end().len());
        let file = PathBuf::from(OsString::from_vec(path.clone()));
        if let Ok(status) = fs::metadata(file) {
            let (device_id, inode) = (status.dev(), status.ino());
            take(WritableFile { path, device_id, inode, mount: None });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn found(folder: &Path) -> Vec<Vec<u8>> {
        let device_id = fs::metadata(folder).expect("a folder").dev();
        let mut names = Vec::new();
        visit(device_id, &mut |file| {
            let path = Path::new(OsStr::from_bytes(&file.path));
            if path.parent() == Some(folder) {
                let status = fs::metadata(path).expect("it is there");
                assert_eq!((status.dev(), status.ino()), (file.device_id, file.inode));
                names.push(path.file_name().expect("a name").as_bytes().to_vec());
            }
        })
        .expect("visited");
        names.sort();
        names.dedup();
        names
    }

    #[test]
    fn a_file_is_found_while_something_can_write_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a path");
        let at = |name: &str| folder.join(name);
        for name in ["closed", "read", "written", "mapped", "removed"] {
            fs::write(at(name), [1; 4096]).expect("written");
        }
        let _read = File::open(at("read")).expect("opened");
        let written = File::options().append(true).open(at("written")).expect("opened");
        let _removed = File::options().write(true).open(at("removed")).expect("opened");
        fs::remove_file(at("removed")).expect("removed");
        assert_eq!(found(&folder), [b"written".to_vec()]);
        let mapped = File::options().read(true).write(true).open(at("mapped")).expect("opened");
        let map = memmap2::MmapRaw::map_raw(&mapped).expect("mapped");
        drop((mapped, written));
        assert_eq!(found(&folder), [b"mapped".to_vec()]);
        drop(map);
        assert_eq!(found(&folder), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn ranges_are_written_without_zeros() {
        assert_eq!(without_zeros(b"00400000-004f0000"), b"400000-4f0000");
        assert_eq!(without_zeros(b"7f00-7f10"), b"7f00-7f10");
    }
}
