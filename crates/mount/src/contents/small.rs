//! Contents of small files. A file that is read alone is fetched alone. The second file of a
//! directory brings those beside it. When a program walks through directories, the server sends the
//! contents of all files to come in one stream, as far as there is room for them.
//!
//! ```text
//!   find(file) --not there--> walk: three directories in order --> run: a thread, one stream
//!       ^                                                            |
//!       \------------------------ stock (bounded) <-----------------/
//! ```
//!
//! 1. No reader depends on a run: it waits for what is about to come, for a bounded time.
//! 2. A run offers the files in the order of their directories, and gets no further while the stock
//!    is full. If a reader waits then, what came first makes room.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{ObjectPlace, Reach, SmallFile, SmallFileSink};
use model::{DirPath, Name, Object};
use sys::lock::{Condvar, Mutex, MutexGuard};

use super::stock::Stock;
use crate::connection::Connection;
use crate::node::{VersionKey, View};
use crate::walk::{Place, Walk, is_ahead};

/// Maximum size of a small file.
pub(crate) const BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a file that comes with its directory.
const BESIDE_BYTES_MAX: u64 = 256 << 10;
/// Maximum total size of the files that come with a directory.
const DIRECTORY_BYTES_MAX: u64 = 8 << 20;
/// Maximum total size of the files that a run has asked for and that have not come.
const PROMISED_BYTES_MAX: u64 = 16 << 20;
/// Maximum time for which a reader waits for a file of a run.
const WAIT: Duration = Duration::from_secs(1);
/// Time after which a run ends if nobody takes anything.
const IDLE: Duration = Duration::from_secs(10);

pub(super) struct SmallContents {
    connection: Arc<Connection>,
    shared: Arc<SharedState>,
}

struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    stock: Stock,
    run: Option<Run>,
    /// Number of the newest run.
    number: u64,
    walk: Walk,
    /// Directory of the last file that was not found.
    last_miss: Option<Place>,
}

/// One stream of contents.
struct Run {
    number: u64,
    root: Place,
    /// Directory at which the program was when the run began. Files before it are not wanted.
    start: DirPath,
    /// Directory whose files are being offered, and its files about which the run has decided.
    newest: Option<Arc<DirPath>>,
    offered: HashSet<Name>,
    /// Files that were asked for and have not come, and their sizes in bytes.
    promised: HashMap<VersionKey, u64>,
    promised_bytes: u64,
    last_taken: Instant,
    /// Files for which readers wait.
    awaited: Vec<VersionKey>,
}

/// Need of a file that is not in the stock.
enum Miss {
    Alone,
    /// The files beside it are wanted too.
    Beside,
    /// A run has begun, which will bring it.
    Run,
}

impl Run {
    fn new(number: u64, root: Place, start: DirPath) -> Self {
        Self {
            number,
            root,
            start,
            newest: None,
            offered: HashSet::new(),
            promised: HashMap::new(),
            promised_bytes: 0,
            last_taken: sys::clock::monotonic(),
            awaited: Vec::new(),
        }
    }

    /// Returns true if the file will come, as far as is known.
    fn brings(&self, key: &VersionKey) -> bool {
        if self.promised.contains_key(key) {
            return true;
        }
        let ObjectPlace { directory, name, .. } = &key.0;
        match &self.newest {
            Some(newest) if **newest == *directory => !self.offered.contains(name),
            Some(newest) => directory.as_bytes() > newest.as_bytes(),
            None => true,
        }
    }

    /// Notes the directory whose files are being offered. Returns true if it is another one.
    fn enter(&mut self, directory: &Arc<DirPath>) -> bool {
        if self.newest.as_ref() == Some(directory) {
            return false;
        }
        self.newest = Some(Arc::clone(directory));
        self.offered.clear();
        true
    }

    /// Notes that a file is wanted, if the files that have not come leave room for it. Returns
    /// whether it is.
    fn promise(&mut self, key: VersionKey, bytes: u64) -> bool {
        self.offered.insert(key.0.name.clone());
        let has_room = self.promised_bytes + bytes <= PROMISED_BYTES_MAX;
        if has_room {
            self.promised_bytes += bytes;
            self.promised.insert(key, bytes);
        }
        has_room
    }
}

