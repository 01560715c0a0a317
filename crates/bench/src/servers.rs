//! `bench servers`: the rate of backups with several servers of one catalogue.
//!
//! ```text
//!   round:  with 1, then with 2, then with 3 servers: a new database, a new bucket
//!             -> all nodes at once back up the same tree of empty files, each to its own filespace
//! ```
//!
//! The files have no data, so the catalogue is measured. Nodes, servers, database and object store
//! share the processors. If the processors are always busy, more servers cannot be faster, and the
//! figures show the cost of several servers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::harness::{Cluster, Garage, Node, Server};
use serde_json::{Value, json};

use crate::arguments::number;
use crate::machine::{self, Machine};
use crate::output;
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};
use crate::workplace::Workplace;

/// Error text of a bench that needs PostgreSQL.
pub(crate) const NO_DATABASE: &str =
    "PostgreSQL is not installed: run '.ci/packages test' to install it";
/// Error text of a bench that needs an object store.
pub(crate) const NO_STORE: &str = "Garage is not installed: run '.ci/garage' to install it";

/// Back up from many nodes to one, two and three servers of one catalogue
///
/// The nodes have a tree of empty files. The servers have one PostgreSQL and one Garage, which
/// '.ci/packages test' and '.ci/garage' install.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = NODES_DEFAULT, value_parser = number(1..=NODES_MAX))]
    nodes: usize,
    /// Number of files in the tree; each directory has 50
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = OBJECTS_DEFAULT, value_parser = number(OF_DIRECTORY..=OBJECTS_MAX))]
    objects: usize,
    /// Number of rounds, each with new servers
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    /// Write one JSON document with every sample
    #[arg(long)]
    json: bool,
}

const NODES_DEFAULT: usize = 6;
const NODES_MAX: usize = 100;
const OBJECTS_DEFAULT: usize = 100_000;
const OBJECTS_MAX: usize = 10_000_000;
/// Number of files in a directory.
const OF_DIRECTORY: usize = 50;
const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;
/// Numbers of servers that are measured.
const SERVERS: [usize; 3] = [1, 2, 3];

/// The figures of one measurement.
struct Sample {
    servers: usize,
    wall: Duration,
    /// Processor time of all processes on the machine.
    cpu: Duration,
    /// Number of objects of all nodes together.
    objects: u64,
    database_bytes: u64,
}

