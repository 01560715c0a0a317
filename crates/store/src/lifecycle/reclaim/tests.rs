//! Tests that reclamation keeps everything readable that a model expects. Meanwhile backups and
//! readers are active, packs move to other pools, and runs are cancelled or killed at random
//! moments.
//!
//! `HOLDFAST_SEEDS=1000` runs 1000 seeds, `HOLDFAST_SEED=7` runs seed 7.

use std::path::PathBuf;

use catalog::change::{Change, PageStart, apply};
use catalog::{Node, PageKey, PageSpan, VersionKey, VersionRow};
use chunk::Decompressor;
use disk::Random;
use format::catalog_copy::CatalogCopy;
use format::page;
use model::{ClassId, DirPath, Name, NodeName, ServerTime};

use super::*;
use crate::intake::StoredQuantum;
use crate::pages::{decode_page, writes};
use crate::pools;
use crate::samples::{self, chunk};
use crate::store::Use;

const SEEDS: u64 = 40;
const STEPS: usize = 60;
const DIRECTORIES: usize = 3;
const NAMES: usize = 4;
const EFFORT: Recompression = Recompression::STANDARD;
/// Number of different chunks in all contents. It is small, so that contents share chunks.
const CHUNKS: u64 = 40;

/// Content of a file, as the numbers of its chunks.
type Content = Vec<u64>;

/// A restore. The chunks that it has selected must be readable until it ends.
struct Reader {
    _reading: Use,
    wanted: Vec<(Vec<Place>, Content)>,
}

/// A backup that has stored data and not yet committed the page that names it.
struct Filler {
    _filling: Use,
    directory: usize,
    name: usize,
    content: Content,
    stored: StoredQuantum,
}

/// The contents that must be in the catalogue, and readable.
#[derive(Default)]
struct Model {
    active: BTreeMap<(usize, usize), Content>,
    /// Inactive versions by directory, name and end.
    ended: BTreeMap<(usize, usize, i64), Content>,
    trash: Vec<(u64, Content)>,
}

struct World {
    store: Arc<Store>,
    folder: PathBuf,
    config: Config,
    node: Node,
    filespace: FilespaceId,
    random: Random,
    now: i64,
    model: Model,
    readers: Vec<Reader>,
    fillers: Vec<Filler>,
}

fn directory(index: usize) -> DirPath {
    DirPath::new([&b"/"[..], b"/a/", b"/a/b/"][index]).expect("a directory")
}

fn name(index: usize) -> Name {
    Name::new(format!("n{index}").as_bytes()).expect("a name")
}

fn object(index: usize, places: &[Place], content: &Content) -> Object {
    let size = content.iter().map(|number| chunk(*number).len() as u64).sum();
    let mut extents = Vec::new();
    places.iter().for_each(|place| push_chunk(&mut extents, *place));
    samples::file(name(index), ClassId(1), size, extents)
}

impl World {
    fn new(folder: PathBuf, seed: u64) -> Self {
        let config = samples::server(&folder);
        let store = Arc::new(Store::open_alone(&folder, &config).expect("opens"));
        let node_name = NodeName::new("a").expect("a name");
        let now = ServerTime(1);
        let node = store.catalog.add_node(&node_name, policy::STANDARD, now).expect("added");
        let filespace = store.catalog.open_filespace(node.id, b"/", now).expect("made").id;
        Self {
            store,
            folder,
            config,
            node,
            filespace,
            random: Random::new(seed),
            now: 1000,
            model: Model::default(),
            readers: Vec::new(),
            fillers: Vec::new(),
        }
    }

    /// Adds a next pool for the first pool, and a copy pool.
    fn add_pools(&self) {
        let put = |name: &str, is_copy| {
            let url = format!("file://{}", self.folder.join(name).display());
            let name = name.to_owned();
            let new = pools::NewPool { name, url, is_copy, ..pools::NewPool::default() };
            pools::add(&self.store, &new).expect("is made");
        };
        put("NEXT", false);
        put("COPIES", true);
        let next = Some(Some("NEXT".to_owned()));
        let settings = pools::PoolSettings { next, ..pools::PoolSettings::default() };
        let name = "PRIMARY".to_owned();
        let change = pools::PoolChange { name, settings, ..pools::PoolChange::default() };
        pools::change(&self.store, &change).expect("is changed");
    }

