//! A server whose folder and pools lie on a simulated disk.

mod disks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{Node, PackState, PageKey};
use chunk::Decompressor;
use disk::{Disk, Fault, History, Loss};
use format::page;
use model::{DirPath, FilespaceId, Name, NodeName, Object, ServerTime};

use super::expectation::{Content, FileId, Model, Versions};
use super::step::{CHUNKS, DIRECTORIES, Event, Files, NAMES, SECOND, Step, Work};
use crate::error::StoreError;
use crate::folder::database::check_catalog;
use crate::folder::{Config, Credentials};
use crate::intake::{Intake, PageChange, StoredQuantum, take_in};
use crate::lifecycle::{audit, catalog_check, catalog_copy, expire, reclaim, recovery};
use crate::pages::decode_page;
use crate::places::places;
use crate::pools::{self, NewPool, PoolChange, PoolSettings};
use crate::samples::{self, chunk, page_change, sent_file};
use crate::store::{DOMAIN, Store, known_copies};

/// Time after which nothing keeps a version that has ended, in seconds.
const LONG_SECS: i64 = 400 * 24 * 3600;
/// Number of events that are looked at.
const EVENTS_MAX: usize = 10_000;

/// A server, and what it must have.
pub(super) struct World {
    /// A backup that has stored its data and has not committed.
    pending: Option<OpenBackup>,
    /// Files of the pending backup whose commit was attempted last.
    finished: Option<Files>,
    /// The running server. It is dropped before its disk.
    store: Option<Arc<Store>>,
    pub(super) disk: Disk,
    /// Folder that is on no simulated disk.
    outside: tempfile::TempDir,
    node: Node,
    filespaces: [FilespaceId; 2],
    recovery_file: String,
    standing: Standing,
    /// True from an operation that failed to the next start: the server may refuse work.
    is_hurt: bool,
    /// True if the step under way has put an older catalogue back, with which the history of the
    /// disk begins anew.
    has_put_back: bool,
}

/// A backup under way.
struct OpenBackup {
    intake: Intake,
    quanta: Vec<(u64, StoredQuantum)>,
    files: Files,
}

/// All that changes with the history and is not on the disk.
#[derive(Clone)]
pub(super) struct Standing {
    /// Folder of the server.
    folder: PathBuf,
    /// Number of folders of servers so far.
    folder_count: u32,
    model: Model,
    copies: Option<Copies>,
    /// True while a recovery or a rebuilding of the catalogue is under way.
    is_recovering: bool,
    /// True while the server may have an older catalogue.
    has_older: bool,
}

/// Copies of the catalogue.
#[derive(Clone)]
struct Copies {
    /// Number of the newest copy that was acknowledged.
    number: u64,
    /// States of the catalogue since then. A copy that reclamation makes has one of these states.
    model: Model,
}

impl Standing {
    /// Returns the standing of a server that was interrupted between `self` and `after`.
    pub(super) fn or(&self, after: &Self) -> Self {
        let is_recovering =
            self.folder != after.folder || self.is_recovering || after.is_recovering;
        let model = self.model.or(&after.model);
        let copies = self
            .copies
            .clone()
            .map(|copies| Copies { model: copies.model.or(&model), ..copies });
        Self { model, copies, is_recovering, ..after.clone() }
    }
}

fn directory(index: usize) -> DirPath {
    DirPath::new([&b"/"[..], b"/a/", b"/a/b/"][index]).expect("a directory")
}

/// Name of the filespace with this directory.
fn filespace(directory: usize) -> &'static [u8] {
    if directory == SECOND { b"/second" } else { b"/" }
}

fn name(index: usize) -> Name {
    samples::name(&format!("n{index}"))
}

fn name_index(name: &Name) -> usize {
    (0..NAMES).find(|index| self::name(*index) == *name).expect("a known name")
}

fn away(error: &dyn std::error::Error) -> StoreError {
    StoreError::away(model::chain(error))
}

