//! Tests of the whole index: against a model, with damage at every place, and with several threads
//! at once.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

pub(crate) fn digest(seed: u64) -> ChunkDigest {
    let mut bytes = [0; 32];
    for (word, bytes) in (0..).zip(bytes.as_chunks_mut().0) {
        *bytes = xxhash_rust::xxh3::xxh3_64_with_seed(&seed.to_le_bytes(), word).to_le_bytes();
    }
    ChunkDigest(bytes)
}

pub(crate) fn random_prefix(seed: u64) -> Prefix {
    Prefix::of(&digest(seed))
}

pub(crate) fn entry(seed: u64, pack: u64) -> Entry {
    Entry { prefix: random_prefix(seed), place: place(seed, pack) }
}

pub(crate) fn random_entries(seeds: std::ops::Range<u64>) -> Vec<Entry> {
    let mut entries: Vec<_> = seeds.map(|seed| entry(seed, seed / 100 + 1)).collect();
    entries.sort_unstable();
    entries
}

fn place(seed: u64, pack: u64) -> Place {
    Place::new(PackNumber(pack), u32::try_from(seed % 1000).expect("below 1000"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

fn open(folder: &Path, memory_entries_max: usize) -> (ChunkIndex, Recovery) {
    ChunkIndex::open(folder, Config { memory_entries_max }).expect("a sound file system")
}

fn insert(index: &ChunkIndex, chunks: impl IntoIterator<Item = (u64, u64)>) {
    let entries: Vec<_> = chunks
        .into_iter()
        .map(|(seed, pack)| (digest(seed), place(seed, pack)))
        .collect();
    index.insert(&entries).expect("a sound file system");
}

fn packs_found(index: &ChunkIndex, seeds: impl IntoIterator<Item = u64>) -> Vec<Option<u64>> {
    let digests: Vec<_> = seeds.into_iter().map(digest).collect();
    let answers = index.lookup(&digests).expect("sound");
    answers.into_iter().map(|place| place.map(|place| place.pack().0)).collect()
}

fn flush(index: &ChunkIndex, complete_to: u64) {
    index.flush(PackNumber(complete_to)).expect("a sound file system");
}

fn remove_packs(index: &ChunkIndex, packs: impl IntoIterator<Item = u64>) {
    let packs = packs.into_iter().map(PackNumber).collect();
    index.remove_packs(&packs).expect("a sound file system");
}

#[test]
fn answers_come_in_the_order_asked() {
    let folder = folder();
    let (index, recovery) = open(folder.path(), 2);
    assert_eq!(recovery, Recovery { complete_to: PackNumber(0), discarded: None });
    insert(&index, [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)]);
    let found = packs_found(&index, [5, 9, 1, 5, 3, 10]);
    assert_eq!(found, [Some(3), None, Some(1), Some(3), Some(2), None]);
}

#[test]
fn the_latest_place_of_a_chunk_counts_wherever_the_places_are() {
    let folder = folder();
    let (index, _) = open(folder.path(), 100);
    insert(&index, [(1, 1), (1, 2)]);
    assert_eq!(packs_found(&index, [1]), [Some(2)]);
    for pack in 3..20 {
        flush(&index, 0);
        insert(&index, [(1, pack)]);
        assert_eq!(packs_found(&index, [1]), [Some(pack)]);
    }
    index.state.merge_all_due().expect("sound");
    assert_eq!(packs_found(&index, [1]), [Some(19)]);
    assert_eq!(index.entries().count(), 1);
}

#[test]
fn a_reopened_index_has_what_was_flushed() {
    let folder = folder();
    let (index, _) = open(folder.path(), 100);
    insert(&index, (0..250).map(|seed| (seed, 1)));
    flush(&index, 1);
    insert(&index, [(1000, 2)]);
    drop(index);
    let (index, recovery) = open(folder.path(), 100);
    assert_eq!(recovery, Recovery { complete_to: PackNumber(1), discarded: None });
    assert!(packs_found(&index, 0..250).iter().all(|pack| *pack == Some(1)));
    assert_eq!(packs_found(&index, [1000]), [None]);
}

#[test]
fn an_insert_that_fills_the_memory_claims_no_more_packs() {
    let folder = folder();
    let (index, _) = open(folder.path(), 10);
    insert(&index, [(0, 1)]);
    flush(&index, 1);
    insert(&index, (1..100).map(|seed| (seed, 2)));
    drop(index);
    let (index, recovery) = open(folder.path(), 10);
    assert_eq!(recovery.complete_to, PackNumber(1));
    assert_eq!(packs_found(&index, [0, 1]), [Some(1), Some(2)]);
}

#[test]
fn removed_packs_stay_removed_and_may_come_back() {
    let folder = folder();
    let (index, _) = open(folder.path(), 100);
    insert(&index, [(1, 1), (2, 2)]);
    flush(&index, 2);
    insert(&index, [(3, 1), (4, 2)]);
    remove_packs(&index, [1]);
    let expected = [None, Some(2), None, Some(2)];
    assert_eq!(packs_found(&index, 1..5), expected);
    flush(&index, 2);
    drop(index);
    let (index, _) = open(folder.path(), 100);
    assert_eq!(packs_found(&index, 1..5), expected);
    index.state.merge_all_due().expect("sound");
    assert_eq!(packs_found(&index, 1..5), expected);
    insert(&index, [(1, 1)]);
    flush(&index, 2);
    assert_eq!(packs_found(&index, [1, 3]), [Some(1), None]);
}

#[test]
fn merging_leaves_few_runs_and_no_strays() {
    let folder = folder();
    let (index, _) = open(folder.path(), 10);
    insert(&index, (0..1000).map(|seed| (seed, seed / 100)));
    index.state.merge_all_due().expect("sound");
    let statistics = index.statistics();
    assert_eq!((statistics.chunks, statistics.merges_failed), (1000, 0));
    assert!(statistics.runs <= 7, "{} runs", statistics.runs);
    let files = fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(files, statistics.runs + 1);
    remove_packs(&index, 0..10);
    assert_eq!(index.entries().count(), 0);
}

#[test]
fn all_entries_come_in_order() {
    let folder = folder();
    let (index, _) = open(folder.path(), 64);
    insert(&index, (0..1000).map(|seed| (seed, seed / 100 + 1)));
    let entries: Vec<_> = index.entries().collect::<Result<_, _>>().expect("sound");
    let expected = random_entries(0..1000);
    let expected = expected.iter().map(|entry| (entry.prefix.0.to_be_bytes(), entry.place));
    assert_eq!(entries, expected.collect::<Vec<_>>());
}

#[test]
fn a_run_that_cannot_be_written_stays_in_memory() {
    let folder = folder();
    let (index, _) = open(folder.path(), 10);
    insert(&index, [(1, 1)]);
    let away = folder.path().with_extension("away");
    fs::rename(folder.path(), &away).expect("renamed");
    assert!(matches!(index.flush(PackNumber(1)), Err(IndexError::Io { .. })));
    assert_eq!(packs_found(&index, [1]), [Some(1)]);
    fs::rename(&away, folder.path()).expect("renamed");
    flush(&index, 1);
    drop(index);
    let (index, recovery) = open(folder.path(), 10);
    assert_eq!(recovery.complete_to, PackNumber(1));
    assert_eq!(packs_found(&index, [1]), [Some(1)]);
}

#[test]
fn lookups_go_on_during_inserts_and_merges() {
    let folder = folder();
    let (index, _) = open(folder.path(), 500);
    insert(&index, (0..5000).map(|seed| (seed, 1)));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..20 {
                    let seeds = (round..5000).step_by(7);
                    assert!(packs_found(&index, seeds).iter().all(|pack| *pack == Some(1)));
                    assert_eq!(packs_found(&index, 9_000_000..9_000_100), [None; 100]);
                }
            });
        }
        scope.spawn(|| insert(&index, (5000..20_000).map(|seed| (seed, 2))));
    });
    assert_eq!(index.entries().filter(Result::is_ok).count(), 20_000);
    assert_eq!(index.statistics().merges_failed, 0);
}

