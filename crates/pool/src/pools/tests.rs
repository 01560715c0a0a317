//! Packs on a real disk: appended, synced, sealed, torn, damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chunk::{Compression, Compressor, DomainKey, RawQuantum};
use model::{ChunkDigest, DomainId, PackNumber, Place, PoolId};
use proptest::prelude::*;
use sys::lock::Mutex;

use super::fleet::PackLimits;
use super::{Inventory, Pools};
use crate::error::{AppendError, PutError, ReadError};
use crate::layout;
use crate::mark::{Mark, mark, unmark};
use crate::numbers::{NumberSource, Numbers};
use crate::open::NewPackId;
use crate::pack::{Filler, PackRecord};
use crate::reserve::{Margin, Purpose, Reserve};
use crate::shelf::Shelf;
use crate::spec::{PoolSpec, Role, Storage};
use crate::storage::Intake as _;
use crate::storage::folder::FolderStorage;

mod of_moves;
mod of_returns;

const DOMAIN: DomainId = DomainId(1);

fn digest_of(_: DomainId, chunk: &[u8]) -> ChunkDigest {
    DomainKey::new([1; 32]).digest(chunk)
}

fn spec(number: u32, role: Role, folder: &Path) -> PoolSpec {
    let id = PoolId(number);
    let spec = Mark([u8::try_from(number).expect("small"); 16]);
    mark(folder, spec).expect("marked");
    let folder = folder.into();
    PoolSpec {
        id,
        folder,
        role,
        mark: spec,
        capacity_bytes: None,
        next: None,
        storage: Storage::Folder,
    }
}

fn open_known(folder: &Path, known: &BTreeMap<PackNumber, PackRecord>) -> (Pools, Inventory) {
    let specs = [spec(1, Role::Primary, folder)];
    Pools::open(&specs, Numbers::Own(PackNumber(1)), known, digest_of).expect("a folder")
}

fn open(folder: &Path) -> (Pools, Inventory) {
    open_known(folder, &BTreeMap::new())
}

fn quantum(chunks: &[Vec<u8>]) -> (Vec<u8>, Vec<u32>, Vec<ChunkDigest>) {
    let mut raw = RawQuantum::default();
    chunks.iter().for_each(|chunk| _ = raw.push(chunk));
    let record = Compressor::new(Compression::Standard).expect("context").encode(&raw);
    (record, raw.lengths().to_vec(), raw.chunks().map(|c| digest_of(DOMAIN, c)).collect())
}

fn append(pool: &Pools, chunks: &[Vec<u8>]) -> Place {
    let (record, lengths, digests) = quantum(chunks);
    pool.append(Filler::any(DOMAIN), &record, &lengths, &digests).expect("space")
}

/// Reads the chunk at `place` as a restore does.
fn read(pool: &Pools, place: Place) -> Result<Vec<u8>, ReadError> {
    let table = pool.table(place.pack())?;
    let missing = ReadError::Missing { pack: place.pack(), index: place.index() };
    let quantum = table.quanta()[table.quantum_of(place.index()).ok_or(missing)?];
    let record = pool.read(place.pack(), &quantum)?;
    let opened = chunk::Decompressor::new().expect("context").decode(&record);
    let opened = opened.map_err(|source| ReadError::Damaged { pack: place.pack(), source })?;
    let chunk = opened.chunks().nth((place.index() - quantum.first_index) as usize);
    Ok(chunk.expect("within the quantum").to_vec())
}

fn pack_file(folder: &Path) -> PathBuf {
    layout::path(folder, PackNumber(1))
}

#[test]
fn chunks_are_read_from_open_and_from_sealed_packs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let first = append(&pool, &[b"one".to_vec(), b"two".to_vec()]);
    let third = append(&pool, &[b"three".to_vec()]);
    assert_eq!((first.index(), third.index()), (0, 2));
    let second = Place::new(first.pack(), 1);
    for sealed in [false, true] {
        if sealed {
            pool.seal_all().expect("synced");
        }
        for (place, text) in [(first, "one"), (second, "two"), (third, "three")] {
            assert_eq!(read(&pool, place).expect("there"), text.as_bytes());
        }
    }
    let next = append(&pool, &[b"four".to_vec()]);
    assert_eq!(next.pack(), PackNumber(2));
}

