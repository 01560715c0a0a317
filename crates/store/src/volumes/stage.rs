//! The stage: packs that were read from volumes stay on the server's disk while there is room, so
//! that they need not be read again.
//!
//! A pack may lie on several volumes in parts, which arrive in any order. The pack appears after
//! all its parts have arrived, so that every reader sees a whole pack. When the stage is full, the
//! pack that was used longest ago is dropped first.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::lock::{Mutex, MutexGuard};

use model::PackNumber;

pub(crate) struct Stage {
    folder: PathBuf,
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    staged: HashMap<PackNumber, StagedPack>,
    coming: HashMap<PackNumber, Arrival>,
    /// Total size of the packs in `staged`.
    bytes: u64,
    /// Number of uses of packs so far.
    uses: u64,
}

/// A whole pack on the stage.
#[derive(Clone, Copy)]
struct StagedPack {
    bytes: u64,
    /// Value of `State::uses` at the last use of the pack.
    last_use: u64,
    came: Instant,
    was_used: bool,
}

/// A pack of which parts are still missing.
struct Arrival {
    /// Size of the whole pack.
    bytes: u64,
    /// Sizes of the parts that have arrived, by their offsets.
    parts: BTreeMap<u64, u64>,
}

impl Arrival {
    /// Returns true after all parts have arrived. Parts of different copies may overlap.
    fn is_whole(&self) -> bool {
        let reach = |end: u64, (offset, bytes): (&u64, &u64)| {
            if *offset <= end { end.max(offset + bytes) } else { end }
        };
        self.parts.iter().fold(0, reach) >= self.bytes
    }
}

