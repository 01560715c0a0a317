//! Power cuts, simulated by kills: whichever process is killed at whatever moment, the next run
//! completes the work.
//!
//! Each kill gets a tree with new content, because otherwise there would be nothing left to send.
//! The kills are spread over the time that an undisturbed run takes. A kill that comes after the
//! end of a run does not count.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::clock::timed;
use e2e::harness::{Outcome, Process, Proxy, succeeds};
use e2e::manifest::assert_same;
use e2e::nasty::Random;
use rustix::process::Signal;

use crate::scene::{Scene, file_name, manifest, plant_files};

/// Capacity of a slow link.
const SLOW_BYTES_PER_SEC: u64 = 2 << 20;
/// Upper bound of the bytes that are under way on a line of 1 MiB a second: two large quanta, the
/// commit, and what TLS adds.
const UNDER_WAY_BYTES: u64 = 6 << 20;
const HITS_MIN: u32 = 10;
const RESTORE_HITS_MIN: u32 = 6;
const ATTEMPTS_MAX: u32 = 40;

/// The moments of one test's kills, spread over the time that a run takes.
struct Moments {
    whole: Duration,
    hits_min: u32,
    hits: u32,
    attempts: u32,
}

impl Moments {
    fn new(whole: Duration, hits_min: u32) -> Self {
        Self { whole, hits_min, hits: 0, attempts: 0 }
    }

    /// Returns the number of the next attempt and the moment of its kill; `None` after enough hits.
    fn next(&mut self) -> Option<(u32, Duration)> {
        if self.hits == self.hits_min {
            return None;
        }
        let (attempt, hits) = (self.attempts, self.hits);
        assert!(attempt < ATTEMPTS_MAX, "only {hits} of {attempt} kills hit a run");
        self.attempts += 1;
        // The moments follow the golden ratio, so that any number of them is spread evenly.
        Some((attempt, self.whole * ((309 + attempt * 618) % 1000) / 1000))
    }

    /// Counts a kill that hit a run. If the run had ended before its kill, the following kills come
    /// earlier.
    fn record(&mut self, moment: Duration, was_running: bool) {
        if was_running {
            self.hits += 1;
        } else {
            self.whole = moment * 9 / 10;
        }
    }
}

fn plant_tree(scene: &Scene, index: u32) -> PathBuf {
    let tree = scene.scratch.folder(&format!("source/tree-{index}"));
    plant_files(&tree, 1500, 2000, u64::from(index));
    let mut random = Random::new(index.into(), b"large");
    fs::write(tree.join("large-1"), random.bytes(4 << 20)).unwrap();
    fs::write(tree.join("large-2"), random.text(4 << 20)).unwrap();
    tree
}

/// Returns the time of a first backup of a tree like the trees whose backups are killed.
fn measured_backup(scene: &Scene) -> Duration {
    let tree = plant_tree(scene, 1000);
    timed(|| scene.node.backup(&tree, &[]).expect(&[0])).1
}

