//! Libraries, volumes, and the parts of packs on them.

use std::collections::BTreeMap;

use catalog::{
    Catalog, LibraryRow, PartRow, PoolRow, StoredPack, VolumeAccess, VolumePart, VolumeRow,
    VolumeState, Write,
};
use model::{PackNumber, PoolId};

use super::Engine;
use crate::samples::{at, library, part, pool, put_parts, refusal, stored, volume};

/// Number of a volume that no catalogue of these tests has.
const NO_VOLUME: u64 = 77_777;

/// Makes the library `L`, `pools` pools and `volumes` volumes.
fn fill(catalog: &dyn Catalog, pools: usize, volumes: usize) -> (Vec<PoolId>, Vec<u64>) {
    catalog.put_library(&library("L")).expect("is made");
    let new_pool = |i| PoolRow { mark: [9; 16], ..pool(&format!("P{i}")) };
    let pools = (0..pools).map(|i| catalog.add_pool(&new_pool(i)).expect("is made"));
    let new_volume = |i| volume("L", &format!("V{i}"));
    let volumes = (0..volumes).map(|i| catalog.add_volume(&new_volume(i)).expect("is made"));
    (pools.collect(), volumes.collect())
}

fn commit(catalog: &dyn Catalog, write: Write) {
    catalog.commit(vec![write]).expect("the batch is performed");
}

#[track_caller]
fn check_pack(catalog: &dyn Catalog, pool: PoolId, pack: u64, expected: &[PartRow]) {
    let parts = catalog.parts(pool, PackNumber(pack)).expect("are listed");
    assert_eq!(parts, expected, "pack {pack}");
    let packs = catalog.stored_packs(pool).expect("are listed");
    let row = packs.into_iter().find(|row| row.pack == PackNumber(pack));
    assert_eq!(row, (!expected.is_empty()).then(|| stored(pack, expected)), "pack {pack}");
}

pub(crate) fn a_library_is_as_it_was_put(engine: &dyn Engine) {
    let catalog = engine.open();
    assert_eq!(catalog.libraries().expect("none"), []);
    let folder = LibraryRow {
        changer: None,
        drives: Vec::new(),
        folder: Some("/srv/volumes".to_owned()),
        capacity_bytes: Some(1 << 50),
        drives_max: u32::MAX,
        retain_secs: u32::MAX,
        optimised_only: true,
        writers_max: u32::MAX,
        ..library("B")
    };
    catalog.put_library(&folder).expect("is made");
    catalog.put_library(&library("A")).expect("is made");
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.libraries().expect("are listed"), [library("A"), folder]);
    catalog.put_library(&library("B")).expect("is replaced");
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.libraries().expect("are listed"), [library("A"), library("B")]);
}

pub(crate) fn libraries_are_told_apart(engine: &dyn Engine) {
    let catalog = engine.open();
    for name in ["b", "C", "A"] {
        catalog.put_library(&library(name)).expect("is made");
    }
    let replaced = LibraryRow { drives_max: 9, ..library("b") };
    let respelled = LibraryRow { name: "B".to_owned(), ..replaced.clone() };
    catalog.put_library(&respelled).expect("is replaced");
    let expected = [library("A"), replaced, library("C")];
    assert_eq!(catalog.libraries().expect("are listed"), expected);
    catalog.remove_library("B").expect("is removed");
    assert_eq!(refusal(catalog.remove_library("b")), "not found");
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.libraries().expect("are listed"), [library("A"), library("C")]);
}

pub(crate) fn a_volume_is_as_it_was_put(engine: &dyn Engine) {
    let catalog = engine.open();
    assert_eq!(catalog.volumes().expect("none"), []);
    let (pools, _) = fill(&*catalog, 1, 0);
    let first = VolumeRow {
        label: [1; 16],
        block_bytes: u32::MAX,
        pool: Some(pools[0]),
        group: "web".to_owned(),
        state: VolumeState::Filling,
        access: VolumeAccess::Offsite,
        location: "the vault".to_owned(),
        written_bytes: 1 << 50,
        errors: 5,
        changed: at(1),
        ..volume("L", "V1")
    };
    // The number of a new volume is not used.
    let given = VolumeRow { id: NO_VOLUME, ..first.clone() };
    let first = VolumeRow { id: catalog.add_volume(&given).expect("is made"), ..first };
    let second = volume("L", "V2");
    let second = VolumeRow { id: catalog.add_volume(&second).expect("is made"), ..second };
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.volumes().expect("are listed"), [first.clone(), second.clone()]);

    let (a, b) =
        (VolumeRow { id: first.id, ..second.clone() }, VolumeRow { id: second.id, ..first });
    let a = VolumeRow { name: "V0".to_owned(), ..a };
    commit(&*catalog, Write::PutVolume(a.clone()));
    commit(&*catalog, Write::PutVolume(b.clone()));
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.volumes().expect("are listed"), [a, b]);
}

