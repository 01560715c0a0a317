//! Setting the owner, mode, attributes, times and flags of an object, in the only order that keeps
//! all of them.
//!
//! The order: owner first, because `chown` clears setuid, setgid and capabilities; then extended
//! attributes except ACLs; then the modification time, because nothing after it writes content;
//! then mode; then ACLs, which agree with the mode's group bits; inode flags last, because an
//! immutable object cannot be changed any more. Each part is tried even if others have failed.
//!
//! A directory is unfinished ([`Dir::is_unfinished`]) until it has all parts except its flags.

use std::io;
use std::os::fd::AsFd;

use model::{Attributes, Kind, Stat, Xattr};
use rustix::fs::{CWD, Gid, IFlags, Mode, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use crate::attributes::{FLAGS_RESTORED, Inode};
use crate::dir::Dir;
use crate::new_file_state::{NewFileState, Owner};
use crate::status::stat_open;

/// Mode bits setuid and setgid.
const SET_ID_BITS: u16 = 0o6000;

/// Flags under which an inode takes no more links, writes or changes of its attributes.
pub(crate) const FLAGS_SEALING: u32 = IFlags::IMMUTABLE.union(IFlags::APPEND).bits();

/// Flags that a file takes only while it is empty.
pub(crate) const FLAGS_OF_EMPTY: u32 = IFlags::NOCOW.union(IFlags::COMPRESSED).bits();

/// Name of the extended attribute that marks a directory that is being made.
pub(crate) const UNFINISHED: &str = "user.holdfast.unfinished";

/// Initial mode of a directory that is being made. Other programs hardly ever make a sticky
/// directory that only its owner may use.
pub(crate) const MODE_UNFINISHED: Mode = Mode::RWXU.union(Mode::SVTX);

/// One of the parts of an object that `apply` sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    Owner,
    Mode,
    /// The extended attribute of this name, which had to be set or removed.
    Xattr(Vec<u8>),
    Times,
    Flags,
}

/// A part that could not be set, and the reason.
#[derive(Debug)]
pub struct Refusal {
    pub part: Part,
    pub error: io::Error,
}

/// Result of setting the parts: complete if no part was refused. Without privileges, the kernel
/// usually refuses owners, `trusted.` attributes and some flags.
#[derive(Debug, Default)]
#[must_use]
pub struct ApplyOutcome {
    pub refused: Vec<Refusal>,
}

impl ApplyOutcome {
    pub(crate) fn note(&mut self, part: Part, result: io::Result<()>) {
        if let Err(error) = result {
            self.refused.push(Refusal { part, error });
        }
    }
}

impl Dir {
    /// Gives this directory the parts that `stat` and `attributes` describe, the owner only if
    /// `owner` is set. The caller does this after all objects in the directory are made, because
    /// making them changes its times.
    pub fn apply(&self, stat: &Stat, attributes: &Attributes, owner: bool) -> ApplyOutcome {
        let inode = Inode::of_open(self.as_fd());
        let mut applied = apply(&inode, stat, attributes, owner, None, false);
        applied.note(Part::Flags, set_flags(&inode, attributes.flags, FLAGS_RESTORED, None));
        applied
    }

    /// Gives the parts to the symbolic link, FIFO or device `name`, which has no flags. Fails only
    /// if no object has that name, or if its kind is not `stat.kind`.
    pub fn apply_to_name(
        &self,
        name: &[u8],
        stat: &Stat,
        attributes: &Attributes,
        owner: bool,
    ) -> io::Result<ApplyOutcome> {
        let fd = self.open_handle(name)?;
        let found = stat_open(fd.as_fd())?;
        if found.stat.kind != stat.kind {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the object is of another kind",
            ));
        }
        Ok(apply(&Inode::of_handle(&fd), stat, attributes, owner, None, false))
    }
}

