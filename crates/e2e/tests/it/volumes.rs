//! Pools on volumes: packs are drained to volumes and read back, and volumes are reclaimed and
//! moved.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::harness::{Node, Server};
use serde_json::Value;

use crate::scene::{Scene, plant_files};
use crate::tape::tgt::{self, Tgt};

const FILES: usize = 60;
const FILE_BYTES: usize = 100_000;
/// Capacity of a volume. It is so small that packs continue on a second volume.
const VOLUME: &str = "2M";

impl Scene {
    /// Adds a library of files that stand for tapes, each with room for `capacity`.
    pub(crate) fn add_library(&self, capacity: &str) -> PathBuf {
        let folder = self.scratch.join("tapes");
        let text = folder.display().to_string();
        self.server
            .admin(&["library", "add", "vault", "--folder", &text, "--capacity", capacity]);
        folder
    }

    /// Makes a scene whose packs are only on volumes. Returns it with the folder of the volumes.
    fn drained(capacity: &str) -> (Self, PathBuf) {
        let mut scene = Self::with_files(FILES, FILE_BYTES);
        scene.copy_no_catalog();
        let folder = scene.add_library(capacity);
        scene.add_tape(&[]);
        scene.backup();
        scene.drain();
        (scene, folder)
    }

    /// Stops the server and removes its catalogue.
    fn lose_catalog(&mut self) {
        self.server.terminate().expect(&[0]);
        for path in self.catalog_files() {
            drop(fs::remove_file(path));
        }
    }

    fn catalog_files(&self) -> [PathBuf; 3] {
        ["", "-wal", "-shm"].map(|suffix| self.server.dir().join(format!("catalog.sqlite{suffix}")))
    }

    /// Adds a pool on volumes, to which the first pool drains.
    pub(crate) fn add_tape(&self, options: &[&str]) {
        self.server.admin(&[&["pool", "add", "TAPE", "tape:vault"], options].concat());
        self.server.admin(&["pool", "set", "PRIMARY", "--next", "TAPE"]);
    }

    #[track_caller]
    pub(crate) fn drain(&self) -> Value {
        self.server.admin(&["pool", "drain", "PRIMARY", "--all"])
    }

    #[track_caller]
    fn volumes(&self) -> Vec<Value> {
        self.server.try_admin(&["volume", "list"]).expect(&[0]).json_lines()
    }

    #[track_caller]
    pub(crate) fn volume_names(&self) -> Vec<String> {
        let name = |volume: &Value| volume["volume"].as_str().unwrap().to_owned();
        self.volumes().iter().map(name).collect()
    }

    fn volume(&self, name: &str) -> Value {
        self.server.admin(&["volume", "list", name])
    }
}

