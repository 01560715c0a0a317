//! Schedules with real agents: what runs, what is reported, and what nobody may start.

mod agents;
mod deaths;
mod faults;

use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Node, Outcome, Server, start_with_home};
use e2e::scratch::Scratch;
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::plant_files;

/// Time within which something must have happened that needs a minute at most.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs `admin run --json` with these words.
fn try_run(server: &Server, words: &[&str]) -> Outcome {
    server.spawn_admin(&[&["run", "--json"], words].concat()).wait()
}

/// Returns the result at the only node, without the progress before it.
#[track_caller]
fn result(outcome: &Outcome) -> Value {
    let mut results = outcome.json_lines();
    results.retain(|line| line.get("progress").is_none());
    assert_eq!(results.len(), 1, "{outcome}");
    results.remove(0)
}

/// Runs a shell command at the node, and returns the event.
fn run_command(server: &Server, node: &str, command: &str) -> Value {
    result(&try_run(server, &[node, "--", "command", command]))
}

/// Starts a shell command at nodes, and does not wait for its end.
fn start_command(server: &Server, nodes: &[&str], command: &str) {
    let words = [nodes, &["--detach", "--", "command", command]].concat();
    try_run(server, &words).expect(&[0]);
}

/// Returns the name of the schedule that was made for the last action.
fn last_action(server: &Server) -> String {
    events(server, &[])[0]["schedule"].as_str().expect("a name").to_owned()
}

fn events(server: &Server, options: &[&str]) -> Vec<Value> {
    let mut all = vec!["event", "list", "--limit", "100000"];
    all.extend(options);
    server.try_admin(&all).expect(&[0]).json_lines()
}

fn state(event: &Value) -> &str {
    event["state"].as_str().expect("an event has a state")
}

/// Waits until `is_so`.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = clock::now() + PATIENCE;
    while !is_so() {
        assert!(clock::now() < end, "{what} takes too long");
        clock::pause(Duration::from_millis(100));
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Lets the node `web-01` run a command in some seconds. Its first attempt fails, and the next one
/// completes a minute later. Each adds a line to `file`.
fn define_two_attempts(server: &Server, file: &Path) {
    let command = format!("echo run >> {0}; test $(wc -l < {0}) = 2", file.display());
    let start = jiff::Timestamp::now() + Duration::from_secs(5);
    let start = start.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let define = ["schedule", "define", "once", "--action", "command", "--object", &command];
    let timing = ["--every", "4h", "--start", &start, "--window", "1h", "--spread", "0"];
    let retries = ["--zone", "UTC", "--retries", "2", "--retry-pause", "1m"];
    server.admin(&[&define[..], &timing, &retries].concat());
    server.admin(&["schedule", "associate", "once", "--node", "web-01"]);
}

#[test]
fn an_action_runs_at_once_and_its_result_is_kept() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let tree = scratch.folder("tree");
    std::fs::write(tree.join("file"), b"content").expect("is written");
    let _agent = node.spawn_agent();
    let tree_text = tree.to_str().expect("is text");
    let outcome = try_run(&server, &["web-01", "--", "backup", tree_text]).expect(&[0]);
    let event = result(&outcome);
    assert_eq!((state(&event), &event["code"]), ("completed", &Value::from(0)));
    assert_eq!(event["report"]["backed_up"], 2, "{event}");
    let planned: jiff::Timestamp = event["planned"].as_str().expect("text").parse().expect("time");
    let started: jiff::Timestamp = event["started"].as_str().expect("text").parse().expect("time");
    let wait = started.duration_since(planned);
    assert!(wait.as_secs() < 30, "a machine under load starts it within half a minute: {wait:?}");
    node.restore(&tree, &scratch.folder("out"), &[]).expect(&[0]);

    let failed = run_command(&server, "web-01", "echo first; echo last; exit 3");
    assert_eq!((state(&failed), &failed["code"]), ("failed", &Value::from(12)));
    assert_eq!(failed["reason"], "ended with code 3: last");
    assert_eq!(failed["log"], "first\nlast\n");
    let silent = run_command(&server, "web-01", "exit 3");
    assert_eq!(silent["reason"], "ended with code 3");
    let shown = node.run(&["agent", "status"]).expect(&[0]);
    assert!(shown.stdout.contains("ended with code 3: last"), "{shown}");
    let nowhere = scratch.join("nowhere");
    start_with_home(&nowhere, &["agent", "status"])
        .wait()
        .expect(&[12])
        .says("this machine is not enrolled");
    let nice = run_command(&server, "web-01", "nice");
    assert_eq!(nice["log"], "10\n", "a task gives way to other programs: {nice}");
    try_run(&server, &["web-01", "--", "mount", "/mnt"]).expect(&[12]);
    try_run(&server, &["--label", "none", "--", "backup"]).expect(&[12]);
}

