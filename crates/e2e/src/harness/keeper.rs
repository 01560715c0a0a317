//! Real recipients of notices on loopback, which keep what they get: a mail server, and a program
//! that gets notices by HTTP. Both are Python.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::Value;

use super::port::free_port;
use crate::{clock, skip};

const MAIL: &str = include_str!("mail_server.py");
const WEBHOOK: &str = include_str!("webhook_server.py");
/// Names of Python. The second one has the modules of Debian's packages.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];
const READY_SECS: u64 = 120;
/// Time limit until a notice comes.
const NOTICE_SECS: u64 = 180;

/// A recipient. It ends when this value is dropped.
pub struct Keeper {
    python: &'static str,
    script: &'static str,
    folder: PathBuf,
    port: u16,
    /// Arguments of the script after the port and the file.
    arguments: Vec<String>,
    process: Option<Child>,
}

/// Returns a Python that has the module; `None`, with a line on standard error, if there is none.
fn python(module: &str, package: &str) -> Option<&'static str> {
    let has = |python: &&&str| {
        let mut command = Command::new(python);
        let command = command.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = PYTHONS.iter().find(has).copied();
    if found.is_none() {
        skip::say(&format!("Python has no module {module}; Debian's package {package} has it"));
    }
    found
}

impl Keeper {
    /// Starts a mail server with these arguments after its port and file; see `mail_server.py`.
    pub fn mail(folder: &Path, arguments: &[&str]) -> Option<Self> {
        let python = python("aiosmtpd", "python3-aiosmtpd")?;
        Some(Self::start(python, MAIL, folder, arguments))
    }

    /// Starts a program that gets notices by HTTP, or by HTTPS with a certificate and its key.
    pub fn webhook(folder: &Path, arguments: &[&str]) -> Option<Self> {
        let python = python("http.server", "python3")?;
        Some(Self::start(python, WEBHOOK, folder, arguments))
    }

    fn start(
        python: &'static str,
        script: &'static str,
        folder: &Path,
        arguments: &[&str],
    ) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        let arguments = arguments.iter().map(|&one| one.to_owned()).collect();
        let (folder, port) = (folder.to_owned(), free_port());
        let mut keeper = Self { python, script, folder, port, arguments, process: None };
        keeper.begin();
        keeper
    }

    /// Starts the process, and waits until it answers.
    pub fn begin(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"));
        let process = Command::new(self.python)
            .args(["-c", self.script, &self.port.to_string()])
            .arg(self.folder.join("kept"))
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        self.process = Some(process.expect("Python starts"));
        let answers = (0..READY_SECS * 10).any(|_| {
            clock::pause(Duration::from_millis(100));
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        assert!(answers, "it does not answer; see {}", self.folder.join("log").display());
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

    /// Lets a webhook refuse all requests, or take them again.
    pub fn refuse(&self, is_refusing: bool) {
        let mark = self.folder.join("kept.refuse");
        match is_refusing {
            true => fs::write(mark, "").expect("is written"),
            false => fs::remove_file(mark).expect("is removed"),
        }
    }

    /// Returns what it has kept so far.
    pub fn kept(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.join("kept")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect()
    }

    /// Waits until it has kept something of which `is_wanted` returns true, and returns that.
    #[track_caller]
    pub fn wait_for(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..NOTICE_SECS * 10 {
            if let Some(found) = self.kept().into_iter().find(&is_wanted) {
                return found;
            }
            clock::pause(Duration::from_millis(100));
        }
        panic!("nothing like this has come, but {:#?}", self.kept());
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes a certificate for `localhost`, its key, and the certificate of its authority, and returns
/// their paths.
pub fn certificate(folder: &Path) -> [PathBuf; 3] {
    fs::create_dir_all(folder).expect("a folder");
    let paths = ["leaf.pem", "leaf.key", "authority.pem"].map(|name| folder.join(name));
    let make = || -> Result<[String; 3], rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With one name for both, OpenSSL would take the leaf for its own authority.
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = vec!["localhost".to_owned()];
        let leaf = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        Ok([leaf.pem(), key.serialize_pem(), authority.pem()])
    };
    let texts = make().expect("certificates are made");
    for (path, text) in paths.iter().zip(texts) {
        fs::write(path, text).expect("is written");
    }
    paths
}
