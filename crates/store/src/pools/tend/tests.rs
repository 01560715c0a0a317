//! Tests of copying, moving and repairing packs, with pools in folders and on volumes in files.

use catalog::{TaskEnd, VolumeAccess};

use super::*;
use crate::pools::{PoolChange, PoolSettings, change};
use crate::samples::{TestServer, refused};

fn settings(server: &TestServer, name: &str, settings: PoolSettings) {
    let name = name.to_owned();
    let order = PoolChange { name, settings, ..PoolChange::default() };
    change(&server.store, &order).expect("is changed");
}

fn next(server: &TestServer, name: &str, next: &str) {
    let next = Some(Some(next.to_owned()));
    settings(server, name, PoolSettings { next, ..PoolSettings::default() });
}

fn packs(server: &TestServer, name: &str) -> Vec<u64> {
    let row = find(&server.store, name).expect("is known");
    server.store.pools.packs_of(row.id).keys().map(|pack| pack.0).collect()
}

/// Stores `count` packs. Each pack holds one file.
fn fill(server: &TestServer, count: u64) {
    for number in 0..count {
        server.back_up("/", &[(&format!("f{number}"), &[number])]);
        server.seal();
    }
}

fn go_on(_: &Outcome) -> bool {
    true
}

#[test]
fn regular_work_that_another_run_keeps_out_is_no_trouble() {
    let server = TestServer::new();
    let other_run = server.store.try_tend().expect("nobody else works");
    let error = drain(&server.store, "PRIMARY", false, &mut go_on).expect_err("is kept out");
    assert!(!is_trouble(&error), "{error}");
    drop(other_run);
    let error = drain(&server.store, "PRIMARY", false, &mut go_on).expect_err("has no next pool");
    assert!(is_trouble(&error), "{error}");
}

#[test]
fn a_copy_brings_what_the_pool_lacks_and_nothing_twice() {
    let server = TestServer::new();
    let row = server.add_pool("COPIES", true).row;
    fill(&server, 3);
    assert_eq!(missing(&server.store, row.id).expect("are listed").len(), 3);
    let first = copy(&server.store, "", &mut go_on).expect("are copied");
    assert_eq!((first.packs, first.packs_done, first.failures.len()), (3, 3, 0));
    assert_eq!(first.bytes, first.bytes_done);
    assert_eq!(packs(&server, "COPIES"), [1, 2, 3]);
    let second = copy(&server.store, "COPIES", &mut go_on).expect("there is nothing to do");
    assert_eq!((second.packs, second.bytes), (0, 0));
    server.back_up("/", &[("open", &[9])]);
    let third = copy(&server.store, "COPIES", &mut go_on).expect("the open pack is sealed");
    assert_eq!(third.packs_done, 1);
}

#[test]
fn a_cancelled_copy_goes_on_in_the_next_run() {
    let server = TestServer::new();
    server.add_pool("COPIES", true);
    fill(&server, 3);
    let cancelled = copy(&server.store, "", &mut |outcome| outcome.packs_done < 2);
    assert!(matches!(refused(cancelled, "the next run does the rest"), StoreError::Cancelled(_)));
    assert_eq!(packs(&server, "COPIES"), [1, 2]);
    assert_eq!(copy(&server.store, "", &mut go_on).expect("goes on").packs, 1);
}

#[test]
fn a_copy_goes_to_copy_pools_that_are_there() {
    let server = TestServer::new();
    fill(&server, 1);
    refused(copy(&server.store, "PRIMARY", &mut go_on), "is not a copy pool");
    refused(copy(&server.store, "NOWHERE", &mut go_on), "there is no pool NOWHERE");
    server.add_pool("AWAY", true);
    server.add_pool("HERE", true);
    std::fs::remove_dir_all(server.beside("AWAY")).expect("is removed");
    refresh(&server.store);
    let error = refused(copy(&server.store, "", &mut go_on), "pool AWAY is not available");
    assert!(matches!(error, StoreError::Away(_)));
    assert_eq!(packs(&server, "HERE"), [1], "the other pool got its copy");
}

#[test]
fn one_run_over_packs_goes_on_at_a_time() {
    let server = TestServer::new();
    server.add_pool("COPIES", true);
    next_run_is_busy(&server, "a change of pools");
    fill(&server, 1);
    let mut is_busy = false;
    let outcome = copy(&server.store, "", &mut |_| {
        let other = copy(&server.store, "", &mut go_on);
        is_busy = matches!(other, Err(StoreError::Busy(_)));
        true
    });
    assert_eq!(outcome.expect("is copied").packs_done, 1);
    assert!(is_busy, "a second run is refused");
}

