//! Pools in Ceph, which locks objects: what policy locks nobody takes away, whatever keys he has.

use std::fs;

use e2e::harness::{Ceph, Listed, Server};
use e2e::scratch::Scratch;

use crate::recovery::recover;
use crate::scene::{Scene, plant_files};

const FILES: usize = 40;
const FILE_BYTES: usize = 100_000;

/// A server whose packs are in a bucket of Ceph's.
struct Site {
    scene: Scene,
    ceph: &'static Ceph,
    bucket: String,
}

impl Site {
    /// Makes a site whose bucket locks objects if `locks` is set; `None` if there is no Ceph.
    fn new(locks: bool) -> Option<Self> {
        let ceph = Ceph::shared()?;
        let scratch = Scratch::new();
        let bucket = ceph.add_bucket(locks);
        let lock = if locks { "&lock=compliance" } else { "" };
        let url = format!("{}{lock}", ceph.url(&bucket, "site"));
        let scene = Scene::stored(scratch, &["--pool", &url], FILES, FILE_BYTES);
        Some(Self { scene, ceph, bucket })
    }

    fn packs(&self) -> Vec<Listed> {
        self.ceph.versions(&self.bucket, "site/packs/")
    }

    /// Makes the class keep old versions by number, lock everything that it keeps, and drop old
    /// versions.
    fn lock_class(&self) {
        let class = ["policy", "class", "STANDARD", "--verexists", "1", "--verdeleted", "1"];
        let days = ["--retextra", "10", "--retonly", "10", "--retver", "20"];
        let lock = ["--lock-until", "2099-01-01"];
        self.scene.server.admin(&[&class[..], &days, &lock].concat());
        self.scene.server.admin(&["policy", "activate", "--confirm"]);
    }

    /// The version is locked for so many days at least, and not for so many more.
    #[track_caller]
    fn assert_locked(&self, listed: &Listed, days: i64) {
        let until = self.ceph.locked_until(&self.bucket, listed);
        let until: jiff::Timestamp = until.expect("is locked").parse().expect("a time");
        let locked = (until.as_second() - jiff::Timestamp::now().as_second()) / 86_400;
        assert!((days..days + 40).contains(&locked), "{locked} days");
    }

