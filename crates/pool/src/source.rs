//! Random access to the bytes of a pack.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The bytes of one pack, readable in any order by any thread.
pub(crate) trait Source: Send + Sync {
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `buffer` with the bytes from `offset` on. Fails with `UnexpectedEof` if there are not
    /// enough of them.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}