/// Restores `tree` alone and compares it.
#[track_caller]
fn assert_restorable(scene: &Scene, tree: &Path, point: u32) {
    let out = scene.scratch.folder(&format!("out-{point}"));
    scene.node.restore(tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_same(&manifest(tree), &manifest(&out.join(tree.file_name().unwrap())));
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn killed_client_goes_on_where_it_was() {
    let scene = Scene::new();
    let mut moments = Moments::new(measured_backup(&scene), HITS_MIN);
    while let Some((point, moment)) = moments.next() {
        let tree = plant_tree(&scene, point);
        let running = scene.node.spawn_backup(&tree, &[]);
        running.ends_within(moment);
        moments.record(moment, running.kill9().was_killed());
        scene
            .node
            .backup(&tree, &[])
            .expect(&[0])
            .counts(&[("failed", 0), ("expired", 0)]);
        assert_restorable(&scene, &tree, point);
    }
    scene.node.verify().expect(&[0]);
}

#[test]
fn backup_killed_again_and_again_ends_complete() {
    let scene = Scene::new();
    let whole = measured_backup(&scene);
    let tree = plant_tree(&scene, 1);
    for tenths in 1..6 {
        let running = scene.node.spawn_backup(&tree, &[]);
        running.ends_within(whole * tenths / 10);
        running.kill9();
    }
    scene.node.backup(&tree, &[]).expect(&[0]);
    assert_restorable(&scene, &tree, 1);
    let third = scene.node.backup(&tree, &[]).expect(&[0]);
    third.counts(&[("backed_up", 0), ("expired", 0), ("bytes_processed", 0)]);
}

#[test]
fn killed_server_keeps_what_it_acknowledged() {
    let mut scene = Scene::new();
    let mut moments = Moments::new(measured_backup(&scene), HITS_MIN);
    let first = scene.scratch.join("source/tree-1000");
    while let Some((point, moment)) = moments.next() {
        let tree = plant_tree(&scene, point);
        let running = scene.node.spawn_backup(&tree, &[]);
        moments.record(moment, !running.ends_within(moment));
        scene.server.kill9();
        scene.server.restart();
        // The client may fail, or find the server again.
        running.wait().expect(&[0, 4, 8, 12]);
        scene
            .node
            .backup(&tree, &[])
            .expect(&[0])
            .counts(&[("failed", 0), ("expired", 0)]);
        assert_restorable(&scene, &tree, point);
    }
    scene.node.backup(&first, &[]).expect(&[0]).counts(&[("backed_up", 0)]);
    assert_restorable(&scene, &first, 1000);
    scene.node.verify().expect(&[0]);
}

#[test]
fn killed_restore_goes_on_where_it_was() {
    let mut scene = Scene::new();
    let tree = plant_tree(&scene, 1);
    let source = manifest(&tree);
    scene.node.backup(&tree, &[]).expect(&[0]);
    let out = scene.scratch.folder("out-whole");
    let (_, whole) = timed(|| scene.node.restore(&tree, &out, &[]).expect(&[0]));
    let mut moments = Moments::new(whole, RESTORE_HITS_MIN);
    while let Some((point, moment)) = moments.next() {
        let out = scene.scratch.folder(&format!("out-{point}"));
        let running = scene.node.spawn_restore(&tree, &out, &[]);
        moments.record(moment, !running.ends_within(moment));
        if point % 2 == 0 {
            running.kill9();
        } else {
            scene.server.kill9();
            scene.server.restart();
            running.wait().expect(&[0, 4, 8, 12]);
        }
        scene.node.restore(&tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
        assert_same(&source, &manifest(&out.join("tree-1")));
    }
}

#[test]
fn directories_that_a_killed_restore_left_are_finished() {
    let scene = Scene::new();
    let tree = plant_tree(&scene, 1);
    scene.node.backup(&tree, &[]).expect(&[0]);
    let out = scene.scratch.folder("out");
    let filled = out.join("tree-1/folder-02");
    for (name, mode) in
        [("tree-1", 0o1700), ("tree-1/folder-01", 0o1700), ("tree-1/folder-02", 0o755)]
    {
        fs::create_dir(out.join(name)).unwrap();
        fs::set_permissions(out.join(name), Permissions::from_mode(mode)).unwrap();
    }
    // This directory has its final mode, but not its times.
    let mark = ["-n", "user.holdfast.unfinished"];
    assert!(succeeds(Command::new("setfattr").args(mark).arg(&filled)));
    scene.node.restore(&tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_same(&manifest(&tree), &manifest(&out.join("tree-1")));
}

#[test]
fn interrupted_backup_goes_on_where_it_was() {
    let scene = Scene::new();
    let whole = measured_backup(&scene);
    let tree = plant_tree(&scene, 1);
    let running = scene.node.spawn_backup(&tree, &[]);
    running.ends_within(whole / 2);
    running.signal(Signal::INT);
    let outcome = running.wait();
    assert!(outcome.was_killed() || [0, 12].contains(&outcome.code()), "{outcome}");
    scene.node.backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_restorable(&scene, &tree, 1);
}

/// Waits until so many bytes of a backup that is under way have reached the server.
#[track_caller]
fn await_sent(proxy: &Proxy, running: &Process, bytes: u64) {
    while proxy.weather().asked_bytes() < bytes {
        assert!(!running.ends_within(Duration::from_millis(50)), "the line is slow");
    }
}

/// The end of the session, which follows an interruption, hid the interruption.
#[test]
fn an_interruption_says_what_is_committed() {
    let scene = Scene::with_files(100, 200_000);
    let proxy = scene.enrol_behind_proxy();
    proxy.weather().carry(SLOW_BYTES_PER_SEC);
    let running = scene.node.spawn_backup(&scene.tree, &["--txnbytelimit", "1M"]);
    await_sent(&proxy, &running, 6 << 20);
    running.signal(Signal::INT);
    let outcome = running.wait().expect(&[12]);
    assert!(!outcome.stderr.contains("server"), "{outcome}");
    let outcome = outcome.says("committed, and").says("it goes on from there");
    assert!(!outcome.stderr.contains(" 0 objects"), "{outcome}");
    proxy.weather().carry(0);
    let rest = scene.backup();
    assert!(rest.count("backed_up") < 100, "the committed files are not sent again: {rest}");
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

/// Interrupts an archive of the scene's tree of which a part is committed. The node reaches the
/// server by the proxy from then on.
#[track_caller]
fn interrupt_archive(scene: &Scene) -> (Proxy, Outcome) {
    let proxy = scene.enrol_behind_proxy();
    proxy.weather().carry(SLOW_BYTES_PER_SEC);
    let tree = scene.tree.to_str().unwrap();
    let running = scene.node.spawn(&["archive", tree, "--txnbytelimit", "1M"]);
    await_sent(&proxy, &running, 6 << 20);
    running.signal(Signal::INT);
    let outcome = running.wait().expect(&[12]);
    proxy.weather().carry(0);
    (proxy, outcome)
}

/// The part of an interrupted archive came back as if it were all of the folder, although an older
/// archive had all of it.
#[test]
fn an_interrupted_archive_comes_after_complete_ones() {
    let scene = Scene::with_files(100, 200_000);
    let tree = scene.tree.to_str().unwrap();
    scene.node.run(&["archive", tree]).expect(&[0]);
    let as_archived = manifest(&scene.tree);
    plant_files(&scene.tree, 100, 200_000, 9);
    let (_proxy, outcome) = interrupt_archive(&scene);
    let archives = scene.node.run(&["archives", "--json"]).expect(&[0]).json_lines();
    let complete: Vec<_> = archives.iter().map(|archive| archive["complete"] == true).collect();
    assert_eq!(complete, [false, true], "{archives:?}");
    let number = archives[0]["archive"].to_string();
    drop(outcome.says(&format!("archive {number} is incomplete, with ")));

    let retrieve = |name: &str, options: &[&str]| {
        let out = scene.scratch.folder(name);
        let fixed = ["retrieve", tree, "--to", out.to_str().unwrap(), "--json"];
        (scene.node.run(&[&fixed[..], options].concat()), out.join("tree"))
    };
    let (whole, back) = retrieve("whole", &[]);
    whole.expect(&[0]).counts(&[("failed", 0)]);
    assert_same(&as_archived, &manifest(&back));
    let number = number.as_str();
    for options in [&["--archive", number][..], &["--archive", number, "--dry-run"]] {
        let (part, _) = retrieve("part", options);
        part.expect(&[8]).says(&format!("archive {number} may lack objects"));
    }
}

/// The empty folders of an interrupted archive came back, and nothing named the complete archive
/// that had files of one of them.
#[test]
fn a_part_in_a_complete_archive_comes_before_an_interrupted_one() {
    let scene = Scene::with_files(100, 200_000);
    let part = scene.tree.join("folder-00");
    scene.node.run(&["archive", part.to_str().unwrap()]).expect(&[0]);
    let as_archived = manifest(&part);
    plant_files(&scene.tree, 100, 200_000, 9);
    let tree = scene.tree.to_str().unwrap();
    let (_proxy, _) = interrupt_archive(&scene);
    let archives = scene.node.run(&["archives", "--json"]).expect(&[0]).json_lines();
    assert_eq!(archives[0]["complete"], false, "{archives:?}");
    let out = scene.scratch.folder("out");
    let retrieved = scene.node.run(&["retrieve", tree, "--to", out.to_str().unwrap()]).expect(&[8]);
    let incomplete = format!("brings the part in archive {} (incomplete)", archives[0]["archive"]);
    drop(retrieved.says(&incomplete));
    assert_same(&as_archived, &manifest(&out.join("tree/folder-00")));
}

/// Everything that waited for the line was sent before the backup ended, for up to a minute.
#[test]
fn an_interruption_sends_only_what_is_under_way() {
    let check = |bytes_per_sec: u64, options: &[&str]| {
        let scene = Scene::with_files(40, 1 << 20);
        let proxy = scene.enrol_behind_proxy();
        proxy.weather().carry(bytes_per_sec);
        let running = scene.node.spawn_backup(&scene.tree, options);
        await_sent(&proxy, &running, 5 << 20);
        let before = proxy.weather().asked_bytes();
        running.signal(Signal::INT);
        let outcome = running.wait().expect(&[12]).says("committed, and");
        let more = proxy.weather().asked_bytes() - before;
        assert!(more < UNDER_WAY_BYTES, "{more} bytes were sent after the stop: {outcome}");
        proxy.weather().carry(0);
        let rest = scene.backup();
        assert!(rest.count("bytes_after_dedup") < 38 << 20, "what was sent is committed: {rest}");
        assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    };
    check(0, &["--limit-rate-send", "1M"]);
    check(1 << 20, &[]);
}

/// The interruption was asked for only between directories, so that a file was sent to its end.
#[test]
fn an_interruption_ends_within_a_file() {
    let scene = Scene::new();
    fs::write(scene.tree.join("large"), Random::new(7, b"large").bytes(128 << 20)).unwrap();
    let running = scene.node.spawn_backup(&scene.tree, &["--limit-rate-send", "8M"]);
    assert!(!running.ends_within(Duration::from_secs(2)), "the link is slow");
    running.signal(Signal::INT);
    let outcome = running.wait().expect(&[12]);
    assert!(!outcome.stderr.contains("large"), "the file has no fault: {outcome}");
    let rest = scene.backup().counts(&[("failed", 0)]);
    assert!(rest.count("backed_up") > 0, "the file comes with the next backup: {rest}");
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn an_interrupted_restore_says_how_far_it_has_come_and_goes_on() {
    let scene = Scene::with_files(40, 1 << 20);
    scene.backup();
    let out = scene.scratch.folder("out");
    let slow = ["--limit-rate-receive", "4M"];
    let running = scene.node.spawn_restore(&scene.tree, &out, &slow);
    let is_whole = |index: &usize| {
        let file = out.join("tree").join(file_name(*index));
        fs::metadata(file).is_ok_and(|found| found.len() == 1 << 20)
    };
    while (0..40).filter(is_whole).count() < 10 {
        assert!(!running.ends_within(Duration::from_millis(50)), "the link is slow");
    }
    running.signal(Signal::INT);
    let outcome = running.wait().expect(&[12]).says("interrupted after ");
    outcome.says("run the same command again: what is restored is skipped");
    let rest = scene.node.restore(&scene.tree, &out, &[]).expect(&[0]);
    assert!(rest.count("restored") < 40, "restored files are skipped: {rest}");
    assert_same(&manifest(&scene.tree), &manifest(&out.join("tree")));
}

/// The second interruption ended the process without a word.
#[test]
fn a_second_interruption_ends_at_once_and_says_what_is_kept() {
    let scene = Scene::with_files(40, 1 << 20);
    let proxy = scene.enrol_behind_proxy();
    proxy.weather().carry(SLOW_BYTES_PER_SEC);
    let running = scene.node.spawn_backup(&scene.tree, &[]);
    assert!(!running.ends_within(Duration::from_secs(2)), "the link is slow");
    proxy.weather().be_silent(true);
    running.signal(Signal::INT);
    running.ends_within(Duration::from_millis(500));
    running.signal(Signal::INT);
    let outcome = running.wait().expect(&[12]);
    proxy.weather().be_silent(false);
    let is_told = outcome
        .stderr
        .contains("stopped at once; what the server has committed is kept");
    // It may have ended in order before the second signal.
    assert!(is_told || outcome.stderr.contains("interrupted"), "{outcome}");
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

/// A transaction was committed by its age at the client, where it waits long for a slow link.
#[test]
fn a_backup_over_a_slow_link_that_dies_gets_on() {
    let scene = Scene::with_files(40, 1 << 20);
    let proxy = scene.enrol_behind_proxy();
    proxy.weather().carry(SLOW_BYTES_PER_SEC);
    let running = scene.node.spawn_backup(&scene.tree, &[]);
    await_sent(&proxy, &running, 14 << 20);
    drop(running.kill9());
    proxy.weather().carry(0);
    let rest = scene.backup();
    assert!(rest.count("bytes_after_dedup") < 38 << 20, "what has arrived is kept: {rest}");
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn server_stops_in_an_orderly_way_during_a_backup() {
    let mut scene = Scene::new();
    let whole = measured_backup(&scene);
    let tree = plant_tree(&scene, 1);
    let running = scene.node.spawn_backup(&tree, &[]);
    running.ends_within(whole / 2);
    scene.server.terminate().expect(&[0]);
    scene.server.restart();
    running.wait().expect(&[0, 4, 8, 12]);
    scene.node.backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    assert_restorable(&scene, &tree, 1);
}

/// Number of cuts of connections.
const CUTS: u64 = 12;
/// Number of bytes in which the answers to a greeting fit.
const GREETING_BYTES: u64 = 4096;

#[test]
fn a_connection_that_is_cut_anywhere_is_made_to_another_address() {
    let scene = Scene::with_files(0, 0);
    let proxy = Proxy::start(scene.server.port());
    // The proxy is tried first. The server itself has another address.
    let addresses = format!("127.0.0.1:{},{}", proxy.port(), scene.server.address());
    let again = scene.server.admin(&["node", "add", "anna", "--again"]);
    scene.node.enrol_at(&addresses, again["token"].as_str().unwrap());
    let before = proxy.weather().answered_bytes();
    scene.node.backup(&plant_tree(&scene, 2000), &[]).expect(&[0]);
    let whole = proxy.weather().answered_bytes() - before;
    assert!(whole > GREETING_BYTES, "{whole}");
    for cut in 0..CUTS {
        // Half of the cuts are within the greeting, the other half anywhere in the session.
        let span = if cut % 2 == 0 { GREETING_BYTES } else { whole };
        let tree = plant_tree(&scene, u32::try_from(cut).unwrap());
        proxy.weather().be_down(false);
        proxy.weather().go_down_behind(1 + span * cut / CUTS);
        scene.node.backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
        assert!(proxy.weather().is_down(), "the backup ended before cut {cut}");
        assert_restorable(&scene, &tree, u32::try_from(cut).unwrap());
    }
}
