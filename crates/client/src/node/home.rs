//! The node's folder: its name, its server, and its certificate.
//!
//! `client.toml` says where the server is; `node.pem` holds the node's key, its certificate and the
//! server's CA in one file, so that a renewal replaces all three or none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{ClientError, ErrorKind};
use crate::node::agent::AgentSettings;
use crate::node::standing::{ReceivedSet, Standing, syntax};
use crate::options::BackupOptions;
use crate::pace::{LimitWindow, Pace, Rate, RateLimits, StandingLimits};
use crate::patience::TAKEOVER;
use crate::patience::WAIT;
use crate::sizes;
use crate::tuning::{JournalChoice, Stillness, Tuning};

/// Folder of the system's own node, which root uses.
pub const SYSTEM_FOLDER: &str = "/etc/holdfast";
pub(super) const CONFIG_FILE: &str = "client.toml";
pub(super) const IDENTITY_FILE: &str = "node.pem";
/// File with the addresses that a server has sent, one on each line.
pub(super) const SERVERS_FILE: &str = "servers";
/// Maximum number of servers whose addresses are stored, and maximum length of an address.
const SERVERS_MAX: usize = 256;
const ADDRESS_BYTES_MAX: usize = 300;

/// Content of `client.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientConfig {
    /// Address and port of the server. Several servers are separated by commas.
    pub(crate) server: String,
    /// Name of the node at the server, for people. The server reads the name from the certificate.
    pub(crate) node: String,
    /// Maximum size of the deduplication cache, in megabytes, or a size such as `"1G"`.
    #[serde(default = "default_cache_megabytes", skip_serializing_if = "is_default_cache")]
    #[serde(deserialize_with = "cache_megabytes")]
    #[schemars(extend("default" = default_cache_megabytes()))]
    pub(crate) dedup_cache_megabytes: u64,
    /// Folder of the deduplication cache, on a fast disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the node's folder"))]
    pub(crate) dedup_cache_folder: Option<PathBuf>,
    /// File with the node's include and exclude statements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`inclexcl` in the node's folder"))]
    pub(crate) inclexcl: Option<PathBuf>,
    /// File with the node's encryption keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`encryption.keys` in the node's folder"))]
    pub(crate) encryption_keys: Option<PathBuf>,
    /// File of nvCOMP, by which an NVIDIA GPU compresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`libnvcomp.so.6`, where the system's loader finds it"))]
    pub(crate) nvcomp: Option<PathBuf>,
    /// Management class of directories (DIRMC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the class that keeps longest"))]
    pub(crate) dirmc: Option<String>,
    /// Shell command that runs before each backup and archive. If the command fails, the backup or
    /// archive does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) pre_command: Option<String>,
    /// Shell command that runs after each backup and archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) post_command: Option<String>,
    /// Means by which a backup holds files still while it reads them: `off`, `auto`,
    /// `btrfs`, `lvm` or `reflink`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = Stillness::default()))]
    pub(crate) snapshot: Stillness,
    /// Use of the journal of `holdfast journal run`: `auto` if it is running, `yes` with a warning
    /// if it is not running, or `no`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = JournalChoice::default()))]
    pub(crate) journal: JournalChoice,
    /// Number of days after which a backup walks everything and compares it with the journal; 0
    /// for each backup.
    #[serde(default = "default_full_walk_days", skip_serializing_if = "is_default_walk_days")]
    #[schemars(extend("default" = default_full_walk_days()))]
    pub(crate) journal_full_walk_days: u32,
    /// Paths that a backup without paths takes: `all-local` for all local file systems of real
    /// disks, paths, and `-/PATH` for mount points that `all-local` leaves out. In a path, `\xNN`
    /// is a byte, and `\\` is a backslash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`all-local`"))]
    pub(crate) paths: Option<Vec<String>>,
    /// True if a directory stands for other file systems below it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(crate) cross_filesystems: Option<bool>,
    /// Directories that are filespaces of their own. The filespace around a directory leaves out
    /// what is in it. In a path, `\xNN` is a byte, and `\\` is a backslash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) virtual_filespaces: Option<Vec<String>>,
    /// Maximum number of bytes that a command sends in a second, as in `10M`. It comes before
    /// `limits`; if an option set forces those, the smaller limit counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(crate) limit_rate_send: Option<Rate>,
    /// Maximum number of bytes that a command receives in a second. It comes before `limits`;
    /// if an option set forces those, the smaller limit counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(crate) limit_rate_receive: Option<Rate>,
    /// Priority for processors and disks: `low` or `normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "normal"))]
    pub(crate) priority: Option<String>,
    /// Condition under which a restore replaces an existing object that differs: `no`, `if-newer`
    /// or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "no"))]
    pub(crate) replace: Option<String>,
    /// Shell command that runs before a disk is read for an image, or its snapshot is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) freeze: Option<String>,
    /// Shell command that runs after a disk was read for an image, or its snapshot was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) thaw: Option<String>,
    /// True if an image has the blocks that the file system does not use, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(crate) all_blocks: Option<bool>,
    /// True if an image goes on after an error of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(crate) skip_errors: Option<bool>,
    /// Maximum number of bytes that are read in a second from each disk for an image, such as
    /// `"50M"`.
    #[serde(default, deserialize_with = "image_rate", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "bytes", "x-default" = "no limit"))]
    pub(crate) image_rate: Option<u64>,
    /// Means by which a disk is read for an image as it is at one moment: `auto`, `off`, `lvm` or
    /// `reflink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "auto"))]
    pub(crate) image_snapshot: Option<String>,
    /// True if the snapshot of a thin volume stays after its image, so that the next image reads
    /// only what has changed. It takes room in the pool for what changes meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(crate) keep_snapshot: Option<bool>,
    /// Time for which a command waits for a server that is away, as in `60m`; `0` does not wait.
    #[serde(default, with = "length", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("default" = model::show_length(WAIT)))]
    pub(crate) wait: Option<Duration>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tuning: Tuning,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) agent: AgentSettings,
    /// Limits on the bytes that a process sends and receives, by time of day: a section
    /// `[[limits]]` for each window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) limits: Vec<LimitWindow>,
}