#[test]
fn a_task_outlives_its_agent_and_is_reported_by_the_next_one() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let first = node.spawn_agent();
    let file = scratch.join("runs");
    let command = format!("echo run >> {}; sleep 5; exit 0", file.display());
    start_command(&server, &["web-01"], &command);
    wait_until("the task begins", || !lines(&file).is_empty());
    drop(first.kill9());
    wait_until("the server notices", || state(&events(&server, &[])[0]) == "severed");
    let _second = node.spawn_agent();
    wait_until("the event ends", || state(&events(&server, &[])[0]) == "completed");
    assert_eq!(lines(&file), ["run"], "the task ran once");

    // A task that is cut off together with its keeper may have had its effect: it is not repeated.
    let command = format!("echo run >> {}; sleep 100", file.display());
    start_command(&server, &["web-01"], &command);
    wait_until("the task begins", || lines(&file).len() == 2);
    kill_keeper(&node);
    wait_until("the event ends", || state(&events(&server, &[])[0]) == "uncertain");
    clock::pause(Duration::from_secs(1));
    assert_eq!(lines(&file).len(), 2);
}

/// No shell expands the objects of an action, so that a pattern was a path that does not exist.
#[test]
fn wildcards_of_an_action_stand_for_files_of_the_node() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let tree = scratch.folder("tree");
    for name in ["a.c", "b.c", "c.o", "*.o"] {
        std::fs::write(tree.join(name), name).expect("is written");
    }
    let _agent = node.spawn_agent();
    let at = |pattern: &str| format!("{}/{pattern}", tree.display());
    let sent = |work: &str, pattern: &str| {
        let outcome = try_run(&server, &["web-01", "--", work, &at(pattern)]).expect(&[0]);
        result(&outcome)["report"]["inspected"].clone()
    };
    for work in ["selective", "backup", "full", "archive"] {
        assert_eq!(sent(work, "*.c"), 2, "{work}");
    }
    assert_eq!(sent("selective", r"\*.o"), 1);
    let (there, absent) = (at("?.c"), at("*.x"));
    let outcome = try_run(&server, &["web-01", "--", "selective", &there, &absent]);
    let event = result(&outcome);
    assert_eq!(
        (&event["report"]["inspected"], &event["report"]["failed"]),
        (&Value::from(2), &Value::from(1))
    );
    let outcome = try_run(&server, &["web-01", "--", "archive", &absent]).expect(&[12]);
    let reason = result(&outcome)["reason"].as_str().expect("a reason").to_owned();
    assert!(reason.contains("*.x: nothing matches this pattern"), "{reason}");
    node.run(&["backup", &at("*.c")]).expect(&[12]).says("No such file");
}

/// A person was told that transfers end, before the sentence that the work goes on.
#[test]
fn a_signal_ends_only_the_look_at_an_action() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let look = server.spawn_admin(&["run", "web-01", "--", "command", "sleep 100"]);
    let now = || events(&server, &[]).first().map(|event| state(event).to_owned());
    wait_until("the task begins", || {
        now().is_some_and(|state| state == "started" || state == "in-progress")
    });
    look.await_handler(Signal::INT);
    look.signal(Signal::INT);
    let ended = look.wait().expect(&[12]).says("the action goes on at the nodes");
    assert!(!ended.stderr.contains("transfers"), "{ended}");
    assert_ne!(now().as_deref(), Some("failed"));
    server.admin(&["event", "cancel", &last_action(&server)]);
    wait_until("the task ends", || now().as_deref() == Some("failed"));
}

