//! Files that may change without a report of the kernel, because something holds them open:
//! programs that write asynchronously or through a mapping, and loop devices.
//!
//! A program that has opened a file of an overlay (overlayfs) writes to the file of its upper
//! layer, which lies in another file system. That file is visited in its place.
//!
//! Sources: proc_pid_fd(5), proc_pid_fdinfo(5), proc_pid_maps(5), statx(2).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags};

use crate::loop_device::{self, AttachedFile};
use crate::mount::{self, ProcessMount};

/// Number of overlayfs, as `statfs` tells it.
const OVERLAY: i64 = 0x794c_7630;

/// Numbers of capabilities.
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const CHECKPOINT_RESTORE: u32 = 40;

/// File that is open for writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WritableFile {
    /// Path at which its process sees the file. The process may see other mounts than this process.
    pub path: Vec<u8>,
    /// Device and inode number; `None` if the file cannot be found from here, because it is one of
    /// the upper layer of an overlay, or behind a loop device of a container. It may be on any
    /// device.
    pub identity: Option<(u64, u64)>,
    /// Mount through which the process has opened the file, if it is known.
    pub mount: Option<ProcessMount>,
}

impl WritableFile {
    fn may_be_on(&self, device_id: u64) -> bool {
        self.identity.is_none_or(|(device, _)| device == device_id)
    }
}

/// Calls `visit` with the files of the device `device_id` that processes hold open or mapped for
/// writing, with mapped files that may be on it, and with the files behind loop devices. A file may
/// come several times. A file without a name is left out. Fails if this process has not the rights
/// to look at the processes of all users.
pub fn visit(device_id: u64, visit: &mut dyn FnMut(WritableFile)) -> io::Result<()> {
    if !may_see_all(&fs::read("/proc/self/status")?) {
        let message = "CAP_SYS_PTRACE and CAP_SYS_ADMIN are needed to look at other processes";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let mut take = |file: WritableFile| {
        if file.may_be_on(device_id) {
            visit(file);
        }
    };
    for process in fs::read_dir("/proc")? {
        let process = process?;
        if process.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            of_process(&process.path(), device_id, &mut take);
        }
    }
    behind_loop_devices(&mut take)
}

/// Visits the files of a process, through its first thread. If that thread has ended, the process
/// seems to have no memory, and the others have its files. The kernel's own processes have no
/// memory, either.
fn of_process(process: &Path, device_id: u64, take: &mut dyn FnMut(WritableFile)) {
    if of_thread(process, device_id, take) {
        return;
    }
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    for thread in threads.map(|thread| Path::new("/proc").join(thread.file_name())) {
        // They share what is open and mapped.
        if thread != process && of_thread(&thread, device_id, take) {
            return;
        }
    }
}

/// Visits the files of a thread. Returns true if it has memory.
fn of_thread(thread: &Path, device_id: u64, take: &mut dyn FnMut(WritableFile)) -> bool {
    // A process that has ended meanwhile has closed its files, and the kernel has reported that.
    let _ended = open(thread, device_id, take);
    mapped(thread, device_id, take).unwrap_or(false)
}

/// Returns true if the process with this `/proc/self/status` may see what others have open, which
/// needs `CAP_SYS_PTRACE`, and what they have mapped.
///
/// Sources: capabilities(7), proc_pid_map_files(5), proc_pid_status(5).
fn may_see_all(status: &[u8]) -> bool {
    let mut lines = status.split(|&byte| byte == b'\n');
    let rights = lines.find_map(|line| line.strip_prefix(b"CapEff:")).unwrap_or_default();
    let rights = str::from_utf8(rights.trim_ascii()).unwrap_or_default();
    let rights = u64::from_str_radix(rights, 16).unwrap_or(0);
    let has = |capability: u32| rights & (1 << capability) != 0;
    has(SYS_PTRACE) && (has(SYS_ADMIN) || has(CHECKPOINT_RESTORE))
}

