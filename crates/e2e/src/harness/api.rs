//! A client of the REST API: `curl`, as the guides use it.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use super::port::free_port;
use super::server::Server;

/// A caller of the REST API of a server.
#[derive(Clone, Debug)]
pub struct Caller {
    address: String,
    ca: PathBuf,
    /// Options of `curl` by which the caller shows who it is.
    identity: Vec<String>,
}

/// A connection with TLS.
pub type Connection = StreamOwned<ClientConnection, TcpStream>;

/// An answer of the REST API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Fails the test unless the answer has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Starts a server in `folder` with a REST API, and returns a caller whom nobody knows.
#[track_caller]
pub fn start(folder: &Path) -> (Server, Caller) {
    start_with(folder, &[])
}

/// Starts a server as [`start`] does, with further options of `server init`.
#[track_caller]
pub fn start_with(folder: &Path, options: &[&str]) -> (Server, Caller) {
    let address = format!("127.0.0.1:{}", free_port());
    let server = Server::start_with(folder, &[&["--api", &address], options].concat());
    let ca = folder.join("ca.pem");
    (server, Caller { address, ca, identity: Vec::new() })
}

impl Caller {
    /// Returns the address of the API, as `https://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the caller with the key `token`.
    #[must_use]
    pub fn with_key(&self, token: &str) -> Self {
        let header = format!("Authorization: Token {token}");
        Self { identity: vec!["--header".to_owned(), header], ..self.clone() }
    }

    /// Returns the caller with a login and a password.
    #[must_use]
    pub fn with_password(&self, login: &str, password: &str) -> Self {
        let user = format!("{login}:{password}");
        Self { identity: vec!["--user".to_owned(), user], ..self.clone() }
    }

    /// Returns the caller with further headers in each request.
    #[must_use]
    pub fn with_headers(&self, headers: &[&str]) -> Self {
        let options = headers.iter().flat_map(|one| ["--header".to_owned(), (*one).to_owned()]);
        let identity = self.identity.iter().cloned().chain(options).collect();
        Self { identity, ..self.clone() }
    }

    /// Returns the caller with further options of `curl`.
    #[must_use]
    pub fn with_options(&self, options: &[&str]) -> Self {
        let options = options.iter().map(|one| (*one).to_owned());
        let identity = self.identity.iter().cloned().chain(options).collect();
        Self { identity, ..self.clone() }
    }

    /// Opens a connection with TLS, for requests of HTTP/1.1 in bytes. Reading ends after a minute.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        let pem = CertificateDer::pem_file_iter(&self.ca).expect("the authority");
        let mut roots = RootCertStore::empty();
        for certificate in pem {
            roots.add(certificate.expect("a certificate")).expect("is an authority");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the versions are known")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let socket = TcpStream::connect(&self.address).expect("the server listens");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("is set");
        let mut connection = Connection::new(client, socket);
        while connection.conn.is_handshaking() {
            connection.conn.complete_io(&mut connection.sock).expect("the handshake");
        }
        connection
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(body))
    }

    pub fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, Some(body))
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Returns `curl` without a URL, for requests of this caller.
    pub fn curl(&self) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--globoff", "--cacert"])
            .arg(&self.ca)
            .args(&self.identity);
        curl
    }

    /// Sends a request with a JSON body, if there is one.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut curl = self.curl();
        curl.args(["--include", "--max-time", "60", "--request", method]);
        if let Some(body) = body {
            curl.args(["--header", "Content-Type: application/json"]);
            curl.args(["--data", &body.to_string()]);
        }
        let output = curl.arg(format!("https://{}{path}", self.address)).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run curl: {error}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "curl {method} {path}: {error}");
        parse(&output.stdout)
    }
}

/// Parses what `curl --include` writes.
#[track_caller]
fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an empty line");
    let (head, body) = (String::from_utf8_lossy(&bytes[..end]), bytes[end + 4..].to_vec());
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|word| word.parse().ok()).expect("a status");
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Answer { status, headers: lines.filter_map(header).collect(), body }
}