impl State {
    fn run(&mut self, number: u64) -> Option<&mut Run> {
        self.run.as_mut().filter(|run| run.number == number)
    }
}

impl SmallContents {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let state = State {
            stock: Stock::new(),
            run: None,
            number: 0,
            walk: Walk::default(),
            last_miss: None,
        };
        let shared = SharedState { state: Mutex::new(state), changed: Condvar::new() };
        Self { connection, shared: Arc::new(shared) }
    }

    /// Returns the content of the file `key` of `size` bytes, if it is here or comes together with
    /// others. Otherwise the caller fetches it.
    pub(super) fn find(&self, view: View, key: &VersionKey, size: u64) -> Option<Arc<Vec<u8>>> {
        let ObjectPlace { filespace, directory, .. } = key.0.clone();
        let place = Place { view, filespace, directory };
        let find = |stock: &mut Stock| stock.find(key);
        if let Some(content) = self.take(&place, key, find) {
            return Some(content);
        }
        match self.note_miss(&place) {
            Miss::Alone => return None,
            Miss::Beside if size > BESIDE_BYTES_MAX => return None,
            Miss::Beside => self.fetch_beside(&place, &key.0.name),
            Miss::Run => {}
        }
        self.take(&place, key, find)
    }

    /// Returns the contents of the first of `files`, which are in the directory `place`: as many as
    /// have come ahead. They stay in the stock. If there are none, waits for the first one, if the
    /// run is about to bring it.
    pub(super) fn find_ahead(&self, place: &Place, files: &[&Object]) -> Vec<Arc<Vec<u8>>> {
        let Some(first) = files.first() else { return Vec::new() };
        let first = key(&place.filespace, &place.directory, first);
        let mut sought = first.clone();
        let mut look = |stock: &mut Stock, file: &Object| {
            sought.0.name.clone_from(&file.name);
            sought.1 = file.inserted;
            stock.look(&sought).filter(|content| content.len() as u64 == file.stat.size)
        };
        let taken = self.take(place, &first, |stock| {
            let come: Vec<_> = files.iter().map_while(|&file| look(stock, file)).collect();
            (!come.is_empty()).then_some(come)
        });
        taken.unwrap_or_default()
    }

    /// Drops the contents of `files`, which are in the directory `place`: the kernel has them.
    pub(super) fn drop_given(&self, place: &Place, files: &[&Object]) {
        let mut state = self.shared.state.lock();
        let was_full = state.stock.is_full();
        for file in files {
            state.stock.drop_one(&key(&place.filespace, &place.directory, file));
        }
        if was_full && !state.stock.is_full() {
            self.shared.changed.notify_all();
        }
    }

    /// Keeps a content that was fetched.
    pub(super) fn remember(&self, key: VersionKey, content: Arc<Vec<u8>>) {
        self.shared.state.lock().stock.put_read(key, content);
    }

    /// Takes from the stock what `find` finds there. Otherwise waits for the file `key` if a run is
    /// about to bring it.
    fn take<T>(
        &self,
        place: &Place,
        key: &VersionKey,
        mut find: impl FnMut(&mut Stock) -> Option<T>,
    ) -> Option<T> {
        let mut deadline = None;
        let mut state = self.shared.state.lock();
        loop {
            let was_full = state.stock.is_full();
            if let Some(found) = find(&mut state.stock) {
                if let Some(run) = &mut state.run {
                    run.last_taken = sys::clock::monotonic();
                }
                if was_full && !state.stock.is_full() {
                    self.shared.changed.notify_all();
                }
                return Some(found);
            }
            let brings = |run: &Run| run.root.covers(place) && run.brings(key);
            if !state.run.as_ref().is_some_and(brings) {
                return None;
            }
            let now = sys::clock::monotonic();
            let rest = deadline.get_or_insert(now + WAIT).saturating_duration_since(now);
            if rest.is_zero() {
                // The run is too slow to be of use.
                state.run = None;
                self.shared.changed.notify_all();
                return None;
            }
            state = self.wait(state, key, rest);
        }
    }

    /// Waits for a change of the run, which is about to bring the file `key`.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        key: &VersionKey,
        rest: Duration,
    ) -> MutexGuard<'a, State> {
        let Some(run) = &mut state.run else { return state };
        let number = run.number;
        run.awaited.push(key.clone());
        self.shared.changed.notify_all();
        state = self.shared.changed.wait_timeout(state, rest);
        if let Some(run) = state.run(number)
            && let Some(at) = run.awaited.iter().position(|awaited| awaited == key)
        {
            run.awaited.swap_remove(at);
        }
        state
    }

    /// Notes a file that was not found, and begins a run if it is part of a walk.
    fn note_miss(&self, place: &Place) -> Miss {
        if place.view == View::Versions {
            return Miss::Alone;
        }
        let mut state = self.shared.state.lock();
        if state.last_miss.as_ref() == Some(place) {
            return Miss::Beside;
        }
        if state.run.as_ref().is_some_and(|run| run.root.covers(place)) {
            // The run had no room for the file. It still brings what follows.
            state.last_miss = Some(place.clone());
            return Miss::Alone;
        }
        state.last_miss = Some(place.clone());
        let Some(root) = state.walk.note(place, sys::clock::monotonic()) else {
            return Miss::Alone;
        };
        if self.begin(&mut state, root, place) { Miss::Run } else { Miss::Alone }
    }

    /// Begins a run, which ends the one before. Without a thread for it, returns false.
    fn begin(&self, state: &mut State, root: Place, start: &Place) -> bool {
        state.number += 1;
        let number = state.number;
        state.run = Some(Run::new(number, root.clone(), start.directory.clone()));
        self.shared.changed.notify_all();
        let shared = Arc::clone(&self.shared);
        let connection = Arc::clone(&self.connection);
        let thread = std::thread::Builder::new().name("contents".to_owned());
        let spawned = thread.spawn(move || run(shared, &connection, number, root));
        if spawned.is_err() {
            state.run = None;
        }
        spawned.is_ok()
    }

    /// Fetches the small files of a directory from `first` on.
    fn fetch_beside(&self, place: &Place, first: &Name) {
        let Place { view, filespace, directory } = place;
        let beside = Beside {
            filespace,
            shared: &self.shared,
            first,
            left: Mutex::new(DIRECTORY_BYTES_MAX),
        };
        let files = (directory, Reach::Directory);
        // A file that is missing then is fetched alone, where errors reach the program.
        let _missing = self
            .connection
            .ask(|line| line.client.small_files(filespace, files, view.time(), &beside));
    }
}

