//! Tests that restore into real folders. The entries are those that a server would send.

use std::collections::BTreeSet;
use std::fs::{self, File as FsFile};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::{Attributes, ChunkRange, ClassId, PackNumber, ServerTime, Stat, Timestamp, Xattr};
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::layout::Layout;
use super::*;
use crate::options::{Origin, VersionChoice};
use crate::path::{Place, split};
use crate::progress::Progress;
use crate::report::RestoreReport;

const CONTENT: &[u8] = b"as it was stored";
const OUTSIDE: &[u8] = b"not of this restore";
const REPLACES: [ReplaceRule; 3] = [ReplaceRule::No, ReplaceRule::IfNewer, ReplaceRule::All];

/// Time of every stored object. It is older than every file that a test makes.
const STORED: Timestamp = Timestamp { secs: 1_000_000_000, nanos: 123_456_789 };

/// Target of a restore, beside a folder that no restore may touch.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("target")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/file"), OUTSIDE).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("target").join(name)
    }

    fn names(&self, folder: &str) -> BTreeSet<Vec<u8>> {
        let entries = fs::read_dir(self.folder.path().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_vec()).collect()
    }

    #[track_caller]
    fn assert_outside_is_untouched(&self) {
        assert_eq!(self.names("outside"), BTreeSet::from([b"file".to_vec()]));
        let file = self.folder.path().join("outside/file");
        assert_eq!(fs::read(&file).unwrap(), OUTSIDE);
        assert_eq!(file.metadata().unwrap().nlink(), 1);
        assert!(file.metadata().unwrap().mtime() > STORED.secs);
    }

    fn options(&self, replace: ReplaceRule) -> RestoreOptions {
        RestoreOptions {
            paths: Vec::new(),
            to: Some(self.path("").as_os_str().as_bytes().to_vec()),
            which: VersionChoice::default(),
            replace,
            origin: Origin::Backups,
            part: RestorePart::Whole,
        }
    }

    /// Restores `versions` as one window.
    fn restore(&self, replace: ReplaceRule, versions: &[Version]) -> RestoreReport {
        self.restore_while(&self.options(replace), versions, || ())
    }

    /// Restores `versions`. Calls `between` after the entries and before the data.
    fn restore_while(
        &self,
        options: &RestoreOptions,
        versions: &[Version],
        between: impl FnOnce(),
    ) -> RestoreReport {
        let tally = Tally::new(Arc::new(Progress::default()));
        let filespace = b"/".to_vec();
        let place = Place { filespace, directory: DirPath::above_root(), name: None };
        let base = Layout::new(options.to.as_deref(), &[], &[]).base(b"/", &place);
        let mut maker = Maker::new(Start::of(&place, &base), options, &tally, None).unwrap();
        let taken: Vec<_> = versions
            .iter()
            .map(|version| (version, maker.take(version.entry.clone())))
            .collect();
        between();
        for (version, file) in taken {
            let Some(file) = file else { continue };
            let written = version.parts.iter().try_for_each(|part| match part {
                Some((offset, bytes)) => maker.write(&file, bytes, *offset),
                None => Err(io::Error::other("the content differs from its digest")),
            });
            match written {
                Ok(()) => maker.complete(&file),
                Err(error) => maker.lose(&file, &error.to_string()),
            }
        }
        maker.finish();
        tally.into_report()
    }
}

/// Stored version, with its data by offset. `None` stands for damaged data.
#[derive(Clone)]
struct Version {
    entry: Entry,
    parts: Vec<Option<(u64, Vec<u8>)>>,
}

impl Version {
    fn new(path: &[u8], kind: Kind, size: u64, payload: Payload, lengths: Vec<u32>) -> Self {
        let (directory, name) = split(path).unwrap();
        let (uid, gid) = sys::process::effective_ids();
        let mode = if kind == Kind::Directory { 0o750 } else { 0o640 };
        let (linked, device, inode) = (false, 0, 77);
        let (mtime, ctime) = (STORED, STORED);
        let stat = Stat { kind, mode, uid, gid, size, mtime, ctime, inode, linked, device };
        let (attributes, class, inserted) = (Arc::default(), ClassId(1), ServerTime(1));
        let object = Object { name, stat, attributes, class, inserted, payload };
        let directory = Arc::new(directory);
        let entry = Entry { directory, object, deactivated: None, chunk_lengths: lengths };
        Self { entry, parts: Vec::new() }
    }

