//! Listing ahead: when a program walks through directories, the server sends the directories below
//! in one stream, in the order of their paths, before they are asked for.
//!
//! ```text
//!   take(directory) --not there--> walk: three in order --> run: a thread, one stream
//!        ^                                                       |
//!        \------------------- ready (bounded) <-----------------/
//! ```
//!
//! A directory of the run is taken once. What is asked for again, or out of order, is not found
//! here: the caller then asks the server for that directory alone. Three of them in order begin a
//! new run.
//!
//! A run that is full pauses until half of what is ready was taken. Else its thread would wake up
//! for each directory, only to wait again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{DirPath, Object};
use sys::lock::{Condvar, Mutex};

use crate::connection::Connection;
use crate::node::View;
use crate::walk::{Place, Walk, is_ahead};

/// Number of objects that wait to be taken, above which a run pauses.
const READY_MAX: usize = 15_000;
/// Number of objects above which a run that has paused does not go on.
const READY_LOW: usize = READY_MAX / 2;
/// Number of directories that were taken or given up after which a run ends. It must know them all.
const GONE_MAX: usize = 100_000;
/// Maximum time for which a caller waits for a directory of a run.
const WAIT: Duration = Duration::from_secs(1);
/// Time after which a run ends if nobody takes anything.
const IDLE: Duration = Duration::from_secs(10);
/// Maximum age of a run whose directories may change.
const FRESH: Duration = Duration::from_secs(30);

pub(crate) struct Lookahead {
    connection: Arc<Connection>,
    shared: Arc<SharedState>,
}

struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    run: Option<Run>,
    /// Number of the newest run.
    number: u64,
    walk: Walk,
}

/// One stream of directories.
struct Run {
    number: u64,
    root: Place,
    /// True if the directories were the same for ever when the run began.
    is_settled: bool,
    /// Directory at which the program was when the run began. Directories before it are not
    /// wanted.
    start: DirPath,
    began: Instant,
    /// Directory that is arriving, after all before it have come whole.
    arriving: Option<(DirPath, Vec<Object>)>,
    ready: BTreeMap<Vec<u8>, Vec<Object>>,
    ready_objects: usize,
    /// True while the thread waits for room.
    is_paused: bool,
    /// Directories that were taken or given up.
    gone: HashSet<Vec<u8>>,
    has_ended: bool,
    last_taken: Instant,
}

/// Answer of a run about a directory.
enum Arrival {
    Objects(Vec<Object>),
    /// The directory will come.
    Later,
    /// The caller asks the server.
    Nothing,
}

impl Run {
    fn new(number: u64, root: Place, start: DirPath) -> Self {
        let now = sys::clock::monotonic();
        let is_settled = root.view.is_settled(sys::clock::now());
        Self {
            number,
            root,
            is_settled,
            start,
            began: now,
            arriving: None,
            ready: BTreeMap::new(),
            ready_objects: 0,
            is_paused: false,
            gone: HashSet::new(),
            has_ended: false,
            last_taken: now,
        }
    }

    fn covers(&self, place: &Place) -> bool {
        let is_right = self.is_settled || self.began.elapsed() < FRESH;
        is_right && self.root.covers(place)
    }

    /// Takes in objects of `directory`. The directory before it is then whole.
    fn arrive(&mut self, directory: &DirPath, objects: Vec<Object>) {
        match &mut self.arriving {
            Some((path, known)) if path == directory => known.extend(objects),
            _ => {
                self.settle();
                self.arriving = Some((directory.clone(), objects));
            }
        }
        if let Some((_, passed)) = &mut self.arriving
            && !is_ahead(directory, &self.start)
        {
            passed.clear();
        }
    }

    /// Makes the directory that was arriving ready.
    fn settle(&mut self) {
        let Some((directory, mut objects)) = self.arriving.take() else { return };
        let path = directory.as_bytes().to_vec();
        if is_ahead(&directory, &self.start) && !self.gone.contains(&path) {
            objects.sort_by(|a, b| a.name.cmp(&b.name));
            self.ready_objects += objects.len();
            self.ready.insert(path, objects);
        }
    }

