//! What a bucket's folder keeps: whole packs that were written or copied lately, and tables. All of
//! it can be asked for again; what was not used for longest goes first.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use format::pack::Table;
use model::PackNumber;

use crate::folder;
use crate::shelf;

/// Files of one kind, as many as their bytes allow.
struct Files {
    extension: &'static str,
    bytes_max: u64,
    bytes: u64,
    /// With their bytes and the turn at which they were used last.
    known: HashMap<PackNumber, (u64, u64)>,
    turns: BTreeMap<u64, PackNumber>,
    last_turn: u64,
}

impl Files {
    fn new(extension: &'static str, bytes_max: u64) -> Self {
        let (known, turns) = (HashMap::new(), BTreeMap::new());
        Self { extension, bytes_max, bytes: 0, known, turns, last_turn: 0 }
    }

    fn path(&self, folder: &Path, pack: PackNumber) -> PathBuf {
        folder::path(folder, pack).with_extension(self.extension)
    }

    fn use_now(&mut self, pack: PackNumber) {
        if let Some((_, turn)) = self.known.get_mut(&pack) {
            self.turns.remove(turn);
            self.last_turn += 1;
            *turn = self.last_turn;
            self.turns.insert(self.last_turn, pack);
        }
    }

    /// The pack's file is there now; others go where there are too many.
    fn add(&mut self, folder: &Path, pack: PackNumber, bytes: u64) {
        self.drop_known(pack);
        self.last_turn += 1;
        self.known.insert(pack, (bytes, self.last_turn));
        self.turns.insert(self.last_turn, pack);
        self.bytes += bytes;
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.turns.first_key_value()
        {
            self.remove(folder, *oldest);
        }
    }

    fn drop_known(&mut self, pack: PackNumber) {
        if let Some((bytes, turn)) = self.known.remove(&pack) {
            self.bytes -= bytes;
            self.turns.remove(&turn);
        }
    }

    fn remove(&mut self, folder: &Path, pack: PackNumber) {
        self.drop_known(pack);
        // One that stays is written over, or goes with the next start.
        drop(std::fs::remove_file(self.path(folder, pack)));
    }
}

/// See the module.
pub(super) struct Kept {
    folder: PathBuf,
    packs: Files,
    tables: Files,
}

impl Kept {
    pub(super) fn new(folder: &Path, bytes_max: u64) -> Self {
        let half = bytes_max / 2;
        let (packs, tables) = (Files::new("pack", half), Files::new("table", half));
        Self { folder: folder.to_owned(), packs, tables }
    }

    /// Removes what is left of packs from before, and takes in the tables.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let found = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        for of_thousand in found {
            let path = of_thousand?.path();
            if !path.is_dir() {
                continue;
            }
            for file in std::fs::read_dir(&path)? {
                let path = file?.path();
                let number = path.file_stem().and_then(folder::stem_number);
                match path.extension().and_then(|extension| extension.to_str()) {
                    Some("pack" | "new") => std::fs::remove_file(&path)?,
                    Some("table") if let Some(pack) = number => {
                        use std::os::unix::fs::MetadataExt as _;
                        let bytes = std::fs::metadata(&path)?.blocks() * 512;
                        self.tables.add(&self.folder, pack, bytes);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, pack: PackNumber, bytes: u64) {
        self.packs.add(&self.folder, pack, bytes);
    }

    pub(super) fn has(&self, pack: PackNumber) -> bool {
        self.packs.known.contains_key(&pack)
    }

    pub(super) fn file(&mut self, pack: PackNumber) -> Option<File> {
        if !self.has(pack) {
            return None;
        }
        self.packs.use_now(pack);
        File::open(self.packs.path(&self.folder, pack)).ok()
    }

    pub(super) fn forget(&mut self, pack: PackNumber) {
        self.packs.remove(&self.folder, pack);
        self.tables.remove(&self.folder, pack);
    }

    pub(super) fn has_table(&self, pack: PackNumber) -> bool {
        self.tables.known.contains_key(&pack)
    }

    pub(super) fn table(&mut self, pack: PackNumber) -> Option<Table> {
        if !self.has_table(pack) {
            return None;
        }
        self.tables.use_now(pack);
        shelf::kept_table(&self.folder, pack)
    }

    pub(super) fn add_table(&mut self, table: &Table) {
        if self.tables.bytes_max == 0 {
            return;
        }
        match shelf::keep_table(&self.folder, table) {
            Ok(()) => {
                let bytes = table.encode_footer().len() as u64;
                self.tables.add(&self.folder, table.pack, bytes);
            }
            // It is asked for again.
            Err(error) => tracing::warn!(pack = %table.pack, %error, "a table cannot be kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let scratch = tempfile::tempdir().unwrap();
        let mut kept = Kept::new(scratch.path(), 60);
        let pack = |number| PackNumber(number);
        let write = |number| {
            let path = folder::make_for(scratch.path(), pack(number)).unwrap();
            std::fs::write(path, [1; 10]).unwrap();
        };
        for number in 1..=3 {
            write(number);
            kept.add(pack(number), 10);
        }
        assert!(kept.file(pack(1)).is_some());
        write(4);
        kept.add(pack(4), 10);
        assert!(kept.file(pack(2)).is_none() && !kept.has(pack(2)));
        assert!(!folder::path(scratch.path(), pack(2)).try_exists().unwrap());
        assert!(kept.file(pack(1)).is_some() && kept.file(pack(4)).is_some());
        kept.forget(pack(1));
        assert!(kept.file(pack(1)).is_none());
        // A new start knows none of them.
        let mut kept = Kept::new(scratch.path(), 60);
        kept.begin().unwrap();
        assert!(!kept.has(pack(4)));
        assert!(!folder::path(scratch.path(), pack(4)).try_exists().unwrap());
    }
}
