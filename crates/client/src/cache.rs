//! Deduplication cache: grants by chunk digest, so that chunks that the server has are not sent
//! again.
//!
//! The cache is a table in a mapped file. The table consists of buckets of eight entries. An entry
//! has four words: digest prefix (2), place, MAC. The table begins small and doubles when a bucket
//! is full, up to a limit: if it were much larger than its content, each grant would cost a page
//! fault, and the whole table would be written. At the limit, a new entry replaces an old entry of
//! a full bucket; the table is never emptied as a whole. Entries need no lock: if two writers mix
//! up an entry, the server refuses the grant, and the client sends the data.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use model::{ChunkDigest, GrantProof};
use sys::lock::{Mutex, RwLock, RwLockReadGuard};
use sys::map::MappedWords;

const ENTRY_WORDS: usize = 4;
const BUCKET_ENTRIES: usize = 8;
const BUCKET_WORDS: usize = ENTRY_WORDS * BUCKET_ENTRIES;
const BUCKET_BYTES: u64 = BUCKET_WORDS as u64 * 8;
/// Maximum number of grants in memory, if no file can be mapped.
const MEMORY_ENTRIES_MAX: usize = 1 << 20;

/// Number of buckets of a new table, which takes 1 MiB.
const BUCKETS_FIRST: u64 = 4096;

/// Grants of one node at one server.
pub(crate) enum Cache {
    Mapped(GrowingTable),
    /// Fallback if another process uses the file or the disk has no room for it.
    Memory(Mutex<HashMap<[u8; 16], GrantProof>>),
}

/// The cache of one node at one server while any session uses it. Sessions at the same time share
/// it: the file can be mapped only once.
#[derive(Default)]
pub(crate) struct SharedCache(Mutex<Weak<Cache>>);

impl SharedCache {
    /// Returns the cache that is in use. If there is none, `open` opens it.
    pub(crate) fn get(&self, open: impl FnOnce() -> Cache) -> Arc<Cache> {
        let mut in_use = self.0.lock();
        in_use.upgrade().unwrap_or_else(|| {
            let cache = Arc::new(open());
            *in_use = Arc::downgrade(&cache);
            cache
        })
    }
}

/// Table that is replaced by a larger one when it is full.
pub(crate) struct GrowingTable {
    path: PathBuf,
    buckets_max: u64,
    table: RwLock<Table>,
}

struct Table {
    words: MappedWords,
    buckets: u64,
    /// True if the table cannot grow any more.
    is_final: bool,
}

impl Cache {
    /// Opens the cache file `path`, which may grow to `megabytes`. If the file cannot be used, the
    /// cache is in memory.
    pub(crate) fn open(path: &Path, megabytes: u64) -> Self {
        let buckets_max = (megabytes << 20) / BUCKET_BYTES;
        let there = path.metadata().map_or(0, |file| file.len()) / BUCKET_BYTES;
        let is_ours = |buckets: u64| {
            buckets == buckets_max || (buckets.is_power_of_two() && buckets < buckets_max)
        };
        let is_grown = there >= BUCKETS_FIRST && is_ours(there);
        let buckets = if is_grown { there } else { BUCKETS_FIRST.min(buckets_max) };
        match Table::open(path, buckets, buckets == buckets_max) {
            Some(table) => {
                let table = RwLock::new(table);
                Self::Mapped(GrowingTable { path: path.to_owned(), buckets_max, table })
            }
            None => Self::Memory(Mutex::default()),
        }
    }

    /// Returns the grant of the chunk `digest`, if the cache has it.
    pub(crate) fn get(&self, digest: &ChunkDigest) -> Option<GrantProof> {
        match self {
            Self::Memory(grants) => grants.lock().get(&digest.prefix()).copied(),
            Self::Mapped(growing) => {
                let prefix = prefix_words(digest);
                let table = growing.table();
                table.bucket(prefix).chunks_exact(ENTRY_WORDS).find_map(|e| read(e, prefix))
            }
        }
    }

    /// Removes the grant of the chunk `digest`, because the server refuses it.
    pub(crate) fn forget(&self, digest: &ChunkDigest) {
        match self {
            Self::Memory(grants) => {
                grants.lock().remove(&digest.prefix());
            }
            Self::Mapped(growing) => {
                let prefix = prefix_words(digest);
                let table = growing.table();
                let entries = table.bucket(prefix).chunks_exact(ENTRY_WORDS);
                for entry in entries.filter(|entry| read(entry, prefix).is_some()) {
                    entry[2].store(0, Relaxed);
                }
            }
        }
    }

    /// Stores a grant.
    pub(crate) fn put(&self, digest: &ChunkDigest, grant: GrantProof) {
        match self {
            Self::Memory(grants) => {
                let mut grants = grants.lock();
                if grants.len() < MEMORY_ENTRIES_MAX {
                    grants.insert(digest.prefix(), grant);
                }
            }
            Self::Mapped(growing) => growing.put(prefix_words(digest), grant),
        }
    }
}

