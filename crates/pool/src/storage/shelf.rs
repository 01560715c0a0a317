//! Packs on volumes. The pool's local folder holds its mark, the files beside its packs, and the
//! tables of the packs: everything that is needed without a pack's data.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use format::pack::Table;
use model::PackNumber;

use super::side_folder::SideFolder;
use super::{Distance, PackStorage, Presence, RecordedBytes, SideFiles, Survey};
use crate::error::ReadError;
use crate::mark::Mark;
use crate::shelf::Shelf;
use crate::source::Source;
use crate::table_file;

/// Storage of packs on volumes. See the module.
pub(crate) struct ShelfStorage {
    folder: PathBuf,
    files: SideFolder,
    shelf: Arc<dyn Shelf>,
}

impl ShelfStorage {
    pub(crate) fn new(folder: &Path, shelf: Arc<dyn Shelf>) -> Self {
        Self { folder: folder.to_owned(), files: SideFolder { pool: folder.to_owned() }, shelf }
    }
}

impl PackStorage for ShelfStorage {
    fn distance(&self) -> Distance {
        Distance::Volume
    }

    fn files(&self) -> &dyn SideFiles {
        &self.files
    }

    /// Lists the packs even while the local folder is unavailable: they are on their volumes.
    fn survey(&self, mark: Mark, recorded: RecordedBytes<'_>) -> io::Result<Survey> {
        Ok(Survey { is_there: self.files.is_marked(mark), packs: self.list(recorded)? })
    }

    fn list(&self, _recorded: RecordedBytes<'_>) -> io::Result<BTreeMap<PackNumber, u64>> {
        self.shelf.packs()
    }

    fn find(&self, _pack: PackNumber) -> io::Result<Presence> {
        Ok(Presence::Unasked)
    }

    fn open(&self, pack: PackNumber, _listed: Option<u64>) -> Result<Arc<dyn Source>, ReadError> {
        Ok(Arc::new(self.shelf.open(pack)?))
    }

    fn kept_table(&self, pack: PackNumber) -> Option<Table> {
        table_file::read(&self.folder, pack)
    }

    fn keep_table(&self, table: &Table) {
        if let Err(error) = table_file::write(&self.folder, table) {
            // The table is read from the pack again.
            tracing::warn!(pack = %table.pack, %error, "cannot keep the table of a pack");
        }
    }

    fn remove(&self, pack: PackNumber) -> io::Result<()> {
        self.shelf.forget(pack)?;
        table_file::remove(&self.folder, pack)
    }

    fn arrival(&self, pack: PackNumber) -> io::Result<SystemTime> {
        self.shelf.arrival(pack).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
