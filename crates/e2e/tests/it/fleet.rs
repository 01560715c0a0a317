//! A fleet for tests with several servers: a server with its catalogue in a database and its packs
//! in an object store, which other servers join, and nodes that back up round by round.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Cluster, Garage, Node, Proxy, Server};
use e2e::scratch::Scratch;

use crate::scene::{Scene, manifest, plant_files};

pub(crate) const FILES: usize = 60;
pub(crate) const FILE_BYTES: usize = 100_000;
/// Time limit for a command that reads everything that a long run has stored.
const LONG_MAX: Duration = Duration::from_secs(1200);

/// A server with its catalogue in a database and its packs in an object store. Database and store
/// end after the server.
pub(crate) struct Fleet<'a> {
    pub(crate) scene: Scene,
    pub(crate) cluster: &'a Cluster,
    pub(crate) database: String,
    pub(crate) garage: Garage,
}

impl Fleet<'static> {
    /// Makes a fleet with the database server that all tests share; `None` if this machine has no
    /// PostgreSQL or no Garage.
    pub(crate) fn new() -> Option<Self> {
        Self::over(Cluster::shared()?)
    }

    /// Makes a fleet with a proxy in front of the store.
    pub(crate) fn proxied() -> Option<(Self, Proxy)> {
        let cluster = Cluster::shared()?;
        let mut before = None;
        let fleet = Self::make(cluster, cluster.add_database(), |database, garage| {
            let proxy = before.insert(Proxy::start(garage.port()));
            (cluster.url(database), garage.url_at(proxy.port(), "site"))
        })?;
        Some((fleet, before?))
    }
}

impl<'a> Fleet<'a> {
    /// Makes a fleet with the test's own database server.
    pub(crate) fn over(cluster: &'a Cluster) -> Option<Self> {
        Self::make(cluster, cluster.add_database(), |database, garage| {
            (cluster.url(database), garage.url("site"))
        })
    }

    /// Makes a fleet with a database server and its standby.
    pub(crate) fn over_both(cluster: &'a Cluster, standby: &Cluster) -> Option<Self> {
        Self::make(cluster, cluster.add_database(), |database, garage| {
            (cluster.url_with(standby, database), garage.url("site"))
        })
    }

    /// Makes a fleet with the URLs of the database and the pool.
    fn make(
        cluster: &'a Cluster,
        database: String,
        urls: impl FnOnce(&str, &Garage) -> (String, String),
    ) -> Option<Self> {
        let scratch = Scratch::new();
        let garage = Garage::start(&scratch.join("garage"))?;
        let (catalog, pool) = urls(&database, &garage);
        let options = ["--pool", &pool, "--catalog", &catalog];
        let scene = Scene::stored(scratch, &options, FILES, FILE_BYTES);
        Some(Self { scene, cluster, database, garage })
    }

    /// Makes another server for the same catalogue and pool, and runs it.
    pub(crate) fn join(&self, name: &str) -> Server {
        let file = self.scene.recovery_file();
        let (dir, port) = (self.scene.scratch.join(name), Server::free_port());
        let listen = format!("127.0.0.1:{port}");
        let (dir_name, file_name) = (dir.to_str().unwrap(), file.to_str().unwrap());
        let join = ["join", dir_name, "--from", file_name, "--listen", &listen];
        Server::command(&join).expect(&[0]);
        Server::start_at(&dir, port)
    }

    /// Starts another server, and makes both known to the node.
    pub(crate) fn with_another(&self) -> Server {
        let other = self.join("other");
        self.enrol_at(&format!("{},{}", self.scene.server.address(), other.address()));
        other
    }

    /// Makes these servers known to the node.
    pub(crate) fn enrol_at(&self, addresses: &str) {
        let again = self.scene.server.admin(&["node", "add", "anna", "--again"]);
        self.scene.node.enrol_at(addresses, again["token"].as_str().unwrap());
    }

    /// Makes another node, which knows these servers, and the folder of its tree.
    pub(crate) fn client(&self, name: &str, addresses: &str) -> (Node, PathBuf) {
        let node = Node::enrol(&self.scene.server, name);
        let again = self.scene.server.admin(&["node", "add", name, "--again"]);
        node.enrol_at(addresses, again["token"].as_str().unwrap());
        (node, self.scene.scratch.folder(&format!("trees/{name}")))
    }

