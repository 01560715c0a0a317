//! Agents, keepers of tasks and a server that are killed at random, while each node runs a command
//! and backs up each minute. No event is lost, none runs twice, and what was backed up can be
//! restored. If a keeper is killed, nobody knows how its task ended: such events are uncertain, and
//! no others.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `HOLDFAST_FLEET_NODES` | 5 | number of nodes with agents |
//! | `HOLDFAST_FLEET_SECS` | 60 | time for which processes die, in seconds |
//! | `HOLDFAST_FLEET_SEED` | the time | seed of the random choices |

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Node, Process, Server};
use e2e::nasty::Random;
use e2e::scratch::Scratch;
use jiff::Timestamp;
use rustix::process::{Pid, Signal};
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

/// An event whose keeper was killed: its node, and the name of its folder there.
type CutOff = (String, String);

/// The keepers of tasks that are killed.
#[derive(Default)]
struct Keepers {
    killed: BTreeSet<CutOff>,
}

impl Keepers {
    /// Kills the keeper of one task that is under way at `nodes`, if there is one. The task is not
    /// killed: a shell command goes on, and the kernel interrupts a backup.
    fn kill_one(&mut self, nodes: &[Node], random: &mut Random) {
        let mut living: Vec<(CutOff, Pid)> = nodes.iter().flat_map(keepers).collect();
        living.retain(|(event, _)| !self.killed.contains(event));
        if living.is_empty() {
            return;
        }
        let count = u32::try_from(living.len()).expect("a small number");
        let (event, keeper) = living.swap_remove(random.below(count) as usize);
        // Its task may have ended meanwhile.
        if rustix::process::kill_process(keeper, Signal::KILL).is_ok() {
            self.killed.insert(event);
        }
    }

    /// Checks that the server knows each event whose keeper was killed.
    fn check_known(&self, server: &Server) {
        assert!(!self.killed.is_empty(), "no keeper was killed");
        let mut known = BTreeSet::new();
        for schedule in [COMMANDS, BACKUPS] {
            for event in events(server, &["--schedule", schedule]) {
                let node = event["node"].as_str().expect("a name").to_owned();
                known.insert((node, folder_name(schedule, &event)));
            }
        }
        let lost: Vec<&CutOff> = self.killed.difference(&known).collect();
        assert!(lost.is_empty(), "events are lost: {lost:?}");
    }

    fn has_killed(&self, node: &Node, schedule: &str, event: &Value) -> bool {
        self.killed.contains(&(node.name.clone(), folder_name(schedule, event)))
    }
}

/// Returns the keepers of the tasks that are under way at a node, with their events.
fn keepers(node: &Node) -> Vec<(CutOff, Pid)> {
    let folders = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for event in folders(&node.home().join("agent/events")) {
        let name = event.file_name().and_then(|name| name.to_str()).expect("is text").to_owned();
        let keeper = folders(&event).iter().find_map(|attempt| keeper_of(attempt));
        found.extend(keeper.map(|keeper| ((node.name.clone(), name), keeper)));
    }
    found
}

/// Returns the keeper of an attempt, if it lives and has not recorded the end.
fn keeper_of(attempt: &Path) -> Option<Pid> {
    let begun = fs::read_to_string(attempt.join("begun")).ok()?;
    let (pid, began) = begun.trim().split_once(' ')?;
    // Another process may have the number by now.
    let is_it = sys::process::began(pid.parse().ok()?) == Some(began.parse().ok()?);
    let has_ended = attempt.join("outcome.json").try_exists().ok()?;
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    (is_it && !has_ended).then_some(pid)
}

