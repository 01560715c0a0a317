//! Settings from the centre: which source wins, versions, nodes that are first, agents that follow,
//! and backups that name no paths.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Image, Node, Outcome, Server, binary, is_root, start, start_with_home};
use e2e::scratch::Scratch;
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{Scene, plant_files};

/// Time within which an agent must have followed a change.
const PATIENCE: Duration = Duration::from_secs(180);
/// Size of a file that compression makes small.
const FILE_BYTES: usize = 300_000;

/// Adds lines to the beginning of the node's file, before its sections.
pub(crate) fn configure(node: &Node, lines: &str) {
    let path = node.home().join("client.toml");
    let text = fs::read_to_string(&path).expect("the node is enrolled");
    fs::write(&path, format!("{lines}\n{text}")).expect("is written");
}

fn explain(node: &Node, option: &str) -> Value {
    node.run(&["explain", "--option", option, "--json"]).expect(&[0]).json()
}

/// Text that compression makes small, and in which nothing repeats exactly.
fn text(name: &str) -> String {
    let lines = FILE_BYTES / (name.len() + 10);
    (0..lines).map(|number| format!("{number:08} {name}\n")).collect()
}

/// Returns true if a backup of a new compressible file compresses.
fn compresses(scene: &Scene, name: &str, options: &[&str]) -> (bool, Outcome) {
    fs::write(scene.tree.join(name), text(name)).expect("is written");
    let outcome = scene.node.backup(&scene.tree, options).expect(&[0]);
    let sent = outcome.count("bytes_transferred");
    (sent < FILE_BYTES as u64 / 2, outcome)
}

fn assign(server: &Server, node: &str, set: &str) {
    server.admin(&["node", "set", node, "--optionset", set]);
}

#[test]
fn force_comes_before_the_command_line_and_a_plain_option_after_the_file() {
    let scene = Scene::new();
    let server = &scene.server;
    let by_default = explain(&scene.node, "compression");
    assert_eq!(
        (&by_default["value"], &by_default["rank"]),
        (&"standard".into(), &"default".into())
    );

    server.admin(&["optionset", "define", "LINUX", "--option", "compression=none"]);
    assign(server, "anna", "LINUX");
    assert!(!compresses(&scene, "one", &[]).0, "the option set says none where the node is silent");
    assert!(compresses(&scene, "two", &["--compression", "5"]).0, "the command line comes first");

    configure(&scene.node, "[options]\ncompression = \"7\"");
    // The section ends before the keys of the file.
    let path = scene.node.home().join("client.toml");
    let text = fs::read_to_string(&path).expect("is read");
    let (section, keys) = text.split_at("[options]\ncompression = \"7\"\n".len());
    fs::write(&path, format!("{keys}\n{section}")).expect("is written");
    assert!(compresses(&scene, "three", &[]).0, "the file comes before a plain option");
    let of_node = explain(&scene.node, "compression");
    assert_eq!((&of_node["value"], &of_node["rank"]), (&7.into(), &"node".into()));
    assert!(of_node["source"].as_str().expect("text").contains("client.toml line"), "{of_node}");
    assert_eq!(of_node["others"][0]["value"], "none", "{of_node}");

    server.admin(&["optionset", "set", "LINUX", "--option", "compression=none", "--force"]);
    let (is_small, outcome) = compresses(&scene, "four", &["--compression", "5"]);
    assert!(!is_small, "force comes before the command line and the file");
    outcome.says("--compression did not count: option set LINUX version 2 forces");
    let forced = explain(&scene.node, "tuning.compression");
    assert_eq!((&forced["value"], &forced["rank"]), (&"none".into(), &"forced".into()));
    assert_eq!(
        (&forced["option_set"], &forced["option_set_version"]),
        (&"LINUX".into(), &2.into())
    );
    assert_eq!(forced["source"], "option set LINUX version 2 (force)");
    let all = scene.node.run(&["explain", "--option", "--json"]).expect(&[0]).json_lines();
    assert!(all.len() > 30, "all options are listed");
    let refused = scene.node.run(&["explain", "--option", "speed"]).expect(&[12]);
    refused.says("there is no option 'speed'");
}