pub(super) fn default_full_walk_days() -> u32 {
    7
}

/// The file of a new node does not name the size, so that an option set can.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_cache(megabytes: &u64) -> bool {
    *megabytes == default_cache_megabytes()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_walk_days(days: &u32) -> bool {
    *days == default_full_walk_days()
}

fn cache_megabytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    sizes::of_setting("dedup-cache-megabytes", from)
}

fn image_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    sizes::of_setting("image-rate", from).map(Some)
}

/// Lengths of time in `client.toml`, such as `60m`.
mod length {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        length: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => to.serialize_str(&model::show_length(*length)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| model::parse_length(&text))
            .transpose()
            .map_err(D::Error::custom)
    }
}

/// Returns the schema of `client.toml`, with the effect and the default of each key, for the
/// reference manual.
pub fn client_toml() -> Schema {
    schemars::schema_for!(ClientConfig)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn default_cache_megabytes() -> u64 {
    256
}

/// The part of the system that finds out that an idle connection is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Probes {
    /// This process, which also finds out that the server hangs.
    #[default]
    Own,
    /// The kernel, so that this process sleeps until the server sends something.
    Kernel,
}

/// Content of an enrolled node's folder.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
    pub(crate) config: ClientConfig,
    /// Sources of the settings in `config`.
    pub(crate) standing: Standing,
    /// Limits of the command line.
    given_limits: RateLimits,
    /// Limits on the connections of this process; `None` if there are none.
    pub(crate) pace: Option<Arc<Pace>>,
    /// Time for which a connection tries several servers again while none answers.
    pub(crate) takeover: Duration,
    /// The part of the system that finds out that an idle connection is dead.
    pub(crate) probes: Probes,
    /// Another node whose data is listed and restored.
    pub(crate) reading: Option<String>,
    identity_pem: Vec<u8>,
}

