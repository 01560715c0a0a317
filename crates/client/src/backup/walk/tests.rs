//! Tests that walk real trees.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crossbeam_channel::unbounded;
use policy::Operation;
use policy::statement::{CACHE_TAG, CACHE_TAG_SIGNATURE};
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::inventory::tests::of_pages;
use super::*;
use crate::progress::Progress;
use crate::report::BackupReport;
use crate::rules::tests::rules;
use crate::virtual_filespaces::tests::virtual_filespaces;

/// Pages of directories, with their digests.
type Pages = Vec<(DirPath, PageKey)>;

/// Result of a walk.
struct WalkResult {
    /// Segments without a page at the server.
    unknown: Vec<Segment>,
    changed: Vec<Segment>,
    kept: u64,
    report: BackupReport,
}

impl WalkResult {
    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.unknown.iter().chain(&self.changed)
    }

    /// Returns the paths of the objects. Fails if an object came twice.
    #[track_caller]
    fn paths(&self) -> BTreeSet<Vec<u8>> {
        let of = |segment: &Segment| -> Vec<Vec<u8>> {
            segment.entries.iter().map(|(name, _)| segment.path.join(name)).collect()
        };
        let all: Vec<_> = self.segments().flat_map(of).collect();
        let paths: BTreeSet<_> = all.iter().cloned().collect();
        assert_eq!(all.len(), paths.len(), "an object came twice");
        paths
    }

    /// Returns the pages that a server has after it received all segments.
    fn pages(&self) -> Pages {
        let page = |segment: &Segment| {
            let stats = segment.entries.iter().map(|(name, f)| (name.as_bytes(), &f.stat));
            let digest = digester().digest(&segment.path, stats, &mut Vec::new());
            let key = PageKey { first: segment.first.clone(), digest: Some(digest) };
            (segment.path.clone(), key)
        };
        self.segments().map(page).collect()
    }
}

fn digester() -> Digester {
    Digester::new(&[7; 32], b"rules")
}

struct Scene {
    folder: TempDir,
    list: &'static str,
    /// Virtual filespaces.
    own: &'static [&'static str],
    expires: bool,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, list: "", own: &[], expires: true }
    }

    /// Makes a file, and the folders above it.
    fn write(&self, name: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, name).expect("written");
    }

    fn walk(&self, known: &Pages) -> WalkResult {
        self.walk_from(known, &[None])
    }

    /// Walks from each of `starts`, which is a name in the folder, or `None` for the folder itself.
    fn walk_from(&self, known: &Pages, starts: &[Option<&str>]) -> WalkResult {
        let root = Arc::new(Dir::open(self.folder.path().as_os_str().as_bytes()).expect("opened"));
        let device_id = root.stat_self().expect("stat").device_id;
        let task = |start: &Option<&str>| {
            let name = start.map(|name| Name::new(name.as_bytes()).expect("a name"));
            let path = name.as_ref().map_or_else(DirPath::root, |n| DirPath::root().child(n));
            Task { parent: Arc::clone(&root), name, path, device_id, aim: None, is_listed: true }
        };
        let (queue, crew, inventory) = (Queue::default(), Crew::new(1, 1), of_pages(known));
        let tally = Tally::new(Arc::new(Progress::default()));
        let (mut rules, answers) = (rules(self.list, Operation::Backup), Answers::default());
        rules.virtual_filespaces = virtual_filespaces(self.own);
        queue.push(&mut starts.iter().map(task).collect());
        let walk = Walk {
            filespace: b"/fs",
            queue: &queue,
            crew: &crew,
            rules: &rules,
            digester: &digester(),
            inventory: &inventory,
            tally: &tally,
            answers: &answers,
            ignores_digests: false,
            expires: self.expires,
            crosses_filesystems: false,
            notes: None,
        };
        let (unknown_sender, unknown) = unbounded();
        let (changed_sender, changed) = unbounded();
        let outlets = Outlets { unknown: unknown_sender, changed: changed_sender };
        walk.run(&outlets, || panic!("a crew of one recruits nobody"));
        let (unknown, changed) = (unknown.try_iter().collect(), changed.try_iter().collect());
        WalkResult { unknown, changed, kept: tally.kept.load(Relaxed), report: tally.report() }
    }
}