/// Visits the files that the process holds open for writing.
fn open(process: &Path, device_id: u64, take: &mut dyn FnMut(WritableFile)) -> io::Result<()> {
    let mut table = None;
    for entry in fs::read_dir(process.join("fd"))? {
        let link = entry?.path();
        // The link has the permissions that the process has for the file.
        let is_writable =
            fs::symlink_metadata(&link).is_ok_and(|link| link.permissions().mode() & 0o200 != 0);
        if is_writable && let Some(mut file) = named(&link) {
            if file.may_be_on(device_id) {
                file.mount = mount_of(process, link.file_name().unwrap_or_default(), &mut table);
                take(file);
            } else if is_in_overlay(&link, &file)
                && let Some(file) = layer_file(process, &link, &file)
            {
                // Each container has some that cannot be found. The kernel reports what is written
                // to them with calls that wait.
                take(file);
            }
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
    Some(WritableFile { path, identity: Some((status.dev(), status.ino())), mount: None })
}

/// Returns true if `file`, to which a link in `/proc` leads, belongs to an overlay.
fn is_in_overlay(link: &Path, file: &WritableFile) -> bool {
    // An overlay has no block device. Those that have one need not be asked.
    let may_be = file.identity.is_some_and(|(device, _)| rustix::fs::major(device) == 0);
    // The number is sign extended or not, by architecture and kernel.
    let is_overlay = |told: rustix::fs::StatFs| told.f_type & 0xffff_ffff == OVERLAY;
    may_be && rustix::fs::statfs(link).is_ok_and(is_overlay)
}

/// Finds the file that the kernel writes to in place of `file`, which belongs to an overlay and
/// which `link` leads to: that of the upper layer. Returns `None` if it cannot be found from here.
fn layer_file(process: &Path, link: &Path, file: &WritableFile) -> Option<WritableFile> {
    let told = rustix::fs::statx(CWD, link, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    // A kernel before 5.8 does not tell the mount.
    (told.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(())?;
    let id = told.stx_mnt_id.to_string();
    let seen_by = |process: &Path| {
        let table = fs::read(process.join("mountinfo")).ok()?;
        mount::mount_with_id(&table, id.as_bytes())
    };
    let own = Path::new("/proc/self");
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    // The table of a container is short, and that of its host is long.
    let is_ours = namespace(process) == namespace(own);
    let (likely, other) = if is_ours { (own, process) } else { (process, own) };
    let mount = seen_by(likely).or_else(|| seen_by(other))?;
    let path = path_in_layer(&file.path, &mount)?;
    let status = fs::symlink_metadata(OsStr::from_bytes(&path)).ok()?;
    let identity = Some((status.dev(), status.ino()));
    status.is_file().then_some(WritableFile { path, identity, mount: None })
}

/// Returns the path, in the upper layer, of the file that `mount` shows at `path`.
fn path_in_layer(path: &[u8], mount: &ProcessMount) -> Option<Vec<u8>> {
    // Another path was meant for the program that has mounted the overlay, in its folder.
    let upper = mount.upper.as_ref().filter(|upper| upper.starts_with(b"/"))?;
    let rest = model::within(path, &mount.point)?;
    let is_below = !rest.is_empty();
    is_below.then(|| [without_slash(upper), without_slash(&mount.root), rest].concat())
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// Returns the mount through which the process has opened a file. `table` is the table of its
/// mounts, once it is read.
fn mount_of(
    process: &Path,
    descriptor: &OsStr,
    table: &mut Option<Vec<u8>>,
) -> Option<ProcessMount> {
    let told = fs::read(process.join("fdinfo").join(descriptor)).ok()?;
    let id = told
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    if table.is_none() {
        *table = fs::read(process.join("mountinfo")).ok();
    }
    mount::mount_with_id(table.as_ref()?, id.trim_ascii())
}

/// Visits the files that the process has mapped so that its writes go to the file. Returns true if
/// it has memory.
fn mapped(process: &Path, device_id: u64, take: &mut dyn FnMut(WritableFile)) -> io::Result<bool> {
    let maps = fs::read(process.join("maps"))?;
    for line in maps.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b' ');
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        if rights.get(1) != Some(&b'w') || rights.get(3) != Some(&b's') || !line.contains(&b'/') {
            continue;
        }
        let link = process.join("map_files").join(OsStr::from_bytes(&without_zeros(range)));
        let Some(file) = named(&link) else { continue };
        if file.may_be_on(device_id) {
            take(file);
        } else if is_in_overlay(&link, &file) {
            // Nothing else tells of what is written through a mapping.
            let found = layer_file(process, &link, &file);
            take(found.unwrap_or(WritableFile { identity: None, ..file }));
        }
    }
    Ok(!maps.is_empty())
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
    for AttachedFile { folder, device, path } in loop_device::attached()? {
        let here = fs::metadata(OsStr::from_bytes(&path))
            .ok()
            .map(|status| (status.dev(), status.ino()));
        if may_be_elsewhere(&path, &folder) {
            let identity = loop_device::identity_behind(&device).or(here);
            take(WritableFile { path, identity, mount: None });
        } else if here.is_some() {
            take(WritableFile { path, identity: here, mount: None });
        }
    }
    Ok(())
}

/// Returns true if the file behind a loop device may have another path here. The kernel shows its
/// path in the mounts of a container, or in a mount that is gone.
fn may_be_elsewhere(path: &[u8], device: &Path) -> bool {
    let is_read_only = fs::read(device.join("ro")).is_ok_and(|told| told.trim_ascii() == b"1");
    !is_read_only && !path.ends_with(b" (deleted)")
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
                assert_eq!(file.identity, Some((status.dev(), status.ino())));
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
    fn a_file_of_an_overlay_has_a_path_in_its_upper_layer() {
        let path = |path: &[u8], point: &[u8], root: &[u8], upper: Option<&[u8]>| {
            let (root, point, upper) = (root.to_vec(), point.to_vec(), upper.map(<[u8]>::to_vec));
            path_in_layer(path, &ProcessMount { root, point, upper })
        };
        let upper = Some(&b"/var/layers/7"[..]);
        let found = |path: &[u8]| Some(path.to_vec());
        assert_eq!(path(b"/merged/a/b", b"/merged", b"/", upper), found(b"/var/layers/7/a/b"));
        assert_eq!(path(b"/a/b", b"/", b"/", upper), found(b"/var/layers/7/a/b"));
        assert_eq!(path(b"/srv/b", b"/srv", b"/a", upper), found(b"/var/layers/7/a/b"));
        for (seen, upper) in [
            (&b"/merged/a"[..], None),
            (b"/merged/a", Some(&b"layers/7"[..])),
            (b"/merged-too/a", upper),
            (b"/elsewhere/a", upper),
        ] {
            assert_eq!(path(seen, b"/merged", b"/", upper), None, "{}", seen.escape_ascii());
        }
    }

    #[test]
    fn a_loop_device_that_writes_may_hide_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let ro = folder.path().join("ro");
        fs::write(&ro, "0\n").expect("written");
        assert!(may_be_elsewhere(b"/disk", folder.path()));
        assert!(!may_be_elsewhere(b"/disk (deleted)", folder.path()));
        fs::write(&ro, "1\n").expect("written");
        assert!(!may_be_elsewhere(b"/disk", folder.path()));
    }

    #[test]
    fn other_processes_are_seen_with_the_rights_of_root() {
        let status = |rights: &str| {
            format!("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{rights}\nSeccomp:\t0\n")
        };
        for (rights, expected) in [
            ("000001ffffffffff", true),
            ("000001fffed7ffff", false),
            ("000001fffff7ffff", false),
            ("0000010000080000", true),
            ("0000000000280000", true),
            ("0000000000080000", false),
            ("0000000000000000", false),
            ("", false),
        ] {
            assert_eq!(may_see_all(status(rights).as_bytes()), expected, "{rights}");
        }
        assert!(!may_see_all(b""));
    }

    #[test]
    fn ranges_are_written_without_zeros() {
        assert_eq!(without_zeros(b"00400000-004f0000"), b"400000-4f0000");
        assert_eq!(without_zeros(b"7f00-7f10"), b"7f00-7f10");
    }
}
