//! Tests of the work of an administrator on libraries in folders and their volumes.

use std::collections::BTreeSet;

use catalog::{PoolRow, VolumeAccess, VolumeState, Write};

use super::*;
use crate::error::StoreError;
use crate::folder::Config;
use crate::pools::{self, NewPool};
use crate::samples::{TestServer, refused};

fn library(server: &TestServer, name: &str) -> NewLibrary {
    let path = server.beside(name).display().to_string();
    NewLibrary {
        name: name.to_owned(),
        devices: Devices::Folder { path },
        capacity_bytes: None,
        settings: LibrarySettings::default(),
    }
}

/// Returns a server that has the library `vault` with the pool `TAPE`.
fn server() -> TestServer {
    let server = TestServer::new();
    server.store.volumes.add_library(library(&server, "vault")).expect("is made");
    let (name, url) = ("TAPE".to_owned(), "tape:vault".to_owned());
    pools::add(&server.store, &NewPool { name, url, ..NewPool::default() }).expect("is made");
    server
}

/// Labels the volumes. Returns the names of the refused volumes with the reasons.
fn label(server: &TestServer, names: &[&str]) -> Vec<(String, String)> {
    let order = LabelOrder {
        library: "vault".to_owned(),
        choice: LabelChoice::Named(names.iter().map(|name| (*name).to_owned()).collect()),
        overwrites: false,
        block_bytes: None,
    };
    let mut failed = Vec::new();
    let labelled = server.store.volumes.label_all(&order, &mut |report| {
        failed.extend(report.result.err().map(|error| (report.volume, error.to_string())));
        true
    });
    labelled.expect("runs to its end");
    failed
}

fn names(server: &TestServer) -> Vec<String> {
    let listed = server
        .store
        .volumes
        .list(&VolumeFilter::default(), &VolumeKey::default(), usize::MAX)
        .expect("are listed");
    listed.into_iter().map(|volume| volume.row.name).collect()
}

fn pool(server: &TestServer) -> PoolRow {
    let rows = server.store.catalog.pools().expect("are listed");
    rows.into_iter().find(|row| row.name == "TAPE").expect("was made")
}

fn choose(server: &TestServer, avoided: &[u64]) -> Result<String, StoreError> {
    let volumes = &server.store.volumes;
    let site = volumes.site("vault").expect("is known");
    let avoided: BTreeSet<u64> = avoided.iter().copied().collect();
    let row = volumes.choose(&site, &pool(server), "", &avoided)?;
    assert_eq!(row.pool, Some(pool(server).id));
    Ok(row.name)
}

fn set(server: &TestServer, name: &str, change: &VolumeChange) -> Result<(), StoreError> {
    server.store.volumes.set(None, name, change).map(drop)
}

/// A backup of the server's machine took the volumes once more each time, and nothing warned.
#[test]
fn the_folder_of_a_library_with_a_pool_is_known_without_the_catalogue() {
    let server = server();
    server.store.volumes.add_library(library(&server, "annex")).expect("is made");
    let config = Config::load(server.path()).expect("is read");
    let folders = || pools::pool_folders(server.path(), &config);
    let has = |name: &str| folders().contains(&server.beside(name));
    assert!(has("vault") && !has("annex"));
    let before = folders().len();
    pools::remove(&server.store, "TAPE").expect("holds no pack");
    assert!(!has("vault"), "nothing is stored there");
    assert_eq!(folders().len(), before - 1, "the first pool is known");
}

#[test]
fn a_library_is_known_by_its_name_in_any_case_and_once() {
    let server = server();
    let volumes = &server.store.volumes;
    assert!(volumes.site("VAULT").is_ok());
    let twice = volumes.add_library(library(&server, "Vault")).map(drop);
    refused(twice, "library Vault already exists");
    let unknown = volumes.site("other").err().expect("nobody has made it");
    assert_eq!(unknown, LibraryError::Unknown { library: "other".to_owned() });
    assert!(matches!(StoreError::from(unknown), StoreError::NotFound(_)));
    refused(volumes.remove_library("vault").map(drop), "pool TAPE is in library vault");
    pools::remove(&server.store, "TAPE").expect("holds no pack");
    volumes.remove_library("vault").expect("nothing needs it");
    refused(volumes.libraries(Some("vault"), false).map(drop), "there is no library vault");
}

