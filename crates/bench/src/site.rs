//! A server with one node, in a folder of their own, and the cost of their commands.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness;
use serde_json::{Value, json};

use crate::machine::{self, ResidentMemory};
use crate::process::{self, Outcome, Runner, Server};
use crate::trouble::Trouble;
use crate::walk;

/// The name of the node.
pub(crate) const NODE: &str = "bench";

/// The figures of one measurement. Figures that a bare walk does not have are 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) wall: Duration,
    pub(crate) client_cpu: Duration,
    pub(crate) server_cpu: Duration,
    /// Processor time of all other processes on the machine, including the kernel's own threads.
    pub(crate) other_cpu: Duration,
    pub(crate) client_memory_bytes: u64,
    /// Peak of each kind of the client's memory, sampled.
    pub(crate) client_resident: ResidentMemory,
    pub(crate) server_memory_bytes: u64,
    pub(crate) bytes_transferred: u64,
    pub(crate) exit_code: i32,
    pub(crate) failed: u64,
    /// The session report.
    pub(crate) report: Value,
}

impl Sample {
    pub(crate) fn json(&self) -> Value {
        json!({
            "wall_secs": self.wall.as_secs_f64(),
            "client_cpu_secs": self.client_cpu.as_secs_f64(),
            "server_cpu_secs": self.server_cpu.as_secs_f64(),
            "other_cpu_secs": self.other_cpu.as_secs_f64(),
            "client_memory_bytes": self.client_memory_bytes,
            "client_anonymous_bytes": self.client_resident.anonymous_bytes,
            "client_mapped_bytes": self.client_resident.mapped_bytes,
            "server_memory_bytes": self.server_memory_bytes,
            "bytes_transferred": self.bytes_transferred,
            "failed": self.failed,
            "exit_code": self.exit_code,
        })
    }
}

/// Sizes of the stored data after a first backup, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredSizes {
    pub(crate) pool_bytes: u64,
    pub(crate) catalog_bytes: u64,
    /// Size of the chunk index, which could be rebuilt.
    pub(crate) index_bytes: u64,
    /// Size of the node's home folder, most of which is its deduplication cache.
    pub(crate) home_bytes: u64,
}

/// The folder of one server and its node.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    runner: &'a Runner,
    folder: PathBuf,
}

impl<'a> Site<'a> {
    pub(crate) fn new(runner: &'a Runner, folder: PathBuf) -> Self {
        Self { runner, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the same site with another runner.
    pub(crate) fn run_by<'b>(&self, runner: &'b Runner) -> Site<'b> {
        Site { runner, folder: self.folder.clone() }
    }

    /// Makes and starts a server, and enrols a node.
    pub(crate) fn enrolled(&self) -> Result<Server, Trouble> {
        self.enrolled_with(&[])
    }

    /// Does the same as [`Self::enrolled`], with `options` for `server init`.
    pub(crate) fn enrolled_with(&self, options: &[&OsStr]) -> Result<Server, Trouble> {
        let (server, address) = self.started_with(options)?;
        self.enrol(&address)?;
        Ok(server)
    }

    /// Makes and starts a server. Returns the server and its address.
    pub(crate) fn started(&self) -> Result<(Server, String), Trouble> {
        self.started_with(&[])
    }

    fn started_with(&self, options: &[&OsStr]) -> Result<(Server, String), Trouble> {
        let folder = self.server();
        // The port must stay the same after a restart, because the node remembers the address.
        let address = format!("127.0.0.1:{}", harness::Server::free_port());
        let init: [&OsStr; 5] = [
            "server".as_ref(),
            "init".as_ref(),
            folder.as_os_str(),
            "--listen".as_ref(),
            address.as_ref(),
        ];
        self.runner.run(&[&init, options].concat())?;
        Ok((self.serve()?, address))
    }