#[test]
fn a_smaller_rate_of_ones_own_counts_beside_forced_limits() {
    let scene = Scene::new();
    let server = &scene.server;
    plant_files(&scene.tree, 6, 1 << 20, 5);
    let set = ["--option", "limits=send=50M receive=50M", "--force"];
    server.admin(&[&["optionset", "define", "WEB"][..], &set].concat());
    assign(server, "anna", "WEB");
    configure(&scene.node, "limit_rate_receive = \"2M\"");
    let explained = scene.node.run(&["explain", "--option", "limit-rate-receive"]).expect(&[0]);
    explained
        .says("limit-rate-receive = 2M")
        .says("option set WEB version 1 forces limits = ")
        .says(": the smaller limit counts");
    // 6 MiB take 3 seconds.
    let least = 2.0;
    let elapsed = |outcome: &Outcome| outcome.json()["elapsed_secs"].as_f64().expect("a number");
    let quiet = |outcome: &Outcome| !outcome.to_string().contains("did not count");
    let sent = scene.node.backup(&scene.tree, &["--limit-rate-send", "2M"]).expect(&[0]);
    assert!(elapsed(&sent) > least && quiet(&sent), "the option counts: {sent}");
    let out = scene.scratch.folder("of the file");
    let received = scene.node.restore(&scene.tree, &out, &[]).expect(&[0]);
    assert!(elapsed(&received) > least, "the file counts: {received}");
    let out = scene.scratch.folder("of the option");
    let received = scene.node.restore(&scene.tree, &out, &["--limit-rate=2M"]).expect(&[0]);
    assert!(elapsed(&received) > least && quiet(&received), "the option counts: {received}");

    let larger = ["--limit-rate-send", "60M"];
    let outcome = scene.node.backup(&scene.tree, &larger).expect(&[0]);
    outcome
        .says("--limit-rate-send did not count: option set WEB version 1 forces limits = ")
        .says("the limit of this time is smaller");
    let outcome = scene.node.backup(&scene.tree, &["--limit-rate=60M"]).expect(&[0]);
    outcome
        .says("--limit-rate did not count for what is sent: ")
        .says("--limit-rate did not count for what is received: ");

    let set = ["--option", "compression=19", "--option", "limit-rate-send=9M", "--force"];
    server.admin(&[&["optionset", "set", "WEB"][..], &set].concat());
    let options = ["--compression", "3", "--limit-rate", "1M"];
    let forces = "option set WEB version 2 forces";
    let outcome = scene.node.backup(&scene.tree, &options).expect(&[0]);
    let outcome = outcome
        .says(&format!("--compression did not count: {forces} compression = 19"))
        .says(&format!(
            "--limit-rate did not count for what is sent: {forces} limit-rate-send = 9M"
        ));
    assert!(!outcome.to_string().contains("for what is received"), "it counts there: {outcome}");
}

/// A warning said the same before.
#[test]
fn a_machine_that_is_not_enrolled_is_told_so_once() {
    let scratch = Scratch::new();
    let asked = start_with_home(&scratch.join("nowhere"), &["explain", "--option", "wait"]);
    let told = asked.wait().expect(&[12]).says("this machine is not enrolled");
    let both = [&told.stdout, &told.stderr].into_iter().flat_map(|text| text.lines());
    assert_eq!(both.filter(|line| line.contains("not enrolled")).count(), 1, "{told}");
}

#[test]
fn the_settings_that_came_last_hold_while_the_server_is_away() {
    let mut scene = Scene::new();
    scene.server.admin(&["optionset", "define", "SLOW", "--option", "wait=7s"]);
    scene
        .server
        .admin(&["optionset", "set", "SLOW", "--option", "deduplication=no", "--force"]);
    assign(&scene.server, "anna", "SLOW");
    scene.node.wait_by_default();
    scene.backup();
    scene.server.terminate().expect(&[0]);
    let found = scene.node.run(&["explain", "--option", "wait", "--json"]).expect(&[0]);
    let found = found.says("those that this node received last").json();
    assert_eq!((&found["value"], &found["rank"]), (&"7s".into(), &"if_not_set".into()));
    let found = explain(&scene.node, "deduplication");
    assert_eq!((&found["value"], &found["rank"]), (&false.into(), &"forced".into()));
    let before = clock::now();
    let away = scene.node.backup(&scene.tree, &[]).expect(&[12]);
    let waited = clock::now() - before;
    assert!(waited >= Duration::from_secs(6), "the wait of the option set: {waited:?}");
    assert!(waited < Duration::from_secs(60), "{waited:?}: {:?}", away.messages());
    scene.server.restart();
}