    /// Makes a file of `pieces`: data, and holes, which are `None`.
    fn pieces(path: &[u8], pieces: &[(Option<u8>, u32)]) -> Self {
        let (mut extents, mut lengths, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut offset = 0;
        for &(byte, bytes) in pieces {
            match byte {
                None => extents.push(Extent::Hole { bytes: u64::from(bytes) }),
                Some(byte) => {
                    let number = u32::try_from(lengths.len()).unwrap();
                    let first = model::Place::new(PackNumber(1), number);
                    extents.push(Extent::Chunks(ChunkRange { first, count: 1 }));
                    lengths.push(bytes);
                    parts.push(Some((offset, vec![byte; bytes as usize])));
                }
            }
            offset += u64::from(bytes);
        }
        let payload = if offset > 0 { Payload::Extents(extents) } else { Payload::Nothing };
        let version = Self::new(path, Kind::File, offset, payload, lengths);
        Self { parts, ..version }
    }

    fn file(path: &[u8], content: &[u8]) -> Self {
        let bytes = u32::try_from(content.len()).unwrap();
        let mut version = Self::pieces(path, &[(Some(0), bytes)]);
        version.parts = vec![Some((0, content.to_vec()))];
        version
    }

    fn folder(path: &[u8]) -> Self {
        Self::new(path, Kind::Directory, 4096, Payload::Nothing, Vec::new())
    }

    fn fifo(path: &[u8]) -> Self {
        Self::new(path, Kind::Fifo, 0, Payload::Nothing, Vec::new())
    }

    fn link(path: &[u8], target: &[u8]) -> Self {
        let payload = Payload::Target(target.to_vec());
        Self::new(path, Kind::Symlink, target.len() as u64, payload, Vec::new())
    }

    /// Makes the version one of several names of an inode.
    fn linked(mut self) -> Self {
        self.entry.object.stat.linked = true;
        self
    }

    fn with_mode(mut self, mode: u16) -> Self {
        self.entry.object.stat.mode = mode;
        self
    }

    /// Makes the version's data end in a damaged chunk.
    fn damaged(mut self) -> Self {
        self.parts.push(None);
        self
    }
}

/// Result for one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Restored,
    /// Another object keeps the name.
    Kept,
    Skipped,
    Failed,
}

use Outcome::{Failed, Kept, Restored, Skipped};

impl Outcome {
    #[track_caller]
    fn of(report: &RestoreReport) -> Self {
        match (report.failed, report.kept, report.restored, report.skipped) {
            (1, 0, 0, 0) => Failed,
            (0, 1, 0, 1) => Kept,
            (0, 0, 1, 0) => Restored,
            (0, 0, 0, 1) => Skipped,
            _ => panic!("one object has one result: {report:?}"),
        }
    }
}

/// Object that has the name of the stored object before the restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExistingObject {
    NewerFile,
    OlderFile,
    LinkToFile,
    LinkToFolder,
    EmptyFolder,
    FullFolder,
    Fifo,
    Socket,
}

impl ExistingObject {
    fn make(self, scene: &Scene) {
        let path = scene.path("name");
        match self {
            Self::NewerFile => fs::write(path, b"mine").unwrap(),
            Self::OlderFile => {
                fs::write(&path, b"mine").unwrap();
                let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
                FsFile::options().write(true).open(path).unwrap().set_modified(old).unwrap();
            }
            Self::LinkToFile => symlink("../outside/file", path).unwrap(),
            Self::LinkToFolder => symlink("../outside", path).unwrap(),
            Self::EmptyFolder => fs::create_dir(path).unwrap(),
            Self::FullFolder => {
                fs::create_dir(&path).unwrap();
                fs::write(path.join("mine"), b"mine").unwrap();
            }
            Self::Fifo => {
                let target = Dir::open(scene.path("").as_os_str().as_bytes()).unwrap();
                target.make_node(b"name", Kind::Fifo, 0).unwrap();
            }
            Self::Socket => drop(UnixListener::bind(path).unwrap()),
        }
    }
}

