//! Recovery of a server from its pools and a small file, or of its catalogue alone.
//!
//! The *recovery file* has the server's keys and its configuration, which are stored nowhere else.
//! The catalogue comes from the newest undamaged copy in the pools. Without a copy a new catalogue
//! is made, which has no versions. The packs then only show which chunks they hold, so that nodes
//! need not send these chunks again. The report lists all data that is missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::StoreError;
use catalog::sqlite::Sqlite;
use catalog::{CatalogError, Location, PackRow, PackState, PoolRow, Pools as _, Write};
use data_encoding::HEXLOWER;
use format::catalog_copy::CatalogCopy;
use model::{PackNumber, Place, ServerTime};
use pool::{Mark, PoolSpec, Pools, Role};
use serde::{Deserialize, Serialize};

use crate::folder::OpenError;
use crate::folder::config::{
    self, CA_CERTIFICATE, CA_KEY, CATALOG_FILE, CONFIG_FILE, Config, ConfigError, InitError,
    MASTER_KEY,
};
use crate::folder::database::{self, Database};
use crate::folder::hold::{self, HOLD_FILE};
use crate::folder::secrets::{MASTER_BYTES, Secrets};
use crate::lifecycle::catalog_copy::{self, RestoreError};
use crate::lifecycle::victims::{self, Victims};
use crate::ownership::{self, Ownership};
use crate::pools::buckets::{self, Buckets};
use crate::pools::first::first_row;
use crate::pools::list_file::{self, PoolEntry, keep_pools, kept_pools};
use crate::pools::place::{self, Stores};
use crate::store::known_copies;
use crate::store::{CATALOG_DOMAIN, INDEX, Store, check_master_key, is_key_of, wrong_key};

/// Version of the recovery file.
const FORMAT: u32 = 1;
/// Number of pack numbers that are skipped. Packs that were made after the copy of the catalogue,
/// and that are not available or lost, may have some of these numbers.
const NUMBERS_LEFT_OUT: u64 = 1 << 20;

/// Failure to recover a server. Files that existed before are kept, possibly under other names.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The administrator uses another recovery file.
    #[error("the recovery file cannot be used: {0}")]
    File(String),
    /// The administrator corrects `--pool`.
    #[error("there is no pool {name}; the pools are {known}")]
    UnknownPool { name: String, known: String },
    /// The administrator mounts a pool, or gives its new place.
    #[error(
        "no pool is available: {folders}; mount a pool, or give its new place with --pool NAME=URL"
    )]
    NoPool { folders: String },
    /// The administrator repairs the disk, makes room on it, or corrects the permissions.
    #[error("cannot use {path}")]
    Disk { path: PathBuf, source: io::Error },
    /// The administrator chooses another folder or address for the new server.
    #[error(transparent)]
    Init(#[from] InitError),
    /// The administrator makes the old server or its configuration usable, or stops it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Another attempt may succeed. The old catalogue has not been replaced.
    #[error("the new catalogue cannot be used")]
    Catalog(#[from] CatalogError),
    /// The server was made again. The text says why not all of its packs could be compared.
    #[error(transparent)]
    Survey(#[from] StoreError),
}

impl From<ConfigError> for RecoveryError {
    fn from(error: ConfigError) -> Self {
        Self::Open(OpenError::Config(error))
    }
}

/// All data that a server needs besides its pools. Anybody who has this file can act as the server.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecoveryFile {
    format: u32,
    /// Time at which the file was made, in seconds since 1970.
    made: i64,
    /// The master key in hexadecimal digits.
    master_key: String,
    ca_key: String,
    ca_certificate: String,
    config: Config,
    pools: Vec<PoolEntry>,
}

/// The copy of the catalogue from which a server was made again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyOrigin {
    pub number: u64,
    pub taken: ServerTime,
    pub bytes: u64,
}

/// Outcome of a recovery.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// The copy from which the catalogue was made, if there was one.
    pub copy: Option<CopyOrigin>,
    /// Numbers of newer copies that are damaged, with the reasons.
    pub passed_over: Vec<(u64, String)>,
    pub nodes: u64,
    pub packs: u64,
    /// Number of packs that the catalogue did not know.
    pub packs_new: u64,
    pub chunks: u64,
    /// Packs that cannot be read, with the reasons.
    pub damaged: Vec<(PackNumber, String)>,
    /// Packs that the catalogue knows and no pool has.
    pub missing: Vec<PackNumber>,
    pub victims: Victims,
    /// New path of the old catalogue, if there was one.
    pub aside: Option<PathBuf>,
}