#[test]
fn versions_say_who_and_when_and_come_back() {
    let scene = Scene::new();
    let server = &scene.server;
    let list = scene.scratch.join("list");
    fs::write(&list, "exclude *.o\n").expect("is written");
    server.admin(&["optionset", "put", "LINUX", list.to_str().expect("text")]);
    let words = ["optionset", "update", "LINUX", "--option", "wait=2h", "--comment", "patience"];
    let changed = server.admin(&words);
    assert_eq!((&changed["version"], &changed["before"]), (&2.into(), &1.into()));
    assert_eq!(changed["changes"][0], "+ wait = 2h (if not set)");
    let dry = server.admin(&["optionset", "set", "LINUX", "--unset", "wait", "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["is_changed"]), (&true.into(), &true.into()));
    let same = server.admin(&["optionset", "set", "LINUX", "--option", "wait=2h"]);
    assert_eq!(same["is_changed"], false);
    let words = ["optionset", "set", "LINUX", "--option", "compression=19", "--unset", "wait"];
    server.admin(&words);

    let shown = server.admin(&["optionset", "show", "LINUX"]);
    assert_eq!((&shown["option_set"], &shown["version"]), (&"LINUX".into(), &3.into()));
    assert_eq!(shown["statements"][0], "exclude *.o");
    assert_eq!(shown["options"][0]["option"], "compression");
    assert_eq!(shown["options"][0]["force"], false);
    let old = server.admin(&["optionset", "show", "LINUX", "--version", "2"]);
    assert_eq!((&old["state"], &old["comment"]), (&"earlier".into(), &"patience".into()));
    let author = old["changed_by"].as_str().expect("text");
    assert!(author.starts_with("administrator (uid "), "{author}");
    let changed: jiff::Timestamp = old["changed"].as_str().expect("text").parse().expect("a time");
    assert!(jiff::Timestamp::now().duration_since(changed).as_secs() < 600);

    server.admin(&["optionset", "revert", "LINUX", "--to", "2"]);
    let history = server.admin(&["optionset", "history", "LINUX"]);
    let states: Vec<(u64, &str, &str)> = history
        .as_array()
        .expect("several")
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().expect("text");
            (one["version"].as_u64().expect("a number"), text("state"), text("comment"))
        })
        .collect();
    let expected = [
        (4, "in force", "as version 2"),
        (3, "earlier", ""),
        (2, "earlier", "patience"),
        (1, "earlier", ""),
    ];
    assert_eq!(states, expected);
    let log = server.admin(&["log"]);
    assert!(log.to_string().contains("LINUX: version 4 (as version 2)"), "{log}");

    let refuse = |words: &[&str], named: &str| {
        server.try_admin(words).expect(&[12]).says(named);
    };
    refuse(&["optionset", "define", "LINUX"], "exists already");
    refuse(&["optionset", "set", "NONE", "--option", "wait=1h"], "there is no option set NONE");
    refuse(&["node", "set", "anna", "--optionset", "NONE"], "there is no option set NONE");
    refuse(&["optionset", "set", "LINUX", "--option", "speed=1"], "there is no option 'speed'");
    refuse(&["optionset", "set", "LINUX", "--option", "wait=soon"], "wait");
    refuse(&["optionset", "set", "LINUX", "--option", "server=x"], "the node's own");
    refuse(&["optionset", "set", "LINUX", "--unset", "snapshot"], "has no option snapshot");
    refuse(&["optionset", "revert", "LINUX", "--to", "9"], "has no version 9");
    refuse(&["optionset", "show", "LINUX", "--version", "9"], "has no version 9");
    refuse(&["optionset", "promote", "LINUX"], "no version of the option set");
    refuse(&["optionset", "set", "LINUX", "--option", "wait=1h", "--first", "5%"], "no node has");
}

#[test]
fn a_version_goes_to_five_per_cent_of_the_nodes_first() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    stage(&server);
}

#[test]
fn a_version_is_staged_in_a_catalogue_in_postgresql_too() {
    let Some(cluster) = e2e::harness::Cluster::shared() else { return };
    let database = cluster.add_database();
    let scratch = Scratch::new();
    let pool = scratch.folder("pool");
    let options = ["--catalog", &cluster.url(&database), "--pool"];
    let pool = format!("file://{}", pool.display());
    let server =
        Server::start_with(&scratch.join("server"), &[&options[..], &[pool.as_str()]].concat());
    stage(&server);
}

