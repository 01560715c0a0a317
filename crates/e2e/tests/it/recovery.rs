//! Copies of the catalogue in the pools, and recoveries of servers from these copies.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use e2e::harness::{Node, Outcome, Server};
use e2e::manifest::assert_same;
use serde_json::Value;

use crate::api::{Provider, fields};
use crate::pools::packs;
use crate::risks::{wait_for, watch_certificates};
use crate::scene::{Scene, manifest, names, plant_files};

const FILES: usize = 60;
const FILE_BYTES: usize = 50_000;
/// Size of files whose chunks all nodes share.
const SHARED_BYTES: usize = 70_000;

impl Scene {
    /// Writes the recovery file.
    #[track_caller]
    pub(crate) fn recovery_file(&self) -> PathBuf {
        let file = self.scratch.join("holdfast.recovery");
        let dir = self.server.dir().as_os_str();
        Server::command(&[OsStr::new("recovery"), dir, file.as_os_str()]).expect(&[0]);
        file
    }

    fn rebuild(&self) -> Outcome {
        Server::command(&[OsStr::new("rebuild-catalog"), self.server.dir().as_os_str()])
    }

    /// Copies the catalogue; returns the number of new bytes.
    #[track_caller]
    pub(crate) fn copy_catalog(&self) -> u64 {
        self.server.admin(&["catalog", "backup"])["bytes_new"].as_u64().unwrap()
    }
}

pub(crate) fn recover(dir: &Path, file: &Path, options: &[&str]) -> Outcome {
    let words = [OsStr::new("recover"), dir.as_os_str(), OsStr::new("--from"), file.as_os_str()];
    let options = options.iter().map(OsStr::new);
    Server::command(&words.into_iter().chain(options).collect::<Vec<_>>())
}

pub(crate) fn destroy_catalog(server: &Path) {
    for name in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
        let path = server.join(name);
        if path.try_exists().unwrap() {
            fs::write(path, b"not a catalogue any more").unwrap();
        }
    }
}

#[test]
fn a_lost_server_is_made_again_from_a_copy_pool_and_a_small_file() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.server.admin(&["policy", "class", "LONG", "--verexists", "77"]);
    scene.server.admin(&["policy", "activate"]);
    let copies = scene.add_pool("COPIES", &["--copy"]);
    let file = scene.recovery_file();
    assert!(fs::metadata(&file).unwrap().len() < 10_000, "the recovery file should be small");
    fs::write(scene.file(2), "before").unwrap();
    scene.backup();
    fs::write(scene.file(2), "now").unwrap();
    scene.backup();
    scene.copy_catalog();
    scene.server.admin(&["pool", "copy"]);
    let saved = manifest(&scene.tree);
    let listed = scene.server.admin(&["catalog", "list"]);
    assert_eq!(listed[0]["pools"], Value::from(vec!["PRIMARY", "COPIES"]), "{listed}");

    // The machine is lost, with everything that was backed up after the copy.
    fs::write(scene.file(3), "too late").unwrap();
    scene.backup();
    let (dir, port) = (scene.server.dir().to_owned(), scene.server.port());
    scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    let moved = scene.scratch.join("another machine");
    fs::rename(&copies, &moved).unwrap();
    recover(&dir, &file, &[]).expect(&[12]).says("no pool is available");
    assert!(!dir.try_exists().unwrap(), "nothing is begun without a pool");
    let place = format!("COPIES=file://{}", moved.display());
    let made = recover(&dir, &file, &["--pool", &place]).expect(&[0]);
    assert!(!made.stderr.contains("ERROR"), "the lost pool is no error: {made}");
    let made = made.json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    scene.server = Server::start_at(&dir, port);
    // The node's keys, its versions and the policy are as they were.
    let out = scene.restore("out", &[]);
    assert_same(&saved, &manifest(&out));
    let rows = scene.node.list(&scene.file(2), &["--inactive"]);
    assert_eq!(rows.len(), 2, "{rows:?}");
    let shown = scene.server.admin(&["policy", "show"]).to_string();
    assert!(shown.contains("LONG") && shown.contains("77"), "{shown}");
    // The first pool gets a new disk. Then everything works again.
    scene.server.admin(&["pool", "set", "PRIMARY", "--replaced"]);
    let audit = scene.server.try_admin(&["audit", "--data"]).expect(&[8]).json();
    assert_eq!(audit["versions_lost"], 0, "{audit}");
    scene.backup().counts(&[("backed_up", 1)]);
    scene.compare("after all");
    scene.node.verify().expect(&[0]);
    // A copy of the catalogue from before the replacement also finds the new disk.
    scene.server.terminate().expect(&[0]);
    destroy_catalog(&dir);
    scene.rebuild().expect(&[0]);
    scene.server.restart();
    assert_eq!(scene.pool("PRIMARY")["available"], true);
    scene.backup().counts(&[("backed_up", 1)]);
    scene.compare("rebuilt");
}

