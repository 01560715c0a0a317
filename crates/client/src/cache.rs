//! The deduplication cache: grants by chunk digest, so that what the server has is not sent again.
//!
//! A table in a mapped file: buckets of eight entries, each four words: digest prefix (2), place,
//! MAC. It begins small and doubles when a bucket is full, up to its limit: a table much
//! larger than what is in it would cost a page fault a grant and its size in writing. At its limit
//! a full bucket gives up one of its entries; the table is never emptied as a whole. Entries need
//! no lock: one torn between two writers is a grant that the server refuses, and then the data is
//! sent.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use model::{ChunkDigest, GrantMac, Place, PlaceCode as _};
use sys::map::MappedWords;

const ENTRY_WORDS: usize = 4;
const BUCKET_ENTRIES: usize = 8;
const BUCKET_WORDS: usize = ENTRY_WORDS * BUCKET_ENTRIES;
const BUCKET_BYTES: u64 = BUCKET_WORDS as u64 * 8;
/// Grants kept where no file can be mapped.
const MEMORY_ENTRIES_MAX: usize = 1 << 20;

/// Buckets of a new table: 1 MiB.
const BUCKETS_FIRST: u64 = 4096;

/// Grants of one node at one server.
pub(crate) enum Cache {
    Mapped(Growing),
    /// Another process has the file, or the disk has no room for it.
    Memory(Mutex<HashMap<[u8; 16], (Place, GrantMac)>>),
}

/// A table that may be replaced by a larger one.
pub(crate) struct Growing {
    path: PathBuf,
    buckets_max: u64,
    table: RwLock<Table>,
}

struct Table {
    words: MappedWords,
    buckets: u64,
    /// It cannot grow any more.
    is_final: bool,
}