    fn is_full(&self) -> bool {
        self.ready_objects > if self.is_paused { READY_LOW } else { READY_MAX }
    }

    /// Returns true if more may come. Pauses the run otherwise.
    fn has_room(&mut self) -> bool {
        self.is_paused = self.is_full();
        !self.is_paused
    }

    fn take(&mut self, directory: &DirPath) -> Arrival {
        let path = directory.as_bytes();
        if !is_ahead(directory, &self.start) {
            return Arrival::Nothing;
        }
        if let Some(objects) = self.ready.remove(path) {
            self.ready_objects -= objects.len();
            self.gone.insert(path.to_vec());
            self.last_taken = sys::clock::monotonic();
            return Arrival::Objects(objects);
        }
        if !self.gone.insert(path.to_vec()) {
            return Arrival::Nothing;
        }
        let arriving = self.arriving.as_ref().map(|(arriving, _)| arriving.as_bytes());
        if self.has_ended || arriving.is_some_and(|arriving| path < arriving) {
            // A directory without objects is not sent.
            return Arrival::Objects(Vec::new());
        }
        self.gone.remove(path);
        if self.is_full() {
            self.give_up_before(path);
        }
        Arrival::Later
    }

    /// Drops directories that were left out by the program.
    fn give_up_before(&mut self, path: &[u8]) {
        let kept = self.ready.split_off(path);
        let skipped = std::mem::replace(&mut self.ready, kept);
        for (path, objects) in skipped {
            self.ready_objects -= objects.len();
            self.gone.insert(path);
        }
    }
}

impl Lookahead {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let shared = SharedState { state: Mutex::default(), changed: Condvar::new() };
        Self { connection, shared: Arc::new(shared) }
    }

    /// Takes the objects of a directory, if they have come or are about to come.
    pub(crate) fn take(
        &self,
        view: View,
        filespace: &[u8],
        directory: &DirPath,
    ) -> Option<Vec<Object>> {
        let (filespace, directory) = (filespace.to_vec(), directory.clone());
        let place = Place { view, filespace, directory };
        let deadline = sys::clock::monotonic() + WAIT;
        let mut state = self.shared.state.lock();
        loop {
            let Some(run) = state.run.as_mut().filter(|run| run.covers(&place)) else {
                self.note_miss(&mut state, &place);
                return None;
            };
            match run.take(&place.directory) {
                Arrival::Objects(objects) => {
                    let mut wakes_thread = run.is_paused && !run.is_full();
                    if run.gone.len() > GONE_MAX {
                        let root = run.root.clone();
                        state.run = None;
                        state.walk.end(root, sys::clock::monotonic());
                        wakes_thread = true;
                    }
                    if wakes_thread {
                        self.shared.changed.notify_all();
                    }
                    return Some(objects);
                }
                Arrival::Nothing => {
                    self.note_miss(&mut state, &place);
                    return None;
                }
                // Directories that were left out have made room.
                Arrival::Later if run.is_paused && !run.is_full() => {
                    self.shared.changed.notify_all();
                }
                Arrival::Later => {}
            }
            let rest = deadline.saturating_duration_since(sys::clock::monotonic());
            if rest.is_zero() {
                return None;
            }
            state = self.shared.changed.wait_timeout(state, rest);
        }
    }

    /// Notes a directory that was not found. Begins a run if it is part of a walk.
    fn note_miss(&self, state: &mut State, place: &Place) {
        let start = place.directory.clone();
        let Some(place) = state.walk.note(place, sys::clock::monotonic()) else { return };
        state.number += 1;
        let number = state.number;
        state.run = Some(Run::new(number, place.clone(), start));
        let (shared, connection) = (Arc::clone(&self.shared), Arc::clone(&self.connection));
        let thread = std::thread::Builder::new().name("ahead".to_owned());
        // Without a thread, each directory is asked for alone.
        if thread.spawn(move || run(&shared, &connection, number, &place)).is_err() {
            state.run = None;
        }
    }
}