#[test]
fn a_copy_holds_what_has_changed_and_few_are_kept() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(40_000, 20);
    scene.copy_no_catalog();
    scene.backup();
    let first = scene.copy_catalog();
    assert!(first > 500_000, "the first copy should be new as a whole: {first}");
    fs::write(scene.file(3), "changed").unwrap();
    scene.backup();
    let second = scene.copy_catalog();
    assert!(second < first / 2, "{second} of {first}");
    for _ in 0..7 {
        scene.copy_catalog();
    }
    let kept = scene.server.admin(&["catalog", "list"]);
    let numbers: Vec<_> =
        kept.as_array().unwrap().iter().map(|copy| copy["copy"].as_u64()).collect();
    assert_eq!(numbers, (3..=9).rev().map(Some).collect::<Vec<_>>());
    // A copy that was killed does not prevent the next copy.
    fs::write(scene.server.dir().join("catalog.copying"), "half").unwrap();
    scene.server.kill9();
    scene.server.restart();
    scene.copy_catalog();
    // Packs that the kept copies need are not reclaimed; other packs are reclaimed.
    scene.server.restart();
    scene.server.admin(&["reclaim"]);
    scene.server.terminate().expect(&[0]);
    destroy_catalog(scene.server.dir());
    let made = scene.rebuild().expect(&[0]).json();
    assert_eq!(made["versions_lost"], 0, "{made}");
    scene.server.restart();
    scene.compare("out");
}

#[test]
fn a_full_pool_is_reclaimed_also_where_the_catalogue_is_copied() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.keep_only_active();
    scene.backup();
    scene.copy_catalog();
    plant_files(&scene.tree, FILES, FILE_BYTES, 9);
    scene.backup();
    scene.server.admin(&["expire"]);
    scene.server.restart();
    // There is no room for a copy before packs are removed, but there is afterwards.
    let used = scene.pool("PRIMARY")["bytes"].to_string();
    scene.server.admin(&["pool", "set", "PRIMARY", "--capacity", &used]);
    scene.server.try_admin(&["catalog", "backup"]).expect(&[12]).says("full");
    assert_eq!(scene.server.admin(&["reclaim"])["packs_removed"], 1);
    let copies = scene.server.admin(&["catalog", "list"]);
    assert_eq!(copies.as_array().map(Vec::len), Some(2), "{copies}");
    scene.server.terminate().expect(&[0]);
    destroy_catalog(scene.server.dir());
    assert_eq!(scene.rebuild().expect(&[0]).json()["versions_lost"], 0);
    scene.server.restart();
    scene.compare("out");
}

/// Regression: a thread that served nodes kept the catalogue open until the process ended, so that
/// the newest commits were in the log alone.
#[test]
fn a_server_that_has_stopped_leaves_its_catalogue_in_one_file() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, 500);
    scene.backup();
    scene.server.terminate().expect(&[0]);
    let files = names(scene.server.dir());
    assert!(files.iter().any(|name| name == b"catalog.sqlite"), "{files:?}");
    assert!(!files.iter().any(|name| name.starts_with(b"catalog.sqlite-")), "{files:?}");
}

