//! Examinations of real folders. No server answers. The examiner asks it only for digests of
//! contents; without an answer, the file is sent again.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::unbounded;
use model::{ChunkRange, DirPath, Extent, PackNumber, Place, ServerTime, SessionPlace};
use policy::Operation;
use sys::{Dir, Listing};
use tempfile::TempDir;

use super::super::answers::Answers;
use super::super::chunks::Chunks;
use super::super::crew::Crew;
use super::super::digest::Digester;
use super::super::names::Notes;
use super::super::press::{Press, Presser};
use super::super::tally::Tally;
use super::*;
use crate::cache::Cache;
use crate::link;
use crate::progress::Progress;
use crate::report::BackupReport;
use crate::rules::tests::{hello, rules};
use crate::tuning::CompressionChoice;

/// Result of an examination.
struct ExaminationResult {
    changes: Vec<PageChange>,
    quanta: usize,
    expiries: Vec<Expiry>,
    report: BackupReport,
}

impl ExaminationResult {
    fn backed_up(&self) -> Vec<Object<SessionPlace>> {
        let pages = self.changes.iter().map(|change| &change.backed_up);
        let pages = pages.filter(|page| !page.is_empty());
        pages.flat_map(|page| format::page::decode(page).expect("a page")).collect()
    }

    fn updated(&self) -> Vec<Object<SessionPlace>> {
        let pages = self.changes.iter().map(|change| &change.updated);
        let pages = pages.filter(|page| !page.is_empty());
        pages.flat_map(|page| format::page::decode(page).expect("a page")).collect()
    }

    fn names(&self) -> Vec<String> {
        let objects = self.backed_up();
        objects
            .iter()
            .map(|object| object.name.as_bytes().escape_ascii().to_string())
            .collect()
    }

    fn expired(&self) -> Vec<&[u8]> {
        let gone = self.expiries.iter().flat_map(|expiry| &expiry.gone);
        gone.map(|object| object.name.as_bytes()).collect()
    }

    /// Returns true if the next backup may skip each page that changed.
    fn has_digests(&self) -> bool {
        let pages = self.changes.iter().flat_map(|change| &change.pages);
        let of_expiries = self.expiries.iter().all(|expiry| expiry.digest.is_some());
        let mut own = pages.map(|page| page.digest.is_some());
        if self.expiries.is_empty() { own.all(|has| has) } else { of_expiries }
    }
}

struct Scene {
    folder: TempDir,
    /// Statements of the node.
    list: &'static str,
    is_dry: bool,
    sends_all: bool,
    continues_from: Option<ServerTime>,
}

impl Scene {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            list: "",
            is_dry: false,
            sends_all: false,
            continues_from: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.path(name), content).expect("written");
    }

    /// Lists the folder, as the walk does.
    fn segment(&self) -> Segment {
        let dir = Dir::open(self.folder.path().as_os_str().as_bytes()).expect("a folder");
        let mut listing = Listing::default();
        dir.list(&mut listing).expect("listed");
        let entry = |entry| (Name::new(listing.name(entry)).expect("a name"), entry.found);
        Segment {
            dir: Arc::new(dir),
            path: DirPath::new(b"/d/").expect("a directory"),
            first: Vec::new(),
            entries: listing.entries().iter().map(entry).collect(),
            unreadable: Vec::new(),
            is_whole: true,
            counts: true,
        }
    }

    fn examine(&self, segment: Segment, old: &[Object]) -> ExaminationResult {
        let link = link::tests::unanswered(hello());
        let cache = Cache::open(Path::new("/nowhere/cache"), 0);
        let chunks = Chunks::with_key(&link.domain_key, &cache, true, None);
        let tally = Tally::new(Arc::new(Progress::default()));
        let (digester, readers) = (digester(), Crew::new(1, 1));
        let rules = rules(self.list, Operation::Backup);
        let context = Context {
            link: &link,
            filespace: b"/",
            chunks: &chunks,
            digester: &digester,
            readers: &readers,
            tally: &tally,
            rules: &rules,
            sends_all: self.sends_all,
            continues_from: self.continues_from,
            keeps_frequency: false,
            is_dry: self.is_dry,
            notes: &Notes::default(),
            comparison: &OnceLock::new(),
        };
        let answers = Answers::default();
        let press = Press::new(CompressionChoice::default(), 1, &answers);
        let (sender, outgoing) = unbounded();
        let presser = Presser::new(&press, sender.clone()).expect("a compressor");
        let assembler = Assembler::new(&chunks, &tally, presser, None);
        let mut examiner = Examiner::new(&context, assembler, sender);
        examiner.examine(segment, old);
        examiner.flush();
        let expiries = std::mem::take(&mut examiner.expiries);
        let (mut changes, mut quanta) = (Vec::new(), 0);
        for message in outgoing.try_iter() {
            match message {
                OutboxMessage::Change(change) => changes.push(change.page),
                OutboxMessage::Quantum(_) => quanta += 1,
            }
        }
        ExaminationResult { changes, quanta, expiries, report: tally.report() }
    }
}