/// The look ended with the connection, and a script took that for the end of the action.
#[test]
fn the_look_at_an_action_goes_on_when_the_server_is_back() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let look = server.spawn_admin(&["run", "web-01", "--", "command", "sleep 8; echo all done"]);
    wait_until("the task begins", || {
        events(&server, &[])
            .first()
            .is_some_and(|event| matches!(state(event), "started" | "in-progress"))
    });
    server.kill9();
    // Longer than the pause between two looks.
    clock::pause(Duration::from_secs(4));
    server.restart();
    look.wait()
        .expect(&[0])
        .says("the server is away since")
        .says("the server is back after")
        .says("all done");

    let words = ["--wait", "1s", "run", "web-01", "--", "command", "sleep 3"];
    let look = server.spawn_admin(&words);
    wait_until("the next task begins", || {
        let all = events(&server, &[]);
        all.len() == 2 && matches!(state(&all[0]), "started" | "in-progress")
    });
    server.kill9();
    look.wait()
        .expect(&[12])
        .says("for the server")
        .says("the action goes on at the nodes");
}

/// Returns the process of the keeper of the node's last task.
fn keeper(node: &Node) -> i32 {
    let status = node.run(&["agent", "status", "--json"]).expect(&[0]);
    let event = status.json_lines().remove(0);
    let log = PathBuf::from(event["log"].as_str().expect("a path"));
    let begun = std::fs::read_to_string(log.with_file_name("begun")).expect("it has begun");
    begun.split(' ').next().expect("a number").parse().expect("a number")
}

/// Kills the keeper of the node's last task, and the task.
fn kill_keeper(node: &Node) {
    let keeper = keeper(node);
    let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"));
    for child in children.expect("it lives").split_whitespace() {
        let group = rustix::process::Pid::from_raw(child.parse().expect("a number"));
        rustix::process::kill_process_group(group.expect("a process"), Signal::KILL)
            .expect("the task is killed");
    }
    let keeper = rustix::process::Pid::from_raw(keeper).expect("a process");
    // The keeper may have written the end of its task meanwhile, but it was stopped first.
    rustix::process::kill_process(keeper, Signal::KILL).expect("the keeper is killed");
}

#[test]
fn work_is_cancelled_while_it_runs_and_before_it_begins() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let away = Node::enrol(&server, "web-02");
    let _agent = node.spawn_agent();
    let file = scratch.join("runs");
    let command = format!("echo run >> {}; sleep 100", file.display());
    start_command(&server, &["web-01", "web-02"], &command);
    wait_until("the task begins", || !lines(&file).is_empty());
    let action = last_action(&server);
    server.admin(&["event", "cancel", &action]);
    let event = || events(&server, &["--node", "web-01"]).remove(0);
    wait_until("the task ends", || state(&event()) == "failed");
    assert_eq!(event()["reason"], "cancelled by an administrator");
    let _late = away.spawn_agent();
    let event = || events(&server, &["--node", "web-02"]).remove(0);
    wait_until("the event ends", || state(&event()) == "failed");
    assert_eq!(event()["reason"], "cancelled by an administrator");
    assert_eq!(lines(&file), ["run"]);
    server
        .try_admin(&["event", "cancel", &action])
        .expect(&[12])
        .says("no event that is pending");
}

/// One connected agent made each stop take ten seconds.
#[test]
fn an_agent_does_not_hold_up_the_stop_of_the_server() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    let began = clock::now();
    server.terminate().expect(&[0]);
    assert!(clock::now().duration_since(began) < Duration::from_secs(8), "the call was cut off");
}

#[test]
fn what_a_node_forbids_stays_forbidden() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let config = node.home().join("client.toml");
    let mut text = std::fs::read_to_string(&config).expect("is read");
    text.push_str("[agent]\ncommands = [\"true\"]\nrestores = false\ncommands_around = false\n");
    std::fs::write(&config, text).expect("is written");
    let _agent = node.spawn_agent();
    let reason = |words: &[&str]| {
        let event = result(&try_run(&server, &[&["web-01", "--"], words].concat()));
        (state(&event).to_owned(), event["reason"].as_str().unwrap_or_default().to_owned())
    };
    let (is_failed, why) = reason(&["command", "id"]);
    assert_eq!(is_failed, "failed");
    assert!(why.contains("does not allow the server to start this command"), "{why}");
    assert!(reason(&["restore", "/etc/hosts"]).1.contains("to start restores"));
    assert!(reason(&["backup", "--pre-command=id", "/etc"]).1.contains("before or after"));
    try_run(&server, &["web-01", "--", "backup", "--stdin-command=id"])
        .expect(&[12])
        .says("does not take the option '--stdin-command=id'");
    assert_eq!(reason(&["command", "true"]), ("completed".to_owned(), String::new()));
}