#[test]
fn news_tell_what_is_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    append(&pool, &[vec![1; 1000]]);
    pool.sync().expect("synced");
    let [news] = pool.take_news()[..] else { panic!("one pack") };
    assert!(!news.sealed && news.bytes > 32);
    pool.seal_all().expect("sealed");
    let [news] = pool.take_news()[..] else { panic!("one pack") };
    assert!(news.sealed);
    pool.sync().expect("nothing to do");
    assert_eq!(pool.take_news(), []);
}

#[test]
fn a_dead_servers_pack_is_recovered_and_numbers_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let place = append(&pool, &[b"kept".to_vec(), vec![7; 5000]]);
    pool.sync().expect("synced");
    std::mem::forget(pool);
    let (pool, opened) = open(folder.path());
    assert_eq!((opened.sealed.len(), opened.recovered.len()), (0, 1));
    assert_eq!(read(&pool, place).expect("recovered"), b"kept");
    assert_eq!(append(&pool, &[b"new".to_vec()]).pack(), PackNumber(2));
    drop(pool);
    let (_, opened) = open(folder.path());
    assert_eq!(opened.sealed, [PackNumber(1)]);
}

#[test]
fn what_follows_a_torn_record_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let kept = append(&pool, &[b"kept".to_vec()]);
    let torn = append(&pool, &[vec![9; 100]]);
    let end = pool.table(torn.pack()).expect("open").end();
    std::mem::forget(pool);
    let file = File::options().write(true).open(pack_file(folder.path())).expect("the pack");
    file.set_len(end - 1).expect("torn");
    let (pool, _) = open(folder.path());
    assert_eq!(read(&pool, kept).expect("recovered"), b"kept");
    assert!(matches!(read(&pool, torn), Err(ReadError::Missing { index: 1, .. })));
}

#[test]
fn a_footer_that_was_torn_is_written_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let first = append(&pool, &[b"first".to_vec()]);
    let second = append(&pool, &[b"second".to_vec()]);
    let bytes = pool.table(second.pack()).expect("open").end();
    pool.seal_all().expect("sealed");
    std::mem::forget(pool);
    // The power was cut before the sync of the footer: only its last bytes are there.
    flip(folder.path(), bytes);
    let known = BTreeMap::from([(PackNumber(1), PackRecord { sealed: false, bytes })]);
    let (pool, opened) = open_known(folder.path(), &known);
    assert_eq!((opened.recovered.len(), opened.damaged.len()), (1, 0));
    for (place, text) in [(first, "first"), (second, "second")] {
        assert_eq!(read(&pool, place).expect("recovered"), text.as_bytes());
    }
    drop(pool);
    let (_, opened) = open(folder.path());
    assert_eq!(opened.sealed, [PackNumber(1)]);
}

#[test]
fn records_before_a_torn_footer_are_not_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let kept = append(&pool, &[b"kept".to_vec()]);
    let hit = append(&pool, &[vec![9; 100]]);
    let bytes = pool.table(hit.pack()).expect("open").end();
    pool.seal_all().expect("sealed");
    std::mem::forget(pool);
    flip(folder.path(), bytes - 1);
    flip(folder.path(), bytes);
    let content = std::fs::read(pack_file(folder.path())).expect("the pack");
    let (pool, opened) = open(folder.path());
    assert_eq!(opened.damaged.len(), 1);
    assert_eq!(std::fs::read(pack_file(folder.path())).expect("the pack"), content);
    assert_eq!(read(&pool, kept).expect("still readable"), b"kept");
}

#[test]
fn damage_before_the_durable_end_is_not_taken_for_a_tear() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let kept = append(&pool, &[b"kept".to_vec()]);
    let hit = append(&pool, &[vec![9; 100]]);
    pool.sync().expect("synced");
    let bytes = pool.table(hit.pack()).expect("open").end();
    std::mem::forget(pool);
    let mut content = std::fs::read(pack_file(folder.path())).expect("the pack");
    let at = usize::try_from(bytes).expect("small") - 1;
    content[at] ^= 1;
    std::fs::write(pack_file(folder.path()), &content).expect("written");
    let known = BTreeMap::from([(PackNumber(1), PackRecord { sealed: false, bytes })]);
    let (pool, opened) = open_known(folder.path(), &known);
    assert_eq!(opened.damaged.len(), 1);
    assert_eq!(std::fs::read(pack_file(folder.path())).expect("the pack"), content);
    assert_eq!(read(&pool, kept).expect("still readable"), b"kept");
    assert!(read(&pool, hit).is_err());
}

