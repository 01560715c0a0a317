//! The measurements of the fleet, in their order, and the outcome of each node. See the drawing in
//! `fleet.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use e2e::clock;
use e2e::manifest::{Manifest, diff};

use super::tree::Shape;
use crate::machine;
use crate::output;
use crate::process::{self, Outcome, Runner, Server};
use crate::site::Site;
use crate::trouble::{Context as _, Trouble};
use crate::workplace::Workplace;

/// Maximum number of first backups at the same time that are started before it is known how much
/// memory one of them takes.
const UNCHECKED_MAX: usize = 4;

/// Rate at which nodes trickle: the least that a client takes as a limit.
const TRICKLE_RATE: &str = "128K";

/// Number of nodes that are verified, restored and compared at the end.
const SAMPLE: usize = 8;

/// Share of the free memory that the clients together may take, in percent.
const MEMORY_SHARE_PERCENT: u64 = 80;

pub(super) struct Order {
    pub(super) nodes: usize,
    /// Number of nodes that trickle.
    pub(super) trickle: usize,
    pub(super) shape: Shape,
    /// Number of first backups that are running at the same time.
    pub(super) first_at_once: usize,
    pub(super) rounds: usize,
    pub(super) work: PathBuf,
}

/// Figures of one backup of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    pub(super) memory_bytes: u64,
    pub(super) bytes_transferred: u64,
    pub(super) objects: u64,
    pub(super) trickles: bool,
}

/// Backups of all nodes, and the figures of the server meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Wave {
    /// Number of nodes that backed up at the same time.
    pub(super) at_once: usize,
    pub(super) wall: Duration,
    /// Runs of the nodes that did not fail.
    pub(super) runs: Vec<Run>,
    /// Messages of the nodes that failed.
    pub(super) failures: Vec<String>,
    pub(super) server_cpu: Duration,
    /// Peak of the server's resident memory until the wave began. The next field has the peak until
    /// the wave ended.
    pub(super) server_memory_before: u64,
    pub(super) server_memory_after: u64,
}

pub(super) struct Results {
    pub(super) nodes: usize,
    pub(super) trickle: usize,
    pub(super) shape: Shape,
    pub(super) load_before: String,
    pub(super) load_after: String,
    /// Time from the registration of the first node to the enrolment of the last node.
    pub(super) enrolment: Duration,
    pub(super) first: Wave,
    pub(super) rounds: Vec<Wave>,
    pub(super) compared: usize,
    /// Messages of the nodes of the sample whose restored trees differ.
    pub(super) differences: Vec<String>,
}

impl Results {
    pub(super) fn failures(&self) -> Vec<&str> {
        let waves = std::iter::once(&self.first).chain(&self.rounds);
        let failures = waves.flat_map(|wave| &wave.failures).chain(&self.differences);
        failures.map(String::as_str).collect()
    }
}

/// A node with its home folder, its tree and its outputs.
struct Node {
    number: usize,
    /// True if the node sends no faster than [`TRICKLE_RATE`].
    trickles: bool,
    folder: PathBuf,
    runner: Runner,
}

impl Node {
    fn make(
        workplace: &Workplace,
        program: &Path,
        number: usize,
        trickles: bool,
    ) -> Result<Self, Trouble> {
        let folder = workplace.folder(&format!("node-{number}"))?;
        for part in ["outputs", "tree"] {
            let path = folder.join(part);
            std::fs::create_dir(&path).while_doing(|| format!("make {}", path.display()))?;
        }
        let runner = Runner::new(program.to_path_buf(), folder.join("outputs"));
        Ok(Self { number, trickles, folder, runner })
    }

