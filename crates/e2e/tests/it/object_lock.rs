//! Pools in Ceph, which locks objects: nobody can remove objects that policy locks, whatever keys
//! they have.

use std::fs;

use e2e::harness::{Ceph, Server, VersionEntry};
use e2e::scratch::Scratch;

use crate::recovery::recover;
use crate::scene::{Scene, plant_files};

const FILES: usize = 40;
const FILE_BYTES: usize = 100_000;

/// A scene whose server has its packs in a bucket of Ceph.
struct CephScene {
    scene: Scene,
    ceph: &'static Ceph,
    bucket: String,
}

impl CephScene {
    /// Makes a scene whose bucket locks objects if `locks` is true; `None` if Ceph is not
    /// installed.
    fn new(locks: bool) -> Option<Self> {
        let ceph = Ceph::shared()?;
        let scratch = Scratch::new();
        let bucket = ceph.add_bucket(locks);
        let lock = if locks { "&lock=compliance" } else { "" };
        let url = format!("{}{lock}", ceph.url(&bucket, "site"));
        let scene = Scene::stored(scratch, &["--pool", &url], FILES, FILE_BYTES);
        Some(Self { scene, ceph, bucket })
    }

    fn packs(&self) -> Vec<VersionEntry> {
        self.ceph.versions(&self.bucket, "site/packs/")
    }

    /// Limits the class STANDARD to one version and to 10 days, and locks the class.
    fn lock_class(&self) {
        let class = ["policy", "class", "STANDARD", "--verexists", "1", "--verdeleted", "1"];
        let days = ["--retextra", "10", "--retonly", "10", "--retver", "20"];
        let lock = ["--lock-until", "2099-01-01"];
        self.scene.server.admin(&[&class[..], &days, &lock].concat());
        self.scene.server.admin(&["policy", "activate", "--confirm"]);
    }

    /// Checks that the version is locked for at least `days` days, and for less than 40 days more.
    #[track_caller]
    fn assert_locked(&self, listed: &VersionEntry, days: i64) {
        let until = self.ceph.locked_until(&self.bucket, listed);
        let until: jiff::Timestamp = until.expect("is locked").parse().expect("a time");
        let locked = (until.as_second() - jiff::Timestamp::now().as_second()) / 86_400;
        assert!((days..days + 40).contains(&locked), "days of the lock: {locked}");
    }

    /// Overwrites every object in the store with other content.
    fn overwrite_all(&self) {
        let noise = self.scene.scratch.join("noise");
        fs::write(&noise, vec![7; 100_000]).unwrap();
        for listed in self.ceph.versions(&self.bucket, "site/") {
            self.ceph.put(&self.bucket, &listed.key, &noise);
        }
    }
}