#[test]
fn an_empty_pack_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = NewPackId { pool: PoolId(1), pack: PackNumber(1), domain: DOMAIN };
    let margin = Margin { reserve: Reserve::default(), purpose: Purpose::Data };
    drop(FolderStorage::new(folder.path(), true).create(id, margin).expect("made"));
    let (_, opened) = open(folder.path());
    assert!(opened.sealed.is_empty() && opened.recovered.is_empty() && opened.damaged.is_empty());
    assert!(!pack_file(folder.path()).try_exists().expect("asked"));
}

#[test]
fn a_full_pack_is_sealed_by_the_next_sync() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let noise = |seed: u8| {
        let mut bytes = vec![0; 1 << 20];
        blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
        bytes
    };
    let places: Vec<Place> = (0..66).map(|seed| append(&pool, &[noise(seed)])).collect();
    assert_eq!(places[65].pack(), PackNumber(2));
    assert_eq!(read(&pool, places[0]).expect("waits for its seal"), noise(0));
    pool.sync().expect("synced");
    let sealed = pool.take_news().into_iter().filter(|news| news.sealed);
    assert_eq!(sealed.map(|news| news.pack).collect::<Vec<_>>(), [PackNumber(1)]);
    assert_eq!(read(&pool, places[0]).expect("sealed"), noise(0));
}

/// Opens two pools in new folders: the first takes packs, the second has `role`.
fn open_two(role: Role, capacity: Option<u64>) -> (Pools, [tempfile::TempDir; 2]) {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let specs = two(&folders, role, capacity);
    let opened = Pools::open(&specs, Numbers::Own(PackNumber(1)), &BTreeMap::new(), digest_of);
    (opened.expect("folders").0, folders)
}

fn two(folders: &[tempfile::TempDir; 2], role: Role, capacity_bytes: Option<u64>) -> [PoolSpec; 2] {
    let next = Some(PoolId(2)).filter(|_| role == Role::Primary);
    let first = spec(1, Role::Primary, folders[0].path());
    [PoolSpec { capacity_bytes, next, ..first }, spec(2, role, folders[1].path())]
}

/// Looks for pools that have come or gone, without records of packs. Returns those that came.
fn refresh(pools: &Pools) -> Vec<PoolId> {
    pools.refresh(&pools.back(), &BTreeMap::new()).pools
}

fn flip(folder: &Path, offset: u64) {
    let path = pack_file(folder);
    let mut content = std::fs::read(&path).expect("the pack");
    content[usize::try_from(offset).expect("small")] ^= 1;
    std::fs::write(path, content).expect("written");
}

#[test]
fn what_one_pool_has_lost_another_gives_and_mends() {
    let (pools, folders) = open_two(Role::Copy, None);
    let places = [append(&pools, &[vec![1; 900]]), append(&pools, &[vec![2; 900]])];
    let pack = places[0].pack();
    pools.seal_all().expect("sealed");
    let bytes = pools.put(pack, PoolId(2)).expect("copied");
    assert_eq!(pools.homes(pack), [PoolId(1), PoolId(2)]);
    let original = std::fs::read(pack_file(folders[0].path())).expect("the pack");
    assert_eq!(std::fs::read(pack_file(folders[1].path())).expect("the copy"), original);
    assert_eq!(bytes, original.len() as u64);
    // A different quantum of the pack is damaged in each pool.
    let table = pools.table(pack).expect("whole");
    for (folder, quantum) in folders.iter().zip(table.quanta()) {
        flip(folder.path(), quantum.offset + u64::from(quantum.record_bytes) - 1);
    }
    assert!(pools.take_suspects().is_empty());
    for (place, byte) in places.iter().zip(1..) {
        assert_eq!(read(&pools, *place).expect("whole somewhere"), vec![byte; 900]);
    }
    assert_eq!(pools.take_suspects(), BTreeSet::from([pack]));
    for pool in [PoolId(1), PoolId(2)] {
        pools.put(pack, pool).expect("mended");
    }
    for folder in &folders {
        assert_eq!(std::fs::read(pack_file(folder.path())).expect("the pack"), original);
    }
}

