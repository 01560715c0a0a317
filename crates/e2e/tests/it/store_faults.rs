//! Object stores that are full, unavailable or silent, and object stores that need TLS, a storage
//! class, or keys from other places.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Garage, Node, Outcome, Process, Server, Tls};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;
use serde_json::json;

use crate::buckets::{BucketScene, audit};
use crate::scene::{Scene, manifest, plant_files};

const FILES: usize = 20;
const FILE_BYTES: usize = 100_000;
/// Size of a file whose pack is uploaded in parts.
const LARGE_BYTES: usize = 12 << 20;
/// Time without answers: longer than an attempt takes to fail, and far shorter than the time until
/// the server stops trying.
const SILENCE: Duration = Duration::from_secs(6);

/// Starts a store that clients reach over TLS. Also returns the URL of a pool there, which names no
/// trusted certificates.
fn encrypted(scratch: &Scratch) -> Option<(Garage, Tls, String)> {
    let garage = Garage::start(&scratch.join("garage"))?;
    let tls = Tls::start(garage.port(), &scratch.join("tls"));
    let plain = format!("http://127.0.0.1:{}", garage.port());
    let url = garage.url("site").replace(&plain, &tls.endpoint());
    Some((garage, tls, url))
}

#[test]
fn a_store_with_a_certificate_of_its_own_is_trusted_where_that_is_said() {
    let scratch = Scratch::new();
    let Some((_garage, tls, url)) = encrypted(&scratch) else { return };
    let pool = format!("{url}&ca={}", tls.ca().display());
    let mut scene = Scene::stored(scratch, &["--pool", &pool], FILES, FILE_BYTES);
    plant_files(&scene.tree.join("large"), 2, LARGE_BYTES, 2);
    scene.backup();
    scene.restart_bare();
    scene.compare("out");
    audit(&scene);
}

#[test]
fn a_store_that_nobody_vouches_for_is_refused() {
    let scratch = Scratch::new();
    let Some((_garage, tls, url)) = encrypted(&scratch) else { return };
    let refused = |name: &str, ca: &Path, why: &str| {
        let (dir, pool) = (scratch.join(name), format!("{url}&ca={}", ca.display()));
        let init = Server::init_with(&dir, Server::free_port(), &["--pool", &pool]);
        drop(init.expect(&[12]).says(why));
        assert!(!dir.try_exists().unwrap());
    };
    refused("unread", scratch.path(), "certificates");
    refused("distrusted", &tls.other_ca(), "invalid peer certificate");
}