fn disk(path: &Path) -> impl Fn(io::Error) -> RecoveryError {
    let path = path.to_owned();
    move |source| RecoveryError::Disk { path: path.clone(), source }
}

/// Decodes `N` bytes from hexadecimal digits. Returns `None` if the text is damaged.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Ends the hold on a server that was recovered or whose catalogue is older than a copy. From then
/// on the server may remove packs that nothing names.
pub fn release(store: &Store) -> Result<(), StoreError> {
    // The marks change first: a server whose catalogue counts as older is held again at its start.
    if known_copies::noticed(&*store.catalog)?.is_some() {
        store.catalog.commit(catalog_copy::pass_newer(store)?)?;
    }
    let path = store.folder.join(HOLD_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::away(format!("{}: {error}", path.display())));
        }
        _ => store.release()?,
    }
    store.recovered.store(false, Ordering::Relaxed);
    crate::domains::note(store, sys::clock::now(), "recovery released", "")
}

/// Makes the recovery file of the server in `folder`, which may be running.
pub fn export(folder: &Path) -> Result<String, RecoveryError> {
    let config = Config::load(folder)?;
    let read = |name: &str| std::fs::read(folder.join(name)).map_err(disk(&folder.join(name)));
    let text = |name: &str| {
        String::from_utf8(read(name)?)
            .map_err(|error| disk(&folder.join(name))(io::Error::other(error)))
    };
    let rows = Database::open(&config, folder)?.catalog().pools()?;
    let file = RecoveryFile {
        format: FORMAT,
        made: sys::clock::now().secs(),
        master_key: HEXLOWER.encode(&read(MASTER_KEY)?),
        ca_key: text(CA_KEY)?,
        ca_certificate: text(CA_CERTIFICATE)?,
        config,
        pools: rows.iter().map(PoolEntry::of).collect(),
    };
    let body = toml::to_string(&file).map_err(|error| RecoveryError::File(error.to_string()))?;
    // A key or a mark of the wrong length would make the file useless when it is needed.
    RecoveryFile::parse(&body)?;
    Ok(format!(
        "# Holdfast recovery file. With this file and one pool, 'holdfast server recover' makes \
         the server again.\n# The file holds the server's keys: keep it secret, and apart from the \
         pools.\n{body}"
    ))
}

impl RecoveryFile {
    fn parse(text: &str) -> Result<Self, RecoveryError> {
        let damaged = |reason: String| RecoveryError::File(reason);
        let file: Self =
            toml::from_str(text).map_err(|error| damaged(error.message().to_owned()))?;
        if file.format != FORMAT {
            return Err(damaged(format!(
                "its format is {}; this program knows format {FORMAT}",
                file.format
            )));
        }
        if unhex::<MASTER_BYTES>(&file.master_key).is_none() {
            return Err(damaged("its master key is damaged".to_owned()));
        }
        if let Some(pool) = file.pools.iter().find(|pool| pool.decoded_mark().is_none()) {
            return Err(damaged(format!("the mark of pool {} is damaged", pool.name)));
        }
        Ok(file)
    }

    /// Replaces the URLs of pools that have moved, given as pairs of name and URL.
    fn relocate(&mut self, moved: &[(String, String)]) -> Result<(), RecoveryError> {
        for (name, url) in moved {
            let found = self.pools.iter_mut().find(|pool| pool.name.eq_ignore_ascii_case(name));
            let Some(pool) = found else {
                let known: Vec<&str> = self.pools.iter().map(|pool| pool.name.as_str()).collect();
                let known = known.join(", ");
                return Err(RecoveryError::UnknownPool { name: name.clone(), known });
            };
            pool.url.clone_from(url);
        }
        if let Some(first) = self.pools.first() {
            self.config.pool.clone_from(&first.url);
        }
        Ok(())
    }

