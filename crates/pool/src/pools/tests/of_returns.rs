//! Pools that come back: what a dead server left in them, and numbers that were given twice.

use super::*;

/// A server was killed with an open pack in its first pool. Another one began while that pool was
/// away.
struct Away {
    pools: Pools,
    folders: [tempfile::TempDir; 2],
    /// Place in the open pack of the dead server.
    place: Place,
    /// Size of its records.
    bytes: u64,
}

impl Away {
    /// The numbers of the new server begin with `next`.
    fn new(next: u64) -> Self {
        let (dead, folders) = open_two(Role::Primary, None);
        let place = append(&dead, &[b"before".to_vec()]);
        dead.sync().expect("synced");
        let bytes = dead.table(place.pack()).expect("open").end();
        std::mem::forget(dead);
        let specs = two(&folders, Role::Primary, None);
        unmark(folders[0].path()).expect("unmounted");
        let numbers = Numbers::Own(PackNumber(next));
        let pools = Pools::open(&specs, numbers, &BTreeMap::new(), digest_of);
        Self { pools: pools.expect("the second folder").0, folders, place, bytes }
    }

    fn bring_back(&self, records: &BTreeMap<PackNumber, PackRecord>) -> Inventory {
        mark(self.folders[0].path(), Mark([1; 16])).expect("mounted");
        assert_eq!(self.pools.refresh(&BTreeSet::new(), records).pools, [], "nobody claims it");
        assert_eq!(self.pools.back(), BTreeSet::from([PoolId(1)]));
        let arrivals = self.pools.refresh(&self.pools.back(), records);
        assert_eq!(arrivals.pools, [PoolId(1)]);
        assert_eq!(self.pools.back(), BTreeSet::new());
        arrivals.found
    }

    fn aside(&self, folder: usize) -> PathBuf {
        pack_file(self.folders[folder].path()).with_extension("aside1")
    }
}

#[test]
fn a_pack_that_a_dead_server_left_open_is_sealed_when_its_pool_is_back() {
    let away = Away::new(2);
    let pack = away.place.pack();
    let record = PackRecord { sealed: false, bytes: away.bytes };
    let found = away.bring_back(&BTreeMap::from([(pack, record)]));
    let [sealed] = &found.recovered[..] else { panic!("{found:?}") };
    assert_eq!((sealed.table.pack, found.last), (pack, Some(pack)));
    assert_eq!(away.pools.bytes_of(pack), sealed.bytes);
    away.pools.table_at(PoolId(1), pack).expect("it has a footer");
    assert_eq!(read(&away.pools, away.place).expect("there"), b"before");
}

#[test]
fn a_pack_that_has_lost_durable_data_is_left_as_it_is_when_its_pool_is_back() {
    let away = Away::new(2);
    let record = PackRecord { sealed: false, bytes: away.bytes + 1 };
    let found = away.bring_back(&BTreeMap::from([(away.place.pack(), record)]));
    assert_eq!((found.damaged.len(), found.recovered.len()), (1, 0));
    assert!(away.pools.table_at(PoolId(1), away.place.pack()).is_err(), "it has no footer");
}

#[test]
fn a_pack_of_a_number_that_was_given_twice_is_set_aside() {
    for is_sealed in [false, true] {
        let away = Away::new(1);
        let place = append(&away.pools, &[b"since".to_vec()]);
        assert_eq!(place, away.place, "the number was given twice");
        if is_sealed {
            away.pools.seal_all().expect("sealed");
        }
        let content = std::fs::read(pack_file(away.folders[0].path())).expect("the pack");
        let found = away.bring_back(&BTreeMap::new());
        assert!(found.sealed.is_empty() && found.recovered.is_empty(), "{found:?}");
        assert_eq!(away.pools.homes(place.pack()), [PoolId(2)]);
        assert_eq!(std::fs::read(away.aside(0)).expect("kept"), content);
        away.pools.seal_all().expect("sealed");
        assert_eq!(read(&away.pools, place).expect("there"), b"since");
        assert_eq!(append(&away.pools, &[b"next".to_vec()]).pack(), PackNumber(2));
    }
}

#[test]
fn the_pack_that_the_catalogue_does_not_know_is_set_aside() {
    let away = Away::new(1);
    let place = append(&away.pools, &[b"longer than the other".to_vec()]);
    away.pools.seal_all().expect("sealed");
    let known = PackRecord { sealed: false, bytes: away.bytes };
    away.bring_back(&BTreeMap::from([(place.pack(), known)]));
    assert_eq!(away.pools.homes(place.pack()), [PoolId(1)]);
    assert_eq!(read(&away.pools, away.place).expect("there"), b"before");
    assert!(away.aside(1).is_file());
}

#[test]
fn two_packs_of_one_number_are_not_mixed_up_at_a_start_either() {
    let away = Away::new(1);
    let place = append(&away.pools, &[b"longer than the other".to_vec()]);
    away.pools.sync().expect("synced");
    let bytes = away.pools.table(place.pack()).expect("open").end();
    let Away { pools, folders, .. } = away;
    std::mem::forget(pools);
    let specs = two(&folders, Role::Primary, None);
    let records = BTreeMap::from([(place.pack(), PackRecord { sealed: false, bytes })]);
    let opened = Pools::open(&specs, Numbers::Own(PackNumber(2)), &records, digest_of);
    let (pools, found) = opened.expect("folders");
    assert_eq!((found.recovered.len(), found.damaged.len()), (1, 0), "{found:?}");
    assert_eq!(pools.homes(place.pack()), [PoolId(2)]);
    assert_eq!(read(&pools, place).expect("there"), b"longer than the other");
}

#[test]
fn a_pack_that_a_drain_had_copied_stays_in_both_pools() {
    let (pools, folders) = open_two(Role::Primary, None);
    let place = append(&pools, &[b"kept".to_vec()]);
    pools.seal_all().expect("sealed");
    pools.put(place.pack(), PoolId(2)).expect("copied");
    unmark(folders[0].path()).expect("unmounted");
    refresh(&pools);
    mark(folders[0].path(), Mark([1; 16])).expect("mounted");
    assert_eq!(refresh(&pools), [PoolId(1)]);
    assert_eq!(pools.homes(place.pack()), [PoolId(1), PoolId(2)]);
}

#[test]
fn numbers_are_left_out_while_a_primary_pool_is_away() {
    let away = Away::new(1);
    assert_eq!(away.pools.leave_out_numbers(5), Some(PackNumber(5)));
    assert_eq!(append(&away.pools, &[b"since".to_vec()]).pack(), PackNumber(6));
    away.bring_back(&BTreeMap::new());
    assert_eq!(away.pools.leave_out_numbers(5), None);
    assert_eq!(append(&away.pools, &[b"since".to_vec()]).pack(), PackNumber(7));
}