/// Builds an index of two runs, with chunks 0..400 in pack 1 and 400..500 in pack 2. Pack 3 is
/// removed.
fn build_for_damage(folder: &Path) {
    let (index, _) = open(folder, 1000);
    insert(&index, (0..400).map(|seed| (seed, 1)));
    insert(&index, [(900, 3)]);
    flush(&index, 1);
    insert(&index, (400..500).map(|seed| (seed, 2)));
    remove_packs(&index, [3]);
    flush(&index, 3);
}

/// Opens a damaged index and looks up every chunk. Each answer must be right or an error, unless
/// `open` has discarded the index.
fn check_damaged(folder: &Path, what: &str) {
    let (index, recovery) = open(folder, 1000);
    let digests: Vec<_> = (0..500).chain([900]).chain(10_000..10_100).map(digest).collect();
    if recovery.discarded.is_some() {
        assert_eq!(recovery.complete_to, PackNumber(0), "{what}");
        let answers = index.lookup(&digests).expect("the new index is sound");
        assert!(answers.iter().all(Option::is_none), "{what}");
        return;
    }
    assert_eq!(recovery.complete_to, PackNumber(3), "{what}");
    for (at, digest) in (0_u64..).zip(&digests) {
        let expected = (at < 500).then(|| place(at, if at < 400 { 1 } else { 2 }));
        match index.lookup(&[*digest]) {
            Ok(answers) => assert_eq!(answers, [expected], "{what}"),
            Err(error) => assert!(matches!(error, IndexError::Damaged(_)), "{what}: {error}"),
        }
    }
    let failed = index.entries().any(|entry| entry.is_err());
    assert_eq!(failed, index.lookup(&digests).is_err(), "{what}");
}

