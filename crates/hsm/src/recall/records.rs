//! Records of files with new content that may not be on the disk yet.
//!
//! The record of a file names each grain as soon as it has arrived, but is valid only until the
//! machine restarts. After the content has reached the disk, [`Records::catch_up`] writes the
//! lasting record. If the machine stops in between, the file has holes, which are filled again.
//!
//! Each of these records keeps its file open, so that the content cannot be removed meanwhile.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use format::stub::{Grains, STUB_ATTRIBUTE, State, Stub, SyncState};
use sys::ObjectStatus;
use sys::lock::Mutex;
use sys::space::SpaceFile;

use crate::fill::{FillError, is_for_want_of_room};
use crate::mount::{FileId, Mount};
use crate::record::{self, FoundRecord};

/// Maximum number of bytes that are recalled beyond a need, for a program that reads sequentially.
const AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Number of unsynced records above which a thread catches up before it recalls further files.
const UNSYNCED_MAX: usize = 8192;

/// A record that is valid only until the machine restarts.
struct UnsyncedRecord {
    stub: Stub,
    file: Arc<SpaceFile>,
    /// Offset at which a program that reads sequentially would need content next.
    next: u64,
    /// Number of bytes that were recalled beyond the last need.
    ahead_bytes: u64,
}

impl UnsyncedRecord {
    /// Number of bytes to recall beyond `part`. The number doubles each time a program continues to
    /// read sequentially.
    fn ahead(&mut self, part: &Range<u64>) -> u64 {
        let is_in_order = part.start == self.next && part.start > 0;
        let length = part.end - part.start;
        self.ahead_bytes =
            if is_in_order { (self.ahead_bytes.max(length) * 2).min(AHEAD_BYTES_MAX) } else { 0 };
        self.next = part.end + self.ahead_bytes;
        self.ahead_bytes
    }
}

/// The unsynced records. See the module.
#[derive(Default)]
pub(super) struct Records {
    unsynced: Mutex<HashMap<FileId, UnsyncedRecord>>,
    /// Lock held while lasting records are written, because two threads that sync at once save no
    /// time.
    catching_up: Mutex<()>,
}

impl Records {
    /// The present record of a file. An unsynced record is newer than the record in the file.
    ///
    /// If a file was truncated, the part of its copy beyond the new end counts as resident. If the
    /// file is extended later, its new part does not come from the copy. Nothing is noted while it
    /// is doubtful whether the present end is the lowest that the file had.
    ///
    /// `mount` is the managed file system of the file; `None` if there is none.
    pub(super) fn current(
        &self,
        id: FileId,
        file: &Arc<SpaceFile>,
        found: &ObjectStatus,
        mount: Option<&Mount>,
    ) -> io::Result<Option<Stub>> {
        let unsynced = self.unsynced.lock().get(&id).map(|record| record.stub.clone());
        let stub = match unsynced {
            Some(stub) => Some(stub),
            None => match mount {
                Some(mount) => own_record(file, mount)?,
                None => record::read(&**file)?,
            },
        };
        let Some(mut stub) = stub else { return Ok(None) };
        if found.stat.size < stub.size && !record::is_doubtful(&found.stat, file.accessed()?, &stub)
        {
            self.note_cut(id, file, &mut stub, found.stat.size)?;
        }
        Ok(Some(stub))
    }

    /// Notes that the part of the copy beyond `size`, the present end of the file, is resident.
    fn note_cut(
        &self,
        id: FileId,
        file: &Arc<SpaceFile>,
        stub: &mut Stub,
        size: u64,
    ) -> io::Result<()> {
        let State::Migrated(grains) = &mut stub.state else { return Ok(()) };
        let cut = size.next_multiple_of(format::stub::grain_bytes(stub.size))..stub.size;
        if grains.missing(&cut).is_empty() {
            return Ok(());
        }
        let synced = grains.clone();
        grains.set(&cut);
        stub.was_recalled = true;
        self.note(id, file, stub, synced)
    }

