//! Agents and a server that are killed at random, while each node runs a command and backs up each
//! minute. No event is lost, none runs twice, and what was backed up can be restored.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `HOLDFAST_FLEET_NODES` | 5 | number of nodes with agents |
//! | `HOLDFAST_FLEET_SECS` | 60 | time for which agents and the server die, in seconds |
//! | `HOLDFAST_FLEET_SEED` | the time | seed of the random choices |

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Node, Process, Server};
use e2e::nasty::Random;
use e2e::scratch::Scratch;
use jiff::Timestamp;
use serde_json::Value;

use super::{events, lines, state, wait_until};
use crate::chaos::{seed, setting};

/// Name of the schedule that runs a command, and of the one that backs up.
const COMMANDS: &str = "often";
const BACKUPS: &str = "saved";
/// Pause between two deaths.
const PAUSE: Duration = Duration::from_millis(1500);
/// Size of a file, in bytes.
const FILE_BYTES: usize = 4096;

/// A tree in which files appear while nodes back it up. No file changes or goes.
struct GrowingTree {
    folder: PathBuf,
    /// Place of a file that is not finished, outside of the tree.
    draft: PathBuf,
    /// Time at which each file was there.
    times: Vec<Timestamp>,
}

impl GrowingTree {
    fn new(scratch: &Scratch) -> Self {
        let (folder, draft) = (scratch.folder("tree"), scratch.join("draft"));
        Self { folder, draft, times: Vec::new() }
    }

    fn name(number: usize) -> String {
        format!("file-{number}")
    }

    fn content(number: usize) -> Vec<u8> {
        Random::new(number as u64, b"growing tree").bytes(FILE_BYTES)
    }

    fn grow(&mut self) {
        let number = self.times.len();
        fs::write(&self.draft, Self::content(number)).expect("is written");
        fs::rename(&self.draft, self.folder.join(Self::name(number))).expect("is renamed");
        self.times.push(Timestamp::now());
    }

    /// Checks that `restored` has all files that were there at `time`, and no file with another
    /// content.
    fn check(&self, restored: &Path, time: Timestamp, node: &str) {
        for (number, there) in self.times.iter().enumerate() {
            match fs::read(restored.join(Self::name(number))) {
                Ok(content) => {
                    assert!(content == Self::content(number), "{node}: file {number} differs");
                }
                Err(error) => assert!(*there >= time, "{node}: file {number}: {error}"),
            }
        }
    }
}

fn define(server: &Server, name: &str, action: &str, object: &str) {
    let define = ["schedule", "define", name, "--action", action, "--object", object];
    let timing = ["--every", "1m", "--window", "1m", "--spread", "25"];
    server.admin(&[&define[..], &timing].concat());
    server.admin(&["schedule", "associate", name, "--domain", "STANDARD"]);
}

fn enrol(server: &Server, number: usize) -> Node {
    let node = Node::enrol(server, &format!("node-{number}"));
    node.wait_by_default();
    node
}

#[test]
fn no_event_is_lost_or_runs_twice_and_everything_is_restorable() {
    let count = setting("HOLDFAST_FLEET_NODES").unwrap_or(5);
    let secs = setting("HOLDFAST_FLEET_SECS").unwrap_or(60);
    let mut random = Random::new(seed("HOLDFAST_FLEET_SEED"), b"fleet");
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let runs = scratch.folder("runs");
    let mut tree = GrowingTree::new(&scratch);
    let command = format!("echo $HOLDFAST_PLANNED >> {}/$HOLDFAST_NODE; sleep 2", runs.display());
    define(&server, COMMANDS, "command", &command);
    define(&server, BACKUPS, "incremental", tree.folder.to_str().expect("is text"));
    let count = usize::try_from(count).expect("a small number");
    let nodes: Vec<Node> = (0..count).map(|number| enrol(&server, number)).collect();
    let mut agents: Vec<Process> = nodes.iter().map(Node::spawn_agent).collect();
    let end = clock::now() + Duration::from_secs(secs);
    while clock::now() < end {
        tree.grow();
        clock::pause(PAUSE);
        let victim = random.below(u32::try_from(count).expect("a small number")) as usize;
        agents.remove(victim).kill9();
        agents.insert(victim, nodes[victim].spawn_agent());
        if random.below(5) == 0 {
            server.kill9();
            clock::pause(Duration::from_millis(u64::from(random.below(4000))));
            server.restart();
        }
    }
    for schedule in [COMMANDS, BACKUPS] {
        // A busy machine may need another minute.
        wait_until("each node completes an event", || {
            let of_schedule = ["--schedule", schedule, "--state", "completed"];
            let completed = events(&server, &of_schedule);
            nodes
                .iter()
                .all(|node| completed.iter().any(|event| event["node"] == *node.name))
        });
        server.admin(&["schedule", "update", schedule, "--suspended", "yes"]);
    }
    wait_until("the last events end", || {
        let open = ["pending", "started", "in-progress", "restarted", "severed"];
        events(&server, &[]).iter().all(|event| !open.contains(&state(event)))
    });
    check_commands(&server, &nodes, &runs);
    check_backups(&server, &nodes, &tree, &scratch.folder("restored"));
}

fn time(event: &Value, key: &str) -> Timestamp {
    let text = event[key].as_str().unwrap_or_else(|| panic!("{key} of {event}"));
    text.parse().expect("a time")
}

/// Compares the events of all nodes with what their commands have written.
fn check_commands(server: &Server, nodes: &[Node], runs: &Path) {
    for node in nodes {
        let written = lines(&runs.join(&node.name));
        let mut once = written.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), written.len(), "{}: an event ran twice: {written:?}", node.name);
        let mut completed = Vec::new();
        for event in events(server, &["--schedule", COMMANDS, "--node", &node.name]) {
            let planned = time(&event, "planned").as_microsecond().to_string();
            match state(&event) {
                "completed" => completed.push(planned),
                "missed" => assert!(!written.contains(&planned), "{event}"),
                other => panic!("{}: {other}: {event}", node.name),
            }
        }
        completed.sort();
        assert_eq!(completed, once, "{}: each run has an event", node.name);
    }
}

/// Restores what each node has backed up: at least what was there when its last backup began that
/// the server counts as completed.
fn check_backups(server: &Server, nodes: &[Node], tree: &GrowingTree, restored: &Path) {
    for node in nodes {
        let all = events(server, &["--schedule", BACKUPS, "--node", &node.name]);
        let is_over = |event: &Value| ["completed", "missed"].contains(&state(event));
        assert!(all.iter().all(is_over), "{}: {all:?}", node.name);
        let completed = all.iter().filter(|event| state(event) == "completed");
        let last = completed.map(|event| time(event, "started")).max();
        let last = last.expect("each node has backed up");
        node.verify().expect(&[0]);
        let out = restored.join(&node.name);
        fs::create_dir(&out).expect("is made");
        node.restore(&tree.folder, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
        tree.check(&out.join("tree"), last, &node.name);
    }
}