/// Makes the error for a folder that is the folder of no node.
pub fn not_enrolled(folder: &Path) -> ClientError {
    let machine = Path::new(SYSTEM_FOLDER).join(CONFIG_FILE);
    // A folder into which this user may not look is there for the machine's own node.
    let is_other = !sys::process::is_root() && machine.try_exists().unwrap_or(true);
    absence(&folder.join(CONFIG_FILE), is_other)
}

/// Makes the error for a configuration that is absent. `is_other` is set for a user who is not
/// root, on a machine with a node of its own.
fn absence(path: &Path, is_other: bool) -> ClientError {
    let path = path.display();
    if is_other {
        let message = format!(
            "this user has no node ({path} does not exist), and the node of this machine is for \
             root; run the command with sudo, make a node of this user with 'holdfast enroll', or \
             name the node's folder with --home"
        );
        return ClientError::new(ErrorKind::Refused, message);
    }
    let message = format!(
        "this machine is not enrolled ({path} does not exist); run 'holdfast enroll', with a token \
         that 'holdfast admin node add NAME' prints at the server"
    );
    ClientError::new(ErrorKind::Usage, message)
}

/// Certificate chain and key of the node, in the form that TLS needs.
pub(crate) struct Identity {
    pub(crate) leaf: CertificateDer<'static>,
    pub(crate) ca: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// Shell commands of the node's folder that run around each backup and archive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// Command that runs before a backup or archive. If the command fails, nothing is stored.
    pub pre: Option<String>,
    /// Command that runs after a backup or archive, even if the backup or archive has failed.
    pub post: Option<String>,
}

impl Home {
    pub(crate) fn load(folder: &Path) -> Result<Self, ClientError> {
        Self::load_with(folder, ReceivedSet::load(folder))
    }

