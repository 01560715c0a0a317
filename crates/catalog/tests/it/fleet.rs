//! Several servers of one catalogue: their reservations, and the news that they get of each other.

use std::collections::BTreeSet;
use std::time::Duration;

use catalog::postgres::{Attendant, Beat, Postgres, SILENCE};
use catalog::{
    Batches as _, CommitError, EventRow, Events as _, PackRow, PackState, PageDigest, Pages as _,
    Write,
};
use e2e::clock::pause;
use model::{DirPath, DomainId, NodeId, PackNumber};

use crate::samples::{add_filespace, at, dir, key, page, put as put_page, refusal};
use crate::{PostgresInCluster, contents};

/// Opens the catalogue as a server in the list. Returns its number too.
fn enter(engine: &PostgresInCluster, place: u8) -> (Postgres, u64) {
    let catalog = Postgres::open(&engine.url()).expect("the catalogue opens");
    let id = catalog.enter(&[place; 16], "somewhere:1500", "1").expect("enters");
    (catalog, id.expect("nobody has it alone"))
}

fn idle() -> Beat {
    let end = PackNumber(0);
    Beat { horizon: None, numbers_end: end, generation: 0, sessions: 0 }
}

fn put(pack: u64, state: PackState) -> Write {
    let number = PackNumber(pack);
    Write::PutPack(PackRow { number, domain: DomainId(1), state, bytes: 10, node: None })
}

fn event() -> Write {
    let (actor, what, details) = ("somebody".into(), "a test".into(), String::new());
    Write::AddEvent(EventRow { time: at(1), actor, what, details })
}

#[test]
fn a_reservation_lasts_until_its_server_is_gone() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let ((one, first), (two, second)) = (enter(&engine, 1), enter(&engine, 2));
    assert_ne!(first, second);
    assert_eq!(one.try_reserve("filespace 1").expect("is told"), first);
    assert_eq!(two.try_reserve("filespace 1").expect("is told"), first);
    assert_eq!(two.try_reserve("filespace 2").expect("is told"), second);
    two.release("filespace 1").expect("does nothing");
    assert_eq!(two.try_reserve("filespace 1").expect("is told"), first);
    one.release("filespace 1").expect("is released");
    assert_eq!(two.try_reserve("filespace 1").expect("is told"), second);
    assert_eq!(two.reservations().expect("is told").len(), 2);
    // A new process of the same server does not have the reservations of the earlier process.
    let (three, third) = enter(&engine, 2);
    assert_eq!(one.try_reserve("filespace 2").expect("is told"), first);
    assert_eq!(three.try_reserve("filespace 1").expect("is told"), third);
    assert_eq!(refusal(two.beat(&idle())), "fenced");
    assert_eq!(refusal(two.say_alive()), "fenced");
    assert_eq!(refusal(two.commit(vec![event()])), "fenced");
    assert_eq!(refusal(two.take_pack_numbers(1)), "fenced");
    assert_eq!(refusal(two.try_reserve("filespace 3")), "fenced");
    three.leave().expect("leaves");
    assert_eq!(one.try_reserve("filespace 1").expect("is told"), first);
    assert_eq!(refusal(three.commit(vec![event()])), "fenced");
}

#[test]
fn a_node_has_one_agent_at_all_servers() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let ((one, _), (two, _)) = (enter(&engine, 1), enter(&engine, 2));
    let agent = |number: u64, place: &'static [u8], address: &'static str| Attendant {
        node: NodeId(7),
        number,
        place,
        address,
    };
    let (here, there) = (agent(1, b"here", "10.0.0.1"), agent(5, b"there", "10.0.0.2"));
    assert_eq!(one.attend(&here).expect("is recorded"), None);
    assert_eq!(two.attend(&there).expect("is told").as_deref(), Some("10.0.0.1"));
    // Another agent at the same server is that server's own matter.
    assert_eq!(one.attend(&agent(2, b"there", "10.0.0.2")).expect("is recorded"), None);
    assert!(one.end_attendance(NodeId(7), 1).expect("does nothing"), "it was replaced");
    assert_eq!(two.attend(&here).expect("is told").as_deref(), Some("10.0.0.2"));
    // An agent whose line was lost comes to the other server.
    assert_eq!(two.attend(&there).expect("is recorded"), None);
    assert!(!one.end_attendance(NodeId(7), 2).expect("is told"), "it is at the other server");
    assert_eq!(one.attend(&here).expect("is told").as_deref(), Some("10.0.0.2"));
    assert!(two.end_attendance(NodeId(7), 5).expect("ends"));
    assert_eq!(one.attend(&here).expect("is recorded"), None);
    // Rows of a server end with it.
    one.leave().expect("leaves");
    assert_eq!(two.attend(&there).expect("is recorded"), None);
    assert!(two.end_attendance(NodeId(7), 5).expect("ends"));
    assert_eq!(refusal(one.attend(&here)), "fenced");
}

