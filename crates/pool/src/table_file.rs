//! Tables of packs that lie elsewhere, kept in a local folder: each is a sparse file with the
//! pack's footer at the same offset as in the pack. A lost table can be read from the pack again.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use format::pack::Table;
use model::PackNumber;

use crate::layout;
use crate::table::read_table;

/// Extension of the files.
pub(crate) const EXTENSION: &str = "table";

/// Writes the table of a pack.
pub(crate) fn write(folder: &Path, table: &Table) -> io::Result<()> {
    let path = layout::make_for(folder, table.pack)?.with_extension(EXTENSION);
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all_at(&table.encode_footer(), table.end())
}

/// Reads the table of a pack. A damaged table counts as lost.
pub(crate) fn read(folder: &Path, pack: PackNumber) -> Option<Table> {
    let path = layout::path(folder, pack).with_extension(EXTENSION);
    read_table(&File::open(path).ok()?, pack).ok()
}

/// Removes the table of a pack, if it exists.
pub(crate) fn remove(folder: &Path, pack: PackNumber) -> io::Result<()> {
    let path = layout::path(folder, pack).with_extension(EXTENSION);
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