#[test]
fn damage_never_gives_a_wrong_answer() {
    let sound = folder();
    build_for_damage(sound.path());
    let files: Vec<_> = fs::read_dir(sound.path())
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(files.len(), 3);
    for name in &files {
        let bytes = fs::read(sound.path().join(name)).expect("readable");
        let mut spoilt: Vec<(String, Option<Vec<u8>>)> = vec![("gone".to_owned(), None)];
        for part in 0..24 {
            let at = (bytes.len() - 1) * part / 23;
            spoilt.push((format!("cut at {at}"), Some(bytes[..at].to_vec())));
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (part % 8);
            spoilt.push((format!("flipped at {at}"), Some(flipped)));
        }
        spoilt.push(("longer".to_owned(), Some([&bytes[..], &[0; 64]].concat())));
        for (what, bytes) in spoilt.iter().filter(|(what, _)| name != "manifest" || what != "gone")
        {
            let damaged = folder();
            for other in &files {
                fs::copy(sound.path().join(other), damaged.path().join(other)).expect("copied");
            }
            match bytes {
                Some(bytes) => fs::write(damaged.path().join(name), bytes).expect("written"),
                None => fs::remove_file(damaged.path().join(name)).expect("removed"),
            }
            check_damaged(damaged.path(), &format!("{} {what}", name.display()));
        }
    }
}

#[test]
fn a_lost_manifest_means_an_empty_index() {
    let folder = folder();
    build_for_damage(folder.path());
    fs::remove_file(folder::manifest_path(folder.path())).expect("removed");
    let (index, recovery) = open(folder.path(), 1000);
    assert_eq!(recovery, Recovery { complete_to: PackNumber(0), discarded: None });
    assert_eq!(packs_found(&index, [1, 450]), [None, None]);
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn a_discarded_index_starts_anew() {
    let folder = folder();
    build_for_damage(folder.path());
    ChunkIndex::discard(folder.path()).expect("removed");
    let (_index, recovery) = open(folder.path(), 1000);
    assert_eq!(recovery, Recovery { complete_to: PackNumber(0), discarded: None });
}

/// The golden files are a run of three chunks, in packs 1, 1 and 2, and a manifest in which pack 1
/// was removed after the run was written.
#[test]
fn files_of_version_1_are_still_read_and_written() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/format-v1");
    let folder = folder();
    let (index, _) = open(folder.path(), 10);
    insert(&index, [(1, 1), (2, 1), (3, 2)]);
    flush(&index, 2);
    remove_packs(&index, [1]);
    drop(index);
    for name in ["manifest", "run-0000000000000001"] {
        let written = fs::read(folder.path().join(name)).expect("written above");
        assert_eq!(fs::read(golden.join(name)).expect("kept with the sources"), written, "{name}");
    }
    let (index, recovery) = open(folder.path(), 10);
    assert_eq!(recovery, Recovery { complete_to: PackNumber(2), discarded: None });
    assert_eq!(packs_found(&index, 1..4), [None, None, Some(2)]);
}