#[test]
fn a_schedule_is_shown_changed_and_followed_by_label() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let _node = Node::enrol(&server, "web-01");
    let define = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    let defined = server.admin(&[&define[..], &["--zone", "Europe/Berlin"]].concat());
    assert_eq!(defined["timing"]["starts"]["calendar"]["times"], "22:00");
    server.try_admin(&define).expect(&[12]).says("exists already");
    let shown = server.admin(&["schedule", "show", "nightly"]);
    assert_eq!(shown["next_runs"].as_array().map(Vec::len), Some(20));
    let dry = server.admin(&["schedule", "update", "nightly", "--time", "23:00", "--dry-run"]);
    assert_eq!(dry["timing"]["starts"]["calendar"]["times"], "23:00");
    assert_eq!(server.admin(&["schedule", "show", "nightly"])["timing"], shown["timing"]);
    let changed = server.admin(&["schedule", "update", "nightly", "--days", "sat,sun"]);
    assert_eq!(changed["timing"]["starts"]["calendar"]["weekdays"], "sat,sun");
    server.admin(&["node", "set", "web-01", "--label", "web", "--label", "prod"]);
    assert_eq!(
        server.admin(&["node", "show", "web-01"])["labels"],
        serde_json::json!(["prod", "web"])
    );
    let followed = server.admin(&["schedule", "associate", "nightly", "--label", "web"]);
    assert_eq!(followed["labels"], serde_json::json!(["web"]));
    assert_eq!(followed["next_runs"].as_array().map(Vec::len), Some(20), "{followed}");
    assert_eq!(followed["next_run"], followed["next_runs"][0]);
    let unknown = ["schedule", "associate", "nightly", "--label", "web", "--label", "db"];
    let warned = server.try_admin(&unknown).expect(&[0]);
    assert_eq!(warned.json()["labels"], serde_json::json!(["db", "web"]));
    warned.says("No node has the label db now; nodes that get it later will run the schedule.");
    let warned = server.try_admin(&["schedule", "associate", "nightly", "--label", "web"]);
    assert!(!warned.expect(&[0]).stderr.contains("No node has"));
    start_command(&server, &["web-01"], "true");
    let names = |options: &[&str]| {
        let all = server.try_admin(&[&["schedule", "list"], options].concat()).json_lines();
        all.iter()
            .map(|one| one["schedule"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["nightly"]);
    let listed = server.try_admin(&["schedule", "list"]).expect(&[0]).json();
    let shown = server.admin(&["schedule", "show", "nightly"]);
    assert!(listed["next_run"].is_string(), "{listed}");
    assert_eq!(listed["next_run"], shown["next_runs"][0]);
    assert_eq!(listed.get("next_runs"), None, "the list has one run of each schedule");
    assert_eq!(names(&["--all"]), [last_action(&server), "nightly".to_owned()]);
    server
        .try_admin(&["schedule", "associate", "nightly"])
        .expect(&[12])
        .says("name nodes");
    server
        .try_admin(&["schedule", "associate", "nightly", "--node", "web-99"])
        .expect(&[12])
        .says("there is no node web-99");
    server
        .try_admin(&["schedule", "define", "x", "--action", "nap", "--time", "1:00"])
        .expect(&[12]);
    server
        .try_admin(&["schedule", "define", "x", "--action", "expire"])
        .expect(&[12])
        .says("say when it is done");
    server.admin(&["schedule", "delete", "nightly"]);
    server
        .try_admin(&["schedule", "show", "nightly"])
        .expect(&[12])
        .says("there is no schedule");
}

#[test]
fn a_schedule_names_its_nodes_and_a_node_its_schedules() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let nodes = ["web-01", "other"].map(|name| Node::enrol(&server, name));
    server.admin(&["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"]);
    server.admin(&["node", "set", "web-01", "--label", "web"]);
    server.admin(&["schedule", "associate", "nightly", "--label", "web"]);
    let shown = server.admin(&["schedule", "show", "nightly"]);
    assert_eq!(shown["followed_by"], serde_json::json!(["web-01"]));
    assert_eq!(shown["followed_by_total"], 1);
    let of = |node| server.try_admin(&["schedule", "list", "--node", node]).expect(&[0]);
    assert_eq!(of("web-01").json()["schedule"], "nightly");
    assert!(of("other").json_lines().is_empty());
    server
        .try_admin(&["schedule", "list", "--node", "web-99"])
        .expect(&[12])
        .says("there is no node web-99");
    // The node's own users see it, too, when the agent has received it.
    let of = |node: &Node| node.run(&["agent", "schedules", "--json"]).expect(&[0]).json_lines();
    let _agents = [nodes[0].spawn_agent(), nodes[1].spawn_agent()];
    wait_until("the node knows its schedule", || !of(&nodes[0]).is_empty());
    let known = of(&nodes[0]);
    assert_eq!((known.len(), &known[0]["schedule"]), (1, &"nightly".into()));
    assert!(known[0]["next_start"].is_string(), "{known:?}");
    let text = nodes[0].run(&["agent", "schedules"]).expect(&[0]);
    assert!(text.stdout.contains("incremental"), "{text}");
    assert!(of(&nodes[1]).is_empty());
}