impl Sample {
    fn rate(&self) -> f64 {
        float(self.objects) / self.wall.as_secs_f64()
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let Args { nodes, objects, rounds, json } = *args;
    let load_before = machine::load();
    let workplace = Workplace::new(Path::new("/nowhere"))?;
    let tree = workplace.folder("tree")?;
    plant(&tree, objects)?;
    let cluster = Cluster::durable().ok_or_else(|| Trouble::new(NO_DATABASE))?;
    let mut samples = Vec::new();
    for round in 1..=rounds {
        for servers in SERVERS {
            output::step(&format!(
                "round {round} of {rounds}: {}, {}",
                output::counted(servers, "server"),
                output::counted(nodes, "node")
            ));
            let folder = workplace.folder(&format!("round-{round}-{servers}"))?;
            samples.push(measure(&cluster, &folder, &tree, (servers, nodes))?);
        }
    }
    let loads = (load_before, machine::load());
    if json {
        return output::result(&document(&samples, nodes, &loads).to_string());
    }
    output::result(&table(&samples, nodes))
}

/// Makes a tree with `objects` empty files.
pub(crate) fn plant(tree: &Path, objects: usize) -> Result<(), Trouble> {
    for directory in 0..objects / OF_DIRECTORY {
        let path = tree.join(format!("{:03}/{:03}", directory / 100, directory % 100));
        std::fs::create_dir_all(&path).while_doing(|| format!("make {}", path.display()))?;
        for file in 0..OF_DIRECTORY {
            let path = path.join(format!("file-{file}"));
            std::fs::write(&path, b"").while_doing(|| format!("make {}", path.display()))?;
        }
    }
    Ok(())
}

/// Starts `count` servers with a new database and a new bucket. Returns the servers and the name of
/// the database.
fn serve(cluster: &Cluster, garage: &Garage, folder: &Path, count: usize) -> (Vec<Server>, String) {
    let database = cluster.add_database();
    let (pool, catalog) = (garage.url("bench"), cluster.url(&database));
    let first = folder.join("server-0");
    let mut servers = vec![Server::start_with(&first, &["--pool", &pool, "--catalog", &catalog])];
    let file = folder.join("holdfast.recovery");
    let text = |path: &PathBuf| path.to_str().unwrap_or_default().to_owned();
    Server::command(&["recovery", &text(&first), &text(&file)]).expect(&[0]);
    for number in 1..count {
        let (dir, port) = (folder.join(format!("server-{number}")), Server::free_port());
        let listen = format!("127.0.0.1:{port}");
        let join = ["join", &text(&dir), "--from", &text(&file), "--listen", &listen];
        Server::command(&join).expect(&[0]);
        servers.push(Server::start_at(&dir, port));
    }
    (servers, database)
}

fn measure(
    cluster: &Cluster,
    folder: &Path,
    tree: &Path,
    (count, nodes): (usize, usize),
) -> Result<Sample, Trouble> {
    let garage = Garage::start(&folder.join("garage"));
    let garage = garage.ok_or_else(|| Trouble::new(NO_STORE))?;
    let (mut servers, database) = serve(cluster, &garage, folder, count);
    let nodes: Vec<Node> = (0..nodes)
        .map(|number| Node::enrol(&servers[number % count], &format!("node-{number}")))
        .collect();
    let (began, cpu) = (sys::clock::monotonic(), machine::cpu_of_all()?);
    let running: Vec<_> = nodes.iter().map(|node| node.spawn_backup(tree, &[])).collect();
    let mut objects = 0;
    for backup in running {
        let report = backup.wait().expect(&[0]).json();
        objects += report["inspected"].as_u64().unwrap_or(0);
    }
    let (wall, cpu) = (began.elapsed(), machine::cpu_of_all()?.saturating_sub(cpu));
    let bytes = cluster.sql(&database, "SELECT pg_database_size(current_database())");
    servers.drain(..).for_each(|mut server| drop(server.terminate()));
    let database_bytes = bytes.parse().unwrap_or(0);
    Ok(Sample { servers: count, wall, cpu, objects, database_bytes })
}

fn spread(samples: &[Sample], servers: usize, of: impl Fn(&Sample) -> f64) -> Spread {
    Spread::of(samples.iter().filter(|sample| sample.servers == servers).map(of))
}

fn table(samples: &[Sample], nodes: usize) -> String {
    let processors = f64::from(u32::try_from(sys::process::processors()).unwrap_or(1));
    let mut text = format!(
        "{} at once, with {} each, without data.\n\n\
         | servers | objects/s, all nodes | compared with one server | processors busy | database \
         bytes/object |\n|---|---|---|---|---|\n",
        output::counted(nodes, "node"),
        output::counted(samples.first().map_or(0, |one| one.objects / nodes as u64), "object")
    );
    let base = spread(samples, SERVERS[0], Sample::rate).median;
    for servers in SERVERS {
        let Spread { median, least, most } = spread(samples, servers, Sample::rate);
        let busy = spread(samples, servers, |sample| {
            sample.cpu.as_secs_f64() / sample.wall.as_secs_f64() / processors
        });
        let bytes = spread(samples, servers, |s| float(s.database_bytes) / float(s.objects.max(1)));
        let _ = writeln!(
            text,
            "| {servers} | {median:.0} ({least:.0}-{most:.0}) | {:.2} x | {:.0} % | {:.0} |",
            median / base,
            busy.median * 100.0,
            bytes.median
        );
    }
    text
}

fn document(samples: &[Sample], nodes: usize, (before, after): &(String, String)) -> Value {
    let sample = |sample: &Sample| {
        json!({
            "servers": sample.servers,
            "wall_seconds": sample.wall.as_secs_f64(),
            "cpu_seconds": sample.cpu.as_secs_f64(),
            "objects": sample.objects,
            "database_bytes": sample.database_bytes,
        })
    };
    json!({
        "machine": Machine::read().document(before, after),
        "nodes": nodes,
        "samples": samples.iter().map(sample).collect::<Vec<_>>(),
    })
}
