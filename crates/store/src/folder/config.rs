//! The configuration file of a server, and the names of the other files in its folder.

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use chunk::Recompression;
use policy::sizes;
use pool::Reserve;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::alerting::{AlertSettings, AlertSettingsError};
use super::oidc::OidcSettings;

pub const CONFIG_FILE: &str = "server.toml";
pub const MASTER_KEY: &str = "master.key";
pub const CATALOG_FILE: &str = "catalog.sqlite";
/// List of the pools, for the case that the catalogue is lost.
pub const POOLS_FILE: &str = "pools.toml";
/// Files of the server's certificate authority.
pub const CA_CERTIFICATE: &str = "ca.pem";
pub const CA_KEY: &str = "ca.key";
/// URL of the first pool by default. The pool is in the server's folder, so that both can be moved
/// together.
const DEFAULT_POOL: &str = "file:pool";
/// URL of a catalogue that is a file in the server's folder.
const CATALOG_IN_FOLDER: &str = "sqlite:";

/// Content of `server.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address and port to which nodes connect.
    pub listen: String,
    /// Address and port of the REST API. Without this key, the API has no address of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub api: Option<String>,
    /// File with the certificate of the API and its chain, in PEM. Without this key, the server's
    /// own authority certifies the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub api_certificate: Option<PathBuf>,
    /// File with the private key of `api_certificate`, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub api_key: Option<PathBuf>,
    /// Further names of hosts, and addresses, in the certificate that the server's own authority
    /// gives to the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub api_names: Vec<String>,
    /// True if removing nodes, and policies and moves of nodes that shorten how long something is
    /// kept, need the approval of a second person.
    #[serde(default)]
    pub two_person: bool,
    /// URL of the first pool: `file:///FOLDER` is a folder, `file:FOLDER` is a folder in the
    /// server's folder, `s3://BUCKET/PREFIX?endpoint=URL` is in an object store.
    pub pool: String,
    /// URL of the catalogue: `sqlite:` is a file in the server's folder,
    /// `postgres://USER@HOST/DATABASE` a database.
    pub catalog: String,
    /// Maximum number of connections of all nodes. Further connections are closed.
    #[serde(default = "default_connections")]
    #[schemars(extend("x-unit" = "number"))]
    pub connections_max: NonZeroU32,
    /// Maximum number of connections from one address, or from one network (/64) of IPv6. Nodes
    /// behind one router that translates addresses have one address.
    #[serde(default = "default_address_connections")]
    #[schemars(extend("x-unit" = "number"))]
    pub address_connections_max: NonZeroU32,
    /// Maximum number of connections of one node. Each running command has one.
    #[serde(default = "default_node_connections")]
    #[schemars(extend("x-unit" = "number"))]
    pub node_connections_max: NonZeroU32,
    /// Lifetime of the nodes' certificates, in days. Nodes renew them 30 days before their end.
    #[serde(default = "default_certificate_days")]
    pub certificate_days: u16,
    /// Hours between two expirations. With 0, versions expire only when an administrator runs an
    /// expiration.
    #[serde(default = "default_expire_hours")]
    pub expire_every_hours: u32,
    /// Share of dead data in a pack, in per cent, from which a reclamation after an expiration
    /// writes the pack again. With 0, space is reclaimed only when an administrator runs a
    /// reclamation.
    #[serde(default = "default_reclaim_percent")]
    pub reclaim_dead_percent: u8,
    /// Effort with which reclamation compresses anew what it writes again: `standard`, or a level
    /// of zstd from 1 to 19. A high level takes less space and much more time. Without this key,
    /// reclamation compresses with the standard effort, even if nodes have used a higher one.
    #[serde(default, deserialize_with = "parse_effort", serialize_with = "write_effort")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub reclaim_recompress: Option<Recompression>,
    /// Days for which the events of schedules and the records of finished archives are kept.
    #[serde(default = "default_event_days")]
    pub event_days: u16,
    /// Days for which a node's deletions can be undone.
    #[serde(default = "default_undo_days")]
    pub undo_days: u16,
    /// Hours between two copies of the catalogue to the pools. With 0, the catalogue is copied only
    /// when an administrator runs a copy.
    #[serde(default = "default_catalog_copy_hours")]
    pub catalog_copy_hours: u32,
    /// Number of the newest copies of the catalogue that are kept.
    #[serde(default = "default_catalog_copies_kept")]
    pub catalog_copies_kept: u16,
    /// Number of hours of which the last copy of the catalogue is kept, beside the newest copies.
    #[serde(default = "default_catalog_copies_hourly")]
    #[schemars(extend("x-unit" = "number"))]
    pub catalog_copies_hourly: u16,
    /// Number of days of which the last copy of the catalogue is kept, beside the newest copies.
    #[serde(default = "default_catalog_copies_daily")]
    #[schemars(extend("x-unit" = "number"))]
    pub catalog_copies_daily: u16,
    /// Number of weeks of which the last copy of the catalogue is kept, beside the newest copies.
    #[serde(default = "default_catalog_copies_weekly")]
    #[schemars(extend("x-unit" = "number"))]
    pub catalog_copies_weekly: u16,
    /// Maximum size of the stage, which keeps packs that were read from volumes: a number of bytes,
    /// or a size such as `"16G"`.
    #[serde(default = "default_stage_bytes", deserialize_with = "sizes::bytes")]
    pub stage_bytes: u64,
    /// Maximum size of the packs and tables of a pool in an object store that are kept on the
    /// server's disk: a number of bytes, or a size such as `"4G"`.
    #[serde(default = "default_bucket_bytes", deserialize_with = "sizes::bytes")]
    pub bucket_bytes: u64,
    /// Share of a file system that only deletion may use, in per cent. The reserve of the file
    /// systems of the pools and of the server's folder is the smaller one of this share and
    /// `reserve_bytes_max`. With 0, nothing is kept free.
    #[serde(default = "default_reserve_percent")]
    pub reserve_percent: u8,
    /// Maximum size of the reserve of a file system: a number of bytes, or a size such as `"1G"`.
    /// With 0, nothing is kept free.
    #[serde(default = "default_reserve_bytes_max", deserialize_with = "sizes::bytes")]
    #[schemars(extend("x-unit" = "bytes"))]
    pub reserve_bytes_max: u64,
    /// Minimum length of the chunks that are stored once for all nodes: a number of bytes, or a
    /// size such as `"64K"`. Shorter chunks are stored once for each node: otherwise a node could
    /// guess a short content, and tell whether another node has it. With 0, nodes share all chunks.
    #[serde(default = "default_shared_chunk_bytes_min", deserialize_with = "chunk_length")]
    #[schemars(extend("x-unit" = "bytes"))]
    pub shared_chunk_bytes_min: u32,
    /// True to let an NVIDIA GPU check the data in audits, and compress data anew at level 1.
    /// Without a GPU that works, threads do.
    #[serde(default)]
    pub gpu: bool,
    /// File of nvCOMP, by which an NVIDIA GPU works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`libnvcomp.so.6`, where the system's loader finds it"))]
    pub nvcomp: Option<PathBuf>,
    /// Minutes after which a fleet's chunk index is stored again for new servers. With 0, the index
    /// is not stored.
    #[serde(default = "default_index_share_minutes")]
    pub index_share_minutes: u32,
    /// Alerts: which states are worth one, and who gets its notice.
    #[serde(default, skip_serializing_if = "AlertSettings::is_default")]
    pub alerts: AlertSettings,
    /// The provider of OpenID Connect at which people sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OidcSettings")]
    pub oidc: Option<OidcSettings>,
}

