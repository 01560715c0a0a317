//! Giving an object its owner, mode, attributes, times and flags, in the one order that keeps all.
//!
//! The order: owner first, because `chown` clears setuid, setgid and capabilities; then extended
//! attributes but ACLs; then the modification time, because nothing after it writes content; then
//! mode; then ACLs, which agree with the mode's group bits; inode flags last, because an immutable
//! object takes nothing more. Each part is tried whatever became of the others.
//!
//! A directory is unfinished ([`Dir::is_unfinished`]) until it has all but its flags.

use std::io;
use std::os::fd::AsFd;

use model::{Attributes, Kind, Stat, Xattr};
use rustix::fs::{CWD, Gid, IFlags, Mode, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use crate::attributes::{FLAGS_RESTORED, Inode};
use crate::dir::{Dir, stat_open};
use crate::target::{MODE_UNFINISHED, UNFINISHED};

/// Setuid and setgid.
const SET_ID_BITS: u16 = 0o6000;

/// Flags under which an inode takes no more links, writes or changes of its attributes.
pub(crate) const FLAGS_SEALING: u32 = IFlags::IMMUTABLE.union(IFlags::APPEND).bits();

/// Flags that a file takes only while it is empty.
pub(crate) const FLAGS_OF_EMPTY: u32 = IFlags::NOCOW.union(IFlags::COMPRESSED).bits();

/// A part of what `apply` gives an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    Owner,
    Mode,
    /// The extended attribute of this name; also one that should not be there.
    Xattr(Vec<u8>),
    Times,
    Flags,
}

/// A part that the object did not take.
#[derive(Debug)]
pub struct Refusal {
    pub part: Part,
    pub error: io::Error,
}

/// What came of applying: complete if nothing was refused. Without privileges owners, `trusted.`
/// attributes and some flags usually are.
#[derive(Debug, Default)]
#[must_use]
pub struct Applied {
    pub refused: Vec<Refusal>,
}

impl Applied {
    pub(crate) fn note(&mut self, part: Part, result: io::Result<()>) {
        if let Err(error) = result {
            self.refused.push(Refusal { part, error });
        }
    }
}

/// What a file has that was made in a directory, before it is given anything: the same for all
/// files that the same process makes there, so that it is asked once.
#[derive(Debug)]
pub(crate) struct Newborn {
    owner: (u32, u32),
    /// A parent's default ACL gives some, and what labels objects.
    xattr_names: Vec<Vec<u8>>,
    /// Those within [`FLAGS_RESTORED`].
    flags: u32,
}

impl Newborn {
    /// Looks at a file that has been given nothing but content.
    pub(crate) fn of(inode: &Inode<'_>) -> io::Result<Self> {
        Ok(Self {
            owner: owner(inode)?,
            xattr_names: inode.xattr_names()?,
            flags: inode.flags()?.bits() & FLAGS_RESTORED,
        })
    }

    fn has_owner_of(&self, stat: &Stat) -> bool {
        self.owner == (stat.uid, stat.gid)
    }
}

impl Dir {
    /// Gives this directory what `stat` and `attributes` say, the owner only if `owner` is set.
    /// Comes after all objects in it, since making those would change its times again.
    pub fn apply(&self, stat: &Stat, attributes: &Attributes, owner: bool) -> Applied {
        let inode = Inode::of_open(self.as_fd());
        let mut applied = apply(&inode, stat, attributes, owner, None);
        applied.note(Part::Flags, set_flags(&inode, attributes.flags, FLAGS_RESTORED, None));
        applied
    }

    /// The same for the symbolic link, FIFO or device `name`, which has no flags. Fails only if
    /// `name` is not there or is not of `stat.kind`.
    pub fn apply_to_name(
        &self,
        name: &[u8],
        stat: &Stat,
        attributes: &Attributes,
        owner: bool,
    ) -> io::Result<Applied> {
        let fd = self.open_handle(name)?;
        let found = stat_open(fd.as_fd())?;
        if found.stat.kind != stat.kind {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "another kind of object"));
        }
        Ok(apply(&Inode::of_handle(&fd), stat, attributes, owner, None))
    }
}

/// Applies all but the flags; what the inode has by being new need not be asked.
pub(crate) fn apply(
    inode: &Inode<'_>,
    stat: &Stat,
    attributes: &Attributes,
    owner: bool,
    newborn: Option<&Newborn>,
) -> Applied {
    let mut applied = Applied::default();
    if owner && !newborn.is_some_and(|newborn| newborn.has_owner_of(stat)) {
        applied.note(Part::Owner, set_owner(inode, stat));
    }
    let owned = owner && applied.refused.is_empty();
    if !owner && stat.kind != Kind::Symlink {
        // User attributes want the right to write, which the final mode may take away. If this is
        // refused, so is what follows, and that is told.
        let is_directory = stat.kind == Kind::Directory;
        let mode = if is_directory { MODE_UNFINISHED } else { Mode::RWXU };
        let _refused = change_mode(inode, mode);
    }
    // What was given by making it: what is set from here on is meant.
    let mut present = match newborn {
        Some(newborn) => newborn.xattr_names.clone(),
        None => inode.xattr_names().unwrap_or_default(),
    };
    let is_marked = present.iter().any(|name| name == UNFINISHED.as_bytes());
    present.retain(|name| name != UNFINISHED.as_bytes());
    // What cannot be taken off stays, and has the next run set all again.
    let unmark = || drop(inode.remove_xattr(UNFINISHED.as_bytes()));
    set_xattrs(inode, &present, &attributes.xattrs, |name| !is_acl(name), &mut applied);
    applied.note(Part::Times, set_times(inode, stat));
    if is_marked && !owner {
        // The mode says it too until it is changed, and may take away the right to.
        unmark();
    }
    if stat.kind != Kind::Symlink {
        applied.note(Part::Mode, set_mode(inode, stat, owned));
    }
    // A change of mode changes an ACL: hence the ACLs last.
    set_xattrs(inode, &present, &attributes.xattrs, is_acl, &mut applied);
    if is_marked && owner {
        unmark();
    }
    applied
}