    /// Creates the server's folder, and writes the server's keys to it.
    fn write_keys(&self, folder: &Path) -> Result<Secrets, RecoveryError> {
        config::make_empty(folder)?;
        let master: [u8; MASTER_BYTES] = unhex(&self.master_key).expect("parsed");
        let files: [(_, &[u8], _); 3] = [
            (CA_KEY, self.ca_key.as_bytes(), 0o600),
            (CA_CERTIFICATE, self.ca_certificate.as_bytes(), 0o644),
            (MASTER_KEY, &master, 0o600),
        ];
        for (name, bytes, mode) in files {
            let path = folder.join(name);
            sys::durable::write(&path, bytes, mode).map_err(disk(&path))?;
        }
        Ok(Secrets::new(master))
    }

    fn rows(&self) -> Vec<PoolRow> {
        list_file::rows(&self.pools, &self.config).expect("parsed")
    }
}

/// Recovers the server of the recovery file `text` in the new folder `folder`. `moved` has names
/// and new URLs of pools that have moved.
pub fn recover(
    folder: &Path,
    text: &str,
    moved: &[(String, String)],
) -> Result<RecoveryReport, RecoveryError> {
    let mut file = RecoveryFile::parse(text)?;
    file.relocate(moved)?;
    let rows = file.rows();
    check_any(&rows, folder)?;
    let specs = pools_alone(&rows, folder, &file.config)?;
    config::check_empty(folder)?;
    ownership::check_unused(&specs)?;
    let secrets = file.write_keys(folder)?;
    let ownership = Ownership::succeed(folder, &specs)?;
    hold::hold(folder).map_err(disk(&folder.join(HOLD_FILE)))?;
    let mut rebuilt = remake_catalog(folder, &file.config, &rows, &secrets)?;
    // If the new catalogue cannot be used after all, 'rebuild-catalog' finds the pools here.
    keep_pools(folder, &rows, &[]).map_err(disk(folder))?;
    // The configuration is written last, because a folder without a configuration is not a server.
    file.config.store(folder).map_err(disk(&folder.join(CONFIG_FILE)))?;
    survey(folder, &file.config, ownership, &mut rebuilt)?;
    Ok(rebuilt)
}

/// Creates another server in the new folder `folder`, which listens at `listen`. The server joins
/// the fleet of the server that has written the recovery file `text`. Catalogue and pools must be
/// reachable from every machine.
pub fn join(folder: &Path, text: &str, listen: &str) -> Result<Config, RecoveryError> {
    let file = RecoveryFile::parse(text)?;
    let config = Config { listen: listen.to_owned(), ..file.config.clone() };
    if let Location::File(_) = database::place(&config, folder) {
        return Err(not_shared(&config.catalog));
    }
    if !buckets::is_bucket(&config.pool) {
        return Err(not_shared(&config.pool));
    }
    std::net::ToSocketAddrs::to_socket_addrs(listen)
        .map_err(|source| InitError::Listen { address: listen.to_owned(), source })?;
    drop(Database::open(&config, folder)?);
    file.write_keys(folder)?;
    // The configuration is written last, because a folder without a configuration is not a server.
    config.store(folder).map_err(disk(&folder.join(CONFIG_FILE)))?;
    Ok(config)
}

/// Returns the error for the recovery file of a server that no other server can join.
fn not_shared(url: &str) -> RecoveryError {
    RecoveryError::File(format!(
        "{url} is on the machine of one server only; the servers of a fleet need a catalogue in a \
         database and a pool in an object store"
    ))
}

/// Rebuilds the catalogue of the server in `folder`. The server must not be running. The old
/// catalogue is kept under another name. `moved` has names and new URLs of pools that have moved.
pub fn rebuild(folder: &Path, moved: &[(String, String)]) -> Result<RecoveryReport, RecoveryError> {
    let config = Config::load(folder)?;
    let ownership = Ownership::take(folder)?;
    let secrets = Secrets::load(&folder.join(MASTER_KEY))
        .map_err(|source| OpenError::File { path: folder.join(MASTER_KEY), source })?;
    let mut rows = known_pools(folder, &config)?;
    for (name, url) in moved {
        let known = rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>().join(", ");
        let row = rows.iter_mut().find(|row| row.name.eq_ignore_ascii_case(name));
        let unknown = || RecoveryError::UnknownPool { name: name.clone(), known };
        row.ok_or_else(unknown)?.url.clone_from(url);
    }
    check_any(&rows, folder)?;
    check_key(folder, &config, &secrets)?;
    ownership.claim(&pools_alone(&rows, folder, &config)?)?;
    hold::hold(folder).map_err(disk(&folder.join(HOLD_FILE)))?;
    let aside = put_aside(folder)?;
    let mut rebuilt = remake_catalog(folder, &config, &rows, &secrets)?;
    rebuilt.aside = aside;
    survey(folder, &config, ownership, &mut rebuilt)?;
    Ok(rebuilt)
}