impl World {
    /// Makes a server with three pools, which survives a power cut.
    pub(super) fn new() -> Self {
        let outside = tempfile::tempdir_in(samples::memory()).expect("a folder");
        let mut disk = Disk::new(&outside.path().join("disk"));
        let folder = disk.root().join("server0");
        let config = make(&folder, disk.root());
        let store = Arc::new(Store::open_alone(&folder, &config).expect("opens"));
        let (node_name, time) = (NodeName::new("a").expect("a name"), ServerTime(1));
        let node = store.catalog.add_node(&node_name, policy::STANDARD, time).expect("added");
        let filespaces = [0, SECOND]
            .map(|at| store.catalog.open_filespace(node.id, filespace(at), time).expect("made").id);
        add_pools(&store, disk.root());
        drop(store);
        let recovery_file = recovery::export(&folder).expect("is a server");
        disk.cut(disk.position(), Loss::Nothing);
        let mut world = Self {
            disk,
            outside,
            store: None,
            pending: None,
            finished: None,
            node,
            filespaces,
            recovery_file,
            standing: Standing {
                folder,
                folder_count: 1,
                model: Model::default(),
                copies: None,
                is_recovering: false,
                has_older: false,
            },
            is_hurt: false,
            has_put_back: false,
        };
        world.start();
        world
    }

    fn store(&self) -> Result<&Arc<Store>, StoreError> {
        self.store.as_ref().ok_or_else(|| StoreError::away("the server is not running"))
    }

    /// Performs a step, and checks the server after a power cut.
    pub(super) fn perform(&mut self, step: &Step) {
        let (before, begin) = (self.standing.clone(), self.disk.position());
        self.has_put_back = false;
        if let Event::Fault(fault) = step.event {
            self.disk.plan(fault);
        }
        self.perform_work(&step.work);
        self.disk.relieve();
        if let Event::PowerCut { part, at_sync, loss } = step.event {
            let end = self.disk.position();
            let begin = if self.has_put_back { 0 } else { begin };
            let position = self.position(begin, end, part, at_sync);
            if position < end && self.has_put_back {
                // The copy of the newer catalogue was acknowledged before.
                self.standing.has_older = true;
                self.standing.is_recovering = true;
            } else if position < end {
                self.standing = before.or(&self.standing);
                self.standing.is_recovering |= step.work == Work::Rebuild;
            }
            self.cut(position, loss);
        } else if self.store.is_none() {
            self.start();
        }
    }

    /// Performs work, and takes note of what the server has acknowledged. Returns true if it has
    /// acknowledged the work.
    pub(super) fn perform_work(&mut self, work: &Work) -> bool {
        let before = self.standing.clone();
        let outcome = self.work(work);
        self.is_hurt |= self.disk.has_failed();
        // A test that fails shows its output.
        println!("{work:?}: {outcome:?}");
        if super::number("HOLDFAST_FAULT").is_some()
            && let Some(stack) = self.disk.failed_at().filter(|_| self.disk.has_failed())
        {
            println!("the operation that failed:\n{stack}");
        }
        let after = self.effect(&before.model, work);
        self.standing.model = match &outcome {
            Ok(()) => after,
            Err(error) => {
                assert!(self.is_hurt, "{work:?} fails without a fault: {error}");
                before.model.or(&after)
            }
        };
        let model = &self.standing.model;
        if let Some(copies) = &mut self.standing.copies {
            copies.model = copies.model.or(model);
        }
        outcome.is_ok()
    }

    /// Chooses the position of a power cut.
    fn position(&self, begin: usize, end: usize, part: u64, at_sync: bool) -> usize {
        let part = usize::try_from(part).expect("at most 1000");
        let position = begin + (end - begin) * part / 1000;
        if !at_sync {
            return position;
        }
        let syncs = self.disk.history().syncs();
        syncs.into_iter().find(|sync| *sync >= position).unwrap_or(end)
    }

    /// Returns the model after `work`.
    fn effect(&mut self, before: &Model, work: &Work) -> Model {
        let mut after = before.clone();
        let mut store = |directory, files: &Files| {
            for (name, content) in files {
                after.replace(FileId { directory, name: *name }, Some(content.clone()));
            }
        };
        match work {
            Work::BackUp { directory, files } => store(*directory, files),
            Work::Finish => store(SECOND, &self.finished.take().unwrap_or_default()),
            Work::Remove { directory, names } => {
                for name in names {
                    after.replace(FileId { directory: *directory, name: *name }, None);
                }
            }
            Work::Expire => after.expire(),
            Work::Recover | Work::Rebuild => {
                if let Some(copies) = &self.standing.copies {
                    after = copies.model.or(before);
                }
            }
            _ => {}
        }
        after
    }

