//! An object store of three nodes, each in a network namespace of its own. A test may kill one
//! node: Garage keeps three copies of everything, and two copies are enough.
//!
//! ```text
//!   bridge on this machine, 10.213.N.254
//!     +-- namespace 1: node, 10.213.N.1   (servers use this node)
//!     +-- namespace 2: node, 10.213.N.2
//!     +-- namespace 3: node, 10.213.N.3
//! ```

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::garage::{BUCKET, KEY_ID, SECRET, is_there, program};
use super::{Proxy, is_root};
use crate::{clock, skip};

const NODES: usize = 3;
const READY_SECS: u64 = 120;
/// Prefix of the names of namespaces and links; the id of the process follows.
const PREFIX: &str = "hfg";
const API_PORT: u16 = 3900;
const RPC_PORT: u16 = 3901;

/// An object store of three nodes. Dropping it removes the namespaces.
pub struct Ring {
    folder: PathBuf,
    name: String,
    subnet: u8,
    processes: [Option<Child>; NODES],
}

/// Returns true if the command succeeds.
fn works(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

#[track_caller]
fn must(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the command runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Removes the networks of processes that have ended.
fn remove_left_behind() {
    let listed = Command::new("ip").args(["netns", "list"]).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    for name in listed.unwrap_or_default().lines().filter_map(|line| line.split(' ').next()) {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if let Some(process) = process
            && !Path::new("/proc").join(process).is_dir()
        {
            works("ip", &["netns", "del", name]);
            works("ip", &["link", "del", &format!("{PREFIX}{process}")]);
        }
    }
}

impl Ring {
    /// Starts the nodes, with their data in the new folder `folder`; `None`, with a line on
    /// standard error, if this machine cannot run them.
    pub fn start(folder: &Path) -> Option<Self> {
        if !is_there() {
            return None;
        }
        let missing = if !is_root() {
            Some("network namespaces need root")
        } else if !works("ip", &["netns", "list"]) {
            Some("no network namespaces, or no 'ip': '.ci/packages test' installs 'ip'")
        } else {
            None
        };
        if let Some(missing) = missing {
            skip::say(missing);
            return None;
        }
        remove_left_behind();
        fs::create_dir_all(folder).expect("a folder");
        let keys =
            format!("[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n");
        fs::write(folder.join("keys"), keys).expect("is written");
        let process = std::process::id();
        let subnet = u8::try_from(process % 250).expect("below 250");
        let name = format!("{PREFIX}{process}");
        let mut ring =
            Self { folder: folder.to_owned(), name, subnet, processes: [None, None, None] };
        if !ring.connect() {
            skip::say("this machine cannot make network bridges");
            return None;
        }
        for node in 0..NODES {
            ring.configure(node);
            ring.begin(node);
        }
        ring.lay_out();
        Some(ring)
    }

    fn space(&self, node: usize) -> String {
        format!("{}-{}", self.name, node + 1)
    }

    fn address(&self, node: usize) -> String {
        format!("10.213.{}.{}", self.subnet, node + 1)
    }

    /// Name of this machine's end of the link to a node. Names of links must be short.
    fn link(&self, node: usize) -> String {
        format!("{}v{}", self.name, node + 1)
    }

    /// Makes the networks; returns false if the machine does not allow that.
    fn connect(&self) -> bool {
        let bridge = &self.name[..];
        if !works("ip", &["link", "add", bridge, "type", "bridge"]) {
            return false;
        }
        let gate = format!("10.213.{}.254/24", self.subnet);
        must("ip", &["address", "add", &gate, "dev", bridge]);
        must("ip", &["link", "set", bridge, "up"]);
        for node in 0..NODES {
            let (space, link) = (self.space(node), self.link(node));
            let address = format!("{}/24", self.address(node));
            must("ip", &["netns", "add", &space]);
            let pair = ["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns"];
            must("ip", &[&pair[..], &[&space]].concat());
            must("ip", &["link", "set", &link, "master", bridge, "up"]);
            must("ip", &["-n", &space, "address", "add", &address, "dev", "eth0"]);
            must("ip", &["-n", &space, "link", "set", "eth0", "up"]);
            must("ip", &["-n", &space, "link", "set", "lo", "up"]);
        }
        true
    }

    fn settings(&self, node: usize) -> PathBuf {
        self.folder.join(format!("node-{}.toml", node + 1))
    }

    fn configure(&self, node: usize) {
        let (folder, address) = (self.folder.display(), self.address(node));
        let settings = format!(
            "metadata_dir = \"{folder}/meta-{node}\"\ndata_dir = \"{folder}/data-{node}\"\n\
             db_engine = \"sqlite\"\nreplication_factor = {NODES}\nmetadata_fsync = false\n\
             data_fsync = false\nrpc_bind_addr = \"{address}:{RPC_PORT}\"\n\
             rpc_public_addr = \"{address}:{RPC_PORT}\"\nrpc_secret = \"{SECRET}\"\n\
             [s3_api]\ns3_region = \"garage\"\napi_bind_addr = \"{address}:{API_PORT}\"\n",
        );
        fs::write(self.settings(node), settings).expect("is written");
    }

    /// Starts a node's process, and waits until it answers.
    pub fn begin(&mut self, node: usize) {
        let log = self.folder.join(format!("log-{}", node + 1));
        let log = fs::File::options().create(true).append(true).open(log);
        let process = Command::new("ip")
            .args(["netns", "exec", &self.space(node)])
            .arg(program().expect("the program exists"))
            .arg("server")
            .env("GARAGE_CONFIG_FILE", self.settings(node))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        self.processes[node] = Some(process.expect("Garage starts"));
        let address = (self.address(node), API_PORT);
        let answers = (0..READY_SECS * 10).any(|_| {
            clock::pause(Duration::from_millis(100));
            TcpStream::connect((address.0.as_str(), address.1)).is_ok()
        });
        assert!(answers, "a node does not answer; see {}", self.folder.display());
    }

    /// Kills a node's process.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut process) = self.processes[node].take() {
            process.kill().expect("is killed");
            process.wait().expect("has ended");
        }
    }

    /// Runs a command of Garage at a node; returns its output.
    #[track_caller]
    fn told(&self, node: usize, arguments: &[&str]) -> String {
        let program = program().expect("the program exists");
        let (space, settings) = (self.space(node), self.settings(node));
        let fixed = ["netns", "exec", &space, program.to_str().expect("a path of text"), "-c"];
        let settings = [settings.to_str().expect("a path of text")];
        must("ip", &[&fixed[..], &settings, arguments].concat())
    }

    /// Joins the nodes into one store, and makes a bucket.
    fn lay_out(&self) {
        let ids: Vec<String> = (0..NODES)
            .map(|node| self.told(node, &["node", "id", "-q"]).trim().to_owned())
            .collect();
        for id in &ids[1..] {
            self.told(0, &["node", "connect", id]);
        }
        for id in &ids {
            let id = id.split('@').next().unwrap_or(id);
            self.told(0, &["layout", "assign", id, "-z", id, "-c", "10G"]);
        }
        self.told(0, &["layout", "apply", "--version", "1"]);
        self.told(0, &["key", "import", KEY_ID, SECRET, "-n", "tests", "--yes"]);
        self.told(0, &["bucket", "create", BUCKET]);
        let allow = ["bucket", "allow", "--read", "--write", "--owner", BUCKET, "--key", KEY_ID];
        self.told(0, &allow);
    }

    /// The URL of a pool in the store, through the first node.
    pub fn url(&self, prefix: &str) -> String {
        self.url_at(&format!("{}:{API_PORT}", self.address(0)), prefix)
    }

    /// Starts a proxy in front of the first node; returns it, and the URL of a pool through it.
    pub fn proxied(&self, prefix: &str) -> (Proxy, String) {
        let node = self.address(0).parse().expect("an address");
        let proxy = Proxy::before(SocketAddr::new(node, API_PORT));
        let url = self.url_at(&format!("127.0.0.1:{}", proxy.port()), prefix);
        (proxy, url)
    }

    fn url_at(&self, host: &str, prefix: &str) -> String {
        let keys = self.folder.join("keys");
        let keys = keys.display();
        format!("s3://{BUCKET}/{prefix}?endpoint=http://{host}&region=garage&credentials={keys}")
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for node in 0..NODES {
            self.kill(node);
            works("ip", &["link", "del", &self.link(node)]);
            works("ip", &["netns", "del", &self.space(node)]);
        }
        works("ip", &["link", "del", &self.name]);
    }
}
