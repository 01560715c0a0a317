//! Tests that selections agree with a naive model, for random histories on a real catalogue.

use std::sync::Arc;

use catalog::change::Change;
use model::{Attributes, ChunkRange, ClassId, PackNumber, Place, Xattr};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::samples::{TestServer, directory, file, name};

const DIRECTORIES: [&str; 4] = ["/", "/a/", "/a/b/", "/c/"];
const NAMES: [&str; 3] = ["x", "y", "z"];
const CASES: u32 = 40;

/// A version of the model: the directory, the name, the beginning, and the end if there is one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    directory: DirPath,
    name: Name,
    /// Negated time at which the version began, so that the newest version of an object sorts
    /// first.
    age: i64,
    end: Option<i64>,
}

impl Entry {
    fn stood_at(&self, time: i64) -> bool {
        -self.age <= time && self.end.is_none_or(|end| end > time)
    }
}

/// An event in the life of one object.
#[derive(Clone, Copy, Debug)]
struct Step {
    directory: usize,
    name: usize,
    is_backup: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..DIRECTORIES.len(), 0..NAMES.len(), prop::bool::weighted(0.7))
        .prop_map(|(directory, name, is_backup)| Step { directory, name, is_backup });
    prop::collection::vec(step, 1..40)
}

struct World {
    server: TestServer,
    paper: Vec<Entry>,
}

impl World {
    fn new() -> Self {
        Self { server: TestServer::new(), paper: Vec::new() }
    }

    /// Performs the step at the moment `now`, in the catalogue and in the model.
    fn perform(&mut self, step: Step, now: i64) {
        let (path, text) = (DIRECTORIES[step.directory], NAMES[step.name]);
        let is_it = |entry: &&mut Entry| {
            entry.directory == directory(path) && entry.name == name(text) && entry.end.is_none()
        };
        let old = self.paper.iter_mut().find(is_it);
        let was_active = old.is_some();
        if let Some(old) = old {
            old.end = Some(now);
        }
        let change = if step.is_backup {
            let (directory, name, age) = (directory(path), name(text), -now);
            self.paper.push(Entry { directory, name: name.clone(), age, end: None });
            let new = file(name, ClassId(1), 1, vec![Extent::Hole { bytes: 1 }]);
            Change { backed_up: vec![new], ..Change::default() }
        } else if was_active {
            Change { expired: vec![name(text)], ..Change::default() }
        } else {
            return;
        };
        self.server.apply(path, change, ServerTime(now));
    }

    fn select(&self, span: PageSpan, choice: Choice) -> Vec<Entry> {
        let parts = vec![Part { span, name: None }];
        let filespace = self.server.filespace;
        let selection = Selection { filespace, choice, parts, range: 0..u64::MAX, sample: None };
        let mut found = Vec::new();
        let walked = selection.walk_readable(&*self.server.store.catalog, |batch| {
            found.extend(batch.versions.into_iter().map(|version| Entry {
                directory: batch.directory.clone(),
                name: version.object.name,
                age: -version.object.inserted.0,
                end: version.deactivated.map(|end| end.0),
            }));
            Ok(())
        });
        assert_eq!(walked.expect("is read"), None, "nothing is damaged");
        found
    }

    /// Returns the versions of the model for which `is_chosen` holds, in the order of a selection.
    fn expected(&self, span: &PageSpan, is_chosen: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let is_in = |entry: &&Entry| match span {
            PageSpan::Directory(directory) => entry.directory == *directory,
            PageSpan::Subtree(directory) => directory.contains(&entry.directory),
        };
        let mut chosen: Vec<Entry> = self
            .paper
            .iter()
            .filter(is_in)
            .filter(|entry| is_chosen(entry))
            .cloned()
            .collect();
        chosen.sort();
        chosen
    }

    /// Returns true for the newest version of an object.
    fn is_newest(&self, entry: &Entry) -> bool {
        let is_same =
            |other: &&Entry| other.directory == entry.directory && other.name == entry.name;
        self.paper.iter().filter(is_same).all(|other| other.age >= entry.age)
    }