#[test]
fn a_lost_catalogue_comes_from_its_newest_copy_that_is_whole() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    scene.copy_catalog();
    plant_files(&scene.tree.join("later"), FILES, FILE_BYTES, 5);
    scene.backup();
    scene.copy_catalog();
    plant_files(&scene.tree.join("last"), FILES, FILE_BYTES, 6);
    scene.backup();
    scene.rebuild().expect(&[12]).says("another server is using");
    scene.server.terminate().expect(&[0]);
    destroy_catalog(scene.server.dir());
    let newest = scene.primary().join("catalogue/0000000002.copy");
    let mut list = fs::read(&newest).unwrap();
    let middle = list.len() / 2;
    list[middle] ^= 1;
    fs::write(&newest, list).unwrap();
    let made = scene.rebuild().expect(&[8]).json();
    assert_eq!(made["copy"], 1, "{made}");
    assert_eq!(made["copies_passed_over"], Value::from(vec![2]), "{made}");
    assert!(made["packs_new"].as_u64().unwrap() > 0, "{made}");
    let aside = PathBuf::from(made["aside"].as_str().unwrap());
    assert_eq!(fs::read(aside).unwrap(), b"not a catalogue any more");
    scene.server.restart();
    // Data that nothing names may be newer than the catalogue: it stays until an administrator
    // releases it.
    scene.server.try_admin(&["reclaim"]).expect(&[12]).says("reclaim --release");
    // The next backup sees the later changes, and finds their data in the pool.
    let again = scene.backup();
    assert!(again.count("backed_up") >= 2 * FILES as u64, "{again}");
    assert!(again.count("bytes_transferred") < FILE_BYTES as u64 * 4, "{again}");
    scene.compare("out");
    assert_eq!(scene.server.admin(&["audit", "--data"])["versions_lost"], 0);
    scene.server.admin(&["reclaim", "--release"]);
    scene.server.restart();
    scene.server.admin(&["reclaim"]);
    scene.compare("out again");
}

/// A server whose catalogue was set back to a snapshot removed the packs of the later backups. Its
/// next copy of the catalogue hid the copy that named them.
#[test]
fn a_server_whose_catalogue_was_set_back_keeps_what_came_later() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    scene.copy_catalog();
    scene.server.terminate().expect(&[0]);
    let catalog = scene.server.dir().join("catalog.sqlite");
    let older = fs::read(&catalog).unwrap();
    scene.server.restart();
    plant_files(&scene.tree.join("later"), FILES, FILE_BYTES, 7);
    scene.backup();
    scene.copy_catalog();
    scene.server.terminate().expect(&[0]);
    fs::write(&catalog, older).unwrap();
    scene.server.restart();
    let log = scene.server.admin(&["log"]).to_string();
    assert!(log.contains("catalogue is older"), "{log}");
    for refused in [&["reclaim"][..], &["catalog", "backup"]] {
        scene.server.try_admin(refused).expect(&[12]).says("older than its copy 2");
    }
    // Packs are copied without the catalogue.
    scene.server.admin(&["pool", "copy"]);
    scene.server.terminate().expect(&[0]);
    let made = scene.rebuild().expect(&[0]).json();
    assert_eq!(made["copy"], 2, "{made}");
    scene.server.restart();
    scene.compare("out");
}

#[test]
fn a_server_that_is_held_says_why_wherever_an_operator_looks() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut service = Provider::new();
    let lab = service.tenant("LAB");
    let metric = |service: &Provider, value: u8| {
        let text = service.root.get("/metrics").expect(200).body;
        let line = format!("holdfast_server_held{{reason=\"older-catalogue\"}} {value}");
        assert!(String::from_utf8(text).unwrap().contains(&line), "{line}");
    };
    service.server.admin(&["catalog", "backup"]);
    service.server.terminate().expect(&[0]);
    let catalog = service.server.dir().join("catalog.sqlite");
    let older = fs::read(&catalog).unwrap();
    service.server.restart();
    assert_eq!(service.server.admin(&["servers"])["hold"], Value::Null);
    metric(&service, 0);
    service.server.admin(&["catalog", "backup"]);
    service.server.terminate().expect(&[0]);
    fs::write(&catalog, older).unwrap();
    watch_certificates(&mut service);
    let is_held = |list: &Value| fields(list, "kind").contains(&"server-held".to_owned());
    let open = "/v1/alerts?state=open";
    wait_for(&service.root, open, is_held);
    wait_for(&service.root, "/v1/risks", is_held);
    metric(&service, 1);
    let servers = service.server.try_admin(&["servers"]).expect(&[8]).json();
    let reason = servers["hold"].as_str().expect("a reason");
    assert!(reason.starts_with("the catalogue is older than its copy"), "{reason}");
    let shown = service.root.get("/v1/servers").expect(200).json();
    assert_eq!(shown["items"][0]["hold"], reason);
    let shown = lab.get("/v1/servers").expect(200).json();
    assert_eq!(shown["items"][0].get("hold"), None, "a tenant learns nothing of copies");
    service.server.admin(&["reclaim", "--release"]);
    wait_for(&service.root, open, |list| !is_held(list));
    assert_eq!(service.server.admin(&["servers"])["hold"], Value::Null);
    metric(&service, 0);
}

