//! Several pools: a copy pool supplies packs that another pool has lost, a full pool drains to the
//! next, and copies follow reclamation.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::harness::{Outcome, Server, Tmpfs};
use e2e::manifest::assert_same;
use serde_json::Value;

use crate::scene::{Scene, manifest, plant_files};

const FILES: usize = 60;
const FILE_BYTES: usize = 100_000;

/// Returns the paths of the packs in a pool's folder.
pub(crate) fn packs(pool: &Path) -> Vec<PathBuf> {
    let mut packs = Vec::new();
    for folder in fs::read_dir(pool).unwrap().map(|entry| entry.unwrap().path()) {
        if folder.is_dir() {
            packs.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs.sort();
    packs
}

fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

/// Changes a byte in the middle of the file.
fn damage(path: &Path) {
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x55;
    fs::write(path, content).unwrap();
}

impl Scene {
    /// Makes a pool in a new folder.
    #[track_caller]
    pub(crate) fn add_pool(&self, name: &str, options: &[&str]) -> PathBuf {
        let folder = self.scratch.join(name);
        let url = url(&folder);
        self.server.admin(&[&["pool", "add", name, &url], options].concat());
        folder
    }

    pub(crate) fn primary(&self) -> PathBuf {
        self.server.dir().join("pool")
    }

    /// Makes the server copy no catalogue by itself, so that tests can count packs.
    pub(crate) fn copy_no_catalog(&mut self) {
        self.configure("catalog_copy_hours", 0);
    }

    /// Restarts the server with `key` set to `number` in its configuration.
    pub(crate) fn configure(&mut self, key: &str, number: u64) {
        let config = self.server.dir().join("server.toml");
        let own = fs::read_to_string(&config).unwrap();
        let line = own.lines().find(|line| line.starts_with(key)).unwrap();
        let changed = own.replace(line, &format!("{key} = {number}"));
        assert_ne!(changed, own);
        fs::write(&config, changed).unwrap();
        self.server.restart();
    }

    #[track_caller]
    pub(crate) fn pool(&self, name: &str) -> Value {
        let all = self.server.try_admin(&["pool", "list"]).expect(&[0, 8]).json_lines();
        all.into_iter().find(|pool| pool["pool"] == name).unwrap()
    }

    /// Restores the tree below the new folder `name` and compares it.
    #[track_caller]
    pub(crate) fn compare(&self, name: &str) {
        assert_same(&manifest(&self.tree), &manifest(&self.restore(name, &[])));
    }
}

#[test]
fn a_copy_serves_and_repairs_what_the_primary_pool_has_lost() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.backup();
    let copies = scene.add_pool("COPIES", &["--copy"]);
    let lacking = scene.pool("COPIES");
    // An open pack is not counted yet.
    assert_eq!(lacking["missing_packs"], 0, "{lacking}");
    let copied = scene.server.admin(&["pool", "copy", "COPIES"]);
    assert!(copied["bytes_done"].as_u64().unwrap() > (FILES * FILE_BYTES) as u64, "{copied}");
    assert_eq!(scene.server.admin(&["pool", "copy"])["packs"], 0);
    let [pack] = &packs(&scene.primary())[..] else { panic!("there should be one pack") };
    let [copy] = &packs(&copies)[..] else { panic!("there should be one copy") };
    let original = fs::read(pack).unwrap();
    assert!(original == fs::read(copy).unwrap());

    damage(pack);
    scene.compare("from the copy");
    scene.node.verify().expect(&[0]);
    // The server repairs the pack by itself, because the restore has found the damage.
    let mended = (0..600).any(|_| {
        e2e::clock::pause(Duration::from_millis(100));
        fs::read(pack).unwrap() == original
    });
    assert!(mended, "the server should repair the damaged pack");

    // The pack is removed while the server is running, and the audit repairs this too.
    fs::rename(pack, scene.scratch.join("taken")).unwrap();
    let audit = scene.server.try_admin(&["audit"]).expect(&[8]).json();
    assert_eq!(audit["damages"][0]["repaired"], true, "{audit}");
    assert!(fs::read(pack).unwrap() == original);

    damage(pack);
    damage_elsewhere(copy);
    let audit = scene.server.try_admin(&["audit"]).expect(&[8]).json();
    let damages = audit["damages"].as_array().unwrap();
    assert_eq!((damages.len(), &audit["versions_lost"]), (2, &0.into()), "{audit}");
    assert!(damages.iter().all(|damage| damage["repaired"] == true), "{audit}");
    assert!(fs::read(pack).unwrap() == original && fs::read(copy).unwrap() == original);
    assert_eq!(scene.server.admin(&["audit", "--data"])["damages"], Value::Array(vec![]));
    scene.backup().counts(&[("backed_up", 0)]);
    let healed = scene.node.backup(&scene.tree, &["--full"]).expect(&[0]);
    assert!(
        healed.count("bytes_transferred") < FILE_BYTES as u64,
        "the backup should still deduplicate"
    );
}

/// Changes a byte of the file at another place than [`damage`].
fn damage_elsewhere(path: &Path) {
    let mut content = fs::read(path).unwrap();
    content[40] ^= 0x55;
    fs::write(path, content).unwrap();
}

#[test]
fn a_server_whose_primary_pool_is_gone_restores_from_the_copy() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.backup();
    scene.add_pool("COPIES", &["--copy"]);
    scene.server.admin(&["pool", "copy"]);
    scene.server.terminate().expect(&[0]);
    let away = scene.scratch.join("unmounted");
    fs::rename(scene.primary(), &away).unwrap();
    fs::create_dir(scene.primary()).unwrap();
    scene.server.restart();
    assert_eq!(scene.pool("PRIMARY")["available"], false);
    let audit = scene.server.try_admin(&["audit"]).expect(&[8]).json();
    assert_eq!(audit["pools_away"], Value::from(vec!["PRIMARY"]), "{audit}");
    scene.compare("while the disk is away");
    fs::write(scene.file(1), "changed").unwrap();
    let refused = scene.node.backup(&scene.tree, &[]).expect(&[12]);
    assert!(refused.to_string().contains("is not available; mount its disk"), "{refused}");
    assert!(packs(&scene.primary()).is_empty(), "nothing should be written to the mount point");

    // The disk comes back without its packs, and the audit writes them again.
    fs::remove_dir(scene.primary()).unwrap();
    fs::rename(&away, scene.primary()).unwrap();
    let lost = packs(&scene.primary());
    lost.iter().for_each(|pack| fs::remove_file(pack).unwrap());
    scene.server.restart();
    scene
        .server
        .try_admin(&["pool", "set", "PRIMARY", "--replaced"])
        .expect(&[12])
        .says("is available");
    let audit = scene.server.try_admin(&["audit"]).expect(&[8]).json();
    assert_eq!(audit["versions_lost"], 0, "{audit}");
    assert_eq!(packs(&scene.primary()), lost);
    scene.backup().counts(&[("backed_up", 1)]);
    scene.compare("after the repair");

    // The disk is lost, and a new disk takes its place.
    scene.server.admin(&["pool", "copy"]);
    fs::remove_dir_all(scene.primary()).unwrap();
    scene.server.restart();
    scene.server.admin(&["pool", "set", "PRIMARY", "--replaced"]);
    let audit = scene.server.try_admin(&["audit"]).expect(&[8]).json();
    assert_eq!(audit["versions_lost"], 0, "{audit}");
    assert_eq!(packs(&scene.primary()).len(), 2);
    scene.server.admin(&["pool", "remove", "COPIES"]);
    scene.backup().counts(&[("backed_up", 0)]);
    scene.compare("on the new disk");
}

