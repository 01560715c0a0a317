//! Garage, an object store that speaks the protocol of S3: one node, for one test.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::port::free_port;
use crate::{clock, skip};

pub(super) const KEY_ID: &str = "GK0123456789abcdef01234567";
pub(super) const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
pub(super) const BUCKET: &str = "packs";
/// Name of the bucket while it is hidden.
const HIDDEN: &str = "hidden";
const READY_SECS: u64 = 120;

/// An object store. It ends when this value is dropped.
pub struct Garage {
    folder: PathBuf,
    port: u16,
    process: Option<Child>,
    /// True if the store ends when the thread that started it ends.
    is_bound: bool,
}

/// Path of the program, if `.ci/garage` has built it.
pub(super) fn program() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let program = cache.join("holdfast/garage/bin/garage");
    program.try_exists().ok()?.then_some(program)
}

/// Returns true if the program was built; otherwise prints that the test is left out.
pub(super) fn is_there() -> bool {
    let is_there = program().is_some();
    if !is_there {
        skip::say("Garage is not built; '.ci/garage' builds it");
    }
    is_there
}

impl Garage {
    /// Starts a store in the new folder `folder`; `None`, with a line on standard error, if Garage
    /// is not built.
    pub fn start(folder: &Path) -> Option<Self> {
        Self::make(folder, false)
    }

    /// Starts a store that ends when the calling thread ends.
    pub(super) fn start_bound(folder: &Path) -> Option<Self> {
        Self::make(folder, true)
    }

    fn make(folder: &Path, is_bound: bool) -> Option<Self> {
        if !is_there() {
            return None;
        }
        fs::create_dir_all(folder).expect("a folder");
        let (folder, port) = (folder.to_owned(), free_port());
        let garage = Self { folder, port, process: None, is_bound };
        fs::write(
            garage.credentials(),
            format!("[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"),
        )
        .expect("is written");
        let rpc = free_port();
        let settings = format!(
            "metadata_dir = \"{0}/meta\"\ndata_dir = \"{0}/data\"\ndb_engine = \"sqlite\"\n\
             replication_factor = 1\nmetadata_fsync = false\ndata_fsync = false\n\
             rpc_bind_addr = \"127.0.0.1:{rpc}\"\nrpc_public_addr = \"127.0.0.1:{rpc}\"\n\
             rpc_secret = \"{SECRET}\"\n\
             [s3_api]\ns3_region = \"garage\"\napi_bind_addr = \"127.0.0.1:{1}\"\n",
            garage.folder.display(),
            garage.port,
        );
        fs::write(garage.folder.join("garage.toml"), settings).expect("is written");
        Some(garage.running())
    }

    fn running(mut self) -> Self {
        self.begin();
        self
    }

    /// Starts the process, and waits until it answers.
    pub fn begin(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"));
        let mut command = Command::new(if self.is_bound { "setpriv" } else { "env" });
        if self.is_bound {
            command.args(["--pdeathsig", "KILL"]);
        }
        let process = command
            .arg(program().expect("the program exists"))
            .args(["server", "--single-node", "--default-bucket"])
            .env("GARAGE_CONFIG_FILE", self.folder.join("garage.toml"))
            .env("GARAGE_DEFAULT_ACCESS_KEY", KEY_ID)
            .env("GARAGE_DEFAULT_SECRET_KEY", SECRET)
            .env("GARAGE_DEFAULT_BUCKET", BUCKET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("Garage starts");
        self.process = Some(process);
        let answers = (0..READY_SECS * 10).any(|_| {
            clock::pause(Duration::from_millis(100));
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        assert!(answers, "Garage does not answer; see {}", self.folder.join("log").display());
    }

    /// Kills the process.
    pub fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("is killed");
            process.wait().expect("has ended");
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of unfinished uploads, as the store counts them.
    pub fn unfinished_uploads(&self) -> u64 {
        let text = self.manage(&["bucket", "info", BUCKET]);
        // `bucket list` has no such line if there are no buckets.
        let line = text.lines().find_map(|line| line.strip_prefix("Unfinished uploads:"));
        let count = line.and_then(|line| line.trim().split(' ').next());
        count.map_or(0, |count| count.parse().expect("a count"))
    }

    /// Sends the store a command; returns its output.
    #[track_caller]
    fn manage(&self, arguments: &[&str]) -> String {
        let told = Command::new(program().expect("the program exists"))
            .args(arguments)
            .env("GARAGE_CONFIG_FILE", self.folder.join("garage.toml"))
            .output()
            .expect("Garage runs");
        let error = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{arguments:?}: {error}");
        String::from_utf8_lossy(&told.stdout).into_owned()
    }

    /// Limits the size of the bucket, as in `20MiB`; `none` lifts the limit.
    #[track_caller]
    pub fn limit(&self, size_max: &str) {
        self.manage(&["bucket", "set-quotas", BUCKET, "--max-size", size_max]);
    }

    /// Limits the number of objects in the bucket; `none` lifts the limit.
    #[track_caller]
    pub fn limit_objects(&self, count_max: &str) {
        self.manage(&["bucket", "set-quotas", BUCKET, "--max-objects", count_max]);
    }

    /// Allows the key to read and write the bucket, or denies both.
    #[track_caller]
    pub fn open(&self, is_open: bool) {
        let verb = if is_open { "allow" } else { "deny" };
        self.manage(&["bucket", verb, BUCKET, "--key", KEY_ID, "--read", "--write"]);
    }

    /// Removes the bucket's name, or restores the name.
    #[track_caller]
    pub fn hide(&self, is_hidden: bool) {
        let (from, to) = if is_hidden { (BUCKET, HIDDEN) } else { (HIDDEN, BUCKET) };
        self.manage(&["bucket", "alias", from, to]);
        self.manage(&["bucket", "unalias", from]);
    }

    /// File with the store's keys.
    pub fn credentials(&self) -> PathBuf {
        self.folder.join("keys")
    }

    /// The keys as variables of the environment, as in `NAME=VALUE`.
    pub fn variables() -> [String; 2] {
        [format!("AWS_ACCESS_KEY_ID={KEY_ID}"), format!("AWS_SECRET_ACCESS_KEY={SECRET}")]
    }

    /// The URL of a pool in the bucket.
    pub fn url(&self, prefix: &str) -> String {
        self.url_at(self.port, prefix)
    }

    /// The URL of a pool in the bucket, through another port.
    pub fn url_at(&self, port: u16, prefix: &str) -> String {
        format!(
            "s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{port}&region=garage&credentials={}",
            self.credentials().display()
        )
    }
}

impl Drop for Garage {
    fn drop(&mut self) {
        self.end();
    }
}