impl Stage {
    /// Opens the stage, and removes all packs from its folder.
    pub(crate) fn open(folder: PathBuf, bytes_max: u64) -> io::Result<Self> {
        // The folder may be a mount point with a disk of its own, or a link to another folder.
        match sys::durable::create_dir(&folder, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            if is_staged_name(&entry.file_name()) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(Self { folder, bytes_max, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn path(&self, pack: PackNumber) -> PathBuf {
        self.folder.join(format!("{:010}.pack", pack.0))
    }

    /// Returns the maximum size of the stage. The pack that arrived last may exceed it.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Opens the pack, if it is on the stage.
    pub(crate) fn open_pack(&self, pack: PackNumber) -> Option<File> {
        let mut state = self.state();
        state.uses += 1;
        let uses = state.uses;
        let staged = state.staged.get_mut(&pack)?;
        (staged.last_use, staged.was_used) = (uses, true);
        File::open(self.path(pack)).ok()
    }

    pub(crate) fn has(&self, pack: PackNumber) -> bool {
        self.state().staged.contains_key(&pack)
    }

    /// Returns the time for which the pack has been on the stage without a use. Returns `None` for
    /// a pack that was used or is not on the stage.
    pub(crate) fn idle_for(&self, pack: PackNumber) -> Option<Duration> {
        let state = self.state();
        let staged = state.staged.get(&pack).filter(|staged| !staged.was_used)?;
        Some(staged.came.elapsed())
    }

    /// Begins to write the part at `offset` of a pack, which has `bytes` bytes in all.
    pub(crate) fn begin(
        self: &Arc<Self>,
        pack: PackNumber,
        bytes: u64,
        offset: u64,
    ) -> io::Result<StagePart> {
        let path = self.path(pack).with_extension("coming");
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        file.seek(SeekFrom::Start(offset))?;
        let fresh = || Arrival { bytes, parts: BTreeMap::new() };
        self.state().coming.entry(pack).or_insert_with(fresh).parts.remove(&offset);
        Ok(StagePart {
            stage: Arc::clone(self),
            pack,
            offset,
            written: 0,
            path,
            file,
            is_given_up: false,
        })
    }

    /// Notes that a part has arrived. After the last part the pack is on the stage.
    fn arrive(&self, pack: PackNumber, offset: u64, bytes: u64, from: &Path) -> io::Result<()> {
        let mut state = self.state();
        let Some(coming) = state.coming.get_mut(&pack) else { return Ok(()) };
        coming.parts.insert(offset, bytes);
        if !coming.is_whole() {
            return Ok(());
        }
        let total = coming.bytes;
        state.coming.remove(&pack);
        std::fs::rename(from, self.path(pack))?;
        state.uses += 1;
        let (last_use, came) = (state.uses, sys::clock::monotonic());
        let staged = StagedPack { bytes: total, last_use, came, was_used: false };
        let before = state.staged.insert(pack, staged);
        state.bytes += total;
        state.bytes -= before.map_or(0, |before| before.bytes);
        self.make_room(&mut state, pack);
        debug_assert_eq!(
            state.bytes,
            state.staged.values().map(|staged| staged.bytes).sum::<u64>()
        );
        Ok(())
    }

    /// Drops the packs that were used longest ago, until the stage is small enough.
    fn make_room(&self, state: &mut State, newest: PackNumber) {
        while state.bytes > self.bytes_max {
            let others = state.staged.iter().filter(|(pack, _)| **pack != newest);
            let oldest = others.min_by_key(|(_, staged)| staged.last_use).map(|(pack, _)| *pack);
            let Some(oldest) = oldest else { return };
            self.drop_pack(state, oldest);
        }
    }

    /// Drops the pack that was used longest ago. Returns false if the stage is empty.
    fn drop_oldest(&self) -> bool {
        let mut state = self.state();
        let oldest = state.staged.iter().min_by_key(|(_, staged)| staged.last_use);
        let Some(oldest) = oldest.map(|(pack, _)| *pack) else { return false };
        self.drop_pack(&mut state, oldest);
        true
    }

    fn drop_pack(&self, state: &mut State, pack: PackNumber) {
        let Some(staged) = state.staged.remove(&pack) else { return };
        assert!(staged.bytes <= state.bytes, "each staged pack is counted");
        state.bytes -= staged.bytes;
        if let Err(error) = std::fs::remove_file(self.path(pack)) {
            tracing::warn!(%pack, %error, "the file of a staged pack is removed at the next start");
        }
    }

    /// Drops the pack, because it is damaged or nothing needs it any more.
    pub(crate) fn forget(&self, pack: PackNumber) {
        let mut state = self.state();
        self.drop_pack(&mut state, pack);
    }
}

/// Returns true for the name of a file that the stage has made.
fn is_staged_name(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(b".pack") || name.ends_with(b".coming")
}

/// A part of a pack that is written to the stage.
pub(crate) struct StagePart {
    stage: Arc<Stage>,
    pack: PackNumber,
    offset: u64,
    written: u64,
    path: PathBuf,
    file: File,
    /// True after a write has failed.
    is_given_up: bool,
}

impl Drop for StagePart {
    fn drop(&mut self) {
        // The file is removed to free its space. Otherwise the next attempt would fail too.
        if self.is_given_up
            && let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the file of an incomplete pack is removed at the next start");
        }
    }
}

impl Write for StagePart {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = loop {
            match self.file.write(bytes) {
                // Older packs make room for the pack that is needed now.
                Err(error)
                    if error.kind() == io::ErrorKind::StorageFull && self.stage.drop_oldest() => {}
                Err(error) => {
                    self.is_given_up = true;
                    self.stage.state().coming.remove(&self.pack);
                    return Err(error);
                }
                Ok(count) => break count,
            }
        };
        self.written += count as u64;
        Ok(count)
    }

    /// Ends the part. The caller calls this once, after the last byte.
    fn flush(&mut self) -> io::Result<()> {
        self.stage.arrive(self.pack, self.offset, self.written, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(folder: &Path, bytes_max: u64) -> Arc<Stage> {
        Arc::new(Stage::open(folder.join("stage"), bytes_max).expect("a folder"))
    }

    fn put(stage: &Arc<Stage>, pack: u64, total: u64, offset: u64, bytes: &[u8]) {
        let part = stage.begin(PackNumber(pack), total, offset);
        let mut part = part.expect("a file");
        part.write_all(bytes).expect("room");
        part.flush().expect("whole");
    }

    fn content(stage: &Stage, pack: u64) -> Option<String> {
        stage
            .open_pack(PackNumber(pack))
            .map(|file| io::read_to_string(file).expect("text"))
    }

    #[test]
    fn a_pack_is_there_once_all_its_parts_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = stage(folder.path(), 100);
        put(&stage, 1, 6, 4, b"ef");
        assert_eq!(content(&stage, 1), None);
        put(&stage, 1, 6, 0, b"abcd");
        assert_eq!(content(&stage, 1).as_deref(), Some("abcdef"));
    }

    #[test]
    fn a_part_that_is_read_again_counts_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = stage(folder.path(), 100);
        put(&stage, 1, 6, 0, b"abc");
        put(&stage, 1, 6, 0, b"abc");
        assert_eq!(content(&stage, 1), None);
        put(&stage, 1, 6, 3, b"def");
        assert_eq!(content(&stage, 1).as_deref(), Some("abcdef"));
    }

    #[test]
    fn parts_of_copies_that_are_cut_elsewhere_do_not_make_up_for_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = stage(folder.path(), 100);
        put(&stage, 1, 6, 2, b"cdef");
        put(&stage, 1, 6, 3, b"def");
        assert_eq!(content(&stage, 1), None);
        put(&stage, 1, 6, 0, b"abc");
        assert_eq!(content(&stage, 1).as_deref(), Some("abcdef"));
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = stage(folder.path(), 6);
        put(&stage, 1, 3, 0, b"abc");
        put(&stage, 2, 3, 0, b"def");
        assert!(content(&stage, 1).is_some());
        put(&stage, 3, 3, 0, b"ghi");
        assert_eq!(content(&stage, 2), None);
        assert_eq!(content(&stage, 1).as_deref(), Some("abc"));
        put(&stage, 4, 60, 0, &[b'x'; 60]);
        assert_eq!((content(&stage, 1), stage.has(PackNumber(4))), (None, true));
        stage.forget(PackNumber(4));
        assert_eq!(stage.state().bytes, 0);
    }
}
