//! Change events: the kernel reports in which directory of a file system something has changed.
//!
//! A group watches one file system, through all its mounts. The kernel reports a change before the
//! system call that made it returns. Identical reports that wait in the queue are merged.
//!
//! A report names the directory, and the file if it is about one. Only the file is named if the
//! kernel does not know the directory: a program has opened the file by its handle, as servers of
//! NFS do. So the group asks for files, too: without them the kernel makes no such report.
//!
//! Sources: fanotify_init(2), fanotify_mark(2), fanotify(7), `include/uapi/linux/fanotify.h`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{METADATA_BYTES, METADATA_VERSION, marked, u32_at, u64_at};
use crate::identity::DirectoryHandle;

const FAN_FS_ERROR: u64 = 0x0000_8000;
const FAN_EVENT_INFO_TYPE_DFID: u8 = 3;
/// Offset of the handle in a record: the head of the record, and the number of the file system.
const HANDLE_AT: usize = 12;
/// Offset of the handle's bytes in a handle: their number and their kind.
const HANDLE_HEAD_BYTES: usize = 8;
/// Maximum number of bytes that one read takes.
const BUFFER_BYTES: usize = 64 << 10;

/// Changes of the entries of a directory.
const ENTRY_CHANGES: u64 =
    libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO;
/// Changes of an object, which the kernel reports for the directory that holds it. If the object
/// is a directory, the kernel reports them for the object itself.
const OBJECT_CHANGES: u64 = libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE | libc::FAN_ATTRIB;
/// Changes that the kernel reports for a file without its directory whenever the number of its
/// names or one of them changes. The directories of the names have reports of their own.
const NAME_CHANGES: u64 = libc::FAN_ATTRIB | libc::FAN_MOVE_SELF;
const MASK: u64 = ENTRY_CHANGES | OBJECT_CHANGES | libc::FAN_MOVE_SELF | libc::FAN_ONDIR;

/// Numbers of the file systems on disks of this machine whose changes the kernel reports. Other
/// machines change network file systems, and programs change those of FUSE, without a report.
const REPORTING_FILESYSTEMS: [(&str, i64); 3] =
    [("ext2, ext3 and ext4", 0xef53), ("XFS", 0x5846_5342), ("btrfs", 0x9123_683e)];

/// Returns true if the kernel reports all changes of the file system that `root` lies in.
pub fn reports_all(root: &impl AsFd) -> io::Result<bool> {
    // The number is sign extended or not, by architecture and kernel.
    let magic = rustix::fs::fstatfs(root)?.f_type & 0xffff_ffff;
    Ok(REPORTING_FILESYSTEMS.iter().any(|(_, known)| *known == magic))
}

/// First version of the kernel that reports what programs write through an overlay (overlayfs) to
/// the file system that holds its upper layer.
const REPORTED_OVERLAYS: (u32, u32) = (6, 5);

/// Returns true if the kernel reports what programs write through overlays, or if it has none.
pub fn reports_overlays() -> io::Result<bool> {
    let filesystems = std::fs::read("/proc/filesystems")?;
    Ok(has_no_silent_overlays(&filesystems, &crate::process::kernel_release()))
}

/// Decides by the kernel's list of file systems and its release. An overlay may have come and gone,
/// so the kernel counts as having them if it has loaded their code.
fn has_no_silent_overlays(filesystems: &[u8], release: &str) -> bool {
    let mut lines = filesystems.split(|&byte| byte == b'\n');
    let has_overlays = lines.any(|line| line.ends_with(b"\toverlay"));
    !has_overlays || version(release).is_some_and(|version| version >= REPORTED_OVERLAYS)
}

/// Returns the first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let is_other = |character: char| !character.is_ascii_digit();
    let mut numbers = release.split(is_other).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Report of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeReport {
    Changed(DirectoryChange),
    /// The queue was full, and reports are lost.
    Overflow,
    /// The file system has found an error in itself.
    FilesystemError,
    /// A report that names no directory.
    Nameless,
}

/// Change in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryChange {
    pub directory: DirectoryHandle,
    /// True if the directory itself may have changed too: its times, its owner, its mode, its name.
    pub is_own: bool,
    /// True if the directory has another path, and everything below it too.
    pub is_moved: bool,
}

/// Watch on the changes of one file system.
#[derive(Debug)]
pub struct ChangeGroup(File);

