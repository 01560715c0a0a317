//! A regular file, open to be backed up.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use model::{Attributes, Kind};
use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::attributes::Inode;
use crate::status::{ObjectStatus, stat_open};

/// A regular file, open for reading.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    /// Offset at which [`Self::read`] continues; the descriptor's own position is not used.
    position: u64,
}

/// A part of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    Data {
        offset: u64,
        bytes: u64,
    },
    /// A part that reads as zeros and takes no space.
    Hole {
        offset: u64,
        bytes: u64,
    },
}

impl SourceFile {
    /// Wraps `fd` without a check that it is a regular file.
    pub(crate) fn unchecked(fd: OwnedFd) -> Self {
        Self { file: fd.into(), position: 0 }
    }

    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let file = Self::unchecked(fd);
        match file.stat() {
            Ok(found) if found.stat.kind == Kind::File => Ok(file),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
            Err(error) => Err(error),
        }
    }

    /// Asks for the status of the file.
    pub fn stat(&self) -> io::Result<ObjectStatus> {
        stat_open(self.file.as_fd())
    }

    /// Reads at `offset` and returns the number of bytes read; 0 at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Reads the bytes that follow the last call's bytes, and returns their number; 0 at the end of
    /// the file.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }

    /// The parts of the first `size` bytes, without gaps and in order; none is empty.
    ///
    /// Even if other programs change the file meanwhile, the segments cover exactly `size` bytes.
    /// Costs one `lseek` for each segment, so call it only for a file whose
    /// [`ObjectStatus::allocated_bytes`] is below the size.
    pub fn segments(&self, size: u64) -> io::Result<Vec<Segment>> {
        let mut segments = Vec::new();
        let mut offset = 0;
        while offset < size {
            let Some(data) = self.seek(SeekFrom::Data(offset), size)? else {
                return Ok(vec![Segment::Data { offset: 0, bytes: size }]);
            };
            if data > offset {
                segments.push(Segment::Hole { offset, bytes: data - offset });
            }
            if data == size {
                break;
            }
            let hole = self.seek(SeekFrom::Hole(data), size)?.unwrap_or(size);
            // A hole at `data` itself was punched after the first call: the rest counts as data.
            offset = if hole > data { hole } else { size };
            segments.push(Segment::Data { offset: data, bytes: offset - data });
        }
        Ok(segments)
    }

    /// Finds the start of the next data or hole, at most `size`; `None` if the file system does not
    /// support such a search.
    fn seek(&self, from: SeekFrom, size: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.file, from) {
            Ok(offset) => Ok(Some(offset.min(size))),
            // No data follows the offset.
            Err(Errno::NXIO) => Ok(Some(size)),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the kernel that the file will be read from start to end. Advice only.
    pub fn advise_sequential(&self) {
        let _advised = rustix::fs::fadvise(&self.file, 0, None, Advice::Sequential);
    }

    /// Makes a file without a name in `directory`, on the same file system, with the present
    /// content of this file, whose space it shares. No other program can change it, and it is
    /// removed when the result is dropped. Fails if the file system cannot share space or cannot be
    /// written to.
    pub fn reflinked(&self, directory: &impl AsFd) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let clone = rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::ioctl_ficlone(&clone, &self.file)?;
        Ok(Self::unchecked(clone))
    }

    /// The extended attributes and inode flags; see [`crate::Dir::attributes`].
    pub fn attributes(&self) -> io::Result<Attributes> {
        Inode::of_open(self.file.as_fd()).attributes()
    }
}