/// Lists a tree with the standard library.
fn tree(folder: &Path, prefix: &[u8], into: &mut BTreeSet<Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("listed") {
        let entry = entry.expect("an entry");
        let path = [prefix, b"/", entry.file_name().as_bytes()].concat();
        if entry.file_type().expect("a type").is_dir() {
            tree(&entry.path(), &path, into);
        }
        into.insert(path);
    }
}

#[test]
fn a_directory_with_its_digest_is_not_looked_at() {
    let scene = Scene::new();
    ["a/one", "a/two", "b/c/three", "four"]
        .iter()
        .for_each(|name| scene.write(name));
    let first = scene.walk(&Vec::new());
    assert_eq!((first.paths().len(), first.changed.len(), first.kept), (7, 0, 0));
    let known = first.pages();
    let again = scene.walk(&known);
    assert_eq!((again.segments().count(), again.kept), (0, 7));
    assert_eq!(again.report.inspected, 7);
    // A file with a new size changes only the digest of its directory.
    fs::write(scene.folder.path().join("b/c/three"), b"changed").expect("written");
    let changed = scene.walk(&known);
    let paths: Vec<_> = changed.changed.iter().map(|segment| segment.path.as_bytes()).collect();
    assert_eq!((paths, changed.unknown.len(), changed.kept), (vec![&b"/b/c/"[..]], 0, 6));
    // A page without a digest is examined. So is a page with the digest of another directory.
    let mut known = known;
    known[0].1.digest = None;
    known[1].1.digest = known[2].1.digest;
    let paths = [&known[0].0, &known[1].0].map(Clone::clone);
    let changed = scene.walk(&known).changed;
    assert!(paths.iter().all(|path| changed.iter().any(|segment| segment.path == *path)));
}

#[test]
fn a_directory_that_vanishes_fails_and_says_nothing_about_its_objects() {
    let scene = Scene::new();
    scene.write("a/one");
    scene.write("file");
    let walked = scene.walk_from(&Vec::new(), &[Some("gone"), Some("a"), Some("file")]);
    assert_eq!(walked.paths(), BTreeSet::from([b"/a/one".to_vec()]));
    let mut failed: Vec<_> = walked.report.failures.iter().map(|f| &f.path[..]).collect();
    failed.sort_unstable();
    assert_eq!(failed, [&b"/fs/file"[..], b"/fs/gone"]);
}

#[test]
fn a_directory_that_becomes_a_link_is_not_followed() {
    let scene = Scene::new();
    scene.write("a/one");
    std::os::unix::fs::symlink("a", scene.folder.path().join("link")).expect("made");
    let walked = scene.walk_from(&Vec::new(), &[Some("link")]);
    assert_eq!((walked.segments().count(), walked.report.failed), (0, 1));
    // The link itself is an object of the backup.
    assert!(scene.walk(&Vec::new()).paths().contains(&b"/link"[..]));
}

#[test]
fn rules_decide_what_is_walked() {
    for (list, expected) in [
        ("exclude.dir /fs/a", &["/b", "/b/one", "/cache", "/cache/tag", "/file"][..]),
        ("exclude.content /fs/a", &["/a", "/b", "/b/one", "/cache", "/cache/tag", "/file"]),
        ("exclude /fs/.../one", &["/a", "/b", "/cache", "/cache/tag", "/file"]),
        ("exclude.tag file", &["/file"]),
        ("exclude.tag one", &["/a", "/a/one", "/b", "/b/one", "/cache", "/cache/tag", "/file"]),
    ] {
        let scene = Scene { list, ..Scene::new() };
        ["a/one", "b/one", "cache/tag", "file"]
            .iter()
            .for_each(|name| scene.write(name));
        let expected = expected.iter().map(|path| path.as_bytes().to_vec()).collect();
        assert_eq!(scene.walk(&Vec::new()).paths(), expected, "{list}");
    }
}