/// Gives a version to one of ten nodes, then to all, and takes another one back.
fn stage(server: &Server) {
    let nodes: Vec<Node> =
        (0..10).map(|number| Node::enrol(server, &format!("node-{number}"))).collect();
    server.admin(&["optionset", "define", "LINUX", "--option", "wait=1h"]);
    nodes.iter().for_each(|node| assign(server, &node.name, "LINUX"));
    let versions = || -> Vec<u64> {
        let shown = |node: &Node| server.admin(&["node", "show", &node.name]);
        let version = |node| shown(node)["option_set_version"].as_u64().expect("a number");
        nodes.iter().map(version).collect()
    };
    assert_eq!(versions(), [1; 10]);
    let set = ["optionset", "set", "LINUX", "--option", "dirmc=LONG"];
    let staged = server.admin(&[&set[..], &["--first", "5%"]].concat());
    let first = staged["first_nodes"].as_array().expect("a list");
    assert_eq!((first.len(), &staged["nodes"]), (1, &10.into()), "{staged}");
    let name = first[0].as_str().expect("a name").to_owned();
    let expected: Vec<u64> =
        nodes.iter().map(|node| if node.name == name { 2 } else { 1 }).collect();
    assert_eq!(versions(), expected);
    for node in &nodes {
        let found = explain(node, "dirmc");
        let is_first = found["value"] == "LONG";
        assert_eq!(is_first, node.name == name, "{}: {found}", node.name);
    }
    let shown = server.admin(&["optionset", "show", "LINUX"]);
    assert_eq!((&shown["version"], &shown["staged"]["version"]), (&1.into(), &2.into()));
    assert_eq!(shown["staged"]["percent"], 5.0);
    assert_eq!(shown["staged"]["nodes"][0], name.as_str());
    assert_eq!(shown["nodes"].as_array().expect("a list").len(), 9);
    server.try_admin(&set).expect(&[12]).says("first promote or withdraw it");
    // A node that comes later has the version before.
    let late = Node::enrol(server, "late");
    assign(server, "late", "LINUX");
    assert_ne!(explain(&late, "dirmc")["value"], "LONG");

    server.admin(&["optionset", "promote", "LINUX"]);
    assert_eq!(versions(), [2; 10]);
    assert_eq!(explain(&late, "dirmc")["value"], "LONG");
    let words = ["optionset", "set", "LINUX", "--unset", "dirmc", "--first", "20%"];
    let staged = server.admin(&words);
    assert_eq!(staged["first_nodes"].as_array().expect("a list").len(), 3, "{staged}");
    server.admin(&["optionset", "withdraw", "LINUX"]);
    assert_eq!(versions(), [2; 10]);
    let history = server.admin(&["optionset", "history", "LINUX"]);
    assert_eq!((&history[0]["version"], &history[0]["state"]), (&3.into(), &"withdrawn".into()));
}

/// Waits until the server knows that the agent of the node `web-01` polls, and the agent has gone
/// away after its call. Returns what is shown of the node then.
#[track_caller]
fn await_away(server: &Server) -> Value {
    let end = clock::now() + PATIENCE;
    loop {
        let shown = server.admin(&["node", "show", "web-01"]);
        if shown["agent_connected"] == false && shown["agent_polled"].is_string() {
            return shown;
        }
        assert!(clock::now() < end, "the agent calls, and goes away: {shown}");
        clock::pause(Duration::from_millis(100));
    }
}