#[test]
fn objects_are_put_with_the_class_of_their_pool() {
    let Some(stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    let class = "x-amz-storage-class";
    let puts = || {
        let mut heads = stored.proxy.weather().heads();
        // Only requests that make objects are kept: whole uploads, and starts of uploads in parts.
        heads.retain(|head| {
            let first = head.lines().next().unwrap();
            let is_part = first.contains("partNumber=");
            (first.starts_with("PUT ") && !is_part) || first.contains("?uploads")
        });
        heads
    };
    stored.scene.backup();
    let before = puts();
    assert!(!before.is_empty() && before.iter().all(|head| !head.contains(class)), "{before:?}");
    let url = stored.garage.url_at(stored.proxy.port(), "cold") + "&class=STANDARD_IA";
    stored.scene.server.admin(&["pool", "add", "COLD", &url]);
    stored.scene.server.admin(&["pool", "set", "PRIMARY", "--next", "COLD"]);
    plant_files(&stored.scene.tree.join("large"), 2, LARGE_BYTES, 2);
    stored.scene.backup();
    stored.scene.server.admin(&["pool", "drain", "PRIMARY", "--all"]);
    let mut cold = puts();
    cold.retain(|head| head.contains("/packs/cold/"));
    let wanted = format!("{class}: STANDARD_IA");
    assert!(cold.iter().all(|head| head.contains(&wanted)), "{cold:#?}");
    for kind in ["/packs/cold/holdfast-pool", ".pack ", ".pack?uploads"] {
        assert!(cold.iter().any(|head| head.contains(kind)), "{kind}: {cold:#?}");
    }
    stored.scene.compare("out");
}

/// Checks a server in this environment. The URL of its pool does not name keys, except for those in
/// `more`.
fn in_environment(environment: &[String], more: &str, (scratch, garage): (Scratch, &Garage)) {
    let url = garage.url("site");
    let (url, _) = url.split_once("&credentials=").unwrap();
    let url = format!("{url}{more}");
    let tree = scratch.folder("source/tree");
    plant_files(&tree, FILES, FILE_BYTES, 1);
    let server = Server::start_in(environment, &scratch.join("server"), &["--pool", &url]);
    let node = Node::enrol(&server, "anna");
    let mut scene = Scene { server, node, scratch, tree };
    scene.backup();
    scene.restart_bare();
    scene.compare("out");
}

fn wrong(keys: &str) -> String {
    keys.replace("GK01", "GK99")
}

#[test]
fn keys_come_from_the_environment() {
    let scratch = Scratch::new();
    let Some(garage) = Garage::start(&scratch.join("garage")) else { return };
    // The environment takes precedence over the usual file.
    let home = scratch.folder("home/.aws");
    let keys = fs::read_to_string(garage.credentials()).unwrap();
    fs::write(home.join("credentials"), wrong(&keys)).unwrap();
    let mut environment = Garage::variables().to_vec();
    environment.push(format!("HOME={}", scratch.join("home").display()));
    in_environment(&environment, "", (scratch, &garage));
}

#[test]
fn keys_come_from_the_usual_file() {
    let scratch = Scratch::new();
    let Some(garage) = Garage::start(&scratch.join("garage")) else { return };
    let home = scratch.folder("home/.aws");
    fs::copy(garage.credentials(), home.join("credentials")).unwrap();
    let environment = [format!("HOME={}", scratch.join("home").display())];
    in_environment(&environment, "", (scratch, &garage));
}

#[test]
fn keys_come_from_the_file_and_profile_that_the_environment_names() {
    let scratch = Scratch::new();
    let Some(garage) = Garage::start(&scratch.join("garage")) else { return };
    let keys = fs::read_to_string(garage.credentials()).unwrap();
    let both = format!("{}\n{}", wrong(&keys), keys.replace("default", "backup"));
    let file = scratch.join("shared");
    fs::write(&file, both).unwrap();
    let named = format!("AWS_SHARED_CREDENTIALS_FILE={}", file.display());
    in_environment(&[named, "AWS_PROFILE=backup".to_owned()], "", (scratch, &garage));
}

#[test]
fn a_file_that_the_pool_names_goes_before_the_environment() {
    let scratch = Scratch::new();
    let Some(garage) = Garage::start(&scratch.join("garage")) else { return };
    let more = format!("&credentials={}", garage.credentials().display());
    let environment = Garage::variables().map(|variable| wrong(&variable));
    in_environment(&environment, &more, (scratch, &garage));
}

impl BucketScene {
    /// Checks that a backup fails with a message that contains `words`.
    #[track_caller]
    fn refused(&self, words: &[&str]) {
        says(self.scene.node.backup(&self.scene.tree, &[]), words);
    }

    /// Backs up, and checks that a server without its local files restores everything.
    #[track_caller]
    fn finish(&mut self, name: &str) {
        self.scene.backup();
        self.scene.restart_bare();
        self.scene.compare(name);
        audit(&self.scene);
        assert_eq!(self.garage.unfinished_uploads(), 0);
    }

    #[track_caller]
    fn await_pool(&self) {
        let is_there = becomes_true(|| self.scene.pool("PRIMARY")["available"] == true);
        assert!(is_there, "the pool should be available again");
    }

    /// Starts a backup, which then waits for the answer to its first upload in parts.
    fn begin_upload(&self) -> Process {
        let weather = self.proxy.weather();
        let before = weather.heads().len();
        weather.be_silent(true);
        let running = self.scene.node.spawn_backup(&self.scene.tree, &[]);
        let has_begun = (0..2400).any(|_| {
            pause(Duration::from_millis(50));
            weather.heads().iter().skip(before).any(|head| head.contains("?uploads"))
        });
        assert!(has_begun, "the upload has not started");
        running
    }
}

/// Waits, and returns true once `is_so` does.
fn becomes_true(is_so: impl Fn() -> bool) -> bool {
    (0..1800).any(|_| {
        pause(Duration::from_millis(100));
        is_so()
    })
}

#[track_caller]
fn says(outcome: Outcome, words: &[&str]) {
    words.iter().fold(outcome.expect(&[12]), |outcome, word| outcome.says(word));
}

const FULL: [&str; 2] = ["the pool in s3://packs/site/one", "is full"];

#[test]
fn a_full_bucket_refuses_backups_until_there_is_room() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    stored.scene.backup();
    // One backup uploads packs as a whole, the other in parts.
    for (files, bytes) in [(10, FILE_BYTES), (2, LARGE_BYTES)] {
        stored.garage.limit("2500KiB");
        plant_files(&stored.scene.tree.join(format!("more-{bytes}")), files, bytes, 2);
        stored.refused(&FULL);
        stored.scene.node.verify().expect(&[0]);
        stored.garage.limit("none");
        stored.finish(&format!("with {bytes}"));
    }
    stored.garage.limit_objects("1");
    plant_files(&stored.scene.tree.join("last"), 5, FILE_BYTES, 3);
    stored.refused(&FULL);
    stored.garage.limit_objects("none");
    stored.finish("with the last");
}