    /// Loads the folder with this option set in place of the one in it.
    pub(crate) fn load_with(folder: &Path, received: ReceivedSet) -> Result<Self, ClientError> {
        let path = folder.join(CONFIG_FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => not_enrolled(folder),
            _ => ClientError::file("read", &path, &error),
        })?;
        let invalid = |error: &dyn std::fmt::Display| {
            ClientError::new(ErrorKind::Usage, format!("{} is not valid: {error}", path.display()))
        };
        let (standing, table, own) = Standing::resolve(&text, &path, received)?;
        let is_same = table == own;
        let is_in_bounds = standing.out_of_bounds().is_empty();
        // The text itself leads to better messages than the table.
        let config: ClientConfig = match toml::from_str(&text) {
            Ok(config) if is_in_bounds => Ok(config),
            Err(error) if is_in_bounds && !own_has_section(&text) => Err(syntax(&text, &error)),
            _ => own.try_into().map_err(|error| syntax(&text, &error)),
        }
        .map_err(|fault| invalid(&fault))?;
        if config.limits.iter().any(LimitWindow::limits_nothing) {
            return Err(invalid(&"an entry of limits has neither send nor receive"));
        }
        let (config, standing) = match table.try_into::<ClientConfig>() {
            _ if is_same => (config, standing),
            Ok(of_all) => (of_all, standing),
            Err(error) => {
                tracing::warn!(%error, "the option set of the server cannot be used");
                (config, standing.without_set())
            }
        };
        let pace = pace_of(&config, &standing, RateLimits::default());
        let path = folder.join(IDENTITY_FILE);
        let identity_pem =
            std::fs::read(&path).map_err(|error| ClientError::file("read", &path, &error))?;
        let given_limits = RateLimits::default();
        let folder = folder.to_owned();
        let (takeover, probes) = (TAKEOVER, Probes::default());
        Ok(Self {
            folder,
            config,
            standing,
            given_limits,
            pace,
            takeover,
            probes,
            reading: None,
            identity_pem,
        })
    }

    /// Returns the folder with the settings that have just been received, and with the limits of
    /// the command.
    pub(crate) fn with_new_settings(&self) -> Result<Self, ClientError> {
        Self::load_for(&self.folder, self.given_limits, self.standing.is_scheduled)
    }

    /// Returns true if connections with these settings are like connections with those of `other`.
    pub(crate) fn connects_like(&self, other: &Self) -> bool {
        let limits = |home: &Self| limits_of(&home.config, &home.standing, home.given_limits);
        let buffer = |home: &Self| home.config.tuning.socket_buffer_bytes;
        limits(self) == limits(other)
            && self.config.limits == other.config.limits
            && buffer(self) == buffer(other)
    }

    /// Returns `options` with the node's settings in place of those that the command line does not
    /// give, and of those that an option set forces.
    pub(crate) fn settled(&self, options: &BackupOptions) -> BackupOptions {
        let Self { standing, config, .. } = self;
        let Tuning { socket_buffer_bytes, .. } = options.tuning;
        let given = options.tuning;
        let tuning = Tuning {
            resource_utilization: standing.heed("resourceutilization", given.resource_utilization),
            compression: standing.heed("compression", given.compression),
            deduplication: standing.heed("deduplication", given.deduplication),
            transaction_bytes: standing.heed("txnbytelimit", given.transaction_bytes),
            transaction_objects: standing.heed("txngroupmax", given.transaction_objects),
            socket_buffer_bytes,
        };
        let crosses = options.cross_filesystems.then_some(true);
        let crosses = standing.heed("cross-filesystems", crosses).or(config.cross_filesystems);
        let skips_journal = options.no_journal.then_some(true);
        let is_backup = options.archive.is_none();
        BackupOptions {
            tuning,
            // Each local file system is named itself.
            cross_filesystems: crosses.unwrap_or(false) && !options.all_local,
            snapshot: standing.heed("snapshot", options.snapshot),
            no_journal: match is_backup {
                true => standing.heed("journal", skips_journal).unwrap_or(false),
                false => options.no_journal,
            },
            ..options.clone()
        }
    }

    /// Loads the folder for a command with these limits on its command line.
    pub(crate) fn load_for(
        folder: &Path,
        limits: RateLimits,
        is_scheduled: bool,
    ) -> Result<Self, ClientError> {
        let mut home = Self::load(folder)?;
        home.standing.is_scheduled = is_scheduled;
        home.given_limits = limits;
        home.pace = pace_of(&home.config, &home.standing, limits);
        Ok(home)
    }

    /// Returns this folder for connections without limits, which measure the network.
    pub(crate) fn unlimited(&self) -> Self {
        Self { pace: None, ..self.clone() }
    }

    pub(crate) fn identity(&self) -> Result<Identity, ClientError> {
        parse(&self.identity_pem).ok_or_else(|| {
            let path = self.folder.join(IDENTITY_FILE);
            let message = format!("{} is damaged; enrol this node again", path.display());
            ClientError::new(ErrorKind::Damaged, message)
        })
    }

    /// Returns the addresses of the servers, separated by commas: first the configured addresses,
    /// then those that a server has sent.
    pub(crate) fn addresses(&self) -> String {
        let mut all: Vec<&str> = self.config.server.split(',').collect();
        let learned = self.learned_servers();
        for address in learned.lines() {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all.join(",")
    }

    pub(crate) fn has_several_servers(&self) -> bool {
        self.addresses().contains(',')
    }

    fn learned_servers(&self) -> String {
        // Without this file the node knows only the configured servers.
        std::fs::read_to_string(self.folder.join(SERVERS_FILE)).unwrap_or_default()
    }

    /// Stores the addresses of `servers`, for a time when no configured server answers.
    pub(crate) fn learn(&self, servers: &[String]) {
        let is_address = |address: &&String| {
            let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b',';
            (1..=ADDRESS_BYTES_MAX).contains(&address.len()) && address.bytes().all(is_plain)
        };
        let text: String = servers
            .iter()
            .filter(is_address)
            .take(SERVERS_MAX)
            .map(|address| format!("{address}\n"))
            .collect();
        if text.is_empty() || text == self.learned_servers() {
            return;
        }
        if let Err(error) =
            sys::durable::write(&self.folder.join(SERVERS_FILE), text.as_bytes(), 0o600)
        {
            tracing::warn!(%error, "cannot store the addresses of the servers");
        }
    }

    /// Replaces the certificate with a renewed certificate.
    pub(crate) fn renew(&self, request: &Request, chain_pem: &str) -> Result<(), ClientError> {
        write_identity(&self.folder, request, chain_pem)
    }
}