#[test]
fn an_agent_follows_its_settings_without_a_restart() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    server.admin(&["optionset", "define", "AGENTS", "--option", "agent-log-days=3"]);
    assign(&server, "web-01", "AGENTS");
    let agent = node.spawn_agent();
    let run = |command: &str| {
        let words = ["run", "--json", "web-01", "--", "command", command];
        server.spawn_admin(&words).wait().json_lines().pop().expect("a result")
    };
    assert_eq!(run("nice")["log"], "10\n", "tasks give way");
    server.admin(&["optionset", "set", "AGENTS", "--option", "agent-low-priority=no"]);
    let end = clock::now() + PATIENCE;
    while run("nice")["log"] != "0\n" {
        assert!(clock::now() < end, "tasks give way no longer");
    }
    // A right is only taken away.
    server.admin(&["optionset", "set", "AGENTS", "--option", "agent-commands=none"]);
    let end = clock::now() + PATIENCE;
    while run("true")["code"] != 12 {
        assert!(clock::now() < end, "commands are refused");
    }
    let words = ["optionset", "set", "AGENTS", "--option", "agent-mode=polling", "--force"];
    server.admin(&words);
    // Nothing but the agent talks with the server, so it is the agent that keeps the option set.
    let kept = node.home().join("option-set.json");
    let end = clock::now() + PATIENCE;
    while !fs::read_to_string(&kept).is_ok_and(|text| text.contains("polling")) {
        assert!(clock::now() < end, "the agent hears of the change");
        clock::pause(Duration::from_millis(100));
    }
    await_away(&server);
    // An agent that is away does not hear of an action at once.
    let words = ["run", "--detach", "web-01", "--", "command", "true"];
    server
        .spawn_admin(&words)
        .wait()
        .expect(&[0])
        .says("These poll, and begin when they call");
    clock::pause(Duration::from_secs(3));
    let events = server.try_admin(&["event", "list"]).expect(&[0]).json_lines();
    assert!(events.iter().any(|event| event["state"] == "pending"), "{events:?}");
    agent.signal(Signal::TERM);
    agent.wait().says("mode=polling");
    let found = node.run(&["explain", "--option", "agent-mode"]).expect(&[0]);
    found.says("agent-mode = polling").says("(force)");
}

#[test]
fn an_agent_that_polls_is_not_away_after_a_restart_of_the_server() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let path = node.home().join("client.toml");
    let enrolled = fs::read_to_string(&path).expect("the node is enrolled");
    let agent = "[agent]\nmode = \"polling\"\npoll_minutes = 60\n";
    fs::write(&path, format!("{enrolled}\n{agent}")).expect("is written");
    let agent = node.spawn_agent();
    let before = await_away(&server);
    // An action now waits for the next call, which the server knows.
    let words = ["--json", "run", "--detach", "web-01", "--", "command", "true"];
    let run = server.spawn_admin(&words).wait().expect(&[0]);
    let started = run.says("These poll, and begin when they call: 1 node: web-01").json();
    assert_eq!(started["polling"][0]["node"], "web-01");
    assert_eq!(started["polling"][0]["last_call"], before["agent_polled"], "{started}");
    assert!(started["polling"][0]["next_call"].is_string(), "{started}");
    assert_eq!(started["polling"][0]["next_call"], before["agent_next_poll"], "{before}");
    let define = ["schedule", "define", "often", "--action", "verify", "--every", "2m"];
    server.admin(&[&define[..], &["--window", "1m"]].concat());
    let hears_late = "may hear of this only after the window of the next run has closed";
    for command in [
        &["schedule", "associate", "often", "--node", "web-01"][..],
        &["schedule", "update", "often", "--every", "3m"],
    ] {
        server.try_admin(command).expect(&[0]).says(hears_late);
    }
    // No agent calls the server after its start.
    agent.kill9();
    server.restart();
    let shown = |server: &Server| server.admin(&["node", "show", "web-01"]);
    let after = shown(&server);
    assert_eq!(after["agent_polled"], before["agent_polled"], "{after}");
    server.travel("4h");
    assert_eq!(shown(&server)["agent_polled"], Value::Null, "it has missed three calls");
}

#[test]
fn an_option_of_a_schedule_comes_before_force() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let words = ["optionset", "define", "NONE", "--option", "compression=none", "--force"];
    server.admin(&words);
    assign(&server, "web-01", "NONE");
    let tree = scratch.folder("tree");
    let tree_text = tree.to_str().expect("text");
    let _agent = node.spawn_agent();
    let sent = |name: &str, options: &[&str]| {
        fs::write(tree.join(name), text(name)).expect("is written");
        let words = [&["run", "--json", "web-01", "--", "backup", tree_text], options].concat();
        let event = server.spawn_admin(&words).wait().json_lines().pop().expect("a result");
        assert_eq!(event["state"], "completed", "{event}");
        event["report"]["bytes_transferred"].as_u64().expect("a number")
    };
    assert!(sent("first", &[]) > FILE_BYTES as u64 / 2, "the option set forces no compression");
    assert!(sent("second", &["--compression=5"]) < FILE_BYTES as u64 / 2, "the schedule decides");
}

