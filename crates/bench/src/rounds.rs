//! What is measured, in which order. See the drawing in `main.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness;

use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Finished, Runner, Server};
use crate::trouble::{Trouble, While as _};
use crate::walk::{self, Tally};
use crate::workplace::Workplace;

/// Pairs of bare walk and incremental in a round.
pub(crate) const INCREMENTALS: usize = 5;

const NODE: &str = "bench";

/// One measurement. What a bare walk has not is zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) wall: Duration,
    pub(crate) client_cpu: Duration,
    pub(crate) server_cpu: Duration,
    /// Processor time of everything else on the machine, the kernel's own threads included.
    pub(crate) other_cpu: Duration,
    pub(crate) client_memory_bytes: u64,
    pub(crate) server_memory_bytes: u64,
    pub(crate) bytes_transferred: u64,
    pub(crate) exit_code: i32,
    pub(crate) failed: u64,
}

/// What a first backup leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) pool_bytes: u64,
    pub(crate) catalog_bytes: u64,
    /// The chunk index, which is derived.
    pub(crate) index_bytes: u64,
    /// The home of the node, its deduplication cache above all.
    pub(crate) home_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) first: Sample,
    pub(crate) stored: Stored,
    /// As many as `incrementals`: each was measured right before the one of the same index.
    pub(crate) walks: Vec<Sample>,
    pub(crate) incrementals: Vec<Sample>,
    pub(crate) restore: Sample,
}

#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) tree: PathBuf,
    pub(crate) tally: Tally,
    pub(crate) program: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    pub(crate) rounds: Vec<Round>,
}

/// Measures `tree` in `count` rounds.
pub(crate) fn measure(tree: &Path, count: usize) -> Result<Results, Trouble> {
    let program = process::find_program()?;
    let tree = tree.canonicalize().while_doing(|| format!("find {}", tree.display()))?;
    if !tree.is_dir() {
        return Err(Trouble::new(format!("{} is no directory", tree.display())));
    }
    let load_before = machine::load();
    let workplace = Workplace::new(&tree)?;
    let tally = walk::walk(&tree)?;
    workplace.check_room(&tally, count)?;
    let runner = Runner::new(program.clone(), workplace.folder("outputs")?);
    let mut rounds = Vec::new();
    for number in 1..=count {
        output::step(&format!("round {number} of {count}"));
        let folder = workplace.folder(&format!("round-{number}"))?;
        rounds.push(Place { runner: &runner, tree: &tree, folder }.round()?);
    }
    let machine = Machine::read();
    let load_after = machine::load();
    Ok(Results { tree, tally, program, machine, load_before, load_after, rounds })
}

/// Where one round takes place.
struct Place<'a> {
    runner: &'a Runner,
    tree: &'a Path,
    folder: PathBuf,
}