    fn compare(&self, last: i64) {
        let spans = [
            PageSpan::Subtree(DirPath::above_root()),
            PageSpan::Subtree(directory("/a/")),
            PageSpan::Directory(directory("/a/")),
            PageSpan::Directory(directory("/nowhere/")),
        ];
        for span in spans {
            let check = |choice, is_chosen: &dyn Fn(&Entry) -> bool| {
                let expected = self.expected(&span, is_chosen);
                assert_eq!(self.select(span.clone(), choice), expected, "{choice:?} in {span:?}");
            };
            check(Choice::All, &|_| true);
            check(Choice::Active, &|entry| entry.end.is_none());
            check(Choice::Newest, &|entry| self.is_newest(entry));
            for time in 0..=last + 1 {
                check(Choice::At(ServerTime(time)), &|entry| entry.stood_at(time));
            }
        }
    }
}

#[test]
fn each_choice_finds_the_versions_that_the_history_made() {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&steps(), |steps| {
        let mut world = World::new();
        let mut now = 0;
        for step in steps {
            now += 1;
            world.perform(step, now);
        }
        world.compare(now);
        Ok(())
    });
    outcome.expect("model and catalogue agree");
}

fn step(directory: usize, name: usize, is_backup: bool) -> Step {
    Step { directory, name, is_backup }
}

#[test]
fn a_part_with_a_name_selects_the_versions_of_one_object() {
    let mut world = World::new();
    let history = [step(1, 0, true), step(1, 1, true), step(1, 0, true), step(2, 0, true)];
    (1..).zip(history).for_each(|(now, step)| world.perform(step, now));
    let span = PageSpan::Directory(directory("/a/"));
    let parts = vec![Part { span, name: Some(name("x")) }];
    let filespace = world.server.filespace;
    let selection =
        Selection { filespace, choice: Choice::All, parts, range: 0..u64::MAX, sample: None };
    assert_eq!(selection.path(), b"/a/x");
    let mut found = Vec::new();
    let walked = selection.walk_readable(&*world.server.store.catalog, |batch| {
        found.extend(batch.versions.into_iter().map(|version| version.object.inserted.0));
        Ok(())
    });
    assert_eq!(walked.expect("is read"), None, "nothing is damaged");
    assert_eq!(found, [3, 1]);
}

/// `Choice::Newest` omits versions below a path that has become a file.
#[test]
fn a_directory_that_has_become_a_file_is_not_restored_beside_it() {
    let mut world = World::new();
    world.perform(step(2, 0, true), 1);
    world.perform(step(2, 0, false), 2);
    let everything = PageSpan::Subtree(DirPath::above_root());
    assert_eq!(world.select(everything.clone(), Choice::Newest).len(), 1);
    let (filespace, key) = (world.server.filespace, PageKey::first_of(directory("/a/b/")));
    let removal = catalog::Write::RemovePage { filespace, key };
    world.server.store.commit(vec![removal]).expect("is performed");
    let new = file(name("a"), ClassId(1), 1, vec![Extent::Hole { bytes: 1 }]);
    let change = Change { backed_up: vec![new], ..Change::default() };
    world.server.apply("/", change, ServerTime(3));
    let names = |choice| {
        let found = world.select(everything.clone(), choice).into_iter();
        found.map(|entry| entry.directory.join(&entry.name)).collect::<Vec<_>>()
    };
    assert_eq!(names(Choice::Newest), [b"/a".to_vec()]);
    assert_eq!(names(Choice::All), [b"/a".to_vec(), b"/a/b/x".to_vec()]);
}

#[test]
fn a_large_directory_comes_page_by_page_with_the_versions_of_each() {
    let server = TestServer::new();
    let new = |number: u32| {
        let name = name(&format!("n{number:04}"));
        file(name, ClassId(1), 1, vec![Extent::Hole { bytes: 1 }])
    };
    let first = (0..300).map(new).collect();
    server.apply("/", Change { backed_up: first, ..Change::default() }, ServerTime(1));
    let second = (0..300).step_by(3).map(new).collect();
    server.apply("/", Change { backed_up: second, ..Change::default() }, ServerTime(2));
    let mut walk = Walk::new(
        &*server.store.catalog,
        server.filespace,
        PageSpan::Subtree(DirPath::above_root()),
        Choice::All,
    );
    let mut found = 0;
    while let Some(batch) = walk.next().expect("is read") {
        let is_before = |a: &Version, b: &Version| {
            (&a.object.name, b.object.inserted) <= (&b.object.name, a.object.inserted)
        };
        assert!(batch.versions.is_sorted_by(is_before), "by name, the newest first");
        found += batch.versions.len();
        for part in split(batch) {
            let names = part.versions.iter().map(|version| &version.object.name);
            assert!(names.is_sorted_by(|a, b| a < b), "no object is in a part twice");
        }
    }
    assert_eq!(found, 400);
}