    #[track_caller]
    pub(crate) fn audit(&self) {
        audit(&[&self.scene.server]);
    }
}

/// Makes the server that keeps house audit all data. No damage may be found.
#[track_caller]
pub(crate) fn audit(servers: &[&Server]) {
    audit_data(keeper(servers));
}

/// Makes the server audit all data. No damage may be found.
#[track_caller]
pub(crate) fn audit_data(server: &Server) {
    let running = server.spawn_admin(&["audit", "--data", "--json"]);
    let audit = running.wait_within(LONG_MAX).expect(&[0]).json_lines();
    assert_eq!(audit[0]["damages"].as_array().map(Vec::len), Some(0), "{audit:?}");
}

pub(crate) fn servers(server: &Server) -> Vec<serde_json::Value> {
    let outcome = server.try_admin(&["servers"]).expect(&[0, 8]);
    let code = outcome.code();
    let servers = outcome.json_lines();
    let is_impaired = |server: &serde_json::Value| {
        !server["hold"].is_null()
            || server["disk_errors"].as_u64() > Some(0)
            || server["lacks_index"] == true
            || server["refuses_data"] == true
    };
    let is_told = servers.iter().any(is_impaired);
    assert_eq!(code == 8, is_told, "the code tells what the list shows: {servers:?}");
    servers
}

/// Returns true if the server keeps house for all.
pub(crate) fn keeps_house(server: &Server) -> bool {
    servers(server)
        .iter()
        .any(|one| one["is_this"] == true && one["keeps_house"] == true)
}

/// Waits until one of the servers keeps house, and returns it.
#[track_caller]
pub(crate) fn keeper<'a>(servers: &[&'a Server]) -> &'a Server {
    let mut found = None;
    let keeps = || {
        found = servers.iter().copied().find(|server| keeps_house(server));
        found.is_some()
    };
    assert!(eventually(keeps), "no server keeps house");
    found.expect("a server was found")
}

/// Waits until the server knows `count` servers, itself among them.
#[track_caller]
pub(crate) fn await_servers(server: &Server, count: usize) {
    assert!(eventually(|| servers(server).len() == count), "{:?}", servers(server));
}

/// Waits until the condition holds, and returns true if it does within a minute and a half: servers
/// hand over their work in half a minute, and the machine may be busy.
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    (0..360).any(|_| {
        let is_so = is_so();
        if !is_so {
            pause(Duration::from_millis(250));
        }
        is_so
    })
}

const ROUND_FILES: usize = 5;
/// Number of objects that a round changes: its files, their two folders, and the folder above
/// these.
const ROUND_OBJECTS: u64 = ROUND_FILES as u64 + 3;

/// Makes and backs up files, round by round, until `is_over` is true. Returns the rounds whose
/// backups were acknowledged. Their files must not be backed up again.
pub(crate) fn run_rounds(node: &Node, tree: &Path, seed: u64, is_over: &AtomicBool) -> Vec<u64> {
    let mut stored = Vec::new();
    let mut is_all_stored = false;
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let folder = tree.join(format!("round-{round}"));
        plant_files(&folder, ROUND_FILES, 20_000, seed * 1000 + round);
        let outcome = node.backup(tree, &[]);
        let is_stored = outcome.code() == 0;
        if is_stored {
            let is_lost = is_all_stored && outcome.count("backed_up") > ROUND_OBJECTS;
            assert!(!is_lost, "files stored before round {round} are backed up again: {outcome}");
            stored.push(round);
        } else {
            eprintln!("round {round} was not stored: {outcome}");
        }
        is_all_stored = is_stored;
    }
    stored
}

/// Restores the tree into the new folder `out`. The files of these rounds must come back as they
/// were.
#[track_caller]
pub(crate) fn compare_rounds((node, tree): (&Node, &Path), rounds: &[u64], out: &Path) {
    let restored = node.spawn_restore(tree, out, &[]).wait_within(LONG_MAX);
    restored.expect(&[0]).counts(&[("failed", 0)]);
    let top = out.join(tree.file_name().unwrap());
    for round in rounds {
        let name = format!("round-{round}");
        let (expected, found) = (manifest(&tree.join(&name)), manifest(&top.join(&name)));
        e2e::manifest::assert_same(&expected, &found);
    }
}

/// Guard that sets the flag when it is dropped, even if the test fails.
pub(crate) struct StopGuard<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
