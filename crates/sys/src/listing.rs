//! All names of one directory with the status of each object. The next directory uses the same
//! memory.
//!
//! The order of work: read the names, sort them, then ask for the inodes in the order in which the
//! file system keeps them, which spares a cold disk most of its seeks.
//!
//! Memory: about 150 bytes for each name of the largest directory listed so far, the name included.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;

use model::{Kind, Stat, Timestamp};
use rustix::fs::{AtFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use crate::status::ObjectStatus;

/// Maximum number of bytes that one `getdents64` returns.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of names for which the order does not matter: so few inodes lie in few blocks of
/// the inode table.
const UNORDERED_COUNT_MAX: usize = 8;

/// The names of one directory. [`crate::Dir::list`] fills it.
#[derive(Debug, Default)]
pub struct Listing {
    buffer: Vec<u8>,
    /// Every name, each followed by a NUL.
    arena: Vec<u8>,
    pending: Vec<PendingName>,
    /// Inode number and index in `pending` of each name, in the order in which the inodes are read.
    order: Vec<(u64, u32)>,
    entries: Vec<Entry>,
    sockets: Vec<Vec<u8>>,
    failures: Vec<Failure>,
}

/// One object in a [`Listing`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    name: Span,
    pub found: ObjectStatus,
}

/// A name whose object's status could not be read.
#[derive(Debug)]
pub struct Failure {
    pub name: Vec<u8>,
    pub error: io::Error,
}

/// A name in the arena. No name is empty, so that length 0 marks an entry to be dropped.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    bytes: u32,
}

/// A name from `getdents64`. The status of its object has still to be read.
#[derive(Clone, Copy, Debug)]
struct PendingName {
    /// The first eight bytes of the name, so that most comparisons need no look into the arena.
    prefix: u64,
    name: Span,
    inode: u64,
}

impl Listing {
    /// The objects, sorted by the bytes of their names.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The name of `entry`, which must be of this listing.
    pub fn name(&self, entry: &Entry) -> &[u8] {
        entry.name.of(&self.arena)
    }

    /// The names of sockets, sorted. Sockets are not backed up.
    pub fn sockets(&self) -> &[Vec<u8>] {
        &self.sockets
    }

    /// The names of the objects whose status could not be read, sorted.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    pub(crate) fn read(&mut self, dir: BorrowedFd<'_>) -> io::Result<()> {
        self.arena.clear();
        self.pending.clear();
        self.entries.clear();
        self.sockets.clear();
        self.failures.clear();
        self.read_names(dir)?;
        let arena = &self.arena;
        self.pending.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| a.name.of(arena).cmp(b.name.of(arena)))
        });
        self.stat_names(dir);
        Ok(())
    }

    fn read_names(&mut self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let Self { buffer, arena, pending, .. } = self;
        each_name(dir, buffer, |name, inode| {
            let start = u32::try_from(arena.len()).map_err(|_| Errno::OVERFLOW)?;
            let bytes = u32::try_from(name.to_bytes().len()).map_err(|_| Errno::OVERFLOW)?;
            arena.extend_from_slice(name.to_bytes_with_nul());
            let prefix = prefix(name.to_bytes());
            pending.push(PendingName { prefix, name: Span { start, bytes }, inode });
            Ok(())
        })
    }

    fn stat_names(&mut self, dir: BorrowedFd<'_>) {
        let unasked = |pending: &PendingName| Entry { name: pending.name, found: UNASKED };
        self.entries.extend(self.pending.iter().map(unasked));
        self.order.clear();
        self.order
            .extend((0..).zip(&self.pending).map(|(index, name)| (name.inode, index)));
        if self.order.len() > UNORDERED_COUNT_MAX {
            self.order.sort_unstable();
        }
        let mut dropped = false;
        for &(_, index) in &self.order {
            let entry = &mut self.entries[index as usize];
            match stat(dir, entry.name.terminated(&self.arena)) {
                Ok(Some(found)) => {
                    entry.found = found;
                    continue;
                }
                Ok(None) => self.sockets.push(entry.name.of(&self.arena).to_vec()),
                Err(Errno::NOENT) => {}
                Err(error) => self.failures.push(Failure {
                    name: entry.name.of(&self.arena).to_vec(),
                    error: error.into(),
                }),
            }
            entry.name.bytes = 0;
            dropped = true;
        }
        if dropped {
            self.entries.retain(|entry| entry.name.bytes != 0);
            self.sockets.sort_unstable();
            self.failures.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
    }
}

impl Span {
    fn of(self, arena: &[u8]) -> &[u8] {
        &arena[self.start as usize..][..self.bytes as usize]
    }

    fn terminated(self, arena: &[u8]) -> &CStr {
        let bytes = &arena[self.start as usize..][..=self.bytes as usize];
        CStr::from_bytes_with_nul(bytes).expect("taken from a C string with its NUL")
    }
}

/// Returns all names of `dir` from its position on.
pub(crate) fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    each_name(dir, &mut Vec::new(), |name, _| {
        names.push(name.to_bytes().to_vec());
        Ok(())
    })?;
    Ok(names)
}

/// Calls `visit` with each name of `dir` from its position on, and with the number of its inode.
fn each_name(
    dir: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    mut visit: impl FnMut(&CStr, u64) -> io::Result<()>,
) -> io::Result<()> {
    buffer.reserve_exact(BUFFER_BYTES);
    let mut names = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = names.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            // The directory was removed: nothing is in it.
            Err(Errno::NOENT) => break,
            entry => entry?,
        };
        let name = entry.file_name();
        if name != c"." && name != c".." {
            visit(name, entry.ino())?;
        }
    }
    Ok(())
}

/// Placeholder in an entry until the status of its object is known; no caller sees it.
const UNASKED: ObjectStatus = ObjectStatus {
    stat: Stat {
        kind: Kind::File,
        mode: 0,
        uid: 0,
        gid: 0,
        size: 0,
        mtime: Timestamp { secs: 0, nanos: 0 },
        ctime: Timestamp { secs: 0, nanos: 0 },
        inode: 0,
        linked: false,
        device: 0,
    },
    device_id: 0,
    allocated_bytes: 0,
    links: 0,
};

fn stat(dir: BorrowedFd<'_>, name: &CStr) -> Result<Option<ObjectStatus>, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    Ok(ObjectStatus::new(&rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS)?))
}

fn prefix(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let count = name.len().min(8);
    bytes[..count].copy_from_slice(&name[..count]);
    u64::from_be_bytes(bytes)
}
