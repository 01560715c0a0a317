//! Tests of audits on a real server with damaged packs.

use super::*;
use crate::samples::{TestServer, stored, unmount};

const DATA: Order = Order { data: true, rate: None };
const CHECKSUMS: Order = Order { data: false, rate: None };

/// Returns a server with two sealed packs. Each pack holds one file.
fn server() -> TestServer {
    let server = TestServer::new();
    server.back_up("/a/", &[("one", &[1, 2])]);
    server.seal();
    server.back_up("/a/", &[("two", &[3, 4, 5])]);
    server.seal();
    server
}

fn audit(server: &TestServer, order: Order) -> Outcome {
    run(&server.store, order, &mut |_| true).expect("runs to its end")
}

/// Returns the numbers of lost versions that are noted, of each node with some.
fn lost(server: &TestServer) -> Vec<u64> {
    let nodes = server.store.catalog.nodes().expect("are listed");
    victims::noted(&server.store, &nodes).expect("are read").into_values().collect()
}

/// A loss that an audit of all data does not find is over. One of checksums may not have looked.
#[test]
fn lost_versions_are_noted_until_an_audit_of_all_data_finds_others() {
    let server = server();
    let noted = |versions: u64, is_all| {
        let nodes = server.store.catalog.nodes().expect("are listed");
        let by_node = nodes.iter().map(|node| (node.id, versions));
        let by_node = by_node.filter(|(_, versions)| *versions > 0).collect();
        let victims = Victims { by_node, ..Victims::default() };
        victims::note(&server.store, &victims, &|_| true, is_all).expect("are noted");
        lost(&server)
    };
    assert_eq!(lost(&server), [0_u64; 0]);
    assert_eq!(noted(3, false), [3]);
    assert_eq!(noted(0, false), [3]);
    assert_eq!(noted(2, true), [2]);
    assert_eq!(noted(0, true), [0_u64; 0]);
    assert_eq!(noted(3, true), [3]);
    audit(&server, CHECKSUMS);
    assert_eq!(lost(&server), [3]);
    audit(&server, DATA);
    assert_eq!(lost(&server), [0_u64; 0]);
}

fn states(server: &TestServer) -> Vec<PackState> {
    let rows = server.store.catalog.packs().expect("are listed");
    rows.into_iter().map(|row| row.state).collect()
}

#[test]
fn an_audit_of_whole_packs_reads_everything_and_finds_nothing() {
    let server = server();
    for order in [CHECKSUMS, DATA] {
        let outcome = audit(&server, order);
        assert_eq!((outcome.packs, outcome.packs_done, outcome.quanta), (2, 2, 2));
        assert_eq!(outcome.damages, []);
        assert_eq!(outcome.victims, Victims::default());
        assert!(outcome.bytes > 0);
    }
}

#[test]
fn a_damaged_pack_without_another_copy_has_victims_by_name() {
    let server = server();
    server.damage(PackNumber(1));
    let outcome = audit(&server, CHECKSUMS);
    let [damage] = &outcome.damages[..] else { panic!("{outcome:?}") };
    assert_eq!((damage.pack, damage.chunks), (PackNumber(1), Some((0, 2))));
    assert!(!damage.is_repaired && !damage.reason.is_empty());
    let paths: Vec<&[u8]> = outcome.victims.named.iter().map(|victim| &victim.path[..]).collect();
    assert_eq!((paths, outcome.victims.count), (vec![&b"/a/one"[..]], 1));
    assert_eq!(lost(&server), [1]);
    assert_eq!(states(&server), [PackState::Damaged, PackState::Sealed]);
}

#[test]
fn nothing_new_names_a_damaged_pack_even_after_a_restart() {
    let mut server = server();
    server.damage(PackNumber(1));
    audit(&server, CHECKSUMS);
    for _ in 0..2 {
        assert!(server.store.condemned().holds(PackNumber(1)));
        let again = stored(&server.store, &[1, 3]);
        assert!(again.places[0].pack() > PackNumber(2), "the damaged chunk is stored again");
        assert_eq!(again.places[1].pack(), PackNumber(2), "an undamaged pack is still used");
        server.reopen();
    }
}

#[test]
fn a_damaged_pack_is_repaired_from_a_copy_pool() {
    let server = server();
    server.add_pool("COPIES", true);
    pools::copy(&server.store, "COPIES", &mut |_| true).expect("are copied");
    server.damage(PackNumber(2));
    let outcome = audit(&server, CHECKSUMS);
    assert!(outcome.damages.iter().all(|damage| damage.is_repaired), "{outcome:?}");
    assert_eq!(outcome.damages.len(), 1);
    assert_eq!(outcome.victims.count, 0);
    assert_eq!(outcome.quanta, 4, "two quanta in two pools");
    assert_eq!(states(&server), [PackState::Sealed; 2]);
    assert_eq!(audit(&server, DATA).damages, [], "the second audit finds no damage");
}