    /// Checks that the newest copy of the catalogue and all chunks that it names still exist. Then
    /// makes another copy.
    fn copy_catalog(&self) {
        if let Some(copy) = catalog_copy::all(&self.store).pop() {
            for place in self.named_by(&copy) {
                self.store.pools.chunk(place).expect("a chunk that a copy names stays");
            }
        }
        self.compare_copies();
        let made = catalog_copy::run(&self.store, Default::default(), &mut |_| true);
        let ended = made.map(|_| ());
        // `Busy` means that a reclamation is making another copy.
        assert!(matches!(ended, Ok(()) | Err(StoreError::Busy(_))), "{ended:?}");
    }

    /// Checks that the copy pool has all packs that its newest copy of the catalogue names. So the
    /// copy pool alone is enough if all others are lost.
    fn compare_copies(&self) {
        let rows = self.store.catalog.pools().expect("are listed");
        let pool = rows.iter().find(|row| row.is_copy).expect("there is one").id;
        let files = self.store.pools.files(pool).expect("are listed");
        let Some(newest) = files.last() else { return };
        let bytes = self.store.pools.read_file(pool, newest).expect("is read");
        let copy = CatalogCopy::decode(&bytes).expect("is whole");
        let there = self.store.pools.packs_of(pool);
        assert!(copy.places.iter().all(|place| there.contains_key(&place.pack())));
        for place in self.named_by(&copy) {
            assert!(there.contains_key(&place.pack()), "{place:?} has no second copy");
        }
    }

    /// Returns the places that the pages in a copy of the catalogue name.
    fn named_by(&self, copy: &CatalogCopy) -> Vec<Place> {
        let path = self.folder.join("restored");
        drop(std::fs::remove_file(&path));
        catalog_copy::restore(&self.store.pools, copy, &path).expect("is whole");
        let old = catalog::sqlite::Sqlite::open(&path).expect("a catalogue");
        let everything = PageSpan::Subtree(DirPath::above_root());
        let pages = catalog::Pages::pages(&old, self.filespace, &everything, None, 99);
        let objects = pages
            .expect("are read")
            .into_iter()
            .flat_map(|page| decode_page(&page).expect("a page"));
        objects.flat_map(|object| places(&object).collect::<Vec<_>>()).collect()
    }

    /// Copies the catalogue, copies packs or drains pools. A run over packs may be cancelled at any
    /// point.
    fn tend(&mut self) {
        if self.random.below(3) == 0 {
            return self.copy_catalog();
        }
        let cancels = self.random.below(4) == 0;
        let store = Arc::clone(&self.store);
        let mut go_on = |_: &pools::Outcome| !cancels || self.random.below(3) > 0;
        let outcome = match store.pools.horizon().0 % 3 {
            0 => pools::copy(&store, "", &mut go_on),
            1 => pools::drain(&store, "PRIMARY", true, &mut go_on),
            _ => match pools::drain_anew(&store, "PRIMARY", true, EFFORT, &mut go_on) {
                // The step is part of a reclamation.
                Err(StoreError::Busy(_)) => return,
                outcome => outcome,
            },
        };
        let ended = outcome.map(|_| ());
        assert!(matches!(ended, Ok(()) | Err(StoreError::Cancelled(_))), "{ended:?}");
    }

    fn content(&mut self) -> Content {
        let length = 1 + self.random.below(6);
        (0..length).map(|_| self.random.below(CHUNKS)).collect()
    }

    fn store(&self, content: &Content) -> StoredQuantum {
        samples::stored(&self.store, content)
    }

    fn begin(&mut self) {
        let filling = self.store.use_packs(true);
        let content = self.content();
        let stored = self.store(&content);
        let directory = self.random.index(DIRECTORIES);
        let name = self.random.index(NAMES);
        self.fillers
            .push(Filler { _filling: filling, directory, name, content, stored });
    }

    /// Commits the page for the data of a backup. Stores the data again if its pack is condemned.
    fn commit(&mut self, filler: Filler) {
        let Filler { directory: at, name: index, content, stored, .. } = filler;
        let condemned = self.store.condemned();
        let is_condemned = stored.places.iter().any(|p| condemned.holds(p.pack()));
        drop(condemned);
        let places = if is_condemned { self.store(&content).places } else { stored.places };
        let condemned = self.store.condemned();
        assert!(!places.iter().any(|place| condemned.holds(place.pack())));
        self.now += 1;
        let change =
            Change { backed_up: vec![object(index, &places, &content)], ..Change::default() };
        self.change(at, change);
        if let Some(old) = self.model.active.insert((at, index), content) {
            self.model.ended.insert((at, index, self.now), old);
        }
        drop(condemned);
    }

    fn change(&self, at: usize, mut change: Change) {
        let key = PageKey::first_of(directory(at));
        let page = self.store.catalog.page(self.filespace, &key).expect("is read");
        let current = page.map_or(Vec::new(), |row| decode_page(&row).expect("a page"));
        change.pages = vec![PageStart::default()];
        let now = ServerTime(self.now);
        let changed = apply(&key, current, change, now).expect("it fits");
        let writes = writes(self.filespace, &key.directory, changed, now);
        self.store.commit(writes).expect("is performed");
    }