#[test]
fn what_is_whole_nowhere_is_left_as_it_is() {
    let (pools, folders) = open_two(Role::Copy, None);
    let place = append(&pools, &[vec![1; 900]]);
    pools.seal_all().expect("sealed");
    let end = pools.table(place.pack()).expect("whole").end();
    flip(folders[0].path(), end - 1);
    let before = std::fs::read(pack_file(folders[0].path())).expect("the pack");
    for pool in [PoolId(1), PoolId(2)] {
        assert!(matches!(pools.put(place.pack(), pool), Err(PutError::Read(_))));
    }
    assert_eq!(std::fs::read(pack_file(folders[0].path())).expect("the pack"), before);
    assert_eq!(pools.homes(place.pack()), [PoolId(1)]);
}

#[test]
fn a_pack_without_a_footer_is_mended_only_when_all_of_it_is_there() {
    for cut in [40, 200] {
        let (pools, folders) = open_two(Role::Copy, None);
        append(&pools, &[b"one".to_vec()]);
        let place = append(&pools, &[b"two".to_vec(), (0..255).collect()]);
        pools.seal_all().expect("sealed");
        let file = pack_file(folders[0].path());
        let bytes = std::fs::metadata(&file).expect("there").len();
        let known = BTreeMap::from([(place.pack(), PackRecord { sealed: true, bytes })]);
        drop(pools);
        let file = File::options().write(true).open(file).expect("the pack");
        file.set_len(bytes - cut).expect("cut");
        let specs =
            [spec(1, Role::Primary, folders[0].path()), spec(2, Role::Copy, folders[1].path())];
        let opened = Pools::open(&specs, Numbers::Own(PackNumber(1)), &known, digest_of);
        let put = opened.expect("folders").0.put(place.pack(), PoolId(2));
        assert_eq!(put.is_ok(), cut == 40, "{put:?}");
    }
}

#[test]
fn what_a_pool_has_no_room_for_goes_to_the_next() {
    let (pools, folders) = open_two(Role::Primary, Some(3000));
    let noise = |seed: u8| {
        let mut bytes = vec![0; 1000];
        blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
        bytes
    };
    let places: Vec<Place> = (0..6).map(|seed| append(&pools, &[noise(seed)])).collect();
    pools.sync().expect("synced");
    assert_eq!((places[0].pack(), places[5].pack()), (PackNumber(1), PackNumber(2)));
    assert!(pools.usage(PoolId(1)).bytes <= 3000 && pools.usage(PoolId(2)).packs == 1);
    for (place, seed) in places.iter().zip(0..) {
        assert_eq!(read(&pools, *place).expect("there"), noise(seed));
    }
    // A pack that was moved to the next pool is found there.
    pools.seal_all().expect("sealed");
    pools.put(PackNumber(1), PoolId(2)).expect("copied");
    pools.remove_from(PoolId(1), PackNumber(1)).expect("removed");
    assert_eq!(read(&pools, places[0]).expect("there"), noise(0));
    assert_eq!(pools.usage(PoolId(1)).bytes, 0);
    assert!(!pack_file(folders[0].path()).try_exists().expect("asked"));
}

#[test]
fn a_folder_without_its_mark_is_away() {
    let (pools, folders) = open_two(Role::Copy, None);
    let place = append(&pools, &[b"one".to_vec()]);
    pools.seal_all().expect("sealed");
    pools.put(place.pack(), PoolId(2)).expect("copied");
    unmark(folders[0].path()).expect("unmounted");
    assert_eq!(refresh(&pools), []);
    assert!(!pools.usage(PoolId(1)).is_there);
    let (record, lengths, digests) = quantum(&[b"new".to_vec()]);
    let refused = pools.append(Filler::any(DOMAIN), &record, &lengths, &digests);
    assert!(matches!(refused, Err(AppendError::Away { .. })), "{refused:?}");
    assert_eq!(read(&pools, place).expect("from the copy"), b"one");
    mark(folders[0].path(), Mark([1; 16])).expect("back");
    assert_eq!(refresh(&pools), [PoolId(1)]);
    assert_eq!(append(&pools, &[b"new".to_vec()]).pack(), PackNumber(2));
    assert!(mark(folders[0].path(), Mark([3; 16])).is_err(), "the folder has another pool's mark");
}

