//! Packs in a local folder.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use format::pack::{Table, Trailer};
use lru::LruCache;
use model::PackNumber;
use sys::lock::Mutex;

use super::side_folder::SideFolder;
use super::{Distance, Intake, PackStorage, Presence, RecordedBytes, Recovery, SideFiles};
use crate::error::{AppendError, ReadError};
use crate::layout;
use crate::mark::Mark;
use crate::open::{self, NewPackId, OpenPack, Sealer};
use crate::pack::{PackRecord, SealedPack};
use crate::reserve::{Margin, Purpose, Reserve};
use crate::source::Source;
use crate::table::{self, DigestOf};

/// Maximum number of sealed packs of a folder whose files are kept open.
const FILES_MAX: NonZeroUsize = NonZeroUsize::new(128).expect("it is not zero");

/// Maximum number of files that are set aside under one number.
const ASIDE_MAX: u32 = 100;

/// Storage of packs in a local folder.
pub(crate) struct FolderStorage {
    folder: PathBuf,
    files: SideFolder,
    /// Open files of the sealed packs that were read last; `None` if no file is kept open.
    open: Option<Mutex<LruCache<PackNumber, Arc<File>>>>,
}

impl FolderStorage {
    /// Returns the storage in `folder`. Files are kept open only if `keeps_open` is set: a disk
    /// with second copies may be taken to a safe at any time.
    pub(crate) fn new(folder: &Path, keeps_open: bool) -> Self {
        let open = keeps_open.then(|| Mutex::new(LruCache::new(FILES_MAX)));
        Self { folder: folder.to_owned(), files: SideFolder { pool: folder.to_owned() }, open }
    }

    fn path(&self, pack: PackNumber) -> PathBuf {
        layout::path(&self.folder, pack)
    }
}

impl PackStorage for FolderStorage {
    fn distance(&self) -> Distance {
        Distance::Disk
    }

    fn intake(&self) -> Option<&dyn Intake> {
        Some(self)
    }

    fn files(&self) -> &dyn SideFiles {
        &self.files
    }

    fn list(&self, recorded: RecordedBytes<'_>) -> io::Result<BTreeMap<PackNumber, u64>> {
        let stored = |pack| std::fs::metadata(self.path(pack)).map_or(0, |metadata| metadata.len());
        let packs = layout::list(&self.folder)?.into_iter();
        Ok(packs
            .map(|pack| (pack, recorded(pack).unwrap_or_else(|| stored(pack))))
            .collect())
    }

