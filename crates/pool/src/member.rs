//! One pool: a folder of packs that is marked as this pool's.
//!
//! The mark tells a folder whose disk is not mounted from a pool that has lost everything: without
//! it nothing is written there, and nothing is taken for gone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use model::{PackNumber, PoolId};

use crate::bucket::{Bucketed, MARK};

use crate::folder;
use crate::shelf::Shelved;

/// The file that says whose folder it is.
const MARK_FILE: &str = "holdfast-pool";

/// What a pool's folder is known by: random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(pub [u8; 16]);

impl Mark {
    fn text(self) -> String {
        HEXLOWER.encode(&self.0) + "\n"
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mark = HEXLOWER.decode(text.strip_suffix(b"\n")?).ok()?;
        mark.try_into().ok().map(Self)
    }
}

fn taken(what: &str) -> io::Error {
    let text = format!("{what} is a pool already, of this server or of another");
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

/// What a pool is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It holds packs, each in one primary pool.
    Primary,
    /// It holds second copies of what primary pools hold.
    Copy,
}

/// A pool as its administrator has made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpec {
    pub id: PoolId,
    pub folder: PathBuf,
    pub role: Role,
    pub mark: Mark,
    /// It takes no more bytes of packs than this.
    pub capacity_bytes: Option<u64>,
    /// Where new packs go when this one is full.
    pub next: Option<PoolId>,
    pub storage: Storage,
}

/// What has the packs of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Storage {
    /// Its folder.
    Folder,
    /// Volumes; the folder has what is needed without them. No new packs are made there.
    Shelf(Shelved),
    /// An object store; the folder has what need not be asked for again.
    Bucket(Bucketed),
}

impl Storage {
    /// Who is asked first: what is on a disk is nearer than what is on a volume.
    pub(crate) fn distance(&self) -> u8 {
        match self {
            Self::Folder => 0,
            Self::Bucket(_) => 1,
            Self::Shelf(_) => 2,
        }
    }
}

impl PoolSpec {
    pub(crate) fn shelf(&self) -> Option<&Shelved> {
        match &self.storage {
            Storage::Shelf(shelf) => Some(shelf),
            Storage::Folder | Storage::Bucket(_) => None,
        }
    }

    pub(crate) fn bucket(&self) -> Option<&Bucketed> {
        match &self.storage {
            Storage::Bucket(bucket) => Some(bucket),
            Storage::Folder | Storage::Shelf(_) => None,
        }
    }

    /// Where it is, as that is shown: a folder, or a URL.
    pub fn place(&self) -> PathBuf {
        self.bucket()
            .map_or_else(|| self.folder.clone(), |bucket| bucket.0.url().to_string().into())
    }

    /// The mark where the pool is, if there is one and it can be read.
    pub fn read_mark(&self) -> io::Result<Option<Mark>> {
        match self.bucket() {
            Some(bucket) => {
                let read = || {
                    let text = bucket.0.read_mark()?;
                    Ok::<_, io::Error>(text.and_then(|text| Mark::parse(&text)))
                };
                let found = read()?;
                if found.is_none() && bucket.0.has_locks() {
                    let is_one = &mut || read().is_ok_and(|found| found.is_some());
                    bucket.0.bring_back_beside(MARK, is_one)?;
                    return read();
                }
                Ok(found)
            }
            None => Ok(read_mark(&self.folder)),
        }
    }

    /// Marks where the pool is as its own. Fails with `AlreadyExists` when it is marked as
    /// another's.
    pub fn put_mark(&self) -> io::Result<()> {
        let Some(bucket) = self.bucket() else { return mark(&self.folder, self.mark) };
        match self.read_mark()? {
            Some(found) if found == self.mark => Ok(()),
            Some(_) => Err(taken("the bucket")),
            None => bucket.0.write_mark(self.mark.text().as_bytes()),
        }
    }

    /// Takes the mark off a pool that is none any more.
    pub fn remove_mark(&self) -> io::Result<()> {
        self.bucket()
            .map_or_else(|| unmark(&self.folder), |bucket| bucket.0.remove_mark())
    }

    /// Whether there are no packs.
    pub fn is_empty(&self) -> io::Result<bool> {
        match self.bucket() {
            Some(bucket) => Ok(bucket.0.list()?.is_empty()),
            None => is_empty(&self.folder),
        }
    }
}

/// How full a pool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Whether its folder is there.
    pub is_there: bool,
    pub packs: u64,
    /// Of packs.
    pub bytes: u64,
    /// What it can hold: its capacity, or what its packs and the free space of its disk come to; 0
    /// where nobody can say.
    pub bytes_max: u64,
}