    fn name(&self) -> String {
        format!("node-{}", self.number)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn command(&self, arguments: &[&OsStr]) -> Result<Outcome, Trouble> {
        let home = self.folder.join("home");
        self.runner.run(&[arguments, &["--home".as_ref(), home.as_os_str()]].concat())
    }

    /// Runs the command. Fails if the command reports that objects failed.
    fn whole(&self, arguments: &[&OsStr]) -> Result<Outcome, Trouble> {
        let finished = self.command(arguments).map_err(|trouble| self.trouble(&trouble))?;
        let failed = finished.report["failed"].as_u64().unwrap_or(0);
        match (finished.exit_code, failed) {
            (0, 0) => Ok(finished),
            (code, failed) => {
                let failed = output::counted(failed, "object");
                Err(self.trouble(&format!("exit code {code}, {failed} failed")))
            }
        }
    }

    /// Returns an error that names the node.
    fn trouble(&self, what: &dyn std::fmt::Display) -> Trouble {
        Trouble::new(format!("{}: {what}", self.name()))
    }

    /// Backs up the node. The time counts from `begin`, the moment before the group was started: it
    /// takes a while to start hundreds of processes, and a node that starts late has waited.
    fn back_up(&self, begin: Instant) -> Result<Run, Trouble> {
        let tree = self.tree();
        let mut command = vec![OsStr::new("backup"), tree.as_os_str()];
        if self.trickles {
            command.extend([OsStr::new("--limit-rate-send"), OsStr::new(TRICKLE_RATE)]);
        }
        let finished = self.whole(&command)?;
        Ok(Run {
            wall: begin.elapsed(),
            cpu: finished.cpu,
            memory_bytes: finished.memory_bytes,
            bytes_transferred: finished.report["bytes_transferred"].as_u64().unwrap_or(0),
            objects: finished.report["inspected"].as_u64().unwrap_or(0),
            trickles: self.trickles,
        })
    }

    /// Verifies the versions of the node at the server, restores the tree, and compares it.
    fn compare(&self) -> Result<(), Trouble> {
        self.whole(&["verify".as_ref(), "--data".as_ref()])?;
        let (tree, target) = (self.tree(), self.folder.join("restored"));
        std::fs::create_dir(&target).map_err(|error| self.trouble(&error))?;
        let to: [&OsStr; 4] =
            ["restore".as_ref(), tree.as_os_str(), "--to".as_ref(), target.as_os_str()];
        self.whole(&to)?;
        let manifest = |path: &Path| Manifest::take(path).map_err(|error| self.trouble(&error));
        let lines = diff(&manifest(&tree)?, &manifest(&target.join("tree"))?);
        match lines.first() {
            None => Ok(()),
            Some(first) => {
                let differences = output::counted(lines.len(), "difference");
                Err(self.trouble(&format!("{differences}, the first is {first}")))
            }
        }
    }
}

pub(super) fn measure(order: Order) -> Result<Results, Trouble> {
    let load_before = machine::load();
    let workplace = Workplace::below(&order.work, Path::new("/nonexistent"))?;
    let wide = u64::try_from(order.nodes).unwrap_or(u64::MAX);
    // The pool needs at most as much room as the trees.
    let needed = order.shape.bytes_max().saturating_mul(wide).saturating_mul(2);
    workplace.check_bytes(needed, &output::counted(order.nodes, "node"))?;
    let program = process::find_program()?;
    let runner = Runner::new(program.clone(), workplace.folder("outputs")?);
    let site = Site::new(&runner, workplace.folder("site")?);
    output::step("making the trees");
    // The last nodes trickle: the first one shows how much memory a client takes.
    let pouring = order.nodes - order.trickle;
    let make = |number| Node::make(&workplace, &program, number, number >= pouring);
    let nodes: Vec<Node> = (0..order.nodes).map(make).collect::<Result<_, _>>()?;
    for node in &nodes {
        process::check_interrupted()?;
        order.shape.plant(&node.tree(), node.number)?;
    }
    let (server, address) = site.started()?;
    output::step("enrolling");
    let (enrolled, enrolment) = clock::timed(|| enrol(&site, &address, &nodes));
    enrolled?;
    output::step("first backups");
    let (alone, others) = nodes.split_at(usize::from(order.first_at_once > UNCHECKED_MAX));
    for node in alone {
        let run = node.back_up(clock::now())?;
        check_memory(run.memory_bytes, order.first_at_once)?;
    }
    let first = wave(&server, others, order.first_at_once)?;
    let largest = first.runs.iter().map(|run| run.memory_bytes).max().unwrap_or(0);
    let mut rounds = Vec::new();
    for round in 1..=order.rounds {
        check_memory(largest, order.nodes)?;
        output::step(&format!("all at once, round {round} of {}", order.rounds));
        for node in &nodes {
            order.shape.change(&node.tree(), node.number, round)?;
        }
        rounds.push(wave(&server, &nodes, nodes.len())?);
    }
    output::step("verifying, restoring and comparing");
    let (compared, differences) = compare(&nodes)?;
    server.stop()?;
    Ok(Results {
        nodes: order.nodes,
        trickle: order.trickle,
        shape: order.shape,
        load_before,
        load_after: machine::load(),
        enrolment,
        first,
        rounds,
        compared,
        differences,
    })
}

fn enrol(site: &Site<'_>, address: &str, nodes: &[Node]) -> Result<(), Trouble> {
    for node in nodes {
        let token = site.token(&node.name())?;
        let command: [&OsStr; 4] =
            ["enroll".as_ref(), address.as_ref(), "--token".as_ref(), token.as_ref()];
        node.command(&command)?;
    }
    Ok(())
}

/// Fails if the clients of `nodes` nodes, of `largest` bytes each, would together need too much of
/// the free memory.
fn check_memory(largest: u64, nodes: usize) -> Result<(), Trouble> {
    let needed = largest.saturating_mul(u64::try_from(nodes).unwrap_or(u64::MAX));
    let free = machine::free_memory()? / 100 * MEMORY_SHARE_PERCENT;
    if needed <= free {
        return Ok(());
    }
    let (largest, free) = (largest >> 20, free >> 20);
    let clients = output::counted(nodes, "client");
    Err(Trouble::new(format!(
        "the memory of {clients} of {largest} MiB each would exceed {free} MiB: use fewer --nodes"
    )))
}

/// Backs up all nodes, `at_once` of them at a time.
fn wave(server: &Server, nodes: &[Node], at_once: usize) -> Result<Wave, Trouble> {
    // Data of earlier work must not be written to the disk during the measurement.
    rustix::fs::sync();
    let server_memory_before = machine::peak_memory_of(server.pid())?;
    let server_cpu = machine::cpu_of(server.pid())?;
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    let ((), wall) = clock::timed(|| {
        for group in nodes.chunks(at_once) {
            for outcome in together(group, Node::back_up) {
                match outcome {
                    Ok(run) => runs.push(run),
                    Err(failure) => failures.push(failure.to_string()),
                }
            }
        }
    });
    process::check_interrupted()?;
    Ok(Wave {
        at_once: at_once.min(nodes.len()),
        wall,
        runs,
        failures,
        server_cpu: machine::cpu_of(server.pid())?.saturating_sub(server_cpu),
        server_memory_before,
        server_memory_after: machine::peak_memory_of(server.pid())?,
    })
}

/// Calls `work` for all `nodes` at the same moment, in a thread for each node. Passes the time
/// before the threads were started to `work`.
fn together<T: Send>(nodes: &[Node], work: impl Fn(&Node, Instant) -> T + Sync) -> Vec<T> {
    let (start, work, begin) = (&Barrier::new(nodes.len()), &work, clock::now());
    std::thread::scope(|scope| {
        let spawn = |node| {
            scope.spawn(move || {
                start.wait();
                work(node, begin)
            })
        };
        let threads: Vec<_> = nodes.iter().map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("waiting for a process does not panic"))
            .collect()
    })
}

/// Compares a sample of the nodes. Returns the size of the sample, and the messages of the nodes
/// that differ.
fn compare(nodes: &[Node]) -> Result<(usize, Vec<String>), Trouble> {
    let step = nodes.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<&Node> = nodes.iter().step_by(step).collect();
    let mut differences = Vec::new();
    for node in &sample {
        process::check_interrupted()?;
        differences.extend(node.compare().err().map(|trouble| trouble.to_string()));
    }
    Ok((sample.len(), differences))
}
