//! Servers that go away in the middle of an operation and come back: the operation waits, goes on
//! where it was, and says so.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Outcome, Process, Proxy, Server, binary};
use e2e::manifest::assert_same;
use e2e::nasty::Random;
use e2e::session_tree::redirect;
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{Scene, manifest, plant_files};

/// Time for which the operations of these tests wait: longer than any test.
const WAIT: [&str; 2] = ["--wait", "2m"];
/// Size of a transaction, so that much is committed before a server goes away.
const SMALL_TRANSACTIONS: [&str; 2] = ["--txnbytelimit", "1M"];
/// Folders of the tree, and files in each.
const FOLDERS: u64 = 25;
const FOLDER_FILES: usize = 8;
const FILES: usize = FOLDER_FILES * 25;
const FILE_BYTES: usize = 256 << 10;
const TREE_BYTES: u64 = (FILES * FILE_BYTES) as u64;
/// Bytes that a slow way carries in a second.
const SLOW: u64 = 16 << 20;
/// Upper bound of the bytes that arrive at a server, and are not committed when it is killed.
const OPEN_BYTES: u64 = 8 << 20;

/// A scene whose node reaches its server through a proxy.
struct Way {
    scene: Scene,
    proxy: Proxy,
}

impl Way {
    fn new() -> Self {
        let scene = Scene::new();
        for folder in 0..FOLDERS {
            let path = scene.tree.join(format!("part-{folder:02}"));
            plant_files(&path, FOLDER_FILES, FILE_BYTES, folder);
        }
        Self::to(scene)
    }

    fn to(scene: Scene) -> Self {
        let proxy = Proxy::start(scene.server.port());
        redirect(&scene.node, &scene.server, proxy.port());
        Self { scene, proxy }
    }

    /// Waits until `bytes` more have been sent to the server.
    fn await_sent(&self, bytes: u64) {
        let end = self.proxy.weather().asked_bytes() + bytes;
        eventually(|| self.proxy.weather().asked_bytes() >= end);
    }

    /// Kills the server, and starts it again after `pause`.
    fn kill(&mut self, pause: Duration) {
        self.scene.server.kill9();
        clock::pause(pause);
        self.scene.server.restart();
    }

    /// Makes the way break after `bytes` of answers of an operation that starts now.
    fn break_behind(&self, bytes: u64) {
        self.proxy.weather().go_down_behind(bytes);
    }

    /// Waits until the way breaks, kills the server, and starts it and opens the way again.
    fn mend(&mut self) {
        eventually(|| self.proxy.weather().is_down());
        self.kill(Duration::from_millis(300));
        self.proxy.weather().go_down_behind(u64::MAX);
        self.proxy.weather().be_down(false);
    }

    fn run(&self, words: &[&str]) -> Outcome {
        self.scene.node.run(words)
    }

    fn spawn(&self, words: &[&str]) -> Process {
        self.scene.node.spawn(words)
    }

    fn tree(&self) -> &str {
        self.scene.tree.to_str().expect("a path")
    }
}

fn eventually(is_so: impl Fn() -> bool) {
    for _ in 0..36_000 {
        if is_so() {
            return;
        }
        clock::pause(Duration::from_millis(5));
    }
    panic!("it does not happen");
}

fn interruptions(report: &Value) -> u64 {
    report["interruptions"].as_u64().expect("a number")
}

#[track_caller]
fn assert_interrupted(report: &Value, count: u64) {
    assert_eq!(interruptions(report), count, "{report}");
    let (away, elapsed) = (report["away_secs"].as_f64(), report["elapsed_secs"].as_f64());
    assert!(away > Some(0.0) && away < elapsed, "{report}");
}

/// Returns the number of versions of the files of the tree.
fn versions(way: &Way, options: &[&str]) -> usize {
    let rows = way.scene.node.list(&way.scene.tree, &[&["--recursive"], options].concat());
    rows.iter().filter(|row| row["kind"] == "file").count()
}

