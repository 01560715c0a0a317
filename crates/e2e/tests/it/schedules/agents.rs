//! Agents that are copied, restarted, paused and out of time.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Node, Server, start_with_home};
use e2e::scratch::Scratch;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::{
    events, keeper, last_action, lines, run_command, start_command, state, try_run, wait_until,
};
use crate::scene::plant_files;

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

fn audit(server: &Server, what: &str) -> Vec<Value> {
    let mut log = server.try_admin(&["log", "--limit", "1000"]).expect(&[0]).json_lines();
    log.retain(|event| event["what"] == what);
    log
}

/// Two agents of one node carried out each event twice, and nobody noticed.
#[test]
fn a_copied_node_begins_nothing_while_the_first_one_lives() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let first = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    let copy = scratch.join("copy");
    copy_folder(node.home(), &copy);
    let second = start_with_home(&copy, &["agent", "run"]);
    wait_until("the second agent is refused", || {
        !audit(&server, "second agent refused").is_empty()
    });
    let details = audit(&server, "second agent refused")[0]["details"].to_string();
    assert!(details.contains("web-01 at 127.0.0.1"), "{details}");
    let status = || start_with_home(&copy, &["agent", "status"]).wait().expect(&[0]);
    wait_until("the agent knows it", || status().stderr.contains("begins nothing"));
    status().says("another agent of node web-01 lives");

    let file = scratch.join("runs");
    let command = format!("echo $PPID >> {}", file.display());
    let define = ["schedule", "define", "soon", "--action", "command", "--object", &command];
    let soon = jiff::Timestamp::now() + Duration::from_secs(5);
    let soon = soon.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let timing = ["--every", "4h", "--start", &soon, "--window", "1h", "--spread", "0"];
    server.admin(&[&define[..], &timing, &["--zone", "UTC"]].concat());
    server.admin(&["schedule", "associate", "soon", "--node", "web-01"]);
    let of_soon = || events(&server, &["--schedule", "soon"]);
    wait_until("the event ends", || of_soon().iter().any(|one| state(one) == "completed"));
    clock::pause(Duration::from_secs(3));
    assert_eq!(lines(&file).len(), 1, "the event ran once");

    // The same agent comes back at once, and the copy is admitted once the first one is gone.
    drop(first.kill9());
    let again = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    drop(again.kill9());
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    assert!(!status().stderr.contains("begins nothing"));
    drop(second.kill9());
}

/// The column was empty, because the first report of such an event says that it has ended.
#[test]
fn an_event_that_ran_while_the_server_was_away_has_a_start() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let file = scratch.join("runs");
    let command = format!("echo run >> {}", file.display());
    let define = ["schedule", "define", "soon", "--action", "command", "--object", &command];
    let soon = jiff::Timestamp::now() + Duration::from_secs(30);
    let soon = soon.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let timing = ["--every", "4h", "--start", &soon, "--window", "1h", "--spread", "0"];
    server.admin(&[&define[..], &timing, &["--zone", "UTC"]].concat());
    server.admin(&["schedule", "associate", "soon", "--node", "web-01"]);
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    server.kill9();
    wait_until("the event begins", || !lines(&file).is_empty());
    clock::pause(Duration::from_secs(2));
    server.restart();
    let event = || events(&server, &["--schedule", "soon"]).into_iter().next();
    wait_until("the event is reported", || event().is_some_and(|one| state(&one) == "completed"));
    let event = event().expect("exists");
    let time = |key: &str| -> jiff::Timestamp {
        let text = event[key].as_str().unwrap_or_else(|| panic!("{key} of {event}"));
        text.parse().expect("a time")
    };
    // The agent has measured the server's clock again since, a few milliseconds differently.
    let opens = time("opens") - Duration::from_secs(1);
    assert!(opens <= time("started") && time("started") <= time("ended"), "{event}");
}

/// A backup that waited for the server held up all other schedules of its node.
#[test]
fn a_command_runs_while_a_backup_waits_for_the_server() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    node.wait_by_default();
    let _agent = node.spawn_agent();
    let file = scratch.join("runs");
    let command = format!("echo run >> {}", file.display());
    let soon = jiff::Timestamp::now() + Duration::from_secs(30);
    let soon = soon.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let timing = ["--every", "4h", "--start", &soon, "--window", "1h", "--spread", "0"];
    let define = |name: &str, order: &str, action: &str, object: &str| {
        let words = ["schedule", "define", name, "--action", action, "--object", object];
        server.admin(&[&words[..], &timing, &["--zone", "UTC", "--order", order]].concat());
        server.admin(&["schedule", "associate", name, "--node", "web-01"]);
    };
    define("backup", "1", "incremental", "/etc");
    define("dump", "2", "command", &command);
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    server.kill9();
    wait_until("the command runs", || !lines(&file).is_empty());
    let of = |schedule: &str| {
        let status = node.run(&["agent", "status", "--json"]).expect(&[0]).json_lines();
        let found = status.into_iter().find(|event| event["schedule"] == schedule);
        found.map_or_else(|| "absent".to_owned(), |event| state(&event).to_owned())
    };
    wait_until("the backup waits for the server", || of("backup") == "running");
    server.restart();
    let completed = |schedule: &str| {
        let ended = events(&server, &["--schedule", schedule, "--state", "completed"]);
        ended.len() == 1
    };
    wait_until("both are reported", || completed("backup") && completed("dump"));
    assert_eq!(lines(&file).len(), 1, "the command ran once");
}

