//! Tests that expiration agrees with a naive model, for random histories on a real catalogue.

mod images;

use catalog::change::{Change, PageStart, apply};
use model::{Extent, FilespaceId, NodeName};
use policy::{BackupCopyGroup, Limit, ManagementClass};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::pages::writes;
use crate::samples;

const DAY_MICROS: i64 = 86_400_000_000;
const FIRST: i64 = 20_000 * DAY_MICROS;
const CASES: u32 = 48;

#[track_caller]
fn check_windows(ages: &[u16], done_to: i64, now: i64, expected: &[(i64, i64)]) {
    let windows = windows(&ages.iter().copied().collect(), Day(done_to), Day(now));
    let expected: Vec<_> = expected.iter().map(|(from, to)| (Day(*from), Day(*to))).collect();
    assert_eq!(windows, expected);
}

#[test]
fn every_day_that_an_age_has_passed_over_is_looked_at_once() {
    check_windows(&[0, 30, 60], 100, 101, &[(100, 101), (70, 71), (40, 41)]);
    check_windows(&[0, 30], 100, 140, &[(70, 140)]);
    check_windows(&[0, 1, 2], 100, 100, &[(98, 100)]);
    check_windows(&[0], 5, 5, &[(5, 5)]);
}

/// An event in the life of a server.
#[derive(Clone, Debug)]
enum Step {
    /// The given number of hours passes.
    Wait(i64),
    /// The object is backed up in a new state, bound to the class. Before that it may have been
    /// deleted, or may not have existed.
    Back {
        directory: usize,
        name: usize,
        class: usize,
    },
    /// Only the object's attributes change, and it is bound to the class.
    Rebind {
        directory: usize,
        name: usize,
        class: usize,
    },
    Gone {
        directory: usize,
        name: usize,
    },
    Expire,
    /// A class gets other limits.
    Activate {
        class: usize,
        limits: [Limit; 4],
    },
}

const DIRECTORIES: [&str; 3] = ["/", "/a/", "/a/b/"];
const NAMES: [&str; 3] = ["x", "y", "z"];
/// Numbers of classes. The set does not have the last class, so the default class replaces it.
const CLASSES: [u16; 3] = [1, 2, 99];

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![1 => Just(Limit::Unlimited), 3 => (0_u16..6).prop_map(Limit::AtMost)]
}

fn step() -> impl Strategy<Value = Step> {
    let object = (0..DIRECTORIES.len(), 0..NAMES.len());
    let class = 0..CLASSES.len();
    prop_oneof![
        4 => select(vec![0, 1, 7, 24, 30, 72]).prop_map(Step::Wait),
        5 => (object.clone(), class.clone())
            .prop_map(|((directory, name), class)| Step::Back { directory, name, class }),
        2 => (object.clone(), class)
            .prop_map(|((directory, name), class)| Step::Rebind { directory, name, class }),
        3 => object.prop_map(|(directory, name)| Step::Gone { directory, name }),
        4 => Just(Step::Expire),
        1 => (0..2_usize, [limit(), limit(), limit(), limit()])
            .prop_map(|(class, limits)| Step::Activate { class, limits }),
    ]
}

/// Versions of one object in the model, which follows the manual.
#[derive(Clone, Default)]
struct ObjectHistory {
    /// Time at which the active version was made, and its class.
    active: Option<(i64, u16)>,
    /// Beginning, end and class of the inactive versions, newest first.
    ended: Vec<(i64, i64, u16)>,
}

struct World {
    store: Store,
    _folder: tempfile::TempDir,
    node: Node,
    filespace: FilespaceId,
    set: PolicySet,
    now: i64,
    model: BTreeMap<(usize, usize), ObjectHistory>,
}

fn set() -> PolicySet {
    let mut set = PolicySet::standard(ClassId(1));
    set.put(ManagementClass::new(ClassId(2), "TWO"));
    set
}

fn object(name: &str, class: u16, size: u64) -> Object {
    let name = Name::new(name.as_bytes()).expect("a name");
    samples::file(name, ClassId(class), size, vec![Extent::Hole { bytes: size }])
}

