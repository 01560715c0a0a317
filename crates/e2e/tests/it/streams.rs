//! Streams backed up as files, and the commands around a backup.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::harness::{Outcome, binary};
use e2e::nasty::Random;
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::Scene;

impl Scene {
    #[track_caller]
    fn backup_output(&self, name: &str, command: &str) -> Outcome {
        self.node
            .run(&["backup", "--stdin", name, "--stdin-command", command, "--json"])
    }

    /// Backs up the content of `file` through standard input; returns the report.
    #[track_caller]
    fn backup_input(&self, name: &str, file: &Path) -> Value {
        let done = Command::new(binary())
            .args(["backup", "--json", "--stdin", name, "--home"])
            .arg(self.node.home())
            .stdin(Stdio::from(File::open(file).unwrap()))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// Restores the stream `name` into the new folder `out`.
    #[track_caller]
    fn stream(&self, name: &str, out: &str) -> Vec<u8> {
        let (path, out) = (PathBuf::from("/stdin").join(name), self.scratch.folder(out));
        self.node.restore(&path, &out, &[]).expect(&[0]);
        fs::read(out.join(name)).unwrap()
    }
}

fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap()
}

#[test]
fn a_stream_comes_back_as_it_was() {
    let scene = Scene::new();
    let source = scene.scratch.join("dump");
    // The stream is longer than a buffer, is not a multiple of a buffer, and has two equal halves.
    let half = Random::new(5, b"stream").bytes(3_700_001);
    fs::write(&source, [&half[..], &half].concat()).unwrap();
    scene.backup_input("dump", &source);
    assert!(scene.stream("dump", "first") == fs::read(&source).unwrap());

    let outcome = scene.backup_output("dump", &format!("cat {}; printf more", source.display()));
    let document = outcome.expect(&[0]).counts(&[("backed_up", 1)]).json();
    let sent = document["bytes_transferred"].as_u64().unwrap();
    assert!(
        sent < 1_000_000,
        "stored content should not be sent again, but {sent} bytes were sent"
    );
    assert!(scene.stream("dump", "second").ends_with(b"more"));
    let versions = scene.node.list("/stdin/dump".as_ref(), &["--inactive"]);
    assert_eq!(versions.len(), 2, "{versions:?}");
    scene.node.verify().expect(&[0]);

    scene.backup_output("nothing", "true").expect(&[0]);
    assert_eq!(scene.stream("nothing", "third"), b"");
}

#[test]
fn a_stream_is_sent_again_where_the_server_has_dropped_it() {
    let mut scene = Scene::new();
    scene.keep_only_active();
    let source = scene.scratch.join("dump");
    let content = Random::new(6, b"stream").bytes(2_000_001);
    fs::write(&source, &content).unwrap();
    let command = format!("cat {}", source.display());
    for round in 0..2 {
        scene.backup_output("dump", &command).expect(&[0]);
        scene.backup_output("dump", "echo other").expect(&[0]);
        scene.server.admin(&["expire"]);
        // Only sealed packs are reclaimed. A restart seals them.
        scene.server.restart();
        let done = scene.server.admin(&["reclaim"]);
        assert!(done["packs_removed"].as_u64().unwrap() > 0, "{done}");
        // The chunks for which the node holds grants no longer exist.
        let report = if round == 0 {
            scene.backup_input("dump", &source)
        } else {
            scene.backup_output("dump", &command).expect(&[0]).json()
        };
        assert_eq!((&report["inspected"], &report["backed_up"]), (&1.into(), &1.into()));
        assert_eq!((&report["failed"], &report["retries"]), (&0.into(), &round.into()), "{report}");
        assert!(scene.stream("dump", &format!("out-{round}")) == content);
        scene.backup_output("dump", "echo other").expect(&[0]);
    }
}

#[test]
fn a_command_that_fails_leaves_the_last_version() {
    let scene = Scene::new();
    scene.backup_output("dump", "echo whole").expect(&[0]);
    let outcome = scene.backup_output("dump", "echo half; exit 3").expect(&[4]);
    outcome.counts(&[("failed", 1), ("backed_up", 0)]).says("exit status: 3");
    assert_eq!(scene.stream("dump", "out"), b"whole\n");
    let status = scene.node.run(&["status", "--json"]).expect(&[0]).json();
    assert_eq!(status["filespaces"][0]["at_risk"], false, "{status}");
    scene
        .backup_output("dump", "echo half; kill -9 $$")
        .expect(&[4])
        .says("signal: 9");
    assert_eq!(scene.node.list("/stdin/dump".as_ref(), &["--inactive"]).len(), 1);
}

#[test]
fn a_stream_that_waits_can_be_stopped() {
    let scene = Scene::new();
    let mark = scene.scratch.join("mark");
    let command = format!("echo half; touch {}; exec sleep 1000", mark.display());
    let running = scene.node.spawn(&["backup", "--stdin", "dump", "--stdin-command", &command]);
    while !is_there(&mark) {
        e2e::clock::pause(Duration::from_millis(10));
    }
    running.signal(Signal::TERM);
    let stopped = running.wait().expect(&[12]);
    stopped.says("nothing of the stream is kept, and its last version stays");
    scene.backup_output("other", "echo other").expect(&[0]);
    let kept = scene.node.list("/stdin".as_ref(), &[]);
    assert!(kept.iter().all(|row| !row.to_string().contains("dump")), "{kept:?}");
}