#[derive(Clone, Debug)]
enum Operation {
    /// Inserts chunks of the current pack.
    Insert(Vec<u64>),
    Lookup(Vec<u64>),
    /// Begins the next pack.
    Seal,
    /// Flushes the memory table, for all packs before the current pack.
    Flush,
    RemovePacks(BTreeSet<u64>),
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let seeds = || prop::collection::vec(0..60_u64, 0..20);
    prop_oneof![
        6 => seeds().prop_map(Operation::Insert),
        3 => seeds().prop_map(Operation::Lookup),
        3 => Just(Operation::Seal),
        2 => Just(Operation::Flush),
        1 => prop::collection::btree_set(0..12_u64, 0..3).prop_map(Operation::RemovePacks),
        1 => Just(Operation::Reopen),
    ]
}

/// The expected content of the index: for each chunk the packs that it was inserted with, the
/// latest last.
#[derive(Default)]
struct Model {
    places: BTreeMap<u64, Vec<u64>>,
    /// Chunks whose latest pack was removed or lost. The index may answer with an earlier pack, or
    /// with none.
    uncertain: BTreeSet<u64>,
    current_pack: u64,
    complete_to: u64,
}

impl Model {
    fn insert(&mut self, seed: u64) {
        self.places.entry(seed).or_default().push(self.current_pack);
        self.uncertain.remove(&seed);
    }

    fn remove_packs(&mut self, packs: &BTreeSet<u64>) {
        for (seed, places) in &mut self.places {
            if places.last().is_some_and(|pack| packs.contains(pack)) {
                self.uncertain.insert(*seed);
            }
            places.retain(|pack| !packs.contains(pack));
        }
    }

    /// Notes that the memory table is lost. Chunks of packs up to `complete_to` must remain; later
    /// chunks may be lost.
    fn lose_memory(&mut self) {
        let complete_to = self.complete_to;
        let beyond = |places: &&Vec<u64>| places.last().is_some_and(|&pack| pack > complete_to);
        let lost = self.places.iter().filter(|(_, places)| beyond(places)).map(|(seed, _)| *seed);
        self.uncertain.extend(lost);
    }

    fn allows(&self, seed: u64, found: Option<Place>) -> bool {
        let places = self.places.get(&seed).map_or(&[][..], Vec::as_slice);
        let latest = places.last().map(|&pack| place(seed, pack));
        if !self.uncertain.contains(&seed) {
            return found == latest;
        }
        found.is_none_or(|found| places.iter().any(|&pack| place(seed, pack) == found))
    }
}