#[test]
fn a_change_changes_something_and_leaves_nothing_out() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let define = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    server.admin(&[&define[..], &["--zone", "UTC"]].concat());
    let update = |until| server.admin(&["schedule", "update", "nightly", "--until", until]);
    assert_eq!(update("2099-12-31")["timing"]["last_day"], "2099-12-31");
    assert_eq!(update("none")["timing"].get("last_day"), None);
    let same = "nothing changes: schedule nightly has these settings already";
    for (options, refusal) in [
        (&[] as &[&str], same),
        (&["--time", "22:00"], same),
        (&["--until", "2099-12-31T10:00"], "give a day without a time"),
        (&["--every", "1h", "--start", "2027-01-01T06:00+05:00"], "by the schedule's time zone"),
        (&["--window", "90s"], "--window takes whole minutes"),
        (&["--retry-pause", "90s"], "--retry-pause takes whole minutes"),
        (&["--duration-max", "119s"], "--duration-max takes whole minutes"),
    ] {
        server
            .try_admin(&[&["schedule", "update", "nightly"], options].concat())
            .expect(&[12])
            .says(refusal);
    }
}

#[test]
fn events_are_listed_by_conditions_on_nodes_and_schedules() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let _node = Node::enrol(&server, "web-01");
    let define = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    server.admin(&define);
    server.admin(&["schedule", "associate", "nightly", "--node", "web-01"]);
    let list = ["event", "list", "--state", "future", "--limit", "3"];
    server.admin(&["node", "set", "web-01", "--label", "web"]);
    for (conditions, found) in [
        (&["--label", "web", "--domain", "standard", "--action", "incremental"][..], true),
        (&["--action", "backup"], true),
        (&["--text", "NIGHT"], true),
        (&["--text", "weekly"], false),
        (&["--label", "web", "--text", "weekly"], false),
        (&["--action", "expire"], false),
        (&["--schedule", "NIGHTLY", "--state", "Future, missed"], true),
        (&["--schedule", "nightly", "--text", "weekly"], false),
    ] {
        let list = [&list[..], conditions].concat();
        let future = server.try_admin(&list).expect(&[0]).json_lines();
        assert_eq!(!future.is_empty(), found, "{conditions:?}");
    }
    // The list names the server so.
    let own_work = [&list[..], &["--node", "(server)"]].concat();
    let of_server = || server.try_admin(&own_work).expect(&[0]).json_lines();
    assert!(of_server().is_empty(), "the schedule of a node is not the server's");
    server.admin(&["schedule", "define", "expiry", "--action", "expire", "--every", "1h"]);
    let found = of_server();
    assert!(found.iter().all(|event| event["schedule"] == "expiry"), "{found:?}");
    assert_eq!(found.len(), 3);
    server.try_admin(&["event", "list", "--node", "(server)"]).expect(&[0]);
    for (condition, refusal) in [
        (["--action", "nap"], "give one of incremental"),
        (["--domain", "NONE"], "there is no policy domain NONE"),
        (["--schedule", "nosuch"], "there is no schedule nosuch"),
        (["--label", "WEB"], "no node has the label WEB"),
        (["--state", "done"], "give future, pending"),
    ] {
        server
            .try_admin(&[&["event", "list"][..], &condition].concat())
            .expect(&[12])
            .says(refusal);
    }
    server
        .try_admin(&["event", "cancel", "abc"])
        .expect(&[12])
        .says("there is no schedule abc");
}

