//! The chunk index after a crash is what the packs say.

use chunk::{Compression, Compressor, RawQuantum};
use model::PlaceCode as _;
use wire::proto;

use super::*;
use crate::store::store;

fn quantum(core: &Core, seeds: std::ops::Range<u32>) -> proto::Quantum {
    let mut raw = RawQuantum::default();
    for seed in seeds {
        let mut chunk = vec![0; 500 + seed as usize % 300];
        blake3::Hasher::new()
            .update(&seed.to_le_bytes())
            .finalize_xof()
            .fill(&mut chunk);
        raw.push(&chunk);
    }
    let digests: Vec<_> = raw.chunks().map(|chunk| core.pools.digest_of(DOMAIN, chunk)).collect();
    let record = Compressor::new(Compression::Standard).expect("a context").encode(&raw);
    let check = wire::quantum_check(&digests).to_vec();
    proto::Quantum { number: 0, record: record.into(), check: check.into(), raw_check: None }
}

fn in_packs(core: &Core) -> BTreeMap<[u8; 16], u64> {
    let mut all = BTreeMap::new();
    for pack in 1..core.catalog.next_pack().expect("a number").0 {
        let table = core.pools.table(PackNumber(pack)).expect("a table");
        for (index, digest) in (0..).zip(table.digests()) {
            all.insert(digest.prefix(), Place::new(PackNumber(pack), index).code());
        }
    }
    all
}

fn in_index(core: &Core) -> BTreeMap<[u8; 16], u64> {
    let entries = core.index.entries();
    entries
        .map(|entry| entry.expect("readable"))
        .map(|(key, place)| (key, place.code()))
        .collect()
}

#[test]
fn the_index_holds_what_the_packs_hold_after_every_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let config = crate::init(&folder, "127.0.0.1:0", None, None).expect("a server");
    let mut next = 0;
    for round in 0..6 {
        let core = Core::open_alone(&folder, &config).expect("opens");
        assert_eq!(in_index(&core), in_packs(&core), "round {round}");
        assert_eq!(in_index(&core).len(), next as usize, "round {round}: nothing is lost");
        for _ in 0..3 {
            let stored = store(&core, pool::Filler::any(DOMAIN), &quantum(&core, next..next + 40))
                .expect("space");
            assert_eq!(stored.places.len(), 40);
            next += 40;
        }
        core.commit(Vec::new()).expect("durable");
        let again = store(&core, pool::Filler::any(DOMAIN), &quantum(&core, 0..40)).expect("space");
        assert_eq!(again.places[0].pack(), PackNumber(1), "what is there is not stored again");
        match round % 3 {
            // As a killed process: nothing is written any more.
            0 => std::mem::forget(core),
            1 => core.close().expect("in order"),
            _ => {
                core.index.flush(PackNumber(1)).expect("written");
                std::mem::forget(core);
            }
        }
    }
}

#[test]
fn a_quantum_of_known_and_new_chunks_stores_the_new_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("server");
    let config = crate::init(&folder, "127.0.0.1:0", None, None).expect("a server");
    let core = Core::open_alone(&folder, &config).expect("opens");
    let first = store(&core, pool::Filler::any(DOMAIN), &quantum(&core, 0..40)).expect("space");
    let mixed = store(&core, pool::Filler::any(DOMAIN), &quantum(&core, 20..60)).expect("space");
    assert_eq!(mixed.places[..20], first.places[20..]);
    assert_eq!(in_packs_len(&core), 60);
    let mut torn = quantum(&core, 60..61);
    torn.check = vec![0; 16].into();
    assert!(
        store(&core, pool::Filler::any(DOMAIN), &torn).is_err(),
        "what arrived is not what was meant"
    );
}

fn in_packs_len(core: &Core) -> usize {
    core.pools.seal_all().expect("sealed");
    core.commit(Vec::new()).expect("recorded");
    in_packs(core).len()
}