#[test]
fn a_library_without_its_folder_says_so_and_comes_back() {
    let mut server = TestServer::new();
    server.store.volumes.add_library(library(&server, "vault")).expect("is made");
    let (folder, aside) = (server.beside("vault"), server.beside("aside"));
    std::fs::rename(&folder, &aside).expect("is moved");
    server.reopen();
    let volumes = &server.store.volumes;
    let site = volumes.site("vault").expect("is still known");
    let error = site.operator().err().expect("cannot be used");
    assert!(matches!(&error, LibraryError::Unusable { fault: SiteFault::Unmounted { .. }, .. }));
    assert!(error.to_string().starts_with("library vault: "), "{error}");
    assert!(matches!(StoreError::from(error), StoreError::Conflict(_)));
    let problem = || volumes.libraries(None, false).expect("are listed")[0].problem.clone();
    assert!(problem().is_some_and(|problem| problem.contains("is its disk mounted?")));
    std::fs::rename(&aside, &folder).expect("is put back");
    drop(site);
    volumes.look_after_sites();
    assert_eq!(problem(), None);
}

#[test]
fn no_volume_is_made_where_the_folder_is_gone() {
    let server = server();
    std::fs::rename(server.beside("vault"), server.beside("aside")).expect("is moved");
    let error = refused(choose(&server, &[]).map(drop), "is its disk mounted?");
    assert!(matches!(error, StoreError::NoSpace(_)), "{error:?}");
    assert_eq!(names(&server).len(), 0);
}

#[test]
fn volumes_are_labelled_once_each_with_a_name_of_its_own() {
    let server = server();
    let failed = label(&server, &["A00001", "A00002", "a00001", "not a name", "A00001"]);
    let refusals: Vec<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(refusals, ["a00001", "not a name", "A00001"]);
    assert!(failed[0].1.contains("the volume is called A00001"), "{failed:?}");
    assert_eq!(names(&server), ["A00001", "A00002"]);
    let row = server.store.volumes.find(None, "A00001").expect("is known");
    assert_eq!((row.state, row.pool), (VolumeState::Scratch, None));
}

#[test]
fn the_volume_to_write_is_usable_and_not_avoided() {
    let server = server();
    label(&server, &["A00001", "A00002"]);
    let number = |name: &str| server.store.volumes.find(None, name).expect("is known").id;
    let (first, second) = (number("A00001"), number("A00002"));
    assert_eq!(choose(&server, &[]).expect("is scratch"), "A00001");
    assert_eq!(choose(&server, &[first]).expect("is scratch"), "A00002");
    let read_only = VolumeChange::Access(VolumeAccess::ReadOnly);
    set(&server, "A00001", &read_only).expect("is changed");
    assert_eq!(choose(&server, &[]).expect("is scratch"), "A00002");
    assert_eq!(choose(&server, &[second]).expect("is made"), "F00001", "a new volume is made");
    let filling = server.store.volumes.change(second, Vec::new(), |row| {
        (row.state, row.pool) = (VolumeState::Filling, Some(pool(&server).id));
    });
    filling.expect("is changed");
    assert_eq!(choose(&server, &[]).expect("is chosen"), "A00002", "scratch volumes come later");
}