    /// Prepares the file with the record `stub` for being filled. Returns the record, which may be
    /// a new one. Fails if the file may have zeros of its own where content seems to be missing.
    pub(super) fn begin_filling(
        &self,
        id: FileId,
        file: &SpaceFile,
        stub: Stub,
    ) -> Result<Stub, FillError> {
        self.note_use(id, file, stub)?.ok_or(FillError::Doubtful)
    }

    /// Notes that the file may be changed from now on, so that its size and times prove nothing.
    /// Returns the present record; `None` if they show a change that nobody was asked about, which
    /// stays visible. Changes nothing if the file system has no room for that: whatever needs the
    /// note makes room, or fails for want of it.
    pub(super) fn note_use(
        &self,
        id: FileId,
        file: &SpaceFile,
        mut stub: Stub,
    ) -> io::Result<Option<Stub>> {
        if !record::shows_changes(&stub) {
            return Ok(Some(stub));
        }
        if record::is_doubtful(&file.stat()?.stat, file.accessed()?, &stub) {
            return Ok(None);
        }
        let mut unsynced = self.unsynced.lock();
        let mut known = unsynced.get_mut(&id);
        if let Some(known) = &known {
            stub = known.stub.clone();
        }
        let noted = Stub { was_recalled: true, ..stub.clone() };
        match record::write(file, &noted) {
            Err(error) if is_for_want_of_room(&error) => return Ok(Some(stub)),
            written => written?,
        }
        if let Some(known) = &mut known {
            known.stub = noted.clone();
        }
        Ok(Some(noted))
    }

    /// Notes that `part`, of whole grains, has arrived in the file with the record `stub`.
    pub(super) fn note_part(
        &self,
        id: FileId,
        file: &Arc<SpaceFile>,
        mut stub: Stub,
        part: &Range<u64>,
    ) -> io::Result<()> {
        let State::Migrated(grains) = &mut stub.state else { return Ok(()) };
        let synced = grains.clone();
        grains.set(part);
        stub.was_recalled = true;
        self.note(id, file, &mut stub, synced)
    }

    /// Writes a record with new grains that may not be on the disk; `synced` are the grains that
    /// are on the disk.
    fn note(
        &self,
        id: FileId,
        file: &Arc<SpaceFile>,
        stub: &mut Stub,
        synced: Grains,
    ) -> io::Result<()> {
        stub.unsynced.get_or_insert(SyncState { boot: record::boot(), synced });
        // The record is written under the lock, as in `write_for_good`, so that the record that is
        // written last is the newest.
        let mut unsynced = self.unsynced.lock();
        record::write(file, stub)?;
        match unsynced.get_mut(&id) {
            Some(known) => known.stub = stub.clone(),
            None => {
                let (stub, file) = (stub.clone(), Arc::clone(file));
                unsynced.insert(id, UnsyncedRecord { stub, file, next: 0, ahead_bytes: 0 });
            }
        }
        Ok(())
    }

    /// Number of bytes to recall beyond `part` of the file.
    pub(super) fn ahead(&self, id: FileId, part: &Range<u64>) -> u64 {
        self.unsynced.lock().get_mut(&id).map_or(0, |record| record.ahead(part))
    }

    pub(super) fn contains(&self, id: FileId) -> bool {
        self.unsynced.lock().contains_key(&id)
    }

    /// True if the number of unsynced records is so high that no more files should be opened.
    pub(super) fn are_many(&self) -> bool {
        self.unsynced.lock().len() > UNSYNCED_MAX
    }

