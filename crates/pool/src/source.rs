//! What a pack is read from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use model::PackNumber;

use crate::bucket::Bucketed;

/// A pack that can be read anywhere.
pub(crate) enum Source {
    File(Arc<File>),
    /// With its bytes, as listed.
    Object(Bucketed, PackNumber, u64),
}

impl From<File> for Source {
    fn from(file: File) -> Self {
        Self::File(Arc::new(file))
    }
}

impl Source {
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Object(_, _, bytes) => Ok(*bytes),
        }
    }

    /// Fails with `UnexpectedEof` behind the end.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(buffer, offset),
            Self::Object(bucket, pack, bytes) => {
                let end = offset + buffer.len() as u64;
                if end > *bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                buffer.copy_from_slice(&bucket.0.read(*pack, offset..end, *bytes)?);
                Ok(())
            }
        }
    }
}