fn set_owner(inode: &Inode<'_>, stat: &Stat) -> io::Result<()> {
    // The kernel takes the largest number for 'leave as it is'; no inode can be owned by it.
    let invalid = || io::Error::from(Errno::INVAL);
    let id = |id: u32| (id != u32::MAX).then_some(id).ok_or_else(invalid);
    let (user, group) = (Uid::from_raw(id(stat.uid)?), Gid::from_raw(id(stat.gid)?));
    match inode {
        Inode::Open(fd) => rustix::fs::fchown(fd, Some(user), Some(group))?,
        Inode::Handle(path) => rustix::fs::chown(path, Some(user), Some(group))?,
    }
    Ok(())
}

/// Setuid and setgid are given only to an object that has the owner they were meant for: else they
/// would lend out the rights of whoever restores.
fn set_mode(inode: &Inode<'_>, stat: &Stat, owned: bool) -> io::Result<()> {
    let mut mode = stat.mode;
    if mode & SET_ID_BITS != 0 && !owned && !has_owner(inode, stat)? {
        mode &= !SET_ID_BITS;
    }
    change_mode(inode, Mode::from_raw_mode(mode.into()))?;
    if mode != stat.mode {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "setuid and setgid need the original owner",
        ));
    }
    Ok(())
}

fn change_mode(inode: &Inode<'_>, bits: Mode) -> io::Result<()> {
    match inode {
        Inode::Open(fd) => rustix::fs::fchmod(fd, bits)?,
        Inode::Handle(path) => rustix::fs::chmod(path, bits)?,
    }
    Ok(())
}

fn has_owner(inode: &Inode<'_>, stat: &Stat) -> io::Result<bool> {
    Ok(owner(inode)? == (stat.uid, stat.gid))
}

fn owner(inode: &Inode<'_>) -> io::Result<(u32, u32)> {
    let found = match inode {
        Inode::Open(fd) => rustix::fs::fstat(fd)?,
        Inode::Handle(path) => rustix::fs::stat(path)?,
    };
    Ok((found.st_uid, found.st_gid))
}

fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// Makes the attributes that are `meant`, of which some are `present`, exactly `xattrs`: what a
/// parent's default ACL or an earlier object left is removed. Labels that the system gave by itself
/// (`security.`) stay, capabilities do not.
fn set_xattrs(
    inode: &Inode<'_>,
    present: &[Vec<u8>],
    xattrs: &[Xattr],
    meant: impl Fn(&[u8]) -> bool,
    applied: &mut Applied,
) {
    for name in present.iter().filter(|name| meant(name)) {
        let wanted = xattrs.iter().any(|xattr| xattr.name == *name);
        let given = name.starts_with(b"security.") && name != b"security.capability";
        if !wanted && !given {
            applied.note(Part::Xattr(name.clone()), inode.remove_xattr(name));
        }
    }
    for xattr in xattrs.iter().filter(|xattr| meant(&xattr.name)) {
        if let Err(error) = inode.set_xattr(xattr) {
            applied.note(Part::Xattr(xattr.name.clone()), Err(error));
        }
    }
}

fn set_times(inode: &Inode<'_>, stat: &Stat) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: stat.mtime.secs,
            tv_nsec: i64::from(stat.mtime.nanos),
        },
    };
    match inode {
        Inode::Open(fd) => rustix::fs::futimens(fd, &times)?,
        Inode::Handle(path) => {
            rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::empty())?;
        }
    }
    Ok(())
}

impl Dir {
    /// Sets the directory's modification time.
    pub fn set_modified(&self, time: model::Timestamp) -> io::Result<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: time.secs, tv_nsec: i64::from(time.nanos) },
        };
        Ok(rustix::fs::futimens(self, &times)?)
    }
}

/// Makes the flags of an open inode within `mask` those of `flags`. Where privileges lack for the
/// sealing ones, the others are set all the same.
pub(crate) fn set_flags(
    inode: &Inode<'_>,
    flags: u32,
    mask: u32,
    newborn: Option<&Newborn>,
) -> io::Result<()> {
    let Inode::Open(fd) = inode else { return Ok(()) };
    let mask = mask & FLAGS_RESTORED;
    if newborn.is_some_and(|newborn| newborn.flags & mask == flags & mask) {
        return Ok(());
    }
    let current = inode.flags()?.bits();
    let wanted = current & !mask | flags & mask;
    if wanted == current {
        return Ok(());
    }
    let set = |bits: u32| rustix::fs::ioctl_setflags(fd, IFlags::from_bits_retain(bits));
    match set(wanted) {
        Err(Errno::PERM) => {
            // The first refusal is what the caller must hear of, whatever the rest gives.
            let _others = set(wanted & !FLAGS_SEALING | current & FLAGS_SEALING);
            Err(Errno::PERM.into())
        }
        result => Ok(result?),
    }
}