impl ChangeGroup {
    /// Watches the file system that `root` lies in. Needs root.
    pub fn watch(root: &impl AsFd) -> io::Result<Self> {
        // Without the names, the changes of the entries of a directory merge.
        let report = libc::FAN_REPORT_FID | libc::FAN_REPORT_DIR_FID;
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | report;
        let of_events = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC;
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::fanotify_init(flags, of_events.cast_unsigned()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for us.
        let group = Self(unsafe { OwnedFd::from_raw_fd(fd) }.into());
        group.change(libc::FAN_MARK_ADD, MASK, root)?;
        // A kernel before 5.16 and some file systems report no errors of the file system.
        let _unknown = group.change(libc::FAN_MARK_ADD, FAN_FS_ERROR, root);
        Ok(group)
    }

    /// Returns true if this group watches the file system that `root` lies in, and has done so
    /// without a gap. The mark lives and ends with the kernel's file system: after it was unmounted
    /// everywhere, a new mount is another file system and has no mark.
    pub fn is_watching(&self, root: &impl AsFd) -> io::Result<bool> {
        // An event that is not in the mask is removed from it. This changes nothing, and fails if
        // there is no mark.
        match self.change(libc::FAN_MARK_REMOVE, libc::FAN_CLOSE_NOWRITE, root) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the watched file system still exists.
    pub fn exists(&self) -> io::Result<bool> {
        marked(&self.0)
    }

    fn change(&self, flags: libc::c_uint, mask: u64, at: &impl AsFd) -> io::Result<()> {
        super::change_mark(&self.0, flags | libc::FAN_MARK_FILESYSTEM, mask, at)
    }

    /// Waits for a report, at most for `at_most`. Returns true if there is one.
    pub fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(at_most).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `take` with all reports that wait.
    pub fn drain(&self, mut take: impl FnMut(ChangeReport)) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match rustix::io::read(&self.0, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(bytes) => reports(&buffer[..bytes], &mut take),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn reports(mut bytes: &[u8], take: &mut impl FnMut(ChangeReport)) {
    while let Some((length, report)) = parse(bytes) {
        if let Some(report) = report {
            take(report);
        }
        bytes = &bytes[length..];
    }
    assert!(bytes.is_empty(), "the kernel writes whole events");
}

/// Parses the first event. Returns its length, and the report unless others tell the same.
fn parse(bytes: &[u8]) -> Option<(usize, Option<ChangeReport>)> {
    let head = bytes.get(..METADATA_BYTES)?;
    let length = usize::try_from(u32_at(head, 0)?).ok()?;
    assert_eq!(head[4], METADATA_VERSION, "the kernel uses the version of the headers");
    let head_length = usize::from(u16::from_ne_bytes([head[6], head[7]]));
    let records = bytes.get(head_length..length).filter(|_| length >= METADATA_BYTES)?;
    let mask = u64_at(head, 8)?;
    let report = if mask & libc::FAN_Q_OVERFLOW != 0 {
        Some(ChangeReport::Overflow)
    } else if mask & FAN_FS_ERROR != 0 {
        Some(ChangeReport::FilesystemError)
    } else {
        match directory_record(records) {
            None if mask & !NAME_CHANGES == 0 && !records.is_empty() => None,
            None => Some(ChangeReport::Nameless),
            Some(record) => Some(change(mask, record)),
        }
    };
    Some((length, report))
}

/// Returns the report of the changes `mask` in the directory that `record` names.
fn change(mask: u64, record: &[u8]) -> ChangeReport {
    handle(record).map_or(ChangeReport::Nameless, |directory| {
        ChangeReport::Changed(DirectoryChange {
            directory,
            is_own: mask & (ENTRY_CHANGES | libc::FAN_MOVE_SELF | libc::FAN_ONDIR) != 0,
            is_moved: mask & libc::FAN_MOVE_SELF != 0 && mask & libc::FAN_ONDIR != 0,
        })
    })
}

/// Finds the record of the directory among the records after an event.
fn directory_record(mut records: &[u8]) -> Option<&[u8]> {
    while records.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([records[2], records[3]]));
        let record = records.get(..length).filter(|_| length >= 4)?;
        if record[0] == FAN_EVENT_INFO_TYPE_DFID {
            return Some(record);
        }
        records = &records[length..];
    }
    None
}

/// Returns the handle in a record.
fn handle(record: &[u8]) -> Option<DirectoryHandle> {
    let count = usize::try_from(u32_at(record, HANDLE_AT)?).ok()?;
    let kind = u32_at(record, HANDLE_AT + 4)?.cast_signed();
    let from = HANDLE_AT + HANDLE_HEAD_BYTES;
    DirectoryHandle::new(kind, record.get(from..from.checked_add(count)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(mask: u64, records: &[u8]) -> Vec<u8> {
        let length = u32::try_from(METADATA_BYTES + records.len()).expect("short");
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&[METADATA_VERSION, 0]);
        bytes.extend_from_slice(&u16::try_from(METADATA_BYTES).expect("short").to_ne_bytes());
        bytes.extend_from_slice(&mask.to_ne_bytes());
        bytes.extend_from_slice(&(-1_i32).to_ne_bytes());
        bytes.extend_from_slice(&7_i32.to_ne_bytes());
        bytes.extend_from_slice(records);
        bytes
    }

    /// Makes a record with the handle `handle`.
    fn record(kind: u8, handle: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend_from_slice(&[9; 8]);
        bytes.extend_from_slice(&u32::try_from(handle.len()).expect("short").to_ne_bytes());
        bytes.extend_from_slice(&1_i32.to_ne_bytes());
        bytes.extend_from_slice(handle);
        let length = u16::try_from(bytes.len()).expect("short").to_ne_bytes();
        bytes[2..4].copy_from_slice(&length);
        bytes
    }

    fn all(bytes: &[u8]) -> Vec<ChangeReport> {
        let mut found = Vec::new();
        reports(bytes, &mut |report| found.push(report));
        found
    }

    #[test]
    fn events_name_the_directory_and_what_has_changed() {
        let handle = DirectoryHandle::new(1, &[5; 8]).expect("a handle");
        let named = record(FAN_EVENT_INFO_TYPE_DFID, &[5; 8]);
        let changed = |is_own, is_moved| {
            ChangeReport::Changed(DirectoryChange { directory: handle, is_own, is_moved })
        };
        for (mask, expected) in [
            (libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE, changed(false, false)),
            (libc::FAN_CREATE | libc::FAN_MODIFY, changed(true, false)),
            (libc::FAN_ATTRIB, changed(false, false)),
            (libc::FAN_ATTRIB | libc::FAN_ONDIR, changed(true, false)),
            (libc::FAN_MOVE_SELF | libc::FAN_ONDIR, changed(true, true)),
            (libc::FAN_MOVE_SELF, changed(true, false)),
            (libc::FAN_Q_OVERFLOW, ChangeReport::Overflow),
            (FAN_FS_ERROR, ChangeReport::FilesystemError),
        ] {
            assert_eq!(all(&event(mask, &named)), [expected], "{mask:#x}");
        }
        let two = [event(libc::FAN_MODIFY, &named), event(libc::FAN_CREATE, &named)].concat();
        assert_eq!(all(&two), [changed(false, false), changed(true, false)]);
    }

    #[test]
    fn old_kernels_with_overlays_do_not_report_everything() {
        let (with, without) = (&b"nodev\tproc\n\text4\nnodev\toverlay\n"[..], &b"\text4\n"[..]);
        for (filesystems, release, expected) in [
            (with, "6.1.0-18-amd64", false),
            (with, "5.15.167.4-microsoft-standard-WSL2", false),
            (with, "6.5.0", true),
            (with, "6.18.44-fc-v669", true),
            (with, "7.0", true),
            (with, "unknown", false),
            (without, "6.1.0-18-amd64", true),
        ] {
            assert_eq!(has_no_silent_overlays(filesystems, release), expected, "{release}");
        }
    }

    #[test]
    fn a_report_without_a_directory_is_not_lost() {
        let file = record(1, &[5; 8]);
        for mask in [
            libc::FAN_MODIFY,
            libc::FAN_CLOSE_WRITE | libc::FAN_ATTRIB,
            libc::FAN_ATTRIB | libc::FAN_ONDIR,
        ] {
            assert_eq!(all(&event(mask, &file)), [ChangeReport::Nameless], "{mask:#x}");
        }
        assert_eq!(all(&event(libc::FAN_ATTRIB, &[])), [ChangeReport::Nameless]);
        let both = [file, record(FAN_EVENT_INFO_TYPE_DFID, &[6; 12])].concat();
        let [ChangeReport::Changed(change)] = all(&event(libc::FAN_ATTRIB, &both))[..] else {
            panic!("the second record names the directory");
        };
        assert_eq!(change.directory, DirectoryHandle::new(1, &[6; 12]).expect("a handle"));
        // A handle that is longer than any that this version stores names nothing.
        let long = record(FAN_EVENT_INFO_TYPE_DFID, &[6; 100]);
        assert_eq!(all(&event(libc::FAN_ATTRIB, &long)), [ChangeReport::Nameless]);
    }

    #[test]
    fn changes_of_names_are_reported_for_their_directories_only() {
        let file = record(1, &[5; 8]);
        for mask in [libc::FAN_ATTRIB, libc::FAN_MOVE_SELF, NAME_CHANGES] {
            assert!(all(&event(mask, &file)).is_empty(), "{mask:#x}");
        }
        let unlinked = event(libc::FAN_ATTRIB, &file);
        let removed = event(libc::FAN_DELETE, &record(FAN_EVENT_INFO_TYPE_DFID, &[6; 8]));
        assert_eq!(all(&[unlinked, removed].concat()).len(), 1, "the event after it is read");
    }
}