#[test]
fn a_backup_goes_on_after_several_kills_and_sends_nothing_twice() {
    let mut way = Way::new();
    way.proxy.weather().carry(SLOW);
    let options = [&WAIT[..], &SMALL_TRANSACTIONS].concat();
    let running = way.scene.node.spawn_backup(&way.scene.tree, &options);
    for _ in 0..3 {
        way.await_sent(12 << 20);
        way.kill(Duration::from_millis(500));
    }
    let done = running.wait().expect(&[0]).counts(&[("failed", 0)]);
    let done = match e2e::harness::are_in_folders() {
        true => done.says("the server is away since").says("the server is back after"),
        // A node of a fleet knows the server by its own address, too, past the proxy.
        false => done.says("continuing with another server"),
    };
    let report = done.json();
    assert_interrupted(&report, 3);
    let objects = manifest(&way.scene.tree).len();
    assert_eq!(report["backed_up"], objects, "each object counts once: {report}");
    // A commit whose answer was lost with the server counts nowhere.
    let files = report["deduplicated"].as_u64().expect("a number");
    assert!(files <= FILES as u64, "each file counts once: {report}");
    for figure in ["bytes_processed", "bytes_before_dedup", "bytes_after_dedup"] {
        let bytes = report[figure].as_u64().expect("a number");
        assert!(bytes <= TREE_BYTES, "{figure} counts once: {report}");
        assert!(bytes + 3 * OPEN_BYTES > TREE_BYTES, "{figure} lacks data: {report}");
    }
    // Random data is not compressed. Data that arrived more than once was not committed before.
    let again = way.proxy.weather().asked_bytes().saturating_sub(TREE_BYTES);
    assert!(again < 3 * OPEN_BYTES, "{again} bytes arrived twice: {report}");
    assert_eq!(versions(&way, &["--inactive"]), FILES, "each file has one version");
    way.proxy.weather().carry(0);
    way.scene.backup().counts(&[("backed_up", 0)]);
    let restored = way.scene.restore("restored", &[]);
    assert_same(&manifest(&way.scene.tree), &manifest(&restored));
    way.scene.node.verify().expect(&[0]);
}

/// The figures counted what waited for the network when the connection was lost: a backup seemed to
/// exceed its limit, and random data seemed to be compressed.
#[test]
fn the_figures_of_the_network_are_those_of_what_has_arrived() {
    let mut way = Way::new();
    let options = [&WAIT[..], &SMALL_TRANSACTIONS, &["--limit-rate-send", "8M"]].concat();
    let running = way.scene.node.spawn_backup(&way.scene.tree, &options);
    way.await_sent(12 << 20);
    way.kill(Duration::ZERO);
    let report = running.wait().expect(&[0]).counts(&[("failed", 0)]).json();
    assert_interrupted(&report, 1);
    let count = |key: &str| report[key].as_u64().expect("a number");
    let (sent, transferred) = (way.proxy.weather().asked_bytes(), count("bytes_transferred"));
    if e2e::harness::are_in_folders() {
        // A node of a fleet knows the server by its own address, too, past the proxy.
        assert!(transferred <= sent, "{transferred} of {sent}: {report}");
    }
    // The report of the last arrival may be lost with the connection.
    assert!(transferred + OPEN_BYTES > TREE_BYTES, "{report}");
    assert!(count("bytes_processed") <= transferred, "random data cannot shrink: {report}");
    assert!(report["compressed_percent"].as_f64().is_some_and(|percent| percent < 1.0), "{report}");
    let rate = report["network_rate_kb_per_sec"].as_f64().expect("a number");
    assert!(rate < 8.0 * 1024.0 * 1.1, "{rate}: {report}");
}

#[test]
fn a_full_or_selective_backup_that_goes_on_makes_one_version_of_each_file() {
    let mut way = Way::new();
    way.scene.backup();
    for option in ["--full", "--selective"] {
        let before = versions(&way, &["--inactive"]);
        let options = [&WAIT[..], &SMALL_TRANSACTIONS, &["--deduplication", "no", option]].concat();
        way.proxy.weather().carry(SLOW);
        let running = way.scene.node.spawn_backup(&way.scene.tree, &options);
        way.await_sent(24 << 20);
        way.kill(Duration::ZERO);
        let report = running.wait().expect(&[0]).counts(&[("failed", 0)]).json();
        assert_interrupted(&report, 1);
        way.proxy.weather().carry(0);
        // The policy keeps two versions.
        let after = versions(&way, &["--inactive"]);
        assert_eq!(after - before, FILES, "{option}: {report}");
    }
}

