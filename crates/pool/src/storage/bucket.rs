//! Packs as objects of a bucket. The pool's local folder holds the files of open packs, and copies
//! of data that is likely to be read again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use format::pack::Table;
use model::{PackNumber, ServerTime};

use super::{Distance, Intake, ObjectLocks, PackStorage, Presence, RecordedBytes, SideFiles};
use crate::bucket::Bucket;
use crate::bucket::upload::{Completion, Upload};
use crate::error::ReadError;
use crate::hold::Hold;
use crate::mark::{MARK_FILE, Mark, marked_by_another};
use crate::open::{self, NewPackId, OpenPack, Sealer};
use crate::owner::{OWNER_FILE, Owner};
use crate::pack::pack_bytes;
use crate::reserve::Margin;
use crate::source::Source;

/// Prefix of the keys of the files beside the packs.
const FOLDER: &str = "catalogue";
/// Number of packs whose ends are requested at once, because a reader of one table soon needs
/// others.
const ENDS_AHEAD: usize = 8;

/// Storage of packs in a bucket. See the module.
pub(crate) struct BucketStorage {
    folder: PathBuf,
    bucket: Arc<Bucket>,
}

impl BucketStorage {
    pub(crate) fn new(folder: &Path, bucket: Arc<Bucket>) -> Self {
        Self { folder: folder.to_owned(), bucket }
    }
}

