//! Schedules with real agents: what runs, what is reported, and what nobody may start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Node, Outcome, Process, Server};
use e2e::scratch::Scratch;
use rustix::process::Signal;
use serde_json::Value;

/// Time within which something must have happened that needs a minute at most.
const PATIENCE: Duration = Duration::from_secs(180);

/// Starts the node's agent. Lines of the log that nobody reads are dropped with it.
fn agent(node: &Node) -> Process {
    node.spawn(&["agent", "run"])
}

/// Runs `admin run --json` with these words.
fn try_run(server: &Server, words: &[&str]) -> Outcome {
    server.spawn_admin(&[&["run", "--json"], words].concat()).wait()
}

/// Runs a shell command at the node, and returns the event.
fn run_command(server: &Server, node: &str, command: &str) -> Value {
    try_run(server, &[node, "--", "command", command]).json_lines().remove(0)
}

/// Starts a shell command at nodes, and does not wait for its end.
fn start_command(server: &Server, nodes: &[&str], command: &str) {
    let words = [nodes, &["--detach", "--", "command", command]].concat();
    try_run(server, &words).expect(&[0]);
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

#[test]
fn an_action_runs_at_once_and_its_result_is_kept() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let tree = scratch.folder("tree");
    std::fs::write(tree.join("file"), b"content").expect("is written");
    let _agent = agent(&node);
    let tree_text = tree.to_str().expect("is text");
    let outcome = try_run(&server, &["web-01", "--", "backup", tree_text]).expect(&[0]);
    let event = outcome.json_lines().remove(0);
    assert_eq!((state(&event), &event["code"]), ("completed", &Value::from(0)));
    assert_eq!(event["report"]["backed_up"], 2, "{event}");
    let planned: jiff::Timestamp = event["planned"].as_str().expect("text").parse().expect("time");
    let started: jiff::Timestamp = event["started"].as_str().expect("text").parse().expect("time");
    let wait = started.duration_since(planned);
    assert!(wait.as_secs() < 30, "a machine under load starts it within half a minute: {wait:?}");
    node.restore(&tree, &scratch.folder("out"), &[]).expect(&[0]);

    let failed = run_command(&server, "web-01", "echo first; echo last; exit 3");
    assert_eq!((state(&failed), &failed["code"]), ("failed", &Value::from(12)));
    assert_eq!((&failed["reason"], &failed["log"]), (&"last".into(), &"first\nlast\n".into()));
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
    let first = agent(&node);
    let file = scratch.join("runs");
    let command = format!("echo run >> {}; sleep 5; exit 0", file.display());
    start_command(&server, &["web-01"], &command);
    wait_until("the task begins", || !lines(&file).is_empty());
    drop(first.kill9());
    wait_until("the server notices", || state(&events(&server, &[])[0]) == "severed");
    let _second = agent(&node);
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

/// Kills the keeper of the node's last task, and the task.
fn kill_keeper(node: &Node) {
    let status = node.run(&["agent", "status", "--json"]).expect(&[0]);
    let event = status.json_lines().remove(0);
    let log = PathBuf::from(event["log"].as_str().expect("a path"));
    let begun = std::fs::read_to_string(log.with_file_name("begun")).expect("it has begun");
    let keeper: i32 = begun.split(' ').next().expect("a number").parse().expect("a number");
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
    let _agent = agent(&node);
    let file = scratch.join("runs");
    let command = format!("echo run >> {}; sleep 100", file.display());
    start_command(&server, &["web-01", "web-02"], &command);
    wait_until("the task begins", || !lines(&file).is_empty());
    server.admin(&["event", "cancel", "@1"]);
    let event = || events(&server, &["--node", "web-01"]).remove(0);
    wait_until("the task ends", || state(&event()) == "failed");
    assert_eq!(event()["reason"], "cancelled by an administrator");
    let _late = agent(&away);
    let event = || events(&server, &["--node", "web-02"]).remove(0);
    wait_until("the event ends", || state(&event()) == "failed");
    assert_eq!(event()["reason"], "cancelled by an administrator");
    assert_eq!(lines(&file), ["run"]);
    server
        .try_admin(&["event", "cancel", "@1"])
        .expect(&[12])
        .says("no event that is pending");
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
    let _agent = agent(&node);
    let reason = |words: &[&str]| {
        let outcome = try_run(&server, &[&["web-01", "--"], words].concat());
        let event = outcome.json_lines().remove(0);
        (state(&event).to_owned(), event["reason"].as_str().unwrap_or_default().to_owned())
    };
    let (is_failed, why) = reason(&["command", "id"]);
    assert_eq!(is_failed, "failed");
    assert!(why.contains("does not allow the server to start this command"), "{why}");
    assert!(reason(&["restore", "/etc/hosts"]).1.contains("to start restores"));
    assert!(reason(&["backup", "--pre-command=id", "/etc"]).1.contains("before and after"));
    assert!(reason(&["backup", "--stdin-command=id"]).1.contains("is not allowed"));
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

/// Number of nodes, and seconds for which they are disturbed.
fn extent() -> (usize, u64) {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let nodes = number("HOLDFAST_FLEET_NODES", 5);
    (usize::try_from(nodes).expect("a small number"), number("HOLDFAST_FLEET_SECS", 60))
}

/// Each node runs a command each minute, while the server and the agents are killed at random. No
/// event is lost, none runs twice.
#[test]
fn no_event_is_lost_or_runs_twice_while_agents_and_the_server_die() {
    let (count, secs) = extent();
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let runs = scratch.folder("runs");
    let command = format!("echo $HOLDFAST_PLANNED >> {}/$HOLDFAST_NODE; sleep 2", runs.display());
    let define = ["schedule", "define", "often", "--action", "command", "--object", &command];
    let timing = ["--every", "1m", "--window", "1m", "--spread", "25"];
    server.admin(&[&define[..], &timing].concat());
    server.admin(&["schedule", "associate", "often", "--domain", "STANDARD"]);
    let nodes: Vec<Node> = (0..count)
        .map(|number| Node::enrol(&server, &format!("node-{number}")))
        .collect();
    let mut agents: Vec<Process> = nodes.iter().map(agent).collect();
    let end = clock::now() + Duration::from_secs(secs);
    let mut turn = 0;
    while clock::now() < end {
        clock::pause(Duration::from_millis(1500));
        turn += 1;
        let victim = turn * 7 % count;
        agents.remove(victim).kill9();
        agents.insert(victim, agent(&nodes[victim]));
        if turn % 5 == 0 {
            server.kill9();
            clock::pause(Duration::from_secs(2));
            server.restart();
        }
    }
    server.admin(&["schedule", "update", "often", "--suspended", "yes"]);
    wait_until("the last events end", || {
        let open = ["pending", "started", "in-progress", "restarted", "severed"];
        events(&server, &[]).iter().all(|event| !open.contains(&state(event)))
    });
    check_events(&server, &nodes, &runs);
}

/// Compares the events of all nodes with what their commands have written.
fn check_events(server: &Server, nodes: &[Node], runs: &Path) {
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        let written = lines(&runs.join(&node.name));
        let mut once = written.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), written.len(), "{}: an event ran twice: {written:?}", node.name);
        let mut completed = Vec::new();
        for event in events(server, &["--node", &node.name]) {
            let planned: jiff::Timestamp =
                event["planned"].as_str().expect("text").parse().expect("a time");
            let planned = planned.as_microsecond().to_string();
            *states.entry(state(&event).to_owned()).or_default() += 1;
            match state(&event) {
                "completed" => completed.push(planned),
                "missed" => assert!(!written.contains(&planned), "{event}"),
                other => panic!("{}: {other}: {event}", node.name),
            }
        }
        completed.sort();
        assert_eq!(completed, once, "{}: each run has an event", node.name);
    }
    assert!(states.contains_key("completed"), "{states:?}");
}
