//! Nodes: the files and directories that a mount shows, and their attributes.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Image, ObjectPlace};
use fuser::{FileAttr, FileType, INodeNo};
use model::{DirPath, Kind, Name, Object, Payload, ServerTime, Stat, Timestamp};

/// Time after which a state is believed to change no more. The clocks of node and server may differ
/// by as much.
const SETTLING_MICROS: i64 = 10 * 60 * 1_000_000;

/// State of the stored files that a part of the mount shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum View {
    Latest,
    At(ServerTime),
    /// All versions of each file, side by side.
    Versions,
}

impl View {
    /// Returns the time whose state is shown; `None` for the present.
    pub(crate) fn time(self) -> Option<ServerTime> {
        match self {
            Self::At(time) => Some(time),
            Self::Latest | Self::Versions => None,
        }
    }

    /// Returns true if what the view shows is the same for ever. The end of this day, for instance,
    /// is a time whose state may still change.
    pub(crate) fn is_settled(self, now: ServerTime) -> bool {
        self.time().is_some_and(|time| time.0 < now.0.saturating_sub(SETTLING_MICROS))
    }
}

/// A file or directory of a mount.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// The topmost directory.
    Top,
    /// Directory with the times of backups.
    Times,
    /// Directory with the names of images, or with the images of one name.
    Images {
        name: Option<Vec<u8>>,
    },
    Image(Arc<Image>),
    /// Directory of the node's files, by its path without a slash at its end.
    Directory {
        view: View,
        path: Arc<[u8]>,
        object: Option<Arc<Object>>,
    },
    /// Anything else that is stored.
    Object {
        view: View,
        folder: Arc<Folder>,
        object: Arc<Object>,
    },
    /// Directory with the versions of one file.
    VersionsOf {
        folder: Arc<Folder>,
        newest: Arc<Object>,
    },
}

/// A version of a file: its place, and the time at which the server got it.
pub(crate) type VersionKey = (ObjectPlace, ServerTime);

/// Directory of a filespace, which all objects in it share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Folder {
    pub(crate) filespace: Vec<u8>,
    pub(crate) directory: DirPath,
}

impl Folder {
    /// Returns the path of an object in this directory, as the node has it.
    pub(crate) fn path(&self, name: &Name) -> Vec<u8> {
        let root = self.filespace.strip_suffix(b"/").unwrap_or(&self.filespace);
        [root, self.directory.as_bytes(), name.as_bytes()].concat()
    }

    /// Returns the place of an object in this directory.
    pub(crate) fn place(&self, object: &Object) -> ObjectPlace {
        let Self { filespace, directory } = self.clone();
        ObjectPlace { filespace, directory, name: object.name.clone() }
    }
}