fn side_key(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

impl PackStorage for BucketStorage {
    fn distance(&self) -> Distance {
        Distance::Network
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn intake(&self) -> Option<&dyn Intake> {
        Some(self)
    }

    fn locks(&self) -> Option<&dyn ObjectLocks> {
        self.bucket.has_locks().then_some(self)
    }

    fn files(&self) -> &dyn SideFiles {
        self
    }

    fn shared_files(&self) -> Option<&Arc<Bucket>> {
        Some(&self.bucket)
    }

    fn list(&self, _recorded: RecordedBytes<'_>) -> io::Result<BTreeMap<PackNumber, u64>> {
        std::fs::create_dir_all(&self.folder)?;
        self.bucket.list()
    }

    fn find(&self, pack: PackNumber) -> io::Result<Presence> {
        let found = self.bucket.find(pack)?;
        Ok(found.map_or(Presence::Gone, |bytes| Presence::There { bytes }))
    }

    fn open(&self, pack: PackNumber, listed: Option<u64>) -> Result<Arc<dyn Source>, ReadError> {
        let bytes = listed.ok_or(ReadError::Missing { pack, index: 0 })?;
        Ok(Arc::new(Object { bucket: Arc::clone(&self.bucket), pack, bytes }))
    }

    fn kept_table(&self, pack: PackNumber) -> Option<Table> {
        self.bucket.kept_table(pack)
    }

    fn keep_table(&self, table: &Table) {
        self.bucket.keep_table(table);
    }

    fn read_ends_ahead(&self, packs: &dyn Fn(usize) -> Vec<(PackNumber, u64)>) {
        for (pack, bytes) in packs(ENDS_AHEAD) {
            self.bucket.read_end_ahead(pack, bytes);
        }
    }

    fn read_ahead(&self, pack: PackNumber, range: Range<u64>) {
        self.bucket.read_ahead(pack, range);
    }

    fn forget(&self, pack: PackNumber) {
        self.bucket.forget(pack);
    }

    fn remove(&self, pack: PackNumber) -> io::Result<()> {
        self.bucket.remove(pack)
    }

    fn arrival(&self, pack: PackNumber) -> io::Result<SystemTime> {
        self.bucket.arrival(pack).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn end_orphans(&self, below: Option<PackNumber>) -> io::Result<usize> {
        self.bucket.end_orphans(below)
    }
}

impl Intake for BucketStorage {
    /// Does not ask a store that answered last time, so that no caller waits here. The upload finds
    /// out whether the store still answers.
    fn is_ready(&self, _mark: Mark) -> bool {
        true
    }

    fn create(&self, id: NewPackId, margin: Margin) -> io::Result<OpenPack> {
        OpenPack::create(&self.folder, id, margin, |file| {
            let upload = Upload::new(Arc::clone(&self.bucket), id.pack, Arc::clone(file));
            let state = UploadState::Filling(upload);
            Box::new(UploadSealer { file: Arc::clone(file), state })
        })
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn put(&self, table: &Arc<Table>, new: &Path) -> io::Result<()> {
        self.bucket.send(table, new)
    }
}

impl SideFiles for BucketStorage {
    fn place(&self) -> PathBuf {
        self.bucket.url().to_string().into()
    }

    /// Reads the mark. Brings it back if somebody has deleted it in a bucket with object locks.
    fn read_mark(&self) -> io::Result<Option<Mark>> {
        let read = || {
            let text = self.bucket.read_beside(MARK_FILE)?;
            Ok::<_, io::Error>(text.and_then(|text| Mark::parse(&text)))
        };
        let found = read()?;
        if found.is_none() && self.bucket.has_locks() {
            let is_mark = &mut || read().is_ok_and(|found| found.is_some());
            self.bucket.bring_back_beside(MARK_FILE, is_mark)?;
            return read();
        }
        Ok(found)
    }

    fn write_mark(&self, mark: Mark) -> io::Result<()> {
        match self.read_mark()? {
            Some(found) if found == mark => Ok(()),
            Some(_) => Err(marked_by_another("the bucket")),
            None => self.bucket.write_mark(mark.text().as_bytes()),
        }
    }

    fn remove_mark(&self) -> io::Result<()> {
        self.bucket.remove_beside(MARK_FILE)?;
        self.bucket.release_lease()?;
        self.bucket.remove_beside(OWNER_FILE)
    }

    fn read_owner(&self) -> io::Result<Option<Owner>> {
        self.bucket.read_owner()
    }

    fn write_owner(&self, owner: Owner) -> io::Result<()> {
        self.bucket.write_beside(OWNER_FILE, owner.text().as_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.bucket.write_beside(&side_key(name), bytes)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.bucket.list_beside(FOLDER)?;
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let found = self.bucket.read_beside(&side_key(name))?;
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.bucket.remove_beside(&side_key(name))
    }
}

impl ObjectLocks for BucketStorage {
    fn hold(&self, pack: PackNumber, hold: Hold) -> io::Result<bool> {
        self.bucket.hold(pack, hold)
    }

    fn hold_file(&self, name: &str, hold: Hold) -> io::Result<bool> {
        let was_asked = self.bucket.hold_beside(MARK_FILE, hold)?;
        match self.bucket.hold_beside(&side_key(name), hold) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(was_asked),
            other => Ok(other? || was_asked),
        }
    }

    fn locked_until(&self, pack: PackNumber) -> io::Result<Option<ServerTime>> {
        self.bucket.locked_until(pack)
    }

    fn bring_back(&self, pack: PackNumber, is_whole: &mut dyn FnMut() -> bool) -> io::Result<bool> {
        self.bucket.bring_back(pack, is_whole)
    }

    fn bring_back_file(&self, name: &str, is_whole: &mut dyn FnMut() -> bool) -> io::Result<bool> {
        self.bucket.bring_back_beside(&side_key(name), is_whole)
    }
}

/// A sealed pack in a bucket.
struct Object {
    bucket: Arc<Bucket>,
    pack: PackNumber,
    /// Size from the last listing, in bytes.
    bytes: u64,
}

impl Source for Object {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + buffer.len() as u64;
        if end > self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.copy_from_slice(&self.bucket.read(self.pack, offset..end, self.bytes)?);
        Ok(())
    }
}

/// Sends a pack to the store while it is filled.
struct UploadSealer {
    file: Arc<File>,
    state: UploadState,
}

enum UploadState {
    Filling(Upload),
    Completing(Completion),
    /// The store has the pack, or its upload could not be completed.
    Over,
}

impl Sealer for UploadSealer {
    fn advance(&mut self, end: u64) -> io::Result<()> {
        match &mut self.state {
            UploadState::Filling(upload) => upload.advance(end),
            UploadState::Completing(_) | UploadState::Over => {
                unreachable!("nothing is appended to a pack that is being sealed")
            }
        }
    }

    fn ends_with_sync(&self) -> bool {
        true
    }

    fn begin(&mut self, table: &Arc<Table>) -> io::Result<()> {
        let UploadState::Filling(upload) = std::mem::replace(&mut self.state, UploadState::Over)
        else {
            unreachable!("a pack is sealed once")
        };
        open::write_footer(&self.file, table)?;
        self.state = UploadState::Completing(upload.finish(pack_bytes(table), table)?);
        Ok(())
    }

    fn finish(self: Box<Self>, _table: &Arc<Table>) -> io::Result<()> {
        match self.state {
            UploadState::Completing(completion) => completion.wait(),
            UploadState::Filling(_) | UploadState::Over => {
                unreachable!("a seal is finished after it has begun")
            }
        }
    }
}