/// A number of connections that is enough for 1,000 nodes: an agent and some commands of each.
const CONNECTIONS: NonZeroU32 = NonZeroU32::new(10_000).expect("it is not zero");
const ADDRESS_CONNECTIONS: NonZeroU32 = NonZeroU32::new(5_000).expect("it is not zero");
const NODE_CONNECTIONS: NonZeroU32 = NonZeroU32::new(256).expect("it is not zero");

fn default_connections() -> NonZeroU32 {
    CONNECTIONS
}

fn default_address_connections() -> NonZeroU32 {
    ADDRESS_CONNECTIONS
}

fn default_node_connections() -> NonZeroU32 {
    NODE_CONNECTIONS
}

fn default_shared_chunk_bytes_min() -> u32 {
    64 << 10
}

fn chunk_length<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    u32::try_from(sizes::bytes(from)?)
        .map_err(|_| serde::de::Error::custom(format!("the size must be at most {}", u32::MAX)))
}

fn default_index_share_minutes() -> u32 {
    60
}

fn default_reserve_percent() -> u8 {
    2
}

fn default_reserve_bytes_max() -> u64 {
    1 << 30
}

fn default_bucket_bytes() -> u64 {
    4 << 30
}

fn default_stage_bytes() -> u64 {
    16 << 30
}

