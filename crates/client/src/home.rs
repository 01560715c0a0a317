//! The client's folder: whose node this is, at which server, and the proof.
//!
//! `client.toml` says where the server is; `node.pem` holds the node's key, its certificate and the
//! server's CA in one file, so that a renewal replaces all three or nothing.

use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use wire::proto;

use crate::link::{self, Trust};
use crate::{ClientError, ErrorKind, Stillness, Tuning};

/// The folder of the system's own node, for root.
pub const SYSTEM_FOLDER: &str = "/etc/holdfast";
const CONFIG_FILE: &str = "client.toml";
const IDENTITY_FILE: &str = "node.pem";
/// Addresses of servers that a server has told of, one a line.
const SERVERS_FILE: &str = "servers";
/// Where enrolling again puts the identity that was there.
const REPLACED_FILE: &str = "node.pem.replaced";

/// `client.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientConfig {
    /// Address and port of the server.
    pub(crate) server: String,
    /// What this node is called there; for people, the certificate decides.
    pub(crate) node: String,
    /// Megabytes of the deduplication cache.
    #[serde(default = "default_cache_megabytes")]
    pub(crate) dedup_cache_megabytes: u64,
    /// Where the deduplication cache lies, if not in the node's folder: a fast disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dedup_cache_folder: Option<PathBuf>,
    /// The node's include and exclude statements; `inclexcl` in its folder unless this says else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inclexcl: Option<PathBuf>,
    /// Where the node's encryption keys lie, if not in its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) encryption_keys: Option<PathBuf>,
    /// DIRMC: the class of directories, if not the one that keeps longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dirmc: Option<String>,
    /// A shell command that runs before each backup and archive; if it fails, they do not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pre_command: Option<String>,
    /// One that runs behind them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) post_command: Option<String>,
    /// Whether backups read files as they were at one moment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) snapshot: Stillness,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tuning: Tuning,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn default_cache_megabytes() -> u64 {
    256
}

/// An enrolled node's folder.
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
    pub(crate) config: ClientConfig,
    identity_pem: Vec<u8>,
}

/// A node that has its certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enrolled {
    pub node: String,
    pub server: String,
}

/// Certificate chain and key as TLS wants them.
pub(crate) struct Identity {
    pub(crate) leaf: CertificateDer<'static>,
    pub(crate) ca: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// Shell commands to run around backups and archives, as the node's folder has them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// Before; if it fails nothing is backed up.
    pub pre: Option<String>,
    /// Behind, whatever has come of it.
    pub post: Option<String>,
}

/// Reads what the node's folder says is to be run around a backup.
pub fn commands(home: &Path) -> Result<Commands, ClientError> {
    let ClientConfig { pre_command, post_command, .. } = Home::load(home)?.config;
    Ok(Commands { pre: pre_command, post: post_command })
}

impl Home {
    pub(crate) fn load(folder: &Path) -> Result<Self, ClientError> {
        let path = folder.join(CONFIG_FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ClientError::new(
                ErrorKind::Usage,
                format!(
                    "this machine is not enrolled ({} is not there); run 'holdfast enroll'",
                    path.display()
                ),
            ),
            _ => ClientError::file("read", &path, &error),
        })?;
        let config = toml::from_str(&text).map_err(|error| {
            ClientError::new(ErrorKind::Usage, format!("{} is not valid: {error}", path.display()))
        })?;
        let path = folder.join(IDENTITY_FILE);
        let identity_pem =
            std::fs::read(&path).map_err(|error| ClientError::file("read", &path, &error))?;
        Ok(Self { folder: folder.to_owned(), config, identity_pem })
    }

    pub(crate) fn identity(&self) -> Result<Identity, ClientError> {
        parse(&self.identity_pem).ok_or_else(|| {
            let path = self.folder.join(IDENTITY_FILE);
            let message = format!("{} is damaged; enrol again", path.display());
            ClientError::new(ErrorKind::Damaged, message)
        })
    }

    /// Where its server is: as it is configured, and then the others of which that has told.
    pub(crate) fn addresses(&self) -> String {
        let mut all: Vec<&str> = self.config.server.split(',').collect();
        let told = self.told_servers();
        for address in told.lines() {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all.join(",")
    }

    pub(crate) fn has_several_servers(&self) -> bool {
        self.addresses().contains(',')
    }

    fn told_servers(&self) -> String {
        // Without it there are those of the configuration.
        std::fs::read_to_string(self.folder.join(SERVERS_FILE)).unwrap_or_default()
    }

    /// Keeps which servers there are, for when none of those that are known answers.
    pub(crate) fn learn(&self, servers: &[String]) {
        let is_address = |address: &&String| !address.is_empty() && !address.contains([',', '\n']);
        let text: String = servers
            .iter()
            .filter(is_address)
            .map(|address| format!("{address}\n"))
            .collect();
        if text.is_empty() || text == self.told_servers() {
            return;
        }
        if let Err(error) =
            sys::durable::write(&self.folder.join(SERVERS_FILE), text.as_bytes(), 0o600)
        {
            tracing::warn!(%error, "the addresses of the servers are not kept");
        }
    }

    /// Puts a renewed certificate in place of the old one.
    pub(crate) fn renew(&self, request: &Request, chain_pem: &str) -> Result<(), ClientError> {
        write_identity(&self.folder, request, chain_pem)
    }
}

