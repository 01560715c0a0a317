//! Pools in an object store: packs are stored and read back, and nothing that was acknowledged is
//! lost, whichever requests fail.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Garage, Process, Proxy, Ring, Server};
use e2e::scratch::Scratch;

use crate::recovery::recover;
use crate::scene::{Scene, plant_files};

const FILES: usize = 60;
const FILE_BYTES: usize = 100_000;

/// A scene whose server has its packs in an object store. The store ends after the server.
pub(crate) struct BucketScene {
    pub(crate) scene: Scene,
    pub(crate) proxy: Proxy,
    pub(crate) garage: Garage,
}

impl BucketScene {
    /// Makes a scene with `files` of `bytes` each; `None` if Garage is not built.
    pub(crate) fn new(files: usize, bytes: usize) -> Option<Self> {
        let scratch = Scratch::new();
        let garage = Garage::start(&scratch.join("garage"))?;
        let proxy = Proxy::start(garage.port());
        let url = garage.url_at(proxy.port(), "site/one");
        let scene = Scene::stored(scratch, &["--pool", &url], files, bytes);
        Some(Self { scene, proxy, garage })
    }

    #[track_caller]
    fn audit(&self) {
        audit(&self.scene);
    }
}

/// Makes the server audit all data. No damage may be found.
#[track_caller]
pub(crate) fn audit(scene: &Scene) {
    let audit = scene.server.try_admin(&["audit", "--data"]).expect(&[0]).json_lines();
    assert_eq!(audit[0]["damages"].as_array().map(Vec::len), Some(0), "{audit:?}");
}

/// Returns true if a file below the folder is a pack.
fn has_packs(folder: &Path) -> bool {
    let listed = std::process::Command::new("find")
        .arg(folder)
        .args(["-name", "*.pack"])
        .output();
    !listed.unwrap().stdout.is_empty()
}

#[test]
fn what_was_sent_to_a_bucket_comes_back() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    let sent = stored.scene.backup();
    assert!(sent.count("bytes_transferred") > 0);
    stored.scene.compare("kept");
    stored.scene.restart_bare();
    assert!(!has_packs(stored.scene.server.dir()));
    stored.scene.compare("asked for");
    assert!(!has_packs(stored.scene.server.dir()), "a restore should write no packs to the folder");
    stored.audit();
    // Stored data is found again, and new data is appended.
    stored.scene.backup().counts(&[("backed_up", 0)]);
    plant_files(&stored.scene.tree.join("more"), 20, FILE_BYTES, 2);
    fs::copy(stored.scene.file(3), stored.scene.tree.join("copy")).unwrap();
    stored.scene.backup();
    stored.scene.restart_bare();
    stored.scene.compare("more");
    stored.scene.node.verify().expect(&[0]);
    assert_eq!(stored.garage.unfinished_uploads(), 0);
}

#[test]
fn large_packs_go_in_parts() {
    // The content does not compress, so it fills a pack of 64 MiB and a part of a second pack.
    let Some(mut stored) = BucketScene::new(10, 9 << 20) else { return };
    stored.scene.backup();
    let pool = stored.scene.pool("PRIMARY");
    assert!(pool["bytes"].as_u64().unwrap() > 90 << 20, "{pool}");
    stored.scene.restart_bare();
    stored.scene.compare("parts");
    assert_eq!(stored.garage.unfinished_uploads(), 0);
}

#[test]
fn a_store_of_three_nodes_goes_on_without_one() {
    let scratch = Scratch::new();
    let Some(mut ring) = Ring::start(&scratch.join("ring")) else { return };
    // Some requests fail, and all are slow.
    let (proxy, url) = ring.proxied("site");
    let mut scene = Scene::stored(scratch, &["--pool", &url], 10, 6 << 20);
    proxy.weather().delay(Duration::from_millis(100));
    proxy.weather().fail_each(7);
    proxy.weather().cut_each(11);
    let backing_up = |scene: &Scene| {
        let running = scene.node.spawn_backup(&scene.tree, &[]);
        pause(Duration::from_millis(300));
        running
    };
    let is_under_way = |running: &Process| !running.ends_within(Duration::ZERO);
    let running = backing_up(&scene);
    ring.kill(2);
    assert!(is_under_way(&running), "the backup ended before the node was killed");
    running.wait().expect(&[0]);
    scene.compare("with two");
    // The node comes back in the middle of a backup.
    plant_files(&scene.tree.join("more"), 10, 6 << 20, 2);
    let running = backing_up(&scene);
    assert!(is_under_way(&running), "the backup ended before the node was back");
    ring.begin(2);
    running.wait().expect(&[0]);
    scene.restart_bare();
    scene.compare("with all");
    audit(&scene);
}