/// Receives the contents of a run until all have come, or nobody wants them.
fn run(shared: Arc<SharedState>, connection: &Connection, number: u64, root: Place) {
    let sink = RunSink { shared, number, filespace: root.filespace.clone() };
    let Place { view, filespace, directory } = &root;
    let line = connection.line();
    let ended = line
        .client
        .small_files(filespace, (directory, Reach::Subtree), view.time(), &sink);
    let mut state = sink.shared.state.lock();
    if state.run(number).is_some() {
        // Files that have come can still be taken.
        state.run = None;
        if ended.is_ok() {
            state.walk.end(root, sys::clock::monotonic());
        }
    }
    sink.shared.changed.notify_all();
}

fn key(filespace: &[u8], directory: &DirPath, object: &Object) -> VersionKey {
    let (filespace, directory) = (filespace.to_vec(), directory.clone());
    (ObjectPlace { filespace, directory, name: object.name.clone() }, object.inserted)
}

fn key_of(filespace: &[u8], file: &SmallFile) -> VersionKey {
    let (filespace, directory) = (filespace.to_vec(), DirPath::clone(&file.directory));
    (ObjectPlace { filespace, directory, name: file.name.clone() }, file.inserted)
}

/// Receiver of a run.
struct RunSink {
    shared: Arc<SharedState>,
    number: u64,
    filespace: Vec<u8>,
}

