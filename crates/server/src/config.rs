//! Making a server, and its configuration file.

use std::io;
use std::path::{Path, PathBuf};

use catalog::postgres::Postgres;
use catalog::{Catalog as _, Location};
use serde::{Deserialize, Serialize};

use crate::authority::{self, AuthorityError};
use crate::buckets::Buckets;
use crate::database;
use crate::pools;
use crate::secrets::MASTER_BYTES;

pub(crate) const CONFIG_FILE: &str = "server.toml";
pub(crate) const MASTER_KEY: &str = "master.key";
pub(crate) const CATALOG_FILE: &str = "catalog.sqlite";
/// In the server's folder, so that the whole can be moved.
const DEFAULT_POOL: &str = "file:pool";

/// `server.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address and port that nodes connect to.
    pub listen: String,
    /// `file:///FOLDER`: the folder of the primary pool; `file:FOLDER` lies in the server's folder;
    /// `s3://BUCKET/PREFIX?endpoint=URL` is in an object store.
    pub pool: String,
    /// `sqlite:`: the catalogue lies in the server's folder; `postgres://USER@HOST/DATABASE`: in a
    /// database.
    pub catalog: String,
    /// How long certificates of nodes live, in days. Nodes renew them 30 days before they end.
    #[serde(default = "default_certificate_days")]
    pub certificate_days: u16,
    /// Versions expire by themselves so often; 0: only when an administrator says so.
    #[serde(default = "default_expire_hours")]
    pub expire_every_hours: u32,
    /// After an expiration, packs of which so many per cent are dead are written again; 0: space is
    /// reclaimed only when an administrator says so.
    #[serde(default = "default_reclaim_percent")]
    pub reclaim_dead_percent: u8,
    /// What nodes delete can be had back for so many days.
    #[serde(default = "default_undo_days")]
    pub undo_days: u16,
    /// The catalogue is copied to the pools so often; 0: only when an administrator says so.
    #[serde(default = "default_catalog_copy_hours")]
    pub catalog_copy_hours: u32,
    /// So many copies of the catalogue are kept.
    #[serde(default = "default_catalog_copies_kept")]
    pub catalog_copies_kept: u16,
    /// What was read from volumes stays on the server's disk until there is so much of it.
    #[serde(default = "default_stage_bytes")]
    pub stage_bytes: u64,
    /// What was written to an object store or asked of it stays on the server's disk until there is
    /// so much of it, for each pool.
    #[serde(default = "default_bucket_bytes")]
    pub bucket_bytes: u64,
    /// Where several servers have a catalogue, the chunk index is stored for new ones so often; 0:
    /// never.
    #[serde(default = "default_index_share_minutes")]
    pub index_share_minutes: u32,
}

fn default_index_share_minutes() -> u32 {
    60
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

fn default_catalog_copies_kept() -> u16 {
    7
}

fn default_reclaim_percent() -> u8 {
    40
}

fn default_undo_days() -> u16 {
    7
}

fn default_expire_hours() -> u32 {
    24
}

fn default_certificate_days() -> u16 {
    90
}

/// Why `server.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path} cannot be read; is this a server's folder? 'holdfast server init' makes one")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not valid")]
    Syntax { path: PathBuf, source: Box<toml::de::Error> },
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

/// Why no server could be made.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("{folder} is not empty; choose a new folder for the server")]
    NotEmpty { folder: PathBuf },
    #[error("{pool} is the pool of another server; choose another place for this one's")]
    PoolTaken { pool: String },
    #[error("{address} is no address to listen on; give HOST:PORT")]
    Listen { address: String, source: io::Error },
    #[error("cannot make the server in {folder}")]
    Folder { folder: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("cannot make the catalogue")]
    Catalog(#[source] catalog::CatalogError),
    #[error(
        "the database has the catalogue of a server; 'holdfast server join' makes another one for \
         it"
    )]
    CatalogTaken,
}

impl Config {
    pub(crate) fn load(folder: &Path) -> Result<Self, ConfigError> {
        let path = folder.join(CONFIG_FILE);
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ConfigError::Read { path: path.clone(), source })?;
        let config: Self = toml::from_str(&text)
            .map_err(|source| ConfigError::Syntax { path, source: Box::new(source) })?;
        config.check_catalog()?;
        Ok(config)
    }

    /// Puts it in the place of the one in `folder`.
    pub(crate) fn store(&self, folder: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        sys::durable::write(&folder.join(CONFIG_FILE), text.as_bytes(), 0o600)
    }

    pub(crate) fn check_catalog(&self) -> Result<(), ConfigError> {
        if self.catalog == "sqlite:" || catalog::postgres::is_postgres(&self.catalog) {
            Ok(())
        } else {
            Err(ConfigError::Catalog { url: self.catalog.clone() })
        }
    }
}

