//! State of a file that was just made, and the owner of an object.

use std::io;

use model::Stat;

use crate::attributes::{FLAGS_RESTORED, Inode};

/// State of a file that was just made in a directory, before any attribute is set. It is the same
/// for all files that one process makes there, so the kernel is asked once.
#[derive(Debug)]
pub(crate) struct NewFileState {
    owner: Owner,
    /// Names of the attributes that the parent's default ACL or a security module has set.
    pub(crate) xattr_names: Vec<Vec<u8>>,
    /// Inode flags within [`FLAGS_RESTORED`].
    pub(crate) flags: u32,
}

impl NewFileState {
    /// Reads the state of a new file, for which nothing except content has been written.
    pub(crate) fn of(inode: &Inode<'_>) -> io::Result<Self> {
        Ok(Self {
            owner: Owner::of(inode)?,
            xattr_names: inode.xattr_names()?,
            flags: inode.flags()?.bits() & FLAGS_RESTORED,
        })
    }

    pub(crate) fn has_owner_of(&self, stat: &Stat) -> bool {
        self.owner == Owner::named_by(stat)
    }
}

/// The user and the group that an object belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Asks for the owner of `inode`.
    pub(crate) fn of(inode: &Inode<'_>) -> io::Result<Self> {
        let stat = match inode {
            Inode::Open(fd) => rustix::fs::fstat(fd)?,
            Inode::Handle(path) => rustix::fs::stat(path)?,
        };
        Ok(Self { uid: stat.st_uid, gid: stat.st_gid })
    }

    pub(crate) fn named_by(stat: &Stat) -> Self {
        Self { uid: stat.uid, gid: stat.gid }
    }
}