#[test]
fn a_full_pool_hands_on_to_the_next() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    let large = scene.add_pool("LARGE", &[]);
    scene
        .server
        .try_admin(&["pool", "drain", "PRIMARY"])
        .expect(&[12])
        .says("has no next pool");
    scene
        .server
        .admin(&["pool", "set", "PRIMARY", "--next", "LARGE", "--capacity", "7M"]);
    // The first pool has room for a part of the new data only.
    plant_files(&scene.tree.join("more"), FILES, FILE_BYTES, 2);
    scene.backup();
    assert!(scene.pool("PRIMARY")["bytes"].as_u64().unwrap() <= 7 << 20);
    assert!(scene.pool("LARGE")["bytes"].as_u64().unwrap() > 4 << 20);
    scene.compare("from both");
    // Only sealed packs are drained. A restart seals them.
    scene.server.restart();
    scene
        .server
        .admin(&["pool", "set", "PRIMARY", "--high", "80", "--low", "0", "--delay", "3"]);
    let first = scene.server.admin(&["pool", "drain", "PRIMARY"]);
    assert_eq!(first["packs_done"], 1, "the pool should drop below its mark: {first}");
    assert!(packs(&scene.primary()).is_empty() && packs(&large).len() == 2);
    scene.compare("from the next");
    scene.backup().counts(&[("backed_up", 0)]);
    // New data goes to the first pool again, and stays there for the days of `--delay`.
    fs::write(scene.file(3), vec![7; 6_000_000]).unwrap();
    scene.backup();
    scene.server.restart();
    assert_eq!(packs(&scene.primary()).len(), 1);
    scene.server.admin(&["pool", "set", "PRIMARY", "--high", "0"]);
    scene.server.admin(&["pool", "set", "PRIMARY", "--high", "90"]);
    assert_eq!(scene.server.admin(&["pool", "drain", "PRIMARY"])["packs"], 0);
    assert_eq!(scene.server.admin(&["pool", "drain", "PRIMARY", "--all"])["packs_done"], 1);
    scene.compare("all of it moved");
    assert_eq!(scene.server.admin(&["audit", "--data"])["damages"], Value::Array(vec![]));
}