#[test]
fn what_the_node_forbids_no_option_set_allows() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let tree = scratch.folder("tree");
    let mark = scratch.join("mark");
    let path = node.home().join("client.toml");
    let text = fs::read_to_string(&path).expect("is read");
    let forbids = "[agent]\nrestores = false\ncommands = \"none\"\ncommands_around = false\n";
    fs::write(&path, format!("{text}\n{forbids}")).expect("is written");
    let command = format!("pre-command=touch {}", mark.display());
    let words = ["optionset", "define", "ALL", "--option", &command, "--force"];
    server.admin(&words);
    for right in ["agent-commands=all", "agent-restores=yes", "agent-commands-around=Yes"] {
        server
            .try_admin(&["optionset", "set", "ALL", "--option", right, "--force"])
            .expect(&[12])
            .says("can only take a right of the server away: an option set can only set no");
    }
    server
        .try_admin(&["optionset", "set", "ALL", "--option", "wait=1h", "--option", "WAIT=2h"])
        .expect(&[12])
        .says("the option wait is given twice");
    assign(&server, "web-01", "ALL");
    node.backup(&tree, &[]).expect(&[0]);
    assert!(!mark.try_exists().expect("can be looked at"), "no command of the server ran");
    let found = explain(&node, "agent-commands");
    assert_eq!((&found["value"], &found["rank"]), (&"none".into(), &"node".into()));
    let found = explain(&node, "pre-command");
    assert_eq!(found["rank"], "default");
    // The same command runs at a node that allows it, at its first backup.
    fs::write(&path, text).expect("is written");
    node.backup(&tree, &[]).expect(&[0]);
    assert!(mark.try_exists().expect("can be looked at"), "the command ran");
}