#[test]
fn a_server_that_is_silent_is_taken_off_the_list() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let ((one, first), (two, second)) = (enter(&engine, 1), enter(&engine, 2));
    assert_eq!(one.tidy(&[]).expect("is done"), 0);
    two.try_reserve("filespace 1").expect("is told");
    assert_eq!(two.tidy(&[first]).expect("is done"), 0);
    let roll = two.beat(&idle()).expect("is heard");
    assert_eq!(roll.keeper().map(|keeper| keeper.id), Some(first));
    // The second server still reports.
    let rounds = SILENCE.as_secs() + 1;
    for _ in 0..rounds {
        pause(Duration::from_secs(1));
        two.say_alive().expect("is heard");
    }
    assert_eq!(two.tidy(&[]).expect("is done"), 0);
    assert_eq!(two.tidy(&[first, second]).expect("is done"), 1);
    let roll = two.roll().expect("is told");
    assert_eq!(roll.servers.iter().map(|server| server.id).collect::<Vec<_>>(), [second]);
    assert_eq!(roll.keeper().map(|keeper| keeper.id), Some(second));
    assert_eq!(refusal(one.commit(vec![event()])), "fenced");
    two.commit(vec![event()]).expect("is committed");
}

#[test]
fn a_commit_that_knows_too_little_is_refused() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let ((one, _), (two, _)) = (enter(&engine, 1), enter(&engine, 2));
    let known = two.pack_changes(0).expect("is told").generation;
    two.commit_at(known, vec![event()]).expect("is committed");
    let now = one.condemn(vec![put(7, PackState::Condemned)]).expect("is condemned");
    assert_eq!(now, known + 1);
    let refused = two.commit_at(known, vec![event()]);
    assert!(matches!(refused, Err(CommitError::Stale)), "{refused:?}");
    assert_eq!(two.events(None, 10).expect("are listed").len(), 1);
    let changes = two.pack_changes(0).expect("is told");
    assert_eq!(changes.generation, now);
    assert_eq!(changes.packs[0].1.as_ref().map(|row| row.state), Some(PackState::Condemned));
    two.commit_at(now, vec![event()]).expect("is committed");
}

#[test]
fn numbers_of_packs_are_nobody_elses_and_hold_the_horizon() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let ((one, _), (two, _)) = (enter(&engine, 1), enter(&engine, 2));
    let (first, second) = (one.take_pack_numbers(4), two.take_pack_numbers(4));
    let (first, second) = (first.expect("are there"), second.expect("are there"));
    assert_eq!((first.start, first.end), (PackNumber(1), PackNumber(5)));
    assert_eq!((second.start, second.end), (PackNumber(5), PackNumber(9)));
    assert_eq!(one.roll().expect("is told").horizon(), PackNumber(1));
    // A server that looked before it took more numbers must not report that it fills nothing.
    let late = Beat { numbers_end: PackNumber(0), ..idle() };
    assert_eq!(one.beat(&late).expect("is heard").horizon(), PackNumber(1));
    let rests = Beat { numbers_end: first.end, ..idle() };
    assert_eq!(one.beat(&rests).expect("is heard").horizon(), PackNumber(5));
    let fills = Beat { numbers_end: second.end, horizon: Some(PackNumber(7)), ..idle() };
    assert_eq!(two.beat(&fills).expect("is heard").horizon(), PackNumber(7));
    let rests = Beat { numbers_end: second.end, ..idle() };
    assert_eq!(two.beat(&rests).expect("is heard").horizon(), PackNumber(9));
    // A database that does not know the numbers that it has given is an older copy.
    let given = Beat { numbers_end: PackNumber(200), ..idle() };
    assert_eq!(refusal(two.beat(&given)), "fenced");
    two.pass_pack_number(PackNumber(100)).expect("is done");
    two.pass_pack_number(PackNumber(50)).expect("is done");
    assert_eq!(two.take_pack_numbers(1).expect("is there").start, PackNumber(101));
}

#[test]
fn packs_that_readers_have_noted_are_known_to_all_servers_until_they_are_forgotten() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let ((one, _), (two, _)) = (enter(&engine, 1), enter(&engine, 2));
    let packs = |numbers: &[u64]| numbers.iter().copied().map(PackNumber).collect::<BTreeSet<_>>();
    assert_eq!(one.lost().expect("is told"), packs(&[]));
    one.note_lost(&packs(&[7])).expect("is noted");
    two.note_lost(&packs(&[4, 7])).expect("is noted");
    assert_eq!(one.lost().expect("is told"), packs(&[4, 7]));
    assert_eq!(two.lost().expect("is told"), packs(&[4, 7]));
    one.forget_lost(&packs(&[7, 9])).expect("is forgotten");
    assert_eq!(two.lost().expect("is told"), packs(&[4]));
    let next = one.take_pack_numbers(1).expect("is there").start;
    assert_eq!(next, PackNumber(1), "notes are no other counters");
}

