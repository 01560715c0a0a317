//! A PostgreSQL server for tests, from Debian's packages, on a socket in a folder.

mod standby;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::is_root;
use crate::{clock, skip};

const READY_SECS: u64 = 120;
/// Prefix of the names of the folders; the number of the test's process follows.
const PREFIX: &str = "hfdb";

/// A database server. It ends when this value is dropped, or when the test's process ends.
pub struct Cluster {
    folder: TempDir,
    process: Mutex<Option<Child>>,
    databases: AtomicU32,
    fsync: &'static str,
    port: u16,
    door: Door,
}

/// Way to reach the server besides its socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    None,
    /// TCP at `127.0.0.1`.
    Plain,
    /// TCP at `localhost`, with TLS and the password.
    Encrypted,
}

/// Password of the user, for connections that need one.
const PASSWORD: &str = "what nobody guesses";
const PORT: u16 = 5432;

/// Returns the folder with the programs of the newest version; `None` if there is none.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|version| version.path()).max_by_key(|path| number(path))?;
    let programs = newest.join("bin");
    programs.join("postgres").try_exists().ok()?.then_some(programs)
}

/// Prepares to run a program of PostgreSQL. If the tests run as root, the program runs as another
/// user, because the server refuses to run as root. The program ends when the thread that started
/// it ends.
fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    }
    command.arg(program).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Removes folders of processes that have ended. A server that all tests of a process share ends
/// with the process, which can no longer remove the folder.
fn remove_left_behind() {
    let there = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten();
    for path in there.filter_map(Result::ok).map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if let Some(owner) = owner
            && !Path::new("/proc").join(owner).is_dir()
        {
            // Another process may be removing the folder at the same moment.
            drop(std::fs::remove_dir_all(&path));
        }
    }
}

/// Returns a path for the folder of a server that ends with the process. The next process removes
/// the folder.
pub(super) fn left_behind(name: &str) -> PathBuf {
    remove_left_behind();
    std::env::temp_dir().join(format!("{PREFIX}{}-{name}", std::process::id()))
}

impl Cluster {
    /// Returns the server that all tests of the process share; `None`, with a line on standard
    /// error, if PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Starts a server; `None`, with a line on standard error, if PostgreSQL is not installed. A
    /// power cut would lose its data, which does not matter in tests.
    pub fn start() -> Option<Self> {
        Self::make("off", Door::None)
    }

    /// Starts a server that also listens at `localhost`, with TLS and a password.
    pub fn encrypted() -> Option<Self> {
        Self::make("off", Door::Encrypted)
    }

    /// Starts a server that keeps every commit that it has confirmed, as a server in production
    /// does.
    pub fn durable() -> Option<Self> {
        Self::make("on", Door::None)
    }

    /// Starts a server as [`Self::durable`] does. It listens at [`Self::address`], too.
    pub fn durable_with_address() -> Option<Self> {
        Self::make("on", Door::Plain)
    }

    fn make(fsync: &'static str, door: Door) -> Option<Self> {
        let Some(programs) = programs() else {
            skip::say("PostgreSQL is not installed; '.ci/packages test' installs it");
            return None;
        };
        let cluster = Self::new(fsync, door);
        let made = command(&programs.join("initdb"))
            .args(["--no-sync", "--encoding", "UTF8", "--locale", "C", "--auth", "trust"])
            .args(["--username", "holdfast", "--pgdata"])
            .arg(cluster.data())
            .status();
        assert!(made.expect("initdb runs").success());
        if door == Door::Encrypted {
            cluster.encrypt();
        }
        cluster.begin();
        if door == Door::Encrypted {
            cluster.sql("postgres", &format!("ALTER USER holdfast PASSWORD '{PASSWORD}'"));
        }
        Some(cluster)
    }

    /// Makes an empty folder for a server, which is not started yet.
    fn new(fsync: &'static str, door: Door) -> Self {
        remove_left_behind();
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir().expect("a folder");
        if is_root() {
            let owned = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(owned.expect("chown runs").success());
        }
        let port = if door == Door::None { PORT } else { super::port::free_port() };
        let (process, databases) = (Mutex::default(), AtomicU32::new(0));
        Self { folder, process, databases, fsync, port, door }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Makes the files for TLS, and admits connections over TCP only with TLS and the password.
    fn encrypt(&self) {
        let made = |result: Result<(), rcgen::Error>| result.expect("a certificate is made");
        let write = |name: &str, text: &str| {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text).expect("is written");
            path
        };
        let names = vec!["localhost".to_owned()];
        let own = rcgen::generate_simple_self_signed(names).map(|own| {
            write("ca.pem", &own.cert.pem());
            write("server.pem", &own.cert.pem());
            let key = write("server.key", &own.signing_key.serialize_pem());
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("is set");
            if is_root() {
                let owned = Command::new("chown").arg("postgres").arg(&key).status();
                assert!(owned.expect("chown runs").success());
            }
        });
        made(own);
        let other = rcgen::generate_simple_self_signed(vec!["elsewhere".to_owned()]);
        made(other.map(|other| drop(write("other.pem", &other.cert.pem()))));
        let passwords = format!("*:*:*:*:{PASSWORD}\n");
        write("passwords", &passwords);
        let rules = "local all all trust\nhostssl all all all scram-sha-256\n";
        write("data/pg_hba.conf", rules);
    }