#[track_caller]
fn next_run_is_busy(server: &TestServer, what: &str) {
    let _guard = server.store.tend();
    for outcome in [
        copy(&server.store, "", &mut go_on),
        drain(&server.store, "PRIMARY", true, &mut go_on),
        tend_volumes(&server.store, &VolumeWork::Audit(Vec::new()), &mut go_on),
    ] {
        assert!(matches!(refused(outcome, "try again"), StoreError::Busy(_)), "{what}");
    }
}

#[test]
fn a_copy_pool_loses_what_the_primary_pools_have_lost() {
    let server = TestServer::new();
    server.add_pool("COPIES", true);
    fill(&server, 2);
    copy(&server.store, "", &mut go_on).expect("are copied");
    let removal = catalog::Write::RemovePack(PackNumber(1));
    server.store.commit(vec![removal]).expect("is performed");
    server.store.pools.remove(PackNumber(1)).expect("is removed");
    assert_eq!(packs(&server, "COPIES"), [1, 2], "the newest catalogue copy may name the pack");
    copy(&server.store, "", &mut go_on).expect("no pack is missing");
    assert_eq!(packs(&server, "COPIES"), [2]);
}

#[test]
fn a_drain_moves_packs_and_readers_find_them() {
    let server = TestServer::new();
    refused(drain(&server.store, "PRIMARY", true, &mut go_on), "has no next pool");
    server.add_pool("NEXT", false);
    next(&server, "PRIMARY", "NEXT");
    fill(&server, 3);
    let idle = drain(&server.store, "PRIMARY", false, &mut go_on).expect("there is room");
    assert_eq!(idle.packs, 0, "the pool is far below its mark");
    let outcome = drain(&server.store, "PRIMARY", true, &mut go_on).expect("are moved");
    assert_eq!((outcome.packs_done, packs(&server, "PRIMARY").len()), (3, 0));
    assert_eq!(packs(&server, "NEXT"), [1, 2, 3]);
    for object in server.objects("/") {
        let place = crate::places::places(&object).next().expect("has a chunk");
        server.store.pools.chunk(place).expect("is read from the next pool");
    }
}

#[test]
fn a_pool_above_its_high_mark_drains_to_its_low_mark_the_oldest_first() {
    let server = TestServer::new();
    server.add_pool("NEXT", false);
    fill(&server, 4);
    let used = server.store.pools.usage(FIRST).bytes;
    let [first, second] = [1, 2].map(|pack| server.store.pools.bytes_of(PackNumber(pack)));
    let capacity = Some(Some(used));
    let low = u8::try_from((used - first - second) * 100 / used + 1).expect("a share");
    let marks =
        PoolSettings { high_percent: Some(99), low_percent: Some(low), ..Default::default() };
    settings(&server, "PRIMARY", PoolSettings { capacity, ..marks });
    next(&server, "PRIMARY", "NEXT");
    let outcome = drain(&server.store, "PRIMARY", false, &mut go_on).expect("are moved");
    assert_eq!(outcome.packs_done, 2);
    assert_eq!(packs(&server, "NEXT"), [1, 2]);
    let again = drain(&server.store, "PRIMARY", false, &mut go_on).expect("below its mark");
    assert_eq!(again.packs, 0);
}

#[test]
fn regular_work_that_a_person_has_cancelled_rests() {
    let copied = |is_cancelled: bool| {
        let server = TestServer::new();
        server.add_pool("COPIES", true);
        fill(&server, 1);
        if is_cancelled {
            server.store.tasks.note_cancelled(Task::CopyPacks);
        }
        tend(&server.store, &mut sys::clock::monotonic());
        packs(&server, "COPIES").len()
    };
    assert_eq!((copied(false), copied(true)), (1, 0));
}

/// The success at one pool hid the failure at another.
#[test]
fn a_task_has_failed_until_it_succeeds_at_every_pool() {
    let server = TestServer::new();
    server.add_pool("BAD", true);
    server.add_pool("GOOD", true);
    fill(&server, 1);
    let url = format!("file://{}", server.beside("BAD").display());
    let blocked = server.pack_file(&url, PackNumber(1)).with_extension("new");
    std::fs::create_dir_all(&blocked).expect("is made");
    let codes = || -> Vec<u8> {
        tend(&server.store, &mut sys::clock::monotonic());
        let mut runs = server.store.catalog.task_runs(None, 9).expect("are listed");
        runs.retain(|one| one.run.task == "copy packs");
        runs.into_iter().map(|one| one.run.ended.expect("is over").code).collect()
    };
    for _ in 0..2 {
        assert_eq!(codes(), [TaskEnd::FAILED]);
        assert_eq!((packs(&server, "BAD").len(), packs(&server, "GOOD").len()), (0, 1));
    }
    std::fs::remove_dir(&blocked).expect("is removed");
    assert_eq!(codes(), [0, TaskEnd::FAILED]);
    assert_eq!(packs(&server, "BAD"), [1]);
}