pub(crate) fn every_state_and_access_is_kept(engine: &dyn Engine) {
    use VolumeAccess::{Destroyed, Offsite, ReadOnly, ReadWrite, Unavailable};
    use VolumeState::{Filling, Full, Pending, Scratch};
    let catalog = engine.open();
    let (_, volumes) = fill(&*catalog, 0, 1);
    for state in [Scratch, Filling, Full, Pending] {
        for access in [ReadWrite, ReadOnly, Offsite, Unavailable, Destroyed] {
            let row = VolumeRow { id: volumes[0], state, access, ..volume("L", "V0") };
            commit(&*catalog, Write::PutVolume(row.clone()));
            assert_eq!(catalog.volumes().expect("are listed"), [row]);
        }
    }
}

pub(crate) fn volumes_are_told_apart(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, volumes) = fill(&*catalog, 0, 2);
    catalog.put_library(&library("M")).expect("is made");
    assert_eq!(refusal(catalog.add_volume(&volume("l", "V0"))), "exists");
    assert_eq!(refusal(catalog.add_volume(&volume("N", "V0"))), "not found");
    let put = |id, library, name| {
        let row = VolumeRow { id, ..volume(library, name) };
        catalog.commit(vec![Write::PutVolume(row)])
    };
    assert_eq!(refusal(put(volumes[0], "L", "V1")), "exists");
    assert_eq!(refusal(put(volumes[0], "N", "V0")), "not found");
    assert_eq!(refusal(put(NO_VOLUME, "L", "V7")), "not found");
    put(volumes[0], "m", "V1").expect("another library knows no such name");
    catalog.remove_volume(volumes[1]).expect("is removed");
    assert_eq!(refusal(catalog.remove_volume(volumes[1])), "not found");
    let catalog = engine.reopen(catalog);
    let expected = VolumeRow { id: volumes[0], ..volume("M", "V1") };
    assert_eq!(catalog.volumes().expect("are listed"), [expected]);
}

pub(crate) fn volumes_are_listed_by_library_and_name(engine: &dyn Engine) {
    let catalog = engine.open();
    for name in ["b", "A", "C"] {
        catalog.put_library(&library(name)).expect("is made");
    }
    // The volumes have the library's own spelling.
    for (library, name) in [("c", "1"), ("B", "2"), ("b", "10"), ("a", "9"), ("B", "1")] {
        catalog.add_volume(&volume(library, name)).expect("is made");
    }
    let volumes = catalog.volumes().expect("are listed");
    let names = volumes.iter().map(|row| (&*row.library, &*row.name)).collect::<Vec<_>>();
    assert_eq!(names, [("A", "9"), ("b", "1"), ("b", "10"), ("b", "2"), ("C", "1")]);
    catalog.remove_library("b").expect_err("volumes are in it");
}

pub(crate) fn a_volume_number_is_never_given_twice(engine: &dyn Engine) {
    let mut catalog = engine.open();
    catalog.put_library(&library("L")).expect("is made");
    let mut given = Vec::new();
    for _ in 0..3 {
        let id = catalog.add_volume(&volume("L", "V")).expect("is made");
        catalog.remove_volume(id).expect("is removed");
        given.push(id);
        catalog = engine.reopen(catalog);
    }
    assert!(given[0] > 0 && given.is_sorted_by(|a, b| a < b), "{given:?}");
}

pub(crate) fn a_volume_with_data_stays(engine: &dyn Engine) {
    let catalog = engine.open();
    let (pools, volumes) = fill(&*catalog, 1, 1);
    commit(&*catalog, put_parts(pools[0], 1, &[part(volumes[0], 1)]));
    assert_eq!(refusal(catalog.remove_volume(volumes[0])), "exists");
    commit(&*catalog, Write::RemoveParts { pool: pools[0], pack: PackNumber(1) });
    catalog.remove_volume(volumes[0]).expect("is removed");
}

pub(crate) fn a_pack_lies_where_it_was_put_last(engine: &dyn Engine) {
    let catalog = engine.open();
    let (pools, volumes) = fill(&*catalog, 1, 2);
    let pool = pools[0];
    let head = PartRow { is_last: false, ..part(volumes[1], 70) };
    let tail = PartRow {
        object: [6; 16],
        object_sequence: u32::MAX,
        block_count: 1 << 40,
        first_sequence: 1,
        offset: head.bytes,
        ..part(volumes[0], 3)
    };
    let other = [part(volumes[0], 1)];
    commit(&*catalog, put_parts(pool, 9, &[tail, head]));
    commit(&*catalog, put_parts(pool, 2, &other));
    let catalog = engine.reopen(catalog);
    check_pack(&*catalog, pool, 9, &[head, tail]);
    check_pack(&*catalog, pool, 2, &other);
    let packs = catalog.stored_packs(pool).expect("are listed");
    assert_eq!(packs, [stored(2, &other), stored(9, &[head, tail])]);

    let again = [part(volumes[0], 8)];
    commit(&*catalog, put_parts(pool, 9, &again));
    check_pack(&*catalog, pool, 9, &again);
    commit(&*catalog, Write::RemoveParts { pool, pack: PackNumber(9) });
    commit(&*catalog, Write::RemoveParts { pool, pack: PackNumber(9) });
    let catalog = engine.reopen(catalog);
    check_pack(&*catalog, pool, 9, &[]);
    check_pack(&*catalog, pool, 2, &other);
}

