//! Damage in SQLite's file: every call returns, none panics.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use catalog::sqlite::Sqlite;
use catalog::{
    AlertChanges, Catalog, CatalogError, Certificate, Day, Locks, Node, NodeDetails, PackState,
    PageSpan, PersonChange, TokenError, UsageDay, UsageSubject, VolumeRow, Write,
};
use model::{DirPath, DomainId, FilespaceId, NodeId, PackNumber, PersonId, PoolId};

use crate::SqliteInFolder;
use crate::conformance::Engine as _;
use crate::contents;
use crate::samples::{
    DOMAIN, NOW, add_version, alert, answer, api_key, approval, archived, at, contact, dir, drill,
    enrolled, enrolment_key, fill, key, library, node_name, pack, page, part, poll, pool, put,
    put_parts, refusal, session, sign_in, token, version, volume,
};

/// Size of a database page, in bytes.
const BLOCK_BYTES: usize = 4096;

/// The bytes of a closed catalogue with rows in every table.
fn sample() -> Vec<u8> {
    let engine = SqliteInFolder::in_memory();
    let catalog = engine.open();
    for (state, name) in [(1, "a"), (5, "b"), (9, "c")] {
        let node = fill(&*catalog, name, state);
        let filespace = catalog.filespaces(node.id).expect("are listed")[0].id;
        // These rows are enough for trees of more than one level.
        let rows = (0..200_u32).map(|i| page(&key(&dir("/m/"), &i.to_be_bytes()), state));
        let old = |i: i64| version(&dir(&format!("/m/{i}/")), b"old", i, i + 1);
        let mut writes: Vec<Write> = rows.map(|row| put(filespace, row)).collect();
        writes.extend((0..100).map(|i| add_version(filespace, old(i))));
        catalog.commit(writes).expect("the batch is performed");
    }
    let pool = catalog.add_pool(&pool("A")).expect("a pool is made");
    catalog.put_library(&library("L")).expect("a library is made");
    let volume = catalog.add_volume(&volume("L", "V")).expect("a volume is made");
    let puts = (1..200).map(|pack| put_parts(pool, pack, &[part(volume, pack)]));
    catalog.commit(puts.collect()).expect("the batch is performed");
    contents::of_catalog(&*catalog).expect("is read");
    drop(catalog);
    std::fs::read(engine.path()).expect("the file is read")
}

/// Opens `bytes` as a catalogue and calls every method. `what` describes the damage.
#[track_caller]
fn check(what: &str, bytes: &[u8]) {
    let engine = SqliteInFolder::in_memory();
    std::fs::write(engine.path(), bytes).expect("the file is written");
    let tried = catch_unwind(AssertUnwindSafe(|| use_all_of(&engine.path())));
    let errors = tried.unwrap_or_else(|_| panic!("{what}: a call panicked"));
    // After a panic of the writing thread, callers get an error that it has stopped.
    let stopped = |error: &TokenError| {
        error.source().is_some_and(|source| source.to_string().contains("stopped"))
    };
    assert!(!errors.iter().any(stopped), "{what}: the writer panicked");
}

fn use_all_of(path: &Path) -> Vec<TokenError> {
    let catalog = match Sqlite::open(path) {
        Ok(catalog) => catalog,
        Err(error) => return vec![error.into()],
    };
    let mut errors = Vec::new();
    ask_everything(&catalog, &mut errors);
    write_everything(&catalog, &mut errors);
    note(&mut errors, contents::of_catalog(&catalog));
    errors
}

fn note<T, E: Into<TokenError>>(errors: &mut Vec<TokenError>, answer: Result<T, E>) {
    errors.extend(answer.err().map(Into::into));
}

fn ask_everything(catalog: &dyn Catalog, errors: &mut Vec<TokenError>) {
    note(errors, contents::of_catalog(catalog));
    note(errors, catalog.nodes());
    note(errors, catalog.packs());
    note(errors, catalog.next_pack());
    note(errors, catalog.pools());
    note(errors, catalog.libraries());
    note(errors, catalog.volumes());
    note(errors, catalog.volume_bytes());
    note(errors, catalog.volume_parts(1));
    note(errors, catalog.stored_packs(PoolId(1)));
    note(errors, catalog.parts(PoolId(1), PackNumber(100)));
    note(errors, catalog.domains());
    note(errors, catalog.option_sets());
    note(errors, catalog.option_set_versions("A"));
    note(errors, catalog.events(None, 10));
    for state in [1, 5, 9, 101] {
        note(errors, catalog.token_node(&[state; 32], NOW));
        note(errors, catalog.certificate_node(&[state, 1], NOW));
    }
    for id in 1..=3 {
        note(errors, catalog.node(&node_name(["a", "b", "c"][id as usize - 1])));
        note(errors, contents::of_node(catalog, NodeId(id)));
    }
    for id in [1, 3] {
        ask_filespace(catalog, FilespaceId(id), errors);
    }
}