#[test]
fn an_operation_waits_for_a_server_that_is_away_at_its_start() {
    let mut scene = Scene::with_files(5, 1000);
    scene.node.wait_by_default();
    scene.server.kill9();
    let mut running = scene.node.spawn_backup(&scene.tree, &[]);
    let quiet = scene.node.spawn(&["list", "--json", "-q"]);
    running.wait_to_say("cannot reach the server at");
    // Several attempts fail, and only the first one is told.
    clock::pause(Duration::from_millis(2500));
    scene.server.restart();
    let done = running.wait().expect(&[0]).counts(&[("failed", 0)]);
    assert_interrupted(&done.json(), 1);
    let said = done.says("cannot reach the server at").says("press Ctrl-C to stop");
    let lines = said.messages();
    assert_eq!(lines.len(), 2, "it is said once: {lines:?}");
    for (line, begin) in lines.iter().zip(["cannot reach the server at", "the server is back"]) {
        let document: Value = serde_json::from_str(line).expect("a document");
        assert!(document["note"].as_str().unwrap().starts_with(begin), "{line}");
    }
    assert_eq!(quiet.wait().expect(&[0]).messages(), [""; 0]);
}

#[test]
fn a_server_that_stays_away_ends_the_operation_with_what_is_committed() {
    let mut way = Way::new();
    way.proxy.weather().carry(SLOW);
    let options = [&["--wait", "2s"][..], &SMALL_TRANSACTIONS].concat();
    let running = way.scene.node.spawn_backup(&way.scene.tree, &options);
    way.await_sent(24 << 20);
    way.scene.server.kill9();
    let said = running.wait().expect(&[12]).says("waited 00:00:0");
    said.says("committed, and the next run goes on from there");
    way.scene.server.restart();
    way.proxy.weather().carry(0);
    let report = way.scene.backup().json();
    let left = report["backed_up"].as_u64().unwrap();
    assert!(left < manifest(&way.scene.tree).len(), "{report}");
    // Without patience, and without a server, a command ends at once.
    way.scene.server.kill9();
    let (outcome, time) = clock::timed(|| way.run(&["list", "--wait", "0"]));
    outcome.expect(&[12]).says("cannot reach the server");
    assert!(time < Duration::from_secs(20), "{time:?}");
}

/// The message promised that the next run goes on, but that makes another archive.
#[test]
fn a_server_that_stays_away_leaves_an_archive_that_is_named() {
    let mut way = Way::new();
    way.proxy.weather().carry(SLOW);
    let tree = way.scene.tree.to_str().unwrap();
    let words = [&["archive", tree, "--wait", "2s"][..], &SMALL_TRANSACTIONS].concat();
    let running = way.scene.node.spawn(&words);
    way.await_sent(24 << 20);
    way.scene.server.kill9();
    let said = running.wait().expect(&[12]).says("waited 00:00:0");
    assert!(!said.stderr.contains("goes on"), "{said}");
    way.scene.server.restart();
    let archive = way.run(&["archives", "--json"]).expect(&[0]).json();
    assert_eq!(archive["complete"], false, "{archive}");
    said.says(&format!("; archive {} is incomplete, with ", archive["archive"]));
}

/// The log had a text of the library for TLS, with the address of its manual.
#[test]
fn a_killed_server_is_told_in_plain_words() {
    let mut scene = Scene::new();
    let mut agent = scene.node.spawn_agent();
    eventually(|| scene.server.admin(&["node", "show", "anna"])["agent_connected"] == true);
    scene.server.kill9();
    agent.wait_to_say("the server ended the connection without a word; it may have stopped");
    let said = agent.kill9().stderr;
    assert!(!said.contains("https://"), "{said}");
}

#[test]
fn a_stop_ends_the_wait_at_once() {
    let mut scene = Scene::with_files(5, 1000);
    scene.node.wait_by_default();
    scene.server.kill9();
    let post = format!("touch {}", scene.scratch.join("post").display());
    let mut running = scene.node.spawn_backup(&scene.tree, &["--post-command", &post]);
    running.wait_to_say("cannot reach the server at");
    running.signal(Signal::INT);
    let (outcome, time) = clock::timed(|| running.wait());
    outcome.expect(&[12]).says("interrupted while the server was away");
    assert!(time < Duration::from_secs(20), "{time:?}");
    assert!(scene.scratch.join("post").try_exists().unwrap(), "the command after the backup runs");
}

