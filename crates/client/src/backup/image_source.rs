//! Source of an image.

use std::io;
use std::ops::Range;

use crate::image::ImageDescription;

/// Device or file whose image is made. Several threads read it.
pub trait ImageSource: Sync {
    /// Size in bytes.
    fn bytes(&self) -> u64;

    /// Ranges that may hold data, sorted and apart from each other. The rest is not read.
    fn used(&self) -> &[Range<u64>];

    /// Fills `buffer`, which begins at an address and has a length that are multiples of 4096, as
    /// `offset` is. Only the end of the source may have another length.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Returns the reason if nothing of the source can be read any more. It is asked for after an
    /// error.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns true if it is known that nothing in `range` was written since the last image, or
    /// since the snapshot [`Self::changed_since`].
    fn is_unchanged(&self, _range: &Range<u64>) -> bool {
        false
    }

    /// Snapshot since which the source knows the changes; `None` if it is told to know those since
    /// the last image.
    fn changed_since(&self) -> Option<&str> {
        None
    }

    /// Says, after everything was read, what the image is.
    fn describe(&self) -> io::Result<ImageDescription>;
}