    fn delete(&mut self) {
        let at = self.random.index(DIRECTORIES);
        let index = self.random.index(NAMES);
        let Some(old) = self.model.active.remove(&(at, index)) else { return };
        self.now += 1;
        self.change(at, Change { expired: vec![name(index)], ..Change::default() });
        self.model.ended.insert((at, index, self.now), old);
    }

    fn rows(&self, at: usize) -> Vec<VersionRow> {
        self.store.catalog.versions(self.filespace, &directory(at)).expect("are read")
    }

    /// Drops an inactive version. If `keeps` is true, moves it to the trash of a deletion.
    fn end(&mut self, keeps: bool) {
        let all: Vec<_> = self.model.ended.keys().copied().collect();
        let Some(&key) = all.get(self.random.index(all.len().max(1))) else {
            return;
        };
        let (at, index, end) = key;
        let content = self.model.ended.remove(&key).expect("one of them");
        let is_it = |row: &&VersionRow| row.name == name(index) && row.deactivated.0 == end;
        let row = self.rows(at).iter().find(is_it).cloned().expect("it is stored");
        let VersionRow { name, inserted, deactivated, .. } = row.clone();
        let versions = vec![VersionKey { name, inserted, deactivated }];
        let (filespace, path) = (self.filespace, directory(at));
        let mut writes = vec![Write::DropVersions { filespace, directory: path, versions }];
        if keeps {
            let time = ServerTime(self.now);
            let deletion =
                self.store.catalog.add_deletion(self.node.id, "", time).expect("is made");
            writes.push(Write::Trash { deletion, filespace, version: row });
            self.model.trash.push((deletion, content));
        }
        self.store.commit(writes).expect("is performed");
    }

    fn empty_trash(&mut self) {
        if !self.model.trash.is_empty() {
            let (deletion, _) = self.model.trash.swap_remove(0);
            self.store.commit(vec![Write::EmptyTrash { deletion }]).expect("is performed");
        }
    }

    fn begin_to_read(&mut self) {
        let reading = self.store.use_packs(false);
        let mut wanted = Vec::new();
        for (at, index, content) in self
            .model
            .active
            .iter()
            .map(|((at, index), content)| (*at, *index, content.clone()))
        {
            wanted.push((self.active_places(at, index), content));
        }
        self.readers.push(Reader { _reading: reading, wanted });
    }

    fn active_places(&self, at: usize, index: usize) -> Vec<Place> {
        let key = PageKey::first_of(directory(at));
        let row = self.store.catalog.page(self.filespace, &key).expect("is read").expect("a page");
        let objects = decode_page(&row).expect("a page");
        let found = objects.iter().find(|object| object.name == name(index)).expect("is active");
        places(found).collect()
    }

    /// Reads back the chunks at `places`, and compares them with the content.
    fn compare(&self, places: &[Place], content: &Content) {
        assert_eq!(places.len(), content.len());
        for (place, number) in places.iter().zip(content) {
            let table = self.store.pools.table(place.pack()).expect("the pack exists");
            let at = table.quantum_of(place.index()).expect("the pack has the chunk");
            let quantum = table.quanta()[at];
            let record = self.store.pools.read(place.pack(), &quantum).expect("is whole");
            let raw = Decompressor::new().expect("a context").decode(&record).expect("is whole");
            let found = raw.chunks().nth((place.index() - quantum.first_index) as usize);
            assert!(found == Some(&chunk(*number)[..]), "chunk {number} at {place:?}");
        }
    }

    fn compare_all(&self) {
        for ((at, index), content) in &self.model.active {
            self.compare(&self.active_places(*at, *index), content);
        }
        for at in 0..DIRECTORIES {
            let expected: Vec<_> =
                self.model.ended.iter().filter(|((of, ..), _)| *of == at).collect();
            let rows = self.rows(at);
            assert_eq!(rows.len(), expected.len());
            for ((_, index, end), content) in expected {
                let is_it =
                    |row: &&VersionRow| row.name == name(*index) && row.deactivated.0 == *end;
                let row = rows.iter().find(is_it).expect("it is stored");
                let objects: Vec<Object> = page::decode(&row.body).expect("a page");
                self.compare(&places(&objects[0]).collect::<Vec<_>>(), content);
            }
        }
        for (deletion, content) in &self.model.trash {
            let rows = self.store.catalog.trash(*deletion, 0, 9).expect("is read");
            let objects: Vec<Object> = page::decode(&rows[0].version.body).expect("a page");
            self.compare(&places(&objects[0]).collect::<Vec<_>>(), content);
        }
    }