/// Identity of a node. Two names of one file have the same identity.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) enum NodeKey<'a> {
    Top,
    Times,
    Images(Option<&'a [u8]>),
    Image(&'a [u8], ServerTime),
    Directory(View, &'a [u8]),
    Object(View, &'a Folder, &'a Name, ServerTime),
    /// File with several names: filespace, inode, and the times of its content and its attributes.
    Linked(View, &'a [u8], u64, Timestamp, Timestamp),
    VersionsOf(&'a Folder, &'a Name),
}

impl Node {
    pub(crate) fn key(&self) -> NodeKey<'_> {
        match self {
            Self::Top => NodeKey::Top,
            Self::Times => NodeKey::Times,
            Self::Images { name } => NodeKey::Images(name.as_deref()),
            Self::Image(image) => NodeKey::Image(&image.name, image.taken),
            Self::Directory { view, path, .. } => NodeKey::Directory(*view, path),
            Self::Object { view, folder, object } if object.stat.linked => {
                // The names of one file may have been committed one after the other, so the
                // server's time does not tell its versions apart.
                let Stat { inode, mtime, ctime, .. } = object.stat;
                NodeKey::Linked(*view, &folder.filespace, inode, mtime, ctime)
            }
            Self::Object { view, folder, object } => {
                NodeKey::Object(*view, folder, &object.name, object.inserted)
            }
            Self::VersionsOf { folder, newest } => NodeKey::VersionsOf(folder, &newest.name),
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        match self {
            Self::Object { object, .. } => file_type(object.stat.kind),
            Self::Image(_) => FileType::RegularFile,
            _ => FileType::Directory,
        }
    }

    /// Returns the stored object that the node stands for, if there is one.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Directory { object, .. } => object.as_ref(),
            Self::Object { object, .. } => Some(object),
            // The name was a directory, too, which protects what is in it.
            Self::VersionsOf { newest, .. } if newest.stat.kind == Kind::Directory => Some(newest),
            _ => None,
        }
    }

    /// Returns the attributes of the node with the number `inode`.
    pub(crate) fn attributes(&self, inode: INodeNo) -> FileAttr {
        match self {
            Self::Image(image) => {
                let time = system_time(timestamp(image.taken));
                let (uid, gid) = sys::process::effective_ids();
                let of_image = FileAttr {
                    perm: 0o400,
                    kind: FileType::RegularFile,
                    size: image.facts.layout.bytes,
                    blocks: image.facts.data_bytes.div_ceil(512),
                    uid,
                    gid,
                    ..own(inode)
                };
                FileAttr { mtime: time, ctime: time, ..of_image }
            }
            Self::VersionsOf { newest, .. } if newest.stat.kind != Kind::Directory => {
                let readable = (newest.stat.mode & 0o444) >> 2;
                FileAttr {
                    perm: newest.stat.mode & 0o777 | readable,
                    kind: FileType::Directory,
                    size: 0,
                    ..of_object(inode, newest)
                }
            }
            node => node.object().map_or_else(|| own(inode), |object| of_object(inode, object)),
        }
    }
}

/// Attributes of a directory that is not stored.
fn own(inode: INodeNo) -> FileAttr {
    FileAttr {
        ino: inode,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0o555,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn of_object(inode: INodeNo, object: &Object) -> FileAttr {
    let stat = &object.stat;
    let mtime = system_time(stat.mtime);
    let size = match (&object.payload, stat.kind) {
        (Payload::Target(target), _) => target.len() as u64,
        (_, Kind::Directory) => 0,
        _ => stat.size,
    };
    FileAttr {
        size,
        blocks: size.saturating_sub(object.payload.hole_bytes()).div_ceil(512),
        atime: mtime,
        mtime,
        ctime: system_time(stat.ctime),
        kind: file_type(stat.kind),
        perm: stat.mode,
        nlink: if stat.linked { 2 } else { 1 },
        uid: stat.uid,
        gid: stat.gid,
        rdev: device(stat.device),
        ..own(inode)
    }
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// Encodes the number of a device as FUSE does, in 32 bits.
fn device(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn timestamp(time: ServerTime) -> Timestamp {
    let nanos = u32::try_from(time.0.rem_euclid(1_000_000) * 1000).unwrap_or(0);
    Timestamp { secs: time.0.div_euclid(1_000_000), nanos }
}

fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    let secs = Duration::from_secs(time.secs.unsigned_abs());
    let whole = match time.secs {
        0.. => UNIX_EPOCH.checked_add(secs),
        _ => UNIX_EPOCH.checked_sub(secs),
    };
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
pub(crate) mod tests {
    use model::ClassId;

    use super::*;

    /// Makes a file of `size` bytes.
    pub(crate) fn file(name: &str, size: u64) -> Object {
        let time = Timestamp::default();
        Object {
            name: Name::new(name.as_bytes()).expect("a name"),
            stat: Stat {
                kind: Kind::File,
                mode: 0o644,
                uid: 0,
                gid: 0,
                size,
                mtime: time,
                ctime: time,
                inode: 1,
                linked: false,
                device: 0,
            },
            attributes: Arc::default(),
            class: ClassId(1),
            inserted: ServerTime(1),
            payload: Payload::Nothing,
        }
    }

    #[test]
    fn a_path_begins_with_the_filespace() {
        for (filespace, directory, expected) in
            [("/", "/", "/a"), ("/", "/etc/", "/etc/a"), ("/home", "/ann/", "/home/ann/a")]
        {
            let directory = DirPath::new(directory.as_bytes()).expect("a path");
            let folder = Folder { filespace: filespace.into(), directory };
            assert_eq!(folder.path(&file("a", 1).name), expected.as_bytes());
        }
    }

    #[test]
    fn a_directory_protects_what_is_in_it_among_versions_too() {
        let folder = Arc::new(Folder { filespace: b"/".to_vec(), directory: DirPath::root() });
        let perm = |kind| {
            let object = file("a", 1);
            let stat = Stat { kind, mode: 0o744, ..object.stat };
            let newest = Arc::new(Object { stat, ..object });
            let node = Node::VersionsOf { folder: Arc::clone(&folder), newest };
            (node.attributes(INodeNo(9)).perm, node.object().is_some())
        };
        assert_eq!(perm(Kind::File), (0o755, false));
        assert_eq!(perm(Kind::Directory), (0o744, true));
    }

    #[test]
    fn only_the_past_is_settled() {
        let now = ServerTime(5 * SETTLING_MICROS);
        assert!(View::At(ServerTime(0)).is_settled(now));
        assert!(View::At(ServerTime(4 * SETTLING_MICROS - 1)).is_settled(now));
        for time in [4 * SETTLING_MICROS, now.0, i64::MAX] {
            assert!(!View::At(ServerTime(time)).is_settled(now), "{time}");
        }
        assert!(!View::Latest.is_settled(now) && !View::Versions.is_settled(now));
    }
}
