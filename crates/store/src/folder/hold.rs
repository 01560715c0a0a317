//! The hold on a server that was recovered, or whose catalogue lacks what its copies know: while it
//! lasts the server removes nothing that its catalogue does not name.

use std::fmt;
use std::io;
use std::path::Path;

/// File in the server's folder that exists while the hold lasts.
pub(crate) const HOLD_FILE: &str = "recovered";

/// Reason why a server is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// The server was recovered.
    Recovered,
    /// The catalogue is older than this copy of it in the pools.
    Older { copy: u64 },
    /// Two pools have different copies with this number: an older catalogue was put in place, and
    /// has made copies while one of the pools was away.
    Parted { copy: u64 },
}

impl Hold {
    /// Returns the number of the copy that shows why the server is held.
    pub(crate) fn copy(self) -> Option<u64> {
        match self {
            Self::Recovered => None,
            Self::Older { copy } | Self::Parted { copy } => Some(copy),
        }
    }
}

/// Writes why the server is held, what it does not do, and what ends the hold.
impl fmt::Display for Hold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered => out.write_str(
                "this server was recovered, and until it is released it removes no data that its \
                 catalogue does not name; back up all nodes, then release the server with \
                 'holdfast admin reclaim --release'",
            ),
            Self::Older { copy } => write!(
                out,
                "the catalogue is older than its copy {copy} in the pools; until the server is \
                 released it removes no data that its catalogue does not name, and makes no copy \
                 of the catalogue. Stop the server and bring copy {copy} back with 'holdfast \
                 server rebuild-catalog'. To continue with the older catalogue, back up all nodes, \
                 then release the server with 'holdfast admin reclaim --release'"
            ),
            Self::Parted { copy } => write!(
                out,
                "two pools have different copies {copy} of the catalogue, because an older \
                 catalogue was put in place while one of them was away; until the server is \
                 released it removes no data that its catalogue does not name, and makes no copy \
                 of the catalogue. To have the other state back, stop the server, disconnect the \
                 other pools, and make the server again from the pool that was away with 'holdfast \
                 server recover'. To continue with this catalogue, back up all nodes, then release \
                 the server with 'holdfast admin reclaim --release'"
            ),
        }
    }
}

/// Returns true while the hold on the server in `folder` lasts.
pub(crate) fn is_held(folder: &Path) -> bool {
    // A server that cannot read its folder keeps everything.
    folder.join(HOLD_FILE).try_exists().unwrap_or(true)
}

/// Begins the hold. Packs that the recovered catalogue does not know may hold the only data of
/// backups that were made after the copy of the catalogue.
pub(crate) fn hold(folder: &Path) -> io::Result<()> {
    let text = b"This server keeps everything; 'holdfast admin reclaim --release' releases it.\n";
    sys::durable::write(&folder.join(HOLD_FILE), text, 0o600)?;
    debug_assert!(is_held(folder), "the hold lasts until it is released");
    Ok(())
}

/// Removes the file of a hold that another server of the fleet has ended.
pub(crate) fn forget_hold(folder: &Path) {
    // A file that stays does no harm, because in a fleet the database decides.
    drop(std::fs::remove_file(folder.join(HOLD_FILE)));
}