#[test]
fn what_is_newer_than_the_catalogue_stays_on_a_disk_that_comes_later() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    let [old, new] = ["OLD", "NEW"].map(|name| scene.add_pool(name, &["--copy"]));
    let file = scene.recovery_file();
    scene.backup();
    scene.copy_catalog();
    scene.server.admin(&["pool", "copy"]);
    // One disk goes to the safe, and the other stays in use.
    let safe = scene.scratch.join("safe");
    fs::rename(&old, &safe).unwrap();
    plant_files(&scene.tree.join("later"), FILES, FILE_BYTES, 5);
    scene.backup();
    scene.copy_catalog();
    scene.server.admin(&["pool", "copy", "NEW"]);
    let (dir, port) = (scene.server.dir().to_owned(), scene.server.port());
    scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    // The recovery finds the older disk first.
    let later = scene.scratch.join("found later");
    fs::rename(&new, &later).unwrap();
    fs::rename(&safe, &old).unwrap();
    recover(&dir, &file, &[]).expect(&[0]);
    let before = packs(&later);
    fs::rename(&later, &new).unwrap();
    scene.server = Server::start_at(&dir, port);
    scene.server.admin(&["pool", "copy"]);
    assert_eq!(packs(&new).len(), before.len(), "no pack should be regarded as unneeded");
    assert!(names(&new.join("catalogue")).len() > 1);
    // So the newer state can still be recovered.
    scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["nodes"], &made["versions_lost"]), (&1.into(), &0.into()), "{made}");
    scene.server = Server::start_at(&dir, port);
    scene.compare("out");
}

#[test]
fn without_a_copy_the_packs_tell_what_they_hold() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    // The packs do not say whose short chunks they have, so only long ones are found again.
    let mut scene = Scene::with_files(FILES, SHARED_BYTES);
    scene.backup();
    scene.server.terminate().expect(&[0]);
    destroy_catalog(scene.server.dir());
    let made = scene.rebuild().expect(&[8]).json();
    assert_eq!((&made["copy"], &made["nodes"]), (&Value::Null, &0.into()), "{made}");
    assert!(made["chunks"].as_u64().unwrap() >= FILES as u64, "{made}");
    scene.server.restart();
    scene.node.backup(&scene.tree, &[]).expect(&[12]).says("enrol again");
    let node = Node::enrol(&scene.server, "anna");
    let again = node.backup(&scene.tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_eq!(again.count("backed_up"), again.count("inspected"));
    let pool: u64 = packs(&scene.primary())
        .iter()
        .map(|pack| fs::metadata(pack).unwrap().len())
        .sum();
    assert!(
        pool < 3 * (FILES * SHARED_BYTES) as u64 / 2,
        "the content should be stored once: {pool}"
    );
    scene.node = node;
    scene.compare("out");
}

#[test]
fn a_rebuilt_catalogue_says_what_the_packs_have_lost() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    scene.server.restart();
    let lost = packs(&scene.primary());
    plant_files(&scene.tree.join("later"), FILES, FILE_BYTES, 5);
    scene.backup();
    scene.copy_catalog();
    scene.server.terminate().expect(&[0]);
    destroy_catalog(scene.server.dir());
    lost.iter().for_each(|pack| fs::remove_file(pack).unwrap());
    let made = scene.rebuild().expect(&[4]).json();
    assert_eq!(made["packs_missing"].as_array().unwrap().len(), lost.len(), "{made}");
    assert_eq!(made["versions_lost"], FILES as u64, "{made}");
    let named = made["versions"].to_string();
    assert!(named.contains(scene.file(7).to_str().unwrap()), "{named}");
    scene.server.restart();
    scene.node.backup(&scene.tree, &["--full"]).expect(&[0]);
    scene.compare("healed from the source");
}

