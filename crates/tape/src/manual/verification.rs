//! Verification of a volume: every piece is read, and its blocks are compared with their checksums.

use std::io::{self, Write};

use super::meter::{Meter, STOPPED};
use super::piece::{PieceError, PieceFailure, judge, pieces};
use crate::medium::Medium;
use crate::volume::{VolumeError, VolumeReader};

/// Findings of a verification.
#[derive(Debug, Default)]
pub struct Verification {
    /// Number of pieces that are whole.
    pub objects: u64,
    /// Bytes of pieces that are whole.
    pub bytes: u64,
    pub failures: Vec<PieceFailure>,
    /// Positions that could not be read, on a volume without an index.
    pub unreadable: Vec<u64>,
}

impl Verification {
    /// Reads the whole volume. `expect` gets the number of bytes to be read.
    pub fn read_all(
        &mut self,
        medium: &mut dyn Medium,
        meter: &dyn Meter,
        expect: impl FnOnce(u64),
    ) -> Result<(), VolumeError> {
        let mut reader = VolumeReader::open(medium, None)?;
        let listing = reader.list()?;
        self.unreadable.extend(&listing.damaged);
        let pieces = pieces(&listing);
        expect(pieces.iter().map(|piece| piece.part.bytes).sum());
        for piece in &pieces {
            if meter.is_stopped() {
                self.failures.push(PieceFailure::new(piece, PieceError::Stopped));
                continue;
            }
            match reader.read(&piece.part, &mut NullSink { meter }) {
                Ok(()) => {
                    self.objects += 1;
                    self.bytes += piece.part.bytes;
                    meter.add_object();
                }
                Err(error) => {
                    meter.add_failure();
                    let (failure, result) = judge(piece, error, meter);
                    self.failures.push(failure);
                    result?;
                }
            }
        }
        Ok(())
    }
}

/// Sink that counts the bytes of an object and discards them.
struct NullSink<'a> {
    meter: &'a dyn Meter,
}

impl Write for NullSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.meter.is_stopped() {
            return Err(io::Error::other(STOPPED));
        }
        self.meter.add_bytes(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
