//! Creation of a new server.

use std::path::Path;

use catalog::postgres::Postgres;
use catalog::{Location, Pools as _};
use pool::PoolSpec;

use crate::folder::config::{
    CA_CERTIFICATE, CA_KEY, CATALOG_FILE, CONFIG_FILE, Config, ConfigError, Credentials, InitError,
    MASTER_KEY, check_empty, make_empty,
};
use crate::folder::database;
use crate::folder::secrets::MASTER_BYTES;
use crate::pools::buckets::Buckets;
use crate::pools::first::first_row;
use crate::pools::place::{self, Stores};

/// Description of a new server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewServer<'a> {
    /// Address and port to which nodes connect.
    pub listen: &'a str,
    /// URL of its first pool; `None` for a folder in the server's folder.
    pub pool: Option<&'a str>,
    /// URL of its catalogue; `None` for a file in the server's folder.
    pub catalog: Option<&'a str>,
    /// Address and port of the REST API, if it has one.
    pub api: Option<&'a str>,
}

/// Creates a server in `folder`, which must be empty or absent.
///
/// The configuration is written last, because a folder without a configuration is not a server.
pub fn init(
    folder: &Path,
    credentials: &Credentials,
    new: NewServer<'_>,
) -> Result<Config, InitError> {
    // This comes before the look at the pool: where a server is in this folder already, its own
    // pool would be reported as that of another server.
    check_empty(folder)?;
    let NewServer { listen, pool, catalog, api } = new;
    let config = Config { api: api.map(str::to_owned), ..Config::new(listen, pool, catalog) };
    config.check_catalog()?;
    let first = first_row(&config);
    let buckets = Buckets::new(folder, config.bucket_bytes);
    let first = place::spec(&first, folder, Stores::without_volumes(&buckets))?;
    for address in [Some(listen), api].into_iter().flatten() {
        std::net::ToSocketAddrs::to_socket_addrs(address)
            .map_err(|source| InitError::Listen { address: address.to_owned(), source })?;
    }
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
    let filled = fill(folder, credentials, &config, &first);
    if filled.is_err() {
        clear(folder, &first.folder);
    }
    filled.map(|()| config)
}

/// Writes the files of a server into the empty `folder`.
fn fill(
    folder: &Path,
    credentials: &Credentials,
    config: &Config,
    first: &PoolSpec,
) -> Result<(), InitError> {
    let failed = |source| InitError::Folder { folder: folder.to_owned(), source };
    if first.storage == pool::Storage::Folder {
        sys::durable::create_dir_all(&first.folder, 0o700).map_err(failed)?;
    }
    let master = sys::entropy::bytes::<MASTER_BYTES>();
    let write = |name: &str, bytes: &[u8], mode| {
        sys::durable::write(&folder.join(name), bytes, mode).map_err(failed)
    };
    write(CA_KEY, credentials.ca_key.as_bytes(), 0o600)?;
    write(CA_CERTIFICATE, credentials.ca_certificate.as_bytes(), 0o644)?;
    write(MASTER_KEY, &master, 0o600)?;
    if let Location::File(path) = database::place(config, folder) {
        // The catalogue lists the data of every node. So the file is created first, readable by its
        // owner only.
        write(CATALOG_FILE, b"", 0o600)?;
        catalog::sqlite::Sqlite::open(&path).map_err(InitError::Catalog)?;
    }
    config.store(folder).map_err(failed)
}

/// Removes what [`fill`] has made in `folder`, so that the same command can be given again. If
/// something cannot be removed, that command says that the folder is not empty.
fn clear(folder: &Path, pool: &Path) {
    // A folder that is not empty stays. The folder of the pool may lie some levels below.
    for made in pool.ancestors().take_while(|made| *made != folder && made.starts_with(folder)) {
        drop(std::fs::remove_dir(made));
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_own = [CA_KEY, CA_CERTIFICATE, MASTER_KEY, CONFIG_FILE].contains(&&*name)
            || name.starts_with(CATALOG_FILE)
            || name.starts_with(".holdfast-");
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // Somebody else may have put a file here meanwhile.
        if !is_own && !is_folder {
            continue;
        }
        // A pool in the server's folder has no packs yet.
        let removed =
            if is_folder { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) };
        if let Err(error) = removed {
            let path = path.display();
            tracing::warn!(%path, %error, "a file of a server that was not made stays");
        }
    }
}