fn run_operations(operations: &[Operation]) -> Result<(), TestCaseError> {
    const MEMORY_ENTRIES_MAX: usize = 24;
    let folder = folder();
    let (mut index, _) = open(folder.path(), MEMORY_ENTRIES_MAX);
    let mut model = Model { current_pack: 1, ..Model::default() };
    for operation in operations {
        match operation {
            Operation::Insert(seeds) => {
                insert(&index, seeds.iter().map(|&seed| (seed, model.current_pack)));
                seeds.iter().for_each(|&seed| model.insert(seed));
            }
            Operation::Lookup(seeds) => check_model(&index, &model, seeds.iter().copied())?,
            Operation::Seal => model.current_pack += 1,
            Operation::Flush => {
                model.complete_to = model.current_pack - 1;
                flush(&index, model.complete_to);
            }
            Operation::RemovePacks(packs) => {
                remove_packs(&index, packs.iter().copied());
                model.remove_packs(packs);
            }
            Operation::Reopen => {
                drop(index);
                let recovery;
                (index, recovery) = open(folder.path(), MEMORY_ENTRIES_MAX);
                let expected = PackNumber(model.complete_to);
                prop_assert_eq!(recovery, Recovery { complete_to: expected, discarded: None });
                model.lose_memory();
            }
        }
    }
    check_model(&index, &model, 0..70)?;
    check_entries(&index)?;
    index.state.merge_all_due().expect("sound");
    check_model(&index, &model, 0..70)?;
    prop_assert_eq!(index.statistics().merges_failed, 0);
    Ok(())
}

fn check_model(
    index: &ChunkIndex,
    model: &Model,
    seeds: impl Iterator<Item = u64>,
) -> Result<(), TestCaseError> {
    let seeds: Vec<_> = seeds.collect();
    let digests: Vec<_> = seeds.iter().map(|&seed| digest(seed)).collect();
    let answers = index.lookup(&digests).expect("sound");
    prop_assert_eq!(answers.len(), seeds.len());
    for (&seed, &found) in seeds.iter().zip(&answers) {
        prop_assert!(model.allows(seed, found), "chunk {}: {:?}", seed, found);
    }
    Ok(())
}

/// Checks that the entries are sorted and agree with look-ups.
fn check_entries(index: &ChunkIndex) -> Result<(), TestCaseError> {
    let digests: Vec<_> = (0..70).map(digest).collect();
    let look_up = || {
        let answers = index.lookup(&digests).expect("sound");
        let found = digests.iter().zip(answers);
        BTreeMap::from_iter(found.filter_map(|(digest, place)| Some((digest.prefix(), place?))))
    };
    let read = || index.entries().collect::<Result<Vec<_>, _>>().expect("sound");
    // A merge that began before a removal may end between the two reads. It drops earlier places
    // of chunks whose latest pack was removed, so the reads are compared once nothing changes.
    let (mut found, mut entries) = (look_up(), read());
    loop {
        let again = look_up();
        if again == found {
            break;
        }
        (found, entries) = (again, read());
    }
    prop_assert!(entries.is_sorted_by(|(one, _), (next, _)| one < next));
    prop_assert_eq!(BTreeMap::from_iter(entries), found);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn agrees_with_the_model(operations in prop::collection::vec(operation(), 1..50)) {
        run_operations(&operations)?;
    }
}

#[test]
fn a_snapshot_is_an_index_of_its_own() {
    let (folder, other) = (folder(), folder());
    let (index, _) = open(folder.path(), 100);
    insert(&index, (0..250).map(|seed| (seed, 1)));
    flush(&index, 1);
    remove_packs(&index, [9]);
    // The snapshot does not have entries that were not flushed.
    insert(&index, [(1000, 2)]);
    assert_eq!(index.snapshot(other.path()).expect("sound"), PackNumber(1));
    assert_eq!(ChunkIndex::complete_in(other.path()), PackNumber(1));
    insert(&index, (2000..2300).map(|seed| (seed, 3)));
    flush(&index, 3);
    index.state.merge_all_due().expect("sound");
    let (copy, recovery) = open(other.path(), 100);
    assert_eq!(recovery, Recovery { complete_to: PackNumber(1), discarded: None });
    assert_eq!(packs_found(&copy, [0, 249, 1000, 2000]), [Some(1), Some(1), None, None]);
    insert(&copy, [(5000, 7)]);
    flush(&copy, 7);
    drop(copy);
    assert_eq!(packs_found(&index, [249, 1000, 2299, 5000]), [Some(1), Some(2), Some(3), None]);
    assert_eq!(ChunkIndex::complete_in(&other.path().join("nothing")), PackNumber(0));
}
