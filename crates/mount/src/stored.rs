//! The stored files as a file system: answers to the kernel.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use client::{ClientError, ErrorKind};
use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyXattr, Request,
};
use model::{Kind, Object, Payload};
use sys::lock::Mutex;

use crate::contents::{Contents, SMALL_BYTES_MAX};
use crate::inodes::Inodes;
use crate::kernel::KernelCache;
use crate::messages::{Log, Messages};
use crate::node::{Folder, Node, View};
use crate::tree::{Entries, Tree, TreeEntry, in_walk_order};

/// Time for which the kernel remembers names and attributes of a past state, which never changes.
const PAST: Duration = Duration::from_secs(3600);
/// Time for which the kernel remembers names and attributes that may change.
const PRESENT: Duration = Duration::from_secs(5);
/// Number of an entry of which the kernel has not been told. Source: libfuse,
/// `FUSE_UNKNOWN_INO`.
const UNKNOWN: INodeNo = INodeNo(0xffff_ffff);
/// Search for data in a file, as programs ask for it. Source: Linux, `uapi/linux/fs.h`.
const SEEK_DATA: i32 = 3;
/// Search for a hole in a file. Source: as [`SEEK_DATA`].
const SEEK_HOLE: i32 = 4;
/// Largest read-ahead that the kernel is asked for, in bytes.
const READ_AHEAD: u32 = 1 << 20;

pub(crate) struct StoredFiles {
    tree: Tree,
    contents: Contents,
    inodes: Inodes,
    /// The directories that are open, by handle.
    open: Mutex<HashMap<u64, OpenDirectory>>,
    next_handle: AtomicU64,
    kernel: KernelCache,
    messages: Messages,
}

struct OpenDirectory {
    entries: Entries,
    /// Small files that the last answer told the kernel of.
    told: Vec<ToldFile>,
}

/// Small file that the kernel was told of.
struct ToldFile {
    number: INodeNo,
    view: View,
    folder: Arc<Folder>,
    object: Arc<Object>,
}

impl ToldFile {
    /// Returns the file that `node` stands for, if its content may come ahead.
    fn new(number: INodeNo, node: &Node) -> Option<Self> {
        let Node::Object { view, folder, object } = node else { return None };
        let is_small = (1..=SMALL_BYTES_MAX).contains(&object.stat.size);
        (object.stat.kind == Kind::File && is_small).then(|| Self {
            number,
            view: *view,
            folder: Arc::clone(folder),
            object: Arc::clone(object),
        })
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.view == other.view && Arc::ptr_eq(&self.folder, &other.folder)
    }
}

impl StoredFiles {
    pub(crate) fn new(tree: Tree, contents: Contents, kernel: KernelCache, log: Log) -> Self {
        Self {
            tree,
            contents,
            inodes: Inodes::new(),
            open: Mutex::default(),
            next_handle: AtomicU64::new(1),
            kernel,
            messages: Messages::new(log),
        }
    }

    /// Returns the error for the kernel. What a program cannot be told goes to the log.
    fn errno(&self, about: &dyn Fn() -> String, error: &ClientError) -> Errno {
        match error.kind {
            ErrorKind::NotFound => Errno::ENOENT,
            ErrorKind::Refused => Errno::EACCES,
            _ => {
                let message = format!("{}: {}", about(), error.message);
                self.messages.say(message, sys::clock::monotonic());
                Errno::EIO
            }
        }
    }

    fn node(&self, inode: INodeNo) -> Result<Node, Errno> {
        self.inodes.get(inode).ok_or(Errno::ENOENT)
    }

    /// Returns the entries of a directory in the order in which programs are told of them.
    fn entries(&self, inode: INodeNo) -> Result<Entries, Errno> {
        let node = self.node(inode)?;
        match self.tree.list(&node) {
            Ok(Some(entries)) => Ok(in_walk_order(&entries)),
            Ok(None) => Err(Errno::ENOTDIR),
            Err(error) => Err(self.errno(&|| shown(&node), &error)),
        }
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<Node, Errno> {
        let node = self.node(parent)?;
        match self.tree.find(&node, name.as_bytes()) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(Errno::ENOENT),
            Err(error) => Err(self.errno(&|| shown(&node), &error)),
        }
    }