fn digester() -> Digester {
    Digester::new(&[7; 32], b"rules")
}

/// Returns the objects as a server has them after they were backed up.
fn stored(objects: Vec<Object<SessionPlace>>) -> Vec<Object> {
    let stored = |object: Object<SessionPlace>| {
        let Object { name, stat, attributes, class, payload, .. } = object;
        let payload = match payload {
            Payload::Nothing => Payload::Nothing,
            Payload::Target(target) => Payload::Target(target),
            Payload::Extents(_) => {
                let first = Place::new(PackNumber(1), 0);
                Payload::Extents(vec![Extent::Chunks(ChunkRange { first, count: 1 })])
            }
        };
        Object { name, stat, attributes, class, inserted: ServerTime(1), payload }
    };
    objects.into_iter().map(stored).collect()
}

/// Backs up the folder for the first time. Returns the objects that the server then has.
fn first_backup(scene: &Scene) -> Vec<Object> {
    stored(scene.examine(scene.segment(), &[]).backed_up())
}

fn renamed(object: &Object, name: &[u8]) -> Object {
    Object { name: Name::new(name).expect("a name"), ..object.clone() }
}

#[test]
fn a_later_attempt_leaves_out_what_an_earlier_one_has_stored() {
    let mut scene = Scene::new();
    scene.write("file", b"content");
    let old = first_backup(&scene);
    let sent = |scene: &Scene| scene.examine(scene.segment(), &old).report.backed_up;
    assert_eq!(sent(&scene), 0, "nothing has changed");
    scene.sends_all = true;
    assert_eq!(sent(&scene), 1, "the first attempt sends everything");
    scene.continues_from = Some(ServerTime(2));
    assert_eq!(sent(&scene), 1, "the version is older than the backup");
    scene.continues_from = Some(ServerTime(1));
    assert_eq!(sent(&scene), 0, "the version was stored by the backup");
    scene.write("file", b"other content");
    assert_eq!(sent(&scene), 1, "the file has changed since then");
}

#[test]
fn a_new_page_holds_each_object_as_it_is() {
    let scene = Scene::new();
    scene.write("empty", b"");
    scene.write("file", b"content");
    scene.write("same", b"content");
    fs::create_dir(scene.path("folder")).expect("made");
    symlink("a target", scene.path("link")).expect("made");
    let odd = std::ffi::OsStr::from_bytes(b"\xff\n");
    fs::write(scene.folder.path().join(odd), b"odd").expect("written");
    let segment = scene.segment();
    segment.dir.make_node(b"fifo", Kind::Fifo, 0).expect("made");
    let examined = scene.examine(scene.segment(), &[]);
    let names = ["empty", "fifo", "file", "folder", "link", "same", "\\xff\\n"];
    assert_eq!(examined.names(), names);
    assert_eq!((examined.report.backed_up, examined.report.failed), (7, 0));
    let objects = examined.backed_up();
    assert_eq!(objects[0].payload, Payload::Nothing);
    assert_eq!(objects[1].stat.kind, Kind::Fifo);
    assert_eq!(objects[4].payload, Payload::Target(b"a target".to_vec()));
    // The same content is sent once, and both files refer to it.
    assert_eq!(objects[2].payload, objects[5].payload);
    assert_eq!((examined.report.bytes_before_dedup, examined.report.bytes_after_dedup), (17, 10));
    assert_eq!(examined.quanta, 1);
    assert!(examined.report.stages.read.busy > Duration::ZERO, "a file was read");
    // The next walk computes the same digest if nothing changes.
    let stats = objects.iter().map(|object| (object.name.as_bytes(), &object.stat));
    let digest = digester().digest(&segment.path, stats, &mut Vec::new());
    assert_eq!(examined.changes[0].pages[0].digest, Some(digest));
}

