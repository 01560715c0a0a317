//! The tree of a mount: what is in each directory.
//!
//! ```text
//!   latest/               the active versions, by the paths of the node
//!   at/TIME/              the versions of a time; any time may be named
//!   versions/PATH/TIME    all versions of a file, side by side
//!   images/NAME/TIME.img  images of disks
//! ```

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{ClientError, Image, StoredVersion};
use lru::LruCache;
use model::{DirPath, Kind, Object, ServerTime};
use sys::lock::Mutex;

use crate::ahead::Lookahead;
use crate::connection::Connection;
use crate::filespaces::MountPoints;
use crate::node::{Folder, Node, View};

/// Time for which a state of a directory is believed that may still change.
const FRESH: Duration = Duration::from_secs(5);
/// Maximum number of directories that are remembered.
const DIRECTORIES_REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");
/// Maximum length of the name of an image's directory, in bytes. It leaves room for a number.
const IMAGE_NAME_BYTES_MAX: usize = 240;
/// Maximum number of entries of all directories that are remembered.
const ENTRIES_REMEMBERED: usize = 30_000;

/// Text for a time, and the time for a text, as the user writes them.
pub struct Times {
    pub show: fn(ServerTime) -> String,
    pub parse: fn(&str) -> Option<ServerTime>,
}

/// Entry of a directory.
#[derive(Clone, Debug)]
pub(crate) struct TreeEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) node: Node,
}

/// Entries of a directory, sorted by name unless [`in_walk_order`] has ordered them.
pub(crate) type Entries = Arc<Vec<TreeEntry>>;

pub(crate) struct Tree {
    connection: Arc<Connection>,
    times: Times,
    points: Mutex<Option<(Instant, Arc<MountPoints>)>>,
    directories: Mutex<DirectoryCache>,
    ahead: Lookahead,
}

/// Directories that were asked for lately.
struct DirectoryCache {
    entries: usize,
    directories: LruCache<(View, Vec<u8>), KnownDirectory>,
}

struct KnownDirectory {
    entries: Entries,
    /// Time up to which the entries are believed; `None` for ever.
    until: Option<Instant>,
}

impl DirectoryCache {
    fn get(&mut self, key: &(View, Vec<u8>)) -> Option<Entries> {
        let known = self.directories.get(key)?;
        let is_right = known.until.is_none_or(|until| sys::clock::monotonic() < until);
        is_right.then(|| Arc::clone(&known.entries))
    }

    fn put(&mut self, key: (View, Vec<u8>), entries: &Entries) {
        self.entries += entries.len();
        let may_change = !key.0.is_settled(sys::clock::now());
        let until = may_change.then(|| sys::clock::monotonic() + FRESH);
        let new = KnownDirectory { entries: Arc::clone(entries), until };
        if let Some((_, old)) = self.directories.push(key, new) {
            self.entries -= old.entries.len();
        }
        while self.entries > ENTRIES_REMEMBERED && self.directories.len() > 1 {
            let Some((_, old)) = self.directories.pop_lru() else { break };
            self.entries -= old.entries.len();
        }
    }
}

impl Tree {
    pub(crate) fn new(connection: Arc<Connection>, times: Times) -> Self {
        let directories = LruCache::new(DIRECTORIES_REMEMBERED);
        let directories = Mutex::new(DirectoryCache { entries: 0, directories });
        let ahead = Lookahead::new(Arc::clone(&connection));
        Self { connection, times, points: Mutex::default(), directories, ahead }
    }

    /// Returns the entries of the directory `node`; `None` if it is no directory.
    pub(crate) fn list(&self, node: &Node) -> Result<Option<Entries>, ClientError> {
        match node {
            Node::Top => Ok(Some(Arc::new(top()))),
            Node::Times => self.backup_times().map(|entries| Some(Arc::new(entries))),
            Node::Images { name: None } => self.image_names().map(|all| Some(Arc::new(all))),
            Node::Images { name: Some(name) } => {
                self.images(name).map(|entries| Some(Arc::new(entries)))
            }
            Node::Directory { view, path, .. } => self.directory(*view, path).map(Some),
            Node::VersionsOf { folder, newest } => {
                self.versions(folder, newest).map(|entries| Some(Arc::new(entries)))
            }
            Node::Image(_) | Node::Object { .. } => Ok(None),
        }
    }

