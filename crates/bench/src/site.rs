//! A server and a node of its own, in one folder, and the cost of their commands.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use e2e::harness;
use serde_json::{Value, json};

use crate::machine;
use crate::process::{self, Finished, Runner, Server};
use crate::trouble::Trouble;
use crate::walk;

/// The name of the node.
pub(crate) const NODE: &str = "bench";

/// One measurement. Figures that a bare walk does not have are zero.
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
            "server_memory_bytes": self.server_memory_bytes,
            "bytes_transferred": self.bytes_transferred,
            "failed": self.failed,
            "exit_code": self.exit_code,
        })
    }
}

/// The state after a first backup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) pool_bytes: u64,
    pub(crate) catalog_bytes: u64,
    /// The chunk index, which is derived.
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

    /// Makes and runs a server, with a node.
    pub(crate) fn enrolled(&self) -> Result<Server, Trouble> {
        self.enrolled_with(&[])
    }

    /// Does the same as [`Self::enrolled`], with these options of `server init`.
    pub(crate) fn enrolled_with(&self, options: &[&OsStr]) -> Result<Server, Trouble> {
        let (server, address) = self.started_with(options)?;
        self.enrol(&address)?;
        Ok(server)
    }

    /// Makes and runs a server; returns it with its address.
    pub(crate) fn started(&self) -> Result<(Server, String), Trouble> {
        self.started_with(&[])
    }

    fn started_with(&self, options: &[&OsStr]) -> Result<(Server, String), Trouble> {
        let folder = self.server();
        // The port stays the same through all restarts, because the node remembers the address.
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

    /// Enrols the node at the server, which it reaches at `address`.
    pub(crate) fn enrol(&self, address: &str) -> Result<(), Trouble> {
        let token = self.token(NODE)?;
        self.client(&["enroll".as_ref(), address.as_ref(), "--token".as_ref(), token.as_ref()])?;
        Ok(())
    }

    /// Registers a node and returns its token.
    pub(crate) fn token(&self, node: &str) -> Result<String, Trouble> {
        let folder = self.server();
        let add: [&OsStr; 6] = [
            "admin".as_ref(),
            "--server".as_ref(),
            folder.as_os_str(),
            "node".as_ref(),
            "add".as_ref(),
            node.as_ref(),
        ];
        let answer = self.runner.run(&add)?.report;
        let token = answer["token"].as_str().map(str::to_owned);
        token.ok_or_else(|| Trouble::new("admin node add gives no token"))
    }

    /// Runs the server again.
    pub(crate) fn serve(&self) -> Result<Server, Trouble> {
        self.runner.serve(&self.server())
    }

    pub(crate) fn stored(&self) -> Result<Stored, Trouble> {
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

    /// Runs a command of the node, and measures the command and `server`.
    pub(crate) fn measured(
        &self,
        server: &Server,
        arguments: &[&OsStr],
    ) -> Result<Sample, Trouble> {
        // Earlier data must not be written while the time runs.
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
            report: finished.report,
        })
    }

    /// Runs a command of the node.
    pub(crate) fn client(&self, arguments: &[&OsStr]) -> Result<Finished, Trouble> {
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

/// Number of cores busy with other work above which the figures mean little.
pub(crate) const OTHER_CORES_MAX: f64 = 0.2;

/// Returns the number of cores that other programs kept busy, over all `samples` together.
pub(crate) fn other_cores(samples: &[&Sample]) -> f64 {
    let sum = |figure: fn(&Sample) -> Duration| -> f64 {
        samples.iter().map(|sample| figure(sample).as_secs_f64()).sum()
    };
    sum(|sample| sample.other_cpu) / sum(|sample| sample.wall).max(f64::MIN_POSITIVE)
}