#[test]
fn nothing_starts_in_a_blackout() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let now = jiff::Timestamp::now();
    let shown = |at: jiff::Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let soon = shown(now + Duration::from_secs(20));
    let minute = |at: jiff::Timestamp| at.strftime("%Y-%m-%dT%H:%M").to_string();
    let hour = Duration::from_secs(3600);
    // The blackout ends within the window, and after this test.
    let blackout = format!("{}..{}", minute(now - hour), minute(now + hour));
    let file = |name: &str| scratch.join(name);
    let define = |name: &str, options: &[&str]| {
        let command = format!("echo run >> {}", file(name).display());
        let words = ["schedule", "define", name, "--action", "command", "--object", &command];
        let timing = ["--every", "8h", "--start", &soon, "--window", "4h", "--spread", "0"];
        server.admin(&[&words[..], &timing, &["--zone", "UTC"], options].concat());
        server.admin(&["schedule", "associate", name, "--node", "web-01"]);
    };
    define("a-dark", &["--blackout", &blackout]);
    define("b-light", &[]);
    wait_until("the other schedule runs", || !lines(&file("b-light")).is_empty());
    clock::pause(Duration::from_secs(3));
    assert_eq!(lines(&file("a-dark")), [""; 0], "the blackout is not over");
    let begun = events(&server, &["--schedule", "a-dark", "--state", "started,completed,failed"]);
    assert_eq!(begun, [] as [Value; 0]);
}

#[test]
fn a_node_shows_whether_its_agent_is_connected() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let is_connected = || server.admin(&["node", "show", "web-01"])["agent_connected"] == true;
    assert!(!is_connected());
    let running = node.spawn_agent();
    wait_until("the agent is connected", is_connected);
    let listed = server.spawn_admin(&["node", "list"]).wait().expect(&[0]);
    assert!(listed.stdout.contains("connected"), "{listed}");
    drop(running.kill9());
    wait_until("the agent is gone", || !is_connected());
}

#[test]
fn a_pause_is_confirmed_by_the_node() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let file = scratch.join("runs");
    start_command(&server, &["web-01"], &format!("echo run >> {}; sleep 1000", file.display()));
    wait_until("the task begins", || !lines(&file).is_empty());
    let action = last_action(&server);
    let event = || events(&server, &["--schedule", &action]).remove(0);
    assert_eq!(event().get("paused_since"), None);
    server.admin(&["event", "pause", &action]);
    wait_until("the pause is confirmed", || event().get("paused_since").is_some());
    assert!(event()["paused_secs"].as_u64() < Some(60), "{}", event());
    let listed = server.spawn_admin(&["event", "list"]).wait().expect(&[0]);
    assert!(listed.stdout.contains("paused for 00:0"), "{listed}");
    server.admin(&["event", "resume", &action]);
    wait_until("the work goes on", || event().get("paused_since").is_none());
    server.admin(&["event", "cancel", &action]);
    wait_until("the event ends", || state(&event()) == "failed");
}

/// A pause that came while a task began was lost, though the server was told that the task pauses.
#[test]
fn a_pause_counts_whenever_it_comes() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    // The first pauses come before the node knows of the event, the last ones when it works.
    for turn in 0..6 {
        let tree = scratch.folder(&format!("tree-{turn}"));
        plant_files(&tree, 8, 256 << 10, turn);
        let tree = tree.to_str().expect("is text");
        let run = ["web-01", "--detach", "--", "backup", "--limit-rate-send=128K", tree];
        let started = try_run(&server, &run).expect(&[0]).json_lines().remove(0);
        let schedule = started["schedule"].as_str().expect("a name").to_owned();
        clock::pause(Duration::from_millis(turn * 80));
        server.admin(&["event", "pause", &schedule]);
        // The agent has heard of the pause before it hears of this command.
        assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
        let event = || events(&server, &["--schedule", &schedule]).remove(0);
        if state(&event()) != "pending" {
            wait_until("the pause is confirmed", || event().get("paused_since").is_some());
            wait_until("the backup pauses", || {
                let status = node.run(&["status", "--json"]).expect(&[0]).json();
                status["running"][0]["state"] == "paused"
            });
        }
        server.admin(&["event", "cancel", &schedule]);
        wait_until("the event ends", || state(&event()) == "failed");
    }
}

/// A backup went on without its keeper, and the next attempt worked beside it.
#[test]
fn a_backup_ends_when_its_keeper_is_killed() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let tree = scratch.folder("tree");
    plant_files(&tree, 8, 256 << 10, 1);
    let tree = tree.to_str().expect("is text");
    let run = ["web-01", "--detach", "--", "backup", "--limit-rate-send=128K", tree];
    try_run(&server, &run).expect(&[0]);
    let running = || node.run(&["status", "--json"]).json()["running"].clone();
    wait_until("the backup begins", || running()[0].is_object());
    server.admin(&["event", "pause", &last_action(&server)]);
    wait_until("the backup pauses", || running()[0]["state"] == "paused");
    let keeper = Pid::from_raw(keeper(&node)).expect("a process");
    rustix::process::kill_process(keeper, Signal::KILL).expect("the keeper is killed");
    wait_until("the backup ends", || !running()[0].is_object());
    wait_until("the event ends", || state(&events(&server, &[])[0]) == "uncertain");
}

#[test]
fn a_task_is_ended_after_its_maximum_duration() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let words = ["web-01", "--duration-max", "1m", "--", "command", "sleep 1000"];
    let failed = try_run(&server, &words).json_lines().pop().expect("a result");
    assert_eq!(state(&failed), "failed");
    assert_eq!(failed["reason"], "ended after its maximum duration of 1m", "{failed}");

    let define = ["schedule", "define", "x", "--action", "incremental", "--time", "22:00"];
    let defined = server.admin(&[&define[..], &["--duration-max", "8h"]].concat());
    assert_eq!(defined["duration_max_minutes"], 480);
    let changed = server.admin(&["schedule", "update", "x", "--duration-max", "none"]);
    assert_eq!(changed.get("duration_max_minutes"), None);
}