/// Damages data after the volume's label. A second call repairs the volume.
fn damage(volume: &Path) {
    let mut content = fs::read(volume).unwrap();
    let at = content.len() / 2;
    content[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(volume, content).unwrap();
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.volume"))
}

#[test]
fn what_was_drained_to_volumes_comes_back() {
    let (mut scene, folder) = Scene::drained(VOLUME);
    assert_eq!(scene.pool("PRIMARY")["packs"], 0);
    assert!(scene.pool("TAPE")["packs"].as_u64().unwrap() > 0);
    let files = fs::read_dir(&folder).unwrap().count();
    assert!(scene.volumes().len() > 1 && files > scene.volumes().len(), "{files}");
    scene.compare("drained");
    // A restarted server reads from the volumes again.
    scene.server.restart();
    scene.compare("restarted");
    // New packs are written after the existing packs, and stored data is not sent again.
    plant_files(&scene.tree.join("more"), 20, FILE_BYTES, 2);
    scene.backup();
    scene.drain();
    scene.compare("more");
}

#[test]
fn a_server_that_was_killed_while_it_drained_goes_on() {
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.add_library(VOLUME);
    scene.add_tape(&[]);
    for round in 0..4 {
        plant_files(&scene.tree.join(format!("round-{round}")), 20, FILE_BYTES, round + 10);
        scene.backup();
        let drain = ["pool", "drain", "PRIMARY", "--all"];
        let running = scene.server.spawn_admin(&drain);
        e2e::clock::pause(std::time::Duration::from_millis(20 * (round + 1)));
        scene.server.kill9();
        drop(running.wait());
        scene.server.restart();
        scene.compare(&format!("killed-{round}"));
    }
    scene.drain();
    assert_eq!(scene.pool("PRIMARY")["packs"], 0);
    scene.compare("drained");
    let audit = scene.server.try_admin(&["audit", "--data"]).expect(&[0]).json_lines();
    assert_eq!(audit[0]["damages"].as_array().map(Vec::len), Some(0), "{audit:?}");
}

#[test]
fn a_second_set_serves_what_the_first_has_lost_and_may_be_offsite() {
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    let folder = scene.add_library(VOLUME);
    scene.add_tape(&[]);
    scene.server.admin(&["pool", "add", "SECOND", "tape:vault", "--copy"]);
    scene.backup();
    scene.drain();
    scene.server.admin(&["pool", "copy", "SECOND"]);
    assert_eq!(scene.pool("SECOND")["missing_packs"], 0);
    let of = |pool: &str| -> Vec<String> {
        let volumes = scene.volumes().into_iter().filter(|volume| volume["pool"] == pool);
        volumes.map(|volume| volume["volume"].as_str().unwrap().to_owned()).collect()
    };
    let (first, second) = (of("TAPE"), of("SECOND"));
    assert!(!first.is_empty() && !second.is_empty());
    damage(&file_of(&folder, &first[0]));
    scene.server.restart();
    scene.compare("from-the-second");
    assert!(scene.volume(&first[0])["errors"].as_u64().unwrap() > 0);
    // Without the second set, files are lost with the damaged volume of the first set.
    let offsite: Vec<&str> = second.iter().map(String::as_str).collect();
    scene
        .server
        .admin(&[&["volume", "offsite", "--location", "bank"], &offsite[..]].concat());
    scene.server.restart();
    let out = scene.scratch.folder("lost");
    let lost = scene.node.restore(&scene.tree, &out, &[]);
    assert_ne!(lost.code(), 0);
    // The second set comes back, and all data moves off the volumes of the first set.
    scene.server.admin(&[&["volume", "onsite"], &offsite[..]].concat());
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    scene.server.admin(&[&["volume", "move"], &first[..]].concat());
    scene.server.restart();
    scene.compare("moved");
    assert_eq!(scene.volume(first[0])["live_bytes"], 0);
}

#[test]
fn damage_on_a_volume_costs_what_it_hits() {
    let (mut scene, folder) = Scene::drained("100M");
    let name = scene.volume_names().remove(0);
    damage(&file_of(&folder, &name));
    scene.server.restart();
    let out = scene.scratch.folder("out");
    let outcome = scene.node.restore(&scene.tree, &out, &[]);
    assert_ne!(outcome.code(), 0);
    let (failed, errors) = (outcome.count("failed"), scene.volume(&name)["errors"].as_u64());
    // A quantum has at most 2 MiB, and a block may hold parts of two quanta. Each file has 100 kB.
    assert!((1..=45).contains(&failed), "number of failed files: {failed}");
    assert!(errors.unwrap() < 10, "{errors:?}");
    let metrics = scene.server.try_admin(&["api", "GET", "/metrics"]).expect(&[0]).stdout;
    let drives = metrics.lines().filter(|line| line.starts_with("holdfast_drive_errors_total{"));
    let at_drives: u64 = drives
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(Some(at_drives), errors, "{metrics}");
    // After the repair, everything is restored.
    damage(&file_of(&folder, &name));
    scene.server.restart();
    scene.compare("whole");
}

#[test]
fn an_audit_of_a_volume_names_what_is_damaged() {
    let (mut scene, folder) = Scene::drained("100M");
    let name = scene.volume_names().remove(0);
    scene.server.try_admin(&["volume", "audit", &name]).expect(&[0]);
    damage(&file_of(&folder, &name));
    let outcome = scene.server.try_admin(&["volume", "audit", &name]);
    assert_ne!(outcome.code(), 0);
    let found = outcome.json_lines().remove(0);
    let reason = found["failures"][0]["reason"].as_str().unwrap();
    assert!(reason.contains(&name) && !reason.contains("again"), "{found}");
    // The second set repairs the volume's data.
    damage(&file_of(&folder, &name));
    scene.server.admin(&["pool", "add", "SECOND", "tape:vault", "--copy"]);
    scene.server.admin(&["pool", "copy", "SECOND"]);
    damage(&file_of(&folder, &name));
    scene.server.restart();
    let outcome = scene.server.try_admin(&["volume", "audit", &name]);
    let found = outcome.json_lines().remove(0);
    assert!(found["failures"][0]["reason"].as_str().unwrap().contains("again"), "{found}");
    assert_eq!(scene.volume(&name)["live_bytes"], 0);
    scene.compare("repaired");
}

#[test]
fn volumes_of_which_little_is_needed_are_emptied_and_used_again() {
    let mut scene = Scene::new();
    scene.copy_no_catalog();
    scene.keep_only_active();
    scene.add_library("3M");
    scene.add_tape(&["--reclaim", "50", "--reuse-delay", "0"]);
    for round in 0..6 {
        let folder = scene.tree.join(format!("round-{round}"));
        plant_files(&folder, 20, FILE_BYTES, round + 1);
        scene.backup();
        scene.drain();
    }
    let before = scene.volumes().len();
    for round in [0, 1, 3, 4] {
        fs::remove_dir_all(scene.tree.join(format!("round-{round}"))).unwrap();
    }
    scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    scene.server.admin(&["expire"]);
    scene.server.admin(&["reclaim"]);
    scene.server.admin(&["volume", "reclaim"]);
    let states: Vec<String> =
        scene.volumes().iter().map(|volume| volume["state"].to_string()).collect();
    let scratch = states.iter().filter(|state| *state == "\"scratch\"").count();
    assert!(scratch >= 2, "{states:?} of {before}");
    scene.compare("reclaimed");
    // Scratch volumes are written before new volumes are made.
    plant_files(&scene.tree.join("later"), 20, FILE_BYTES, 99);
    scene.backup();
    scene.drain();
    assert!(scene.volumes().len() <= states.len(), "{:?}", scene.volumes());
    scene.server.restart();
    scene.compare("later");
}

#[test]
fn a_reclamation_takes_the_name_of_a_pool_or_of_a_volume() {
    let (scene, _) = Scene::drained("100M");
    let name = scene.volume_names().remove(0);
    let reclaim = |name: &str| scene.server.try_admin(&["volume", "reclaim", name]);
    reclaim("tape").expect(&[0]);
    reclaim(&name).expect(&[12]).says(&format!("volume {name} is filling"));
    scene.server.admin(&["volume", "set", "--access", "read-only", &name]);
    reclaim(&name)
        .expect(&[12])
        .says("has 0 % dead data, and is emptied from 60 % on");
    reclaim("NOWHERE").expect(&[12]).says("there is no pool and no volume NOWHERE");
    let of_library = ["volume", "reclaim", "TAPE", "--library", "vault"];
    scene
        .server
        .try_admin(&of_library)
        .expect(&[12])
        .says("there is no volume TAPE");
}

#[test]
fn what_is_dead_within_packs_is_freed_too() {
    let mut scene = Scene::new();
    scene.copy_no_catalog();
    scene.keep_only_active();
    scene.add_library("3M");
    scene.add_tape(&["--reclaim", "40", "--reuse-delay", "0"]);
    plant_files(&scene.tree, 100, FILE_BYTES, 1);
    scene.backup();
    scene.drain();
    let packs = scene.pool("TAPE")["packs"].as_u64().unwrap();
    for index in (0..100).filter(|index| index % 3 != 0) {
        fs::remove_file(scene.file(index)).unwrap();
    }
    scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    scene.server.admin(&["expire"]);
    let live = |scene: &Scene| -> u64 {
        scene
            .volumes()
            .iter()
            .map(|volume| volume["live_bytes"].as_u64().unwrap())
            .sum()
    };
    let before = live(&scene);
    // The first reclamation rewrites the packs, and the second removes the old packs.
    scene.server.admin(&["reclaim"]);
    scene.server.admin(&["reclaim"]);
    scene.drain();
    scene.server.admin(&["volume", "reclaim"]);
    assert!(live(&scene) < before / 2, "live bytes {} of {before}, packs: {packs}", live(&scene));
    scene.server.restart();
    scene.compare("freed");
}

#[test]
fn a_catalogue_that_is_older_than_a_volume_does_not_overwrite_it() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    let folder = scene.add_library("100M");
    scene.add_tape(&[]);
    scene.server.admin(&["volume", "label", "vault", "MINE01"]);
    scene.backup();
    scene.server.terminate().expect(&[0]);
    let files = scene.catalog_files().map(|path| (path.clone(), fs::read(path).ok()));
    scene.server.restart();
    scene.drain();
    scene.server.terminate().expect(&[0]);
    let written = fs::read(file_of(&folder, "MINE01")).unwrap();
    for (path, older) in files {
        drop(fs::remove_file(&path));
        older.into_iter().for_each(|older| fs::write(&path, older).unwrap());
    }
    scene.server.restart();
    plant_files(&scene.tree.join("more"), 5, FILE_BYTES, 5);
    scene.node.backup(&scene.tree, &[]).expect(&[0, 4, 8]);
    drop(scene.server.try_admin(&["pool", "drain", "PRIMARY", "--all"]));
    assert_eq!(fs::read(file_of(&folder, "MINE01")).unwrap(), written);
    assert_eq!(scene.volume("MINE01")["access"], "read-only");
}

