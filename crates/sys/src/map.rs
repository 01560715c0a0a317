//! A file seen as words of memory, shared by all threads: the client's cache of grants.
//!
//! Nothing is durable by itself and nothing is atomic beyond one word, so a reader has to check the
//! content. The file is sparse: as for any mapping, writing to one of its pages on a full file
//! system ends the process with `SIGBUS`.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::slice;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapRaw, UncheckedAdvice};

use crate::durable::Lock;

/// A file of exactly `word_count` words, mapped for reading and writing by this process alone.
///
/// Invariant: the mapping is `word_count * 8` bytes long, for as long as `_lock` is held.
#[derive(Debug)]
pub struct MappedWords {
    map: MmapRaw,
    word_count: usize,
    _lock: Lock,
}

impl MappedWords {
    /// Maps the file at `path`, which is created if necessary. A file of another size is emptied
    /// first: then all words are zero. `WouldBlock` means that another process has it mapped.
    pub fn open(path: &Path, word_count: usize) -> io::Result<Self> {
        assert!(word_count > 0, "an empty file cannot be mapped");
        let bytes = word_count.checked_mul(size_of::<u64>()).ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = bytes as u64;
        let lock = Lock::try_exclusive(path)?.ok_or(io::ErrorKind::WouldBlock)?;
        if lock.file().metadata()?.len() != bytes {
            lock.file().set_len(0)?;
            lock.file().set_len(bytes)?;
        }
        let map = MmapRaw::map_raw(lock.file())?;
        assert_eq!(map.len() as u64, bytes, "a locked file keeps its size");
        Ok(Self { map, word_count, _lock: lock })
    }

    pub fn words(&self) -> &[AtomicU64] {
        let first = self.map.as_mut_ptr().cast::<AtomicU64>();
        assert!(first.is_aligned(), "mappings start at a page");
        // SAFETY: the mapping is writable, aligned, `word_count * 8` bytes long (see the type) and
        // lives as long as `self`. Every bit pattern is a valid AtomicU64, and all access in this
        // process is through these atomics. The lock keeps other Holdfast processes from mapping or
        // truncating the file; a program that ignores locks could make an access end in SIGBUS.
        unsafe { slice::from_raw_parts(first, self.word_count) }
    }

    /// Takes the pages of `words` out of the memory of this process. Their content stays in the
    /// file: the next access to a page maps it again.
    pub fn release(&self, words: Range<usize>) {
        assert!(words.start <= words.end && words.end <= self.word_count, "words of the mapping");
        let (start, bytes) = (words.start * size_of::<u64>(), words.len() * size_of::<u64>());
        // SAFETY: the range is within the mapping. The mapping is shared with its file, so the
        // kernel keeps what was written to the pages, and a later access finds the same content.
        let released =
            unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, bytes) };
        // Pages that the kernel does not release only take memory.
        drop(released);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn words_live_in_the_file_until_its_size_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let words = MappedWords::open(&path, 1 << 20).unwrap();
        assert!(std::fs::metadata(&path).unwrap().blocks() < 64, "the file is sparse");
        words.words()[(1 << 20) - 1].store(7, Relaxed);
        drop(words);
        let words = MappedWords::open(&path, 1 << 20).unwrap();
        assert_eq!(words.words()[(1 << 20) - 1].load(Relaxed), 7);
        drop(words);
        for word_count in [(1 << 20) + 1, 1 << 20] {
            let words = MappedWords::open(&path, word_count).unwrap();
            assert_eq!(words.words().len(), word_count);
            assert!(words.words().iter().all(|word| word.load(Relaxed) == 0));
            words.words()[5].store(1, Relaxed);
        }
    }

    /// Returns the resident bytes of the mapping of `path` in this process.
    fn resident_bytes(path: &Path) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let path = path.to_str().unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.ends_with(path));
        let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        resident.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    #[test]
    fn released_words_leave_the_memory_and_stay_in_the_file() {
        const WORDS: usize = 1 << 19;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let map = MappedWords::open(&path, WORDS).unwrap();
        map.words().iter().zip(1..).for_each(|(word, value)| word.store(value, Relaxed));
        map.release(WORDS / 4..WORDS);
        let bytes = (WORDS * size_of::<u64>()) as u64;
        assert!(resident_bytes(&path) <= bytes / 4);
        map.release(3..3);
        let holds_all = |map: &MappedWords| {
            map.words().iter().zip(1..).all(|(word, value)| word.load(Relaxed) == value)
        };
        assert!(holds_all(&map));
        map.release(0..WORDS);
        drop(map);
        assert!(holds_all(&MappedWords::open(&path, WORDS).unwrap()));
    }

    #[test]
    fn a_second_holder_is_told_to_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let held = MappedWords::open(&path, 8).unwrap();
        held.words()[0].store(3, Relaxed);
        let refused = MappedWords::open(&path, 16).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(held.words()[0].load(Relaxed), 3, "the loser must not resize the file");
    }
}