#[test]
fn a_damaged_pack_is_written_again_from_a_copy() {
    let server = TestServer::new();
    server.add_pool("COPIES", true);
    fill(&server, 2);
    copy(&server.store, "", &mut go_on).expect("are copied");
    server.damage(PackNumber(1));
    let both = BTreeSet::from([PackNumber(1), PackNumber(2)]);
    assert!(!server.store.pools.is_whole(FIRST, PackNumber(1)));
    let outcome = repair(&server.store, Some(&both), &mut go_on).expect("is repaired");
    assert_eq!(outcome.failures, []);
    assert!(server.store.pools.is_whole(FIRST, PackNumber(1)));
    std::fs::remove_dir_all(server.beside("COPIES")).expect("is removed");
    refresh(&server.store);
    server.damage(PackNumber(2));
    let outcome = repair(&server.store, Some(&both), &mut go_on).expect("tries");
    assert_eq!(outcome.failures.len(), 1, "no pool has the pack undamaged");
}

/// Returns a server that has drained two packs to volumes in files.
fn on_volumes() -> TestServer {
    use crate::pools::{NewPool, add};
    use crate::volumes::{Devices, LibrarySettings, NewLibrary};
    let server = TestServer::new();
    let path = server.beside("volumes").display().to_string();
    let library = NewLibrary {
        name: "vault".to_owned(),
        devices: Devices::Folder { path },
        capacity_bytes: None,
        settings: LibrarySettings::default(),
    };
    server.store.volumes.add_library(library).expect("is made");
    let (name, url) = ("TAPE".to_owned(), "tape:vault".to_owned());
    add(&server.store, &NewPool { name, url, ..NewPool::default() }).expect("is made");
    next(&server, "PRIMARY", "TAPE");
    fill(&server, 2);
    let outcome = drain(&server.store, "PRIMARY", true, &mut go_on).expect("are moved");
    assert_eq!((outcome.packs_done, packs(&server, "TAPE")), (2, vec![1, 2]));
    server
}

fn volume(server: &TestServer) -> VolumeRow {
    server.store.volumes.find(None, "F00001").expect("the server has made it")
}

fn set_access(server: &TestServer, access: VolumeAccess) {
    let change = crate::volumes::VolumeChange::Access(access);
    server.store.volumes.set(None, "F00001", &change).expect("is changed");
}

fn work(server: &TestServer, work: VolumeWork) -> Outcome {
    tend_volumes(&server.store, &work, &mut go_on).expect("runs")
}

#[test]
fn a_pack_on_a_volume_is_read_through_the_stage() {
    let server = on_volumes();
    assert!(server.store.pools.is_only_shelved(PackNumber(1)));
    shelving::bring(&server.store, &[PackNumber(1)]).expect("comes");
    assert!(server.store.volumes.is_staged(PackNumber(1)));
    for object in server.objects("/") {
        let place = crate::places::places(&object).next().expect("has a chunk");
        let table = server.store.pools.table(place.pack()).expect("has a table");
        let quantum = table.quanta()[0];
        server.store.pools.read(place.pack(), &quantum).expect("is read");
    }
}

#[test]
fn a_volume_that_is_away_is_named_with_its_reason() {
    let cases = [
        (VolumeAccess::Unavailable, "volume F00001 is missing"),
        (VolumeAccess::Destroyed, "volume F00001 is damaged"),
    ];
    for (access, expected) in cases {
        let server = on_volumes();
        set_access(&server, access);
        let error = server.store.volumes.plans(PackNumber(1)).err().expect("cannot be read");
        assert!(matches!(error, crate::volumes::FetchError::Absent(_)), "{error:?}");
        assert_eq!(error.to_string(), expected);
        set_access(&server, VolumeAccess::ReadOnly);
        assert_eq!(
            server.store.volumes.plans(PackNumber(1)).map(|plans| plans.len()).ok(),
            Some(1)
        );
    }
}

#[test]
fn a_pack_that_no_volume_has_cannot_be_planned() {
    let server = on_volumes();
    let error = server.store.volumes.plans(PackNumber(9)).err().expect("nobody knows it");
    assert_eq!(error, crate::volumes::FetchError::Unshelved);
    assert_eq!(error.to_string(), "no volume has the pack");
}

#[test]
fn an_audit_of_volumes_reads_each_pack_on_them() {
    let server = on_volumes();
    let outcome = work(&server, VolumeWork::Audit(vec![volume(&server)]));
    assert_eq!((outcome.packs, outcome.packs_done, outcome.failures.len()), (2, 2, 0));
    set_access(&server, VolumeAccess::Unavailable);
    let outcome = work(&server, VolumeWork::Audit(vec![volume(&server)]));
    assert_eq!((outcome.packs, outcome.volumes.len()), (0, 1));
    assert_eq!(outcome.volumes[0].0, "F00001");
}