    fn work(&mut self, work: &Work) -> Result<(), StoreError> {
        let everything = reclaim::Order { is_dry: false, dead_percent: 30, recompress: None };
        match work {
            Work::BackUp { directory: SECOND, .. } | Work::Remove { directory: SECOND, .. }
                if self.pending.is_some() =>
            {
                // A filespace has one backup at a time.
                self.pending = None;
                self.work(work)
            }
            Work::BackUp { directory, files } => self.back_up(*directory, files, &[]),
            Work::Remove { directory, names } => self.back_up(*directory, &Vec::new(), names),
            Work::Begin { files } => {
                self.pending = None;
                self.pending = Some(self.begin(SECOND, files)?);
                Ok(())
            }
            Work::Finish => self.finish(),
            Work::Expire => self.expire(),
            Work::Reclaim => reclaim::run(self.store()?, everything, &mut |_| true).map(drop),
            Work::CopyPacks => pools::copy(self.store()?, "", &mut |_| true).map(drop),
            Work::Drain => pools::drain(self.store()?, "PRIMARY", true, &mut |_| true).map(drop),
            Work::CopyCatalog => self.copy_catalog(),
            Work::Audit => {
                let order = audit::Order { data: true, rate: None };
                audit::run(self.store()?, order, &mut |_| true).map(drop)
            }
            Work::Restart => self.restart(),
            Work::SecondServer => self.start_second(),
            Work::Recover if self.standing.copies.is_some() => self.recover(),
            Work::Rebuild if self.standing.copies.is_some() => self.rebuild(),
            Work::Recover | Work::Rebuild => Ok(()),
            Work::OlderCatalog { part, is_released } => self.use_older_catalog(*part, *is_released),
            Work::PoolAway { pool, is_killed } => self.lack_pool(pool, *is_killed),
        }
    }

    /// Backs up `files`, and finds the files `gone` gone.
    fn back_up(&self, directory: usize, files: &Files, gone: &[usize]) -> Result<(), StoreError> {
        let mut pending = self.begin(directory, files)?;
        commit(&mut pending, directory, gone)
    }

    /// Begins a backup in a session of its own, and stores its data.
    fn begin(&self, directory: usize, files: &Files) -> Result<OpenBackup, StoreError> {
        let store = self.store()?;
        let intake = Intake::open(store, self.node.clone(), filespace(directory))?;
        let mut quanta = Vec::new();
        for (number, (_, chunks)) in (1..).zip(files) {
            let quantum = samples::quantum(store, chunks);
            let stored = take_in(store, intake.origin(), samples::received(&quantum))?;
            quanta.push((number, stored));
        }
        Ok(OpenBackup { intake, quanta, files: files.clone() })
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        let Some(mut pending) = self.pending.take() else { return Ok(()) };
        self.finished = Some(pending.files.clone());
        commit(&mut pending, SECOND, &[])
    }

    /// Ends the server as its process ends, without an orderly stop.
    fn drop_server(&mut self) -> Option<Arc<Store>> {
        self.pending = None;
        self.store.take()
    }

    fn expire(&self) -> Result<(), StoreError> {
        let store = self.store()?;
        let now = ServerTime::from_secs(sys::clock::now().secs() + LONG_SECS);
        let order = expire::Order { now, ..expire::Order::due() };
        expire::run(store, &store.catalog.nodes()?, order, &mut |_| true).map(drop)
    }

    fn copy_catalog(&mut self) -> Result<(), StoreError> {
        let outcome = catalog_copy::run(self.store()?, Default::default(), &mut |_| true)?;
        if let Some(doubt) = outcome.doubt {
            assert!(self.is_hurt || self.disk.has_failed(), "the catalogue is sound: {doubt}");
            return Err(StoreError::away(doubt));
        }
        self.standing.copies =
            Some(Copies { number: outcome.number, model: self.standing.model.clone() });
        Ok(())
    }

    fn open(&mut self) -> Result<(), StoreError> {
        assert!(self.store.is_none(), "one server at a time");
        let config = Config::load(&self.standing.folder).map_err(|error| away(&error))?;
        check_catalog(&config, &self.standing.folder)?;
        let store =
            Store::open_alone(&self.standing.folder, &config).map_err(|error| away(&error))?;
        self.store = Some(Arc::new(store));
        Ok(())
    }