fn directory(index: usize) -> DirPath {
    DirPath::new(DIRECTORIES[index].as_bytes()).expect("a directory")
}

impl World {
    fn new() -> Self {
        Self::of(b"/")
    }

    /// Makes a world with the filespace `name`.
    fn of(name: &[u8]) -> Self {
        let folder = tempfile::tempdir_in(samples::memory()).expect("a folder");
        let server = folder.path().join("server");
        let config = samples::server(&server);
        let store = Store::open_alone(&server, &config).expect("opens");
        let of_node = NodeName::new("a").expect("a name");
        let node = store.catalog.add_node(&of_node, policy::STANDARD, ServerTime(1));
        let node = node.expect("added");
        let opened = store.catalog.open_filespace(node.id, name, ServerTime(1)).expect("made");
        let filespace = opened.id;
        let world = Self {
            store,
            _folder: folder,
            node,
            filespace,
            set: set(),
            now: FIRST,
            model: BTreeMap::new(),
        };
        world.activate();
        world
    }

    fn activate(&self) {
        let event = EventRow {
            time: ServerTime(self.now),
            actor: String::new(),
            what: String::new(),
            details: String::new(),
        };
        self.store
            .catalog
            .activate(self.node.domain, &self.set, &event)
            .expect("activated");
    }

    /// Applies `change` to the page of the directory as a session does.
    fn change(&self, index: usize, change: Change) {
        self.change_at(directory(index), change);
    }

    fn change_at(&self, path: DirPath, mut change: Change) {
        let key = PageKey::first_of(path);
        let page = self.store.catalog.page(self.filespace, &key).expect("is read");
        let current = page.map_or(Vec::new(), |row| decode_page(&row).expect("a page"));
        change.pages = vec![PageStart::default()];
        let now = ServerTime(self.now);
        let changed = apply(&key, current, change, now).expect("it fits");
        let writes = writes(self.filespace, &key.directory, changed, now);
        self.store.catalog.commit(writes).expect("is performed");
    }

    fn expire(&self, all: bool) -> Outcome {
        let order = Order { all, now: ServerTime(self.now), ..Order::due() };
        let nodes = [self.node.clone()];
        run(&self.store, &nodes, order, &mut |_| true).expect("runs")
    }

    /// Counts the versions that a run drops now.
    fn count(&self) -> Outcome {
        self.count_by(None)
    }

    /// Counts the versions that a run drops now by the rules of `draft`.
    fn count_by(&self, draft: Option<&PolicySet>) -> Outcome {
        let order = Order { draft, is_dry: true, now: ServerTime(self.now), ..Order::due() };
        run(&self.store, std::slice::from_ref(&self.node), order, &mut |_| true).expect("counts")
    }

    /// Drops the versions from the model that expire now according to the manual.
    fn expire_on_paper(&mut self) {
        let (set, now) = (&self.set, ServerTime(self.now));
        for history in self.model.values_mut() {
            let Some(newest) = history.ended.first() else { continue };
            let class = history.active.map_or(newest.2, |(_, class)| class);
            let rules = set.backup_rules(ClassId(class));
            let (exists, all) = (history.active.is_some(), history.ended.clone());
            let mut kept = Vec::new();
            for version in &all {
                let most = match exists {
                    true => rules.versions_existing_max,
                    false => rules.versions_deleted_max,
                };
                let ahead = kept.len() + usize::from(exists);
                let days = if ahead > 0 { rules.extra_days } else { rules.only_days };
                let few = match most {
                    Limit::AtMost(most) => ahead < usize::from(most),
                    Limit::Unlimited => true,
                };
                let young = match days {
                    Limit::AtMost(days) => now.0 - version.1 < i64::from(days) * DAY_MICROS,
                    Limit::Unlimited => true,
                };
                if few && young {
                    kept.push(*version);
                }
            }
            history.ended = kept;
        }
    }