#[test]
fn an_unmounted_disk_takes_its_open_pack_with_it() {
    let (pools, folders) = open_two(Role::Primary, None);
    let durable = append(&pools, &[b"durable".to_vec()]);
    pools.sync().expect("synced");
    let lost = append(&pools, &[b"lost".to_vec()]);
    assert_eq!(pools.failures(), 0);
    unmark(folders[0].path()).expect("unmounted");
    refresh(&pools);
    assert_eq!(pools.failures(), 1, "the caller that appended sees the failure");
    // New packs go to the next pool meanwhile.
    let elsewhere = append(&pools, &[b"elsewhere".to_vec()]);
    pools.sync().expect("synced");
    assert_eq!(read(&pools, elsewhere).expect("there"), b"elsewhere");
    mark(folders[0].path(), Mark([1; 16])).expect("back");
    refresh(&pools);
    assert_eq!(read(&pools, durable).expect("as it was synced"), b"durable");
    assert!(pools.chunk(lost).is_err(), "data that was not synced is not served");
    let pack = durable.pack();
    assert!(pools.has_failed(pack) && pools.table_at(PoolId(1), pack).is_err(), "it has no footer");
    pools.take_news();
    pools.close_failed();
    assert!(!pools.has_failed(pack));
    let (table, bytes) = pools.closed(pack).expect("it has a footer");
    assert_eq!((table.chunk_count(), pools.bytes_of(pack)), (1, bytes));
    let [news] = pools.take_news()[..] else { panic!("one pack") };
    assert!(news.sealed && news.pack == pack && news.bytes == bytes, "{news:?}");
    assert_eq!(read(&pools, durable).expect("as it was synced"), b"durable");
    assert!(pools.chunk(lost).is_err(), "data that was not synced is not served");
    assert_ne!(append(&pools, &[b"new".to_vec()]).pack(), durable.pack());
}

#[test]
fn a_failed_pack_without_durable_data_is_removed() {
    let (pools, folders) = open_two(Role::Primary, None);
    let lost = append(&pools, &[b"lost".to_vec()]);
    unmark(folders[0].path()).expect("unmounted");
    refresh(&pools);
    pools.close_failed();
    assert!(pools.has_failed(lost.pack()), "its disk is not there");
    mark(folders[0].path(), Mark([1; 16])).expect("back");
    refresh(&pools);
    pools.close_failed();
    assert!(!pools.has_failed(lost.pack()) && pools.homes(lost.pack()).is_empty());
    assert!(!layout::path(folders[0].path(), lost.pack()).try_exists().expect("a folder"));
}

#[test]
fn errors_of_a_disk_are_counted_at_their_pool() {
    let (pools, folders) = open_two(Role::Copy, None);
    let place = append(&pools, &[b"one".to_vec()]);
    pools.seal_all().expect("sealed");
    pools.put(place.pack(), PoolId(2)).expect("there is room");
    assert_eq!((pools.disk_errors(PoolId(1)), pools.disk_errors(PoolId(2))), (0, 0));
    let path = layout::path(folders[1].path(), place.pack());
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("a folder in the place of the pack");
    let error = pools.table_at(PoolId(2), place.pack()).expect_err("a folder is no pack");
    assert!(matches!(error, ReadError::Disk { .. }), "{error}");
    assert_eq!((pools.disk_errors(PoolId(1)), pools.disk_errors(PoolId(2))), (0, 1));
    let summary = sys::disk_error::summary();
    assert!(summary.last.contains("cannot read"), "{}", summary.last);
    std::fs::remove_dir(&path).expect("removed");
    assert!(pools.table_at(PoolId(2), place.pack()).is_err(), "a missing pack");
    assert_eq!(pools.disk_errors(PoolId(2)), 1, "a missing file is no error of the disk");
}

#[test]
fn a_pool_that_comes_back_has_had_its_numbers() {
    let (pools, folders) = open_two(Role::Copy, None);
    unmark(folders[0].path()).expect("unmounted");
    refresh(&pools);
    // Another process has filled the folder meanwhile.
    let other = spec(1, Role::Primary, folders[0].path());
    let opened = Pools::open(&[other], Numbers::Own(PackNumber(7)), &BTreeMap::new(), digest_of);
    let place = append(&opened.expect("a folder").0, &[b"other".to_vec()]);
    assert_eq!(place.pack(), PackNumber(7));
    refresh(&pools);
    assert_eq!(append(&pools, &[b"new".to_vec()]).pack(), PackNumber(8));
}

/// Returns a reserve that leaves no space of the folder's file system for data, but some for
/// upkeep.
fn reserve_of(folder: &Path) -> Reserve {
    let file = File::open(folder).expect("a folder");
    let room = sys::space::room(&file).expect("it tells its room");
    Reserve { percent: 100, bytes_max: room.free_bytes / 2 * 3 }
}