/// Regression: versions of one directory with large attributes, or with many chunks, became a page
/// or a message that was too large to be sent.
#[test]
fn large_objects_come_in_several_parts() {
    let half = PART_WEIGHT_MAX / 2;
    let version = |text: &str, chunks: usize, attribute_bytes: usize| {
        let (first, count) = (Place::new(PackNumber(1), 0), u32::try_from(chunks).expect("few"));
        let extents = vec![Extent::Chunks(ChunkRange { first, count })];
        let mut object = file(name(text), ClassId(1), 1, extents);
        let xattr = Xattr { name: b"user.a".to_vec(), value: vec![0; attribute_bytes] };
        object.attributes = Arc::new(Attributes { xattrs: vec![xattr], flags: 0 });
        Version { object, deactivated: None }
    };
    let chunks = half / CHUNK_LENGTH_BYTES;
    let versions = vec![
        version("a", 1, half),
        version("b", chunks, 0),
        version("c", 1, 9),
        version("d", 1, 2 * PART_WEIGHT_MAX),
        version("e", 1, 9),
    ];
    let parts = split(VersionBatch { directory: directory("/"), versions });
    let names: Vec<Vec<Name>> = parts
        .into_iter()
        .map(|part| part.versions.into_iter().map(|version| version.object.name).collect())
        .collect();
    let expected = [&["a"][..], &["b", "c"], &["d"], &["e"]];
    assert_eq!(names, expected.map(|part| part.iter().map(|text| name(text)).collect::<Vec<_>>()));
}

#[test]
fn a_batch_of_any_size_is_split_into_pages_without_a_name_twice() {
    let version = |number: usize, inserted: i64| {
        let mut object =
            file(name(&format!("n{number:05}")), ClassId(1), 1, vec![Extent::Hole { bytes: 1 }]);
        object.inserted = ServerTime(inserted);
        Version { object, deactivated: None }
    };
    let count = 3 * PAGE_OBJECTS_MAX + 7;
    // Every other name has a second version.
    let versions = (0..count).flat_map(|number| {
        let second = (number % 2 == 0).then(|| version(number, 1));
        std::iter::once(version(number, 2)).chain(second)
    });
    let batch = VersionBatch { directory: directory("/"), versions: versions.collect() };
    let all = batch.versions.len();
    let parts = split(batch);
    assert_eq!(parts.iter().map(|part| part.versions.len()).sum::<usize>(), all);
    for part in &parts {
        assert!(part.versions.len() <= PAGE_OBJECTS_MAX);
        let names = part.versions.iter().map(|version| &version.object.name);
        assert!(names.is_sorted_by(|a, b| a < b), "no object is in a part twice");
    }
    assert_eq!(parts.len(), 4 + 2);
}

#[test]
fn a_damaged_version_is_passed_over_and_named() {
    let server = TestServer::new();
    let version = VersionRow {
        directory: directory("/"),
        name: name("x"),
        inserted: ServerTime(1),
        deactivated: ServerTime(2),
        body: vec![255; 9],
    };
    let write = catalog::Write::AddVersion { filespace: server.filespace, version };
    server.store.commit(vec![write]).expect("is performed");
    let span = PageSpan::Subtree(DirPath::above_root());
    let mut walk = Walk::new(&*server.store.catalog, server.filespace, span, Choice::All);
    while let Some(batch) = walk.next().expect("is passed over") {
        assert!(batch.versions.is_empty(), "the only version is damaged");
    }
    let Unreadable { count, first } = walk.unreadable.expect("it is noted");
    assert_eq!(count, 1);
    assert!(first.contains("/x"), "{first}");
}