    fn find(&self, pack: PackNumber) -> io::Result<Presence> {
        match std::fs::metadata(self.path(pack)) {
            Ok(metadata) => Ok(Presence::There { bytes: metadata.len() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Presence::Gone),
            Err(error) => Err(error),
        }
    }

    /// Seals a pack that was open when its server died: a pack without a whole footer. Its
    /// records, each of which has a checksum, are read from the front. The first bad record is
    /// where the writing stopped: nothing after it was synced, because synced records are complete.
    /// The pack is sealed at that place, so that it never has to be recovered again. If the
    /// catalogue or the trailer of a torn footer tells of more durable bytes than the valid records
    /// have, the disk has damaged the pack. Such a pack is left as it is, and everything in it that
    /// can be read is served.
    ///
    /// All bytes that the catalogue does not record as durable are written again, because a sync
    /// may have failed before the process died.
    fn recover(
        &self,
        pack: PackNumber,
        record: PackRecord,
        digest_of: &DigestOf,
    ) -> Result<Recovery, ReadError> {
        if record.sealed {
            return Ok(Recovery::Sealed);
        }
        let path = self.path(pack);
        let disk = |source| ReadError::Disk { pack, source };
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(disk)?;
        if let Some(trailer) = table::trailer_of_whole_footer(&file).map_err(disk)? {
            seal_again(&file, &trailer).map_err(disk)?;
            return Ok(Recovery::Sealed);
        }
        // All records were durable before the footer was written, of which the trailer is left.
        let trailer = table::read_trailer(&file).map_err(disk)?;
        let durable_bytes = trailer.map_or(0, |trailer| trailer.footer_offset).max(record.bytes);
        let table = table::scan(&file, pack, digest_of).map_err(disk)?;
        if table.as_ref().map_or(0, Table::end) < durable_bytes {
            return Err(ReadError::damaged(pack, "quanta that were durable have wrong checksums"));
        }
        match table {
            Some(table) if table.chunk_count() > 0 => {
                assert!(table.end() >= record.bytes, "no durable quantum is cut off");
                open::write_again(&file, record.bytes..table.end()).map_err(disk)?;
                open::seal(&file, &table).map_err(disk)?;
                Ok(Recovery::Recovered(SealedPack::new(Arc::new(table))))
            }
            _ => {
                std::fs::remove_file(&path).map_err(disk)?;
                Ok(Recovery::Empty)
            }
        }
    }

    /// Cuts off what was not durable, and writes the footer. All records of a pack that has a whole
    /// footer are durable: only the sync of the footer or of the pack's name has failed.
    fn close_failed(&self, durable: &Arc<Table>) -> io::Result<Recovery> {
        let path = self.path(durable.pack);
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        if let Some(trailer) = table::trailer_of_whole_footer(&file)? {
            seal_again(&file, &trailer)?;
            layout::sync(layout::subfolder(&path))?;
            return Ok(Recovery::Sealed);
        }
        if durable.chunk_count() == 0 {
            layout::remove(&path)?;
            return Ok(Recovery::Empty);
        }
        // On a full disk, the footer fits only after this.
        file.set_len(durable.end())?;
        open::seal(&file, durable)?;
        layout::sync(layout::subfolder(&path))?;
        Ok(Recovery::Recovered(SealedPack::new(Arc::clone(durable))))
    }

    fn open(&self, pack: PackNumber, _listed: Option<u64>) -> Result<Arc<dyn Source>, ReadError> {
        let kept = self.open.as_ref().and_then(|open| open.lock().get(&pack).cloned());
        if let Some(file) = kept {
            return Ok(file);
        }
        let file = File::open(self.path(pack)).map_err(|error| ReadError::of_file(pack, error))?;
        let file = Arc::new(file);
        if let Some(open) = &self.open {
            open.lock().put(pack, Arc::clone(&file));
        }
        Ok(file)
    }

    fn file_of(&self, pack: PackNumber) -> Option<PathBuf> {
        Some(self.path(pack))
    }

    fn forget(&self, pack: PackNumber) {
        if let Some(open) = &self.open {
            open.lock().pop(&pack);
        }
    }

    fn remove(&self, pack: PackNumber) -> io::Result<()> {
        layout::remove(&self.path(pack))
    }

    fn set_aside(&self, pack: PackNumber) -> io::Result<()> {
        self.forget(pack);
        let path = self.path(pack);
        // An earlier file may be all that is left of a pack, so it is not replaced.
        let mut names = (1..=ASIDE_MAX).map(|count| path.with_extension(format!("aside{count}")));
        let free = names.find(|name| name.try_exists().is_ok_and(|exists| !exists));
        std::fs::rename(&path, free.ok_or(io::ErrorKind::AlreadyExists)?)?;
        layout::sync(layout::subfolder(&path))
    }

    fn arrival(&self, pack: PackNumber) -> io::Result<SystemTime> {
        std::fs::metadata(self.path(pack))?.modified()
    }

    fn room(&self, reserve: Reserve, purpose: Purpose) -> Option<u64> {
        Some(reserve.room(&self.folder, purpose).unwrap_or(0))
    }
}

impl Intake for FolderStorage {
    /// Looks for the mark, which is missing if the disk is not mounted.
    fn is_ready(&self, mark: Mark) -> bool {
        self.files.is_marked(mark)
    }

    fn create(&self, id: NewPackId, margin: Margin) -> io::Result<OpenPack> {
        OpenPack::create(&self.folder, id, margin, |file| {
            Box::new(FileSealer { file: Arc::clone(file) })
        })
    }

    fn sync_names(&self, mark: Mark, pack: PackNumber) -> Result<(), AppendError> {
        if !self.files.is_marked(mark) {
            return Err(AppendError::Away { folder: self.folder.clone() });
        }
        layout::sync(&self.folder).map_err(|source| AppendError::Failed { pack, source })
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn put(&self, table: &Arc<Table>, new: &Path) -> io::Result<()> {
        let path = self.path(table.pack);
        assert_eq!(new.parent(), path.parent(), "a new pack is renamed within its folder");
        std::fs::rename(new, &path)?;
        // A file that stayed open would be the file of the replaced pack.
        self.forget(table.pack);
        layout::sync(layout::subfolder(&path))
    }
}

/// Writes the footer of a pack again and makes it durable. The records were synced before the
/// footer was written for the first time.
fn seal_again(file: &File, trailer: &Trailer) -> io::Result<()> {
    open::write_again(file, trailer.footer_offset..file.metadata()?.len())?;
    file.sync_all()
}

/// Seals a pack in the folder in which it was filled.
struct FileSealer {
    file: Arc<File>,
}

impl Sealer for FileSealer {
    fn advance(&mut self, _end: u64) -> io::Result<()> {
        Ok(())
    }

    fn ends_with_sync(&self) -> bool {
        false
    }

    fn begin(&mut self, _table: &Arc<Table>) -> io::Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, table: &Arc<Table>) -> io::Result<()> {
        open::seal(&self.file, table)
    }
}