/// The folder of the pool at `url`, of the server in the folder `server`.
pub(crate) fn pool_folder(url: &str, server: &Path) -> Result<PathBuf, ConfigError> {
    let unusable = || ConfigError::Pool { url: url.to_owned() };
    let path = url.strip_prefix("file:").ok_or_else(unusable)?;
    match path.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => Ok(PathBuf::from(absolute)),
        None if !path.is_empty() => Ok(server.join(path)),
        _ => Err(unusable()),
    }
}

/// Makes a server in `folder`, which must be empty or absent.
///
/// The configuration is written last: a folder without it is no server, whatever else is there.
pub fn init(
    folder: &Path,
    listen: &str,
    pool: Option<&str>,
    catalog: Option<&str>,
) -> Result<Config, InitError> {
    let failed = |source| InitError::Folder { folder: folder.to_owned(), source };
    let config = Config {
        listen: listen.to_owned(),
        pool: pool.unwrap_or(DEFAULT_POOL).to_owned(),
        catalog: catalog.unwrap_or("sqlite:").to_owned(),
        certificate_days: default_certificate_days(),
        expire_every_hours: default_expire_hours(),
        reclaim_dead_percent: default_reclaim_percent(),
        undo_days: default_undo_days(),
        catalog_copy_hours: default_catalog_copy_hours(),
        catalog_copies_kept: default_catalog_copies_kept(),
        stage_bytes: default_stage_bytes(),
        bucket_bytes: default_bucket_bytes(),
        index_share_minutes: default_index_share_minutes(),
    };
    config.check_catalog()?;
    let first = pools::first_row(&config);
    let first = pools::spec(&first, folder, (None, &Buckets::new(folder, config.bucket_bytes)))?;
    std::net::ToSocketAddrs::to_socket_addrs(listen)
        .map_err(|source| InitError::Listen { address: listen.to_owned(), source })?;
    let unusable = |source| ConfigError::Bucket { url: config.pool.clone(), source };
    if first.read_mark().map_err(unusable)?.is_some() {
        return Err(InitError::PoolTaken { pool: first.place().display().to_string() });
    }
    if let Location::Database(url) = database::place(&config, folder) {
        let found = Postgres::open(&url).and_then(|catalog| catalog.pools());
        if !found.map_err(InitError::Catalog)?.is_empty() {
            return Err(InitError::CatalogTaken);
        }
    }
    make_empty(folder)?;
    if first.storage == pool::Storage::Folder {
        std::fs::create_dir_all(&first.folder).map_err(failed)?;
    }
    let (ca_pem, ca_key) = authority::make_ca(sys::clock::system())?;
    let master = sys::entropy::bytes::<MASTER_BYTES>();
    let write = |name: &str, bytes: &[u8], mode| {
        sys::durable::write(&folder.join(name), bytes, mode).map_err(failed)
    };
    write(authority::CA_KEY, ca_key.as_bytes(), 0o600)?;
    write(authority::CA_CERTIFICATE, ca_pem.as_bytes(), 0o644)?;
    write(MASTER_KEY, &master, 0o600)?;
    if let Location::File(path) = database::place(&config, folder) {
        // Made empty first, for its permissions: it says what every node has.
        write(CATALOG_FILE, b"", 0o600)?;
        catalog::sqlite::Sqlite::open(&path).map_err(InitError::Catalog)?;
    }
    config.store(folder).map_err(failed)?;
    Ok(config)
}

/// What the server in `folder` is known by for some purpose: the random bytes in the file `name`,
/// which is made where there is none yet.
pub(crate) fn identity(folder: &Path, name: &str) -> io::Result<[u8; 16]> {
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

/// Makes the folder, or finds it empty.
pub(crate) fn make_empty(folder: &Path) -> Result<(), InitError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let failed = |source| InitError::Folder { folder: folder.to_owned(), source };
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(InitError::NotEmpty { folder: folder.to_owned() });
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed),
        Err(error) => Err(failed(error)),
    }
}
