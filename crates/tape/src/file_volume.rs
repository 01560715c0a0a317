//! Files that stand for tapes: a folder with one file for each volume, used instead of a library.
//!
//! Invariants:
//! 1. A file `NAME.volume` begins with a whole label: labels are written to another name, synced,
//!    and renamed.
//! 2. Blocks that were written before [`Medium::mark`] returned survive a power cut.
//! 3. A torn record at the end, left by a crash, is neither read nor appended to: the next write
//!    cuts it off.
//! 4. A file that is not empty and does not begin with a record is not a volume: it reads as one
//!    block, so that its content can be identified, and never counts as blank.
//!
//! The bytes are in `docs/format/volume.md`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use format::volume::{BLOCK_BYTES_MAX, Label, VolumeName};
use sys::durable;

use crate::medium::{Medium, MediumError, ReadOutcome, WriteOutcome};
use crate::volume::{self, Overwrite, VolumeError};

const MAGIC: [u8; 4] = *b"HFR1";
const HEAD_BYTES: usize = 16;
/// Bytes of a record without its block.
const RECORD_BYTES: u64 = 2 * HEAD_BYTES as u64;
const SUFFIX: &str = ".volume";
const DRAFT_SUFFIX: &str = ".new";

/// Returns the head of a record, which is both before and after its block.
fn head(offset: u64, block_bytes: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&block_bytes.to_le_bytes());
    let mut keyed = offset.to_le_bytes().to_vec();
    keyed.extend_from_slice(&head[..8]);
    head[8..].copy_from_slice(&xxhash_rust::xxh3::xxh3_64(&keyed).to_le_bytes());
    head
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// A file that stands for a tape.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    /// True if the file could only be opened for reading.
    is_read_only: bool,
    capacity_bytes: u64,
    position: u64,
    /// Offset of the end of the last whole record.
    end: u64,
}

impl FileMedium {
    /// Opens the file at `path`, which holds at most `capacity_bytes`. A file that may only be read
    /// is write-protected.
    pub fn open(path: &Path, capacity_bytes: u64) -> io::Result<Self> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        match opened {
            Err(error) if is_forbidden(&error) => {
                let medium = Self::over(File::open(path)?, capacity_bytes)?;
                Ok(Self { is_read_only: true, ..medium })
            }
            opened => Self::over(opened?, capacity_bytes),
        }
    }

    fn over(file: File, capacity_bytes: u64) -> io::Result<Self> {
        let mut medium = Self { file, is_read_only: false, capacity_bytes, position: 0, end: 0 };
        medium.end = medium.find_end()?;
        Ok(medium)
    }

    fn find_end(&self) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        if length == 0 || self.record_in_front(length)?.is_some() {
            return Ok(length);
        }
        let mut end = 0;
        while let Some(block_bytes) = self.whole_record(end, length)? {
            end += RECORD_BYTES + u64::from(block_bytes);
        }
        debug_assert!(end <= length, "whole records lie within the file");
        Ok(end)
    }

    /// Returns the length of the block in the record at `offset`; `None` if no record begins there.
    fn record_at(&self, offset: u64) -> io::Result<Option<u32>> {
        let mut found = [0; HEAD_BYTES];
        match self.file.read_exact_at(&mut found, offset) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let block_bytes = u32::from_le_bytes([found[4], found[5], found[6], found[7]]);
        Ok((found == head(offset, block_bytes)).then_some(block_bytes))
    }

    /// Returns the length of the block at `offset` if its record is whole and ends within `length`.
    fn whole_record(&self, offset: u64, length: u64) -> io::Result<Option<u32>> {
        let Some(block_bytes) = self.record_at(offset)? else { return Ok(None) };
        let end = offset + RECORD_BYTES + u64::from(block_bytes);
        let ends_well = end <= length && self.record_in_front(end)? == Some((offset, block_bytes));
        Ok(ends_well.then_some(block_bytes))
    }

    /// Returns the offset and block length of the record that ends at `end`, if there is one.
    fn record_in_front(&self, end: u64) -> io::Result<Option<(u64, u32)>> {
        let Some(tail) = end.checked_sub(HEAD_BYTES as u64) else { return Ok(None) };
        let mut found = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut found, tail)?;
        let block_bytes = u32::from_le_bytes([found[4], found[5], found[6], found[7]]);
        let offset = end.checked_sub(RECORD_BYTES + u64::from(block_bytes));
        Ok(offset
            .filter(|&offset| found == head(offset, block_bytes))
            .map(|offset| (offset, block_bytes)))
    }

    /// Reads the beginning of a file that does not begin with a record.
    fn read_foreign(&self, buffer: &mut [u8]) -> Result<ReadOutcome, MediumError> {
        match self.file.read_at(buffer, 0) {
            Ok(0) => Ok(ReadOutcome::EndOfData),
            Ok(bytes) => Ok(ReadOutcome::Block { bytes }),
            Err(_) => Err(MediumError::Damaged { position: 0 }),
        }
    }

    /// Returns the number of bytes between the early warning and the end of the medium.
    fn warning_bytes(&self) -> u64 {
        const WARNING_BYTES_MAX: u64 = 64 << 20;
        (self.capacity_bytes / 16).min(WARNING_BYTES_MAX)
    }

    fn append(&mut self, block: &[u8]) -> Result<WriteOutcome, MediumError> {
        if self.is_write_protected()? {
            return Err(MediumError::WriteProtected);
        }
        let block_bytes = u32::try_from(block.len()).expect("bounded by BLOCK_BYTES_MAX");
        assert!(block_bytes <= BLOCK_BYTES_MAX, "a reader takes no larger block");
        assert!(self.position <= self.end, "records follow each other");
        let end = self.position + RECORD_BYTES + u64::from(block_bytes);
        if end > self.capacity_bytes {
            return Err(MediumError::EndOfMedium);
        }
        match self.write_record(&head(self.position, block_bytes), block) {
            Ok(()) => {}
            // A full file system counts as a full volume.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                return Err(MediumError::EndOfMedium);
            }
            Err(error) => return Err(MediumError::failed(error)),
        }
        self.position = end;
        self.end = end;
        let is_near = end > self.capacity_bytes - self.warning_bytes();
        Ok(if is_near { WriteOutcome::NearEnd } else { WriteOutcome::Whole })
    }

    /// Cuts off everything after the position, including torn records, and writes the record there.
    fn write_record(&mut self, head: &[u8], block: &[u8]) -> io::Result<()> {
        debug_assert_eq!(head.len(), HEAD_BYTES, "a record has a head at each end");
        if self.file.metadata()?.len() > self.position {
            self.file.set_len(self.position)?;
            self.end = self.position;
        }
        self.file.write_all_at(&[head, block, head].concat(), self.position)
    }
}