#[test]
fn data_stops_before_the_reserve_and_upkeep_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let kept = append(&pool, &[b"kept".to_vec()]);
    pool.seal_all().expect("sealed");
    pool.keep_reserve(reserve_of(folder.path()));
    let (record, lengths, digests) = quantum(&[vec![1; 1000]]);
    let filler = Filler::any(DOMAIN);
    let refused = pool.append(filler, &record, &lengths, &digests).expect_err("it is full");
    assert!(matches!(refused, AppendError::Full { .. }), "{refused}");
    assert_eq!(pool.failures(), 0, "no pack has failed");
    let written = pool.append_for_upkeep(filler, &record, &lengths, &digests);
    let written = written.expect("upkeep may use a part of the reserve");
    pool.seal_all().expect("sealed");
    assert_eq!(read(&pool, written).expect("there"), vec![1; 1000]);
    assert_eq!(read(&pool, kept).expect("there"), b"kept");
    assert!(pool.room_for_upkeep() > 0);
    pool.keep_reserve(Reserve { percent: 100, bytes_max: u64::MAX });
    let usage = pool.usage(PoolId(1));
    assert_eq!(usage.bytes_max, usage.bytes, "nothing more fits");
    pool.keep_reserve(Reserve::default());
    append(&pool, &[vec![1; 1000]]);
}

#[test]
fn pools_refuse_data_from_the_first_refusal_until_one_has_room() {
    let (pools, folders) = open_two(Role::Primary, None);
    let set = |capacity_bytes: u64| {
        let first = spec(1, Role::Primary, folders[0].path());
        let first = PoolSpec { capacity_bytes: Some(capacity_bytes), ..first };
        pools.set(&[first, spec(2, Role::Primary, folders[1].path())]).expect("changed");
    };
    let (record, lengths, digests) = quantum(&[vec![1; 1000]]);
    let filler = Filler::any(DOMAIN);
    let bytes = record.len() as u64;
    set(bytes - 1);
    assert!(!pools.refuses_data(), "nobody has asked");
    let refused = pools.append(filler, &record, &lengths, &digests).expect_err("it is full");
    assert!(matches!(refused, AppendError::Full { .. }), "{refused}");
    assert!(pools.refuses_data());
    set(2 * bytes - 1);
    assert!(pools.refuses_data(), "the next record would be refused again");
    set(2 * bytes);
    assert!(!pools.refuses_data());
    set(bytes - 1);
    assert!(!pools.refuses_data(), "nobody has asked since");
    drop(
        pools
            .append_for_upkeep(filler, &record, &lengths, &digests)
            .expect_err("it is full"),
    );
    assert!(!pools.refuses_data(), "no new data was refused");
}

#[test]
fn a_pool_takes_no_second_copy_into_its_reserve() {
    let (pools, [first, _second]) = open_two(Role::Copy, None);
    let place = append(&pools, &[b"one".to_vec()]);
    pools.seal_all().expect("sealed");
    pools.keep_reserve(reserve_of(first.path()));
    let refused = pools.put(place.pack(), PoolId(2)).expect_err("it is full");
    assert!(matches!(refused, PutError::Write(AppendError::Full { .. })), "{refused}");
    pools.keep_reserve(Reserve::default());
    pools.put(place.pack(), PoolId(2)).expect("there is room");
}

#[test]
fn a_pack_is_never_written_where_one_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, _) = open(folder.path());
    let path = layout::make_for(folder.path(), PackNumber(1)).expect("a folder");
    std::fs::write(&path, b"somebody's").expect("written");
    assert_eq!(append(&pools, &[b"new".to_vec()]).pack(), PackNumber(2));
    assert_eq!(std::fs::read(path).expect("there"), b"somebody's");
}

#[test]
fn a_pool_takes_no_more_packs_than_it_has_room_for() {
    let (pools, folders) = open_two(Role::Primary, None);
    let place = append(&pools, &[b"some text".to_vec()]);
    pools.seal_all().expect("sealed");
    let mut small = spec(2, Role::Primary, folders[1].path());
    small.capacity_bytes = Some(20);
    pools.set(&[spec(1, Role::Primary, folders[0].path()), small]).expect("changed");
    let refused = pools.put(place.pack(), PoolId(2));
    assert!(matches!(refused, Err(PutError::Write(AppendError::Full { .. }))), "{refused:?}");
}

/// A shelf whose volumes are files of a folder.
struct FileShelf {
    folder: PathBuf,
}