/// Nothing was shown until the last of many nodes had ended, and nobody said why a node waited.
#[test]
fn a_run_shows_each_result_as_it_ends_and_says_who_waits() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let nodes = ["web-01", "web-02", "web-03"].map(|name| Node::enrol(&server, name));
    for name in ["web-01", "web-02", "web-03"] {
        server.admin(&["node", "set", name, "--label", "web"]);
    }
    let _agent = nodes[0].spawn_agent();
    server.admin(&["node", "lock", "web-03"]);
    wait_until("the agent is connected", || {
        server.admin(&["node", "show", "web-01"])["agent_connected"] == true
    });
    try_run(&server, &["web-01", "web-03", "--", "command", "true"])
        .expect(&[12])
        .says("node web-03 is locked");
    let words = ["run", "--json", "--label", "web", "--", "command", "true"];
    let mut run = server.spawn_admin(&words);
    let first = loop {
        let line = run.next_line(PATIENCE).expect("web-01 ends");
        let line: Value = serde_json::from_str(&line).expect("a document");
        if line.get("progress").is_none() {
            break line;
        }
    };
    assert_eq!((&first["node"], state(&first)), (&"web-01".into(), "completed"), "{first}");
    // The other node has not begun.
    let _second = nodes[1].spawn_agent();
    run.wait()
        .expect(&[0])
        .says("Left out, because they are locked: 1 node: web-03.")
        .says("at most 1h: 1 node: web-02.");
    let only_first = ["--label", "web", "--", "command", "test $HOLDFAST_NODE = web-01"];
    let run = |first: &[&str]| server.spawn_admin(&[first, &only_first].concat()).wait();
    let spoken = run(&["run"]).expect(&[12]).says("web-01: completed, code 0");
    spoken.says("2 nodes: 1 completed; 1 failed. Not done at 1 node: web-02.");
    let quiet = run(&["run", "--quiet"]).expect(&[12]).says("web-02: failed");
    assert!(!quiet.stdout.contains("web-01"), "{quiet}");
}

/// A list of thousands of missed events ended after the hundredth, and nothing said so.
#[test]
fn a_list_of_events_that_ends_early_says_so() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    for number in 1..=34 {
        server.admin(&["node", "add", &format!("web-{number}")]);
    }
    for _ in 0..3 {
        try_run(&server, &["--domain", "STANDARD", "--detach", "--", "verify"]).expect(&[0]);
    }
    let listed = server.try_admin(&["event", "list"]).expect(&[0]).says("there may be more");
    assert_eq!(listed.json_lines().len(), 100);
    let listed = server.try_admin(&["event", "list", "--limit", "200"]).expect(&[0]);
    assert_eq!((listed.json_lines().len(), listed.stderr.as_str()), (102, ""));
}

