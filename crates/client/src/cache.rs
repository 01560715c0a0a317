//! Deduplication cache: grants by chunk digest, so that chunks that the server has are not sent
//! again.
//!
//! The cache is a table in a mapped file. The table consists of pages of sixteen buckets of eight
//! entries. An entry has four words: digest prefix (2), place, MAC.
//!
//! 1. The digest determines the bucket of an entry. If the bucket is full, the entry is in the next
//!    bucket of the same page that has room. After the last bucket of a page comes its first. So a
//!    grant costs at most one page fault.
//! 2. All words of an unused entry are 0. A forgotten entry has the place 0 and keeps its digest,
//!    so it is free but not unused. A search ends at the first bucket with an unused entry, because
//!    no entry has gone past this bucket.
//! 3. A table in which each entry is in the bucket of its digest obeys these rules. So programs
//!    that know only such tables can use the same file: they miss the other entries.
//!
//! The table begins small and doubles when a page is full, up to a limit: if it were much larger
//! than its content, each grant would cost a page fault, and the whole table would be in memory and
//! be written. While it doubles, each part of the old table leaves the memory once it is copied. At
//! the limit, a new entry replaces an old entry of a full page; the table is never emptied as a
//! whole. Entries need no lock: if two writers mix up an entry, the server refuses the grant, and
//! the client sends the data.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::slice::ChunksExact;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use model::{ChunkDigest, GrantProof};
use sys::lock::{Mutex, RwLock, RwLockReadGuard};
use sys::map::MappedWords;

const ENTRY_WORDS: usize = 4;
const BUCKET_ENTRIES: usize = 8;
const BUCKET_WORDS: usize = ENTRY_WORDS * BUCKET_ENTRIES;
const BUCKET_BYTES: u64 = BUCKET_WORDS as u64 * 8;
/// Number of buckets in a page of 4 KiB, the smallest unit that the kernel maps.
const PAGE_BUCKETS: usize = 16;
const PAGE_WORDS: usize = BUCKET_WORDS * PAGE_BUCKETS;
/// Number of words that are copied to a larger table before they leave the memory: 1 MiB.
const COPY_WORDS: usize = 1 << 17;
/// Maximum number of grants in memory, if no file can be mapped.
const MEMORY_ENTRIES_MAX: usize = 1 << 20;

/// Maximum size of a table: 1 TiB, as in option sets.
const MEGABYTES_MAX: u64 = 1 << 20;
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
    /// Opens the cache file `path`, which may grow to `megabytes`, at most to [`MEGABYTES_MAX`]. If
    /// the file cannot be used, the cache is in memory.
    pub(crate) fn open(path: &Path, megabytes: u64) -> Self {
        let buckets_max = (megabytes.min(MEGABYTES_MAX) << 20) / BUCKET_BYTES;
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
                table.find(prefix).and_then(|entry| read(entry, prefix))
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
                // Two writers at the same time may have stored the grant twice.
                while let Some(entry) = table.find(prefix) {
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
            if table.is_final {
                return table.put(prefix, grant);
            }
            if let Some(entry) = table.slot(prefix) {
                return write(entry, prefix, grant);
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
        assert!(buckets.is_multiple_of(PAGE_BUCKETS as u64), "a table consists of whole pages");
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
        for (index, part) in self.words.words().chunks(COPY_WORDS).enumerate() {
            for entry in part.chunks_exact(ENTRY_WORDS) {
                let [low, high, place, mac] = load(entry);
                if place != 0 {
                    larger.put((low, high), GrantProof::from_words([place, mac]));
                }
            }
            let first = index * COPY_WORDS;
            self.words.release(first..first + part.len());
        }
        std::fs::rename(&new, path).ok()?;
        Some(larger)
    }

    /// Returns the buckets in which the entry of a digest can be, in the order of a search.
    fn buckets_of(&self, prefix: (u64, u64)) -> impl Iterator<Item = &[AtomicU64]> {
        let number = (u128::from(prefix.1) * u128::from(self.buckets)) >> 64;
        let number = usize::try_from(number).expect("below the count of buckets");
        let own = number % PAGE_BUCKETS;
        let page = &self.words.words()[(number - own) * BUCKET_WORDS..][..PAGE_WORDS];
        (own..own + PAGE_BUCKETS)
            .map(move |bucket| &page[bucket % PAGE_BUCKETS * BUCKET_WORDS..][..BUCKET_WORDS])
    }

    /// Returns the entry of a digest.
    fn find(&self, prefix: (u64, u64)) -> Option<&[AtomicU64]> {
        for bucket in self.buckets_of(prefix) {
            let found = entries(bucket).find(|entry| read(entry, prefix).is_some());
            if found.is_some() || entries(bucket).any(is_unused) {
                return found;
            }
        }
        None
    }

    /// Returns the entry to write: the entry of this digest, otherwise the first free entry.
    /// Returns `None` if the page is full.
    fn slot(&self, prefix: (u64, u64)) -> Option<&[AtomicU64]> {
        let free = || self.buckets_of(prefix).flat_map(entries).find(|entry| is_free(entry));
        self.find(prefix).or_else(free)
    }

    /// Stores a grant. If the page is full, the grant replaces another grant.
    fn put(&self, prefix: (u64, u64), grant: GrantProof) {
        let victim = || {
            let number = usize::try_from((prefix.0 ^ grant.words()[0]) % BUCKET_ENTRIES as u64);
            let own = self.buckets_of(prefix).next().expect("a page has buckets");
            &own[number.expect("below eight") * ENTRY_WORDS..][..ENTRY_WORDS]
        };
        write(self.slot(prefix).unwrap_or_else(victim), prefix, grant);
    }
}

fn prefix_words(digest: &ChunkDigest) -> (u64, u64) {
    let prefix = u128::from_le_bytes(digest.prefix());
    let low = u64::try_from(prefix & u128::from(u64::MAX)).expect("masked");
    let high = u64::try_from(prefix >> 64).expect("shifted");
    (low, high)
}

fn entries(bucket: &[AtomicU64]) -> ChunksExact<'_, AtomicU64> {
    bucket.chunks_exact(ENTRY_WORDS)
}

fn load(entry: &[AtomicU64]) -> [u64; ENTRY_WORDS] {
    [0, 1, 2, 3].map(|at: usize| entry[at].load(Relaxed))
}

fn is_free(entry: &[AtomicU64]) -> bool {
    entry[2].load(Relaxed) == 0
}

fn is_unused(entry: &[AtomicU64]) -> bool {
    load(entry) == [0; ENTRY_WORDS]
}

fn read(entry: &[AtomicU64], prefix: (u64, u64)) -> Option<GrantProof> {
    let [low, high, place, mac] = load(entry);
    if (low, high) != prefix || place == 0 {
        return None;
    }
    Some(GrantProof::from_words([place, mac]))
}

fn write(entry: &[AtomicU64], prefix: (u64, u64), grant: GrantProof) {
    assert_eq!(entry.len(), ENTRY_WORDS, "an entry is written whole");
    let [place, mac] = grant.words();
    let words = [prefix.0, prefix.1, place, mac];
    entry.iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
}

#[cfg(test)]
mod tests;