impl Shelf for FileShelf {
    fn packs(&self) -> std::io::Result<BTreeMap<PackNumber, u64>> {
        let bytes =
            |pack| std::fs::metadata(layout::path(&self.folder, pack)).expect("there").len();
        Ok(layout::list(&self.folder)?
            .into_iter()
            .map(|pack| (pack, bytes(pack)))
            .collect())
    }

    fn open(&self, pack: PackNumber) -> Result<File, ReadError> {
        File::open(layout::path(&self.folder, pack)).map_err(|e| ReadError::of_file(pack, e))
    }

    fn forget(&self, pack: PackNumber) -> std::io::Result<()> {
        std::fs::remove_file(layout::path(&self.folder, pack))
    }

    fn arrival(&self, _pack: PackNumber) -> Option<std::time::SystemTime> {
        None
    }
}

#[test]
fn a_pack_on_a_shelf_is_read_there_and_its_table_without_it() {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let volumes = folders[2].path();
    let mut on_volumes = spec(2, Role::Primary, folders[1].path());
    on_volumes.storage = Storage::Shelf(Arc::new(FileShelf { folder: volumes.to_owned() }));
    let specs = [spec(1, Role::Primary, folders[0].path()), on_volumes];
    let opened = Pools::open(&specs, Numbers::Own(PackNumber(1)), &BTreeMap::new(), digest_of);
    let pools = opened.expect("folders").0;
    let place = append(&pools, &[b"one".to_vec(), b"two".to_vec()]);
    pools.seal_all().expect("sealed");
    // The pack is written to a volume and removed from the first pool.
    let mut file =
        File::create(layout::make_for(volumes, place.pack()).expect("a folder")).expect("a volume");
    let mut reader = pools.reader(place.pack()).expect("whole");
    let bytes = std::io::copy(&mut reader, &mut file).expect("written");
    assert_eq!(bytes, reader.bytes());
    let file = File::open(layout::path(volumes, place.pack())).expect("written");
    pools.check_file(file, place.pack()).expect("whole");
    pools.shelved(place.pack(), PoolId(2)).expect("whole");
    assert!(!pools.is_only_shelved(place.pack()));
    pools.remove_from(PoolId(1), place.pack()).expect("removed");
    assert!(pools.is_only_shelved(place.pack()) && pools.is_shelf(PoolId(2)));
    assert_eq!(read(&pools, place).expect("on the shelf"), b"one");
    assert!(matches!(pools.put(place.pack(), PoolId(1)), Ok(put) if put == bytes));
    pools.remove_from(PoolId(1), place.pack()).expect("removed");
    // Without the volume only the table of the pack is known.
    std::fs::remove_file(layout::path(volumes, place.pack())).expect("lost");
    assert_eq!(pools.chunk(place).expect("its table is kept").0, 3);
    assert!(read(&pools, place).is_err());
    assert_eq!(pools.homes(place.pack()), [PoolId(2)]);
}

#[test]
fn files_beside_packs_are_those_of_a_pool_that_is_there() {
    let (pools, folders) = open_two(Role::Copy, None);
    pools.put_file(PoolId(1), "b", b"two").expect("written");
    pools.put_file(PoolId(1), "a", b"one").expect("written");
    assert_eq!(pools.files(PoolId(1)).expect("listed"), ["a", "b"]);
    assert_eq!(pools.files(PoolId(2)).expect("listed"), [""; 0]);
    assert_eq!(pools.read_file(PoolId(1), "a").expect("there"), b"one");
    pools.remove_file(PoolId(1), "a").expect("removed");
    pools
        .remove_file(PoolId(1), "a")
        .expect("a file that is gone is removed already");
    unmark(folders[0].path()).expect("unmounted");
    assert!(matches!(pools.put_file(PoolId(1), "c", b""), Err(AppendError::Away { .. })));
    assert!(pools.files(PoolId(1)).is_err());
}

#[test]
fn a_pack_that_is_moved_by_hand_is_found_where_it_is() {
    let (pools, folders) = open_two(Role::Primary, None);
    let place = append(&pools, &[b"one".to_vec()]);
    pools.seal_all().expect("sealed");
    assert_eq!(read(&pools, place).expect("there"), b"one");
    let target = layout::make_for(folders[1].path(), place.pack()).expect("a folder");
    std::fs::rename(pack_file(folders[0].path()), target).expect("moved");
    pools.look_for(place.pack());
    assert_eq!(pools.homes(place.pack()), [PoolId(2)]);
    assert_eq!(read(&pools, place).expect("there"), b"one");
    // A pool whose disk is unavailable has lost nothing.
    std::fs::remove_file(pack_file(folders[1].path())).expect("gone");
    unmark(folders[1].path()).expect("unmounted");
    pools.look_for(place.pack());
    assert_eq!(pools.homes(place.pack()), [PoolId(2)]);
}

