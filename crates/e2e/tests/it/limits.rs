//! Limits on what a command sends and receives, the priority of its process, and pauses.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Process, Proxy};
use e2e::manifest::assert_same;
use e2e::nasty::Random;
use e2e::session_tree::redirect;
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{Scene, manifest, plant_files};

const MIB: u64 = 1 << 20;
const TREE_BYTES: usize = 12 << 20;
/// Least time for the tree at 4 MiB a second. The time is 3 seconds; only wide bounds are tested.
const LEAST: Duration = Duration::from_secs(2);

fn scene() -> Scene {
    let scene = Scene::new();
    plant_files(&scene.tree, 12, TREE_BYTES / 12, 5);
    scene
}

fn elapsed(report: &Value) -> Duration {
    Duration::from_secs_f64(report["elapsed_secs"].as_f64().expect("a number"))
}

#[test]
fn a_limit_holds_for_what_is_sent_and_for_what_is_received() {
    let scene = scene();
    let send = ["--limit-rate-send", "4M"];
    let report = scene.node.backup(&scene.tree, &send).expect(&[0]).json();
    assert!(elapsed(&report) > LEAST, "{report}");
    let out = scene.scratch.folder("slow");
    let receive = ["--limit-rate-receive", "4M"];
    let report = scene.node.restore(&scene.tree, &out, &receive).expect(&[0]).json();
    assert!(elapsed(&report) > LEAST, "{report}");
    assert_same(&manifest(&scene.tree), &manifest(&out.join("tree")));
    // One option for both directions; that of one direction takes precedence.
    let out = scene.scratch.folder("both");
    let both = ["--limit-rate", "4M"];
    let report = scene.node.restore(&scene.tree, &out, &both).expect(&[0]).json();
    assert!(elapsed(&report) > LEAST, "{report}");
    let send_more = ["--full", "--deduplication", "no", "--limit-rate", "128K"];
    let send_more = [&send_more[..], &["--limit-rate-send", "4M"]].concat();
    let report = scene.node.backup(&scene.tree, &send_more).expect(&[0]).json();
    let time = elapsed(&report);
    assert!(time > LEAST && time < Duration::from_secs(60), "{report}");
    // A limit of the other direction slows nothing down that is not sent.
    let out = scene.scratch.folder("quick");
    let (_, time) = clock::timed(|| scene.node.restore(&scene.tree, &out, &send).expect(&[0]));
    assert!(time < Duration::from_secs(60), "{time:?}");
    scene
        .node
        .backup(&scene.tree, &["--limit-rate-send", "1K"])
        .expect(&[12])
        .says("at least 128K");
}

#[test]
fn client_toml_limits_all_connections_together_and_an_option_overrides_it() {
    let scene = scene();
    let path = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&path).unwrap();
    // Both windows hold all day, and the smaller limit counts.
    let limits = "[[limits]]\nsend = \"4M\"\n[[limits]]\nsend = \"400M\"\n";
    fs::write(&path, format!("{own}{limits}")).unwrap();
    let disks = ["one", "two"].map(|name| scene.scratch.join(name));
    for (number, disk) in (0..).zip(&disks) {
        fs::write(disk, Random::new(number, b"disk").bytes(TREE_BYTES / 2)).unwrap();
    }
    let [one, two] = [&disks[0], &disks[1]].map(|disk| disk.to_str().unwrap());
    let words = ["image", "backup", one, two, "--snapshot", "off", "--json"];
    let (_, time) = clock::timed(|| scene.node.run(&words).expect(&[0]));
    assert!(time > LEAST, "{time:?}");
    let slow = scene.node.backup(&scene.tree, &[]).expect(&[0]).json();
    assert!(elapsed(&slow) > LEAST, "{slow}");
    let options = ["--limit-rate-send", "400M", "--full", "--deduplication", "no"];
    let quick = scene.node.backup(&scene.tree, &options).expect(&[0]).json();
    assert!(elapsed(&quick) < elapsed(&slow), "{quick} {slow}");
    fs::write(&path, format!("{own}[[limits]]\nfrom = \"08:00\"\n")).unwrap();
    scene.node.run(&["list"]).expect(&[12]).says("neither send nor receive");
}

/// Returns niceness of each thread of a process.
fn niceness(process: &Process) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let stat = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("stat"));
    // The field follows the name of the program, which ends with a parenthesis.
    let nice = |stat: String| stat.rsplit(')').next()?.split_whitespace().nth(16)?.parse().ok();
    threads.filter_map(|thread| nice(stat(thread.ok()?).ok()?)).collect()
}

#[test]
fn a_low_priority_is_that_of_all_threads() {
    let scene = Scene::new();
    let mark = scene.scratch.join("mark");
    let command = format!("touch {}; exec sleep 1000", mark.display());
    for (level, expected) in [("low", 10), ("normal", 0)] {
        let words = ["backup", "--priority", level, "--stdin", "x", "--stdin-command", &command];
        let running = scene.node.spawn(&words);
        eventually(|| mark.try_exists().unwrap());
        let found = niceness(&running);
        assert!(found.len() > 3 && found.iter().all(|nice| *nice == expected), "{found:?}");
        if let Ok(shown) = Command::new("ionice").args(["-p", &running.id().to_string()]).output() {
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert_eq!(shown.trim() == "best-effort: prio 7", level == "low", "{shown}");
        }
        running.signal(Signal::TERM);
        running.wait().expect(&[12]);
        fs::remove_file(&mark).unwrap();
    }
}