#[test]
fn a_server_that_is_killed_loses_nothing_it_has_acknowledged() {
    let Some(mut stored) = BucketScene::new(4, 20 << 20) else { return };
    for round in 0..4 {
        let more = stored.scene.tree.join(format!("round-{round}"));
        plant_files(&more, 4, 12 << 20, round + 10);
        let running = stored.scene.node.spawn_backup(&stored.scene.tree, &[]);
        pause(Duration::from_millis(150 * (round + 1)));
        stored.scene.server.kill9();
        drop(running.wait());
        stored.scene.server.restart();
        // Unfinished uploads of the killed server are ended by the next server.
        assert_eq!(stored.garage.unfinished_uploads(), 0);
        stored.scene.node.verify().expect(&[0]);
    }
    stored.scene.backup();
    stored.scene.restart_bare();
    stored.scene.compare("killed");
    stored.audit();
}

#[test]
fn a_store_that_is_slow_and_fails_now_and_then_is_put_up_with() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    let weather = stored.proxy.weather();
    weather.delay(Duration::from_millis(20));
    weather.fail_each(5);
    weather.cut_each(7);
    stored.scene.backup();
    plant_files(&stored.scene.tree.join("large"), 3, 12 << 20, 3);
    stored.scene.backup();
    assert!(stored.proxy.weather().requests() > 20);
    stored.scene.restart_bare();
    stored.scene.compare("slow");
    stored.audit();
}

#[test]
fn a_store_that_is_gone_fails_backups_that_go_on_once_it_is_back() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    stored.scene.backup();
    plant_files(&stored.scene.tree.join("more"), 3, 12 << 20, 3);
    // With keys that the store does not know, a backup fails at once.
    let keys = stored.garage.credentials();
    let right = fs::read_to_string(&keys).unwrap();
    fs::write(&keys, right.replace("GK01", "GK99")).unwrap();
    let refused = stored.scene.node.backup(&stored.scene.tree, &[]).expect(&[12]);
    drop(refused.says("pack"));
    fs::write(&keys, &right).unwrap();
    // While the store is unavailable, a backup waits. Then it goes on.
    stored.proxy.weather().be_down(true);
    let running = stored.scene.node.spawn_backup(&stored.scene.tree, &[]);
    pause(Duration::from_secs(3));
    stored.proxy.weather().be_down(false);
    running.wait().expect(&[0]);
    // The store itself is killed and comes back.
    plant_files(&stored.scene.tree.join("again"), 3, 12 << 20, 4);
    let running = stored.scene.node.spawn_backup(&stored.scene.tree, &[]);
    pause(Duration::from_millis(300));
    stored.garage.end();
    pause(Duration::from_secs(1));
    stored.garage.begin();
    running.wait().expect(&[0]);
    stored.scene.restart_bare();
    stored.scene.compare("back");
    stored.audit();
}

#[test]
fn packs_go_from_a_folder_to_a_bucket_and_back() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    let local = stored.scene.add_pool("LOCAL", &[]);
    let second = stored.garage.url("site/two");
    stored.scene.server.admin(&["pool", "add", "FAR", &second]);
    stored.scene.server.admin(&["pool", "set", "PRIMARY", "--next", "LOCAL"]);
    stored.scene.server.admin(&["pool", "set", "LOCAL", "--next", "FAR"]);
    stored.scene.backup();
    stored.scene.server.admin(&["pool", "drain", "PRIMARY", "--all"]);
    assert_eq!(stored.scene.pool("PRIMARY")["packs"], 0);
    assert!(has_packs(&local));
    stored.scene.compare("local");
    stored.scene.server.admin(&["pool", "drain", "LOCAL", "--all"]);
    assert!(!has_packs(&local) && stored.scene.pool("FAR")["packs"] != 0);
    stored.scene.restart_bare();
    stored.scene.compare("far");
    stored.scene.server.admin(&["pool", "set", "LOCAL", "--next", ""]);
    stored.scene.server.admin(&["pool", "set", "FAR", "--next", "LOCAL"]);
    stored.scene.server.admin(&["pool", "drain", "FAR", "--all"]);
    stored.scene.server.admin(&["pool", "remove", "FAR"]);
    stored.scene.compare("back");
    // The removed pool leaves nothing that would prevent another pool at the same place.
    stored.scene.server.admin(&["pool", "add", "FAR", &second]);
}

