//! Destinations: receivers of entries and of their data.

use std::io;
use std::ops::Range;

use super::recent::RecentQuanta;
use crate::link::versions::{Entry, WHOLE_FILE};

/// Number of windows whose directories are open: one window gets its data, two are being answered.
pub(super) const WINDOWS_AT_ONCE: u64 = 3;

/// Receiver of entries and of their data.
pub(super) trait Destination: Sync {
    /// File that is being filled.
    type File: Send + Sync;

    /// Takes an entry. Returns the file to fill, if the data of the entry is needed.
    fn take(&mut self, entry: Entry) -> Option<Self::File>;

    /// Writes a checked chunk. Several threads may write to one file.
    fn write(&self, file: &Self::File, chunk: &[u8], offset: u64) -> io::Result<()>;

    /// Completes a file after all its chunks have been written.
    fn complete(&self, file: &Self::File);

    /// Ends a file that cannot be filled, because of `reason`. It is called at most once, and not
    /// after `complete`.
    fn lose(&self, file: &Self::File, reason: &str);

    /// Loses the bytes in `range` of a file, because of `reason`. Returns false if the rest of the
    /// file is of no use; then the file is lost.
    fn lose_range(&self, _file: &Self::File, _range: Range<u64>, _reason: &str) -> bool {
        false
    }

    /// Takes note that all entries of a window have come.
    fn end_window(&mut self) {}

    /// Takes note that the oldest window that is not complete has all its data.
    fn complete_window(&self) {}

    /// Returns the memory for quanta that may be needed again soon; `None` if no quantum will be.
    fn recent(&self) -> Option<&RecentQuanta> {
        None
    }

    /// Returns the maximum number of directories of a window.
    fn directories_max(&self) -> u32 {
        u32::MAX
    }

    /// Returns true if one thread is enough for the data, because others have work beside it.
    fn takes_one_thread(&self) -> bool {
        false
    }

    /// Returns the maximum number of windows that are not complete.
    fn windows_at_once(&self) -> u64 {
        WINDOWS_AT_ONCE
    }

    /// Returns the needed range of each file.
    fn range(&self) -> Range<u64> {
        WHOLE_FILE
    }
}