#[test]
fn an_unchanged_object_is_not_sent_again() {
    let scene = Scene::new();
    scene.write("file", b"content");
    fs::create_dir(scene.path("folder")).expect("made");
    symlink("target", scene.path("link")).expect("made");
    let old = first_backup(&scene);
    let examined = scene.examine(scene.segment(), &old);
    assert!(examined.backed_up().is_empty() && examined.updated().is_empty());
    assert_eq!((examined.quanta, examined.report.failed), (0, 0));
    assert_eq!(examined.report.stages.read.busy, Duration::ZERO, "no file was read");
    assert!(examined.expired().is_empty() && examined.has_digests());
}

#[test]
fn a_change_is_recognised_by_what_it_is() {
    type Change = fn(&Scene);
    // Each change, the names of the new versions, and the names of objects with new attributes.
    let changes: [(Change, &[&str], &[&str]); 6] = [
        (|scene| scene.write("file", b"other content"), &["file"], &[]),
        (|scene| set_mode(scene, "folder", 0o700), &[], &["folder"]),
        // Without the server's digest the content counts as changed.
        (|scene| set_mode(scene, "file", 0o600), &["file"], &[]),
        (
            |scene| {
                fs::remove_file(scene.path("link")).expect("removed");
                symlink("tegrat", scene.path("link")).expect("made");
            },
            &["link"],
            &[],
        ),
        (
            |scene| {
                fs::remove_file(scene.path("file")).expect("removed");
                fs::create_dir(scene.path("file")).expect("made");
            },
            &["file"],
            &[],
        ),
        (|scene| scene.write("new", b""), &["new"], &[]),
    ];
    for (change, new, updated) in changes {
        let scene = Scene::new();
        scene.write("file", b"content");
        fs::create_dir(scene.path("folder")).expect("made");
        symlink("target", scene.path("link")).expect("made");
        let old = first_backup(&scene);
        change(&scene);
        let examined = scene.examine(scene.segment(), &old);
        assert_eq!(examined.names(), new);
        let names: Vec<_> = examined.updated().iter().map(|o| o.name.clone()).collect();
        let expected: Vec<_> =
            updated.iter().map(|name| Name::new(name.as_bytes()).expect("a name")).collect();
        assert_eq!(names, expected);
        assert!(examined.expired().is_empty() && examined.has_digests());
    }
}

fn set_mode(scene: &Scene, name: &str, mode: u32) {
    fs::set_permissions(scene.path(name), PermissionsExt::from_mode(mode)).expect("set");
}

#[test]
fn an_object_expires_only_if_it_is_certainly_gone() {
    let scene = Scene::new();
    for name in ["a", "m", "z"] {
        scene.write(name, name.as_bytes());
    }
    let mut old = first_backup(&scene);
    old.extend([renamed(&old[0], b"gone"), renamed(&old[0], b"unread")]);
    old.sort_by(|a, b| a.name.cmp(&b.name));
    let examined = scene.examine(scene.segment(), &old);
    assert_eq!(examined.expired(), [&b"gone"[..], b"unread"]);
    assert!(examined.has_digests());
    // The digest is sent with the expiration, not with the change before it.
    assert!(examined.changes.iter().all(|change| change.pages[0].digest.is_none()));
    // An object that could not be examined may still exist.
    let segment = Segment { unreadable: vec![b"unread".to_vec()], ..scene.segment() };
    let examined = scene.examine(segment, &old);
    assert_eq!(examined.expired(), [b"gone"]);
    assert!(!examined.has_digests());
    // A segment with only some objects of a page says nothing about the others.
    let examined = scene.examine(Segment { is_whole: false, ..scene.segment() }, &old);
    assert!(examined.expiries.is_empty() && examined.changes.is_empty());
}

#[test]
fn a_file_that_vanishes_after_the_walk_fails_and_does_not_expire() {
    let scene = Scene::new();
    scene.write("a", b"content");
    scene.write("b", b"content");
    let mut old = first_backup(&scene);
    old.iter_mut().for_each(|object| object.stat.mtime.secs -= 1);
    let segment = scene.segment();
    fs::remove_file(scene.path("a")).expect("removed");
    let examined = scene.examine(segment, &old);
    assert_eq!(examined.names(), ["b"]);
    assert_eq!(examined.report.failed, 1);
    assert_eq!(examined.report.failures[0].path, b"/d/a");
    assert!(examined.expired().is_empty() && !examined.has_digests());
}

#[test]
fn a_file_that_becomes_another_object_is_not_followed() {
    let scene = Scene::new();
    scene.write("a", b"content");
    let segment = scene.segment();
    fs::remove_file(scene.path("a")).expect("removed");
    symlink("/etc/passwd", scene.path("a")).expect("made");
    let examined = scene.examine(segment, &[]);
    assert!(examined.backed_up().is_empty() && examined.quanta == 0);
    assert_eq!(examined.report.failed, 1);
    assert!(!examined.has_digests());
}