/// Makes the copy `folder` of a server's folder the only folder of the server. The original must be
/// permanently lost, because it is refused from then on. Returns the places of the available pools.
pub fn adopt(folder: &Path) -> Result<Vec<PathBuf>, RecoveryError> {
    let config = Config::load(folder)?;
    let specs = pools_alone(&known_pools(folder, &config)?, folder, &config)?;
    ownership::check_unused(&specs)?;
    drop(Ownership::succeed(folder, &specs)?);
    let there = specs.iter().filter(|spec| pool::is_marked(spec));
    Ok(there.map(PoolSpec::place).collect())
}

/// Returns the pools of a server that is in no fleet. For a fleet, returns no pools, because its
/// servers share them.
fn pools_alone(
    rows: &[PoolRow],
    folder: &Path,
    config: &Config,
) -> Result<Vec<PoolSpec>, RecoveryError> {
    if let Location::Database(_) = database::place(config, folder) {
        return Ok(Vec::new());
    }
    Ok(place::specs(rows, folder, Stores::without_volumes(&Buckets::new(folder, 0)))?)
}

/// Returns the pools that the old catalogue knows. If the catalogue cannot be read, returns the
/// pools in the list beside it. Without this list, returns the pool that `server.toml` names.
fn known_pools(folder: &Path, config: &Config) -> Result<Vec<PoolRow>, RecoveryError> {
    if has_catalog(folder, config)
        && let Ok(rows) = Database::open(config, folder).and_then(|old| old.catalog().pools())
        && !rows.is_empty()
    {
        return Ok(rows);
    }
    if let Some(rows) = kept_pools(folder, config).filter(|rows| !rows.is_empty()) {
        return Ok(rows);
    }
    let first = first_row(config);
    let spec = place::spec(&first, folder, Stores::without_volumes(&Buckets::new(folder, 0)))?;
    let mark = spec.read_mark().map_err(disk(&spec.place()))?.unwrap_or(spec.mark);
    Ok(vec![PoolRow { mark: mark.0, ..first }])
}

/// Returns true if there is an old catalogue, even a damaged one.
fn has_catalog(folder: &Path, config: &Config) -> bool {
    match database::place(config, folder) {
        Location::File(path) => std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0),
        Location::Database(_) => true,
    }
}

/// Fails if the old catalogue says that the master key is that of another server. The old catalogue
/// may be sound, and must not be put aside then.
fn check_key(folder: &Path, config: &Config, secrets: &Secrets) -> Result<(), RecoveryError> {
    if has_catalog(folder, config)
        && let Ok(old) = Database::open(config, folder)
        // A catalogue that names no key is left as it is.
        && is_key_of(&*old.catalog(), secrets).is_ok_and(|is_its| is_its == Some(false))
    {
        return Err(wrong_key(folder).into());
    }
    Ok(())
}

/// Fails if no pool is available.
fn check_any(rows: &[PoolRow], folder: &Path) -> Result<(), RecoveryError> {
    let specs = place::specs(rows, folder, Stores::without_volumes(&Buckets::new(folder, 0)))?;
    if specs.iter().any(pool::is_marked) {
        return Ok(());
    }
    let folders: Vec<String> =
        specs.iter().map(|spec| spec.place().display().to_string()).collect();
    Err(RecoveryError::NoPool { folders: folders.join(", ") })
}

/// Renames the files of the old catalogue, and removes the index, which is made again from the
/// packs.
fn put_aside(folder: &Path) -> Result<Option<PathBuf>, RecoveryError> {
    let mut secs = sys::clock::system().secs();
    let taken = |secs| folder.join(format!("{CATALOG_FILE}.aside-{secs}")).try_exists();
    while taken(secs).map_err(disk(folder))? {
        secs += 1;
    }
    let mut aside = None;
    for suffix in ["", "-wal", "-shm"] {
        let old = folder.join(format!("{CATALOG_FILE}{suffix}"));
        let new = folder.join(format!("{CATALOG_FILE}.aside-{secs}{suffix}"));
        match std::fs::rename(&old, &new) {
            Ok(()) => aside = aside.or(Some(new)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(disk(&old)(error)),
        }
    }
    // The log of the old catalogue must not lie beside the new one, not even after a power cut.
    sys::durable::sync_dir(folder).map_err(disk(folder))?;
    let index = folder.join(INDEX);
    match std::fs::remove_dir_all(&index) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk(&index)(error)),
        _ => Ok(aside),
    }
}