/// Such schedules were accepted, and failed each night or were never found to be due.
#[test]
fn what_no_node_would_do_is_refused_when_it_is_defined() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let _node = Node::enrol(&server, "web-01");
    let define = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    server.admin(&define);
    server.admin(&["schedule", "associate", "nightly", "--node", "web-01"]);
    for (option, refusal) in [
        ("--bogus", "does not take the option"),
        ("--at", "does not take"),
        ("--compression=999", "the value must be standard, "),
    ] {
        let option = format!("--option={option}");
        server
            .try_admin(&["schedule", "update", "nightly", &option])
            .expect(&[12])
            .says(refusal);
    }
    let drain = ["schedule", "define", "x", "--action", "drain", "--object", "nopool"];
    for options in [&["--time", "1:00"][..], &["--time", "1:00", "--dry-run"]] {
        server.try_admin(&[&drain[..], options].concat()).expect(&[12]).says("nopool");
    }
    let none: &[&str] = &[];
    for action in ["audit-volumes", "reclaim-volumes"] {
        let define = ["schedule", "define", "x", "--action", action, "--object", "NOVOL"];
        for options in [none, &["--dry-run"], &["--object", "OTHER"]] {
            let words = [&define[..], &["--time", "1:00"], options].concat();
            server.try_admin(&words).expect(&[12]).says("NOVOL");
        }
    }
    for name in ["@9", "a\nb"] {
        server
            .try_admin(&[
                "schedule",
                "define",
                name,
                "--action",
                "expire",
                "--time",
                "1:00",
                "--dry-run",
            ])
            .expect(&[12])
            .says("cannot be the name of a schedule");
    }
    let never = ["schedule", "define", "never", "--action", "incremental", "--every", "1m"];
    let never =
        server.admin(&[&never[..], &["--window", "1m", "--blackout", "00:00-24:00"]].concat());
    assert_eq!(never["schedule"], "never");
    let shown = server.admin(&["schedule", "show", "never"]);
    assert_eq!(shown.get("next_runs"), None);
    let list = ["event", "list", "--state", "future", "--node", "web-01", "--limit", "3"];
    let future = server.try_admin(&list).expect(&[0]).json_lines();
    assert_eq!(future.len(), 3);
    assert_eq!((state(&future[0]), &future[0]["event"]), ("future", &Value::Null));
    assert!(future[0]["planned"].as_str() > future[1]["planned"].as_str());
}

/// The bytes counted when they waited for the network, so a small backup had all of them at once.
#[test]
fn progress_is_told_while_somebody_looks() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let tree = scratch.folder("tree");
    plant_files(&tree, 24, 1 << 20, 7);
    let _agent = node.spawn_agent();
    let tree = tree.to_str().expect("is text");
    let words = ["run", "--json", "web-01", "--", "backup", "--limit-rate-send=1M", tree];
    let mut run = server.spawn_admin(&words);
    let mut seen: Vec<String> = Vec::new();
    while seen.len() < 3 {
        let line = run.next_line(PATIENCE).expect("the backup goes on");
        let line: Value = serde_json::from_str(&line).expect("a document");
        assert_eq!((&line["node"], line.get("report")), (&"web-01".into(), None), "{line}");
        let progress = &line["progress"];
        if progress["bytes_transferred"].as_u64().is_some_and(|bytes| bytes > 0) {
            let bytes = progress["bytes"].as_u64().expect("a number");
            assert!(bytes < 20 << 20, "only what has arrived counts: {line}");
            seen.push(progress["line"].as_str().expect("text").to_owned());
            assert!(seen.iter().all(|line| line.contains("object")), "{seen:?}");
            seen.dedup();
        }
    }
    let number = events(&server, &[])[0]["event"].to_string();
    let shown = server.admin(&["event", "show", &number]);
    assert!(shown["progress"]["bytes_transferred"].as_u64() > Some(0), "{shown}");
    let outcome = run.wait().expect(&[0]);
    let event = result(&outcome);
    assert_eq!((state(&event), &event["code"]), ("completed", &0.into()));
    assert_eq!(event.get("progress"), None, "the work is done");
}

/// A report that the server never takes was repeated for ever, and each time ended the connection:
/// the node could not report anything else.
#[test]
fn a_report_that_is_refused_does_not_hold_up_the_others() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let first = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    drop(first.kill9());
    let status = node.run(&["agent", "status", "--json"]).expect(&[0]).json_lines().remove(0);
    let log = PathBuf::from(status["log"].as_str().expect("a path"));
    let event = log.ancestors().find(|folder| folder.join("event.json").is_file());
    let event = event.expect("the event has a folder").to_owned();
    // The window ends before it begins.
    let claim = std::fs::read(event.join("event.json")).expect("is read");
    let mut claim: Value = serde_json::from_slice(&claim).expect("a document");
    claim["closes"] = 1.into();
    std::fs::write(event.join("event.json"), claim.to_string()).expect("is written");
    std::fs::remove_file(event.join("confirmed")).expect("it was confirmed");
    let second = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    wait_until("the report is set aside", || event.join("confirmed").is_file());
    let said = second.kill9().stderr;
    assert!(said.contains("refuses the report of an event for good"), "{said}");
    assert!(!said.contains("no line to the server"), "{said}");
}