#[test]
fn an_object_of_a_class_without_a_copy_group_fails_and_stays() {
    let mut scene = Scene::new();
    scene.write("a", b"content");
    scene.write("b", b"content");
    let mut old = first_backup(&scene);
    old.iter_mut().for_each(|object| object.stat.mtime.secs -= 1);
    scene.list = "include /d/a none";
    let examined = scene.examine(scene.segment(), &old);
    assert_eq!(examined.names(), ["b"]);
    let failures = &examined.report.failures;
    assert_eq!(failures[0].error, "the management class none has no backup copy group");
    assert!(examined.expired().is_empty() && !examined.has_digests());
}

#[test]
fn objects_of_an_absolute_class_are_sent_each_time() {
    let mut scene = Scene::new();
    scene.list = "include /d/a always";
    scene.write("a", b"content");
    scene.write("b", b"content");
    // The first backup must not give the page a digest, so that the second backup examines it.
    let first = scene.examine(scene.segment(), &[]);
    assert!(!first.has_digests());
    let examined = scene.examine(scene.segment(), &stored(first.backed_up()));
    assert_eq!(examined.names(), ["a"]);
    assert!(!examined.has_digests());
}

#[test]
fn another_class_rebinds_and_sends_no_data() {
    let mut scene = Scene::new();
    scene.write("a", b"content");
    let old = first_backup(&scene);
    scene.list = "include /d/a dirs";
    let examined = scene.examine(scene.segment(), &old);
    assert_eq!((examined.report.rebound, examined.quanta), (1, 0));
    assert_eq!(examined.updated()[0].class, ClassId(4));
    assert!(examined.backed_up().is_empty() && examined.has_digests());
}

#[test]
fn a_dry_run_sends_nothing_and_says_what_it_would_do() {
    let mut scene = Scene::new();
    scene.write("a", b"content");
    scene.write("b", b"content");
    let mut old = first_backup(&scene);
    scene.is_dry = true;
    scene.write("b", b"other content");
    old.push(renamed(&old[0], b"gone"));
    let examined = scene.examine(scene.segment(), &old);
    assert!(examined.changes.is_empty() && examined.quanta == 0);
    assert_eq!(examined.report.planned, [("back up", b"/d/b".to_vec())]);
    // The expiration is counted, and listed at the end.
    assert_eq!(examined.expired(), [b"gone"]);
}

/// The list had more lines than the number of objects said.
#[test]
fn a_dry_run_lists_what_it_counts() {
    let mut scene = Scene::new();
    scene.write("a", b"content");
    scene.is_dry = true;
    for (counts, objects) in [(true, 1), (false, 0)] {
        let examined = scene.examine(Segment { counts, ..scene.segment() }, &[]);
        assert_eq!(examined.report.backed_up, objects);
        assert_eq!(examined.report.planned.len() as u64, objects);
    }
}

#[test]
fn a_large_page_is_divided_before_an_object_in_it_changes() {
    let scene = Scene::new();
    let count = SEGMENT_OBJECTS_MAX + 10;
    (0..count).for_each(|number| scene.write(&format!("n{number:05}"), b""));
    let first = scene.examine(scene.segment(), &[]);
    assert_eq!(first.backed_up().len(), count);
    // A directory that the server does not have needs no division.
    assert!(first.changes.iter().all(|change| !change.backed_up.is_empty()));
    let mut old = stored(first.backed_up());
    old.push(renamed(&old[0], b"z"));
    scene.write("n00000", b"changed");
    let examined = scene.examine(scene.segment(), &old);
    let [division, changes @ ..] = &examined.changes[..] else { panic!("a division") };
    assert!(division.backed_up.is_empty() && division.pages.len() == 3);
    assert!(division.pages.iter().all(|page| page.digest.is_none()));
    let firsts = |changes: &[PageChange]| -> Vec<Vec<u8>> {
        changes.iter().map(|change| change.first.clone()).collect()
    };
    let pages: Vec<_> = division.pages.iter().map(|page| page.first.clone()).collect();
    assert_eq!(firsts(changes), pages);
    assert_eq!(examined.names(), ["n00000"]);
    // The object that is gone belongs to the last page.
    assert_eq!(examined.expired(), [b"z"]);
    assert_eq!(examined.expiries[0].first, pages[2]);
}
