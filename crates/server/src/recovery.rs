//! Making a server again: from its pools and a small file, or the catalogue alone.
//!
//! What a server cannot make again are its keys and its configuration: the *recovery file* has
//! them. The catalogue comes from the newest copy in the pools that is whole; without one it begins
//! anew, and what the packs tell of themselves is all that there is: which chunks they hold, so
//! that nodes need not send them again. Whatever is missing afterwards is said.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::sqlite::Sqlite;
use catalog::{Catalog, CatalogError, Location, PackRow, PackState, PoolRow, Write};
use data_encoding::HEXLOWER;
use model::{PackNumber, Place, PoolId, ServerTime};
use pool::{Mark, Pools, Role};
use serde::{Deserialize, Serialize};
use tonic::Status;

use crate::authority::{CA_CERTIFICATE, CA_KEY};
use crate::buckets::{self, Buckets};
use crate::catalog_copy;
use crate::config::{self, CATALOG_FILE, CONFIG_FILE, Config, ConfigError, InitError, MASTER_KEY};
use crate::core::{CATALOG_DOMAIN, Core, INDEX};
use crate::database::{self, Database};
use crate::pools;
use crate::refusal;
use crate::run::RunError;
use crate::secrets::{MASTER_BYTES, Secrets};
use crate::victims::{self, Victims};

const FORMAT: u32 = 1;
/// While this is in the server's folder nothing is taken for unneeded.
const HOLD_FILE: &str = "recovered";
/// The pools, for when the catalogue cannot say them any more.
const POOLS_FILE: &str = "pools.toml";
/// Numbers of packs that are left out: what came behind the copy of the catalogue, and is away or
/// lost, has had some of them.
const NUMBERS_LEFT_OUT: u64 = 1 << 20;

/// Why a server could not be made again. What was there is as it was, or under another name.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error("the recovery file is not one: {0}")]
    File(String),
    #[error("there is no pool {name}; it has {known}")]
    UnknownPool { name: String, known: String },
    #[error(
        "none of the pools is there: {folders}; mount one, or say where it is with --pool NAME=URL"
    )]
    NoPool { folders: String },
    #[error("cannot use {path}")]
    Disk { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the new catalogue cannot be used")]
    Catalog(#[from] CatalogError),
    #[error(
        "{url} is on that server's machine alone; servers share a catalogue in a database and a \
         pool in an object store"
    )]
    NotShared { url: String },
    #[error("{0}")]
    Survey(String),
}

/// All that a server needs beside its pools. Whoever has it is the server.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecoveryFile {
    format: u32,
    /// When it was made, in seconds since 1970.
    made: i64,
    /// In hexadecimal digits.
    master_key: String,
    ca_key: String,
    ca_certificate: String,
    config: Config,
    pools: Vec<PoolEntry>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolEntry {
    name: String,
    url: String,
    is_copy: bool,
    /// In hexadecimal digits.
    mark: String,
}

/// What has come of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    /// The copy that the catalogue is from, if there was one: its number, time and bytes.
    pub copy: Option<(u64, ServerTime, u64)>,
    /// Newer copies that are not whole, and why.
    pub passed_over: Vec<(u64, String)>,
    pub nodes: u64,
    pub packs: u64,
    /// Of those, what the catalogue did not know.
    pub packs_new: u64,
    pub chunks: u64,
    /// Packs that cannot be read, and why.
    pub damaged: Vec<(PackNumber, String)>,
    /// Packs that the catalogue knows and no pool has.
    pub missing: Vec<PackNumber>,
    pub victims: Victims,
    /// Where the catalogue is that was there before.
    pub aside: Option<PathBuf>,
}