#[test]
fn a_virtual_filespace_is_an_empty_directory_of_the_filespace_around_it() {
    let mut scene = Scene::new();
    ["a/one", "a/own/two", "a/own/below/three", "b"]
        .iter()
        .for_each(|name| scene.write(name));
    let known = scene.walk(&Vec::new()).pages();
    scene.own = &["/fs/a/own", "/fs"];
    let plain = ["/a", "/a/one", "/a/own", "/b"];
    let plain: BTreeSet<_> = plain.iter().map(|path| path.as_bytes().to_vec()).collect();
    assert_eq!(scene.walk(&Vec::new()).paths(), plain, "its own root is walked");
    // Its former content is gone from here: the objects directly in it, with all that is below.
    let walked = scene.walk(&known);
    let [changed] = &walked.changed[..] else { panic!("one directory") };
    assert_eq!((changed.path.as_bytes(), changed.entries.len()), (&b"/a/own/"[..], 0));
    assert!(changed.is_whole && changed.unreadable.is_empty());
    assert_eq!((walked.unknown.len(), walked.report.failed), (0, 0));
}

#[test]
fn a_tagged_directory_keeps_itself_and_the_tag() {
    let tag = std::str::from_utf8(CACHE_TAG).expect("text");
    for (content, expected) in [(CACHE_TAG_SIGNATURE, 2), (b"no signature", 4)] {
        let list = "exclude.tag CACHEDIR.TAG";
        let scene = Scene { list, ..Scene::new() };
        scene.write("cache/below/file");
        fs::write(scene.folder.path().join("cache").join(tag), content).expect("written");
        assert_eq!(scene.walk(&Vec::new()).paths().len(), expected);
    }
}

#[test]
fn sockets_are_counted_and_left_out() {
    let scene = Scene::new();
    scene.write("file");
    let _listener = UnixListener::bind(scene.folder.path().join("socket")).expect("a socket");
    let walked = scene.walk(&Vec::new());
    assert_eq!(walked.paths(), BTreeSet::from([b"/file".to_vec()]));
    assert_eq!((walked.report.sockets_skipped, walked.report.failed), (1, 0));
}

#[test]
fn of_a_large_directory_only_the_changed_page_is_looked_at() {
    let scene = Scene::new();
    (0..1100).for_each(|number| scene.write(&format!("n{number:04}")));
    let first = scene.walk(&Vec::new());
    let counts: Vec<_> = first.unknown.iter().map(|segment| segment.entries.len()).collect();
    assert_eq!(counts, [76, 512, 512], "from the last page to the first");
    let known = first.pages();
    fs::write(scene.folder.path().join("n0600"), b"changed").expect("written");
    let walked = scene.walk(&known);
    let [changed] = &walked.changed[..] else { panic!("one page") };
    assert_eq!((&changed.first[..], changed.entries.len()), (&b"n0512"[..], 512));
    assert_eq!(walked.kept, 588);
    // A name after all pages belongs to the last page, a name before them to the first page.
    scene.write("a");
    scene.write("z");
    let firsts: Vec<_> = scene.walk(&known).changed.into_iter().map(|s| s.first).collect();
    assert_eq!(firsts, [b"n1024".to_vec(), b"n0512".to_vec(), Vec::new()]);
}

#[test]
fn only_a_progressive_walk_expires() {
    for expires in [true, false] {
        let scene = Scene { expires, ..Scene::new() };
        scene.write("file");
        assert!(scene.walk(&Vec::new()).unknown.iter().all(|s| s.is_whole == expires));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_object_of_a_tree_comes_once(
        files in prop::collection::btree_map("([a-c]{1,2}/){0,3}[x-z]{1,2}", any::<bool>(), 0..30),
    ) {
        let scene = Scene::new();
        files.keys().for_each(|name| scene.write(name));
        let mut expected = BTreeSet::new();
        tree(scene.folder.path(), b"", &mut expected);
        let walked = scene.walk(&Vec::new());
        prop_assert_eq!(walked.paths(), expected.clone());
        // After a change of some files, only their directories are examined.
        let known = walked.pages();
        let mut directories = BTreeSet::new();
        for (name, _) in files.iter().filter(|(_, changes)| **changes) {
            let content = b"of another size than before";
            fs::write(scene.folder.path().join(name), content).expect("written");
            let end = name.rfind('/').map_or(0, |slash| slash + 1);
            directories.insert(format!("/{}", &name[..end]).into_bytes());
        }
        let again = scene.walk(&known);
        let paths: BTreeSet<_> = again.changed.iter().map(|s| s.path.as_bytes().to_vec()).collect();
        prop_assert_eq!(paths, directories);
        prop_assert_eq!(again.kept + again.paths().len() as u64, expected.len() as u64);
    }
}