#[test]
fn copies_in_a_bucket_repair_a_folder_and_make_a_lost_server_again() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let scratch = Scratch::new();
    let Some(garage) = Garage::start(&scratch.join("garage")) else { return };
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.backup();
    scene.server.admin(&["pool", "add", "COPIES", &garage.url("copies"), "--copy"]);
    scene.server.admin(&["pool", "copy", "COPIES"]);
    let [pack] = &crate::pools::packs(&scene.primary())[..] else {
        panic!("there should be one pack")
    };
    let right = fs::read(pack).unwrap();
    let mut wrong = right.clone();
    wrong[right.len() / 2] ^= 0x55;
    fs::write(pack, wrong).unwrap();
    scene.compare("from the copy");
    let audit = scene.server.try_admin(&["audit", "--data"]).expect(&[8]).json();
    assert_eq!(audit["damages"][0]["repaired"], true, "{audit}");
    assert!(fs::read(pack).unwrap() == right);
    // The machine is lost. Only the recovery file and the bucket are left.
    let file = scene.recovery_file();
    scene.copy_catalog();
    scene.server.admin(&["pool", "copy", "COPIES"]);
    let (dir, port) = (scene.server.dir().to_owned(), scene.server.port());
    scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    scene.server = Server::start_at(&dir, port);
    scene.compare("recovered");
    drop(scene);
    drop(garage);
}

#[test]
fn a_bucket_is_taken_from_no_server_that_runs() {
    let Some(mut stored) = BucketScene::new(12, 20_000) else { return };
    let scene = &mut stored.scene;
    scene.backup();
    scene.copy_catalog();
    let (file, new) = (scene.recovery_file(), scene.scratch.join("new"));
    recover(&new, &file, &[])
        .expect(&[12])
        .says("another server is using the pool in s3://");
    assert!(!new.try_exists().unwrap(), "nothing is left of it");
    let copy = scene.copy_server("copy");
    let adopted = Server::command(&[OsStr::new("adopt"), copy.as_os_str()]);
    adopted.expect(&[12]).says("another server is using the pool in s3://");
    scene.compare("used");
    // The lease ends while the machine of the server sleeps.
    scene.server.freeze(true);
    recover(&new, &file, &[]).expect(&[0]);
    scene.server.freeze(false);
    scene.server.ends().expect(&[12]).says("belongs to another server now");
    scene.server = Server::start_at(&new, scene.server.port());
    scene.compare("recovered");
    scene.node.verify().expect(&[0]);
    // A server that ends gives its lease back: the one in the next folder need not wait.
    scene.server.terminate().expect(&[0]);
    let next = scene.copy_server("next");
    Server::command(&[OsStr::new("adopt"), next.as_os_str()]).expect(&[0]);
    scene.server = Server::start_at(&next, scene.server.port());
    scene.compare("adopted");
    audit(scene);
}

#[test]
fn many_small_packs_become_few() {
    let Some(mut stored) = BucketScene::new(5, FILE_BYTES) else { return };
    for round in 0..20 {
        plant_files(&stored.scene.tree.join(format!("round-{round}")), 2, FILE_BYTES, round + 2);
        stored.scene.backup();
    }
    let many = stored.scene.pool("PRIMARY")["packs"].as_u64().unwrap();
    assert!(many >= 20, "{many}");
    stored.scene.server.admin(&["reclaim"]);
    let few = stored.scene.pool("PRIMARY")["packs"].as_u64().unwrap();
    assert!(few < many / 2, "{few} of {many}");
    stored.scene.restart_bare();
    stored.scene.compare("few");
    stored.audit();
}

#[test]
fn what_is_no_bucket_is_said() {
    let Some(stored) = BucketScene::new(1, 10) else { return };
    let refused = |arguments: &[&str], why: &str| {
        let outcome = stored.scene.server.try_admin(&[&["pool", "add", "X"], arguments].concat());
        assert_ne!(outcome.code(), 0, "{arguments:?}");
        drop(outcome.says(why));
    };
    refused(&["s3://"], "s3://BUCKET");
    refused(&["s3://a?colour=red"], "colour is not an option");
    let same = |prefix| stored.garage.url_at(stored.proxy.port(), prefix);
    refused(&[&same("site")], "pool PRIMARY");
    refused(&[&same("site/one/more")], "pool PRIMARY");
    refused(&[&stored.garage.url("site/one")], "already has a pool");
    let url = stored.garage.url("x").replace("s3://packs", "s3://none");
    refused(&[&url], "cannot use s3://none");
    let url = stored.garage.url("x").replace("keys", "nokeys");
    refused(&[&url], "nokeys");
    // A new server does not take the pool of another server.
    let other = stored.scene.scratch.join("other");
    let pool = stored.garage.url("site/one");
    let taken = Server::init_with(&other, Server::free_port(), &["--pool", &pool]);
    assert_ne!(taken.code(), 0);
    drop(taken.says("the pool of another server"));
    assert!(!other.try_exists().unwrap());
}