#[test]
fn nonsense_makes_no_server() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let scene = Scene::with_files(3, 100);
    scene.backup();
    let good = scene.recovery_file();
    let file = scene.scratch.join("nonsense");
    let dir = scene.scratch.join("new");
    let refused = |text: &str, options: &[&str], why: &str| {
        fs::write(&file, text).unwrap();
        recover(&dir, &file, options).expect(&[12]).says(why);
        assert!(!dir.try_exists().unwrap());
    };
    let text = fs::read_to_string(&good).unwrap();
    refused("", &[], "cannot be used");
    refused("format = 1", &[], "cannot be used");
    refused(&text.replace("format = 1", "format = 2"), &[], "its format is 2");
    refused(&text.replace("master_key = \"", "master_key = \"x"), &[], "master key");
    refused(&text, &["--pool", "NONE=file:///nowhere"], "the pools are PRIMARY");
    refused(&text, &["--pool", "PRIMARY"], "NAME=file:///FOLDER");
    refused(&text, &["--pool", "PRIMARY=file:///nowhere"], "no pool is available");
    recover(
        scene.server.dir(),
        &good,
        &["--pool", &format!("PRIMARY=file://{}", scene.primary().display())],
    )
    .expect(&[12])
    .says("is the folder of a server already");
    let taken = format!("file://{}", scene.primary().display());
    let words = ["init", dir.to_str().unwrap(), "--pool", &taken];
    Server::command(&words).expect(&[12]).says("pool of another server");
    Server::command(&["rebuild-catalog", "/nowhere"]).expect(&[12]).says("init");
    Server::command(&["recovery", "/nowhere"]).expect(&[12]).says("init");
    scene.compare("out");
}

/// Damages the page of the directory whose path ends in `end`.
fn damage_page(server: &Path, end: &str) {
    let catalog = rusqlite::Connection::open(server.join("catalog.sqlite")).unwrap();
    let update = "UPDATE page SET body = x'ff' WHERE id IN
                  (SELECT page FROM directory WHERE CAST(path AS TEXT) LIKE '%' || ?)";
    assert_eq!(catalog.execute(update, [end]).unwrap(), 1, "a directory has one page");
}

#[test]
fn a_damaged_page_of_the_catalogue_costs_one_directory_until_it_is_rebuilt() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, 2000);
    let whole = names(&scene.tree.join("folder-00"));
    scene.copy_no_catalog();
    scene.backup();
    // Expiration looks at directories with inactive versions.
    fs::write(scene.file(FILES - 1), "second version").unwrap();
    scene.backup();
    scene.copy_catalog();
    scene.server.terminate().expect(&[0]);
    damage_page(scene.server.dir(), "/folder-01/");
    scene.server.restart();

    let out = scene.scratch.folder("damaged");
    let restored = scene.node.restore(&scene.tree, &out, &[]).expect(&[4]).says("folder-01");
    assert_eq!(restored.failures().len(), 1, "{restored}");
    assert_eq!(names(&out.join("tree/folder-00")), whole);
    assert!(names(&out.join("tree/folder-01")).is_empty());
    scene.node.verify().expect(&[4]).says("folder-01");
    let list = ["list", "--recursive", scene.tree.to_str().unwrap()];
    let listed = scene.node.run(&list).says("folder-00/file-0049");
    assert_ne!(listed.code(), 0, "{listed}");
    for folder in ["folder-00", "folder-01"] {
        fs::write(scene.tree.join(folder).join("new"), folder).unwrap();
    }
    let backed_up = scene.node.backup(&scene.tree, &[]).expect(&[4]);
    let [(path, _)] = &backed_up.failures()[..] else { panic!("{backed_up}") };
    assert!(path.ends_with(b"/folder-01/"), "{backed_up}");

    let expired = scene.server.try_admin(&["expire", "--all"]).expect(&[8]).json();
    assert_eq!(expired["damaged_directories"], 1, "{expired}");

    let audit = scene.server.try_admin(&["audit"]).expect(&[4]).json();
    assert_eq!(audit["catalog_rows_damaged"], 1, "{audit}");
    let damaged = audit["catalog_directories"][0]["path"].as_str().unwrap();
    assert!(damaged.ends_with("/folder-01/"), "{audit}");
    for _ in 0..9 {
        scene.server.try_admin(&["catalog", "backup"]).expect(&[8]).says("damaged");
    }
    let listed = scene.server.admin(&["catalog", "list"]);
    let oldest = listed.as_array().unwrap().last().unwrap();
    assert_eq!((&oldest["copy"], &oldest["doubtful"]), (&1.into(), &false.into()), "{listed}");

    scene.server.terminate().expect(&[0]);
    let made = scene.rebuild().expect(&[8]).json();
    assert_eq!((&made["copy"], &made["versions_lost"]), (&1.into(), &0.into()), "{made}");
    scene.server.restart();
    scene.backup().counts(&[("backed_up", 4)]);
    scene.compare("rebuilt");
}