#[test]
fn reclamation_takes_copies_along() {
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.keep_only_active();
    let copies = scene.add_pool("COPIES", &["--copy"]);
    scene.backup();
    scene.server.admin(&["pool", "copy"]);
    let kept_away = scene.scratch.join("elsewhere");
    plant_files(&scene.tree, FILES, FILE_BYTES, 9);
    scene.backup();
    scene.server.admin(&["expire"]);
    scene.server.restart();
    scene.server.admin(&["pool", "copy"]);
    assert_eq!(packs(&copies).len(), 2);
    // The disk with the copies is unavailable while packs are removed.
    fs::rename(&copies, &kept_away).unwrap();
    scene.server.restart();
    let done = scene.server.admin(&["reclaim"]);
    assert_eq!(done["packs_removed"], 1, "{done}");
    fs::rename(&kept_away, &copies).unwrap();
    scene.server.restart();
    scene.server.admin(&["pool", "copy", "COPIES"]);
    assert_eq!(packs(&copies).len(), 1);
    scene.compare("out");
}

#[test]
fn nothing_new_leans_on_what_only_a_copy_pool_still_has() {
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.keep_only_active();
    let copies = scene.add_pool("COPIES", &["--copy"]);
    scene.backup();
    scene.server.admin(&["pool", "copy"]);
    plant_files(&scene.tree, FILES, FILE_BYTES, 9);
    scene.backup();
    scene.server.admin(&["expire"]);
    scene.server.restart();
    assert_eq!(scene.server.admin(&["reclaim"])["packs_removed"], 1);
    assert_eq!(packs(&copies).len(), 1, "the copy should stay until the new packs are copied");
    // The node has grants for chunks of the removed pack, and the server has been restarted since.
    scene.server.restart();
    plant_files(&scene.tree, FILES, FILE_BYTES, 1);
    scene.backup();
    scene.server.admin(&["pool", "copy"]);
    scene.node.verify().expect(&[0]);
    scene.compare("out");
}

#[test]
fn a_disk_with_copies_can_be_taken_away_while_the_server_runs() {
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    let Some(disk) = Tmpfs::mount(&scene.scratch.join("disk"), "size=100m") else {
        e2e::skip::say("this machine cannot mount a tmpfs");
        return;
    };
    let url = url(&disk.path().join("pool"));
    scene.server.admin(&["pool", "add", "SAFE", &url, "--copy"]);
    scene.server.restart();
    scene.backup();
    scene.server.admin(&["pool", "copy"]);
    scene.server.admin(&["audit"]);
    let unmounted = std::process::Command::new("umount").arg(disk.path()).status().unwrap();
    assert!(unmounted.success(), "no file should be open on the disk");
    scene.compare("out");
}

