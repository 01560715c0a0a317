//! A file of a list that is to be recalled.

use std::io;

use model::{CopyId, DirPath, Name};
use sys::space::SpaceFile;

use crate::mount::Mount;

/// A file that a request recalls.
pub(super) struct Entry<'a> {
    pub(super) mount: &'a Mount,
    pub(super) directory: DirPath,
    pub(super) name: Name,
    pub(super) copy: Option<CopyId>,
    pub(super) bytes: u64,
}

impl Entry<'_> {
    /// Absolute path on the node.
    pub(super) fn path(&self) -> Vec<u8> {
        self.mount.absolute(&self.directory.join(&self.name))
    }

    pub(super) fn open(&self) -> io::Result<SpaceFile> {
        SpaceFile::open(&*self.mount.directory(&self.directory)?, self.name.as_bytes())
    }
}