/// Returns the name of an event's folder at its node.
fn folder_name(schedule: &str, event: &Value) -> String {
    format!("{}-{schedule}", time(event, "planned").as_microsecond())
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
    let mut keepers = Keepers::default();
    let end = clock::now() + Duration::from_secs(secs);
    while clock::now() < end {
        tree.grow();
        clock::pause(PAUSE);
        let victim = random.below(u32::try_from(count).expect("a small number")) as usize;
        agents.remove(victim).kill9();
        agents.insert(victim, nodes[victim].spawn_agent());
        if keepers.killed.is_empty() || random.below(2) == 0 {
            keepers.kill_one(&nodes, &mut random);
        }
        if random.below(5) == 0 {
            server.kill9();
            clock::pause(Duration::from_millis(u64::from(random.below(4000))));
            server.restart();
        }
    }
    // Tasks are short, so that all deaths may have come between them.
    wait_until("a keeper is killed", || {
        if keepers.killed.is_empty() {
            keepers.kill_one(&nodes, &mut random);
        }
        !keepers.killed.is_empty()
    });
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
    keepers.check_known(&server);
    check_commands(&server, &nodes, &runs, &keepers);
    check_backups(&server, &nodes, &keepers);
    check_restores(&server, &nodes, &tree, &scratch.folder("restored"));
}

fn time(event: &Value, key: &str) -> Timestamp {
    let text = event[key].as_str().unwrap_or_else(|| panic!("{key} of {event}"));
    text.parse().expect("a time")
}

/// Checks that the node has one event of each minute, from its first event to its last one.
fn check_no_gap(node: &Node, of_schedule: &[Value]) {
    let planned = of_schedule.iter().map(|event| time(event, "planned").as_microsecond());
    let mut planned: Vec<i64> = planned.collect();
    planned.sort_unstable();
    let is_next = |pair: &[i64]| pair[1] - pair[0] == 60_000_000;
    assert!(planned.windows(2).all(is_next), "{}: an event is lost: {planned:?}", node.name);
}

/// Compares the events of all nodes with what their commands have written.
fn check_commands(server: &Server, nodes: &[Node], runs: &Path, keepers: &Keepers) {
    for node in nodes {
        let written = lines(&runs.join(&node.name));
        let mut once = written.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), written.len(), "{}: an event ran twice: {written:?}", node.name);
        let (mut completed, mut uncertain) = (Vec::new(), Vec::new());
        let of_node = events(server, &["--schedule", COMMANDS, "--node", &node.name]);
        check_no_gap(node, &of_node);
        for event in of_node {
            let planned = time(&event, "planned").as_microsecond().to_string();
            let is_cut_off = keepers.has_killed(node, COMMANDS, &event);
            match state(&event) {
                "completed" => completed.push(planned),
                // The keeper may have died before its command wrote.
                "uncertain" if is_cut_off => uncertain.push(planned),
                "missed" => assert!(!is_cut_off && !written.contains(&planned), "{event}"),
                other => panic!("{}: {other}: {event}", node.name),
            }
        }
        completed.sort();
        once.retain(|planned| !uncertain.contains(planned));
        assert_eq!(completed, once, "{}: each run has an event", node.name);
    }
}

/// Checks that each backup has been made, missed, or cut off with its keeper.
fn check_backups(server: &Server, nodes: &[Node], keepers: &Keepers) {
    for node in nodes {
        let of_node = events(server, &["--schedule", BACKUPS, "--node", &node.name]);
        check_no_gap(node, &of_node);
        for event in of_node {
            let is_cut_off = keepers.has_killed(node, BACKUPS, &event);
            match state(&event) {
                "completed" => {}
                "uncertain" => assert!(is_cut_off, "{}: {event}", node.name),
                "missed" => assert!(!is_cut_off, "{}: {event}", node.name),
                other => panic!("{}: {other}: {event}", node.name),
            }
        }
    }
}

/// Restores what each node has backed up: at least what was there when its last backup began that
/// the server counts as completed.
fn check_restores(server: &Server, nodes: &[Node], tree: &GrowingTree, restored: &Path) {
    for node in nodes {
        let of_node = ["--schedule", BACKUPS, "--node", &node.name, "--state", "completed"];
        let completed = events(server, &of_node);
        let last = completed.iter().map(|event| time(event, "started")).max();
        let last = last.expect("each node has backed up");
        node.verify().expect(&[0]);
        let out = restored.join(&node.name);
        fs::create_dir(&out).expect("is made");
        node.restore(&tree.folder, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
        tree.check(&out.join("tree"), last, &node.name);
    }
}
