//! Soak: many nodes work with one server for a long time. Clients and the server are killed. The
//! memory and the descriptors of the server stay flat, and everything comes back in the end.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `HOLDFAST_SOAK_SECS` | none: the test is left out | duration of the work in seconds |
//! | `HOLDFAST_SOAK_NODES` | 1000 | number of nodes |
//! | `HOLDFAST_SOAK_SEED` | the time | seed of the random choices |
//!
//! The work goes in waves: in each, every node has one session, of which some are killed. In the
//! first quarter of the time, the server is killed too. After that it lives to the end, so that a
//! leak adds up. It is measured in the lull after each wave, when nobody is connected: what it has
//! then, it keeps for itself.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::clock::{now, pause};
use e2e::harness::{Node, Outcome, Server};
use e2e::manifest::{Manifest, assert_one_of};
use e2e::nasty::Random;
use e2e::scratch::Scratch;

use crate::chaos::{seed, setting};
use crate::fleet::{StopGuard, audit_data, eventually};
use crate::scene::{keep_only_active, manifest, plant_files};

/// Number of client processes at a time.
const CREW: usize = 8;
const FILES: usize = 8;
const FILE_BYTES: usize = 3000;

/// Number of sessions after which the caches of a server are full and its threads have started.
const WARM_UP_SESSIONS: usize = 3000;
/// Minimum number of waves after which the server has expired and reclaimed.
const WARM_UP_WAVES_MIN: usize = 3;
/// Number of waves after which the server expires and reclaims.
const UPKEEP_WAVES: usize = 3;
/// Minimum number of lulls that show whether something grows.
const LULLS_MIN: usize = 6;
/// Amount by which the memory of a server at rest may differ between the start and the end: the
/// allocator returns pages late and keeps some for each thread. In a run of an hour, more than
/// 30,000 sessions lie between the two times, so that a leak of 2 KiB in each would be larger.
const GROWTH_BYTES_MAX: u64 = 48 << 20;
/// Number of descriptors by which lulls may differ: packs and tables that are open for a while.
const GROWTH_DESCRIPTORS_MAX: usize = 8;

/// A node, its tree, and the states that the tree may have at the server: the last one that was
/// acknowledged, and those that were sent after that.
struct Actor {
    node: Node,
    tree: PathBuf,
    out: PathBuf,
    states: Vec<Manifest>,
    random: Random,
}

impl Actor {
    fn enrol(server: &Server, scratch: &Scratch, number: u64, seed: u64) -> Self {
        let name = format!("node-{number}");
        let node = Node::enrol(server, &name);
        let tree = scratch.folder(&format!("trees/{name}"));
        plant_files(&tree, FILES, FILE_BYTES, seed ^ number);
        let out = scratch.join(&format!("out-{name}"));
        let random = Random::new(seed, name.as_bytes());
        let mut actor = Self { node, tree, out, states: Vec::new(), random };
        actor.node.backup(&actor.tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
        actor.states.push(manifest(&actor.tree));
        actor
    }

    /// Has one session with the server. With `is_calm`, nobody kills the server meanwhile.
    fn work(&mut self, is_calm: bool) {
        match self.random.below(10) {
            0 | 1 => self.restore(is_calm),
            2 => self.list(is_calm),
            3 => self.back_up_and_die(),
            _ => self.back_up(is_calm),
        }
    }

    fn change(&mut self) {
        let index = self.random.below(u32::try_from(FILES).unwrap()) as usize;
        let bytes = self.random.below(2 * u32::try_from(FILE_BYTES).unwrap()) as usize;
        let path = self.tree.join(crate::scene::file_name(index));
        fs::write(path, self.random.bytes(bytes)).unwrap();
        self.states.push(manifest(&self.tree));
    }

    fn back_up(&mut self, is_calm: bool) {
        self.change();
        let outcome = self.node.backup(&self.tree, &[]);
        if succeeded(&outcome, is_calm) {
            self.states.drain(..self.states.len() - 1);
        }
    }

    fn back_up_and_die(&mut self) {
        self.change();
        let running = self.node.spawn_backup(&self.tree, &[]);
        running.ends_within(Duration::from_millis(self.random.below(200).into()));
        running.kill9();
    }

    fn list(&self, is_calm: bool) {
        let words = ["list", self.tree.to_str().unwrap(), "--recursive", "--json"];
        succeeded(&self.node.run(&words), is_calm);
    }

    fn restore(&self, is_calm: bool) {
        fs::create_dir(&self.out).unwrap();
        let outcome = self.node.restore(&self.tree, &self.out, &[]);
        if succeeded(&outcome, is_calm) {
            let found = manifest(&self.out.join(self.tree.file_name().unwrap()));
            let states: Vec<_> = self.states.iter().collect();
            assert_one_of(&states, &found);
        }
        fs::remove_dir_all(&self.out).unwrap();
    }
}

/// Returns true for a command that had success. A command may fail only if the server was killed.
#[track_caller]
fn succeeded(outcome: &Outcome, is_calm: bool) -> bool {
    let code = outcome.code();
    assert!(code == 0 || (!is_calm && matches!(code, 4 | 8 | 12)), "{outcome}");
    code == 0
}

/// Calls `work` for each actor, with several of them at a time.
fn wave(actors: &mut [Actor], work: impl Fn(&mut Actor) + Sync) {
    let each = actors.len().div_ceil(CREW);
    std::thread::scope(|scope| {
        for some in actors.chunks_mut(each) {
            scope.spawn(|| some.iter_mut().for_each(&work));
        }
    });
}

/// Enrols `count` nodes.
fn enrol(server: &Server, scratch: &Scratch, count: u64, seed: u64) -> Vec<Actor> {
    let numbers: Vec<u64> = (0..count).collect();
    let (dir, port) = (server.dir(), server.port());
    // A thread cannot share the process, but it knows the server's folder and address.
    let enrol_some = &|some: &[u64]| -> Vec<Actor> {
        let server = Server::absent(dir, port);
        some.iter()
            .map(|&number| Actor::enrol(&server, scratch, number, seed))
            .collect()
    };
    std::thread::scope(|scope| {
        let some = numbers.chunks(numbers.len().div_ceil(CREW));
        let crew: Vec<_> = some.map(|some| scope.spawn(move || enrol_some(some))).collect();
        let enrolled = crew.into_iter().map(|one| one.join().expect("its nodes are enrolled"));
        enrolled.flatten().collect()
    })
}

/// Kills the server again and again until `end`, while the actors work.
fn storm(server: &mut Server, actors: &mut [Actor], random: &mut Random, end: Instant) {
    let is_over = AtomicBool::new(false);
    let mut kills = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let is_going_on = |actor: &mut Actor| {
                    if !is_over.load(Ordering::Relaxed) {
                        actor.work(false);
                    }
                };
                wave(actors, is_going_on);
            }
        });
        let over = StopGuard(&is_over);
        while now() < end {
            pause(Duration::from_millis(u64::from(500 + random.below(4000))));
            server.kill9();
            server.restart();
            kills += 1;
        }
        drop(over);
    });
    eprintln!("soak: the server was killed {kills} times");
}