fn disk(path: &Path) -> impl Fn(io::Error) -> RecoveryError {
    let path = path.to_owned();
    move |source| RecoveryError::Disk { path: path.clone(), source }
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Fails where a server that had a catalogue has none: opening it would begin a new one.
pub(crate) fn check_catalog(config: &Config, folder: &Path) -> Result<(), CatalogError> {
    if let Location::Database(_) = database::place(config, folder) {
        return Ok(());
    }
    let path = folder.join(CATALOG_FILE);
    if catalog::has_left(&path)? {
        return catalog::standing(&Location::File(path))?.check();
    }
    let bytes = std::fs::metadata(path).map_or(0, |found| found.len());
    let has_had_one = folder.join(POOLS_FILE).try_exists().unwrap_or(false);
    if bytes == 0 && has_had_one {
        return Err(CatalogError::Damaged("it is gone".to_owned()));
    }
    Ok(())
}

/// Whether the server in `folder` was made again and not released yet.
pub(crate) fn is_held(folder: &Path) -> bool {
    // One that cannot be asked for is there.
    folder.join(HOLD_FILE).try_exists().unwrap_or(true)
}

/// Has nothing be taken for unneeded: what the new catalogue does not know may be all that is left
/// of what came behind it.
pub(crate) fn hold(folder: &Path) -> io::Result<()> {
    let text = b"Made again; 'holdfast admin reclaim --release' lets go of what nothing names.\n";
    sys::durable::write(&folder.join(HOLD_FILE), text, 0o600)
}

/// Fails while the server is held.
pub(crate) fn check_released(core: &Core) -> Result<(), Status> {
    if !core.recovered.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(Status::failed_precondition(
        "this server was made again, and nothing is removed that its catalogue does not name; once \
         the nodes have been backed up and all is as it should be, let go of it with 'holdfast \
         admin reclaim --release'",
    ))
}

/// Lets go of what nothing names.
pub(crate) fn release(core: &Core) -> Result<(), Status> {
    let path = core.folder.join(HOLD_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Status::unavailable(format!("{}: {error}", path.display())));
        }
        _ => core.release().map_err(|error| refusal::catalog(&error))?,
    }
    core.recovered.store(false, Ordering::Relaxed);
    crate::domains::note(core, sys::clock::now(), "recovery released", "")
}

/// Takes away what says that the server is held: another server of its catalogue was told that it
/// is not any more.
pub(crate) fn forget_hold(folder: &Path) {
    // One that stays says nothing: the database does.
    drop(std::fs::remove_file(folder.join(HOLD_FILE)));
}

/// Keeps the list of pools beside the catalogue.
pub(crate) fn keep_pools(folder: &Path, rows: &[PoolRow]) -> io::Result<()> {
    let list = PoolList { pools: rows.iter().map(PoolEntry::of).collect() };
    let text = toml::to_string(&list).map_err(io::Error::other)?;
    sys::durable::write(&folder.join(POOLS_FILE), text.as_bytes(), 0o600)
}

fn kept_pools(folder: &Path, config: &Config) -> Option<Vec<PoolRow>> {
    let text = std::fs::read_to_string(folder.join(POOLS_FILE)).ok()?;
    let list: PoolList = toml::from_str(&text).ok()?;
    rows(&list.pools, config)
}

/// The rows of these pools, numbered as a new catalogue would.
fn rows(pools: &[PoolEntry], config: &Config) -> Option<Vec<PoolRow>> {
    let numbered = (pools::FIRST.0..).zip(pools);
    numbered
        .map(|(id, pool)| Some(PoolRow { id: PoolId(id), ..pool.row(config)? }))
        .collect()
}

#[derive(Serialize, Deserialize)]
struct PoolList {
    pools: Vec<PoolEntry>,
}

impl PoolEntry {
    fn of(row: &PoolRow) -> Self {
        let PoolRow { name, url, is_copy, mark, .. } = row;
        Self {
            name: name.clone(),
            url: url.clone(),
            is_copy: *is_copy,
            mark: HEXLOWER.encode(mark),
        }
    }

    fn row(&self, config: &Config) -> Option<PoolRow> {
        Some(PoolRow {
            name: self.name.clone(),
            is_copy: self.is_copy,
            mark: unhex(&self.mark)?,
            url: self.url.clone(),
            ..pools::first_row(config)
        })
    }
}

