//! The changes of a disk, in the order in which the process made them.

/// Identity of a file for the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileKey {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Number of a file or folder, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub(crate) u64);

/// The folder at the top of a disk.
pub(crate) const ROOT: NodeId = NodeId(0);

/// A name in a folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    pub(crate) folder: NodeId,
    pub(crate) name: Vec<u8>,
}

/// A change of content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { length: usize },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// A new file or folder gets its first name.
    Make {
        at: Entry,
        node: NodeId,
        is_folder: bool,
    },
    /// A file gets another name.
    Link {
        at: Entry,
        node: NodeId,
    },
    Move {
        from: Entry,
        to: Entry,
        node: NodeId,
    },
    Remove {
        at: Entry,
    },
    Edit {
        node: NodeId,
        edit: Edit,
    },
    /// A sync of a file or folder.
    Sync {
        node: NodeId,
        has_failed: bool,
    },
}