/// Memory and descriptors of a server while nobody is connected.
#[derive(Clone, Copy)]
struct Lull {
    memory_bytes: u64,
    descriptors: usize,
}

impl Lull {
    fn measure(server: &Server, descriptors_max: Option<usize>) -> Self {
        let limit = descriptors_max.unwrap_or(usize::MAX);
        let is_settled = eventually(|| server.descriptors() <= limit);
        assert!(is_settled, "{} descriptors, should be {limit} at most", server.descriptors());
        // The allocator returns pages a moment after they are free.
        let samples = (0..10).map(|_| {
            pause(Duration::from_millis(100));
            server.memory_bytes()
        });
        let memory_bytes = samples.min().expect("there are samples");
        Self { memory_bytes, descriptors: server.descriptors() }
    }
}

/// Lets the actors work until `end` with a server that lives. Returns the lulls after the waves.
fn calm(server: &Server, actors: &mut [Actor], end: Instant) -> Vec<Lull> {
    let warm_up = WARM_UP_WAVES_MIN.max(WARM_UP_SESSIONS.div_ceil(actors.len()));
    let mut lulls: Vec<Lull> = Vec::new();
    for number in 0.. {
        if now() >= end && lulls.len() >= warm_up + LULLS_MIN {
            break;
        }
        wave(actors, |actor| actor.work(true));
        if number % UPKEEP_WAVES == 0 {
            server.admin(&["expire"]);
            server.admin(&["reclaim", "--dead-percent", "20"]);
        }
        let first = lulls.get(warm_up).map(|lull| lull.descriptors + GROWTH_DESCRIPTORS_MAX);
        let lull = Lull::measure(server, first);
        let (memory, descriptors) = (lull.memory_bytes >> 10, lull.descriptors);
        eprintln!("soak: wave {number}: {memory} KiB, {descriptors} descriptors");
        lulls.push(lull);
    }
    lulls.split_off(warm_up)
}

/// Returns by how many bytes the memory has grown from the first third of the lulls to the last.
/// The median of a third does not depend on a single lull.
fn growth_bytes(lulls: &[Lull]) -> u64 {
    let median = |some: &[Lull]| {
        let mut bytes: Vec<_> = some.iter().map(|lull| lull.memory_bytes).collect();
        bytes.sort_unstable();
        bytes[bytes.len() / 2]
    };
    let third = lulls.len() / 3;
    median(&lulls[lulls.len() - third..]).saturating_sub(median(&lulls[..third]))
}

#[test]
fn memory_and_descriptors_stay_flat_and_everything_comes_back() {
    let Some(secs) = setting("HOLDFAST_SOAK_SECS") else {
        e2e::skip::say("a thousand nodes for an hour (make soak)");
        return;
    };
    let seed = seed("HOLDFAST_SOAK_SEED");
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    keep_only_active(&server);
    let count = setting("HOLDFAST_SOAK_NODES").unwrap_or(1000);
    let mut actors = enrol(&server, &scratch, count, seed);

    let begin = now();
    let mut random = Random::new(seed, b"soak");
    storm(&mut server, &mut actors, &mut random, begin + Duration::from_secs(secs / 4));
    let lulls = calm(&server, &mut actors, begin + Duration::from_secs(secs));
    let growth_bytes = growth_bytes(&lulls);
    eprintln!("soak: {} lulls, growth {} KiB", lulls.len(), growth_bytes >> 10);
    assert!(growth_bytes <= GROWTH_BYTES_MAX, "the memory has grown by {growth_bytes} bytes");

    server.kill9();
    server.restart();
    wave(&mut actors, |actor| actor.restore(true));
    audit_data(&server);
}

#[test]
fn growth_is_seen_and_a_single_peak_is_none() {
    let lulls = |memory: &[u64]| -> Vec<Lull> {
        memory
            .iter()
            .map(|&memory_bytes| Lull { memory_bytes, descriptors: 0 })
            .collect()
    };
    assert_eq!(growth_bytes(&lulls(&[5, 5, 5, 5, 5, 5, 9, 5, 5])), 0);
    assert_eq!(growth_bytes(&lulls(&[1, 2, 3, 4, 5, 6, 7, 8, 9])), 6);
    assert_eq!(growth_bytes(&lulls(&[9, 8, 7, 6, 5, 4, 3, 2, 1])), 0);
}