#[test]
fn streams_wait_for_each_other() {
    let scene = Scene::new();
    let (begun, go_on) = (scene.scratch.join("begun"), scene.scratch.join("go_on"));
    let (begun_shown, go_on_shown) = (begun.display(), go_on.display());
    let first =
        format!("touch {begun_shown}; until test -e {go_on_shown}; do sleep 0.1; done; echo first");
    let first = scene.node.spawn(&["backup", "--stdin", "first", "--stdin-command", &first]);
    while !is_there(&begun) {
        e2e::clock::pause(Duration::from_millis(10));
    }
    let second = ["backup", "--stdin", "second", "--stdin-command", "echo second"];
    let second = scene.node.spawn(&second);
    // This is longer than a backup of files waits.
    assert!(!second.ends_within(Duration::from_secs(7)));
    fs::write(&go_on, "").unwrap();
    first.wait().expect(&[0]);
    second.wait().expect(&[0]);
    assert_eq!(scene.stream("first", "out"), b"first\n");
    assert_eq!(scene.stream("second", "out2"), b"second\n");
}

#[test]
fn a_stream_has_one_name_and_nothing_else() {
    let scene = Scene::new();
    for name in ["a/b", "..", ""] {
        scene.backup_output(name, "true").expect(&[12]).says("not the name of a file");
    }
    let tree = scene.tree.to_str().unwrap();
    scene
        .node
        .run(&["backup", tree, "--stdin", "dump"])
        .expect(&[12])
        .says("--stdin");
    scene
        .node
        .run(&["backup", tree, "--stdin-command", "true"])
        .expect(&[12])
        .says("--stdin");
}

#[test]
fn commands_run_around_a_backup() {
    let scene = Scene::with_files(3, 100);
    let (before, behind) = (scene.scratch.join("before"), scene.scratch.join("behind"));
    let path = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&path).unwrap();
    let section = |pre: &str| {
        let behind = behind.display();
        format!("pre_command = \"{pre}\"\npost_command = \"echo $HOLDFAST_EXIT_CODE >> {behind}\"")
    };
    fs::write(&path, format!("{}\n{own}", section("exit 7"))).unwrap();
    let refused = scene.node.backup(&scene.tree, &[]).expect(&[12]);
    refused.says("ended with exit status: 7; nothing was backed up");
    assert!(!is_there(&behind));

    let pre =
        format!("echo new > {}/new; echo noise; touch {}", scene.tree.display(), before.display());
    fs::write(&path, format!("{}\n{own}", section(&pre))).unwrap();
    // Messages of the commands must not mix with the document on standard output.
    let outcome = scene.node.backup(&scene.tree, &[]).expect(&[0]);
    assert_eq!(outcome.json()["failed"], 0);
    assert!(is_there(&before) && is_there(&scene.restore("out", &[]).join("new")));
    assert_eq!(fs::read_to_string(&behind).unwrap(), "0\n");
    scene.node.backup(&scene.tree.join("missing"), &[]).expect(&[4, 12]);
    assert_ne!(fs::read_to_string(&behind).unwrap(), "0\n0\n");

    fs::remove_file(&before).unwrap();
    scene.node.backup(&scene.tree, &["--dry-run"]).expect(&[0]);
    assert!(!is_there(&before), "a dry run should not run the command");
    let tree = scene.tree.to_str().unwrap();
    let options = ["--pre-command", "", "--post-command", "exit 1"];
    scene
        .node
        .run(&[&["archive", tree][..], &options].concat())
        .expect(&[8])
        .says("exit status: 1");
    assert!(!is_there(&before), "an empty command should not run");
}

#[test]
fn an_application_goes_on_when_the_backup_is_stopped_before_it_began() {
    let scene = Scene::with_files(3, 100);
    let (begun, frozen) = (scene.scratch.join("begun"), scene.scratch.join("frozen"));
    let pre = format!("touch {} {}; sleep 1", begun.display(), frozen.display());
    let post = format!("test $HOLDFAST_EXIT_CODE = 12 && rm {}", frozen.display());
    let options = ["--pre-command", &pre, "--post-command", &post];
    let running = scene.node.spawn_backup(&scene.tree, &options);
    while !is_there(&begun) {
        e2e::clock::pause(Duration::from_millis(10));
    }
    running.signal(Signal::TERM);
    running.wait().expect(&[12]).says("stopped before the backup began");
    assert!(!is_there(&frozen));
    let words = ["list", scene.tree.to_str().unwrap(), "--json"];
    scene.node.run(&words).expect(&[12]).says("has no version of");
}

#[test]
fn a_failed_post_command_is_in_the_document_too() {
    let scene = Scene::with_files(3, 100);
    let done = scene.node.backup(&scene.tree, &["--post-command", "exit 5"]).expect(&[8]);
    let document = done.json();
    assert_eq!(document["exit_code"], 8, "{document}");
    assert!(document["warnings"].to_string().contains("exit status: 5"), "{document}");
}
