//! Permission events: before a program opens a file or uses its content, the kernel asks this
//! process, and the program waits for the answer. Reports of changes are in [`changes`].
//!
//! From Linux 6.14 on, the kernel reports the range that is about to be read or written; older
//! kernels ask only when a file is opened. Work on a question raises no further question: the
//! descriptor that comes with an event may be read and written freely.
//!
//! Sources: fanotify_init(2), fanotify_mark(2), fanotify(7), `include/uapi/linux/fanotify.h`.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;

pub mod changes;

const FAN_PRE_ACCESS: u64 = 0x0010_0000;
const FAN_REPORT_FD_ERROR: libc::c_uint = 0x2000;
const FAN_EVENT_INFO_TYPE_RANGE: u8 = 6;
const METADATA_VERSION: u8 = 3;
const METADATA_BYTES: usize = 24;
const RANGE_BYTES: usize = 24;
/// Maximum number of bytes that one read takes: 64 events.
const BUFFER_BYTES: usize = 64 * (METADATA_BYTES + RANGE_BYTES);

/// Kinds of questions that the kernel asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuestionKinds {
    /// Questions before a file is opened, and before each use of content, with its range.
    Ranges,
    /// Questions only before a file is opened, as kernels before 6.14 ask.
    Opening,
}

/// Access that a process is about to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    Open,
    /// The program uses these bytes, which may lie beyond the end of the file.
    Content(Range<u64>),
}

/// A question of the kernel, whose process waits for the answer.
#[derive(Debug)]
pub struct Question {
    /// The file, open for reading and writing.
    pub file: OwnedFd,
    /// Number by which the answer names the question: the descriptor number of `file` when the
    /// question was read.
    pub number: RawFd,
    /// The process that waits.
    pub pid: u32,
    pub access: Access,
}

/// Answer to a waiting process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Go,
    /// The call of the program fails with this error. The kernel takes `EPERM`, `EIO`, `EBUSY`,
    /// `ETXTBSY`, `EAGAIN`, `ENOSPC` and `EDQUOT`.
    Fail(Errno),
}

/// A group of marks, and the questions about marked files. While any process has the group open,
/// the questions wait for an answer; when the group's last descriptor is closed, all waiting
/// programs go on.
#[derive(Debug)]
pub struct Group {
    file: File,
    asks: QuestionKinds,
}

impl Group {
    /// Opens a group with the kinds of questions that this kernel supports, limited to `at_most`.
    /// Needs root.
    pub fn open(at_most: QuestionKinds) -> io::Result<Self> {
        if at_most == QuestionKinds::Ranges {
            match Self::init(libc::FAN_CLASS_PRE_CONTENT | FAN_REPORT_FD_ERROR, at_most) {
                Ok(group) if group.knows_ranges()? => return Ok(group),
                // EINVAL: the kernel is older than 6.13 and cannot report ranges.
                Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
                _ => {}
            }
        }
        Self::init(libc::FAN_CLASS_CONTENT, QuestionKinds::Opening)
    }

    fn init(class: libc::c_uint, asks: QuestionKinds) -> io::Result<Self> {
        let flags = class | libc::FAN_CLOEXEC | libc::FAN_UNLIMITED_QUEUE | libc::FAN_NONBLOCK;
        // With `O_NONBLOCK`, the kernel does not wait for the holder of a lease: a question about a
        // leased file comes without a descriptor.
        let of_events = libc::O_RDWR | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::fanotify_init(flags, of_events.cast_unsigned()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { file: fd.into(), asks })
    }

