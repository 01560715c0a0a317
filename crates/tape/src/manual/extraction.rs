//! Extraction of objects from one or several volumes into files of a folder.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use format::volume::ObjectId;
use sys::{Dir, NewFile};

use super::meter::{Meter, STOPPED};
use super::piece::{Piece, PieceError, PieceFailure, judge};
use crate::medium::Medium;
use crate::volume::{VolumeError, VolumeReader};

/// A file whose object has been read in part.
struct PartialFile {
    file: NewFile,
    name: Vec<u8>,
    /// Number of bytes that the file has.
    offset: u64,
    /// Number of the next block of the object.
    sequence: u64,
}

/// A file that was extracted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtractedFile {
    pub name: Vec<u8>,
    pub bytes: u64,
}

/// An extraction of objects into files. See the module.
pub struct Extraction<'a> {
    folder: Arc<Dir>,
    meter: &'a dyn Meter,
    partial: BTreeMap<ObjectId, PartialFile>,
    files: Vec<ExtractedFile>,
    failures: Vec<PieceFailure>,
}

/// Outcome of an extraction.
#[derive(Debug)]
pub struct ExtractionReport {
    pub files: Vec<ExtractedFile>,
    pub failures: Vec<PieceFailure>,
}

impl<'a> Extraction<'a> {
    pub fn new(folder: Arc<Dir>, meter: &'a dyn Meter) -> Self {
        let partial = BTreeMap::new();
        Self { folder, meter, partial, files: Vec::new(), failures: Vec::new() }
    }

    /// Extracts a piece. Fails only if nothing more can be read from the volume; any other failure
    /// is noted.
    pub fn take(
        &mut self,
        reader: &mut VolumeReader<&mut dyn Medium>,
        piece: &Piece,
    ) -> Result<(), VolumeError> {
        if self.meter.is_stopped() {
            self.failures.push(PieceFailure::new(piece, PieceError::Stopped));
            return Ok(());
        }
        let mut partial = match self.file_for(piece) {
            Ok(partial) => partial,
            Err(error) => {
                self.fail(PieceFailure::new(piece, error));
                return Ok(());
            }
        };
        let mut sink = FileSink { file: &partial.file, offset: partial.offset, meter: self.meter };
        if let Err(error) = reader.read(&piece.part, &mut sink) {
            let (failure, result) = judge(piece, error, self.meter);
            self.fail(failure);
            return result;
        }
        debug_assert_eq!(partial.offset, piece.part.offset, "pieces follow each other");
        partial.offset += piece.part.bytes;
        partial.sequence += piece.part.block_count;
        if piece.part.is_last {
            self.publish(partial);
        } else {
            self.partial.insert(piece.part.object, partial);
        }
        Ok(())
    }

    fn fail(&mut self, failure: PieceFailure) {
        self.meter.add_failure();
        self.failures.push(failure);
    }

    /// Returns a new file for the object, or the file that has the earlier pieces of the object.
    fn file_for(&mut self, piece: &Piece) -> Result<PartialFile, PieceError> {
        let part = &piece.part;
        if part.first_sequence > 0 {
            let partial = self.partial.remove(&part.object);
            let fits = |partial: &PartialFile| {
                (partial.offset, partial.sequence) == (part.offset, part.first_sequence)
            };
            return partial.filter(fits).ok_or(PieceError::BeganElsewhere);
        }
        match self.folder.stat(&piece.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(PieceError::Create(error)),
            Ok(_) => return Err(PieceError::Exists),
        }
        let file = NewFile::create(&self.folder, &piece.name).map_err(PieceError::Create)?;
        Ok(PartialFile { file, name: piece.name.clone(), offset: 0, sequence: 0 })
    }

    fn publish(&mut self, partial: PartialFile) {
        let PartialFile { file, name, offset, .. } = partial;
        match file.publish(false) {
            Ok(_) => {
                self.meter.add_object();
                self.files.push(ExtractedFile { name, bytes: offset });
            }
            Err(error) => self.fail(PieceFailure { name, error: PieceError::Publish(error) }),
        }
    }

    /// Ends the extraction. Each object whose end was not read becomes a failure.
    pub fn finish(mut self) -> ExtractionReport {
        for partial in std::mem::take(&mut self.partial).into_values() {
            self.fail(PieceFailure { name: partial.name, error: PieceError::EndsElsewhere });
        }
        ExtractionReport { files: self.files, failures: self.failures }
    }
}

/// Sink that writes the bytes of an object to its file.
struct FileSink<'a> {
    file: &'a NewFile,
    offset: u64,
    meter: &'a dyn Meter,
}

impl Write for FileSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.meter.is_stopped() {
            return Err(io::Error::other(STOPPED));
        }
        self.file.write_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        self.meter.add_bytes(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