#[test]
fn copies_of_the_catalogue_stay_on_disks() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.add_library("100M");
    scene.add_tape(&[]);
    scene.backup();
    scene.drain();
    scene.server.admin(&["catalog", "backup"]);
    scene.drain();
    scene.lose_catalog();
    let dir = scene.server.dir().display().to_string();
    let rebuilt = Server::command(&["rebuild-catalog", &dir]).expect(&[0, 4, 8]).json();
    assert!(rebuilt["copy"].is_u64(), "{rebuilt}");
    scene.server.restart();
    scene.compare("rebuilt");
}

#[test]
fn what_was_drained_since_the_copy_of_the_catalogue_is_taken_in() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.add_library(VOLUME);
    scene.add_tape(&[]);
    scene.backup();
    scene.server.admin(&["catalog", "backup"]);
    scene.drain();
    scene.lose_catalog();
    let dir = scene.server.dir().display().to_string();
    let rebuilt = Server::command(&["rebuild-catalog", &dir]).json();
    assert_ne!(rebuilt["packs_missing"].as_array().unwrap().len(), 0, "{rebuilt}");
    scene.server.restart();
    let volumes = fs::read_dir(scene.scratch.join("tapes")).unwrap();
    let volumes = volumes.filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        Some(name.strip_suffix(".volume")?.to_owned())
    });
    let volumes: Vec<String> = volumes.collect();
    let names: Vec<&str> = volumes.iter().map(String::as_str).collect();
    // An import of one volume alone fails.
    let part = scene.server.try_admin(&["volume", "import", "vault", names[0]]);
    assert_ne!(part.code(), 0);
    scene.server.admin(&[&["volume", "import", "vault"], &names[..]].concat());
    scene.server.admin(&["reclaim", "--release"]);
    scene.compare("taken-in");
    // A second import has nothing to do.
    let again = scene.server.admin(&[&["volume", "import", "vault"], &names[..]].concat());
    assert_eq!(again["packs"], 0, "{again}");
    scene.backup();
    scene.drain();
    scene.server.restart();
    scene.compare("goes-on");
}