/// Makes the catalogue from the newest undamaged copy, or makes a new catalogue if there is no such
/// copy.
fn remake_catalog(
    folder: &Path,
    config: &Config,
    rows: &[PoolRow],
    secrets: &Secrets,
) -> Result<RecoveryReport, RecoveryError> {
    let mut specs = place::specs(rows, folder, Stores::without_volumes(&Buckets::new(folder, 0)))?;
    // The pools are opened as copy pools, which are only read. Without a catalogue, nobody knows
    // which unfinished packs of a primary pool are valid.
    specs.iter_mut().for_each(|spec| spec.role = Role::Copy);
    let key = secrets.domain_key(CATALOG_DOMAIN);
    let opened = Pools::open(
        &specs,
        pool::Numbers::Own(PackNumber(1)),
        &BTreeMap::new(),
        move |_, chunk| key.digest(chunk),
    );
    let (pools, _) = opened.map_err(disk(folder))?;
    let mut rebuilt = RecoveryReport::default();
    let new = folder.join(format!("{CATALOG_FILE}.new"));
    restore_best(&pools, &new, &mut rebuilt)?;
    drop(pools);
    if rebuilt.copy.is_none() {
        drop(std::fs::remove_file(&new));
        sys::durable::write(&new, b"", 0o600).map_err(disk(&new))?;
    }
    make_private(&new).map_err(disk(&new))?;
    let catalog = Sqlite::open(&new)?;
    check_master_key(&catalog, secrets, folder)?;
    place_pools(&catalog, folder, rows, rebuilt.copy.is_some())?;
    catalog.close_whole()?;
    match database::place(config, folder) {
        Location::File(path) => std::fs::rename(&new, &path).map_err(disk(&path))?,
        to => {
            let from = Location::File(new.clone());
            catalog::relocate(&from, &to, 0, &mut |_, _| Ok(()))?;
            catalog::arrive(&to)?;
            std::fs::remove_file(&new).map_err(disk(&new))?;
        }
    }
    sys::durable::sync_dir(folder).map_err(disk(folder))?;
    Ok(rebuilt)
}

