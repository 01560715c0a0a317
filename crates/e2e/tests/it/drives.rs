//! Drives of a virtual library behind a network: connections that are cut, restarts of the server,
//! and several drives that write at once.

use std::time::Duration;

use e2e::harness::{Node, Proxy};
use serde_json::Value;

use crate::scene::{Scene, plant_files};
use crate::tape::tgt::{self, Tgt};

const FILE_BYTES: usize = 100_000;
const LOOK: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 3600;

/// A server whose library is behind a proxy, with labelled tapes. The fields are dropped in their
/// order: the server before its library.
struct Remote {
    scene: Scene,
    proxy: Proxy,
    tgt: Tgt,
}

impl Remote {
    fn new(options: &[&str]) -> Option<Self> {
        let tgt = Tgt::start()?;
        let proxy = Proxy::start(tgt.port());
        let mut scene = Scene::with_files(100, FILE_BYTES);
        scene.copy_no_catalog();
        let address =
            |lun: u16| format!("iscsi://127.0.0.1:{}/{}/{lun}", proxy.port(), tgt::TARGET);
        let (changer, first, second) = (address(4), address(1), address(2));
        let devices = ["--changer", &changer, "--drive", &first, "--drive", &second];
        scene.server.admin(&[&["library", "add", "vault"], &devices[..]].concat());
        let labelled = scene.server.try_admin(&["volume", "label", "vault"]);
        assert_eq!(labelled.expect(&[0]).json_lines().len(), tgt::TAPES.len());
        scene.add_tape(options);
        Some(Self { scene, proxy, tgt })
    }

    fn library(&self) -> Value {
        self.scene.server.admin(&["library", "show", "vault"])
    }