#[test]
fn an_import_makes_nothing_scratch_and_brings_nothing_dead_back() {
    let mut scene = Scene::with_files(20, FILE_BYTES);
    scene.copy_no_catalog();
    scene.keep_only_active();
    let folder = scene.add_library("100M");
    scene.add_tape(&["--reuse-delay", "0"]);
    scene.backup();
    scene.drain();
    let name = scene.volume_names().remove(0);
    // This volume belongs to another server, and has a name that this server does not use.
    let other = Scene::with_files(20, FILE_BYTES);
    let theirs = other.add_library("100M");
    other.server.admin(&["volume", "label", "vault", "THEIRS"]);
    other.add_tape(&[]);
    other.backup();
    other.drain();
    let foreign = fs::read(file_of(&theirs, "THEIRS")).unwrap();
    fs::write(file_of(&folder, "THEIRS"), &foreign).unwrap();
    scene.server.admin(&["volume", "import", "vault", "THEIRS"]);
    assert_eq!(scene.volume("THEIRS")["state"], "full");
    // Scratch volumes are not imported.
    fs::remove_dir_all(scene.tree.join("folder-00")).unwrap();
    scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    scene.server.admin(&["expire"]);
    scene.server.admin(&["reclaim"]);
    scene.server.admin(&["volume", "reclaim"]);
    assert_eq!(scene.volume(&name)["state"], "scratch");
    let refused = scene.server.try_admin(&["volume", "import", "vault", &name]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("scratch"));
    plant_files(&scene.tree, 20, FILE_BYTES, 9);
    scene.backup();
    scene.drain();
    assert_eq!(fs::read(file_of(&folder, "THEIRS")).unwrap(), foreign);
    scene.server.restart();
    scene.compare("goes-on");
}