    /// Performs one random step of the work that goes on during a reclamation.
    fn live(&mut self) {
        match self.random.below(13) {
            12 => self.tend(),
            0..=3 => self.begin(),
            4..=6 if !self.fillers.is_empty() => {
                let at = self.random.index(self.fillers.len());
                let filler = self.fillers.swap_remove(at);
                self.commit(filler);
            }
            7 => self.delete(),
            8 => self.end(false),
            9 => self.end(true),
            10 => self.empty_trash(),
            _ if self.random.below(2) == 0 => self.begin_to_read(),
            _ => {
                for reader in std::mem::take(&mut self.readers) {
                    reader
                        .wanted
                        .iter()
                        .for_each(|(places, content)| self.compare(places, content));
                }
            }
        }
    }

    /// Runs a reclamation while other work goes on. The run may be cancelled at any point.
    fn reclaim(&mut self) {
        let cancels = self.random.below(4) == 0;
        let dead_percent = [1, 30, 60][self.random.index(3)];
        let store = Arc::clone(&self.store);
        let recompress = [None, Some(EFFORT)][self.random.index(2)];
        let order = Order { is_dry: false, dead_percent, recompress };
        let outcome = run(&store, order, &mut |_| {
            for _ in 0..self.random.below(3) {
                self.live();
            }
            !cancels || self.random.below(6) > 0
        });
        let ended = outcome.map(|_| ());
        assert!(matches!(ended, Ok(()) | Err(StoreError::Cancelled(_))), "{ended:?}");
    }

    /// Opens the server again as after a kill: all data that was not committed is lost.
    fn kill(&mut self) {
        self.readers.clear();
        self.fillers.clear();
        self.store.ownership.die();
        let store = Arc::new(Store::open_alone(&self.folder, &self.config).expect("opens again"));
        let dead = std::mem::replace(&mut self.store, store);
        // Dropping a store writes some of its data. A forgotten store only keeps its files open.
        if self.random.below(8) == 0 {
            std::mem::forget(dead);
        }
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..=2 => self.reclaim(),
            3 => self.kill(),
            4..=6 => {
                self.store.pools.seal_all().expect("is sealed");
                self.store.commit(Vec::new()).expect("is recorded");
            }
            _ => self.live(),
        }
    }
}

fn history(seed: u64) {
    let folder = tempfile::tempdir_in(samples::memory()).expect("a folder");
    let mut world = World::new(folder.path().join("server"), seed);
    world.add_pools();
    for _ in 0..STEPS {
        world.step();
        world.compare_all();
    }
    // After all objects were removed, no pack may be left.
    world.kill();
    for at in 0..DIRECTORIES {
        let expired = (0..NAMES).map(name).collect();
        world.now += 1;
        world.change(at, Change { expired, ..Change::default() });
        let rows = world.rows(at).into_iter();
        let key = |row: VersionRow| {
            let VersionRow { name, inserted, deactivated, .. } = row;
            VersionKey { name, inserted, deactivated }
        };
        let (filespace, versions) = (world.filespace, rows.map(key).collect());
        let drop = Write::DropVersions { filespace, directory: directory(at), versions };
        world.store.commit(vec![drop]).expect("is performed");
    }
    while !world.model.trash.is_empty() {
        world.empty_trash();
    }
    for pool in world.store.pools.present() {
        for file in world.store.pools.files(pool).expect("are listed") {
            world.store.pools.remove_file(pool, &file).expect("is removed");
        }
    }
    world.store.pools.seal_all().expect("is sealed");
    let order = Order { is_dry: false, dead_percent: 50, recompress: None };
    run(&world.store, order, &mut |_| true).expect("runs");
    assert_eq!(world.store.pools.sealed(), [], "seed {seed}");
    pools::copy(&world.store, "", &mut |_| true).expect("no pack is missing");
    for row in world.store.catalog.pools().expect("are listed") {
        assert!(world.store.pools.packs_of(row.id).is_empty(), "seed {seed}: pool {}", row.name);
    }
}

#[test]
fn what_is_named_stays_readable_whatever_happens() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("HOLDFAST_SEED") {
        return history(seed);
    }
    sys::process::raise_open_files();
    for seed in 0..number("HOLDFAST_SEEDS").unwrap_or(SEEDS) {
        let outcome = std::panic::catch_unwind(|| history(seed));
        assert!(outcome.is_ok(), "set HOLDFAST_SEED={seed} to repeat this failure alone");
    }
}