    /// Syncs the file systems, then writes the unsynced records as lasting records. A record of a
    /// file for which `is_wanted` holds stays in memory, because more content is about to arrive.
    pub(super) fn catch_up(&self, mounts: &[Arc<Mount>], is_wanted: &dyn Fn(FileId) -> bool) {
        let _held = self.catching_up.lock();
        let unsynced: Vec<(FileId, Arc<SpaceFile>, Stub)> = self
            .unsynced
            .lock()
            .iter()
            .map(|(id, record)| (*id, Arc::clone(&record.file), record.stub.clone()))
            .collect();
        for mount in mounts {
            let of_mount = unsynced.iter().filter(|(id, ..)| id.device_id == mount.device_id);
            let of_mount: Vec<_> = of_mount.collect();
            let Some((_, any, _)) = of_mount.first() else { continue };
            if let Err(error) = sys::space::sync_filesystem(&**any) {
                let mount_point = model::escaped(mount.mount_point());
                tracing::error!(mount_point, %error, "cannot sync the file system");
                continue;
            }
            for (id, file, stub) in of_mount {
                self.write_for_good(*id, file, stub, is_wanted);
            }
        }
    }

    /// Writes the lasting record of a file whose content was synced, unless more content has
    /// arrived since.
    fn write_for_good(
        &self,
        id: FileId,
        file: &SpaceFile,
        stub: &Stub,
        is_wanted: &dyn Fn(FileId) -> bool,
    ) {
        let mut unsynced = self.unsynced.lock();
        if unsynced.get(&id).is_none_or(|record| record.stub != *stub) {
            return;
        }
        if let Err(error) = record::write(file, &record::synced(stub)) {
            tracing::error!(%error, "cannot write the record of a file");
        } else if !is_wanted(id) {
            unsynced.remove(&id);
        }
    }
}