#[test]
fn every_change_of_a_pack_is_heard_of() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let ((one, _), (two, _)) = (enter(&engine, 1), enter(&engine, 2));
    let mut position = two.pack_position().expect("is told");
    let hear = |position: &mut u64| {
        let changes = two.pack_changes(*position).expect("is told");
        *position = changes.position;
        let state = |row: Option<PackRow>| row.map(|row| row.state);
        changes
            .packs
            .into_iter()
            .map(|(pack, row)| (pack.0, state(row)))
            .collect::<Vec<_>>()
    };
    one.commit(vec![put(1, PackState::Sealed), put(2, PackState::Sealed)])
        .expect("is committed");
    let both = [(1, Some(PackState::Sealed)), (2, Some(PackState::Sealed))];
    assert_eq!(hear(&mut position), both);
    one.commit(vec![put(1, PackState::Condemned)]).expect("is committed");
    one.commit(vec![Write::RemovePack(PackNumber(2))]).expect("is committed");
    let heard = hear(&mut position);
    assert!(heard.contains(&(1, Some(PackState::Condemned))), "{heard:?}");
    assert!(heard.contains(&(2, None)), "{heard:?}");
    // A change is also reported if a later transaction has overtaken the transaction of the change.
    let slow = engine.cluster.slow_change(&engine.database, "UPDATE pack SET bytes = 11", 1500);
    pause(Duration::from_millis(400));
    one.commit(vec![put(3, PackState::Sealed)]).expect("is committed");
    assert!(hear(&mut position).contains(&(3, Some(PackState::Sealed))));
    slow.join().expect("is done");
    let changes = two.pack_changes(position).expect("is told");
    let bytes = changes
        .packs
        .iter()
        .find(|(pack, _)| pack.0 == 1)
        .and_then(|(_, row)| row.clone());
    assert_eq!(bytes.map(|row| row.bytes), Some(11));
    two.forget_pack_changes().expect("is done");
}

#[test]
fn a_mover_has_the_catalogue_alone() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let (one, _) = enter(&engine, 1);
    let mover = Postgres::open(&engine.url()).expect("the catalogue opens");
    assert!(!mover.try_alone().expect("is told"));
    one.leave().expect("leaves");
    drop(one);
    // The connection ends a moment later.
    let alone = (0..50).any(|_| {
        pause(Duration::from_millis(100));
        mover.try_alone().expect("is told")
    });
    assert!(alone);
    let other = Postgres::open(&engine.url()).expect("the catalogue opens");
    assert_eq!(other.enter(&[2; 16], "elsewhere:1500", "1").expect("is told"), None);
    mover.leave_alone(7).expect("is done");
    drop(mover);
    let refused = (0..50).find_map(|_| {
        pause(Duration::from_millis(100));
        other.enter(&[2; 16], "elsewhere:1500", "1").err()
    });
    assert!(refused.expect("is refused").to_string().contains("moved elsewhere"));
}

#[test]
fn a_server_of_the_version_before_does_not_leave_a_wrong_sum_of_digests() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let catalog = Postgres::open(&engine.url()).expect("the catalogue opens");
    let (_, filespace) = add_filespace(&catalog, "anna");
    let (_, other) = add_filespace(&catalog, "bert");
    for filespace in [filespace, other] {
        let row = page(&key(&dir("/"), b""), 1);
        catalog.commit(vec![put_page(filespace, row)]).expect("is committed");
    }
    let sums = || engine.cluster.sql(&engine.database, "SELECT count(*) FROM digest_sum");
    assert_eq!(sums(), "2");
    let statements = [
        "UPDATE digest SET digest = NULL WHERE id >> 36 = {}",
        "INSERT INTO digest SELECT id + 1, hash, digest, first FROM digest WHERE id >> 36 = {}",
        "DELETE FROM digest WHERE id >> 36 = {}",
    ];
    for statement in statements {
        engine
            .cluster
            .sql(&engine.database, &statement.replace("{}", &filespace.0.to_string()));
        assert_eq!(sums(), "1", "{statement}");
        let rows =
            contents::digests(&catalog, filespace, &DirPath::above_root()).expect("are read");
        let sum = rows.iter().map(PageDigest::addend).fold(0, u128::wrapping_add);
        assert_eq!(catalog.digest_sum(filespace).expect("is counted"), sum, "{statement}");
        assert_eq!(sums(), "2", "{statement}");
    }
}