/// Marks the folder of a new pool. Fails with `AlreadyExists` when it is marked as another's.
pub fn mark(folder: &Path, mark: Mark) -> io::Result<()> {
    match read_mark(folder) {
        Some(found) if found == mark => Ok(()),
        Some(_) => Err(taken("the folder")),
        None => sys::durable::write(&folder.join(MARK_FILE), mark.text().as_bytes(), 0o644),
    }
}

/// The mark of a folder, if it has one.
pub fn read_mark(folder: &Path) -> Option<Mark> {
    Mark::parse(&std::fs::read(folder.join(MARK_FILE)).ok()?)
}

/// Has nobody else use the folder of a pool until what is returned is dropped; `None` while
/// somebody does.
pub fn lock(folder: &Path) -> io::Result<Option<sys::durable::Lock>> {
    sys::durable::Lock::try_exclusive(&folder.join(MARK_FILE))
}

/// Whether the folder has no packs.
pub fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(folder::list(folder)?.is_empty())
}

/// Takes the mark off a folder that is no pool any more.
pub fn unmark(folder: &Path) -> io::Result<()> {
    match std::fs::remove_file(folder.join(MARK_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Invariant: `packs` are those that are whole in the folder or being written there, with their
/// bytes as last heard of; empty while the folder is not there.
pub(crate) struct Member {
    pub(crate) spec: PoolSpec,
    pub(crate) is_there: bool,
    pub(crate) packs: BTreeMap<PackNumber, u64>,
    /// Of all of them.
    bytes: u64,
}

impl Member {
    /// Looks at the folder and lists its packs; `bytes_of` says how long those are that are known.
    pub(crate) fn open(spec: PoolSpec, bytes_of: impl Fn(PackNumber) -> u64) -> io::Result<Self> {
        let is_there = is_marked(&spec);
        let mut member = Self { spec, is_there, packs: BTreeMap::new(), bytes: 0 };
        let packs = match &member.spec.storage {
            Storage::Shelf(shelf) => shelf.0.packs()?,
            _ if !is_there => BTreeMap::new(),
            Storage::Bucket(bucket) => {
                std::fs::create_dir_all(&member.spec.folder)?;
                bucket.0.list()?
            }
            Storage::Folder => {
                let listed = folder::list(&member.spec.folder)?.into_iter();
                listed.map(|pack| (pack, bytes_of(pack))).collect()
            }
        };
        packs.into_iter().for_each(|(pack, bytes)| member.put(pack, bytes));
        Ok(member)
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.spec.role == Role::Primary
    }

    pub(crate) fn path(&self, pack: PackNumber) -> PathBuf {
        folder::path(&self.spec.folder, pack)
    }

    /// The pack is there and has so many bytes.
    pub(crate) fn put(&mut self, pack: PackNumber, bytes: u64) {
        self.bytes += bytes;
        self.bytes -= self.packs.insert(pack, bytes).unwrap_or(0);
    }

    pub(crate) fn remove(&mut self, pack: PackNumber) {
        self.bytes -= self.packs.remove(&pack).unwrap_or(0);
    }

    /// Whether its capacity has room for `bytes` more.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.spec.capacity_bytes.is_none_or(|capacity| self.bytes + bytes <= capacity)
    }

    /// Without the free space of the disk that the folder is on, which is told where it counts.
    pub(crate) fn usage(&self) -> (Usage, Option<PathBuf>) {
        let usage = Usage {
            is_there: self.is_there,
            packs: self.packs.len() as u64,
            bytes: self.bytes,
            bytes_max: self.spec.capacity_bytes.unwrap_or(0),
        };
        let is_limited = matches!(self.spec.storage, Storage::Folder) && usage.bytes_max == 0;
        (usage, (is_limited && self.is_there).then(|| self.spec.folder.clone()))
    }

    /// The same pool while its folder is not there.
    pub(crate) fn away(spec: PoolSpec) -> Self {
        Self { spec, is_there: false, packs: BTreeMap::new(), bytes: 0 }
    }
}

impl Usage {
    pub(crate) fn with_free_of(self, folder: &Path) -> Self {
        let free = sys::durable::free_bytes(folder).unwrap_or(0);
        Self { bytes_max: self.bytes.saturating_add(free), ..self }
    }
}

/// Whether the pool's folder is there, and its own.
pub fn is_marked(spec: &PoolSpec) -> bool {
    match spec.read_mark() {
        Ok(found) => found == Some(spec.mark),
        Err(error) => {
            tracing::warn!(%error, storage = ?spec.storage, "a pool does not answer");
            false
        }
    }
}