    /// Returns true if the kernel reports ranges. Sets a mark on the root directory to find out,
    /// and removes it; that directory has no other mark.
    fn knows_ranges(&self) -> io::Result<bool> {
        let root = File::open("/")?;
        let tried = self.change(libc::FAN_MARK_ADD, FAN_PRE_ACCESS, &root);
        match tried {
            Ok(()) => self.change(libc::FAN_MARK_REMOVE, FAN_PRE_ACCESS, &root).map(|()| true),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
            // Another file system may support ranges although the file system of the root directory
            // does not.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Takes over a group that another process has opened and this process has inherited.
    pub fn inherited(fd: OwnedFd, asks: QuestionKinds) -> Self {
        Self { file: fd.into(), asks }
    }

    pub fn asks(&self) -> QuestionKinds {
        self.asks
    }

    fn mask(&self) -> u64 {
        match self.asks {
            QuestionKinds::Ranges => libc::FAN_OPEN_PERM | FAN_PRE_ACCESS,
            QuestionKinds::Opening => libc::FAN_OPEN_PERM,
        }
    }

    /// Makes the kernel ask about every file of the file system that `root` lies in, through all
    /// mounts of the file system.
    pub fn mark_filesystem(&self, root: &impl AsFd) -> io::Result<()> {
        self.change(libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM, self.mask(), root)
    }

    /// Removes the mark of the file system that `root` lies in; does nothing if it has none.
    /// Questions that were asked before still wait for their answers.
    pub fn forget_filesystem(&self, root: &impl AsFd) -> io::Result<()> {
        match self.change(libc::FAN_MARK_REMOVE | libc::FAN_MARK_FILESYSTEM, self.mask(), root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Removes the marks of all file systems. Questions that were asked before still wait for their
    /// answers.
    pub fn forget_filesystems(&self) -> io::Result<()> {
        let root = File::open("/")?;
        self.change(libc::FAN_MARK_FLUSH | libc::FAN_MARK_FILESYSTEM, 0, &root)
    }

    /// Returns true if a marked file system still exists. It exists while it is in use, even after
    /// its last mount has been detached from every folder.
    pub fn watches(&self) -> io::Result<bool> {
        marked(&self.file)
    }

    /// Stops the questions about `file` until [`Self::watch_again`]. If `evictable` is set, the
    /// kernel may forget this together with the inode when it needs the memory.
    pub fn ignore(&self, file: &impl AsFd, evictable: bool) -> io::Result<()> {
        let kind = if evictable { libc::FAN_MARK_EVICTABLE } else { 0 };
        let flags =
            libc::FAN_MARK_ADD | libc::FAN_MARK_IGNORE | libc::FAN_MARK_IGNORED_SURV_MODIFY | kind;
        match self.change(flags, self.mask(), file) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.ignore_as_before(file),
            // A lasting mark has to be removed before the kernel takes an evictable mark.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.watch_again(file)?;
                self.change(flags, self.mask(), file)
            }
            other => other,
        }
    }

    /// Does the same as [`Self::ignore`] on a kernel before 6.0.
    fn ignore_as_before(&self, file: &impl AsFd) -> io::Result<()> {
        let flags = libc::FAN_MARK_IGNORED_MASK | libc::FAN_MARK_IGNORED_SURV_MODIFY;
        self.change(libc::FAN_MARK_ADD | flags, self.mask(), file)
    }

    /// Undoes [`Self::ignore`]; does nothing for a file that is not ignored.
    pub fn watch_again(&self, file: &impl AsFd) -> io::Result<()> {
        let remove = |kind| self.change(libc::FAN_MARK_REMOVE | kind, self.mask(), file);
        let removed = match remove(libc::FAN_MARK_IGNORE) {
            // A kernel before 6.0.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                remove(libc::FAN_MARK_IGNORED_MASK)
            }
            removed => removed,
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Undoes [`Self::ignore`] for all files.
    pub fn watch_all_again(&self) -> io::Result<()> {
        let root = File::open("/")?;
        self.change(libc::FAN_MARK_FLUSH, 0, &root)
    }

    fn change(&self, flags: libc::c_uint, mask: u64, at: &impl AsFd) -> io::Result<()> {
        change_mark(&self.file, flags, mask, at)
    }

    /// Reads the waiting questions, several at once. Returns no question if no process waits.
    ///
    /// If the kernel could not open the file for a question, it has already refused the process.
    pub fn read(&self) -> io::Result<Vec<Question>> {
        let mut buffer = [0; BUFFER_BYTES];
        match rustix::io::read(&self.file, &mut buffer) {
            Ok(bytes) => Ok(self.questions(&buffer[..bytes])),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn questions(&self, mut bytes: &[u8]) -> Vec<Question> {
        let mut questions = Vec::new();
        while let Some(event) = Event::parse(bytes) {
            bytes = &bytes[event.bytes..];
            if event.fd < 0 {
                continue;
            }
            // SAFETY: the kernel has opened it for us with this very event.
            let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
            let access = event.access();
            questions.push(Question { file, number: event.fd, pid: event.pid, access });
        }
        questions
    }

    /// Answers the question `number`. `NotFound` means that nobody waits for the answer: the
    /// process was killed, or has been answered already.
    pub fn answer(&self, number: RawFd, answer: Answer) -> io::Result<()> {
        let response = match answer {
            Answer::Go => libc::FAN_ALLOW,
            Answer::Fail(errno) => {
                libc::FAN_DENY | (errno.raw_os_error().cast_unsigned() & 0xff) << 24
            }
        };
        let sent = self.respond(number, response);
        match (sent, answer) {
            // Kernels before 6.14 know only one error.
            (Err(error), Answer::Fail(_)) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.respond(number, libc::FAN_DENY)
            }
            (sent, _) => sent,
        }
    }

    fn respond(&self, number: RawFd, response: u32) -> io::Result<()> {
        let message = [number.to_ne_bytes(), response.to_ne_bytes()].concat();
        rustix::io::write(&self.file, &message)?;
        Ok(())
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Adds, changes or removes a mark of the group `group`.
fn change_mark(group: &File, flags: libc::c_uint, mask: u64, at: &impl AsFd) -> io::Result<()> {
    let path = CString::new(format!("/proc/self/fd/{}", at.as_fd().as_raw_fd()))
        .expect("digits have no NUL");
    let group = group.as_raw_fd();
    // SAFETY: `path` ends with a NUL and lives until the call returns.
    let status = unsafe { libc::fanotify_mark(group, flags, mask, libc::AT_FDCWD, path.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns true if the group `group` has a mark on a file system that still exists.
///
/// Source: proc(5), `/proc/pid/fdinfo/`, "Since Linux 3.8".
fn marked(group: &File) -> io::Result<bool> {
    let told = File::open(format!("/proc/self/fdinfo/{}", group.as_raw_fd()))?;
    for line in BufReader::new(told).lines() {
        if line?.starts_with("fanotify sdev:") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One event as the kernel writes it: the fixed part, and the range, if the event has one.
struct Event {
    bytes: usize,
    mask: u64,
    fd: RawFd,
    pid: u32,
    range: Option<(u64, u64)>,
}

impl Event {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..METADATA_BYTES)?;
        let length = usize::try_from(u32_at(head, 0)?).ok()?;
        assert_eq!(head[4], METADATA_VERSION, "the kernel uses the version of the headers");
        let head_length = usize::from(u16::from_ne_bytes([head[6], head[7]]));
        let records = bytes.get(head_length..length)?;
        Some(Self {
            bytes: length,
            mask: u64_at(head, 8)?,
            fd: u32_at(head, 16)?.cast_signed(),
            pid: u32_at(head, 20)?,
            range: range(records),
        })
    }

    fn access(&self) -> Access {
        if self.mask & FAN_PRE_ACCESS == 0 {
            return Access::Open;
        }
        let (offset, count) = self.range.unwrap_or((0, 0));
        // A count of 0 means up to the end of the file.
        let end = if count == 0 { u64::MAX } else { offset.saturating_add(count) };
        Access::Content(offset..end)
    }
}

/// Finds the range among the records after an event.
fn range(mut records: &[u8]) -> Option<(u64, u64)> {
    while records.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([records[2], records[3]]));
        let record = records.get(..length).filter(|_| length >= 4)?;
        if record[0] == FAN_EVENT_INFO_TYPE_RANGE {
            return Some((u64_at(record, 8)?, u64_at(record, 16)?));
        }
        records = &records[length..];
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + size_of::<u32>())?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + size_of::<u64>())?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_with_a_range_is_read() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&48_u32.to_ne_bytes());
        bytes.extend_from_slice(&[METADATA_VERSION, 0]);
        bytes.extend_from_slice(&24_u16.to_ne_bytes());
        bytes.extend_from_slice(&FAN_PRE_ACCESS.to_ne_bytes());
        bytes.extend_from_slice(&7_i32.to_ne_bytes());
        bytes.extend_from_slice(&99_u32.to_ne_bytes());
        bytes.extend_from_slice(&[FAN_EVENT_INFO_TYPE_RANGE, 0, 24, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&4096_u64.to_ne_bytes());
        bytes.extend_from_slice(&8192_u64.to_ne_bytes());
        let event = Event::parse(&bytes).expect("an event");
        assert_eq!((event.bytes, event.fd, event.pid), (48, 7, 99));
        assert_eq!(event.access(), Access::Content(4096..12288));
        let open = Event { mask: libc::FAN_OPEN_PERM, range: None, ..event };
        assert_eq!(open.access(), Access::Open);
        let rest = Event { mask: FAN_PRE_ACCESS, range: Some((4096, 0)), ..open };
        assert_eq!(rest.access(), Access::Content(4096..u64::MAX));
        assert!(Event::parse(&bytes[..47]).is_none());
    }
}
