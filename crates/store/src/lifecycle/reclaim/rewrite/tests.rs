//! Tests of recompression: what becomes smaller, what stays, and what is never written again.

use std::collections::BTreeMap;

use catalog::change::Change;
use chunk::Compressor;
use disk::Random;
use model::{ClassId, ServerTime};

use super::*;
use crate::lifecycle::reclaim::{Order, Outcome, run, run_due};
use crate::places::{places, push_chunk};
use crate::samples::{self, TestServer};

/// Effort of the quanta that a node has sent.
const NODE_EFFORT: Compression = Compression::Level(3);

const LETTERS: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";

/// Returns text of short words, of which a higher level makes less.
fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut word = |_| (0..3 + random.below(6)).map(|_| LETTERS[random.index(26)]).collect();
    let words: Vec<Vec<u8>> = (0..3000).map(&mut word).collect();
    let mut text = Vec::with_capacity(bytes + 10);
    while text.len() < bytes {
        text.extend_from_slice(&words[random.index(words.len())]);
        text.push(b' ');
    }
    text.truncate(bytes);
    text
}

/// Returns bytes that nothing makes smaller.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut noise);
    noise
}

/// A server with files of one quantum each.
struct World {
    server: TestServer,
    files: BTreeMap<String, Vec<Vec<u8>>>,
}

impl World {
    /// Makes a server with dead data in its first pack, so that the pack is written again.
    fn new() -> Self {
        Self::of(TestServer::new())
    }

    fn of(server: TestServer) -> Self {
        let world = Self { server, files: BTreeMap::new() };
        world.append(&[noise(0, 200_000)], NODE_EFFORT);
        world
    }

    fn append(&self, chunks: &[Vec<u8>], effort: Compression) -> Place {
        let mut raw = RawQuantum::default();
        chunks.iter().for_each(|chunk| _ = raw.push(chunk));
        let record = Compressor::new(effort).expect("a context").encode(&raw);
        let pools = &self.server.store.pools;
        let digest = |chunk: &Vec<u8>| pools.digest_of(DOMAIN, chunk);
        let digests: Vec<ChunkDigest> = chunks.iter().map(digest).collect();
        let filler = Filler::any(DOMAIN);
        pools.append(filler, &record, raw.lengths(), &digests).expect("there is room")
    }

    /// Adds a file of the first `named` of these chunks, which are one quantum.
    fn add(&mut self, name: &str, mut chunks: Vec<Vec<u8>>, named: usize, effort: Compression) {
        let first = self.append(&chunks, effort);
        self.server.store.commit(Vec::new()).expect("is durable");
        chunks.truncate(named);
        let mut extents = Vec::new();
        for index in (first.index()..).take(named) {
            push_chunk(&mut extents, Place::new(first.pack(), index));
        }
        let size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let file = samples::file(samples::name(name), ClassId(1), size, extents);
        let change = Change { backed_up: vec![file], ..Change::default() };
        self.server.apply("/", change, ServerTime(1000 + self.files.len() as i64));
        self.files.insert(name.to_owned(), chunks);
    }

    fn reclaim(&self, effort: &str) -> Outcome {
        self.server.seal();
        let recompress = Some(effort.parse().expect("an effort"));
        let order = Order { is_dry: false, dead_percent: 1, recompress };
        run(&self.server.store, order, &mut |_| true).expect("runs")
    }

    /// Returns the records of the quanta of all files. Checks that they hold the files' chunks.
    fn records(&self) -> BTreeMap<String, Vec<Vec<u8>>> {
        let pools = &self.server.store.pools;
        let mut decompressor = Decompressor::new().expect("a context");
        let mut records: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for object in self.server.objects("/") {
            let name = String::from_utf8_lossy(object.name.as_bytes()).into_owned();
            let of_file = records.entry(name.clone()).or_default();
            let places: Vec<Place> = places(&object).collect();
            assert_eq!(places.len(), self.files[&name].len(), "{name}");
            for (place, chunk) in places.iter().zip(&self.files[&name]) {
                let table = pools.table(place.pack()).expect("exists");
                let quantum = table.quanta()[table.quantum_of(place.index()).expect("has it")];
                let record = pools.read(place.pack(), &quantum).expect("is whole");
                let raw = decompressor.decode(&record).expect("is whole");
                let at = (place.index() - quantum.first_index) as usize;
                assert!(raw.chunks().nth(at) == Some(chunk), "{name} at {place:?}");
                if of_file.last() != Some(&record) {
                    of_file.push(record);
                }
            }
        }
        records
    }
}

fn pieces(text: &[u8], count: usize) -> Vec<Vec<u8>> {
    text.chunks(text.len().div_ceil(count)).map(<[u8]>::to_vec).collect()
}