fn default_catalog_copy_hours() -> u32 {
    24
}

fn default_catalog_copies_hourly() -> u16 {
    24
}

fn default_catalog_copies_daily() -> u16 {
    7
}

fn default_catalog_copies_weekly() -> u16 {
    4
}

fn default_catalog_copies_kept() -> u16 {
    7
}

fn default_reclaim_percent() -> u8 {
    40
}

fn parse_effort<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Recompression>, D::Error> {
    let effort = String::deserialize(deserializer)?;
    effort.parse().map(Some).map_err(serde::de::Error::custom)
}

fn write_effort<S: Serializer>(
    effort: &Option<Recompression>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    effort.map(|effort| effort.to_string()).serialize(serializer)
}

fn default_undo_days() -> u16 {
    7
}

fn default_expire_hours() -> u32 {
    24
}

fn default_event_days() -> u16 {
    180
}

fn default_certificate_days() -> u16 {
    90
}

/// A certificate authority, in PEM. The store keeps it for the server, and does not use it itself.
#[derive(Clone)]
pub struct Credentials {
    pub ca_certificate: String,
    pub ca_key: String,
}

/// Returns the end of the message that `server.toml` cannot be read: the next step.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; if there is no server yet, 'holdfast server init' makes one",
        io::ErrorKind::PermissionDenied => "; run the command as the owner of the server's folder",
        _ => "",
    }
}

/// Fault of `server.toml`, or of a pool that it names.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path} cannot be read{}", remedy(.source))]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not valid: {fault}")]
    Syntax { path: PathBuf, fault: String },
    #[error("the section [alerts] of {path} is not valid")]
    Alerts { path: PathBuf, source: AlertSettingsError },
    #[error(
        "{url} is not a pool that this version can use; give file:///FOLDER, s3://BUCKET/PREFIX or \
         tape:LIBRARY"
    )]
    Pool { url: String },
    #[error("{url} names no bucket")]
    BucketUrl { url: String, source: pool::BucketUrlError },
    #[error("the bucket {url} cannot be used")]
    Bucket { url: String, source: io::Error },
    #[error(
        "{url} is not a catalogue that this version can use; give sqlite: or \
         postgres://USER@HOST/DATABASE"
    )]
    Catalog { url: String },
}

/// Failure to make a server.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("{folder} is not empty; choose a new folder for the server")]
    NotEmpty { folder: PathBuf },
    #[error("{folder} is the folder of a server already; 'holdfast server run' starts it")]
    Exists { folder: PathBuf },
    #[error("{pool} is the pool of another server; choose another place for the new server's pool")]
    PoolTaken { pool: String },
    #[error("{address} is not an address to listen on; give HOST:PORT")]
    Listen { address: String, source: io::Error },
    #[error("cannot make the server in {folder}")]
    Folder { folder: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot make the catalogue")]
    Catalog(#[source] catalog::CatalogError),
    #[error(
        "the database already has the catalogue of a server; 'holdfast server join' makes another \
         server of this catalogue"
    )]
    CatalogTaken,
}