/// The record in a file, if it describes the file. The record of another file is removed.
fn own_record(file: &SpaceFile, mount: &Mount) -> io::Result<Option<Stub>> {
    let found = record::find(file, &mount.filesystem)?;
    if let FoundRecord::Copied(_) = found
        && let Err(error) = file.remove_attribute(STUB_ATTRIBUTE)
    {
        // The record stays without effect.
        tracing::warn!(%error, "cannot remove the record of another file");
    }
    Ok(found.own())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use format::stub::Bearer;
    use model::{BatchId, CopyId, Timestamp};

    use super::*;
    use crate::FilesystemSettings;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_program_that_reads_in_order_gets_twice_as_much_each_time() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), b"").unwrap();
        let dir = sys::Dir::open(folder.path().as_os_str().as_bytes()).unwrap();
        let file = Arc::new(SpaceFile::open(&dir, b"f").unwrap());
        let mut record = UnsyncedRecord { stub: stub(100 * MIB), file, next: 0, ahead_bytes: 0 };
        assert_eq!(record.ahead(&(0..MIB)), 0, "the beginning is read by everybody");
        assert_eq!(record.ahead(&(MIB..2 * MIB)), 2 * MIB);
        assert_eq!(record.ahead(&(4 * MIB..5 * MIB)), 4 * MIB);
        assert_eq!(record.ahead(&(50 * MIB..51 * MIB)), 0, "it went elsewhere");
        assert_eq!(record.ahead(&(51 * MIB..90 * MIB)), AHEAD_BYTES_MAX);
    }

    fn stub(size: u64) -> Stub {
        record::emptied(Stub {
            state: State::Premigrated,
            was_recalled: false,
            copy: CopyId { batch: BatchId(1), index: 0 },
            size,
            mtime: Timestamp::default(),
            content: [0; 16],
            bearer: None,
            unsynced: None,
        })
    }

    /// An empty stub of 4 MiB on a real file system.
    struct Scene {
        _folder: tempfile::TempDir,
        mount: Arc<Mount>,
        file: Arc<SpaceFile>,
        records: Records,
    }

    impl Scene {
        /// `None` if the test needs root and does not run as root.
        fn new() -> Option<Self> {
            if !sys::process::is_root() {
                return None;
            }
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("f");
            std::fs::File::create(path).unwrap().set_len(4 * MIB).unwrap();
            let settings = FilesystemSettings::new(folder.path().as_os_str().as_bytes().to_vec());
            let mount = Arc::new(Mount::open(settings).unwrap());
            let file = Arc::new(SpaceFile::open(&mount.root().unwrap(), b"f").unwrap());
            record::write(&file, &stub(4 * MIB)).unwrap();
            Some(Self { _folder: folder, mount, file, records: Records::default() })
        }

        fn id(&self) -> FileId {
            FileId::of(&self.file.stat().unwrap())
        }

        fn current(&self) -> Stub {
            self.find().unwrap()
        }

        fn find(&self) -> Option<Stub> {
            let found = self.file.stat().unwrap();
            self.records.current(self.id(), &self.file, &found, Some(&self.mount)).unwrap()
        }

        fn note(&self, part: Range<u64>) {
            self.records.note_part(self.id(), &self.file, self.current(), &part).unwrap();
        }

        fn catch_up(&self, is_wanted: bool) {
            self.records.catch_up(std::slice::from_ref(&self.mount), &|_| is_wanted);
        }

        /// The grains that would be left after a stop of the machine.
        fn synced(&self) -> Grains {
            let bytes = self.file.attribute::<8192>(STUB_ATTRIBUTE).unwrap().unwrap();
            match Stub::decode(&bytes).unwrap().as_of(record::boot() ^ 1).state {
                State::Migrated(grains) => grains,
                State::Premigrated => panic!("it is whole"),
            }
        }
    }

    #[test]
    fn content_counts_after_a_stop_of_the_machine_only_once_it_was_synced() {
        let Some(scene) = Scene::new() else { return };
        scene.note(0..MIB);
        assert!(scene.records.contains(scene.id()));
        assert_eq!(scene.synced().missing(&(0..MIB)).first(), Some(&(0..MIB)));
        scene.catch_up(true);
        assert!(scene.synced().missing(&(0..MIB)).is_empty());
        assert!(scene.records.contains(scene.id()), "more is about to come");
        scene.note(MIB..2 * MIB);
        assert_eq!(scene.synced().missing(&(0..2 * MIB)).first(), Some(&(0..2 * MIB)));
        scene.catch_up(false);
        assert!(!scene.records.contains(scene.id()), "it would keep the file open for ever");
    }

    #[test]
    fn a_whole_file_becomes_premigrated_when_it_was_synced() {
        let Some(scene) = Scene::new() else { return };
        scene.note(0..4 * MIB);
        assert!(matches!(scene.current().state, State::Migrated(_)));
        scene.catch_up(false);
        let stub = scene.current();
        assert_eq!((stub.state, stub.was_recalled), (State::Premigrated, true));
    }

    #[test]
    fn the_record_of_another_file_is_removed_from_a_file_with_its_content() {
        let Some(scene) = Scene::new() else { return };
        let bearer = Some(Bearer::of(&[9; 16], b"other"));
        record::write(&scene.file, &Stub { bearer, ..stub(4 * MIB) }).unwrap();
        assert!(scene.find().is_some(), "it has holes, so it may be a stub");
        scene.file.write_at(&[1; 4 << 20], 0).unwrap();
        assert_eq!(scene.find(), None);
        assert_eq!(scene.file.attribute::<8192>(STUB_ATTRIBUTE).unwrap(), None);
    }

    /// Sets the size of the file as a client of an NFS server does: nobody is asked.
    fn resize(scene: &Scene, bytes: u64) {
        let path = scene._folder.path().join("f");
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(bytes).unwrap();
    }

    /// A stub of 4 MiB that was last changed and used long ago, and whose record names it.
    fn old_stub(scene: &Scene) -> Stub {
        let old = Timestamp { secs: 1_000_000_000, nanos: 0 };
        scene.file.set_times(Some(old), old).unwrap();
        let bearer = Some(record::bearer(&scene.mount.filesystem, &*scene.file).unwrap());
        let stub = Stub { bearer, mtime: old, ..stub(4 * MIB) };
        record::write(&scene.file, &stub).unwrap();
        stub
    }

    #[test]
    fn a_stub_that_was_cut_and_lengthened_unasked_is_not_filled() {
        let Some(scene) = Scene::new() else { return };
        let begin = || scene.records.begin_filling(scene.id(), &scene.file, scene.current());
        old_stub(&scene);
        resize(&scene, 0);
        resize(&scene, 4 * MIB);
        assert!(matches!(begin(), Err(FillError::Doubtful)));
        scene.records.note_use(scene.id(), &scene.file, scene.current()).unwrap();
        assert!(matches!(begin(), Err(FillError::Doubtful)), "a later use clears no doubt");
        assert!(!scene.current().was_recalled, "the next try fails too");
        // Somebody vouches for the file by setting the time of the last access.
        let now = scene.file.stat().unwrap().stat.mtime;
        let later = Timestamp { secs: now.secs + 1, ..now };
        scene.file.set_times(Some(later), now).unwrap();
        assert!(begin().unwrap().was_recalled);
        assert!(scene.current().was_recalled);
    }

    /// A client of an NFS server cut a stub, and lengthened it to less than its old size. The part
    /// between had its old content.
    #[test]
    fn a_stub_that_is_shorter_unasked_is_not_filled_before_somebody_vouches() {
        let Some(scene) = Scene::new() else { return };
        let begin = || scene.records.begin_filling(scene.id(), &scene.file, scene.current());
        let stub = old_stub(&scene);
        resize(&scene, MIB);
        resize(&scene, 3 * MIB);
        assert_eq!(scene.current(), stub, "nobody knows how much was cut");
        assert!(matches!(begin(), Err(FillError::Doubtful)));
        let now = scene.file.stat().unwrap().stat.mtime;
        scene
            .file
            .set_times(Some(Timestamp { secs: now.secs + 1, ..now }), now)
            .unwrap();
        let State::Migrated(grains) = begin().unwrap().state else { panic!("nothing came") };
        assert_eq!(grains.missing(&(0..4 * MIB)), std::slice::from_ref(&(0..3 * MIB)));
    }

    #[test]
    fn a_stub_that_is_emptied_unasked_has_no_content_to_wait_for() {
        let Some(scene) = Scene::new() else { return };
        old_stub(&scene);
        resize(&scene, 0);
        assert!(matches!(&scene.current().state, State::Migrated(grains) if grains.is_whole()));
        resize(&scene, 4 * MIB);
        let stub = scene.current();
        assert!(scene.records.begin_filling(scene.id(), &scene.file, stub.clone()).is_ok());
        assert!(matches!(stub.state, State::Migrated(grains) if grains.is_whole()), "zeros");
    }

    #[test]
    fn a_stub_that_a_program_was_asked_about_may_be_changed() {
        let Some(scene) = Scene::new() else { return };
        let stub = old_stub(&scene);
        scene.records.note_use(scene.id(), &scene.file, stub.clone()).unwrap();
        assert_eq!(scene.current(), Stub { was_recalled: true, ..stub });
        resize(&scene, 5 * MIB);
        let begun = scene.records.begin_filling(scene.id(), &scene.file, scene.current());
        assert_eq!(begun.unwrap(), scene.current());
    }

    #[test]
    fn the_cut_part_of_a_stub_is_not_recalled_when_it_grows_again() {
        let Some(scene) = Scene::new() else { return };
        let path = scene._folder.path().join("f");
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(MIB + 5).unwrap();
        let State::Migrated(grains) = scene.current().state else { panic!("nothing came") };
        assert_eq!(grains.missing(&(0..4 * MIB)).first(), Some(&(0..2 * MIB)));
        file.set_len(4 * MIB).unwrap();
        let State::Migrated(grains) = scene.current().state else { panic!("nothing came") };
        assert_eq!(grains.missing(&(0..4 * MIB)).first(), Some(&(0..2 * MIB)));
    }
}
