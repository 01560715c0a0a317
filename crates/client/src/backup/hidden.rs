//! File systems whose files space management hides while it is not running.

use std::io;

use format::stub::{HIDDEN_FILES, HIDDEN_FOLDER};
use model::Kind;
use sys::{Dir, ObjectStatus};

/// Returns true if `root` is the root directory of a file system whose files are hidden. A backup
/// of such a directory would not see its files. A directory that cannot be read counts as not
/// hidden.
pub(super) fn is_hidden_at(root: &[u8]) -> bool {
    Dir::open(root).is_ok_and(|root| is_hidden(&root).unwrap_or(false))
}

/// Returns true if the files of the root directory `root` are hidden, because space management is
/// not running.
pub fn is_hidden(root: &Dir) -> io::Result<bool> {
    if !root.has(HIDDEN_FOLDER)? {
        return Ok(false);
    }
    let Some(ObjectStatus { stat, .. }) = root.stat(HIDDEN_FOLDER)? else { return Ok(false) };
    // Any user may make a folder of that name, but only root can give it this owner and mode.
    let is_ours = stat.kind == Kind::Directory && stat.uid == 0 && stat.mode & 0o7777 == 0o700;
    Ok(is_ours && root.open_dir(HIDDEN_FOLDER)?.has(HIDDEN_FILES)?)
}