impl Cache {
    /// Opens the cache file `path` of up to `megabytes`; falls back to memory. None at all with 0.
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
                Self::Mapped(Growing { path: path.to_owned(), buckets_max, table })
            }
            None => Self::Memory(Mutex::default()),
        }
    }

    /// The grant of the chunk `digest`, if it is known.
    pub(crate) fn get(&self, digest: &ChunkDigest) -> Option<(Place, GrantMac)> {
        match self {
            Self::Memory(grants) => grants.lock().ok()?.get(&digest.prefix()).copied(),
            Self::Mapped(growing) => {
                let prefix = prefix_words(digest);
                let table = growing.table();
                table.bucket(prefix).chunks_exact(ENTRY_WORDS).find_map(|e| read(e, prefix))
            }
        }
    }

    /// Forgets the grant of the chunk `digest`: the server does not honour it.
    pub(crate) fn forget(&self, digest: &ChunkDigest) {
        match self {
            Self::Memory(grants) => {
                if let Ok(mut grants) = grants.lock() {
                    grants.remove(&digest.prefix());
                }
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

    /// Remembers a grant.
    pub(crate) fn put(&self, digest: &ChunkDigest, place: Place, mac: GrantMac) {
        match self {
            Self::Memory(grants) => {
                if let Ok(mut grants) = grants.lock()
                    && grants.len() < MEMORY_ENTRIES_MAX
                {
                    grants.insert(digest.prefix(), (place, mac));
                }
            }
            Self::Mapped(growing) => growing.put(prefix_words(digest), place, mac),
        }
    }
}

impl Growing {
    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, prefix: (u64, u64), place: Place, mac: GrantMac) {
        loop {
            let table = self.table();
            let bucket = table.bucket(prefix);
            if table.is_final || has_slot(bucket, prefix) {
                return write(slot(bucket, prefix, place), prefix, place, mac);
            }
            // A file that is longer than the server remembers quanta needs each of its grants.
            let buckets = table.buckets;
            drop(table);
            self.grow_from(buckets);
        }
    }

    /// Doubles the table if it still has so many `buckets`, or settles for them.
    fn grow_from(&self, buckets: u64) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
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
    /// `None` where the file cannot be had or the disk has little room left.
    fn open(path: &Path, buckets: u64, is_final: bool) -> Option<Self> {
        let bytes = buckets * BUCKET_BYTES;
        let claimed = path.metadata().map_or(0, |file| file.len());
        let free = sys::durable::free_bytes(path.parent()?).ok()?;
        if buckets == 0 || free + claimed <= bytes * 2 {
            return None;
        }
        let words = MappedWords::open(path, usize::try_from(bytes / 8).ok()?).ok()?;
        Some(Self { words, buckets, is_final })
    }

    /// A table of twice the size with the same grants, in place of this one.
    fn doubled(&self, path: &Path, buckets_max: u64) -> Option<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        // What a process that died while growing left.
        drop(std::fs::remove_file(&new));
        let buckets = (self.buckets * 2).min(buckets_max);
        let larger = Self::open(&new, buckets, buckets == buckets_max)?;
        for entry in self.words.words().chunks_exact(ENTRY_WORDS) {
            let [low, high, place, mac] = [0, 1, 2, 3].map(|at: usize| entry[at].load(Relaxed));
            if let Some(place) = Place::from_code(place).filter(|_| place != 0) {
                let bucket = larger.bucket((low, high));
                let mac = GrantMac(mac.to_le_bytes());
                write(slot(bucket, (low, high), place), (low, high), place, mac);
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

fn read(entry: &[AtomicU64], prefix: (u64, u64)) -> Option<(Place, GrantMac)> {
    let [low, high, place, mac] = [0, 1, 2, 3].map(|at: usize| entry[at].load(Relaxed));
    if (low, high) != prefix || place == 0 {
        return None;
    }
    Some((Place::from_code(place)?, GrantMac(mac.to_le_bytes())))
}

/// The entry to write: the one of this digest, else a free one, else one that has to go.
fn slot(bucket: &[AtomicU64], prefix: (u64, u64), place: Place) -> &[AtomicU64] {
    let entries = || bucket.chunks_exact(ENTRY_WORDS);
    let same = entries().find(|entry| read(entry, prefix).is_some());
    let free = || entries().find(|entry| entry[2].load(Relaxed) == 0);
    let victim = || {
        let number = usize::try_from((prefix.0 ^ place.code()) % BUCKET_ENTRIES as u64);
        &bucket[number.expect("below eight") * ENTRY_WORDS..][..ENTRY_WORDS]
    };
    same.or_else(free).unwrap_or_else(victim)
}

fn write(entry: &[AtomicU64], prefix: (u64, u64), place: Place, mac: GrantMac) {
    let words = [prefix.0, prefix.1, place.code(), u64::from_le_bytes(mac.0)];
    entry.iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PackNumber;

    fn digest(number: u64) -> ChunkDigest {
        ChunkDigest(*blake3::hash(&number.to_le_bytes()).as_bytes())
    }

    fn grant(number: u32) -> (Place, GrantMac) {
        (Place::new(PackNumber(9), number), GrantMac(u64::from(number).to_le_bytes()))
    }

    #[test]
    fn grants_are_kept_across_openings() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cache");
        let cache = Cache::open(&path, 1);
        assert!(matches!(cache, Cache::Mapped(_)));
        for number in 0..1000 {
            let (place, mac) = grant(number);
            cache.put(&digest(u64::from(number)), place, mac);
        }
        drop(cache);
        let cache = Cache::open(&path, 1);
        assert_eq!(cache.get(&digest(3)), Some(grant(3)));
        assert_eq!(cache.get(&digest(5000)), None);
    }

    #[test]
    fn a_grant_that_does_not_hold_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cache");
        let mapped = Cache::open(&path, 1);
        for cache in [mapped, Cache::open(&path, 0)] {
            for number in 0..9 {
                cache.put(&digest(u64::from(number)), grant(number).0, grant(number).1);
            }
            cache.forget(&digest(3));
            cache.forget(&digest(77));
            let held = (0..9).filter(|&n| cache.get(&digest(u64::from(n))) == Some(grant(n)));
            assert_eq!(held.count(), 8);
            cache.put(&digest(3), grant(30).0, grant(30).1);
            assert_eq!(cache.get(&digest(3)), Some(grant(30)));
        }
    }

    #[test]
    fn a_full_table_forgets_single_grants() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(&folder.path().join("cache"), 1);
        let count = 60_000;
        for number in 0..count {
            let (place, mac) = grant(number);
            cache.put(&digest(u64::from(number)), place, mac);
        }
        let held = (0..count).filter(|&n| cache.get(&digest(u64::from(n))) == Some(grant(n)));
        assert!((20_000..=32_768).contains(&held.count()));
    }

    #[test]
    fn it_grows_with_what_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cache");
        let cache = Cache::open(&path, 256);
        let bytes = || path.metadata().expect("is there").len();
        assert_eq!(bytes(), 1 << 20);
        let count = 200_000;
        for number in 0..count {
            let (place, mac) = grant(number);
            cache.put(&digest(u64::from(number)), place, mac);
        }
        assert!(((8 << 20)..=(128 << 20)).contains(&bytes()), "{}", bytes());
        let size = bytes();
        drop(cache);
        let cache = Cache::open(&path, 256);
        assert_eq!(bytes(), size);
        assert!((0..count).all(|n| cache.get(&digest(u64::from(n))) == Some(grant(n))));
    }

    #[test]
    fn a_second_process_works_from_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cache");
        let _first = Cache::open(&path, 1);
        let second = Cache::open(&path, 1);
        assert!(matches!(second, Cache::Memory(_)));
        second.put(&digest(1), grant(1).0, grant(1).1);
        assert_eq!(second.get(&digest(1)), Some(grant(1)));
    }
}
