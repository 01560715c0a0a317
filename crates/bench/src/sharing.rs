//! `bench sharing`: the space that it costs not to share short chunks between nodes.
//!
//! ```text
//!   for each limit:  a new server -> one node after the other backs up the same tree
//!                                 -> after each of them, the size of the pool
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::harness::{Node, Server};
use serde_json::{Value, json};

use crate::arguments::number;
use crate::machine::{self, Machine};
use crate::output;
use crate::spread::float;
use crate::trouble::{Context as _, Trouble};
use crate::workplace::Workplace;

/// Compare the sizes of a pool by the length from which nodes share chunks
///
/// All nodes have the same tree, as nodes of one operating system do. The setting is
/// 'shared_chunk_bytes_min' in server.toml.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Number of nodes
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = NODES_DEFAULT, value_parser = number(2..=NODES_MAX))]
    nodes: usize,
    /// Write one JSON document with every sample
    #[arg(long)]
    json: bool,
}

const NODES_DEFAULT: usize = 3;
const NODES_MAX: usize = 100;
/// Limits that are measured: everything is shared, the default, and two larger ones.
const LIMITS: [u32; 4] = [0, 64 << 10, 256 << 10, u32::MAX];

/// The backup of one node.
struct Sample {
    limit: u32,
    /// Number of the node, from 1.
    node: usize,
    /// Size of the pool after the backup.
    pool_bytes: u64,
    wall: Duration,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let load_before = machine::load();
    let workplace = Workplace::new(&args.tree)?;
    let mut samples = Vec::new();
    for limit in LIMITS {
        let folder = workplace.folder(&format!("server-{limit}"))?;
        samples.extend(measure(&folder, limit, args)?);
    }
    let loads = (load_before, machine::load());
    if args.json {
        return output::result(&document(&samples, &loads).to_string());
    }
    output::result(&table(&samples, args.nodes))
}

fn measure(folder: &Path, limit: u32, args: &Args) -> Result<Vec<Sample>, Trouble> {
    let dir = folder.join("server");
    let port = Server::free_port();
    Server::init(&dir, port).expect(&[0]);
    share_from(&dir.join("server.toml"), limit)?;
    let mut server = Server::start_at(&dir, port);
    let mut samples = Vec::new();
    for number in 1..=args.nodes {
        output::step(&format!("{}: node {number}", shared(limit)));
        let node = Node::enrol(&server, &format!("node-{number}"));
        let began = sys::clock::monotonic();
        node.backup(&args.tree, &[]).expect(&[0]);
        let wall = began.elapsed();
        let pool_bytes = machine::bytes_below(&dir.join("pool"))?;
        samples.push(Sample { limit, node: number, pool_bytes, wall });
    }
    drop(server.terminate());
    Ok(samples)
}

/// Sets the length from which nodes share chunks.
fn share_from(config: &Path, limit: u32) -> Result<(), Trouble> {
    let what = || format!("change {}", config.display());
    let text = std::fs::read_to_string(config).while_doing(what)?;
    let is_other = |line: &&str| !line.starts_with("shared_chunk_bytes_min");
    let mut lines: Vec<&str> = text.lines().filter(is_other).collect();
    let line = format!("shared_chunk_bytes_min = {limit}");
    lines.push(&line);
    std::fs::write(config, lines.join("\n")).while_doing(what)
}

/// Describes what nodes share.
fn shared(limit: u32) -> String {
    match limit {
        0 => "all chunks".to_owned(),
        u32::MAX => "none".to_owned(),
        limit => format!("from {} KiB", limit >> 10),
    }
}

fn table(samples: &[Sample], nodes: usize) -> String {
    let mut text = "| nodes share |".to_owned();
    for node in 1..=nodes {
        let _ = write!(text, " pool after node {node}, MiB |");
    }
    text.push_str(" compared with node 1 | second backup, s |\n|---|");
    text.push_str(&"---|".repeat(nodes + 2));
    text.push('\n');
    for limit in LIMITS {
        let of_limit: Vec<&Sample> = samples.iter().filter(|s| s.limit == limit).collect();
        assert_eq!(of_limit.len(), nodes, "each node has backed up once");
        let _ = write!(text, "| {} |", shared(limit));
        for sample in &of_limit {
            let _ = write!(text, " {:.1} |", float(sample.pool_bytes) / 1_048_576.0);
        }
        let [first, last] = [&of_limit[0], &of_limit[nodes - 1]];
        let ratio = float(last.pool_bytes) / float(first.pool_bytes.max(1));
        let second = of_limit[1].wall.as_secs_f64();
        let _ = writeln!(text, " {ratio:.2} x | {second:.1} |");
    }
    text
}

fn document(samples: &[Sample], (before, after): &(String, String)) -> Value {
    let sample = |sample: &Sample| {
        json!({
            "shared_chunk_bytes_min": sample.limit,
            "node": sample.node,
            "pool_bytes": sample.pool_bytes,
            "wall_seconds": sample.wall.as_secs_f64(),
        })
    };
    json!({
        "machine": Machine::read().document(before, after),
        "samples": samples.iter().map(sample).collect::<Vec<_>>(),
    })
}