#[test]
fn a_high_level_makes_records_smaller_and_keeps_every_chunk() {
    let mut world = World::new();
    world.add("whole", pieces(&text(1, 1_500_000), 3), 3, NODE_EFFORT);
    world.add("sparse", pieces(&text(2, 900_000), 9), 4, NODE_EFFORT);
    world.add("short", pieces(&text(3, 100_000), 2), 2, NODE_EFFORT);
    let before = world.records();
    let outcome = world.reclaim("19");
    assert_eq!((outcome.packs_rewritten, outcome.packs_removed), (1, 1));
    let after = world.records();
    let effect = outcome.recompression.expect("was asked for");
    assert_eq!(effect.effort.to_string(), "19");
    let sum = |records: &[&Vec<Vec<u8>>]| -> u64 {
        records.iter().flat_map(|of| of.iter()).map(|record| record.len() as u64).sum()
    };
    // Four of nine chunks are alive in the sparse quantum.
    let sparse = sum(&[&before["sparse"]]) * 4 / 9;
    let expected = sum(&[&before["whole"], &before["short"]]) + sparse;
    assert!(effect.before_bytes.abs_diff(expected) < 10, "{effect:?}, {expected}");
    assert!(effect.after_bytes < effect.before_bytes * 95 / 100, "{effect:?}");
    assert_eq!(after["sparse"], after["short"], "their chunks are joined");
    assert_eq!(effect.after_bytes, sum(&[&after["whole"], &after["short"]]));
}

#[test]
fn a_quantum_that_would_not_become_smaller_keeps_its_old_record() {
    let mut world = World::new();
    world.add("noise", pieces(&noise(1, 1_500_000), 3), 3, NODE_EFFORT);
    world.add("small", pieces(&text(1, 1_500_000), 3), 3, Compression::Level(12));
    let before = world.records();
    let outcome = world.reclaim("1");
    assert_eq!((outcome.packs_rewritten, outcome.packs_removed), (1, 1));
    assert!(before == world.records(), "the records are the same, byte by byte");
    let effect = outcome.recompression.expect("was asked for");
    assert_eq!(effect.before_bytes, effect.after_bytes);
}

#[test]
fn a_quantum_without_a_new_record_keeps_its_data() {
    let mut raw = RawQuantum::default();
    raw.push(&text(1, 100_000));
    let (old, new) = (Some(vec![1; 9]), Some(vec![2; 8]));
    assert_eq!(choose(old.clone(), new.clone(), &raw), vec![2; 8]);
    assert_eq!(choose(Some(vec![1; 8]), new, &raw), vec![1; 8]);
    assert_eq!(choose(old, None, &raw), vec![1; 9]);
    let stored = choose(None, None, &raw);
    assert_eq!(Decompressor::new().expect("a context").decode(&stored), Ok(raw));
}

/// The record of a quantum may be undamaged and still not be what its digests promise.
#[test]
fn a_quantum_that_does_not_match_its_digests_is_not_written_again() {
    let mut world = World::new();
    let chunks = pieces(&text(1, 1_500_000), 3);
    world.add("whole", chunks.clone(), 3, NODE_EFFORT);
    let pools = &world.server.store.pools;
    let mut digests: Vec<_> = chunks.iter().map(|chunk| pools.digest_of(DOMAIN, chunk)).collect();
    digests[1] = pools.digest_of(DOMAIN, b"other");
    let mut raw = RawQuantum::default();
    chunks.iter().for_each(|chunk| _ = raw.push(chunk));
    let record = Compressor::new(NODE_EFFORT).expect("a context").encode(&raw);
    let first = pools.append(Filler::any(DOMAIN), &record, raw.lengths(), &digests);
    let first = first.expect("there is room");
    let mut extents = Vec::new();
    (0..3).for_each(|at| push_chunk(&mut extents, Place::new(first.pack(), first.index() + at)));
    let file = samples::file(samples::name("other"), ClassId(1), 1_500_000, extents);
    let change = Change { backed_up: vec![file], ..Change::default() };
    world.server.apply("/", change, ServerTime(2000));
    world.files.insert("other".to_owned(), chunks);
    let outcome = world.reclaim("3");
    assert_eq!((outcome.packs_rewritten, outcome.packs_unread, outcome.packs_removed), (0, 1, 0));
    world.records();
}

#[test]
fn the_run_after_an_expiration_compresses_as_the_configuration_says() {
    let effort = Recompression::of_level(19).expect("a level");
    let mut world = World::of(TestServer::with(|config| {
        config.reclaim_dead_percent = 1;
        config.reclaim_recompress = Some(effort);
    }));
    world.add("whole", pieces(&text(1, 1_100_000), 3), 3, NODE_EFFORT);
    world.server.seal();
    let outcome = run_due(&world.server.store).expect("runs").expect("nobody has cancelled it");
    let effect = outcome.recompression.expect("configured");
    assert_eq!(effect.effort, effort);
    assert!(effect.after_bytes < effect.before_bytes, "{effect:?}");
    world.records();
    let events = world.server.store.catalog.events(None, 1).expect("are read");
    assert!(events[0].event.details.contains("recompression (19): "), "{events:?}");
}