#[test]
fn an_event_that_is_paused_before_it_begins_is_held() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let file = scratch.join("runs");
    start_command(&server, &["web-01"], &format!("echo run >> {}", file.display()));
    let action = last_action(&server);
    server.admin(&["event", "pause", &action]);
    let _agent = node.spawn_agent();
    // Other work shows that the agent is there.
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    let held = || events(&server, &["--schedule", &action]).remove(0);
    assert_eq!((state(&held()), lines(&file)), ("pending", Vec::new()));
    server.admin(&["event", "resume", &action]);
    wait_until("the event ends", || state(&held()) == "completed");
    assert_eq!(lines(&file), ["run"]);
}

#[test]
fn a_further_attempt_is_made_though_the_schedule_has_changed() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let file = scratch.join("runs");
    define_two_attempts(&server, &file);
    let _agent = node.spawn_agent();
    let event = || events(&server, &[]).into_iter().next();
    wait_until("the first attempt fails", || event().is_some_and(|one| state(&one) == "failed"));
    let before = event().expect("exists");
    let shown = server.admin(&["event", "show", &before["event"].to_string()]);
    assert!(shown["next_attempt"].is_string(), "{shown}");
    let update = ["--every", "1d", "--start", "2031-01-01T00:00", "--window", "2h"];
    server.admin(&[&["schedule", "update", "once"], &update[..]].concat());
    wait_until("the second attempt ends", || event().is_some_and(|one| state(&one) == "completed"));
    let after = event().expect("exists");
    assert_eq!((&after["attempt"], lines(&file).len()), (&2.into(), 2));
    for key in ["event", "planned", "opens", "closes"] {
        assert_eq!(after[key], before[key], "the event stays the same: {key}");
    }
}

#[test]
fn the_audit_trail_names_who_changed_schedules_and_labels() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let _node = Node::enrol(&server, "web-01");
    let define = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    let own = format!("administrator (uid {})", rustix::process::geteuid().as_raw());
    assert_eq!(server.admin(&define)["changed_by"], own.as_str());
    server.admin(&["schedule", "associate", "nightly", "--label", "web"]);
    server.admin(&["schedule", "dissociate", "nightly", "--label", "web"]);
    server.admin(&["schedule", "update", "nightly", "--time", "23:00"]);
    server.admin(&["schedule", "delete", "nightly"]);
    start_command(&server, &["web-01"], "true");
    let action = last_action(&server);
    server.admin(&["event", "cancel", &action]);
    server.admin(&["node", "set", "web-01", "--label", "web", "--label", "old"]);
    server.admin(&["node", "set", "web-01", "--label", "new", "--unlabel", "old"]);
    server.admin(&["node", "set", "web-01", "--label", "new"]);
    let log = server.try_admin(&["log", "--limit", "9"]).expect(&[0]).json_lines();
    let text = |event: &Value, key: &str| event[key].as_str().expect("text").to_owned();
    assert!(log.iter().all(|event| text(event, "actor") == own), "{log:?}");
    let log: Vec<_> = log
        .iter()
        .rev()
        .map(|event| format!("{}: {}", text(event, "what"), text(event, "details")))
        .collect();
    let (started, cancelled) = (
        format!("action started: {action}: command at 1 node (web-01): true"),
        format!("events cancelled: {action}: 1 event"),
    );
    let expected = [
        "schedule defined: nightly",
        "schedule associated: nightly: label web",
        "schedule dissociated: nightly: label web",
        "schedule changed: nightly: times 22:00 -> 23:00",
        "schedule removed: nightly",
        started.as_str(),
        cancelled.as_str(),
        "node labels changed: web-01: +old +web",
        "node labels changed: web-01: +new -old",
    ];
    assert_eq!(log, expected);
}
