//! Agents under load, with damaged records, and with settings that change under them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use e2e::harness::{Node, Server};
use e2e::scratch::Scratch;
use rustix::process::Signal;

use super::{
    define_two_attempts, events, lines, result, run_command, start_command, state, try_run,
    wait_until,
};

/// Number of commands at once: more than any queue of the agent or of its line holds.
const BURST: usize = 90;

#[test]
fn a_burst_of_orders_is_carried_out_and_reported() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let file = scratch.join("runs");
    // Half of the orders wait for the agent, and the others come while it works.
    let order = |count: usize| {
        for _ in 0..count {
            start_command(&server, &["web-01"], &format!("echo run >> {}", file.display()));
        }
    };
    order(BURST / 2);
    let running = node.spawn_agent();
    order(BURST / 2);
    wait_until("the burst", || lines(&file).len() == BURST);
    let completed = || events(&server, &["--state", "completed"]).len();
    wait_until("the reports", || completed() == BURST);
    assert_eq!(lines(&file).len(), BURST, "no order is carried out twice");
    running.signal(Signal::TERM);
    running.wait().expect(&[0]);
}

#[test]
fn what_a_node_forbids_holds_at_once() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    let mut file = OpenOptions::new().append(true).open(node.home().join("client.toml")).unwrap();
    file.write_all(b"\n[agent]\ncommands = \"none\"\n").unwrap();
    let refused = run_command(&server, "web-01", "true");
    assert_eq!(state(&refused), "failed", "{refused}");
}

/// An agent that could not read the file kept the rights that it had before.
#[test]
fn what_a_node_forbids_holds_though_its_file_has_a_mistake() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    // An agent that starts with a mistake in the file ends.
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    let config = node.home().join("client.toml");
    let valid = fs::read_to_string(&config).expect("is read");
    let mistake = format!("{valid}\n[agent]\ncommands = \"none\"\nrestore = false\n");
    fs::write(&config, mistake).expect("is written");
    let ran = scratch.join("ran");
    let command = format!("touch {}", ran.display());
    let around = format!("--pre-command={command}");
    let ran_text = ran.to_str().expect("is text");
    for words in
        [&["command", &command][..], &["backup", &around, "/etc/hosts"], &["restore", ran_text]]
    {
        let refused = result(&try_run(&server, &[&["web-01", "--"], words].concat()));
        assert_eq!(state(&refused), "failed", "{refused}");
        let reason = refused["reason"].as_str().expect("a reason");
        assert!(reason.contains("while its settings cannot be read"), "{reason}");
        assert!(reason.contains("client.toml"), "{reason}");
    }
    assert!(!ran.try_exists().unwrap(), "nothing has run");
    fs::write(&config, valid).expect("is written");
    assert_eq!(state(&run_command(&server, "web-01", &command)), "completed");
    assert!(ran.try_exists().unwrap());
}

#[test]
fn a_damaged_record_does_not_end_the_agent() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let file = scratch.join("runs");
    let running = node.spawn_agent();
    run_command(&server, "web-01", &format!("echo run >> {}", file.display()));
    drop(running.kill9());
    let records = node.home().join("agent/events");
    let record = fs::read_dir(&records).unwrap().next().expect("a record").unwrap().path();
    fs::write(record.join("event.json"), b"x").unwrap();
    fs::write(record.join("attempt-1/outcome.json"), b"").unwrap();
    fs::write(records.join("stray"), b"").unwrap();
    let _next = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    assert_eq!(lines(&file), ["run"], "nothing is repeated because its record is damaged");
    node.run(&["agent", "status"]).expect(&[0]);
}

/// Of an event that a node could not begin, the server said only that the agent was connected.
#[test]
fn an_event_that_cannot_be_recorded_tells_why_and_begins_later() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let _agent = node.spawn_agent();
    let is_connected = || server.admin(&["node", "show", "web-01"])["agent_connected"] == true;
    wait_until("the agent is connected", is_connected);
    // A file takes the place of the folder of records, as a full disk takes its room.
    let records = node.home().join("agent/events");
    fs::write(&records, b"").unwrap();
    start_command(&server, &["web-01"], "true");
    let event = || events(&server, &[]).remove(0);
    let told = "the agent cannot record that the event begins";
    let is_told = || event()["reason"].as_str().is_some_and(|reason| reason.starts_with(told));
    wait_until("the reason is told", is_told);
    assert_eq!(state(&event()), "pending");
    fs::remove_file(&records).unwrap();
    wait_until("the event ends", || state(&event()) == "completed");
    assert!(!is_told(), "{}", event());
}

/// Such an event stayed failed, and nothing said why no further attempt was made.
#[test]
fn a_further_attempt_that_cannot_be_recorded_tells_why_and_begins_later() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let file = scratch.join("runs");
    define_two_attempts(&server, &file);
    let _agent = node.spawn_agent();
    let event = || events(&server, &[]).into_iter().next();
    let is_in = |expected: &str| event().is_some_and(|one| state(&one) == expected);
    wait_until("the first attempt fails", || is_in("failed"));
    // A file takes the place of the folder of the next attempt, as a full disk takes its room.
    let records = node.home().join("agent/events");
    let record = fs::read_dir(&records).unwrap().next().expect("a record").unwrap().path();
    let obstacle = record.join("attempt-2");
    fs::write(&obstacle, b"").unwrap();
    let reason = || event().expect("exists")["reason"].as_str().unwrap_or_default().to_owned();
    let told = "; no further attempt begins: the agent cannot record that the event begins";
    wait_until("the reason is told", || reason().contains(told));
    assert!(reason().starts_with("ended with code 1; "), "{}", reason());
    assert!(is_in("failed"));
    fs::remove_file(&obstacle).unwrap();
    wait_until("the second attempt ends", || is_in("completed"));
    assert_eq!((reason().as_str(), lines(&file).len()), ("", 2));
}

/// An agent with one file on a bad sector did not start, or began nothing any more.
#[test]
fn a_record_that_cannot_be_read_does_not_hold_up_other_work() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-01");
    let running = node.spawn_agent();
    for _ in 0..3 {
        run_command(&server, "web-01", "true");
    }
    drop(running.kill9());
    let records = node.home().join("agent/events");
    let records = fs::read_dir(&records).unwrap().map(|record| record.unwrap().path());
    let files = ["event.json", "attempt-1/outcome.json", "attempt-1/lock"];
    for (record, name) in records.zip(files) {
        // A directory cannot be read as a file, whoever tries.
        let file = record.join(name);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        if name.ends_with("lock") {
            fs::remove_file(record.join("attempt-1/outcome.json")).unwrap();
        }
    }
    let _next = node.spawn_agent();
    assert_eq!(state(&run_command(&server, "web-01", "true")), "completed");
    node.run(&["agent", "status"]).expect(&[0]).says("its record cannot be read");
}