    fn restart(&mut self) -> Result<(), StoreError> {
        let store = self.drop_server();
        let closed = store.map_or(Ok(()), |store| store.close());
        self.open()?;
        self.is_hurt = false;
        closed
    }

    /// Starts a second server in the server's folder, and a third in a copy of the folder.
    fn start_second(&self) -> Result<(), StoreError> {
        let config = self.store()?.config.clone();
        let copy = self.outside.path().join("copy");
        drop(std::fs::remove_dir_all(&copy));
        copy_folder(&self.standing.folder, &copy).map_err(|error| away(&error))?;
        for folder in [&self.standing.folder, &copy] {
            let second = Store::open_alone(folder, &config);
            assert!(second.is_err(), "a second server starts in {}", folder.display());
        }
        Ok(())
    }

    /// Makes the server again in another folder, as on another machine.
    fn recover(&mut self) -> Result<(), StoreError> {
        drop(self.drop_server());
        self.standing.is_recovering = true;
        let old = self.take_folder();
        let report = recovery::recover(&self.standing.folder, &self.recovery_file, &[]);
        self.judge(&report.map_err(|error| away(&error))?)?;
        self.open()?;
        recovery::release(self.store()?)?;
        self.standing.is_recovering = false;
        if let Ok(config) = Config::load(&old) {
            let old_server = Store::open_alone(&old, &config);
            assert!(old_server.is_err(), "the old server starts beside the recovered server");
        }
        Ok(())
    }

    fn rebuild(&mut self) -> Result<(), StoreError> {
        drop(self.drop_server());
        self.standing.is_recovering = true;
        let report = recovery::rebuild(&self.standing.folder, &[]);
        self.judge(&report.map_err(|error| away(&error))?)?;
        self.open()?;
        recovery::release(self.store()?)?;
        self.standing.is_recovering = false;
        self.standing.has_older = false;
        Ok(())
    }

    /// Fails if the report shows that data is missing. Then the administrator recovers the server
    /// again, because the fault of the disk has gone.
    fn judge(&mut self, report: &recovery::RecoveryReport) -> Result<(), StoreError> {
        let has_failed = self.is_hurt || self.disk.has_failed();
        let lacks = report.copy.is_none() || report.victims.count > 0 || !report.damaged.is_empty();
        if !lacks && (report.passed_over.is_empty() || !has_failed) {
            return Ok(());
        }
        assert!(has_failed, "data is missing without a fault: {report:?}");
        self.take_folder();
        Err(StoreError::away(format!("{report:?}")))
    }

    /// Takes a new folder for the server. Returns the old folder.
    fn take_folder(&mut self) -> PathBuf {
        let new = self.disk.root().join(format!("server{}", self.standing.folder_count));
        self.standing.folder_count += 1;
        std::mem::replace(&mut self.standing.folder, new)
    }

    /// Cuts the power after the first `position` changes, starts the server again and checks it.
    pub(super) fn cut(&mut self, position: usize, loss: Loss) {
        // The rest of the process dies without any trace on the disk.
        drop(self.drop_server());
        self.disk.cut(position, loss);
        self.start();
        self.check();
    }

    /// Starts the server, which must succeed. A recovery that was interrupted begins again. An
    /// older catalogue gives way to the newer one.
    fn start(&mut self) {
        self.is_hurt = false;
        self.bring_pools_back().expect("nothing fails");
        let mut opened = self.open();
        if opened.is_err() && self.standing.is_recovering {
            let has_folder = Config::load(&self.standing.folder).is_ok();
            opened = if has_folder { self.rebuild() } else { self.recover() };
        } else if self.standing.has_older {
            opened = opened.and_then(|()| self.rebuild());
        }
        assert_eq!(opened, Ok(()), "the server does not start");
        let store = self.store().expect("it runs");
        if store.check_released().is_err() {
            recovery::release(store).expect("the hold ends");
        }
        self.standing.is_recovering = false;
        self.standing.has_older = false;
    }

