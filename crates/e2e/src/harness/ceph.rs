//! Ceph, from Debian's packages: a monitor, one OSD with its data in memory, and a gateway that
//! speaks the protocol of S3 and locks objects.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::port::free_port;
use crate::{clock, skip};

const KEY_ID: &str = "HOLDFASTHOLDFAST";
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const READY_SECS: u64 = 120;
const PROGRAMS: [&str; 7] =
    ["ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin"];
/// SHA-256 of an empty body.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// An object store that all tests of the process share.
pub struct Ceph {
    folder: PathBuf,
    port: u16,
    buckets: AtomicU32,
    _processes: Vec<Child>,
}

/// A version of an object or a delete marker, as the store lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionEntry {
    pub key: String,
    pub version: String,
    /// True for a delete marker, which says that the object was deleted.
    pub is_marker: bool,
}

fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

impl Ceph {
    /// Returns the store that all tests share; `None`, with a line on standard error, if Ceph is
    /// not installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Ceph>> = OnceLock::new();
        SHARED
            .get_or_init(|| {
                if !PROGRAMS.iter().chain(&["curl"]).all(|program| has(program)) {
                    skip::say("Ceph is not installed; '.ci/packages test' installs it");
                    return None;
                }
                let (sender, started) = std::sync::mpsc::channel();
                // This thread lives as long as the process, and the store ends with the thread.
                std::thread::spawn(move || {
                    sender.send(Self::start()).expect("the test waits");
                    loop {
                        std::thread::park();
                    }
                });
                Some(started.recv().expect("the store was started"))
            })
            .as_ref()
    }

    fn start() -> Self {
        let folder = super::postgres::left_behind("ceph");
        for name in ["mon", "osd", "run"] {
            std::fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        let (port, monitor, id) = (free_port(), free_port(), uuid());
        let monitor = format!("v2:127.0.0.1:{monitor}/0");
        let text = settings(&folder, (&id, &monitor), port);
        std::fs::write(folder.join("ceph.conf"), text).expect("is written");
        let mut ceph = Self { folder, port, buckets: AtomicU32::new(0), _processes: Vec::new() };
        ceph.make_keys();
        let (keys, map) = (ceph.path("keys"), ceph.path("map"));
        let address = format!("[{monitor}]");
        ceph.run(&["monmaptool", "--create", "--fsid", &id, "--addv", "a", &address, &map]);
        ceph.run(&["ceph-mon", "--mkfs", "-i", "a", "--monmap", &map, "--keyring", &keys]);
        ceph.begin(&["ceph-mon", "-f", "-i", "a"]);
        ceph.await_done(&["ceph", "--connect-timeout", "5", "-s"], "");
        let place = uuid();
        ceph.run(&["ceph", "osd", "new", &place, "0"]);
        ceph.run(&["ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", &place]);
        ceph.begin(&["ceph-osd", "-f", "-i", "0"]);
        ceph.await_done(&["ceph", "osd", "stat"], "1 up");
        ceph.begin(&["radosgw", "-f", "-n", "client.admin"]);
        let user = ["--uid=holdfast", "--display-name=holdfast"];
        let (id, secret) = (format!("--access-key={KEY_ID}"), format!("--secret={SECRET}"));
        ceph.run(&["radosgw-admin", "user", "create", user[0], user[1], &id, &secret]);
        let answers = (0..READY_SECS * 10).any(|_| {
            clock::pause(Duration::from_millis(100));
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        assert!(answers, "Ceph does not answer; see {}", ceph.folder.display());
        let keys =
            format!("[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n");
        std::fs::write(ceph.path("credentials"), keys).expect("is written");
        ceph
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn make_keys(&self) {
        let keys = self.path("keys");
        let all = ["--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"];
        self.run(&["ceph-authtool", "--create-keyring", &keys]);
        for name in ["mon.", "client.admin", "osd.0"] {
            let make = ["ceph-authtool", &keys, "--gen-key", "-n", name];
            self.run(&[&make[..], &all].concat());
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("CEPH_CONF", self.path("ceph.conf"))
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn run(&self, words: &[&str]) {
        let output = self.command(words).output().expect("Ceph runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
    }

    fn await_done(&self, words: &[&str], says: &str) {
        let is_done = (0..READY_SECS * 5).any(|_| {
            clock::pause(Duration::from_millis(200));
            let output = self.command(words).output().expect("Ceph runs");
            output.status.success() && String::from_utf8_lossy(&output.stdout).contains(says)
        });
        assert!(is_done, "Ceph does not come up; see {}", self.folder.display());
    }

    /// Starts a process that ends when the calling thread ends.
    fn begin(&mut self, words: &[&str]) {
        let mut command = self.command(&[&["setpriv", "--pdeathsig", "KILL"], words].concat());
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self._processes.push(started.expect("Ceph starts"));
    }

    /// Sends a request with the store's keys to the gateway. Returns the status and the body of the
    /// answer.
    fn ask(&self, words: &[&str], path: &str) -> (u32, String) {
        let url = format!("http://127.0.0.1:{}/{path}", self.port);
        let output = Command::new("curl")
            .args(["-sS", "-w", "\n%{http_code}", "--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", &format!("{KEY_ID}:{SECRET}")])
            .args(words)
            .arg(url)
            .stdin(Stdio::null())
            .output()
            .expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').expect("a status");
        (status.parse().expect("a status"), body.to_owned())
    }

    fn ask_plainly(&self, method: &str, path: &str) -> (u32, String) {
        let empty = format!("x-amz-content-sha256: {EMPTY}");
        self.ask(&["-X", method, "-H", &empty], path)
    }

    /// Makes a bucket, which can lock objects if `locks` is true; returns its name.
    pub fn add_bucket(&self, locks: bool) -> String {
        let name = format!("bucket{}", self.buckets.fetch_add(1, Ordering::Relaxed));
        let (empty, lock) = (
            format!("x-amz-content-sha256: {EMPTY}"),
            format!("x-amz-bucket-object-lock-enabled: {locks}"),
        );
        let made = self.ask(&["-X", "PUT", "-H", &empty, "-H", &lock], &name);
        assert_eq!(made.0, 200, "{made:?}");
        name
    }

    /// The URL of a pool in a bucket.
    pub fn url(&self, bucket: &str, prefix: &str) -> String {
        format!(
            "s3://{bucket}/{prefix}?endpoint=http://127.0.0.1:{}&credentials={}",
            self.port,
            self.path("credentials")
        )
    }

    /// All versions and delete markers under keys with this prefix.
    pub fn versions(&self, bucket: &str, prefix: &str) -> Vec<VersionEntry> {
        let prefix = prefix.replace('/', "%2F");
        let (status, body) =
            self.ask_plainly("GET", &format!("{bucket}?prefix={prefix}&versions="));
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("<IsTruncated>false"), "the list is longer than one answer");
        let entries = body.split("<Version>").flat_map(|part| part.split("<DeleteMarker>"));
        // The text before the first entry is about the bucket.
        let text = |entry: &str, tag: &str| {
            let (_, rest) = entry.split_once(&format!("<{tag}>"))?;
            Some(rest.split_once('<')?.0.to_owned())
        };
        let listed = |entry: &str| {
            Some(VersionEntry {
                key: text(entry, "Key")?,
                version: text(entry, "VersionId")?,
                is_marker: !entry.contains("<Size>"),
            })
        };
        entries.filter_map(listed).collect()
    }

    /// End of the lock of a version, as the store writes it; `None` if the version is not locked.
    pub fn locked_until(&self, bucket: &str, listed: &VersionEntry) -> Option<String> {
        let VersionEntry { key, version, .. } = listed;
        let asked = format!("{bucket}/{key}?retention=&versionId={version}");
        let (_, body) = self.ask_plainly("GET", &asked);
        Some(body.split_once("<RetainUntilDate>")?.1.split_once('<')?.0.to_owned())
    }

    /// Deletes an object with a delete marker, or deletes one version permanently. Returns the
    /// status of the answer.
    pub fn delete(&self, bucket: &str, key: &str, version: Option<&str>) -> u32 {
        let version = version.map(|version| format!("?versionId={version}")).unwrap_or_default();
        self.ask_plainly("DELETE", &format!("{bucket}/{key}{version}")).0
    }

    /// Makes the bucket refuse `action`, such as `s3:PutObjectRetention`, to all users. Without an
    /// action, the bucket refuses nothing.
    pub fn deny(&self, bucket: &str, action: Option<&str>) {
        let policy = self.path("policy");
        let text = action.map(|action| {
            format!(
                "{{\"Version\":\"2012-10-17\",\"Statement\":[{{\"Effect\":\"Deny\",\
                 \"Principal\":\"*\",\"Action\":\"{action}\",\
                 \"Resource\":\"arn:aws:s3:::{bucket}/*\"}}]}}"
            )
        });
        let answer = match text {
            Some(text) => {
                std::fs::write(&policy, text).expect("is written");
                let plain = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
                self.ask(&["-T", &policy, "-H", plain], &format!("{bucket}?policy="))
            }
            None => self.ask_plainly("DELETE", &format!("{bucket}?policy=")),
        };
        assert!(answer.0 < 300, "{answer:?}");
    }

    /// Stores the file `path` as the newest version under the key.
    pub fn put(&self, bucket: &str, key: &str, path: &Path) {
        let (file, plain) =
            (path.to_str().expect("a path"), "x-amz-content-sha256: UNSIGNED-PAYLOAD");
        let put = self.ask(&["-T", file, "-H", plain], &format!("{bucket}/{key}"));
        assert_eq!(put.0, 200, "{put:?}");
    }
}

fn uuid() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").expect("the kernel makes one");
    id.trim().to_owned()
}

fn settings(folder: &Path, (id, monitor): (&str, &str), port: u16) -> String {
    let folder = folder.display();
    format!(
        "[global]\nfsid = {id}\nmon host = {monitor}\n\
         public network = 127.0.0.0/8\ncluster network = 127.0.0.0/8\nkeyring = {folder}/keys\n\
         run dir = {folder}/run\nadmin socket = {folder}/run/$name.$pid.asok\n\
         log file = {folder}/$name.log\npid file = {folder}/run/$name.pid\n\
         mon data = {folder}/mon\nosd data = {folder}/osd\nrgw data = {folder}\n\
         mon data avail crit = 1\nmon data avail warn = 1\nmon allow pool size one = true\n\
         mon max pg per osd = 1000\nosd objectstore = memstore\n\
         memstore device bytes = 4294967296\nosd crush chooseleaf type = 0\n\
         osd pool default size = 1\nosd pool default min size = 1\nosd pool default pg num = 1\n\
         osd pool default pgp num = 1\nrgw frontends = beast endpoint=127.0.0.1:{port}\n"
    )
}