/// An audit ended without its findings where another table was damaged too.
#[test]
fn an_audit_names_damaged_directories_although_other_tables_are_damaged() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(3, 100);
    scene.copy_no_catalog();
    scene.backup();
    scene.copy_catalog();
    scene.server.terminate().expect(&[0]);
    damage_page(scene.server.dir(), "/folder-00/");
    damage_sessions(scene.server.dir());
    scene.server.restart();
    let audit = scene.server.try_admin(&["audit"]).expect(&[4]).json();
    let damaged = audit["catalog_directories"][0]["path"].as_str().unwrap();
    assert!(damaged.ends_with("/folder-00/"), "{audit}");
    assert_eq!(audit["catalog_loss"]["copy"], 1, "{audit}");
}

/// Makes the reports of backups unreadable.
fn damage_sessions(server: &Path) {
    let catalog = rusqlite::Connection::open(server.join("catalog.sqlite")).unwrap();
    let update = "UPDATE session SET report = CAST(x'ff' AS TEXT)";
    assert_ne!(catalog.execute(update, []).unwrap(), 0, "there are backups");
}

/// A deletion, and a backup that found a directory gone, ended at the first damaged page.
#[test]
fn deletion_and_removal_go_on_beside_a_damaged_page_and_the_audit_says_what_a_copy_lacks() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, 2000);
    scene.server.admin(&["node", "set", &scene.node.name, "--backdelete", "yes"]);
    let gone = scene.tree.join("gone");
    for folder in ["bad", "good"] {
        fs::create_dir_all(gone.join(folder)).unwrap();
        fs::write(gone.join(folder).join("file"), folder).unwrap();
    }
    scene.copy_no_catalog();
    scene.backup();
    scene.copy_catalog();
    fs::write(scene.file(0), "after the copy").unwrap();
    scene.backup();
    scene.server.terminate().expect(&[0]);
    damage_page(scene.server.dir(), "/gone/bad/");
    scene.server.restart();

    let audit = scene.server.try_admin(&["audit"]).expect(&[4]).json();
    let loss = &audit["catalog_loss"];
    assert_eq!((&loss["copy"], &loss["backups"]), (&1.into(), &1.into()), "{audit}");
    assert!((1..FILES as u64).contains(&loss["versions"].as_u64().unwrap()), "{audit}");

    fs::remove_dir_all(&gone).unwrap();
    for _ in 0..2 {
        let backed_up = scene.node.backup(&scene.tree, &[]).expect(&[4]);
        let [(path, _)] = &backed_up.failures()[..] else { panic!("{backed_up}") };
        assert!(path.ends_with(b"/gone/"), "{backed_up}");
        let good = scene.node.list(&gone.join("good/file"), &["--inactive"]);
        assert_eq!(good[0]["state"], "I", "{good:?}");
    }

    let delete = ["delete", scene.tree.to_str().unwrap(), "--json"];
    let deleted = scene.node.run(&delete).expect(&[4]).says("/gone/bad/").json();
    assert!(deleted["versions"].as_u64().unwrap() > FILES as u64, "{deleted}");
    let file = scene.file(0);
    let list = ["list", file.to_str().unwrap(), "--inactive"];
    scene.node.run(&list).expect(&[12]);
    let number = deleted["deletion"].to_string();
    scene.node.run(&["undelete", &number]).expect(&[0]);
    scene.node.run(&list).expect(&[0]);
}