impl Medium for FileMedium {
    fn rewind(&mut self) -> Result<(), MediumError> {
        self.position = 0;
        Ok(())
    }

    fn locate(&mut self, position: u64) -> Result<(), MediumError> {
        if position > self.end {
            return Err(MediumError::EndOfData { position });
        }
        if position < self.end && self.record_at(position).map_err(MediumError::failed)?.is_none() {
            return Err(MediumError::Damaged { position });
        }
        self.position = position;
        Ok(())
    }

    fn locate_end(&mut self) -> Result<(), MediumError> {
        self.position = self.end;
        Ok(())
    }

    fn locate_last_block(&mut self) -> Result<bool, MediumError> {
        self.position = self.end;
        let in_front = |end| self.record_in_front(end).map_err(MediumError::failed);
        let Some((mark, 0)) = in_front(self.end)? else { return Ok(false) };
        let Some((block, 1..)) = in_front(mark)? else { return Ok(false) };
        self.position = block;
        Ok(true)
    }

    fn position(&mut self) -> Result<u64, MediumError> {
        Ok(self.position)
    }

    /// Does nothing: a file is always at the position that was set. If a block is wrong, the record
    /// itself is wrong.
    fn distrust(&mut self) {}

    fn make_ready(&mut self) -> Result<(), MediumError> {
        self.rewind()
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<ReadOutcome, MediumError> {
        debug_assert!(self.position <= self.end, "nothing is read after the end");
        if self.position >= self.end {
            return if self.end == 0 {
                self.read_foreign(buffer)
            } else {
                Ok(ReadOutcome::EndOfData)
            };
        }
        let position = self.position;
        let record = self.record_at(position).map_err(MediumError::failed)?;
        let block_bytes = record.ok_or(MediumError::Damaged { position })?;
        self.position += RECORD_BYTES + u64::from(block_bytes);
        let bytes = block_bytes as usize;
        if bytes == 0 {
            return Ok(ReadOutcome::Filemark);
        }
        let taken = bytes.min(buffer.len());
        let at = position + HEAD_BYTES as u64;
        let read = self.file.read_exact_at(&mut buffer[..taken], at);
        // A record that the disk cannot read is lost; the rest of the file may be readable.
        read.map_err(|_| MediumError::Damaged { position })?;
        let is_whole = taken == bytes;
        Ok(if is_whole { ReadOutcome::Block { bytes } } else { ReadOutcome::LongBlock { bytes } })
    }

    fn write(&mut self, block: &[u8]) -> Result<WriteOutcome, MediumError> {
        assert!(!block.is_empty(), "a filemark is not a block");
        self.append(block)
    }

    fn mark(&mut self) -> Result<WriteOutcome, MediumError> {
        let written = self.append(&[])?;
        self.file.sync_data().map_err(MediumError::failed)?;
        Ok(written)
    }

    fn is_write_protected(&mut self) -> Result<bool, MediumError> {
        let mode = self.file.metadata().map_err(MediumError::failed)?.permissions().mode();
        Ok(self.is_read_only || mode & 0o222 == 0)
    }

    fn block_bytes_max(&self) -> u32 {
        BLOCK_BYTES_MAX
    }

    fn remaining_bytes(&mut self) -> Result<Option<u64>, MediumError> {
        Ok(Some(self.capacity_bytes.saturating_sub(self.end)))
    }
}

/// A folder of volumes. Only one process at a time uses the folder.
#[derive(Debug)]
pub struct FileVolumes {
    folder: PathBuf,
    capacity_bytes: u64,
    /// Lock of the folder; `None` if this process may only read the volumes.
    lock: Option<durable::Lock>,
}

impl FileVolumes {
    /// Opens `folder`, whose volumes hold `capacity_bytes` each. The error `WouldBlock` means that
    /// another process uses the folder. If this process may not write in the folder, all volumes
    /// are write-protected.
    pub fn open(folder: &Path, capacity_bytes: u64) -> io::Result<Self> {
        let lock = match durable::Lock::try_exclusive(&folder.join("lock")) {
            Ok(lock) => Some(lock.ok_or(io::ErrorKind::WouldBlock)?),
            Err(error) if is_forbidden(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { folder: folder.to_owned(), capacity_bytes, lock })
    }

    fn path(&self, name: &VolumeName) -> PathBuf {
        self.folder.join(format!("{name}{SUFFIX}"))
    }

    /// Returns the names of the volumes in the folder; ignores other files.
    pub fn names(&self) -> io::Result<Vec<VolumeName>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let file_name = entry?.file_name();
            let name = file_name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            names.extend(name.and_then(|name| VolumeName::new(name).ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Opens the medium of a volume for reading and writing.
    pub fn medium(&self, name: &VolumeName) -> Result<FileMedium, VolumeError> {
        match FileMedium::open(&self.path(name), self.capacity_bytes) {
            Ok(medium) => {
                let is_read_only = medium.is_read_only || self.lock.is_none();
                Ok(FileMedium { is_read_only, ..medium })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(MediumError::NoMedium.into())
            }
            Err(error) => Err(MediumError::failed(error).into()),
        }
    }

    /// Creates a volume, or replaces a volume if `overwrite` allows that. Either change is atomic.
    pub fn label(&self, label: &Label, overwrite: Overwrite) -> Result<(), VolumeError> {
        if self.lock.is_none() {
            return Err(MediumError::WriteProtected.into());
        }
        let path = self.path(&label.name);
        match FileMedium::open(&path, self.capacity_bytes) {
            Ok(mut medium) => volume::check_overwrite(&mut medium, overwrite)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(MediumError::failed(error).into()),
        }
        let draft = self.folder.join(format!("{}{DRAFT_SUFFIX}", label.name));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&draft).map_err(MediumError::failed)?;
        let mut medium =
            FileMedium::over(file, self.capacity_bytes).map_err(MediumError::failed)?;
        volume::write_label(&mut medium, label)?;
        let published = std::fs::rename(&draft, &path);
        published
            .and_then(|()| durable::sync_dir(&self.folder))
            .map_err(|error| MediumError::failed(error).into())
    }

    /// Removes a volume and all its content.
    pub fn remove(&self, name: &VolumeName) -> io::Result<()> {
        if self.lock.is_none() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        std::fs::remove_file(self.path(name))?;
        durable::sync_dir(&self.folder)
    }
}
