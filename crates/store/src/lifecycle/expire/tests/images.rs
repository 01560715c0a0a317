//! Tests that the images which expiration leaves are whole, and that it leaves nothing of others.

use model::{IMAGE_HEAD, image_filespace};

use super::*;

/// Directory and name of each part.
const PARTS: [(&str, &str); 3] =
    [("/00000000/", "0000"), ("/00000000/", "0001"), ("/00000001/", "0000")];
const HEAD: (usize, usize) = (0, 0);
const HOUR_MICROS: i64 = DAY_MICROS / 24;

/// An event in the life of the images of one disk.
#[derive(Clone, Debug)]
enum ImageStep {
    /// The given number of hours passes.
    Wait(i64),
    /// An image is made, for which these parts have changed. Its head comes two hours after them.
    Image([bool; 3]),
    /// A backup of an image ends after it has committed these parts.
    Interruption([bool; 3]),
    Expire,
    /// The class gets other limits.
    Activate([Limit; 4]),
}

fn image_step() -> impl Strategy<Value = ImageStep> {
    let limits = [limit(), limit(), limit(), limit()];
    prop_oneof![
        3 => select(vec![1, 7, 24, 30, 72]).prop_map(ImageStep::Wait),
        5 => any::<[bool; 3]>().prop_map(ImageStep::Image),
        3 => any::<[bool; 3]>().prop_map(ImageStep::Interruption),
        4 => Just(ImageStep::Expire),
        1 => limits.prop_map(ImageStep::Activate),
    ]
}

/// A world with images of one disk. The history of the head is in the world's model.
struct ImageWorld {
    world: World,
    /// Time at which the active version of each part was made.
    parts: [Option<i64>; 3],
    /// Parts of each image, by the time of its head.
    images: BTreeMap<i64, [Option<i64>; 3]>,
}

impl ImageWorld {
    fn new() -> Self {
        let world = World::of(&image_filespace(b"disk"));
        Self { world, parts: [None; 3], images: BTreeMap::new() }
    }

    fn put(&self, path: &str, name: &str) {
        let new = object(name, 1, self.world.now.unsigned_abs());
        let change = Change { backed_up: vec![new], ..Change::default() };
        self.world.change_at(DirPath::new(path.as_bytes()).expect("a path"), change);
    }

    fn commit_parts(&mut self, changed: [bool; 3]) {
        for (index, (path, name)) in PARTS.iter().enumerate().filter(|(index, _)| changed[*index]) {
            self.world.now += 1;
            self.put(path, name);
            self.parts[index] = Some(self.world.now);
        }
    }

    fn commit_head(&mut self) {
        self.world.now += 2 * HOUR_MICROS;
        let now = self.world.now;
        self.put("/", str::from_utf8(IMAGE_HEAD).expect("text"));
        let history = self.world.model.entry(HEAD).or_default();
        if let Some((begin, class)) = history.active.replace((now, 1)) {
            history.ended.insert(0, (begin, now, class));
        }
        self.images.insert(now, self.parts);
    }

    fn perform(&mut self, step: &ImageStep) {
        self.world.now += 1;
        match *step {
            ImageStep::Wait(hours) => self.world.now += hours * HOUR_MICROS,
            ImageStep::Image(changed) => {
                self.commit_parts(changed);
                self.commit_head();
            }
            ImageStep::Interruption(changed) => self.commit_parts(changed),
            ImageStep::Activate(limits) => {
                self.world.perform(&Step::Activate { class: 0, limits });
            }
            ImageStep::Expire => {
                let predicted = self.world.count();
                let done = self.world.expire(false);
                let counted = |outcome: &Outcome| (outcome.expired, outcome.expired_bytes);
                assert_eq!(counted(&predicted), counted(&done), "a dry run counts the same");
                self.world.expire_on_paper();
                self.check();
            }
        }
    }

    /// Returns the times at which all versions of the object began and ended, oldest first.
    fn versions(&self, path: &str, name: &str) -> Vec<(i64, Option<i64>)> {
        let World { store, filespace, .. } = &self.world;
        let directory = DirPath::new(path.as_bytes()).expect("a path");
        let rows = store.catalog.versions(*filespace, &directory).expect("are read");
        let is_named = |found: &Name| found.as_bytes() == name.as_bytes();
        let ended = rows.iter().filter(|row| is_named(&row.name));
        let mut all: Vec<_> = ended.map(|row| (row.inserted.0, Some(row.deactivated.0))).collect();
        let page = store.catalog.page(*filespace, &PageKey::first_of(directory));
        let objects = page.expect("is read").map(|row| decode_page(&row).expect("a page"));
        let active = objects.into_iter().flatten().find(|object| is_named(&object.name));
        all.extend(active.map(|object| (object.inserted.0, None)));
        all.sort_unstable();
        all
    }

    fn check(&self) {
        let heads = self.versions("/", "image");
        let history = self.world.model.get(&HEAD).cloned().unwrap_or_default();
        let mut expected: Vec<_> =
            history.ended.iter().map(|(begin, end, _)| (*begin, Some(*end))).collect();
        expected.extend(history.active.map(|(begin, _)| (begin, None)));
        expected.sort_unstable();
        assert_eq!(heads, expected, "policy decides about heads");
        for (index, (path, name)) in PARTS.iter().enumerate() {
            let versions = self.versions(path, name);
            let stood = |(begin, end): &(i64, Option<i64>), at: i64| {
                *begin <= at && end.is_none_or(|end| end > at)
            };
            for (head, _) in &heads {
                let found = versions.iter().find(|version| stood(version, *head));
                let found = found.map(|(begin, _)| *begin);
                assert_eq!(found, self.images[head][index], "{path}{name} of image {head}");
            }
            for version in versions.iter().filter(|version| version.1.is_some()) {
                let is_needed = heads.iter().any(|(head, _)| stood(version, *head));
                assert!(is_needed, "{path}{name} of {version:?} is of no image");
            }
        }
    }
}