#[test]
fn who_drains_a_damaged_pack_does_not_wait_for_his_own_drive() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.configure("stage_bytes", 0);
    scene.add_library("100M");
    scene.server.admin(&["library", "set", "vault", "--mounts", "1"]);
    scene.add_tape(&[]);
    scene.server.admin(&["pool", "add", "SECOND", "tape:vault", "--copy"]);
    scene.backup();
    scene.server.admin(&["pool", "copy", "SECOND"]);
    let pack = crate::pools::packs(&scene.primary()).remove(0);
    damage(&pack);
    // The second set supplies the data that the disk has lost.
    scene.drain();
    assert_eq!(scene.pool("PRIMARY")["packs"], 0);
    scene.server.restart();
    scene.compare("repaired");
}

#[test]
fn one_drive_copies_from_volumes_to_volumes() {
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.copy_no_catalog();
    scene.add_library(VOLUME);
    scene.server.admin(&["library", "set", "vault", "--mounts", "1"]);
    scene.add_tape(&[]);
    scene.backup();
    scene.drain();
    scene.configure("stage_bytes", 0);
    scene.server.admin(&["pool", "add", "SECOND", "tape:vault", "--copy"]);
    scene.server.admin(&["pool", "copy", "SECOND"]);
    assert_eq!(scene.pool("SECOND")["missing_packs"], 0);
    scene.compare("copied");
}

#[test]
fn a_volume_that_cannot_be_had_holds_nobody_up() {
    let (mut scene, folder) = Scene::drained("100M");
    let name = scene.volume_names().remove(0);
    let path = file_of(&folder, &name);
    let whole = fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn[20..200].fill(0);
    fs::write(&path, torn).unwrap();
    scene.server.restart();
    let out = scene.scratch.folder("lost");
    assert_ne!(scene.node.restore(&scene.tree, &out, &[]).code(), 0);
    assert_eq!(scene.volume(&name)["access"], "unavailable");
    // Later data goes to another volume.
    plant_files(&scene.tree.join("more"), 20, FILE_BYTES, 3);
    scene.backup();
    scene.drain();
    fs::write(&path, whole).unwrap();
    scene.server.admin(&["volume", "set", &name, "--access", "read-write"]);
    scene.compare("found");
}

#[test]
fn what_an_administrator_says_while_a_volume_is_written_holds() {
    let mut scene = Scene::with_files(300, FILE_BYTES);
    scene.copy_no_catalog();
    scene.add_library("8M");
    scene.add_tape(&[]);
    scene.server.admin(&["volume", "label", "vault", "MINE01"]);
    scene.backup();
    let running = scene.server.spawn_admin(&["pool", "drain", "PRIMARY", "--all"]);
    scene.server.admin(&["volume", "set", "MINE01", "--access", "read-only"]);
    running.wait().expect(&[0]);
    assert_eq!(scene.volume("MINE01")["access"], "read-only");
    scene.compare("drained");
}

