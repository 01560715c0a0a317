//! The medium of a volume: blocks and filemarks in a row, written at the end, read anywhere.
//!
//! There are two kinds: a tape in a drive ([`crate::drive::Drive`]), and a file that stands for a
//! tape (`file_volume::FileMedium`).
//!
//! A *position* is a number that the medium reports and accepts. On a tape it counts blocks and
//! filemarks from 0; in a file it is a byte offset. In both cases the first position is 0, and
//! positions grow.

use std::error::Error;

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// A block, with the length that the drive reports. Drives that do not report short blocks give
    /// the requested length; therefore a block must contain its own length.
    Block {
        bytes: usize,
    },
    /// A block that is larger than the buffer. The medium is at the position after the block.
    LongBlock {
        bytes: usize,
    },
    Filemark,
    EndOfData,
}

/// The result of a write that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum WriteOutcome {
    Whole,
    /// The block was written, and the end of the medium is near: the caller closes the volume now.
    NearEnd,
}

/// Reason why an operation on a medium failed. Each variant requires a different reaction of the
/// caller.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// The block was not written: the caller continues with another volume. Everything before
    /// [`Medium::position`] is on the medium.
    #[error("the medium ends here")]
    EndOfMedium,
    /// There is nothing at this position: the content that was expected there was overwritten.
    #[error("the data ends before position {position}")]
    EndOfData { position: u64 },
    #[error("the medium is write-protected")]
    WriteProtected,
    /// A block cannot be read: the caller reads another copy, and marks the volume as damaged.
    #[error("the medium is damaged at position {position}")]
    Damaged { position: u64 },
    /// The drive went to a wrong position: the caller tries again, and then takes the drive out of
    /// service.
    #[error("the drive is at position {found} instead of {wanted}")]
    WrongPlace { wanted: u64, found: u64 },
    /// The drive was reset, its connection was cut, or somebody changed the medium: the caller
    /// makes the medium ready again and checks which medium it is.
    #[error("the position on the medium is lost")]
    PositionLost,
    #[error("there is no medium")]
    NoMedium,
    /// The drive failed: the caller takes it out of service. The volume may be good.
    #[error("the drive failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl MediumError {
    pub(crate) fn failed(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(source))
    }
}

/// A medium that is ready to be read and written.
pub trait Medium: Send {
    /// Goes to position 0.
    fn rewind(&mut self) -> Result<(), MediumError>;

    /// Goes to `position`.
    fn locate(&mut self, position: u64) -> Result<(), MediumError>;

    /// Goes to the end, after the last block or filemark.
    fn locate_end(&mut self) -> Result<(), MediumError>;

    /// Goes to the last block if exactly one filemark follows it; returns true if there is such a
    /// block.
    fn locate_last_block(&mut self) -> Result<bool, MediumError>;

    /// Returns the position of the next read or write.
    fn position(&mut self) -> Result<u64, MediumError>;

    /// Notes that the last block read does not belong to the position that the medium reports, so
    /// that this position is not trusted any more.
    fn distrust(&mut self);

    /// Makes the medium ready again after [`MediumError::PositionLost`], and goes to position 0.
    /// The caller checks that it is still the same medium.
    fn make_ready(&mut self) -> Result<(), MediumError>;

    /// Reads a block into `buffer`; the bytes of `buffer` after the block are undefined.
    fn read(&mut self, buffer: &mut [u8]) -> Result<ReadOutcome, MediumError>;

    /// Writes a block; everything after it is lost. The block is durable once [`Medium::mark`] has
    /// returned.
    fn write(&mut self, block: &[u8]) -> Result<WriteOutcome, MediumError>;

    /// Writes a filemark, and returns when everything written before is durable.
    fn mark(&mut self) -> Result<WriteOutcome, MediumError>;

    fn is_write_protected(&mut self) -> Result<bool, MediumError>;

    /// Returns the size of the largest block, in bytes.
    fn block_bytes_max(&self) -> u32;

    /// Returns the free bytes of the medium; `None` if the medium cannot tell.
    fn remaining_bytes(&mut self) -> Result<Option<u64>, MediumError>;
}

impl<M: Medium + ?Sized> Medium for &mut M {
    fn rewind(&mut self) -> Result<(), MediumError> {
        (**self).rewind()
    }
    fn locate(&mut self, position: u64) -> Result<(), MediumError> {
        (**self).locate(position)
    }
    fn locate_end(&mut self) -> Result<(), MediumError> {
        (**self).locate_end()
    }
    fn locate_last_block(&mut self) -> Result<bool, MediumError> {
        (**self).locate_last_block()
    }
    fn position(&mut self) -> Result<u64, MediumError> {
        (**self).position()
    }
    fn distrust(&mut self) {
        (**self).distrust();
    }
    fn make_ready(&mut self) -> Result<(), MediumError> {
        (**self).make_ready()
    }
    fn read(&mut self, buffer: &mut [u8]) -> Result<ReadOutcome, MediumError> {
        (**self).read(buffer)
    }
    fn write(&mut self, block: &[u8]) -> Result<WriteOutcome, MediumError> {
        (**self).write(block)
    }
    fn mark(&mut self) -> Result<WriteOutcome, MediumError> {
        (**self).mark()
    }
    fn is_write_protected(&mut self) -> Result<bool, MediumError> {
        (**self).is_write_protected()
    }
    fn block_bytes_max(&self) -> u32 {
        (**self).block_bytes_max()
    }
    fn remaining_bytes(&mut self) -> Result<Option<u64>, MediumError> {
        (**self).remaining_bytes()
    }
}