    /// Puts something else above all that the store has.
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
    let Some(mut site) = Site::new(false) else { return };
    site.scene.keep_only_active();
    plant_files(&site.scene.tree.join("large"), 4, 9 << 20, 3);
    site.scene.backup();
    site.scene.restart_bare();
    site.scene.compare("first");
    fs::remove_dir_all(site.scene.tree.join("large")).unwrap();
    plant_files(&site.scene.tree, FILES, FILE_BYTES, 2);
    site.scene.backup();
    site.scene.server.admin(&["expire"]);
    let reclaimed = site.scene.server.admin(&["reclaim"]);
    assert!(reclaimed["packs_removed"].as_u64().unwrap() > 0, "{reclaimed}");
    site.scene.restart_bare();
    site.scene.compare("second");
    site.scene.node.verify().expect(&[0]);
    site.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn what_a_locked_class_holds_nobody_deletes() {
    let Some(mut site) = Site::new(true) else { return };
    site.scene.backup();
    let packs = site.packs();
    assert!(!packs.is_empty());
    assert_eq!(site.ceph.locked_until(&site.bucket, &packs[0]), None, "nothing says so yet");
    // Objects that exist already are locked when a server asks for it.
    site.lock_class();
    let locked = site.scene.server.admin(&["pool", "lock"]);
    assert_eq!(locked["packs_done"].as_u64(), Some(packs.len() as u64), "{locked}");
    assert_eq!(locked["failures"].as_array().map(Vec::len), Some(0), "{locked}");
    // And what comes is locked before the node hears that it is stored.
    plant_files(&site.scene.tree.join("more"), 5, FILE_BYTES, 2);
    site.scene.backup();
    let tree = site.scene.tree.to_str().unwrap().to_owned();
    plant_files(&site.scene.tree.join("of the archive"), 5, FILE_BYTES, 3);
    site.scene.node.run(&["archive", &tree, "--json"]).expect(&[0]);
    site.scene.backup();
    let packs = site.packs();
    for pack in &packs {
        site.assert_locked(pack, 9);
        assert_eq!(site.ceph.delete(&site.bucket, &pack.key, Some(&pack.version)), 403);
    }
    // Somebody with the keys deletes one and puts something else over the next.
    assert_eq!(site.ceph.delete(&site.bucket, &packs[0].key, None), 204);
    let noise = site.scene.scratch.join("noise");
    fs::write(&noise, vec![7; 100_000]).unwrap();
    site.ceph.put(&site.bucket, &packs[1].key, &noise);
    site.scene.restart_bare();
    // And one more while the server runs, which has brought back the first one as it started.
    assert_eq!(site.ceph.delete(&site.bucket, &packs[2].key, None), 204);
    let audit = site.scene.server.try_admin(&["audit", "--data"]).expect(&[8]).json_lines();
    let damages = audit[0]["damages"].as_array().expect("damages").clone();
    assert!(
        damages.len() >= 2 && damages.iter().all(|damage| damage["repaired"] == true),
        "{audit:?}"
    );
    site.scene.restart_bare();
    site.scene.compare("brought back");
    site.scene.node.verify().expect(&[0]);
    site.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn locked_packs_stay_and_others_go_for_good() {
    let Some(mut site) = Site::new(true) else { return };
    // Before anything is locked what is dead goes, with all versions that the bucket has of it.
    site.scene.keep_only_active();
    site.scene.backup();
    fs::remove_dir_all(&site.scene.tree).unwrap();
    plant_files(&site.scene.tree, FILES, FILE_BYTES, 2);
    site.scene.backup();
    let before = site.packs();
    site.scene.server.admin(&["expire"]);
    let reclaimed = site.scene.server.admin(&["reclaim"]);
    let removed = reclaimed["packs_removed"].as_u64().unwrap();
    assert!(removed > 0, "{reclaimed}");
    let after = site.packs();
    assert_eq!(after.len() as u64, before.len() as u64 - removed, "nothing lies beneath");
    assert!(after.iter().all(|listed| !listed.is_marker));
    // Then nothing goes before its day.
    site.lock_class();
    site.scene.server.admin(&["pool", "lock"]);
    fs::remove_dir_all(&site.scene.tree).unwrap();
    plant_files(&site.scene.tree, FILES, FILE_BYTES, 4);
    site.scene.backup();
    site.scene.server.admin(&["expire"]);
    let reclaimed = site.scene.server.admin(&["reclaim"]);
    assert_eq!(reclaimed["packs_removed"], 0, "{reclaimed}");
    assert!(reclaimed["packs_locked"].as_u64().unwrap() > 0, "{reclaimed}");
    assert!(reclaimed["dead_bytes"].as_u64().unwrap() > 1_000_000, "{reclaimed}");
    site.scene.restart_bare();
    site.scene.compare("as it is");
    site.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn a_copy_of_the_catalogue_is_locked_with_what_it_names() {
    let Some(site) = Site::new(true) else { return };
    site.lock_class();
    site.scene.backup();
    for _ in 0..12 {
        site.scene.server.admin(&["catalog", "backup"]);
    }
    site.scene.server.admin(&["pool", "lock"]);
    let newest = site.ceph.versions(&site.bucket, "site/catalogue/").pop().expect("a copy");
    site.assert_locked(&newest, 29);
    assert_eq!(site.ceph.delete(&site.bucket, &newest.key, Some(&newest.version)), 403);
    // Newer ones come, and this one stays.
    for _ in 0..12 {
        site.scene.server.admin(&["catalog", "backup"]);
    }
    let there = site.ceph.versions(&site.bucket, "site/catalogue/");
    assert!(there.contains(&newest), "{there:?}");
}

#[test]
fn a_site_that_somebody_has_destroyed_with_its_keys_is_made_again() {
    let Some(mut site) = Site::new(true) else { return };
    site.lock_class();
    site.scene.backup();
    site.scene.server.admin(&["catalog", "backup"]);
    let file = site.scene.recovery_file();
    site.scene.server.admin(&["pool", "lock"]);
    // All that the store lets go is deleted for good, and the rest as far as it can be.
    for listed in site.ceph.versions(&site.bucket, "site/") {
        site.ceph.delete(&site.bucket, &listed.key, Some(&listed.version));
        site.ceph.delete(&site.bucket, &listed.key, None);
    }
    let (dir, port) = (site.scene.server.dir().to_owned(), site.scene.server.port());
    site.scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    site.scene.server = Server::start_at(&dir, port);
    site.scene.compare("made again");
    site.scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
}

#[test]
fn a_site_that_somebody_has_overwritten_is_made_again() {
    let Some(mut site) = Site::new(true) else { return };
    site.lock_class();
    site.scene.backup();
    site.scene.server.admin(&["catalog", "backup"]);
    let file = site.scene.recovery_file();
    site.scene.server.admin(&["pool", "lock"]);
    site.overwrite_all();
    // It is all there beneath: found while the server runs, too, whatever it keeps itself.
    let audit = site.scene.server.try_admin(&["audit", "--data"]).expect(&[8]).json_lines();
    let damages = audit[0]["damages"].as_array().expect("damages").clone();
    assert!(!damages.is_empty(), "{audit:?}");
    assert!(damages.iter().all(|damage| damage["repaired"] == true), "{audit:?}");
    site.scene.compare("audited");
    site.overwrite_all();
    let (dir, port) = (site.scene.server.dir().to_owned(), site.scene.server.port());
    site.scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    site.scene.server = Server::start_at(&dir, port);
    site.scene.server.try_admin(&["audit", "--data"]).expect(&[0, 8]);
    site.scene.compare("made again");
}

#[test]
fn what_cannot_be_locked_is_not_stored() {
    let Some(mut site) = Site::new(true) else { return };
    site.lock_class();
    site.ceph.deny(&site.bucket, Some("s3:PutObjectRetention"));
    for _ in 0..2 {
        let refused = site.scene.node.backup(&site.scene.tree, &[]);
        assert_ne!(refused.code(), 0);
        drop(refused.says("cannot be locked"));
    }
    site.ceph.deny(&site.bucket, None);
    site.scene.backup();
    // All that it needs is locked, whatever is there of the two that failed.
    let is_kept =
        |pack: &&Listed| site.ceph.delete(&site.bucket, &pack.key, Some(&pack.version)) == 403;
    assert!(site.packs().iter().filter(is_kept).count() > 0);
    site.scene.restart_bare();
    site.scene.compare("locked");
}

#[test]
fn what_is_bound_to_a_locked_class_later_is_locked_then() {
    let Some(site) = Site::new(true) else { return };
    let policy = |words: &[&str]| site.scene.server.admin(&[&["policy"], words].concat());
    let days = ["--retextra", "50", "--retonly", "50"];
    policy(&[&["class", "LEGAL"], &days[..], &["--lock-until", "2099-01-01"]].concat());
    policy(&["activate", "--confirm"]);
    site.scene.backup();
    let packs = site.packs();
    assert!(packs.iter().all(|pack| site.ceph.locked_until(&site.bucket, pack).is_none()));
    let list = site.scene.node.home().join("inclexcl");
    fs::write(&list, format!("include {}/.../* LEGAL\n", site.scene.tree.display())).unwrap();
    let rebound = site.scene.backup();
    assert!(rebound.count("rebound") >= FILES as u64, "{rebound}");
    packs.iter().for_each(|pack| site.assert_locked(pack, 49));
}

#[test]
fn a_bucket_that_does_not_lock_is_not_taken_for_one_that_does() {
    let Some(ceph) = Ceph::shared() else { return };
    let scratch = Scratch::new();
    let url = format!("{}&lock=governance", ceph.url(&ceph.add_bucket(false), "site"));
    let (dir, port) = (scratch.join("server"), Server::free_port());
    Server::init_with(&dir, port, &["--pool", &url]).expect(&[0]);
    let refused = Server::try_start_at(&dir, port).expect_err("it starts");
    drop(refused.says("has no object lock"));
    // And where no pool locks, that is said too.
    let scene = Scene::new();
    let refused = scene.server.try_admin(&["pool", "lock"]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("no pool locks its objects"));
}