/// Sets all parts except the flags. `new_file` is the state of a new inode; with it, the kernel
/// need not be asked. `has_mode` is set if the inode is known to have the mode of `stat`.
pub(crate) fn apply(
    inode: &Inode<'_>,
    stat: &Stat,
    attributes: &Attributes,
    owner: bool,
    new_file: Option<&NewFileState>,
    mut has_mode: bool,
) -> ApplyOutcome {
    let mut applied = ApplyOutcome::default();
    if owner && !new_file.is_some_and(|new_file| new_file.has_owner_of(stat)) {
        applied.note(Part::Owner, set_owner(inode, stat));
    }
    let owned = owner && applied.refused.is_empty();
    // Attributes that the object got when it was made. They are removed unless `attributes` has
    // them.
    let mut present = match new_file {
        Some(new_file) => new_file.xattr_names.clone(),
        None => inode.xattr_names().unwrap_or_default(),
    };
    let is_directory = stat.kind == Kind::Directory;
    let changes_xattrs =
        !attributes.xattrs.is_empty() || present.iter().any(|name| !is_label(name));
    if !owner && stat.kind != Kind::Symlink && (is_directory || changes_xattrs) {
        // User attributes need the right to write, which the final mode may take away. If the
        // kernel refuses this change, it refuses the attributes too, and that is reported.
        let mode = if is_directory { MODE_UNFINISHED } else { Mode::RWXU };
        let _refused = change_mode(inode, mode);
        has_mode = false;
    }
    let is_marked = present.iter().any(|name| name == UNFINISHED.as_bytes());
    present.retain(|name| name != UNFINISHED.as_bytes());
    // If the mark cannot be removed, the next run sets everything again.
    let unmark = || drop(inode.remove_xattr(UNFINISHED.as_bytes()));
    set_xattrs(inode, &present, &attributes.xattrs, |name| !is_acl(name), &mut applied);
    applied.note(Part::Times, set_times(inode, stat));
    if is_marked && !owner {
        // The unfinished mode marks the directory as well. The final mode may forbid removing the
        // mark, so the mark is removed first.
        unmark();
    }
    if stat.kind != Kind::Symlink && !has_mode {
        applied.note(Part::Mode, set_mode(inode, stat, owned));
    }
    // A change of the mode changes the ACL, so the ACLs are set last.
    set_xattrs(inode, &present, &attributes.xattrs, is_acl, &mut applied);
    if is_marked && owner {
        unmark();
    }
    applied
}

fn set_owner(inode: &Inode<'_>, stat: &Stat) -> io::Result<()> {
    // For the kernel the largest number means 'leave as it is': no inode can have that owner.
    let invalid = || io::Error::from(Errno::INVAL);
    let id = |id: u32| (id != u32::MAX).then_some(id).ok_or_else(invalid);
    let (user, group) = (Uid::from_raw(id(stat.uid)?), Gid::from_raw(id(stat.gid)?));
    match inode {
        Inode::Open(fd) => rustix::fs::fchown(fd, Some(user), Some(group))?,
        Inode::Handle(path) => rustix::fs::chown(path, Some(user), Some(group))?,
    }
    Ok(())
}

/// Sets the mode. Setuid and setgid are set only if the object has the owner that it had when it
/// was backed up: otherwise programs would get the rights of the user who restores.
fn set_mode(inode: &Inode<'_>, stat: &Stat, owned: bool) -> io::Result<()> {
    let mut mode = stat.mode;
    if mode & SET_ID_BITS != 0 && !owned && Owner::of(inode)? != Owner::named_by(stat) {
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

fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// Returns true for the name of a label that the system sets by itself.
fn is_label(name: &[u8]) -> bool {
    name.starts_with(b"security.") && name != b"security.capability"
}

/// Sets the attributes in `xattrs` whose names `meant` selects. Removes `present` attributes with
/// such names that are not in `xattrs`: they come from a parent's default ACL or an earlier object.
/// Labels stay.
fn set_xattrs(
    inode: &Inode<'_>,
    present: &[Vec<u8>],
    xattrs: &[Xattr],
    meant: impl Fn(&[u8]) -> bool,
    applied: &mut ApplyOutcome,
) {
    for name in present.iter().filter(|name| meant(name)) {
        let wanted = xattrs.iter().any(|xattr| xattr.name == *name);
        if !wanted && !is_label(name) {
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

/// Sets the flags in `mask` of an open inode to their values in `flags`. If the process lacks the
/// privilege for the sealing flags, the other flags are set nevertheless.
pub(crate) fn set_flags(
    inode: &Inode<'_>,
    flags: u32,
    mask: u32,
    new_file: Option<&NewFileState>,
) -> io::Result<()> {
    let Inode::Open(fd) = inode else { return Ok(()) };
    let mask = mask & FLAGS_RESTORED;
    if new_file.is_some_and(|new_file| new_file.flags & mask == flags & mask) {
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
            // The first refusal is returned, whatever the result for the other flags is.
            let _others = set(wanted & !FLAGS_SEALING | current & FLAGS_SEALING);
            Err(Errno::PERM.into())
        }
        result => Ok(result?),
    }
}