/// Restores the newest sound copy of the catalogue that is whole to the new file `path`. Without
/// one, restores the newest doubtful copy: some rows are more than none. Fails if the file cannot
/// be written: an older copy would only hide the fault of the disk.
fn restore_best(
    pools: &Pools,
    path: &Path,
    rebuilt: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    let mut doubtful = Vec::new();
    for (number, _) in catalog_copy::numbers(pools).into_iter().rev() {
        match catalog_copy::load(pools, number) {
            Ok(copy) if copy.is_doubtful => {
                let reason = "the catalogue was damaged or had lost rows when it was copied";
                rebuilt.passed_over.push((number, reason.to_owned()));
                doubtful.push(copy);
            }
            Ok(copy) if restore_one(pools, &copy, path, rebuilt)? => return Ok(()),
            Ok(_) => {}
            Err(error) => rebuilt.passed_over.push((number, error.to_string())),
        }
    }
    for copy in doubtful {
        rebuilt.passed_over.retain(|(number, _)| *number != copy.number);
        if restore_one(pools, &copy, path, rebuilt)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Restores one copy. Returns true if it is whole.
fn restore_one(
    pools: &Pools,
    copy: &CatalogCopy,
    path: &Path,
    rebuilt: &mut RecoveryReport,
) -> Result<bool, RecoveryError> {
    drop(std::fs::remove_file(path));
    let CatalogCopy { number, taken, bytes, .. } = *copy;
    match catalog_copy::restore(pools, copy, path) {
        Ok(()) => rebuilt.copy = Some(CopyOrigin { number, taken, bytes }),
        Err(RestoreError::File(source)) => return Err(disk(path)(source)),
        Err(RestoreError::Copy(error)) => rebuilt.passed_over.push((number, error.to_string())),
    }
    Ok(rebuilt.copy.is_some())
}

fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

/// Writes the places of the pools to the catalogue. A catalogue from a copy already has the pools,
/// and only their places change. A pool whose disk was replaced after the copy has another mark.
fn place_pools(
    catalog: &Sqlite,
    folder: &Path,
    rows: &[PoolRow],
    is_copy: bool,
) -> Result<(), RecoveryError> {
    let known = catalog.pools()?;
    for row in rows {
        let by_mark = known.iter().find(|known| known.mark == row.mark);
        let by_name = || known.iter().find(|known| known.name.eq_ignore_ascii_case(&row.name));
        match by_mark.or_else(by_name) {
            Some(known) => {
                let spec =
                    place::spec(row, folder, Stores::without_volumes(&Buckets::new(folder, 0)))?;
                let found = spec.read_mark().map_err(disk(&spec.place()))?;
                let is_new = found == Some(Mark(row.mark));
                let mark = if is_new { row.mark } else { known.mark };
                catalog.change_pool(&PoolRow { url: row.url.clone(), mark, ..known.clone() })?;
            }
            None if is_copy => {
                tracing::warn!(pool = row.name, "the recovered catalogue does not have a pool");
            }
            None => {
                catalog.add_pool(row)?;
            }
        }
    }
    Ok(())
}

/// Compares the packs in the pools with the packs that the catalogue names. Adds unknown packs to
/// the catalogue, and adds all missing data to `rebuilt`.
fn survey(
    folder: &Path,
    config: &Config,
    ownership: Ownership,
    rebuilt: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    // The rows are read before the store opens, because opening adds the packs that it finds.
    let database = Database::open(config, folder)?;
    if !database.try_alone()? {
        return Err(OpenError::catalog_in_use().into());
    }
    // The hold begins before another server can enter.
    database.hold(folder, true)?;
    let rows = database.catalog().packs()?;
    let store = Arc::new(Store::open(folder, config, &database, None, ownership)?);
    let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
    let pools = store.pools.present().into_iter();
    let all: BTreeSet<PackNumber> =
        pools.flat_map(|pool| store.pools.packs_of(pool).into_keys()).collect();
    let mut writes = Vec::new();
    let mut counts: HashMap<PackNumber, u32> = HashMap::new();
    let mut back = BTreeSet::new();
    for &number in &all {
        let mut closed = store.pools.closed(number);
        // In a bucket with locks, the undamaged pack may be an older version of the object.
        if closed.is_err() && store.pools.bring_back(number).unwrap_or(false) {
            closed = store.pools.closed(number);
            back.insert(number);
        }
        match closed {
            Ok((table, bytes)) => {
                counts.insert(number, table.chunk_count());
                rebuilt.chunks += u64::from(table.chunk_count());
                let (state, bytes) = match store.unrecovered.contains(&number) {
                    // Its seal may not be durable. The next start seals the pack again.
                    true => (PackState::Open, 0),
                    false => (PackState::Sealed, bytes),
                };
                let row = PackRow { number, domain: table.domain, state, bytes, node: None };
                writes.extend((!known.contains(&number)).then_some(Write::PutPack(row)));
            }
            Err(error) => rebuilt.damaged.push((number, model::chain(&error))),
        }
    }
    store.index_again(&back);
    rebuilt.packs = all.len() as u64;
    rebuilt.packs_new = all.difference(&known).count() as u64;
    assert!(rebuilt.packs_new <= rebuilt.packs, "new packs are in the pools");
    rebuilt.missing = known.difference(&all).copied().collect();
    let last = all.last().map_or(0, |last| last.0).max(store.catalog.next_pack()?.0);
    let number = PackNumber(last + NUMBERS_LEFT_OUT);
    let (domain, state) = (CATALOG_DOMAIN, PackState::Sealed);
    let row = PackRow { number, domain, state, bytes: 0, node: None };
    writes.extend([Write::PutPack(row), Write::RemovePack(number)]);
    // The newest copy that can be used is the catalogue. Copies that were passed over hide nothing.
    writes.extend(catalog_copy::pass_newer(&store)?);
    store.catalog.commit(writes)?;
    rebuilt.nodes = store.catalog.nodes()?.len() as u64;
    let is_lost =
        |place: Place| counts.get(&place.pack()).is_none_or(|count| place.index() >= *count);
    rebuilt.victims = victims::find(&store, &is_lost, &mut || Ok(()))?;
    Ok(store.close()?)
}

#[cfg(test)]
mod tests;