    /// Returns the states of the drives.
    fn states(&self) -> Vec<String> {
        let drives = self.library()["drives"].as_array().unwrap().clone();
        drives.iter().map(|drive| drive["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the volumes in the drives.
    fn in_drives(&self) -> Vec<Value> {
        let drives = self.library()["drives"].as_array().unwrap().clone();
        drives.iter().map(|drive| drive["volume"].clone()).collect()
    }

    #[track_caller]
    fn wait_for(&self, what: &str, ready: impl Fn() -> bool) {
        for _ in 0..LOOKS_MAX {
            if ready() {
                return;
            }
            e2e::clock::pause(LOOK);
        }
        panic!("the wait was too long for: {what}; {}", self.library());
    }

    /// Empties the stage, so that everything is read from volumes again.
    fn empty_stage(&mut self) {
        self.scene.server.restart();
    }

    /// Checks that no volume has failed and that each pack is on volumes once.
    #[track_caller]
    fn expect_unharmed(&mut self) {
        let volumes = self.scene.server.try_admin(&["volume", "list"]).expect(&[0]).json_lines();
        for volume in &volumes {
            assert_eq!((&volume["errors"], &volume["access"]), (&0.into(), &"read-write".into()));
            assert_eq!(volume["written_bytes"], volume["live_bytes"], "{volume}");
        }
        let used = volumes.iter().filter(|volume| volume["pool"] == "TAPE");
        let used: Vec<String> =
            used.map(|volume| volume["volume"].as_str().unwrap().to_owned()).collect();
        self.scene.server.terminate().expect(&[0]);
        let address = |lun: u16| self.tgt.address(lun);
        let devices = [address(4), address(1), address(2)].join(",");
        let words = ["tape", "read", &devices, &used.join(","), "--list", "--json"];
        let listed = self.scene.node.run(&words).expect(&[0]).json_lines();
        // A part that follows on the next volume has another state.
        let mut names: Vec<String> = listed
            .iter()
            .filter(|piece| piece["state"] == "whole" || piece["state"] == "beginning")
            .map(|piece| piece["name"].to_string())
            .collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "a pack was written twice: {listed:?}");
    }
}

/// A cut of the connection gave EIO until the server was restarted, and a cut while a volume was
/// written made the volume read-only.
#[test]
fn cuts_of_all_lines_are_not_noticed_by_those_who_write_and_read() {
    let Some(mut remote) = Remote::new(&[]) else { return };
    remote.scene.backup();
    remote.proxy.weather().delay(Duration::from_millis(10));
    let running = remote.scene.server.spawn_admin(&["pool", "drain", "PRIMARY", "--all"]);
    // The first cut is one of all lines. A line that nobody uses comes back later.
    let (mut rounds, mut cuts) = (0, 0);
    while rounds < 6 && !running.ends_within(Duration::from_millis(400)) {
        cuts += remote.proxy.weather().cut();
        rounds += 1;
    }
    assert!(cuts > 3, "the drain ended too soon: {cuts} connections in {rounds} rounds");
    running.wait().expect(&[0]);
    assert_eq!(remote.scene.pool("PRIMARY")["packs"], 0);
    remote.empty_stage();
    let out = remote.scene.scratch.folder("cut");
    let reading = remote.scene.node.spawn_restore(&remote.scene.tree, &out, &[]);
    let mut cuts = 0;
    while !reading.ends_within(Duration::from_millis(500)) && cuts < 6 {
        remote.proxy.weather().cut();
        cuts += 1;
    }
    reading.wait().expect(&[0]).counts(&[("failed", 0)]);
    remote.proxy.weather().delay(Duration::ZERO);
    remote.scene.compare("after");
    assert_eq!(remote.library()["problem"], Value::Null);
    remote.expect_unharmed();
}

#[test]
fn a_library_that_is_away_is_named_with_its_time_and_is_used_again_by_itself() {
    let Some(mut remote) = Remote::new(&[]) else { return };
    remote.scene.backup();
    remote.scene.drain();
    remote.empty_stage();
    remote.wait_for("the drives", || !remote.states().contains(&"mounting".to_owned()));
    remote.proxy.weather().be_down(true);
    remote.proxy.weather().cut();
    // Nobody uses the library, and yet it is noticed.
    let library = || remote.scene.server.try_admin(&["library", "list"]).expect(&[0]).json();
    remote.wait_for("the outage", || library()["away_since"].is_string());
    remote.wait_for("the drives", || remote.states() == ["away", "away"]);
    let since = library()["away_since"].clone();
    assert!(library()["problem"].as_str().unwrap().contains("does not answer"), "{}", library());
    let volumes = remote.scene.server.try_admin(&["volume", "list"]).expect(&[0]).json_lines();
    assert!(volumes.iter().all(|volume| volume["away_since"] == since), "{volumes:?}");
    let status = remote.scene.node.run(&["status", "--json"]).expect(&[0]).json();
    assert_eq!(status["libraries_away"][0]["library"], "vault", "{status}");
    assert_eq!(status["libraries_away"][0]["since"], since, "{status}");
    // A reader waits for the library instead of getting an error.
    let out = remote.scene.scratch.folder("waits");
    let reading = remote.scene.node.spawn_restore(&remote.scene.tree, &out, &[]);
    assert!(!reading.ends_within(Duration::from_secs(3)), "the library is away");
    remote.proxy.weather().be_down(false);
    reading.wait().expect(&[0]).counts(&[("failed", 0)]);
    remote.wait_for("the library", || library()["away_since"].is_null());
    remote.wait_for("the drives", || !remote.states().contains(&"away".to_owned()));
    let status = remote.scene.node.run(&["status", "--json"]).expect(&[0]).json();
    assert_eq!(status["libraries_away"], serde_json::json!([]));
    remote.scene.compare("again");
    remote.expect_unharmed();
}

#[test]
fn a_restarted_server_uses_volumes_in_the_drives_that_have_them() {
    let Some(mut remote) = Remote::new(&[]) else { return };
    remote.scene.backup();
    remote.scene.drain();
    let before = remote.in_drives();
    assert!(before.iter().any(Value::is_string), "{before:?}");
    for kill in [false, true] {
        match kill {
            false => drop(remote.scene.server.terminate().expect(&[0])),
            true => drop(remote.scene.server.kill9()),
        }
        remote.scene.server.restart();
        remote.wait_for("the labels", || !remote.states().contains(&"mounting".to_owned()));
        assert_eq!(remote.in_drives(), before, "the server knows what is in its drives");
        remote.scene.compare(&format!("restarted-{kill}"));
        let volume = |name: &Value| before.contains(name);
        let kept = remote
            .in_drives()
            .iter()
            .filter(|name| name.is_string() && volume(name))
            .count();
        assert!(kept > 0, "{:?} of {before:?}", remote.in_drives());
    }
}

#[test]
fn two_drives_write_at_once() {
    let Some(remote) = Remote::new(&["--collocate", "node"]) else { return };
    let Remote { scene, proxy, .. } = &remote;
    let second = Node::enrol(&scene.server, "berta");
    let tree = scene.scratch.folder("source-2/tree");
    plant_files(&tree, 100, FILE_BYTES, 7);
    scene.backup();
    second.backup(&tree, &[]).expect(&[0]);
    let writing = || remote.states().iter().filter(|state| *state == "writing").count();
    // Of two drives, one is left to readers unless the administrator says otherwise. The line is
    // slow until both have been seen to write.
    proxy.weather().delay(Duration::from_millis(20));
    scene.server.admin(&["library", "set", "vault", "--writers", "2"]);
    let running = scene.server.spawn_admin(&["pool", "drain", "PRIMARY", "--all"]);
    let mut most = 0;
    while !running.ends_within(LOOK) {
        most = most.max(writing());
        if most == 2 {
            proxy.weather().delay(Duration::ZERO);
        }
    }
    running.wait().expect(&[0]);
    assert_eq!(most, 2, "both drives should write");
    assert_eq!(scene.pool("PRIMARY")["packs"], 0);
    let volumes = scene.server.try_admin(&["volume", "list"]).expect(&[0]).json_lines();
    let mut groups: Vec<&str> = volumes.iter().filter_map(|v| v["group"].as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    assert_eq!(groups, ["anna", "berta"], "{volumes:?}");
    scene.compare("anna");
    let out = scene.scratch.folder("berta");
    second.restore(&tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
}

#[test]
fn one_drive_is_left_to_readers_by_default() {
    let Some(remote) = Remote::new(&["--collocate", "node"]) else { return };
    let Remote { scene, proxy, .. } = &remote;
    assert_eq!(remote.library()["writers"], 0);
    let second = Node::enrol(&scene.server, "berta");
    let tree = scene.scratch.folder("source-2/tree");
    plant_files(&tree, 50, FILE_BYTES, 7);
    scene.backup();
    second.backup(&tree, &[]).expect(&[0]);
    proxy.weather().delay(Duration::from_millis(5));
    let running = scene.server.spawn_admin(&["pool", "drain", "PRIMARY", "--all"]);
    while !running.ends_within(LOOK) {
        let states = remote.states();
        let writing = states.iter().filter(|state| *state == "writing").count();
        assert!(writing <= 1, "{states:?}");
    }
    running.wait().expect(&[0]);
}