impl Config {
    /// Returns the configuration of a new server. By default, the pool and the catalogue are in the
    /// server's folder.
    pub(crate) fn new(listen: &str, pool: Option<&str>, catalog: Option<&str>) -> Self {
        Self {
            listen: listen.to_owned(),
            api: None,
            api_certificate: None,
            api_key: None,
            api_names: Vec::new(),
            two_person: false,
            pool: pool.unwrap_or(DEFAULT_POOL).to_owned(),
            catalog: catalog.unwrap_or(CATALOG_IN_FOLDER).to_owned(),
            connections_max: default_connections(),
            address_connections_max: default_address_connections(),
            node_connections_max: default_node_connections(),
            certificate_days: default_certificate_days(),
            expire_every_hours: default_expire_hours(),
            reclaim_dead_percent: default_reclaim_percent(),
            reclaim_recompress: None,
            event_days: default_event_days(),
            undo_days: default_undo_days(),
            catalog_copy_hours: default_catalog_copy_hours(),
            catalog_copies_kept: default_catalog_copies_kept(),
            catalog_copies_hourly: default_catalog_copies_hourly(),
            catalog_copies_daily: default_catalog_copies_daily(),
            catalog_copies_weekly: default_catalog_copies_weekly(),
            stage_bytes: default_stage_bytes(),
            bucket_bytes: default_bucket_bytes(),
            reserve_percent: default_reserve_percent(),
            reserve_bytes_max: default_reserve_bytes_max(),
            shared_chunk_bytes_min: default_shared_chunk_bytes_min(),
            gpu: false,
            nvcomp: None,
            index_share_minutes: default_index_share_minutes(),
            alerts: AlertSettings::default(),
            oidc: None,
        }
    }

    pub fn load(folder: &Path) -> Result<Self, ConfigError> {
        let path = folder.join(CONFIG_FILE);
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ConfigError::Read { path: path.clone(), source })?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            let fault = model::located(&text, error.span(), error.message());
            ConfigError::Syntax { path: path.clone(), fault }
        })?;
        config.check_catalog()?;
        let alerts = config.alerts.check();
        alerts.map_err(|source| ConfigError::Alerts { path, source })?;
        Ok(config)
    }

    /// Replaces the configuration in `folder` by this configuration.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        sys::durable::write(&folder.join(CONFIG_FILE), text.as_bytes(), 0o600)
    }

    /// Returns the reserve of the file systems of the pools and of the server's folder.
    pub(crate) fn reserve(&self) -> Reserve {
        Reserve { percent: self.reserve_percent, bytes_max: self.reserve_bytes_max }
    }

    /// Returns true if the catalogue is a file in the server's folder.
    pub(crate) fn keeps_catalog_in_folder(&self) -> bool {
        self.catalog == CATALOG_IN_FOLDER
    }

    /// Fails for a catalogue that this version cannot use.
    pub(crate) fn check_catalog(&self) -> Result<(), ConfigError> {
        if self.keeps_catalog_in_folder() || catalog::postgres::is_postgres(&self.catalog) {
            Ok(())
        } else {
            Err(ConfigError::Catalog { url: self.catalog.clone() })
        }
    }
}

/// Returns the folder of the pool at `url`. `server` is the server's folder.
pub fn pool_folder(url: &str, server: &Path) -> Result<PathBuf, ConfigError> {
    let unusable = || ConfigError::Pool { url: url.to_owned() };
    let path = url.strip_prefix("file:").ok_or_else(unusable)?;
    match path.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => Ok(PathBuf::from(absolute)),
        None if !path.is_empty() => Ok(server.join(path)),
        _ => Err(unusable()),
    }
}

/// Returns an identity of the server in `folder`: the random bytes in its file `name`. Creates the
/// file if it does not exist.
pub fn identity(folder: &Path, name: &str) -> io::Result<[u8; 16]> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = sys::entropy::bytes();
            sys::durable::write(&path, &made, 0o600)?;
            Ok(made)
        }
        read => {
            let damaged = |_| io::Error::other(format!("the file {name} is damaged"));
            read?.try_into().map_err(damaged)
        }
    }
}