/// Returns the names of what is stored below `point`, sorted.
fn stored_names(node: &Node, point: &Path) -> Vec<String> {
    let rows = node.list(point, &["--recursive"]);
    let mut names: Vec<String> = rows
        .iter()
        .filter_map(|row| Path::new(row["path"].as_str()?).file_name()?.to_str())
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[test]
fn a_backup_alone_takes_the_paths_of_the_settings() {
    let scene = Scene::new();
    let other = scene.scratch.folder("other");
    fs::write(other.join("file"), b"content").expect("is written");
    fs::write(scene.tree.join("file"), b"content").expect("is written");
    let paths = format!("paths = ['{}']", scene.tree.display());
    configure(&scene.node, &paths);
    let alone = scene.node.run(&["backup", "--json"]).expect(&[0]);
    let alone = alone
        .says(&format!("backing up {}", scene.tree.display()))
        .counts(&[("backed_up", 2), ("failed", 0)]);
    drop(alone);
    // The option set names another path, and holds at once.
    let option = format!("paths={}", other.display());
    scene
        .server
        .admin(&["optionset", "define", "DATA", "--option", &option, "--force"]);
    assign(&scene.server, "anna", "DATA");
    let alone = scene.node.run(&["backup", "--json"]).expect(&[0]);
    alone
        .says(&format!("backing up {}", other.display()))
        .counts(&[("backed_up", 2)]);
    let named = scene.node.backup(&scene.tree, &["--dry-run"]).expect(&[0]);
    assert_eq!(named.json()["planned"], Value::Array(Vec::new()), "{named}");
    configure(&scene.node, "");
    let path = scene.node.home().join("client.toml");
    let text = fs::read_to_string(&path).expect("is read").replace(&paths, "paths = ['home']");
    fs::write(&path, text).expect("is written");
    scene.node.run(&["backup"]).expect(&[12]).says("paths");
}

/// Runs the program in a mount namespace of its own, after the shell commands `before`.
fn in_namespace(node: &Node, before: &str, arguments: &[&str]) -> Outcome {
    let script = format!("{before}\nexec \"$@\"");
    let mut words: Vec<OsString> =
        ["--mount", "--propagation", "private", "sh", "-ec", &script, "sh"]
            .map(OsString::from)
            .to_vec();
    words.push(binary().into());
    words.push(arguments[0].into());
    words.extend(["--home".into(), node.home().into()]);
    words.extend(arguments[1..].iter().map(OsString::from));
    start(Path::new("unshare"), &words, node.home(), None).wait()
}

/// Mount points that a list of mounts takes, without `except`.
fn taken(explained: &Value, except: &Path) -> Vec<String> {
    let mounts = explained["file_systems"].as_array().expect("a list");
    let is_taken = |mount: &&Value| mount["taken"] == true;
    let points = mounts.iter().filter(is_taken).filter_map(|mount| mount["mount_point"].as_str());
    points.filter(|point| Path::new(point) != except).map(str::to_owned).collect()
}

#[test]
fn a_backup_alone_takes_the_local_file_systems_of_real_disks() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let folder = |name: &str| scene.scratch.folder(name);
    let (disk, below, bind) = (folder("disk"), "disk/below", folder("bind"));
    let memory = folder("memory");
    let images = ["one", "two"].map(|name| scene.scratch.join(&format!("{name}.img")));
    if !images
        .iter()
        .all(|image| Image::make(image, 16 << 20, &["mkfs.ext4", "-q", "-F"]))
    {
        e2e::skip::say("mkfs.ext4 does not work on this machine");
        return;
    }
    let below = scene.scratch.join(below);
    let mounts = format!(
        "mount -o loop {one} {disk}\nmkdir -p {below} {disk}/part\nmount -o loop {two} {below}\n\
         mount --bind {disk}/part {bind}\nmount -t tmpfs none {memory}\n\
         echo 1 > {disk}/upper\necho 2 > {below}/lower\necho 3 > {disk}/part/bound\n\
         echo 4 > {memory}/lost",
        one = images[0].display(),
        two = images[1].display(),
        disk = disk.display(),
        below = below.display(),
        bind = bind.display(),
        memory = memory.display(),
    );
    let explained = in_namespace(&scene.node, &mounts, &["explain", "--option", "paths", "--json"]);
    if explained.code() == 32 || explained.code() == 1 {
        e2e::skip::say("a loop mount does not work on this machine");
        return;
    }
    let explained = explained.expect(&[0]).json();
    assert_eq!((&explained["value"], &explained["rank"]), (&"all-local".into(), &"default".into()));
    let others: Vec<String> = taken(&explained, &disk)
        .into_iter()
        .filter(|point| Path::new(point) != below)
        .collect();
    assert!(!others.is_empty(), "the disk with the test is a local file system: {explained}");
    // Other disks of the machine are left out, so that the test is the same everywhere.
    let words: Vec<String> = others.iter().map(|point| format!("'-{point}'")).collect();
    configure(&scene.node, &format!("paths = ['all-local', '-/no/disk', {}]", words.join(", ")));
    let dry = in_namespace(&scene.node, &mounts, &["backup", "--dry-run", "--json"]).expect(&[0]);
    assert_eq!(dry.json()["dry_run"], true);
    let alone = in_namespace(&scene.node, &mounts, &["backup", "--json"]).expect(&[0]);
    let alone = alone
        .says(&format!("backing up {} (ext4)", disk.display()))
        .says(&format!("backing up {} (ext4)", below.display()))
        .says(&format!("leaving out {} (ext4): its files are also at", bind.display()))
        .says("the setting paths leaves out /no/disk, where no local disk is mounted");
    let report = alone.json();
    assert_eq!(report["filespaces"].as_array().expect("a list").len(), 2, "{report}");
    assert_eq!(taken(&report, &disk), [below.to_str().expect("text")], "{report}");
    let mut listed = report["file_systems"].as_array().expect("a list").iter();
    let bound = listed.find(|mount| mount["mount_point"] == bind.to_str().expect("text"));
    assert_eq!(bound.expect("is named")["taken"], false, "{report}");
    let names = |point: &Path| stored_names(&scene.node, point);
    let upper = names(&disk);
    assert!(
        upper.contains(&"upper".to_owned()) && upper.contains(&"bound".to_owned()),
        "{upper:?}"
    );
    assert!(names(&below).contains(&"lower".to_owned()));
    assert!(!upper.contains(&"lower".to_owned()), "nothing is backed up twice: {upper:?}");
    let crossing = in_namespace(&scene.node, &mounts, &["backup", "--cross-filesystems"]);
    crossing.expect(&[12]).says("each local file system is backed up itself");
}