#[test]
fn a_refusal_is_not_waited_for() {
    let mut way = Way::new();
    way.proxy.weather().carry(SLOW);
    let options = [&WAIT[..], &SMALL_TRANSACTIONS].concat();
    let running = way.scene.node.spawn_backup(&way.scene.tree, &options);
    way.await_sent(4 << 20);
    way.scene.server.admin(&["node", "lock", "anna"]);
    running.wait().expect(&[12]).says("refuses node anna");
    way.scene.server.admin(&["node", "unlock", "anna"]);
    // Another server at the same address.
    way.scene.server.kill9();
    let dir = way.scene.scratch.join("impostor");
    let other = Server::start_at(&dir, way.scene.server.port());
    let list = [&["list"], &WAIT[..]].concat();
    way.run(&list).expect(&[12]).says("is not trusted");
    drop(other);
    way.scene.server.restart();
    way.scene.server.admin(&["node", "remove", "anna", "--confirm"]);
    let outcome = way.run(&list).expect(&[12]);
    assert!(!outcome.stderr.contains("waiting until"), "{outcome}");
}

#[test]
fn a_restore_goes_on_with_what_is_missing() {
    let mut way = Way::new();
    way.scene.backup();
    let out = way.scene.scratch.folder("out");
    way.break_behind(6 << 20);
    let running = way.scene.node.spawn_restore(&way.scene.tree, &out, &WAIT);
    way.mend();
    let report = running.wait().expect(&[0]).counts(&[("failed", 0), ("kept", 0)]).json();
    assert_interrupted(&report, 1);
    let objects = manifest(&way.scene.tree).len();
    let counted = report["restored"].as_u64().unwrap() + report["skipped"].as_u64().unwrap();
    assert!(counted >= objects, "{report}");
    assert_eq!(report["bytes_restored"], TREE_BYTES, "each file counts once: {report}");
    assert_same(&manifest(&way.scene.tree), &manifest(&out.join("tree")));
}

#[test]
fn a_retrieve_goes_on_with_what_is_missing() {
    let mut way = Way::new();
    way.run(&["archive", way.tree()]).expect(&[0]);
    let out = way.scene.scratch.folder("out");
    way.break_behind(6 << 20);
    let words = ["retrieve", way.tree(), "--to", out.to_str().unwrap(), "--json"];
    let running = way.spawn(&[&words, &WAIT[..]].concat());
    way.mend();
    let report = running.wait().expect(&[0]).counts(&[("failed", 0)]).json();
    assert_interrupted(&report, 1);
    assert_eq!(report["bytes_restored"], TREE_BYTES, "each file counts once: {report}");
    assert_same(&manifest(&way.scene.tree), &manifest(&out.join("tree")));
}