#[test]
fn a_volume_of_the_same_name_is_another_one() {
    let mut scene = Scene::with_files(20, FILE_BYTES);
    scene.copy_no_catalog();
    scene.configure("stage_bytes", 0);
    scene.add_library("100M");
    scene.add_tape(&[]);
    scene.backup();
    scene.drain();
    let name = scene.volume_names().remove(0);
    scene.compare("first");
    scene.server.admin(&["volume", "label", "vault", "OTHER1"]);
    scene.server.admin(&["volume", "set", &name, "--access", "read-only"]);
    scene.server.admin(&["volume", "move", &name]);
    scene.server.admin(&["volume", "remove", &name]);
    scene.server.admin(&["volume", "label", "vault", &name]);
    scene.server.admin(&["volume", "set", "OTHER1", "--access", "read-only"]);
    scene.server.admin(&["volume", "move", "OTHER1"]);
    assert!(scene.volume(&name)["live_bytes"].as_u64().unwrap() > 0);
    scene.compare("again");
}

#[test]
fn nodes_that_are_to_lie_apart_do() {
    let mut scene = Scene::with_files(20, FILE_BYTES);
    scene.copy_no_catalog();
    scene.add_library("100M");
    scene.add_tape(&["--collocate", "group"]);
    let second = Node::enrol(&scene.server, "berta");
    let third = Node::enrol(&scene.server, "clara");
    for node in ["berta", "clara"] {
        scene.server.admin(&["node", "set", node, "--collocation-group", "guests"]);
    }
    scene.backup();
    for (node, seed) in [(&second, 7), (&third, 8)] {
        let tree = scene.scratch.folder(&format!("source-{seed}/tree"));
        plant_files(&tree, 20, FILE_BYTES, seed);
        node.backup(&tree, &[]).expect(&[0]);
    }
    scene.drain();
    let mut groups: Vec<String> = scene
        .volumes()
        .iter()
        .map(|volume| volume["group"].as_str().unwrap().to_owned())
        .collect();
    groups.sort();
    assert_eq!(groups, ["anna", "guests"]);
    scene.compare("apart");
}

#[test]
fn what_makes_no_sense_is_said() {
    let scene = Scene::new();
    let refused = |words: &[&str], expected: &str| {
        let outcome = scene.server.try_admin(words);
        assert_ne!(outcome.code(), 0, "{words:?}");
        drop(outcome.says(expected));
    };
    refused(&["pool", "add", "TAPE", "tape:vault"], "there is no library vault");
    refused(&["library", "add", "vault", "--folder", "relative"], "relative");
    let folder = scene.add_library(VOLUME);
    refused(&["library", "add", "VAULT", "--folder", folder.to_str().unwrap()], "already");
    scene.server.admin(&["pool", "add", "TAPE", "tape:vault"]);
    refused(&["library", "remove", "vault"], "TAPE");
    refused(&["pool", "set", "PRIMARY", "--collocate", "node"], "on volumes");
    refused(&["volume", "move", "NONE01"], "no volume NONE01");
    refused(&["library", "checkin", "vault"], "no changer");
    refused(&["volume", "label", "vault"], "give the names of the volumes");
    scene.server.admin(&["volume", "label", "vault", "MINE01"]);
    refused(&["volume", "label", "vault", "MINE01"], "labelled");
    scene.server.admin(&["volume", "set", "MINE01", "--access", "read-only"]);
    scene.server.admin(&["volume", "remove", "MINE01"]);
    assert!(!file_of(&folder, "MINE01").try_exists().unwrap());
    // A foreign file of that name is not changed.
    fs::write(file_of(&folder, "THEIRS"), b"not a volume").unwrap();
    refused(&["volume", "label", "vault", "THEIRS"], "THEIRS");
    assert_eq!(fs::read(file_of(&folder, "THEIRS")).unwrap(), b"not a volume");
    scene.server.admin(&["pool", "remove", "TAPE"]);
    scene.server.admin(&["library", "remove", "vault"]);
}