    /// Leaves of `history` what a power cut after `position` leaves, starts the server and checks
    /// it.
    pub(super) fn leave(
        &mut self,
        history: &History,
        position: usize,
        loss: Loss,
        standing: Standing,
    ) {
        drop(self.drop_server());
        self.standing = standing;
        self.disk.leave(history, position, loss);
        self.start();
        self.check();
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Seals all packs with a fault. Then the server closes the packs that have failed, or starts
    /// again.
    pub(super) fn seal_with(&mut self, fault: Fault, restarts: bool) {
        self.disk.plan(fault);
        let store = self.store().expect("it runs");
        // The fault may hit none of these operations.
        drop(store.pools.seal_all());
        if !restarts {
            store.pools.close_failed();
        }
        self.is_hurt |= self.disk.relieve();
        if restarts {
            assert!(self.perform_work(&Work::Restart), "the server starts again");
        }
    }

    /// Starts the server if it does not run.
    pub(super) fn start_again(&mut self) {
        if self.store.is_none() {
            self.start();
        }
    }

    /// Creates a server, cuts the power, and starts the server.
    pub(super) fn create_and_cut() {
        let outside = tempfile::tempdir_in(samples::memory()).expect("a folder");
        let mut disk = Disk::new(&outside.path().join("disk"));
        let folder = disk.root().join("server");
        let config = make(&folder, disk.root());
        disk.cut(disk.position(), Loss::Everything);
        Store::open_alone(&folder, &config).expect("opens");
    }

    /// True if the last work has put an older catalogue back.
    pub(super) fn has_put_back(&self) -> bool {
        self.has_put_back
    }

    /// True if a server runs.
    pub(super) fn runs(&self) -> bool {
        self.store.is_some()
    }

    /// Ends the history: the server stops, starts and reclaims, and still has everything.
    pub(super) fn end(&mut self, loss: Loss) {
        self.cut(self.disk.position(), loss);
        self.work(&Work::Reclaim).expect("reclaims");
        self.check();
        self.work(&Work::CopyCatalog).expect("copies");
        self.work(&Work::CopyPacks).expect("copies");
        self.work(&Work::Restart).expect("stops and starts");
        self.check();
    }

    /// Checks that the server has what it must have, and takes note of what it has.
    pub(super) fn check(&mut self) {
        let holding = self.holding().expect("everything that the catalogue names can be read");
        if let Some(objection) = self.standing.model.objection(&holding) {
            panic!("{objection}");
        }
        self.standing.model = Model::of(holding);
        let store = self.store().expect("it runs");
        crate::lifecycle::amounts::check(store);
        let order = audit::Order { data: true, rate: None };
        let audit = audit::run(store, order, &mut |_| true).expect("reads everything");
        assert_eq!(audit.damages, [], "the audit finds damage");
        assert_eq!(
            (audit.victims.count, &audit.catalog.faults, &audit.away),
            (0, &vec![], &vec![])
        );
        assert_eq!(audit.catalog.damaged_rows, 0);
        // An older catalogue that was put back has given way to the newer one.
        let events = store.catalog.events(None, EVENTS_MAX).expect("are listed");
        assert!(events.iter().all(|logged| logged.event.what != known_copies::OLDER));
        self.check_copies(store);
    }

    /// Checks that the newest copy of the catalogue is there and whole, with all packs that it
    /// names.
    fn check_copies(&self, store: &Store) {
        let Some(copies) = &self.standing.copies else { return };
        let mut sound = catalog_copy::all(store).into_iter().filter(|copy| !copy.is_doubtful);
        let newest = sound.next_back().expect("there is a copy");
        assert!(newest.number >= copies.number, "copy {} is lost", copies.number);
        let path = self.outside.path().join("restored");
        drop(std::fs::remove_file(&path));
        catalog_copy::restore(&store.pools, &newest, &path).expect("the copy is whole");
        let check = catalog_check::check(&path, None).expect("the copy can be read");
        assert!(check.is_sound(), "{check:?}");
        let old = catalog::sqlite::Sqlite::open(&path).expect("a catalogue");
        for number in catalog::Packs::packs(&old).expect("are listed") {
            if number.domain == DOMAIN && number.state == PackState::Sealed {
                store.pools.table(number.number).expect("a pack that a copy names stays");
            }
        }
    }

    /// Reads all versions back.
    fn holding(&self) -> Result<Versions, StoreError> {
        let store = self.store()?;
        let contents: BTreeMap<Vec<u8>, u64> = (0..CHUNKS).map(|n| (chunk(n), n)).collect();
        let mut holding = Versions::default();
        for at in 0..DIRECTORIES {
            let key = PageKey::first_of(directory(at));
            let filespace = self.filespaces[usize::from(at == SECOND)];
            let page = store.catalog.page(filespace, &key)?;
            let objects = page.map_or(Ok(Vec::new()), |row| decode_page(&row));
            for object in objects.expect("a page") {
                let file = FileId { directory: at, name: name_index(&object.name) };
                let content = read_back(store, &object, &contents);
                assert_eq!(holding.active.insert(file, content), None, "one active version");
            }
            for row in store.catalog.versions(filespace, &directory(at))? {
                let file = FileId { directory: at, name: name_index(&row.name) };
                let objects: Vec<Object> = page::decode(&row.body).expect("a page");
                let content = read_back(store, &objects[0], &contents);
                holding.ended.entry(file).or_default().push(content);
            }
        }
        Ok(holding)
    }
}

/// Commits a backup, and ends its session.
fn commit(pending: &mut OpenBackup, directory: usize, gone: &[usize]) -> Result<(), StoreError> {
    let OpenBackup { intake, quanta, files } = pending;
    let object = |(quantum, (index, chunks)): (u64, &(usize, Content))| {
        sent_file(name(*index), quantum, chunks)
    };
    let backed_up = (1..).zip(&*files).map(object).collect();
    let expired = gone.iter().map(|index| name(*index)).collect();
    let change = PageChange { backed_up, expired, ..change(directory) };
    let receipt = intake.commit(std::mem::take(quanta), &|_| Ok(vec![change.clone()]))?;
    if !receipt.rejected.is_empty() {
        return Err(StoreError::away(format!("rejected: {:?}", receipt.rejected)));
    }
    intake.close(true, "{}")
}

/// Reads the chunks of an object, and returns their numbers.
fn read_back(store: &Store, object: &Object, contents: &BTreeMap<Vec<u8>, u64>) -> Content {
    let number = |place: model::Place| {
        let table = store.pools.table(place.pack()).expect("the pack exists");
        let at = table.quantum_of(place.index()).expect("the pack has the chunk");
        let quantum = table.quanta()[at];
        let record = store.pools.read(place.pack(), &quantum).expect("is whole");
        let raw = Decompressor::new().expect("a context").decode(&record).expect("is whole");
        let bytes = raw.chunks().nth((place.index() - quantum.first_index) as usize);
        let bytes = bytes.expect("the quantum has the chunk");
        *contents.get(bytes).unwrap_or_else(|| panic!("{place:?} has other bytes"))
    };
    let content: Content = places(object).map(number).collect();
    assert_eq!(samples::bytes_of(&content), object.stat.size, "the file is whole");
    content
}

fn change(directory: usize) -> PageChange {
    let key = PageKey::first_of(self::directory(directory));
    PageChange { key, ..page_change("/") }
}

/// Creates a server whose first pool is beside its folder.
fn make(folder: &Path, root: &Path) -> Config {
    let credentials = Credentials { ca_certificate: String::new(), ca_key: String::new() };
    let pool = format!("file://{}", root.join("primary").display());
    let new =
        crate::NewServer { listen: "127.0.0.1:0", pool: Some(&pool), catalog: None, api: None };
    crate::init(folder, &credentials, new).expect("a server")
}

/// Adds a next pool for the first pool, and a copy pool.
fn add_pools(store: &Store, root: &Path) {
    let add = |name: &str, is_copy| {
        let url = format!("file://{}", root.join(name.to_lowercase()).display());
        let new = NewPool { name: name.to_owned(), url, is_copy, ..NewPool::default() };
        pools::add(store, &new).expect("is made");
    };
    add("NEXT", false);
    add("COPIES", true);
    let settings = PoolSettings { next: Some(Some("NEXT".to_owned())), ..PoolSettings::default() };
    let name = "PRIMARY".to_owned();
    let change = PoolChange { name, settings, ..PoolChange::default() };
    pools::change(store, &change).expect("is changed");
}

/// Copies the files of a server's folder, except the catalogue, which another thread may write.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let is_catalog = entry.file_name().as_encoded_bytes().starts_with(b"catalog");
        if entry.file_type()?.is_file() && !is_catalog {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