#[test]
fn a_damaged_pack_that_was_replaced_is_read_anew() {
    let (pools, folders) = open_two(Role::Copy, None);
    let place = append(&pools, &[vec![1; 900]]);
    pools.seal_all().expect("sealed");
    pools.put(place.pack(), PoolId(2)).expect("copied");
    let quantum = pools.table(place.pack()).expect("whole").quanta()[0];
    flip(folders[0].path(), quantum.offset + u64::from(quantum.record_bytes) - 1);
    assert!(pools.read_at(PoolId(1), place.pack(), &quantum).is_err());
    pools.put(place.pack(), PoolId(1)).expect("mended");
    // The file that was open before is not the pack any more.
    assert!(pools.read_at(PoolId(1), place.pack(), &quantum).is_ok());
    assert!(pools.is_whole(PoolId(1), place.pack()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_flipped_bit_never_gives_wrong_data(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let folder = tempfile::tempdir().expect("a folder");
        let (pool, _) = open(folder.path());
        let chunks = [b"some text some text".to_vec(), vec![3; 900], b"x".to_vec()];
        let first = append(&pool, &chunks);
        pool.seal_all().expect("sealed");
        drop(pool);
        let mut bytes = std::fs::read(pack_file(folder.path())).expect("the pack");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        std::fs::write(pack_file(folder.path()), &bytes).expect("written");
        let (pool, _) = open(folder.path());
        for (index, chunk) in (0..).zip(&chunks) {
            let place = Place::new(first.pack(), index);
            let digest_holds = |found: &Vec<u8>| {
                pool.chunk(place).is_ok_and(|(_, digest)| digest == digest_of(DOMAIN, found))
            };
            if let Ok(found) = read(&pool, place) && digest_holds(&found) {
                prop_assert_eq!(&found, chunk);
            }
        }
    }
}

/// Opens pools that several servers use. Returns them with the last number that was given.
fn open_shared(folder: &Path) -> (Pools, Arc<Mutex<u64>>) {
    let given = Arc::new(Mutex::new(0));
    let next = Arc::clone(&given);
    let take: NumberSource = Arc::new(move || {
        let mut next = next.lock();
        let start = *next + 1;
        *next += 40;
        // Other servers take numbers as well.
        sys::clock::sleep(std::time::Duration::from_millis(5));
        Ok(PackNumber(start)..PackNumber(*next + 1))
    });
    let specs = [spec(1, Role::Primary, folder)];
    let opened = Pools::open(&specs, Numbers::Shared(take), &BTreeMap::new(), digest_of);
    (opened.expect("a folder").0, given)
}

#[test]
fn what_is_said_of_numbers_is_what_was_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, given) = open_shared(folder.path());
    assert_eq!(pools.standing(true), PackLimits { horizon: None, numbers_end: PackNumber(0) });
    // Several threads take numbers at once: a range that a thread discards was taken nevertheless.
    std::thread::scope(|scope| {
        (0..6).for_each(|_| drop(scope.spawn(|| pools.stock_up().expect("there are"))));
    });
    let end = PackNumber(*given.lock() + 1);
    let standing = pools.standing(false);
    assert_eq!(standing.numbers_end, end);
    let next = standing.horizon.expect("numbers are kept");
    assert!(next < end);
    // The number of a new pack is not below the limit that was reported to others.
    let place = append(&pools, &[vec![7; 100]]);
    assert!(place.pack() >= next);
    assert_eq!(pools.standing(true).horizon, Some(place.pack()));
    pools.seal_all().expect("sealed");
    assert_eq!(pools.standing(true).horizon, Some(place.pack()), "the pack was not reported yet");
    assert_eq!(pools.take_news().len(), 1);
    // An idle server discards its numbers. Its next number is above the numbers that other servers
    // took since.
    assert_eq!(pools.standing(true), PackLimits { horizon: None, numbers_end: end });
    let later = append(&pools, &[vec![8; 100]]);
    assert!(later.pack() >= end, "{later:?} is before {end:?}");
}