fn ask_filespace(catalog: &dyn Catalog, id: FilespaceId, errors: &mut Vec<TokenError>) {
    note(errors, contents::of_filespace(catalog, id));
    for path in [DirPath::above_root(), dir("/"), dir("/m/")] {
        note(errors, contents::digests(catalog, id, &path));
        note(errors, catalog.page(id, &key(&path, b"")));
        note(errors, catalog.page(id, &key(&path, &150_u32.to_be_bytes())));
        note(errors, catalog.versions(id, &path));
        note(errors, catalog.expiry(id));
        note(errors, catalog.endings(id, Day(0)..=Day(i64::MAX), None, usize::MAX));
        note(errors, catalog.count_objects(id, &path));
        for span in [PageSpan::Directory(path.clone()), PageSpan::Subtree(path)] {
            note(errors, follow_pages(catalog, id, &span));
            note(errors, catalog.version_directories(id, &span, None, usize::MAX));
        }
    }
}

/// Reads all pages of `span`, a few at a time. The loop ends only if the keys grow.
fn follow_pages(
    catalog: &dyn Catalog,
    id: FilespaceId,
    span: &PageSpan,
) -> Result<(), CatalogError> {
    let mut after = None;
    loop {
        let pages = catalog.pages(id, span, after.as_ref(), 50)?;
        assert!(pages.is_sorted_by(|a, b| a.key < b.key), "pages are in order");
        let Some(last) = pages.last() else { return Ok(()) };
        assert!(after.is_none_or(|after| last.key > after), "pages come after the given key");
        after = Some(last.key.clone());
    }
}

fn write_everything(catalog: &dyn Catalog, errors: &mut Vec<TokenError>) {
    let node = Node {
        id: NodeId(2),
        name: node_name("b"),
        domain: DomainId(1),
        domain_name: DOMAIN.to_owned(),
        domain_since: NOW,
        locks: Locks::default(),
        registered: NOW,
        option_set: None,
        deletes_backups: false,
        deletes_archives: true,
        collocation_group: None,
    };
    let (id, path) = (FilespaceId(3), dir("/m/"));
    let replaced = key(&path, &150_u32.to_be_bytes());
    let writes = [
        put(id, page(&replaced, 77)),
        put(id, page(&key(&path, b"zz"), 77)),
        Write::RemovePage { filespace: id, key: key(&path, &20_u32.to_be_bytes()) },
        add_version(id, version(&path, b"new", 1, 2)),
        Write::PutPack(pack(PackNumber(3), DomainId(1), PackState::Open)),
        Write::AddSession(session(&node, id, 70, true)),
    ];
    for write in &writes {
        note(errors, catalog.commit(vec![write.clone()]));
    }
    note(errors, catalog.commit(writes.to_vec()));
    note(errors, catalog.add_node(&node_name("new"), DOMAIN, NOW));
    note(errors, catalog.lock_node(node.id, catalog::Locker::Service, true));
    note(errors, catalog.rename_node(node.id, &node_name("renamed")));
    note(errors, catalog.open_filespace(node.id, b"/new", NOW));
    note(errors, catalog.add_token(&token(&node, 77)));
    note(errors, catalog.redeem_token(&[77; 32], &[77, 1], at(9), NOW, &enrolled()));
    let certificate = Certificate { serial: vec![77, 2], node: node.id, expires: at(9) };
    note(errors, catalog.add_certificate(&certificate));
    note(errors, catalog.add_baseline(node.id, NOW, b"{}"));
    note(errors, catalog.put_drill(&drill(node.id, 7)));
    note(errors, catalog.add_enrolment_key(&enrolment_key(77)));
    note(errors, catalog.add_api_key(&api_key("77", PersonId(1))));
    note(errors, catalog.add_sign_in(&sign_in(77, PersonId(1))));
    note(errors, catalog.change_person(PersonId(1), &no_identities()));
    note(errors, catalog.set_roles(PersonId(1), &[]));
    note(errors, catalog.put_node_details(node.id, &NodeDetails::default()));
    note(errors, catalog.add_archived(&archived(node.id, 77)));
    note(errors, catalog.put_contacts(&[contact(node.id)]));
    note(errors, catalog.put_polls(&[poll(node.id)]));
    note(errors, catalog.claim_answer(&answer("a", "77")));
    note(errors, catalog.add_approval(&approval(77)));
    let opened = AlertChanges { opened: vec![alert("77")], ..AlertChanges::none(NOW) };
    note(errors, catalog.change_alerts(&opened));
    note(errors, catalog.acknowledge_alert(1, "anna", "", NOW));
    note(errors, catalog.forget_alerts(at(9), at(9)));
    let subject = UsageSubject::Pool(PoolId(1));
    let day = UsageDay { subject, day: Day(77), bytes: 1, bytes_max: 2 };
    note(errors, catalog.put_usage_days(&[day]));
    note(errors, catalog.remove_person(PersonId(1)));
    note(errors, catalog.put_library(&library("l")));
    note(errors, catalog.add_volume(&volume("L", "W")));
    let changed = VolumeRow { id: 1, ..volume("L", "X") };
    let remove = Write::RemoveParts { pool: PoolId(1), pack: PackNumber(101) };
    let writes = [Write::PutVolume(changed), put_parts(PoolId(1), 100, &[part(1, 100)]), remove];
    for write in writes {
        note(errors, catalog.commit(vec![write]));
    }
    note(errors, catalog.remove_pool(PoolId(1)));
    note(errors, catalog.remove_volume(1));
    note(errors, catalog.remove_library("L"));
    note(errors, catalog.remove_node(NodeId(1)));
    note(errors, catalog.remove_node(NodeId(3)));
}