#[test]
fn a_verification_goes_on_after_the_windows_that_are_done() {
    // A window has at most 2048 directories.
    let scene = Scene::new();
    for index in 0..5000 {
        let folder = scene.tree.join(format!("folder-{index:04}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), Random::new(index, b"file").bytes(2000)).unwrap();
    }
    let mut way = Way::to(scene);
    way.scene.backup();
    let verify = ["verify", "--data", "--json"];
    let whole = way.run(&verify).expect(&[0]).json();
    // Entries and data of most windows fit into these bytes.
    way.break_behind(9 << 20);
    let running = way.spawn(&[&verify, &WAIT[..]].concat());
    way.mend();
    let report = running.wait().expect(&[0]).counts(&[("failed", 0)]).json();
    assert_interrupted(&report, 1);
    assert_eq!(report["versions"], whole["versions"], "{report}");
    let verified = report["bytes_verified"].as_u64().unwrap();
    let data = whole["bytes_verified"].as_u64().unwrap();
    assert!(verified >= data && verified < data * 3 / 2, "{verified} of {data}");
}

#[test]
fn a_list_shows_each_version_once() {
    let scene = Scene::new();
    plant_files(&scene.tree, 3000, 10, 7);
    let mut way = Way::to(scene);
    way.scene.backup();
    let list = ["list", way.tree(), "--recursive", "--json"].map(str::to_owned);
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let before = way.proxy.weather().answered_bytes();
    let whole = way.run(&list).expect(&[0]).stdout;
    let bytes = way.proxy.weather().answered_bytes() - before;
    way.break_behind(bytes * 2 / 3);
    let running = way.spawn(&[&list, &WAIT[..]].concat());
    way.mend();
    assert!(running.wait().expect(&[0]).stdout == whole, "the list differs");
}

#[test]
fn an_archive_goes_on_and_is_one_archive() {
    let mut way = Way::new();
    way.proxy.weather().carry(SLOW);
    let archive = ["archive", way.tree(), "--json"].map(str::to_owned);
    let archive: Vec<&str> = archive.iter().map(String::as_str).collect();
    let running = way.spawn(&[&archive[..], &WAIT, &SMALL_TRANSACTIONS].concat());
    way.await_sent(24 << 20);
    way.kill(Duration::ZERO);
    let report = running.wait().expect(&[0]).counts(&[("failed", 0)]).json();
    assert_interrupted(&report, 1);
    let again = way.proxy.weather().asked_bytes().saturating_sub(TREE_BYTES);
    assert!(again < OPEN_BYTES, "{again} bytes arrived twice: {report}");
    way.proxy.weather().carry(0);
    let archives = way.run(&["archives", "--json"]).expect(&[0]).json_lines();
    assert_eq!(archives.len(), 1, "{archives:?}");
    assert_eq!(archives[0]["bytes"], TREE_BYTES, "each file is in it once: {archives:?}");
    assert_eq!(report["backed_up"], manifest(&way.scene.tree).len(), "{report}");
    let out = way.scene.scratch.folder("out");
    way.run(&["retrieve", way.tree(), "--to", out.to_str().unwrap()]).expect(&[0]);
    assert_same(&manifest(&way.scene.tree), &manifest(&out.join("tree")));
}

/// Starts a backup of standard input, of the file `source`.
fn back_up_input(way: &Way, source: &Path) -> std::process::Child {
    Command::new(binary())
        .args(["backup", "--json", "--stdin", "input", "--home"])
        .arg(way.scene.node.home())
        .args([&WAIT[..], &SMALL_TRANSACTIONS].concat())
        .stdin(Stdio::from(File::open(source).unwrap()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn the_output_of_a_command_is_read_again_and_standard_input_says_that_it_cannot_be() {
    let mut way = Way::to(Scene::new());
    let source = way.scene.scratch.join("dump");
    fs::write(&source, Random::new(3, b"dump").bytes(32 << 20)).unwrap();
    let command = format!("cat {}", source.display());
    way.proxy.weather().carry(SLOW);
    let words = ["backup", "--json", "--stdin", "output", "--stdin-command", &command];
    let running = way.spawn(&[&words, &WAIT[..], &SMALL_TRANSACTIONS].concat());
    way.await_sent(20 << 20);
    way.kill(Duration::ZERO);
    let report = running.wait().expect(&[0]).counts(&[("failed", 0), ("backed_up", 1)]).json();
    assert_interrupted(&report, 1);
    let again = way.proxy.weather().asked_bytes().saturating_sub(32 << 20);
    assert!(again < OPEN_BYTES, "{again} bytes arrived twice: {report}");

    let running = back_up_input(&way, &source);
    way.await_sent(100_000);
    way.kill(Duration::ZERO);
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(12), "{said}");
    assert!(said.contains("standard input cannot be read again"), "{said}");
    // Before its first byte is read, the server may be away.
    way.scene.server.kill9();
    way.proxy.weather().carry(0);
    let running = back_up_input(&way, &source);
    clock::pause(Duration::from_millis(1500));
    way.scene.server.restart();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let out = way.scene.scratch.folder("out");
    for name in ["output", "input"] {
        way.scene
            .node
            .restore(&PathBuf::from("/stdin").join(name), &out, &[])
            .expect(&[0]);
        assert!(fs::read(out.join(name)).unwrap() == fs::read(&source).unwrap());
    }
}

#[test]
fn an_image_is_made_checked_and_restored_over_interruptions() {
    let mut way = Way::to(Scene::new());
    let disk = way.scene.scratch.join("disk");
    fs::write(&disk, Random::new(4, b"disk").bytes(16 << 20)).unwrap();
    let path = disk.to_str().unwrap();
    way.proxy.weather().carry(SLOW);
    let running = way.spawn(&[&["image", "backup", path, "--json"], &WAIT[..]].concat());
    way.await_sent(12 << 20);
    way.kill(Duration::ZERO);
    let report = running.wait().expect(&[0]).json();
    assert_interrupted(&report, 1);
    // A commit whose answer was lost with the server counts nowhere. The last attempt alone sent
    // 8 MiB.
    let bytes = report["bytes_after_dedup"].as_u64().expect("a number");
    assert!(bytes > 12 << 20 && bytes <= 16 << 20, "the data of both attempts: {report}");
    way.proxy.weather().carry(0);
    for words in [&["image", "verify", path, "--json"][..], &["image", "restore", path]] {
        way.break_behind(8 << 20);
        let target = way.scene.scratch.join("restored");
        let more: &[&str] = match words[1] {
            "restore" => &[target.to_str().unwrap(), "--json"],
            _ => &[],
        };
        let running = way.spawn(&[words, more, &WAIT].concat());
        way.mend();
        let report = running.wait().expect(&[0]).json();
        assert_interrupted(&report, 1);
        assert_eq!(report["data_bytes"], 16 << 20, "{report}");
    }
    assert!(fs::read(way.scene.scratch.join("restored")).unwrap() == fs::read(&disk).unwrap());
}

/// Each command once made one connection for its settings, one for its question and one for its
/// work.
#[test]
fn a_command_opens_one_connection() {
    let way = Way::to(Scene::with_files(5, 1000));
    let (tree, out) = (way.tree().to_owned(), way.scene.scratch.folder("out"));
    let pattern = format!("{tree}/folder-*");
    let out = out.to_str().expect("a path");
    let check = |words: &[&str]| {
        let before = way.proxy.weather().connections();
        way.run(words).expect(&[0]);
        assert_eq!(way.proxy.weather().connections() - before, 1, "{words:?}");
    };
    check(&["backup", &tree]);
    check(&["backup", &tree, "--pre-command", "true"]);
    check(&["restore", &pattern, "--to", out]);
    check(&["restore", &tree, "--to", out, "--replace", "all"]);
    check(&["archive", &tree, "--description", "once"]);
    check(&["list", &tree]);
    check(&["verify", &tree]);
}

/// The connection for the settings is kept for the work. A restart of the server in between ended
/// the command, though the server answered.
#[test]
fn a_connection_that_dies_before_the_work_needs_no_wait() {
    if !e2e::harness::is_in_folders() {
        // A node of a fleet knows the server by its own address, too, past the proxy.
        e2e::skip::say("this test needs a server that its nodes know by one address");
        return;
    }
    let way = Way::to(Scene::with_files(5, 1000));
    let tree = way.tree().to_owned();
    let begun = way.scene.scratch.join("begun");
    let before = format!("touch {}; sleep 4", begun.display());
    let running = way.spawn(&["backup", &tree, "--json", "--wait", "0", "--pre-command", &before]);
    eventually(|| begun.try_exists().expect("can be looked up"));
    assert!(way.proxy.weather().cut() > 0, "a connection was kept");
    running.wait().expect(&[0]).counts(&[("failed", 0), ("interruptions", 0)]);
    // A server that is away is not waited for.
    fs::remove_file(&begun).expect("is removed");
    let running = way.spawn(&["backup", &tree, "--wait", "0", "--pre-command", &before]);
    eventually(|| begun.try_exists().expect("can be looked up"));
    way.proxy.weather().be_down(true);
    way.proxy.weather().cut();
    running.wait().expect(&[12]);
}

#[test]
fn a_wait_that_an_option_set_gives_holds_from_the_first_connection_on() {
    if !e2e::harness::is_in_folders() {
        // A node of a fleet knows the server by its own address, too, past the proxy.
        e2e::skip::say("this test needs a server that its nodes know by one address");
        return;
    }
    let way = Way::new();
    way.scene.node.wait_by_default();
    way.scene
        .server
        .admin(&["optionset", "define", "IMPATIENT", "--option", "wait=2s"]);
    way.scene.server.admin(&["node", "set", "anna", "--optionset", "IMPATIENT"]);
    way.proxy.weather().carry(SLOW);
    let running = way.scene.node.spawn_backup(&way.scene.tree, &[]);
    way.await_sent(8 << 20);
    way.proxy.weather().be_down(true);
    way.proxy.weather().cut();
    running.wait().expect(&[12]).says("waited 00:00:0");
}