    /// Finds the entry `name` of the directory `node`.
    pub(crate) fn find(&self, node: &Node, name: &[u8]) -> Result<Option<Node>, ClientError> {
        if let Node::Times = node {
            // Any time may be named, not only those that are listed.
            let time = str::from_utf8(name).ok().and_then(self.times.parse);
            return Ok(time.map(|time| view_root(View::At(time))));
        }
        let Some(entries) = self.list(node)? else { return Ok(None) };
        let at = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
        Ok(at.ok().map(|at| entries[at].node.clone()))
    }

    fn mount_points(&self) -> Result<Arc<MountPoints>, ClientError> {
        if let Some((since, points)) = &*self.points.lock()
            && since.elapsed() < FRESH
        {
            return Ok(Arc::clone(points));
        }
        let filespaces = self.connection.ask(|line| line.client.filespaces())?;
        let names = filespaces.into_iter().map(|filespace| filespace.name);
        let points = Arc::new(MountPoints::new(names));
        *self.points.lock() = Some((sys::clock::monotonic(), Arc::clone(&points)));
        Ok(points)
    }

    /// Lists the times of backups: those at which the last file of a backup was at the server.
    fn backup_times(&self) -> Result<Vec<TreeEntry>, ClientError> {
        let times = self.connection.ask(|line| line.client.backup_times())?;
        let entry = |time: ServerTime| {
            let name = (self.times.show)(time);
            // The end of the second, as for a name that is looked up: several backups may have
            // ended in it.
            let time = (self.times.parse)(&name).unwrap_or(time);
            TreeEntry { name: name.into_bytes(), node: view_root(View::At(time)) }
        };
        Ok(sorted(times.into_iter().map(entry).collect()))
    }

    fn image_names(&self) -> Result<Vec<TreeEntry>, ClientError> {
        let images = self.connection.ask(|line| line.client.images(None))?;
        let names = file_names(images.into_iter().map(|image| image.name).collect());
        let entry =
            |(name, of_image)| TreeEntry { name, node: Node::Images { name: Some(of_image) } };
        Ok(names.into_iter().map(entry).collect())
    }