impl SmallFileSink for RunSink {
    fn wants(&self, directory: &Arc<DirPath>, object: &Object) -> ControlFlow<(), bool> {
        let size = object.stat.size;
        let mut state = self.shared.state.lock();
        loop {
            let State { stock, run, .. } = &mut *state;
            let Some(run) = run.as_mut().filter(|run| run.number == self.number) else {
                return ControlFlow::Break(());
            };
            if run.enter(directory) && !run.awaited.is_empty() {
                self.shared.changed.notify_all();
            }
            if size > BYTES_MAX || !is_ahead(directory, &run.start) {
                return ControlFlow::Continue(false);
            }
            // A run waits between windows only, so that all it has asked for comes.
            if !stock.is_full() || run.promised_bytes > 0 {
                let is_wanted = run.promise(key(&self.filespace, directory, object), size);
                if !is_wanted && !run.awaited.is_empty() {
                    self.shared.changed.notify_all();
                }
                return ControlFlow::Continue(is_wanted);
            }
            if run.awaited.iter().any(|key| !stock.has(key)) {
                stock.make_room();
            } else if run.last_taken.elapsed() > IDLE {
                state.run = None;
                state.stock.drop_ahead();
                return ControlFlow::Break(());
            } else {
                state = self.shared.changed.wait_timeout(state, IDLE);
            }
        }
    }

    fn put(&self, file: &SmallFile, content: Option<Vec<u8>>) {
        let key = key_of(&self.filespace, file);
        let mut state = self.shared.state.lock();
        let Some(run) = state.run(self.number) else { return };
        let bytes = run.promised.remove(&key).expect("only what was asked for comes, and once");
        run.promised_bytes -= bytes;
        let is_awaited = run.awaited.contains(&key);
        if let Some(content) = content {
            state.stock.put_ahead(key, content);
        }
        if is_awaited {
            self.shared.changed.notify_all();
        }
    }
}

/// Receiver of the files of one directory.
struct Beside<'a> {
    filespace: &'a [u8],
    shared: &'a SharedState,
    /// Name of the first file that is wanted.
    first: &'a Name,
    /// Number of bytes that may still be taken.
    left: Mutex<u64>,
}

impl SmallFileSink for Beside<'_> {
    fn wants(&self, _: &Arc<DirPath>, object: &Object) -> ControlFlow<(), bool> {
        let size = object.stat.size;
        let mut left = self.left.lock();
        let is_after = object.name >= *self.first;
        let is_wanted = is_after && size <= BESIDE_BYTES_MAX && size <= *left;
        if is_wanted {
            *left -= size;
        }
        ControlFlow::Continue(is_wanted)
    }

    fn put(&self, file: &SmallFile, content: Option<Vec<u8>>) {
        let Some(content) = content else { return };
        self.shared.state.lock().stock.put_beside(key_of(self.filespace, file), content);
    }
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    fn directory(path: &str) -> DirPath {
        DirPath::new(path.as_bytes()).expect("a path")
    }

    fn run(start: &str) -> Run {
        let (view, filespace) = (View::Latest, b"/".to_vec());
        Run::new(1, Place { view, filespace, directory: directory("/a/") }, directory(start))
    }

    fn file(path: &str, name: &str) -> VersionKey {
        let directory = directory(path);
        let name = directory.name(name.as_bytes()).expect("a name");
        (ObjectPlace { filespace: b"/".to_vec(), directory, name }, ServerTime(1))
    }

    #[test]
    fn a_run_brings_what_lies_ahead_and_what_it_has_asked_for() {
        let mut run = run("/a/b/");
        assert!(run.brings(&file("/a/b/", "x")), "nothing was offered yet");
        assert!(run.enter(&Arc::new(directory("/a/b/"))));
        assert!(!run.enter(&Arc::new(directory("/a/b/"))));
        assert!(run.promise(file("/a/b/", "x"), PROMISED_BYTES_MAX));
        assert!(!run.promise(file("/a/b/", "y"), 1), "there is no room");
        assert!(run.brings(&file("/a/b/", "x")));
        assert!(!run.brings(&file("/a/b/", "y")), "it was not asked for");
        assert!(run.brings(&file("/a/b/", "z")), "it was not offered yet");
        assert!(run.brings(&file("/a/c/", "x")));
        run.promised.remove(&file("/a/b/", "x"));
        assert!(!run.brings(&file("/a/b/", "x")), "it has come, and was dropped");
        run.enter(&Arc::new(directory("/a/c/")));
        assert!(!run.brings(&file("/a/b/", "z")), "its directory has passed");
    }
}