/// Restores `stored` to a name that `before` has, with each of [`REPLACES`].
#[track_caller]
fn check(stored: &Version, before: ExistingObject, expected: [Outcome; 3]) {
    for (replace, expected) in REPLACES.into_iter().zip(expected) {
        let scene = Scene::new();
        before.make(&scene);
        let found = scene.path("name").symlink_metadata().unwrap();
        let report = scene.restore(replace, std::slice::from_ref(stored));
        assert_eq!(Outcome::of(&report), expected, "{before:?} {replace:?} {:?}", report.failures);
        let left = scene.path("name").symlink_metadata().unwrap();
        let kind = stored.entry.object.stat.kind;
        if expected == Restored {
            assert_eq!((left.mtime(), left.mtime_nsec()), (STORED.secs, STORED.nanos.into()));
            assert_eq!(left.is_dir(), kind == Kind::Directory);
            assert_eq!(left.is_symlink(), kind == Kind::Symlink);
            assert_eq!(left.is_file(), kind == Kind::File);
        } else {
            assert_eq!((left.ino(), left.mtime()), (found.ino(), found.mtime()));
            assert_eq!((left.mode(), left.len()), (found.mode(), found.len()));
        }
        if before == ExistingObject::FullFolder {
            assert_eq!(fs::read(scene.path("name/mine")).unwrap(), b"mine");
        }
        if kind == Kind::File && expected == Restored {
            assert_eq!(fs::read(scene.path("name")).unwrap(), CONTENT);
        }
        assert_eq!(scene.names("target").len(), 1, "nothing else is left in the target");
        scene.assert_outside_is_untouched();
    }
}

#[test]
fn an_object_in_the_way_gives_way_only_as_the_option_says() {
    let objects =
        [Version::file(b"/name", CONTENT), Version::link(b"/name", b"x"), Version::fifo(b"/name")];
    for stored in objects {
        check(&stored, ExistingObject::NewerFile, [Kept, Kept, Restored]);
        check(&stored, ExistingObject::OlderFile, [Kept, Restored, Restored]);
        check(&stored, ExistingObject::LinkToFile, [Kept, Kept, Restored]);
        check(&stored, ExistingObject::LinkToFolder, [Kept, Kept, Restored]);
        check(&stored, ExistingObject::EmptyFolder, [Kept, Kept, Restored]);
        check(&stored, ExistingObject::FullFolder, [Kept, Kept, Failed]);
        check(&stored, ExistingObject::Socket, [Kept, Kept, Restored]);
    }
    check(&Version::file(b"/name", CONTENT), ExistingObject::Fifo, [Kept, Kept, Restored]);
    check(&Version::file(b"/name", b""), ExistingObject::FullFolder, [Kept, Kept, Failed]);
}

#[test]
fn a_folder_takes_the_place_of_another_object_only_if_all_is_replaced() {
    let stored = Version::folder(b"/name");
    check(&stored, ExistingObject::NewerFile, [Failed, Failed, Restored]);
    check(&stored, ExistingObject::LinkToFolder, [Failed, Failed, Restored]);
    check(&stored, ExistingObject::Fifo, [Failed, Failed, Restored]);
    check(&stored, ExistingObject::Socket, [Failed, Failed, Restored]);
    // An existing folder is used, and does not count as another object.
    check(&stored, ExistingObject::FullFolder, [Skipped, Skipped, Restored]);
}

#[test]
fn no_symbolic_link_below_the_target_is_followed() {
    let file = Version::file(b"/d/f", CONTENT);
    let whole = [Version::folder(b"/d"), file.clone(), Version::folder(b"/d/e")];
    for replace in REPLACES {
        // The folder is in the selection, or was not stored itself.
        for versions in [&whole[..], std::slice::from_ref(&file)] {
            let scene = Scene::new();
            symlink("../outside", scene.path("d")).unwrap();
            let report = scene.restore(replace, versions);
            scene.assert_outside_is_untouched();
            let is_replaced = replace == ReplaceRule::All && versions.len() > 1;
            assert_eq!(report.failed == 0, is_replaced, "{:?}", report.failures);
            assert_eq!(scene.path("d").is_symlink(), !is_replaced);
            assert_eq!(fs::read(scene.path("d/f")).is_ok(), is_replaced);
        }
    }
}