    fn images(&self, name: &[u8]) -> Result<Vec<TreeEntry>, ClientError> {
        let mut images = self.connection.ask(|line| line.client.images(Some(name)))?;
        images.sort_by_key(|image| image.taken);
        let mut entries: BTreeMap<Vec<u8>, Image> = BTreeMap::new();
        for image in images {
            let shown = (self.times.show)(image.taken);
            let mut name = format!("{shown}.img").into_bytes();
            // Two images of one second.
            if entries.contains_key(&name) {
                name = format!("{shown}.{:06}.img", micros_of_second(image.taken)).into_bytes();
            }
            entries.insert(name, image);
        }
        let entry = |(name, image)| TreeEntry { name, node: Node::Image(Arc::new(image)) };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn directory(&self, view: View, path: &[u8]) -> Result<Entries, ClientError> {
        let key = (view, path.to_vec());
        if let Some(entries) = self.directories.lock().get(&key) {
            return Ok(entries);
        }
        let points = self.mount_points()?;
        let mut entries = match points.resolve(path) {
            None => Vec::new(),
            Some((filespace, directory)) => match view {
                View::Versions => self.stored_versions(filespace, &directory, path)?,
                _ => self.stored(view, filespace, &directory, path)?,
            },
        };
        for name in points.names_in(path) {
            let path = [path, b"/", &name].concat();
            let object = self.root_object(view, &points, &path)?;
            let node = Node::Directory { view, path: path.into(), object };
            match entries.binary_search_by(|entry| entry.name.cmp(&name)) {
                // The directory that the filespace is mounted over, or on the way to it.
                // A directory on the way to the filespace, or one whose root is not stored.
                Ok(at) if node.object().is_none() && is_stored_directory(&entries[at].node) => {}
                Ok(at) => entries[at].node = node,
                Err(at) => entries.insert(at, TreeEntry { name, node }),
            }
        }
        let entries = Arc::new(entries);
        self.directories.lock().put(key, &entries);
        Ok(entries)
    }

    /// Returns the root object of the filespace that is mounted at `path`, if it is stored.
    fn root_object(
        &self,
        view: View,
        points: &MountPoints,
        path: &[u8],
    ) -> Result<Option<Arc<Object>>, ClientError> {
        if !points.is_point(path) {
            return Ok(None);
        }
        let Some((filespace, _)) = points.resolve(path) else { return Ok(None) };
        let above = DirPath::above_root();
        let roots = self
            .connection
            .ask(|line| line.client.directory(filespace, &above, view.time()))?;
        Ok(roots.into_iter().next().map(Arc::new))
    }

    fn stored(
        &self,
        view: View,
        filespace: &[u8],
        directory: &DirPath,
        path: &[u8],
    ) -> Result<Vec<TreeEntry>, ClientError> {
        let objects = match self.ahead.take(view, filespace, directory) {
            Some(objects) => objects,
            None => self
                .connection
                .ask(|line| line.client.directory(filespace, directory, view.time()))?,
        };
        let folder = Arc::new(folder(filespace, directory));
        let entry = |object: Object| entry(view, &folder, path, Arc::new(object));
        Ok(objects.into_iter().map(entry).collect())
    }

    /// Lists the names of all objects that a directory has or had. A file becomes a directory of
    /// its versions. A name that was a file and a directory becomes one that has both, with the
    /// attributes of the directory, which protect what is in it.
    fn stored_versions(
        &self,
        filespace: &[u8],
        directory: &DirPath,
        path: &[u8],
    ) -> Result<Vec<TreeEntry>, ClientError> {
        let versions =
            self.connection.ask(|line| line.client.all_versions(filespace, directory))?;
        let folder = Arc::new(folder(filespace, directory));
        let of_name = |same: &[StoredVersion]| {
            let is_directory =
                |version: &StoredVersion| version.object.stat.kind == Kind::Directory;
            let directory = same.iter().find(|version| is_directory(version));
            let newest = Arc::new(directory.unwrap_or(&same[0]).object.clone());
            if same.iter().all(is_directory) {
                return entry(View::Versions, &folder, path, newest);
            }
            let (name, folder) = (newest.name.as_bytes().to_vec(), Arc::clone(&folder));
            TreeEntry { name, node: Node::VersionsOf { folder, newest } }
        };
        let same_name = |a: &StoredVersion, b: &StoredVersion| a.object.name == b.object.name;
        Ok(versions.chunk_by(same_name).map(of_name).collect())
    }

    /// Lists the versions of a file. If its name was a directory at other times, what that held is
    /// listed, too.
    fn versions(
        &self,
        folder: &Arc<Folder>,
        newest: &Object,
    ) -> Result<Vec<TreeEntry>, ClientError> {
        let place = folder.place(newest);
        let versions = self.connection.ask(|line| line.client.versions(&place))?;
        let objects = versions.into_iter().map(|version| version.object);
        let (directories, files): (Vec<Object>, Vec<Object>) =
            objects.partition(|object| object.stat.kind == Kind::Directory);
        let entry = |(name, object)| {
            let (view, folder, object) = (View::Versions, Arc::clone(folder), Arc::new(object));
            TreeEntry { name, node: Node::Object { view, folder, object } }
        };
        let mut entries: Vec<TreeEntry> =
            named_by_time(files, self.times.show).into_iter().map(entry).collect();
        if !directories.is_empty() {
            let path = folder.path(&newest.name);
            entries.extend(self.directory(View::Versions, &path)?.iter().cloned());
        }
        Ok(sorted(entries))
    }
}

/// Names the versions of a file, which come newest first, by the times at which they came.
/// Of several in one second, the oldest has the second as its name: a later version takes no name
/// from one that is known already, and the names sort as the versions do.
fn named_by_time(objects: Vec<Object>, show: fn(ServerTime) -> String) -> Vec<(Vec<u8>, Object)> {
    let mut named: Vec<(Vec<u8>, Object)> = Vec::with_capacity(objects.len());
    for object in objects.into_iter().rev() {
        let shown = show(object.inserted);
        let is_taken = named.iter().any(|(name, _)| name == shown.as_bytes());
        let name = match is_taken {
            true => format!("{shown}.{:06}", micros_of_second(object.inserted)),
            false => shown,
        };
        named.push((name.into_bytes(), object));
    }
    named
}

/// Returns true if a node shows what is in a stored directory.
fn is_stored_directory(node: &Node) -> bool {
    node.object().is_some_and(|object| object.stat.kind == Kind::Directory)
}

fn view_root(view: View) -> Node {
    Node::Directory { view, path: Arc::default(), object: None }
}

fn top() -> Vec<TreeEntry> {
    let entry = |name: &[u8], node| TreeEntry { name: name.to_vec(), node };
    vec![
        entry(b"at", Node::Times),
        entry(b"images", Node::Images { name: None }),
        entry(b"latest", view_root(View::Latest)),
        entry(b"versions", view_root(View::Versions)),
    ]
}

fn folder(filespace: &[u8], directory: &DirPath) -> Folder {
    Folder { filespace: filespace.to_vec(), directory: directory.clone() }
}

fn entry(view: View, folder: &Arc<Folder>, path: &[u8], object: Arc<Object>) -> TreeEntry {
    let name = object.name.as_bytes().to_vec();
    let node = match object.stat.kind {
        Kind::Directory => {
            let path = [path, b"/", &name].concat().into();
            Node::Directory { view, path, object: Some(object) }
        }
        _ => Node::Object { view, folder: Arc::clone(folder), object },
    };
    TreeEntry { name, node }
}

fn sorted(mut entries: Vec<TreeEntry>) -> Vec<TreeEntry> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|a, b| a.name == b.name);
    entries
}