#[test]
fn a_low_priority_that_an_option_set_gives_holds_in_the_command_that_receives_it() {
    let scene = Scene::new();
    scene
        .server
        .admin(&["optionset", "define", "GENTLE", "--option", "priority=low"]);
    scene.server.admin(&["node", "set", "anna", "--optionset", "GENTLE"]);
    let mark = scene.scratch.join("mark");
    let command = format!("touch {}; exec sleep 1000", mark.display());
    let running = scene.node.spawn(&["backup", "--stdin", "x", "--stdin-command", &command]);
    eventually(|| mark.try_exists().unwrap());
    let found = niceness(&running);
    assert!(found.len() > 3 && found.iter().all(|nice| *nice == 10), "{found:?}");
    running.signal(Signal::TERM);
    running.wait().expect(&[12]);
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

/// Waits until `count` does not change for half a second. Returns it.
fn settled(count: impl Fn() -> u64) -> u64 {
    let mut last = count();
    loop {
        clock::pause(Duration::from_millis(500));
        let now = count();
        if now == last {
            return now;
        }
        last = now;
    }
}

/// Returns the state of the only command that the status shows.
fn state(scene: &Scene) -> Value {
    let status = scene.node.run(&["status", "--json"]).expect(&[0]).json();
    assert_eq!(status["running"].as_array().map(Vec::len), Some(1), "{status}");
    status["running"][0].clone()
}

#[test]
fn a_backup_that_is_paused_sends_nothing_and_goes_on_with_its_session() {
    let scene = Scene::new();
    for folder in 0..40 {
        plant_files(&scene.tree.join(format!("part-{folder}")), 8, 256 << 10, folder);
    }
    let proxy = Proxy::start(scene.server.port());
    redirect(&scene.node, &scene.server, proxy.port());
    let sent = || proxy.weather().asked_bytes();
    let options = ["--limit-rate-send", "20M", "--txnbytelimit", "1M"];
    let running = scene.node.spawn_backup(&scene.tree, &options);
    eventually(|| sent() > 10 * MIB);
    running.signal(Signal::USR1);
    let paused = settled(sent);
    assert!(paused < 60 * MIB, "{paused} of 80 MiB were sent before the pause");
    let record = state(&scene);
    assert_eq!(
        (&record["state"], &record["command"]),
        (&"paused".into(), &"holdfast backup".into())
    );
    scene.node.run(&["status"]).expect(&[0]).says(", paused since");
    // The server probes a silent connection after 20 seconds, and closes it after 40.
    let before = sent();
    clock::pause(Duration::from_secs(45));
    assert!(sent() - before < MIB, "only probes and the status are sent");
    running.signal(Signal::USR2);
    let done = running.wait().expect(&[0]).counts(&[("failed", 0), ("interruptions", 0)]);
    let report = done.json();
    assert_eq!(report["pauses"], 1, "{report}");
    let paused = report["paused_secs"].as_f64().unwrap();
    assert!(paused > 45.0 && Some(paused) < report["elapsed_secs"].as_f64(), "{report}");
    done.says("paused; SIGUSR2 lets the command go on")
        .says("going on after the pause");
    scene.backup().counts(&[("backed_up", 0)]);
    let records = fs::read_dir(scene.node.home().join("running")).unwrap();
    assert_eq!(records.count(), 0, "a command that has ended leaves no record");
    let status = scene.node.run(&["status", "--json"]).expect(&[0]).json();
    assert_eq!(status["running"], Value::Array(Vec::new()), "{status}");
}

/// Data that waited for the line was sent in the pause: some ten megabytes.
#[test]
fn a_pause_on_a_slow_line_sends_only_what_is_under_way() {
    let scene = Scene::with_files(40, 1 << 20);
    let proxy = scene.enrol_behind_proxy();
    let sent = || proxy.weather().asked_bytes();
    let running = scene.node.spawn_backup(&scene.tree, &["--limit-rate-send", "1M"]);
    eventually(|| sent() > 4 * MIB);
    let before = sent();
    running.signal(Signal::USR1);
    let more = settled(sent) - before;
    assert!(more < 6 * MIB, "{more} bytes were sent in the pause");
    running.signal(Signal::USR2);
    eventually(|| sent() > before + more + MIB);
    running.signal(Signal::INT);
    running.wait().expect(&[12]).says("committed, and");
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn a_restore_that_is_paused_receives_nothing_and_can_be_stopped() {
    let scene = scene();
    scene.backup();
    let options = ["--limit-rate-receive", "3M"];
    let run = |name: &str| {
        let out = scene.scratch.folder(name);
        let running = scene.node.spawn_restore(&scene.tree, &out, &options);
        let tree = out.join("tree");
        eventually(|| bytes_below(&tree) > 2 * MIB);
        running.signal(Signal::USR1);
        let held = settled(|| bytes_below(&tree));
        assert!(held < TREE_BYTES as u64, "{held}");
        (running, tree)
    };
    let (running, tree) = run("resumed");
    running.signal(Signal::USR2);
    let report = running.wait().expect(&[0]).counts(&[("failed", 0), ("pauses", 1)]).json();
    assert_eq!(report["interruptions"], 0, "{report}");
    assert_same(&manifest(&scene.tree), &manifest(&tree));
    let (running, _) = run("stopped");
    running.signal(Signal::INT);
    running.wait().expect(&[12]).says("interrupted");
}

/// Returns the sum of the sizes of the files below a folder, which may not exist yet.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}
