//! Objects and their versions.

use std::sync::Arc;

use crate::{ClassId, Extent, Name, Place, ServerTime, Timestamp};

/// Kind of an object. Sockets have no kind, because they are never backed up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    CharDevice,
    BlockDevice,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Fifo,
        Self::CharDevice,
        Self::BlockDevice,
    ];

    /// The code of the kind in formats and digests: 0 to 5.
    pub fn code(self) -> u8 {
        match self {
            Self::File => 0,
            Self::Directory => 1,
            Self::Symlink => 2,
            Self::Fifo => 3,
            Self::CharDevice => 4,
            Self::BlockDevice => 5,
        }
    }

    /// The kind that `code` stands for.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// Attributes from one `stat` of an object: all that a directory digest covers besides the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky: 12 bits.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Size in bytes, as the file system reports it, even for directories.
    pub size: u64,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    pub inode: u64,
    /// True if the inode had several names. All objects with the same inode are then one hard-link
    /// group. A directory has one name: see [`Self::is_above_archived`].
    pub linked: bool,
    /// Major and minor of a device node, as `makedev` packs them; 0 for everything else.
    pub device: u64,
}

impl Stat {
    /// Returns true for a directory that an archive has only because the directory is above one of
    /// the archive's paths. The archive may have a part of its content.
    pub fn is_above_archived(&self) -> bool {
        self.kind == Kind::Directory && self.linked
    }
}

/// One extended attribute. POSIX ACLs are the attributes `system.posix_acl_access` and
/// `system.posix_acl_default`, as the kernel encodes them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Xattr {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
}

/// Attributes that a `stat` does not return. They are read only if the object is new or its ctime
/// has changed.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attributes {
    /// Extended attributes, sorted by name.
    pub xattrs: Vec<Xattr>,
    /// Inode flags that a user may set (`FS_IOC_GETFLAGS`, masked); 0 where there are none.
    pub flags: u32,
}

/// Content of an object, by its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload<P = Place> {
    /// No content: directories, FIFOs, devices and empty files.
    Nothing,
    /// A file's content from offset 0 to its size, without gaps.
    Extents(Vec<Extent<P>>),
    /// Target of a symbolic link.
    Target(Vec<u8>),
}

impl<P> Payload<P> {
    /// The number of bytes of a file that take no space.
    pub fn hole_bytes(&self) -> u64 {
        let Self::Extents(extents) = self else { return 0 };
        let holes = extents.iter().filter_map(|extent| match extent {
            Extent::Hole { bytes } => Some(*bytes),
            Extent::Chunks(_) | Extent::Sealed { .. } => None,
        });
        // A peer may have sent more than any file has.
        holes.fold(0, u64::saturating_add)
    }
}

/// One stored state of an object in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object<P = Place> {
    pub name: Name,
    pub stat: Stat,
    pub attributes: Arc<Attributes>,
    pub class: ClassId,
    /// Time at which the server committed this state. The server ignores a client's value.
    pub inserted: ServerTime,
    pub payload: Payload<P>,
}

/// A stored state of an object, and the time at which it became inactive. The version is active
/// while `deactivated` is `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    pub object: Object,
    pub deactivated: Option<ServerTime>,
}

impl Version {
    /// Returns true if this was the object's state at `time`.
    pub fn stood_at(&self, time: ServerTime) -> bool {
        self.object.inserted <= time && self.deactivated.is_none_or(|end| end > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkRange, PackNumber};

    #[test]
    fn holes_are_added_up() {
        let hole = |bytes| Extent::Hole { bytes };
        let first = Place::new(PackNumber(1), 0);
        let extents = vec![
            hole(3),
            Extent::Chunks(ChunkRange { first, count: 2 }),
            Extent::Sealed { place: first, bytes: 100 },
            hole(4),
        ];
        assert_eq!(Payload::Extents(extents).hole_bytes(), 7);
        assert_eq!(Payload::<Place>::Extents(vec![hole(u64::MAX), hole(1)]).hole_bytes(), u64::MAX);
        assert_eq!(Payload::<Place>::Nothing.hole_bytes(), 0);
        assert_eq!(Payload::<Place>::Target(b"there".to_vec()).hole_bytes(), 0);
    }

    #[test]
    fn kinds_survive_their_code() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(Kind::from_code(6), None);
    }
}