/// Checks that a bucket that is unavailable for a while loses nothing, and that nothing is regarded
/// as lost.
fn goes_and_comes_back(take_away: impl Fn(&Garage, bool), why: &str) {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    stored.scene.backup();
    stored.scene.restart_bare();
    take_away(&stored.garage, true);
    let out = stored.scene.scratch.folder("away");
    let restored = stored.scene.node.restore(&stored.scene.tree, &out, &[]).expect(&[4]);
    let failures = restored.counts(&[("failed", FILES as u64)]).failures();
    assert!(failures.iter().all(|(_, error)| error.contains(why)), "{failures:?}");
    let audit = stored.scene.server.try_admin(&["audit", "--data"]).expect(&[8]).json();
    assert_eq!((&audit["damages"], &audit["versions_lost"]), (&json!([]), &json!(0)), "{audit}");
    assert_eq!(audit["pools_away"], json!(["PRIMARY"]));
    fs::write(stored.scene.file(3), "changed").unwrap();
    stored.refused(&["s3://packs/site/one", "is not available"]);
    take_away(&stored.garage, false);
    stored.await_pool();
    stored.finish("back");
    plant_files(&stored.scene.tree.join("more"), 3, LARGE_BYTES, 2);
    let running = stored.begin_upload();
    take_away(&stored.garage, true);
    stored.proxy.weather().be_silent(false);
    says(running.wait(), &["cannot be written", "/packs/site/one/", why]);
    take_away(&stored.garage, false);
    stored.await_pool();
    stored.finish("at last");
}

#[test]
fn a_bucket_that_the_key_may_not_use_for_a_while_loses_nothing() {
    goes_and_comes_back(|garage, is_away| garage.open(!is_away), "Operation is not allowed");
}

#[test]
fn a_bucket_that_is_not_found_for_a_while_loses_nothing() {
    goes_and_comes_back(Garage::hide, "Bucket not found");
}

/// Uploads that a killed server had left in a bucket were ended by the next start, and not if the
/// bucket came back later.
#[test]
fn uploads_of_a_killed_server_are_ended_when_their_bucket_is_back() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    stored.scene.backup();
    plant_files(&stored.scene.tree.join("large"), 3, LARGE_BYTES, 2);
    let running = stored.begin_upload();
    stored.scene.server.kill9();
    running.kill9();
    stored.proxy.weather().be_silent(false);
    assert!(becomes_true(|| stored.garage.unfinished_uploads() > 0), "the upload has not begun");
    stored.garage.hide(true);
    stored.scene.server.restart();
    assert_eq!(stored.scene.pool("PRIMARY")["available"], false);
    stored.garage.hide(false);
    stored.await_pool();
    assert!(becomes_true(|| stored.garage.unfinished_uploads() == 0), "the upload is left");
    stored.finish("back");
}

#[test]
fn a_store_that_does_not_answer_is_waited_for() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    stored.scene.backup();
    plant_files(&stored.scene.tree.join("large"), 3, LARGE_BYTES, 2);
    let running = stored.begin_upload();
    assert!(!running.ends_within(SILENCE), "the backup should wait for the store");
    // Meanwhile, `list` works, because it needs only the catalogue.
    assert!(!stored.scene.node.list(&stored.scene.tree, &[]).is_empty());
    stored.proxy.weather().be_silent(false);
    running.wait().expect(&[0]).counts(&[("failed", 0), ("retries", 0)]);
    stored.scene.restart_bare();
    stored.proxy.weather().be_silent(true);
    let out = stored.scene.scratch.folder("slow");
    let running = stored.scene.node.spawn_restore(&stored.scene.tree, &out, &[]);
    assert!(!running.ends_within(SILENCE));
    stored.proxy.weather().be_silent(false);
    running.wait().expect(&[0]).counts(&[("failed", 0)]);
    assert_same(&manifest(&stored.scene.tree), &manifest(&out.join("tree")));
    stored.finish("out");
}

#[test]
fn answers_that_never_come_are_asked_for_again() {
    let Some(mut stored) = BucketScene::new(FILES, FILE_BYTES) else { return };
    plant_files(&stored.scene.tree.join("large"), 3, LARGE_BYTES, 2);
    let running = stored.begin_upload();
    let weather = stored.proxy.weather();
    for _ in 0..5 {
        // The store carries out the request, but its answer is lost.
        weather.be_silent(true);
        pause(Duration::from_millis(700));
        weather.be_down(true);
        weather.be_silent(false);
        pause(Duration::from_millis(100));
        weather.be_down(false);
    }
    running.wait().expect(&[0]).counts(&[("failed", 0)]);
    stored.finish("out");
}
