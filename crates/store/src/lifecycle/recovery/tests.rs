//! Tests of recovery with pools in folders: of a server from its recovery file and its pools, and
//! of a catalogue alone.

use super::*;
use crate::folder::hold::Hold;
use crate::pools::NewPool;
use crate::samples::{TestServer, directory, mount, refused, unmount};

/// Returns a server with a file, a copy pool, and a copy of its catalogue in both pools.
fn server() -> TestServer {
    let server = TestServer::new();
    server.back_up("/a/", &[("x", &[1, 2])]);
    server.seal();
    server.add_pool("COPIES", true);
    catalog_copy::run(&server.store, Default::default(), &mut |_| true).expect("is copied");
    crate::pools::copy(&server.store, "COPIES", &mut |_| true).expect("are copied");
    server
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// The place of the first pool, whose server has died.
fn places_moved(server: &TestServer) -> Vec<(String, String)> {
    server.store.ownership.die();
    vec![("PRIMARY".to_owned(), url(&server.path().join("pool")))]
}

/// Opens the recovered server, and returns the number of files in the directory `/a/`.
fn files_in(folder: &Path, filespace: model::FilespaceId) -> u32 {
    let config = Config::load(folder).expect("is a server");
    let store = Store::open_alone(folder, &config).expect("opens");
    let key = catalog::PageKey::first_of(directory("/a/"));
    let page = store.catalog.page(filespace, &key).expect("is read");
    page.map_or(0, |page| page.object_count)
}

#[test]
fn a_server_is_made_again_from_its_pools_and_the_recovery_file() {
    let server = server();
    let text = export(server.path()).expect("is a server");
    let folder = server.beside("again");
    let report = recover(&folder, &text, &places_moved(&server)).expect("is recovered");
    let CopyOrigin { number, bytes, .. } = report.copy.expect("there is a copy");
    assert!(number == 1 && bytes > 0);
    assert_eq!((report.nodes, report.victims.count), (1, 0));
    assert_eq!((report.passed_over.len(), report.damaged.len(), report.missing.len()), (0, 0, 0));
    assert_eq!(files_in(&folder, server.filespace), 1);
    let keys = |folder: &Path| std::fs::read(folder.join(MASTER_KEY)).expect("is read");
    assert_eq!(keys(&folder), keys(server.path()));
    let again = recover(&folder, &text, &places_moved(&server));
    assert!(matches!(again, Err(RecoveryError::Init(InitError::Exists { .. }))), "{again:?}");
}

#[test]
fn a_copy_pool_alone_is_enough() {
    let server = server();
    let text = export(server.path()).expect("is a server");
    std::fs::remove_dir_all(server.path()).expect("is removed");
    let folder = server.beside("again");
    let report = recover(&folder, &text, &[]).expect("is recovered");
    assert!(report.copy.is_some());
    assert_eq!((report.nodes, report.missing.len(), report.victims.count), (1, 0, 0));
    assert_eq!(files_in(&folder, server.filespace), 1);
}

#[test]
fn a_recovered_server_removes_nothing_before_its_release() {
    let server = server();
    let text = export(server.path()).expect("is a server");
    let folder = server.beside("again");
    recover(&folder, &text, &places_moved(&server)).expect("is recovered");
    let config = Config::load(&folder).expect("is a server");
    let store = Arc::new(Store::open_alone(&folder, &config).expect("opens"));
    let order =
        crate::lifecycle::reclaim::Order { is_dry: false, dead_percent: 40, recompress: None };
    let reclaim = || crate::lifecycle::reclaim::run(&store, order, &mut |_| true);
    refused(reclaim(), "--release");
    release(&store).expect("ends the hold");
    reclaim().expect("may remove packs now");
    drop(store);
    let store = Arc::new(Store::open_alone(&folder, &config).expect("opens"));
    assert!(store.check_released().is_ok(), "the hold does not come back");
}

/// Returns a server with a copy of its catalogue, and the catalogue before the backups after that
/// copy. The pools have a newer copy.
fn server_and_older() -> (TestServer, PathBuf) {
    let server = server();
    let older = server.beside("older");
    server.store.catalog.copy_to(&older).expect("is copied");
    server.back_up("/b/", &[("y", &[3, 4])]);
    server.seal();
    catalog_copy::run(&server.store, Default::default(), &mut |_| true).expect("is copied");
    (server, older)
}

/// Stops the server and puts the catalogue `older` back. Returns the temporary folder.
fn put_back(server: TestServer, older: &Path) -> tempfile::TempDir {
    let path = server.path().to_owned();
    server.store.close().expect("the store closes");
    let kept = server.keep();
    for suffix in ["-wal", "-shm"] {
        drop(std::fs::remove_file(path.join(format!("{CATALOG_FILE}{suffix}"))));
    }
    std::fs::rename(older, path.join(CATALOG_FILE)).expect("is put back");
    kept
}

/// A pack that was open when the disk was copied is shorter there. It replaced the longer pack in
/// the copy pool, which the newer catalogue names.
#[test]
fn a_longer_pack_in_a_copy_pool_stays_until_the_release() {
    let server = TestServer::new();
    let copies = server.add_pool("COPIES", true).row.id;
    server.back_up("/a/", &[("x", &[1, 2])]);
    let pack = server.store.catalog.packs().expect("are listed")[0].number;
    let file = server.pack_file(&server.store.config.pool, pack);
    let (path, older) = (server.path().to_owned(), server.beside("older"));
    let short = std::fs::read(&file).expect("is there");
    server.store.catalog.copy_to(&older).expect("is copied");
    server.back_up("/b/", &[("y", &[3, 4])]);
    server.seal();
    assert_eq!(copied(&server.store), Ok(1));
    crate::pools::copy(&server.store, "COPIES", &mut |_| true).expect("are copied");
    let long = server.store.pools.packs_of(copies)[&pack];
    let kept = put_back(server, &older);
    std::fs::write(&file, short).expect("is put back");
    let store = opened(&path);
    crate::pools::copy(&store, "COPIES", &mut |_| true).expect("are copied");
    let first = store.pools.packs_of(crate::pools::FIRST)[&pack];
    assert!(first < long, "the first pool has the shorter pack");
    assert_eq!(store.pools.packs_of(copies)[&pack], long);
    drop(kept);
}

fn opened(path: &Path) -> Arc<Store> {
    let config = Config::load(path).expect("is a server");
    Arc::new(Store::open_alone(path, &config).expect("opens"))
}

fn why_held(store: &Store) -> Option<Hold> {
    store.hold().expect("is read")
}

fn reclaimed(store: &Arc<Store>) -> Result<(), StoreError> {
    let order =
        crate::lifecycle::reclaim::Order { is_dry: false, dead_percent: 40, recompress: None };
    crate::lifecycle::reclaim::run(store, order, &mut |_| true).map(drop)
}

fn copied(store: &Arc<Store>) -> Result<u64, StoreError> {
    let outcome = catalog_copy::run(store, Default::default(), &mut |_| true)?;
    assert_eq!(outcome.doubt, None);
    Ok(outcome.number)
}

/// A server that got an older catalogue, as from a snapshot of its disk, removed the packs of the
/// backups after it. Then the newer copy of the catalogue could not give them back.
#[test]
fn a_server_with_an_older_catalogue_removes_nothing_before_its_release() {
    let server = TestServer::new();
    server.back_up("/a/", &[("x", &[1, 2])]);
    server.seal();
    let (path, older) = (server.path().to_owned(), server.beside("older"));
    // This catalogue has never been copied.
    server.store.catalog.copy_to(&older).expect("is copied");
    server.back_up("/b/", &[("y", &[3, 4])]);
    server.seal();
    assert_eq!(copied(&server.store), Ok(1));
    let kept = put_back(server, &older);

    let store = opened(&path);
    refused(reclaimed(&store), "--release");
    release(&store).expect("ends the hold");
    drop(store);
    let store = opened(&path);
    assert!(store.check_released().is_ok(), "the hold does not come back");
    assert_eq!(copied(&store), Ok(2));
    drop(kept);
}

/// The next copy of the older catalogue was the newest copy, and hid the copy that knew more.
#[test]
fn an_older_catalogue_is_not_copied_before_the_release() {
    let (server, older) = server_and_older();
    let path = server.path().to_owned();
    let list = path.join("pool/catalogue").join(catalog_copy::name(2));
    let aside = server.beside("list");
    let kept = put_back(server, &older);
    let store = opened(&path);
    refused(copied(&store), "older than its copy 2");
    assert_eq!(catalog_copy::goes_with_packs(&store), Ok(false));
    drop(store);
    // The pool with the newer copy is away.
    std::fs::rename(&list, &aside).expect("is moved");
    let store = opened(&path);
    refused(copied(&store), "older than its copy 2");
    refused(reclaimed(&store), "older than its copy 2");
    for pool in store.pools.present() {
        store.pools.remove_file(pool, &catalog_copy::name(1)).expect("is removed");
    }
    assert_eq!(catalog_copy::run_due(&store), Ok(None), "there is no copy, and none is due");
    std::fs::rename(&aside, &list).expect("is moved");
    release(&store).expect("ends the hold");
    assert_eq!(catalog_copy::goes_with_packs(&store), Ok(true));
    assert_eq!(copied(&store), Ok(3));
    drop(kept);
}

/// Opens a server with an older catalogue while the copy pool is away, which alone has the newer
/// copy. Returns the temporary folder, the server, and the folder of the pool.
fn opened_without_newer_copy() -> (tempfile::TempDir, Arc<Store>, PathBuf) {
    let (server, older) = server_and_older();
    let (path, copies) = (server.path().to_owned(), server.beside("COPIES"));
    let list = |pool: &Path| pool.join("catalogue").join(catalog_copy::name(2));
    std::fs::rename(list(&path.join("pool")), list(&copies)).expect("is moved");
    let kept = put_back(server, &older);
    unmount(&copies);
    (kept, opened(&path), copies)
}

/// Brings a pool back that is away.
fn bring_back(store: &Store, pool: &Path) {
    mount(pool);
    crate::pools::refresh(store);
}

#[test]
fn a_pool_that_comes_back_with_a_newer_copy_begins_the_hold() {
    let (kept, store, pool) = opened_without_newer_copy();
    assert!(store.check_released().is_ok(), "no newer copy can be seen");
    bring_back(&store, &pool);
    refused(reclaimed(&store), "older than its copy 2");
    drop(kept);
}

/// The older catalogue made a copy with the number of the newer one, whose pool was away. When the
/// pool was back, no copy had a higher number than the catalogue knew, and the next reclamation
/// removed what only the copy in that pool named.
#[test]
fn two_copies_of_one_number_begin_the_hold() {
    let (kept, store, pool) = opened_without_newer_copy();
    assert_eq!(copied(&store), Ok(2));
    assert_eq!(why_held(&store), None, "the other copy cannot be seen");
    bring_back(&store, &pool);
    assert_eq!(why_held(&store), Some(Hold::Parted { copy: 2 }));
    refused(reclaimed(&store), "different copies 2");
    refused(copied(&store), "different copies 2");
    assert_eq!(catalog_copy::goes_with_packs(&store), Ok(false));
    let path = store.folder.clone();
    drop(store);
    let store = opened(&path);
    assert_eq!(why_held(&store), Some(Hold::Parted { copy: 2 }), "a start ends no hold");
    release(&store).expect("ends the hold");
    assert_eq!(copied(&store), Ok(3));
    drop(store);
    let store = opened(&path);
    assert_eq!(why_held(&store), None, "the hold does not come back");
    drop(kept);
}

/// A run that copied packs looked for newer copies only. It replaced and removed packs of the copy
/// pool, and its lists, that only the other copy of one number named.
#[test]
fn two_copies_of_one_number_are_noticed_before_packs_are_copied() {
    let (kept, store, pool) = opened_without_newer_copy();
    assert_eq!(copied(&store), Ok(2));
    // Nobody looks at the copies in the pool that is back.
    mount(&pool);
    store.pools.refresh(&store.pools.back(), &BTreeMap::new());
    assert_eq!(why_held(&store), None);
    let rows = store.catalog.pools().expect("are listed");
    let copies = rows.iter().find(|row| row.is_copy).expect("there is a copy pool").id;
    // The catalogue does not know a pack of the copy pool.
    let pack = *store.pools.packs_of(copies).keys().next().expect("it has packs");
    store.commit(vec![Write::RemovePack(pack)]).expect("is performed");
    store.pools.remove(pack).expect("is removed");
    crate::pools::copy(&store, "COPIES", &mut |_| true).expect("are copied");
    assert_eq!(why_held(&store), Some(Hold::Parted { copy: 2 }));
    assert!(store.pools.packs_of(copies).contains_key(&pack), "the other copy may name it");

    // Neither of the two copies spreads.
    let url = url(&kept.path().join("MORE"));
    let more = NewPool { name: "MORE".to_owned(), url, is_copy: true, ..NewPool::default() };
    let more = crate::pools::add(&store, &more).expect("is made").row.id;
    crate::pools::copy(&store, "MORE", &mut |_| true).expect("are copied");
    let lists = store.pools.files(more).expect("are listed");
    assert!(!store.pools.packs_of(more).is_empty());
    assert!(!lists.contains(&catalog_copy::name(2)), "{lists:?}");
}

/// A server that starts when both pools are there has not seen any of them come back.
#[test]
fn two_copies_of_one_number_are_noticed_at_a_start() {
    let (server, older) = server_and_older();
    let path = server.path().to_owned();
    let newer = path.join("pool/catalogue").join(catalog_copy::name(2));
    let there = server.beside("COPIES").join("catalogue").join(catalog_copy::name(2));
    let aside = server.beside("list");
    let kept = put_back(server, &older);
    std::fs::rename(&newer, &aside).expect("is moved");
    let store = opened(&path);
    assert_eq!(copied(&store), Ok(2));
    drop(store);
    std::fs::rename(&aside, &there).expect("is moved");
    let store = opened(&path);
    assert_eq!(why_held(&store), Some(Hold::Parted { copy: 2 }));
    drop(kept);
}

#[test]
fn a_newer_copy_is_noticed_before_the_next_copy_gets_a_number() {
    let (server, older) = server_and_older();
    let path = server.path().to_owned();
    let list = path.join("pool/catalogue").join(catalog_copy::name(2));
    let aside = server.beside("list");
    let kept = put_back(server, &older);
    std::fs::rename(&list, &aside).expect("is moved");
    let store = opened(&path);
    assert!(store.check_released().is_ok(), "no newer copy can be seen");
    std::fs::rename(&aside, &list).expect("is moved");
    refused(copied(&store), "older than its copy 2");
    refused(reclaimed(&store), "older than its copy 2");
    let events = store.catalog.events(None, 1).expect("are listed");
    assert_eq!(events[0].event.what, known_copies::OLDER);
    drop(kept);
}

#[test]
fn a_release_while_a_pool_is_away_skips_the_numbers_that_the_pool_may_have() {
    let (server, older) = server_and_older();
    let path = server.path().to_owned();
    let copies = server.beside("COPIES");
    let kept = put_back(server, &older);
    let store = opened(&path);
    unmount(&copies);
    crate::pools::refresh(&store);
    release(&store).expect("ends the hold");
    assert_eq!(copied(&store), Ok(10_003));
    drop(kept);
}

/// A catalogue of a version that recorded no numbers of copies was taken for an older catalogue.
#[test]
fn a_catalogue_that_has_recorded_no_numbers_and_knows_its_copies_is_not_held() {
    let mut server = server();
    let unset = Write::SetMark { name: "catalogue copies", value: -1 };
    server.store.catalog.commit(vec![unset]).expect("is set");
    let known = known_copies::last_number(&*server.store.catalog).expect("is read");
    assert_eq!(known, None);
    server.reopen();
    assert!(server.store.check_released().is_ok());
    assert_eq!(copied(&server.store), Ok(2));
}

#[test]
fn a_file_whose_number_is_absurd_is_no_copy() {
    let mut server = server();
    let list = server.path().join("pool/catalogue");
    for name in [u64::MAX.to_string(), format!("{}0", u64::MAX)] {
        std::fs::write(list.join(format!("{name}.copy")), b"x").expect("is written");
    }
    server.reopen();
    assert!(server.store.check_released().is_ok());
    assert_eq!(copied(&server.store), Ok(2));
}

#[test]
fn a_damaged_copy_is_passed_over_for_the_one_before() {
    let server = server();
    let before = server.store.catalog.packs().expect("are listed").len();
    server.back_up("/b/", &[("y", &[3])]);
    catalog_copy::run(&server.store, Default::default(), &mut |_| true).expect("is copied");
    server.seal();
    let packs = server.store.catalog.packs().expect("are listed");
    let newest = packs[before..].iter().find(|row| row.domain == CATALOG_DOMAIN);
    server.damage(newest.expect("has new blocks").number);
    let text = export(server.path()).expect("is a server");
    let folder = server.beside("again");
    let report = recover(&folder, &text, &places_moved(&server)).expect("is recovered");
    assert_eq!(report.copy.map(|copy| copy.number), Some(1));
    let [(passed, reason)] = &report.passed_over[..] else { panic!("{report:?}") };
    assert!(*passed == 2 && !reason.is_empty());
    assert!(report.packs_new > 0, "the older catalogue lacks the newer packs");
}

/// Reclamation took copies of the catalogue that it could not read for missing. It removed packs
/// without a new copy, and the blocks of copies that were whole.
#[test]
fn nothing_is_reclaimed_while_a_copy_of_the_catalogue_cannot_be_read() {
    let server = server();
    let lists = [server.path().join("pool"), server.beside("COPIES")]
        .map(|pool| pool.join("catalogue").join(catalog_copy::name(1)));
    for list in &lists {
        std::fs::rename(list, list.with_extension("away")).expect("is moved");
        // A folder cannot be read as a file.
        std::fs::create_dir(list).expect("is made");
    }
    let order =
        crate::lifecycle::reclaim::Order { is_dry: false, dead_percent: 40, recompress: None };
    let reclaim = || crate::lifecycle::reclaim::run(&server.store, order, &mut |_| true);
    refused(reclaim(), "the copies of the catalogue cannot be read");
    for list in &lists {
        std::fs::remove_dir(list).expect("is removed");
        std::fs::rename(list.with_extension("away"), list).expect("is moved");
    }
    reclaim().expect("all copies can be read");
}

/// After an error at the disk of the new server, a recovery took an older copy of the catalogue,
/// which lacked the newest backups and named packs that were gone.
#[test]
fn an_error_at_the_disk_of_the_new_server_leads_to_no_older_copy() {
    let server = server();
    server.back_up("/b/", &[("y", &[3])]);
    catalog_copy::run(&server.store, Default::default(), &mut |_| true).expect("is copied");
    let text = export(server.path()).expect("is a server");
    let moved = places_moved(&server);
    let disk = ::disk::Disk::new(&server.beside("disk"));
    for number in (0..).step_by(3) {
        disk.plan(::disk::Fault::Change { number });
        let recovered = recover(&disk.root().join(number.to_string()), &text, &moved);
        let has_failed = disk.relieve();
        if let Ok(RecoveryReport { copy, passed_over, .. }) = &recovered {
            assert_eq!(copy.map(|copy| copy.number), Some(2), "operation {number}");
            assert_eq!(passed_over, &[], "operation {number}");
        }
        if !has_failed {
            recovered.expect("nothing fails any more");
            assert!(number > 30, "operations have failed before");
            return;
        }
    }
}

/// Copies of a damaged catalogue pushed out the sound ones: nine in a row left no sound copy.
#[test]
fn a_damaged_catalogue_pushes_out_no_sound_copy() {
    let server = server();
    let key = catalog::PageKey::first_of(directory("/a/"));
    let page = server.store.catalog.page(server.filespace, &key).expect("is read");
    let mut page = page.expect("is there");
    page.body[0] ^= 0xff;
    let put = Write::PutPage { filespace: server.filespace, page };
    server.store.catalog.commit(vec![put]).expect("is written");
    for _ in 0..9 {
        let made = catalog_copy::run(&server.store, Default::default(), &mut |_| true);
        let doubt = made.expect("is stored").doubt.expect("the page is damaged");
        assert_eq!(doubt, "the catalogue is damaged: 1 row cannot be read");
    }
    let listed = catalog_copy::list(&server.store).expect("are listed");
    let listed: Vec<_> = listed.iter().map(|copy| (copy.number, copy.is_doubtful)).collect();
    assert_eq!(listed, [(10, true), (9, true), (1, false)]);
    server.seal();
    let text = export(server.path()).expect("is a server");
    let folder = server.beside("again");
    let report = recover(&folder, &text, &places_moved(&server)).expect("is recovered");
    assert_eq!(report.copy.map(|copy| copy.number), Some(1));
    assert_eq!(report.passed_over.len(), 2, "{report:?}");
    assert_eq!(files_in(&folder, server.filespace), 1);
}

#[test]
fn a_doubtful_copy_is_better_than_none() {
    let server = TestServer::new();
    server.back_up("/a/", &[("x", &[1, 2])]);
    server.back_up("/b/", &[("y", &[3])]);
    let key = catalog::PageKey::first_of(directory("/b/"));
    let page = server.store.catalog.page(server.filespace, &key).expect("is read");
    let page = catalog::PageRow { body: vec![0xff], ..page.expect("is there") };
    let put = Write::PutPage { filespace: server.filespace, page };
    server.store.catalog.commit(vec![put]).expect("is written");
    catalog_copy::run(&server.store, Default::default(), &mut |_| true).expect("is stored");
    server.seal();
    let text = export(server.path()).expect("is a server");
    let folder = server.beside("again");
    let report = recover(&folder, &text, &places_moved(&server)).expect("is recovered");
    assert_eq!(report.copy.map(|copy| copy.number), Some(1));
    assert_eq!(files_in(&folder, server.filespace), 1, "the whole page of /a/");
}

#[test]
fn without_a_copy_the_packs_tell_their_chunks_alone() {
    let server = TestServer::new();
    server.back_up("/a/", &[("x", &[1, 2, 3])]);
    server.seal();
    let text = export(server.path()).expect("is a server");
    let folder = server.beside("again");
    let report = recover(&folder, &text, &places_moved(&server)).expect("is recovered");
    assert_eq!(report.copy, None);
    assert_eq!((report.nodes, report.packs, report.packs_new, report.chunks), (0, 1, 1, 3));
}

#[test]
fn a_recovery_needs_a_pool_that_is_there() {
    let server = server();
    let text = export(server.path()).expect("is a server");
    let folder = server.beside("again");
    let nowhere = url(&server.beside("nowhere"));
    let check = |moved: &[(&str, &str)], expected: &str| {
        let moved: Vec<_> = moved
            .iter()
            .map(|(name, url)| ((*name).to_owned(), (*url).to_owned()))
            .collect();
        let error = recover(&folder, &text, &moved).expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(folder.try_exists().ok(), Some(false), "nothing was made");
    };
    check(&[("OTHER", &nowhere)], "there is no pool OTHER; the pools are PRIMARY, COPIES");
    check(&[("COPIES", &nowhere)], "no pool is available");
}

#[test]
fn a_damaged_recovery_file_is_refused_with_its_fault() {
    let server = TestServer::new();
    let text = export(server.path()).expect("is a server");
    let key = text.lines().find(|line| line.starts_with("master_key")).expect("has a key");
    let mark = text.lines().find(|line| line.starts_with("mark")).expect("has a mark");
    let cases = [
        (text.replace("format = 1", "format = 2"), "its format is 2"),
        (text.replace(key, "master_key = \"00\""), "its master key is damaged"),
        (text.replace(mark, "mark = \"xy\""), "the mark of pool PRIMARY is damaged"),
        (text.replace("format = 1", ""), "format"),
        (format!("other = 1\n{text}"), "other"),
        (String::new(), "cannot be used"),
    ];
    for (text, expected) in cases {
        let error = recover(&server.beside("again"), &text, &[]).expect_err("it is refused");
        assert!(matches!(error, RecoveryError::File(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_rebuild_puts_the_old_catalogue_aside_and_takes_the_newest_copy() {
    let server = server();
    let (path, filespace) = (server.path().to_owned(), server.filespace);
    server.store.close().expect("the store closes");
    let kept = server.keep();
    let report = rebuild(&path, &[]).expect("is rebuilt");
    let aside = report.aside.expect("there was a catalogue");
    assert!(aside.is_file() && aside.starts_with(&path));
    assert_eq!(report.copy.map(|copy| copy.number), Some(1));
    assert_eq!(files_in(&path, filespace), 1);
    drop(kept);
}

/// A rebuild with a wrong key put the catalogue aside, took an older copy, and then was refused.
#[test]
fn a_rebuild_with_the_key_of_another_server_changes_nothing() {
    let server = server();
    let path = server.path().to_owned();
    server.store.close().expect("the store closes");
    let kept = server.keep();
    let key = std::fs::read(path.join(MASTER_KEY)).expect("is read");
    std::fs::write(path.join(MASTER_KEY), [7; MASTER_BYTES]).expect("is replaced");
    let error = rebuild(&path, &[]).expect_err("it is refused");
    assert!(model::chain(&error).contains("the key of another server"), "{error:?}");
    std::fs::write(path.join(MASTER_KEY), key).expect("is put back");
    let config = Config::load(&path).expect("is a server");
    let store = Store::open_alone(&path, &config).expect("opens");
    assert!(store.check_released().is_ok(), "the catalogue is the old one");
    drop(kept);
}

#[test]
fn a_server_in_files_has_no_other_server_beside_it() {
    let server = TestServer::new();
    let text = export(server.path()).expect("is a server");
    let joined = join(&server.beside("again"), &text, "127.0.0.1:0");
    let error = joined.expect_err("it is refused").to_string();
    assert!(error.contains("sqlite: is on the machine of one server only"), "{error}");
}
