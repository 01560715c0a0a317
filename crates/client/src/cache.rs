//! The deduplication cache: grants by chunk digest, so that what the server has is not sent again.
//!
//! A table of fixed size in a mapped file: buckets of eight entries, each four words: digest prefix
//! (2), place, MAC. A full bucket gives up one of its entries; the table is never emptied as a
//! whole. Entries need no lock: one torn between two writers is a grant that the server refuses,
//! and then the data is sent.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{ChunkDigest, GrantMac, Place, PlaceCode as _};
use sys::map::MappedWords;

const ENTRY_WORDS: usize = 4;
const BUCKET_ENTRIES: usize = 8;
const BUCKET_WORDS: usize = ENTRY_WORDS * BUCKET_ENTRIES;
/// Grants kept where no file can be mapped.
const MEMORY_ENTRIES_MAX: usize = 1 << 20;

/// Grants of one node at one server.
pub(crate) enum Cache {
    Mapped {
        words: MappedWords,
        buckets: u64,
    },
    /// Another process has the file, or the disk has no room for it.
    Memory(Mutex<HashMap<[u8; 16], (Place, GrantMac)>>),
}

impl Cache {
    /// Opens the cache file `path` of `megabytes`; falls back to memory.
    pub(crate) fn open(path: &Path, megabytes: u64) -> Self {
        let buckets = (megabytes << 20) / (BUCKET_WORDS as u64 * 8);
        let word_count = usize::try_from(buckets).unwrap_or(0) * BUCKET_WORDS;
        let has_room = path.parent().is_some_and(|folder| {
            let claimed = path.metadata().map_or(0, |file| file.len());
            sys::durable::free_bytes(folder).is_ok_and(|free| free + claimed > megabytes << 21)
        });
        if buckets > 0
            && has_room
            && let Ok(words) = MappedWords::open(path, word_count)
        {
            return Self::Mapped { words, buckets };
        }
        Self::Memory(Mutex::default())
    }

    /// The grant of the chunk `digest`, if it is known.
    pub(crate) fn get(&self, digest: &ChunkDigest) -> Option<(Place, GrantMac)> {
        match self {
            Self::Memory(grants) => grants.lock().ok()?.get(&digest.prefix()).copied(),
            Self::Mapped { words, buckets } => {
                let prefix = prefix_words(digest);
                let bucket = bucket(words.words(), *buckets, prefix);
                bucket.chunks_exact(ENTRY_WORDS).find_map(|entry| read(entry, prefix))
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
            Self::Mapped { words, buckets } => {
                let prefix = prefix_words(digest);
                let bucket = bucket(words.words(), *buckets, prefix);
                write(slot(bucket, prefix, place), prefix, place, mac);
            }
        }
    }
}

fn prefix_words(digest: &ChunkDigest) -> (u64, u64) {
    let prefix = u128::from_le_bytes(digest.prefix());
    let low = u64::try_from(prefix & u128::from(u64::MAX)).expect("masked");
    let high = u64::try_from(prefix >> 64).expect("shifted");
    (low, high)
}

fn bucket(words: &[AtomicU64], buckets: u64, prefix: (u64, u64)) -> &[AtomicU64] {
    let number = (u128::from(prefix.1) * u128::from(buckets)) >> 64;
    let start = usize::try_from(number).expect("below the count of buckets") * BUCKET_WORDS;
    &words[start..start + BUCKET_WORDS]
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
        assert!(matches!(cache, Cache::Mapped { .. }));
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