    fn perform(&mut self, step: &Step) {
        // No two steps happen in the same microsecond.
        self.now += 1;
        let now = self.now;
        match *step {
            Step::Wait(hours) => self.now += hours * DAY_MICROS / 24,
            Step::Back { directory, name, class } => {
                let history = self.model.entry((directory, name)).or_default();
                if let Some((begin, class)) = history.active {
                    history.ended.insert(0, (begin, now, class));
                }
                history.active = Some((now, CLASSES[class]));
                let new = object(NAMES[name], CLASSES[class], now.unsigned_abs());
                self.change(directory, Change { backed_up: vec![new], ..Change::default() });
            }
            Step::Rebind { directory, name, class } => {
                let history = self.model.entry((directory, name)).or_default();
                let Some((begin, _)) = history.active else { return };
                history.active = Some((begin, CLASSES[class]));
                let new = object(NAMES[name], CLASSES[class], begin.unsigned_abs());
                self.change(directory, Change { updated: vec![new], ..Change::default() });
            }
            Step::Gone { directory, name } => {
                let history = self.model.entry((directory, name)).or_default();
                let Some((begin, class)) = history.active.take() else { return };
                history.ended.insert(0, (begin, now, class));
                let gone = Name::new(NAMES[name].as_bytes()).expect("a name");
                self.change(directory, Change { expired: vec![gone], ..Change::default() });
            }
            Step::Expire => {
                self.expire(false);
                self.expire_on_paper();
                self.compare();
            }
            Step::Activate { class, limits } => {
                let [existing, deleted, extra, only] = limits;
                self.set.classes[class].backup = Some(BackupCopyGroup {
                    versions_existing_max: existing,
                    versions_deleted_max: deleted,
                    extra_days: extra,
                    only_days: only,
                    ..BackupCopyGroup::default()
                });
                self.activate();
            }
        }
    }

    fn compare(&self) {
        for (index, shown) in DIRECTORIES.iter().enumerate() {
            let path = directory(index);
            let rows = self.store.catalog.versions(self.filespace, &path).expect("are read");
            let held: Vec<(&[u8], i64)> =
                rows.iter().map(|row| (row.name.as_bytes(), row.deactivated.0)).collect();
            let of_directory = self.model.iter().filter(|((directory, _), _)| *directory == index);
            let expected: Vec<(&[u8], i64)> = of_directory
                .flat_map(|((_, name), history)| {
                    history.ended.iter().map(|version| (NAMES[*name].as_bytes(), version.1))
                })
                .collect();
            assert_eq!(held, expected, "in {shown}");
        }
    }
}

#[test]
fn a_run_drops_what_the_manual_says_whatever_has_happened() {
    let cases = std::env::var("HOLDFAST_CASES").ok().and_then(|cases| cases.parse().ok());
    let config =
        Config { cases: cases.unwrap_or(CASES), failure_persistence: None, ..Config::default() };
    let steps = proptest::collection::vec(step(), 1..60);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        let mut world = World::new();
        steps.iter().for_each(|step| world.perform(step));
        world.perform(&Step::Expire);
        let late = world.expire(true).expired;
        prop_assert_eq!(late, 0, "a run over all directories finds nothing more");
        Ok(())
    });
    outcome.expect("model and catalogue agree");
}

#[test]
fn a_cancelled_run_goes_on_where_it_was() {
    let mut world = World::new();
    for name in 0..NAMES.len() {
        for _ in 0..3 {
            world.perform(&Step::Back { directory: 0, name, class: 0 });
        }
    }
    world.now += 40 * DAY_MICROS;
    let order = Order { now: ServerTime(world.now), ..Order::due() };
    let nodes = [world.node.clone()];
    let cancelled = run(&world.store, &nodes, order, &mut |_| false);
    assert!(matches!(cancelled, Err(StoreError::Cancelled(_))), "{cancelled:?}");
    let dry = Order { is_dry: true, ..order };
    let left = run(&world.store, &nodes, dry, &mut |_| true).expect("counts").expired;
    assert_eq!(world.expire(false).expired, left);
    world.expire_on_paper();
    world.compare();
    assert_eq!(world.expire(true).expired, 0);
}