    fn read_node(&self, node: &Node, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let read = match node {
            Node::Object { view, folder, object } if object.stat.kind == Kind::File => {
                let range = clipped(offset, size, object.stat.size);
                if range.is_empty() {
                    return Ok(Vec::new());
                }
                self.contents.read(*view, folder, object, range)
            }
            Node::Image(image) => {
                let range = clipped(offset, size, image.facts.layout.bytes);
                self.contents.read_image(image, range)
            }
            _ => return Err(Errno::EISDIR),
        };
        read.map_err(|error| self.content_errno(node, &error))
    }

    /// Returns the error for the kernel after the content of `node` could not be had.
    fn content_errno(&self, node: &Node, error: &ClientError) -> Errno {
        match self.errno(&|| shown(node), error) {
            // The version has expired since it was listed.
            Errno::ENOENT => Errno::ESTALE,
            other => other,
        }
    }

    /// Returns the offset of the next data in a file from `offset` on, or of the next hole. A
    /// program that copies a file with large holes would otherwise read all their zeros.
    fn seek(&self, node: &Node, offset: u64, whence: i32) -> Result<u64, Errno> {
        let size = match node {
            Node::Object { object, .. } if object.stat.kind == Kind::File => object.stat.size,
            Node::Image(image) => image.facts.layout.bytes,
            _ => return Err(Errno::EINVAL),
        };
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        let data = match node {
            Node::Object { folder, object, .. } if object.payload.hole_bytes() > 0 => self
                .contents
                .data_from(folder, object, offset)
                .map_err(|error| self.content_errno(node, &error))?,
            Node::Image(image) if image.facts.data_bytes < size => self
                .contents
                .image_data_from(image, offset)
                .map_err(|error| self.content_errno(node, &error))?,
            _ => Some(0..size),
        };
        sought(offset, data, whence)
    }

    /// Returns the entries of a directory that is open. The kernel has taken in the answer before,
    /// so it gets the contents of the files in it.
    fn handle(&self, inode: INodeNo, handle: FileHandle) -> Result<Entries, Errno> {
        let state_of =
            |open: &mut OpenDirectory| (Arc::clone(&open.entries), std::mem::take(&mut open.told));
        let known = self.open.lock().get_mut(&u64::from(handle)).map(state_of);
        let Some((entries, told)) = known else { return self.entries(inode) };
        self.give_contents(&told);
        Ok(entries)
    }

    /// Puts contents that have come ahead into the kernel's cache, as long as there are any. They
    /// stay here until they are there: a program may read them meanwhile.
    fn give_contents(&self, told: &[ToldFile]) {
        for mut rest in told.chunk_by(ToldFile::is_beside) {
            while let Some(ToldFile { view, folder, .. }) = rest.first() {
                let objects: Vec<&Object> = rest.iter().map(|file| &*file.object).collect();
                let contents = self.contents.find_ahead(*view, folder, &objects);
                let given = rest
                    .iter()
                    .zip(&contents)
                    .take_while(|(file, content)| self.kernel.put(file.number, content))
                    .count();
                self.contents.drop_given(*view, folder, &objects[..given]);
                if contents.is_empty() || given < contents.len() {
                    return;
                }
                rest = &rest[given..];
            }
        }
    }

    /// Notes the files that an answer told the kernel of.
    fn note_told(&self, handle: FileHandle, told: Vec<ToldFile>) {
        if let Some(open) = self.open.lock().get_mut(&u64::from(handle)) {
            open.told = told;
        }
    }

    fn xattr(&self, inode: INodeNo, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let node = self.node(inode)?;
        let object = node.object().ok_or(Errno::ENODATA)?;
        let found = object.attributes.xattrs.iter().find(|xattr| xattr.name == name.as_bytes());
        found.map(|xattr| xattr.value.clone()).ok_or(Errno::ENODATA)
    }