#[test]
fn images_are_whole_or_gone_whatever_has_happened() {
    let cases = std::env::var("HOLDFAST_CASES").ok().and_then(|cases| cases.parse().ok());
    let config =
        Config { cases: cases.unwrap_or(CASES), failure_persistence: None, ..Config::default() };
    let steps = proptest::collection::vec(image_step(), 1..60);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        let mut world = ImageWorld::new();
        steps.iter().for_each(|step| world.perform(step));
        world.perform(&ImageStep::Expire);
        prop_assert_eq!(world.world.expire(true).expired, 0, "a second run finds nothing more");
        Ok(())
    });
    outcome.expect("every image has its parts");
}

fn limits(words: &str) -> ImageStep {
    let limits: Vec<Limit> =
        words.split(' ').map(|limit| limit.parse().expect("a limit")).collect();
    ImageStep::Activate(limits.try_into().expect("four limits"))
}

/// The versions that an interrupted backup had left counted against those of the image that was
/// still the newest, and the next run dropped its parts.
#[test]
fn an_interrupted_backup_costs_the_newest_image_nothing() {
    for words in ["1 1 0 0", "2 1 0 0", "1 0 NOLIMIT NOLIMIT"] {
        let mut world = ImageWorld::new();
        world.perform(&limits(words));
        world.perform(&ImageStep::Image([true; 3]));
        for _ in 0..3 {
            world.perform(&ImageStep::Interruption([true, true, false]));
            world.perform(&ImageStep::Expire);
        }
        assert_eq!(world.versions("/00000000/", "0000").len(), 2, "{words}");
        // The image that replaces it takes its parts along.
        world.perform(&ImageStep::Image([true; 3]));
        world.perform(&ImageStep::Wait(1));
        world.perform(&limits("1 1 0 0"));
        world.perform(&ImageStep::Expire);
        assert_eq!(world.versions("/00000000/", "0000").len(), 1, "{words}");
    }
}

/// The parts of an image ended hours before its head, and so reached the limit hours before it.
#[test]
fn parts_do_not_go_before_their_head() {
    let mut world = ImageWorld::new();
    world.perform(&limits("NOLIMIT NOLIMIT 30 30"));
    world.perform(&ImageStep::Image([true; 3]));
    world.perform(&ImageStep::Image([true; 3]));
    for (hours, left) in [(30 * 24 - 1, 2), (2, 1)] {
        world.perform(&ImageStep::Wait(hours));
        world.perform(&ImageStep::Expire);
        assert_eq!(world.versions("/", "image").len(), left);
        assert_eq!(world.versions("/00000001/", "0000").len(), left);
    }
}

#[test]
fn a_simulation_counts_the_parts_of_images_too() {
    let mut world = ImageWorld::new();
    world.perform(&limits("NOLIMIT NOLIMIT NOLIMIT NOLIMIT"));
    for step in 0..8 {
        world.perform(&ImageStep::Image([true, step % 2 == 0, step % 4 == 0]));
    }
    let mut draft = world.world.set.clone();
    draft.classes[0].backup = Some(BackupCopyGroup {
        versions_existing_max: Limit::AtMost(3),
        ..draft.classes[0].backup.expect("a class for backups")
    });
    let predicted = world.world.count_by(Some(&draft));
    // Five heads; all but three of the parts that change each time, and so on.
    assert_eq!((predicted.expired, predicted.due_anyway), (5 + 5 + 2 + 1, 0));
    world.world.set = draft;
    world.world.activate();
    assert_eq!(world.world.count_by(Some(&world.world.set)).due_anyway, predicted.expired);
    assert_eq!(world.world.expire(false).expired, predicted.expired);
}

/// A damaged head must not look like an image that is gone.
#[test]
fn nothing_expires_from_images_whose_heads_cannot_be_read() {
    let mut world = ImageWorld::new();
    world.perform(&limits("1 1 0 0"));
    world.perform(&ImageStep::Image([true; 3]));
    world.perform(&ImageStep::Interruption([true; 3]));
    let key = PageKey::first_of(DirPath::root());
    let World { store, filespace, .. } = &world.world;
    let page = store.catalog.page(*filespace, &key).expect("is read");
    let page = catalog::PageRow { body: vec![0xff], ..page.expect("is there") };
    let put = Write::PutPage { filespace: *filespace, page };
    store.catalog.commit(vec![put]).expect("is written");
    let outcome = world.world.expire(true);
    assert_eq!((outcome.expired, outcome.damaged), (0, 2), "{outcome:?}");
}

#[test]
fn a_locked_class_holds_the_parts_of_no_image_for_its_days() {
    let mut world = ImageWorld::new();
    world.perform(&limits("NOLIMIT NOLIMIT 30 30"));
    world.world.set.classes[0].locked_until = Some(ServerTime(i64::MAX));
    world.world.activate();
    world.perform(&ImageStep::Interruption([true; 3]));
    world.perform(&ImageStep::Image([true; 3]));
    for (hours, expired) in [(29 * 24, 0), (24, 3)] {
        world.perform(&ImageStep::Wait(hours));
        assert_eq!(world.world.expire(false).expired, expired);
    }
}