/// The change that takes all identities from a person.
fn no_identities() -> PersonChange {
    PersonChange { identities: Some(Vec::new()), ..PersonChange::default() }
}

/// Pseudo-random numbers, the same in each run, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963);
        let high = usize::try_from(self.0 >> 33).expect("31 bits");
        high % end
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("is below 256")
    }
}

#[test]
fn a_closed_catalogue_is_one_whole_file() {
    let engine = SqliteInFolder::in_memory();
    let before = {
        let catalog = engine.open();
        fill(&*catalog, "a", 1);
        contents::of_catalog(&*catalog).expect("is read")
    };
    let copy = SqliteInFolder::in_memory();
    std::fs::copy(engine.path(), copy.path()).expect("the file is copied");
    assert_eq!(contents::of_catalog(&*copy.open()).expect("is read"), before);
    let files = std::fs::read_dir(engine.path().parent().expect("a folder")).expect("is read");
    assert_eq!(files.count(), 1);
}

#[test]
fn an_undamaged_catalogue_gives_no_errors() {
    let engine = SqliteInFolder::in_memory();
    std::fs::write(engine.path(), sample()).expect("the file is written");
    let mut errors = Vec::new();
    ask_everything(&engine.open_sqlite(), &mut errors);
    // Some of the tokens and certificates are used up or do not exist.
    let refused = |error: &TokenError| {
        matches!(error, TokenError::Invalid(_) | TokenError::Catalog(CatalogError::NotFound { .. }))
    };
    assert!(errors.iter().all(refused), "{errors:?}");
}

#[test]
fn garbage_is_damaged_at_open() {
    let mut numbers = Numbers(1);
    let mut noise = |count| (0..count).map(|_| numbers.byte()).collect::<Vec<u8>>();
    // SQLite regards a file of one byte as empty.
    let mut files: Vec<Vec<u8>> =
        [2, 15, 16, 99, 100, 511, 512, 4096, 100_000].map(&mut noise).to_vec();
    files.push(vec![0; 100]);
    files.push(vec![0; 3 * BLOCK_BYTES]);
    files.push(b"#!/bin/sh\necho this is no catalogue\n".to_vec());
    files.push([b"SQLite format 3\0".to_vec(), noise(2 * BLOCK_BYTES)].concat());
    files.push(b"SQLite format 3\0".to_vec());
    for bytes in files {
        let engine = SqliteInFolder::in_memory();
        std::fs::write(engine.path(), &bytes).expect("the file is written");
        let opened = Sqlite::open(&engine.path()).map(|_| bytes.len());
        assert_eq!(refusal(opened), "damaged");
        assert_eq!(std::fs::read(engine.path()).expect("is read"), bytes, "is left as it was");
    }
}

#[test]
fn a_truncated_file_never_panics() {
    let bytes = sample();
    let blocks = (1..bytes.len() / BLOCK_BYTES).map(|block| block * BLOCK_BYTES);
    let odd = [1, 50, 100, 101, 511, 512, 1000, BLOCK_BYTES - 1, BLOCK_BYTES + 1, bytes.len() - 1];
    for end in blocks.chain(odd) {
        check(&format!("truncated to {end}"), &bytes[..end]);
    }
}

#[test]
fn a_flipped_byte_never_panics() {
    let bytes = sample();
    let mut numbers = Numbers(2);
    let mut offsets: Vec<usize> = (16..100).step_by(5).collect();
    // The header of a block of a tree: its kind, the counts and places of its cells.
    let blocks = 1..bytes.len() / BLOCK_BYTES;
    offsets.extend(blocks.map(|block| block * BLOCK_BYTES + numbers.below(12)));
    offsets.extend((0..100).map(|_| numbers.below(bytes.len())));
    for offset in offsets {
        let mask = [0x01, 0x80, 0xff, 0x10][numbers.below(4)];
        let mut bytes = bytes.clone();
        bytes[offset] ^= mask;
        check(&format!("byte {offset} ^ {mask:#x}"), &bytes);
    }
}

#[test]
fn a_lost_block_never_panics() {
    let bytes = sample();
    let count = bytes.len() / BLOCK_BYTES;
    for block in 0..count {
        let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
        let mut zeroed = bytes.clone();
        zeroed[range.clone()].fill(0);
        check(&format!("block {block} zeroed"), &zeroed);
        let mut misplaced = bytes.clone();
        misplaced.copy_within(range, (block + 1) % count * BLOCK_BYTES);
        check(&format!("block {block} written over the next"), &misplaced);
    }
}