    fn xattr_names(&self, inode: INodeNo) -> Result<Vec<u8>, Errno> {
        let node = self.node(inode)?;
        let xattrs = node.object().map_or(&[][..], |object| &object.attributes.xattrs);
        Ok(xattrs.iter().flat_map(|xattr| [&xattr.name[..], b"\0"].concat()).collect())
    }
}

/// Returns the part of a file of `size` bytes that a read asks for.
fn clipped(offset: u64, bytes: u32, size: u64) -> Range<u64> {
    let start = offset.min(size);
    start..offset.saturating_add(u64::from(bytes)).min(size)
}

/// Returns where a search from `offset` on ends. `data` is the data at `offset`, or the next data
/// after it.
fn sought(offset: u64, data: Option<Range<u64>>, whence: i32) -> Result<u64, Errno> {
    match (whence, data) {
        (SEEK_DATA, Some(data)) => Ok(data.start.max(offset)),
        (SEEK_DATA, None) => Err(Errno::ENXIO),
        (SEEK_HOLE, Some(data)) if data.contains(&offset) => Ok(data.end),
        (SEEK_HOLE, _) => Ok(offset),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns the time for which the kernel may remember a node.
fn lifetime(node: &Node) -> &'static Duration {
    let never_changes = match node {
        Node::Object { view: View::Versions, .. } | Node::Image(_) => true,
        Node::Directory { view, .. } | Node::Object { view, .. } => {
            // The clock is asked only for a past state.
            view.time().is_some() && view.is_settled(sys::clock::now())
        }
        _ => false,
    };
    if never_changes { &PAST } else { &PRESENT }
}

/// Returns the path of a node, for messages.
fn shown(node: &Node) -> String {
    match node {
        Node::Directory { path, .. } => model::escaped(path),
        Node::Object { folder, object, .. } | Node::VersionsOf { folder, newest: object } => {
            let path = folder.directory.join(&object.name);
            format!("{} in {}", model::escaped(&path), model::escaped(&folder.filespace))
        }
        Node::Image(image) => format!("an image of {}", model::escaped(&image.name)),
        Node::Images { name: Some(name) } => format!("images of {}", model::escaped(name)),
        Node::Top | Node::Times | Node::Images { name: None } => "the server".to_owned(),
    }
}

/// Answers a question about an attribute of `value`'s length.
fn give(value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match value {
        Err(errno) => reply.error(errno),
        Ok(value) => match u32::try_from(value.len()) {
            Ok(bytes) if size == 0 => reply.size(bytes),
            Ok(bytes) if bytes <= size => reply.data(&value),
            _ => reply.error(Errno::ERANGE),
        },
    }
}

impl Filesystem for StoredFiles {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without FUSE_READDIRPLUS_AUTO, with which the kernel asks for most entries of a large
        // directory by name, one by one.
        let wished = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_POSIX_ACL
            | InitFlags::FUSE_CACHE_SYMLINKS;
        // An older kernel has fewer of them, and each of them is only a help.
        let _missing = config.add_capabilities(wished & config.capabilities());
        let _largest = config.set_max_readahead(READ_AHEAD);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok(node) => {
                let lifetime = lifetime(&node);
                let inode = self.inodes.tell(node.clone());
                reply.entry(lifetime, &node.attributes(inode), Generation(0));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.inodes.forget(inode, lookups);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(inode) {
            Ok(node) => reply.attr(lifetime(&node), &node.attributes(inode)),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.node(inode) {
            Ok(node) => match node.object().map(|object| &object.payload) {
                Some(Payload::Target(target)) => reply.data(target),
                _ => reply.error(Errno::EINVAL),
            },
            Err(errno) => reply.error(errno),
        }
    }

    /// Tells the kernel that files need not be opened. From then on it does not ask, and keeps what
    /// it has of a file. That stays right, because each version has a number of its own.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.node(inode).and_then(|node| self.read_node(&node, offset, size)) {
            Ok(data) => reply.data(&data),
            Err(errno) => reply.error(errno),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let seek = |node: Node| match u64::try_from(offset) {
            Ok(offset) => self.seek(&node, offset, whence),
            Err(_) => Err(Errno::ENXIO),
        };
        match self.node(inode).and_then(seek) {
            // Sizes of files that the kernel knows fit.
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(errno) => reply.error(errno),
        }
    }

    /// Opens a directory. If this said that directories need not be opened (ENOSYS), the kernel
    /// would ask two questions less for each, but it would keep each listing until the time of the
    /// directory changes. New backups change what `at/`, `images/` and `versions/` list, but not
    /// their times.
    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.entries(inode) {
            Ok(entries) => {
                let handle = self.next_handle.fetch_add(1, Relaxed);
                let open = OpenDirectory { entries, told: Vec::new() };
                self.open.lock().insert(handle, open);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = match self.handle(inode, handle) {
            Ok(entries) => entries,
            Err(errno) => return reply.error(errno),
        };
        for (name, at, node) in numbered(&entries, offset) {
            let kind = node.map_or(FileType::Directory, Node::kind);
            let inode = if node.is_none() { inode } else { UNKNOWN };
            if reply.add(inode, at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let entries = match self.handle(inode, handle) {
            Ok(entries) => entries,
            Err(errno) => return reply.error(errno),
        };
        let own = match self.node(inode) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        let mut told = Vec::new();
        for (name, at, node) in numbered(&entries, offset) {
            let Some(node) = node else {
                // The kernel does not count these two.
                let attributes = own.attributes(inode);
                if reply.add(inode, at, name, &PRESENT, &attributes, Generation(0)) {
                    break;
                }
                continue;
            };
            let number = self.inodes.tell(node.clone());
            let attributes = node.attributes(number);
            if reply.add(number, at, name, lifetime(node), &attributes, Generation(0)) {
                self.inodes.forget(number, 1);
                break;
            }
            told.extend(ToldFile::new(number, node));
        }
        // Before the answer: the kernel may ask for more at once.
        self.note_told(handle, told);
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.open.lock().remove(&u64::from(handle));
        reply.ok();
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        give(self.xattr(inode, name), size, reply);
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        give(self.xattr_names(inode), size, reply);
    }
}

/// Returns the entries of a directory from `offset` on, after `.` and `..`, each with the offset of
/// the entry after it. The first two have no node.
fn numbered(
    entries: &[TreeEntry],
    offset: u64,
) -> impl Iterator<Item = (&OsStr, u64, Option<&Node>)> {
    let dots = [".", ".."].into_iter().map(|name| (OsStr::new(name), None));
    let stored = entries.iter().map(|entry| (OsStr::from_bytes(&entry.name), Some(&entry.node)));
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    let all = dots.chain(stored).zip(1_u64..);
    all.skip(skipped).map(|((name, node), next)| (name, next, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_end_with_the_file() {
        assert_eq!(clipped(0, 10, 5), 0..5);
        assert_eq!(clipped(3, 10, 5), 3..5);
        assert_eq!(clipped(9, 10, 5), 5..5);
        assert_eq!(clipped(u64::MAX, 10, 5), 5..5);
    }

    #[test]
    fn a_search_finds_data_and_holes() {
        for (offset, data, data_at, hole_at) in [
            (5, Some(0..10), Ok(5), Ok(10)),
            (20, Some(30..40), Ok(30), Ok(20)),
            (50, None, Err(()), Ok(50)),
        ] {
            let found = |whence| sought(offset, data.clone(), whence).map_err(drop);
            assert_eq!((found(SEEK_DATA), found(SEEK_HOLE)), (data_at, hole_at), "from {offset}");
            assert_eq!(found(0), Err(()), "the kernel answers other searches by itself");
        }
    }

    #[test]
    fn a_directory_goes_on_where_it_ended() {
        let entries = [b"a", b"b"].map(|name| TreeEntry { name: name.to_vec(), node: Node::Times });
        let names = |offset| -> Vec<(String, u64)> {
            numbered(&entries, offset)
                .map(|(name, next, _)| (name.to_string_lossy().into_owned(), next))
                .collect()
        };
        let expected = [(".", 1), ("..", 2), ("a", 3), ("b", 4)];
        let expected = expected.map(|(name, next)| (name.to_owned(), next));
        assert_eq!(names(0), expected);
        assert_eq!(names(2), expected[2..]);
        assert_eq!(names(4), []);
    }
}
