//! Tests that the chunk index agrees with the packs after a crash.

use format::quantum::{Record, encode};
use model::{NodeId, PlaceCode as _};

use super::*;
use crate::intake::{Check, StoredQuantum, take_in};
use crate::samples;

fn quantum(store: &Store, chunks: std::ops::Range<u64>) -> (Vec<u8>, Check) {
    samples::quantum(store, &chunks.collect::<Vec<_>>())
}

fn store_quantum(store: &Store, quantum: &(Vec<u8>, Check)) -> Result<StoredQuantum, StoreError> {
    take_in(store, samples::origin(NodeId(1)), samples::received(quantum))
}

fn in_packs(store: &Store) -> BTreeMap<[u8; 16], u64> {
    let mut all = BTreeMap::new();
    for pack in 1..store.catalog.next_pack().expect("a number").0 {
        let table = store.pools.table(PackNumber(pack)).expect("a table");
        for (index, digest) in (0..).zip(table.digests()) {
            all.insert(digest.prefix(), Place::new(PackNumber(pack), index).code());
        }
    }
    all
}

fn in_index(store: &Store) -> BTreeMap<[u8; 16], u64> {
    let entries = store.index.entries();
    entries
        .map(|entry| entry.expect("readable"))
        .map(|(key, place)| (key, place.code()))
        .collect()
}

#[test]
fn the_index_holds_what_the_packs_hold_after_every_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let config = samples::server(&folder);
    let mut next = 0;
    for round in 0..6 {
        let store = Store::open_alone(&folder, &config).expect("opens");
        assert_eq!(in_index(&store), in_packs(&store), "round {round}");
        assert_eq!(in_index(&store).len() as u64, next, "round {round}: nothing is lost");
        for _ in 0..3 {
            let stored = store_quantum(&store, &quantum(&store, next..next + 40)).expect("space");
            assert_eq!(stored.places.len(), 40);
            next += 40;
        }
        store.commit(Vec::new()).expect("durable");
        let again = store_quantum(&store, &quantum(&store, 0..40)).expect("space");
        assert_eq!(again.places[0].pack(), PackNumber(1), "a known chunk is not stored again");
        match round % 3 {
            // The process is killed, and writes nothing more.
            0 => kill(store),
            1 => store.close().expect("the store closes"),
            _ => {
                store.index.flush(PackNumber(1));
                kill(store);
            }
        }
    }
}

/// Ends the store as a kill of its process would: the locks are released, nothing is written.
fn kill(store: Store) {
    store.ownership.die();
    std::mem::forget(store);
}

#[test]
fn a_quantum_of_known_and_new_chunks_stores_the_new_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let config = samples::server(&folder);
    let store = Store::open_alone(&folder, &config).expect("opens");
    let first = store_quantum(&store, &quantum(&store, 0..40)).expect("space");
    let mixed = store_quantum(&store, &quantum(&store, 20..60)).expect("space");
    assert_eq!(mixed.places[..20], first.places[20..]);
    assert_eq!(in_packs_len(&store), 60);
    let mut torn = quantum(&store, 60..61);
    torn.1 = Check::Digests(vec![0; 16]);
    assert!(store_quantum(&store, &torn).is_err(), "the data does not match its digests");
}

/// Regression: a node could fill a pool with payloads that open to a few bytes, and only these
/// counted for the limit of its domain.
#[test]
fn a_payload_that_is_longer_than_its_data_is_refused() {
    let server = samples::TestServer::new();
    let (record, check) = samples::quantum_of(&server.store, &[vec![7; 5000]]);
    let Record { codec, lengths, payload } = Record::decode(&record).expect("a record");
    let send = |padding_bytes: u32| {
        // A frame that zstd skips.
        let head = [0x184D_2A50, padding_bytes].map(u32::to_le_bytes).concat();
        let padding = vec![0; padding_bytes as usize];
        let record = encode(codec, &lengths, &[payload, &head[..], &padding[..]].concat());
        store_quantum(&server.store, &(record, check.clone()))
    };
    assert_eq!(send(10).expect("padding opens to nothing").lengths, [5000]);
    samples::refused(send(5000), "the payload of a quantum is longer than its data");
}

fn in_packs_len(store: &Store) -> usize {
    store.pools.seal_all().expect("sealed");
    store.commit(Vec::new()).expect("recorded");
    in_packs(store).len()
}

/// A server with the key of another one acknowledged backups that its own key could not read.
#[test]
fn a_server_does_not_open_with_the_key_of_another() {
    let server = samples::TestServer::new();
    server.back_up("/a/", &[("x", &[1])]);
    server.store.ownership.die();
    std::fs::write(server.path().join(MASTER_KEY), [7; 32]).expect("is written");
    let opened = Store::open_alone(server.path(), &server.store.config).map(drop);
    let error = model::chain(&opened.expect_err("it is another key"));
    assert!(error.contains("the key of another server"), "{error}");
}