impl World {
    /// Backs up the file with this index, which has six chunks of its own.
    fn back_up_own(&mut self, index: usize) {
        let content: Content = (0..6).map(|offset| (index * 6 + offset) as u64).collect();
        let stored = self.store(&content);
        let filling = self.store.use_packs(true);
        let filler = Filler { _filling: filling, directory: 0, name: index, content, stored };
        self.commit(filler);
    }

    /// Drops all versions of the files with an even index.
    fn drop_even(&mut self) {
        self.now += 1;
        self.change(0, Change { expired: vec![name(0), name(2)], ..Change::default() });
        self.model.active.retain(|(_, index), _| index % 2 == 1);
        let rows = self.rows(0);
        let key = |row: &VersionRow| VersionKey {
            name: row.name.clone(),
            inserted: row.inserted,
            deactivated: row.deactivated,
        };
        let (filespace, versions) = (self.filespace, rows.iter().map(key).collect());
        let drop = Write::DropVersions { filespace, directory: directory(0), versions };
        self.store.commit(vec![drop]).expect("is performed");
    }
}

/// On a full disk nothing can be written again. Packs without live data are removed all the same.
#[test]
fn a_full_disk_becomes_emptier_without_room_for_live_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path().join("server"), 1);
    world.back_up_own(0);
    world.store.pools.seal_all().expect("is sealed");
    (1..3).for_each(|index| world.back_up_own(index));
    world.store.pools.seal_all().expect("is sealed");
    world.drop_even();
    world
        .store
        .pools
        .keep_reserve(pool::Reserve { percent: 200, bytes_max: u64::MAX });
    let order = Order { is_dry: false, dead_percent: 30, recompress: None };
    let full = run(&world.store, order, &mut |_| true).expect("runs");
    assert_eq!((full.packs_rewritten, full.packs_removed), (0, 1));
    world.compare_all();
    // A run that could free nothing at all said that it had removed nothing, and not why.
    let stuck = run(&world.store, order, &mut |_| true);
    let says_why = |text: &str| text.contains("no pool has room to write live data again");
    assert!(matches!(&stuck, Err(StoreError::NoSpace(text)) if says_why(text)), "{stuck:?}");
    world.store.pools.keep_reserve(pool::Reserve::default());
    let outcome = run(&world.store, order, &mut |_| true).expect("runs");
    assert_eq!((outcome.packs_rewritten, outcome.packs_removed), (1, 1));
    world.compare_all();
}

/// A full pool kept the data of refused backups in its open pack until the server was restarted.
#[test]
fn an_open_pack_is_reclaimed_where_room_is_short() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path().join("server"), 1);
    let order = Order { is_dry: false, dead_percent: 50, recompress: None };
    [0, 2].into_iter().for_each(|index| world.back_up_own(index));
    world.drop_even();
    let capacity = Some(Some(1 << 20));
    let settings = pools::PoolSettings { capacity, ..pools::PoolSettings::default() };
    let name = "PRIMARY".to_owned();
    let change = pools::PoolChange { name, settings, ..pools::PoolChange::default() };
    pools::change(&world.store, &change).expect("is changed");
    assert_eq!(world.store.pools.sealed(), [], "the pack is open");
    let outcome = run(&world.store, order, &mut |_| true).expect("runs");
    assert_eq!((outcome.packs_removed, outcome.packs_waiting), (1, 0));
    assert!(world.store.pools.primary_packs().is_empty());
    world.back_up_own(1);
    world.compare_all();
}

#[test]
fn what_is_alive_in_a_sparse_pack_moves_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path().join("server"), 1);
    (0..NAMES).for_each(|index| world.back_up_own(index));
    world.store.pools.seal_all().expect("is sealed");
    world.drop_even();
    let dry =
        run(&world.store, Order { is_dry: true, dead_percent: 30, recompress: None }, &mut |_| {
            true
        });
    let dry = dry.expect("counts");
    assert!(dry.dead_bytes > 0 && dry.packs_removed == 0);
    let order = Order { is_dry: false, dead_percent: 30, recompress: None };
    let outcome = run(&world.store, order, &mut |_| true).expect("runs");
    assert_eq!((outcome.packs_rewritten, outcome.packs_removed), (1, 1));
    world.compare_all();
    let [first, second] = [1, 3].map(|index| world.active_places(0, index));
    assert_eq!(first[0].pack(), second[0].pack());
    assert_eq!(second[0].index(), first[0].index() + 6, "in the order of the filespace");
    let again = run(&world.store, order, &mut |_| true).expect("runs");
    assert_eq!((again.packs_rewritten, again.packs_removed), (0, 0));
}