fn parse(pem: &[u8]) -> Option<Identity> {
    let key = PrivateKeyDer::from_pem_slice(pem).ok()?;
    let mut chain = CertificateDer::pem_slice_iter(pem).map_while(Result::ok);
    Some(Identity { leaf: chain.next()?, ca: chain.next()?, key })
}

/// A key made on this machine, and the request to certify it.
pub(crate) struct Request {
    key: KeyPair,
    pub(crate) signing_request: Vec<u8>,
}

impl Request {
    pub(crate) fn make() -> Result<Self, ClientError> {
        let failed = |error: rcgen::Error| {
            ClientError::new(ErrorKind::Bug, format!("cannot make a key: {error}"))
        };
        let key = KeyPair::generate().map_err(failed)?;
        let params = CertificateParams::new(Vec::new()).map_err(failed)?;
        let signing_request = params.serialize_request(&key).map_err(failed)?.der().to_vec();
        Ok(Self { key, signing_request })
    }
}

fn write_identity(folder: &Path, request: &Request, chain_pem: &str) -> Result<(), ClientError> {
    let pem = format!("{}{chain_pem}", request.key.serialize_pem());
    let unusable =
        || ClientError::new(ErrorKind::Bug, "the server sent a certificate that cannot be used");
    parse(pem.as_bytes()).ok_or_else(unusable)?;
    let path = folder.join(IDENTITY_FILE);
    sys::durable::write(&path, pem.as_bytes(), 0o600)
        .map_err(|error| ClientError::file("write", &path, &error))
}

/// An identity that is replaced may be the only way to a node's backups: it is kept.
fn keep_replaced(home: &Path) -> Result<(), ClientError> {
    let path = home.join(REPLACED_FILE);
    match std::fs::read(home.join(IDENTITY_FILE)) {
        Ok(identity) => sys::durable::write(&path, &identity, 0o600)
            .map_err(|error| ClientError::file("write", &path, &error)),
        Err(_) => Ok(()),
    }
}

/// Enrols this machine at the server `address` with `token`, into the folder `home`.
///
/// The server must hold the CA that the token names; until that is certain nothing is sent to it.
/// The configuration is written last: without it the machine is not enrolled.
pub fn enroll(home: &Path, address: &str, token: &str) -> Result<Enrolled, ClientError> {
    let token = wire::Token::parse(token)
        .map_err(|error| ClientError::new(ErrorKind::Usage, error.to_string()))?;
    std::fs::create_dir_all(home).map_err(|error| ClientError::file("make", home, &error))?;
    let request = Request::make()?;
    let runtime = link::runtime()?;
    let enrol = proto::EnrolRequest {
        secret: token.secret.to_vec().into(),
        signing_request: request.signing_request.clone().into(),
    };
    let certificate = runtime.block_on(async {
        let trust = Trust::Fingerprint(token.ca_fingerprint);
        let channel = link::connect(address, trust, None).await?;
        let mut client = proto::enrolment_client::EnrolmentClient::new(channel);
        Ok::<_, ClientError>(client.enrol(enrol).await?.into_inner())
    })?;
    keep_replaced(home)?;
    write_identity(home, &request, &certificate.chain_pem)?;
    let config = ClientConfig {
        server: address.to_owned(),
        node: certificate.node.clone(),
        dedup_cache_megabytes: default_cache_megabytes(),
        dedup_cache_folder: None,
        inclexcl: None,
        encryption_keys: None,
        dirmc: None,
        pre_command: None,
        post_command: None,
        snapshot: Stillness::default(),
        tuning: Tuning::default(),
    };
    // Of another one, perhaps.
    match std::fs::remove_file(home.join(SERVERS_FILE)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(ClientError::file("remove", &home.join(SERVERS_FILE), &error));
        }
        _ => {}
    }
    let text = toml::to_string(&config)
        .map_err(|error| ClientError::new(ErrorKind::Bug, error.to_string()))?;
    let path = home.join(CONFIG_FILE);
    sys::durable::write(&path, text.as_bytes(), 0o600)
        .map_err(|error| ClientError::file("write", &path, &error))?;
    Ok(Enrolled { node: certificate.node, server: address.to_owned() })
}