#[test]
fn an_emptied_volume_holds_nothing_and_may_be_removed() {
    let server = on_volumes();
    let remove = || {
        let change = crate::volumes::VolumeChange::Remove;
        server.store.volumes.set(None, "F00001", &change)
    };
    refused(remove(), "F00001 holds packs that are needed");
    let outcome = work(&server, VolumeWork::Move(vec![volume(&server)]));
    assert_eq!((outcome.packs_done, outcome.failures.len()), (2, 0));
    assert_eq!(packs(&server, "TAPE"), [1, 2], "the packs are on another volume now");
    let live = server.store.catalog.volume_bytes().expect("are added up");
    assert!(!live.contains_key(&volume(&server).id));
    remove().expect("nothing on it is needed");
    refused(server.store.volumes.find(None, "F00001"), "there is no volume F00001");
}

#[test]
fn only_the_named_volume_is_reclaimed_and_only_if_enough_of_it_is_dead() {
    let server = on_volumes();
    let live = || server.store.catalog.volume_bytes().expect("are added up");
    let reclaim = |name: &str| {
        let row = server.store.volumes.find(None, name).expect("is known");
        let (pool, volumes) = (String::new(), vec![row]);
        let work = VolumeWork::Reclaim { pool, volumes, dead_percent: 1 };
        tend_volumes(&server.store, &work, &mut go_on)
    };
    refused(reclaim("F00001"), "volume F00001 is filling, and takes more");
    set_access(&server, VolumeAccess::ReadOnly);
    refused(reclaim("F00001"), "volume F00001 has 0 % dead data, and is emptied from 1 % on");
    let removal = catalog::Write::RemovePack(PackNumber(1));
    server.store.commit(vec![removal]).expect("is performed");
    server.store.pools.remove(PackNumber(1)).expect("is removed");
    server.back_up("/", &[("late", &[9])]);
    drain(&server.store, "PRIMARY", true, &mut go_on).expect("is moved");
    refused(reclaim("F00002"), "volume F00002 is filling");
    assert!(live().contains_key(&volume(&server).id), "it was not named");
    let outcome = reclaim("F00001").expect("a pack of two is dead");
    assert_eq!((outcome.packs_done, outcome.failures.len()), (1, 0));
    assert!(!live().contains_key(&volume(&server).id));
}

#[test]
fn a_named_volume_that_is_not_due_does_not_keep_the_others() {
    let server = on_volumes();
    set_access(&server, VolumeAccess::ReadOnly);
    let removal = catalog::Write::RemovePack(PackNumber(1));
    server.store.commit(vec![removal]).expect("is performed");
    server.store.pools.remove(PackNumber(1)).expect("is removed");
    server.back_up("/", &[("late", &[9])]);
    drain(&server.store, "PRIMARY", true, &mut go_on).expect("is moved");
    let row = |name: &str| server.store.volumes.find(None, name).expect("is known");
    let (pool, volumes) = (String::new(), vec![row("F00002"), row("F00001")]);
    let outcome = work(&server, VolumeWork::Reclaim { pool, volumes, dead_percent: 1 });
    assert_eq!((outcome.packs_done, outcome.failures.len()), (1, 0));
    let [(name, reason)] = &outcome.volumes[..] else { panic!("{outcome:?}") };
    assert!(name == "F00002" && reason.starts_with("is filling, and takes more"), "{reason}");
    let live = server.store.catalog.volume_bytes().expect("are added up");
    assert!(!live.contains_key(&volume(&server).id), "the other one is emptied");
}

#[test]
fn an_import_names_the_volumes_that_it_could_not_list() {
    let server = on_volumes();
    let import = |library: &str, volume: &str| {
        let (library, volumes) = (library.to_owned(), vec![volume.to_owned()]);
        tend_volumes(&server.store, &VolumeWork::Import { library, volumes }, &mut go_on)
    };
    let error = refused(import("nowhere", "F00001"), "there is no library nowhere");
    assert!(matches!(error, StoreError::NotFound(_)));
    for volume in ["F99999", "not a name"] {
        let outcome = import("vault", volume).expect("goes on with the others");
        let [(name, reason)] = &outcome.volumes[..] else { panic!("{outcome:?}") };
        assert!(name == volume && !reason.is_empty());
    }
    let outcome = import("vault", "F00001").expect("is listed");
    assert_eq!((outcome.volumes.len(), outcome.packs), (0, 0), "the packs are already known");
}