impl GrowingTable {
    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read()
    }

    fn put(&self, prefix: (u64, u64), grant: GrantProof) {
        loop {
            let table = self.table();
            let bucket = table.bucket(prefix);
            if table.is_final || has_slot(bucket, prefix) {
                return write(slot(bucket, prefix, grant), prefix, grant);
            }
            // The server keeps sent quanta only for a while, so a large file needs each of its
            // grants. No grant is replaced while the table can grow.
            let buckets = table.buckets;
            drop(table);
            self.grow_from(buckets);
        }
    }

    /// Doubles the table of `buckets` buckets, unless another thread has already doubled it. A
    /// table that cannot grow becomes final.
    fn grow_from(&self, buckets: u64) {
        let mut table = self.table.write();
        if table.buckets != buckets {
            return;
        }
        match table.doubled(&self.path, self.buckets_max) {
            Some(larger) => *table = larger,
            None => table.is_final = true,
        }
    }
}

impl Table {
    /// Opens a table. Returns `None` if the file cannot be mapped or the disk has little room left.
    fn open(path: &Path, buckets: u64, is_final: bool) -> Option<Self> {
        let bytes = buckets * BUCKET_BYTES;
        let claimed = path.metadata().map_or(0, |file| file.len());
        let free = sys::durable::free_bytes(path.parent()?).ok()?;
        if buckets == 0 || free + claimed <= bytes * 2 {
            return None;
        }
        let words = MappedWords::open(path, usize::try_from(bytes / 8).ok()?).ok()?;
        assert_eq!(words.words().len() as u64, bytes / 8, "every bucket is in the mapped file");
        Some(Self { words, buckets, is_final })
    }

    /// Makes a table of twice the size with the same grants. Its file replaces the old file.
    fn doubled(&self, path: &Path, buckets_max: u64) -> Option<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        // The file may exist, if a process died while it doubled the table.
        drop(std::fs::remove_file(&new));
        let buckets = (self.buckets * 2).min(buckets_max);
        assert!(buckets > self.buckets, "a table that is not final has room to grow");
        let larger = Self::open(&new, buckets, buckets == buckets_max)?;
        for entry in self.words.words().chunks_exact(ENTRY_WORDS) {
            let [low, high, place, mac] = [0, 1, 2, 3].map(|at: usize| entry[at].load(Relaxed));
            if place != 0 {
                let (bucket, grant) = (larger.bucket((low, high)), [place, mac]);
                let grant = GrantProof::from_words(grant);
                write(slot(bucket, (low, high), grant), (low, high), grant);
            }
        }
        std::fs::rename(&new, path).ok()?;
        Some(larger)
    }

    fn bucket(&self, prefix: (u64, u64)) -> &[AtomicU64] {
        let number = (u128::from(prefix.1) * u128::from(self.buckets)) >> 64;
        let start = usize::try_from(number).expect("below the count of buckets") * BUCKET_WORDS;
        &self.words.words()[start..start + BUCKET_WORDS]
    }
}

fn has_slot(bucket: &[AtomicU64], prefix: (u64, u64)) -> bool {
    bucket
        .chunks_exact(ENTRY_WORDS)
        .any(|entry| entry[2].load(Relaxed) == 0 || read(entry, prefix).is_some())
}

fn prefix_words(digest: &ChunkDigest) -> (u64, u64) {
    let prefix = u128::from_le_bytes(digest.prefix());
    let low = u64::try_from(prefix & u128::from(u64::MAX)).expect("masked");
    let high = u64::try_from(prefix >> 64).expect("shifted");
    (low, high)
}

fn read(entry: &[AtomicU64], prefix: (u64, u64)) -> Option<GrantProof> {
    let [low, high, place, mac] = [0, 1, 2, 3].map(|at: usize| entry[at].load(Relaxed));
    if (low, high) != prefix || place == 0 {
        return None;
    }
    Some(GrantProof::from_words([place, mac]))
}

/// Returns the entry to write: the entry of this digest, otherwise a free entry, otherwise a
/// victim.
fn slot(bucket: &[AtomicU64], prefix: (u64, u64), grant: GrantProof) -> &[AtomicU64] {
    let entries = || bucket.chunks_exact(ENTRY_WORDS);
    let same = entries().find(|entry| read(entry, prefix).is_some());
    let free = || entries().find(|entry| entry[2].load(Relaxed) == 0);
    let victim = || {
        let number = usize::try_from((prefix.0 ^ grant.words()[0]) % BUCKET_ENTRIES as u64);
        &bucket[number.expect("below eight") * ENTRY_WORDS..][..ENTRY_WORDS]
    };
    same.or_else(free).unwrap_or_else(victim)
}

fn write(entry: &[AtomicU64], prefix: (u64, u64), grant: GrantProof) {
    assert_eq!(entry.len(), ENTRY_WORDS, "an entry is written whole");
    let [place, mac] = grant.words();
    let words = [prefix.0, prefix.1, place, mac];
    entry.iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
}

#[cfg(test)]
mod tests;