/// Returns true if the text has the section `[options]`.
fn own_has_section(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("options"))
}

/// Returns the pace of a command with the limits `given` on its command line.
fn pace_of(config: &ClientConfig, standing: &Standing, given: RateLimits) -> Option<Arc<Pace>> {
    Pace::new(limits_of(config, standing, given), &config.limits).map(Arc::new)
}

/// Returns the limits that hold at any time of day. If an option set forces limits by time of day,
/// the node and the command line can only limit more: what they say counts beside the forced
/// limits. What the set forces on the rate itself, and what a schedule asks for, comes before them.
fn limits_of(config: &ClientConfig, standing: &Standing, given: RateLimits) -> StandingLimits {
    let is_timed = standing.is_forced("limits");
    let limit = |name: &str, given: Option<Rate>, own: Option<Rate>| {
        let given = standing.heed(name, given);
        let is_of_schedule = standing.is_scheduled && given.is_some();
        let limit = given.or(own);
        match !is_timed || is_of_schedule || standing.is_forced(name) {
            true => (limit, None),
            false => (None, limit),
        }
    };
    let send = limit("limit-rate-send", given.send, config.limit_rate_send);
    let receive = limit("limit-rate-receive", given.receive, config.limit_rate_receive);
    StandingLimits {
        before: RateLimits { send: send.0, receive: receive.0 },
        beside: RateLimits { send: send.1, receive: receive.1 },
    }
}

/// Parses a key, a leaf certificate and a CA; `None` if one of them is missing or damaged.
fn parse(pem: &[u8]) -> Option<Identity> {
    let key = PrivateKeyDer::from_pem_slice(pem).ok()?;
    let mut chain = CertificateDer::pem_slice_iter(pem).map_while(Result::ok);
    Some(Identity { leaf: chain.next()?, ca: chain.next()?, key })
}

/// Key made on this machine, and the request to certify it.
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

/// Writes key and certificates in one step, after a check that they can be used.
pub(super) fn write_identity(
    folder: &Path,
    request: &Request,
    chain_pem: &str,
) -> Result<(), ClientError> {
    let pem = format!("{}{chain_pem}", request.key.serialize_pem());
    let unusable =
        || ClientError::new(ErrorKind::Bug, "the server sent a certificate that cannot be used");
    parse(pem.as_bytes()).ok_or_else(unusable)?;
    let path = folder.join(IDENTITY_FILE);
    sys::durable::write(&path, pem.as_bytes(), 0o600)
        .map_err(|error| ClientError::file("write", &path, &error))
}

#[cfg(test)]
mod tests {
    use policy::settings::SetOption;

    use super::*;

    /// Makes the folder of a node that was enrolled at `server`.
    fn enrolled(folder: &Path, server: &str) -> Home {
        let config = format!("server = \"{server}\"\nnode = \"alpha\"\n");
        std::fs::write(folder.join(CONFIG_FILE), config).expect("written");
        std::fs::write(folder.join(IDENTITY_FILE), b"no certificate").expect("written");
        Home::load(folder).expect("a node's folder")
    }

    /// Returns the limits of a command that may send 1 MiB in a second, at a node that may receive
    /// 200 KiB, where an option set forces `options`.
    fn limits(options: &[(&str, &str)], is_scheduled: bool) -> StandingLimits {
        let folder = tempfile::tempdir().expect("a folder");
        enrolled(folder.path(), "one:1");
        let path = folder.path().join(CONFIG_FILE);
        let config = std::fs::read_to_string(&path).expect("is read");
        std::fs::write(&path, config + "limit_rate_receive = \"200K\"\n").expect("written");
        let option = |(name, value): &(&str, &str)| SetOption {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            is_forced: true,
        };
        let options = options.iter().map(option).collect();
        let received = ReceivedSet { name: "WEB".to_owned(), options, ..ReceivedSet::default() };
        received.keep(folder.path()).expect("written");
        let given = RateLimits { send: "1M".parse().ok(), receive: None };
        let home = Home::load_for(folder.path(), given, is_scheduled).expect("a node's folder");
        limits_of(&home.config, &home.standing, given)
    }