#[test]
fn a_volume_goes_offsite_and_comes_back_read_only_if_it_was_used() {
    let server = server();
    label(&server, &["A00001"]);
    refused(set(&server, "A00001", &VolumeChange::Onsite), "not offsite");
    let offsite = VolumeChange::Offsite { location: "the bank".to_owned() };
    for (state, expected) in [
        (VolumeState::Scratch, VolumeAccess::ReadWrite),
        (VolumeState::Full, VolumeAccess::ReadOnly),
    ] {
        let number = server.store.volumes.find(None, "A00001").expect("is known").id;
        let changed = server.store.volumes.change(number, Vec::new(), |row| row.state = state);
        changed.expect("is changed");
        set(&server, "A00001", &offsite).expect("is taken out");
        refused(set(&server, "A00001", &offsite), "is already offsite");
        let row = server.store.volumes.find(None, "a00001").expect("is known");
        assert_eq!((row.access, row.location.as_str()), (VolumeAccess::Offsite, "the bank"));
        set(&server, "A00001", &VolumeChange::Onsite).expect("comes back");
        let row = server.store.volumes.find(None, "A00001").expect("is known");
        assert_eq!((row.access, row.location.as_str()), (expected, ""));
    }
}

#[test]
fn a_name_that_two_libraries_have_is_said_with_its_library() {
    let server = server();
    label(&server, &["A00001"]);
    server.store.volumes.add_library(library(&server, "annex")).expect("is made");
    let mut row = server.store.volumes.find(None, "A00001").expect("is known");
    (row.library, row.label) = ("annex".to_owned(), [9; 16]);
    row.id = server.store.catalog.add_volume(&row).expect("is added");
    server.store.volumes.commit(vec![Write::PutVolume(row)]).expect("is known");
    refused(server.store.volumes.find(None, "A00001").map(drop), "choose one with --library");
    let found = server.store.volumes.find(Some("ANNEX"), "A00001").expect("one has it");
    assert_eq!(found.library, "annex");
}

#[test]
fn trouble_closes_a_volume_and_is_counted() {
    let server = server();
    label(&server, &["A00001"]);
    let volumes = &server.store.volumes;
    let number = volumes.find(None, "A00001").expect("is known").id;
    let note = |access| volumes.note_trouble(number, access, "a bad block").expect("is noted");
    note(None);
    note(Some(VolumeAccess::Unavailable));
    note(Some(VolumeAccess::ReadOnly));
    let row = volumes.find(None, "A00001").expect("is known");
    assert_eq!(row.errors, 3);
    assert_eq!(row.access, VolumeAccess::Unavailable, "a problem makes no volume readable again");
    volumes
        .note_trouble(number + 9, None, "nobody knows it")
        .expect("is passed over");
    let again = VolumeChange::Access(VolumeAccess::ReadWrite);
    set(&server, "A00001", &again).expect("an administrator has looked at it");
    assert_eq!(volumes.find(None, "A00001").expect("is known").errors, 0);
}

#[test]
fn a_list_shows_what_the_filter_lets_pass() {
    let server = server();
    label(&server, &["A00001", "A00002"]);
    let listed = |filter: VolumeFilter| {
        let found = server
            .store
            .volumes
            .list(&filter, &VolumeKey::default(), usize::MAX)?
            .into_iter();
        Ok::<_, StoreError>(found.map(|volume| volume.row.name).collect::<Vec<_>>())
    };
    let none = VolumeFilter::default;
    let one = VolumeFilter { volume: Some("a00002".to_owned()), ..none() };
    assert_eq!(listed(one).expect("is listed"), ["A00002"]);
    let all = VolumeFilter { library: Some("VAULT".to_owned()), ..none() };
    assert_eq!(listed(all).expect("are listed").len(), 2);
    let of_pool = VolumeFilter { pool: Some("TAPE".to_owned()), ..none() };
    assert_eq!(listed(of_pool).expect("is empty").len(), 0, "scratch volumes belong to no pool");
    let unknown = VolumeFilter { volume: Some("A9".to_owned()), ..none() };
    refused(listed(unknown).map(drop), "there is no volume A9");
    refused(server.store.volumes.queue(Some(1)).map(drop), "no request has the number 1");
    assert_eq!(server.store.volumes.queue(None).map(|waits| waits.len()), Ok(0));
}