#[test]
fn a_folder_that_becomes_a_link_meanwhile_leads_nowhere() {
    let scene = Scene::new();
    let versions = [
        Version::folder(b"/d"),
        Version::folder(b"/e"),
        Version::file(b"/d/f", CONTENT),
        Version::file(b"/d/one", CONTENT).linked(),
        Version::file(b"/e/two", CONTENT).linked(),
    ];
    let report = scene.restore_while(&scene.options(ReplaceRule::All), &versions, || {
        fs::rename(scene.path("d"), scene.path("moved")).unwrap();
        symlink("../outside", scene.path("d")).unwrap();
    });
    scene.assert_outside_is_untouched();
    // The files are made in the moved folder. The hard link fails, because it opens the folder by
    // name.
    assert_eq!(fs::read(scene.path("moved/f")).unwrap(), CONTENT);
    let failed: Vec<_> = report.failures.iter().map(|failure| &failure.path[..]).collect();
    assert_eq!(failed, [b"/e/two"]);
}

#[test]
fn a_file_that_is_lost_leaves_what_was_there() {
    for (is_there, replace) in [(false, ReplaceRule::No), (true, ReplaceRule::All)] {
        let scene = Scene::new();
        if is_there {
            fs::write(scene.path("f"), b"mine").unwrap();
        }
        let report = scene.restore(replace, &[Version::file(b"/f", CONTENT).damaged()]);
        assert_eq!((report.failed, report.restored), (1, 0));
        assert_eq!(report.failures[0].error, "the content differs from its digest");
        assert_eq!(fs::read(scene.path("f")).ok(), is_there.then(|| b"mine".to_vec()));
        assert_eq!(
            scene.names("target").len(),
            usize::from(is_there),
            "no part of the file is left"
        );
    }
}

#[test]
fn a_file_whose_data_the_server_has_lost_fails_by_its_path() {
    let scene = Scene::new();
    let mut lost = Version::file(b"/f", CONTENT);
    lost.entry.chunk_lengths = vec![0];
    let mut short = Version::file(b"/g", CONTENT);
    short.entry.object.stat.size += 1;
    let report = scene.restore(ReplaceRule::All, &[lost, short]);
    let failed: Vec<_> = report.failures.iter().map(|failure| &failure.path[..]).collect();
    assert_eq!(failed, [b"/f", b"/g"]);
    assert!(scene.names("target").is_empty());
}

#[test]
fn folders_get_their_attributes_after_their_content() {
    let scene = Scene::new();
    let versions = [
        Version::folder(b"/a").with_mode(0o555),
        Version::folder(b"/b").with_mode(0o500),
        Version::folder(b"/a/c").with_mode(0o1777),
        Version::file(b"/a/c/f", CONTENT).with_mode(0o4711),
        Version::link(b"/a/c/l", b"\xff\xfe nowhere"),
    ];
    let report = scene.restore(ReplaceRule::No, &versions);
    assert_eq!((report.restored, report.failed), (5, 0), "{:?}", report.failures);
    let state = |name: &str| {
        let found = scene.path(name).symlink_metadata().unwrap();
        assert_eq!((found.mtime(), found.mtime_nsec()), (STORED.secs, STORED.nanos.into()));
        (found.permissions().mode() & 0o7777, found.ctime(), found.ctime_nsec())
    };
    let names = ["a", "b", "a/c", "a/c/f", "a/c/l"];
    let first: Vec<_> = names.map(state).to_vec();
    let modes: Vec<u32> = first[..4].iter().map(|(mode, ..)| *mode).collect();
    assert_eq!(modes, [0o555, 0o500, 0o1777, 0o4711]);
    // A second restore finds everything right, and changes nothing.
    for replace in REPLACES {
        let report = scene.restore(replace, &versions);
        assert_eq!((report.restored, report.skipped, report.kept), (0, 5, 0));
        assert_eq!(names.map(state).to_vec(), first);
    }
}