pub(crate) fn pools_do_not_share_parts(engine: &dyn Engine) {
    let catalog = engine.open();
    let (pools, volumes) = fill(&*catalog, 2, 1);
    let (first, second) = ([part(volumes[0], 1)], [part(volumes[0], 2)]);
    commit(&*catalog, put_parts(pools[0], 1, &first));
    check_pack(&*catalog, pools[1], 1, &[]);
    commit(&*catalog, put_parts(pools[1], 1, &second));
    check_pack(&*catalog, pools[0], 1, &first);
    commit(&*catalog, Write::RemoveParts { pool: pools[0], pack: PackNumber(1) });
    check_pack(&*catalog, pools[0], 1, &[]);
    check_pack(&*catalog, pools[1], 1, &second);
}

pub(crate) fn parts_are_listed_by_volume(engine: &dyn Engine) {
    let catalog = engine.open();
    let (pools, volumes) = fill(&*catalog, 2, 3);
    assert_eq!(catalog.volume_bytes().expect("are counted"), BTreeMap::new());
    let mut expected = Vec::new();
    for (pool, pack, position) in [(0, 1, 500), (1, 1, 2), (0, 3, 10), (0, 2, 1)] {
        let part = part(volumes[0], position);
        commit(&*catalog, put_parts(pools[pool], pack, &[part]));
        expected.push(VolumePart { pool: pools[pool], pack: PackNumber(pack), part });
    }
    commit(&*catalog, put_parts(pools[0], 4, &[part(volumes[1], 7)]));
    expected.sort_by_key(|on| on.part.position);
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.volume_parts(volumes[0]).expect("are listed"), expected);
    assert_eq!(catalog.volume_parts(volumes[2]).expect("none"), []);
    let bytes = BTreeMap::from([(volumes[0], 513_000), (volumes[1], 7000)]);
    assert_eq!(catalog.volume_bytes().expect("are counted"), bytes);
    commit(&*catalog, Write::RemoveParts { pool: pools[0], pack: PackNumber(4) });
    let bytes = BTreeMap::from([(volumes[0], 513_000)]);
    assert_eq!(catalog.volume_bytes().expect("are counted"), bytes);
}

pub(crate) fn a_volume_without_a_byte_of_a_pack_is_a_part(engine: &dyn Engine) {
    let catalog = engine.open();
    let (pools, volumes) = fill(&*catalog, 1, 2);
    let empty = PartRow { bytes: 0, block_count: 0, is_last: false, ..part(volumes[1], 9) };
    let parts = [empty, part(volumes[0], 1)];
    commit(&*catalog, put_parts(pools[0], 1, &parts));
    let mut listed = catalog.parts(pools[0], PackNumber(1)).expect("are listed");
    listed.sort_by_key(|part| part.bytes);
    assert_eq!(listed, parts);
}

pub(crate) fn parts_belong_to_somebody(engine: &dyn Engine) {
    let catalog = engine.open();
    let (pools, volumes) = fill(&*catalog, 1, 1);
    let known = [part(volumes[0], 1)];
    commit(&*catalog, put_parts(pools[0], 1, &known));
    let nowhere = put_parts(pools[0], 1, &[part(volumes[0], 2), part(NO_VOLUME, 3)]);
    assert_eq!(refusal(catalog.commit(vec![nowhere])), "not found");
    let of_nobody = put_parts(PoolId(77_777), 1, &known);
    assert_eq!(refusal(catalog.commit(vec![of_nobody])), "not found");
    check_pack(&*catalog, pools[0], 1, &known);
    let bytes = BTreeMap::from([(volumes[0], 1000)]);
    assert_eq!(catalog.volume_bytes().expect("are counted"), bytes);
}

pub(crate) fn a_removed_pool_leaves_no_parts(engine: &dyn Engine) {
    let catalog = engine.open();
    let (pools, volumes) = fill(&*catalog, 2, 1);
    let row = VolumeRow { id: volumes[0], pool: Some(pools[0]), ..volume("L", "V0") };
    commit(&*catalog, Write::PutVolume(row.clone()));
    let (gone, kept) = ([part(volumes[0], 1)], [part(volumes[0], 2)]);
    commit(&*catalog, put_parts(pools[0], 1, &gone));
    commit(&*catalog, put_parts(pools[1], 1, &kept));
    catalog.remove_pool(pools[0]).expect("is removed");
    let catalog = engine.reopen(catalog);
    check_pack(&*catalog, pools[0], 1, &[]);
    check_pack(&*catalog, pools[1], 1, &kept);
    let none: [StoredPack; 0] = [];
    assert_eq!(catalog.stored_packs(pools[0]).expect("none"), none);
    let left = [VolumePart { pool: pools[1], pack: PackNumber(1), part: kept[0] }];
    assert_eq!(catalog.volume_parts(volumes[0]).expect("are listed"), left);
    assert_eq!(catalog.volumes().expect("are listed"), [row]);
}