/// The recovery file of the server in `folder`, which may be running.
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
    Ok(format!(
        "# Holdfast recovery file: with it and one pool 'holdfast server recover' makes the server \
         again.\n# It holds the server's keys: keep it where the pools are not, and secret.\n{body}"
    ))
}

impl RecoveryFile {
    fn parse(text: &str) -> Result<Self, RecoveryError> {
        let unfit = |why: String| RecoveryError::File(why);
        let file: Self = toml::from_str(text).map_err(|error| unfit(error.message().to_owned()))?;
        if file.format != FORMAT {
            return Err(unfit(format!(
                "its format is {}; this program knows {FORMAT}",
                file.format
            )));
        }
        if unhex::<MASTER_BYTES>(&file.master_key).is_none() {
            return Err(unfit("its master key is not whole".to_owned()));
        }
        if file.pools.iter().any(|pool| unhex::<16>(&pool.mark).is_none()) {
            return Err(unfit("the mark of a pool is not whole".to_owned()));
        }
        Ok(file)
    }

    /// Has pools be where they are now.
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

    /// Makes the server's folder, with its keys.
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
        rows(&self.pools, &self.config).expect("parsed")
    }
}

/// Makes the server of the recovery file `text` again, in the new folder `folder`. `moved` pools
/// are at other URLs now.
pub fn recover(
    folder: &Path,
    text: &str,
    moved: &[(String, String)],
) -> Result<Rebuilt, RecoveryError> {
    let mut file = RecoveryFile::parse(text)?;
    file.relocate(moved)?;
    let rows = file.rows();
    check_any(&rows, folder)?;
    let secrets = file.write_keys(folder)?;
    hold(folder).map_err(disk(&folder.join(HOLD_FILE)))?;
    let mut rebuilt = remake_catalog(folder, &file.config, &rows, &secrets)?;
    // Last: a folder without it is no server.
    file.config.store(folder).map_err(disk(&folder.join(CONFIG_FILE)))?;
    survey(folder, &file.config, &mut rebuilt)?;
    Ok(rebuilt)
}

/// Makes another server in the new folder `folder`, that listens at `listen`, for the catalogue and
/// the pools of the one that has written the recovery file `text`: both are where every server
/// reaches them.
pub fn join(folder: &Path, text: &str, listen: &str) -> Result<Config, RecoveryError> {
    let file = RecoveryFile::parse(text)?;
    let config = Config { listen: listen.to_owned(), ..file.config.clone() };
    if let Location::File(_) = database::place(&config, folder) {
        return Err(RecoveryError::NotShared { url: config.catalog });
    }
    if !buckets::is_bucket(&config.pool) {
        return Err(RecoveryError::NotShared { url: config.pool });
    }
    std::net::ToSocketAddrs::to_socket_addrs(listen)
        .map_err(|source| InitError::Listen { address: listen.to_owned(), source })?;
    drop(Database::open(&config, folder)?);
    file.write_keys(folder)?;
    // Last: a folder without it is no server.
    config.store(folder).map_err(disk(&folder.join(CONFIG_FILE)))?;
    Ok(config)
}

/// Makes the catalogue of the server in `folder` again, which must not run; what there was of it is
/// kept under another name. `moved` pools are at other URLs now.
pub fn rebuild(folder: &Path, moved: &[(String, String)]) -> Result<Rebuilt, RecoveryError> {
    let config = Config::load(folder)?;
    let lock = sys::durable::Lock::try_exclusive(&folder.join(CONFIG_FILE));
    let Some(_lock) = lock.map_err(disk(folder))? else {
        return Err(RunError::Locked { folder: folder.to_owned() }.into());
    };
    let secrets = Secrets::load(&folder.join(MASTER_KEY)).map_err(RunError::MasterKey)?;
    let mut rows = known_pools(folder, &config)?;
    for (name, url) in moved {
        let known = rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>().join(", ");
        let row = rows.iter_mut().find(|row| row.name.eq_ignore_ascii_case(name));
        let unknown = || RecoveryError::UnknownPool { name: name.clone(), known };
        row.ok_or_else(unknown)?.url.clone_from(url);
    }
    check_any(&rows, folder)?;
    hold(folder).map_err(disk(&folder.join(HOLD_FILE)))?;
    let aside = put_aside(folder)?;
    let mut rebuilt = remake_catalog(folder, &config, &rows, &secrets)?;
    rebuilt.aside = aside;
    survey(folder, &config, &mut rebuilt)?;
    Ok(rebuilt)
}