/// Packs that a killed server had left open were sealed by the next start alone. If their disk came
/// back later, an audit called them damaged, and no copy pool got them.
#[test]
fn packs_of_a_killed_server_are_sealed_when_their_disk_is_back() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    let next = scene.add_pool("NEXT", &[]);
    let copies = scene.add_pool("COPIES", &["--copy"]);
    scene.server.admin(&["pool", "set", "PRIMARY", "--next", "NEXT"]);
    scene.backup();
    scene.server.kill9();
    let away = scene.scratch.join("unmounted");
    fs::rename(scene.primary(), &away).unwrap();
    fs::create_dir(scene.primary()).unwrap();
    scene.server.restart();
    plant_files(&scene.tree.join("more"), FILES, FILE_BYTES, 2);
    scene.backup();
    assert!(packs(&scene.primary()).is_empty() && !packs(&next).is_empty());
    fs::remove_dir(scene.primary()).unwrap();
    fs::rename(&away, scene.primary()).unwrap();
    // An audit looks first which pools are there.
    let audit = scene.server.admin(&["audit", "--data"]);
    assert_eq!(audit["damages"], Value::Array(vec![]), "{audit}");
    scene.server.admin(&["pool", "copy"]);
    assert_eq!(packs(&copies).len(), packs(&scene.primary()).len() + packs(&next).len());
    scene.compare("out");
}

#[test]
fn pools_are_refused_where_they_would_lose_something() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let scene = Scene::with_files(3, 1000);
    scene.backup();
    let refused = |words: &[&str], why: &str| {
        let outcome: Outcome = scene.server.try_admin(&[&["pool"], words].concat());
        outcome.expect(&[12]).says(why);
    };
    let used = scene.scratch.folder("used");
    fs::write(used.join("file"), "somebody's").unwrap();
    refused(&["add", "A", &url(&used)], "not empty");
    refused(&["add", "A", "file:relative"], "whole path");
    refused(&["add", "A", "gopher://bucket"], "file:///FOLDER");
    refused(&["add", "a b", &url(&scene.scratch.join("new"))], "cannot be the name of a pool");
    refused(&["add", "PRIMARY", &url(&scene.scratch.join("other"))], "exists already");
    refused(&["add", "A", &url(&scene.primary())], "folder of pool PRIMARY");
    refused(&["add", "A", &url(&scene.primary().join("inner"))], "folder of pool PRIMARY");
    refused(&["remove", "PRIMARY"], "server.toml names it");
    refused(&["remove", "NONE"], "pool list");
    refused(&["set", "PRIMARY"], "give a setting");
    refused(&["set", "PRIMARY", "--low", "95"], "above the high mark");
    refused(&["set", "PRIMARY", "--next", "PRIMARY"], "would come back to it");
    scene.add_pool("SECOND", &["--next", "PRIMARY"]);
    refused(&["set", "PRIMARY", "--next", "SECOND"], "would come back to it");
    refused(&["remove", "PRIMARY"], "cannot be removed");
    scene.add_pool("COPIES", &["--copy"]);
    refused(&["set", "PRIMARY", "--next", "COPIES"], "is a copy pool");
    refused(&["copy", "SECOND"], "not a copy pool");
    refused(&["set", "COPIES", "--capacity", "1G"], "holds every pack");
    scene.server.admin(&["pool", "remove", "SECOND"]);
    scene.server.admin(&["pool", "remove", "COPIES"]);
    // The folder of a removed pool can be a pool again.
    scene.add_pool("COPIES", &["--copy"]);
    scene.compare("out");
    let other = Server::start(&scene.scratch.join("other server"));
    let taken = other.try_admin(&["pool", "add", "A", &url(&scene.scratch.join("COPIES"))]);
    taken.expect(&[12]).says("not empty");
}
