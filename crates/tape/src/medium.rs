//! What a volume lies on: blocks and filemarks in a row, written at the end, read anywhere.
//!
//! Two kinds: a tape in a drive ([`crate::drive::Drive`]) and a file that stands for one
//! (`file_volume::FileMedium`).
//!
//! A *position* is a number that the medium gives and takes back. On a tape it counts blocks and
//! filemarks from 0; in a file it is a byte offset. Either way it is 0 at the beginning and grows.

use std::error::Error;

/// What a read found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A block. Its length is what the drive says; a drive that does not tell short blocks says
    /// the length that was asked for, so that a block must know its length itself.
    Block {
        bytes: usize,
    },
    /// A block that the buffer was too small for. The medium stands behind it.
    LongBlock {
        bytes: usize,
    },
    Filemark,
    EndOfData,
}

/// What became of a write that went well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Written {
    Whole,
    /// Written, and the end of the medium is near: close the volume now.
    NearEnd,
}

/// Why a medium did not do what it should. Each variant asks another thing of the caller.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// Not written: go on with another volume. What lies in front of [`Medium::position`] is there.
    #[error("the medium ends here")]
    EndOfMedium,
    /// There is nothing at this position: what was thought to be there has been overwritten.
    #[error("data end in front of position {position}")]
    EndOfData { position: u64 },
    #[error("the medium is write-protected")]
    WriteProtected,
    /// Read another copy; mark the volume damaged.
    #[error("the medium is damaged at position {position}")]
    Damaged { position: u64 },
    /// The drive went elsewhere. Try again, then take the drive out of service.
    #[error("the drive is at position {found} instead of {wanted}")]
    WrongPlace { wanted: u64, found: u64 },
    /// The drive was reset or the medium changed behind our back: mount the volume again.
    #[error("the position on the medium is lost")]
    PositionLost,
    #[error("there is no medium")]
    NoMedium,
    /// Take the drive out of service; the volume may be good.
    #[error("the drive fails")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl MediumError {
    pub(crate) fn failed(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(source))
    }
}

/// A volume's bearer, ready to be read and written.
pub trait Medium: Send {
    /// Goes to position 0.
    fn rewind(&mut self) -> Result<(), MediumError>;

    /// Goes to `position`.
    fn locate(&mut self, position: u64) -> Result<(), MediumError>;

    /// Goes behind the last block or filemark.
    fn locate_end(&mut self) -> Result<(), MediumError>;

    /// Goes to the last block when a filemark is behind it and nothing else; returns whether there
    /// is one.
    fn locate_last_block(&mut self) -> Result<bool, MediumError>;

    /// Where the next read or write takes place.
    fn position(&mut self) -> Result<u64, MediumError>;

    /// Takes notice that what was read does not belong where the medium says that it stands.
    fn distrust(&mut self);

    /// Reads a block into `buffer`; the rest of it is undefined.
    fn read(&mut self, buffer: &mut [u8]) -> Result<Found, MediumError>;

    /// Writes a block; everything behind it is gone. It is durable after [`Medium::mark`].
    fn write(&mut self, block: &[u8]) -> Result<Written, MediumError>;

    /// Writes a filemark, and returns when all that was written is durable.
    fn mark(&mut self) -> Result<Written, MediumError>;

    fn is_write_protected(&mut self) -> Result<bool, MediumError>;

    /// The largest block.
    fn block_bytes_max(&self) -> u32;

    /// What is left, in bytes, where the medium can tell.
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
    fn read(&mut self, buffer: &mut [u8]) -> Result<Found, MediumError> {
        (**self).read(buffer)
    }
    fn write(&mut self, block: &[u8]) -> Result<Written, MediumError> {
        (**self).write(block)
    }
    fn mark(&mut self) -> Result<Written, MediumError> {
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