#[test]
fn extended_attributes_are_set_or_missed_aloud() {
    let scene = Scene::new();
    // The ACL: owner and group may read and write, the user 12 may read, others have no rights.
    let entries = [(1, 6, u32::MAX), (2, 4, 12), (4, 6, u32::MAX), (16, 6, u32::MAX)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries.into_iter().chain([(32, 0, u32::MAX)]) {
        acl.extend([tag, 0, permissions, 0]);
        acl.extend(u32::to_le_bytes(id));
    }
    let xattr = |name: &[u8], value| Xattr { name: name.to_vec(), value };
    let xattrs =
        vec![xattr(b"system.posix_acl_access", acl), xattr(b"user.note", b"\0\xff".to_vec())];
    let mut version = Version::file(b"/f", CONTENT).with_mode(0o660);
    version.entry.object.attributes = Arc::new(Attributes { xattrs: xattrs.clone(), flags: 0 });
    let report = scene.restore(ReplaceRule::No, &[version]);
    let target = Dir::open(scene.path("").as_os_str().as_bytes()).unwrap();
    let mut found = target.attributes(b"f", Kind::File).unwrap().xattrs;
    found.retain(|found| xattrs.contains(found));
    // Not every file system supports all these attributes.
    assert_eq!(report.failed, u64::from(found != xattrs), "{:?}", report.failures);
    assert_eq!(fs::read(scene.path("f")).unwrap(), CONTENT);
}

#[test]
fn names_of_an_inode_are_linked() {
    let scene = Scene::new();
    let file = |path: &[u8]| Version::file(path, CONTENT).linked();
    let versions = [file(b"/a"), file(b"/b"), Version::folder(b"/d"), file(b"/d/c")];
    let report = scene.restore(ReplaceRule::No, &versions);
    assert_eq!((report.restored, report.failed), (4, 0), "{:?}", report.failures);
    let inodes = ["a", "b", "d/c"].map(|name| scene.path(name).metadata().unwrap().ino());
    assert!(inodes.iter().all(|inode| *inode == inodes[0]), "{inodes:?}");
    assert_eq!(fs::read(scene.path("d/c")).unwrap(), CONTENT);
    let report = scene.restore(ReplaceRule::All, &versions);
    assert_eq!((report.restored, report.skipped, report.kept), (0, 4, 0));
}

/// Regression: if another object kept a name of an inode, further names became links to that object
/// and counted as restored.
#[test]
fn no_name_is_linked_to_an_object_that_was_kept() {
    for replace in [ReplaceRule::No, ReplaceRule::IfNewer] {
        let scene = Scene::new();
        fs::write(scene.path("a"), b"mine").unwrap();
        let file = |path: &[u8]| Version::file(path, CONTENT).linked();
        let report = scene.restore(replace, &[file(b"/a"), file(b"/b"), file(b"/c")]);
        assert_eq!((report.restored, report.kept, report.failed), (2, 1, 0));
        assert_eq!(fs::read(scene.path("a")).unwrap(), b"mine");
        assert_eq!(fs::read(scene.path("b")).unwrap(), CONTENT);
        let inode = |name| scene.path(name).metadata().unwrap().ino();
        assert_eq!(inode("b"), inode("c"));
    }
}

/// Regression: a restore with `--replace if-newer` removed a newer file that had a further name of
/// a stored inode. Without replacement, the restore did not report that it kept the file.
#[test]
fn further_names_give_way_only_as_the_option_says() {
    let expected = [Kept, Kept, Restored, Kept, Restored, Restored];
    let mut expected = expected.into_iter();
    for before in [ExistingObject::NewerFile, ExistingObject::OlderFile] {
        for replace in REPLACES {
            let scene = Scene::new();
            before.make(&scene);
            let file = |path: &[u8]| Version::file(path, CONTENT).linked();
            let report = scene.restore(replace, &[file(b"/first"), file(b"/name")]);
            let is_kept = expected.next() == Some(Kept);
            assert_eq!((report.kept, report.failed), (u64::from(is_kept), 0), "{before:?}");
            let content = fs::read(scene.path("name")).unwrap();
            assert_eq!(
                content,
                if is_kept { &b"mine"[..] } else { CONTENT },
                "{before:?} {replace:?}"
            );
            assert_eq!(fs::read(scene.path("first")).unwrap(), CONTENT);
        }
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn a_copy_is_as_good_as_a_link() {
    let scene = Scene::new();
    let copies = [Version::file(b"/a", CONTENT), Version::file(b"/b", CONTENT)];
    scene.restore(ReplaceRule::No, &copies);
    let report = scene.restore(ReplaceRule::No, &copies.map(Version::linked));
    assert_eq!((report.skipped, report.kept, report.failed), (2, 0, 0));
}

#[test]
fn names_fail_with_the_file_that_they_are_links_of() {
    let scene = Scene::new();
    let file = |path: &[u8]| Version::file(path, CONTENT).linked();
    let report = scene.restore(ReplaceRule::No, &[file(b"/a").damaged(), file(b"/b"), file(b"/c")]);
    assert_eq!((report.restored, report.failed), (0, 3));
    assert!(scene.names("target").is_empty());
}

#[test]
fn large_files_are_left_to_space_management() {
    let scene = Scene::new();
    let part = RestorePart::WithoutFilesFrom(10);
    let options = RestoreOptions { part, ..scene.options(ReplaceRule::No) };
    let versions = [Version::file(b"/large", CONTENT), Version::file(b"/small", b"tiny")];
    let report = scene.restore_while(&options, &versions, || ());
    assert_eq!((report.restored, report.failed), (1, 0));
    assert_eq!(scene.names("target"), BTreeSet::from([b"small".to_vec()]));
}

#[test]
fn directories_come_back_without_what_is_in_them() {
    let scene = Scene::new();
    let options =
        RestoreOptions { part: RestorePart::Directories, ..scene.options(ReplaceRule::No) };
    let versions = [
        Version::folder(b"/a"),
        Version::file(b"/a/file", CONTENT),
        Version::folder(b"/a/below"),
        Version::file(b"/absent/file", CONTENT),
        // The data of this file is lost, which does not matter here.
        Version::file(b"/lost", CONTENT).damaged(),
    ];
    let report = scene.restore_while(&options, &versions, || ());
    assert_eq!((report.restored, report.failed), (2, 0));
    assert_eq!(scene.names("target"), BTreeSet::from([b"a".to_vec()]));
    assert_eq!(scene.names("target/a"), BTreeSet::from([b"below".to_vec()]));
}

#[test]
fn parents_come_with_the_first_object_and_do_not_count() {
    let scene = Scene::new();
    let options = scene.options(ReplaceRule::No);
    let mode = |name: &str| scene.path(name).metadata().unwrap().permissions().mode() & 0o7777;
    for versions in [vec![], vec![Version::fifo(b"/p/q/f")], vec![Version::fifo(b"/p/g")]] {
        let tally = Tally::new(Arc::new(Progress::default()));
        let filespace = b"/".to_vec();
        let place = Place { filespace, directory: DirPath::above_root(), name: None };
        let base = Layout::new(options.to.as_deref(), &[], &[]).base(b"/", &place);
        let Object { stat, attributes, .. } = Version::folder(b"/p").with_mode(0o710).entry.object;
        let state = DirState { stat, attributes, is_parent: true };
        let parents = vec![(DirPath::new(b"/p/").unwrap(), state)];
        let start = Start { parents, ..Start::of(&place, &base) };
        let mut maker = Maker::new(start, &options, &tally, None).unwrap();
        let objects = versions.len();
        for version in versions {
            assert!(maker.take(version.entry).is_none(), "it has no data");
        }
        maker.finish();
        let report = tally.into_report();
        assert_eq!((report.restored, report.skipped), (objects as u64, 0));
        assert_eq!(scene.names("target").len(), objects, "without an object nothing is made");
        if objects > 0 {
            // The directory between the parent and the object is not stored. The parent gets its
            // attributes at the end of the restore.
            assert_eq!((mode("p"), mode("p/q")), (0o1700, 0o700));
            let dir = Dir::open(scene.path("p").as_os_str().as_bytes()).unwrap();
            assert!(dir.is_unfinished());
        }
    }
}

#[test]
fn the_target_is_made_or_refused_by_name() {
    let scene = Scene::new();
    let to = |name: &str| Some(scene.path(name).as_os_str().as_bytes().to_vec());
    let file = [Version::file(b"/f", CONTENT)];
    let options = RestoreOptions { to: to("new/below"), ..scene.options(ReplaceRule::No) };
    scene.restore_while(&options, &file, || ());
    assert_eq!(fs::read(scene.path("new/below/f")).unwrap(), CONTENT);
    let options = RestoreOptions { to: to("new/below/f"), ..options };
    let tally = Tally::new(Arc::new(Progress::default()));
    let filespace = b"/".to_vec();
    let place = Place { filespace, directory: DirPath::above_root(), name: None };
    let base = Layout::new(options.to.as_deref(), &[], &[]).base(b"/", &place);
    let start = Start::of(&place, &base);
    let error = Maker::new(start, &options, &tally, None).err().expect("a file is no target");
    assert!(error.message.contains("new/below/f"), "{}", error.message);
}

fn names() -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
    let byte = any::<u8>().prop_filter("no byte of a name", |byte| !b"\0/".contains(byte));
    let name = prop::collection::vec(byte, 1..=255)
        .prop_filter("no name", |name| ![&b"."[..], b".."].contains(&&name[..]));
    prop::collection::btree_set(name, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn names_of_any_bytes_come_back(names in names()) {
        let scene = Scene::new();
        let path = |name: &Vec<u8>| [b"/", &name[..]].concat();
        let versions: Vec<_> = names.iter().map(|name| Version::file(&path(name), name)).collect();
        let report = scene.restore(ReplaceRule::No, &versions);
        prop_assert_eq!(report.failed, 0);
        prop_assert_eq!(&scene.names("target"), &names);
        for name in &names {
            let file = scene.path("").join(std::ffi::OsStr::from_bytes(name));
            prop_assert_eq!(&fs::read(file).unwrap(), name);
        }
    }

    #[test]
    fn data_comes_in_any_order_and_holes_are_zeros(
        pieces in prop::collection::vec((prop::option::of(1_u8..), 1_u32..20_000), 0..8),
        turn in any::<prop::sample::Index>(),
    ) {
        let scene = Scene::new();
        let mut version = Version::pieces(b"/f", &pieces);
        if !version.parts.is_empty() {
            let middle = turn.index(version.parts.len());
            version.parts.rotate_left(middle);
        }
        let report = scene.restore(ReplaceRule::No, &[version]);
        prop_assert_eq!((report.restored, report.failed), (1, 0));
        let bytes = |&(byte, bytes): &(Option<u8>, u32)| vec![byte.unwrap_or(0); bytes as usize];
        let expected: Vec<u8> = pieces.iter().flat_map(bytes).collect();
        prop_assert!(fs::read(scene.path("f")).unwrap() == expected);
        let holes = pieces.iter().filter(|piece| piece.0.is_none());
        prop_assert_eq!(report.hole_bytes, holes.map(|piece| u64::from(piece.1)).sum::<u64>());
    }
}

#[test]
fn a_directory_that_is_sent_twice_is_made_once() {
    let scene = Scene::new();
    let folder = Version::folder(b"/d");
    let versions = [folder.clone(), Version::file(b"/d/f", CONTENT), folder.clone(), folder];
    let report = scene.restore(ReplaceRule::No, &versions);
    assert_eq!((report.failed, fs::read(scene.path("d/f")).unwrap()), (0, CONTENT.to_vec()));
}

#[test]
fn a_path_with_too_many_levels_costs_only_its_objects() {
    let scene = Scene::new();
    let deep = [&b"/a"[..], &b"/d".repeat(100_000), b"/f"].concat();
    let versions = [Version::file(&deep, CONTENT), Version::file(b"/f", CONTENT)];
    let report = scene.restore(ReplaceRule::No, &versions);
    assert_eq!((report.failed, report.restored), (1, 1), "{:?}", report.failures.len());
    assert_eq!(scene.names("target"), BTreeSet::from([b"f".to_vec()]));
}