    #[test]
    fn rates_of_the_nodes_own_count_beside_forced_limits() {
        let rates = |send: &str, receive: &str| RateLimits {
            send: send.parse().ok(),
            receive: receive.parse().ok(),
        };
        let of = |before, beside| StandingLimits { before, beside };
        let none = RateLimits::default();
        let both = rates("1M", "200K");
        assert_eq!(limits(&[], false), of(both, none));
        let windows = ("limits", "send=10M");
        assert_eq!(limits(&[windows], false), of(none, both));
        let of_one = of(rates("9M", ""), rates("", "200K"));
        assert_eq!(limits(&[windows, ("limit-rate-send", "9M")], false), of_one);
        // A schedule comes before force, and the node's file does not.
        assert_eq!(limits(&[windows], true), of(rates("1M", ""), rates("", "200K")));
    }

    #[test]
    fn a_folder_without_a_configuration_is_not_enrolled() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Home::load(folder.path()).err().expect("refused");
        assert!(error.message.contains("client.toml does not exist"), "{}", error.message);
        std::fs::write(folder.path().join(CONFIG_FILE), "nodes = 1").expect("written");
        let error = Home::load(folder.path()).err().expect("refused");
        assert!(error.message.contains("is not valid"), "{}", error.message);
    }

    /// A user without a node heard on an enrolled machine that it is not enrolled.
    #[test]
    fn a_user_without_a_node_learns_of_the_machines_own() {
        let path = Path::new("/home/ann/.config/holdfast/client.toml");
        let error = absence(path, true);
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains("is for root; run the command with sudo"));
        assert!(!error.message.contains("not enrolled"), "{}", error.message);
        let error = absence(path, false);
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("run 'holdfast enroll'"), "{}", error.message);
    }

    #[test]
    fn a_damaged_identity_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = enrolled(folder.path(), "one:1").identity().err().expect("refused");
        assert_eq!(error.kind, ErrorKind::Damaged);
        assert!(error.message.contains(IDENTITY_FILE), "{}", error.message);
    }

    #[test]
    fn configured_servers_come_before_learned_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = enrolled(folder.path(), "one:1,two:2");
        assert_eq!(home.addresses(), "one:1,two:2");
        home.learn(&["two:2".to_owned(), "three:3".to_owned(), "a,b".to_owned(), String::new()]);
        assert_eq!(home.addresses(), "one:1,two:2,three:3");
        assert!(home.has_several_servers());
        // The node keeps its addresses if a server names none.
        home.learn(&[]);
        assert_eq!(home.addresses(), "one:1,two:2,three:3");
    }

    #[test]
    fn a_node_of_one_server_has_one() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!enrolled(folder.path(), "one:1").has_several_servers());
    }

    /// Reads `text` as `client.toml`.
    fn config(text: &str) -> Result<ClientConfig, ClientError> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(CONFIG_FILE), text).expect("written");
        std::fs::write(folder.path().join(IDENTITY_FILE), b"").expect("written");
        Home::load(folder.path()).map(|home| home.config)
    }

    const LEAST: &str = "server = \"one:1\"\nnode = \"alpha\"\n";

    #[test]
    fn a_short_configuration_has_the_documented_defaults() {
        let found = config(LEAST).expect("a configuration");
        assert_eq!((found.server.as_str(), found.node.as_str()), ("one:1", "alpha"));
        assert_eq!((found.dedup_cache_megabytes, found.snapshot), (256, Stillness::Off));
        assert_eq!(found.tuning, Tuning::default());
        assert_eq!((found.dedup_cache_folder, found.inclexcl), (None, None));
        assert_eq!((found.encryption_keys, found.dirmc), (None, None));
        assert_eq!((found.pre_command, found.post_command), (None, None));
    }

    #[test]
    fn every_key_is_read_and_written_back() {
        let keys = "dedup_cache_megabytes = 0\ndedup_cache_folder = \"/fast\"\n\
                    inclexcl = \"/etc/list\"\nencryption_keys = \"/etc/keys\"\n\
                    dirmc = \"LONG\"\npre_command = \"sync; true\"\npost_command = \"false\"\n\
                    snapshot = \"reflink\"\nwait = \"90s\"\n[tuning]\nresource_utilization = 3\n\
                    compression = \"auto\"\ndeduplication = false\ntransaction_bytes = 1\n\
                    transaction_objects = 2\nsocket_buffer_bytes = 65536\n\
                    [[limits]]\nfrom = \"22:00\"\nto = \"06:00\"\ndays = \"fri\"\n\
                    send = \"10M\"\n[[limits]]\nreceive = \"20M\"\n";
        let found = config(&format!("{LEAST}{keys}")).expect("a configuration");
        assert_eq!(found.dedup_cache_megabytes, 0);
        assert_eq!(found.dedup_cache_folder.as_deref(), Some(Path::new("/fast")));
        assert_eq!(found.pre_command.as_deref(), Some("sync; true"));
        assert_eq!(found.snapshot, Stillness::Reflink);
        assert_eq!(found.wait, Some(Duration::from_secs(90)));
        assert_eq!(found.tuning.transaction_bytes(), 1);
        assert_eq!(found.limits.len(), 2);
        let written = toml::to_string(&found).expect("text");
        assert_eq!(config(&written).expect("a configuration"), found);
    }

    #[test]
    fn sizes_in_the_file_may_have_units() {
        for (size, megabytes) in
            [("512", 512), ("\"512\"", 512), ("\"512M\"", 512), ("\"1G\"", 1024), ("\"0\"", 0)]
        {
            let lines = format!("dedup_cache_megabytes = {size}\nimage_rate = \"50M\"\n");
            let found = config(&format!("{LEAST}{lines}")).expect("a configuration");
            assert_eq!(found.dedup_cache_megabytes, megabytes, "{size}");
            assert_eq!(found.image_rate, Some(50 << 20));
        }
        let number = config(&format!("{LEAST}image_rate = 1000\n")).expect("a configuration");
        assert_eq!(number.image_rate, Some(1000));
    }

    #[test]
    fn a_configuration_that_is_not_understood_is_refused_by_its_key() {
        for (line, named) in [
            ("dedup_cache_megabyte = 1", "dedup_cache_megabyte"),
            ("dedup_cache_megabytes = -1", "dedup_cache_megabytes"),
            ("dedup_cache_megabytes = \"100K\"", "dedup_cache_megabytes"),
            ("image_rate = \"fast\"", "image_rate"),
            ("[tuning]\ntransaction_bytes = \"lots\"", "transaction_bytes"),
            ("snapshot = \"zfs\"", "snapshot"),
            ("wait = \"soon\"", "wait"),
            ("wait = 60", "wait"),
            ("[[limits]]\nfrom = \"8:00\"", "from"),
            ("[[limits]]\ndays = \"fri-\"", "days"),
            ("[[limits]]\nsend = \"1K\"", "send"),
            ("[[limits]]\nsend = 1000000", "send"),
            ("[[limits]]\nspeed = \"1M\"", "speed"),
            ("[[limits]]\nfrom = \"08:00\"", "limits"),
            ("[tuning]\ncompression = 20", "compression"),
            ("[tuning]\ncompression = \"20\"", "compression"),
            ("[tuning]\nresource_utilization = 256", "resource_utilization"),
            ("[tuning]\nthreads = 2", "threads"),
            ("node = \"beta\"", "node"),
        ] {
            let error = config(&format!("{LEAST}{line}\n")).expect_err("refused");
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.message.contains(CONFIG_FILE), "{}", error.message);
            assert!(error.message.contains(named), "{line}: {}", error.message);
        }
        for missing in ["server = \"one:1\"", "node = \"alpha\"", ""] {
            assert!(config(missing).is_err(), "{missing}");
        }
    }
}