/// Fails unless the folder is empty or absent.
pub(crate) fn check_empty(folder: &Path) -> Result<(), InitError> {
    let failed = |source| InitError::Folder { folder: folder.to_owned(), source };
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(failed(error)),
    };
    match is_empty {
        true => Ok(()),
        false if std::fs::symlink_metadata(folder.join(CONFIG_FILE)).is_ok() => {
            Err(InitError::Exists { folder: folder.to_owned() })
        }
        false => Err(InitError::NotEmpty { folder: folder.to_owned() }),
    }
}

/// Creates the folder if it does not exist. Fails if the folder is not empty.
pub(crate) fn make_empty(folder: &Path) -> Result<(), InitError> {
    check_empty(folder)?;
    let made = sys::durable::create_dir_all(folder, 0o700);
    made.map_err(|source| InitError::Folder { folder: folder.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let made = Config::new("127.0.0.1:1500", None, None);
        let text = toml::to_string(&made).expect("is encoded");
        let with = |key: &str, size: &str| {
            let is_other = |line: &&str| !line.starts_with(&format!("{key} = "));
            let others: Vec<&str> = text.lines().filter(is_other).collect();
            toml::from_str::<Config>(&format!("{key} = {size}\n{}\n", others.join("\n")))
        };
        let keys = ["stage_bytes", "bucket_bytes", "reserve_bytes_max", "shared_chunk_bytes_min"];
        for (size, bytes) in [
            ("0", 0),
            ("98304", 98_304),
            ("\"98304\"", 98_304),
            ("\"96K\"", 98_304),
            ("\"1.5M\"", 3 << 19),
        ] {
            let read = keys.map(|key| with(key, size).expect("is allowed"));
            let [stage, bucket, reserve, chunk] = read;
            assert_eq!(stage.stage_bytes, bytes, "{size}");
            assert_eq!(bucket.bucket_bytes, bytes, "{size}");
            assert_eq!(reserve.reserve_bytes_max, bytes, "{size}");
            assert_eq!(u64::from(chunk.shared_chunk_bytes_min), bytes, "{size}");
        }
        assert_eq!(with("stage_bytes", "\"2T\"").expect("is allowed").stage_bytes, 2 << 40);
        for (key, size, reason) in [
            ("stage_bytes", "\"64X\"", "K, M, G or T"),
            ("stage_bytes", "\"9000000T\"", "too large"),
            ("bucket_bytes", "\"much\"", "must be a number"),
            ("reserve_bytes_max", "-1", "a number from 0"),
            ("shared_chunk_bytes_min", "\"4G\"", "at most 4294967295"),
        ] {
            let refused = with(key, size).expect_err("is refused").to_string();
            assert!(refused.contains(reason), "{key} = {size}: {refused}");
        }
    }

    #[test]
    fn the_effort_of_a_reclamation_is_standard_or_a_level_from_1_to_19() {
        let config = Config::new("127.0.0.1:1500", None, None);
        let text = toml::to_string(&config).expect("is encoded");
        assert_eq!(toml::from_str(&text).as_ref(), Ok(&config));
        for effort in ["standard", "19"] {
            let with_effort = format!("{text}reclaim_recompress = \"{effort}\"\n");
            let config: Config = toml::from_str(&with_effort).expect("is allowed");
            assert_eq!(config.reclaim_recompress.map(|it| it.to_string()).as_deref(), Some(effort));
            let again = toml::to_string(&config).expect("is encoded");
            assert_eq!(toml::from_str(&again), Ok(config));
        }
        for effort in ["0", "none", "-3", "20"] {
            let with_effort = format!("{text}reclaim_recompress = \"{effort}\"\n");
            let refused = toml::from_str::<Config>(&with_effort).expect_err("is refused");
            assert!(refused.to_string().contains("from 1 to 19"), "{refused}");
        }
    }
}