#[test]
fn a_pool_in_ceph_does_what_every_pool_does() {
    let Some(mut stored) = CephScene::new(false) else { return };
    stored.scene.keep_only_active();
    plant_files(&stored.scene.tree.join("large"), 4, 9 << 20, 3);
    stored.scene.backup();
    stored.scene.restart_bare();
    stored.scene.compare("first");
    fs::remove_dir_all(stored.scene.tree.join("large")).unwrap();
    plant_files(&stored.scene.tree, FILES, FILE_BYTES, 2);
    stored.scene.backup();
    stored.scene.server.admin(&["expire"]);
    let reclaimed = stored.scene.server.admin(&["reclaim"]);
    assert!(reclaimed["packs_removed"].as_u64().unwrap() > 0, "{reclaimed}");
    stored.scene.restart_bare();
    stored.scene.compare("second");
    stored.scene.node.verify().expect(&[0]);
    stored.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn what_a_locked_class_holds_nobody_deletes() {
    let Some(mut stored) = CephScene::new(true) else { return };
    stored.scene.backup();
    let packs = stored.packs();
    assert!(!packs.is_empty());
    assert_eq!(
        stored.ceph.locked_until(&stored.bucket, &packs[0]),
        None,
        "the pack should not be locked yet"
    );
    // `pool lock` locks the objects that exist already.
    stored.lock_class();
    let locked = stored.scene.server.admin(&["pool", "lock"]);
    assert_eq!(locked["packs_done"].as_u64(), Some(packs.len() as u64), "{locked}");
    assert_eq!(locked["failures"].as_array().map(Vec::len), Some(0), "{locked}");
    // New objects are locked before the node is told that they are stored.
    plant_files(&stored.scene.tree.join("more"), 5, FILE_BYTES, 2);
    stored.scene.backup();
    let tree = stored.scene.tree.to_str().unwrap().to_owned();
    plant_files(&stored.scene.tree.join("of the archive"), 5, FILE_BYTES, 3);
    stored.scene.node.run(&["archive", &tree, "--json"]).expect(&[0]);
    stored.scene.backup();
    let packs = stored.packs();
    for pack in &packs {
        stored.assert_locked(pack, 9);
        assert_eq!(stored.ceph.delete(&stored.bucket, &pack.key, Some(&pack.version)), 403);
    }
    // Somebody with the keys deletes one pack and overwrites the next.
    assert_eq!(stored.ceph.delete(&stored.bucket, &packs[0].key, None), 204);
    let noise = stored.scene.scratch.join("noise");
    fs::write(&noise, vec![7; 100_000]).unwrap();
    stored.ceph.put(&stored.bucket, &packs[1].key, &noise);
    stored.scene.restart_bare();
    // A third pack is deleted while the server is running. At its start, the server has already
    // restored the first pack.
    assert_eq!(stored.ceph.delete(&stored.bucket, &packs[2].key, None), 204);
    let audit = stored.scene.server.try_admin(&["audit", "--data"]).expect(&[8]).json_lines();
    let damages = audit[0]["damages"].as_array().expect("damages").clone();
    assert!(
        damages.len() >= 2 && damages.iter().all(|damage| damage["repaired"] == true),
        "{audit:?}"
    );
    stored.scene.restart_bare();
    stored.scene.compare("brought back");
    stored.scene.node.verify().expect(&[0]);
    stored.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn locked_packs_stay_and_others_are_removed() {
    let Some(mut stored) = CephScene::new(true) else { return };
    // While nothing is locked, dead packs are removed with all their versions in the bucket.
    stored.scene.keep_only_active();
    stored.scene.backup();
    fs::remove_dir_all(&stored.scene.tree).unwrap();
    plant_files(&stored.scene.tree, FILES, FILE_BYTES, 2);
    stored.scene.backup();
    let before = stored.packs();
    stored.scene.server.admin(&["expire"]);
    let reclaimed = stored.scene.server.admin(&["reclaim"]);
    let removed = reclaimed["packs_removed"].as_u64().unwrap();
    assert!(removed > 0, "{reclaimed}");
    let after = stored.packs();
    assert_eq!(
        after.len() as u64,
        before.len() as u64 - removed,
        "no older version should stay in the bucket"
    );
    assert!(after.iter().all(|listed| !listed.is_marker));
    // After the lock, no pack is removed before its day.
    stored.lock_class();
    stored.scene.server.admin(&["pool", "lock"]);
    fs::remove_dir_all(&stored.scene.tree).unwrap();
    plant_files(&stored.scene.tree, FILES, FILE_BYTES, 4);
    stored.scene.backup();
    stored.scene.server.admin(&["expire"]);
    let reclaimed = stored.scene.server.admin(&["reclaim"]);
    assert_eq!(reclaimed["packs_removed"], 0, "{reclaimed}");
    assert!(reclaimed["packs_locked"].as_u64().unwrap() > 0, "{reclaimed}");
    assert!(reclaimed["dead_bytes"].as_u64().unwrap() > 1_000_000, "{reclaimed}");
    stored.scene.restart_bare();
    stored.scene.compare("as it is");
    stored.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn a_copy_of_the_catalogue_is_locked_with_what_it_names() {
    let Some(stored) = CephScene::new(true) else { return };
    stored.lock_class();
    stored.scene.backup();
    for _ in 0..12 {
        stored.scene.server.admin(&["catalog", "backup"]);
    }
    stored.scene.server.admin(&["pool", "lock"]);
    let newest = stored.ceph.versions(&stored.bucket, "site/catalogue/").pop().expect("a copy");
    stored.assert_locked(&newest, 29);
    assert_eq!(stored.ceph.delete(&stored.bucket, &newest.key, Some(&newest.version)), 403);
    // Newer copies are made, and this copy stays.
    for _ in 0..12 {
        stored.scene.server.admin(&["catalog", "backup"]);
    }
    let there = stored.ceph.versions(&stored.bucket, "site/catalogue/");
    assert!(there.contains(&newest), "{there:?}");
}

#[test]
fn an_installation_that_somebody_has_destroyed_with_its_keys_is_made_again() {
    let Some(mut stored) = CephScene::new(true) else { return };
    stored.lock_class();
    stored.scene.backup();
    stored.scene.server.admin(&["catalog", "backup"]);
    let file = stored.scene.recovery_file();
    stored.scene.server.admin(&["pool", "lock"]);
    // All versions that are not locked are permanently deleted. The others get a delete marker.
    for listed in stored.ceph.versions(&stored.bucket, "site/") {
        stored.ceph.delete(&stored.bucket, &listed.key, Some(&listed.version));
        stored.ceph.delete(&stored.bucket, &listed.key, None);
    }
    let (dir, port) = (stored.scene.server.dir().to_owned(), stored.scene.server.port());
    stored.scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    stored.scene.server = Server::start_at(&dir, port);
    stored.scene.compare("made again");
    stored.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn an_installation_that_somebody_has_overwritten_is_made_again() {
    let Some(mut stored) = CephScene::new(true) else { return };
    stored.lock_class();
    stored.scene.backup();
    stored.scene.server.admin(&["catalog", "backup"]);
    let file = stored.scene.recovery_file();
    stored.scene.server.admin(&["pool", "lock"]);
    stored.overwrite_all();
    // All data still exists in older versions of the objects. The running server finds them too.
    let audit = stored.scene.server.try_admin(&["audit", "--data"]).expect(&[8]).json_lines();
    let damages = audit[0]["damages"].as_array().expect("damages").clone();
    assert!(!damages.is_empty(), "{audit:?}");
    assert!(damages.iter().all(|damage| damage["repaired"] == true), "{audit:?}");
    stored.scene.compare("audited");
    stored.overwrite_all();
    let (dir, port) = (stored.scene.server.dir().to_owned(), stored.scene.server.port());
    stored.scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    stored.scene.server = Server::start_at(&dir, port);
    stored.scene.server.try_admin(&["audit", "--data"]).expect(&[0, 8]);
    stored.scene.compare("made again");
}

#[test]
fn what_cannot_be_locked_is_not_stored() {
    let Some(mut stored) = CephScene::new(true) else { return };
    stored.lock_class();
    stored.ceph.deny(&stored.bucket, Some("s3:PutObjectRetention"));
    for _ in 0..2 {
        let refused = stored.scene.node.backup(&stored.scene.tree, &[]);
        assert_ne!(refused.code(), 0);
        drop(refused.says("cannot be locked"));
    }
    stored.ceph.deny(&stored.bucket, None);
    stored.scene.backup();
    // The packs of the last backup are locked, whatever packs the two failed backups have left.
    let is_kept = |pack: &&VersionEntry| {
        stored.ceph.delete(&stored.bucket, &pack.key, Some(&pack.version)) == 403
    };
    assert!(stored.packs().iter().filter(is_kept).count() > 0);
    stored.scene.restart_bare();
    stored.scene.compare("locked");
}

#[test]
fn what_is_bound_to_a_locked_class_later_is_locked_then() {
    let Some(stored) = CephScene::new(true) else { return };
    let policy = |words: &[&str]| stored.scene.server.admin(&[&["policy"], words].concat());
    let days = ["--retextra", "50", "--retonly", "50"];
    policy(&[&["class", "LEGAL"], &days[..], &["--lock-until", "2099-01-01"]].concat());
    policy(&["activate", "--confirm"]);
    stored.scene.backup();
    let packs = stored.packs();
    assert!(
        packs
            .iter()
            .all(|pack| stored.ceph.locked_until(&stored.bucket, pack).is_none())
    );
    let list = stored.scene.node.home().join("inclexcl");
    fs::write(&list, format!("include {}/.../* LEGAL\n", stored.scene.tree.display())).unwrap();
    let rebound = stored.scene.backup();
    assert!(rebound.count("rebound") >= FILES as u64, "{rebound}");
    packs.iter().for_each(|pack| stored.assert_locked(pack, 49));
}

#[test]
fn a_bucket_that_does_not_lock_is_refused() {
    let Some(ceph) = Ceph::shared() else { return };
    let scratch = Scratch::new();
    let url = format!("{}&lock=governance", ceph.url(&ceph.add_bucket(false), "site"));
    let (dir, port) = (scratch.join("server"), Server::free_port());
    Server::init_with(&dir, port, &["--pool", &url]).expect(&[0]);
    let refused = Server::try_start_at(&dir, port).expect_err("the server should be refused");
    drop(refused.says("has no object lock"));
    // A server without a pool that locks objects reports this.
    let scene = Scene::new();
    let refused = scene.server.try_admin(&["pool", "lock"]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("no pool locks its objects"));
}