/// The pools as the old catalogue knows them, if it can still say; else as the list beside it does.
fn known_pools(folder: &Path, config: &Config) -> Result<Vec<PoolRow>, RecoveryError> {
    let is_there = match database::place(config, folder) {
        Location::File(path) => std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0),
        Location::Database(_) => true,
    };
    if is_there
        && let Ok(rows) = Database::open(config, folder).and_then(|old| old.catalog().pools())
        && !rows.is_empty()
    {
        return Ok(rows);
    }
    if let Some(rows) = kept_pools(folder, config).filter(|rows| !rows.is_empty()) {
        return Ok(rows);
    }
    let first = pools::first_row(config);
    let spec = pools::spec(&first, folder, (None, &Buckets::new(folder, 0)))?;
    let mark = spec.read_mark().map_err(disk(&spec.place()))?.unwrap_or(spec.mark);
    Ok(vec![PoolRow { mark: mark.0, ..first }])
}

fn check_any(rows: &[PoolRow], folder: &Path) -> Result<(), RecoveryError> {
    let specs = pools::specs(rows, folder, (None, &Buckets::new(folder, 0)))?;
    if specs.iter().any(pool::is_marked) {
        return Ok(());
    }
    let folders: Vec<String> =
        specs.iter().map(|spec| spec.place().display().to_string()).collect();
    Err(RecoveryError::NoPool { folders: folders.join(", ") })
}

/// Renames what there is of a catalogue, and drops the index, which comes from the packs.
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
    let index = folder.join(INDEX);
    match std::fs::remove_dir_all(&index) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk(&index)(error)),
        _ => Ok(aside),
    }
}

/// Makes the catalogue from the newest copy that is whole; a new one where there is none.
fn remake_catalog(
    folder: &Path,
    config: &Config,
    rows: &[PoolRow],
    secrets: &Secrets,
) -> Result<Rebuilt, RecoveryError> {
    let mut specs = pools::specs(rows, folder, (None, &Buckets::new(folder, 0)))?;
    // Only looked at: what of them is not whole is judged by a catalogue.
    specs.iter_mut().for_each(|spec| spec.role = Role::Copy);
    let key = secrets.domain_key(CATALOG_DOMAIN);
    let opened = Pools::open(
        &specs,
        pool::Numbers::Own(PackNumber(1)),
        &BTreeMap::new(),
        move |_, chunk| key.digest(chunk),
    );
    let (pools, _) = opened.map_err(disk(folder))?;
    let mut rebuilt = Rebuilt::default();
    let new = folder.join(format!("{CATALOG_FILE}.new"));
    for (number, _) in catalog_copy::numbers(&pools).into_iter().rev() {
        drop(std::fs::remove_file(&new));
        let restored = catalog_copy::load(&pools, number).and_then(|copy| {
            catalog_copy::restore(&pools, &copy, &new)?;
            Ok(copy)
        });
        match restored {
            Ok(copy) => {
                rebuilt.copy = Some((number, copy.taken, copy.bytes));
                break;
            }
            Err(error) => rebuilt.passed_over.push((number, error.to_string())),
        }
    }
    drop(pools);
    if rebuilt.copy.is_none() {
        drop(std::fs::remove_file(&new));
        sys::durable::write(&new, b"", 0o600).map_err(disk(&new))?;
    }
    make_private(&new).map_err(disk(&new))?;
    place_pools(&Sqlite::open(&new)?, folder, rows, rebuilt.copy.is_some())?;
    match database::place(config, folder) {
        Location::File(path) => std::fs::rename(&new, &path).map_err(disk(&path))?,
        to => {
            let from = Location::File(new.clone());
            catalog::relocate((&from, &to), 0, &mut |_, _| Ok(()))?;
            catalog::arrive(&to)?;
            std::fs::remove_file(&new).map_err(disk(&new))?;
        }
    }
    sys::durable::sync_dir(folder).map_err(disk(folder))?;
    Ok(rebuilt)
}

fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

/// Has the catalogue know where the pools are. One that comes from a copy knows which there are; a
/// pool whose disk was replaced since has another mark.
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
                let spec = pools::spec(row, folder, (None, &Buckets::new(folder, 0)))?;
                let found = spec.read_mark().map_err(disk(&spec.place()))?;
                let is_new = found == Some(Mark(row.mark));
                let mark = if is_new { row.mark } else { known.mark };
                catalog.change_pool(&PoolRow { url: row.url.clone(), mark, ..known.clone() })?;
            }
            None if is_copy => tracing::warn!(pool = row.name, "the catalogue has no such pool"),
            None => {
                catalog.add_pool(row)?;
            }
        }
    }
    Ok(())
}

/// Looks at what the packs hold and what the catalogue names, brings the one's rows into the other,
/// and says what is missing.
fn survey(folder: &Path, config: &Config, rebuilt: &mut Rebuilt) -> Result<(), RecoveryError> {
    // As they are in the copy: opening takes in what it finds.
    let database = Database::open(config, folder)?;
    if !database.try_alone()? {
        return Err(RunError::Claimed.into());
    }
    // Before another server can enter.
    database.hold(folder, true)?;
    let rows = database.catalog().packs()?;
    let core = Arc::new(Core::open(folder, config, &database, None)?);
    let said = |status: Status| RecoveryError::Survey(status.message().to_owned());
    let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
    let pools = core.pools.present().into_iter();
    let all: BTreeSet<PackNumber> =
        pools.flat_map(|pool| core.pools.packs_of(pool).into_keys()).collect();
    let mut writes = Vec::new();
    let mut counts: HashMap<PackNumber, u32> = HashMap::new();
    let mut back = BTreeSet::new();
    for &number in &all {
        let mut closed = core.pools.closed(number);
        // Where packs are locked, the right one may lie beneath.
        if closed.is_err() && core.pools.bring_back(number).unwrap_or(false) {
            closed = core.pools.closed(number);
            back.insert(number);
        }
        match closed {
            Ok((table, bytes)) => {
                counts.insert(number, table.chunk_count());
                rebuilt.chunks += u64::from(table.chunk_count());
                let (domain, state) = (table.domain, PackState::Sealed);
                let row = PackRow { number, domain, state, bytes, node: None };
                writes.extend((!known.contains(&number)).then_some(Write::PutPack(row)));
            }
            Err(error) => rebuilt.damaged.push((number, model::chain(&error))),
        }
    }
    core.index_again(&back);
    rebuilt.packs = all.len() as u64;
    rebuilt.packs_new = all.difference(&known).count() as u64;
    rebuilt.missing = known.difference(&all).copied().collect();
    let last = all.last().map_or(0, |last| last.0).max(core.catalog.next_pack()?.0);
    let number = PackNumber(last + NUMBERS_LEFT_OUT);
    let (domain, state) = (CATALOG_DOMAIN, PackState::Sealed);
    let row = PackRow { number, domain, state, bytes: 0, node: None };
    writes.extend([Write::PutPack(row), Write::RemovePack(number)]);
    core.catalog.commit(writes)?;
    rebuilt.nodes = core.catalog.nodes()?.len() as u64;
    let is_lost =
        |place: Place| counts.get(&place.pack()).is_none_or(|count| place.index() >= *count);
    rebuilt.victims = victims::find(&core, &is_lost, &mut || Ok(())).map_err(said)?;
    core.close().map_err(said)
}