    /// The URL of a database over TCP. `roots` is the file with the trusted certificates: `ca.pem`,
    /// or `other.pem`, whose certificate has signed nothing.
    pub fn url_encrypted(&self, database: &str, roots: &str) -> String {
        let (folder, port) = (self.folder.path().display(), self.port);
        format!(
            "postgres://holdfast@localhost:{port}/{database}?sslmode=require\
             &sslrootcert={folder}/{roots}&passfile={folder}/passwords"
        )
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the server's process, and waits until it answers.
    pub fn begin(&self) {
        let folder = self.folder.path().to_owned();
        let programs = programs().expect("the programs exist");
        let (fsync, port) = (format!("fsync={}", self.fsync), self.port.to_string());
        let addresses = match self.door {
            Door::None => "listen_addresses=",
            Door::Plain => "listen_addresses=127.0.0.1",
            Door::Encrypted => "listen_addresses=localhost",
        };
        let of_tls = |name: &str| folder.join(name).display().to_string();
        let certificate = format!("ssl_cert_file={}", of_tls("server.pem"));
        let key = format!("ssl_key_file={}", of_tls("server.key"));
        let tls: Vec<String> = if self.door == Door::Encrypted {
            ["-c", "ssl=on", "-c", &certificate, "-c", &key].map(ToOwned::to_owned).into()
        } else {
            Vec::new()
        };
        let (sender, started) = std::sync::mpsc::channel();
        // This thread lives as long as the process, and the server ends with the thread.
        std::thread::spawn(move || {
            let log = std::fs::File::options().create(true).append(true).open(folder.join("log"));
            let process = command(&programs.join("postgres"))
                .arg("-D")
                .arg(folder.join("data"))
                .arg("-k")
                .arg(&folder)
                .args(["-p", &port, "-c", addresses, "-c", &fsync, "-c", "max_connections=300"])
                // Shared memory is in the data folder. In /dev/shm, a killed server would leave
                // files.
                .args(["-c", "dynamic_shared_memory_type=mmap"])
                .args(tls)
                .stderr(log.expect("a log"))
                .spawn()
                .expect("PostgreSQL starts");
            sender.send(process).expect("the test waits");
            loop {
                std::thread::park();
            }
        });
        *self.process() = Some(started.recv().expect("the server was started"));
        let answers = (0..READY_SECS * 10).any(|_| {
            clock::pause(Duration::from_millis(100));
            self.try_sql("postgres", "SELECT 1")
        });
        assert!(answers, "PostgreSQL does not answer; see {:?}", self.folder.path().join("log"));
    }

    /// Kills the server as a power cut would.
    pub fn kill(&self) {
        let Some(mut process) = self.process().take() else { return };
        process.kill().expect("is killed");
        process.wait().expect("has ended");
        // The server's child processes notice that the server has ended, and end too.
        clock::pause(Duration::from_millis(200));
    }

    /// Stops the server in an orderly way, and cuts off all connections.
    pub fn stop(&self) {
        let Some(mut process) = self.process().take() else { return };
        let id = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(id, rustix::process::Signal::INT)
            .expect("the signal is sent");
        process.wait().expect("has ended");
    }

    fn try_sql(&self, database: &str, statement: &str) -> bool {
        let mut psql = self.psql(database);
        let output = psql.arg(statement).output();
        output.is_ok_and(|output| output.status.success())
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(programs().expect("the programs exist").join("psql"));
        psql.arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        psql.args(["-U", "holdfast", "-d", database, "-X", "-A", "-t", "-q", "-c"]);
        psql
    }

    /// Runs the statement and returns its result, one line for each row.
    #[track_caller]
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let output = self.psql(database).arg(statement).output().expect("psql runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statement}: {error}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Starts a transaction that performs the statement at once and commits `millis` milliseconds
    /// later.
    pub fn slow_change(
        &self,
        database: &str,
        statement: &str,
        millis: u32,
    ) -> std::thread::JoinHandle<()> {
        let seconds = f64::from(millis) / 1000.0;
        let mut psql = self.psql(database);
        psql.arg(format!("BEGIN; {statement}; SELECT pg_sleep({seconds}); COMMIT"));
        std::thread::spawn(move || {
            let output = psql.output().expect("psql runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        })
    }

    /// Makes an empty database; returns its name.
    pub fn add_database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} STRATEGY file_copy"));
        name
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        let folder = self.folder.path().display();
        let port = if self.port == PORT { String::new() } else { format!("&port={}", self.port) };
        format!("postgres:///{database}?host={folder}&user=holdfast{port}")
    }

    /// The address of a server that listens over TCP without TLS, as `HOST:PORT`.
    pub fn address(&self) -> String {
        assert!(self.door == Door::Plain, "the server has an address");
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a database whose server is reached at `address`.
    pub fn url_at(&self, address: &str, database: &str) -> String {
        format!("postgres://holdfast@{address}/{database}")
    }

    /// Cuts off all connections to the database.
    pub fn cut_off(&self, database: &str) {
        self.sql(
            "postgres",
            &format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE datname = '{database}'"
            ),
        );
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}