/// Receives the directories of a run until all have come, or nobody wants them.
fn run(shared: &SharedState, connection: &Connection, number: u64, root: &Place) {
    let Place { view, filespace, directory } = root;
    let mut is_wanted = |directory: &DirPath, objects: Vec<Object>| -> bool {
        let mut state = shared.state.lock();
        loop {
            let Some(run) = state.run.as_mut().filter(|run| run.number == number) else {
                return false;
            };
            if run.has_room() {
                run.arrive(directory, objects);
                shared.changed.notify_all();
                return true;
            }
            if run.last_taken.elapsed() > IDLE {
                state.run = None;
                return false;
            }
            state = shared.changed.wait_timeout(state, IDLE);
        }
    };
    let line = connection.line();
    let ended = line.client.subtree(filespace, directory, view.time(), &mut is_wanted);
    let mut state = shared.state.lock();
    match state.run.as_mut().filter(|run| run.number == number) {
        Some(run) if ended.is_ok() => {
            run.settle();
            run.has_ended = true;
            state.walk.end(root.clone(), sys::clock::monotonic());
        }
        // The rest is asked for directory by directory, where errors reach the programs.
        Some(_) => state.run = None,
        None => {}
    }
    shared.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::file;

    fn path(path: &str) -> DirPath {
        DirPath::new(path.as_bytes()).expect("a path")
    }

    fn run() -> Run {
        let (view, filespace, directory) = (View::Latest, b"/".to_vec(), path("/a/"));
        Run::new(1, Place { view, filespace, directory }, path("/a/"))
    }

    fn shown(found: &Arrival) -> &'static str {
        match found {
            Arrival::Objects(_) => "objects",
            Arrival::Later => "later",
            Arrival::Nothing => "nothing",
        }
    }

    #[test]
    fn a_directory_is_taken_once_and_an_empty_one_is_known() {
        let mut run = run();
        run.arrive(&path("/a/"), Vec::new());
        assert_eq!(shown(&run.take(&path("/a/"))), "later", "more of it may come");
        run.arrive(&path("/a/c/"), Vec::new());
        assert_eq!(shown(&run.take(&path("/a/"))), "objects");
        assert_eq!(shown(&run.take(&path("/a/"))), "nothing");
        assert_eq!(shown(&run.take(&path("/a/b/"))), "objects", "it has no objects");
        assert_eq!(shown(&run.take(&path("/a/c/"))), "later");
        run.settle();
        run.has_ended = true;
        assert_eq!(shown(&run.take(&path("/a/c/"))), "objects");
        assert_eq!(shown(&run.take(&path("/a/d/"))), "objects", "it has no objects");
    }

    #[test]
    fn directories_before_the_start_are_asked_for_alone() {
        let mut run = Run { start: path("/a/c/d/"), ..run() };
        for name in ["/a/", "/a/b/", "/a/c/", "/a/c/d/", "/a/e/"] {
            run.arrive(&path(name), Vec::new());
        }
        let found = ["/a/", "/a/b/", "/a/c/", "/a/c/d/"].map(|name| shown(&run.take(&path(name))));
        assert_eq!(found, ["objects", "nothing", "objects", "objects"]);
    }

    #[test]
    fn a_run_that_was_full_goes_on_when_half_is_taken() {
        const EACH: usize = READY_MAX / 6;
        let mut run = run();
        for name in 1..=8 {
            let objects = vec![file("x", 0); EACH];
            run.arrive(&path(&format!("/a/{name}/")), objects);
        }
        run.settle();
        assert!(run.is_full() && !run.has_room());
        for name in 1..=4 {
            assert_eq!(shown(&run.take(&path(&format!("/a/{name}/")))), "objects");
            assert!(run.is_paused && run.is_full(), "{name}");
        }
        assert_eq!(shown(&run.take(&path("/a/5/"))), "objects");
        assert!(run.is_paused && !run.is_full(), "the thread is woken");
        assert!(run.has_room() && !run.is_paused);
    }

    #[test]
    fn skipped_directories_make_room() {
        let mut run = run();
        for name in ["b", "c", "d"] {
            run.arrive(&path(&format!("/a/{name}/")), Vec::new());
        }
        run.settle();
        run.give_up_before(b"/a/c/");
        assert_eq!(shown(&run.take(&path("/a/b/"))), "nothing");
        assert_eq!(shown(&run.take(&path("/a/c/"))), "objects");
    }
}
