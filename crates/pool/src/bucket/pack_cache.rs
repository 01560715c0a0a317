//! Files that a bucket's local folder keeps: whole packs that were written or copied recently, and
//! tables. The store has all of them. The least recently used file is removed first.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use format::pack::Table;
use lru::LruCache;
use model::PackNumber;

use crate::{layout, table_file};

/// Extension of the files of packs.
const PACK: &str = "pack";
/// Size in bytes of the blocks in which the system counts the space of a file.
const STAT_BLOCK_BYTES: u64 = 512;

/// Files of one kind, as many as fit into `bytes_max`.
///
/// Invariant: `bytes` is the sum of `sizes`.
struct FileCache {
    extension: &'static str,
    bytes_max: u64,
    bytes: u64,
    sizes: LruCache<PackNumber, u64>,
}

impl FileCache {
    fn new(extension: &'static str, bytes_max: u64) -> Self {
        Self { extension, bytes_max, bytes: 0, sizes: LruCache::unbounded() }
    }

    fn path(&self, folder: &Path, pack: PackNumber) -> PathBuf {
        layout::path(folder, pack).with_extension(self.extension)
    }

    fn has(&self, pack: PackNumber) -> bool {
        self.sizes.contains(&pack)
    }

    /// Takes note of the pack's file. Removes the least recently used files if all files together
    /// are too large.
    fn add(&mut self, folder: &Path, pack: PackNumber, bytes: u64) {
        self.bytes -= self.sizes.put(pack, bytes).unwrap_or(0);
        self.bytes += bytes;
        while self.bytes > self.bytes_max
            && let Some((oldest, _)) = self.sizes.peek_lru()
        {
            let oldest = *oldest;
            self.remove(folder, oldest);
        }
        assert!(self.bytes <= self.bytes_max, "files above the limit were removed");
    }

    fn remove(&mut self, folder: &Path, pack: PackNumber) {
        self.bytes -= self.sizes.pop(&pack).unwrap_or(0);
        assert!(!self.sizes.is_empty() || self.bytes == 0, "an empty cache has no bytes");
        // If the removal fails, the file is overwritten later, or removed at the next start.
        drop(std::fs::remove_file(self.path(folder, pack)));
    }
}

/// Packs and tables in a bucket's local folder. See the module.
pub(super) struct PackCache {
    folder: PathBuf,
    packs: FileCache,
    tables: FileCache,
}

impl PackCache {
    pub(super) fn new(folder: &Path, bytes_max: u64) -> Self {
        let half = bytes_max / 2;
        Self {
            folder: folder.to_owned(),
            packs: FileCache::new(PACK, half),
            tables: FileCache::new(table_file::EXTENSION, half),
        }
    }

    /// Removes the packs that an earlier process left, and adds the tables that it left to the
    /// cache.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        assert!(
            self.packs.sizes.is_empty() && self.tables.sizes.is_empty(),
            "the cache begins once"
        );
        let subfolders = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listed => listed?,
        };
        for subfolder in subfolders {
            let path = subfolder?.path();
            if !path.is_dir() {
                continue;
            }
            for file in std::fs::read_dir(&path)? {
                let path = file?.path();
                let number = path.file_stem().and_then(layout::stem_number);
                match path.extension().and_then(|extension| extension.to_str()) {
                    Some(PACK | "new") => std::fs::remove_file(&path)?,
                    Some(table_file::EXTENSION) if let Some(pack) = number => {
                        use std::os::unix::fs::MetadataExt as _;
                        let bytes = std::fs::metadata(&path)?.blocks() * STAT_BLOCK_BYTES;
                        self.tables.add(&self.folder, pack, bytes);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Takes note of a pack's file in the folder.
    pub(super) fn add(&mut self, pack: PackNumber, bytes: u64) {
        self.packs.add(&self.folder, pack, bytes);
    }

    pub(super) fn has(&self, pack: PackNumber) -> bool {
        self.packs.has(pack)
    }

    pub(super) fn file(&mut self, pack: PackNumber) -> Option<File> {
        self.packs.sizes.get(&pack)?;
        File::open(self.packs.path(&self.folder, pack)).ok()
    }

    pub(super) fn forget(&mut self, pack: PackNumber) {
        self.packs.remove(&self.folder, pack);
        self.tables.remove(&self.folder, pack);
    }

    pub(super) fn has_table(&self, pack: PackNumber) -> bool {
        self.tables.has(pack)
    }

    pub(super) fn table(&mut self, pack: PackNumber) -> Option<Table> {
        self.tables.sizes.get(&pack)?;
        table_file::read(&self.folder, pack)
    }

    pub(super) fn add_table(&mut self, table: &Table) {
        if self.tables.bytes_max == 0 {
            return;
        }
        match table_file::write(&self.folder, table) {
            Ok(()) => {
                let bytes = table.encode_footer().len() as u64;
                self.tables.add(&self.folder, table.pack, bytes);
            }
            // The table is read from the pack again.
            Err(error) => {
                tracing::warn!(pack = %table.pack, %error, "cannot keep the table of a pack");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_was_not_used_for_longest_goes_first() {
        let scratch = tempfile::tempdir().unwrap();
        let mut cache = PackCache::new(scratch.path(), 60);
        let pack = |number| PackNumber(number);
        let write = |number| {
            let path = layout::make_for(scratch.path(), pack(number)).unwrap();
            std::fs::write(path, [1; 10]).unwrap();
        };
        for number in 1..=3 {
            write(number);
            cache.add(pack(number), 10);
        }
        assert!(cache.file(pack(1)).is_some());
        write(4);
        cache.add(pack(4), 10);
        assert!(cache.file(pack(2)).is_none() && !cache.has(pack(2)));
        assert!(!layout::path(scratch.path(), pack(2)).try_exists().unwrap());
        assert!(cache.file(pack(1)).is_some() && cache.file(pack(4)).is_some());
        cache.forget(pack(1));
        assert!(cache.file(pack(1)).is_none());
        // After a restart the cache has no packs.
        let mut cache = PackCache::new(scratch.path(), 60);
        cache.begin().unwrap();
        assert!(!cache.has(pack(4)));
        assert!(!layout::path(scratch.path(), pack(4)).try_exists().unwrap());
    }

    #[test]
    fn a_file_that_is_larger_than_all_room_is_not_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let mut cache = PackCache::new(scratch.path(), 60);
        cache.add(PackNumber(1), 31);
        assert!(!cache.has(PackNumber(1)));
        cache.add(PackNumber(2), 30);
        cache.add(PackNumber(2), 20);
        assert!(cache.has(PackNumber(2)) && cache.packs.bytes == 20);
    }
}