#[test]
fn a_pack_that_somebody_restored_serves_again_after_an_audit_of_its_data() {
    let server = server();
    let path = server.pack_file(&server.store.config.pool, PackNumber(1));
    let whole = std::fs::read(&path).expect("is read");
    server.damage(PackNumber(1));
    audit(&server, CHECKSUMS);
    std::fs::write(&path, whole).expect("is written");
    assert_eq!(audit(&server, CHECKSUMS).damages, []);
    assert_eq!(states(&server)[0], PackState::Damaged, "checksums alone are no sufficient proof");
    audit(&server, DATA);
    assert_eq!(states(&server)[0], PackState::Sealed);
    assert!(!server.store.condemned().holds(PackNumber(1)));
    assert_eq!(stored(&server.store, &[1]).places[0].pack(), PackNumber(1));
}

/// A pack that no audit had read served again, because nothing was found in it.
#[test]
fn a_damaged_pack_that_cannot_be_read_stays_out_of_service() {
    let server = server();
    server.damage(PackNumber(1));
    audit(&server, CHECKSUMS);
    unmount(&server.path().join("pool"));
    let outcome = audit(&server, DATA);
    assert_eq!((outcome.away, outcome.damages), (vec!["PRIMARY".to_owned()], Vec::new()));
    assert_eq!(states(&server), [PackState::Damaged, PackState::Sealed]);
    assert!(server.store.condemned().holds(PackNumber(1)));
}

/// A disk that was unmounted during an audit was said to have lost the packs that came next.
#[test]
fn a_pool_that_goes_away_during_the_audit_has_lost_nothing() {
    let server = server();
    let (pool, aside) = (server.path().join("pool"), server.beside("unmounted"));
    let outcome = run(&server.store, DATA, &mut |_| {
        if pool.is_dir() {
            std::fs::rename(&pool, &aside).expect("is renamed");
        }
        true
    });
    let outcome = outcome.expect("runs to its end");
    assert_eq!((outcome.away, outcome.damages), (vec!["PRIMARY".to_owned()], Vec::new()));
    assert_eq!(outcome.victims.count, 0);
    assert_eq!(states(&server), [PackState::Sealed; 2]);
}

#[test]
fn a_pack_that_is_gone_is_damaged_as_a_whole() {
    let mut server = server();
    let path = server.pack_file(&server.store.config.pool, PackNumber(2));
    std::fs::remove_file(path).expect("is removed");
    server.reopen();
    let outcome = audit(&server, CHECKSUMS);
    let [damage] = &outcome.damages[..] else { panic!("{outcome:?}") };
    assert_eq!((damage.pack, damage.chunks), (PackNumber(2), None));
    assert_eq!(outcome.victims.named[0].path, b"/a/two");
}

#[test]
fn a_cancelled_audit_judges_nothing() {
    let server = server();
    server.damage(PackNumber(1));
    let ended = run(&server.store, CHECKSUMS, &mut |_| false);
    assert!(matches!(ended, Err(StoreError::Cancelled(_))), "{ended:?}");
    assert_eq!(states(&server), [PackState::Sealed; 2]);
}

/// An audit beside a drain reported "pack 29 has no chunk 0" and "repaired".
#[test]
fn a_pack_that_is_moved_during_its_audit_is_not_damaged() {
    let server = TestServer::new();
    server.add_pool("NEXT", false);
    let next = Some(Some("NEXT".to_owned()));
    let settings = pools::PoolSettings { next, ..pools::PoolSettings::default() };
    let name = "PRIMARY".to_owned();
    let change = pools::PoolChange { name, settings, ..pools::PoolChange::default() };
    pools::change(&server.store, &change).expect("is changed");
    server.back_up("/a/", &[("one", &[1, 2])]);
    server.back_up("/a/", &[("two", &[3, 4, 5])]);
    server.seal();
    let mut is_moved = false;
    let outcome = run(&server.store, DATA, &mut |_| {
        if !is_moved {
            let moved = pools::drain(&server.store, "PRIMARY", true, &mut |_| true);
            assert_eq!(moved.expect("is moved").packs_done, 1);
            is_moved = true;
        }
        true
    });
    let outcome = outcome.expect("runs to its end");
    assert_eq!((outcome.packs, outcome.damages), (1, Vec::new()));
    assert!(outcome.quanta >= 3, "the new copy is read as a whole: {}", outcome.quanta);
}