/// Returns entries in the order in which a program should walk: that of the server's streams, which
/// go by whole paths. There a directory `a` comes after `a-b`, because its paths begin with `a/`.
pub(crate) fn in_walk_order(entries: &Entries) -> Entries {
    let order = |a: &TreeEntry, b: &TreeEntry| path_bytes(a).cmp(path_bytes(b));
    if entries.is_sorted_by(|a, b| order(a, b).is_le()) {
        return Arc::clone(entries);
    }
    let mut ordered = entries.to_vec();
    ordered.sort_by(order);
    Arc::new(ordered)
}

/// Returns the bytes that an entry adds to the paths below its directory.
fn path_bytes(entry: &TreeEntry) -> impl Iterator<Item = u8> {
    let slash = matches!(entry.node, Node::Directory { .. }).then_some(b'/');
    entry.name.iter().copied().chain(slash)
}

fn micros_of_second(time: ServerTime) -> i64 {
    time.0.rem_euclid(1_000_000)
}

/// Returns the names of images by the names of their directories. Images whose directories would
/// have the same name get numbers; the path of a device, which begins with a slash, comes first.
fn file_names(names: BTreeSet<Vec<u8>>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut images = BTreeMap::new();
    let mut others = Vec::new();
    for name in names {
        match images.entry(file_name(&name)) {
            Entry::Vacant(free) => {
                free.insert(name);
            }
            Entry::Occupied(_) => others.push(name),
        }
    }
    for name in others {
        let plain = file_name(&name);
        let numbered = |number: u32| [&plain[..], format!(".{number}").as_bytes()].concat();
        let free = (2..u32::MAX).map(numbered).find(|numbered| !images.contains_key(numbered));
        images.insert(free.expect("there are more numbers than images"), name);
    }
    images
}