impl Place<'_> {
    fn round(&self) -> Result<Round, Trouble> {
        let server = self.enrolled()?;
        output::step("first backup");
        let first = self.measured(&server, &["backup".as_ref(), self.tree.as_os_str()])?;
        server.stop()?;
        let stored = self.stored()?;
        let (walks, incrementals) = self.incrementals()?;
        output::step("restore");
        let server = self.runner.serve(&self.server())?;
        let target = self.folder.join("restored");
        let restore: [&OsStr; 4] =
            ["restore".as_ref(), self.tree.as_os_str(), "--to".as_ref(), target.as_os_str()];
        let restore = self.measured(&server, &restore)?;
        server.stop()?;
        Ok(Round { first, stored, walks, incrementals, restore })
    }

    /// Makes and runs a server, with a node.
    fn enrolled(&self) -> Result<Server, Trouble> {
        let folder = self.server();
        // The same port through all restarts: it is the address that the node remembers.
        let address = format!("127.0.0.1:{}", harness::Server::free_port());
        let init: [&OsStr; 5] = [
            "server".as_ref(),
            "init".as_ref(),
            folder.as_os_str(),
            "--listen".as_ref(),
            address.as_ref(),
        ];
        self.runner.run(&init)?;
        let server = self.runner.serve(&folder)?;
        let add: [&OsStr; 6] = [
            "admin".as_ref(),
            "--server".as_ref(),
            folder.as_os_str(),
            "node".as_ref(),
            "add".as_ref(),
            NODE.as_ref(),
        ];
        let answer = self.runner.run(&add)?.report;
        let token = answer["token"].as_str();
        let token = token.ok_or_else(|| Trouble::new("admin node add gives no token"))?;
        self.client(&["enroll".as_ref(), address.as_ref(), "--token".as_ref(), token.as_ref()])?;
        Ok(server)
    }

    fn incrementals(&self) -> Result<(Vec<Sample>, Vec<Sample>), Trouble> {
        let server = self.runner.serve(&self.server())?;
        let backup: [&OsStr; 2] = ["backup".as_ref(), self.tree.as_os_str()];
        output::step("incrementals");
        // Warms what a server that has just started has not yet in memory.
        self.client(&backup)?;
        let (mut walks, mut incrementals) = (Vec::new(), Vec::new());
        for _ in 0..INCREMENTALS {
            walks.push(bare_walk(self.tree)?);
            incrementals.push(self.measured(&server, &backup)?);
        }
        server.stop()?;
        Ok((walks, incrementals))
    }

    fn stored(&self) -> Result<Stored, Trouble> {
        let server = self.server();
        let catalog = ["catalog.sqlite", "catalog.sqlite-wal"].map(|name| server.join(name));
        let there = catalog.iter().filter(|path| path.is_file());
        Ok(Stored {
            pool_bytes: machine::bytes_below(&server.join("pool"))?,
            catalog_bytes: there.map(|path| machine::bytes_below(path)).sum::<Result<_, _>>()?,
            index_bytes: machine::bytes_below(&server.join("index"))?,
            home_bytes: machine::bytes_below(&self.home())?,
        })
    }

    /// Runs a command of the node and measures it and `server`.
    fn measured(&self, server: &Server, arguments: &[&OsStr]) -> Result<Sample, Trouble> {
        // What was written before must not be written while the time runs.
        rustix::fs::sync();
        let (server_before, own_before) =
            (machine::cpu_of(server.pid())?, sys::process::cpu_time());
        let all_before = machine::cpu_of_all()?;
        let finished = self.client(arguments)?;
        let all = machine::cpu_of_all()?.saturating_sub(all_before);
        let own = sys::process::cpu_time().saturating_sub(own_before);
        let server_cpu = machine::cpu_of(server.pid())?.saturating_sub(server_before);
        let count = |key: &str| finished.report[key].as_u64().unwrap_or(0);
        Ok(Sample {
            wall: finished.wall,
            client_cpu: finished.cpu,
            server_cpu,
            other_cpu: all.saturating_sub(own + finished.cpu + server_cpu),
            client_memory_bytes: finished.memory_bytes,
            server_memory_bytes: machine::peak_memory_of(server.pid())?,
            bytes_transferred: count("bytes_transferred"),
            exit_code: finished.exit_code,
            failed: count("failed"),
        })
    }

    fn client(&self, arguments: &[&OsStr]) -> Result<Finished, Trouble> {
        let home = self.home();
        self.runner.run(&[arguments, &["--home".as_ref(), home.as_os_str()]].concat())
    }

    fn server(&self) -> PathBuf {
        self.folder.join("server")
    }

    fn home(&self) -> PathBuf {
        self.folder.join("home")
    }
}

fn bare_walk(tree: &Path) -> Result<Sample, Trouble> {
    process::check_interrupted()?;
    let (all_before, own_before) = (machine::cpu_of_all()?, sys::process::cpu_time());
    let (tally, wall) = clock::timed(|| walk::walk(tree));
    let client_cpu = sys::process::cpu_time().saturating_sub(own_before);
    let all = machine::cpu_of_all()?.saturating_sub(all_before);
    let failed = tally?.unreadable;
    let other_cpu = all.saturating_sub(client_cpu);
    Ok(Sample { wall, client_cpu, other_cpu, failed, ..Sample::default() })
}