    /// Enrols the node. It reaches the server at `address`.
    pub(crate) fn enrol(&self, address: &str) -> Result<(), Trouble> {
        let token = self.token(NODE)?;
        self.client(&["enroll".as_ref(), address.as_ref(), "--token".as_ref(), token.as_ref()])?;
        Ok(())
    }

    /// Registers the node `node`, and returns the token with which it can enrol.
    pub(crate) fn token(&self, node: &str) -> Result<String, Trouble> {
        let answer = self.admin(&["node".as_ref(), "add".as_ref(), node.as_ref()])?;
        let token = answer["token"].as_str().map(str::to_owned);
        token.ok_or_else(|| Trouble::new("admin node add returned no token"))
    }

    /// Runs a command of the administrator, and returns its document.
    pub(crate) fn admin(&self, arguments: &[&OsStr]) -> Result<Value, Trouble> {
        let folder = self.server();
        let admin: [&OsStr; 3] = ["admin".as_ref(), "--server".as_ref(), folder.as_os_str()];
        Ok(self.runner.run(&[&admin, arguments].concat())?.report)
    }

    /// Starts the server, which must exist.
    pub(crate) fn serve(&self) -> Result<Server, Trouble> {
        self.runner.serve(&self.server())
    }

    pub(crate) fn stored(&self) -> Result<StoredSizes, Trouble> {
        let server = self.server();
        let catalog = ["catalog.sqlite", "catalog.sqlite-wal"].map(|name| server.join(name));
        let there = catalog.iter().filter(|path| path.is_file());
        Ok(StoredSizes {
            pool_bytes: machine::bytes_below(&server.join("pool"))?,
            catalog_bytes: there.map(|path| machine::bytes_below(path)).sum::<Result<_, _>>()?,
            index_bytes: machine::bytes_below(&server.join("index"))?,
            home_bytes: machine::bytes_below(&self.home())?,
        })
    }

    /// Runs a command of the node, and measures the command and `server` meanwhile.
    pub(crate) fn measured(
        &self,
        server: &Server,
        arguments: &[&OsStr],
    ) -> Result<Sample, Trouble> {
        // Data of earlier work must not be written to the disk during the measurement.
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
            client_resident: finished.resident,
            server_memory_bytes: machine::peak_memory_of(server.pid())?,
            bytes_transferred: count("bytes_transferred"),
            exit_code: finished.exit_code,
            failed: count("failed"),
            report: finished.report,
        })
    }

    /// Runs a command of the node.
    pub(crate) fn client(&self, arguments: &[&OsStr]) -> Result<Outcome, Trouble> {
        let home = self.home();
        self.runner.run(&[arguments, &["--home".as_ref(), home.as_os_str()]].concat())
    }

    pub(crate) fn server(&self) -> PathBuf {
        self.folder.join("server")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }
}

pub(crate) fn bare_walk(tree: &Path) -> Result<Sample, Trouble> {
    process::check_interrupted()?;
    let (all_before, own_before) = (machine::cpu_of_all()?, sys::process::cpu_time());
    let (tally, wall) = clock::timed(|| walk::walk(tree));
    let client_cpu = sys::process::cpu_time().saturating_sub(own_before);
    let all = machine::cpu_of_all()?.saturating_sub(all_before);
    let failed = tally?.unreadable;
    let other_cpu = all.saturating_sub(client_cpu);
    Ok(Sample { wall, client_cpu, other_cpu, failed, ..Sample::default() })
}

/// Maximum number of cores that other programs may keep busy. Above it the figures mean little.
pub(crate) const OTHER_CORES_MAX: f64 = 0.2;

/// Returns the number of cores that other programs kept busy, over all `samples` together.
pub(crate) fn other_cores(samples: &[&Sample]) -> f64 {
    let sum = |figure: fn(&Sample) -> Duration| -> f64 {
        samples.iter().map(|sample| figure(sample).as_secs_f64()).sum()
    };
    sum(|sample| sample.other_cpu) / sum(|sample| sample.wall).max(f64::MIN_POSITIVE)
}