/// Makes a scene with the virtual library of `tgt`, and labels all its tapes.
fn with_tgt() -> Option<(Scene, Tgt)> {
    let tgt = Tgt::start()?;
    let mut scene = Scene::with_files(200, FILE_BYTES);
    scene.copy_no_catalog();
    let (changer, first, second) = (tgt.address(4), tgt.address(1), tgt.address(2));
    let drives = ["--drive", &first, "--drive", &second];
    let add = ["library", "add", "vault", "--changer", &changer];
    scene.server.admin(&[&add[..], &drives].concat());
    let labelled = scene.server.try_admin(&["volume", "label", "vault"]).expect(&[0]).json_lines();
    assert_eq!(labelled.len(), tgt::TAPES.len(), "{labelled:?}");
    scene.add_tape(&[]);
    Some((scene, tgt))
}

#[test]
fn a_real_changer_and_its_drives_serve_a_pool() {
    let Some((mut scene, tgt)) = with_tgt() else { return };
    scene.backup();
    scene.drain();
    assert_eq!(scene.pool("PRIMARY")["packs"], 0);
    let used = scene.volumes().iter().filter(|volume| volume["pool"] == "TAPE").count();
    assert!(used >= 2, "{:?}", scene.volumes());
    scene.compare("drained");
    // After a server dies, the next server removes its volumes from the drives.
    scene.server.kill9();
    scene.server.restart();
    scene.compare("killed");
    let shown = scene.server.admin(&["library", "show", "vault"]);
    assert_eq!(shown["drives"].as_array().unwrap().len(), 2, "{shown}");
    // Meanwhile, the `tape` commands cannot use the library.
    let changer = tgt.address(4);
    let (first, second) = (tgt.address(1), tgt.address(2));
    let add = ["tape", "add", "mine", "--changer", &changer];
    let drives = ["--drive", &first, "--drive", &second];
    scene.node.run(&[&add[..], &drives].concat()).expect(&[0]);
    let refused = scene.node.run(&["tape", "inventory", "mine"]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("in use by another process"));
}

#[test]
fn a_tape_goes_offsite_and_comes_back() {
    let Some((mut scene, _tgt)) = with_tgt() else { return };
    scene.configure("stage_bytes", 0);
    plant_files(&scene.tree, 60, FILE_BYTES, 1);
    scene.backup();
    scene.drain();
    let of_pool = scene.volumes().into_iter().filter(|volume| volume["pool"] == "TAPE");
    let names: Vec<String> =
        of_pool.map(|volume| volume["volume"].as_str().unwrap().to_owned()).collect();
    let name = names[0].as_str();
    // A volume in a drive is dismounted first.
    scene.server.admin(&["volume", "offsite", name, "--location", "bank"]);
    let shown = scene.server.admin(&["library", "show", "vault"]);
    let portal =
        |element: &&Value| element["kind"] == "import/export" && element["barcode"] == name;
    assert!(shown["elements"].as_array().unwrap().iter().any(|e| portal(&e)), "{shown}");
    let out = scene.scratch.folder("away");
    let lost = scene.node.restore(&scene.tree, &out, &[]);
    assert_ne!(lost.code(), 0);
    drop(lost.says("offsite"));
    scene.server.admin(&["volume", "onsite", name]);
    scene.compare("back");
}

#[test]
fn without_a_scratch_tape_a_drain_stops_and_goes_on_later() {
    let Some((scene, _tgt)) = with_tgt() else { return };
    for name in &tgt::TAPES[1..] {
        scene.server.admin(&["volume", "set", name, "--access", "read-only"]);
    }
    scene.backup();
    let stopped = scene.server.try_admin(&["pool", "drain", "PRIMARY", "--all"]);
    assert_ne!(stopped.code(), 0);
    drop(stopped.says("no volume left to write"));
    scene.compare("stopped");
    for name in &tgt::TAPES[1..] {
        scene.server.admin(&["volume", "set", name, "--access", "read-write"]);
    }
    scene.drain();
    assert_eq!(scene.pool("PRIMARY")["packs"], 0);
    scene.compare("drained");
}