/// Puts a file in the place of the index's folder, so that the index can be neither opened nor made
/// again.
fn block_index(folder: &Path) {
    std::fs::remove_dir_all(folder.join(INDEX)).expect("it is removed");
    std::fs::write(folder.join(INDEX), b"no folder").expect("it is written");
}

#[test]
fn a_server_whose_index_cannot_be_opened_starts_and_rebuilds_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let config = samples::server(&folder);
    let store = Store::open_alone(&folder, &config).expect("opens");
    store_quantum(&store, &quantum(&store, 0..40)).expect("space");
    store.close().expect("the store closes");
    drop(store);
    block_index(&folder);

    let store = Store::open_alone(&folder, &config).expect("it opens without an index");
    assert!(store.lacks_index());
    let again = store_quantum(&store, &quantum(&store, 20..60)).expect("space");
    assert_eq!(again.places[0].pack(), PackNumber(2), "known chunks are stored again");
    store.tend_index();
    assert!(store.lacks_index(), "the file is still there");
    std::fs::remove_file(folder.join(INDEX)).expect("it is removed");
    store.tend_index();
    assert!(!store.lacks_index());
    let known = store_quantum(&store, &quantum(&store, 0..60)).expect("space");
    assert!(known.places.iter().all(|place| place.pack() <= PackNumber(2)), "all chunks are known");
    let events = store.catalog.events(None, 9).expect("are listed");
    let named = |what: &str| events.iter().any(|event| event.event.what == what);
    assert!(named("chunk index lost") && named("chunk index rebuilt"));
    store.close().expect("the store closes");
    drop(store);
    let store = Store::open_alone(&folder, &config).expect("opens");
    assert_eq!(in_index(&store).len(), 60);
}

#[test]
fn an_index_that_is_damaged_while_it_is_open_is_rebuilt() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let config = samples::server(&folder);
    let store = Store::open_alone(&folder, &config).expect("opens");
    let quantum = quantum(&store, 0..40);
    let first = store_quantum(&store, &quantum).expect("space");
    store.commit(Vec::new()).expect("durable");
    store.index.flush(PackNumber(1));
    for entry in std::fs::read_dir(folder.join(INDEX)).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.ends_with("manifest") {
            continue;
        }
        let mut bytes = std::fs::read(&path).expect("a file");
        bytes[100] ^= 1;
        std::fs::write(&path, &bytes).expect("it is written");
    }
    let again = store_quantum(&store, &quantum).expect("space");
    assert_ne!(again.places, first.places, "no chunk is found");
    assert!(store.lacks_index());
    store.tend_index();
    assert_eq!(in_index(&store).len(), 40);
    let known = store_quantum(&store, &quantum).expect("space");
    assert!(known.places == first.places || known.places == again.places);
}

#[test]
fn an_index_without_room_is_completed_from_its_files_and_later_packs() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let store = Store::open_alone(&folder, &samples::server(&folder)).expect("opens");
    store_quantum(&store, &quantum(&store, 0..40)).expect("space");
    assert_eq!(in_packs_len(&store), 40);
    store.index.flush(PackNumber(1));
    store_quantum(&store, &quantum(&store, 40..60)).expect("space");
    assert_eq!(in_packs_len(&store), 60);
    let full = io::ErrorKind::StorageFull.into();
    let full = index::IndexError::Io { path: folder.join(INDEX), source: full };
    store.index.give_up(&full, "write");
    assert!(store.lacks_index());
    store.tend_index();
    assert_eq!(in_index(&store), in_packs(&store));
    let events = store.catalog.events(None, 9).expect("are listed");
    let mut details = events.iter().map(|event| event.event.details.as_str());
    assert!(details.any(|details| details == "from its files and 1 pack"), "{events:?}");
    store.close().expect("the store closes");
}

#[test]
fn a_full_disk_takes_no_backups_but_the_servers_own_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let mut config = samples::server(&folder);
    // Half of this reserve is the whole file system.
    (config.reserve_percent, config.reserve_bytes_max) = (200, u64::MAX);
    let store = Store::open_alone(&folder, &config).expect("opens on a full disk");
    let refused = store_quantum(&store, &quantum(&store, 0..4)).map(drop).expect_err("no data");
    assert!(matches!(&refused, StoreError::NoSpace(text) if text.contains("the pool in")));
    let refused = store.check_commit_room().expect_err("no commit of a backup");
    assert!(matches!(&refused, StoreError::NoSpace(text) if text.contains("the server's folder")));
    store
        .record("expired", "an event of deletion".to_owned())
        .expect("it is recorded");
    store.commit(Vec::new()).expect("other work is committed");
    store.close().expect("the store closes");
    drop(store);
    config.reserve_percent = 0;
    let store = Store::open_alone(&folder, &config).expect("opens");
    store.check_commit_room().expect("there is room");
    store_quantum(&store, &quantum(&store, 0..4)).expect("space");
}