/// Returns the name of an image as the name of one file: slashes become underscores.
fn file_name(name: &[u8]) -> Vec<u8> {
    let name = name.strip_prefix(b"/").unwrap_or(name);
    let bytes = name.iter().map(|byte| if *byte == b'/' { b'_' } else { *byte });
    let plain: Vec<u8> = bytes.take(IMAGE_NAME_BYTES_MAX).collect();
    match &plain[..] {
        b"" | b"." | b".." => [&b"_"[..], &plain[..]].concat(),
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::file;

    /// Makes entries, of which those whose names end with a slash are directories, and returns
    /// their names in the order of a walk.
    fn walked(names: &[&str]) -> Vec<String> {
        let entry = |name: &&str| match name.strip_suffix('/') {
            Some(name) => TreeEntry { name: name.into(), node: view_root(View::Latest) },
            None => TreeEntry { name: (*name).into(), node: Node::Times },
        };
        let entries: Entries = Arc::new(names.iter().map(entry).collect());
        let ordered = in_walk_order(&entries);
        ordered
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .collect()
    }

    #[test]
    fn a_listing_has_the_order_of_paths() {
        assert_eq!(
            walked(&["lib/", "lib-b/", "lib.c/", "lib2/"]),
            ["lib-b", "lib.c", "lib", "lib2"]
        );
        assert_eq!(walked(&["a", "a-b", "a.c/"]), ["a", "a-b", "a.c"]);
        assert_eq!(walked(&[]), [""; 0]);
        let entries = Arc::new(top());
        assert!(Arc::ptr_eq(&in_walk_order(&entries), &entries), "nothing is copied");
    }

    #[test]
    fn a_later_version_of_a_second_takes_no_name_away() {
        let names = |micros: &[i64]| -> Vec<(String, i64)> {
            let version = |time: &i64| Object { inserted: ServerTime(*time), ..file("a", 1) };
            let objects = micros.iter().map(version).collect();
            named_by_time(objects, |time| format!("second {}", time.0 / 1_000_000))
                .into_iter()
                .map(|(name, object)| (String::from_utf8(name).expect("text"), object.inserted.0))
                .collect()
        };
        let oldest = ("second 3".to_owned(), 3_000_007);
        let later = ("second 3.000009".to_owned(), 3_000_009);
        let last = ("second 4".to_owned(), 4_000_000);
        assert_eq!(names(&[3_000_007]), std::slice::from_ref(&oldest));
        assert_eq!(names(&[4_000_000, 3_000_009, 3_000_007]), [oldest, later, last]);
    }

    #[track_caller]
    fn check(names: &[&str], expected: &[(&str, &str)]) {
        let found = file_names(names.iter().map(|name| name.as_bytes().to_vec()).collect());
        let bytes = |(a, b): &(&str, &str)| (a.as_bytes().to_vec(), b.as_bytes().to_vec());
        let expected: BTreeMap<Vec<u8>, Vec<u8>> = expected.iter().map(bytes).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_image_has_a_directory_of_its_own() {
        check(&["/dev/sda", "web"], &[("dev_sda", "/dev/sda"), ("web", "web")]);
        check(
            &["dev_sda", "dev/sda", "dev_sda.2", "/dev/sda"],
            &[
                ("dev_sda", "/dev/sda"),
                ("dev_sda.2", "dev_sda.2"),
                ("dev_sda.3", "dev/sda"),
                ("dev_sda.4", "dev_sda"),
            ],
        );
        check(&["/", ".", ".."], &[("_", "/"), ("_.", "."), ("_..", "..")]);
        let long = "x".repeat(1000);
        check(&[long.as_str()], &[(&long[..IMAGE_NAME_BYTES_MAX], long.as_str())]);
    }
}