#[test]
fn a_simulation_counts_what_a_run_then_drops() {
    let mut world = World::new();
    for step in 0..40 {
        let (directory, name) = (step % 3, step % 2);
        world.perform(&Step::Back { directory, name, class: step % 2 });
        world.perform(&Step::Wait(7));
    }
    world.perform(&Step::Gone { directory: 0, name: 0 });
    let mut draft = world.set.clone();
    draft.classes[0].backup = Some(BackupCopyGroup {
        versions_existing_max: Limit::AtMost(2),
        extra_days: Limit::AtMost(4),
        ..BackupCopyGroup::default()
    });
    let nodes = [world.node.clone()];
    let now = ServerTime(world.now);
    let order = Order { draft: Some(&draft), is_dry: true, all: true, now, ..Order::due() };
    let predicted = run(&world.store, &nodes, order, &mut |_| true).expect("counts");
    assert!(predicted.expired > 10 && predicted.expired < predicted.examined);
    world.set = draft.clone();
    world.activate();
    let done = world.expire(false);
    let counted = |outcome: &Outcome| (outcome.expired, outcome.expired_bytes, outcome.nodes);
    assert_eq!(counted(&done), counted(&predicted));
}

#[test]
fn a_damaged_directory_stays_and_the_others_expire() {
    let mut world = World::new();
    for of in [0, 1].into_iter().cycle().take(8) {
        world.perform(&Step::Back { directory: of, name: 0, class: 0 });
    }
    let count = |world: &World, index| {
        let versions = world.store.catalog.versions(world.filespace, &directory(index));
        versions.expect("are read").len() as u64
    };
    let before = count(&world, 0);
    let key = PageKey::first_of(directory(0));
    let page = world.store.catalog.page(world.filespace, &key).expect("is read");
    let page = catalog::PageRow { body: vec![0xff], ..page.expect("is there") };
    let put = Write::PutPage { filespace: world.filespace, page };
    world.store.catalog.commit(vec![put]).expect("is written");
    world.now += 400 * DAY_MICROS;
    let outcome = world.expire(true);
    assert_eq!((outcome.damaged, outcome.directories), (1, 1), "{outcome:?}");
    assert_eq!((count(&world, 0), count(&world, 1)), (before, before - outcome.expired));
    assert!(outcome.expired > 0, "the undamaged directory expires");
}

#[test]
fn an_expiration_that_a_person_has_cancelled_rests() {
    let runs = |is_cancelled: bool| {
        let server = samples::TestServer::new();
        if is_cancelled {
            server.store.tasks.note_cancelled(Task::Expire);
        }
        run_due(&server.store, 24).expect("looks").is_some()
    };
    assert_eq!((runs(false), runs(true)), (true, false));
}

/// A run by a clock that was years ahead stopped all automatic runs for years.
#[test]
fn a_run_that_is_dated_in_the_future_does_not_stop_the_next() {
    let server = samples::TestServer::new();
    let done_to = || server.store.catalog.expiry(server.filespace).expect("is read").done_to;
    let later = ServerTime(sys::clock::now().0 + 4000 * DAY_MICROS);
    let state = ExpiryState { done_to: Some(later) };
    let write = Write::SetExpiry { filespace: server.filespace, state };
    server.store.catalog.commit(vec![write]).expect("is written");
    assert_eq!(done_to(), Some(later));
    let outcome = run_due(&server.store, 24).expect("runs");
    assert!(outcome.is_some_and(|outcome| outcome.filespaces_done == 1));
    assert!(done_to() < Some(later));
    assert_eq!(run_due(&server.store, 24).expect("looks"), None);
}

/// Each look at what is due ran an expiration while a node had an incomplete archive.
#[test]
fn an_incomplete_archive_is_looked_at_once_a_day() {
    let server = samples::TestServer::new();
    archive::add(&server.store, &server.node, "").expect("is made");
    assert!(run_due(&server.store, 24).expect("runs").is_some());
    assert_eq!(run_due(&server.store, 24).expect("looks"), None);
}
